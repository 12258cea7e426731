"""What differs between PySpark 3.5, PySpark 4 and Spark Connect: the only module that knows.

Hudi: org.apache.spark.sql.adapter.BaseSpark3Adapter, for the versions of Spark that Hudi supports.
"""

from __future__ import annotations

import gc
import re
import sys
import zipimport

import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodie.spark.spark_hash import numbers_to_hash_inputs

__all__ = [
    "collect_arrow",
    "partition_count",
    "prepare_worker",
    "repartition_by_number",
    "spark_context",
]

_SPARK_ARCHIVE = re.compile(r"pyspark\.zip|py4j-[^/]*\.zip|spark-core_[^/]*\.jar")


def spark_context(spark: SparkSession) -> SparkContext | None:
    """The context of a classic session; None on Spark Connect, which has none."""
    try:
        return spark.sparkContext
    except (PySparkException, NotImplementedError, AttributeError):
        return None


def collect_arrow(frame: DataFrame) -> list[pa.RecordBatch]:
    """All rows of a frame on the driver; timestamps may carry the session's time zone.

    PySpark 3.5 has no public way that stays in Arrow.
    """
    if hasattr(frame, "toArrow"):
        batches: list[pa.RecordBatch] = frame.toArrow().to_batches()
        return batches
    return list(frame._collect_as_arrow())


def repartition_by_number(frame: DataFrame, number: Column, num_partitions: int) -> DataFrame:
    """Move each row to a partition of its own number.

    PySpark 4.1 takes the number as it is. Before, Spark places rows by hash only: each number is replaced by an integer
    whose hash falls where the number wants to be. Adaptive execution keeps the number of partitions in both cases.

    Args:
        frame: The rows.
        number: An int expression in [0, num_partitions) for every row.
        num_partitions: How many partitions result.
    """
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(num_partitions, number)
    # One literal that Spark folds into an array: thousands of literals would cost planning time.
    inputs = ",".join(map(str, numbers_to_hash_inputs(num_partitions).tolist()))
    return frame.repartition(num_partitions, sf.get(sf.split(sf.lit(inputs), ",").cast("array<int>"), number))


def partition_count(frame: DataFrame) -> int | None:
    """How many partitions a frame has, None on Spark Connect; adaptive execution may run its shuffles to tell."""
    return None if spark_context(frame.sparkSession) is None else int(frame.rdd.getNumPartitions())


def prepare_worker() -> None:
    """Make the tasks that follow in this Python worker start faster; called in tasks.

    Before each task PySpark drops the import caches, and Python reads the directories of ``pyspark.zip`` and of the
    other archives that Spark puts on the path again, once for each package imported from them; after each task it
    collects garbage over all modules. Both together took about 0.2 s a task. Spark's own archives do not change
    while a worker lives: their importers keep what they have read. Modules loaded so far are no garbage either.
    Archives that users add are looked up as before.
    """
    fresh = False
    for path, importer in sys.path_importer_cache.items():
        if not isinstance(importer, zipimport.zipimporter) or not _SPARK_ARCHIVE.search(path):
            continue
        if "invalidate_caches" not in vars(importer):
            vars(importer)["invalidate_caches"] = _keep_caches
            fresh = True
    if fresh:
        gc.freeze()


def _keep_caches() -> None:
    """Do nothing."""
