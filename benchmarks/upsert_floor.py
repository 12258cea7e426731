"""The floor of an upsert on two processes, the in-process client, and Spark: 400,000 rows into 4M, and all 4M.

    python -m benchmarks.upsert_floor [--rows 4000000] [--runs 3] [--fractions 0.1] [--spark] [--json FILE]

The floor does the least of any copy-on-write upsert: it reads eight files, drops the stored versions of the incoming
keys, appends the incoming rows, and writes the files. It does without meta columns, bloom filters, partitions and
commits. The inputs are those of `benchmarks.spark_upsert --fractions`: half of the rows are new, none of them for 1.

With ``--spark`` the same inputs are upserted on a warm session of Spark too (``local[2]``), in a process of its own, so
that its ratios to the floor and to the in-process client are of one run. All tables are of version 9, with a metadata
table and SIMPLE. CPU seconds are those of all processes.
"""

from __future__ import annotations

import argparse
import tempfile
import zlib
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.local_upsert import client, floor_write, make_table
from benchmarks.measure import Timing, copy, cpu_seconds, describe_load, describe_machine, timed, write_json
from benchmarks.spark_upsert import make_data, run_child

FILES = 8
GOALS = {0.1: ("pyarrow", 2.5), 1.0: ("hoodie", 2.5)}
"""For a fraction: what Spark is compared with, and how many times its seconds Spark may take."""


def make_files(table: pa.Table, folder: str, name: str) -> None:
    """Split rows by their keys, so that updates meet the rows that they replace."""
    file = np.array([zlib.crc32(key.encode()) % FILES for key in table["uuid"].to_pylist()])
    for number in range(FILES):
        floor_write(table.filter(pa.array(file == number)), f"{folder}/{name}{number}.parquet")


def upsert_file(folder: str, number: int) -> None:
    """Read a file, drop rows, append rows and write it, on one thread."""
    pa.set_cpu_count(1)
    incoming = pq.read_table(f"{folder}/upsert{number}.parquet", use_threads=False)
    stored = pq.read_table(f"{folder}/base{number}.parquet", use_threads=False)
    kept = stored.filter(pc.invert(pc.is_in(stored["uuid"], value_set=incoming["uuid"].combine_chunks())))
    floor_write(pa.concat_tables([kept, incoming]), f"{folder}/next{number}.parquet")


def time_floor(folder: str, updates: pa.Table, name: str, runs: int) -> Timing:
    """Time the floor in two processes; the stored rows are in the folder already."""
    make_files(updates, folder, "upsert")
    merge = partial(upsert_file, folder)
    # A pool for each: the CPU seconds of processes that have ended count too.
    with ProcessPoolExecutor(2) as processes:
        list(processes.map(merge, range(FILES)))
        return timed(name, runs, lambda: None, lambda: list(processes.map(merge, range(FILES))), cpu_seconds)


def time_process(folder: str, updates: pa.Table, name: str, runs: int) -> Timing:
    """Time the in-process client on copies of one table."""
    base, path = f"{folder}/table", f"{folder}/copy"

    def upsert() -> object:
        with client(path) as writer:
            return writer.upsert(updates)

    return timed(name, runs, lambda: copy(base, path), upsert)


def time_spark(folder: str, runs: int) -> dict[str, Timing]:
    """Time a warm session of Spark; returns the timings by fraction, as `make_data` names it."""
    found: dict[str, Timing] = {}
    for operation, seconds, cpu, its_steps in run_child(
        "hoodie", "SIMPLE", folder, "--step", "fractions", "--runs", str(runs)
    ):
        timing = found.setdefault(operation.split(" ")[1], Timing(f"spark {operation}", []))
        timing.add(seconds, cpu, its_steps)
    return found


def spark_line(fraction: float, floor: Timing, ours: Timing, spark: Timing) -> str:
    """The printed line of Spark: seconds, ratios of the same run, and the goal.

    Args:
        fraction: The part of the table's rows.
        floor: Bare pyarrow.
        ours: The in-process client.
        spark: The client on Spark.
    """
    line = f"{spark.line(floor)}   {spark.median / ours.median:5.2f} x {ours.name}"
    if fraction not in GOALS:
        return line
    peer, most = GOALS[fraction]
    met = spark.median <= most * (floor if peer == "pyarrow" else ours).median
    return f"{line}   goal: at most {most} x {peer}: {'met' if met else 'missed'}"


def main() -> None:
    """Measure all, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--fractions", default="0.1", help="parts of the table's rows, such as 0.1,1")
    parser.add_argument("--spark", action="store_true", help="time Spark on the same inputs too")
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    arguments = parser.parse_args()
    fractions = [float(part) for part in arguments.fractions.split(",")]
    machine = describe_machine("pyspark", "pyarrow")
    print(machine)
    timings: list[Timing] = []
    with tempfile.TemporaryDirectory() as folder:
        make_data(Path(folder) / "data", arguments.rows, fractions, ["upsert"])
        table = pq.read_table(f"{folder}/data/base").combine_chunks()
        make_files(table, folder, "base")
        with client(make_table(f"{folder}/table")) as writer:
            writer.bulk_insert(table)
        del table
        measured = []
        for fraction in fractions:
            updates = pq.read_table(f"{folder}/data/upsert {fraction:g}").combine_chunks()
            floor = time_floor(folder, updates, f"pyarrow upsert {fraction:g} (floor)", arguments.runs)
            ours = time_process(folder, updates, f"hoodie upsert {fraction:g} (SIMPLE)", arguments.runs)
            measured.append((fraction, floor, ours))
            print(floor.line(), ours.line(floor), sep="\n", flush=True)
        on_spark = time_spark(folder, arguments.runs) if arguments.spark else {}
        for fraction, floor, ours in measured:
            timings += [floor, ours]
            if (spark := on_spark.get(f"{fraction:g}")) is not None:
                print(spark_line(fraction, floor, ours, spark))
                timings.append(spark)
    print(describe_load())
    if arguments.json:
        write_json(arguments.json, machine, {"rows": arguments.rows, "runs": arguments.runs}, timings)


if __name__ == "__main__":
    main()
