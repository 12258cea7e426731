"""Values of filters, in the forms that programs have, become the column's type as values of rows do."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie.common.data.expression_tree import build_expression, parse_expression
from hoodie.exception import HoodieSchemaException
from tests.support.table_builder import local_client


class City(enum.Enum):
    ROME = "rome"


class Text(enum.StrEnum):
    ROME = "rome"


UTC = dt.UTC
EAST = dt.timezone(dt.timedelta(hours=8))
NAN = float("nan")
ID = uuid.UUID(int=7)
MORNING, DAY = dt.datetime(2026, 1, 1, 10), dt.date(2026, 1, 2)
TIMES = [MORNING, dt.datetime(2026, 1, 2), None, dt.datetime(2026, 1, 3)]
LONG = "東京都千代田区丸の内一丁目" * 12
ROWS = pa.table(
    {
        "id": ["a", "b", "c", "d"],
        "city": ["rome", "oslo", None, LONG],
        "i": pa.array([1, 2, None, 4], pa.int32()),
        "l": [2**53 + 1, 2**53, None, -(2**63)],
        "f": [0.0, -0.0, NAN, None],
        "g": pa.array([0.1, -0.0, NAN, None], pa.float32()),
        "ts": pa.array(TIMES, pa.timestamp("us", "UTC")),
        "day": pa.array([dt.date(2026, 1, 1), DAY, None, dt.date(2026, 1, 3)]),
        "d": pa.array([Decimal("1.50"), Decimal(2), None, Decimal(4)], pa.decimal128(10, 2)),
        "b": [True, False, None, True],
        "u": [str(ID), "x", None, "y"],
        "n": [{"t": MORNING.replace(tzinfo=UTC)}, {"t": None}, None, {"t": None}],
    }
)
CASES: list[tuple[Any, str]] = [
    (("city", "in", []), ""),
    (("city", "not in", []), "abcd"),
    (("city", "in", set()), ""),
    (("n", "in", []), ""),
    (("n", "not in", ()), "abcd"),
    (("city", "in", [None]), "c"),
    (("n", "in", [None]), "c"),
    (("city", "not in", [None]), "abd"),
    (("city", "in", ["rome", None]), "ac"),
    (("city", "in", frozenset(["rome", LONG])), "ad"),
    (("city", "==", LONG), "d"),
    (("city", "in", {"rome": 1}.keys()), "a"),
    (("city", "in", pd.Series(["rome", None])), "ac"),
    (("city", "in", pd.Series(["rome"], dtype="category")), "a"),
    (("city", "in", pd.Categorical(["rome", "oslo"])), "ab"),
    (("city", "in", pd.Index(["rome"])), "a"),
    (("city", "in", np.array(["rome"])), "a"),
    (("city", "in", pl.Series(["rome"])), "a"),
    (("city", "in", pa.chunked_array([["rome"], ["oslo"]])), "ab"),
    (("city", "in", pa.array(["rome"]).dictionary_encode()), "a"),
    (("city", "in", pa.array(["rome"], pa.large_string())), "a"),
    (("city", "==", City.ROME), "a"),
    (("city", "in", [City.ROME, Text.ROME]), "a"),
    (("u", "==", ID), "a"),
    (("u", "in", [ID, "x"]), "ab"),
    (("u", "not in", [ID]), "bcd"),
    (("i", "in", range(3)), "ab"),
    (("i", "in", np.array([1, 2**40])), "a"),
    (("i", "in", [1, 2.0, Decimal(4), 1.5]), "abd"),
    (("i", "<", 2.5), "ab"),
    (("i", "!=", 2.5), "abd"),
    (("i", ">", -(2**70)), "abd"),
    (("i", "in", pd.Series([1, None], dtype="Int64")), "ac"),
    (("l", "==", 2.0**53), "b"),
    (("l", "in", [2.0**53]), "b"),
    (("l", ">", 5.5), "ab"),
    (("l", "<", 2**64), "abd"),
    (("l", "<", float("-inf")), ""),
    (("l", "<=", NAN), ""),
    (("f", "==", 0), "ab"),
    (("f", "in", [0.0]), "ab"),
    (("f", "in", [-0.0, 7.0]), "ab"),
    (("f", "in", [Decimal(0)]), "ab"),
    (("f", "not in", [0]), "cd"),
    (("f", "==", NAN), "c"),
    (("f", "in", [NAN]), "c"),
    (("f", "!=", NAN), "ab"),
    (("f", "not in", [NAN]), "abd"),
    (("g", "==", 0.1), "a"),
    (("g", "in", [0.1]), "a"),
    (("g", "<=", Decimal("0.1")), "ab"),
    (("g", "<", 1e300), "ab"),
    (("ts", "==", MORNING), "a"),
    (("ts", "==", MORNING.replace(tzinfo=UTC)), "a"),
    (("ts", "in", [dt.datetime(2026, 1, 1, 18, tzinfo=EAST), dt.datetime(2026, 1, 3)]), "ad"),
    (("ts", "in", [DAY, MORNING]), "ab"),
    (("ts", "==", "2026-01-01T10:00:00"), "a"),
    (("ts", "==", "2026-01-01 18:00:00.000000000+08:00"), "a"),
    (("ts", "<", "2026-01-01 10:00:00.000000001"), "a"),
    (("ts", ">=", "2026-01-02"), "bd"),
    (("ts", "in", ["2026-01-02", "2026-01-01T10:00:00Z"]), "ab"),
    (("ts", "==", np.datetime64("2026-01-01T10:00")), "a"),
    (("ts", "in", np.array(["2026-01-01T10"], "datetime64[h]")), "a"),
    (("ts", "in", pd.to_datetime(["2026-01-01T10:00"])), "a"),
    (("ts", "==", pd.Timestamp("2026-01-01 10:00:00.000000001")), ""),
    (("ts", ">", pd.Timestamp("2026-01-01 18:00:00.000000001", tz=EAST)), "bd"),
    (("ts", "in", [pd.NaT, pd.Timestamp(DAY)]), "bc"),
    (("ts", "in", [np.datetime64("NaT"), np.datetime64("2026-01-02")]), "bc"),
    (("f", "==", np.longdouble(0)), "ab"),
    (("d", "==", np.longdouble("1.5")), "a"),
    (("f", "in", [np.longdouble("nan")]), "c"),
    (("day", "==", "2026-01-02"), "b"),
    (("day", "in", ["2026-01-02"]), "b"),
    (("day", "==", dt.datetime(2026, 1, 2)), "b"),
    (("day", "in", [dt.datetime(2026, 1, 2, 1)]), ""),
    (("day", ">", dt.datetime(2026, 1, 2, 1)), "d"),
    (("day", "==", np.datetime64("2026-01-02")), "b"),
    (("d", "==", 1.5), "a"),
    (("d", "in", [1.5, 2, Decimal("3.999")]), "ab"),
    (("d", "<", Decimal("1.501")), "a"),
    (("d", "<", 10**30), "abd"),
    (("d", ">", -(10**30)), "abd"),
    (("b", "in", [np.bool_(True)]), "ad"),
    (pc.field("n", "t") == MORNING, "a"),
    (pc.field("f").isin([0.0]) & (pc.utf8_length(pc.field("id")) < 2), "ab"),
    (~(pc.field("ts") > "2026-01-01 12:00:00"), "a"),
    (pc.scalar(2.5) > pc.field("i"), "ab"),
]


@pytest.mark.metadata_table
@pytest.mark.parametrize(
    "partition_field",
    ["id", *(pytest.param(name, marks=pytest.mark.slow) for name in ("city", "day", "i", "f"))],
)
def test_each_form_of_a_value_finds_its_rows_whatever_prunes_files(tmp_path: Path, partition_field: str) -> None:
    path = str(tmp_path / "t")
    statistics = {"hoodie.metadata.index.column.stats.enable": True, "hoodie.metadata.enable": True}
    rows = ROWS.set_column(1, "city", pa.array(["rome", "oslo", None, "x"])) if partition_field == "city" else ROWS
    hoodie.write_table(rows, path, record_key_fields="id", partition_fields=partition_field, properties=statistics)
    dataset = hoodie.dataset(path)
    for wanted, found in CASES:
        if partition_field == "city" and LONG in str(wanted):
            continue
        filters = wanted if isinstance(wanted, pc.Expression) else [wanted]
        read = hoodie.read_table(path, columns=["id"], filters=filters)
        assert "".join(sorted(read["id"].to_pylist())) == found, wanted
        assert dataset.count_rows(filter=filters) == len(found), wanted


@pytest.mark.parametrize("column", ["city", "i", "f", "ts", "day", "d", "b", "n"])
@pytest.mark.parametrize(
    "values",
    [
        pd.Series(pd.period_range("2026-01-01", periods=1)),
        pd.Series(pd.interval_range(0, 2)),
        [dt.time(10)],
        [dt.timedelta(1)],
        pa.array([1], pa.time64("us")),
        *([pa.array([1], pa.int8()).cast(pa.bool8())] if hasattr(pa, "bool8") else []),
    ],
    ids=lambda values: str(getattr(values, "dtype", getattr(values, "type", type(values[0]).__name__))),
)
# Arrow compares such values by what they are stored as, and found other rows, or all.
def test_values_of_a_kind_that_no_column_has_are_refused(tmp_path: Path, column: str, values: Any) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(ROWS, path, record_key_fields="id")
    values = pa.array(values)
    for wanted in [[(column, "in", values)], [(column, "==", values[0])], pc.field(column).isin(values)]:
        with pytest.raises(HoodieSchemaException, match="does not fit the table"):
            hoodie.read_table(path, filters=wanted)
    with local_client(path) as client, pytest.raises(HoodieSchemaException):
        client.delete(where=[(column, "in", values)])
    assert hoodie.read_table(path).num_rows == 4


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (("f", "in", {-0.0}), "cd"),
        (("f", "==", NAN), "abd"),
        (("ts", "==", MORNING), "bcd"),
        (("city", "in", [LONG]), "abc"),
        (("city", "in", []), "abcd"),
        (("city", "not in", []), ""),
    ],
    ids=lambda case: str(case)[:40],
)
def test_the_rows_of_such_filters_are_deleted(tmp_path: Path, wanted: Any, left: str) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(ROWS, path, record_key_fields="id")
    with local_client(path) as client:
        client.delete(where=[wanted])
    assert "".join(sorted(hoodie.read_table(path)["id"].to_pylist())) == left


@pytest.mark.metadata_table
@pytest.mark.table_version(9)
def test_values_of_other_types_are_looked_up_in_a_secondary_index(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    indexes = {"hoodie.metadata.enable": True, "hoodie.metadata.record.index.enable": True}
    hoodie.write_table(
        ROWS.select(["id", "u", "l"]), path, record_key_fields="id", partition_fields="u", properties=indexes
    )
    with local_client(path) as client:
        client.create_index("by_l", "l")
    plan = hoodie.plan_read(path, filters=[("l", "in", [2.0**53, None])])
    assert len(plan.slices) >= 1
    assert hoodie.read_table(path, filters=[("l", "in", [2.0**53])])["id"].to_pylist() == ["b"]
    assert len(hoodie.plan_read(path, filters=[("l", "==", 2.0**53)]).slices) == 1


def test_a_filter_of_any_function_is_built_again_from_its_tree() -> None:
    field = pc.field
    for expression in [
        pc.match_substring(field("s"), "x", ignore_case=True) & field("a", "b").isin([1, None]),
        pc.if_else(field("b"), field("f") > 0, ~field("g").is_null(nan_is_null=True)),
        field("t").cast(pa.timestamp("us", "UTC")) == pa.scalar(5, pa.timestamp("us", "UTC")),
        pc.coalesce(field("b"), pc.scalar(True)),
    ]:
        tree = parse_expression(expression)
        assert tree is not None
        built = build_expression(tree)
        assert built is not None
        assert built.equals(expression)
