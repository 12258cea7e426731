"""Schedule a log compaction: make its plan visible, without carrying it out.

Hudi: org.apache.hudi.table.action.compact.ScheduleCompactionActionExecutor (LOG_COMPACT).
"""

from __future__ import annotations

import logging

from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.common.table.clustering_plans import is_clustering
from hoodie.common.table.compaction_plans import delta_commits_to_compact
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant
from hoodie.config.compaction_config import HoodieCompactionConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieNotSupportedException
from hoodie.io.log_compaction_handle import can_compact_logs
from hoodie.merge.merge_spec import MergeSpec
from hoodie.table.action.compact.compaction_planner import plan_log_compaction
from hoodie.table.action.compact.schedule_compaction_action_executor import ScheduleCompactionActionExecutor

logger = logging.getLogger(__name__)


class ScheduleLogCompactionActionExecutor(ScheduleCompactionActionExecutor):
    """Plans a log compaction and makes the plan visible.

    Its log file stands in for those before it, at the place of the newest of them, and readers of Hudi merge it after
    all log files that were there. So no other log file may come between, and nothing is planned while a write is
    pending, in any timeline layout::

        t1  t2  t3 (pending)  t4  L(t1,t2,t4)     readers would merge t3 before t4, or L after t3

    Log files of writes that begin later come after its own. A writer need not know of the plan.

    Args:
        config: The threshold.
        snapshot: The table, just loaded, under its lock.
        merge_spec: The table's merge rules.
        is_forced: Whether it is planned although too few delta commits were made.

    Hudi: org.apache.hudi.table.action.compact.ScheduleCompactionActionExecutor (LOG_COMPACT). Differs: looks again, and
    plans nothing beside pending writes.
    """

    kind = Action.LOG_COMPACTION
    _harm = "its log files may belong between those that a log compaction merges"

    def __init__(
        self, config: HoodieWriteConfig, snapshot: TableSnapshot, merge_spec: MergeSpec, is_forced: bool = False
    ) -> None:
        super().__init__(config, snapshot, is_forced)
        self._merge_spec = merge_spec

    def withdraw(self, instant_time: str) -> None:
        """Take the plan back: no log file of another writer is named after it."""
        self.snapshot.active_timeline.withdraw_requested(instant_time, self.kind)

    def _is_due(self) -> bool:
        return is_log_compaction_due(self._config.compaction, self.snapshot.active_timeline)

    def _plan(self) -> HoodieCompactionPlan | None:
        if not can_compact_logs(self._merge_spec):
            problem = (
                f"log files of {self.snapshot.base_path} cannot be merged without base files: the table merges rows by "
                "columns, by a payload class or by a record merger. Compact it instead: client.compact()"
            )
            if self._is_forced:
                raise HoodieNotSupportedException(problem)
            logger.info("%s", problem)
            return None
        return plan_log_compaction(self._config, self.snapshot)

    def _pending_writes(self) -> list[HoodieInstant]:
        return pending_writes(self.snapshot.active_timeline)


def pending_writes(timeline: HoodieActiveTimeline) -> list[HoodieInstant]:
    """The pending writes of a timeline, without clusterings; the oldest first."""
    pending = timeline.filter_actions(*COMMIT_ACTIONS).filter_pending()
    return [instant for instant in pending if not is_clustering(timeline, instant)]


def is_log_compaction_due(config: HoodieCompactionConfig, timeline: HoodieActiveTimeline) -> bool:
    """Whether enough delta commits were made since the last compaction, and since the last log compaction.

    Args:
        config: The number.
        timeline: The table's current timeline.

    Hudi: org.apache.hudi.table.action.compact.ScheduleCompactionActionExecutor (needLogCompact).
    """
    count = config.log_compaction_blocks_threshold
    if len(delta_commits_to_compact(timeline)) < count:
        return False
    planned = {
        time
        for (time, _), states in timeline.stored_states().items()
        if any(one.action is Action.LOG_COMPACTION for one in states.values())
    }
    last = timeline.filter(lambda instant: instant.requested_time in planned).last_instant
    if last is None:
        return True
    writes = timeline.filter_actions(Action.DELTA_COMMIT).filter_completed_instants()
    return last.is_completed and len(writes.after(last.requested_time)) >= count
