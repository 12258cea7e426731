"""Keys made in Spark's tasks: of times, nested fields and classes of the user, as the local client makes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hoodie
import hoodie.spark
from hoodie import HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient
from hoodie.exception import HoodieKeyException
from hoodie.keygen.user_key_generator import UserRecordKeyGenerator

pytestmark = pytest.mark.spark

TIME = "hoodie.keygen.timebased."
TIMES = {
    f"{TIME}timestamp.type": "UNIX_TIMESTAMP",
    f"{TIME}output.dateformat": "yyyy/MM/dd",
    f"{TIME}timezone": "Europe/Berlin",
}
CLASS = "hoodie.datasource.write.keygenerator.class"
COLUMNS = "id string, name string, at long, place struct<zone: int, seen: long>"


class ByInitial(UserRecordKeyGenerator):
    """A key generator of the user."""

    def record_key(self, record: Mapping[str, Any]) -> str:
        return str(record["name"].lower())

    def partition_path(self, record: Mapping[str, Any]) -> str:
        return str(record["name"][0].lower())


def row(number: int, seen: int) -> tuple[Any, ...]:
    return (f"k{number}", f"Name{number}", number * 50_000, {"zone": number % 2, "seen": seen})


def upsert(spark: SparkSession, base_path: str, rows: list[tuple[Any, ...]], **properties: Any) -> None:
    given = {name.replace("__", "."): value for name, value in properties.items()}
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path, given)) as client:
        client.upsert(spark.createDataFrame(rows, COLUMNS))


def keys(base_path: str) -> list[tuple[Any, ...]]:
    found = hoodie.read_table(base_path, columns=["_hoodie_record_key", "_hoodie_partition_path"])
    return sorted(tuple(record.values()) for record in found.to_pylist())


def test_folders_of_times_and_nested_fields(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields=["id", "name"], ordering_fields="place.seen", properties=TIMES,
        partition_fields="place.zone:SIMPLE,at:TIMESTAMP", hive_style_partitioning=True,
    )  # fmt: skip
    upsert(spark, path, [row(number, 5) for number in range(3)])
    upsert(spark, path, [row(0, 4), row(1, 6), row(1, 5)])
    assert keys(path) == [
        ("id:k0,name:Name0", "place.zone=0/at=1970/01/01"),
        ("id:k1,name:Name1", "place.zone=1/at=1970/01/01"),
        ("id:k2,name:Name2", "place.zone=0/at=1970/01/02"),
    ]
    frame = hoodie.spark.read(spark, path)
    assert sorted((record["at"], record["place"]["seen"]) for record in frame.collect()) == [
        (0, 5), (50_000, 6), (100_000, 5),
    ]  # fmt: skip


def test_a_class_of_the_user_makes_keys_in_tasks(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="name", key_generator=ByInitial)
    upsert(spark, path, [row(1, 1), row(2, 1)], **{CLASS.replace(".", "__"): ByInitial})
    assert keys(path) == [("name1", "n"), ("name2", "n")]
    with pytest.raises(HoodieKeyException, match="ByInitial failed in record_keys"):
        upsert(spark, path, [("k", None, 1, None)], **{CLASS.replace(".", "__"): ByInitial})
    assert keys(path) == [("name1", "n"), ("name2", "n")]


def test_tables_without_meta_fields_take_inserts(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields="id", properties={"hoodie.populate.meta.fields": "false"}
    )
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(path)) as client:
        client.bulk_insert(spark.createDataFrame([row(1, 1)], COLUMNS))
        client.insert(spark.createDataFrame([row(2, 1)], COLUMNS))
    frame = hoodie.spark.read(spark, path)
    assert sorted((record["id"], record["_hoodie_record_key"]) for record in frame.collect()) == [
        ("k1", None), ("k2", None),
    ]  # fmt: skip


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert", "delete"])
def test_nan_as_a_record_key_is_refused(spark: SparkSession, tmp_path: Path, operation: str) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields=["id", "x"])
    rows = [("a", 1.5), ("b", float("nan")), ("c", float("nan"))]
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(path)) as client:
        client.upsert(spark.createDataFrame(rows[:1], "id string, x double"))
        with pytest.raises(HoodieKeyException, match=r"NaN") as caught:
            getattr(client, operation)(spark.createDataFrame(rows, "id string, x double"))
    if operation != "delete":
        assert "column 'x' is NaN in 2 records, first: {id: 'b', x: nan}; {id: 'c', x: nan}" in str(caught.value)
    assert keys(path) == [("id:a,x:1.5", "")]
