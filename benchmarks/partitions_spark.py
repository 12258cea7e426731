"""Counts and sums of a table with many partitions on Spark, beside the same rows as plain Parquet.

python -m benchmarks.partitions_spark [--partitions 3000] [--rows 300000] [--runs 4]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

import hoodie
import hoodie.spark
from benchmarks.measure import describe_machine

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def rows_of(count: int, partitions: int) -> pa.Table:
    """Rows whose partitions follow each other."""
    numbers = np.arange(count)
    return pa.table(
        {
            "id": numbers,
            "p": [f"p{number % partitions:05d}" for number in range(count)],
            "ts": numbers,
            "v": np.random.default_rng(3).random(count),
        }
    )


def timed(call: Callable[[], Any], runs: int) -> list[float]:
    """The seconds of each run."""
    found = []
    for _ in range(runs):
        started = time.perf_counter()
        call()
        found.append(round(time.perf_counter() - started, 2))
    return found


def main() -> None:
    """Make both tables, and print the seconds of each query."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=3000)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--runs", type=int, default=4)
    given = parser.parse_args()
    print(describe_machine(), flush=True)
    from pyspark.sql import SparkSession  # not installed everywhere

    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g").config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        rows = rows_of(given.rows, given.partitions)
        hoodie.write_table(
            rows, f"{folder}/hoodie", table_name="t", record_key_fields="id", partition_fields="p",
            ordering_fields="ts", properties={"hoodie.datasource.write.operation": "bulk_insert"},
        )  # fmt: skip
        ds.write_dataset(
            rows, f"{folder}/parquet", format="parquet", max_partitions=given.partitions, max_open_files=900,
            partitioning=ds.partitioning(pa.schema([("p", pa.string())]), flavor="hive"),
        )  # fmt: skip
        frames = {
            "parquet": lambda: spark.read.parquet(f"{folder}/parquet"),
            "hoodie": lambda: hoodie.spark.read(spark, f"{folder}/hoodie"),
        }
        asked = {"count": lambda frame: frame.count(), "sum": lambda frame: frame.agg({"v": "sum"}).collect()}
        for query, ask in asked.items():
            for name, frame in frames.items():
                seconds = timed(lambda ask=ask, frame=frame: ask(frame()), given.runs)
                print(f"{query} {name:8} {statistics.median(seconds):8.2f} s   {seconds}", flush=True)
        load = os.getloadavg()[0]
        print(f"load {load:.1f}")


if __name__ == "__main__":
    main()
