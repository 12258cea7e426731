"""On Spark: what the table's files tell is taken, marks of deletes are not demanded, and filters have typed values."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import hoodie
import hoodie.spark

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_table_of_buckets_is_written_without_its_options(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "t")
    rows = spark.range(200).select(sf.col("id").cast("string").alias("id"), sf.lit(1).alias("v"))
    options = {
        "hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id", "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": 5, "hoodie.datasource.write.table.type": kind,
    }  # fmt: skip
    hoodie.spark.write(rows, path, options)
    hoodie.spark.write(rows.where("id < 20").withColumn("v", sf.lit(2)), path, {})
    found = hoodie.read_table(path)
    assert sorted(found["v"].to_pylist()) == [1] * 180 + [2] * 20
    assert len(hoodie.plan_read(path).slices) == 5


def test_loads_without_the_column_that_marks_deletes_are_taken(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    full = spark.createDataFrame([("a", 1), ("b", 1), ("c", 1)], "id string, v int")
    flagged = spark.createDataFrame([("a", 2, None), ("b", 2, True)], "id string, v int, _hoodie_is_deleted boolean")
    hoodie.spark.write(full, path, options)
    hoodie.spark.write(flagged, path, {})
    hoodie.spark.write(spark.createDataFrame([("c", 3)], "id string, v int"), path, {})
    found = {row["id"]: row["v"] for row in hoodie.read_table(path).to_pylist()}
    assert found == {"a": 2, "c": 3}


def test_values_of_filters_have_the_types_of_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.sql(
        "select 'a' id, 0.0d f, timestamp '2026-01-01 10:00:00Z' ts union all "
        "select 'b', -0.0d, timestamp '2026-01-02 00:00:00Z' union all select 'c', double('nan'), null"
    )
    hoodie.spark.write(frame, path, {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"})
    for wanted, ids in (
        (("f", "in", [0.0]), ["a", "b"]),
        (("f", "==", float("nan")), ["c"]),
        (("f", "in", []), []),
        (("ts", ">=", "2026-01-02"), ["b"]),
        (("ts", "in", {dt.datetime(2026, 1, 1, 10)}), ["a"]),
        (("id", "in", ["c", "x" + "東京" * 50]), ["c"]),
    ):
        read = hoodie.spark.read(spark, path, filters=[wanted], columns=["id"])
        assert sorted(row["id"] for row in read.collect()) == ids, wanted
