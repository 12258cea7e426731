"""The steps of a write: named, counted, timed, and reported to listeners.

Hudi: org.apache.hudi.metrics.HoodieMetrics.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import attrs

from hoodie.metrics.progress import (
    NO_TASKS,
    ProgressEvent,
    ProgressListener,
    ProgressState,
    TaskCount,
    TaskCounter,
    Ticker,
)


@attrs.frozen
class StepDuration:
    """One step that has ended.

    Attributes:
        name: The name, such as ``tag location``; all names are in ``docs/progress-and-metrics.md``.
        seconds: The duration, its parts included.
        detail: The particulars of this write, such as ``SIMPLE``; may be empty.
        depth: 0 for a step of the operation, 1 for a part of such a step, and so on.
        records: The number of records that it read or wrote; None if that is not known or makes no sense.
        files: The number of files that it found, wrote or deleted; None likewise.
        bytes: The size of those files; None likewise.
        tasks: The number of the engine's tasks that ran, as far as the engine told.
        spilled_bytes: Bytes that these tasks wrote to local disks because rows to sort, join or move did not fit into
            memory, as far as the engine told. Spark Connect tells nothing of it.
        failed: Whether it ended with an error.
    """

    name: str
    seconds: float
    detail: str = ""
    depth: int = 0
    records: int | None = None
    files: int | None = None
    bytes: int | None = None
    tasks: int = 0
    spilled_bytes: int = 0
    failed: bool = False

    @property
    def title(self) -> str:
        """Name and detail: ``tag location (SIMPLE)``."""
        return f"{self.name} ({self.detail})" if self.detail else self.name


class Step:
    """A step that is running; its code sets the counts.

    Attributes:
        name: As `StepDuration`.
        detail: As `StepDuration`.
        depth: As `StepDuration`.
        records: As `StepDuration`; set by `count`.
        files: Likewise.
        bytes: Likewise.
    """

    def __init__(self, name: str, detail: str, depth: int) -> None:
        self.name = name
        self.detail = detail
        self.depth = depth
        self.records: int | None = None
        self.files: int | None = None
        self.bytes: int | None = None
        self._started = time.monotonic()
        self._task_counter: TaskCounter | None = None

    @property
    def title(self) -> str:
        """Name and detail: ``tag location (SIMPLE)``."""
        return f"{self.name} ({self.detail})" if self.detail else self.name

    @property
    def seconds(self) -> float:
        """Time since the step began."""
        return time.monotonic() - self._started

    @property
    def tasks(self) -> TaskCount:
        """The engine's tasks so far."""
        return self._task_counter() if self._task_counter is not None else NO_TASKS

    def count(self, records: int | None = None, files: int | None = None, bytes: int | None = None) -> None:
        """Set counts; a count that is None stays as it was.

        Args:
            records: The number of records read or written.
            files: The number of files found, written or deleted.
            bytes: The size of those files.
        """
        self.records = self.records if records is None else records
        self.files = self.files if files is None else files
        self.bytes = self.bytes if bytes is None else bytes

    def follow(self, task_counter: TaskCounter | None) -> None:
        """Set the counter of the engine's tasks.

        Args:
            task_counter: The counter; None for an engine that does not count.
        """
        self._task_counter = task_counter


@attrs.define
class Operation:
    """One call of a client.

    Attributes:
        name: The caller's operation, such as ``upsert``.
        summary: Its result in one line, set before its end; shown in place of a progress bar.
    """

    name: str
    summary: str = ""


class HoodieMetrics:
    """Times the steps of one client's calls, and reports them to listeners.

    A client is for one thread, and so is this object. Without listeners nothing runs beside the write.

    Args:
        job: Names the engine's jobs inside a step and returns a counter of their tasks: `HoodieEngineContext.job`.
        listeners: Receive the events of every step.
        check: Called before each call; its error becomes the call's error.
        table: The table's folder, which is told to the engine with each job.

    Attributes:
        instant_time: The instant that the running call writes, told likewise; a call begins without one.

    Hudi: org.apache.hudi.metrics.HoodieMetrics.
    """

    def __init__(
        self,
        job: Callable[[str, str], AbstractContextManager[TaskCounter | None]] | None = None,
        listeners: Sequence[ProgressListener] = (),
        check: Callable[[], None] = lambda: None,
        table: str = "",
    ) -> None:
        self.instant_time = ""
        self._check = check
        self._job = job or (lambda description, subject: nullcontext())
        self._table = table
        self._listeners = tuple(listeners)
        self._lock = threading.RLock()
        self._operation: Operation | None = None
        self._thread: int | None = None
        self._others: set[int] = set()
        self._stack: list[Step] = []
        self._told = NO_TASKS
        self._entries: list[StepDuration | None] = []

    def __repr__(self) -> str:
        seconds = sum(step.seconds for step in self.steps if step.depth == 0)
        now = f" in={self._operation.name}" if self._operation is not None else ""
        return f"<{type(self).__name__} steps={len(self.steps)} seconds={seconds:.2f}{now}>"

    @property
    def steps(self) -> tuple[StepDuration, ...]:
        """The steps that have ended since `restart`, in the order in which they began: a step, then its parts."""
        return tuple(entry for entry in self._entries if entry is not None)

    @property
    def is_own_thread(self) -> bool:
        """Whether the current thread is the one of a running call of the client; other threads have no steps here."""
        return self._thread == threading.get_ident()

    def tell_again(self, step: Step, detail: str) -> None:
        """Change the detail of a running step, and report it.

        Args:
            step: The step.
            detail: Its new detail.
        """
        step.detail = detail
        self._tell(step, ProgressState.ADVANCED, step.tasks)

    def restart(self) -> None:
        """Forget the steps so far, because another piece of work begins."""
        if not self._stack:
            self._entries.clear()

    @contextmanager
    def operation(self, name: str) -> Iterator[Operation]:
        """One call of a client, during which listeners receive events; a call inside a call is part of it.

        Args:
            name: The caller's operation, such as ``upsert``.
        """
        if self._operation is not None:
            yield self._operation
            return
        self._check()
        self._operation = operation = Operation(name)
        self._thread = threading.get_ident()
        for listener in self._listeners:
            listener.begin(name)
        ticker = Ticker(self._tick) if self._listeners else None
        succeeded = False
        try:
            with self._job(f"hoodie: {name}", self._table):
                yield operation
            succeeded = True
        finally:
            self._operation = self._thread = None
            self.instant_time = ""
            if ticker is not None:
                ticker.stop()
            for listener in self._listeners:
                listener.end(operation.summary if succeeded else "")

    @contextmanager
    def beside(self) -> Iterator[None]:
        """The current thread works beside the client's calls: its steps inside are not counted."""
        self._others.add(threading.get_ident())
        try:
            yield
        finally:
            self._others.discard(threading.get_ident())

    @contextmanager
    def step(self, name: str, detail: str = "") -> Iterator[Step]:
        """Time the code inside; a step that fails is timed as well. Steps inside are parts of it.

        Args:
            name: The step's name.
            detail: The particulars of this write.
        """
        step = Step(name, detail, len(self._stack))
        if threading.get_ident() in self._others:
            yield step
            return
        place = len(self._entries)
        self._entries.append(None)
        error: BaseException | None = None
        tasks = NO_TASKS
        with self._lock:
            self._stack.append(step)
            self._told = NO_TASKS
        try:
            with self._job(f"hoodie: {step.title}", self._subject) as task_counter:
                step.follow(task_counter)
                self._tell(step, ProgressState.STARTED, NO_TASKS)
                yield step
                tasks = step.tasks
        except BaseException as raised:
            error = raised
            raise
        finally:
            with self._lock:
                self._stack.remove(step)
                self._told = NO_TASKS
            seconds = step.seconds
            self._entries[place] = StepDuration(
                name=step.name,
                seconds=seconds,
                detail=step.detail,
                depth=step.depth,
                records=step.records,
                files=step.files,
                bytes=step.bytes,
                tasks=tasks.done,
                spilled_bytes=tasks.spilled_bytes,
                failed=error is not None,
            )
            self._tell(step, ProgressState.FINISHED if error is None else ProgressState.FAILED, tasks, error)

    @property
    def _subject(self) -> str:
        """Call, instant and table: ``upsert 20261127182611123 of /data/trips``."""
        call = "" if self._operation is None else self._operation.name
        whole = " ".join(filter(None, (call, self.instant_time)))
        return " of ".join(filter(None, (whole, self._table)))

    def _tick(self) -> None:
        """On the ticker's thread: report the progress of the tasks if it changed."""
        with self._lock:
            step = self._stack[-1] if self._stack else None
            before = self._told
        tasks = step.tasks if step is not None else NO_TASKS
        with self._lock:
            if step is not None and self._stack and self._stack[-1] is step and tasks != before:
                self._told = tasks
                self._tell(step, ProgressState.ADVANCED, tasks)
            for listener in self._listeners:
                listener.tick()

    def _tell(self, step: Step, state: ProgressState, tasks: TaskCount, error: BaseException | None = None) -> None:
        if not self._listeners:
            return
        event = ProgressEvent(
            step=step.name,
            state=state,
            done=tasks.done,
            total=tasks.total,
            seconds=step.seconds,
            detail=step.detail,
            depth=step.depth,
            operation=self._operation.name if self._operation is not None else "",
            error=error,
        )
        with self._lock:
            for listener in self._listeners:
                listener.on_event(event)
