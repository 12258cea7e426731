"""The columns of JSON messages whose schema nobody told.

Rules are those of ``spark.read.json``: whole numbers are longs, other numbers are doubles; texts stay texts, also those
of dates; a field that has values of several types is a text; nulls alone are a text too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.json

from hoodie.utilities.sources.helpers.json_decoder import odd_ones
from hoodie.utilities.sources.helpers.json_values import JsonValueError, Number, parse_object

_TEXT = pa.string()
_UNKNOWN = pa.null()
_BLOCK_BYTES = 4 << 20
_SMALL = 64
_PIECES = 16


def infer_schema(messages: Iterable[bytes | None]) -> pa.Schema | None:
    """The columns of messages, in the order in which they first appear; all may be null.

    Args:
        messages: The messages; those that are not JSON objects are passed over.

    Returns:
        The columns; None if no message has any.
    """
    found: pa.DataType = pa.struct([])
    for block in _blocks(messages):
        found = _merged(found, _type_of_block(block))
    return pa.schema([pa.field(field.name, _known(field.type)) for field in found]) if found.num_fields else None


def _blocks(messages: Iterable[bytes | None]) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    size = 0
    for message in messages:
        if not message:
            continue
        block.append(message)
        size += len(message)
        if size >= _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _type_of_block(messages: Sequence[bytes]) -> pa.DataType:
    """The type of messages; they are read as one block if that gives the same."""
    _, is_odd = odd_ones(messages)
    found = _type_of_good([message for message, odd in zip(messages, is_odd, strict=True) if not odd])
    return _merged_singly(found, [message for message, odd in zip(messages, is_odd, strict=True) if odd])


def _type_of_good(messages: Sequence[bytes]) -> pa.DataType:
    nothing = pa.struct([])
    if len(messages) <= _SMALL:
        return _merged_singly(nothing, messages)
    block = b"\n".join(messages)
    options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    try:
        table = pyarrow.json.read_json(pa.BufferReader(block), read_options=options)
        if table.num_rows == len(messages):
            return _merged(nothing, pa.struct([pa.field(one.name, _of_reader(one.type)) for one in table.schema]))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    step = -(-len(messages) // _PIECES)
    found = nothing
    for start in range(0, len(messages), step):
        found = _merged(found, _type_of_good(messages[start : start + step]))
    return found


def _of_reader(data_type: pa.DataType) -> pa.DataType:
    """A type that pyarrow's reader found: it takes texts of dates for times."""
    if pa.types.is_timestamp(data_type):
        return _TEXT
    if pa.types.is_list(data_type):
        return pa.list_(pa.field("element", _of_reader(data_type.value_type)))
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, _of_reader(field.type)) for field in data_type])
    return data_type


def _merged_singly(found: pa.DataType, messages: Sequence[bytes]) -> pa.DataType:
    for message in messages:
        try:
            parsed = parse_object(message)
        except JsonValueError:
            continue
        found = _merged(found, _type_of(parsed))
    return found


def _type_of(value: Any) -> pa.DataType:
    match value:
        case None:
            return _UNKNOWN
        case bool():
            return pa.bool_()
        case int():
            return pa.int64() if -(2**63) <= value < 2**63 else pa.float64()
        case Number():
            return pa.float64()
        case list():
            item: pa.DataType = _UNKNOWN
            for one in value:
                item = _merged(item, _type_of(one))
            return pa.list_(pa.field("element", item))
        case Mapping():
            return pa.struct([pa.field(name, _type_of(one)) for name, one in value.items()])
    return _TEXT


def _merged(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(pa.field("element", _merged(one.value_type, other.value_type)))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        types = {field.name: field.type for field in one}
        for field in other:
            types[field.name] = _merged(types.get(field.name, _UNKNOWN), field.type)
        return pa.struct([pa.field(name, data_type) for name, data_type in types.items()])
    return _TEXT


def _known(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_null(data_type) or (pa.types.is_struct(data_type) and not data_type.num_fields):
        return _TEXT
    if pa.types.is_list(data_type):
        return pa.list_(pa.field("element", _known(data_type.value_type)))
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, _known(field.type)) for field in data_type])
    return data_type
