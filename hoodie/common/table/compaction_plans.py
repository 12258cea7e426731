"""The file groups that pending compactions will rewrite.

Hudi: org.apache.hudi.common.util.CompactionUtils.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.common.model.file_slice import HoodieFileGroupId
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieIOException

BEYOND_PLAN_KEY = "hoodie.compaction.log.files.beyond.plan"
"""Extra metadata of a compaction's commit: the names of log files that it merged though its plan lacks them."""


def compacted_file_groups(timeline: HoodieActiveTimeline, instant: HoodieInstant) -> dict[HoodieFileGroupId, str]:
    """The file groups of a compaction or log compaction, each with the base instant of the slice that it rewrites.

    There are none if the plan was withdrawn since the timeline was loaded.

    Raises:
        HoodieCorruptedDataException: The plan is damaged.
        HoodieIOException: Storage failed, or the compaction was completed and archived since the timeline was loaded.
    """
    try:
        plan = timeline.read_as(instant.in_state(State.REQUESTED), HoodieCompactionPlan)
    except HoodieIOException as error:
        if isinstance(error.__cause__, FileNotFoundError) and _is_withdrawn(timeline, instant):
            return {}
        raise
    return {
        HoodieFileGroupId(operation.partition_path, operation.file_id): operation.base_instant_time
        for operation in plan.operations
    }


def pending_compactions(timeline: HoodieActiveTimeline) -> Mapping[HoodieFileGroupId, tuple[str, ...]]:
    """The file groups of all pending compactions, each with the instants of these compactions.

    Raises:
        HoodieCorruptedDataException: A plan is damaged.
        HoodieIOException: A plan is gone since the timeline was loaded, or storage failed.
    """
    found: dict[HoodieFileGroupId, tuple[str, ...]] = defaultdict(tuple)
    for instant in timeline.filter_actions(Action.COMPACTION).filter_pending():
        for group in compacted_file_groups(timeline, instant):
            found[group] += (instant.requested_time,)
    return found


def _is_withdrawn(timeline: HoodieActiveTimeline, instant: HoodieInstant) -> bool:
    """Whether nothing is left of a compaction that never began; one that was archived is not withdrawn."""
    return (
        instant.is_requested
        and timeline.reload().find(instant.requested_time, instant.action) is None
        and not timeline.is_archived_past(instant.requested_time)
    )
