"""Clusterings that fail at every single call to the storage."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.table.view import committed_log_files
from tests.support.clustered_table import INDEXED, MANY_FILES, clusterings, pending, rows_with_meta
from tests.support.folders import files_below
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, rows
from tests.support.table_invariants import check_table
from tests.unit.client.test_crashes import shape_of

pytestmark = pytest.mark.usefixtures("faulty_storage")

SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "ts"}
COPIED = {"hoodie.clustering.binary.copy.row.group.min.bytes": "1"}


@attrs.frozen
class Step:
    """What fails.

    Attributes:
        name: Its name.
        prepare: Does what comes before, on a table with several files; returns what `run` is given.
        run: The step.
        options: Options of the client.
    """

    name: str
    prepare: Callable[[HoodieLocalWriteClient], str | None]
    run: Callable[[HoodieLocalWriteClient, str | None], Any]
    options: Mapping[str, str] = attrs.field(factory=lambda: SORTED)


STEPS = [
    Step("schedule", lambda client: None, lambda client, given: client.schedule_clustering()),
    Step("schedule and run", lambda client: None, lambda client, given: client.cluster()),
    Step("run", lambda client: client.schedule_clustering(), lambda client, given: client.cluster(given)),
    Step("copy", lambda client: client.schedule_clustering(), lambda client, given: client.cluster(given), COPIED),
]
CASES = [
    (step, version, table_type)
    for step in STEPS
    for version in (9, 6)
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ")
]


def new_client(base_path: Path, **properties: Any) -> HoodieLocalWriteClient:
    indexed = INDEXED if has_metadata_table(base_path) else {}
    return local_client(base_path, {**MANY_FILES, **SMALL_FILTERS, **indexed, **(properties or SORTED)}, parallelism=1)


def has_metadata_table(base_path: Path) -> bool:
    return (base_path / ".hoodie/metadata").exists()


def fill(base_path: Path) -> None:
    with new_client(base_path) as client:
        client.insert(rows(("a", "x", 2), ("b", "x", 1), ("c", "y", 1)))
        client.insert(rows(("d", "x", 3), ("gone", "x", 1)))
        client.upsert(rows(("a", "x", 4)))
        client.delete([HoodieKey("gone", "x")])


@pytest.mark.parametrize("dies", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["dies", "one_call_fails"])
@pytest.mark.parametrize(
    ("step", "table_version", "table_type"), CASES, indirect=["table_version"],
    ids=[f"{step.name.replace(' ', '_')}-{version}-{table_type}" for step, version, table_type in CASES],
)  # fmt: skip
@pytest.mark.one_in(4)
def test_a_clustering_that_fails_at_any_call_is_finished_by_the_next(
    tmp_path: Path, step: Step, table_version: int, table_type: str, dies: bool
) -> None:
    base_path = Path(init_table(tmp_path / "t", table_type=table_type))
    fill(base_path)
    with new_client(base_path, **step.options) as client:
        given = step.prepare(client)
    before = rows_with_meta(base_path)
    base_path.rename(tmp_path / "template")

    def attempt(faults: Faults) -> None:
        shutil.rmtree(base_path, ignore_errors=True)
        shutil.copytree(tmp_path / "template", base_path)
        # Whatever was read before, the calls are the same ones.
        committed_log_files._READ_BEFORE.clear()
        with new_client(base_path, **step.options) as client:
            run_with_faults(faults, lambda: step.run(client, given))

    healthy = Faults()
    attempt(healthy)
    seen: set[tuple[tuple[str, ...], bool]] = set()
    for number, how in faults_of(healthy.calls, dies):
        faults = Faults(number, how, dies)
        attempt(faults)
        what = f"call {number} of {len(healthy.calls)}, {how}: {faults.calls[number - 1][0]}"
        assert faults.fired, what
        state = (shape_of(base_path), how == "torn")
        if state in seen:
            continue
        seen.add(state)
        try:
            assert rows_with_meta(base_path) == before
            with new_client(base_path, **step.options) as client:
                if clusterings(base_path) == []:
                    assert client.cluster() is not None
                assert pending(base_path) == []
                assert rows_with_meta(base_path) == before
                check_end(base_path)
                client.upsert(rows(("b", "x", 9), ("c", "y", 9)))
                assert client.cluster() is not None
            found = rows_with_meta(base_path)
            assert [(row["id"], row["ts"]) for row in found] == [("a", 4), ("b", 9), ("d", 3), ("c", 9)]
            assert [row for row in found if row["ts"] < 9] == [row for row in before if row["id"] in "ad"]
            check_end(base_path)
        except Exception as problem:
            problem.add_note(what)
            raise
    print(f"{step.name}: {len(healthy.calls)} calls, {len(seen)} states on storage")


def check_end(base_path: Path) -> None:
    """Nothing is pending, no file is left of another attempt, and the metadata table is right."""
    check_table(base_path)
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    assert list(timeline.filter_pending()) == []
    completed = timeline.completed_writes().times
    bases = [path for path in files_below(base_path) if path.suffix == ".parquet" and ".hoodie" not in path.parts]
    assert {path.stem.rpartition("_")[2] for path in bases} <= completed
    temporary = base_path / ".hoodie/.temp"
    assert not temporary.exists() or {path.name[:17] for path in temporary.iterdir()} <= completed


# --- a process that died, or lives ------------------------------------------------------------------------------------
