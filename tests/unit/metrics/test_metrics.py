"""Steps: their order, nesting and counts, and what listeners are told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hoodie.metrics.metrics import HoodieMetrics
from hoodie.metrics.progress import ProgressEvent, ProgressState, SafeCallback, TaskCount, Ticker


def shown(event: ProgressEvent) -> tuple[str, str, int, int, int]:
    return event.title, event.state.value, event.depth, event.done, event.total


def test_steps_are_listed_in_the_order_in_which_they_began_with_their_depth_and_counts() -> None:
    metrics = HoodieMetrics()
    with metrics.step("outer") as outer:
        with metrics.step("inner", "detail") as inner:
            inner.count(records=3)
            inner.count(files=1, bytes=10)
        outer.count(files=0)
    with metrics.step("last"):
        pass
    found = [(s.name, s.title, s.depth, s.records, s.files, s.bytes, s.failed) for s in metrics.steps]
    assert found == [
        ("outer", "outer", 0, None, 0, None, False),
        ("inner", "inner (detail)", 1, 3, 1, 10, False),
        ("last", "last", 0, None, None, None, False),
    ]
    assert metrics.steps[0].seconds >= metrics.steps[1].seconds >= 0


def test_a_failed_step_is_timed_and_told_with_its_error() -> None:
    events: list[ProgressEvent] = []
    metrics = HoodieMetrics(listeners=[SafeCallback(events.append)])
    with pytest.raises(ValueError, match="broken"), metrics.operation("upsert"), metrics.step("tag location"):
        raise ValueError("broken")
    assert [step.failed for step in metrics.steps] == [True]
    assert [event.state for event in events] == [ProgressState.STARTED, ProgressState.FAILED]
    assert isinstance(events[1].error, ValueError)
    assert events[1].operation == "upsert"


def test_restart_forgets_the_steps_of_before_but_not_those_that_are_under_way() -> None:
    metrics = HoodieMetrics()
    with metrics.step("old"):
        pass
    with metrics.step("running"):
        metrics.restart()
    assert [step.name for step in metrics.steps] == ["old", "running"]
    metrics.restart()
    assert metrics.steps == ()


def test_each_step_names_the_engines_jobs_and_asks_for_its_tasks() -> None:
    names: list[tuple[str, str]] = []

    @contextmanager
    def job(description: str, subject: str) -> Iterator[Callable[[], TaskCount]]:
        names.append((description, subject))
        yield lambda: TaskCount(4, 4)

    metrics = HoodieMetrics(job, table="/data/trips")
    with metrics.operation("upsert"):
        metrics.instant_time = "20261127182611123"
        with metrics.step("tag location", "SIMPLE"):
            pass
    with metrics.step("clean"):
        pass
    assert names == [
        ("hoodie: upsert", "/data/trips"),
        ("hoodie: tag location (SIMPLE)", "upsert 20261127182611123 of /data/trips"),
        ("hoodie: clean", "/data/trips"),
    ]
    assert metrics.steps[0].tasks == 4


def test_advancing_tasks_are_told_from_another_thread_and_only_when_they_changed() -> None:
    done = [0]
    events: list[ProgressEvent] = []
    threads: set[str] = set()
    halfway, all_done = threading.Event(), threading.Event()

    @contextmanager
    def job(description: str, subject: str) -> Iterator[Callable[[], TaskCount]]:
        yield lambda: TaskCount(done[0], 4)

    def listen(event: ProgressEvent) -> None:
        events.append(event)
        if event.state is ProgressState.ADVANCED:
            threads.add(threading.current_thread().name)
            (all_done if event.done == 4 else halfway).set()

    metrics = HoodieMetrics(job, [SafeCallback(listen)])
    with metrics.operation("upsert"), metrics.step("write buckets", "4"):
        done[0] = 2
        assert halfway.wait(60)
        done[0] = 4
        assert all_done.wait(60)
    told = [(event.done, event.total) for event in events if event.state is ProgressState.ADVANCED]
    assert told[-2:] == [(2, 4), (4, 4)]
    assert len(told) == len(set(told))
    assert threads == {"hoodie-progress"}
    assert shown(events[-1]) == ("write buckets (4)", "finished", 0, 4, 4)


def test_an_error_of_the_callback_is_logged_once_and_does_not_reach_the_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[ProgressEvent] = []

    def listen(event: ProgressEvent) -> None:
        calls.append(event)
        raise RuntimeError("the callback is broken")

    metrics = HoodieMetrics(listeners=[SafeCallback(listen)])
    with metrics.operation("upsert"), metrics.step("commit"):
        pass
    assert len(calls) == 2
    assert [(record.levelno, "step 'commit'" in record.message) for record in caplog.records] == [
        (logging.WARNING, True)
    ]
    assert caplog.records[0].exc_info is not None


def test_a_call_within_a_call_is_part_of_it_and_nothing_runs_beside_afterwards() -> None:
    events: list[ProgressEvent] = []
    metrics = HoodieMetrics(listeners=[SafeCallback(events.append)])
    with metrics.operation("upsert") as outer:
        with metrics.operation("start_commit") as inner:
            assert inner is outer
        with metrics.step("commit"):
            assert any(thread.name == "hoodie-progress" for thread in threading.enumerate())
    assert {event.operation for event in events} == {"upsert"}
    assert not any(thread.name == "hoodie-progress" for thread in threading.enumerate())


def test_without_listeners_no_thread_is_started() -> None:
    metrics = HoodieMetrics()
    with metrics.operation("upsert"), metrics.step("commit"):
        assert not any(thread.name == "hoodie-progress" for thread in threading.enumerate())


def test_a_ticker_whose_function_fails_ends_and_can_be_stopped() -> None:
    calls: list[int] = []
    failed = threading.Event()

    def fail() -> None:
        calls.append(1)
        failed.set()
        raise RuntimeError("the engine is gone")

    ticker = Ticker(fail)
    assert failed.wait(60)
    ticker.stop()
    assert calls == [1]


def test_steps_of_a_thread_beside_the_client_are_nobodys() -> None:
    events: list[ProgressEvent] = []
    metrics = HoodieMetrics(listeners=[SafeCallback(events.append)])
    done = threading.Event()

    def work() -> None:
        with metrics.beside(), metrics.step("clean") as step:
            step.count(files=1)
        with metrics.step("after"):
            done.set()

    with metrics.operation("upsert"), metrics.step("commit"):
        thread = threading.Thread(target=work)
        thread.start()
        assert done.wait(60)
        thread.join()
    assert [step.name for step in metrics.steps] == ["commit", "after"]
    assert "clean" not in {event.step for event in events}
