"""Compactions and writers that do not see each other in time, since the lock was lost or is not kept."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.client.committer import Committer
from hoodie.common.table.compaction_plans import pending_compactions
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieCompactionException, HoodieException, HoodieIOException, HoodieWriteConflictException
from hoodie.io.file_group_reader import scan_file_groups
from hoodie.table.action.compact.run_compaction_action_executor import CompactSlice, RunCompactionActionExecutor
from hoodie.transaction.concurrent_operation import ConcurrentOperation
from tests.support.hookable_storage import hooked
from tests.support.merge_on_read_table import read_by_hudi_rs
from tests.support.table_builder import SCHEMA, SMALL_FILTERS, TRIPS, init_table, local_client, rows
from tests.support.timeline_files import is_in_metadata_table, timeline_folder
from tests.unit.io.test_merging_real_tables import readers_of

every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
later_versions = pytest.mark.parametrize("table_version", [8, 9], indirect=True)
version_6 = pytest.mark.parametrize("table_version", [6], indirect=True)
SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    "hoodie.write.lock.wait_time_ms": 0,
    "hoodie.write.lock.client.num_retries": 0,
    "hoodie.time.generator.max_expected_clock_skew_ms": 1,
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.cleaner.commits.retained": "1",
    **SMALL_FILTERS,
}


@pytest.fixture
def path(tmp_path: Path, table_version: int) -> Path:
    """Two partitions with a base file and a log file each."""
    path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))
    with client_of(path) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1), ("c", "y", 1)))
        client.upsert(rows(("a", "x", 2), ("c", "y", 2)))
    return path


def client_of(path: Path) -> HoodieLocalWriteClient:
    return local_client(path, SEVERAL)


def lose_the_lock(path: Path) -> None:
    """As if the process that holds it had stood still for longer than it lasts."""
    os.unlink(path / ".hoodie/lock")


def read(path: Path) -> list[tuple[Any, ...]]:
    batches = scan_file_groups(readers_of(path))
    return sorted(tuple(row.values()) for batch in batches for row in batch.select(SCHEMA.names).to_pylist())


def pending(path: Path) -> list[str]:
    timeline = HoodieTableMetaClient.load(str(path)).active_timeline
    return sorted(timeline.filter_actions(Action.COMPACTION).filter_pending().times)


def completion_of(path: Path, instant_time: str) -> list[str]:
    return [file.name.partition(".")[0].partition("_")[2] for file in timeline_folder(path).glob(f"{instant_time}_*")]


def once_at(suffix: str, work: Callable[[], None], call: str = "create") -> Callable[[str, str], None]:
    """A hook that does something before the first call for a file of the table whose name ends so."""
    done = []

    def hook(name: str, where: str) -> None:
        if not done and name == call and where.endswith(suffix) and not is_in_metadata_table(where):
            done.append(where)
            work()

    return hook


# --- a writer stands still between its completion time and its completed file ----------------------------------------


@later_versions
@pytest.mark.parametrize("ends", ["planned", "compacted", "cleaned"])
def test_rows_are_not_lost_with_a_compaction_that_was_planned_before_their_commit_could_be_seen(
    path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    planned: list[str] = []

    def others() -> None:
        lose_the_lock(path)
        with client_of(path) as other:
            planned.append(str(other.schedule_compaction()))
            if ends != "planned":
                other.compact(planned[0])
            if ends == "cleaned":
                other.upsert(rows(("c", "y", 3)))
                other.clean()

    with client_of(path) as client, hooked(monkeypatch, once_at(".deltacommit", others)):
        result = client.upsert(rows(("a", "x", 5), ("b", "x", 5)))
    (completed,) = completion_of(path, result.instant_time)
    assert completed > planned[0] > result.instant_time
    assert result.completion_time == completed
    newest = 3 if ends == "cleaned" else 2
    assert read(path) == [("a", "x", 5), ("b", "x", 5), ("c", "y", newest)] == read_by_hudi_rs(path)
    with client_of(path) as client:
        while client.compact() is not None:
            pass
        client.clean()
    assert read(path) == [("a", "x", 5), ("b", "x", 5), ("c", "y", newest)] == read_by_hudi_rs(path)


@later_versions
def test_rows_of_a_writer_that_dies_before_it_looks_are_compacted_too(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    planned: list[str] = []

    def others() -> None:
        lose_the_lock(path)
        with client_of(path) as other:
            planned.append(str(other.schedule_compaction()))

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "_look_again", lambda *arguments: None)
        patched.setattr(Committer, "_look_for_compactions", lambda *arguments: None)
        with client_of(path) as client, hooked(monkeypatch, once_at(".deltacommit", others)):
            result = client.upsert(rows(("a", "x", 5)))
    (completed,) = completion_of(path, result.instant_time)
    assert completed < planned[0]
    with client_of(path) as client, caplog.at_level(logging.WARNING):
        client.compact(planned[0])
    assert "which its plan lacks" in caplog.text
    assert read(path) == [("a", "x", 5), ("b", "x", 1), ("c", "y", 2)] == read_by_hudi_rs(path)


@later_versions
def test_an_attempt_fails_whose_slices_were_added_to_while_it_ran(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []
    write = CompactSlice.__call__
    errors: list[str] = []

    def others() -> None:
        lose_the_lock(path)
        with client_of(path) as other:
            planned.append(str(other.schedule_compaction()))

    def write_late(self: CompactSlice, task: Any, part: Any) -> Any:
        status = write(self, task, part)
        if part.partition_path == "x" and not errors:
            errors.append("")
            # What a writer with an earlier completion time makes visible only now.
            timeline = timeline_folder(path)
            (hidden,) = timeline.glob("*.hidden")
            hidden.rename(hidden.with_suffix(""))
        return status

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "_look_again", lambda *arguments: None)
        patched.setattr(Committer, "_look_for_compactions", lambda *arguments: None)
        with client_of(path) as client, hooked(monkeypatch, once_at(".deltacommit", others)):
            late = client.upsert(rows(("a", "x", 5))).instant_time
    (file,) = timeline_folder(path).glob(f"{late}_*")
    file.rename(f"{file}.hidden")
    with client_of(path) as client:
        with monkeypatch.context() as patched:
            patched.setattr(CompactSlice, "__call__", write_late)
            with pytest.raises(HoodieWriteConflictException, match=f"{late} was completed, or rolled back, while"):
                client.compact(planned[0])
        assert pending(path) == planned
        assert read(path) == [("a", "x", 5), ("b", "x", 1), ("c", "y", 2)]
        assert client.compact() is not None
    assert read(path) == [("a", "x", 5), ("b", "x", 1), ("c", "y", 2)] == read_by_hudi_rs(path)


@later_versions
def test_a_writer_that_stands_still_before_it_looks_does_not_come_again_after_later_rows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log file is in the plan of the first compaction; that the second one lacks it is right."""
    look = Committer._look_for_compactions

    def others(self: Committer, *arguments: Any) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Committer, "_look_for_compactions", look)
            with client_of(path) as other:
                assert other.compact() is not None
                other.upsert(rows(("b", "x", 6)))
                other.upsert(rows(("a", "x", 6)))
                assert other.compact() is not None
        look(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "_look_for_compactions", others)
        with client_of(path) as client:
            client.delete([HoodieKey("b", "x")])
    assert read(path) == [("a", "x", 6), ("b", "x", 6), ("c", "y", 2)] == read_by_hudi_rs(path)


@later_versions
def test_log_files_that_a_compaction_merged_beyond_its_plan_are_not_merged_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer lost its lock, a compaction was planned without it, and carried out before the writer looked."""
    planned: list[str] = []
    look = Committer._look_for_compactions

    def plan() -> None:
        lose_the_lock(path)
        with client_of(path) as other:
            planned.append(str(other.schedule_compaction()))

    def others(self: Committer, *arguments: Any) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Committer, "_look_for_compactions", look)
            with client_of(path) as other:
                assert other.compact(planned[0]) is not None
                other.upsert(rows(("b", "x", 6)))
                other.upsert(rows(("a", "x", 6)))
                assert other.compact() is not None
        look(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "_look_again", lambda *arguments: None)
        patched.setattr(Committer, "_look_for_compactions", others)
        with client_of(path) as client, hooked(monkeypatch, once_at(".deltacommit", plan)):
            client.delete([HoodieKey("b", "x")])
    assert read(path) == [("a", "x", 6), ("b", "x", 6), ("c", "y", 2)] == read_by_hudi_rs(path)


@later_versions
def test_rows_of_a_writer_that_died_before_it_looked_come_back_from_under_a_compaction(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A clean, or `rollback_failed_writes`, does what the dead writer would have done."""

    class Killed(BaseException):
        pass

    def others() -> None:
        lose_the_lock(path)
        with client_of(path) as other:
            assert other.compact() is not None

    def die(*arguments: Any) -> None:
        raise Killed

    client = client_of(path)
    instant_time = client.start_commit()
    with monkeypatch.context() as patched, hooked(monkeypatch, once_at(".deltacommit", others)):
        patched.setattr(Committer, "_look_again", die)
        with pytest.raises(Killed):
            client.upsert(rows(("a", "x", 5), ("b", "x", 5), ("c", "y", 5)), instant_time)
    heartbeat = path / ".hoodie/.heartbeat" / instant_time
    heartbeat.touch()
    lost = [("a", "x", 2), ("b", "x", 1), ("c", "y", 2)]
    with client_of(path) as other:
        assert other.rollback_failed_writes() == []
        assert read(path) == lost, "its writer may be alive"
        os.utime(heartbeat, (0, 0))
        with caplog.at_level(logging.WARNING):
            assert other.rollback_failed_writes() == []
        assert "before others could see that it was completed" in caplog.text
        came_back = [("a", "x", 5), ("b", "x", 5), ("c", "y", 5)]
        assert read(path) == came_back == read_by_hudi_rs(path)
        other.rollback_failed_writes()
        other.clean()
        assert read(path) == came_back
        assert other.compact() is not None
    assert read(path) == came_back == read_by_hudi_rs(path)


# --- others come between a plan and its announcement ------------------------------------------------------------------


@every_version
def test_a_plan_is_made_again_if_others_commit_before_it_can_be_seen(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def others() -> None:
        lose_the_lock(path)
        with client_of(path) as other:
            other.upsert(rows(("b", "x", 5)))

    # The lock is lost, which a second attempt finds out.
    with client_of(path) as client, hooked(monkeypatch, once_at(".compaction.requested", others)):
        try:
            planned = client.schedule_compaction()
        except HoodieException:
            assert pending(path) == []
            planned = client.schedule_compaction()
    assert planned is not None
    assert pending(path) == [planned]
    with client_of(path) as client:
        client.compact(planned)
    assert read(path) == [("a", "x", 2), ("b", "x", 5), ("c", "y", 2)] == read_by_hudi_rs(path)


@every_version
def test_of_two_that_plan_at_once_one_gets_a_file_group(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs: list[str | None] = []

    def others() -> None:
        lose_the_lock(path)
        with client_of(path) as other:
            theirs.append(other.schedule_compaction())

    hook = once_at(".compaction.requested", others)
    with client_of(path) as client, hooked(monkeypatch, hook), suppress(HoodieException):
        client.schedule_compaction()
    timeline = HoodieTableMetaClient.load(str(path)).active_timeline
    groups = [
        operation.file_id
        for time in pending(path)
        for operation in timeline.read_as(
            HoodieInstant(time, Action.COMPACTION, State.REQUESTED), HoodieCompactionPlan
        ).operations
    ]
    assert len(groups) == len(set(groups)) == 2


@version_6
def test_nothing_is_planned_over_a_write_that_is_being_completed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str | None] = []

    def others() -> None:
        lose_the_lock(path)
        with client_of(path) as other:
            planned.append(other.schedule_compaction())

    with client_of(path) as client, hooked(monkeypatch, once_at(".deltacommit", others)):
        client.upsert(rows(("a", "x", 5)))
    assert planned == [None]
    assert read(path) == [("a", "x", 5), ("b", "x", 1), ("c", "y", 2)]


@version_6
def test_a_plan_is_withdrawn_if_a_write_began_before_it_could_be_seen(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    writer = client_of(path)

    def others() -> None:
        lose_the_lock(path)
        started.append(writer.start_commit())

    hook = once_at(".compaction.requested", others)
    with client_of(path) as client, hooked(monkeypatch, hook), suppress(HoodieException):
        assert client.schedule_compaction() is None
    assert pending(path) == []
    with writer:
        writer.upsert(rows(("b", "x", 5)), started[0])
    with client_of(path) as client:
        assert client.compact() is not None
    assert read(path) == [("a", "x", 2), ("b", "x", 5), ("c", "y", 2)] == read_by_hudi_rs(path)


# --- plans that lack log files ----------------------------------------------------------------------------------------


def plan_without_the_newest_logs(path: Path) -> str:
    """What a writer of other software leaves that puts log files on the older slice."""
    with client_of(path) as client:
        planned = client.schedule_compaction()
    assert planned is not None
    timeline = HoodieTableMetaClient.load(str(path)).active_timeline
    requested = HoodieInstant(planned, Action.COMPACTION, State.REQUESTED)
    plan = timeline.read_as(requested, HoodieCompactionPlan)
    operations = tuple(
        attrs.evolve(operation, delta_file_paths=operation.delta_file_paths[:-1]) for operation in plan.operations
    )
    file = Path(timeline.path_of(requested))
    file.write_bytes(timeline.layout.encode(attrs.evolve(plan, operations=operations)))
    return planned


@every_version
def test_log_files_that_a_plan_lacks_are_merged_too(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = read(path)
    planned = plan_without_the_newest_logs(path)
    with client_of(path) as client, caplog.at_level(logging.WARNING):
        client.compact(planned)
    assert caplog.text.count("which its plan lacks: otherwise its rows would be lost") == 2
    assert read(path) == before == read_by_hudi_rs(path)


@every_version
def test_a_file_of_the_plan_that_is_gone_is_an_error(path: Path) -> None:
    with client_of(path) as client:
        planned = client.schedule_compaction()
        log_file = next((path / "x").glob(".*.log.*"))
        log_file.rename(log_file.with_name("away"))
        with pytest.raises(HoodieException, match=rf"was planned with {log_file.name} of partition 'x', which is not"):
            client.compact(planned)
        assert pending(path) == [planned]
        (path / "x" / "away").rename(log_file)
        assert client.compact(planned) is not None
    assert read(path) == [("a", "x", 2), ("b", "x", 1), ("c", "y", 2)]


@every_version
def test_a_heartbeat_that_expired_stops_an_attempt(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = CompactSlice.__call__
    with client_of(path) as client:
        planned = client.schedule_compaction()

        def stand_still(self: CompactSlice, task: Any, part: Any) -> Any:
            heartbeat = client._heartbeats._heartbeats[str(planned)]
            heartbeat.beaten_ms -= 10**9
            os.utime(heartbeat.path, (0, 0))
            return write(self, task, part)

        with monkeypatch.context() as patched:
            patched.setattr(CompactSlice, "__call__", stand_still)
            with pytest.raises(HoodieException, match="heartbeat of instant"):
                client.compact(planned)
    with client_of(path) as other:
        assert other.compact(planned) is not None
    assert read(path) == [("a", "x", 2), ("b", "x", 1), ("c", "y", 2)] == read_by_hudi_rs(path)


@every_version
def test_a_plan_with_files_of_other_groups_is_refused(path: Path) -> None:
    with client_of(path) as client:
        planned = client.schedule_compaction()
    timeline = HoodieTableMetaClient.load(str(path)).active_timeline
    requested = HoodieInstant(str(planned), Action.COMPACTION, State.REQUESTED)
    plan = timeline.read_as(requested, HoodieCompactionPlan)
    first, second = plan.operations
    for bad in (
        attrs.evolve(first, delta_file_paths=second.delta_file_paths),
        attrs.evolve(first, data_file_path="../../etc/passwd"),
        attrs.evolve(first, partition_path="../other"),
    ):
        Path(timeline.path_of(requested)).write_bytes(timeline.layout.encode(attrs.evolve(plan, operations=(bad,))))
        with client_of(path) as client, pytest.raises(HoodieException, match="the plan .* names"):
            client.compact(planned)


@every_version
def test_of_two_plans_with_one_file_group_the_later_one_is_not_carried_out(path: Path) -> None:
    with client_of(path) as client:
        first = client.schedule_compaction()
        timeline = HoodieTableMetaClient.load(str(path)).active_timeline
        plan = timeline.read_details(HoodieInstant(str(first), Action.COMPACTION, State.REQUESTED))
        second = timeline.create_new_instant_time(Action.COMPACTION, plan)
        with pytest.raises(HoodieCompactionException, match=f"as the pending compaction {first} has"):
            client.compact(second)
        assert pending(path) == [first, second], "log files may be named after it"
        assert client.compact(first) is not None
    assert read(path) == [("a", "x", 2), ("b", "x", 1), ("c", "y", 2)]


@every_version
def test_a_plan_that_was_withdrawn_since_the_timeline_was_loaded_has_no_file_groups(path: Path) -> None:
    with client_of(path) as client:
        planned = client.schedule_compaction()
    timeline = HoodieTableMetaClient.load(str(path)).active_timeline
    (instant,) = timeline.filter_actions(Action.COMPACTION)
    assert len(pending_compactions(timeline)) == 2
    timeline.withdraw_requested(str(planned), Action.COMPACTION)
    assert pending_compactions(timeline) == {}
    assert ConcurrentOperation.load(timeline, instant).file_groups == frozenset()
    archived = attrs.evolve(timeline, newest_archived_time=lambda: "29991231235959999")
    with pytest.raises(HoodieIOException, match="was archived or rolled back since the timeline was loaded"):
        pending_compactions(archived)


@every_version
@pytest.mark.parametrize("index_type", ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "INMEMORY"])
def test_a_key_that_is_written_again_while_its_delete_is_compacted_stays_one_row(path: Path, index_type: str) -> None:
    options = {**SEVERAL, "hoodie.index.type": index_type}
    with local_client(path, options) as client:
        client.delete([HoodieKey("a", "x")])
        planned = client.schedule_compaction()
        # Its writer finds the key in the older base file, and the compaction leaves it out of the next one.
        client.upsert(rows(("a", "x", 5)))
        client.compact(planned)
        client.upsert(rows(("a", "x", 6)))
        assert read(path) == [("a", "x", 6), ("b", "x", 1), ("c", "y", 2)] == read_by_hudi_rs(path)
        client.compact()
        client.upsert(rows(("a", "x", 7)))
    assert read(path) == [("a", "x", 7), ("b", "x", 1), ("c", "y", 2)] == read_by_hudi_rs(path)


# --- compactors of other software -------------------------------------------------------------------------------------


@every_version
def test_an_attempt_without_a_heartbeat_is_left_alone_while_its_files_are_new(path: Path) -> None:
    with client_of(path) as client:
        planned = str(client.schedule_compaction())
        timeline = HoodieTableMetaClient.load(str(path)).active_timeline
        timeline.transition_requested_to_inflight(planned, Action.COMPACTION)
        with pytest.raises(HoodieCompactionException, match="it has no heartbeat, as with Hudi, and .* is new"):
            client.compact(planned)
        inflight = HoodieInstant(planned, Action.COMPACTION, State.INFLIGHT)
        os.utime(timeline.path_of(inflight), (0, 0))
        marker = path / ".hoodie/.temp" / planned / "x" / "f.parquet.marker.MERGE"
        marker.parent.mkdir(parents=True)
        marker.touch()
        with pytest.raises(HoodieCompactionException, match=rf"and {marker} is new"):
            client.compact(planned)
        marker.unlink()
        assert client.compact(planned) is not None
    assert read(path) == [("a", "x", 2), ("b", "x", 1), ("c", "y", 2)]


@every_version
def test_an_attempt_that_others_rolled_back_is_not_completed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []

    def others() -> None:
        # A process that pays no heed to heartbeats, and carries it out too.
        lose_the_lock(path)
        with client_of(path) as other:
            other.rollback(planned[0])
        timeline = HoodieTableMetaClient.load(str(path)).active_timeline
        timeline.transition_requested_to_inflight(planned[0], Action.COMPACTION)

    with client_of(path) as client:
        planned.append(str(client.schedule_compaction()))
        check = RunCompactionActionExecutor._check_again

        def check_later(self: RunCompactionActionExecutor, *arguments: Any) -> None:
            others()
            check(self, *arguments)

        with monkeypatch.context() as patched:
            patched.setattr(RunCompactionActionExecutor, "_check_again", check_later)
            with pytest.raises(HoodieException, match="was rolled back by another process; run it again"):
                client.compact(planned[0])
    assert read(path) == [("a", "x", 2), ("b", "x", 1), ("c", "y", 2)]
    with client_of(path) as client:
        client.compact()
    assert read(path) == [("a", "x", 2), ("b", "x", 1), ("c", "y", 2)] == read_by_hudi_rs(path)


# --- writers beside an attempt ----------------------------------------------------------------------------------------


@every_version
def test_a_column_that_a_writer_adds_while_an_attempt_runs_stays_one_of_the_table(
    path: Path, monkeypatch: pytest.MonkeyPatch, table_version: int
) -> None:
    writer = local_client(path, {**SEVERAL, "hoodie.auto.commit": "false"})
    write = CompactSlice.__call__
    with writer, client_of(path) as client:
        started = None if table_version == 6 else writer.start_commit()
        planned = client.schedule_compaction()
        started = started or writer.start_commit()
        result = writer.upsert(rows(("b", "x", 5, 0.5)), started)

        def commit_first(self: CompactSlice, task: Any, part: Any) -> Any:
            if part.partition_path == "x":
                assert writer.commit(started, result)
            return write(self, task, part)

        with monkeypatch.context() as patched:
            patched.setattr(CompactSlice, "__call__", commit_first)
            client.compact(planned)
    batches = HudiTableBuilder.from_base_uri(str(path)).build().read()
    found = pa.Table.from_batches(batches).select(TRIPS.names).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        ("a", "x", 2, None), ("b", "x", 5, 0.5), ("c", "y", 2, None)
    ]  # fmt: skip


@every_version
def test_a_write_that_was_never_committed_is_rolled_back_after_a_compaction(path: Path) -> None:
    alone = {**SEVERAL, "hoodie.write.concurrency.mode": "SINGLE_WRITER"}
    with local_client(path, {**alone, "hoodie.auto.commit": "false"}) as client:
        left = client.start_commit()
        client.upsert(rows(("b", "x", 5)), left)
    with local_client(path, alone) as client:
        # In version 6 nothing is planned beside a pending write.
        client.compact()
        client.upsert(rows(("b", "x", 6)))
    assert HoodieTableMetaClient.load(str(path)).active_timeline.find(left) is None
    assert read(path) == [("a", "x", 2), ("b", "x", 6), ("c", "y", 2)] == read_by_hudi_rs(path)
