"""What is on the disk when a file gets its name: a power cut never takes what completed instants refer to."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import attrs
import pyarrow as pa
import pytest

import hoodie
import hoodie.metadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles, metadata_folder
from hoodie.storage.storage_path import file_name

OPTIONS = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}


@attrs.define(eq=False)
class Disk:
    """What the disk has of files and names, by the calls of `os.fsync`.

    Attributes:
        contents: The inodes whose content was flushed.
        names: The names of each folder that were flushed, with their inodes.
        links: Each name that was given to a file, with what was on the disk at that moment.
    """

    contents: set[int] = attrs.field(factory=set)
    names: dict[str, dict[str, int]] = attrs.field(factory=dict)
    links: dict[str, frozenset[str]] = attrs.field(factory=dict)
    lock: threading.Lock = attrs.field(factory=threading.Lock)

    def flush(self, descriptor: int) -> None:
        """Stands for `os.fsync`."""
        status = os.fstat(descriptor)
        with self.lock:
            if not stat.S_ISDIR(status.st_mode):
                self.contents.add(status.st_ino)
                return
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            self.names[path] = {entry.name: entry.inode() for entry in os.scandir(path)}

    def note(self, path: str) -> None:
        """Note what is on the disk as a file gets its name."""
        with self.lock:
            self.links[path] = frozenset(
                f"{folder}/{name}"
                for folder, names in self.names.items()
                for name, inode in names.items()
                if inode in self.contents or not _size(f"{folder}/{name}")
            )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk, link = Disk(), os.link

    def noted_link(source: str, target: str) -> None:
        disk.note(target)
        link(source, target)

    monkeypatch.setattr(os, "fsync", disk.flush)
    monkeypatch.setattr(os, "link", noted_link)
    return disk


def write(path: str, number: int, version: int) -> None:
    rows = pa.table({"id": ["k"], "ts": [number], "day": ["a"]})
    hoodie.write_table(
        rows, path, table_name="t", record_key_fields="id", ordering_fields="ts", partition_fields="day",
        properties={"hoodie.write.table.version": version, "hoodie.clean.commits.retained": 1, **OPTIONS},
    )  # fmt: skip


def newest(snapshot: TableSnapshot) -> list[HoodieInstant]:
    return sorted(snapshot.active_timeline.filter_completed_instants(), key=lambda one: one.requested_time)[-2:]


@pytest.mark.parametrize("version", [6, 9])
def test_each_step_of_a_commit_is_on_the_disk_before_the_next_one(tmp_path: Path, disk: Disk, version: int) -> None:
    path = str(tmp_path / "t")
    for number in range(4):
        write(path, number, version)
    table = TableSnapshot.load(path)
    metadata_table = MetadataTableFiles.load(table).snapshot
    timeline, recorded = metadata_table.active_timeline, []
    for instant in newest(table):
        own = timeline.find(instant.requested_time)
        assert own is not None and own.is_completed
        stats = timeline.read_commit_metadata(own).write_stats
        log_files = {f"{metadata_folder(table)}/{stat.partition_path}/{file_name(stat.path or '')}" for stat in stats}
        pending = [f"{os.path.dirname(timeline.path_of(own))}/{own.requested_time}.deltacommit.{state}"
                   for state in ("requested", "inflight")]  # fmt: skip
        for log_file in log_files:
            assert set(pending) <= disk.links[log_file]
        assert log_files <= disk.links[timeline.path_of(own)]
        assert timeline.path_of(own) in disk.links[table.active_timeline.path_of(instant)]
        if instant.action is Action.COMMIT:
            written = table.active_timeline.read_commit_metadata(instant).write_stats
            data_files = {f"{path}/{stat.path}" for stat in written}
            assert data_files and data_files <= disk.links[table.active_timeline.path_of(instant)]
        recorded.append((str(instant.action), len(log_files)))
    # The commit writes to all file groups, and its clean to those of files and of the columns that it cleans.
    assert [action for action, _ in recorded] == ["commit", "clean"]
    assert all(count >= 3 for _, count in recorded)
    assert hoodie.metadata.validate(path).is_right
