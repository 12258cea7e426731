"""The record index on Spark beside real Hudi: its bootstrap from 4M keys, and upserts of 400k rows (half new) by it.

    python -m benchmarks.record_index_spark [--rows 4000000] [--runs 3] [--engines hoodie,hudi] [--profile]
        [--json FILE]

Runs in an environment with PySpark 3.5; HOODIE_HUDI_BUNDLE names the bundle of real Hudi. Each engine has a process of
its own, which stays; both do each step in turn, so other work on the machine slows both. Their tables are of version 9,
of three partitions, and their metadata tables have ``files`` and ``record_index``.

The bootstrap is an upsert of one row into a table without a record index, which builds the index first. It is timed in
each run from a new copy of the table; the upserts start from what it made.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import Timing, copy, cpu_seconds, describe_load, describe_machine, fresh, steps_of, write_json
from benchmarks.spark_upsert import ENGINES, make_data, open_engine

WRITERS = ("hoodie", "hudi")
LISTED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
    "hoodie.index.type": "SIMPLE",
}
INDEXED = {
    **LISTED,
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}
STEPS = {"bootstrap": "one", "upsert": "upsert", "upsert again": "upsert", "one row": "one"}
"""What is timed, in this order, on one copy of the table; and the input of each."""


def serve(name: str, data: str) -> None:
    """Do in the child process what lines of standard input say: an operation, an input, a table and options."""
    engine = open_engine(name, "COPY_ON_WRITE")
    frames = {kind: engine.spark.read.parquet(f"{data}/{kind}") for kind in ("base", "upsert", "one")}
    for line in sys.stdin:
        operation, kind, path, options = json.loads(line)
        if operation == "bulk_insert":
            engine.prepare(fresh(path))
        started, used = time.perf_counter(), cpu_seconds()
        result = engine.write(operation, frames[kind], path, options)
        spent = time.perf_counter() - started, cpu_seconds() - used
        print(json.dumps(["done", *spent, steps_of(result)]), flush=True)


class Engine:
    """A process that writes by one of the engines."""

    def __init__(self, name: str, data: str) -> None:
        command = [sys.executable, "-m", "benchmarks.record_index_spark", "--child", name, data]
        self.name = name
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def write(self, operation: str, kind: str, path: str, options: dict[str, str]) -> tuple[float, float, Any]:
        """The seconds, the CPU seconds and the steps of a write."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([operation, kind, path, options]) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith('["done"'):
                _, seconds, cpu, steps = json.loads(line)
                return seconds, cpu, steps
        raise SystemExit(f"the process of {self.name} ended")

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def measure(folder: str, rows: int, runs: int, names: list[str]) -> dict[tuple[str, str], Timing]:
    """Time each step by both engines in turn."""
    from hoodie import HoodieTableMetaClient  # the child process of real Hudi does not need it
    from hoodie.metadata import HoodieBackedTableMetadata  # as above

    make_data(Path(folder) / "data", rows)
    engines = [Engine(name, f"{folder}/data") for name in names]
    found = {(step, name): Timing(f"{name} {step}", []) for step in STEPS for name in names}
    for engine in engines:
        # Each loads its classes.
        engine.write("bulk_insert", "one", f"{folder}/warm", LISTED)
        engine.write("upsert", "one", f"{folder}/warm", INDEXED)
        engine.write("upsert", "one", f"{folder}/warm", INDEXED)
        engine.write("bulk_insert", "base", f"{folder}/{engine.name}_base", LISTED)
    for _ in range(runs):
        for engine in engines:
            copy(f"{folder}/{engine.name}_base", f"{folder}/{engine.name}")
        for step, kind in STEPS.items():
            for engine in engines:
                timing = found[step, engine.name]
                path = f"{folder}/{engine.name}"
                seconds, cpu, steps = engine.write("upsert", kind, path, INDEXED)
                timing.seconds.append(seconds)
                timing.cpu.append(cpu)
                timing.steps.append(steps)
                print(f"{engine.name} {step}: {seconds:.2f} s, {cpu:.1f} CPU s", file=sys.stderr, flush=True)
    for engine in engines:
        engine.close()
        table = HoodieTableMetaClient.load(f"{folder}/{engine.name}").snapshot
        keys = HoodieBackedTableMetadata.open(table).read_record_index().num_rows
        if keys != rows + rows // 20:
            raise SystemExit(f"{engine.name}: the index has {keys:,} keys")
    return found


def main() -> None:
    """Run both engines and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--engines", default=",".join(WRITERS))
    parser.add_argument("--profile", action="store_true", help="print each step's median and share")
    parser.add_argument("--json", metavar="FILE", help="write all figures, with the profiles")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        assert arguments.child[0] in ENGINES
        serve(*arguments.child)
        return
    names = arguments.engines.split(",")
    if "hudi" in names and not os.environ.get("HOODIE_HUDI_BUNDLE"):
        parser.error("HOODIE_HUDI_BUNDLE must name the bundle of real Hudi")
    machine = describe_machine("pyspark", "pyarrow")
    print(machine)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(folder, arguments.rows, arguments.runs, names)
    for (step, name), timing in found.items():
        peer = found.get((step, "hudi")) if name == "hoodie" else None
        faster = ""
        if peer is not None:
            less = statistics.median(peer.cpu) / statistics.median(timing.cpu)
            faster = f"   {peer.median / timing.median:5.2f} times faster than hudi, {less:.2f} times less CPU"
        print(timing.line() + faster)
        if arguments.profile and timing.profile:
            print(*timing.profile_lines(), sep="\n")
    print(describe_load())
    if arguments.json:
        write_json(arguments.json, machine, {"rows": arguments.rows, "runs": arguments.runs}, found.values())


if __name__ == "__main__":
    main()
