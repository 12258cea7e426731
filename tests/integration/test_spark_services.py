"""Table services, ways back and several writers with the Spark client."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import hoodie.spark
import hoodie.table.action.clean.clean_planner as clean_planner
from hoodie import HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieWriteConflictException
from hoodie.storage.local_storage import LocalStorage
from tests.support.hookable_storage import Faults, faults_of, run_with_faults, use_for_local_files
from tests.support.table_builder import init_table, local_client, spark_rows
from tests.support.table_invariants import check_table

pytestmark = pytest.mark.spark
SERVICES = {
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
}
SEED = 6
FAULT_COUNT = 12


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    init_table(path)
    return path


def new_client(spark: SparkSession, base_path: str, properties: dict[str, str]) -> SparkRDDWriteClient:
    return SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path, properties))


def local_upsert(base_path: str, properties: dict[str, str], *entries: tuple[str, str, int]) -> None:
    table = pa.table({name: [row[i] for row in entries] for i, name in enumerate(("id", "region", "ts"))})
    with local_client(base_path, properties) as client:
        assert client.upsert(table).is_committed


def check(spark: SparkSession, base_path: str, *entries: tuple[str, str, int], was_cleaned: bool = False) -> None:
    """Both readers see the rows, and the table is as every table must be."""
    found = sorted(tuple(row) for row in hoodie.spark.read(spark, base_path).select("id", "region", "ts").collect())
    assert found == sorted(entries)
    model = {row[0]: {"id": row[0], "region": row[1], "ts": row[2]} for row in entries}
    check_table(base_path, model, was_cleaned=was_cleaned)


class NotingStorage(LocalStorage):
    """Local files; which process deletes a data file is written down beside the table."""

    __slots__ = ()

    def delete_file(self, path: str) -> bool:
        if path.endswith(".parquet"):
            with open(f"{self.base_path}.deleted_by", "a") as file:
                file.write(f"{os.getpid()}\n")
        return LocalStorage.delete_file(self, path)


@pytest.mark.parametrize("driver_partitions", [0, 64], ids=["listed_by_tasks", "listed_by_the_driver"])
def test_a_client_cleans_and_archives_after_commits(
    spark: SparkSession, base_path: str, monkeypatch: pytest.MonkeyPatch, driver_partitions: int
) -> None:
    monkeypatch.setattr(clean_planner, "DRIVER_PARTITIONS", driver_partitions)
    use_for_local_files(monkeypatch, NotingStorage)
    with new_client(spark, base_path, SERVICES) as client:
        for ts in range(5):
            assert client.upsert(spark_rows(spark, ("a", "x", ts), ("b", "y", ts))).service_errors == ()
    meta_client = HoodieTableMetaClient.load(base_path)
    assert len(list(Path(base_path).glob("[!.]*/*.parquet"))) == 4
    assert len(meta_client.active_timeline.filter_actions(Action.COMMIT)) == 3
    assert len(meta_client.archived_timeline.filter_actions(Action.COMMIT)) == 2
    check(spark, base_path, ("a", "x", 4), ("b", "y", 4), was_cleaned=True)
    # Files are deleted by tasks, never by the driver.
    deleted_by = Path(f"{base_path}.deleted_by").read_text().splitlines()
    assert len(deleted_by) == 6
    assert str(os.getpid()) not in deleted_by


def test_what_was_overwritten_and_deleted_comes_back_by_rollback_and_restore(
    spark: SparkSession, base_path: str
) -> None:
    first = [("a", "x", 1), ("b", "y", 1), ("c", "z", 1)]
    with new_client(spark, base_path, OFF) as client:
        client.upsert(spark_rows(spark, *first))
        made = client.savepoint(user="ann", comment="before the overwrite")
        overwritten = client.insert_overwrite(spark_rows(spark, ("d", "x", 2)))
        check(spark, base_path, ("d", "x", 2), *first[1:])
        assert client.rollback(overwritten.instant_time)
        check(spark, base_path, *first)
        client.insert_overwrite(spark_rows(spark, ("d", "x", 2)))
        client.delete_partitions(["y"])
        check(spark, base_path, ("d", "x", 2), ("c", "z", 1))
        client.insert_overwrite_table(spark_rows(spark, ("e", "w", 3)))
        check(spark, base_path, ("e", "w", 3))
        assert len(client.restore_to_savepoint(made.instant_time)) == 3
        check(spark, base_path, *first)
        assert client.delete_savepoint(made.instant_time)
        client.upsert(spark_rows(spark, ("a", "x", 9), ("e", "w", 9)))
        check(spark, base_path, ("a", "x", 9), *first[1:], ("e", "w", 9))
        client.restore_to_instant(made.instant_time)
    check(spark, base_path, *first)


def test_of_two_writers_of_a_file_group_the_second_loses_or_writes_again(spark: SparkSession, base_path: str) -> None:
    local_upsert(base_path, SEVERAL, ("a", "x", 1), ("b", "y", 1))
    with new_client(spark, base_path, {**SEVERAL, "hoodie.auto.commit": "false"}) as client:
        kept = client.start_commit()
        result = client.upsert(spark_rows(spark, ("b", "y", 2)), kept)
        local_upsert(base_path, SEVERAL, ("a", "x", 2))
        assert client.commit(kept, result)
        lost = client.start_commit()
        result = client.upsert(spark_rows(spark, ("a", "x", 3)), lost)
        local_upsert(base_path, SEVERAL, ("a", "x", 4))
        with pytest.raises(HoodieWriteConflictException) as caught:
            client.commit(lost, result)
        assert caught.value.instant_time == lost
    assert not list(Path(base_path).rglob(f"*_{lost}.parquet"))
    check(spark, base_path, ("a", "x", 4), ("b", "y", 2))

    others = iter([5, 6])

    def meanwhile(event: hoodie.ProgressEvent) -> None:
        if event.step == "write buckets" and event.state == "started" and (ts := next(others, None)):
            local_upsert(base_path, SEVERAL, ("a", "x", ts), (f"new{ts}", "x", ts))

    again = HoodieWriteConfig.from_properties(base_path, {**SEVERAL, "hoodie.write.lock.wait.retry": "true"})
    with SparkRDDWriteClient(spark, again, on_progress=meanwhile) as client:
        result = client.upsert(spark_rows(spark, ("a", "x", 7), ("new5", "x", 7)))
    assert (result.is_committed, result.inserted_count, result.updated_count) == (True, 0, 2)
    check(spark, base_path, ("a", "x", 7), ("b", "y", 2), ("new5", "x", 7), ("new6", "x", 6))


@pytest.mark.slow
@pytest.mark.usefixtures("faulty_storage")
def test_a_driver_that_dies_at_a_call_of_an_upsert_with_services_leaves_nothing_in_the_way(
    spark: SparkSession, base_path: str
) -> None:
    before = [("a", "x", 1), ("b", "y", 1)]
    after = [("a", "x", 9), ("b", "y", 1), ("c", "z", 9)]
    template = f"{base_path}.template"

    def attempt(faults: Faults) -> BaseException | None:
        if not os.path.exists(template):
            os.rename(base_path, template)
        shutil.rmtree(base_path, ignore_errors=True)
        shutil.copytree(template, base_path)

        def write() -> Any:
            with new_client(spark, base_path, SERVICES) as client:
                return client.upsert(spark_rows(spark, ("a", "x", 9), ("c", "z", 9)))

        return run_with_faults(faults, write)

    for ts in (-2, -1, 0):
        local_upsert(base_path, {**SERVICES, **OFF}, ("a", "x", ts), ("b", "y", ts))
    local_upsert(base_path, {**SERVICES, **OFF}, *before)
    healthy = Faults()
    assert attempt(healthy) is None
    check(spark, base_path, *after, was_cleaned=True)
    assert len(HoodieTableMetaClient.load(base_path).archived_timeline.filter_actions(Action.COMMIT)) > 0
    every = list(faults_of(healthy.calls))
    chosen = sorted(random.Random(SEED).sample(every, FAULT_COUNT))
    print(f"seed {SEED}: {len(chosen)} of {len(every)} failures, {len(healthy.calls)} calls of the driver")
    outcomes = {"kept": 0, "undone": 0}
    for number, how in chosen:
        faults = Faults(number, how)
        error = attempt(faults)
        what = f"call {number} of {len(healthy.calls)}, {how}: {faults.calls[-1][0]}: {error}"
        print(what)
        assert faults.fired, what
        rows_then = hoodie.read_table(base_path, columns=["id", "region", "ts"]).to_pylist()
        found = sorted(tuple(row.values()) for row in rows_then)
        assert found in (before, after), what
        outcomes["kept" if found == after else "undone"] += 1
        # A writer of the other engine goes on; what the dead one left is gone.
        local_upsert(base_path, SERVICES, ("b", "y", 10))
        expected = {row[0]: {"id": row[0], "region": row[1], "ts": row[2]} for row in [*found, ("b", "y", 10)]}
        check_table(base_path, expected, was_cleaned=True)
        timeline = HoodieTableMetaClient.load(base_path).active_timeline
        assert len(timeline.filter_pending()) == 0, what
    assert min(outcomes.values()) > 0
