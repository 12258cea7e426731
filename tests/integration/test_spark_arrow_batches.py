from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from hoodie.engine.task_identity import TaskIdentity
from hoodie.spark import arrow_batches
from hoodie.spark.arrow_batches import BYTES_OF_BATCHES, NO_LIMIT, ROWS_OF_BATCHES
from hoodie.spark.spark_data import SparkData
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext

pytestmark = pytest.mark.spark

LIMITS = pa.schema([("limit", pa.string())])
ROWS = pa.schema([("rows", pa.int64())])


@pytest.fixture
def context(spark: SparkSession) -> HoodieSparkEngineContext:
    return HoodieSparkEngineContext(spark)


@pytest.fixture
def limits_bytes(spark: SparkSession) -> bool:
    return int(spark.version.partition(".")[0]) >= 4


@pytest.fixture
def every_input_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_batches, "LARGE_BYTES", 0)


def short_rows(context: HoodieSparkEngineContext, folder: Path) -> DataFrame:
    numbers = pa.array(range(2000), pa.int64())
    pq.write_table(pa.table({"number": numbers, "text": numbers.cast(pa.string())}), folder / "short.parquet")
    return context.spark.read.parquet(str(folder / "short.parquet"))


def long_rows(context: HoodieSparkEngineContext, folder: Path) -> DataFrame:
    texts = [os.urandom(10_000).hex() for _ in range(20)]
    pq.write_table(pa.table({"number": range(20), "text": texts}), folder / "long.parquet")
    return context.spark.read.parquet(str(folder / "long.parquet"))


def seen_limits(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The property of the job that limits batches."""
    context = TaskContext.get()
    assert context is not None
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"limit": [context.getLocalProperty(BYTES_OF_BATCHES)]}, schema=LIMITS)


def limits_of(data: SparkData) -> set[str | None]:
    table = data.map_partitions_with_index(seen_limits, LIMITS).collect()
    assert table is not None
    assert data.frame.sparkSession.sparkContext.getLocalProperty(BYTES_OF_BATCHES) is None
    return set(table["limit"].to_pylist())


def rows_of_batches(frame: DataFrame) -> int:
    """The most rows of a batch that Python gets."""

    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]}, schema=ROWS)

    return max(row.rows for row in frame.mapInArrow(sizes, "rows bigint").collect())


def test_batches_of_short_rows_have_no_limit_of_bytes(
    context: HoodieSparkEngineContext, tmp_path: Path, every_input_is_large: None, limits_bytes: bool
) -> None:
    expected = {NO_LIMIT if limits_bytes else None}
    data = context.to_data(short_rows(context, tmp_path))
    assert limits_of(data) == expected
    assert limits_of(data.select(["number"])) == expected
    numbered = data.map_batches(with_place, data.schema.append(pa.field("place", pa.int32())))
    assert limits_of(numbered.route("place", 2)) == expected
    assert limits_of(data.coalesce(1).repartition_by(["number"], 2)) == expected


def with_place(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column(pa.field("place", pa.int32()), pa.array([1] * batch.num_rows, pa.int32()))


def test_batches_of_long_rows_keep_the_limit(
    context: HoodieSparkEngineContext, tmp_path: Path, every_input_is_large: None
) -> None:
    assert limits_of(context.to_data(long_rows(context, tmp_path))) == {None}


def test_a_small_input_is_not_counted(context: HoodieSparkEngineContext, tmp_path: Path) -> None:
    assert limits_of(context.to_data(short_rows(context, tmp_path))) == {None}


def test_batches_without_a_limit_of_rows_keep_the_limit_of_bytes(
    context: HoodieSparkEngineContext, tmp_path: Path, every_input_is_large: None, request: pytest.FixtureRequest
) -> None:
    before = context.spark.conf.get(ROWS_OF_BATCHES)
    request.addfinalizer(lambda: context.spark.conf.set(ROWS_OF_BATCHES, str(before)))
    context.spark.conf.set(ROWS_OF_BATCHES, "0")
    assert limits_of(context.to_data(short_rows(context, tmp_path))) == {None}


@pytest.mark.parametrize("are_short", [True, False])
def test_kept_rows_are_measured(
    context: HoodieSparkEngineContext, tmp_path: Path, limits_bytes: bool, are_short: bool
) -> None:
    frame = (short_rows if are_short else long_rows)(context, tmp_path)
    data = context.to_data(frame.repartition(2)).persist(fixed=["number"])
    try:
        assert limits_of(data) == {NO_LIMIT if limits_bytes and are_short else None}
    finally:
        data.unpersist()


def test_spark_takes_the_limit_from_the_job_unless_the_session_has_one(
    context: HoodieSparkEngineContext, limits_bytes: bool, request: pytest.FixtureRequest
) -> None:
    if not limits_bytes:
        pytest.skip("PySpark 3.5 does not limit the bytes of batches")
    spark = context.spark
    frame = spark.range(0, 3000, 1, 2)
    request.addfinalizer(lambda: spark.sparkContext.setLocalProperty(BYTES_OF_BATCHES, None))
    assert rows_of_batches(frame) == 1500
    spark.sparkContext.setLocalProperty(BYTES_OF_BATCHES, "2000")
    assert 0 < rows_of_batches(frame) < 300
    assert 0 < rows_of_batches(frame.repartition(2, "id")) < 300
    request.addfinalizer(lambda: spark.conf.unset(BYTES_OF_BATCHES))
    spark.conf.set(BYTES_OF_BATCHES, "8000")
    assert 600 < rows_of_batches(frame) < 1200
