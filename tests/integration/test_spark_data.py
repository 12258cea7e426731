from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hoodie.client.common.spark_engine_context import HoodieSparkEngineContext
from hoodie.common.data.data import HoodieData
from hoodie.common.engine.engine_context import HoodieEngineContext
from hoodie.data.spark_types import spark_schema
from tests.contract.data_contract import DataContract


class TestSparkData(DataContract):
    @pytest.fixture
    def context(self, spark: SparkSession) -> HoodieEngineContext:
        return HoodieSparkEngineContext(spark)

    def data(self, context: HoodieEngineContext, table: pa.Table) -> HoodieData:
        assert isinstance(context, HoodieSparkEngineContext)
        rows = [tuple(row.values()) for row in table.to_pylist()]
        return context.to_data(context.spark.createDataFrame(rows, spark_schema(table.schema)))
