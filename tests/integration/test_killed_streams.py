"""A query that is killed at random, with its JVM, while it writes a stream: no row is lost, and none is doubled."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.support.streams import Stream, keys, state

pytestmark = pytest.mark.spark

QUERY = """
    import os, signal, sys, warnings
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession
    import hoodie.spark

    folder, operation, dies_after_batch = sys.argv[1], sys.argv[2], sys.argv[3] == "after"
    spark = (
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1").config("spark.driver.host", "127.0.0.1").getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.operation": operation,
        "hoodie.keep.min.commits": 4, "hoodie.keep.max.commits": 5, "hoodie.cleaner.commits.retained": 3,
        "hoodie.datasource.write.streaming.checkpoint.identifier": "killed",
    }
    write = hoodie.spark.foreach_batch_writer(folder + "/t", options)

    def write_batch(batch, batch_id):
        print("batch", batch_id, flush=True)
        write(batch, batch_id)
        if dies_after_batch:
            os.killpg(0, signal.SIGKILL)

    frame = (
        spark.readStream.schema("id string, region string, ts bigint")
        .option("maxFilesPerTrigger", 1).parquet(folder + "/one_source")
    )
    writer = frame.writeStream.option("checkpointLocation", folder + "/one_checkpoint").trigger(availableNow=True)
    if sys.argv[4] == "format":
        print("batch unknown", flush=True)
        query = writer.format("hoodie").options(**options).start(folder + "/t")
    else:
        query = writer.foreachBatch(write_batch).start()
    query.awaitTermination()
    print("end", flush=True)
"""


def kill_session(leader: int) -> None:
    """Kill a process with all that it has started: Python workers of Spark are in a process group of their own."""
    os.killpg(leader, signal.SIGKILL)
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            session = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
            if session == leader:
                os.kill(int(folder.name), signal.SIGKILL)


def run_query(
    folder: Path,
    operation: str,
    dies_after_batch: bool = False,
    death: tuple[int, float] | None = None,
    how: str = "foreachBatch",
) -> list[str]:
    """Run the query in a process of its own, which may be killed with its JVM; what it said.

    Args:
        folder: Of the stream.
        operation: Of the write.
        dies_after_batch: It kills itself right after its first batch was written, before Spark knows.
        death: It is killed so many batches, and then so many seconds, after it has begun to write.
        how: ``foreachBatch``, or ``format``: of ``format("hoodie")``, whose batches are not told.
    """
    program = folder / "query.py"
    program.write_text(textwrap.dedent(QUERY))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path(__file__).parents[2])}
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, str(program), str(folder), operation, "after" if dies_after_batch else "any", how],
            stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True, env=environment,
        )  # fmt: skip
    assert process.stdout is not None
    with process.stdout as told:
        said = [told.readline()]
        if death is not None:
            said += [told.readline() for _ in range(death[0])]
            time.sleep(death[1])
            kill_session(process.pid)
        said += told
    assert process.wait(120) in (0, -signal.SIGKILL), (folder / "log").read_text()[-3000:]
    return [line.strip() for line in said]


def kill_often(
    spark: SparkSession, folder: Path, operation: str, times: int, seed: int, how: str = "foreachBatch"
) -> None:
    """Kill a query again and again while files come in, then let it end: each row is in the table once."""
    rng = random.Random(seed)
    stream = Stream(spark, folder)
    expected: list[str] = []
    for number in range(times):
        for _ in range(3):
            expected += [f"{len(expected) + n:04d}" for n in range(2)]
            stream.add(*expected[-2:])
        if how == "format":
            # The process that commits a batch outlives its JVM for a moment.
            said = run_query(folder, operation, death=(0, rng.uniform(1, 8)), how=how)
        elif number % 4 == 0:
            said = run_query(folder, operation, dies_after_batch=True)
        else:
            said = run_query(folder, operation, death=(rng.randrange(3), rng.uniform(0, 2)))
        print(f"run {number}: {said}")
    said = run_query(folder, operation, how=how)
    print(f"last run: {said}")
    assert said[-1] == "end"
    assert keys(stream.path) == expected
    newest = state(stream.path, "killed")
    # Spark may have put two files into one batch, if it died before it wrote down what the batch reads.
    assert newest is not None and newest.batch_id == max(int(file.name) for file in stream.commits())


@pytest.mark.slow
def test_a_query_that_is_killed_twice_loses_and_doubles_no_row(spark: SparkSession, tmp_path: Path) -> None:
    kill_often(spark, tmp_path, "insert", times=2, seed=7)


@pytest.mark.soak
@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "upsert"])
def test_a_query_that_is_killed_twenty_times_loses_and_doubles_no_row(
    spark: SparkSession, tmp_path: Path, operation: str
) -> None:
    kill_often(spark, tmp_path, operation, times=20, seed=1)


@pytest.mark.slow
@pytest.mark.skipif(int(pyspark.__version__.split(".")[0]) < 4, reason="PySpark 3.5 has no data sources in Python")
def test_a_query_of_the_format_that_is_killed_loses_and_doubles_no_row(spark: SparkSession, tmp_path: Path) -> None:
    kill_often(spark, tmp_path, "insert", times=4, seed=3, how="format")
