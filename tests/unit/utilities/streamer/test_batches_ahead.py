"""Batches that are fetched ahead: taken if they are the right ones, and never waited for at the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.source import DecodedBatch, InputBatch, Source, SourceContext, SourceRead
from hoodie.utilities.streamer import batches_ahead as module
from hoodie.utilities.streamer.batches_ahead import BatchesAhead, FetchedBatch, StoppedWaiting
from hoodie.utilities.streamer.local_engine import LocalStreamerEngine

SCHEMA = pa.schema([("n", pa.int64())])


class OneRow(SourceRead):
    """One row."""

    def __init__(self, number: int) -> None:
        self.number = number

    def batches(self) -> Iterator[DecodedBatch]:
        yield DecodedBatch(pa.RecordBatch.from_pydict({"n": [self.number]}, schema=SCHEMA))


class Numbers(Source):
    """The numbers from the position on, one a batch, up to ``end``; a fetch waits while ``gate`` is closed."""

    def __init__(self, end: int = 100) -> None:
        super().__init__(SourceContext(StreamerProperties({})))
        self.end = end
        self.gate = threading.Event()
        self.gate.set()
        self.asked: list[int] = []
        self.told: list[str] = []
        self.is_closed = False

    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        number = int(checkpoint.position) if checkpoint is not None else 0
        self.asked.append(number)
        assert self.gate.wait(30)
        if number == self.end:
            return InputBatch(checkpoint)
        return InputBatch(Checkpoint(str(number + 1)), [OneRow(number)], SCHEMA)

    def on_commit(self, checkpoint: Checkpoint) -> None:
        self.told.append(checkpoint.position)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def source() -> Numbers:
    return Numbers()


@pytest.fixture
def batches(source: Numbers) -> Iterator[BatchesAhead]:
    made = BatchesAhead(source, LocalStreamerEngine(), None, None, 1 << 20)
    yield made
    source.gate.set()
    made.close()
    made.close_source()


def wait_for_thread(batches: BatchesAhead) -> None:
    assert batches._ahead is not None
    batches._ahead.join(30)


def at(position: int) -> Checkpoint:
    return Checkpoint(str(position))


def test_the_batch_that_was_fetched_ahead_is_taken_at_its_position(source: Numbers, batches: BatchesAhead) -> None:
    first = batches.fetch(None)
    batches.begin_ahead(first)
    wait_for_thread(batches)
    assert source.asked == [0, 1]
    assert batches.fetch(at(1)).batch.checkpoint == at(2)
    assert source.asked == [0, 1]


def test_a_batch_of_another_position_is_dropped(source: Numbers, batches: BatchesAhead) -> None:
    batches.begin_ahead(batches.fetch(None))
    wait_for_thread(batches)
    assert batches.fetch(at(7)).batch.checkpoint == at(8)
    assert source.asked == [0, 1, 7]


def test_an_empty_batch_that_was_fetched_ahead_is_asked_for_again(source: Numbers, batches: BatchesAhead) -> None:
    source.end = 1
    batches.begin_ahead(batches.fetch(None))
    wait_for_thread(batches)
    source.end = 100
    assert not batches.fetch(at(1)).batch.is_empty
    assert source.asked == [0, 1, 1]


def test_nothing_is_fetched_behind_a_batch_without_rows(source: Numbers, batches: BatchesAhead) -> None:
    batches.begin_ahead(FetchedBatch(at(3), InputBatch(at(3)), None))
    assert batches._ahead is None
    assert source.asked == []


def test_a_source_that_fetches_hears_of_a_commit_before_its_next_fetch(source: Numbers, batches: BatchesAhead) -> None:
    first = batches.fetch(None)
    source.gate.clear()
    batches.begin_ahead(first)
    wait_until_asked(source, 2)
    batches.tell_source(at(1))
    assert source.told == []
    source.gate.set()
    second = batches.fetch(at(1))
    batches.begin_ahead(second)
    wait_for_thread(batches)
    assert source.told == ["1"]
    batches.tell_source(at(2))
    assert source.told == ["1", "2"]


def test_a_round_that_is_not_wanted_any_more_does_not_wait_for_the_source(
    source: Numbers, batches: BatchesAhead
) -> None:
    first = batches.fetch(None)
    source.gate.clear()
    batches.begin_ahead(first)
    wait_until_asked(source, 2)
    batches.stop_waiting()
    with pytest.raises(StoppedWaiting):
        batches.fetch(at(1))


def test_a_source_that_is_fetching_at_the_end_is_closed_by_the_thread_that_fetches(
    source: Numbers, batches: BatchesAhead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GRACE_SECONDS", 0.05)
    first = batches.fetch(None)
    source.gate.clear()
    batches.begin_ahead(first)
    thread = batches._ahead
    wait_until_asked(source, 2)
    batches.close()
    batches.close_source()
    assert not source.is_closed
    source.gate.set()
    assert thread is not None
    thread.join(30)
    assert source.is_closed


def wait_until_asked(source: Numbers, times: int) -> None:
    for _ in range(3000):
        if len(source.asked) == times:
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"the source was asked {len(source.asked)} times")
