"""Rows of log files in memory and in a local file, and rows that take others' places."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hoodie.config.log_merge_config import HoodieLogMergeConfig
from hoodie.io import log_row_store
from hoodie.io.log_row_store import LogRowStore, with_replaced_rows

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("list", pa.list_(pa.int64()))])


def rows(first: int, count: int, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    numbers = range(first, first + count)
    found = [{"n": n, "text": f"row {n}" if n % 7 else None, "list": [n, None]} for n in numbers]
    return pa.RecordBatch.from_pylist(found, schema)


@pytest.mark.parametrize("limit", [0, 5_000, 1 << 30])
@pytest.mark.parametrize("part_bytes", [1, 2_000, 1 << 20])
def test_rows_are_taken_by_their_numbers_wherever_they_are(
    limit: int, part_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_row_store, "_PART_BYTES", part_bytes)
    source = random.Random(part_bytes)
    config = HoodieLogMergeConfig(merge_max_size=limit, spillable_map_path=str(tmp_path))
    with LogRowStore(SCHEMA, config) as store:
        total = 0
        for _ in range(30):
            count = source.randrange(20)
            assert store.append(rows(total, count)) == total
            total += count
        store.finish()
        assert store.num_rows == total and store.is_spilled == (limit < 1 << 30)
        assert list(tmp_path.iterdir()) == []
        for count in (0, 1, 50):
            numbers = np.array(source.choices(range(total), k=count), dtype=np.int64)
            found = store.take(numbers)
            assert found.equals(rows(0, total).take(pa.array(numbers)))


def test_a_store_without_rows_gives_none() -> None:
    with LogRowStore(SCHEMA, HoodieLogMergeConfig(merge_max_size=0)) as store:
        store.finish()
        assert not store.is_spilled
        assert store.take(np.zeros(0, dtype=np.int64)).equals(rows(0, 0))


def test_rows_whose_schema_allows_other_nulls_are_stored_too(tmp_path: Path) -> None:
    config = HoodieLogMergeConfig(merge_max_size=0, spillable_map_path=str(tmp_path))
    with LogRowStore(SCHEMA, config) as store:
        store.append(rows(0, 5, SCHEMA.set(0, pa.field("n", pa.int64(), nullable=False)).with_metadata({"a": "b"})))
        store.finish()
        assert store.take(np.arange(5)).equals(rows(0, 5))


def test_what_was_taken_of_a_file_outlives_the_store(tmp_path: Path) -> None:
    config = HoodieLogMergeConfig(merge_max_size=0, spillable_map_path=str(tmp_path))
    with LogRowStore(SCHEMA, config) as store:
        store.append(rows(0, 1000))
        store.finish()
        found = store.take(np.arange(1000))
    assert found.equals(rows(0, 1000))


def test_rows_are_replaced_and_columns_that_stay_the_same_are_not_copied() -> None:
    nan = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)[0]
    before = pa.RecordBatch.from_pydict(
        {
            "same": ["a", "b", None, "d"],
            "other": ["a", "b", None, "d"],
            "null": pa.array([1, None, 3, 4]),
            "zero": [0.0, 0.0, -0.0, math.nan],
            "kept": [0.0, 1.0, -0.0, math.nan],
            "nested": [[1.0], [0.0], [2.0], None],
        }
    )
    new = pa.RecordBatch.from_pydict(
        {
            "same": [None, "b"],
            "other": [None, "c"],
            "null": pa.array([None, None], pa.int64()),
            "zero": [0.0, -0.0],
            "kept": [-0.0, 1.0],
            "nested": [[-0.0], [0.0]],
        }
    )
    found = with_replaced_rows(before, new, np.array([2, 1]))
    expected = pa.Table.from_batches([before, new]).take([0, 5, 4, 3]).combine_chunks().to_batches()[0]
    assert repr(found.to_pydict()) == repr(expected.to_pydict())
    assert [math.copysign(1, value) for value in found["zero"].to_pylist()] == [1, -1, 1, 1]
    copied = {
        name
        for name in before.schema.names
        if [b and b.address for b in found[name].buffers()] != [b and b.address for b in before[name].buffers()]
    }
    assert copied == {"other", "null", "zero", "nested"}
    numbers = pa.record_batch({"x": pa.array([nan, 1.0])})
    again = with_replaced_rows(numbers, pa.record_batch({"x": [math.nan]}), np.array([0]))
    assert again["x"].to_numpy().view(np.uint64)[0] == np.array([math.nan]).view(np.uint64)[0]
