from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from hoodie.exception import (
    HoodieException,
    HoodieLockException,
    HoodieReadFromSourceException,
    HoodieSourceTimeoutException,
    HoodieWriteConflictException,
)
from hoodie.utilities.config.streamer_run_config import HoodieStreamerConfig
from hoodie.utilities.ingestion.ingestion_service import IngestionService, passes
from hoodie.utilities.streamer.streamer_config import StreamerConfig
from hoodie.utilities.streamer.sync_result import SyncResult


class Rounds:
    """Rounds with given outcomes; the service is stopped at their end."""

    def __init__(self, *outcomes: SyncResult | Exception) -> None:
        self.outcomes = list(outcomes)
        self.service: IngestionService | None = None
        self.begun: list[float] = []
        self.waits: list[str] = []

    def sync_once(self) -> SyncResult:
        self.begun.append(time.monotonic())
        outcome = self.outcomes.pop(0)
        if not self.outcomes and self.service is not None:
            self.service.stop()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def make_way(self, max_compactions: int, max_clusterings: int) -> str | None:
        return self.waits.pop(0) if self.waits else None


class Listener:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def round_begins(self) -> None:
        self.heard.append("begins")

    def round_ends(self, result: SyncResult) -> None:
        self.heard.append(f"ends {result.instant_time}")

    def round_failed(self, error: BaseException) -> None:
        self.heard.append(f"failed {type(error).__name__}")


def service(rounds: Rounds, **flags: Any) -> IngestionService:
    options = HoodieStreamerConfig(retry_initial_seconds=0, retry_max_attempts=2, idle_seconds=0.0)
    config = StreamerConfig(target_base_path="/t", **{"continuous": True, "retry_interval_seconds": 0, **flags})
    made = IngestionService(config, options, rounds, Listener())
    rounds.service = made
    return made


def heard(made: IngestionService) -> list[str]:
    listener = made.listener
    assert isinstance(listener, Listener)
    return listener.heard


DONE = SyncResult(instant_time="1")
LATE = HoodieSourceTimeoutException("late")


def test_one_round_by_default() -> None:
    made = service(Rounds(DONE, DONE), continuous=False)
    assert made.run() == DONE
    assert heard(made) == ["begins", "ends 1"]


def test_rounds_follow_each_other_until_the_end_is_asked_for() -> None:
    made = service(Rounds(DONE, SyncResult(), SyncResult(instant_time="2")))
    last = made.run()
    assert last is not None
    assert last.instant_time == "2"
    assert heard(made) == ["begins", "ends 1", "begins", "ends None", "begins", "ends 2"]


def test_the_interval_is_from_start_to_start() -> None:
    rounds = Rounds(DONE, DONE)
    service(rounds, min_sync_interval_seconds=1).run()
    assert rounds.begun[1] - rounds.begun[0] >= 1


def test_a_round_without_news_is_followed_by_a_pause() -> None:
    rounds = Rounds(SyncResult(), DONE, DONE)
    made = service(rounds)
    made.options = HoodieStreamerConfig(idle_seconds=0.5)
    made.run()
    assert rounds.begun[1] - rounds.begun[0] >= 0.5
    assert rounds.begun[2] - rounds.begun[1] < 0.5


def test_an_end_that_is_asked_for_does_not_wait_for_the_interval() -> None:
    begun = time.monotonic()
    service(Rounds(DONE), min_sync_interval_seconds=600).run()
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize(
    "error",
    [LATE, HoodieLockException("held"), HoodieWriteConflictException("other", is_retry_safe=True)],
)
def test_a_round_whose_reason_may_pass_is_tried_again(error: HoodieException) -> None:
    made = service(Rounds(error, error, DONE))
    assert made.run() == DONE
    assert heard(made)[-1] == "ends 1"


def test_a_round_is_not_tried_for_ever() -> None:
    made = service(Rounds(LATE, LATE, LATE, DONE))
    with pytest.raises(HoodieSourceTimeoutException):
        made.run()


def test_failures_with_a_good_round_between_them_are_counted_anew() -> None:
    assert service(Rounds(LATE, LATE, DONE, LATE, LATE, DONE)).run() == DONE


@pytest.mark.parametrize(
    "error",
    [
        HoodieReadFromSourceException("gone"),
        HoodieWriteConflictException("moved"),
        ValueError("a bug"),
    ],
)
def test_a_round_whose_reason_stays_ends_the_run(error: Exception) -> None:
    made = service(Rounds(error, DONE))
    with pytest.raises(type(error)):
        made.run()
    assert heard(made) == ["begins", f"failed {type(error).__name__}"]
    assert not passes(error)


def test_a_time_out_ends_one_round_unless_the_flags_ask_for_more_tries() -> None:
    with pytest.raises(HoodieSourceTimeoutException):
        service(Rounds(LATE, DONE), continuous=False).run()
    more = {"continuous": False, "retry_on_source_failures": True, "max_retry_count": 2}
    assert service(Rounds(LATE, LATE, DONE), **more).run() == DONE
    with pytest.raises(HoodieSourceTimeoutException):
        service(Rounds(LATE, LATE, LATE, DONE), **more).run()
    with pytest.raises(HoodieReadFromSourceException):
        service(Rounds(HoodieReadFromSourceException("gone"), DONE), **more).run()


def test_a_round_waits_while_services_of_the_table_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.utilities.ingestion.ingestion_service._LOOK_AGAIN_SECONDS", 0.0)
    rounds = Rounds(DONE)
    rounds.waits += ["5 compactions are pending", "5 compactions are pending"]
    assert service(rounds).run() == DONE
    assert rounds.waits == []


def test_a_lock_that_services_of_the_table_meet_is_waited_for() -> None:
    rounds = Rounds(DONE)
    made = service(rounds)
    make_way, held = rounds.make_way, [HoodieLockException("held")]

    def meet_a_lock(max_compactions: int, max_clusterings: int) -> str | None:
        if held:
            raise held.pop()
        return make_way(max_compactions, max_clusterings)

    rounds.make_way = meet_a_lock  # type: ignore[method-assign]
    assert made.run() == DONE


def test_a_strategy_ends_the_run() -> None:
    class AfterTwo:
        count = 0

        def should_shutdown(self, result: SyncResult) -> bool:
            self.count += 1
            return self.count == 2

    rounds = Rounds(DONE, DONE, DONE)
    made = service(rounds)
    made.termination = AfterTwo()
    made.run()
    assert len(rounds.outcomes) == 1


def test_something_is_called_before_every_round() -> None:
    called: list[int] = []
    note: Callable[[], None] = lambda: called.append(1)  # noqa: E731
    made = service(Rounds(DONE, DONE))
    made.before_round = note
    made.run()
    assert len(called) == 2
