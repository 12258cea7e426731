"""Partitions that expire on Spark: by the client, after a write of `hoodie.spark`, and by format("hoodie")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

import hoodie.spark
from hoodie import HoodieWriteConfig, SparkRDDWriteClient
from tests.support.moved_clock import days_ago
from tests.support.table_builder import init_table, instants, local_client, rows, spark_rows
from tests.support.table_invariants import check_table

pytestmark = pytest.mark.spark
RETAIN = {"hoodie.partition.ttl.strategy.days.retain": "10"}
INLINE = {**RETAIN, "hoodie.partition.ttl.inline": "true"}
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}
two_types = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


@pytest.fixture
def base_path(tmp_path: Path, table_type: str) -> str:
    """A table whose partitions x and y are old; z is young."""
    path = init_table(tmp_path / "t", table_type=table_type)
    for days, entries in ((40, [("a", "x", 1), ("b", "x", 1)]), (12, [("c", "y", 1)]), (0, [("d", "z", 1)])):
        with days_ago(days), local_client(path) as client:
            client.upsert(rows(*entries))
    return path


def check(spark: SparkSession, base_path: str, *entries: tuple[str, str, int]) -> None:
    """Spark and hoodie read the rows, and the metadata table is right."""
    found = hoodie.spark.read(spark, base_path).select("id", "region", "ts").collect()
    assert sorted(tuple(row) for row in found) == sorted(entries)
    check_table(base_path, {row[0]: {"id": row[0], "region": row[1], "ts": row[2]} for row in entries})


@two_types
def test_a_client_of_spark_tells_and_deletes_old_partitions(
    spark: SparkSession, base_path: str, table_type: str
) -> None:
    before = instants(base_path)
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path, RETAIN)) as client:
        planned = client.expire_partitions(dry_run=True)
        assert [(one.partition_path, one.rows) for one in planned.partitions] == [("x", 2), ("y", 1)]
        assert instants(base_path) == before
        done = client.expire_partitions()
        assert done.partition_paths == ["x", "y"] and done.instant_time is not None
        check(spark, base_path, ("d", "z", 1))
        client.upsert(spark_rows(spark, ("a", "x", 5), ("d", "z", 5)))
        assert client.expire_partitions().partitions == ()
    check(spark, base_path, ("a", "x", 5), ("d", "z", 5))


@two_types
@pytest.mark.parametrize("how", ["spark.write", "data source"])
def test_partitions_expire_after_a_write(spark: SparkSession, base_path: str, table_type: str, how: str) -> None:
    if how == "data source" and int(pyspark.__version__.split(".")[0]) < 4:
        pytest.skip("PySpark 3.5 has no data sources in Python")
    frame, options = spark_rows(spark, ("c", "y", 5)), {**OPTIONS, **INLINE}
    if how == "spark.write":
        result: Any = hoodie.spark.write(frame, base_path, options)
        assert result.service_errors == ()
    else:
        frame.write.format("hoodie").options(**options).mode("append").save(base_path)
    # The write renewed y; an expiry is a commit of its own behind it.
    last = [action for _, action, state in instants(base_path) if state == "COMPLETED"][-2:]
    assert last == ["commit" if table_type == "COPY_ON_WRITE" else "deltacommit", "replacecommit"]
    check(spark, base_path, ("c", "y", 5), ("d", "z", 1))
