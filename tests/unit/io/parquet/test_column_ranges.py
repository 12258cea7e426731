"""Ranges of columns, from footers."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.common.model.column_range import HoodieColumnRange, ValueType, widest_range
from hoodie.io.parquet.column_ranges import read_column_ranges


def ranges_of(path: Path, table: pa.Table, columns: list[str] | None = None, **options: Any) -> list[HoodieColumnRange]:
    pq.write_table(table, path / "f.parquet", **options)
    return read_column_ranges(pq.read_metadata(path / "f.parquet"), columns)


def only(path: Path, values: pa.Array, **options: Any) -> HoodieColumnRange:
    (found,) = ranges_of(path, pa.table({"c": values}), **options)
    return found


@pytest.mark.parametrize(
    ("values", "arrow_type", "value_type", "low", "high"),
    [
        ([True, False, None], pa.bool_(), ValueType.BOOLEAN, 0, 1),
        ([3, -2], pa.int32(), ValueType.INT, -2, 3),
        ([3, -2], pa.int64(), ValueType.LONG, -2, 3),
        ([0.5, -2.0], pa.float32(), ValueType.FLOAT, -2.0, 0.5),
        ([0.5, math.nan], pa.float64(), ValueType.DOUBLE, 0.5, 0.5),
        (["é", "z"], pa.string(), ValueType.STRING, b"z", "é".encode()),
        ([b"\xff", b"a"], pa.binary(), ValueType.BYTES, b"a", b"\xff"),
        ([b"ab", b"ac"], pa.binary(2), ValueType.FIXED, b"ab", b"ac"),
        ([Decimal("-1.50"), Decimal("2.00")], pa.decimal128(5, 2), ValueType.DECIMAL, -150, 200),
        ([date(1970, 1, 3), date(1969, 12, 31)], pa.date32(), ValueType.DATE, -1, 2),
        ([time(0, 0, 1)], pa.time32("ms"), ValueType.TIME_MILLIS, 1000, 1000),
        ([time(0, 0, 1)], pa.time64("us"), ValueType.TIME_MICROS, 1_000_000, 1_000_000),
        ([datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("ms"), ValueType.LOCAL_TIMESTAMP_MILLIS, 1000, 1000),
        ([datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("us"), ValueType.LOCAL_TIMESTAMP_MICROS, 10**6, 10**6),
        ([datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("us", "UTC"), ValueType.TIMESTAMP_MICROS, 10**6, 10**6),
        ([datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("ns", "UTC"), ValueType.TIMESTAMP_NANOS, 10**9, 10**9),
    ],
)
def test_values_are_those_that_the_footer_has(
    tmp_path: Path, values: list[Any], arrow_type: pa.DataType, value_type: ValueType, low: Any, high: Any
) -> None:
    found = only(tmp_path, pa.array(values, arrow_type), store_schema=False)
    assert (found.value_type, found.min_value, found.max_value) == (value_type, low, high)
    assert (found.value_count, found.null_count) == (len(values), values.count(None))


def test_row_groups_are_put_together(tmp_path: Path) -> None:
    table = pa.table({"a": [5, 1, None, None, 9, 2], "b": ["x"] * 6})
    a, b = ranges_of(tmp_path, table, row_group_size=2)
    assert (a.min_value, a.max_value, a.value_count, a.null_count) == (1, 9, 6, 2)
    metadata = pq.read_metadata(tmp_path / "f.parquet")
    chunks = [metadata.row_group(group).column(1) for group in range(3)]
    assert b.total_size == sum(chunk.total_compressed_size for chunk in chunks)
    assert b.total_uncompressed_size == sum(chunk.total_uncompressed_size for chunk in chunks)


def test_nested_columns_are_found_by_their_path(tmp_path: Path) -> None:
    table = pa.table({"a": [{"b": 1, "c": 2}], "d": [[1]], "e": [3]})
    found = ranges_of(tmp_path, table, ["a.b", "e", "d", "x"])
    assert [one.column_name for one in found] == ["a.b", "e"]


def test_a_file_without_rows_has_no_values(tmp_path: Path) -> None:
    found = only(tmp_path, pa.array([], pa.int32()))
    assert (found.min_value, found.max_value, found.value_count, found.null_count) == (None, None, 0, 0)
    with pq.ParquetWriter(tmp_path / "g.parquet", pa.schema([("a", pa.int32())])):
        pass
    assert read_column_ranges(pq.read_metadata(tmp_path / "g.parquet")) == []


def test_a_column_of_nulls_has_no_range(tmp_path: Path) -> None:
    found = only(tmp_path, pa.nulls(3, pa.int32()))
    assert (found.min_value, found.max_value, found.value_count, found.null_count) == (None, None, 3, 3)


def test_a_column_of_nan_has_every_range(tmp_path: Path) -> None:
    found = only(tmp_path, pa.array([math.nan, None]))
    assert found.min_value == -math.inf
    assert isinstance(found.max_value, float)
    assert math.isnan(found.max_value)
    assert found.null_count == 1


def test_a_column_without_statistics_has_every_range(tmp_path: Path) -> None:
    for short in ("", "a", "y"):
        # Some releases of pyarrow know one end.
        found = only(tmp_path, pa.array(["x" * 9000, short]))
        assert isinstance(found.min_value, bytes)
        assert isinstance(found.max_value, bytes)
        assert found.min_value <= min(b"x" * 9000, short.encode())
        assert found.max_value >= max(b"x" * 9000, short.encode())
        assert found.null_count == 0
    empty = only(tmp_path, pa.array(["", ""]))
    assert (empty.min_value, empty.max_value) == (b"", b"")
    for values in (pa.array([1, 2], pa.int32()), pa.array([Decimal("1.5")], pa.decimal128(5, 2))):
        found = only(tmp_path, values, write_statistics=False)
        assert (found.min_value, found.max_value) == widest_range(found.value_type, found.precision)
        assert found.null_count == len(values) - 1


@pytest.mark.parametrize("value_type", [kind for kind in ValueType if kind not in (ValueType.V1, ValueType.NULL)])
def test_the_widest_range_is_one(value_type: ValueType) -> None:
    low, high = widest_range(value_type, 4)
    assert low < high or math.isnan(high)  # type: ignore[operator, arg-type]
    if value_type is ValueType.DATE:
        assert date(1970, 1, 1).toordinal() + high == date(9999, 12, 31).toordinal()
        assert date(1970, 1, 1).toordinal() + low == date(1, 1, 1).toordinal()
