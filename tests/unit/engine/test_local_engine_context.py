from __future__ import annotations

import threading
import time

import pytest

from hoodie.engine import local_engine_context
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.engine.task_identity import TaskIdentity

MANY = 100


def thread_of_task(task: TaskIdentity, item: int) -> tuple[int, int, int]:
    return item, task.partition_index, threading.get_ident()


def run(count: int) -> tuple[list[int], list[int], list[bool]]:
    """Items, indices of tasks, and whether a task ran on the thread of the caller."""
    found = LocalEngineContext(2).run_tasks(range(count), thread_of_task)
    return [one[0] for one in found], [one[1] for one in found], [one[2] == threading.get_ident() for one in found]


def test_many_short_tasks_run_on_the_thread_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_engine_context, "_SHORT_SECONDS", 60.0)
    assert run(MANY) == ([*range(MANY)], [*range(MANY)], [False] * 2 + [True] * (MANY - 2))


def test_the_first_tasks_run_at_the_same_time() -> None:
    both = threading.Barrier(2)

    def meet(task: TaskIdentity, item: int) -> int:
        if item < 2:
            both.wait(timeout=60)
        return item

    assert LocalEngineContext(2).run_tasks(range(MANY), meet) == [*range(MANY)]


def test_few_tasks_run_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_engine_context, "_SHORT_SECONDS", 60.0)
    assert run(8) == ([*range(8)], [*range(8)], [False] * 8)


def test_threads_take_over_when_tasks_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_engine_context, "_SHORT_SECONDS", 1e-9)
    items, indices, here = run(MANY)
    assert items == indices == [*range(MANY)]
    assert here == [False] * MANY


def test_threads_take_over_when_later_tasks_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_engine_context, "_SHORT_SECONDS", 0.05)

    def slow_from_ten(task: TaskIdentity, item: int) -> bool:
        if item >= 10:
            time.sleep(0.7)
        return threading.get_ident() == caller

    caller = threading.get_ident()
    here = LocalEngineContext(8).run_tasks(range(32), slow_from_ten)
    assert not any(here[:8])
    assert not any(here[-16:])


def test_a_task_that_fails_ends_the_job_on_either_side(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(task: TaskIdentity, item: int) -> int:
        if item == 50:
            raise ValueError("item 50")
        time.sleep(0)
        return item

    for seconds in (60.0, 0.0):
        monkeypatch.setattr(local_engine_context, "_SHORT_SECONDS", seconds)
        with pytest.raises(ValueError, match="item 50"):
            LocalEngineContext(2).run_tasks(range(MANY), fail)


def test_progress_counts_tasks_of_both_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds in (60.0, 0.0):
        monkeypatch.setattr(local_engine_context, "_SHORT_SECONDS", seconds)
        context = LocalEngineContext(2)
        with context.job("a job") as tasks:
            context.run_tasks(range(MANY), thread_of_task)
            assert tasks is not None
            assert (tasks().done, tasks().total) == (MANY, MANY)
