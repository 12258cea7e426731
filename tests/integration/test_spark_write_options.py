"""`hoodie.spark.write`: the operations and options of Hudi's data source."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hoodie
import hoodie.spark
from hoodie import HoodieTableMetaClient
from hoodie.exception import (
    HoodieConfigException,
    HoodieDuplicateKeyException,
    HoodieKeyException,
    HoodieSchemaException,
    TableExistsException,
    TableNotFoundException,
)
from tests.support.table_builder import instants, read_rows, read_trips, spark_rows

pytestmark = pytest.mark.spark

OPTIONS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}
OPERATION = "hoodie.datasource.write.operation"
PARTITIONS = "hoodie.datasource.write.partitions.to.delete"
STORED = (("a", "x", 1, 1.0), ("b", "y", 1, 1.0), ("c", "z", 1, 1.0))


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    hoodie.spark.write(spark_rows(spark, *STORED), path, OPTIONS)
    return path


def keys(path: str) -> list[str]:
    return [row[0] for row in read_trips(path)]


def extra_metadata(path: str) -> dict[str, str]:
    timeline = HoodieTableMetaClient.load(path).active_timeline
    last = timeline.last_instant
    assert last is not None
    found = dict(timeline.read_commit_metadata(last).extra_metadata)
    del found["schema"]
    return found


def test_partitions_are_deleted_by_name_or_by_the_rows(spark: SparkSession, path: str) -> None:
    other = spark_rows(spark, ("n", "x", 1, 1.0))
    result = hoodie.spark.write(other, path, {OPERATION: "delete_partition", PARTITIONS: "y*,nowhere"})
    assert result is not None and result.operation.value == "DELETE_PARTITION"
    assert keys(path) == ["a", "c"]
    hoodie.spark.write(other, path, {OPERATION: "Delete_Partition"}, "APPEND")
    assert keys(path) == ["c"]
    assert [action for _, action, _ in instants(path)] == ["commit", "replacecommit", "replacecommit"]
    with pytest.raises(HoodieKeyException, match="region"):
        hoodie.spark.write(other.drop("region"), path, {OPERATION: "delete_partition"})
    assert keys(path) == ["c"]


@pytest.mark.parametrize("operation", ["delete", "delete_partition"])
@pytest.mark.parametrize("mode", ["Overwrite", "IGNORE", "error"])
def test_deletes_append(spark: SparkSession, path: str, operation: str, mode: str) -> None:
    with pytest.raises(HoodieConfigException, match=f"with a {operation}: use mode 'append' for a {operation}"):
        hoodie.spark.write(spark_rows(spark, STORED[0]), path, {OPERATION: operation}, mode)
    assert keys(path) == ["a", "b", "c"]
    with pytest.raises(TableNotFoundException, match="to delete from"):
        hoodie.spark.write(spark_rows(spark, STORED[0]), f"{path}/none", {**OPTIONS, OPERATION: operation})


@pytest.mark.parametrize(
    ("operation", "appended", "overwritten"),
    [
        ("upsert", ["a", "b", "c", "n"], ["a", "n"]),
        ("insert", ["a", "a", "b", "c", "n"], ["a", "n"]),
        ("bulk_insert", ["a", "a", "b", "c", "n"], ["a", "n"]),
        ("insert_overwrite", ["a", "b", "c", "n"], ["a", "n"]),
        ("insert_overwrite_table", ["a", "n"], ["a", "n"]),
    ],
)
def test_each_operation_in_each_mode(
    spark: SparkSession, path: str, operation: str, appended: list[str], overwritten: list[str]
) -> None:
    new = spark_rows(spark, ("a", "x", 2, 2.0), ("n", "w", 2, 2.0))
    options = {**OPTIONS, OPERATION: operation.upper()}
    with pytest.raises(TableExistsException):
        hoodie.spark.write(new, path, options, "ErrorIfExists")
    assert hoodie.spark.write(new, path, options, "Ignore") is None
    assert read_trips(path) == sorted(STORED)
    hoodie.spark.write(new, path, options, "Append")
    assert keys(path) == appended
    count = len(instants(path))
    hoodie.spark.write(new, path, options, "OVERWRITE")
    assert keys(path) == overwritten
    assert len(instants(path)) == count + 1, "the history stays"


def test_known_keys_are_dropped_by_inserts(spark: SparkSession, path: str, caplog: pytest.LogCaptureFixture) -> None:
    drop = {"hoodie.datasource.write.insert.drop.duplicates": "true"}
    new = spark_rows(spark, ("a", "x", 9, 9.0), ("n", "x", 1, 1.0), ("n", "x", 2, 2.0))
    for operation in ("insert", "bulk_insert"):
        hoodie.spark.write(new, path, {**drop, OPERATION: operation})
        assert read_trips(path) == sorted([*STORED, ("n", "x", 2, 2.0)])
    with caplog.at_level(logging.WARNING, logger="hoodie.client.chosen_operation"):
        result = hoodie.spark.write(new, path, drop)
    assert result is not None and result.operation.value == "INSERT"
    assert "an insert is done instead of an upsert" in caplog.text
    with pytest.raises(HoodieDuplicateKeyException):
        hoodie.spark.write(new, path, {OPERATION: "insert", "hoodie.datasource.insert.dup.policy": "fail"})
    # The same key in another partition is another record.
    hoodie.spark.write(spark_rows(spark, ("a", "y", 1, 1.0)), path, {**drop, OPERATION: "insert"})
    assert keys(path) == ["a", "a", "b", "c", "n"]
    caplog.clear()
    hoodie.spark.write(new, path, {**drop, OPERATION: "insert_overwrite"})
    assert "insert.drop.duplicates = true has no effect on operation insert_overwrite" in caplog.text


@pytest.mark.parametrize("operation", ["upsert", "insert_overwrite", "delete", "delete_partition"])
def test_options_with_the_prefix_go_into_the_commit(spark: SparkSession, path: str, operation: str) -> None:
    options = {OPERATION: operation, "_job": "nightly", "_other": "5", "unrelated": "x"}
    hoodie.spark.write(spark_rows(spark, STORED[0]), path, options)
    assert extra_metadata(path) == {"_job": "nightly", "_other": "5"}
    prefix = {"hoodie.datasource.write.commitmeta.key.prefix": "source."}
    hoodie.spark.write(spark_rows(spark, STORED[0]), path, {**options, **prefix, "source.offset": "7"})
    assert extra_metadata(path) == {"source.offset": "7"}


def test_inserts_combine_their_input_if_asked(spark: SparkSession, path: str) -> None:
    new = spark_rows(spark, ("n", "x", 1, 1.0), ("n", "x", 2, 2.0))
    hoodie.spark.write(new, path, {OPERATION: "insert", "hoodie.combine.before.insert": "true"})
    assert read_trips(path)[-1] == ("n", "x", 2, 2.0)
    assert len(read_trips(path)) == 4


def test_a_reconciled_schema_has_nulls_in_columns_that_the_input_lacks(spark: SparkSession, path: str) -> None:
    narrow = spark_rows(spark, ("a", "x", 2), ("n", "x", 2))
    hoodie.spark.write(narrow, path, {"hoodie.datasource.write.reconcile.schema": "true"})
    assert read_trips(path)[0] == ("a", "x", 2, None)
    assert read_trips(path)[-1] == ("n", "x", 2, None)
    added = spark_rows(spark, ("o", "x", 2)).selectExpr("*", "'new' note")
    hoodie.spark.write(added, path, {"hoodie.datasource.write.reconcile.schema": "true"})
    assert read_rows(path, ["id", "fare", "note"])[-1] == ("o", None, "new")


def test_a_pasted_configuration_works(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    pasted = {
        "path": f"file://{path}/",
        "hoodie.datasource.write.table.name": "trips",
        "hoodie.datasource.write.storage.type": "COPY_ON_WRITE",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "region",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.datasource.write.keygenerator.type": "SIMPLE",
        "hoodie.datasource.write.row.writer.enable": "false",
        "hoodie.datasource.hive_sync.enable": "false",
        "hoodie.datasource.meta.sync.enable": "false",
        "hoodie.meta.sync.enable": "false",
        "hoodie.datasource.compaction.async.enable": "true",
        "hoodie.datasource.write.streaming.retry.count": "3",
    }
    hoodie.spark.write(spark_rows(spark, *STORED), path, pasted)
    config = HoodieTableMetaClient.load(path).table_config
    assert (config.table_name, config.record_key_fields, config.ordering_fields) == ("trips", ("id",), ("ts",))
    assert read_trips(path) == sorted(STORED)


def test_contradictions_are_named_together_and_write_nothing(spark: SparkSession, path: str) -> None:
    frame = spark_rows(spark, ("n", "x", 1, 1.0))
    among_options: dict[str, Any] = {
        "hoodie.datasource.write.insert.drop.duplicates": "true",
        "hoodie.combine.before.insert": "false",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.table.recordkey.fields": "region",
        "spark.hoodie.datasource.write.operation": "delete",
        "hoodie.datasource.write.drop.partition.columns": "true",
    }
    with pytest.raises(HoodieConfigException, match="4 problems") as raised:
        hoodie.spark.write(frame, path, among_options)
    for key in among_options:
        assert key in str(raised.value)
    with pytest.raises(HoodieConfigException, match="contradict those of the table") as raised:
        hoodie.spark.write(
            frame,
            path,
            {
                "hoodie.table.name": "others",
                "hoodie.datasource.write.recordkey.field": "ts",
                "hoodie.datasource.write.partitionpath.field": "",
                "hoodie.datasource.write.hive_style_partitioning": "true",
            },
        )
    for key in ("hoodie.table.name", "recordkey.field", "hive_style_partitioning"):
        assert key in str(raised.value)
    with pytest.raises(HoodieConfigException, match=r"option path = '/elsewhere', and base_path is"):
        hoodie.spark.write(frame, path, {"path": "/elsewhere"})
    assert (read_trips(path), len(instants(path))) == (sorted(STORED), 1)


def test_a_stream_is_refused_before_an_overwrite_deletes_the_table(spark: SparkSession, path: str) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("'a' id", "'x' region", "value ts", "1.0D fare")
    with pytest.raises(HoodieSchemaException, match="df is a streaming DataFrame"):
        hoodie.spark.write(stream, path, OPTIONS, "overwrite")
    assert read_trips(path) == sorted(STORED)
