"""Calls of a storage that do not wait for each other."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hoodie.storage.local_storage import LocalStorage
from hoodie.storage.side_by_side import side_by_side


class RemoteStorage(LocalStorage):
    """Local files that count as those of a store behind a network."""

    @property
    def is_remote(self) -> bool:
        return True


def test_on_a_remote_store_they_are_made_at_once(tmp_path: Path) -> None:
    all_there = threading.Barrier(3)

    def call(answer: int) -> int:
        all_there.wait(timeout=60)
        return answer

    found = side_by_side(RemoteStorage(str(tmp_path)), lambda: call(1), lambda: call(2), lambda: call(3))
    assert found == (1, 2, 3)


def test_on_local_files_they_are_made_in_their_order(tmp_path: Path) -> None:
    made: list[str] = []

    def call(name: str) -> None:
        made.append(name)
        if name == "second":
            raise OSError(name)

    with pytest.raises(OSError, match="second"):
        side_by_side(LocalStorage(str(tmp_path)), lambda: call("first"), lambda: call("second"), lambda: call("third"))
    assert made == ["first", "second"]


def test_the_first_error_is_raised_when_all_have_ended(tmp_path: Path) -> None:
    second_failed = threading.Event()
    ended: list[str] = []

    def first() -> None:
        second_failed.wait(timeout=60)
        raise OSError("first")

    def second() -> None:
        second_failed.set()
        raise OSError("second")

    def third() -> None:
        second_failed.wait(timeout=60)
        ended.append("third")

    with pytest.raises(OSError, match="first"):
        side_by_side(RemoteStorage(str(tmp_path)), first, second, third)
    assert ended == ["third"]
