"""Many partitions on Spark: writes and upserts beside the same rows in one partition, queries beside plain Parquet.

    python -m benchmarks.partitions_spark [--partitions 3000] [--rows 300000] [--upsert-rows 3000] [--runs 3]
        [--parts write,upsert,count,sum] [--json FILE]

write   a bulk insert of all rows into a new table of n partitions, and of one
upsert  new values for as many rows as there are partitions, spread over all of them; the same rows of the other table
count, sum
        queries of the table of n partitions, and of the same rows as plain Parquet in n folders

The engines take turns. CPU seconds are those of the process's session, JVM and workers included: run the program in a
session of its own (``setsid``) if others run in yours.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import hoodie.spark
from benchmarks.measure import Timing, copy, cpu_seconds, describe_load, describe_machine, fresh, timed, write_json
from hoodie import HoodieTableMetaClient, HoodieWriteConfig

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
PARTS = ("write", "upsert", "count", "sum")
MANY, ONE, PARQUET = "n partitions", "one partition", "plain Parquet"
MOST_OF_ONE, MOST_MILLISECONDS, MOST_OF_PARQUET = 1.5, 5, 2
Call = tuple[str, Callable[[], object], Callable[[], object]]
"""A name, what is done before each run, and what is timed."""


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


def updates_of(rows: pa.Table, count: int) -> pa.Table:
    """New values of rows that are spread over all partitions."""
    chosen = rows.slice(0, count)
    later = pa.array(np.full(chosen.num_rows, rows.num_rows, np.int64))
    return chosen.set_column(2, "ts", later).set_column(3, "v", pa.array(np.zeros(chosen.num_rows)))


def make_table(path: str) -> str:
    """An empty table with users' defaults."""
    HoodieTableMetaClient.init_table(
        fresh(path), table_name="t", record_key_fields=["id"], partition_fields=["p"], ordering_fields=["ts"]
    )
    return path


def in_turns(calls: Iterable[Call], runs: int) -> dict[str, Timing]:
    """The timings of several calls, in turn; a first round is not counted.

    Args:
        calls: What to time, by name.
        runs: The number of rounds that count.
    """
    found: dict[str, Timing] = {}
    calls = list(calls)
    for number in range(runs + 1):
        for name, prepare, run in calls:
            one = timed(name, 1, prepare, run, cpu_seconds)
            if number:
                timing = found.setdefault(name, Timing(name, []))
                timing.seconds += one.seconds
                timing.cpu += one.cpu
    return found


def verdict_on(part: str, found: dict[str, Timing], partitions: int) -> str:
    """The ratios of a part, and its goal if it has one, as text.

    Args:
        part: One of `PARTS`.
        found: The timings of the part.
        partitions: Their number.
    """
    many = found[MANY].median
    if part in ("write", "upsert"):
        one = found[ONE].median
        each = (many - MOST_OF_ONE * one) / partitions * 1000
        goal = f"{MOST_OF_ONE} times one partition and {MOST_MILLISECONDS} ms for each"
        met = "met" if each <= MOST_MILLISECONDS else "missed"
        text = f"{many / one:.2f} times one partition; {each:.1f} ms for each partition above {MOST_OF_ONE} times"
        return f"{text}; goal: {goal}: {met}" if part == "write" else text
    ratio = many / found[PARQUET].median
    met = "met" if ratio <= MOST_OF_PARQUET else "missed"
    return f"{ratio:.2f} times plain Parquet; goal {MOST_OF_PARQUET}: {met}"


def calls_of(spark: Any, folder: str, part: str, rows: dict[str, pa.Table]) -> list[Call]:
    """The calls of one part; tables of `MANY` and `ONE` have been written into ``folder``."""
    from hoodie import SparkRDDWriteClient  # needs PySpark, which is not installed everywhere

    def write(operation: str, path: str, frame: Any) -> None:
        with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(path, {})) as client:
            getattr(client, operation)(frame)

    def call_of(name: str) -> Call:
        base, path = f"{folder}/{name}", f"{folder}/{name} run"
        frame = spark.read.parquet(f"{folder}/{part} {name}.parquet")
        if part == "write":
            return name, lambda: make_table(path), lambda: write("bulk_insert", path, frame)
        return name, lambda: copy(base, path), lambda: write("upsert", path, frame)

    if part in ("write", "upsert"):
        for name, table in rows.items():
            pq.write_table(table, f"{folder}/{part} {name}.parquet")
        return [call_of(name) for name in rows]
    frames: dict[str, Callable[[], Any]] = {
        PARQUET: lambda: spark.read.parquet(f"{folder}/parquet"),
        MANY: lambda: hoodie.spark.read(spark, f"{folder}/{MANY}"),
    }
    asked: dict[str, Callable[[Any], object]] = {
        "count": lambda frame: frame.count(),
        "sum": lambda frame: frame.agg({"v": "sum"}).collect(),
    }
    return [(name, lambda: None, lambda frame=frame: asked[part](frame())) for name, frame in frames.items()]


def main() -> None:
    """Make the tables, and print the figures of each part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=3000)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--upsert-rows", type=int, help="as many as partitions if left out")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    given = parser.parse_args()
    parts = given.parts.split(",")
    if strange := [part for part in parts if part not in PARTS]:
        parser.error(f"--parts: {', '.join(strange)}: give some of {', '.join(PARTS)}")
    machine = describe_machine("pyspark", "pyarrow")
    print(machine, flush=True)
    from benchmarks.spark_upsert import session  # needs PySpark, which is not installed everywhere

    spark = session(None)
    timings: list[Timing] = []
    with tempfile.TemporaryDirectory() as folder:
        many, one = rows_of(given.rows, given.partitions), rows_of(given.rows, 1)
        # Queries and upserts need tables, which this process makes faster than Spark.
        for name, rows in {MANY: many, ONE: one}.items() if set(parts) != {"write"} else ():
            with hoodie.HoodieLocalWriteClient(
                HoodieWriteConfig.from_properties(make_table(f"{folder}/{name}"))
            ) as client:
                client.bulk_insert(rows)
        ds.write_dataset(
            many, f"{folder}/parquet", format="parquet", max_partitions=given.partitions, max_open_files=900,
            partitioning=ds.partitioning(pa.schema([("p", pa.string())]), flavor="hive"),
        )  # fmt: skip
        upserts = given.upsert_rows or given.partitions
        for part in parts:
            rows = {MANY: many, ONE: one}
            if part == "upsert":
                rows = {name: updates_of(table, upserts) for name, table in rows.items()}
            found = in_turns(calls_of(spark, folder, part, rows), given.runs)
            for name, timing in found.items():
                timing.name = f"{part}, {name}"
                print(timing.line(), flush=True)
            print(f"    {verdict_on(part, found, given.partitions)}", flush=True)
            timings += found.values()
    print(describe_load())
    if given.json:
        write_json(given.json, machine, {"partitions": given.partitions, "rows": given.rows}, timings)


if __name__ == "__main__":
    main()
