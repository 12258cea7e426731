"""Readers of records that were written with one Avro schema, and are wanted as another one.

The rules are Avro's. Fields are found by name, then by the aliases of the wanted field; a field that is not written has
its default. Numbers are promoted, and strings and bytes read as each other. A value of a union becomes the first wanted
type that fits; a value that fits none makes its record bad, and not the others.

Apart from Avro: a wanted field that is not written and may be null needs no default. Names of records, enums and fixed
types count only where a union has several of them. An enum can be read as a string. A logical type that only one of
the two schemas has does not matter, nor does one that is not known.

    written  {"name": "a", "type": "int"}
    wanted   {"name": "b", "type": ["null", "long", "string"], "aliases": ["a"]}
    gives    b struct<member0: int64, member1: string>
"""

from __future__ import annotations

import decimal
import functools
import json
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from hoodie.avro.avro_type import UNIONS, AvroType
from hoodie.avro.columnar_cursors import Cursors
from hoodie.avro.columnar_readers import ArrayReader, MapReader, RecordReader, UnionReader, reader_of
from hoodie.avro.columnar_schema import type_tree
from hoodie.avro.columnar_values import BadValueError, BytesReader, EnumReader, NullReader, Reader
from hoodie.avro.schema_reader import member_name
from hoodie.common.util.arrow_buffers import structs_of
from hoodie.exception import HoodieSchemaException

_NAMED = frozenset({"record", "enum", "fixed"})
_MICROS_PER_MILLI = 1000
_DECIMAL_DIGITS = 80
"""More than any decimal of Arrow's 128 bits has."""
_PLAIN = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "bytes": pa.binary()}


def resolved_columns(wanted_schema: str) -> pa.Schema:
    """The columns of records that are read as a schema.

    Args:
        wanted_schema: JSON of a record.

    Raises:
        HoodieSchemaException: A field has no Arrow type.
    """
    return pa.schema(list(_wanted_tree(wanted_schema).arrow_type))


@functools.lru_cache(maxsize=256)
def resolving_reader(written_schema: str, wanted_schema: str) -> RecordReader:
    """The reader of records.

    Args:
        written_schema: JSON of the record that they were written with.
        wanted_schema: JSON of the record to read them as.

    Raises:
        HoodieSchemaException: A schema has no Arrow schema, or no record of the one can be read as the other.
    """
    written = type_tree(written_schema, has_variants=True, ignores_logical_types=True)
    return _record(written, _wanted_tree(wanted_schema))


def _wanted_tree(wanted_schema: str) -> AvroType:
    return type_tree(wanted_schema, has_members=True, ignores_logical_types=True)


class RefusedReader(Reader):
    """Makes every record bad: its value fits no wanted type.

    Args:
        avro: The type as written.
        wanted: The Arrow type wanted.
        reason: The reason, for messages.
    """

    def __init__(self, avro: AvroType, wanted: pa.DataType, reason: str) -> None:
        super().__init__(avro, wanted)
        self._reason = reason

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        """See `Reader.read`."""
        if not len(cursors):
            return pa.nulls(0, self.wanted)
        cursors.fail(np.ones(len(cursors), np.bool_), self.path, self._reason)
        return None

    def step(self, data: memoryview, position: int, end: int) -> int:
        """See `Reader.step`."""
        raise BadValueError(self._reason)


class SymbolReader(EnumReader):
    """Reads the symbols of an enum as those of another one.

    Args:
        avro: The enum as written.
        wanted: The other enum.
    """

    def __init__(self, avro: AvroType, wanted: AvroType) -> None:
        known = set(wanted.symbols)
        symbols = tuple(symbol if symbol in known else wanted.default_symbol for symbol in avro.symbols)
        super().__init__(attrs.evolve(avro, symbols=tuple(symbol or "" for symbol in symbols)), wanted.arrow_type)
        self._unknown = np.array([symbol is None for symbol in symbols], np.bool_)

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        """See `Reader.read`."""
        if not is_wanted or not self._unknown.any():
            return super().read(cursors, is_wanted)
        found = cursors.choice(len(self._unknown), self.path, "symbol")
        bad = self._unknown[found]
        if bad.any():
            cursors.fail(bad, self.path, "the schema to read it as lacks the symbol, and has no default for it")
        return None if cursors.content.is_torn else self._symbols.take(pa.array(found))


class MemberReader(Reader):
    """Reads a value as one member of a union of several types.

    Args:
        inner: The reader of the value.
        number: The number of the member.
        wanted: The struct of all members.
    """

    def __init__(self, inner: Reader, number: int, wanted: pa.StructType) -> None:
        super().__init__(inner.avro, wanted)
        self._inner = inner
        self._number = number

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        """See `Reader.read`."""
        found = self._inner.read(cursors, is_wanted)
        if found is None:
            return None
        columns = [
            found if number == self._number else pa.nulls(len(cursors), field.type)
            for number, field in enumerate(self.wanted)
        ]
        return structs_of(columns, self.wanted, len(cursors))

    def step(self, data: memoryview, position: int, end: int) -> int:
        """See `Reader.step`."""
        return self._inner.step(data, position, end)


def _resolved(written: AvroType, wanted: AvroType, arrow_type: pa.DataType) -> Reader:
    """The reader of a type as another one.

    Raises:
        HoodieSchemaException: No value of it can be read.
    """
    if written.kind in UNIONS:
        return _from_union(written, wanted, arrow_type)
    if wanted.kind in UNIONS:
        return _to_union(written, wanted, arrow_type)
    if written.kind == wanted.kind == "null":
        return NullReader(written, arrow_type)
    if written.kind == "null":
        raise HoodieSchemaException(f"Field {written.path!r} is null, where {wanted.arrow_type} is wanted.")
    if written.kind == wanted.kind == "record":
        return _record(written, wanted)
    if written.kind == wanted.kind == "array":
        item = _resolved(written.inner[0], wanted.inner[0], arrow_type.value_type)
        return ArrayReader(written, arrow_type, item)
    if written.kind == wanted.kind == "map":
        return _map(written, wanted, arrow_type)
    if written.kind == wanted.kind == "enum":
        return SymbolReader(written, wanted)
    if wanted.kind == "enum":
        raise HoodieSchemaException(f"Field {written.path!r} is written as {written.kind}, and wanted as an enum.")
    return reader_of(_logical_as(written, wanted), arrow_type)


def _record(written: AvroType, wanted: AvroType) -> RecordReader:
    source_of = _sources(written, wanted)
    name_of = {place: name for name, place in source_of.items()}
    types = dict(zip(wanted.names, wanted.inner, strict=True))
    fields: list[tuple[str, bool, Reader]] = []
    for place, node in enumerate(written.inner):
        name = name_of.get(place)
        if name is None:
            fields.append((written.names[place], False, reader_of(node, node.arrow_type)))
        else:
            fields.append((name, True, _resolved(node, types[name], types[name].arrow_type)))
    defaults = {
        name: default_array(node, text)
        for name, node, text in zip(wanted.names, wanted.inner, wanted.defaults, strict=True)
        if name not in source_of and not (text is None and node.is_nullable)
    }
    return RecordReader(written, wanted.arrow_type, fields, defaults)


def _sources(written: AvroType, wanted: AvroType) -> dict[str, int]:
    """The wanted fields that are written -> the places of the written ones."""
    places = {name: place for place, name in enumerate(written.names)}
    found = {name: places[name] for name in wanted.names if name in places}
    free = places.keys() - found.keys()
    for name, aliases in zip(wanted.names, wanted.aliases, strict=True):
        if name in found:
            continue
        alias = next((alias for alias in aliases if alias in free), None)
        if alias is not None:
            found[name] = places[alias]
            free.discard(alias)
    return found


def _map(written: AvroType, wanted: AvroType, arrow_type: pa.MapType) -> MapReader:
    value = _resolved(written.inner[0], wanted.inner[0], arrow_type.item_type)
    key_node = AvroType("string", pa.string(), f"{written.path}.key")
    pair = pa.struct([arrow_type.key_field, arrow_type.item_field])
    names = (arrow_type.key_field.name, arrow_type.item_field.name)
    node = AvroType("record", pair, written.path, names=names, inner=(key_node, written.inner[0]))
    fields: list[tuple[str, bool, Reader]] = [
        (names[0], True, BytesReader(key_node, pa.string())),
        (names[1], True, value),
    ]
    return MapReader(written, arrow_type, RecordReader(node, pair, fields))


def _from_union(written: AvroType, wanted: AvroType, arrow_type: pa.DataType) -> UnionReader:
    branches: list[Reader | None] = []
    reasons = []
    for node in written.inner:
        if node.kind == "null" and wanted.is_nullable:
            branches.append(None)
            continue
        try:
            branches.append(_resolved(node, wanted, arrow_type))
        except HoodieSchemaException as error:
            reasons.append(str(error))
            reason = "null, where the schema to read it as wants a value" if node.kind == "null" else str(error)
            branches.append(RefusedReader(node, arrow_type, reason))
    if len(reasons) == len(branches):
        raise HoodieSchemaException(reasons[-1])
    return UnionReader(written, arrow_type, branches)


def _to_union(written: AvroType, wanted: AvroType, arrow_type: pa.DataType) -> Reader:
    if written.kind == "null":
        if wanted.is_nullable:
            return NullReader(written, arrow_type)
        raise HoodieSchemaException(f"Field {written.path!r} is null, where {wanted.arrow_type} is wanted.")
    branches = [node for node in wanted.inner if node.kind != "null"]
    # Avro takes the same type first, and then the first one that a value can be promoted to.
    order = sorted(range(len(branches)), key=lambda number: not _is_same(written, branches[number]))
    reasons = []
    for number in order:
        node = branches[number]
        try:
            if wanted.kind != "members":
                return _resolved(written, node, arrow_type)
            return MemberReader(_resolved(written, node, node.arrow_type), number, arrow_type)
        except HoodieSchemaException as error:
            reasons.append(str(error))
    raise HoodieSchemaException(reasons[0] if len(reasons) == 1 else _fits_none(written, branches))


def _fits_none(written: AvroType, branches: list[AvroType]) -> str:
    kinds = ", ".join(node.name or node.kind for node in branches)
    return f"Field {written.path!r} is written as {written.name or written.kind}, which none of {kinds} takes."


def _is_same(written: AvroType, wanted: AvroType) -> bool:
    if written.kind != wanted.kind:
        return False
    if written.kind in _NAMED:
        return written.name.rpartition(".")[2] == wanted.name.rpartition(".")[2]
    return (written.logical == "decimal") == (wanted.logical == "decimal")


def _logical_as(written: AvroType, wanted: AvroType) -> AvroType:
    """The written type with the logical type that is wanted, where only one of the two has one."""
    if written.kind == wanted.kind and written.logical is None and wanted.logical is not None:
        return attrs.evolve(written, logical=wanted.logical, arrow_type=wanted.arrow_type)
    if written.logical is not None and wanted.logical is None and written.kind in _PLAIN:
        return attrs.evolve(written, logical=None, arrow_type=_PLAIN[written.kind])
    return written


def default_array(avro: AvroType, text: str | None) -> pa.Array:
    """The default of a field, as an array of one element.

    Args:
        avro: The type of the field.
        text: JSON of the default; None for a field without one.

    Raises:
        HoodieSchemaException: There is no default, or it is no value of the type.
    """
    if text is None:
        raise HoodieSchemaException(
            f"Field {avro.path!r} is not written, and has neither a default nor null among its types."
        )
    try:
        return pa.array([_value(avro, json.loads(text))], avro.arrow_type)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, decimal.DecimalException) as error:
        raise HoodieSchemaException(
            f"Field {avro.path!r} has a default that is no value of {avro.kind}: {text[:100]}"
        ) from error


def _value(avro: AvroType, default: Any) -> Any:
    """A value as Arrow takes it from Python."""
    match avro.kind:
        case "null":
            _require(default is None)
            return None
        case "union" | "members":
            return _union_value(avro, default)
        case "record":
            return {
                name: _value(node, default[name] if name in default else json.loads(text or ""))
                for name, node, text in zip(avro.names, avro.inner, avro.defaults, strict=True)
            }
        case "array":
            _require(isinstance(default, list))
            return [_value(avro.inner[0], item) for item in default]
        case "map":
            return [(key, _value(avro.inner[0], item)) for key, item in default.items()]
        case "boolean":
            _require(isinstance(default, bool))
        case "int" | "long":
            _require(isinstance(default, int) and not isinstance(default, bool))
            return default * _MICROS_PER_MILLI if "timestamp-millis" in (avro.logical or "") else default
        case "float" | "double":
            _require(not isinstance(default, bool))
            return float(default)
        case "enum":
            _require(default in avro.symbols)
        case "bytes" | "fixed":
            return _bytes_value(avro, default.encode("latin-1"))
        case _:
            _require(isinstance(default, str))
    return default


def _union_value(avro: AvroType, default: Any) -> Any:
    """The value of the first type that takes it: Avro up to 1.8 allows the first one only, later ones any."""
    number = 0
    for node in avro.inner:
        is_member = node.kind != "null"
        try:
            found = _value(node, default)
        except (TypeError, ValueError, KeyError, AttributeError):
            number += is_member
            continue
        return {member_name(number): found} if avro.kind == "members" and is_member else found
    raise ValueError


def _bytes_value(avro: AvroType, content: bytes) -> Any:
    if avro.kind == "fixed":
        _require(len(content) == avro.size)
    if avro.logical != "decimal":
        return content
    unscaled = decimal.Decimal(int.from_bytes(content, "big", signed=True))
    with decimal.localcontext() as context:
        context.prec = _DECIMAL_DIGITS
        return unscaled.scaleb(-avro.arrow_type.scale)


def _require(is_right: bool) -> None:
    if not is_right:
        raise ValueError
