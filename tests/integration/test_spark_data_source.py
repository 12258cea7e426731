"""Batch reads by format("hoodie")."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

import hoodie.spark
from hoodie import HoodieTableMetaClient
from hoodie.common.table.table_snapshot import TableSnapshot
from tests.support.object_store_servers import Bucket
from tests.support.table_builder import init_table, local_client, rows
from tests.support.timeline_files import begin_after

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(int(pyspark.__version__.split(".")[0]) < 4, reason="PySpark 3.5 has no data sources in Python"),
]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
VALUES = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(10, 2)),
        ("raw", pa.binary()),
        ("fixed", pa.binary(3)),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("point", pa.struct([("x", pa.float64()), ("names", pa.list_(pa.struct([("n", pa.int32())])))])),
    ]
)


def value_row(key: str, number: int | None, real: float | None) -> dict[str, Any]:
    if number is None:
        return dict.fromkeys(VALUES.names) | {"id": key, "region": "x", "f64": real}
    return {
        "id": key,
        "region": "x" if number % 2 else "y",
        "i32": number,
        "i64": number * 10**10,
        "f32": real,
        "f64": real,
        "flag": number > 1,
        "day": date(2026, 1, 1 + number),
        "at": datetime(2026, 1, 1 + number, 12, tzinfo=UTC),
        "local": datetime(2026, 1, 1 + number, 12),
        "price": decimal.Decimal(number) / 4,
        "raw": b"raw" * number,
        "fixed": b"abc",
        "tags": ["a", None, "b"][:number],
        "counts": [("k", number)],
        "point": {"x": real, "names": [{"n": number}, {"n": None}]},
    }


@pytest.fixture(scope="module")
def values_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of all types with two partitions, updated rows, nulls and NaN."""
    path = init_table(tmp_path_factory.mktemp("tables") / "values", ordering_fields=[])
    first = [value_row(f"k{n}", n, float(n)) for n in range(6)]
    second = [value_row("k1", 11, -0.0), value_row("k6", None, math.nan), value_row("k7", 7, math.nan)]
    with local_client(path) as client:
        for some in (first, [*second, value_row("k8", None, None)]):
            client.upsert(pa.Table.from_pylist(some, VALUES))
    return path


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


def source(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    return spark.read.format("hoodie").options(**options).load(path)


def contents(frame: DataFrame) -> list[str]:
    """Rows as text, because NaN does not equal itself."""
    return sorted(str(row) for row in frame.collect())


def test_rows_and_types_are_those_of_the_fast_reader(spark: SparkSession, values_path: str) -> None:
    frame, expected = source(spark, values_path), hoodie.spark.read(spark, values_path)
    assert frame.schema == expected.schema
    assert contents(frame) == contents(expected)
    assert frame.count() == 9


def test_columns_and_filters_are_chosen_by_options(spark: SparkSession, values_path: str) -> None:
    frame = source(spark, values_path, columns="i32, id", filter="i32 >= 2 and day < date '2026-01-05'")
    assert frame.columns == ["i32", "id"]
    assert sorted(map(tuple, frame.collect())) == [(2, "k2"), (3, "k3")]
    named = source(spark, values_path, columns='["id"]', filter="at = timestamp '2026-01-04 12:00:00'")
    assert [row.id for row in named.collect()] == ["k3"]


def test_a_frame_reads_the_files_of_its_load(spark: SparkSession, tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
        frame = source(spark, path)
        client.upsert(rows(("a", "x", 2), ("c", "y", 2)))
        assert sorted((row.id, row.ts) for row in frame.collect()) == [("a", 1), ("b", 1)]
        assert frame.union(frame).count() == 4
        assert source(spark, path).count() == 3


def test_time_travel_and_ranges_of_commits(spark: SparkSession, tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        first = client.upsert(rows(("a", "x", 1), ("b", "y", 1))).instant_time
        client.upsert(rows(("a", "x", 2)))
    at_first = source(spark, path, **{"as.of.instant": first})
    assert sorted((row.id, row.ts) for row in at_first.collect()) == [("a", 1), ("b", 1)]
    incremental = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": begin_after(path, first),
    }
    assert [(row.id, row.ts) for row in source(spark, path, **incremental).collect()] == [("a", 2)]
    filtered = incremental | {"hoodie.datasource.read.incr.filters": "ts > 2"}
    assert source(spark, path, **filtered).collect() == []
    filtered["hoodie.datasource.read.begin.instanttime"] = "earliest"
    filtered["hoodie.datasource.read.incr.filters"] = "ts < 2, id != 'c'"
    assert [(row.id, row.ts) for row in source(spark, path, **filtered).collect()] == [("b", 1)]


def test_a_table_that_was_never_written_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    frame = source(spark, path)
    assert frame.schema == hoodie.spark.read(spark, path).schema
    assert frame.collect() == []


CONDITIONS = [
    "i32 = 3",
    "i32 <> 3",
    "i64 > 20000000000 and i32 <= 5",
    "not (i64 > 20000000000)",
    "i32 in (1, 3, 11)",
    "i32 not in (1, 3, 11)",
    "i32 in (1, null)",
    "i32 not in (1, null)",
    "i32 is null",
    "i32 is not null",
    "i32 <=> 4",
    "i32 <=> null",
    "not (i32 <=> 4)",
    "flag",
    "not flag",
    "id like 'k%' and id not like 'k1%'",
    "id like '%3'",
    "id like '%7%'",
    "day >= date'2026-01-04'",
    "at < timestamp'2026-01-03 12:00:00'",
    "at = timestamp'2026-01-03 12:00:00'",
    "local > timestamp_ntz'2026-01-03 11:59:59.999999'",
    "price = 0.25",
    "price > 0.755",
    "f64 > 3",
    "f64 = double('NaN')",
    "f64 = 0",
    "f64 <> 2",
    "f32 >= 4",
    "point.x > 3",
    "raw = X'726177'",
    "region = 'y' and id > 'k2'",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_pushed_filters_choose_the_rows_of_spark(
    spark: SparkSession, values_path: str, pushdown: None, condition: str
) -> None:
    expected = hoodie.spark.read(spark, values_path).where(condition)
    assert contents(source(spark, values_path, pushdown="single-use").where(condition)) == contents(expected)


def plan_text(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_filters_are_pushed_where_the_session_and_the_frame_say_so(
    spark: SparkSession, values_path: str, pushdown: None
) -> None:
    condition = "i32 > 2 and f64 > 3"
    whole = source(spark, values_path).where(condition)
    assert "isnotnull(i32" in plan_text(whole)
    pushed = source(spark, values_path, pushdown="single-use").where(condition)
    assert sorted(row.id for row in pushed.collect()) == sorted(row.id for row in whole.collect()) == ["k4", "k5", "k7"]
    if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 1):
        # The scan does the part of the integers; floats stay with Spark.
        assert "i32" not in plan_text(pushed).partition("Filter")[2].partition("\n")[0]
        assert "f64" in plan_text(pushed).partition("Filter")[2].partition("\n")[0]


def test_the_word_for_a_frame_that_is_used_once_is_checked(spark: SparkSession, values_path: str) -> None:
    with pytest.raises(Exception, match="give 'single-use' for a frame that is used once"):
        source(spark, values_path, pushdown="true").collect()


def test_queries_of_one_frame_do_not_share_filters(spark: SparkSession, values_path: str) -> None:
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = source(spark, values_path).select("id", "i32")
        assert sorted(row.id for row in frame.where("i32 = 3").collect()) == ["k3"]
        assert frame.count() == 9
        either = frame.where("i32 = 3").union(frame.where("i32 = 4")).union(frame.where("i32 is null"))
        assert sorted(row.id for row in either.collect()) == ["k3", "k4", "k6", "k8"]
    finally:
        spark.conf.unset(PUSHDOWN)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fliter": "i32 > 2"}, "unknown option fliter, did you mean filter?"),
        ({"filter": "i32 >"}, "is not understood at the end: expected a literal"),
        ({"filter": "nope = 1"}, "has no column nope"),
        ({"filter": "i32 = 'a'"}, "does not fit the table"),
        ({"columns": "id,,i32"}, "the option columns is 'id,,i32'"),
        ({"columns": "id, nope"}, "has no column nope"),
        ({"hoodie.datasource.query.type": "newest"}, "hoodie.datasource.query.type"),
        ({"hoodie.datasource.query.incremental.format": "cdc"}, "give query_type='incremental'"),
        ({"as.of.instant": "soon"}, "as_of (as.of.instant) is 'soon'"),
        ({"hoodie.datasource.query.type": "incremental"}, "an incremental query needs begin"),
    ],
)
def test_wrong_options_are_named(spark: SparkSession, values_path: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception) as error:
        source(spark, values_path, **options).collect()
    assert message in str(error.value)


def test_wrong_paths_and_schemas_are_named(spark: SparkSession, values_path: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="There is no Hudi table at"):
        source(spark, str(tmp_path / "none"))
    with pytest.raises(Exception, match="the table's folder is missing"):
        spark.read.format("hoodie").load()
    with pytest.raises(Exception, match="hoodie reads one table"):
        spark.read.format("hoodie").load([values_path, str(tmp_path)])
    with pytest.raises(Exception, match="leave schema\\(\\) out"):
        spark.read.schema("id string").format("hoodie").load(values_path).collect()


def test_a_file_that_was_cleaned_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1)))
    frame = source(spark, path)
    (file,) = TableSnapshot.load(path).view().latest_base_files("x")
    Path(file.path).unlink()
    with pytest.raises(Exception) as error:
        frame.collect()
    assert Path(file.path).name in str(error.value)


@pytest.mark.slow
def test_a_table_on_s3_is_read_with_the_options_of_the_storage(spark: SparkSession, s3_bucket: Bucket) -> None:
    path, options = f"s3://{s3_bucket.name}/lake/t", s3_bucket.options()
    init_table(path, storage_options=options)
    with local_client(path, storage_options=options) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 2)))
    given = {f"storage.{name}": value for name, value in options.items()}
    assert sorted((row.id, row.ts) for row in source(spark, path, **given).collect()) == [("a", 1), ("b", 2)]
    with pytest.raises(Exception) as error:
        source(
            spark,
            path,
            **given | {"storage.secret_access_key": "wrong-secret", "storage.endpoint": "http://127.0.0.1:1"},
        )
    assert "wrong-secret" not in str(error.value)


def test_the_programs_of_the_page_run(
    spark: SparkSession, tmp_path: Path, pushdown: None, capfd: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "trips")
    names = ("uuid", "rider", "fare", "city", "day")
    trips = [
        ("t1", "ann", 19.5, "Rome", date(2026, 1, 1)),
        ("t2", "bob", 31.0, "Rome", date(2026, 1, 2)),
        ("t3", "cid", 27.5, "Oslo", date(2026, 1, 3)),
    ]
    init_table(path, record_key_fields="uuid", partition_fields="city", ordering_fields=[])
    with local_client(path) as client:
        client.insert(pa.Table.from_pylist([dict(zip(names, trip, strict=True)) for trip in trips]))
    page = (Path(__file__).parents[2] / "docs/data-source.md").read_text(encoding="utf-8")
    shown = []
    for program in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        exec(compile(program.replace("/tmp/trips", path), "data-source.md", "exec"), {"spark": spark})
        shown.append(" ".join(capfd.readouterr().out.split()))
    by_city, chosen, in_rome, in_batch = filter(None, shown)
    assert "|Oslo| 1|" in by_city and "|Rome| 1|" in by_city
    assert "| bob|31.0|" in chosen and "| cid|27.5|" in chosen and "ann" not in chosen
    assert "| t1| ann|19.5|Rome|" in in_rome and "Oslo" not in in_rome
    assert in_batch.count("| t") == 3


def test_a_view_of_sql_reads_a_table(spark: SparkSession, values_path: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW kept USING hoodie OPTIONS (path '{values_path}', columns 'id, i32')")
    assert [row.id for row in spark.sql("SELECT id FROM kept WHERE i32 = 4").collect()] == ["k4"]
    spark.catalog.dropTempView("kept")


def test_a_name_of_sql_is_written_and_dropped_as_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    init_table(path, record_key_fields="id", partition_fields=[], ordering_fields=[])
    with local_client(path) as client:
        client.insert(pa.table({"id": ["a", "b"], "n": [1, 2]}))

    def stored() -> list[tuple[Any, ...]]:
        table = hoodie.read_table(path, columns=["id", "n"])
        return sorted(zip(table["id"].to_pylist(), table["n"].to_pylist(), strict=True))

    spark.sql(f"CREATE TABLE named USING hoodie LOCATION '{path}'")
    try:
        spark.sql(f"INSERT INTO named WITH (path = '{path}') VALUES ('b', 3), ('c', 4)")
        assert stored() == [("a", 1), ("b", 3), ("c", 4)]
        spark.sql(f"INSERT OVERWRITE named WITH (path = '{path}') SELECT 'd' AS id, 5L AS n")
        assert stored() == [("d", 5)]
        assert len(HoodieTableMetaClient.load(path).history()) == 3
        assert [tuple(row) for row in spark.sql("SELECT id, n FROM named").collect()] == [("d", 5)]
        with pytest.raises(Exception, match=r"hoodie\.spark\.write"):
            spark.sql(f"CREATE TABLE other USING hoodie LOCATION '{tmp_path / 'other'}' AS SELECT * FROM named")
        assert not (tmp_path / "other" / ".hoodie").exists()
    finally:
        spark.sql("DROP TABLE named")
    assert stored() == [("d", 5)]
    assert not spark.catalog.tableExists("named")
