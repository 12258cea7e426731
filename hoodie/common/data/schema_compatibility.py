"""What an input's columns and a table's columns make together: the schema that is written, or a named refusal."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hoodie.common.data.stored_types import fits, is_nested, nesting, normalise_schema
from hoodie.common.model.record_columns import META_COLUMN_SET, RESERVED_COLUMNS
from hoodie.exception import MissingSchemaFieldException, SchemaCompatibilityException

__all__ = ["check_schema"]


def check_schema(
    table_schema: pa.Schema | None, input_schema: pa.Schema, set_null_for_missing: bool = False
) -> pa.Schema:
    """The schema in which an input is written to a table.

    It has the table's columns with the table's types, then the columns that only the input has, nullable. Columns
    match by name. A column of the input may be narrower than the table's (int32 for int64, float for double): it is
    widened. The same holds for the fields of structs.

    Args:
        table_schema: The table's user columns; None for a table without any yet.
        input_schema: The input's columns, of any type; reserved and meta columns are left out.
        set_null_for_missing: Whether a column of the table that the input lacks is written as null
            (``hoodie.write.set.null.for.missing.columns``).

    Raises:
        MissingSchemaFieldException: The input lacks columns of the table; all are named.
        SchemaCompatibilityException: Columns have types that do not fit; all are named with both types.
        HoodieSchemaException: As `normalise_schema`.
    """
    normal = normalise_schema(input_schema, table_schema)
    incoming = [field for field in normal if field.name not in RESERVED_COLUMNS]
    if table_schema is None or len(table_schema) == 0:
        return pa.schema(incoming)
    stored = [field for field in table_schema if field.name not in META_COLUMN_SET]
    merger = _SchemaMerger(set_null_for_missing)
    merged = merger.merge_fields(stored, incoming, "")
    merger.raise_problems()
    return pa.schema(merged)


class _SchemaMerger:
    """Collects everything that is wrong, so that one error names it all."""

    def __init__(self, set_null_for_missing: bool) -> None:
        self._set_null = set_null_for_missing
        self._missing: list[str] = []
        self._required: list[str] = []
        self._conflicts: list[str] = []

    def merge_fields(self, stored: Sequence[pa.Field], incoming: Sequence[pa.Field], prefix: str) -> list[pa.Field]:
        by_name = {field.name: field for field in incoming}
        merged = []
        for field in stored:
            path = prefix + field.name
            if field.name in by_name:
                self._check_type(field.type, by_name[field.name].type, path)
                merged.append(
                    pa.field(field.name, self._merged_type(field.type, by_name[field.name].type, path), field.nullable)
                )
            else:
                merged.append(field)
                self._missing_field(field, path)
        lower = {field.name.lower(): field.name for field in stored}
        known = {field.name for field in stored}
        for field in incoming:
            if field.name in known:
                continue
            twin = lower.get(field.name.lower())
            if twin is not None:
                self._conflicts.append(
                    f"{prefix}{field.name}: the table has {prefix}{twin}, which differs in case only"
                )
            merged.append(field.with_nullable(True))
        return merged

    def raise_problems(self) -> None:
        if self._conflicts:
            raise SchemaCompatibilityException(
                "the input does not fit the table's schema: " + "; ".join(self._conflicts) + ". Cast these columns of "
                "the input to the table's types"
            )
        if self._required:
            raise MissingSchemaFieldException(
                f"the input lacks {', '.join(self._required)}: the table's schema allows no nulls there"
            )
        if self._missing:
            raise MissingSchemaFieldException(
                f"the input lacks columns of the table: {', '.join(self._missing)}. Add them, or set "
                "hoodie.write.set.null.for.missing.columns=true to write nulls there"
            )

    def _missing_field(self, field: pa.Field, path: str) -> None:
        if not field.nullable:
            self._required.append(path)
        elif not self._set_null:
            self._missing.append(path)

    def _check_type(self, stored: pa.DataType, incoming: pa.DataType, path: str) -> None:
        if is_nested(stored) or is_nested(incoming):
            if nesting(stored) != nesting(incoming):
                self._conflict(path, stored, incoming)
        elif not fits(incoming, stored):
            self._conflict(path, stored, incoming)

    def _conflict(self, path: str, stored: pa.DataType, incoming: pa.DataType) -> None:
        hint = " (wider than the table's; a column's type cannot be widened yet)" if fits(stored, incoming) else ""
        self._conflicts.append(f"{path}: the table has {stored}, the input {incoming}{hint}")

    def _merged_type(self, stored: pa.DataType, incoming: pa.DataType, path: str) -> pa.DataType:
        """The table's type, with the fields that structs of the input add."""
        if nesting(stored) != nesting(incoming):
            return stored
        if pa.types.is_struct(stored):
            return pa.struct(self.merge_fields(list(stored), list(incoming), f"{path}."))
        if pa.types.is_list(stored):
            element = self._merged_item(stored.value_field, incoming.value_field, f"{path}.element")
            return pa.list_(element)
        if pa.types.is_map(stored):
            return pa.map_(stored.key_type, self._merged_item(stored.item_field, incoming.item_field, f"{path}.value"))
        return stored

    def _merged_item(self, stored: pa.Field, incoming: pa.Field, path: str) -> pa.Field:
        self._check_type(stored.type, incoming.type, path)
        return stored.with_type(self._merged_type(stored.type, incoming.type, path))
