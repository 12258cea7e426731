"""Times of timeline layout 2: each is greater than all that were given out before, requested and completion times."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieCommitException, HoodieIOException
from hoodie.storage.local_storage import LocalStorage
from hoodie.transaction.lock.lock_manager import clock_skew_ms
from tests.support.hookable_storage import Call, storage_with

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
METADATA = HoodieCommitMetadata()


def load(path: Path, *names: str, **changes: Any) -> HoodieActiveTimeline:
    (path / "timeline").mkdir(exist_ok=True)
    for name in names:
        (path / "timeline" / name).touch()
    return HoodieActiveTimeline.load(
        LocalStorage(str(path)), str(path), timeline_layout(2), clock=lambda: NOON, **changes
    )


def names_in(path: Path) -> list[str]:
    return sorted(file.name for file in (path / "timeline").iterdir())


def begin(timeline: HoodieActiveTimeline, action: Action = Action.COMMIT) -> str:
    instant_time = timeline.create_new_instant_time(action)
    assert timeline.transition_requested_to_inflight(instant_time, action)
    return instant_time


def test_an_instant_has_a_completion_time_after_its_requested_one_while_the_clock_stands(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    assert begin(timeline) == "20260102120000000"
    completed = timeline.save_as_complete("20260102120000000", Action.COMMIT, METADATA)
    assert completed == HoodieInstant("20260102120000000", Action.COMMIT, State.COMPLETED, "20260102120000001")
    assert names_in(tmp_path) == [
        "20260102120000000.commit.requested",
        "20260102120000000.inflight",
        "20260102120000000_20260102120000001.commit",
    ]
    assert begin(timeline) == "20260102120000002"
    reloaded = timeline.reload()
    assert reloaded.read_commit_metadata(reloaded.instants[0]) == METADATA


@pytest.mark.parametrize(
    "newest",
    [
        "20260102110000000_20260102120000007.commit",
        "20260102110000000_20260102120000007.savepoint",
        "20260102120000007.clean.requested",
    ],
)
def test_both_times_are_greater_than_every_time_of_any_instant(tmp_path: Path, newest: str) -> None:
    timeline = load(tmp_path, newest)
    instant_time = begin(timeline)
    assert instant_time == "20260102120000008"
    load(tmp_path, "20260102110000001_20260102120000020.clean")
    completed = timeline.save_as_complete(instant_time, Action.COMMIT, METADATA)
    assert completed is not None
    assert completed.completion_time == "20260102120000021"


def test_both_times_are_greater_than_archived_ones(tmp_path: Path) -> None:
    timeline = load(tmp_path, newest_archived_time=lambda: "20260102120000007")
    instant_time = begin(timeline)
    completed = timeline.save_as_complete(instant_time, Action.COMMIT, METADATA)
    assert completed is not None
    assert (instant_time, completed.completion_time) == ("20260102120000008", "20260102120000009")


def test_a_time_that_another_writer_gave_to_a_completed_instant_meanwhile_is_given_up(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    rivals = iter(["20260102110000000_20260102120000000.commit"])

    def announce(instant_time: str) -> bool:
        for name in rivals:
            load(tmp_path, name)
        return True

    assert timeline.create_new_instant_time(Action.COMMIT, announce=announce) == "20260102120000001"
    assert "20260102120000000.commit.requested" not in names_in(tmp_path)


def test_a_chosen_time_must_be_later_than_every_completion_time(tmp_path: Path) -> None:
    timeline = load(tmp_path, "20260102110000000_20260102120000007.commit")
    with pytest.raises(HoodieCommitException, match="not later than the newest instant 20260102120000007"):
        timeline.create_requested_at("20260102120000007", Action.COMMIT)


def test_an_instant_is_completed_once(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    instant_time = begin(timeline)
    assert timeline.save_as_complete(instant_time, Action.COMMIT, METADATA) is not None
    assert timeline.save_as_complete(instant_time, Action.COMMIT, METADATA) is None
    timeline.delete_in_any_state(instant_time, Action.COMMIT)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(("rival", "stays"), [("20260102120000000", False), ("20260102120000009", True)])
def test_of_two_writers_that_complete_an_instant_at_once_the_earlier_time_stays(
    tmp_path: Path, rival: str, stays: bool
) -> None:
    timeline = load(tmp_path)
    instant_time = begin(timeline, Action.CLEAN)
    name = f"{instant_time}_{rival}.clean"

    class Rival(LocalStorage):
        def create_if_absent(self, path: str, content: bytes) -> bool:
            load(tmp_path, name)
            return super().create_if_absent(path, content)

    racing = attrs.evolve(timeline, storage=Rival(str(tmp_path)))
    completed = racing.save_as_complete(instant_time, Action.CLEAN, b"metadata")
    assert (completed is not None) is stays
    ours = f"{instant_time}_20260102120000001.clean"
    assert [found for found in names_in(tmp_path) if "_" in found] == sorted([name, ours] if stays else [name])


def test_a_storage_that_fails_after_the_completion_does_not_hide_it(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    instant_time = begin(timeline)

    created: list[str] = []

    class Failing(LocalStorage):
        def create_if_absent(self, path: str, content: bytes) -> bool:
            created.append(path)
            return super().create_if_absent(path, content)

        def list_names(self, path: str) -> Any:
            if created:
                raise HoodieIOException("no listing now")
            return super().list_names(path)

    failing = attrs.evolve(timeline, storage=Failing(str(tmp_path)))
    assert failing.save_as_complete(instant_time, Action.COMMIT, METADATA) is not None


def test_a_check_that_fails_leaves_the_instant_inflight(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    instant_time = begin(timeline)

    def lost() -> None:
        raise HoodieCommitException("the lock was lost")

    with pytest.raises(HoodieCommitException, match="lost"):
        timeline.save_as_complete(instant_time, Action.COMMIT, METADATA, lost)
    assert [instant.state for instant in timeline.reload().instants] == [State.INFLIGHT]


def test_nothing_comes_between_the_check_and_the_completed_file(tmp_path: Path) -> None:
    timeline = load(tmp_path)
    instant_time = begin(timeline)
    calls: list[str] = []

    def note(call: Call) -> Any:
        calls.append(call.name)
        return call.apply()

    watched = attrs.evolve(timeline, storage=storage_with(tmp_path, note))
    assert watched.save_as_complete(instant_time, Action.COMMIT, METADATA, lambda: calls.append("check")) is not None
    assert calls[calls.index("check") + 1] == "create"


def test_taking_a_time_lasts_as_long_as_clocks_may_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[tuple[float, list[str]]] = []
    monkeypatch.setattr(time, "sleep", lambda seconds: waits.append((seconds, names_in(tmp_path))))
    timeline = load(tmp_path, clock_skew_ms=200)
    instant_time = begin(timeline)
    timeline.save_as_complete(instant_time, Action.COMMIT, METADATA)
    requested, inflight = f"{instant_time}.commit.requested", f"{instant_time}.inflight"
    completed = f"{instant_time}_20260102120000001.commit"
    # Others see each time while its writer waits. What it did since it took the time counts.
    assert [files for _, files in waits] == [[requested], [requested, inflight, completed]]
    assert all(0 < seconds <= 0.2 for seconds, _ in waits)
    waits.clear()
    begin(load(tmp_path, clock_skew_ms=0))
    assert [seconds for seconds, _ in waits] == [0]


_OF_SEVERAL = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}


@pytest.mark.parametrize(
    ("options", "skew_ms"),
    [
        ({}, 1),
        ({**_OF_SEVERAL, "hoodie.write.lock.provider": "InProcessLockProvider"}, 1),
        ({**_OF_SEVERAL, "hoodie.write.lock.provider": "FileSystemBasedLockProvider"}, 200),
        ({**_OF_SEVERAL, "hoodie.write.lock.provider": "StorageBasedLockProvider"}, 200),
        ({"hoodie.time.generator.max_expected_clock_skew_ms": "0"}, 0),
    ],
)
def test_clocks_are_expected_to_differ_where_other_machines_can_take_the_lock(
    options: dict[str, str], skew_ms: int
) -> None:
    several = {"hoodie.cleaner.policy.failed.writes": "LAZY"} if _OF_SEVERAL.items() <= options.items() else {}
    assert clock_skew_ms(HoodieWriteConfig.from_properties("memory://t", {**several, **options})) == skew_ms
