"""What statistics of columns and bloom filters cost: a commit of 100 files, and a table of 10,000.

    python -m benchmarks.metadata_statistics [--files 10000] [--runs 3] [--json FILE]

The files are small base files of eight columns, with a bloom filter for 1000 keys: what counts is their footers. The
records are computed, not written.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from benchmarks.measure import Timing, describe_machine, timing, trips, write_json
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.local_engine_context import LocalEngineContext
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json")
    given = parser.parse_args()
    machine = describe_machine()
    print(machine)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        make_table(path)
        timings = measure(path, given.files, given.runs)
        shutil.rmtree(path)
    for one in timings:
        count = int(one.name.split()[1])
        print(f"{one.line()}   {one.median / count * 1000:.2f} ms a file")
    if given.json:
        write_json(given.json, machine, {"files": given.files}, timings)


if __name__ == "__main__":
    main()
