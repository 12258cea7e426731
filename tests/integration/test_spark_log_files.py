"""Slices with log files whose base files Spark scans itself: tasks say which of their rows changed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import hoodie.spark
from hoodie import HoodieKey
from hoodie.exception import HoodieIOException
from hoodie.spark import log_scan, reader
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, read_rows, rows
from tests.unit.client.test_positions_in_log_files import POSITIONS
from tests.unit.query.test_log_files import LargestTime
from tests.unit.query.test_times import random_history

pytestmark = pytest.mark.spark

COLUMNS = ["id", "region", "ts"]
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", "hoodie.compact.inline": "false"}
WRITER = {**SMALL_FILTERS, **NO_SERVICES}
ON_EXECUTORS = {"hoodie.spark.read.driver.max.bytes": "0"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return init_table(tmp_path / "t", table_type="MERGE_ON_READ")


@pytest.fixture
def few_bytes_a_task(spark: SparkSession) -> Iterator[None]:
    """Several tasks of Spark read one file."""
    name = "spark.sql.files.maxPartitionBytes"
    given = spark.conf.get(name)
    spark.conf.set(name, 1 << 15)
    yield
    spark.conf.set(name, given)


def shown(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().toString())


def found(spark: SparkSession, path: str, **arguments: Any) -> list[tuple[Any, ...]]:
    frame = hoodie.spark.read(spark, path, {**ON_EXECUTORS, **arguments.pop("options", {})}, **arguments)
    collected = frame.select(COLUMNS).collect()
    assert frame.count() == len(collected)
    return sorted(map(tuple, collected))


@pytest.mark.parametrize("properties", [{}, POSITIONS], ids=["keys", "positions"])
@pytest.mark.table_version(9)
def test_rows_that_log_records_change_come_from_log_files(
    spark: SparkSession, path: str, properties: dict[str, str]
) -> None:
    keys = [f"k{number:04d}" for number in range(300)]
    with local_client(path, {**WRITER, **properties}) as client:
        client.bulk_insert(rows(*((key, "x", 10) for key in keys)))
        # Both ends of words of 64 rows, and an older row that loses.
        client.upsert(rows(*((keys[number], "x", 20) for number in (0, 63, 64, 127, 299)), (keys[5], "x", 1)))
        client.delete([HoodieKey(keys[number], "x") for number in (65, 128)])
    expected = {key: 10 for key in keys} | {keys[number]: 20 for number in (0, 63, 64, 127, 299)}
    del expected[keys[65]], expected[keys[128]]
    frame = hoodie.spark.read(spark, path)
    assert "BroadcastHashJoin" in shown(frame)
    assert len(frame.inputFiles()) == 1
    assert found(spark, path) == [(key, "x", ts) for key, ts in sorted(expected.items())]
    assert found(spark, path, filters=[("ts", ">", 10)]) == read_rows(path, filters=[("ts", ">", 10)])
    assert frame.where("ts = 20 or id = 'k0066'").count() == 6


def test_a_count_reads_no_column_of_base_files(spark: SparkSession, path: str) -> None:
    with local_client(path, WRITER) as client:
        client.bulk_insert(rows(*((f"k{number}", "x", 10) for number in range(10))))
        client.upsert(rows(("k3", "x", 20)))
    counted = hoodie.spark.read(spark, path).groupBy().count()
    assert "ReadSchema: struct<_tmp_metadata_row_index:bigint>" in shown(counted)
    assert counted.first() == (10,)


@pytest.mark.usefixtures("few_bytes_a_task")
def test_positions_hold_where_spark_splits_files_and_skips_pages(spark: SparkSession, path: str) -> None:
    count = 40_000
    chance = random.Random(3)
    table = pa.table(
        {
            "id": [f"k{number:06d}" for number in range(count)],
            "region": ["x"] * count,
            "ts": pa.array(range(count), pa.int64()),
            "fare": [chance.random() for _ in range(count)],
        }
    )
    # Keys are in the order of ts, so that a filter on it leaves some row groups, and some pages of them.
    writer = {**WRITER, "hoodie.parquet.block.size": str(1 << 18), "hoodie.parquet.page.size": str(1 << 13)}
    changed = sorted(chance.sample(range(count), 500))
    with local_client(path, writer) as client:
        client.bulk_insert(table)
        client.upsert(table.take(changed).set_column(3, "fare", pa.array([2.0] * len(changed))))
        client.delete([HoodieKey(f"k{number:06d}", "x") for number in changed[:100]])
    frame = hoodie.spark.read(spark, path, ON_EXECUTORS)
    assert frame.select("ts").where("fare < 2").rdd.getNumPartitions() > 3
    gone = set(changed[:100])
    for low, high in ((0, count), (12_345, 23_456), (39_000, 39_010)):
        wanted = frame.where(f"ts >= {low} and ts < {high}")
        left = [number for number in range(low, high) if number not in gone]
        assert [row.ts for row in wanted.select("ts").orderBy("ts").collect()] == left
        assert wanted.where("fare = 2").count() == len([n for n in changed[100:] if low <= n < high])


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
@pytest.mark.parametrize("seed", range(3))
def test_random_histories_give_the_rows_of_the_in_process_reader(
    spark: SparkSession, path: str, table_version: int, seed: int
) -> None:
    history = random_history(path, seed, 7, **WRITER, **{"hoodie.parquet.small.file.limit": "0"})
    times = [end for _, end, _ in history]
    assert found(spark, path) == read_rows(path) == sorted(row for row, _ in history[-1][2].values())
    middle = history[len(history) // 2][0]
    assert found(spark, path, as_of=middle) == read_rows(path, as_of=middle)
    for begin in ("earliest", times[1], times[-2]):
        arguments = {"query_type": "incremental", "begin": begin}
        assert found(spark, path, **arguments) == read_rows(path, **arguments)


def test_slices_above_the_limit_are_merged_as_a_whole(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_client(path, WRITER) as client:
        client.bulk_insert(rows(*((f"k{number}", "xyz"[number % 3], 10) for number in range(30))))
        client.upsert(rows(*((f"k{number}", "xyz"[number % 3], 20) for number in range(3))))
    sizes = [base_file.size_bytes for base_file in hoodie.plan_read(path).base_files]
    assert len(hoodie.spark.read(spark, path).inputFiles()) == 3
    # The session has two cores.
    for of_core, of_all, scanned in (
        ((sizes[0] + sizes[1] + 1) // 2, 1 << 30, 2),
        (sizes[0] - 1, sizes[0], 1),
        (0, 1 << 30, 0),
    ):
        monkeypatch.setattr(log_scan, "MOST_BYTES_OF_CORE", of_core)
        monkeypatch.setattr(log_scan, "MOST_BYTES", of_all)
        assert len(hoodie.spark.read(spark, path).inputFiles()) == scanned
        assert found(spark, path) == read_rows(path)


def test_slices_are_merged_as_a_whole_where_spark_has_no_connector(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_client(path, WRITER) as client:
        client.bulk_insert(rows(("a", "x", 1), ("b", "x", 1)))
        client.upsert(rows(("a", "x", 2)))

    def refuse(*_: Any, **__: Any) -> DataFrame:
        raise HoodieIOException("Spark has no connector")

    monkeypatch.setattr(reader, "scan_files", refuse)
    assert found(spark, path) == [("a", "x", 2), ("b", "x", 1)]
    with local_client(path, WRITER) as client:
        client.upsert(rows(("c", "y", 1)))
    with pytest.raises(HoodieIOException, match="no connector"):
        hoodie.spark.read(spark, path)


@pytest.mark.parametrize("name", ["_metadata", "_METADATA"])
def test_a_table_with_a_column_of_the_name_of_sparks_metadata(spark: SparkSession, path: str, name: str) -> None:
    given = rows(("a", "x", 1), ("b", "x", 1)).append_column(name, pa.array(["m", "n"]))
    with local_client(path, WRITER) as client:
        client.bulk_insert(given)
        client.upsert(given.slice(1).set_column(3, name, pa.array(["o"])))
    frame = hoodie.spark.read(spark, path)
    assert sorted(map(tuple, frame.select("id", name).collect())) == [("a", "m"), ("b", "o")]


def test_slices_that_a_users_class_merges_are_merged_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    options = {"hoodie.write.record.merge.custom.implementation.classes": f"{LargestTime.__module__}.LargestTime"}
    path = init_table(tmp_path / "m", table_type="MERGE_ON_READ", payload_class=LargestTime)
    with local_client(path, {**WRITER, **options}) as client:
        client.upsert(rows(("a", "x", 5), ("b", "x", 5)))
        client.upsert(rows(("a", "x", 3), ("b", "x", 7)))
    assert not hoodie.spark.read(spark, path, options).inputFiles()
    assert found(spark, path, options=options) == [("a", "x", 5), ("b", "x", 7)]
