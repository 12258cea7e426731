from __future__ import annotations

import datetime
import importlib
import os
import random
import socket
import sys
import threading
import uuid
import zipfile
import zipimport
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodie.common.model.record import HoodieKey, HoodieRecord
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import (
    HoodieException,
    HoodieIOException,
    HoodieKeyException,
    HoodieSchemaException,
    HoodieWriteException,
)
from hoodie.spark.spark_data import SparkData
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
from hoodie.spark.spark_hash import hash_ints, numbers_to_hash_inputs
from hoodie.spark.spark_types import arrow_schema, spark_schema
from tests.contract.data_contract import TASKS, DataContract, described_task

pytestmark = pytest.mark.spark

UTC_MICROS = pa.timestamp("us", tz="UTC")


class TestSparkData(DataContract):
    routes_by_bucket = True

    @pytest.fixture
    def context(self, spark: SparkSession) -> HoodieEngineContext:
        return HoodieSparkEngineContext(spark)

    def data(self, context: HoodieEngineContext, table: pa.Table) -> HoodieData:
        assert isinstance(context, HoodieSparkEngineContext)
        rows = [tuple(row.values()) for row in table.to_pylist(maps_as_pydicts="strict")]
        return context.to_data(context.spark.createDataFrame(rows, spark_schema(table.schema)))


@pytest.fixture
def context(spark: SparkSession) -> HoodieSparkEngineContext:
    return HoodieSparkEngineContext(spark)


@pytest.fixture(autouse=True)
def nothing_stays_kept(spark: SparkSession) -> Iterator[None]:
    """What a test keeps would stay in the memory of the session, which the tests share."""
    kept = spark._jsparkSession.sharedState().cacheManager()
    kept.clearCache()
    yield
    assert kept.isEmpty()


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/New_York"])
def time_zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Any]:
    """Set properties of the session for one test."""
    before: dict[str, str | None] = {}

    def change(key: str, value: str) -> None:
        before.setdefault(key, spark.conf.get(key, None))
        spark.conf.set(key, value)

    yield change
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


TYPES = """
    SELECT CAST(-1 AS TINYINT) AS tiny, CAST(2 AS SMALLINT) AS small, 3 AS whole, 4L AS big,
        CAST(0.5 AS FLOAT) AS single, 0.25D AS double, TRUE AS yes, 'text' AS text, CAST('x' AS BINARY) AS bytes,
        CAST(1.20 AS DECIMAL(10, 2)) AS money, CAST(12345678901234567890.5 AS DECIMAL(38, 1)) AS huge,
        DATE'2024-02-29' AS day,
        timestamp_micros(1730610000000001) AS moment, ARRAY(timestamp_micros(1730610000000001)) AS moments,
        MAP('a', timestamp_micros(1730610000000001)) AS named,
        NAMED_STRUCT('at', timestamp_micros(1730610000000001)) AS row,
        ARRAY(NAMED_STRUCT('deep', MAP('k', ARRAY(1, NULL)))) AS nested, CAST(NULL AS STRING) AS missing,
        CAST('ab' AS VARCHAR(5)) AS varying, TIMESTAMP_NTZ'2024-11-03 01:30:00' AS wall
"""
MOMENT = datetime.datetime(2024, 11, 3, 5, 0, 0, 1, tzinfo=datetime.UTC)  # 01:00 in New York, the first time
STORED = {
    "tiny": (pa.int32(), -1),
    "small": (pa.int32(), 2),
    "whole": (pa.int32(), 3),
    "big": (pa.int64(), 4),
    "single": (pa.float32(), 0.5),
    "double": (pa.float64(), 0.25),
    "yes": (pa.bool_(), True),
    "text": (pa.string(), "text"),
    "bytes": (pa.binary(), b"x"),
    "money": (pa.decimal128(10, 2), Decimal("1.20")),
    "huge": (pa.decimal128(38, 1), Decimal("12345678901234567890.5")),
    "day": (pa.date32(), datetime.date(2024, 2, 29)),
    "moment": (UTC_MICROS, MOMENT),
    "moments": (pa.list_(UTC_MICROS), [MOMENT]),
    "named": (pa.map_(pa.string(), UTC_MICROS), [("a", MOMENT)]),
    "row": (pa.struct([("at", UTC_MICROS)]), {"at": MOMENT}),
    "nested": (
        pa.list_(pa.struct([("deep", pa.map_(pa.string(), pa.list_(pa.int32())))])),
        [{"deep": [("k", [1, None])]}],
    ),
    "missing": (pa.string(), None),
    "varying": (pa.string(), "ab"),
    "wall": (UTC_MICROS, datetime.datetime(2024, 11, 3, 1, 30, tzinfo=datetime.UTC)),
}


@attrs.frozen
class SeenTypes:
    """A task: the schema that batches have on their way through Python."""

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"schema": [without_nullability(batch.schema).to_string()]})


def without_nullability(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, nullable(field.type)) for field in schema])


def nullable(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, nullable(field.type)) for field in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(pa.string(), nullable(data_type.item_type))
    if pa.types.is_list(data_type):
        return pa.list_(nullable(data_type.value_type))
    return data_type


def unchanged(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


@pytest.mark.parametrize("large", ["false", "true"])
def test_every_type_keeps_its_values_in_any_time_zone(
    context: HoodieSparkEngineContext, time_zone: str, setting: Any, large: str
) -> None:
    setting("spark.sql.execution.arrow.useLargeVarTypes", large)
    data = context.to_data(context.spark.sql(TYPES))
    expected = pa.schema([(name, data_type) for name, (data_type, _) in STORED.items()])
    assert without_nullability(data.schema) == expected
    seen = data.map_partitions_with_index(SeenTypes(), pa.schema([("schema", pa.string())])).collect()
    assert seen is not None
    assert seen["schema"].to_pylist() == [expected.to_string()]
    for copy in (data, data.map_batches(unchanged, data.schema), data.route("whole", 7), data.persist()):
        table = copy.collect()
        assert table is not None
        assert table.schema == data.schema
        assert table.to_pylist() == [{name: value for name, (_, value) in STORED.items()}]
    data.unpersist()


def test_both_hours_that_daylight_saving_repeats_stay_apart(context: HoodieSparkEngineContext, time_zone: str) -> None:
    micros = [1730610000000000 + minutes * 60_000_000 for minutes in range(0, 180, 30)]
    frame = context.spark.createDataFrame([(value,) for value in micros], "micros bigint")
    data = context.to_data(frame.select(sf.expr("timestamp_micros(micros)").alias("at")))
    table = data.map_batches(unchanged, data.schema).collect()
    assert table is not None
    assert sorted(table["at"].cast(pa.int64()).to_pylist()) == micros


def test_nullability_survives_the_way_to_arrow_and_back(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 AS a, ARRAY(1) AS b, ARRAY(NULL, 1) AS c, MAP('k', 1) AS d, NAMED_STRUCT('x', 1) AS e")
    schema = arrow_schema(frame.schema)
    assert [field.nullable for field in schema] == [False] * 5
    assert schema.field("b").type.value_field.nullable is False
    assert schema.field("c").type.value_field.nullable is True
    assert spark_schema(schema).jsonValue() == frame.schema.jsonValue()


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("INTERVAL '1' DAY", "column 'odd' of type interval day cannot be stored"),
        ("ARRAY(NAMED_STRUCT('x', INTERVAL '1' DAY))", "column 'odd.element.x' of type interval day cannot"),
        ("NULL", "odd"),
        ("MAP(1, 2)", "keys of a map must be strings"),
    ],
)
def test_types_that_cannot_be_stored_are_refused_by_column(
    context: HoodieSparkEngineContext, expression: str, message: str
) -> None:
    with pytest.raises(HoodieSchemaException, match=message):
        context.to_data(context.spark.sql(f"SELECT 1 AS fine, {expression} AS odd"))


def test_input_of_another_kind_is_refused(context: HoodieSparkEngineContext) -> None:
    with pytest.raises(HoodieSchemaException, match="of type dict"):
        context.to_data({"a": 1})
    with pytest.raises(HoodieSchemaException, match="foreachBatch"):
        context.to_data(context.spark.readStream.format("rate").load())


def test_meta_columns_of_a_table_read_before_are_left_out(context: HoodieSparkEngineContext) -> None:
    data = context.to_data(context.spark.sql("SELECT '1' AS _hoodie_commit_time, 'k' AS key"))
    assert data.schema.names == ["key"]
    assert data.count() == 1


def test_an_rdd_of_records_becomes_data(context: HoodieSparkEngineContext) -> None:
    records = [HoodieRecord(HoodieKey(f"k{i}", "p"), {"id": f"k{i}", "fare": i / 2}) for i in range(10)]
    rdd = context.spark.sparkContext.parallelize(records, 3)
    schema = pa.schema([("id", pa.string()), ("fare", pa.float64())])
    for data in (context.to_data(rdd, schema), context.to_data(rdd)):
        table = data.collect()
        assert table is not None
        assert sorted(table["fare"].to_pylist()) == [i / 2 for i in range(10)]
        assert sorted(table["__hoodie_record_key"].to_pylist()) == [f"k{i}" for i in range(10)]


def test_records_of_an_rdd_may_lack_columns_that_the_schema_names(context: HoodieSparkEngineContext) -> None:
    records = [
        HoodieRecord(HoodieKey("a"), {"id": "a"}, 7),
        HoodieRecord(HoodieKey("b"), {}, None, RecordOperation.DELETE),
    ]
    schema = pa.schema([("id", pa.string()), ("fare", pa.float64())])
    table = context.to_data(context.spark.sparkContext.parallelize(records, 2), schema).collect()
    assert table is not None
    assert table.select(["id", "fare", "__hoodie_ordering_value"]).sort_by("id").to_pylist() == [
        {"id": "a", "fare": None, "__hoodie_ordering_value": 7},
        {"id": None, "fare": None, "__hoodie_ordering_value": None},
    ]


def test_a_column_that_comes_late_in_an_rdd_is_refused_by_name(context: HoodieSparkEngineContext) -> None:
    records = [HoodieRecord(HoodieKey("a"), {"id": "a"})] * 1000 + [HoodieRecord(HoodieKey("b"), {"odd": 1})]
    with pytest.raises(HoodieSchemaException, match="odd"):
        context.to_data(context.spark.sparkContext.parallelize(records, 2)).collect()


def test_objects_in_records_of_an_rdd_are_taken_exactly_or_refused_by_name(context: HoodieSparkEngineContext) -> None:
    parallelize = context.spark.sparkContext.parallelize
    records = [HoodieRecord(HoodieKey(f"k{i}"), {"v": {"x": i, "y": "a"}}) for i in range(1001)]
    records += [HoodieRecord(HoodieKey("b"), {"v": {"x": 1001}})] * 20_000
    found = context.to_data(parallelize(records, 1)).collect()
    assert found is not None
    assert found["v"].to_pylist()[-1] == {"x": 1001, "y": None}
    for late in ({"x": True}, {"x": 1, "z": 1}, {"x": datetime.date(2024, 1, 1)}):
        bad = [*records, HoodieRecord(HoodieKey("c"), {"v": late})]
        with pytest.raises(HoodieSchemaException, match=r"v\.[xz]"):
            context.to_data(parallelize(bad, 1)).collect()


def test_releasing_our_rows_leaves_the_callers_cache_alone(context: HoodieSparkEngineContext) -> None:
    frame = context.spark.range(100).select(sf.col("id"), sf.lit("x").alias("text")).persist()
    try:
        assert frame.count() == 100
        data = context.to_data(frame).select(["id", "text"]).persist()
        assert data.count() == 100
        data.unpersist()
        assert frame.storageLevel.useMemory
        assert is_cached(frame)
        plain = context.to_data(frame)
        plain.unpersist()
        assert is_cached(frame)
    finally:
        frame.unpersist()


def test_our_rows_outlive_the_callers_cache(context: HoodieSparkEngineContext) -> None:
    frame = context.spark.range(10).select(sf.expr("uuid()").alias("id")).persist()
    data = context.to_data(frame).persist()
    ids = collected(data, "id")
    frame.unpersist()
    assert collected(data, "id") == ids
    data.unpersist()


def test_sizes_of_kept_rows_are_known_without_a_job_of_their_own(context: HoodieSparkEngineContext) -> None:
    frame = context.spark.range(0, 1000, 1, 4).select(sf.col("id").cast("string").alias("key"), sf.lit(1.5).alias("x"))
    data = context.to_data(frame).number_rows("number").persist(["key"])
    keys = data.select(["key", "number"])
    spark_context = context.spark.sparkContext
    spark_context.setJobGroup("sizes of kept rows", "")
    try:
        assert keys.collect(max_bytes=1000) is None
        assert not spark_context.statusTracker().getJobIdsForGroup("sizes of kept rows")
        found = keys.collect(max_bytes=100_000)
        assert spark_context.statusTracker().getJobIdsForGroup("sizes of kept rows")
    finally:
        spark_context.setLocalProperty("spark.jobGroup.id", None)
        data.unpersist()
    assert found is not None
    assert sorted(found["key"].to_pylist(), key=int) == [str(number) for number in range(1000)]
    assert keys.collect(max_bytes=found.nbytes * 9 // 10) is None
    assert keys.collect(max_bytes=found.nbytes * 11 // 10) is not None


@pytest.mark.parametrize(("rows", "in_memory"), [(1000, True), (40_000_000, False)])
def test_many_rows_are_kept_on_disk_alone(context: HoodieSparkEngineContext, rows: int, in_memory: bool) -> None:
    """Executors whose memory is full of kept rows had no room left: 40M keys ended in "Java heap space"."""
    data = context.to_data(context.spark.range(0, rows, 1, 2)).persist()
    try:
        level = data._kept.storageLevel  # type: ignore[union-attr]
        assert level.useDisk
        assert level.useMemory is in_memory
    finally:
        data.unpersist()


def test_what_is_persisted_is_released(context: HoodieSparkEngineContext) -> None:
    data = context.to_data(context.spark.range(10)).persist()
    assert data.count() == 10
    assert is_cached(data.frame)
    frame = data.frame
    data.unpersist()
    assert not is_cached(frame)


def is_cached(frame: DataFrame) -> bool:
    plan = frame.select("*")._jdf.queryExecution().withCachedData().toString()
    return "InMemoryRelation" in plan


def collected(data: SparkData, column: str) -> list[Any]:
    table = data.collect()
    assert table is not None
    return sorted(table[column].to_pylist())


def test_steps_without_a_shuffle_between_run_in_one_python_process(context: HoodieSparkEngineContext) -> None:
    data = context.to_data(context.spark.range(10))
    data = data.map_batches(unchanged, data.schema).map_batches(unchanged, data.schema)
    tasks = data.map_partitions_with_index(described_task, TASKS)
    plan = tasks.frame._jdf.queryExecution().executedPlan().toString()
    assert plan.count("MapInArrow") == 1


def test_small_batches_are_gathered(context: HoodieSparkEngineContext, setting: Any) -> None:
    setting("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    data = context.to_data(context.spark.range(0, 1000, 1, 1))
    sizes = data.map_partitions_with_index(batch_sizes, pa.schema([("rows", pa.int64())]))
    assert collected(sizes, "rows") == [1000]


def batch_sizes(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_adaptive_execution_neither_merges_nor_splits_routed_partitions(
    context: HoodieSparkEngineContext, setting: Any, adaptive: str
) -> None:
    setting("spark.sql.adaptive.enabled", adaptive)
    setting("spark.sql.adaptive.advisoryPartitionSizeInBytes", "1k")
    setting("spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes", "1k")
    frame = context.spark.range(20_000).select(
        sf.when(sf.col("id") < 19_000, 3).otherwise(sf.col("id") % 40).cast("int").alias("bucket"),
        sf.expr("uuid()").alias("text"),
    )
    data = context.to_data(frame).persist()
    try:
        tasks = data.route("bucket", 40).map_partitions_with_index(described_task, TASKS).collect()
    finally:
        data.unpersist()
    assert tasks is not None
    assert sorted(tasks["index"].to_pylist()) == list(range(40))
    assert sum(count > 0 for count in tasks["rows"].to_pylist()) == 40


def test_hash_inputs_land_where_spark_puts_them(spark: SparkSession) -> None:
    inputs = numbers_to_hash_inputs(64)
    frame = spark.createDataFrame([(int(value),) for value in inputs], "value int")
    rows = frame.select("value", sf.hash("value").alias("hash")).repartition(64, "value")
    found = {
        row.value: (row.hash, row.part) for row in rows.select("*", sf.spark_partition_id().alias("part")).collect()
    }
    hashes = hash_ints(inputs)
    assert found == {int(value): (int(hashes[i]), i) for i, value in enumerate(inputs)}


def test_errors_of_users_are_not_tried_again(context: HoodieSparkEngineContext, tmp_path: Path) -> None:
    with pytest.raises(HoodieKeyException, match="no key"):
        context.run_tasks([str(tmp_path)], Failing(HoodieKeyException("no key")))
    assert len(os.listdir(tmp_path)) == 1


def test_an_error_that_cannot_be_pickled_arrives_as_its_text(context: HoodieSparkEngineContext, tmp_path: Path) -> None:
    with pytest.raises(HoodieException, match="odd error"):
        context.run_tasks([str(tmp_path)], raise_unpicklable)


def test_failures_of_storage_reach_the_driver_as_themselves(context: HoodieSparkEngineContext, tmp_path: Path) -> None:
    with pytest.raises(HoodieIOException, match="cannot read /x/y"):
        context.run_tasks([str(tmp_path)], Failing(HoodieIOException("cannot read /x/y")))


@attrs.frozen
class Failing:
    """A task that leaves a trace and fails."""

    error: Exception

    def __call__(self, task: TaskIdentity, folder: str) -> None:
        (Path(folder) / task.write_token).touch()
        raise self.error


def raise_unpicklable(task: TaskIdentity, folder: str) -> None:
    error = RuntimeError("odd error")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    raise error


def test_a_description_is_shown_and_taken_back(context: HoodieSparkEngineContext) -> None:
    spark_context = context.spark.sparkContext
    spark_context.setJobDescription("the user's own")
    try:
        with context.job("tag location"):
            assert spark_context.getLocalProperty("spark.job.description") == "tag location"
        assert spark_context.getLocalProperty("spark.job.description") == "the user's own"
    finally:
        spark_context.setLocalProperty("spark.job.description", None)
    with context.job("tag location"):
        pass
    assert spark_context.getLocalProperty("spark.job.description") is None


def test_the_sessions_configuration_is_left_as_it_is(context: HoodieSparkEngineContext) -> None:
    before = sorted(row.key + row.value for row in context.spark.sql("SET").collect())
    data = context.to_data(context.spark.range(100).select(sf.col("id").cast("int").alias("n"), sf.lit("a").alias("k")))
    data.persist().combine_by_key(["k"], first_row).route("n", 3).collect()
    context.run_tasks([1], identity)
    data.unpersist()
    assert sorted(row.key + row.value for row in context.spark.sql("SET").collect()) == before


def first_row(table: pa.Table) -> pa.Table:
    return table.slice(0, 1)


def identity(task: TaskIdentity, item: int) -> int:
    return item


def test_keys_that_occur_once_are_not_sorted_with_those_that_repeat(context: HoodieSparkEngineContext) -> None:
    frame = context.spark.range(50_000).select(
        sf.concat(sf.lit("k"), sf.when(sf.col("id") < 10, 7).otherwise(sf.col("id"))).alias("k")
    )
    combined = context.to_data(frame).combine_by_key(["k"], first_row)
    assert combined.count() == 49_991
    plan = combined.frame._jdf.queryExecution().executedPlan().toString()
    assert "SortMergeJoin" not in plan


def test_workers_keep_what_they_know_of_sparks_own_archives(context: HoodieSparkEngineContext) -> None:
    context.run_tasks(list(range(4)), loud_importers)
    assert context.run_tasks(list(range(4)), loud_importers) == [[]] * 4


def loud_importers(task: TaskIdentity, item: int) -> list[str]:
    """Spark's archives whose directory is read again before each task."""
    return [
        path
        for path, importer in sys.path_importer_cache.items()
        if isinstance(importer, zipimport.zipimporter) and "invalidate_caches" not in vars(importer)
    ]


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="other systems acknowledge packets in other ways")
def test_workers_acknowledge_the_next_task_before_they_answer(context: HoodieSparkEngineContext) -> None:
    context.run_tasks(list(range(8)), identity)
    later = context.spark.range(0, 8, 1, 8).mapInArrow(acknowledges_at_once, "at_once int")
    assert [row.at_once for row in later.collect()] == [1] * 8


def acknowledges_at_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Whether this worker acknowledges packets of the JVM at once, 1 or 0: a task that does not know hoodie."""
    frame = sys._getframe()
    while frame.f_code.co_name != "worker":
        assert frame.f_back is not None
        frame = frame.f_back
    at_once = frame.f_locals["sock"].getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"at_once": pa.array([at_once], pa.int32())})


def test_archives_that_users_add_are_seen_by_running_workers(context: HoodieSparkEngineContext, tmp_path: Path) -> None:
    context.run_tasks([1, 2], identity)
    for name in ("added_first", "added_second"):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            archive.writestr(f"{name}.py", "VALUE = 42")
        context.spark.sparkContext.addPyFile(str(tmp_path / f"{name}.zip"))
        assert context.run_tasks([name], imported_value) == [42]


def imported_value(task: TaskIdentity, name: str) -> int:
    value: int = importlib.import_module(name).VALUE
    return value


@attrs.frozen
class _Drawn:
    """Keys that differ each time, or come in another order only."""

    anew: bool

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self.anew:
                keys = [str(uuid.uuid4()) for _ in range(batch.num_rows)]
            else:
                keys = [f"k{task.partition_index}-{number}" for number in range(batch.num_rows)]
                random.shuffle(keys)
            values = [random.random() for _ in keys]
            yield pa.RecordBatch.from_pydict({"key": keys, "value": values})


def lose(data: SparkData) -> None:
    """What Spark keeps is gone, as with its executors, and is to be computed again."""
    assert data._kept is not None
    data._kept.unpersist(blocking=True)


@pytest.mark.parametrize("numbered", [False, True])
def test_kept_rows_that_are_computed_again_must_have_the_same_fixed_columns(
    context: HoodieSparkEngineContext, numbered: bool
) -> None:
    schema = pa.schema([("key", pa.string()), ("value", pa.float64())])
    for anew in (False, True):
        drawn = context.to_data(context.spark.range(0, 40, 1, 3)).map_partitions_with_index(_Drawn(anew), schema)
        if numbered:
            drawn = drawn.number_rows("number")
        data = drawn.persist(["key", "absent"])
        assert isinstance(data, SparkData)
        try:
            first = sorted(data.select(["key"]).collect()["key"].to_pylist())
            later = data.map_batches(unchanged, data.schema)
            assert sorted(later.collect()["key"].to_pylist()) == first
            assert later.schema.names == drawn.schema.names
            lose(data)
            if anew:
                with pytest.raises(HoodieWriteException, match="not deterministic"):
                    later.collect()
            else:
                assert sorted(later.select(["key"]).collect()["key"].to_pylist()) == first
        finally:
            data.unpersist()


def test_kept_data_without_rows_may_have_fixed_columns(context: HoodieSparkEngineContext) -> None:
    data = context.to_data(context.spark.range(0)).number_rows("number").persist(["id"])
    assert data.collect().num_rows == 0
    data.unpersist()
