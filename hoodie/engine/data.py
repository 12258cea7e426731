"""A distributed Arrow table, as the write pipeline sees it.

Two engines implement it (`hoodie.engine.local_data`, `hoodie.spark.spark_data`); one contract suite
(``tests/contract/data_contract.py``) holds both to what is written here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from hoodie.engine.task_identity import TaskIdentity

__all__ = ["BatchFunction", "HoodieData", "PartitionFunction", "TableFunction"]

BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch]
"""A pure function of one batch. It crosses to tasks: picklable, and it holds no client, table or session."""

PartitionFunction = Callable[[TaskIdentity, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function of all batches of one partition. It may have side effects (files), and it may run more than once."""

TableFunction = Callable[[pa.Table], pa.Table]
"""A pure function of a table."""


class HoodieData(ABC):
    """Rows of one Arrow schema in some number of partitions; lazy until an action (`count_by`, `collect`) asks.

    Whatever is lazy may be computed again unless `persist` was called; functions must give the same answer each time.
    No function is ever called with a single row.

    Hudi: org.apache.hudi.common.data.HoodieData. Differs: a table of Arrow batches, not a collection of objects.
    """

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of every batch."""

    @property
    @abstractmethod
    def num_partitions(self) -> int:
        """How many partitions, and so tasks, there are."""

    @abstractmethod
    def select(self, columns: Sequence[str]) -> HoodieData:
        """These columns, in this order."""

    @abstractmethod
    def map_batches(self, function: BatchFunction, schema: pa.Schema) -> HoodieData:
        """Each batch replaced by ``function(batch)``, whose schema is ``schema``. Batches may be cut differently."""

    @abstractmethod
    def map_partitions_with_index(self, function: PartitionFunction, schema: pa.Schema) -> HoodieData:
        """Each partition replaced by what ``function(task, batches)`` yields. Called for empty partitions as well."""

    @abstractmethod
    def number_rows(self, column: str) -> HoodieData:
        """Add an int64 column that grows in the order of the rows and is unique; gaps are allowed."""

    @abstractmethod
    def combine_by_key(self, keys: Sequence[str], function: TableFunction) -> HoodieData:
        """Replace the rows of each key that occurs more than once by ``function(rows)``.

        Args:
            keys: Columns of type string; a null is equal to a null.
            function: Given a table with all rows of one or more such keys; gives a table of the same schema. It may
                be called once for many keys, or many times.

        Rows whose key occurs once pass as they are. Cost: proportional to the keys, and to the rows of keys that occur
        more than once; other rows are not moved.
        """

    @abstractmethod
    def count_by(self, columns: Sequence[str]) -> pa.Table:
        """Rows per distinct value of the columns: a table of ``columns`` and ``count`` (int64). An action."""

    @abstractmethod
    def join(self, other: HoodieData, on: Sequence[str], how: str) -> HoodieData:
        """Equi-join, ``how`` in {"inner", "left"}; nulls match nothing.

        The result has this data's columns, then those of ``other`` that are not in ``on``. A row that matches several
        rows of ``other`` occurs several times.
        """

    @abstractmethod
    def union(self, other: HoodieData) -> HoodieData:
        """The rows of both; schemas are equal."""

    @abstractmethod
    def route(self, column: str, num_partitions: int) -> HoodieData:
        """Move each row to the partition whose number is in an int32 column.

        All rows of one number come together in one partition, and ``num_partitions`` partitions result, one for each
        number from 0 on. Which partition index a number gets is the engine's business: read the column.

        Raises:
            HoodieException: A row's number is null or not in [0, num_partitions): found by the task that reads it.
        """

    @abstractmethod
    def coalesce(self, num_partitions: int) -> HoodieData:
        """Join partitions until there are at most ``num_partitions``; rows keep their order within each of them."""

    @abstractmethod
    def repartition_by(self, columns: Sequence[str], num_partitions: int) -> HoodieData:
        """Bring all rows of equal values of the columns together, in ``num_partitions`` partitions; some may be empty.

        Args:
            columns: Of types string, integer or boolean; a null is equal to a null.
            num_partitions: How many partitions result.
        """

    @abstractmethod
    def sort_by(self, columns: Sequence[str], num_partitions: int) -> HoodieData:
        """Sort all rows: each partition is sorted, and no row of a partition is larger than one of the next.

        Partitions hold about equally many rows. Ascending, strings by their UTF-8 bytes; nulls are all before or all
        after the values, as the engine has it.

        Args:
            columns: What to sort by, the first counting most.
            num_partitions: How many partitions result; fewer where there are not so many distinct values.
        """

    @abstractmethod
    def sort_within(self, columns: Sequence[str]) -> HoodieData:
        """Sort the rows of each partition, as `sort_by` does; none leaves its partition."""

    @abstractmethod
    def persist(self, fixed: Sequence[str] = ()) -> HoodieData:
        """Keep the computed rows, so that later actions see the same rows. Release them with `unpersist`.

        An engine may lose rows that it keeps and compute them again.

        Args:
            fixed: Columns (those of them that there are) that must have the same values whenever a row is computed
                again: an action that meets others raises `HoodieWriteException`.
        """

    @abstractmethod
    def unpersist(self) -> None:
        """Release what `persist` kept; nothing happens when nothing was kept."""

    @abstractmethod
    def collect(self, max_bytes: int | None = None) -> pa.Table | None:
        """All rows in the driver's memory; None when they are more than ``max_bytes`` (Arrow bytes). An action."""

    def count(self) -> int:
        """The number of rows. An action."""
        return sum(self.count_by([])["count"].to_pylist())

    def __reduce__(self) -> Any:
        """Refuse to be pickled: data stays on the driver; tasks get batches."""
        raise TypeError("HoodieData stays on the driver; hand tasks batches or shared values")
