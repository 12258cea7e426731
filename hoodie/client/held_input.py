"""Keep one-shot input in memory, so that a write can read it again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def hold_input(records: Any) -> Any:
    """The input; one-shot input is read into memory first.

    Iterators of record batches and Arrow streams become a table, other iterators a list. Input that can be read again
    (a table, a data frame, a dataset, Spark's data) is returned as it is. A second reading of it may give other rows;
    this is safe, because a failed attempt leaves nothing behind.
    """
    if isinstance(records, pa.RecordBatchReader):
        return records.read_all()
    if isinstance(records, Iterator):
        items = list(records)
        if items and all(isinstance(item, pa.RecordBatch) for item in items):
            return pa.Table.from_batches(items)
        return items
    return records
