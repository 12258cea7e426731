"""Compare hoodie and real Hudi on the same Spark: bulk insert of 4M rows, upsert of 400k (half new), upsert of one row.

    python -m benchmarks.spark_upsert [--rows 4000000] [--runs 3] [--engines parquet,hoodie,connect,hudi]
        [--index SIMPLE,BLOOM,BUCKET,RECORD_INDEX] [--buckets 8] [--table-type COPY_ON_WRITE] [--fractions 0.1,0.2,1]
        [--operations upsert,insert,delete] [--first] [--profile] [--json FILE]

Both engines write table version 9 with a metadata table; the program stops if a table is another one.

Each engine runs in its own process, one after the other, in the environment of this program (PySpark 3.5 for real Hudi,
whose bundle HOODIE_HUDI_BUNDLE names). ``parquet`` is plain ``df.write.parquet`` of the same data. ``connect`` is
hoodie on a session of Spark Connect (PySpark 4 with its packages), whose server runs on the same machine:
``--engines hoodie,connect`` tells what Connect costs. All engines use the same index. SIMPLE and BLOOM read the same
bulk insert; BUCKET has its own, with ``--buckets`` file groups in each of the three partitions.

With ``--table-type MERGE_ON_READ`` both engines write log files, and the changes are compacted at the end, which is
timed as well. BUCKET appends new rows too; other indexes put them into base files.

With ``--fractions`` each operation of ``--operations`` is timed on a table of its own, with inputs of these parts of
the table's rows: upserts of stored and new keys (half of them new, all stored for 1), inserts of new keys, deletes of
stored keys.

With ``--profile``, the CPU seconds of each line are also told by kind of process: the JVM, Spark's Python workers, and
the driver's Python.

With ``--first``, the timed upsert is the first thing that a Spark session does: each has a session, and a process, of
its own. The modules of hoodie are compiled before, as those of an installed package are.
"""

from __future__ import annotations

import argparse
import compileall
import glob
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.measure import (
    Timing,
    copy,
    cpu_by_kind,
    describe_load,
    describe_machine,
    fresh,
    steps_of,
    trip_updates,
    trips,
    write_json,
)

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
INDEXES = ("SIMPLE", "BLOOM", "BUCKET", "RECORD_INDEX")
OPERATIONS = ("upsert", "insert", "delete")
UPSERTS = ("upsert", "upsert again", "one row")
TABLE_TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
DRIVER_MEMORY = os.environ.get("HOODIE_DRIVER_MEMORY", "6g")
TABLE_VERSION = 9


def make_data(folder: Path, rows: int, fractions: Sequence[float] = (), operations: Sequence[str] = ()) -> None:
    """Create the input files: the table, the upsert, one row; and an input for each fraction and operation."""
    table = trips(rows).combine_chunks()
    inputs = [
        ("base", table, 8),
        ("upsert", trip_updates(table, rows // 20, rows // 20), 2),
        ("one", trip_updates(table, 1, 0, seed=7), 1),
    ]
    for fraction in fractions:
        count = int(rows * fraction)
        new = 0 if fraction == 1 else count // 2
        parts = max(2, round(8 * fraction))
        for operation in operations:
            stored, added = {"upsert": (count - new, new), "insert": (0, count), "delete": (count, 0)}[operation]
            inputs.append((f"{operation} {fraction:g}", trip_updates(table, stored, added, seed=11), parts))
    for name, data, parts in inputs:
        (folder / name).mkdir(parents=True)
        for part in range(parts):
            low, high = data.num_rows * part // parts, data.num_rows * (part + 1) // parts
            pq.write_table(data.slice(low, high - low), folder / name / f"{part}.parquet")


def session(jar: str | None, connect: bool = False):
    """A session with local[2], as for the figures to beat.

    Args:
        jar: A bundle of real Hudi.
        connect: Whether it is a session of Spark Connect, which starts a server of its own.
    """
    from pyspark.sql import SparkSession  # not installed everywhere

    builder = SparkSession.builder.remote("local[2]") if connect else SparkSession.builder.master("local[2]")
    builder = (
        builder.config("spark.driver.memory", DRIVER_MEMORY)
        .config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.compression.codec", "snappy")
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    )  # fmt: skip
    if jar:
        builder = (
            builder.config("spark.driver.extraClassPath", jar).config("spark.executor.extraClassPath", jar)
            .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
            .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        )  # fmt: skip
    return builder.getOrCreate()


class ParquetEngine:
    """Plain Spark."""

    upserts = ()

    def __init__(self, spark, table_type: str) -> None:
        self.spark = spark

    def prepare(self, path: str) -> None:
        """Do nothing."""

    def write(self, operation: str, df, path: str, index: dict[str, str]) -> object:
        """Write Parquet files, one folder for each partition."""
        df.write.mode("overwrite").partitionBy("partitionpath").parquet(path)
        return None


class HoodieEngine:
    """This project."""

    upserts = UPSERTS

    def __init__(self, spark, table_type: str) -> None:
        self.spark = spark
        self.table_type = table_type

    def prepare(self, path: str) -> None:
        """Create an empty table."""
        from hoodie import HoodieTableMetaClient  # real Hudi's process does not need it

        HoodieTableMetaClient.init_table(
            path,
            table_name="trips",
            record_key_fields=["uuid"],
            partition_fields=["partitionpath"],
            ordering_fields=["ts"],
            table_type=self.table_type,
        )

    def write(self, operation: str, df, path: str, index: dict[str, str]) -> object:
        """Run one operation of the write client."""
        from hoodie import HoodieWriteConfig, SparkRDDWriteClient  # as above

        with SparkRDDWriteClient(self.spark, HoodieWriteConfig.from_properties(path, index)) as client:
            if operation == "compact":
                return client.compact()
            if operation == "delete":
                return client.delete(df.select("uuid", "partitionpath"))
            kind = operation if operation in ("bulk_insert", "insert") else "upsert"
            return getattr(client, kind)(df)


class HudiEngine:
    """Real Hudi through its data source."""

    upserts = UPSERTS

    def __init__(self, spark, table_type: str) -> None:
        self.spark = spark
        self.options = {"hoodie.datasource.write.table.type": table_type}

    def prepare(self, path: str) -> None:
        """Do nothing: the first write creates the table."""

    def write(self, operation: str, df, path: str, index: dict[str, str]) -> object:
        """Run one operation of the data source, with snappy like the other engines; a compaction is a procedure."""
        if operation == "compact":
            # By default nothing is planned before the fifth delta commit.
            options = "options => 'hoodie.compact.inline.max.delta.commits=1'"
            call = f"call run_compaction(op => 'scheduleandexecute', path => '{path}', {options})"
            if not self.spark.sql(call).collect():
                raise SystemExit(f"Hudi compacted nothing of {path}")
            return None
        kind = operation if operation in ("bulk_insert", "insert", "delete") else "upsert"
        (
            df.write.format("hudi").option("hoodie.table.name", "trips")
            .option("hoodie.datasource.write.operation", kind)
            .option("hoodie.datasource.write.recordkey.field", "uuid")
            .option("hoodie.datasource.write.partitionpath.field", "partitionpath")
            .option("hoodie.datasource.write.precombine.field", "ts").options(**index, **self.options)
            .option("hoodie.parquet.compression.codec", "snappy")
            .mode("overwrite" if operation == "bulk_insert" else "append").save(path)
        )  # fmt: skip
        return None


def compile_modules() -> None:
    """Write the byte code of hoodie's modules: without it each new process compiles them, which counts as its work."""
    spec = importlib.util.find_spec("hoodie")
    for folder in (spec.submodule_search_locations if spec is not None else None) or ():
        compileall.compile_dir(folder, quiet=2)


ENGINES = {"parquet": ParquetEngine, "hoodie": HoodieEngine, "connect": HoodieEngine, "hudi": HudiEngine}
BESIDE = {"hoodie": "hudi", "connect": "hoodie"}
"""The engine whose timing of the same run is compared with that of an engine."""


def open_engine(name: str, table_type: str):
    """The engine on a new session."""
    jar = os.environ.get("HOODIE_HUDI_BUNDLE") if name == "hudi" else None
    return ENGINES[name](session(jar, name == "connect"), table_type)


def check_table(path: str) -> None:
    """Stop if a table is not of version 9, or has no metadata table: engines would do different work.

    Args:
        path: The base path.
    """
    properties = Path(path, ".hoodie", "hoodie.properties").read_text(encoding="utf-8").splitlines()
    if f"hoodie.table.version={TABLE_VERSION}" not in properties:
        raise SystemExit(f"{path} is not of version {TABLE_VERSION}")
    if not Path(path, ".hoodie", "metadata", ".hoodie", "hoodie.properties").exists():
        raise SystemExit(f"{path} has no metadata table")


def timed_write(
    engine, operation: str, df, path: str, index: str, buckets: int
) -> tuple[float, dict[str, float], object]:
    """Write, and return the seconds, the CPU seconds by kind of process, and the outcome."""
    options = {"hoodie.index.type": index}
    if index == "BUCKET":
        options["hoodie.bucket.index.num.buckets"] = str(buckets)
    if index == "RECORD_INDEX":
        names = ("hoodie.metadata.record.index.enable", "hoodie.metadata.global.record.level.index.enable")
        options |= dict.fromkeys(names, "true")
    started, used = time.perf_counter(), cpu_by_kind()
    result = engine.write(operation, df, path, options)
    seconds = time.perf_counter() - started
    return seconds, {kind: value - used.get(kind, 0.0) for kind, value in cpu_by_kind().items()}, result


def run_first(step: str, name: str, data: str, work: str, index: str, buckets: int, table_type: str) -> None:
    """Run one step in the child process: make the table for the index, or time the session's first upsert into it."""
    base, path = f"{work}/{name}_{index}_base", f"{work}/{name}_{index}"
    if step == "time":
        copy(base, path)
    engine = open_engine(name, table_type)
    if step == "make":
        engine.prepare(fresh(base))
        timed_write(engine, "bulk_insert", engine.spark.read.parquet(f"{data}/base"), base, index, buckets)
        check_table(base)
    else:
        frame = engine.spark.read.parquet(f"{data}/upsert")
        *spent, result = timed_write(engine, "upsert", frame, path, index, buckets)
        print(json.dumps([name, f"first upsert ({index})", 0, *spent, steps_of(result)]), flush=True)


def run_fractions(name: str, data: str, work: str, runs: int, index: str, buckets: int, table_type: str) -> None:
    """Run in the child process: time each input of `make_data` with a name of its own, on a copy of one table."""
    engine = open_engine(name, table_type)
    inputs = sorted(path.name for path in Path(data).iterdir() if " " in path.name)
    frames = {kind: engine.spark.read.parquet(f"{data}/{kind}") for kind in ("base", "one", *inputs)}
    base, path = f"{work}/{name}_{index}_base", f"{work}/{name}_{index}"
    engine.prepare(fresh(base))
    timed_write(engine, "bulk_insert", frames["base"], base, index, buckets)
    check_table(base)
    copy(base, path)
    timed_write(engine, "upsert", frames["one"], path, index, buckets)
    for number in range(runs):
        for kind in inputs:
            copy(base, path)
            *spent, result = timed_write(engine, kind.partition(" ")[0], frames[kind], path, index, buckets)
            print(json.dumps([name, f"{kind} ({index})", number, *spent, steps_of(result)]), flush=True)


def run_engine(name: str, data: str, work: str, runs: int, indexes: list[str], buckets: int, table_type: str) -> None:
    """Run in the child process: print one JSON line for each timing."""
    engine = open_engine(name, table_type)
    frames = {kind: engine.spark.read.parquet(f"{data}/{kind}") for kind in ("base", "upsert", "one")}
    inputs = {"bulk_insert": "base", "one row": "one"}
    operations = (*UPSERTS, "compact") if table_type == "MERGE_ON_READ" else UPSERTS

    def write(operation: str, kind: str, path: str, index: str) -> tuple[float, dict[str, float], object]:
        return timed_write(engine, operation, frames[kind], path, index, buckets)

    def show(*values: object) -> None:
        print(json.dumps([name, *values]), flush=True)

    base, path = f"{work}/{name}_base", f"{work}/{name}"
    for layout in layouts_of(indexes) if engine.upserts else [[""]]:
        insert = "bulk_insert (BUCKET)" if layout == ["BUCKET"] else "bulk_insert"
        engine.prepare(fresh(f"{work}/warm"))
        write("bulk_insert", "one", f"{work}/warm", layout[0])
        for index in layout if engine.upserts else ():
            write("upsert", "one", f"{work}/warm", index)
        for number in range(runs):
            engine.prepare(fresh(base))
            *spent, result = write("bulk_insert", "base", base, layout[0])
            show(insert, number, *spent, steps_of(result))
            for index in layout if engine.upserts else ():
                copy(base, path)
                for operation in operations:
                    *spent, result = write(operation, inputs.get(operation, "upsert"), path, index)
                    show(f"{operation} ({index})", number, *spent, steps_of(result))
        if engine.upserts:
            check_table(base)
            count = engine.spark.read.parquet(*glob.glob(f"{base}/*/*/*/*.parquet")).count()
            show(f"rows of {insert}", 0, count, {}, [])


def layouts_of(indexes: list[str]) -> list[list[str]]:
    """Group the indexes that can share tables: BUCKET has its own layout."""
    layouts = [[index for index in indexes if index != "BUCKET"], [index for index in indexes if index == "BUCKET"]]
    return [layout for layout in layouts if layout]


def children(arguments: argparse.Namespace, indexes: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """The processes to run, one after the other: engine, indexes, and further arguments."""
    engines = arguments.engines.split(",")
    if arguments.fractions:
        writers = [(name, index) for index in indexes for name in engines if ENGINES[name].upserts]
        yield from ((name, index, ["--step", "fractions"]) for name, index in writers)
        return
    if not arguments.first:
        yield from ((name, arguments.index, []) for name in engines)
        return
    writers = [(name, index) for index in indexes for name in engines if ENGINES[name].upserts]
    yield from ((name, index, ["--step", "make"]) for name, index in writers)
    for _ in range(arguments.runs):
        yield from ((name, index, ["--step", "time"]) for name, index in writers)


def run_child(name: str, index: str, folder: str, *options: str) -> Iterator[tuple[str, float, dict[str, float], list]]:
    """Run an engine in a process of its own; yields operation, seconds, CPU seconds by kind, and steps of each timing.

    Args:
        name: The engine.
        index: One or more of `INDEXES`, with commas.
        folder: It has the inputs in ``data``, and gets the tables.
        options: Further arguments of this program.
    """
    command = [sys.executable, "-m", "benchmarks.spark_upsert", "--index", index, *options]
    command += ["--child", name, f"{folder}/data", folder]
    child = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, start_new_session=True)
    for line in child.stdout.splitlines():
        if line.startswith("["):
            _, operation, _, seconds, cpu, its_steps = json.loads(line)
            yield operation, seconds, cpu, its_steps


def beside(timing: Timing, peer: Timing) -> str:
    """The ratio of a timing to that of another engine, by seconds and by CPU seconds, as text.

    Args:
        timing: Of hoodie, or of hoodie on Spark Connect.
        peer: Of the engine that `BESIDE` names: Hudi, or hoodie without Connect.
    """
    times, cpu = peer.median / timing.median, statistics.median(peer.cpu) / statistics.median(timing.cpu)
    engine = peer.name.partition(" ")[0]
    if engine == "hudi":
        return f"   {times:5.2f} times faster than hudi, {cpu:.2f} times less CPU"
    return f"   {1 / times:5.2f} times the seconds of {engine}, {1 / cpu:.2f} times its CPU"


def main() -> None:
    """Run every engine and print the table."""
    description = f"{__doc__.splitlines()[0]} Tables are of version {TABLE_VERSION}, with a metadata table."
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--engines", default="parquet,hoodie,hudi", help=f"some of {','.join(ENGINES)}")
    parser.add_argument("--index", default="SIMPLE", help=f"one or more of {','.join(INDEXES)}")
    parser.add_argument("--buckets", type=int, default=8, help="file groups of each partition with BUCKET")
    parser.add_argument("--table-type", default=TABLE_TYPES[0], choices=TABLE_TYPES)
    parser.add_argument("--fractions", default="", help="parts of the table's rows, such as 0.1,0.2,0.4,0.6,1")
    parser.add_argument("--operations", default="upsert", help=f"with --fractions: some of {','.join(OPERATIONS)}")
    parser.add_argument("--first", action="store_true", help="time upserts that are the first of a Spark session")
    parser.add_argument("--profile", action="store_true", help="print each step's median and share")
    parser.add_argument("--json", metavar="FILE", help="write all figures, with the profiles")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=("make", "time", "fractions"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    indexes = arguments.index.split(",")
    if strange := [index for index in indexes if index not in INDEXES]:
        parser.error(f"--index: {', '.join(strange)}: give some of {', '.join(INDEXES)}")
    if strange := [name for name in arguments.engines.split(",") if name not in ENGINES]:
        parser.error(f"--engines: {', '.join(strange)}: give some of {', '.join(ENGINES)}")
    operations = arguments.operations.split(",")
    if strange := [operation for operation in operations if operation not in OPERATIONS]:
        parser.error(f"--operations: {', '.join(strange)}: give some of {', '.join(OPERATIONS)}")
    if arguments.child and arguments.step == "fractions":
        run_fractions(*arguments.child, arguments.runs, *indexes, arguments.buckets, arguments.table_type)
        return
    if arguments.child and arguments.step:
        run_first(arguments.step, *arguments.child, *indexes, arguments.buckets, arguments.table_type)
        return
    if arguments.child:
        run_engine(*arguments.child, arguments.runs, indexes, arguments.buckets, arguments.table_type)
        return
    compile_modules()
    machine = describe_machine("pyspark", "pyarrow")
    print(machine)
    found: dict[tuple[str, str], Timing] = {}
    with tempfile.TemporaryDirectory() as folder:
        fractions = [float(part) for part in arguments.fractions.split(",") if part]
        make_data(Path(folder) / "data", arguments.rows, fractions, operations)
        for name, index, step in children(arguments, indexes):
            options = ["--runs", str(arguments.runs), *step, "--buckets", str(arguments.buckets)]
            options += ["--table-type", arguments.table_type]
            for operation, seconds, cpu, its_steps in run_child(name, index, folder, *options):
                if operation.startswith("rows"):
                    if seconds != arguments.rows:
                        raise SystemExit(f"{name}, {operation}: {seconds:,} rows are stored, not {arguments.rows:,}")
                    continue
                timing = found.setdefault((name, operation), Timing(f"{name} {operation}", []))
                timing.add(seconds, cpu, its_steps)
    for (engine, operation), timing in found.items():
        floor = found.get(("parquet", operation.split(" (")[0]))
        peer = found.get((BESIDE.get(engine, ""), operation))
        print(timing.line(floor if engine == "hoodie" else None) + (beside(timing, peer) if peer else ""))
        if arguments.profile:
            kinds = ", ".join(f"{kind} {value:.1f}" for kind, value in timing.median_kinds.items())
            print(f"    CPU seconds: {kinds}", *timing.profile_lines(), sep="\n")
    print(describe_load())
    if arguments.json:
        sizes = {"rows": arguments.rows, "runs": arguments.runs}
        if "BUCKET" in indexes:
            sizes["buckets"] = arguments.buckets
        write_json(arguments.json, machine, sizes, found.values())


if __name__ == "__main__":
    main()
