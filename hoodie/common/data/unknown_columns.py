"""Columns of an input that a table does not have: new or misspelt ones."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence

import attrs
import pyarrow as pa

from hoodie.common.data.stored_types import field_finder, is_dropped, nesting
from hoodie.common.model.record_columns import RESERVED_COLUMNS


@attrs.frozen
class UnknownColumn:
    """A column that a table does not have.

    Attributes:
        path: Its name, after the names of the columns that it is nested in: ``place.zome``, ``visits.element.zome``.
        nearest: The table's column at the same place whose name is most similar.
    """

    path: str
    nearest: str

    def __str__(self) -> str:
        """Both names, for a message."""
        return f"'{self.path}' (nearest: '{self.nearest}')"


def unknown_columns(
    table_schema: pa.Schema, input_schema: pa.Schema, allowed: Collection[str] = ()
) -> list[UnknownColumn]:
    """The columns of an input, and the fields of its structs, that a table does not have.

    Names match in any case, as in `merge_schemas`. Types are only compared where both are nested.

    Args:
        table_schema: The table's columns.
        input_schema: The input's columns; those that are never stored, and hoodie's own, are ignored.
        allowed: Names of columns, in any case, that are not reported.
    """
    names = {name.lower() for name in allowed}
    given = [
        field
        for field in input_schema
        if not is_dropped(field.name) and field.name not in RESERVED_COLUMNS and field.name.lower() not in names
    ]
    return list(_unknown_fields(list(table_schema), given, ""))


def _unknown_fields(stored: Sequence[pa.Field], given: Iterable[pa.Field], prefix: str) -> Iterator[UnknownColumn]:
    find = field_finder(stored)
    for field in given:
        twin = find(field.name)
        if twin is None:
            yield UnknownColumn(prefix + field.name, prefix + _nearest(field.name, stored))
        elif nesting(twin.type) and nesting(twin.type) == nesting(field.type):
            yield from _unknown_members(twin.type, field.type, prefix + twin.name)


def _unknown_members(stored: pa.DataType, given: pa.DataType, path: str) -> Iterator[UnknownColumn]:
    if pa.types.is_struct(stored):
        yield from _unknown_fields(list(stored), list(given), f"{path}.")
        return
    is_map = pa.types.is_map(stored)
    name, inner, other = (
        ("value", stored.item_type, given.item_type) if is_map else ("element", stored.value_type, given.value_type)
    )
    if nesting(inner) and nesting(inner) == nesting(other):
        yield from _unknown_members(inner, other, f"{path}.{name}")


def _nearest(name: str, fields: Sequence[pa.Field]) -> str:
    by_lower: dict[str, str] = {field.name.lower(): field.name for field in fields}
    return by_lower[difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.0)[0]]
