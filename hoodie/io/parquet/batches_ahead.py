"""Batches of several sources, made on all cores and given in the order of the sources."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from hoodie.threads import ThreadPool

Source: TypeAlias = Callable[[], Iterator[pa.RecordBatch]]
_READY_BATCHES = 2
"""Batches of the present source that are made ahead, however large they are."""


def batches_ahead(
    sources: Sequence[Source], most_bytes: int | None, threads: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The batches of sources, one source after the other, while other threads make the next ones.

    Memory: about ``most_bytes`` of batches that wait, and one batch for each thread.

    Args:
        sources: Each is called once, on a thread of its own choice, and gives its batches.
        most_bytes: The bytes of waiting batches at which threads wait too; None for a caller that keeps all batches.
        threads: The number of threads; None for one of each core.

    Raises:
        Exception: The first error of a source, in their order, at the place of the batch that is missing.
    """
    ahead = _Ahead(sources, most_bytes)
    workers = min(threads or pa.cpu_count(), len(sources))
    if not workers:
        return
    with ThreadPool(workers, "hoodie-scan") as pool:
        try:
            for _ in range(workers):
                pool.submit(ahead.work)
            yield from ahead.batches()
        finally:
            ahead.stop()


class _Ahead:
    """The state that the threads of a scan share."""

    def __init__(self, sources: Sequence[Source], most_bytes: int | None) -> None:
        self._sources = sources
        self._most_bytes = most_bytes
        self._ready: list[deque[pa.RecordBatch]] = [deque() for _ in sources]
        self._is_done = [False] * len(sources)
        self._errors: list[BaseException | None] = [None] * len(sources)
        self._held_bytes = 0
        self._begun = 0
        self._present = 0
        self._is_stopped = False
        self._changed = threading.Condition()

    def work(self) -> None:
        """Make the batches of one source after the other, until none is left."""
        while True:
            with self._changed:
                if self._is_stopped or self._begun == len(self._sources):
                    return
                number, self._begun = self._begun, self._begun + 1
            error = None
            try:
                self._make(number)
            except BaseException as raised:
                error = raised
            with self._changed:
                self._errors[number], self._is_done[number] = error, True
                self._changed.notify_all()

    def _make(self, number: int) -> None:
        for batch in self._sources[number]():
            with self._changed:
                self._ready[number].append(batch)
                self._held_bytes += batch.nbytes
                self._changed.notify_all()
                self._changed.wait_for(partial(self._may_go_on, number))
                if self._is_stopped:
                    return

    def _may_go_on(self, number: int) -> bool:
        if self._is_stopped or self._most_bytes is None or self._held_bytes < self._most_bytes:
            return True
        # The caller waits for this source, whatever the others hold.
        return number == self._present and len(self._ready[number]) < _READY_BATCHES

    def _has_news(self, number: int) -> bool:
        return bool(self._ready[number]) or self._is_done[number]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All batches in their order."""
        for number, ready in enumerate(self._ready):
            with self._changed:
                self._present = number
                self._changed.notify_all()
            while True:
                with self._changed:
                    self._changed.wait_for(partial(self._has_news, number))
                    if not ready:
                        break
                    batch = ready.popleft()
                    self._held_bytes -= batch.nbytes
                    self._changed.notify_all()
                yield batch
                del batch
            error = self._errors[number]
            if error is not None:
                raise error

    def stop(self) -> None:
        """Let the threads end: nobody takes further batches."""
        with self._changed:
            self._is_stopped = True
            for ready in self._ready:
                ready.clear()
            self._changed.notify_all()
