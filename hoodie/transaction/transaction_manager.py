"""Steps that one writer at a time may take.

Hudi: org.apache.hudi.client.transaction.TransactionManager.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.transaction.lock.lock_manager import LockManager, lock_provider_class
from hoodie.transaction.lock.lock_provider import LockClock, LockConfiguration

__all__ = ["Transaction", "TransactionManager"]

logger = logging.getLogger(__name__)


class Transaction:
    """What is done while the lock is held, if one is needed.

    Args:
        lock_manager: None for a single writer.
    """

    def __init__(self, lock_manager: LockManager | None) -> None:
        self._lock_manager = lock_manager

    def check_held(self) -> None:
        """To be called right before the step that must not be taken by two writers.

        Raises:
            HoodieLockException: The lock was lost meanwhile.
        """
        if self._lock_manager is not None:
            self._lock_manager.check_held()

    def is_held(self) -> bool:
        """Whether the lock was not lost until now; False also where that cannot be found out."""
        return self._lock_manager is None or self._lock_manager.is_held()


class TransactionManager:
    """Takes the table's lock where several writers are at work; for a single writer it does nothing.

    What is inside of a `transaction` reads the timeline again, decides, and changes it. One inside of another joins it.

    Args:
        config: Concurrency mode and lock.
        clock: The time of locks; for tests.

    Raises:
        HoodieConfigException: The lock provider is not known.

    Hudi: org.apache.hudi.client.transaction.TransactionManager.
    """

    def __init__(self, config: HoodieWriteConfig, clock: LockClock | None = None) -> None:
        if config.write.has_several_writers:
            # Said before anything is written.
            lock_provider_class(config.lock.provider)
        self._config = config
        self._clock = clock or LockClock()
        self._mutex = threading.RLock()
        self._current: Transaction | None = None
        self._lock_manager: LockManager | None = None

    @property
    def is_lock_required(self) -> bool:
        """Whether several writers may be at work."""
        return self._config.write.has_several_writers

    def check(self, snapshot: TableSnapshot) -> None:
        """Refuse a lock that can never be taken, before anything is written; nobody is asked for it yet.

        Args:
            snapshot: The table.

        Raises:
            HoodieConfigException: The lock lacks a property or a package, or is not for the table's storage.
        """
        if self.is_lock_required:
            with self._mutex:
                logger.debug("writes of %s are kept apart by %s", snapshot.base_path,
                             self._manager(snapshot).provider.name)  # fmt: skip

    @contextmanager
    def transaction(self, snapshot: TableSnapshot, owner: str) -> Iterator[Transaction]:
        """Hold the lock for a block; it is given back however the block ends.

        Args:
            snapshot: The table.
            owner: What is being done, for the log: an instant time or a service.

        Raises:
            HoodieLockException: Others held the lock for too long, or its service failed.
        """
        if not self.is_lock_required:
            yield Transaction(None)
            return
        with self._mutex:
            if self._current is not None:
                yield self._current
                return
            manager = self._manager(snapshot)
            manager.lock()
            logger.debug("%s of %s holds %s", owner, snapshot.base_path, manager.provider.name)
            self._current = Transaction(manager)
            try:
                yield self._current
            finally:
                self._current = None
                manager.unlock()

    def close(self) -> None:
        """Give the lock back if it is held, close connections."""
        with self._mutex:
            if self._lock_manager is not None:
                self._lock_manager.close()
                self._lock_manager = None

    def _manager(self, snapshot: TableSnapshot) -> LockManager:
        if self._lock_manager is None:
            self._lock_manager = LockManager(
                LockConfiguration(
                    base_path=snapshot.base_path,
                    table_name=snapshot.table_config.table_name,
                    storage=snapshot.storage,
                    options=self._config.lock,
                    properties=self._config.properties,
                    clock=self._clock,
                )
            )
        return self._lock_manager
