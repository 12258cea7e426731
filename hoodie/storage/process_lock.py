"""Locks of the operating system on files, each held by a process as a whole.

The kernel releases a lock when its process ends, however it ends. All threads share the lock of their process, which
counts the shares. The lock belongs to the descriptor that took it, so reading or copying the file does no harm. A
forked child closes that descriptor, and the lock stays with its parent.

The file stays when the lock is released. If a process deleted it, it would lock another file than waiting processes.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


_HELD_BY_OTHERS = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS}
_MAX_NOTE_BYTES = 4096


class LocksNotSupportedError(OSError):
    """The file system, the operating system or the rights of this user allow no lock."""


class _Entry:
    """One file that this process has locked; without a descriptor in a child that was forked since."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor: int | None = descriptor
        self.count = 0

    def is_of_path(self) -> bool:
        """Whether the locked file still has its name, because the folder may have been replaced."""
        descriptor = self.descriptor
        if descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except OSError:
            return False

    def close(self) -> None:
        """Release the lock, and forget the descriptor: its number may soon belong to another file."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class ProcessLock:
    """A share in the lock of this process, until it is given back or collected. Made by `try_process_lock`."""

    _is_given_back = True

    def __init__(self, entry: _Entry) -> None:
        self._entry = entry
        entry.count += 1
        self._is_given_back = False

    @property
    def is_held(self) -> bool:
        """Whether this process still holds the lock and the file has its name; False in a forked child."""
        entry = self._entry
        return not self._is_given_back and _entries.get(entry.path) is entry and entry.is_of_path()

    def give_back(self) -> None:
        """End this share; the end of the last share releases the lock. A second call, or one in a forked child,
        does nothing.
        """
        with _mutex:
            if self._is_given_back:
                return
            self._is_given_back = True
            entry = self._entry
            entry.count -= 1
            if not entry.count:
                if _entries.get(entry.path) is entry:
                    del _entries[entry.path]
                entry.close()

    def __del__(self) -> None:
        # At the end of Python, modules may be unloaded already.
        with suppress(Exception):
            self.give_back()


_mutex = threading.RLock()
_entries: dict[str, _Entry] = {}
"""Real path -> the entry of the lock that this process holds there."""


def try_process_lock(path: str, note: bytes = b"") -> ProcessLock | None:
    """Take a share in the lock of a file if this process holds it or can get it; does not wait.

    Args:
        path: The file; it is made when it is missing, and so is its folder, but not the folder's parent.
        note: A text for other processes; see `read_note`.

    Returns:
        A share in the lock; None while another process holds it.

    Raises:
        LocksNotSupportedError: The file cannot be locked there.
    """
    if fcntl is None:
        raise LocksNotSupportedError(errno.ENOSYS, "this operating system has no locks of files", path)
    path = os.path.realpath(path)
    with _mutex:
        while True:
            entry = _entries.get(path)
            if entry is None or not entry.is_of_path():
                entry = _lock(path, note)
                if entry is None:
                    return None
                _entries[entry.path] = entry
            share = ProcessLock(entry)
            # The garbage collector may have given back the last other share in this very moment.
            if share.is_held:
                return share
            share.give_back()


def read_note(path: str) -> bytes:
    """The note of the process that holds a lock; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_NOTE_BYTES)
    except OSError:
        return b""


def is_process_lock_held(path: str) -> bool:
    """Whether a process, this one or another, holds the lock of a file; False where files cannot be locked.

    A process that tries once to take the lock in this very moment may fail.

    Args:
        path: The file; nothing is made where it is missing.
    """
    if fcntl is None:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _HELD_BY_OTHERS
    finally:
        os.close(descriptor)
    return False


def _lock(path: str, note: bytes) -> _Entry | None:
    """Lock a file that this process has not locked under this name."""
    while True:
        try:
            descriptor = _open(path)
        except OSError as error:
            raise LocksNotSupportedError(error.errno, error.strerror, path) from error
        entry = _Entry(path, descriptor)
        is_kept = False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Somebody may have deleted the file, and others lock a new one of its name.
            if entry.is_of_path():
                with suppress(OSError):
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, note, 0)
                is_kept = True
                return entry
        except OSError as error:
            if error.errno in _HELD_BY_OTHERS:
                return _same_file(descriptor)
            raise LocksNotSupportedError(error.errno, error.strerror, path) from error
        finally:
            # After Ctrl-C too: without a share the lock would never be released.
            if not is_kept:
                entry.close()


def _same_file(descriptor: int) -> _Entry | None:
    """The entry of the same file under another name: letters of either case, or a folder that is mounted twice."""
    status = os.fstat(descriptor)
    for entry in list(_entries.values()):
        held = entry.descriptor
        if held is not None and entry.is_of_path() and os.path.samestat(os.fstat(held), status):
            return entry
    return None


def _open(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(os.path.dirname(path))
        return os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            raise
        # The file of another user: local file systems can lock a file that is open for reading.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _forget_in_child() -> None:
    for entry in list(_entries.values()):
        entry.close()
    _entries.clear()
    _mutex.release()


if hasattr(os, "register_at_fork"):
    # The mutex keeps every thread from taking a lock while a child is made.
    os.register_at_fork(before=_mutex.acquire, after_in_parent=_mutex.release, after_in_child=_forget_in_child)
