"""Clients that keep keys of slices with log files in memory find what the slices hold, whatever happens to the table.

A merge-on-read table gets random writes of clients that stay open, and of others, beside a copy-on-write table. Each
look-up in kept keys is compared with a reading of the whole slice. `make soak` runs more seeds.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieLocalWriteClient
from hoodie.common.model.file_slice import FileSlice
from hoodie.exception import HoodieCommitException, HoodieWriteConflictException
from hoodie.index.inmemory.in_memory_hash_index import HoodieInMemoryHashIndex
from hoodie.index.inmemory.kept_slice_keys import ReadsNewLogFiles
from hoodie.index.merged_keys import MergedKeys
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage_factory import open_storage
from tests.support.table_builder import local_client
from tests.support.twin_tables import KEYS, TwinTables

_SEVERAL_WRITERS = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
}
_SHARES = {"first": 0.6, "second": 0.25, "new": 0.15}


class LongLivedClients(TwinTables):
    """Twin tables; two clients of the merge-on-read table stay open, whatever they and others do, and fail at.

    Beside the steps of its base class: commits that complete late, and commits that the caller takes back. Instead of
    deaths there are failures of one call or of all later ones, after which the same client goes on.

    Args:
        folder: See the base class.
        seed: See the base class.
        version: See the base class.
        merging: See the base class.
    """

    def __init__(self, folder: Path, seed: int, version: int, merging: str | None = None) -> None:
        super().__init__(folder, seed, version, "INMEMORY logs", merging, share_of_deaths=0.15)
        self.has_flags = True
        self.properties.update(_SEVERAL_WRITERS)
        # With 0 there are no small file groups, and no new record goes to a log file.
        self.properties["hoodie.parquet.small.file.limit"] = self.random.choice([0, 1 << 20, 1 << 20, 1 << 20])
        self.weights |= {"late": 3, "taken_back": 2, "bulk_insert": 0.3, "delete": 1, "delete_where": 0.5}
        if self.random.random() < 0.5:
            # Most slices grow for long.
            self.weights |= {"delete": 0.2, "delete_where": 0.1, "compact": 0.5, "insert_overwrite_table": 0.1}
            self.has_flags = False
        self._open: dict[str, HoodieLocalWriteClient] = {}

    def close(self) -> None:
        """Close all clients."""
        for client in [*self._open.values(), *self._clients.values()]:
            client.close()

    def new_row(self, key: str, region: str | None = None, flagged: bool = False) -> Any:
        return super().new_row(key, region, flagged and self.has_flags)

    def _new(self, **more: Any) -> HoodieLocalWriteClient:
        return local_client(self.mor, {**self.properties, **self.of_logs, **more}, parallelism=1)

    def client(self, path: Path, **more: Any) -> HoodieLocalWriteClient:
        if path != self.mor:
            return super().client(path, **more)
        name = self.random.choices(list(_SHARES), list(_SHARES.values()))[0] if not more else "new"
        return self._named(name, **more)

    def _named(self, name: str, **more: Any) -> HoodieLocalWriteClient:
        if name == "new" and name in self._open:
            self._open.pop(name).close()
        if name not in self._open:
            self._open[name] = self._new(**more)
        return self._open[name]

    def _recover(self) -> None:
        """Nobody is dead: another writer rolls back what is left, or the same client does as it goes on."""
        heartbeats = self.mor / ".hoodie" / ".heartbeat"
        for file in heartbeats.iterdir() if heartbeats.exists() else ():
            # Storage failed for good, so the heartbeat of what had begun is still there.
            os.utime(file, (1, 1))
        if self.random.random() < 0.5:
            with self._new() as client:
                client.rollback_failed_writes()

    def _dies(self) -> bool:
        return self.random.random() < 0.5

    def _write(self, name: str) -> None:
        match name:
            case "late":
                self._late()
            case "taken_back":
                self._taken_back()
            case _:
                super()._write(name)

    def _taken_back(self) -> None:
        """A commit that is left to the caller, who takes it back, or makes it."""
        keys = self.random.sample(KEYS, 3)
        rows = self.table([self.new_row(key) for key in sorted(keys)])
        client = self._named("manual", **{"hoodie.auto.commit": "false"})
        instant = client.start_commit()
        result = client.upsert(rows, instant)
        if self.random.random() < 0.6:
            client.rollback(instant)
            self.log[-1] += " (taken back)"
            self.can_roll_back = False
            return
        client.commit(instant, result)
        self._also_to_cow(rows, result)

    def _late(self) -> None:
        """Two writers: the one that began first completes last, if its commit conflicts with nothing."""
        keys = [*KEYS]
        self.random.shuffle(keys)
        of_late, of_other = ([self.new_row(key) for key in sorted(some)] for some in (keys[:2], keys[2:5]))
        if self.random.random() < 0.7 and not self.is_global:
            regions = self.random.sample(["x", "y", "z"], 2)
            of_late = [row for row in of_late if row["region"] == regions[0]] or of_late[:1]
            of_other = [row for row in of_other if row["region"] != of_late[0]["region"]] or of_other[:1]
        first, second = self.random.sample(["first", "second", "new"], 2)
        late = self._named(first)
        instant = late.start_commit()
        other = self._named(second)
        result = other.upsert(self.table(of_other))
        self._also_to_cow(self.table(of_other), result)
        if self.random.random() < 0.5:
            # What is kept becomes older than the late one.
            self._named("first").explain_upsert(self.table([self.new_row(key) for key in keys[5:8]]))
        try:
            result = late.upsert(self.table(of_late), instant)
        except (HoodieWriteConflictException, HoodieCommitException) as error:
            self.log[-1] += f" (lost: {type(error).__name__})"
            self.can_roll_back = False
            with self._new() as client:
                client.rollback_failed_writes()
            return
        self.log[-1] += " (came late)"
        self._also_to_cow(self.table(of_late), result)

    def _also_to_cow(self, rows: Any, of_mor: Any) -> None:
        of_cow = self.client(self.cow).upsert(rows)
        self.rows = self.read(self.cow)
        self.commits.append((of_cow, of_mor, self.rows))
        self.can_roll_back = True

    def compare(self) -> None:
        """The latest rows, and the keys of base files that the open clients have in memory."""
        found, expected = (_without_times(self.read(path)) for path in (self.mor, self.cow))
        assert found == expected, f"merge-on-read: {found}\ncopy-on-write: {expected}"
        storage = open_storage(str(self.mor))
        for client in self._open.values():
            index = client._session.index
            assert isinstance(index, HoodieInMemoryHashIndex)
            for path, keys in index._keys.items():
                if Path(path).exists():
                    with HoodieParquetReader(storage, path) as reader:
                        assert keys.to_pylist() == reader.read_record_keys().to_pylist(), path


def _without_times(rows: list[Any]) -> list[Any]:
    return [{name: value for name, value in row.items() if name != "_hoodie_commit_time"} for row in rows]


@contextmanager
def checking_kept_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Each look-up in kept keys finds what the whole slice holds; counts what was kept, grew, and was read whole."""
    counts: Counter[str] = Counter()
    read, whole, grown = ReadsNewLogFiles.read, ReadsNewLogFiles._whole, ReadsNewLogFiles._grown

    def reading(self: ReadsNewLogFiles, file_slice: FileSlice) -> Any:
        found = read(self, file_slice)
        right = MergedKeys.read(self.merged, file_slice)
        assert sorted(found[0].to_pylist()) == sorted(right[0].to_pylist()), file_slice
        counts["looks"] += 1
        return found

    def reading_whole(self: ReadsNewLogFiles, *given: Any) -> Any:
        counts["whole"] += 1
        return whole(self, *given)

    def growing(self: ReadsNewLogFiles, before: Any, *given: Any) -> Any:
        found = grown(self, before, *given)
        counts["grown"] += found is not None
        return found

    with monkeypatch.context() as patch:
        patch.setattr(ReadsNewLogFiles, "read", reading)
        patch.setattr(ReadsNewLogFiles, "_whole", reading_whole)
        patch.setattr(ReadsNewLogFiles, "_grown", growing)
        yield counts


STEPS, SLOW_STEPS = 7, 24
SOAK_SEEDS = 200


@pytest.fixture(autouse=True)
def _quiet(faulty_storage: None) -> Iterator[None]:
    """Every second step warns of what it finds."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def live(folder: Path, seed: int, version: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Let the tables live, compare after each step, and count the look-ups."""
    tables = LongLivedClients(folder, seed, version)
    try:
        with checking_kept_keys(monkeypatch) as counts:
            for _ in range(steps):
                tables.step()
    except BaseException as error:
        error.add_note(f"seed {seed}: {tables}, steps: {tables.log}")
        raise
    finally:
        tables.close()
    return counts


@pytest.mark.parametrize(("seed", "version"), [(1, 6), (12, 8), (20, 8), (35, 9)])
def test_clients_that_stay_open(tmp_path: Path, seed: int, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = live(tmp_path, seed, version, STEPS, monkeypatch)
    assert counts["grown"] or version == 6


@pytest.mark.soak
def test_many_clients_that_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    for seed in range(SOAK_SEEDS):
        # Version 6 keeps nothing.
        counts += live(tmp_path / str(seed), seed, (6, 8, 9, 8, 9)[seed % 5], SLOW_STEPS, monkeypatch)
        shutil.rmtree(tmp_path / str(seed))
    print(f"{SOAK_SEEDS} tables: {dict(counts)}")
    assert min(counts[name] for name in ("looks", "whole", "grown")) > SOAK_SEEDS / 2
