"""Small files of a store that is far away, fetched side by side before they are read one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, cast

import pyarrow as pa

from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.threads import ThreadPool

_SMALL_BYTES: Final = 4 << 20
_AHEAD: Final = 16
"""The most files that are fetched and not read yet."""


@contextmanager
def files_ahead(storage: HoodieStorage, files: Sequence[FileStatus]) -> Iterator[HoodieStorage]:
    """A storage that has the small ones of some files at hand, if it is one that waits for a network.

    A file of it is read once, and then looked up once, in the order of the list.

    Args:
        storage: The storage of the files.
        files: The files, in the order in which they will be read.
    """
    if not storage.is_remote or len(files) < 2:
        yield storage
        return
    with ThreadPool(_AHEAD, "hoodie-source") as pool:
        ahead = _FilesAhead(storage, files, pool)
        try:
            # It has the calls by which files are read, and gives all others on.
            yield cast(HoodieStorage, ahead)
        finally:
            ahead.close()


class _FilesAhead:
    def __init__(self, storage: HoodieStorage, files: Sequence[FileStatus], pool: ThreadPool) -> None:
        self._storage = storage
        self._pool = pool
        self._waiting = [file for file in reversed(files) if file.size_bytes <= _SMALL_BYTES]
        self._begun: dict[str, Future[tuple[bytes, FileStatus | None]]] = {}
        self._looked_up: dict[str, FileStatus | None] = {}
        for _ in range(_AHEAD):
            self._begin_one()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def read(self, path: str) -> bytes:
        """The content of a file; see `HoodieStorage.read`."""
        found = self._begun.pop(path, None)
        if found is None:
            return self._storage.read(path)
        self._begin_one()
        content, self._looked_up[path] = found.result()
        return content

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file; see `HoodieStorage.open_input_file`."""
        return pa.BufferReader(self.read(path)) if path in self._begun else self._storage.open_input_file(path)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file to be read from its beginning on; see `HoodieStorage.open_input_stream`."""
        return pa.BufferReader(self.read(path)) if path in self._begun else self._storage.open_input_stream(path)

    def file_status(self, path: str) -> FileStatus | None:
        """The status of a file after it was fetched; see `HoodieStorage.file_status`."""
        return self._looked_up.pop(path) if path in self._looked_up else self._storage.file_status(path)

    def close(self) -> None:
        """Let no further file be fetched."""
        self._waiting.clear()
        for future in self._begun.values():
            future.cancel()

    def _begin_one(self) -> None:
        if self._waiting:
            path = self._waiting.pop().path
            self._begun[path] = self._pool.submit(self._fetched, path)

    def _fetched(self, path: str) -> tuple[bytes, FileStatus | None]:
        content = self._storage.read(path)
        return content, self._storage.file_status(path)
