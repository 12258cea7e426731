"""Set columns of the rows that a condition matches, from the rows as they are when the write begins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.normalise import normalise_table
from hoodie.common.data.record_source import record_batches
from hoodie.common.data.stored_types import field_finder, spelled_otherwise
from hoodie.common.data.unknown_columns import unknown_columns
from hoodie.common.model.field_path import top_level_name
from hoodie.common.model.record_columns import META_COLUMN_SET
from hoodie.common.util.shown_value import shown_value
from hoodie.exception import HoodieConfigException, HoodieKeyException, HoodieSchemaException
from hoodie.query.arrow_reader import scan
from hoodie.query.planner import plan_of
from hoodie.query.table_query import Filters, TableQuery
from hoodie.table.table import HoodieTable


@attrs.frozen
class RowUpdate:
    """Values for some columns of the rows that a condition matches.

    Attributes:
        where: The condition; None for all rows.
        values: Column -> a value, or an expression over the stored columns.
    """

    where: Filters
    values: Mapping[str, Any]

    def check(self) -> None:
        """Refuse values that are not given by columns.

        Raises:
            HoodieConfigException: They are empty, or not a mapping of names.
        """
        if not isinstance(self.values, Mapping) or not self.values:
            given = "an empty dict" if isinstance(self.values, Mapping) else shown_value(self.values)
            raise HoodieConfigException(f"set is {given}: give a dict of columns, such as {{'fare': 9.5}}")
        if wrong := [name for name in self.values if not isinstance(name, str)]:
            raise HoodieConfigException(f"set has a name that is {shown_value(wrong[0])}: give names of columns")
        TableQuery.of(filters=self.where)

    def __call__(self, table: HoodieTable) -> pa.Table:
        """The rows to write: with their new values, and the meta columns that say where they are stored.

        Args:
            table: The table as the write sees it.

        Raises:
            HoodieKeyException: A column is part of the record key or of the partition path.
            HoodieSchemaException: A column is not in the table, or a value does not fit its type.
        """
        # Imported here because it imports pandas, which takes longer than the rest of hoodie.
        import pyarrow.dataset as ds

        rows = scan(plan_of(table.snapshot, TableQuery.of(filters=self.where))).read_all()
        assigned = self._by_stored_name(table, rows.schema)
        columns = {
            name: assigned[name] if isinstance(assigned.get(name), pc.Expression) else pc.field(name)
            for name in rows.schema.names
        }
        try:
            computed = ds.dataset(rows).to_table(columns=columns)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise HoodieSchemaException(f"set cannot be computed: {error}; nothing was written") from error
        arrays = [
            fitting(field, assigned.get(field.name, pc.field(field.name)), computed[field.name], "set")
            for field in rows.schema
        ]
        return pa.Table.from_arrays(arrays, schema=rows.schema)

    def _by_stored_name(self, table: HoodieTable, schema: pa.Schema) -> dict[str, Any]:
        find = field_finder(schema)
        path, config = table.snapshot.base_path, table.snapshot.table_config
        of_keys = {
            top_level_name(schema, field.partition(":")[0])
            for field in (*config.record_key_fields, *config.partition_fields)
        }
        assigned = {}
        for name, value in self.values.items():
            field = find(name)
            if field is None or field.name in META_COLUMN_SET:
                users = [other for other in schema.names if other not in META_COLUMN_SET]
                raise HoodieSchemaException(
                    f"set names {name!r}, which is no column of {path}{spelled_otherwise(users, [name])}: its columns "
                    f"are {', '.join(users)}; nothing was written"
                )
            if field.name in of_keys:
                raise HoodieKeyException(
                    f"set names {field.name!r}, which is part of the record key or the partition path of {path}: "
                    "delete the rows, and insert them with their new key; nothing was written"
                )
            assigned[field.name] = value
        return assigned


def fitting(field: pa.Field, value: Any, computed: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """The values of a column, in its stored type.

    Args:
        field: The column.
        value: A value of the user, or an expression.
        computed: The values of the expression; of another value, the number of rows.
        where: The place where the user gives it, for messages.

    Raises:
        HoodieSchemaException: They do not fit.
    """
    try:
        if isinstance(value, pc.Expression):
            fitted = _cast(computed, field)
        else:
            fitted = pa.chunked_array([pa.repeat(_exact_value(field, value), len(computed))])
    except (pa.ArrowException, HoodieSchemaException, TypeError, OverflowError) as error:
        given = f"an expression of {computed.type}" if isinstance(value, pc.Expression) else shown_value(value)
        raise HoodieSchemaException(
            f"{where} gives column {field.name!r}, which is {field.type}, {given}: {error}; nothing was written"
        ) from error
    if pa.types.is_floating(field.type) and _becomes_infinite(
        computed if isinstance(value, pc.Expression) else value, fitted
    ):
        raise HoodieSchemaException(
            f"{where} gives column {field.name!r}, which is {field.type}, a number that is too large for it; nothing "
            "was written"
        )
    if fitted.null_count and not field.nullable:
        raise HoodieSchemaException(
            f"{where} gives column {field.name!r} nulls, and the table takes none there; nothing was written"
        )
    return fitted


def _cast(computed: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """The values of an expression in the type of a column; numbers may have another width, and nothing else changes.

    Raises:
        HoodieSchemaException: The types do not fit.
        ArrowException: A number would change.
    """
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    is_number = any(kind(computed.type) for kind in kinds) and any(kind(field.type) for kind in kinds)
    if computed.type == field.type or is_number:
        return computed.cast(field.type)
    named = pa.table([computed], [field.name])
    return normalise_table(named, pa.schema([field.with_nullable(True)])).column(0)


def _exact_value(field: pa.Field, value: Any) -> pa.Scalar:
    """A Python value as the writes of dicts store it.

    Raises:
        HoodieSchemaException: It does not fit, or names fields that the column does not have.
    """
    known = pa.schema([field.with_nullable(True)])
    source = record_batches([{field.name: value}], known)
    if unknown := unknown_columns(known, source.schema):
        raise HoodieSchemaException(f"the column has no field {', '.join(column.path for column in unknown)}")
    row = pa.Table.from_batches(source.batches, source.schema)
    return normalise_table(row, known, fill_missing=True).column(0)[0]


def _becomes_infinite(given: Any, fitted: pa.ChunkedArray) -> bool:
    """Whether a finite float is too large for its column; Arrow's casts do not tell."""
    if isinstance(given, pa.ChunkedArray):
        if not pa.types.is_floating(given.type):
            return False
        return bool(pc.any(pc.and_(pc.is_inf(fitted), pc.is_finite(given))).as_py())
    return isinstance(given, float) and math.isfinite(given) and bool(pc.any(pc.is_inf(fitted)).as_py())
