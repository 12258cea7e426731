"""A row for a batch that could not be prepared for a write: an engine would retry a task that raises."""

from __future__ import annotations

import pyarrow as pa

from hoodie.common.model.record_columns import RECORD_KEY
from hoodie.common.util.class_loading import error_of_class
from hoodie.exception import HoodieException

SAMPLED_BAD_ROWS = 5
"""Rows that an error about keys shows."""


def row_of_failure(error: HoodieException, schema: pa.Schema) -> pa.RecordBatch:
    """The row for a batch that could not be prepared: its partition path is null, and its record key holds the error.

    Args:
        error: The error of the preparation.
        schema: The schema of prepared rows.
    """
    text = f"{type(error).__name__}\n{error}"
    columns = [
        pa.array([text], pa.string()) if field.name == RECORD_KEY else pa.nulls(1, field.type) for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def failure_of(rows: pa.Table | pa.RecordBatch) -> HoodieException | None:
    """The error in a row for a batch that could not be prepared, if rows without partition path have one."""
    for text in rows.column(RECORD_KEY).to_pylist():
        if text is not None:
            name, _, message = text.partition("\n")
            return error_of_class(name, message)
    return None
