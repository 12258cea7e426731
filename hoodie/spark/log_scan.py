"""The rows of file slices with log files as a Spark DataFrame: tasks merge the log files with the base files in Python.

Spark's own Parquet scan reads the other slices (`hoodie.spark.spark_scan`), and both are united.

Hudi: org.apache.hudi.HoodieMergeOnReadRDD.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hoodie.engine.task_identity import TaskIdentity
from hoodie.query.read_plan import PlannedSlice, ReadPlan
from hoodie.query.read_task import ReadTask, tasks_of
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
from hoodie.spark.spark_types import conform, nullable_schema, schema_in_jvm


def scan_merged(spark: SparkSession, plan: ReadPlan, slices: Sequence[PlannedSlice]) -> DataFrame:
    """The rows of the given slices of a plan, filtered, in the columns of its result.

    Args:
        spark: The session.
        plan: The plan.
        slices: Slices with log files.
    """
    result = nullable_schema(schema_in_jvm(plan.result_schema))
    # Rows without a column would not be counted.
    columns = plan.columns or tuple(plan.schema.names[:1])
    needed = nullable_schema(schema_in_jvm(pa.schema([plan.schema.field(name) for name in columns])))
    tasks = tasks_of(attrs.evolve(plan, context=attrs.evolve(plan.context, columns=columns), slices=tuple(slices)))
    data = HoodieSparkEngineContext(spark).generate(tasks, _ReadMerged(needed), needed)
    return data.frame.select(list(result.names)) if not plan.columns else data.frame


@attrs.frozen
class _ReadMerged:
    """Task: the rows of slices with log files, in Spark's types."""

    schema: pa.Schema

    def __call__(self, task: TaskIdentity, read: ReadTask) -> Iterator[pa.RecordBatch]:
        for batch in read.batches():
            yield conform(batch, self.schema)
