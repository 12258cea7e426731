"""Compactions and log compactions that fail at every single call to the storage."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie import HoodieKey, HoodieLocalWriteClient
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.view import committed_log_files
from hoodie.io.file_group_reader import scan_file_groups
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.table_builder import SCHEMA
from tests.unit.client.test_crashes import shape_of
from tests.unit.client.test_crashes_of_merge_on_read_services import at
from tests.unit.io.test_merging_real_tables import readers_of

SOON = {"hoodie__log__compaction__blocks__threshold": 2}
pytestmark = pytest.mark.usefixtures("faulty_storage")


@attrs.frozen
class Step:
    """What fails.

    Attributes:
        name: Its name.
        prepare: Does what comes before, on a table with log files; returns what `run` is given.
        run: The step.
        is_of_logs: Whether it is of a log compaction.
    """

    name: str
    prepare: Callable[[HoodieLocalWriteClient], Any]
    run: Callable[[HoodieLocalWriteClient, str | None], Any]
    is_of_logs: bool = False


def plan_and_write_on(client: HoodieLocalWriteClient) -> str | None:
    """A plan, and log files that belong to the slice which the compaction makes."""
    scheduled = client.schedule_compaction()
    MergeOnReadTable.upsert(at(Path(client.config.base_path)), "a", "b", client=client)
    return scheduled


def append_more(client: HoodieLocalWriteClient) -> None:
    table = at(Path(client.config.base_path))
    MergeOnReadTable.upsert(table, "b", client=client)
    client.delete([HoodieKey("a", "x")])
    MergeOnReadTable.upsert(table, "c", region="y", client=client)


def plan_log_compaction(client: HoodieLocalWriteClient) -> str | None:
    """A plan for both partitions, and a log file that comes after it."""
    append_more(client)
    planned = client.schedule_log_compaction()
    MergeOnReadTable.upsert(at(Path(client.config.base_path)), "c", region="y", client=client)
    return planned


STEPS = [
    Step("schedule", lambda client: None, lambda client, given: client.schedule_compaction()),
    Step("schedule and run", lambda client: None, lambda client, given: client.compact()),
    Step("run", plan_and_write_on, lambda client, given: client.compact(given)),
    Step("schedule logs", append_more, lambda client, given: client.schedule_log_compaction(), True),
    Step("schedule and run logs", append_more, lambda client, given: client.log_compact(), True),
    Step("run logs", plan_log_compaction, lambda client, given: client.log_compact(given), True),
]
CASES = [(step, version) for step in STEPS for version in (6, 9)]


@pytest.mark.parametrize("dies", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["dies", "one_call_fails"])
@pytest.mark.parametrize(
    ("step", "table_version"), CASES, indirect=["table_version"],
    ids=[f"{step.name.replace(' ', '_')}-{version}" for step, version in CASES],
)  # fmt: skip
@pytest.mark.one_in(4)
def test_a_compaction_that_fails_at_any_call_is_finished_by_the_next(
    tmp_path: Path, step: Step, table_version: int, dies: bool
) -> None:
    template = MergeOnReadTable(tmp_path / "t")
    template.upsert("a", "b")
    template.upsert("c", region="y")
    template.upsert("a")
    template.upsert("c", region="y")
    with template.client(**SOON) as client:
        given = step.prepare(client)
    rows = read(template)
    template.base_path.rename(tmp_path / "template")

    def attempt(faults: Faults) -> MergeOnReadTable:
        # Log compactions of earlier attempts have the same path and time, and name other files.
        committed_log_files._READ_BEFORE.clear()
        shutil.rmtree(template.base_path, ignore_errors=True)
        shutil.copytree(tmp_path / "template", template.base_path)
        table = at(template.base_path)
        with table.client(**SOON) as client:
            run_with_faults(faults, lambda: step.run(client, given))
        return table

    healthy = Faults()
    attempt(healthy)
    seen: set[tuple[tuple[str, ...], bool]] = set()
    for number, how in faults_of(healthy.calls, dies):
        faults = Faults(number, how, dies)
        table = attempt(faults)
        what = f"call {number} of {len(healthy.calls)}, {how}: {faults.calls[number - 1][0]}"
        assert faults.fired, what
        state = (shape_of(table.base_path), how == "torn")
        if state in seen:
            continue
        seen.add(state)
        try:
            assert read(table) == rows
            with table.client(**SOON) as client:
                while step.is_of_logs and client.log_compact() is not None:
                    assert read(table) == rows
                assert read(table) == rows
                while client.compact() is not None:
                    assert read(table) == rows
            assert read(table) == rows == table.read()
            check_end(table)
            table.upsert("b")
            assert [row[:2] for row in table.read()] == [row[:2] for row in rows]
            table.upsert("c", region="y")
            with table.client() as client:
                assert client.compact() is not None
            check_end(table)
        except Exception as problem:
            problem.add_note(what)
            raise
    print(f"{step.name}: {len(healthy.calls)} calls, {len(seen)} states on storage")


def read(table: MergeOnReadTable) -> list[tuple[Any, ...]]:
    """The rows; hudi-rs does not see log files behind a plan in version 6."""
    batches = scan_file_groups(readers_of(table.base_path))
    return sorted(tuple(row.values()) for batch in batches for row in batch.select(SCHEMA.names).to_pylist())


def check_end(table: MergeOnReadTable) -> None:
    """Nothing is pending; each base file is that of a completed instant, and no slice has log files."""
    timeline = table.load().active_timeline
    assert list(timeline.filter_pending()) == []
    completed = timeline.completed_writes().times
    bases = [path for path in table.data_files() if path.endswith(".parquet")]
    assert {path.rpartition("_")[2].removesuffix(".parquet") for path in bases} <= completed
    groups = [(path.partition("_")[0], path.rpartition("_")[2]) for path in bases]
    assert len(set(groups)) == len(groups), "two attempts left a file"
    view = table.load().view()
    assert not [part for path in view.list_partitions() for part in view.latest_file_slices(path) if part.log_files]
    compactions = timeline.filter_actions(Action.COMMIT).times
    assert compactions
    temporary = table.base_path / ".hoodie/.temp"
    assert not temporary.exists() or {path.name[:17] for path in temporary.iterdir()} <= completed
