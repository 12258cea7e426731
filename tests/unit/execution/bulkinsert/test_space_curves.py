"""Values on space-filling curves, to the last bit."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hoodie.execution.bulkinsert import space_curves
from hoodie.execution.bulkinsert.space_curves import (
    has_ordinates,
    hilbert_bits,
    hilbert_ordinates,
    mixed_bits,
    mixing_order,
    z_ordinates,
)
from tests.support.curves import (
    hilbert_bytes,
    hilbert_index,
    hilbert_long,
    z_bytes,
    z_value,
)

MASK = (1 << 64) - 1
UTC_MICROS = pa.timestamp("us", "UTC")
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), 1234567890123]),
    (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), 77]),
    (pa.int16(), [0, -5, 2**15 - 1, -(2**15)]),
    (pa.int8(), [0, -5, 127, -128]),
    (pa.float64(), [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324, -5e-324]),
    (pa.float32(), [0.0, -0.0, 0.1, -0.1, math.inf, -math.inf, math.nan]),
    (pa.string(), ["", "a", "é", "1234567", "12345678", "123456789", "日本語日本語", "\0", "z" * 100]),
    (pa.large_string(), ["", "a", "12345678", "z" * 100]),
    (pa.binary(), [b"", b"\xff", b"\x80" * 8, b"\0\0", b"\xfe" * 20]),
    (pa.date32(), [date(1970, 1, 1), date(2026, 3, 1), date(1900, 1, 1), date(9999, 12, 31)]),
    (UTC_MICROS, [datetime(1970, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
                  datetime(2026, 3, 1, 1, 2, 3, 456_789, UTC)]),
    (pa.timestamp("ms", "UTC"), [datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)]),
    (pa.timestamp("s", "UTC"), [datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)]),
    (pa.timestamp("ns", "Europe/Berlin"), [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)]),
    (pa.decimal128(10, 1), [Decimal("-1.9"), Decimal("1.9"), Decimal("0.0"), Decimal("-0.5")]),
    (pa.decimal128(9, 0), [Decimal(-7), Decimal(7)]),
    (pa.decimal128(38, 2), [Decimal(f"{sign}123456789012345678901234567890.92") for sign in ("", "-")]),
    (pa.bool_(), [True, False]),
]  # fmt: skip


def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """The values and nulls behind an offset, so that buffers do not begin with the first value."""
    whole = pa.array([values[-1], None, *values, None], kind)
    return whole.slice(1)


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_values_and_nulls_of_each_type_have_the_numbers_of_hudi(kind: pa.DataType, values: list[Any]) -> None:
    assert has_ordinates(kind)
    given = column(kind, values).to_pylist()
    assert len(given) == len(values) + 2
    found = z_ordinates(column(kind, values)).tolist()
    assert [f"{number:016x}" for number in found] == [z_bytes(value, kind).hex() for value in given]
    assert hilbert_ordinates(column(kind, values)).tolist() == [hilbert_long(value, kind) & MASK for value in given]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_columns_of_nulls_and_empty_columns_have_numbers(kind: pa.DataType, values: list[Any]) -> None:
    for count in (0, 3):
        nulls = pa.nulls(count, kind)
        assert z_ordinates(nulls).tolist() == [int.from_bytes(z_bytes(None, kind), "big")] * count
        assert hilbert_ordinates(nulls).tolist() == [hilbert_long(None, kind)] * count


@pytest.mark.parametrize(
    ("values", "z", "hilbert"),
    [
        # SpaceCurveSortingHelper of Hudi 1.2.0 gave these.
        (pa.array([math.nan, -0.0, None]), "7ff8000000000000 8000000000000000 ffefffffffffffff",
         [0x7FF8000000000000, -(2**63), 2**63 - 1]),
        (pa.array([-1.5, None], pa.float32()), "4007ffffffffffff c7efffffe0000000",
         [-4613937818241073152, 2**63 - 1]),
        (pa.array([Decimal("-1.9")], pa.decimal128(10, 1)), "7fffffffffffffff", [-1]),
        (pa.array([Decimal("123456789012345678901234567890.12")], pa.decimal128(38, 2)), "4373e0ee4e3f0ad2",
         [-4362896299872285998]),
        (pa.array([date(2018, 12, 24)]), "80000167dd82dc00", [1545609600000]),
        (pa.array([-1], UTC_MICROS), "7fffffffffffffff", [-1]),
        (pa.array([True, None]), "0000000080000001 0000000080000000", [2**63 - 1, 0]),
        (pa.array([-5, None], pa.int8()), "00000000000000fb 000000000000007f", [251, 2**63 - 1]),
        (pa.array([-5, None], pa.int16()), "000000007ffffffb 0000000080007fff", [-5, 2**63 - 1]),
        (pa.array(["é", None]), "000000000000c3a9 0000000000000000", [50089, 2**63 - 1]),
        (pa.array([b"", None], pa.binary()), "0000000000000000 0000000000000000", [0, 2**63 - 1]),
    ],
)  # fmt: skip
def test_numbers_are_those_of_real_hudi(values: pa.Array, z: str, hilbert: list[int]) -> None:
    assert " ".join(f"{number:016x}" for number in z_ordinates(values).tolist()) == z
    assert hilbert_ordinates(values).tolist() == [number & MASK for number in hilbert]


def test_bits_of_values_that_are_no_number_count_on_the_z_order_only() -> None:
    """Java: doubleToRawLongBits for one, doubleToLongBits for the other."""
    values = pa.array(np.array([0x7FF8000000000123, 0xFFF8000000000001], np.uint64).view(np.float64))
    assert [f"{number:016x}" for number in z_ordinates(values).tolist()] == ["7ff8000000000123", "fff8000000000001"]
    assert hilbert_ordinates(values).tolist() == [0x7FF8000000000000] * 2


def test_a_date_begins_in_the_zone_that_is_given() -> None:
    # Real Hudi in that zone. On the second day clocks skipped midnight.
    days = pa.array([date(1970, 1, 1), date(2018, 11, 4), date(2018, 12, 24), None])
    assert [f"{number:016x}" for number in z_ordinates(days, "America/Sao_Paulo").tolist()][::2] == [
        "8000000000a4cb80",
        "80000167ddf0b900",
    ]
    assert hilbert_ordinates(days, "America/Sao_Paulo").tolist() == [
        10800000,
        1541300400000,
        1545616800000,
        2**63 - 1,
    ]


OTHERS = [pa.list_(pa.int32()), pa.struct([("a", pa.int32())]), pa.map_(pa.string(), pa.int32()), pa.timestamp("us"),
          pa.null(), pa.uint8(), pa.time64("us"), pa.binary(4)]  # fmt: skip


@pytest.mark.parametrize("kind", OTHERS, ids=str)
def test_other_types_have_no_numbers(kind: pa.DataType) -> None:
    assert not has_ordinates(kind)


def numbers(words: list[np.ndarray], bits: int) -> list[int]:
    """The bits of each row as one number; ``bits`` are those of all columns."""
    spare = 64 * len(words) - bits
    found = [int.from_bytes(b"".join(int(word).to_bytes(8, "big") for word in row)) for row in zip(*words, strict=True)]
    assert all(number & ((1 << spare) - 1) == 0 for number in found)
    return [number >> spare for number in found]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 13, 70])
def test_bits_are_mixed_as_in_the_definition(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_curves, "_BLOCK_ROWS", 7)
    source = np.random.default_rng(count)
    columns = [source.integers(0, MASK, 20, np.uint64, endpoint=True) for _ in range(count)]
    rows = [[int(number) for number in row] for row in zip(*columns, strict=True)]
    expected = [z_value([number.to_bytes(8, "big") for number in row]) for row in rows]
    assert [number.to_bytes(8 * count, "big") for number in numbers(mixed_bits(columns), 64 * count)] == expected
    for bits in (63, 32):
        found = numbers(mixed_bits(hilbert_bits(columns, bits), bits), bits * count)
        assert found == [hilbert_index(row, bits) for row in rows]


def test_hilbert_values_are_those_of_real_hudi() -> None:
    # HilbertCurveUtils.indexBytes of Hudi 1.2.0 gave these.
    for point, expected in [
        ([-4970722356140327064, 5654168037962045146], "1f9b958fd90be2997d74a78174eb4784"),
        (
            [1695707214030860549, -5827511988491287856, 7690214369000447897],
            "07310e4114032dbb9319da1f7337105a81e131a772df4bc4",
        ),
    ]:
        columns = [np.array([number & MASK], np.uint64) for number in point]
        (found,) = numbers(mixed_bits(hilbert_bits(columns), 63), 63 * len(point))
        assert hilbert_bytes(found).hex() == expected.rjust(126, "0")


def test_columns_are_mixed_in_the_order_of_a_hash_map() -> None:
    """Real Hudi's sort has this rule: `tests/interop/test_space_curves.py`."""
    assert mixing_order([13, 11, 10]) == [2, 1, 0]
    assert mixing_order([5, 16, 31, 21]) == [1, 0, 3, 2]
    assert mixing_order([21, 5, 37]) == [0, 1, 2]
    source = random.Random(1)
    for count, places in [(11, 16), (12, 32), (23, 32), (24, 64), (47, 64), (48, 128)]:
        positions = source.sample(range(5, 300), count)
        assert [positions[number] for number in mixing_order(positions)] == sorted(
            positions, key=lambda position, places=places: position % places
        )
