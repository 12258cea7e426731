"""Readers of Avro values without values in them: from many places of a content to one Arrow array."""

from __future__ import annotations

import abc
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from hoodie.avro.avro_type import AvroType
from hoodie.avro.columnar_cursors import Bytes, Cursors, Flags, Longs
from hoodie.common.util.arrow_buffers import array_of, booleans_of, numbers_of

MICROS_PER_MILLI = 1000
_MAX_MILLIS = (2**63 - 1) // MICROS_PER_MILLI
_DAY = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
_DECIMAL_BYTES = 16
_MAX_NUMBER_BYTES = 10


class BadValueError(Exception):
    """Bytes that are not a value; its text is the reason."""


class Reader(abc.ABC):
    """Reads values of one type.

    Args:
        avro: The type as written.
        wanted: The Arrow type to make, into which the one written can be read.
    """

    def __init__(self, avro: AvroType, wanted: pa.DataType) -> None:
        self.avro = avro
        self.path = avro.path
        self.wanted = wanted

    @abc.abstractmethod
    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        """The next value of each cursor; the cursors step over it.

        Returns:
            One element for each cursor. None if not wanted, and after a record was found to be torn, which
            `Content.is_torn` tells: then bytes are only checked.
        """

    @abc.abstractmethod
    def step(self, data: memoryview, position: int, end: int) -> int:
        """The end of one value. For a few values among many, this takes less time than `read`.

        Args:
            data: The content.
            position: The offset of the value.
            end: The end of its record.

        Raises:
            BadValueError: The bytes are not a value.
        """


def step_over_number(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """An integer, and where it ends.

    Raises:
        BadValueError: It goes beyond its record, or takes more than 64 bits.
    """
    raw = 0
    for place in range(_MAX_NUMBER_BYTES):
        if position >= end:
            raise BadValueError("the record is cut short")
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if raw >> 64:
                break
            return (raw >> 1) ^ -(raw & 1), position
    raise BadValueError("a number takes more than 64 bits")


def step_over_length(data: memoryview, position: int, end: int) -> int:
    """The end of the bytes after their length, which is next.

    Raises:
        BadValueError: The bytes go beyond their record.
    """
    length, position = step_over_number(data, position, end)
    if not 0 <= length <= end - position:
        raise BadValueError("a length is negative, or greater than what is left of the record")
    return position + length


class NullReader(Reader):
    """Reads the type null, which takes no bytes."""

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        return pa.nulls(len(cursors), self.wanted) if is_wanted else None

    def step(self, data: memoryview, position: int, end: int) -> int:
        return position


class BooleanReader(Reader):
    """Reads booleans."""

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        found = cursors.byte()
        bad = found > 1
        if bad.any():
            cursors.fail(bad, self.path, "a boolean is neither 0 nor 1")
        if not is_wanted or cursors.content.is_torn:
            return None
        return booleans_of(found)

    def step(self, data: memoryview, position: int, end: int) -> int:
        if position >= end:
            raise BadValueError("the record is cut short")
        if data[position] > 1:
            raise BadValueError("a boolean is neither 0 nor 1")
        return position + 1


class IntegerReader(Reader):
    """Reads ints and longs, and the logical types on them."""

    def __init__(self, avro: AvroType, wanted: pa.DataType) -> None:
        super().__init__(avro, wanted)
        self._is_int = avro.kind == "int"
        self._is_millis = avro.logical in ("timestamp-millis", "local-timestamp-millis")
        self._day = _DAY.get(avro.logical or "")

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        found = cursors.number(self.path)
        short = found.astype(np.int32) if self._is_int else None
        if short is not None and (short != found).any():
            cursors.fail(short != found, self.path, "an int takes more than 32 bits")
        if self._day is not None:
            bad = (found < 0) | (found >= self._day)
            if bad.any():
                cursors.fail(bad, self.path, "a time is not within a day")
        if self._is_millis:
            bad = (found < -_MAX_MILLIS) | (found > _MAX_MILLIS)
            if bad.any():
                cursors.fail(bad, self.path, "a timestamp in milliseconds has no microseconds of 64 bits")
            found *= MICROS_PER_MILLI
        if not is_wanted or cursors.content.is_torn:
            return None
        values = found if short is None else short
        return widened(numbers_of(values, self.avro.arrow_type), self.wanted)

    def step(self, data: memoryview, position: int, end: int) -> int:
        value, position = step_over_number(data, position, end)
        if self._is_int and not -(1 << 31) <= value < 1 << 31:
            raise BadValueError("an int takes more than 32 bits")
        if self._day is not None and not 0 <= value < self._day:
            raise BadValueError("a time is not within a day")
        if self._is_millis and not -_MAX_MILLIS <= value <= _MAX_MILLIS:
            raise BadValueError("a timestamp in milliseconds has no microseconds of 64 bits")
        return position


class FloatReader(Reader):
    """Reads floats and doubles."""

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        size = 4 if self.avro.kind == "float" else 8
        if not is_wanted or cursors.content.is_torn:
            cursors.positions = cursors.positions + size
            return None
        bits = cursors.word(size)
        values = bits.astype(np.uint32) if size == 4 else bits
        return widened(numbers_of(values, self.avro.arrow_type), self.wanted)

    def step(self, data: memoryview, position: int, end: int) -> int:
        return position + (4 if self.avro.kind == "float" else 8)


class BytesReader(Reader):
    """Reads bytes and strings, each as the other one if wanted."""

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        found = cursors.spans(cursors.lengths(self.path), is_wanted)
        if found is None or (self.avro.kind == "bytes" and pa.types.is_binary(self.wanted)):
            return found
        try:
            text = found.cast(pa.string())
        except pa.ArrowInvalid:
            bad = _bad_text(found)
            cursors.content.flag(cursors.records[bad], f"field {self.path!r}: a string is not UTF-8")
            return pa.repeat("", len(found)).cast(self.wanted)
        return text if pa.types.is_string(self.wanted) else found

    def step(self, data: memoryview, position: int, end: int) -> int:
        return step_over_length(data, position, end)


class FixedReader(Reader):
    """Reads fixed values."""

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        found = _fixed_bytes(cursors, self.path, self.avro.size, is_wanted)
        return None if found is None else numbers_of(found.reshape(len(cursors), self.avro.size), self.wanted)

    def step(self, data: memoryview, position: int, end: int) -> int:
        return position + self.avro.size


class EnumReader(Reader):
    """Reads the symbols of an enum as strings."""

    def __init__(self, avro: AvroType, wanted: pa.DataType) -> None:
        super().__init__(avro, wanted)
        self._symbols = array_of(avro.symbols, wanted)

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        found = cursors.choice(len(self._symbols), self.path, "symbol")
        return None if not is_wanted or cursors.content.is_torn else self._symbols.take(pa.array(found))

    def step(self, data: memoryview, position: int, end: int) -> int:
        value, position = step_over_number(data, position, end)
        if not 0 <= value < len(self._symbols):
            raise BadValueError("there is no symbol of that number")
        return position


class DecimalReader(Reader):
    """Reads decimals in bytes and in fixed values."""

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        if self.avro.kind == "fixed":
            found = _fixed_bytes(cursors, self.path, self.avro.size, is_wanted)
            if found is None:
                return None
            lengths = np.full(len(cursors), self.avro.size, np.int64)
            ends = np.cumsum(lengths)
        else:
            lengths = cursors.lengths(self.path)
            spans = cursors.spans(lengths, is_wanted)
            if spans is None:
                return None
            found = _bytes_of(spans.buffers()[2])
            ends = np.cumsum(lengths)
        bad = lengths == 0
        values = self._big_endian(found, lengths, ends, bad)
        words = np.ascontiguousarray(values[:, ::-1]).view("<u8")
        bad |= _is_too_large(words[:, 0], words[:, 1], 10**self.avro.arrow_type.precision)
        if bad.any():
            reason = f"field {self.path!r}: a decimal is empty or has too many digits"
            cursors.content.flag(cursors.records[bad], reason)
            words[bad] = 0
        array = numbers_of(words, self.avro.arrow_type)
        return array if array.type == self.wanted else array.cast(self.wanted)

    def _big_endian(self, found: Bytes, lengths: Longs, ends: Longs, bad: Flags) -> Bytes:
        """The lowest 16 bytes of each number; ``bad`` gets a flag for numbers with more significant bytes."""
        padded = np.concatenate([np.zeros(_DECIMAL_BYTES, np.uint8), found, np.zeros(1, np.uint8)])
        first = padded.take(ends - lengths + _DECIMAL_BYTES, mode="clip")
        signs = np.where((first > 0x7F) & (lengths > 0), 0xFF, 0).astype(np.uint8)
        places = ends[:, None] + np.arange(_DECIMAL_BYTES)
        values = padded.take(places, mode="clip")
        is_behind = np.arange(_DECIMAL_BYTES, 0, -1)[None, :] > lengths[:, None]
        values = np.where(is_behind, signs[:, None], values)
        long = np.flatnonzero(lengths > _DECIMAL_BYTES)
        if len(long):
            # Only sign bytes may precede the lowest bytes, and the number must not look like one of another sign.
            sign_sums = np.concatenate([[0], np.cumsum(found == 0xFF)]), np.concatenate([[0], np.cumsum(found == 0)])
            start, until = (ends - lengths)[long], ends[long] - _DECIMAL_BYTES
            counts = [sums[until] - sums[start] for sums in sign_sums]
            signs_found = np.where(signs[long] == 0xFF, counts[0], counts[1])
            other_sign = (values[long, 0] > 0x7F) != (signs[long] == 0xFF)
            bad[long] |= (signs_found != until - start) | other_sign
        return values

    def step(self, data: memoryview, position: int, end: int) -> int:
        return position + self.avro.size if self.avro.kind == "fixed" else step_over_length(data, position, end)


def _fixed_bytes(cursors: Cursors, path: str, size: int, is_wanted: bool) -> Bytes | None:
    over = cursors.ends - cursors.positions < size
    if over.any():
        cursors.fail(over, path, "the record is cut short")
    spans = cursors.spans(np.full(len(cursors), size, np.int64), is_wanted)
    return None if spans is None else _bytes_of(spans.buffers()[2])


def _bytes_of(buffer: pa.Buffer | None) -> Bytes:
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def _bad_text(found: pa.BinaryArray) -> Flags:
    def is_bad(value: bytes) -> bool:
        try:
            value.decode("utf-8")
        except UnicodeDecodeError:
            return True
        return False

    return np.array([is_bad(value) for value in found.to_pylist()], np.bool_)


def _is_too_large(low: np.ndarray, high: np.ndarray, bound: int) -> Flags:
    """Whether numbers of 128 bits are not between minus a bound and the bound, both excluded."""
    is_negative = high >> np.uint64(63) == 1
    size_low = np.where(is_negative, ~low + np.uint64(1), low)
    size_high = np.where(is_negative, ~high + (low == 0), high)
    bound_high, bound_low = np.uint64(bound >> 64), np.uint64(bound & (1 << 64) - 1)
    too_large: Flags = (size_high > bound_high) | ((size_high == bound_high) & (size_low >= bound_low))
    return too_large


def widened(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Numbers in a wider type, by the nearest value, as Avro does."""
    return array if array.type == wanted else array.cast(wanted, safe=False)


READERS: dict[str, Callable[[AvroType, pa.DataType], Reader]] = {
    "null": NullReader,
    "boolean": BooleanReader,
    "int": IntegerReader,
    "long": IntegerReader,
    "float": FloatReader,
    "double": FloatReader,
    "bytes": BytesReader,
    "string": BytesReader,
    "fixed": FixedReader,
    "enum": EnumReader,
}
