"""Processes that work on one table at once, one call of the storage at a time, in an order that a seed decides.

Threads are real, but one runs at a time: each call of the storage, each lock and each wait gives the turn away, and a
seeded random number says to whom. Time is not real: a call takes some milliseconds of a clock of its own, and when all
are waiting the clock goes to the first one's end. So nothing sleeps, leases and heartbeats expire within a test, and a
seed gives the same calls in the same order every time.

    world = World(seed, base_path)
    with virtual(monkeypatch):
        world.run({"writer": write, "cleaner": clean})
"""

from __future__ import annotations

import datetime
import itertools
import os
import random
import re
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar

import pytest

from hoodie.common.table import table_metadata
from hoodie.common.table.timeline import active_timeline, archived_timeline
from hoodie.common.util.queue.bounded_in_memory_executor import BoundedInMemoryExecutor
from hoodie.engine import local_engine_context
from hoodie.metadata import metadata_table
from hoodie.storage.local_storage import LocalStorage
from hoodie.storage.storage import FileStatus
from hoodie.transaction import heartbeat_client
from hoodie.transaction.lock import in_process_lock_provider
from tests.support.hookable_storage import Call, HookableStorage, use_for_local_files

__all__ = ["Died", "InterleavedStorage", "Process", "Task", "World", "virtual"]

T = TypeVar("T")
BEGINNING_MS = 1_700_000_000_000
MAX_STEPS = 60_000


class Died(BaseException):
    """The end of a process: no code of it may catch this and go on."""


class Process:
    """What dies, and is suspended, as a whole: a client and the threads that it starts.

    Args:
        name: Of the process.
        dies_at: The call to the storage at which it dies: its number, counted from 1, or the first one whose method and
            path match an expression; None for one that lives.
        dies_after: Whether that call is still carried out.
        suspended_at: The call at which it stands still, in the same way.
        suspended_ms: For how long.
        suspended_after: Whether that call is carried out before; otherwise it is when the process goes on.
        only_call: Whether it is only that call that takes so long, while the other threads of the process go on.
    """

    def __init__(
        self,
        name: str,
        dies_at: int | str | None = None,
        dies_after: bool = False,
        suspended_at: int | str | None = None,
        suspended_ms: float = 0,
        suspended_after: bool = False,
        only_call: bool = False,
    ) -> None:
        self.name = name
        self.dies_at = dies_at
        self.dies_after = dies_after
        self.suspended_at = suspended_at
        self.suspended_ms = suspended_ms
        self.suspended_after = suspended_after
        self.only_call = only_call
        self.suspended_until = 0.0
        self.is_dead = False
        self.was_suspended = False
        self.stood_at = ""
        self.calls = 0

    def is_at(self, where: int | str | None, call: str) -> bool:
        """Whether the present call is one of `dies_at` or `suspended_at`."""
        return re.search(where, call) is not None if isinstance(where, str) else where == self.calls


class Task:
    """One thread of a process."""

    def __init__(self, name: str, process: Process, work: Callable[[], Any], is_daemon: bool) -> None:
        self.name = name
        self.process = process
        self.work = work
        self.is_daemon = is_daemon
        self.is_done = False
        self.is_silent = False
        self.ready: Callable[[], bool] | None = None
        self.deadline: float | None = None
        self.suspended_until = 0.0
        self.turn = threading.Semaphore(0)
        self.error: BaseException | None = None


class World:
    """The clock, the turn, and everybody who waits for it.

    Args:
        seed: Decides everything.
        base_path: The table; it is left out of the trace.
        switching: How probable it is that a call gives the turn away.
        step_ms: The most that a call takes.
        now_ms: The time at the beginning.

    Attributes:
        trace: Every call, as ``task method path``.
        on_applied: Told of every call that was carried out: task, method, path, result.
    """

    current: ClassVar[World | None] = None

    def __init__(
        self, seed: int, base_path: str, switching: float = 0.5, step_ms: float = 5, now_ms: float = BEGINNING_MS
    ) -> None:
        self.base_path = base_path
        self.now_ms = now_ms
        self.trace: list[str] = []
        self.on_applied: Callable[[Task, str, str, Any], None] = lambda task, name, path, result: None
        self.random = random.Random(f"of the product {seed}")
        self.attempts = itertools.count()
        self.known_blocks: dict[tuple[str, bytes], list[Any]] = {}
        self._random = random.Random(f"of the turns {seed}")
        self._switching = switching
        self._step_ms = step_ms
        self._tasks: list[Task] = []
        self._running: Task | None = None
        self._is_over = False
        self._steps = 0
        self._local = threading.local()
        self._finished = threading.Event()
        self._errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    # --- who works ----------------------------------------------------------------------------------------------

    @property
    def task(self) -> Task | None:
        """The task of the calling thread; None outside of the world."""
        return getattr(self._local, "task", None)

    def run(self, work: dict[Process, Callable[[], Any]]) -> None:
        """Let processes work until all are done; the first error of one of them ends all and is raised."""
        World.current = self
        try:
            for process, function in work.items():
                self._add(Task(process.name, process, function, is_daemon=False))
            self._hand_to(self._choose(None))
            if not self._finished_in_time():
                raise AssertionError("a thread of the world does not give its turn away")
            for thread in self._threads:
                thread.join(10)
        finally:
            World.current = None
            self._tasks, self._threads, self._is_over, self._running = [], [], False, None
            self._finished.clear()
        errors, self._errors = self._errors, []
        if errors:
            raise errors[0]

    def _finished_in_time(self) -> bool:
        steps = -1
        while not self._finished.wait(300):
            if self._steps == steps:
                return False
            steps = self._steps
        return True

    def start(self, work: Callable[[], Any], name: str) -> Task:
        """One more thread of the calling process."""
        parent = self.task
        assert parent is not None, "only what runs in the world may start threads"
        return self._add(Task(f"{parent.process.name}/{name}", parent.process, work, is_daemon=True))

    def _add(self, task: Task) -> Task:
        self._tasks.append(task)
        thread = threading.Thread(target=self._main, args=(task,), name=task.name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return task

    def _main(self, task: Task) -> None:
        task.turn.acquire()
        self._local.task = task
        try:
            self._check_alive(task)
            task.work()
        except Died:
            pass
        except BaseException as error:
            self._errors.append(error)
            self._is_over = True
        finally:
            task.is_done = True
            if not task.is_daemon:
                task.process.is_dead = True
            if all(other.is_done for other in self._tasks):
                self._finished.set()
            else:
                if all(other.is_done for other in self._tasks if not other.is_daemon):
                    self._is_over = True
                self._hand_to(self._choose(None))

    # --- turns --------------------------------------------------------------------------------------------------

    def call(self, name: str, path: str, apply: Callable[[], T]) -> T:
        """One call to the storage: others may come first, and the process may die over it."""
        task = self.task
        if task is None or task.is_silent:
            return apply()
        process = task.process
        self._check_alive(task)
        process.calls += 1
        what = f"{name} {path}"
        stands = not process.was_suspended and process.is_at(process.suspended_at, what)
        if stands and not process.suspended_after:
            self._stand_still(task, what)
        dies = process.is_at(process.dies_at, what)
        self._steps += 1
        if self._steps > MAX_STEPS:
            self.fail(AssertionError(f"no end after {MAX_STEPS} calls"))
        self.now_ms += self._random.uniform(0, self._step_ms)
        if not self._may_go_on(task) or self._random.random() < self._switching:
            self._pass_turn(task)
            self._check_alive(task)
        if dies and not process.dies_after:
            self._die(process)
        self.note(f"{task.name} {name} {path}")
        result = apply()
        try:
            with self.silently():
                self.on_applied(task, name, path, result)
        except Exception as error:
            self.fail(error)
        if dies:
            self._die(process)
        if stands and process.suspended_after:
            self._stand_still(task, what)
            self._pass_turn(task)
            self._check_alive(task)
        return result

    def fail(self, error: BaseException) -> NoReturn:
        """End everything; `run` raises the error."""
        self._errors.append(error)
        self._is_over = True
        raise Died

    def wait(self, ready: Callable[[], bool], timeout_ms: float | None = None) -> bool:
        """Let others work until something holds, or the time is over; whether it holds."""
        task = self.task
        assert task is not None
        self._check_alive(task)
        task.ready = ready
        task.deadline = None if timeout_ms is None else self.now_ms + timeout_ms
        self._pass_turn(task)
        task.ready = task.deadline = None
        self._check_alive(task)
        return ready()

    def sleep(self, duration_ms: float) -> None:
        """Let time pass."""
        if self.task is None or self.task.is_silent:
            self.now_ms += duration_ms
        else:
            self.wait(lambda: False, duration_ms)

    @contextmanager
    def silently(self) -> Iterator[None]:
        """Calls inside are nobody's: they give no turn away and take no time."""
        task = self.task
        before = task is not None and task.is_silent
        if task is not None:
            task.is_silent = True
        try:
            yield
        finally:
            if task is not None:
                task.is_silent = before

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        short = text.replace(self.base_path, "").replace(":", "")
        self.trace.append(re.sub(r"breaking-[0-9a-f]+", "breaking", short))

    def _stand_still(self, task: Task, what: str) -> None:
        process = task.process
        process.was_suspended, process.stood_at = True, what.replace(self.base_path, "")
        (task if process.only_call else process).suspended_until = self.now_ms + process.suspended_ms
        who = f"this call of {task.name}" if process.only_call else process.name
        when = "after" if process.suspended_after else "before"
        self.note(f"{who} stands still for {process.suspended_ms:.0f} ms {when} {what}")

    def _may_go_on(self, task: Task) -> bool:
        return max(task.suspended_until, task.process.suspended_until) <= self.now_ms

    def _die(self, process: Process) -> None:
        process.is_dead = True
        self.note(f"{process.name} dies")
        raise Died

    def _check_alive(self, task: Task) -> None:
        if self._is_over or task.process.is_dead:
            raise Died

    def _pass_turn(self, task: Task) -> None:
        following = self._choose(task)
        if following is not task:
            self._hand_to(following)
            task.turn.acquire()

    def _hand_to(self, task: Task) -> None:
        self._running = task
        task.turn.release()

    def _choose(self, asking: Task | None) -> Task:
        while True:
            able = [task for task in self._tasks if not task.is_done and self._is_able(task)]
            if able:
                return able[0] if len(able) == 1 else self._random.choice(able)
            ends = [
                max(0 if task.ready is None else task.deadline, task.suspended_until, task.process.suspended_until)
                for task in self._tasks
                if not task.is_done and (task.ready is None or task.deadline is not None)
            ]
            if not ends:
                # Everybody waits for somebody: all are ended.
                self._errors.append(AssertionError("all threads wait for each other"))
                self._is_over = True
                continue
            self.now_ms = max(self.now_ms, min(ends))

    def _is_able(self, task: Task) -> bool:
        if self._is_over or task.process.is_dead:
            return True
        if not self._may_go_on(task):
            return False
        if task.ready is None:
            return True
        return task.ready() or (task.deadline is not None and task.deadline <= self.now_ms)


# --- what the product sees instead of time and threads ----------------------------------------------------------------


def _world() -> World:
    assert World.current is not None, "nothing of this runs outside of World.run"
    return World.current


def _now_ms() -> float:
    return time.time() * 1000 if World.current is None else World.current.now_ms


class _Lock:
    """A lock that gives the turn away while it waits; for one thread several times."""

    def __init__(self) -> None:
        self._owner: Task | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        task = None if World.current is None else World.current.task
        if self._count and self._owner is not task:
            _world().wait(lambda: not self._count)
        self._owner = task
        self._count += 1
        return True

    def release(self) -> None:
        self._count -= 1

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class _Condition:
    """A condition that gives the turn away while it is waited for; one has the turn, so that no lock is needed."""

    def __init__(self) -> None:
        self._notified = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass

    def wait(self, timeout: float | None = None) -> bool:
        notified = self._notified
        return _world().wait(lambda: self._notified > notified, None if timeout is None else timeout * 1000)

    def notify_all(self) -> None:
        self._notified += 1


class _Thread:
    """A thread of the process that starts it."""

    def __init__(
        self, target: Callable[..., Any], args: tuple[Any, ...] = (), name: str = "thread", daemon: bool = False
    ) -> None:
        self._work = lambda: target(*args)
        self._name = name
        self._task: Task | None = None

    def start(self) -> None:
        self._task = _world().start(self._work, self._name)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.is_done

    def join(self, timeout: float | None = None) -> None:
        task = self._task
        if task is not None and not task.is_done:
            _world().wait(lambda: task.is_done, None if timeout is None else timeout * 1000)


class _Event(threading.Event):
    """An event that gives the turn away while it is waited for."""

    def wait(self, timeout: float | None = None) -> bool:
        return _world().wait(self.is_set, None if timeout is None else timeout * 1000)


class _Threading:
    """The module ``threading``."""

    Thread = _Thread
    Event = _Event
    Lock = RLock = _Lock

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


class _Time:
    """The module ``time``."""

    def time(self) -> float:
        return _now_ms() / 1000

    def time_ns(self) -> int:
        return int(_now_ms() * 1_000_000)

    monotonic, monotonic_ns = time, time_ns

    def sleep(self, seconds: float) -> None:
        _world().sleep(seconds * 1000)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class _Random:
    """The module ``random``."""

    def __getattr__(self, name: str) -> Any:
        return getattr(random if World.current is None else World.current.random, name)


class _Uuid:
    """The module ``uuid``."""

    def uuid4(self) -> uuid.UUID:
        if World.current is None:
            return uuid.uuid4()
        return uuid.UUID(int=World.current.random.getrandbits(128), version=4)

    def __getattr__(self, name: str) -> Any:
        return getattr(uuid, name)


class _Datetime(datetime.datetime):
    """The class ``datetime``."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return datetime.datetime.fromtimestamp(_now_ms() / 1000, tz)


class _Attempts:
    """Numbers of the attempts of tasks, which begin anew in every world."""

    def __next__(self) -> int:
        return next(_world().attempts)


class _InlineExecutor:
    """What `BoundedInMemoryExecutor` does, in one thread."""

    def __init__(self, producers: Any, consumer: Callable[[Iterator[Any]], Any], **options: Any) -> None:
        self._producers = producers
        self._consumer = consumer

    def execute(self) -> Any:
        return self._consumer(itertools.chain.from_iterable(self._producers))


def _read_block(block: Any) -> Iterator[Any]:
    """What a block of the archive holds; of blocks that were read before, which nobody changes, it is known."""
    if World.current is None:
        return _READ_BLOCK(block)
    known = World.current.known_blocks
    key = block.path, block.content
    if key not in known:
        known[key] = list(_READ_BLOCK(block))
    return iter(known[key])


def _heartbeat(*args: Any, **given: Any) -> Any:
    return _HEARTBEAT(*args, **{"mutex": _Lock(), "stopped": _Event(), **given})


_READ_BLOCK = archived_timeline._read_block
_HEARTBEAT = heartbeat_client._Heartbeat
_INSTEAD: list[tuple[Any, str, Any]] = [
    (time, "time", _Time()),
    (threading, "threading", _Threading()),
    (random, "random", _Random()),
    (uuid, "uuid", _Uuid()),
]
_IN_ONE_THREAD: list[tuple[Any, str, Any]] = [
    (BoundedInMemoryExecutor, "BoundedInMemoryExecutor", _InlineExecutor),
    (table_metadata.map_concurrently, "map_concurrently", map),
]


class _NoMutexes(dict[str, Any]):
    """What keeps threads of one process apart: the tasks here are processes of their own."""

    def setdefault(self, key: str, default: Any = None) -> Any:
        return default


@contextmanager
def virtual(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every module of hoodie takes time, threads, locks, random numbers and local files from the world that runs."""
    with monkeypatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("hoodie."):
                for real, attribute, double in _INSTEAD:
                    if module.__dict__.get(attribute) is real:
                        patch.setattr(module, attribute, double)
                for real, attribute, double in _IN_ONE_THREAD:
                    if name != real.__module__ and module.__dict__.get(attribute) is real:
                        patch.setattr(module, attribute, double)
        patch.setattr(heartbeat_client, "_Heartbeat", _heartbeat)
        patch.setattr(active_timeline, "datetime", _Datetime)
        patch.setattr(in_process_lock_provider, "_condition", _Condition())
        patch.setattr(in_process_lock_provider, "_owners", {})
        patch.setattr(metadata_table, "_mutexes", _NoMutexes())
        patch.setattr(archived_timeline, "_read_block", _read_block)
        patch.setattr(table_metadata, "map_concurrently", map)
        patch.setattr(local_engine_context, "_ATTEMPTS", _Attempts())
        use_for_local_files(patch, InterleavedStorage)
        yield


# --- the storage ------------------------------------------------------------------------------------------------------


def _call(name: str, path: str, apply: Callable[[], T]) -> T:
    return apply() if World.current is None else World.current.call(name, path, apply)


def _grow_up(path: str) -> None:
    """Give a file the time of the world."""
    os.utime(path, (_now_ms() / 1000,) * 2)


class InterleavedStorage(HookableStorage):
    """Local files whose every call is a turn of the world that runs.

    A folder is listed in one call, as a short one is; folders below it one after the other. A folder is deleted file by
    file.
    """

    __slots__ = ()

    def around(self, call: Call) -> Any:
        if call.is_bare:
            return call.apply()

        def apply() -> Any:
            result = call.apply()
            if call.name == "replace" or (call.name == "create" and result):
                _grow_up(call.path)
            return result

        return _call(call.name, call.path, apply)

    def list_files(self, path: str) -> list[FileStatus]:
        found: list[FileStatus] = []
        for child in _call("walk", path, lambda: LocalStorage.list_directory(self, path)):
            found += self.list_files(child.path) if child.is_directory else [child]
        return sorted(found, key=lambda child: child.path)

    def delete_directory(self, path: str) -> bool:
        for file in sorted(file for file in Path(path).rglob("*") if file.is_file()):
            _call("unlink", str(file), lambda file=file: file.unlink(missing_ok=True))  # type: ignore[misc]
        return _call("rmdir", path, lambda: _delete_directory(path))

    def touch(self, path: str) -> bool:
        def apply() -> bool:
            if not os.path.exists(path):
                return False
            _grow_up(path)
            return True

        return _call("touch", path, apply)

    def replace_version(self, path: str, data: bytes, version: str | None) -> str | None:
        def apply() -> str | None:
            with nullcontext() if World.current is None else World.current.silently():
                return LocalStorage.replace_version(self, path, data, version)

        return _call("put", path, apply)

    def now_ms(self, folder: str) -> int:
        # No call of its own: what the time is changes nothing.
        return int(_now_ms())

    def delete_leftovers(self, path: str, min_age_ms: int) -> int:
        return _call("sweep", path, lambda: LocalStorage.delete_leftovers(self, path, min_age_ms))


def _delete_directory(path: str) -> bool:
    was_there = os.path.isdir(path)
    shutil.rmtree(path, ignore_errors=True)
    return was_there
