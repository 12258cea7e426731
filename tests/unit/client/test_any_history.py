"""Random histories of writes, services and ways back; some steps die at a random call. A table is as a list of dicts.

`make soak` runs more seeds. A seed that fails is printed with the steps that led there.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieRestoreException, HoodieRollbackException, HoodieSavepointException
from hoodie.table.action.restore.restore_action_executor import pending_restore, read_restore_plan
from tests.support.clustered_table import clusterings
from tests.support.hookable_storage import Faults, run_with_faults
from tests.support.model import TableModel, read_model
from tests.support.table_builder import init_table, local_client
from tests.support.table_builder import rows as rows_to_write
from tests.support.table_invariants import check_table

pytestmark = pytest.mark.usefixtures("splices_small_files")

Row = tuple[str, str, int]
KEYS = {f"k{number}": "xyz"[number % 3] for number in range(6)}
STEPS = 20
SEEDS = 6
SOAK_SEEDS = 400
SHARE_OF_DEATHS = 0.35
SERVICES = {"hoodie.clean.automatic": "true", "hoodie.archive.automatic": "true"}
SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
}
WEIGHTS = {
    "upsert": 8,
    "upsert_with_services": 3,
    "delete": 2,
    "insert_overwrite": 2,
    "insert_overwrite_table": 1,
    "delete_partitions": 1,
    "clean": 4,
    "archive": 4,
    "savepoint": 2,
    "delete_savepoint": 2,
    "rollback": 2,
    "restore": 2,
    "fail": 2,
}

COMPACTIONS = {"compact": 5, "schedule_compaction": 2}
CLUSTERINGS = {"cluster": 5, "schedule_clustering": 3}
CLUSTERED_SEEDS = 3


@pytest.fixture(autouse=True)
def _quiet(faulty_storage: None) -> Iterator[None]:
    """Every second step warns of what it finds."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


class RandomHistory:
    """One table and what it must be."""

    def __init__(
        self, base_path: Path, seed: int, table_type: str = "COPY_ON_WRITE", has_clusterings: bool = False
    ) -> None:
        self.random = random.Random(seed)
        self.path = base_path
        self.commits: list[tuple[str, TableModel]] = []
        """Completed commits that nobody undid, and the rows after each."""
        self.log: list[str] = []
        self.deaths = 0
        self.is_saved = False
        """Whether the step goes back to the newest savepoint."""
        self._ts = 0
        choice = self.random.choice
        self.properties: dict[str, Any] = {
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.cleaner.policy": choice(["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"]),
            "hoodie.cleaner.commits.retained": choice([1, 2, 6]),
            "hoodie.cleaner.fileversions.retained": choice([1, 2]),
            "hoodie.keep.min.commits": choice([1, 2, 3, 4]),
            "hoodie.keep.max.commits": 5,
            "hoodie.archive.beyond.savepoint": choice(["true", "false"]),
            "hoodie.archive.merge.enable": choice(["true", "false"]),
            "hoodie.archive.merge.files.batch.size": 2,
            "hoodie.index.type": choice(["SIMPLE", "BLOOM", "INMEMORY"]),
            "hoodie.parquet.small.file.limit": choice([0, 1 << 20]),
            **choice([{}, {}, SEVERAL]),
        }
        self.weights = WEIGHTS
        if table_type == "MERGE_ON_READ":
            self.weights = WEIGHTS | COMPACTIONS
            self.properties["hoodie.compact.inline.max.delta.commits"] = choice([1, 3])
        if has_clusterings:
            self.weights = self.weights | CLUSTERINGS
            self.properties |= {
                "hoodie.clustering.inline": choice(["true", "false"]),
                "hoodie.clustering.inline.max.commits": choice([2, 4]),
                "hoodie.clustering.plan.strategy.sort.columns": choice(["", "ts"]),
                "hoodie.clustering.plan.strategy.max.num.groups": choice([1, 30]),
                "hoodie.clustering.plan.strategy.target.file.max.bytes": choice([1, 1 << 30]),
            }
        init_table(base_path, table_type=table_type)

    @property
    def model(self) -> TableModel:
        return self.commits[-1][1] if self.commits else TableModel()

    def client(self, **more: str) -> HoodieLocalWriteClient:
        self._client = local_client(self.path, {**self.properties, **more}, parallelism=1)
        return self._client

    def timeline(self) -> HoodieActiveTimeline:
        return HoodieTableMetaClient.load(str(self.path)).active_timeline

    def active(self) -> list[str]:
        return [i.requested_time for i in self.timeline().commits_timeline().filter_completed_instants()]

    def rows(self, count: int) -> list[Row]:
        return [(key, KEYS[key], self._ts) for key in self.random.sample(sorted(KEYS), count)]

    def step(self) -> None:
        """Do one thing, perhaps dying of it; look, recover, and look again."""
        self._ts += 1
        name = self.random.choices(list(self.weights), list(self.weights.values()))[0]
        self.log.append(name)
        work, after = self.work(name)
        before = self.model
        faults = Faults()
        if self.random.random() < SHARE_OF_DEATHS:
            faults = Faults(self.random.randint(1, 70), self.random.choice(["before", "after"]))
        error = run_with_faults(faults, work)
        if error is not None:
            self.log[-1] += f": {error}"
            if faults.fired:
                self.deaths += 1
            elif "Run the compaction first" not in str(error) and "Run the clustering with" not in str(error):
                # File groups in a pending compaction are not replaced, and partitions with those in a clustering stay.
                assert isinstance(error, HoodieRollbackException | HoodieRestoreException | HoodieSavepointException), (
                    error
                )
                assert name != "restore" or not self.is_saved, f"the way back to the newest savepoint is gone: {error}"
        seen = read_model(self.path)
        if name != "restore":
            assert seen in (before, after)
        else:
            assert seen in [{}, *(rows for _, rows in self.commits)]
        self.recover()
        self.follow(after, name in ("restore", "rollback"))
        check_table(self.path, self.model, was_cleaned=True)

    def work(self, name: str) -> tuple[Callable[[], Any], TableModel]:
        """What is done, and the rows after it."""
        client, model, choice = self.client(), self.model, self.random.choice
        active = self.active()
        target = choice(active) if active else ""
        saved = [savepoint.requested_time for savepoint in self.timeline().filter_actions(Action.SAVEPOINT)]
        if saved and choice([True, False]):
            target = saved[-1]
        # One that is not completed holds its files, and is no place to go back to; nor is one that is half deleted.
        completed = self.timeline().filter_actions(Action.SAVEPOINT).filter_completed_instants()
        self.is_saved = target in active and completed.contains(target) and target == saved[-1]
        match name:
            case "upsert" | "upsert_with_services":
                rows = self.rows(self.random.randint(1, 3))
                client = self.client(**SERVICES) if name != "upsert" else client
                return lambda: client.upsert(rows_to_write(*rows)), model.upsert(rows)
            case "delete":
                rows = self.rows(2)
                return lambda: client.delete([HoodieKey(row[0], row[1]) for row in rows]), model.delete(rows)
            case "insert_overwrite":
                rows = self.rows(self.random.randint(1, 2))
                return lambda: client.insert_overwrite(rows_to_write(*rows)), model.insert_overwrite(rows)
            case "insert_overwrite_table":
                rows = self.rows(self.random.randint(1, 4))
                after = model.insert_overwrite_table(rows)
                return lambda: client.insert_overwrite_table(rows_to_write(*rows)), after
            case "delete_partitions":
                region = choice("xyz")
                return lambda: client.delete_partitions([region]), model.delete_partitions([region])
            case "clean":
                return client.clean, model
            case "archive":
                return client.archive, model
            case "compact":
                return client.compact, model
            case "schedule_compaction":
                return client.schedule_compaction, model
            case "cluster":
                return client.cluster, model
            case "schedule_clustering":
                return client.schedule_clustering, model
            case "savepoint":
                return lambda: client.savepoint(target), model
            case "delete_savepoint":
                chosen = choice(saved) if saved else "20200101000000000"
                return lambda: client.delete_savepoint(chosen), model
            case "rollback":
                undone = self.commits[-2][1] if len(self.commits) > 1 else TableModel()
                return lambda: client.rollback(active[-1] if active else "20200101000000000"), undone
            case "restore":
                return lambda: client.restore_to_instant(target), model
            case _:
                rows, operation = self.rows(2), choice(["upsert", "insert_overwrite"])
                failing = self.client(**{"hoodie.auto.commit": "false"})
                return lambda: getattr(failing, operation)(rows_to_write(*rows)), model

    def recover(self) -> None:
        """What another writer does who finds the table so."""
        for heartbeat in self._client._heartbeats._heartbeats.values():
            heartbeat.stopped.set()
        heartbeats = self.path / ".hoodie" / ".heartbeat"
        for file in heartbeats.iterdir() if heartbeats.exists() else ():
            os.utime(file, (1, 1))
        timeline = self.timeline()
        restore = pending_restore(timeline)
        with self.client() as client:
            if restore is not None:
                client.restore_to_instant(read_restore_plan(timeline, restore.requested_time).restored_to)
            client.rollback_failed_writes()

    def follow(self, after: TableModel, is_way_back: bool = False) -> None:
        """Take over what the timeline says was done or undone: at its end only."""
        active = self.active()
        while self.commits and active and self.commits[-1][0] > active[-1]:
            self.commits.pop()
        if not active:
            self.commits.clear()
        else:
            # A service may be the newest commit then, which was not the newest when it was completed. A clustering of
            # the same step was planned before its write, and then has the rows before it, or after it.
            last = self.commits[-1][0] if self.commits else ""
            before, services = self.model, clusterings(self.path)
            written = [time for time in active if time > last and time not in services]
            self.commits += [
                (time, before if is_way_back or (written and time < written[0]) else after)
                for time in active
                if time > last
            ]


def live(base_path: Path, seed: int, table_type: str = "COPY_ON_WRITE", has_clusterings: bool = False) -> RandomHistory:
    history = RandomHistory(base_path, seed, table_type, has_clusterings)
    try:
        for _ in range(STEPS):
            history.step()
    except Exception as error:
        error.add_note(f"seed {seed}, step {len(history.log)}: {history.log[-12:]}, {history.properties}")
        raise
    return history


@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_history_is_a_list_of_dicts(tmp_path: Path, seed: int) -> None:
    history = live(tmp_path / "t", seed)
    print(f"seed {seed}: {len(history.commits)} commits stand, {history.deaths} of {STEPS} steps died")
    assert history.commits


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_history_of_a_merge_on_read_table_is_a_list_of_dicts(tmp_path: Path, seed: int, table_version: int) -> None:
    history = live(tmp_path / "t", seed, "MERGE_ON_READ")
    assert history.commits


@pytest.mark.parametrize(
    ("table_version", "table_type"),
    [(9, "COPY_ON_WRITE"), (9, "MERGE_ON_READ"), (6, "COPY_ON_WRITE"), (6, "MERGE_ON_READ")],
    indirect=["table_version"],
)
@pytest.mark.parametrize("seed", range(CLUSTERED_SEEDS))
def test_any_history_with_clusterings_is_a_list_of_dicts(
    tmp_path: Path, seed: int, table_version: int, table_type: str
) -> None:
    history = live(tmp_path / "t", seed, table_type, has_clusterings=True)
    assert history.commits


@pytest.mark.soak
@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_two_hundred_histories_with_clusterings(tmp_path: Path, table_version: int, table_type: str) -> None:
    done = 0
    for seed in range(SOAK_SEEDS // 2):
        done += len(clusterings(live(tmp_path / f"t{seed}", seed, table_type, has_clusterings=True).path))
    assert done > SOAK_SEEDS // 4


@pytest.mark.soak
def test_four_hundred_histories(tmp_path: Path) -> None:
    deaths = 0
    for seed in range(SEEDS, SEEDS + SOAK_SEEDS):
        deaths += live(tmp_path / f"t{seed}", seed).deaths
    print(f"{SOAK_SEEDS} histories of {STEPS} steps, {deaths} deaths")
    assert deaths > SOAK_SEEDS
