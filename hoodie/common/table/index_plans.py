"""Pending plans of indexing: which partitions of a metadata table are about to be built beside writers.

Hudi: org.apache.hudi.common.table.timeline.HoodieActiveTimeline.readIndexPlan.
"""

from __future__ import annotations

from hoodie.avro.service_metadata import HoodieIndexPlan
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State

_NOTHING = HoodieIndexPlan(())


def read_index_plan(timeline: HoodieActiveTimeline, instant: HoodieInstant) -> HoodieIndexPlan:
    """The plan of an indexing; one without partitions where its process died before it stored the plan.

    Args:
        timeline: The table's timeline.
        instant: The indexing.

    Raises:
        HoodieCorruptedDataException: The plan is damaged.
        HoodieIOException: Storage failed.
    """
    requested = instant.in_state(State.REQUESTED)
    path = timeline.path_of(requested)
    # Hudi makes a file before it fills it.
    if not timeline.storage.exists(path) or not timeline.read_details(requested):
        return _NOTHING
    return timeline.read_as(requested, HoodieIndexPlan)


def pending_index_plans(timeline: HoodieActiveTimeline) -> list[tuple[HoodieInstant, HoodieIndexPlan]]:
    """The indexings that are requested or inflight, and the partitions that they build; the oldest first.

    Args:
        timeline: The table's timeline.

    Raises:
        HoodieCorruptedDataException: A plan is damaged.
        HoodieIOException: Storage failed.
    """
    pending = timeline.filter_actions(Action.INDEXING).filter_pending()
    return [(instant, read_index_plan(timeline, instant)) for instant in pending]


def planned_partitions(timeline: HoodieActiveTimeline) -> dict[str, str]:
    """The partitions that pending indexings build, and the instants of these.

    Args:
        timeline: The table's timeline.

    Raises:
        HoodieCorruptedDataException: A plan is damaged.
        HoodieIOException: Storage failed.
    """
    return {
        path: instant.requested_time for instant, plan in pending_index_plans(timeline) for path in plan.partition_paths
    }
