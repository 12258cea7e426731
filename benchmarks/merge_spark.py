"""A MERGE INTO on Spark (`hoodie.spark.merge_into`): updates of a part of a table, and as many tenths of new rows.

    python -m benchmarks.merge_spark [--rows 1000000] [--changes 300000] [--runs 3]

CPU seconds are those of the process's session, JVM and workers included: run the program in a session of its own
(``setsid``) if others run in yours.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

import pyarrow.parquet as pq

from benchmarks.kinds_spark import KINDS, make_table
from benchmarks.measure import copy, cpu_seconds, describe_load, describe_machine, timed, trip_updates, trips
from hoodie import HoodieWriteConfig

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def main() -> None:
    """Print the times of a merge that updates and inserts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=300_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    from pyspark.sql import SparkSession  # needs PySpark, which is not installed everywhere

    import hoodie.spark  # needs PySpark, which is not installed everywhere
    from hoodie import SparkRDDWriteClient

    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "6g").config("spark.driver.host", "127.0.0.1").getOrCreate()
    )  # fmt: skip
    print(describe_machine("pyspark", "pyarrow"), flush=True)
    table = trips(arguments.rows).combine_chunks()
    changes = trip_updates(table, arguments.changes, arguments.changes // 10)
    with tempfile.TemporaryDirectory() as folder:
        base, path = make_table(f"{folder}/base", KINDS["upsert"]), f"{folder}/table"
        pq.write_table(table, f"{folder}/table.parquet")
        pq.write_table(changes, f"{folder}/changes.parquet")
        with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base)) as client:
            client.bulk_insert(spark.read.parquet(f"{folder}/table.parquet"))

        def merge() -> None:
            source = spark.read.parquet(f"{folder}/changes.parquet")
            merging = hoodie.spark.merge_into(path, source, "t.uuid = s.uuid AND t.partitionpath = s.partitionpath")
            merging.whenMatched().updateAll().whenNotMatched().insertAll().merge()

        for name, runs in (("first merge", 1), ("merge", arguments.runs)):
            timing = timed(name, runs, lambda: copy(base, path), merge, cpu_seconds)
            print(timing.line(), flush=True)
    print(describe_load(), flush=True)


if __name__ == "__main__":
    main()
