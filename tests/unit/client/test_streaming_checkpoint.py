"""The state of streams in the commits of a table: where it is found, and which batches count as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.client.streaming_checkpoint import (
    QUERY_ID_KEY,
    SINK_CHECKPOINT_KEY,
    StreamBatch,
    StreamingCheckpoint,
    batches_of,
)
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.streaming_config import IDENTIFIER_KEY
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieConfigException, HoodieCorruptedDataException, HoodieWriteConflictException
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, read_rows, rows, write_config
from tests.support.timeline_files import read_commit, write_commit

OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", **SMALL_FILTERS}
SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
    "hoodie.parquet.small.file.limit": 0,
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return init_table(tmp_path / "t")


def client_of(path: str, batch: StreamBatch | None = None, **properties: Any) -> HoodieLocalWriteClient:
    """A client whose commits carry a batch."""
    config = write_config(path, **{**OFF, **properties})
    extra = {} if batch is None else batch.extra_metadata
    return HoodieLocalWriteClient(attrs.evolve(config, commit_metadata=extra), LocalEngineContext(parallelism=1))


def write(path: str, batch: StreamBatch | None = None, key: str = "a", **properties: Any) -> HoodieWriteResult:
    with client_of(path, batch, **properties) as client:
        return client.insert(rows((key, "x", 1)))


def checkpoint_of(path: str, identifier: str) -> StreamingCheckpoint:
    return StreamingCheckpoint.load(TableSnapshot.load(path), identifier)


def newest(path: str, identifier: str) -> int | None:
    batch = checkpoint_of(path, identifier).batch
    return None if batch is None else batch.batch_id


def archive(path: str, **properties: Any) -> None:
    keep = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.cleaner.commits.retained": 1}
    with local_client(path, {**OFF, **keep}, parallelism=1, **properties) as client:
        client.archive()


def active_times(path: str) -> set[str]:
    return set(HoodieTableMetaClient.load(path).active_timeline.completed_writes().times)


# --- what is stored ---------------------------------------------------------------------------------------------------


def test_a_commit_stores_the_state_as_hudi_does(path: str) -> None:
    result = write(path, StreamBatch("default_single_writer", 7))
    extra = read_commit(path, result.instant_time).extra_metadata
    assert extra["_hudi_streaming_sink_checkpoint"] == r'{"default_single_writer":"7"}'
    assert QUERY_ID_KEY not in extra


def test_the_query_id_is_stored_beside_hudis_value() -> None:
    extra = StreamBatch('a "näme"', 3, "q1").extra_metadata
    assert extra == {SINK_CHECKPOINT_KEY: '{"a \\"näme\\"":"3"}', QUERY_ID_KEY: "q1"}
    assert batches_of(extra, "x") == [StreamBatch('a "näme"', 3, "q1")]


def test_commits_of_several_streams_are_read_without_a_query_id() -> None:
    extra = {SINK_CHECKPOINT_KEY: '{"a":"3", "b":4}', QUERY_ID_KEY: "q1"}
    assert batches_of(extra, "x") == [StreamBatch("a", 3), StreamBatch("b", 4)]


@pytest.mark.parametrize("value", ["7", "{", '["a"]', '{"a":"x"}', '{"a":null}', '{"a":"1.5"}', '"a"'])
def test_a_state_that_cannot_be_read_is_an_error_that_names_the_commit(path: str, value: str) -> None:
    write(path, StreamBatch("a", 0))
    with local_client(path, {**OFF, SINK_CHECKPOINT_KEY: value}, hoodie__auto__commit=False) as client:
        result = client.upsert(rows(("b", "x", 1)))
        with pytest.raises(HoodieCorruptedDataException, match=f"of instant {result.instant_time}"):
            client.commit(result.instant_time, result)
    first = min(active_times(path))
    metadata = read_commit(path, first)
    changed = {**metadata.extra_metadata, SINK_CHECKPOINT_KEY: value}
    write_commit(path, first, attrs.evolve(metadata, extra_metadata=changed))
    with pytest.raises(HoodieCorruptedDataException, match=first):
        checkpoint_of(path, "a")


# --- where it is found ------------------------------------------------------------------------------------------------


def test_a_table_without_streams_has_no_state(path: str) -> None:
    assert checkpoint_of(path, "a") == StreamingCheckpoint(path, "a")
    write(path)
    assert checkpoint_of(path, "a") == StreamingCheckpoint(path, "a")


def test_each_stream_has_its_own_state_behind_commits_of_others(path: str) -> None:
    write(path, StreamBatch("a", 0))
    first = write(path, StreamBatch("a", 1))
    write(path, StreamBatch("b", 5, "q"))
    write(path)
    with client_of(path) as client:
        client.insert_overwrite(rows(("z", "y", 1)))
        client.delete_partitions(["y"])
        client.clean()
    found = checkpoint_of(path, "a")
    assert (found.batch, found.instant_time) == (StreamBatch("a", 1), first.instant_time)
    assert found.other_identifiers == {"b"}
    assert checkpoint_of(path, "b").batch == StreamBatch("b", 5, "q")
    assert checkpoint_of(path, "c").other_identifiers == {"a", "b"}


@pytest.mark.parametrize("operation", ["insert", "upsert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"])
def test_every_operation_stores_the_state(path: str, operation: str) -> None:
    write(path)
    with client_of(path, StreamBatch("a", 3)) as client:
        getattr(client, operation)(rows(("a", "x", 2)))
    assert newest(path, "a") == 3


def test_deletes_and_empty_batches_store_the_state(path: str) -> None:
    write(path)
    with client_of(path, StreamBatch("a", 3)) as client:
        client.delete(rows(("a", "x", 2)).select(["id", "region"]))
    assert newest(path, "a") == 3
    with client_of(path, StreamBatch("a", 4)) as client:
        client.upsert(rows(("a", "x", 2)).slice(0, 0))
    assert newest(path, "a") == 4


def test_a_batch_that_was_not_committed_does_not_count(path: str) -> None:
    write(path, StreamBatch("a", 0))
    write(path, StreamBatch("a", 1), hoodie__auto__commit=False)
    assert newest(path, "a") == 0


def test_the_state_is_found_in_the_archive(path: str) -> None:
    results = [write(path, StreamBatch("a", number, "q")) for number in range(3)]
    for number in range(6):
        write(path, StreamBatch("b", number))
    archive(path)
    assert not active_times(path) & {result.instant_time for result in results}
    found = checkpoint_of(path, "a")
    assert (found.batch, found.instant_time) == (StreamBatch("a", 2, "q"), results[2].instant_time)
    assert checkpoint_of(path, "c").other_identifiers == {"a", "b"}
    write(path, StreamBatch("a", 3))
    assert newest(path, "a") == 3


@pytest.mark.without_metadata_table("archiving would wait for its compaction")
def test_a_commit_that_a_savepoint_holds_back_does_not_hide_younger_archived_ones(path: str) -> None:
    held = write(path, StreamBatch("a", 0))
    with client_of(path) as client:
        client.savepoint(held.instant_time)
    younger = [write(path, StreamBatch("a", number)).instant_time for number in range(1, 4)]
    for _ in range(4):
        write(path)
    archive(path, hoodie__archive__beyond__savepoint=True)
    assert held.instant_time in active_times(path)
    assert not active_times(path) & set(younger)
    assert newest(path, "a") == 3
    with client_of(path) as client:
        client.delete_savepoint(held.instant_time)
    for _ in range(4):
        write(path)
    archive(path)
    assert held.instant_time not in active_times(path)
    assert newest(path, "a") == 3


def test_rows_that_were_taken_back_no_longer_count(path: str) -> None:
    first = write(path, StreamBatch("a", 0), key="a")
    second = write(path, StreamBatch("a", 1), key="b")
    with client_of(path) as client:
        client.rollback(second.instant_time)
    assert newest(path, "a") == 0
    with client_of(path) as client:
        client.savepoint(first.instant_time)
    write(path, StreamBatch("a", 1), key="c")
    with client_of(path) as client:
        client.restore_to_savepoint(first.instant_time)
    assert newest(path, "a") == 0
    assert [row[0] for row in read_rows(path)] == ["a"]


# --- what counts as written -------------------------------------------------------------------------------------------


def checkpoint(number: int | None, query_id: str | None = None, *others: str) -> StreamingCheckpoint:
    batch = None if number is None else StreamBatch("a", number, query_id)
    return StreamingCheckpoint("/t", "a", batch, None if number is None else "20260101000000000", frozenset(others))


@pytest.mark.parametrize("mine", [None, "q"])
@pytest.mark.parametrize("stored", [None, "q"])
def test_the_newest_batch_counts_as_written_and_later_ones_do_not(stored: str | None, mine: str | None) -> None:
    assert not checkpoint(None).is_committed(StreamBatch("a", 0, mine))
    assert checkpoint(3, stored).is_committed(StreamBatch("a", 3, mine))
    assert not checkpoint(3, stored).is_committed(StreamBatch("a", 4, mine))
    assert not checkpoint(3, stored).is_committed(StreamBatch("a", 40, mine))


def test_a_batch_that_is_older_than_the_newest_is_refused() -> None:
    with pytest.raises(HoodieConfigException) as raised:
        checkpoint(3).is_committed(StreamBatch("a", 2))
    for part in ("batch 2 of the stream 'a'", "/t", "batch 3", "20260101000000000", IDENTIFIER_KEY):
        assert part in str(raised.value)
    assert checkpoint(3).is_committed(StreamBatch("a", 2), repeats_older=True)


@pytest.mark.parametrize("number", [0, 3, 4])
@pytest.mark.parametrize("repeats_older", [False, True])
def test_a_batch_of_a_query_with_another_checkpoint_folder_is_refused(number: int, repeats_older: bool) -> None:
    with pytest.raises(HoodieConfigException, match=r"query id old, this one is new.*checkpoint\.identifier"):
        checkpoint(3, "old").is_committed(StreamBatch("a", number, "new"), repeats_older=repeats_older)


def test_a_stream_without_a_name_is_refused_beside_others() -> None:
    checkpoint(None).check_named()
    checkpoint(0, None, "b").check_named()
    with pytest.raises(HoodieConfigException, match=rf"stream 'b', 'c' already.*{IDENTIFIER_KEY}"):
        checkpoint(None, None, "b", "c").check_named()


# --- two processes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("properties", [{}, SEVERAL], ids=["one writer", "several writers"])
def test_a_batch_that_another_process_committed_meanwhile_is_not_committed_again(
    path: str, properties: dict[str, Any]
) -> None:
    write(path, StreamBatch("a", 1), key="a", **properties)
    for number in (1, 0):
        with pytest.raises(HoodieWriteConflictException, match=f"batch {number} of the stream 'a'.*batch 1") as raised:
            write(path, StreamBatch("a", number), key="b", **properties)
        assert not raised.value.is_retry_safe
    write(path, StreamBatch("b", 0), key="c", **properties)
    write(path, StreamBatch("a", 2), key="d", **properties)
    assert [row[0] for row in read_rows(path)] == ["a", "c", "d"]


def test_a_batch_that_another_process_commits_during_the_write_is_not_committed_again(path: str) -> None:
    write(path, StreamBatch("a", 0))
    with client_of(path, StreamBatch("a", 1), **SEVERAL, hoodie__auto__commit=False) as slow:
        result = slow.insert(rows(("s", "y", 1)))
        write(path, StreamBatch("a", 1), key="b", **SEVERAL)
        with pytest.raises(HoodieWriteConflictException, match="written to .* by another process"):
            slow.commit(result.instant_time, result)
    assert [row[0] for row in read_rows(path)] == ["a", "b"]


def test_metadata_of_the_config_is_no_property() -> None:
    config = attrs.evolve(HoodieWriteConfig.from_properties("/t", {"_given": 1}), commit_metadata={"k": "v"})
    assert config.extra_metadata == {"_given": "1", "k": "v"}
    assert config.properties == {"_given": "1"}
