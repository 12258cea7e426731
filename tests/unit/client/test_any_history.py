"""Random histories of writes, services and ways back; some steps die at a random call. A table is as a list of dicts.

Those with all services also cluster, compact log files and let partitions expire, at times that move on by days. Of
them every query at every time is compared with the model: the newest rows, base files alone, time travel to each
instant, and the changes since each.

`make soak` runs more seeds. A seed that fails is printed with the steps that led there.
"""

from __future__ import annotations

import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.model.commit_metadata import HoodieReplaceCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import earlier_moment
from hoodie.exception import (
    HoodieDeleteException,
    HoodieException,
    HoodieRestoreException,
    HoodieRollbackException,
    HoodieSavepointException,
)
from hoodie.table.action.restore.restore_action_executor import pending_restore, read_restore_plan
from tests.support.clustered_table import INDEXED, clusterings, latest_slices
from tests.support.hookable_storage import Faults, run_with_faults
from tests.support.model import TableModel, read_model
from tests.support.moved_clock import now_is
from tests.support.table_builder import init_table, local_client, read_rows
from tests.support.table_builder import rows as rows_to_write
from tests.support.table_invariants import check_table

pytestmark = pytest.mark.usefixtures("splices_small_files")

Row = tuple[str, str, int]
KEYS = {f"k{number}": "xyz"[number % 3] for number in range(6)}
STEPS = 20
STEPS_WITH_ALL = 30
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
LOG_COMPACTIONS = {"log_compact": 6, "schedule_log_compaction": 3}
EXPIRIES = {"expire": 4}
SERVICE_FIRST = ("compaction first", "clustering with", "log compaction")
WITH_ALL = {
    "upsert": 20,
    "delete": 4,
    "insert_overwrite": 1,
    "insert_overwrite_table": 0.5,
    "delete_partitions": 0.5,
    "restore": 1.5,
    "savepoint": 1.5,
    "clean": 3,
    "archive": 3,
}
"""Histories with all services replace less, so that log files come together and partitions grow old."""
CLUSTERED_SEEDS = 3
ALL_SEEDS = 2
START = datetime(2026, 3, 18, 11, tzinfo=UTC)
"""Of histories with all services; in many of them clocks change on the way."""
HALF_A_STEP = timedelta(hours=16.8)
"""No sum of these is close to a whole number of days below seven, so ages are told without doubt."""
GONE = ("cleaned", "archived", "is pending, and the range ends")
"""Words of errors about times that cannot be read any more."""


@attrs.frozen
class Commit:
    """A completed commit.

    Attributes:
        time: The requested time.
        end: The time after which a range of changes begins that is to have none of it.
        rows: The rows of the table after it.
        ts: The value that its rows have, and no others; None for one that wrote no rows of its own.
        written: The partitions to which it wrote.
        moment: When it was completed.
    """

    time: str
    end: str
    rows: TableModel
    ts: int | None = None
    written: frozenset[str] = frozenset()
    moment: datetime | None = None


@pytest.fixture(autouse=True)
def _quiet(faulty_storage: None) -> Iterator[None]:
    """Every second step warns of what it finds."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


class RandomHistory:
    """One table and what it must be."""

    def __init__(
        self,
        base_path: Path,
        seed: int,
        table_type: str = "COPY_ON_WRITE",
        has_clusterings: bool = False,
        has_all: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self.path = base_path
        self.table_type = table_type
        self.has_all = has_all
        self.commits: list[Commit] = []
        """Completed commits that nobody undid."""
        self.log: list[str] = []
        self.seen: Counter[str] = Counter()
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
        self.weights: dict[str, float] = dict(WEIGHTS)
        self.steps, self.share_of_deaths = STEPS, SHARE_OF_DEATHS
        if table_type == "MERGE_ON_READ":
            self.weights |= COMPACTIONS
            self.properties["hoodie.compact.inline.max.delta.commits"] = choice([1, 3])
        if has_clusterings or has_all:
            self.weights |= CLUSTERINGS
            self.properties |= {
                "hoodie.clustering.inline": choice(["true", "false"]),
                "hoodie.clustering.inline.max.commits": choice([2, 4]),
                "hoodie.clustering.plan.strategy.sort.columns": choice(["", "ts"]),
                "hoodie.clustering.plan.strategy.max.num.groups": choice([1, 30]),
                "hoodie.clustering.plan.strategy.target.file.max.bytes": choice([1, 1 << 30]),
            }
        if has_all:
            self._ahead = START - datetime.now(UTC)
            self.has_cleaned = False
            self.days = choice([2, 3, 6])
            self.weights |= WITH_ALL | EXPIRIES
            self.steps, self.share_of_deaths = STEPS_WITH_ALL, SHARE_OF_DEATHS / 2
            self.properties |= {
                "hoodie.partition.ttl.inline": choice(["true", "false"]),
                "hoodie.partition.ttl.strategy.days.retain": self.days,
                **choice([{}, INDEXED, INDEXED | {"hoodie.index.type": "RECORD_INDEX"}]),
            }
            if table_type == "MERGE_ON_READ":
                # The others leave little to log compactions.
                self.weights |= {"compact": 2, "cluster": 2} | LOG_COMPACTIONS
                self.properties |= {
                    "hoodie.log.compaction.inline": choice(["true", "false"]),
                    "hoodie.log.compaction.blocks.threshold": choice([1, 2]),
                }
        init_table(base_path, table_type=table_type)

    @property
    def model(self) -> TableModel:
        return self.commits[-1].rows if self.commits else TableModel()

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
        if not self.has_all:
            return self._step()
        self._ahead += HALF_A_STEP * self.random.choice([0, 0, 1, 1, 2, 3])
        with now_is(datetime.now(UTC) + self._ahead):
            self._step()
            self.check_queries(is_last=len(self.log) == self.steps)
            self.check_ages()
        return None

    def _step(self) -> None:
        self._ts += 1
        name = self.random.choices(list(self.weights), list(self.weights.values()))[0]
        self.log.append(name)
        self._written: set[str] = set()
        work, after = self.work(name)
        before = self.model
        faults = Faults()
        if self.random.random() < self.share_of_deaths:
            faults = Faults(self.random.randint(1, 70), self.random.choice(["before", "after"]))
        error = run_with_faults(faults, work)
        if error is not None:
            self.log[-1] += f": {error}"
            if faults.fired:
                self.deaths += 1
            elif not any(f"Run the {service}" in str(error) for service in SERVICE_FIRST):
                # File groups in a pending compaction are not replaced, and partitions with those in a clustering stay.
                allowed = (HoodieRollbackException, HoodieRestoreException, HoodieSavepointException)
                # A run that would delete too much is refused; `check_ages` says when.
                assert isinstance(error, (*allowed, HoodieDeleteException) if name == "expire" else allowed), error
                assert name != "restore" or not self.is_saved, f"the way back to the newest savepoint is gone: {error}"
        seen = read_model(self.path)
        if name != "restore":
            assert seen in (before, after, *(after.delete_partitions(paths) for _, paths in self.expired()))
        else:
            assert seen in [{}, *(commit.rows for commit in self.commits)]
        self.recover()
        self.follow(after, name)
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
                self._written.update(row[1] for row in rows)
                client = self.client(**SERVICES) if name != "upsert" else client
                return lambda: client.upsert(rows_to_write(*rows)), model.upsert(rows)
            case "delete":
                rows = self.rows(2)
                self._written.update(row[1] for row in rows if row[0] in model)
                return lambda: client.delete([HoodieKey(row[0], row[1]) for row in rows]), model.delete(rows)
            case "insert_overwrite":
                rows = self.rows(self.random.randint(1, 2))
                self._written.update(row[1] for row in rows)
                return lambda: client.insert_overwrite(rows_to_write(*rows)), model.insert_overwrite(rows)
            case "insert_overwrite_table":
                rows = self.rows(self.random.randint(1, 4))
                self._written.update(row[1] for row in rows)
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
            case "log_compact":
                return client.log_compact, model
            case "schedule_log_compaction":
                return client.schedule_log_compaction, model
            case "expire":
                return client.expire_partitions, model
            case "savepoint":
                return lambda: client.savepoint(target), model
            case "delete_savepoint":
                chosen = choice(saved) if saved else "20200101000000000"
                return lambda: client.delete_savepoint(chosen), model
            case "rollback":
                undone = self.commits[-2].rows if len(self.commits) > 1 else TableModel()
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

    def expired(self) -> list[tuple[str, frozenset[str]]]:
        """The expiries that are newer than what is known, and the partitions that each deleted."""
        last = self.commits[-1].time if self.commits else ""
        timeline = self.timeline()
        found = []
        for instant in timeline.filter_actions(Action.REPLACE_COMMIT).filter_completed_instants():
            metadata = timeline.read_commit_metadata(instant)
            assert isinstance(metadata, HoodieReplaceCommitMetadata)
            is_by_hand = self.log[-1].startswith("delete_partitions")
            if instant.requested_time > last and metadata.operation_type is WriteOperationType.DELETE_PARTITION:
                found.append((instant.requested_time, frozenset(metadata.partition_to_replace_file_ids)))
        return found[1:] if found and is_by_hand else found

    def follow(self, after: TableModel, name: str) -> None:
        """Take over what the timeline says was done or undone: at its end only."""
        timeline = self.timeline()
        active = list(timeline.commits_timeline().filter_completed_instants())
        while self.commits and active and self.commits[-1].time > active[-1].requested_time:
            self.commits.pop()
        if not active:
            self.commits.clear()
        # A service may be the newest commit then, which was not the newest when it was completed. A clustering of the
        # same step was planned before its write, and then has the rows before it, or after it.
        last = self.commits[-1].time if self.commits else ""
        expired = dict(self.expired())
        for instant in active:
            time, metadata = instant.requested_time, timeline.read_commit_metadata(instant)
            if time <= last:
                continue
            if metadata.only_rewrites:
                self.commits.append(Commit(time, self._end(instant), self.model))
            elif time in expired:
                self.check_expired(expired[time])
                self.commits.append(
                    Commit(time, self._end(instant), self.model.delete_partitions(expired[time]), moment=self.now())
                )
            else:
                assert name not in ("restore", "rollback"), instant
                written = frozenset(path for path, stats in metadata.partition_to_write_stats.items() if stats)
                # A row that is deleted again is not always known to be gone.
                assert written >= self._written, instant
                assert written == self._written or name == "delete", instant
                self.commits.append(Commit(time, self._end(instant), after, self._ts, written, self.now()))
            self.seen[f"{metadata.operation_type}"] += 1

    # --- what holds of histories with all services ----------------------------------------------------------------

    def now(self) -> datetime | None:
        return datetime.now(UTC) + self._ahead if self.has_all else None

    def _end(self, instant: HoodieInstant) -> str:
        return instant.newest_time if self.timeline().layout.has_completion_times else instant.requested_time

    def _last_writes(self) -> dict[str, datetime]:
        found: dict[str, datetime] = {}
        for commit in self.commits:
            if commit.moment is not None:
                found |= dict.fromkeys(commit.written, commit.moment)
        return found

    def check_expired(self, paths: frozenset[str]) -> None:
        """What is gone was old, and what was written last is still there."""
        last = self._last_writes()
        now = self.now()
        assert now is not None
        assert all(now - last[path] > timedelta(days=self.days) for path in paths), (paths, last)
        assert max(last.values()) not in [last[path] for path in paths]
        self.seen["expired"] += len(paths)

    def check_ages(self) -> None:
        """A dry run names the partitions that are too old, all of them, and what it refuses."""
        table = HoodieTableMetaClient.load(str(self.path))
        newest = max((one.newest_time for one in table.active_timeline.filter_completed_instants()), default=None)
        with self.client() as client:
            found = client.expire_partitions(dry_run=True)
        if newest is None:
            assert not found.partitions
            return
        view = table.view()
        last = {path: moment for path, moment in self._last_writes().items() if view.latest_file_slices(path)}
        assert found.reference_time == newest
        reference = earlier_moment(table.active_timeline.clock(), newest, table.active_timeline.timezone)
        old = {path for path, moment in last.items() if reference - moment > timedelta(days=self.days)}
        assert {*found.partition_paths, *(one.partition_path for one in found.kept)} == old, (found, last, reference)
        is_refused = bool(old) and (len(old) == len(last) or max(last, key=last.__getitem__) in old)
        assert (found.refusal is not None) is is_refused, (found, last)
        self.seen["told old"] += len(old)

    def check_queries(self, is_last: bool) -> None:
        """Every query at every completed instant of the timeline; on the way, at two of them."""
        timeline = self.timeline()
        completed = [one for one in timeline.commits_timeline().filter_completed_instants()]
        self._check_newest()
        saved = {one.requested_time for one in timeline.filter_actions(Action.SAVEPOINT).filter_completed_instants()}
        self.has_cleaned |= bool(timeline.filter_actions(Action.CLEAN).filter_completed_instants())
        ends = {one.requested_time: self._end(one) for one in completed}
        for time in ends if is_last else self.random.sample(sorted(ends), min(2, len(ends))):
            rows = self.rows_at(time)
            try:
                assert read_model(self.path, as_of=time) == rows, f"as of {time}"
                self.seen["as of"] += 1
            except HoodieException as error:
                self.seen["gone"] += 1
                assert self.has_cleaned and time not in saved and any(word in str(error) for word in GONE), error
            written = {commit.ts: commit.end for commit in self.commits}
            changed = TableModel(row for row in self.model.values() if written[row[2]] > ends[time])
            found = read_model(self.path, query_type="incremental", begin=ends[time])
            assert found == changed, f"since {time}"
            self.seen["since"] += 1

    def rows_at(self, time: str) -> TableModel:
        """The rows of the table when an instant was requested, with what that instant wrote."""
        return next((commit.rows for commit in reversed(self.commits) if commit.time <= time), TableModel())

    def _check_newest(self) -> None:
        """Rows keep the times of their commits; base files hold the rows of the moment for which they were made."""
        columns = ("id", "region", "ts", "_hoodie_commit_time", "_hoodie_file_name")
        if not self.timeline().commits_timeline().filter_completed_instants():
            return
        newest = read_rows(self.path, columns)
        times = {commit.ts: commit.time for commit in self.commits}
        assert all(time == times[ts] for _, _, ts, time, _ in newest), (newest, times)
        optimized = read_rows(self.path, columns, query_type="read_optimized")
        bases = {part.file_id: part.base_instant_time for part in latest_slices(self.path) if part.base_file}
        if self.table_type == "COPY_ON_WRITE":
            assert optimized == newest
        for key, region, ts, time, name in optimized:
            base = parse_base_file_name(name)
            assert base is not None
            assert bases[base.file_id] == base.instant_time
            assert self.rows_at(base.instant_time)[key] == (key, region, ts)
            assert time == times[ts]
        # A key that a log file deleted, and that came back in another file group, is there twice.
        in_files = {(row[0], file_id_of(row[4])): row[:3] for row in optimized}
        for key, _, _, _, name in newest:
            file_id = file_id_of(name)
            of_then = self.rows_at(bases[file_id]).get(key) if file_id in bases else None
            assert in_files.get((key, file_id)) == of_then, (key, name, of_then)


def file_id_of(file_name: str) -> str:
    """The file group of a base file or log file."""
    base, log = parse_base_file_name(file_name), parse_log_file_name(file_name)
    found = base or log
    # A row of a log file may name its file group alone.
    return file_name if found is None else found.file_id


def live(
    base_path: Path,
    seed: int,
    table_type: str = "COPY_ON_WRITE",
    has_clusterings: bool = False,
    has_all: bool = False,
) -> RandomHistory:
    history = RandomHistory(base_path, seed, table_type, has_clusterings, has_all)
    try:
        for _ in range(history.steps):
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


@pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("seed", range(ALL_SEEDS))
def test_any_history_with_all_services_is_a_list_of_dicts_at_every_time(
    tmp_path: Path, seed: int, table_version: int, table_type: str
) -> None:
    history = live(tmp_path / "t", 10 * seed + table_version, table_type, has_all=True)
    print(dict(history.seen))
    assert history.seen["since"] > STEPS


@pytest.mark.soak
@pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_fifty_histories_with_all_services(tmp_path: Path, table_version: int, table_type: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(1000, 1000 + SOAK_SEEDS // 8):
        seen += live(tmp_path / f"t{seed}", 10 * seed + table_version, table_type, has_all=True).seen
    print(dict(seen))
    assert seen["expired"] > 10


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
