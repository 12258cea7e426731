"""Change data: what it costs an upsert to store it, and how fast the changes of the last of many commits are read.

    python -m benchmarks.changes [--rows 4000000] [--commits 30] [--share 0.01] [--engines local,spark,hudi]

Each engine runs in its own process. It makes a table without and a table with change data (``DATA_BEFORE_AFTER``),
copy-on-write, version 9, with a metadata table, and upserts the same rows into both in turn. Then it reads the changes
of the last commit, three times; ``local`` also those of the table without change data, by comparison.

The floors: ``pyarrow, the same changes`` reads the changes of the last commit from one Parquet file; ``pyarrow, both
slices`` reads the base files before and after the last commit. ``hudi`` is real Hudi, whose bundle HOODIE_HUDI_BUNDLE
names; it and ``spark`` need PySpark 3.5.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Timing, cpu_seconds, describe_load, describe_machine, trip_updates, trips, write_json
from benchmarks.spark_upsert import session

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
ENGINES = ("local", "spark", "hudi")
_CDC = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER"}
_RUNS = 3


def make_data(folder: Path, rows: int, commits: int, share: float) -> None:
    """The files: the table, and an upsert for each commit."""
    table = trips(rows).combine_chunks()
    pq.write_table(table, folder / "base.parquet", row_group_size=500_000)
    for number in range(commits):
        pq.write_table(trip_updates(table, int(rows * share), 0, seed=100 + number), folder / f"{number}.parquet")


class LocalEngine:
    """hoodie in one process."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def make(self, path: str, properties: dict[str, str]) -> None:
        """Make a table with all rows."""
        from hoodie import HoodieTableMetaClient  # real Hudi's process does not need it

        HoodieTableMetaClient.init_table(
            path, table_name="trips", record_key_fields=["uuid"], partition_fields=["partitionpath"],
            ordering_fields=["ts"], properties=properties,
        )  # fmt: skip
        self.write("bulk_insert", "base", path)

    def write(self, operation: str, name: str, path: str) -> None:
        """Write one of the files."""
        from hoodie import HoodieLocalWriteClient, HoodieWriteConfig  # as above

        rows = pq.read_table(self.data / f"{name}.parquet")
        with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, {})) as client:
            getattr(client, operation)(rows)

    def changes(self, path: str, begin: str) -> int:
        """The number of changes after an instant, all of which are read."""
        import hoodie  # as above

        found = hoodie.read_table(path, query_type="incremental", query_format="cdc", begin=begin)
        return int(found.num_rows)


class SparkEngine(LocalEngine):
    """hoodie on Spark."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.spark = session(None)

    def write(self, operation: str, name: str, path: str) -> None:
        """Write one of the files."""
        from hoodie import HoodieWriteConfig, SparkRDDWriteClient  # as above

        rows = self.spark.read.parquet(str(self.data / f"{name}.parquet"))
        with SparkRDDWriteClient(self.spark, HoodieWriteConfig.from_properties(path, {})) as client:
            getattr(client, operation)(rows)

    def changes(self, path: str, begin: str) -> int:
        """The number of changes after an instant, all of which are read."""
        import hoodie.spark  # as above

        frame = hoodie.spark.read(self.spark, path, query_type="incremental", query_format="cdc", begin=begin)
        frame.write.format("noop").mode("overwrite").save()
        return int(frame.count())


class HudiEngine:
    """Real Hudi."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.spark = session(os.environ["HOODIE_HUDI_BUNDLE"])
        self.properties: dict[str, dict[str, str]] = {}

    def make(self, path: str, properties: dict[str, str]) -> None:
        """Make a table with all rows."""
        self.properties[path] = properties
        self.write("bulk_insert", "base", path)

    def write(self, operation: str, name: str, path: str) -> None:
        """Write one of the files."""
        (
            self.spark.read.parquet(str(self.data / f"{name}.parquet")).write.format("hudi")
            .option("hoodie.table.name", "trips").option("hoodie.datasource.write.operation", operation)
            .option("hoodie.datasource.write.recordkey.field", "uuid")
            .option("hoodie.datasource.write.partitionpath.field", "partitionpath")
            .option("hoodie.datasource.write.precombine.field", "ts").options(**self.properties[path])
            .mode("overwrite" if operation == "bulk_insert" else "append").save(path)
        )  # fmt: skip

    def changes(self, path: str, begin: str) -> int:
        """The number of changes after an instant, all of which are read."""
        frame = (
            self.spark.read.format("hudi").option("hoodie.datasource.query.type", "incremental")
            .option("hoodie.datasource.query.incremental.format", "cdc")
            .option("hoodie.datasource.read.begin.instanttime", begin).load(path)
        )  # fmt: skip
        frame.write.format("noop").mode("overwrite").save()
        return int(frame.count())


_CLASSES: dict[str, Callable[[Path], Any]] = {"local": LocalEngine, "spark": SparkEngine, "hudi": HudiEngine}


def run(name: str, data: Path, work: str, commits: int) -> None:
    """Run in the child process: print one JSON line for each timing."""

    def show(what: str, call: Callable[[], Any]) -> Any:
        started, used = time.perf_counter(), cpu_seconds()
        result = call()
        print(json.dumps([what, time.perf_counter() - started, cpu_seconds() - used]), flush=True)
        return result

    engine = _CLASSES[name](data)
    plain, with_changes = f"{work}/{name}_plain", f"{work}/{name}_cdc"
    engine.make(plain, {})
    engine.make(with_changes, _CDC)
    for number in range(commits):
        pair = [(plain, "upsert"), (with_changes, "upsert with change data")]
        # The first of two is no better off in the end.
        for path, what in pair if number % 2 else pair[::-1]:
            show(what, lambda path=path, number=number: engine.write("upsert", str(number), path))
    # Hudi's ranges count requested times, hoodie's times of completion.
    begins = {path: commits_of(path)[-2][name != "hudi"] for path in (plain, with_changes)}
    counts = {show("changes of the last commit", lambda: engine.changes(with_changes, begins[with_changes]))}
    for _ in range(_RUNS - 1):
        counts.add(show("changes of the last commit", lambda: engine.changes(with_changes, begins[with_changes])))
    if name == "local":
        for _ in range(_RUNS):
            counts.add(show("changes by comparison", lambda: engine.changes(plain, begins[plain])))
            for what, files in floors(with_changes, plain, begins, work).items():
                show(what, lambda files=files: [pq.read_table(file) for file in files])
    if len(counts) != 1:
        raise SystemExit(f"the queries of {name} differ: {sorted(counts)} changes")


def commits_of(path: str) -> list[tuple[str, str]]:
    """The times of the completed commits: of the request, and of the completion."""
    return sorted((one.stem[:17], one.stem[18:]) for one in Path(path, ".hoodie/timeline").glob("*.commit"))


def floors(with_changes: str, plain: str, begins: dict[str, str], work: str) -> dict[str, list[str]]:
    """The files that pyarrow reads for the same answers."""
    import hoodie  # the child of real Hudi does not need it

    same = f"{work}/changes.parquet"
    if not Path(same).exists():
        found = hoodie.read_table(
            with_changes, query_type="incremental", query_format="cdc", begin=begins[with_changes]
        )
        pq.write_table(found if isinstance(found, pa.Table) else pa.table(found), same)
    both = []
    for time_of, _ in commits_of(plain)[-2:]:
        both += [str(one) for one in Path(plain).rglob(f"*_{time_of}.parquet")]
    return {"pyarrow, the same changes": [same], "pyarrow, both slices": both}


def main() -> None:
    """Run every engine, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--commits", type=int, default=30)
    parser.add_argument("--share", type=float, default=0.01, help="the part of the rows that a commit updates")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        name, data, work = given.child
        run(name, Path(data), work, given.commits)
        return
    machine = describe_machine("pyspark", "pyarrow")
    print(machine)
    found: dict[tuple[str, str], Timing] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        make_data(data, given.rows, given.commits, given.share)
        for name in given.engines.split(","):
            call = [sys.executable, "-m", "benchmarks.changes", "--commits", str(given.commits)]
            call += ["--child", name, str(data), folder]
            child = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True, start_new_session=True)
            for line in child.stdout.splitlines():
                if line.startswith("["):
                    what, seconds, cpu = json.loads(line)
                    timing = found.setdefault((name, what), Timing(f"{name}: {what}", []))
                    timing.seconds.append(seconds)
                    timing.cpu.append(cpu)
            for (engine, what), timing in found.items():
                if engine == name:
                    beside = _floor(found, name, what)
                    less = "" if beside is None else f"   {_cpu(timing) / _cpu(beside):.2f} of its CPU"
                    print(timing.line(beside) + less, flush=True)
        ours, theirs = (found.get((name, "changes of the last commit")) for name in ("spark", "hudi"))
        if ours and theirs:
            print(f"changes on Spark: {theirs.median / ours.median:.1f} times faster than Hudi")
        ours, theirs = (found.get((name, "upsert with change data")) for name in ("spark", "hudi"))
        if ours and theirs:
            print(f"upserts with change data on Spark: {theirs.median / ours.median:.1f} times faster than Hudi")
    print(describe_load())
    if given.json:
        write_json(given.json, machine, {"rows": given.rows, "commits": given.commits}, found.values())


def _cpu(timing: Timing) -> float:
    return max(statistics.median(timing.cpu), 1e-3)


def _floor(found: dict[tuple[str, str], Timing], name: str, what: str) -> Timing | None:
    floor = {
        "upsert with change data": "upsert",
        "changes of the last commit": "pyarrow, the same changes",
        "changes by comparison": "pyarrow, both slices",
    }.get(what)
    return None if floor is None else found.get((name, floor))


if __name__ == "__main__":
    main()
