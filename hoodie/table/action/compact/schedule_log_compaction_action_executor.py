"""Schedule a log compaction: make its plan visible, without carrying it out.

Hudi: org.apache.hudi.table.action.compact.ScheduleCompactionActionExecutor (LOG_COMPACT).
"""

from __future__ import annotations

import logging

from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.common.table.clustering_plans import is_clustering
from hoodie.common.table.compaction_plans import is_log_compaction_due
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant
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
        threshold = self._config.compaction.log_compaction_blocks_threshold
        return is_log_compaction_due(self.snapshot.active_timeline, threshold)

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
