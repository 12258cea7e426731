"""Log files with which file groups begin are known by name and size, and are not read."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.file_slice import HoodieLogFile
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.io.log.delete_block import decode_delete_block
from hoodie.io.log.log_block import HoodieLogBlockType
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.decoded_files import DECODED_FILES
from hoodie.metadata.reader.empty_log_files import is_empty_log_file
from hoodie.storage.storage import FileStatus
from tests.support.hookable_storage import Call, HookableStorage, use_for_local_files
from tests.support.metadata_tampering import tables_with_metadata

OPTIONS = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
INITIAL = "00000000000000000"


def log_file_of(path: str, size_bytes: int) -> HoodieLogFile:
    name = parse_log_file_name(path.rpartition("/")[2])
    assert name is not None
    return HoodieLogFile.of(name, FileStatus(path, size_bytes, 0))


def test_what_is_taken_for_empty_holds_nothing_in_real_tables(shared_tables: Path, later_tables: Path) -> None:
    empty, others = 0, 0
    for table in tables_with_metadata(shared_tables, later_tables):
        for path in (table / ".hoodie/metadata").glob("*/.*.log.*"):
            if path.suffix == ".crc":
                continue
            data = path.read_bytes()
            blocks = list(read_log_blocks(data, str(path)))
            if not is_empty_log_file(log_file_of(str(path), len(data))):
                others += 1
                continue
            empty += 1
            (block,) = blocks
            assert block.block_type is HoodieLogBlockType.DELETE
            assert not [deletes for deletes in decode_delete_block(block) if len(deletes.record_keys)]
    assert empty > 50
    assert others > 100


@pytest.mark.parametrize(
    ("name", "size", "is_empty"),
    [
        (f".files-0000-0_{INITIAL}.log.1_0-0-0", 80, True),
        (".files-0000-0_00000000000000010.log.1_0-0-0", 80, True),
        (".files-0000-0_20260101000000000010.log.1_0-0-0", 83, True),
        (f".files-0000-0_{INITIAL}.log.1_0-0-0", 79, False),
        (f".files-0000-0_{INITIAL}.log.1_0-0-0", 81, False),
        (f".files-0000-0_{INITIAL}.log.2_0-0-0", 80, False),
        (f".files-0000-0_{INITIAL}.log.1_1-0-0", 80, False),
        (".files-0000-0_20260101000000000.log.1_0-0-0", 80, False),
        (".files-0000-0_20260101000000000001.log.1_0-0-0", 83, False),
    ],
)
def test_name_and_size_tell(name: str, size: int, is_empty: bool) -> None:
    assert is_empty_log_file(log_file_of(f"/t/files/{name}", size)) is is_empty


# --- requests ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class WatchedStorage(HookableStorage):
    """Notes what is asked of a table; some calls wait until others have begun."""

    calls: ClassVar[list[tuple[str, str]]] = []
    together: ClassVar[list[tuple[str, threading.Barrier]]] = []

    def around(self, call: Call) -> Any:
        path = call.path.partition("/.hoodie/")[2].rstrip("/")
        self.calls.append((call.name, path))
        for part, barrier in self.together:
            if path == part and call.name in ("read", "list"):
                barrier.wait(timeout=5)
        return call.apply()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(tmp_path / "t")
    for number in range(3):
        rows = pa.table({"id": [f"k{number}"], "ts": [number], "day": [f"d{number % 2}"]})
        hoodie.write_table(
            rows, path, table_name="t", record_key_fields="id", ordering_fields="ts", partition_fields="day",
            properties={"hoodie.write.table.version": 9, **OPTIONS},
        )  # fmt: skip
    use_for_local_files(monkeypatch, WatchedStorage)
    WatchedStorage.calls.clear()
    WatchedStorage.together.clear()
    DECODED_FILES.clear()
    return path


def test_a_plan_asks_storage_for_nothing_that_it_does_not_need(table: str) -> None:
    plan = hoodie.plan_read(table, filters=pc.field("ts") > 1)
    assert len(plan.slices) == 1
    calls, looks = WatchedStorage.calls, [("list", "timeline"), ("read", "hoodie.properties")]
    # A second look at the timeline and at the properties ends a plan.
    assert calls[-2:] == looks and len(calls) == len(set(calls)) + 2
    assert not [path for _, path in calls if path.endswith("index.json")]
    logs = [path for _, path in calls if ".log." in path]
    assert logs
    assert not [path for path in logs if INITIAL[:14] in path]


def test_an_initial_log_file_that_holds_something_is_read(table: str) -> None:
    folder = Path(table, ".hoodie/metadata/files")
    (initial,) = folder.glob(".files-*_00000000000000*.log.1_0-0-0")
    newest = max(path for path in folder.glob(".files-*.log.*") if path != initial)
    holds_nothing = initial.read_bytes()
    initial.write_bytes(holds_nothing + newest.read_bytes())
    before = HoodieBackedTableMetadata.open(TableSnapshot.load(table)).list_all_files()
    assert ("read", f"metadata/files/{initial.name}") in WatchedStorage.calls
    newest.write_bytes(holds_nothing)
    DECODED_FILES.clear()
    assert HoodieBackedTableMetadata.open(TableSnapshot.load(table)).list_all_files() == before


def test_base_file_and_log_files_are_read_at_the_same_time(table: str) -> None:
    folder = Path(table, ".hoodie/metadata/files")
    (base,) = folder.glob("*.hfile")
    log_files = sorted(path.name for path in folder.glob(".files-*.log.*") if path.stat().st_size > 80)
    together = threading.Barrier(2)
    metadata = HoodieBackedTableMetadata.open(TableSnapshot.load(table))
    WatchedStorage.together[:] = [(f"metadata/files/{name}", together) for name in (base.name, log_files[0])]
    assert len(metadata.list_all_files()) == 2


def test_the_partitions_of_statistics_are_listed_at_the_same_time(table: str) -> None:
    together = threading.Barrier(2)
    WatchedStorage.together[:] = [("metadata/partition_stats", together), ("metadata/column_stats", together)]
    assert len(hoodie.plan_read(table, filters=pc.field("ts") > 1).slices) == 1
