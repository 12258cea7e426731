"""Structs of Thrift's compact protocol, in which Parquet writes its footers, as plain values.

A struct is a dict of field numbers to `Field`. Unknown fields are kept, so a struct that is read and written again has
the same content. Types are those of the protocol. A boolean field has one of two types, true or false.
"""

from __future__ import annotations

import struct
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
    reader = _Reader(data, start)
    try:
        return reader.struct(0), reader.at
    except (IndexError, struct.error) as error:
        raise HoodieCorruptedDataException(f"a Thrift struct of {len(data) - start} bytes ends too early") from error


def write_struct(value: Struct) -> bytes:
    """A struct as bytes; fields in the order of their numbers."""
    out = bytearray()
    _write_struct(out, value)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes | memoryview, start: int) -> None:
        self._data = memoryview(data).cast("B")
        self.at = start

    def struct(self, depth: int) -> Struct:
        fields: Struct = {}
        number = 0
        while header := self._byte():
            delta, kind = header >> 4, header & 15
            number = number + delta if delta else _signed(self._varint())
            fields[number] = Field(kind, kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth))
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise HoodieCorruptedDataException("a Thrift struct is nested too deep")
        if kind in (I16, I32, I64):
            return _signed(self._varint())
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            header = self._byte()
            count, item_kind = header >> 4, header & 15
            if count == 15:
                count = self._varint()
            return ListValue(item_kind, [self._item(item_kind, depth + 1) for _ in range(count)])
        if kind == MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            inner = depth + 1
            return [(kinds, self._item(kinds >> 4, inner), self._item(kinds & 15, inner)) for _ in range(count)]
        if kind == BYTE:
            return self._byte()
        if kind == DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        raise HoodieCorruptedDataException(f"a Thrift struct has a field of the unknown type {kind}")

    def _item(self, kind: int, depth: int) -> Any:
        """An element of a list or map; booleans take a byte there."""
        return self._byte() == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth)

    def _byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _bytes(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self._data):
            raise IndexError
        part = bytes(self._data[self.at : end])
        self.at = end
        return part

    def _varint(self) -> int:
        result = shift = 0
        while shift < _LONGEST_VARINT_BITS:
            byte = self._byte()
            result |= (byte & 127) << shift
            if byte < 128:
                return result
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
        if kind not in (TRUE, FALSE):
            _write_value(out, kind, content)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
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
