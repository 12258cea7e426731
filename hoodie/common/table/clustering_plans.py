"""The file groups that pending clusterings will rewrite.

Hudi: org.apache.hudi.common.util.ClusteringUtils.
"""

from __future__ import annotations

from hoodie.avro.timeline_metadata import HoodieRequestedReplaceMetadata
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieIOException

CLUSTERING_ACTIONS = (Action.REPLACE_COMMIT, Action.CLUSTERING)
"""The actions that a pending clustering can have: the first one in timeline layout 1, the second one in layout 2."""


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
    if plan is None:
        return frozenset()
    return frozenset(
        (str(file_slice["partitionPath"] or ""), str(file_slice["fileId"]))
        for group in plan["inputGroups"] or ()
        for file_slice in group["slices"] or ()
    )


def file_groups_in_pending_clustering(timeline: HoodieActiveTimeline) -> dict[tuple[str, str], str]:
    """Partition path and file id of all file groups in pending clusterings -> the instant of the clustering."""
    return {
        file_group: instant.requested_time
        for instant in timeline.filter_actions(*CLUSTERING_ACTIONS).filter_pending()
        for file_group in clustered_file_groups(timeline, instant)
    }
