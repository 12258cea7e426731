"""Objects of an object store as binary files: one for reading, and one for writing that can be aborted."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace, TracebackType
from typing import Any

import pyarrow as pa

from hoodie.exception import HoodieIOException
from hoodie.storage.object_store_calls import ObjectStoreCalls, StoreFailure, store_error
from hoodie.storage.object_store_settings import split_bucket

try:
    import obstore
except ImportError:  # said by open_stores
    obstore = None

logger = logging.getLogger(__name__)

_PART_BYTES = 8 * 1024 * 1024
_PARTS_AT_ONCE = 4
_READ_AHEAD_BYTES = 64 * 1024


class ObjectReader:
    """An object as a binary file: each read that the block in memory does not answer is one request of a range.

    Each thread has its own position, unless the object is read from its beginning on. Arrow moves the position to find
    the size of a file, also while another thread reads at an offset.

    Args:
        calls: The calls of the store.
        path: Full path of the object.
        size: Its length in bytes.
        is_sequential: Whether one reader after the other reads on where the last one stopped, whatever their threads.
    """

    def __init__(self, calls: ObjectStoreCalls, path: str, size: int, *, is_sequential: bool = False) -> None:
        self._calls = calls
        self._path = path
        self._size = size
        self._positions: Any = SimpleNamespace() if is_sequential else threading.local()
        self._block = (0, b"")
        self.closed = False

    def read(self, count: int = -1) -> bytes:
        """Up to the given number of bytes from the position on."""
        position = self.tell()
        bytes_left = max(self._size - position, 0)
        count = bytes_left if count is None or count < 0 else min(count, bytes_left)
        if not count:
            return b""
        block_start, block = self._block
        if not 0 <= position - block_start <= len(block) - count:
            block_start, block = self._block = self._fetched(position, count)
        self.seek(position + count)
        return block[position - block_start : position - block_start + count]

    def _fetched(self, start: int, count: int) -> tuple[int, bytes]:
        """The offset of a block with at least the wanted bytes, and the block."""
        # The footer is near the end of a file, and is read backwards from its end in small pieces.
        length = min(max(count, _READ_AHEAD_BYTES), self._size - start)
        if length < _READ_AHEAD_BYTES:
            start = max(self._size - _READ_AHEAD_BYTES, 0)
            length = self._size - start
        try:
            block = self._calls.call(
                "Reading",
                self._path,
                lambda stores, key: obstore.get_range(stores.plain, key, start=start, length=length).to_bytes(),
            )
        except FileNotFoundError as error:
            raise HoodieIOException(f"Reading {self._path} failed: it was deleted while it was being read") from error
        if len(block) != length:
            raise HoodieIOException(
                f"Reading {self._path} failed: the store returned {len(block)} of {length} bytes at {start}"
            )
        return start, block

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move the position of this thread, as of a file."""
        self._positions.value = offset + (0, self.tell(), self._size)[whence]
        return self.tell()

    def tell(self) -> int:
        """The position of this thread."""
        position: int = getattr(self._positions, "value", 0)
        return position

    def size(self) -> int:
        """The length of the object."""
        return self._size

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def close(self) -> None:
        """Drop the bytes in memory."""
        self.closed = True
        self._block = (0, b"")


class ObjectUpload:
    """An object being written: in one put if it is small, otherwise in parts."""

    def __init__(self, calls: ObjectStoreCalls, path: str) -> None:
        self._calls = calls
        self._path = path
        self._written = 0
        self._file: Any = obstore.open_writer(
            calls.open().streaming, split_bucket(path)[1], buffer_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
        )

    @property
    def closed(self) -> bool:
        """Whether `close` or `abort` was called."""
        return self._file is None

    def write(self, data: object) -> int:
        """Take bytes; the number of them."""
        if self._file is None:
            raise HoodieIOException(f"Writing {self._path} failed: the stream is closed")
        content = bytes(memoryview(data))  # type: ignore[arg-type]
        self._check(self._calls.attempt(lambda: self._file.write(content)))
        self._written += len(content)
        return len(content)

    def tell(self) -> int:
        """Bytes taken so far."""
        return self._written

    def flush(self) -> None:
        """Nothing to do: parts have a least size, and durability is promised only by `close`."""

    def writable(self) -> bool:
        """True until it is closed."""
        return self._file is not None

    def close(self) -> None:
        """Finish the object: it is visible when this returns. A second call does nothing."""
        file, self._file = self._file, None
        if file is not None:
            self._check(self._calls.attempt(file.close))

    def abort(self) -> None:
        """Abort the upload: its parts are deleted, and it does not become visible. After `close` it does nothing."""
        file, self._file = self._file, None
        if file is None:
            return
        failure = self._calls.attempt(lambda: file.__exit__(RuntimeError, RuntimeError("given up"), None))
        if isinstance(failure, StoreFailure):
            logger.warning(
                "giving up the upload of %s failed, its parts may take space until a lifecycle rule of the bucket "
                "deletes incomplete uploads: %s",
                self._path,
                failure.message,
            )

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.abort()

    def _check(self, answer: Any) -> None:
        if isinstance(answer, StoreFailure):
            attempts = self._calls.retry.max_retries + 1 if answer.is_transient else 1
            raise store_error("Writing", self._path, answer, attempts) from None


class AbortableOutputStream(pa.PythonFile):  # type: ignore[misc]
    """An Arrow stream into a store that shows a file only when it is closed; leaving it by an error drops the file.

    Args:
        sink: The sink of the bytes.
        mode: ``"w"``; `pyarrow.PythonFile` wants it said.
    """

    def __init__(self, sink: ObjectUpload, mode: str) -> None:
        # Arrow's part is made from the same arguments, before this is called.
        self._sink = sink

    def abort(self) -> None:
        """Drop the file and close the stream. A second call does nothing."""
        self._sink.abort()
        self.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._sink.abort()
        self.close()
