"""The in-process client beside bare pyarrow and deltalake: write 1M rows, then upsert 100k, half of them new.

    python -m benchmarks.local_upsert [--rows 1000000] [--runs 5] [--profile] [--json FILE]

The floor does with pyarrow what any copy-on-write upsert must do at least: read the file, take the new rows in place
of the old
ones, append the others, write the file, with the same codec and its best settings. It keeps one file, no keys, no
meta columns, no commit.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.measure import Timing, copy, describe_machine, fresh, timed, trip_updates, trips, write_json
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig, HoodieWriteResult

DICTIONARY_COLUMNS = ["partitionpath", "rider", "driver"]


def floor_write(table: pa.Table, path: str) -> None:
    """Write a table with bare pyarrow: dictionaries only for columns that repeat."""
    pq.write_table(table, path, compression="snappy", use_dictionary=DICTIONARY_COLUMNS, store_schema=False)


def floor_upsert(path: str, incoming: pa.Table, target: str) -> None:
    """Read, filter, append, write."""
    stored = pq.read_table(path)
    kept = stored.filter(pc.invert(pc.is_in(stored["uuid"], value_set=incoming["uuid"].combine_chunks())))
    floor_write(pa.concat_tables([kept, incoming]), target)


def make_table(base_path: str) -> str:
    """An empty Hudi table of trips."""
    HoodieTableMetaClient.init_table(
        fresh(base_path), table_name="trips", record_key_fields=["uuid"], partition_fields=["partitionpath"],
        ordering_fields=["ts"],
    )  # fmt: skip
    return base_path


def client(base_path: str, index: str = "SIMPLE") -> HoodieLocalWriteClient:
    """A client with its default settings."""
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(base_path, {"hoodie.index.type": index}))


def delta_timings(folder: str, table: pa.Table, incoming: pa.Table, runs: int) -> list[Timing]:
    """The same with deltalake, where it is installed."""
    try:
        from deltalake import DeltaTable, write_deltalake  # a peer, not a dependency
    except ImportError:
        return []
    path, base = f"{folder}/delta", f"{folder}/delta_base"
    write = timed(
        "deltalake write",
        runs,
        lambda: fresh(base),
        lambda: write_deltalake(base, table, partition_by=["partitionpath"]),
    )

    def merge() -> None:
        merger = DeltaTable(path).merge(
            incoming, "s.uuid = t.uuid and s.partitionpath = t.partitionpath", source_alias="s", target_alias="t"
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    return [write, timed("deltalake merge", runs, lambda: copy(base, path), merge)]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="print each step's median and share")
    parser.add_argument("--json", metavar="FILE", help="write all figures, with the profiles")
    parser.add_argument("--no-peers", action="store_true")
    arguments = parser.parse_args()
    rows, runs = arguments.rows, arguments.runs
    table = trips(rows).combine_chunks()
    incoming = trip_updates(table, rows // 20, rows // 20)
    one_row = trip_updates(table, 1, 0)
    machine = describe_machine("pyarrow", "numpy", "deltalake")
    timings: list[Timing] = []

    def show(timing: Timing, other: Timing | None = None) -> None:
        timings.append(timing)
        print(timing.line(other), flush=True)
        if arguments.profile:
            print(*timing.profile_lines(), sep="\n", end="\n" if timing.profile else "")

    print(machine)
    print(f"{rows:,} rows x {table.num_columns} columns, upsert of {incoming.num_rows:,} (half new), medians of {runs}")
    with tempfile.TemporaryDirectory() as folder:
        single = f"{folder}/floor.parquet"
        write = timed("pyarrow write (floor)", runs, lambda: None, lambda: floor_write(table, single))
        floor = timed(
            "pyarrow upsert (floor)",
            runs,
            lambda: None,
            lambda: floor_upsert(single, incoming, f"{folder}/new.parquet"),
        )
        show(write)
        base, path = f"{folder}/hudi_base", f"{folder}/hudi"

        def bulk_insert() -> HoodieWriteResult:
            with client(base) as writer:
                return writer.bulk_insert(table)

        show(timed("hoodie bulk_insert", runs, lambda: make_table(base), bulk_insert), write)
        show(floor)
        for index in ("SIMPLE", "INMEMORY"):
            for name, records in (("upsert", incoming), ("upsert of one row", one_row)):

                def upsert(index: str = index, records: pa.Table = records) -> HoodieWriteResult:
                    with client(path, index) as writer:
                        return writer.upsert(records)

                show(timed(f"hoodie {name} ({index})", runs, lambda: copy(base, path), upsert), floor)
        if not arguments.no_peers:
            for timing in delta_timings(folder, table, incoming, runs):
                show(timing, floor)
    os.sync()
    if arguments.json:
        write_json(arguments.json, machine, {"rows": rows, "upsert_rows": incoming.num_rows, "runs": runs}, timings)


if __name__ == "__main__":
    main()
