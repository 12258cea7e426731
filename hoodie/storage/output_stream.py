"""Streams of data files that can be given up."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

import pyarrow as pa

__all__ = ["AbortableOutputStream", "OutputSink", "abort_stream"]


class OutputSink(Protocol):
    """What is behind an `AbortableOutputStream`: a binary file, and `abort`."""

    @property
    def closed(self) -> bool:
        """Whether `close` or `abort` was called."""

    def write(self, data: object) -> int:
        """Take bytes; the number of them."""

    def tell(self) -> int:
        """Bytes taken so far."""

    def flush(self) -> None:
        """Nothing is promised before `close`."""

    def close(self) -> None:
        """Finish the file: it is visible when this returns. Nothing when it is closed."""

    def abort(self) -> None:
        """Drop the file: it does not become visible. Nothing when it is closed."""


class AbortableOutputStream(pa.PythonFile):  # type: ignore[misc]
    """An Arrow stream into a store that shows a file only when it is closed; leaving it by an error drops the file.

    Args:
        sink: Where the bytes go.
        mode: ``"w"``; `pyarrow.PythonFile` wants it said.
    """

    def __init__(self, sink: OutputSink, mode: str) -> None:
        # Arrow's part is made from the same arguments, before this is called.
        self._sink = sink

    def abort(self) -> None:
        """Drop the file and close the stream; nothing when it is closed."""
        self._sink.abort()
        self.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._sink.abort()
        self.close()


def abort_stream(stream: pa.NativeFile) -> None:
    """Close a stream of `HoodieStorage.open_output_stream` without finishing its file, where the store can do that.

    On file systems the bytes that were written stay, under a name that nothing refers to.
    """
    if isinstance(stream, AbortableOutputStream):
        stream.abort()
    else:
        stream.close()
