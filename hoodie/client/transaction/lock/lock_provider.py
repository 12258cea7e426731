"""What keeps writers of one table apart: the interface, and what providers with a lease share.

Hudi: org.apache.hudi.common.lock.LockProvider.
"""

from __future__ import annotations

import logging
import random
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping

import attrs

from hoodie.client.transaction.lock.lock_waiting import LockClock, LockWaiting
from hoodie.common.util.process_identity import describe_process
from hoodie.config.lock_config import HoodieLockConfig
from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.storage.storage import HoodieStorage

__all__ = ["LeaseLockProvider", "LockClock", "LockConfiguration", "LockProvider"]

logger = logging.getLogger(__name__)


@attrs.frozen
class LockConfiguration:
    """What a provider is told.

    Attributes:
        base_path: The table's folder, normalised.
        table_name: The table's name; "" where it is not known.
        storage: The table's storage.
        options: Typed properties of locks.
        properties: All properties as they were given, for a provider of the user's own.
        clock: The time.
        waiting: To be told again and again while another one's lock is waited for; see `LockProvider.tell_of_waiting`.

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
    """The lock of one table, as one writer sees it; of a thread at a time, and not reentrant.

    At most one of all providers that name the same lock holds it: in this process, in others, on other machines. What
    cannot be ruled out is that a holder is suspended for longer than its lease and wakes up after another one took
    the lock. So `is_held` is asked right before the step that the lock guards.

    A provider of your own has this constructor, and is named by ``hoodie.write.lock.provider``.

    Args:
        configuration: Which table, and the properties.

    Hudi: org.apache.hudi.common.lock.LockProvider.
    """

    def __init__(self, configuration: LockConfiguration) -> None:
        self.configuration = configuration

    def _needs(self, module: object, package: str, *, extra: str) -> None:
        """Refuse to go on without a package that is an extra.

        Args:
            module: What it was imported as; None where it is absent.
            package: Its name.
            extra: Of hoodie, which installs it.

        Raises:
            HoodieConfigException: It is absent.
        """
        if module is None:
            raise HoodieConfigException(
                f"hoodie.write.lock.provider = {type(self).__name__} needs {package}: pip install 'hoodie[{extra}]'"
            )

    @abstractmethod
    def try_lock(self, timeout_ms: int) -> bool:
        """Take the lock, waiting for its holder.

        Args:
            timeout_ms: How long to wait; with 0 the lock is looked at once.

        Returns:
            True when it is held now; False when another one held it all the time.

        Raises:
            HoodieException: The service failed, so that it is not known; nothing is held.
        """

    @abstractmethod
    def unlock(self) -> None:
        """Give the lock back; nothing when it is not held, or was lost: the lock of another is never released.

        Raises:
            HoodieException: The service failed; the lock may be held until it expires.
        """

    @abstractmethod
    def is_held(self) -> bool:
        """Whether the lock is held still, as the service says now, and will be for the next moments.

        Raises:
            HoodieException: The service failed, so that it is not known.
        """

    def owner_information(self) -> str:
        """Who holds the lock, in words, for an error; never raises."""
        return "unknown"

    @property
    def name(self) -> str:
        """Which lock: its class and place."""
        return f"{type(self).__name__} of {self.configuration.base_path}"

    def way_out(self) -> str:
        """What a user may do about a lock that is not given back; a sentence."""
        return "Find out whether that writer is alive."

    def tell_of_waiting(self) -> None:
        """To be called again and again, with pauses of seconds at most, while `try_lock` waits for another holder.

        Raises:
            HoodieLockException: The wait is called off.
        """
        self.configuration.waiting.tell(self.owner_information, self.way_out)

    def close(self) -> None:
        """Give the lock back and close connections; nothing is raised."""
        try:
            self.unlock()
        except HoodieException as error:
            logger.warning("giving back %s failed: %s", self.name, error)


class LeaseLockProvider(LockProvider):
    """A lock that its holder must renew: one that died loses it after a while.

    Subclasses look at the lock once (`acquire_once`), renew, release and read it back. Here is the waiting, the thread
    that renews, and the holder's own idea of when its lease ends, which is never later than that of others.
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
        """How long the lock is held without being renewed, in milliseconds; 0 for ever."""

    @property
    @abstractmethod
    def renew_interval_ms(self) -> int:
        """Time between two renewals, in milliseconds."""

    @abstractmethod
    def acquire_once(self) -> bool:
        """Look at the lock and take it if nobody holds it, or who held it let its lease end."""

    @abstractmethod
    def renew_once(self) -> bool:
        """Begin the lease again, if the lock is this provider's still; False when it is another's or gone."""

    @abstractmethod
    def release_once(self) -> None:
        """Give the lock back if it is this provider's still."""

    @abstractmethod
    def read_ownership(self) -> bool:
        """Read back whether the lock is this provider's."""

    def describe_self(self) -> dict[str, str]:
        """Who this is, for those who wait."""
        return {"owner": self.owner, **describe_process(), "thread": threading.current_thread().name}

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
            # A part of the pause is left to chance: writers that wait together would come back together.
            self.clock.sleep_ms(min(random.uniform(pause_ms / 2, pause_ms), left_ms))
            pause_ms = min(pause_ms * 2, options.max_wait_time_ms_between_retry)

    def unlock(self) -> None:
        """See `LockProvider.unlock`."""
        self._stop_renewing()
        with self._mutex:
            if not self._holds:
                return
            self._holds = False
            self.release_once()

    def is_held(self) -> bool:
        """See `LockProvider.is_held`."""
        with self._mutex:
            return self._holds and not self._is_ending() and self.read_ownership() and not self._is_ending()

    def renew(self) -> bool:
        """Begin the lease again; what the thread does all the time.

        Returns:
            False when the lock is lost; it stays lost.
        """
        with self._mutex:
            if not self._holds:
                return False
            if self._is_over():
                # Somebody else may have taken it at any moment: nothing of it is touched any more.
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
            threading.Thread(
                target=self._renew_regularly, args=(self._stop,), name="hoodie-lock-renewal", daemon=True
            ).start()

    def _renew_regularly(self, stop: threading.Event) -> None:
        while not stop.wait(self.renew_interval_ms / 1000):
            try:
                if not self.renew():
                    logger.warning("%s was lost while it was held", self.name)
                    return
            except HoodieException as error:
                # The lease goes on until its end; the next turn tries again.
                logger.warning("renewing %s failed: %s", self.name, error)

    def _stop_renewing(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def _is_over(self) -> bool:
        return self._valid_until_ms is not None and self.clock.monotonic_ms() >= self._valid_until_ms

    def _is_ending(self) -> bool:
        """Whether too little is left of the lease to do something under it."""
        if self._valid_until_ms is None:
            return False
        margin_ms = min(self.lease_ms // self._MARGIN_DIVISOR, 5000)
        return self.clock.monotonic_ms() >= self._valid_until_ms - margin_ms
