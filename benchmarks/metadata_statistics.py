"""What statistics of columns and bloom filters cost: a commit of 100 files, and a table of 10,000.

    python -m benchmarks.metadata_statistics [--files 10000] [--runs 3] [--growth 1000,4000,16000] [--json FILE]

The files are small base files of eight columns, with a bloom filter for 1000 keys: what counts is their footers. The
records are computed, not written.

``--growth`` instead computes the ranges of a partition of so many files, which do not exist, for a commit that replaces
one of them: the first time in a process, and once more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from unittest import mock

import pyarrow as pa

from benchmarks import metadata_simulation
from benchmarks.measure import Timing, describe_load, describe_machine, timing, trips, write_json
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.fs.file_names import make_base_file_name
from hoodie.common.model.column_range import HoodieColumnRange, ValueType
from hoodie.common.model.commit_metadata import SCHEMA_KEY, HoodieCommitMetadata
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.decoded_files import DECODED_FILES
from hoodie.metadata.records.column_stats_records import FileColumnRanges, column_stats_entries
from hoodie.metadata.writer import table_metadata_writer
from hoodie.metadata.writer.file_statistics import DataFile, FileStatistics, FileStatisticsReader
from hoodie.metadata.writer.indexers import indexer_of
from hoodie.metadata.writer.partition_indexer import CommittedChange, IndexingContext, MetadataPartitionIndexer
from hoodie.storage.storage import FileStatus

_PARTITIONS = ("column_stats", "partition_stats", "bloom_filters")
_COMMIT_FILES = 100


def make_table(path: Path) -> None:
    """A table with one commit of as many files as there are partitions."""
    HoodieTableMetaClient.init_table(
        str(path), table_name="t", record_key_fields=["uuid"], partition_fields=["city"], table_version=9
    )
    properties = {"hoodie.index.bloom.num_entries": 1000, "hoodie.bloom.index.filter.type": "SIMPLE"}
    rows = trips(_COMMIT_FILES * 20)
    cities = [f"city-{number % _COMMIT_FILES}" for number in range(len(rows))]
    rows = rows.append_column("city", pa.array(cities, pa.string()))
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(path), properties)) as client:
        client.bulk_insert(rows)


def copies(path: Path, count: int) -> dict[str, list[FileStatus]]:
    """Links to the files of a table under other names, until there are so many."""
    stored = sorted(path.glob("city*/*.parquet"))
    found: dict[str, list[FileStatus]] = {file.parent.name: [] for file in stored}
    for number in range(count):
        file = stored[number % len(stored)]
        name = f"{number:08x}-{file.name[9:]}"
        target = file.with_name(name)
        if not target.exists():
            os.link(file, target)
        found[file.parent.name].append(FileStatus(str(target), target.stat().st_size, 0))
    return found


def _commit(indexer: MetadataPartitionIndexer, context: Callable[[], IndexingContext], change: CommittedChange) -> None:
    indexer.of_commit(context(), change)


def _initial(
    indexer: MetadataPartitionIndexer, context: Callable[[], IndexingContext], listing: dict[str, list[FileStatus]]
) -> None:
    indexer.initial(context(), listing, "0")


def measure(path: Path, files: int, runs: int) -> list[Timing]:
    """The seconds of each partition, for one commit and for a whole table."""
    table = TableSnapshot.load(str(path))
    (instant,) = table.active_timeline.completed_writes()
    metadata = table.active_timeline.read_commit_metadata(instant)
    change = CommittedChange(instant.requested_time, instant.action, metadata)

    def context() -> IndexingContext:
        return IndexingContext(table, LocalEngineContext(), HoodieMetadataConfig(), {})

    found = []
    for partition in _PARTITIONS:
        indexer = indexer_of(partition, 9)
        found.append(timing(f"{partition}: {_COMMIT_FILES} files", runs, partial(_commit, indexer, context, change)))
    listing = copies(path, files)
    for partition in _PARTITIONS:
        indexer = indexer_of(partition, 9)
        name = f"{partition}: {files} files"
        found.append(timing(name, runs, partial(_initial, indexer, context, listing)))
    return found


def _known_statistics(reader: FileStatisticsReader, files: Sequence[DataFile]) -> FileStatistics:
    """Statistics of files that do not exist: each differs, and few have the smallest or largest values."""
    found = []
    for number, file in enumerate(files):
        low, high = (f"{place}{number % 1000:04d}".encode() for place in "ab")
        ranges = (HoodieColumnRange(name, ValueType.STRING, low, high, 100, 0, 10, 10) for name in reader.columns)
        found.append(FileColumnRanges(*file, tuple(ranges)))
    entries = column_stats_entries(found, reader.stats_version)
    paths = pa.array([file.partition_path for file in found for _ in file.ranges], pa.string())
    return FileStatistics(entries, paths, {(file.partition_path, file.file_name): 100 for file in found})


def measure_growth(path: str, count: int, runs: int) -> None:
    """Print the CPU milliseconds of the ranges of a partition of many files."""
    HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields="id", partition_fields="day", ordering_fields="ts", table_version=9
    )
    timeline = TableSnapshot.load(path).active_timeline
    instant_time = timeline.create_new_instant_time(Action.COMMIT)
    timeline.transition_requested_to_inflight(instant_time, Action.COMMIT)
    ((partition_path, files),) = metadata_simulation.simulated_files(path, count, instant_time, count).items()
    timeline.save_as_complete(instant_time, Action.COMMIT, metadata_simulation.commit_of_one({partition_path: files}))
    later = str(int(instant_time) + 1)
    file_id = files[count // 2].name.partition("_")[0]
    name = make_base_file_name(file_id, "0-1-3", later)
    stat = HoodieWriteStat(file_id, partition_path, f"{partition_path}/{name}", instant_time, file_size_bytes=1)
    metadata = HoodieCommitMetadata({partition_path: (stat,)}, {SCHEMA_KEY: metadata_simulation.SCHEMA})
    with (
        mock.patch.object(table_metadata_writer, "committed_files", return_value={partition_path: files}),
        mock.patch.object(FileStatisticsReader, "read_batch", _known_statistics),
    ):
        writer = table_metadata_writer.HoodieBackedTableMetadataWriter(TableSnapshot.load(path))
        writer.initialise(["files", "column_stats", "partition_stats"])
        cpu: tuple[list[float], list[float]] = [], []
        for _ in range(runs):
            DECODED_FILES.clear()
            for times in cpu:
                opened = HoodieBackedTableMetadata.open(TableSnapshot.load(path))
                context = IndexingContext(
                    opened.table, LocalEngineContext(1), HoodieMetadataConfig(), opened.definitions, opened
                )
                used = time.process_time()
                indexer_of("partition_stats", 9).of_commit(context, CommittedChange(later, Action.COMMIT, metadata))
                times.append((time.process_time() - used) * 1000)
    print(f"{count:6,} files: {median(cpu[0]):4.0f} CPU ms, once more {median(cpu[1]):4.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--growth", help="numbers of files of a partition, with commas")
    parser.add_argument("--json")
    given = parser.parse_args()
    machine = describe_machine()
    print(machine)
    with TemporaryDirectory() as folder:
        for count in map(int, given.growth.split(",") if given.growth else ()):
            measure_growth(f"{folder}/{count}", count, given.runs)
        if given.growth:
            print(describe_load())
            return
        path = Path(folder) / "t"
        make_table(path)
        timings = measure(path, given.files, given.runs)
        shutil.rmtree(path)
    for one in timings:
        count = int(one.name.split()[1])
        print(f"{one.line()}   {one.median / count * 1000:.2f} ms a file")
    print(describe_load())
    if given.json:
        write_json(given.json, machine, {"files": given.files}, timings)


if __name__ == "__main__":
    main()
