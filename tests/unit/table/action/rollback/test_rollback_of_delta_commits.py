"""Rollbacks of instants that wrote log files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie.avro.timeline_metadata import HoodieRollbackMetadata, HoodieRollbackPlan
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieCorruptedDataException
from hoodie.table.action.rollback.rollback_action_executor import RollbackActionExecutor
from tests.support.merge_on_read_table import Block, MergeOnReadTable
from tests.support.timeline_files import state_file

every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
later_versions = pytest.mark.parametrize("table_version", [8, 9], indirect=True)
version_6 = pytest.mark.parametrize("table_version", [6], indirect=True)


@pytest.fixture
def table(tmp_path: Path, table_version: int) -> MergeOnReadTable:
    """Two base files, and a log file on each."""
    table = MergeOnReadTable(tmp_path / "t")
    table.upsert("a", "b")
    table.upsert("c", region="y")
    table.upsert("a")
    table.upsert("c", region="y")
    return table


def executor(table: MergeOnReadTable, instant_time: str, **options: Any) -> RollbackActionExecutor:
    snapshot = TableSnapshot.load(str(table.base_path))
    return RollbackActionExecutor(snapshot, snapshot.active_timeline.commits_timeline().find(instant_time), **options)


def plan_of(table: MergeOnReadTable, instant_time: str, **options: Any) -> HoodieRollbackPlan:
    return executor(table, instant_time, **options).plan()


def roll_back(table: MergeOnReadTable, instant_time: str) -> HoodieRollbackMetadata:
    with table.client() as client:
        assert client.rollback(instant_time)
    return metadata_of(table)


def metadata_of(table: MergeOnReadTable) -> HoodieRollbackMetadata:
    """What the last rollback reports."""
    timeline = table.load().active_timeline
    rollback = timeline.filter_actions(Action.ROLLBACK).filter_completed_instants().last_instant
    assert rollback is not None
    return timeline.read_as(rollback, HoodieRollbackMetadata)


def requests_of(plan: HoodieRollbackPlan) -> list[tuple[str, str | None, list[str], dict[str, int]]]:
    return [
        (r.partition_path, r.latest_base_instant, list(r.files_to_be_deleted), dict(r.log_blocks_to_be_deleted or {}))
        for r in plan.rollback_requests
    ]


# --- version 6: command blocks ----------------------------------------------------------------------------------------


@version_6
def test_blocks_are_taken_back_by_a_command_block_in_a_new_log_file(table: MergeOnReadTable) -> None:
    before, logs = table.read(), table.log_files()
    failed = table.leave_pending("a", "new")
    (log,) = set(table.log_files()) - set(logs)
    base = [path for path in table.data_files() if path.endswith(f"_{failed}.parquet")]
    assert base == [] or len(base) == 1
    size = (table.base_path / log).stat().st_size
    first = table.load().active_timeline.instants[0].requested_time
    plan = plan_of(table, failed)
    taken_back = [request for request in requests_of(plan) if request[3]]
    assert taken_back == [("x", first, [], {Path(log).name: size})]
    done = roll_back(table, failed)
    ((path, block),) = table.command_blocks()
    assert block == Block("COMMAND", done.start_rollback_time, failed)
    assert Path(path).name == Path(log).name.replace(".log.2_", ".log.3_").rsplit("_", 1)[0] + "_1-0-1"
    assert (table.base_path / path).stat().st_size == 105
    assert set(table.data_files()) == {*table.data_files(), log, path}
    stats = done.partition_metadata["x"]
    assert stats.rollback_log_files == {f"file:{table.base_path / path}": 105}
    assert stats.log_files_from_failed_commit == {Path(log).name: size}
    assert list(stats.success_delete_files) == [str(table.base_path / path) for path in base]
    assert not [path for path in table.data_files() if path in base]
    assert table.read() == before
    assert not (table.base_path / ".hoodie/.temp" / failed).exists()


@version_6
def test_a_completed_delta_commit_is_planned_with_full_paths(table: MergeOnReadTable) -> None:
    logs = table.log_files()
    before = table.read()
    done = table.upsert("a", "b")
    (log,) = set(table.log_files()) - set(logs)
    path = table.base_path / log
    first = table.load().active_timeline.instants[0].requested_time
    plan = plan_of(table, done)
    assert requests_of(plan) == [("x", first, [], {f"file:{path}": path.stat().st_size})]
    roll_back(table, done)
    assert table.read() == before
    assert len(table.command_blocks()) == 1


@version_6
def test_the_version_of_the_new_log_file_is_the_largest_of_all_tokens_and_one(table: MergeOnReadTable) -> None:
    logs = table.log_files()
    failed = table.leave_pending("a")
    (log,) = set(table.log_files()) - set(logs)
    # Two attempts of a task, and a file that no marker announces.
    table.append_unannounced(log, failed)
    roll_back(table, failed)
    ((path, _),) = table.command_blocks()
    assert ".log.4_" in path


@version_6
@pytest.mark.parametrize("marker", ["none", "of Hudi 0.14"])
def test_log_files_without_a_marker_of_their_own_are_found(table: MergeOnReadTable, marker: str) -> None:
    before, logs = table.read(), table.log_files()
    first = table.load().active_timeline.instants[0].requested_time
    failed = table.leave_pending("a", "c")
    (log,) = set(table.log_files()) - set(logs)
    for path in (table.base_path / ".hoodie/.temp" / failed).rglob("*.APPEND"):
        path.unlink()
    if marker != "none":
        base = next(path for path in table.data_files() if path.startswith("x/") and path.endswith(f"_{first}.parquet"))
        table.announce(failed, "x", Path(base).name)
    assert [request[3] for request in requests_of(plan_of(table, failed)) if request[3]] == [
        {Path(log).name: (table.base_path / log).stat().st_size}
    ]
    roll_back(table, failed)
    assert [block.target for _, block in table.command_blocks()] == [failed]
    assert table.read() == before


@version_6
def test_a_file_of_another_writer_with_an_announced_name_stays_and_needs_no_command_block(
    table: MergeOnReadTable,
) -> None:
    before, logs = table.read(), table.log_files()
    failed = table.leave_pending("new", region="z")
    # The writer announced this name, and another writer had it before.
    table.announce(failed, "x", Path(logs[0]).name)
    assert not any(request[3] for request in requests_of(plan_of(table, failed)))
    roll_back(table, failed)
    assert set(logs) <= set(table.log_files()) and table.command_blocks() == []
    assert table.read() == before


@version_6
def test_a_late_log_file_of_a_writer_that_was_taken_for_dead_goes(table: MergeOnReadTable) -> None:
    before, logs = table.read(), table.log_files()
    failed = table.leave_pending("a")
    (log,) = set(table.log_files()) - set(logs)
    action = executor(table, failed)
    plan = action.plan()
    late = table.append_unannounced(log, failed)
    table.announce(failed, "x", Path(late).name)
    instant_time = action.publish(plan, lambda: None)
    action.look()
    action.begin(plan, instant_time)
    action.do(plan, instant_time, False)
    assert table.read() == before
    assert late not in table.log_files()


@version_6
def test_a_plan_of_hudi_with_a_request_for_each_log_file_gives_one_command_block(table: MergeOnReadTable) -> None:
    before, logs = table.read(), table.log_files()
    failed = table.leave_pending("a")
    (log,) = set(table.log_files()) - set(logs)
    other = table.append_unannounced(log, failed)
    plan = plan_of(table, failed)
    (request,) = (request for request in plan.rollback_requests if request.log_blocks_to_be_deleted)
    split = tuple(attrs.evolve(request, log_blocks_to_be_deleted={Path(path).name: 1}) for path in (log, other))
    rest = tuple(r for r in plan.rollback_requests if r is not request)
    table.load().active_timeline.create_new_instant_time(
        Action.ROLLBACK, attrs.evolve(plan, rollback_requests=(*rest, *split))
    )
    with table.client() as client:
        assert client.rollback_failed_writes() == [failed]
    assert [block.target for _, block in table.command_blocks()] == [failed]
    assert table.read() == before


# --- versions 8 and 9: deletions --------------------------------------------------------------------------------------


@later_versions
@pytest.mark.parametrize("is_completed", [False, True])
def test_all_files_of_the_instant_are_deleted(table: MergeOnReadTable, is_completed: bool) -> None:
    before, files = table.read(), table.data_files()
    undone = table.upsert("a", "new") if is_completed else table.leave_pending("a", "new")
    new = sorted(set(table.data_files()) - set(files))
    assert any(".log." in path for path in new)
    plan = plan_of(table, undone)
    assert sorted(path for request in plan.rollback_requests for path in request.files_to_be_deleted) == [
        str(table.base_path / path) for path in new
    ]
    assert all(len(request.files_to_be_deleted) == 1 for request in plan.rollback_requests)
    assert {request.latest_base_instant for request in plan.rollback_requests} == {"" if is_completed else undone}
    done = roll_back(table, undone)
    assert table.data_files() == files
    assert table.read() == before
    assert [(dict(p.rollback_log_files or {}), dict(p.log_files_from_failed_commit or {}))
            for p in done.partition_metadata.values()] == [({}, {})] * len(done.partition_metadata)  # fmt: skip
    assert done.total_files_deleted == len(new)


@later_versions
def test_files_without_markers_are_found_by_their_names(table: MergeOnReadTable) -> None:
    before, files = table.read(), table.data_files()
    failed = table.leave_pending("a", "new")
    for path in (table.base_path / ".hoodie/.temp" / failed).rglob("*.marker.*"):
        path.unlink()
    roll_back(table, failed)
    assert table.data_files() == files
    assert table.read() == before


@later_versions
def test_a_plan_that_takes_back_blocks_is_refused(table: MergeOnReadTable) -> None:
    failed = table.leave_pending("a")
    plan = plan_of(table, failed)
    (request, *_) = plan.rollback_requests
    bad = attrs.evolve(request, files_to_be_deleted=(), log_blocks_to_be_deleted={"x": 1})
    table.load().active_timeline.create_new_instant_time(Action.ROLLBACK, attrs.evolve(plan, rollback_requests=(bad,)))
    with table.client() as client, pytest.raises(HoodieCorruptedDataException, match="only tables of version 6"):
        client.rollback_failed_writes()


# --- every version ----------------------------------------------------------------------------------------------------


@every_version
def test_a_file_group_of_log_files_alone_goes_as_a_whole(tmp_path: Path, table_version: int) -> None:
    table = MergeOnReadTable(tmp_path / "t")
    table.upsert("a")
    files = table.data_files()
    failed = table.leave_pending("b", region="y")
    (base,) = set(table.data_files()) - set(files)
    name = Path(base).name
    file_id = name.split("_")[0]
    log = f".{file_id}_{failed}.log.1_0-1-1"
    (table.base_path / "y" / log).write_bytes((table.base_path / base).read_bytes()[:10])
    table.announce(failed, "y", log, IOType.APPEND if table_version == 6 else IOType.CREATE)
    roll_back(table, failed)
    assert table.data_files() == files


@every_version
def test_a_failed_write_is_rolled_back_before_the_next_one_takes_its_time(table: MergeOnReadTable) -> None:
    before = table.read()
    failed = table.leave_pending("a", "new")
    written = table.upsert("b")
    done = metadata_of(table)
    assert done.commits_rollback == (failed,)
    assert failed < done.start_rollback_time < written
    assert [row for row in table.read() if row[0] != "b"] == [row for row in before if row[0] != "b"]
    assert ("b", "x", 6) in table.read()


@every_version
def test_blocks_that_were_taken_back_stay_so_when_the_timeline_is_archived_past_them(table: MergeOnReadTable) -> None:
    failed = table.leave_pending("a", "new")
    roll_back(table, failed)
    for _ in range(6):
        table.upsert("b")
    expected = table.read()
    with table.client(hoodie__keep__min__commits="2", hoodie__keep__max__commits="3",
                      hoodie__cleaner__commits__retained="1") as client:  # fmt: skip
        client.archive()
    assert failed < table.load().active_timeline.commits_timeline().instants[0].requested_time
    assert table.read() == expected
    assert "new" not in {row[0] for row in expected}


@every_version
def test_a_failed_compaction_loses_its_files_and_keeps_its_plan(table: MergeOnReadTable) -> None:
    before, files = table.read(), table.data_files()
    timeline = table.load().active_timeline
    compaction = timeline.create_new_instant_time(Action.COMPACTION, table.compaction_plan())
    timeline.transition_requested_to_inflight(compaction, Action.COMPACTION)
    base = next(path for path in files if path.endswith(".parquet"))
    name = f"{Path(base).name.rsplit('_', 2)[0]}_9-9-9_{compaction}.parquet"
    for copy, is_announced in ((name, True), (name.replace("9-9-9", "9-9-8"), False)):
        (table.base_path / Path(base).parent / copy).write_bytes((table.base_path / base).read_bytes())
        if is_announced:
            table.announce(compaction, str(Path(base).parent), copy, IOType.MERGE)
    with table.client() as client:
        assert client.rollback_failed_writes() == [], "another writer leaves it alone"
        assert client.rollback(compaction)
    assert table.data_files() == files
    found = table.load().active_timeline.find(compaction, Action.COMPACTION)
    assert found == HoodieInstant(compaction, Action.COMPACTION, State.REQUESTED)
    assert state_file(table.base_path, compaction, "compaction", State.REQUESTED).stat().st_size > 0
    done = metadata_of(table)
    assert done.instants_rollback[0].action == "compaction"
    assert table.read() == before
