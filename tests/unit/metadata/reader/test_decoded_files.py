"""Small files of metadata tables are read once for each process, and again when they have changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

import hoodie
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.metadata.reader import metadata_record_reader
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.decoded_files import DECODED_FILES
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
