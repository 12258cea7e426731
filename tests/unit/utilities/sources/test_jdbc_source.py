from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pyarrow as pa
import pytest

from hoodie.exception import (
    HoodieConfigException,
    HoodieReadFromSourceException,
    HoodieSourceTimeoutException,
)
from hoodie.utilities.config.jdbc_source_config import JdbcSourceConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.schema_provider import SchemaProvider
from hoodie.utilities.sources import jdbc_source
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.helpers.jdbc_connection import Database
from hoodie.utilities.sources.helpers.jdbc_types import mysql_types, told_types
from hoodie.utilities.sources.jdbc_source import parse_position, position_text
from hoodie.utilities.sources.source import InputBatch, Source, SourceContext, read_all
from hoodie.utilities.sources.sources import make_source
from tests.support.fake_database_driver import NAME, running_driver
from tests.support.postgres_server import PASSWORD

INCREMENTAL = {"incr.pull": "true", "table.incr.column.name": "version"}


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    """A database of SQLite with some trips, of which three have the same version."""
    path = tmp_path / "trips.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE trips (id TEXT, version BIGINT, fare DOUBLE, paid BOOLEAN, note BLOB)")
        rows = [("a", 6), ("b", 7), ("c", 8), ("d", 8), ("e", 8), ("f", 9)]
        connection.executemany("INSERT INTO trips VALUES (?, ?, 1.5, 1, x'ff')", rows)
    return path


def source_of(url: str, context: dict[str, Any] | None = None, **options: str) -> Source:
    given = {f"hoodie.streamer.jdbc.{key}": value for key, value in {"table.name": "trips", **options}.items() if value}
    given |= {"hoodie.deltastreamer.jdbc.url": url} if url else {}
    return make_source("JdbcSource", SourceContext(StreamerProperties(given), **(context or {})))


def ids(batch: InputBatch) -> list[str]:
    if batch.is_empty:
        return []
    found: list[str] = sorted(read_all(batch)[0]["id"].to_pylist())
    return found


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


# --- positions --------------------------------------------------------------------------------------------------------


def test_rows_of_the_same_value_at_the_limit_are_not_lost(trips: Path) -> None:
    source = source_of(f"jdbc:sqlite:{trips}", **INCREMENTAL)

    first = source.fetch(None, 3)
    second = source.fetch(first.checkpoint, 3)
    third = source.fetch(second.checkpoint, 3)

    assert source.has_positions
    assert (ids(first), first.checkpoint) == (["a", "b", "c", "d", "e"], Checkpoint("8"))
    assert (ids(second), second.checkpoint) == (["f"], Checkpoint("9"))
    assert (ids(third), third.checkpoint) == ([], Checkpoint("9"))


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7, None])
def test_every_limit_reads_each_row_once(trips: Path, limit: int | None) -> None:
    source = source_of(f"jdbc:sqlite:{trips}", **INCREMENTAL)
    checkpoint: Checkpoint | None = None
    found: list[str] = []
    for _ in range(7):
        batch = source.fetch(checkpoint, limit)
        found += ids(batch)
        checkpoint = batch.checkpoint

    assert found == ["a", "b", "c", "d", "e", "f"]


def test_rows_that_come_after_the_fetch_belong_to_the_next_round(trips: Path) -> None:
    source = source_of(f"jdbc:sqlite:{trips}", **INCREMENTAL)
    batch = source.fetch(Checkpoint("8"), None)

    run(trips, "INSERT INTO trips VALUES ('g', 10, 1, 1, NULL)")

    assert ids(batch) == ["f"]
    assert ids(source.fetch(batch.checkpoint, None)) == ["g"]


def test_the_first_round_has_rows_without_a_value_too(trips: Path) -> None:
    run(trips, "INSERT INTO trips VALUES ('n', NULL, 1, 1, NULL)")
    source = source_of(f"jdbc:sqlite:{trips}", **INCREMENTAL)

    first = source.fetch(None, 1)

    assert ids(first) == ["a", "n"]
    assert ids(source.fetch(first.checkpoint, 1)) == ["b"]


def test_an_empty_table_gives_nothing(trips: Path) -> None:
    run(trips, "DELETE FROM trips")
    source = source_of(f"jdbc:sqlite:{trips}", **INCREMENTAL)

    for checkpoint in (None, Checkpoint("5")):
        batch = source.fetch(checkpoint, None)
        assert batch.is_empty
        assert batch.checkpoint == (checkpoint or Checkpoint(""))


def test_all_rows_are_read_without_an_incremental_column(trips: Path) -> None:
    source = source_of(f"jdbc:sqlite:{trips}")

    batch = source.fetch(Checkpoint("9"), None)

    assert not source.has_positions
    assert batch.checkpoint is None
    assert ids(batch) == ["a", "b", "c", "d", "e", "f"]
    assert len(ids(source.fetch(None, 4))) == 4


def test_a_position_of_other_values_is_refused_or_all_rows_are_read(trips: Path) -> None:
    url, lines = f"jdbc:sqlite:{trips}", []
    with pytest.raises(HoodieConfigException, match="position 'topic,0:1' is no value of version.*--ignore-checkpoint"):
        source_of(url, **INCREMENTAL).fetch(Checkpoint("topic,0:1"), None)

    source = source_of(url, {"report": lines.append}, **INCREMENTAL, **{"incr.fallback.to.full.fetch": "true"})
    batch = source.fetch(Checkpoint("topic,0:1"), None)

    assert len(ids(batch)) == 6
    assert batch.checkpoint == Checkpoint("9")
    assert len(lines) == 1
    assert "all rows are read" in lines[0]


def test_values_are_never_part_of_the_sql(trips: Path) -> None:
    run(
        trips,
        "CREATE TABLE texts (id TEXT, version TEXT)",
        "INSERT INTO texts VALUES ('x', 'a''; DROP TABLE trips; --')",
    )
    source = source_of(f"jdbc:sqlite:{trips}", **INCREMENTAL, **{"table.name": "texts"})

    batch = source.fetch(Checkpoint("a' OR '1'='1"), None)

    assert ids(batch) == ["x"]
    assert batch.checkpoint == Checkpoint("a'; DROP TABLE trips; --")
    assert ids(source.fetch(batch.checkpoint, None)) == []
    assert len(ids(source_of(f"jdbc:sqlite:{trips}").fetch(None, None))) == 6


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (1.5, "1.5"),
        (Decimal("1E+3"), "1000"),
        ("x y", "x y"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 10, 15, 30), "2026-01-02 10:15:30"),
        (datetime(2026, 1, 2, 10, 15, 30, 120000), "2026-01-02 10:15:30.12"),
        (datetime(2026, 1, 2, 10, 0, tzinfo=timezone(timedelta(hours=2))), "2026-01-02 08:00:00+00:00"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    ],
)
def test_a_position_is_the_text_of_a_value_and_becomes_that_value(value: Any, text: str) -> None:
    assert position_text(value) == text
    parsed = parse_position(text, value, "c")
    assert parsed == value
    assert type(parsed) is type(value)


def test_positions_that_spark_wrote_are_read() -> None:
    aware = datetime(2026, 1, 2, tzinfo=UTC)

    assert parse_position("2026-01-02 10:15:30.123", aware, "c") == datetime(2026, 1, 2, 10, 15, 30, 123000, UTC)
    assert parse_position("1.0E10", 2.5, "c") == 1e10


@pytest.mark.parametrize("value", [b"x", True])
def test_values_without_an_order_as_text_make_no_position(value: Any) -> None:
    with pytest.raises(HoodieReadFromSourceException, match="no position can be made"):
        position_text(value)


# --- types ------------------------------------------------------------------------------------------------------------


def test_types_of_a_table_of_sqlite(trips: Path) -> None:
    batch = source_of(f"jdbc:sqlite:{trips}").fetch(None, 1)

    assert read_all(batch)[0].to_pylist() == [{"id": "a", "version": 6, "fare": 1.5, "paid": True, "note": b"\xff"}]
    assert [str(kind) for kind in batch.schema.types] == ["string", "int64", "double", "bool", "binary"]


def test_types_of_a_query_are_those_of_the_values_and_of_the_filled_table(trips: Path) -> None:
    query = "(SELECT id, version * 1.0 AS v, NULL AS gone, NULL AS known FROM trips) t"
    filled = pa.schema([("known", pa.int32())])

    batch = source_of(f"jdbc:sqlite:{trips}", {"load_table_schema": lambda: filled}, **{"table.name": query}).fetch(
        None, None
    )

    assert batch.schema == pa.schema(
        [("id", pa.string()), ("v", pa.float64()), ("gone", pa.string()), ("known", pa.int32())]
    )


def test_types_of_mysql_are_those_of_its_rows_and_of_its_table() -> None:
    codes = {"tiny": 1, "u": 3, "wide": 8, "r": 4, "d": 5, "day": 10, "moment": 12, "text": 252, "time": 11, "bits": 16}
    description = [(name, code, None, 20, 20, 0, True) for name, code in codes.items()]
    description.append(("money", 246, None, 14, 14, 3, True))

    told = told_types("mysql", description)

    assert {name: str(kind) for name, kind in told.items()} == {
        "tiny": "int32", "u": "int32", "wide": "int64", "r": "float", "d": "double", "day": "date32[day]",
        "moment": "timestamp[us]", "time": "string", "bits": "binary", "money": "decimal128(12, 3)",
    }  # fmt: skip
    columns = [
        ("flag", "tinyint(1)"), ("bit", "bit(1)"), ("u", "int(10) unsigned"), ("w", "bigint(20) unsigned"),
        ("s", "smallint(5) unsigned"), ("money", "decimal(12,3) unsigned"), ("i", "int(11)"),
    ]  # fmt: skip
    assert {name: str(kind) for name, kind in mysql_types(columns).items()} == {
        "flag": "bool", "bit": "bool", "u": "int64", "w": "decimal128(20, 0)", "s": "int32",
        "money": "decimal128(12, 3)",
    }  # fmt: skip


class Provider(SchemaProvider):
    """A schema of the user's."""

    def load_source_schema(self) -> str:
        decimal = '{"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}'
        return f'{{"type": "record", "name": "r", "fields": [{{"name": "fare", "type": ["null", {decimal}]}}]}}'


def test_a_schema_provider_decides_types(trips: Path) -> None:
    provider = Provider(StreamerProperties())

    batch = source_of(f"jdbc:sqlite:{trips}", {"schema_provider": provider}).fetch(None, None)

    assert batch.schema.field("fare").type == pa.decimal128(10, 2)
    assert read_all(batch)[0]["fare"][0].as_py() == Decimal("1.50")


def test_a_value_of_another_type_names_the_column(trips: Path) -> None:
    run(trips, "INSERT INTO trips VALUES ('z', 'many', 1, 1, NULL)")

    with pytest.raises(HoodieReadFromSourceException, match="a value of the column version is not of the type int64"):
        read_all(source_of(f"jdbc:sqlite:{trips}").fetch(None, None))


def test_rows_come_in_batches_and_reads_travel_to_tasks(trips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jdbc_source, "_BATCH_ROWS", 4)
    batch = source_of(f"jdbc:sqlite:{trips}", **INCREMENTAL).fetch(None, None)

    read = pickle.loads(pickle.dumps(batch.reads[0]))

    assert [len(one.rows) for one in read.batches()] == [4, 2]


def test_a_column_that_came_meanwhile_is_said(trips: Path) -> None:
    batch = source_of(f"jdbc:sqlite:{trips}").fetch(None, None)
    run(trips, "ALTER TABLE trips ADD COLUMN late TEXT")

    with pytest.raises(HoodieReadFromSourceException, match="columns of trips changed"):
        read_all(batch)


def test_two_columns_of_one_name_are_refused(trips: Path) -> None:
    source = source_of(f"jdbc:sqlite:{trips}", **{"table.name": "(SELECT 1 AS a) x JOIN (SELECT 2 AS a) y"})

    with pytest.raises(HoodieConfigException, match="several columns of the name a"):
        source.fetch(None, None)


# --- connections ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["qmark", "format", "pyformat", "numeric", "named"])
def test_each_style_of_parameters_works(trips: Path, monkeypatch: pytest.MonkeyPatch, style: str) -> None:
    options = INCREMENTAL | {"driver.module": NAME, "table.name": "(SELECT * FROM trips WHERE id NOT LIKE 'a%') t"}
    with running_driver(monkeypatch, str(trips), style):
        source = source_of("jdbc:other://db:1234/sales", **options)

        first = source.fetch(None, 2)

        assert (ids(first), first.checkpoint) == (["b", "c", "d", "e"], Checkpoint("8"))
        assert ids(source.fetch(first.checkpoint, 2)) == ["f"]


@pytest.mark.parametrize(
    ("url", "options", "arguments", "given"),
    [
        (
            "jdbc:other://db:1234/sales",
            {"user": "u", "password": "p", "extra.options.charset": "utf8", "extra.options.fetchsize": "10"},
            (),
            {"host": "db", "port": 1234, "database": "sales", "user": "u", "password": "p", "charset": "utf8"},
        ),
        ("jdbc:other:dsn=x", {"user": "u"}, ("dsn=x",), {"user": "u"}),
        ("jdbc:other://u:p%40@db/s", {}, (), {"host": "db", "database": "s", "user": "u", "password": "p@"}),
    ],
)
def test_a_url_becomes_arguments_of_the_module(
    trips: Path,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    options: dict[str, str],
    arguments: tuple[str, ...],
    given: dict[str, Any],
) -> None:
    with running_driver(monkeypatch, str(trips)) as calls:
        source_of(url, **options, **{"driver.module": NAME}).fetch(None, 1)

    assert calls[0] == (arguments, given)


def test_urls_of_mysql_and_postgresql_use_their_modules() -> None:
    mysql = Database.of("jdbc:mysql://db/sales?useSSL=false", "u", "p")
    postgres = Database.of("jdbc:postgresql://db/sales?sslmode=require&currentSchema=s&user=u&password=p")

    assert (mysql.module, dict(mysql.options)) == (
        "pymysql",
        {"host": "db", "port": 3306, "database": "sales", "user": "u", "password": "p"},
    )
    assert (postgres.module, dict(postgres.options)) == (
        "psycopg",
        {
            "host": "db", "port": 5432, "dbname": "sales", "user": "u", "password": "p", "sslmode": "require",
            "options": "-c search_path=s",
        },
    )  # fmt: skip
    assert repr(postgres) == "Database('jdbc:postgresql://db:5432/sales', module='psycopg')"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://db/x", "is no URL of JDBC"),
        ("jdbc:oracle:thin:@db", "is of oracle: give hoodie.streamer.jdbc.driver.module"),
        ("jdbc:postgresql://db:port/x", "no valid host and port"),
        ("", "JdbcSource needs hoodie.streamer.jdbc.url"),
    ],
)
def test_wrong_urls_are_refused(url: str, message: str) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        source_of(url)


def test_all_missing_properties_are_named() -> None:
    with pytest.raises(HoodieConfigException, match=r"table.name, hoodie.streamer.jdbc.table.incr.column.name"):
        source_of("jdbc:sqlite:x", **{"table.name": "", "incr.pull": "true"})


def test_a_missing_module_names_the_way_to_get_it() -> None:
    with pytest.raises(HoodieConfigException, match="needs the Python module pymysql: pip install 'hoodie.jdbc.'"):
        source_of("jdbc:mysql://db/x").fetch(None, None)
    with pytest.raises(HoodieConfigException, match="has no connect"):
        source_of("jdbc:x:y", **{"driver.module": "json"}).fetch(None, None)


def test_a_file_that_is_missing_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(HoodieReadFromSourceException, match="unable to open database file"):
        source_of(f"jdbc:sqlite:{tmp_path / 'none.db'}").fetch(None, None)

    assert list(tmp_path.iterdir()) == []


def test_a_query_that_fails_is_named(trips: Path) -> None:
    with pytest.raises(HoodieReadFromSourceException, match="no such table: missing.: SELECT"):
        source_of(f"jdbc:sqlite:{trips}", **{"table.name": "missing"}).fetch(None, None)


def test_the_password_of_a_file_is_used_and_never_shown(
    trips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "password").write_text("h?u.s:h\n")
    options = {"driver.module": NAME, "user": "u", "password.file": str(tmp_path / "password")}
    refused = RuntimeError("u with h?u.s:h is refused; connection refused")
    with running_driver(monkeypatch, str(trips)) as calls:
        source = source_of("jdbc:other://db/sales", **options)
        batch = source.fetch(None, 1)
    assert calls[0][1]["password"] == "h?u.s:h"
    shown = [repr(source), repr(batch), repr(batch.reads[0]), repr(vars(batch.reads[0])), repr(vars(source))]
    assert "h?u.s:h" not in " ".join(shown)

    with running_driver(monkeypatch, str(trips), error=refused), pytest.raises(HoodieSourceTimeoutException) as raised:
        source.fetch(None, 1)

    assert "u with *** is refused" in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_password_in_the_configuration_is_not_shown() -> None:
    properties = StreamerProperties(
        {"hoodie.streamer.jdbc.password": "hush", "hoodie.streamer.jdbc.url": "jdbc:x://u:hush@h/d"}
    )

    assert "hush" not in repr(properties.read(JdbcSourceConfig))


def test_a_password_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HoodieConfigException, match="password.file = .*none cannot be read"):
        source_of("jdbc:sqlite:x", **{"password.file": str(tmp_path / "none")})


# --- parts ------------------------------------------------------------------------------------------------------------


def parted(column: str, lower: str, upper: str, count: int) -> dict[str, str]:
    values = {"partitionColumn": column, "lowerBound": lower, "upperBound": upper, "numPartitions": str(count)}
    return {f"extra.options.{name}": value for name, value in values.items()}


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A database with a thousand trips, some beyond the bounds of the tests, and one without a number."""
    path = tmp_path / "many.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE trips (id TEXT, version BIGINT, n BIGINT)")
        rows = [(f"k{number}", number % 7, number - 100) for number in range(1000)]
        connection.executemany("INSERT INTO trips VALUES (?, ?, ?)", [*rows, ("none", 3, None)])
    return path


def parts_of(batch: InputBatch) -> list[list[str]]:
    """The keys of each part."""
    (read,) = batch.reads
    assert isinstance(read, jdbc_source.JdbcReadAtOnce)
    assert isinstance(pickle.loads(pickle.dumps(read)), jdbc_source.JdbcReadAtOnce)
    return [[key for one in part.batches() for key in one.rows["id"].to_pylist()] for part in read.parts]


def test_a_table_is_read_in_parts_each_row_once(many: Path) -> None:
    batch = source_of(f"jdbc:sqlite:{many}", **parted("n", "0", "400", 4)).fetch(None, None)

    parts = parts_of(batch)
    assert [len(part) for part in parts] == [201, 100, 100, 600]
    assert "none" in parts[0]
    everything = sorted([f"k{number}" for number in range(1000)] + ["none"])
    assert sorted(key for part in parts for key in part) == everything
    assert ids(batch) == everything
    assert batch.details["sourceParallelism"] == 4


def test_parts_of_an_incremental_round_have_the_rows_of_the_round_only(many: Path) -> None:
    source = source_of(f"jdbc:sqlite:{many}", **INCREMENTAL, **parted("n", "0", "800", 5))
    run(many, "INSERT INTO trips VALUES ('unknown', NULL, 500)")

    first = source.fetch(None, 400)
    second = source.fetch(first.checkpoint, None)

    expected = {f"k{number}": number % 7 for number in range(1000)} | {"none": 3, "unknown": -1}
    end = int(first.checkpoint.position)
    assert 0 < end < 6
    assert [len(parts_of(batch)) for batch in (first, second)] == [5, 5]
    assert ids(first) == sorted(key for key, version in expected.items() if version <= end)
    assert ids(second) == sorted(key for key, version in expected.items() if version > end)


@pytest.mark.parametrize("style", ["qmark", "named", "format", "pyformat", "numeric"])
def test_parts_work_with_every_style_of_parameters(many: Path, monkeypatch: pytest.MonkeyPatch, style: str) -> None:
    options = INCREMENTAL | {"driver.module": NAME, "table.name": "(SELECT * FROM trips WHERE id NOT LIKE 'k1%') t"}
    with running_driver(monkeypatch, str(many), style):
        batch = source_of("jdbc:other://db/sales", **options, **parted("n", "0", "100", 3)).fetch(Checkpoint("2"), None)
        assert len(parts_of(batch)) == 3
        wanted = {f"k{number}" for number in range(1000) if number % 7 > 2 and not str(number).startswith("1")}
        assert ids(batch) == sorted(wanted | {"none"})


def test_a_limit_of_rows_is_read_by_one_query(many: Path) -> None:
    batch = source_of(f"jdbc:sqlite:{many}", **parted("n", "0", "400", 4)).fetch(None, 7)
    assert len(ids(batch)) == 7


def test_tasks_of_spark_read_parts(many: Path) -> None:
    batch = source_of(f"jdbc:sqlite:{many}", {"spark": object()}, **parted("n", "0", "400", 4)).fetch(None, None)
    assert [type(read) for read in batch.reads] == [jdbc_source.JdbcRead] * 4


def test_an_error_of_a_part_fails_the_round(many: Path) -> None:
    batch = source_of(f"jdbc:sqlite:{many}", **parted("n", "0", "400", 4)).fetch(None, None)
    run(many, "ALTER TABLE trips RENAME COLUMN version TO other")
    with pytest.raises(HoodieReadFromSourceException, match="the columns of trips changed"):
        ids(batch)


def test_parts_by_a_column_that_cannot_be_parted_are_refused(many: Path) -> None:
    url = f"jdbc:sqlite:{many}"
    with pytest.raises(HoodieConfigException, match="partitionColumn = id has values of the type str"):
        source_of(url, **parted("id", "a", "z", 4)).fetch(None, None)
    with pytest.raises(
        HoodieConfigException, match="partitionColumn = n has values such as .*the bound 'x' is no such"
    ):
        source_of(url, **parted("n", "x", "9", 4)).fetch(None, None)
    with pytest.raises(HoodieConfigException, match="give all four of them"):
        source_of(url, **{"extra.options.lowerBound": "1"})
    run(many, "DELETE FROM trips")
    assert ids(source_of(url, **parted("n", "0", "9", 4)).fetch(None, None)) == []


# --- a real server ----------------------------------------------------------------------------------------------------


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[tuple[str, dict[str, str], Callable[..., None]]]:
    """URL and options of a PostgreSQL, and a function that runs statements."""
    import psycopg

    parts = urlsplit(postgres_url)

    def execute(*statements: str) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    options = {"user": "hoodie", "password": PASSWORD, "extra.options.host": parse_qs(parts.query)["host"][0]}
    yield "jdbc:postgresql:///postgres", options, execute
    execute("DROP TABLE IF EXISTS trips")


def test_types_of_postgresql(postgres: tuple[str, dict[str, str], Callable[..., None]]) -> None:
    url, options, execute = postgres
    execute(
        "CREATE TABLE trips (id text, small int2, usual int4, wide int8, r float4, d float8, money numeric(10, 2), "
        "free numeric, yes bool, day date, local timestamp, moment timestamptz, raw bytea, doc jsonb, who uuid, "
        "tags text[], numbers int4[], name varchar(10))",
        "INSERT INTO trips VALUES ('a', 1, 2, 3, 0.5, 0.25, 12.30, 1.5, true, '2026-01-02', "
        "'2026-01-02 03:04:05.123456', '2026-01-02 03:04:05+02', '\\xff', '{\"a\": [1]}', "
        "'00000000-0000-0000-0000-000000000005', '{x,y}', '{1,2}', 'n')",
        "INSERT INTO trips (id) VALUES ('b')",
    )

    batch = source_of(url, **options).fetch(None, None)

    rows = {row["id"]: row for row in read_all(batch)[0].to_pylist()}
    assert rows["a"] == {
        "id": "a", "small": 1, "usual": 2, "wide": 3, "r": 0.5, "d": 0.25, "money": Decimal("12.30"),
        "free": Decimal("1.5"), "yes": True, "day": date(2026, 1, 2), "local": datetime(2026, 1, 2, 3, 4, 5, 123456),
        "moment": datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC), "raw": b"\xff", "doc": '{"a": [1]}',
        "who": "00000000-0000-0000-0000-000000000005", "tags": ["x", "y"], "numbers": [1, 2], "name": "n",
    }  # fmt: skip
    assert rows["b"] == {"id": "b"} | dict.fromkeys(batch.schema.names[1:])
    assert [str(batch.schema.field(name).type) for name in ("small", "usual", "wide", "money", "free")] == [
        "int16", "int32", "int64", "decimal128(10, 2)", "decimal128(38, 18)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "expression", "third"),
    [
        ("int8", "n", "3"),
        ("timestamp", "timestamp '2026-01-01 00:00:00.001' + n * interval '1 day'", "2026-01-04 00:00:00.001"),
        ("timestamptz", "timestamptz '2026-01-01 00:00:00+00' + n * interval '1 day'", "2026-01-04 00:00:00+00:00"),
        ("date", "date '2026-01-01' + n", "2026-01-04"),
        ("numeric(10, 2)", "n * 1.25", "3.75"),
        ("text", "'k' || n", "k3"),
        ("uuid", "('00000000-0000-0000-0000-00000000000' || n)::uuid", "00000000-0000-0000-0000-000000000003"),
    ],
)
def test_positions_of_postgresql(
    postgres: tuple[str, dict[str, str], Callable[..., None]], kind: str, expression: str, third: str
) -> None:
    url, options, execute = postgres
    execute(
        f"CREATE TABLE trips (id text, version {kind})",
        f"INSERT INTO trips SELECT 'k' || n, {expression} FROM generate_series(1, 5) n",
        f"INSERT INTO trips SELECT 'twin' || n, {expression} FROM generate_series(3, 3) n",
    )
    source = source_of(url, **options, **INCREMENTAL)

    first = source.fetch(None, 3)
    second = source.fetch(first.checkpoint, 10)

    assert first.checkpoint == Checkpoint(third)
    assert ids(first) == ["k1", "k2", "k3", "twin3"]
    assert ids(second) == ["k4", "k5"]
    assert source.fetch(second.checkpoint, None).is_empty


@pytest.mark.parametrize(
    ("kind", "expression", "bounds"),
    [
        ("int8", "n", ("1", "9")),
        ("numeric(10, 2)", "n * 1.25", ("1", "9.5")),
        ("float8", "CASE n WHEN 3 THEN 'NaN' ELSE n / 2.0 END", ("0.5", "4")),
        ("date", "date '2026-01-01' + n", ("2026-01-02", "2026-01-09")),
        ("timestamptz", "timestamptz '2026-01-01 00:00:00+00' + n * interval '1 day'", ("2026-01-02", "2026-01-09")),
        ("timestamp", "timestamp '2026-01-01' + n * interval '1 day'", ("2026-01-02 12:00:00", "2026-01-09")),
    ],
)
def test_parts_of_postgresql(
    postgres: tuple[str, dict[str, str], Callable[..., None]], kind: str, expression: str, bounds: tuple[str, str]
) -> None:
    url, options, execute = postgres
    execute(
        f"CREATE TABLE trips (id text, version {kind})",
        f"INSERT INTO trips SELECT 'k' || n, {expression} FROM generate_series(0, 9) n",
        "INSERT INTO trips VALUES ('none', NULL)",
    )
    batch = source_of(url, **options, **parted("version", *bounds, 3)).fetch(None, None)
    parts = parts_of(batch)
    assert len(parts) == 3
    assert all(parts)
    assert sorted(key for part in parts for key in part) == [*(f"k{number}" for number in range(10)), "none"]


def test_errors_of_postgresql(postgres: tuple[str, dict[str, str], Callable[..., None]]) -> None:
    url, options, execute = postgres
    execute("CREATE TABLE trips (id text, version float4)", "INSERT INTO trips VALUES ('a', 1.1)")

    with pytest.raises(HoodieReadFromSourceException, match='relation "missing" does not exist'):
        source_of(url, **options | {"table.name": "missing"}).fetch(None, None)
    with pytest.raises(
        HoodieReadFromSourceException, match="cannot connect .*password authentication failed"
    ) as raised:
        source_of(url, **options | {"password": "wrong-one"}).fetch(None, None)
    assert "wrong-one" not in str(raised.value)
    with pytest.raises(HoodieSourceTimeoutException, match="cannot connect to jdbc:postgresql:///postgres"):
        source_of(url, **options | {"extra.options.host": "/nowhere"}).fetch(None, None)
    with pytest.raises(HoodieConfigException, match="version has the type float, whose values are not exact"):
        source_of(url, **options, **INCREMENTAL).fetch(None, None)


def test_a_failed_position_of_postgresql_falls_back_to_all_rows(
    postgres: tuple[str, dict[str, str], Callable[..., None]],
) -> None:
    url, options, execute = postgres
    execute("CREATE TABLE trips (id text, version int8)", "INSERT INTO trips VALUES ('a', 1)")
    source = source_of(url, **options, **INCREMENTAL, **{"incr.fallback.to.full.fetch": "true"})

    assert ids(source.fetch(Checkpoint("99999999999999999999999999"), None)) == []
    assert ids(source.fetch(Checkpoint("x"), None)) == ["a"]
