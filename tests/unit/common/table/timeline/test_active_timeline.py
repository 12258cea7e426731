from __future__ import annotations

import multiprocessing
import multiprocessing.synchronize
import os
import sys
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.table.timeline.active_timeline import CommitsRead, HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.timeline_layout import TimelineLayoutV1, timeline_layout
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieCorruptedDataException,
    HoodieIOException,
)
from hoodie.storage.local_storage import LocalStorage
from hoodie.storage.storage_factory import open_storage
from tests.support.hookable_storage import Call, losing_answers, storage_with

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
NOW_TIME = "20260102030405678"
OLD_TIME = "20250101000000000"


def load(path: Path | str, storage: LocalStorage | None = None, **options: Any) -> HoodieActiveTimeline:
    options.setdefault("clock", lambda: NOW)
    return HoodieActiveTimeline.load(storage or LocalStorage(str(path)), str(path), timeline_layout(1), **options)


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def touch(path: Path, *file_names: str) -> None:
    for name in file_names:
        (path / name).write_bytes(b"")


# --- loading ----------------------------------------------------------------------------------------------------------


def test_each_instant_is_in_the_highest_state_of_its_files(tmp_path: Path) -> None:
    touch(tmp_path, "1.commit.requested", "1.inflight", "1.commit", "1.savepoint.inflight", "1.savepoint")
    touch(tmp_path, "2.commit.requested", "2.inflight", "3.clean.requested", "hoodie.properties", "9x.commit")
    touch(tmp_path, "4.compaction.requested", "4.compaction.inflight", "4.commit", "5.compaction.requested")
    touch(tmp_path, "6.logcompaction.requested", "6.deltacommit", "7.replacecommit.requested")
    (tmp_path / "8.commit").mkdir()
    assert list(load(tmp_path)) == [
        HoodieInstant("1", Action.COMMIT, State.COMPLETED),
        HoodieInstant("1", Action.SAVEPOINT, State.COMPLETED),
        HoodieInstant("2", Action.COMMIT, State.INFLIGHT),
        HoodieInstant("3", Action.CLEAN, State.REQUESTED),
        HoodieInstant("4", Action.COMMIT, State.COMPLETED),
        HoodieInstant("5", Action.COMPACTION, State.REQUESTED),
        HoodieInstant("6", Action.DELTA_COMMIT, State.COMPLETED),
        HoodieInstant("7", Action.REPLACE_COMMIT, State.REQUESTED),
    ]


def test_a_timeline_does_not_follow_storage_until_it_is_reloaded(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    time = timeline.create_new_instant_time(Action.COMMIT)
    assert len(timeline) == 0
    assert list(timeline.reload()) == [HoodieInstant(time, Action.COMMIT, State.REQUESTED)]


def test_the_commit_metadata_of_every_real_version_6_table_is_read(shared_tables: Path) -> None:
    count = 0
    for properties in shared_tables.rglob(".hoodie/hoodie.properties"):
        if b"hoodie.table.version=6" in properties.read_bytes():
            timeline = load(properties.parent)
            for instant in timeline.commits_timeline().filter_completed_instants():
                metadata = timeline.read_commit_metadata(instant)
                assert isinstance(metadata, HoodieReplaceCommitMetadata) is (instant.action is Action.REPLACE_COMMIT)
                count += 1
    assert count > 20


# --- the life of an instant -------------------------------------------------------------------------------------------


def test_an_instant_goes_through_its_three_files(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    time = timeline.create_new_instant_time(Action.COMMIT)
    assert time == NOW_TIME
    assert timeline.transition_requested_to_inflight(time, Action.COMMIT, b"profile") is True
    assert timeline.save_as_complete(time, Action.COMMIT, HoodieCommitMetadata().to_json()) is not None
    assert names(tmp_path) == [f"{time}.commit", f"{time}.commit.requested", f"{time}.inflight"]
    assert (tmp_path / f"{time}.inflight").read_bytes() == b"profile"
    completed = timeline.reload().last_instant
    assert completed == HoodieInstant(time, Action.COMMIT, State.COMPLETED)
    assert timeline.read_commit_metadata(completed) == HoodieCommitMetadata()


def test_the_requested_file_holds_the_plan(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    time = timeline.create_new_instant_time(Action.ROLLBACK, b"plan")
    assert timeline.read_details(HoodieInstant(time, Action.ROLLBACK, State.REQUESTED)) == b"plan"


def test_a_compaction_is_requested_as_such_and_completes_as_a_commit(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    time = timeline.create_new_instant_time(Action.COMPACTION, b"plan")
    timeline.transition_requested_to_inflight(time, Action.COMPACTION)
    assert timeline.save_as_complete(time, Action.COMPACTION, b"{}") is not None
    assert names(tmp_path) == [f"{time}.commit", f"{time}.compaction.inflight", f"{time}.compaction.requested"]


def test_a_savepoint_starts_inflight_at_the_time_of_its_commit(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    with pytest.raises(ValueError, match="savepoint"):
        timeline.create_requested(OLD_TIME, Action.SAVEPOINT)
    assert timeline.transition_requested_to_inflight(OLD_TIME, Action.SAVEPOINT) is True
    assert timeline.save_as_complete(OLD_TIME, Action.SAVEPOINT, b"x") is not None


def test_every_step_is_won_once(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    assert timeline.create_requested(OLD_TIME, Action.COMMIT) is True
    assert timeline.create_requested(OLD_TIME, Action.COMMIT) is False
    assert timeline.transition_requested_to_inflight(OLD_TIME, Action.COMMIT, b"a") is True
    assert timeline.transition_requested_to_inflight(OLD_TIME, Action.COMMIT, b"b") is False
    assert timeline.save_as_complete(OLD_TIME, Action.COMMIT, b"a") is not None
    assert timeline.save_as_complete(OLD_TIME, Action.COMMIT, b"b") is None
    assert (tmp_path / f"{OLD_TIME}.inflight").read_bytes() == b"a"
    assert (tmp_path / f"{OLD_TIME}.commit").read_bytes() == b"a"


def test_there_is_no_inflight_without_requested(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    with pytest.raises(HoodieCommitException, match=f"{OLD_TIME}.commit.requested does not exist"):
        timeline.transition_requested_to_inflight(OLD_TIME, Action.COMMIT)
    assert names(tmp_path) == []


def test_an_instant_that_is_rolled_back_while_it_starts_leaves_no_inflight(tmp_path: Path) -> None:
    def roll_back_meanwhile(call: Call) -> Any:
        if call.is_bare and call.path.endswith(".inflight"):
            Path(call.path.replace(".inflight", ".commit.requested")).unlink()
        return call.apply()

    timeline = load(tmp_path, storage_with(tmp_path, roll_back_meanwhile))
    timeline.create_requested(OLD_TIME, Action.COMMIT)
    with pytest.raises(HoodieCommitException, match="rolled it back"):
        timeline.transition_requested_to_inflight(OLD_TIME, Action.COMMIT)
    assert names(tmp_path) == []


def test_an_instant_that_was_rolled_back_cannot_be_completed(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    with pytest.raises(HoodieCommitException, match="rolled it back"):
        timeline.save_as_complete(OLD_TIME, Action.COMMIT, b"{}")
    assert names(tmp_path) == []


def test_a_completed_file_is_never_empty(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    timeline.create_requested(OLD_TIME, Action.COMMIT)
    timeline.transition_requested_to_inflight(OLD_TIME, Action.COMMIT)
    with pytest.raises(ValueError, match="needs content"):
        timeline.save_as_complete(OLD_TIME, Action.COMMIT, b"")


# --- undoing ----------------------------------------------------------------------------------------------------------


def test_pending_instants_are_deleted_inflight_first(tmp_path: Path) -> None:
    deleted: list[str] = []

    def note(call: Call) -> Any:
        if call.name == "delete":
            deleted.append(call.path.rsplit("/", 1)[-1])
        return call.apply()

    timeline = load(tmp_path, storage_with(tmp_path, note))
    touch(tmp_path, "1.commit.requested", "1.inflight", "2.clean.requested", "3.savepoint.inflight")
    timeline.delete_pending("1", Action.COMMIT)
    timeline.delete_pending("2", Action.CLEAN)
    timeline.delete_pending("3", Action.SAVEPOINT)
    assert deleted[:2] == ["1.inflight", "1.commit.requested"]
    assert names(tmp_path) == []
    timeline.delete_pending("1", Action.COMMIT)


def test_a_completed_instant_is_not_deleted(tmp_path: Path) -> None:
    touch(tmp_path, "1.commit.requested", "1.inflight", "1.commit")
    with pytest.raises(HoodieCommitException, match="complete"):
        load(tmp_path).delete_pending("1", Action.COMMIT)
    assert len(names(tmp_path)) == 3


def test_a_completed_instant_is_made_pending_again(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    touch(tmp_path, "1.commit.requested", "1.inflight", "1.commit", "2.replacecommit", "3.savepoint")
    timeline.revert_completed_to_inflight("1", Action.COMMIT)
    timeline.revert_completed_to_inflight("1", Action.COMMIT)
    timeline.revert_completed_to_inflight("2", Action.REPLACE_COMMIT)
    timeline.revert_completed_to_inflight("3", Action.SAVEPOINT)
    assert [(found.requested_time, found.state) for found in timeline.reload()] == [
        (time, State.INFLIGHT) for time in "123"
    ]
    assert (tmp_path / "2.replacecommit.requested").exists()
    timeline.delete_pending("1", Action.COMMIT)


@pytest.mark.parametrize("state", State)
def test_an_instant_in_any_state_is_deleted_after_one_listing(tmp_path: Path, state: State) -> None:
    calls: list[tuple[str, str]] = []

    def note(call: Call) -> Any:
        calls.append((call.name, call.path.rsplit("/", 1)[-1]))
        return call.apply()

    files = ["1.rollback.requested", "1.rollback.inflight", "1.rollback"]
    timeline = load(tmp_path, storage_with(tmp_path, note))
    touch(tmp_path, *files[: state + 1], "2.rollback")
    calls.clear()
    timeline.delete_in_any_state("1", Action.ROLLBACK)
    assert names(tmp_path) == ["2.rollback"]
    assert [name for name, _ in calls].count("list") == 1
    deleted = [path for name, path in calls if name == "delete"]
    assert [path for path in deleted if path in files[: state + 1]] == files[state::-1]


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"{", b'{"partitionToWriteStats": {"p": [', b"[]", b"\xff\xfe"])
def test_a_truncated_or_empty_completed_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "1.commit").write_bytes(content)
    timeline = load(tmp_path)
    (commit,) = timeline
    with pytest.raises(HoodieCorruptedDataException, match=f"{tmp_path}/1.commit"):
        timeline.read_commit_metadata(commit)


def test_every_truncation_of_commit_metadata_is_noticed(tmp_path: Path) -> None:
    data = HoodieCommitMetadata(extra_metadata={"schema": "{}"}).to_json()
    timeline = load(tmp_path)
    for length in range(len(data.rstrip()) - 1):
        (tmp_path / "1.commit").write_bytes(data[:length])
        with pytest.raises(HoodieCorruptedDataException, match=f"{tmp_path}/1.commit"):
            timeline.read_commit_metadata(HoodieInstant("1", Action.COMMIT, State.COMPLETED))


def _completed_by_hudi(path: Path, suffix: str, content: bytes, checksums_of: str) -> Path:
    """A file of the timeline as far as a writer of Hudi on a local disk has come with it."""
    file = path / f"{NOW_TIME}.{suffix}"
    file.write_bytes(content)
    (path / f".{NOW_TIME}.{checksums_of}.crc").write_bytes(b"")
    return file


@pytest.mark.parametrize("written", [0, 100, 400])
@pytest.mark.parametrize("checksums_of", ["commit", "commit.requested"])
def test_a_commit_that_hudi_is_writing_at_the_moment_is_waited_for(
    tmp_path: Path, written: int, checksums_of: str
) -> None:
    metadata = HoodieCommitMetadata(extra_metadata={"note": "x" * 300})
    content = metadata.to_json()
    file = _completed_by_hudi(tmp_path, "commit", content[:written], checksums_of)
    timeline = load(tmp_path)
    rest = threading.Timer(0.1, file.write_bytes, [content])
    rest.start()
    assert timeline.read_commit_metadata(timeline.instants[0]) == metadata
    rest.join()


def test_a_clean_that_hudi_is_writing_at_the_moment_is_waited_for(tmp_path: Path) -> None:
    content = b"Obj\x01 schema and codec 0123456789abcdef records 0123456789abcdef"
    file = _completed_by_hudi(tmp_path, "clean", content[:-20], "clean.requested")
    timeline = load(tmp_path)
    rest = threading.Timer(0.1, file.write_bytes, [content])
    rest.start()
    assert timeline.read_details(timeline.instants[0]) == content
    rest.join()


def test_what_hudi_left_unfinished_long_ago_is_damaged(tmp_path: Path) -> None:
    file = _completed_by_hudi(tmp_path, "commit", b"", "commit")
    os.utime(file, (1_700_000_000, 1_700_000_000))
    timeline = load(tmp_path)
    with pytest.raises(HoodieCorruptedDataException, match="it is empty"):
        timeline.read_commit_metadata(timeline.instants[0])


def test_an_empty_inflight_file_is_an_empty_profile(tmp_path: Path) -> None:
    touch(tmp_path, "1.commit.requested", "1.inflight")
    timeline = load(tmp_path)
    (commit,) = timeline
    assert timeline.read_commit_metadata(commit) == HoodieCommitMetadata()


def test_an_instant_that_is_gone_is_an_error_naming_the_file(tmp_path: Path) -> None:
    with pytest.raises(HoodieIOException, match=f"{tmp_path}/1.commit"):
        load(tmp_path).read_commit_metadata(HoodieInstant("1", Action.COMMIT, State.COMPLETED))


def test_only_commits_have_commit_metadata(tmp_path: Path) -> None:
    for instant in (
        HoodieInstant("1", Action.CLEAN, State.COMPLETED),
        HoodieInstant("1", Action.COMMIT, State.REQUESTED),
    ):
        with pytest.raises(ValueError, match="no commit metadata"):
            load(tmp_path).read_commit_metadata(instant)


# --- instant times ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["commit", "rollback", "clean.requested", "savepoint.inflight", "inflight"])
def test_a_new_time_is_later_than_any_instant_of_any_action_and_state(tmp_path: Path, suffix: str) -> None:
    touch(tmp_path, f"20270101000000000.{suffix}")
    assert load(tmp_path).create_new_instant_time(Action.COMMIT) == "20270101000000001"


def test_a_new_time_is_later_than_any_archived_instant(tmp_path: Path) -> None:
    touch(tmp_path, "20260101000000000.commit")
    timeline = load(tmp_path, newest_archived_time=lambda: "20280101000000000")
    assert timeline.create_new_instant_time(Action.COMMIT) == "20280101000000001"
    assert load(tmp_path, newest_archived_time=lambda: OLD_TIME).create_new_instant_time(Action.COMMIT) == (
        "20280101000000002"
    )


def test_the_archive_is_asked_when_an_instant_is_made_and_not_before(tmp_path: Path) -> None:
    asked: list[int] = []

    def newest() -> str | None:
        asked.append(1)
        return None

    timeline = load(tmp_path, newest_archived_time=newest).reload()
    assert asked == []
    timeline.create_new_instant_time(Action.COMMIT)
    assert asked == [1]


def test_a_clock_that_stands_still_gives_ever_later_times(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    times = [timeline.create_new_instant_time(action) for action in (Action.COMMIT, Action.CLEAN, Action.ROLLBACK)]
    assert times == [NOW_TIME, "20260102030405679", "20260102030405680"]


def test_a_table_of_local_time_zone_gets_local_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offset = NOW.astimezone().utcoffset()
    assert offset is not None
    time = load(tmp_path, timezone="LOCAL").create_new_instant_time(Action.COMMIT)
    assert time == f"{(NOW + offset):%Y%m%d%H%M%S}678"


def test_an_instant_far_in_the_future_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    touch(tmp_path, "20260102043405678.commit")
    load(tmp_path).create_new_instant_time(Action.COMMIT)
    assert not caplog.records
    touch(tmp_path, "20300101000000000.commit")
    load(tmp_path).create_new_instant_time(Action.COMMIT)
    assert "20300101000000000" in caplog.text


def storage_with_rivals(folder: Path, *rivals: str) -> LocalStorage:
    """Another writer makes a file just before ours is made, as long as there are some."""
    remaining = iter(rivals)

    def put_a_rival_before(call: Call) -> Any:
        rival = next(remaining, None) if call.is_bare else None
        if rival is not None:
            LocalStorage(str(folder)).create_if_absent(f"{folder}/{rival}", b"")
        return call.apply()

    return storage_with(folder, put_a_rival_before)


@pytest.mark.parametrize(
    "rivals",
    [
        [f"{NOW_TIME}.commit.requested"],
        [f"{NOW_TIME}.clean.requested"],
        [f"{NOW_TIME}.rollback.requested", "20260102030405679.clean.requested"],
        ["20260102030405900.commit.requested"],
    ],
)
def test_a_rival_of_the_same_or_a_later_time_makes_us_take_a_later_one(tmp_path: Path, rivals: list[str]) -> None:
    timeline = load(tmp_path, storage_with_rivals(tmp_path, *rivals))
    time = timeline.create_new_instant_time(Action.COMMIT)
    newest_rival = max(rival.partition(".")[0] for rival in rivals)
    assert time > newest_rival
    assert names(tmp_path) == sorted([*rivals, f"{time}.commit.requested"]), "what was given up is gone"


def test_a_chosen_time_must_be_the_latest_and_a_date(tmp_path: Path) -> None:
    touch(tmp_path, "20260101000000000.rollback")
    timeline = load(tmp_path, newest_archived_time=lambda: "20260101000000005")
    for time in ("20260101000000000", "20260101000000005", OLD_TIME):
        with pytest.raises(HoodieCommitException, match="20260101000000005"):
            timeline.create_requested_at(time, Action.COMMIT)
    for time in ("20261301000000000", "20260201000000", "now", ""):
        with pytest.raises(HoodieConfigException, match="yyyyMMddHHmmssSSS"):
            timeline.create_requested_at(time, Action.COMMIT)
    assert names(tmp_path) == ["20260101000000000.rollback"]
    assert timeline.create_requested_at("20260101000000006", Action.COMMIT) is True


def test_a_chosen_time_that_a_rival_took_meanwhile_is_given_up(tmp_path: Path) -> None:
    timeline = load(tmp_path, storage_with_rivals(tmp_path, f"{NOW_TIME}.clean.requested"))
    assert timeline.create_requested_at(NOW_TIME, Action.COMMIT) is False
    assert names(tmp_path) == [f"{NOW_TIME}.clean.requested"]


def test_a_time_that_its_writer_does_not_agree_to_is_not_taken(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    asked: list[str] = []

    def announce(instant_time: str) -> bool:
        asked.append(instant_time)
        return len(asked) > 2

    assert timeline.create_new_instant_time(Action.COMMIT, b"", announce) == asked[2]
    # Though the clock stands still, no time is tried again.
    assert len(set(asked)) == 3
    assert names(tmp_path) == [f"{asked[2]}.commit.requested"]


def _take(timeline: HoodieActiveTimeline, actions: list[Action]) -> list[str]:
    return [timeline.create_new_instant_time(action) for action in actions]


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_threads_racing_for_instants_never_share_a_time(tmp_path: Path, kind: str) -> None:
    base_path = str(tmp_path) if kind == "local" else f"memory://{uuid.uuid4().hex}"
    timeline = HoodieActiveTimeline.load(open_storage(base_path), base_path, timeline_layout(1), clock=lambda: NOW)
    barrier = threading.Barrier(4)
    kinds = [Action.COMMIT, Action.CLEAN, Action.ROLLBACK, Action.COMMIT]

    def take(action: Action) -> list[str]:
        barrier.wait()
        return _take(timeline, [action] * 8)

    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(take, kinds))
    for times in taken:
        assert times == sorted(times)
    every = [time for times in taken for time in times]
    assert len(set(every)) == 32
    assert sorted(every) == [instant.requested_time for instant in timeline.reload()]


def _take_in_process(path: str, action: str, start: multiprocessing.synchronize.Event, answers: Any) -> None:
    timeline = load(path)
    start.wait()
    answers.put(_take(timeline, [Action(action)] * 10))


def test_processes_racing_for_instants_never_share_a_time(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start, answers = context.Event(), context.Queue()
    processes = [
        context.Process(target=_take_in_process, args=(str(tmp_path), action, start, answers))
        for action in ("commit", "rollback")
    ]
    for process in processes:
        process.start()
    start.set()
    taken = [answers.get(timeout=300) for _ in processes]
    for process in processes:
        process.join()
    every = [time for times in taken for time in times]
    assert len(set(every)) == 20
    assert sorted(every) == [instant.requested_time for instant in load(tmp_path)]


def test_threads_keep_the_commits_that_they_read() -> None:
    read, metadata = CommitsRead(), HoodieCommitMetadata()

    def keep(thread: int) -> None:
        for number in range(20_000):
            read.keep(f"{thread}/{number % 40}", metadata, 1)
            read.keep(f"{thread}/large", metadata, 1 << 20)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(keep, range(8)))
    finally:
        sys.setswitchinterval(interval)
    assert len(read) == 64
    for number in range(64):
        read.keep(f"of 256 kB: {number}", metadata, 1 << 18)
    assert len(read) == 16
    assert all(found is metadata for found in read.values())


def test_of_two_threads_one_completes_the_instant(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    for number in range(20):
        time = f"{number:017d}"
        timeline.create_requested(time, Action.COMMIT)
        timeline.transition_requested_to_inflight(time, Action.COMMIT)
        barrier = threading.Barrier(2)

        def complete(content: bytes, time: str = time, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            return timeline.save_as_complete(time, Action.COMMIT, content)

        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(complete, [b"first", b"second"])
        assert first is not second
        assert (tmp_path / f"{time}.commit").read_bytes() == (b"first" if first else b"second")


def test_a_completion_whose_answer_was_lost_is_a_completion(tmp_path: Path) -> None:
    touch(tmp_path, "1.commit.requested", "1.inflight", "2.commit.requested", "2.inflight")
    timeline = load(tmp_path, losing_answers(tmp_path, is_applied=True))
    assert timeline.save_as_complete("1", Action.COMMIT, b"mine") is not None
    (tmp_path / "2.commit").write_bytes(b"theirs")
    assert timeline.save_as_complete("2", Action.COMMIT, b"mine") is None


@pytest.mark.parametrize("lead", [timedelta(0), timedelta(hours=1)])
def test_the_clock_going_back_does_not_turn_times_back(tmp_path: Path, lead: timedelta) -> None:
    moments = iter([NOW + lead, NOW, NOW - timedelta(days=1)])
    clock: Callable[[], datetime] = lambda: next(moments)  # noqa: E731
    timeline = load(tmp_path, clock=clock)
    times = _take(timeline, [Action.COMMIT] * 3)
    assert times == sorted(set(times))


class LayoutWithCompletionTimes(TimelineLayoutV1):
    """Names of completed files as in layout 2: they hold a time that nobody can make up."""

    def file_name(self, requested_time: str, action: Action, state: State, completion_time: str | None = None) -> str:
        name = super().file_name(requested_time, action, state)
        if state is not State.COMPLETED:
            return name
        return name.replace(".", f"_{completion_time or 'unknown'}.", 1)

    def parse_file_name(self, name: str) -> HoodieInstant | None:
        requested_time, _, rest = name.partition("_")
        if not rest:
            return super().parse_file_name(name)
        completion_time, _, action = rest.partition(".")
        return HoodieInstant(requested_time, Action(action), State.COMPLETED, completion_time)


def with_completion_times(path: Path) -> HoodieActiveTimeline:
    touch(path, f"{OLD_TIME}.commit.requested", f"{OLD_TIME}.inflight", f"{OLD_TIME}_{NOW_TIME}.commit")
    return HoodieActiveTimeline.load(LocalStorage(str(path)), str(path), LayoutWithCompletionTimes())


def test_a_completed_file_is_found_by_its_state_not_by_its_name(tmp_path: Path) -> None:
    timeline = with_completion_times(tmp_path)
    with pytest.raises(HoodieCommitException, match=f"{OLD_TIME}_{NOW_TIME}.commit exists"):
        timeline.delete_pending(OLD_TIME, Action.COMMIT)
    assert not timeline.withdraw_requested(OLD_TIME, Action.COMMIT)
    (tmp_path / f"{OLD_TIME}.inflight").unlink()
    assert not timeline.withdraw_requested(OLD_TIME, Action.COMMIT)
    assert not timeline.save_as_complete(OLD_TIME, Action.COMMIT, b"{}")
    timeline.revert_completed_to_inflight(OLD_TIME, Action.COMMIT)
    assert names(tmp_path) == [f"{OLD_TIME}.commit.requested", f"{OLD_TIME}.inflight"]
