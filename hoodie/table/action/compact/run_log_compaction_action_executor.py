"""Carry out a log compaction that was scheduled.

Hudi: org.apache.hudi.table.action.compact.{RunCompactionActionExecutor, LogCompactionExecutionHelper}.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import attrs

from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId, HoodieLogFile
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.clustering_plans import file_groups_in_pending_clustering
from hoodie.common.table.compaction_plans import pending_compactions
from hoodie.common.table.planned_compaction import PlannedCompaction
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.instant_time import is_before, newest
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.common.table.view.log_placement import log_file_order
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieCompactionException
from hoodie.io.append_handle import LogPlaces
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.log_compaction_handle import HoodieLogCompactionHandle
from hoodie.io.merging_reader import LogMerging
from hoodie.io.write_context import WriteContext
from hoodie.metrics.metrics import Step
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_path import file_name
from hoodie.table.action.compact.run_compaction_action_executor import (
    CompactionTakeover,
    RunCompactionActionExecutor,
)
from hoodie.table.action.compact.schedule_log_compaction_action_executor import pending_writes
from hoodie.table.table_state import being_rolled_back, refuse_pending_restore

logger = logging.getLogger(__name__)


class LogCompactionTakeover(CompactionTakeover):
    """Takes over log compactions: an attempt that failed is rolled back, which leaves the plan."""

    kind = Action.LOG_COMPACTION


class RunLogCompactionActionExecutor(RunCompactionActionExecutor):
    """Carries out one planned log compaction, also one of Hudi's; a failed attempt is run again under its instant.

    It merges what was written before it was requested. Slices are left out that changed since so that its log file
    would not stand for the ones before it:

    - A compaction or clustering has the file group, or made a new slice of it: the log file would count for that slice,
      above newer rows. Likewise if the file group was replaced.
    - Timeline layout 1: a later write has appended to the slice. Its log file comes before that of the log compaction.

    Before the instant is completed, under the table's lock, the slices are looked at again. If they changed by then,
    the attempt fails, and the next one leaves them out.

    Hudi: org.apache.hudi.table.action.compact.RunCompactionActionExecutor. Differs: Hudi refuses the whole plan once a
    later compaction is there, and looks at nothing else; it does not run a failed attempt again.
    """

    kind = Action.LOG_COMPACTION
    _operation = WriteOperationType.LOG_COMPACT

    def refuse_left_behind(self, plan: PlannedCompaction, instant_time: str, check: Callable[[], None]) -> None:
        """Stop where a restore is pending.

        Raises:
            HoodieCommitException: A restore is pending.
        """
        check()
        refuse_pending_restore(self.snapshot, "nothing is compacted until it is finished")

    def begin(self, plan: PlannedCompaction, instant_time: str) -> None:
        """See `RunCompactionActionExecutor.begin`.

        Raises:
            HoodieCompactionException: A write is pending whose log files may belong between the merged ones.
        """
        pending = self._pending_between(instant_time)
        if pending:
            raise HoodieCompactionException(
                f"logcompaction {instant_time} of {self.snapshot.base_path} is not carried out while "
                f"{', '.join(pending)} is pending, whose log files may belong between those that it merges; call again "
                "when it is completed, or was rolled back"
            )
        super().begin(plan, instant_time)

    def _pending_between(self, instant_time: str) -> list[str]:
        """The pending writes whose log files may come before that of the log compaction."""
        timeline = self.snapshot.active_timeline
        times = [instant.requested_time for instant in pending_writes(timeline)]
        if not timeline.layout.has_completion_times:
            # The version of a log file is chosen before the file is made.
            return times
        return [time for time in times if is_before(time, instant_time)]

    def _slices(self, compaction: PlannedCompaction, view: HoodieTableFileSystemView) -> list[FileSlice]:
        timeline = self.snapshot.active_timeline
        held = _held(self.snapshot)
        written = set() if timeline.layout.has_completion_times else self._written_after(compaction.instant_time)
        chosen = []
        for part in compaction.slices(view):
            group = HoodieFileGroupId(part.partition_path, part.file_id)
            if group in held or group in written or part.base_instant_time != _newest_slice(view, group):
                logger.info("%s leaves out %s, which changed since it was planned", compaction, group)
                continue
            chosen.append(part)
        return chosen

    def _written_after(self, instant_time: str) -> set[HoodieFileGroupId]:
        """The file groups to which writes that are later than the log compaction were completed."""
        timeline = self.snapshot.active_timeline
        return {
            HoodieFileGroupId(stat.partition_path, stat.file_id)
            for instant in timeline.completed_writes().after(instant_time)
            for stat in timeline.read_commit_metadata(instant).write_stats
        }

    def _writing(self, instant_time: str) -> AbstractContextManager[Step]:
        return self._table.metrics.step("write log files", instant_time)

    def _task(
        self, context: WriteContext, merging: LogMerging
    ) -> Callable[[TaskIdentity, FileSlice], WriteStatus | None]:
        timeline, instant_time = self.snapshot.active_timeline, context.instant_time
        block_filter = LogBlockFilter.of(timeline.visible_instants, instant_time)
        places = LogPlaces(instant_time, timeline.layout.has_completion_times)
        return LogCompactSlice(context, attrs.evolve(merging, block_filter=block_filter), places)

    def _tell_index(self, statuses: Sequence[WriteStatus], before: TableSnapshot, instant_time: str) -> None:
        """Nothing to tell: all keys stay where they are."""

    def _extra_metadata(self, compaction: PlannedCompaction, slices: object) -> dict[str, str]:
        return {}

    def _conflicts(
        self, before: TableSnapshot, slices: Sequence[FileSlice], statuses: Sequence[WriteStatus], instant_time: str
    ) -> set[str]:
        timeline = self.snapshot.active_timeline
        conflicts = {*self._pending_between(instant_time), *being_rolled_back(timeline)}
        if not statuses:
            return conflicts
        view = self.snapshot.stored_view()
        view.load_partitions(sorted({part.partition_path for part in slices}))
        held = _held(self.snapshot)
        merged = {HoodieFileGroupId(part.partition_path, part.file_id): part for part in slices}
        for status in statuses:
            group = HoodieFileGroupId(status.partition_path, status.file_id)
            part, latest = merged[group], _newest_slice(view, group)
            if group in held:
                conflicts.add(held[group])
            elif latest != part.base_instant_time:
                conflicts.add(latest or instant_time)
            else:
                names = {log_file.file_name for log_file in part.record_log_files}
                own = _log_file(status)
                conflicts.update(
                    log_file.instant_time
                    for one in _slices_of(view, group)
                    if one.base_instant_time == latest
                    for log_file in one.record_log_files
                    if log_file.file_name not in {*names, own.file_name} and not _is_later(log_file, own)
                )
        return conflicts


@attrs.frozen
class LogCompactSlice:
    """Task: writes the log file that stands for those of a slice.

    Attributes:
        context: The log compaction.
        merging: The rule by which log files are merged.
        places: The places of new log files.
    """

    context: WriteContext
    merging: LogMerging
    places: LogPlaces

    def __call__(self, task: TaskIdentity, file_slice: FileSlice) -> WriteStatus | None:
        """Write it; returns its status, or None where nothing is to be written."""
        place = self.places.of(file_slice)
        handle = HoodieLogCompactionHandle(self.context, file_slice, place, self.merging, task)
        try:
            if not handle.collect():
                return None
            with handle:
                handle.compact()
                return handle.close()
        finally:
            handle.close_sources()


def _held(snapshot: TableSnapshot) -> dict[HoodieFileGroupId, str]:
    """The file groups of pending compactions and clusterings, each with the instant of one."""
    timeline = snapshot.active_timeline
    held = {HoodieFileGroupId(*group): time for group, time in file_groups_in_pending_clustering(timeline).items()}
    return held | {group: times[0] for group, times in pending_compactions(timeline).items()}


def _slices_of(view: HoodieTableFileSystemView, group: HoodieFileGroupId) -> Sequence[FileSlice]:
    """The slices of a file group; none if it was replaced."""
    found = (one for one in view.file_groups(group.partition_path) if one.file_group_id == group)
    return next((one.slices for one in found), ())


def _newest_slice(view: HoodieTableFileSystemView, group: HoodieFileGroupId) -> str | None:
    """The base instant of the newest slice of a file group; None if it was replaced."""
    return newest(part.base_instant_time for part in _slices_of(view, group))


def _is_later(log_file: HoodieLogFile, own: HoodieLogFile) -> bool:
    """Whether all readers merge a log file after another one; not of two files that only their write tokens order."""
    return log_file_order(log_file)[:2] > log_file_order(own)[:2]


def _log_file(status: WriteStatus) -> HoodieLogFile:
    """The log file of a status."""
    path = str(status.stat.path)
    name = parse_log_file_name(file_name(path))
    assert name is not None
    return HoodieLogFile.of(name, FileStatus(path, status.stat.file_size_bytes, 0))
