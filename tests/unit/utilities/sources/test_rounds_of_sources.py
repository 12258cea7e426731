"""Whole rounds of the streamer over sources that are no topic and no folder."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.client.open_or_create import find_writable_table
from hoodie.exception import HoodieReadFromSourceException, HoodieTransformException
from tests.support import streamer_user_code
from tests.support.streamer_runs import KEYS, run_once
from tests.support.table_builder import init_table, local_client, read_rows, rows, write_config

USER = streamer_user_code.__name__
V1, V2 = "deltastreamer.checkpoint.key", "streamer.checkpoint.key.v2"
COUNTRY = {
    "hoodie.datasource.write.recordkey.field": "code",
    "hoodie.datasource.write.keygenerator.class": "NonpartitionedKeyGenerator",
    "hoodie.datasource.write.precombine.field": "people",
}


def last_commit(path: Path) -> dict[str, str]:
    """The extra metadata of the newest commit."""
    snapshot = find_writable_table(write_config(str(path)))
    assert snapshot is not None
    last = snapshot.active_timeline.completed_writes().last_instant
    assert last is not None
    return dict(snapshot.active_timeline.read_commit_metadata(last).extra_metadata)


def countries(path: Path) -> list[tuple[Any, ...]]:
    found = hoodie.read_table(str(path), columns=["code", "people"]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


@pytest.mark.parametrize("name", ["CountriesSource", "StreamSource", "generated_countries"])
def test_a_python_source_fills_a_table(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t"
    streamer_user_code.CountriesSource.heard.clear()

    first = run_once(path, COUNTRY, source_class=f"{USER}:{name}")

    assert first.is_committed
    if name == "CountriesSource":
        assert (first.rows, last_commit(path)[V1]) == (2, "2")
        assert run_once(path, COUNTRY, source_class=f"{USER}:{name}").rows == 1
        assert streamer_user_code.CountriesSource.heard == ["2", "closed", "3", "closed"]
    assert last_commit(path)[V1] == "3"
    assert countries(path) == [("de", 84), ("fr", 68), ("no", 5)]
    assert not run_once(path, {**COUNTRY, "my.step": "5"}, source_class=f"{USER}:CountriesSource", checkpoint="3").rows


def test_transformers_change_the_rows_of_a_round(tmp_path: Path) -> None:
    names = ["a:SqlQueryBasedTransformer", f"b:{USER}:AddsColumn", "c:SqlQueryBasedTransformer"]
    properties = COUNTRY | {
        "hoodie.deltastreamer.transformer.sql.a": "SELECT code, people * 2 AS people FROM <SRC> WHERE code <> 'no'",
        "hoodie.streamer.transformer.sql.c": "SELECT code, people + added AS people FROM <SRC>",
        "my.step": "3",
    }

    run_once(tmp_path / "t", properties, source_class=f"{USER}:CountriesSource", transformer_classes=names)

    assert countries(tmp_path / "t") == [("de", 169), ("fr", 137)]


@pytest.mark.parametrize(
    ("source", "transformer", "error", "message"),
    [
        ("failing_stream", None, HoodieReadFromSourceException, "failing_stream failed"),
        ("CountriesSource", "divide_by_zero", HoodieTransformException, "divide_by_zero failed .ZeroDivisionError"),
    ],
)
def test_code_of_a_user_that_fails_commits_nothing(
    tmp_path: Path, source: str, transformer: str | None, error: type[Exception], message: str
) -> None:
    names = [] if transformer is None else [f"{USER}:{transformer}"]

    with pytest.raises(error, match=message):
        run_once(tmp_path / "t", COUNTRY, source_class=f"{USER}:{source}", transformer_classes=names)

    snapshot = find_writable_table(write_config(str(tmp_path / "t")))
    assert snapshot is None or not len(snapshot.active_timeline.completed_writes())


@pytest.mark.parametrize("version", [6, 9])
def test_a_table_follows_another_one(tmp_path: Path, version: int) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    init_table(first, table_version=version)
    properties = KEYS | {
        "hoodie.streamer.source.hoodieincr.path": str(first),
        "hoodie.streamer.source.hoodieincr.missing.checkpoint.strategy": "READ_UPTO_LATEST_COMMIT",
        "hoodie.write.table.version": "9",
    }
    flags = {"source_class": "org.apache.hudi.utilities.sources.HoodieIncrSource"}
    with local_client(first) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
        run_once(second, properties, **flags)
        assert read_rows(second) == [("a", "x", 1), ("b", "y", 1)]

        client.upsert(rows(("a", "x", 2)))
        client.upsert(rows(("c", "x", 3)))
        outcome = run_once(second, properties, **flags)

        assert outcome.rows == 2
        assert not run_once(second, properties, **flags).is_committed
    assert read_rows(second) == [("a", "x", 2), ("b", "y", 1), ("c", "x", 3)]
    assert set(last_commit(second)) & {V1, V2} == {V2 if version == 9 else V1}


def test_a_position_of_version_1_goes_on_with_version_2(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    init_table(first, table_version=9)
    init_table(second, table_version=9)
    with local_client(first) as client:
        time = client.upsert(rows(("a", "x", 1))).instant_time
        with local_client(second, {"hoodie.auto.commit": "false"}) as writer:
            instant = writer.start_commit()
            writer.commit(instant, writer.upsert(rows(("a", "x", 1)), instant), extra_metadata={V1: time})
        client.upsert(rows(("b", "y", 1)))

    properties = KEYS | {"hoodie.streamer.source.hoodieincr.path": str(first)}
    outcome = run_once(second, properties, source_class="HoodieIncrSource")

    assert (outcome.rows, outcome.position_before) == (1, time)
    assert read_rows(second) == [("a", "x", 1), ("b", "y", 1)]
    assert V2 in last_commit(second)


def test_new_rows_of_a_database_come_in_rounds(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "d.db")) as connection, connection:
        connection.execute("CREATE TABLE trips (id TEXT, region TEXT, ts BIGINT)")
        connection.executemany("INSERT INTO trips VALUES (?, 'x', ?)", [("a", 1), ("b", 2), ("c", 2), ("d", 3)])
    properties = KEYS | {
        "hoodie.streamer.jdbc.url": f"jdbc:sqlite:{tmp_path / 'd.db'}",
        "hoodie.streamer.jdbc.table.name": "trips",
        "hoodie.streamer.jdbc.incr.pull": "true",
        "hoodie.streamer.jdbc.table.incr.column.name": "ts",
    }
    flags: dict[str, Any] = {"source_class": "JdbcSource", "source_limit": 2}

    counts = [run_once(tmp_path / "t", properties, **flags).rows for _ in range(2)]
    with closing(sqlite3.connect(tmp_path / "d.db")) as connection, connection:
        connection.execute("UPDATE trips SET ts = 9 WHERE id = 'a'")
    run_once(tmp_path / "t", properties, **flags)

    assert counts == [3, 1]
    assert read_rows(tmp_path / "t") == [("a", "x", 9), ("b", "x", 2), ("c", "x", 2), ("d", "x", 3)]
    assert last_commit(tmp_path / "t")[V1] == "9"


def test_a_query_fills_a_table(tmp_path: Path) -> None:
    init_table(tmp_path / "first")
    with local_client(tmp_path / "first") as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 5)))
    properties = KEYS | {
        "hoodie.streamer.source.sql.sql.query": "SELECT * FROM trips WHERE ts > 1",
        "hoodie.streamer.source.sql.tables": f"trips={tmp_path / 'first'}",
    }

    run_once(tmp_path / "t", properties, source_class="SqlSource", allow_commit_on_no_checkpoint_change=True)

    assert read_rows(tmp_path / "t") == [("b", "y", 5)]
    assert not set(last_commit(tmp_path / "t")) & {V1, V2}


def test_a_query_leaves_the_position_of_another_source_alone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    query = {"hoodie.streamer.source.sql.sql.query": "SELECT 'no' AS code, 6::BIGINT AS people"}
    flags: dict[str, Any] = {"source_class": "SqlSource", "allow_commit_on_no_checkpoint_change": True}
    source = {"source_class": f"{USER}:CountriesSource"}
    run_once(path, COUNTRY, **source)

    for _ in range(2):
        assert run_once(path, COUNTRY | query, **flags).is_committed
    run_once(path, {**COUNTRY, "my.step": "1"}, **source)

    assert last_commit(path)[V1] == "3"
    assert countries(path) == [("de", 84), ("fr", 68), ("no", 6)]


def test_a_database_without_rows_commits_nothing(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "d.db")) as connection, connection:
        connection.execute("CREATE TABLE trips (id TEXT, region TEXT, ts BIGINT)")
    init_table(tmp_path / "t")
    properties = KEYS | {
        "hoodie.streamer.jdbc.url": f"jdbc:sqlite:{tmp_path / 'd.db'}",
        "hoodie.streamer.jdbc.table.name": "trips",
        "hoodie.streamer.jdbc.incr.pull": "true",
        "hoodie.streamer.jdbc.table.incr.column.name": "ts",
    }

    for _ in range(2):
        assert not run_once(tmp_path / "t", properties, source_class="JdbcSource").is_committed


def test_a_large_source_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows_of_many = pa.table({"code": [f"c{n}" for n in range(60_000)], "people": range(60_000)})
    monkeypatch.setattr(streamer_user_code, "COUNTRIES", rows_of_many)

    outcome = run_once(
        tmp_path / "t", {**COUNTRY, "my.step": "60000"}, source_class=f"{USER}:CountriesSource", op="BULK_INSERT"
    )

    assert outcome.rows == 60_000
