"""Reader of delete blocks of old tables, whose records Java's library Kryo wrote.

Version 2 (Hudi 0.9 to 0.12) holds an array of DeleteRecord, with key and ordering value; version 1 one of HoodieKey::

    DeleteRecord[]  HoodieKey[]
    DeleteRecord    hoodieKey, orderingVal
    HoodieKey       partitionPath, recordKey

Kryo writes an object as its class, a byte that tells whether it was written before, and its fields in the order of
their names. A class that Kryo knows, such as those of simple types, is a number; any other is a name, and a number when
it is mentioned again. Only these classes and simple types are read here.

Hudi: org.apache.hudi.common.util.SerializationUtils.
"""

from __future__ import annotations

import struct
from typing import Any

import attrs
import pyarrow as pa

_PACKAGE = "org.apache.hudi.common.model."
_KEY = f"{_PACKAGE}HoodieKey"
_RECORD = f"{_PACKAGE}DeleteRecord"
_NULL, _NAMED = 0, 1
_FIRST_ID = 2
"""The number of class 0: smaller numbers stand for null and a name."""
_NEW_OBJECT = 1
_STRING = "string"
_SIMPLE: tuple[pa.DataType | str, ...] = (
    pa.int32(), _STRING, pa.float32(), pa.bool_(), pa.int8(), "char", pa.int16(), pa.int64(), pa.float64(),
)  # fmt: skip
"""The classes that Kryo knows, at the places of their numbers."""
_MOST_VARINT_BYTES = 9


@attrs.frozen
class OldDelete:
    """A record of an old delete block.

    Attributes:
        record_key: The key.
        partition_path: The partition; None if it was left out.
        ordering: The ordering value; None if there is none.
        ordering_type: Its Java type, as an Arrow type; None if there is none.
    """

    record_key: str
    partition_path: str | None
    ordering: Any = None
    ordering_type: pa.DataType | None = None


def read_old_deletes(content: bytes) -> list[OldDelete]:
    """The records of a block of version 1 or 2.

    Args:
        content: The bytes after the version and the length.

    Raises:
        ValueError: The content is damaged, or holds other objects.
    """
    reader = _KryoReader(content)
    array = reader.read_class()
    if array not in (f"[L{_RECORD};", f"[L{_KEY};"):
        raise ValueError(f"it holds {array} instead of deleted records")
    reader.expect_new_object()
    count = reader.read_varint() - 1
    if not 0 <= count <= len(content):
        raise ValueError(f"it announces {count} records")
    found = [reader.read_record() for _ in range(count)]
    if reader.rest:
        raise ValueError(f"{reader.rest} bytes follow the last record")
    return found


class _KryoReader:
    """Reader of values that Kryo wrote, never beyond their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self._names: list[str] = []
        self._strings: dict[int, str] = {}
        self._objects = 0

    @property
    def rest(self) -> int:
        return len(self._data) - self._position

    def read_record(self) -> OldDelete:
        kind = self.read_class()
        if kind == _KEY:
            return OldDelete(*self._read_key())
        if kind != _RECORD:
            raise ValueError(f"it holds {kind} among deleted records")
        self.expect_new_object()
        if self.read_class() != _KEY:
            raise ValueError("a deleted record has no key")
        key, partition = self._read_key()
        return OldDelete(key, partition, *self._read_ordering())

    def read_class(self) -> str | pa.DataType | None:
        """The name of a class, or the type of a simple one; None for a null."""
        number = self.read_varint()
        if number == _NULL:
            return None
        if number != _NAMED:
            if number - _FIRST_ID >= len(_SIMPLE):
                raise ValueError(f"class {number - _FIRST_ID} is not known")
            return _SIMPLE[number - _FIRST_ID]
        name_id = self.read_varint()
        if name_id == len(self._names):
            self._names.append(self._read_text() or "")
        elif name_id > len(self._names):
            raise ValueError(f"name {name_id} of a class was not given")
        return self._names[name_id]

    def expect_new_object(self) -> None:
        if self.read_varint() != _NEW_OBJECT:
            raise ValueError("an object was there before")
        self._objects += 1

    def read_varint(self) -> int:
        value = 0
        for number in range(_MOST_VARINT_BYTES):
            byte = self._take(1)[0]
            # The ninth byte of a long holds eight bits of it.
            if number == _MOST_VARINT_BYTES - 1 or byte < 0x80:
                return value | byte << 7 * number
            value |= (byte & 0x7F) << 7 * number
        raise AssertionError

    def _read_key(self) -> tuple[str, str | None]:
        self.expect_new_object()
        partition, key = self._read_shared_text(), self._read_shared_text()
        if key is None:
            raise ValueError("a record has no key")
        return key, partition

    def _read_ordering(self) -> tuple[Any, pa.DataType | None]:
        kind = self.read_class()
        if kind is None:
            return None, None
        if kind == _STRING:
            return self._read_shared_text(), pa.string()
        if kind == pa.bool_():
            return bool(self._take(1)[0]), pa.bool_()
        if kind == pa.float32():
            return struct.unpack(">f", self._take(4))[0], pa.float32()
        if kind == pa.float64():
            return struct.unpack(">d", self._take(8))[0], pa.float64()
        if kind in (pa.int32(), pa.int64()):
            number, bits = self.read_varint(), 32 if kind == pa.int32() else 64
            value = (number >> 1) ^ -(number & 1)
            if not -(1 << bits - 1) <= value < 1 << bits - 1:
                raise ValueError(f"{value} is no integer of {bits} bits")
            return value, pa.int32() if bits == 32 else pa.int64()
        raise ValueError(f"ordering values of the class {kind} are not supported")

    def _read_shared_text(self) -> str | None:
        """A text, or the number of a text that was written before."""
        number = self.read_varint()
        if number == _NULL:
            return None
        if number != _NEW_OBJECT:
            if number - _FIRST_ID not in self._strings:
                raise ValueError(f"text {number - _FIRST_ID} was not given")
            return self._strings[number - _FIRST_ID]
        place = self._objects
        self._objects += 1
        text = self._read_text()
        if text is not None:
            self._strings[place] = text
        return text

    def _read_text(self) -> str | None:
        first = self._take(1)[0]
        if not first & 0x80:
            # ASCII: the last character has the upper bit.
            end = self._position
            while end < len(self._data) and self._data[end] < 0x80:
                end += 1
            text = bytes([first]) + self._take(end + 1 - self._position)
            return (text[:-1] + bytes([text[-1] & 0x7F])).decode("ascii")
        length, shift = first & 0x3F, 6
        if first & 0x40:
            for _ in range(4):
                byte = self._take(1)[0]
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
        return None if length == 0 else self._read_characters(length - 1)

    def _read_characters(self, count: int) -> str:
        """Characters of UTF-16, each in one to three bytes."""
        if count > self.rest:
            raise ValueError(f"a text of {count} characters where {self.rest} bytes are left")
        units = []
        for _ in range(count):
            first = self._take(1)[0]
            if first < 0x80:
                units.append(first)
            elif first < 0xE0:
                units.append((first & 0x1F) << 6 | self._take(1)[0] & 0x3F)
            else:
                second, third = self._take(2)
                units.append((first & 0x0F) << 12 | (second & 0x3F) << 6 | third & 0x3F)
        return struct.pack(f">{count}H", *units).decode("utf-16-be")

    def _take(self, count: int) -> bytes:
        if count > self.rest:
            raise ValueError("it ends too early")
        self._position += count
        return self._data[self._position - count : self._position]
