"""Structs of Thrift's compact protocol, in which Parquet writes its footers, as plain values.

A struct is a dict of field numbers to `Field`. Unknown fields are kept, so a struct that is read and written again has
the same content. Types are those of the protocol. A boolean field has one of two types, true or false.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from hoodie.exception import HoodieCorruptedDataException

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)

_DEEPEST = 64
"""Limit of nested structs, lists and maps; a schema of Parquet is a flat list, so real footers stay far below it."""
_LONGEST_VARINT_BITS = 70
"""Ten bytes of seven bits hold every number of 64 bits."""


class Field(NamedTuple):
    """One field of a struct.

    Attributes:
        type: The protocol's number of the type.
        value: An int, float, bytes, `ListValue`, `Struct`, a list of pairs (a map) or a bool.
    """

    type: int
    value: Any


class ListValue(NamedTuple):
    """A list or set.

    Attributes:
        type: The protocol's number of the elements' type.
        items: The elements.
    """

    type: int
    items: list[Any]


Struct: TypeAlias = dict[int, Field]


def read_struct(data: bytes | memoryview) -> Struct:
    """Read a struct from the start of the data; bytes after it are ignored.

    Raises:
        HoodieCorruptedDataException: The data ends too early, or has a type that the protocol does not know.
    """
    return read_struct_at(data, 0)[0]


def read_struct_at(data: bytes | memoryview, start: int) -> tuple[Struct, int]:
    """Read the struct that starts at a place of the data; return it with the place after its last byte.

    Args:
        data: One or more structs, with other bytes between them.
        start: The place of the first byte.

    Raises:
        HoodieCorruptedDataException: See `read_struct`.
    """
    # Places of bytes are faster than those of a view, and a view does not copy what is behind the struct.
    source = data if isinstance(data, bytes) else memoryview(data).cast("B")
    try:
        return _read_struct(source, start, 0)
    except (IndexError, struct.error) as error:
        raise HoodieCorruptedDataException(f"a Thrift struct of {len(data) - start} bytes ends too early") from error


def write_struct(value: Struct) -> bytes:
    """A struct as bytes; fields in the order of their numbers."""
    out = bytearray()
    _write_struct(out, value)
    return bytes(out)


# Every file has hundreds of fields in its footer, and each is read and written here: hence the plain functions, which
# are given the place of a value and return that behind it, and numbers of one byte need no call.
_new_field: Callable[[type[Field], tuple[int, Any]], Field] = tuple.__new__


def _read_struct(data: bytes | memoryview, at: int, depth: int) -> tuple[Struct, int]:
    fields: Struct = {}
    number = 0
    while header := data[at]:
        at += 1
        delta, kind = header >> 4, header & 15
        if delta:
            number += delta
        else:
            raw, at = _read_varint(data, at)
            number = _signed(raw)
        value: Any
        if kind in (TRUE, FALSE):
            value = kind == TRUE
        elif depth > _DEEPEST or not I16 <= kind <= I64:
            value, at = _read_value(data, at, kind, depth)
        else:
            raw = data[at]
            if raw < 128:
                at += 1
            else:
                raw, at = _read_varint(data, at)
            value = (raw >> 1) ^ -(raw & 1)
        fields[number] = _new_field(Field, (kind, value))
    return fields, at + 1


def _read_value(data: bytes | memoryview, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if depth > _DEEPEST:
        raise HoodieCorruptedDataException("a Thrift struct is nested too deep")
    if I16 <= kind <= I64:
        raw, at = _read_varint(data, at)
        return _signed(raw), at
    if kind == BINARY:
        count, at = _read_varint(data, at)
        return _read_bytes(data, at, count)
    if kind == STRUCT:
        return _read_struct(data, at, depth + 1)
    if kind in (LIST, SET):
        return _read_list(data, at, depth + 1)
    if kind == MAP:
        count, at = _read_varint(data, at)
        kinds = data[at] if count else 0
        at += 1 if count else 0
        pairs = []
        for _ in range(count):
            key, at = _read_item(data, at, kinds >> 4, depth + 1)
            item, at = _read_item(data, at, kinds & 15, depth + 1)
            pairs.append((kinds, key, item))
        return pairs, at
    if kind == BYTE:
        return data[at], at + 1
    if kind == DOUBLE:
        content, at = _read_bytes(data, at, 8)
        return struct.unpack("<d", content)[0], at
    raise HoodieCorruptedDataException(f"a Thrift struct has a field of the unknown type {kind}")


def _read_list(data: bytes | memoryview, at: int, depth: int) -> tuple[ListValue, int]:
    header = data[at]
    at += 1
    count, kind = header >> 4, header & 15
    if count == 15:
        count, at = _read_varint(data, at)
    items = []
    for _ in range(count):
        item, at = _read_item(data, at, kind, depth)
        items.append(item)
    return ListValue(kind, items), at


def _read_item(data: bytes | memoryview, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """An element of a list or map; booleans take a byte here."""
    return (data[at] == TRUE, at + 1) if kind in (TRUE, FALSE) else _read_value(data, at, kind, depth)


def _read_bytes(data: bytes | memoryview, at: int, count: int) -> tuple[bytes, int]:
    end = at + count
    if end > len(data):
        raise IndexError
    return bytes(data[at:end]), end


def _read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    result = shift = 0
    while shift < _LONGEST_VARINT_BITS:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, at
        shift += 7
    raise HoodieCorruptedDataException("a Thrift struct holds a number of more than 64 bits")


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _write_struct(out: bytearray, value: Struct) -> None:
    before = 0
    for number in sorted(value):
        kind, content = value[number]
        if kind in (TRUE, FALSE):
            kind = TRUE if content else FALSE
        if 0 < number - before < 16:
            out.append((number - before) << 4 | kind)
        else:
            out.append(kind)
            _write_signed(out, number)
        before = number
        if I16 <= kind <= I64 and 0 <= content < 64:
            out.append(content << 1)
        elif kind not in (TRUE, FALSE):
            _write_value(out, kind, content)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if I16 <= kind <= I64:
        _write_signed(out, value)
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind in (LIST, SET):
        _write_list(out, value)
    elif kind == MAP:
        _write_varint(out, len(value))
        for position, (kinds, key, item) in enumerate(value):
            if not position:
                out.append(kinds)
            _write_item(out, kinds >> 4, key)
            _write_item(out, kinds & 15, item)
    elif kind == BYTE:
        out.append(value)
    else:
        out += struct.pack("<d", value)


def _write_list(out: bytearray, value: ListValue) -> None:
    count = len(value.items)
    if count < 15:
        out.append(count << 4 | value.type)
    else:
        out.append(15 << 4 | value.type)
        _write_varint(out, count)
    for item in value.items:
        _write_item(out, value.type, item)


def _write_item(out: bytearray, kind: int, value: Any) -> None:
    if kind in (TRUE, FALSE):
        out.append(TRUE if value else FALSE)
    else:
        _write_value(out, kind, value)


def _write_signed(out: bytearray, number: int) -> None:
    _write_varint(out, (number << 1) ^ (number >> 63))


def _write_varint(out: bytearray, number: int) -> None:
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
