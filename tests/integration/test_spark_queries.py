"""All query types through `hoodie.spark.read`: the same rows as `hoodie.read_table` gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import hoodie
import hoodie.spark
from hoodie import HoodieKey
from hoodie.exception import HoodieConfigException, HoodieIOException
from hoodie.spark.spark_conditions import spark_condition
from tests.support.table_builder import init_table, local_client, read_rows, rows
from tests.support.timeline_files import begin_after

pytestmark = pytest.mark.spark

COLUMNS = ["id", "region", "ts"]
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


@pytest.fixture
def history(tmp_path: Path) -> tuple[str, list[str]]:
    """A table with an upsert, an update, a delete, an overwrite, and their times."""
    path = init_table(tmp_path / "t")
    with local_client(path, NO_SERVICES) as client:
        results = [
            client.upsert(rows(("a", "x", 1), ("b", "x", 1), ("c", "y", 1))),
            client.upsert(rows(("a", "x", 2), ("d", "z", 2))),
            client.delete([HoodieKey("b", "x")]),
            client.insert_overwrite(rows(("e", "y", 4))),
        ]
    return path, [result.instant_time for result in results]


def found(spark: SparkSession, path: str, options: dict[str, Any] | None = None, **arguments: Any) -> list[tuple[Any]]:
    return sorted(map(tuple, hoodie.spark.read(spark, path, options, columns=COLUMNS, **arguments).collect()))


def test_all_query_types_give_the_rows_of_the_in_process_reader(
    spark: SparkSession, history: tuple[str, list[str]]
) -> None:
    path, times = history
    for time in times:
        assert found(spark, path, as_of=time) == read_rows(path, as_of=time)
        assert found(spark, path, {"as.of.instant": time}) == read_rows(path, as_of=time)
    ends = [begin_after(path, time) for time in times]
    for begin in ["earliest", "000", *ends[:-1]]:
        expected = read_rows(path, query_type="incremental", begin=begin)
        assert expected
        assert found(spark, path, query_type="incremental", begin=begin) == expected
        options = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": begin,
            "hoodie.datasource.read.end.instanttime": ends[2],
        }
        assert found(spark, path, options) == read_rows(path, query_type="incremental", begin=begin, end=ends[2])
    assert found(spark, path, {"hoodie.datasource.view.type": "read_optimized"}) == read_rows(path)
    assert found(spark, f"{path}/*/*") == read_rows(path)


def test_filters_of_sql_apply_to_incremental_queries(spark: SparkSession, history: tuple[str, list[str]]) -> None:
    path, _ = history
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": "earliest",
        "hoodie.datasource.read.incr.filters": "ts > 1,region != 'z'",
    }
    assert found(spark, path, options) == [("a", "x", 2), ("e", "y", 4)]


@pytest.mark.parametrize("filters", ["nope > 1", "region in ('x', 'z')"])
def test_filters_that_spark_does_not_understand_are_named(
    spark: SparkSession, history: tuple[str, list[str]], filters: str
) -> None:
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": "earliest",
        "hoodie.datasource.read.incr.filters": filters,
    }
    with pytest.raises(HoodieConfigException, match=r"incr\.filters = .* Spark does not understand .*Commas separate"):
        hoodie.spark.read(spark, history[0], options)


@pytest.mark.parametrize("name", ["a.b", "x y", "", None])
def test_a_name_that_no_view_can_have_is_refused(
    spark: SparkSession, history: tuple[str, list[str]], name: Any
) -> None:
    with pytest.raises(HoodieConfigException, match="name"):
        hoodie.spark.register(spark, name, history[0])


def test_what_was_cleaned_is_an_error_on_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, NO_SERVICES | {"hoodie.cleaner.commits.retained": 1}) as client:
        times = [client.upsert(rows(("a", "x", ts))).instant_time for ts in (1, 2, 3, 4)]
        client.clean()
    with pytest.raises(HoodieIOException, match=f"as of {times[0]}.*were cleaned"):
        hoodie.spark.read(spark, path, as_of=times[0])


def test_a_registered_view_shows_its_commits_until_it_is_registered_again(
    spark: SparkSession, history: tuple[str, list[str]]
) -> None:
    path, times = history
    hoodie.spark.register(spark, "t_now", path)
    hoodie.spark.register(spark, "t_then", path, as_of=times[0])
    hoodie.spark.register(spark, "t_new", path, query_type="incremental", begin=begin_after(path, times[2]))
    with local_client(path, NO_SERVICES) as client:
        client.upsert(rows(("f", "z", 5)))
    count = "select count(*) from {}"
    assert [spark.sql(count.format(view)).first()[0] for view in ("t_now", "t_then", "t_new")] == [3, 3, 1]  # type: ignore[index]
    hoodie.spark.register(spark, "t_now", path)
    assert spark.sql(count.format("t_now")).first()[0] == 4  # type: ignore[index]


FILTERS: list[Any] = [
    [("ts", ">", 1)],
    [("region", "in", ["x", "q"])],
    [[("id", "=", "a")], [("ts", "=", 4)]],
    [("id", "!=", "a")],
    pc.field("id").is_valid() & (pc.field("ts") <= 2),
    (pc.field("fare") > 1.0) & (pc.field("ts") >= 1),
    (pc.field("day") >= pa.scalar(18263, pa.int32()).cast(pa.date32())),
    pc.field("fare") != 1.0,
]


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_filters_choose_the_same_rows_whether_spark_or_arrow_decides(
    spark: SparkSession, tmp_path: Path, wanted: Any
) -> None:
    nan = float("nan")
    table = pa.table(
        {
            "id": ["a", "b", "c", "d", "e"],
            "region": ["x", "x", "y", None, "q"],
            "ts": pa.array([1, 2, 2**31, 4, 4], pa.int64()),
            "fare": [1.0, nan, None, -0.0, 2.0],
            "day": pa.array([18262, 18263, None, 18264, 18262], pa.int32()).cast(pa.date32()),
        }
    )
    path = str(tmp_path / "t")
    hoodie.write_table(table, path, record_key_fields="id")
    expected = sorted(hoodie.read_table(path, columns=["id"], filters=wanted)["id"].to_pylist())
    frame = hoodie.spark.read(spark, path, columns=["id"], filters=wanted)
    assert sorted(row.id for row in frame.collect()) == expected


def test_a_filter_that_spark_can_decide_needs_no_python(spark: SparkSession, history: tuple[str, list[str]]) -> None:
    path, _ = history
    plan = hoodie.plan_read(path, filters=[("ts", ">", 1), ("region", "in", ["x", "y"])])
    assert plan.row_filter is not None
    condition, is_exact = spark_condition(plan.row_filter, plan.schema)
    assert is_exact
    assert condition is not None
    shown = hoodie.spark.read(spark, path, filters=[("ts", ">", 1)])._jdf.queryExecution().toString()
    assert "MapInArrow" not in shown
    assert "PushedFilters: [IsNotNull(ts), GreaterThan(ts,1)]" in shown


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_record_index_answers_filters_on_key_fields_of_readers_that_trust_keys(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    path = init_table(tmp_path / "t", table_type=table_type)
    given = rows(*((f"k{number}", "xyz"[number % 3], 1) for number in range(30)))
    index = {"hoodie.metadata.enable": "true", "hoodie.metadata.global.record.level.index.enable": "true"}
    with local_client(path, index) as client:
        client.bulk_insert(given)
        client.upsert(given.slice(0, 1))
    options = {"hoodie.read.trust.record.key.fields": "true", "hoodie.spark.read.driver.max.bytes": "0"}
    for trusted, files in ((options, 1), ({**options, "hoodie.read.trust.record.key.fields": "false"}, 3)):
        frame = hoodie.spark.read(spark, path, trusted, columns=["id", "region"], filters=[("id", "=", "k7")])
        assert len(frame.inputFiles()) == files
        assert [tuple(row) for row in frame.collect()] == [("k7", "y")]
