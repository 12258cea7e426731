"""Carry out a compaction that was scheduled.

Hudi: org.apache.hudi.table.action.compact.{RunCompactionActionExecutor, HoodieCompactor}.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import attrs

from hoodie.avro.schema_converters import add_meta_columns
from hoodie.avro.service_metadata import HoodieCompactionOperation, HoodieCompactionPlan
from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.model.commit_metadata import SCHEMA_KEY, HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.compaction_plans import BEYOND_PLAN_KEY, pending_compactions
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.partition_metadata import check_partition_path
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import in_order, is_after, is_before
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import (
    HoodieCommitException,
    HoodieCompactionException,
    HoodieCorruptedDataException,
    HoodieIOException,
    HoodieMissingFileException,
    HoodieWriteConflictException,
)
from hoodie.index.index import IndexedTable, TagRequest
from hoodie.io.compaction_handle import HoodieCompactionHandle
from hoodie.io.merging_reader import LogMerging
from hoodie.io.write_context import WriteContext
from hoodie.storage.storage_path import file_name
from hoodie.table.action.attempted_files import reconcile_with_markers
from hoodie.table.action.completion import compact_metadata_table, complete_instant
from hoodie.table.action.rollback.rollback_service import rolled_back_by
from hoodie.table.action.table_action import TableAction, check_planned_instant, no_check
from hoodie.table.metadata_table import MetadataTableUpkeep
from hoodie.table.missing_files import find_missing_files
from hoodie.table.table import HoodieTable
from hoodie.table.table_state import being_rolled_back, refuse_pending_restore
from hoodie.transaction.transaction_manager import TransactionManager

logger = logging.getLogger(__name__)

_SHOWN = 3


@attrs.frozen
class Compacted:
    """What a compaction made.

    Attributes:
        instant: The completed instant.
        metadata: What its commit stores.
        statuses: One for each base file.
        failures: What failed after it was completed, one line each.
    """

    instant: HoodieInstant
    metadata: HoodieCommitMetadata
    statuses: tuple[WriteStatus, ...]
    failures: tuple[str, ...] = ()


class RunCompactionActionExecutor(TableAction[HoodieCompactionPlan, Compacted | None]):
    """Carries out one planned compaction, also one of Hudi's; a failed attempt is run again under its instant.

    The slices of the plan are merged as they are now: a log file that belongs to such a slice and is not in the plan,
    because its writer and the one that planned did not see each other, is merged too. Otherwise its rows would be lost
    with the slice. Log files of the plan that were rolled back since are left out.

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

    def __init__(
        self, table: HoodieTable, transactions: TransactionManager, check_alive: Callable[[], None] = no_check
    ) -> None:
        super().__init__(table.snapshot)
        self._table = table
        self._transactions = transactions
        self._check_alive = check_alive

    def plan(self) -> HoodieCompactionPlan | None:
        """Never called: `ScheduleCompactionActionExecutor` plans."""
        raise AssertionError("a schedule executor makes the plan")

    def refuse_rivals(self, plan: HoodieCompactionPlan, instant_time: str, before: TableSnapshot | None) -> None:
        """Stop where an older pending compaction has one of the file groups, or a restore is pending.

        Raises:
            HoodieCompactionException: The plan must not be carried out.
            HoodieCommitException: A restore is pending.
        """
        refuse_pending_restore(self.snapshot, "nothing is compacted until it is finished")
        own = {_group_of(operation) for operation in plan.operations}
        for group, instants in pending_compactions(self.snapshot.active_timeline).items():
            earlier = [time for time in instants if is_before(time, instant_time)]
            if group in own and earlier:
                raise HoodieCompactionException(
                    f"compaction {instant_time} of {self.snapshot.base_path} has file group {group.file_id} of "
                    f"partition '{group.partition_path}', as the pending compaction {earlier[0]} has: one of two "
                    "processes that planned at once did not look again. Carry out the older one. If no log file is "
                    f"named after {instant_time}, delete its requested file, and plan again"
                )

    def withdraw(self, instant_time: str) -> None:
        """Leave the plan: in timeline layout 1 log files may be named after it, and nobody would read them."""

    def read_plan(self, instant_time: str) -> HoodieCompactionPlan:
        """See `TableAction.read_plan`."""
        requested = HoodieInstant(instant_time, self.kind, State.REQUESTED)
        timeline = self.snapshot.active_timeline
        plan, source = timeline.read_as(requested, HoodieCompactionPlan), timeline.path_of(requested)
        check_planned_instant(instant_time, self.kind, source)
        for operation in plan.operations:
            _check_operation(operation, source)
        return plan

    def begin(self, plan: HoodieCompactionPlan, instant_time: str) -> None:
        """Make the instant inflight; from here on tasks may write.

        Raises:
            HoodieCommitException: Another process began to carry it out.
        """
        # Before the instant is inflight: a rollback meanwhile closes the markers after the instant's files are gone.
        markers = self._markers(instant_time)
        is_opened = markers.open()
        is_inflight = False
        try:
            timeline = self.snapshot.active_timeline
            is_inflight = timeline.transition_requested_to_inflight(instant_time, self.kind)
        finally:
            if is_opened and not is_inflight:
                markers.close()
        if not is_inflight:
            raise HoodieCommitException(
                f"compaction {instant_time} of {self.snapshot.base_path} is being carried out by another process"
            )

    def do(self, plan: HoodieCompactionPlan, instant_time: str, is_left_behind: bool) -> Compacted | None:
        """Write the base files, and complete the instant.

        Raises:
            HoodieWriteConflictException: Log files were added to the slices meanwhile, or taken back.
            HoodieException: A file is missing or damaged, the instant was taken over, or storage failed.
        """
        table, metrics = self._table, self._table.metrics
        self.look()
        with metrics.step("list file slices") as step:
            slices = slices_to_compact(self.snapshot, instant_time, plan)
            step.count(files=sum(len(part.log_files) for part in slices))
        before = self.snapshot
        context, merging, avro_schema = self._context(instant_time)
        with metrics.step("write base files", instant_time) as step:
            # The largest first, so that the last tasks are small.
            items = sorted(slices, key=_bytes_of, reverse=True)
            statuses = table.context.run_tasks(items, CompactSlice(context, merging))
            step.count(
                records=sum(status.stat.num_writes for status in statuses),
                files=len(statuses),
                bytes=sum(status.stat.total_write_bytes for status in statuses),
            )
        self._check_alive()
        with metrics.step("reconcile with markers") as step:
            step.count(files=reconcile_with_markers(self.snapshot, instant_time, statuses, self._check_alive))
        table.index.update_location(
            statuses,
            table.context,
            IndexedTable(before.storage, {}, before.base_path, request=TagRequest(instant_time)),
        )
        what = f"completing compaction {instant_time}"
        with (
            metrics.step("complete the instant"),
            self._transactions.transaction(self.snapshot, what) as transaction,
        ):
            self._check_again(before, slices, instant_time)
            # A write that began before the compaction may have added columns meanwhile. Other readers, such as hudi-rs,
            # take the columns of the last requested commit for those of the table.
            metadata = _metadata_of(statuses, self.snapshot.load_avro_schema() or avro_schema, _beyond(plan, slices))

            def check() -> None:
                transaction.check_held()
                self._check_alive()

            upkeep = MetadataTableUpkeep.of(table.config, table.context)
            completed = complete_instant(self.snapshot, instant_time, self.kind, metadata, check, upkeep)
            failed = () if completed is None else compact_metadata_table(completed, check, upkeep)
        if completed is None:
            return self.already_ended(instant_time)
        logger.info(
            "compacted %d file groups of %s at %s: %d rows",
            len(statuses), before.base_path, instant_time, metadata.total_records_written,
        )  # fmt: skip
        try:
            self._markers(instant_time).delete_all()
        except HoodieIOException as error:
            # The instant is completed, so this error must not look like a failed compaction.
            logger.warning("after compaction %s was completed: %s", instant_time, error)
        return Compacted(completed.instant, metadata, tuple(statuses), failed)

    def already_ended(self, instant_time: str) -> Compacted | None:
        """Another process completed it: nothing is left to do.

        Raises:
            HoodieCommitException: There is no such compaction.
        """
        found = self.look().active_timeline.find(instant_time, self.kind)
        if found is None:
            raise HoodieCommitException(
                f"there is no compaction {instant_time} in the active timeline of {self.snapshot.base_path}: it was "
                "never scheduled, or was withdrawn, or is archived"
            )
        logger.info("compaction %s of %s is completed already", instant_time, self.snapshot.base_path)
        return None

    def _markers(self, instant_time: str) -> WriteMarkers:
        return WriteMarkers(self.snapshot.storage, self.snapshot.meta_path, instant_time)

    def _context(self, instant_time: str) -> tuple[WriteContext, LogMerging, str]:
        """What the tasks need, and the table's schema as Avro JSON."""
        avro_schema = self.snapshot.load_avro_schema()
        assert avro_schema is not None
        table = HoodieTable(
            self._table.context, self._table.config, self.snapshot, self._table.index, self._table.metrics
        )
        schema = self.snapshot.load_schema()
        context = table.write_context(instant_time, WriteOperationType.COMPACT, schema, add_meta_columns(avro_schema))
        merging = LogMerging.of_table(
            self.snapshot, context.schema_with_meta, self._table.config.log_merge, merger=table.merge_spec.merger
        )
        return context, merging, avro_schema

    def _check_again(self, before: TableSnapshot, slices: Iterable[FileSlice], instant_time: str) -> None:
        """Refuse to complete the instant if the slices are not any more what was merged; call this under the lock."""
        timeline = self.look().active_timeline
        where = f"compaction {instant_time} of {self.snapshot.base_path}"
        refuse_pending_restore(self.snapshot, "nothing is completed until it is finished")
        if instant_time in being_rolled_back(timeline) or self._was_rolled_back(before, instant_time):
            raise HoodieCommitException(f"{where} was rolled back by another process; run it again")
        old = before.active_timeline
        met = set(timeline.undone_since(old.completed_writes().times, held=timeline.savepoint_times))
        bases = {HoodieFileGroupId(part.partition_path, part.file_id): part.base_instant_time for part in slices}
        for instant in timeline.completed_writes():
            if instant.requested_time in old.completed_writes().times:
                continue
            stats = timeline.read_commit_metadata(instant).write_stats
            if any(_is_of_slice(stat, bases, instant, instant_time) for stat in stats):
                met.add(instant.requested_time)
        if met:
            raise HoodieWriteConflictException(
                f"{', '.join(in_order(met))} was completed, or rolled back, while {where} was being carried out, and "
                "changed the slices that it merged; nothing was completed. Run it again: that is safe",
                instant_time=instant_time,
                other_instants=in_order(met),
                is_retry_safe=True,
            )

    def _was_rolled_back(self, before: TableSnapshot, instant_time: str) -> bool:
        """Whether the attempt was rolled back since it began: its files are gone."""
        rollbacks = self.snapshot.active_timeline.filter_actions(Action.ROLLBACK).filter_completed_instants()
        known = before.active_timeline.filter_actions(Action.ROLLBACK).filter_completed_instants().times
        return any(
            instant_time in rolled_back_by(self.snapshot, rollback)
            for rollback in rollbacks
            if rollback.requested_time not in known
        )


@attrs.frozen
class CompactSlice:
    """Task: writes the base file that a slice becomes.

    Attributes:
        context: The compaction.
        merging: How log files are merged.
    """

    context: WriteContext
    merging: LogMerging

    def __call__(self, task: TaskIdentity, file_slice: FileSlice) -> WriteStatus:
        """Write it; returns its status."""
        handle = HoodieCompactionHandle(self.context, file_slice, self.merging, task)
        with handle:
            handle.compact()
            return handle.close()


def slices_to_compact(snapshot: TableSnapshot, instant_time: str, plan: HoodieCompactionPlan) -> list[FileSlice]:
    """The slices of a plan as they are now; see `RunCompactionActionExecutor`.

    Args:
        snapshot: The table.
        instant_time: The compaction, which is pending.
        plan: Its plan.

    Returns:
        The slices with their committed log files. File groups that were replaced since the plan was made are left out.

    Raises:
        HoodieMissingFileException: A file of the plan, or one of its slices that a commit names, is not there.
        HoodieIOException: Storage failed.
    """
    view = snapshot.stored_view(tells_sizes=True)
    partition_paths = sorted({operation.partition_path for operation in plan.operations})
    view.load_partitions(partition_paths)
    groups = {group.file_group_id: group for path in partition_paths for group in view.file_groups(path)}
    replaced = view.replaced_file_groups()
    slices = []
    for operation in plan.operations:
        group_id = _group_of(operation)
        if group_id in replaced:
            logger.info("%s was replaced since compaction %s was planned", group_id, instant_time)
            continue
        group = groups.get(group_id)
        found = [
            part for part in (group.slices if group else ()) if part.base_instant_time == operation.base_instant_time
        ]
        there = found[0] if found else FileSlice(group_id.partition_path, group_id.file_id, operation.base_instant_time)
        # Log files of change data hold no rows.
        there = attrs.evolve(there, log_files=tuple(log_file for log_file in there.log_files if not log_file.is_cdc))
        _check_planned_files(snapshot, instant_time, operation, there)
        if there.base_file is not None or there.log_files:
            slices.append(there)
    _check_committed_files(snapshot, instant_time, plan, view)
    return slices


def _check_planned_files(
    snapshot: TableSnapshot, instant_time: str, operation: HoodieCompactionOperation, there: FileSlice
) -> None:
    """Compare a planned slice with what is there."""
    instants = snapshot.active_timeline.visible_instants
    where = f"compaction {instant_time} of {snapshot.base_path}"
    names = {log_file.file_name for log_file in there.log_files}
    planned = list(map(file_name, operation.delta_file_paths))
    missing = []
    for name in planned:
        parsed = parse_log_file_name(name)
        # In timeline layout 2 the name tells the write, which may have been rolled back.
        if (
            name not in names
            and parsed is not None
            and not parsed.is_cdc
            and instants.has_visible_log_files(parsed.instant_time)
        ):
            missing.append(name)
    base_name = file_name(operation.data_file_path) if operation.data_file_path else None
    if base_name is not None and (there.base_file is None or there.base_file.file_name != base_name):
        missing.append(base_name)
    if missing:
        raise HoodieMissingFileException(
            f"{where} was planned with {', '.join(missing[:_SHOWN])} of partition '{operation.partition_path}', which "
            f"is not there, or no part of the slice any more: {_nothing_was_compacted(instant_time)}"
        )
    others = in_order(names.difference(planned))
    if others:
        logger.warning(
            "%s merges %s of partition '%s' too, which its plan lacks: otherwise its rows would be lost",
            where, ", ".join(others[:_SHOWN]), operation.partition_path,
        )  # fmt: skip


def _check_committed_files(
    snapshot: TableSnapshot, instant_time: str, plan: HoodieCompactionPlan, view: HoodieTableFileSystemView
) -> None:
    """Refuse where a commit names a file of the slices that is gone; the plan may have been made without it."""
    snapshot.load_avro_schema()
    bases = {_group_of(operation): operation.base_instant_time for operation in plan.operations}
    for file in find_missing_files(snapshot, view, sorted({group.partition_path for group in bases})):
        log = parse_log_file_name(file.name)
        named = log or parse_base_file_name(file.name)
        base = bases.get(HoodieFileGroupId(file.partition_path, named.file_id)) if named else None
        if base is None or named is None:
            continue
        ends = file.commit.completion_time
        if (named.instant_time == base) if log is None or ends is None else not is_after(ends, instant_time):
            raise HoodieMissingFileException(
                f"compaction {instant_time} of {snapshot.base_path} lacks {file.path} of {file.commit.action} "
                f"{file.commit.requested_time}, which is not there, so its rows would be lost: "
                f"{_nothing_was_compacted(instant_time)}"
            )


def _nothing_was_compacted(instant_time: str) -> str:
    return (
        "nothing was compacted. Put the file back. If the plan is not to be trusted, and no log file is named after "
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


def _beyond(plan: HoodieCompactionPlan, slices: Iterable[FileSlice]) -> list[str]:
    """The names of log files that are merged though the plan lacks them."""
    planned = {file_name(path) for operation in plan.operations for path in operation.delta_file_paths}
    return sorted({log_file.file_name for part in slices for log_file in part.log_files} - planned)


def _metadata_of(statuses: Iterable[WriteStatus], avro_schema: str, beyond_plan: Sequence[str]) -> HoodieCommitMetadata:
    stats: dict[str, list[HoodieWriteStat]] = {}
    for status in statuses:
        stats.setdefault(status.partition_path, []).append(status.stat)
    return HoodieCommitMetadata(
        {path: tuple(group) for path, group in sorted(stats.items())},
        {SCHEMA_KEY: avro_schema, **({BEYOND_PLAN_KEY: ",".join(beyond_plan)} if beyond_plan else {})},
        WriteOperationType.COMPACT,
        compacted=True,
    )


def _group_of(operation: HoodieCompactionOperation) -> HoodieFileGroupId:
    return HoodieFileGroupId(operation.partition_path, operation.file_id)


def _bytes_of(file_slice: FileSlice) -> int:
    base_file = file_slice.base_file
    return sum(log_file.size_bytes for log_file in file_slice.log_files) + (base_file.size_bytes if base_file else 0)


def _check_operation(operation: HoodieCompactionOperation, source: str) -> None:
    """Refuse an operation whose names do not belong to its file group."""
    try:
        check_partition_path(operation.partition_path)
    except (ValueError, HoodieIOException) as error:
        raise HoodieCorruptedDataException(f"the plan {source} names no partition: {error}") from error
    names = [(parse_log_file_name, name) for name in operation.delta_file_paths]
    if operation.data_file_path:
        names.append((parse_base_file_name, operation.data_file_path))  # type: ignore[arg-type]
    for parse, name in names:
        parsed = parse(file_name(name))
        if parsed is None or parsed.file_id != operation.file_id:
            raise HoodieCorruptedDataException(
                f"the plan {source} names {name!r}, which is no data file of file group {operation.file_id}"
            )
