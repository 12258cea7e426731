"""Batches are looked up among many stored keys as among few, at the cost of the batch."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.model.record import HoodieRecordLocation
from hoodie.common.model.record_columns import CURRENT_ROW_POSITION, PARTITION_PATH, RECORD_KEY
from hoodie.index import index
from hoodie.index.index import HashedKeys, KeyLocations, match_keys

TEXTS = st.sampled_from(["", "a", "b", "é", "日本", "😀", "x" * 40, "x" * 39 + "y", "\0", "a\0"])


def pairs(found: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
    return list(zip(found[0].tolist(), found[1].tolist(), strict=True))


def check(stored: Sequence[str | None], wanted: Sequence[str | None]) -> None:
    keys = pa.array(["?", *stored], pa.string()).slice(1)
    incoming = pa.array(["?", *wanted], pa.string()).slice(1)
    found = pairs(HashedKeys.of(keys).match(incoming))
    expected = [
        pair
        for row, key in enumerate(wanted)
        for pair in [(row, n) for n, other in enumerate(stored) if key is not None and key == other] or [(row, -1)]
    ]
    assert found == expected


@given(st.lists(TEXTS | st.none(), min_size=1, max_size=12), st.lists(TEXTS | st.none(), max_size=12))
def test_each_row_is_paired_with_all_equal_keys_and_with_none_where_there_is_none(
    stored: list[str | None], wanted: list[str | None]
) -> None:
    check(stored, wanted)


@pytest.mark.parametrize("stored", [["a", "b", "c"], ["a", "b", "a"]])
def test_keys_whose_hashes_are_equal_are_told_apart(monkeypatch: pytest.MonkeyPatch, stored: list[str]) -> None:
    monkeypatch.setattr(index, "quick_hashes", lambda keys: np.full(len(keys), 7, dtype=np.uint64))
    check(stored, ["c", "a", "d"])


@given(st.lists(TEXTS, min_size=1, max_size=12), st.lists(TEXTS, max_size=4))
def test_many_keys_are_matched_as_few_are(stored: list[str], wanted: list[str]) -> None:
    keys, incoming = pa.array(stored, pa.string()), pa.array(wanted, pa.string())
    assert pairs(match_keys(incoming, keys, {})) == pairs(match_keys(incoming, keys))


def test_locations_are_hashed_once_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    of = HashedKeys.of
    monkeypatch.setattr(HashedKeys, "of", lambda keys: hashed.append(len(keys)) or of(keys))
    count = 100
    table = pa.table(
        {
            "key": [f"k{number}" for number in range(count)],
            "file": pa.array([0] * count, pa.int32()),
            "position": pa.array(range(count), pa.int64()),
        }
    )
    file = HoodieRecordLocation("1", "f")
    locations = KeyLocations({"x": table, "y": table.slice(0, 50)}, [file])
    batch = pa.record_batch({RECORD_KEY: ["k7", "new", "k49"], PARTITION_PATH: ["x", "x", "y"]})
    for _ in range(5):
        assert locations.tag(batch).column(CURRENT_ROW_POSITION).to_pylist() == [7, None, 49]
    assert hashed == [100, 50]
    again = pickle.loads(pickle.dumps(locations))
    assert again.tag(batch).column(CURRENT_ROW_POSITION).to_pylist() == [7, None, 49]
