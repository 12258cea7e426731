"""What a committer does with an instant that was written: alone, on a table whose files are made by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hoodie.callback.commit_callbacks import CommitCallbacks
from hoodie.client.committer import Committer
from hoodie.client.metrics_publisher import MetricsPublisher
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.fs.file_names import make_base_file_name
from hoodie.common.model.commit_metadata import SCHEMA_KEY, HoodieCommitMetadata
from hoodie.common.model.write_operation_type import IOType, WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import State
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import (
    HoodieCommitException,
    HoodieHeartbeatException,
    HoodieIOException,
    HoodieValidationException,
    HoodieWriteConflictException,
)
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.table.action.completion import complete_instant
from hoodie.table.action.listeners import CompletionListeners
from hoodie.table.action.rollback.rollback_service import RollbackService
from hoodie.table.open_table import load_table
from hoodie.table.table_session import TableSession
from tests.support.hookable_storage import hooked
from tests.support.table_builder import instants, write_action, write_config
from tests.support.timeline_files import is_completed_file, make_state, state_file, state_files

FILE_ID = "a0000000-0000-4000-8000-000000000001-0"
OTHER_FILE_ID = "b0000000-0000-4000-8000-000000000002-0"
SCHEMA = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}'
SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
}
Validate = Callable[[TableSnapshot, HoodieWriteResult, HoodieCommitMetadata], None]


class Writer:
    """A committer, and by hand what a client and its tasks do before it is asked."""

    def __init__(self, base_path: Path, validate: Validate = lambda *arguments: None, **properties: Any) -> None:
        self.base_path = base_path
        self.config = write_config(base_path, **properties)
        metrics = HoodieMetrics()
        session = TableSession.open(self.config, LocalEngineContext(parallelism=1), metrics)
        self.heartbeats = session.heartbeats
        publisher = MetricsPublisher(self.config, lambda: metrics.steps, lambda: "t")
        listeners = CompletionListeners(metrics, (publisher, CommitCallbacks(self.config)))
        self.committer = Committer(session, validate, listeners, RollbackService(session))

    def begin(self) -> str:
        """An instant that is inflight."""
        snapshot = load_table(self.config)
        instant_time = snapshot.active_timeline.create_new_instant_time(write_action())
        if self.config.write.has_several_writers:
            self.heartbeats.start(snapshot, instant_time)
        self.committer.begin_write(load_table(self.config), instant_time, write_action())
        snapshot.active_timeline.transition_requested_to_inflight(instant_time, write_action())
        return instant_time

    def markers(self, instant_time: str) -> WriteMarkers:
        snapshot = load_table(self.config)
        return WriteMarkers(snapshot.storage, snapshot.meta_path, instant_time)

    def announce(self, instant_time: str, token: str, file_id: str = FILE_ID) -> WriteStatus:
        """What one attempt of a task leaves: a marker, then a data file."""
        name = make_base_file_name(file_id, token, instant_time)
        self.markers(instant_time).create("x", name, IOType.CREATE)
        (self.base_path / "x").mkdir(exist_ok=True)
        (self.base_path / "x" / name).write_bytes(b"PAR1")
        return WriteStatus(file_id, "x", HoodieWriteStat(file_id, "x", path=f"x/{name}", num_writes=1, num_inserts=1))

    def complete(self, instant_time: str, *statuses: WriteStatus, schema: str = SCHEMA) -> bool:
        metadata = HoodieCommitMetadata(
            {"x": tuple(status.stat for status in statuses)} if statuses else {},
            {SCHEMA_KEY: schema} if schema else {},
            WriteOperationType.UPSERT,
        )
        self.result = HoodieWriteResult(instant_time, WriteOperationType.UPSERT, statuses, metadata)
        return self.committer.complete(instant_time, self.result, {"who": "ann"})

    def state(self, instant_time: str) -> str | None:
        return {time: state for time, _, state in instants(self.base_path)}.get(instant_time)

    def data_files(self) -> list[str]:
        return sorted(path.relative_to(self.base_path).as_posix() for path in self.base_path.rglob("*.parquet"))


@pytest.fixture
def writer(base_path: Path) -> Writer:
    return Writer(base_path)


def test_an_instant_is_completed_with_its_statuses_and_its_markers_go(writer: Writer) -> None:
    instant_time = writer.begin()
    status = writer.announce(instant_time, "0-1-1")
    assert writer.complete(instant_time, status)
    assert writer.result.is_committed
    timeline = load_table(writer.config).active_timeline
    (instant,) = timeline.commits_timeline().filter_completed_instants()
    stored = timeline.read_commit_metadata(instant)
    assert (instant.requested_time, list(stored.write_stats)) == (instant_time, [status.stat])
    assert stored.extra_metadata == {SCHEMA_KEY: SCHEMA, "who": "ann"}
    assert writer.data_files() == [status.stat.path]
    assert not Path(writer.markers(instant_time).folder).exists()


def test_files_that_no_status_counts_are_deleted_before_the_instant_is_completed(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    instant_time = writer.begin()
    lost, counted = writer.announce(instant_time, "0-1-1"), writer.announce(instant_time, "0-1-2")
    calls: list[tuple[str, str]] = []
    with hooked(monkeypatch, lambda name, path: calls.append((name, path))):
        assert writer.complete(instant_time, counted)
    assert writer.data_files() == [counted.stat.path]
    completed = str(state_file(writer.base_path, instant_time, str(write_action())))
    assert calls.index(("delete", f"{writer.base_path}/{lost.stat.path}")) < calls.index(("create", completed))


def test_a_marker_outlives_a_file_of_an_attempt_that_could_not_be_deleted(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    instant_time = writer.begin()
    lost, counted = writer.announce(instant_time, "0-1-1"), writer.announce(instant_time, "0-1-2")

    def fail(name: str, path: str) -> None:
        if name == "delete" and path.endswith(str(lost.stat.path)):
            raise HoodieIOException("the network is gone")

    with hooked(monkeypatch, fail), pytest.raises(HoodieIOException, match="the network is gone"):
        writer.complete(instant_time, counted)
    assert writer.state(instant_time) == "INFLIGHT"
    assert {marker.file_name for marker in writer.markers(instant_time).list_markers()} == {
        str(status.stat.path).removeprefix("x/") for status in (lost, counted)
    }


def test_a_file_that_was_never_announced_is_not_committed(writer: Writer) -> None:
    instant_time = writer.begin()
    status = writer.announce(instant_time, "0-1-1")
    writer.markers(instant_time).delete_all()
    with pytest.raises(HoodieCommitException, match="1 files of instant .* have no marker"):
        writer.complete(instant_time, status)
    assert writer.state(instant_time) == "INFLIGHT"


def test_tasks_may_write_no_longer_when_markers_are_compared(writer: Writer) -> None:
    instant_time = writer.begin()
    markers = writer.markers(instant_time)
    markers.open()
    status = writer.announce(instant_time, "0-1-1")
    markers.delete("x", str(status.stat.path).removeprefix("x/"), IOType.CREATE)
    with pytest.raises(HoodieCommitException):
        writer.complete(instant_time, status)
    assert not markers.is_open


@pytest.mark.parametrize("state", ["gone", "requested", "completed"])
def test_an_instant_that_is_not_inflight_is_refused_and_left_alone(writer: Writer, state: str) -> None:
    instant_time = writer.begin()
    status = writer.announce(instant_time, "0-1-1")
    if state == "completed":
        assert writer.complete(instant_time, status)
    else:
        state_file(writer.base_path, instant_time, str(write_action()), state=State.INFLIGHT).unlink()
    if state == "gone":
        state_file(writer.base_path, instant_time, str(write_action()), state=State.REQUESTED).unlink()
    before, reason = instants(writer.base_path), {
        "gone": "never started", "requested": "nothing was written to it", "completed": "completed already",
    }[state]  # fmt: skip
    with pytest.raises(HoodieCommitException, match=reason):
        writer.complete(instant_time, status)
    assert instants(writer.base_path) == before
    assert writer.data_files() == [status.stat.path]


def test_an_instant_that_is_written_to_already_is_not_begun_again(writer: Writer) -> None:
    instant_time = writer.begin()
    with pytest.raises(HoodieCommitException, match="written to already"):
        writer.committer.begin_write(load_table(writer.config), instant_time, write_action())


def commit_beside(writer: Writer, file_id: str) -> str:
    """Another writer of the same kind writes and commits."""
    other = Writer(writer.base_path, **(SEVERAL if writer.config.write.has_several_writers else {}))
    instant_time = other.begin()
    assert other.complete(instant_time, other.announce(instant_time, "0-2-2", file_id))
    return instant_time


@pytest.mark.parametrize("file_id", [FILE_ID, OTHER_FILE_ID])
def test_any_commit_since_the_write_began_is_a_conflict_that_is_safe_to_repeat(writer: Writer, file_id: str) -> None:
    instant_time = writer.begin()
    status = writer.announce(instant_time, "0-1-1")
    newer = commit_beside(writer, file_id)
    with pytest.raises(HoodieWriteConflictException) as raised:
        writer.complete(instant_time, status)
    assert (list(raised.value.other_instants), raised.value.is_retry_safe) == ([newer], True)
    assert writer.state(instant_time) == "INFLIGHT"
    assert not writer.result.is_committed


def test_markers_that_cannot_be_deleted_hide_no_other_writer(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look at what others committed in the same moment does not depend on the deletion beside it."""
    instant_time = writer.begin()
    status = writer.announce(instant_time, "0-1-1")
    newer: list[str] = []
    delete_all = WriteMarkers.delete_all

    def after_another(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr("hoodie.client.committer.complete_instant", complete_instant)
        newer.append(commit_beside(writer, FILE_ID))
        return complete_instant(*arguments, **named)

    def fails(markers: WriteMarkers, **named: Any) -> None:
        if markers.folder.endswith(instant_time):
            raise HoodieIOException("slow down")
        delete_all(markers, **named)

    monkeypatch.setattr("hoodie.client.committer.complete_instant", after_another)
    monkeypatch.setattr(WriteMarkers, "delete_all", fails)
    with pytest.raises(HoodieWriteConflictException, match="at the same moment") as raised:
        writer.complete(instant_time, status)
    assert list(raised.value.other_instants) == newer


def test_of_several_writers_only_those_of_one_file_group_conflict(base_path: Path) -> None:
    writer = Writer(base_path, **SEVERAL)
    first, second = writer.begin(), writer.begin()
    mine, others = writer.announce(first, "0-1-1"), writer.announce(second, "0-1-1", OTHER_FILE_ID)
    newer = commit_beside(writer, FILE_ID)
    assert writer.complete(second, others)
    with pytest.raises(HoodieWriteConflictException) as raised:
        writer.complete(first, mine)
    assert newer in raised.value.other_instants
    assert (writer.state(first), writer.state(second)) == ("INFLIGHT", "COMPLETED")


def test_a_writer_that_was_taken_for_dead_does_not_commit(base_path: Path) -> None:
    writer = Writer(base_path, **SEVERAL)
    instant_time = writer.begin()
    status = writer.announce(instant_time, "0-1-1")
    writer.heartbeats.stop(instant_time)
    with pytest.raises(HoodieHeartbeatException, match=instant_time):
        writer.complete(instant_time, status)
    assert writer.state(instant_time) == "INFLIGHT"


def test_an_instant_of_another_client_is_not_completed_beside_several_writers(base_path: Path) -> None:
    writer, other = Writer(base_path, **SEVERAL), Writer(base_path, **SEVERAL)
    instant_time = writer.begin()
    status = writer.announce(instant_time, "0-1-1")
    with pytest.raises(HoodieCommitException, match="not written by this client"):
        other.complete(instant_time, status)
    assert writer.complete(instant_time, status)


def test_of_two_that_complete_an_instant_at_once_one_does(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    instant_time = writer.begin()
    status = writer.announce(instant_time, "0-1-1")

    def first(name: str, path: str) -> None:
        if name == "create" and is_completed_file(path, instant_time=instant_time):
            # Where both files can be there, the one of the earlier time counts.
            earlier = str(int(instant_time) + 1)
            make_state(
                writer.base_path, instant_time, str(write_action()), State.COMPLETED, b"of somebody else", earlier
            )

    with hooked(monkeypatch, first), pytest.raises(HoodieCommitException, match="was just completed by another writer"):
        writer.complete(instant_time, status)
    assert not writer.result.is_committed
    assert [file.read_bytes() for file in state_files(writer.base_path, instant_time) if is_completed_file(file)] == [
        b"of somebody else"
    ]


def test_a_failure_after_the_instant_was_completed_is_no_failed_write(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    instant_time = writer.begin()
    status = writer.announce(instant_time, "0-1-1")

    def fail(name: str, path: str) -> None:
        if name == "rmdir":
            raise HoodieIOException("the network is gone")

    with hooked(monkeypatch, fail):
        assert writer.complete(instant_time, status)
    assert writer.state(instant_time) == "COMPLETED"
    assert "the network is gone" in caplog.text


def test_what_a_validator_refuses_stays_inflight(base_path: Path) -> None:
    def refuse(snapshot: TableSnapshot, result: HoodieWriteResult, metadata: HoodieCommitMetadata) -> None:
        assert metadata.extra_metadata["who"] == "ann"
        raise HoodieValidationException("too few rows")

    writer = Writer(base_path, refuse)
    instant_time = writer.begin()
    with pytest.raises(HoodieValidationException, match="too few rows"):
        writer.complete(instant_time, writer.announce(instant_time, "0-1-1"))
    assert writer.state(instant_time) == "INFLIGHT"


def test_a_write_of_nothing_is_committed_unless_it_is_not_allowed_then_it_is_rolled_back(base_path: Path) -> None:
    for allowed in (True, False):
        writer = Writer(base_path, allow_empty_commit=allowed)
        instant_time = writer.begin()
        assert writer.complete(instant_time) is allowed
        assert writer.state(instant_time) == ("COMPLETED" if allowed else None)
    assert [action for _, action, _ in instants(base_path)] == [str(write_action()), "rollback"]


def test_a_delete_from_a_table_that_was_never_written_is_withdrawn_without_a_commit(writer: Writer) -> None:
    instant_time = writer.begin()
    assert writer.complete(instant_time, schema="") is False
    assert writer.state(instant_time) is None
    assert not writer.result.is_committed
