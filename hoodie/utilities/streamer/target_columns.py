"""Rows with the columns of another schema: by name, in its order, with its types."""

from __future__ import annotations

import pyarrow as pa

from hoodie.exception import HoodieSchemaException


def with_columns(rows: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Give rows the columns of a schema. Columns that it lacks are dropped; those that the rows lack are null.

    Args:
        rows: The rows.
        target: The columns.

    Raises:
        HoodieSchemaException: A value does not fit the type of its column, or a column that may not be null is missing
            or has nulls.
    """
    columns = []
    for field in target:
        place = rows.schema.get_field_index(field.name)
        if place < 0:
            if not field.nullable:
                raise HoodieSchemaException(
                    f"column '{field.name}' of the target schema may not be null, and the rows have no such column"
                )
            columns.append(pa.nulls(len(rows), field.type))
            continue
        column = rows.column(place)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except (pa.ArrowException, NotImplementedError) as error:
            raise HoodieSchemaException(
                f"column '{field.name}' is {column.type} in the rows and {field.type} in the target schema: {error}"
            ) from error
        if not field.nullable and column.null_count:
            raise HoodieSchemaException(
                f"column '{field.name}' of the target schema may not be null, and {column.null_count} rows have none"
            )
    return pa.RecordBatch.from_arrays(columns, schema=target)
