from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hoodie.avro.timeline_metadata import encode_record
from hoodie.common.model.file_slice import HoodieFileGroupId
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.config.clean_config import CleaningPolicy, HoodieCleanConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.storage.local_storage import LocalStorage
from hoodie.table.action.clean.clean_planner import CleanPlanner, earliest_instant_to_retain
from tests.support.pending_clustering import schedule_clustering
from tests.support.services_table import ServicesTable

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)


def at(day: int, hour: int = 0) -> str:
    return f"202601{day:02}{hour:02}0000000"


def timeline(completed: list[str], pending: dict[str, Action] | None = None) -> HoodieTimeline:
    instants = [HoodieInstant(time, Action.COMMIT, State.COMPLETED) for time in completed]
    instants += [HoodieInstant(time, action, State.REQUESTED) for time, action in (pending or {}).items()]
    return HoodieTimeline(instants)


def earliest(of: HoodieTimeline, **retained: Any) -> str | None:
    found = earliest_instant_to_retain(of, HoodieCleanConfig(**retained), NOW, "UTC")
    return None if found is None else found.requested_time


DAYS = [at(day) for day in range(1, 9)]


def test_commits_are_counted_from_the_newest() -> None:
    assert earliest(timeline(DAYS), commits_retained=3) == DAYS[5]
    assert earliest(timeline(DAYS), commits_retained=7) == DAYS[1]
    assert earliest(timeline(DAYS), commits_retained=8) is None


@pytest.mark.parametrize("action", [Action.COMMIT, Action.REPLACE_COMMIT, Action.COMPACTION])
def test_a_pending_write_holds_the_last_commit_before_it(action: Action) -> None:
    assert earliest(timeline(DAYS, {at(3, 1): action}), commits_retained=2) == DAYS[2]
    assert earliest(timeline(DAYS, {at(8, 1): action}), commits_retained=2) == DAYS[6]
    assert earliest(timeline(DAYS[3:], {at(1): action}), commits_retained=2) is None


def test_a_pending_clean_or_rollback_holds_nothing() -> None:
    pending = {at(2, 1): Action.CLEAN, at(2, 2): Action.ROLLBACK}
    assert earliest(timeline(DAYS, pending), commits_retained=2) == DAYS[6]


def test_hours_are_counted_from_now() -> None:
    by_hours = {"policy": CleaningPolicy.KEEP_LATEST_BY_HOURS}
    assert earliest(timeline(DAYS), **by_hours, hours_retained=4 * 24) == DAYS[6]
    assert earliest(timeline(DAYS, {at(4, 1): Action.COMMIT}), **by_hours, hours_retained=4 * 24) == DAYS[3]
    assert earliest(timeline(DAYS), **by_hours, hours_retained=24) is None


def test_versions_have_no_earliest_instant() -> None:
    assert earliest(timeline(DAYS), policy=CleaningPolicy.KEEP_LATEST_FILE_VERSIONS) is None


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ({}, "KEEP_LATEST_COMMITS"),
        ({"hoodie.clean.hours.retained": "3"}, "KEEP_LATEST_BY_HOURS"),
        ({"hoodie.cleaner.fileversions.retained": "3"}, "KEEP_LATEST_FILE_VERSIONS"),
        ({"hoodie.cleaner.fileversions.retained": "3", "hoodie.cleaner.commits.retained": "3"}, "KEEP_LATEST_COMMITS"),
        ({"hoodie.clean.hours.retained": "3", "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS"}, "KEEP_LATEST_COMMITS"),
    ],
)
def test_the_one_number_that_is_given_names_the_policy(given: dict[str, str], policy: str) -> None:
    assert HoodieWriteConfig.from_properties("/t", given).clean.policy == policy


# --- what holds files -------------------------------------------------------------------------------------------------


def planner(table: ServicesTable, **retained: Any) -> CleanPlanner:
    return CleanPlanner(LocalEngineContext(1), HoodieCleanConfig(**retained), table.load().snapshot)


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_pending_clusterings_and_savepoints_hold_the_files_that_they_name(table: ServicesTable) -> None:
    saved = table.upsert("a")
    table.savepoint(saved)
    table.upsert("a")
    [clustered] = [file for file in table.load().view().latest_base_files("x") if file.instant_time != saved]
    schedule_clustering(table.base_path, "x", clustered)
    [savepointed] = [path.name for path in (table.base_path / "x").glob(f"*_{saved}.parquet")]
    assert planner(table).retention().held == {clustered.file_name, savepointed}


def test_a_pending_compaction_holds_the_slice_that_it_names(table: ServicesTable) -> None:
    base = table.upsert("a")
    operation = {
        "baseInstantTime": base,
        "deltaFilePaths": [],
        "dataFilePath": "f.parquet",
        "fileId": "f",
        "partitionPath": "x",
        "metrics": None,
        "bootstrapFilePath": None,
    }
    plan = {
        "operations": [operation],
        "extraMetadata": None,
        "version": 2,
        "strategy": None,
        "preserveHoodieMetadata": False,
    }
    table.load().active_timeline.create_new_instant_time(Action.COMPACTION, encode_record("HoodieCompactionPlan", plan))
    assert planner(table).retention().pending.compacted == {HoodieFileGroupId("x", "f"): base}


# --- where it looks ---------------------------------------------------------------------------------------------------


@pytest.mark.without_metadata_table("archiving would wait for its compaction")
def test_a_table_that_is_only_inserted_into_is_not_listed_again_and_again(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.cleaner.commits.retained": "1"}
    client = table.client(**keep)
    for n in range(6):
        table.upsert(f"k{n}", region=f"p{n}", client=client)
    assert client.archive() > 0
    listed: list[str] = []
    original = LocalStorage.list_directory

    def list_directory(self: LocalStorage, path: str) -> Any:
        listed.append(Path(path).name)
        return original(self, path)

    monkeypatch.setattr(LocalStorage, "list_directory", list_directory)
    # What is archived may have left old versions anywhere, so the first plan looks everywhere.
    assert client.clean() is None
    assert {f"p{n}" for n in range(6)} <= set(listed)
    listed.clear()
    table.upsert("new", region="p9", client=client)
    listed.clear()
    assert client.clean() is None
    assert {name for name in listed if name.startswith("p")} == set()


def test_many_partitions_are_listed_by_tasks(table: ServicesTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.table.action.clean.clean_planner.DRIVER_PARTITIONS", 1)
    for _ in range(2):
        for region in ("x", "y", "z"):
            table.upsert("a", region=region)
    table.upsert("b")
    with table.client(**{"hoodie.cleaner.commits.retained": "1"}) as client:
        metadata = client.clean()
    assert metadata is not None
    assert set(metadata.partition_metadata) == {"x", "y", "z"}
