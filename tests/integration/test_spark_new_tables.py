"""What the first write of Spark makes in the metadata table of a new table."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import hoodie.metadata
import hoodie.spark
from tests.support.metadata_table_checks import check_equals_a_new_one, listed_partitions
from tests.support.table_builder import read_rows, spark_rows

pytestmark = [pytest.mark.spark, pytest.mark.metadata_table]

TABLE = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.table.ordering.fields": "ts",
}
ALL = ("column_stats", "files", "partition_stats")


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(("way", "expected"), [("data_source", ("files",)), ("write", ALL)])
def test_the_first_write_makes_one_with_ranges_unless_the_driver_commits_by_itself(
    spark: SparkSession, tmp_path: Path, way: str, expected: tuple[str, ...], table_type: str
) -> None:
    path = str(tmp_path / "t")
    for ts in (1, 2):
        frame = spark_rows(spark, ("a", "x", ts), (f"b{ts}", "y", ts))
        properties = {**TABLE, "hoodie.datasource.write.table.type": table_type}
        if way == "write":
            hoodie.spark.write(frame, path, properties)
        elif pyspark.__version__ < "4":
            pytest.skip("PySpark 3.5 has no data sources in Python")
        else:
            frame.write.format("hoodie").options(**properties).mode("append").save(path)
        assert listed_partitions(path) == expected
        check_equals_a_new_one(path)
    assert read_rows(path) == [("a", "x", 2), ("b1", "y", 1), ("b2", "y", 2)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"hoodie.metadata.enable": "false"}, ()),
        ({"hoodie.metadata.index.column.stats.enable": "false"}, ("files",)),
        ({"hoodie.write.table.version": "6"}, ()),
    ],
)
def test_options_say_otherwise(
    spark: SparkSession, tmp_path: Path, given: dict[str, str], expected: tuple[str, ...]
) -> None:
    path = str(tmp_path / "t")
    hoodie.spark.write(spark_rows(spark, ("a", "x", 1)), path, {**TABLE, **given})
    assert listed_partitions(path) == expected
