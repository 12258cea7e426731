"""A data file that is being written, whose end is a call of its own to a double of the storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

__all__ = ["output_file"]


def output_file(stream: pa.NativeFile, end: Callable[[], object]) -> pa.PythonFile:
    """What takes the place of a stream.

    Args:
        stream: The stream.
        end: Called once, instead of closing it; closes it.
    """
    return pa.PythonFile(_Stream(stream, end), mode="w")


class _Stream:
    def __init__(self, stream: pa.NativeFile, end: Callable[[], object]) -> None:
        self._stream = stream
        self._end = end

    def write(self, data: Any) -> int:
        self._stream.write(data)
        return len(data)

    def flush(self) -> None:
        self._stream.flush()

    def tell(self) -> int:
        return int(self._stream.tell())

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)

    def close(self) -> None:
        if not self._stream.closed:
            self._end()
