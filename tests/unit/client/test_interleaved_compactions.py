"""Writers, compactors, cleaners and readers of a merge-on-read table, interleaved by seeds.

`AppendScenario` has writers that do not block each other, beside compactors, cleaners and readers. All writers change
the same few keys. These things must hold, beside those that `interleaved_compactions` says:

* Every write that was told to be committed stands. Of two that changed one key, the row with the larger ordering value
  is read, in a table without ordering values that of the write which was requested later.
* No bucket gets two file groups, also beside a writer that gives new file groups random ids.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie import HoodieKey
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieException, HoodieWriteConflictException
from tests.support.interleaved_compactions import (
    NEVER,
    PLACES,
    CompactionScenario,
    make_compaction_template,
    new_client,
    run_compaction_seed,
)
from tests.support.interleaved_writers import Place, Rows, to_table
from tests.support.interleaving import Process, virtual

APPENDING = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": 2,
}
NEW = [(path, f"n-{number}") for path in "xz" for number in range(3)]
"""Keys that are not there in the beginning; partition z is not either."""


@attrs.define(eq=False)
class Write:
    """One attempt to write.

    Attributes:
        instant_time: Its instant.
        rows: What it gives each key; `NEVER` for a delete.
        is_told: Whether its caller was told that it is committed.
        is_void: Whether its caller was told that it failed.
    """

    instant_time: str
    rows: Rows
    is_told: bool = False
    is_void: bool = False


class AppendScenario(CompactionScenario):
    """Writers of the same keys; see the module."""

    def __init__(self, *arguments: Any) -> None:
        self.writes: list[Write] = []
        super().__init__(*arguments)
        self.by_value = bool(TableSnapshot.load(self.base_path).table_config.ordering_fields)
        self.writes.append(Write("", dict.fromkeys(PLACES, 1), is_told=True))

    def _properties(self) -> dict[str, Any]:
        return {**APPENDING, "hoodie.cleaner.commits.retained": 1}

    def _writers(self) -> int:
        return self.random.choice([2, 2, 3])

    # --- who works ----------------------------------------------------------------------------------------------

    def _write(self, process: Process, number: int) -> None:
        rng = self.random
        properties = dict(self.properties)
        if number == 2:
            properties["hoodie.write.concurrency.mode"] = "OPTIMISTIC_CONCURRENCY_CONTROL"
        with new_client(self.base_path, **properties) as client:
            for _ in range(rng.choice([2, 3, 4])):
                is_delete = not self.by_value and rng.random() < 0.2
                self._value += 1
                value = 1000 * rng.randrange(1, 10) + self._value if self.by_value else self._value
                # A delete from a bucket without a file group deletes nothing, whatever others put there at that time.
                places = [place for place in PLACES[:4] + NEW if not is_delete or place[0] != "z"]
                rows = dict.fromkeys(rng.sample(places, rng.choice([1, 2, 4])), NEVER if is_delete else value)
                write: Write | None = None
                try:
                    write = Write(client.start_commit(), rows)
                    self.writes.append(write)
                    if is_delete:
                        client.delete([HoodieKey(key, path) for path, key in rows], write.instant_time)
                    else:
                        client.upsert(to_table(rows), write.instant_time)
                except HoodieException as error:
                    self.outcomes[f"{'blocking ' if number == 2 else ''}write {type(error).__name__}"] += 1
                    assert "two file groups" not in str(error)
                    self._check_allowed(process, error)
                    is_in_doubt = isinstance(error, HoodieWriteConflictException) and not error.is_retry_safe
                    if write is not None and not is_in_doubt:
                        write.is_void = True
                else:
                    self.outcomes["committed"] += 1
                    write.is_told = True
                self.world.sleep(rng.choice([0, 0, 100, 3000]))

    # --- what is read -------------------------------------------------------------------------------------------

    def _told(self) -> list[Write]:
        return [write for write in self.writes if write.is_told]

    def _rank(self, write: Write, place: Place) -> Any:
        return write.rows[place] if self.by_value else write.instant_time

    def _check_rows(self, found: list[tuple[Place, int]], since: list[Write]) -> None:
        rows = dict(found)
        assert len(rows) == len(found), f"keys that live twice: {found}"
        for place in {*PLACES, *NEW}:
            state = rows.pop(place, NEVER)
            known = [write for write in since if place in write.rows]
            newest = max((self._rank(write, place) for write in known), default=None)
            possible = {
                write.rows[place]
                for write in self.writes
                if place in write.rows and not write.is_void and (newest is None or self._rank(write, place) >= newest)
            }
            if newest is None:
                possible.add(NEVER)
            assert state in possible, f"{place} is {state}, and not one of {possible}: {self.writes}"
        assert not rows


VERSIONS = (6, 8, 9)
SEEDS = 30
QUICK_SEEDS = 15
"""`make test` runs these of each version, `make test-slow` the others."""
CHUNK = 15
FEW_SEEDS = 5
"""Of writers that do not block each other, in `make test`; `make soak` runs the others."""


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, tuple[Path, float]]]:
    """Version to a table to begin with and its time; time and threads are those of the worlds meanwhile."""
    with pytest.MonkeyPatch.context() as monkeypatch, virtual(monkeypatch):
        folder = tmp_path_factory.mktemp("templates")
        yield {
            version: (folder / str(version), make_compaction_template(folder / str(version), version))
            for version in VERSIONS
        }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=[pytest.mark.slow] if first >= QUICK_SEEDS else []) for first in range(0, SEEDS, CHUNK)],
)
@pytest.mark.one_in(4)
def test_no_order_of_calls_loses_or_revives_a_row(
    first: int, version: int, templates: dict[int, tuple[Path, float]], tmp_path: Path
) -> None:
    outcomes: Counter[str] = Counter()
    template, now_ms = templates[version]
    for seed in range(first, first + CHUNK):
        outcomes += run_compaction_seed(1000 * version + seed, template, now_ms, tmp_path / "t").outcomes
    print(f"version {version}, seeds {first} to {first + CHUNK - 1}: {dict(sorted(outcomes.items()))}")
    assert outcomes["committed"] >= CHUNK
    assert outcomes["compactions"] >= CHUNK
    assert outcomes["read"] >= CHUNK


@pytest.fixture(scope="module")
def shared_templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[int, str], tuple[Path, float]]]:
    """Version and merge mode to a table with buckets."""
    with pytest.MonkeyPatch.context() as monkeypatch, virtual(monkeypatch):
        folder = tmp_path_factory.mktemp("shared")
        yield {
            (version, mode): (
                folder / f"{version}{mode}",
                make_compaction_template(folder / f"{version}{mode}", version, ordering, **APPENDING),
            )
            for version in VERSIONS[1:]
            for mode, ordering in (("COMMIT_TIME_ORDERING", []), ("EVENT_TIME_ORDERING", ["v"]))
        }


@pytest.mark.parametrize("mode", ["COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"])
@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize(
    ("first", "seeds"),
    [(0, FEW_SEEDS), *(pytest.param(first, CHUNK, marks=pytest.mark.soak) for first in range(FEW_SEEDS, SEEDS, CHUNK))],
)
@pytest.mark.one_in(4)
def test_writers_that_do_not_block_each_other_lose_no_row(
    first: int,
    seeds: int,
    version: int,
    mode: str,
    shared_templates: dict[tuple[int, str], tuple[Path, float]],
    tmp_path: Path,
) -> None:
    outcomes: Counter[str] = Counter()
    template, now_ms = shared_templates[version, mode]
    for seed in range(first, first + seeds):
        outcomes += run_compaction_seed(
            1000 * version + seed, template, now_ms, tmp_path / "t", AppendScenario
        ).outcomes
    print(f"version {version}, {mode}, seeds {first} to {first + seeds - 1}: {dict(sorted(outcomes.items()))}")
    assert outcomes["committed"] >= 2 * seeds
    assert outcomes["compactions"] >= seeds
    assert outcomes["read"] >= seeds
