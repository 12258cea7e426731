"""Locks that keep the writers of a table apart: the interface, and the base of providers with a lease.

Hudi: org.apache.hudi.common.lock.LockProvider.
"""

from __future__ import annotations

import logging
import random
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import attrs

from hoodie.common.util.process_identity import describe_process
from hoodie.config.lock_config import HoodieLockConfig
from hoodie.exception import HoodieConfigException, HoodieException, HoodieLockException
from hoodie.storage.storage import HoodieStorage
from hoodie.threads import start_thread
from hoodie.transaction.lock.lock_holding import LockHolding
from hoodie.transaction.lock.lock_waiting import LockClock, LockWaiting

logger = logging.getLogger(__name__)


@attrs.frozen
class LockConfiguration:
    """The configuration of a lock provider.

    Attributes:
        base_path: The table's folder, normalised.
        table_name: The table's name; "" if it is not known.
        storage: The table's storage.
        options: The typed lock properties.
        properties: All properties as they were given, for a user's own provider.
        clock: The clock.
        waiting: Called again and again during a wait for another holder; see `LockProvider.tell_of_waiting`.

    Hudi: org.apache.hudi.common.config.LockConfiguration.
    """

    base_path: str
    table_name: str
    storage: HoodieStorage = attrs.field(repr=False)
    options: HoodieLockConfig
    properties: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    clock: LockClock = attrs.field(factory=LockClock, repr=False)
    waiting: LockWaiting = attrs.field(factory=LockWaiting, repr=False)


class LockProvider(ABC):
    """The lock of one table, as one writer sees it; used by one thread at a time, and not reentrant.

    Of all providers that name the same lock, at most one holds it: in this process, in others, on other machines. One
    case cannot be ruled out: a holder is suspended for longer than its lease, and wakes up after another writer took
    the lock. Therefore `is_held` is called right before the step that the lock guards.

    Your own provider must have this constructor; ``hoodie.write.lock.provider`` names it.

    Args:
        configuration: The table and the properties.

    Attributes:
        reaches_other_hosts: Whether writers on other machines can take the lock, whose clocks may differ.

    Hudi: org.apache.hudi.common.lock.LockProvider.
    """

    reaches_other_hosts: ClassVar[bool] = True

    def __init__(self, configuration: LockConfiguration) -> None:
        self.configuration = configuration

    def _needs(self, module: object, package: str, *, extra: str) -> None:
        """Raise if an optional package is missing.

        Args:
            module: The imported module; None if it is missing.
            package: The package's name.
            extra: The extra of hoodie that installs it.

        Raises:
            HoodieConfigException: The package is missing.
        """
        if module is None:
            raise HoodieConfigException(
                f"hoodie.write.lock.provider = {type(self).__name__} needs {package}: pip install 'hoodie[{extra}]'"
            )

    @abstractmethod
    def try_lock(self, timeout_ms: int) -> bool:
        """Take the lock, waiting for its holder.

        Args:
            timeout_ms: The longest wait; with 0 the lock is tried once.

        Returns:
            True if it is held now; False if another one held it all the time.

        Raises:
            HoodieException: The service failed; nothing is held.
        """

    tells_at_release = False
    """Whether `unlock` tells if the lock was held until then."""

    @abstractmethod
    def unlock(self) -> bool | None:
        """Release the lock. Does nothing if it is not held or was lost: a lock of another writer is never released.

        Returns:
            Whether it was held until then; None where the provider does not tell.

        Raises:
            HoodieException: The service failed; the lock may be held until it expires.
        """

    @abstractmethod
    def is_held(self) -> bool:
        """Whether the lock is still held, as its service says now, and will be for the next moments.

        Raises:
            HoodieException: The service failed, so the answer is not known.
        """

    def owner_information(self) -> str:
        """The holder of the lock, in words, for an error; never raises."""
        return "unknown"

    def holding(self) -> LockHolding | None:
        """The present holder of the lock; None if nobody holds it. Takes nothing.

        Raises:
            HoodieException: The service failed.
        """
        owner = self.owner_information()
        return None if owner == "nobody" else LockHolding(owner)

    def break_lock(self, version: str) -> bool:
        """Take the lock from its holder, if it is still the same; a holder that lives notices before it commits.

        Args:
            version: `LockHolding.version` of that holder.

        Returns:
            False if the lock was released, renewed or taken by another writer meanwhile.

        Raises:
            HoodieLockException: Locks of this provider cannot be broken.
            HoodieException: The service failed.
        """
        raise HoodieLockException(f"{self.name} cannot be broken by hand. {self.way_out()}")

    @property
    def name(self) -> str:
        """The name of the lock for messages: its class and place."""
        return f"{type(self).__name__} of {self.configuration.base_path}"

    def way_out(self) -> str:
        """Advice for a user whose lock is not released; a sentence."""
        return "Find out whether that writer is alive."

    def tell_of_waiting(self) -> None:
        """Report a wait: `try_lock` must call this at least every few seconds while it waits for another holder.

        Raises:
            HoodieLockException: The wait was cancelled.
        """
        self.configuration.waiting.tell(self.owner_information, self.way_out)

    def close(self) -> None:
        """Release the lock and close connections; never raises."""
        try:
            self.unlock()
        except HoodieException as error:
            logger.warning("releasing %s failed: %s", self.name, error)


class LeaseLockProvider(LockProvider):
    """A lock that its holder must renew; a dead holder loses it after a while.

    Subclasses try the lock once (`acquire_once`), renew, release and read it back. This class waits, runs the thread
    that renews, and keeps its own end of the lease, which is never later than the end that others see.
    """

    _MARGIN_DIVISOR = 10

    def __init__(self, configuration: LockConfiguration) -> None:
        super().__init__(configuration)
        self.owner = str(uuid.uuid4())
        self.clock = configuration.clock
        self._mutex = threading.RLock()
        self._holds = False
        self._valid_until_ms: int | None = None
        self._stop: threading.Event | None = None

    @property
    @abstractmethod
    def lease_ms(self) -> int:
        """The time for which the lock is held without renewal, in milliseconds; 0 for ever."""

    @property
    @abstractmethod
    def renew_interval_ms(self) -> int:
        """The time between two renewals, in milliseconds."""

    @abstractmethod
    def acquire_once(self) -> bool:
        """Try the lock once; take it if nobody holds it, or if its holder let the lease end."""

    @abstractmethod
    def renew_once(self) -> bool:
        """Start the lease again if this provider still has the lock; False if another one has it or it is gone."""

    @abstractmethod
    def release_once(self) -> bool | None:
        """Release the lock if this provider still has it.

        Returns:
            Whether it had it until then; None where the service does not tell.
        """

    @abstractmethod
    def read_ownership(self) -> bool:
        """Read back whether this provider has the lock."""

    def describe_self(self) -> dict[str, str]:
        """The description of this writer, for those who wait."""
        return {"owner": self.owner, **describe_process(), "thread": threading.current_thread().name}

    def owner_text(self) -> str:
        """`describe_self` in words."""
        known = self.describe_self()
        return f"{self.owner} (process {known['process']} on {known['host']}, thread {known['thread']})"

    def try_lock(self, timeout_ms: int) -> bool:
        """See `LockProvider.try_lock`."""
        options = self.configuration.options
        deadline = self.clock.monotonic_ms() + timeout_ms
        pause_ms = options.wait_time_ms_between_retry
        while True:
            began = self.clock.monotonic_ms()
            with self._mutex:
                if self.acquire_once():
                    self._begin_lease(began)
                    return True
            left_ms = deadline - self.clock.monotonic_ms()
            if left_ms <= 0:
                return False
            self.tell_of_waiting()
            # Part of the pause is random; otherwise writers that wait together would come back together.
            self.clock.sleep_ms(min(random.uniform(pause_ms / 2, pause_ms), left_ms))
            pause_ms = min(pause_ms * 2, options.max_wait_time_ms_between_retry)

    def unlock(self) -> bool | None:
        """See `LockProvider.unlock`."""
        self._stop_renewing()
        with self._mutex:
            if not self._holds:
                return False
            self._holds = False
            return self.release_once()

    def is_held(self) -> bool:
        """See `LockProvider.is_held`."""
        with self._mutex:
            return self._holds and not self._is_ending() and self.read_ownership() and not self._is_ending()

    def renew(self) -> bool:
        """Start the lease again; a thread calls this regularly.

        Returns:
            False if the lock is lost; it stays lost.
        """
        with self._mutex:
            if not self._holds:
                return False
            if self._is_over():
                # Another writer may take the lock at any moment, so nothing of it is touched any more.
                self._holds = False
                return False
            began = self.clock.monotonic_ms()
            if not self.renew_once():
                self._holds = False
                return False
            self._valid_until_ms = began + self.lease_ms if self.lease_ms else None
            return True

    def _begin_lease(self, began_ms: int) -> None:
        self._holds = True
        self._valid_until_ms = began_ms + self.lease_ms if self.lease_ms else None
        if self.lease_ms:
            self._stop = threading.Event()
            try:
                start_thread(
                    threading.Thread(
                        target=self._renew_regularly, args=(self._stop,), name="hoodie-lock-renewal", daemon=True
                    )
                )
            except HoodieException:
                self._holds = False
                self.release_once()
                raise

    def _renew_regularly(self, stop: threading.Event) -> None:
        while not stop.wait(self.renew_interval_ms / 1000):
            try:
                if not self.renew():
                    logger.warning("%s was lost while it was held", self.name)
                    return
            except HoodieException as error:
                # The lease stays valid until its end; the next call tries again.
                logger.warning("renewing %s failed: %s", self.name, error)

    def _stop_renewing(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def _is_over(self) -> bool:
        return self._valid_until_ms is not None and self.clock.monotonic_ms() >= self._valid_until_ms

    def _is_ending(self) -> bool:
        """Whether too little of the lease is left to do something under it."""
        if self._valid_until_ms is None:
            return False
        margin_ms = min(self.lease_ms // self._MARGIN_DIVISOR, 5000)
        return self.clock.monotonic_ms() >= self._valid_until_ms - margin_ms
