from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException
from hoodie.utilities import duckdb_sql
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.source import InputBatch, SourceContext, read_all
from hoodie.utilities.sources.sources import make_source
from tests.support.table_builder import init_table, local_client, rows

QUERY = "hoodie.streamer.source.sql.sql.query"
TABLES = "hoodie.streamer.source.sql.tables"


def fetch(query: str | None, tables: str | None = None) -> InputBatch:
    given = {QUERY: query, TABLES: tables}
    properties = StreamerProperties({key: value for key, value in given.items() if value is not None})
    return make_source("SqlSource", SourceContext(properties)).fetch(Checkpoint("of another source"), 3)


def test_a_query_gives_all_rows_and_no_position() -> None:
    batch = fetch("SELECT range AS a, 'x' AS s, sum(range) OVER () AS total FROM range(50000);")

    assert batch.checkpoint is None
    assert batch.schema == pa.schema([("a", pa.int64()), ("s", pa.string()), ("total", pa.int64())])
    for _ in range(2):
        found = read_all(batch)[0]
        assert len(found) == 50000
        assert found["total"][0].as_py() == 50000 * 49999 // 2
    assert max(len(one.rows) for one in batch.reads[0].batches()) <= 20480


def test_a_query_reads_hudi_tables_and_leaves_their_meta_columns_out(tmp_path: Path) -> None:
    init_table(tmp_path / "t")
    with local_client(tmp_path / "t") as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 2)))

    batch = fetch("SELECT * FROM trips WHERE ts > 1", f"trips={tmp_path / 't'}")

    assert read_all(batch)[0].to_pylist() == [{"_hoodie_partition_path": "y", "id": "b", "region": "y", "ts": 2}]


def test_the_read_travels_to_tasks() -> None:
    read = pickle.loads(pickle.dumps(fetch("SELECT 1 AS a").reads[0]))

    assert [one.rows.to_pylist() for one in read.batches()] == [[{"a": 1}]]


@pytest.mark.parametrize(
    ("query", "tables", "error", "message"),
    [
        (None, None, HoodieConfigException, "SqlSource needs hoodie.streamer.source.sql.sql.query"),
        ("SELECT a FROM nowhere", None, HoodieReadFromSourceException, "the query failed .*nowhere"),
        ("CREATE TABLE a AS SELECT 1", None, HoodieConfigException, "is no query"),
        ("SELECT 1", "trips", HoodieConfigException, "'trips' is not name=path"),
    ],
)
def test_wrong_queries_are_refused(query: str | None, tables: str | None, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fetch(query, tables)


def test_an_error_while_rows_are_read_names_the_query() -> None:
    batch = fetch("SELECT CAST(CASE WHEN range = 49000 THEN 'x' ELSE '1' END AS INT) AS a FROM range(50000)")

    with pytest.raises(HoodieReadFromSourceException, match=r"(?s)the query failed .*: SELECT CAST"):
        read_all(batch)


def test_without_duckdb_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_sql, "duckdb", None)

    with pytest.raises(HoodieConfigException, match=r"SqlSource needs DuckDB.*hoodie\[sql\]"):
        fetch("SELECT 1 AS a")
