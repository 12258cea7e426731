"""Values as strings: Java's rules."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.exception import HoodieKeyException
from hoodie.keygen.value_strings import can_be_key, value_strings


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (-2.5, "-2.5"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (123456.789, "123456.789"),
        (1.0e23, "9.999999999999999E22"),
        (5e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_are_written_as_java_does(value: float, expected: str) -> None:
    assert value_strings(pa.array([value])).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.1, "0.1"), (3.4028235e38, "3.4028235E38"), (1.4e-45, "1.4E-45"), (1e10, "1.0E10"), (16777216.0, "1.6777216E7")],
)
def test_floats_are_written_with_their_own_precision(value: float, expected: str) -> None:
    assert value_strings(pa.array([value], pa.float32())).to_pylist() == [expected]


@given(st.floats(allow_nan=False))
def test_a_double_is_found_again_from_its_string(value: float) -> None:
    (text,) = value_strings(pa.array([value])).to_pylist()
    assert struct.pack("d", float(text)) == struct.pack("d", value)
    assert "." in text or "Infinity" in text


@given(st.decimals(allow_nan=False, allow_infinity=False, places=10, min_value=-(10**15), max_value=10**15))
def test_decimals_are_written_as_bigdecimal_does(value: Decimal) -> None:
    # Python follows the same specification (General Decimal Arithmetic, to-scientific-string) as BigDecimal.toString.
    (text,) = value_strings(pa.array([value], pa.decimal128(38, 10))).to_pylist()
    if value == 0:
        assert text == "0E-10"
    else:
        assert text == str(value.quantize(Decimal(1).scaleb(-10)))


@given(st.dates())
def test_dates_are_iso(value: datetime.date) -> None:
    assert value_strings(pa.array([value])).to_pylist() == [value.isoformat()]


def test_dates_that_python_does_not_know_have_a_sign_as_in_java() -> None:
    days = pa.array([2932896, 2932897, -719162, -719163, -719528, -719529, None], pa.int32())
    assert value_strings(days.view(pa.date32())).to_pylist() == [
        "9999-12-31",
        "+10000-01-01",
        "0001-01-01",
        "0000-12-31",
        "0000-01-01",
        "-0001-12-31",
        None,
    ]


def test_bytes_are_hexadecimal() -> None:
    assert value_strings(pa.array([b"ab", b"\xff", b"", None])).to_pylist() == ["6162", "ff", "", None]


def test_timestamps_are_numbers_or_as_java_sql_timestamp_has_them() -> None:
    micros = pa.array([0, -1, -1_500_000, 1_700_000_000_123_456, None], pa.int64()).view(pa.timestamp("us", "UTC"))
    assert value_strings(micros).to_pylist() == ["0", "-1", "-1500000", "1700000000123456", None]
    assert value_strings(micros, consistent_timestamps=True).to_pylist() == [
        "1970-01-01 00:00:00.0",
        "1970-01-01 00:00:00.0",
        "1969-12-31 23:59:58.5",
        "2023-11-14 22:13:20.123",
        None,
    ]


def test_a_slice_gives_the_strings_of_its_own_values() -> None:
    values = pa.array([0.5, 1.5, None, 1.5]).slice(1)
    assert value_strings(values).to_pylist() == ["1.5", None, "1.5"]


def test_nested_values_have_no_string() -> None:
    assert not can_be_key(pa.list_(pa.int32()))
    assert can_be_key(pa.dictionary(pa.int32(), pa.string()))
    with pytest.raises(HoodieKeyException, match="struct"):
        value_strings(pa.array([{"a": 1}]))
