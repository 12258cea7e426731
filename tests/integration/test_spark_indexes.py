"""Every index, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from hoodie import HoodieWriteConfig, SparkRDDWriteClient
from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.data.spark_types import spark_schema
from tests.contract.index_contract import INDEXES, IndexContract

pytestmark = pytest.mark.spark


class TestSparkIndexes(IndexContract):
    examples = 0
    # A JVM's time is short: what the engine does not decide is shown in this process.
    test_numeric_keys_are_found_whatever_the_order_of_their_text = None
    test_keys_of_ten_thousand_characters_are_told_apart_by_their_last = None
    test_one_key_in_every_partition_is_a_record_for_each_unless_the_index_is_global = None

    @pytest.fixture(params=[name for name in INDEXES if name != "INMEMORY"])
    def index(self, request: pytest.FixtureRequest, spark: SparkSession) -> str:
        self.spark = spark
        return str(request.param)

    @contextmanager
    def client(self, path: str, properties: dict[str, Any]) -> Iterator[BaseHoodieWriteClient]:
        config = HoodieWriteConfig.from_properties(path, properties)
        with SparkRDDWriteClient(self.spark, config) as client:
            yield client

    def records(self, table: pa.Table) -> DataFrame:
        rows = [tuple(row.values()) for row in table.to_pylist()]
        return self.spark.createDataFrame(rows, spark_schema(table.schema))
