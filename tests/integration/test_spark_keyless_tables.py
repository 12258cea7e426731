"""Tables without record key fields, written by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import hoodie
import hoodie.spark
from hoodie import HoodieTableMetaClient
from hoodie.exception import HoodieConfigException, HoodieKeyException

pytestmark = pytest.mark.spark
has_data_sources = pytest.mark.skipif(
    int(pyspark.__version__.split(".")[0]) < 4, reason="PySpark 3.5 has no data sources in Python"
)
OPTIONS = {"hoodie.table.name": "t", "hoodie.datasource.write.partitionpath.field": "p"}
OPERATION = "hoodie.datasource.write.operation"
KEY = "_hoodie_record_key"
Rows = list[tuple[Any, ...]]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def frame(spark: SparkSession, *values: tuple[str, int], parts: int = 3) -> DataFrame:
    return spark.createDataFrame(list(values), "p string, v long").repartition(parts)


def content(path: str) -> Rows:
    return sorted((row["p"], row["v"]) for row in hoodie.read_table(path).to_pylist())


def keys(path: str) -> dict[str, tuple[str, int]]:
    return {row[KEY]: (row["p"], row["v"]) for row in hoodie.read_table(path).to_pylist()}


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_tasks_insert_change_and_delete_rows(spark: SparkSession, path: str, table_type: str, version: int) -> None:
    options = OPTIONS | {
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.write.table.version": version,
        "hoodie.datasource.write.precombine.field": "v",
    }
    given = [("x", 1), ("x", 1), ("y", 2), ("z", 3)]
    hoodie.spark.write(frame(spark, *given), path, options)
    config = HoodieTableMetaClient.load(path).table_config
    assert config.is_keyless
    assert config.ordering_fields == ()
    for operation in ("insert", "bulk_insert"):
        hoodie.spark.write(frame(spark, *given), path, options | {OPERATION: operation})
    assert content(path) == sorted(given * 3)
    before = keys(path)
    assert len(before) == 12
    stored = hoodie.spark.read(spark, path).where("v = 2")
    hoodie.spark.write(stored.withColumn("v", sf.col("v") * 10), path, options)
    assert keys(path) == {key: (p, 20 if v == 2 else v) for key, (p, v) in before.items()}
    hoodie.spark.write(hoodie.spark.read(spark, path).where("v = 20"), path, options | {OPERATION: "delete"})
    assert content(path) == sorted([("x", 1), ("x", 1), ("z", 3)] * 3)
    for operation, says in (("upsert", "insert adds them"), ("delete", "delete")):
        with pytest.raises(HoodieKeyException, match=says):
            hoodie.spark.write(frame(spark, *given), path, options | {OPERATION: operation})
    assert content(path) == sorted([("x", 1), ("x", 1), ("z", 3)] * 3)
    hoodie.spark.write(frame(spark, ("x", 7)), path, options | {OPERATION: "insert_overwrite"})
    assert content(path) == [("x", 7), *[("z", 3)] * 3]
    hoodie.spark.write(frame(spark, ("x", 8), ("x", 8)), path, options, mode="overwrite")
    assert content(path) == [("x", 8), ("x", 8)]


def test_columns_of_all_kinds_have_an_identity(spark: SparkSession, path: str) -> None:
    rows = spark.sql(
        "select 'x' p, map('a', 1) m, array(map('q', 'b')) n, struct(map('k', named_struct('d', 1.5)) i, 2 j) s, "
        "cast(1.5 as decimal(10,2)) d, date'2026-01-01' day, timestamp'2026-01-01 00:00:00' ts, "
        "cast('b' as binary) b, true t, cast(null as string) z, cast('nan' as double) f"
    )
    both = rows.union(rows).repartition(2)
    for operation in ("insert", "bulk_insert"):
        hoodie.spark.write(both, path, OPTIONS | {OPERATION: operation})
    found = hoodie.read_table(path)
    assert len(set(found[KEY].to_pylist())) == found.num_rows == 4
    assert found["s"].to_pylist()[0] == {"i": [("k", {"d": 1.5})], "j": 2}


@pytest.mark.parametrize("persist", ["ALWAYS", "NEVER"])
def test_many_rows_of_many_tasks_have_keys_of_their_own(spark: SparkSession, path: str, persist: str) -> None:
    options = OPTIONS | {"hoodie.parquet.max.file.size": "60000", "hoodie.write.input.persist": persist}
    options["hoodie.parquet.small.file.limit"] = "20000"
    rows = spark.range(0, 20_000, 1, 4).selectExpr("cast(id % 3 as string) p", "id div 2 v")
    for _ in range(2):
        hoodie.spark.write(rows, path, options)
    found = hoodie.read_table(path)
    assert len(set(found[KEY].to_pylist())) == found.num_rows == 40_000
    assert sorted(found["v"].to_pylist()) == sorted([number // 2 for number in range(20_000)] * 2)


@has_data_sources
def test_a_data_source_without_a_key_field_makes_such_a_table(spark: SparkSession, path: str) -> None:
    given = [("x", 1), ("x", 1), ("y", 2)]
    frame(spark, *given).write.format("hoodie").options(**OPTIONS).mode("append").save(path)
    frame(spark, *given).write.format("hoodie").options(**OPTIONS).mode("append").save(path)
    assert content(path) == sorted(given * 2)
    before = keys(path)
    changed = spark.read.format("hoodie").load(path).where("v = 2").withColumn("v", sf.lit(5))
    changed.write.format("hoodie").options(**OPTIONS).mode("append").save(path)
    assert keys(path) == {key: (p, 5 if v == 2 else v) for key, (p, v) in before.items()}
    deleted = spark.read.format("hoodie").load(path).where("v = 5")
    deleted.write.format("hoodie").options(**OPTIONS | {OPERATION: "delete"}).mode("append").save(path)
    assert content(path) == [("x", 1)] * 4
    frame(spark, ("z", 9)).write.format("hoodie").options(**OPTIONS).mode("overwrite").save(path)
    assert content(path) == [("z", 9)]
    with pytest.raises(Exception, match="insert adds them"):
        frame(spark, ("z", 9)).write.format("hoodie").options(**OPTIONS | {OPERATION: "upsert"}).mode("append").save(
            path
        )
    assert content(path) == [("z", 9)]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_merge_finds_rows_by_any_columns_and_keeps_their_keys(
    spark: SparkSession, path: str, table_type: str
) -> None:
    options = OPTIONS | {"hoodie.datasource.write.table.type": table_type}
    hoodie.spark.write(frame(spark, ("x", 1), ("x", 1), ("y", 2), ("z", 3)), path, options)
    before = keys(path)
    source = spark.createDataFrame(
        [(1, "x", 10), (2, "y", 20), (9, "z", 30), (9, "z", 30), (None, "n", 0)], "v long, p string, add long"
    )
    (
        hoodie.spark.merge_into(path, source, "t.V = s.v")
        .whenMatched("s.v = 2").delete()
        .whenMatched().update({"v": "t.v + s.add"})
        .whenNotMatched().insert({"v": "s.v", "p": "s.p"})
        .merge()
    )  # fmt: skip
    after = keys(path)
    assert sorted(after.values(), key=str) == [("n", None), ("x", 11), ("x", 11), ("z", 3), ("z", 9), ("z", 9)]
    assert {key for key, row in before.items() if row[0] != "y"} <= set(after)
    assert all(part.isdigit() for key in after for part in key.split("_"))


def test_a_merge_refuses_several_rows_for_one_stored_row_and_other_partitions(spark: SparkSession, path: str) -> None:
    hoodie.spark.write(frame(spark, ("x", 1), ("y", 2)), path, OPTIONS)
    before = keys(path)
    source = frame(spark, ("y", 2), ("z", 2))
    with pytest.raises(HoodieKeyException, match="apply to each of 1 stored rows, such as v = 2"):
        hoodie.spark.merge_into(path, source, ["v"]).whenMatched().delete().merge()
    with pytest.raises(HoodieKeyException, match="1 rows would get another _hoodie_partition_path"):
        hoodie.spark.merge_into(path, source.where("p = 'z'"), ["v"]).whenMatched().update({"p": "s.p"}).merge()
    with pytest.raises(HoodieConfigException, match="compares w, which is no column"):
        hoodie.spark.merge_into(path, source, "t.w = s.v").whenMatched().delete().merge()
    assert keys(path) == before
