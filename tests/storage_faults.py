"""Local files that fail at one chosen call, for sweeps over every call of an operation."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from hoodie.exception import HoodieException, HoodieIOException
from hoodie.storage.local_storage import LocalStorage
from hoodie.storage.storage import FileStatus
from tests.output_streams import output_file

T = TypeVar("T")

SMALL_FILTERS = {"hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.type": "SIMPLE"}
"""A filter for the default of 60,000 keys is most of a tiny file, which sweeps copy, write and read at each failure."""


class Faults:
    """Counts the calls to the storage; the one with the number ``fail_at`` fails.

    Args:
        fail_at: The first call is 1; 0 fails none.
        how: ``before`` fails and does nothing, ``after`` does it and then fails, ``torn`` does half of it and fails.
        dies: Every later call fails as well, as for a process that is gone; otherwise that one call only.
    """

    def __init__(self, fail_at: int = 0, how: str = "before", dies: bool = True) -> None:
        self.fail_at = fail_at
        self.how = how
        self.dies = dies
        self.calls: list[tuple[str, bool, bool]] = []
        self.fired = False
        self._lock = threading.Lock()

    def step(
        self,
        name: str,
        apply: Callable[[], T],
        *,
        changes: bool = False,
        tear: Callable[[], None] | None = None,
        error: type[Exception] = HoodieIOException,
    ) -> T:
        with self._lock:
            if self.fired and self.dies:
                raise error(f"{name}: the process is dead")
            self.calls.append((name, changes, tear is not None))
            fires = len(self.calls) == self.fail_at
            self.fired = self.fired or fires
        if not fires:
            return apply()
        if self.how == "after":
            apply()
        elif self.how == "torn":
            assert tear is not None
            tear()
        raise error(f"{name}: failed by the test")


class FaultyStorage(LocalStorage):
    """Local files behind `Faults`."""

    __slots__ = ()
    faults: ClassVar[Faults] = Faults()

    def _put_if_absent(self, path: str, data: bytes) -> bool:
        return self.faults.step(
            f"create {path}", lambda: LocalStorage._put_if_absent(self, path, data), changes=True, error=OSError
        )

    def _put(self, path: str, data: bytes) -> None:
        self.faults.step(f"replace {path}", lambda: LocalStorage._put(self, path, data), changes=True, error=OSError)

    def read(self, path: str) -> bytes:
        return self.faults.step(f"read {path}", lambda: LocalStorage.read(self, path))

    def file_status(self, path: str) -> FileStatus | None:
        return self.faults.step(f"status {path}", lambda: LocalStorage.file_status(self, path))

    def list_directory(self, path: str) -> list[FileStatus]:
        return self.faults.step(f"list {path}", lambda: LocalStorage.list_directory(self, path))

    def list_files(self, path: str) -> list[FileStatus]:
        return self.faults.step(f"walk {path}", lambda: LocalStorage.list_files(self, path))

    def create_directory(self, path: str) -> None:
        self.faults.step(f"mkdir {path}", lambda: LocalStorage.create_directory(self, path), changes=True)

    def delete_file(self, path: str) -> bool:
        return self.faults.step(f"delete {path}", lambda: LocalStorage.delete_file(self, path), changes=True)

    def delete_directory(self, path: str) -> bool:
        def half() -> None:
            for file in sorted(file for file in Path(path).rglob("*") if file.is_file())[::2]:
                file.unlink()

        return self.faults.step(
            f"rmdir {path}", lambda: LocalStorage.delete_directory(self, path), changes=True, tear=half
        )

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self.faults.step(f"open {path}", lambda: LocalStorage.open_input_file(self, path))

    def open_output_stream(self, path: str) -> pa.NativeFile:
        stream = self.faults.step(f"start {path}", lambda: LocalStorage.open_output_stream(self, path), changes=True)
        faults = self.faults

        def end() -> None:
            # The descriptor is closed in any case, as the operating system does for a dead process.
            stream.close()
            faults.step(f"finish {path}", lambda: None, changes=True, tear=cut)

        def cut() -> None:
            os.truncate(path, os.path.getsize(path) // 2)

        return output_file(stream, end)


def run_with_faults(faults: Faults, work: Callable[[], Any]) -> BaseException | None:
    FaultyStorage.faults = faults
    try:
        work()
    except HoodieException as error:
        return error
    finally:
        FaultyStorage.faults = Faults()
    return None


def faults_of(calls: list[tuple[str, bool, bool]]) -> Iterator[tuple[int, str]]:
    """Every call failing in every way that differs; a call that changes nothing has one."""
    for number, (_, changes, can_tear) in enumerate(calls, 1):
        yield number, "before"
        if changes:
            yield number, "after"
        if can_tear:
            yield number, "torn"
