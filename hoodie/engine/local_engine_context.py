"""The in-process engine: threads of this process, no JVM."""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa

from hoodie.common.data.record_source import record_batches, with_tags
from hoodie.engine.engine_context import HoodieEngineContext, Shared
from hoodie.engine.local_data import BatchStream, LocalData
from hoodie.engine.task_identity import TaskIdentity
from hoodie.metrics.progress import TaskCount, TaskCounter
from hoodie.threads import ThreadPool

T = TypeVar("T")
R = TypeVar("R")

_ATTEMPTS = itertools.count()
"""Attempt numbers, unique within the process across all contexts."""

_MANY_TASKS = 32
"""Of so many tasks or more, all but the first ones run one after the other as long as they are short."""
_SHORT_SECONDS = 0.006
"""Tasks that take less on average gain nothing from threads, which wait for Python's lock most of that time."""
_SPARED_TASKS = 2
"""The time of so many short tasks may be exceeded before threads take over."""


class _LocalShared(Shared):
    def __init__(self, value: Any) -> None:
        self._value = value

    @property
    def value(self) -> Any:
        return self._value

    def release(self) -> None:
        self._value = None


class _LocalJob:
    """Counts the tasks that run while it is open."""

    def __init__(self) -> None:
        self.total = 0
        self._done = 0
        self._lock = threading.Lock()

    def one_is_done(self) -> None:
        with self._lock:
            self._done += 1

    def tasks(self) -> TaskCount:
        return TaskCount(self._done, self.total)


class LocalEngineContext(HoodieEngineContext):
    """Runs tasks on threads of this process.

    Hudi: org.apache.hudi.client.common.HoodieJavaEngineContext. Differs: uses all cores.
    """

    def __init__(self, parallelism: int | None = None) -> None:
        self._parallelism = parallelism or len(os.sched_getaffinity(0))
        self._stages = itertools.count()
        self._jobs: list[_LocalJob] = []

    @property
    def default_parallelism(self) -> int:
        return self._parallelism

    @property
    def shares_memory(self) -> bool:
        return True

    def to_data(self, records: Any, schema: pa.Schema | None = None, is_tagged: bool = False) -> LocalData:
        """See the interface; accepts what `hoodie.common.data.normalise.record_batches` accepts.

        A stream that can be read only once (an iterator of batches) is read by several tasks; each takes the next
        batch.
        """
        source = record_batches(with_tags(records, schema) if is_tagged else records, schema)
        if source.table is not None:
            return LocalData.from_table(self, source.table)
        stream = BatchStream(source.batches)
        return LocalData(self, source.schema, [stream] * self._parallelism, stream)

    def run_tasks(self, items: Sequence[T], function: Callable[[TaskIdentity, T], R]) -> list[R]:
        for job in self._jobs:
            job.total += len(items)
        stage = next(self._stages)
        tasks = [TaskIdentity(index, stage, next(_ATTEMPTS)) for index in range(len(items))]
        work = list(zip(tasks, items, strict=True))
        if self._parallelism == 1 or len(work) <= 1:
            return self._run_here(work, function, math.inf)
        if len(work) < max(_MANY_TASKS, 2 * self._parallelism):
            return self._run_on_threads(work, function)
        # One for each thread shows how long they are, while no thread waits.
        started = time.monotonic()
        results = self._run_on_threads(work[: self._parallelism], function)
        if time.monotonic() - started <= _SHORT_SECONDS * (self._parallelism + _SPARED_TASKS):
            results += self._run_here(work[len(results) :], function, _SHORT_SECONDS)
        rest = work[len(results) :]
        return results + self._run_on_threads(rest, function) if rest else results

    def _run_here(
        self,
        work: Sequence[tuple[TaskIdentity, T]],
        function: Callable[[TaskIdentity, T], R],
        most_seconds: float,
    ) -> list[R]:
        """Run tasks on the thread of the caller, until they take longer on average.

        Returns:
            The results of the tasks that ran, which are the first ones.
        """
        results: list[R] = []
        started = time.monotonic()
        for one in work:
            if time.monotonic() - started > most_seconds * (len(results) + _SPARED_TASKS):
                break
            results.append(function(*one))
            self._one_task_is_done()
        return results

    def _run_on_threads(
        self, work: Sequence[tuple[TaskIdentity, T]], function: Callable[[TaskIdentity, T], R]
    ) -> list[R]:
        with ThreadPool(min(self._parallelism, len(work)), "hoodie-task") as pool:
            futures = [pool.submit(function, task, item) for task, item in work]
            for future in futures:
                future.add_done_callback(self._one_task_is_done)
            done, pending = wait(futures, return_when=FIRST_EXCEPTION)
            if pending:
                for future in pending:
                    future.cancel()
                wait(pending)
            for future in futures:
                if future in done and future.exception() is not None:
                    future.result()
            return [future.result() for future in futures]

    def generate(
        self, items: Sequence[T], function: Callable[[TaskIdentity, T], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> LocalData:
        def partition(item: T) -> Callable[[TaskIdentity], Iterator[pa.RecordBatch]]:
            return lambda task: function(task, item)

        partitions = [partition(item) for item in items] or [lambda task: iter(())]
        return LocalData(self, schema, partitions)

    def share(self, value: T) -> Shared:
        return _LocalShared(value)

    @contextmanager
    def job(self, description: str, subject: str = "") -> Iterator[TaskCounter | None]:
        job = _LocalJob()
        self._jobs = [*self._jobs, job]
        try:
            yield job.tasks
        finally:
            self._jobs = [other for other in self._jobs if other is not job]

    def _one_task_is_done(self, future: Future[Any] | None = None) -> None:
        if future is None or not (future.cancelled() or future.exception()):
            for job in self._jobs:
                job.one_is_done()
