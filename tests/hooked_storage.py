"""Local files whose every call is told to the test first: to fail, to count, or to let somebody else work meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from hoodie.storage import storage_factory
from hoodie.storage.local_storage import LocalStorage
from hoodie.storage.storage import FileStatus

__all__ = ["HookedStorage", "hooked", "nobody"]

Hook = Callable[[str, str], None]


def nobody(name: str, path: str) -> None:
    """Do nothing."""


class HookedStorage(LocalStorage):
    """``hook(name of the method, path)`` is called before each call; while it runs, its own calls are not told."""

    __slots__ = ()
    hook: ClassVar[Hook] = staticmethod(nobody)
    _told: ClassVar[threading.local] = threading.local()

    @classmethod
    def tell(cls, name: str, path: str) -> None:
        if not getattr(cls._told, "inside", False):
            cls._told.inside = True
            try:
                cls.hook(name, path)
            finally:
                cls._told.inside = False

    def create_if_absent(self, path: str, data: bytes) -> bool:
        self.tell("create", path)
        return LocalStorage.create_if_absent(self, path, data)

    def replace(self, path: str, data: bytes) -> None:
        self.tell("replace", path)
        LocalStorage.replace(self, path, data)

    def read(self, path: str) -> bytes:
        self.tell("read", path)
        return LocalStorage.read(self, path)

    def file_status(self, path: str) -> FileStatus | None:
        self.tell("status", path)
        return LocalStorage.file_status(self, path)

    def list_directory(self, path: str) -> list[FileStatus]:
        self.tell("list", path)
        return LocalStorage.list_directory(self, path)

    def list_files(self, path: str) -> list[FileStatus]:
        self.tell("walk", path)
        return LocalStorage.list_files(self, path)

    def delete_file(self, path: str) -> bool:
        self.tell("delete", path)
        return LocalStorage.delete_file(self, path)

    def delete_directory(self, path: str) -> bool:
        self.tell("rmdir", path)
        return LocalStorage.delete_directory(self, path)

    def touch(self, path: str) -> bool:
        self.tell("touch", path)
        return LocalStorage.touch(self, path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        self.tell("open", path)
        return LocalStorage.open_input_file(self, path)

    def open_output_stream(self, path: str) -> pa.NativeFile:
        self.tell("start", path)
        return LocalStorage.open_output_stream(self, path)


@contextmanager
def hooked(monkeypatch: pytest.MonkeyPatch, hook: Hook) -> Iterator[Any]:
    """Every storage of local files tells its calls to the hook."""
    with monkeypatch.context() as patch:
        patch.setitem(storage_factory._STORAGES, "file", HookedStorage)
        patch.setattr(HookedStorage, "hook", staticmethod(hook))
        yield
