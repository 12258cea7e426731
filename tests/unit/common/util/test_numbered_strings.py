"""Numbers as strings behind a prefix."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hoodie.common.util.numbered_strings import numbered_strings


@given(st.integers(0, 200_000), st.integers(0, 300))
@example(0, 0)
@example(0, 10_001)
@example(9_998, 5)
@example(99_990, 20_020)
@example(10**9 - 2, 4)
def test_every_number_stands_behind_the_prefix(first: int, count: int) -> None:
    found = numbered_strings("20260101000000000_3_", first, count)
    assert found.to_pylist() == [f"20260101000000000_3_{number}" for number in range(first, first + count)]


@pytest.mark.parametrize("prefix", ["", "ä_"])
def test_any_prefix_will_do(prefix: str) -> None:
    assert numbered_strings(prefix, 9, 2).to_pylist() == [f"{prefix}9", f"{prefix}10"]
