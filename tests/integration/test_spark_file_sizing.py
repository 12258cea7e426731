"""Base files of the right size through Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import hoodie
from hoodie import HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient

pytestmark = pytest.mark.spark

MAXIMUM = 400_000
LIMIT = MAXIMUM * 5 // 6


def records(spark: SparkSession, low: int, high: int, digests: int) -> DataFrame:
    """Rows with so many digests of 64 random characters."""
    parts = [sf.sha2(sf.concat(sf.col("id"), sf.lit(number)).cast("string"), 256) for number in range(digests)]
    return spark.range(low, high, 1, 3).select(
        sf.concat(sf.lit("k"), sf.col("id")).alias("id"), sf.lit(1).cast("long").alias("ts"),
        sf.concat(*parts).alias("payload"), sf.lit("p").alias("part"),
    )  # fmt: skip


def assert_sized(base_path: str) -> None:
    view = HoodieTableMetaClient.load(base_path).view()
    view.load_partitions(["p"])
    sizes = [base_file.size_bytes / MAXIMUM for base_file in view.latest_base_files("p")]
    assert sum(sizes) >= 3
    assert max(sizes) <= 1.1
    assert sum(size < LIMIT / MAXIMUM for size in sizes) <= 1, sizes


def test_files_are_in_size_from_the_first_commit_on(spark: SparkSession, tmp_path: Path) -> None:
    base_path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(
        base_path, table_name="t", record_key_fields=["id"], partition_fields=["part"], ordering_fields=["ts"]
    )
    config = HoodieWriteConfig.from_properties(
        base_path,
        {
            "hoodie.parquet.max.file.size": MAXIMUM,
            "hoodie.parquet.small.file.limit": LIMIT,
            "hoodie.index.bloom.num_entries": 1000,
            "hoodie.bloom.index.filter.type": "SIMPLE",
        },
    )
    with SparkRDDWriteClient(spark, config) as client:
        # Records of a quarter of the size that is assumed where nothing tells.
        first = client.insert(records(spark, 0, 8_000, 4))
        assert "measure the size of records" in [step.name for step in first.steps]
        assert_sized(base_path)
        # Then records that are much smaller than those of the commit that tells.
        second = client.upsert(records(spark, 7_900, 24_000, 1))
        assert "join small files" in [step.name for step in second.steps]
        assert_sized(base_path)
    assert (second.inserted_count, second.updated_count) == (16_000, 100)
    assert len(hoodie.read_table(base_path, columns=["id"])["id"].unique()) == 24_000
