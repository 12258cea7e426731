"""Read ranges of open files, with errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from hoodie.exception import HoodieException, HoodieIOException


def read_range(stream: pa.NativeFile, path: str, offset: int, count: int) -> bytes:
    """Some bytes of a file, all of which it must have.

    Args:
        stream: The file. Its position is not used, so that several threads may read it.
        path: Its full path, for messages.
        offset: The offset of the first byte.
        count: Their number.

    Raises:
        HoodieIOException: Storage failed, or the file is shorter.
    """
    with named_read_errors(path):
        found: bytes = stream.read_at(count, offset)
    if len(found) != count:
        raise HoodieIOException(
            f"reading {path} failed: {len(found)} of {count} bytes came from byte {offset}, so the file was "
            "cut short meanwhile; read again"
        )
    return found


@contextmanager
def named_read_errors(path: str) -> Iterator[None]:
    """Raise errors of storage as errors that name the file.

    Args:
        path: The file's full path.

    Raises:
        HoodieIOException: Storage failed.
    """
    try:
        yield
    except HoodieException:
        raise
    except (OSError, pa.ArrowException) as error:
        raise HoodieIOException(f"reading {path} failed: {error}") from error
