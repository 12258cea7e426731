"""The interface of file stores, with a contract for each call.

Paths are strings: absolute local paths (``/data/trips/...``) or full URLs (``s3://bucket/trips/...``,
``memory://trips/...``), always with ``/``, never with a trailing slash. `hoodie.storage.storage_path` joins and
splits them.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import attrs
import pyarrow as pa

from hoodie.exception import HoodieNotSupportedException

_MOVED_AT_ONCE_BYTES = 8 << 20


@attrs.frozen
class FileStatus:
    """One entry of a listing.

    Attributes:
        path: Full path, in the form described in the module.
        size_bytes: Length of the file; 0 for a directory.
        modification_time_ms: Milliseconds since the epoch, UTC; 0 if the store does not know it.
        is_directory: True for a directory (on object stores: a common prefix).
    """

    path: str
    size_bytes: int
    modification_time_ms: int
    is_directory: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path[self.path.rfind("/") + 1 :]


class HoodieStorage(ABC):
    """A file store with the two atomic steps that a timeline needs.

    Implementations are picklable (they are sent to tasks) and hold no open handles. For every failure that is not
    described below they raise `hoodie.exception.HoodieIOException`, which names the path.

    Hudi: org.apache.hudi.storage.HoodieStorage.
    """

    @abstractmethod
    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create a whole file under its final name, only if nothing has that name. Atomic.

        Missing parent directories are made. The file is never visible with other content than ``data``, and it is
        durable when the call returns. If the answer of the store is lost, the call reads the file back to find the
        result.

        Returns:
            True if this call created the file; False if the name was taken, and nothing was changed.
        """

    def create_all_if_absent(self, files: Sequence[tuple[str, bytes]]) -> list[bool]:
        """Create some files, each as `create_if_absent` does, in their order; all are durable when the call returns.

        Until then a power cut may take any of them. Others see the first ones while the last ones are not there yet.

        Args:
            files: The path and the content of each file.

        Returns:
            The answer for each file.
        """
        return [self.create_if_absent(path, data) for path, data in files]

    @abstractmethod
    def replace(self, path: str, data: bytes) -> None:
        """Put a whole file under its name, whatever was there. Atomic: readers see the old or the new content.

        Missing parent directories are made. A stale ``.<name>.crc`` sibling (Hadoop's local file system) is removed.
        """

    @abstractmethod
    def read(self, path: str) -> bytes:
        """The whole content of a file.

        Raises:
            FileNotFoundError: There is no such file. (The builtin, so that callers can treat absence as an answer.)
        """

    @abstractmethod
    def file_status(self, path: str) -> FileStatus | None:
        """The status of a file or directory; None if there is neither. Never answered from a cache."""

    @abstractmethod
    def list_directory(self, path: str) -> list[FileStatus]:
        """Direct children, files and directories, sorted by name; [] when the directory does not exist.

        Hadoop's checksum siblings (``.<name>.crc``) and temporary files of `create_if_absent` and `replace` are left
        out. Never answered from a cache.
        """

    def list_names(self, path: str) -> list[str]:
        """The names of direct children, sorted, those of directories with ``/`` at the end; as `list_directory`.

        For folders with many files of which only the names matter: on local files each status is a call of its own.
        """
        return [f"{child.name}/" if child.is_directory else child.name for child in self.list_directory(path)]

    @abstractmethod
    def list_files(self, path: str) -> list[FileStatus]:
        """All files below a directory at any depth, sorted by path; as `list_directory` otherwise."""

    def sample_files(self, path: str, limit: int) -> list[str]:
        """Full paths of files below a directory at any depth, at most the given number; [] if there are none.

        The storage chooses which ones, so that the answer takes one short listing however many files there are.
        Symbolic links count as files, and are not followed.
        """
        return [file.path for file in self.list_files(path)[:limit]]

    @abstractmethod
    def create_directory(self, path: str) -> None:
        """Make a directory and its parents. An existing one is not changed; stores without directories do nothing."""

    @abstractmethod
    def delete_file(self, path: str) -> bool:
        """Delete a file and its ``.<name>.crc`` sibling. False when it was not there (not an error)."""

    def delete_files(self, paths: Iterable[str]) -> None:
        """Delete many files, in as few calls as the storage allows; a missing file is not an error.

        Args:
            paths: Full paths of files; the storage need not check whether one is a directory.

        Raises:
            HoodieIOException: Storage failed; some of the files may be deleted.
        """
        for path in paths:
            self.delete_file(path)

    @abstractmethod
    def delete_directory(self, path: str) -> bool:
        """Delete a directory with all below it. False when it was not there (not an error)."""

    def delete_empty_directory(self, path: str) -> bool:
        """Delete an empty directory; False if it was not there, or is not empty.

        Always False on stores without directories.
        """
        return False

    @abstractmethod
    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for reads at offsets, also by several threads.

        Its position may be another one in each thread: what reads on from a position takes `open_input_stream`.

        Raises:
            FileNotFoundError: There is no such file.
        """

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file to be read from its beginning on: it has one position, whichever thread reads on.

        Raises:
            FileNotFoundError: There is no such file.
        """
        return self.open_input_file(path)

    @abstractmethod
    def open_output_stream(self, path: str) -> pa.NativeFile:
        """Open a data file for writing from its start, parents made; it may be visible before it is closed.

        For data files only: their names are unique, and nothing refers to them before the commit. Metadata is written
        by `create_if_absent` and `replace`.
        """

    def move_file(self, source: str, target: str) -> None:
        """Give a file another name, whatever had that name; parents are made.

        If the call fails, the file has its old name, both, or the new one; then the call may be repeated.

        Args:
            source: Full path of the file.
            target: Full path of its new place, on the same storage.

        Raises:
            FileNotFoundError: There is no such file.
        """
        with self.open_input_stream(source) as given:
            stream = self.open_output_stream(target)
            try:
                while chunk := given.read(_MOVED_AT_ONCE_BYTES):
                    stream.write(chunk)
                stream.close()
            except BaseException:
                abort_stream(stream)
                raise
        self.delete_file(source)

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        """The whole content of a file, and its version for `replace_version`.

        Raises:
            FileNotFoundError: There is no such file.
            HoodieNotSupportedException: The store cannot.
        """
        raise HoodieNotSupportedException(f"Reading the version of {path}: {type(self).__name__} cannot do that")

    def replace_version(self, path: str, data: bytes, version: str | None) -> str | None:
        """Put a whole file under its name, only if the stored file has that version. Atomic.

        ``data`` must differ from every earlier content of the file: if an answer is lost, the call reads the file, and
        takes this content as proof that the put was applied.

        Args:
            path: The file.
            data: The new content.
            version: The version from `read_versioned` or from an earlier call; None: there must be no file.

        Returns:
            The new version; None if the file has another version or is missing, and nothing was changed.

        Raises:
            HoodieNotSupportedException: The store cannot.
        """
        raise HoodieNotSupportedException(f"Replacing a version of {path}: {type(self).__name__} cannot do that")

    def touch(self, path: str) -> bool:
        """Set a file's modification time to now, without a change of its content. False if it is not there.

        Raises:
            HoodieNotSupportedException: The store cannot.
        """
        raise HoodieNotSupportedException(f"Touching {path}: {type(self).__name__} cannot do that")

    def set_modification_time(self, path: str, modification_time_ms: int) -> bool:
        """Set a file's modification time, where the store can do that.

        Args:
            path: The file.
            modification_time_ms: Milliseconds since the epoch, UTC.

        Returns:
            False if the file is not there, or the store keeps the time of the last write.
        """
        return False

    def now_ms(self, folder: str) -> int:
        """The current time by the clock that gives the files of a folder their modification times.

        By default the call writes a file there, and deletes it again.

        Args:
            folder: An existing folder of the table.

        Returns:
            Milliseconds since the epoch, UTC.
        """
        path = f"{folder.rstrip('/')}/.hoodie_tmp_{uuid.uuid4().hex}"
        self.replace(path, b"")
        try:
            status = self.file_status(path)
        finally:
            self.delete_file(path)
        return status.modification_time_ms if status is not None else time.time_ns() // 1_000_000

    def delete_leftovers(self, path: str, min_age_ms: int) -> int:
        """Delete temporary files that killed processes left directly in a directory; those that fail stay.

        Args:
            path: The directory; it may be missing.
            min_age_ms: Younger ones stay: their writer may be alive.

        Returns:
            The number of deleted files; 0 on stores without temporary files.
        """
        return 0

    def exists(self, path: str) -> bool:
        """Whether a file or directory has that name."""
        return self.file_status(path) is not None

    def is_file(self, path: str) -> bool:
        """Whether a file has that name; on object stores one request, where `exists` also looks for a directory."""
        status = self.file_status(path)
        return status is not None and not status.is_directory

    @property
    def is_remote(self) -> bool:
        """Whether each call waits for a network, so that calls that do not wait for each other are made at once."""
        return False


def abort_stream(stream: pa.NativeFile) -> None:
    """Close a stream of `HoodieStorage.open_output_stream` without finishing its file, if the store can do that.

    On file systems the written bytes stay, under a name to which nothing refers.
    """
    getattr(stream, "abort", stream.close)()
