"""Compare the in-process client with pyarrow and other libraries: write 1M rows, upsert 100k, half of them new.

    python -m benchmarks.local_upsert [--rows 1000000] [--runs 5] [--peers deltalake,duckdb,lance,hudi_rs06]
        [--indexes "SIMPLE,INMEMORY,BLOOM,RECORD_INDEX,RECORD_INDEX and statistics,BUCKET"] [--profile] [--json FILE]
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

``--warm`` times merge-on-read tables instead: clients that stay open write one row, and 100k rows, again and again, in
turn with each other and with lance on one dataset. Each first upsert is not counted. BUCKET and ``INMEMORY in logs``
append new rows too; INMEMORY puts them into base files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from itertools import chain, repeat
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hoodie
from benchmarks.measure import Timing, copy, describe_machine, fresh, timed, trip_updates, trips, write_json
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig, HoodieWriteResult

PARTITIONS = ("partitionpath",)
DICTIONARY_COLUMNS = ["partitionpath", "rider", "driver"]
BUCKETS = 2
IN_LOGS = " in logs"
STATISTICS = " and statistics"
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
    """The options of an index; ``INMEMORY in logs`` also appends new rows to log files."""
    properties = {"hoodie.index.type": index.removesuffix(IN_LOGS).removesuffix(STATISTICS)}
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


def hudi_rs_timings(folder: str, data: Mapping[str, pa.Table], runs: int) -> list[Timing]:
    """hudi-rs: one writer, so it looks for no other writer's commit. It cleans nothing."""
    import hudi_rs06  # a peer, not a dependency

    path, base = f"{folder}/hudi_rs", f"{folder}/hudi_rs_base"

    def create() -> None:
        hudi_rs06.create(base, ["uuid"], list(PARTITIONS), ["ts"], "cow", hive_style=False).append(data["table"])

    timings = [timed("hudi-rs create", runs, lambda: fresh(base), create)]
    for name in UPSERTS:

        def upsert(records: pa.Table = data[name]) -> None:
            hudi_rs06.open(path).upsert(records)

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

    changes = {
        f"delete of {DELETED_KEYS:,} keys": delete,
        "delete by a filter": delete_by_filter,
        "update by a filter": update_by_filter,
    }
    return [
        *timings,
        *(timed(f"hudi-rs {name}", runs, lambda: copy(base, path), change) for name, change in changes.items()),
    ]


UPSERTS = ("upsert", "upsert of all rows", "upsert of one row")
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

        changes = {
            f"delete of {DELETED_KEYS:,} keys": delete,
            "delete by a filter": delete_by_filter,
            "update by a filter": update_by_filter,
        }
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
    arguments = parser.parse_args()
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
            return
        single, new = f"{folder}/floor.parquet", f"{folder}/new.parquet"
        deleted = table.select(["uuid", *PARTITIONS]).slice(0, DELETED_KEYS)
        all_rows = trip_updates(table, rows, 0)
        data = {"table": table, "delete": deleted}
        data |= dict(zip(UPSERTS, (incoming, all_rows, one_row), strict=True))
        write = timed("pyarrow write (floor)", runs, lambda: None, lambda: floor_write(table, single))
        show(write, None)
        floors = {"table": write}
        for name in UPSERTS[:2]:
            floors[name] = timed(
                f"pyarrow {name} (floor)", runs, lambda: None, lambda name=name: floor_upsert(single, data[name], new)
            )
            show(floors[name], None)
        time_hoodie(folder, data, list(filter(None, arguments.indexes.split(","))), runs, floors, show)
        time_one_file(folder, table, one_row, runs, show)
        for peer in filter(None, arguments.peers.split(",")):
            if find_spec(peer) is None:
                print(f"{peer}: left out, it is not installed")
                continue
            for timing, other in zip(
                PEERS[peer](folder, data, runs), chain(floors.values(), repeat(None)), strict=False
            ):
                show(timing, other)
    os.sync()
    if arguments.json:
        write_json(arguments.json, machine, {"rows": rows, "upsert_rows": incoming.num_rows, "runs": runs}, timings)


if __name__ == "__main__":
    main()
