"""Arguments of the wrong kind at the public calls of Spark, and sessions that were stopped: errors of hoodie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import hoodie
import hoodie.spark
from hoodie import HoodieSparkEngineContext, HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient
from hoodie.exception import HoodieConfigException, HoodieException, HoodieSchemaException
from tests.support.table_builder import spark_rows

pytestmark = pytest.mark.spark

DATA = pa.table({"id": ["a"], "region": ["x"], "ts": [1]})
OPTIONS = {"hoodie.table.name": "trips", "hoodie.datasource.write.recordkey.field": "id"}


def table_at(folder: Path) -> str:
    path = str(folder / "trips")
    hoodie.write_table(DATA, path, record_key_fields="id", partition_fields="region", ordering_fields="ts")
    return path


def commits(base_path: str) -> int:
    return len(HoodieTableMetaClient.load(base_path).active_timeline)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda spark: pd.DataFrame({"id": ["a"]}), "of type pandas.*DataFrame"),
        (lambda spark: DATA, "of type pyarrow.lib.Table"),
        (lambda spark: spark_rows(spark, ("a", "x", 2)).rdd, "of type pyspark.*RDD"),
        (lambda spark: None, "None"),
    ],
    ids=["pandas", "arrow", "rdd", "none"],
)
def test_only_dataframes_of_spark_are_written(
    spark: SparkSession, tmp_path: Path, make: Callable[[SparkSession], Any], kind: str
) -> None:
    with pytest.raises(HoodieSchemaException, match=rf"^df is {kind}, .*spark.createDataFrame\(df\), or .*write_table"):
        hoodie.spark.write(make(spark), str(tmp_path / "trips"), OPTIONS)
    assert not (tmp_path / "trips").exists()


def test_the_client_takes_no_frame_of_pandas(spark: SparkSession, tmp_path: Path) -> None:
    config = HoodieWriteConfig.from_properties(table_at(tmp_path))
    with SparkRDDWriteClient(spark, config) as client, pytest.raises(HoodieSchemaException, match="createDataFrame"):
        client.upsert(pd.DataFrame({"id": ["a"]}))


@pytest.mark.parametrize("given", [5, None, "spark", SparkSession, SparkSession.builder], ids=str)
def test_only_sessions_are_sessions(tmp_path: Path, given: Any) -> None:
    config = HoodieWriteConfig.from_properties(str(tmp_path / "trips"))
    for call in (
        lambda: SparkRDDWriteClient(given, config),
        lambda: HoodieSparkEngineContext(given),
        lambda: hoodie.spark.read(given, str(tmp_path / "trips")),
    ):
        with pytest.raises(HoodieConfigException, match=r"^spark is .*: give a SparkSession"):
            call()


def test_other_wrong_arguments(spark: SparkSession, tmp_path: Path) -> None:
    path = table_at(tmp_path)
    config = HoodieWriteConfig.from_properties(path)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: SparkRDDWriteClient(config, spark), r"are swapped: call SparkRDDWriteClient\(spark, config\)"),
        (lambda: SparkRDDWriteClient(spark, path), "^the config of SparkRDDWriteClient is"),  # type: ignore[arg-type]
        (lambda: hoodie.spark.read(path, spark), "^spark is .* of type str"),  # type: ignore[arg-type]
        (lambda: hoodie.spark.read(spark, path, ["a"]), "^options is of type list"),  # type: ignore[arg-type]
        (lambda: hoodie.spark.read(spark, path, {5: "a"}), "unknown read option 5"),  # type: ignore[dict-item]
        (lambda: hoodie.spark.read(spark, None), "^A path is of type NoneType"),  # type: ignore[arg-type]
        (lambda: hoodie.spark.write(spark_rows(spark, ("a", "x", 2)), path, ["a"]), "^options is of type list"),  # type: ignore[arg-type]
        (lambda: hoodie.spark.write(spark_rows(spark, ("a", "x", 2)), path, mode=5), "^mode 5 is unknown"),  # type: ignore[arg-type]
        (lambda: hoodie.spark.write(spark_rows(spark, ("a", "x", 2)), 5), "^Configuration of the table at 5"),  # type: ignore[arg-type]
    ]
    for call, message in calls:
        with pytest.raises(HoodieConfigException, match=message):
            call()
    assert commits(path) == 1


def test_a_session_that_was_stopped(spark: SparkSession, tmp_path: Path) -> None:
    """The last test of the module: other modules make a session of their own."""
    path = table_at(tmp_path)
    config = HoodieWriteConfig.from_properties(path)
    by_hand = HoodieWriteConfig.from_properties(path, {"hoodie.auto.commit": False})
    frame = spark_rows(spark, ("a", "x", 2))
    client, other = SparkRDDWriteClient(spark, config), SparkRDDWriteClient(spark, by_hand)
    instant_time = other.start_commit()
    result = other.upsert(frame, instant_time)
    spark.stop()
    calls: list[Callable[[], Any]] = [
        lambda: client.upsert(frame),
        lambda: client.delete(where=[("id", "=", "a")]),
        lambda: client.explain_upsert(frame),
        client.start_commit,
        client.clean,
        lambda: other.commit(instant_time, result),
        lambda: SparkRDDWriteClient(spark, config),
        lambda: hoodie.spark.write(frame, path),
        lambda: hoodie.spark.read(spark, path),
    ]
    for call in calls:
        with pytest.raises(HoodieException, match=r"the Spark session was stopped, .* create a new one"):
            call()
    assert commits(path) == 2
    # A rollback needs no Spark: the client leaves nothing behind.
    with pytest.raises(KeyError), other:
        raise KeyError("the program's own")
    assert commits(path) == 2
    assert not HoodieTableMetaClient.load(path).active_timeline.filter_pending()


def test_a_session_that_is_stopped_while_it_writes(tmp_path: Path) -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    path = table_at(tmp_path)
    steps: list[str] = []

    def stop(event: hoodie.ProgressEvent) -> None:
        steps.append(event.step)
        if event.step == "tag location":
            spark.stop()

    client = SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(path), on_progress=stop)
    with pytest.raises(HoodieException, match="the Spark session was stopped"):
        client.upsert(spark_rows(spark, ("a", "x", 2)))
    assert "tag location" in steps
    assert not HoodieTableMetaClient.load(path).active_timeline.filter_pending()
    assert hoodie.read_table(path, columns=["ts"]).column(0).to_pylist() == [1]
