"""The Spark part of the flights program: a session, and explicit commits."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import hoodie.spark
from hoodie.client.write_result import HoodieWriteResult
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.examples.flights_data import SCHEMA, Change
from hoodie.spark.spark_compatibility import collect_arrow
from hoodie.spark.spark_rdd_write_client import SparkRDDWriteClient

_ROWS_PER_GROUP = 64 * 1024


@contextmanager
def spark_session(log_file: Path) -> Iterator[SparkSession]:
    """A quiet session with two cores of this machine, which needs no network.

    Args:
        log_file: The file for all output of the JVM.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("hoodie flights")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
    )
    with _stderr_into(log_file):
        spark = builder.getOrCreate()
    try:
        spark.sparkContext.setLogLevel("ERROR")
        yield spark
    finally:
        spark.stop()


@contextmanager
def _stderr_into(path: Path) -> Iterator[None]:
    """Let processes that are started inside use a file as their standard error, for their whole life."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def apply_with_spark(spark: SparkSession, base_path: str, change: Change, input_path: Path) -> HoodieWriteResult:
    """Write and commit one change, with an explicit commit.

    Args:
        spark: The session.
        base_path: The table.
        change: The change to write.
        input_path: A file to create, from which Spark reads the change.
    """
    input_path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(change.rows, input_path, row_group_size=_ROWS_PER_GROUP)
    df = spark.read.parquet(str(input_path))

    config = HoodieWriteConfig.from_properties(base_path, {"hoodie.auto.commit": "false"})
    with SparkRDDWriteClient(spark, config) as client:
        instant_time = client.start_commit()
        result: HoodieWriteResult = getattr(client, change.operation)(df, instant_time)
        # Nothing can be read yet: a program can check the result here, and decide not to commit.
        if not result.has_errors:
            client.commit(instant_time, result)
    return result


def read_with_spark(spark: SparkSession, base_path: str) -> pa.Table:
    """All rows of the table, read by Spark, with the columns of the flights.

    Args:
        spark: The session.
        base_path: The table.
    """
    frame = hoodie.spark.read(spark, base_path).select(*SCHEMA.names)
    batches = collect_arrow(frame)
    return pa.Table.from_batches(batches).cast(SCHEMA) if batches else SCHEMA.empty_table()
