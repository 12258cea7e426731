"""The rows of a table by their numbers, for any type and size of column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from hoodie.common.data.grouped_rows import joined_chunks, take_rows

BATCH_ROWS = 1 << 17
"""The rows of the batches that tables are cut into: enough that calls cost little, and few enough for caches."""

BATCH_BYTES = 1 << 28
"""The most bytes of a batch of taken rows, by the table's average: far below 2 GiB, the limit of its offsets."""

_ONE_ARRAY = 1 << 31
"""Tables of fewer bytes have columns that one array holds."""

_FEW_ROWS = 1 << 14
"""Batches with fewer rows on average are joined before rows are taken from them."""


class NumberedRows:
    """Gives the rows of a table by number, for any type and size.

    Arrow's own `take` joins the chunks of a column first. That fails if a column has more than 2 GiB of strings, or
    more than 2**31 elements in its lists.

    Args:
        table: The rows.
        as_given: Keep the batches of the input, without a copy, unless they are small: for `by_batch`.

    Attributes:
        row_bytes: The bytes of a row on average.
        rows_of_batch: The rows of a batch of taken rows.
    """

    def __init__(self, table: pa.Table, as_given: bool = False) -> None:
        batches = _batches(table)
        if not as_given or len(batches) > 16 + table.num_rows // _FEW_ROWS:
            batches = _batches(_combined(table))
        self._batches = batches
        self._starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
        self.row_bytes = max(1, -(-table.nbytes // max(1, table.num_rows)))
        self.rows_of_batch = max(1, min(BATCH_ROWS, BATCH_BYTES // self.row_bytes))

    def by_batch(self, rows: np.ndarray) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """Yield batches, and which of their rows are among the given ascending numbers; skips batches without any."""
        starts = self._starts
        places = np.searchsorted(rows, starts)
        for batch, start, low, high in zip(self._batches, starts[:-1], places[:-1], places[1:], strict=True):
            if low < high:
                yield batch, rows[low:high] - start

    def take_parts(self, parts: Sequence[np.ndarray]) -> list[list[pa.RecordBatch]]:
        """Parts of the rows, each as slices of a copy of the rows of all parts, one for each batch that has some.

        Args:
            parts: The numbers of the rows of each part, ascending.
        """
        rows = np.concatenate(parts)
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        part_of_row = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        taken: list[list[pa.RecordBatch]] = [[] for _ in parts]
        for owner in np.unique(owners).tolist():
            mine = np.flatnonzero(owners == owner)
            copied = take_of_batch(self._batches[owner], rows[mine] - self._starts[owner])
            counts = np.bincount(part_of_row[mine], minlength=len(parts))
            for part, (end, count) in enumerate(zip(np.cumsum(counts).tolist(), counts.tolist(), strict=True)):
                if count:
                    taken[part].append(copied.slice(end - count, count))
        return taken

    def take(self, rows: np.ndarray) -> pa.RecordBatch:
        """The rows with these numbers, in this order; nulls for -1."""
        if len(self._batches) == 1:
            return take_of_batch(self._batches[0], rows)
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        parts, taken = [], [np.zeros(0, dtype=np.int64)]
        for owner in np.unique(owners[rows >= 0]):
            mine = np.flatnonzero(owners == owner)
            parts.append(take_of_batch(self._batches[owner], rows[mine] - self._starts[owner]))
            taken.append(mine)
        places = np.full(len(rows), -1, dtype=np.int64)
        found = np.concatenate(taken)
        places[found] = np.arange(len(found))
        together = pa.Table.from_batches(parts, self._batches[0].schema).combine_chunks().to_batches()
        if len(together) > 1:
            raise pa.ArrowInvalid("the rows hold more strings than one array can hold")
        return take_of_batch(together[0] if together else self._batches[0].slice(0, 0), places)


def _combined(table: pa.Table) -> pa.Table:
    """The table in one chunk, if that is possible."""
    try:
        return table.combine_chunks()
    except pa.ArrowInvalid:
        return table


def _batches(table: pa.Table) -> list[pa.RecordBatch]:
    return table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]


def take_of_batch(batch: pa.RecordBatch, rows: np.ndarray) -> pa.RecordBatch:
    """The rows of a batch with the given numbers, nulls for -1. Rows that follow each other are not copied.

    Args:
        batch: The rows.
        rows: The numbers.
    """
    if len(rows) and rows[0] >= 0 and bool((np.diff(rows) == 1).all()):
        return batch.slice(rows[0], len(rows))
    return take_rows(batch, pa.array(rows, mask=rows < 0))


def taken_batches(sides: Sequence[tuple[NumberedRows, np.ndarray]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of one or several tables, side by side, in batches that Arrow can hold.

    Args:
        sides: Tables, each with the numbers of the wanted rows; equally many.
        schema: The columns of all of them.
    """
    count = len(sides[0][1])
    step = min(rows.rows_of_batch for rows, _ in sides)
    for low in range(0, count, step):
        yield from _some(sides, schema, low, min(low + step, count))


def _some(
    sides: Sequence[tuple[NumberedRows, np.ndarray]], schema: pa.Schema, low: int, high: int
) -> Iterator[pa.RecordBatch]:
    try:
        columns = [array for rows, numbers in sides for array in rows.take(numbers[low:high]).columns]
    except (pa.ArrowInvalid, pa.ArrowCapacityError):
        # These rows are so much larger than the average that one array cannot hold them.
        if high - low < 2:
            raise
        middle = (low + high) // 2
        yield from _some(sides, schema, low, middle)
        yield from _some(sides, schema, middle, high)
    else:
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def take_of_table(table: pa.Table, numbers: np.ndarray) -> pa.Table:
    """The rows of a table with the given numbers. A table with more than 2 GiB in a column is not joined.

    Args:
        table: The rows.
        numbers: Their numbers, in the wanted order.
    """
    if table.nbytes < _ONE_ARRAY:
        batches = joined_chunks(table).to_batches()
        if len(batches) == 1:
            return pa.Table.from_batches([take_rows(batches[0], pa.array(numbers))], table.schema)
    return pa.Table.from_batches(taken_batches([(NumberedRows(table), numbers)], table.schema), table.schema)
