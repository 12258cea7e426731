"""Batches that several threads make come in the order of their sources, and memory stays bounded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from hoodie.io.parquet.batches_ahead import batches_ahead


def numbered(source: int, count: int, made: list[int], rows: int = 1000) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        made.append(source)
        yield pa.record_batch({"n": np.full(rows, 100 * source + number)})


@pytest.mark.parametrize("most_bytes", [None, 1, 20_000])
def test_batches_come_in_the_order_of_their_sources(most_bytes: int | None) -> None:
    made: list[int] = []
    sources = [partial(numbered, source, source % 4, made) for source in range(9)]
    found = [batch.column(0)[0].as_py() for batch in batches_ahead(sources, most_bytes)]
    assert found == [100 * source + number for source in range(9) for number in range(source % 4)]


def test_threads_wait_for_a_slow_caller() -> None:
    made: list[int] = []
    batches = batches_ahead([partial(numbered, source, 50, made) for source in range(4)], 30_000)
    for taken, _ in enumerate(batches, 1):
        # Four batches of 8,000 bytes wait, two of the present source, and one is on each thread.
        assert len(made) - taken <= 6 + 2 * pa.cpu_count()
    assert len(made) == 200


def test_an_error_comes_in_the_place_of_its_batch() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [7]})
        raise ValueError("in a thread")

    made: list[int] = []
    batches = batches_ahead([partial(numbered, 0, 2, made), broken, partial(numbered, 2, 2, made)], None)
    assert [next(batches).column(0)[0].as_py() for _ in range(3)] == [0, 1, 7]
    with pytest.raises(ValueError, match="in a thread"):
        next(batches)


def test_no_thread_is_left_after_a_scan_that_is_closed_early() -> None:
    made: list[int] = []
    batches = batches_ahead([partial(numbered, source, 50, made) for source in range(4)], 1)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hoodie-scan")]
    assert len(made) < 200
