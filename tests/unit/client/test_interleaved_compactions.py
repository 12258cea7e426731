"""Writers, compactors, cleaners and readers of a merge-on-read table, interleaved by seeds."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.interleaved_appends import APPENDING, AppendScenario
from tests.support.interleaved_compactions import make_compaction_template, run_compaction_seed
from tests.support.interleaving import virtual

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
