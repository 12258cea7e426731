"""Merge-on-read tables written on Spark: tasks append, and hudi-rs reads what a table of the same rows holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder
from pyspark.sql import SparkSession

from hoodie import HoodieKey
from hoodie.spark.spark_rdd_write_client import SparkRDDWriteClient
from tests.support.table_builder import SMALL_FILTERS, TRIPS, init_table, spark_rows, write_config
from tests.support.timeline_files import read_commit
from tests.unit.client.test_positions_in_log_files import POSITIONS, check, positioned_blocks, some_keys

pytestmark = [pytest.mark.spark]

BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}


def read_by_hudi_rs(base_path: Path) -> list[tuple[Any, ...]]:
    table = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(base_path)).build().read())
    return sorted(tuple(row.values()) for row in table.select(TRIPS.names).to_pylist())


@pytest.mark.parametrize("table_version", [pytest.param(6, marks=pytest.mark.slow), 9], indirect=True)
@pytest.mark.parametrize("properties", [{}, BUCKET], ids=["SIMPLE", "BUCKET"])
def test_tasks_append_to_log_files(
    spark: SparkSession, tmp_path: Path, table_version: int, properties: dict[str, str]
) -> None:
    base_path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))
    config = write_config(base_path, **SMALL_FILTERS, **properties)
    with SparkRDDWriteClient(spark, config) as client:
        client.upsert(spark_rows(spark, ("a", "x", 10, 1.0), ("b", "x", 10, 2.0), ("c", "y", 10, 3.0)))
        updated = client.upsert(spark_rows(spark, ("a", "x", 20, 1.5), ("b", "x", 5, 9.0), ("c", "y", 20, 3.5)))
        deleted = client.delete([HoodieKey("c", "y")])
        client.insert(spark_rows(spark, ("d", "z", 1, 4.0)))
        client.upsert(spark_rows(spark, ("a", "x", 30, 1.75), ("e", "x", 1, 5.0)))
    for result, records in ((updated, 3), (deleted, 1)):
        stats = list(read_commit(base_path, result.instant_time).write_stats)
        assert all(stat.is_log_file for stat in stats)
        assert sum(stat.num_update_writes + stat.num_deletes for stat in stats) == records
    assert read_by_hudi_rs(base_path) == [
        ("a", "x", 30, 1.75), ("b", "x", 10, 2.0), ("d", "z", 1, 4.0), ("e", "x", 1, 5.0)
    ]  # fmt: skip
    assert not list(base_path.rglob("*.marker.*"))


@pytest.mark.parametrize("table_version", [9], indirect=True)
def test_two_clients_that_do_not_block_each_other_append_to_one_file_group(
    spark: SparkSession, tmp_path: Path, table_version: int
) -> None:
    base_path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))
    appending = {
        **SMALL_FILTERS, **BUCKET,
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "InProcessLockProvider",
    }  # fmt: skip
    slow_config = write_config(base_path, **appending, **{"hoodie.auto.commit": "false"})
    with (
        SparkRDDWriteClient(spark, slow_config) as slow,
        SparkRDDWriteClient(spark, write_config(base_path, **appending)) as fast,
    ):
        result = slow.upsert(spark_rows(spark, ("a", "x", 20, 2.0), ("b", "x", 20, 2.0), ("c", "y", 20, 2.0)))
        fast.upsert(spark_rows(spark, ("a", "x", 30, 3.0), ("b", "x", 10, 1.0), ("d", "x", 10, 1.0)))
        assert slow.commit(result.instant_time, result)
    assert not list(base_path.rglob("*.parquet"))
    expected = [("a", "x", 30, 3.0), ("b", "x", 20, 2.0), ("c", "y", 20, 2.0), ("d", "x", 10, 1.0)]
    assert read_by_hudi_rs(base_path) == expected
    with SparkRDDWriteClient(spark, write_config(base_path, **appending)) as client:
        assert client.compact() is not None
    assert read_by_hudi_rs(base_path) == expected


def test_tasks_store_positions(spark: SparkSession, tmp_path: Path) -> None:
    base_path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ", table_version=9))
    config = write_config(base_path, **SMALL_FILTERS, **POSITIONS)
    with SparkRDDWriteClient(spark, config) as client:
        client.upsert(spark_rows(spark, *some_keys(10, *range(30))))
        client.upsert(spark_rows(spark, *some_keys(20, 17, 3, 29)))
        client.delete([HoodieKey(key, "x") for key, _, _ in some_keys(0, 4, 3)])
    assert positioned_blocks(base_path) == [True, True]
    expected = {row[0]: row for row in [*some_keys(10, *range(30)), *some_keys(20, 17, 29)]}
    assert check(base_path) == [row for key, row in sorted(expected.items()) if row[0] not in ("k03", "k04")]
