from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.io.merged_columns import is_replaced, last_at_each_position


@given(
    positions=st.lists(st.one_of(st.integers(0, 9), st.integers(0, 10**9)), max_size=20),
    numbers=st.one_of(st.none(), st.lists(st.integers(0, 99), min_size=20, max_size=20, unique=True)),
    is_sorted=st.booleans(),
)
def test_the_last_row_of_each_position_counts(positions: list[int], numbers: list[int] | None, is_sorted: bool) -> None:
    ranks = list(range(len(positions))) if numbers is None else numbers[: len(positions)]
    if is_sorted:
        ranks.sort()
    last: dict[int, int] = {}
    for row in sorted(range(len(positions)), key=ranks.__getitem__):
        last[positions[row]] = row
    found = last_at_each_position(
        np.array(positions, dtype=np.int64), None if numbers is None else np.array(ranks, dtype=np.int64)
    )
    assert found.tolist() == [last[position] for position in sorted(last)]


@pytest.mark.parametrize(
    ("places", "count", "expected"),
    [([3, 4, 5], 3, True), ([3, 5, 4], 3, False), ([3, 1, 4], 2, False), ([3, 4], 3, False), ([], 0, True)],
)
def test_stored_rows_are_replaced_if_new_ones_have_all_places_in_order(
    places: list[int], count: int, expected: bool
) -> None:
    assert is_replaced(np.array(places, dtype=np.int64), count) == expected
