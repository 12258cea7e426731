"""The columns of rows of text whose types nobody told: those of the table, and new ones."""

from __future__ import annotations

import pyarrow as pa


def with_new_columns(known: pa.Schema | None, found: pa.Schema | None) -> pa.Schema:
    """The columns of a table, with those that rows have beside them; also within records and lists.

    Args:
        known: The columns of the table; None if there is none. Their types count.
        found: The columns of the rows; None if they have none.
    """
    if known is None or found is None:
        return known or found or pa.schema([])
    return pa.schema(list(_together(pa.struct(list(known)), pa.struct(list(found)))))


def _together(known: pa.DataType, found: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(known) and pa.types.is_struct(found):
        fields = []
        for field in known:
            place = found.get_field_index(field.name)
            fields.append(field if place < 0 else field.with_type(_together(field.type, found.field(place).type)))
        names = {field.name for field in known}
        return pa.struct([*fields, *(field for field in found if field.name not in names)])
    if pa.types.is_list(known) and pa.types.is_list(found):
        return pa.list_(known.value_field.with_type(_together(known.value_type, found.value_type)))
    return known
