"""Table services that fail at every single call to the storage, and another writer that goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie import HoodieLocalWriteClient
from hoodie.common.table.timeline.instant import Action, State
from hoodie.common.table.timeline.timeline import HoodieTimeline
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.services_table import ServicesTable
from tests.support.timeline_files import archive_folder, archived_entries, make_state, state_file
from tests.unit.client.test_crashes import shape_of

pytestmark = pytest.mark.usefixtures("faulty_storage")

RETAINED = {"hoodie.cleaner.commits.retained": 2}


def at(base_path: Path) -> ServicesTable:
    """The table of a copied folder."""
    table = ServicesTable.__new__(ServicesTable)
    table.base_path = base_path
    table._ts = 1000
    return table


@attrs.frozen
class Service:
    """One service on a table that was made for it, and what must hold once another run has finished it."""

    name: str
    prepare: Callable[[ServicesTable], None]
    run: Callable[[HoodieLocalWriteClient], Any]
    check: Callable[[ServicesTable, ServicesTable], None]
    properties: dict[str, Any]


def old_versions(table: ServicesTable) -> None:
    for _ in range(3):
        table.upsert("a", "b")
        table.upsert("c", region="y")
    table.replace(["y"])
    table.upsert("a")
    table.upsert("b")
    table.upsert("a")


def requested_clean(table: ServicesTable) -> None:
    old_versions(table)
    with table.client(**RETAINED) as client:
        client.clean()
    table.upsert("a")
    timeline = table.load().active_timeline
    with table.client(**RETAINED) as client:
        client.clean()
    newest = timeline.reload().filter_actions(Action.CLEAN).instants[-1].requested_time
    state_file(table.base_path, newest, "clean").unlink()
    make_state(table.base_path, newest, "clean", State.INFLIGHT)


def check_cleaned(table: ServicesTable, healthy: ServicesTable) -> None:
    """The same files are left; no clean is pending; folders of empty partitions may be left."""
    assert table.files() == healthy.files()
    assert len(table.instants(Action.CLEAN).filter_pending()) == 0


def many_commits(table: ServicesTable) -> None:
    for _ in range(7):
        table.upsert("a")


def replaced_and_cleaned(table: ServicesTable) -> None:
    """A replace commit that is due, and whose files are gone."""
    table.upsert("c", region="y")
    table.replace(["y"])
    many_commits(table)
    with table.client(**RETAINED) as client:
        client.clean()


def archived_files(table: ServicesTable) -> None:
    for _ in range(3):
        many_commits(table)
        with table.client(**KEEP) as client:
            client.archive()
    many_commits(table)


def check_archived(table: ServicesTable, healthy: ServicesTable) -> None:
    """No instant is lost, none is in the archive twice; what is active is the newest, also when there are more."""
    for _ in range(2):
        entries = archived_entries(table.base_path)
        assert entries
        assert len(entries) == len(set(entries))
        active = [i.requested_time for i in table.load().active_timeline]
        archived = [i.requested_time for i in table.load().archived_timeline]
        every = {i.requested_time for timeline in timelines(healthy) for i in timeline}
        assert every <= {*active, *archived}
        assert active == sorted({*active, *archived})[-len(active) :]
        assert not (archive_folder(table.base_path) / "mergeArchivePlan").exists()
        for _ in range(2):
            table.upsert("b")
        with table.client(**KEEP) as client:
            client.archive()


def timelines(table: ServicesTable) -> tuple[HoodieTimeline, HoodieTimeline]:
    return table.load().active_timeline, table.load().archived_timeline


KEEP = {**RETAINED, "hoodie.keep.min.commits": 4, "hoodie.keep.max.commits": 5}
MERGE = {
    **KEEP,
    "hoodie.archive.merge.enable": "true",
    "hoodie.archive.merge.files.batch.size": 3,
    # From version 8 on.
    "hoodie.timeline.compaction.batch.size": 3,
}
SERVICES = [
    Service("archive", many_commits, lambda client: client.archive(), check_archived, KEEP),
    Service("archive of a replace commit", replaced_and_cleaned, lambda client: client.archive(), check_archived, KEEP),
    Service("archive and merge", archived_files, lambda client: client.archive(), check_archived, MERGE),
    Service("clean", old_versions, lambda client: client.clean(), check_cleaned, RETAINED),
    Service("clean that was pending", requested_clean, lambda client: client.clean(), check_cleaned, RETAINED),
]


@pytest.mark.parametrize(
    "dies", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["process_dies", "one_call_fails"]
)
@pytest.mark.parametrize("service", SERVICES, ids=[service.name.replace(" ", "_") for service in SERVICES])
def test_a_service_that_fails_at_any_call_is_finished_by_the_next(tmp_path: Path, service: Service, dies: bool) -> None:
    template = ServicesTable(tmp_path / "t")
    service.prepare(template)
    rows = template.read()
    commits = [i.requested_time for i in template.load().active_timeline.commits_timeline()]
    window = commits[-2:]
    pinned = {time: template.read_at(time) for time in window}

    def attempt(faults: Faults) -> ServicesTable:
        # In the same place each time: plans hold full paths.
        moved = tmp_path / "template"
        if not moved.exists():
            template.base_path.rename(moved)
        shutil.rmtree(template.base_path, ignore_errors=True)
        shutil.copytree(moved, template.base_path)
        table = at(template.base_path)
        with table.client(**service.properties) as client:
            run_with_faults(faults, lambda: service.run(client))
        return table

    healthy_faults = Faults()
    attempt(healthy_faults)
    shutil.copytree(template.base_path, tmp_path / "healthy")
    healthy = at(tmp_path / "healthy")
    count = 0
    seen: set[tuple[tuple[str, ...], bool]] = set()
    for number, how in faults_of(healthy_faults.calls, dies):
        faults = Faults(number, how, dies)
        table = attempt(faults)
        what = f"call {number} of {len(healthy_faults.calls)}, {how}: {faults.calls[number - 1][0]}"
        assert faults.fired, what
        count += 1
        # What most failures leave is what another one left.
        state = (shape_of(table.base_path), how == "torn")
        if state in seen:
            continue
        seen.add(state)
        try:
            # Whoever reads sees the same rows at once, before anybody has finished anything.
            assert table.read() == rows
            assert {time: table.read_at(time) for time in window} == pinned
            # Another writer: its next commit brings the service to its end.
            with table.client(**service.properties) as client:
                service.run(client)
            assert table.read() == rows
            assert {time: table.read_at(time) for time in window} == pinned
            service.check(table, healthy)
        except Exception as problem:
            problem.add_note(what)
            raise
    print(f"{service.name}: {len(healthy_faults.calls)} calls, {count} failures, {len(seen)} states on storage")
