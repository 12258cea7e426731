"""The atomic steps and the listing of a POSIX file system.

A new file is written under a temporary name in its own directory and flushed to the disk, unless it is empty. Only then
it gets its final name: by a hard link, which fails if the name is taken, or by a rename, which replaces. Then the
directory is flushed. A reader therefore never sees a part of a file under its final name. To open the final name
exclusively is not enough, because the file would be visible while it is empty.

Temporary names are ``.hoodie_tmp_<32 hex digits>``. If the process is killed in between, the temporary file stays:
listings leave it out, Hudi ignores names that start with a dot, and `delete_temporary_files` removes it later.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import operator
import os
import re
import stat
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hoodie.exception import HoodieIOException, HoodieNotSupportedException
from hoodie.storage.storage import FileStatus

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

_TEMPORARY_PREFIX = ".hoodie_tmp_"
_HIDDEN = re.compile(r"^(?:\..+\.crc|\.hoodie_tmp_[0-9a-f]{32})$", re.DOTALL)

# The errors of file systems without hard links (exFAT and some FUSE and SMB mounts).
_NO_HARD_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK}
_NO_DIRECTORY_FSYNC = {errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EACCES, errno.EPERM}

_NOT_A_NAME = {"", ".", ".."}
_NAME_OF = operator.attrgetter("name")
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1


def checksum_sibling(path: str) -> str:
    """The path of the checksum file that Hadoop's local file system keeps beside a file."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.crc"


def is_hidden_from_listings(name: str) -> bool:
    """Whether a name is a Hadoop checksum sibling or a temporary file of this module."""
    return name.startswith(".") and _HIDDEN.match(name) is not None


def check_folder(action: str, path: str, root: str) -> None:
    """Refuse a path below a root that symbolic links lead out of it; its last name may be a link.

    Args:
        action: A name of the action, for the error message.
        path: An absolute path.
        root: The base path of the table.

    Raises:
        HoodieIOException: The path is not below the root, or its folder is another one than it seems.
    """
    folder = os.path.dirname(path)
    if path != root and not path.startswith(root.rstrip("/") + "/"):
        raise HoodieIOException(f"{action} {path} was refused: it is not in {root}")
    if path == root or folder == root or not _may_lead_away(folder, root):
        return
    real_root = os.path.realpath(root)
    real_folder = os.path.realpath(folder)
    if not (real_folder + "/").startswith(real_root.rstrip("/") + "/"):
        raise HoodieIOException(
            f"{action} {path} was refused: a symbolic link leads from there to {real_folder}, out of {root}. Links out "
            "of a table are not followed; move the data into the table's folder, or mount it there"
        )


def create_exclusively(path: str, data: bytes, *, is_flushed: bool = True) -> bool:
    """Create a whole, durable file unless the name is taken.

    Args:
        path: The final name; missing parents are made.
        data: The whole content.
        is_flushed: Whether the name is durable too when the call returns; if not, call `flush_directory`.

    Returns:
        True when this call gave the file its name, False when the name was taken.

    Raises:
        HoodieNotSupportedException: The file system can neither link nor rename without replacing.
        OSError: The file system failed; the file may be there when the failure came late.
    """
    if os.path.lexists(path):
        return False
    temporary = _write_temporary(path, data)
    try:
        # A checksum left from an earlier file of this name would make Hadoop refuse the new one.
        with suppress(FileNotFoundError):
            os.unlink(checksum_sibling(path))
        created = _give_name(temporary, path)
    except FileNotFoundError as error:
        raise _deleted_by_others(temporary, error) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    if created and is_flushed:
        flush_directory(os.path.dirname(path))
    return created


def replace_atomically(path: str, data: bytes) -> None:
    """Put a whole, durable file under a name, whatever was there.

    Args:
        path: The final name; missing parents are made.
        data: The whole content.

    Raises:
        OSError: The file system failed; the old content is there unless the failure came after the rename.
    """
    temporary = _write_temporary(path, data)
    try:
        # First the checksum, then the file: Hadoop reads a file without a checksum, but refuses a wrong one.
        with suppress(FileNotFoundError):
            os.unlink(checksum_sibling(path))
        try:
            os.replace(temporary, path)
        except FileNotFoundError as error:
            raise _deleted_by_others(temporary, error) from error
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    flush_directory(os.path.dirname(path))


def move(source: str, target: str) -> None:
    """Rename a file durably, whatever had its new name.

    Args:
        source: The file, whose content is on the disk.
        target: Its new name; missing parents are made.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: The file system failed; the file has one of both names.
    """
    make_directories(os.path.dirname(target))
    with suppress(FileNotFoundError):
        os.unlink(checksum_sibling(target))
    os.replace(source, target)
    flush_directory(os.path.dirname(target))


def scan(directory: str, root: str) -> list[FileStatus]:
    """Direct children of a directory, sorted by name.

    A symbolic link to a file inside ``root`` is listed as that file, and a dangling link is left out. A link to a
    directory, or out of ``root``, is refused. If it were followed, files would be listed twice, or the table would
    reach beyond its folder. If it were left out, rows would silently be missing.

    Args:
        directory: An absolute path.
        root: The base path of the table.

    Returns:
        Files and directories without the names of `is_hidden_from_listings`; [] when there is no such directory.

    Raises:
        HoodieIOException: A link is refused; the message names it and its target.
        OSError: The file system failed.
    """
    children: list[FileStatus] = []
    prefix = f"{directory.rstrip('/')}/"
    for entry in _visible_entries(directory):
        # A file that vanishes between scandir and stat was deleted while we listed.
        try:
            if entry.is_symlink():
                _check_link(entry, root)
            children.append(file_status(prefix + entry.name, entry.stat()))
        except FileNotFoundError:
            continue
    return children


def scan_names(directory: str, root: str) -> list[str]:
    """The names of the entries of `scan`, in the same order; names of directories end in ``/``.

    The kind of an entry comes with its name, so that the file system is not asked for each file.
    """
    names: list[str] = []
    for entry in _visible_entries(directory):
        try:
            if entry.is_symlink():
                _check_link(entry, root)
            names.append(f"{entry.name}/" if entry.is_dir() else entry.name)
        except FileNotFoundError:
            continue
    return names


def _visible_entries(directory: str) -> list[os.DirEntry[str]]:
    """The entries of a directory by name; empty if it is missing."""
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=_NAME_OF)
    except FileNotFoundError:
        return []
    return [entry for entry in entries if not is_hidden_from_listings(entry.name)]


def file_status(path: str, status: os.stat_result) -> FileStatus:
    """The entry of a file or directory in a listing, by its status from the file system."""
    is_directory = stat.S_ISDIR(status.st_mode)
    size_bytes = 0 if is_directory else status.st_size
    return FileStatus(path, size_bytes, status.st_mtime_ns // 1_000_000, is_directory)


def walk(directory: str, root: str) -> Iterator[FileStatus]:
    """All files below a directory at any depth, as `scan` lists them, in no particular order."""
    for child in scan(directory, root):
        if child.is_directory:
            yield from walk(child.path, root)
        else:
            yield child


def find_files(directory: str) -> Iterator[str]:
    """Paths of the files below a directory at any depth, listed lazily; links are not followed.

    Raises:
        OSError: The file system failed.
    """
    try:
        entries = os.scandir(directory)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            path = f"{directory.rstrip('/')}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from find_files(path)
            elif not is_hidden_from_listings(entry.name):
                yield path


def remove_empty(directory: str) -> bool:
    """Delete an empty directory durably; False if it is not there, or is not empty.

    Raises:
        OSError: The file system failed.
    """
    try:
        os.rmdir(directory)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    flush_directory(os.path.dirname(directory))
    return True


def delete_temporary_files(directory: str, min_age_ms: int) -> int:
    """Delete files of this module's temporary names directly in a directory; what fails is left.

    Args:
        directory: An absolute path; it may be missing.
        min_age_ms: Younger ones stay, by the clock of the file system.

    Returns:
        How many were deleted.
    """
    deleted = 0
    with suppress(OSError):
        with os.scandir(directory) as entries:
            found = [
                entry.path
                for entry in entries
                if entry.name.startswith(_TEMPORARY_PREFIX) and is_hidden_from_listings(entry.name)
            ]
        # Most folders have none, so the present time is not asked for.
        oldest_ms = present_ms(directory) - min_age_ms if found else 0
        for path in found:
            with suppress(OSError):
                if os.lstat(path).st_mtime_ns // 1_000_000 <= oldest_ms:
                    os.unlink(path)
                    deleted += 1
    return deleted


def present_ms(directory: str) -> int:
    """The current time by the clock of a directory's file system, in milliseconds; over a network it is another clock.

    Raises:
        OSError: The file system failed.
    """
    path = f"{directory}/{_TEMPORARY_PREFIX}{uuid.uuid4().hex}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        return os.fstat(descriptor).st_mtime_ns // 1_000_000
    finally:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(path)


@contextmanager
def exclusively(path: str) -> Iterator[None]:
    """Keep other processes and threads of this machine (over NFS 4: of other machines) out of a block.

    Args:
        path: The file to lock, made if it is missing; it stays.

    Raises:
        HoodieNotSupportedException: The operating system has no such locks.
        OSError: The file system failed.
    """
    if fcntl is None:
        raise HoodieNotSupportedException(f"Locking {path}: this operating system has no locks of files")
    make_directories(os.path.dirname(path))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _may_lead_away(folder: str, root: str) -> bool:
    """Whether a folder below a root has a link, or a name such as ``..``, between them. Most have none."""
    place = root.rstrip("/")
    for name in folder[len(place) + 1 :].split("/"):
        if name in _NOT_A_NAME:
            return True
        place = f"{place}/{name}"
        try:
            if stat.S_ISLNK(os.lstat(place).st_mode):
                return True
        except OSError:
            # A missing file is no link; neither is anything below it.
            return False
    return False


def _check_link(entry: os.DirEntry[str], root: str) -> None:
    target = os.path.realpath(entry.path)
    if not os.path.exists(target):
        raise FileNotFoundError(entry.path)
    real_root = os.path.realpath(root)
    if entry.is_dir() or not (target + "/").startswith(real_root.rstrip("/") + "/"):
        raise HoodieIOException(
            f"Listing {os.path.dirname(entry.path)} met the symbolic link {entry.path} -> {target}. Links to "
            f"directories, or out of {root}, are not followed; move the data into the table's folder, or mount it there"
        )


def _write_temporary(path: str, data: bytes) -> str:
    directory = os.path.dirname(path)
    temporary = f"{directory}/{_TEMPORARY_PREFIX}{uuid.uuid4().hex}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        descriptor = os.open(temporary, flags, 0o666)
    except FileNotFoundError:
        make_directories(directory)
        descriptor = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if data:
                # Of an empty file there is but the name, which the flush of the directory keeps.
                os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def _deleted_by_others(temporary: str, error: FileNotFoundError) -> FileNotFoundError:
    """The error for a temporary file that disappeared before it got its final name."""
    if os.path.lexists(temporary):
        return error
    return FileNotFoundError(
        errno.ENOENT,
        "somebody deleted this temporary file while it was being written. Another writer may take it for one that was "
        "left behind, because the clock of its machine is ahead or it is of an older hoodie: compare the clocks of all "
        "writers, and write again",
        temporary,
    )


def make_directories(directory: str) -> None:
    """Make a directory and its parents durably. An existing one is not changed.

    Raises:
        OSError: The file system failed, or a file has the name of one of the directories.
    """
    missing: list[str] = []
    current = directory
    while current not in ("", "/") and not os.path.isdir(current):
        missing.append(current)
        current = os.path.dirname(current)
    for path in reversed(missing):
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        else:
            flush_directory(os.path.dirname(path))


def _give_name(temporary: str, path: str) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        # Over NFS the answer of a link that was made can be lost, and the repeated request finds the name taken.
        return _is_same_file(temporary, path)
    except OSError as error:
        if _is_same_file(temporary, path):
            return True
        if error.errno not in _NO_HARD_LINKS:
            raise
        return _rename_without_replacing(temporary, path, error)
    return True


def _is_same_file(first: str, second: str) -> bool:
    try:
        return os.path.samestat(os.lstat(first), os.lstat(second))
    except FileNotFoundError:
        return False


def _rename_without_replacing(temporary: str, path: str, link_error: OSError) -> bool:
    """The other atomic step that Linux offers: renameat2 with RENAME_NOREPLACE."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    number = errno.ENOSYS
    if rename is not None:
        if rename(_AT_FDCWD, os.fsencode(temporary), _AT_FDCWD, os.fsencode(path), _RENAME_NOREPLACE) == 0:
            return True
        number = ctypes.get_errno()
        if number == errno.EEXIST:
            return False
    if number in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP):
        raise HoodieNotSupportedException(
            f"The file system of {path} has neither hard links ({link_error.strerror}) nor a rename that does not "
            "replace. Two writers could both complete an instant there; put the table on another file system"
        ) from link_error
    raise OSError(number, os.strerror(number), path) from link_error


def flush_file(path: str) -> None:
    """Make the content of a file durable that another handle or library has written.

    The flush uses a handle of its own: not every release of Arrow gives out the descriptor of its files. The system
    flushes the file, whoever wrote it, and reports a failed write to the first who asks. A file that another process
    deleted meanwhile needs no flush.

    Args:
        path: An absolute path.

    Raises:
        OSError: The content may not be on the disk.
    """
    try:
        # Windows flushes only files that are open for writing.
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_directory(directory: str) -> None:
    """Make the names in a directory durable; a failure is only a warning, since everybody sees them already."""
    try:
        descriptor = os.open(directory or "/", os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        # The name is visible to everybody already, which cannot be undone: log it and continue.
        if error.errno not in _NO_DIRECTORY_FSYNC:
            logger.warning(
                "Could not flush the directory %s; a power failure may undo the last change: %s", directory, error
            )
    finally:
        os.close(descriptor)
