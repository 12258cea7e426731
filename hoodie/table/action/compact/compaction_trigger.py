"""When a compaction after a commit is due.

Hudi: org.apache.hudi.table.action.compact.ScheduleCompactionActionExecutor (needCompact).
"""

from __future__ import annotations

from hoodie.common.table.compaction_plans import delta_commits_after, last_completed_compaction
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import parse_instant_time
from hoodie.config.compaction_config import CompactionTriggerStrategy, HoodieCompactionConfig


def is_compaction_due(config: HoodieCompactionConfig, timeline: HoodieActiveTimeline) -> bool:
    """Whether enough was written since the last compaction, by ``hoodie.compact.inline.trigger.strategy``.

    Args:
        config: The strategy and its numbers.
        timeline: The table's current timeline.
    """
    match config.trigger_strategy:
        case CompactionTriggerStrategy.NUM_COMMITS:
            return _is_due_by_number(config, timeline, last_completed_compaction(timeline))
        case CompactionTriggerStrategy.NUM_COMMITS_AFTER_LAST_REQUEST:
            return _is_due_by_number(config, timeline, _last_requested(timeline))
        case CompactionTriggerStrategy.TIME_ELAPSED:
            return _is_due_by_time(config, timeline)
        case CompactionTriggerStrategy.NUM_AND_TIME:
            return _is_due_by_number(config, timeline, last_completed_compaction(timeline)) and _is_due_by_time(
                config, timeline
            )
        case CompactionTriggerStrategy.NUM_OR_TIME:
            return _is_due_by_number(config, timeline, last_completed_compaction(timeline)) or _is_due_by_time(
                config, timeline
            )


def _last_requested(timeline: HoodieActiveTimeline) -> HoodieInstant | None:
    return timeline.filter_actions(Action.COMMIT, Action.COMPACTION).last_instant


def _is_due_by_number(
    config: HoodieCompactionConfig, timeline: HoodieActiveTimeline, last: HoodieInstant | None
) -> bool:
    return len(delta_commits_after(timeline, last)) >= config.max_delta_commits


def _is_due_by_time(config: HoodieCompactionConfig, timeline: HoodieActiveTimeline) -> bool:
    last = last_completed_compaction(timeline)
    if not len(delta_commits_after(timeline, last)):
        return False
    since = last or timeline.filter_actions(Action.DELTA_COMMIT).filter_completed_instants().first_instant
    assert since is not None
    passed = timeline.clock() - parse_instant_time(since.requested_time, timeline.timezone)
    return passed.total_seconds() >= config.max_delta_seconds
