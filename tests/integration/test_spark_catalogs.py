"""Catalogs after writes on Spark: the metastore and the version of the session."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hoodie
import hoodie.spark
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.sync import catalog_sync
from hoodie.sync.sync_settings import SyncSettings
from tests.support.memory_catalog import MemoryCatalog

pytestmark = pytest.mark.spark

_URIS = "spark.hadoop.hive.metastore.uris"
_TABLE = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
}
_SYNCED = {"hoodie.datasource.hive_sync.enable": "true", "hoodie.datasource.hive_sync.mode": "hms"}


def test_a_write_tells_the_metastore_of_the_session(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = MemoryCatalog()
    opened: list[SyncSettings] = []

    def open_catalog(settings: SyncSettings, _: HoodieWriteConfig) -> MemoryCatalog:
        opened.append(settings)
        return catalog

    monkeypatch.setattr(catalog_sync, "open_catalog", open_catalog)
    frame = spark.createDataFrame([("a", "rome", 1), ("b", "oslo", 1)], "id string, city string, ts bigint")
    spark.conf.set(_URIS, "thrift://of-the-session:9083")
    try:
        result = hoodie.spark.write(frame, str(tmp_path), _TABLE | _SYNCED)
    finally:
        spark.conf.unset(_URIS)
    assert result.service_errors == ()
    assert [settings.uris for settings in opened] == ["thrift://of-the-session:9083"]
    assert catalog.values("trips") == [("oslo",), ("rome",)]
    assert catalog.entry("trips").parameters["spark.sql.create.version"] == spark.version
    assert catalog.entry("trips").parameters["last_commit_time_sync"] == result.instant_time


def test_a_session_without_a_metastore_is_told(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("a", "rome", 1)], "id string, city string, ts bigint")
    result = hoodie.spark.write(frame, str(tmp_path), _TABLE | _SYNCED)
    assert result.is_committed
    (error,) = result.service_errors
    assert "the address of the Hive metastore is not known" in error


def test_a_metastore_of_the_session_that_wants_kerberos_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("a", "rome", 1)], "id string, city string, ts bigint")
    options = {_URIS: "thrift://of-the-session:9083", "spark.hadoop.hive.metastore.sasl.enabled": "true"}
    for key, value in options.items():
        spark.conf.set(key, value)
    try:
        result = hoodie.spark.write(frame, str(tmp_path), _TABLE | _SYNCED)
    finally:
        for key in options:
            spark.conf.unset(key)
    assert result.is_committed
    (error,) = result.service_errors
    assert "the Spark session says hive.metastore.sasl.enabled = true: the metastore wants Kerberos" in error


def test_a_sync_by_hand_knows_the_metastore_of_the_session(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.createDataFrame([("a", "rome", 1)], "id string, city string, ts bigint")
    hoodie.spark.write(frame, str(tmp_path), _TABLE)
    catalog = MemoryCatalog()
    opened: list[SyncSettings] = []
    monkeypatch.setattr(catalog_sync, "open_catalog", lambda settings, _: opened.append(settings) or catalog)
    spark.conf.set(_URIS, "thrift://of-the-session:9083")
    try:
        (result,) = hoodie.spark.sync_table(spark, tmp_path, "hms")
    finally:
        spark.conf.unset(_URIS)
    assert result.entries[0].is_created
    assert opened[0].uris == "thrift://of-the-session:9083"
    assert catalog.values("trips") == [("rome",)]
