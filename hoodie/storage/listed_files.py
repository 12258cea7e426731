"""Open files whose sizes are known from a listing."""

from __future__ import annotations

import pyarrow as pa

from hoodie.storage.storage import HoodieStorage

_WHOLE_BYTES = 1 << 20
"""Up to this size a file is read by one request. Opening one on an object store takes a request for its size."""


def open_listed_file(storage: HoodieStorage, path: str, size_bytes: int | None) -> pa.NativeFile:
    """Open a file for random access reads; a small one is read as a whole.

    Args:
        storage: Its storage.
        path: Its full path.
        size_bytes: Its size by a listing, which is not relied on; None if it is not known.

    Raises:
        FileNotFoundError: There is no such file.
        HoodieIOException: Storage failed.
    """
    if size_bytes is not None and size_bytes <= _WHOLE_BYTES:
        return pa.BufferReader(storage.read(path))
    return storage.open_input_file(path)
