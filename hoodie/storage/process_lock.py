"""Locks of the operating system on files, each held by a process as a whole.

The kernel gives a lock back when its process ends, however it ends. All threads share the one that their process holds;
it is counted. It belongs to the descriptor that it was taken by, so that reading or copying the file does no harm; a
forked child closes that descriptor, which leaves the lock with its parent.

The file stays when the lock is given back: a process that deleted it would lock another file than those that wait.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from contextlib import suppress

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["LocksNotSupportedError", "ProcessLock", "read_note", "try_process_lock"]

logger = logging.getLogger(__name__)

_HELD_BY_OTHERS = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS}
_MAX_NOTE_BYTES = 4096


class LocksNotSupportedError(OSError):
    """The file system, the operating system or the rights of this user do not allow a lock."""


class _Entry:
    """One file that this process has locked; without a descriptor in a child that was forked since."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor: int | None = descriptor
        self.count = 0

    def is_of_path(self) -> bool:
        """Whether the file that is locked still has its name: the folder may have been replaced."""
        descriptor = self.descriptor
        if descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except OSError:
            return False

    def close(self) -> None:
        """Give the lock back; a number of a descriptor that is closed may be that of another file at once."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class ProcessLock:
    """A share in the lock that this process holds, until it is given back or forgotten. Made by `try_process_lock`."""

    _is_given_back = True

    def __init__(self, entry: _Entry) -> None:
        self._entry = entry
        entry.count += 1
        self._is_given_back = False

    @property
    def is_held(self) -> bool:
        """Whether this process has it still, and the file its name; False in a forked child."""
        entry = self._entry
        return not self._is_given_back and _entries.get(entry.path) is entry and entry.is_of_path()

    def give_back(self) -> None:
        """End this share; the last one gives the lock back. Nothing happens the second time, or in a forked child."""
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
        # Python may be at its end, where less and less is left.
        with suppress(Exception):
            self.give_back()


_mutex = threading.RLock()
_entries: dict[str, _Entry] = {}
"""Real path -> what this process holds there."""


def try_process_lock(path: str, note: bytes = b"") -> ProcessLock | None:
    """Look once whether this process has the lock of a file or can have it.

    Args:
        path: The file; it is made when it is missing, and so is its folder, but not the folder's parent.
        note: What others may read while the lock is held; see `read_note`.

    Returns:
        A share in the lock; None while another process holds it.

    Raises:
        LocksNotSupportedError: There are no locks there.
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
    """What the process that holds a lock wrote for others; empty where nothing can be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_NOTE_BYTES)
    except OSError:
        return b""


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
            # After Ctrl-C too: nobody would give back what has no share.
            if not is_kept:
                entry.close()


def _same_file(descriptor: int) -> _Entry | None:
    """What this process has locked under another name: letters of either case, or a folder that is mounted twice."""
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
        # Another user's file: local file systems lock what can be read.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _forget_in_child() -> None:
    for entry in list(_entries.values()):
        entry.close()
    _entries.clear()
    _mutex.release()


if hasattr(os, "register_at_fork"):
    # No thread is between locking and noting it while a child is made.
    os.register_at_fork(before=_mutex.acquire, after_in_parent=_mutex.release, after_in_child=_forget_in_child)
