"""The rows of file slices with log files as a Spark DataFrame.

Log files change few rows of most base files. Spark's own Parquet scan reads such a base file, without the rows that
change, and tasks in Python give the rows of the log files::

    base file, by Spark's scan         a  b  c  d
    positions of changed rows             1     3       one job of tasks, whose result Spark broadcasts
    rows of log files                     b'       e    tasks; d was deleted
    result                             a  c  b' e

Other slices are merged by tasks as a whole. Spark's scan reads the slices without log files
(`hoodie.spark.spark_scan`), and all are united.

Hudi: org.apache.hudi.HoodieMergeOnReadRDD.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodie.common.data.nullability import nullable_schema
from hoodie.common.util.arrow_buffers import numbers_of
from hoodie.engine.task_identity import TaskIdentity
from hoodie.merge.log_merge import rules_of_logs
from hoodie.query.read_plan import PlannedSlice, ReadPlan
from hoodie.query.read_task import ReadTask, tasks_of
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
from hoodie.spark.spark_scan import STORED_AT, STORED_IN
from hoodie.spark.spark_types import conform, schema_in_jvm

MOST_BYTES_OF_CORE = 2 << 30
"""The most stored bytes of base files that Spark's scan reads below log files, for each core: Spark waits five minutes
for the positions of changed rows (``spark.sql.broadcastTimeout``)."""
MOST_BYTES = 64 << 30
"""The same for all cores: the driver and each executor hold a bit for each row of these base files."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_V1_SOURCES = "spark.sql.sources.useV1SourceList"
_METADATA = "_metadata"
"""Spark's own column with the places of rows; a column of the table hides it."""
_FILE = "__hoodie_changed_file"
_WORDS = "__hoodie_changed_rows"
_CHANGED = pa.schema([pa.field(_FILE, pa.string()), pa.field(_WORDS, pa.list_(pa.field("element", pa.int64())))])


def scannable(spark: SparkSession, plan: ReadPlan, slices: Sequence[PlannedSlice]) -> list[PlannedSlice]:
    """The slices whose base files Spark's scan reads, because log files change few of their rows.

    None if merging takes code of payload classes or of the user, which need not decide twice in the same way.

    Args:
        spark: The session.
        plan: The plan.
        slices: Slices with log files.
    """
    merging = plan.log_merging
    if merging is None or rules_of_logs(merging.merge_spec) is None:
        return []
    if _METADATA in {name.lower() for name in plan.schema.names}:
        return []
    if "parquet" not in spark.conf.get(_V1_SOURCES, "parquet"):
        return []
    names = Counter(p.file_slice.base_file.file_name for p in slices if p.file_slice.base_file is not None)
    found, size, most_bytes = [], 0, MOST_BYTES_OF_CORE
    for planned in slices:
        base_file = planned.file_slice.base_file
        if base_file is None or plan.context.skips_base_rows(planned.file_slice):
            continue
        log_bytes = sum(log_file.size_bytes for log_file in planned.file_slice.record_log_files)
        if log_bytes > base_file.size_bytes:
            continue
        if names[base_file.file_name] > 1 or not _PLAIN_NAME.fullmatch(base_file.file_name):
            continue
        size += base_file.size_bytes
        if size > most_bytes == MOST_BYTES_OF_CORE:
            # To count cores can take a job, so small tables do without.
            cores = HoodieSparkEngineContext(spark).default_parallelism
            most_bytes = min(cores * MOST_BYTES_OF_CORE, MOST_BYTES)
        if size > most_bytes:
            break
        found.append(planned)
    return found


def scan_merged(
    spark: SparkSession, plan: ReadPlan, slices: Sequence[PlannedSlice], *, log_rows_only: bool = False
) -> DataFrame:
    """The rows of the given slices of a plan, filtered, in the columns of its result.

    Args:
        spark: The session.
        plan: The plan.
        slices: Slices with log files.
        log_rows_only: See `HoodieReaderContext`.
    """
    result = nullable_schema(schema_in_jvm(plan.result_schema))
    # Rows without a column would not be counted.
    columns = plan.columns or tuple(plan.schema.names[:1])
    needed = nullable_schema(schema_in_jvm(pa.schema([plan.schema.field(name) for name in columns])))
    context = attrs.evolve(plan.context, columns=columns, log_rows_only=log_rows_only)
    tasks = tasks_of(attrs.evolve(plan, context=context, slices=tuple(slices)))
    data = HoodieSparkEngineContext(spark).generate(tasks, _ReadMerged(needed), needed)
    return data.frame.select(list(result.names)) if not plan.columns else data.frame


def without_changed_rows(
    spark: SparkSession, plan: ReadPlan, slices: Sequence[PlannedSlice], frame: DataFrame
) -> DataFrame:
    """The rows of base files that log files leave as they are.

    Args:
        spark: The session.
        plan: The plan.
        slices: Slices with log files.
        frame: The rows of their base files, from `scan_files` with places.
    """
    context = attrs.evolve(plan.context, log_rows_only=True)
    tasks = tasks_of(attrs.evolve(plan, context=context, slices=tuple(slices)))
    changed = HoodieSparkEngineContext(spark).generate(tasks, _find_changed, _CHANGED).frame
    word = f"get({_WORDS}, cast(shiftright({STORED_AT}, 6) as int))"
    is_changed = f"{STORED_IN} = {_FILE} and shiftright({word}, cast({STORED_AT} & 63 as int)) & 1 = 1"
    return frame.join(sf.broadcast(changed), sf.expr(is_changed), "left_anti").drop(STORED_IN, STORED_AT)


def _find_changed(task: TaskIdentity, read: ReadTask) -> Iterator[pa.RecordBatch]:
    """Task: a row for each slice with changed rows: its base file, and a bit for each row of it, 64 in a number."""
    for planned, reader in zip(read.slices, read.readers(), strict=True):
        positions = reader.changed_positions()
        if not len(positions):
            continue
        is_changed = np.zeros((int(positions[-1]) // 64 + 1) * 64, dtype=np.bool_)
        is_changed[positions] = True
        words = np.packbits(is_changed, bitorder="little").view("<i8")
        base_file = planned.file_slice.base_file
        assert base_file is not None
        rows = pa.ListArray.from_arrays(pa.array([0, len(words)], pa.int32()), numbers_of(words, pa.int64()))
        yield pa.RecordBatch.from_arrays(
            [pa.array([base_file.file_name]), rows.cast(_CHANGED.field(1).type)], _CHANGED.names
        )


@attrs.frozen
class _ReadMerged:
    """Task: the rows of slices with log files, in Spark's types."""

    schema: pa.Schema

    def __call__(self, task: TaskIdentity, read: ReadTask) -> Iterator[pa.RecordBatch]:
        for batch in read.batches():
            yield conform(batch, self.schema)
