"""A lock between processes that are each configured as the only writer of a table."""

from __future__ import annotations

import errno
import json
import logging
import os
import random
import threading

from hoodie.common.util.process_identity import describe_process, name_process
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieLockException
from hoodie.storage import storage_path
from hoodie.storage.process_lock import (
    LocksNotSupportedError,
    ProcessLock,
    is_process_lock_held,
    read_note,
    try_process_lock,
)
from hoodie.storage.storage_path import METAFOLDER_NAME
from hoodie.transaction.lock.lock_holding import LockHolding
from hoodie.transaction.lock.lock_waiting import LockClock, LockWaiting

logger = logging.getLogger(__name__)

SEVERAL_WRITERS = (
    "Several writers, and table services in another process, need "
    "hoodie.write.concurrency.mode=OPTIMISTIC_CONCURRENCY_CONTROL and the same hoodie.write.lock.provider for all of "
    "them"
)
"""The advice of messages for tables with more than one writer."""
_PATH = (METAFOLDER_NAME, ".locks", "single_writer.lock")
_QUEUE_SUFFIX = ".queue"
_FIRST_PAUSE_MS = 5
_LONGEST_PAUSE_MS = 100
_warned: set[str] = set()
"""Lock files that cannot be locked, and for which a warning was logged."""


class SingleWriterLock:
    """One client's share in the lock that its process holds on a table on a file system.

    The client takes the lock for its first reason to hold it and releases it with the last one: the open instants of
    the client, and its current call. Clients and threads of one process do not exclude each other. The kernel releases
    the lock when the process ends; a forked child does not hold it. A garbage-collected client releases it.

    A waiting process holds a second lock, the queue, which every process asks for first: so a process that writes
    without a pause has to wait behind it.

    Args:
        config: The client's configuration.
        waiting: Reports waits.
        clock: The clock.
    """

    def __init__(self, config: HoodieWriteConfig, waiting: LockWaiting, clock: LockClock) -> None:
        self._base_path = storage_path.normalise_path(config.base_path)
        self._wait_ms = config.lock.wait_time_ms
        self._waiting = waiting
        self._clock = clock
        self._is_on = (
            config.lock.single_writer_enable
            and not config.write.has_several_writers
            and storage_path.scheme(self._base_path) == "file"
        )
        self._path = storage_path.join(self._base_path, *_PATH) if self._is_on else ""
        self._mutex = threading.RLock()
        self._reasons: set[object] = set()
        self._lock: ProcessLock | None = None

    @property
    def is_held(self) -> bool:
        """Whether this lock keeps processes apart now; False where there are no locks."""
        return self._lock is not None and self._lock.is_held

    def keep(self, reason: object, is_patient: bool = True) -> None:
        """Hold the lock until the reason is dropped; adding the same reason again has no effect.

        Args:
            reason: Such as an instant time.
            is_patient: Whether to wait for another process.

        Raises:
            HoodieLockException: Another process held it all the time.
        """
        with self._mutex:
            if self.is_held or not self._is_on:
                self._reasons.add(reason)
                return
        found = self._take(is_patient)
        with self._mutex:
            self._reasons.add(reason)
            if found is not None and not self.is_held:
                self._lock, found = found, None
        if found is not None:
            # Another thread of this client has taken it in the meantime.
            found.give_back()

    def drop(self, reason: object) -> None:
        """Remove a reason; the last one releases the lock. An unknown reason has no effect."""
        with self._mutex:
            self._reasons.discard(reason)
            if not self._reasons:
                self.close()

    def close(self) -> None:
        """Release the lock, regardless of reasons."""
        with self._mutex:
            self._reasons.clear()
            lock, self._lock = self._lock, None
        if lock is not None:
            lock.give_back()

    def _take(self, is_patient: bool) -> ProcessLock | None:
        if not os.path.isdir(storage_path.parent(storage_path.parent(self._path))):
            # There is no table yet; a writer that creates it begins to write after that.
            return None
        try:
            found = self._look()
            if found is None and is_patient:
                found = self._wait()
        except LocksNotSupportedError as error:
            if error.errno != errno.ENOENT and self._path not in _warned:
                _warned.add(self._path)
                logger.warning(
                    "%s cannot be locked (%s): writers in other processes are not kept out of %s. Run one writer at a "
                    "time. %s", self._path, error.strerror or error, self._base_path, SEVERAL_WRITERS,
                )  # fmt: skip
            return None
        if found is None:
            waited = f"for {self._wait_ms / 1000:.0f} s (hoodie.write.lock.wait_time_ms)" if is_patient else "no longer"
            raise HoodieLockException(
                f"{self._base_path} is being written by {self._holder()}; this writer waited {waited}. Nothing was "
                f"changed. {self._way_out()}"
            )
        return found

    def _look(self) -> ProcessLock | None:
        """Take the lock if no process has it and none waits for it."""
        queue = try_process_lock(self._path + _QUEUE_SUFFIX)
        if queue is None:
            return None
        try:
            return try_process_lock(self._path, self._note())
        finally:
            queue.give_back()

    def _wait(self) -> ProcessLock | None:
        deadline = self._clock.monotonic_ms() + self._wait_ms
        pause_ms = float(_FIRST_PAUSE_MS)
        queue: ProcessLock | None = None
        try:
            with self._waiting.wait(f"the writer of {self._base_path} in another process"):
                while True:
                    queue = queue or try_process_lock(self._path + _QUEUE_SUFFIX)
                    found = None if queue is None else try_process_lock(self._path, self._note())
                    left_ms = deadline - self._clock.monotonic_ms()
                    if found is not None or left_ms <= 0:
                        return found
                    self._waiting.tell(self._holder, self._way_out)
                    self._clock.sleep_ms(min(random.uniform(pause_ms / 2, pause_ms), left_ms))
                    pause_ms = min(pause_ms * 2, _LONGEST_PAUSE_MS)
        finally:
            if queue is not None:
                queue.give_back()

    def _note(self) -> bytes:
        return json.dumps({**describe_process(), "since": self._clock.wall_ms()}).encode()

    def holding(self) -> LockHolding | None:
        """The process that holds the lock now, this one or another; None if nobody does."""
        if not self._is_on or not is_process_lock_held(self._path):
            return None
        return LockHolding(self._holder())

    def way_out(self) -> str:
        """Advice for a user who waits for the lock."""
        return self._way_out()

    @property
    def path(self) -> str:
        """The file of the lock; "" where there is none."""
        return self._path

    def _holder(self) -> str:
        try:
            note = json.loads(read_note(self._path))
            since_s = (self._clock.wall_ms() - note["since"]) / 1000
            return f"{name_process(note)}, for {since_s:.0f} s ({self._path})"
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return f"another process ({self._path})"

    def _way_out(self) -> str:
        return (
            "Let that process finish; it releases the lock when its write is committed, rolled back or given up by "
            f"client.close(), or at the latest when it ends. {SEVERAL_WRITERS}. "
            "hoodie.write.lock.single.writer.enable=false turns this lock off"
        )
