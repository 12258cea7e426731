"""Rollback, restore, clean and archive of tables with log files: real Hudi reads the result and goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie import HoodieLocalWriteClient
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.table.action.action import no_check
from hoodie.table.action.rollback.rollback_action_executor import RollbackActionExecutor
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import completed_file, timeline_folder
from tests.interop.test_delta_commits import Table, made
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.table_builder import local_client

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8]

SERVICES = {
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Base files of hoodie, and its log files on top."""
    made_table = Table(tmp_path / "t", {}, "avro")
    made_table.by_hoodie("upsert", made(range(12), 100))
    made_table.by_hoodie("upsert", made(range(6), 200, 1))
    return made_table


def client_of(table: Table, **more: str) -> HoodieLocalWriteClient:
    given = {"hoodie." + key.replace("__", "."): value for key, value in more.items()}
    return local_client(table.base_path, {**table.options, **SERVICES, **given})


def leave_pending(table: Table) -> str:
    """A write of hoodie that changes stored rows and adds some, and was not committed."""
    client = client_of(table, auto__commit="false")
    result = client.upsert(table.model.table([*made(range(4), 900, 9), *made(range(50, 53), 900, 9)]))
    return result.instant_time


def compact(table: Table, hudi: HudiProcess) -> None:
    hudi.sql(
        f"CALL run_compaction(op => 'scheduleandexecute', path => '{table.base_path}', "
        "options => 'hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false')"
    )


def at(table: Table) -> MergeOnReadTable:
    found = MergeOnReadTable.__new__(MergeOnReadTable)
    found.base_path = table.base_path
    return found


def test_failed_delta_commits_are_undone_by_either_writer(table: Table, hudi: HudiProcess) -> None:
    failed = leave_pending(table)
    table.check(hudi)
    with client_of(table) as client:
        assert client.rollback_failed_writes() == [failed]
    table.check(hudi)
    rollback = at(table).instants(Action.ROLLBACK).last_instant
    assert rollback is not None
    path = completed_file(table.base_path, rollback.requested_time, Action.ROLLBACK)
    assert path is not None
    metadata = hudi.decode_avro(path, "HoodieRollbackMetadata")
    assert metadata["commitsRollback"] == [failed]
    logs = [log for p in metadata["partitionMetadata"].values() for log in (p["rollbackLogFiles"] or {}).values()]
    assert (set(logs) == {105}) if not at(table).layout.has_completion_times else logs == []
    table.by(hudi, "upsert", made(range(2, 8), 300, 2))
    table.check(hudi)
    leave_pending(table)
    # Hudi rolls it back before it writes.
    table.by(hudi, "upsert", made(range(4, 14), 400, 3))
    # Hudi 0.15 takes its instant before that, and does not show what it wrote before the next commit.
    table.check(*([] if hudi.version == "0.15.0" else [hudi]))
    table.by_hoodie("upsert", made(range(0, 20, 3), 500, 4))
    table.check(hudi)
    compact(table, hudi)
    table.check(hudi)


def test_hudi_finishes_a_rollback_that_hoodie_planned(table: Table, hudi: HudiProcess) -> None:
    failed = leave_pending(table)
    snapshot = TableSnapshot.load(str(table.base_path))
    instant = snapshot.active_timeline.commits_timeline().find(failed)
    executor = RollbackActionExecutor(snapshot, instant)
    plan = executor.plan()
    planned = executor.publish(plan, no_check)
    executor.begin(plan, planned)
    table.by(hudi, "upsert", made(range(2, 8), 300, 2))
    table.check(hudi)
    found = at(table).instants(Action.ROLLBACK).find(planned)
    assert found is not None and found.state is State.COMPLETED
    assert at(table).load().active_timeline.find(failed) is None
    targets = {block.target for _, block in at(table).command_blocks()}
    assert targets == (set() if at(table).layout.has_completion_times else {failed})
    compact(table, hudi)
    table.check(hudi)


def cleaned(table: Table) -> HoodieInstant:
    """The newest clean, as hoodie writes it behind a compaction."""
    table.by_hoodie("upsert", made(range(3, 9), 300, 2))
    with client_of(table) as client:
        while client.schedule_compaction() is not None:
            client.compact()
        client.upsert(table.model.table(rows := made(range(6), 400, 3)))
        table.model.upsert(rows)
        done = client.clean()
        assert done is not None and done.total_files_deleted > 0
    return newest_clean(table)


def newest_clean(table: Table) -> HoodieInstant:
    instant = at(table).instants(Action.CLEAN).last_instant
    assert instant is not None
    return instant


def leave_planned(table: Table, instant: HoodieInstant) -> None:
    """As if the clean's writer had died before it began."""
    timeline = at(table).load().active_timeline
    Path(timeline.path_of(instant)).unlink()
    (timeline_folder(table.base_path) / f"{instant.requested_time}.clean.inflight").unlink()


def test_each_finishes_a_clean_that_the_other_planned(table: Table, hudi: HudiProcess) -> None:
    planned = cleaned(table)
    leave_planned(table, planned)
    services = {**SERVICES, "hoodie.clean.automatic": "true", "hoodie.compact.inline.max.delta.commits": "100"}
    services |= {"hoodie.keep.min.commits": "20", "hoodie.keep.max.commits": "30"}
    table.by(hudi, "upsert", made(range(5, 14), 600, 5), services)
    assert completed_file(table.base_path, planned.requested_time, Action.CLEAN) is not None
    table.check(hudi)
    compact(table, hudi)
    for ts in (700, 800):
        table.by(hudi, "upsert", made(range(6), ts, 6), services)
        compact(table, hudi)
    of_hudi = newest_clean(table)
    assert of_hudi.requested_time > planned.requested_time
    leave_planned(table, of_hudi)
    with client_of(table) as client:
        client.clean()
    assert completed_file(table.base_path, of_hudi.requested_time, Action.CLEAN) is not None
    table.check(hudi)
    table.by_hoodie("upsert", made(range(4, 9), 900, 7))
    table.by(hudi, "upsert", made(range(2, 7), 950, 8))
    table.check(hudi)


def test_hudi_goes_on_behind_a_restore_a_clean_and_an_archiving_of_hoodie(table: Table, hudi: HudiProcess) -> None:
    with client_of(table) as client:
        saved = client.savepoint().instant_time
    rows = list(table.model.rows)
    table.by(hudi, "upsert", made(range(3, 9), 300, 2))
    table.by_hoodie("upsert", made(range(8, 30), 400, 3))
    compact(table, hudi)
    table.by(hudi, "upsert", made(range(0, 6), 500, 4))
    table.check(hudi)
    with client_of(table) as client:
        client.restore_to_savepoint(saved)
        client.delete_savepoint(saved)
    table.model.rows = rows
    table.check(hudi)
    table.by(hudi, "upsert", made(range(5, 14), 600, 5))
    table.check(hudi)
    compact(table, hudi)
    for ts in (700, 800):
        table.by_hoodie("upsert", made(range(6), ts, 6))
    with client_of(table) as client:
        cleaned = client.clean()
        assert cleaned is not None and cleaned.total_files_deleted > 0
        assert client.archive() > 0
    table.check(hudi)
    table.by(hudi, "upsert", made(range(4, 9), 900, 7))
    table.by_hoodie("upsert", made(range(2, 7), 950, 8))
    table.check(hudi)
