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
from hoodie.spark.spark_types import spark_schema
from tests.contract.index_contract import IndexContract

pytestmark = pytest.mark.spark


NAMES = ("SIMPLE", "GLOBAL_SIMPLE", "BLOOM", "GLOBAL_BLOOM", "BUCKET", "DATABASE", "RECORD_INDEX", "RECORD_LEVEL_INDEX")
ONLY = {
    "test_what_a_retried_task_tags_and_routes_is_the_same_in_any_order": {
        "SIMPLE",
        "GLOBAL_BLOOM",
        "BUCKET",
        "RECORD_INDEX",
    },
    "test_a_key_that_lives_twice_is_updated_and_deleted_in_both_places": {"BLOOM", "BUCKET"},
}
"""A JVM's time is short: what the engine does not decide is shown in this process."""
SLOW = {"GLOBAL_SIMPLE", "BLOOM", "DATABASE", "RECORD_LEVEL_INDEX"}


class TestSparkIndexes(IndexContract):
    examples = 0
    test_numeric_keys_are_found_whatever_the_order_of_their_text = None
    test_keys_of_ten_thousand_characters_are_told_apart_by_their_last = None
    test_one_key_in_every_partition_is_a_record_for_each_unless_the_index_is_global = None

    @pytest.fixture(params=[pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in NAMES])
    def index(self, request: pytest.FixtureRequest, spark: SparkSession) -> str:
        if request.param not in ONLY.get(request.node.originalname, NAMES):
            pytest.skip("shown in this process")
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
