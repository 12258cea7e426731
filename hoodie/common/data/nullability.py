"""The nullability of columns, fields, elements and values of a type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from hoodie.common.data.stored_types import is_list


def required_paths(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[str]:
    """The paths without nulls in columns and within them: ``n``, ``s.x``, ``l.element``, ``m.value``.

    Args:
        fields: The columns.
        prefix: The beginning of the paths.
    """
    for field in fields:
        path = prefix + field.name
        if not field.nullable:
            yield path
        yield from required_paths(_named_inner_fields(field.type), f"{path}.")


def relaxed_where_null(values: pa.Array) -> pa.DataType:
    """The type of values, made nullable within structs, lists and maps that hold nulls.

    Args:
        values: Values of any type; their nulls may contradict it.
    """
    inner = _named_inner_fields(values.type)
    if not any(True for _ in required_paths(inner)):
        return values.type
    present = values.drop_null() if values.null_count else values
    if pa.types.is_map(values.type):
        # The buffers of a slice hold the items of all maps, so only the present ones are taken.
        children = [present.cast(pa.list_(present.type.field(0).type)).flatten().field(1)]
    else:
        children = present.flatten() if pa.types.is_struct(values.type) else [present.flatten()]
    relaxed = [
        field.with_type(relaxed_where_null(child)).with_nullable(field.nullable or child.null_count > 0)
        for field, child in zip(inner, children, strict=True)
    ]
    if pa.types.is_struct(values.type):
        return pa.struct(relaxed)
    return pa.map_(values.type.key_type, relaxed[0]) if pa.types.is_map(values.type) else pa.list_(relaxed[0])


def nullable_type(data_type: pa.DataType) -> pa.DataType:
    """The type with nulls allowed at every level, but in keys of maps.

    Spark's scans allow them, and it refuses casts that forbid them.

    Args:
        data_type: The type.
    """
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, nullable_type(field.type)) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(pa.field("element", nullable_type(data_type.value_type)))
    if pa.types.is_map(data_type):
        return pa.map_(data_type.key_type, pa.field("value", nullable_type(data_type.item_type)))
    return data_type


def nullable_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with nulls allowed in each column at every level; see `nullable_type`.

    Args:
        schema: The schema.
    """
    return pa.schema([pa.field(field.name, nullable_type(field.type)) for field in schema])


def _named_inner_fields(data_type: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(data_type):
        return list(data_type)
    if pa.types.is_map(data_type):
        return [data_type.item_field.with_name("value")]
    return [data_type.value_field.with_name("element")] if is_list(data_type) else []
