"""Random histories with all partitions of a metadata table: rows and queries are those of a table without one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.metadata_history import INDEX_TYPES, MetadataHistory

STEPS, FEW_STEPS = 14, 5
QUICK, SLOW, SOAK = (8,), range(6), range(6, 300)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        *(pytest.param(seed, FEW_STEPS, id=f"{seed}-some") for seed in QUICK),
        *(pytest.param(seed, STEPS, id=str(seed), marks=pytest.mark.slow) for seed in SLOW),
        *(pytest.param(seed, STEPS, id=str(seed), marks=pytest.mark.soak) for seed in SOAK),
    ],
)
@pytest.mark.one_in(4)
def test_no_history_makes_a_query_wrong(tmp_path: Path, seed: int, steps: int) -> None:
    version, kind = (6, 8, 9)[seed % 3], ("COPY_ON_WRITE", "MERGE_ON_READ")[seed // 3 % 2]
    types = [name for name in INDEX_TYPES if version == 9 or name != "RECORD_LEVEL_INDEX"]
    history = MetadataHistory(tmp_path / "t", seed, version, kind, types[seed // 6 % len(types)])
    history.step("upsert", looks=False)
    for _ in range(steps):
        history.step()
    history.step("upsert", looks=True)
    assert history.used, "no query used the metadata table"
