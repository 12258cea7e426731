"""Find the keys of tagged rows that are not in the table."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.model.record_columns import CURRENT_FILE_ID, RECORD_KEY, reserved_field
from hoodie.engine.data import HoodieData
from hoodie.engine.task_identity import TaskIdentity

_IS_FOUND = "__hoodie_is_found"
_KEYS = pa.schema([reserved_field(RECORD_KEY)])


def missing_keys(tagged: HoodieData, is_global: bool) -> HoodieData:
    """The record keys of rows whose key is not in the table.

    Args:
        tagged: Rows with the CURRENT columns, without deletes of nothing.
        is_global: Whether a row without a location may move: its key is in the table, in another partition.

    Returns:
        The column ``RECORD_KEY``.
    """
    missing = tagged.map_batches(_Keys(is_found=False), _KEYS)
    if not is_global:
        return missing
    found = tagged.map_batches(_Keys(is_found=True), _KEYS.append(pa.field(_IS_FOUND, pa.bool_())))
    return missing.join(found, [RECORD_KEY], "left").map_batches(_not_found, _KEYS)


@attrs.frozen
class _Keys:
    is_found: bool

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        found = batch.column(CURRENT_FILE_ID).is_valid().to_numpy(zero_copy_only=False)
        keys = batch.select([RECORD_KEY]).filter(pa.array(found if self.is_found else ~found))
        if not self.is_found:
            return keys
        return keys.append_column(pa.field(_IS_FOUND, pa.bool_()), pa.array(np.ones(keys.num_rows, dtype=np.bool_)))


def _not_found(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(batch.column(_IS_FOUND).is_null()).select([RECORD_KEY])


@attrs.frozen
class FirstRows:
    """The first rows of each partition; crosses to tasks.

    Attributes:
        count: The number of rows.
    """

    count: int

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields batches until there are enough rows."""
        remaining = self.count
        for batch in batches:
            yield batch.slice(0, remaining)
            remaining -= batch.num_rows
            if remaining <= 0:
                return
