"""Tables in the memory of a process, for tests and examples."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import chain

import attrs
import pyarrow as pa

from hoodie.storage.local_files import checksum_sibling, is_hidden_from_listings
from hoodie.storage.local_storage import missing_is_an_answer, named_errors, version_of
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_options import StorageOptions

_LOCK = threading.RLock()


@attrs.frozen
class _File:
    content: bytes
    modification_time_ms: int = attrs.field(factory=lambda: time.time_ns() // 1_000_000)


_files: dict[str, _File] = {}
"""All files of this process by their full paths."""
_directories: set[str] = set()
"""Directories that were made. Those of files are there without."""


@attrs.frozen(eq=False)
class MemoryStorage(HoodieStorage):
    """Files in the memory of this process, shared by all of its threads; for tests and examples.

    A lock makes the atomic steps atomic. A file that was opened for reading keeps the content of that moment.

    Attributes:
        base_path: The normalised base path of the table that this storage was opened for.
        storage_options: Ignored, because memory has no options. Never printed.
    """

    base_path: str
    storage_options: StorageOptions = attrs.field(factory=dict, repr=False)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create a whole file unless the name is taken; see `HoodieStorage.create_if_absent`."""
        with _LOCK, named_errors("Creating", path):
            if path in _files or _is_directory(path):
                return False
            _put(path, data)
            return True

    def replace(self, path: str, data: bytes) -> None:
        """Put a whole file under its name; see `HoodieStorage.replace`."""
        with _LOCK, named_errors("Replacing", path):
            _put(path, data)
            _files.pop(checksum_sibling(path), None)

    def read(self, path: str) -> bytes:
        """The whole content of a file; see `HoodieStorage.read`."""
        with _LOCK, missing_is_an_answer("Reading", path):
            if path not in _files:
                raise IsADirectoryError(path) if _is_directory(path) else FileNotFoundError(path)
            return _files[path].content

    def file_status(self, path: str) -> FileStatus | None:
        """The status of a file or directory; see `HoodieStorage.file_status`."""
        with _LOCK:
            return _status(path) if path in _files or _is_directory(path) else None

    def list_directory(self, path: str) -> list[FileStatus]:
        """Direct children; see `HoodieStorage.list_directory`."""
        with _LOCK, named_errors("Listing", path):
            prefix = f"{path}/"
            return _listed(path, {prefix + name[len(prefix) :].split("/", 1)[0] for name in _below(path)})

    def list_files(self, path: str) -> list[FileStatus]:
        """All files below a directory; see `HoodieStorage.list_files`."""
        with _LOCK, named_errors("Listing", path):
            return _listed(path, (name for name in _below(path) if name in _files))

    def create_directory(self, path: str) -> None:
        """Make a directory; see `HoodieStorage.create_directory`."""
        with _LOCK, named_errors("Making the directory", path):
            if path in _files:
                raise NotADirectoryError(f"{path} is a file")
            _check_parents(path)
            _directories.add(path)

    def delete_file(self, path: str) -> bool:
        """Delete a file and its checksum sibling; see `HoodieStorage.delete_file`."""
        with _LOCK, named_errors("Deleting", path):
            if _is_directory(path):
                raise IsADirectoryError(f"{path} is a directory")
            _files.pop(checksum_sibling(path), None)
            return _files.pop(path, None) is not None

    def delete_directory(self, path: str) -> bool:
        """Delete a directory with all below it; see `HoodieStorage.delete_directory`."""
        with _LOCK, named_errors("Deleting the directory", path):
            if path in _files:
                raise NotADirectoryError(f"{path} is a file")
            was_there = _is_directory(path)
            for name in [path, *_below(path)]:
                _files.pop(name, None)
                _directories.discard(name)
            return was_there

    def delete_empty_directory(self, path: str) -> bool:
        """Delete an empty directory; see `HoodieStorage.delete_empty_directory`."""
        with _LOCK:
            if path not in _directories or any(_below(path)):
                return False
            _directories.discard(path)
            return True

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        """A file and its version, computed from its content; see `HoodieStorage.read_versioned`."""
        content = self.read(path)
        return content, version_of(content)

    def replace_version(self, path: str, data: bytes, version: str | None) -> str | None:
        """Replace a version of a file; see `HoodieStorage.replace_version`."""
        with _LOCK:
            found = version_of(self.read(path)) if self.file_status(path) is not None else None
            if found != version:
                return None
            self.replace(path, data)
            return version_of(data)

    def touch(self, path: str) -> bool:
        """Set a file's modification time to now; see `HoodieStorage.touch`."""
        with _LOCK:
            if path not in _files:
                return False
            _put(path, _files[path].content)
            return True

    def now_ms(self, folder: str) -> int:
        """The current time of this process, which sets the files' times; see `HoodieStorage.now_ms`."""
        return time.time_ns() // 1_000_000

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access; see `HoodieStorage.open_input_file`."""
        return pa.BufferReader(self.read(path))

    def open_output_stream(self, path: str) -> pa.NativeFile:
        """Open a data file for writing; see `HoodieStorage.open_output_stream`."""
        with _LOCK, named_errors("Opening for writing", path):
            _put(path, b"")
            return pa.PythonFile(_Written(path), mode="w")


class _Written(io.BytesIO):
    """A file that is being written; its content is seen when it is closed."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        if not self.closed:
            with _LOCK:
                _put(self._path, self.getvalue())
        super().close()


def _put(path: str, data: bytes) -> None:
    if _is_directory(path):
        raise IsADirectoryError(f"{path} is a directory")
    _check_parents(path)
    _files[path] = _File(bytes(data))


def _check_parents(path: str) -> None:
    parent = path.rpartition("/")[0]
    while parent:
        if parent in _files:
            raise NotADirectoryError(f"{parent} is a file")
        parent = parent.rpartition("/")[0]


def _below(path: str) -> Iterator[str]:
    """The full paths of files and made directories below a directory."""
    prefix = f"{path}/"
    return (name for name in chain(_files, _directories) if name.startswith(prefix))


def _is_directory(path: str) -> bool:
    return path in _directories or any(_below(path))


def _listed(path: str, names: Iterable[str]) -> list[FileStatus]:
    if path in _files:
        raise NotADirectoryError(f"{path} is a file")
    found = (_status(name) for name in sorted(names))
    return [status for status in found if not is_hidden_from_listings(status.name)]


def _status(path: str) -> FileStatus:
    file = _files.get(path)
    if file is None:
        return FileStatus(path, 0, 0, is_directory=True)
    return FileStatus(path, len(file.content), file.modification_time_ms, is_directory=False)
