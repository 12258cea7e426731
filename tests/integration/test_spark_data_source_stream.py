"""Streams of the commits of a table: readStream.format("hoodie")."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import hoodie.spark
from hoodie.common.table.table_snapshot import TableSnapshot
from tests.support.table_builder import SCHEMA, init_table, local_client, read_rows, rows
from tests.support.timeline_files import begin_after

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(int(pyspark.__version__.split(".")[0]) < 4, reason="PySpark 3.5 has no data sources in Python"),
]
START = "hoodie.datasource.streaming.startOffset"
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
MULTI_WRITER = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
}


class Stream:
    """A query over a table that is started again and again with one checkpoint folder.

    Args:
        spark: The session.
        path: The table.
        folder: Where the checkpoint is.
        options: Of the source.
    """

    def __init__(self, spark: SparkSession, path: str, folder: Path, **options: str) -> None:
        self._spark = spark
        self._path = path
        self._options = options
        self.checkpoint = folder
        self.batches: list[list[tuple[Any, ...]]] = []

    def query(self, take: Callable[[DataFrame, int], None], **trigger: Any) -> StreamingQuery:
        frame = self._spark.readStream.format("hoodie").options(**self._options).load(self._path)
        writer = frame.writeStream.option("checkpointLocation", str(self.checkpoint)).foreachBatch(take)
        return writer.trigger(**trigger).start()

    def take(self, frame: DataFrame, number: int) -> None:
        self.batches.append(sorted((row.id, row.ts) for row in frame.collect()))

    def run(self) -> list[tuple[Any, ...]]:
        """Read what is there; the rows that came."""
        before = len(self.batches)
        query = self.query(self.take, processingTime="0 seconds")
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return [row for batch in self.batches[before:] for row in batch]

    def failure(self) -> str:
        """The error with which the query stops."""
        with pytest.raises(Exception) as error:
            self.run()
        return str(error.value)

    def offsets(self) -> list[dict[str, str]]:
        """The ends of the batches."""
        files = sorted(self.checkpoint.joinpath("offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        return [json.loads(file.read_text().splitlines()[-1]) for file in files]

    def forget_last_commit(self) -> None:
        """As if the query had died after its last batch, before it wrote that down."""
        files = [file for file in self.checkpoint.joinpath("commits").iterdir() if "crc" not in file.name]
        last = max(files, key=lambda file: int(file.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def table(tmp_path: Path) -> str:
    return init_table(tmp_path / "t", schema=SCHEMA)


def offset_after(path: str, instant_time: str) -> dict[str, str]:
    """The offset of a stream that has read a commit: by the time of its completion from version 8 on."""
    begin = begin_after(path, instant_time)
    return {"kind": "requested" if begin == instant_time else "completed", "instant": begin}


def commit(path: str, *entries: tuple[Any, ...], **options: Any) -> str:
    with local_client(path, options) as client:
        return client.upsert(rows(*entries)).instant_time


def test_a_stream_reads_each_commit_once_and_goes_on_after_restarts(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    stream = Stream(spark, table, tmp_path / "checkpoint")
    assert stream.run() == []
    commit(table, ("a", "x", 1), ("b", "y", 1))
    second = commit(table, ("a", "x", 2))
    assert stream.run() == [("a", 2), ("b", 1)]
    assert stream.run() == []
    third = commit(table, ("b", "y", 3), ("c", "x", 3))
    assert stream.run() == [("b", 3), ("c", 3)]
    assert stream.offsets()[-1] == offset_after(table, third)
    assert offset_after(table, second) in stream.offsets()
    # The last batch comes again, with the same rows, although there is more now.
    stream.forget_last_commit()
    commit(table, ("b", "y", 4), ("d", "x", 4))
    assert stream.run() == [("b", 3), ("c", 3), ("b", 4), ("d", 4)]


def test_a_stream_chooses_columns_and_rows(spark: SparkSession, table: str, tmp_path: Path) -> None:
    commit(table, ("a", "x", 1), ("b", "y", 2))
    stream = Stream(spark, table, tmp_path / "c", columns="ts, id", filter="ts >= 2")
    assert stream.run() == [("b", 2)]
    commit(table, ("a", "x", 3), ("b", "y", 1))
    assert stream.run() == [("a", 3)]


@pytest.mark.slow
def test_a_stream_from_latest_begins_with_its_first_batch(spark: SparkSession, table: str, tmp_path: Path) -> None:
    commit(table, ("a", "x", 1))
    stream = Stream(spark, table, tmp_path / "c", **{START: "latest"})
    assert stream.run() == []
    commit(table, ("b", "y", 2))
    stream.forget_last_commit()
    assert stream.run() == [("b", 2)]


@pytest.mark.slow
def test_a_stream_begins_after_a_time(spark: SparkSession, table: str, tmp_path: Path) -> None:
    first = commit(table, ("a", "x", 1))
    commit(table, ("b", "y", 2))
    assert Stream(spark, table, tmp_path / "c", **{START: begin_after(table, first)}).run() == [("b", 2)]
    assert Stream(spark, table, tmp_path / "d", **{START: "2020-01-01"}).run() == [("a", 1), ("b", 2)]
    assert "startOffset is 'soon'" in Stream(spark, table, tmp_path / "e", **{START: "soon"}).failure()


@pytest.mark.slow
def test_a_stream_that_begins_in_the_future_leaves_out_what_comes_before(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    commit(table, ("a", "x", 1))
    stream = Stream(spark, table, tmp_path / "c", **{START: "2999-01-01"})
    assert stream.run() == []
    commit(table, ("b", "y", 2))
    assert stream.run() == []


@pytest.mark.slow
def test_a_stream_copies_a_table_exactly_once(spark: SparkSession, table: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    options = {
        "hoodie.table.name": "copy",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.operation": "insert",
        "hoodie.datasource.write.streaming.checkpoint.identifier": "copy",
    }
    stream = Stream(spark, table, tmp_path / "c", columns="id, region, ts")
    for number in range(1, 3):
        commit(table, (f"k{number}", "x", number))
        stream.query(hoodie.spark.foreach_batch_writer(copy, options), availableNow=True).awaitTermination()
    stream.forget_last_commit()
    commit(table, ("k3", "x", 3))
    stream.query(hoodie.spark.foreach_batch_writer(copy, options), availableNow=True).awaitTermination()
    assert read_rows(copy) == read_rows(table) == [("k1", "x", 1), ("k2", "x", 2), ("k3", "x", 3)]


@pytest.mark.slow
def test_what_is_available_is_read_and_the_query_ends(spark: SparkSession, table: str, tmp_path: Path) -> None:
    stream = Stream(spark, table, tmp_path / "c")
    commit(table, ("a", "x", 1))
    stream.query(stream.take, availableNow=True).awaitTermination()
    assert stream.batches == [[("a", 1)]]
    commit(table, ("b", "x", 2))
    commit(table, ("c", "x", 3))
    stream.query(stream.take, availableNow=True).awaitTermination()
    assert stream.batches == [[("a", 1)], [("b", 2), ("c", 3)]]


@pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2), reason="PySpark 4.2 and newer have limits"
)
def test_batches_are_bounded_by_their_files(
    spark: SparkSession, table: str, tmp_path: Path, table_version: int
) -> None:
    for ts in range(1, 4):
        commit(table, ("a", "x", ts), (f"k{ts}", f"p{ts}", ts))
    options = {"hoodie.datasource.streaming.maxFilesPerTrigger": "2"}
    stream = Stream(spark, table, tmp_path / "bounded", **options)
    expected = [[("a", ts), (f"k{ts}", ts)] for ts in range(1, 4)]
    if table_version > 6:
        # The first batch holds all commits: no instant may name the table in between.
        expected = [[("a", 3), *((f"k{ts}", ts) for ts in range(1, 4))]]
    stream.run()
    assert [batch for batch in stream.batches if batch] == expected
    commit(table, ("a", "x", 4))
    commit(table, ("b", "y", 5), ("c", "z", 5))
    stream.query(stream.take, availableNow=True).awaitTermination()
    assert [batch for batch in stream.batches if batch] == [*expected, [("a", 4)], [("b", 5), ("c", 5)]]


def test_a_stream_never_passes_a_pending_commit(
    spark: SparkSession, table: str, tmp_path: Path, table_version: int
) -> None:
    first = commit(table, ("a", "x", 1))
    timeline = TableSnapshot.load(table).active_timeline
    with local_client(table, MULTI_WRITER) as slow:
        pending = slow.start_commit()
        later = commit(table, ("b", "y", 2), **MULTI_WRITER)
        assert first < pending < later
        stream = Stream(spark, table, tmp_path / "c")
        # From version 8 on a pending commit will be completed after all that are there.
        is_behind = table_version > 6
        assert stream.run() == ([("a", 1), ("b", 2)] if is_behind else [("a", 1)])
        assert stream.offsets()[-1] == offset_after(table, later if is_behind else first)
        assert slow.upsert(rows(("c", "x", 3)), pending).instant_time == pending
    assert timeline.reload().completed_writes().contains(pending)
    assert stream.run() == ([("c", 3)] if is_behind else [("b", 2), ("c", 3)])
    assert stream.offsets()[-1] == offset_after(table, pending if is_behind else later)


@pytest.mark.slow
def test_no_row_is_lost_or_doubled_beside_a_writer(spark: SparkSession, table: str, tmp_path: Path) -> None:
    stream = Stream(spark, table, tmp_path / "c")
    enough = threading.Event()
    written: list[tuple[str, int]] = []
    failures: list[Exception] = []

    def write() -> None:
        try:
            for number in itertools.count():
                entries = [(f"k{number}-{n}", "xyz"[n % 3], number) for n in range(5)]
                commit(table, *entries, **NO_SERVICES)
                written.extend((key, ts) for key, _, ts in entries)
                if enough.wait(0.3):
                    return
        except Exception as error:
            failures.append(error)

    # As a sink that is exactly once keeps them: by the number of the batch. A batch that comes again is the same.
    taken: dict[int, list[tuple[str, int]]] = {}

    def take(frame: DataFrame, number: int) -> None:
        found = sorted((row.id, row.ts) for row in frame.collect())
        assert taken.setdefault(number, found) == found

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            before = len(taken)
            query = stream.query(take, processingTime="0 seconds")
            while len(taken) < before + 3 and query.isActive:
                time.sleep(0.05)
            # In the midst of a batch, or between two.
            query.stop()
            assert query.exception() is None
    finally:
        enough.set()
        writer.join()
    query = stream.query(take, processingTime="0 seconds")
    query.processAllAvailable()
    query.stop()
    assert failures == []
    assert sorted(row for batch in taken.values() for row in batch) == sorted(written)


def test_a_commit_that_was_restored_away_is_named(
    spark: SparkSession, table: str, tmp_path: Path, table_version: int
) -> None:
    first = commit(table, ("a", "x", 1))
    second = commit(table, ("b", "y", 2))
    stream = Stream(spark, table, tmp_path / "c")
    assert stream.run() == [("a", 1), ("b", 2)]
    undone = f"{second} is a commit that restore" if table_version == 6 else f"{begin_after(table, second)}: restore"
    with local_client(table) as client:
        client.savepoint(first)
        client.restore_to_savepoint(first)
    assert undone in stream.failure()
    commit(table, ("c", "x", 3))
    assert undone in stream.failure()


def test_a_table_that_was_made_anew_is_named(spark: SparkSession, table: str, tmp_path: Path) -> None:
    commit(table, ("a", "x", 1))
    last = commit(table, ("b", "y", 2))
    stream = Stream(spark, table, tmp_path / "c")
    assert stream.run() == [("a", 1), ("b", 2)]
    last = begin_after(table, last)
    shutil.rmtree(table)
    init_table(table, schema=SCHEMA)
    assert f"{table} has no commit {last}" in stream.failure()
    commit(table, ("c", "x", 3))
    failure = stream.failure()
    assert f"{table} has no commit {last}" in failure
    assert "the table was made anew" in failure


@pytest.mark.slow
def test_commits_that_were_cleaned_before_they_were_read_are_named(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    first = commit(table, ("a", "x", 1))
    second = commit(table, ("a", "x", 2))
    stream = Stream(spark, table, tmp_path / "c", **{START: begin_after(table, first)})

    def fail(frame: DataFrame, number: int) -> None:
        raise OSError("the sink is down")

    with pytest.raises(StreamingQueryException):
        stream.query(fail, availableNow=True).awaitTermination()
    assert stream.offsets() == [offset_after(table, second)]
    for number in range(3, 6):
        commit(table, ("a", "x", number), **{"hoodie.cleaner.commits.retained": 1})
    assert "files of the range were cleaned" in stream.failure()


@pytest.mark.slow
def test_a_stream_goes_on_behind_archived_commits(
    spark: SparkSession, table: str, tmp_path: Path, table_version: int
) -> None:
    stream = Stream(spark, table, tmp_path / "c")
    archiving = {
        "hoodie.cleaner.commits.retained": 1,
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
    }
    for number in range(1, 9):
        commit(table, (f"k{number}", "x", number), **archiving)
        if number != 3:
            assert (f"k{number}", number) in stream.run()
    assert TableSnapshot.load(table).archived_timeline.instants
    assert sorted({row for batch in stream.batches for row in batch}) == [(f"k{n}", n) for n in range(1, 9)]
    for number in range(9, 15):
        commit(table, (f"k{number}", "x", number), **archiving)
    if table_version == 6:
        assert "commits of the range are archived" in stream.failure()
    else:
        # The archive of later versions tells when commits were completed.
        assert sorted(stream.run()) == sorted((f"k{number}", number) for number in range(9, 15))


@pytest.mark.slow
def test_columns_that_are_added_come_with_a_restart_and_changed_types_are_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = init_table(tmp_path / "t", ordering_fields=[])
    narrow = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int32())])
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1), schema=narrow))
    frame = spark.readStream.format("hoodie").load(path)
    found: list[tuple[Any, ...]] = []

    def take(batch: DataFrame, number: int) -> None:
        found.extend((row.id, row.ts) for row in batch.collect())

    query = frame.writeStream.option("checkpointLocation", str(tmp_path / "c")).foreachBatch(take).start()
    try:
        query.processAllAvailable()
        with local_client(path) as client:
            client.upsert(rows(("b", "x", 2, "new"), schema=narrow.append(pa.field("more", pa.string()))))
        query.processAllAvailable()
        assert found == [("a", 1), ("b", 2)]
        wide = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("more", pa.string())])
        with local_client(path) as client:
            client.upsert(rows(("c", "x", 3, "new"), schema=wide))
        with pytest.raises(
            StreamingQueryException, match="column ts of .* is bigint now, and the stream began with int"
        ):
            query.processAllAvailable()
    finally:
        query.stop()
    again = Stream(spark, path, tmp_path / "c")
    assert again.run() == [("c", 3)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"as.of.instant": "2026-01-01"}, "a stream reads one range of commits after the other"),
        (
            {
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.read.begin.instanttime": "000",
            },
            "hoodie.datasource.streaming.startOffset",
        ),
        ({"hoodie.read.timeline.holes.resolution.policy": "FAIL"}, "a stream waits for pending commits"),
        ({"columns": "nope"}, "has no column nope"),
    ],
)
def test_options_of_batch_reads_are_refused(
    spark: SparkSession, table: str, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    commit(table, ("a", "x", 1))
    assert message in Stream(spark, table, tmp_path / "c", **options).failure()


def test_streams_are_incremental_whatever_the_query_type_says(spark: SparkSession, table: str, tmp_path: Path) -> None:
    commit(table, ("a", "x", 1))
    stream = Stream(spark, table, tmp_path / "c", **{"hoodie.datasource.query.type": "incremental"})
    assert stream.run() == [("a", 1)]


def test_a_stream_of_another_source_is_refused(spark: SparkSession, table: str, tmp_path: Path) -> None:
    commit(table, ("a", "x", 1))
    stream = Stream(spark, table, tmp_path / "c")
    stream.run()
    file = stream.checkpoint / "offsets" / "0"
    file.write_text(re.sub('"(requested|completed)"', '"committed"', file.read_text()))
    file.with_name(".0.crc").unlink(missing_ok=True)
    assert "which this version of hoodie does not know" in stream.failure()
