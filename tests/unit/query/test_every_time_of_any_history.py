"""Random histories of merge-on-read tables, of which every time is compared with a model after each step."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.every_time import live

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
