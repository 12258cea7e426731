"""Local files and memory, and `open_storage`, which picks a storage by the scheme of a base path.

What the two share is in `FsspecStorage`: reading, listing and deleting through an fsspec file system, and the rule for
lost answers. The two atomic steps of a timeline differ by store and are the subclass's: fsspec's own
``open(path, "xb")`` shows an empty file under its final name before it is closed.

Object stores are in `hoodie.storage.object_storage`. A store becomes a home for tables when it can put a file
conditionally.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import threading
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import islice
from typing import Any

import attrs
import fsspec
import pyarrow as pa

from hoodie.exception import HoodieException, HoodieIOException, HoodieNotSupportedException
from hoodie.storage import local_files, storage_path
from hoodie.storage.object_storage import ObjectStorage
from hoodie.storage.object_store_settings import OBJECT_STORE_SCHEMES
from hoodie.storage.retry import RetryPolicy
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_options import StorageOptions, check_options

__all__ = ["FsspecStorage", "LocalStorage", "MemoryStorage", "open_storage"]

_MEMORY_LOCK = threading.RLock()
_MAX_REFILLED = 10
"""Times that others may write into a folder that is being deleted."""


@contextmanager
def _naming(action: str, path: str) -> Iterator[None]:
    """Turn a failure of the store into a HoodieIOException that says what was done to which path."""
    try:
        yield
    except HoodieException:
        raise
    except OSError as error:
        raise HoodieIOException(f"{action} {path} failed: {error}") from error


def _copy(options: StorageOptions | None) -> StorageOptions:
    check_options(options)
    return options if callable(options) else dict(options or {})


@attrs.frozen(eq=False)
class FsspecStorage(HoodieStorage):
    """A store behind fsspec; subclasses add the two atomic steps.

    Attributes:
        base_path: The normalised base path of the table that this storage was opened for.
        storage_options: See `hoodie.storage.storage_options`; neither local files nor memory have options, so any are
            taken and not looked at. Never printed.

    Hudi: org.apache.hudi.storage.hadoop.HoodieHadoopStorage. Differs: no caches, and the atomic steps are explicit.
    """

    base_path: str
    storage_options: StorageOptions = attrs.field(factory=dict, repr=False, converter=_copy)

    @abstractmethod
    def _put_if_absent(self, path: str, data: bytes) -> bool:
        """Put a whole file atomically unless the name is taken; True when this call did it.

        An OSError means that the outcome is unknown: `create_if_absent` finds it out.
        """

    @abstractmethod
    def _put(self, path: str, data: bytes) -> None:
        """Put a whole file atomically, whatever was there."""

    @property
    def _file_system(self) -> Any:
        return fsspec.filesystem(storage_path.scheme(self.base_path), use_listings_cache=False)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create a whole file unless the name is taken; see `HoodieStorage.create_if_absent`.

        When the store fails, the file is read back: other content means that the name was taken (False), the same
        content that the put was applied before its answer was lost (True), no file that it was not (an error).
        Two empty files cannot be told apart, so that case is an error as well.
        """
        try:
            return self._put_if_absent(path, data)
        except OSError as error:
            if isinstance(error, HoodieException):
                raise
            return self._find_out(path, data, error)

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
        with _naming("Replacing", path):
            self._put(path, data)

    def read(self, path: str) -> bytes:
        """The whole content of a file; see `HoodieStorage.read`."""
        with _missing_is_an_answer("Reading", path):
            content: bytes = self._file_system.cat_file(path)
            return content

    def file_status(self, path: str) -> FileStatus | None:
        """The status of a file or directory; see `HoodieStorage.file_status`."""
        with _naming("Looking up", path):
            try:
                return self._status(self._file_system.info(path))
            except FileNotFoundError:
                return None

    def list_directory(self, path: str) -> list[FileStatus]:
        """Direct children; see `HoodieStorage.list_directory`."""
        with _naming("Listing", path):
            try:
                found = [self._status(info) for info in self._file_system.ls(path, detail=True)]
            except FileNotFoundError:
                return []
            if any(child.path == path for child in found):
                raise NotADirectoryError(f"{path} is a file")
        visible = (child for child in found if not local_files.is_hidden_from_listings(child.name))
        return sorted(visible, key=lambda child: child.name)

    def list_files(self, path: str) -> list[FileStatus]:
        """All files below a directory; see `HoodieStorage.list_files`."""
        with _naming("Listing", path):
            try:
                found = [self._status(info) for info in self._file_system.find(path, detail=True).values()]
            except FileNotFoundError:
                return []
            if any(child.path == path for child in found):
                raise NotADirectoryError(f"{path} is a file")
        visible = (child for child in found if not local_files.is_hidden_from_listings(child.name))
        return sorted(visible, key=lambda child: child.path)

    def create_directory(self, path: str) -> None:
        """Make a directory; see `HoodieStorage.create_directory`."""
        with _naming("Making the directory", path):
            self._file_system.makedirs(path, exist_ok=True)

    def delete_file(self, path: str) -> bool:
        """Delete a file; see `HoodieStorage.delete_file`."""
        with _naming("Deleting", path):
            try:
                self._file_system.rm_file(path)
            except FileNotFoundError:
                return False
        return True

    def delete_directory(self, path: str) -> bool:
        """Delete a directory with all below it; see `HoodieStorage.delete_directory`."""
        with _naming("Deleting the directory", path):
            # Not rm(recursive=True): it takes characters of the path as a glob.
            file_system = self._file_system
            if not file_system.isdir(path):
                return False
            directories = [path]
            for name, info in file_system.find(path, withdirs=True, detail=True).items():
                if info["type"] == "directory":
                    directories.append(name)
                else:
                    file_system.rm_file(name)
            for directory in sorted(directories, key=len, reverse=True):
                with suppress(FileNotFoundError):
                    file_system.rmdir(directory)
        return True

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access; see `HoodieStorage.open_input_file`."""
        with _missing_is_an_answer("Opening", path):
            return pa.PythonFile(self._file_system.open(path, "rb"), mode="r")

    def open_output_stream(self, path: str) -> pa.NativeFile:
        """Open a data file for writing; see `HoodieStorage.open_output_stream`."""
        with _naming("Opening for writing", path):
            return pa.PythonFile(self._file_system.open(path, "wb"), mode="w")

    def _status(self, info: Mapping[str, Any]) -> FileStatus:
        prefix = storage_path.scheme(self.base_path) + "://"
        name = str(info["name"]).removeprefix(prefix).strip("/")
        is_directory = info["type"] == "directory"
        return FileStatus(
            path=prefix + name,
            size_bytes=0 if is_directory else int(info["size"]),
            modification_time_ms=_milliseconds(info.get("mtime") or info.get("LastModified") or info.get("created")),
            is_directory=is_directory,
        )


class LocalStorage(FsspecStorage):
    """Local files.

    Data files are read and written by Arrow itself (`pyarrow.OSFile`), without Python in between and without mapping
    them into memory: a mapped file that another process truncates kills the reader with SIGBUS.

    Symbolic links inside of the table are listed as `hoodie.storage.local_files.scan` says. Nothing is made, changed or
    deleted through a linked folder that leads out of the base path: whatever a plan or a marker names, files of others
    stay. The base path itself may be, or lie behind, a link.
    """

    __slots__ = ()

    def _put_if_absent(self, path: str, data: bytes) -> bool:
        self._check_folder("Creating", path)
        return local_files.create_exclusively(path, data)

    def _put(self, path: str, data: bytes) -> None:
        self._check_folder("Replacing", path)
        local_files.replace_atomically(path, data)

    def read(self, path: str) -> bytes:
        """The whole content of a file; see `HoodieStorage.read`."""
        with _missing_is_an_answer("Reading", path), open(path, "rb") as file:
            return file.read()

    def file_status(self, path: str) -> FileStatus | None:
        """The status of a file or directory; see `HoodieStorage.file_status`."""
        with _naming("Looking up", path):
            try:
                status = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
            is_directory = os.path.isdir(path)
        return FileStatus(
            path=path,
            size_bytes=0 if is_directory else status.st_size,
            modification_time_ms=status.st_mtime_ns // 1_000_000,
            is_directory=is_directory,
        )

    def list_directory(self, path: str) -> list[FileStatus]:
        """Direct children; see `HoodieStorage.list_directory`."""
        with _naming("Listing", path):
            return local_files.scan(path, self.base_path)

    def list_files(self, path: str) -> list[FileStatus]:
        """All files below a directory; see `HoodieStorage.list_files`."""
        with _naming("Listing", path):
            return sorted(local_files.walk(path, self.base_path), key=lambda child: child.path)

    def sample_files(self, path: str, limit: int) -> list[str]:
        """Some files below a directory; see `HoodieStorage.sample_files`."""
        with _naming("Listing", path):
            return list(islice(local_files.find_files(path), limit))

    def create_directory(self, path: str) -> None:
        """Make a directory and its parents; see `HoodieStorage.create_directory`."""
        with _naming("Making the directory", path):
            self._check_folder("Making the directory", path)
            local_files.make_directories(path)

    def delete_file(self, path: str) -> bool:
        """Delete a file and its checksum sibling; see `HoodieStorage.delete_file`."""
        with _naming("Deleting", path):
            self._check_folder("Deleting", path)
            deleted = _unlink(path)
            _unlink(local_files.checksum_sibling(path))
        return deleted

    def delete_directory(self, path: str) -> bool:
        """Delete a directory with all below it; see `HoodieStorage.delete_directory`."""
        found = False
        refilled = 0
        with _naming("Deleting the directory", path):
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
        """Delete a directory that nothing is in; see `HoodieStorage.delete_empty_directory`."""
        with _naming("Deleting the directory", path):
            self._check_folder("Deleting the directory", path)
            return local_files.remove_empty(path)

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        """A file and its version, which is made of its content; see `HoodieStorage.read_versioned`."""
        content = self.read(path)
        return content, _version_of(content)

    def replace_version(self, path: str, data: bytes, version: str | None) -> str | None:
        """Replace a version of a file; see `HoodieStorage.replace_version`.

        Processes keep apart by a lock of the operating system on a file beside it, which ends with its process.
        """
        with _naming("Replacing a version of", path), local_files.exclusively(f"{path}.guard"):
            try:
                found: str | None = self.read_versioned(path)[1]
            except FileNotFoundError:
                found = None
            if found != version:
                return None
            self._put(path, data)
            return _version_of(data)

    def touch(self, path: str) -> bool:
        """Make a file young; see `HoodieStorage.touch`."""
        with _naming("Touching", path):
            self._check_folder("Touching", path)
            try:
                os.utime(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def now_ms(self, folder: str) -> int:
        """The present by the clock of the file system; see `HoodieStorage.now_ms`."""
        with _naming("Asking for the time in", folder):
            return local_files.present_ms(folder)

    def delete_leftovers(self, path: str, min_age_ms: int) -> int:
        """Delete old temporary files; see `HoodieStorage.delete_leftovers`."""
        return local_files.delete_temporary_files(path, min_age_ms)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access; see `HoodieStorage.open_input_file`."""
        with _missing_is_an_answer("Opening", path):
            return pa.OSFile(path, mode="r")

    def open_output_stream(self, path: str) -> pa.NativeFile:
        """Open a data file for writing; see `HoodieStorage.open_output_stream`."""
        with _naming("Opening for writing", path):
            self._check_folder("Writing", path)
            try:
                return pa.OSFile(path, mode="w")
            except FileNotFoundError:
                local_files.make_directories(os.path.dirname(path))
                return pa.OSFile(path, mode="w")

    def _check_folder(self, action: str, path: str) -> None:
        """Refuse a path whose folder is, by symbolic links, another one than a folder of the table."""
        local_files.check_folder(action, path, self.base_path)


class MemoryStorage(FsspecStorage):
    """Files in the memory of this process, shared by all of its threads; for tests and examples.

    A lock makes the atomic steps atomic. A file that is opened for reading keeps the content of that moment.
    """

    __slots__ = ()

    def _put_if_absent(self, path: str, data: bytes) -> bool:
        with _MEMORY_LOCK:
            if self._file_system.exists(path):
                return False
            self._file_system.pipe_file(path, data)
            return True

    def _put(self, path: str, data: bytes) -> None:
        with _MEMORY_LOCK:
            self._file_system.pipe_file(path, data)
            self.delete_file(_checksum_sibling(path))

    def read(self, path: str) -> bytes:
        """The whole content of a file; see `HoodieStorage.read`."""
        with _MEMORY_LOCK:
            return super().read(path)

    def file_status(self, path: str) -> FileStatus | None:
        """The status of a file or directory; see `HoodieStorage.file_status`."""
        with _MEMORY_LOCK:
            return super().file_status(path)

    def list_directory(self, path: str) -> list[FileStatus]:
        """Direct children; see `HoodieStorage.list_directory`."""
        with _MEMORY_LOCK:
            return super().list_directory(path)

    def list_files(self, path: str) -> list[FileStatus]:
        """All files below a directory; see `HoodieStorage.list_files`."""
        with _MEMORY_LOCK:
            return super().list_files(path)

    def create_directory(self, path: str) -> None:
        """Make a directory; see `HoodieStorage.create_directory`."""
        with _MEMORY_LOCK:
            super().create_directory(path)

    def delete_file(self, path: str) -> bool:
        """Delete a file and its checksum sibling; see `HoodieStorage.delete_file`."""
        with _MEMORY_LOCK, _naming("Deleting", path):
            if self._file_system.isdir(path):
                raise IsADirectoryError(f"{path} is a directory")
            deleted = super().delete_file(path)
            if not local_files.is_hidden_from_listings(storage_path.file_name(path)):
                super().delete_file(_checksum_sibling(path))
            return deleted

    def delete_directory(self, path: str) -> bool:
        """Delete a directory with all below it; see `HoodieStorage.delete_directory`."""
        with _MEMORY_LOCK, _naming("Deleting the directory", path):
            if self._file_system.isfile(path):
                raise NotADirectoryError(f"{path} is a file")
            return super().delete_directory(path)

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory that nothing is in; see `HoodieStorage.delete_empty_directory`."""
        with _MEMORY_LOCK, _naming("Deleting the directory", path):
            if not self._file_system.isdir(path) or self._file_system.ls(path):
                return False
            self._file_system.rmdir(path)
            return True

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        """A file and its version; see `HoodieStorage.read_versioned`."""
        content = self.read(path)
        return content, _version_of(content)

    def replace_version(self, path: str, data: bytes, version: str | None) -> str | None:
        """Replace a version of a file; see `HoodieStorage.replace_version`."""
        with _MEMORY_LOCK:
            found = _version_of(self.read(path)) if self.file_status(path) is not None else None
            if found != version:
                return None
            self._put(path, data)
            return _version_of(data)

    def touch(self, path: str) -> bool:
        """Make a file young; see `HoodieStorage.touch`."""
        with _MEMORY_LOCK, _naming("Touching", path):
            if not self._file_system.isfile(path):
                return False
            self._file_system.pipe_file(path, self.read(path))
        return True

    def now_ms(self, folder: str) -> int:
        """The present of this process, which gives the files their times; see `HoodieStorage.now_ms`."""
        return time.time_ns() // 1_000_000

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access; see `HoodieStorage.open_input_file`."""
        # fsspec hands the same file object, with one position, to all readers.
        return pa.BufferReader(self.read(path))

    def open_output_stream(self, path: str) -> pa.NativeFile:
        """Open a data file for writing; see `HoodieStorage.open_output_stream`."""
        with _MEMORY_LOCK:
            return super().open_output_stream(path)


_STORAGES: Mapping[str, type[FsspecStorage]] = {"file": LocalStorage, "memory": MemoryStorage}


def open_storage(
    base_path: str, storage_options: StorageOptions | None = None, retry: RetryPolicy | None = None
) -> HoodieStorage:
    """The storage of a table, by the scheme of its base path. Nothing is connected to.

    Args:
        base_path: Where the table is, as users write it (see `hoodie.storage.storage_path.normalise_path`).
        storage_options: Options and credentials of an object store, or a function that returns them.
        retry: How often calls of an object store are made again.

    Returns:
        A picklable storage; its ``base_path`` is the normalised path.

    Raises:
        HoodieNotSupportedException: hoodie has no conditional put for that store: two writers could both complete an
            instant.
        HoodieConfigException: The path is not one, or the options are neither a dict nor a function.
    """
    path = storage_path.normalise_path(base_path)
    found_scheme = storage_path.scheme(path)
    if found_scheme in OBJECT_STORE_SCHEMES:
        check_options(storage_options)
        options = storage_options if callable(storage_options) or storage_options is None else dict(storage_options)
        return ObjectStorage(path, options, retry or RetryPolicy())
    storage_class = _STORAGES.get(found_scheme)
    if storage_class is None:
        supported = ", ".join(f"{name}://" for name in sorted([*_STORAGES, *OBJECT_STORE_SCHEMES]))
        raise HoodieNotSupportedException(
            f"Opening the storage of {path}: tables on {found_scheme}:// are not supported, because hoodie has no "
            f"conditional put for that store and two writers could both complete an instant. Supported are "
            f"{supported} and plain local paths; mount the store as a folder, or copy the table"
        )
    return storage_class(path, storage_options or {})


@contextmanager
def _missing_is_an_answer(action: str, path: str) -> Iterator[None]:
    """As `_naming`, but a missing file stays a FileNotFoundError, with the path as its message."""
    try:
        with _naming(action, path):
            yield
    except HoodieIOException as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            raise FileNotFoundError(f"{action} {path}: there is no such file") from error.__cause__
        raise


def _version_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _checksum_sibling(path: str) -> str:
    return storage_path.join(storage_path.parent(path), f".{storage_path.file_name(path)}.crc")


def _milliseconds(moment: Any) -> int:
    if moment is None:
        return 0
    return int((moment.timestamp() if isinstance(moment, datetime) else float(moment)) * 1000)
