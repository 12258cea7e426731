"""Few rows that the driver reads: the same frame as that of Spark's scan."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

import hoodie
import hoodie.spark
from hoodie import HoodieKey
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.exception import HoodieConfigException, HoodieMissingFileException
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.spark import driver_rows
from tests.support.change_data import with_change_data
from tests.support.pairs import each_pair
from tests.support.table_builder import local_client
from tests.support.timeline_files import begin_after

pytestmark = pytest.mark.spark

LIMIT = "hoodie.spark.read.driver.max.bytes"
UTC = datetime.UTC
TIMES = [
    datetime.datetime(1500, 1, 1, 3, 4, 5, 6, UTC), datetime.datetime(1969, 12, 31, 23, 59, 59, 1, UTC),
    datetime.datetime(2024, 3, 31, 1, 30, tzinfo=UTC),
]  # fmt: skip


def stored_rows(count: int, step: int) -> pa.Table:
    numbers = np.arange(count)

    def some(values: list[Any], data_type: pa.DataType) -> pa.Array:
        return pa.array([values[number % len(values)] for number in numbers], data_type)

    nan = float("nan")
    inner = pa.struct([("f", pa.float64()), ("at", pa.timestamp("us", "UTC")), ("bytes", pa.binary())])
    return pa.table(
        {
            "id": [f"key-{number:05}" for number in numbers],
            "part": some(["x", "y", "a b"], pa.string()),
            "step": pa.array(np.full(count, step), pa.int32()),
            "text": some(["é", "", None, "longer text"], pa.string()),
            "bytes": some([b"", b"\x00\xff", None], pa.binary()),
            "flag": some([True, None, False], pa.bool_()),
            "long": some([2**63 - 1, -(2**63), None], pa.int64()),
            "float": some([0.1, nan, -0.0, None], pa.float32()),
            "double": some([0.1, nan, -0.0, None], pa.float64()),
            "price": some([decimal.Decimal("-1.25"), None, decimal.Decimal("99999999.99")], pa.decimal128(10, 2)),
            "large": some([decimal.Decimal(10**37), None], pa.decimal128(38, 0)),
            "day": some([datetime.date(1, 1, 1), None, datetime.date(2024, 2, 29)], pa.date32()),
            "at": some([*TIMES, None], pa.timestamp("us", "UTC")),
            "local": some([*(time.replace(tzinfo=None) for time in TIMES), None], pa.timestamp("us")),
            "list": some([[1, None], [], None], pa.list_(pa.int32())),
            "times": some([[TIMES[1], None], None], pa.list_(pa.timestamp("us", "UTC"))),
            "map": some([[("k", 1.5), ("n", None)], [], None], pa.map_(pa.string(), pa.float64())),
            "struct": some([{"f": nan, "at": TIMES[0], "bytes": b"b"}, {"f": None, "at": None}, None], inner),
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A table of all types, and the begin of what its last commits changed: a few rows."""
    path = str(tmp_path_factory.mktemp("driver") / "t")
    hoodie.write_table(stored_rows(6000, 1), path, record_key_fields="id", partition_fields="part")
    with local_client(path) as client:
        first = client.upsert(stored_rows(10, 2)).instant_time
        client.upsert(stored_rows(7, 3))
        client.delete([HoodieKey("key-00000", "x")])
    return path, begin_after(path, first)


@pytest.fixture(params=["UTC", "America/New_York"])
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", str(before))


def is_local(frame: DataFrame) -> bool:
    plan = frame._jdf.queryExecution().optimizedPlan().toString()  # type: ignore[operator]
    return "LocalRelation" in plan and "parquet" not in plan


def shown(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


QUERIES: list[dict[str, Any]] = [
    {"filters": [("id", "=", "key-00005")]},
    {"filters": [("_hoodie_record_key", "in", ["key-00000", "key-00001", "key-05999", "nowhere"]), ("step", ">", 0)]},
    {"filters": [("id", "=", "nowhere")]},
    {"filters": [("id", "in", ["key-00003", "key-00004"])], "columns": ["struct", "id"]},
    {"query_type": "incremental", "begin": "FIRST"},
    {"query_type": "incremental", "begin": "FIRST", "columns": ["at", "map", "_hoodie_commit_time"]},
    {"query_type": "incremental", "begin": "FIRST", "filters": [("step", "=", 77)]},
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_the_driver_gives_the_frame_that_a_scan_gives(
    spark: SparkSession, changed: tuple[str, str], zone: str, query: dict[str, Any]
) -> None:
    path, first = changed
    asked = {name: first if value == "FIRST" else value for name, value in query.items()}
    by_driver = hoodie.spark.read(spark, path, **asked)
    by_scan = hoodie.spark.read(spark, path, {LIMIT: 0}, **asked)
    assert is_local(by_driver)
    assert by_driver.columns == by_scan.columns
    if by_scan.inputFiles():
        assert not is_local(by_scan)
    assert by_driver.schema == by_scan.schema
    assert shown(by_driver) == shown(by_scan)
    assert by_driver.count() == hoodie.read_table(path, **asked).num_rows
    texts = [f"cast({column} as string)" for column in by_scan.columns]
    assert shown(by_driver.selectExpr(*texts)) == shown(by_scan.selectExpr(*texts))


@pytest.mark.parametrize("wanted", ["rows", "rows that Python finds", "no files"])
def test_all_frames_allow_nulls_in_required_columns(spark: SparkSession, tmp_path: Path, wanted: str) -> None:
    required = [
        pa.field("id", pa.string(), False),
        pa.field("list", pa.list_(pa.field("item", pa.int32(), False)), False),
    ]
    table = pa.table([["a", "b"], [[1], []]], schema=pa.schema(required))
    path = str(tmp_path / "t")
    last = hoodie.write_table(table, path, record_key_fields="id").instant_time
    query: dict[str, Any] = {"filters": pc.field("id") == "a"}
    if wanted == "rows that Python finds":
        query = {"filters": (pc.field("id") == "a") & (pc.utf8_length(pc.field("id")) == 1)}
    elif wanted == "no files":
        query = {"query_type": "incremental", "begin": begin_after(path, last)}
    by_driver = hoodie.spark.read(spark, path, **query)
    by_scan = hoodie.spark.read(spark, path, {LIMIT: 0}, **query)
    assert by_driver.schema == by_scan.schema
    assert by_scan.schema["id"].nullable
    assert shown(by_driver) == shown(by_scan)


def test_a_frame_of_the_driver_can_be_queried_further(spark: SparkSession, changed: tuple[str, str]) -> None:
    path, first = changed
    options = {"hoodie.datasource.read.incr.filters": "step = 3,part != 'y'"}
    frame = hoodie.spark.read(spark, path, options, query_type="incremental", begin=first)
    assert is_local(frame)
    assert sorted(row.id for row in frame.select("id").collect()) == [
        "key-00002",
        "key-00003",
        "key-00005",
        "key-00006",
    ]
    assert frame.where("struct.f is null").count() == 2
    assert frame.join(frame.select("id"), "id").groupBy("part").count().count() == 2
    view = hoodie.spark.register(spark, "changed_rows", path, query_type="incremental", begin=first)
    assert spark.sql("select max(step) from changed_rows").first() == (3,)
    assert is_local(view)


def test_large_columns_many_rows_and_queries_without_keys_are_left_to_the_scan(
    spark: SparkSession, changed: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = changed
    key = [("id", "=", "key-00005")]
    assert is_local(hoodie.spark.read(spark, path, filters=key))
    assert not is_local(hoodie.spark.read(spark, path, {LIMIT: 60_000}, filters=key))
    assert is_local(hoodie.spark.read(spark, path, {LIMIT: 60_000}, filters=key, columns="step"))
    assert not is_local(hoodie.spark.read(spark, path))
    assert not is_local(hoodie.spark.read(spark, path, filters=[("step", "=", 3)]))
    # Nearly all rows are of the first commit.
    assert not is_local(hoodie.spark.read(spark, path, query_type="incremental", begin="earliest"))
    assert hoodie.spark.read(spark, path, query_type="incremental", begin="earliest").count() == 5999
    assert hoodie.spark.read(spark, path, columns=[], filters=key).count() == 1
    monkeypatch.setattr(driver_rows, "MOST_ROW_BYTES", 100)
    assert not is_local(hoodie.spark.read(spark, path, filters=key))
    assert [row.step for row in hoodie.spark.read(spark, path, filters=key).collect()] == [3]
    with pytest.raises(HoodieConfigException, match=LIMIT):
        hoodie.spark.read(spark, path, {LIMIT: -1}, filters=key)


def changing_table(path: str, properties: dict[str, str], table_type: str = "COPY_ON_WRITE") -> str:
    """A table of all types, and the begin of a range in which few rows were updated, inserted and deleted."""
    hoodie.HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields=["id"], partition_fields=["part"],
        table_type=HoodieTableType(table_type), properties=properties,
    )  # fmt: skip
    with local_client(path) as client:
        first = client.upsert(stored_rows(300, 1)).instant_time
        client.upsert(stored_rows(310, 2).slice(280))
        client.upsert(stored_rows(7, 3))
        client.delete([HoodieKey("key-00000", "x"), HoodieKey("key-00100", "y")])
    return begin_after(path, first)


CHANGES: dict[str, Any] = {"query_type": "incremental", "query_format": "cdc"}
QUERIES_OF_CHANGES: list[dict[str, Any]] = [
    {},
    {"columns": ["struct", "at"], "filters": [("step", ">=", 3)]},
    {"filters": [("id", "=", "nowhere")]},
]


@each_pair(
    indirect=["zone"],
    zone=["UTC", "America/New_York"],
    mode=["DATA_BEFORE_AFTER", "OP_KEY_ONLY", "none"],
    table_type=["COPY_ON_WRITE", "MERGE_ON_READ"],
)
def test_the_driver_gives_the_changes_that_tasks_give(
    spark: SparkSession, tmp_path: Path, zone: str, mode: str, table_type: str
) -> None:
    path = str(tmp_path / "t")
    begin = changing_table(path, {} if mode == "none" else with_change_data(mode), table_type)
    counts = []
    for form in ("typed", "hudi"):
        for query in QUERIES_OF_CHANGES:
            options: dict[str, Any] = {"hoodie.read.changes.form": form}
            by_driver = hoodie.spark.read(spark, path, options, begin=begin, **CHANGES, **query)
            by_tasks = hoodie.spark.read(spark, path, {**options, LIMIT: 0}, begin=begin, **CHANGES, **query)
            assert is_local(by_driver)
            assert not is_local(by_tasks)
            assert by_driver.schema == by_tasks.schema
            assert shown(by_driver) == shown(by_tasks)
            texts = [f"cast({column} as string)" for column in by_tasks.columns]
            assert shown(by_driver.selectExpr(*texts)) == shown(by_tasks.selectExpr(*texts))
            counts.append(by_driver.count())
    # Where no changes are stored, the update of a row that is deleted later in the range is not seen.
    assert counts == ([38, 6, 0] if mode == "none" else [39, 8, 0]) * 2


def test_many_changes_and_many_files_are_left_to_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, compared = str(tmp_path / "stored"), str(tmp_path / "compared")
    begin, other = changing_table(path, with_change_data()), changing_table(compared, {})

    def is_read_by_driver(path: str, begin: str, limit: int | None = None) -> bool:
        options = {} if limit is None else {LIMIT: limit}
        frame = hoodie.spark.read(spark, path, options, begin=begin, **CHANGES)
        assert frame.count() >= 38
        return is_local(frame)

    sizes = [file.stat().st_size for file in Path(path).rglob("*.cdc")]
    stored = sum(sizes)
    assert is_read_by_driver(path, begin, stored)
    assert not is_read_by_driver(path, begin, stored - 1)
    assert not is_read_by_driver(compared, other, stored)
    limits = {"MOST_FILES": len(sizes) - 1, "MOST_CHANGE_BYTES": stored - 1, "MOST_ROW_BYTES": 1_000}
    for name, most in limits.items():
        with monkeypatch.context() as patched:
            patched.setattr(driver_rows, name, most)
            assert not is_read_by_driver(path, begin), name
    monkeypatch.setattr(driver_rows, "MOST_CHANGE_BYTES", 0)
    assert is_read_by_driver(compared, other)
    monkeypatch.setattr(driver_rows, "MOST_ROW_BYTES", 1_000)
    assert not is_read_by_driver(compared, other)


def test_the_rows_are_those_of_the_call(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(stored_rows(20, 1), path, record_key_fields="id", partition_fields="part")
    key = [("id", "=", "key-00004")]
    frame = hoodie.spark.read(spark, path, filters=key)
    with local_client(path) as client:
        client.upsert(stored_rows(20, 2))
    assert [row.step for row in frame.collect()] == [1]
    for file in Path(path).rglob("*.parquet"):
        file.unlink()
    assert [row.step for row in frame.collect()] == [1]


def test_a_file_that_is_gone_when_the_driver_reads_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(stored_rows(20, 1), path, record_key_fields="id", partition_fields="part")
    stored_bytes = HoodieFileGroupReader.stored_bytes

    def deleting(reader: HoodieFileGroupReader) -> int:
        found = stored_bytes(reader)
        for file in Path(path).rglob("*.parquet"):
            file.unlink(missing_ok=True)  # Several files are looked at side by side.
        return found

    monkeypatch.setattr(HoodieFileGroupReader, "stored_bytes", deleting)
    with pytest.raises(HoodieMissingFileException, match=r"\.parquet is missing"):
        hoodie.spark.read(spark, path, filters=[("id", "=", "key-00004")])
