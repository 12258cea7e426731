"""Compare queries of one table: hoodie and real Hudi on the same Spark session, and in-process beside bare files.

    python -m benchmarks.queries [--rows 4000000] [--commits 30] [--updates 1000] [--table-type COPY_ON_WRITE]
                                 [--runs 5] [--parts spark,process] [--queries scan,count] [--json FILE]

hoodie writes the table: a bulk insert, then commits of 1,000 updates each. Those of a merge-on-read table stay in log
files: ``--table-type MERGE_ON_READ --commits 2 --updates 200000`` leaves a tenth of the rows there. Queries, each
planned anew in each run, the engines in turn:

scan         all columns of all rows
count        the number of all rows, of a frame of all columns; on Spark only
aggregate    the sum of a column, for rows of a range of another one
lookup       the row of one key
incremental  the rows of the newest commit, collected
  columns    two columns of these rows, collected
  count      their number, of a frame of all columns; on Spark only

``spark`` compares with real Hudi if HOODIE_HUDI_BUNDLE names its bundle, and a merge-on-read table with a copy-on-write
table of the same commits. CPU seconds are those of the session of processes, JVM and workers included. ``process``
compares with pyarrow, DuckDB and polars on the newest base files, which these are handed as a list: they need not know
the table.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds

import hoodie
from benchmarks.local_upsert import make_table
from benchmarks.measure import Timing, cpu_seconds, describe_load, describe_machine, trip_updates, trips
from hoodie import HoodieLocalWriteClient, HoodieWriteConfig

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
Query = Callable[[], object]
FARE = 0.9
PULLED = ["uuid", "fare"]


def build(path: str, rows: int, commits: int, updates: int, table_type: str) -> tuple[str, str, str]:
    """Write the table; returns a stored key, and the times by which ranges know the last two commits."""
    table = trips(rows).combine_chunks()
    make_table(path, table_type)
    config = HoodieWriteConfig.from_properties(path, {"hoodie.keep.min.commits": 60, "hoodie.keep.max.commits": 70})
    times = []
    with HoodieLocalWriteClient(config) as client:
        client.bulk_insert(table)
        for number in range(commits):
            result = client.upsert(trip_updates(table, updates, 0, seed=number))
            times.append(result.completion_time or result.instant_time)
    return table["uuid"][rows // 2].as_py(), *times[-2:]


def compare(queries: Mapping[str, Mapping[str, Query]], runs: int) -> dict[str, dict[str, Timing]]:
    """Times of each query by each engine, in turn; a first run of each is not counted. The results must agree."""
    timings: dict[str, dict[str, Timing]] = {}
    for name, engines in queries.items():
        found = {engine: query() for engine, query in engines.items()}
        if len({repr(value) for value in found.values()}) > 1:
            raise SystemExit(f"{name}: the engines disagree: {found}")
        for _ in range(runs):
            for engine, query in engines.items():
                timing = timings.setdefault(name, {}).setdefault(engine, Timing(engine, [], cpu=[]))
                started, used = time.perf_counter(), cpu_seconds()
                query()
                timing.seconds.append(time.perf_counter() - started)
                timing.cpu.append(cpu_seconds() - used)
    return timings


def spark_queries(path: str, key: str, begin: str, copied: tuple[str, str] | None) -> Mapping[str, Mapping[str, Query]]:
    """The queries on one session, which has Hudi's bundle if there is one.

    ``copied`` is a copy-on-write table with the same rows, and the time for its ranges.
    """
    from pyspark.sql import DataFrame  # not installed everywhere
    from pyspark.sql import functions as sf

    import hoodie.spark
    from benchmarks.spark_upsert import session

    bundle = os.environ.get("HOODIE_HUDI_BUNDLE")
    spark = session(bundle)

    def scan(frame: DataFrame) -> object:
        frame.write.format("noop").mode("overwrite").save()
        return None

    def aggregate(frame: DataFrame) -> object:
        total = frame.where(sf.col("fare") > FARE).agg(sf.sum("begin_lat"), sf.count("*")).first()
        return None if total is None else (round(total[0], 3), total[1])

    def by_hoodie(table: str, begin: str) -> Mapping[str, Query]:
        newest = {
            "hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": begin,
        }  # fmt: skip
        return {
            "scan": lambda: scan(hoodie.spark.read(spark, table)),
            "count": lambda: hoodie.spark.read(spark, table).count(),
            "aggregate": lambda: aggregate(hoodie.spark.read(spark, table)),
            "lookup": lambda: len(hoodie.spark.read(spark, table, filters=[("uuid", "=", key)]).collect()),
            "incremental": lambda: len(hoodie.spark.read(spark, table, newest).collect()),
            "  columns": lambda: len(hoodie.spark.read(spark, table, newest, columns=PULLED).collect()),
            "  count": lambda: hoodie.spark.read(spark, table, newest).count(),
        }

    def by_hudi() -> Mapping[str, Query]:
        newest = {
            "hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": begin,
        }  # fmt: skip

        def read(**options: str) -> DataFrame:
            return spark.read.format("hudi").options(**options).load(path)

        return {
            "scan": lambda: scan(read()),
            "count": lambda: read().count(),
            "aggregate": lambda: aggregate(read()),
            "lookup": lambda: len(read().where(sf.col("uuid") == key).collect()),
            "incremental": lambda: len(read(**newest).collect()),
            "  columns": lambda: len(read(**newest).select(*PULLED).collect()),
            "  count": lambda: read(**newest).count(),
        }

    engines = {"hoodie": by_hoodie(path, begin)}
    if copied is not None:
        engines["copy-on-write"] = by_hoodie(*copied)
    if bundle:
        engines["hudi"] = by_hudi()
    return {name: {engine: queries[name] for engine, queries in engines.items()} for name in engines["hoodie"]}


def process_queries(path: str, key: str, begin: str) -> Mapping[str, Mapping[str, Query]]:
    """The queries in this process; peers get the files."""
    files = [file.path for file in hoodie.plan_read(path).base_files]
    newest = hoodie.plan_read(path, query_type="incremental", begin=begin).base_files

    def bare() -> ds.Dataset:
        return ds.dataset(files)

    def total(found: object) -> float:
        return round(float(str(found)), 3)

    aggregated = ["begin_lat"]
    wanted = pc.field("fare") > FARE
    queries: dict[str, dict[str, Query]] = {
        "scan": {
            "hoodie": lambda: hoodie.read_table(path).num_rows,
            "pyarrow": lambda: bare().to_table().num_rows,
        },
        "stream": {
            "hoodie": lambda: sum(batch.num_rows for batch in hoodie.scan_table(path)),
            "pyarrow": lambda: sum(batch.num_rows for batch in bare().to_batches()),
        },
        "count": {
            "hoodie": lambda: hoodie.dataset(path).count_rows(),
            "pyarrow": lambda: bare().count_rows(),
        },
        "aggregate": {
            "hoodie": lambda: total(pc.sum(hoodie.read_table(path, columns=aggregated, filters=wanted)[0])),
            "pyarrow": lambda: total(pc.sum(bare().to_table(columns=aggregated, filter=wanted)[0])),
        },
        "lookup": {
            "hoodie": lambda: hoodie.read_table(path, filters=[("uuid", "=", key)]).num_rows,
            "pyarrow": lambda: bare().to_table(filter=pc.field("uuid") == key).num_rows,
        },
        "incremental": {
            "hoodie": lambda: hoodie.read_table(path, query_type="incremental", begin=begin).num_rows,
            "pyarrow": lambda: ds.dataset([file.path for file in newest]).to_table(
                filter=pc.field("_hoodie_commit_time") > begin
            ).num_rows,
        },
    }  # fmt: skip
    if find_spec("duckdb"):
        import duckdb

        queries["aggregate"]["duckdb"] = lambda: total(
            duckdb.sql(f"select sum(begin_lat) from read_parquet({files}) where fare > {FARE}").fetchall()[0][0]
        )
        queries["lookup"]["duckdb"] = lambda: len(
            duckdb.sql(f"select * from read_parquet({files}) where uuid = '{key}'").fetchall()
        )

        def by_dataset() -> float:
            table = hoodie.dataset(path)
            connection = duckdb.connect()
            connection.register("stored", table)
            return total(connection.execute(f"select sum(begin_lat) from stored where fare > {FARE}").fetchall()[0][0])

        queries["aggregate"]["duckdb on hoodie.dataset"] = by_dataset
    if find_spec("polars"):
        import polars as pl

        queries["scan"]["polars"] = lambda: pl.read_parquet(files).height
        queries["aggregate"]["polars"] = lambda: total(
            pl.scan_parquet(files).filter(pl.col("fare") > FARE).select(pl.col("begin_lat").sum()).collect().item()
        )
    return queries


def main() -> None:
    """Run the parts and print a line for each query."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--commits", type=int, default=30)
    parser.add_argument("--updates", type=int, default=1000, help="of each commit")
    parser.add_argument("--table-type", default="COPY_ON_WRITE", choices=["COPY_ON_WRITE", "MERGE_ON_READ"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--parts", default="spark,process", help="some of spark,process")
    parser.add_argument("--queries", help="some of the queries; all if it is left out")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    arguments = parser.parse_args()
    machine = describe_machine("pyspark", "pyarrow", "duckdb", "polars")
    print(machine)
    figures: dict[str, object] = {"machine": machine, "rows": arguments.rows, "commits": arguments.commits}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/trips"
        key, begin, _ = build(path, arguments.rows, arguments.commits, arguments.updates, arguments.table_type)
        for part in arguments.parts.split(","):
            if part == "spark":
                copied = None
                if arguments.table_type == "MERGE_ON_READ":
                    copy = f"{folder}/copy"
                    _, first, _ = build(copy, arguments.rows, arguments.commits, arguments.updates, "COPY_ON_WRITE")
                    copied = copy, first
                queries = spark_queries(path, key, begin, copied)
            else:
                queries = process_queries(path, key, begin)
            if arguments.queries:
                queries = {name: queries[name] for name in arguments.queries.split(",")}
            before = describe_load()
            timings = compare(queries, arguments.runs)
            print(f"{part}: {before} before, {describe_load()} after")
            figures[part] = {
                name: {engine: timing.to_json() for engine, timing in engines.items()}
                for name, engines in timings.items()
            }
            for name, engines in timings.items():
                for engine, timing in engines.items():
                    cpu = statistics.median(timing.cpu)
                    of_it = engines["hoodie"].median / timing.median
                    print(
                        f"{part:8} {name:12} {engine:24} {timing.median:7.3f} s ({min(timing.seconds):.3f} - "
                        f"{max(timing.seconds):.3f}) {cpu:7.2f} CPU s"
                        + ("" if engine == "hoodie" else f"   hoodie takes {of_it:5.2f} of it")
                    )
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
