"""When a compaction after a commit is due."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie import HoodieTableMetaClient
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.config.compaction_config import CompactionTriggerStrategy, HoodieCompactionConfig
from hoodie.table.action.compact.schedule_compaction_action_executor import is_compaction_due
from tests.support.table_builder import init_table

NOW = datetime(2026, 1, 1, 0, 1, 0, tzinfo=UTC)


@pytest.fixture
def timeline(tmp_path: Path, table_version: int) -> HoodieActiveTimeline:
    return HoodieTableMetaClient.load(init_table(tmp_path / "t")).active_timeline


def at(second: int) -> str:
    return f"202601010000{second:02d}000"


def of(timeline: HoodieActiveTimeline, *instants: tuple[int, Action, State, int | None]) -> HoodieActiveTimeline:
    has_times = timeline.layout.has_completion_times
    made = [
        HoodieInstant(at(time), action, state, at(end) if has_times and end is not None else None)
        for time, action, state, end in instants
    ]
    return attrs.evolve(timeline, instants=made, clock=lambda: NOW)


def delta(time: int, end: int | None = None) -> tuple[int, Action, State, int]:
    return time, Action.DELTA_COMMIT, State.COMPLETED, end or time


def compaction(time: int, end: int | None = None) -> tuple[int, Action, State, int | None]:
    if end is None:
        return time, Action.COMPACTION, State.REQUESTED, None
    return time, Action.COMMIT, State.COMPLETED, end


def is_due(timeline: HoodieActiveTimeline, strategy: str, commits: int = 2, seconds: int = 30) -> bool:
    config = HoodieCompactionConfig(
        trigger_strategy=CompactionTriggerStrategy(strategy), max_delta_commits=commits, max_delta_seconds=seconds
    )
    return is_compaction_due(config, timeline)


every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)


@every_version
@pytest.mark.parametrize(
    "strategy, expected",
    [
        # no commit, one, two long ago, two after a compaction, one, two after a plan only, two just now
        ("NUM_COMMITS", [False, False, True, True, False, True, True]),
        ("NUM_COMMITS_AFTER_LAST_REQUEST", [False, False, True, True, False, False, True]),
        ("TIME_ELAPSED", [False, True, True, False, False, True, False]),
        ("NUM_AND_TIME", [False, False, True, False, False, True, False]),
        ("NUM_OR_TIME", [False, True, True, True, False, True, True]),
    ],
)
def test_what_is_due(timeline: HoodieActiveTimeline, strategy: str, expected: list[bool]) -> None:
    timelines = [
        of(timeline),
        of(timeline, delta(1)),
        of(timeline, delta(1), delta(2)),
        of(timeline, delta(1), compaction(40, 41), delta(42), delta(43)),
        of(timeline, delta(1), compaction(40, 41), delta(42)),
        of(timeline, delta(1), delta(2), compaction(40), delta(42)),
        of(timeline, delta(50), delta(51)),
    ]
    assert [is_due(found, strategy) for found in timelines] == expected


@pytest.mark.parametrize("table_version", [8, 9], indirect=True)
def test_delta_commits_count_that_were_completed_after_the_compaction_was_requested(
    timeline: HoodieActiveTimeline,
) -> None:
    found = of(timeline, delta(10, 25), delta(11, 12), compaction(20, 30), delta(31))
    assert is_due(found, "NUM_COMMITS", commits=2)
    assert not is_due(found, "NUM_COMMITS", commits=3)


@every_version
def test_pending_delta_commits_do_not_count(timeline: HoodieActiveTimeline) -> None:
    pending: Any = (3, Action.DELTA_COMMIT, State.INFLIGHT, None)
    assert not is_due(of(timeline, delta(1), pending), "NUM_COMMITS")
