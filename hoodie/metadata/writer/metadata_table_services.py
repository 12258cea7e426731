"""Compact a metadata table, and finish what a dead writer left of a compaction.

A writer does this under the table's lock, after its own instant is completed. `compaction_planning` says when. Before
its delta commit it finishes what was left behind, and compacts only where that has been due for long: hudi-rs 0.6
overlooks a delta commit whose instant began before a compaction and that is completed after it.

What a death leaves behind:

===========================================  ==========================================================================
files of the compaction                      what happens
===========================================  ==========================================================================
requested                                    readers merge as before; the next writer carries the plan out
requested, inflight, perhaps base files      likewise; base files of that instant are deleted first
all, and the slices before it                the cleaner deletes them later
===========================================  ==========================================================================

From the moment that a compaction is requested, new log files of version 6 belong to its slice. So no delta commit is
written before it is completed: an error of a compaction before a delta commit is one of the write.

Hudi: org.apache.hudi.metadata.HoodieBackedTableMetadataWriter (performTableServices, compactIfNecessary). Differs: a
compaction that was left inflight is finished without a rollback.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import attrs

from hoodie.avro.service_metadata import HoodieCompactionOperation, HoodieCompactionPlan
from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.model.commit_metadata import SCHEMA_KEY, HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.partition_metadata import check_partition_path
from hoodie.common.table.timeline.completion import complete
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieIOException,
    HoodieMetadataException,
    HoodieMissingFileException,
)
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.metadata_record_reader import MetadataSliceReader
from hoodie.metadata.reader.metadata_table_files import REBUILD, MetadataTableFiles
from hoodie.metadata.records.metadata_record_schema import with_meta_columns
from hoodie.metadata.writer.compacted_slice import CompactMetadataSlice
from hoodie.metadata.writer.compaction_planning import (
    compaction_time,
    held_back_by,
    is_compaction_due,
    plan_metadata_compaction,
    refuse_if_held_back,
)
from hoodie.metadata.writer.new_metadata_table import newest_record_schema
from hoodie.storage.storage_path import file_name, join

logger = logging.getLogger(__name__)

_DRIVER_THREADS = 8
_LATE = 2
"""With so many times the delta commits that make a compaction due, those after commits have failed again and again."""
DRIVER_BYTES = 16 << 20
"""Slices of up to this many bytes are compacted on the driver, which takes less time than tasks of a cluster need."""


def _no_check() -> None:
    pass


@attrs.frozen(eq=False)
class MetadataTableCompactor:
    """Compacts a metadata table. Lives on the driver, for one action; call it under the table's lock.

    Attributes:
        metadata: The metadata table, loaded under the lock; nothing of dead writers is left in it but compactions.
        config: When it is compacted.
        engine: Runs tasks for large slices.
        check: Raises where the lock was lost.
        completing: The instant of the table that is completed next. It may be one that holds compactions back.
        is_refusing: Whether the action is refused if compactions were held back for too long. A rollback is not: it may
            be what is to be done about it.
        precedes_delta_commit: Whether the delta commit of a pending instant follows. Then a compaction begins only with
            twice the delta commits that make it due.
    """

    metadata: HoodieBackedTableMetadata
    config: HoodieMetadataConfig
    engine: HoodieEngineContext = attrs.field(factory=LocalEngineContext)
    check: Callable[[], None] = _no_check
    completing: str | None = None
    is_refusing: bool = True
    precedes_delta_commit: bool = False

    def compact_if_due(self) -> bool:
        """Finish compactions that were left behind; without any, compact if it is due.

        Returns:
            Whether the metadata table changed: load it again before writing to it.

        Raises:
            HoodieMetadataException: Pending instants have held the compaction back for too long, or a compaction that
                was left behind cannot be finished; the message says what to do.
            HoodieException: A file of the metadata table is missing or damaged, the lock was lost, or storage failed.
                The compaction may be pending: then nothing may be written before a later call has finished it.
        """
        pending = self.files.snapshot.active_timeline.filter_actions(Action.COMPACTION).filter_pending().instants
        if pending:
            self._finish(pending[0])
            reloaded = attrs.evolve(self, metadata=self._reloaded())
            return reloaded.compact_if_due() or True
        if not is_compaction_due(self.files, self.config, factor=_LATE if self.precedes_delta_commit else 1):
            if self.is_refusing:
                refuse_if_held_back(self.files, self.config, self.completing)
            return False
        return self._compact()

    def compact(self) -> bool:
        """Compact whether it is due or not; no compaction may be pending.

        Returns:
            Whether log files were merged; False also where an instant holds compactions back.

        Raises:
            HoodieException: See `compact_if_due`.
        """
        return not held_back_by(self.files) and self._compact()

    def _compact(self) -> bool:
        plan = plan_metadata_compaction(self.files)
        if plan is None:
            return False
        instant_time = self._request(plan)
        if instant_time is None:
            return False
        self._carry_out(plan, instant_time, self._planned_slices(self.files, plan, instant_time))
        return True

    @property
    def files(self) -> MetadataTableFiles:
        """The metadata table's files."""
        return self.metadata.files

    def _reloaded(self) -> HoodieBackedTableMetadata:
        return attrs.evolve(self.metadata, files=MetadataTableFiles.load(self.metadata.table))

    # --- planning -------------------------------------------------------------------------------------------------

    def _request(self, plan: HoodieCompactionPlan) -> str | None:
        """Make the plan visible; None if that compaction is completed already."""
        timeline, instant_time = self.files.snapshot.active_timeline, compaction_time(self.files)
        self.check()
        if timeline.layout.has_completion_times:
            is_requested = timeline.create_requested_at(instant_time, Action.COMPACTION, plan)
        elif timeline.find(instant_time) is not None:
            return None
        else:
            is_requested = timeline.create_requested(instant_time, Action.COMPACTION, plan)
        if not is_requested:
            raise HoodieMetadataException(
                f"another process plans compaction {instant_time} of {self.files.snapshot.base_path}, though this one "
                "has the table's lock: look at hoodie.write.lock.provider, which must be the same for all writers"
            )
        logger.info("planned compaction %s of %s", instant_time, self.files.snapshot.base_path)
        return instant_time

    def _finish(self, instant: HoodieInstant) -> None:
        """Carry out a compaction that was left behind."""
        files, instant_time = self.files, instant.requested_time
        timeline = files.snapshot.active_timeline
        requested = instant.in_state(State.REQUESTED)
        plan, source = timeline.read_as(requested, HoodieCompactionPlan), timeline.path_of(requested)
        for operation in plan.operations:
            _check_operation(operation, source)
        slices = self._planned_slices(files, plan, instant_time)
        self._refuse_hidden_blocks(slices, instant_time)
        logger.warning("finishing compaction %s of %s, which was left behind", instant_time, files.snapshot.base_path)
        self._delete_base_files(plan, instant_time, frozenset())
        self._carry_out(plan, instant_time, slices)

    def _planned_slices(
        self, files: MetadataTableFiles, plan: HoodieCompactionPlan, instant_time: str
    ) -> list[FileSlice]:
        """The slices of a plan as they are now, log files that it lacks included."""
        groups = {
            group.file_group_id: group
            for path in sorted({operation.partition_path for operation in plan.operations})
            if path in files.table.table_config.metadata_partitions
            for group in files.view.all_file_groups(path)
        }
        found = []
        for operation in plan.operations:
            if operation.partition_path not in files.table.table_config.metadata_partitions:
                # It was dropped since the plan was made.
                continue
            group = groups.get(HoodieFileGroupId(operation.partition_path, operation.file_id))
            slices = [part for part in (group.slices if group is not None else ())]
            there = [part for part in slices if part.base_instant_time == operation.base_instant_time]
            self._check_base_file(operation, there, instant_time)
            found += there
        return found

    def _check_base_file(
        self, operation: HoodieCompactionOperation, there: Sequence[FileSlice], instant_time: str
    ) -> None:
        planned = file_name(operation.data_file_path) if operation.data_file_path else None
        if planned is None:
            return
        if not there or there[0].base_file is None or there[0].base_file.file_name != planned:
            raise HoodieMissingFileException(
                f"compaction {instant_time} of {self.files.snapshot.base_path} was planned with the base file "
                f"{planned} of partition {operation.partition_path}, which is not there. {REBUILD}"
            )

    def _refuse_hidden_blocks(self, slices: Iterable[FileSlice], instant_time: str) -> None:
        """Stop if log files that the compaction replaces have records of instants that do not count yet."""
        names = {log_file.file_name for file_slice in slices for log_file in file_slice.log_files}
        timeline = self.files.snapshot.active_timeline
        for instant in held_back_by(self.files):
            known = timeline.find(instant.requested_time, Action.DELTA_COMMIT)
            if known is None or not known.is_completed:
                continue
            stats = timeline.read_commit_metadata(known).write_stats
            if any(file_name(stat.path or "") in names for stat in stats):
                raise HoodieMetadataException(
                    f"compaction {instant_time} of {self.files.snapshot.base_path} was left behind, and cannot be "
                    f"finished while {instant.action} {instant.requested_time} is pending in the table, whose records "
                    "it would lose: roll that back, or let its writer end"
                )

    # --- carrying out ---------------------------------------------------------------------------------------------

    def _carry_out(self, plan: HoodieCompactionPlan, instant_time: str, slices: Sequence[FileSlice]) -> None:
        files, snapshot = self.files, self.files.snapshot
        timeline = snapshot.active_timeline
        avro_schema = newest_record_schema(snapshot)
        readers = {
            path: MetadataSliceReader.of(files, self.metadata.payload_of(path))
            for path in {part.partition_path for part in slices}
        }
        task = CompactMetadataSlice(readers, instant_time, with_meta_columns(avro_schema))
        markers = WriteMarkers(snapshot.storage, snapshot.meta_path, instant_time)
        markers.open()
        timeline.transition_requested_to_inflight(instant_time, Action.COMPACTION)
        small = [part for part in slices if _bytes_of(part) <= DRIVER_BYTES]
        large = sorted((part for part in slices if _bytes_of(part) > DRIVER_BYTES), key=_bytes_of, reverse=True)
        results = LocalEngineContext(_DRIVER_THREADS).run_tasks(small, task) + self.engine.run_tasks(large, task)
        markers.close()
        stats = [stat for stat in results if stat is not None]
        if large or len(stats) < len(plan.operations):
            self._delete_base_files(plan, instant_time, frozenset(file_name(str(stat.path)) for stat in stats))
        complete(timeline, instant_time, Action.COMPACTION, _metadata(stats, avro_schema), self.check)
        logger.info("compacted %d file groups of %s at %s", len(stats), snapshot.base_path, instant_time)
        try:
            markers.delete_all()
        except HoodieIOException as error:
            # The compaction is completed, so this error must not look as if it had failed.
            logger.warning("after compaction %s was completed: %s", instant_time, error)

    def _delete_base_files(self, plan: HoodieCompactionPlan, instant_time: str, kept: frozenset[str]) -> None:
        """Delete the base files of the compaction that do not count: those of attempts that failed or lost."""
        snapshot = self.files.snapshot
        for path in sorted({operation.partition_path for operation in plan.operations}):
            for status in snapshot.storage.list_directory(join(snapshot.base_path, path)):
                parsed = parse_base_file_name(status.name)
                if parsed is not None and parsed.instant_time == instant_time and status.name not in kept:
                    self.check()
                    snapshot.storage.delete_file(status.path)
                    logger.info("deleted %s, which an attempt of compaction %s left", status.path, instant_time)


def _metadata(stats: Iterable[HoodieWriteStat], avro_schema: str) -> HoodieCommitMetadata:
    by_partition: dict[str, list[HoodieWriteStat]] = {}
    for stat in stats:
        by_partition.setdefault(stat.partition_path, []).append(stat)
    return HoodieCommitMetadata(
        {path: tuple(found) for path, found in sorted(by_partition.items())},
        {SCHEMA_KEY: avro_schema},
        WriteOperationType.COMPACT,
        compacted=True,
    )


def _bytes_of(file_slice: FileSlice) -> int:
    base_file = file_slice.base_file
    return sum(log_file.size_bytes for log_file in file_slice.log_files) + (base_file.size_bytes if base_file else 0)


def _check_operation(operation: HoodieCompactionOperation, source: str) -> None:
    """Refuse an operation whose names do not belong to its file group."""
    try:
        check_partition_path(operation.partition_path)
    except (ValueError, HoodieIOException) as error:
        raise HoodieCorruptedDataException(f"the plan {source} names no partition: {error}") from error
    parsed = parse_base_file_name(file_name(operation.data_file_path)) if operation.data_file_path else None
    if operation.data_file_path and (parsed is None or parsed.file_id != operation.file_id):
        raise HoodieCorruptedDataException(
            f"the plan {source} names {operation.data_file_path!r}, which is no base file of {operation.file_id}"
        )
