"""A batch that could not be prepared for a write, as a row: an engine would retry what is raised in a task."""

from __future__ import annotations

import pyarrow as pa

from hoodie.common.model.record_columns import RECORD_KEY
from hoodie.common.util.class_loading import error_of_class
from hoodie.exception import HoodieException


def row_of_failure(error: HoodieException, schema: pa.Schema) -> pa.RecordBatch:
    """The row that stands for a batch: it has no partition path, and its record key says why.

    Args:
        error: Why the batch could not be prepared.
        schema: Of the prepared rows.
    """
    text = f"{type(error).__name__}\n{error}"
    columns = [
        pa.array([text], pa.string()) if field.name == RECORD_KEY else pa.nulls(1, field.type) for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def failure_of(rows: pa.Table | pa.RecordBatch) -> HoodieException | None:
    """The error that stands for a batch that could not be prepared, if one is among rows without partition path."""
    for text in rows.column(RECORD_KEY).to_pylist():
        if text is not None:
            name, _, message = text.partition("\n")
            return error_of_class(name, message)
    return None
