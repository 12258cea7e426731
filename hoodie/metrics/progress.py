"""Reports of a write while it runs: events for programs, and the thread that follows its tasks.

``docs/progress-and-metrics.md`` shows how to use it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import StrEnum

import attrs

from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.threads import start_thread

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.25
"""Time between two looks at the engine's tasks."""


class ProgressState(StrEnum):
    """The state that a step has reached."""

    STARTED = "started"
    ADVANCED = "advanced"
    FINISHED = "finished"
    FAILED = "failed"


@attrs.frozen
class TaskCount:
    """Tasks of the engine.

    Attributes:
        done: The number that have ended well.
        total: The number of all, as far as it is known now; 0 for a step without tasks.
        spilled_bytes: Bytes that they wrote to local disks because rows to sort, join or move did not fit into memory.
    """

    done: int = 0
    total: int = 0
    spilled_bytes: int = 0


NO_TASKS = TaskCount()

TaskCounter = Callable[[], TaskCount]
"""Counts the tasks of one step so far; may be called from another thread."""


@attrs.frozen
class ProgressEvent:
    """One thing that happened during a write.

    Attributes:
        step: The step's name, such as ``tag location``; all names are in ``docs/progress-and-metrics.md``.
        state: The state that the step has reached.
        done: Tasks of the engine that have ended.
        total: Tasks of the engine that are known; 0 for a step without tasks.
        seconds: Time since the step began.
        detail: The particulars of this write, such as ``SIMPLE``; may be empty.
        depth: 0 for a step of the operation, 1 for a part of such a step, and so on.
        operation: The caller's operation, such as ``upsert``.
        error: The error of a failed step.
    """

    step: str
    state: ProgressState
    done: int
    total: int
    seconds: float
    detail: str = ""
    depth: int = 0
    operation: str = ""
    error: BaseException | None = attrs.field(default=None, eq=False)

    @property
    def title(self) -> str:
        """Step and detail: ``tag location (SIMPLE)``."""
        return f"{self.step} ({self.detail})" if self.detail else self.step


ProgressCallback = Callable[[ProgressEvent], object]
"""A function of a program that receives events."""


class ProgressListener:
    """Follows the calls of one client. Its methods do nothing: a listener overrides those that it needs.

    The client's thread and a `Ticker` call it, never both at once.
    """

    def begin(self, operation: str) -> None:
        """A call of the client begins."""

    def on_event(self, event: ProgressEvent) -> None:
        """Something happened to a step."""

    def tick(self) -> None:
        """Some time has passed."""

    def end(self, summary: str) -> None:
        """The call is over.

        Args:
            summary: Its result in one line; "" when it failed.
        """


def check_callback(callback: object) -> None:
    """Refuse an ``on_progress`` that cannot receive events.

    Args:
        callback: The value that a program gave as ``on_progress``; None for none.

    Raises:
        HoodieConfigException: It cannot be called.
    """
    if callback is not None and not callable(callback):
        raise HoodieConfigException(
            f"on_progress is {callback!r}, a {type(callback).__name__}: give a function that takes a "
            "hoodie.ProgressEvent, or None. The property hoodie.write.progress.enable shows a bar on the terminal"
        )


class SafeCallback(ProgressListener):
    """A program's callback as a listener: its errors do not reach the write, and the first is logged.

    Args:
        callback: The program's function.

    Raises:
        HoodieConfigException: It cannot be called.
    """

    def __init__(self, callback: ProgressCallback) -> None:
        check_callback(callback)
        self._callback = callback
        self._has_failed = False

    def on_event(self, event: ProgressEvent) -> None:
        """Hand the event on."""
        try:
            self._callback(event)
        except Exception:
            if not self._has_failed:
                logger.warning(
                    "the progress callback %r raised an error at step %r; the write goes on, and further errors of "
                    "it are not logged", self._callback, event.step, exc_info=True,
                )  # fmt: skip
            self._has_failed = True


class Ticker:
    """Calls a function repeatedly on a daemon thread, until it is stopped.

    Args:
        function: The function. An error ends the calls and is logged at DEBUG, because progress must not fail a write.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hoodie-progress", daemon=True)
        try:
            start_thread(self._thread)
        except HoodieException as error:
            logger.debug("progress is not followed: %s", error)

    def _run(self) -> None:
        while not self._stopped.wait(TICK_SECONDS):
            try:
                self._function()
            except Exception:
                logger.debug("progress is not followed any longer", exc_info=True)
                return

    def stop(self) -> None:
        """Stop, and wait for a call that is under way."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
