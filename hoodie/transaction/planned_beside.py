"""Compactions that were planned while log files were written to the slices that they rewrite.

In timeline layout 1 the name of a log file says which slice it belongs to. A compaction that was planned without it
makes a new slice, and its rows would be lost with the old one.

In layout 2 the time of the completion decides. It is chosen before the completed file is there, so a compaction may be
planned in between, without log files that belong to the slice that it rewrites.
"""

from __future__ import annotations

from collections import defaultdict

from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import HoodieFileGroupId
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.compaction_plans import BEYOND_PLAN_KEY, pending_compactions
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import in_order, newest
from hoodie.exception import HoodieCorruptedDataException, HoodieIOException
from hoodie.transaction.concurrent_operation import WriteStart


def compactions_beside(
    timeline: HoodieActiveTimeline, instant_time: str, metadata: HoodieCommitMetadata, start: WriteStart | None
) -> list[str]:
    """The compactions that replace the slices of a write's log files without merging these; the oldest first.

    Args:
        timeline: The current timeline.
        instant_time: The write that is about to be completed.
        metadata: The metadata of its commit.
        start: The state of the table when the write began; None if it is not known.

    Raises:
        HoodieCorruptedDataException: A plan or commit is damaged.
        HoodieIOException: Storage failed.
    """
    slices = {
        HoodieFileGroupId(stat.partition_path, stat.file_id): stat.prev_commit
        for stat in metadata.write_stats
        if stat.is_log_file
    }
    if timeline.layout.has_completion_times or not slices:
        return []
    pending = pending_compactions(timeline)
    compactions: set[str] = set()
    for group, slice_time in slices.items():
        planned = newest(pending.get(group, ()))
        if planned is not None and planned != slice_time:
            compactions.add(planned)
        elif slice_time != instant_time and not timeline.visible_instants.has_visible_log_files(slice_time):
            # The planned compaction was withdrawn, so its slice does not exist.
            compactions.add(slice_time)
    if start is not None:
        later = timeline.completed_writes().times - start.completed - start.pending - {instant_time}
        for instant in timeline.completed_writes():
            if instant.requested_time not in later:
                continue
            other = timeline.read_commit_metadata(instant)
            groups = {HoodieFileGroupId(stat.partition_path, stat.file_id) for stat in other.write_stats}
            if other.operation_type is WriteOperationType.COMPACT and not groups.isdisjoint(slices):
                compactions.add(instant.requested_time)
    return in_order(compactions)


def compactions_without(
    timeline: HoodieActiveTimeline, completed: HoodieInstant, metadata: HoodieCommitMetadata
) -> list[str]:
    """Timeline layout 2: the compactions of slices of a write's log files whose plans lack these; the oldest first.

    Args:
        timeline: The current timeline.
        completed: The write, with its completion time.
        metadata: The metadata of its commit.

    Raises:
        HoodieCorruptedDataException: A plan or commit is damaged.
        HoodieIOException: Storage failed.
    """
    logs: dict[HoodieFileGroupId, set[str]] = defaultdict(set)
    for stat in metadata.write_stats:
        if stat.is_log_file:
            logs[HoodieFileGroupId(stat.partition_path, stat.file_id)].add(str(stat.path).rsplit("/", 1)[-1])
    if completed.completion_time is None:
        return []
    compactions = []
    # The completed commits of a merge-on-read table are its compactions.
    for instant in timeline.filter_actions(Action.COMPACTION, Action.COMMIT).after(completed.completion_time):
        if not logs:
            break
        taken = _log_files_taken(timeline, instant)
        if taken is None:
            compactions.append(instant.requested_time)
            continue
        # The first compaction of a file group takes its log files, so later ones lack them.
        own = {group: logs.pop(group) for group in taken if group in logs}
        lacking = {name for group, names in own.items() for name in names - taken[group]}
        if lacking and not lacking <= _beyond_plan(timeline, instant):
            compactions.append(instant.requested_time)
    return compactions


def _log_files_taken(
    timeline: HoodieActiveTimeline, compaction: HoodieInstant
) -> dict[HoodieFileGroupId, set[str]] | None:
    """The log files in the plan of a compaction; None if the plan was archived or withdrawn."""
    requested = HoodieInstant(compaction.requested_time, Action.COMPACTION, State.REQUESTED)
    try:
        plan = timeline.read_as(requested, HoodieCompactionPlan)
    except HoodieIOException as error:
        if isinstance(error, HoodieCorruptedDataException):
            raise
        return None
    return {
        HoodieFileGroupId(operation.partition_path, operation.file_id): {
            path.rsplit("/", 1)[-1] for path in operation.delta_file_paths
        }
        for operation in plan.operations
    }


def _beyond_plan(timeline: HoodieActiveTimeline, compaction: HoodieInstant) -> set[str]:
    """The log files that a completed compaction merged although its plan lacks them."""
    if not compaction.is_completed:
        return set()
    names = timeline.read_commit_metadata(compaction).extra_metadata.get(BEYOND_PLAN_KEY, "")
    return set(names.split(","))
