"""What three processes at once can do to each other, of which some stand still or die."""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest

from hoodie.client.committer import Committer
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieException, HoodieSavepointException
from hoodie.table.action.archive.timeline_archiver import HoodieTimelineArchiver
from hoodie.table.action.clean.clean_action_executor import CleanActionExecutor
from hoodie.table.action.rollback import rollback_service
from hoodie.table.action.rollback.rollback_action_executor import RollbackActionExecutor
from hoodie.transaction import transaction_manager
from hoodie.transaction.transaction_manager import Transaction
from tests.support.folders import make_older
from tests.support.hookable_storage import hooked
from tests.support.services_table import ServicesTable
from tests.support.table_builder import SCHEMA
from tests.support.table_invariants import check_table
from tests.support.timeline_files import archive_folder, is_completed_file

OCC = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    "hoodie.write.lock.filesystem.expire": 1,
    "hoodie.write.lock.wait_time_ms": 1000,
    "hoodie.write.lock.client.num_retries": 0,
    # Of one host: in versions 8 and 9 each time that is taken lasts that long.
    "hoodie.time.generator.max_expected_clock_skew_ms": 1,
}
RETAIN_1 = {"hoodie.cleaner.commits.retained": 1}
VERSIONS_1 = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": 1}
FEW = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}


class Dead(BaseException):
    """A process dies."""


@pytest.fixture(autouse=True)
def threads_stand_for_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of one process do not commit and roll back at once; processes may."""
    monkeypatch.setattr(transaction_manager, "one_at_a_time", lambda table: nullcontext())


def age(table: ServicesTable) -> None:
    """Let heartbeats and the lock expire."""
    meta = table.base_path / ".hoodie"
    make_older([*(meta / ".heartbeat").glob("*"), *meta.glob("lock*")])


def row(key: str, ts: int, region: str = "x") -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "region": region, "ts": ts}], SCHEMA)


@pytest.mark.parametrize("several", [False, True])
def test_a_savepoint_whose_files_a_planned_clean_deletes_is_not_made(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    """The savepoint looked for cleans; then one is planned, which looked for savepoints; then both go on."""
    properties = OCC if several else {}
    times = [table.upsert("a") for _ in range(4)]
    is_planned, may_delete = threading.Event(), threading.Event()
    delete = CleanActionExecutor._delete
    errors: list[BaseException] = []

    def late(self: CleanActionExecutor, files: Any) -> Any:
        is_planned.set()
        assert may_delete.wait(60)
        return delete(self, files)

    def cleaning() -> None:
        try:
            with table.client(**properties, **RETAIN_1) as client:
                client.clean()
        except BaseException as error:
            errors.append(error)

    monkeypatch.setattr(CleanActionExecutor, "_delete", late)
    thread = threading.Thread(target=cleaning)
    begun: list[str] = []
    listed: list[str] = []

    def meanwhile(name: str, path: str) -> None:
        if threading.current_thread() is thread:
            if several and name == "create" and path.endswith(".clean.requested") and not listed:
                # The cleaner stands still here; its lock expires, and whoever makes the savepoint takes it.
                listed.append(path)
                age(table)
                taking.set()
                assert taken.wait(60)
        elif name == "create" and path.endswith(".savepoint.inflight") and not begun:
            begun.append(path)
            taken.set()
            if not several:
                thread.start()
            assert is_planned.wait(60)

    taking, taken = threading.Event(), threading.Event()
    made = None
    with hooked(monkeypatch, meanwhile):
        if several:
            thread.start()
            assert taking.wait(60)
        try:
            with table.client(**properties) as client:
                made = client.savepoint(times[1])
        except HoodieSavepointException:
            pass
        assert begun
        may_delete.set()
        thread.join()
    if made is not None:
        names = {p.name for p in (table.base_path / "x").iterdir()}
        assert set(made.files["x"]) <= names, "the savepoint was told to be made, and its files are deleted"


@pytest.mark.parametrize("several", [False, True])
def test_a_commit_of_which_its_writer_was_told_is_not_undone_by_a_plan_whose_maker_died(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    properties = OCC if several else {}
    table.upsert("a")
    writer = table.client(**properties, hoodie__auto__commit="false")
    instant_time = writer.start_commit()
    result = writer.upsert(row("b", 5), instant_time)
    steps: list[str] = []
    told: list[bool] = []

    def rolling_back(name: str, path: str) -> None:
        if name == "create" and path.endswith(".rollback.requested") and "r" not in steps:
            steps.append("r")
            # The writer goes on; its commit is there before anybody can see the rollback.
            raise_at.append(path)
            release.set()
            assert committed.wait(60)
        elif raise_at and "died" not in steps and path != raise_at[0]:
            steps.append("died")
            raise Dead

    raise_at: list[str] = []
    release, committed = threading.Event(), threading.Event()

    def roll_back() -> None:
        try:
            with table.client(**properties) as client:
                client.rollback_failed_writes()
        except Dead:
            steps.append("dead")

    main = threading.current_thread()

    def hook(name: str, path: str) -> None:
        if threading.current_thread() is main:
            # The writer stands still right before it completes its instant, for longer than heartbeat and lock last.
            if name == "create" and is_completed_file(path, instant_time=instant_time) and "w" not in steps:
                steps.append("w")
                age(table)
                thread.start()
                assert release.wait(60)
                age(table)
        else:
            rolling_back(name, path)

    thread = threading.Thread(target=roll_back)
    with hooked(monkeypatch, hook):
        try:
            told.append(writer.commit(instant_time, result))
        finally:
            committed.set()
            thread.join()
    assert told == [True]
    assert steps[-1] == "dead"
    age(table)
    with table.client(**properties) as third:
        third.rollback_failed_writes()
        third.upsert(row("c", 6))
    assert ("b", "x", 5) in table.read(), "the commit was told to be made, and is undone"


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.without_metadata_table("archiving would wait for its compaction")
def test_rows_stay_when_a_savepoint_is_deleted_while_commits_are_archived_past_it(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    """The same client archives in a thread."""
    properties = {**FEW, "hoodie.archive.beyond.savepoint": "true", **(OCC if several else {})}
    first = table.upsert("a0")
    table.savepoint(first)
    small = {"hoodie.parquet.small.file.limit": 0}
    for n in range(1, 6):
        table.upsert(f"a{n}", client=table.client(**small))
    rows = table.read()
    done: list[str] = []
    archive = f"{archive_folder(table.base_path)}/"

    def meanwhile(name: str, path: str) -> None:
        if name == "create" and path.startswith(archive) and not done:
            done.append(path)
            with table.client(**properties) as other:
                other.delete_savepoint(first)

    def deleting(name: str, path: str) -> None:
        if name == "delete" and is_completed_file(path, "savepoint", first) and not done:
            done.append(path)
            age(table)
            with table.client(**properties) as other:
                assert other.archive()

    with hooked(monkeypatch, deleting if several else meanwhile), table.client(**properties) as client:
        try:
            if several:
                client.delete_savepoint(first)
            else:
                client.archive()
        except HoodieException as error:
            print("told:", error)
    assert done
    assert table.read() == rows


@pytest.mark.without_metadata_table("archiving would wait for its compaction")
def test_a_savepoint_is_not_deleted_beside_the_archiving_of_the_same_client(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {
        **FEW,
        "hoodie.archive.beyond.savepoint": "true",
        "hoodie.archive.automatic": "true",
        "hoodie.archive.async": "true",
        "hoodie.parquet.small.file.limit": 0,
    }
    first = table.upsert("a0")
    table.savepoint(first)
    for n in range(1, 5):
        table.upsert(f"a{n}", client=table.client(**{"hoodie.parquet.small.file.limit": 0}))
    begun, deleted = threading.Event(), threading.Event()
    original = HoodieTimelineArchiver._archive_instants

    def slowly(self: HoodieTimelineArchiver, *instants: Any, **options: Any) -> Any:
        begun.set()
        deleted.wait(1)
        return original(self, *instants, **options)

    monkeypatch.setattr(HoodieTimelineArchiver, "_archive_instants", slowly)
    with table.client(**properties) as client:
        table.upsert("a5", client=client)
        assert begun.wait(60)
        client.delete_savepoint(first)
        deleted.set()
    assert [r[0] for r in table.read()] == ["a0", "a1", "a2", "a3", "a4", "a5"]


def test_a_late_commit_is_not_taken_back_to_files_that_a_clean_deletes(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer stands still where it completes its instant; another commits to a file group of its; a clean is planned
    when it is completed, and stands still; the writer finds the conflict, and takes its commit back.
    """
    table.upsert("a", region="x")
    table.upsert("b", region="y")
    writer = table.client(**OCC, hoodie__auto__commit="false")
    instant_time = writer.start_commit()
    both = pa.concat_tables([row("a", 50, "x"), row("b", 50, "y")])
    result = writer.upsert(both, instant_time)
    done: list[str] = []
    is_planned, may_delete = threading.Event(), threading.Event()
    delete = CleanActionExecutor._delete

    def late(self: CleanActionExecutor, files: Any) -> Any:
        is_planned.set()
        assert may_delete.wait(60)
        return delete(self, files)

    monkeypatch.setattr(CleanActionExecutor, "_delete", late)

    def cleaning() -> None:
        with table.client(**OCC, **RETAIN_1) as client:
            client.clean()

    thread = threading.Thread(target=cleaning)
    main = threading.current_thread()

    def hook(name: str, path: str) -> None:
        if threading.current_thread() is not main:
            return
        if name == "create" and is_completed_file(path, instant_time=instant_time) and "w" not in done:
            done.append("w")
            # Only the lock is lost.
            for lock in (table.base_path / ".hoodie").glob("lock*"):
                os.utime(lock, (1, 1))
            with table.client(**OCC) as other:
                other.upsert(row("a", 60, "x"))
                other.upsert(row("a", 61, "x"))

    look = Committer._look_again

    def look_again(self: Any, *arguments: Any) -> Any:
        thread.start()
        assert is_planned.wait(60)
        return look(self, *arguments)

    monkeypatch.setattr(Committer, "_look_again", look_again)
    try:
        with hooked(monkeypatch, hook), pytest.raises(HoodieException) as raised:
            writer.commit(instant_time, result)
        print("told:", raised.value)
    finally:
        may_delete.set()
        thread.join()
    monkeypatch.undo()
    read = {r[0] for r in table.read()}
    assert read == {"a", "b"}, "a row is lost"


def test_a_restore_whose_planner_died_is_not_finished_once_files_were_cleaned(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [table.upsert("a") for _ in range(4)]
    rows = table.read()
    steps: list[str] = []

    def hook(name: str, path: str) -> None:
        if name == "create" and path.endswith(".restore.requested") and not steps:
            steps.append("cleaned")
            with table.client(**VERSIONS_1) as other:
                assert other.clean() is not None
        elif steps == ["cleaned"] and not path.endswith(".restore.requested"):
            steps.append("dead")
            raise Dead

    with hooked(monkeypatch, hook), pytest.raises(Dead), table.client() as client:
        client.restore_to_instant(times[1])
    assert table.read() == rows
    with table.client() as client:
        try:
            client.restore_to_instant(times[1])
        except HoodieException as error:
            print("told:", error)
    assert table.read(), "all rows are lost"


def test_a_restore_whose_planner_died_does_not_leave_a_commit_without_its_files(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [table.upsert("a") for _ in range(3)]
    create = HoodieActiveTimeline.create_new_instant_time

    def write_before(self: HoodieActiveTimeline, action: Action, *arguments: Any) -> str:
        if action is not Action.RESTORE:
            return create(self, action, *arguments)
        with table.client() as other:
            other.upsert(row("new", 100, "y"))
        create(self, action, *arguments)
        raise Dead

    with monkeypatch.context() as patched, pytest.raises(Dead), table.client() as client:
        patched.setattr(HoodieActiveTimeline, "create_new_instant_time", write_before)
        client.restore_to_instant(times[1])
    with table.client() as client:
        try:
            client.restore_to_instant(times[1])
        except HoodieException as error:
            print("told:", error)
    check_table(table.base_path)


@pytest.mark.parametrize("way", ["restore", "rollback"])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.without_metadata_table("archiving would wait for its compaction")
def test_nobody_goes_back_to_a_commit_that_is_being_archived(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, several: bool, way: str
) -> None:
    properties = {**FEW, **(OCC if several else {})}
    times = [table.upsert("a") for _ in range(5)]
    done: list[str] = []
    with table.client(**properties) as client:
        due = HoodieTimelineArchiver(client.config, table.load().snapshot).instants_to_archive()
    last = due[-1].requested_time

    def hook(name: str, path: str) -> None:
        if name == "delete" and path.endswith(f"/{due[0].requested_time}.commit.requested") and not done:
            done.append(path)
            age(table)
            with table.client(**properties) as other:
                try:
                    if way == "restore":
                        other.restore_to_instant(last)
                    else:
                        for instant_time in reversed(times[times.index(last) + 1 :]):
                            other.rollback(instant_time)
                except HoodieException as error:
                    print("told:", error)

    with hooked(monkeypatch, hook), table.client(**properties) as client:
        try:
            client.archive()
        except HoodieException as error:
            print("archiver told:", error)
    assert done
    assert table.read(), "all rows are lost"


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.without_metadata_table("archiving would wait for its compaction")
def test_what_is_undone_before_it_is_archived_does_not_get_into_the_archive(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    properties = {**FEW, **(OCC if several else {})}
    times = [table.upsert("a") for _ in range(5)]
    rows = table.read_at(times[0])
    done: list[str] = []

    def hook(name: str, path: str) -> None:
        if name == "read" and is_completed_file(path, instant_time=times[1]) and not done:
            done.append(path)
            age(table)
            with table.client(**properties) as other:
                other.restore_to_instant(times[0])

    with hooked(monkeypatch, hook), table.client(**properties) as client, pytest.raises(HoodieException):
        client.archive()
    assert done
    assert len(table.load().archived_timeline) == 0
    assert table.read() == rows


@pytest.mark.parametrize("several", [False, True])
def test_a_commit_that_a_restore_undid_while_it_was_completed_is_not_told_to_be_made(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    properties = OCC if several else {}
    first = table.upsert("a")
    writer = table.client(**properties, hoodie__auto__commit="false")
    instant_time = writer.start_commit()
    result = writer.upsert(row("b", 5), instant_time)
    done: list[str] = []

    def hook(name: str, path: str) -> None:
        if name == "create" and is_completed_file(path, instant_time=instant_time) and not done:
            done.append(path)
            age(table)
            with table.client(**properties) as other:
                assert other.restore_to_instant(first) == (instant_time,)

    told = None
    with hooked(monkeypatch, hook):
        try:
            told = writer.commit(instant_time, result)
        except HoodieException as error:
            print("told:", error)
    assert done
    assert told is None or ("b", "x", 5) in table.read(), (
        "the writer was told that it is committed, and the row is lost"
    )


@pytest.mark.parametrize("withdrawn_after", [False, True])
def test_a_commit_that_one_undoes_while_another_withdraws_the_rollback_is_not_told_to_be_made(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, withdrawn_after: bool
) -> None:
    """A plans the rollback of a write, and stands still; the writer completes it; C goes on with the rollback, and
    stands still; A finds it completed, and withdraws the rollback; C goes on; the writer looks.
    """
    table.upsert("a")
    writer = table.client(hoodie__auto__commit="false")
    instant_time = writer.start_commit()
    result = writer.upsert(row("b", 5), instant_time)
    steps: list[str] = []
    planned, finishing, completed, withdrawn = (threading.Event() for _ in range(4))
    threads: dict[str, threading.Thread] = {}

    def undo(service: str) -> None:
        try:
            with table.client() as client:
                client.rollback_failed_writes()
        except HoodieException as error:
            print(service, "told:", error)

    threads["A"] = threading.Thread(target=undo, args="A")
    threads["C"] = threading.Thread(target=undo, args="C")
    execute = rollback_service.carry_out
    delete = RollbackActionExecutor._delete_files

    def slow_execute(*arguments: Any, **named: Any) -> Any:
        if threading.current_thread() is threads["A"]:
            planned.set()
            assert completed.wait(60)
            assert finishing.wait(60)
            try:
                return execute(*arguments, **named)
            finally:
                withdrawn.set()
        return execute(*arguments, **named)

    def slow_delete(self: RollbackActionExecutor, *arguments: Any) -> Any:
        if threading.current_thread() is threads["C"]:
            finishing.set()
            assert withdrawn.wait(60)
        return delete(self, *arguments)

    monkeypatch.setattr(rollback_service, "carry_out", slow_execute)
    monkeypatch.setattr(RollbackActionExecutor, "_delete_files", slow_delete)
    main = threading.current_thread()

    def hook(name: str, path: str) -> None:
        if threading.current_thread() is not main:
            return
        if name == "create" and is_completed_file(path, instant_time=instant_time) and not steps:
            steps.append("w")
            age(table)
            threads["A"].start()
            assert planned.wait(60)
            threads["C"].start()
            assert finishing.wait(60)
        elif steps == ["w"] and not is_completed_file(path, instant_time=instant_time):
            steps.append("completed")
            completed.set()
            for thread in threads.values():
                thread.join()

    told = None
    with hooked(monkeypatch, hook):
        try:
            told = writer.commit(instant_time, result)
        except HoodieException as error:
            print("W told:", error)
        completed.set()
        for thread in threads.values():
            thread.join()
    assert told is None or ("b", "x", 5) in table.read(), (
        "the writer was told that it is committed, and the row is lost"
    )


@pytest.mark.parametrize("archiver_dies", [False, True])
@pytest.mark.without_metadata_table("archiving would wait for its compaction")
def test_a_commit_that_was_archived_before_its_writer_looked_again_is_not_taken_for_undone(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, archiver_dies: bool
) -> None:
    """The writer stands still right after it completed its instant, and loses its lock; meanwhile it is archived, by
    an archiver that may die between the instant's files.
    """
    properties = {**OCC, **FEW}
    table.upsert("a", region="y")
    writer = table.client(**properties, hoodie__auto__commit="false")
    instant_time = writer.start_commit()
    result = writer.upsert(row("b", 50, "x"), instant_time)
    done: list[str] = []
    main = threading.current_thread()

    def archive() -> None:
        try:
            for _ in range(5):
                table.upsert("a", region="y", client=table.client(**properties))
            with table.client(**properties) as other:
                assert other.archive()
        except Dead:
            done.append("dead")

    def hook(name: str, path: str) -> None:
        is_mine = threading.current_thread() is main
        if not is_mine and archiver_dies and name == "delete" and is_completed_file(path, instant_time=instant_time):
            raise Dead

    is_held = Transaction.is_held

    def late(self: Transaction) -> bool:
        if threading.current_thread() is main and not done:
            done.append("completed")
            age(table)
            thread.start()
            thread.join()
            age(table)
        return is_held(self)

    monkeypatch.setattr(Transaction, "is_held", late)
    thread = threading.Thread(target=archive)
    told: Any = None
    with hooked(monkeypatch, hook):
        try:
            told = writer.commit(instant_time, result)
        except HoodieException as error:
            told = error
    print("told:", told, done)
    assert done[0] == "completed"
    assert (told is True) == (("b", "x", 50) in table.read()), "what the writer was told is not so"


@pytest.mark.parametrize("is_claimed", [False, True])
def test_a_clean_that_is_withdrawn_while_another_carries_it_out_is_seen_by_who_goes_back(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, is_claimed: bool
) -> None:
    """A plans a clean, and finds that somebody went back meanwhile; B carries that clean out; A withdraws it."""
    times = [table.upsert("a") for _ in range(5)]
    delete = CleanActionExecutor._delete
    deleting, may_delete = threading.Event(), threading.Event()
    done: list[str] = []

    def late(self: CleanActionExecutor, files: Any) -> Any:
        deleting.set()
        assert may_delete.wait(60)
        return delete(self, files)

    def cleaning() -> None:
        with table.client(**RETAIN_1) as client:
            client.clean()

    monkeypatch.setattr(CleanActionExecutor, "_delete", late)
    thread = threading.Thread(target=cleaning)
    main = threading.current_thread()

    def hook(name: str, path: str) -> None:
        if threading.current_thread() is not main:
            return
        if name == "create" and path.endswith(".clean.requested") and not done:
            if not is_claimed:
                # The rollback has the later time: the clean gives its own up and takes another one.
                done.append("rolled back")
                with table.client() as other:
                    other.rollback(times[4])
        elif done == ["rolled back"] and name in ("status", "delete") and ".clean" in path:
            done.append("withdrawing")
            thread.start()
            assert deleting.wait(60)

    create = HoodieActiveTimeline.create_new_instant_time

    def rollback_before(self: HoodieActiveTimeline, action: Action, *arguments: Any) -> str:
        if is_claimed and action is Action.CLEAN and threading.current_thread() is main:
            with table.client() as other:
                other.rollback(times[4])
            try:
                return create(self, action, *arguments)
            finally:
                done.append("rolled back")
        return create(self, action, *arguments)

    monkeypatch.setattr(HoodieActiveTimeline, "create_new_instant_time", rollback_before)
    with hooked(monkeypatch, hook), table.client(**RETAIN_1) as client:
        client.clean()
    assert done[-1] == "withdrawing"
    with table.client() as third:
        try:
            third.restore_to_instant(times[1])
        except HoodieException as error:
            print("told:", error)
    may_delete.set()
    thread.join()
    assert table.read(), "all rows are lost"


@pytest.mark.parametrize("is_carried_out", [False, True])
def test_a_rollback_whose_planner_died_is_not_finished_once_the_version_before_is_cleaned(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, is_carried_out: bool
) -> None:
    """A looks at the files, and stands still; a clean is planned; A writes its plan and dies before it looks again; the
    next writer finishes the rollback.
    """
    times = [table.upsert("a") for _ in range(3)]
    rows = table.read()
    create = HoodieActiveTimeline.create_new_instant_time
    delete = CleanActionExecutor._delete
    deleting, may_delete = threading.Event(), threading.Event()

    def late(self: CleanActionExecutor, files: Any) -> Any:
        deleting.set()
        assert may_delete.wait(60)
        return delete(self, files)

    def cleaning() -> None:
        with table.client(**VERSIONS_1) as client:
            client.clean()

    monkeypatch.setattr(CleanActionExecutor, "_delete", late)
    thread = threading.Thread(target=cleaning)

    def clean_before(self: HoodieActiveTimeline, action: Action, *arguments: Any) -> str:
        if action is not Action.ROLLBACK:
            return create(self, action, *arguments)
        thread.start()
        assert deleting.wait(60)
        if is_carried_out:
            may_delete.set()
            thread.join()
        create(self, action, *arguments)
        raise Dead

    with monkeypatch.context() as patched, pytest.raises(Dead), table.client() as client:
        patched.setattr(HoodieActiveTimeline, "create_new_instant_time", clean_before)
        client.rollback(times[2])
    with table.client() as client:
        try:
            client.rollback_failed_writes()
        except HoodieException as error:
            print("told:", error)
    may_delete.set()
    thread.join()
    assert table.read() == rows


@pytest.mark.without_metadata_table("archiving would wait for its compaction")
def test_a_commit_that_is_being_archived_is_not_savepointed(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        table.upsert("a", client=table.client(**{"hoodie.parquet.small.file.limit": 0}))
    with table.client(**FEW) as client:
        due = HoodieTimelineArchiver(client.config, table.load().snapshot).instants_to_archive()
    last = due[-1].requested_time
    made: list[str] = []
    done: list[str] = []

    def hook(name: str, path: str) -> None:
        if name == "delete" and path.endswith(f"/{due[0].requested_time}.commit.requested") and not done:
            done.append(path)
            with table.client() as other:
                try:
                    made.append(other.savepoint(last).instant_time)
                except HoodieSavepointException as error:
                    print("told:", error)

    with hooked(monkeypatch, hook), table.client(**FEW) as client:
        client.archive()
    assert done
    for instant_time in made:
        with table.client() as client:
            client.restore_to_savepoint(instant_time)
