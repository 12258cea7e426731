"""Tables of versions 8 and 9 whose commits are completed in another order than that of their instants."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.exception import HoodieException, HoodieIOException
from tests.support.hookable_storage import hooked
from tests.support.model import model
from tests.support.table_builder import init_table, local_client, read_rows, rows
from tests.support.table_invariants import check_table
from tests.support.timeline_files import is_in_metadata_table, timeline_folder

SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    "hoodie.write.lock.wait_time_ms": 0,
    "hoodie.write.lock.client.num_retries": 0,
    "hoodie.time.generator.max_expected_clock_skew_ms": 1,
    "hoodie.parquet.small.file.limit": 0,
}
BY_HAND = {**SEVERAL, "hoodie.auto.commit": "false"}


@pytest.fixture(params=[8, 9])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A table of one row."""
    path = init_table(tmp_path / "t", table_version=request.param)
    with local_client(path, SEVERAL) as client:
        client.upsert(rows(("a", "x", 1)))
    return path


def commits(path: str) -> list[HoodieInstant]:
    return list(HoodieTableMetaClient.load(path).active_timeline.completed_writes())


def newest_completion(path: str) -> str:
    return max(str(instant.completion_time) for instant in commits(path))


def since(path: str, begin: str) -> list[str]:
    return sorted(hoodie.read_table(path, query_type="incremental", begin=begin)["id"].to_pylist())


def completed_files(path: str, instant_time: str) -> list[str]:
    return sorted(file.name for file in timeline_folder(path).glob(f"{instant_time}_*"))


def complete_again(path: str, instant_time: str, action: Action) -> None:
    """What a second writer leaves that completes an instant at the same moment, at a later time."""
    (file,) = timeline_folder(path).glob(f"{instant_time}_*.{action}")
    times, _, suffix = file.name.partition(".")
    requested, completion = times.split("_")
    shutil.copy(file, file.with_name(f"{requested}_{int(completion) + 5}.{suffix}"))


# --- a writer that stands still between its completion time and its completed file -----------------------------------


def test_a_commit_that_comes_late_is_not_missed_by_a_reader_that_goes_on_from_the_newest_completion(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_up_to: list[str] = []

    def stand_still(name: str, where: str) -> None:
        if not read_up_to and name == "create" and where.endswith(".commit"):
            os.unlink(f"{path}/.hoodie/lock")
            with local_client(path, SEVERAL) as other:
                other.upsert(rows(("b", "y", 2)))
            read_up_to.append(newest_completion(path))

    with hooked(monkeypatch, stand_still), local_client(path, SEVERAL) as client:
        result = client.upsert(rows(("c", "z", 3)))
    assert result.is_committed
    assert since(path, read_up_to[0]) == ["c"]
    assert completed_files(path, str(result.instant_time)) == [f"{result.instant_time}_{result.completion_time}.commit"]
    check_table(path, model(("a", "x", 1), ("b", "y", 2), ("c", "z", 3)))


def test_a_commit_that_others_have_built_on_keeps_its_completion_time(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = HoodieActiveTimeline.save_as_complete
    done: list[Any] = []

    def complete(self: HoodieActiveTimeline, *arguments: Any, **options: Any) -> Any:
        completed = original(self, *arguments, **options)
        if not done and not is_in_metadata_table(self.meta_path):
            done.append(completed)
            os.unlink(f"{path}/.hoodie/lock")
            with local_client(path, SEVERAL) as other:
                other.upsert(rows(("c", "z", 4)))
        return completed

    monkeypatch.setattr(HoodieActiveTimeline, "save_as_complete", complete)
    with local_client(path, SEVERAL) as client:
        result = client.upsert(rows(("c", "z", 3)))
    assert result.completion_time == done[0].completion_time
    assert completed_files(path, str(result.instant_time)) == [f"{result.instant_time}_{result.completion_time}.commit"]
    check_table(path, model(("a", "x", 1), ("c", "z", 4)))


@pytest.mark.parametrize(("call", "files"), [("create", 1), ("delete", 2)])
def test_a_later_completion_time_that_cannot_be_written_leaves_the_commit_completed(
    path: str, monkeypatch: pytest.MonkeyPatch, call: str, files: int
) -> None:
    done: list[str] = []

    def stand_still(name: str, where: str) -> None:
        if not done and name == "create" and where.endswith(".commit"):
            os.unlink(f"{path}/.hoodie/lock")
            with local_client(path, SEVERAL) as other:
                other.upsert(rows(("b", "y", 2)))
            done.append(where)
        elif done and where.endswith(".commit") and name == call:
            raise HoodieIOException("failed by the test")

    with hooked(monkeypatch, stand_still), local_client(path, SEVERAL) as client:
        result = client.upsert(rows(("c", "z", 3)))
        assert result.is_committed
    found = completed_files(path, str(result.instant_time))
    assert len(found) == files
    assert found[-1] == f"{result.instant_time}_{result.completion_time}.commit"
    check_table(path, model(("a", "x", 1), ("b", "y", 2), ("c", "z", 3)))
    with local_client(path, SEVERAL) as client:
        client.upsert(rows(("c", "z", 5)))
    check_table(path, model(("a", "x", 1), ("b", "y", 2), ("c", "z", 5)))


# --- an instant that was completed twice ------------------------------------------------------------------------------


def test_a_commit_that_was_completed_twice_is_rolled_back(path: str) -> None:
    with local_client(path, SEVERAL) as client:
        instant_time = str(client.upsert(rows(("b", "y", 1))).instant_time)
        complete_again(path, instant_time, Action.COMMIT)
        client.rollback(instant_time)
    assert completed_files(path, instant_time) == []
    assert read_rows(path) == [("a", "x", 1)]


def test_a_commit_that_was_completed_twice_is_restored_away(path: str) -> None:
    (first,) = commits(path)
    with local_client(path, SEVERAL) as client:
        client.savepoint(first.requested_time)
        instant_time = str(client.upsert(rows(("b", "y", 1))).instant_time)
        complete_again(path, instant_time, Action.COMMIT)
        client.restore_to_savepoint(first.requested_time)
    assert completed_files(path, instant_time) == []
    assert read_rows(path) == [("a", "x", 1)]


# --- restores and rollbacks -------------------------------------------------------------------------------------------


def overlapping(path: str) -> tuple[HoodieLocalWriteClient, str]:
    """A savepointed commit; one that was requested before it and is completed after it, and after a third one."""
    slow = local_client(path, BY_HAND)
    result = slow.upsert(rows(("slow", "y", 1)))
    with local_client(path, SEVERAL) as client:
        saved = str(client.upsert(rows(("saved", "z", 1))).instant_time)
        client.savepoint(saved)
        client.upsert(rows(("bad", "w", 1)))
    slow.commit(str(result.instant_time), result)
    slow.close()
    return saved


def test_a_reader_that_has_read_what_a_restore_undid_is_told_though_a_later_completion_is_kept(path: str) -> None:
    saved = overlapping(path)
    read_up_to = newest_completion(path)
    with local_client(path, SEVERAL) as client:
        client.restore_to_savepoint(saved)
    with pytest.raises(HoodieException, match="undone"):
        since(path, read_up_to)


def test_a_restore_tells_of_commits_that_stay_though_they_were_completed_later(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    saved = overlapping(path)
    slow = commits(path)[1].requested_time
    with local_client(path, SEVERAL) as client:
        client.restore_to_savepoint(saved)
    assert f"restoring {path} to {saved} keeps {slow}: requested before it and completed after it" in caplog.text
    assert read_rows(path) == read_rows(path, as_of=saved) == [("a", "x", 1), ("saved", "z", 1), ("slow", "y", 1)]


def test_a_reader_that_has_read_what_a_rollback_undid_is_told(path: str) -> None:
    with local_client(path, SEVERAL) as client:
        result = client.upsert(rows(("bad", "w", 1)))
        client.rollback(str(result.instant_time))
        client.upsert(rows(("good", "w", 1)))
    with pytest.raises(HoodieException, match="undone"):
        since(path, str(result.completion_time))


def test_a_reader_that_has_read_what_a_rollback_undid_is_told_though_a_later_completion_is_kept(path: str) -> None:
    with local_client(path, BY_HAND) as slow, local_client(path, SEVERAL) as client:
        kept = slow.upsert(rows(("slow", "y", 1)))
        result = client.upsert(rows(("bad", "w", 1)))
        before = newest_completion(path)
        assert before == result.completion_time
        slow.commit(str(kept.instant_time), kept)
        assert since(path, commits(path)[0].completion_time or "") == ["bad", "slow"]
        client.rollback(str(result.instant_time))
    with pytest.raises(HoodieException, match="undone"):
        since(path, str(kept.completion_time))
    # What was completed before the undone commit was requested is sure.
    assert since(path, commits(path)[0].completion_time or "") == ["slow"]


def test_a_rollback_of_a_failed_write_refuses_no_time(path: str) -> None:
    begin = newest_completion(path)
    with local_client(path, BY_HAND) as client:
        failed = client.upsert(rows(("bad", "w", 1)))
        with local_client(path, SEVERAL) as other:
            completed = other.upsert(rows(("good", "v", 1)))
        client.rollback(str(failed.instant_time))
    assert since(path, begin) == ["good"]
    assert since(path, str(completed.completion_time)) == []
