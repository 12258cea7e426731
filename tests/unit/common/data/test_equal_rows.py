"""Columns compared row by row, without a Python object for a row."""

from __future__ import annotations

import math
import struct
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hoodie.common.data.equal_rows import comparison_cost, equal_rows

NAN = math.nan
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
MAP = pa.map_(pa.string(), pa.float64())
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [1, 2, None, -(2**63)],
    pa.bool_(): [True, False, None],
    pa.float64(): [0.0, -0.0, NAN, 1.5, None],
    pa.float32(): [0.0, -0.0, NAN, 1.5, None],
    pa.string(): ["", "a", "ab", None],
    pa.binary(): [b"", b"a", None],
    pa.decimal128(10, 2): [Decimal("1.00"), Decimal("2.50"), None],
    pa.timestamp("us", "UTC"): [datetime(2026, 1, 1), datetime(2027, 1, 1), None],
    pa.date32(): [1, 2, None],
    pa.list_(pa.float64()): [[], [None], [0.0], [-0.0], [0.0, NAN], [NAN, 0.0], None],
    pa.list_(pa.list_(pa.int32())): [[], [[]], [[], []], [[1]], [[1], [2, 3]], [[1, 2], [3]], [None], None],
    STRUCT: [{"a": 1, "b": ["x"]}, {"a": 1, "b": ["x", None]}, {"a": None, "b": None}, {"a": None, "b": []}, None],
    MAP: [[], [("x", 1.0)], [("x", None)], [("x", 1.0), ("y", NAN)], [("y", NAN), ("x", 1.0)], None],
    pa.list_(STRUCT): [[{"a": 1, "b": ["x"]}], [{"a": 1, "b": ["y"]}], [None], [], None],
}


def same(one: Any, other: Any) -> bool:
    """By bits, all the way down."""
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(one[name], other[name]) for name in one)
    return type(one) is type(other) and bool(one == other)


@pytest.mark.parametrize("data_type", VALUES, ids=str)
@pytest.mark.parametrize("sliced", [False, True], ids=["whole", "sliced"])
def test_each_pair_of_values_is_compared_as_python_would(data_type: pa.DataType, sliced: bool) -> None:
    values = VALUES[data_type]
    pairs = [(one, other) for one in values for other in values]
    columns = [pa.array([pair[side] for pair in pairs], data_type) for side in (0, 1)]
    if sliced:
        columns = [pa.concat_arrays([column[:3], column, column[:2]]).slice(3, len(pairs)) for column in columns]
    found = equal_rows(*columns)
    assert found.tolist() == [same(one, other) for one, other in zip(*(c.to_pylist() for c in columns), strict=True)]


def test_no_rows_and_types_without_comparison_are_no_failure() -> None:
    nothing = pa.array([], MAP)
    assert equal_rows(nothing, nothing).tolist() == []
    months = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    assert equal_rows(months, months).tolist() in ([True], [False])


def test_what_is_cheap_to_compare_comes_first() -> None:
    types = [STRUCT, pa.string(), pa.int64(), MAP, pa.float32(), pa.binary(), pa.decimal128(5, 1)]
    ranks = [comparison_cost(data_type) for data_type in types]
    assert (ranks[:3], ranks[3:6]) == ([2, 1, 0], [2, 0, 1])
