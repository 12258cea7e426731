"""Merge-on-read tables of real Hudi on Spark: each query gives the rows that it gives in this process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import hoodie
import hoodie.spark
from hoodie import HoodieKey, HoodieReadClient, HoodieTableMetaClient
from tests.support.table_builder import content, init_table, local_client, rows
from tests.unit.test_tables_of_real_hudi import folders_of_tables, in_order

pytestmark = pytest.mark.spark

HAS_DATA_SOURCES = int(pyspark.__version__.split(".")[0]) >= 4
START = "hoodie.datasource.streaming.startOffset"


@pytest.fixture(
    params=[
        "hudi-v6-table-mor",
        pytest.param("v9_mor_compact", marks=pytest.mark.slow),
        pytest.param("v9_sql", marks=pytest.mark.slow),
    ]
)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a table; only some of the file slices of the first one have log files."""
    fixture = "shared_tables" if request.param.startswith("hudi") else "later_tables"
    shutil.copytree(request.getfixturevalue(fixture) / request.param, tmp_path / request.param)
    (folder,) = folders_of_tables(tmp_path / request.param)
    return folder


def rows_of(frame: DataFrame) -> list[str]:
    return in_order([row.asDict(recursive=True) for row in frame.collect()])


def queries_of(table: Path) -> list[dict[str, Any]]:
    """Hudi's options of a query, and arguments."""
    timeline = HoodieTableMetaClient.load(str(table)).active_timeline
    commits = list(timeline.completed_writes())
    middle, begin = commits[len(commits) // 2], commits[0]
    incremental = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": begin.completion_time or begin.requested_time,
    }
    return [
        {"options": {}},
        {"options": {"as.of.instant": middle.requested_time}},
        {"options": {"hoodie.datasource.query.type": "read_optimized"}},
        {"options": incremental},
        {
            "options": incremental
            | {"hoodie.datasource.read.end.instanttime": middle.completion_time or middle.requested_time}
        },
    ]


def test_each_query_gives_the_rows_that_it_gives_in_this_process(spark: SparkSession, table: Path) -> None:
    before = content(table)
    path = str(table)
    assert hoodie.plan_read(path).log_files
    for query in queries_of(table):
        options = query["options"]
        expected = in_order(hoodie.read_table(path, options=options).to_pylist())
        frame = hoodie.spark.read(spark, path, options)
        assert rows_of(frame) == expected, options
        assert frame.count() == len(expected)
        if "incremental" not in options.values():
            assert (
                frame.where("ts > 1").count()
                == hoodie.read_table(path, filters=[("ts", ">", 1)], options=options).num_rows
            )
        on_executors = hoodie.spark.read(spark, path, {**options, "hoodie.spark.read.driver.max.bytes": "0"})
        assert rows_of(on_executors) == expected, options
        assert on_executors.schema == frame.schema
        if HAS_DATA_SOURCES:
            loaded = spark.read.format("hoodie").options(**options).load(path)
            assert rows_of(loaded) == expected, options
            assert loaded.schema == frame.schema
    assert content(table) == before


def test_filters_columns_and_keys(spark: SparkSession, table: Path) -> None:
    path = str(table)
    everything = hoodie.read_table(path)
    key = everything["_hoodie_record_key"][0].as_py()
    for query in (
        {"columns": ["ts", "_hoodie_record_key"]},
        {"filters": [("ts", ">", 1000)], "columns": ["id"]},
        {"filters": [("_hoodie_record_key", "=", key)]},
        {"filters": [("id", "in", [everything["id"][0].as_py(), "nobody"])]},
    ):
        expected = in_order(hoodie.read_table(path, **query).to_pylist())
        for driver_bytes in ("0", str(1 << 30)):
            options = {"hoodie.spark.read.driver.max.bytes": driver_bytes}
            assert rows_of(hoodie.spark.read(spark, path, options, **query)) == expected, query
    assert hoodie.spark.read(spark, path, columns=[]).count() == everything.num_rows
    frame = hoodie.spark.read(spark, path).where(sf.col("id") == everything["id"][0].as_py()).select("id", "ts")
    assert frame.collect()[0].ts == everything["ts"][0].as_py()
    partition = everything["_hoodie_partition_path"][0].as_py()
    with HoodieReadClient(spark, path) as client:
        found = client.read([HoodieKey(key, partition), HoodieKey("nobody", partition)])
        assert rows_of(found) == in_order(everything.slice(0, 1).to_pylist())


@pytest.mark.skipif(not HAS_DATA_SOURCES, reason="PySpark 3.5 has no data sources in Python")
def test_a_stream_reads_the_rows_of_commits_in_log_files(spark: SparkSession, table: Path) -> None:
    first = next(iter(HoodieTableMetaClient.load(str(table)).active_timeline.completed_writes()))
    begin = first.completion_time or first.requested_time
    frame = spark.readStream.format("hoodie").option(START, begin).load(str(table))
    batches: list[dict[str, Any]] = []

    def take(batch: DataFrame, number: int) -> None:
        batches.extend(row.asDict(recursive=True) for row in batch.collect())

    writer = frame.writeStream.option("checkpointLocation", str(table.parent / "checkpoint")).foreachBatch(take)
    writer.trigger(availableNow=True).start().awaitTermination()
    expected = hoodie.read_table(str(table), query_type="incremental", begin=begin).to_pylist()
    assert in_order(batches) == in_order(expected)


@pytest.mark.parametrize("ordering", [None, ["ts"]], ids=["newest commit", "ordering field"])
def test_rows_that_an_insert_stored_twice_change_together(
    spark: SparkSession, tmp_path: Path, ordering: list[str] | None
) -> None:
    """A log record is as many rows as its key has in the base file, also where Spark scans that file."""
    path = init_table(tmp_path / "t", partition_fields=None, ordering_fields=ordering, table_type="MERGE_ON_READ")
    stored = [("a", "x", 1, 1.0), ("a", "x", 1, 2.0), *((f"k{number:03}", "x", 1, 0.0) for number in range(300))]
    with local_client(path) as client:
        inserted = client.insert(rows(*stored))
        client.upsert(rows(("a", "x", 5, 9.0)))
    found = hoodie.spark.read(spark, path)
    assert found.count() == len(stored)
    assert [row.fare for row in found.where("id = 'a'").collect()] == [9.0, 9.0]
    changed = hoodie.read_table(path, begin=inserted.completion_time, query_type="incremental")
    assert changed["fare"].to_pylist() == [9.0, 9.0]
    assert hoodie.spark.read(spark, path, query_type="incremental", begin=inserted.completion_time).count() == 2
