"""What writes share with the tasks of Spark does not stay on the disk of the driver."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hoodie import HoodieException, SparkRDDWriteClient
from hoodie.spark import released_broadcasts
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
from tests.support.table_builder import init_table, read_trips, spark_rows, write_config


def files_of(spark: SparkSession) -> set[str]:
    """The files of broadcasts."""
    folder = spark.sparkContext._temp_dir
    return {f"{folder}/{name}" for name in os.listdir(folder) if name.startswith("tmp")}


def test_writes_leave_no_files_of_broadcasts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(released_broadcasts, "KEPT_SECONDS", 0)
    path = init_table(tmp_path / "t")
    with SparkRDDWriteClient(spark, write_config(path)) as client:
        client.upsert(spark_rows(spark, ("a", "x", 1, 1.0)))
        before = files_of(spark)
        for number in range(3):
            client.upsert(spark_rows(spark, ("a", "x", 2 + number, 1.0), (f"b{number}", "y", 1, 1.0)))
            client.delete(spark_rows(spark, ("b0", "y", 9, 9.0)))
    assert not files_of(spark) - before
    assert [row[:3] for row in read_trips(path)] == [("a", "x", 4), ("b1", "y", 1), ("b2", "y", 1)]


def test_a_broadcast_stays_for_tasks_that_are_late(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    context = HoodieSparkEngineContext(spark)
    monkeypatch.setattr(released_broadcasts, "KEPT_SECONDS", 0)
    context.share("earlier ones").release()
    monkeypatch.setattr(released_broadcasts, "KEPT_SECONDS", 600)
    before = files_of(spark)
    first, second = context.share("first"), context.share("second")
    for shared in (first, second):
        shared.release()
    assert len(files_of(spark) - before) == 2
    # A task of a released value still gets it.
    ((value,),) = spark.sparkContext.parallelize([0], 1).map(lambda _: (first.value,)).collect()
    assert value == "first"
    monkeypatch.setattr(released_broadcasts, "KEPT_SECONDS", 0)
    context.share("third").release()
    assert not files_of(spark) - before
    with pytest.raises(Exception, match="(?s)after it was destroyed"):
        spark.sparkContext.parallelize([0], 1).map(lambda _: (second.value,)).collect()


def test_broadcasts_of_a_session_that_was_stopped_are_forgotten(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped:
        def destroy(self, blocking: bool) -> None:
            raise HoodieException("the session was stopped")

    released_broadcasts._released.appendleft((0.0, Stopped(), "/nowhere/tmp1"))
    HoodieSparkEngineContext(spark).share("a").release()
    assert not [one for one in released_broadcasts._released if isinstance(one[1], Stopped)]
