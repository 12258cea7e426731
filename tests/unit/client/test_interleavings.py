"""Writers, services and readers interleaved by seeds, at the granularity of calls to the storage."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.interleaved_writers import Templates, make_template, run_seed
from tests.support.interleaving import virtual

SEEDS = 120
QUICK_SEEDS = 30
"""`make test` runs these, `make test-slow` the others."""
CHUNK = 30
SOAK_SEEDS = 10_000
SOAK_CHUNK = 1_000
SHOWN_FAILURES = 5


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    """Losing writers say so, thousands of times."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Templates]:
    """Tables to begin with; while they are there, time and threads are those of the worlds."""
    with pytest.MonkeyPatch.context() as monkeypatch, virtual(monkeypatch):
        folder = tmp_path_factory.mktemp("templates")
        yield {index_type: make_template(folder / index_type, index_type) for index_type in ("SIMPLE", "BUCKET")}


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=[pytest.mark.slow] if first >= QUICK_SEEDS else []) for first in range(0, SEEDS, CHUNK)],
)
@pytest.mark.one_in(4)
def test_no_order_of_calls_loses_or_doubles_a_row(first: int, templates: Templates, tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        outcomes += run_seed(seed, templates, tmp_path / "t").outcomes
    print(f"seeds {first} to {first + CHUNK - 1}: {dict(sorted(outcomes.items()))}")
    # Nothing is shown where nobody commits, or nobody is in another's way.
    assert outcomes["upsert committed"] >= CHUNK / 2
    refused = tuple(
        f"{write} Hoodie" for write in ("upsert", "insert", "delete", "delete_partition", "insert_overwrite")
    )
    assert sum(count for name, count in outcomes.items() if name.startswith(refused)) > 0
    assert outcomes["read"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_no_order_of_calls_leaves_a_wrong_metadata_table(
    table_version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with virtual(monkeypatch):
        templates = {
            index_type: make_template(tmp_path / index_type, index_type, {"hoodie.metadata.enable": "true"})
            for index_type in ("SIMPLE", "BUCKET")
        }
        outcomes: Counter[str] = Counter()
        for seed in range(QUICK_SEEDS):
            outcomes += run_seed(seed, templates, tmp_path / "t").outcomes
    assert outcomes["upsert committed"] >= QUICK_SEEDS / 2 and outcomes["read"] > 0


@pytest.mark.soak
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + SOAK_SEEDS, SOAK_CHUNK))
def test_ten_thousand_orders_of_calls(first: int, templates: Templates, tmp_path: Path) -> None:
    failed: list[tuple[int, BaseException]] = []
    outcomes: Counter[str] = Counter()
    for seed in range(first, first + SOAK_CHUNK):
        try:
            outcomes += run_seed(seed, templates, tmp_path / "t").outcomes
        except Exception as error:
            failed.append((seed, error))
            print(f"seed {seed}: {error!r}")
            if len(failed) == SHOWN_FAILURES:
                break
    print(dict(sorted(outcomes.items())))
    if failed:
        raise AssertionError(f"seeds that failed: {[seed for seed, _ in failed]}") from failed[0][1]


@pytest.mark.one_in(4)
def test_a_seed_gives_the_same_calls_every_time(templates: Templates, tmp_path: Path) -> None:
    traces = [run_seed(seed, templates, tmp_path / "t").world.trace for seed in (7, 8, 7)]
    assert traces[0] == traces[2]
    assert traces[0] != traces[1]
    assert len({line.split(" ")[0].split("/")[0] for line in traces[0]}) > 2, "nobody was interleaved"
