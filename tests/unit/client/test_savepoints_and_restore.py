"""Savepoints, and taking a table back to one of its instants."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.avro.timeline_metadata import decode_record
from hoodie.common.table.timeline.instant import Action, State
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieException,
    HoodieHeartbeatException,
    HoodieIOException,
    HoodieRestoreException,
    HoodieRollbackException,
    HoodieSavepointException,
)
from hoodie.table.action.savepoint.savepoint_action_executor import savepoints
from hoodie.transaction.transaction_manager import TransactionManager
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, rows
from tests.support.timeline_files import make_state, state_file
from tests.unit.client.test_crashes import shape_of

Rows = list[tuple[str, str, int]]
MakeClient = Callable[..., HoodieLocalWriteClient]
NAMES = ["id", "region", "ts"]


def read(base_path: Path) -> Rows:
    found = sorted(tuple(row.values()) for row in hoodie.read_table(str(base_path), columns=NAMES).to_pylist())
    batches = HudiTableBuilder.from_base_uri(str(base_path)).build().read()
    others = pa.Table.from_batches(batches).select(NAMES).to_pylist() if batches else []
    assert sorted(tuple(row.values()) for row in others) == found
    return found


def new_client(base_path: Path, **properties: Any) -> HoodieLocalWriteClient:
    return local_client(base_path, SMALL_FILTERS, parallelism=1, **properties)


def write_history(base_path: Path) -> list[tuple[str, Rows]]:
    """Five commits of different kinds; each instant with the rows of its moment."""
    history = []
    client = new_client(base_path)
    steps: list[Callable[[], Any]] = [
        lambda: client.upsert(rows(("a", "x", 1), ("b", "x", 1), ("c", "y", 1))),
        lambda: client.upsert(rows(("a", "x", 2), ("d", "z", 2))),
        lambda: client.insert_overwrite(rows(("e", "y", 3))),
        lambda: client.delete(pa.table({"id": ["b"], "region": ["x"]})),
        lambda: client.delete_partitions(["z"]),
    ]
    for step in steps:
        history.append((step().instant_time, read(base_path)))
    return history


def timeline_of(base_path: Path) -> Any:
    return HoodieTableMetaClient.load(str(base_path)).active_timeline


def data_files(base_path: Path) -> set[str]:
    return {file.name for file in base_path.rglob("*.parquet")}


# --- savepoints -------------------------------------------------------------------------------------------------------


def test_a_savepoint_names_the_files_that_its_readers_read(base_path: Path) -> None:
    history = write_history(base_path)
    second = history[1][0]
    made = new_client(base_path).savepoint(second, user="ann", comment="before the move")
    (found,) = savepoints(timeline_of(base_path))
    assert found == made
    assert (found.user, found.comment, found.instant_time) == ("ann", "before the move", second)
    assert {path: len(names) for path, names in found.files.items()} == {"x": 1, "y": 1, "z": 1}
    content = state_file(base_path, second, "savepoint").read_bytes()
    value = decode_record(content, "HoodieSavepointMetadata")
    assert value["partitionMetadata"]["x"] == {"partitionPath": "x", "savepointDataFile": list(found.files["x"])}
    assert state_file(base_path, second, "savepoint", State.INFLIGHT).read_bytes() == b""
    assert read(base_path) == history[-1][1]


def test_the_newest_commit_is_savepointed_where_none_is_named(base_path: Path) -> None:
    history = write_history(base_path)
    assert new_client(base_path).savepoint().instant_time == history[-1][0]


def test_a_savepoint_is_made_once(base_path: Path) -> None:
    history = write_history(base_path)
    new_client(base_path).savepoint(history[1][0])
    with pytest.raises(HoodieSavepointException, match="delete_savepoint"):
        new_client(base_path).savepoint(history[1][0])


def test_what_is_no_completed_commit_is_not_savepointed(base_path: Path) -> None:
    with pytest.raises(
        HoodieSavepointException, match=f"^{base_path} cannot be savepointed: it has no completed commit"
    ):
        new_client(base_path).savepoint()
    write_history(base_path)
    with pytest.raises(HoodieSavepointException, match="no completed commit"):
        new_client(base_path).savepoint("20200101000000000")


def test_a_commit_whose_files_were_cleaned_is_not_savepointed(base_path: Path) -> None:
    history = write_history(base_path)
    next(iter((base_path / "x").glob(f"*{history[0][0]}.parquet"))).unlink()
    with pytest.raises(HoodieSavepointException, match="file groups was cleaned, such as x/"):
        new_client(base_path).savepoint(history[0][0])
    assert savepoints(timeline_of(base_path)) == []
    new_client(base_path).savepoint(history[1][0])


def test_nothing_is_savepointed_while_a_clean_is_pending(base_path: Path) -> None:
    history = write_history(base_path)
    timeline = timeline_of(base_path)
    clean = timeline.create_new_instant_time(Action.CLEAN, b"")
    with pytest.raises(HoodieSavepointException, match=rf"clean {clean} is pending.*clean\(\)"):
        new_client(base_path).savepoint(history[1][0])
    timeline.delete_pending(clean, Action.CLEAN)
    new_client(base_path).savepoint(history[1][0])


def test_a_clean_that_began_while_the_lock_was_waited_for_is_seen(
    base_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = write_history(base_path)
    take = TransactionManager.transaction

    @contextmanager
    def late(self: TransactionManager, *arguments: Any) -> Iterator[Any]:
        timeline_of(base_path).create_new_instant_time(Action.CLEAN, b"")
        with take(self, *arguments) as taken:
            yield taken

    monkeypatch.setattr(TransactionManager, "transaction", late)
    with pytest.raises(HoodieSavepointException, match="is pending"):
        new_client(base_path).savepoint(history[1][0])
    assert savepoints(timeline_of(base_path)) == []


def test_a_savepoint_holds_its_commit_against_rollback_until_it_is_deleted(base_path: Path) -> None:
    history = write_history(base_path)
    newest = history[-1][0]
    client = new_client(base_path)
    client.savepoint(newest)
    with pytest.raises(HoodieRollbackException, match="savepoint"):
        client.rollback(newest)
    assert client.delete_savepoint(newest)
    assert not client.delete_savepoint(newest)
    assert client.rollback(newest)
    assert read(base_path) == history[-2][1]


def test_a_savepoint_that_was_left_half_done_is_finished(base_path: Path) -> None:
    history = write_history(base_path)
    make_state(base_path, history[1][0], "savepoint", State.INFLIGHT)
    new_client(base_path).upsert(rows(("q", "x", 9)))
    new_client(base_path).savepoint(history[1][0])
    assert [made.instant_time for made in savepoints(timeline_of(base_path))] == [history[1][0]]


# --- restore ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(5))
def test_a_table_is_restored_to_any_instant(base_path: Path, number: int) -> None:
    history = write_history(base_path)
    instant_time, expected = history[number]
    undone = new_client(base_path).restore_to_instant(instant_time)
    assert list(undone) == [time for time, _ in reversed(history[number + 1 :])]
    assert read(base_path) == expected
    timeline = timeline_of(base_path)
    assert timeline.commits_timeline().last_instant.requested_time == instant_time
    assert {name[-25:-8] for name in data_files(base_path)} <= {time for time, _ in history[: number + 1]}
    new_client(base_path).upsert(rows(("a", "x", 8), ("new", "x", 8)))
    kept = [row for row in expected if row[0] != "a"]
    assert read(base_path) == sorted([*kept, ("a", "x", 8), ("new", "x", 8)])


def test_the_timeline_tells_the_restore_as_hudi_does(base_path: Path) -> None:
    history = write_history(base_path)
    new_client(base_path).restore_to_instant(history[2][0])
    (restore,) = timeline_of(base_path).filter_actions(Action.RESTORE)
    requested, inflight, completed = (
        state_file(base_path, restore.requested_time, "restore", state).read_bytes() for state in State
    )
    plan = decode_record(requested, "HoodieRestorePlan")
    infos = [
        {"commitTime": history[4][0], "action": "replacecommit"},
        {"commitTime": history[3][0], "action": "commit"},
    ]
    assert plan == {"instantsToRollback": infos, "version": 2, "savepointToRestoreTimestamp": history[2][0]}
    assert inflight == b""
    metadata = decode_record(completed, "HoodieRestoreMetadata")
    assert metadata["instantsToRollback"] == [history[4][0], history[3][0]]
    assert metadata["restoreInstantInfo"] == infos
    (rollback,) = metadata["hoodieRestoreMetadata"][history[3][0]]
    assert rollback["commitsRollback"] == [history[3][0]] and rollback["totalFilesDeleted"] == 1


def test_a_restore_to_a_savepoint_needs_one(base_path: Path) -> None:
    history = write_history(base_path)
    client = new_client(base_path)
    with pytest.raises(HoodieRestoreException, match="has no savepoint"):
        client.restore_to_savepoint(history[1][0])
    client.savepoint(history[1][0])
    client.restore_to_savepoint(history[1][0])
    assert read(base_path) == history[1][1]
    assert [made.instant_time for made in savepoints(timeline_of(base_path))] == [history[1][0]]


@pytest.mark.parametrize(
    "call", ["rollback", "savepoint", "delete_savepoint", "restore_to_savepoint", "restore_to_instant"]
)
def test_an_instant_time_is_text(base_path: Path, call: str) -> None:
    with pytest.raises(HoodieConfigException, match="instant time is 20200101000000000 of type int: give it as text"):
        getattr(new_client(base_path), call)(20200101000000000)


def test_what_is_no_commit_is_not_restored(base_path: Path) -> None:
    with pytest.raises(
        HoodieRestoreException, match="no completed commit of that time in the active timeline, which has"
    ):
        new_client(base_path).restore_to_instant("20200101000000000")
    history = write_history(base_path)
    there = f"whose commits are from {history[0][0]} to {history[-1][0]}; what was archived cannot be restored"
    with pytest.raises(HoodieRestoreException, match=there):
        new_client(base_path).restore_to_instant("20200101000000000")
    assert read(base_path) == history[-1][1]


def test_rows_of_archived_commits_are_there_when_a_savepoint_is_all_that_is_left(base_path: Path) -> None:
    keep = {"keep_min_commits": 2, "keep_max_commits": 3, "cleaner_commits_retained": 1}
    client = new_client(base_path, **keep, clean_automatic=False, archive_automatic=False)
    for ts, region in enumerate("pqrstu", 1):
        client.upsert(rows((region, region, ts)))
    expected = read(base_path)
    made = client.savepoint()
    for ts in (10, 11, 12):
        client.upsert(rows(("u", "u", ts)))
    client.clean()
    assert client.archive()
    client.restore_to_savepoint(made.instant_time)
    assert len(timeline_of(base_path).commits_timeline()) == 1
    assert read(base_path) == expected
    client.upsert(rows(("p", "p", 20), ("u", "u", 20)))
    assert read(base_path) == [("p", "p", 20), *expected[1:-1], ("u", "u", 20)]


@pytest.mark.parametrize("archives", [False, True])
@pytest.mark.parametrize("way", ["restore", "savepoint", "rollback"])
@pytest.mark.without_metadata_table("archiving would wait for its compaction")
def test_an_older_version_that_a_savepoint_holds_is_not_taken_for_the_last_one(
    base_path: Path, way: str, archives: bool
) -> None:
    client = new_client(
        base_path, cleaner_policy="KEEP_LATEST_FILE_VERSIONS", cleaner_fileversions_retained=1, keep_min_commits=2,
        keep_max_commits=3, archive_beyond_savepoint=True, clean_automatic=False, archive_automatic=False,
    )  # fmt: skip
    client.upsert(rows(("a", "x", 1), ("c", "y", 1)))
    client.savepoint()
    client.upsert(rows(("a", "x", 2)))
    if archives:
        for ts in range(3, 7):
            client.upsert(rows(("c", "y", ts)))
        assert client.archive()
    middle = client.upsert(rows(("c", "y", 8))).instant_time
    newest = client.insert_overwrite(rows(("d", "x", 9))).instant_time
    client.clean()
    assert len(list((base_path / "x").glob("*.parquet"))) == 2
    before = read(base_path)
    with pytest.raises(HoodieException, match="cleaned"):
        if way == "restore":
            client.restore_to_instant(middle)
        elif way == "savepoint":
            client.savepoint(middle)
        else:
            client.rollback(newest)
    assert hoodie.read_table(str(base_path)).num_rows == len(before) == 2


@pytest.mark.parametrize("operation", ["insert_overwrite", "delete_partitions"])
def test_the_version_that_a_savepoint_holds_is_the_last_one_of_what_was_replaced(
    base_path: Path, operation: str
) -> None:
    client = new_client(base_path, cleaner_commits_retained=1)
    for ts in range(3):
        client.upsert(rows(("a", "x", ts)))
    before = read(base_path)
    made = client.savepoint()
    if operation == "insert_overwrite":
        client.insert_overwrite(rows(("b", "x", 7)))
    else:
        client.delete_partitions(["x"])
    for ts in range(8, 11):
        client.upsert(rows(("c", "x", ts)))
    client.restore_to_savepoint(made.instant_time)
    assert read(base_path) == before


@pytest.mark.without_metadata_table("archiving would wait for its compaction")
def test_the_last_commit_after_archived_ones_is_not_rolled_back(base_path: Path) -> None:
    client = new_client(
        base_path, keep_min_commits=2, keep_max_commits=3, cleaner_commits_retained=1, clean_automatic=False,
        archive_automatic=False,
    )  # fmt: skip
    for ts, region in enumerate("pqrst", 1):
        client.upsert(rows((region, region, ts)))
    assert client.archive()
    oldest = timeline_of(base_path).commits_timeline().instants[0].requested_time
    client.restore_to_instant(oldest)
    expected = read(base_path)
    with pytest.raises(HoodieRollbackException, match="commits before it are archived"):
        client.rollback(oldest)
    assert read(base_path) == expected
    result = client.upsert(rows(("p", "p", 9)))
    assert client.rollback(result.instant_time)
    assert read(base_path) == expected


def test_a_younger_savepoint_is_in_the_way(base_path: Path) -> None:
    history = write_history(base_path)
    client = new_client(base_path)
    client.savepoint(history[3][0])
    with pytest.raises(HoodieRestoreException, match=f"savepoint {history[3][0]} is newer"):
        client.restore_to_instant(history[1][0])
    assert read(base_path) == history[-1][1]


def test_a_commit_whose_files_were_cleaned_is_not_restored(base_path: Path) -> None:
    history = write_history(base_path)
    next(iter((base_path / "x").glob(f"*{history[0][0]}.parquet"))).unlink()
    with pytest.raises(HoodieRestoreException, match="was cleaned"):
        new_client(base_path).restore_to_instant(history[0][0])
    assert not list(timeline_of(base_path).filter_actions(Action.RESTORE))
    new_client(base_path).restore_to_instant(history[1][0])
    assert read(base_path) == history[1][1]


def test_what_failed_writers_left_is_undone_too(base_path: Path) -> None:
    history = write_history(base_path)
    new_client(base_path, auto_commit=False).upsert(rows(("a", "x", 7)))
    new_client(base_path).restore_to_instant(history[1][0])
    assert read(base_path) == history[1][1]
    assert not list(timeline_of(base_path).filter_pending())
    assert not [file for file in (base_path / ".hoodie" / ".temp").rglob("*") if file.is_file()]


def test_a_living_writer_is_in_the_way(base_path: Path) -> None:
    history = write_history(base_path)
    writer = new_client(base_path, auto_commit=False)
    instant_time = writer.start_commit()
    heartbeats = base_path / ".hoodie" / ".heartbeat"
    heartbeats.mkdir(exist_ok=True)
    (heartbeats / instant_time).touch()
    with pytest.raises(HoodieHeartbeatException, match=instant_time):
        new_client(base_path).restore_to_instant(history[1][0])
    assert read(base_path) == history[-1][1]


def test_a_writer_that_was_at_work_cannot_commit_after_the_restore(base_path: Path) -> None:
    history = write_history(base_path)
    writer = new_client(base_path, auto_commit=False)
    instant_time = writer.start_commit()
    result = writer.upsert(rows(("a", "x", 7)), instant_time)
    new_client(base_path).restore_to_instant(history[1][0])
    with pytest.raises(HoodieCommitException):
        writer.commit(instant_time, result)
    assert read(base_path) == history[1][1]


def test_no_instant_time_is_used_again(base_path: Path) -> None:
    history = write_history(base_path)
    new_client(base_path).restore_to_instant(history[0][0])
    result = new_client(base_path).upsert(rows(("a", "x", 9)))
    assert result.instant_time > history[-1][0]


def test_an_unfinished_restore_blocks_writes_until_it_is_finished(
    base_path: Path, faulty_storage: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = write_history(base_path)
    healthy = Faults()
    copy = base_path.with_name("copy")
    shutil.copytree(base_path, copy)
    run_with_faults(healthy, lambda: new_client(copy).restore_to_instant(history[1][0]))
    deletes = [n for n, (name, _, _) in enumerate(healthy.calls, 1) if name.startswith("delete") and "parquet" in name]
    error = run_with_faults(Faults(deletes[1]), lambda: new_client(base_path).restore_to_instant(history[1][0]))
    assert isinstance(error, HoodieIOException)
    with pytest.raises(HoodieCommitException, match=r"restore .* pending"):
        new_client(base_path).upsert(rows(("q", "x", 1)))
    with pytest.raises(HoodieRestoreException, match=rf"restore_to_instant\('{history[1][0]}'\)"):
        new_client(base_path).restore_to_instant(history[0][0])
    with pytest.raises(HoodieRestoreException, match="pending"):
        new_client(base_path).savepoint(history[0][0])
    new_client(base_path).restore_to_instant(history[1][0])
    assert read(base_path) == history[1][1]


@pytest.mark.parametrize("work", ["savepoint", "delete_savepoint", "restore"])
def test_a_failure_at_any_call_is_finished_by_doing_it_again(tmp_path: Path, faulty_storage: None, work: str) -> None:
    template = Path(init_table(tmp_path / "template"))
    history = write_history(template)
    instant_time, before = history[1][0], history[-1][1]
    if work == "delete_savepoint":
        new_client(template).savepoint(instant_time)

    def run(base_path: Path) -> None:
        client = new_client(base_path)
        if work == "restore":
            client.restore_to_instant(instant_time)
        elif work == "savepoint":
            client.savepoint(instant_time)
        else:
            client.delete_savepoint(instant_time)

    healthy = Faults()
    shutil.copytree(template, tmp_path / "healthy")
    assert run_with_faults(healthy, lambda: run(tmp_path / "healthy")) is None
    seen: set[tuple[tuple[str, ...], bool, bool]] = set()
    for number, how in faults_of(healthy.calls, dies=True):
        base_path = tmp_path / f"{number}_{how}"
        shutil.copytree(template, base_path)
        error = run_with_faults(Faults(number, how), lambda base_path=base_path: run(base_path))
        what = f"call {number} of {len(healthy.calls)}, {how}: {healthy.calls[number - 1][0]}"
        # Most calls read: what their failure leaves is what another's left, and is looked at once.
        state = (shape_of(base_path), how == "torn", error is None)
        if state in seen:
            shutil.rmtree(base_path)
            continue
        seen.add(state)
        try:
            if work != "restore":
                assert read(base_path) == before
            elif error is not None:
                # Readers see the table as it was at one of its instants.
                assert read(base_path) in [expected for _, expected in history]
            if work == "savepoint":
                try:
                    run(base_path)
                except HoodieSavepointException as again:
                    assert "already" in str(again)
                assert [made.instant_time for made in savepoints(timeline_of(base_path))] == [instant_time]
            elif work == "delete_savepoint":
                run(base_path)
                assert not list(timeline_of(base_path).filter_actions(Action.SAVEPOINT))
            else:
                run(base_path)
                assert read(base_path) == history[1][1]
                assert {name[-25:-8] for name in data_files(base_path)} <= {time for time, _ in history[:2]}
            new_client(base_path).upsert(rows(("new", "x", 9)))
            assert ("new", "x", 9) in read(base_path)
        except (AssertionError, HoodieException) as problem:
            problem.add_note(what)
            raise
        shutil.rmtree(base_path)
    print(f"{work}: {len(healthy.calls)} calls, {len(seen)} states on storage")
