"""Read a file of the timeline as a whole, also while Hudi is writing it.

On a local file system, Hudi creates a file before it fills it.
"""

from __future__ import annotations

import logging
import time

from hoodie.exception import HoodieIOException
from hoodie.storage.local_files import checksum_sibling
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_clock import is_older

logger = logging.getLogger(__name__)

_BEING_WRITTEN_S = 30
"""Hudi may still be writing an incomplete file that is younger than this."""
_LONGEST_PAUSE_S = 0.5
_AVRO_MAGIC = b"Obj\x01"
_AVRO_SYNC_LENGTH = 16


def read_whole_file(storage: HoodieStorage, path: str, begun: str, *, may_be_empty: bool) -> bytes:
    """The content of a file of the timeline. Waits for a file that Hudi is writing at the moment.

    Args:
        storage: The storage of the table.
        path: The file.
        begun: The first file of the same instant.
        may_be_empty: Whether the file can be whole and empty.

    Returns:
        The content, also of a damaged file.

    Raises:
        FileNotFoundError: There is no such file.
        HoodieIOException: Storage failed.
    """
    content = storage.read(path)
    if _is_whole(content, may_be_empty):
        return content
    if not any(storage.exists(checksum_sibling(file)) for file in (path, begun)):
        return content
    deadline, pause = time.monotonic() + _BEING_WRITTEN_S, 0.02
    while not _is_whole(content, may_be_empty) and time.monotonic() < deadline:
        status = storage.file_status(path)
        if status is None or _is_older(storage, status, _BEING_WRITTEN_S * 1000):
            break
        logger.info("%s is being written; reading it again", path)
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_S)
        content = storage.read(path)
    return content


def _is_older(storage: HoodieStorage, status: FileStatus, limit_ms: float) -> bool:
    """Whether a file is older, by the storage's clock; by this machine's for readers that may not write there."""
    try:
        return is_older(storage, status, limit_ms)
    except HoodieIOException:
        return time.time() * 1000 - status.modification_time_ms > limit_ms


def _is_whole(content: bytes, may_be_empty: bool) -> bool:
    """Whether a file has its end."""
    if not content:
        return may_be_empty
    if content.startswith(_AVRO_MAGIC):
        # An Avro file ends with its sync marker, which its header holds as well.
        return content.find(content[-_AVRO_SYNC_LENGTH:]) < len(content) - _AVRO_SYNC_LENGTH
    return content.rstrip().endswith(b"}")
