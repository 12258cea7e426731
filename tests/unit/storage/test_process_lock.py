"""Locks of a process on a file."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from hoodie.storage import process_lock
from hoodie.storage.process_lock import ProcessLock, try_process_lock


def is_free(path: str) -> bool:
    """As another process sees it: the lock belongs to the descriptor."""
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def taken(path: str) -> ProcessLock:
    found = try_process_lock(path)
    assert found is not None
    return found


def test_shares_are_counted(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    first, second = taken(path), taken(path)
    first.give_back()
    first.give_back()
    assert not is_free(path)
    second.give_back()
    assert is_free(path)


@pytest.mark.parametrize("step", ["ftruncate", "pwrite"])
def test_ctrl_c_while_it_is_taken_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = str(tmp_path / "lock")

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(process_lock.os, step, interrupt)
        with pytest.raises(KeyboardInterrupt) as raised:
            try_process_lock(path, b"note")
    assert raised.tb is not None
    assert is_free(path)
    taken(path).give_back()


def test_a_share_that_is_collected_while_another_one_is_made_does_not_end_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the garbage collector does in the same thread, in the middle of everything."""
    path = str(tmp_path / "lock")
    forgotten = [taken(path)]
    samestat = os.path.samestat

    def collect(first: os.stat_result, second: os.stat_result) -> bool:
        is_same = samestat(first, second)
        if forgotten:
            forgotten.pop().give_back()
        return is_same

    monkeypatch.setattr(process_lock.os.path, "samestat", collect)
    lock = taken(path)
    assert lock.is_held
    assert not is_free(path)
    # The number of the descriptor that was closed is that of another file by now.
    lock.give_back()
    assert is_free(path)


def test_one_file_by_two_names_is_one_lock_of_the_process(tmp_path: Path) -> None:
    """As where a file system does not tell letters of either case apart, or is mounted twice."""
    path, other = str(tmp_path / "lock"), str(tmp_path / "LOCK")
    first = taken(path)
    os.link(path, other)
    second = taken(other)
    first.give_back()
    assert second.is_held
    assert not is_free(path)
    second.give_back()
    assert is_free(path)
