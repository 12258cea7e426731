"""The age of a file, by the clock of the storage, which may differ from the clock of this machine.

Otherwise a writer whose clock is ahead would take new files of others for old ones, and delete them.
"""

from __future__ import annotations

import logging
import time

from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_path import parent

logger = logging.getLogger(__name__)

_SKEW_MS = 60_000
"""A warning names clocks that differ by more."""
_warned: set[str] = set()


def age_ms(storage: HoodieStorage, status: FileStatus) -> float:
    """The time since a file was written, in milliseconds; takes two or three calls of the storage.

    Args:
        storage: The storage of the file.
        status: The file, from a new listing.

    Raises:
        HoodieIOException: Storage failed.
    """
    folder = parent(status.path)
    now_ms = storage.now_ms(folder)
    ahead_ms = _local_ms() - now_ms
    if abs(ahead_ms) > _SKEW_MS and folder not in _warned:
        _warned.add(folder)
        logger.warning(
            "the clock of this machine is %.0f s %s that of the storage of %s: hoodie computes the ages of files by "
            "the storage's clock. Set this machine's clock (NTP): instant times and locks use it", abs(ahead_ms) / 1000,
            "ahead of" if ahead_ms > 0 else "behind", folder,
        )  # fmt: skip
    return max(now_ms - status.modification_time_ms, 0)


def is_older(storage: HoodieStorage, status: FileStatus, limit_ms: float) -> bool:
    """Whether a file is older than a limit; calls the storage only if the file may be older.

    Args:
        storage: The storage of the file.
        status: The file, from a new listing.
        limit_ms: The age in milliseconds.

    Raises:
        HoodieIOException: Storage failed.
    """
    if 0 <= _local_ms() - status.modification_time_ms <= limit_ms:
        return False
    return age_ms(storage, status) > limit_ms


def _local_ms() -> float:
    return time.time() * 1000
