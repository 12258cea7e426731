"""Schedule a compaction: make its plan visible, without carrying it out.

Hudi: org.apache.hudi.table.action.compact.ScheduleCompactionActionExecutor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ClassVar

from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.table.clustering_plans import CLUSTERING_ACTIONS, is_clustering
from hoodie.common.table.compaction_plans import (
    delta_commits_after,
    delta_commits_to_compact,
    last_completed_compaction,
)
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import in_order, parse_instant_time
from hoodie.config.compaction_config import CompactionTriggerStrategy, HoodieCompactionConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieCompactionException
from hoodie.table.action.action import AnnouncedAction
from hoodie.table.action.compact.compaction_planner import plan_compaction
from hoodie.table.table_state import refuse_pending_restore

logger = logging.getLogger(__name__)


class OutdatedCompactionPlanException(HoodieCompactionException):
    """Others wrote to the table, or planned a compaction, while a compaction was planned: the plan was withdrawn."""


class ScheduleCompactionActionExecutor(AnnouncedAction[HoodieCompactionPlan]):
    """Plans a compaction and makes the plan visible.

    From then on new log files of its file groups belong to the slice that the compaction is going to make. So the plan
    must hold every log file that does not:

    - Timeline layout 1: a write that began earlier names the older slice. While one is pending, nothing is planned.
    - Layout 2: a write that was completed earlier counts for the older slice, and its completion may become visible
      only after the plan was made.

    Both are looked for before the plan is made, and again once it is visible; then it is withdrawn.

    Args:
        config: The trigger of compactions, and the choice of file groups.
        snapshot: The table, just loaded, under its lock.
        is_forced: Whether the compaction is planned although it is not due.

    Hudi: org.apache.hudi.table.action.compact.ScheduleCompactionActionExecutor. Differs: looks again.
    """

    kind = Action.COMPACTION
    _harm: ClassVar[str] = "its log files would be lost with the slices that a compaction replaces"

    def __init__(self, config: HoodieWriteConfig, snapshot: TableSnapshot, is_forced: bool = False) -> None:
        super().__init__(snapshot)
        self._config = config
        self._is_forced = is_forced

    def plan(self) -> HoodieCompactionPlan | None:
        """The slices to compact; None if no compaction is due, there is nothing to compact, or a write is pending.

        Raises:
            HoodieCommitException: A restore is pending.
            HoodieException: See `plan_compaction`.
        """
        refuse_pending_restore(self.snapshot, "nothing is compacted until it is finished")
        if not self._is_forced and not self._is_due():
            return None
        pending = self._pending_writes()
        if pending:
            logger.log(
                logging.WARNING if self._is_forced else logging.INFO,
                "no %s of %s is planned: %s is pending, and %s. Plan again when it is completed, or was rolled back",
                self.kind, self.snapshot.base_path, ", ".join(map(str, pending)), self._harm,
            )  # fmt: skip
            return None
        return self._plan()

    def _is_due(self) -> bool:
        return is_compaction_due(self._config.compaction, self.snapshot.active_timeline)

    def _plan(self) -> HoodieCompactionPlan | None:
        return plan_compaction(self._config, self.snapshot)

    def publish(self, plan: HoodieCompactionPlan, check: Callable[[], None]) -> str:
        """See `AnnouncedAction.publish`."""
        check()
        instant_time = self.snapshot.active_timeline.create_new_instant_time(self.kind, plan)
        logger.info(
            "planned %s %s of %s: %d file groups, %d log files",
            self.kind, instant_time, self.snapshot.base_path, len(plan.operations),
            sum(len(operation.delta_file_paths) for operation in plan.operations),
        )  # fmt: skip
        return instant_time

    def refuse_rivals(self, plan: HoodieCompactionPlan, instant_time: str, before: TableSnapshot) -> None:
        """Stop where others wrote, went back, or planned, since the table was looked at; see the class.

        Raises:
            OutdatedCompactionPlanException: They did.
            HoodieCommitException: A restore is pending.
        """
        refuse_pending_restore(self.snapshot, "nothing is compacted until it is finished")
        old, new = before.active_timeline, self.snapshot.active_timeline
        known = {instant.requested_time for instant in old.commits_timeline()}
        news = set(new.completed_writes().times - old.completed_writes().times)
        news.update(new.undone_since(old.completed_writes().times, held=new.savepoint_times))
        news.update(instant.requested_time for instant in self._pending_writes())
        services = (Action.COMPACTION, Action.LOG_COMPACTION, *CLUSTERING_ACTIONS)
        news |= new.filter_actions(*services).filter_pending().before(instant_time).times - known
        if news:
            raise OutdatedCompactionPlanException(
                f"{self.kind} {instant_time} of {self.snapshot.base_path} that was just planned is withdrawn: "
                f"{', '.join(in_order(news))} came meanwhile. Plan again"
            )

    def withdraw(self, instant_time: str) -> None:
        """Take the plan back, unless log files are named after it already, which nobody would read then.

        Such a plan is carried out with what it lacks; see `RunCompactionActionExecutor`.
        """
        named = [] if self.snapshot.active_timeline.layout.has_completion_times else self._files_of(instant_time)
        if named:
            logger.warning(
                "compaction %s of %s stays, though others wrote while it was planned: log files are named after it, "
                "such as %s", instant_time, self.snapshot.base_path, named[0],
            )  # fmt: skip
            return
        super().withdraw(instant_time)

    def _files_of(self, instant_time: str) -> list[str]:
        """The paths of files with an instant in their names."""
        metadata = self.snapshot.table_metadata
        listed = metadata.list_files_of(metadata.list_partitions())
        names = ((status.path, parse_log_file_name(status.name)) for files in listed.values() for status in files)
        return [path for path, name in names if name is not None and name.instant_time == instant_time]

    def _pending_writes(self) -> list[HoodieInstant]:
        """Timeline layout 1: the pending writes, whose log files may be named after the slices of today."""
        timeline = self.snapshot.active_timeline
        if timeline.layout.has_completion_times:
            return []
        return [
            instant
            for instant in timeline.filter_actions(*COMMIT_ACTIONS).filter_pending()
            if not is_clustering(timeline, instant)
        ]


def is_compaction_due(config: HoodieCompactionConfig, timeline: HoodieActiveTimeline) -> bool:
    """Whether enough was written since the last compaction, by ``hoodie.compact.inline.trigger.strategy``.

    Args:
        config: The strategy and its numbers.
        timeline: The table's current timeline.

    Hudi: org.apache.hudi.table.action.compact.ScheduleCompactionActionExecutor (needCompact).
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
