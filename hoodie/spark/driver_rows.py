"""Few rows of a plan, read by the driver: a Spark job takes longer than reading them.

Spark's scan decodes the columns of all rows of a row group, and its smallest job takes 0.1 s. The driver knows the rows
of a key when it has planned, and finds those of a commit by their commit times; `HoodieFileGroupReader` then takes them
without decoding the others. Few changes are read likewise. Those that come from a comparison of files are compared once
then, and not by each action.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hoodie.common.data.nullability import nullable_schema
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.query.arrow_reader import readers_of
from hoodie.query.change_plan import ChangePlan
from hoodie.query.change_task import ChangeReadTask
from hoodie.query.planner import pruned_by_footers
from hoodie.query.read_plan import ReadPlan
from hoodie.spark.spark_compatibility import local_frame, spark_context
from hoodie.spark.spark_types import conform, schema_in_jvm, spark_schema

LOCAL_BYTES = 512 << 20
"""The most stored bytes that the driver reads by default where it is the only executor."""
CLUSTER_BYTES = 64 << 20
"""The same on a cluster, whose executors read side by side, and on Spark Connect."""
MOST_FILES = 64
"""The driver opens no more files than this."""
MOST_ROW_BYTES = 8 << 20
"""The most Arrow bytes of rows that a DataFrame holds: they travel inside Spark's plans."""
MOST_CHANGE_BYTES = 1 << 20
"""The most bytes of stored changes that the driver reads. A task reads more of them in less time than the JVM takes to
keep the rows in a plan."""


def driver_rows(spark: SparkSession, plan: ReadPlan, most_bytes: int | None) -> DataFrame | None:
    """The rows of a plan, read now; None if Spark should scan them.

    Memory: `MOST_ROW_BYTES` of rows, and the memory of `HoodieFileGroupReader` for 16 files at a time.

    Args:
        spark: The session.
        plan: The plan to read.
        most_bytes: The most stored bytes that the driver reads for it; None for the default.

    Raises:
        HoodieIOException: A file is missing, or storage failed.
        HoodieCorruptedDataException: A file is damaged.
        HoodieSchemaException: The filter cannot be computed of the rows.
    """
    most_bytes = _most_bytes(spark, most_bytes)
    if plan.log_merging is not None:
        # All rows of a slice are read to merge its log files, so that few rows cost as much as many.
        return None
    # A frame without columns would lose its number of rows.
    if not plan.seeks_few or not plan.columns or len(plan.slices) > MOST_FILES or not most_bytes:
        return None
    readers = readers_of(plan)
    if sum(map_concurrently(HoodieFileGroupReader.stored_bytes, readers)) > most_bytes:
        return None
    batches = _few_rows(readers_of(pruned_by_footers(plan)) if plan.searched is not None else readers)
    return None if batches is None else _frame_of(spark, batches, plan.result_schema)


def driver_changes(spark: SparkSession, plan: ChangePlan, most_bytes: int | None) -> DataFrame | None:
    """The changes of a plan, read now; None if tasks should read them.

    Memory: `MOST_ROW_BYTES` of changes, and the memory of `ChangeTask` for 16 tasks at a time.

    Args:
        spark: The session.
        plan: The plan to read.
        most_bytes: See `driver_rows`.

    Raises:
        HoodieException: See `ChangeTask.batches`.
    """
    files = sum(task.file_count for task in plan.tasks)
    if not 0 < files <= MOST_FILES or plan.size_bytes > _most_bytes(spark, most_bytes):
        return None
    if sum(size for task in plan.tasks for _, size in task.change_files) > MOST_CHANGE_BYTES:
        return None
    changes = _few_changes([ChangeReadTask(plan.context, (task,), plan.form) for task in plan.tasks])
    return None if changes is None else _frame_of(spark, changes, plan.result_schema)


def _most_bytes(spark: SparkSession, given: int | None) -> int:
    """The most stored bytes that the driver reads, by default or as the user says."""
    if given is not None:
        return given
    context = spark_context(spark)
    return LOCAL_BYTES if context is not None and context.master.startswith("local") else CLUSTER_BYTES


def _frame_of(spark: SparkSession, batches: Sequence[pa.RecordBatch], result_schema: pa.Schema) -> DataFrame | None:
    """Rows as a DataFrame with the types that tasks and scans give."""
    schema = nullable_schema(schema_in_jvm(result_schema))
    rows = pa.Table.from_batches([conform(batch, schema) for batch in batches], schema)
    return local_frame(spark, rows, spark_schema(schema))


def _few_rows(readers: Sequence[HoodieFileGroupReader]) -> list[pa.RecordBatch] | None:
    """The rows; None if they are many."""
    batches: list[pa.RecordBatch] = []
    size = 0
    for found in map_concurrently(HoodieFileGroupReader.few_rows, readers):
        if found is None:
            return None
        size += sum(batch.nbytes for batch in found)
        if size > MOST_ROW_BYTES:
            return None
        batches += found
    return batches


def _few_changes(tasks: Sequence[ChangeReadTask]) -> list[pa.RecordBatch] | None:
    """The changes, in their order; None if they are many."""
    sizes: list[int] = []

    def changes_of(task: ChangeReadTask) -> list[pa.RecordBatch] | None:
        """The changes of a task; None as soon as those of all tasks are many."""
        found = []
        for batch in task.batches():
            found.append(batch)
            sizes.append(batch.nbytes)
            if sum(sizes) > MOST_ROW_BYTES:
                return None
        return found

    batches: list[pa.RecordBatch] = []
    for found in map_concurrently(changes_of, tasks):
        if found is None:
            return None
        batches += found
    return batches
