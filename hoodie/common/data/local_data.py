"""Data of the in-process engine: partitions of Arrow batches, computed by threads.

pyarrow releases the interpreter's lock while it reads, computes and writes, so threads use all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.data import BatchFunction, HoodieData, PartitionFunction, TableFunction
from hoodie.common.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieException, HoodieSchemaException

if TYPE_CHECKING:
    from hoodie.common.engine.local_engine_context import LocalEngineContext

__all__ = ["LocalData", "Partition"]

R = TypeVar("R")

Partition = Callable[[TaskIdentity], Iterator[pa.RecordBatch]]
"""One partition: gives its batches to the task that asks. May be asked again unless its source can be read only
once."""

BATCH_ROWS = 1 << 17
"""Rows of a batch that tables are cut into: large enough that the cost of a call vanishes, small enough for caches."""


class LocalData(HoodieData):
    """Partitions of batches in this process.

    Hudi: org.apache.hudi.common.data.HoodieListData. Differs: lazy, and computed by several threads.
    """

    def __init__(self, context: LocalEngineContext, schema: pa.Schema, partitions: Sequence[Partition]) -> None:
        self._context = context
        self._schema = schema
        self._partitions = list(partitions)

    @classmethod
    def from_table(cls, context: LocalEngineContext, table: pa.Table, num_partitions: int | None = None) -> LocalData:
        """A table cut into row ranges of equal length, without a copy."""
        count = max(1, min(num_partitions or context.default_parallelism, -(-table.num_rows // 1024)))
        bounds = [table.num_rows * index // count for index in range(count + 1)]
        slices = [table.slice(low, high - low) for low, high in pairwise(bounds)]
        return cls(context, table.schema, [_table_partition(piece) for piece in slices])

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def num_partitions(self) -> int:
        return len(self._partitions)

    def select(self, columns: Sequence[str]) -> LocalData:
        names = list(columns)
        return self.map_batches(lambda batch: batch.select(names), pa.schema([self._schema.field(n) for n in names]))

    def map_batches(self, function: BatchFunction, schema: pa.Schema) -> LocalData:
        def mapped(partition: Partition) -> Partition:
            return lambda task: (function(batch) for batch in partition(task))

        return LocalData(self._context, schema, [mapped(partition) for partition in self._partitions])

    def map_partitions_with_index(self, function: PartitionFunction, schema: pa.Schema) -> LocalData:
        def mapped(partition: Partition) -> Partition:
            return lambda task: iter(function(task, partition(task)))

        return LocalData(self._context, schema, [mapped(partition) for partition in self._partitions])

    def number_rows(self, column: str) -> LocalData:
        def numbered(partition: Partition, index: int) -> Partition:
            def run(task: TaskIdentity) -> Iterator[pa.RecordBatch]:
                start = index << 40
                for batch in partition(task):
                    numbers = pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64))
                    start += batch.num_rows
                    yield batch.append_column(pa.field(column, pa.int64()), numbers)

            return run

        schema = self._schema.append(pa.field(column, pa.int64()))
        return LocalData(
            self._context, schema, [numbered(partition, index) for index, partition in enumerate(self._partitions)]
        )

    def combine_by_key(self, keys: Sequence[str], function: TableFunction) -> LocalData:
        table = self._compute()
        if table.num_rows == 0 or any(
            pc.count_distinct(table[key], mode="all").as_py() == table.num_rows for key in keys
        ):
            return LocalData.from_table(self._context, table, self.num_partitions)
        repeated = _repeated_rows(table, keys)
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
            return _count_rows(pa.Table.from_batches(batches, pa.schema([self._schema.field(n) for n in names])), names)

        parts = pa.concat_tables(self._run(count))
        total = parts.group_by(names).aggregate([("count", "sum")])
        return total.rename_columns([*names, "count"]).select([*names, "count"])

    def join(self, other: HoodieData, on: Sequence[str], how: str) -> LocalData:
        if not isinstance(other, LocalData):
            raise HoodieException(f"cannot join local data with {type(other).__name__}")
        joins = {"inner": "inner", "left": "left outer"}
        if how not in joins:
            raise HoodieException(f"join {how!r} is not one of {sorted(joins)}")
        result = self._compute().join(other._compute(), keys=list(on), join_type=joins[how])
        columns = [*self._schema.names, *(name for name in other.schema.names if name not in set(on))]
        return LocalData.from_table(self._context, result.select(columns), self.num_partitions)

    def union(self, other: HoodieData) -> LocalData:
        if not isinstance(other, LocalData):
            raise HoodieException(f"cannot unite local data with {type(other).__name__}")
        return LocalData(self._context, self._schema, [*self._partitions, *other._partitions])

    def route(self, column: str, num_partitions: int) -> LocalData:
        table = self._compute()
        numbers = table[column].combine_chunks()
        if numbers.null_count:
            raise HoodieException(f"{numbers.null_count} rows have no {column}: nothing can be written for them")
        values = numbers.to_numpy()
        if len(values) and (values.min() < 0 or values.max() >= num_partitions):
            raise HoodieException(f"{column} must be in [0, {num_partitions}), found {values.min()} to {values.max()}")
        return self._routed(table, values, num_partitions)

    def _routed(self, table: pa.Table, numbers: np.ndarray, num_partitions: int) -> LocalData:
        order = np.argsort(numbers, kind="stable")
        bounds = np.searchsorted(numbers[order], np.arange(num_partitions + 1))
        whole = table.combine_chunks()

        def routed(rows: np.ndarray) -> Partition:
            def run(task: TaskIdentity) -> Iterator[pa.RecordBatch]:
                for low in range(0, len(rows), BATCH_ROWS):
                    chunk = rows[low : low + BATCH_ROWS]
                    consecutive = len(chunk) and chunk[-1] - chunk[0] == len(chunk) - 1
                    piece = whole.slice(chunk[0], len(chunk)) if consecutive else whole.take(pa.array(chunk))
                    yield from piece.combine_chunks().to_batches()

            return run

        rows_of = [order[bounds[number] : bounds[number + 1]] for number in range(num_partitions)]
        return LocalData(self._context, self._schema, [routed(rows) for rows in rows_of])

    def _check_columns(self, columns: Sequence[str]) -> None:
        missing = [name for name in columns if name not in self._schema.names]
        if missing:
            raise HoodieSchemaException(
                f"the records have no column {', '.join(missing)}; they have {', '.join(self._schema.names)}"
            )

    def coalesce(self, num_partitions: int) -> LocalData:
        count = len(self._partitions)
        if num_partitions >= count:
            return self

        def joined(group: list[Partition]) -> Partition:
            return lambda task: (batch for partition in group for batch in partition(task))

        bounds = [count * number // num_partitions for number in range(num_partitions + 1)]
        groups = [self._partitions[low:high] for low, high in pairwise(bounds)]
        return LocalData(self._context, self._schema, [joined(group) for group in groups])

    def repartition_by(self, columns: Sequence[str], num_partitions: int) -> LocalData:
        self._check_columns(columns)
        table = self._compute()
        codes = _codes(table, columns)
        counts = np.bincount(codes)
        # The largest first, each to the partition that has least so far.
        loads = np.zeros(num_partitions, dtype=np.int64)
        partition_of = np.zeros(len(counts), dtype=np.int32)
        for code in np.argsort(-counts, kind="stable"):
            partition_of[code] = loads.argmin()
            loads[partition_of[code]] += counts[code]
        return self._routed(table, partition_of[codes], num_partitions)

    def sort_by(self, columns: Sequence[str], num_partitions: int) -> LocalData:
        self._check_columns(columns)
        table = _sorted(self._compute(), columns)
        bounds = [table.num_rows * number // num_partitions for number in range(num_partitions + 1)]
        pieces = [table.slice(low, high - low) for low, high in pairwise(bounds)]
        return LocalData(self._context, self._schema, [_table_partition(piece) for piece in pieces])

    def sort_within(self, columns: Sequence[str]) -> LocalData:
        self._check_columns(columns)
        names = list(columns)

        def in_order(partition: Partition) -> Partition:
            def run(task: TaskIdentity) -> Iterator[pa.RecordBatch]:
                table = pa.Table.from_batches(partition(task), self._schema)
                yield from _sorted(table, names).to_batches(max_chunksize=BATCH_ROWS)

            return run

        return LocalData(self._context, self._schema, [in_order(partition) for partition in self._partitions])

    def persist(self, fixed: Sequence[str] = ()) -> LocalData:
        def compute(task: TaskIdentity, partition: Partition) -> pa.Table:
            return pa.Table.from_batches(partition(task), self._schema)

        self._partitions = [_table_partition(table) for table in self._run(compute)]
        return self

    def unpersist(self) -> None:
        """Nothing to do: memory is freed with the last reference."""

    def collect(self, max_bytes: int | None = None) -> pa.Table | None:
        table = self._compute()
        return None if max_bytes is not None and table.nbytes > max_bytes else table

    def _compute(self) -> pa.Table:
        def compute(task: TaskIdentity, partition: Partition) -> pa.Table:
            return pa.Table.from_batches(partition(task), self._schema)

        return pa.concat_tables([self._schema.empty_table(), *self._run(compute)])

    def _run(self, function: Callable[[TaskIdentity, Partition], R]) -> list[R]:
        return self._context.run_tasks(self._partitions, function)


def _table_partition(table: pa.Table) -> Partition:
    return lambda task: iter(table.to_batches(max_chunksize=BATCH_ROWS))


def _count_rows(table: pa.Table, columns: list[str]) -> pa.Table:
    counted = table.group_by(columns).aggregate([([], "count_all")])
    return counted.rename_columns([*columns, "count"]).select([*columns, "count"])


def _repeated_rows(table: pa.Table, keys: Sequence[str]) -> np.ndarray:
    """Which rows share their key with another row."""
    codes = _codes(table, keys)
    repeated: np.ndarray = np.bincount(codes)[codes] > 1
    return repeated


def _codes(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """A small number for each distinct value of the columns together."""
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for column in columns:
        encoded = table[column].combine_chunks().dictionary_encode(null_encoding="encode")
        codes = codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1] if len(columns) > 1 else codes
    return codes


def _sorted(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    order = pc.sort_indices(table, [(name, "ascending") for name in columns])
    return table.take(order)
