"""The read client for PySpark.

Hudi: org.apache.hudi.client.SparkRDDReadClient.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from hoodie.client.read_client import HoodieReadClient
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.exception import HoodieNotSupportedException
from hoodie.spark.spark_data import SparkData
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
from hoodie.spark.spark_rdd_write_client import SparkRDDWriteClient
from hoodie.storage.storage_path import normalise_path


class SparkRDDReadClient(HoodieReadClient):
    """Looks up keys in one table with Spark's executors, and gives DataFrames; see `HoodieReadClient`.

    The keys are looked up when a method is called. The rows of a result are computed, as of any DataFrame, when an
    action needs them: `read` reads the files that were named then, and fails if a clean has deleted one since. A
    result of `check_exists`, `filter_exists` or `tag_location` reads the input once more. If that gives keys that were
    not looked up, because the input is not deterministic, the action fails.

    Args:
        spark_or_context: A session, or the context of a session.
        base_path: The table's folder.
        options: See `HoodieReadClient`.
        storage_options: See `HoodieReadClient`.

    Raises:
        HoodieConfigException: An argument has the wrong type, or an option is unknown or has a bad value.
        HoodieException: The session was stopped.
        HoodieNotSupportedException: The table is in this process's memory, which executors cannot see.

    Hudi: org.apache.hudi.client.SparkRDDReadClient.
    """

    supported_indexes: ClassVar[frozenset[str]] = SparkRDDWriteClient.supported_indexes

    def _engine(self, given: Any) -> HoodieEngineContext:
        context = given if isinstance(given, HoodieSparkEngineContext) else HoodieSparkEngineContext(given)
        self._spark = context.spark
        if normalise_path(self._config.base_path).startswith("memory://"):
            raise HoodieNotSupportedException(
                f"Spark's executors cannot see {self._config.base_path}, which is in this process's memory: use "
                "HoodieReadClient(base_path), which reads in this process"
            )
        return context

    def _read_again(self, data: HoodieData) -> HoodieData:
        """The rows as they are: Spark computes them again, and a result shows if that gives other keys."""
        return data

    def _result(self, data: HoodieData) -> DataFrame:
        assert isinstance(data, SparkData)
        return data.frame

    def _empty(self, schema: pa.Schema) -> DataFrame:
        fields = [
            st.StructField(f.name, st.NullType() if pa.types.is_null(f.type) else st.StringType()) for f in schema
        ]
        return self._spark.createDataFrame([], st.StructType(fields))
