"""The changes of a table as a Spark DataFrame, read by tasks.

Hudi: org.apache.hudi.cdc.HoodieCDCFileIndex. Differs: gives the table's types, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hoodie.common.data.nullability import nullable_schema
from hoodie.engine.task_identity import TaskIdentity
from hoodie.query.change_plan import ChangePlan
from hoodie.query.change_task import ChangeReadTask
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
from hoodie.spark.spark_types import conform, schema_in_jvm


def scan_changes(spark: SparkSession, plan: ChangePlan) -> DataFrame:
    """The changes of a plan.

    Args:
        spark: The session.
        plan: The plan.
    """
    schema = nullable_schema(schema_in_jvm(plan.result_schema))
    return HoodieSparkEngineContext(spark).generate(plan.read_tasks(), _ReadChanges(schema), schema).frame


@attrs.frozen
class _ReadChanges:
    """Task: changes in Spark's types."""

    schema: pa.Schema

    def __call__(self, task: TaskIdentity, read: ChangeReadTask) -> Iterator[pa.RecordBatch]:
        for batch in read.batches():
            yield conform(batch, self.schema)
