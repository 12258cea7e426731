"""Seeded scenarios of writers, services and readers on one table, with a dict as the oracle: `run_seed`.

What must hold:

* The rows are those of the model after every step that changes the timeline: every commit's effect from the moment that
  its completed file is made, nothing of other writes.
* A write that was told to have failed is not there; one that was told to be committed is, once.
* No key lives in two file groups.
* Every reader sees the rows of one moment between its begin and its end; a reader that pinned an instant sees what was
  committed up to that instant, for as long as the cleaner retains it.
* When all have ended, and the dead ones' heartbeats and locks have expired, a client finds its way: nothing is pending,
  no marker, heartbeat or lock is left, every file is explained, and writing goes on.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.avro.service_metadata import HoodieCleanerPlan
from hoodie.avro.timeline_metadata import HoodieRollbackPlan, decode
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.common.table.view import committed_log_files
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import (
    HoodieCommitException,
    HoodieEarlyConflictDetectionException,
    HoodieException,
    HoodieHeartbeatException,
    HoodieIOException,
    HoodieLockException,
    HoodieRestoreException,
    HoodieRollbackException,
    HoodieSavepointException,
    HoodieWriteConflictException,
)
from hoodie.metadata.reader.decoded_files import DECODED_FILES
from hoodie.table.action.restore.restore_action_executor import pending_restore, read_restore_plan
from hoodie.transaction.concurrent_operation import WriteStart
from tests.support.interleaving import Process, Task, World
from tests.support.table_invariants import check_table
from tests.support.timeline_files import archived_entries, instant_of_path

__all__ = ["Scenario", "check_end", "make_template", "run_seed"]

STOOD_BEFORE_ARCHIVING = re.compile(r"stands still for \d+ ms before (create|start|finish) \S*/(archived|history)/")
"""The call in which a suspended archiver may write entries that another one has written."""

Place = tuple[str, str]
"""Partition path and key."""
Rows = dict[Place, int]
SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("v", pa.int64())])
INTERVAL_MS = 2000
MINUTE_MS = 60_000
DEATHS = (
    r"create .*(commit|clean|rollback)$",
    r"create .*requested$",
    r"create .*inflight$",
    r"(create|put) .*lock",
    r"delete .*lock",
    r"create .*heartbeat",
    r"delete .*heartbeat",
    r"(create|start|finish) .*(archive|history)",
    r"delete .*(requested|inflight|commit)$",
    r"unlink ",
    r"finish .*parquet",
)
PAUSES = (
    r"create .*\.open$",
    r"create .*inflight$",
    r"create .*requested$",
    r"create .*marker",
    r"start .*parquet",
    r"finish .*parquet",
    r"delete .*\.open",
    r"(create|put) .*lock",
    r"list .*(hoodie|timeline)$",
    r"create .*commit$",
    r"create .*commit$",
    r"create .*(rollback|restore|clean)\.requested$",
    r"(create|start|finish) .*(archive|history)",
)
"""Calls at which a death or a pause may matter more than at others."""
WRITES = (Action.COMMIT, Action.REPLACE_COMMIT)
COMPLETED = (*WRITES, Action.CLEAN, Action.ROLLBACK)
"""What changes the table when it is completed, in the eyes of the oracle."""
INFLIGHT = {"commit": "{}.inflight", "replacecommit": "{}.replacecommit.inflight"}
COMMON = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.filesystem.expire": 1,
    "hoodie.write.lock.wait_time_ms": 30 * MINUTE_MS,
    "hoodie.client.heartbeat.interval_in_ms": INTERVAL_MS,
    # All processes have one clock. In versions 8 and 9 each time that is taken lasts that long under the lock: writers
    # that mostly wait for it are in nobody's way.
    "hoodie.time.generator.max_expected_clock_skew_ms": 1,
    "hoodie.index.bloom.num_entries": 10,
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.index.type": "SIMPLE",
    "hoodie.bucket.index.num.buckets": 2,
}
INDEXES = ("SIMPLE", "BLOOM", "SIMPLE", "BLOOM", "BUCKET", "GLOBAL_SIMPLE", "GLOBAL_BLOOM")


@attrs.define
class Operation:
    """One write, as its caller sees it and as the model applies it."""

    kind: str
    rows: Rows
    """What is added or changed."""
    keys: tuple[Place, ...] = ()
    """What is deleted."""
    partitions: tuple[str, ...] = ()
    """What is replaced."""
    by_hand: bool = False
    """Whether the instant is started before, and committed after, the write."""
    snapshot: frozenset[str] = frozenset()
    """The instants that were completed when the write began to look at the table."""
    committed_at: str | None = None
    is_told: bool = False
    """Whether its caller was told that it is committed."""
    is_undone: bool = False
    """Whether somebody whose task that is undid it."""
    is_global: bool = False
    """Whether a key lives once in the table, and moves to where it is written."""

    def apply(self, rows: dict[Place, tuple[int, str]], instant_time: str) -> None:
        """Change rows, of which each carries the instant that wrote it last."""
        elsewhere = {key for _, key in self.keys} if self.is_global else set()
        moved = {key: path for path, key in self.rows} if self.is_global else {}
        for place in list(rows):
            path, key = place
            is_gone = place in self.keys or key in elsewhere or moved.get(key, path) != path
            if is_gone and rows[place][1] in self.snapshot:
                del rows[place]
        for place in [place for place in rows if place[0] in self.partitions]:
            if rows[place][1] in self.snapshot:
                del rows[place]
        for place, value in self.rows.items():
            rows[place] = (value, instant_time)


def _as_model(rows: dict[Place, tuple[int, str]]) -> Rows:
    return {place: value for place, (value, _) in rows.items()}


class Model:
    """What the table must hold, by the commits that were completed, in the order in which they were."""

    def __init__(self) -> None:
        self.operations: dict[str, Operation] = {}
        self.rows: dict[Place, tuple[int, str]] = {}
        self.versions: list[Rows] = [{}]
        self.archived: set[str] = set()
        self.completions: dict[str, str] = {}
        """When the commits were completed; empty up to version 6."""
        self.undone: list[str] = []

    def copy(self) -> Model:
        copy = Model()
        copy.operations, copy.rows = dict(self.operations), dict(self.rows)
        copy.versions, copy.archived = list(self.versions), set(self.archived)
        copy.completions = dict(self.completions)
        return copy

    def complete(self, instant_time: str, operation: Operation) -> None:
        assert instant_time not in self.operations
        assert operation.committed_at is None, f"{operation} was committed twice"
        operation.committed_at = instant_time
        self.operations[instant_time] = operation
        operation.apply(self.rows, instant_time)
        self.versions.append(_as_model(self.rows))

    def undo(self, instant_time: str) -> Operation:
        """Take a commit back, whatever came after it."""
        operation = self.operations.pop(instant_time)
        operation.committed_at = None
        self.rows = {}
        for time, remaining in self.operations.items():
            remaining.apply(self.rows, time)
        self.versions.append(_as_model(self.rows))
        self.undone.append(instant_time)
        return operation

    def as_of(self, instant_time: str) -> Rows:
        """Of the instants up to one, in the order of their times."""
        return _as_model(self._rows_at(instant_time))

    def written_since(self, instant_time: str) -> list[Rows]:
        """What is found that was written after a commit, for each end that there may be.

        Commits count by their times, from version 8 on by those of their completion.
        """
        key = self.completions.__getitem__ if self.completions else str
        times = sorted(self.operations, key=key)
        begin, rows = key(instant_time), dict[Place, tuple[int, str]]()
        found: list[Rows] = [{}]
        for time in times:
            self.operations[time].apply(rows, time)
            if key(time) > begin:
                found.append({place: value for place, (value, writer) in rows.items() if key(writer) > begin})
        return found

    def _rows_at(self, instant_time: str) -> dict[Place, tuple[int, str]]:
        rows: dict[Place, tuple[int, str]] = {}
        for time in sorted(self.operations):
            if time <= instant_time:
                self.operations[time].apply(rows, time)
        return rows


# --- the table --------------------------------------------------------------------------------------------------------


def new_client(base_path: str, properties: dict[str, Any]) -> HoodieLocalWriteClient:
    config = HoodieWriteConfig.from_properties(base_path, {**COMMON, **properties})
    return HoodieLocalWriteClient(config, LocalEngineContext(parallelism=1))


def to_table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": key, "region": path, "v": value} for (path, key), value in rows.items()], SCHEMA
    )


def rows_of(table: pa.Table) -> list[tuple[Place, int]]:
    return [((row["region"], row["id"]), row["v"]) for row in table.to_pylist()]


def read_all(base_path: str, **query: Any) -> Rows:
    """As a user reads the table; a key that lives twice is an error."""
    table = hoodie.read_table(base_path, columns=SCHEMA.names, **query)
    rows = dict(rows_of(table))
    assert len(rows) == table.num_rows, f"keys that live twice: {table.to_pylist()}"
    return rows


def write(client: HoodieLocalWriteClient, operation: Operation) -> None:
    """Carry an operation out as a user would."""
    instant_time = client.start_commit(operation.kind) if operation.by_hand else None
    match operation.kind:
        case "delete":
            keys = [HoodieKey(key, path) for path, key in operation.keys]
            result = client.delete(keys, instant_time)
        case "delete_partition":
            result = client.delete_partitions(operation.partitions, instant_time)
        case kind:
            result = getattr(client, kind)(to_table(operation.rows), instant_time)
    if instant_time is not None:
        assert client.commit(instant_time, result)


@attrs.frozen
class Template:
    """A table with some commits, to be copied, and what is known of it."""

    folder: Path
    model: Model
    now_ms: float


Templates = dict[str, Template]
"""By the index that laid them out."""


def make_template(folder: Path, index_type: str = "SIMPLE", more: Mapping[str, str] | None = None) -> Template:
    """A table of six commits, one of which replaced a partition; no key of it lives in two partitions.

    Args:
        folder: Its folder.
        index_type: The index of its writers.
        more: Properties of those who make it: with a metadata table, all writers keep it.
    """
    base_path = str(folder)
    HoodieTableMetaClient.init_table(base_path, table_name="t", record_key_fields=["id"], partition_fields=["region"])
    model = Model()
    world = World(0, base_path)
    oracle = Oracle(world, base_path, model, retained=10)
    operations = [
        Operation("upsert", {("x", "k0"): 1, ("x", "k1"): 1, ("y", "k3"): 1}),
        Operation("upsert", {("x", "k0"): 2, ("y", "k4"): 2}),
        Operation("insert_overwrite", {("y", "k3"): 3, ("y", "k5"): 3}, partitions=("y",)),
        Operation("upsert", {("x", "k2"): 4}),
        Operation("upsert", {("x", "k0"): 5, ("y", "k5"): 5}),
        Operation("delete", {}, keys=(("x", "k1"),)),
    ]

    def work() -> None:
        off = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", "hoodie.index.type": index_type}
        properties = {**off, "hoodie.write.lock.provider": "FileSystemBasedLockProvider", **(more or {})}
        with new_client(base_path, properties) as client:
            for operation in operations:
                oracle.writing[process] = operation
                write(client, operation)

    process = Process("template")
    with oracle.watching():
        world.run({process: work})
    return Template(folder, model, world.now_ms + 1000)


# --- the oracle -------------------------------------------------------------------------------------------------------


class Oracle:
    """Follows every call to the storage, and compares the table with the model wherever its timeline changes."""

    def __init__(self, world: World, base_path: str, model: Model, retained: int) -> None:
        self.world = world
        self.base_path = base_path
        self.model = model
        self.retained = retained
        self.writing: dict[Process, Operation] = {}
        self.undoing: set[Process] = set()
        """Who may take back what others were told to be committed."""
        self.may_undo: set[str] = set()
        """What they have planned to take back; others finish that when they die."""
        self.is_restoring = False
        """Whether commits are being undone one after the other: versions between may have been cleaned."""
        self.restores = 0
        """How many were begun."""
        self.is_spoilt = False
        """Whether a writer was told that its commit and others' cannot both be had."""
        self.unsettled: str | None = None
        """The instant of a process that stood still within the call that completed it: it has yet to look again."""
        self.earliest = ""
        """The newest of the instants that cleans were to retain: older ones need not be readable."""
        self.steps: Counter[str] = Counter()
        self._files: dict[str, list[tuple[Place, int]]] = {}
        world.on_applied = self.on_applied

    def watching(self) -> Any:
        """While it is open, the oracle learns what each write has seen of the table."""
        oracle = self
        original = WriteStart.of.__func__  # type: ignore[attr-defined]

        def of(cls: type[WriteStart], *args: Any, **given: Any) -> WriteStart:
            start: WriteStart = original(cls, *args, **given)
            task = oracle.world.task
            if task is not None and task.process in oracle.writing:
                oracle.writing[task.process].snapshot = start.completed | frozenset(oracle.model.archived)
            return start

        return _Patched(WriteStart, "of", classmethod(of))

    def on_applied(self, task: Task, name: str, path: str, result: Any) -> None:
        if self.is_spoilt:
            return
        if "/.hoodie/metadata/" in path:
            # The metadata table has a timeline of its own.
            return
        if name == "create" and result and path.endswith(".clean.requested"):
            self._learn_plan(path)
        if name == "create" and result and path.endswith(".rollback.requested") and task.process in self.undoing:
            plan: HoodieRollbackPlan = decode(Path(path).read_bytes(), HoodieRollbackPlan, path)
            assert plan.instant_to_rollback is not None
            self.may_undo.add(plan.instant_to_rollback.commit_time)
        if path.endswith((".restore", ".restore.requested")) and name in ("create", "delete"):
            self.is_restoring = path.endswith(".requested") and name == "create"
            self.restores += self.is_restoring
            if path.endswith(".restore") and self.unsettled is None:
                self.check(f"{path} by {task.name}")
        found = instant_of_path(path)
        if found is None or not found.is_completed or found.action not in COMPLETED:
            return
        if not ((name == "create" and result) or (name == "delete" and result)):
            return
        instant_time, action = found.requested_time, found.action
        is_write = action in WRITES
        if is_write and name == "create":
            if instant_time in self.model.operations:
                # Who lost the lock meanwhile gives its commit a time after those of others.
                assert found.completion_time is not None
                assert found.completion_time > self.model.completions[instant_time]
                self.model.completions[instant_time] = found.completion_time
                return
            if found.completion_time is not None:
                self.model.completions[instant_time] = found.completion_time
            self.model.complete(instant_time, self.writing[task.process])
            if task.process.stood_at == f"create {path.replace(self.base_path, '')}" and not task.process.only_call:
                self.unsettled = instant_time
        if (
            is_write
            and name == "delete"
            and (found.completion_time or "") < self.model.completions.get(instant_time, "")
        ):
            # Of two completed files, the later one counts.
            return
        is_undone = is_write and name == "delete" and self._inflight(path, found).exists()
        if is_undone:
            self._undo(instant_time, task)
        elif is_write and name == "delete":
            self.model.archived.add(instant_time)
        self.steps[name] += 1
        if name == "delete" and not is_undone and (not is_write or self.steps[name] % 2):
            # An archiver deletes many; what is wrong after one is wrong after the next.
            return
        if self.unsettled is None and not self.is_restoring:
            self.check(f"{action} {instant_time} {name}d by {task.name}", is_thorough=action == "clean")

    def _inflight(self, path: str, completed: HoodieInstant) -> Path:
        """The inflight file of an instant; its name is the same in all layouts."""
        name = timeline_layout(1).file_name(completed.requested_time, completed.action, State.INFLIGHT)
        return Path(path).with_name(name)

    def _undo(self, instant_time: str, task: Task) -> None:
        operation = self.model.undo(instant_time)
        operation.is_undone = task.process in self.undoing or instant_time in self.may_undo
        assert operation.is_undone or not operation.is_told, f"{task.name} took {operation} back"
        if self.unsettled == instant_time:
            self.unsettled = None

    def tell(self, operation: Operation) -> None:
        """The caller of a write is told that it is committed; nobody but who says so may take it back."""
        assert operation.committed_at is not None or operation.is_undone, f"{operation} was told to be committed"
        operation.is_told = True
        if self.unsettled is not None and self.unsettled == operation.committed_at:
            self.unsettled = None
            with self.world.silently():
                self.check(f"after {operation} was looked at again")

    def check(self, what: str, is_thorough: bool = False) -> None:
        """The newest rows, and with `is_thorough` those of every instant that is retained."""
        table = HoodieTableMetaClient.load(self.base_path)
        view = table.view()
        found = self._rows(file.path for path in view.list_partitions() for file in view.latest_base_files(path))
        expected = self.model.versions[-1]
        assert found == expected, f"{what}: {sorted(found.items() ^ expected.items())}"
        if is_thorough:
            completed = table.active_timeline.commits_timeline().filter_completed_instants()
            for instant in completed:
                if instant.requested_time >= self.earliest:
                    assert self.read_at(table, instant.requested_time) == self.model.as_of(instant.requested_time), (
                        f"as of {instant.requested_time}, {what}"
                    )

    def read_at(self, table: HoodieTableMetaClient, instant_time: str) -> Rows:
        """What is read by who pinned an instant."""
        view = table.view()
        return self._rows(
            file.path
            for path in view.list_partitions()
            for file in view.latest_base_files_before_or_on(path, instant_time)
        )

    def _rows(self, paths: Iterable[str]) -> Rows:
        """What is in files, each of which is read once: nobody changes them."""
        rows: Rows = {}
        for path in sorted(paths):
            if path not in self._files:
                self._files[path] = rows_of(pq.read_table(path, columns=SCHEMA.names))
            elif not Path(path).exists():
                raise FileNotFoundError(path)
            for place, value in self._files[path]:
                assert place not in rows, f"{place} lives twice"
                rows[place] = value
        return rows

    def _learn_plan(self, path: str) -> None:
        plan: HoodieCleanerPlan = decode(Path(path).read_bytes(), HoodieCleanerPlan, path)
        if plan.earliest_instant_to_retain is not None:
            earliest = plan.earliest_instant_to_retain.timestamp
            later = [time for time in self.model.operations if time >= earliest]
            assert len(later) >= self.retained or self.model.undone, f"the clean {path} retains {later} only"
            self.earliest = max(self.earliest, earliest)


class _Patched:
    """An attribute that is another one for a while."""

    def __init__(self, owner: Any, name: str, value: Any) -> None:
        self._owner, self._name, self._value = owner, name, value

    def __enter__(self) -> None:
        self._before = self._owner.__dict__[self._name]
        setattr(self._owner, self._name, self._value)

    def __exit__(self, *error: object) -> None:
        setattr(self._owner, self._name, self._before)


# --- scenarios --------------------------------------------------------------------------------------------------------


class Scenario:
    """All that a seed decides, and its run.

    Attributes:
        outcomes: How often what ended how.
        world: Its trace tells what happened.
    """

    def __init__(self, seed: int, templates: Templates, folder: Path) -> None:
        self.seed = seed
        self.base_path = str(folder)
        self.random = random.Random(seed)
        index_type = self.random.choice(INDEXES)
        self.is_global = index_type.startswith("GLOBAL_")
        template = templates["BUCKET" if index_type == "BUCKET" else "SIMPLE"]
        shutil.copytree(template.folder, folder)
        self.step_ms = self.random.choice([1, 10, 60])
        self.world = World(
            seed,
            self.base_path,
            switching=self.random.choice([0.05, 0.2, 0.5, 1.0]),
            step_ms=self.step_ms,
            now_ms=template.now_ms,
        )
        self.outcomes: Counter[str] = Counter()
        self.has_suspensions = self.random.random() < 0.2
        self.own_keys = self.random.random() < 0.3
        self.retained = self.random.choice([1, 1, 2, 3])
        self.model = template.model.copy()
        self.oracle = Oracle(self.world, self.base_path, self.model, self.retained)
        provider = self.random.choice(["FileSystemBasedLockProvider"] * 3 + ["StorageBasedLockProvider"])
        archiving = {"hoodie.keep.min.commits": self.retained + 2, "hoodie.keep.max.commits": self.retained + 3}
        self.properties = {
            **archiving,
            "hoodie.cleaner.commits.retained": self.retained,
            "hoodie.write.lock.provider": provider,
            "hoodie.write.lock.storage.validity.timeout.secs": 60,
            "hoodie.write.concurrency.unique.keys": not self.own_keys,
            "hoodie.parquet.small.file.limit": self.random.choice([0, 104857600]),
            "hoodie.index.type": index_type,
            "hoodie.write.concurrency.early.conflict.detection.enable": self.random.random() < 0.2,
            "hoodie.archive.merge.enable": self.random.random() < 0.2,
            "hoodie.archive.merge.files.batch.size": 2,
        }
        self._value = 100
        self._work: dict[Process, Callable[[], Any]] = {}
        writers = self.random.choice([2, 2, 3])
        for number in range(writers):
            self._add(f"writer{number}", 0.3, 300, lambda process, number=number: self._write(process, number))
        for name, probability, work in (
            ("cleaner", 0.9 if self.has_suspensions else 0.4, self._clean),
            ("archiver", 0.4, self._archive),
            ("reader", 0.4, self._read),
            ("pinned", 0.3, self._read_pinned),
            ("traveller", 0.3, self._travel),
        ):
            if self.random.random() < probability:
                self._add(name, 0.2 if work in (self._clean, self._archive) else 0, 120, work)
        self.has_undoer = self.random.random() < 0.25
        if self.has_undoer:
            self._add("undoer", 0.3, 150, self._undo)

    def run(self) -> None:
        """Let all work to their end, then let one more client find its way."""
        with self.oracle.watching():
            self.world.run({process: work for process, work in self._work.items()})
            # The heartbeats and locks of the dead end.
            self.world.now_ms += 10 * MINUTE_MS
            self.world.note("--- all have ended")
            self.world.run({(process := Process("last")): lambda: self._recover(process)})
        if self.oracle.is_spoilt:
            self.outcomes["told that two commits cannot both be had"] += 1
        else:
            has_dead = any(process.dies_at is not None for process in self._work)
            check_end(self.base_path, self.model, has_dead, any(map(STOOD_BEFORE_ARCHIVING.search, self.world.trace)))

    # --- who works ----------------------------------------------------------------------------------------------

    def _add(self, name: str, dying: float, calls: int, work: Callable[[Process], None]) -> None:
        process = Process(name)
        if self.random.random() < dying:
            process.dies_at = self.random.choice([self.random.randint(1, calls), self.random.choice(DEATHS)])
            process.dies_after = self.random.random() < 0.5
        elif self.has_suspensions and self.random.random() < 0.6:
            process.suspended_at = self.random.choice([self.random.randint(1, calls), self.random.choice(PAUSES)])
            process.suspended_ms = self.random.choice([0.5, 1.5, 3, 6, 40]) * 2 * INTERVAL_MS
        self._work[process] = lambda: work(process)

    def _write(self, process: Process, number: int) -> None:
        rng = random.Random(f"{self.seed} {number}")
        properties: dict[str, Any] = {**self.properties, "hoodie.write.lock.wait.retry": rng.random() < 0.3}
        services = rng.choice(["off", "off", "inline", "beside"])
        properties["hoodie.clean.automatic"] = properties["hoodie.archive.automatic"] = services != "off"
        properties["hoodie.clean.async"] = properties["hoodie.archive.async"] = services == "beside"
        with (
            new_client(self.base_path, properties) as client,
            new_client(
                self.base_path,
                {**properties, "hoodie.auto.commit": "false", "hoodie.write.lock.wait.retry": "false"},
            ) as by_hand,
        ):
            for _ in range(rng.choice([1, 1, 2, 2])):
                operation = self._operation(rng, number)
                operation.is_global = self.is_global and operation.kind in ("upsert", "delete")
                self.oracle.writing[process] = operation
                try:
                    write(by_hand if operation.by_hand else client, operation)
                except HoodieException as error:
                    self._judge(process, operation, error)
                else:
                    self.oracle.tell(operation)
                    self.outcomes[f"{operation.kind} committed"] += 1
                self.world.sleep(rng.choice([0, 0, 100, 3000]))

    def _operation(self, rng: random.Random, writer: int) -> Operation:
        self._value += 1
        value = self._value
        kind = rng.choice(["upsert"] * 5 + ["insert", "insert", "delete", "insert_overwrite", "delete_partition"])
        names = [f"w{writer}-{i}" for i in range(3)] if self.own_keys else [f"k{i}" for i in range(5)]
        partitions = rng.choice([["x"], ["x"], ["y"], ["x", "y"], ["z"], ["y", "z"]])
        chosen = rng.sample(names, len(partitions)) if self.is_global else [rng.choice(names) for _ in partitions]
        places = list(zip(partitions, chosen, strict=True))
        by_hand = rng.random() < 0.25
        match kind:
            case "upsert":
                rows = {place: value for place in places}
                if self.own_keys and rng.random() < 0.5:
                    # Keys of others are updated, where nobody deletes them.
                    rows = {**rows, ("x", "k2"): value}
                return Operation(kind, rows, by_hand=by_hand)
            case "insert":
                return Operation(kind, {(path, f"new{value}{path}"): value for path in partitions}, by_hand=by_hand)
            case "delete":
                return Operation(kind, {}, keys=tuple(places), by_hand=by_hand)
            case "insert_overwrite":
                path = partitions[0] if not self.own_keys else "z"
                return Operation(kind, {(path, f"new{value}"): value}, partitions=(path,), by_hand=by_hand)
        return Operation(kind, {}, partitions=("z",) if self.own_keys else (partitions[0],), by_hand=by_hand)

    def _judge(self, process: Process, operation: Operation, error: HoodieException) -> None:
        """Whether a write may fail so, and that it did."""
        if isinstance(error, HoodieWriteConflictException) and operation.committed_at is not None:
            assert not error.is_retry_safe and self.oracle.unsettled == operation.committed_at, error
            self.oracle.is_spoilt = True
            return
        assert operation.committed_at is None, f"{operation} is committed, but its writer was told: {error}"
        self.outcomes[f"{operation.kind} {type(error).__name__}"] += 1
        if isinstance(error, HoodieWriteConflictException | HoodieEarlyConflictDetectionException):
            return
        # Who stands still, or is slow, may be taken for dead, and finds that out at any step.
        may_expire = process.was_suspended or self.step_ms > 1
        if may_expire and isinstance(error, HoodieHeartbeatException | HoodieCommitException):
            return
        if not self._may_be_in_the_way(process, error):
            raise error

    def _may_be_in_the_way(self, process: Process, error: HoodieException) -> bool:
        """Whether whoever takes commits back, or held the lock when this one stood still, may have caused an error."""
        if process.was_suspended and isinstance(error, HoodieLockException):
            return error.was_lost
        if isinstance(error, HoodieIOException):
            # Of a commit that was undone, or archived, since its reader looked.
            is_gone = "since the timeline was loaded" in str(error) or "is missing" in str(error)
            return (process.was_suspended or self.has_undoer) and is_gone
        return self.has_undoer and isinstance(error, HoodieCommitException) and "restore" in str(error)

    def _clean(self, process: Process) -> None:
        with new_client(self.base_path, self.properties) as client:
            for _ in range(2):
                self._serve(process, "clean", client.clean)

    def _archive(self, process: Process) -> None:
        with new_client(self.base_path, self.properties) as client:
            for _ in range(2):
                self._serve(process, "archive", client.archive)

    def _serve(self, process: Process, name: str, service: Callable[[], Any]) -> None:
        try:
            done = service()
        except HoodieException as error:
            if not self._may_be_in_the_way(process, error):
                raise
            self.outcomes[f"{name} {type(error).__name__}"] += 1
        else:
            self.outcomes[f"{name} {'did something' if done else 'had nothing to do'}"] += 1
        self.world.sleep(self.random.choice([0, 50, 1000, 5000]))

    def _undo(self, process: Process) -> None:
        """Take commits back, or keep them."""
        self.oracle.undoing.add(process)
        with new_client(self.base_path, self.properties) as client:
            for kind in self.random.choices(["rollback", "restore", "savepoint"], k=2):
                with self.world.silently():
                    commits = self._commits()
                try:
                    match kind:
                        case "rollback":
                            client.rollback(commits[-1])
                        case "restore":
                            client.restore_to_instant(self.random.choice(commits[-3:]))
                        case "savepoint":
                            self._keep_for_a_while(client, self.random.choice(commits[-3:]))
                except (HoodieRollbackException, HoodieRestoreException, HoodieSavepointException) as error:
                    self.outcomes[f"{kind} {type(error).__name__}"] += 1
                except HoodieHeartbeatException:
                    self.outcomes[f"{kind} beside a living writer"] += 1
                except HoodieException as error:
                    if not self._may_be_in_the_way(process, error):
                        raise
                    self.outcomes[f"{kind} {type(error).__name__}"] += 1
                else:
                    self.outcomes[f"{kind} done"] += 1
                self.world.sleep(self.random.choice([0, 100, 3000]))

    def _keep_for_a_while(self, client: HoodieLocalWriteClient, instant_time: str) -> None:
        client.savepoint(instant_time)
        before = self.model.as_of(instant_time)
        self.world.sleep(self.random.choice([0, 1000, 20_000]))
        if self.model.as_of(instant_time) == before and self.oracle.unsettled is None:
            found = self.oracle.read_at(HoodieTableMetaClient.load(self.base_path), instant_time)
            assert found == before, f"as of the savepoint {instant_time}"
            if self.random.random() < 0.5:
                client.restore_to_savepoint(instant_time)
        client.delete_savepoint(instant_time)

    def _commits(self) -> list[str]:
        timeline = HoodieTableMetaClient.load(self.base_path).active_timeline
        return [instant.requested_time for instant in timeline.commits_timeline().filter_completed_instants()]

    def _read(self, process: Process) -> None:
        for _ in range(3):
            first, undone = len(self.model.versions) - 1, len(self.model.undone)
            is_restored = self._watch_restores()
            try:
                found = read_all(self.base_path)
            except (HoodieException, FileNotFoundError) as error:
                is_undone = is_restored() or len(self.model.undone) > undone
                assert is_undone or self._may_miss_files(first), f"a reader failed: {error!r}"
                self.outcomes["read files that were cleaned"] += 1
            else:
                assert is_restored() or found in self.model.versions[first:], f"{found} was never there"
                self.outcomes["read"] += 1
            self.world.sleep(self.random.choice([0, 10, 200]))

    def _may_miss_files(self, first: int) -> bool:
        """Whether what was the newest version is no longer retained."""
        since = list(self.model.operations)[max(first - 2 * len(self.model.undone), 0) :]
        return len(since) >= self.retained or any(time < self.oracle.earliest for time in since)

    def _watch_restores(self) -> Callable[[], bool]:
        """A question: whether versions between may have been read, a restore being under way at some time since now.

        So it is beside a commit that may be taken back, for its writer stood still.
        """
        oracle = self.oracle
        was_restoring, restores = oracle.is_restoring, oracle.restores
        return lambda: was_restoring or oracle.restores > restores or oracle.unsettled is not None

    def _read_pinned(self, process: Process) -> None:
        pinned = max(self.model.operations)
        for _ in range(3):
            before, undone = self.model.as_of(pinned), len(self.model.undone)
            is_restored = self._watch_restores()
            try:
                found = self.oracle.read_at(HoodieTableMetaClient.load(self.base_path), pinned)
            except (HoodieException, FileNotFoundError):
                is_undone = is_restored() or len(self.model.undone) > undone
                if pinned >= self.oracle.earliest and not is_undone:
                    raise
                self.outcomes["pinned instant was cleaned"] += 1
                return
            if pinned >= self.oracle.earliest and not is_restored():
                assert found in (before, self.model.as_of(pinned)), f"as of {pinned}"
            self.outcomes["read a pinned instant"] += 1
            self.world.sleep(self.random.choice([10, 200, 1000]))

    def _travel(self, process: Process) -> None:
        """Read the table at a time, or what was written since; whatever is gone is an error, and not fewer rows."""
        pinned = self.random.choice(sorted(self.model.operations))
        block = {"hoodie.read.timeline.holes.resolution.policy": "BLOCK"}
        for _ in range(3):
            before, undone = self.model.as_of(pinned), len(self.model.undone)
            is_restored, is_of_range = self._watch_restores(), self.random.random() < 0.5
            try:
                if is_of_range:
                    begin = self.model.completions.get(pinned, pinned)
                    found = read_all(self.base_path, query_type="incremental", begin=begin, options=block)
                else:
                    found = read_all(self.base_path, as_of=pinned)
            except (HoodieException, FileNotFoundError):
                is_undone = is_restored() or len(self.model.undone) > undone
                if pinned >= self.oracle.earliest and not is_undone and not is_of_range:
                    raise
                self.outcomes["could not travel"] += 1
                return
            if not is_restored() and len(self.model.undone) == undone:
                possible = self.model.written_since(pinned) if is_of_range else [before, self.model.as_of(pinned)]
                assert found in possible, f"{'since' if is_of_range else 'as of'} {pinned}: {found}"
                self.outcomes["travelled"] += 1
            self.world.sleep(self.random.choice([10, 200, 1000]))

    # --- the end ------------------------------------------------------------------------------------------------

    def _recover(self, process: Process) -> None:
        last = Operation("upsert", {("x", "last"): 1})
        self.oracle.writing[process] = last
        alone = {**self.properties, "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
        self.oracle.undoing.add(process)
        with new_client(self.base_path, alone) as client:
            timeline = HoodieTableMetaClient.load(self.base_path).active_timeline
            restore = pending_restore(timeline)
            if restore is not None:
                client.restore_to_instant(read_restore_plan(timeline, restore.requested_time).restored_to)
                self.outcomes["restore of a dead one was finished"] += 1
            for savepoint in timeline.savepoint_times:
                client.delete_savepoint(savepoint)
            client.rollback_failed_writes()
            client.clean()
            client.archive()
            write(client, last)


def check_end(base_path: str, model: Model, has_dead: bool = False, may_repeat_entries: bool = False) -> None:
    """What must hold when all have ended, and a last client has found its way; some died perhaps.

    An archiver that stood still for longer than its lock lasts, right before it wrote a file of the archive, may write
    entries that another archiver has written meanwhile. Readers take each entry once.
    """
    folder = Path(base_path)
    check_table(folder, None, was_cleaned=True)
    assert read_all(base_path) == model.versions[-1]
    table = HoodieTableMetaClient.load(base_path)
    assert not list(table.active_timeline.filter_pending())
    for name in (".temp", ".heartbeat"):
        left = [path.name for path in (folder / ".hoodie" / name).iterdir()]
        assert not left, f"left in {name}: {left}"
    locks = sorted(path.name for path in (folder / ".hoodie").glob("lock*"))
    # Who died while it broke a lock left its claim on that one, until the next lock is broken.
    assert not [name for name in locks if not ("breaking" in name and has_dead)], locks
    entries = Counter(archived_entries(folder))
    doubled = {str(state): count for state, count in entries.items() if count > 1}
    assert may_repeat_entries or not doubled, f"twice in the archive: {doubled}"
    archived_times = [instant.requested_time for instant in table.archived_timeline]
    archived = set(archived_times)
    assert len(archived) == len(archived_times), "an instant is twice in the archived timeline"
    active = {instant.requested_time for instant in table.active_timeline.commits_timeline()}
    assert set(model.operations) <= archived | active, "commits are in no timeline"


def run_seed(seed: int, templates: Templates, folder: Path) -> Scenario:
    """Run the scenario of a seed in a new folder; an error says which seed, and prints the calls."""
    # What earlier scenarios have read of the same folder is read again, so that a seed gives the same calls every time.
    DECODED_FILES.clear()
    committed_log_files._READ_BEFORE.clear()
    scenario = Scenario(seed, templates, folder)
    try:
        scenario.run()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        print(f"--- seed {seed}: the last calls")
        print("\n".join(scenario.world.trace[-400:]))
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return scenario
