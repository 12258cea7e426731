"""Plan a clean: decide whether one is due, find what it deletes, write ``<t>.clean.requested``.

Hudi: org.apache.hudi.table.action.clean.CleanPlanActionExecutor.
"""

from __future__ import annotations

import logging

import attrs

from hoodie.avro.clean_metadata import HoodieActionInstant, HoodieCleanerPlan, HoodieCleanFileInfo
from hoodie.avro.timeline_metadata import encode
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, State
from hoodie.config.clean_config import HoodieCleanConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.table.action.clean.base_clean_action_executor import BaseCleanActionExecutor
from hoodie.table.action.clean.clean_planner import SAVEPOINTED_TIMESTAMPS, CleanPlanner

__all__ = ["CleanPlanActionExecutor", "EmptyPlan"]

logger = logging.getLogger(__name__)


@attrs.frozen
class EmptyPlan:
    """A plan that found nothing, which leaves no instant: later ones of the same client need not look there again.

    Attributes:
        earliest: The earliest instant that was to be retained.
        savepoints: The savepoints at that time.
    """

    earliest: str
    savepoints: tuple[str, ...]


class CleanPlanActionExecutor(BaseCleanActionExecutor):
    """Plans one clean.

    Attributes:
        empty_plan: Set by `execute` when it looked and found nothing.
    """

    def __init__(
        self,
        context: HoodieEngineContext,
        clean: HoodieCleanConfig,
        snapshot: TableSnapshot,
        may_delete_partitions: bool = True,
    ) -> None:
        super().__init__(context, clean, snapshot, may_delete_partitions)
        self._planner = CleanPlanner(context, clean, snapshot)
        self.empty_plan: EmptyPlan | None = None

    def execute(self, last_empty_plan: EmptyPlan | None = None, is_forced: bool = False) -> str | None:
        """Plan, if a clean is due.

        Args:
            last_empty_plan: Of an earlier execution.
            is_forced: Whether it is due though there are too few commits after the last one.

        Returns:
            The clean's instant time; None when nothing is due, nothing goes, or somebody went back to older versions
            meanwhile. Then no plan is left.

        Raises:
            HoodieCorruptedDataException: What holds files cannot be read.
            HoodieIOException: Storage failed.
        """
        planner, before = self._planner, self._snapshot.active_timeline
        if not is_forced and planner.commits_since_last_clean < self._clean.max_commits:
            return None
        plan = self.plan(last_empty_plan)
        if plan is None or not plan.file_count:
            if planner.earliest is not None:
                self.empty_plan = EmptyPlan(planner.earliest.requested_time, planner.savepoints)
            return None
        instant_time = before.create_new_instant_time(Action.CLEAN, encode(plan))
        if self._is_outdated(before):
            self._snapshot.active_timeline.withdraw_requested(instant_time, Action.CLEAN)
            return None
        logger.info(
            "planned clean %s of %s: %d files of %d partitions, readable from %s on",
            instant_time,
            self._snapshot.base_path,
            plan.file_count,
            len(plan.file_paths_to_be_deleted_per_partition),
            plan.earliest_instant_to_retain.timestamp if plan.earliest_instant_to_retain else "the retained versions",
        )
        return instant_time

    def _is_outdated(self, before: HoodieActiveTimeline) -> bool:
        """Whether somebody went back to older versions, or saved them, while the plan was made that deletes them.

        Who does that looks for plans of cleans once his own instant can be seen, and this looks for his once the plan
        can be seen: so one of the two finds the other, also where no lock keeps them apart, or it was lost.
        """
        known = _ways_back(before)
        news = sorted(_ways_back(self._snapshot.reload_active_timeline()) - known)
        if news:
            logger.warning(
                "the clean of %s that was just planned is withdrawn: %s came meanwhile",
                self._snapshot.base_path,
                ", ".join(f"{action} {instant_time}" for instant_time, action in news),
            )
        return bool(news)

    def plan(self, last_empty_plan: EmptyPlan | None = None) -> HoodieCleanerPlan | None:
        """What a clean would delete now; None when the policy keeps everything.

        Args:
            last_empty_plan: Of an earlier execution.

        Raises:
            HoodieCorruptedDataException: What holds files cannot be read.
            HoodieIOException: Storage failed.
        """
        planner = self._planner
        if not planner.may_clean:
            return None
        known = last_empty_plan is not None and last_empty_plan.savepoints == planner.savepoints
        partition_paths = planner.partitions_to_clean(last_empty_plan.earliest if known and last_empty_plan else None)
        cleanings = planner.plan(partition_paths)
        timeline = self._snapshot.active_timeline
        writes = timeline.commits_timeline()
        last = writes.filter_completed_instants().last_instant
        may_delete = self._may_delete_partitions and not len(writes.filter_pending())
        earliest = planner.earliest
        return HoodieCleanerPlan(
            earliest_instant_to_retain=None
            if earliest is None
            else HoodieActionInstant(earliest.requested_time, str(earliest.action), State(earliest.state).name),
            last_completed_commit_timestamp="" if last is None else last.requested_time,
            policy=str(self._clean.policy),
            file_paths_to_be_deleted_per_partition={
                cleaning.partition_path: tuple(HoodieCleanFileInfo(path) for path in cleaning.paths)
                for cleaning in cleanings
                if cleaning.paths
            },
            partitions_to_be_deleted=tuple(
                cleaning.partition_path
                for cleaning in cleanings
                if cleaning.is_left_empty and cleaning.partition_path and may_delete
            ),
            extra_metadata={SAVEPOINTED_TIMESTAMPS: ",".join(planner.savepoints)} if planner.savepoints else {},
        )


def _ways_back(timeline: HoodieActiveTimeline) -> set[tuple[str, Action]]:
    """Instants that need older versions; a pending restore stops a clean anyhow, and loudly."""
    found = timeline.filter_actions(Action.ROLLBACK, Action.RESTORE, Action.SAVEPOINT)
    return {(i.requested_time, i.action) for i in found if i.action is not Action.RESTORE or i.is_completed}
