"""Random histories of merge-on-read tables, of which every time is compared with a model after each step.

After each step the newest rows, time travel to each instant, and ranges of commits are read. They give what the model
holds, or an error that says which files or instants are gone: never other rows. Readers that planned before a step read
after it. hudi-rs reads the newest rows too.
"""

from __future__ import annotations

import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import (
    HoodieException,
    HoodieRestoreException,
    HoodieRollbackException,
    HoodieSavepointException,
    HoodieWriteConflictException,
)
from hoodie.query.arrow_reader import scan
from hoodie.query.read_plan import ReadPlan
from hoodie.table.action.restore.restore_action_executor import pending_restore, read_restore_plan
from tests.support.hookable_storage import Faults, run_with_faults
from tests.support.table_builder import init_table, local_client

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("v", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
REGIONS = "xyz"
KEYS = [(f"k{number}", region) for region in REGIONS for number in range(5)]
SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
WEIGHTS = {
    "upsert": 10,
    "insert": 3,
    "bulk_insert": 1,
    "delete": 3,
    "insert_overwrite": 1,
    "delete_partitions": 1,
    "schedule": 4,
    "compact": 6,
    "clean": 3,
    "archive": 2,
    "savepoint": 1,
    "delete_savepoint": 1,
    "restore": 1,
    "rollback": 1,
    "begin": 2,
    "finish": 3,
}
SERVICES = {"schedule", "compact", "clean", "archive", "savepoint", "delete_savepoint", "restore", "rollback"}
GONE = ("cleaned", "archived", "has undone", "So no instant names", "is pending, and the range ends")
"""Words of errors about times that cannot be read any more."""

FULL_SCAN = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"

Place = tuple[str, str]
Row = tuple[str, str, int, str, str]
"""``id``, ``region``, ``ts``, ``v`` and the commit that wrote it."""
State = dict[Place, Row]
Change = Callable[[State], State]


@attrs.define
class Commit:
    """A completed commit: its times, and what it does."""

    requested: str
    end: str
    change: Change


@attrs.define
class Begun:
    """A write that is not committed yet."""

    client: HoodieLocalWriteClient
    instant: str
    result: HoodieWriteResult
    change: Change
    places: list[tuple[str, str]]


class EveryTime:
    """One table and all that it was."""

    def __init__(self, base_path: Path, seed: int, table_version: int) -> None:
        self.random = rng = random.Random(seed)
        self.path = str(base_path)
        self.version = table_version
        self.by_event_time = rng.random() < 0.6
        self.has_several = rng.random() < 0.5
        self.seen: Counter[str] = Counter()
        self.log: list[str] = []
        self.commits: list[Commit] = []
        self.begun: list[Begun] = []
        self.plans: list[tuple[ReadPlan, list[Row], str]] = []
        self.has_cleaned = False
        self._ts = 0
        index = rng.choice(
            [
                {"hoodie.index.type": "SIMPLE"},
                {"hoodie.index.type": "BLOOM"},
                {"hoodie.index.type": "INMEMORY"},
                {"hoodie.index.type": "INMEMORY", "hoodie.index.inmemory.insert.into.logs": "true"},
                {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
            ]
        )
        self.properties: dict[str, Any] = {
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.cleaner.policy": rng.choice(["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"]),
            "hoodie.cleaner.commits.retained": rng.choice([1, 2, 6]),
            "hoodie.cleaner.fileversions.retained": rng.choice([1, 2]),
            "hoodie.keep.min.commits": rng.choice([2, 4, 7]),
            "hoodie.keep.max.commits": 8,
            "hoodie.archive.beyond.savepoint": rng.choice(["true", "false"]),
            "hoodie.parquet.small.file.limit": rng.choice([0, 1 << 20]),
            "hoodie.logfile.data.block.format": rng.choice(["avro", "parquet"]),
            "hoodie.write.record.positions": rng.choice(["true", "false"]),
            "hoodie.compaction.target.io": rng.choice([0, 512000]),
            **index,
            **(SEVERAL if self.has_several else {}),
        }
        self.options = {
            "hoodie.memory.merge.max.size": rng.choice(["0", "1073741824"]),
            "hoodie.merge.use.record.positions": rng.choice(["true", "false"]),
        }
        arguments: dict[str, Any] = {}
        if not self.by_event_time:
            arguments["ordering_fields"] = []
        init_table(base_path, table_type="MERGE_ON_READ", table_version=table_version, **arguments)

    # --- the model ------------------------------------------------------------------------------------------------

    def state(self, chosen: Callable[[Commit], bool] = lambda commit: True) -> State:
        state: State = {}
        for commit in sorted(self.commits, key=lambda commit: commit.requested):
            if chosen(commit):
                state = commit.change(state)
        return state

    def upserted(self, rows: list[tuple[str, str, int, str, bool]], instant: str) -> Change:
        def change(state: State) -> State:
            state = dict(state)
            for key, region, ts, value, is_deleted in rows:
                stored = state.get((key, region))
                if stored is not None and self.by_event_time and stored[2] > ts:
                    continue
                if is_deleted:
                    state.pop((key, region), None)
                else:
                    state[(key, region)] = (key, region, ts, value, instant)
            return state

        return change

    # --- what is done ---------------------------------------------------------------------------------------------

    def client(self, **more: Any) -> HoodieLocalWriteClient:
        self._client = local_client(self.path, {**self.properties, **more}, parallelism=1)
        return self._client

    def timeline(self) -> Any:
        return HoodieTableMetaClient.load(self.path).active_timeline

    def incoming(self, places: list[Place]) -> list[tuple[str, str, int, str, bool]]:
        """Rows of keys; some are older than what is stored, and some ask for a delete."""
        self._ts += 10
        state, rows = self.state(), []
        for place in places:
            stored = state.get(place)
            ts, is_deleted = self._ts, self.random.random() < 0.1
            if stored is not None and self.random.random() < 0.2:
                ts = self.random.choice([stored[2], max(stored[2] - 3, 0)])
            rows.append((*place, ts, f"v{len(self.log)}", is_deleted))
        return rows

    def step(self) -> None:
        rng = self.random
        name = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0] if self.log else "upsert"
        if name in ("begin", "finish") and not self.has_several:
            name = "upsert"
        if name == "finish" and not self.begun:
            name = "compact"
        self.log.append(name)
        self.seen[name] += 1
        if rng.random() < 0.5:
            self.pin()
        if name in SERVICES:
            self.serve(name)
        elif name == "finish":
            self.finish(self.begun.pop(rng.randrange(len(self.begun))))
        else:
            self.write(name)
        self.check()

    def write(self, name: str) -> None:
        rng = self.random
        client = self.client(**({"hoodie.auto.commit": "false"} if name == "begin" else {}))
        state = self.state()
        places = rng.sample(KEYS, rng.randint(1, 4))
        operation = {"begin": "upsert", "delete_partitions": "delete_partition"}.get(name, name)
        try:
            # Two writers that insert one key at once both do, and what replaces a partition does not see new files.
            taken = {place for begun in self.begun for place in begun.places}
            if taken and name in ("insert_overwrite", "delete_partitions"):
                return
            if name in ("insert", "bulk_insert"):
                taken |= set(state)
            places = [place for place in places if place not in taken]
            if not places:
                return
            instant = client.start_commit(operation)
            rows = self.incoming(places)
            if name in ("insert", "bulk_insert", "insert_overwrite"):
                rows = [(*row[:4], False) for row in rows]
            data = pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], COLUMNS)
            change = self.upserted(rows, instant)
            if name == "delete":
                result = client.delete([HoodieKey(*place) for place in places], instant)
                change = replaced(places.__contains__, {})
            elif name == "delete_partitions":
                region = rng.choice(REGIONS)
                result = client.delete_partitions([region], instant)
                change = replaced(lambda place: place[1] == region, {})
            elif name == "insert_overwrite":
                regions = {row[1] for row in rows}
                result = client.insert_overwrite(data, instant)
                change = replaced(lambda place: place[1] in regions, {row[:2]: (*row[:4], instant) for row in rows})
            else:
                result = getattr(client, operation)(data, instant)
        except HoodieWriteConflictException as error:
            self.log[-1] += f" conflict {error.other_instants}"
            self.seen["conflict"] += 1
            return
        except HoodieException as error:
            if "Run the compaction first" not in str(error):
                raise
            self.log[-1] += " refused"
            client.rollback(instant)
            return
        if name == "begin":
            self.begun.append(Begun(client, instant, result, change, places))
            self.log[-1] += f" {instant}"
            return
        self.log[-1] += f" {instant} {places}"
        self.commits.append(Commit(instant, result.completion_time or instant, change))

    def finish(self, begun: Begun) -> None:
        self.log[-1] += f" {begun.instant}"
        if self.random.random() < 0.2:
            begun.client.rollback(begun.instant)
            self.log[-1] += " rolled back"
            return
        try:
            begun.client.commit(begun.instant, begun.result)
        except HoodieWriteConflictException as error:
            self.seen["conflict"] += 1
            self.log[-1] += f" conflict {error}"
            return
        except HoodieException as error:
            # A restore or a rollback took it away.
            self.log[-1] += f" failed {error}"
            assert "rolled back" in str(error) or "restore" in str(error) or "no longer" in str(error), error
            return
        instants = {i.requested_time: i for i in self.timeline().completed_writes()}
        found = instants[begun.instant]
        self.commits.append(Commit(begun.instant, found.completion_time or begun.instant, begun.change))

    def serve(self, name: str) -> None:
        rng = self.random
        client = self.client()
        timeline = self.timeline()
        active = [i.requested_time for i in timeline.commits_timeline().filter_completed_instants()]
        saved = [savepoint.requested_time for savepoint in timeline.filter_actions(Action.SAVEPOINT)]
        target = rng.choice(active) if active else ""
        pending = [i.requested_time for i in timeline.filter_actions(Action.COMPACTION).filter_pending()]
        work: dict[str, Callable[[], Any]] = {
            "schedule": client.schedule_compaction,
            "compact": lambda: (
                client.compact(rng.choice(pending)) if pending and rng.random() < 0.5 else client.compact()
            ),
            "clean": client.clean,
            "archive": client.archive,
            "savepoint": lambda: client.savepoint(target),
            "delete_savepoint": lambda: client.delete_savepoint(rng.choice(saved)) if saved else None,
            "restore": lambda: client.restore_to_instant(rng.choice([target, *saved[-1:]])),
            "rollback": lambda: client.rollback(active[-1]) if active else None,
        }
        if name == "clean":
            self.has_cleaned = True
        faults = Faults()
        if rng.random() < 0.25:
            faults = Faults(rng.randint(1, 60), rng.choice(["before", "after"]))
        self.log[-1] += f" {target}"
        error = run_with_faults(faults, work[name])
        if error is not None:
            self.log[-1] += f": {str(error)[:300]}"
            if faults.fired:
                self.seen["died"] += 1
            else:
                allowed = (
                    HoodieRollbackException,
                    HoodieRestoreException,
                    HoodieSavepointException,
                    HoodieWriteConflictException,
                )
                assert isinstance(error, allowed) or "is being written: its heartbeat" in str(error), error
        if faults.fired:
            self.recover()
        self.follow()

    def recover(self) -> None:
        """What another writer does who finds the table so."""
        for heartbeat in self._client._heartbeats._heartbeats.values():
            heartbeat.stopped.set()
        alive = {begun.instant for begun in self.begun}
        heartbeats = Path(self.path) / ".hoodie" / ".heartbeat"
        for file in heartbeats.iterdir() if heartbeats.exists() else ():
            if file.name not in alive:
                os.utime(file, (1, 1))
        timeline = self.timeline()
        restore = pending_restore(timeline)
        with self.client() as client:
            if restore is not None:
                restored_to = read_restore_plan(timeline, restore.requested_time).restored_to
                assert restored_to is not None
                client.restore_to_instant(restored_to)
            for rollback in timeline.filter_actions(Action.ROLLBACK).filter_pending():
                self.log[-1] += f" pending rollback {rollback.requested_time}"
            client.rollback_failed_writes()

    def follow(self) -> None:
        """Forget commits that were undone."""
        there = self.timeline().completed_writes().times
        there |= TableSnapshot.load(self.path).archived_timeline.completed_writes().times
        self.commits = [commit for commit in self.commits if commit.requested in there]

    # --- what is read ---------------------------------------------------------------------------------------------

    def read(self, **query: Any) -> list[Row] | str:
        try:
            table = hoodie.read_table(
                self.path, columns=["id", "region", "ts", "v", "_hoodie_commit_time"],
                options={**self.options, **query.pop("options", {})}, **query,
            )  # fmt: skip
        except HoodieException as error:
            if not any(word in str(error) for word in GONE):
                raise
            self.seen["gone"] += 1
            return str(error)
        self.seen["read"] += 1
        return rows_of(table)

    def check(self) -> None:
        """Compare all times."""
        newest = sorted(self.state().values())
        if not self.commits and not list(self.timeline().completed_writes()):
            return
        assert self.read() == newest, "the newest rows"
        if self.version != 6 or not list(self.timeline().filter_actions(Action.COMPACTION).filter_pending()):
            # In version 6 hudi-rs reads no log files of the slice of a pending compaction.
            assert self.by_hudi_rs() == [row[:4] for row in newest], "hudi-rs"
        if newest:
            self.check_filters(newest)
        self.check_times()
        self.check_ranges()
        self.check_plans()
        if not any(Path(self.path).rglob(".*.log.*")):
            assert self.read(query_type="read_optimized") == newest

    def check_times(self) -> None:
        """Time travel to some commits and the last compactions."""
        ordered = sorted(commit.requested for commit in self.commits)
        compactions = [i.requested_time for i in self.timeline().filter_actions(Action.COMMIT)]
        for time in [*self.random.sample(ordered, min(4, len(ordered))), *compactions[-2:]]:
            found = self.read(as_of=time)
            if isinstance(found, str):
                assert self.has_cleaned or "undone" in found, found
                # A clean may delete what lies before a compaction, which is the newest instant then.
                assert time < max([*ordered, *compactions]), found
            else:
                assert found == sorted(self.state(up_to(time)).values()), f"as of {time}"

    def check_ranges(self) -> None:
        """Some ranges of commits."""
        ends: list[str | None] = [None, *sorted({commit.end for commit in self.commits})[-6:]]
        ranges = [(begin, end) for end in ends for begin in ends if not (begin and end and begin > end)]
        for begin, end in self.random.sample(ranges, min(7, len(ranges))):
            query = {"query_type": "incremental", "begin": begin or "earliest"} | ({"end": end} if end else {})
            found = self.read(**query)
            self.check_range(found, begin, end)
            if isinstance(found, str):
                self.check_range(self.read(options={FULL_SCAN: "true"}, **query), begin, end)

    def check_range(self, found: list[Row] | str, begin: str | None, end: str | None) -> None:
        """Compare the rows of one range."""
        if isinstance(found, str):
            assert self.begun or "is pending, and the range" not in found, found
            return
        seen = [commit for commit in self.commits if end is None or self.time_of(commit) <= end]
        chosen = {commit.requested for commit in seen if begin is None or self.time_of(commit) > begin}
        rows = self.state(seen.__contains__).values()
        assert found == sorted(row for row in rows if row[4] in chosen), f"({begin}, {end}]"

    def check_plans(self) -> None:
        """What readers find who planned some steps ago."""
        for plan, expected, when in self.plans:
            try:
                found = rows_of(pa.Table.from_batches(scan(plan), plan.result_schema))
            except HoodieException:
                self.seen["planned too early"] += 1
                continue
            self.seen["planned"] += 1
            assert found == expected, f"planned before {when}"
        self.plans = self.plans[-4:]

    def time_of(self, commit: Commit) -> str:
        return commit.requested if self.version == 6 else commit.end

    def check_filters(self, newest: list[Row]) -> None:
        rng = self.random
        key, region, ts, value, time = rng.choice(newest)
        ts += rng.choice([-10, -1, 0, 0, 1])
        cases: tuple[tuple[pc.Expression, Callable[[Row], bool]], ...] = (
            (pc.field("ts") >= ts, lambda row: row[2] >= ts),
            (pc.field("ts") < ts, lambda row: row[2] < ts),
            (pc.field("v") == value, lambda row: row[3] == value),
            (pc.field("id") == key, lambda row: row[0] == key),
            (pc.field("_hoodie_record_key") == key, lambda row: row[0] == key),
            ((pc.field("region") == region) & (pc.field("ts") > ts), lambda row: row[1] == region and row[2] > ts),
            (pc.field("_hoodie_commit_time") > time, lambda row: row[4] > time),
        )
        for condition, passes in rng.sample(cases, 3):
            wanted = [row for row in newest if passes(row)]
            assert self.read(filters=condition) == wanted, condition
            assert hoodie.dataset(self.path).count_rows(condition) == len(wanted), condition
            plan = hoodie.plan_read(self.path, filters=condition, columns=["v"])
            assert sorted(row["v"] for batch in scan(plan) for row in batch.to_pylist()) == sorted(
                row[3] for row in wanted
            )

    def pin(self) -> None:
        """A reader plans now and reads after later steps."""
        if self.commits:
            plan = hoodie.plan_read(
                self.path, columns=["id", "region", "ts", "v", "_hoodie_commit_time"], options=self.options
            )
            self.plans.append((plan, sorted(self.state().values()), f"step {len(self.log)}"))

    def by_hudi_rs(self) -> list[tuple[Any, ...]]:
        batches = HudiTableBuilder.from_base_uri(self.path).build().read()
        if not batches:
            return []
        found = pa.Table.from_batches(batches).select(COLUMNS.names[:4])
        return sorted(tuple(row.values()) for row in found.to_pylist())


def up_to(time: str) -> Callable[[Commit], bool]:
    """The commits that a time travel sees."""
    return lambda commit: commit.requested <= time


def replaced(are_gone: Callable[[Place], bool], fresh: State) -> Change:
    """Rows go, and others take their place."""
    return lambda state: {place: row for place, row in state.items() if not are_gone(place)} | fresh


def rows_of(table: pa.Table) -> list[Row]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def live(base_path: Path, seed: int, table_version: int, steps: int) -> EveryTime:
    """A history of some steps; an error names the seed, and the steps before it."""
    history = EveryTime(base_path, seed, table_version)
    try:
        for _ in range(steps):
            history.step()
    except BaseException as error:
        lines = "\n".join(history.log[-16:])
        error.add_note(
            f"seed {seed}, version {table_version}, step {len(history.log)}\n{lines}\n{history.properties} "
            f"{history.options} event time: {history.by_event_time}"
        )
        raise
    finally:
        for begun in history.begun:
            begun.client.close()
    return history


STEPS = 10
SEEDS = 1
"""`make test` runs these of each version, `make soak` the others."""
MORE_SEEDS = 8
SOAK_SEEDS = 150
SOAK_STEPS = 25


@pytest.fixture(autouse=True)
def _quiet(faulty_storage: None) -> Iterator[None]:
    """Every second step warns of what it finds."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    "seed", [*range(SEEDS), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(SEEDS, MORE_SEEDS))]
)
@pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
@pytest.mark.one_in(4)
def test_every_time_of_any_history_is_what_the_model_holds(tmp_path: Path, table_version: int, seed: int) -> None:
    history = live(tmp_path / "t", 10 * seed + table_version, table_version, STEPS)
    print(dict(history.seen))
    assert history.seen["read"] > STEPS


@pytest.mark.soak
@pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
def test_many_histories(tmp_path: Path, table_version: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(1000, 1000 + SOAK_SEEDS):
        seen += live(tmp_path / f"t{seed}", seed, table_version, SOAK_STEPS).seen
    print(dict(seen))
    assert min(seen[name] for name in ("compact", "restore", "finish", "died", "planned", "gone")) > SOAK_SEEDS / 10
