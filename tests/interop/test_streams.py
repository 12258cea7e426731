"""Streams of real Hudi and of hoodie that continue each other: same state, same checkpoint folder, each batch once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import hoodie.spark
from hoodie import HoodieTableMetaClient
from hoodie.client.streaming_checkpoint import SINK_CHECKPOINT_KEY
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.support.streams import Stream, batches, keys, state
from tests.support.table_builder import local_client

pytestmark = pytest.mark.interop

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "insert",
    "hoodie.datasource.write.streaming.checkpoint.identifier": "files",
    "hoodie.datasource.write.streaming.retry.count": "1",
}


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def by_hudi(stream: Stream, hudi: HudiProcess, **options: str) -> None:
    key = "hoodie.compaction.payload.class"
    if Path(stream.path).exists():
        # Hudi's default need not be that of the table.
        properties = HoodieTableMetaClient.load(stream.path).table_config.properties
        options |= {"hoodie.datasource.write.payload.class": properties[key]} if key in properties else {}
    hudi.stream(stream.path, stream.source, stream.checkpoint, {**OPTIONS, **options})


def by_hoodie(stream: Stream, **options: Any) -> None:
    stream.run(hoodie.spark.foreach_batch_writer(stream.path, {**OPTIONS, **options}))


def rows_of_both(stream: Stream, hudi: HudiProcess) -> list[str]:
    found = keys(stream.path)
    assert sorted(hudi.read(stream.path).column("id").to_pylist()) == found
    return found


def test_hudi_continues_a_stream_of_hoodie(stream: Stream, hudi: HudiProcess) -> None:
    stream.add("a")
    stream.add("b")
    by_hoodie(stream)
    # The query died after its last batch was written: Hudi repeats that batch.
    stream.forget_newest_batch()
    by_hudi(stream, hudi)
    assert rows_of_both(stream, hudi) == ["a", "b"]
    assert len(batches(stream.path)) == 2
    stream.add("c")
    by_hudi(stream, hudi)
    assert rows_of_both(stream, hudi) == ["a", "b", "c"]
    assert batches(stream.path) == [f'{{"files":"{number}"}}' for number in range(3)]


def test_hoodie_continues_a_stream_of_hudi(stream: Stream, hudi: HudiProcess) -> None:
    stream.add("a")
    stream.add("b")
    by_hudi(stream, hudi)
    newest = state(stream.path, "files")
    assert newest is not None and (newest.batch_id, newest.query_id) == (1, None)
    stream.forget_newest_batch()
    by_hoodie(stream)
    assert rows_of_both(stream, hudi) == ["a", "b"]
    stream.add("c")
    by_hoodie(stream)
    stream.add("d")
    by_hudi(stream, hudi)
    stream.forget_newest_batch()
    by_hoodie(stream)
    assert rows_of_both(stream, hudi) == ["a", "b", "c", "d"]
    assert batches(stream.path) == [f'{{"files":"{number}"}}' for number in range(4)]


def test_the_state_is_found_behind_commits_that_hudi_archived(stream: Stream, hudi: HudiProcess) -> None:
    stream.add("a")
    by_hoodie(stream)
    (first,) = HoodieTableMetaClient.load(stream.path).active_timeline.completed_writes()
    stream.forget_newest_batch()
    other = Stream(stream.spark, stream.source.parent, "other")
    archiving = {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.cleaner.commits.retained": "1",
        "hoodie.commits.archival.batch": "1",
        "hoodie.datasource.write.streaming.checkpoint.identifier": "other",
    }
    for number in range(6):
        other.add(f"o{number}")
    by_hudi(other, hudi, **archiving)
    timeline = HoodieTableMetaClient.load(stream.path).active_timeline
    assert timeline.find(first.requested_time) is None
    stream.add("b")
    by_hoodie(stream)
    assert rows_of_both(stream, hudi) == ["a", "b", *(f"o{number}" for number in range(6))]


@pytest.mark.table_versions(6, 9)
def test_hudi_needs_commits_of_hoodie_to_be_active(stream: Stream, hudi_1_2: HudiProcess) -> None:
    """What the page says of Hudi: it looks for the state in the active timeline only."""
    stream.add("a")
    by_hoodie(stream)
    stream.forget_newest_batch()
    other = Stream(stream.spark, stream.source.parent, "other")
    other.add("b")
    for number in range(6):
        other.add(f"o{number}")
    name = {"hoodie.datasource.write.streaming.checkpoint.identifier": "other"}
    other.run(hoodie.spark.foreach_batch_writer(stream.path, {**OPTIONS, **name}))
    keep = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.cleaner.commits.retained": 1}
    with local_client(stream.path, keep) as client:
        client.archive()
    by_hudi(stream, hudi_1_2)
    assert keys(stream.path).count("a") == 2


@pytest.mark.table_versions(6, 9)
def test_hudi_skips_the_batches_of_a_new_checkpoint_folder_silently(stream: Stream, hudi_1_2: HudiProcess) -> None:
    """Why hoodie refuses them: these rows are lost."""
    stream.add("a")
    stream.add("b")
    by_hudi(stream, hudi_1_2)
    again = Stream(stream.spark, stream.source.parent, "again")
    again.add("c")
    by_hudi(again, hudi_1_2)
    assert keys(stream.path) == ["a", "b"]
    again.checkpoint = again.checkpoint.with_name("new_checkpoint")
    with pytest.raises(PySparkException, match="repeats its newest batch only"):
        by_hoodie(again)
    assert keys(stream.path) == ["a", "b"]


def test_hudi_refuses_several_writers_without_a_name_too(stream: Stream, hudi_1_2: HudiProcess) -> None:
    stream.add("a")
    options = {key: value for key, value in OPTIONS.items() if "identifier" not in key}
    several = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    }
    with pytest.raises(HudiError, match=r"streaming\.checkpoint\.identifier"):
        hudi_1_2.stream(stream.path, stream.source, stream.checkpoint, {**options, **several})


def test_hudi_commits_an_empty_batch(stream: Stream, hudi: HudiProcess) -> None:
    stream.add("a")
    stream.add()
    by_hudi(stream, hudi)
    assert batches(stream.path) == ['{"files":"0"}', '{"files":"1"}']
    timeline = HoodieTableMetaClient.load(stream.path).active_timeline
    newest = timeline.completed_writes().instants[-1]
    assert list(timeline.read_commit_metadata(newest).write_stats) == []
    assert SINK_CHECKPOINT_KEY in timeline.read_commit_metadata(newest).extra_metadata
