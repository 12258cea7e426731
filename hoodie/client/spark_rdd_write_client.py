"""The write client for PySpark.

Hudi: org.apache.hudi.client.SparkRDDWriteClient.
"""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql import SparkSession

from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.client.common.spark_engine_context import HoodieSparkEngineContext
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.metrics.progress import ProgressCallback

__all__ = ["SparkRDDWriteClient"]


class SparkRDDWriteClient(BaseHoodieWriteClient):
    """Writes one table with Spark's executors.

    ``records`` may be a DataFrame or an RDD of `HoodieRecord`. The input is never collected: it flows through the
    executors as Arrow batches.

    Args:
        spark_or_context: A session, or a context that was made of one.
        config: The writer's configuration.
        on_progress: Called with every `ProgressEvent`; see `BaseHoodieWriteClient`.

    Hudi: org.apache.hudi.client.SparkRDDWriteClient.
    """

    supported_indexes: ClassVar[frozenset[str]] = frozenset({"SIMPLE", "GLOBAL_SIMPLE"})

    def __init__(
        self,
        spark_or_context: SparkSession | HoodieSparkEngineContext,
        config: HoodieWriteConfig,
        *,
        on_progress: ProgressCallback | None = None,
    ) -> None:
        context = (
            spark_or_context
            if isinstance(spark_or_context, HoodieSparkEngineContext)
            else HoodieSparkEngineContext(spark_or_context)
        )
        super().__init__(context, config, on_progress)
