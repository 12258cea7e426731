"""The union of ranges of columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.model.column_range import ValueType, widest_range
from hoodie.metadata.records.column_values import decimal_bytes, decimal_digits
from hoodie.metadata.records.metadata_record_schema import WRAPPERS
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.metadata.records.range_union import union_of_ranges

STRING, BYTES, DECIMAL = (WRAPPERS.index(f"{name}Wrapper") for name in ("String", "Bytes", "Decimal"))


def row(branch: int, low: Any, high: Any, **more: Any) -> dict[str, Any]:
    column = "floating" if isinstance(low, float) else "binary" if isinstance(low, bytes) else "integer"
    return {
        "type": 3, "column_name": "c", "is_deleted": False, "value_count": 2, "null_count": 1,
        "min_value": {"branch": branch, column: low}, "max_value": {"branch": branch, column: high}, **more,
    }  # fmt: skip


def union(*rows: dict[str, Any]) -> dict[str, Any]:
    batch = pa.RecordBatch.from_pylist(list(rows), schema=MetadataPayload.COLUMN_STATS.schema)
    found = union_of_ranges(batch, np.array([0]))
    found.validate(full=True)
    single: dict[str, Any] = found.to_pylist()[0]
    return single


def ends(found: dict[str, Any]) -> tuple[Any, ...]:
    """Branch, smallest and largest value."""
    low, high = found["min_value"], found["max_value"]
    assert low["branch"] == high["branch"]
    values = [[end[name] for name in ("integer", "floating", "binary") if end[name] is not None] for end in (low, high)]
    return (low["branch"], *(value for (value,) in values))


@given(st.lists(st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=3)), min_size=1, max_size=4), min_size=1))
def test_strings_are_compared_by_their_bytes(runs: list[list[tuple[bytes, bytes]]]) -> None:
    rows = [row(STRING, low, high) for run in runs for low, high in run]
    starts = np.cumsum([0, *(len(run) for run in runs[:-1])])
    batch = pa.RecordBatch.from_pylist(rows, schema=MetadataPayload.COLUMN_STATS.schema)
    found = union_of_ranges(batch, starts).to_pylist()
    assert [ends(one) for one in found] == [
        (STRING, min(low for low, _ in run), max(high for _, high in run)) for run in runs
    ]
    assert [one["value_count"] for one in found] == [2 * len(run) for run in runs]


@given(st.lists(st.integers(-(10**30), 10**30), min_size=2, max_size=5))
def test_decimals_are_compared_as_numbers(digits: list[int]) -> None:
    stored = [decimal_bytes(number) for number in digits]
    assert [decimal_digits(value) for value in stored] == digits
    assert all(len(value) == 1 or (value[0], value[1] >> 7) not in ((0, 0), (255, 1)) for value in stored)
    found = union(*(row(DECIMAL, value, value) for value in stored))
    assert ends(found) == (DECIMAL, decimal_bytes(min(digits)), decimal_bytes(max(digits)))
    typed = {"value_type": int(ValueType.DECIMAL), "value_type_info": "31,2"}
    found = union(*(row(BYTES, value, value, **typed) for value in stored))
    assert ends(found) == (BYTES, decimal_bytes(min(digits)), decimal_bytes(max(digits)))


def test_decimals_of_two_scales_are_united_in_that_of_the_newer() -> None:
    typed = {"value_type": int(ValueType.DECIMAL)}
    one = row(BYTES, decimal_bytes(-15), decimal_bytes(25), value_type_info="5,1", **typed)
    other = row(BYTES, decimal_bytes(0), decimal_bytes(1), value_type_info="9,3", **typed)
    assert ends(union(one, other)) == (BYTES, decimal_bytes(-1500), decimal_bytes(2500))
    # With fewer digits behind the point the range becomes wider.
    narrow = row(BYTES, decimal_bytes(-1501), decimal_bytes(2501), value_type_info="9,3", **typed)
    assert ends(union(narrow, one)) == (BYTES, decimal_bytes(-16), decimal_bytes(26))


def test_integers_and_floats_become_floats() -> None:
    assert ends(union(row(2, 3, 9), row(3, 5, 1 << 40))) == (3, 3, 1 << 40)
    assert ends(union(row(2, 3, 9), row(4, 4.5, 5.5))) == (4, 3.0, 9.0)
    assert ends(union(row(5, 4.5, 5.5), row(2, 3, 9))) == (5, 3.0, 9.0)


def test_nan_is_the_largest_number() -> None:
    for rows in ([row(5, 1.5, 2.5), row(5, math.nan, math.nan)], [row(5, math.nan, math.nan), row(2, 3, 4)]):
        branch, low, high = ends(union(*rows))
        assert (branch, low) == (5, 1.5 if rows[0]["min_value"]["floating"] == 1.5 else 3.0)
        assert math.isnan(high)
    assert all(math.isnan(end) for end in ends(union(row(5, math.nan, math.nan), row(5, math.nan, math.nan)))[1:])


def test_negative_zero_is_less_than_zero_in_any_order() -> None:
    for rows in ([row(5, 0.0, 0.0), row(5, -0.0, -0.0)], [row(5, -0.0, -0.0), row(5, 0.0, 0.0)]):
        _, low, high = ends(union(*rows))
        assert (math.copysign(1, low), math.copysign(1, high)) == (-1, 1)
    _, low, high = ends(union(row(5, -1.0, -0.0), row(5, 0.0, 1.0)))
    assert (low, high) == (-1.0, 1.0)


def test_types_without_a_common_order_get_the_widest_range() -> None:
    low, high = widest_range(ValueType.STRING)
    assert ends(union(row(2, 3, 9), row(STRING, b"a", b"b"))) == (STRING, low, high)
    assert ends(union(row(STRING, b"a", b"b"), row(2, 3, 9))) == (2, *widest_range(ValueType.INT))
    decimal = row(BYTES, b"\x01", b"\x02", value_type=int(ValueType.DECIMAL), value_type_info="4,2")
    assert ends(union(row(2, 3, 9), decimal)) == (BYTES, decimal_bytes(-9999), decimal_bytes(9999))
    found = union(row(STRING, b"a", b"b"), row(5, 1.0, 2.0))
    assert ends(found)[1] == -math.inf
    assert math.isnan(ends(found)[2])


def test_a_file_without_values_changes_nothing_but_counts() -> None:
    empty = {"type": 3, "column_name": "c", "is_deleted": False, "value_count": 4, "null_count": 4}
    typed = row(2, 3, 9, value_type=int(ValueType.DATE))
    for rows in ([typed, {**empty, "value_type": int(ValueType.NULL)}], [empty, typed]):
        found = union(*rows)
        assert (ends(found), found["value_type"]) == ((2, 3, 9), int(ValueType.DATE))
        assert (found["value_count"], found["null_count"]) == (6, 5)
    found = union(empty, empty)
    assert (found["min_value"], found["max_value"], found["value_count"]) == (None, None, 8)
