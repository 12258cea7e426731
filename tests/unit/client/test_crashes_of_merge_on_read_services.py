"""Services of tables with log files that fail at every single call to the storage."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie import HoodieLocalWriteClient
from hoodie.common.table.timeline.instant import Action
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.unit.client.test_crashes import shape_of

pytestmark = pytest.mark.usefixtures("faulty_storage")

RETAINED = {"hoodie.cleaner.commits.retained": "1"}
SAVED = "saved"
"""Where a table keeps the instant that a service is given."""


@attrs.frozen
class Service:
    """One service on a table that was made for it.

    Attributes:
        name: Its name.
        prepare: Makes the table; returns the instant that the service is given.
        run: Runs the service.
        changes_rows: Whether readers may see other rows before it ends.
    """

    name: str
    prepare: Callable[[MergeOnReadTable], str]
    run: Callable[[HoodieLocalWriteClient, str], Any]
    changes_rows: bool = False


def with_logs(table: MergeOnReadTable) -> None:
    table.upsert("a", "b")
    table.upsert("c", region="y")
    table.upsert("a")
    table.upsert("c", region="y")


def a_failed_write(table: MergeOnReadTable) -> str:
    with_logs(table)
    return table.leave_pending("a", "new")


def a_completed_write(table: MergeOnReadTable) -> str:
    with_logs(table)
    return table.upsert("a", "new")


def a_savepoint(table: MergeOnReadTable) -> str:
    with_logs(table)
    with table.client() as client:
        saved = client.savepoint().instant_time
    table.upsert("a")
    table.compact()
    table.upsert("a", "b")
    table.leave_pending("b")
    return saved


def a_failed_compaction(table: MergeOnReadTable) -> str:
    with_logs(table)
    plan = table.schedule_compaction()
    files = set(table.data_files())
    table.run_compaction(plan)
    timeline = table.load().active_timeline
    timeline.revert_completed_to_inflight(plan, Action.COMPACTION)
    assert len(set(table.data_files()) - files) == 2
    return plan


def compacted(table: MergeOnReadTable) -> str:
    with_logs(table)
    table.compact()
    table.upsert("a")
    return table.upsert("a", "b")


SERVICES = [
    Service("rollback of a failed write", a_failed_write, lambda client, time: client.rollback_failed_writes()),
    Service("rollback of a completed write", a_completed_write, lambda client, time: client.rollback(time), True),
    Service("rollback of a compaction", a_failed_compaction, lambda client, time: client.rollback(time)),
    Service("restore", a_savepoint, lambda client, time: client.restore_to_savepoint(time), True),
    Service("clean", compacted, lambda client, time: client.clean()),
]
CASES = [(service, version) for service in SERVICES for version in (6, 9)]


def at(base_path: Path) -> MergeOnReadTable:
    """The table of a copied folder."""
    table = MergeOnReadTable.__new__(MergeOnReadTable)
    table.base_path = base_path
    table._ts = 1000
    return table


@pytest.mark.parametrize("dies", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["dies", "one_call_fails"])
@pytest.mark.parametrize(
    ("service", "table_version"), CASES, indirect=["table_version"],
    ids=[f"{service.name.replace(' ', '_')}-{version}" for service, version in CASES],
)  # fmt: skip
def test_a_service_that_fails_at_any_call_is_finished_by_the_next(
    tmp_path: Path, service: Service, table_version: int, dies: bool
) -> None:
    template = MergeOnReadTable(tmp_path / "t")
    given = service.prepare(template)
    before = template.read()
    template.base_path.rename(tmp_path / "template")

    def attempt(faults: Faults) -> MergeOnReadTable:
        # In the same place each time: plans hold full paths.
        shutil.rmtree(template.base_path, ignore_errors=True)
        shutil.copytree(tmp_path / "template", template.base_path)
        table = at(template.base_path)
        with table.client(**RETAINED) as client:
            run_with_faults(faults, lambda: service.run(client, given))
        return table

    healthy = Faults()
    after = attempt(healthy).read()
    assert service.changes_rows == (after != before)
    files = shape_of_files(template)
    seen: set[tuple[tuple[str, ...], bool]] = set()
    for number, how in faults_of(healthy.calls, dies):
        faults = Faults(number, how, dies)
        table = attempt(faults)
        what = f"call {number} of {len(healthy.calls)}, {how}: {faults.calls[number - 1][0]}"
        assert faults.fired, what
        # What most failures leave is what another one left.
        state = (shape_of(table.base_path), how == "torn")
        if state in seen:
            continue
        seen.add(state)
        try:
            if not service.changes_rows:
                assert table.read() == before
            with table.client(**RETAINED) as client:
                finish(client, service, given, table)
            assert table.read() == after
            assert shape_of_files(table) == files
            check_timeline(table)
            # The next write goes on.
            table.upsert("b")
            rest = [row for row in after if row[0] != "b"]
            assert [row for row in table.read() if row[0] != "b"] == rest
        except Exception as problem:
            problem.add_note(what)
            raise
    print(f"{service.name}: {len(healthy.calls)} calls, {len(seen)} states on storage")


def finish(client: HoodieLocalWriteClient, service: Service, given: str, table: MergeOnReadTable) -> None:
    """A second run; a rollback that began is finished by any write, so there may be nothing left to do."""
    if service.name.startswith("rollback of a completed"):
        client.rollback_failed_writes()
        if table.load().active_timeline.completed_writes().contains(given):
            client.rollback(given)
    else:
        service.run(client, given)


def shape_of_files(table: MergeOnReadTable) -> list[str]:
    """The data files; of log files the versions, which a second command block would change."""
    return sorted(path.rpartition("_")[0] if ".log." in path else path for path in table.data_files())


def check_timeline(table: MergeOnReadTable) -> None:
    """Nothing is pending but the plan of a compaction."""
    pending = table.load().active_timeline.filter_pending()
    assert [i for i in pending if i.action is not Action.COMPACTION] == []
    assert all(i.is_requested for i in pending)
