"""The data of the in-process engine: partitions of Arrow batches, computed by threads.

pyarrow releases the interpreter's lock while it reads, computes and writes, so threads use all cores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.grouped_rows import group_by
from hoodie.common.data.numbered_rows import BATCH_ROWS, NumberedRows, take_of_batch, taken_batches
from hoodie.common.data.stored_types import spelled_otherwise
from hoodie.engine.data import BatchFunction, HoodieData, PartitionFunction, TableFunction
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieException, HoodieSchemaException

if TYPE_CHECKING:
    from hoodie.engine.local_engine_context import LocalEngineContext

R = TypeVar("R")

Partition = Callable[[TaskIdentity], Iterator[pa.RecordBatch]]
"""One partition: yields its batches to a task. It may be called again unless its source can be read only once."""

_DIGITS = 20
"""The most characters of an int64."""

_ROWS_OF_PIECE = 1 << 11
"""Rows are sorted without a copy between if the rows that go from one batch to one place are so many on average."""

_SMALL_PART_BYTES = 1 << 16
"""The rows of partitions up to this size are copied together,"""
_PARTS_TOGETHER = 64
"""so many partitions at a time."""

_SAMPLE_ROWS = 1 << 10
_REPEATING = 0.25
"""Text is compared by the ranks of its distinct values if at most this share of a sample is distinct."""


class BatchStream:
    """Hands out batches, which can be read once, to the tasks that ask; keeps their positions in the input.

    Args:
        batches: The input.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = enumerate(batches)
        self._lock = threading.Lock()
        self._place_of_task: dict[TaskIdentity, int] = {}

    def __call__(self, task: TaskIdentity) -> Iterator[pa.RecordBatch]:
        """A partition: each call yields the next batch of the input."""
        while True:
            with self._lock:
                place, batch = next(self._batches, (-1, None))
            if batch is None:
                return
            self._place_of_task[task] = place
            yield batch

    def place(self, task: TaskIdentity) -> int:
        """The position in the input of the batch that a task got last."""
        return self._place_of_task[task]


class LocalData(HoodieData):
    """Partitions of batches in this process.

    Args:
        context: The engine.
        schema: The schema of each batch.
        partitions: The partitions, which are computed on demand.
        stream: The source of all partitions, if each takes its batch from there: rows are numbered by their positions
            in it.

    Hudi: org.apache.hudi.common.data.HoodieListData. Differs: lazy, and computed by several threads.
    """

    def __init__(
        self,
        context: LocalEngineContext,
        schema: pa.Schema,
        partitions: Sequence[Partition],
        stream: BatchStream | None = None,
    ) -> None:
        self._context = context
        self._schema = schema
        self._partitions = list(partitions)
        self._stream = stream
        self._known_count: int | None = None
        self._held_table: pa.Table | None = None

    @classmethod
    def from_table(cls, context: LocalEngineContext, table: pa.Table, num_partitions: int | None = None) -> LocalData:
        """Cut a table into row ranges of equal length, without copying."""
        count = max(1, min(num_partitions or context.default_parallelism, -(-table.num_rows // 1024)))
        slices = [table.slice(low, high - low) for low, high in _equal_ranges(table.num_rows, count)]
        data = cls(context, table.schema, [_table_partition(piece) for piece in slices])
        data._known_count = table.num_rows
        data._held_table = table
        return data

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def known_count(self) -> int | None:
        return self._known_count

    @property
    def num_partitions(self) -> int:
        return len(self._partitions)

    @property
    def held_table(self) -> pa.Table | None:
        return self._held_table

    def select(self, columns: Sequence[str]) -> LocalData:
        names = list(columns)
        if self._held_table is not None:
            return LocalData.from_table(self._context, self._held_table.select(names), self.num_partitions)
        return self.map_batches(lambda batch: batch.select(names), pa.schema([self._schema.field(n) for n in names]))

    def map_batches(self, function: BatchFunction, schema: pa.Schema) -> LocalData:
        def mapped(partition: Partition) -> Partition:
            return lambda task: (function(batch) for batch in partition(task))

        partitions = [mapped(partition) for partition in self._partitions]
        return LocalData(self._context, schema, partitions, self._stream)

    def map_partitions_with_index(self, function: PartitionFunction, schema: pa.Schema) -> LocalData:
        def mapped(partition: Partition) -> Partition:
            return lambda task: iter(function(task, partition(task)))

        return LocalData(self._context, schema, [mapped(partition) for partition in self._partitions])

    def number_rows(self, column: str) -> LocalData:
        stream = self._stream

        def numbered(partition: Partition, index: int) -> Partition:
            def run(task: TaskIdentity) -> Iterator[pa.RecordBatch]:
                start = index << 40
                for batch in partition(task):
                    if stream is not None:
                        start = stream.place(task) << 32  # Arrow's batches have fewer rows than that.
                    numbers = pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64))
                    start += batch.num_rows
                    yield batch.append_column(pa.field(column, pa.int64()), numbers)

            return run

        schema = self._schema.append(pa.field(column, pa.int64()))
        return LocalData(
            self._context, schema, [numbered(partition, index) for index, partition in enumerate(self._partitions)]
        )

    def identify_rows(self, column: str, is_unique: bool) -> LocalData:
        """See the contract. No row is computed by another task than before, so row numbers are identities."""
        numbered = self.number_rows(column)
        schema = self._schema.append(pa.field(column, pa.string()))
        return numbered.map_batches(_AsText(column), schema)

    def combine_by_key(self, keys: Sequence[str], function: TableFunction) -> LocalData:
        table = self._compute()
        if table.num_rows == 0 or any(
            pc.count_distinct(_plain(table[key]), mode="all").as_py() == table.num_rows for key in keys
        ):
            return LocalData.from_table(self._context, table, self.num_partitions)
        codes = _codes(table, keys)
        repeated = np.bincount(codes)[codes] > 1
        if not repeated.any():
            return LocalData.from_table(self._context, table, self.num_partitions)
        combined = function(table.filter(pa.array(repeated)))
        result = pa.concat_tables([table.filter(pa.array(~repeated)), combined.select(table.column_names)])
        return LocalData.from_table(self._context, result, self.num_partitions)

    def count_by(self, columns: Sequence[str]) -> pa.Table:
        names = list(columns)
        if not names:
            counts = self._run(lambda task, partition: sum(batch.num_rows for batch in partition(task)))
            return pa.table({"count": pa.array([sum(counts)], pa.int64())})

        def count(task: TaskIdentity, partition: Partition) -> pa.Table:
            batches = (batch.select(names) for batch in partition(task))
            table = pa.Table.from_batches(batches, pa.schema([self._schema.field(n) for n in names]))
            plain = pa.table([_plain(column) for column in table.columns], names)
            return group_by(plain, names, [(None, "count_all")]).rename_columns([*names, "count"])

        total = group_by(pa.concat_tables(self._run(count)), names, [("count", "sum")])
        return total.rename_columns([*names, "count"])

    def join(self, other: HoodieData, on: Sequence[str], how: str) -> LocalData:
        if not isinstance(other, LocalData):
            raise HoodieException(f"cannot join local data with {type(other).__name__}")
        joins = {"inner": "inner", "left": "left outer"}
        if how not in joins:
            raise HoodieException(f"join {how!r} is not one of {sorted(joins)}")
        added = [field for field in other.schema if field.name not in set(on)]
        twice = sorted({field.name for field in added} & set(self.schema.names))
        if twice:
            raise HoodieSchemaException(f"columns {', '.join(twice)} are on both sides of a join; rename those of one")
        if how == "left":
            added = [field.with_nullable(True) for field in added]
        left, right = self._compute(), other._compute()
        # Join only the keys, because Arrow's join does not support nested columns; take the others by row number.
        pairs = _numbered_keys(left, on, "left").join(
            _numbered_keys(right, on, "right"), keys=[str(index) for index in range(len(on))], join_type=joins[how]
        )
        left_rows = pairs["left"].to_numpy()
        right_rows = pairs["right"].fill_null(-1).to_numpy()
        order = np.lexsort((right_rows, left_rows))
        sides = [(NumberedRows(left), left_rows[order])]
        if added:
            sides.append((NumberedRows(right.select([field.name for field in added])), right_rows[order]))
        schema = pa.schema([*self._schema, *added])
        ranges = _equal_ranges(len(order), max(1, min(self.num_partitions, -(-len(order) // 1024))))
        return LocalData(
            self._context,
            schema,
            [_taken([(rows, numbers[low:high]) for rows, numbers in sides], schema) for low, high in ranges],
        )

    def union(self, other: HoodieData) -> LocalData:
        if not isinstance(other, LocalData):
            raise HoodieException(f"cannot unite local data with {type(other).__name__}")
        return LocalData(self._context, self._schema, [*self._partitions, *other._partitions])

    def route(self, column: str, num_partitions: int, partition_of: Sequence[int] | None = None) -> LocalData:
        most = num_partitions if partition_of is None else len(partition_of)
        table = self._compute()
        numbers = table[column].combine_chunks()
        if numbers.null_count:
            raise HoodieException(f"{numbers.null_count} rows have no {column}: nothing can be written for them")
        values = numbers.to_numpy()
        if len(values) and (values.min() < 0 or values.max() >= most):
            raise HoodieException(f"{column} must be in [0, {most}), found {values.min()} to {values.max()}")
        if partition_of is None:
            return self._routed(table, values, num_partitions)
        partitions = np.array(partition_of, dtype=np.int32)[values]
        return self._routed(table, partitions, num_partitions).sort_within([column])

    def _routed(self, table: pa.Table, numbers: np.ndarray, num_partitions: int) -> LocalData:
        order = _stable_order(numbers, num_partitions)
        bounds = np.cumsum([0, *np.bincount(numbers, minlength=num_partitions)])
        rows = NumberedRows(table, as_given=True)
        together = _SmallParts(rows)
        partitions = [_ChosenRows(rows, order[low:high], together) for low, high in pairwise(bounds)]
        return LocalData(self._context, self._schema, partitions)

    def _check_columns(self, columns: Sequence[str]) -> None:
        known = set(self._schema.names)
        missing = [name for name in columns if name not in known]
        if missing:
            raise HoodieSchemaException(
                f"the records have no column {', '.join(missing)}{spelled_otherwise(self._schema.names, missing)}; "
                f"they have {', '.join(self._schema.names)}"
            )

    def coalesce(self, num_partitions: int) -> LocalData:
        count = len(self._partitions)
        if num_partitions >= count:
            return self

        def joined(group: list[Partition]) -> Partition:
            return lambda task: (batch for partition in group for batch in partition(task))

        groups = [self._partitions[low:high] for low, high in _equal_ranges(count, num_partitions)]
        return LocalData(self._context, self._schema, [joined(group) for group in groups], self._stream)

    def repartition_by(self, columns: Sequence[str], num_partitions: int) -> LocalData:
        self._check_columns(columns)
        table = self._compute()
        codes = _codes(table, columns)
        counts = np.bincount(codes)
        # The largest first, each to the partition with the fewest rows so far.
        loads = np.zeros(num_partitions, dtype=np.int64)
        partition_of = np.zeros(len(counts), dtype=np.int32)
        for code in np.argsort(-counts, kind="stable"):
            partition_of[code] = loads.argmin()
            loads[partition_of[code]] += counts[code]
        return self._routed(table, partition_of[codes], num_partitions)

    def sort_by(self, columns: Sequence[str], num_partitions: int) -> LocalData:
        self._check_columns(columns)
        table = self._compute()
        order = _order(table, columns)
        rows = NumberedRows(table)
        ranges = _equal_ranges(table.num_rows, num_partitions)
        return LocalData(
            self._context, self._schema, [_taken([(rows, order[low:high])], self._schema) for low, high in ranges]
        )

    def sort_within(self, columns: Sequence[str]) -> LocalData:
        self._check_columns(columns)
        names = list(columns)

        def in_order(partition: Partition) -> Partition:
            def run(task: TaskIdentity) -> Iterator[pa.RecordBatch]:
                if not isinstance(partition, _ChosenRows):
                    table = self._table_of(task, partition)
                    yield from _taken([(NumberedRows(table), _order(table, names))], self._schema)(task)
                    return
                order = partition.order(names)
                runs = partition.ascending_runs(order)
                if runs is None:
                    runs = [_taken([(NumberedRows(self._table_of(task, partition)), order)], self._schema)]
                for chosen in runs:
                    yield from chosen(task)

            return run

        return LocalData(self._context, self._schema, [in_order(partition) for partition in self._partitions])

    def persist(self, fixed: Sequence[str] = ()) -> LocalData:
        self._partitions = [_table_partition(table) for table in self._run(self._table_of)]
        self._stream = None
        return self

    def unpersist(self) -> None:
        """Do nothing: memory is freed with the last reference."""

    def collect(self, max_bytes: int | None = None) -> pa.Table | None:
        table = self._compute()
        return None if max_bytes is not None and table.nbytes > max_bytes else table

    def _compute(self) -> pa.Table:
        return pa.concat_tables([pa.Table.from_batches([], self._schema), *self._run(self._table_of)])

    def _table_of(self, task: TaskIdentity, partition: Partition) -> pa.Table:
        return pa.Table.from_batches(partition(task), self._schema)

    def _run(self, function: Callable[[TaskIdentity, Partition], R]) -> list[R]:
        return self._context.run_tasks(self._partitions, function)


def _table_partition(table: pa.Table) -> Partition:
    return lambda task: iter(table.to_batches(max_chunksize=BATCH_ROWS))


def _equal_ranges(count: int, parts: int) -> list[tuple[int, int]]:
    """The start and end of each of ``parts`` ranges that divide ``count`` rows."""
    return list(pairwise(count * number // parts for number in range(parts + 1)))


def _codes(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """A small number for each distinct combination of values in the columns."""
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for column in columns:
        # All chunks share one dictionary; joining them first would fail above 2 GiB.
        chunks = _plain(table[column]).dictionary_encode(null_encoding="encode").chunks
        if not chunks:
            continue
        numbers = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
        codes = codes * (len(chunks[-1].dictionary) + 1) + numbers
        codes = np.unique(codes, return_inverse=True)[1] if len(columns) > 1 else codes
    return codes


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of a type that Arrow compares: without dictionaries, and as numbers if it holds only nulls."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column.cast(pa.int8()) if pa.types.is_null(column.type) else column


def _numbered_keys(table: pa.Table, keys: Sequence[str], side: str) -> pa.Table:
    """The key columns named by position (original names may be anything), and the number of each row."""
    columns = {str(index): _plain(table[key]) for index, key in enumerate(keys)}
    return pa.table({**columns, side: pa.array(np.arange(table.num_rows, dtype=np.int64))})


def _order(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """The numbers of the rows in ascending order of some columns; rows of equal values keep their order."""
    compared = [_ranked(_plain(table[name])) for name in columns]
    if len(compared) == 1 and isinstance(compared[0], np.ndarray):
        return _stable_order(compared[0], np.iinfo(compared[0].dtype).max)
    names = [str(number) for number in range(len(columns))]
    order: np.ndarray = pc.sort_indices(pa.table(compared, names), [(name, "ascending") for name in names]).to_numpy()
    return order.astype(np.int64)


def _ranked(column: pa.ChunkedArray) -> pa.ChunkedArray | np.ndarray:
    """A column of text that repeats a few values as the ranks of these, with nulls at the end; others as they are."""
    if not pa.types.is_string(column.type):
        return column
    sample = column.slice(0, _SAMPLE_ROWS)
    if len(sample.unique()) > _REPEATING * len(sample):
        return column
    chunks = column.dictionary_encode().chunks
    if not chunks or len(chunks[-1].dictionary) >= np.iinfo(np.int16).max:
        return column
    values = chunks[-1].dictionary
    ranks = np.empty(len(values) + 1, dtype=np.int16)
    ranks[pc.sort_indices(values).to_numpy()] = np.arange(len(values))
    ranks[-1] = len(values)
    return np.concatenate([ranks[pc.fill_null(chunk.indices, len(values)).to_numpy()] for chunk in chunks])


def _stable_order(numbers: np.ndarray, end: int) -> np.ndarray:
    """The order of numbers in [0, end); equal ones keep their order."""
    # numpy sorts 16 bits by counting.
    order: np.ndarray = np.argsort(
        numbers.astype(np.int16) if end <= np.iinfo(np.int16).max else numbers, kind="stable"
    )
    return order


def _taken(sides: Sequence[tuple[NumberedRows, np.ndarray]], schema: pa.Schema) -> Partition:
    """The rows of one or several tables, side by side."""
    return lambda task: taken_batches(sides, schema)


class _ChosenRows:
    """A partition: some rows of a table.

    Args:
        rows: The table.
        numbers: The numbers of the rows; ascending.
        together: The copies of rows for small partitions; None if each partition copies its own.
    """

    def __init__(self, rows: NumberedRows, numbers: np.ndarray, together: _SmallParts | None = None) -> None:
        self._rows = rows
        self._numbers = numbers
        self._together = together
        self._place = None if together is None else together.add(numbers)

    def __call__(self, task: TaskIdentity) -> Iterator[pa.RecordBatch]:
        if self._together is not None and self._place is not None:
            yield from self._together.part(self._place)
            return
        step = self._rows.rows_of_batch
        for batch, mine in self._rows.by_batch(self._numbers):
            for low in range(0, len(mine), step):
                yield take_of_batch(batch, mine[low : low + step])

    def order(self, columns: Sequence[str]) -> np.ndarray:
        """The places of the rows, among these rows, in ascending order of some columns; equal rows keep their order.

        Args:
            columns: The columns.
        """
        batches = [take_of_batch(batch.select(columns), mine) for batch, mine in self._rows.by_batch(self._numbers)]
        return _order(pa.Table.from_batches(batches), columns) if batches else np.zeros(0, dtype=np.int64)

    def ascending_runs(self, order: np.ndarray) -> Sequence[Partition] | None:
        """The rows in another order, in parts that each keep the order of the table.

        Rows that are sorted by a column with a few values have one part for each value. None if there are so many parts
        that it is cheaper to copy the rows before they are put in order.

        Args:
            order: The places of the rows among these rows.
        """
        numbers = self._numbers[order]
        ends = np.flatnonzero(np.diff(numbers) < 0) + 1
        count = sum(1 for _ in self._rows.by_batch(self._numbers))
        if (len(ends) + 1) * count > 1 + len(numbers) // _ROWS_OF_PIECE:
            return None
        return [_ChosenRows(self._rows, run) for run in np.split(numbers, ends)]


class _SmallParts:
    """Copies the rows of small partitions out of a table, some partitions at a time.

    A copy costs some microseconds for each column, however few its rows are. The rows of a partition are given to its
    task as slices, batch by batch as without this class.

    Args:
        rows: The table.
    """

    def __init__(self, rows: NumberedRows) -> None:
        self._rows = rows
        self._parts: list[np.ndarray] = []
        self._ready: dict[int, list[pa.RecordBatch]] = {}
        self._lock = threading.Lock()

    def add(self, numbers: np.ndarray) -> int | None:
        """Take a partition in; returns its place, or None if it is not small.

        Args:
            numbers: The numbers of its rows, ascending.
        """
        if not 0 < len(numbers) * self._rows.row_bytes <= _SMALL_PART_BYTES:
            return None
        self._parts.append(numbers)
        return len(self._parts) - 1

    def part(self, place: int) -> list[pa.RecordBatch]:
        """The rows of a partition. They are held until they are asked for once.

        Args:
            place: The place of the partition.
        """
        with self._lock:
            if place not in self._ready:
                if len(self._ready) > 2 * _PARTS_TOGETHER:
                    self._ready.clear()
                first = place // _PARTS_TOGETHER * _PARTS_TOGETHER
                parts = self._rows.take_parts(self._parts[first : first + _PARTS_TOGETHER])
                self._ready.update(enumerate(parts, first))
            return self._ready.pop(place)


@attrs.frozen
class _AsText:
    """A column of numbers as text that sorts like them; crosses to no task.

    Attributes:
        column: The last column.
    """

    column: str

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        texts = pc.utf8_lpad(batch.column(self.column).cast(pa.string()), _DIGITS, "0")
        return batch.set_column(batch.num_columns - 1, pa.field(self.column, pa.string()), texts)
