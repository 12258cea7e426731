"""What ends a call of the Spark engine from outside: Ctrl-C, a cancellation, a function of the input that fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import hoodie
from hoodie import HoodieWriteConfig, SparkRDDWriteClient
from hoodie.exception import HoodieException, HoodieWriteException
from tests.support.table_builder import init_table, instants, read_trips, spark_rows

pytestmark = pytest.mark.spark

STORED = (("a", "x", 5, 1.0), ("b", "x", 5, 2.0))


def _for_minutes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(300)
        yield batch


def _failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(0, 1 // (batch.num_rows - batch.num_rows))


@pytest.fixture
def base_path(spark: SparkSession, tmp_path: Path) -> str:
    path = init_table(tmp_path / "t")
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(path)) as client:
        client.upsert(spark_rows(spark, *STORED))
    return path


def slow_rows(spark: SparkSession) -> DataFrame:
    frame = spark_rows(spark, ("a", "x", 6, 9.0), ("n", "x", 6, 9.0))
    return frame.mapInArrow(_for_minutes, frame.schema)


def when_tasks_run(spark: SparkSession, act: Any) -> threading.Thread:
    """Do something from another thread as soon as a task runs."""

    def wait() -> None:
        tracker = spark.sparkContext.statusTracker()
        for _ in range(1200):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if any(stage is not None and stage.numActiveTasks for stage in stages):
                time.sleep(0.5)
                act()
                return
            time.sleep(0.05)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def no_job_runs(spark: SparkSession) -> bool:
    tracker = spark.sparkContext.statusTracker()
    for _ in range(200):
        if not tracker.getActiveJobsIds():
            return True
        time.sleep(0.05)
    return False


def use_up_closed_workers(spark: SparkSession) -> None:
    """Run Python tasks until some pass: Spark 3.5 gives later tasks workers of killed ones, whose sockets it closes."""
    frame = spark.range(0, 8, 1, 4)
    kinds = (
        lambda: frame.mapInArrow(lambda batches: batches, frame.schema).count(),
        lambda: spark.sparkContext.parallelize(range(8), 4).map(lambda number: number).count(),
    )
    for run in kinds:
        for _ in range(20):
            with suppress(Exception):
                if run() == 8:
                    break
        else:
            raise AssertionError("no Python task runs any more")


# The first waits for the JVM in a call, the second for rows that the JVM sends.
@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_ctrl_c_ends_the_call_and_its_jobs(spark: SparkSession, base_path: str, operation: str) -> None:
    handler = signal.getsignal(signal.SIGINT)
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path)) as client:
        interrupting = when_tasks_run(spark, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            getattr(client, operation)(slow_rows(spark))
        interrupting.join()
        assert no_job_runs(spark)
        assert signal.getsignal(signal.SIGINT) is handler
        assert read_trips(base_path) == list(STORED)
        use_up_closed_workers(spark)
        client.upsert(spark_rows(spark, ("a", "x", 6, 3.0)))
    assert read_trips(base_path) == [("a", "x", 6, 3.0), STORED[1]]
    # The interrupted instant is gone, or its rollback tells of it.
    assert [action for _, action, _ in instants(base_path)] in (["commit"] * 2, ["commit", "rollback", "commit"])
    assert {state for _, _, state in instants(base_path)} == {"COMPLETED"}


def test_cancelled_jobs_and_failing_functions_are_errors_of_hoodie(spark: SparkSession, base_path: str) -> None:
    context = spark.sparkContext
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path)) as client:
        cancelling = when_tasks_run(spark, context.cancelAllJobs)
        with pytest.raises(HoodieWriteException, match="its Spark jobs were cancelled") as cancelled:
            client.bulk_insert(slow_rows(spark))
        cancelling.join()
        assert cancelled.value.__cause__ is not None
        use_up_closed_workers(spark)
        frame = spark_rows(spark, ("n", "x", 6, 9.0))
        own = "a Python function of the input failed, not hoodie: ZeroDivisionError: .*test_spark_interrupts.py, line"
        for operation in ("upsert", "bulk_insert"):
            with pytest.raises(HoodieException, match=own) as failed:
                getattr(client, operation)(frame.mapInArrow(_failing, frame.schema))
            assert "Traceback" in str(failed.value.__cause__)
        with pytest.raises(HoodieException, match="Spark failed: "):
            client.upsert(frame.withColumn("ts", sf.expr("bigint(raise_error('mine'))")))
    assert read_trips(base_path) == list(STORED)


def test_jobs_of_others_go_on_when_a_call_fails(spark: SparkSession, base_path: str) -> None:
    done: list[int] = []
    frame = spark.range(0, 2, 1, 2)
    other = threading.Thread(target=lambda: done.append(frame.mapInArrow(_for_a_moment, frame.schema).count()))
    other.start()
    rows = spark_rows(spark, ("n", "x", 6, 9.0))
    with (
        SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path)) as client,
        pytest.raises(HoodieException, match="ZeroDivisionError"),
    ):
        client.upsert(rows.mapInArrow(_failing, rows.schema))
    other.join()
    assert done == [2]


def _for_a_moment(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(3)
        yield batch


CONNECT = """
import json, os, signal, sys, threading, time
from pyspark.sql import SparkSession
from hoodie import HoodieException, HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient

def slowly(batches):
    for batch in batches:
        time.sleep(300)
        yield batch

spark = SparkSession.builder.remote("local[2]").getOrCreate()
HoodieTableMetaClient.init_table(sys.argv[1], table_name="trips", record_key_fields=["id"], ordering_fields=["ts"])
frame = spark.range(0, 10, 1, 2).selectExpr("cast(id as string) as id", "id as ts")
told = []
with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(sys.argv[1])) as client:
    client.bulk_insert(frame)
    for act in (lambda: spark.interruptTag("hoodie: bulk_insert"), lambda: os.kill(os.getpid(), signal.SIGINT)):
        timer = threading.Timer(8, act)
        timer.start()
        began = time.monotonic()
        try:
            client.bulk_insert(frame.mapInArrow(slowly, frame.schema))
        except BaseException as error:
            told.append((type(error).__name__, str(error), time.monotonic() - began < 200))
    count = client.upsert(frame).updated_count
print("ANSWER" + json.dumps({"told": told, "count": count}))
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.skipif(
    pyspark.__version__.startswith("3."), reason="Spark Connect without a server of its own needs PySpark 4"
)
def test_interrupts_of_spark_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
    }
    ran = subprocess.run(
        [sys.executable, "-c", CONNECT, str(tmp_path / "t")],
        env=environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    answer = json.loads(ran.stdout.split("ANSWER")[1])
    (name, text, _), (other, _, is_quick) = answer["told"]
    assert (name, other, is_quick) == ("HoodieWriteException", "KeyboardInterrupt", True)
    assert "its Spark jobs were cancelled" in text
    assert answer["count"] == 10
    assert hoodie.read_table(tmp_path / "t").num_rows == 10
