"""Accidents that tables of Hudi have had, one test each; what is promised about them stands in docs/guarantees.md.

The table is compared with a dict, and its files with its timeline, after each step; readers who pinned an instant read
the same before and after.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.table.timeline import active_timeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.engine.local_data import LocalData
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import (
    HoodieCommitException,
    HoodieException,
    HoodieHeartbeatException,
    HoodieIndexException,
    HoodieLockException,
    HoodieRestoreException,
    HoodieRollbackException,
    HoodieSavepointException,
)
from hoodie.storage.local_storage import LocalStorage
from hoodie.table.action.commit.base_commit_action_executor import BaseCommitActionExecutor
from tests.support.hookable_storage import Faults, hooked, run_with_faults
from tests.support.table_builder import SCHEMA, init_table, rows
from tests.support.table_invariants import check_table
from tests.support.timeline_files import instant_of_path, make_state, next_time, rename_instant, write_commit

T = TypeVar("T")
R = TypeVar("R")
Row = tuple[str, str, int]
Rows = list[Row]
NAMES = ("id", "region", "ts")
BY_HAND = {"hoodie.auto.commit": "false"}
SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
    "hoodie.write.lock.wait_time_ms": 0,
    "hoodie.write.lock.client.num_retries": 0,
}
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
KEEP_TWO = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 4}
GLOBAL = ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"]
INDEXES = ["SIMPLE", "BLOOM", *GLOBAL, "INMEMORY", "BUCKET"]


class History:
    """A table and what its rows must be; each step is checked."""

    def __init__(self, base_path: Path, properties: Mapping[str, Any]) -> None:
        self.path = base_path
        self.properties = {**OFF, **properties}
        self.model: dict[str, dict[str, Any]] = {}
        self.was_cleaned = False
        self.pinned: dict[str, Rows] = {}
        init_table(base_path)

    def client(self, engine: LocalEngineContext | None = None, **more: Any) -> HoodieLocalWriteClient:
        given = {key if "." in key else "hoodie." + key.replace("_", "."): value for key, value in more.items()}
        config = HoodieWriteConfig.from_properties(str(self.path), {**self.properties, **given})
        return HoodieLocalWriteClient(config, engine or LocalEngineContext(parallelism=1))

    def upsert(self, *entries: Row, engine: LocalEngineContext | None = None, **more: Any) -> str:
        with self.client(engine, **more) as client:
            result = client.upsert(rows(*entries))
        assert result.service_errors == ()
        self.take(*entries)
        self.check()
        return result.instant_time

    def delete(self, *entries: tuple[str, str], **more: Any) -> str:
        with self.client(**more) as client:
            instant_time = client.delete([HoodieKey(*entry) for entry in entries]).instant_time
        for key, _ in entries:
            del self.model[key]
        self.check()
        return instant_time

    def take(self, *entries: Row) -> None:
        """The rows were written."""
        self.model.update({entry[0]: dict(zip(NAMES, entry, strict=True)) for entry in entries})

    def pin(self) -> str:
        """Somebody reads the table as it is at its newest commit, for longer than what comes next takes."""
        newest = self.timeline().commits_timeline().filter_completed_instants().last_instant
        assert newest is not None
        self.pinned[newest.requested_time] = self.read_at(newest.requested_time)
        return newest.requested_time

    def read_at(self, instant_time: str) -> Rows:
        view = HoodieTableMetaClient.load(str(self.path)).view()
        found: Rows = []
        for partition_path in view.list_partitions():
            for file in view.latest_base_files_before_or_on(partition_path, instant_time):
                found += (tuple(row.values()) for row in pq.ParquetFile(file.path).read(columns=NAMES).to_pylist())
        return sorted(found)

    def timeline(self) -> active_timeline.HoodieActiveTimeline:
        return HoodieTableMetaClient.load(str(self.path)).active_timeline

    def files(self) -> list[str]:
        return sorted(str(file.relative_to(self.path)) for file in self.path.rglob("*.parquet"))

    def meta(self, name: str) -> Path:
        return self.path / ".hoodie" / name

    def check_rows(self) -> None:
        """What all readers see, real Hudi's of Rust too."""
        expected = sorted(tuple(row.values()) for row in self.model.values())
        batches = HudiTableBuilder.from_base_uri(str(self.path)).build().read()
        others = pa.Table.from_batches(batches).select(NAMES).to_pylist() if batches else []
        assert sorted(tuple(row.values()) for row in others) == expected
        self.check_rows_of_hoodie()

    def check_rows_of_hoodie(self) -> None:
        mine = hoodie.read_table(str(self.path), columns=NAMES).to_pylist()
        assert sorted(tuple(row.values()) for row in mine) == sorted(tuple(row.values()) for row in self.model.values())

    def check(self) -> None:
        check_table(self.path, self.model, was_cleaned=self.was_cleaned)
        self.check_rows()
        assert {time: self.read_at(time) for time in self.pinned} == self.pinned


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., History]:
    return lambda name="t", **properties: History(tmp_path / name, properties)


@pytest.fixture
def history(make: Callable[..., History]) -> History:
    """Two keys in one partition, one in another."""
    history = make()
    history.upsert(("a", "x", 1), ("b", "x", 1), ("c", "y", 1))
    return history


class RetryingEngine(LocalEngineContext):
    """Runs every stage twice: all of its tasks, then all again, as when the answers of the first were lost.

    Args:
        counts: Whose answers go on: of the ``first`` attempts or the ``second``.
        between: Called after the attempts that are lost, or between the two.
    """

    def __init__(self, counts: str = "second", between: Callable[[], None] = lambda: None) -> None:
        super().__init__(parallelism=1)
        self._counts = counts
        self._between = between

    def run_tasks(self, items: Sequence[T], function: Callable[[TaskIdentity, T], R]) -> list[R]:
        first = super().run_tasks(items, function)
        self._between()
        second = super().run_tasks(items, function)
        return first if self._counts == "first" else second


# --- tasks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", ["first", "second"])
@pytest.mark.parametrize("index", INDEXES)
def test_a_retried_stage_does_not_tag_an_update_as_an_insert(
    make: Callable[..., History], monkeypatch: pytest.MonkeyPatch, index: str, counts: str
) -> None:
    history = make(**{"hoodie.index.type": index, "hoodie.bucket.index.num.buckets": 2})
    history.upsert(("a", "x", 1), ("b", "x", 1), ("c", "y", 1))
    # Nothing is kept: what was tagged is tagged again when files of the first attempts are on storage.
    monkeypatch.setattr(LocalData, "persist", lambda self, fixed=(): self)
    changes: Rows = [("a", "x", 2), ("n", "x", 2), ("m", "z", 2)]
    with history.client(RetryingEngine(counts)) as client:
        result = client.upsert(rows(*changes))
    assert (result.updated_count, result.inserted_count) == (1, 2)
    history.take(*changes)
    history.check()
    monkeypatch.undo()
    history.upsert(("a", "x", 3), ("n", "x", 3), ("m", "z", 3))
    history.delete(("a", "x"), ("m", "z"))


def test_a_losing_attempt_that_leaves_a_file_of_four_bytes_harms_nobody(history: History) -> None:
    known = set(history.files())
    torn: set[str] = set()

    def tear() -> None:
        """What the first attempts wrote has its magic number only."""
        for name in set(history.files()) - known:
            (history.path / name).write_bytes(b"PAR1")
            torn.add(name)

    history.upsert(("a", "x", 2), ("d", "z", 2), engine=RetryingEngine("second", tear))
    assert len(torn) == 2
    assert not torn & set(history.files())
    history.upsert(("a", "x", 3), ("d", "z", 3))


def test_a_file_of_four_bytes_beside_one_that_counts_is_not_read_and_goes_with_it(history: History) -> None:
    """As a driver leaves it that does not look at what its attempts made."""
    instant_time = history.upsert(("a", "x", 2), ("d", "z", 2))
    (name,) = (name for name in history.files() if instant_time in name and name.startswith("x/"))
    parsed = parse_base_file_name(Path(name).name)
    assert parsed is not None
    left = history.path / name.replace(f"_{parsed.write_token}_", "_9-9-999999_")
    left.write_bytes(b"PAR1")
    history.check_rows_of_hoodie()
    with history.client(**{"hoodie.cleaner.commits.retained": 1}) as client:
        for ts in (3, 4):
            client.upsert(rows(("a", "x", ts), ("b", "x", ts)))
            history.take(("a", "x", ts), ("b", "x", ts))
            history.check_rows_of_hoodie()
        client.clean()
    assert not left.exists()
    history.was_cleaned = True
    history.check()
    history.upsert(("a", "x", 5), ("d", "z", 5))


def test_a_key_of_a_non_deterministic_expression_is_stored_where_it_was_looked_up(history: History) -> None:
    made: list[str] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            keys = [str(uuid.uuid4()) for _ in range(20)]
            made.extend(keys)
            yield pa.RecordBatch.from_pydict({"id": keys, "region": ["x"] * 20, "ts": [1] * 20}, schema=SCHEMA)

    # The reader of the input is asked once, whatever is read of it how often, and the writing stage is run twice.
    original = BaseCommitActionExecutor._write_buckets
    written: list[int] = []

    def twice(self: BaseCommitActionExecutor, *arguments: Any) -> Any:
        self._context = RetryingEngine()
        written.append(len(made))
        return original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseCommitActionExecutor, "_write_buckets", twice)
        with history.client() as client:
            result = client.upsert(batches())
    assert (result.inserted_count, len(made), written) == (60, 60, [60])
    history.take(*((key, "x", 1) for key in made))
    history.check()
    stored = hoodie.read_table(str(history.path), columns=["id", "_hoodie_record_key"])
    assert stored["id"].to_pylist() == stored["_hoodie_record_key"].to_pylist()
    history.upsert(*((key, "x", 2) for key in made))


# --- cleaning ---------------------------------------------------------------------------------------------------------


def test_a_cleaner_beside_a_running_upsert_takes_nothing_that_it_needs(
    make: Callable[..., History], monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepared(name: str) -> History:
        history = make(name, **SEVERAL, **{"hoodie.cleaner.commits.retained": 1})
        history.upsert(("a", "x", 1), ("c", "y", 1))
        for ts in (2, 3):
            history.upsert(("a", "x", ts))
        return history

    def others(history: History, ts: int) -> None:
        """Commits of another file group, so that the version which the upsert reads is an old one, and a clean."""
        history.was_cleaned = True
        # While the upsert has the lock nobody commits.
        with suppress(HoodieLockException), history.client() as client:
            for number in range(2):
                client.upsert(rows(("c", "y", ts + number)))
                history.take(("c", "y", ts + number))
            client.clean()
            cleaned.append(history.path.name)

    cleaned: list[str] = []
    calls: list[tuple[str, str]] = []
    counted = prepared("counted")
    with counted.client() as client, hooked(monkeypatch, lambda name, path: calls.append((name, path))):
        client.upsert(rows(("a", "x", 9), ("n", "x", 9)))
    numbers = [n for n, (name, path) in enumerate(calls) if name in ("create", "start", "open", "list")]
    numbers = numbers[:: max(1, len(numbers) // 8)]
    for number in numbers:
        history, count = prepared(f"t{number}"), itertools.count()

        def meanwhile(name: str, path: str, number: int = number, of: History = history, count: Any = count) -> None:
            if next(count) == number:
                others(of, 5)

        with history.client() as client, hooked(monkeypatch, meanwhile):
            client.upsert(rows(("a", "x", 9), ("n", "x", 9)))
        assert next(count) > number
        history.take(("a", "x", 9), ("n", "x", 9))
        history.check()
        with history.client() as client:
            client.clean()
        history.check()
    print(f"cleaned before {len(cleaned)} of {len(calls)} calls")
    assert len(cleaned) >= 5


@pytest.mark.parametrize("how", ["before", "after"])
def test_files_that_a_failed_clean_deleted_are_missed_by_nobody(
    history: History, faulty_storage: None, how: str
) -> None:
    for ts in (2, 3, 4):
        history.upsert(("a", "x", ts), ("c", "y", ts))
    times = [instant.requested_time for instant in history.timeline()]
    history.pin()
    settings = {"hoodie.cleaner.commits.retained": 1}

    def clean() -> None:
        with history.client(**settings) as client:
            client.clean()

    healthy = Faults()
    # Where the report would be made: the files are gone by then, and nothing says so.
    original = LocalStorage._put_if_absent
    with pytest.MonkeyPatch.context() as patch:

        def fail(self: LocalStorage, path: str, data: bytes) -> bool:
            if path.endswith(".clean"):
                if how == "after":
                    original(self, path, data)
                raise OSError("the answer was lost")
            return original(self, path, data)

        patch.setattr(LocalStorage, "_put_if_absent", fail)
        error = run_with_faults(healthy, clean)
    assert (error is None) == (how == "after")
    history.was_cleaned = True
    assert [name for name in history.files() if times[0] in name] == []
    history.check()
    # Nobody goes back to what is gone, nobody builds on it, and the next clean brings it to an end.
    with history.client() as client:
        with pytest.raises(HoodieRestoreException, match="was cleaned"):
            client.restore_to_instant(times[0])
        with pytest.raises(HoodieSavepointException, match=r"was cleaned|is pending"):
            client.savepoint(times[0])
    with history.client(**KEEP_TWO) as client:
        client.archive()
    history.check()
    history.upsert(("a", "x", 5), ("n", "y", 5))
    clean()
    history.check()
    assert all(instant.state is State.COMPLETED for instant in history.timeline().filter_actions(Action.CLEAN))


def test_a_replacecommit_is_not_archived_before_its_files_are_cleaned(history: History) -> None:
    with history.client() as client:
        replaced = client.insert_overwrite(rows(("d", "x", 2))).instant_time
    del history.model["a"], history.model["b"]
    history.take(("d", "x", 2))
    history.check()
    for ts in range(3, 10):
        history.upsert(("c", "y", ts))
    with history.client(**KEEP_TWO) as client:
        client.archive()
    assert history.timeline().find(replaced) is not None
    history.check()
    with history.client(**KEEP_TWO) as client:
        client.clean()
        history.was_cleaned = True
        history.check()
        assert client.archive() > 0
    assert history.timeline().find(replaced) is None
    # Without it nothing hides the replaced rows: they must be gone.
    history.check()
    history.upsert(("a", "x", 20), ("d", "x", 20))


def test_deletion_of_instants_during_archive_seen_half_way_is_a_whole_history(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    with history.client() as client:
        client.insert_overwrite(rows(("d", "y", 2)))
    del history.model["c"]
    history.take(("d", "y", 2))
    for ts in range(3, 9):
        history.upsert(("a", "x", ts))
    with history.client(**KEEP_TWO) as client:
        client.clean()
    history.was_cleaned = True
    times = [i.requested_time for i in history.timeline().commits_timeline()]
    deletes = itertools.count()

    def read(name: str, path: str) -> None:
        if name != "delete" or instant_of_path(path) is None:
            return
        next(deletes)
        found = history.timeline().commits_timeline()
        assert [i.requested_time for i in found] == times[-len(found) :]
        assert all(i.is_completed for i in found)
        history.check()

    with hooked(monkeypatch, read), history.client(**KEEP_TWO) as client:
        archived = client.archive()
    assert archived >= 4
    assert next(deletes) >= 3 * archived
    history.check()
    history.upsert(("a", "x", 20), ("c", "y", 20))


# --- keys and file groups ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", INDEXES)
def test_an_upsert_after_all_rows_of_a_file_group_were_deleted(make: Callable[..., History], index: str) -> None:
    history = make(**{"hoodie.index.type": index, "hoodie.bucket.index.num.buckets": 1})
    history.upsert(("a", "x", 1), ("b", "x", 1), ("c", "y", 1))
    history.delete(("a", "x"), ("b", "x"))
    history.upsert(("a", "x", 2), ("n", "x", 2))
    history.delete(("a", "x"), ("n", "x"), ("c", "y"))
    assert history.model == {}
    history.upsert(("a", "y", 3), ("c", "y", 3), ("n", "x", 3))
    history.upsert(("a", "y", 4), ("n", "x", 4), ("m", "x", 4))


@pytest.mark.parametrize("index", GLOBAL)
def test_with_a_global_index_a_key_moves_to_another_partition_and_back(
    make: Callable[..., History], index: str
) -> None:
    history = make(**{"hoodie.index.type": index})
    history.upsert(("a", "x", 1), ("b", "x", 1), ("c", "y", 1))
    history.upsert(("a", "y", 2))
    history.upsert(("a", "x", 3), ("c", "x", 3))
    history.upsert(("a", "z", 4))
    history.upsert(("a", "x", 5), ("b", "y", 5), ("c", "y", 5))
    # A late row moves nothing.
    with history.client() as client:
        client.upsert(rows(("a", "y", 1)))
    history.check()
    history.delete(("a", "x"))
    history.upsert(("a", "y", 6))


def test_writers_with_mixed_index_settings_find_each_others_keys_or_are_refused(history: History) -> None:
    mixed = [index for index in INDEXES if index != "BUCKET"]
    # Each comes after each other one that is one or two places before it.
    for ts, index in enumerate([*mixed, *mixed[::2], *mixed[1::2]], 2):
        history.upsert(("a", "x", ts), (f"n{ts}", "x", ts), (f"n{ts - 1}", "x", ts), index_type=index)
    history.delete(("n5", "x"), ("b", "x"), index_type="BLOOM")
    before = history.files()
    with history.client(index_type="BUCKET", bucket_index_num_buckets=2) as client, pytest.raises(HoodieIndexException):
        client.upsert(rows(("a", "x", 100)))
    assert history.files() == before
    history.check()
    history.upsert(("a", "x", 101), ("b", "x", 101))


def test_writers_without_buckets_are_refused_where_others_have_them(make: Callable[..., History]) -> None:
    history = make(**{"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 2})
    history.upsert(("a", "x", 1), ("b", "x", 1), ("c", "y", 1))
    for index in INDEXES[:-1]:
        with history.client(index_type=index) as client, pytest.raises(HoodieIndexException, match="BUCKET"):
            client.upsert(rows(("a", "x", 2)))
        history.check()
    with history.client(bucket_index_num_buckets=4) as client, pytest.raises(HoodieIndexException, match="buckets"):
        client.upsert(rows(("a", "x", 2)))
    history.check()
    history.upsert(("a", "x", 3), ("d", "z", 3))


# --- instants ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("several", [False, True], ids=["single_writer", "several_writers"])
def test_a_rolled_back_instant_is_not_committed_late(history: History, several: bool) -> None:
    history.properties.update(SEVERAL if several else {})
    late = history.client(**BY_HAND)
    instant_time = late.start_commit()
    result = late.upsert(rows(("a", "x", 2), ("n", "z", 2)), instant_time)
    history.check()
    with history.client() as client:
        assert client.rollback(instant_time)
    history.check()
    history.upsert(("b", "x", 2))
    with pytest.raises(HoodieCommitException, match="rolled back"):
        late.commit(instant_time, result)
    history.check()
    assert not [name for name in history.files() if instant_time in name]
    late.close()
    history.upsert(("a", "x", 3), ("n", "z", 3))


def test_a_completed_file_that_comes_after_the_rollback_shows_no_rows(history: History) -> None:
    """By a writer that does not look before it completes: the file names what is not there."""
    late = history.client(**BY_HAND)
    instant_time = late.start_commit()
    result = late.upsert(rows(("a", "x", 2), ("n", "z", 2)), instant_time)
    with history.client() as client:
        client.rollback(instant_time)
    history.check()
    make_state(history.path, instant_time, "commit", State.COMPLETED)
    write_commit(history.path, instant_time, result.commit_metadata)
    history.check_rows()
    for _ in range(2):
        with history.client() as client:
            client.upsert(rows(("a", "x", 3), ("b", "x", 3), ("n", "z", 3)))
        history.take(("a", "x", 3), ("b", "x", 3), ("n", "z", 3))
        history.check_rows()
    with history.client(**{"hoodie.cleaner.commits.retained": 1}) as client:
        client.clean()
    history.check_rows()
    with history.client() as client, pytest.raises(HoodieRestoreException, match="was cleaned"):
        client.restore_to_instant(instant_time)
    history.check_rows()


def test_a_table_is_not_rolled_back_to_a_commit_whose_files_are_gone(history: History) -> None:
    first = history.pin()
    history.pinned.clear()
    second = history.upsert(("a", "x", 2), ("c", "y", 2))
    history.upsert(("a", "x", 3))
    newest = history.pin()
    for name in history.files():
        if second in name and name.startswith("x/"):
            (history.path / name).unlink()
    history.was_cleaned = True
    with history.client() as client:
        for _ in range(2):
            with pytest.raises(HoodieRollbackException, match="cleaned"):
                client.rollback(newest)
            history.check()
            with pytest.raises(HoodieRestoreException, match="was cleaned"):
                client.restore_to_instant(second)
            history.check()
            with pytest.raises(HoodieSavepointException, match="was cleaned"):
                client.savepoint(second)
            history.check()
        # To another commit, whose files are there, it goes back.
        client.restore_to_instant(first)
    history.model.clear()
    history.take(("a", "x", 1), ("b", "x", 1), ("c", "y", 1))
    history.pinned.clear()
    history.check()
    history.upsert(("a", "x", 4), ("n", "y", 4))


class Clock:
    """Takes the place of ``datetime`` where instant times are made."""

    def __init__(self) -> None:
        self.moment = datetime.now(UTC)

    def now(self, timezone: Any = None) -> datetime:
        return self.moment


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(active_timeline, "datetime", clock)
    return clock


def test_two_instants_of_the_same_millisecond_are_two(history: History, clock: Clock) -> None:
    history.properties.update(SEVERAL)
    first, second = history.client(**BY_HAND), history.client(**BY_HAND)
    times = [first.start_commit(), second.start_commit()]
    assert len(set(times)) == 2
    one = first.upsert(rows(("a", "x", 2)), times[0])
    two = second.upsert(rows(("c", "y", 2)), times[1])
    assert second.commit(times[1], two)
    assert first.commit(times[0], one)
    history.take(("a", "x", 2), ("c", "y", 2))
    history.check()
    for ts in range(3, 6):
        history.upsert(("a", "x", ts))
    with history.client(**{"hoodie.cleaner.commits.retained": 1}) as client:
        client.clean()
        history.was_cleaned = True
        client.rollback(client.upsert(rows(("a", "x", 9))).instant_time)
    history.check()
    every = [instant.requested_time for instant in history.timeline()]
    assert len(set(every)) == len(every)


@pytest.mark.without_metadata_table("an instant gets another time than a metadata table has of it")
def test_instants_of_other_writers_of_the_same_millisecond_are_told_apart(history: History) -> None:
    """Hudi names an instant by its time, and its writers of different actions may take the same."""
    for ts in (2, 3, 4):
        history.upsert(("a", "x", ts))
    with history.client(**{"hoodie.cleaner.commits.retained": 1}) as client:
        client.clean()
    history.was_cleaned = True
    same = history.upsert(("b", "x", 5))
    (clean,) = history.timeline().filter_actions(Action.CLEAN)
    rename_instant(history.path, clean.requested_time, same, "clean", next_time(history.path))
    history.check()
    history.upsert(("a", "x", 6))
    with history.client() as client:
        client.savepoint(same)
        client.delete_savepoint(same)
        newest = history.timeline().commits_timeline().last_instant
        assert newest is not None
        client.rollback(newest.requested_time)
        history.take(("a", "x", 4))
        history.check()
        client.rollback(same)
        history.take(("b", "x", 1))
        history.check()
    assert history.timeline().find(same, Action.CLEAN) is not None
    for ts in range(7, 14):
        history.upsert(("a", "x", ts))
    with history.client(**KEEP_TWO) as client:
        client.clean()
        assert client.archive()
    history.check()
    history.upsert(("a", "x", 20), ("b", "x", 20))


@pytest.mark.parametrize("skew", [timedelta(hours=5), timedelta(minutes=-90)], ids=["ahead", "behind"])
def test_writers_whose_clocks_differ_write_one_history(history: History, clock: Clock, skew: timedelta) -> None:
    now = datetime.now(UTC)
    times = []
    for ts in range(2, 10):
        clock.moment = now + timedelta(seconds=ts) + (skew if ts % 2 else timedelta())
        times.append(history.upsert(("a", "x", ts), (f"n{ts}", "y", ts)))
    assert times == sorted(set(times))
    # The same of several at once, the first with the later clock.
    history.properties.update(SEVERAL)
    clock.moment = now + timedelta(minutes=1) + skew
    first = history.client(**BY_HAND)
    started = first.start_commit()
    result = first.upsert(rows(("a", "x", 20)), started)
    clock.moment = now + timedelta(minutes=1)
    history.upsert(("c", "y", 20))
    assert first.commit(started, result)
    history.take(("a", "x", 20))
    history.check()
    with history.client(**KEEP_TWO) as client:
        client.clean()
        history.was_cleaned = True
        client.archive()
    history.upsert(("a", "x", 30), ("b", "x", 30))


@pytest.mark.parametrize("is_alive", [True, False], ids=["alive", "dead"])
def test_an_inflight_instant_in_the_way_of_savepoint_archive_and_restore(history: History, is_alive: bool) -> None:
    history.properties.update(SEVERAL)
    good = history.pin()
    writer = history.client(**BY_HAND)
    inflight = writer.start_commit()
    result = writer.upsert(rows(("a", "x", 2), ("n", "z", 2)), inflight)
    if not is_alive:
        writer.close()
        heartbeat = history.meta(f".heartbeat/{inflight}")
        os.utime(heartbeat, (1, 1))
    for ts in range(3, 10):
        history.upsert(("c", "y", ts))
    # Archiving goes up to the commit before it, and no further.
    with history.client(**KEEP_TWO) as client:
        client.archive()
    assert [i.requested_time for i in history.timeline()][:2] == [good, inflight]
    history.check()
    with history.client() as client:
        # A savepoint of what is completed is no matter; of the instant itself there is none.
        with pytest.raises(HoodieSavepointException, match="no completed commit"):
            client.savepoint(inflight)
        client.savepoint(good)
        history.check()
        if is_alive:
            with pytest.raises(HoodieHeartbeatException, match=inflight):
                client.restore_to_savepoint(good)
            history.check()
            assert writer.commit(inflight, result)
            history.take(("a", "x", 2), ("n", "z", 2))
            history.check()
        undone = client.restore_to_savepoint(good)
    assert inflight in undone
    history.model.clear()
    history.take(("a", "x", 1), ("b", "x", 1), ("c", "y", 1))
    history.check()
    assert not list(history.timeline().filter_pending())
    if not is_alive:
        with pytest.raises(HoodieException):
            writer.commit(inflight, result)
    with suppress(HoodieException):
        writer.close()
    history.upsert(("a", "x", 20), ("n", "z", 20))
    assert isinstance(history.timeline().find(good), HoodieInstant)
