"""Lines of the log for questions that nobody answers."""

from __future__ import annotations

import threading
import time

import pytest

from hoodie.utilities import unanswered
from hoodie.utilities.unanswered import Unanswered


def test_a_line_comes_after_some_seconds_and_then_now_and_then(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(unanswered.time, "monotonic", lambda: now[0])
    waiting = Unanswered("Kafka at host:9092", "the partitions of topic trips", 60)
    told = []
    for second in range(45):
        now[0] = 100.0 + second
        waiting.look("connection refused")
        told += [second] * len(caplog.records)
        caplog.clear()
    assert told == [3, 33]
    now[0] = 200.0
    waiting.begin()
    now[0] = 203.5
    waiting.look()
    assert caplog.messages == [
        "Kafka at host:9092 has not answered for 4 s: it was asked for the partitions of topic trips, and it is tried "
        "for 56 s more"
    ]
    now[0] = 300.0
    waiting.look("no route")
    assert "100 s (no route)" in caplog.messages[-1]
    assert "for 0 s more" in caplog.messages[-1]


def test_a_thread_looks_while_a_block_waits_and_ends_with_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unanswered, "_FIRST_LINE_S", 0.05)
    monkeypatch.setattr(unanswered, "_NEXT_LINE_S", 0.05)
    before = threading.active_count()
    with Unanswered("A registry", "/schemas/ids/1", 9).watched():
        deadline = time.monotonic() + 30
        while len(caplog.messages) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(caplog.messages) >= 2
    assert threading.active_count() == before
    monkeypatch.setattr(unanswered, "_FIRST_LINE_S", 60)
    caplog.clear()
    with pytest.raises(OSError), Unanswered("A registry", "/schemas/ids/1", 9).watched():
        raise OSError
    assert threading.active_count() == before
    assert not caplog.messages
