"""Filters that are written as text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from hoodie.exception import HoodieConfigException
from hoodie.query.filter_text import parse_filter

TABLE = pa.table(
    {
        "n": pa.array([1, 2, 3, None], pa.int64()),
        "s": ["a", "it's", None, "c"],
        "f": [1.5, -2.0, float("nan"), None],
        "b": [True, False, None, True],
        "day": [date(2026, 1, 1), date(2026, 1, 2), None, date(2026, 1, 4)],
        "at": pa.array([datetime(2026, 1, day, 10, tzinfo=UTC) for day in range(1, 5)], pa.timestamp("us", "UTC")),
        "local": pa.array([datetime(2026, 1, day, 10) for day in range(1, 5)], pa.timestamp("us")),
        "price": pa.array([Decimal("1.50"), Decimal("2.00"), None, Decimal("4.00")], pa.decimal128(5, 2)),
        "trip `id`": ["t1", "t2", "t3", "t4"],
        "point": [{"x": 1}, {"x": 2}, {"x": 3}, None],
        "and": [1, 2, 3, 4],
    }
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("n = 1", [0]),
        ("n == 1", [0]),
        ("n<>1", [1, 2]),
        ("n != 1", [1, 2]),
        ("n >=2 AND n<3", [1]),
        ("n = 1 or n = 2 and s = 'x'", [0]),
        ("(n = 1 or n = 2) and s = 'it''s'", [1]),
        ("not n = 1", [1, 2]),
        ("not not n = 1", [0]),
        ("n in (1, 3)", [0, 2]),
        ("n not in (1, 3)", [1]),
        ("not n in (1, 3)", [1]),
        ("not n not in (1, 3)", [0, 2]),
        ("n in (0,1,2,3,4,5,6,7,8,9)", [0, 1, 2]),
        ("n in (1, 99999999999999999999)", [0]),
        ("n < 99999999999999999999", [0, 1, 2]),
        ("n > -9223372036854775809", [0, 1, 2]),
        ("f < 1e999 and f > -99999999999999999999", [0, 1]),
        ("n is null", [3]),
        ("n is not null and not s is null", [0, 1]),
        ("f > -2.5e0", [0, 1]),
        ("f = -2", [1]),
        ("b = true", [0, 3]),
        ("b = FALSE", [1]),
        ("day > date '2026-01-01'", [1, 3]),
        ("at <= timestamp '2026-01-02 10:00:00'", [0, 1]),
        ("at <= timestamp '2026-01-02 11:00:00+01:00'", [0, 1]),
        ("local < timestamp_ntz '2026-01-02T10:00:00'", [0]),
        ("price = decimal '1.50'", [0]),
        ("`trip ``id``` = 't3'", [2]),
        ("point.x = 2", [1]),
        ("`point`.`x` = 3", [2]),
        ("`and` = 4", [3]),
    ],
)
def test_the_rows_are_those_of_sql(text: str, rows: Sequence[int]) -> None:
    numbered = TABLE.append_column("row", pa.array(range(4)))
    assert numbered.filter(parse_filter(text))["row"].to_pylist() == rows


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "at the end: expected a column"),
        ("n >", "at the end: expected a literal"),
        ("n > 1 s = 'a'", r"at \"s = 'a'\": expected and, or, or the end"),
        ("n = null", "at 'null': a comparison with null is never true"),
        ("s = 'a", "this is no name, literal or comparison"),
        ("n ~ 1", "at '~ 1': this is no name"),
        ("1 = n", "at '1 = n': expected a column"),
        ("(n = 1", r"at the end: expected \)"),
        ("n in ()", r"at '\)': expected a literal"),
        ("n not 1", "at '1': expected in"),
        ("n between 1 and 2", "at 'between 1 and 2': expected a comparison"),
        ("day > date 'soon'", r"this is no date"),
        ("day > date 5", "expected a text in quotes after date"),
        ("price = decimal 'x'", "this is no decimal"),
        ("price = decimal 'NaN'", "this is no decimal"),
        ("price = decimal '-Infinity'", "this is no decimal"),
        ("n = 1" + "0" * 80, "this is no number"),
        ("local < timestamp_ntz '2026-01-02T10:00:00Z'", "this is no timestamp_ntz"),
        ("(" * 5000 + "n = 1" + ")" * 5000, r"at '\(.*more than 100 parentheses and nots in each other"),
        ("not " * 5000 + "n = 1", "at 'not .*more than 100 parentheses and nots in each other"),
        (" or ".join(["n = 1"] * 20_000), "more than 1000 comparisons; write those of one column as one in"),
        ("n = s", "at 's': expected a literal"),
        ("n = 1x", "this is no name, literal or comparison"),
    ],
)
def test_other_texts_are_refused_with_the_place(text: str, problem: str) -> None:
    with pytest.raises(HoodieConfigException, match=problem):
        parse_filter(text)


@pytest.mark.parametrize(
    ("column", "listed", "rows"),
    [
        ("n", "1, 3", [0, 2]),
        ("f", "0, 7.5", [1, 2]),
        ("f", "7.5", [2]),
        ("s", "'a', 'c'", [0, 3]),
        ("price", "decimal '0.00', decimal '4.00'", [0, 3]),
    ],
)
@pytest.mark.parametrize("negation", ["", "not"])
@pytest.mark.parametrize("length", [5, 20_000])
def test_lists_of_any_length_choose_the_same_rows(
    column: str, listed: str, rows: list[int], negation: str, length: int
) -> None:
    values = {
        "n": pa.array([1, 2, 3, None], pa.int64()),
        "f": [None, -0.0, 7.5, float("nan")],
        "s": ["a", "b", None, "c"],
        "price": pa.array([Decimal("0.00"), None, Decimal("1.00"), Decimal("4.00")], pa.decimal128(5, 2)),
    }[column]
    others = {"n": "{}", "f": "{}.25", "s": "'x{}'", "price": "decimal '{}'"}[column]
    more = ", ".join(others.format(number) for number in range(200, 200 + length))
    table = pa.table({column: values, "row": range(4)})
    found = table.filter(parse_filter(f"{column} {negation} in ({more}, {listed})"))["row"].to_pylist()
    without_null = [row for row in range(4) if table[column][row].is_valid]
    assert found == ([row for row in without_null if row not in rows] if negation else rows)


def test_a_message_shows_the_beginning_of_a_long_filter() -> None:
    with pytest.raises(HoodieConfigException) as caught:
        parse_filter(" or ".join(["n = 1"] * 20_000))
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("s.fare > t.fare", [1]),
        ("s.fare <> t.fare and s.gone", []),
        ("s.gone", [0]),
        ("not s.gone or s.fare = 2", [1]),
        ("(s.gone) and s.fare = 1", [0]),
        ("s.fare = 2", [1]),
    ],
)
def test_conditions_of_two_tables_compare_columns(text: str, rows: Sequence[int]) -> None:
    source = pa.array([{"fare": 1, "gone": True}, {"fare": 2, "gone": False}, {"fare": None, "gone": None}])
    target = pa.array([{"fare": 1}, {"fare": 1}, {"fare": 1}])
    both = pa.table({"number": [0, 1, 2], "s": source, "t": target})
    assert both.filter(parse_filter(text, compares_columns=True))["number"].to_pylist() == rows


@pytest.mark.parametrize("text", ["s.fare > t.fare", "s.gone", "s.gone and s.fare = 1"])
def test_a_filter_of_one_table_compares_no_columns(text: str) -> None:
    with pytest.raises(HoodieConfigException, match="expected a"):
        parse_filter(text)


def test_a_name_without_a_dot_is_no_column_to_compare_with() -> None:
    with pytest.raises(HoodieConfigException, match="expected a literal"):
        parse_filter("s.fare = fare", compares_columns=True)
