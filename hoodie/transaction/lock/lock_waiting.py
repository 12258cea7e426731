"""Report waits for a lock, and end them early."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from hoodie.exception import HoodieLockException
from hoodie.metrics.metrics import HoodieMetrics, Step

logger = logging.getLogger(__name__)

FIRST_LINE_MS = 5_000
"""A shorter wait logs nothing; the second line follows after twice this time, the third after four times, and so on."""
LONGEST_INTERVAL_MS = 600_000


class LockClock:
    """The clock that locks use; tests replace it."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, to compare with times that others wrote."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary moment, to measure durations; never set back."""
        return time.monotonic_ns() // 1_000_000

    def sleep_ms(self, duration_ms: float) -> None:
        """Sleep."""
        time.sleep(duration_ms / 1000)


class LockWaiting:
    """The waits of one client: log lines at growing intervals, and a step of its progress.

    Args:
        metrics: The client's metrics; None if nobody follows them.
        clock: The clock.
    """

    def __init__(self, metrics: HoodieMetrics | None = None, clock: LockClock | None = None) -> None:
        self._metrics = metrics
        self._clock = clock or LockClock()
        self._is_called_off = False
        self._local = threading.local()

    @contextmanager
    def wait(self, name: str) -> Iterator[None]:
        """A context around one wait; `tell` is called inside it.

        Args:
            name: The name of the lock, for the log.
        """
        with ExitStack() as stack:
            self._local.wait = _Wait(name, self._clock.monotonic_ms(), stack)
            try:
                yield
            finally:
                self._local.wait = None

    def tell(self, owner_information: Callable[[], str], way_out: Callable[[], str]) -> None:
        """Report whom the wait is for, if a log line is due; call this again and again.

        Args:
            owner_information: Returns who holds the lock; called only if a line is due.
            way_out: Returns what the user can do, as a sentence; called only if a line is due.

        Raises:
            HoodieLockException: The wait was cancelled.
        """
        wait: _Wait | None = getattr(self._local, "wait", None)
        if self._is_called_off:
            raise HoodieLockException("the wait for the lock was cancelled: the client is being closed")
        if wait is None:
            return
        waited_ms = self._clock.monotonic_ms() - wait.began_ms
        if waited_ms < wait.next_line_ms:
            return
        wait.next_line_ms = waited_ms + wait.interval_ms
        wait.interval_ms = min(wait.interval_ms * 2, LONGEST_INTERVAL_MS)
        owner = owner_information()
        text = f"waiting for {wait.name} for {waited_ms / 1000:.0f} s; held by {owner}. {way_out()}"
        logger.warning("%s", text)
        if self._metrics is not None and self._metrics.is_own_thread:
            if wait.step is None:
                wait.step = wait.stack.enter_context(self._metrics.step("wait for the lock", f"held by {owner}"))
            else:
                self._metrics.tell_again(wait.step, f"held by {owner}")

    def call_off(self) -> None:
        """End every wait with an error, now and later."""
        self._is_called_off = True


class _Wait:
    """One wait.

    Args:
        name: The name of the lock.
        began_ms: The start of the wait, on the monotonic clock.
        stack: Ends the progress step together with the wait.
    """

    def __init__(self, name: str, began_ms: int, stack: ExitStack) -> None:
        self.name = name
        self.began_ms = began_ms
        self.stack = stack
        self.next_line_ms = FIRST_LINE_MS
        self.interval_ms = 2 * FIRST_LINE_MS
        self.step: Step | None = None
