"""Delete blocks: keys of deleted records, with their ordering values.

    int32 version 3 | int32 length | Avro binary of an array of records {recordKey, partitionPath, orderingVal}

An ordering value is a union of null and wrappers; a wrapper is a record with one field, value, for each Java type. A
hard delete has the number 0 as an int: it wins against all older rows. Avro writes a wrapper as its bare value. So a
record of a block has the same bytes as a record of a plain schema whose third field is the number of the wrapper.
Records are coded by such schemas here, all records of one wrapper at once.

Hudi: org.apache.hudi.common.table.log.block.HoodieDeleteBlock.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.columnar_decoder import decode_records
from hoodie.avro.columnar_encoder import encode_records
from hoodie.common.util.arrow_buffers import booleans_of, flags_in, indices_of, numbers_of, scalar_of
from hoodie.exception import HoodieCorruptedDataException, HoodieNotSupportedException, HoodieSchemaException
from hoodie.io.log.data_block import MAX_BLOCK_BYTES, distinct_positions
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_block_writer import data_headers, encode_log_block
from hoodie.io.log.log_records import LogDeletes
from hoodie.io.log.old_delete_block import read_old_deletes

_VERSION = 3
_OLD_VERSIONS = frozenset({1, 2})
_HEAD = struct.Struct(">ii")
_TEXT = ["null", "string"]
_NULL, _INT_WRAPPER, _ARRAY_WRAPPER, _LOCAL_DATE = 0, 2, 12, 12
_DATE = {"type": "int", "logicalType": "date"}
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}
_WRAPPED: dict[int, Any] = {
    1: "boolean",
    2: "int",
    3: "long",
    4: "float",
    5: "double",
    6: "bytes",
    7: "string",
    8: _DATE,
    9: _DECIMAL,
    10: {"type": "long", "logicalType": "time-micros"},
    11: {"type": "long", "logicalType": "timestamp-micros"},
}
"""The Avro type in each wrapper, by the number of the wrapper in the union."""
_FIXED_BYTES = {1: 1, 4: 4, 5: 8}
_TEXTS = frozenset({6, 7, 9})
_MOST_VARINT_BYTES = 10
_MOST_FIELDS = 100
"""The most fields of one ordering value."""
_MOST_SHAPES = 100
"""The most kinds of records in one block. Writers make one or two."""
_WRAPPER_OF: dict[pa.DataType, tuple[int, pa.DataType]] = {
    pa.bool_(): (1, pa.bool_()),
    pa.int8(): (2, pa.int32()),
    pa.int16(): (2, pa.int32()),
    pa.int32(): (2, pa.int32()),
    pa.int64(): (3, pa.int64()),
    pa.float32(): (4, pa.float32()),
    pa.float64(): (5, pa.float64()),
    pa.binary(): (6, pa.binary()),
    pa.string(): (7, pa.string()),
    pa.time64("us"): (10, pa.time64("us")),
    # Avro's bare numbers: Hudi 1.2.0 writes such longs, and does not read values in its wrappers for dates.
    pa.date32(): (2, pa.int32()),
    pa.timestamp("us"): (3, pa.int64()),
    pa.timestamp("us", tz="UTC"): (3, pa.int64()),
}
"""The wrapper for values of a column, and their stored type."""

_NO_RECORDS = b"\0"
"""An empty list of records in Avro."""
_Shape = tuple[int, ...]
"""The kind of a record: the number of its wrapper, and the numbers within an ArrayWrapper."""


def encode_delete_blocks(
    record_keys: pa.Array,
    partition_paths: pa.Array,
    ordering: pa.Array | None,
    avro_schema: str,
    instant_time: str,
    max_block_bytes: int = MAX_BLOCK_BYTES,
    *,
    positions: npt.NDArray[np.int64] | None = None,
    positions_of: str | None = None,
    compacted_instants: Sequence[str] = (),
) -> Iterator[bytes]:
    """Encode deleted records as delete blocks, each with ordering values of one type: readers refuse a mix.

    Args:
        record_keys: The keys (string, without nulls), each once.
        partition_paths: Their partitions (string); "" in a table without partitions.
        ordering: The ordering values in the type of the ordering column, null for hard deletes; several ordering fields
            make a struct, see `hoodie.merge.ordering_values`. None if all are hard deletes.
        avro_schema: The schema of the table's rows as JSON, meta columns included.
        instant_time: The delta commit that writes them.
        max_block_bytes: The most bytes of a block's content; one record may take more.
        positions: See `hoodie.io.log.data_block.encode_data_blocks`.
        positions_of: See `hoodie.io.log.data_block.encode_data_blocks`.
        compacted_instants: See `hoodie.io.log.log_block_writer.data_headers`.

    Yields:
        Whole blocks; none without records.

    Raises:
        HoodieSchemaException: Hudi has no ordering values of that type, or a key is null.
    """
    if record_keys.null_count:
        raise HoodieSchemaException(f"Cannot write a delete block: {record_keys.null_count} record keys are null")
    records = pa.RecordBatch.from_arrays([record_keys, partition_paths], names=["k", "p"])
    places = distinct_positions(positions)
    if places is not None:
        order = np.argsort(places, kind="stable")
        records, places = records.take(indices_of(order)), places[order]
        ordering = ordering.take(indices_of(order)) if ordering is not None else None
    for rows, shape, values in _by_wrapper(records.num_rows, ordering):
        some = records if rows is None else records.filter(booleans_of(rows))
        some_places = places if places is None or rows is None else places[rows]
        first = 0
        for count, content in _contents(some, shape, values, max_block_bytes):
            block_places = some_places[first : first + count] if some_places is not None else None
            headers = data_headers(instant_time, avro_schema, block_places, positions_of, compacted_instants)
            yield encode_log_block(HoodieLogBlockType.DELETE, headers, content)
            first += count


def encode_empty_block(instant_time: str, length: int) -> bytes:
    """A delete block of a given length that deletes nothing. A header that readers ignore fills it up.

    Args:
        instant_time: The instant of the block.
        length: Its length in bytes.

    Raises:
        ValueError: No block is that short.
    """
    content = _HEAD.pack(_VERSION, len(_NO_RECORDS)) + _NO_RECORDS
    headers: dict[int, str] = {HeaderMetadataType.INSTANT_TIME: instant_time}
    block = encode_log_block(HoodieLogBlockType.DELETE, headers, content)
    if len(block) == length:
        return block
    headers[HeaderMetadataType.TARGET_INSTANT_TIME] = ""
    block = encode_log_block(HoodieLogBlockType.DELETE, headers, content)
    if len(block) > length:
        raise ValueError(f"a block takes {len(block)} bytes at least")
    headers[HeaderMetadataType.TARGET_INSTANT_TIME] = "-" * (length - len(block))
    return encode_log_block(HoodieLogBlockType.DELETE, headers, content)


def decode_delete_block(block: HoodieLogBlock) -> list[LogDeletes]:
    """The records of a delete block, in their order; without positions.

    They are one value, unless their ordering values have several types.

    Args:
        block: A delete block.

    Raises:
        HoodieCorruptedDataException: The block is damaged.
        HoodieNotSupportedException: It has a version that hoodie does not read.
    """
    try:
        if len(block.content) < _HEAD.size:
            raise ValueError("it ends too early")
        version, length = _HEAD.unpack_from(block.content)
        if version not in (_VERSION, *_OLD_VERSIONS):
            raise HoodieNotSupportedException(
                f"Cannot read deletes of {block.source}: version {version} of such blocks is not supported; compact "
                "the table with the writer that made it"
            )
        content = block.content[_HEAD.size :]
        if length != len(content):
            raise ValueError(f"it announces {length} bytes and holds {len(content)}")
        if version == _VERSION:
            return _decoded(content, block)
        return _decoded_old(content, block)
    except (ValueError, IndexError, HoodieSchemaException) as error:
        raise HoodieCorruptedDataException(f"Cannot read deletes of {block.source}: {error}") from error


# --- records of one shape ---------------------------------------------------------------------------------------------


def _schema_of(shape: _Shape) -> str:
    """A plain schema whose records have the same bytes as records of a shape."""
    kinds: list[tuple[str, Any]] = [("k", _TEXT), ("p", _TEXT), ("w", "int")]
    if shape[0] == _ARRAY_WRAPPER:
        kinds += [("a", "int"), ("n", "long")]
        for number, wrapper in enumerate(shape[1:]):
            kinds.append((f"w{number}", "int"))
            if wrapper != _NULL:
                kinds.append((f"v{number}", _DATE if wrapper == _LOCAL_DATE else _WRAPPED[wrapper]))
        kinds.append(("e", "long"))
    elif shape[0] != _NULL:
        kinds.append(("v", _WRAPPED[shape[0]]))
    return json.dumps({"type": "record", "name": "d", "fields": [{"name": name, "type": kind} for name, kind in kinds]})


def _ordering_of(rows: pa.RecordBatch, shape: _Shape) -> pa.Array:
    """The ordering values of records of one shape, null for hard deletes."""
    if shape[0] == _NULL:
        return pa.nulls(rows.num_rows)
    if shape[0] != _ARRAY_WRAPPER:
        values = rows.column("v")
        if shape[0] != _INT_WRAPPER:
            return values
        zero = numbers_of(np.zeros(1, np.int32), pa.int32())[0]
        return pc.if_else(pc.equal(values, zero), scalar_of(None, values.type), values)
    names = [str(number) for number in range(len(shape) - 1)]
    columns = [
        rows.column(f"v{number}") if wrapper != _NULL else pa.nulls(rows.num_rows)
        for number, wrapper in enumerate(shape[1:])
    ]
    return pa.StructArray.from_arrays(columns, names=names)


# --- reading ----------------------------------------------------------------------------------------------------------


def _decoded(content: bytes, block: HoodieLogBlock) -> list[LogDeletes]:
    starts, ends, shape_of, shapes = _walk(content)
    parts = []
    for number, shape in enumerate(shapes):
        places = np.flatnonzero(shape_of == number)
        found = decode_records(_schema_of(shape), content, starts[places], ends[places])
        rows = found.require_good(f"deletes of {block.source}")
        parts.append(_Part(places, rows.column("k"), rows.column("p"), _ordering_of(rows, shape)))
    return _in_order(len(starts), parts, str(block.instant_time))


def _decoded_old(content: bytes, block: HoodieLogBlock) -> list[LogDeletes]:
    """The records of versions 1 and 2, one Python object each: only old tables have them."""
    records = read_old_deletes(content)
    places_of: dict[pa.DataType, list[int]] = {}
    for place, record in enumerate(records):
        places_of.setdefault(record.ordering_type or pa.null(), []).append(place)
    parts = []
    for kind, places in places_of.items():
        values = pa.array([records[place].ordering for place in places], kind)
        if kind == pa.int32():
            values = pc.if_else(pc.equal(values, 0), None, values)
        keys = pa.array([records[place].record_key for place in places], pa.string())
        partitions = pa.array([records[place].partition_path for place in places], pa.string())
        parts.append(_Part(np.array(places), keys, partitions, values))
    return _in_order(len(records), parts, str(block.instant_time))


@attrs.frozen(eq=False)
class _Part:
    """Records with ordering values of one type, and their places in the block."""

    places: npt.NDArray[np.int64]
    record_keys: pa.StringArray
    partition_paths: pa.StringArray
    ordering: pa.Array


def _in_order(count: int, parts: list[_Part], instant_time: str) -> list[LogDeletes]:
    """The records of all parts in the order of the block. A hard delete goes with records of any type."""
    if not count:
        return []
    back = np.empty(count, dtype=np.int64)
    back[np.concatenate([part.places for part in parts])] = np.arange(count)
    keys = pa.concat_arrays([part.record_keys for part in parts]).take(indices_of(back))
    partitions = pa.concat_arrays([part.partition_paths for part in parts]).take(indices_of(back))
    if keys.null_count:
        raise ValueError(f"{keys.null_count} records have no key")
    typed = [part for part in parts if part.ordering.null_count < len(part.ordering)]
    types = list(dict.fromkeys(part.ordering.type for part in typed)) or [pa.null()]
    if len(types) == 1:
        pieces = [
            part.ordering if part.ordering.type == types[0] else pa.nulls(len(part.ordering), types[0])
            for part in parts
        ]
        ordering = pa.concat_arrays(pieces).take(indices_of(back))
        return [LogDeletes(instant_time, keys, partitions, ordering)]
    type_of = np.full(count, -1)
    for part in typed:
        type_of[part.places[flags_in(part.ordering.is_valid())]] = types.index(part.ordering.type)
    columns = [_scattered(count, typed, data_type) for data_type in types]
    # Hard deletes go with the records before them.
    known = np.maximum.accumulate(np.where(type_of >= 0, np.arange(count), 0))
    run_type = np.maximum(type_of[known], 0)
    bounds = [0, *(np.flatnonzero(np.diff(run_type)) + 1).tolist(), count]
    return [
        LogDeletes(
            instant_time,
            keys.slice(start, end - start),
            partitions.slice(start, end - start),
            columns[run_type[start]].slice(start, end - start),
        )
        for start, end in pairwise(bounds)
    ]


def _scattered(count: int, parts: list[_Part], data_type: pa.DataType) -> pa.Array:
    """The ordering values of one type at their places among all records; null at the other places."""
    some = [part for part in parts if part.ordering.type == data_type]
    index = np.full(count, -1, dtype=np.int64)
    places = np.concatenate([part.places for part in some])
    index[places] = np.arange(len(places))
    return pa.concat_arrays([part.ordering for part in some]).take(pa.array(index, mask=index < 0))


def _walk(data: bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], list[_Shape]]:
    """The byte range of each record of an array, and its shape.

    Avro does not store the lengths of records, so this is a loop over numbers.

    Raises:
        ValueError: The content is not an array of deleted records.
        IndexError: The content ends too early.
    """
    starts, ends, shape_of = array("q"), array("q"), array("q")
    shapes: dict[_Shape, int] = {}
    number_of_wrapper = [-1] * (_ARRAY_WRAPPER + 1)
    position = 0
    while True:
        count, position = _long(data, position)
        if count < 0:
            count = -count
            _, position = _long(data, position)
        if count == 0:
            break
        for _ in range(count):
            starts.append(position)
            for _ in (0, 1):
                branch = data[position]
                position += 1
                if branch == 2:
                    length = data[position]
                    position += 1
                    if length & 0x80:
                        length, position = _long(data, position - 1)
                        length *= 2
                    if length & 1 or length < 0:
                        raise ValueError("a text has a negative length")
                    position += length >> 1
                elif branch:
                    raise ValueError(f"a text has the branch {branch}")
            wrapper = data[position]
            position += 1
            if wrapper & 1 or wrapper > 2 * _ARRAY_WRAPPER:
                raise ValueError(f"an ordering value has the branch {wrapper}")
            wrapper >>= 1
            if wrapper == _ARRAY_WRAPPER:
                inner, position = _inner_wrappers(data, position)
                number = shapes.setdefault((wrapper, *inner), len(shapes))
            else:
                position = _behind_value(data, position, wrapper)
                number = number_of_wrapper[wrapper]
                if number < 0:
                    number = number_of_wrapper[wrapper] = shapes.setdefault((wrapper,), len(shapes))
            if number >= _MOST_SHAPES:
                raise ValueError("its ordering values are of too many kinds")
            shape_of.append(number)
            ends.append(position)
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes follow the last record")
    arrays = (np.frombuffer(numbers, dtype=np.int64) for numbers in (starts, ends, shape_of))
    return *arrays, list(shapes)  # type: ignore[return-value]


def _inner_wrappers(data: bytes, position: int) -> tuple[_Shape, int]:
    """The wrappers within an ArrayWrapper, and the offset after it."""
    if data[position] != 2:
        raise ValueError("an ordering value of several fields has none")
    count, position = _long(data, position + 1)
    if not 0 < count <= _MOST_FIELDS:
        raise ValueError(f"an ordering value has {count} fields")
    found = []
    for _ in range(count):
        wrapper = data[position]
        if wrapper & 1 or wrapper > 2 * _LOCAL_DATE:
            raise ValueError(f"an ordering value has the branch {wrapper}")
        found.append(wrapper >> 1)
        position = _behind_value(data, position + 1, wrapper >> 1)
    if data[position] != 0:
        raise ValueError("an ordering value of several fields comes in parts")
    return tuple(found), position + 1


def _behind_value(data: bytes, position: int, wrapper: int) -> int:
    if wrapper == _NULL:
        return position
    if wrapper in _FIXED_BYTES:
        return position + _FIXED_BYTES[wrapper]
    if wrapper in _TEXTS:
        length, position = _long(data, position)
        if length < 0:
            raise ValueError("an ordering value has a negative length")
        return position + length
    start = position
    while data[position] >= 0x80:
        position += 1
        if position - start >= _MOST_VARINT_BYTES:
            raise ValueError("a number has more than 10 bytes")
    return position + 1


def _long(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MOST_VARINT_BYTES, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise ValueError("a number has more than 10 bytes")


# --- writing ----------------------------------------------------------------------------------------------------------


def _by_wrapper(
    count: int, ordering: pa.Array | None
) -> Iterator[tuple[npt.NDArray[np.bool_] | None, _Shape, list[pa.Array]]]:
    """The records of each wrapper: their flags (None for all), the shape, and the values in it."""
    if not count:
        return
    if ordering is None or ordering.null_count == count:
        yield None, (_INT_WRAPPER,), [_zeros(count)]
        return
    if pa.types.is_dictionary(ordering.type):
        ordering = ordering.dictionary_decode()
    if _WRAPPER_OF.get(ordering.type, (None,))[0] == _INT_WRAPPER:
        yield None, (_INT_WRAPPER,), [ordering.cast(pa.int32()).fill_null(0)]
        return
    is_known = flags_in(ordering.is_valid())
    known = ordering.drop_null()
    if pa.types.is_struct(known.type):
        fields = [_wrapped(field) for field in known.flatten()]
        shape, values = (_ARRAY_WRAPPER, *(wrapper for wrapper, _ in fields)), [value for _, value in fields]
    else:
        wrapper, value = _wrapped(known)
        shape, values = (wrapper,), [value]
    yield (None if is_known.all() else is_known), shape, values
    if not is_known.all():
        yield ~is_known, (_INT_WRAPPER,), [_zeros(count - len(known))]


def _zeros(count: int) -> pa.Array:
    return numbers_of(np.zeros(count, dtype=np.int32), pa.int32())


def _wrapped(values: pa.Array) -> tuple[int, pa.Array]:
    """The number of the wrapper for ordering values, and the values in its type."""
    if pa.types.is_decimal(values.type):
        try:
            return 9, values.cast(pa.decimal128(_DECIMAL["precision"], _DECIMAL["scale"]))
        except pa.ArrowInvalid as error:
            raise HoodieSchemaException(
                f"Cannot write a delete block: Hudi stores ordering values as decimals of 30 digits, 15 of them behind "
                f"the point, and one does not fit: {error}. Delete these records by their keys"
            ) from error
    if values.type not in _WRAPPER_OF:
        raise HoodieSchemaException(
            f"Cannot write a delete block: Hudi has no ordering values of type {values.type}; use a number, string, "
            "boolean, date, time or timestamp"
        )
    wrapper, stored = _WRAPPER_OF[values.type]
    return wrapper, values.cast(stored)


def _contents(
    records: pa.RecordBatch, shape: _Shape, values: list[pa.Array], max_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """The contents of blocks, each with its number of records."""
    count = records.num_rows
    columns = {"k": records.column("k"), "p": records.column("p"), "w": _constant(shape[0], count)}
    if shape[0] == _ARRAY_WRAPPER:
        columns |= {"a": _constant(1, count), "n": _constant(len(shape) - 1, count)}
        for number, value in enumerate(values):
            columns |= {f"w{number}": _constant(shape[number + 1], count), f"v{number}": value}
        columns["e"] = _constant(0, count)
    else:
        columns["v"] = values[0]
    encoded = encode_records(pa.RecordBatch.from_pydict(columns), _schema_of(shape))
    ends = np.cumsum(encoded.lengths)
    first = start = 0
    while first < count:
        # Version, length, the number of records and the end of the array take up to 19 bytes.
        last = max(first + 1, int(np.searchsorted(ends, start + max_bytes - 19, side="right")))
        end = int(ends[last - 1])
        body = _varint(2 * (last - first)) + encoded.data[start:end] + b"\0"
        yield last - first, _HEAD.pack(_VERSION, len(body)) + body
        first, start = last, end


def _constant(value: int, count: int) -> pa.Array:
    return numbers_of(np.full(count, value, dtype=np.int32), pa.int32())


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
