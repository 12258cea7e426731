"""The floor of an upsert on two processes: read, splice and write 4.2M rows with pyarrow, and the in-process client.

    python -m benchmarks.upsert_floor [--rows 4000000] [--runs 3] [--json FILE]

The floor does the least of any copy-on-write upsert of 400,000 rows, half of them new: it reads eight files, drops the
stored versions of the incoming keys, appends the incoming rows, and writes the files. It does without meta columns,
bloom filters, partitions and commits. `benchmarks.spark_upsert` measures the same upsert on Spark.
"""

from __future__ import annotations

import argparse
import tempfile
import zlib
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.local_upsert import client, floor_write, make_table
from benchmarks.measure import copy, describe_machine, timed, trip_updates, trips, write_json

FILES = 8


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


def main() -> None:
    """Measure both, and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    arguments = parser.parse_args()
    machine = describe_machine("pyarrow")
    print(machine)
    table = trips(arguments.rows).combine_chunks()
    updates = trip_updates(table, arguments.rows // 20, arguments.rows // 20)
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2) as processes:
        make_files(table, folder, "base")
        make_files(updates, folder, "upsert")
        list(processes.map(partial(upsert_file, folder), range(FILES)))
        merge = partial(upsert_file, folder)
        floor = timed(
            "pyarrow upsert (floor)", arguments.runs, lambda: None, lambda: list(processes.map(merge, range(FILES)))
        )
        print(floor.line())
        base, path = make_table(f"{folder}/table"), f"{folder}/copy"
        with client(base) as writer:
            writer.bulk_insert(table)

        def upsert() -> object:
            with client(path) as writer:
                return writer.upsert(updates)

        ours = timed("hoodie upsert (SIMPLE)", arguments.runs, lambda: copy(base, path), upsert)
        print(ours.line(floor))
    if arguments.json:
        write_json(arguments.json, machine, {"rows": arguments.rows, "runs": arguments.runs}, [floor, ours])


if __name__ == "__main__":
    main()
