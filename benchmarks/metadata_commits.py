"""What a metadata table costs each local commit, in turn with and without one.

Beside the time it prints the CPU time of the process, which says more on a busy machine, and how often a file or folder
is flushed to the disk.

python -m benchmarks.metadata_commits --commits 30 --version 9

With ``--keys`` it shows what a log compaction of a record index is good for: what one costs beside a compaction, and
what a look-up of a key reads before and after it.

python -m benchmarks.metadata_commits --keys 1000000 --commits 20
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.decoded_files import DECODED_FILES
from hoodie.metadata.writer.metadata_table_services import MetadataTableCompactor
from hoodie.storage import storage_factory
from hoodie.storage.local_storage import LocalStorage

PARTITIONS = {
    "none": {"hoodie.metadata.enable": "false"},
    "files": {"hoodie.metadata.enable": "true"},
    "files and column_stats": {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"},
}
ROWS = 1000
"""The rows of a commit, with ``--keys``."""


class CountingStorage(LocalStorage):
    """Counts the files that are opened, their ranges that are read, and the bytes of these."""

    __slots__ = ()
    counts: ClassVar[list[int]] = [0, 0, 0]

    def read(self, path: str) -> bytes:
        """See `HoodieStorage.read`."""
        content = super().read(path)
        for place, count in enumerate((1, 1, len(content))):
            self.counts[place] += count
        return content

    def open_input_file(self, path: str) -> pa.NativeFile:
        """See `HoodieStorage.open_input_file`."""
        self.counts[0] += 1
        return pa.PythonFile(_CountingStream(super().open_input_file(path)), mode="r")


class _CountingStream:
    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream

    def read(self, count: int = -1) -> bytes:
        content = bytes(self._stream.read(count))
        CountingStorage.counts[1] += 1
        CountingStorage.counts[2] += len(content)
        return content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def show_log_compaction(folder: Path, keys: int, commits: int, version: int) -> None:
    """Print the cost of a log compaction and of a compaction of one record index, and of a look-up before and after."""
    path = str(folder / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="id", table_version=version)
    options = {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.compact.max.delta.commits": 10 * commits,
        "hoodie.index.type": "RECORD_INDEX",
    }
    for number in range(-1, commits):
        # The second commit builds the index.
        given = options if number >= 0 else {"hoodie.metadata.enable": "false"}
        first, count = (0, keys) if number < 0 else (keys + number * ROWS, ROWS)
        ids = pa.array([f"key-{one:012}" for one in range(first, first + count)])
        with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, given)) as client:
            client.bulk_insert(pa.table({"id": ids, "v": pa.array(range(count))}))
    show_look_up("before", path)
    last, wanted = (
        keys + commits * ROWS,
        HoodieMetadataConfig(
            log_compaction_enable=True, log_compaction_blocks_threshold=3, compact_max_delta_commits=10 * commits
        ),
    )
    for name, config in (("log compaction", wanted), ("compaction", HoodieMetadataConfig(compact_max_delta_commits=1))):
        copy = str(folder / name.replace(" ", "_"))
        shutil.copytree(path, copy)
        DECODED_FILES.clear()
        metadata = HoodieBackedTableMetadata.open(TableSnapshot.load(copy))
        started = time.perf_counter()
        assert MetadataTableCompactor(metadata, config).compact_if_due()
        taken = time.perf_counter() - started
        timeline = TableSnapshot.load(copy).active_timeline
        # Readers take it once a later instant begins.
        timeline.create_new_instant_time(Action.COMMIT)
        before, after = (set(Path(one, ".hoodie/metadata").glob("[!.]*/*")) for one in (path, copy))
        new = [file for file in after if Path(path, file.relative_to(copy)) not in before]
        size = sum(file.stat().st_size for file in new)
        print(f"{name:16} {taken * 1000:8.0f} ms, {size / 1e6:8.2f} MB written")
        show_look_up(f"after a {name}", copy)
    print(f"{last} keys, {commits} delta commits of {ROWS} keys")


def show_look_up(when: str, path: str) -> None:
    """Print what a look-up of one key reads, in a process that has read nothing before."""
    storage_factory._STORAGES["file"], plain = CountingStorage, storage_factory._STORAGES["file"]
    DECODED_FILES.clear()
    metadata = HoodieBackedTableMetadata.open(TableSnapshot.load(path))
    metadata.files.file_groups("record_index")
    CountingStorage.counts[:] = [0, 0, 0]
    started = time.perf_counter()
    found = metadata.read_record_index(pa.array([f"key-{7:012}"]))
    taken = time.perf_counter() - started
    opened, ranges, size = CountingStorage.counts
    storage_factory._STORAGES["file"] = plain
    print(f"    look-up {when:24} {taken * 1000:6.1f} ms, {opened:3} files, {ranges:3} ranges, {size / 1e3:8.1f} kB")
    assert found.num_rows == 1


def main() -> None:
    """Print the median time of a commit of one row for each kind of metadata table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=30, help="measured ones, after as many others")
    parser.add_argument("--version", type=int, default=9, choices=(6, 8, 9))
    parser.add_argument("--keys", type=int, help="of a record index that is log compacted")
    arguments = parser.parse_args()
    if arguments.keys is not None:
        with tempfile.TemporaryDirectory() as folder:
            show_log_compaction(Path(folder), arguments.keys, arguments.commits, arguments.version)
        return
    with tempfile.TemporaryDirectory() as folder:
        clients = {}
        for name, options in PARTITIONS.items():
            path = str(Path(folder, name.replace(" ", "_")))
            HoodieTableMetaClient.init_table(
                path, table_name="t", record_key_fields="id", partition_fields="day", ordering_fields="ts",
                table_version=arguments.version,
            )  # fmt: skip
            clients[name] = HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, options))
        flushed, flush = [0], os.fsync

        def counted_flush(descriptor: int) -> None:
            flushed[0] += 1
            flush(descriptor)

        os.fsync = counted_flush
        taken: dict[str, list[tuple[float, float, int]]] = {name: [] for name in clients}
        for number in range(2 * arguments.commits):
            row = pa.table({"id": [f"k{number % 7}"], "day": ["a"], "ts": [number], "v": [number * 1.5]})
            for name, client in clients.items():
                started = time.perf_counter(), time.process_time(), flushed[0]
                client.upsert(row)
                ended = time.perf_counter(), time.process_time(), flushed[0]
                if number >= arguments.commits:
                    taken[name].append(
                        ((ended[0] - started[0]) * 1000, (ended[1] - started[1]) * 1000, ended[2] - started[2])
                    )
        base = [statistics.median(column) for column in zip(*taken["none"], strict=True)]
        for name, rows in taken.items():
            time_ms, cpu_ms, count = (statistics.median(column) for column in zip(*rows, strict=True))
            print(
                f"{name:24} {time_ms:6.1f} ms a commit, {time_ms - base[0]:+6.1f} ms; "
                f"CPU {cpu_ms:6.1f} ms, {cpu_ms - base[1]:+6.1f} ms; {count:.0f} flushes"
            )
        for client in clients.values():
            client.close()


if __name__ == "__main__":
    main()
