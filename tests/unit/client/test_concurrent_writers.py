"""Two writers at once, which nothing prevents yet: none is told that its rows are there when they are not."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig, ProgressEvent
from hoodie.avro.timeline_metadata import HoodieInstantInfo, HoodieRollbackPlan, encode
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieCommitException, HoodieException, HoodieIOException, HoodieWriteConflictException
from tests.support.hookable_storage import hooked
from tests.support.table_builder import local_client, write_action
from tests.support.table_invariants import check_table
from tests.support.timeline_files import is_completed_file, timeline_folder


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields=["id"], ordering_fields=["ts"])
    with local_client(path) as c:
        c.upsert(row("base"))
    return path


def row(key: str) -> pa.Table:
    return pa.table({"id": [key], "ts": [1]})


def keys(path: str) -> set[str]:
    return set(hoodie.read_table(path, columns=["id"])["id"].to_pylist())


def test_an_instant_that_is_older_than_a_completed_one_is_not_completed(path: str) -> None:
    other, started = local_client(path), []

    def start_other(event: ProgressEvent) -> None:
        if event.step == "create the instant" and not started:
            started.append(other.start_commit())

    config = HoodieWriteConfig.from_properties(path, {})
    with HoodieLocalWriteClient(config, on_progress=start_other) as c:
        mine = c.upsert(row("mine")).instant_time
    with pytest.raises(HoodieWriteConflictException, match=f"another writer changed .* by {mine} while") as caught:
        other.upsert(row("other"), started[0])
    assert "write again: that is safe" in str(caught.value)
    assert keys(path) == {"base", "mine"}
    with other:
        other.upsert(row("other"))
    assert keys(path) == {"base", "mine", "other"}


def test_what_was_written_before_another_commit_is_not_completed(path: str) -> None:
    first = local_client(path, **{"hoodie.auto.commit": "false"})
    instant_time = first.start_commit()
    result = first.upsert(row("first"), instant_time)
    # A commit that came in by a writer which does not roll back others (such as one of another program).
    table = HoodieTableMetaClient.load(path)
    late = table.active_timeline.create_new_instant_time(write_action())
    metadata = table.active_timeline.read_commit_metadata(table.active_timeline.filter_completed_instants().instants[0])
    table.active_timeline.transition_requested_to_inflight(late, write_action(), b"")
    assert table.reload_active_timeline().save_as_complete(late, write_action(), metadata)
    with pytest.raises(HoodieWriteConflictException, match=f"changed .* by {late} while {instant_time}"):
        first.commit(instant_time, result)


@pytest.mark.parametrize("operation", ["upsert", "insert_overwrite"])
def test_a_write_that_is_rolled_back_while_it_is_being_completed_is_not_told_to_be_committed(
    path: str, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """The other writer takes itself for the only one, and this one for dead."""
    other, undone = local_client(path), []

    def roll_back(name: str, where: str) -> None:
        completed = is_completed_file(where) or is_completed_file(where, "replacecommit")
        if not undone and name == "create" and completed:
            undone.extend(other.rollback_failed_writes())

    with (
        hooked(monkeypatch, roll_back),
        pytest.raises(HoodieCommitException, match="was rolled back by another writer while it was being completed"),
    ):
        getattr(local_client(path), operation)(row("mine"))
    assert undone
    assert keys(path) == {"base"}
    with other:
        other.upsert(row("other"))
    assert keys(path) == {"base", "other"}
    check_table(path)


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_rollback_by_another_writer_does_not_make_a_commit_look_failed(
    path: str, monkeypatch: pytest.MonkeyPatch, is_broken: bool
) -> None:
    """It came in the moment in which the commit was completed: told to have failed, its caller would write again."""
    folder = timeline_folder(path)
    plan = HoodieRollbackPlan(HoodieInstantInfo("20200101000000000", str(write_action())), ())
    planned = folder / "29991231235959999.rollback.requested"

    def leave_planned(name: str, where: str) -> None:
        if name == "create" and is_completed_file(where):
            planned.write_bytes(b"" if is_broken else encode(plan))

    with hooked(monkeypatch, leave_planned), local_client(path) as c:
        assert c.upsert(row("mine")).is_committed
    assert [found.name for found in folder.glob("*rollback*")] == [planned.name]
    assert keys(path) == {"base", "mine"}


def test_a_rollback_whose_second_look_fails_leaves_no_plan_to_others(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would carry it out without looking."""
    planned = []

    def fail_after_planning(name: str, where: str) -> None:
        if name == "create" and where.endswith(".rollback.requested"):
            planned.append(where)
        elif planned and (where.endswith("/history") or (name == "read" and is_completed_file(where))):
            raise HoodieIOException("storage failed")

    with local_client(path) as c:
        newest = c.upsert(row("mine")).instant_time
        with hooked(monkeypatch, fail_after_planning), pytest.raises(HoodieIOException, match="storage failed"):
            c.rollback(newest)
        assert planned
        assert not len(HoodieTableMetaClient.load(path).active_timeline.filter_actions(Action.ROLLBACK))
        assert c.upsert(row("next")).is_committed
    assert keys(path) == {"base", "mine", "next"}


def upsert_in_thread(path: str, key: str, told: list[str], raised: list[str]) -> None:
    try:
        with local_client(path) as c:
            c.upsert(row(key))
        told.append(key)
    except HoodieException as problem:
        raised.append(str(problem))


def test_of_two_writers_in_a_race_none_loses_a_row_silently(path: str) -> None:
    for number in range(10):
        told: list[str] = []
        raised: list[str] = []
        threads = [
            threading.Thread(target=upsert_in_thread, args=(path, f"{number}{name}", told, raised)) for name in "ab"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(told) + len(raised) == 2
        # A row that is not there was either refused, or another writer's error told of the collision.
        assert set(told) <= keys(path) or any("at the same moment" in text for text in raised)


def test_a_write_of_nothing_leaves_no_trace_where_that_is_asked_for(path: str) -> None:
    nothing = row("x").slice(0, 0)
    with local_client(path, **{"hoodie.allow.empty.commit": "false"}) as c:
        result = c.upsert(nothing)
        assert not result.is_committed
        assert "(not committed)" in repr(result)
    with local_client(path, **{"hoodie.allow.empty.commit": "false", "hoodie.auto.commit": "false"}) as c:
        instant_time = c.start_commit()
        assert c.commit(instant_time, c.upsert(nothing, instant_time)) is False
    with local_client(path) as c:
        assert c.upsert(nothing).is_committed
    assert len(HoodieTableMetaClient.load(path).active_timeline.filter_completed_instants().commits_timeline()) == 2
