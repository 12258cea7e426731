"""Compare the in-process client with pyarrow and other libraries: write 1M rows, upsert 100k, half of them new.

    python -m benchmarks.local_upsert [--rows 1000000] [--runs 5] [--peers deltalake,duckdb,lance,hudi_rs06]
        [--indexes "SIMPLE,INMEMORY,BLOOM,RECORD_INDEX,RECORD_INDEX and statistics,BUCKET"]
        [--parts upserts,one_file,merge_on_read,no_metadata,memory] [--profile] [--json FILE]
    python -m benchmarks.local_upsert --warm [--indexes INMEMORY,BUCKET] [--peers lance]

The floor is the least work of any copy-on-write upsert, done with pyarrow: read the file, drop the rows whose key comes
again, append the incoming rows, write the file. It uses the same codec with its best settings (dictionaries only for
columns with repeated values; reading uses all cores, writing one file cannot). It does less than Hudi's format needs:
one file and no partitions, no meta columns (five more, one of them a second copy of the key), no bloom filter, no
merging by an ordering field, no commit.

Tables have the format version and the metadata table that users get by default. RECORD_INDEX and BUCKET have tables of
their own. An upsert of all rows, and of one row into one base file of all rows without a partition, are compared with
the floor of the same rows.

The peers do the same work in their own formats, and less as well: their functions name what they leave out. hudi-rs
(the module ``hudi_rs06``) keeps a record index and statistics of columns, as ``RECORD_INDEX and statistics`` does.

The parts ``merge_on_read`` (with a compaction) and ``no_metadata`` time other tables, beside hudi-rs alone. The part
``memory`` runs writes in processes of their own, and prints their peak memory (``VmHWM``): above a process that holds
the input, and of the whole process. At the end each goal is printed beside its figure.

``--warm`` times merge-on-read tables instead: clients that stay open write one row, and 100k rows, again and again, in
turn with each other and with lance on one dataset. Each first upsert is not counted. BUCKET and ``INMEMORY in logs``
append new rows too; INMEMORY puts them into base files.
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hoodie
from benchmarks.goals import Goal, goal_lines
from benchmarks.local_read import resident
from benchmarks.measure import (
    Timing,
    copy,
    describe_load,
    describe_machine,
    fresh,
    timed,
    trip_updates,
    trips,
    write_json,
)
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig, HoodieWriteResult

PARTITIONS = ("partitionpath",)
DICTIONARY_COLUMNS = ["partitionpath", "rider", "driver"]
BUCKETS = 2
IN_LOGS = " in logs"
STATISTICS = " and statistics"
WITHOUT_METADATA = " without metadata table"
SAME_AS_HUDI_RS = f"RECORD_INDEX{STATISTICS}"
DELETED_KEYS = 1000
WHERE = "rider = 'rider-00042'"
"""Rows of all file groups, one in 10,000."""
CHANGED = {"fare": 9.5}
Show = Callable[[Timing, Timing | None], None]


def floor_write(table: pa.Table, path: str) -> None:
    """Write a table with pure pyarrow: dictionaries only for columns with repeated values."""
    pq.write_table(table, path, compression="snappy", use_dictionary=DICTIONARY_COLUMNS, store_schema=False)


def floor_upsert(path: str, incoming: pa.Table, target: str) -> None:
    """Read a file, filter it, append rows and write it."""
    stored = pq.read_table(path)
    kept = stored.filter(pc.invert(pc.is_in(stored["uuid"], value_set=incoming["uuid"].combine_chunks())))
    floor_write(pa.concat_tables([kept, incoming]), target)


def make_table(base_path: str, table_type: str = "COPY_ON_WRITE", partition_fields: Sequence[str] = PARTITIONS) -> str:
    """An empty Hudi table of trips."""
    HoodieTableMetaClient.init_table(
        fresh(base_path), table_name="trips", record_key_fields=["uuid"], partition_fields=list(partition_fields),
        ordering_fields=["ts"], table_type=table_type,
    )  # fmt: skip
    return base_path


def client(base_path: str, index: str = "SIMPLE") -> HoodieLocalWriteClient:
    """A client with its default settings; with BUCKET, as many file groups as the bulk insert makes on two cores."""
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(base_path, index_properties(index)))


def index_properties(index: str) -> dict[str, str]:
    """The options of an index; ``INMEMORY in logs`` also appends new rows to log files.

    Args:
        index: Its name, perhaps with `IN_LOGS`, `STATISTICS` or `WITHOUT_METADATA`.
    """
    name = index.removesuffix(IN_LOGS).removesuffix(STATISTICS).removesuffix(WITHOUT_METADATA)
    properties = {"hoodie.index.type": name}
    if index.endswith(WITHOUT_METADATA):
        properties["hoodie.metadata.enable"] = "false"
    if index.endswith(STATISTICS):
        properties["hoodie.metadata.index.column.stats.enable"] = "true"
    if index == "BUCKET":
        properties["hoodie.bucket.index.num.buckets"] = str(BUCKETS)
    if index.endswith(IN_LOGS):
        properties["hoodie.index.inmemory.insert.into.logs"] = "true"
    return properties


def delta_timings(folder: str, data: Mapping[str, pa.Table], runs: int) -> list[Timing]:
    """deltalake: merges by key and partition, and ignores the ordering field."""
    from deltalake import DeltaTable, write_deltalake  # a peer, not a dependency

    path, base, table, incoming = f"{folder}/delta", f"{folder}/delta_base", data["table"], data["upsert"]

    def write() -> None:
        write_deltalake(base, table, partition_by=["partitionpath"])

    def merge() -> None:
        merger = DeltaTable(path).merge(
            incoming, "s.uuid = t.uuid and s.partitionpath = t.partitionpath", source_alias="s", target_alias="t"
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    return [
        timed("deltalake write", runs, lambda: fresh(base), write),
        timed("deltalake merge", runs, lambda: copy(base, path), merge),
    ]


def duckdb_timings(folder: str, data: Mapping[str, pa.Table], runs: int) -> list[Timing]:
    """duckdb: a table with a primary key in its own file, changed in place."""
    import duckdb  # a peer, not a dependency

    path, base, table, incoming = (
        Path(f"{folder}/duck.db"),
        Path(f"{folder}/duck_base.db"),
        data["table"],
        data["upsert"],
    )
    columns = ", ".join(f"{name} = excluded.{name}" for name in table.column_names if name != "uuid")

    def write() -> None:
        with duckdb.connect(str(base)) as connection:
            connection.register("given", table)
            connection.execute("create table trips as select * from given limit 0")
            connection.execute("alter table trips add primary key (uuid)")
            connection.execute("insert into trips select * from given")

    def fresh_copy() -> None:
        path.unlink(missing_ok=True)
        path.with_suffix(".db.wal").unlink(missing_ok=True)
        shutil.copyfile(base, path)

    def upsert() -> None:
        with duckdb.connect(str(path)) as connection:
            connection.register("given", incoming)
            connection.execute(f"insert into trips select * from given on conflict (uuid) do update set {columns}")

    return [
        timed("duckdb insert (primary key)", runs, lambda: base.unlink(missing_ok=True), write),
        timed("duckdb upsert (primary key)", runs, fresh_copy, upsert),
    ]


def lance_timings(folder: str, data: Mapping[str, pa.Table], runs: int) -> list[Timing]:
    """lance: marks old rows as deleted and appends; the old files stay as they are (merge on read)."""
    import lance  # a peer, not a dependency

    path, base, table, incoming = f"{folder}/lance", f"{folder}/lance_base", data["table"], data["upsert"]

    def merge() -> None:
        merger = lance.dataset(path).merge_insert("uuid")
        merger.when_matched_update_all().when_not_matched_insert_all().execute(incoming)

    return [
        timed("lance write", runs, lambda: fresh(base), lambda: lance.write_dataset(table, base)),
        timed("lance merge_insert", runs, lambda: copy(base, path), merge),
    ]


@attrs.frozen
class FloorWriter:
    """pyarrow, with one file.

    Attributes:
        name: The engine.
        suffix: The end of the names of its timings.
    """

    name: str = "pyarrow"
    suffix: str = " (floor)"

    def create(self, path: str, table: pa.Table) -> None:
        """Write a new file."""
        floor_write(table, path)

    def upsert(self, path: str, records: pa.Table) -> None:
        """Write the file again, with the records."""
        floor_upsert(path, records, path)


@attrs.frozen
class HoodieWriter:
    """The in-process client, with a new client for each call.

    Attributes:
        index: As `index_properties` knows it.
        table_type: The type of its tables.
    """

    index: str = "SIMPLE"
    table_type: str = "COPY_ON_WRITE"

    name = "hoodie"

    @property
    def suffix(self) -> str:
        """The end of the names of its timings."""
        return f" ({self.index})"

    def create(self, path: str, table: pa.Table) -> None:
        """Make a table of all rows."""
        make_table(path, self.table_type)
        with client(path, self.index) as writer:
            writer.bulk_insert(table)

    def upsert(self, path: str, records: pa.Table) -> None:
        """Upsert rows."""
        with client(path, self.index) as writer:
            writer.upsert(records)

    def compact(self, path: str) -> None:
        """Merge log files into base files."""
        with client(path, self.index) as writer:
            if writer.compact() is None:
                raise ValueError(f"hoodie compacted nothing of {path}")


@attrs.frozen
class HudiRsWriter:
    """hudi-rs, with a table that is opened for each call.

    Attributes:
        table_type: ``cow`` or ``mor``.
        metadata: Whether tables have a metadata table, with a record index and statistics of columns.
    """

    table_type: str = "cow"
    metadata: bool = True

    name = "hudi-rs"
    suffix = ""

    def create(self, path: str, table: pa.Table) -> None:
        """Make a table of all rows."""
        import hudi_rs06  # a peer, not a dependency

        made = hudi_rs06.create(
            path, ["uuid"], list(PARTITIONS), ["ts"], self.table_type, metadata=self.metadata,
            record_index=self.metadata, hive_style=False,
        )  # fmt: skip
        made.append(table)

    def upsert(self, path: str, records: pa.Table) -> None:
        """Upsert rows."""
        import hudi_rs06  # a peer, not a dependency

        hudi_rs06.open(path).upsert(records)

    def compact(self, path: str) -> None:
        """Merge log files into base files."""
        import hudi_rs06  # a peer, not a dependency

        hudi_rs06.open(path).compact()


Writer = HoodieWriter | HudiRsWriter


def hudi_rs_timings(folder: str, data: Mapping[str, pa.Table], runs: int) -> list[Timing]:
    """hudi-rs: one writer, so it looks for no other writer's commit. It cleans nothing."""
    import hudi_rs06  # a peer, not a dependency

    path, base = f"{folder}/hudi_rs", f"{folder}/hudi_rs_base"

    writer = HudiRsWriter()
    timings = [timed("hudi-rs create", runs, lambda: fresh(base), lambda: writer.create(base, data["table"]))]
    for name in UPSERTS:

        def upsert(records: pa.Table = data[name]) -> None:
            writer.upsert(path, records)

        timings.append(timed(f"hudi-rs {name}", runs, lambda: copy(base, path), upsert))
    keys = data["delete"]
    pairs = list(zip(keys["uuid"].to_pylist(), keys["partitionpath"].to_pylist(), strict=True))

    def delete() -> None:
        if (found := hudi_rs06.open(path).delete_keys(pairs)["num_deletes"]) != len(pairs):
            raise ValueError(f"hudi-rs deleted {found} of {len(pairs)} keys")

    def delete_by_filter() -> None:
        hudi_rs06.open(path).delete(WHERE)

    def update_by_filter() -> None:
        hudi_rs06.open(path).update(WHERE, pa.table({name: [value] for name, value in CHANGED.items()}))

    changes = dict(zip(CHANGES, (delete, delete_by_filter, update_by_filter), strict=True))
    return [
        *timings,
        *(timed(f"hudi-rs {name}", runs, lambda: copy(base, path), change) for name, change in changes.items()),
    ]


UPSERTS = ("upsert", "upsert of all rows", "upsert of one row")
CHANGES = (f"delete of {DELETED_KEYS:,} keys", "delete by a filter", "update by a filter")
PARTS = ("upserts", "one_file", "merge_on_read", "no_metadata", "memory")
PEERS = {"deltalake": delta_timings, "duckdb": duckdb_timings, "lance": lance_timings, "hudi_rs06": hudi_rs_timings}
PEER_PACKAGES = ("deltalake", "duckdb", "pylance")


def time_hoodie(
    folder: str,
    data: Mapping[str, pa.Table],
    indexes: list[str],
    runs: int,
    floors: Mapping[str, Timing],
    show: Show,
) -> None:
    """Time a bulk insert of the client, and upserts, deletes and an update with each index."""
    base, path = f"{folder}/hudi_base", f"{folder}/hudi"
    laid_out = None
    for index in indexes:
        # These indexes need a layout or a metadata table of their own; the others share tables.
        layout = index if index.startswith(("BUCKET", "RECORD_INDEX")) else ""
        if layout != laid_out:

            def bulk_insert(index: str = index) -> HoodieWriteResult:
                with client(base, index) as writer:
                    return writer.bulk_insert(data["table"])

            name = "hoodie bulk_insert" + (f" ({layout})" if layout else "")
            show(timed(name, runs, lambda: make_table(base), bulk_insert), floors["table"])
            laid_out = layout
        for name in UPSERTS:

            def upsert(index: str = index, records: pa.Table = data[name]) -> HoodieWriteResult:
                with client(path, index) as writer:
                    return writer.upsert(records)

            show(timed(f"hoodie {name} ({index})", runs, lambda: copy(base, path), upsert), floors.get(name))

        def delete(index: str = index) -> HoodieWriteResult:
            with client(path, index) as writer:
                return writer.delete(data["delete"])

        def delete_by_filter(index: str = index) -> HoodieWriteResult:
            with client(path, index) as writer:
                return writer.delete(where=WHERE)

        def update_by_filter(index: str = index) -> HoodieWriteResult:
            return hoodie.Table(path, properties=index_properties(index)).update(WHERE, CHANGED)

        changes = dict(zip(CHANGES, (delete, delete_by_filter, update_by_filter), strict=True))
        for name, change in changes.items():
            show(timed(f"hoodie {name} ({index})", runs, lambda: copy(base, path), change), None)
    shutil.rmtree(path, ignore_errors=True)


def time_one_file(folder: str, table: pa.Table, one_row: pa.Table, runs: int, show: Show) -> None:
    """Time an upsert of one row into a table without partitions, whose rows are in one base file."""
    base, path = make_table(f"{folder}/one_file_base", partition_fields=()), f"{folder}/one_file"
    properties = {"hoodie.bulkinsert.shuffle.parallelism": "1", "hoodie.parquet.max.file.size": str(1 << 30)}
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(base, properties)) as writer:
        writer.bulk_insert(table)
    if (count := len(HoodieTableMetaClient.load(base).files())) != 1:
        raise ValueError(f"the table has {count} base files, not one")

    def upsert() -> HoodieWriteResult:
        with client(path) as writer:
            return writer.upsert(one_row)

    name = f"hoodie one row into one file of {table.num_rows:,}"
    show(timed(name, runs, lambda: copy(base, path), upsert), None)


def time_kind(
    folder: str, data: Mapping[str, pa.Table], writers: Sequence[Writer], kind: str, runs: int, show: Show
) -> None:
    """Time creation, an upsert and an upsert of one row of several writers; for merge-on-read a compaction too.

    Args:
        folder: For the tables.
        data: ``table`` and the inputs of `UPSERTS`.
        writers: hoodie, and perhaps hudi-rs.
        kind: A word for the kind of tables, for the names of timings.
        runs: The number of runs.
        show: Called with each timing.
    """
    for writer in writers:
        base, path, with_logs = (f"{folder}/{kind} {name}" for name in ("base", "run", "with logs"))

        def name_of(work: str, writer: Writer = writer) -> str:
            return f"{writer.name} {kind} {work}{writer.suffix}"

        def create(writer: Writer = writer, base: str = base) -> None:
            writer.create(base, data["table"])

        show(timed(name_of("create"), runs, lambda base=base: fresh(base), create), None)
        for work in ("upsert", "upsert of one row"):

            def upsert(writer: Writer = writer, path: str = path, records: pa.Table = data[work]) -> None:
                writer.upsert(path, records)

            show(timed(name_of(work), runs, lambda base=base, path=path: copy(base, path), upsert), None)
        if kind != MERGE_ON_READ:
            continue
        copy(base, with_logs)
        writer.upsert(with_logs, data["upsert"])

        def compact(writer: Writer = writer, path: str = path) -> None:
            writer.compact(path)

        name = name_of("compaction")
        show(timed(name, runs, lambda start=with_logs, path=path: copy(start, path), compact), None)
    for name in ("base", "run", "with logs"):
        shutil.rmtree(f"{folder}/{kind} {name}", ignore_errors=True)


def peaks_of(folder: str, data: Mapping[str, pa.Table], with_hudi_rs: bool, runs: int) -> dict[str, dict[str, float]]:
    """Peak memory of writes, each in a process of its own, in MB: medians.

    Args:
        folder: For the tables and inputs.
        data: ``table`` and ``upsert``.
        with_hudi_rs: Whether to measure hudi-rs too.
        runs: The number of runs of each.

    Returns:
        Name of the write -> ``above`` a process that holds the input, and of the ``whole`` process.
    """
    inputs = {}
    for work, name in (("create", "table"), ("upsert", "upsert")):
        inputs[work] = f"{folder}/{work}.parquet"
        pq.write_table(data[name], inputs[work])
    found: dict[str, dict[str, float]] = {}
    for kind, engine, arguments in MEASURED:
        if engine == "hudi-rs" and not with_hudi_rs:
            continue
        writer, base, path = WRITERS[engine](*arguments), f"{folder}/memory", f"{folder}/memory_run"
        for work in ("create", "upsert"):
            measured = []
            for _ in range(runs):
                for other in (base, path) if work == "create" else (path,):
                    if os.path.isfile(other):
                        os.remove(other)
                    fresh(other)
                if work == "upsert":
                    (shutil.copyfile if os.path.isfile(base) else copy)(base, path)
                specification = json.dumps([engine, arguments, work, base if work == "create" else path, inputs[work]])
                call = [sys.executable, "-m", "benchmarks.local_upsert", "--child", specification]
                done = subprocess.run(call, stdout=subprocess.PIPE, check=True, text=True)
                measured.append(json.loads(done.stdout))
            name = f"{writer.name} {kind}{work}{writer.suffix}"
            found[name] = {
                key: round(statistics.median(one[key] for one in measured) / (1 << 20), 1) for key in measured[0]
            }
            print(f"{name:<68} {found[name]['above']:7.0f} MB above the input, whole {found[name]['whole']:7.0f} MB")
    return found


def write_once(engine: str, arguments: list[Any], work: str, path: str, records: str) -> None:
    """Write in this process, and print its peak memory as JSON (Linux)."""
    writer = WRITERS[engine](*arguments)
    table = pq.read_table(records).combine_chunks()
    pa.default_memory_pool().release_unused()
    # The peak starts again: reading the input is not part of it.
    Path("/proc/self/clear_refs").write_text("5")
    held = resident("VmRSS")
    getattr(writer, work)(path, table)
    print(json.dumps({"above": resident("VmHWM") - held, "whole": resident("VmHWM")}))


MERGE_ON_READ, NO_METADATA = "merge-on-read", "no-metadata"
WRITERS: dict[str, Callable[..., FloorWriter | Writer]] = {
    "pyarrow": FloorWriter,
    "hoodie": HoodieWriter,
    "hudi-rs": HudiRsWriter,
}
MEASURED: Sequence[tuple[str, str, list[Any]]] = (
    ("", "pyarrow", []),
    ("", "hoodie", ["SIMPLE"]),
    ("", "hoodie", [SAME_AS_HUDI_RS]),
    ("", "hudi-rs", []),
    (f"{MERGE_ON_READ} ", "hoodie", [SAME_AS_HUDI_RS, "MERGE_ON_READ"]),
    (f"{MERGE_ON_READ} ", "hudi-rs", ["mor"]),
)
"""The kind of table, the engine and the arguments of its writer, of each peak."""


def goals_of(rows: int) -> list[Goal]:
    """The goals of the in-process client, in the order of the table.

    Args:
        rows: The number of rows of the table.
    """
    write, upsert, all_rows = (f"pyarrow {name} (floor)" for name in ("write", *UPSERTS[:2]))
    goals = [Goal("hoodie bulk_insert", 1.2, write), Goal("hoodie bulk_insert (BUCKET)", 1.4, write)]
    goals += [Goal(f"hoodie upsert ({index})", 0.95, upsert) for index in ("SIMPLE", "INMEMORY", "BLOOM")]
    goals += [Goal("hoodie upsert (BUCKET)", 1.4, upsert)]
    goals += [Goal("hoodie upsert (RECORD_INDEX)", 1.1, "hoodie upsert (BLOOM)")]
    goals += [Goal(f"hoodie upsert of all rows ({index})", 1.2, all_rows) for index in ("SIMPLE", "BUCKET")]
    goals += [Goal(f"hoodie one row into one file of {rows:,}", 0.1)]
    goals += [Goal(f"hoodie bulk_insert ({SAME_AS_HUDI_RS})", 3, "hudi-rs create", True)]
    goals += [Goal(f"hoodie {name} ({SAME_AS_HUDI_RS})", 3, f"hudi-rs {name}", True) for name in UPSERTS]
    for index in ("SIMPLE", SAME_AS_HUDI_RS):
        goals += [Goal(f"hoodie {name} ({index})", 2, f"hudi-rs {name}", True) for name in CHANGES]
    for kind, index, works in (
        (MERGE_ON_READ, SAME_AS_HUDI_RS, ("create", "upsert", "upsert of one row", "compaction")),
        (NO_METADATA, f"SIMPLE{WITHOUT_METADATA}", ("create", "upsert", "upsert of one row")),
    ):
        goals += [Goal(f"hoodie {kind} {work} ({index})", 3, f"hudi-rs {kind} {work}", True) for work in works]
    return goals


def time_warm(folder: str, table: pa.Table, indexes: list[str], with_lance: bool, runs: int) -> list[Timing]:
    """Time upserts of clients that stay open, on merge-on-read tables, in turn with lance."""
    timings: list[Timing] = []
    rows = table.num_rows
    for size, updates, inserts in (("one row", 1, 0), (f"{rows // 10:,} rows", rows // 20, rows // 20)):
        found: dict[str, Timing] = {}
        with ExitStack() as stack:
            upserts: dict[str, Callable[[pa.Table], object]] = {}
            for index in indexes:
                base, properties = make_table(f"{folder}/{index}", "MERGE_ON_READ"), index_properties(index)
                config = HoodieWriteConfig.from_properties(base, properties)
                writer = stack.enter_context(HoodieLocalWriteClient(config))
                writer.bulk_insert(table)
                upserts[f"hoodie ({index})"] = writer.upsert
            if with_lance:
                import lance  # a peer, not a dependency

                dataset = lance.write_dataset(table, fresh(f"{folder}/lance"))

                def merge(records: pa.Table, dataset: lance.LanceDataset = dataset) -> None:
                    merger = dataset.merge_insert("uuid")
                    merger.when_matched_update_all().when_not_matched_insert_all().execute(records)

                upserts["lance"] = merge
            for number in range(runs + 1):
                records = trip_updates(table, updates, inserts, seed=number)
                for name, upsert in upserts.items():
                    started, cpu_started = time.perf_counter(), time.process_time()
                    upsert(records)
                    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu_started
                    if number:
                        timing = found.setdefault(name, Timing(f"{name} {size}", []))
                        timing.seconds.append(seconds * 1000)
                        timing.cpu.append(cpu * 1000)
        print(f"{size}, milliseconds and CPU milliseconds: median (minimum)")
        for timing in found.values():
            line = f"{timing.name:<40} {timing.median:8.1f} ({min(timing.seconds):8.1f})"
            line += f"   CPU {statistics.median(timing.cpu):8.1f} ({min(timing.cpu):8.1f})"
            if (peer := found.get("lance")) is not None and timing is not peer:
                less = statistics.median(timing.cpu) / statistics.median(peer.cpu)
                line += f"   {timing.median / peer.median:5.2f} x lance, CPU {less:5.2f} x"
            print(line, flush=True)
        timings += found.values()
    return timings


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="print each step's median and share")
    parser.add_argument("--json", metavar="FILE", help="write all figures, with the profiles")
    parser.add_argument("--warm", action="store_true", help="time merge-on-read clients that stay open, beside lance")
    parser.add_argument("--indexes", default=f"SIMPLE,INMEMORY,BLOOM,RECORD_INDEX,RECORD_INDEX{STATISTICS},BUCKET")
    parser.add_argument("--peers", default=",".join(PEERS), help="those to time where they are installed; may be empty")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        write_once(*json.loads(arguments.child))
        return
    parts = arguments.parts.split(",")
    if strange := [part for part in parts if part not in PARTS]:
        parser.error(f"--parts: {', '.join(strange)}: give some of {', '.join(PARTS)}")
    rows, runs = arguments.rows, arguments.runs
    table = trips(rows).combine_chunks()
    incoming = trip_updates(table, rows // 20, rows // 20)
    one_row = trip_updates(table, 1, 0)
    machine = describe_machine("pyarrow", "numpy", *PEER_PACKAGES)
    timings: list[Timing] = []

    def show(timing: Timing, other: Timing | None) -> None:
        timings.append(timing)
        print(timing.line(other), flush=True)
        if arguments.profile:
            print(*timing.profile_lines(), sep="\n", end="\n" if timing.profile else "")

    print(machine)
    print(f"{rows:,} rows x {table.num_columns} columns, upsert of {incoming.num_rows:,} (half new), medians of {runs}")
    with tempfile.TemporaryDirectory() as folder:
        if arguments.warm:
            with_lance = "lance" in arguments.peers.split(",") and find_spec("lance") is not None
            time_warm(folder, table, arguments.indexes.split(","), with_lance, runs)
            print(describe_load())
            return
        single, new = f"{folder}/floor.parquet", f"{folder}/new.parquet"
        deleted = table.select(["uuid", *PARTITIONS]).slice(0, DELETED_KEYS)
        all_rows = trip_updates(table, rows, 0)
        data = {"table": table, "delete": deleted}
        data |= dict(zip(UPSERTS, (incoming, all_rows, one_row), strict=True))
        peers = [peer for peer in arguments.peers.split(",") if peer]
        with_hudi_rs = "hudi_rs06" in peers and find_spec("hudi_rs06") is not None
        write = timed("pyarrow write (floor)", runs, lambda: None, lambda: floor_write(table, single))
        show(write, None)
        floors = {"table": write}
        for name in UPSERTS[:2] if "upserts" in parts else ():
            floors[name] = timed(
                f"pyarrow {name} (floor)", runs, lambda: None, lambda name=name: floor_upsert(single, data[name], new)
            )
            show(floors[name], None)
        if "upserts" in parts:
            time_hoodie(folder, data, list(filter(None, arguments.indexes.split(","))), runs, floors, show)
        if "one_file" in parts:
            time_one_file(folder, table, one_row, runs, show)
        for peer in peers if "upserts" in parts else ():
            if find_spec(peer) is None:
                print(f"{peer}: left out, it is not installed")
                continue
            for timing, other in zip(
                PEERS[peer](folder, data, runs), chain(floors.values(), repeat(None)), strict=False
            ):
                show(timing, other)
        for part, kind, indexes, type_of_table, of_hudi_rs in (
            ("merge_on_read", MERGE_ON_READ, ("SIMPLE", SAME_AS_HUDI_RS), "MERGE_ON_READ", HudiRsWriter("mor")),
            ("no_metadata", NO_METADATA, (f"SIMPLE{WITHOUT_METADATA}",), "COPY_ON_WRITE", HudiRsWriter("cow", False)),
        ):
            if part in parts:
                writers: list[Writer] = [HoodieWriter(index, type_of_table) for index in indexes]
                time_kind(folder, data, [*writers, *([of_hudi_rs] if with_hudi_rs else [])], kind, runs, show)
        peaks = peaks_of(folder, data, with_hudi_rs, runs) if "memory" in parts else {}
    os.sync()
    print(*goal_lines(goals_of(rows), timings), describe_load(), sep="\n")
    if arguments.json:
        sizes = {"rows": rows, "upsert_rows": incoming.num_rows, "runs": runs}
        write_json(arguments.json, machine, sizes, timings, peak_mb=peaks)


if __name__ == "__main__":
    main()
