"""Floats that become doubles."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.data.widening import widened_floats


@given(st.lists(st.none() | st.floats(width=32, allow_nan=False) | st.floats(-1e6, 1e6, width=32), max_size=20))
def test_a_double_has_the_shortest_digits_of_its_float(values: list[float | None]) -> None:
    array = pa.array(values, pa.float32())
    expected = [None if value is None else float(str(np.float32(value))) for value in values]
    for start in (0, len(values) // 2):
        found = widened_floats(array.slice(start))
        assert found.type == pa.float64()
        assert [repr(value) for value in found.to_pylist()] == [repr(value) for value in expected[start:]]


def test_what_is_no_number_stays_what_it_is() -> None:
    values = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, None]
    assert [repr(value) for value in widened_floats(pa.array(values, pa.float32())).to_pylist()] == list(
        map(repr, values)
    )
