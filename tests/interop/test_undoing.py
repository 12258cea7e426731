"""What one writer undoes, or began to undo, the other one reads, finishes and archives."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.table.timeline.instant import Action
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE, Row, TableModel, assert_all_agree, completed_file, timeline_folder
from tests.interop.test_replace_and_restore import call
from tests.support.table_invariants import check_table

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8, pytest.mark.with_merge_on_read]

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
OFF = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline.max.delta.commits": "100",
}
SERVICES = {
    "hoodie.clean.automatic": "true",
    "hoodie.archive.automatic": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.commits.archival.batch": "2",
}
COMPACTION = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
"""Without it nothing of a merge-on-read table is cleaned, and little is archived."""


class Table:
    """A table of both, and its model; every write changes rows of all partitions."""

    def __init__(self, base_path: Path) -> None:
        self.base_path = base_path
        self.model = TableModel(SIMPLE, SCHEMA, event_time=True)
        self._ts = 0
        HoodieTableMetaClient.init_table(str(base_path), table_name="undone", **SIMPLE.init_arguments())
        self.timeline_folder = timeline_folder(base_path)

    def client(self, **properties: str) -> HoodieLocalWriteClient:
        given = {"hoodie." + key.replace("__", "."): value for key, value in properties.items()}
        return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(self.base_path), {**OFF, **given}))

    def by_hoodie(self, **properties: str) -> str:
        with self.client(**properties) as client:
            return client.upsert(self.model.table(self._rows())).instant_time

    def by(self, hudi: HudiProcess, operation: str = "upsert", **options: str) -> str:
        rows = self._rows()
        given = {**SIMPLE.hudi_options("undone"), **OFF, **options}
        hudi.write(self.base_path, self.model.table(rows), given, operation=operation)
        newest = self.load().active_timeline.commits_timeline().last_instant
        assert newest is not None
        return newest.requested_time

    def _rows(self) -> list[Row]:
        self._ts += 1
        rows = [{"id": f"k{n}", "region": SIMPLE.regions[n % 3], "ts": self._ts, "fare": n / 4} for n in range(6)]
        self.model.upsert(rows)
        return rows

    def load(self) -> HoodieTableMetaClient:
        return HoodieTableMetaClient.load(str(self.base_path))

    def newest(self, action: Action) -> str:
        instant = self.load().active_timeline.filter_actions(action).last_instant
        assert instant is not None
        return instant.requested_time

    def check(self, hudi: HudiProcess) -> None:
        assert_all_agree(self.base_path, self.model, hudi)
        check_table(self.base_path, was_cleaned=True)
        assert len(self.load().active_timeline.filter_pending()) == 0


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "t")


def test_each_rolls_back_completed_commits_of_the_other(table: Table, hudi: HudiProcess) -> None:
    table.by_hoodie()
    kept = list(table.model.rows)

    assert hudi.rollback(table.base_path, table.by_hoodie())
    table.model.rows = list(kept)
    table.check(hudi)
    for operation in ("upsert", "insert_overwrite"):
        undone = table.by(hudi, operation)
        with table.client() as client:
            assert client.rollback(undone)
        table.model.rows = list(kept)
        table.check(hudi)
    table.by(hudi)
    table.by_hoodie()
    table.check(hudi)


def as_arguments(properties: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix("hoodie.").replace(".", "__"): value for key, value in properties.items()}


def leave_planned(table: Table, action: Action, undo: Callable[[], object]) -> str:
    """What one of both does to undo something, of which only the plan was written; the time of that."""
    copy = table.base_path.with_name("copy")
    shutil.copytree(table.base_path, copy)
    undo()
    time = table.newest(action)
    plan = f"{time}.{action}.requested"
    (timeline_folder(copy) / plan).write_bytes((table.timeline_folder / plan).read_bytes())
    shutil.rmtree(table.base_path)
    copy.rename(table.base_path)
    return time


@pytest.mark.parametrize("planned_by_hudi", [True, False], ids=["planned_by_hudi", "planned_by_hoodie"])
def test_each_finishes_a_rollback_that_the_other_only_planned(
    table: Table, hudi: HudiProcess, planned_by_hudi: bool
) -> None:
    table.by_hoodie()
    kept = list(table.model.rows)
    undone = table.by_hoodie() if planned_by_hudi else table.by(hudi)

    def undo() -> None:
        if planned_by_hudi:
            assert hudi.rollback(table.base_path, undone)
        else:
            with table.client() as client:
                assert client.rollback(undone)

    rollback = leave_planned(table, Action.ROLLBACK, undo)
    table.model.rows = kept
    if planned_by_hudi:
        table.by_hoodie()
    else:
        table.by(hudi)
    assert completed_file(table.base_path, rollback, Action.ROLLBACK) is not None
    assert undone not in {i.requested_time for i in table.load().active_timeline.commits_timeline()}
    table.check(hudi)


@pytest.mark.parametrize("planned_by_hudi", [True, False], ids=["planned_by_hudi", "planned_by_hoodie"])
def test_each_finishes_a_restore_that_the_other_only_planned(
    table: Table, hudi: HudiProcess, planned_by_hudi: bool
) -> None:
    kept = table.by_hoodie()
    state = list(table.model.rows)
    undone = {table.by(hudi), table.by_hoodie()}

    def restore_by_hudi() -> None:
        call(hudi, f"rollback_to_savepoint(path => '{table.base_path}', instant_time => '{kept}')")

    def restore_by_hoodie() -> None:
        with table.client() as client:
            client.restore_to_savepoint(kept)

    with table.client() as client:
        client.savepoint(kept)
    begin, finish = restore_by_hoodie, restore_by_hudi
    if planned_by_hudi:
        begin, finish = finish, begin
    restore = leave_planned(table, Action.RESTORE, begin)
    finish()
    assert completed_file(table.base_path, restore, Action.RESTORE) is not None
    assert not undone & {i.requested_time for i in table.load().active_timeline.commits_timeline()}
    table.model.rows = list(state)
    table.check(hudi)
    table.by(hudi)
    table.by_hoodie()
    table.check(hudi)


def test_real_hudi_decodes_what_each_service_of_hoodie_writes(table: Table, hudi: HudiProcess, table_type: str) -> None:
    kept = [table.by_hoodie(), table.by_hoodie()][1]
    with table.client() as client:
        client.savepoint(kept, user="ann", comment="näher")
        undone = table.by_hoodie()
        client.restore_to_savepoint(kept)
        newest = table.by_hoodie()
        client.rollback(newest)
    restore, rollback = table.newest(Action.RESTORE), table.newest(Action.ROLLBACK)
    for _ in range(3):
        table.by_hoodie(**(as_arguments(COMPACTION) if table_type == "MERGE_ON_READ" else {}))
    with table.client(cleaner__commits__retained="1") as client:
        assert client.clean() is not None
    clean = table.newest(Action.CLEAN)

    def decode(name: str, class_name: str) -> dict[str, Any]:
        time, _, action = name.partition(".")
        path = table.timeline_folder / name
        if not action.endswith("requested"):
            path = completed_file(table.base_path, time, Action(action)) or path
        return hudi.decode_avro(path, f"Hoodie{class_name}")

    action = "deltacommit" if table_type == "MERGE_ON_READ" else "commit"
    savepoint = decode(f"{kept}.savepoint", "SavepointMetadata")
    assert (savepoint["savepointedBy"], savepoint["comments"]) == ("ann", "näher")
    assert set(savepoint["partitionMetadata"]) == set(SIMPLE.regions)
    plan = decode(f"{rollback}.rollback.requested", "RollbackPlan")
    assert plan["instantToRollback"] == {"commitTime": newest, "action": action}
    assert decode(f"{rollback}.rollback", "RollbackMetadata")["commitsRollback"] == [newest]
    plan = decode(f"{restore}.restore.requested", "RestorePlan")
    assert plan["instantsToRollback"] == [{"commitTime": undone, "action": action}]
    assert list(decode(f"{restore}.restore", "RestoreMetadata")["hoodieRestoreMetadata"]) == [undone]
    plan = decode(f"{clean}.clean.requested", "CleanerPlan")
    metadata = decode(f"{clean}.clean", "CleanMetadata")
    assert plan["earliestInstantToRetain"]["timestamp"] == metadata["earliestCommitToRetain"]
    assert set(metadata["partitionMetadata"]) == set(SIMPLE.regions)


@pytest.mark.parametrize("archived_by_hudi", [True, False], ids=["archived_by_hudi", "archived_by_hoodie"])
def test_rollbacks_and_cleans_are_archived_around_restores(
    table: Table, hudi: HudiProcess, archived_by_hudi: bool, table_type: str
) -> None:
    commits = {"commit", "deltacommit"} if table_type == "MERGE_ON_READ" else {"commit"}
    services = SERVICES | COMPACTION if table_type == "MERGE_ON_READ" else SERVICES
    kept = table.by_hoodie()
    state = list(table.model.rows)
    with table.client() as client:
        client.savepoint(kept)
        table.by(hudi)
        client.restore_to_savepoint(kept)
        client.delete_savepoint(kept)
        for _ in range(2):
            assert hudi.rollback(table.base_path, table.by_hoodie())
            assert client.rollback(table.by(hudi))
    table.model.rows = state
    every = hudi.instants(table.base_path)["active"]
    assert {action for _, action in every} - commits == {"rollback", "restore"}
    for _ in range(6):
        if archived_by_hudi:
            table.by(hudi, **services)
        else:
            table.by_hoodie(**as_arguments(services))
    found = hudi.instants(table.base_path)
    assert {action for _, action in found["archived"]} == {*commits, "rollback", "clean"}
    assert set(every) <= {*found["archived"], *found["active"]}
    assert not set(found["archived"]) & set(found["active"])
    ours = table.load().archived_timeline
    assert sorted((i.requested_time, str(i.action)) for i in ours.filter_completed_instants()) == found["archived"]
    table.check(hudi)
    table.by_hoodie()
    table.by(hudi)
    table.check(hudi)
