"""Carry out a compaction that was scheduled.

Hudi: org.apache.hudi.table.action.compact.{RunCompactionActionExecutor, HoodieCompactor}.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

import attrs

from hoodie.avro.schema_converters import add_meta_columns
from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.compaction_plans import BEYOND_PLAN_KEY, pending_compactions
from hoodie.common.table.planned_compaction import PlannedCompaction
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import in_order, is_after, is_before
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import (
    HoodieCommitException,
    HoodieCompactionException,
    HoodieMissingFileException,
    HoodieWriteConflictException,
)
from hoodie.index.index import IndexedTable, TagRequest
from hoodie.io.compaction_handle import HoodieCompactionHandle
from hoodie.io.merging_reader import LogMerging
from hoodie.io.write_context import WriteContext
from hoodie.metadata.metadata_table import MetadataTableUpkeep
from hoodie.metrics.metrics import Step
from hoodie.storage.storage_path import file_name
from hoodie.table.action.action import PlannedAction, check_planned_instant, no_check
from hoodie.table.action.attempted_files import reconcile_with_markers
from hoodie.table.action.changes_meanwhile import completed_since, rolled_back_since, undone_since
from hoodie.table.action.completion import compact_metadata_table, complete_instant
from hoodie.table.action.takeover import Takeover
from hoodie.table.missing_files import find_missing_files
from hoodie.table.table import HoodieTable
from hoodie.table.table_state import being_rolled_back, refuse_pending_restore
from hoodie.transaction.transaction_manager import TransactionManager

logger = logging.getLogger(__name__)


@attrs.frozen
class Compacted:
    """A completed compaction.

    Attributes:
        instant: The completed instant.
        metadata: Its commit metadata.
        statuses: One for each base file.
        failures: Failures after it was completed, one line each.
    """

    instant: HoodieInstant
    metadata: HoodieCommitMetadata
    statuses: tuple[WriteStatus, ...]
    failures: tuple[str, ...] = ()


class TakenCompactionException(HoodieCompactionException):
    """Another process, which is alive, is carrying the compaction out."""


class CompactionTakeover(Takeover):
    """Takes over compactions: an attempt that failed is rolled back, which leaves the plan."""

    kind = Action.COMPACTION
    missing_error = HoodieCompactionException
    taken_error = TakenCompactionException


class RunCompactionActionExecutor(PlannedAction[PlannedCompaction, Compacted | None]):
    """Carries out one planned compaction, also one of Hudi's; a failed attempt is run again under its instant.

    The slices of the plan are merged as they are now, see `PlannedCompaction.slices`.

    Before the instant is completed, under the table's lock, the slices are looked at again. If log files were added to
    them, or taken back, meanwhile, the attempt fails.

    The caller sees to it that one process at a time carries out an instant, and that nothing is left of an earlier
    attempt: the instant is requested.

    Args:
        table: The table, just loaded.
        transactions: The table's lock.
        check_alive: Raises where others may have taken this process for dead, and the instant over.

    Hudi: org.apache.hudi.table.action.compact.{RunCompactionActionExecutor, HoodieCompactor}. Differs: looks again.
    """

    kind = Action.COMPACTION
    _operation: ClassVar[WriteOperationType] = WriteOperationType.COMPACT

    def __init__(
        self, table: HoodieTable, transactions: TransactionManager, check_alive: Callable[[], None] = no_check
    ) -> None:
        super().__init__(table.snapshot)
        self._table = table
        self._transactions = transactions
        self._check_alive = check_alive

    def refuse_left_behind(self, plan: PlannedCompaction, instant_time: str, check: Callable[[], None]) -> None:
        """Stop where an older pending compaction has one of the file groups, or a restore is pending.

        The plan stays: in timeline layout 1 log files may be named after it, and nobody would read them.

        Raises:
            HoodieCompactionException: The plan must not be carried out.
            HoodieCommitException: A restore is pending.
        """
        check()
        refuse_pending_restore(self.snapshot, "nothing is compacted until it is finished")
        own = plan.base_instants
        for group, instants in pending_compactions(self.snapshot.active_timeline).items():
            earlier = [time for time in instants if is_before(time, instant_time)]
            if group in own and earlier:
                raise HoodieCompactionException(
                    f"compaction {instant_time} of {self.snapshot.base_path} has file group {group.file_id} of "
                    f"partition '{group.partition_path}', as the pending compaction {earlier[0]} has: one of two "
                    "processes that planned at once did not look again. Carry out the older one. If no log file is "
                    f"named after {instant_time}, delete its requested file, and plan again"
                )

    def read_plan(self, instant_time: str) -> PlannedCompaction:
        """See `PlannedAction.read_plan`."""
        requested = HoodieInstant(instant_time, self.kind, State.REQUESTED)
        check_planned_instant(instant_time, self.kind, self.snapshot.active_timeline.path_of(requested))
        return PlannedCompaction.read(self.snapshot, instant_time, _remedy(instant_time), kind=self.kind)

    def begin(self, plan: PlannedCompaction, instant_time: str) -> None:
        """Make the instant inflight; from here on tasks may write.

        Raises:
            HoodieCommitException: Another process began to carry it out.
        """
        plan.begin()

    def do(self, plan: PlannedCompaction, instant_time: str, is_left_behind: bool) -> Compacted | None:
        """Write the base files, and complete the instant.

        Raises:
            HoodieWriteConflictException: Log files were added to the slices meanwhile, or taken back.
            HoodieException: A file is missing or damaged, the instant was taken over, or storage failed.
        """
        table, metrics = self._table, self._table.metrics
        compaction = attrs.evolve(plan, snapshot=self.look())
        with metrics.step("list file slices") as step:
            view = self.snapshot.stored_view(tells_sizes=True)
            slices = self._slices(compaction, view)
            _check_committed_files(compaction, view)
            step.count(files=sum(len(part.record_log_files) for part in slices))
        before = self.snapshot
        context, merging, avro_schema = self._context(instant_time)
        with self._writing(instant_time) as step:
            written = compaction.write(slices, self._task(context, merging), table.context)
            statuses = [status for status in written if status is not None]
            step.count(
                records=sum(status.stat.num_writes for status in statuses),
                files=len(statuses),
                bytes=sum(status.stat.total_write_bytes for status in statuses),
            )
        self._check_alive()
        with metrics.step("reconcile with markers") as step:
            step.count(files=reconcile_with_markers(self.snapshot, instant_time, statuses, self._check_alive))
        self._tell_index(statuses, before, instant_time)
        what = f"completing {self.kind} {instant_time}"
        with (
            metrics.step("complete the instant"),
            self._transactions.transaction(self.snapshot, what) as transaction,
        ):
            self._check_again(before, slices, statuses, instant_time)
            # A write that began before the compaction may have added columns meanwhile. Other readers, such as hudi-rs,
            # take the columns of the last requested commit for those of the table.
            avro_schema = self.snapshot.load_avro_schema() or avro_schema
            stats = [status.stat for status in statuses]
            metadata = compaction.commit_metadata(stats, avro_schema, self._extra_metadata(compaction, slices))

            def check() -> None:
                transaction.check_held()
                self._check_alive()

            upkeep = MetadataTableUpkeep.of(table.config, table.context)
            completed = complete_instant(self.snapshot, instant_time, self.kind, metadata, check, upkeep)
            failed = () if completed is None else compact_metadata_table(completed, check, upkeep)
        if completed is None:
            return self.already_ended(instant_time)
        logger.info(
            "%s of %d file groups of %s at %s: %d rows",
            self.kind, len(statuses), before.base_path, instant_time, metadata.total_records_written,
        )  # fmt: skip
        compaction.delete_markers()
        return Compacted(completed.instant, metadata, tuple(statuses), failed)

    def already_ended(self, instant_time: str) -> Compacted | None:
        """Another process completed it: nothing is left to do.

        Raises:
            HoodieCommitException: There is no such compaction.
        """
        found = self.look().active_timeline.find(instant_time, self.kind)
        if found is None:
            raise HoodieCommitException(
                f"there is no {self.kind} {instant_time} in the active timeline of {self.snapshot.base_path}: it was "
                "never scheduled, or was withdrawn, or is archived"
            )
        logger.info("%s %s of %s is completed already", self.kind, instant_time, self.snapshot.base_path)
        return None

    # --- what differs for log compactions ---------------------------------------------------------------------------

    def _slices(self, compaction: PlannedCompaction, view: HoodieTableFileSystemView) -> list[FileSlice]:
        """The slices that are compacted."""
        return compaction.slices(view)

    def _writing(self, instant_time: str) -> AbstractContextManager[Step]:
        return self._table.metrics.step("write base files", instant_time)

    def _task(
        self, context: WriteContext, merging: LogMerging
    ) -> Callable[[TaskIdentity, FileSlice], WriteStatus | None]:
        """The task that writes the file of a slice, or finds that there is nothing to write."""
        return CompactSlice(context, merging)

    def _tell_index(self, statuses: Sequence[WriteStatus], before: TableSnapshot, instant_time: str) -> None:
        """Tell an index that keeps places of keys where they are now."""
        table = IndexedTable(before.storage, {}, before.base_path, request=TagRequest(instant_time))
        self._table.index.update_location(statuses, self._table.context, table)

    def _extra_metadata(self, compaction: PlannedCompaction, slices: Iterable[FileSlice]) -> dict[str, str]:
        return _beyond(compaction, slices)

    # --- steps ------------------------------------------------------------------------------------------------------

    def _context(self, instant_time: str) -> tuple[WriteContext, LogMerging, str]:
        """The context of the tasks, the merge of log files, and the table's schema as Avro JSON."""
        avro_schema = self.snapshot.load_avro_schema()
        assert avro_schema is not None
        table = HoodieTable(
            self._table.context, self._table.config, self.snapshot, self._table.index, self._table.metrics
        )
        schema = self.snapshot.load_schema()
        context = table.write_context(instant_time, self._operation, schema, add_meta_columns(avro_schema))
        merging = LogMerging.of_table(
            self.snapshot, context.schema_with_meta, self._table.config.log_merge, merger=table.merge_spec.merger
        )
        return context, merging, avro_schema

    def _check_again(
        self, before: TableSnapshot, slices: Sequence[FileSlice], statuses: Sequence[WriteStatus], instant_time: str
    ) -> None:
        """Refuse to complete the instant if the slices are not any more what was merged; call this under the lock."""
        timeline = self.look().active_timeline
        refuse_pending_restore(self.snapshot, "nothing is completed until it is finished")
        if instant_time in being_rolled_back(timeline) or rolled_back_since(before, self.snapshot, instant_time):
            where = f"{self.kind} {instant_time} of {self.snapshot.base_path}"
            raise HoodieCommitException(f"{where} was rolled back by another process; run it again")
        conflicts = set(undone_since(before, self.snapshot))
        conflicts |= self._conflicts(before, slices, statuses, instant_time)
        if conflicts:
            raise HoodieWriteConflictException(
                f"{', '.join(in_order(conflicts))} was completed, or rolled back, while {self.kind} {instant_time} of "
                f"{self.snapshot.base_path} was being carried out, and changed the slices that it merged; nothing was "
                "completed. Run it again: that is safe",
                instant_time=instant_time,
                other_instants=in_order(conflicts),
                is_retry_safe=True,
            )

    def _conflicts(
        self, before: TableSnapshot, slices: Sequence[FileSlice], statuses: Sequence[WriteStatus], instant_time: str
    ) -> set[str]:
        """The instants that changed the slices since the table was looked at, other than by taking files back."""
        timeline = self.snapshot.active_timeline
        conflicts = set()
        bases = {HoodieFileGroupId(part.partition_path, part.file_id): part.base_instant_time for part in slices}
        for instant in completed_since(before, self.snapshot):
            stats = timeline.read_commit_metadata(instant).write_stats
            if any(_is_of_slice(stat, bases, instant, instant_time) for stat in stats):
                conflicts.add(instant.requested_time)
        return conflicts


@attrs.frozen
class CompactSlice:
    """Task: writes the base file that a slice becomes.

    Attributes:
        context: The compaction.
        merging: The rule by which log files are merged.
    """

    context: WriteContext
    merging: LogMerging

    def __call__(self, task: TaskIdentity, file_slice: FileSlice) -> WriteStatus:
        """Write it; returns its status."""
        handle = HoodieCompactionHandle(self.context, file_slice, self.merging, task)
        with handle:
            handle.compact()
            return handle.close()


def _check_committed_files(compaction: PlannedCompaction, view: HoodieTableFileSystemView) -> None:
    """Refuse where a commit names a file of the slices that is gone; the plan may have been made without it."""
    snapshot, bases = compaction.snapshot, compaction.base_instants
    snapshot.load_avro_schema()
    for file in find_missing_files(snapshot, view, compaction.partition_paths):
        log = parse_log_file_name(file.name)
        named = log or parse_base_file_name(file.name)
        base = bases.get(HoodieFileGroupId(file.partition_path, named.file_id)) if named else None
        if base is None or named is None:
            continue
        ends = file.commit.completion_time
        is_of_slice = named.instant_time == base
        if is_of_slice if log is None or ends is None else not is_after(ends, compaction.instant_time):
            raise HoodieMissingFileException(
                f"{compaction} lacks {file.path} of {file.commit.action} {file.commit.requested_time}, which is not "
                f"there, so its rows would be lost: nothing was compacted. {compaction.remedy}"
            )


def _remedy(instant_time: str) -> str:
    return (
        "Put the file back. If the plan is not to be trusted, and no log file is named after "
        f"{instant_time}, delete its requested file, and plan again"
    )


def _is_of_slice(
    stat: HoodieWriteStat, bases: dict[HoodieFileGroupId, str], instant: HoodieInstant, compaction: str
) -> bool:
    """Whether a commit changed a slice that is being compacted, instead of the one that the compaction makes."""
    base = bases.get(HoodieFileGroupId(stat.partition_path, stat.file_id))
    if base is None or not stat.is_log_file:
        return False
    if instant.completion_time is None:
        name = parse_log_file_name(file_name(str(stat.path)))
        return name is not None and name.instant_time == base
    return not is_after(instant.completion_time, compaction)


def _beyond(compaction: PlannedCompaction, slices: Iterable[FileSlice]) -> dict[str, str]:
    """The extra metadata that names log files which are merged though the plan lacks them."""
    operations = compaction.plan.operations
    planned = {file_name(path) for operation in operations for path in operation.delta_file_paths}
    beyond = sorted({log_file.file_name for part in slices for log_file in part.record_log_files} - planned)
    return {BEYOND_PLAN_KEY: ",".join(beyond)} if beyond else {}
