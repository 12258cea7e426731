"""What rollbacks and restores plan, before they touch anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoodie.avro.timeline_metadata import HoodieRollbackPlan, HoodieRollbackRequest, decode_record
from hoodie.common.fs.file_names import make_base_file_name, parse_base_file_name
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, State
from hoodie.exception import HoodieCorruptedDataException, HoodieRestoreException, HoodieRollbackException
from hoodie.table.action.action import announce, no_check
from hoodie.table.action.restore.restore_action_executor import RestoreActionExecutor
from hoodie.table.action.rollback.rollback_action_executor import RollbackActionExecutor
from tests.support.services_table import ServicesTable
from tests.support.table_builder import content, rows
from tests.support.timeline_files import state_file


@pytest.fixture
def table(tmp_path: Path) -> ServicesTable:
    """A commit in each of two partitions."""
    table = ServicesTable(tmp_path / "t")
    table.upsert("a", "b")
    table.upsert("c", region="y")
    return table


def snapshot_of(table: ServicesTable) -> TableSnapshot:
    return TableSnapshot.load(str(table.base_path))


def executor(table: ServicesTable, instant_time: str, **options: Any) -> RollbackActionExecutor:
    snapshot = snapshot_of(table)
    (instant,) = (i for i in snapshot.active_timeline.commits_timeline() if i.requested_time == instant_time)
    return RollbackActionExecutor(snapshot, instant, **options)


def plan_of(table: ServicesTable, instant_time: str, **options: Any) -> HoodieRollbackPlan:
    """The plan, and the certainty that planning changes no file but the leave to write on."""
    before = content(table.base_path)
    plan = executor(table, instant_time, **options).plan()
    after = content(table.base_path)
    assert {path for path in before if path not in after} <= {f".hoodie/.temp/{instant_time}.open"}
    assert after.items() <= before.items()
    return plan


def files_at(table: ServicesTable, instant_time: str) -> list[Path]:
    return sorted(table.base_path.rglob(f"*_{instant_time}.parquet"))


def target_of(plan: HoodieRollbackPlan) -> tuple[str, str]:
    assert plan.instant_to_rollback is not None
    return plan.instant_to_rollback.commit_time, plan.instant_to_rollback.action


def file_id_of(path: Path) -> str:
    name = parse_base_file_name(path.name)
    assert name is not None
    return name.file_id


def test_of_an_inflight_instant_each_announced_file_goes_with_its_file_group(table: ServicesTable) -> None:
    failed = table.leave_pending("a", "n", region="x")
    plan = plan_of(table, failed)
    (file,) = files_at(table, failed)
    assert target_of(plan) == (failed, "commit")
    assert plan.rollback_requests == (HoodieRollbackRequest("x", file_id_of(file), failed, (str(file),)),)


def test_a_file_that_was_announced_and_never_made_goes_as_well(table: ServicesTable) -> None:
    failed = table.leave_pending("n")
    snapshot = snapshot_of(table)
    file_id = "a0000000-0000-4000-8000-000000000001-0"
    name = make_base_file_name(file_id, "0-1-1", failed)
    WriteMarkers(snapshot.storage, snapshot.meta_path, failed).create("new", name, IOType.CREATE)
    requests = plan_of(table, failed).rollback_requests
    assert HoodieRollbackRequest("new", file_id, failed, (str(table.base_path / "new" / name),)) in requests
    assert len(requests) == 2


def test_files_of_an_inflight_instant_are_found_by_a_listing_where_markers_are_not_to_be_used(
    table: ServicesTable,
) -> None:
    failed = table.leave_pending("a", "n")
    assert plan_of(table, failed, using_markers=False) == plan_of(table, failed)


def test_an_attempt_that_writes_on_is_told_to_stop_before_its_files_are_listed(table: ServicesTable) -> None:
    failed = table.leave_pending("a")
    snapshot = snapshot_of(table)
    markers = WriteMarkers(snapshot.storage, snapshot.meta_path, failed)
    markers.open()
    plan_of(table, failed)
    assert not markers.is_open


def test_of_a_completed_commit_the_files_go_and_no_file_group_is_named(table: ServicesTable) -> None:
    newest = table.upsert("a", "n")
    plan = plan_of(table, newest)
    assert target_of(plan) == (newest, "commit")
    # As Hudi plans by listing; and by that a rollback tells later that it undoes a commit on purpose.
    assert plan.rollback_requests == tuple(
        HoodieRollbackRequest("x", "", "", (str(file),)) for file in files_at(table, newest)
    )
    assert len(plan.rollback_requests) == 1


def test_of_a_replacecommit_only_what_it_wrote_goes(table: ServicesTable) -> None:
    before = {path for path in content(table.base_path) if path.endswith(".parquet")}
    with table.client() as client:
        replaced = client.insert_overwrite(rows(("z", "x", 100))).instant_time
    plan = plan_of(table, replaced)
    assert target_of(plan) == (replaced, "replacecommit")
    planned = {path for request in plan.rollback_requests for path in request.files_to_be_deleted}
    assert planned == set(map(str, files_at(table, replaced)))
    assert not {str(table.base_path / path) for path in before} & planned


def test_of_a_delete_of_partitions_no_file_goes(table: ServicesTable) -> None:
    deleted = table.replace(["y"])
    plan = plan_of(table, deleted)
    assert (target_of(plan), plan.rollback_requests) == ((deleted, "replacecommit"), ())


@pytest.mark.parametrize("state", ["requested", "inflight"])
def test_of_an_instant_that_wrote_nothing_no_file_goes(table: ServicesTable, state: str) -> None:
    timeline = snapshot_of(table).active_timeline
    begun = timeline.create_new_instant_time(Action.COMMIT)
    if state == "inflight":
        timeline.transition_requested_to_inflight(begun, Action.COMMIT)
    plan = plan_of(table, begun)
    assert (target_of(plan), plan.rollback_requests) == ((begun, "commit"), ())


def test_only_the_newest_commit_is_undone_and_only_with_all_that_it_goes_back_to(table: ServicesTable) -> None:
    older, newest = table.upsert("a"), table.upsert("a")
    with pytest.raises(HoodieRollbackException, match=f"later ones exist \\({newest}\\)"):
        plan_of(table, older)
    (file,) = files_at(table, older)
    file.unlink()
    with pytest.raises(HoodieRollbackException, match="1 file groups was cleaned"):
        plan_of(table, newest)


def test_a_savepointed_commit_is_not_undone(table: ServicesTable) -> None:
    newest = table.upsert("a")
    table.savepoint(newest)
    with pytest.raises(HoodieRollbackException, match="delete the savepoint first"):
        plan_of(table, newest)


def test_a_plan_is_read_back_as_it_was_made_and_names_files_of_the_table_only(table: ServicesTable) -> None:
    failed = table.leave_pending("a")
    action = executor(table, failed)
    announcement = announce(action, no_check)
    assert announcement is not None
    requested = state_file(table.base_path, announcement.instant_time, "rollback", State.REQUESTED)
    (file,) = files_at(table, failed)
    again = RollbackActionExecutor(snapshot_of(table))
    assert again.read_plan(announcement.instant_time) == announcement.plan
    # A name of the same length, so that the file stays what it is.
    requested.write_bytes(requested.read_bytes().replace(file.name.encode(), b"x" * len(file.name)))
    with pytest.raises(HoodieCorruptedDataException, match="is no data file of"):
        again.read_plan(announcement.instant_time)


# --- restores ---------------------------------------------------------------------------------------------------------


def restore(table: ServicesTable, instant_time: str) -> RestoreActionExecutor:
    return RestoreActionExecutor(snapshot_of(table), instant_time, lambda snapshot, time: None)


def undone_by(table: ServicesTable, kept: str) -> list[tuple[str, str]]:
    """What the requested file of a restore to an instant says, beside which no file changes."""
    before = content(table.base_path)
    announcement = announce(restore(table, kept), no_check)
    assert announcement is not None
    file = state_file(table.base_path, announcement.instant_time, "restore", State.REQUESTED)
    name = str(file.relative_to(table.base_path))
    after = content(table.base_path)
    plan = decode_record(after.pop(name), "HoodieRestorePlan", name)
    assert after == before
    assert plan["savepointToRestoreTimestamp"] == kept
    return [(info["commitTime"], info["action"]) for info in plan["instantsToRollback"]]


def test_a_restore_undoes_all_writes_after_an_instant_the_newest_first(table: ServicesTable) -> None:
    kept = table.upsert("a")
    times = [table.upsert("a"), table.replace(["y"]), table.leave_pending("b")]
    assert undone_by(table, kept) == [(times[2], "commit"), (times[1], "replacecommit"), (times[0], "commit")]


def test_a_restore_to_the_newest_instant_undoes_nothing(table: ServicesTable) -> None:
    assert undone_by(table, table.upsert("a")) == []


def test_a_restore_leaves_cleans_and_rollbacks_alone(table: ServicesTable) -> None:
    kept = table.upsert("a")
    undone = table.upsert("a")
    failed = table.leave_pending("b")
    with table.client(**{"hoodie.cleaner.commits.retained": 1}) as client:
        assert client.rollback(failed)
        client.clean()
    assert (len(table.instants(Action.ROLLBACK)), len(table.instants(Action.CLEAN))) == (1, 1)
    assert undone_by(table, kept) == [(undone, "commit")]


def test_a_restore_does_not_go_back_behind_a_savepoint_or_to_what_is_no_commit(table: ServicesTable) -> None:
    kept, newest = table.upsert("a"), table.upsert("a")
    with pytest.raises(HoodieRestoreException, match="no completed commit of that time"):
        restore(table, "20200101000000000").plan()
    table.savepoint(newest)
    with pytest.raises(HoodieRestoreException, match=f"savepoint {newest} is newer"):
        restore(table, kept).plan()
