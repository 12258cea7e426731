"""A lock in a file of the table, which is replaced only if no other writer has replaced it meanwhile.

Hudi: org.apache.hudi.client.transaction.lock.StorageBasedLockProvider.
"""

from __future__ import annotations

import json
import logging

import attrs

from hoodie.exception import HoodieCorruptedDataException, HoodieIOException
from hoodie.storage import storage_path
from hoodie.storage.storage_path import METAFOLDER_NAME
from hoodie.transaction.lock.lock_holding import LockHolding
from hoodie.transaction.lock.lock_provider import LeaseLockProvider, LockConfiguration

logger = logging.getLogger(__name__)

_PATH = (METAFOLDER_NAME, ".locks", "table_lock.json")
_DRIFT_MS = 500
"""The allowed difference between the clocks of two writers."""


@attrs.frozen
class StorageLockData:
    """The content of the lock file.

    Attributes:
        expired: Whether the lock was released.
        valid_until: The end of the lease, in milliseconds since the epoch.
        owner: The holder.

    Hudi: org.apache.hudi.client.transaction.lock.StorageLockData.
    """

    expired: bool
    valid_until: int
    owner: str

    def to_json(self) -> bytes:
        """Format the content as Hudi does."""
        value = {"expired": self.expired, "validUntil": self.valid_until, "owner": self.owner}
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, content: bytes, path: str) -> StorageLockData:
        """Parse the content; other fields are ignored.

        Raises:
            HoodieCorruptedDataException: The file is not a lock file.
        """
        try:
            value = json.loads(content)
            found = cls(value["expired"], value["validUntil"], value["owner"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise HoodieCorruptedDataException(
                f"the lock {path} cannot be read ({error}); if no writer is alive, delete it"
            ) from error
        if not isinstance(found.expired, bool) or type(found.valid_until) is not int:
            raise HoodieCorruptedDataException(f"the lock {path} cannot be read; if no writer is alive, delete it")
        return found


class StorageBasedLockProvider(LeaseLockProvider):
    """Holds the lock as the file ``.hoodie/.locks/table_lock.json``; takes, renews and releases it by conditional puts.

    It needs no service besides the store. On S3, Google Cloud Storage and Azure it works together with Hudi 1.1 and
    later, on local files among hoodie writers. The clocks of the writers may differ by half a second.

    Hudi: org.apache.hudi.client.transaction.lock.StorageBasedLockProvider. Differs: also works on local files; no audit
    files; an expired lease is never renewed.
    """

    tells_at_release = True

    def __init__(self, configuration: LockConfiguration) -> None:
        super().__init__(configuration)
        self._storage = configuration.storage
        self._path = storage_path.join(configuration.base_path, *_PATH)
        self._version: str | None = None
        self._data = StorageLockData(True, 0, "")

    @property
    def name(self) -> str:
        """See `LockProvider.name`."""
        return f"the lock {self._path}"

    @property
    def lease_ms(self) -> int:
        """See `LeaseLockProvider.lease_ms`."""
        return self.configuration.options.storage_validity_seconds * 1000

    @property
    def renew_interval_ms(self) -> int:
        """See `LeaseLockProvider.renew_interval_ms`."""
        return min(self.configuration.options.storage_renew_interval_seconds * 1000, self.lease_ms // 10)

    def acquire_once(self) -> bool:
        """See `LeaseLockProvider.acquire_once`."""
        if self._version is not None and not self._holds and self._put(False, self._version):
            # Nobody has taken it since this provider had it; its release may have failed.
            return True
        found = self._read()
        if found is not None and not found[0].expired and not self._is_over_for_others(found[0]):
            return False
        if found is not None and not found[0].expired:
            logger.warning("breaking %s: %s let its lease end", self.name, found[0].owner)
        return self._put(False, None if found is None else found[1])

    def renew_once(self) -> bool:
        """See `LeaseLockProvider.renew_once`."""
        return self._put(False, self._version)

    def release_once(self) -> bool:
        """See `LeaseLockProvider.release_once`."""
        was_held = self._put(True, self._version)
        if not was_held:
            logger.warning("%s was taken by another writer before it was released", self.name)
        return was_held

    def read_ownership(self) -> bool:
        """See `LeaseLockProvider.read_ownership`."""
        found = self._read()
        return found is not None and found[0] == self._data and not found[0].expired

    def owner_information(self) -> str:
        """See `LockProvider.owner_information`."""
        try:
            found = self._read()
        except HoodieIOException as error:
            return f"unknown ({error})"
        if found is None or found[0].expired:
            return "nobody"
        remaining_s = (found[0].valid_until - self.clock.wall_ms()) / 1000
        return f"{found[0].owner}, for {remaining_s:.0f} s unless it is renewed"

    def way_out(self) -> str:
        """See `LockProvider.way_out`."""
        return f"The lock of a dead writer is broken when its lease of {self.lease_ms // 1000} s is over."

    def holding(self) -> LockHolding | None:
        """See `LockProvider.holding`."""
        found = self._read()
        if found is None or found[0].expired:
            return None
        data, version = found
        return LockHolding(data.owner, is_abandoned=self._is_over_for_others(data), version=version)

    def break_lock(self, version: str) -> bool:
        """See `LockProvider.break_lock`."""
        found = self._read()
        if found is None or found[0].expired or found[1] != version:
            return False
        logger.warning("breaking %s, held by %s", self.name, found[0].owner)
        # One more than the end of the lease: no earlier content of the file is the same.
        released = StorageLockData(True, found[0].valid_until + 1, found[0].owner)
        return self._storage.replace_version(self._path, released.to_json(), version) is not None

    def _is_over_for_others(self, data: StorageLockData) -> bool:
        return self.clock.wall_ms() > data.valid_until + _DRIFT_MS

    def _read(self) -> tuple[StorageLockData, str] | None:
        try:
            content, version = self._storage.read_versioned(self._path)
        except FileNotFoundError:
            return None
        return StorageLockData.from_json(content, self._path), version

    def _put(self, expired: bool, version: str | None) -> bool:
        # Every content is unique, so that a put without a response can be checked.
        valid_until = max(self.clock.wall_ms() + self.lease_ms, self._data.valid_until + 1)
        data = StorageLockData(expired, valid_until, self.owner_text())
        made = self._storage.replace_version(self._path, data.to_json(), version)
        if made is None:
            return False
        self._version, self._data = made, data
        return True
