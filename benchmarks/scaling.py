"""The cost of writes as the table, its rows, the input and the cores grow, and the cost of planning on 10,000 files.

    python -m benchmarks.scaling [--parts table,input,columns,partitions,row_bytes,cores,files] [--runs 5]
                                 [--unit-rows 200000] [--table-version 9] [--json FILE]

Each figure comes from its own process. Its seconds are those of the upsert alone (a new client, so caches are cold), in
wall clock and CPU time; its peak memory (``VmHWM``) is that of the whole process. Ratios are of wall clock; on a busy
machine, the ratios of CPU seconds beside them are more reliable.

table   a table of 1, 4, 16 and 64 units (each four base files, keys that grow with time, one partition), and a constant
        upsert with BLOOM: half of it updates of the newest keys, half new keys. A client's second upsert is shown
        too: the client knows the key ranges of old files then.
input   one table, and 1, 4, 16, 64 times as many rows to upsert, spread over all of its files.
columns, partitions, row_bytes
        a first write, an upsert of one row and a read of tables of 1,000 rows with 32 to 2,048 columns, of 20,000 rows
        in 16 to 1,024 partitions, and of 16 rows of 160 KB to 10 MB; beside bare pyarrow, which writes one file, and
        reads and writes it again. ``--table-version 6`` makes tables of that version in these three parts: its format
        wants statistics of all columns.
cores   a bulk insert and an upsert on one core and on two, by ``taskset``.
files   ``explain_upsert`` on a table of 10,000 base files in 100 partitions, made of hard links: it lists all of them
        (a global index) and reads all key ranges. Hard links are in the page cache, so the figure is that of the
        program, not of a disk.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hoodie
from benchmarks.measure import copy, describe_load, describe_machine, exponent, fresh, trips
from benchmarks.memory import peak_bytes
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.engine.local_engine_context import LocalEngineContext

PARTS = ("table", "input", "columns", "partitions", "row_bytes", "cores", "files")
FACTORS = (1, 4, 16, 64)
AXIS_CALLS = ("write", "upsert of one row", "read", "pyarrow write", "pyarrow read and write")
AXIS_FLOORS = {"write": "pyarrow write", "upsert of one row": "pyarrow read and write"}
FILES_OF_UNIT = 4
LEAST_UNIT_ROWS = 20_000
MOST_TIME, MOST_MEMORY, LEAST_SPEEDUP = 1.15, 1.10, 1.7
MOST_PLANNING_SECONDS, MOST_PLANNING_BYTES = 3.0, 300 << 20


def rows(first: int, count: int, seed: int, ordering_value: int = 1) -> pa.Table:
    """Trips of one partition with growing keys: ``000000000042``."""
    table = trips(count, seed, ordering_value, partitions=False)
    numbers = np.char.zfill(np.arange(first, first + count).astype(str), 12)
    return table.set_column(0, "uuid", pa.array(numbers))


def client(path: str, index: str = "BLOOM", **more: Any) -> HoodieLocalWriteClient:
    """A client; properties are keywords, with underscores for dots."""
    properties = {"hoodie.index.type": index, "hoodie.parquet.small.file.limit": 0}
    properties |= {"hoodie." + name.replace("_", "."): value for name, value in more.items()}
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, properties))


def wide_rows(factor: int) -> pa.Table:
    """1,000 rows of 32 columns times a factor: integers, doubles, texts and booleans."""
    rng = np.random.default_rng(factor)
    numbers = rng.integers(0, 1000, (32 * factor, 1000))
    kinds = (lambda n: n, lambda n: n / 2, lambda n: np.char.add("v", n.astype(str)), lambda n: n % 2 == 0)
    columns = {f"c{place}": pa.array(kinds[place % 4](values)) for place, values in enumerate(numbers)}
    return pa.table({"uuid": _keys(1000), "partitionpath": ["one"] * 1000, "ts": np.ones(1000, np.int64), **columns})


def rows_in_partitions(factor: int) -> pa.Table:
    """20,000 rows in 16 partitions times a factor."""
    table = rows(0, 20_000, seed=factor)
    places = pa.array([f"day={number % (16 * factor):05}" for number in range(20_000)])
    return table.set_column(1, "partitionpath", places)


def large_rows(factor: int) -> pa.Table:
    """16 rows of 160 KB times a factor, that do not compress."""
    rng = np.random.default_rng(factor)
    values = pa.array([rng.bytes(factor * 160_000) for _ in range(16)], pa.binary())
    return pa.table({"uuid": _keys(16), "partitionpath": ["one"] * 16, "ts": np.ones(16, np.int64), "payload": values})


AXES: dict[str, tuple[str, Callable[[int], pa.Table]]] = {
    "columns": ("1,000 rows of n x 32 columns", wide_rows),
    "partitions": ("20,000 rows in n x 16 partitions", rows_in_partitions),
    "row_bytes": ("16 rows of n x 160 KB", large_rows),
}


def _keys(count: int) -> pa.Array:
    return pa.array([f"{number:012}" for number in range(count)])


def make_table(path: str, table_version: int | None = None) -> None:
    """An empty table of trips; None makes one of the version that users get by default."""
    HoodieTableMetaClient.init_table(
        path, table_name="trips", record_key_fields=["uuid"], partition_fields=["partitionpath"],
        ordering_fields=["ts"], table_version=table_version,
    )  # fmt: skip


def grow(path: str, first: int, count: int) -> None:
    """Add rows in one commit, in `FILES_OF_UNIT` files whose key ranges do not overlap."""
    properties = {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
    config = HoodieWriteConfig.from_properties(path, properties)
    with HoodieLocalWriteClient(config, LocalEngineContext(FILES_OF_UNIT)) as writer:
        result = writer.bulk_insert(rows(first, count, seed=first))
    assert len(result) == FILES_OF_UNIT, f"{len(result)} files instead of {FILES_OF_UNIT}"


# --- measurements: each of these runs in its own process ------------------------------------------------------------


class Watch:
    """Times calls, in wall clock and in CPU seconds of all threads."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.cpu: list[float] = []

    def __enter__(self) -> None:
        self._started = time.perf_counter(), time.process_time()

    def __exit__(self, *error: object) -> None:
        wall, cpu = self._started
        self.seconds.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)

    def figures(self) -> dict[str, Any]:
        """The figures of the calls so far, and the memory of the process."""
        return {"seconds": self.seconds, "cpu": self.cpu, "peak": peak_bytes("self")}


def run_upserts(path: str, index: str, *inputs: str) -> dict[str, Any]:
    """Run upserts one after the other with one client."""
    tables = [pq.read_table(name) for name in inputs]
    watch, steps = Watch(), []
    with client(path, index) as writer:
        for table in tables:
            with watch:
                result = writer.upsert(table)
            steps.append({step.title: round(step.seconds, 4) for step in result.steps})
    return watch.figures() | {"steps": steps}


def run_axis(path: str, axis: str, factor: str, table_version: str | None = None) -> dict[str, Any]:
    """Write, upsert one row and read, then the same with pyarrow: `AXIS_CALLS`."""
    version = None if table_version is None else int(table_version)
    table = AXES[axis][1](int(factor))
    one = table.slice(table.num_rows // 2, 1)
    watch = Watch()
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as other:
        # Modules are imported, and threads started, before the calls that count.
        make_table(f"{other}/warm", version)
        with client(f"{other}/warm") as writer:
            writer.upsert(rows(0, 10, seed=1))
        hoodie.read_table(f"{other}/warm")
        make_table(path, version)
        for records in (table, one):
            with client(path) as writer, watch:
                writer.upsert(records)
        with watch:
            hoodie.read_table(path)
        peak = peak_bytes("self")
        for source in (lambda: table, lambda: pq.read_table(f"{other}/floor")):
            with watch:
                pq.write_table(source(), f"{other}/floor")
    return watch.figures() | {"peak": peak}


def run_bulk_insert(path: str, records: str) -> dict[str, Any]:
    """Run a bulk insert into a new table."""
    table = pq.read_table(records)
    shutil.rmtree(path, ignore_errors=True)
    make_table(path)
    watch = Watch()
    with client(path) as writer, watch:
        writer.bulk_insert(table)
    return watch.figures()


def run_plan(path: str, index: str, records: str) -> dict[str, Any]:
    """Plan an upsert twice with one client."""
    table = pq.read_table(records)
    idle = peak_bytes("self")
    watch, steps = Watch(), []
    with client(path, index) as planner:
        for _ in range(2):
            with watch:
                plan = planner.explain_upsert(table)
            steps.append({step.title: round(step.seconds, 4) for step in plan.steps})
    report = plan.index_report
    return watch.figures() | {
        "idle": idle, "steps": steps, "file_groups": len(report.file_groups), "read": report.files_read,
    }  # fmt: skip


CHILDREN: dict[str, Callable[..., dict[str, Any]]] = {
    "upserts": run_upserts,
    "axis": run_axis,
    "bulk_insert": run_bulk_insert,
    "plan": run_plan,
}


def measured(
    child: list[str], runs: int, prepare: Callable[[], object], cores: str | None = None
) -> list[dict[str, Any]]:
    """The output of a child process, for several runs."""
    pinned = ["taskset", "-c", cores] if cores is not None else []
    found = []
    for _ in range(runs):
        prepare()
        command = [*pinned, sys.executable, "-m", "benchmarks.scaling", "--child", *child]
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        found.append(json.loads(output.splitlines()[-1]))
    return found


def middle(runs: list[dict[str, Any]], number: int = 0) -> dict[str, Any]:
    """The median and the spread of the seconds of one call of a run, and of its memory."""
    seconds = sorted(run["seconds"][number] for run in runs)
    peaks = sorted(run["peak"] for run in runs)
    return {
        "seconds": statistics.median(seconds),
        "spread": [seconds[0], seconds[-1]],
        "cpu_seconds": statistics.median(run["cpu"][number] for run in runs),
        "peak_mb": round(statistics.median(peaks) / (1 << 20), 1),
        "peak_spread_mb": [round(peaks[0] / (1 << 20), 1), round(peaks[-1] / (1 << 20), 1)],
        "steps": next((run["steps"][number] for run in runs if "steps" in run), {}),
    }


def line(name: str, figure: dict[str, Any], remark: str = "") -> None:
    """Print a figure."""
    low, high = figure["spread"]
    print(
        f"  {name:<34} {figure['seconds']:7.3f} s ({low:.3f} - {high:.3f}), CPU {figure['cpu_seconds']:6.3f} s, "
        f"{figure['peak_mb']:7.1f} MB  {remark}",
        flush=True,
    )


def verdict(holds: bool) -> str:
    """The verdict on a figure, as text."""
    return "ok" if holds else "MISSED"


# --- the parts ------------------------------------------------------------------------------------------------------


def part_table(folder: str, unit_rows: int, runs: int) -> dict[str, Any]:
    """(a) A constant upsert into tables of 1, 4, 16 and 64 units."""
    print(f"table: upsert of {unit_rows // 10:,} rows (half new) into n x {unit_rows:,} rows, BLOOM, growing keys")
    growing, run = f"{folder}/growing", f"{folder}/run"
    make_table(growing)
    half = unit_rows // 20
    figures: dict[str, Any] = {}
    for unit in range(max(FACTORS)):
        grow(growing, unit * unit_rows, unit_rows)
        factor = unit + 1
        if factor not in FACTORS:
            continue
        end = factor * unit_rows
        names = []
        for number in range(2):
            # Upsert the newest keys again, and new keys: the second upsert continues where the first one ended.
            start = end - half + number * half
            names.append(f"{folder}/upsert_{factor}_{number}.parquet")
            pq.write_table(rows(start, 2 * half, seed=5 + number, ordering_value=1_000_000 + number), names[-1])
        found = measured(["upserts", run, "BLOOM", *names], runs, lambda: copy(growing, run))
        for number, name in enumerate(("first", "second")):
            figure = figures[f"{factor}x {name}"] = middle(found, number)
            base = figures[f"{FACTORS[0]}x {name}"]
            figure["time_ratio"] = round(figure["seconds"] / base["seconds"], 3)
            figure["cpu_ratio"] = round(figure["cpu_seconds"] / base["cpu_seconds"], 3)
            figure["memory_ratio"] = round(figure["peak_mb"] / base["peak_mb"], 3)
            holds = figure["time_ratio"] <= MOST_TIME and figure["memory_ratio"] <= MOST_MEMORY
            ratios = f"time {figure['time_ratio']:.2f} x (CPU {figure['cpu_ratio']:.2f} x), "
            ratios += f"memory {figure['memory_ratio']:.2f} x  {verdict(holds)}"
            line(f"{factor:>2} x ({factor * FILES_OF_UNIT} files), {name} upsert", figure, ratios)
    return figures


def part_input(folder: str, unit_rows: int, runs: int) -> dict[str, Any]:
    """(b) More and more rows into one table."""
    count = 4 * unit_rows
    print(f"input: upsert of n x {unit_rows // 32:,} rows (half new) into {count:,} rows, SIMPLE")
    path, run = f"{folder}/fixed", f"{folder}/fixed_run"
    make_table(path)
    stored = trips(count, seed=3)
    with client(path, "SIMPLE") as writer:
        writer.bulk_insert(stored)
    figures: dict[str, Any] = {}
    rng = np.random.default_rng(4)
    for factor in FACTORS:
        half = factor * unit_rows // 64
        updates = stored.take(pa.array(np.sort(rng.choice(count, half, replace=False))))
        name = f"{folder}/input_{factor}.parquet"
        pq.write_table(pa.concat_tables([updates, trips(half, seed=100 + factor)]), name)
        found = measured(["upserts", run, "SIMPLE", name], runs, lambda: copy(path, run))
        figure = figures[f"{factor}x"] = middle(found)
        figure["time_ratio"] = round(figure["seconds"] / figures["1x"]["seconds"], 3)
        figure["cpu_ratio"] = round(figure["cpu_seconds"] / figures["1x"]["cpu_seconds"], 3)
        holds = figure["time_ratio"] <= factor * MOST_TIME
        ratios = f"time {figure['time_ratio']:.2f} x (CPU {figure['cpu_ratio']:.2f} x)"
        line(f"{factor} x", figure, f"{ratios}  {verdict(holds)}")
    return figures


def part_axis(folder: str, axis: str, runs: int, table_version: int | None = None) -> dict[str, Any]:
    """Wider tables, more partitions or larger rows."""
    of_version = [] if table_version is None else [str(table_version)]
    print(f"{axis}: {AXES[axis][0]}", *(f"in tables of version {version}" for version in of_version))
    path = f"{folder}/{axis}"
    figures: dict[str, Any] = {}
    for factor in FACTORS:
        found = measured(["axis", path, axis, str(factor), *of_version], runs, lambda: fresh(path))
        for number, call in enumerate(AXIS_CALLS):
            figure = figures[f"{factor}x {call}"] = middle(found, number)
            line(f"{factor:>2} x, {call}", figure)
        for call, floor in AXIS_FLOORS.items():
            ours, bare = (figures[f"{factor}x {name}"]["cpu_seconds"] for name in (call, floor))
            print(f"  {factor:>2} x, {call}: {ours / max(bare, 1e-3):.1f} times the CPU seconds of {floor}")
    for call in AXIS_CALLS:
        slope = exponent(FACTORS, [figures[f"{factor}x {call}"]["cpu_seconds"] for factor in FACTORS])
        print(f"  {call}: CPU seconds grow as n to the power of {slope:.2f}")
    return figures


def part_cores(folder: str, unit_rows: int, runs: int) -> dict[str, Any]:
    """(c) One core and two."""
    count = 4 * unit_rows
    print(f"cores: bulk insert of {count:,} rows, and an upsert of {count // 10:,} (half new), SIMPLE")
    path, run, stored_name, input_name = (f"{folder}/{n}" for n in ("cores", "cores_run", "s.parquet", "i.parquet"))
    stored = trips(count, seed=3)
    pq.write_table(stored, stored_name)
    pq.write_table(pa.concat_tables([stored.slice(0, count // 20), trips(count // 20, seed=9)]), input_name)
    run_bulk_insert(path, stored_name)
    figures: dict[str, Any] = {}
    for name, child, prepare in (
        ("bulk insert", ["bulk_insert", run, stored_name], lambda: None),
        ("upsert", ["upserts", run, "SIMPLE", input_name], lambda: copy(path, run)),
    ):
        one = figures[f"{name} 1"] = middle(measured(child, runs, prepare, "0"))
        two = figures[f"{name} 2"] = middle(measured(child, runs, prepare, "0,1"))
        speedup = two["speedup"] = round(one["seconds"] / two["seconds"], 3)
        line(f"{name}, one core", one)
        line(f"{name}, two cores", two, f"{speedup:.2f} times as fast  {verdict(speedup >= LEAST_SPEEDUP)}")
    return figures


def make_many_files(path: str, partitions: int, files: int) -> None:
    """Create a table whose base files are hard links to one real file for each partition.

    All files of a partition have the same keys and key ranges, which is the worst case of a look-up. Names and commit
    metadata are as a writer makes them.
    """
    make_table(path)
    each = 1_000
    tables = []
    for number in range(partitions):
        table = rows(number * each, each, seed=number)
        tables.append(table.set_column(1, "partitionpath", pa.array([f"day={number:05}"] * each)))
    # A metadata table would not list the links.
    with client(path, metadata_enable="false") as writer:
        writer.bulk_insert(pa.concat_tables(tables))
    for number in range(partitions):
        folder = f"{path}/day={number:05}"
        name = next(entry for entry in os.listdir(folder) if entry.endswith(".parquet"))
        _, rest = name.split("_", 1)
        for _ in range(files - 1):
            os.link(f"{folder}/{name}", f"{folder}/{uuid.uuid4()}-0_{rest}")


def part_files(folder: str, runs: int, partitions: int = 100, files: int = 100) -> dict[str, Any]:
    """(d) Planning on many files."""
    count = partitions * files
    print(f"files: explain_upsert of 1,000 new rows of all partitions, {count:,} base files in {partitions} partitions")
    path, name = f"{folder}/many", f"{folder}/many.parquet"
    make_many_files(path, partitions, files)
    records = rows(10**9, 1_000, seed=1)
    days = [f"day={number % partitions:05}" for number in range(1_000)]
    pq.write_table(records.set_column(1, "partitionpath", pa.array(days)), name)
    figures: dict[str, Any] = {}
    for index in ("BLOOM", "GLOBAL_BLOOM"):
        found = measured(["plan", path, index, name], runs, lambda: None)
        for number, which in enumerate(("first", "second")):
            figure = figures[f"{index} {which}"] = middle(found, number)
            above = figure["above_idle_mb"] = round(
                statistics.median(run["peak"] - run["idle"] for run in found) / (1 << 20), 1
            )
            figure["file_groups"], figure["read"] = found[0]["file_groups"], found[0]["read"]
            holds = figure["seconds"] <= MOST_PLANNING_SECONDS and above <= MOST_PLANNING_BYTES >> 20
            remark = f"{above:.0f} MB above idle, keys of {figure['read']} files read  {verdict(holds)}"
            line(f"{index}, {which} plan", figure, remark)
            for title, seconds in figure["steps"].items():
                if seconds >= 0.05:
                    print(f"      {seconds:7.3f} s  {title}")
    return figures


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--unit-rows", type=int, default=200_000)
    axes = ", ".join(AXES)
    parser.add_argument(
        "--table-version", type=int, help=f"of the tables of {axes}; that of users' defaults if left out"
    )
    parser.add_argument("--folder", help="where tables are made; a temporary folder by default")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.unit_rows < LEAST_UNIT_ROWS:
        parser.error(f"--unit-rows {arguments.unit_rows}: a unit takes {LEAST_UNIT_ROWS:,} rows at least")
    if arguments.child:
        kind, *rest = arguments.child
        print(json.dumps(CHILDREN[kind](*rest)))
        return
    machine = describe_machine("pyarrow", "numpy")
    print(machine)
    runs, unit_rows = arguments.runs, arguments.unit_rows
    figures: dict[str, Any] = {"machine": machine, "runs": runs, "unit_rows": unit_rows}
    parts = arguments.parts.split(",")
    if arguments.table_version is not None:
        if strange := [part for part in parts if part not in AXES]:
            parser.error(f"--table-version: {', '.join(strange)} make tables of the default version; give {axes}")
        figures["table_version"] = arguments.table_version
    for part in parts:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            if part == "table":
                figures[part] = part_table(folder, unit_rows, runs)
            elif part == "input":
                figures[part] = part_input(folder, unit_rows, runs)
            elif part in AXES:
                figures[part] = part_axis(folder, part, runs, arguments.table_version)
            elif part == "cores":
                figures[part] = part_cores(folder, unit_rows, runs)
            elif part == "files":
                figures[part] = part_files(folder, runs)
            else:
                parser.error(f"--parts: {part!r} is none of {', '.join(PARTS)}")
    figures["load_after"] = describe_load()
    print(figures["load_after"])
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
