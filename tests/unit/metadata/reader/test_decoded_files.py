"""Small files of metadata tables are read once for each process, and again when they have changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import hoodie
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.metadata.reader import metadata_record_reader
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.decoded_files import DECODED_FILES
from hoodie.metadata.reader.metadata_record_reader import MetadataRecords
from hoodie.metadata.records.record_merging import MergedRecords
from tests.support.hookable_storage import Call, HookableStorage


class CountingStorage(HookableStorage):
    """Counts the files of metadata tables that are opened."""

    opened: ClassVar[list[str]] = []

    def around(self, call: Call) -> object:
        if call.name in ("open", "read") and (".hfile" in call.path or ".log." in call.path):
            self.opened.append(call.path)
        return call.apply()


OPTIONS = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    for number in range(3):
        write(path, number)
    DECODED_FILES.clear()
    return path


def write(path: str, number: int) -> None:
    rows = pa.table({"id": [f"k{number}"], "ts": [number], "day": [f"d{number % 2}"]})
    hoodie.write_table(
        rows, path, table_name="t", record_key_fields="id", ordering_fields="ts", partition_fields="day",
        properties=OPTIONS,
    )  # fmt: skip


def listed(path: str) -> tuple[dict[str, list[str]], int]:
    """The files by partition, and how many files of the metadata table were opened."""
    snapshot = TableSnapshot.load(path)
    object.__setattr__(snapshot, "storage", storage := CountingStorage(path))
    storage.opened.clear()
    found = HoodieBackedTableMetadata.open(snapshot).list_all_files()
    return {name: [status.name for status in files] for name, files in found.items()}, len(storage.opened)


def test_files_are_opened_once(base_path: str) -> None:
    found, opened = listed(base_path)
    assert opened > 1
    assert listed(base_path) == (found, 0)


def test_a_commit_opens_what_is_new_only(base_path: str) -> None:
    before, _ = listed(base_path)
    write(base_path, 1)
    found, opened = listed(base_path)
    assert opened <= 1
    assert found != before and found.keys() == before.keys()


def test_a_file_that_was_replaced_is_read_again(base_path: str) -> None:
    found, _ = listed(base_path)
    log_files = [*Path(base_path, ".hoodie/metadata/files").glob(".files-*.log.*")]
    newest = max(log_files, key=lambda path: path.stat().st_mtime_ns)
    os.utime(newest, (1, 1))
    again, opened = listed(base_path)
    assert (again, opened) == (found, 1)


@pytest.mark.parametrize("wanted", [{"keys": ["d0"]}, {"prefixes": ["d", "d1"]}, {"prefixes": [""]}, {"keys": []}])
def test_chosen_records_are_those_of_files_that_are_not_kept(
    base_path: str, wanted: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = HoodieBackedTableMetadata.open(TableSnapshot.load(base_path)).read_records("files", **wanted)
    monkeypatch.setattr(metadata_record_reader, "SMALL_BYTES", -1)
    others = HoodieBackedTableMetadata.open(TableSnapshot.load(base_path)).read_records("files", **wanted)
    assert kept.keys.equals(others.keys) and kept.rows.equals(others.rows)


@pytest.mark.parametrize("partition", ["files", "column_stats", "partition_stats"])
def test_what_is_merged_onto_kept_records_is_what_all_files_are_merged_to(
    base_path: str, partition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> MetadataRecords:
        return HoodieBackedTableMetadata.open(TableSnapshot.load(base_path)).read_records(partition)

    for number in range(8):
        write(base_path, number % 3)
        kept = read()
        with monkeypatch.context() as patch:
            patch.setattr(metadata_record_reader, "SMALL_BYTES", -1)
            others = read()
        assert kept.keys.equals(others.keys) and kept.rows.equals(others.rows)


def test_records_of_a_commit_that_does_not_count_any_more_are_not_read(base_path: str) -> None:
    before, _ = listed(base_path)
    write(base_path, 1)
    assert listed(base_path)[0] != before
    snapshot = TableSnapshot.load(base_path)
    newest = snapshot.active_timeline.completed_writes().last_instant
    assert newest is not None
    snapshot.active_timeline.revert_completed_to_inflight(newest.requested_time, newest.action)
    assert listed(base_path)[0] == before


def test_a_slice_that_is_kept_merged_is_not_merged_again(base_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[int] = []
    merge = metadata_record_reader.merge_records

    def counted(payload: Any, keys: pa.Array, *arguments: Any, **named: Any) -> MergedRecords:
        merged.append(len(keys))
        return merge(payload, keys, *arguments, **named)

    monkeypatch.setattr(metadata_record_reader, "merge_records", counted)
    listed(base_path)
    assert merged
    merged.clear()
    listed(base_path)
    assert not merged
    write(base_path, 1)
    merged.clear()
    listed(base_path)
    assert len(merged) <= 1
