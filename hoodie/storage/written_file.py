"""Write data files, with errors that name the file: the one way for all of their writers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

from hoodie.exception import HoodieException, HoodieIOException
from hoodie.storage.storage import HoodieStorage, abort_stream


@contextmanager
def written_file(storage: HoodieStorage, path: str) -> Iterator[pa.NativeFile]:
    """Open a data file for writing; a context that finishes it, or aborts it if the block fails.

    Args:
        storage: The storage of the file.
        path: The file; see `HoodieStorage.open_output_stream`.

    Raises:
        HoodieIOException: Storage failed; the message names the file. What was written of it may be left.
    """
    with named_write_errors(path):
        stream = storage.open_output_stream(path)
        try:
            yield stream
            stream.close()
        except BaseException:
            with suppress(Exception):
                abort_stream(stream)
            raise


@contextmanager
def named_write_errors(path: str) -> Iterator[None]:
    """Raise errors of pyarrow and of streams as errors that name the file that is being written.

    Args:
        path: The file's full path.

    Raises:
        HoodieIOException: Storage failed.
    """
    try:
        yield
    except HoodieException:
        raise
    except (OSError, pa.ArrowException, ValueError) as error:
        raise HoodieIOException(
            f"writing {path} failed: {error}; the file is not finished, and the write has to be repeated"
        ) from error
