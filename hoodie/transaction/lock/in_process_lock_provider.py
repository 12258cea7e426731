"""A lock between the writers of one process.

Hudi: org.apache.hudi.client.transaction.lock.InProcessLockProvider.
"""

from __future__ import annotations

import threading
import time
import uuid

from hoodie.transaction.lock.lock_provider import LockConfiguration, LockProvider

_LOOK_S = 5.0
_condition = threading.Condition()
_owners: dict[str, tuple[str, str]] = {}
"""Base path -> the provider that holds its lock, and the name of its thread."""


class InProcessLockProvider(LockProvider):
    """Keeps the threads of this process apart; it does not see writers in other processes.

    Hudi: org.apache.hudi.client.transaction.lock.InProcessLockProvider. Differs: not reentrant.
    """

    reaches_other_hosts = False

    def __init__(self, configuration: LockConfiguration) -> None:
        super().__init__(configuration)
        self._owner = str(uuid.uuid4())

    def try_lock(self, timeout_ms: int) -> bool:
        """See `LockProvider.try_lock`."""
        path = self.configuration.base_path
        deadline = time.monotonic() + timeout_ms / 1000
        with _condition:
            while path in _owners:
                remaining_s = deadline - time.monotonic()
                if (
                    not _condition.wait(max(min(remaining_s, _LOOK_S), 0))
                    and path in _owners
                    and remaining_s <= _LOOK_S
                ):
                    return False
                self.tell_of_waiting()
            _owners[path] = (self._owner, threading.current_thread().name)
            return True

    def unlock(self) -> None:
        """See `LockProvider.unlock`."""
        with _condition:
            if self.is_held():
                del _owners[self.configuration.base_path]
                _condition.notify_all()

    def is_held(self) -> bool:
        """See `LockProvider.is_held`."""
        return _owners.get(self.configuration.base_path, ("", ""))[0] == self._owner

    def owner_information(self) -> str:
        """See `LockProvider.owner_information`."""
        owner = _owners.get(self.configuration.base_path)
        return "nobody" if owner is None else f"thread {owner[1]} of this process"
