"""The types of an Avro schema as a tree, for code that works on a column at a time.

References to named types are replaced by what they name, so each node knows its path and its Arrow type.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import attrs
import pyarrow as pa

from hoodie.avro.schema_reader import NULLS, VARIANT, AvroReader, child, full_name, parse_record
from hoodie.exception import HoodieSchemaException

_MAX_DEPTH = 64
"""Code that walks through nested types calls itself nine times for a level; Python allows 1,000 calls."""
_PRIMITIVE_TO_ARROW = {"int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64()}
_VARIANT_COLUMNS = {
    "boolean": ("integer", pa.bool_()),
    "int": ("integer", pa.int32()),
    "long": ("integer", pa.int64()),
    "float": ("floating", pa.float32()),
    "double": ("floating", pa.float64()),
    "bytes": ("binary", pa.binary()),
    "string": ("binary", pa.string()),
}
NUMBER, SPAN = -1, -2
"""Steps over an integer, and over bytes with their length in front; see `AvroType.steps`."""
_STEPS = {"boolean": (1,), "int": (NUMBER,), "long": (NUMBER,), "enum": (NUMBER,), "bytes": (SPAN,), "string": (SPAN,)}
_LEAST_BYTES = {"null": 0, "float": 4, "double": 8}
_FIXED_BYTES = {"null": 0, "float": 4, "double": 8}


@attrs.frozen(slots=False)
class AvroType:
    """One type of a schema, at one place.

    Attributes:
        kind: ``union``, ``variant`` (a union of several types, see `VARIANT`), or the name that Avro gives the type,
            such as ``record`` or ``long``.
        arrow_type: The type that `hoodie.avro.schema_converters.to_arrow` gives it; for a union that of its values.
        path: The field, for messages; empty for the record at the top.
        logical: The logical type, or None.
        size: The bytes of a fixed.
        symbols: Those of an enum.
        names: Those of a record's fields.
        inner: The types of a record's fields, of an array's items, of a map's values, or of a union's branches.
    """

    kind: str
    arrow_type: pa.DataType
    path: str
    logical: str | None = None
    size: int = 0
    symbols: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    inner: tuple[AvroType, ...] = ()

    @functools.cached_property
    def least_bytes(self) -> int:
        """The minimum number of bytes of a value."""
        if self.kind in ("union", "variant"):
            return 1 + min(branch.least_bytes for branch in self.inner)
        if self.kind == "record":
            return sum(field.least_bytes for field in self.inner)
        return self.size if self.kind == "fixed" else _LEAST_BYTES.get(self.kind, 1)

    @functools.cached_property
    def fixed_bytes(self) -> int | None:
        """The number of bytes of every value, whatever they are; None if values differ, or bytes may be no value."""
        if self.kind == "record":
            widths = [field.fixed_bytes for field in self.inner]
            return None if None in widths else sum(width for width in widths if width is not None)
        return self.size if self.kind == "fixed" else _FIXED_BYTES.get(self.kind)

    @functools.cached_property
    def steps(self) -> tuple[int, ...] | None:
        """How to step over a value: `NUMBER`, `SPAN` or a count of bytes, one after the other.

        None for a type whose values have several forms, or items.
        """
        if self.kind == "record":
            found: list[int] = []
            for field in self.inner:
                if field.steps is None:
                    return None
                found.extend(field.steps)
            return tuple(found)
        if self.fixed_bytes is not None:
            return (self.fixed_bytes,)
        return _STEPS.get(self.kind)


@functools.lru_cache(maxsize=64)
def type_tree(avro_schema: str, has_variants: bool = False) -> AvroType:
    """The types of a record.

    Fields of the type null, which `to_arrow` refuses, have Arrow's type null.

    Args:
        avro_schema: JSON of the record.
        has_variants: Whether unions of several types are read as `VARIANT`; else they are refused.

    Raises:
        HoodieSchemaException: It is not the schema of a record, a field's type has no Arrow type that hoodie knows, or
            the items of an array take no bytes, so that an announced number of them would not end.
    """
    record = parse_record(avro_schema)
    reader = AvroReader(has_variants)
    fields = reader.read(_without_nulls(record))
    return _TreeBuilder(reader.types).record(record, "", pa.struct(fields), "")


def variant_column(branch: AvroType) -> tuple[str, AvroType | None]:
    """Where a `VARIANT` holds the values of a branch, and the type that they are coded as.

    Returns:
        The column, and a type without logical type; None for one whose Avro bytes are kept.
    """
    leaf = branch.inner[0] if branch.kind == "record" and len(branch.inner) == 1 else branch
    found = _VARIANT_COLUMNS.get(leaf.kind)
    if found is None:
        return "binary", None
    column, arrow_type = found
    return column, attrs.evolve(leaf, logical=None, arrow_type=arrow_type)


def _without_nulls(avro: Any) -> Any:
    if isinstance(avro, list):
        return [_without_nulls(branch) for branch in avro]
    if not isinstance(avro, dict):
        return avro
    if avro.get("type") == "record" and isinstance(avro.get("fields"), list):
        kept = [field for field in avro["fields"] if not (isinstance(field, dict) and field.get("type") in NULLS)]
        return avro | {"fields": [_without_nulls(field) for field in kept]}
    return avro | {key: _without_nulls(avro[key]) for key in ("type", "items", "values") if key in avro}


class _TreeBuilder:
    """Walks a schema that `AvroReader` has checked, beside the Arrow types that it gave."""

    def __init__(self, types: dict[str, pa.DataType | None]) -> None:
        self._named: dict[str, tuple[dict[str, Any], str]] = {}
        self._types = types

    def record(self, avro: dict[str, Any], namespace: str, arrow_type: pa.StructType, path: str) -> AvroType:
        namespace = self._define(avro, namespace)
        types = {field.name: field.type for field in arrow_type}
        names, inner = [], []
        for field in avro["fields"]:
            name, where = field["name"], child(path, field["name"])
            names.append(name)
            inner.append(self._type(field["type"], namespace, types.get(name, pa.null()), where))
        arrow_type = pa.struct(
            [
                pa.field(name, node.arrow_type, nullable=_is_nullable(node))
                for name, node in zip(names, inner, strict=True)
            ]
        )
        return AvroType("record", arrow_type, path, names=tuple(names), inner=tuple(inner))

    def _type(self, avro: Any, namespace: str, arrow_type: pa.DataType, path: str) -> AvroType:
        if path.count(".") > _MAX_DEPTH:
            raise HoodieSchemaException(f"Field {path.split('.')[0]!r} is nested more than {_MAX_DEPTH} deep.")
        if isinstance(avro, list):
            return self._union(avro, namespace, arrow_type, path)
        if isinstance(avro, str):
            known = self._find(avro, namespace)
            return AvroType(avro, arrow_type, path) if known is None else self._type(*known, arrow_type, path)
        kind, logical = avro["type"], avro.get("logicalType")
        if isinstance(kind, dict):
            return self._type(kind, namespace, arrow_type, path)
        if kind == "record":
            return self.record(avro, namespace, arrow_type, path)
        if kind == "enum":
            self._define(avro, namespace)
            return AvroType("enum", arrow_type, path, symbols=_symbols(avro, path))
        if kind == "fixed":
            self._define(avro, namespace)
            return AvroType("fixed", arrow_type, path, logical=logical, size=_fixed_size(avro, path))
        if kind == "array":
            return self._array(avro, namespace, arrow_type, path)
        if kind == "map":
            values = self._type(avro["values"], namespace, arrow_type.item_type, f"{path}.value")
            item = pa.field("value", values.arrow_type, nullable=_is_nullable(values))
            return AvroType("map", pa.map_(pa.string(), item), path, inner=(values,))
        known = self._find(kind, namespace)
        if known is not None:
            return self._type(*known, arrow_type, path)
        return AvroType(kind, arrow_type, path, logical=logical)

    def _array(self, avro: Any, namespace: str, arrow_type: pa.ListType, path: str) -> AvroType:
        items = self._type(avro["items"], namespace, arrow_type.value_type, f"{path}.element")
        if not items.least_bytes:
            raise HoodieSchemaException(f"Field {path!r} is an array of items that take no bytes: it cannot be read.")
        element = pa.field("element", items.arrow_type, nullable=_is_nullable(items))
        return AvroType("array", pa.list_(element), path, inner=(items,))

    def _union(self, avro: Sequence[Any], namespace: str, arrow_type: pa.DataType, path: str) -> AvroType:
        values = [branch for branch in avro if branch not in NULLS]
        if arrow_type == VARIANT and len(values) > 1:
            return self._variant(avro, namespace, path)
        inner = []
        for branch in avro:
            of_branch = arrow_type if len(values) == 1 else _PRIMITIVE_TO_ARROW.get(str(branch))
            is_null = branch in NULLS
            inner.append(
                AvroType("null", pa.null(), path) if is_null else self._type(branch, namespace, of_branch, path)
            )
        if len(values) == 1:
            arrow_type = next(node.arrow_type for node in inner if node.kind != "null")
        return AvroType("union", arrow_type, path, inner=tuple(inner))

    def _variant(self, avro: Sequence[Any], namespace: str, path: str) -> AvroType:
        inner = []
        for branch in avro:
            if branch in NULLS:
                inner.append(AvroType("null", pa.null(), path))
                continue
            # A branch is described by its own type, as a field of a record of its own.
            reader = AvroReader(has_variants=True)
            reader.types.update(self._types)
            field = reader.read_field({"name": "value", "type": branch}, namespace, "")
            inner.append(self._type(branch, namespace, field.type, path))
        return AvroType("variant", VARIANT, path, inner=tuple(inner))

    def _define(self, avro: dict[str, Any], namespace: str) -> str:
        name, inner = full_name(avro, namespace)
        self._named[name] = (avro, namespace)
        return inner

    def _find(self, name: str, namespace: str) -> tuple[dict[str, Any], str] | None:
        return self._named.get(f"{namespace}.{name}" if namespace and "." not in name else name) or self._named.get(
            name
        )


def _is_nullable(node: AvroType) -> bool:
    return node.kind == "null" or (
        node.kind in ("union", "variant") and any(branch.kind == "null" for branch in node.inner)
    )


def _symbols(avro: dict[str, Any], path: str) -> tuple[str, ...]:
    symbols = avro.get("symbols")
    if not isinstance(symbols, list) or not symbols or not all(isinstance(symbol, str) for symbol in symbols):
        raise HoodieSchemaException(f"Field {path!r} of Avro type enum cannot be read: it has no list of symbols.")
    return tuple(symbols)


def _fixed_size(avro: dict[str, Any], path: str) -> int:
    size = avro.get("size")
    if not isinstance(size, int) or not 0 < size < 2**31:
        raise HoodieSchemaException(f"Field {path!r} of Avro type fixed cannot be read: its size is {size!r}.")
    return size
