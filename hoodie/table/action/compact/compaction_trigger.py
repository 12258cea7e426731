"""Decide whether a compaction is due after a commit.

Hudi: org.apache.hudi.table.action.compact.ScheduleCompactionActionExecutor (needCompact).
"""

from __future__ import annotations

from hoodie.common.table.compaction_plans import (
    delta_commits_after,
    delta_commits_to_compact,
    last_completed_compaction,
)
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.instant_time import parse_instant_time
from hoodie.config.compaction_config import CompactionTriggerStrategy, HoodieCompactionConfig


def is_compaction_due(config: HoodieCompactionConfig, timeline: HoodieActiveTimeline) -> bool:
    """Whether enough was written since the last compaction, by ``hoodie.compact.inline.trigger.strategy``.

    Args:
        config: The strategy and its numbers.
        timeline: The table's current timeline.
    """
    is_many = len(delta_commits_to_compact(timeline)) >= config.max_delta_commits
    match config.trigger_strategy:
        case CompactionTriggerStrategy.NUM_COMMITS:
            return is_many
        case CompactionTriggerStrategy.NUM_COMMITS_AFTER_LAST_REQUEST:
            last = timeline.filter_actions(Action.COMMIT, Action.COMPACTION).last_instant
            return len(delta_commits_after(timeline, last)) >= config.max_delta_commits
        case CompactionTriggerStrategy.TIME_ELAPSED:
            return _is_late(config, timeline)
        case CompactionTriggerStrategy.NUM_AND_TIME:
            return is_many and _is_late(config, timeline)
        case CompactionTriggerStrategy.NUM_OR_TIME:
            return is_many or _is_late(config, timeline)


def _is_late(config: HoodieCompactionConfig, timeline: HoodieActiveTimeline) -> bool:
    """Whether delta commits have waited for ``hoodie.compact.inline.max.delta.seconds``."""
    if not delta_commits_to_compact(timeline):
        return False
    writes = timeline.filter_actions(Action.DELTA_COMMIT).filter_completed_instants()
    since = last_completed_compaction(timeline) or writes.first_instant
    assert since is not None
    passed = timeline.clock() - parse_instant_time(since.requested_time, timeline.timezone)
    return passed.total_seconds() >= config.max_delta_seconds
