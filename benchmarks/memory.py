"""Peak memory of a constant upsert into tables of 1, 4 and 16 times a size, on Spark with a fixed ``-Xmx1g``.

    python -m benchmarks.memory [--factors 1,4,16] [--unit-rows 1400000] [--upsert-rows 100000] [--runs 3] [--json FILE]

One unit is two base files of one partition, each with a single row group of about 120 MB; the upsert touches every
file. Each upsert runs in its own process. While it runs, the peaks (``VmHWM`` of ``/proc/<pid>/status``) of the driver,
of the daemon's workers and of the JVM are read ten times a second. The target: with a larger table, no Python process
peaks more than 10% above the peak with the smallest table.

    python -m benchmarks.memory --keys 4000000,40000000 [--json FILE]

With ``--keys``, each upsert has so many new keys, which Spark makes, and goes into a table of a million rows: the keys
of all rows must not come to the driver. Then the driver's JVM has ``-Xmx1g``, and two executors have 3 GB each. CPU
seconds are those of all processes, executors included.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hoodie
from benchmarks.measure import copy, cpu_seconds, describe_load, describe_machine, trips
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
# Executors of their own find the driver there.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
PAYLOAD_BYTES = 90
ROWS_OF_PARTITION = 400_000
ALLOWED_GROWTH = 1.1


def wide_trips(count: int, seed: int, ordering_value: int = 1) -> pa.Table:
    """Trips of one partition, with a random text that makes a row about 170 bytes long on storage."""
    table = trips(count, seed, ordering_value, partitions=False)
    rng = np.random.default_rng(seed + 500)
    text = rng.integers(33, 126, (count, PAYLOAD_BYTES), dtype=np.uint8)
    offsets = np.arange(0, PAYLOAD_BYTES * (count + 1), PAYLOAD_BYTES, dtype=np.int32)
    payload = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    return table.append_column("payload", payload)


def make_tables(folder: str, factors: list[int], unit_rows: int, upsert_rows: int) -> None:
    """Create one table for each factor, with its upsert: half of the upsert's rows are keys from all over the table.

    Run this in its own process, because it needs more memory than the measured upserts.
    """
    path = f"{folder}/growing"
    HoodieTableMetaClient.init_table(
        path, table_name="trips", record_key_fields=["uuid"], partition_fields=["partitionpath"],
        ordering_fields=["ts"],
    )  # fmt: skip
    config = HoodieWriteConfig.from_properties(
        path, {"hoodie.parquet.block.size": 1 << 30, "hoodie.parquet.max.file.size": 1 << 30}
    )
    rng = np.random.default_rng(9)
    chosen: list[pa.Table] = []
    for unit in range(max(factors)):
        rows = wide_trips(unit_rows, seed=100 + unit)
        with HoodieLocalWriteClient(config) as client:
            client.bulk_insert(rows)
        chosen.append(rows.take(pa.array(np.sort(rng.choice(unit_rows, min(unit_rows, upsert_rows), replace=False)))))
        factor = unit + 1
        if factor in factors:
            copy(path, f"{folder}/table_{factor}")
            each = upsert_rows // 2 // factor
            updates = pa.concat_tables([piece.slice(0, each) for piece in chosen])
            inserts = wide_trips(upsert_rows - updates.num_rows, seed=7, ordering_value=1_000_000)
            pq.write_table(pa.concat_tables([updates, inserts]), f"{folder}/upsert_{factor}.parquet")


def upsert(path: str, records: str) -> None:
    """The measured process: upsert, and print the seconds."""
    from pyspark.sql import SparkSession  # not installed everywhere

    from hoodie import SparkRDDWriteClient  # as above

    spark = (
        SparkSession.builder.master("local-cluster[2,1,3072]" if records.isdigit() else "local[2]")
        .config("spark.driver.memory", "1g").config("spark.executor.memory", "3g")
        .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
    )  # fmt: skip
    config = HoodieWriteConfig.from_properties(
        path, {"hoodie.parquet.block.size": 120 << 20, "hoodie.parquet.small.file.limit": 0}
    )
    started, used = time.perf_counter(), cpu_seconds()
    with SparkRDDWriteClient(spark, config) as client:
        client.upsert(frame_of(spark, records))
    seconds, cpu = time.perf_counter() - started, cpu_seconds() - used
    print(json.dumps({"seconds": seconds, "cpu": cpu, "driver": peak_bytes("self")}), flush=True)


def frame_of(spark: Any, records: str) -> Any:
    """The rows of a file; of a number, so many rows with keys of 40 characters, in no order."""
    if not records.isdigit():
        return spark.read.parquet(records)
    count = int(records)
    return spark.range(0, count, 1, max(2, count // ROWS_OF_PARTITION)).selectExpr(
        "sha1(cast(id as string)) uuid", "concat('p', id % 3) partitionpath", "id ts", "id % 1000 fare"
    )


def make_small_table(path: str) -> None:
    """A table of a million rows of `frame_of`."""
    numbers = range(1_000_000)
    rows = pa.table(
        {
            "uuid": [hashlib.sha1(str(number).encode()).hexdigest() for number in numbers],
            "partitionpath": [f"p{number % 3}" for number in numbers],
            "ts": pa.array(numbers, pa.int64()),
            "fare": pa.array([number % 1000 for number in numbers], pa.int64()),
        }
    )
    hoodie.Table.create(path, rows, record_key_fields="uuid", partition_fields="partitionpath", ordering_fields="ts")


def of_keys(me: list[str], counts: list[int], folder: str) -> list[dict[str, object]]:
    """The peaks for each number of keys."""
    make_small_table(f"{folder}/small")
    figures: list[dict[str, object]] = []
    for count in counts:
        copy(f"{folder}/small", f"{folder}/run")
        printed, peaks = watch([*me, "--child", "upsert", f"{folder}/run", str(count)])
        rows = hoodie.read_table(f"{folder}/run", columns=["ts"]).num_rows
        if rows != max(count, 1_000_000):
            raise SystemExit(f"{rows:,} rows instead of {count:,}")
        figure = {"keys": count, "seconds": round(printed["seconds"], 1), "cpu_seconds": round(printed["cpu"], 1)}
        figure |= {f"{kind}_mb": round(peak / (1 << 20), 1) for kind, peak in peaks.items()}
        figures.append(figure)
        print("  ".join(f"{name} {value:,}" for name, value in figure.items()), flush=True)
    return figures


def peak_bytes(process: int | str) -> int:
    """``VmHWM`` of a process; 0 if it has ended."""
    try:
        with open(f"/proc/{process}/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def descendants(process: int) -> list[int]:
    """All processes below a process."""
    children: dict[int, list[int]] = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat) as file:
                name, rest = file.read().rsplit(")", 1)
        except OSError:
            continue
        children.setdefault(int(rest.split()[1]), []).append(int(name.split()[0]))
    found, open_ones = [], [process]
    while open_ones:
        below = children.get(open_ones.pop(), [])
        found += below
        open_ones += below
    return found


def command_line(process: int) -> str:
    """The command line of a process."""
    try:
        with open(f"/proc/{process}/cmdline") as file:
            return file.read().replace("\0", " ")
    except OSError:
        return ""


def watch(command: list[str]) -> tuple[dict[str, float], dict[str, int]]:
    """Run a process; return its last output, and the largest peak of each kind of process below it."""
    peaks = {"worker": 0, "jvm": 0}
    with tempfile.TemporaryFile("w+") as output:
        # A session of its own: `cpu_seconds` counts the processes of a session.
        child = subprocess.Popen(command, stdout=output, start_new_session=True)
        while child.poll() is None:
            for process in descendants(child.pid):
                line = command_line(process)
                kind = "worker" if "pyspark.daemon" in line else "jvm" if "java" in line.split(" ")[0] else None
                if kind is not None:
                    peaks[kind] = max(peaks[kind], peak_bytes(process))
            time.sleep(0.1)
        if child.returncode:
            raise SystemExit(f"{' '.join(command)} failed with {child.returncode}")
        output.seek(0)
        printed = json.loads(next(line for line in output.read().splitlines() if line.startswith("{")))
    peaks["driver"] = int(printed["driver"])
    return printed, peaks


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--factors", default="1,4,16")
    parser.add_argument("--unit-rows", type=int, default=1_400_000)
    parser.add_argument("--upsert-rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keys", help="numbers of new keys, such as 4000000,40000000")
    parser.add_argument("--folder", help="where tables are made; a temporary folder by default")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    factors = [int(text) for text in arguments.factors.split(",")]
    if arguments.child:
        kind, *rest = arguments.child
        if kind == "tables":
            make_tables(rest[0], factors, arguments.unit_rows, arguments.upsert_rows)
        else:
            upsert(*rest)
        return
    me = [sys.executable, "-m", "benchmarks.memory"]
    machine = describe_machine("pyspark", "pyarrow")
    print(machine)
    if arguments.keys:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            found = of_keys(me, [int(text) for text in arguments.keys.split(",")], folder)
        print(describe_load())
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump({"machine": machine, "load_after": describe_load(), "figures": found}, file, indent=2)
        return
    figures = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        sizes = ["--factors", arguments.factors, "--unit-rows", str(arguments.unit_rows)]
        sizes += ["--upsert-rows", str(arguments.upsert_rows)]
        subprocess.run([*me, *sizes, "--child", "tables", folder], check=True)
        for factor in factors:
            files = glob.glob(f"{folder}/table_{factor}/**/*.parquet", recursive=True)
            stored = sum(map(os.path.getsize, files))
            groups = [pq.read_metadata(file) for file in files]
            largest = max(
                sum(group.row_group(n).column(c).total_compressed_size for c in range(group.num_columns))
                for group in groups
                for n in range(group.num_row_groups)
            )
            runs = []
            for _ in range(arguments.runs):
                copy(f"{folder}/table_{factor}", f"{folder}/run")
                runs.append(watch([*me, "--child", "upsert", f"{folder}/run", f"{folder}/upsert_{factor}.parquet"]))
            figure = {"factor": factor, "files": len(files), "table_mb": stored >> 20, "row_group_mb": largest >> 20}
            for kind in ("driver", "worker", "jvm"):
                values = sorted(peaks[kind] / (1 << 20) for _, peaks in runs)
                figure[f"{kind}_mb"] = round(statistics.median(values), 1)
                figure[f"{kind}_mb_spread"] = [round(values[0], 1), round(values[-1], 1)]
            figure["seconds"] = round(statistics.median(printed["seconds"] for printed, _ in runs), 2)
            figure["cpu_seconds"] = round(statistics.median(printed["cpu"] for printed, _ in runs), 2)
            figures.append(figure)
            print_figure(figure, figures[0])
    print(describe_load())
    if arguments.json:
        saved = {"machine": machine, "load_after": describe_load(), "runs": arguments.runs, "figures": figures}
        with open(arguments.json, "w") as file:
            json.dump(saved, file, indent=2)


def print_figure(figure: dict[str, object], first: dict[str, object]) -> None:
    """Print one line, and whether the figure meets the target."""
    parts = [
        f"{figure['factor']:>3} x  {figure['files']:>3} files  {figure['table_mb']:>5} MB, largest row group "
        f"{figure['row_group_mb']} MB, {figure['seconds']} s, {figure['cpu_seconds']} CPU s:"
    ]
    for kind in ("driver", "worker", "jvm"):
        low, high = figure[f"{kind}_mb_spread"]  # type: ignore[misc]
        ratio = float(figure[f"{kind}_mb"]) / float(first[f"{kind}_mb"])  # type: ignore[arg-type]
        verdict = "" if kind == "jvm" or ratio <= ALLOWED_GROWTH else " GROWS"
        parts.append(f"{kind} {figure[f'{kind}_mb']} MB ({low} - {high}), {ratio:.2f} x{verdict}")
    print("  ".join(parts), flush=True)


if __name__ == "__main__":
    main()
