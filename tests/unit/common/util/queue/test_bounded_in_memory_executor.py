"""The bounded queue between a producer and a consumer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from hoodie.common.util.queue.bounded_in_memory_executor import BoundedInMemoryExecutor


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "hoodie-producer"]


def test_items_of_one_producer_arrive_in_their_order() -> None:
    executor = BoundedInMemoryExecutor([range(1000)], list, limit_bytes=10, size_of=lambda item: 1)
    assert executor.execute() == list(range(1000))
    assert _threads() == []


def test_without_threads_the_consumer_iterates_the_producers() -> None:
    threads = []

    def produce() -> Iterator[int]:
        for item in range(3):
            threads.append(threading.current_thread())
            yield item

    executor = BoundedInMemoryExecutor(
        [produce(), range(3, 5)], list, limit_bytes=1, size_of=lambda item: 1, runs_ahead=False
    )
    assert executor.execute() == [0, 1, 2, 3, 4]
    assert threads == [threading.current_thread()] * 3


def test_items_of_several_producers_all_arrive() -> None:
    executor = BoundedInMemoryExecutor([range(100), range(100, 250)], sorted, limit_bytes=7, size_of=lambda item: 1)
    assert executor.execute() == list(range(250))


def test_producer_is_ahead_by_no_more_than_the_limit() -> None:
    produced: list[int] = []
    most_ahead = 0

    def produce() -> Iterator[int]:
        for item in range(20):
            produced.append(item)
            yield item

    def consume(items: Iterator[int]) -> int:
        nonlocal most_ahead
        consumed = 0
        for _ in items:
            deadline = time.monotonic() + 60
            while len(produced) < min(20, consumed + 3) and time.monotonic() < deadline:
                time.sleep(0.001)
            # Time for items that would be too many.
            time.sleep(0.005)
            consumed += 1
            most_ahead = max(most_ahead, len(produced) - consumed)
        return consumed

    assert BoundedInMemoryExecutor([produce()], consume, limit_bytes=300, size_of=lambda item: 100).execute() == 20
    # Three items in the queue, and one in the hands of the producer that waits for room.
    assert 2 <= most_ahead <= 4


def test_a_slow_producer_and_a_slow_consumer_overlap() -> None:
    in_producer = threading.Event()
    in_consumer = threading.Event()
    overlapped = []

    def produce() -> Iterator[int]:
        yield 0
        # Only a consumer that runs at the same time sets this.
        overlapped.append(in_consumer.wait(60))
        in_producer.set()
        yield 1

    def consume(items: Iterator[int]) -> list[int]:
        seen = [next(items)]
        in_consumer.set()
        overlapped.append(in_producer.wait(60))
        return seen + list(items)

    assert BoundedInMemoryExecutor([produce()], consume, limit_bytes=1, size_of=lambda item: 1).execute() == [0, 1]
    assert overlapped == [True, True]


def test_an_item_larger_than_the_limit_passes_alone() -> None:
    executor = BoundedInMemoryExecutor([[50, 60, 70]], list, limit_bytes=10, size_of=lambda item: item)
    assert executor.execute() == [50, 60, 70]


def test_error_of_the_producer_reaches_the_caller_and_no_thread_stays() -> None:
    def produce() -> Iterator[int]:
        yield 1
        raise OSError("disk is gone")

    with pytest.raises(OSError, match="disk is gone"):
        BoundedInMemoryExecutor([produce()], list, limit_bytes=10, size_of=lambda item: 1).execute()
    assert _threads() == []


def test_error_of_the_consumer_stops_a_producer_that_waits_for_room() -> None:
    closed = threading.Event()

    def produce() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.set()

    def consume(items: Iterator[int]) -> None:
        next(items)
        raise ValueError("cannot encode")

    with pytest.raises(ValueError, match="cannot encode"):
        BoundedInMemoryExecutor([produce()], consume, limit_bytes=2, size_of=lambda item: 1).execute()
    assert closed.is_set()
    assert _threads() == []


def test_a_consumer_that_stops_early_ends_the_producer() -> None:
    executor = BoundedInMemoryExecutor([range(10_000)], next, limit_bytes=2, size_of=lambda item: 1)
    assert executor.execute() == 0
    assert _threads() == []
