"""Rows in the order in which real Hudi puts them along curves."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.config.layout_optimize_config import LayoutOptimizationStrategy
from hoodie.execution.bulkinsert.row_order import RowOrder
from hoodie.execution.bulkinsert.space_curves import hilbert_ordinates, z_ordinates
from tests.interop.hudi_process import HudiProcess

pytestmark = [pytest.mark.interop, pytest.mark.table_versions(9)]

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "number": (pa.int64(), [*range(300)]),
    "long": (pa.int64(), [0, 5, -5, 2**63 - 1, -(2**63), 77_777_777, None]),
    "int": (pa.int32(), [0, 5, -5, 2**31 - 1, -(2**31), None]),
    "short": (pa.int16(), [0, 5, -5, None]),
    "byte": (pa.int8(), [0, 5, -5, None]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324, None]),
    "float": (pa.float32(), [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, None]),
    "text": (pa.string(), ["", "a", "é", "12345678", "123456789", "日本語日本語", "z" * 50, None]),
    "bytes": (pa.binary(), [b"", b"\0", b"\x7f", b"\x80" * 9, b"\xff\0", None]),
    "decimal": (
        pa.decimal128(38, 2),
        [Decimal("-1.90"), Decimal("0.50"), Decimal(10) ** 35, -(Decimal(10) ** 35), None],
    ),
    "day": (pa.date32(), [date(1900, 1, 1), date(1970, 1, 1), date(2026, 1, 1), None]),
    "at": (pa.timestamp("us", "UTC"), [datetime(1960, 1, 1, 0, 0, 0, 1, UTC), datetime(2026, 1, 1, tzinfo=UTC), None]),
    "flag": (pa.bool_(), [True, False, None]),
}
COUNT = 300


def rows() -> pa.Table:
    """Rows with meta columns first, as a clustering reads them; combinations of values are random."""
    source = random.Random(17)
    columns = {name: pa.array([f"{name} {number}" for number in range(COUNT)]) for name in META_COLUMNS}
    for name, (kind, values) in KINDS.items():
        found = values if name == "number" else source.choices(values, k=COUNT)
        columns[name] = pa.array(found, kind)
    return pa.table(columns)


def test_numbers_of_values_are_those_of_real_hudi(hudi: HudiProcess) -> None:
    table = rows()
    names = list(KINDS)
    found = hudi.curve_numbers(table, names)
    for name in names:
        (column,) = table.column(name).chunks
        assert [f"{number:016x}" for number in z_ordinates(column).tolist()] == [row[name][0] for row in found], name
        expected = [row[name][1] & (1 << 64) - 1 for row in found]
        assert hilbert_ordinates(column).tolist() == expected, name


@pytest.mark.parametrize(
    "columns",
    [
        ["text", "double"],
        ["at", "day", "int"],
        ["flag", "bytes", "decimal", "float"],
        ["number", "byte", "short", "long", "text", "at", "day"],
    ],
)
@pytest.mark.parametrize("strategy", ["ZORDER", "HILBERT"])
def test_rows_that_real_hudi_sorted_are_in_our_order(hudi: HudiProcess, columns: list[str], strategy: str) -> None:
    table = rows()
    order = RowOrder(columns, LayoutOptimizationStrategy(strategy)).checked(table.schema)
    found = hudi.sorted_along_curve(table, columns, strategy)
    assert sorted(found) == list(range(COUNT)) and found != sorted(found)
    (batch,) = table.take(pa.array(found)).combine_chunks().to_batches()
    keys = list(zip(*(key.to_pylist() for key in order.sort_keys(batch)), strict=True))
    assert keys == sorted(keys) and len(set(keys)) > 10


def test_many_columns_are_mixed_as_real_hudi_does(hudi: HudiProcess) -> None:
    source = random.Random(5)
    names = [f"c{number}" for number in range(40)]
    table = pa.table({name: pa.array([f"{number}" for number in range(COUNT)]) for name in META_COLUMNS})
    for name in names:
        table = table.append_column(name, pa.array([source.randrange(-(2**63), 2**63) for _ in range(COUNT)]))
    table = table.append_column("number", pa.array(range(COUNT), pa.int64()))
    for count in (2, 11, 12, 13, 23, 24, 25):
        columns = source.sample(names, count)
        found = hudi.sorted_along_curve(table, columns, "ZORDER")
        (batch,) = table.take(pa.array(found)).combine_chunks().to_batches()
        order = RowOrder(columns, LayoutOptimizationStrategy.ZORDER).checked(table.schema)
        keys = list(zip(*(key.to_pylist() for key in order.sort_keys(batch)), strict=True))
        assert keys == sorted(keys), columns
