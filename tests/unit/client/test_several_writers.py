"""Several writers at once, with optimistic concurrency control: who may commit, who loses, and what is left of them."""

from __future__ import annotations

import glob
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.avro.service_metadata import HoodieRestorePlan
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, State
from hoodie.exception import (
    HoodieClusteringUpdateException,
    HoodieCommitException,
    HoodieConfigException,
    HoodieEarlyConflictDetectionException,
    HoodieException,
    HoodieHeartbeatException,
    HoodieIOException,
    HoodieLockException,
    HoodieRestoreException,
    HoodieRollbackException,
    HoodieValidationException,
    HoodieWriteConflictException,
)
from hoodie.io.parquet.footer_tail import missing_base_file
from hoodie.storage.local_storage import LocalStorage
from hoodie.table.action.restore.restore_action_executor import RestoreActionExecutor
from hoodie.table.action.rollback.instant_files import InstantFiles
from hoodie.transaction.lock.file_system_based_lock_provider import FileSystemBasedLockProvider
from hoodie.transaction.lock.in_process_lock_provider import InProcessLockProvider
from hoodie.transaction.lock.lock_provider import LockConfiguration
from hoodie.transaction.transaction_manager import Transaction
from tests.support.folders import make_older
from tests.support.hookable_storage import hooked
from tests.support.model import model
from tests.support.pending_clustering import schedule_clustering
from tests.support.table_builder import init_table, local_client, read_rows, rows, write_action
from tests.support.table_invariants import check_table
from tests.support.timeline_files import (
    action_of_clustering,
    archive_files,
    instant_of_path,
    is_completed_file,
    is_in_metadata_table,
    state_files,
)

OCC = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    "hoodie.write.lock.wait_time_ms": 0,
    "hoodie.write.lock.client.num_retries": 0,
    # Of one host: in versions 8 and 9 each time that is taken lasts that long.
    "hoodie.time.generator.max_expected_clock_skew_ms": 1,
}
BY_HAND = {**OCC, "hoodie.auto.commit": "false"}
ONE_FILE_EACH = {**OCC, "hoodie.parquet.small.file.limit": 0}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table with one key in each of two partitions."""
    path = str(tmp_path / "t")
    init_table(path)
    with client(path) as c:
        c.upsert(rows(("a", "x", 1), ("b", "y", 1)))
    return path


def client(path: str, properties: dict[str, Any] | None = None) -> HoodieLocalWriteClient:
    return local_client(path, OCC if properties is None else properties, parallelism=1)


def timeline(path: str) -> set[tuple[str, State]]:
    return {(str(i.action), i.state) for i in HoodieTableMetaClient.load(path).active_timeline}


def heartbeats(path: str) -> list[str]:
    return sorted(os.listdir(f"{path}/.hoodie/.heartbeat"))


def age(path: str, seconds: float = 100_000) -> None:
    """Let the heartbeats and the lock of the table grow older."""
    make_older([*Path(path, ".hoodie", ".heartbeat").iterdir(), *Path(path, ".hoodie").glob("lock*")], seconds)


def lose_the_lock(path: str) -> None:
    """Delete the lock, if anybody has it."""
    Path(path, ".hoodie", "lock").unlink(missing_ok=True)


# --- who may commit ---------------------------------------------------------------------------------------------------


def with_buckets(count: int) -> dict[str, Any]:
    return {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": count}


@pytest.mark.parametrize(
    ("one", "other"), [(with_buckets(4), {}), ({}, with_buckets(4)), (with_buckets(3), with_buckets(5))]
)
def test_of_two_first_writers_with_contradicting_indexes_the_second_to_commit_loses(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any]
) -> None:
    path = str(tmp_path / "new")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields=["id"], partition_fields=["region"])
    late, early = client(path, {**BY_HAND, **one}), client(path, {**OCC, **other})
    instant_time = late.start_commit()
    result = late.upsert(rows(("a", "x", 1), ("b", "x", 1)), instant_time)
    early.upsert(rows(("a", "x", 2), ("c", "y", 2)))
    with pytest.raises(HoodieWriteConflictException, match=r"index that contradicts|changed as well") as raised:
        late.commit(instant_time, result)
    assert instant_time in str(raised.value)
    check_table(path, model(("a", "x", 2), ("c", "y", 2)))
    assert instant_time not in {instant.requested_time for instant in HoodieTableMetaClient.load(path).active_timeline}


def test_a_table_that_was_laid_out_in_buckets_meanwhile_takes_no_files_of_another_index(path: str) -> None:
    late = client(path, BY_HAND)
    instant_time = late.start_commit()
    result = late.upsert(rows(("c", "z", 1)), instant_time)
    with client(path, {**OCC, **with_buckets(4)}) as other:
        other.insert_overwrite_table(rows(("a", "x", 2), ("c", "z", 2)))
    with pytest.raises(HoodieWriteConflictException, match="index that contradicts"):
        late.commit(instant_time, result)
    check_table(path, model(("a", "x", 2), ("c", "z", 2)))


def test_writes_of_different_file_groups_are_all_committed_whatever_their_order(path: str) -> None:
    first, second = client(path, BY_HAND), client(path)
    instant_time = first.start_commit()
    result = first.upsert(rows(("a", "x", 2)), instant_time)
    later = second.upsert(rows(("b", "y", 2), ("c", "z", 2))).instant_time
    assert later > instant_time
    assert first.commit(instant_time, result)
    check_table(path, model(("a", "x", 2), ("b", "y", 2), ("c", "z", 2)))
    assert heartbeats(path) == []
    assert not os.path.exists(f"{path}/.hoodie/lock")


def test_of_two_writes_of_one_file_group_the_second_to_commit_loses(path: str) -> None:
    first, second = client(path, BY_HAND), client(path)
    instant_time = first.start_commit()
    result = first.upsert(rows(("a", "x", 9), ("b", "y", 9), ("new", "new", 9)), instant_time)
    other = second.upsert(rows(("a", "x", 2)))
    with pytest.raises(
        HoodieWriteConflictException, match=r"changed 1 file groups .*partition 'x'.*that is safe"
    ) as lost:
        first.commit(instant_time, result)
    (file_group,) = lost.value.file_groups
    assert file_group == ("x", other.statuses[0].file_id)
    assert lost.value.instant_time == instant_time
    assert lost.value.other_instants == (other.instant_time,)
    assert lost.value.is_retry_safe
    # Its files are gone, and nothing else is.
    check_table(path, model(("a", "x", 2), ("b", "y", 1)))
    assert {action for action, state in timeline(path) if state is not State.COMPLETED} == set()
    assert ("rollback", State.COMPLETED) in timeline(path)
    assert heartbeats(path) == []
    with first:
        again = first.start_commit()
        assert first.commit(again, first.upsert(rows(("a", "x", 9), ("b", "y", 9)), again))
    check_table(path, model(("a", "x", 9), ("b", "y", 9)))


def test_the_loser_of_an_auto_commit_is_rolled_back_too(path: str) -> None:
    other = client(path)

    def meanwhile(event: hoodie.ProgressEvent) -> None:
        if event.step == "write buckets" and event.state == "started":
            other.upsert(rows(("a", "x", 2)))

    config = HoodieWriteConfig.from_properties(path, OCC)
    with pytest.raises(HoodieWriteConflictException):
        HoodieLocalWriteClient(config, on_progress=meanwhile).upsert(rows(("a", "x", 3), ("c", "z", 3)))
    check_table(path, model(("a", "x", 2), ("b", "y", 1)))
    assert heartbeats(path) == []


def test_two_inserts_that_fill_the_same_small_file_conflict(path: str) -> None:
    first, second = client(path, BY_HAND), client(path)
    instant_time = first.start_commit()
    result = first.insert(rows(("p", "x", 1)), instant_time)
    second.insert(rows(("q", "x", 1)))
    with pytest.raises(HoodieWriteConflictException):
        first.commit(instant_time, result)
    check_table(path, model(("a", "x", 1), ("b", "y", 1), ("q", "x", 1)))


def test_two_inserts_into_files_of_their_own_do_not_conflict(path: str) -> None:
    first, second = client(path, {**BY_HAND, "hoodie.parquet.small.file.limit": 0}), client(path, ONE_FILE_EACH)
    instant_time = first.start_commit()
    result = first.insert(rows(("p", "x", 1)), instant_time)
    second.insert(rows(("q", "x", 1)))
    assert first.commit(instant_time, result)
    check_table(path, model(("a", "x", 1), ("b", "y", 1), ("q", "x", 1), ("p", "x", 1)))


def test_a_commit_with_an_older_time_that_came_since_the_start_counts(path: str) -> None:
    older, newer = client(path, BY_HAND), client(path, BY_HAND)
    old_time = older.start_commit()
    old_result = older.upsert(rows(("a", "x", 2)), old_time)
    new_time = newer.start_commit()
    new_result = newer.upsert(rows(("a", "x", 3)), new_time)
    assert older.commit(old_time, old_result)
    with pytest.raises(HoodieWriteConflictException) as lost:
        newer.commit(new_time, new_result)
    assert lost.value.other_instants == (old_time,)
    check_table(path, model(("a", "x", 2), ("b", "y", 1)))


def test_a_later_instant_hides_what_an_earlier_one_writes_after_it(path: str) -> None:
    first, second = client(path, BY_HAND), client(path)
    instant_time = first.start_commit()
    second.upsert(rows(("a", "x", 2)))
    # The write sees the other's file, but of two versions readers take the one with the later time.
    result = first.upsert(rows(("a", "x", 3)), instant_time)
    with pytest.raises(HoodieWriteConflictException):
        first.commit(instant_time, result)
    check_table(path, model(("a", "x", 2), ("b", "y", 1)))


def test_a_later_instant_of_other_file_groups_is_no_conflict(path: str) -> None:
    first, second = client(path, BY_HAND), client(path)
    instant_time = first.start_commit()
    second.upsert(rows(("b", "y", 2)))
    assert first.commit(instant_time, first.upsert(rows(("a", "x", 3)), instant_time))
    check_table(path, model(("a", "x", 3), ("b", "y", 2)))


def test_a_delete_conflicts_with_an_upsert_of_its_file_group(path: str) -> None:
    first, second = client(path, BY_HAND), client(path)
    instant_time = first.start_commit()
    result = first.delete(pa.table({"id": ["a"], "region": ["x"]}), instant_time)
    second.upsert(rows(("a", "x", 2)))
    with pytest.raises(HoodieWriteConflictException):
        first.commit(instant_time, result)
    check_table(path, model(("a", "x", 2), ("b", "y", 1)))


def test_a_rollback_of_what_was_read_is_a_conflict(path: str) -> None:
    first, second = client(path, BY_HAND), client(path)
    done = second.upsert(rows(("c", "z", 1))).instant_time
    instant_time = first.start_commit()
    result = first.upsert(rows(("a", "x", 2)), instant_time)
    # Hudi refuses to roll back a commit with later instants; an operator may have removed it by hand.
    table = HoodieTableMetaClient.load(path)
    table.active_timeline.revert_completed_to_inflight(done, write_action())
    with pytest.raises(HoodieWriteConflictException, match=f"{done} of .* was rolled back, or the table restored"):
        first.commit(instant_time, result)


def test_writers_that_change_the_columns_do_not_lose_each_others(path: str) -> None:
    def evolved(column: str, entry: tuple[str, str, int]) -> pa.Table:
        return rows(entry).append_column(column, pa.array([7]))

    first, second = client(path, BY_HAND), client(path)
    instant_time = first.start_commit()
    result = first.upsert(evolved("one", ("a", "x", 2)), instant_time)
    second.upsert(evolved("two", ("b", "y", 2)))
    with pytest.raises(HoodieWriteConflictException, match="with other columns than"):
        first.commit(instant_time, result)
    # An older instant that adds a column would be hidden by a newer one without it.
    instant_time = first.start_commit()
    result = first.upsert(evolved("three", ("a", "x", 2)).append_column("two", pa.array([1])), instant_time)
    second.upsert(rows(("b", "y", 3)).append_column("two", pa.array([2])))
    with pytest.raises(HoodieWriteConflictException, match="with other columns than"):
        first.commit(instant_time, result)
    # The newest one adds to what the older ones have.
    instant_time = second.start_commit()
    newest = client(path, BY_HAND)
    newest_time = newest.start_commit()
    newest_result = newest.upsert(evolved("four", ("a", "x", 4)).append_column("two", pa.array([3])), newest_time)
    second.upsert(rows(("b", "y", 4)).append_column("two", pa.array([4])), instant_time)
    assert newest.commit(newest_time, newest_result)
    expected = model(("a", "x", 4), ("b", "y", 4)).as_dicts()
    check_table(path, {key: {**row, "two": 3 if key == "a" else 4} for key, row in expected.items()})


def test_an_instant_is_committed_by_the_client_that_wrote_it(path: str) -> None:
    first, second = client(path, BY_HAND), client(path, BY_HAND)
    instant_time = first.start_commit()
    result = first.upsert(rows(("a", "x", 2)), instant_time)
    with pytest.raises(HoodieCommitException, match="was not written by this client"):
        second.commit(instant_time, result)
    assert first.commit(instant_time, result)


def test_threads_commit_one_after_the_other(path: str) -> None:
    patient = {**OCC, "hoodie.write.lock.wait_time_ms": 60_000}
    errors: list[Exception] = []

    def write(number: int) -> None:
        try:
            with client(path, patient) as c:
                c.upsert(rows((f"k{number}", f"p{number}", number)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    keys = [(f"k{number}", f"p{number}", number) for number in range(6)]
    check_table(path, model(("a", "x", 1), ("b", "y", 1), *keys))


# --- failed writes ----------------------------------------------------------------------------------------------------


def test_a_live_writer_is_not_rolled_back_and_a_dead_one_is(path: str) -> None:
    first, second = client(path, BY_HAND), client(path, {**OCC, "hoodie.clean.automatic": "false"})
    instant_time = first.start_commit()
    first.upsert(rows(("a", "x", 2)), instant_time)
    assert heartbeats(path) == [instant_time]
    assert second.rollback_failed_writes() == []
    second.upsert(rows(("b", "y", 2)))
    first.close()
    age(path)
    second.upsert(rows(("b", "y", 3)))
    assert (str(write_action()), State.INFLIGHT) in timeline(path)
    assert second.rollback_failed_writes() == [instant_time]
    assert (str(write_action()), State.INFLIGHT) not in timeline(path)
    assert heartbeats(path) == []
    check_table(path, model(("a", "x", 1), ("b", "y", 3)))


def test_of_two_writers_that_try_one_instant_time_the_loser_leaves_the_winners_heartbeat(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = client(path, BY_HAND), client(path, BY_HAND)
    tried: list[str] = []
    started: list[str] = []

    def meanwhile(name: str, where: str) -> None:
        is_requested = where.endswith(f".{write_action()}.requested") and not is_in_metadata_table(where)
        if name == "create" and is_requested and not tried:
            tried.append(os.path.basename(where).split(".")[0])
            # In versions 8 and 9 a time is taken under the lock: here it is lost.
            lose_the_lock(path)
            try:
                second.start_commit_with_time(tried[0])
            except HoodieCommitException as taken:
                assert "is taken" in str(taken)
            else:
                started.append(tried[0])

    with hooked(monkeypatch, meanwhile):
        started.append(first.start_commit())
    assert tried
    assert heartbeats(path) == sorted(started)
    assert client(path).rollback_failed_writes() == []


def test_cleaning_after_a_commit_rolls_dead_writers_back(path: str) -> None:
    first, second = client(path, BY_HAND), client(path)
    instant_time = first.start_commit()
    first.upsert(rows(("a", "x", 2)), instant_time)
    second.upsert(rows(("b", "y", 2)))
    assert heartbeats(path) == [instant_time]
    first.close()
    age(path)
    second.upsert(rows(("b", "y", 3)))
    assert heartbeats(path) == []
    assert (str(write_action()), State.INFLIGHT) not in timeline(path)
    check_table(path, model(("a", "x", 1), ("b", "y", 3)))


def test_a_writer_whose_heartbeat_expired_does_not_commit(path: str) -> None:
    first = client(path, BY_HAND)
    instant_time = first.start_commit()
    result = first.upsert(rows(("a", "x", 2)), instant_time)
    first._heartbeats._heartbeats[instant_time].beaten_ms -= 200_000
    with pytest.raises(HoodieHeartbeatException, match="has expired"):
        first.commit(instant_time, result)
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))


def test_a_rolled_back_writer_is_told_so(path: str) -> None:
    first, second = client(path, BY_HAND), client(path)
    instant_time = first.start_commit()
    result = first.upsert(rows(("a", "x", 2)), instant_time)
    age(path)
    assert second.rollback_failed_writes() == [instant_time]
    with pytest.raises(HoodieCommitException, match="it was rolled back"):
        first.commit(instant_time, result)
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))


@pytest.mark.parametrize(
    ("method", "suffix"),
    [
        ("create", ".open"),
        ("create", ".inflight"),
        ("status", ".requested"),
        ("status", ".open"),
        ("start", ".parquet"),
    ],
)
def test_a_writer_that_is_slow_and_is_rolled_back_leaves_no_file(
    path: str, monkeypatch: pytest.MonkeyPatch, method: str, suffix: str
) -> None:
    slow, other = client(path), client(path)
    rolled_back: list[str] = []

    def meanwhile(name: str, where: str) -> None:
        if name == method and where.endswith(suffix) and not rolled_back:
            age(path)
            rolled_back.extend(other.rollback_failed_writes())

    with hooked(monkeypatch, meanwhile), pytest.raises(HoodieCommitException):
        slow.upsert(rows(("a", "x", 2), ("n", "new", 2)))
    assert len(rolled_back) == 1
    assert not [file for file in Path(path).rglob("*.parquet") if rolled_back[0] in file.name]
    other.rollback_failed_writes()
    assert os.listdir(f"{path}/.hoodie/.temp") == []
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))


@pytest.mark.parametrize("number", range(1, 13))
def test_a_slow_writer_that_goes_on_within_its_rollback_leaves_no_file(
    path: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    slow, other = client(path), client(path)
    instant_time, count, errors = "", 0, []
    inflight = "inflight" if write_action() is Action.COMMIT else f"{write_action()}.inflight"

    def write() -> None:
        try:
            slow.upsert(rows(("a", "x", 2), ("n", "new", 2)))
        except HoodieException as error:
            errors.append(error)

    # The slow one waits before its instant is inflight; the other one's rollback lets it go on at one of its calls.
    waiting, going_on, has_ended = threading.Event(), threading.Event(), threading.Event()
    writer = threading.Thread(target=lambda: (write(), has_ended.set()))

    def meanwhile(name: str, where: str) -> None:
        nonlocal count
        if threading.current_thread() is writer:
            if name == "create" and (where.endswith((".open", ".inflight"))) and not waiting.is_set():
                waiting.set()
                assert going_on.wait(60)
        elif threading.current_thread() is threading.main_thread() and waiting.is_set():
            count += not is_in_metadata_table(where) and where.endswith(
                (f"{instant_time}.{write_action()}.requested", f"{instant_time}.{inflight}", ".open")
            )
            if count == number and not going_on.is_set():
                going_on.set()
                assert has_ended.wait(60)

    with hooked(monkeypatch, meanwhile):
        writer.start()
        assert waiting.wait(60)
        (pending,) = HoodieTableMetaClient.load(path).active_timeline.filter_pending()
        instant_time = pending.requested_time
        age(path)
        assert other.rollback_failed_writes() == [instant_time]
        going_on.set()
        writer.join()
    assert len(errors) == 1
    other.rollback_failed_writes()
    assert not [file for file in Path(path).rglob("*.parquet") if instant_time in file.name]
    assert os.listdir(f"{path}/.hoodie/.temp") == []
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))


def test_who_completes_while_others_look_for_failed_writes_is_not_rolled_back(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = client(path, BY_HAND), client(path)
    instant_time = first.start_commit()
    result = first.upsert(rows(("a", "x", 2)), instant_time)
    done = []

    def meanwhile(name: str, where: str) -> None:
        # The heartbeat was found missing or old, and the lock is not yet taken.
        if (name, where) == ("create", f"{path}/.hoodie/lock") and not done:
            done.append(first.commit(instant_time, result))

    age(path)
    with hooked(monkeypatch, meanwhile):
        assert second.rollback_failed_writes() == []
    assert done == [True]
    check_table(path, model(("a", "x", 2), ("b", "y", 1)))


def test_a_single_writer_with_a_lazy_policy_leaves_failed_writes_to_others(path: str) -> None:
    lazy = {"hoodie.cleaner.policy.failed.writes": "LAZY"}
    first = client(path, {**lazy, "hoodie.auto.commit": "false"})
    instant_time = first.start_commit()
    first.upsert(rows(("a", "x", 2)), instant_time)
    first.close()
    with client(path, lazy) as c:
        c.upsert(rows(("b", "y", 2)))
        assert c.rollback_failed_writes() == []
        age(path)
        assert c.rollback_failed_writes() == [instant_time]
    check_table(path, model(("a", "x", 1), ("b", "y", 2)))


def test_nobody_rolls_back_with_never(path: str) -> None:
    never = {"hoodie.cleaner.policy.failed.writes": "NEVER"}
    first = client(path, {**never, "hoodie.auto.commit": "false"})
    instant_time = first.start_commit()
    first.upsert(rows(("a", "x", 2)), instant_time)
    with client(path, never) as c:
        assert heartbeats(path) == []
        c.upsert(rows(("b", "y", 2)))
        assert c.rollback_failed_writes() == []
        assert (str(write_action()), State.INFLIGHT) in timeline(path)
        assert c.rollback(instant_time)
    check_table(path, model(("a", "x", 1), ("b", "y", 2)))


def test_a_single_writer_does_not_destroy_what_several_are_doing(path: str) -> None:
    first = client(path, BY_HAND)
    instant_time = first.start_commit()
    result = first.upsert(rows(("a", "x", 2)), instant_time)
    with pytest.raises(HoodieHeartbeatException, match="OPTIMISTIC_CONCURRENCY_CONTROL"):
        client(path, {}).upsert(rows(("b", "y", 2)))
    assert first.commit(instant_time, result)
    check_table(path, model(("a", "x", 2), ("b", "y", 1)))


def test_a_heartbeat_that_was_left_is_deleted_when_it_is_old(path: str) -> None:
    os.makedirs(f"{path}/.hoodie/.heartbeat", exist_ok=True)
    left = Path(path, ".hoodie", ".heartbeat", "20200101000000000")
    left.touch()
    with client(path) as c:
        c.rollback_failed_writes()
        assert left.exists()
        age(path)
        c.rollback_failed_writes()
        assert not left.exists()


# --- the lock ---------------------------------------------------------------------------------------------------------


class LostLockProvider(InProcessLockProvider):
    """Loses its lock while it is held for a write that is to be completed."""

    def is_held(self) -> bool:
        timeline = HoodieTableMetaClient.load(self.configuration.base_path).active_timeline
        return super().is_held() and all(instant.is_requested for instant in timeline.filter_pending())


def test_a_lost_lock_stops_the_commit(path: str) -> None:
    with pytest.raises(HoodieConfigException):
        client(path, {**OCC, "hoodie.write.lock.provider": "builtins.dict"}).upsert(rows(("a", "x", 2)))
    lost = client(path, OCC)
    lost._transactions._manager(HoodieTableMetaClient.load(path))._provider = LostLockProvider(
        LockConfiguration(path, "t", HoodieTableMetaClient.load(path).storage, lost.config.lock)
    )
    with pytest.raises(HoodieLockException, match="was lost while it was held .*Nothing was committed; write again"):
        lost.upsert(rows(("a", "x", 2)))
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))
    client(path).upsert(rows(("a", "x", 3)))
    check_table(path, model(("a", "x", 3), ("b", "y", 1)))


class FailingLockProvider(InProcessLockProvider):
    """Fails with errors of its own service once the commit is completed."""

    has_failed = is_over = False

    def is_held(self) -> bool:
        if not self.is_over and sum(map(is_completed_file, state_files(self.configuration.base_path))) > 1:
            self.has_failed = self.is_over = True
            raise ConnectionResetError("the service is gone")
        return super().is_held()

    def unlock(self) -> None:
        super().unlock()
        if self.has_failed:
            raise ConnectionResetError("the service is gone")

    def close(self) -> None:
        super().close()
        raise ConnectionResetError("the service is gone")


def test_a_provider_that_fails_after_the_commit_does_not_make_it_look_failed(path: str) -> None:
    with client(path, OCC) as failing:
        meta_client = HoodieTableMetaClient.load(path)
        provider = FailingLockProvider(LockConfiguration(path, "t", meta_client.storage, failing.config.lock))
        failing._transactions._manager(meta_client)._provider = provider
        assert failing.upsert(rows(("a", "x", 2))).is_committed
        assert provider.has_failed
        provider.has_failed = False
    assert len(HoodieTableMetaClient.load(path).active_timeline.filter_actions(Action.ROLLBACK)) == 0
    check_table(path, model(("a", "x", 2), ("b", "y", 1)))


def test_a_lock_that_is_deleted_under_a_writer_stops_the_commit(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(name: str, where: str) -> None:
        # Nothing but the timeline is listed between the moment when the lock is taken and the last look at it.
        is_written = bool(glob.glob(f"{path}/**/*.inflight", recursive=True, include_hidden=True))
        if name == "list" and is_written and os.path.exists(f"{path}/.hoodie/lock"):
            os.unlink(f"{path}/.hoodie/lock")

    with hooked(monkeypatch, meanwhile), pytest.raises(HoodieLockException):
        client(path).upsert(rows(("a", "x", 2)))
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))


@contextmanager
def losing_the_lock(
    monkeypatch: pytest.MonkeyPatch, path: str, meanwhile: Callable[[str], Any], at: str = "create", end: str = "commit"
) -> Iterator[list[str]]:
    """Whoever completes an instant stands still in that call until its lock is gone and others have been there."""
    done: list[str] = []

    def stand_still(name: str, where: str) -> None:
        is_end = where.endswith(end) and not is_in_metadata_table(where)
        if not done and name == at and is_end and os.path.exists(f"{path}/.hoodie/lock"):
            instant = instant_of_path(where)
            assert instant is not None
            done.append(instant.requested_time)
            os.unlink(f"{path}/.hoodie/lock")
            meanwhile(done[0])

    with hooked(monkeypatch, stand_still):
        yield done
    assert done


def test_a_commit_that_came_after_its_lock_was_lost_gives_way_to_one_that_came_before(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = client(path)
    with (
        losing_the_lock(monkeypatch, path, lambda _: other.upsert(rows(("a", "x", 2)))) as late,
        pytest.raises(HoodieWriteConflictException, match="that is safe") as lost,
    ):
        client(path).upsert(rows(("a", "x", 9), ("b", "y", 9), ("n", "new", 9)))
    assert lost.value.is_retry_safe
    assert "was completed for a moment, and taken back" in lost.value.__notes__[0]
    assert late == [lost.value.instant_time]
    check_table(path, model(("a", "x", 2), ("b", "y", 1)))
    assert all(state is State.COMPLETED for _, state in timeline(path))
    assert heartbeats(path) == []
    client(path).upsert(rows(("a", "x", 3)))
    check_table(path, model(("a", "x", 3), ("b", "y", 1)))


@pytest.mark.copy_on_write
def test_a_commit_that_came_after_its_lock_was_lost_is_made_again_where_that_is_asked_for(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = client(path)
    with losing_the_lock(monkeypatch, path, lambda _: other.upsert(rows(("a", "x", 2), ("c", "x", 2)))):
        again = client(path, {**OCC, "hoodie.write.lock.wait.retry": "true"})
        assert again.upsert(rows(("a", "x", 9), ("b", "y", 9))).is_committed
    check_table(path, model(("a", "x", 9), ("b", "y", 9), ("c", "x", 2)))


@pytest.mark.parametrize(
    ("undo", "committed"),
    [
        (lambda other, _: other.upsert(rows(("a", "x", 2))), False),
        (lambda other, instant_time: other.rollback(instant_time), False),
        (lambda other, _: other.upsert(rows(("b", "y", 2))), True),
    ],
    ids=["taken back", "rolled back", "in nobody's way"],
)
def test_a_result_says_what_became_of_a_late_commit_by_hand(
    path: str,
    monkeypatch: pytest.MonkeyPatch,
    undo: Callable[[HoodieLocalWriteClient, str], Any],
    committed: bool,
) -> None:
    other, mine = client(path), client(path, BY_HAND)
    result = mine.upsert(rows(("a", "x", 9)))
    with losing_the_lock(monkeypatch, path, lambda instant_time: undo(other, instant_time)):
        if committed:
            mine.commit(result.instant_time, result)
        else:
            with pytest.raises((HoodieWriteConflictException, HoodieLockException)):
                mine.commit(result.instant_time, result)
    assert result.is_committed is committed
    assert ("not committed" in repr(result)) is not committed


@pytest.mark.parametrize("operation", ["upsert", "insert_overwrite"])
def test_a_commit_that_came_after_its_lock_was_lost_and_it_was_rolled_back_is_none(
    path: str, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    other = client(path)
    end = "replacecommit" if operation == "insert_overwrite" else write_action()
    with (
        losing_the_lock(monkeypatch, path, other.rollback, end=f".{end}"),
        pytest.raises(HoodieLockException, match="was rolled back by another writer, .* Nothing was committed") as lost,
    ):
        getattr(client(path), operation)(rows(("a", "x", 9), ("b", "y", 9)))
    assert lost.value.was_lost
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))
    assert all(state is State.COMPLETED for _, state in timeline(path))
    assert heartbeats(path) == []


def test_a_lock_of_the_store_that_was_lost_is_noticed_at_its_release(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_store = {**OCC, "hoodie.write.lock.provider": "StorageBasedLockProvider"}
    lock, other, late = Path(path, ".hoodie", ".locks", "table_lock.json"), client(path, of_store), list[str]()

    def stand_still(name: str, where: str) -> None:
        if not late and name == "create" and where.endswith("commit") and not is_in_metadata_table(where):
            late.append(where)
            lock.unlink()
            other.upsert(rows(("a", "x", 2)))

    with hooked(monkeypatch, stand_still), pytest.raises(HoodieWriteConflictException, match="that is safe"):
        client(path, of_store).upsert(rows(("a", "x", 9), ("b", "y", 9)))
    assert late
    check_table(path, model(("a", "x", 2), ("b", "y", 1)))
    client(path, of_store).upsert(rows(("a", "x", 3)))
    check_table(path, model(("a", "x", 3), ("b", "y", 1)))


@pytest.mark.table_version(9)
def test_what_is_recorded_of_a_write_after_it_was_rolled_back_is_taken_back(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, recorded = client(path), list[str]()

    def stand_still(name: str, where: str) -> None:
        if not recorded and name == "create" and where.endswith(".deltacommit") and is_in_metadata_table(where):
            instant = instant_of_path(where)
            assert instant is not None
            recorded.append(instant.requested_time)
            os.unlink(f"{path}/.hoodie/lock")
            other.rollback(recorded[0])

    with hooked(monkeypatch, stand_still), pytest.raises((HoodieLockException, HoodieCommitException)):
        client(path).upsert(rows(("a", "x", 9), ("b", "y", 9)))
    metadata_table = HoodieTableMetaClient.load(f"{path}/.hoodie/metadata")
    assert not recorded or recorded[0] not in metadata_table.active_timeline.times
    assert recorded
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))
    client(path).upsert(rows(("a", "x", 3)))
    check_table(path, model(("a", "x", 3), ("b", "y", 1)))


def test_a_commit_that_came_after_its_lock_was_lost_stands_where_it_is_in_nobodys_way(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = client(path)
    with losing_the_lock(monkeypatch, path, lambda _: other.upsert(rows(("b", "y", 2)))):
        assert client(path).upsert(rows(("a", "x", 9))).is_committed
    check_table(path, model(("a", "x", 9), ("b", "y", 2)))


@pytest.mark.parametrize(
    "is_new_too",
    # A delta commit does not say what it is built on, unless it is a file group that the other one began.
    [pytest.param(False, marks=pytest.mark.copy_on_write), True],
)
def test_a_commit_whose_lock_was_lost_right_after_it_stands_though_others_build_on_it(
    path: str, monkeypatch: pytest.MonkeyPatch, is_new_too: bool
) -> None:
    def build_on_it(_: str) -> None:
        for ts in (10, 11):
            other.upsert(rows(("a", "x", ts), *([("n", "new", ts)] if is_new_too else [])))

    other = client(path)
    mine = client(path)
    original = HoodieActiveTimeline.save_as_complete

    def complete(self: HoodieActiveTimeline, instant_time: str, *rest: Any, **options: Any) -> bool:
        is_complete = original(self, instant_time, *rest, **options)
        if not done and not is_in_metadata_table(self.meta_path) and os.path.exists(f"{path}/.hoodie/lock"):
            done.append(instant_time)
            os.unlink(f"{path}/.hoodie/lock")
            build_on_it(instant_time)
        return is_complete

    done: list[str] = []
    monkeypatch.setattr(HoodieActiveTimeline, "save_as_complete", complete)
    assert mine.upsert(rows(("a", "x", 9), ("n", "new", 9))).is_committed
    check_table(path, model(("a", "x", 11), ("b", "y", 1), ("n", "new", 11 if is_new_too else 9)))


def test_a_late_commit_that_others_have_built_on_is_not_taken_back_but_told(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its completion and the look after it a third writer reads what it should not."""
    third = client(path)
    original = Transaction.is_held
    done: list[bool] = []

    def is_held(self: Transaction) -> bool:
        if len(done) == 1:
            done.append(True)
            third.upsert(rows(("n", "new", 10)))
        return original(self)

    monkeypatch.setattr(Transaction, "is_held", is_held)
    other = client(path)
    with (
        losing_the_lock(monkeypatch, path, lambda _: done.append(other.upsert(rows(("a", "x", 2))).is_committed)),
        pytest.raises(
            HoodieWriteConflictException, match="was completed, but .* could not be taken back .*built on it"
        ) as told,
    ):
        mine = client(path, BY_HAND)
        result = mine.upsert(rows(("a", "x", 9), ("n", "new", 9)))
        mine.commit(result.instant_time, result)
    assert not told.value.is_retry_safe
    assert result.is_committed
    assert (str(write_action()), State.INFLIGHT) not in timeline(path)


def test_who_cannot_find_out_whether_a_late_commit_stands_says_so(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def take_the_lock(_: str) -> None:
        assert holder.try_lock(0)

    configuration = LockConfiguration(path, "t", HoodieTableMetaClient.load(path).storage, client(path).config.lock)
    holder = FileSystemBasedLockProvider(configuration)
    with (
        losing_the_lock(monkeypatch, path, take_the_lock),
        pytest.raises(HoodieWriteConflictException, match="was completed, but the lock was lost .*Compare") as told,
    ):
        client(path).upsert(rows(("a", "x", 9)))
    assert not told.value.is_retry_safe
    holder.unlock()
    check_table(path, model(("a", "x", 9), ("b", "y", 1)))


def test_a_restore_that_is_planned_after_its_lock_was_lost_is_not_begun(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed meanwhile is not in its plan, and would lose its files."""
    first = HoodieTableMetaClient.load(path).active_timeline.commits_timeline().instants[-1].requested_time
    other = client(path)
    other.upsert(rows(("a", "x", 2)))
    with (
        losing_the_lock(monkeypatch, path, lambda _: other.upsert(rows(("b", "y", 2))), end=".restore.requested"),
        pytest.raises(HoodieLockException),
        client(path) as restoring,
    ):
        restoring.restore_to_instant(first)
    check_table(path, model(("a", "x", 2), ("b", "y", 2)))
    other.upsert(rows(("b", "y", 3)))
    client(path).restore_to_instant(first)
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))


def start_beside_the_lock(path: str, other: HoodieLocalWriteClient, table_version: int) -> str:
    """Start a commit while somebody else has the lock: from version 8 on that takes a lock that was lost."""
    if table_version > 6:
        with pytest.raises(HoodieLockException, match="could not be taken"):
            other.start_commit()
        lose_the_lock(path)
    return other.start_commit()


def test_a_restore_does_not_take_the_files_of_a_write_that_began_while_it_was_planned(
    path: str, monkeypatch: pytest.MonkeyPatch, table_version: int
) -> None:
    first = HoodieTableMetaClient.load(path).active_timeline.commits_timeline().instants[-1].requested_time
    other = client(path, BY_HAND)
    begun: list[tuple[str, Any]] = []

    def begin(name: str, where: str) -> None:
        if not begun and name == "create" and where.endswith(".restore.requested"):
            instant_time = start_beside_the_lock(path, other, table_version)
            begun.append((instant_time, other.upsert(rows(("c", "z", 2)), instant_time)))

    # Where the write could begin because the lock was lost, that is seen first.
    refused = HoodieRestoreException if table_version == 6 else HoodieLockException
    with client(path) as restoring:
        with hooked(monkeypatch, begin), pytest.raises(refused, match="Nothing was"):
            restoring.restore_to_instant(first)
        assert other.commit(*begun[0])
        check_table(path, model(("a", "x", 1), ("b", "y", 1), ("c", "z", 2)))
        restoring.restore_to_instant(first)
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))


def test_a_restore_does_not_undo_a_write_that_began_right_before_its_plan(
    path: str, monkeypatch: pytest.MonkeyPatch, table_version: int
) -> None:
    first = HoodieTableMetaClient.load(path).active_timeline.commits_timeline().instants[-1].requested_time
    other = client(path, BY_HAND)
    begun: list[str] = []
    plan = RestoreActionExecutor.plan

    def begin(self: RestoreActionExecutor) -> HoodieRestorePlan:
        begun.append(start_beside_the_lock(path, other, table_version))
        self.look()
        return plan(self)

    # Where the write could begin because the lock was lost, that is seen first.
    refused, why = HoodieHeartbeatException, "is being written"
    if table_version > 6:
        refused, why = HoodieLockException, "was lost while it was held"
    with client(path) as restoring:
        with monkeypatch.context() as patched:
            patched.setattr(RestoreActionExecutor, "plan", begin)
            with pytest.raises(refused, match=why):
                restoring.restore_to_instant(first)
        assert (str(write_action()), State.REQUESTED) in timeline(path)
        assert other.commit(begun[0], other.upsert(rows(("c", "z", 2)), begun[0]))
        check_table(path, model(("a", "x", 1), ("b", "y", 1), ("c", "z", 2)))


def test_a_write_that_goes_on_while_its_markers_are_looked_for_is_not_taken_for_a_lost_commit(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = client(path, BY_HAND)
    instant_time = other.start_commit()
    other.upsert(rows(("a", "x", 2)), instant_time)
    os.unlink(f"{path}/.hoodie/.heartbeat/{instant_time}")
    markers, elsewhere = f"{path}/.hoodie/.temp/{instant_time}", f"{path}/../markers"
    os.rename(markers, elsewhere)
    with pytest.raises(HoodieRollbackException, match="files have no markers"):
        client(path).clean()
    listed = InstantFiles.listed

    def later(self: InstantFiles, announced: Any = ()) -> Any:
        if not os.path.exists(markers):
            os.rename(elsewhere, markers)
        return listed(self, announced)

    monkeypatch.setattr(InstantFiles, "listed", later)
    client(path).clean()
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))
    with pytest.raises(HoodieCommitException, match="rolled back"):
        other.commit(instant_time, other.upsert(rows(("a", "x", 2)), instant_time))


@pytest.mark.copy_on_write
@pytest.mark.parametrize("is_retried", [False, True])
def test_a_file_that_was_changed_by_another_and_cleaned_under_a_write_is_a_conflict(
    path: str, monkeypatch: pytest.MonkeyPatch, is_retried: bool
) -> None:
    """The other began before, and commits while this one writes: its clean takes what nobody needs any more."""
    one_commit = {"hoodie.cleaner.commits.retained": 1, "hoodie.clean.automatic": "false"}
    other = client(path, {**BY_HAND, **one_commit})
    instant_time = other.start_commit()
    result = other.upsert(rows(("a", "x", 2)), instant_time)
    client(path).upsert(rows(("b", "y", 2)))
    done: list[str] = []

    def meanwhile(name: str, where: str) -> None:
        # Keys are looked up by then, and files are not written yet.
        if name == "create" and where.endswith(".inflight") and not done:
            done.append(where)
            assert other.commit(instant_time, result)
            assert other.clean() is not None

    retry = {**OCC, "hoodie.write.lock.wait.retry": str(is_retried).lower()}
    with hooked(monkeypatch, meanwhile), client(path, retry) as writer:
        if is_retried:
            writer.upsert(rows(("a", "x", 3)))
        else:
            with pytest.raises(
                HoodieWriteConflictException, match=f"{instant_time} was committed .* was cleaned"
            ) as told:
                writer.upsert(rows(("a", "x", 3)))
            assert told.value.is_retry_safe
    assert done
    check_table(path, model(("a", "x", 3 if is_retried else 2), ("b", "y", 2)), was_cleaned=True)


@pytest.mark.table_version(9)
def test_a_file_with_the_time_of_a_completed_instant_is_rolled_back_alone(tmp_path: Path) -> None:
    """Its writer died while it took its time, before it saw that the time is that of another one."""
    path = init_table(tmp_path / "table")
    with client(path) as writer:
        instant_time = writer.upsert(rows(("a", "x", 1), ("b", "y", 1))).instant_time
        timeline = HoodieTableMetaClient.load(path).active_timeline
        [written] = timeline
        timeline.create_requested(instant_time, Action.REPLACE_COMMIT)
        assert writer.rollback_failed_writes() == [instant_time]
    assert hoodie.metadata.validate(path).is_right
    assert read_rows(path) == [("a", "x", 1), ("b", "y", 1)]
    found = [(one.action, one.is_pending) for one in HoodieTableMetaClient.load(path).active_timeline]
    assert (written.action, False) in found
    assert Action.REPLACE_COMMIT not in dict(found)


def test_an_error_that_quotes_a_missing_file_is_no_conflict(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = client(path, BY_HAND)
    instant_time = other.start_commit()
    result = other.upsert(rows(("a", "x", 2)), instant_time)
    quoted = str(missing_base_file(LocalStorage(path), f"{path}/x/f.parquet"))
    done: list[str] = []

    def meanwhile(name: str, where: str) -> None:
        if name == "create" and where.endswith(".inflight") and not done:
            done.append(where)
            assert other.commit(instant_time, result)
            raise HoodieValidationException(f"the log of yesterday says: {quoted}")

    with (
        hooked(monkeypatch, meanwhile),
        client(path, {**OCC, "hoodie.write.lock.wait.retry": "false"}) as writer,
        pytest.raises(HoodieValidationException, match="the log of yesterday"),
    ):
        writer.upsert(rows(("a", "x", 3)))
    check_table(path, model(("a", "x", 2), ("b", "y", 1)))


def test_who_commits_what_a_restore_undid_is_told_so(path: str) -> None:
    first = HoodieTableMetaClient.load(path).active_timeline.commits_timeline().instants[-1].requested_time
    other = client(path, BY_HAND)
    instant_time = other.start_commit()
    result = other.upsert(rows(("c", "z", 2)), instant_time)
    os.unlink(f"{path}/.hoodie/.heartbeat/{instant_time}")
    with client(path) as restoring:
        restoring.restore_to_instant(first)
    with pytest.raises(HoodieCommitException, match=r"cannot be committed: restore \d{17} undid it"):
        other.commit(instant_time, result)
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))


def test_a_rollback_that_is_planned_after_its_lock_was_lost_is_not_begun(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = client(path)
    newest = other.upsert(rows(("a", "x", 2))).instant_time
    with (
        losing_the_lock(monkeypatch, path, lambda _: other.upsert(rows(("a", "x", 3))), end=".rollback.requested"),
        pytest.raises(HoodieLockException),
    ):
        client(path).rollback(newest)
    check_table(path, model(("a", "x", 3), ("b", "y", 1)))
    assert all(state is State.COMPLETED for _, state in timeline(path))


def test_what_is_built_on_a_commit_that_is_being_rolled_back_is_not_committed(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rollback has lost its lock after it was planned."""
    other = client(path)
    newest = other.upsert(rows(("a", "x", 2))).instant_time

    def build_on_it(_: str) -> None:
        late = client(path, BY_HAND)
        started = late.start_commit()
        result = late.upsert(rows(("a", "x", 3)), started)
        with pytest.raises(HoodieWriteConflictException, match="builds on, is being rolled back") as lost:
            late._committer.complete(started, result, {})
        assert lost.value.is_retry_safe

    with losing_the_lock(monkeypatch, path, build_on_it, end=".rollback.inflight"):
        client(path).rollback(newest)
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))


def test_who_was_written_when_a_restore_began_does_not_commit_before_its_end(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = HoodieTableMetaClient.load(path).active_timeline.commits_timeline().instants[-1].requested_time
    client(path).upsert(rows(("b", "y", 2)))
    late = client(path, BY_HAND)
    started = late.start_commit()
    result = late.upsert(rows(("a", "x", 3)), started)
    age(path)

    def commit(_: str) -> None:
        with pytest.raises(HoodieCommitException, match=r"restore .* is pending"):
            late._committer.complete(started, result, {})

    with losing_the_lock(monkeypatch, path, commit, end=".restore.inflight"):
        client(path).restore_to_instant(first)
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))


@pytest.mark.copy_on_write
def test_an_archiver_whose_lock_was_lost_leaves_its_work_to_another(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = {**OCC, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.cleaner.commits.retained": 1}
    by_hand = {**keep, "hoodie.archive.automatic": "false"}
    with client(path, by_hand) as writing:
        for ts in range(2, 8):
            writing.upsert(rows(("a", "x", ts)))
    before = {i.requested_time for i in HoodieTableMetaClient.load(path).active_timeline.commits_timeline()}
    other = client(path, keep)
    with (
        losing_the_lock(monkeypatch, path, lambda _: other.archive(), at="read", end=".requested"),
        pytest.raises((HoodieLockException, HoodieIOException)),
    ):
        client(path, keep).archive()
    table = HoodieTableMetaClient.load(path)
    archived = [i.requested_time for i in table.archived_timeline]
    assert len(archive_files(path)) == 1
    assert {*archived, *(i.requested_time for i in table.active_timeline.commits_timeline())} >= before
    check_table(path, model(("a", "x", 7), ("b", "y", 1)))


def test_a_lock_that_is_not_given_fails_the_commit_and_says_who_holds_it(path: str) -> None:
    holder = FileSystemBasedLockProvider(
        LockConfiguration(path, "t", HoodieTableMetaClient.load(path).storage, client(path).config.lock)
    )
    waiting = client(path, BY_HAND)
    instant_time = waiting.start_commit()
    result = waiting.upsert(rows(("a", "x", 2)), instant_time)
    assert holder.try_lock(0)
    with pytest.raises(
        HoodieLockException, match=r"held by process \d+ on .*delete .*/lock; with hoodie.write.lock.filesystem"
    ):
        waiting.commit(instant_time, result)
    holder.unlock()
    # Nothing is lost: the instant waits for its commit.
    assert waiting.commit(instant_time, result)
    check_table(path, model(("a", "x", 2), ("b", "y", 1)))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"provider": "ZookeeperBasedLockProvider"}, "needs hoodie.write.lock.zookeeper.url"),
        ({"provider": "FileSystemBasedLockProvider", "filesystem.path": "s3://lake/locks"}, "Give StorageBasedLock"),
    ],
)
def test_a_lock_that_cannot_be_taken_is_refused_before_anything_is_written(
    path: str, options: dict[str, str], problem: str
) -> None:
    before = timeline(path)
    given = {f"hoodie.write.lock.{key}": value for key, value in options.items()}
    with client(path, {**OCC, **given}) as writer, pytest.raises(HoodieConfigException, match=problem):
        writer.upsert(rows(("a", "x", 2)))
    assert timeline(path) == before


def test_several_writers_need_a_lock() -> None:
    with pytest.raises(HoodieConfigException, match="needs hoodie.write.lock.provider"):
        HoodieWriteConfig.from_properties("/t", {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"})


# --- writing again ----------------------------------------------------------------------------------------------------

AGAIN = {**OCC, "hoodie.write.lock.wait.retry": "true"}


def rival_client(path: str, times: int, properties: dict[str, Any]) -> tuple[HoodieLocalWriteClient, list[int]]:
    """A client, beside which another writer changes the same file group during its first writes."""
    other, count = client(path), [0]

    def meanwhile(event: hoodie.ProgressEvent) -> None:
        if event.step == "write buckets" and event.state == "started" and count[0] < times:
            count[0] += 1
            other.upsert(rows(("a", "x", 2), (f"other{count[0]}", "x", 2)))

    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, properties), on_progress=meanwhile), count


def test_a_write_that_lost_is_made_again_on_what_the_table_is_then(path: str) -> None:
    mine, count = rival_client(path, 2, AGAIN)
    with mine:
        result = mine.upsert(iter(rows(("a", "x", 3), ("other1", "x", 3), ("c", "z", 3)).to_batches()))
    assert count == [2]
    assert result.is_committed
    assert (result.inserted_count, result.updated_count) == (1, 2)
    check_table(path, model(("a", "x", 3), ("b", "y", 1), ("other1", "x", 3), ("other2", "x", 2), ("c", "z", 3)))
    assert heartbeats(path) == []


def test_a_stream_is_held_to_be_written_again(path: str) -> None:
    mine, _ = rival_client(path, 1, AGAIN)
    assert mine.upsert(rows(("a", "x", 3)).to_reader()).is_committed
    mine, _ = rival_client(path, 1, {**OCC, "hoodie.write.num.retries.on.conflict.failures": 1})
    assert mine.upsert(iter([{"id": "b", "region": "x", "ts": 5}])).is_committed
    table = hoodie.read_table(path, columns=["id", "region", "ts"]).to_pylist()
    assert {"id": "b", "region": "x", "ts": 5} in table


def test_writing_again_ends_after_some_attempts_and_some_time(path: str) -> None:
    mine, count = rival_client(path, 100, {**AGAIN, "hoodie.write.lock.wait.retry.max.attempts": 2})
    with pytest.raises(HoodieWriteConflictException) as lost:
        mine.upsert(rows(("a", "x", 3)))
    assert count == [2]
    assert "attempt 2 of 2" in lost.value.__notes__[0]
    mine, count = rival_client(path, 100, {**AGAIN, "hoodie.write.lock.wait.retry.max.time.ms": 0})
    with pytest.raises(HoodieWriteConflictException):
        mine.upsert(rows(("a", "x", 3)))
    assert count == [1]
    assert all(state is State.COMPLETED for _, state in timeline(path))


def test_threads_that_write_the_same_file_group_all_get_through_when_they_write_again(path: str) -> None:
    patient = {**AGAIN, "hoodie.write.lock.wait_time_ms": 60_000, "hoodie.write.lock.wait.retry.max.attempts": 50}
    errors: list[Exception] = []

    def write(number: int) -> None:
        try:
            with client(path, patient) as c:
                c.upsert(rows((f"k{number}", "x", number)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    check_table(path, model(("a", "x", 1), ("b", "y", 1), *((f"k{number}", "x", number) for number in range(4))))


# --- one key added by two ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_global", [False, True])
def test_a_key_that_two_writers_add_is_found_where_that_is_asked_for(path: str, is_global: bool) -> None:
    unique = {"hoodie.write.concurrency.unique.keys": "true", "hoodie.parquet.small.file.limit": 0}
    index = {"hoodie.index.type": "GLOBAL_SIMPLE"} if is_global else {}
    first, second = client(path, {**BY_HAND, **unique, **index}), client(path, {**ONE_FILE_EACH, **index})
    other_partition = "y" if is_global else "x"

    def race(mine: tuple[str, str, int], theirs: tuple[str, str, int]) -> None:
        instant_time = first.start_commit()
        result = first.upsert(rows(mine), instant_time)
        second.upsert(rows(theirs))
        first.commit(instant_time, result)

    with pytest.raises(HoodieWriteConflictException, match=r"added the key .*new.* of 1. to partition 'x'") as lost:
        race(("new", "x", 1), ("new", other_partition, 2))
    assert lost.value.is_retry_safe
    race(("mine", "x", 1), ("theirs", other_partition, 2))
    if not is_global:
        race(("both", "x", 1), ("both", "y", 2))
    instant_time = first.start_commit()
    result = first.upsert(rows(("new", other_partition, 3)), instant_time)
    assert result.updated_count == 1
    assert first.commit(instant_time, result)
    table = hoodie.read_table(path, columns=["id", "region", "ts"]).to_pylist()
    assert [row for row in table if row["id"] == "new"] == [{"id": "new", "region": other_partition, "ts": 3}]
    check_table(path)


def test_a_key_is_found_though_a_third_writer_rewrote_its_file(path: str) -> None:
    unique = {**BY_HAND, "hoodie.write.concurrency.unique.keys": "true", "hoodie.parquet.small.file.limit": 0}
    first, second = client(path, unique), client(path, ONE_FILE_EACH)
    instant_time = first.start_commit()
    result = first.upsert(rows(("new", "x", 1)), instant_time)
    second.upsert(rows(("new", "x", 2), ("more", "x", 2)))
    second.upsert(rows(("more", "x", 3)))
    with pytest.raises(HoodieWriteConflictException, match="it would be stored twice"):
        first.commit(instant_time, result)
    check_table(path, model(("a", "x", 1), ("b", "y", 1), ("new", "x", 2), ("more", "x", 3)))


# --- early detection --------------------------------------------------------------------------------------------------


def test_markers_of_a_live_writer_stop_another_before_it_writes(path: str) -> None:
    early = {**OCC, "hoodie.write.concurrency.early.conflict.detection.enable": "true"}
    first = client(path, BY_HAND)
    instant_time = first.start_commit()
    result = first.upsert(rows(("a", "x", 2)), instant_time)
    second = client(path, early)
    with pytest.raises(HoodieEarlyConflictDetectionException, match=f"partition 'x' .{instant_time}.*safe") as lost:
        second.upsert(rows(("a", "x", 3), ("b", "y", 3)))
    assert lost.value.is_retry_safe
    second.upsert(rows(("b", "y", 4), ("n", "new", 4)))
    assert first.commit(instant_time, result)
    second.upsert(rows(("a", "x", 5)))
    check_table(path, model(("a", "x", 5), ("b", "y", 4), ("n", "new", 4)))


def test_markers_of_a_dead_writer_stop_nobody(path: str) -> None:
    early = {**OCC, "hoodie.write.concurrency.early.conflict.detection.enable": "true"}
    first = client(path, BY_HAND)
    instant_time = first.start_commit()
    first.upsert(rows(("a", "x", 2)), instant_time)
    first.close()
    age(path)
    client(path, early).upsert(rows(("a", "x", 3)))
    check_table(path, model(("a", "x", 3), ("b", "y", 1)))


# --- pending clusterings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("properties", [OCC, {}], ids=["several_writers", "single_writer"])
def test_records_that_a_pending_clustering_rewrites_are_not_changed(path: str, properties: dict[str, Any]) -> None:
    clustering = schedule_clustering(path, "x")
    with client(path, properties) as c:
        for write in (
            lambda: c.upsert(rows(("a", "x", 2))),
            lambda: c.delete(pa.table({"id": ["a"], "region": ["x"]})),
        ):
            with pytest.raises(HoodieClusteringUpdateException, match=f"of partition 'x' .clustering {clustering}."):
                write()
        check_table(path, model(("a", "x", 1), ("b", "y", 1)))
        # New records go to another file.
        new = c.insert(rows(("n", "x", 1)))
        assert [status.stat.prev_commit for status in new] == ["null"]
        c.upsert(rows(("b", "y", 2)))
    check_table(path, model(("a", "x", 1), ("b", "y", 2), ("n", "x", 1)))


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_a_clustering_that_was_scheduled_meanwhile_is_a_conflict(path: str) -> None:
    first = client(path, BY_HAND)
    instant_time = first.start_commit()
    result = first.upsert(rows(("a", "x", 2)), instant_time)
    clustering, action = schedule_clustering(path, "x"), action_of_clustering(path)
    with pytest.raises(HoodieWriteConflictException, match=f"{clustering} .{action}, pending."):
        first.commit(instant_time, result)
    check_table(path, model(("a", "x", 1), ("b", "y", 1)))


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_a_strategy_that_prefers_writers_commits_before_a_pending_clustering(path: str) -> None:
    name = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
    first = client(path, {**BY_HAND, "hoodie.write.lock.conflict.resolution.strategy": name})
    instant_time = first.start_commit()
    result = first.upsert(rows(("a", "x", 2)), instant_time)
    schedule_clustering(path, "x")
    assert first.commit(instant_time, result)
    check_table(path, model(("a", "x", 2), ("b", "y", 1)))


# --- all interleavings and deaths -------------------------------------------------------------------------------------


def calls_of(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> list[tuple[str, str]]:
    calls: list[tuple[str, str]] = []
    with hooked(monkeypatch, lambda name, where: calls.append((name, where))):
        work()
    return calls


def matters(call: tuple[str, str]) -> bool:
    """Whether what others do right before a call can make a difference: it looks at the timeline, or changes it."""
    name, where = call
    return "/.hoodie" in where and (name in ("list", "create", "delete", "replace") or where.endswith("flight"))


def attempt(path: str, entries: pa.Table) -> bool:
    """Whether a write came through; any other end than a refusal is an error."""
    try:
        with client(path) as c:
            c.upsert(entries)
    except (HoodieWriteConflictException, HoodieLockException):
        return False
    return True


@pytest.mark.parametrize("partition", ["x", "y"], ids=["same_file_group", "another_file_group"])
def test_another_write_before_any_call_is_never_lost_nor_hides_this_one(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch, partition: str
) -> None:
    mine, theirs = ("a", "x", 5), ("a" if partition == "x" else "b", partition, 4)
    template = tmp_path / "template"
    shutil.copytree(path, template)
    calls = calls_of(monkeypatch, lambda: attempt(path, rows(mine)))
    outcomes = set()
    numbers = [number for number, call in enumerate(calls) if matters(call)]
    for number in numbers:
        copy = tmp_path / f"t{number}"
        shutil.copytree(template, copy)
        done: list[bool] = []
        count = 0

        def meanwhile(name: str, where: str, copy: Path = copy, done: list[bool] = done, number: int = number) -> None:
            # A thread of the writer, such as its heartbeat, may come here while the other one writes.
            nonlocal count
            count += 1
            if count == number + 1:
                done.append(attempt(str(copy), rows(theirs)))

        with hooked(monkeypatch, meanwhile):
            mine_done = attempt(str(copy), rows(mine))
        (theirs_done,) = done
        outcomes.add((mine_done, theirs_done))
        expected = model(("a", "x", 1), ("b", "y", 1))
        if theirs_done:
            expected.update(model(theirs))
        if mine_done:
            expected.update(model(mine))
        try:
            check_table(copy, expected)
            assert mine_done or theirs_done
            if heartbeats(str(copy)):
                # Who did not get the lock could not roll back either: that is left for later.
                age(str(copy))
                client(str(copy)).rollback_failed_writes()
                check_table(copy, expected)
            assert heartbeats(str(copy)) == []
            assert all(state is State.COMPLETED for _, state in timeline(str(copy)))
        except AssertionError as error:
            error.add_note(f"before call {number}: {calls[number]}; mine {mine_done}, theirs {theirs_done}")
            raise
        shutil.rmtree(copy)
    print(f"{len(numbers)} of {len(calls)} calls, outcomes {outcomes}")
    assert (False, True) in outcomes if partition == "x" else (True, True) in outcomes
    assert (True, False) in outcomes, "the other one never met the lock"


def test_a_writer_that_dies_before_any_call_does_not_stop_the_others(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        """The end of a process."""

    expiring = {**OCC, "hoodie.write.lock.filesystem.expire": 1}
    template = tmp_path / "template"
    shutil.copytree(path, template)

    def write(where: Path | str, *entries: tuple[str, str, int]) -> None:
        with client(str(where), expiring) as c:
            c.upsert(rows(*entries))

    calls = calls_of(monkeypatch, lambda: write(path, ("a", "x", 5), ("n", "new", 5)))
    held = 0
    numbers = [number for number, call in enumerate(calls) if matters(call)]
    for number in numbers:
        copy = tmp_path / f"t{number}"
        shutil.copytree(template, copy)
        count = 0

        def die(name: str, where: str, number: int = number) -> None:
            nonlocal count
            count += 1
            if count > number:
                raise Died

        dying = client(str(copy), expiring)
        with hooked(monkeypatch, die), pytest.raises(Died):
            dying.upsert(rows(("a", "x", 5), ("n", "new", 5)))
        for heartbeat in dying._heartbeats._heartbeats.values():
            heartbeat.stopped.set()
        provider: Any = dying._transactions._manager(HoodieTableMetaClient.load(str(copy))).provider
        provider._stop_renewing()
        committed = sum(map(is_completed_file, state_files(copy))) == 2
        try:
            if os.path.exists(copy / ".hoodie" / "lock"):
                held += 1
                with pytest.raises(HoodieLockException):
                    write(copy, ("b", "y", 2))
            age(str(copy))
            with client(str(copy), expiring) as c:
                c.rollback_failed_writes()
                c.upsert(rows(("a", "x", 6), ("b", "y", 3)))
            expected = model(("a", "x", 6), ("b", "y", 3), *([("n", "new", 5)] if committed else []))
            check_table(copy, expected)
            assert heartbeats(str(copy)) == []
            assert all(state is State.COMPLETED for _, state in timeline(str(copy)))
        except (AssertionError, HoodieException) as error:
            error.add_note(f"died before call {number}: {calls[number]}")
            raise
        shutil.rmtree(copy)
    print(f"died before {len(numbers)} of {len(calls)} calls, {held} times with the lock")
    assert held > 2
