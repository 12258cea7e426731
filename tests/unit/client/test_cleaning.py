from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import hoodie.metadata
from hoodie import HoodieTableMetaClient
from hoodie.avro.service_metadata import (
    HoodieActionInstant,
    HoodieCleanerPlan,
    HoodieCleanFileInfo,
    HoodieCleanMetadata,
)
from hoodie.avro.timeline_metadata import decode
from hoodie.client import table_services
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import (
    HoodieCommitException,
    HoodieCorruptedDataException,
    HoodieException,
    HoodieIOException,
    HoodieRestoreException,
    HoodieRollbackException,
)
from hoodie.storage.local_storage import LocalStorage
from hoodie.table.action.action import announce
from hoodie.table.action.clean.clean_action_executor import CleanActionExecutor
from hoodie.table.action.restore.restore_action_executor import RestoreActionExecutor
from hoodie.table.action.rollback.rollback_action_executor import RollbackActionExecutor
from hoodie.transaction.transaction_manager import TransactionManager
from tests.support.hookable_storage import hooked
from tests.support.services_table import ServicesTable
from tests.support.table_builder import SCHEMA
from tests.support.timeline_files import delete_instant, read_commit, rename_instant, state_file, write_commit

VERSIONS = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS"}


def clean(table: ServicesTable, **properties: Any) -> HoodieCleanMetadata | None:
    with table.client(**properties) as client:
        return client.clean()


def delete_pending(table: ServicesTable, action: Action) -> None:
    pending = list(table.instants(action).filter_pending())
    assert pending
    for instant in pending:
        delete_instant(table.base_path, instant.requested_time, action)


def retain(commits: int) -> dict[str, int]:
    return {"hoodie.cleaner.commits.retained": commits}


# --- what goes and what stays -----------------------------------------------------------------------------------------


def test_readers_of_the_retained_commits_read_the_same_before_and_after(table: ServicesTable) -> None:
    times = [table.upsert("a", "b"), table.upsert("a"), table.upsert("c", region="y")]
    times += [table.upsert("a"), table.upsert("c", region="y"), table.upsert("b")]
    before = {time: table.read_at(time) for time in times}
    metadata = clean(table, **retain(3))
    assert metadata is not None
    assert metadata.earliest_commit_to_retain == times[3]
    assert {time: table.read_at(time) for time in times[3:]} == {time: before[time] for time in times[3:]}
    # The version that was the newest before the window stays, older ones are gone.
    assert table.files() == {"x": {times[1], times[3], times[5]}, "y": {times[2], times[4]}}
    assert table.read() == before[times[-1]]


def test_nothing_is_cleaned_before_there_are_more_commits_than_are_retained(table: ServicesTable) -> None:
    for _ in range(3):
        table.upsert("a")
    assert clean(table, **retain(3)) is None
    assert len(table.instants(Action.CLEAN)) == 0


def test_versions_are_kept_by_their_number(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(4)]
    metadata = clean(table, **{"hoodie.cleaner.fileversions.retained": 2})
    assert metadata is not None
    assert metadata.earliest_commit_to_retain == ""
    assert metadata.partition_metadata["x"].policy == "KEEP_LATEST_FILE_VERSIONS"
    assert table.files() == {"x": set(times[2:])}


def test_hours_are_counted_from_now(table: ServicesTable, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [table.upsert("a") for _ in range(3)]
    assert clean(table, **{"hoodie.cleaner.hours.retained": 1}) is None
    for instant_time in times[:2]:
        rename(table, instant_time, f"2020{instant_time[4:]}")
    clean(table, **{"hoodie.cleaner.hours.retained": 1})
    # The one that a reader at the first commit of the last hour needs, and that before it.
    assert table.files() == {"x": {f"2020{times[1][4:]}", times[2]}}


def rename(table: ServicesTable, old: str, new: str) -> None:
    for path in table.base_path.rglob(f"*{old}.parquet"):
        path.rename(path.with_name(path.name.replace(old, new)))
    rename_instant(table.base_path, old, new)
    content = read_commit(table.base_path, new).to_json().replace(old.encode(), new.encode())
    write_commit(table.base_path, new, HoodieCommitMetadata.from_json(content, "test"))


def test_a_savepoint_holds_its_files_until_it_is_deleted(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(3)]
    table.savepoint(times[0])
    saved = table.read_at(times[0])
    times += [table.upsert("a") for _ in range(3)]
    metadata = clean(table, **retain(1))
    assert metadata is not None
    assert metadata.extra_metadata == {"savepointed_timestamps": times[0]}
    assert table.files() == {"x": {times[0], *times[4:]}}
    assert table.read_at(times[0]) == saved
    table.delete_savepoint(times[0])
    # Nothing changed in the partition since: it is looked at because a savepoint is gone.
    clean(table, **retain(1))
    assert table.files() == {"x": set(times[4:])}


def test_what_a_savepoint_held_that_was_never_completed_is_cleaned_when_it_is_taken_away(table: ServicesTable) -> None:
    times = [table.upsert("a", region=region) for region in "xxyyy"]
    table.load().active_timeline.transition_requested_to_inflight(times[0], Action.SAVEPOINT)
    assert clean(table, **retain(1)) is not None
    assert table.files() == {"x": {times[0], times[1]}, "y": {times[3], times[4]}}
    with table.client() as client:
        assert client.delete_savepoint(times[0])
    for _ in range(2):
        table.upsert("a", region="y")
    assert clean(table, **retain(1)) is not None
    assert table.files()["x"] == {times[1]}


def test_replaced_files_go_with_their_partition(table: ServicesTable) -> None:
    table.upsert("a")
    table.upsert("c", region="y")
    replaced = table.replace(["y"])
    after = [table.upsert("a"), table.upsert("a"), table.upsert("a")]
    rows = table.read()
    assert clean(table, **retain(4)) is None
    assert set(table.files()) == {"x", "y"}
    assert replaced < after[0]
    metadata = clean(table, **retain(3))
    assert metadata is not None
    assert metadata.partition_metadata["y"].is_partition_deleted is True
    assert not (table.base_path / "y").exists()
    assert table.read() == rows


def test_an_emptied_partition_stays_when_a_write_begins_while_its_files_are_deleted(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.upsert("a", region="y")
    table.replace(["y"])
    for _ in range(2):
        table.upsert("b")
    writer = table.client(hoodie__auto__commit="false")
    delete = CleanActionExecutor._delete
    begun: list[str] = []

    def beside_a_writer(self: CleanActionExecutor, files: dict[str, list[str]]) -> dict[str, set[str]]:
        begun.append(writer.start_commit())
        return delete(self, files)

    monkeypatch.setattr(CleanActionExecutor, "_delete", beside_a_writer)
    metadata = clean(table, **retain(1))
    assert metadata is not None
    assert metadata.partition_metadata["y"].success_delete_files
    assert (table.base_path / "y" / ".hoodie_partition_metadata").exists()
    result = writer.upsert(pa.Table.from_pylist([{"id": "c", "region": "y", "ts": 99}], SCHEMA), begun[0])
    assert writer.commit(begun[0], result)
    assert ("c", "y", 99) in table.read()


def test_an_emptied_partition_stays_where_others_may_write(table: ServicesTable) -> None:
    table.upsert("a")
    table.upsert("c", region="y")
    table.replace(["y"])
    table.upsert("a")
    table.upsert("a")
    pending = table.leave_pending("c", region="y")
    clean(table, **retain(2), **{"hoodie.clean.async": "true"})
    assert table.files()["y"] == {pending}


def test_a_pending_write_holds_what_it_began_with(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(3)]
    pending = table.leave_pending("a")
    metadata = clean(table, **{"hoodie.cleaner.fileversions.retained": 1})
    assert metadata is not None
    assert table.files() == {"x": {times[2], pending}}
    with table.client() as client:
        client.rollback(pending)
    for _ in range(2):
        times.append(table.upsert("a"))
    assert table.read() == table.read_at(times[-1])


# --- what it writes ---------------------------------------------------------------------------------------------------


def test_a_replacement_that_was_given_up_meanwhile_does_not_stop_a_clean(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        table.upsert("a")
    timeline = table.load().active_timeline
    given_up = timeline.create_new_instant_time(Action.REPLACE_COMMIT)
    requested = str(state_file(table.base_path, given_up, "replacecommit", State.REQUESTED))

    def meanwhile(name: str, path: str) -> None:
        if (name, path) == ("read", requested):
            timeline.delete_pending(given_up, Action.REPLACE_COMMIT)

    with hooked(monkeypatch, meanwhile), table.client(hoodie__cleaner__commits__retained=1) as client:
        assert client.clean() is not None
    assert timeline.reload().find(given_up) is None


def test_plan_and_metadata_have_the_values_of_hudi(table: ServicesTable, table_version: int) -> None:
    times = [table.upsert("a") for _ in range(4)]
    [old] = [path for path in (table.base_path / "x").glob("*.parquet") if times[0] in path.name]
    reported = clean(table, **retain(2))
    [instant] = table.instants(Action.CLEAN)
    requested, inflight = (
        state_file(table.base_path, instant.requested_time, "clean", state).read_bytes()
        for state in (State.REQUESTED, State.INFLIGHT)
    )
    assert inflight == (requested if table_version == 6 else b"")
    assert decode(requested, HoodieCleanerPlan) == HoodieCleanerPlan(
        earliest_instant_to_retain=HoodieActionInstant(times[2], "commit", "COMPLETED"),
        last_completed_commit_timestamp=times[3],
        policy="KEEP_LATEST_COMMITS",
        files_to_be_deleted_per_partition={},
        version=2,
        file_paths_to_be_deleted_per_partition={"x": (HoodieCleanFileInfo(str(old), False),)},
        partitions_to_be_deleted=(),
        extra_metadata={},
    )
    metadata = decode(table.details(instant), HoodieCleanMetadata)
    assert metadata == reported
    assert (metadata.start_clean_time, metadata.total_files_deleted) == (instant.requested_time, 1)
    assert (metadata.earliest_commit_to_retain, metadata.last_completed_commit_timestamp) == (times[2], times[3])
    assert metadata.version == 2
    assert metadata.bootstrap_partition_metadata == {}
    [(partition_path, stat)] = metadata.partition_metadata.items()
    assert (partition_path, stat.partition_path, stat.policy) == ("x", "x", "KEEP_LATEST_COMMITS")
    assert stat.delete_path_patterns == stat.success_delete_files == (old.name,)
    assert stat.failed_delete_files == ()
    assert stat.is_partition_deleted is False


def test_without_files_to_delete_no_instant_is_written(table: ServicesTable) -> None:
    for n in range(5):
        table.upsert(f"k{n}", region=f"p{n}")
    assert clean(table, **retain(1)) is None
    assert len(table.instants(Action.CLEAN)) == 0


# --- where it looks ---------------------------------------------------------------------------------------------------


def test_later_cleans_look_at_partitions_that_were_updated_only(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    original = LocalStorage.list_directory

    def list_directory(self: LocalStorage, path: str) -> Any:
        listed.append(path)
        return original(self, path)

    for region in ("x", "y", "z"):
        table.upsert("a", region=region)
        table.upsert("a", region=region)
    clean(table, **retain(1))
    table.upsert("a", region="y")
    table.upsert("new", region="w")
    monkeypatch.setattr(LocalStorage, "list_directory", list_directory)
    metadata = clean(table, **retain(1))
    assert metadata is not None
    assert set(metadata.partition_metadata) == {"y", "z"}
    partitions = {Path(path).name for path in listed} & {"w", "x", "y", "z"}
    # z was updated by the first commit of the window: its older version may have become one too many.
    assert partitions == {"y", "z"}


def test_without_incremental_mode_all_partitions_are_looked_at(table: ServicesTable) -> None:
    for region in ("x", "x", "x", "y"):
        table.upsert("a", region=region)
    clean(table, **retain(1))
    orphan = next((table.base_path / "x").glob("*.parquet"))
    copy = orphan.with_name(orphan.name.rsplit("_", 1)[0] + "_20200101000000000.parquet")
    copy.write_bytes(orphan.read_bytes())
    table.upsert("a", region="y")
    assert clean(table, **retain(1)) is None
    metadata = clean(table, **retain(1), **{"hoodie.cleaner.incremental.mode": "false"})
    assert metadata is not None
    assert copy.name in metadata.partition_metadata["x"].success_delete_files


def test_a_file_that_could_not_be_deleted_is_tried_again(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    times = [table.upsert("a") for _ in range(3)]

    def fail(name: str, path: str) -> None:
        if name == "delete" and path.endswith(f"{times[0]}.parquet"):
            raise HoodieIOException(f"cannot delete {path}")

    with hooked(monkeypatch, fail):
        metadata = clean(table, **retain(1))
    assert metadata is not None
    assert len(metadata.partition_metadata["x"].failed_delete_files) == 1
    assert metadata.total_files_deleted == 0
    assert "could not delete" in caplog.text
    table.upsert("b", region="y")
    clean(table, **retain(1))
    assert times[0] not in table.files()["x"]


# --- pending cleans ---------------------------------------------------------------------------------------------------


def plan_to_delete(table: ServicesTable, region: str, *times: str) -> HoodieCleanerPlan:
    paths = [path for path in (table.base_path / region).glob("*.parquet") if path.stem.rsplit("_", 1)[1] in times]
    return HoodieCleanerPlan(
        earliest_instant_to_retain=HoodieActionInstant(max(times), "commit", "COMPLETED"),
        last_completed_commit_timestamp=max(times),
        policy="KEEP_LATEST_COMMITS",
        file_paths_to_be_deleted_per_partition={region: tuple(HoodieCleanFileInfo(str(path)) for path in paths)},
    )


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
@pytest.mark.parametrize("inflight", [b"", None], ids=["empty_inflight_of_hudi_1", "inflight_with_the_plan"])
def test_a_pending_clean_is_finished_first(table: ServicesTable, state: State, inflight: bytes | None) -> None:
    times = [table.upsert("a") for _ in range(3)]
    time = table.request_clean(plan_to_delete(table, "x", times[0]))
    if state is State.INFLIGHT:
        timeline = table.load().active_timeline
        requested = timeline.read_details(HoodieInstant(time, Action.CLEAN, State.REQUESTED))
        timeline.transition_requested_to_inflight(time, Action.CLEAN, requested if inflight is None else inflight)
    metadata = clean(table)
    assert metadata is not None
    assert metadata.start_clean_time == time
    assert table.files() == {"x": set(times[1:])}
    assert [i.state for i in table.instants(Action.CLEAN)] == [State.COMPLETED]


def test_files_that_are_gone_count_as_deleted(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(3)]
    table.request_clean(plan_to_delete(table, "x", times[0]))
    for path in (table.base_path / "x").glob(f"*{times[0]}.parquet"):
        path.unlink()
    metadata = clean(table)
    assert metadata is not None
    assert len(metadata.partition_metadata["x"].success_delete_files) == metadata.total_files_deleted == 1


def test_a_plan_of_long_ago_takes_nothing_that_is_the_newest_or_savepointed_now(
    table: ServicesTable, caplog: pytest.LogCaptureFixture
) -> None:
    times = [table.upsert("a") for _ in range(4)]
    with table.client() as client:
        client.rollback(times[3])
    table.request_clean(plan_to_delete(table, "x", times[0], times[1], times[2]))
    table.savepoint(times[1])
    rows = table.read()
    metadata = clean(table)
    assert metadata is not None
    assert metadata.total_files_deleted == 1
    assert table.files() == {"x": {times[1], times[2]}}
    assert table.read() == rows
    assert "the table needs it again since the clean was planned" in caplog.text


def test_a_plan_of_version_1_names_files(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(3)]
    [old] = [path for path in (table.base_path / "x").glob("*.parquet") if times[0] in path.name]
    plan = HoodieCleanerPlan(
        None, "", "KEEP_LATEST_COMMITS", files_to_be_deleted_per_partition={"x": [old.name]}, version=1
    )
    table.request_clean(plan)
    metadata = clean(table)
    assert metadata is not None
    assert not old.exists()
    assert metadata.total_files_deleted == 1


@pytest.mark.parametrize(
    "path",
    [
        "{base}/../other/x/{name}",
        "/etc/{name}",
        "{base}/.hoodie/hoodie.properties",
        "{base}/y/{name}",
        "{base}/x/a.txt",
    ],
)
def test_a_plan_that_names_other_than_data_files_of_its_partition_deletes_nothing(
    table: ServicesTable, path: str
) -> None:
    times = [table.upsert("a") for _ in range(3)]
    plan = plan_to_delete(table, "x", times[0])
    [file] = plan.file_paths_to_be_deleted_per_partition["x"]
    evil = HoodieCleanFileInfo(path.format(base=table.base_path, name=Path(file.file_path).name))
    table.request_clean(attrs.evolve(plan, file_paths_to_be_deleted_per_partition={"x": (file, evil)}))
    with pytest.raises(HoodieCorruptedDataException, match="is no data file of partition"):
        clean(table)
    assert table.files() == {"x": set(times)}


def test_a_pending_clean_that_cannot_be_finished_blocks_the_next_unless_several_are_allowed(
    table: ServicesTable,
) -> None:
    times = [table.upsert("a") for _ in range(4)]
    plan = HoodieCleanerPlan(
        None, "", "", file_paths_to_be_deleted_per_partition={"x": (HoodieCleanFileInfo("/elsewhere/x/a.parquet"),)}
    )
    table.request_clean(plan)
    with pytest.raises(HoodieCorruptedDataException):
        clean(table, **retain(1))
    assert table.files() == {"x": set(times)}
    clean(table, **retain(1), **{"hoodie.clean.allow.multiple": "true"})
    assert table.files() == {"x": set(times[2:])}


def test_an_empty_plan_file_of_a_writer_that_died_is_removed(table: ServicesTable) -> None:
    table.upsert("a")
    timeline = table.load().active_timeline
    timeline.create_new_instant_time(Action.CLEAN, b"")
    assert clean(table) is None
    assert len(table.instants(Action.CLEAN)) == 0


def test_a_damaged_report_of_the_last_clean_does_not_stop_the_next(
    table: ServicesTable, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(4):
        table.upsert("a")
    clean(table, **retain(2))
    [instant] = table.instants(Action.CLEAN)
    state_file(table.base_path, instant.requested_time, "clean").write_bytes(b"Obj\x01")
    times = [table.upsert("a") for _ in range(2)]
    metadata = clean(table, **retain(1))
    assert metadata is not None
    assert table.files()["x"] == set(times)
    assert "as if there had been no clean before" in caplog.text


@pytest.mark.parametrize("way_back", ["restore", "rollback"])
def test_nobody_goes_back_to_files_that_a_clean_is_deleting(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, way_back: str
) -> None:
    several = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "InProcessLockProvider",
    }
    times = [table.upsert("a") for _ in range(4)]
    rows = table.read()
    delete = CleanActionExecutor._delete
    refused: list[str] = []

    def beside_another(self: CleanActionExecutor, files: dict[str, list[str]]) -> dict[str, set[str]]:
        with table.client(**several) as other:
            if way_back == "restore":
                with pytest.raises(
                    HoodieRestoreException, match="its files are being cleaned: clean .*is pending"
                ) as e:
                    other.restore_to_instant(times[1])
            else:
                with pytest.raises(HoodieRollbackException, match="is being cleaned: clean .*is pending") as e:
                    other.rollback(times[3])
            refused.append(str(e.value))
        return delete(self, files)

    monkeypatch.setattr(CleanActionExecutor, "_delete", beside_another)
    policy = retain(1) if way_back == "restore" else VERSIONS | {"hoodie.cleaner.fileversions.retained": 1}
    metadata = clean(table, **several, **policy)
    assert metadata is not None
    assert metadata.start_clean_time in refused[0]
    assert table.read() == rows
    assert times[3] in table.files()["x"]


def test_a_clean_goes_on_after_a_restore_and_nobody_counts_on_its_files(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The restore needs none of the files that are being deleted; to undo the commit it went back to needs one."""
    times = [table.upsert("a") for _ in range(4)]
    rows = table.read()
    table.upsert("a")
    delete = CleanActionExecutor._delete
    refused: list[str] = []

    def beside_another(self: CleanActionExecutor, files: dict[str, list[str]]) -> dict[str, set[str]]:
        with table.client() as other:
            other.restore_to_instant(times[3])
            with pytest.raises(HoodieRollbackException, match="is being cleaned: clean .*is pending") as e:
                other.rollback(times[3])
            refused.append(str(e.value))
        return delete(self, files)

    monkeypatch.setattr(CleanActionExecutor, "_delete", beside_another)
    metadata = clean(table, **retain(1))
    assert metadata is not None
    assert metadata.start_clean_time in refused[0]
    assert table.files() == {"x": {times[3]}}
    assert table.read() == rows
    assert [i.state for i in table.instants(Action.CLEAN)] == [State.COMPLETED]
    monkeypatch.undo()
    newest = [table.upsert("a") for _ in range(2)]
    clean(table, **retain(1))
    assert table.files() == {"x": set(newest)}


@pytest.mark.parametrize("way_back", ["restore", "savepoint", "rollback"])
def test_a_clean_that_was_planned_before_somebody_went_back_deletes_nothing(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, way_back: str
) -> None:
    times, rows = [], []
    for _ in range(4):
        times.append(table.upsert("a"))
        rows.append(table.read())
    undone: list[str] = []

    def meanwhile(name: str, path: str) -> None:
        if name == "create" and path.endswith(".clean.requested") and not undone:
            undone.append(path)
            with table.client(**retain(1)) as other:
                if way_back == "restore":
                    other.restore_to_instant(times[1])
                elif way_back == "savepoint":
                    other.savepoint(times[1])
                else:
                    for instant_time in times[:1:-1]:
                        other.rollback(instant_time)

    with hooked(monkeypatch, meanwhile):
        assert clean(table, **retain(1)) is None
    assert undone
    assert not table.instants(Action.CLEAN)
    if way_back == "savepoint":
        assert table.read() == rows[3]
        with table.client(**retain(1)) as other:
            other.restore_to_savepoint(times[1])
    assert table.read() == rows[1]


@pytest.mark.parametrize("way_back", ["restore", "rollback"])
@pytest.mark.parametrize("is_carried_out", [False, True])
def test_a_way_back_that_was_planned_before_a_clean_is_withdrawn(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, way_back: str, is_carried_out: bool
) -> None:
    times = [table.upsert("a") for _ in range(4)]
    rows = table.read()
    cleaned: list[str] = []
    if not is_carried_out:
        monkeypatch.setattr(table_services, "carry_out", lambda *arguments, **named: None)

    def meanwhile(name: str, path: str) -> None:
        if name == "create" and path.endswith(f".{way_back}.requested") and not cleaned:
            cleaned.append(path)
            clean(table, **VERSIONS, **{"hoodie.cleaner.fileversions.retained": 1})

    with hooked(monkeypatch, meanwhile), table.client() as client, pytest.raises(HoodieException, match="clean"):
        if way_back == "restore":
            client.restore_to_instant(times[1])
        else:
            client.rollback(times[3])
    assert cleaned
    assert not table.instants(Action.RESTORE)
    assert not table.instants(Action.ROLLBACK)
    assert table.read() == rows


def test_a_way_back_waits_for_the_clean_of_its_own_client(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = CleanActionExecutor._delete
    begun = threading.Event()

    def slowly(self: CleanActionExecutor, files: dict[str, list[str]]) -> dict[str, set[str]]:
        begun.set()
        time.sleep(0.2)
        return delete(self, files)

    monkeypatch.setattr(CleanActionExecutor, "_delete", slowly)
    automatic = {"hoodie.clean.automatic": "true", "hoodie.clean.async": "true"}
    with table.client(**automatic, **retain(1)) as client:
        for _ in range(2):
            table.upsert("a", client=client)
        kept = table.upsert("a", client=client)
        assert begun.wait(60)
        made = client.savepoint()
    assert made.instant_time == kept


def test_what_a_pending_rollback_goes_back_to_is_not_cleaned(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(3)]
    before = table.read_at(times[1])
    meta_client = table.load()
    newest = meta_client.active_timeline.commits_timeline().last_instant
    assert newest is not None
    # Its writer died before it took the commit back; it is completed still.
    announce(RollbackActionExecutor(meta_client.snapshot, newest))
    metadata = clean(table, **VERSIONS, **{"hoodie.cleaner.fileversions.retained": 1})
    assert metadata is not None
    assert table.files() == {"x": {times[1], times[2]}}
    with table.client() as client:
        assert client.rollback_failed_writes() == [times[2]]
    assert table.read() == before


def test_nothing_is_cleaned_or_archived_after_a_restore_that_died_while_the_lock_was_waited_for(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        table.upsert("a")
    take = TransactionManager.transaction

    @contextmanager
    def late(self: TransactionManager, *arguments: Any) -> Iterator[Any]:
        with take(self, *arguments) as taken:
            table.load().active_timeline.create_new_instant_time(Action.RESTORE, b"plan")
            yield taken

    monkeypatch.setattr(TransactionManager, "transaction", late)
    several = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "InProcessLockProvider",
    }
    with pytest.raises(HoodieCommitException, match="is pending: nothing is cleaned"):
        clean(table, **several, **retain(1))
    delete_pending(table, Action.RESTORE)
    with (
        table.client(**several) as client,
        pytest.raises(HoodieCommitException, match="nothing is cleaned or archived"),
    ):
        client.archive()


def test_of_a_clean_and_a_restore_that_begin_at_once_without_a_lock_none_takes_files_of_the_other(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [table.upsert("a") for _ in range(4)]
    rows = table.read()
    publish, plan = RestoreActionExecutor.publish, CleanActionExecutor.plan

    def clean_just_before(self: RestoreActionExecutor, *arguments: Any) -> str:
        restore_time = publish(self, *arguments)
        # As if the whole clean had gone by after the files were looked at.
        table.load().active_timeline.delete_pending(restore_time, Action.RESTORE)
        clean(table, **retain(1))
        return self.snapshot.active_timeline.create_new_instant_time(Action.RESTORE, b"plan")

    def restore_just_before(self: CleanActionExecutor) -> HoodieCleanerPlan | None:
        table.load().active_timeline.create_new_instant_time(Action.RESTORE, b"plan")
        return plan(self)

    with monkeypatch.context() as patched, table.client() as client:
        patched.setattr(CleanActionExecutor, "plan", restore_just_before)
        with pytest.raises(HoodieCommitException, match="is pending: nothing is cleaned"):
            clean(table, **retain(1))
        assert not table.instants(Action.CLEAN)
        delete_pending(table, Action.RESTORE)
    with monkeypatch.context() as patched, table.client() as client:
        patched.setattr(RestoreActionExecutor, "publish", clean_just_before)
        with pytest.raises(HoodieRestoreException, match="at the same moment.*nothing was restored. Call it"):
            client.restore_to_instant(times[1])
    assert not table.instants(Action.RESTORE)
    assert table.read() == rows


def test_nothing_is_cleaned_while_a_restore_is_pending(table: ServicesTable) -> None:
    for _ in range(4):
        table.upsert("a")
    table.load().active_timeline.create_new_instant_time(Action.RESTORE, b"plan")
    with pytest.raises(HoodieCommitException, match="is pending: nothing is cleaned"):
        clean(table, **retain(1))


@pytest.mark.without_metadata_table("its properties name one that is not there")
def test_a_metadata_table_that_is_gone_does_not_keep_cleans_away(table: ServicesTable) -> None:
    for _ in range(3):
        table.upsert("a")
    meta_client = HoodieTableMetaClient.load(str(table.base_path))
    meta_client.table_config.update(
        meta_client.storage,
        meta_client.base_path,
        {**meta_client.table_config.properties, "hoodie.table.metadata.partitions": "files"},
    )
    assert clean(table, **retain(1)) is not None
    assert table.load().table_config.metadata_partitions == ()
    table.upsert("a")
    assert table.load().table_config.metadata_partitions == ("files",)
    assert hoodie.metadata.validate(str(table.base_path)).is_right


# --- after commits ----------------------------------------------------------------------------------------------------


def test_a_commit_is_followed_by_a_clean(table: ServicesTable) -> None:
    client = table.client(**retain(2), **{"hoodie.clean.automatic": "true"})
    times = [table.upsert("a", client=client) for _ in range(5)]
    assert table.files() == {"x": set(times[2:])}
    assert [i.state for i in table.instants(Action.CLEAN)] == [State.COMPLETED] * 2
    assert [step.name for step in client.metrics.steps if step.depth > 0][-3:] == [
        "clean",
        "plan the clean",
        "delete old files",
    ]


def test_services_can_be_switched_off_together(table: ServicesTable) -> None:
    client = table.client(**retain(1), **{"hoodie.clean.automatic": "true", "hoodie.table.services.enabled": "false"})
    times = [table.upsert("a", client=client) for _ in range(3)]
    assert table.files() == {"x": set(times)}


def test_a_clean_is_due_after_so_many_commits(table: ServicesTable) -> None:
    client = table.client(**retain(1), **{"hoodie.clean.automatic": "true", "hoodie.clean.max.commits": 3})
    times = [table.upsert("a", client=client) for _ in range(5)]
    assert table.files() == {"x": set(times[1:])}
    times.append(table.upsert("a", client=client))
    assert table.files() == {"x": set(times[4:])}
    table.upsert("a", client=client)
    with client:
        client.clean()
    assert len(table.files()["x"]) == 2


def test_a_failure_of_the_cleaner_does_not_fail_the_write(
    table: ServicesTable, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        table.upsert("a")
    plan = HoodieCleanerPlan(
        None, "", "", file_paths_to_be_deleted_per_partition={"x": (HoodieCleanFileInfo("/elsewhere/x/a.parquet"),)}
    )
    table.request_clean(plan)
    client = table.client(**{"hoodie.clean.automatic": "true"})
    result = client.upsert(pa.Table.from_pylist([{"id": "n", "region": "x", "ts": 99}], SCHEMA))
    assert result.is_committed
    [error] = result.service_errors
    assert error.startswith("HoodieCorruptedDataException: the plan ")
    assert "committed; failed after the commit: HoodieCorrupted" in repr(result)
    assert "failed after a commit, which stands" in caplog.text
    assert ("n", "x", 99) in table.read()


def test_a_failure_after_a_commit_by_hand_is_told_by_the_client_and_the_result(table: ServicesTable) -> None:
    table.upsert("a")
    elsewhere = {"x": (HoodieCleanFileInfo("/elsewhere/x/a.parquet"),)}
    table.request_clean(HoodieCleanerPlan(None, "", "", file_paths_to_be_deleted_per_partition=elsewhere))
    with table.client(**{"hoodie.clean.automatic": "true", "hoodie.auto.commit": "false"}) as client:
        result = client.upsert(pa.Table.from_pylist([{"id": "n", "region": "x", "ts": 99}], SCHEMA))
        assert client.commit(result.instant_time, result)
        [error] = client.service_errors
        assert error.startswith("HoodieCorruptedDataException: the plan ")
        assert result.service_errors == (error,)
        assert f"(committed; failed after the commit: {error})" in repr(result)
    delete_pending(table, Action.CLEAN)
    with table.client(**{"hoodie.clean.automatic": "true"}) as client:
        assert table.upsert("b", client=client)
        assert client.service_errors == ()


def test_an_asynchronous_clean_runs_beside_and_is_waited_for_at_the_end(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()
    original = LocalStorage.delete_file

    def delete_file(self: LocalStorage, path: str) -> bool:
        if threading.current_thread().name == "hoodie-table-services":
            assert may_go_on.wait(60)
        return original(self, path)

    for _ in range(2):
        table.upsert("a")
    monkeypatch.setattr(LocalStorage, "delete_file", delete_file)
    with table.client(**retain(1), **{"hoodie.clean.automatic": "true", "hoodie.clean.async": "true"}) as client:
        times = [table.upsert("a", client=client) for _ in range(2)]
        assert len(table.files()["x"]) == 4
        may_go_on.set()
    assert [i.state for i in table.instants(Action.CLEAN)] == [State.COMPLETED]
    assert len(table.files()["x"]) == 3
    assert table.read() == table.read_at(times[-1])


def test_an_error_of_an_asynchronous_clean_is_logged_and_told_with_the_next_result(
    table: ServicesTable, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        table.upsert("a")
    plan = HoodieCleanerPlan(
        None, "", "", file_paths_to_be_deleted_per_partition={"x": (HoodieCleanFileInfo("/elsewhere/x/a.parquet"),)}
    )
    table.request_clean(plan)
    with (
        caplog.at_level(logging.WARNING),
        table.client(**{"hoodie.clean.automatic": "true", "hoodie.clean.async": "true"}) as client,
    ):
        rows = pa.Table.from_pylist([{"id": "n", "region": "x", "ts": 99}], SCHEMA)
        assert client.upsert(rows).service_errors == ()
        client._services.wait()
        assert len(client.upsert(rows).service_errors) == 1
    assert "failed after a commit, which stands" in caplog.text
