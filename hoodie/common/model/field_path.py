"""Fields in structs, named by dotted paths: ``address.city``.

A column whose own name contains the dot takes precedence. A null struct makes its fields null.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc


def type_at(schema: pa.Schema, path: str) -> pa.DataType | None:
    """The type of a field; None if no field has that path."""
    if schema.get_field_index(path) >= 0:
        return schema.field(path).type
    name, *parts = path.split(".")
    if schema.get_field_index(name) < 0:
        return None
    data_type = schema.field(name).type
    for part in parts:
        if not pa.types.is_struct(data_type) or data_type.get_field_index(part) < 0:
            return None
        data_type = data_type.field(part).type
    return data_type


def column_at(rows: pa.RecordBatch | pa.Table, path: str) -> pa.Array | pa.ChunkedArray | None:
    """The values of a field; None if no field has that path."""
    if type_at(rows.schema, path) is None:
        return None
    if rows.schema.get_field_index(path) >= 0:
        return rows.column(path)
    name, *parts = path.split(".")
    column = rows.column(name)
    for part in parts:
        column = pc.struct_field(column, part)
    return column


def top_level_name(schema: pa.Schema, path: str) -> str:
    """The column that contains a field; the path itself if there is none."""
    if schema.get_field_index(path) >= 0:
        return path
    name = path.partition(".")[0]
    return name if schema.get_field_index(name) >= 0 else path


def name_in_any_case(names: Iterable[str], wanted: str) -> str | None:
    """The name itself if it exists, or the first one that differs only in case; None if there is none."""
    lower, twin = wanted.lower(), None
    for name in names:
        if name == wanted:
            return name
        if twin is None and name.lower() == lower:
            twin = name
    return twin
