"""Compare clusterings of hoodie and real Hudi on the same Spark: 4M rows, ordered by two columns.

    python -m benchmarks.clustering_spark [--rows 4000000] [--commits 4] [--runs 3] [--engines hoodie,hudi]
        [--layouts LINEAR,ZORDER] [--json FILE]

hoodie makes one table of version 9 with column statistics in its metadata table: each commit inserts a part of the
rows into new files of three partitions. Each engine then plans and carries out clusterings of copies of it, in its
own process, one engine after the other, in the environment of this program (PySpark 3.5 for real Hudi, whose bundle
HOODIE_HUDI_BUNDLE names). Hudi clusters by its procedure. The first clustering of a process warms it up and is not
counted. The rows of the first counted clustering are counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hoodie
from benchmarks.measure import Timing, copy, cpu_seconds, describe_load, describe_machine, trips, write_json
from benchmarks.spark_upsert import open_engine

COLUMNS = ("rider", "begin_lat")
OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.index.column.stats.enable": "true",
}
STRATEGY = "hoodie.layout.optimize.strategy"
SORT_COLUMNS = "hoodie.clustering.plan.strategy.sort.columns"


def make_table(path: str, rows: int, commits: int) -> None:
    """A table without any order, of a file in each partition for each commit."""
    data, count = trips(rows), rows // commits
    properties = {**OPTIONS, "hoodie.parquet.small.file.limit": "0"}
    table = hoodie.Table.create(
        path, data.slice(0, count), record_key_fields="uuid", partition_fields="partitionpath", ordering_fields="ts",
        properties=properties,
    )  # fmt: skip
    for number in range(1, commits):
        rest = None if number == commits - 1 else count
        table.bulk_insert(data.slice(number * count, rest), properties=properties)


def cluster_by_hoodie(engine, path: str, layout: str) -> None:
    """Plan and carry out a clustering by the write client."""
    from hoodie import HoodieWriteConfig, SparkRDDWriteClient  # real Hudi's process does not need it

    options = {SORT_COLUMNS: ",".join(COLUMNS), STRATEGY: layout.lower(), **OPTIONS}
    with SparkRDDWriteClient(engine.spark, HoodieWriteConfig.from_properties(path, options)) as client:
        if client.cluster() is None:
            raise SystemExit(f"hoodie clustered nothing of {path}")


def cluster_by_hudi(engine, path: str, layout: str) -> None:
    """Plan and carry out a clustering by Hudi's procedure."""
    options = ",".join(f"{name}={value}" for name, value in OPTIONS.items())
    options += ",hoodie.parquet.compression.codec=snappy"
    order = f"order => '{','.join(COLUMNS)}', order_strategy => '{layout.lower()}'"
    call = f"call run_clustering(path => '{path}', op => 'scheduleAndExecute', {order}, options => '{options}')"
    if not engine.spark.sql(call).collect():
        raise SystemExit(f"Hudi clustered nothing of {path}")


CALLS = {"hoodie": cluster_by_hoodie, "hudi": cluster_by_hudi}


def run_engine(name: str, table: str, path: str, layouts: list[str], runs: int, rows: int) -> None:
    """Run in the child process: print one JSON line for each timing."""
    engine = open_engine(name, "COPY_ON_WRITE")
    for layout in layouts:
        for number in range(runs + 1):
            copy(table, path)
            started, used = time.perf_counter(), cpu_seconds()
            CALLS[name](engine, path, layout)
            if not number:
                continue
            print(json.dumps([name, layout, time.perf_counter() - started, cpu_seconds() - used]), flush=True)
            if number == 1:
                check(path, rows)


def check(path: str, rows: int) -> None:
    """All rows are there, and every file has been replaced."""
    files = list(hoodie.Table(path).files())
    found = hoodie.read_table(path, columns=["uuid"]).num_rows
    if found != rows or len(files) > 3 * (1 + rows // 1_000_000):
        raise SystemExit(f"{path}: {found:,} rows in {len(files)} files")


def main() -> None:
    """Run every engine and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--commits", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--engines", default="hoodie,hudi")
    parser.add_argument("--layouts", default="LINEAR,ZORDER")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    layouts = arguments.layouts.split(",")
    if arguments.child:
        run_engine(*arguments.child, layouts, arguments.runs, arguments.rows)
        return
    engines = arguments.engines.split(",")
    if strange := [name for name in engines if name not in CALLS]:
        parser.error(f"--engines: {', '.join(strange)}: give some of {', '.join(CALLS)}")
    machine = describe_machine("pyspark", "pyarrow")
    print(machine)
    found: dict[tuple[str, str], Timing] = {}
    with tempfile.TemporaryDirectory() as folder:
        table = str(Path(folder) / "table")
        make_table(table, arguments.rows, arguments.commits)
        for name in engines:
            command = [sys.executable, "-m", "benchmarks.clustering_spark", "--runs", str(arguments.runs)]
            command += ["--rows", str(arguments.rows), "--layouts", arguments.layouts]
            command += ["--child", name, table, f"{folder}/{name}"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
                for line in child.stdout:
                    if not line.startswith("["):
                        continue
                    engine, layout, seconds, cpu = json.loads(line)
                    print(f"{engine} {layout}: {seconds:.2f} s, {cpu:.1f} CPU s", flush=True)
                    timing = found.setdefault((engine, layout), Timing(f"{engine} {layout}", [], cpu=[]))
                    timing.seconds.append(seconds)
                    timing.cpu.append(cpu)
            if child.returncode:
                raise SystemExit(child.returncode)
    for (engine, layout), timing in found.items():
        peer = found.get(("hudi", layout)) if engine != "hudi" else None
        faster = f"   {peer.median / timing.median:5.2f} times faster than hudi" if peer else ""
        print(timing.line() + faster)
    print(describe_load())
    if arguments.json:
        write_json(arguments.json, machine, {"rows": arguments.rows, "commits": arguments.commits}, found.values())


if __name__ == "__main__":
    main()
