"""Filters of whole tables: reads, deletes and partitions."""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import operator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, example, given, settings

import hoodie
from hoodie.exception import HoodieCorruptedDataException, HoodieException
from tests.support.filter_cases import SCHEMA, filters, in_memory
from tests.support.table_builder import local_client

NAN = math.nan
ZEROS = [0.0, -0.0, 0.0]
WITH_NAN = [1.0, NAN, 1.0]


def write(path: str, values: list[float], partition_fields: str | None = None) -> None:
    table = pa.table({"k": [f"k{number}" for number in range(len(values))], "v": values, "p": ["x"] * len(values)})
    options = {} if partition_fields is None else {"partition_fields": partition_fields}
    hoodie.write_table(table, path, record_key_fields="k", **options)


def keys(path: str, wanted: Any) -> list[str]:
    return sorted(hoodie.read_table(path, columns=["k"], filters=wanted)["k"].to_pylist())


CASES = [
    (ZEROS, [("v", "in", [0.0, 7.0])], ["k0", "k1", "k2"]),
    (ZEROS, [("v", "in", {-0.0})], ["k0", "k1", "k2"]),
    (ZEROS, [("v", "not in", [0])], []),
    (ZEROS, [("v", "==", 0.0)], ["k0", "k1", "k2"]),
    (WITH_NAN, [("v", "!=", 1.0)], ["k1"]),
    (WITH_NAN, [("v", "not in", [1.0, 2.0])], ["k1"]),
    (WITH_NAN, [("v", "==", NAN)], ["k1"]),
    (WITH_NAN, [("v", "in", [7.0, NAN])], ["k1"]),
    (WITH_NAN, [("v", "!=", NAN)], ["k0", "k2"]),
    (WITH_NAN, [("v", "not in", [NAN])], ["k0", "k2"]),
    (WITH_NAN, [("v", ">=", NAN)], []),
    (WITH_NAN, ~(pc.field("v") < 5), ["k1"]),
    (WITH_NAN, pc.field("v").is_null(nan_is_null=True), ["k1"]),
]


@pytest.mark.parametrize("partition_fields", [None, "p", "v"])
@pytest.mark.parametrize(("values", "wanted", "found"), CASES, ids=lambda case: " ".join(str(case).split()))
def test_zeros_and_nan_are_found_and_deleted(
    tmp_path: Path, partition_fields: str | None, values: list[float], wanted: Any, found: list[str]
) -> None:
    path = str(tmp_path / "t")
    write(path, values, partition_fields)
    everything = keys(path, None)
    assert keys(path, wanted) == found
    with local_client(path) as client:
        client.delete(where=wanted)
    assert keys(path, None) == sorted(set(everything) - set(found))


DAYS = [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None]
PARTITIONED = pa.table(
    {
        **{name: [None] * 12 for name in SCHEMA.names},
        "id": list(range(12)),
        "s": ["a", "b", "é", None] * 3,
        "i": [0, 5, None, -7] * 3,
        "d": [day for day in DAYS for _ in range(4)],
        "b": [True, False, None] * 4,
        "f": [0.0, -0.0, NAN, 1.0, 1.0, NAN, NAN, None, 0.1, 0.1, math.inf, 5.0],
        "g": [0.0, -0.0, 1.0, 1.0, 1.0, NAN, NAN, None, 5.0, 5.0, -math.inf, 5.0],
    },
    schema=SCHEMA,
)


@pytest.fixture(scope="module", params=["s", "i", "d", "b", "f"])
def partitioned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("filters") / "t")
    hoodie.write_table(PARTITIONED, path, record_key_fields="id", partition_fields=request.param)
    return path


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(wanted=filters())
@example(wanted=[("g", "<", 3.402823364973241e38)])
@pytest.mark.one_in(4)
def test_a_filter_gives_the_rows_of_partitions_that_it_gives_in_memory(partitioned: str, wanted: Any) -> None:
    expected = in_memory(hoodie.read_table(partitioned), wanted)
    if expected is None:
        return
    found = hoodie.read_table(partitioned, columns=["id"], filters=wanted)["id"].to_pylist()
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ([("i", "in", ["1"])], r"column i is int32.*'1' of type str \(string\)"),
        ([("k", "in", [1])], r"column k is string.*1 of type int \(int64\)"),
        ([("i", "==", "1")], r"column i is int32.*'1' of type str \(string\)"),
        ([("d", ">", "1.1.2024")], r"column d is date32.*'1\.1\.2024'.*ISO form"),
        (pc.field("i"), r"must evaluate to bool"),
        (pc.field("i") / 0 == 1, r"i is int32.*divide by zero"),
        ([("l", "==", True)], r"column l is int64.*True of type bool \(bool\)"),
        ([("k", "in", "a")], r"'in'.*searches in 'a'.*\['a'\]"),
        ([("k", "in", b"a")], r"'in'.*searches in b'a'"),
        ([("k", "in", None)], r"\('k', 'in', .*searches in None of type NoneType"),
        ([("k", "in", object)], r"\('k', 'in', .*searches in <class 'object'> of type type"),
        ([("k", "==", ["a"])], r"\('k', '==', .*compares with \['a'\] of type list: give one value, or write 'in'"),
        ([("k", "==", "\ud800")], r"\('k', '==', .*compares with '\\ud800' of type str: "),
        ([("k", "in", [1j])], r"\('k', 'in', .*searches for 1j of type complex: "),
        ([("k", "like", "a%")], r"the operator is one of"),
    ],
    ids=str,
)
@pytest.mark.parametrize("partition_fields", [None, "i", "d"])
def test_a_filter_that_does_not_fit_is_a_user_error_that_names_column_type_and_value(
    tmp_path: Path, wanted: Any, named: str, partition_fields: str | None
) -> None:
    path = str(tmp_path / "t")
    columns = {
        "k": ["a"], "v": pa.array([0.5], pa.float32()), "i": pa.array([1], pa.int32()), "l": [2**53 + 1],
        "d": [datetime.date(2024, 1, 1)],
    }  # fmt: skip
    options = {} if partition_fields is None else {"partition_fields": partition_fields}
    hoodie.write_table(pa.table(columns), path, record_key_fields="k", **options)
    with pytest.raises(HoodieException, match=named) as caught:
        hoodie.read_table(path, filters=wanted)
    assert not isinstance(caught.value, HoodieCorruptedDataException)
    assert "roll" not in str(caught.value)
    assert "\n" not in str(caught.value)
    with (
        local_client(path) as client,
        pytest.raises(HoodieException, match=named),
    ):
        client.delete(where=wanted)
    assert hoodie.read_table(path).num_rows == 1


COMPARED = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
HUGE = {
    "int": 10**400, "Decimal": decimal.Decimal("1E+400"), "a float": 10**100, "least": decimal.Decimal("1E+76"),
    "negative": -(10**9000),
}  # fmt: skip


@pytest.mark.parametrize("huge", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize("name", ["i", "l", "d", "f", "g"])
def test_numbers_beyond_all_decimals_are_compared_with_numbers(
    tmp_path: Path, name: str, huge: int | decimal.Decimal
) -> None:
    path = str(tmp_path / "t")
    types = {"i": pa.int32(), "l": pa.int64(), "d": pa.decimal128(38, 2), "f": pa.float32(), "g": pa.float64()}
    of_floats = [math.inf, -math.inf, NAN] if name in ("f", "g") else []
    values = [0, 1, None, *of_floats]
    column = pa.array(values, types[name])
    rows = pa.table({"id": [str(number) for number in range(len(values))], name: column})
    hoodie.write_table(rows, path, record_key_fields="id")

    def found(sign: str, value: Any) -> list[Any]:
        kept = hoodie.read_table(path, columns=["id"], filters=[(name, sign, value)])["id"].to_pylist()
        return [values[int(key)] for key in sorted(kept)]

    present = [value for value in values if value is not None]
    for sign in ("<", "<=", ">", ">=", "==", "!="):
        expected = [value for value in present if (sign == "!=" if value is NAN else COMPARED[sign](value, huge))]
        assert found(sign, huge) == expected, sign
    assert found("in", [huge]) == []
    assert found("in", [huge, 1]) == [1]
    assert found("not in", [huge, 1]) == [value for value in values if value != 1]
    with pytest.raises(HoodieException, match=r"column id is string"):
        hoodie.read_table(path, filters=[("id", "<", huge)])


def _nested(depth: int) -> pc.Expression:
    """Ands and ors in turn, which no chain holds."""
    found = pc.field("v") == 0.0
    for number in range(depth):
        found = (found | (pc.field("v") == 1.0)) if number % 2 else (found & (pc.field("v") < 5.0))
    return found


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([[("v", "==", float(number)), ("k", ">", "")] for number in range(1, 2000)], ["k1", "k2"]),
        ([("v", "!=", float(number)) for number in range(1, 2000)], ["k0"]),
        (~functools.reduce(operator.or_, [pc.field("v") == float(number) for number in range(1, 2000)]), ["k0"]),
        (_nested(90), ["k0", "k1"]),
        (_nested(900), ["k0", "k1"]),
        (functools.reduce(lambda inner, _: ~inner, range(1001), pc.field("v") == 0.0), ["k1", "k2"]),
    ],
    ids=["or", "and", "not or", "nested", "nested deep", "not"],
)
def test_filters_may_be_long_and_deep(tmp_path: Path, wanted: Any, found: list[str]) -> None:
    path = str(tmp_path / "t")
    write(path, [0.0, 1.0, 2.0])
    assert keys(path, wanted) == found


PRICE = pc.field("price")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([("price", ">", 2)], ["k2", "k3"]),
        ([("price", "<=", 2), ("k", "!=", "k0")], ["k1"]),
        ([("price", "in", [2, 7])], ["k1"]),
        ([("price", "not in", [2, 7])], ["k0", "k2", "k3", "k4"]),
        ([[("price", "==", 2)], [("price", ">", 2.5), ("price", "<", 5000)]], ["k1", "k3"]),
        (~(PRICE > 2), ["k0", "k1"]),
        (pc.scalar(2) < PRICE, ["k2", "k3"]),
        (PRICE.is_null() | (PRICE == 2), ["k1", "k4"]),
        (PRICE.is_null(nan_is_null=True) | (PRICE != 2), ["k0", "k2", "k3", "k4"]),
        (PRICE.is_valid() & (PRICE < 3), ["k0", "k1", "k2"]),
        (PRICE > 10**18, []),
    ],
)
@pytest.mark.parametrize("data_type", [pa.decimal128(5, 2), pa.decimal128(38, 4)])
def test_decimals_are_compared_with_integers(
    tmp_path: Path, data_type: pa.DataType, wanted: Any, found: list[str]
) -> None:
    path = str(tmp_path / "t")
    prices = pa.array([decimal.Decimal(text) for text in ("-1.25", "2.00", "2.50", "3.75")] + [None], data_type)
    table = pa.table({"k": [f"k{number}" for number in range(5)], "price": prices})
    hoodie.write_table(table, path, record_key_fields="k")
    assert keys(path, wanted) == found


def test_an_integer_in_a_filter_of_decimals_excludes_files(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    prices = pa.array([decimal.Decimal(1), decimal.Decimal(9)], pa.decimal128(10, 2))
    table = pa.table({"k": ["a", "b"], "p": ["x", "y"], "price": prices})
    hoodie.write_table(table, path, record_key_fields="k", partition_fields="p")
    assert len(hoodie.plan_read(path, filters=[("price", ">", 5)]).slices) == 1


def test_a_long_or_of_partitions_reads_these_only(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = pa.table({"k": ["a", "b"], "p": ["1", "2000"]})
    hoodie.write_table(table, str(path), record_key_fields="k", partition_fields="p")
    for file in (path / "2000").glob("*.parquet"):
        file.write_bytes(b"")
    assert keys(str(path), [[("p", "==", str(number))] for number in range(1000)]) == ["a"]


def test_a_damaged_file_says_so_beside_a_filter(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(str(path), [float(number) for number in range(1000)])
    (file,) = path.glob("*.parquet")
    content = bytearray(file.read_bytes())
    content[4:2000] = b"\xff" * 1996
    file.write_bytes(content)
    with pytest.raises(HoodieCorruptedDataException, match=file.name):
        hoodie.read_table(str(path), filters=[("v", "!=", 1.0)])
