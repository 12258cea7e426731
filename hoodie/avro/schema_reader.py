"""Read Avro schemas: check their JSON, and turn their types into Arrow types."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from hoodie.exception import HoodieSchemaException

_MAX_DEPTH = 100
_MAX_JSON_DEPTH = 4 * _MAX_DEPTH
"""A level of columns is at most so many levels of JSON."""
_MAX_LEAVES = 100_000
"""Columns without columns in them. A few named types that use each other twice make more than any memory holds."""
_MAX_DECIMAL_PRECISION = 38
_PRIMITIVE_TO_ARROW: dict[tuple[str, str | None], pa.DataType] = {
    ("boolean", None): pa.bool_(),
    ("int", None): pa.int32(),
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", None): pa.int64(),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("float", None): pa.float32(),
    ("double", None): pa.float64(),
    ("bytes", None): pa.binary(),
    ("string", None): pa.string(),
    ("string", "uuid"): pa.string(),
}
_PRIMITIVES = frozenset(name for name, _ in _PRIMITIVE_TO_ARROW) | {"null"}
NULLS = ("null", {"type": "null"})
"""Both ways to write the type of nulls."""
_WIDER = ({"int", "long"}, "long"), ({"float", "double"}, "double")
VARIANT = pa.struct(
    [
        pa.field("branch", pa.int8()),
        pa.field("integer", pa.int64()),
        pa.field("floating", pa.float64()),
        pa.field("binary", pa.binary()),
    ]
)
"""A value of a union of several types; null where the union is null.

``branch`` is the number of its type in the schema. The value is in one of three columns: ``integer`` has booleans,
integers, dates and times as Avro stores them; ``floating`` has floats and doubles; ``binary`` has strings in UTF-8,
bytes, and decimals unscaled. A branch that is a record of one such field counts as that field. Of any other branch,
``binary`` has the Avro bytes.
"""
VARIANT_COLUMNS = tuple(field.name for field in VARIANT)
"""The names of its columns."""


def parse_record(avro_schema: str) -> dict[str, Any]:
    """The value of a record's JSON, which nests no deeper than other code may recurse.

    Raises:
        HoodieSchemaException: It is not the schema of a record.
    """
    try:
        record = json.loads(avro_schema)
    except (ValueError, RecursionError) as error:
        raise HoodieSchemaException(
            f"Cannot read an Avro schema: it is not JSON ({error}): {avro_schema[:80]!r}"
        ) from error
    if not isinstance(record, dict) or record.get("type") != "record":
        raise HoodieSchemaException(f"Cannot read an Avro schema: it is not a record: {avro_schema[:80]!r}")
    _check_depth(record)
    _check_record(record, "")
    return record


class AvroReader:
    """Turns Avro types into Arrow types; remembers named types, because later fields may refer to them.

    Args:
        has_variants: Whether a union of several types is read as a `VARIANT`; else it is refused.

    Attributes:
        types: Full name -> type of each named type read so far; None of one that is being read.
    """

    def __init__(self, has_variants: bool = False) -> None:
        self.types: dict[str, pa.DataType | None] = {}
        self._has_variants = has_variants
        self._leaves_of: dict[str, int] = {}
        self._leaves = 0

    def read(self, record: dict[str, Any]) -> list[pa.Field]:
        """The fields of the record at the top."""
        name, namespace = full_name(record, "")
        self.types[name] = None
        return [self.read_field(field, namespace, "") for field in record["fields"]]

    def read_field(self, field: dict[str, Any], namespace: str, path: str) -> pa.Field:
        """One field, with its nullability."""
        if "type" not in field:
            raise HoodieSchemaException(f"Cannot read an Avro schema: field {child(path, field['name'])!r} has no type")
        return self._item(field["type"], field["name"], namespace, child(path, field["name"]))

    def _item(self, avro: Any, name: str, namespace: str, path: str) -> pa.Field:
        branches = avro if isinstance(avro, list) else [avro]
        others = [branch for branch in branches if branch not in NULLS]
        if len(others) == 2:
            others = [
                wider for kinds, wider in _WIDER if all(isinstance(o, str) and o in kinds for o in others)
            ] or others
        if self._has_variants and len(others) > 1:
            for branch in others:
                self._type(branch, namespace, path)
            return pa.field(name, VARIANT, nullable="null" in branches)
        if len(others) != 1:
            raise _cannot_read(path, avro, "it must be one type, or a union of one type and null")
        return pa.field(name, self._type(others[0], namespace, path), nullable="null" in branches)

    def _type(self, avro: Any, namespace: str, path: str) -> pa.DataType:
        check_path(path)
        if isinstance(avro, str):
            return self._primitive(avro, None, path) if avro in _PRIMITIVES else self._named(avro, namespace, path)
        if not isinstance(avro, dict):
            raise _cannot_read(path, avro, "it is no Avro type")
        kind, logical = avro.get("type"), avro.get("logicalType")
        if isinstance(kind, dict):
            return self._type(kind, namespace, path)
        if kind in ("record", "fixed", "enum"):
            return self._define(avro, namespace, path)
        if kind == "array":
            return pa.list_(self._item(avro.get("items"), "element", namespace, f"{path}.element"))
        if kind == "map":
            return pa.map_(pa.string(), self._item(avro.get("values"), "value", namespace, f"{path}.value"))
        if kind == "bytes" and logical == "decimal":
            return _decimal_to_arrow(avro, path)
        if kind in _PRIMITIVES:
            return self._primitive(str(kind), logical, path)
        if isinstance(kind, str):
            return self._named(kind, namespace, path)
        raise _cannot_read(path, avro, "it is no Avro type")

    def _primitive(self, kind: str, logical: Any, path: str) -> pa.DataType:
        self._count_leaves(1, path)
        known = (kind, logical) if logical is None or isinstance(logical, str) else None
        if known not in _PRIMITIVE_TO_ARROW:
            raise _cannot_read(path, kind if logical is None else f"{kind} ({logical})", "hoodie has no type for it")
        return _PRIMITIVE_TO_ARROW[known]

    def _define(self, avro: dict[str, Any], namespace: str, path: str) -> pa.DataType:
        if not isinstance(avro.get("name"), str):
            raise _cannot_read(path, avro, "it has no name")
        name, namespace = full_name(avro, namespace)
        self.types[name] = None
        before = self._leaves
        self._count_leaves(1, path)
        if avro["type"] == "record":
            _check_record(avro, path)
            data_type = pa.struct([self.read_field(field, namespace, path) for field in avro["fields"]])
        elif avro["type"] == "enum":
            data_type = pa.string()
        else:
            data_type = _fixed_to_arrow(avro, path)
        self.types[name] = data_type
        self._leaves_of[name] = self._leaves - before
        return data_type

    def _named(self, name: str, namespace: str, path: str) -> pa.DataType:
        for candidate in (name if "." in name or not namespace else f"{namespace}.{name}", name):
            if candidate in self.types:
                data_type = self.types[candidate]
                if data_type is None:
                    raise _cannot_read(path, name, "a record that holds itself cannot be stored in columns")
                self._count_leaves(self._leaves_of.get(candidate, 1), path)
                return data_type
        raise _cannot_read(path, name, "no type of that name was defined before")

    def _count_leaves(self, count: int, path: str) -> None:
        self._leaves += count
        if self._leaves > _MAX_LEAVES:
            raise HoodieSchemaException(
                f"Cannot read an Avro schema: with {path.split('.')[0]!r} it has more than {_MAX_LEAVES} columns"
            )


def full_name(avro: dict[str, Any], enclosing: str) -> tuple[str, str]:
    """The full name of a named type, and the namespace that its fields are in."""
    name = str(avro["name"])
    if "." in name:
        return name, name.rpartition(".")[0]
    given = avro.get("namespace")
    namespace = given if isinstance(given, str) else enclosing
    return (f"{namespace}.{name}" if namespace else name), namespace


def child(path: str, name: str) -> str:
    """The path of a field in a column, for messages."""
    return f"{path}.{name}" if path else name


def check_path(path: str) -> None:
    """Refuse a field that is nested too deeply.

    Raises:
        HoodieSchemaException: Its path has too many parts.
    """
    if path.count(".") > _MAX_DEPTH:
        raise HoodieSchemaException(f"Cannot read an Avro schema: {path.split('.')[0]!r} is nested too deeply")


def _check_depth(record: dict[str, Any]) -> None:
    level: list[Any] = [record]
    for _ in range(_MAX_JSON_DEPTH):
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise HoodieSchemaException("Cannot read an Avro schema: it is nested too deeply")


def _check_record(record: dict[str, Any], path: str) -> None:
    fields = record.get("fields")
    if (
        not isinstance(record.get("name"), str)
        or not isinstance(fields, list)
        or not all(isinstance(field, dict) and isinstance(field.get("name"), str) for field in fields)
    ):
        raise HoodieSchemaException(
            f"Cannot read an Avro schema: the record {path or 'at the top'} lacks name or fields"
        )
    names = [field["name"] for field in fields]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise HoodieSchemaException(f"Cannot read an Avro schema: field {child(path, twice)!r} is there twice")


def _decimal_to_arrow(avro: dict[str, Any], path: str) -> pa.DataType:
    precision, scale = avro.get("precision"), avro.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or precision < 1:
        raise _cannot_read(path, avro, "a decimal needs a precision, and a scale between 0 and the precision")
    if precision > _MAX_DECIMAL_PRECISION:
        raise _cannot_read(path, avro, f"decimals have at most {_MAX_DECIMAL_PRECISION} digits")
    return pa.decimal128(precision, scale)


def _fixed_to_arrow(avro: dict[str, Any], path: str) -> pa.DataType:
    if avro.get("logicalType") == "decimal":
        return _decimal_to_arrow(avro, path)
    size = avro.get("size")
    if not isinstance(size, int) or not 0 < size < 2**31 or avro.get("logicalType") is not None:
        raise _cannot_read(path, avro, "hoodie reads fixed types of a positive size, and decimals in them")
    return pa.binary(size)


def _cannot_read(path: str, avro: Any, reason: str) -> HoodieSchemaException:
    return HoodieSchemaException(f"Field {path!r} of Avro type {str(avro)[:200]} cannot be read: {reason}.")
