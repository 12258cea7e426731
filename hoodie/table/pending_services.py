"""The file groups that pending table services are going to rewrite."""

from __future__ import annotations

from hoodie.common.model.file_slice import HoodieFileGroupId
from hoodie.common.table.clustering_plans import file_groups_in_pending_clustering
from hoodie.common.table.compaction_plans import compacted_file_groups, pending_compactions
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action


def file_groups_of_pending_services(timeline: HoodieActiveTimeline) -> set[HoodieFileGroupId]:
    """The file groups of pending compactions, log compactions and clusterings: no other service takes them.

    Raises:
        HoodieCorruptedDataException: A plan is damaged.
        HoodieIOException: Storage failed.
    """
    held = set(pending_compactions(timeline))
    for instant in timeline.filter_actions(Action.LOG_COMPACTION).filter_pending():
        held.update(compacted_file_groups(timeline, instant))
    held.update(HoodieFileGroupId(*group) for group in file_groups_in_pending_clustering(timeline))
    return held
