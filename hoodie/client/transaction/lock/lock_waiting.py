"""What somebody who waits for a lock is told, and how the wait ends early."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from hoodie.exception import HoodieLockException
from hoodie.metrics.metrics import HoodieMetrics, Step

__all__ = ["LockClock", "LockWaiting"]

logger = logging.getLogger(__name__)

FIRST_LINE_MS = 5_000
"""A wait that is over before says nothing; the next line comes after twice the time, and so on."""
LONGEST_INTERVAL_MS = 600_000


class LockClock:
    """The time as locks see it; tests have their own."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, to compare with what others wrote."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment, for spans of time: never set back."""
        return time.monotonic_ns() // 1_000_000

    def sleep_ms(self, duration_ms: float) -> None:
        """Let time pass."""
        time.sleep(duration_ms / 1000)


class LockWaiting:
    """The waits of one client: a log line at growing intervals, and a step of its progress.

    Args:
        metrics: Of the client; None where nobody follows.
        clock: The time.
    """

    def __init__(self, metrics: HoodieMetrics | None = None, clock: LockClock | None = None) -> None:
        self._metrics = metrics
        self._clock = clock or LockClock()
        self._is_called_off = False
        self._local = threading.local()

    @contextmanager
    def wait(self, name: str) -> Iterator[None]:
        """Around one wait, whatever it consists of; `tell` is called inside of it.

        Args:
            name: What is waited for, for the log.
        """
        with ExitStack() as stack:
            self._local.wait = _Wait(name, self._clock.monotonic_ms(), stack)
            try:
                yield
            finally:
                self._local.wait = None

    def tell(self, owner_information: Callable[[], str], way_out: Callable[[], str]) -> None:
        """Say who is waited for, when it is time to; to be called again and again.

        Args:
            owner_information: Who holds the lock; asked only when a line is due.
            way_out: What may be done about it, a sentence; likewise.

        Raises:
            HoodieLockException: The wait is called off.
        """
        wait: _Wait | None = getattr(self._local, "wait", None)
        if self._is_called_off:
            raise HoodieLockException("waiting for the lock was called off: the client is being closed")
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
        """Let every wait end by an error, now and later."""
        self._is_called_off = True


class _Wait:
    """One wait.

    Args:
        name: What is waited for.
        began_ms: When it began, on the monotonic clock.
        stack: Ends its step with it.
    """

    def __init__(self, name: str, began_ms: int, stack: ExitStack) -> None:
        self.name = name
        self.began_ms = began_ms
        self.stack = stack
        self.next_line_ms = FIRST_LINE_MS
        self.interval_ms = 2 * FIRST_LINE_MS
        self.step: Step | None = None
