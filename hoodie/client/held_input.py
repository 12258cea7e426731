"""Keep input that can be read once, so that a write of it can be made again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

__all__ = ["hold_input"]


def hold_input(records: Any) -> Any:
    """The input, in memory where it could be read only once.

    Iterators of record batches and Arrow streams become a table, other iterators a list. What can be read again, a
    table, a data frame, a dataset or Spark's, is given back as it is: an attempt that failed leaves nothing behind, so
    what a second reading gives may differ.
    """
    if isinstance(records, pa.RecordBatchReader):
        return records.read_all()
    if isinstance(records, Iterator):
        items = list(records)
        if items and all(isinstance(item, pa.RecordBatch) for item in items):
            return pa.Table.from_batches(items)
        return items
    return records
