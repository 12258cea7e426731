"""Seeded scenarios of writers, compactors, cleaners and readers on one merge-on-read table: `run_compaction_seed`.

Each writer has keys of its own, in file groups that all share. What must hold:

* Every reader finds each key in one of the states that it had between the reader's begin and its end, and once.
* A write that was told to be committed is there at the end, and one that was told to have failed is not.
* When all have ended, and the dead ones' heartbeats and locks have expired, a client finishes what they left: nothing
  is pending, and compacting everything changes no row.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.view import committed_log_files
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import (
    HoodieException,
    HoodieWriteConflictException,
)
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.merging_reader import LogMerging
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.metadata.reader.decoded_files import DECODED_FILES
from hoodie.query.read_plan import all_columns
from tests.support.interleaved_writers import COMMON, MINUTE_MS, Rows, to_table
from tests.support.interleaving import Process, World

__all__ = ["CompactionScenario", "make_compaction_template", "run_compaction_seed"]

DEATHS = (
    r"create .*compaction\.requested$",
    r"create .*compaction\.inflight$",
    r"create .*\.(delta)?commit$",
    r"finish .*parquet",
    r"start .*parquet",
    r"create .*\.log\.",
    r"delete .*\.open",
    r"create .*heartbeat",
    r"create .*rollback$",
    r"delete .*inflight$",
)
"""Calls at which a death or a pause may matter more than at others."""
NEVER = -1
"""The state of a key that was deleted."""
PLACES = [(path, f"w{writer}-{number}") for writer in range(2) for path in "xy" for number in range(3)]
"""All keys; they have the value 1 in the beginning."""


@attrs.define
class History:
    """The states of one key, in the order in which its writer gave them.

    Attributes:
        states: Values; `NEVER` for a delete.
        told: The number of the last state that its writer was told to be committed.
        void: Numbers of states whose writer was told that they failed.
    """

    states: list[int] = attrs.field(factory=lambda: [1])
    told: int = 0
    void: set[int] = attrs.field(factory=set)

    def possible(self, since: int) -> set[int]:
        """What may be found by who began when the state of a number was told."""
        return {state for number, state in enumerate(self.states) if number >= since and number not in self.void}


def new_client(base_path: str, **properties: Any) -> HoodieLocalWriteClient:
    off = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    config = HoodieWriteConfig.from_properties(
        base_path,
        {**COMMON, "hoodie.write.lock.provider": "FileSystemBasedLockProvider", **off, **properties},
    )
    return HoodieLocalWriteClient(config, LocalEngineContext(parallelism=1))


def read(base_path: str) -> list[tuple[tuple[str, str], int]]:
    """The rows, on one thread."""
    snapshot = TableSnapshot.load(base_path)
    schema = all_columns(snapshot.load_schema())
    context = HoodieReaderContext(snapshot.storage, schema, log_merging=LogMerging.of_table(snapshot, schema))
    view = snapshot.view()
    partitions = view.list_partitions()
    view.load_partitions(partitions)
    slices = [file_slice for partition in partitions for file_slice in view.latest_file_slices(partition)]
    return [
        ((row["region"], row["id"]), row["v"])
        for file_slice in slices
        for batch in HoodieFileGroupReader(context, file_slice).iter_batches()
        for row in batch.to_pylist()
    ]


def make_compaction_template(
    folder: Path, table_version: int, ordering_fields: Sequence[str] = (), **properties: Any
) -> float:
    """A merge-on-read table with base files and log files; returns the time after it.

    Args:
        folder: The table.
        table_version: Its version.
        ordering_fields: Its ordering fields.
        properties: Of the client that fills it.
    """
    base_path = str(folder)
    HoodieTableMetaClient.init_table(
        base_path, table_name="t", record_key_fields=["id"], partition_fields=["region"],
        ordering_fields=ordering_fields, table_type="MERGE_ON_READ", table_version=table_version,
    )  # fmt: skip
    world = World(0, base_path)

    def work() -> None:
        with new_client(base_path, **properties) as client:
            client.upsert(to_table(dict.fromkeys(PLACES, 0)))
            client.upsert(to_table(dict.fromkeys(PLACES[1:], 1)))
            client.upsert(to_table({PLACES[0]: 1}))

    world.run({Process("template"): work})
    return world.now_ms + 1000


class CompactionScenario:
    """All that a seed decides, and its run.

    Attributes:
        outcomes: How often what ended how.
        world: Its trace tells what happened.
    """

    def __init__(self, seed: int, template: Path, now_ms: float, folder: Path) -> None:
        self.random = rng = random.Random(seed)
        self.base_path = str(folder)
        shutil.copytree(template, folder)
        self.step_ms = rng.choice([1, 10, 60])
        self.world = World(
            seed, self.base_path, switching=rng.choice([0.05, 0.2, 0.5, 1.0]), step_ms=self.step_ms, now_ms=now_ms
        )
        self.outcomes: Counter[str] = Counter()
        self.histories = {place: History() for place in PLACES}
        self.has_cleaner = rng.random() < 0.5
        self.properties = self._properties()
        self._value = 100
        self._work: dict[Process, Callable[[], None]] = {}
        for number in range(self._writers()):
            self._add(f"writer{number}", 0.3, lambda process, number=number: self._write(process, number))
        for number in range(rng.choice([1, 1, 2])):
            self._add(f"compactor{number}", 0.4, self._compact)
        if self.has_cleaner:
            self._add("cleaner", 0.1, self._clean)
        self._add("reader", 0, self._read)

    def _properties(self) -> dict[str, Any]:
        """Those of all clients."""
        rng = self.random
        return {
            "hoodie.index.type": rng.choice(["SIMPLE", "SIMPLE", "INMEMORY", "BLOOM"]),
            "hoodie.parquet.small.file.limit": rng.choice([0, 104857600]),
            "hoodie.cleaner.commits.retained": 1,
            "hoodie.write.lock.wait.retry": rng.random() < 0.5,
        }

    def _writers(self) -> int:
        """How many writers there are."""
        return self.random.choice([1, 2, 2])

    def _add(self, name: str, dying: float, work: Callable[[Process], None]) -> None:
        rng = self.random
        where = rng.choice([rng.randrange(1, 200), rng.choice(DEATHS)])
        process = Process(name)
        if rng.random() < dying:
            process = Process(name, dies_at=where, dies_after=rng.random() < 0.5)
        elif dying and rng.random() < 0.3:
            process = Process(name, suspended_at=where, suspended_ms=rng.choice([100, 3000, 5 * MINUTE_MS]),
                              suspended_after=rng.random() < 0.5)  # fmt: skip
        self._work[process] = lambda: work(process)

    def run(self) -> None:
        """Let all work to their end, then let one more client find its way."""
        self.world.run(self._work)
        self.world.now_ms += 10 * MINUTE_MS
        self.world.note("--- all have ended")
        self.world.run({Process("last"): self._recover})

    # --- who works ----------------------------------------------------------------------------------------------

    def _write(self, process: Process, number: int) -> None:
        rng = self.random
        with new_client(self.base_path, **self.properties) as client:
            for _ in range(rng.choice([2, 3, 4])):
                places = [(path, f"w{number}-{rng.randrange(3)}") for path in rng.choice([["x"], ["y"], ["x", "y"]])]
                is_delete = rng.random() < 0.2
                self._value += 1
                numbers = {}
                for place in places:
                    history = self.histories[place]
                    history.states.append(NEVER if is_delete else self._value)
                    numbers[place] = len(history.states) - 1
                try:
                    if is_delete:
                        client.delete([HoodieKey(key, path) for path, key in places])
                    else:
                        rows: Rows = dict.fromkeys(places, self._value)
                        client.upsert(to_table(rows))
                except HoodieException as error:
                    self.outcomes[f"write {type(error).__name__}"] += 1
                    self._check_allowed(process, error)
                    is_in_doubt = isinstance(error, HoodieWriteConflictException) and not error.is_retry_safe
                    for place, state in numbers.items():
                        if not is_in_doubt:
                            self.histories[place].void.add(state)
                else:
                    self.outcomes["committed"] += 1
                    for place, state in numbers.items():
                        self.histories[place].told = state
                self.world.sleep(rng.choice([0, 0, 100, 3000]))

    def _compact(self, process: Process) -> None:
        rng = self.random
        with new_client(self.base_path, **self.properties) as client:
            for _ in range(rng.choice([2, 4, 6])):
                kind = rng.choice(["compact", "compact", "schedule"])
                try:
                    done = client.compact() if kind == "compact" else client.schedule_compaction()
                except HoodieException as error:
                    self.outcomes[f"{kind} {type(error).__name__}"] += 1
                    self._check_allowed(process, error)
                else:
                    self.outcomes[f"{kind} {'done' if done else 'had nothing to do'}"] += 1
                self.world.sleep(rng.choice([0, 50, 1000, 3000]))

    def _clean(self, process: Process) -> None:
        with new_client(self.base_path, **self.properties) as client:
            for _ in range(3):
                try:
                    done = client.clean()
                except HoodieException as error:
                    self.outcomes[f"clean {type(error).__name__}"] += 1
                    self._check_allowed(process, error)
                else:
                    self.outcomes[f"clean {'did something' if done else 'had nothing to do'}"] += 1
                self.world.sleep(self.random.choice([0, 100, 2000]))

    def _check_allowed(self, process: Process, error: HoodieException) -> None:
        """Losing against others is said so; anything else is an error."""
        names = {"HoodieWriteConflictException", "HoodieCompactionException", "TakenCompactionException",
                 "OutdatedCompactionPlanException", "HoodieHeartbeatException", "HoodieCommitException"}  # fmt: skip
        if type(error).__name__ in names:
            return
        # Who stands still loses its lock, its instant, and the files that it was about to read.
        if process.was_suspended or self.step_ms > 1:
            return
        raise error

    def _read(self, process: Process) -> None:
        for _ in range(6):
            since = self._told()
            try:
                found = read(self.base_path)
            except (HoodieException, FileNotFoundError) as error:
                if not self.has_cleaner and "rolled back since" not in str(error):
                    raise
                self.outcomes["read files that were cleaned"] += 1
            else:
                self._check_rows(found, since)
                self.outcomes["read"] += 1
            self.world.sleep(self.random.choice([0, 10, 500, 3000]))

    def _told(self) -> Any:
        """What is known to be committed now, for `_check_rows`."""
        return {place: history.told for place, history in self.histories.items()}

    def _check_rows(self, found: list[tuple[tuple[str, str], int]], since: dict[tuple[str, str], int]) -> None:
        rows = dict(found)
        assert len(rows) == len(found), f"keys that live twice: {found}"
        for place, history in self.histories.items():
            state = rows.pop(place, NEVER)
            possible = history.possible(since[place])
            assert state in possible, f"{place} is {state}, and not one of {possible}: {history}"
        assert not rows

    def _recover(self) -> None:
        with new_client(self.base_path, **self.properties) as client:
            client.rollback_failed_writes()
            before = sorted(read(self.base_path))
            self._check_rows(before, self._told())
            while client.compact() is not None:
                assert sorted(read(self.base_path)) == before
            client.clean()
            assert sorted(read(self.base_path)) == before
            client.upsert(to_table({("x", "last"): 1}))
            client.compact()
        assert sorted(read(self.base_path)) == sorted([*before, (("x", "last"), 1)])
        timeline = HoodieTableMetaClient.load(self.base_path).active_timeline
        assert not list(timeline.filter_pending())
        self.outcomes["compactions"] += len(timeline.filter_actions(Action.COMMIT))


def run_compaction_seed(
    seed: int,
    template: Path,
    now_ms: float,
    folder: Path,
    scenario_class: type[CompactionScenario] = CompactionScenario,
) -> CompactionScenario:
    """Run the scenario of a seed in a new folder; an error says which seed, and prints the calls."""
    # Commits of earlier scenarios have the same paths and times, and other content.
    DECODED_FILES.clear()
    committed_log_files._READ_BEFORE.clear()
    scenario = scenario_class(seed, template, now_ms, folder)
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
