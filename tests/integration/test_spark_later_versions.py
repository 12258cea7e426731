"""Tables of versions 8 and 9 of real Hudi on Spark: read as in this process, and written."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

import hoodie.spark
from hoodie import HoodieKey, HoodieReadClient, HoodieTableMetaClient
from hoodie.spark.spark_rdd_write_client import SparkRDDWriteClient
from tests.support.table_builder import content, spark_rows, write_config

pytestmark = pytest.mark.spark

COLUMNS = ["_hoodie_commit_time", "_hoodie_partition_path", "id", "region", "ts", "fare"]
START = "hoodie.datasource.streaming.startOffset"
HAS_DATA_SOURCES = int(pyspark.__version__.split(".")[0]) >= 4


@pytest.fixture(params=["hudi_trips_v8", "hudi_trips_v9"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table of real Hudi; ``expected.json`` beside it holds what Hudi reads of it."""
    with zipfile.ZipFile(Path(__file__).parents[1] / "data" / f"{request.param}.zip") as archive:
        archive.extractall(tmp_path)
    found: Path = tmp_path / request.param
    return found


def rows_of(frame: DataFrame) -> list[list[Any]]:
    return sorted(map(list, frame.select(*COLUMNS).collect()))


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def test_each_query_gives_what_real_hudi_reads(spark: SparkSession, table: Path, every: int) -> None:
    before = content(table)
    for expected in json.loads((table.parent / "expected.json").read_text())[::every]:
        query = expected["query"]
        assert rows_of(hoodie.spark.read(spark, str(table), query)) == expected["rows"], query
        if HAS_DATA_SOURCES:
            assert rows_of(spark.read.format("hoodie").options(**query).load(str(table))) == expected["rows"], query
    with HoodieReadClient(spark, str(table)) as client:
        (found,) = client.read([HoodieKey("k45", "west")]).collect()
    assert (found.id, found.region) == ("k45", "west")
    assert content(table) == before


@pytest.mark.skipif(not HAS_DATA_SOURCES, reason="PySpark 3.5 has no data sources in Python")
def test_a_stream_reads_what_was_completed_after_a_time(spark: SparkSession, table: Path) -> None:
    begin = "hoodie.datasource.read.begin.instanttime"
    found = json.loads((table.parent / "expected.json").read_text())
    expected = next(e for e in found if begin in e["query"] and len(e["query"]) == 2 and e["rows"])
    frame = spark.readStream.format("hoodie").option(START, expected["query"][begin]).load(str(table))
    batches: list[list[Any]] = []

    def take(batch: DataFrame, number: int) -> None:
        batches.extend(map(list, batch.select(*COLUMNS).collect()))

    writer = frame.writeStream.option("checkpointLocation", str(table.parent / "checkpoint")).foreachBatch(take)
    writer.trigger(availableNow=True).start().awaitTermination()
    assert sorted(batches) == expected["rows"]


Change = Callable[[SparkSession, Path], object]
CHANGES: dict[str, Change] = {
    "upsert": lambda spark, path: hoodie.spark.write(some(spark), str(path), {}),
    "overwrite": lambda spark, path: hoodie.spark.write(
        some(spark), str(path), {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"},
        mode="overwrite",
    ),
    "client": lambda spark, path: SparkRDDWriteClient(spark, write_config(path)).upsert(some(spark)),
    "merge": lambda spark, path: (
        hoodie.spark.merge_into(str(path), some(spark), "t.id = s.id AND t.region = s.region")
        .whenMatched()
        .delete()
        .merge()
    ),
    "batch of a stream": lambda spark, path: hoodie.spark.foreach_batch_writer(str(path), {})(some(spark), 0),
}  # fmt: skip


def some(spark: SparkSession) -> DataFrame:
    frame: DataFrame = spark_rows(spark, ("k45", "west", 99, 1.0))
    return frame


@pytest.mark.parametrize("change", CHANGES)
def test_every_way_of_writing_goes_on_with_a_table_of_real_hudi(spark: SparkSession, table: Path, change: str) -> None:
    version = HoodieTableMetaClient.load(str(table)).table_config.table_version
    before = {row["id"]: row for row in stored_rows(table)}
    CHANGES[change](spark, table)
    after = {row["id"]: row for row in stored_rows(table)}
    written = {"id": "k45", "region": "west", "ts": 99, "fare": 1.0}
    if change == "merge":
        assert after == {key: row for key, row in before.items() if (key, row["region"]) != ("k45", "west")}
    else:
        assert after.pop("k45") == written
        before.pop("k45", None)
        assert after == ({} if change == "overwrite" else before)
    assert HoodieTableMetaClient.load(str(table)).table_config.table_version == version == int(table.name[-1])


def stored_rows(table: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = hoodie.read_table(str(table), columns=COLUMNS[2:]).to_pylist()
    return found
