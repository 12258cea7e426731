from __future__ import annotations

from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from hoodie.exception import HoodieConfigException, HoodieTransformException
from hoodie.utilities import duckdb_sql
from hoodie.utilities.duckdb_sql import open_duckdb, run_statements, split_statements

ROWS = pa.table({"a": [1, 2], "s": ["x", None]})


@pytest.mark.parametrize(
    ("sql", "statements"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1"]),
        ("SELECT 1;\n\n;SELECT 2 ; ", ["SELECT 1", "SELECT 2"]),
        ("SELECT 'a;b', \"c;d\", `e;f`", ["SELECT 'a;b', \"c;d\", `e;f`"]),
        ("SELECT 'it''s;'; SELECT 2", ["SELECT 'it''s;'", "SELECT 2"]),
        ("-- a; b\nSELECT 1; /* c; d */ SELECT 2", ["-- a; b\nSELECT 1", "/* c; d */ SELECT 2"]),
        ("SELECT 1; -- the end", ["SELECT 1"]),
        ("  -- nothing", []),
        ("", []),
    ],
)
def test_statements_end_at_semicolons_outside_of_quotes_and_comments(sql: str, statements: list[str]) -> None:
    assert split_statements(sql) == statements


def test_types_come_back_as_they_went_in() -> None:
    rows = pa.table(
        {
            "time": pa.array([1, None], pa.timestamp("us", "UTC")),
            "local": pa.array([1, None], pa.timestamp("us")),
            "day": pa.array([1, None], pa.date32()),
            "money": pa.array([Decimal("1.25"), None], pa.decimal128(20, 2)),
            "bytes": pa.array([b"\xff", None]),
            "small": pa.array([1, None], pa.int8()),
            "real": pa.array([1.5, None], pa.float32()),
            "flag": pa.array([True, None]),
            "point": pa.array([{"x": 1, "y": "a"}, None]),
            "tags": pa.array([["a"], None]),
            "pairs": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
        }
    )

    changed = run_statements(["SELECT * FROM src"], {"src": rows}, "a test")

    assert changed.to_pylist() == rows.to_pylist()
    assert [str(kind) for kind in changed.schema.types[:8]] == [str(kind) for kind in rows.schema.types[:8]]


def test_a_sum_of_whole_numbers_has_64_bits_as_in_spark() -> None:
    changed = run_statements(["SELECT sum(a) AS total, count(*) AS n FROM src"], {"src": ROWS}, "a test")

    assert changed.schema == pa.schema([("total", pa.int64()), ("n", pa.int64())])
    assert changed.to_pylist() == [{"total": 3, "n": 2}]


def test_the_last_statement_gives_the_rows_and_cached_tables_are_temporary_ones() -> None:
    statements = ["CACHE TABLE mine AS SELECT * FROM src WHERE a > 1", "SELECT s, a FROM mine"]

    assert run_statements(statements, {"src": ROWS}, "a test").to_pylist() == [{"s": None, "a": 2}]


@pytest.mark.parametrize("statement", ["SELECT nowhere FROM src", "SELEC 1", "SELECT CAST(s AS INT) FROM src"])
def test_a_statement_that_fails_is_named(statement: str) -> None:
    with pytest.raises(HoodieTransformException, match="a test: statement 2 of 2 failed in DuckDB") as raised:
        run_statements(["SELECT 1", statement], {"src": ROWS}, "a test")

    assert str(raised.value).endswith(f": {statement}")


@pytest.mark.parametrize("statement", ["SET threads = 1", "CREATE TABLE mine AS SELECT 1"])
def test_statements_without_rows_are_refused(statement: str) -> None:
    with pytest.raises(HoodieTransformException, match="the last statement gives no rows"):
        run_statements([statement], {"src": ROWS}, "a test")


def test_a_variable_of_python_is_no_table() -> None:
    hidden = ROWS

    with open_duckdb({"shown": ROWS}, "a test") as connection:
        assert connection.sql("SELECT * FROM shown").to_arrow_table() == hidden
        with pytest.raises(duckdb.Error, match="hidden"):
            connection.sql("SELECT * FROM hidden").to_arrow_table()


def test_without_duckdb_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_sql, "duckdb", None)

    with pytest.raises(HoodieConfigException, match=r"a test needs DuckDB.*pip install 'hoodie\[sql\]'"):
        run_statements(["SELECT 1"], {}, "a test")
