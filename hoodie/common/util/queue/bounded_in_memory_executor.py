"""Producers that run ahead of their consumer, by a bounded number of bytes.

Reading and decoding (the producer) overlap with merging, encoding and writing (the consumer).

Hudi: org.apache.hudi.common.util.queue.BoundedInMemoryExecutor and BoundedInMemoryQueue. Differs: the consumer runs
on the caller's thread, and the unit is a batch of rows.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from hoodie.threads import start_thread

T = TypeVar("T")
R = TypeVar("R")


class Stopped(Exception):
    """The other side has ended: a signal for the loop that puts items, which ends then."""


class BoundedInMemoryQueue(Generic[T]):
    """A first-in first-out queue that holds at most ``limit_bytes``, but always at least one item.

    Args:
        limit_bytes: The number of bytes that the producers may be ahead.
        size_of: Returns the size of an item in bytes.
        producer_count: The queue ends after this number of producers called `finish`.
    """

    def __init__(self, limit_bytes: int, size_of: Callable[[T], int], producer_count: int = 1) -> None:
        self._limit_bytes = limit_bytes
        self._size_of = size_of
        self._condition = threading.Condition()
        self._items: deque[tuple[T, int]] = deque()
        self._held_bytes = 0
        self._producing = producer_count
        self._error: BaseException | None = None
        self._closed = False

    def put(self, item: T) -> None:
        """Add an item; waits while the queue is full. Raises `Stopped` if the consumer has ended."""
        size = self._size_of(item)
        with self._condition:
            while self._items and self._held_bytes + size > self._limit_bytes and not self._closed:
                self._condition.wait()
            if self._closed:
                raise Stopped
            self._items.append((item, size))
            self._held_bytes += size
            self._condition.notify_all()

    def finish(self, error: BaseException | None = None) -> None:
        """End one producer; the consumer raises its error at the next step, before it takes queued items."""
        with self._condition:
            self._producing -= 1
            self._error = self._error or error
            self._condition.notify_all()

    def close(self) -> None:
        """End the consumer: producers stop at their next `put`."""
        with self._condition:
            self._closed = True
            self._items.clear()
            self._held_bytes = 0
            self._condition.notify_all()

    def __iter__(self) -> Iterator[T]:
        """The items in the order of their arrival; raises the error of a producer."""
        while True:
            with self._condition:
                while not self._items and self._producing and self._error is None:
                    self._condition.wait()
                if self._error is not None:
                    raise self._error
                if not self._items:
                    return
                item, size = self._items.popleft()
                self._held_bytes -= size
                self._condition.notify_all()
            yield item


class BoundedInMemoryExecutor(Generic[T, R]):
    """Runs producers on threads of their own and a consumer on the caller's thread.

    Args:
        producers: Each is iterated by one thread.
        consumer: Given an iterator of all items; its result is the executor's.
        limit_bytes: The number of bytes that the producers may be ahead.
        size_of: Returns the size of an item in bytes.
        runs_ahead: Whether there are threads. Without them the consumer iterates the producers, one after the other:
            for few items, which take less time than a thread.
    """

    def __init__(
        self,
        producers: Iterable[Iterable[T]],
        consumer: Callable[[Iterator[T]], R],
        *,
        limit_bytes: int,
        size_of: Callable[[T], int],
        runs_ahead: bool = True,
    ) -> None:
        self._producers = list(producers)
        self._consumer = consumer
        self._runs_ahead = runs_ahead
        self._queue: BoundedInMemoryQueue[T] = BoundedInMemoryQueue(limit_bytes, size_of, len(self._producers))

    def execute(self) -> R:
        """Run to the end.

        Returns:
            The result of the consumer. No thread is left when this call ends, however it ends.

        Raises:
            BaseException: The error of the consumer or of a producer, unchanged; the other side was stopped.
        """
        if not self._runs_ahead:
            return self._consumer(chain.from_iterable(self._producers))
        threads = [
            threading.Thread(target=self._produce, args=(producer,), name="hoodie-producer", daemon=True)
            for producer in self._producers
        ]
        started = []
        try:
            for thread in threads:
                start_thread(thread)
                started.append(thread)
            return self._consumer(iter(self._queue))
        finally:
            self._queue.close()
            for thread in started:
                thread.join()

    def _produce(self, producer: Iterable[T]) -> None:
        error: BaseException | None = None
        try:
            for item in producer:
                self._queue.put(item)
        except Stopped:
            pass
        except BaseException as caught:
            error = caught
        finally:
            close = getattr(producer, "close", None)
            if close is not None:
                close()
            self._queue.finish(error)
