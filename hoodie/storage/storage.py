"""What hoodie needs of a file store, and what each call promises.

Paths are strings: absolute local paths (``/data/trips/...``) or full URLs (``s3://bucket/trips/...``,
``memory://trips/...``), always with ``/``, never with a trailing slash. `hoodie.storage.storage_path` joins and
splits them.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable

import attrs
import pyarrow as pa

from hoodie.exception import HoodieNotSupportedException

__all__ = ["FileStatus", "HoodieStorage", "abort_stream"]


@attrs.frozen
class FileStatus:
    """One entry of a listing.

    Attributes:
        path: Full path, in the form described in the module.
        size_bytes: Length of the file; 0 for a directory.
        modification_time_ms: Milliseconds since the epoch, UTC; 0 where the store does not tell.
        is_directory: True for a directory (on object stores: a common prefix).
    """

    path: str
    size_bytes: int
    modification_time_ms: int
    is_directory: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


class HoodieStorage(ABC):
    """A file store with the two atomic steps that a timeline needs.

    Implementations are picklable (they cross to tasks) and hold no open handles. Every failure that is not described
    below is raised as `hoodie.exception.HoodieIOException` naming the path.

    Hudi: org.apache.hudi.storage.HoodieStorage.
    """

    @abstractmethod
    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create a whole file under its final name, only if nothing has that name. Atomic.

        Missing parent directories are made. The file is never visible with other content than ``data``, and it is
        durable when the call returns. When the answer of the store is lost, the file is read back and the truth
        returned.

        Returns:
            True when this call created the file; False when the name was taken (nothing is changed then).
        """

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
        """The status of a file or directory, None when there is neither. Never answered from a cache."""

    @abstractmethod
    def list_directory(self, path: str) -> list[FileStatus]:
        """Direct children, files and directories, sorted by name; [] when the directory does not exist.

        Hadoop's checksum siblings (``.<name>.crc``) and temporary files of `create_if_absent` and `replace` are left
        out. Never answered from a cache.
        """

    @abstractmethod
    def list_files(self, path: str) -> list[FileStatus]:
        """All files below a directory at any depth, sorted by path; as `list_directory` otherwise."""

    def sample_files(self, path: str, limit: int) -> list[str]:
        """Full paths of some files below a directory at any depth, at most so many; [] when there are none.

        Which ones is left to the storage: what matters is that the answer takes one short listing, however many files
        there are. Symbolic links count as files, and are not followed.
        """
        return [file.path for file in self.list_files(path)[:limit]]

    @abstractmethod
    def create_directory(self, path: str) -> None:
        """Make a directory and its parents; nothing happens when it exists, or on stores without directories."""

    @abstractmethod
    def delete_file(self, path: str) -> bool:
        """Delete a file and its ``.<name>.crc`` sibling. False when it was not there (not an error)."""

    def delete_files(self, paths: Iterable[str]) -> None:
        """Delete many files, in as few calls as the storage allows; those that are not there are no error.

        Args:
            paths: Of files; whether one is a directory need not be found out.

        Raises:
            HoodieIOException: Storage failed; others of them may be deleted.
        """
        for path in paths:
            self.delete_file(path)

    @abstractmethod
    def delete_directory(self, path: str) -> bool:
        """Delete a directory with all below it. False when it was not there (not an error)."""

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory that nothing is in; False when it was not there, or something is in it.

        Stores without directories have none to delete.
        """
        return False

    @abstractmethod
    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access reads.

        Raises:
            FileNotFoundError: There is no such file.
        """

    @abstractmethod
    def open_output_stream(self, path: str) -> pa.NativeFile:
        """Open a data file for writing from its start, parents made; it may be visible before it is closed.

        For data files only: their names are unique and nothing refers to them before the commit. Metadata goes
        through `create_if_absent` and `replace`.
        """

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        """The whole content of a file, and which version of it that is, for `replace_version`.

        Raises:
            FileNotFoundError: There is no such file.
            HoodieNotSupportedException: The store cannot.
        """
        raise HoodieNotSupportedException(f"Reading the version of {path}: {type(self).__name__} cannot do that")

    def replace_version(self, path: str, data: bytes, version: str | None) -> str | None:
        """Put a whole file under its name, only if what is there is that version. Atomic.

        ``data`` must differ from all that was ever there: when an answer is lost, finding it means that the put was
        applied.

        Args:
            path: The file.
            data: The new content.
            version: Of `read_versioned`, or of an earlier call; None: there must be no file.

        Returns:
            The new version; None when something else is there, and nothing was changed.

        Raises:
            HoodieNotSupportedException: The store cannot.
        """
        raise HoodieNotSupportedException(f"Replacing a version of {path}: {type(self).__name__} cannot do that")

    def touch(self, path: str) -> bool:
        """Make a file as young as if it were written now; its content stays. False when it is not there.

        Raises:
            HoodieNotSupportedException: The store cannot.
        """
        raise HoodieNotSupportedException(f"Touching {path}: {type(self).__name__} cannot do that")

    def now_ms(self, folder: str) -> int:
        """The present by the clock that gives the files of a folder their modification times.

        Found out by a file that is written there and deleted again.

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
        """Delete temporary files that killed processes left directly in a directory; what fails is left.

        Args:
            path: The directory; it may be missing.
            min_age_ms: Younger ones stay: their writer may be alive.

        Returns:
            How many were deleted; stores that need no temporary files have none.
        """
        return 0

    def exists(self, path: str) -> bool:
        """Whether a file or directory has that name."""
        return self.file_status(path) is not None


def abort_stream(stream: pa.NativeFile) -> None:
    """Close a stream of `HoodieStorage.open_output_stream` without finishing its file, where the store can do that.

    On file systems the bytes that were written stay, under a name that nothing refers to.
    """
    getattr(stream, "abort", stream.close)()
