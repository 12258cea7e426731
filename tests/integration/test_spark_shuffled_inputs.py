"""Writes of inputs that Spark shuffles for: their shuffles are done once, and their last stage is read twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as sf

import hoodie.spark
from hoodie import SparkRDDWriteClient
from hoodie.engine.data import Rereading
from hoodie.exception import HoodieException
from hoodie.spark.spark_data import SparkData
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
from hoodie.spark.spark_plans import ShuffledQuery
from tests.support.table_builder import init_table, local_client, read_trips, rows, write_config
from tests.support.table_invariants import check_table

pytestmark = pytest.mark.spark

ROWS = tuple((f"k{number:02}", "xy"[number % 2], 2, float(number)) for number in range(40))
NEVER_BROADCAST = "spark.sql.autoBroadcastJoinThreshold"


@pytest.fixture(autouse=True)
def sorts_joins(spark: SparkSession) -> Any:
    """Joins shuffle both sides, as those of large tables do."""
    before = spark.conf.get(NEVER_BROADCAST)
    spark.conf.set(NEVER_BROADCAST, "-1")
    yield
    spark.conf.set(NEVER_BROADCAST, before)


@pytest.fixture(params=["keys at hand", "keys in tasks"])
def in_tasks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the keys are too many for the driver."""
    if request.param == "keys in tasks":
        monkeypatch.setattr("hoodie.table.action.commit.incoming_keys.KEY_BYTES", -1)
        return True
    return False


def files(folder: Path, *entries: tuple[Any, ...]) -> Path:
    """A folder with a Parquet file of rows of a trips table."""
    folder.mkdir(exist_ok=True)
    pq.write_table(rows(*entries), folder / "0.parquet")
    return folder


def joined(frame: DataFrame) -> DataFrame:
    """The same rows, joined with their keys."""
    return frame.join(frame.select("id"), "id").select(frame.columns)


def after_shuffles(frame: DataFrame) -> tuple[DataFrame, Rereading]:
    """A frame's rows by its last stage, and whether they are read twice."""
    query = ShuffledQuery.of(frame)
    assert query is not None
    return query.run()


def client(spark: SparkSession, path: str, **properties: Any) -> SparkRDDWriteClient:
    return SparkRDDWriteClient(spark, write_config(path, **properties))


class TestPlans:
    @pytest.fixture
    def frame(self, spark: SparkSession, tmp_path: Path) -> DataFrame:
        return spark.read.parquet(str(files(tmp_path / "in", *ROWS)))

    def test_last_stages_that_cost_little_are_read_twice(self, frame: DataFrame) -> None:
        newest = Window.partitionBy("id").orderBy(sf.desc("ts"))
        cheap = {
            "join": joined(frame),
            "left join": frame.join(frame.select("id"), "id", "left"),
            "broadcast": frame.join(sf.broadcast(frame.select("id")), "id"),
            "distinct": frame.distinct(),
            "sum": frame.groupBy("id", "region", "ts").agg(sf.sum("fare").alias("fare")),
            "newest": frame.withColumn("n", sf.row_number().over(newest)).where("n = 1").drop("n"),
            "sorted": frame.orderBy("fare"),
            "moved": frame.repartition(3),
            "union": frame.distinct().union(frame),
            "today": joined(frame).where("current_date() > date'2020-01-01'"),
        }
        found = {name: after_shuffles(one) for name, one in cheap.items()}
        assert {name: rereading for name, (_, rereading) in found.items()} == dict.fromkeys(cheap, Rereading.CHEAP)
        for name, one in cheap.items():
            assert found[name][0].schema == one.schema, name
            assert sorted(found[name][0].collect()) == sorted(one.collect()), name

    def test_other_last_stages_are_kept(self, spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
        shout = sf.udf(lambda text: text.upper(), "string")
        frame.createOrReplaceTempView("shuffled")
        others = {
            "udf": joined(frame).withColumn("region", shout("region")),
            "uuid": joined(frame).withColumn("id", sf.expr("uuid()")),
            "limit": joined(frame).limit(3),
            "exploded": joined(frame).withColumn("n", sf.explode(sf.sequence(sf.lit(1), sf.lit(3)))),
            "python": joined(frame).mapInArrow(lambda batches: batches, frame.schema),
            "subquery": joined(frame).where(sf.expr("ts = (select max(ts) from shuffled)")),
        }
        spark.read.parquet(str(tmp_path / "in")).write.json(str(tmp_path / "json"))
        texts = spark.read.json(str(tmp_path / "json"))
        others["json"] = texts.join(sf.broadcast(frame.select("id")), "id")
        assert {name: after_shuffles(one)[1] for name, one in others.items()} == dict.fromkeys(
            others, Rereading.POSSIBLE
        )

    def test_frames_without_a_shuffle_are_left_as_they_are(self, spark: SparkSession, frame: DataFrame) -> None:
        assert ShuffledQuery.of(frame) is None
        assert ShuffledQuery.of(spark.createDataFrame([("a",)], "id string")) is None
        assert not HoodieSparkEngineContext(spark).to_data(frame).has_shuffles

    def test_a_platform_that_guards_its_jvm_keeps_the_input(
        self, frame: DataFrame, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(frame: Any) -> Any:
            raise Py4JError("method queryExecution() is not on the list")

        monkeypatch.setattr("hoodie.spark.spark_plans._plan", refused)
        assert ShuffledQuery.of(joined(frame)) is None

    def test_each_query_of_a_frame_runs_its_shuffles(self, frame: DataFrame, tmp_path: Path) -> None:
        moved = frame.repartition(3)
        assert after_shuffles(moved)[0].count() == 40
        files(tmp_path / "in", *ROWS[:7])
        assert after_shuffles(moved)[0].count() == 7

    def test_small_partitions_are_joined(self, spark: SparkSession, frame: DataFrame) -> None:
        before = spark.conf.get("spark.sql.shuffle.partitions")
        spark.conf.set("spark.sql.shuffle.partitions", "50")
        try:
            data = HoodieSparkEngineContext(spark).to_data(joined(frame))
            assert data.has_shuffles
            assert data.shuffled().num_partitions < 10
        finally:
            spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.metadata_table
@pytest.mark.parametrize(
    "index",
    [{"index_type": "SIMPLE"}, {"index_type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}],
    ids=["SIMPLE", "BUCKET"],
)
def test_joined_rows_are_written_and_not_kept(
    spark: SparkSession, tmp_path: Path, kept: list[SparkData], in_tasks: bool, index: dict[str, Any]
) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, **index) as writer:
        writer.insert(rows(*((*row[:2], 1, -1.0) for row in ROWS[:20])))
    frame = joined(spark.read.parquet(str(files(tmp_path / "in", *ROWS))))
    with client(spark, path, **index) as writer:
        result = writer.upsert(frame)
        assert (result.inserted_count, result.updated_count) == (20, 20)
        assert read_trips(path) == sorted(ROWS)
        new = tuple((f"n{number}", "x", 1, 1.0) for number in range(5))
        assert writer.insert(joined(spark.read.parquet(str(files(tmp_path / "new", *new))))).inserted_count == 5
        assert read_trips(path) == sorted((*ROWS, *new))
        assert writer.delete(frame.where("fare < 30").select("id", "region")).deleted_count == 30
    assert not kept
    assert read_trips(path) == sorted((*ROWS[30:], *new))
    check_table(path)


def test_repeated_keys_of_a_join_are_combined(
    spark: SparkSession, tmp_path: Path, kept: list[SparkData], in_tasks: bool
) -> None:
    path = init_table(tmp_path / "t")
    older = tuple((key, region, 1, -5.0) for key, region, _, _ in ROWS)
    frame = spark.read.parquet(str(files(tmp_path / "in", *ROWS)), str(files(tmp_path / "older", *older)))
    with client(spark, path) as writer:
        result = writer.upsert(joined(frame).dropDuplicates(["id", "ts"]))
    assert (result.inserted_count, result.combined_count) == (40, 40)
    assert read_trips(path) == sorted(ROWS)
    check_table(path)


def test_a_frame_that_is_written_again_reads_what_its_sources_have_by_then(
    spark: SparkSession, tmp_path: Path, kept: list[SparkData]
) -> None:
    path = init_table(tmp_path / "t")
    frame = joined(spark.read.parquet(str(files(tmp_path / "in", *ROWS))))
    with client(spark, path) as writer:
        writer.upsert(frame)
        files(tmp_path / "in", *ROWS[:10], ("new", "x", 2, 2.0))
        result = writer.upsert(frame)
    assert (result.inserted_count, result.updated_count) == (1, 10)
    assert read_trips(path) == sorted((*ROWS, ("new", "x", 2, 2.0)))


def test_an_error_of_the_users_query_is_told_before_anything_is_written(spark: SparkSession, tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    frame = spark.read.parquet(str(files(tmp_path / "in", *ROWS)))
    wrong = joined(frame.where(sf.expr("if(fare > 30, raise_error('no such fare'), true)")))
    with client(spark, path) as writer:
        with pytest.raises(HoodieException, match="no such fare"):
            writer.upsert(wrong)
        writer.upsert(joined(frame))
    assert read_trips(path) == sorted(ROWS)


@pytest.mark.parametrize("way", ["moved", "joined", "broadcast", "distinct"])
def test_tasks_of_shuffles_see_the_sessions_configuration(spark: SparkSession, tmp_path: Path, way: str) -> None:
    """Spark's tasks read this setting; its default gives null."""
    spark.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    try:
        json = """'{"a": "2020-1-1 0:0", "b": ' || ts || '}'"""
        read = f"from_json({json}, 'a timestamp', map('timestampFormat', 'yyyy-MM-dd HH:mm')).a"
        source = spark.read.parquet(str(files(tmp_path / "in", *ROWS)))
        frame = source.withColumn("region", sf.expr(f"coalesce(substr(cast({read} as string), 1, 10), 'none')"))
        shuffled = {
            "moved": frame.repartition(3),
            "joined": joined(frame),
            "broadcast": source.select("id").join(sf.broadcast(frame), "id"),
            "distinct": frame.distinct(),
        }[way]
        path = init_table(tmp_path / "t")
        with client(spark, path) as writer:
            writer.upsert(shuffled)
        assert {row[1] for row in read_trips(path)} == {"2020-01-01"}
    finally:
        spark.conf.unset("spark.sql.legacy.timeParserPolicy")


def test_rows_that_the_caller_observes_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    path, seen, joined_rows = init_table(tmp_path / "t"), Observation("seen"), Observation("joined rows")
    frame = spark.read.parquet(str(files(tmp_path / "in", *ROWS)))
    observed = joined(frame.observe(seen, sf.count(sf.lit(1)).alias("rows")))
    observed = observed.observe(joined_rows, sf.sum("ts").alias("sum")).selectExpr("*", "fare + 1 as more")
    # Spark cuts the text of a plan to this length.
    spark.conf.set("spark.sql.maxPlanStringLength", "40")
    try:
        with client(spark, path) as writer:
            writer.bulk_insert(observed)
    finally:
        spark.conf.unset("spark.sql.maxPlanStringLength")
    assert joined_rows.get == {"sum": 80}
    # Both sides of the join have them.
    assert seen.get in ({"rows": 40}, {"rows": 80})


@pytest.mark.parametrize("mode", ["GLOBAL_SORT", "PARTITION_PATH_REPARTITION", "PARTITION_PATH_REPARTITION_AND_SORT"])
def test_a_join_without_rows_is_bulk_inserted(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    path = init_table(tmp_path / "t")
    frame = spark.read.parquet(str(files(tmp_path / "in", *ROWS)))
    with client(spark, path, **{"hoodie.bulkinsert.sort.mode": mode}) as writer:
        assert writer.bulk_insert(joined(frame.where("fare < 0")).orderBy("id")).is_committed
        writer.upsert(frame)
    assert read_trips(path) == sorted(ROWS)


def test_a_merge_may_name_columns_of_its_joined_source(spark: SparkSession, tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as writer:
        writer.insert(rows(*ROWS[:20]))
    source = joined(spark.read.parquet(str(files(tmp_path / "in", *ROWS))))
    merge = hoodie.spark.merge_into(path, source, ["id", "region"])
    merge = merge.whenMatched(source["fare"] > 9).update({"fare": source["fare"] + 1, "ts": source["ts"] + 1})
    merge.whenNotMatched(source["fare"] < 30).insertAll().merge()
    changed = [(key, region, 3, fare + 1) for key, region, _, fare in ROWS[10:20]]
    assert read_trips(path) == sorted([*ROWS[:10], *changed, *ROWS[20:30]])


def test_columns_of_odd_names_and_types_stay_what_they_are(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": ["a", "b"], "region": ["x", "y"], "ts": [1, 2], "fare": [1.0, 2.0], "a.b `c`": ["d", None],
            "nested": [{"m": [("k", 1)], "l": [1, None]}, None],
        },
        schema=pa.schema(
            [("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64()),
             ("a.b `c`", pa.string()),
             ("nested", pa.struct([("m", pa.map_(pa.string(), pa.int32())), ("l", pa.list_(pa.int32()))]))]
        ),
    )  # fmt: skip
    pq.write_table(table, tmp_path / "0.parquet")
    frame = spark.read.parquet(str(tmp_path / "0.parquet"))
    data = HoodieSparkEngineContext(spark).to_data(frame.join(frame.select("id").distinct(), "id"))
    found = data.shuffled().collect()
    assert found is not None
    assert found.schema == data.schema
    assert found.sort_by("id").to_pylist(maps_as_pydicts="strict") == table.to_pylist(maps_as_pydicts="strict")
