"""Plans of clusterings: the file groups of pending ones, and the last clustering.

Hudi: org.apache.hudi.common.util.ClusteringUtils.
"""

from __future__ import annotations

import attrs

from hoodie.avro.timeline_metadata import HoodieClusteringPlan, HoodieRequestedReplaceMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieIOException

CLUSTERING_ACTIONS = (Action.REPLACE_COMMIT, Action.CLUSTERING)
"""The actions that a pending clustering can have: the first one in timeline layout 1, the second one in layout 2."""

GIVES_WAY_KEY = "hoodie.clustering.gives.way.to.writers"
"""A parameter of the strategy in plans of hoodie: ``true`` if writers may change the file groups of the plan."""


def requested_replacement(timeline: HoodieActiveTimeline, instant: HoodieInstant) -> HoodieRequestedReplaceMetadata:
    """Load the plan from the requested file of a replacecommit or clustering; its fields are None if it is empty.

    The plan is empty too if the file is gone: the instant was rolled back since the timeline was loaded.

    Raises:
        HoodieCorruptedDataException: The file is damaged.
        HoodieIOException: Storage failed.
    """
    requested = instant.in_state(State.REQUESTED)
    try:
        content = timeline.read_details(requested)
    except HoodieIOException as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        content = b""
    if not content:
        return HoodieRequestedReplaceMetadata()
    return timeline.layout.decode(content, HoodieRequestedReplaceMetadata, timeline.path_of(requested))


def is_clustering(timeline: HoodieActiveTimeline, instant: HoodieInstant) -> bool:
    """Whether a pending instant is a clustering, and not an insert overwrite or the like.

    In timeline layout 2 it has an action of its own, and a pending replacecommit is not a clustering.
    """
    if instant.action is Action.CLUSTERING:
        return True
    if instant.action is not Action.REPLACE_COMMIT or timeline.layout.has_completion_times:
        return False
    return requested_replacement(timeline, instant).clustering_plan is not None


def clustered_file_groups(timeline: HoodieActiveTimeline, instant: HoodieInstant) -> frozenset[tuple[str, str]]:
    """Partition path and file id of all files that a pending clustering rewrites; empty for any other instant."""
    if instant.action is Action.REPLACE_COMMIT and timeline.layout.has_completion_times:
        return frozenset()
    plan = requested_replacement(timeline, instant).clustering_plan
    return frozenset() if plan is None else planned_file_groups(plan)


def planned_file_groups(plan: HoodieClusteringPlan) -> frozenset[tuple[str, str]]:
    """Partition path and file id of all file groups that a plan rewrites."""
    return frozenset(
        (str(file_slice.partition_path or ""), str(file_slice.file_id))
        for group in plan.input_groups
        for file_slice in group.slices
    )


def file_groups_in_pending_clustering(timeline: HoodieActiveTimeline) -> dict[tuple[str, str], str]:
    """Partition path and file id of all file groups in pending clusterings -> the instant of the clustering."""
    return {
        file_group: clustering.instant.requested_time
        for clustering in pending_clusterings(timeline)
        for file_group in planned_file_groups(clustering.plan)
    }


@attrs.frozen
class PendingClustering:
    """A clustering that is pending.

    Attributes:
        instant: Its instant.
        plan: Its plan.
    """

    instant: HoodieInstant
    plan: HoodieClusteringPlan

    @property
    def gives_way(self) -> bool:
        """Whether writers may change its file groups: those who carry it out leave such groups out."""
        strategy = self.plan.strategy
        return strategy is not None and (strategy.strategy_params or {}).get(GIVES_WAY_KEY) == "true"


def pending_clusterings(timeline: HoodieActiveTimeline) -> list[PendingClustering]:
    """The pending clusterings of a table, the oldest first.

    Raises:
        HoodieCorruptedDataException: A plan is damaged.
        HoodieIOException: Storage failed.
    """
    found = []
    for instant in timeline.filter_actions(*CLUSTERING_ACTIONS).filter_pending():
        if instant.action is Action.REPLACE_COMMIT and timeline.layout.has_completion_times:
            continue
        plan = requested_replacement(timeline, instant).clustering_plan
        if plan is not None:
            found.append(PendingClustering(instant, plan))
    return found


def clustering_action(timeline: HoodieActiveTimeline) -> Action:
    """The action of a pending clustering in the layout of a timeline."""
    return Action.CLUSTERING if timeline.layout.has_completion_times else Action.REPLACE_COMMIT


def last_clustering(timeline: HoodieActiveTimeline) -> HoodieInstant | None:
    """The newest clustering of the active timeline, pending or completed.

    Raises:
        HoodieCorruptedDataException: A plan, or the metadata of a replace commit, is damaged.
        HoodieIOException: Storage failed.
    """
    for instant in reversed(timeline.filter_actions(*CLUSTERING_ACTIONS).instants):
        if instant.is_completed:
            if timeline.read_commit_metadata(instant).operation_type is WriteOperationType.CLUSTER:
                return instant
        elif is_clustering(timeline, instant):
            return instant
    return None


def commits_since_clustering(timeline: HoodieActiveTimeline) -> int:
    """The number of completed commits since the last clustering, or of all if there was none.

    Compactions and overwrites count.
    """
    last = last_clustering(timeline)
    completed = timeline.completed_writes()
    return len(completed if last is None else completed.after(last.requested_time))
