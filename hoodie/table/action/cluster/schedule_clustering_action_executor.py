"""Schedule a clustering: make its plan visible, without carrying it out.

Hudi: org.apache.hudi.table.action.cluster.ClusteringPlanActionExecutor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from hoodie.avro.timeline_metadata import HoodieRequestedReplaceMetadata
from hoodie.common.model.file_slice import HoodieFileGroupId
from hoodie.common.table.clustering_plans import (
    clustering_action,
    commits_since_clustering,
    pending_clusterings,
    planned_file_groups,
)
from hoodie.common.table.compaction_plans import compacted_file_groups
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.instant_time import in_order, is_before
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieClusteringException
from hoodie.table.action.action import AnnouncedAction
from hoodie.table.action.cluster.clustering_planner import plan_clustering
from hoodie.table.table_state import refuse_pending_restore

logger = logging.getLogger(__name__)


class OutdatedClusteringPlanException(HoodieClusteringException):
    """Others planned a service, or nothing is left of what a clustering was to rewrite: the plan was withdrawn."""


class ScheduleClusteringActionExecutor(AnnouncedAction[HoodieRequestedReplaceMetadata]):
    """Plans a clustering and makes the plan visible.

    Writes may go on beside it: see `RunClusteringActionExecutor`. Other table services leave its file groups alone.

    Args:
        config: The choice of file groups.
        snapshot: The table, just loaded, under its lock.
        max_commits: So many commits must have come after the last clustering; None plans whatever came.

    Hudi: org.apache.hudi.table.action.cluster.ClusteringPlanActionExecutor. Differs: looks again.
    """

    kind = Action.CLUSTERING

    def __init__(self, config: HoodieWriteConfig, snapshot: TableSnapshot, max_commits: int | None = None) -> None:
        super().__init__(snapshot)
        self._config = config
        self._max_commits = max_commits

    def plan(self) -> HoodieRequestedReplaceMetadata | None:
        """The groups to rewrite; None if no clustering is due, or there is nothing to rewrite.

        Raises:
            HoodieCommitException: A restore is pending.
            HoodieException: See `plan_clustering`.
        """
        refuse_pending_restore(self.snapshot, "nothing is clustered until it is finished")
        if self._max_commits is not None and commits_since_clustering(self._timeline) < self._max_commits:
            return None
        return plan_clustering(self._config, self.snapshot)

    def publish(self, plan: HoodieRequestedReplaceMetadata, check: Callable[[], None]) -> str:
        """See `AnnouncedAction.publish`."""
        check()
        instant_time = self._timeline.create_new_instant_time(clustering_action(self._timeline), plan)
        assert plan.clustering_plan is not None
        logger.info(
            "planned clustering %s of %s: %d groups of %d file groups", instant_time, self.snapshot.base_path,
            len(plan.clustering_plan.input_groups), len(planned_file_groups(plan.clustering_plan)),
        )  # fmt: skip
        return instant_time

    def refuse_rivals(self, plan: HoodieRequestedReplaceMetadata, instant_time: str, before: TableSnapshot) -> None:
        """Stop where others planned a service for one of the file groups since the table was looked at.

        Raises:
            OutdatedClusteringPlanException: They did.
            HoodieCommitException: A restore is pending.
        """
        refuse_pending_restore(self.snapshot, "nothing is clustered until it is finished")
        assert plan.clustering_plan is not None
        groups = planned_file_groups(plan.clustering_plan)
        rivals = {
            one.instant.requested_time
            for one in pending_clusterings(self._timeline)
            if is_before(one.instant.requested_time, instant_time) and groups & planned_file_groups(one.plan)
        }
        wanted = {HoodieFileGroupId(*group) for group in groups}
        services = self._timeline.filter_actions(Action.COMPACTION, Action.LOG_COMPACTION).filter_pending()
        rivals |= {one.requested_time for one in services if wanted & compacted_file_groups(self._timeline, one).keys()}
        if rivals:
            raise OutdatedClusteringPlanException(
                f"clustering {instant_time} of {self.snapshot.base_path} that was just planned is withdrawn: "
                f"{', '.join(in_order(rivals))} has some of its file groups. Plan again"
            )

    def withdraw(self, instant_time: str) -> None:
        """See `AnnouncedAction.withdraw`."""
        self._timeline.withdraw_requested(instant_time, clustering_action(self._timeline))

    @property
    def _timeline(self) -> HoodieActiveTimeline:
        return self.snapshot.active_timeline
