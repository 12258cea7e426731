"""Tables in the memory of a process, for tests and examples; uses the memory file system of fsspec."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import attrs
import fsspec
import pyarrow as pa

from hoodie.storage.local_files import checksum_sibling, is_hidden_from_listings
from hoodie.storage.local_storage import missing_is_an_answer, named_errors, version_of
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_options import StorageOptions

_LOCK = threading.RLock()


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
            if self._files.exists(path):
                return False
            self._files.pipe_file(path, data)
            return True

    def replace(self, path: str, data: bytes) -> None:
        """Put a whole file under its name; see `HoodieStorage.replace`."""
        with _LOCK, named_errors("Replacing", path):
            self._files.pipe_file(path, data)
            self._remove(checksum_sibling(path))

    def read(self, path: str) -> bytes:
        """The whole content of a file; see `HoodieStorage.read`."""
        with _LOCK, missing_is_an_answer("Reading", path):
            content: bytes = self._files.cat_file(path)
            return content

    def file_status(self, path: str) -> FileStatus | None:
        """The status of a file or directory; see `HoodieStorage.file_status`."""
        with _LOCK, named_errors("Looking up", path):
            try:
                return _status(self._files.info(path))
            except FileNotFoundError:
                return None

    def list_directory(self, path: str) -> list[FileStatus]:
        """Direct children; see `HoodieStorage.list_directory`."""
        return _listed(path, lambda: self._files.ls(path, detail=True))

    def list_files(self, path: str) -> list[FileStatus]:
        """All files below a directory; see `HoodieStorage.list_files`."""
        return _listed(path, lambda: self._files.find(path, detail=True).values())

    def create_directory(self, path: str) -> None:
        """Make a directory; see `HoodieStorage.create_directory`."""
        with _LOCK, named_errors("Making the directory", path):
            self._files.makedirs(path, exist_ok=True)

    def delete_file(self, path: str) -> bool:
        """Delete a file and its checksum sibling; see `HoodieStorage.delete_file`."""
        with _LOCK, named_errors("Deleting", path):
            if self._files.isdir(path):
                raise IsADirectoryError(f"{path} is a directory")
            deleted = self._remove(path)
            self._remove(checksum_sibling(path))
            return deleted

    def delete_directory(self, path: str) -> bool:
        """Delete a directory with all below it; see `HoodieStorage.delete_directory`."""
        with _LOCK, named_errors("Deleting the directory", path):
            if self._files.isfile(path):
                raise NotADirectoryError(f"{path} is a file")
            # Not rm(recursive=True): it takes characters of the path as a glob.
            if not self._files.isdir(path):
                return False
            directories = [path]
            for name, info in self._files.find(path, withdirs=True, detail=True).items():
                if info["type"] == "directory":
                    directories.append(name)
                else:
                    self._files.rm_file(name)
            for directory in sorted(directories, key=len, reverse=True):
                with suppress(FileNotFoundError):
                    self._files.rmdir(directory)
            return True

    def delete_empty_directory(self, path: str) -> bool:
        """Delete an empty directory; see `HoodieStorage.delete_empty_directory`."""
        with _LOCK, named_errors("Deleting the directory", path):
            if not self._files.isdir(path) or self._files.ls(path):
                return False
            self._files.rmdir(path)
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
        with _LOCK, named_errors("Touching", path):
            if not self._files.isfile(path):
                return False
            self._files.pipe_file(path, self.read(path))
        return True

    def now_ms(self, folder: str) -> int:
        """The current time of this process, which sets the files' times; see `HoodieStorage.now_ms`."""
        return time.time_ns() // 1_000_000

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access; see `HoodieStorage.open_input_file`."""
        # fsspec hands the same file object, with one position, to all readers.
        return pa.BufferReader(self.read(path))

    def open_output_stream(self, path: str) -> pa.NativeFile:
        """Open a data file for writing; see `HoodieStorage.open_output_stream`."""
        with _LOCK, named_errors("Opening for writing", path):
            return pa.PythonFile(self._files.open(path, "wb"), mode="w")

    @property
    def _files(self) -> Any:
        return fsspec.filesystem("memory", use_listings_cache=False)

    def _remove(self, path: str) -> bool:
        try:
            self._files.rm_file(path)
        except FileNotFoundError:
            return False
        return True


def _listed(path: str, listing: Callable[[], Iterable[Mapping[str, Any]]]) -> list[FileStatus]:
    with _LOCK, named_errors("Listing", path):
        try:
            found = [_status(info) for info in listing()]
        except FileNotFoundError:
            return []
        if any(child.path == path for child in found):
            raise NotADirectoryError(f"{path} is a file")
    visible = (child for child in found if not is_hidden_from_listings(child.name))
    return sorted(visible, key=lambda child: child.path)


def _status(info: Mapping[str, Any]) -> FileStatus:
    is_directory = info["type"] == "directory"
    # A datetime, in newer releases of fsspec seconds.
    created = info.get("created") or 0
    seconds = created.timestamp() if isinstance(created, datetime) else float(created)
    return FileStatus(
        path="memory://" + str(info["name"]).strip("/"),
        size_bytes=0 if is_directory else int(info["size"]),
        modification_time_ms=int(seconds * 1000),
        is_directory=is_directory,
    )
