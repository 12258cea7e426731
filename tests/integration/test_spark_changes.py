"""Changes of tables on Spark: hoodie.spark.read, and format("hoodie") for batches and streams."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

import hoodie.spark
from hoodie import HoodieKey, HoodieTableMetaClient
from hoodie.exception import HoodieException
from tests.support.change_histories import changes_of
from tests.support.table_builder import init_table, local_client, rows
from tests.support.timeline_files import begin_after
from tests.unit.query.test_changes import expected_changes, image, table_of

pytestmark = pytest.mark.spark
needs_data_sources = pytest.mark.skipif(
    int(pyspark.__version__.split(".")[0]) < 4, reason="PySpark 3.5 has no data sources in Python"
)
CDC = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.query.incremental.format": "cdc"}
BEGIN = "hoodie.datasource.read.begin.instanttime"
TYPED = {"hoodie.read.changes.form": "typed"}


@pytest.fixture
def changed(tmp_path: Path) -> tuple[str, list[str], list[str]]:
    """A table of three commits: its path, their requested times, and the times at which ranges after them begin."""
    path = init_table(tmp_path / "t")
    begins: list[str] = []
    with local_client(path) as client:
        for write in (
            lambda: client.upsert(rows(("a", "x", 1, 1.5), ("b", "x", 1, 2.5), ("c", "y", 1, 3.5))),
            lambda: client.upsert(rows(("a", "x", 2, 10.0), ("d", "y", 2, 4.0))),
            lambda: client.delete([HoodieKey("b", "x")]),
        ):
            write()
            begins.append(str(changes_of(path, begins[-1] if begins else None)[1]))
    requested = [i.requested_time for i in HoodieTableMetaClient.load(path).active_timeline.completed_writes()]
    return path, requested, begins


def in_hudis_form(frame: DataFrame) -> list[tuple[Any, ...]]:
    assert frame.columns == ["op", "ts_ms", "before", "after"]
    return sorted(
        (row.op, row.before and json.loads(row.before)["id"], row.after and json.loads(row.after)["fare"])
        for row in frame.collect()
    )


EXPECTED = [("d", "b", None), ("i", None, 4.0), ("u", "a", 10.0)]


def test_changes_have_the_types_of_the_table(spark: SparkSession, changed: tuple[str, list[str], list[str]]) -> None:
    path, _, begins = changed
    query: dict[str, Any] = {"query_type": "incremental", "query_format": "cdc", "begin": begins[0]}
    frame = hoodie.spark.read(spark, path, **query)
    found = sorted((row.op, row.before and row.before.id, row.after and row.after.fare) for row in frame.collect())
    assert found == EXPECTED
    assert frame.where("after.fare = 10").select("before.fare").collect()[0].fare == 1.5
    narrow = hoodie.spark.read(spark, path, columns=["id"], filters="fare > 5", **query)
    assert [(row.op, row.after.asDict()) for row in narrow.collect()] == [("u", {"id": "a"})]


def test_the_option_of_hudi_gives_the_form_of_hudi_for_requested_times(
    spark: SparkSession, changed: tuple[str, list[str], list[str]]
) -> None:
    path, requested, _ = changed
    frame = hoodie.spark.read(spark, path, {**CDC, BEGIN: requested[0]})
    assert in_hudis_form(frame) == EXPECTED
    assert {row.before for row in frame.where("op = 'd'").collect()} == {'{"id":"b","region":"x","ts":1,"fare":2.5}'}
    end = {"hoodie.datasource.read.end.instanttime": requested[1]}
    between = hoodie.spark.read(spark, path, {**CDC, BEGIN: requested[0], **end})
    assert in_hudis_form(between) == EXPECTED[1:]
    typed = hoodie.spark.read(spark, path, {**CDC, **TYPED, BEGIN: requested[2]})
    assert typed.columns == ["op", "_hoodie_commit_time", "before", "after"]


@pytest.mark.parametrize("name", ["v6_cdc_cow_data_before_after", "v9_cdc_cow_op_key_only", "v9_cdc_mor_bucket"])
def test_changes_of_real_tables_are_those_of_hudi(spark: SparkSession, serviced_tables: Path, name: str) -> None:
    path = str(table_of(serviced_tables, name))
    found = hoodie.spark.read(spark, path, {**CDC, BEGIN: "000"}).collect()
    expected = Counter(
        (row["op"], row["ts_ms"], image(row["before"]), image(row["after"])) for row in expected_changes(name)
    )
    assert Counter((row.op, row.ts_ms, image(row.before), image(row.after)) for row in found) == expected


@needs_data_sources
def test_the_data_source_reads_changes(spark: SparkSession, changed: tuple[str, list[str], list[str]]) -> None:
    path, requested, begins = changed
    source = spark.read.format("hoodie").options(**CDC)
    assert in_hudis_form(source.option(BEGIN, requested[0]).load(path)) == EXPECTED
    typed = source.options(**TYPED).option(BEGIN, begins[0]).option("columns", "id").load(path)
    assert sorted((row.op, (row.after or row.before).asDict()["id"]) for row in typed.collect()) == [
        ("d", "b"), ("i", "d"), ("u", "a"),
    ]  # fmt: skip


@needs_data_sources
@pytest.mark.parametrize("form", ["hudi", "typed"])
def test_a_stream_gives_each_change_once(
    spark: SparkSession, changed: tuple[str, list[str], list[str]], tmp_path: Path, form: str
) -> None:
    path, _, _ = changed
    seen: list[Any] = []

    def take(frame: DataFrame, number: int) -> None:
        seen.extend(frame.collect())

    def run() -> list[tuple[Any, ...]]:
        seen.clear()
        frame = spark.readStream.format("hoodie").options(**CDC).option("hoodie.read.changes.form", form).load(path)
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(take)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        found = []
        for row in seen:
            before, after = (json.loads(v) if isinstance(v, str) else v and v.asDict() for v in (row.before, row.after))
            found.append((row.op, (before or after)["id"], after and after["fare"]))
        return sorted(found)

    assert run() == [("i", "a", 10.0), ("i", "c", 3.5), ("i", "d", 4.0)]
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 3, 11.0)))
        client.delete([HoodieKey("d", "y")])
    assert run() == [("d", "d", None), ("u", "a", 11.0)]
    assert run() == []


def test_a_range_of_hudi_with_a_pending_commit_in_it_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    several = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "InProcessLockProvider",
    }
    with local_client(path, several) as client:
        first = client.upsert(rows(("a", "x", 1))).instant_time
        pending = client.start_commit()
        with local_client(path, several) as other:
            other.upsert(rows(("b", "y", 1)))
        with pytest.raises(HoodieException, match=f"{pending} is pending"):
            hoodie.spark.read(spark, path, {**CDC, BEGIN: first})
        blocks = {"hoodie.read.timeline.holes.resolution.policy": "BLOCK"}
        assert hoodie.spark.read(spark, path, {**CDC, BEGIN: first, **blocks}).count() == 0
        typed = hoodie.spark.read(spark, path, {**CDC, **TYPED, BEGIN: begin_after(path, first)})
        assert [row.after.id for row in typed.collect()] == ["b"]
        client.rollback(pending)
