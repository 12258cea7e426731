"""A local file that other programs see whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[str]:
    """The name of a file beside another one, whose place it takes at the end of the block; an error deletes it.

    Args:
        path: The file that is written or replaced.

    Raises:
        FileNotFoundError: Its folder is not there.
        OSError: The file cannot take its place.
    """
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", os.fspath(folder))
    part = f"{os.fspath(path)}.{os.getpid()}.part"
    try:
        yield part
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.unlink(part)
