"""Rows of any number in an order, within a limit of memory.

Hudi: the sort of Spark that org.apache.hudi.execution.bulkinsert.RowCustomColumnsSortPartitioner asks for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any, Self

import numpy as np
import pyarrow as pa

from hoodie.common.data.numbered_rows import BATCH_BYTES, BATCH_ROWS, NumberedRows, taken_batches
from hoodie.execution.bulkinsert.row_order import RowOrder, sorted_numbers
from hoodie.io.log_row_store import concat_rows
from hoodie.io.spill_file import SpillFile

_KEY_PREFIX = "__hoodie_sort_key_"
_MOST_RUNS = 64
"""So many runs are merged at a time; more of them are first merged into one."""
_BYTES_OF_ORDER = 32
"""What sorting takes for each row beside the rows and their keys: numbers of rows, and what Arrow sorts with."""
_PART_OF_FILE = 1 << 10
"""A run is written and read in batches of this part of the limit."""
_SHARE_OF_RUN = 0.75
"""What the rows of a run, and their sort, take of the limit; the rest is for batches on their way, and for memory that
the allocator has not yet given back."""
_PART_OF_INPUT = 4
"""A batch of the input that is larger than this part of the limit is cut."""
_PART_OF_RESULT = 1 << 4
"""A batch of the result has at most this part of the limit."""
_PART_OF_MERGE = 4
"""The blocks of all runs that are merged have this part of the limit."""
_LEAST_BYTES = 1 << 16


class RowSorter:
    """Sorts rows: in memory up to a limit, above it in runs that go to local files and are merged; a context manager.

    A merge holds a block of each run. Rows up to the smallest last row of these blocks can be given out, as all rows
    that are not loaded come after it; the blocks that this ends are followed by the next ones::

        run 1    a c e | g     rows a b c d e are sorted and given out,
        run 2    b d f | h     then the block with g is loaded

    The order is stable. Memory: the limit, or about two rows of the input where these are larger.

    Args:
        order: The order, `RowOrder.checked` for the rows.
        max_bytes: The limit, ``hoodie.memory.clustering.max.size``.
        spill_folder: The folder of the files; None for the system's folder for temporary files.
    """

    def __init__(self, order: RowOrder, max_bytes: int, spill_folder: str | None = None) -> None:
        self._order = order
        self._max_bytes = max_bytes
        self._folder = spill_folder
        self._files = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove all files; a second call does nothing."""
        self._files.close()

    def sorted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order, in batches of at most 131,072 rows; files are removed at the end and on errors.

        Args:
            batches: The rows, of one schema. Their memory is given back as they are put in order, if the caller holds
                it no longer.

        Raises:
            HoodieIOException: A file cannot be written or read.
        """
        try:
            if self._order.needs_sample:
                yield from self._sorted_by_sample(batches)
            else:
                yield from self._sorted(batches)
        finally:
            self.close()

    def _sorted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        runs: list[_Run] = []
        held: list[pa.RecordBatch] = []
        for part, is_last in self._parts(map(self._with_keys, batches)):
            if is_last and not runs:
                held = part
                break
            runs.append(self._run_of(self._in_order(part)))
            if len(runs) == _MOST_RUNS:
                runs = [self._run_of(self._merged(runs))]
        for batch in self._merged(runs) if runs else self._in_order(held):
            yield self._without_keys(batch)

    def _sorted_by_sample(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows are looked at before the first one is sorted: if they do not fit, they go to a file as they come."""
        sample = _Sample(self._order)
        parts = self._parts(map(sample.looked_at, batches))
        part, is_last = next(parts)
        rows = _emptied(part)
        if not is_last:
            others = (batch for other, _ in parts for batch in _emptied(other))
            rows = _read_once(self._written(chain(rows, others), _PART_OF_RESULT))
        self._order = self._order.sampled(sample.rows)
        yield from self._sorted(rows)

    def _parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[list[pa.RecordBatch], bool]]:
        """The batches in lists that can be sorted within the limit, and whether a list is the last one."""
        held: list[pa.RecordBatch] = []
        limit = int(self._max_bytes * _SHARE_OF_RUN)
        taken, largest = 0, np.zeros(0, np.int64)
        for batch in batches:
            for piece in self._pieces(batch):
                sizes = np.array([column.nbytes for column in piece.columns], np.int64)
                if held and int(taken + sizes.sum() + (largest + sizes).max()) > limit:
                    yield held, False
                    held, taken, largest = [], 0, np.zeros(0, np.int64)
                held.append(piece)
                taken += int(sizes.sum()) + _BYTES_OF_ORDER * piece.num_rows
                largest = largest + sizes if len(largest) else sizes
        yield held, True

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A batch of the input, cut only if it is so large that it would fill the limit in too few steps."""
        rows = max(1, self._max_bytes // _PART_OF_INPUT * batch.num_rows // max(1, batch.nbytes))
        for low in range(0, batch.num_rows, rows):
            yield batch.slice(low, rows)

    def _rows_of(self, num_bytes: int, num_rows: int, part: int) -> int:
        """The number of rows of a part of the limit, at least one, by the average."""
        wanted = min(BATCH_BYTES, max(_LEAST_BYTES, self._max_bytes // part))
        return max(1, min(BATCH_ROWS, wanted * num_rows // max(1, num_bytes)))

    def _with_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with their places on a curve; columns are sort keys of their own, which cost little to make."""
        if not self._order.is_curve:
            return batch
        for number, key in enumerate(self._order.sort_keys(batch)):
            batch = batch.append_column(f"{_KEY_PREFIX}{number}", key)
        return batch

    def _without_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = batch.schema.names
        return batch.select([name for name in names if not name.startswith(_KEY_PREFIX)])

    def _keys(self, batch: pa.RecordBatch) -> list[pa.Array]:
        if not self._order.is_curve:
            return self._order.sort_keys(batch)
        return [batch.column(name) for name in batch.schema.names if name.startswith(_KEY_PREFIX)]

    def _in_order(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of some batches in order; the list is emptied."""
        if not batches:
            return
        schema = batches[0].schema
        table = _joined(batches, schema)
        keys = [self._keys(batch) for batch in table.to_batches()]
        numbers = sorted_numbers([pa.chunked_array(list(of_key)) for of_key in zip(*keys, strict=True)])
        del keys
        rows = NumberedRows(table)
        step = self._rows_of(table.nbytes, table.num_rows, _PART_OF_RESULT)
        del table
        for low in range(0, len(numbers), step):
            yield from taken_batches([(rows, numbers[low : low + step])], schema)

    def _run_of(self, batches: Iterator[pa.RecordBatch]) -> _Run:
        return _Run(self._written(batches, _PART_OF_FILE))

    def _written(self, batches: Iterator[pa.RecordBatch], part: int) -> SpillFile:
        """A file with some batches, at least one, cut to a part of the limit."""
        file: SpillFile | None = None
        for batch in batches:
            if file is None:
                content = f"rows of more than {self._max_bytes} bytes (hoodie.memory.clustering.max.size)"
                file = SpillFile(self._folder, batch.schema, content, is_compressed=True)
                self._files.enter_context(file)
            rows = self._rows_of(batch.nbytes, batch.num_rows, part)
            for low in range(0, batch.num_rows, rows):
                file.write(batch.slice(low, rows))
        assert file is not None
        file.finish()
        return file

    def _merged(self, runs: list[_Run]) -> Iterator[pa.RecordBatch]:
        """The rows of sorted runs in order; ends the runs."""
        block_bytes = min(BATCH_BYTES, self._max_bytes // _PART_OF_MERGE // len(runs))
        while runs:
            for run in runs:
                run.load(block_bytes, self._keys)
            # Rows that are equal to the last one of a run can come only from this run, and from earlier ones.
            ends = [(run.value(run.end - 1), place) for place, run in enumerate(runs) if run.has_more]
            last = min(ends, default=None)
            pieces = [run.take_up_to(last, place) for place, run in enumerate(runs)]
            yield from self._in_order([piece for piece in pieces if piece.num_rows])
            del pieces
            runs = [run for run in runs if not run.is_done]


class _Run:
    """Sorted rows in a file, of which a block is loaded.

    Args:
        file: The file.
    """

    def __init__(self, file: SpillFile) -> None:
        self._file = file
        self._next = 0
        self._rows: pa.RecordBatch | None = None
        self._keys: list[pa.Array] = []
        self._start = 0

    @property
    def end(self) -> int:
        """The number of rows of the block."""
        return 0 if self._rows is None else int(self._rows.num_rows)

    @property
    def has_more(self) -> bool:
        """Whether the file has rows behind the block."""
        return self._next < self._file.num_batches

    @property
    def is_done(self) -> bool:
        """Whether all rows were taken."""
        return self._start == self.end and not self.has_more

    def load(self, num_bytes: int, keys_of: Any) -> None:
        """Load the next block if all rows of the present one were taken.

        Args:
            num_bytes: The size of a block, of which the last batch may exceed it.
            keys_of: The sort keys of a batch.
        """
        if self._start < self.end or not self.has_more:
            return
        self._rows, self._keys, self._start = None, [], 0
        batches: list[pa.RecordBatch] = []
        loaded = 0
        while self.has_more and (not batches or loaded < num_bytes):
            batches.append(self._file.read(self._next))
            self._next += 1
            loaded += batches[-1].nbytes
        self._rows = concat_rows(batches)
        self._keys = keys_of(self._rows)

    def value(self, row: int) -> tuple[tuple[bool, Any], ...]:
        """The sort keys of a row of the block as Python compares them.

        Args:
            row: Its number.
        """
        values = (key[row].as_py() for key in self._keys)
        return tuple((value is not None, value) for value in values)

    def take_up_to(self, last: tuple[tuple[tuple[bool, Any], ...], int] | None, place: int) -> pa.RecordBatch:
        """Take the rows up to a row of one of the runs.

        Args:
            last: The sort keys of that row, and the place of its run; None for all rows.
            place: The place of this run.
        """
        assert self._rows is not None
        end = self.end
        if last is not None:
            value, owner = last
            search = bisect_left if place > owner else bisect_right
            end = search(range(end), value, lo=self._start, key=self.value)
        found = self._rows.slice(self._start, end - self._start)
        self._start = end
        if end == self._rows.num_rows and not self.has_more:
            self._file.close()
        return found


class _Sample:
    """Every so many rows of all that it looks at, at most twice the size of the sample.

    Args:
        order: The order.
    """

    def __init__(self, order: RowOrder) -> None:
        self._order = order
        self._step = 1
        self._next = 0
        self._kept = 0
        self.rows: list[pa.RecordBatch] = []

    def looked_at(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch itself.

        Args:
            batch: Rows.
        """
        numbers = np.arange(self._next, batch.num_rows, self._step)
        self._next += self._step * len(numbers) - batch.num_rows
        self.rows.append(batch.select(self._order.top_columns(batch.schema)).take(pa.array(numbers)))
        self._kept += len(numbers)
        while self._kept > 2 * self._order.sample_size:
            self._halve()
        return batch

    def _halve(self) -> None:
        joined = pa.Table.from_batches(self.rows).combine_chunks().to_batches()
        self.rows = [rows.take(pa.array(np.arange(0, rows.num_rows, 2))) for rows in joined]
        # The next row that is kept is one of those of the new distance.
        self._next += self._step * (self._kept % 2)
        self._kept = sum(rows.num_rows for rows in self.rows)
        self._step *= 2


def _emptied(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, each of which the list no longer holds."""
    batches.reverse()
    while batches:
        yield batches.pop()


def _read_once(file: SpillFile) -> Iterator[pa.RecordBatch]:
    for number in range(file.num_batches):
        yield file.read(number)
    file.close()


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The batches as a table with one chunk a column, where Arrow can hold it; one column after the other is copied.

    The list is emptied, so that the memory of a column can be given back before the next one is copied.
    """
    if len(batches) == 1:
        return pa.Table.from_batches([batches.pop()], schema)
    columns: list[list[pa.Array]] = [list(of_column) for of_column in zip(*(b.columns for b in batches), strict=True)]
    batches.clear()
    joined: list[pa.ChunkedArray] = []
    for arrays in columns:
        try:
            joined.append(pa.chunked_array([pa.concat_arrays(arrays)]))
        except pa.ArrowInvalid:
            joined.append(pa.chunked_array(arrays))
        arrays.clear()
    return pa.Table.from_arrays(joined, schema=schema)
