"""A storage that goes wrong once: how tests make a task die, wait or lose its shuffle files at a given moment.

It goes to tasks inside of the `WriteContext`; the product knows nothing of it.
"""

from __future__ import annotations

import os
import signal
import time
from enum import Enum
from pathlib import Path
from typing import ClassVar

import attrs
import pyarrow as pa

from hoodie.io.write_context import WriteContext
from hoodie.storage.local_storage import LocalStorage
from tests.support.folders import files_below

__all__ = ["Fault", "FaultyContext", "FaultyStorage", "Moment"]

WAIT_SECONDS = 120


class Moment(Enum):
    """When a fault strikes a task that writes a data file."""

    BEFORE_THE_MARKER = "before the marker"
    BEFORE_THE_FILE = "before the file"
    FILE_WRITTEN = "file written"


class Fault(Enum):
    """What happens."""

    TASK_DIES = "task dies"
    EXECUTOR_DIES = "executor dies"
    SHUFFLE_FILES_VANISH = "shuffle files vanish"
    TASK_WAITS = "task waits"


@attrs.frozen(eq=False, kw_only=True)
class FaultyStorage(LocalStorage):
    """Local files, and one fault: the first task that comes to the moment has it, no other.

    Attributes:
        fault: What happens.
        moment: When.
        signals: Folder of the files with which tests and tasks tell each other: ``struck`` (the fault began),
            ``release`` (a waiting task may go on), ``ended`` (it tried to finish its file).
        shuffle_files: Folders below which shuffle files are.
    """

    fault: Fault
    moment: Moment
    signals: str
    shuffle_files: tuple[str, ...] = ()

    _written: ClassVar[dict[int, str]] = {}

    def create_if_absent(self, path: str, data: bytes) -> bool:
        if ".marker." in path:
            self._strike(Moment.BEFORE_THE_MARKER, path)
        elif ".log." in path:
            self._strike(Moment.BEFORE_THE_FILE, path)
            self._written[os.getpid()] = path
        return super().create_if_absent(path, data)

    def open_output_stream(self, path: str) -> pa.NativeFile:
        self._strike(Moment.BEFORE_THE_FILE, path)
        self._written[os.getpid()] = path
        return super().open_output_stream(path)

    def is_file(self, path: str) -> bool:
        # A task asks for its marker when its file is written.
        if "/.temp/" in path and self._is_written():
            self._strike(Moment.FILE_WRITTEN, self._written.pop(os.getpid()))
        return super().is_file(path)

    def delete_file(self, path: str) -> bool:
        deleted = super().delete_file(path)
        if deleted and "/.hoodie/" not in path:
            (Path(self.signals) / "deleted").write_text(path)
        return deleted

    def _is_written(self) -> bool:
        path = self._written.get(os.getpid())
        if path is None or not Path(path).exists():
            return False
        return ".log." in path or Path(path).read_bytes().endswith(b"PAR1")

    def _strike(self, moment: Moment, path: str) -> None:
        if moment is not self.moment or not self._is_first(path):
            return
        if self.fault is Fault.TASK_DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.fault is Fault.EXECUTOR_DIES:
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
            time.sleep(WAIT_SECONDS)
        elif self.fault is Fault.SHUFFLE_FILES_VANISH:
            for folder in self.shuffle_files:
                for file in files_below(Path(folder)):
                    if file.name.startswith("shuffle_"):
                        file.unlink(missing_ok=True)
        else:
            self._wait(path)

    def _is_first(self, path: str) -> bool:
        try:
            with (Path(self.signals) / "struck").open("x") as file:
                file.write(path)
        except FileExistsError:
            return False
        return True

    def _wait(self, path: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not (Path(self.signals) / "release").exists():
            if time.monotonic() > deadline or not Path(self.signals).exists():
                os._exit(1)
            time.sleep(0.05)


@attrs.define(slots=False, frozen=True)
class FaultyContext(WriteContext):
    """The context of a write whose files are in a faulty storage, also where the write changes its context.

    Attributes:
        storage: The storage.
    """

    storage: FaultyStorage = attrs.field(kw_only=True)

    @classmethod
    def of(cls, context: WriteContext, storage: FaultyStorage) -> FaultyContext:
        """A context of the same write.

        Args:
            context: The context.
            storage: The storage.
        """
        values = {field.name: getattr(context, field.name) for field in attrs.fields(WriteContext)}
        return cls(**values, storage=storage)
