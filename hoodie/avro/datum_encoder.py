"""Encode bare Avro records fast: one function for each type of a schema, combined once.

The writer of the package avro checks every value against its schema, which takes longer than all other work of an
archiving. Only the types of timeline records are supported; their unions are of null and one other type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from hoodie.common.util.shown_value import short_repr

DatumEncoder = Callable[[bytearray, Any], None]
"""Appends a value; raises TypeError, ValueError, AttributeError or KeyError for a value that does not fit."""

_DOUBLE = struct.Struct("<d")


def datum_encoder(schema: Any) -> DatumEncoder:
    """The encoder of a schema.

    Args:
        schema: The value of its JSON, such as `hoodie.avro.timeline_metadata.schema_of` gives. Records are encoded from
            dicts that have all fields.

    Raises:
        ValueError: The schema has a type that no timeline record has.
    """
    return _encoder(schema, {})


def _encoder(schema: Any, named: dict[str, DatumEncoder]) -> DatumEncoder:
    if isinstance(schema, list):
        return _union(schema, named)
    if isinstance(schema, str):
        return named[schema] if schema in named else _primitive(schema)
    kind = schema["type"]
    if kind == "record":
        return _record(schema, named)
    if kind == "array":
        return _array(_encoder(schema["items"], named))
    if kind == "map":
        return _map(_encoder(schema["values"], named))
    return _encoder(kind, named)


def _primitive(name: str) -> DatumEncoder:
    found = {"boolean": _boolean, "int": _long, "long": _long, "double": _double, "string": _string}.get(name)
    if found is None:
        raise ValueError(f"type {name} is not encoded")
    return found


def _boolean(out: bytearray, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{short_repr(value)} is no boolean")
    out.append(value)


def _long(out: bytearray, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 63:
        raise TypeError(f"{short_repr(value)} is no integer of 64 bits")
    number = (value << 1) ^ (value >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _double(out: bytearray, value: Any) -> None:
    out += _DOUBLE.pack(value)


def _string(out: bytearray, value: Any) -> None:
    encoded = value.encode("utf-8")
    _long(out, len(encoded))
    out += encoded


def _record(schema: Any, named: dict[str, DatumEncoder]) -> DatumEncoder:
    fields: list[tuple[str, DatumEncoder]] = []

    def encode(out: bytearray, value: Any) -> None:
        for name, encoder in fields:
            encoder(out, value[name])

    named[schema["name"]] = encode
    fields += [(field["name"], _encoder(field["type"], named)) for field in schema["fields"]]
    return encode


def _array(item: DatumEncoder) -> DatumEncoder:
    def encode(out: bytearray, value: Any) -> None:
        if value:
            _long(out, len(value))
            for element in value:
                item(out, element)
        out.append(0)

    return encode


def _map(item: DatumEncoder) -> DatumEncoder:
    def encode(out: bytearray, value: Any) -> None:
        if value:
            _long(out, len(value))
            for key, element in value.items():
                _string(out, key)
                item(out, element)
        out.append(0)

    return encode


def _union(schemas: list[Any], named: dict[str, DatumEncoder]) -> DatumEncoder:
    if len(schemas) != 2 or "null" not in schemas:
        raise ValueError(f"the union {schemas!r} is not of null and one type")
    null_index = schemas.index("null")
    other = _encoder(schemas[1 - null_index], named)

    def encode(out: bytearray, value: Any) -> None:
        out.append(2 * (null_index if value is None else 1 - null_index))
        if value is not None:
            other(out, value)

    return encode
