"""Mode overwrite of a table by frames that read it, in whatever form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

import hoodie.spark
from hoodie import HoodieTableMetaClient
from tests.support.table_builder import read_trips, spark_rows

pytestmark = [pytest.mark.spark, pytest.mark.metadata_table]

OPTIONS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}
TYPE = "hoodie.datasource.write.table.type"
OLD = [("a", "x", 2, 1.0), ("b", "x", 1, 2.0), ("c", "y", 1, 3.0)]
NEW = OLD[1:]
WAYS = {
    "the same table": OPTIONS,
    "a new table": {**OPTIONS, "hoodie.datasource.write.partitionpath.field": ""},
}
needs_data_source = pytest.mark.skipif(
    int(pyspark.__version__.split(".")[0]) < 4, reason="PySpark 3.5 has no data sources in Python"
)


def plain(spark: SparkSession, path: str) -> DataFrame:
    return hoodie.spark.read(spark, path)


def spelled(spark: SparkSession, path: str) -> DataFrame:
    return hoodie.spark.read(spark, f"file://{path}/../t/")


def linked(spark: SparkSession, path: str) -> DataFrame:
    link = Path(path).with_name("link")
    link.symlink_to(path)
    return hoodie.spark.read(spark, str(link))


def view(spark: SparkSession, path: str) -> DataFrame:
    hoodie.spark.read(spark, path).createOrReplaceTempView("trips_of_today")
    return spark.sql("select * from trips_of_today")


def joined(spark: SparkSession, path: str) -> DataFrame:
    keys = hoodie.spark.read(spark, path).select("id")
    return hoodie.spark.read(spark, path).join(keys.union(spark_rows(spark, ("z", "x", 1)).select("id")), "id")


def cached(spark: SparkSession, path: str) -> DataFrame:
    return hoodie.spark.read(spark, path).cache()


def by_format(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("hoodie").load(path)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("read", "table_type"),
    [
        (plain, "COPY_ON_WRITE"),
        (plain, "MERGE_ON_READ"),
        pytest.param(spelled, "COPY_ON_WRITE", marks=pytest.mark.slow),
        (linked, "COPY_ON_WRITE"),
        pytest.param(view, "MERGE_ON_READ", marks=pytest.mark.slow),
        pytest.param(joined, "COPY_ON_WRITE", marks=pytest.mark.slow),
        pytest.param(cached, "COPY_ON_WRITE", marks=pytest.mark.slow),
        pytest.param(by_format, "COPY_ON_WRITE", marks=needs_data_source),
        pytest.param(by_format, "MERGE_ON_READ", marks=[needs_data_source, pytest.mark.slow]),
    ],
)
def test_a_table_is_overwritten_by_what_is_read_from_it(
    spark: SparkSession,
    tmp_path: Path,
    read: Callable[[SparkSession, str], DataFrame],
    table_type: str,
    way: str,
) -> None:
    path = str(tmp_path / "t")
    for rows in ([("a", "x", 1, 0.0), *OLD[1:]], OLD[:1]):
        hoodie.spark.write(spark_rows(spark, *rows), path, {**OPTIONS, TYPE: table_type})
    own = read(spark, path).where("fare > 1")
    result = hoodie.spark.write(own, path, {**WAYS[way], TYPE: table_type}, mode="overwrite")
    assert result is not None and result.is_committed
    assert read_trips(path) == NEW
    table = HoodieTableMetaClient.load(path)
    assert len(table.history()) == (3 if way == "the same table" else 1)
    assert table.table_config.partition_fields == (("region",) if way == "the same table" else ())
    hoodie.spark.write(spark_rows(spark, ("d", "x", 1, 4.0)), path)
    assert read_trips(path) == [*NEW, ("d", "x", 1, 4.0)]


@needs_data_source
@pytest.mark.parametrize("way", WAYS)
def test_a_write_of_the_data_source_goes_both_ways(spark: SparkSession, tmp_path: Path, way: str) -> None:
    path = str(tmp_path / "t")
    hoodie.spark.write(spark_rows(spark, *OLD), path, OPTIONS)
    options: dict[str, Any] = WAYS[way]
    own = by_format(spark, path).where("fare > 1")
    own.write.format("hoodie").options(**options).mode("overwrite").save(path)
    assert read_trips(path) == NEW
    assert len(HoodieTableMetaClient.load(path).history()) == (2 if way == "the same table" else 1)
    assert not list(Path(path).rglob("staged-*"))
