"""Steps that only one writer at a time may take.

==================================  ====================  ================================================
writers                             metadata table        what keeps them apart
==================================  ====================  ================================================
several                             with or without       ``hoodie.write.lock.provider``
a single one, on a file system      with or without       a lock of the operating system, by process
a single one, on an object store    listed, or asked for  the same provider; by default that of the store
a single one, on an object store    none                  nothing; see `RollbackService`
==================================  ====================  ================================================

Hudi: org.apache.hudi.client.transaction.TransactionManager.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.metadata.metadata_table import MetadataTable, MetadataTableUpkeep, one_at_a_time
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.storage.storage_path import normalise_path, scheme
from hoodie.transaction.begun_instants import forget_instant, note_instant
from hoodie.transaction.lock.lock_manager import LockManager, lock_provider_class
from hoodie.transaction.lock.lock_provider import LockConfiguration
from hoodie.transaction.lock.lock_waiting import LockClock, LockWaiting
from hoodie.transaction.lock.single_writer_lock import SingleWriterLock

logger = logging.getLogger(__name__)

_LOCK_OF_STORES = "StorageBasedLockProvider"


class Transaction:
    """A block that holds the lock, if one is needed.

    Args:
        lock_manager: The manager of the lock; None for a single writer.
    """

    def __init__(self, lock_manager: LockManager | None) -> None:
        self._lock_manager = lock_manager
        self.was_held: bool | None = None
        """Whether the lock was held until it was released; None before, see `tells_at_release`."""

    @property
    def has_lock(self) -> bool:
        """Whether there is a lock, which all writers of the table wait for; False for a single writer without one."""
        return self._lock_manager is not None

    @property
    def tells_at_release(self) -> bool:
        """Whether the end of the block tells by `was_held` if the lock was held until then."""
        return self._lock_manager is not None and self._lock_manager.provider.tells_at_release

    def check_held(self) -> None:
        """Check the lock; call this right before a step that two writers must not take at once.

        Raises:
            HoodieLockException: The lock was lost meanwhile.
        """
        if self._lock_manager is not None:
            self._lock_manager.check_held()

    def is_held(self) -> bool:
        """Whether the lock is still held; False also if that cannot be determined."""
        return self._lock_manager is None or self._lock_manager.is_held()


class TransactionManager:
    """Takes the table's lock where several writers are at work, and keeps other processes out where one is.

    The body of a `transaction` reads the timeline again, decides, and changes it. A nested transaction joins the outer
    one. A single writer holds its lock for longer, from before it reads the table until none of its instants is under
    way: see `alone` and `keep`.

    Args:
        config: Concurrency mode and lock.
        clock: The time of locks; for tests.
        metrics: Receives the waits for the lock; None without metrics.

    Raises:
        HoodieConfigException: The lock provider is not known.

    Hudi: org.apache.hudi.client.transaction.TransactionManager.
    """

    def __init__(
        self, config: HoodieWriteConfig, clock: LockClock | None = None, metrics: HoodieMetrics | None = None
    ) -> None:
        if config.write.has_several_writers:
            # An unknown provider must fail before anything is written.
            lock_provider_class(config.lock.provider)
        self._config = config
        self._clock = clock or LockClock()
        self._base_path = normalise_path(config.base_path)
        self._waiting = LockWaiting(metrics, self._clock)
        self._single = SingleWriterLock(config, self._waiting, self._clock)
        self._gave_up = False
        self._mutex = threading.RLock()
        self._current: Transaction | None = None
        self._lock_manager: LockManager | None = None

    @property
    def is_lock_required(self) -> bool:
        """Whether several writers may be at work."""
        return self._config.write.has_several_writers

    def takes_lock(self, snapshot: TableSnapshot) -> bool:
        """Whether a transaction waits for other writers at a lock provider; then read the table again under it.

        Args:
            snapshot: The table.
        """
        return self.is_lock_required or self._shares_metadata_table(snapshot)

    def _shares_metadata_table(self, snapshot: TableSnapshot) -> bool:
        """Whether a single writer must lock the table, as its storage has no locks of the operating system."""
        if not self._config.lock.single_writer_enable or scheme(self._base_path) == "file":
            return False
        return MetadataTable(snapshot, MetadataTableUpkeep(self._config.metadata)).is_wanted()

    @property
    def gave_up(self) -> bool:
        """Whether the newest attempt to take the lock was interrupted or failed, so that waiting again is no use."""
        return self._gave_up

    @property
    def keeps_processes_apart(self) -> bool:
        """Whether a single writer now holds a lock that keeps writers in other processes out."""
        return self._single.is_held

    @contextmanager
    def alone(self, is_patient: bool = True) -> Iterator[None]:
        """Keep writers in other processes out for a block, in the mode of a single writer.

        Args:
            is_patient: Whether to wait for other processes; otherwise the lock is tried once.

        Raises:
            HoodieLockException: Another process is writing, and did not finish during the wait.
        """
        reason = object()
        try:
            with self._noting():
                self._single.keep(reason, is_patient)
            yield
        finally:
            self._single.drop(reason)

    def announce(self, instant_time: str) -> None:
        """Register an instant of this process that is about to be made; `drop` removes it."""
        note_instant(self._base_path, instant_time)

    def keep(self, instant_time: str) -> None:
        """Keep writers in other processes out until an instant is dropped.

        Raises:
            HoodieLockException: See `alone`.
        """
        with self._noting():
            self._single.keep(instant_time)

    def drop(self, instant_time: str, has_ended: bool = True) -> None:
        """Release the lock for an instant that was kept.

        Args:
            instant_time: The instant.
            has_ended: False when it is left for other writers to finish or roll back.
        """
        self._single.drop(instant_time)
        if has_ended:
            forget_instant(self._base_path, instant_time)

    @property
    def clock(self) -> LockClock:
        """The time of locks."""
        return self._clock

    def check(self, snapshot: TableSnapshot) -> None:
        """Refuse a lock that can never be taken, before anything is written; the lock service is not called yet.

        Args:
            snapshot: The table.

        Raises:
            HoodieConfigException: The lock lacks a property or a package, or is not for the table's storage.
        """
        if self.takes_lock(snapshot):
            with self._mutex:
                logger.debug("writes of %s are kept apart by %s", snapshot.base_path,
                             self._manager(snapshot).provider.name)  # fmt: skip

    @contextmanager
    def transaction(self, snapshot: TableSnapshot, owner: str, is_patient: bool = True) -> Iterator[Transaction]:
        """Hold the lock for a block, and release it however the block ends.

        Args:
            snapshot: The table.
            owner: The instant time or service that takes the lock, for the log.
            is_patient: Whether to wait for other writers; otherwise the lock is tried once.

        Raises:
            HoodieLockException: Other writers held the lock for too long, or its service failed.
        """
        if not self.takes_lock(snapshot):
            with self.alone(is_patient):
                yield Transaction(None)
            return
        with self._mutex:
            if self._current is not None:
                yield self._current
                return
            manager = self._manager(snapshot)
            with self._noting():
                manager.lock(is_patient)
            logger.debug("%s of %s holds %s", owner, snapshot.base_path, manager.provider.name)
            transaction = self._current = Transaction(manager)
            try:
                yield transaction
            finally:
                self._current = None
                transaction.was_held = manager.unlock()

    @contextmanager
    def held(self, snapshot: TableSnapshot, owner: str, is_patient: bool = True) -> Iterator[Transaction]:
        """Hold the lock for a block that the threads of this process must not run at once either.

        So is a change of the metadata table; and a commit beside a rollback: a single writer's lock keeps processes
        apart, and another client of this process may take a write for failed and roll it back while it is completed.

        The lock comes first, and then the mutex of the table: `MetadataTable` and `complete_instant` take it below a
        lock that is held, and nobody waits for the lock while it has the mutex.

        Args:
            snapshot: The table.
            owner: See `transaction`.
            is_patient: See `transaction`.

        Raises:
            HoodieLockException: See `transaction`.
        """
        with self.transaction(snapshot, owner, is_patient) as transaction, one_at_a_time(snapshot):
            yield transaction

    def giving_a_time(self, snapshot: TableSnapshot) -> AbstractContextManager[object]:
        """Hold the lock for a block that takes an instant time or completes an instant, where that needs it.

        In tables with completion times each time must be greater than all that were given out. A metadata table is
        written by one at a time.

        Args:
            snapshot: The table.
        """
        has_metadata_table = bool(snapshot.table_config.metadata_partitions)
        if not snapshot.active_timeline.layout.has_completion_times and not has_metadata_table:
            return nullcontext()
        return self.transaction(snapshot, "taking a time")

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Record whether an attempt to take the lock fails."""
        try:
            yield
        except BaseException:
            self._gave_up = True
            raise
        self._gave_up = False

    def call_off(self) -> None:
        """End the waits of this client's threads for the lock."""
        self._waiting.call_off()

    def close(self) -> None:
        """Release the lock if it is held, and close connections."""
        self._single.close()
        with self._mutex:
            if self._lock_manager is not None:
                self._lock_manager.close()
                self._lock_manager = None

    def _manager(self, snapshot: TableSnapshot) -> LockManager:
        if self._lock_manager is None:
            options = self._config.lock
            if not self.is_lock_required and options.provider is None:
                options = attrs.evolve(options, provider=_LOCK_OF_STORES)
            self._lock_manager = LockManager(
                LockConfiguration(
                    base_path=snapshot.base_path,
                    table_name=snapshot.table_config.table_name,
                    storage=snapshot.storage,
                    options=options,
                    properties=self._config.properties,
                    clock=self._clock,
                    waiting=self._waiting,
                )
            )
        return self._lock_manager
