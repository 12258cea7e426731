"""A distributed Arrow table: the interface that the write pipeline uses.

Two engines implement it (`hoodie.engine.local_data`, `hoodie.spark.spark_data`); one contract suite
(``tests/contract/data_contract.py``) checks both against this description.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any, Protocol, runtime_checkable

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.engine.bucket_routing import BucketNumbers, BucketRouting, InsertRouting
from hoodie.engine.task_identity import TaskIdentity

BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch]
"""A pure function of one batch. It is sent to tasks: it must be picklable, and hold no client, table or session."""

PartitionFunction = Callable[[TaskIdentity, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function of all batches of one partition. It may have side effects (files), and may run more than once."""

RowNumbers = Callable[[pa.RecordBatch], pa.Array]
"""A pure function of a batch that gives each row a number (int32), or null for a row that is left out."""

TableFunction = Callable[[pa.Table], pa.Table]
"""A pure function of a table."""


@runtime_checkable
class NarrowableFunction(Protocol):
    """A `BatchFunction` that can compute some of its columns from some columns of its input.

    An engine that selects columns of the results can then read fewer columns of the source.
    """

    def narrowed_to(
        self, columns: Sequence[str], source: pa.Schema
    ) -> tuple[BatchFunction, pa.Schema, Sequence[str]] | None:
        """A function that computes these columns, with the same values.

        Args:
            columns: Columns of the results.
            source: The schema of the input.

        Returns:
            The function; the schema of its results, which has at least these columns; and the columns of ``source``
            that it reads. None if it needs the whole input.
        """


@attrs.frozen
class AddNumbers:
    """Adds the number of each row; rows without a number are dropped.

    Attributes:
        columns: The columns that the function reads.
        numbers: The function.
        field: The column of the numbers.
    """

    columns: tuple[str, ...]
    numbers: RowNumbers
    field: pa.Field

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with their numbers."""
        return numbered(batch, self.numbers(batch.select(self.columns)), self.field)


def numbered(batch: pa.RecordBatch, numbers: pa.Array, field: pa.Field) -> pa.RecordBatch:
    """Rows with a column of numbers, without those that have none.

    Args:
        batch: The rows.
        numbers: The number of each row, or null.
        field: The column.
    """
    rows = batch.append_column(field, numbers)
    return rows.filter(pc.is_valid(numbers)) if numbers.null_count else rows


class Rereading(IntEnum):
    """Whether the rows of lazy data may be computed twice instead of being kept between two actions."""

    NO = 0
    """They must be kept: their source can be read once, or nothing is known of it."""
    POSSIBLE = 1
    """They can be computed again, at an unknown cost."""
    CHEAP = 2
    """Computing them again costs less than keeping them."""


class HoodieData(ABC):
    """Rows of one Arrow schema in a number of partitions; lazy until an action (`count_by`, `collect`) needs them.

    Lazy rows may be computed again unless `persist` was called, so functions must give the same result each time. No
    function is ever called with a single row.

    Hudi: org.apache.hudi.common.data.HoodieData. Differs: a table of Arrow batches, not a collection of objects.
    """

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of every batch."""

    @property
    @abstractmethod
    def num_partitions(self) -> int:
        """The number of partitions, and so of tasks."""

    @property
    def known_count(self) -> int | None:
        """The number of rows, if it is known without computing them; else None."""
        return None

    @property
    def held_table(self) -> pa.Table | None:
        """All rows, if this process holds them as they are, so that reading them costs nothing; else None."""
        return None

    @property
    def rereading(self) -> Rereading:
        """Whether the rows may be computed twice.

        They are the same both times only if their source does not change meanwhile; the caller must check that.
        """
        return Rereading.NO

    @property
    def has_shuffles(self) -> bool:
        """Whether `shuffled` does something."""
        return False

    def shuffled(self) -> HoodieData:
        """The same rows, once what an engine moves between tasks for them was moved. An action.

        Reading them again does not move it again, so it may be cheap then. An engine may join small partitions.
        """
        return self

    @abstractmethod
    def select(self, columns: Sequence[str]) -> HoodieData:
        """Select these columns, in this order; a `NarrowableFunction` lets the engine read less of the source."""

    @abstractmethod
    def map_batches(self, function: BatchFunction, schema: pa.Schema) -> HoodieData:
        """Replace each batch by ``function(batch)``, of schema ``schema``. Batches may be split or joined before."""

    @abstractmethod
    def map_partitions_with_index(self, function: PartitionFunction, schema: pa.Schema) -> HoodieData:
        """Replace each partition by the results of ``function(task, batches)``. Empty partitions are included."""

    @abstractmethod
    def number_rows(self, column: str) -> HoodieData:
        """Add an int64 column that grows in the order of the rows and is unique; gaps are allowed."""

    @abstractmethod
    def identify_rows(self, column: str, is_unique: bool) -> HoodieData:
        """Add a string column that a row has again when it is computed again.

        Args:
            column: The name.
            is_unique: Whether no two rows may have one identity. Then a partition that comes again in another order may
                have others. Otherwise equal rows, and very few different ones, may have the same, whatever their order.
        """

    @abstractmethod
    def combine_by_key(self, keys: Sequence[str], function: TableFunction) -> HoodieData:
        """Replace the rows of each key that occurs more than once by ``function(rows)``.

        Args:
            keys: Columns of type string; two nulls are equal.
            function: Takes a table with all rows of one or more such keys; returns a table of the same schema. It may
                be called once for many keys, or many times.

        Rows whose key occurs once stay as they are. Cost: proportional to the keys, and to the rows of keys that occur
        more than once; other rows are not moved.
        """

    @abstractmethod
    def count_by(self, columns: Sequence[str]) -> pa.Table:
        """Count the rows per distinct value of the columns: a table of ``columns`` and ``count`` (int64). An action."""

    @abstractmethod
    def join(self, other: HoodieData, on: Sequence[str], how: str) -> HoodieData:
        """Equi-join, ``how`` in {"inner", "left"}; nulls match nothing.

        The result has this data's columns, then the columns of ``other`` that are not in ``on``. A row that matches
        several rows of ``other`` occurs several times.
        """

    @abstractmethod
    def union(self, other: HoodieData) -> HoodieData:
        """The rows of both; their schemas must be equal."""

    @abstractmethod
    def route(self, column: str, num_partitions: int, partition_of: Sequence[int] | None = None) -> HoodieData:
        """Move each row to the partition whose number is in an int32 column.

        The result has ``num_partitions`` partitions, one for each number from 0 on, and all rows with the same number
        are in one partition. The engine decides which partition index a number gets: read the column.

        Args:
            column: The column.
            num_partitions: The number of partitions of the result.
            partition_of: The partition of each number, where numbers share partitions: then the rows of a partition are
                sorted by number.

        Raises:
            HoodieException: A row's number is null, or not in [0, num_partitions); where numbers share partitions, not
                in [0, len(partition_of)). The task that reads it raises this.
        """

    def route_by(
        self,
        columns: Sequence[str],
        numbers: RowNumbers,
        column: str,
        num_partitions: int,
        row_numbers: str | None = None,
        partition_of: Sequence[int] | None = None,
    ) -> HoodieData:
        """Move each row to the partition whose number a function of some columns gives it; see `route`.

        An engine may move rows as they were before the mapped functions, which then run a second time, after the move.

        Args:
            columns: The columns that the function reads.
            numbers: The function; rows without a number are left out.
            column: The name of a new column (int32) for the number.
            num_partitions: The number of partitions of the result.
            row_numbers: The name of a column that `number_rows` adds before rows are moved; None for no such column.
            partition_of: See `route`.

        Returns:
            The rows with the new columns, the number last.
        """
        data = self if row_numbers is None else self.number_rows(row_numbers)
        field = pa.field(column, pa.int32())
        add = AddNumbers(tuple(columns), numbers, field)
        return data.map_batches(add, data.schema.append(field)).route(column, num_partitions, partition_of)

    def route_by_bucket(self, routing: BucketRouting, num_partitions: int, by_key: bool) -> HoodieData | None:
        """Bring the rows of each file group into one partition and next to each other, before the mapped functions run.

        The engine computes the file groups from the columns of the input. It may know some keys less well than the
        functions do, so **this is a hint**: the reader must find out which rows really belong together, and must not
        rely on it.

        Args:
            routing: The rule that makes the file groups.
            num_partitions: The number of partitions of the result.
            by_key: Whether the rows of a file group are to be sorted by record key.

        Returns:
            The same rows in other partitions and another order; None if the engine cannot do it for these columns.
        """
        return None

    def route_in_engine(
        self,
        routing: InsertRouting | BucketNumbers,
        column: str,
        num_partitions: int,
        row_numbers: str | None = None,
        partition_of: Sequence[int] | None = None,
    ) -> HoodieData | None:
        """Move each row to the partition of its number, before the mapped functions run; see `route`.

        The engine computes keys and partition paths from the columns of the input. It may know some keys less well than
        the functions do, so **this is a hint**: the reader must find out which rows came with their own number.

        Args:
            routing: The buckets of new keys, which the engine deals by a hash of its own, so that equal rows get one
                number; or the numbers of buckets that are made of the keys.
            column: The name of a new column (int32) for the number.
            num_partitions: The number of partitions of the result.
            row_numbers: See `route_by`.
            partition_of: See `route`.

        Returns:
            The rows with the new columns, the number last; None if the engine cannot do it for these columns.
        """
        return None

    @abstractmethod
    def coalesce(self, num_partitions: int) -> HoodieData:
        """Join partitions until there are at most ``num_partitions``; rows keep their order within each partition."""

    @abstractmethod
    def repartition_by(self, columns: Sequence[str], num_partitions: int) -> HoodieData:
        """Bring all rows with equal values of the columns into one of ``num_partitions`` partitions; some may be empty.

        Args:
            columns: Columns of type string, integer or boolean; two nulls are equal.
            num_partitions: The number of partitions of the result.
        """

    @abstractmethod
    def sort_by(self, columns: Sequence[str], num_partitions: int) -> HoodieData:
        """Sort all rows: each partition is sorted, and no row of a partition is larger than a row of the next.

        Partitions have about the same number of rows. The order is ascending, strings by their UTF-8 bytes; all nulls
        are before or all after the values, depending on the engine.

        Args:
            columns: The columns to sort by, the most significant first.
            num_partitions: The number of partitions of the result; fewer if there are fewer distinct values.
        """

    @abstractmethod
    def sort_within(self, columns: Sequence[str]) -> HoodieData:
        """Sort the rows of each partition like `sort_by`; no row leaves its partition."""

    @abstractmethod
    def persist(self, fixed: Sequence[str] = ()) -> HoodieData:
        """Keep the computed rows, so that later actions see the same rows. Release them with `unpersist`.

        An engine may lose rows that it keeps, and compute them again.

        Args:
            fixed: Columns (names that do not exist are ignored) that must have the same values whenever a row is
                computed again: an action that finds other values raises `HoodieWriteException`.
        """

    @abstractmethod
    def unpersist(self) -> None:
        """Release what `persist` kept; does nothing if nothing was kept."""

    @abstractmethod
    def collect(self, max_bytes: int | None = None) -> pa.Table | None:
        """All rows in the driver's memory; None if they are larger than ``max_bytes`` (Arrow bytes). An action."""

    def count(self) -> int:
        """The number of rows. An action."""
        return sum(self.count_by([])["count"].to_pylist())

    def __reduce__(self) -> Any:
        """Refuse pickling: data stays on the driver; tasks get batches."""
        raise TypeError("HoodieData stays on the driver; pass batches or shared values to tasks")
