"""Merge an input's columns with a table's: the schema that is written, or an error that names the columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs
import pyarrow as pa

from hoodie.common.data.exact_numbers import rounded_from
from hoodie.common.data.nullability import required_paths
from hoodie.common.data.stored_types import (
    field_finder,
    fits,
    is_lossless,
    is_promotion,
    nesting,
    normalise_schema,
)
from hoodie.common.model.record_columns import META_COLUMN_SET, RESERVED_COLUMNS
from hoodie.exception import MissingSchemaFieldException, SchemaCompatibilityException


@attrs.frozen
class ColumnChange:
    """The change of a column whose type in the input is not the table's, or that the table lacks.

    Attributes:
        column: The column, as a path if it is nested: ``prices.value``.
        stored: The table's type; None for a new column.
        given: The input's type, as it would be stored.
        becomes: The column's type once the input is written.
        is_rounded: Whether ``hoodie.write.schema.widen.lossy=true`` turns integers of the column into the nearest
            floats.
        takes_nulls: Whether the column allows nulls from now on, and did not until now.
    """

    column: str
    stored: pa.DataType | None
    given: pa.DataType
    becomes: pa.DataType
    is_rounded: bool = False
    takes_nulls: bool = False

    def __str__(self) -> str:
        if self.stored is None:
            return f"{self.column} is new, {self.becomes}"
        if self.takes_nulls:
            return f"{self.column} allows nulls from now on"
        if self.stored != self.becomes:
            text = f"{self.column} becomes {self.becomes}, from {self.stored}"
        else:
            text = f"{self.column} stays {self.stored}, the input has {self.given}"
        if self.is_rounded:
            return f"{text}: {self.cost}"
        return text if is_lossless(self.given, self.becomes) else f"{text}: a value that would lose something fails"

    @property
    def cost(self) -> str:
        """The loss in a column with rounded integers."""
        which = "of the input" if self.stored == self.becomes else "of the table and of the input"
        return f"integers {which} beyond {rounded_from(self.becomes)} are rounded for good"


@attrs.frozen
class MergedSchema:
    """The schema in which an input is written.

    Attributes:
        columns: See `merge_schemas`.
        changes: New columns, and columns whose types differ; empty for a table without columns.
    """

    columns: pa.Schema
    changes: tuple[ColumnChange, ...] = ()


def merge_schemas(
    table_schema: pa.Schema | None,
    input_schema: pa.Schema,
    set_null_for_missing: bool = False,
    key_fields: Collection[str] = (),
    widens_lossy: bool = False,
    declared: pa.Schema | None = None,
) -> MergedSchema:
    """Compute the schema in which an input is written to a table, and the changes of columns.

    The schema has the table's columns, then the columns that only the input has, as nullable columns. Columns match by
    name, as in Spark: upper and lower case are the same, and the table's spelling stays. A column of the input may be
    narrower than the table's; its values are widened. It may also be wider if the table's column can become as wide
    without losing anything: int32 -> int64 or double, float -> double. Other numbers keep the table's type, and their
    values are checked when they are converted (`normalise_batch`): floats for an integer column must be whole. The
    table's nullability stays. The same rules apply to the fields of structs, also in lists and maps.

        table    id string, n int32,  m int64,  fare double
        input    n int64,   m double, fare float, id string, tip date
        result   id string, n int64,  m int64,  fare double, tip date

    Args:
        table_schema: The table's user columns; None for a table without any yet.
        input_schema: The input's columns, of any type; reserved and meta columns are left out.
        set_null_for_missing: Whether a column of the table that the input lacks is written as null
            (``hoodie.write.set.null.for.missing.columns``).
        key_fields: Record key and partition columns: integers among them never become floats, because their keys would
            change (``1.0`` for ``1``), and they never begin to allow nulls.
        widens_lossy: Whether integers become floats nevertheless, as in Hudi (``hoodie.write.schema.widen.lossy``).
        declared: Columns as a user declared them: where they allow no nulls, the table never begins to.

    Raises:
        MissingSchemaFieldException: The input lacks columns of the table; the message names all of them.
        SchemaCompatibilityException: Columns have types that do not fit; the message names all of them, with both
            types.
        HoodieSchemaException: See `normalise_schema`.
    """
    normal = normalise_schema(input_schema, table_schema)
    incoming = [field for field in normal if field.name not in RESERVED_COLUMNS]
    if table_schema is None or len(table_schema) == 0:
        return MergedSchema(pa.schema(incoming))
    stored = [field for field in table_schema if field.name not in META_COLUMN_SET]
    required = frozenset(required_paths(declared or ()))
    merger = _SchemaMerger(set_null_for_missing, key_fields, widens_lossy, required)
    merged = merger.merge_fields(stored, incoming, "")
    merger.raise_problems()
    return MergedSchema(pa.schema(merged), tuple(merger.changes))


class _SchemaMerger:
    """Merges the columns; collects all problems, so that one error names them all, and all changes."""

    def __init__(
        self,
        set_null_for_missing: bool,
        key_fields: Collection[str],
        widens_lossy: bool,
        declared_required: frozenset[str],
    ) -> None:
        self.changes: list[ColumnChange] = []
        self._set_null = set_null_for_missing
        self._key_fields = key_fields
        self._widens_lossy = widens_lossy
        self._declared_required = declared_required
        self._missing: list[str] = []
        self._required: list[str] = []
        self._conflicts: list[str] = []

    def merge_fields(self, stored: Sequence[pa.Field], incoming: Sequence[pa.Field], prefix: str) -> list[pa.Field]:
        """The fields of a struct, or the columns: those of the table, then those of the input only."""
        merged, found = [], set()
        find = field_finder(incoming)
        for field in stored:
            path = prefix + field.name
            twin = find(field.name)
            if twin is None:
                if not field.nullable and self._stays_required(path):
                    self._required.append(path)
                elif not self._set_null:
                    self._missing.append(path)
                merged.append(self._relaxed(field, path))
            else:
                found.add(twin.name)
                merged.append(self._merged_field(field, twin, path))
        added = [field.with_nullable(True) for field in incoming if field.name not in found]
        self.changes += [ColumnChange(prefix + field.name, None, field.type, field.type) for field in added]
        return merged + added

    def raise_problems(self) -> None:
        """Raise an error for the problems, types first.

        Raises:
            MissingSchemaFieldException, SchemaCompatibilityException: See `merge_schemas`.
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
                "hoodie.write.partial.update=true to keep the stored values"
            )

    def _merged_type(self, stored: pa.DataType, incoming: pa.DataType, path: str) -> pa.DataType:
        """The table's type, widened, with the fields that the input adds to structs."""
        if nesting(stored) != nesting(incoming):
            return self._conflict(path, stored, incoming)
        if pa.types.is_struct(stored):
            return pa.struct(self.merge_fields(list(stored), list(incoming), f"{path}."))
        if pa.types.is_list(stored):
            return pa.list_(self._merged_field(stored.value_field, incoming.value_field, f"{path}.element"))
        if pa.types.is_map(stored):
            return pa.map_(stored.key_type, self._merged_field(stored.item_field, incoming.item_field, f"{path}.value"))
        if stored == incoming:
            return stored
        becomes = self._wider_type(stored, incoming, path) or (stored if fits(incoming, stored) else None)
        if becomes is None:
            return self._conflict(path, stored, incoming)
        is_exact = is_lossless(stored, becomes) and is_lossless(incoming, becomes)
        is_rounded = self._widens_lossy and not is_exact and pa.types.is_floating(becomes) and not self._is_key(path)
        self.changes.append(ColumnChange(path, stored, incoming, becomes, is_rounded))
        return becomes

    def _wider_type(self, stored: pa.DataType, incoming: pa.DataType, path: str) -> pa.DataType | None:
        """The input's type if the table's column can be widened to it; otherwise None."""
        if not is_promotion(stored, incoming) or not (self._widens_lossy or is_lossless(stored, incoming)):
            return None
        is_other_key = self._is_key(path) and pa.types.is_integer(stored) and pa.types.is_floating(incoming)
        return None if is_other_key else incoming

    def _is_key(self, path: str) -> bool:
        return path in self._key_fields

    def _stays_required(self, path: str) -> bool:
        """Whether a column never begins to allow nulls: as a part of the key, or a struct with one; or as declared."""
        holds_key = any(field == path or field.startswith(f"{path}.") for field in self._key_fields)
        return holds_key or path in self._declared_required

    def _merged_field(self, stored: pa.Field, incoming: pa.Field, path: str) -> pa.Field:
        """A column, field, element or value of the table that the input has too."""
        merged = stored.with_type(self._merged_type(stored.type, incoming.type, path))
        return self._relaxed(merged, path) if incoming.nullable else merged

    def _relaxed(self, field: pa.Field, path: str) -> pa.Field:
        """The field, which allows nulls from now on."""
        if field.nullable or self._stays_required(path):
            return field
        self.changes.append(ColumnChange(path, field.type, field.type, field.type, takes_nulls=True))
        return field.with_nullable(True)

    def _conflict(self, path: str, stored: pa.DataType, incoming: pa.DataType) -> pa.DataType:
        self._conflicts.append(f"{path}: the table has {stored}, the input {incoming}")
        return stored
