"""The record index in this process: writes beside BLOOM, its bootstrap, and one key looked up by new processes.

    python -m benchmarks.record_index [--rows 1000000] [--large 4000000] [--runs 3]
        [--operations upsert,insert] [--profile] [--json FILE]

Keys are random. Half of the rows of an upsert are new, and all of an insert, whose keys are looked up only if BLOOM or
another index of partitions writes a table with a record index. The tables have the same rows, in three partitions; the
one of BLOOM has no metadata table, the others one with ``files`` and ``record_index``. In turn, each write starts from
a copy of its table.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from itertools import product
from typing import Any

from benchmarks.local_upsert import make_table
from benchmarks.measure import (
    Timing,
    copy,
    describe_load,
    describe_machine,
    steps_of,
    timed,
    trip_updates,
    trips,
    write_json,
)
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.metadata import HoodieBackedTableMetadata

LISTED = {"hoodie.metadata.enable": "true"}
INDEXED = {**LISTED, "hoodie.metadata.global.record.level.index.enable": "true"}
INDEXES: dict[str, dict[str, Any]] = {
    "BLOOM": {"hoodie.index.type": "BLOOM"},
    "BLOOM with listings": {**LISTED, "hoodie.index.type": "BLOOM"},
    "BLOOM with the index": {**INDEXED, "hoodie.index.type": "BLOOM"},
    "RECORD_INDEX": {**INDEXED, "hoodie.index.type": "RECORD_INDEX"},
}
LOOK_UPS = """
import sys, time
import pyarrow.compute as pc
import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.metadata import HoodieBackedTableMetadata

def in_index(path, key):
    table = HoodieTableMetaClient.load(path).snapshot
    return HoodieBackedTableMetadata.open(table).read_record_index([key])

def row(path, key):
    return hoodie.read_table(path, filters=pc.field("_hoodie_record_key") == key)

other, path, key = sys.argv[1:]
# What is imported: hoodie's modules, and pandas, by the first filter that pyarrow makes.
in_index(other, key), row(other, key)
for look_up in (in_index, row):
    started = time.perf_counter()
    assert look_up(path, key).num_rows == 1
    print(time.perf_counter() - started)
"""
"""Of one key. Nothing of the table has been read before; what the index says is at hand for the row."""


def client(path: str, properties: dict[str, Any]) -> HoodieLocalWriteClient:
    """A client of a table."""
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, properties))


def writes(folder: str, count: int, runs: int, table_type: str, operation: str) -> list[Timing]:
    """Writes of a tenth of a table, in turn."""
    stored = trips(count)
    known = count // 20 if operation == "upsert" else 0
    incoming = trip_updates(stored, known, count // 10 - known)
    seconds: dict[str, list[float]] = {name: [] for name in INDEXES}
    cpu: dict[str, list[float]] = {name: [] for name in INDEXES}
    steps: dict[str, list[Any]] = {name: [] for name in INDEXES}
    for name, properties in INDEXES.items():
        with client(make_table(f"{folder}/{name}", table_type), properties) as writer:
            writer.bulk_insert(stored)
    for _ in range(runs + 1):
        for name, properties in INDEXES.items():
            with client(copy(f"{folder}/{name}", f"{folder}/run"), properties) as writer:
                started, used = time.perf_counter(), time.process_time()
                result = getattr(writer, operation)(incoming)
                seconds[name].append(time.perf_counter() - started)
                cpu[name].append(time.process_time() - used)
                steps[name].append(steps_of(result))
    # The first run loads modules.
    return [
        Timing(f"{operation} {name} {table_type[:4]}", seconds[name][1:], steps[name][1:], cpu[name][1:])
        for name in INDEXES
    ]


def bootstrap(folder: str, count: int) -> tuple[Timing, str, str]:
    """The index of a table that has none; a key of it."""
    stored = trips(count)
    path = make_table(f"{folder}/large")
    with client(path, LISTED) as writer:
        writer.bulk_insert(stored)

    def build() -> object:
        with client(path, INDEXED) as writer:
            # Any write builds it before it begins.
            return writer.upsert(stored.slice(0, 1))

    whole = timed(f"bootstrap of {count:,} keys", 1, lambda: None, build)
    table = HoodieTableMetaClient.load(path).snapshot
    found = HoodieBackedTableMetadata.open(table).read_record_index()
    if found.num_rows != count:
        raise AssertionError(f"the index has {found.num_rows} keys of {count}")
    return whole, path, stored["uuid"][count // 2].as_py()


def look_ups(folder: str, path: str, key: str, runs: int) -> list[Timing]:
    """One key, each time in a new process, which has looked a key up in another table."""
    other = make_table(f"{folder}/other")
    with client(other, INDEXED) as writer:
        writer.bulk_insert(trips(10))
    command = [sys.executable, "-c", LOOK_UPS, other, path, key]
    found = [subprocess.run(command, check=True, capture_output=True).stdout.split() for _ in range(runs)]
    names = "place of one key, new process", "row of one key, then"
    return [
        Timing(name, list(map(float, seconds))) for name, seconds in zip(names, zip(*found, strict=True), strict=True)
    ]


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--operations", default="upsert,insert", help="separated by commas")
    parser.add_argument("--profile", action="store_true", help="show the steps")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    arguments = parser.parse_args()
    machine = describe_machine("pyarrow", "numpy")
    print(machine)
    timings = []
    for table_type, operation in product(("COPY_ON_WRITE", "MERGE_ON_READ"), arguments.operations.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            found = writes(folder, arguments.rows, arguments.runs, table_type, operation)
        for timing in found:
            print(timing.line(found[0] if timing is not found[0] else None), flush=True)
            for step in timing.profile if arguments.profile else ():
                print(f"    {'  ' * step['depth']}{step['title']:<50} {step['seconds']:.3f} s")
        timings += found
    if arguments.large:
        with tempfile.TemporaryDirectory() as folder:
            whole, path, key = bootstrap(folder, arguments.large)
            timings += [whole, *look_ups(folder, path, key, max(3, arguments.runs))]
        for timing in timings[-3:]:
            print(timing.line())
    print(describe_load())
    if arguments.json:
        write_json(arguments.json, machine, {"rows": arguments.rows, "large": arguments.large}, timings)


if __name__ == "__main__":
    main()
