"""One process stands still at every single call to the storage, for longer than its lock and its heartbeat last.

Meanwhile another process writes, cleans, undoes or restores on the same table, takes the first one for dead, and takes
its lock. Then that one goes on. It either comes through, rightly, or stops by a named exception; no row is lost, and
none lives twice. In other runs it is the one call only that takes so long: the process' heartbeat and its lock live on.
"""

from __future__ import annotations

import logging
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.exception import (
    HoodieCommitException,
    HoodieException,
    HoodieHeartbeatException,
    HoodieIOException,
    HoodieLockException,
    HoodieRestoreException,
    HoodieRollbackException,
    HoodieSavepointException,
    HoodieWriteConflictException,
)
from tests.support.interleaved_writers import (
    COMMON,
    MINUTE_MS,
    Operation,
    Oracle,
    Templates,
    check_end,
    make_template,
    new_client,
    write,
)
from tests.support.interleaving import Process, World, virtual

DELAY_MS = 20 * MINUTE_MS
LEASE = {"hoodie.write.lock.filesystem.expire": 1, "hoodie.write.lock.storage.validity.timeout.secs": 60}
SERVICES_BY_HAND = {
    **COMMON,
    **LEASE,
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.cleaner.commits.retained": 2,
    "hoodie.keep.min.commits": 3,
    "hoodie.keep.max.commits": 4,
    "hoodie.write.concurrency.unique.keys": "true",
    "hoodie.parquet.small.file.limit": 0,
}
LOCKS: dict[str, dict[str, Any]] = {
    "file_that_expires": {"hoodie.write.lock.provider": "FileSystemBasedLockProvider"},
    "file_that_stays": {
        "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
        "hoodie.write.lock.filesystem.expire": 0,
    },
    "storage": {"hoodie.write.lock.provider": "StorageBasedLockProvider"},
    "in_process": {"hoodie.write.lock.provider": "InProcessLockProvider"},
}


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Templates]:
    """Tables to begin with; while they are there, time and threads are those of the worlds."""
    with pytest.MonkeyPatch.context() as monkeypatch, virtual(monkeypatch):
        folder = tmp_path_factory.mktemp("templates")
        yield {index_type: make_template(folder / index_type, index_type) for index_type in ("SIMPLE", "BUCKET")}


# --- what is done -----------------------------------------------------------------------------------------------------

Work = Callable[["Run", Process, HoodieLocalWriteClient], None]


def writes(operation: Operation) -> Work:
    def work(run: Run, process: Process, client: HoodieLocalWriteClient) -> None:
        run.write(process, client, attrs.evolve(operation))

    return work


def serves(name: str) -> Work:
    return lambda run, process, client: getattr(client, name)()


def commits(base_path: str) -> list[str]:
    timeline = HoodieTableMetaClient.load(base_path).active_timeline
    return [instant.requested_time for instant in timeline.commits_timeline().filter_completed_instants()]


def rolls_back_the_newest(run: Run, process: Process, client: HoodieLocalWriteClient) -> None:
    run.oracle.undoing.add(process)
    with run.world.silently():
        newest = commits(run.base_path)[-1]
    client.rollback(newest)


def rolls_back_the_failed(run: Run, process: Process, client: HoodieLocalWriteClient) -> None:
    client.rollback_failed_writes()


def restores(run: Run, process: Process, client: HoodieLocalWriteClient) -> None:
    run.oracle.undoing.add(process)
    with run.world.silently():
        wanted = commits(run.base_path)[-3]
    client.restore_to_instant(wanted)


def makes_savepoint(run: Run, process: Process, client: HoodieLocalWriteClient) -> None:
    client.delete_savepoint(client.savepoint().instant_time)


UPSERT = Operation("upsert", {("x", "k0"): 10, ("y", "k0"): 10, ("z", "k0"): 10})
RIVAL = Operation("upsert", {("x", "k0"): 20, ("x", "k1"): 20, ("y", "new"): 20})
FIRST: dict[str, Work] = {
    "upsert": writes(UPSERT),
    "upsert of a started instant": writes(attrs.evolve(UPSERT, by_hand=True)),
    "insert": writes(Operation("insert", {("x", "n"): 10, ("z", "n"): 10})),
    "bulk insert": writes(Operation("bulk_insert", {("x", "n"): 10, ("z", "n"): 10})),
    "delete": writes(Operation("delete", {}, keys=(("x", "k0"), ("y", "k5")))),
    "insert overwrite": writes(Operation("insert_overwrite", {("x", "n"): 10}, partitions=("x",))),
    "delete partition": writes(Operation("delete_partition", {}, partitions=("x",))),
    "clean": serves("clean"),
    "archive": serves("archive"),
    "rollback of a failed write": rolls_back_the_failed,
    "rollback of a commit": rolls_back_the_newest,
    "restore": restores,
    "savepoint": makes_savepoint,
}
MOVING: dict[str, Work] = {
    "upsert that moves": writes(
        Operation("upsert", {("y", "k0"): 10, ("z", "k3"): 10, ("x", "n"): 10}, is_global=True)
    ),
    "delete elsewhere": writes(Operation("delete", {}, keys=(("y", "k0"), ("x", "k5")), is_global=True)),
}
"""With a global index."""
RIVAL_THAT_MOVES = Operation("upsert", {("z", "k0"): 20, ("x", "k1"): 20, ("y", "new"): 20}, is_global=True)
SECOND: dict[str, list[Work]] = {
    "writes and cleans": [writes(RIVAL), serves("clean"), serves("archive")],
    "moves and cleans": [writes(RIVAL_THAT_MOVES), serves("clean"), serves("archive")],
    "cleans and writes": [serves("clean"), writes(RIVAL)],
    "undoes and writes": [rolls_back_the_newest, writes(RIVAL)],
    "restores": [restores],
}


class Run:
    """One of them stands still at one call."""

    def __init__(
        self, templates: Templates, folder: Path, lock: str, first: str, second: str, index_type: str = "SIMPLE"
    ) -> None:
        template = templates["BUCKET" if index_type == "BUCKET" else "SIMPLE"]
        self.base_path = str(folder)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template.folder, folder)
        self.world = World(1, self.base_path, switching=0, step_ms=1, now_ms=template.now_ms)
        self.model = template.model.copy()
        self.oracle = Oracle(self.world, self.base_path, self.model, retained=1)
        self.properties = {**SERVICES_BY_HAND, **LOCKS[lock], "hoodie.index.type": index_type}
        self.outcomes: Counter[str] = Counter()
        self.needs_failed_write = first == "rollback of a failed write"
        self.is_by_hand = first == "upsert of a started instant"
        self._first, self._second = {**FIRST, **MOVING}[first], SECOND[second]

    def run(self, process: Process) -> None:
        with self.oracle.watching():
            if self.needs_failed_write:
                self.world.run(
                    {(dying := Process("dying", r"create .*commit$")): lambda: self._do(dying, [FIRST["upsert"]])}
                )
                self.world.now_ms += MINUTE_MS
            other = Process("other")
            self.world.run(
                {
                    process: lambda: self._do(process, [self._first]),
                    other: lambda: self._do_meanwhile(process, other),
                }
            )
            self.world.now_ms += 10 * MINUTE_MS
            self.world.note("--- all have ended")
            self.world.run({(last := Process("last")): lambda: self._recover(last)})
        check_end(self.base_path, self.model)

    def write(self, process: Process, client: HoodieLocalWriteClient, operation: Operation) -> None:
        self.oracle.writing[process] = operation
        try:
            write(client, operation)
        except HoodieException as error:
            assert operation.committed_at is None, f"{operation} is committed, but its writer was told: {error}"
            raise
        self.oracle.tell(operation)

    def _do(self, process: Process, steps: list[Work]) -> None:
        for step in steps:
            try:
                by_hand = {"hoodie.auto.commit": "false"} if self.is_by_hand and process.name == "first" else {}
                with new_client(self.base_path, {**self.properties, **by_hand}) as client:
                    step(self, process, client)
            except (
                HoodieWriteConflictException,
                HoodieHeartbeatException,
                HoodieCommitException,
                HoodieRollbackException,
                HoodieRestoreException,
                HoodieSavepointException,
                HoodieLockException,
                HoodieIOException,
            ) as error:
                if isinstance(error, HoodieLockException):
                    assert error.was_lost, error
                if isinstance(error, HoodieIOException):
                    assert any(text in str(error) for text in OF_OTHERS), error
                self.outcomes[f"{process.name} {type(error).__name__}"] += 1
                self.world.note(f"{process.name} was told: {error}")
            else:
                self.outcomes[f"{process.name} came through"] += 1

    def _do_meanwhile(self, first: Process, process: Process) -> None:
        self.world.wait(lambda: first.was_suspended or first.is_dead)
        # Whatever lives only in the memory of who stands still has ended.
        self.world.sleep(3 * MINUTE_MS)
        self._do(process, self._second)

    def _recover(self, process: Process) -> None:
        with new_client(self.base_path, self.properties) as client:
            client.rollback_failed_writes()
            client.clean()
            client.archive()
            last = Operation("upsert", {("x", "last"): 1})
            self.write(process, client, last)


OF_OTHERS = ("since the timeline was loaded", "is missing", "Another writer changed the archive")
"""Parts of errors of storage that others cause."""
CHANGES = ("create", "replace", "put", "touch", "mkdir", "delete", "unlink", "rmdir", "start", "finish")
COMPLETING = re.compile(r"create .*\.(commit|replacecommit|clean|rollback|restore|savepoint)$")


def _calls_of(world: World, name: str) -> list[str]:
    """Method and path of every call of a process that never stood still."""
    lines = [line.split(" ", 1) for line in world.trace]
    return [line[1] for line in lines if line[0].split("/")[0] == name]


@attrs.frozen
class Sweep:
    """All calls of one operation."""

    first: str
    second: str
    lock: str
    only_call: bool = False
    index_type: str = "SIMPLE"

    def run(self, templates: Templates, folder: Path, sample: int | None) -> Counter[str]:
        """Let it stand still before each call, and after each that changes something.

        Args:
            templates: The tables.
            folder: Where copies of it are made.
            sample: At how many calls, besides the one that completes what it does; None for all.
        """
        healthy = Run(templates, folder, self.lock, self.first, self.second, self.index_type)
        counted = Process("first", only_call=self.only_call)
        healthy.run(counted)
        calls = _calls_of(healthy.world, counted.name)
        assert len(calls) == counted.calls
        points = [(number, False) for number in range(1, len(calls) + 1)]
        points += [(number, True) for number, call in enumerate(calls, 1) if call.split(" ")[0] in CHANGES]
        chosen = points
        if sample is not None:
            completing = [point for point in points if COMPLETING.search(calls[point[0] - 1])][:1]
            chosen = completing + random.Random(str(self)).sample(points, sample if completing else 1)
        outcomes: Counter[str] = Counter()
        for number, after in chosen:
            process = Process(
                "first", suspended_at=number, suspended_ms=DELAY_MS, suspended_after=after, only_call=self.only_call
            )
            run = Run(templates, folder, self.lock, self.first, self.second, self.index_type)
            try:
                run.run(process)
                assert process.was_suspended
            except BaseException as error:
                error.add_note(
                    f"{self}, {'after' if after else 'before'} call {number} of {len(calls)}: {calls[number - 1]}"
                )
                print("\n".join(run.world.trace[-300:]))
                raise
            outcomes += run.outcomes
        print(f"{self}: {len(calls)} calls, {len(chosen)} of {len(points)} delays, {dict(sorted(outcomes.items()))}")
        return outcomes


WRITES = ("upsert", "insert overwrite", "delete partition", "delete")
SWEEPS = [
    *(Sweep(first, "writes and cleans", "file_that_expires") for first in FIRST),
    *(Sweep(first, "cleans and writes", "storage") for first in FIRST),
    *(Sweep(first, "undoes and writes", "file_that_expires") for first in (*WRITES, "clean", "archive", "savepoint")),
    *(Sweep(first, "restores", "storage") for first in (*WRITES, "clean", "archive", "restore")),
    *(Sweep(first, "writes and cleans", "file_that_stays") for first in ("upsert", "archive", "restore")),
    *(Sweep(first, "writes and cleans", "in_process") for first in ("upsert", "rollback of a commit", "savepoint")),
    *(
        Sweep(first, "writes and cleans", "file_that_expires", only_call=True)
        for first in ("upsert", "clean", "archive")
    ),
    *(
        Sweep(first, "writes and cleans", "file_that_expires", index_type="BUCKET")
        for first in ("upsert", "insert overwrite", "delete")
    ),
    *(
        Sweep(first, "moves and cleans", "file_that_expires", index_type=index_type)
        for first in MOVING
        for index_type in ("GLOBAL_SIMPLE", "GLOBAL_BLOOM")
    ),
]


@pytest.mark.parametrize("sweep", [*SWEEPS[: len(FIRST)], *SWEEPS[len(FIRST) :: 2]], ids=str)
@pytest.mark.one_in(4)
def test_a_process_that_stands_still_at_some_calls(sweep: Sweep, templates: Templates, tmp_path: Path) -> None:
    sweep.run(templates, tmp_path / "t", 1 if sweep.second == "writes and cleans" else 0)


@pytest.mark.soak
@pytest.mark.parametrize("sweep", SWEEPS, ids=str)
def test_a_process_that_stands_still_at_any_call(sweep: Sweep, templates: Templates, tmp_path: Path) -> None:
    sweep.run(templates, tmp_path / "t", None)
