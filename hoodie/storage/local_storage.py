"""Tables in local files: the atomic steps of `hoodie.storage.local_files`, and the rule for lost answers."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import attrs
import pyarrow as pa

from hoodie.exception import HoodieException, HoodieIOException
from hoodie.storage import local_files
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_options import StorageOptions

_MAX_REFILLED = 10
"""How often other processes may write into a folder while it is being deleted."""


@contextmanager
def named_errors(action: str, path: str) -> Iterator[None]:
    """Turn a failure of the store into a HoodieIOException that names the action and the path.

    Args:
        action: The action, such as "Reading".
        path: Full path of the file or directory.

    Raises:
        HoodieIOException: The store failed.
    """
    try:
        yield
    except HoodieException:
        raise
    except OSError as error:
        raise HoodieIOException(f"{action} {path} failed: {error}") from error


@contextmanager
def missing_is_an_answer(action: str, path: str) -> Iterator[None]:
    """Like `named_errors`, but a missing file stays a FileNotFoundError, whose message names the path.

    Args:
        action: The action, such as "Reading".
        path: Full path of the file.

    Raises:
        FileNotFoundError: There is no such file.
        HoodieIOException: The store failed.
    """
    try:
        with named_errors(action, path):
            yield
    except HoodieIOException as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            raise FileNotFoundError(f"{action} {path}: there is no such file") from error.__cause__
        raise


def version_of(content: bytes) -> str:
    """The version of a file, computed from its content.

    Args:
        content: The whole content.
    """
    return hashlib.sha256(content).hexdigest()


@attrs.frozen(eq=False)
class LocalStorage(HoodieStorage):
    """Local files.

    Arrow itself reads and writes data files (`pyarrow.OSFile`), without Python in between and without mapping them into
    memory: a mapped file that another process truncates kills the reader with SIGBUS.

    Symbolic links inside the table are listed as in `hoodie.storage.local_files.scan`. Nothing is created, changed or
    deleted through a linked folder that leads out of the base path, even if a plan or a marker names a path there. The
    base path itself may be a link, or have one among its parents.

    Attributes:
        base_path: The normalised base path of the table that this storage was opened for.
        storage_options: Ignored, because local files have no options. Never printed.

    Hudi: org.apache.hudi.storage.hadoop.HoodieHadoopStorage. Differs: no caches, and the atomic steps are explicit.
    """

    base_path: str
    storage_options: StorageOptions = attrs.field(factory=dict, repr=False)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create a whole file unless the name is taken; see `HoodieStorage.create_if_absent`.

        If the store fails, the call reads the file back. Other content means that the name was taken (False). The same
        content means that the put was applied before its answer was lost (True). No file means that it was not applied
        (an error). Two empty files look the same, so that case is an error as well.
        """
        try:
            return self._put_if_absent(path, data)
        except OSError as error:
            if isinstance(error, HoodieException):
                raise
            return self._find_out(path, data, error)

    def create_all_if_absent(self, files: Sequence[tuple[str, bytes]]) -> list[bool]:
        """Create several files; see `HoodieStorage.create_all_if_absent`. Each folder is flushed once."""
        made: list[bool] = []
        for path, data in files:
            try:
                self._check_folder("Creating", path)
                made.append(local_files.create_exclusively(path, data, is_flushed=False))
            except OSError as error:
                if isinstance(error, HoodieException):
                    raise
                made.append(self._find_out(path, data, error))
        for folder in dict.fromkeys(os.path.dirname(path) for path, _ in files):
            with named_errors("Flushing", folder):
                local_files.flush_directory(folder)
        return made

    def _find_out(self, path: str, data: bytes, error: OSError) -> bool:
        message = f"Creating {path} failed: {error}"
        try:
            found = self.read(path)
        except FileNotFoundError:
            raise HoodieIOException(message) from error
        except HoodieIOException as read_error:
            raise HoodieIOException(f"{message}. Whether the file was made is unknown: {read_error}") from error
        if found == data and not data:
            raise HoodieIOException(
                f"{message}. There is an empty file, and whether this call made it is unknown"
            ) from error
        return found == data

    def replace(self, path: str, data: bytes) -> None:
        """Put a whole file under its name; see `HoodieStorage.replace`."""
        with named_errors("Replacing", path):
            self._put(path, data)

    def _put_if_absent(self, path: str, data: bytes) -> bool:
        """Put a whole file atomically unless the name is taken; True when this call did it.

        An OSError means that the outcome is unknown; `create_if_absent` then reads the file.
        """
        self._check_folder("Creating", path)
        return local_files.create_exclusively(path, data)

    def _put(self, path: str, data: bytes) -> None:
        """Put a whole file atomically, whatever was there."""
        self._check_folder("Replacing", path)
        local_files.replace_atomically(path, data)

    def read(self, path: str) -> bytes:
        """The whole content of a file; see `HoodieStorage.read`."""
        with missing_is_an_answer("Reading", path), open(path, "rb") as file:
            return file.read()

    def file_status(self, path: str) -> FileStatus | None:
        """The status of a file or directory; see `HoodieStorage.file_status`."""
        with named_errors("Looking up", path):
            try:
                return local_files.file_status(path, os.stat(path))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def list_directory(self, path: str) -> list[FileStatus]:
        """Direct children; see `HoodieStorage.list_directory`."""
        with named_errors("Listing", path):
            return local_files.scan(path, self.base_path)

    def list_names(self, path: str) -> list[str]:
        """Names of direct children; see `HoodieStorage.list_names`."""
        with named_errors("Listing", path):
            return local_files.scan_names(path, self.base_path)

    def list_files(self, path: str) -> list[FileStatus]:
        """All files below a directory; see `HoodieStorage.list_files`."""
        with named_errors("Listing", path):
            return sorted(local_files.walk(path, self.base_path), key=lambda child: child.path)

    def sample_files(self, path: str, limit: int) -> list[str]:
        """Some files below a directory; see `HoodieStorage.sample_files`."""
        with named_errors("Listing", path):
            return list(islice(local_files.find_files(path), limit))

    def create_directory(self, path: str) -> None:
        """Make a directory and its parents; see `HoodieStorage.create_directory`."""
        with named_errors("Making the directory", path):
            self._check_folder("Making the directory", path)
            local_files.make_directories(path)

    def move_file(self, source: str, target: str) -> None:
        """Rename a file, durably; see `HoodieStorage.move_file`."""
        with missing_is_an_answer("Moving", source):
            self._check_folder("Moving", source)
            self._check_folder("Moving to", target)
            local_files.move(source, target)

    def delete_file(self, path: str) -> bool:
        """Delete a file and its checksum sibling; see `HoodieStorage.delete_file`."""
        with named_errors("Deleting", path):
            self._check_folder("Deleting", path)
            deleted = _unlink(path)
            _unlink(local_files.checksum_sibling(path))
        return deleted

    def delete_directory(self, path: str) -> bool:
        """Delete a directory with all below it; see `HoodieStorage.delete_directory`."""
        found = False
        refilled = 0
        with named_errors("Deleting the directory", path):
            self._check_folder("Deleting the directory", path)
            while os.path.lexists(path):
                found = True
                try:
                    shutil.rmtree(path)
                except FileNotFoundError:
                    continue  # another process deletes the same directory: go on with what is left
                except OSError as error:
                    # Another process made a file meanwhile: a writer that waits for the table looks for its lock there.
                    refilled += 1
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or refilled > _MAX_REFILLED:
                        raise
        return found

    def delete_empty_directory(self, path: str) -> bool:
        """Delete an empty directory; see `HoodieStorage.delete_empty_directory`."""
        with named_errors("Deleting the directory", path):
            self._check_folder("Deleting the directory", path)
            return local_files.remove_empty(path)

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        """A file and its version, computed from its content; see `HoodieStorage.read_versioned`."""
        content = self.read(path)
        return content, version_of(content)

    def replace_version(self, path: str, data: bytes, version: str | None) -> str | None:
        """Replace a version of a file; see `HoodieStorage.replace_version`.

        A lock of the operating system on a file beside it keeps other processes out; it ends with its process.
        """
        with named_errors("Replacing a version of", path), local_files.exclusively(f"{path}.guard"):
            try:
                found: str | None = self.read_versioned(path)[1]
            except FileNotFoundError:
                found = None
            if found != version:
                return None
            self._put(path, data)
            return version_of(data)

    def touch(self, path: str) -> bool:
        """Set a file's modification time to now; see `HoodieStorage.touch`."""
        with named_errors("Touching", path):
            self._check_folder("Touching", path)
            try:
                os.utime(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def set_modification_time(self, path: str, modification_time_ms: int) -> bool:
        """Set a file's modification time; see `HoodieStorage.set_modification_time`."""
        with named_errors("Setting the modification time of", path):
            self._check_folder("Setting the modification time of", path)
            nanoseconds = modification_time_ms * 1_000_000
            try:
                os.utime(path, ns=(nanoseconds, nanoseconds))
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def now_ms(self, folder: str) -> int:
        """The current time by the clock of the file system; see `HoodieStorage.now_ms`."""
        with named_errors("Asking for the time in", folder):
            return local_files.present_ms(folder)

    def delete_leftovers(self, path: str, min_age_ms: int) -> int:
        """Delete old temporary files; see `HoodieStorage.delete_leftovers`."""
        return local_files.delete_temporary_files(path, min_age_ms)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access; see `HoodieStorage.open_input_file`."""
        with missing_is_an_answer("Opening", path):
            return pa.OSFile(path, mode="r")

    def open_output_stream(self, path: str) -> pa.NativeFile:
        """Open a data file for writing; see `HoodieStorage.open_output_stream`."""
        with named_errors("Opening for writing", path):
            self._check_folder("Writing", path)
            try:
                return _DurableFile(path, mode="w")
            except FileNotFoundError:
                local_files.make_directories(os.path.dirname(path))
                return _DurableFile(path, mode="w")

    def _check_folder(self, action: str, path: str) -> None:
        """Refuse a path whose folder leads out of the table by symbolic links."""
        local_files.check_folder(action, path, self.base_path)


class _DurableFile(pa.OSFile):  # type: ignore[misc]
    """A file that is on the disk, with its name, once it is closed: commits refer to it then."""

    def __init__(self, path: str, mode: str) -> None:
        # Arrow opens the file where objects are made.
        super().__init__()
        self._path = path

    def close(self) -> None:
        """Flush the content and the name, and close the file. A second call does nothing."""
        if not self.closed:
            self.flush()
            with named_errors("Flushing", self._path):
                local_files.flush_file(self._path)
            super().close()
            local_files.flush_directory(os.path.dirname(self._path))

    def abort(self) -> None:
        """Close a file to which nothing will refer."""
        super().close()


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
