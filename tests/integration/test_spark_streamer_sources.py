"""Transformers and sources of the streamer on Spark: the same rows as in this process."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import hoodie
from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException, HoodieTransformException
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.source import SourceContext
from hoodie.utilities.sources.sources import make_source
from hoodie.utilities.streamer import HoodieStreamer, StreamerConfig
from hoodie.utilities.transform.transformers import make_transformer
from tests.support import streamer_user_code
from tests.support.streamer_runs import KEYS
from tests.support.table_builder import init_table, local_client, read_rows, rows

pytestmark = pytest.mark.spark

USER = streamer_user_code.__name__
QUERY = "hoodie.streamer.transformer.sql"
NESTED = [(1, (("x", 5), [1, 2])), (2, None)]
NESTED_TYPE = "id long, `a.b` struct<c: struct<d: string, e: int>, f: array<int>>"


@pytest.fixture(autouse=True)
def dropped_views(spark: SparkSession) -> Iterator[None]:
    yield
    for view in spark.catalog.listTables():
        spark.catalog.dropTempView(view.name)


def changed(spark: SparkSession, names: list[str], frame: Any, **properties: str) -> list[dict[str, Any]]:
    transformer = make_transformer(names)
    assert transformer is not None
    found = transformer.apply_to_frame(frame, StreamerProperties(properties))
    return [row.asDict() for row in found.collect()]


def run(spark: SparkSession, path: Path, properties: dict[str, str], **flags: Any) -> Any:
    return HoodieStreamer(StreamerConfig(target_base_path=str(path), **flags), spark, properties).sync()


def test_transformers_change_frames_as_they_change_tables(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1.0), ("b", 2.0)], "uuid string, fare double")
    table = pa.table({"uuid": ["a", "b"], "fare": [1.0, 2.0]})
    names = ["q:SqlQueryBasedTransformer", f"c:{USER}:AddsColumn", "d:AWSDmsTransformer", "f:FlatteningTransformer"]
    properties = {f"{QUERY}.q": "SELECT uuid, fare * 2 AS fare FROM <SRC> WHERE fare > 1"}

    transformer = make_transformer(names)

    assert transformer is not None
    local = transformer.apply(table, StreamerProperties(properties)).to_pylist()
    assert changed(spark, names, frame, **properties) == local == [{"uuid": "b", "fare": 4.0, "added": 1, "Op": ""}]


def test_frames_are_flattened_at_any_depth(spark: SparkSession) -> None:
    frame = spark.createDataFrame(NESTED, NESTED_TYPE)

    assert changed(spark, ["FlatteningTransformer"], frame) == [
        {"id": 1, "a_b_c_d": "x", "a_b_c_e": 5, "a_b_f": [1, 2]},
        {"id": 2, "a_b_c_d": None, "a_b_c_e": None, "a_b_f": None},
    ]


def test_the_last_statement_of_a_file_counts(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "change.sql").write_text("CACHE TABLE dear AS SELECT * FROM <SRC> WHERE n > 1;\nSELECT n FROM dear;")
    frame = spark.createDataFrame([(1,), (2,)], "n int")

    found = changed(spark, ["SqlFileBasedTransformer"], frame, **{f"{QUERY}.file": str(tmp_path / "change.sql")})

    assert found == [{"n": 2}]


def test_views_of_older_rounds_are_dropped(spark: SparkSession) -> None:
    transformer = make_transformer(["SqlQueryBasedTransformer"])
    assert transformer is not None
    before = len(spark.catalog.listTables())
    for number in range(7):
        frame = spark.createDataFrame([(number,)], "n int")
        found = transformer.apply_to_frame(frame, StreamerProperties({QUERY: "SELECT n FROM <SRC>"}))
        assert [row.n for row in found.collect()] == [number]

    assert len(spark.catalog.listTables()) == before + 4


def test_a_transformer_that_fails_is_named(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1,)], "n int")

    with pytest.raises(HoodieTransformException, match="transformer SqlQueryBasedTransformer failed .*missing"):
        changed(spark, ["SqlQueryBasedTransformer"], frame, **{QUERY: "SELECT missing FROM <SRC>"})
    with pytest.raises(HoodieTransformException, match="it returned nothing: return a DataFrame"):
        changed(spark, [f"{USER}:return_nothing"], frame)


def test_a_query_of_spark_fills_a_table(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([("a", "x", 1, "k"), ("b", "y", 2, "l")], "id string, region string, ts long, s string") \
        .withColumnRenamed("s", "_hoodie_record_key").createOrReplaceTempView("trips")  # fmt: skip
    properties = KEYS | {"hoodie.streamer.source.sql.sql.query": "SELECT * FROM trips WHERE ts > 1"}

    run(spark, tmp_path / "t", properties, source_class="SqlSource", allow_commit_on_no_checkpoint_change=True)

    assert read_rows(tmp_path / "t") == [("b", "y", 2)]


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        (
            {"hoodie.streamer.source.sql.sql.query": "SELECT * FROM nowhere_at_all"},
            HoodieReadFromSourceException,
            "the query failed .*nowhere_at_all",
        ),
        (
            {"hoodie.streamer.source.sql.sql.query": "SELECT 1", "hoodie.streamer.source.sql.tables": "a=b"},
            HoodieConfigException,
            "is for --engine local",
        ),
    ],
)
def test_wrong_queries_of_spark_are_refused(
    spark: SparkSession, properties: dict[str, str], error: type[Exception], message: str
) -> None:
    source = make_source("SqlSource", SourceContext(StreamerProperties(properties), spark=spark))

    with pytest.raises(error, match=message):
        source.fetch(None, None)


def test_tasks_read_the_slices_of_another_table(spark: SparkSession, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    init_table(first, table_type="MERGE_ON_READ")
    properties = KEYS | {
        "hoodie.streamer.source.hoodieincr.path": str(first),
        "hoodie.streamer.source.hoodieincr.missing.checkpoint.strategy": "READ_UPTO_LATEST_COMMIT",
    }
    with local_client(first) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
        run(spark, second, properties, source_class="HoodieIncrSource")
        client.upsert(rows(("a", "x", 2), ("c", "z", 2)))
    outcome = run(spark, second, properties, source_class="HoodieIncrSource")

    assert outcome.rows == 2
    assert read_rows(second) == [("a", "x", 2), ("b", "y", 1), ("c", "z", 2)]


@pytest.mark.parametrize("name", ["CountriesSource", "StreamSource", "generated_countries"])
def test_tasks_read_sources_in_python(spark: SparkSession, tmp_path: Path, name: str) -> None:
    properties = {
        "hoodie.datasource.write.recordkey.field": "code",
        "hoodie.datasource.write.keygenerator.class": "NonpartitionedKeyGenerator",
        "my.step": "3",
    }

    outcome = run(spark, tmp_path / "t", properties, source_class=f"{USER}:{name}")

    assert (outcome.rows, outcome.position_after) == (3, "3")
    assert sorted(hoodie.read_table(str(tmp_path / "t"), columns="code")["code"].to_pylist()) == ["de", "fr", "no"]


def test_tasks_read_a_database(spark: SparkSession, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "d.db")) as connection, connection:
        connection.execute("CREATE TABLE trips (id TEXT, region TEXT, ts BIGINT)")
        connection.executemany("INSERT INTO trips VALUES (?, 'x', ?)", [("a", 1), ("b", 2), ("c", 2)])
    properties = KEYS | {
        "hoodie.streamer.jdbc.url": f"jdbc:sqlite:{tmp_path / 'd.db'}",
        "hoodie.streamer.jdbc.table.name": "trips",
        "hoodie.streamer.jdbc.incr.pull": "true",
        "hoodie.streamer.jdbc.table.incr.column.name": "ts",
    }

    run(spark, tmp_path / "t", properties, source_class="JdbcSource", source_limit=2)

    assert read_rows(tmp_path / "t") == [("a", "x", 1), ("b", "x", 2), ("c", "x", 2)]

    parts = {"partitionColumn": "ts", "lowerBound": "1", "upperBound": "4", "numPartitions": "3"}
    properties |= {f"hoodie.streamer.jdbc.extra.options.{name}": value for name, value in parts.items()}
    run(spark, tmp_path / "parts", properties, source_class="JdbcSource")

    assert read_rows(tmp_path / "parts") == [("a", "x", 1), ("b", "x", 2), ("c", "x", 2)]
