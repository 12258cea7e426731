"""Data files that nothing explains."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from hoodie import HoodieWriteConfig
from hoodie.avro.timeline_metadata import HoodieInstantInfo, HoodieRollbackPlan, encode, encode_record
from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieCorruptedDataException,
    HoodieIOException,
    HoodieLockException,
)
from hoodie.storage.local_storage import LocalStorage
from hoodie.table.repair import OrphanFiles, find_orphan_files, remove_orphan_files
from tests.support.services_table import ServicesTable
from tests.support.table_invariants import check_table
from tests.support.timeline_files import archive_folder, state_file

UNKNOWN = "20300101000000000"


def stray(
    table: ServicesTable, instant_time: str, folder: str = "x", file_id: str | None = None, token: str = "9-9-9"
) -> Path:
    """A copy of some base file under another name."""
    some = next(path for path in sorted(table.base_path.rglob("*.parquet")) if ".hoodie" not in path.parts)
    name = parse_base_file_name(some.name)
    assert name is not None
    target = table.base_path / folder / f"{file_id or 'stray-0'}_{token}_{instant_time}.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(some, target)
    return target


def archive(table: ServicesTable) -> None:
    options = {
        "hoodie__keep__min__commits": 2,
        "hoodie__keep__max__commits": 3,
        "hoodie__cleaner__commits__retained": 1,
    }
    table.client(**options).archive()


def found(table: ServicesTable) -> dict[str, tuple[str, bool]]:
    orphans = find_orphan_files(str(table.base_path))
    return {file.path: (file.reason.name, file.is_visible) for file in orphans.files}


def relative(table: ServicesTable, path: Path) -> str:
    return str(path.relative_to(table.base_path))


def test_a_table_that_is_well_has_none(table: ServicesTable) -> None:
    for _ in range(3):
        table.upsert("a", "b")
        table.upsert("c", region="y")
    table.replace(["y"])
    table.client(hoodie__cleaner__commits__retained=1).clean()
    orphans = find_orphan_files(str(table.base_path))
    assert orphans.files == ()
    assert repr(orphans) == f"0 orphan files, 0 bytes, in {table.base_path}"


def test_files_of_no_instant_and_of_a_lost_attempt_are_orphans(table: ServicesTable) -> None:
    table.upsert("a")
    time = table.upsert("b")
    unknown, lost = stray(table, UNKNOWN), stray(table, time)
    elsewhere = stray(table, UNKNOWN, folder="no/partition/here")
    assert found(table) == {
        relative(table, unknown): ("UNKNOWN_INSTANT", False),
        relative(table, elsewhere): ("UNKNOWN_INSTANT", False),
        relative(table, lost): ("NOT_IN_COMMIT", False),
    }


def test_a_file_older_than_the_timeline_that_nobody_knows_is_one_that_readers_show(table: ServicesTable) -> None:
    table.upsert("a")
    old = stray(table, "20200101000000000")
    assert found(table) == {relative(table, old): ("UNKNOWN_INSTANT", True)}


def test_what_a_pending_write_owns_is_no_orphan(table: ServicesTable) -> None:
    table.upsert("a")
    pending = table.leave_pending("b")
    stray(table, pending)
    assert found(table) == {}
    shutil.rmtree(table.base_path / ".hoodie" / ".temp" / pending)
    assert found(table) == {}


@pytest.mark.parametrize("sign", [f".temp/{UNKNOWN}", f".temp/{UNKNOWN}.open", f".heartbeat/{UNKNOWN}"])
def test_an_instant_with_markers_or_a_heartbeat_owns_its_files(table: ServicesTable, sign: str) -> None:
    table.upsert("a")
    file = stray(table, UNKNOWN)
    path = table.base_path / ".hoodie" / sign
    path.parent.mkdir(exist_ok=True)
    if sign == f".temp/{UNKNOWN}":
        (path / "x").mkdir(parents=True)
        (path / "x" / f"{file.name}.marker.CREATE").touch()
    else:
        path.touch()
    assert found(table) == {}


def test_an_instant_that_is_being_rolled_back_owns_its_files(table: ServicesTable) -> None:
    table.upsert("a")
    stray(table, UNKNOWN)
    plan = encode(HoodieRollbackPlan(HoodieInstantInfo(UNKNOWN, "commit")))
    table.load().active_timeline.create_new_instant_time(Action.ROLLBACK, plan)
    assert found(table) == {}


def test_archived_commits_explain_their_files(table: ServicesTable) -> None:
    for number in range(12):
        table.upsert("a", f"b{number}")
    archive(table)
    archived = table.load().archived_timeline
    assert len(archived) >= 9
    assert found(table) == {}
    lost = stray(table, archived.instants[2].requested_time, file_id="lost-0")
    assert found(table) == {relative(table, lost): ("NOT_IN_COMMIT", False)}


def test_without_its_archive_a_table_keeps_the_versions_that_later_commits_name(table: ServicesTable) -> None:
    for _ in range(8):
        table.upsert("a")
    table.upsert("z", region="y")
    archive(table)
    for path in archive_folder(table.base_path).iterdir():
        path.unlink()
    orphans = find_orphan_files(str(table.base_path))
    newest = {file.file_name for file in table.load().files()}
    assert newest.isdisjoint(file.file_name for file in orphans.files if not file.is_visible)
    removed = remove_orphan_files(str(table.base_path), delete=True)
    assert {file.is_visible for file in removed.removed} <= {False}
    assert table.read() == [("a", "x", 8), ("z", "y", 9)]


def test_savepoints_explain_their_files(table: ServicesTable) -> None:
    table.upsert("a")
    file = stray(table, "20200101000000000")
    time = table.upsert("b")
    timeline = table.load().active_timeline
    kept = {"x": {"partitionPath": "x", "savepointDataFile": [file.name]}}
    value = {"savepointedBy": "", "savepointedAt": 1, "comments": "", "partitionMetadata": kept, "version": 1}
    timeline.transition_requested_to_inflight(time, Action.SAVEPOINT)
    timeline.save_as_complete(time, Action.SAVEPOINT, encode_record("HoodieSavepointMetadata", value))
    assert found(table) == {}


def test_orphans_are_moved_to_a_folder_of_the_users(table: ServicesTable, tmp_path: Path) -> None:
    table.upsert("a")
    file = stray(table, UNKNOWN)
    content = file.read_bytes()
    backup = tmp_path / "backup"
    would = remove_orphan_files(str(table.base_path), backup_folder=str(backup), dry_run=True)
    assert file.exists()
    assert "1 would be moved to" in repr(would)
    done = remove_orphan_files(str(table.base_path), backup_folder=str(backup))
    assert done.removed == would.removed
    assert not file.exists()
    assert (backup / relative(table, file)).read_bytes() == content
    check_table(table.base_path, {"a": {"ts": 1}})
    assert remove_orphan_files(str(table.base_path), backup_folder=str(backup)).files == ()


def test_orphans_are_deleted_on_request_only(table: ServicesTable) -> None:
    table.upsert("a")
    file, visible = stray(table, UNKNOWN), stray(table, "20200101000000000")
    with pytest.raises(HoodieConfigException, match="either backup_folder"):
        remove_orphan_files(str(table.base_path))
    with pytest.raises(HoodieConfigException, match="either backup_folder"):
        remove_orphan_files(str(table.base_path), backup_folder="/b", delete=True)
    with pytest.raises(HoodieConfigException, match="is in the table"):
        remove_orphan_files(str(table.base_path), backup_folder=str(table.base_path / "backup"))
    assert file.exists()
    result = remove_orphan_files(str(table.base_path), delete=True)
    assert not file.exists()
    assert visible.exists()
    assert "1 are visible to readers and stay" in result.headline
    remove_orphan_files(str(table.base_path), delete=True, include_visible=True)
    check_table(table.base_path, {"a": {"ts": 1}})


def test_the_lock_of_the_writers_is_held(table: ServicesTable, tmp_path: Path) -> None:
    table.upsert("a")
    file = stray(table, UNKNOWN)
    properties = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.write.lock.provider": "InProcessLockProvider",
        "hoodie.write.lock.wait_time_ms": 100,
        "hoodie.write.lock.client.num_retries": 1,
        "hoodie.write.lock.client.wait_time_ms_between_retry": 1,
    }
    config = HoodieWriteConfig.from_properties(str(table.base_path), properties)
    with ExitStack() as stack:
        client = stack.enter_context(table.client(**{key.replace(".", "__"): v for key, v in properties.items()}))
        stack.enter_context(client._transactions.transaction(table.load(), "another"))
        with pytest.raises(HoodieLockException):
            remove_orphan_files(config, delete=True)
    assert file.exists()
    assert len(remove_orphan_files(config, delete=True).removed) == 1


def test_a_copy_that_is_cut_short_keeps_the_file(
    table: ServicesTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.upsert("a")
    file = stray(table, UNKNOWN)
    backup = tmp_path / "backup"
    status = LocalStorage.file_status

    def shorter(storage: LocalStorage, path: str) -> object:
        if path.startswith(str(backup)):
            os.truncate(path, 10)
        return status(storage, path)

    monkeypatch.setattr(LocalStorage, "file_status", shorter)
    with pytest.raises(HoodieIOException, match="was not copied"):
        remove_orphan_files(str(table.base_path), backup_folder=str(backup))
    monkeypatch.undo()
    assert file.exists()
    remove_orphan_files(str(table.base_path), backup_folder=str(backup))
    assert not file.exists()


def test_nothing_is_said_of_a_table_with_a_damaged_timeline_or_a_pending_restore(table: ServicesTable) -> None:
    time = table.upsert("a")
    commit = state_file(table.base_path, time)
    content = commit.read_bytes()
    commit.write_bytes(content[:50])
    with pytest.raises(HoodieCorruptedDataException, match=commit.name):
        remove_orphan_files(str(table.base_path), delete=True)
    commit.write_bytes(content)
    value = {"instantsToRollback": [], "version": 2, "savepointToRestoreTimestamp": time}
    table.load().active_timeline.create_new_instant_time(Action.RESTORE, encode_record("HoodieRestorePlan", value))
    with pytest.raises(HoodieCommitException, match="is pending"):
        find_orphan_files(str(table.base_path))


def test_a_table_without_partitions_is_looked_at(tmp_path: Path) -> None:
    assert isinstance(find_orphan_files(str(ServicesTable(tmp_path / "t").base_path)), OrphanFiles)
