"""Plans of compactions: their operations, the file groups of pending ones, and the time of the last compaction.

Hudi: org.apache.hudi.common.util.CompactionUtils.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hoodie.avro.service_metadata import HoodieCompactionOperation, HoodieCompactionPlan
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import is_after
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.exception import HoodieIOException

BEYOND_PLAN_KEY = "hoodie.compaction.log.files.beyond.plan"
"""Extra metadata of a compaction's commit: the names of log files that it merged though its plan lacks them."""
LOG_COMPACTION_STRATEGY: Mapping[str, Any] = {
    "compactorClassName": "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper",
    "strategyParams": {},
    "version": 1,
}
"""The strategy that plans of log compactions name."""
_MB = 1024 * 1024

TOTAL_IO_READ_MB = "TOTAL_IO_READ_MB"
TOTAL_IO_WRITE_MB = "TOTAL_IO_WRITE_MB"
TOTAL_IO_MB = "TOTAL_IO_MB"
TOTAL_LOG_FILES = "TOTAL_LOG_FILES"
TOTAL_LOG_FILES_SIZE = "TOTAL_LOG_FILES_SIZE"


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


def last_completed_compaction(timeline: HoodieActiveTimeline) -> HoodieInstant | None:
    """The last completed compaction of the active timeline.

    Args:
        timeline: The timeline of a merge-on-read table.
    """
    # Every commit of a merge-on-read table is a compaction: its writes are delta commits.
    return timeline.filter_actions(Action.COMMIT).filter_completed_instants().last_instant


def delta_commits_after(timeline: HoodieActiveTimeline, last: HoodieInstant | None) -> HoodieTimeline:
    """The completed delta commits of the active timeline whose log files a compaction has not taken.

    Args:
        timeline: The timeline of a merge-on-read table.
        last: The compaction; None for all delta commits.
    """
    completed = timeline.filter_actions(Action.DELTA_COMMIT).filter_completed_instants()
    if last is None:
        return completed
    # A compaction takes the log files that were completed before it was requested.
    return completed.filter(lambda instant: is_after(instant.newest_time, last.requested_time))


def delta_commits_to_compact(timeline: HoodieActiveTimeline) -> tuple[HoodieInstant, ...]:
    """The completed delta commits since the last completed compaction, the oldest first.

    Args:
        timeline: The timeline of a merge-on-read table, or of a metadata table.
    """
    return delta_commits_after(timeline, last_completed_compaction(timeline)).instants


def completed_log_compactions(timeline: HoodieActiveTimeline) -> HoodieTimeline:
    """The completed log compactions of the active timeline; their completed files name delta commits.

    Args:
        timeline: The timeline of a merge-on-read table, or of a metadata table.
    """
    planned = timeline.log_compactions
    return timeline.filter(lambda instant: instant.is_completed and instant.requested_time in planned)


def is_log_compaction_due(timeline: HoodieActiveTimeline, threshold: int, *, completing: int = 0) -> bool:
    """Whether enough delta commits were made since the last compaction, and since the last log compaction.

    Args:
        timeline: The current timeline of a merge-on-read table, or of a metadata table.
        threshold: The number.
        completing: The number of delta commits that are about to be completed, too.

    Hudi: org.apache.hudi.table.action.compact.ScheduleCompactionActionExecutor (needLogCompact).
    """
    if len(delta_commits_to_compact(timeline)) + completing < threshold:
        return False
    planned = timeline.log_compactions
    last = timeline.filter(lambda instant: instant.requested_time in planned).last_instant
    if last is None:
        return True
    writes = timeline.filter_actions(Action.DELTA_COMMIT).filter_completed_instants()
    return last.is_completed and len(writes.after(last.requested_time)) + completing >= threshold


def compaction_operations(file_slices: Iterable[FileSlice], max_file_size: int) -> list[HoodieCompactionOperation]:
    """The operations of a plan that compacts slices, without those that have no log files to merge.

    Args:
        file_slices: The slices.
        max_file_size: See `operation_metrics`.
    """
    return [
        HoodieCompactionOperation(
            partition_path=file_slice.partition_path,
            file_id=file_slice.file_id,
            base_instant_time=file_slice.base_instant_time,
            delta_file_paths=tuple(log_file.file_name for log_file in file_slice.record_log_files),
            data_file_path=None if file_slice.base_file is None else file_slice.base_file.file_name,
            metrics=operation_metrics(file_slice, max_file_size),
        )
        for file_slice in file_slices
        if file_slice.record_log_files
    ]


def operation_metrics(file_slice: FileSlice, max_file_size: int) -> dict[str, float]:
    """The size of a compaction's work on one slice, by Hudi's names; Hudi 1.2 fails on a plan without them.

    Args:
        file_slice: The slice.
        max_file_size: The size of a new base file, in bytes, where the slice has none.
    """
    return group_metrics([file_slice], max_file_size)


def group_metrics(file_slices: Sequence[FileSlice], max_file_size: int) -> dict[str, float]:
    """The size of the work on slices that are rewritten together, by Hudi's names: sums, in whole MB.

    Args:
        file_slices: The slices.
        max_file_size: See `operation_metrics`.
    """
    log_files = [log_file for file_slice in file_slices for log_file in file_slice.record_log_files]
    log_bytes = sum(log_file.size_bytes for log_file in log_files)
    stored = [0 if part.base_file is None else part.base_file.size_bytes for part in file_slices]
    read = (sum(stored) + log_bytes) // _MB
    written = sum(size or max_file_size for size in stored) // _MB
    return {
        TOTAL_LOG_FILES: float(len(log_files)),
        TOTAL_IO_MB: float(read + written),
        TOTAL_IO_READ_MB: float(read),
        TOTAL_LOG_FILES_SIZE: float(log_bytes),
        TOTAL_IO_WRITE_MB: float(written),
    }


def _is_withdrawn(timeline: HoodieActiveTimeline, instant: HoodieInstant) -> bool:
    """Whether a compaction that never began was deleted again. An archived one was not."""
    return (
        instant.is_requested
        and timeline.reload().find(instant.requested_time, instant.action) is None
        and not timeline.is_archived_past(instant.requested_time)
    )
