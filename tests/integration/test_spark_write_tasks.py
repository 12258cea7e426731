"""Small buckets share tasks of Spark; files, rows and sequence numbers are those of tasks of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import hoodie
from hoodie import SparkRDDWriteClient
from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.model.write_status import WriteStatus
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
from hoodie.table.action.commit import incoming_keys, write_tasks
from tests.support.table_builder import init_table, read_trips, rows, write_config
from tests.support.table_invariants import check_table

pytestmark = pytest.mark.spark
PARTITIONS = 40
TASKS = 3


@pytest.fixture(autouse=True)
def few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HoodieSparkEngineContext, "least_write_tasks", TASKS)
    monkeypatch.setattr(write_tasks, "TASK_BYTES", 1 << 30)


def trips(start: int, stop: int, ts: int) -> list[tuple[str, str, int, float]]:
    return [(f"k{i:03}", f"p{i % PARTITIONS:02}", ts, float(i)) for i in range(start, stop)]


def stored(folder: Path, given: list[tuple[Any, ...]]) -> str:
    folder.mkdir()
    for number in range(4):
        pq.write_table(rows(*given[number::4]), folder / f"{number}.parquet")
    return str(folder)


def token_of(status: WriteStatus) -> list[str]:
    """The parts of the write token of its file: partition, stage, attempt."""
    name = Path(str(status.stat.path)).name
    found = parse_base_file_name(name) or parse_log_file_name(name)
    assert found is not None
    return str(found.write_token).split("-")


@pytest.mark.parametrize("in_tasks", [False, True], ids=["keys at hand", "keys in tasks"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
def test_a_task_writes_the_buckets_of_many_partitions(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    index: str,
    table_type: str,
    in_tasks: bool,
) -> None:
    if in_tasks:
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", -1)
    path = init_table(tmp_path / "t", table_type=table_type)
    first, second = trips(0, 400, 1), trips(200, 480, 2)
    options: dict[str, Any] = {"index_type": index, "hoodie.bucket.index.num.buckets": 2}
    with SparkRDDWriteClient(spark, write_config(path, **options)) as client:
        results = [
            client.insert(spark.read.parquet(stored(tmp_path / "first", first))),
            client.upsert(spark.read.parquet(stored(tmp_path / "second", second))),
        ]
        deleted = client.delete(spark.read.parquet(stored(tmp_path / "gone", first[::7])).select("id", "region"))
    model = {row[0]: row for row in [*first, *second]}
    for row in first[::7]:
        del model[row[0]]
    assert read_trips(path) == sorted(model.values())
    assert (results[0].inserted_count, deleted.deleted_count) == (400, len(first[::7]))
    check_table(path)
    for result in [*results, deleted]:
        written = [status for status in result.statuses if status.stat.path is not None]
        assert len(written) >= PARTITIONS
        tokens = [token_of(status) for status in written]
        # The number of a bucket is that of its task where tasks are not shared.
        assert len({number for number, _, _ in tokens}) == len(written)
        assert len({attempt for _, _, attempt in tokens}) == TASKS
    numbers = hoodie.read_table(path, columns=["_hoodie_commit_seqno"])["_hoodie_commit_seqno"]
    assert len(numbers.unique()) == len(model)


def test_inserts_that_the_jvm_deals_share_tasks(spark: SparkSession, tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    given = trips(0, 400, 1)
    with SparkRDDWriteClient(spark, write_config(path)) as client:
        for number in range(2):
            result = client.insert(spark.read.parquet(stored(tmp_path / str(number), given)))
    assert len(result.statuses) == PARTITIONS
    assert len({token_of(status)[2] for status in result.statuses}) == TASKS
    assert sorted(read_trips(path)) == sorted([*given, *given])
    assert pc.count_distinct(hoodie.read_table(path)["_hoodie_commit_seqno"]).as_py() == 800
