"""Plan a read of a table and read its rows as Arrow, in this process.

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
    from hoodie.query.change_plan import ChangePlan


@shows_arguments
def plan_read(
    base_path: str, *, storage_options: StorageOptions | None = None, **arguments: Unpack[ReadArguments]
) -> ReadPlan | ChangePlan:
    """Plan a read of a table by its path. Arguments and errors are those of `hoodie.read_table`."""
    query = _query(arguments)
    if query.changes is not None:
        # Imported here: a read of rows needs nothing of it, and starts earlier without.
        from hoodie.query.change_planner import plan_changes

        return plan_changes(base_path, query, storage_options)
    return plan_query(base_path, query, storage_options)


def _query(arguments: ReadArguments) -> TableQuery:
    query = TableQuery.of(**arguments)
    if query.query_type is QueryType.INCREMENTAL and query.config.incremental_filters:
        raise HoodieNotSupportedException(
            "hoodie.datasource.read.incr.filters holds conditions of SQL, which need Spark: give filters instead, or "
            "call hoodie.spark.read"
        )
    return query


def plan_rows(
    base_path: str, *, storage_options: StorageOptions | None = None, **arguments: Unpack[ReadArguments]
) -> ReadPlan:
    """Plan a read like `plan_read`, for callers that take rows and no changes.

    Raises:
        HoodieNotSupportedException: The query asks for changes.
        HoodieException: See `hoodie.read_table`.
    """
    return plan_query(base_path, _query(arguments), storage_options)


def scan(plan: ReadPlan | ChangePlan, *, keeps_all: bool = False) -> pa.RecordBatchReader:
    """The rows of a plan as a stream, on all cores.

    Memory: some batches, the footers of some files, and the log records of one file slice.

    Args:
        plan: The plan of the read.
        keeps_all: Whether the caller keeps all batches, so that no thread has to wait for it.
    """
    schema = plan.result_schema
    if not isinstance(plan, ReadPlan):
        return pa.RecordBatchReader.from_batches(schema, plan.batches())

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
