"""Upserts that read their input twice instead of keeping it, and what happens if the input changes in between."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import hoodie.spark
from hoodie import SparkRDDWriteClient
from hoodie.common.model.record import HoodieKey
from hoodie.common.model.record_columns import BUCKET, ROW_NUMBER
from hoodie.engine.data import Rereading
from hoodie.exception import HoodieDuplicateKeyException, HoodieException, HoodieKeyException
from hoodie.index.index import IndexedTable
from hoodie.index.places_by_hash import LocatedKeys
from hoodie.index.recordindex.record_index import HoodieRecordIndex
from hoodie.keygen.user_key_generator import UserRecordKeyGenerator
from hoodie.spark.spark_data import SparkData
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
from hoodie.spark.spark_expressions import with_bucket_numbers, with_insert_buckets
from hoodie.spark.spark_plans import planned_bytes, rereading_of
from hoodie.table.action.commit import located_in_tasks
from hoodie.table.action.commit.base_commit_action_executor import BaseCommitActionExecutor
from hoodie.table.action.commit.upsert_partitioner import UpsertPartitioner
from tests.support.table_builder import init_table, local_client, read_trips, rows, spark_rows, write_config
from tests.support.table_invariants import check_table

pytestmark = pytest.mark.spark

INDEXES = [
    {"index_type": "SIMPLE"},
    {"index_type": "BLOOM"},
    {"index_type": "GLOBAL_SIMPLE"},
    {"index_type": "BUCKET", "hoodie.bucket.index.num.buckets": 2},
    {"index_type": "RECORD_INDEX", "hoodie.metadata.global.record.level.index.enable": "true"},
]

CHANGED_TABLES = [INDEXES[0], *(pytest.param(index, marks=pytest.mark.slow) for index in INDEXES[1:])]
LOOKED_UP = [
    INDEXES[0],
    *(pytest.param(index, marks=pytest.mark.slow) for index in INDEXES[1:] if index["index_type"] != "BUCKET"),
]
"""The tables of `CHANGED_TABLES` whose keys are looked up."""


def with_newest(before: dict[str, Any], given: Sequence[Any]) -> list[Any]:
    """The rows after an upsert, in order: of each key the one with the largest ordering value."""
    newest = dict(before)
    for row in given:
        if row[0] not in newest or row[2] >= newest[row[0]][2]:
            newest[row[0]] = row
    return sorted(newest.values())


def index_type(index: dict[str, Any]) -> str:
    return str(index["index_type"])


SMALL_FILES = {"hoodie.copyonwrite.insert.split.size": 20, "hoodie.copyonwrite.insert.auto.split": "false"}


@pytest.fixture(autouse=True, params=["own tasks", "shared tasks"])
def shares_tasks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether all buckets of a write are in one task."""
    if request.param == "shared tasks":
        monkeypatch.setattr(HoodieSparkEngineContext, "least_write_tasks", 1)
        return True
    return False


@pytest.fixture(autouse=True, params=["keys at hand", "keys in tasks"])
def in_tasks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the keys are too many for the driver."""
    if request.param == "keys in tasks":
        monkeypatch.setattr("hoodie.table.action.commit.incoming_keys.KEY_BYTES", -1)
        monkeypatch.setattr(HoodieRecordIndex, "_table_by_sample", staticmethod(as_if_all_files_had_keys))
        return True
    return False


def as_if_all_files_had_keys(index: object, keys: pa.Array, table: IndexedTable) -> IndexedTable | None:
    """What a record index has searched where keys of a sample are in nearly all base files."""
    assert table.listing.snapshot is not None
    return HoodieRecordIndex._whole_table(set(table.listing.snapshot.view().list_partitions()), table)


def client(spark: SparkSession, path: str, **properties: Any) -> SparkRDDWriteClient:
    return SparkRDDWriteClient(spark, write_config(path, **properties))


def files(folder: Path, *entries: tuple[Any, ...], parts: int = 2) -> Path:
    """A folder of Parquet files with rows of a trips table."""
    folder.mkdir(exist_ok=True)
    table = rows(*entries)
    for number in range(parts):
        low, high = len(table) * number // parts, len(table) * (number + 1) // parts
        pq.write_table(table.slice(low, high - low), folder / f"{number}.parquet")
    return folder


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ways by which rows came to their buckets."""
    found: list[str] = []
    route_in_engine, route_by = SparkData.route_in_engine, SparkData.route_by

    def noted(self: SparkData, *arguments: Any) -> SparkData | None:
        routed = route_in_engine(self, *arguments)
        found.extend(["jvm"] if routed is not None else [])
        return routed

    def noted_by(self: SparkData, *arguments: Any) -> SparkData:
        found.append("python")
        return route_by(self, *arguments)

    monkeypatch.setattr(SparkData, "route_in_engine", noted)
    monkeypatch.setattr(SparkData, "route_by", noted_by)
    return found


def between_readings(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Call a function once, after the keys of an input were read and before its rows are."""
    assigner = UpsertPartitioner.assigner
    left = [change]

    def changed(self: UpsertPartitioner, drops_unknown: bool = False) -> Any:
        while left:
            left.pop()()
        return assigner(self, drops_unknown)

    monkeypatch.setattr(UpsertPartitioner, "assigner", changed)


class TestPlans:
    def test_scans_of_columnar_files_are_cheap(self, spark: SparkSession, tmp_path: Path) -> None:
        frame = spark.read.parquet(str(files(tmp_path / "in", ("a", "x", 1, 1.0), ("b", "y", 1, 2.0))))
        cheap = [
            frame,
            frame.where("ts > 0 and region like 'x%'"),
            frame.select("id", "region", (sf.col("ts") + 1).cast("long").alias("ts"), sf.upper("region").alias("r")),
            frame.withColumnRenamed("fare", "f").drop("f").alias("a").where("a.ts is not null"),
            frame.union(frame),
            frame.where("ts > 5").withColumn("d", sf.lit(dt.date(2026, 1, 1))),
        ]
        assert [rereading_of(one) for one in cheap] == [Rereading.CHEAP] * len(cheap)
        assert 0 < planned_bytes(frame.select("id")) <= planned_bytes(frame)

    def test_other_frames_are_kept(self, spark: SparkSession, tmp_path: Path) -> None:
        folder = files(tmp_path / "in", ("a", "x", 1, 1.0), ("b", "y", 1, 2.0))
        frame = spark.read.parquet(str(folder))
        frame.createOrReplaceTempView("scanned")
        shout = sf.udf(lambda text: text.upper(), "string")
        spark.udf.register("shout_sql", shout)
        others = {
            "uuid": frame.withColumn("id", sf.expr("uuid()")),
            "rand": frame.where("rand() < 0.5"),
            "row id": frame.withColumn("ts", sf.monotonically_increasing_id()),
            "file name": frame.withColumn("region", sf.input_file_name()),
            "time": frame.withColumn("t", sf.current_timestamp()),
            "date": frame.where("date'2026-01-01' < current_date()"),
            "now": spark.sql("select *, now() as n from scanned"),
            "udf": frame.withColumn("region", shout("region")),
            "sql udf": spark.sql("select id, shout_sql(region) as region, ts from scanned"),
            "subquery": spark.sql("select * from scanned where ts = (select max(ts) from scanned)"),
            "in": spark.sql("select * from scanned where id in (select region from scanned)"),
            "join": frame.join(frame.select("id"), "id"),
            "distinct": frame.distinct(),
            "limit": frame.limit(1),
            "sorted": frame.orderBy("id"),
            "rows": spark.createDataFrame([("a", "x", 1, 1.0)], frame.schema),
            "csv": spark.read.csv(str(folder)),
            "python": frame.mapInArrow(lambda batches: batches, frame.schema),
        }
        assert {name: rereading_of(one) for name, one in others.items()} == dict.fromkeys(others, Rereading.POSSIBLE)

    def test_tables_of_many_columns_are_looked_through(self, spark: SparkSession, tmp_path: Path) -> None:
        pq.write_table(pa.table({f"c{number}": [1] for number in range(1100)}), tmp_path / "0.parquet")
        frame = spark.read.parquet(str(tmp_path / "0.parquet")).withColumnRenamed("c1", "id")
        assert rereading_of(frame) is Rereading.CHEAP
        assert rereading_of(frame.withColumn("c2", sf.current_date())) is Rereading.POSSIBLE

    def test_a_platform_that_guards_its_jvm_keeps_the_input(
        self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(frame: Any) -> Any:
            raise Py4JError("method queryExecution() is not on the list")

        monkeypatch.setattr("hoodie.spark.spark_plans._plan", refused)
        assert rereading_of(spark.range(1)) is Rereading.POSSIBLE

    def test_rows_that_the_caller_keeps_are_cheap(self, spark: SparkSession) -> None:
        frame = spark.range(3).select(sf.expr("uuid()").alias("id")).cache()
        try:
            assert rereading_of(frame) is Rereading.CHEAP
        finally:
            frame.unpersist()
        assert rereading_of(frame) is Rereading.POSSIBLE


@pytest.mark.metadata_table
@pytest.mark.parametrize("index", INDEXES, ids=lambda index: index["index_type"])
def test_an_input_of_files_is_read_twice_and_not_kept(
    spark: SparkSession, tmp_path: Path, kept: list[SparkData], index: dict[str, Any]
) -> None:
    path = init_table(tmp_path / "t")
    model = {f"k{i:03}": (f"k{i:03}", "xy"[i % 2], 5, float(i)) for i in range(100)}
    with local_client(path, **index) as writer:
        writer.insert(rows(*model.values()))
    changes = [(f"k{i:03}", "xy"[i % 2], 4 if i % 3 else 5, -1.0) for i in range(50, 150)]
    frame = spark.read.parquet(str(files(tmp_path / "in", *changes))).where("id <> 'k149'")
    for change in changes[:-1]:
        if change[0] not in model or change[2] >= model[change[0]][2]:
            model[change[0]] = change
    with client(spark, path, **index) as writer:
        result = writer.upsert(frame)
        assert (result.inserted_count, result.updated_count + result.ignored_count) == (49, 50)
        assert not kept
        assert read_trips(path) == sorted(model.values())
        gone = spark.read.parquet(str(tmp_path / "in")).select("id", "region").where("ts < 5")
        writer.delete(gone)
        assert not kept
    deleted = {change[0] for change in changes if change[2] < 5}
    assert read_trips(path) == sorted(row for key, row in model.items() if key not in deleted)
    check_table(path)


def test_keys_are_read_without_the_other_columns(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.read.parquet(str(files(tmp_path / "in", ("a", "x", 1, 1.0), ("b", "y", 1, 2.0))))
    data = HoodieSparkEngineContext(spark).to_data(frame)
    assert data.rereading is Rereading.CHEAP
    narrowed = data.map_batches(Shout(), data.schema).select(["region"])
    assert narrowed._source.columns == ["region"]
    assert sorted(narrowed.collect()["region"].to_pylist()) == ["X", "Y"]
    assert sorted(narrowed.collect(max_bytes=1000)["region"].to_pylist()) == ["X", "Y"]
    assert narrowed.collect(max_bytes=1) is None
    assert data.map_batches(Shout(), data.schema).coalesce(1).num_partitions == 1


def test_a_large_column_of_a_wide_table_is_not_collected(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = pa.array([uuid.uuid4().hex for _ in range(2000)])
    columns = {f"c{number}": pa.nulls(len(ids), pa.int64()) for number in range(400)}
    pq.write_table(pa.table({"id": ids, **columns}), tmp_path / "0.parquet")
    monkeypatch.setattr("hoodie.spark.spark_plans.SMALL_BYTES", 20_000)
    keys = HoodieSparkEngineContext(spark).to_data(spark.read.parquet(str(tmp_path / "0.parquet"))).select(["id"])
    assert planned_bytes(keys.frame) < 20_000
    assert keys.collect(max_bytes=20_000) is None


@pytest.mark.parametrize("partitioned", ["", "partitioned by (p)"], ids=["plain", "partitioned"])
def test_statistics_of_the_catalog_are_not_trusted(spark: SparkSession, tmp_path: Path, partitioned: str) -> None:
    spark.sql(f"create table told (id string, p int) using parquet {partitioned} location '{tmp_path / 'told'}'")
    try:
        spark.sql("insert into told values ('a', 1)")
        spark.sql("analyze table told compute statistics noscan")
        ids = pa.table({"id": [uuid.uuid4().hex for _ in range(2000)]})
        pq.write_table(ids, tmp_path / "told" / ("p=1" if partitioned else "") / "more.parquet")
        spark.sql("refresh table told")
        keys = HoodieSparkEngineContext(spark).to_data(spark.table("told")).select(["id"])
        assert planned_bytes(keys.frame) < 20_000
        assert keys.rereading is Rereading.CHEAP
        assert keys.collect(max_bytes=20_000) is None
    finally:
        spark.sql("drop table told")


def test_rows_that_the_caller_will_keep_are_measured(spark: SparkSession) -> None:
    frame = spark.range(1).select(sf.explode(sf.sequence(sf.lit(1), sf.lit(5000))).alias("id")).cache()
    try:
        data = HoodieSparkEngineContext(spark).to_data(frame)
        assert data.rereading is Rereading.CHEAP
        assert data.collect(max_bytes=5000) is None
    finally:
        frame.unpersist()


def test_keys_are_read_alone_of_columns_that_are_converted(spark: SparkSession, tmp_path: Path) -> None:
    table = rows(("a", "x", 1, 1.0)).append_column("at", pa.array([0], pa.timestamp("us")))
    pq.write_table(table, tmp_path / "0.parquet")
    data = HoodieSparkEngineContext(spark).to_data(spark.read.parquet(str(tmp_path / "0.parquet")))
    columns = data.select(data.schema.names).map_batches(Shout(), data.schema).select(["region"])
    assert columns._source.columns == ["region"]
    assert columns.rereading is Rereading.CHEAP


def test_columns_of_a_function_that_needs_all_are_not_cheap(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.read.parquet(str(files(tmp_path / "in", *[(f"k{i:02}", "x", 1, 1.0) for i in range(20)])))
    data = HoodieSparkEngineContext(spark).to_data(frame)
    columns = data.map_batches(unchanged, data.schema).select(["id"])
    assert columns.rereading is Rereading.POSSIBLE
    # The limit is for the results: whole rows stay in the tasks.
    assert columns.collect(max_bytes=200) is not None


def test_keys_in_structs_are_not_cheap(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"s": [{"id": "a", "all": "the rest"}], "n": [1]}), tmp_path / "0.parquet")
    data = HoodieSparkEngineContext(spark).to_data(spark.read.parquet(str(tmp_path / "0.parquet")))
    prepared = data.map_batches(Shout(), data.schema)
    assert prepared.select(["n"]).rereading is Rereading.CHEAP
    assert prepared.select(["s"]).rereading is Rereading.POSSIBLE


def unchanged(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


class Shout:
    """A narrowable function."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        upper = [
            pa.array([value.upper() for value in column.to_pylist()]) if pa.types.is_string(column.type) else column
            for column in batch.columns
        ]
        return pa.RecordBatch.from_arrays(upper, names=batch.schema.names)

    def narrowed_to(self, columns: Any, source: pa.Schema) -> Any:
        return self, pa.schema([source.field(name) for name in columns]), list(columns)


@pytest.mark.metadata_table
class TestChangesInBetween:
    OLD = (("a", "x", 2, 2.0), ("n", "x", 2, 2.0))

    @pytest.fixture(params=CHANGED_TABLES, ids=index_type)
    def path(self, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any]]:
        path = init_table(tmp_path / "t")
        with local_client(path, **request.param) as writer:
            writer.insert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0)))
        return path, request.param

    @pytest.mark.parametrize(
        "now",
        [
            (("b", "x", 2, 3.0), ("m", "x", 2, 3.0)),
            (("a", "x", 0, 3.0), ("n", "x", 2, 3.0)),
            (("a", "x", 2, 3.0), ("n", "z", 2, 3.0)),
            (("a", "x", 2, 3.0), ("c", "y", 2, 3.0)),
            (("a", "x", 2, 3.0), ("a", "x", 3, 4.0)),
            (("a", "x", 2, 3.0), ("n", "x", 2, 3.0), ("o", "x", 2, 3.0)),
            (("a", "x", 2, 3.0),),
        ],
        ids=["other keys", "other order", "other partition", "known key", "twice", "one more", "one less"],
    )
    def test_files_that_are_replaced_are_read_anew(
        self,
        spark: SparkSession,
        tmp_path: Path,
        kept: list[SparkData],
        monkeypatch: pytest.MonkeyPatch,
        path: tuple[str, dict[str, Any]],
        now: Any,
        in_tasks: bool,
    ) -> None:
        base_path, index = path
        folder = files(tmp_path / "in", *self.OLD, parts=1)
        before = {row[0]: row for row in read_trips(base_path)}
        between_readings(monkeypatch, lambda: files(folder, *now, parts=1))
        with client(spark, base_path, **index) as writer:
            result = writer.upsert(spark.read.parquet(str(folder)))
        # Tasks that write combine rows and compare orders, so that keys alone must be the same.
        are_same = in_tasks and sorted(row[:2] for row in now) == sorted(row[:2] for row in self.OLD)
        assert bool(kept) != are_same
        assert read_trips(base_path) == with_newest(before, now)
        assert result.is_committed
        check_table(base_path)

    @pytest.mark.parametrize("path", LOOKED_UP, indirect=True, ids=index_type)
    @pytest.mark.parametrize("in_tasks", ["keys in tasks"], indirect=True)
    @pytest.mark.parametrize(
        "now",
        [
            (("a", "x", 2, 3.0), ("c", "y", 2, 3.0)),
            (("a", "x", 2, 3.0), ("n", "z", 2, 3.0)),
            (("a", "x", 2, 3.0), ("n", "x", 2, 3.0), ("o", "x", 2, 3.0)),
            (("a", "x", 2, 3.0),),
        ],
        ids=["known key", "other partition", "one more", "one less"],
    )
    def test_files_that_are_replaced_when_hashes_of_keys_are_lost_are_read_anew(
        self,
        spark: SparkSession,
        tmp_path: Path,
        kept: list[SparkData],
        monkeypatch: pytest.MonkeyPatch,
        path: tuple[str, dict[str, Any]],
        now: Any,
    ) -> None:
        """The hashes that are looked up are not those that were counted, and by which files were chosen."""
        base_path, index = path
        folder = files(tmp_path / "in", *self.OLD, parts=1)
        before = {row[0]: row for row in read_trips(base_path)}
        locate = located_in_tasks.locate
        outcomes: list[LocatedKeys] = []

        def locate_others(hashes: SparkData, *arguments: Any) -> LocatedKeys:
            if not outcomes:
                files(folder, *now, parts=1)
                hashes.unpersist()
            outcomes.append(locate(hashes, *arguments))
            return outcomes[-1]

        monkeypatch.setattr(located_in_tasks, "locate", locate_others)
        with client(spark, base_path, **index) as writer:
            writer.upsert(spark.read.parquet(str(folder)))
        # The second time rows are kept.
        assert [found.looked_up.count for found in outcomes] == [len(now)] * 2
        assert kept
        assert read_trips(base_path) == with_newest(before, now)
        check_table(base_path)

    def test_other_values_of_the_same_keys_are_written(
        self,
        spark: SparkSession,
        tmp_path: Path,
        kept: list[SparkData],
        monkeypatch: pytest.MonkeyPatch,
        path: tuple[str, dict[str, Any]],
    ) -> None:
        base_path, index = path
        folder = files(tmp_path / "in", *self.OLD, parts=1)
        between_readings(monkeypatch, lambda: files(folder, ("n", "x", 2, 7.0), ("a", "x", 2, 7.0), parts=1))
        with client(spark, base_path, **index) as writer:
            writer.upsert(spark.read.parquet(str(folder)))
        assert not kept
        assert read_trips(base_path) == [
            ("a", "x", 2, 7.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0), ("n", "x", 2, 7.0)
        ]  # fmt: skip


class TestInserts:
    OLD = (("a", "x", 1, 1.0), ("b", "y", 1, 1.0), ("b", "y", 2, 2.0), ("c", "x", 1, 1.0))

    def test_files_are_read_twice_and_not_kept(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData]
    ) -> None:
        """Repeated keys are inserted as often as they come, also into a file that has them; deletes go nowhere."""
        path = init_table(tmp_path / "t")
        folder = files(tmp_path / "in", *self.OLD)
        deletes = sf.expr("id = 'a'").alias("_hoodie_is_deleted")
        source = spark.read.parquet(str(folder))
        with client(spark, path) as writer:
            first = writer.insert(source)
            again = writer.insert(source.select("*", deletes))
        assert (first.inserted_count, first.unmatched_delete_count) == (4, 0)
        assert (again.inserted_count, again.unmatched_delete_count) == (3, 1)
        assert {status.file_id for status in again.statuses} == {status.file_id for status in first.statuses}
        assert not kept
        assert read_trips(path) == sorted([*self.OLD, *self.OLD[1:]])

    @pytest.mark.parametrize("by_the_jvm", [True, False])
    def test_the_last_row_of_a_key_counts_where_no_duplicates_are_allowed(
        self,
        spark: SparkSession,
        tmp_path: Path,
        kept: list[SparkData],
        monkeypatch: pytest.MonkeyPatch,
        by_the_jvm: bool,
    ) -> None:
        path = init_table(tmp_path / "t")
        folder = files(tmp_path / "in", *[(f"k{i % 10}", "x", 1, float(i)) for i in range(100)], parts=1)
        numbered: list[Any] = []
        route_in_engine = SparkData.route_in_engine

        def watched(self: SparkData, *arguments: Any) -> SparkData | None:
            numbered.append(arguments[3])
            return route_in_engine(self, *arguments) if by_the_jvm else None

        monkeypatch.setattr(SparkData, "route_in_engine", watched)
        with client(spark, path, **{"hoodie.merge.allow.duplicate.on.inserts": "false"}) as writer:
            writer.insert(spark.read.parquet(str(files(tmp_path / "first", ("k0", "x", 1, -1.0), parts=1))))
            writer.insert(spark.read.parquet(str(folder)))
        assert not kept
        assert read_trips(path) == [(f"k{i}", "x", 1, 90.0 + i) for i in range(10)]
        # A shuffle may bring rows in any order.
        assert numbered == [ROW_NUMBER] * 2

    @pytest.mark.parametrize(
        "now",
        [
            (*OLD[:3], ("d", "x", 1, 1.0)),
            (*OLD, ("d", "z", 1, 1.0)),
            (*OLD, OLD[0]),
            OLD[1:],
            (*OLD[1:], ("a", "y", 1, 1.0)),
            (*OLD[1:], OLD[1]),
        ],
        ids=["other key", "new partition", "twice", "one less", "other partition", "another twice"],
    )
    def test_files_that_are_replaced_are_read_anew(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData], monkeypatch: pytest.MonkeyPatch, now: Any
    ) -> None:
        path = init_table(tmp_path / "t")
        folder = files(tmp_path / "in", *self.OLD, parts=1)
        between_readings(monkeypatch, lambda: files(folder, *now, parts=1))
        with client(spark, path) as writer:
            result = writer.insert(spark.read.parquet(str(folder)))
        assert kept
        found = sorted(file.relative_to(path).as_posix() for file in Path(path).rglob("*.parquet"))
        assert found == sorted(status.stat.path for status in result.statuses)
        assert read_trips(path) == sorted(now)

    @pytest.mark.parametrize("partition", ["x", "a/b", "%2F:", None], ids=["plain", "levels", "escaped", "null"])
    def test_rows_cross_to_python_once(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData], ways: list[str], partition: str | None
    ) -> None:
        encoded = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
        path = init_table(tmp_path / "t", hive_style_partitioning=True, properties=encoded)
        old = [(f"k{i:03}", partition if i % 3 else "y", 1, float(i)) for i in range(90)]
        with client(spark, path, **SMALL_FILES) as writer:
            result = writer.insert(spark.read.parquet(str(files(tmp_path / "in", *old))))
        assert (ways, kept, result.inserted_count) == (["jvm"], [], 90)
        assert len(result.statuses) > 2
        assert sorted(row["id"] for row in hoodie.read_table(path).to_pylist()) == [row[0] for row in old]
        check_table(path)

    @pytest.mark.parametrize("wrong", ["other path", "every second row"])
    def test_rows_that_the_jvm_deals_wrongly_are_stored_once(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData], monkeypatch: pytest.MonkeyPatch, wrong: str
    ) -> None:
        other = {"other path": lambda row, to: (to + 1) % 2, "every second row": lambda row, to: (to + row) % 2}[wrong]

        def misled(*arguments: Any) -> Any:
            dealt = with_insert_buckets(*arguments)
            assert dealt is not None
            return dealt.withColumn(BUCKET, other(sf.col("ts"), sf.col(BUCKET)).cast("int"))

        monkeypatch.setattr("hoodie.spark.spark_data.with_insert_buckets", misled)
        path = init_table(tmp_path / "t")
        old = [(f"k{i:03}", "xy"[i % 2], i, 1.0) for i in range(40)]
        with client(spark, path) as writer:
            result = writer.insert(spark.read.parquet(str(files(tmp_path / "in", *old))))
        assert (len(kept), result.inserted_count) == (1, 40)
        assert read_trips(path) == old
        check_table(path)

    def test_keys_that_only_python_makes_are_dealt_by_python(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData], ways: list[str]
    ) -> None:
        path = init_table(tmp_path / "t", record_key_fields=["fare"])
        old = [(f"k{i:03}", "xy"[i % 2], 1, float(i)) for i in range(90)]
        with client(spark, path, **SMALL_FILES) as writer:
            writer.insert(spark.read.parquet(str(files(tmp_path / "in", *old))))
        assert (ways, kept) == (["python"], [])
        assert read_trips(path) == old

    @pytest.mark.parametrize(
        "properties",
        [
            {"index_type": "GLOBAL_SIMPLE", "hoodie.combine.before.insert": "true"},
            {"hoodie.write.input.persist": "ALWAYS"},
        ],
        ids=["combined across partitions", "always"],
    )
    def test_rows_that_are_looked_at_before_they_are_written_are_kept(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData], properties: dict[str, Any]
    ) -> None:
        path = init_table(tmp_path / "t")
        source = spark.read.parquet(str(files(tmp_path / "in", *self.OLD)))
        with client(spark, path, **properties) as writer:
            writer.insert(source)
        assert kept
        assert {row[0] for row in read_trips(path)} == {"a", "b", "c"}


COMBINED = {"hoodie.combine.before.insert": "true"}
IN_BUCKETS = {"index_type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}


class TestCombinedInserts:
    """What is combined by the tasks that write is what is combined of rows that are kept."""

    @pytest.mark.parametrize(
        ("operation", "options"),
        [("insert", {"index_type": "SIMPLE", **SMALL_FILES}), ("insert", IN_BUCKETS), ("bulk_insert", IN_BUCKETS)],
        ids=["insert", "insert, buckets", "bulk insert, buckets"],
    )
    @pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
    def test_of_repeated_keys_the_newest_is_inserted(
        self,
        spark: SparkSession,
        tmp_path: Path,
        kept: list[SparkData],
        table_type: str,
        operation: str,
        options: dict[str, Any],
    ) -> None:
        """Keys repeat within and across files, also with equal ordering values; some are stored already."""
        first = [(f"k{i:02}", "xy"[i % 2], 1, float(i)) for i in range(40)]
        # Some keys have rows in a second partition, where they are other rows.
        again = [(f"k{i % 50:02}", "z" if i > 150 else "xy"[i % 2], i // 70, float(i)) for i in range(20, 160)]
        source = spark.read.parquet(str(files(tmp_path / "again", *again)))
        found = {}
        for way in ("ALWAYS", "AUTO"):
            path = init_table(tmp_path / way, table_type=table_type)
            del kept[:]
            with client(spark, path, **options, **COMBINED, **{"hoodie.write.input.persist": way}) as writer:
                writer.insert(spark.createDataFrame(first, source.schema))
                before = len(kept)
                result = getattr(writer, operation)(source)
            assert len(kept) == before + (way == "ALWAYS"), way
            counts = (result.inserted_count, result.updated_count, result.combined_count)
            found[way] = counts, read_trips(path)
        assert found["AUTO"] == found["ALWAYS"]
        assert found["AUTO"][0][2] == len(again) - len({row[:2] for row in again}) > 0

    @pytest.mark.parametrize("payload", ["PartialUpdateAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload"])
    def test_payloads_that_merge_rows_combine_them(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData], payload: str
    ) -> None:
        given = [(f"k{i % 20:02}", "xy"[i % 2], i // 30, None if i % 3 else float(i)) for i in range(80)]
        source = spark.read.parquet(str(files(tmp_path / "in", *given)))
        found = {}
        for way in ("ALWAYS", "AUTO"):
            path = init_table(tmp_path / way, payload_class=payload)
            del kept[:]
            with client(spark, path, **COMBINED, **{"hoodie.write.input.persist": way}) as writer:
                result = writer.insert(source)
            assert bool(kept) == (way == "ALWAYS")
            found[way] = result.inserted_count, result.combined_count, read_trips(path)
        assert found["AUTO"] == found["ALWAYS"]
        assert found["AUTO"][:2] == (20, 60)

    def test_deletes_among_them_are_combined_too(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData]
    ) -> None:
        path = init_table(tmp_path / "t")
        given = [("a", "x", 1, 1.0), ("a", "x", 2, 2.0), ("b", "x", 2, 1.0), ("b", "x", 1, 2.0), ("c", "y", 1, 1.0)]
        deletes = sf.expr("fare = 2.0").alias("_hoodie_is_deleted")
        source = spark.read.parquet(str(files(tmp_path / "in", *given))).select("*", deletes)
        with client(spark, path, **COMBINED) as writer:
            result = writer.insert(source)
        assert not kept
        assert (result.inserted_count, result.combined_count, result.unmatched_delete_count) == (2, 2, 1)
        assert read_trips(path) == [("b", "x", 2, 1.0), ("c", "y", 1, 1.0)]

    def test_files_that_are_replaced_in_between_are_read_anew(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = init_table(tmp_path / "t")
        folder = files(tmp_path / "in", ("a", "x", 1, 1.0), ("b", "x", 1, 1.0))
        now = [("a", "x", 1, 1.0), ("a", "x", 2, 2.0), ("c", "y", 1, 1.0)]
        between_readings(monkeypatch, lambda: files(folder, *now))
        with client(spark, path, **COMBINED) as writer:
            result = writer.insert(spark.read.parquet(str(folder)))
        assert kept
        assert (result.inserted_count, result.combined_count) == (2, 1)
        assert read_trips(path) == now[1:]


class TestInsertsOfNewKeys:
    """What is inserted of rows whose known keys are dropped is what is inserted of rows that are kept."""

    DROP: ClassVar = {"hoodie.datasource.insert.dup.policy": "drop"}
    STORED = tuple((f"k{i:02}", "xy"[i % 2], 1, float(i)) for i in range(30))
    GIVEN = tuple((f"k{i:02}", "xyz"[i % 2 if i < 50 else 2], 5, -1.0) for i in range(20, 60))

    @pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
    @pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "BUCKET"])
    @pytest.mark.parametrize("repeats", [False, True], ids=["distinct", "repeated"])
    @pytest.mark.parametrize("deletes", ["false", "cast(substr(id, 2) as int) % 9 = 0"], ids=["rows", "and deletes"])
    def test_known_keys_are_dropped(
        self,
        spark: SparkSession,
        tmp_path: Path,
        kept: list[SparkData],
        table_type: str,
        index: str,
        repeats: bool,
        deletes: str,
    ) -> None:
        """Of a new key the newest row stays. Deletes go nowhere, whether their keys are known or not.

        Some known keys are in log files of merge-on-read tables, and one, which was deleted, is no longer known.
        """
        more = [(key, path, ts, 7.0) for ts in (3, 9, 6) for key, path, _, _ in self.GIVEN[::3]] if repeats else []
        given = [*self.GIVEN, *more]
        frame = spark.read.parquet(str(files(tmp_path / "in", *given)))
        source = frame.select("*", sf.expr(deletes).alias("_hoodie_is_deleted"))
        options = {"index_type": index, **(IN_BUCKETS if index == "BUCKET" else SMALL_FILES)}
        found = {}
        for way in ("ALWAYS", "AUTO"):
            path = init_table(tmp_path / way, table_type=table_type)
            del kept[:]
            with client(spark, path, **options, **self.DROP, **{"hoodie.write.input.persist": way}) as writer:
                writer.upsert(spark.createDataFrame(list(self.STORED), frame.schema))
                writer.upsert(spark.createDataFrame([("k21", "y", 2, 2.0)], frame.schema))
                writer.delete(spark.createDataFrame([("k22", "x")], "id string, region string"))
                before = len(kept)
                result = writer.insert(source)
            assert len(kept) == before + (way == "ALWAYS"), way
            counts = (result.kept_count, result.unmatched_delete_count, result.inserted_count)
            found[way] = counts, read_trips(path)
            check_table(path)
        assert found["AUTO"] == found["ALWAYS"]
        stored = {row[:2]: row for row in self.STORED if row[0] != "k22"} | {("k21", "y"): ("k21", "y", 2, 2.0)}
        new: dict[tuple[str, str], tuple[Any, ...]] = {}
        for row in given:
            if row[:2] not in stored and (row[:2] not in new or row[2] >= new[row[:2]][2]):
                new[row[:2]] = row
        wanted = {key: row for key, row in new.items() if deletes == "false" or int(row[0][1:]) % 9}
        known = sum(row[:2] in stored for row in given)
        (*counts, inserted), in_table = found["AUTO"]
        assert (counts, in_table) == (
            [known, len(new) - len(wanted)],
            sorted([*stored.values(), *wanted.values()]),
        )
        # Rows that are appended to log files count as updates.
        assert inserted == len(wanted) or (index == "BUCKET" and table_type == "MERGE_ON_READ")

    @pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
    @pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
    def test_known_keys_are_refused(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData], index: str, operation: str
    ) -> None:
        """Before a file is written, rows that ask for a delete like others."""
        path = init_table(tmp_path / "t")
        options = {"index_type": index, **(IN_BUCKETS if index == "BUCKET" else {})}
        with local_client(path, **options) as writer:
            writer.insert(rows(*self.STORED))
        source = spark.read.parquet(str(files(tmp_path / "in", *self.GIVEN)))
        with client(spark, path, **options, **{"hoodie.datasource.insert.dup.policy": "fail"}) as writer:
            for given in (source, source.withColumn("_hoodie_is_deleted", sf.expr("id < 'k25'"))):
                with pytest.raises(HoodieDuplicateKeyException, match="the keys of 10 of the records.*policy=drop"):
                    getattr(writer, operation)(given)
            assert not list(Path(path).glob("z/*"))
            assert writer.insert(source.where("id >= 'k30'")).inserted_count == 30
        assert not kept
        assert read_trips(path) == sorted([*self.STORED, *self.GIVEN[10:]])
        check_table(path)

    @pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
    @pytest.mark.parametrize(
        "now", [(("k01", "y", 9, 9.0), ("n1", "x", 9, 9.0)), (("n2", "x", 9, 9.0),), (("n1", "x", 9, 9.0),)],
        ids=["another known key", "another new key", "one less"],
    )  # fmt: skip
    def test_files_that_are_replaced_in_between(
        self,
        spark: SparkSession,
        tmp_path: Path,
        kept: list[SparkData],
        monkeypatch: pytest.MonkeyPatch,
        now: Any,
        index: str,
        in_tasks: bool,
    ) -> None:
        path = init_table(tmp_path / "t")
        options = {"index_type": index, **(IN_BUCKETS if index == "BUCKET" else {})}
        with local_client(path, **options) as writer:
            writer.insert(rows(*self.STORED))
        folder = files(tmp_path / "in", ("k02", "x", 9, 9.0), ("n1", "x", 9, 9.0), parts=1)
        between_readings(monkeypatch, lambda: files(folder, *now, parts=1))
        with client(spark, path, **options, **self.DROP) as writer:
            writer.insert(spark.read.parquet(str(folder)))
        is_stored = {row[:2] for row in self.STORED}
        assert read_trips(path) == sorted([*self.STORED, *(row for row in now if row[:2] not in is_stored)])
        # Without tasks that look keys up only the rows to insert must be the same.
        assert bool(kept) == (in_tasks or index == "BUCKET" or now[-1][0] == "n2")
        check_table(path)

    @pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
    @pytest.mark.parametrize("condition", ["false", "true"], ids=["no rows", "deletes alone"])
    def test_nothing_is_inserted_nowhere(
        self, spark: SparkSession, tmp_path: Path, operation: str, condition: str
    ) -> None:
        path = init_table(tmp_path / "t")
        folder = files(tmp_path / "in", ("n", "x", 1, 1.0), ("m", "y", 1, 1.0))
        source = spark.read.parquet(str(folder)).select("*", sf.lit(True).alias("_hoodie_is_deleted")).where(condition)
        with client(spark, path, **self.DROP) as writer:
            writer.insert(spark_rows(spark, ("a", "x", 1, 1.0)))
            result = getattr(writer, operation)(source)
        assert (result.inserted_count, result.unmatched_delete_count) == (0, 2 if condition == "true" else 0)
        assert read_trips(path) == [("a", "x", 1, 1.0)]

    @pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
    @pytest.mark.parametrize("sort_mode", ["NONE", "GLOBAL_SORT", "PARTITION_SORT"])
    @pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE"])
    def test_bulk_inserts_drop_known_keys(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData], table_type: str, sort_mode: str, index: str
    ) -> None:
        path = init_table(tmp_path / "t", table_type=table_type)
        deletes = sf.expr("cast(substr(id, 2) as int) % 9 = 0").alias("_hoodie_is_deleted")
        source = spark.read.parquet(str(files(tmp_path / "in", *self.GIVEN))).select("*", deletes)
        options = {**self.DROP, "index_type": index, "hoodie.bulkinsert.sort.mode": sort_mode}
        with local_client(path, index_type=index) as writer:
            writer.upsert(rows(*self.STORED))
            writer.upsert(rows(("k21", "y", 2, 2.0)))
            writer.delete([HoodieKey("k22", "x")])
        with client(spark, path, **options) as writer:
            result = writer.bulk_insert(source)
        assert not kept
        # One of the known keys was deleted. Of the other 9, and of the 31 that are not stored, 1 and 3 are deletes.
        assert (result.kept_count, result.unmatched_delete_count, result.inserted_count) == (9, 3, 28)
        stored = [row for row in self.STORED if row[0] not in ("k21", "k22")]
        new = [row for row in self.GIVEN if row[0] == "k22" or (row[0] >= "k30" and int(row[0][1:]) % 9)]
        assert read_trips(path) == sorted([*stored, ("k21", "y", 2, 2.0), *new])
        check_table(path)

    def test_bulk_inserts_of_repeated_keys_keep_their_rows(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData]
    ) -> None:
        path = init_table(tmp_path / "t")
        with local_client(path) as writer:
            writer.insert(rows(*self.STORED))
        source = spark.read.parquet(str(files(tmp_path / "in", *self.GIVEN, ("k40", "x", 9, 9.0))))
        with client(spark, path, **self.DROP) as writer:
            writer.bulk_insert(source)
        assert kept
        new = [row for row in self.GIVEN[10:] if row[0] != "k40"]
        assert read_trips(path) == sorted([*self.STORED, *new, ("k40", "x", 9, 9.0)])

    @pytest.mark.parametrize(
        "now", [(("k01", "y", 9, 9.0), ("n1", "x", 9, 9.0)), (("n2", "x", 9, 9.0),), (("n1", "x", 9, 9.0),)],
        ids=["another known key", "another new key", "one less"],
    )  # fmt: skip
    def test_files_of_bulk_inserts_that_are_replaced_in_between(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData], monkeypatch: pytest.MonkeyPatch, now: Any
    ) -> None:
        path = init_table(tmp_path / "t")
        with local_client(path) as writer:
            writer.insert(rows(*self.STORED))
        folder = files(tmp_path / "in", ("k02", "x", 9, 9.0), ("n1", "x", 9, 9.0), parts=1)
        save = BaseCommitActionExecutor._save_workload_profile

        def changed(*given: Any) -> None:
            if not kept:
                files(folder, *now, parts=1)
            save(*given)

        monkeypatch.setattr(BaseCommitActionExecutor, "_save_workload_profile", changed)
        with client(spark, path, **self.DROP) as writer:
            writer.bulk_insert(spark.read.parquet(str(folder)))
        assert kept
        is_stored = {row[:2] for row in self.STORED}
        assert read_trips(path) == sorted([*self.STORED, *(row for row in now if row[:2] not in is_stored)])
        check_table(path)


class TestInsertsIntoBuckets:
    """What is inserted with `BUCKET` is what is inserted from rows that are kept."""

    BUCKETS: ClassVar = {"index_type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}
    DUPLICATES = "hoodie.merge.allow.duplicate.on.inserts"

    @pytest.mark.parametrize("repeated", ["true", "false"], ids=["duplicates", "no duplicates"])
    @pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
    def test_files_are_read_twice_and_not_kept(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData], table_type: str, repeated: str
    ) -> None:
        """Keys come several times, which new files keep, are stored already, or are deleted, which does nothing."""
        first = [(f"k{i:02}", "xyz"[i % 3], i, float(i)) for i in range(40)]
        again = [(f"k{i % 60:02}", "xyzw"[i % 4], 100 + i, -1.0) for i in range(20, 90)]
        inputs = [spark.read.parquet(str(files(tmp_path / "first", *first)))]
        deletes = sf.expr("fare < 0 and ts % 7 = 0").alias("_hoodie_is_deleted")
        inputs.append(spark.read.parquet(str(files(tmp_path / "again", *again))).select("*", deletes))
        found = {}
        for way in ("ALWAYS", "AUTO"):
            path = init_table(tmp_path / way, table_type=table_type)
            options = {**self.BUCKETS, self.DUPLICATES: repeated, "hoodie.write.input.persist": way}
            with client(spark, path, **options) as writer:
                results = [writer.insert(source) for source in inputs]
            assert len(kept) == 2, way
            counts = [(one.inserted_count, one.updated_count, one.unmatched_delete_count) for one in results]
            files_of = [sorted((one.partition_path, one.stat.num_writes) for one in each.statuses) for each in results]
            found[way] = counts, files_of, read_trips(path)
        assert found["AUTO"] == found["ALWAYS"]
        assert found["AUTO"][0][1][2] == 10
        stored = {row[:2] for row in first} | {row[:2] for row in again if row[2] % 7}
        assert {row[:2] for row in found["AUTO"][2]} == stored

    @pytest.mark.parametrize(
        "now",
        [
            (("a", "x", 1, 1.0), ("b", "y", 1, 1.0), ("d", "x", 1, 1.0)),
            (("a", "x", 1, 1.0), ("b", "y", 1, 1.0), ("c", "z", 1, 1.0)),
            (("a", "x", 1, 1.0), ("b", "y", 1, 1.0)),
            (("a", "x", 1, 1.0), ("b", "y", 1, 1.0), ("c", "x", 1, 1.0), ("d", "y", 1, 1.0)),
        ],
        ids=["other key", "new partition", "one less", "one more"],
    )
    @pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
    def test_files_that_are_replaced_are_read_anew(
        self,
        spark: SparkSession,
        tmp_path: Path,
        kept: list[SparkData],
        monkeypatch: pytest.MonkeyPatch,
        table_type: str,
        now: Any,
    ) -> None:
        path = init_table(tmp_path / "t", table_type=table_type)
        folder = files(tmp_path / "in", ("a", "x", 1, 1.0), ("b", "y", 1, 1.0), ("c", "x", 1, 1.0), parts=1)
        between_readings(monkeypatch, lambda: files(folder, *now, parts=1))
        with client(spark, path, **self.BUCKETS) as writer:
            result = writer.insert(spark.read.parquet(str(folder)))
        assert (len(kept), result.inserted_count) == (1, len(now))
        assert read_trips(path) == sorted(now)
        check_table(path)

    def test_rows_cross_to_python_once(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData], ways: list[str], in_tasks: bool
    ) -> None:
        encoded = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
        path = init_table(tmp_path / "t", hive_style_partitioning=True, properties=encoded)
        old = [(f"k{i:03}", f"a,b%2F:{i % 3}/c" if i % 4 else None, 1, float(i)) for i in range(90)]
        source = spark.read.parquet(str(files(tmp_path / "in", *old)))
        with client(spark, path, **self.BUCKETS) as writer:
            inserted, updated = writer.insert(source), writer.upsert(source)
        assert not kept
        assert ways == ["jvm"] * (2 if in_tasks else 1)
        check_table(path)
        assert (inserted.inserted_count, updated.updated_count) == (90, 90)

    @pytest.mark.parametrize("key", ["k:1,2", "x"], ids=["odd key", "no odd key"])
    def test_keys_whose_buckets_only_python_computes_are_sent_by_python(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData], ways: list[str], key: str
    ) -> None:
        path = init_table(tmp_path / "t")
        old = [(f"k{i:03}", "xy"[i % 2], 1, float(i)) for i in range(40)] + [(key, "x", 1, 1.0)]
        options = {**self.BUCKETS, "hoodie.bucket.index.key.rule": "0.15"}
        with client(spark, path, **options) as writer:
            result = writer.insert(spark.read.parquet(str(files(tmp_path / "in", *old))))
        assert (ways, kept, result.inserted_count) == ([{"k:1,2": "python", "x": "jvm"}[key]], [], 41)
        assert read_trips(path) == sorted(old)

    @pytest.mark.parametrize("operation", ["insert", "upsert"])
    def test_rows_that_the_jvm_brings_to_a_wrong_bucket_are_written_once(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
    ) -> None:
        monkeypatch.setattr("hoodie.table.action.commit.incoming_keys.KEY_BYTES", -1)

        def misled(*arguments: Any) -> Any:
            numbered = with_bucket_numbers(*arguments)
            assert numbered is not None
            return numbered.withColumn(
                BUCKET, ((sf.col(BUCKET) + sf.col("id").endswith("7").cast("int")) % 4).cast("int")
            )

        path = init_table(tmp_path / "t")
        old = [(f"k{i:03}", "xy"[i % 2], i, 1.0) for i in range(40)]
        with client(spark, path, **self.BUCKETS) as writer:
            writer.insert(spark.read.parquet(str(files(tmp_path / "old", *old[:30]))))
            monkeypatch.setattr("hoodie.spark.spark_data.with_bucket_numbers", misled)
            given = old[30:] if operation == "insert" else old[20:]
            getattr(writer, operation)(spark.read.parquet(str(files(tmp_path / "in", *given))))
        assert read_trips(path) == old
        check_table(path)

    def test_partitions_that_are_overwritten_get_new_buckets(
        self, spark: SparkSession, tmp_path: Path, kept: list[SparkData]
    ) -> None:
        path = init_table(tmp_path / "t")
        old = [(f"k{i:02}", "xy"[i % 2], 1, 1.0) for i in range(20)]
        new = [(f"k{i:02}", "y", 2, 2.0) for i in range(10)]
        with client(spark, path, **self.BUCKETS) as writer:
            writer.insert(spark.read.parquet(str(files(tmp_path / "old", *old))))
            writer.insert_overwrite(spark.read.parquet(str(files(tmp_path / "new", *new))))
        assert not kept
        assert read_trips(path) == sorted([*(row for row in old if row[1] == "x"), *new])
        check_table(path)


def test_files_of_a_first_try_do_not_stay(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = init_table(tmp_path / "t")
    folder = files(tmp_path / "in", ("a", "x", 1, 1.0), ("b", "y", 1, 1.0), parts=1)
    between_readings(monkeypatch, lambda: files(folder, ("a", "x", 1, 1.0), ("c", "x", 1, 1.0), parts=1))
    with client(spark, path) as writer:
        result = writer.upsert(spark.read.parquet(str(folder)))
    found = sorted(file.relative_to(path).as_posix() for file in Path(path).rglob("*.parquet"))
    assert found == sorted(status.stat.path for status in result.statuses)
    assert read_trips(path) == [("a", "x", 1, 1.0), ("c", "x", 1, 1.0)]


def test_an_input_that_is_never_the_same_is_kept_in_the_end(
    spark: SparkSession, tmp_path: Path, kept: list[SparkData]
) -> None:
    path = init_table(tmp_path / "t")
    source = spark.read.parquet(str(files(tmp_path / "in", *[("a", "x", 1, float(i)) for i in range(20)])))
    with client(spark, path, **{"hoodie.write.input.persist": "NEVER"}) as writer:
        result = writer.upsert(source.withColumn("id", sf.udf(lambda: str(uuid.uuid4()))()))
    assert (result.inserted_count, len(kept)) == (20, 1)
    assert len({row[0] for row in read_trips(path)}) == 20
    check_table(path)


def test_the_option_keeps_every_input(spark: SparkSession, tmp_path: Path, kept: list[SparkData]) -> None:
    path = init_table(tmp_path / "t")
    source = spark.read.parquet(str(files(tmp_path / "in", ("a", "x", 1, 1.0), ("b", "y", 1, 1.0))))
    with client(spark, path, **{"hoodie.write.input.persist": "ALWAYS"}) as writer:
        writer.upsert(source)
    assert len(kept) == 1


def test_keys_that_repeat_are_combined(
    spark: SparkSession, tmp_path: Path, kept: list[SparkData], in_tasks: bool
) -> None:
    path = init_table(tmp_path / "t")
    source = files(tmp_path / "in", ("a", "x", 3, 3.0), ("b", "y", 1, 1.0), ("a", "x", 2, 2.0), ("a", "y", 1, 1.0))
    with client(spark, path) as writer:
        result = writer.upsert(spark.read.parquet(str(source)))
    assert (result.combined_count, len(kept)) == (1, 0 if in_tasks else 1)
    assert read_trips(path) == [("a", "x", 3, 3.0), ("a", "y", 1, 1.0), ("b", "y", 1, 1.0)]


def test_an_input_whose_keys_need_all_columns_is_kept(
    spark: SparkSession, tmp_path: Path, kept: list[SparkData]
) -> None:
    path = init_table(tmp_path / "t", key_generator=OnlyInTasks)
    source = spark.read.parquet(str(files(tmp_path / "in", ("a", "x", 1, 1.0), ("b", "y", 1, 1.0))))
    properties = {"hoodie.datasource.write.keygenerator.class": OnlyInTasks}
    with client(spark, path, **properties) as writer:
        writer.upsert(source)
        writer.delete(source.where("id = 'a'"))
    assert len(kept) == 2
    assert read_trips(path) == [("b", "y", 1, 1.0)]


class OnlyInTasks(UserRecordKeyGenerator):
    """A key generator of the user that runs in Spark's tasks."""

    def record_key(self, record: Mapping[str, Any]) -> str:
        assert TaskContext.get() is not None
        return str(record["id"])

    def partition_path(self, record: Mapping[str, Any]) -> str:
        return str(record["region"])


def test_rows_without_a_key_that_are_gone_when_they_are_to_be_shown(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = files(tmp_path / "in", ("a", "x", 1, 1.0), (None, "x", 1, 1.0), parts=1)
    refuse = BaseCommitActionExecutor._refuse_rows_without_key

    def refuse_later(self: BaseCommitActionExecutor, *arguments: Any) -> None:
        files(folder, ("a", "x", 1, 1.0), ("b", "x", 1, 1.0), parts=1)
        refuse(self, *arguments)

    monkeypatch.setattr(BaseCommitActionExecutor, "_refuse_rows_without_key", refuse_later)
    with (
        client(spark, init_table(tmp_path / "t")) as writer,
        pytest.raises(HoodieKeyException, match="1 of the records to upsert have no usable key"),
    ):
        writer.upsert(spark.read.parquet(str(folder)))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ((None, "x", 1, 1.0), "1 of the records to upsert have no usable key.*'id' is null or empty"),
        (("", "x", 1, 1.0), "'id' is null or empty"),
        (("b", "../x", 1, 1.0), "region"),
        (("b", "x", None, 1.0), "'ts'"),
    ],
)
def test_bad_rows_are_refused_as_when_the_input_is_kept(
    spark: SparkSession, tmp_path: Path, row: Any, expected: str
) -> None:
    path = init_table(tmp_path / "t")
    source = spark.read.parquet(str(files(tmp_path / "in", ("a", "x", 1, 1.0), row)))
    errors = []
    for policy in ("AUTO", "ALWAYS"):
        with (
            client(spark, path, **{"hoodie.write.input.persist": policy}) as writer,
            pytest.raises(HoodieException, match=expected) as error,
        ):
            writer.upsert(source)
        errors.append((type(error.value), str(error.value)))
    assert errors[0] == errors[1]
    assert not list(Path(path).rglob("*.parquet"))


def test_a_value_that_does_not_fit_is_refused_as_when_the_input_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("n", pa.float64())])
    path = init_table(tmp_path / "t")
    with local_client(path) as writer:
        writer.upsert(rows(("a", "x", 1, 1.0), schema=schema))
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(
        pa.table({"id": ["b", "c"], "region": ["x", "x"], "ts": [1, 1], "n": [1, (1 << 53) + 1]}), folder / "0.parquet"
    )
    errors = []
    for policy in ("AUTO", "ALWAYS"):
        with (
            client(spark, path, **{"hoodie.write.input.persist": policy}) as writer,
            pytest.raises(HoodieException, match="9007199254740993") as error,
        ):
            writer.upsert(spark.read.parquet(str(folder)))
        errors.append((type(error.value), str(error.value)))
    assert errors[0] == errors[1]
    assert [row["id"] for row in hoodie.read_table(path).to_pylist()] == ["a"]
    check_table(path)


def test_the_table_itself_is_the_input(spark: SparkSession, tmp_path: Path, kept: list[SparkData]) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as writer:
        writer.upsert(rows(*[(f"k{i}", "xy"[i % 2], 1, 1.0) for i in range(20)]))
    own = hoodie.spark.read(spark, path).where("id < 'k15'").withColumn("fare", sf.col("fare") + 1)
    with client(spark, path) as writer:
        result = writer.upsert(own)
    changed = [f"k{i}" for i in range(20) if f"k{i}" < "k15"]
    assert result.updated_count == len(changed)
    assert [row[0] for row in read_trips(path) if row[3] == 2.0] == sorted(changed)
    check_table(path)


def test_rows_are_kept_where_their_places_are_too_large_to_share(
    spark: SparkSession, tmp_path: Path, kept: list[SparkData], monkeypatch: pytest.MonkeyPatch, in_tasks: bool
) -> None:
    path = init_table(tmp_path / "t")
    stored = [(f"k{i}", "xy"[i % 2], 1, 1.0) for i in range(20)]
    with local_client(path) as writer:
        writer.upsert(rows(*stored))
    changes = [(f"k{i}", "xy"[i % 2], 2, 2.0) for i in range(10, 30)]
    monkeypatch.setattr(HoodieSparkEngineContext, "max_shared_bytes", 1)
    with client(spark, path) as writer:
        result = writer.upsert(spark.read.parquet(str(files(tmp_path / "in", *changes))))
    assert bool(kept) is in_tasks
    assert (result.inserted_count, result.updated_count) == (10, 10)
    assert read_trips(path) == sorted([*stored[:10], *changes])
    check_table(path)


def test_large_inputs_are_read_twice_too(spark: SparkSession, tmp_path: Path, kept: list[SparkData]) -> None:
    path = init_table(tmp_path / "t")
    with client(spark, path) as writer:
        writer.upsert(spark.read.parquet(str(files(tmp_path / "in", ("a", "x", 1, 1.0), ("b", "y", 1, 2.0)))))
    assert not kept
    assert read_trips(path) == [("a", "x", 1, 1.0), ("b", "y", 1, 2.0)]


def test_deletes_by_a_flag_are_seen_in_both_readings(
    spark: SparkSession, tmp_path: Path, kept: list[SparkData]
) -> None:
    path = init_table(tmp_path / "t")
    schema = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
    flagged = schema.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    with local_client(path) as writer:
        writer.upsert(rows(("a", "x", 1, 1.0, False), ("b", "x", 1, 1.0, False), schema=flagged))
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(
        rows(("a", "x", 2, 1.0, True), ("c", "x", 2, 1.0, True), ("d", "z", 2, 1.0, None), schema=flagged),
        folder / "0.parquet",
    )
    with client(spark, path) as writer:
        result = writer.upsert(spark.read.parquet(str(folder)))
    assert not kept
    assert (result.deleted_count, result.inserted_count) == (1, 1)
    assert [row["id"] for row in hoodie.read_table(path).to_pylist()] == ["b", "d"]
