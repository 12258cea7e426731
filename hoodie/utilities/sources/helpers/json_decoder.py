"""Rows of JSON messages and of lines of JSON files.

A block of messages is read at once by Arrow's reader. That reader takes some things for rows that are none, and it
refuses values that Hudi converts, so a block counts only under conditions:

1. Every message begins with ``{`` and ends with ``}``, holds no ``NaN``, and no more than `MAX_DEPTH` levels.
2. The block is UTF-8.
3. The block has as many rows as messages. (A message that ended within an object would be an error of the block.)

Messages that do not meet the first condition are read one by one, by the rules of Hudi
(`hoodie.utilities.sources.helpers.json_values`). So are those of a block that failed; it is cut into smaller and
smaller ones before. Both ways give the same rows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Context, Decimal

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from hoodie.avro.avro_type import AvroType
from hoodie.avro.schema_converters import to_arrow, to_avro
from hoodie.avro.schema_reader import AvroReader, parse_record
from hoodie.common.model.record_columns import META_COLUMN_SET
from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason, error_batch
from hoodie.utilities.sources.helpers.json_time_columns import OtherTextError, is_read_at_once, times_of_texts
from hoodie.utilities.sources.helpers.json_values import (
    MAX_DEPTH,
    JsonValueError,
    MercifulJsonConverter,
    parse_object,
)
from hoodie.utilities.sources.helpers.message_decoder import MessageDecoder, Messages
from hoodie.utilities.sources.source import DecodedBatch, RowOrigin

Positions = npt.NDArray[np.int64]

_PIECES = 16
_SMALL_BLOCK = 64
"""The most messages of a failed block that are read one by one at once."""
_MAX_BLOCK_BYTES = 64 * 1024 * 1024
_NOT_A_NUMBER = re.compile(rb"[:\[,]\s*-?(?:NaN|Inf)")
_WIDE = Context(prec=40)
_FRAME_BYTES = 5
_NO_FRAME = "it does not begin with the zero and the schema id of a schema registry"
LOOKS_FRAMED = (
    "it begins with a zero, as messages with a schema registry do; if it is Avro, give --source-class AvroKafkaSource"
)
"""The hint for a message that is read as bare JSON."""
_UNFINISHED = (b"{", b"[", b",", b":")
"""The ends of lines after which an object goes on."""
_NO_NUMBERS = (b"Na", b"In")
"""The beginnings of what Arrow's reader takes for numbers."""
_OPENING, _CLOSING = ord("{"), ord("}")
_SHORTEST_DEEP = 2 * MAX_DEPTH
"""A message with more levels has more bytes."""
_CACHED_BYTES = 256 * 1024
"""The part of a block that is looked at at once: what is made of it stays in the processor's cache."""


class _BlockRefusedError(Exception):
    """A block whose messages must be looked at one by one."""


@attrs.frozen(eq=False)
class DecodedObjects:
    """Rows of texts, and what was wrong with the others.

    Attributes:
        rows: The good rows, in the order of the texts.
        positions: The number of each row's text.
        failures: The number of a text, and what is wrong with it.
    """

    rows: pa.RecordBatch
    positions: Positions
    failures: Sequence[tuple[int, str]]


@attrs.frozen
class JsonDecoder(MessageDecoder):
    """Makes rows of messages that are JSON objects.

    A message without a byte gives no row, as in Hudi; a tombstone neither.

    Attributes:
        avro_schema: The schema of the rows, as JSON of an Avro record.
        is_framed: Whether each message begins with the frame of a schema registry: a zero, and the id of a schema.
        is_exact: Whether numbers that do not fit their type are errors; otherwise they are cut as Java's casts do.
    """

    avro_schema: str
    is_framed: bool = False
    is_exact: bool = False

    @classmethod
    def of_columns(cls, columns: pa.Schema, is_framed: bool = False) -> JsonDecoder:
        """A decoder for columns of a table, or of some messages. Numbers that do not fit them are errors.

        Args:
            columns: The columns.
            is_framed: Whether each message begins with the frame of a schema registry.

        Raises:
            HoodieSchemaException: A column has a type or a name that cannot be stored.
        """
        return cls(to_avro(columns, "json_record", "hoodie.streamer"), is_framed, is_exact=True)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return to_arrow(self.avro_schema)

    def decode(self, messages: Messages) -> DecodedBatch:
        """Make rows of the messages of a partition.

        Args:
            messages: The messages.
        """
        present = np.arange(len(messages))
        texts = [value for value in messages.values if value]
        if len(texts) < len(messages):
            present = np.flatnonzero(np.fromiter(map(bool, messages.values), np.bool_, len(messages)))
        decoded = self.decode_objects(list(map(without_frame, texts)) if self.is_framed else texts)
        events = [
            ErrorEvent(
                ErrorReason.JSON_AVRO_DESERIALIZATION_FAILURE,
                self._reason_of_message(texts[number], reason),
                texts[number],
                topic=messages.topic,
                partition=messages.partition,
                offset=int(messages.offsets[present[number]]),
            )
            for number, reason in decoded.failures
        ]
        offsets = messages.offsets[present[decoded.positions]]
        origin = RowOrigin(offsets, messages.topic, messages.partition)
        return DecodedBatch(decoded.rows, error_batch(events), origin)

    def decode_lines(self, file: str, first_line: int, lines: Sequence[bytes]) -> DecodedBatch:
        """Make rows of lines of a file with one object a line; empty lines are passed over.

        Args:
            file: The path, for errors.
            first_line: The number of the first line; that of a file is 1.
            lines: The lines; ends of lines at their end do not matter.
        """
        numbers = [number for number, line in enumerate(lines) if line.strip()]
        texts = [lines[number].rstrip() for number in numbers]
        decoded = self.decode_objects(texts)
        events = [
            ErrorEvent(
                ErrorReason.JSON_AVRO_DESERIALIZATION_FAILURE,
                _reason_of_line(texts[number], reason),
                texts[number],
                file=file,
                line=first_line + numbers[number],
            )
            for number, reason in decoded.failures
        ]
        of_rows = np.asarray(numbers, dtype=np.int64)[decoded.positions] + first_line
        return DecodedBatch(decoded.rows, error_batch(events), RowOrigin(of_rows, file=file))

    def _reason_of_message(self, text: bytes, reason: str) -> str:
        is_framed = text[:1] == b"\0"
        if is_framed == self.is_framed:
            return reason
        return f"{reason}; {LOOKS_FRAMED}" if is_framed else _NO_FRAME

    def decode_objects(self, texts: Sequence[bytes]) -> DecodedObjects:
        """Make rows of JSON objects.

        Args:
            texts: The texts, of one object each.
        """
        parts = [self._decode_block(texts, start, end) for start, end in _bounded(texts)]
        if len(parts) == 1:
            return parts[0]
        return DecodedObjects(
            _concatenated(self.schema, [part.rows for part in parts]),
            np.concatenate([part.positions for part in parts]) if parts else np.empty(0, np.int64),
            [failure for part in parts for failure in part.failures],
        )

    def decode_singly(self, texts: Sequence[bytes], positions: Iterable[int]) -> DecodedObjects:
        """Make rows of JSON objects, one by one.

        Args:
            texts: The texts.
            positions: The numbers of those to take.
        """
        converter = _plan(self.avro_schema, self.is_exact).converter
        rows, good, failures = [], [], []
        for position in positions:
            try:
                rows.append(converter.values(parse_object(texts[position])))
            except JsonValueError as error:
                failures.append((position, str(error)))
            else:
                good.append(position)
        schema = self.schema
        columns = [pa.array([row[number] for row in rows], field.type) for number, field in enumerate(schema)]
        return DecodedObjects(
            pa.RecordBatch.from_arrays(columns, schema=schema), np.array(good, dtype=np.int64), failures
        )

    def _decode_block(self, texts: Sequence[bytes], start: int, end: int) -> DecodedObjects:
        plan = _plan(self.avro_schema, self.is_exact)
        if plan.wire_schema is None:
            return self.decode_singly(texts, range(start, end))
        block, is_odd = odd_ones(texts[start:end])
        if not is_odd.any():
            return _in_order(self.schema, self._decode_good(texts, np.arange(start, end), block))
        found = self._decode_good(texts, np.flatnonzero(~is_odd) + start)
        found.append(self.decode_singly(texts, (np.flatnonzero(is_odd) + start).tolist()))
        return _in_order(self.schema, found)

    def _decode_good(self, texts: Sequence[bytes], good: Positions, block: bytes | None = None) -> list[DecodedObjects]:
        if not len(good):
            return []
        if block is None:
            block = b"\n".join([texts[position] for position in good.tolist()])
        rows = _plan(self.avro_schema, self.is_exact).read(block, len(good), self.schema, texts[int(good[0])])
        if rows is not None:
            return [DecodedObjects(rows, good, ())]
        if len(good) <= _SMALL_BLOCK:
            return [self.decode_singly(texts, good.tolist())]
        step = -(-len(good) // _PIECES)
        return [
            part for first in range(0, len(good), step) for part in self._decode_good(texts, good[first : first + step])
        ]


def without_frame(message: bytes) -> bytes:
    """The JSON of a message with the frame of a schema registry; nothing if it has none.

    Args:
        message: The message.
    """
    return message[_FRAME_BYTES:] if message[:1] == b"\0" else b""


def _reason_of_line(text: bytes, reason: str) -> str:
    """The reason why a line is no object, with what to do about forms that are not one object a line."""
    start = text.lstrip()
    if start.startswith(b"["):
        return "an array: give one object a line"
    if start.startswith(b"{") and start.endswith(_UNFINISHED):
        return "an object over several lines: give one object a line"
    return reason


class _Plan:
    """The parts that reading needs for a schema, made once in a process.

    Args:
        wire_schema: The columns as Arrow's JSON reader gives them, with numbers for times; None if it cannot give them.
        types: The types of the columns.
        converter: The rules for single messages.
        is_exact: Whether numbers that do not fit their type are errors.
    """

    def __init__(
        self,
        wire_schema: pa.Schema | None,
        types: Sequence[AvroType],
        converter: MercifulJsonConverter,
        is_exact: bool,
    ) -> None:
        self.wire_schema = wire_schema
        self.converter = converter
        self._types = types
        self._unfinished = [number for number, avro in enumerate(types) if _needs_more(avro, is_exact)]
        self._times = [number for number in self._unfinished if is_read_at_once(_without_null(types[number]))]
        self._texts: frozenset[int] = frozenset()
        """The columns whose times were texts in the last block."""

    def read(self, block: bytes, count: int, schema: pa.Schema, first: bytes) -> pa.RecordBatch | None:
        """Read a block.

        Args:
            block: The texts, with ends of lines between them.
            count: The number of texts.
            schema: The columns of the rows.
            first: The first text, which tells how times are written.

        Returns:
            The rows; None if the texts have to be looked at one by one.
        """
        before = self._texts
        found = self._read(block, count, schema, before)
        if found is not None or not self._times:
            return found
        texts = self._texts_in(first, before)
        if texts != before:
            found = self._read(block, count, schema, texts)
            if found is not None:
                self._texts = texts
        return found

    def _texts_in(self, message: bytes, before: frozenset[int]) -> frozenset[int]:
        """The columns whose times are texts in a message; those that it lacks stay as they were."""
        try:
            found = parse_object(message)
        except JsonValueError:
            return before
        values = {number: found.get(self._names[number]) for number in self._times}
        return frozenset(
            number for number, value in values.items() if (number in before if value is None else type(value) is str)
        )

    @property
    def _names(self) -> Sequence[str]:
        return [] if self.wire_schema is None else self.wire_schema.names

    def _read(self, block: bytes, count: int, schema: pa.Schema, texts: frozenset[int]) -> pa.RecordBatch | None:
        try:
            return self._read_rows(block, count, schema, texts)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OtherTextError, _BlockRefusedError):
            return None

    def _read_rows(self, block: bytes, count: int, schema: pa.Schema, texts: frozenset[int]) -> pa.RecordBatch:
        wire_schema = self.wire_schema
        if texts and wire_schema is not None:
            fields = [one.with_type(pa.string()) if n in texts else one for n, one in enumerate(wire_schema)]
            wire_schema = pa.schema(fields)
        table = pyarrow.json.read_json(
            pa.BufferReader(block),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=wire_schema, unexpected_field_behavior="ignore"),
        )
        if table.num_rows != count:
            raise _BlockRefusedError
        columns = [_one_array(column) for column in table.columns]
        for number in self._unfinished:
            avro = self._types[number]
            if number in texts:
                columns[number] = times_of_texts(_without_null(avro), columns[number])
            else:
                columns[number] = _finished(avro, columns[number])
        return pa.RecordBatch.from_arrays(columns, schema=schema)


@functools.lru_cache(maxsize=32)
def _plan(avro_schema: str, is_exact: bool) -> _Plan:
    record = AvroReader().read(parse_record(avro_schema))
    fields = [
        (name, avro) for name, avro in zip(record.names, record.inner, strict=True) if name not in META_COLUMN_SET
    ]
    wire = [_wire_type(avro) for _, avro in fields]
    wire_schema = None
    if fields and None not in wire:
        wire_schema = pa.schema(
            [
                pa.field(name, data_type, nullable=avro.is_nullable)
                for (name, avro), data_type in zip(fields, wire, strict=True)
            ]
        )
    return _Plan(wire_schema, [avro for _, avro in fields], MercifulJsonConverter(record, is_exact), is_exact)


def _without_null(avro: AvroType) -> AvroType:
    """The type of the values of a union with null. That of two kinds of numbers is left as it is."""
    others = [branch for branch in avro.inner if branch.kind != "null"]
    return others[0] if avro.kind == "union" and len(others) == 1 else avro


def _wire_type(avro: AvroType) -> pa.DataType | None:
    """The type that Arrow's JSON reader gives; None if it has none for this one.

    Fields of structs can be null there: the reader takes those of a null struct for nulls.
    """
    avro = _without_null(avro)
    if avro.kind == "array":
        item = _wire_type(avro.inner[0])
        return None if item is None else pa.list_(avro.arrow_type.value_field.with_type(item))
    if avro.kind == "record":
        types = [_wire_type(inner) for inner in avro.inner]
        return None if None in types else pa.struct(list(zip(avro.names, types, strict=True)))
    if avro.kind in ("map", "fixed"):
        return None
    if _is_time(avro):
        return pa.int32() if avro.kind == "int" else pa.int64()
    return avro.arrow_type


def _is_time(avro: AvroType) -> bool:
    return avro.kind in ("int", "long") and avro.logical is not None


def _needs_more(avro: AvroType, is_exact: bool) -> bool:
    avro = _without_null(avro)
    if is_exact and pa.types.is_floating(avro.arrow_type):
        return True
    if avro.kind == "record" and not all(inner.is_nullable for inner in avro.inner):
        return True
    is_checked = avro.kind == "enum" or pa.types.is_decimal(avro.arrow_type)
    return is_checked or _is_time(avro) or any(_needs_more(inner, is_exact) for inner in avro.inner)


def _finished(avro: AvroType, column: pa.Array) -> pa.Array:
    """A column of the reader with its times, after a look at symbols, decimals, and nulls in structs.

    Raises:
        _BlockRefusedError: Something is no symbol, has too many digits, or is null where no null may be; or a number
            has become infinite.
    """
    avro = _without_null(avro)
    if pa.types.is_floating(avro.arrow_type):
        if pc.any(pc.is_inf(column)).as_py():
            raise _BlockRefusedError
        return column
    if avro.kind == "enum":
        known = pc.is_in(column, value_set=pa.array(avro.symbols, pa.string()))
        if pc.any(pc.invert(pc.or_(known, column.is_null()))).as_py():
            raise _BlockRefusedError
        return column
    if pa.types.is_decimal(avro.arrow_type):
        largest = Decimal(10**avro.arrow_type.precision - 1).scaleb(-avro.arrow_type.scale, _WIDE)
        if pc.any(pc.greater(pc.abs(column), pa.scalar(largest, avro.arrow_type))).as_py():
            raise _BlockRefusedError
        return column
    if avro.kind == "array":
        return _rebuilt(avro.arrow_type, column, [_finished(avro.inner[0], column.values)])
    if avro.kind == "record":
        children = [column.field(number) for number in range(column.type.num_fields)]
        for inner, child in zip(avro.inner, children, strict=True):
            if not inner.is_nullable and pc.any(pc.and_(child.is_null(), column.is_valid())).as_py():
                raise _BlockRefusedError
        finished = [_finished(inner, child) for inner, child in zip(avro.inner, children, strict=True)]
        return _rebuilt(avro.arrow_type, column, finished)
    if not _is_time(avro):
        return column
    if avro.logical is not None and avro.logical.endswith("timestamp-millis"):
        column = column.cast(pa.timestamp("ms", avro.arrow_type.tz))
    return column.cast(avro.arrow_type)


def _rebuilt(data_type: pa.DataType, column: pa.Array, children: Sequence[pa.Array]) -> pa.Array:
    """A list or a struct with other values inside; the same of its own are null."""
    if column.offset:
        # Arrow's reader of JSON gives none, and Arrow refuses a mask beside one.
        raise _BlockRefusedError
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(data_type):
        return pa.StructArray.from_arrays(children, fields=list(data_type), mask=mask)
    return pa.ListArray.from_arrays(column.offsets, children[0], type=data_type, mask=mask)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _bounded(texts: Sequence[bytes]) -> list[tuple[int, int]]:
    """The first and the last position of pieces that are not too large for one block."""
    if sum(map(len, texts)) <= _MAX_BLOCK_BYTES:
        return [(0, len(texts))]
    found, start, size = [], 0, 0
    for position, text in enumerate(texts):
        if size and size + len(text) > _MAX_BLOCK_BYTES:
            found.append((start, position))
            start, size = position, 0
        size += len(text)
    return [*found, (start, len(texts))]


def odd_ones(texts: Sequence[bytes]) -> tuple[bytes, npt.NDArray[np.bool_]]:
    """All texts as a block, and for each of them whether Arrow's JSON reader must not be given it.

    Args:
        texts: The texts.
    """
    count = len(texts)
    if not count:
        return b"", np.zeros(0, np.bool_)
    lengths = np.fromiter(map(len, texts), np.int64, count)
    ends = np.cumsum(lengths + 1) - 1
    starts = ends - lengths
    block = b"\n".join([*texts, b""])
    content = np.frombuffer(block, np.uint8)
    is_odd: npt.NDArray[np.bool_] = (content[starts] != _OPENING) | (content[ends - 1] != _CLOSING) | (lengths < 2)
    if lengths.max() > _SHORTEST_DEEP:
        levels = np.zeros(count, np.int64)
        # The two characters differ in this bit alone, and no other one becomes one of them by it.
        for places in _places(content, lambda part: (part | 0x20) == _OPENING):
            levels += np.bincount(np.searchsorted(ends, places), minlength=count)
        is_odd |= levels > MAX_DEPTH
    for word in _NO_NUMBERS:
        for places in _places(content, functools.partial(np.equal, word[0])):
            for place in np.unique(np.searchsorted(ends, places[content[places + 1] == word[1]])).tolist():
                is_odd[place] |= _NOT_A_NUMBER.search(texts[place]) is not None
    if not _is_utf8(block):
        is_odd |= np.fromiter((not _is_utf8(text) for text in texts), np.bool_, count)
    return block, is_odd


def _places(
    content: npt.NDArray[np.uint8], is_wanted: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.bool_]]
) -> Iterator[Positions]:
    """The places of bytes, part by part."""
    for start in range(0, len(content), _CACHED_BYTES):
        found = np.flatnonzero(is_wanted(content[start : start + _CACHED_BYTES]))
        if len(found):
            yield found + start


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _in_order(schema: pa.Schema, parts: Sequence[DecodedObjects]) -> DecodedObjects:
    if len(parts) == 1:
        return parts[0]
    rows = _concatenated(schema, [part.rows for part in parts])
    positions = np.concatenate([part.positions for part in parts]) if parts else np.empty(0, np.int64)
    failures = sorted(failure for part in parts for failure in part.failures)
    if len(positions) > 1 and not (np.diff(positions) > 0).all():
        order = np.argsort(positions, kind="stable")
        rows, positions = rows.take(pa.array(order)), positions[order]
    return DecodedObjects(rows, positions, failures)


def _concatenated(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    filled = [batch for batch in batches if batch.num_rows]
    if len(filled) == 1:
        return filled[0]
    arrays = [
        pa.concat_arrays([batch.column(number) for batch in filled]) if filled else pa.array([], field.type)
        for number, field in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
