"""Threads of this process, with an error of hoodie where the operating system gives no more of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from hoodie.exception import HoodieException

_P = ParamSpec("_P")
_T = TypeVar("_T")


class ThreadPool(ThreadPoolExecutor):
    """A `ThreadPoolExecutor` whose `submit` and `map` say what is the matter if no thread can be started.

    Args:
        max_workers: The most threads.
        name: The name of the threads.
    """

    def __init__(self, max_workers: int, name: str) -> None:
        super().__init__(max_workers, thread_name_prefix=name)
        self._name = name

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """See `concurrent.futures.Executor.submit`.

        Raises:
            HoodieException: The operating system starts no more threads.
        """
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError as error:
            raise _named(error, self._name) from error


def start_thread(thread: threading.Thread) -> None:
    """Start a thread.

    Args:
        thread: The thread, with its name.

    Raises:
        HoodieException: The operating system starts no more threads.
    """
    try:
        thread.start()
    except RuntimeError as error:
        raise _named(error, thread.name) from error


def _named(error: RuntimeError, name: str) -> Exception:
    """The error to raise; that of a pool that was shut down stays as it is."""
    if "start new thread" not in str(error):
        return error
    return HoodieException(
        f"a thread {name} could not be started: {error}. {threading.active_count()} threads of Python run in this "
        "process; let fewer run, or raise the limit of processes (ulimit -u) or that of the container (pids)"
    )
