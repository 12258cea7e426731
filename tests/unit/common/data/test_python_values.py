"""Python objects in frames, dicts and records: each is stored exactly, or refused by an error that names its column.

Every list of values below goes through every door, plain and nested; a plain comparison is the oracle.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hoodie
from hoodie.common.data.record_source import record_batches
from hoodie.common.model.record import HoodieKey, HoodieRecord
from hoodie.exception import (
    HoodieException,
    HoodieKeyException,
    HoodieSchemaException,
    MissingSchemaFieldException,
)
from tests.support.pairs import with_each_pair

UTC = datetime.UTC
DAY = datetime.date(2024, 1, 1)
NOON = datetime.datetime(2024, 1, 1, 12, 30)
TOKYO = NOON.replace(tzinfo=ZoneInfo("Asia/Tokyo"))
FINE = pd.Timestamp("2024-01-01 00:00:00.000000001")
ONE = UUID(int=1)
NAN = float("nan")


class Colour(enum.Enum):
    RED = 1


def array(*values: Any, dtype: Any = None) -> np.ndarray:
    return np.array(values, dtype)


TAKEN: list[list[Any]] = [
    [1, np.int8(2), None],
    [2**63 - 1, -(2**63)],
    [1, 2.5],
    [1.5, np.float32(0.1), float("inf")],
    [True, np.bool_(False)],
    ["ä", np.str_("b"), ""],
    [b"\xff", bytearray(b"a"), memoryview(b"b")],
    [Decimal("1.5"), 1, Decimal("-2.25")],
    [Decimal("1.5"), np.int64(3), None],
    [DAY, datetime.date(9999, 12, 31)],
    [NOON, TOKYO, pd.Timestamp(NOON)],
    [TOKYO, NOON, datetime.datetime(1, 1, 1)],
    [np.datetime64("2024-01-01T12:30:00"), np.datetime64("2024-01-01T12:30:00.000001"), np.datetime64("NaT")],
    [np.datetime64("2024-01-01"), None],
    [pd.NaT, NOON],
    [pd.NaT, DAY],
    [pd.NA, "a"],
    [ONE, None],
    [[1], [2.5], None],
    [array(1, 2), array(1.5)],
    [array("2024-01-01T12:30:00", dtype="datetime64[ns]")],
    [np.ma.array([1, 2], mask=[False, True])],
    [(1, 2)],
    [{"x": 1}, {"x": 2.5, "y": "a"}],
    [{"x": {"y": [ONE, None]}}],
]
REFUSED: list[list[Any]] = [
    [1, True],
    [1.5, True],
    [2**63],
    [np.uint64(2**63)],
    [2**53 + 1, 1.5],
    ["a", 1],
    ["a", b"b"],
    ["\ud800"],
    [DAY, NOON],
    [NOON, DAY],
    [DAY, 5],
    [NOON, 5],
    [FINE],
    [NOON, FINE],
    [np.datetime64("2024-01-01T00:00:00.000000001")],
    [np.datetime64("2024-01-01"), np.datetime64("2024-01-01T12")],
    [np.datetime64(10**15, "s")],
    [Decimal("1.5"), 1.5],
    [Decimal("Infinity")],
    [Decimal("1E+40")],
    [datetime.time(1)],
    [datetime.timedelta(1), 5],
    [ONE, "a"],
    [Colour.RED],
    [object()],
    [1 + 2j],
    [pd.Period("2024-01")],
    [frozenset([1])],
    [[1, True]],
    [[DAY, NOON]],
    [["a", b"b"]],
    [[1], {"x": 1}],
    [array([1, 2])],
    [array(2**53 + 1), array(1.5)],
    [{1: 2}],
    [{"\ud800": 1}],
    [{"x": 1}, {"X": 2}],
    [{"x": DAY}, {"x": NOON}],
    [{}],
]


def pandas_frame(values: list[Any]) -> Any:
    column = np.empty(len(values), object)
    for number, value in enumerate(values):
        column[number] = value
    return pd.DataFrame({"v": pd.Series(column, dtype=object)})


def as_dicts(values: list[Any]) -> Any:
    return [{"v": value} for value in values]


def as_records(values: list[Any]) -> Any:
    return [HoodieRecord(HoodieKey(str(number)), row) for number, row in enumerate(as_dicts(values))]


DOORS: dict[str, Callable[[list[Any]], Any]] = {"pandas": pandas_frame, "dicts": as_dicts, "records": as_records}
NESTINGS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "plain": (lambda value: value, lambda found: found),
    "list": (lambda value: [value], lambda found: found[0]),
    "dict": (lambda value: {"f": value}, lambda found: found["f"]),
    "dicts in lists": (lambda value: [{"f": value}], lambda found: found[0]["f"]),
}


def is_same(given: Any, found: Any) -> bool:
    """Whether a value was stored as it was given."""
    if given is None or given is pd.NaT or given is pd.NA or (isinstance(given, np.datetime64) and np.isnat(given)):
        return found is None
    if isinstance(given, np.ma.MaskedArray):
        given = given.tolist()
    if isinstance(given, np.ndarray | list | tuple):
        return len(found) == len(given) and all(map(is_same, list(given), found))
    if isinstance(given, dict):
        return set(given) <= set(found) and all(is_same(given.get(name), value) for name, value in found.items())
    if isinstance(given, np.datetime64):
        local = found.replace(tzinfo=None) if isinstance(found, datetime.datetime) else found
        return bool(np.datetime64(local) == given)
    if isinstance(given, datetime.datetime):
        return bool(found == (given if given.tzinfo else given.replace(tzinfo=UTC)))
    if isinstance(given, UUID):
        return bool(found == str(given))
    if isinstance(given, np.integer):
        return bool(found == int(given))
    kinds = {str: str, bool: bool, np.bool_: bool, bytes: bytes, datetime.date: datetime.date}
    return bool(found == given) and type(found) is kinds.get(type(given), type(found))


@pytest.mark.parametrize("door", DOORS)
def test_objects_are_stored_exactly_or_refused_by_column(door: str) -> None:
    for number, nesting in with_each_pair(list(product(range(len(TAKEN)), NESTINGS))):
        wrap, unwrap = NESTINGS[nesting]
        values = TAKEN[number]
        table = record_batches(DOORS[door]([wrap(value) for value in values])).table
        assert table is not None
        found = [unwrap(value) for value in table["v"].to_pylist()]
        assert all(map(is_same, values, found)), (nesting, values, found)
    for number, nesting in with_each_pair(list(product(range(len(REFUSED)), NESTINGS))):
        wrap, _ = NESTINGS[nesting]
        with pytest.raises(HoodieSchemaException, match="column 'v|'v"):
            taken = record_batches(DOORS[door]([wrap(value) for value in REFUSED[number]]))
            raise AssertionError((nesting, REFUSED[number], taken.table))


@pytest.mark.parametrize(
    ("records", "error", "told"),
    [
        ([{"\ud800": 1}], HoodieSchemaException, r"column '\\ud800': the name is no text"),
        ([HoodieRecord(HoodieKey("a"), {"\ud800": 1})], HoodieSchemaException, r"column '\\ud800'"),
        (pd.DataFrame({"\ud800": [1]}), HoodieSchemaException, r"column '\\ud800': the name is no text"),
        (
            pd.DataFrame({"v": [1]}, pd.Index(["a"], name="\ud800")),
            HoodieSchemaException,
            r"column '\\ud800': the name is no text",
        ),
        ([{"v": [{"x": {"\ud800": 1}}]}], HoodieSchemaException, r"column 'v\.element\.x' .* key '\\ud800': the name"),
        (
            pd.DataFrame({"v": [{"\ud800": 1}]}),
            HoodieSchemaException,
            r"column 'v' holds a dict with the key '\\ud800': the name",
        ),
        ([HoodieRecord(HoodieKey("\ud800"), {"v": 1})], HoodieKeyException, r"'\\ud800' is no text that UTF-8"),
        ([HoodieRecord(HoodieKey("a", "\ud800"), {"v": 1})], HoodieKeyException, r"'\\ud800' is no text that UTF-8"),
    ],
    ids=["dict", "record", "pandas", "index", "nested", "in pandas", "key", "partition"],
)
def test_names_and_keys_that_utf_8_cannot_hold_are_refused(
    records: Any, error: type[HoodieException], told: str
) -> None:
    with pytest.raises(error, match=told):
        record_batches(records)


def test_nan_is_null_in_frames_of_pandas_and_a_number_in_dicts() -> None:
    for values in (["a", NAN], [Decimal("1.5"), Decimal("NaN")], [True, NAN], [DAY, NAN]):
        table = record_batches(pandas_frame(values)).table
        assert table is not None
        assert table["v"].to_pylist() == [values[0], None]
        with pytest.raises(HoodieSchemaException, match="column 'v'"):
            record_batches(as_dicts(values))
    table = record_batches(as_dicts([1.5, NAN])).table
    assert table is not None
    assert str(table["v"].to_pylist()) == "[1.5, nan]"


@pytest.mark.parametrize(
    ("value", "data_type", "told"),
    [
        (5, pa.timestamp("us", "UTC"), "does not say its unit"),
        (5, pa.date32(), "does not say its unit"),
        (True, pa.float64(), "holds True of type bool"),
        (True, pa.int64(), "holds True of type bool"),
        ("2024/01/01", pa.date32(), "'2024/01/01'"),
        (FINE, pa.timestamp("us", "UTC"), "Hudi stores microseconds"),
        (np.datetime64("2024-01-01T00:00:00.000000001"), pa.timestamp("us", "UTC"), "Hudi stores microseconds"),
        (np.datetime64("2026-01"), pa.timestamp("us", "UTC"), "it is a year, a month or a week; give a date"),
        (np.datetime64("2026"), pa.date32(), "it is a year, a month or a week; give a date"),
        (np.datetime64(3, "W"), pa.date32(), "it is a year, a month or a week; give a date"),
        (np.datetime64("0000-12-31"), pa.date32(), "the years 1 to 9999"),
        (np.datetime64("10000-01-01T00:00:00"), pa.timestamp("us", "UTC"), "the years 1 to 9999"),
        (np.datetime64(2**62, "s"), pa.timestamp("us", "UTC"), "the years 1 to 9999"),
        (NOON, pa.date32(), "it has a time of day"),
        (datetime.datetime(2024, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo")), pa.date32(), "it has a time of day"),
        (TOKYO, pa.timestamp("us"), "local timestamps"),
        (b"\xff", pa.string(), "no UTF-8"),
        (2**31, pa.int32(), "cannot be stored as int32"),
        (Decimal("Infinity"), pa.decimal128(5, 2), "no infinity"),
        (Decimal("1.005"), pa.decimal128(5, 2), "cannot be stored as decimal128"),
        ((1, 2), pa.struct([("x", pa.int64()), ("y", pa.int64())]), "give a dict of field to value"),
        ({"x": 1}, pa.list_(pa.int64()), "holds {'x': 1} of type dict"),
        ([1], pa.map_(pa.string(), pa.int64()), "a list of pairs"),
        ({None: 1}, pa.map_(pa.string(), pa.int64()), "null key"),
        (b"abc", pa.binary(2), "cannot be stored as fixed_size_binary"),
    ],
    ids=str,
)
@pytest.mark.parametrize("nesting", ["plain", "list"])
def test_a_value_that_would_change_in_the_tables_type_is_refused(
    value: Any, data_type: pa.DataType, told: str, nesting: str
) -> None:
    known = data_type if nesting == "plain" else pa.list_(pa.field("element", data_type))
    rows = as_dicts([None, NESTINGS[nesting][0](value)])
    with pytest.raises(HoodieSchemaException, match=r"column 'v(\.element)?") as caught:
        record_batches(rows, pa.schema([("v", known)]))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("value", "data_type", "expected"),
    [
        (pd.NaT, pa.date32(), None),
        (pd.NaT, pa.int64(), None),
        (ONE, pa.list_(pa.binary(16)), [ONE.bytes]),
        (ONE, pa.struct([("u", pa.string())]), {"u": str(ONE)}),
        (DAY, pa.timestamp("us", "UTC"), datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        (np.datetime64("2024-01-01"), pa.date32(), DAY),
        (Decimal(2), pa.int64(), 2),
        ({"k": 1, "l": None}, pa.map_(pa.string(), pa.int32()), [("k", 1), ("l", None)]),
    ],
    ids=str,
)
def test_a_value_that_fits_the_tables_type_is_taken(value: Any, data_type: pa.DataType, expected: Any) -> None:
    if pa.types.is_list(data_type):
        value = [value]
    elif pa.types.is_struct(data_type):
        value = {"u": value}
    table = record_batches(as_dicts([None, value]), pa.schema([("v", data_type)])).table
    assert table is not None
    assert table["v"].to_pylist() == [None, expected]


def test_objects_that_pandas_holds_in_categories_and_in_its_index_are_refused_too() -> None:
    mixed = pd.Index([DAY, NOON], dtype=object)
    with pytest.raises(HoodieSchemaException, match="column 'v' holds values of several types"):
        record_batches(pd.DataFrame({"v": pd.Categorical.from_codes([0, 1], mixed)}))
    with pytest.raises(HoodieSchemaException, match="column 'v' holds values of several types"):
        record_batches(pd.DataFrame({"w": [1, 2]}, index=mixed.rename("v")))
    for column in (pd.period_range("2024-01", periods=2, freq="M"), pd.interval_range(0, 2)):
        with pytest.raises(HoodieSchemaException, match="column 'v' of type pandas"):
            record_batches(pd.DataFrame({"v": column}))
    table = record_batches(pd.DataFrame({"v": [1]}, index=pd.Index([NOON], dtype=object, name="at"))).table
    assert table is not None
    assert table.to_pylist() == [{"at": NOON.replace(tzinfo=UTC), "v": 1}]


def test_values_that_hold_themselves_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for values, door in product(([endless], ["a", {"x": endless}], [1, endless]), DOORS.values()):
        with pytest.raises(HoodieSchemaException, match="column 'v' is nested too deeply"):
            record_batches(door(values))


def test_columns_of_polars_that_arrow_cannot_take_are_named() -> None:
    columns = [pl.Series([object()], dtype=pl.Object)]
    if hasattr(pl, "Int128"):  # polars has it since 1.18
        columns.append(pl.Series([1], dtype=pl.Int128))
    for column in columns:
        with pytest.raises(HoodieSchemaException, match="column 'v' of the DataFrame"):
            record_batches(pl.DataFrame({"a": [1], "v": column}))


def test_dates_and_datetimes_never_become_one_key(tmp_path: Any) -> None:
    frame = pandas_frame([DAY, NOON, NOON.replace(hour=13)])
    with pytest.raises(HoodieException, match="column 'v'"):
        hoodie.write_table(frame, str(tmp_path / "t"), record_key_fields="v")


def test_a_struct_of_dicts_is_refused_or_widened_like_one_of_arrow(tmp_path: Any) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table([{"id": "a", "v": {"x": 1, "Y": "keep"}}], path, record_key_fields="id")
    short: list[Any] = [{"id": "a", "v": {"x": 2}}]
    for data in (short, pd.DataFrame(short), pa.Table.from_pylist(short)):
        with pytest.raises(MissingSchemaFieldException, match=r"v\.Y"):
            hoodie.write_table(data, path)
    more: list[Any] = [{"id": "b", "v": {"x": 2, "y": "z", "n": [{"m": 1}]}}, {"id": "c", "v": {"x": 3, "y": None}}]
    hoodie.write_table(more, path)
    assert hoodie.read_table(path).sort_by("id")["v"].to_pylist() == [
        {"x": 1, "Y": "keep", "n": None},
        {"x": 2, "Y": "z", "n": [{"m": 1}]},
        {"x": 3, "Y": None, "n": None},
    ]


def no_text(*values: bytes) -> pa.Array:
    return pa.array(values, pa.binary()).view(pa.string())


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("v", no_text(b"a", b"\xff")),
        ("v.x", pa.StructArray.from_arrays([no_text(b"a", b"\xff")], names=["x"])),
        ("v.element", pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), no_text(b"a", b"\xff"))),
        ("v.key", pa.MapArray.from_arrays([0, 1, 2], no_text(b"a", b"\xff"), pa.array([1, 2]))),
        ("v", pa.DictionaryArray.from_arrays(pa.array([0, 1]), no_text(b"a", b"\xff"))),
    ],
    ids=["plain", "struct", "list", "map", "dictionary"],
)
def test_strings_that_are_no_utf_8_are_refused(tmp_path: Any, name: str, column: pa.Array) -> None:
    with pytest.raises(HoodieSchemaException, match=rf"column '{name}' is text, and holds b'\\xff', which is no UTF-8"):
        hoodie.write_table(pa.table({"id": ["a", "b"], "v": column}), str(tmp_path / "t"), record_key_fields="id")


def test_keys_and_partitions_that_are_no_utf_8_are_refused_by_name(tmp_path: Any) -> None:
    rows = pa.table({"id": no_text(b"\xff"), "part": ["a"]})
    with pytest.raises(HoodieSchemaException, match="column 'id' is text"):
        hoodie.write_table(rows, str(tmp_path / "t"), record_key_fields="id")
    with pytest.raises(HoodieSchemaException, match="column 'id' is text"):
        hoodie.write_table(rows, str(tmp_path / "u"), record_key_fields="part", partition_fields="id")
    hoodie.write_table([{"id": "a"}], str(tmp_path / "v"), record_key_fields="id")
    with pytest.raises(HoodieSchemaException, match="column 'id' is text"):
        hoodie.write_table(rows, str(tmp_path / "v"), operation="delete")
