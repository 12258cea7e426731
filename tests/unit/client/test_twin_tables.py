"""A copy-on-write table and a merge-on-read table that get the same random writes show the same rows.

`make soak` runs more seeds. A seed that fails is printed with its options and the steps that led there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.twin_tables import INDEXES, MERGING, VERSIONS, TwinTables

STEPS = 8
SLOW_STEPS = 16
SOAK_SEEDS = 300


@pytest.fixture(autouse=True)
def _quiet(faulty_storage: None) -> Iterator[None]:
    """Every second step warns of what it finds."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def live(
    folder: Path, seed: int, version: int, steps: int, index: str | None = None, merging: str | None = None
) -> int:
    """Let both tables live, compare them after each step, and return how many steps died."""
    twins = TwinTables(folder, seed, version, index, merging)
    try:
        for _ in range(steps):
            twins.step()
    except BaseException as error:
        error.add_note(f"seed {seed}: {twins}, steps: {twins.log}")
        raise
    return twins.deaths


@pytest.mark.parametrize("version", VERSIONS)
def test_twins_of_any_kind_show_the_same_rows(tmp_path: Path, version: int) -> None:
    live(tmp_path, version, version, STEPS)


@pytest.mark.soak
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("version", VERSIONS)
def test_twins_of_each_index_show_the_same_rows(tmp_path: Path, version: int, index: str) -> None:
    live(tmp_path, version, version, SLOW_STEPS, index=index)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("version", "merging"), [(version, name) for name, rules in MERGING.items() for version in rules.versions]
)
def test_twins_of_each_way_of_merging_show_the_same_rows(tmp_path: Path, version: int, merging: str) -> None:
    live(tmp_path, version, version, SLOW_STEPS, merging=merging)


@pytest.mark.soak
def test_three_hundred_twins(tmp_path: Path) -> None:
    deaths = sum(live(tmp_path / str(seed), seed, VERSIONS[seed % 3], SLOW_STEPS) for seed in range(SOAK_SEEDS))
    print(f"{SOAK_SEEDS} twins of {SLOW_STEPS} steps, {deaths} steps died")
    assert deaths > SOAK_SEEDS / 2
