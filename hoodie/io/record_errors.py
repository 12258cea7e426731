"""The records of one file that could not be stored."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hoodie.common.model.record_columns import MERGE_ERROR, RECORD_KEY
from hoodie.common.model.write_status import MAX_REPORTED_ERRORS, RecordError

__all__ = ["RecordErrors"]


class RecordErrors:
    """Counts the records that could not be stored, and names the first ones.

    Args:
        schema: The user's columns.
        partition_path: The partition of the records.
    """

    def __init__(self, schema: pa.Schema, partition_path: str) -> None:
        self._schema = schema
        self._partition_path = partition_path
        self.count = 0
        """The number of records."""
        self.named: list[RecordError] = []
        """The first records."""

    def add(self, record_key: str, reason: str) -> None:
        """Count a record.

        Args:
            record_key: Its key.
            reason: Why it could not be stored.
        """
        self.count += 1
        if len(self.named) < MAX_REPORTED_ERRORS:
            self.named.append(RecordError(record_key, self._partition_path, reason))

    def without_bad_records(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that fit the schema and could be merged; counts the others.

        Args:
            rows: Columns of the schema, the reserved record key, and the errors of the merger if there are any.
        """
        bad = np.zeros(rows.num_rows, dtype=np.bool_)
        reasons: list[tuple[str | None, np.ndarray]] = []
        for field in self._schema:
            column = rows.column(field.name)
            if not field.nullable and column.null_count:
                nulls = column.is_null().to_numpy(zero_copy_only=False)
                reasons.append((f"column {field.name} is null, but the table says it never is", nulls))
                bad |= nulls
        if MERGE_ERROR in rows.schema.names and rows.column(MERGE_ERROR).null_count < rows.num_rows:
            failed = rows.column(MERGE_ERROR).is_valid().to_numpy(zero_copy_only=False)
            reasons.append((None, failed))
            bad |= failed
        if not reasons:
            return rows
        keys = rows.column(RECORD_KEY)
        positions = np.flatnonzero(bad)
        shown = positions[: MAX_REPORTED_ERRORS - len(self.named)]
        for position in shown:
            reason = next(text for text, has_it in reasons if has_it[position])
            self.add(keys[position].as_py(), reason or rows.column(MERGE_ERROR)[position].as_py())
        self.count += len(positions) - len(shown)
        return rows.filter(pa.array(~bad))
