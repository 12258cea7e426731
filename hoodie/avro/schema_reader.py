"""Read Avro schemas: check their JSON, and turn their types into trees with Arrow types."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from hoodie.avro.avro_type import AvroType
from hoodie.exception import HoodieSchemaException

_MAX_DEPTH = 100
_MAX_JSON_DEPTH = 4 * _MAX_DEPTH
"""The most levels of JSON for a level of columns, times the most levels of columns."""
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
PRIMITIVES = frozenset(name for name, _ in _PRIMITIVE_TO_ARROW) | {"null"}
"""The names that records, enums and fixed types cannot have without a namespace."""
NULLS = ("null", {"type": "null"})
"""Both ways to write the type of nulls."""
_WIDER = ({"int", "long"}, pa.int64()), ({"float", "double"}, pa.float64())
_NOT_ONE_TYPE = "it must be one type, or a union of one type and null"
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


def member_name(number: int) -> str:
    """The column of a type of a union of several types that is read as a struct of members.

    Hudi's tables store such unions so, as Parquet's Avro writer does: ``["null", "int", "string"]`` is a struct of
    ``member0`` (int) and ``member1`` (string), of which one has a value.

    Args:
        number: The number of the type among those that are not null.
    """
    return f"member{number}"


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
    """Converts Avro types to trees of `AvroType`; remembers named types, because later fields may refer to them.

    A reference is replaced by its type. The names of primitive types are never references, as in Avro for Java: a
    record ``int`` is referred to by its full name.

    Args:
        has_variants: Whether a union of several types is read as a `VARIANT`; otherwise it is refused.
        has_members: Whether it is read as a struct of members instead, see `member_name`.
        ignores_logical_types: Whether a logical type that is not known does not matter, as Avro asks for; otherwise it
            is refused.
        has_nulls: Whether fields of the type null are read, as Arrow's null; otherwise they are refused.
        max_depth: The maximum number of levels of a column.
    """

    def __init__(
        self,
        has_variants: bool = False,
        *,
        has_members: bool = False,
        ignores_logical_types: bool = False,
        has_nulls: bool = False,
        max_depth: int = _MAX_DEPTH,
    ) -> None:
        self._has_variants = has_variants
        self._has_members = has_members
        self._ignores_logical_types = ignores_logical_types
        self._has_nulls = has_nulls
        self._max_depth = max_depth
        self._named: dict[str, tuple[dict[str, Any], str]] = {}
        self._open: set[str] = set()
        self._leaves = 0

    def read(self, record: dict[str, Any]) -> AvroType:
        """The record at the top, which `parse_record` gave."""
        return self._record(record, "", "")

    def read_field(self, field: dict[str, Any], namespace: str, path: str) -> pa.Field:
        """One field, with its nullability.

        Args:
            field: Its JSON.
            namespace: The namespace that it is in.
            path: The column that it is in.
        """
        return self._field(field, namespace, path).field(field["name"])

    def _field(self, field: dict[str, Any], namespace: str, path: str) -> AvroType:
        path = child(path, field["name"])
        if "type" not in field:
            raise HoodieSchemaException(f"Cannot read an Avro schema: field {path!r} has no type")
        if self._has_nulls and field["type"] in NULLS:
            return AvroType("null", pa.null(), path)
        return self.read_item(field["type"], namespace, path)

    def read_item(self, avro: Any, namespace: str, path: str) -> AvroType:
        """The type of a field, element or value, which may be a union.

        Args:
            avro: Its JSON.
            namespace: The namespace that it is in.
            path: The column, field, element or value.
        """
        if not isinstance(avro, list):
            if avro in NULLS:
                raise _cannot_read(path, avro, _NOT_ONE_TYPE)
            return self._type(avro, namespace, path)
        others = [branch for branch in avro if branch not in NULLS]
        wider = next(
            (
                arrow_type
                for kinds, arrow_type in _WIDER
                if len(others) == 2 and all(isinstance(other, str) and other in kinds for other in others)
            ),
            None,
        )
        if len(others) != 1 and wider is None and not ((self._has_variants or self._has_members) and others):
            raise _cannot_read(path, avro, _NOT_ONE_TYPE)
        inner = tuple(
            AvroType("null", pa.null(), path) if branch in NULLS else self._type(branch, namespace, path)
            for branch in avro
        )
        if len(others) > 1 and wider is None and self._has_members:
            members = [branch for branch in inner if branch.kind != "null"]
            fields = [pa.field(member_name(number), branch.arrow_type) for number, branch in enumerate(members)]
            return AvroType("members", pa.struct(fields), path, inner=inner)
        if len(others) > 1 and wider is None:
            return AvroType("variant", VARIANT, path, inner=inner)
        arrow_type = wider or next(branch.arrow_type for branch in inner if branch.kind != "null")
        return AvroType("union", arrow_type, path, inner=inner)

    def _type(self, avro: Any, namespace: str, path: str) -> AvroType:
        check_path(path, self._max_depth)
        if isinstance(avro, str):
            return self._primitive(avro, None, path) if avro in PRIMITIVES else self._reference(avro, namespace, path)
        if not isinstance(avro, dict):
            raise _cannot_read(path, avro, "it is no Avro type")
        kind, logical = avro.get("type"), avro.get("logicalType")
        if isinstance(kind, dict):
            return self._type(kind, namespace, path)
        if kind in ("record", "fixed", "enum"):
            return self._definition(avro, namespace, path)
        if kind == "array":
            items = self.read_item(avro.get("items"), namespace, f"{path}.element")
            if not items.least_bytes:
                # An announced number of them would not end.
                raise _cannot_read(path, avro, "its items take no bytes")
            return AvroType("array", pa.list_(items.field("element")), path, inner=(items,))
        if kind == "map":
            values = self.read_item(avro.get("values"), namespace, f"{path}.value")
            return AvroType("map", pa.map_(pa.string(), values.field("value")), path, inner=(values,))
        if kind == "bytes" and logical == "decimal":
            self._count_leaf(path)
            return AvroType("bytes", _decimal_to_arrow(avro, path), path, logical=logical)
        if kind in PRIMITIVES:
            return self._primitive(str(kind), logical, path)
        if isinstance(kind, str):
            return self._reference(kind, namespace, path)
        raise _cannot_read(path, avro, "it is no Avro type")

    def _primitive(self, kind: str, logical: Any, path: str) -> AvroType:
        self._count_leaf(path)
        known = (kind, logical) if logical is None or isinstance(logical, str) else None
        if known not in _PRIMITIVE_TO_ARROW and self._ignores_logical_types:
            known, logical = (kind, None), None
        if known not in _PRIMITIVE_TO_ARROW:
            raise _cannot_read(path, kind if logical is None else f"{kind} ({logical})", "hoodie has no type for it")
        return AvroType(kind, _PRIMITIVE_TO_ARROW[known], path, logical=logical)

    def _definition(self, avro: dict[str, Any], namespace: str, path: str) -> AvroType:
        if not isinstance(avro.get("name"), str):
            raise _cannot_read(path, avro, "it has no name")
        self._count_leaf(path)
        if avro["type"] == "record":
            _check_record(avro, path)
            return self._record(avro, namespace, path)
        name = full_name(avro, namespace)[0]
        self._named[name] = (avro, namespace)
        if avro["type"] == "enum":
            symbols = _symbols(avro, path)
            default = avro["default"] if avro.get("default") in symbols else None
            return AvroType("enum", pa.string(), path, symbols=symbols, name=name, default_symbol=default)
        size, logical = _fixed_size(avro, path), avro.get("logicalType")
        if logical != "decimal" and self._ignores_logical_types:
            return AvroType("fixed", pa.binary(size), path, size=size, name=name)
        return AvroType("fixed", _fixed_to_arrow(avro, path), path, logical=logical, size=size, name=name)

    def _record(self, avro: dict[str, Any], namespace: str, path: str) -> AvroType:
        name, inside = full_name(avro, namespace)
        self._named[name] = (avro, namespace)
        self._open.add(name)
        inner = tuple(self._field(field, inside, path) for field in avro["fields"])
        self._open.discard(name)
        names = tuple(field["name"] for field in avro["fields"])
        arrow_type = pa.struct([node.field(name) for name, node in zip(names, inner, strict=True)])
        return AvroType(
            "record",
            arrow_type,
            path,
            names=names,
            inner=inner,
            name=name,
            aliases=tuple(_aliases(field) for field in avro["fields"]),
            defaults=tuple(json.dumps(field["default"]) if "default" in field else None for field in avro["fields"]),
        )

    def _reference(self, name: str, namespace: str, path: str) -> AvroType:
        for candidate in (name if "." in name or not namespace else f"{namespace}.{name}", name):
            if candidate in self._open:
                raise _cannot_read(path, name, "a record that holds itself cannot be stored in columns")
            if candidate in self._named:
                return self._definition(*self._named[candidate], path)
        raise _cannot_read(path, name, "no type of that name was defined before")

    def _count_leaf(self, path: str) -> None:
        self._leaves += 1
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


def check_path(path: str, max_depth: int = _MAX_DEPTH) -> None:
    """Refuse a field that is nested too deeply.

    Raises:
        HoodieSchemaException: Its path has too many parts.
    """
    if path.count(".") > max_depth:
        raise HoodieSchemaException(
            f"Cannot read an Avro schema: {path.split('.')[0]!r} is nested too deeply, in more than {max_depth} levels"
        )


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
    if avro.get("logicalType") is not None:
        raise _cannot_read(path, avro, "hoodie reads fixed types without a logical type, and decimals in them")
    return pa.binary(avro["size"])


def _fixed_size(avro: dict[str, Any], path: str) -> int:
    size = avro.get("size")
    if not isinstance(size, int) or not 0 < size < 2**31:
        raise _cannot_read(path, avro, "hoodie reads fixed types of a positive size")
    return size


def _aliases(field: dict[str, Any]) -> tuple[str, ...]:
    aliases = field.get("aliases")
    return tuple(alias for alias in aliases if isinstance(alias, str)) if isinstance(aliases, list) else ()


def _symbols(avro: dict[str, Any], path: str) -> tuple[str, ...]:
    symbols = avro.get("symbols")
    if not isinstance(symbols, list) or not symbols or not all(isinstance(symbol, str) for symbol in symbols):
        raise _cannot_read(path, avro, "it has no list of symbols")
    return tuple(symbols)


def _cannot_read(path: str, avro: Any, reason: str) -> HoodieSchemaException:
    return HoodieSchemaException(f"Field {path!r} of Avro type {str(avro)[:200]} cannot be read: {reason}.")
