"""What a delta commit of a metadata table asks of storage: its files together, and nothing twice."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pyarrow as pa
import pytest

import hoodie
import hoodie.metadata
from tests.support.hookable_storage import Call, HookableStorage, use_for_local_files

OPTIONS = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}


@attrs.frozen
class WatchedStorage(HookableStorage):
    """Counts reads, and lets the first log files of two partitions wait for each other."""

    reads: ClassVar[Counter[str]] = Counter()
    together: ClassVar[list[threading.Barrier]] = []

    def around(self, call: Call) -> Any:
        path = call.path.partition("/.hoodie/")[2]
        if call.name == "read":
            self.reads[path] += 1
        if call.name == "create" and self.together and path.startswith(("metadata/files/", "metadata/partition_stats")):
            self.together[0].wait(timeout=5)
        return call.apply()


@pytest.fixture
def base_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(tmp_path / "t")
    write(path, 0)
    write(path, 1)
    use_for_local_files(monkeypatch, WatchedStorage)
    WatchedStorage.reads.clear()
    WatchedStorage.together.clear()
    return path


def write(path: str, number: int) -> None:
    rows = pa.table({"id": ["k"], "ts": [number], "day": ["a"]})
    hoodie.write_table(
        rows, path, table_name="t", record_key_fields="id", ordering_fields="ts", partition_fields="day",
        properties={"hoodie.write.table.version": 9, "hoodie.clean.automatic": "false", **OPTIONS},
    )  # fmt: skip


def test_the_log_files_of_all_partitions_are_written_at_the_same_time(base_path: str) -> None:
    WatchedStorage.together.append(threading.Barrier(2))
    write(base_path, 2)
    WatchedStorage.together.clear()
    assert hoodie.metadata.validate(base_path).is_right
    assert hoodie.read_table(base_path)["ts"].to_pylist() == [2]


def test_a_commit_reads_the_definitions_once_and_opens_the_metadata_table_once(base_path: str) -> None:
    write(base_path, 2)
    reads = WatchedStorage.reads
    assert reads[".index_defs/index.json"] == 1
    # For the write, which opens it once, and to see whether archiving is due.
    assert reads["metadata/.hoodie/hoodie.properties"] == 2
