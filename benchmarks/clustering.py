"""The sort of a clustering beside Arrow's, and its memory.

    python -m benchmarks.clustering [--rows 1000000] [--runs 5] [--limit-mb 256] [--factors 0.2,2,10] [--json FILE]
    python -m benchmarks.clustering --tables [--rows 1000000] [--large 50] [--runs 5] [--json FILE]
    python -m benchmarks.clustering --box [--rows 16000000] [--runs 5] [--json FILE]

One million rows of ten columns are sorted in memory by two columns, linear and along curves; pyarrow sorts the same
rows by `sort_indices` and `take`. Then inputs of several times the limit are sorted, each in a process of its own;
rows are made while they are asked for. The peak is that of the process (``VmHWM``) above its size before.

With ``--tables``, tables are clustered in-process, plan and commit included, beside pyarrow, which reads the same files
partition by partition, orders their rows, and writes a file for each partition: in the order of two columns, and as
they are stored. The tables have 30 files in three partitions, 200 files of 1,000 rows, and 50 files with one row group
of 8 MB each, which are copied. The files of the latter are then held against the same rows written in one go, where
nothing is copied: row groups, bytes, and the time of a full scan, each as a share. In one go, row groups have the size
of the copied ones, or the default size of ``hoodie.parquet.block.size``.

With ``--box``, a filter on ranges of two columns, which a hundredth of the rows pass, reads a table of row groups of
about 50,000 rows in any order, and the same table clustered along a z-curve of both columns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hoodie
from benchmarks.measure import Timing, copy, describe_load, describe_machine, fresh, trips, write_json
from benchmarks.memory import peak_bytes
from hoodie.config.layout_optimize_config import LayoutOptimizationStrategy, SpatialCurveCompositionStrategyType
from hoodie.execution.bulkinsert.row_order import RowOrder
from hoodie.execution.bulkinsert.row_sorter import RowSorter

COLUMNS = ["fare", "city"]
COLUMNS_OF_TRIPS = ("rider", "begin_lat")
NO_SERVICES = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
}
ONE_FILE = {"hoodie.bulkinsert.shuffle.parallelism": "1"}
"""Each commit makes one file in a partition."""
BOX_OPTIONS = {"hoodie.parquet.block.size": str(6 << 20)}
BOX = [("begin_lat", ">=", 0.45), ("begin_lat", "<", 0.55), ("begin_lon", ">=", 0.45), ("begin_lon", "<", 0.55)]
BOX_COLUMNS = ("begin_lat", "begin_lon")
ROWS_OF_8_MB = 67_000
NOT_COPIED = {"hoodie.clustering.binary.copy.row.group.min.bytes": str(1 << 40)}
BATCH_ROWS = 1 << 17
GOAL = 1.3
"""The most that the peak may be, as a share of the limit."""
ORDERS = {
    "LINEAR": (LayoutOptimizationStrategy.LINEAR, SpatialCurveCompositionStrategyType.DIRECT),
    "ZORDER": (LayoutOptimizationStrategy.ZORDER, SpatialCurveCompositionStrategyType.DIRECT),
    "HILBERT": (LayoutOptimizationStrategy.HILBERT, SpatialCurveCompositionStrategyType.DIRECT),
    "ZORDER of samples": (LayoutOptimizationStrategy.ZORDER, SpatialCurveCompositionStrategyType.SAMPLE),
}


def some_rows(count: int, seed: int = 1) -> pa.RecordBatch:
    """Rows of about 115 bytes: a key, one of 300 cities, and eight numbers."""
    source = np.random.default_rng(seed)
    letters = source.integers(97, 123, (count, 40), dtype=np.uint8)
    offsets = np.arange(0, 40 * (count + 1), 40, dtype=np.int32)
    keys = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])
    cities = pa.array([f"city-{number:05d}" for number in range(300)])
    columns = {"key": keys, "city": cities.take(pa.array(source.integers(0, 300, count))), "fare": source.random(count)}
    return pa.record_batch(columns | {f"c{number}": source.random(count) for number in range(7)})


def order_of(name: str) -> RowOrder:
    """The order of a name in `ORDERS`."""
    strategy, method = ORDERS[name]
    return RowOrder(COLUMNS, strategy, method)


def sorted_by_arrow(batches: list[pa.RecordBatch]) -> None:
    """The sort that ours is measured beside."""
    table = pa.Table.from_batches(batches)
    table.take(pc.sort_indices(table, [(name, "ascending") for name in COLUMNS]))


def sorted_by_us(batches: list[pa.RecordBatch], order: RowOrder) -> None:
    """All rows in order, which are not kept."""
    with RowSorter(order.checked(batches[0].schema), 1 << 30) as sorter:
        for _ in sorter.sorted(iter(batches)):
            pass


def in_memory(rows: int, runs: int) -> list[Timing]:
    """Arrow, then each order; the runs alternate."""
    whole = some_rows(rows)
    ends = [(low, min(low + BATCH_ROWS, rows)) for low in range(0, rows, BATCH_ROWS)]
    batches = [whole.take(pa.array(np.arange(low, high))) for low, high in ends]
    del whole
    calls: dict[str, Callable[[], None]] = {"pyarrow": partial(sorted_by_arrow, batches)}
    calls |= {name: partial(sorted_by_us, batches, order_of(name)) for name in ORDERS}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    cpu: dict[str, list[float]] = {name: [] for name in calls}
    for run in range(runs + 1):
        for name, call in calls.items():
            wall, started = time.perf_counter(), time.process_time()
            call()
            if run:  # the first one loads modules
                seconds[name].append(time.perf_counter() - wall)
                cpu[name].append(time.process_time() - started)
    return [Timing(name, seconds[name], cpu=cpu[name]) for name in calls]


def table_of(folder: Path, files: int, rows: int, partitions: bool) -> str:
    """A table of as many files, of trips; each commit makes a file in each partition."""
    path, count = str(folder / f"table-{files}-{rows}"), 3 if partitions else 1
    data = trips(rows, partitions=partitions)
    made = hoodie.Table.create(
        path, data.slice(0, rows * count // files), record_key_fields="uuid", partition_fields="partitionpath",
        ordering_fields="ts", properties=NO_SERVICES | ONE_FILE,
    )  # fmt: skip
    for low in range(rows * count // files, rows, rows * count // files):
        made.bulk_insert(data.slice(low, rows * count // files), properties=NO_SERVICES | ONE_FILE)
    return path


def clustered_by_arrow(path: str, target: str, columns: Sequence[str]) -> None:
    """Read the files of each partition, order their rows, and write them to one file."""
    Path(target).mkdir()
    files = defaultdict(list)
    for file in hoodie.Table(path).files():
        files[file.partition_path].append(f"{path}/{file.partition_path}/{file.file_name}")
    for number, found in enumerate(files.values()):
        table = pa.concat_tables(pq.read_table(file, partitioning=None) for file in found)
        if columns:
            table = table.take(pc.sort_indices(table, [(name, "ascending") for name in columns]))
        pq.write_table(table, f"{target}/{number}.parquet")


def of_tables(folder: Path, rows: int, large: int, runs: int) -> list[tuple[Timing, Timing]]:
    """Each clustering, and what pyarrow takes for the same files; the runs alternate."""
    found = []
    tables = {
        "30": table_of(folder, 30, rows, True),
        "200": table_of(folder, 200, 200_000, False),
        "large": table_of(folder, large, large * ROWS_OF_8_MB, False),
    }
    cases: list[tuple[str, str, Sequence[str], str]]
    cases = [("LINEAR", "30", COLUMNS_OF_TRIPS, "linear"), ("ZORDER", "30", COLUMNS_OF_TRIPS, "zorder")]
    cases += [("joining 30 files", "30", (), "linear"), ("joining 200 files of 1,000 rows", "200", (), "linear")]
    cases += [(f"joining {large} files with row groups of 8 MB", "large", (), "linear")]
    for label, name, columns, layout in cases:
        target = str(folder / "target")
        timings: dict[str, tuple[list[float], list[float]]] = {"pyarrow": ([], []), label: ([], [])}
        for run in range(runs + 1):
            for who, (seconds, cpu) in timings.items():
                made = fresh(target) if who == "pyarrow" else copy(tables[name], target)
                wall, started = time.perf_counter(), time.process_time()
                if who == "pyarrow":
                    clustered_by_arrow(tables[name], made, columns)
                else:
                    hoodie.Table(made).optimize(columns, layout=layout, properties=NO_SERVICES)
                if run:  # the first one loads modules
                    seconds.append(time.perf_counter() - wall)
                    cpu.append(time.process_time() - started)
        arrow, ours = (Timing(who, seconds, cpu=cpu) for who, (seconds, cpu) in timings.items())
        found.append((arrow, ours))
    return found


def files_of(path: str) -> list[str]:
    """The base files of a table."""
    return [f"{path}/{file.partition_path}/{file.file_name}" for file in hoodie.Table(path).files()]


def scanned(files: Sequence[str]) -> tuple[float, float]:
    """The seconds of a full scan, and its CPU seconds."""
    wall, started = time.perf_counter(), time.process_time()
    for file in files:
        pq.read_table(file, partitioning=None)
    return time.perf_counter() - wall, time.process_time() - started


def shares(folder: Path, large: int, runs: int) -> list[dict[str, Any]]:
    """The copied row groups beside the same rows that are written in one go."""
    source = str(folder / f"table-{large}-{large * ROWS_OF_8_MB}")
    group = pq.read_metadata(files_of(source)[0]).row_group(0)
    ways: dict[str, dict[str, str]] = {
        "copied": {},
        "in one go, row groups of that size": NOT_COPIED | {"hoodie.parquet.block.size": str(group.total_byte_size)},
        "in one go": NOT_COPIED,
    }
    made = {name: copy(source, str(folder / f"way-{number}")) for number, name in enumerate(ways)}
    for name, options in ways.items():
        hoodie.Table(made[name]).optimize(properties=NO_SERVICES | options)
    scans: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(runs + 1):
        for name, path in made.items():
            scans[name].append(scanned(files_of(path)))
    found = []
    for name, path in made.items():
        metadata = [pq.read_metadata(file) for file in files_of(path)]
        found.append(
            {
                "way": name,
                "row_groups": sum(one.num_row_groups for one in metadata),
                "bytes": sum(Path(file).stat().st_size for file in files_of(path)),
                "seconds": statistics.median(wall for wall, _ in scans[name][1:]),
                "cpu_seconds": statistics.median(cpu for _, cpu in scans[name][1:]),
            }
        )
    return found


def box_table(path: str, rows: int) -> None:
    """Rows in any order, a million in each file, with a small size of row groups."""
    properties = {**NO_SERVICES, **BOX_OPTIONS}
    for seed, low in enumerate(range(0, rows, 1_000_000)):
        data = trips(min(1_000_000, rows - low), seed=seed + 1, partitions=False)
        if low:
            hoodie.Table(path).bulk_insert(data, properties=properties)
        else:
            hoodie.Table.create(
                path, data, record_key_fields="uuid", partition_fields="partitionpath", ordering_fields="ts",
                properties=properties,
            )  # fmt: skip


def row_groups_read(path: str) -> tuple[int, int]:
    """The row groups that the box needs, as `plan_read` tells, and all of the table."""
    plan = hoodie.plan_read(path, filters=BOX)
    read = sum(part.row_group_count if part.row_groups is None else len(part.row_groups) for part in plan.slices)
    files = [f"{path}/{file.partition_path}/{file.file_name}" for file in hoodie.Table(path).files()]
    return read, sum(pq.read_metadata(file).num_row_groups for file in files)


def of_boxes(rows: int, runs: int) -> list[Timing]:
    """Reads of the box before and after a clustering; prints the row groups too."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        path = str(Path(name) / "table")
        box_table(path, rows)
        for label in ("before", "after"):
            if label == "after":
                Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
                before, started = peak_bytes("self"), time.perf_counter()
                hoodie.Table(path).optimize(BOX_COLUMNS, layout="zorder", properties={**NO_SERVICES, **BOX_OPTIONS})
                peak = (peak_bytes("self") - before) >> 20
                print(f"clustering: {time.perf_counter() - started:.1f} s, {peak:,} MB more memory at its peak")
            seconds, cpu, counts = [], [], set()
            for run in range(runs + 1):
                wall, started = time.perf_counter(), time.process_time()
                counts.add(hoodie.read_table(path, filters=BOX).num_rows)
                if run:  # the first one loads modules
                    seconds.append(time.perf_counter() - wall)
                    cpu.append(time.process_time() - started)
            found.append(Timing(f"{label} clustering", seconds, cpu=cpu))
            read, of = row_groups_read(path)
            print(f"{label}: {read} of {of} row groups for {counts} of {rows:,} rows")
    return found


def measured(name: str, factor: float, limit: int, folder: str) -> None:
    """Sort rows of so many times the limit, and print what it took."""
    template = some_rows(BATCH_ROWS)
    count, source = max(1, int(factor * limit / template.nbytes)), np.random.default_rng(2)

    def rows() -> Iterator[pa.RecordBatch]:
        for _ in range(count):
            yield template.take(pa.array(source.permutation(BATCH_ROWS)))

    order = order_of(name).checked(template.schema)
    with RowSorter(order, limit, folder) as sorter:
        for _ in sorter.sorted([template.slice(0, 10)]):
            pass
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # The peak is the present size from now on.
    before = peak_bytes("self")
    wall, started = time.perf_counter(), time.process_time()
    with RowSorter(order, limit, folder) as sorter:
        found = sum(batch.num_rows for batch in sorter.sorted(rows()))
    figure = {"order": name, "factor": factor, "rows": found, "input_mb": count * template.nbytes >> 20}
    figure |= {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - started}
    print(json.dumps(figure | {"peak_share": (peak_bytes("self") - before) / limit}))


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help="1,000,000; for boxes 16,000,000")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--limit-mb", type=int, default=256)
    parser.add_argument("--factors", default="0.2,2,10")
    parser.add_argument("--folder", help="where files of rows that do not fit are made")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--large", type=int, default=50, help="files with a row group of 8 MB")
    parser.add_argument("--tables", action="store_true", help="cluster tables instead")
    parser.add_argument("--box", action="store_true", help="read ranges of two columns before and after a clustering")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    limit, rows = arguments.limit_mb << 20, arguments.rows or (16_000_000 if arguments.box else 1_000_000)
    if arguments.child:
        name, folder = arguments.child
        measured(name, float(arguments.factors), limit, folder)
        return
    machine = describe_machine("pyarrow", "numpy")
    print(machine)
    if arguments.tables:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
            pairs = of_tables(Path(name), rows, arguments.large, arguments.runs)
            for arrow, ours in pairs:
                print(arrow.line(arrow), ours.line(arrow), sep="\n", flush=True)
            ways = shares(Path(name), arguments.large, arguments.runs)
        for way in ways:
            parts = (f"{one} {way[one]:,.4g} ({ways[0][one] / way[one]:.2f})" for one in way if one != "way")
            print(f"{way['way']:<36} {'   '.join(parts)}")
        print(describe_load())
        if arguments.json:
            timings_of_tables = [timing.to_json() for pair in pairs for timing in pair]
            shown = {"machine": machine, "timings": timings_of_tables, "shares": ways}
            Path(arguments.json).write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")
        return
    if arguments.box:
        before, after = of_boxes(rows, arguments.runs)
        print(before.line(), after.line(before), describe_load(), sep="\n")
        if arguments.json:
            write_json(arguments.json, machine, {"rows": rows}, [before, after])
        return
    timings = in_memory(rows, arguments.runs)
    for timing in timings:
        print(timing.line(timings[0]))
    figures = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for name in ORDERS:
            for factor in arguments.factors.split(","):
                call = [sys.executable, "-m", "benchmarks.clustering", "--limit-mb", str(arguments.limit_mb)]
                call += ["--factors", factor, "--child", name, folder]
                figure = json.loads(subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True).stdout)
                figures.append(figure)
                verdict = "" if figure["peak_share"] <= GOAL else "  ABOVE THE GOAL"
                print(
                    f"{name:<18} {figure['input_mb']:>6} MB  {figure['seconds']:6.1f} s  {figure['cpu_seconds']:6.1f} "
                    f"CPU s   peak {figure['peak_share']:.2f} of {arguments.limit_mb} MB{verdict}",
                    flush=True,
                )
    print(describe_load())
    if arguments.json:
        found = {"machine": machine, "timings": [timing.to_json() for timing in timings], "memory": figures}
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
