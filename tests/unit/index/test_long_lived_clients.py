"""Clients that keep keys of slices with log files in memory find what the slices hold, whatever happens to the table.

A merge-on-read table gets random writes of clients that stay open, and of others, beside a copy-on-write table. Each
look-up in kept keys is compared with a reading of the whole slice. `make soak` runs more seeds.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.long_lived_clients import LongLivedClients, checking_kept_keys

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
