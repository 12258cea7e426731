"""Read a table as Arrow, in this process.

Hudi: the queries of its engines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa

from hoodie.config.read_config import QueryType
from hoodie.exception import HoodieNotSupportedException
from hoodie.io.file_group_reader import HoodieFileGroupReader, count_rows, scan_file_groups
from hoodie.query.planner import plan_query
from hoodie.query.read_plan import ReadPlan
from hoodie.query.read_task import task_of
from hoodie.query.table_query import ReadArguments, TableQuery, shows_arguments
from hoodie.storage.storage_options import StorageOptions

if TYPE_CHECKING:
    from hoodie.query.dataset import HoodieDataset


@shows_arguments
def plan_read(
    base_path: str, *, storage_options: StorageOptions | None = None, **arguments: Unpack[ReadArguments]
) -> ReadPlan:
    """Plan a read of a table: the files that `read_table` would read, and the files that it would leave out and why.

    Arguments and errors are those of `read_table`.

        >>> import hoodie
        >>> print(hoodie.plan_read("/data/trips", filters=[("uuid", "=", "t42")]).explain())  # doctest: +SKIP
    """
    query = TableQuery.of(**arguments)
    if query.query_type is QueryType.INCREMENTAL and query.config.incremental_filters:
        raise HoodieNotSupportedException(
            "hoodie.datasource.read.incr.filters holds conditions of SQL, which need Spark: give filters instead, or "
            "call hoodie.spark.read"
        )
    return plan_query(base_path, query, storage_options)


@shows_arguments
def read_table(
    base_path: str, *, storage_options: StorageOptions | None = None, **arguments: Unpack[ReadArguments]
) -> pa.Table:
    """The committed rows of a table: the newest ones, those as of a time, or those that a range of commits wrote.

    Args:
        base_path: The table's folder.
        columns: Names, or one name, in the order of the result; None for all, Hudi's meta columns first.
        filters: A condition on rows: a text (``"fare > 50 and city = 'oslo'"``, see `hoodie.query.filter_text`), an
            expression, or lists of tuples as `pyarrow.parquet.read_table` takes them; None or an empty list for all
            rows. Partitions, files and row groups without such rows are not read.
        query_type: ``snapshot``; ``incremental``, which needs ``begin``; or ``read_optimized``, which reads only base
            files: of a merge-on-read table the rows of its last compaction.
        as_of: Read the table as it was at this time: an instant (``"20260102101530123"``), a date (``"2026-01-02"``),
            a time (``"2026-01-02 10:15:30.123"``; without a fraction, all of that second), seconds or milliseconds
            since 1970, or a date or datetime of Python. Times without a zone are in the timeline's (UTC, unless the
            table says LOCAL). The result has the columns and types that the table had at that time.
        begin: For an incremental query: rows that were written after this time, in the same forms; ``"earliest"`` for
            all. Each row comes once with its latest value in the range; deleted rows are left out.
        end: For an incremental query: rows that were written up to this time; None for the newest commit.
        options: Hudi's read options (docs/configuration.md lists them). They mean the same as these arguments.
        storage_options: Options of the storage.

    Returns:
        The rows in memory; see `scan_table` for tables that do not fit.

    Raises:
        TableNotFoundException: There is no table at that path.
        HoodieConfigException: ``query_type``, a time, an option, the columns or the filters have a form that is not
            known; or arguments contradict each other.
        HoodieSchemaException: A column is not in the table, or a filter compares one with a value of another type.
        HoodieNotSupportedException: The table has a feature that hoodie does not read.
        HoodieIOException: Rows of that time or range were cleaned or archived. The message names the earliest time that
            can be read, and the options that keep more.
        HoodieException: The time is that of a commit that was rolled back, or a commit in the range is still pending.

        >>> import hoodie
        >>> hoodie.read_table("/data/trips", columns=["rider", "fare"], filters=[("fare", ">", 50)])  # doctest: +SKIP
        >>> hoodie.read_table("/data/trips", as_of="2026-01-02 10:15:30")  # doctest: +SKIP
        >>> hoodie.read_table("/data/trips", query_type="incremental", begin="20260102101530123")  # doctest: +SKIP
    """
    plan = plan_read(base_path, storage_options=storage_options, **arguments)
    with scan(plan, keeps_all=True) as reader:
        return reader.read_all()


@shows_arguments
def scan_table(
    base_path: str, *, storage_options: StorageOptions | None = None, **arguments: Unpack[ReadArguments]
) -> pa.RecordBatchReader:
    """The rows of `read_table` as a stream; memory does not grow with the table.

    Arguments and errors are those of `read_table`. The set of files is fixed when the call returns. If a file is
    cleaned before it is read, reading it raises `HoodieMissingFileException`.
    """
    return scan(plan_read(base_path, storage_options=storage_options, **arguments))


@shows_arguments
def dataset(
    base_path: str, *, storage_options: StorageOptions | None = None, **arguments: Unpack[ReadArguments]
) -> HoodieDataset:
    """A table as a dataset of pyarrow, which DuckDB and polars query with their filters and columns pushed down.

    Arguments and errors are those of `hoodie.read_table`. The set of files is fixed: make a new dataset to see later
    commits.

        >>> import duckdb, hoodie
        >>> trips = hoodie.dataset("/data/trips")  # doctest: +SKIP
        >>> duckdb.sql("select rider, sum(fare) from trips where fare > 50 group by rider")  # doctest: +SKIP
        >>> polars.scan_pyarrow_dataset(trips).filter(polars.col("fare") > 50).collect()  # doctest: +SKIP
    """
    # Imported here because it imports pandas, which takes longer than the rest of hoodie.
    from hoodie.query.dataset import HoodieDataset

    return HoodieDataset(plan_read(base_path, storage_options=storage_options, **arguments))


def scan(plan: ReadPlan, *, keeps_all: bool = False) -> pa.RecordBatchReader:
    """The rows of a plan as a stream, on all cores.

    Memory: some batches, the footers of some files, and the log records of one file slice.

    Args:
        plan: The plan of the read.
        keeps_all: Whether the caller keeps all batches, so that no thread has to wait for it.
    """
    schema = plan.result_schema

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in scan_file_groups(readers_of(plan), keeps_all=keeps_all):
            yield batch.cast(schema) if batch.schema != schema else batch

    return pa.RecordBatchReader.from_batches(schema, batches())


def count(plan: ReadPlan) -> int:
    """The number of rows of a plan. Without a filter, only footers are read for slices without log files.

    Args:
        plan: The plan of the read.
    """
    return count_rows(readers_of(plan))


def readers_of(plan: ReadPlan) -> list[HoodieFileGroupReader]:
    """A reader of each slice of a plan.

    Args:
        plan: The plan of the read.
    """
    return task_of(plan, plan.slices).readers()
