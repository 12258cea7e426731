"""The storage of tests: local files of which a test sees every call, and makes some fail, wait, or come too late.

| to | use |
|---|---|
| see each call, let somebody else work before it, or raise | `hooked`, for all tables of a test |
| let the call of one number fail, in a sweep over all calls of an operation | `run_with_faults`, `faults_of` |
| lose the answers of puts | `losing_answers`, one storage |
| do anything else around the calls of one storage | `storage_with` |
| open all tables of a test with a class of your own | `use_for_local_files` |
| let one data file wait for the others, in tasks of other processes too | `watch_writes` |

A double of your own derives from `HookableStorage` and has one method, `around`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import attrs
import pyarrow as pa
import pytest

from hoodie.exception import HoodieException, HoodieIOException
from hoodie.metadata.reader.decoded_files import DECODED_FILES
from hoodie.storage import storage_factory
from hoodie.storage.local_storage import LocalStorage
from hoodie.storage.storage import FileStatus
from hoodie.table.table import HoodieTable

__all__ = [
    "LARGE",
    "Call",
    "Faults",
    "FaultyStorage",
    "Hook",
    "HookableStorage",
    "HookedStorage",
    "WatchedStorage",
    "faults_of",
    "hooked",
    "losing_answers",
    "run_with_faults",
    "storage_with",
    "use_for_local_files",
    "watch_writes",
]

T = TypeVar("T")


@attrs.frozen
class Call:
    """One call to a storage, which has yet to be made.

    Attributes:
        name: ``create``, ``replace``, ``read``, ``status``, ``list``, ``walk``, ``mkdir``, ``delete``, ``rmdir``,
            ``touch``, ``utime``, ``swap``, ``open``, ``move``; ``start`` and ``finish`` of a data file that is
            written.
        path: Of the file or folder; of a file that moves, its old one.
        apply: Makes the call.
        changes: Whether it changes files.
        tear: Does half of it, where that is possible.
        is_bare: Whether it is the put within ``create`` or ``replace``, whose lost answer the storage has to find out.
    """

    name: str
    path: str
    apply: Callable[[], Any]
    changes: bool = False
    tear: Callable[[], None] | None = None
    is_bare: bool = False


class HookableStorage(LocalStorage):
    """Local files whose every call goes through `around`."""

    __slots__ = ()

    def around(self, call: Call) -> Any:
        """Make a call; a double does more, less, or something else."""
        return call.apply()

    def create_if_absent(self, path: str, data: bytes) -> bool:
        return bool(self.around(Call("create", path, lambda: LocalStorage.create_if_absent(self, path, data), True)))

    def create_all_if_absent(self, files: Sequence[tuple[str, bytes]]) -> list[bool]:
        return [self.create_if_absent(path, data) for path, data in files]

    def _put_if_absent(self, path: str, data: bytes) -> bool:
        call = Call("create", path, lambda: LocalStorage._put_if_absent(self, path, data), True, is_bare=True)
        return bool(self.around(call))

    def replace(self, path: str, data: bytes) -> None:
        self.around(Call("replace", path, lambda: LocalStorage.replace(self, path, data), True))

    def _put(self, path: str, data: bytes) -> None:
        self.around(Call("replace", path, lambda: LocalStorage._put(self, path, data), True, is_bare=True))

    def read(self, path: str) -> bytes:
        found: bytes = self.around(Call("read", path, lambda: LocalStorage.read(self, path)))
        return found

    def file_status(self, path: str) -> FileStatus | None:
        found: FileStatus | None = self.around(Call("status", path, lambda: LocalStorage.file_status(self, path)))
        return found

    def list_directory(self, path: str) -> list[FileStatus]:
        return list(self.around(Call("list", path, lambda: LocalStorage.list_directory(self, path))))

    def list_names(self, path: str) -> list[str]:
        return list(self.around(Call("list", path, lambda: LocalStorage.list_names(self, path))))

    def list_files(self, path: str) -> list[FileStatus]:
        return list(self.around(Call("walk", path, lambda: LocalStorage.list_files(self, path))))

    def create_directory(self, path: str) -> None:
        self.around(Call("mkdir", path, lambda: LocalStorage.create_directory(self, path), True))

    def delete_file(self, path: str) -> bool:
        return bool(self.around(Call("delete", path, lambda: LocalStorage.delete_file(self, path), True)))

    def move_file(self, source: str, target: str) -> None:
        self.around(Call("move", source, lambda: LocalStorage.move_file(self, source, target), True))

    def delete_directory(self, path: str) -> bool:
        def half() -> None:
            for file in sorted(file for file in Path(path).rglob("*") if file.is_file())[::2]:
                file.unlink()

        return bool(self.around(Call("rmdir", path, lambda: LocalStorage.delete_directory(self, path), True, half)))

    def touch(self, path: str) -> bool:
        return bool(self.around(Call("touch", path, lambda: LocalStorage.touch(self, path), True)))

    def set_modification_time(self, path: str, modification_time_ms: int) -> bool:
        def apply() -> bool:
            return LocalStorage.set_modification_time(self, path, modification_time_ms)

        return bool(self.around(Call("utime", path, apply, True)))

    def replace_version(self, path: str, data: bytes, version: str | None) -> str | None:
        def apply() -> str | None:
            return LocalStorage.replace_version(self, path, data, version)

        found: str | None = self.around(Call("swap", path, apply, True))
        return found

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self.around(Call("open", path, lambda: LocalStorage.open_input_file(self, path)))

    def open_output_stream(self, path: str) -> pa.NativeFile:
        stream = self.around(Call("start", path, lambda: LocalStorage.open_output_stream(self, path), True))

        def half() -> None:
            os.truncate(path, os.path.getsize(path) // 2)

        return output_file(stream, lambda: self.around(Call("finish", path, stream.close, True, half)))


def use_for_local_files(monkeypatch: pytest.MonkeyPatch, storage: type[LocalStorage]) -> None:
    """From now on every table of local files is opened with a storage of this class."""
    monkeypatch.setitem(storage_factory._STORAGES, "file", storage)


def storage_with(base_path: str | Path, around: Callable[[Call], Any]) -> HookableStorage:
    """One storage whose calls go through a function, which makes them or not; it cannot go to other processes."""

    class Storage(HookableStorage):
        __slots__ = ()

        def around(self, call: Call) -> Any:
            return around(call)

    return Storage(str(base_path))


def losing_answers(base_path: str | Path, is_applied: bool) -> HookableStorage:
    """A storage whose puts fail with `TimeoutError`, after they were applied or without."""

    def around(call: Call) -> Any:
        if not call.is_bare:
            return call.apply()
        if is_applied:
            call.apply()
        raise TimeoutError("the answer was lost")

    return storage_with(base_path, around)


# --- a data file whose end is a call ----------------------------------------------------------------------------------


def output_file(stream: pa.NativeFile, end: Callable[[], object]) -> pa.PythonFile:
    """What takes the place of a stream.

    Args:
        stream: The stream.
        end: Called once, instead of closing it; closes it.
    """
    return pa.PythonFile(_Stream(stream, end), mode="w")


class _Stream:
    def __init__(self, stream: pa.NativeFile, end: Callable[[], object]) -> None:
        self._stream = stream
        self._end = end

    def write(self, data: Any) -> int:
        self._stream.write(data)
        return len(data)

    def flush(self) -> None:
        self._stream.flush()

    def tell(self) -> int:
        return int(self._stream.tell())

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)

    def close(self) -> None:
        if not self._stream.closed:
            self._end()


# --- hooks ------------------------------------------------------------------------------------------------------------

Hook = Callable[[str, str], None]


class HookedStorage(HookableStorage):
    """``hook(name of the call, path)`` is called before each call; while it runs, its own calls are not told."""

    __slots__ = ()
    hook: ClassVar[Hook] = staticmethod(lambda name, path: None)
    _told: ClassVar[threading.local] = threading.local()

    def around(self, call: Call) -> Any:
        if not call.is_bare and call.name not in ("mkdir", "finish") and not getattr(self._told, "inside", False):
            self._told.inside = True
            try:
                type(self).hook(call.name, call.path)
            finally:
                self._told.inside = False
        return call.apply()


@contextmanager
def hooked(monkeypatch: pytest.MonkeyPatch, hook: Hook) -> Iterator[Any]:
    """Every storage of local files tells its calls to the hook, all but those that make folders or end data files."""
    with monkeypatch.context() as patch:
        use_for_local_files(patch, HookedStorage)
        patch.setattr(HookedStorage, "hook", staticmethod(hook))
        yield


# --- faults -----------------------------------------------------------------------------------------------------------


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
        elif self.how == "torn" and tear is not None:
            # Threads may come in another order than they did when the calls were counted.
            tear()
        raise error(f"{name}: failed by the test")


class FaultyStorage(HookableStorage):
    """Local files behind `Faults`: of ``create`` and ``replace`` the put within fails."""

    __slots__ = ()
    faults: ClassVar[Faults] = Faults()

    def around(self, call: Call) -> Any:
        if call.name in ("touch", "swap") or (call.name in ("create", "replace") and not call.is_bare):
            return call.apply()
        apply, error = call.apply, OSError if call.is_bare else HoodieIOException
        if call.name == "finish":
            # The descriptor is closed in any case, as the operating system does for a dead process.
            apply()
            apply = _nothing
        return self.faults.step(f"{call.name} {call.path}", apply, changes=call.changes, tear=call.tear, error=error)


def _nothing() -> None:
    """What remains to be done of a call that was made before."""


def run_with_faults(faults: Faults, work: Callable[[], Any]) -> BaseException | None:
    # Whatever was read before, the calls are the same ones.
    DECODED_FILES.clear()
    FaultyStorage.faults = faults
    try:
        work()
    except HoodieException as error:
        return error
    finally:
        FaultyStorage.faults = Faults()
    return None


def faults_of(calls: list[tuple[str, bool, bool]], dies: bool = False) -> Iterator[tuple[int, str]]:
    """Every call failing in every way that differs; a call that changes nothing has one.

    A death leaves what the changes before it have left, whichever call it comes to next: of deaths there is one before
    the first change, and one after, or in the middle of, each (`tests.unit.client.test_crashes` compares them).

    Args:
        calls: `Faults.calls` of a run without failure.
        dies: Whether the process dies, and does not go on after one failure.
    """
    first = next((number for number, (_, changes, _) in enumerate(calls, 1) if changes), 0)
    for number, (_, changes, can_tear) in enumerate(calls, 1):
        if not dies or number == first:
            yield number, "before"
        if changes:
            yield number, "after"
        if can_tear:
            yield number, "torn"


# --- delays -----------------------------------------------------------------------------------------------------------

LARGE = "the large one"
"""The partition whose file waits; its name comes after those of the others."""
WAIT_SECONDS = 90
GAVE_UP = "gave up"


@attrs.frozen(eq=False, kw_only=True)
class WatchedStorage(HookableStorage):
    """Local files; the data file of the partition `LARGE` is begun, and waits for those of the others.

    It goes to tasks inside of the `WriteContext`. Nothing here measures time: a task that waits in vain says so.

    Attributes:
        log: File with the partition of each data file, in the order in which they were begun.
        others: How many other files there will be.
    """

    log: str
    others: int

    def around(self, call: Call) -> Any:
        if call.name == "start":
            self._begin(Path(call.path).parent.name)
        return call.apply()

    def _begin(self, partition_path: str) -> None:
        self._note(partition_path)
        if partition_path == LARGE:
            deadline = time.monotonic() + WAIT_SECONDS
            while len(self.begun()) <= self.others:
                if time.monotonic() > deadline:
                    self._note(GAVE_UP)
                    break
                time.sleep(0.01)

    def begun(self) -> list[str]:
        """Partitions in the order in which their files were begun."""
        return Path(self.log).read_text().split("\n")[:-1]

    def _note(self, text: str) -> None:
        # One call: lines of several processes do not mix.
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, f"{text}\n".encode())
        finally:
            os.close(file)


def watch_writes(monkeypatch: pytest.MonkeyPatch, base_path: Path, others: int) -> WatchedStorage:
    """From now on writes of this process go through a `WatchedStorage`, which is returned."""
    log = base_path.with_name(f"{base_path.name}.begun")
    log.touch()
    storage = WatchedStorage(base_path=str(base_path), log=str(log), others=others)
    make = HoodieTable.write_context

    def make_watched(table: HoodieTable, *arguments: Any) -> Any:
        context = make(table, *arguments)
        vars(context)["storage"] = storage
        return context

    monkeypatch.setattr(HoodieTable, "write_context", make_watched)
    return storage
