"""Writes by format("hoodie"): `df.write` and `df.writeStream`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

import hoodie
import hoodie.spark
from hoodie import HoodieTableMetaClient
from hoodie.config.streaming_config import IDENTIFIER_KEY
from tests.support.object_store_servers import Bucket
from tests.support.streams import Stream, batches, keys, state
from tests.support.table_builder import instants, local_client, read_rows, rows, spark_rows

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(int(pyspark.__version__.split(".")[0]) < 4, reason="PySpark 3.5 has no data sources in Python"),
]
OPERATION = "hoodie.datasource.write.operation"
LIMIT = "hoodie.datasource.write.staged.max.bytes"
OPTIONS: dict[str, Any] = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


@pytest.fixture
def parallel(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    yield
    # Without a value of its own a session has 200, and the tests that follow take ten times as long.
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


def save(frame: DataFrame, path: str, mode: str = "append", **options: Any) -> None:
    frame.write.format("hoodie").options(**OPTIONS, **options).mode(mode).save(path)


def failure(frame: DataFrame, path: str, mode: str = "append", **options: Any) -> str:
    with pytest.raises(Exception) as error:
        save(frame, path, mode, **options)
    return str(error.value)


def staged(path: str) -> list[str]:
    return sorted(str(file) for file in Path(path).rglob("staged-*"))


def test_what_is_written_is_read_back(spark: SparkSession, path: str, tmp_path: Path) -> None:
    frame = spark.sql(
        """SELECT cast(id AS string) AS id, concat('r', id % 3) AS region, id AS ts, cast(id AS decimal(9, 2)) AS price,
           timestamp_micros(id * 3600000000) AS at, timestamp_ntz '2026-01-01 10:00:00' AS local, id % 2 = 0 AS flag,
           array('a', null) AS tags, map('k', id) AS counts, named_struct('x', id / 2, 'raw', X'0102') AS p,
           date '2026-01-02' AS day, cast(if(id = 3, null, id) AS int) AS some FROM range(20)"""
    ).repartition(4)
    save(frame, path)
    other = str(tmp_path / "other")
    hoodie.spark.write(frame, other, OPTIONS)
    found, expected = hoodie.spark.read(spark, path), hoodie.spark.read(spark, other)
    assert found.schema == expected.schema
    shown = [sorted(str(row) for row in rows.select(*frame.columns).collect()) for rows in (found, expected)]
    assert len(shown[0]) == 20 and shown[0] == shown[1]
    assert staged(path) == []


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
def test_rows_of_many_tasks_are_one_commit(spark: SparkSession, path: str, operation: str) -> None:
    save(spark_rows(spark, ("a", "x", 1), ("b", "y", 1)), path)
    save(spark_rows(spark, *((f"k{n}", "x", n) for n in range(9))).repartition(3), path, **{OPERATION: operation})
    assert keys(path) == ["a", "b", *(f"k{n}" for n in range(9))]
    assert len(HoodieTableMetaClient.load(path).active_timeline.completed_writes()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("how", ["data source", "spark.write", "foreachBatch"])
def test_each_way_of_writing_makes_a_table_of_the_named_version(spark: SparkSession, path: str, how: str) -> None:
    def write(batch: int, version: int, *values: tuple[str, int]) -> None:
        frame = spark.createDataFrame(values, "id string, ts long").selectExpr("id", "'a' AS region", "ts")
        named = {"hoodie.write.table.version": version}
        if how == "data source":
            save(frame, path, **named)
        elif how == "spark.write":
            hoodie.spark.write(frame, path, {**OPTIONS, **named})
        else:
            hoodie.spark.foreach_batch_writer(path, {**OPTIONS, **named})(frame, batch)

    write(0, 9, ("k", 5), ("l", 5))
    config = HoodieTableMetaClient.load(path).table_config
    assert (config.table_version, config.ordering_fields) == (9, ("ts",))
    write(1, 9, ("k", 4), ("l", 6))
    assert {row["id"]: row["ts"] for row in hoodie.read_table(path).to_pylist()} == {"k": 5, "l": 6}
    before = hoodie.read_table(path).to_pylist()
    with pytest.raises(Exception, match=r"hoodie\.write\.table\.version = 8: the table is of version 9"):
        write(2, 8, ("k", 7))
    assert hoodie.read_table(path).to_pylist() == before


def test_upserts_deletes_and_overwrites(spark: SparkSession, path: str) -> None:
    save(spark_rows(spark, ("a", "x", 1), ("b", "y", 1), ("c", "y", 1)), path)
    save(spark_rows(spark, ("a", "x", 2), ("d", "z", 1)), path)
    assert read_rows(path) == [("a", "x", 2), ("b", "y", 1), ("c", "y", 1), ("d", "z", 1)]
    save(spark_rows(spark, ("b", "y", 0)), path, **{OPERATION: "delete"})
    assert keys(path) == ["a", "c", "d"]
    save(spark_rows(spark, ("e", "z", 1)), path, **{OPERATION: "insert_overwrite"})
    assert keys(path) == ["a", "c", "e"]
    before = instants(path)
    # The frame may read the table that it overwrites: its rows stay until the commit.
    doubled = spark.read.format("hoodie").load(path).selectExpr("id", "region", "ts * 10 AS ts")
    save(doubled, path, "overwrite")
    assert read_rows(path) == [("a", "x", 20), ("c", "y", 10), ("e", "z", 10)]
    assert instants(path)[: len(before)] == before


def test_a_table_with_buckets_has_each_row_in_its_bucket(spark: SparkSession, path: str) -> None:
    bucket = {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": 4,
        "hoodie.bucket.index.hash.field": "id",
    }
    entries = [(f"k{n:02}", "x", 1) for n in range(40)]
    save(spark_rows(spark, *entries).repartition(3), path, **bucket, **{OPERATION: "bulk_insert"})
    save(spark_rows(spark, *((key, region, 2) for key, region, _ in entries[::2])).repartition(3), path, **bucket)
    with local_client(path, bucket) as client:
        client.upsert(rows(*((key, region, 3) for key, region, _ in entries[::4])))
    expected = [(key, "x", 3 if n % 4 == 0 else 2 if n % 2 == 0 else 1) for n, (key, *_) in enumerate(entries)]
    assert read_rows(path) == expected
    assert len({file.name.split("_")[0] for file in Path(path, "x").glob("*.parquet")}) == 4


def test_errors_end_with_what_to_do(spark: SparkSession, path: str, tmp_path: Path) -> None:
    frame = spark_rows(spark, ("a", "x", 1))
    assert "nearest: hoodie.table.name" in failure(frame, path, **{"hoodie.table.nam": "t"})
    assert "mode 'overwrite' with a delete: use mode 'append'" in failure(
        frame, path, "overwrite", **{OPERATION: "delete"}
    )
    assert "there is no table at" in failure(frame, path, **{OPERATION: "delete"})
    assert "the option filter is for reads" in failure(frame, path, filter="ts > 1")
    with pytest.raises(Exception, match="(?i)append.* or .*overwrite"):
        save(frame, path, "ignore")
    assert not Path(path).exists()
    save(frame, path)
    assert "null" in failure(spark.sql("SELECT cast(null AS string) AS id, 'x' AS region, 1L AS ts"), path)
    large = failure(spark_rows(spark, *((f"k{n}", "x", 1) for n in range(99))), path, **{LIMIT: 500})
    assert f"hoodie.spark.write(df, '{path}', {{" in large and "'hoodie.table.name': 't'" in large
    assert "mode='append')" in large
    assert keys(path) == ["a"] and staged(path) == []


def test_a_task_that_fails_writes_nothing_and_one_that_is_retried_nothing_twice(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    save(spark_rows(spark, ("a", "x", 1)), path)

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise RuntimeError("the task dies")

    frame = spark_rows(spark, *((f"k{n}", "x", 1) for n in range(9))).repartition(3)
    assert "the task dies" in failure(frame.mapInArrow(fail, frame.schema), path, **{OPERATION: "insert"})
    assert keys(path) == ["a"] and staged(path) == []


def test_a_failing_commit_leaves_the_table(spark: SparkSession, path: str) -> None:
    save(spark_rows(spark, ("a", "x", 1)), path)
    before = instants(path)
    refused = failure(
        spark_rows(spark, ("b", "x", 1), ("a", "x", 2)),
        path,
        **{OPERATION: "insert", "hoodie.datasource.insert.dup.policy": "fail"},
    )
    assert "HoodieDuplicateKeyException" in refused
    assert keys(path) == ["a"] and staged(path) == []
    save(spark_rows(spark, ("c", "x", 1)), path)
    assert keys(path) == ["a", "c"]
    assert instants(path)[: len(before)] == before


@pytest.mark.slow
def test_a_table_on_s3_is_written_with_the_options_of_the_storage(spark: SparkSession, s3_bucket: Bucket) -> None:
    url, options = f"s3://{s3_bucket.name}/lake/t", s3_bucket.options()
    given = {f"storage.{name}": value for name, value in options.items()}
    save(spark_rows(spark, ("a", "x", 1), ("b", "y", 1)).repartition(2), url, **given)
    save(spark_rows(spark, ("a", "x", 2)), url, **given)
    assert sorted(hoodie.read_table(url, storage_options=options)["ts"].to_pylist()) == [1, 2]


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["insert", "upsert"])
def test_a_batch_that_a_query_repeats_is_not_written_again(stream: Stream, operation: str) -> None:
    options = {**OPTIONS, OPERATION: operation, IDENTIFIER_KEY: "files"}
    stream.add("a", "b")
    stream.add("c")
    stream.run(options)
    assert batches(stream.path) == ['{"files":"0"}', '{"files":"1"}']
    stream.forget_newest_batch()
    with local_client(stream.path) as client:
        client.upsert(rows(("z", "x", 1)))
    stream.add("d")
    stream.run(options)
    assert keys(stream.path) == ["a", "b", "c", "d", "z"]
    assert batches(stream.path) == ['{"files":"0"}', '{"files":"1"}', None, '{"files":"2"}']
    newest = state(stream.path, "files")
    assert newest is not None and str(newest.query_id) in (stream.checkpoint / "metadata").read_text()
    assert staged(stream.path) == []


def test_the_function_for_foreach_batch_continues_the_stream_and_the_reverse(stream: Stream) -> None:
    options = {**OPTIONS, OPERATION: "insert"}
    function = hoodie.spark.foreach_batch_writer(stream.path, options)
    for number, write in enumerate((options, function, options)):
        stream.add(f"k{number}")
        stream.run(write)
        if number < 2:
            # The other one meets the batch again.
            stream.forget_newest_batch()
    assert keys(stream.path) == ["k0", "k1", "k2"]
    assert batches(stream.path) == [f'{{"default_single_writer":"{number}"}}' for number in range(3)]


def test_a_second_query_needs_a_name(stream: Stream, spark: SparkSession, tmp_path: Path) -> None:
    options = {**OPTIONS, OPERATION: "insert"}
    stream.add("a")
    stream.run(options)
    other = Stream(spark, tmp_path, "two")
    other.add("b")
    with pytest.raises(Exception, match=r"another checkpoint folder[^$]*streaming\.checkpoint\.identifier"):
        other.run(options)
    shutil.rmtree(other.checkpoint)
    other.run({**options, IDENTIFIER_KEY: "two"})
    stream.add("c")
    stream.run(options)
    assert keys(stream.path) == ["a", "b", "c"]


def test_a_query_that_fails_writes_its_batch_when_it_runs_again(stream: Stream) -> None:
    options = {**OPTIONS, OPERATION: "insert"}
    stream.add("a")
    stream.add("b")
    with pytest.raises(Exception, match=r"foreach_batch_writer\("):
        stream.run({**options, LIMIT: 1})
    assert not Path(stream.path).exists()
    stream.run(options)
    assert keys(stream.path) == ["a", "b"]


def test_complete_mode_replaces_and_update_mode_is_refused_by_spark(stream: Stream, parallel: None) -> None:
    counts = stream.rows().groupBy("region").count().selectExpr("region AS id", "region", "`count` AS ts")
    writer = counts.writeStream.format("hoodie").options(**OPTIONS).trigger(availableNow=True)
    stream.add("a1", "a2", "b1")
    stream.add("b2", "c1")
    writer.outputMode("complete").option("checkpointLocation", str(stream.checkpoint)).start(
        stream.path
    ).awaitTermination()
    assert read_rows(stream.path) == [("a", "a", 2), ("b", "b", 2), ("c", "c", 1)]
    with pytest.raises(Exception, match="(?i)update mode"):
        writer.outputMode("update").option("checkpointLocation", f"{stream.checkpoint}2").start(
            stream.path
        ).awaitTermination()
