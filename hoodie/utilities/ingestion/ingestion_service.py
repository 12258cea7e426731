"""Rounds of the streamer: one, or one after the other until somebody ends them.

Hudi: org.apache.hudi.utilities.ingestion.HoodieIngestionService. Differs: a round that fails for a reason that may pass
is tried again; a signal finishes the round.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

import attrs

from hoodie.exception import (
    HoodieClusteringUpdateException,
    HoodieLockException,
    HoodieSourceTimeoutException,
    HoodieWriteConflictException,
)
from hoodie.utilities.config.streamer_run_config import HoodieStreamerConfig
from hoodie.utilities.streamer.streamer_config import StreamerConfig
from hoodie.utilities.streamer.sync_result import SyncResult

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_SECONDS = 60
_LOOK_AGAIN_SECONDS = 1.0
_WAIT_LINE_SECONDS = 60.0


class Rounds(Protocol):
    """The maker of rounds: `hoodie.utilities.streamer.stream_sync.StreamSync`."""

    def sync_once(self) -> SyncResult:
        """Make one round."""

    def make_way(self, max_compactions: int, max_clusterings: int) -> str | None:
        """Carry out pending services of the table, as far as the run may, until fewer than these are pending.

        Args:
            max_compactions: The number of pending compactions that no round begins with.
            max_clusterings: The same of clusterings.

        Returns:
            The reason why a round has to wait still; None if it may begin.
        """


class Termination(Protocol):
    """Ends continuous mode: `hoodie.utilities.ingestion.termination_strategy.PostWriteTerminationStrategy`."""

    def should_shutdown(self, result: SyncResult) -> bool:
        """Whether a round was the last one.

        Args:
            result: The outcome of the round.
        """


class RoundListener(Protocol):
    """Hears of every round."""

    def round_begins(self) -> None:
        """A round begins."""

    def round_ends(self, result: SyncResult) -> None:
        """A round ended well.

        Args:
            result: Its outcome.
        """

    def round_failed(self, error: BaseException) -> None:
        """A round failed.

        Args:
            error: The reason.
        """


@attrs.define(eq=False)
class IngestionService:
    """Runs the rounds of one table.

    Attributes:
        config: The flags.
        options: The properties of the run.
        rounds: Makes the rounds.
        listener: Hears of every round.
        termination: Ends continuous mode; None for no end.
        before_round: Called before each round of continuous mode; may change what `rounds` does.
    """

    config: StreamerConfig
    options: HoodieStreamerConfig
    rounds: Rounds
    listener: RoundListener
    termination: Termination | None = None
    before_round: Callable[[], None] = lambda: None
    _stop: threading.Event = attrs.field(init=False, factory=threading.Event)

    def stop(self) -> None:
        """Let the present round be the last one; may be called from any thread, and from a signal handler."""
        self._stop.set()

    @property
    def is_stopping(self) -> bool:
        """Whether somebody asked for the end."""
        return self._stop.is_set()

    def run(self) -> SyncResult | None:
        """Run to the end.

        Returns:
            The outcome of the last round; None if there was none.

        Raises:
            HoodieException: A round failed, for a reason that does not pass by itself, or too often.
        """
        if not self.config.continuous:
            return self._try_round(self.config.max_retry_count if self.config.retry_on_source_failures else 0)
        last: SyncResult | None = None
        failures = 0
        told = float("-inf")
        while not self._stop.is_set():
            begun = time.monotonic()
            try:
                self.before_round()
                waits_for = self.rounds.make_way(
                    self.config.max_pending_compactions, self.config.max_pending_clustering
                )
                if waits_for is not None:
                    told = self._tell_wait(waits_for, told, begun)
                    self._stop.wait(_LOOK_AGAIN_SECONDS)
                    continue
                told = float("-inf")
                last = self._round()
                failures = 0
            except Exception as error:
                failures += 1
                if not passes(error) or failures > self.options.retry_max_attempts:
                    raise
                pause = min(_LONGEST_PAUSE_SECONDS, self.options.retry_initial_seconds * 2 ** (failures - 1))
                logger.warning(
                    "round failed, attempt %d of %d; it is tried again in %s s: %s",
                    failures, self.options.retry_max_attempts + 1, pause, error,
                )  # fmt: skip
                self._stop.wait(pause)
                continue
            if self.termination is not None and self.termination.should_shutdown(last):
                logger.info("%s ends the run", type(self.termination).__name__)
                break
            self._stop.wait(max(0.0, self._interval(last) - (time.monotonic() - begun)))
        return last

    def _tell_wait(self, reason: str, told: float, now: float) -> float:
        """Tell in the log that a round waits, once a minute; the time at which that was told last."""
        if now - told < _WAIT_LINE_SECONDS:
            return told
        logger.info("the next round waits: %s", reason)
        return now

    def _interval(self, result: SyncResult) -> float:
        """The least seconds from the start of a round to that of the next one."""
        pause = 0.0 if result.is_committed else self.options.idle_seconds
        return max(float(self.config.min_sync_interval_seconds), pause)

    def _try_round(self, retries: int) -> SyncResult:
        """The only round; again after a time-out of the source, where the flags say so."""
        for attempt in range(retries + 1):
            try:
                return self._round()
            except HoodieSourceTimeoutException as error:
                if attempt == retries or self._stop.is_set():
                    raise
                logger.warning(
                    "the source timed out, attempt %d of %d; it is tried again in %d s: %s",
                    attempt + 1, retries + 1, self.config.retry_interval_seconds, error,
                )  # fmt: skip
                self._stop.wait(self.config.retry_interval_seconds)
        raise AssertionError("unreachable")

    def _round(self) -> SyncResult:
        self.listener.round_begins()
        try:
            result = self.rounds.sync_once()
        except BaseException as error:
            self.listener.round_failed(error)
            raise
        self.listener.round_ends(result)
        return result


def passes(error: BaseException) -> bool:
    """Whether the reason of a failed round may pass by itself, so that the round is tried again.

    Args:
        error: The error.
    """
    if isinstance(error, HoodieWriteConflictException):
        return bool(error.is_retry_safe)
    return isinstance(error, HoodieSourceTimeoutException | HoodieLockException | HoodieClusteringUpdateException)
