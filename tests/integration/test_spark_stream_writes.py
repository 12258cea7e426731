"""`hoodie.spark.foreach_batch_writer`: each batch of a stream is in the table exactly once, whatever happens."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import hoodie.spark
from hoodie import HoodieTableMetaClient
from hoodie.client import stream_writer
from hoodie.client.streaming_checkpoint import QUERY_ID_KEY, SINK_CHECKPOINT_KEY
from hoodie.config.streaming_config import IDENTIFIER_KEY
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieIOException,
    HoodieKeyException,
    HoodieWriteConflictException,
)
from hoodie.spark import streaming
from tests.support.streams import Stream, Write, batches, keys, state
from tests.support.table_builder import SCHEMA, local_client, rows, spark_rows

pytestmark = pytest.mark.spark

OPERATION = "hoodie.datasource.write.operation"
OPTIONS: dict[str, Any] = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.streaming.retry.interval.ms": 1,
}
IGNORE = {"hoodie.datasource.write.streaming.ignore.failed.batch": True}
SEVERAL: dict[str, Any] = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
    "hoodie.parquet.small.file.limit": 0,
}


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def writer_of(path: str, **options: Any) -> Write:
    return hoodie.spark.foreach_batch_writer(path, {**OPTIONS, **options})


# --- queries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "upsert"])
def test_a_batch_that_a_query_repeats_is_not_written_again(stream: Stream, operation: str) -> None:
    stream.add("a", "b")
    stream.add("c")
    write = writer_of(stream.path, **{OPERATION: operation, IDENTIFIER_KEY: "files"})
    stream.run(write)
    assert batches(stream.path) == ['{"files":"0"}', '{"files":"1"}']
    stream.forget_newest_batch()
    stream.add("d")
    stream.run(writer_of(stream.path, **{OPERATION: operation, IDENTIFIER_KEY: "files"}))
    assert keys(stream.path) == ["a", "b", "c", "d"]
    assert batches(stream.path) == ['{"files":"0"}', '{"files":"1"}', '{"files":"2"}']
    newest = state(stream.path, "files")
    assert newest is not None
    metadata = (stream.checkpoint / "metadata").read_text()
    assert str(newest.query_id) in metadata


def test_a_query_with_a_new_checkpoint_folder_is_refused(stream: Stream) -> None:
    stream.add("a")
    stream.run(writer_of(stream.path))
    for number in range(2):
        # Batch 0 is the newest batch of the table, then it is an older one.
        shutil.move(stream.checkpoint, stream.checkpoint.with_name(f"old{number}"))
        stream.add(f"a{number}")
        with pytest.raises(PySparkException, match=r"another checkpoint folder[^$]*streaming\.checkpoint\.identifier"):
            stream.run(writer_of(stream.path))
        shutil.rmtree(stream.checkpoint)
        shutil.move(stream.checkpoint.with_name(f"old{number}"), stream.checkpoint)
        stream.run(writer_of(stream.path))
    assert keys(stream.path) == ["a", "a0", "a1"]
    # With a name of its own, it writes all rows once more.
    shutil.rmtree(stream.checkpoint)
    stream.run(writer_of(stream.path, **{OPERATION: "insert", IDENTIFIER_KEY: "again"}))
    assert keys(stream.path) == ["a", "a", "a0", "a0", "a1", "a1"]


@pytest.mark.slow
def test_a_query_with_an_older_copy_of_its_checkpoint_folder_is_refused(stream: Stream) -> None:
    stream.add("a")
    stream.run(writer_of(stream.path))
    shutil.copytree(stream.checkpoint, stream.checkpoint.with_name("copy"))
    stream.add("b")
    stream.add("c")
    stream.run(writer_of(stream.path))
    shutil.rmtree(stream.checkpoint)
    shutil.move(stream.checkpoint.with_name("copy"), stream.checkpoint)
    with pytest.raises(PySparkException, match="repeats its newest batch only"):
        stream.run(writer_of(stream.path))
    assert keys(stream.path) == ["a", "b", "c"]


@pytest.mark.slow
def test_a_query_takes_over_where_plain_writes_ended(stream: Stream, caplog: pytest.LogCaptureFixture) -> None:
    stream.add("a")
    stream.run(lambda batch, _: hoodie.spark.write(batch, stream.path, OPTIONS) and None)
    stream.add("b")
    stream.run(writer_of(stream.path))
    assert keys(stream.path) == ["a", "b"]
    assert batches(stream.path) == [None, '{"default_single_writer":"1"}']
    assert "begins to write" in caplog.text and "with batch 1" in caplog.text


def test_a_failing_batch_ends_the_query_and_the_next_run_writes_it(stream: Stream) -> None:
    stream.add("a")
    stream.add("b")

    def refuse(commit: Any) -> bool:
        return commit.metadata.extra_metadata[SINK_CHECKPOINT_KEY] != '{"default_single_writer":"1"}'

    with pytest.raises(PySparkException, match="HoodieValidationException"):
        stream.run(hoodie.spark.foreach_batch_writer(stream.path, OPTIONS, validators=[refuse]))
    assert keys(stream.path) == ["a"]
    stream.run(writer_of(stream.path))
    assert keys(stream.path) == ["a", "b"]


@pytest.mark.parametrize("options", [{}, IGNORE], ids=["", "ignoring"])
def test_a_batch_during_which_the_query_is_stopped_is_written_once(stream: Stream, options: dict[str, Any]) -> None:
    stream.add("a")
    stream.add("b")
    entered, released = threading.Event(), threading.Event()

    def hold(commit: Any) -> None:
        if commit.metadata.extra_metadata[SINK_CHECKPOINT_KEY] == '{"default_single_writer":"1"}':
            entered.set()
            assert released.wait(60)

    given = {**OPTIONS, OPERATION: "insert", **options}
    query = stream.start(hoodie.spark.foreach_batch_writer(stream.path, given, validators=[hold]))
    assert entered.wait(60)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    time.sleep(0.5)
    released.set()
    stopping.join()
    stream.add("c")
    stream.run(writer_of(stream.path, **{OPERATION: "insert", **options}))
    assert keys(stream.path) == ["a", "b", "c"]


@pytest.mark.parametrize("several", [{}, SEVERAL], ids=["one writer", "several writers"])
def test_two_queries_write_one_table_at_the_same_time(
    spark: SparkSession, tmp_path: Path, several: dict[str, Any]
) -> None:
    streams = [Stream(spark, tmp_path, name) for name in ("a", "b")]
    path = streams[0].path
    # The table is there, as two queries must not both create it.
    writer_of(path, **several, **{IDENTIFIER_KEY: "first"})(spark_rows(spark, ("z", "z", 1)), 0)
    running = []
    for one in streams:
        for number in range(3):
            one.add(f"{one.source.name[0]}{number}")
        name = {OPERATION: "insert", IDENTIFIER_KEY: one.source.name}
        running.append(one.start(writer_of(path, **several, **name)))
    for query in running:
        assert query.awaitTermination(120)
    assert keys(path) == ["a0", "a1", "a2", "b0", "b1", "b2", "z"]
    for one in streams:
        newest = state(path, one.source.name)
        assert newest is not None and newest.batch_id == 2
        one.forget_newest_batch()
        name = {OPERATION: "insert", IDENTIFIER_KEY: one.source.name}
        one.run(writer_of(path, **several, **name))
    assert keys(path) == ["a0", "a1", "a2", "b0", "b1", "b2", "z"]


def test_a_second_query_without_a_name_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    first, second = Stream(spark, tmp_path, "a"), Stream(spark, tmp_path, "b")
    first.add("a")
    second.add("b")
    first.run(writer_of(first.path))
    with pytest.raises(PySparkException, match=r"streaming\.checkpoint\.identifier"):
        second.run(writer_of(first.path))
    second.run(writer_of(first.path, **{IDENTIFIER_KEY: "second"}))
    first.add("c")
    first.run(writer_of(first.path))
    assert keys(first.path) == ["a", "b", "c"]


# --- calls ------------------------------------------------------------------------------------------------------------


def test_the_first_batch_makes_the_table_even_if_it_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write = writer_of(path)
    write(spark_rows(spark, ("a", "x", 1)).where("false"), 0)
    assert HoodieTableMetaClient.load(path).load_schema().names == SCHEMA.names
    write(spark_rows(spark, ("a", "x", 1)), 1)
    write(spark_rows(spark, ("b", "x", 1)).where("false"), 2)
    assert [f'{{"default_single_writer":"{number}"}}' for number in range(3)] == batches(path)
    # Outside of a query the caller may repeat older batches too.
    write(spark_rows(spark, ("c", "x", 1)), 1)
    assert keys(path) == ["a"]


@pytest.mark.slow
def test_without_empty_commits_an_empty_batch_leaves_no_trace(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write = writer_of(path, **{"hoodie.allow.empty.commit": False})
    write(spark_rows(spark, ("a", "x", 1)), 0)
    write(spark_rows(spark, ("b", "x", 1)).where("false"), 1)
    write(spark_rows(spark, ("c", "x", 1)), 2)
    assert keys(path) == ["a", "c"]
    assert len(batches(path)) == 2


def test_without_pinned_threads_an_older_batch_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    writer_of(path)(spark_rows(spark, ("a", "x", 1)), 3)
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    with pytest.raises(HoodieConfigException, match="repeats its newest batch only"):
        writer_of(path)(spark_rows(spark, ("b", "x", 1)), 2)


def test_a_write_stores_the_given_metadata(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with pytest.raises(HoodieConfigException, match="'schema'"):
        hoodie.spark.write(spark_rows(spark, ("a", "x", 1)), path, OPTIONS, extra_metadata={"schema": "{}"})
    assert not Path(path).exists()
    result = hoodie.spark.write(spark_rows(spark, ("a", "x", 1)), path, OPTIONS, extra_metadata={"source": "files"})
    assert result is not None
    assert result.commit_metadata.extra_metadata["source"] == "files"


@pytest.mark.slow
def test_deletes_stream(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    writer_of(path)(spark_rows(spark, ("a", "x", 1), ("b", "x", 1)), 0)
    delete = writer_of(path, **{OPERATION: "delete", IDENTIFIER_KEY: "deletes"})
    delete(spark_rows(spark, ("a", "x", 1)), 0)
    writer_of(path)(spark_rows(spark, ("a", "x", 2)), 1)
    delete(spark_rows(spark, ("a", "x", 1)), 0)
    assert keys(path) == ["a", "b"]


def test_a_stream_stops_when_its_rows_were_taken_from_the_table(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write = writer_of(path)
    for number in range(2):
        write(spark_rows(spark, (f"a{number}", "x", 1)), number)
    with local_client(path) as client:
        client.rollback(HoodieTableMetaClient.load(path).active_timeline.completed_writes().instants[-1].requested_time)
    with pytest.raises(HoodieCommitException, match=r"holds batch 0 of it, and this query has written batch 1"):
        write(spark_rows(spark, ("a2", "x", 1)), 2)
    shutil.rmtree(path)
    with pytest.raises(HoodieCommitException, match=r"holds no batch of it, and this query has written batch 1"):
        write(spark_rows(spark, ("a2", "x", 1)), 2)
    writer_of(path)(spark_rows(spark, ("a2", "x", 1)), 2)
    assert keys(path) == ["a2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hoodie.auto.commit": False}, "hoodie.auto.commit"),
        (SEVERAL, IDENTIFIER_KEY),
        ({SINK_CHECKPOINT_KEY: '{"a":"1"}'}, SINK_CHECKPOINT_KEY),
        ({"hoodie.datasource.write.streaming.retry.count": "often"}, r"retry\.count = 'often'"),
        ({IDENTIFIER_KEY: " "}, IDENTIFIER_KEY),
        ({"hoodie.datasource.write.streaming.retries": 1}, "nearest"),
        ({OPERATION: "merge"}, OPERATION),
    ],
)
def test_wrong_options_are_refused_before_a_query_starts(options: dict[str, Any], message: str) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        writer_of("/nowhere", **options)


def test_options_that_concern_other_tables_are_accepted() -> None:
    writer_of("/nowhere", **{"hoodie.datasource.write.streaming.disable.compaction": "true"})


def test_the_function_is_called_with_a_batch_and_its_number(spark: SparkSession, tmp_path: Path) -> None:
    write: Any = writer_of(str(tmp_path / "t"))
    for call in ((rows(("a", "x", 1)), 0), (spark_rows(spark, ("a", "x", 1)), "0")):
        with pytest.raises(HoodieConfigException, match=r"writeStream\.foreachBatch"):
            write(*call)


# --- failures ---------------------------------------------------------------------------------------------------------


class Failing:
    """A write that fails, as often as it is told.

    Args:
        error: What it raises.
        times: How often.
        is_late: Whether it raises after the commit.
    """

    def __init__(self, error: Exception, times: int, is_late: bool = False) -> None:
        self.calls = 0
        self._real = streaming.write_frame
        self._error = error
        self._times = times
        self._is_late = is_late

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        fails = self.calls <= self._times
        if fails and not self._is_late:
            raise self._error
        result = self._real(*arguments, **options)
        if fails:
            raise self._error
        return result


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The pauses between attempts, which are left out."""
    found: list[float] = []
    # Others in this process sleep too.
    monkeypatch.setattr(stream_writer, "time", SimpleNamespace(sleep=found.append))
    yield found


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception, times: int = 100, is_late: bool = False) -> Failing:
    failing = Failing(error, times, is_late)
    monkeypatch.setattr(streaming, "write_frame", failing)
    return failing


def test_a_failed_batch_is_tried_three_times_with_longer_pauses(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    path = str(tmp_path / "t")
    options = {key: value for key, value in OPTIONS.items() if "retry" not in key}
    write = hoodie.spark.foreach_batch_writer(path, options)
    failing = fail(monkeypatch, HoodieIOException("no route"), times=2)
    write(spark_rows(spark, ("a", "x", 1)), 0)
    assert (failing.calls, pauses) == (3, [2.0, 4.0])
    assert keys(path) == ["a"]
    failing = fail(monkeypatch, HoodieIOException("no route"))
    with pytest.raises(HoodieIOException, match="no route"):
        write(spark_rows(spark, ("b", "x", 1)), 1)
    assert failing.calls == 3


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 5])
def test_the_number_of_attempts_can_be_set(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float], count: int
) -> None:
    write = writer_of(str(tmp_path / "t"), **{"hoodie.datasource.write.streaming.retry.count": count})
    failing = fail(monkeypatch, HoodieIOException("no route"))
    with pytest.raises(HoodieIOException):
        write(spark_rows(spark, ("a", "x", 1)), 0)
    assert failing.calls == max(1, count) == len(pauses) + 1


def test_a_batch_whose_commit_failed_late_is_not_written_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    path = str(tmp_path / "t")
    write = writer_of(path, **{OPERATION: "insert"})
    failing = fail(monkeypatch, HoodieIOException("no answer"), times=1, is_late=True)
    write(spark_rows(spark, ("a", "x", 1)), 0)
    assert failing.calls == len(pauses) == 1
    assert keys(path) == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, IGNORE], ids=["", "ignoring"])
@pytest.mark.parametrize(
    "error",
    [
        HoodieWriteConflictException("rows of one may hide rows of the other"),
        HoodieConfigException("no"),
        RuntimeError("[SPARK_JOB_CANCELLED] Job 3 cancelled part of cancelled job group"),
    ],
)
def test_some_errors_end_the_query_at_once(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pauses: list[float],
    error: Exception,
    options: dict[str, Any],
) -> None:
    failing = fail(monkeypatch, error)
    with pytest.raises(type(error)):
        writer_of(str(tmp_path / "t"), **options)(spark_rows(spark, ("a", "x", 1)), 0)
    assert (failing.calls, pauses) == (1, [])


@pytest.mark.slow
def test_a_conflict_that_is_safe_to_retry_is_retried(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    fail(monkeypatch, HoodieWriteConflictException("another writer", is_retry_safe=True), times=2)
    writer_of(str(tmp_path / "t"))(spark_rows(spark, ("a", "x", 1)), 0)
    assert len(pauses) == 2
    assert keys(str(tmp_path / "t")) == ["a"]


def test_bad_rows_are_not_tried_again(spark: SparkSession, tmp_path: Path, pauses: list[float]) -> None:
    path = str(tmp_path / "t")
    write = writer_of(path)
    write(spark_rows(spark, ("a", "x", 1)), 0)
    with pytest.raises(HoodieKeyException):
        write(spark_rows(spark, (None, "x", 1)), 1)
    assert pauses == []
    write(spark_rows(spark, ("b", "x", 1)), 1)
    assert keys(path) == ["a", "b"]


def test_a_failed_batch_is_given_up_where_that_is_asked(
    spark: SparkSession, tmp_path: Path, pauses: list[float], caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path = str(tmp_path / "t")
    write = writer_of(path, **IGNORE)
    write(spark_rows(spark, ("a", "x", 1)), 0)
    write(spark_rows(spark, (None, "x", 1)), 1)
    write(spark_rows(spark, ("b", "x", 1)), 2)
    assert keys(path) == ["a", "b"]
    (error,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "batch 1 of the stream 'default_single_writer'" in error.getMessage()
    assert "its rows are lost" in error.getMessage()
    failing = fail(monkeypatch, HoodieIOException("no route"))
    write(spark_rows(spark, ("c", "x", 1)), 3)
    assert failing.calls == 3
    assert keys(path) == ["a", "b"]


def test_queries_of_one_process_wait_for_each_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, inside, met = str(tmp_path / "t"), threading.Semaphore(1), []
    real = streaming.write_frame

    def alone(*arguments: Any, **options: Any) -> Any:
        met.append(inside.acquire(blocking=False))
        try:
            return real(*arguments, **options)
        finally:
            inside.release()

    monkeypatch.setattr(streaming, "write_frame", alone)
    threads = [
        threading.Thread(target=writer_of(path, **{IDENTIFIER_KEY: name}), args=(spark_rows(spark, (name, "x", 1)), 0))
        for name in ("a", "b", "c")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert met == [True] * 3
    assert keys(path) == ["a", "b", "c"]


def test_the_query_id_is_not_stored_outside_of_a_query(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    writer_of(path)(spark_rows(spark, ("a", "x", 1)), 0)
    timeline = HoodieTableMetaClient.load(path).active_timeline
    (instant,) = timeline.completed_writes()
    assert QUERY_ID_KEY not in timeline.read_commit_metadata(instant).extra_metadata
