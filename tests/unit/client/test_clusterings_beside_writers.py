"""Clusterings beside writers: a write wins against plans of hoodie, and no row of either is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.table.clustering_plans import CLUSTERING_ACTIONS, pending_clusterings
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import (
    HoodieClusteringException,
    HoodieClusteringUpdateException,
    HoodieConfigException,
    HoodieNotSupportedException,
    HoodieWriteConflictException,
)
from hoodie.table.action.archive.timeline_archiver import HoodieTimelineArchiver
from hoodie.table.action.cluster import run_clustering_action_executor as run
from hoodie.table.action.commit.base_commit_action_executor import BaseCommitActionExecutor
from tests.support.folders import make_older
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, rows

every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
every_type = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
QUIET = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
    **SMALL_FILTERS,
}
OCC = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
}
EVERY_MODE = pytest.mark.parametrize("mode", [{}, OCC], ids=["single_writer", "several_writers"])
RETAINED = {"hoodie.cleaner.commits.retained": "1"}
STORED = {("a", "x"): 1, ("b", "x"): 1, ("c", "y"): 1, ("d", "y"): 1}
"""Record key and partition of the first rows, with their value."""


@pytest.fixture
def table_type() -> str:
    return "COPY_ON_WRITE"


@pytest.fixture
def path(tmp_path: Path, table_version: int, table_type: str) -> str:
    """A table with two files in each of two partitions."""
    found = str(init_table(tmp_path / "t", table_type=table_type))
    for entries in ((("a", "x", 1), ("c", "y", 1)), (("b", "x", 1), ("d", "y", 1))):
        with client(found) as c:
            c.insert(rows(*entries))
    return found


def client(path: str, properties: dict[str, Any] | None = None) -> HoodieLocalWriteClient:
    return local_client(path, {**QUIET, **(properties or {})})


def stored(path: str) -> dict[tuple[str, str], int]:
    table = hoodie.read_table(path, columns=["id", "region", "ts"])
    found = {(row["id"], row["region"]): row["ts"] for row in table.to_pylist()}
    assert len(found) == table.num_rows
    return found


def pending(path: str) -> list[str]:
    timeline = HoodieTableMetaClient.load(path).active_timeline
    return [one.instant.requested_time for one in pending_clusterings(timeline)]


def files(path: str, region: str) -> int:
    return sum(1 for file in hoodie.Table(path).files() if file.partition_path == region)


def check(path: str, expected: dict[tuple[str, str], int]) -> None:
    assert stored(path) == expected
    assert not hoodie.Table(path).validate().differences


def scheduled(path: str, **properties: Any) -> str:
    with client(path, properties) as c:
        planned = c.schedule_clustering()
    assert planned is not None
    return planned


def as_of_hudi(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let plans be like those of Hudi, which does not leave file groups out."""
    monkeypatch.setattr("hoodie.table.action.cluster.clustering_planner.GIVES_WAY_KEY", "unknown")


def while_running(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Do something once, after the files of a clustering were written and before it is completed."""
    reconcile, calls = run.reconcile_with_markers, [work]

    def reconciled(*arguments: Any) -> int:
        while calls:
            calls.pop()()
        return reconcile(*arguments)

    monkeypatch.setattr(run, "reconcile_with_markers", reconciled)


# --- plans that nobody carries out --------------------------------------------------------------------------------


@every_version
@every_type
@EVERY_MODE
def test_an_update_of_a_planned_file_group_withdraws_the_plan(path: str, mode: dict[str, str]) -> None:
    planned = scheduled(path)
    with client(path, mode) as c:
        c.upsert(rows(("a", "x", 2)))
    assert pending(path) == []
    check(path, {**STORED, ("a", "x"): 2})
    with client(path) as c:
        with pytest.raises(HoodieClusteringException, match=f"no clustering {planned}"):
            c.cluster(planned)
        assert c.cluster() is not None
    check(path, {**STORED, ("a", "x"): 2})
    assert files(path, "x") == 1


@every_type
def test_a_delete_withdraws_the_plan(path: str) -> None:
    scheduled(path)
    with client(path) as c:
        c.delete(rows(("a", "x", 2)))
    assert pending(path) == []
    check(path, {key: value for key, value in STORED.items() if key != ("a", "x")})


@every_type
def test_new_rows_go_to_other_files_and_the_plan_stays(path: str) -> None:
    planned = scheduled(path)
    with client(path, {"hoodie.parquet.small.file.limit": str(100 << 20)}) as c:
        result = c.upsert(rows(("n", "x", 5)))
        assert [status.stat.prev_commit for status in result] == ["null"]
        assert pending(path) == [planned]
        assert c.cluster(planned) is not None
    check(path, {**STORED, ("n", "x"): 5})
    assert files(path, "x") == 2


def test_a_failed_write_withdraws_no_plan(path: str) -> None:
    planned = scheduled(path)
    with client(path, {"hoodie.auto.commit": "false"}) as c:
        instant_time = c.start_commit()
        c.upsert(rows(("a", "x", 2)), instant_time)
        assert pending(path) == [planned]
        c.rollback(instant_time)
        assert c.cluster(planned) is not None
    check(path, STORED)


def test_explaining_an_upsert_withdraws_no_plan(path: str) -> None:
    planned = scheduled(path)
    with client(path) as c:
        c.explain_upsert(rows(("a", "x", 2)))
    assert pending(path) == [planned]


@every_version
@EVERY_MODE
def test_an_overwrite_of_a_planned_partition_withdraws_the_plan(path: str, mode: dict[str, str]) -> None:
    scheduled(path)
    with client(path, mode) as c:
        c.insert_overwrite(rows(("o", "x", 7)))
    assert pending(path) == []
    expected = {("o", "x"): 7, ("c", "y"): 1, ("d", "y"): 1}
    check(path, expected)
    with client(path) as c:
        c.cluster()
    check(path, expected)


def test_planned_partitions_are_not_deleted(path: str) -> None:
    planned = scheduled(path)
    with client(path) as c, pytest.raises(HoodieNotSupportedException, match=planned):
        c.delete_partitions(["x"])
    check(path, STORED)


def test_a_plan_that_is_given_up_is_gone(path: str) -> None:
    planned = scheduled(path)
    with client(path) as c:
        assert c.rollback(planned)
    assert pending(path) == []
    check(path, STORED)


# --- strategies ---------------------------------------------------------------------------------------------------


@every_version
@EVERY_MODE
def test_plans_of_hudi_refuse_updates(path: str, mode: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    as_of_hudi(monkeypatch)
    planned = scheduled(path)
    with client(path, mode) as c:
        with pytest.raises(HoodieClusteringUpdateException, match=planned):
            c.upsert(rows(("a", "x", 2)))
        with pytest.raises(HoodieNotSupportedException, match=planned):
            c.insert_overwrite(rows(("o", "x", 7)))
    assert pending(path) == [planned]
    check(path, STORED)


def test_plans_refuse_updates_on_request(path: str) -> None:
    reject = {"hoodie.clustering.updates.strategy": "org.apache.hudi.client.clustering.update.strategy."
              "SparkRejectUpdateStrategy"}  # fmt: skip
    with client(path, reject) as c:
        planned = c.schedule_clustering()
        with pytest.raises(HoodieClusteringUpdateException, match=planned):
            c.upsert(rows(("a", "x", 2)))
    # The plan says so to other writers, too.
    with client(path) as c, pytest.raises(HoodieClusteringUpdateException, match=planned):
        c.upsert(rows(("a", "x", 2)))


@every_version
@EVERY_MODE
def test_allowed_updates_roll_plans_back(path: str, mode: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    as_of_hudi(monkeypatch)
    planned = scheduled(path)
    allow = {"hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy", **mode}
    with client(path, allow) as c, pytest.raises(HoodieConfigException, match=r"on\.conflict=true"):
        c.upsert(rows(("a", "x", 2)))
    check(path, STORED)
    with client(path, {**allow, "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true"}) as c:
        c.upsert(rows(("b", "x", 2)))
    assert pending(path) == []
    timeline = HoodieTableMetaClient.load(path).active_timeline
    assert len(timeline.filter_actions(Action.ROLLBACK).after(planned)) == 1
    check(path, {**STORED, ("b", "x"): 2})


def test_a_strategy_that_hudi_does_not_have(path: str) -> None:
    scheduled(path)
    with (
        client(path, {"hoodie.clustering.updates.strategy": "com.example.Mine"}) as c,
        pytest.raises(HoodieConfigException, match="SparkRejectUpdateStrategy, SparkAllowUpdateStrategy"),
    ):
        c.upsert(rows(("a", "x", 2)))


# --- clusterings that are being carried out -----------------------------------------------------------------------


@every_version
@every_type
@EVERY_MODE
def test_a_write_beside_a_running_clustering_wins(
    path: str, mode: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write() -> None:
        with client(path, mode) as other:
            other.upsert(rows(("a", "x", 2)))

    while_running(monkeypatch, write)
    with client(path, mode) as c:
        result = c.cluster()
    assert result is not None
    assert {status.partition_path for status in result} == {"y"}
    check(path, {**STORED, ("a", "x"): 2})
    assert (files(path, "x"), files(path, "y")) == (2, 1)
    with client(path, mode) as c:
        c.upsert(rows(("a", "x", 3), ("c", "y", 3)))
    check(path, {**STORED, ("a", "x"): 3, ("c", "y"): 3})


@every_version
@every_type
def test_a_write_that_is_pending_wins(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand = {**OCC, "hoodie.auto.commit": "false"}
    other = client(path, by_hand)
    begun: list[Any] = []

    def write() -> None:
        instant_time = other.start_commit()
        begun.append((instant_time, other.upsert(rows(("a", "x", 2)), instant_time)))

    while_running(monkeypatch, write)
    with client(path, OCC) as c:
        result = c.cluster()
    assert result is not None
    assert {status.partition_path for status in result} == {"y"}
    [(instant_time, written)] = begun
    assert other.commit(instant_time, written)
    other.close()
    check(path, {**STORED, ("a", "x"): 2})


@every_type
@EVERY_MODE
def test_a_clustering_of_which_nothing_is_left_is_given_up(
    path: str, mode: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write() -> None:
        with client(path, mode) as other:
            other.upsert(rows(("a", "x", 2), ("d", "y", 2)))

    while_running(monkeypatch, write)
    with client(path, mode) as c:
        assert c.cluster() is None
    assert pending(path) == []
    check(path, {**STORED, ("a", "x"): 2, ("d", "y"): 2})
    assert len(list(Path(path).rglob("*/*.parquet"))) <= 6 + len(list((Path(path) / ".hoodie").rglob("*.parquet")))


def between(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Do something once, after a write has looked its keys up and before it announces what it changes."""
    save, calls = BaseCommitActionExecutor._save_workload_profile, [work]

    def saved(self: Any, *arguments: Any) -> None:
        while calls:
            calls.pop()()
        save(self, *arguments)

    monkeypatch.setattr(BaseCommitActionExecutor, "_save_workload_profile", saved)


@every_version
@every_type
@EVERY_MODE
def test_a_clustering_that_is_completed_during_a_write_is_a_conflict(
    path: str, mode: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = scheduled(path)

    def cluster() -> None:
        with client(path, mode) as other:
            assert other.cluster(planned) is not None

    between(monkeypatch, cluster)
    with client(path, mode) as c:
        with pytest.raises(HoodieWriteConflictException, match=planned) as caught:
            c.upsert(rows(("a", "x", 2)))
        assert caught.value.is_retry_safe
        check(path, STORED)
        c.upsert(rows(("a", "x", 2)))
    check(path, {**STORED, ("a", "x"): 2})


@every_type
@EVERY_MODE
def test_a_clustering_of_other_file_groups_is_no_conflict(
    path: str, mode: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_y = {"hoodie.clustering.plan.strategy.partition.selected": "y"}
    planned = scheduled(path, **of_y)

    def cluster() -> None:
        with client(path, mode) as other:
            assert other.cluster(planned) is not None

    between(monkeypatch, cluster)
    with client(path, mode) as c:
        c.upsert(rows(("a", "x", 2)))
    check(path, {**STORED, ("a", "x"): 2})
    assert files(path, "y") == 1


@EVERY_MODE
def test_a_clustering_that_another_engine_carries_out_wins(path: str, mode: dict[str, str]) -> None:
    planned = scheduled(path)
    timeline = HoodieTableMetaClient.load(path).active_timeline
    [action] = {one.action for one in timeline.filter_actions(*CLUSTERING_ACTIONS).filter_pending()}
    assert timeline.transition_requested_to_inflight(planned, action)
    with client(path, mode) as c, pytest.raises(HoodieWriteConflictException, match="another engine"):
        c.upsert(rows(("a", "x", 2)))
    check(path, STORED)


@every_version
def test_the_plan_of_a_dead_process_is_withdrawn(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = scheduled(path)

    class Killed(BaseException):
        pass

    def die(*_: Any) -> int:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(run, "reconcile_with_markers", die)
        with client(path) as c, pytest.raises(Killed):
            c.cluster(planned)
    make_older(Path(path, ".hoodie", ".heartbeat").iterdir(), 100_000)
    with client(path) as c:
        c.upsert(rows(("a", "x", 2)))
    assert pending(path) == []
    check(path, {**STORED, ("a", "x"): 2})
    assert not [file for file in Path(path).glob("[xy]/*.parquet") if planned in file.name]


# --- other services -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ"])
@every_version
def test_compactions_and_clusterings_leave_each_other_their_file_groups(path: str) -> None:
    with client(path) as c:
        c.upsert(rows(("a", "x", 2)))
    planned = scheduled(path, **{"hoodie.clustering.plan.strategy.partition.selected": "x"})
    with client(path) as c:
        assert c.schedule_compaction() is None
        c.cluster(planned)
        c.upsert(rows(("c", "y", 2)))
        compaction = c.schedule_compaction()
        assert compaction is not None
        of_both = c.schedule_clustering()
        assert of_both is not None
        c.compact(compaction)
        c.cluster(of_both)
    check(path, {**STORED, ("a", "x"): 2, ("c", "y"): 2})
    assert files(path, "y") == 2


@every_version
def test_plans_of_dead_processes_expire_on_request(path: str) -> None:
    planned = scheduled(path)
    lazy = {"hoodie.cleaner.policy.failed.writes": "LAZY", "hoodie.clustering.expiration.threshold.mins": "0"}
    with client(path, lazy) as c:
        c.clean()
    assert pending(path) == [planned]
    with client(path, {**lazy, "hoodie.clustering.enable.expirations": "true"}) as c:
        c.clean()
    assert pending(path) == []
    check(path, STORED)


@every_version
def test_a_clustering_stays_in_the_timeline_as_long_as_a_later_commit_names_files_that_it_replaced(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = scheduled(path)

    class Killed(BaseException):
        pass

    def die(*_: Any) -> int:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(run, "reconcile_with_markers", die)
        with client(path) as c, pytest.raises(Killed):
            c.cluster(planned)
    # Its heartbeat is fresh: the write goes on beside it, and the plan stays.
    with client(path) as c:
        later = c.upsert(rows(("a", "x", 2))).instant_time
    make_older(Path(path, ".hoodie", ".heartbeat").iterdir(), 100_000)
    with client(path) as c:
        assert c.cluster(planned) is not None
        for number in range(3, 7):
            c.upsert(rows(("c", "y", number)))
    with client(path, {"hoodie.cleaner.commits.retained": "1"}) as c:
        c.clean()
    seen = set()
    for least in range(2, 8):
        kept = {"hoodie.keep.min.commits": least, "hoodie.keep.max.commits": least + 1, **RETAINED}
        config = hoodie.HoodieWriteConfig.from_properties(path, {**QUIET, **kept})
        due = {
            one.requested_time for one in HoodieTimelineArchiver(config, TableSnapshot.load(path)).instants_to_archive()
        }
        assert planned not in due or later in due
        seen |= due
    assert {planned, later} <= seen
    check(path, {**STORED, ("a", "x"): 2, ("c", "y"): 6})
