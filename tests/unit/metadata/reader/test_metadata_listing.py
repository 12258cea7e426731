"""Readers list by the metadata table, and by storage where it cannot be trusted."""

from __future__ import annotations

import logging
import pickle
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie.common.table.table_metadata import FileSystemBackedTableMetadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieException, HoodieIOException, HoodieMissingFileException
from hoodie.metadata.reader import metadata_listing
from hoodie.metadata.reader.decoded_files import DECODED_FILES
from hoodie.metadata.reader.metadata_listing import MetadataListing, MetadataListingChoice, metadata_of
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.storage.storage_path import file_name
from tests.support.hookable_storage import Call, HookableStorage, hooked, use_for_local_files
from tests.support.metadata_tampering import Entry, copied, tables_with_metadata, tamper
from tests.support.table_builder import local_client

STALE = "trap_stale"
"""Its last two commits are not in its metadata table."""
WITH_METADATA = ["metadata_6", "v8_cow_mdt", "v9_cow_mdt", "v9_mor_mdt"]
WITH_OLDER_FILES = ["v6_mor_mdt", "hand_cow"]
"""Their newest commit wrote a part of the files."""
WITHOUT = {"hoodie.metadata.enable": False}


def loaded(table: Path) -> TableSnapshot:
    return TableSnapshot.load(str(table), listing_choice=MetadataListingChoice())


def hide(table: Path, name: str) -> None:
    """Let the metadata table say nothing of a file."""

    def change(key: str, row: dict[str, Any]) -> Iterable[Entry]:
        files = [(file, info) for file, info in row["files"] or () if file != name]
        yield key, {**row, "files": files}

    assert tamper(table, "files", MetadataPayload.FILES, change) > 0


def older_file(table: Path) -> str:
    """A base file that is read, of an older commit than the newest one."""
    snapshot = TableSnapshot.load(str(table))
    last = snapshot.active_timeline.completed_writes().last_instant
    assert last is not None
    files = hoodie.plan_read(str(table), options=WITHOUT).base_files
    return next(file.file_name for file in files if file.instant_time != last.requested_time)


@pytest.fixture(params=WITH_METADATA)
def table(request: pytest.FixtureRequest, later_tables: Path, tmp_path: Path) -> Path:
    return copied(later_tables / request.param / request.param, tmp_path)


def test_the_rows_of_real_tables_are_the_same_with_and_without(shared_tables: Path, later_tables: Path) -> None:
    count = 0
    for table in tables_with_metadata(shared_tables, later_tables):
        expected = hoodie.read_table(str(table), options=WITHOUT)
        assert hoodie.read_table(str(table)).equals(expected), table.name
        is_used = metadata_of(loaded(table)) is not None
        assert is_used == (table.name != STALE), table.name
        count += is_used
    assert count > 15


@pytest.mark.parametrize("table", WITH_OLDER_FILES, indirect=True)
def test_a_reader_sees_a_lie(table: Path) -> None:
    before = hoodie.read_table(str(table))
    hide(table, older_file(table))
    assert hoodie.read_table(str(table)).num_rows < before.num_rows
    assert hoodie.read_table(str(table), options=WITHOUT).equals(before)


@pytest.mark.parametrize("table", WITH_OLDER_FILES, indirect=True)
def test_the_read_client_and_streams_of_rows_see_a_lie(table: Path) -> None:
    keys = hoodie.read_table(str(table), columns=["_hoodie_record_key", "_hoodie_partition_path"])
    hidden = older_file(table)
    hide(table, hidden)
    wanted = [
        hoodie.HoodieKey(key, path) for key, path in zip(*(column.to_pylist() for column in keys.columns), strict=True)
    ]
    with hoodie.HoodieReadClient(str(table)) as client:
        assert client.read(wanted).num_rows < len(wanted)
    with hoodie.HoodieReadClient(str(table), options=WITHOUT) as client:
        assert client.read(wanted).num_rows == len(wanted)
    assert hoodie.dataset(str(table)).count_rows() < len(wanted)
    assert hoodie.dataset(str(table), options=WITHOUT).count_rows() == len(wanted)


@pytest.mark.parametrize("table", ["v8_cow_mdt", "v9_cow_mdt"], indirect=True)
def test_a_file_of_the_newest_commit_that_is_not_listed_is_an_error(table: Path) -> None:
    snapshot = TableSnapshot.load(str(table))
    last = snapshot.active_timeline.completed_writes().last_instant
    assert last is not None
    stat = next(iter(snapshot.active_timeline.read_commit_metadata(last).write_stats))
    hide(table, file_name(str(stat.path)))
    with pytest.raises(HoodieIOException, match=r"does not list it.*hoodie\.metadata\.enable=false"):
        hoodie.read_table(str(table))
    assert hoodie.read_table(str(table), options=WITHOUT).num_rows > 0


def written(path: Path, version: int, count: int) -> list[Path]:
    """A new table with a metadata table, each row in a partition and a commit of its own; returns the log files."""
    for number in range(count):
        hoodie.write_table(
            pa.table({"k": [f"k{number}"], "p": [f"p{number}"]}),
            str(path),
            properties={"hoodie.write.table.version": version, "hoodie.metadata.enable": True},
            **({} if number else {"record_key_fields": "k", "partition_fields": "p"}),
        )
    return sorted((path / ".hoodie/metadata/files").glob(".*.log.*"))


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_log_file_of_an_older_commit_that_is_gone_hides_nothing(
    tmp_path: Path, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t"
    # The first holds nothing; without the last one, the newest commit is not listed.
    older = written(path, version, 5)[1:-1]
    for log in older:
        data = log.read_bytes()
        log.unlink()
        caplog.clear()
        assert hoodie.read_table(str(path), columns=["k"])["k"].to_pylist() == [f"k{number}" for number in range(5)]
        (warning,) = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
        assert f"log file {log.name} of the partition files of" in warning
        assert "storage is listed instead" in warning
        log.write_bytes(data)
    older[0].unlink()
    more = pa.table({"k": ["k5"], "p": ["p5"]})
    with pytest.raises(HoodieMissingFileException, match=f"log file {older[0].name} of .* is missing"):
        hoodie.write_table(more, str(path))
    for is_enabled in (False, True):
        hoodie.write_table(more, str(path), properties={"hoodie.metadata.enable": is_enabled})
    caplog.clear()
    assert hoodie.read_table(str(path)).num_rows == 6
    assert metadata_of(loaded(path)) is not None
    assert not caplog.records


@pytest.mark.parametrize("version", [6, 8, 9])
def test_the_look_for_log_files_costs_no_request(tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    written(path, version, 3)
    with local_client(path) as client:
        client.delete_partitions(["p0"])
        client.clean()
        undone = client.upsert(pa.table({"k": ["k7"], "p": ["p7"]})).instant_time
        client.rollback(undone)
        client.upsert(pa.table({"k": [], "p": []}, schema=pa.schema([("k", pa.string()), ("p", pa.string())])))

    def calls_of_a_read() -> list[str]:
        DECODED_FILES.clear()
        calls: list[str] = []
        with hooked(monkeypatch, lambda name, file: calls.append(f"{name} {file}")):
            assert sorted(hoodie.read_table(str(path), columns=["k"])["k"].to_pylist()) == ["k1", "k2"]
        return sorted(calls)

    checked = calls_of_a_read()
    monkeypatch.setattr(MetadataTableFiles, "_check_log_files", lambda *_: None)
    assert checked == calls_of_a_read() != []


def damage_all(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and (path.suffix == ".hfile" or ".log." in path.name):
            path.write_bytes(b"\0" * 100)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda metadata: shutil.rmtree(metadata),
        lambda metadata: shutil.rmtree(metadata / "files"),
        lambda metadata: damage_all(metadata / "files"),
        lambda metadata: (metadata / ".hoodie/hoodie.properties").write_text("hoodie.table.version=99\n"),
    ],
    ids=["missing", "partition missing", "damaged", "unknown version"],
)
def test_storage_is_listed_with_a_warning_where_it_cannot_be_read(
    table: Path, spoil: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    before = hoodie.read_table(str(table))
    spoil(table / ".hoodie/metadata")
    with caplog.at_level(logging.WARNING):
        assert hoodie.read_table(str(table)).equals(before)
    (warning,) = [record for record in caplog.records if "storage is listed instead" in record.message]
    assert str(table) in warning.message
    caplog.clear()
    assert hoodie.read_table(str(table), options=WITHOUT).equals(before)
    assert "storage is listed instead" not in caplog.text


def test_a_metadata_table_that_lacks_a_commit_is_not_used(later_tables: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = loaded(later_tables / STALE / STALE)
    assert isinstance(found.committed_files, FileSystemBackedTableMetadata)
    assert "knows nothing of commit" in caplog.text


@attrs.frozen
class CountingStorage(HookableStorage):
    """Counts calls by their names and whether they are within the metadata table."""

    def around(self, call: Call) -> Any:
        where = "metadata" if "/.hoodie/metadata" in call.path else "timeline" if "/.hoodie" in call.path else "data"
        CALLS[where, "properties" if call.path.endswith("hoodie.properties") else call.name] += 1
        return call.apply()


CALLS: Counter[tuple[str, str]] = Counter()


def test_no_folder_of_data_is_listed_and_the_metadata_table_is_opened_once(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_for_local_files(monkeypatch, CountingStorage)
    CALLS.clear()
    hoodie.plan_read(str(table))
    assert not [call for call in CALLS if call[0] == "data"]
    assert CALLS["metadata", "properties"] == 1
    snapshot = loaded(table)
    for again in range(2):
        view = snapshot.view()
        view.load_partitions(view.list_partitions())
        if not again:
            CALLS.clear()
    assert not CALLS


def test_a_snapshot_keeps_the_choice_and_opens_the_metadata_table_anew(table: Path) -> None:
    snapshot = loaded(table)
    first = snapshot.committed_files
    assert isinstance(first, MetadataListing)
    assert snapshot.committed_files is first
    for other in (snapshot.refreshed(), snapshot.with_properties_reloaded(), pickle.loads(pickle.dumps(snapshot))):
        assert isinstance(other.committed_files, MetadataListing)
        assert other.committed_files is not first
    assert isinstance(snapshot.table_metadata, FileSystemBackedTableMetadata)
    assert isinstance(TableSnapshot.load(str(table)).committed_files, FileSystemBackedTableMetadata)
    closed = TableSnapshot.load(str(table), listing_choice=MetadataListingChoice(is_enabled=False))
    assert isinstance(closed.committed_files, FileSystemBackedTableMetadata)
    assert metadata_of(closed) is None


def test_a_listing_that_fails_later_is_that_of_storage(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Partitions are listed one by one, as in large tables.
    monkeypatch.setattr(metadata_listing, "_SMALL_BYTES", -1)
    snapshot = loaded(table)
    listing = snapshot.committed_files
    partitions = listing.list_partitions()
    assert metadata_of(snapshot) is listing
    shutil.rmtree(table / ".hoodie/metadata")
    DECODED_FILES.clear()
    found = listing.list_files_of(partitions)
    assert {status.path for files in found.values() for status in files} >= {
        status.path for path in partitions for status in snapshot.table_metadata.list_files(path)
    }
    assert metadata_of(snapshot) is None
    assert listing.list_files(partitions[0]) == found[partitions[0]]


def test_what_cannot_be_read_at_all_stays_an_error(tmp_path: Path) -> None:
    with pytest.raises(HoodieException):
        hoodie.read_table(str(tmp_path))
