"""A lock that is a file: the writer that creates the file holds the lock.

Hudi: org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider.
"""

from __future__ import annotations

import hashlib
import json
import logging
from typing import Any

from hoodie.common.util.process_identity import is_gone, name_process
from hoodie.exception import HoodieConfigException, HoodieIOException
from hoodie.storage import storage_path
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_clock import age_ms, is_older
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_path import METAFOLDER_NAME
from hoodie.transaction.lock.lock_holding import LockHolding
from hoodie.transaction.lock.lock_provider import LeaseLockProvider, LockConfiguration

logger = logging.getLogger(__name__)

_FILE_NAME = "lock"
_BREAK_INFIX = ".breaking-"
_SCHEMES = ("file", "memory")
_MAX_BREAKERS = 100


class FileSystemBasedLockProvider(LeaseLockProvider):
    """Holds the lock as the file ``lock`` in a folder of a file system: created if absent, deleted to release it.

    The file says who holds the lock. A lock whose hoodie process on this machine has ended is taken at once; locks of
    Java writers do not name their process. The file's age is its lease: with ``hoodie.write.lock.filesystem.expire`` a
    lock of that age counts as left behind by a dead writer; a live hoodie writer touches its file three times in that
    span. Several writers that find an expired lock at once must not delete each other's new one: the first to create a
    file that is named after the expired lock deletes that lock, and only if it is unchanged.

    It works together with Hudi's class of this name, given the same folder and span. Hudi never touches its lock, and
    deletes any file of that name when it is done; therefore the content is read back before an instant is completed.

    Hudi: org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider. Differs: owner, renewal, fencing.
    """

    def __init__(self, configuration: LockConfiguration) -> None:
        super().__init__(configuration)
        options = configuration.options
        folder = options.filesystem_path or storage_path.join(configuration.base_path, METAFOLDER_NAME)
        folder = storage_path.normalise_path(folder)
        if storage_path.scheme(folder) not in _SCHEMES:
            raise HoodieConfigException(
                f"hoodie.write.lock.provider = FileSystemBasedLockProvider with its lock in {folder}: the age of a "
                "lock is not reliable on an object store. Give StorageBasedLockProvider, or set "
                "hoodie.write.lock.filesystem.path to a folder of a file system that all writers share"
            )
        self._storage = open_storage(folder)
        self._path = storage_path.join(folder, _FILE_NAME)
        self._content = b""

    @property
    def name(self) -> str:
        """See `LockProvider.name`."""
        return f"the lock {self._path}"

    @property
    def lease_ms(self) -> int:
        """See `LeaseLockProvider.lease_ms`."""
        return self.configuration.options.filesystem_expire_minutes * 60_000

    @property
    def renew_interval_ms(self) -> int:
        """See `LeaseLockProvider.renew_interval_ms`."""
        return self.lease_ms // 3

    def acquire_once(self) -> bool:
        """See `LeaseLockProvider.acquire_once`."""
        content = json.dumps({**self.describe_self(), "lockCreateTime": self.clock.wall_ms()}).encode()
        if self._storage.create_if_absent(self._path, content):
            self._content = content
            return True
        return self._break(content)

    def renew_once(self) -> bool:
        """See `LeaseLockProvider.renew_once`."""
        # Touching does no harm to a lock that another writer has just created; writing the content again would.
        return self.read_ownership() and self._storage.touch(self._path)

    def release_once(self) -> None:
        """See `LeaseLockProvider.release_once`."""
        if not self._is_over() and self.read_ownership():
            self._storage.delete_file(self._path)

    def read_ownership(self) -> bool:
        """See `LeaseLockProvider.read_ownership`."""
        return self._read(self._path) == self._content

    def owner_information(self) -> str:
        """See `LockProvider.owner_information`."""
        try:
            status, content = self._storage.file_status(self._path), self._read(self._path)
            if status is None or content is None:
                return "nobody"
            age_s = age_ms(self._storage, status) / 1000
        except HoodieIOException as error:
            return f"unknown ({error})"
        return f"{self._owner_in(content)}; {self._path} is {age_s:.0f} s old"

    def way_out(self) -> str:
        """See `LockProvider.way_out`."""
        if self.lease_ms:
            return (
                f"The lock of a dead writer is broken after {self.lease_ms // 60_000} minutes "
                "(hoodie.write.lock.filesystem.expire)."
            )
        return (
            f"If that writer is dead, delete {self._path}; with hoodie.write.lock.filesystem.expire hoodie does that "
            "after that many minutes. The lock of a hoodie process on this machine that has ended is taken at once."
        )

    @staticmethod
    def _owner_in(content: bytes) -> str:
        try:
            known = json.loads(content)
            return f"{name_process(known)}, thread {known['thread']}"
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return "a writer that is not hoodie"

    def _read(self, path: str) -> bytes | None:
        try:
            return self._storage.read(path)
        except FileNotFoundError:
            return None

    def _is_abandoned(self, status: FileStatus | None, content: bytes | None) -> bool:
        """Whether the creator of the file is dead: its lease is over, or its process is known to have ended."""
        if status is None or content is None:
            return False
        is_old = bool(self.lease_ms) and is_older(self._storage, status, self.lease_ms)
        return is_old or is_gone(_details(content))

    def _break(self, content: bytes) -> bool:
        """Take the lock of a dead writer."""
        old = self._storage.file_status(self._path)
        old_content = self._read(self._path)
        if old_content is None or old is None or not self._is_abandoned(old, old_content):
            return False
        return self._replace(old, old_content, content)

    def holding(self) -> LockHolding | None:
        """See `LockProvider.holding`."""
        old = self._storage.file_status(self._path)
        old_content = self._read(self._path)
        if old_content is None or old is None:
            return None
        is_abandoned = self._is_abandoned(old, old_content)
        age = age_ms(self._storage, old)
        return LockHolding(self._owner_in(old_content), age, is_abandoned, _identity(old, old_content))

    def break_lock(self, version: str) -> bool:
        """See `LockProvider.break_lock`."""
        old = self._storage.file_status(self._path)
        old_content = self._read(self._path)
        if old_content is None or old is None or _identity(old, old_content) != version:
            return False
        return self._replace(old, old_content, None)

    def _replace(self, old: FileStatus, old_content: bytes, content: bytes | None) -> bool:
        """Delete a lock, and take it if there is a new content; False if it is not that lock any more."""
        breaker = self._claim_breaking(f"{self._path}{_BREAK_INFIX}{_identity(old, old_content)}")
        if breaker is None:
            return False
        try:
            if self._storage.file_status(self._path) != old or self._read(self._path) != old_content:
                return False
            logger.warning("breaking %s, held by %s", self.name, self.owner_information())
            self._storage.delete_file(self._path)
            if content is None:
                return True
            created = self._storage.create_if_absent(self._path, content)
            if created:
                self._content = content
            return created
        finally:
            self._storage.delete_file(breaker)
            self._delete_old_claims()

    def _delete_old_claims(self) -> None:
        """Delete claims of writers that died while they broke a lock; a claim is useless once its lock is gone."""
        for status in self._storage.list_directory(storage_path.parent(self._path)):
            is_claim = status.name.startswith(_FILE_NAME + _BREAK_INFIX)
            if is_claim and self._is_abandoned(status, self._read(status.path)):
                self._storage.delete_file(status.path)

    def _claim_breaking(self, stem: str) -> str | None:
        """Claim the right to delete one expired lock; the claim of a writer that died while deleting is taken over."""
        for number in range(_MAX_BREAKERS):
            path = f"{stem}-{number}"
            if self._storage.create_if_absent(path, json.dumps(self.describe_self()).encode()):
                return path
            if not self._is_abandoned(self._storage.file_status(path), self._read(path)):
                return None
        return None


def _identity(status: FileStatus, content: bytes) -> str:
    return hashlib.sha256(content + str(status.modification_time_ms).encode()).hexdigest()[:16]


def _details(content: bytes) -> dict[str, Any]:
    """The contents of a lock file of hoodie; empty for a lock of another program."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
