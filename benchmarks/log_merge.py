"""Compare the read of file groups with log files with the read of the same rows after they were compacted.

    python -m benchmarks.log_merge [--rows 1000000] [--share 0.1] [--commits 1] [--runs 7] [--json FILE]

hoodie writes a copy-on-write table. Rows with larger ordering values, for a share of the keys, are written into log
files beside its base files; in another copy of the table the same rows are upserted, which leaves what a compaction
would. Both are read in turn, all columns on all cores, and must hold the same rows. The log files come with the
positions of their rows in the base files, and without.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa

from benchmarks.local_upsert import make_table
from benchmarks.measure import Timing, copy, describe_load, describe_machine, trip_updates, trips, write_json
from hoodie import HoodieLocalWriteClient, HoodieWriteConfig
from hoodie.avro.schema_converters import to_avro
from hoodie.common.fs.file_names import make_log_file_name
from hoodie.common.model.file_slice import FileSlice, HoodieLogFile
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.io.file_group_reader import HoodieFileGroupReader, scan_file_groups
from hoodie.io.log.data_block import LogBlockFormat, encode_data_blocks
from hoodie.io.merging_reader import LogMerging
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.merge.merge_modes import TableMerging
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.mode_rules import rules_of_mode
from hoodie.merge.payload_rules import MergeMode
from hoodie.query.read_plan import all_columns

EVENT_TIME = MergeSpec("ts", rules_of_mode(TableMerging(MergeMode.EVENT_TIME_ORDERING), True))
FIRST_DELTA_COMMIT = 29990101000000000


def slices_of(path: str) -> tuple[TableSnapshot, pa.Schema, list[FileSlice]]:
    """The newest slices of a table."""
    snapshot = TableSnapshot.load(path)
    view = snapshot.view()
    view.load_partitions(view.list_partitions())
    slices = [found for partition in view.list_partitions() for found in view.latest_file_slices(partition)]
    return snapshot, all_columns(snapshot.load_schema()), slices


def with_logs(
    path: str, updates: pa.Table, commits: int, block_format: LogBlockFormat, has_positions: bool
) -> list[HoodieFileGroupReader]:
    """Write log files with the updates of each slice, one for each commit; returns readers of the slices."""
    snapshot, schema, slices = slices_of(path)
    avro_schema = to_avro(pa.schema([f for f in schema if f.name not in META_COLUMNS]), "trip", "hoodie.trip", True)
    readers = []
    for file_slice in slices:
        base_file = file_slice.sole_base_file
        keys_alone = HoodieReaderContext(snapshot.storage, schema, ["_hoodie_record_key"])
        base = HoodieFileGroupReader(keys_alone, file_slice)
        keys = pa.Table.from_batches(base.iter_batches())["_hoodie_record_key"].combine_chunks()
        of_slice = updates.filter(pa.compute.is_in(updates["uuid"], value_set=keys)).combine_chunks()
        positions = pa.compute.index_in(of_slice["uuid"], value_set=keys).to_numpy().astype(np.int64)
        bounds = np.linspace(0, of_slice.num_rows, commits + 1).astype(int).tolist()
        logs = []
        for number in range(commits):
            instant = str(FIRST_DELTA_COMMIT + number)
            rows = of_slice.slice(bounds[number], bounds[number + 1] - bounds[number])
            meta = {
                "_hoodie_commit_time": pa.repeat(instant, rows.num_rows),
                "_hoodie_commit_seqno": pa.array([f"{instant}_0_{row}" for row in range(rows.num_rows)]),
                "_hoodie_record_key": rows["uuid"],
                "_hoodie_partition_path": rows["partitionpath"],
                "_hoodie_file_name": pa.repeat(file_slice.file_id, rows.num_rows),
            }
            stored = pa.table([meta.get(f.name, rows[f.name] if f.name in rows.schema.names else None) for f in schema],
                              schema=schema)  # fmt: skip
            name = make_log_file_name(file_slice.file_id, instant, 1, "0-0-0")
            target = Path(base_file.path).parent / name
            blocks = encode_data_blocks(
                stored.combine_chunks(),
                avro_schema,
                instant,
                block_format,
                positions=positions[bounds[number] : bounds[number + 1]] if has_positions else None,
                positions_of=base_file.instant_time,
            )
            target.write_bytes(b"".join(blocks))
            logs.append(HoodieLogFile(str(target), file_slice.file_id, instant, 1, "0-0-0", target.stat().st_size))
        merged = attrs.evolve(file_slice, log_files=tuple(logs))
        context = HoodieReaderContext(snapshot.storage, schema, log_merging=LogMerging(EVENT_TIME))
        readers.append(HoodieFileGroupReader(context, merged))
    return readers


def rows_read(readers: Sequence[HoodieFileGroupReader]) -> tuple[int, float]:
    """The number of rows, and the sum of a column."""
    table = pa.Table.from_batches(scan_file_groups(readers))
    return table.num_rows, round(pa.compute.sum(table["fare"]).as_py(), 3)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--commits", type=int, default=1)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/table"
        make_table(path)
        table = trips(arguments.rows).combine_chunks()
        updates = trip_updates(table, int(arguments.rows * arguments.share), 0)
        with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, {})) as client:
            client.bulk_insert(table)
        compacted = copy(path, f"{folder}/compacted")
        with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(compacted, {})) as client:
            client.upsert(updates)
        snapshot, schema, slices = slices_of(compacted)
        compacted_rows = HoodieReaderContext(snapshot.storage, schema)
        reads: dict[str, Callable[[], tuple[int, float]]] = {
            "compacted": lambda: rows_read([HoodieFileGroupReader(compacted_rows, s) for s in slices])
        }
        for block_format in LogBlockFormat:
            for suffix in ("", " with positions"):
                target = copy(path, f"{folder}/{block_format}{suffix}")
                readers = with_logs(target, updates, arguments.commits, block_format, bool(suffix))
                name = f"logs of {block_format} blocks{suffix}"
                reads[name] = lambda readers=readers: rows_read(readers)  # type: ignore[misc]
        machine = describe_machine("pyarrow", "numpy")
        print(machine)
        sizes = f"{arguments.rows} rows in {len(slices)} file groups, {updates.num_rows} of them"
        print(f"{sizes} in {arguments.commits} log files each")
        found = {name: read() for name, read in reads.items()}
        if len(set(found.values())) > 1:
            raise SystemExit(f"the reads disagree: {found}")
        seconds: dict[str, list[float]] = {name: [] for name in reads}
        cpu: dict[str, list[float]] = {name: [] for name in reads}
        for _ in range(arguments.runs):
            for name, read in reads.items():
                started, cpu_started = time.perf_counter(), time.process_time()
                read()
                seconds[name].append(time.perf_counter() - started)
                cpu[name].append(time.process_time() - cpu_started)
    timings = {name: Timing(name, values, cpu=cpu[name]) for name, values in seconds.items()}
    for timing in timings.values():
        print(timing.line(timings["compacted"]))
    for what, found_of in (("time", seconds), ("processor time", cpu)):
        ratios = {
            name: statistics.median(values) / statistics.median(found_of["compacted"])
            for name, values in found_of.items()
        }
        print(f"{what}:", ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    print(describe_load())
    if arguments.json:
        sizes = {"rows": arguments.rows, "updates": updates.num_rows, "commits": arguments.commits}
        write_json(arguments.json, machine, sizes, timings.values())


if __name__ == "__main__":
    main()
