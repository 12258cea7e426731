"""Every action keeps the metadata table right, in tables of all versions and both types."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie import HoodieLocalWriteClient
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieException
from hoodie.metadata import HoodieBackedTableMetadata
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.metadata_table_checks import MetadataReader, check_equals_a_new_one, listed_partitions
from tests.support.services_table import ServicesTable
from tests.support.table_builder import read_rows, rows
from tests.support.timeline_files import timeline_folder

FILES = {"hoodie.metadata.enable": "true"}
ALL = {
    **FILES,
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": 1,
}
OFF = {"hoodie.metadata.enable": "false"}
OF_ALL = {"files", "column_stats", "bloom_filters", "record_index"}
Kind = tuple[int, str]


@pytest.fixture(
    params=[(version, kind) for version in (6, 8, 9) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")],
    ids=lambda param: f"{param[0]}-{param[1]}",
)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> ServicesTable:
    """A table with a metadata table and some rows."""
    return made(tmp_path / "t", request.param)


def made(path: Path, kind: Kind, properties: dict[str, Any] = FILES) -> ServicesTable:
    version, table_type = kind
    cls = MergeOnReadTable if table_type == "MERGE_ON_READ" else ServicesTable
    table = cls(path, table_version=version)
    with table.client(**properties) as client:
        table.upsert("a", "b", client=client)
        table.upsert("c", region="y", client=client)
        table.upsert("a", client=client)
    return table


def newest(table: ServicesTable, number: int = 1) -> str:
    return table.load().active_timeline.completed_writes().instants[-number].requested_time


# --- actions ----------------------------------------------------------------------------------------------------------


def steps(table: ServicesTable, client: HoodieLocalWriteClient) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is done one after the other."""
    upsert = table.upsert
    yield "upsert", lambda: upsert("a", "new", client=client)
    yield "insert", lambda: client.insert(rows(("d", "x", 50), ("e", "z", 50)))
    yield "bulk_insert", lambda: client.bulk_insert(rows(("f", "x", 50), ("g", "u", 50)))
    yield "delete", lambda: client.delete(rows(("d", "x", 60)))
    if isinstance(table, MergeOnReadTable):
        yield "schedule_compaction", lambda: client.schedule_compaction()
        yield "upsert beside a plan", lambda: upsert("a", "f", client=client)
        yield "compact", lambda: client.compact()
        yield "upsert after it", lambda: upsert("a", client=client)
        yield "compact again", lambda: client.compact()
    yield "clean", lambda: client.clean()
    yield "insert_overwrite", lambda: client.insert_overwrite(rows(("h", "z", 70)))
    yield "delete_partitions", lambda: client.delete_partitions(["y", "nowhere"])
    yield "savepoint", lambda: client.savepoint(newest(table))
    yield "delete_savepoint", lambda: client.delete_savepoint(newest(table))
    yield "insert_overwrite_table", lambda: client.insert_overwrite_table(rows(("a", "x", 80), ("i", "w", 80)))
    yield "rollback of it", lambda: client.rollback(newest(table))
    yield "upsert once more", lambda: upsert("a", client=client)
    yield "rollback of a pending write", lambda: client.rollback(table.leave_pending("a", "j"))
    yield "a pending write that the next clears", lambda: (table.leave_pending("k", region="v"), upsert("a"))
    yield "clean of replaced files", lambda: (upsert("a", client=client), upsert("a", client=client), client.clean())
    yield "archive", lambda: client.archive()
    yield "upsert at the end", lambda: upsert("a", "z", client=client)


@pytest.mark.parametrize("properties", [FILES, pytest.param(ALL, marks=pytest.mark.slow)], ids=["files", "all"])
@pytest.mark.one_in(4)
def test_each_action_keeps_it_right(table: ServicesTable, properties: dict[str, Any]) -> None:
    services = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    if isinstance(table, MergeOnReadTable):
        # It has more steps. A rollback of what a compaction of the metadata table has merged sets that table aside.
        services["hoodie.metadata.compact.max.delta.commits"] = 13
    done = []
    with table.client(**services, **properties) as client:
        for name, step in steps(table, client):
            step()
            done.append(name)
            try:
                MetadataReader.open(table.base_path).check()
                if not len(table.load().active_timeline.filter_pending()):
                    check_equals_a_new_one(table.base_path)
            except Exception as error:
                error.add_note(f"after {', '.join(done)}")
                raise
    expected = {"files"} if properties is FILES else OF_ALL
    assert expected <= set(listed_partitions(table.base_path))
    assert table.load().archived_timeline.instants


def test_it_is_right_after_a_restore(table: ServicesTable) -> None:
    saved = newest(table, 2)
    with table.client() as client:
        client.savepoint(saved)
        table.upsert("later", region="later", client=client)
        expected = [row for row in read_rows(table.base_path) if row[0] in ("a", "b", "c")]
        client.restore_to_savepoint(saved)
        check_equals_a_new_one(table.base_path)
        table.upsert("b", client=client)
    check_equals_a_new_one(table.base_path)
    assert {row[0] for row in read_rows(table.base_path)} == {row[0] for row in expected}


def test_each_delta_commit_has_the_time_of_its_action(table: ServicesTable) -> None:
    with table.client(**{"hoodie.cleaner.commits.retained": 1}) as client:
        table.upsert("a", client=client)
        table.upsert("a", client=client)
        client.clean()
    snapshot = TableSnapshot.load(str(table.base_path))
    inner = HoodieBackedTableMetadata.open(snapshot).files.snapshot.active_timeline
    recorded = inner.filter_actions(Action.DELTA_COMMIT).filter_completed_instants().times
    actions = snapshot.active_timeline.filter_completed_instants()
    # The first commit may be in the base files.
    times = [one.requested_time for one in actions if one.action is not Action.SAVEPOINT]
    assert set(times[1:]) <= recorded


# --- on and off -------------------------------------------------------------------------------------------------------


def test_it_is_built_of_a_living_table_kept_and_deleted(table: ServicesTable) -> None:
    with table.client(**OFF) as client:
        table.upsert("a", client=client)
    assert listed_partitions(table.base_path) == () and not (table.base_path / ".hoodie/metadata").exists()
    table.upsert("a", "q")
    assert listed_partitions(table.base_path) == ()
    with table.client(**FILES) as client:
        table.upsert("b", client=client)
    assert listed_partitions(table.base_path) == ("files",)
    check_equals_a_new_one(table.base_path)
    table.upsert("b", region="new")
    assert listed_partitions(table.base_path) == ("files",)
    check_equals_a_new_one(table.base_path)


def test_partitions_are_added_to_it_and_taken_away(table: ServicesTable) -> None:
    with table.client(**ALL) as client:
        table.upsert("b", client=client)
    assert set(listed_partitions(table.base_path)) >= OF_ALL
    check_equals_a_new_one(table.base_path)
    with table.client(**{"hoodie.metadata.index.column.stats.enable": "false"}) as client:
        table.upsert("b", "d", client=client)
    assert set(listed_partitions(table.base_path)) == {"files", "bloom_filters", "record_index"}
    assert not (table.base_path / ".hoodie/metadata/column_stats").exists()
    check_equals_a_new_one(table.base_path)


# --- what is found ----------------------------------------------------------------------------------------------------


def test_a_metadata_table_whose_folder_was_deleted_is_built_anew(
    table: ServicesTable, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(table.base_path / ".hoodie/metadata")
    table.upsert("a")
    assert "(files) is built anew" in caplog.text
    assert listed_partitions(table.base_path) == ("files",)
    check_equals_a_new_one(table.base_path)


@pytest.mark.one_in(4)
def test_a_partition_that_is_listed_and_lost_stops_writers_until_it_is_given_up(table: ServicesTable) -> None:
    before = read_rows(table.base_path)
    shutil.rmtree(table.base_path / ".hoodie/metadata/files")
    with table.client() as client, pytest.raises(HoodieException):
        client.upsert(rows(("a", "x", 999)))
    assert read_rows(table.base_path) == before
    for given in (OFF, FILES):
        with table.client(**given) as client:
            table.upsert("a", client=client)
    check_equals_a_new_one(table.base_path)


def test_partitions_that_were_set_aside_are_built_by_the_next_write(table: ServicesTable) -> None:
    snapshot = TableSnapshot.load(str(table.base_path))
    config = snapshot.table_config
    config.update(snapshot.storage, snapshot.base_path, config.with_metadata_partitions((), ("files",)))
    # What is left of the old one is not trusted.
    (table.base_path / ".hoodie/metadata/files/left").write_bytes(b"left")
    table.upsert("a")
    assert listed_partitions(table.base_path) == ("files",)
    assert not (table.base_path / ".hoodie/metadata/files/left").exists()
    check_equals_a_new_one(table.base_path)


def test_what_dead_writers_left_in_it_is_taken_back(table: ServicesTable) -> None:
    inner = HoodieBackedTableMetadata.open(TableSnapshot.load(str(table.base_path))).files.snapshot
    pending = inner.active_timeline.create_new_instant_time(Action.DELTA_COMMIT)
    inner.active_timeline.transition_requested_to_inflight(pending, Action.DELTA_COMMIT)
    reader = MetadataReader.open(table.base_path)
    table.upsert("b")
    reader.check()
    left = HoodieBackedTableMetadata.open(TableSnapshot.load(str(table.base_path))).files.snapshot.active_timeline
    assert left.find(pending) is None
    check_equals_a_new_one(table.base_path)


def test_old_temporary_files_of_dead_writers_are_deleted(table: ServicesTable) -> None:
    folder = table.base_path / ".hoodie/metadata"
    active = timeline_folder(folder)
    name = ".hoodie_tmp_0123456789abcdef0123456789abcdef"
    archive = active / ("archived" if active.name == ".hoodie" else "history")
    left = [path / name for path in (folder / ".hoodie", folder / ".hoodie/.temp", active, archive, folder / "files")]
    for path in left:
        path.write_bytes(b"half")
        os.utime(path, (1, 1))
    table.upsert("b")
    assert not [path for path in left if path.exists()]


# --- others beside it -------------------------------------------------------------------------------------------------


def test_threads_of_a_process_leave_it_right(table: ServicesTable) -> None:
    """Cleans, compactions and writes beside each other, in several threads."""
    async_services = {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.async.enabled": "true",
        "hoodie.cleaner.commits.retained": 1,
        "hoodie.archive.automatic": "true",
        "hoodie.archive.async": "true",
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
        "hoodie.datasource.compaction.async.enable": "true",
        "hoodie.compact.inline.max.delta.commits": 1,
    }
    with table.client(**async_services) as client:
        for _ in range(5):
            client.upsert(rows(("a", "x", 100), ("c", "y", 100)))
            MetadataReader.open(table.base_path).check()
    check_equals_a_new_one(table.base_path)


SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "StorageBasedLockProvider",
    "hoodie.write.lock.wait_time_ms_between_retry": 5,
    "hoodie.parquet.small.file.limit": 0,
}


def test_several_writers_leave_it_right(table: ServicesTable) -> None:
    done: list[str] = []
    failed: list[Exception] = []

    def write(name: str) -> None:
        with table.client(**SEVERAL) as client:
            for number in range(3):
                try:
                    client.insert(rows((f"{name}{number}", name, 1)))
                except hoodie.exception.HoodieWriteConflictException as error:
                    failed.append(error)
                else:
                    done.append(f"{name}{number}")

    threads = [threading.Thread(target=write, args=(name,)) for name in ("p", "q")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) + len(failed) == 6 and len(done) >= 3
    assert {row[0] for row in read_rows(table.base_path)} == {"a", "b", "c", *done}
    with table.client(**SEVERAL) as client:
        table.upsert("last", client=client)
    check_equals_a_new_one(table.base_path)
