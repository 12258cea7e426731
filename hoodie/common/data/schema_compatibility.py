"""What an input's columns and a table's columns make together: the schema that is written, or a named refusal."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from hoodie.common.data.stored_types import find_field, fits, is_promotion, nesting, normalise_schema
from hoodie.common.model.record_columns import META_COLUMN_SET, RESERVED_COLUMNS
from hoodie.exception import MissingSchemaFieldException, SchemaCompatibilityException

__all__ = ["check_schema"]


def check_schema(
    table_schema: pa.Schema | None,
    input_schema: pa.Schema,
    set_null_for_missing: bool = False,
    key_fields: Collection[str] = (),
) -> pa.Schema:
    """The schema in which an input is written to a table.

    It has the table's columns, then the columns that only the input has, nullable. Columns match by name, as Spark
    matches them: upper and lower case are one, and the table's spelling stays. A column of the input may be narrower
    than the table's: its values are widened. It may be wider, too, along int32 -> int64 -> float -> double: then the
    table's column becomes as wide. Nullability stays the table's. The same holds for the fields of structs, in lists
    and maps too.

        table    id string, n int32, fare double
        input    n int64, fare float, id string, tip date
        result   id string, n int64, fare double, tip date

    Args:
        table_schema: The table's user columns; None for a table without any yet.
        input_schema: The input's columns, of any type; reserved and meta columns are left out.
        set_null_for_missing: Whether a column of the table that the input lacks is written as null
            (``hoodie.write.set.null.for.missing.columns``).
        key_fields: Record key and partition columns: integers among them do not become floats, whose keys would be
            others (``1.0`` for ``1``).

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
    merger = _SchemaMerger(set_null_for_missing, key_fields)
    merged = merger.merge_fields(stored, incoming, "")
    merger.raise_problems()
    return pa.schema(merged)


class _SchemaMerger:
    """Collects everything that is wrong, so that one error names it all."""

    def __init__(self, set_null_for_missing: bool, key_fields: Collection[str]) -> None:
        self._set_null = set_null_for_missing
        self._key_fields = key_fields
        self._missing: list[str] = []
        self._required: list[str] = []
        self._conflicts: list[str] = []

    def merge_fields(self, stored: Sequence[pa.Field], incoming: Sequence[pa.Field], prefix: str) -> list[pa.Field]:
        """The fields of a struct, or the columns: those of the table, then what the input adds."""
        merged, found = [], set()
        for field in stored:
            path = prefix + field.name
            twin = find_field(incoming, field.name)
            if twin is None:
                merged.append(field)
                self._missing_field(field, path)
            else:
                found.add(twin.name)
                merged.append(field.with_type(self._merged_type(field.type, twin.type, path)))
        return merged + [field.with_nullable(True) for field in incoming if field.name not in found]

    def raise_problems(self) -> None:
        """Say what is wrong, types first.

        Raises:
            MissingSchemaFieldException, SchemaCompatibilityException: As `check_schema`.
        """
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
                "hoodie.write.set.null.for.missing.columns=true to write nulls there, or (for an upsert) "
                "hoodie.write.partial.update=true to keep what is stored there"
            )

    def _missing_field(self, field: pa.Field, path: str) -> None:
        if not field.nullable:
            self._required.append(path)
        elif not self._set_null:
            self._missing.append(path)

    def _merged_type(self, stored: pa.DataType, incoming: pa.DataType, path: str) -> pa.DataType:
        """The table's type, widened, and with the fields that structs of the input add."""
        if nesting(stored) != nesting(incoming):
            return self._conflict(path, stored, incoming)
        if pa.types.is_struct(stored):
            return pa.struct(self.merge_fields(list(stored), list(incoming), f"{path}."))
        if pa.types.is_list(stored):
            return pa.list_(self._merged_item(stored.value_field, incoming.value_field, f"{path}.element"))
        if pa.types.is_map(stored):
            return pa.map_(stored.key_type, self._merged_item(stored.item_field, incoming.item_field, f"{path}.value"))
        if fits(incoming, stored):
            return stored
        if not is_promotion(stored, incoming):
            return self._conflict(path, stored, incoming)
        if path in self._key_fields and pa.types.is_integer(stored) and pa.types.is_floating(incoming):
            return self._conflict(path, stored, incoming, " (a key column, whose stored keys would be other strings)")
        return incoming

    def _merged_item(self, stored: pa.Field, incoming: pa.Field, path: str) -> pa.Field:
        return stored.with_type(self._merged_type(stored.type, incoming.type, path))

    def _conflict(self, path: str, stored: pa.DataType, incoming: pa.DataType, hint: str = "") -> pa.DataType:
        self._conflicts.append(f"{path}: the table has {stored}, the input {incoming}{hint}")
        return stored
