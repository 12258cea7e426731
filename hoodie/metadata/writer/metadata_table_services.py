"""Compact a metadata table, and finish the compaction of a dead writer.

A writer compacts under the table's lock, after its own instant is completed; `compaction_planning` decides whether.
Where no compaction is due, a log compaction may be (`metadata_log_compaction`). A writer finishes a dead writer's
compaction before its own delta commit. It begins a new compaction there only if one has been due for long: hudi-rs 0.6
overlooks a delta commit whose instant began before a compaction and that is completed after it.

Files of a compaction whose writer died:

===========================================  ==========================================================================
files of the compaction                      consequence
===========================================  ==========================================================================
requested                                    readers merge as before; the next writer carries the plan out
requested, inflight, perhaps base files      likewise; base files of that instant are deleted first
all, and the slices before it                the cleaner deletes those slices later
===========================================  ==========================================================================

From the moment that a compaction is requested, new log files of version 6 belong to its slice. So no delta commit is
written before the compaction is completed, and a compaction that fails before a delta commit fails the write.

Hudi: org.apache.hudi.metadata.HoodieBackedTableMetadataWriter (performTableServices, compactIfNecessary). Differs: a
compaction that was left inflight is finished without a rollback.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import attrs

from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.planned_compaction import PlannedCompaction
from hoodie.common.table.timeline.completion import complete
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieMetadataException
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
from hoodie.metadata.writer.file_group_writer import delete_other_base_files
from hoodie.metadata.writer.metadata_log_compaction import (
    MetadataLogCompactor,
    no_check,
    withdraw_left_log_compactions,
)
from hoodie.metadata.writer.new_metadata_table import newest_record_schema
from hoodie.storage.storage_path import file_name, join

logger = logging.getLogger(__name__)

_DRIVER_THREADS = 8
_LATE = 2
"""Multiplies the delta commits that make a compaction due: at that number, those after commits keep failing."""
DRIVER_BYTES = 16 << 20
"""Slices of up to this many bytes are compacted on the driver, which takes less time than tasks of a cluster need."""


@attrs.frozen(eq=False)
class MetadataTableCompactor:
    """Compacts a metadata table. Lives on the driver, for one action; call it under the table's lock.

    Attributes:
        metadata: The metadata table, loaded under the lock. Dead writers have left nothing in it but compactions.
        config: The rule by which it is compacted.
        engine: Runs tasks for large slices.
        check: Raises where the lock was lost.
        completing: The instant of the table that is completed next. It may be one that holds compactions back.
        is_refusing: Whether the action is refused if compactions were held back for too long. A rollback is never
            refused, because it may end the wait.
        precedes_delta_commit: Whether the delta commit of a pending instant follows. Then a compaction begins only with
            twice the delta commits that make it due.
    """

    metadata: HoodieBackedTableMetadata
    config: HoodieMetadataConfig
    engine: HoodieEngineContext = attrs.field(factory=LocalEngineContext)
    check: Callable[[], None] = no_check
    completing: str | None = None
    is_refusing: bool = True
    precedes_delta_commit: bool = False

    def compact_if_due(self) -> bool:
        """Take back the log compactions of dead writers, and finish their compactions; then compact if that is due.

        If it is not, log compact if that is due, but not before a delta commit.

        Returns:
            Whether the metadata table changed: load it again before writing to it.

        Raises:
            HoodieMetadataException: Pending instants have held the compaction back for too long, or a compaction that
                was left behind cannot be finished; the message says what to do.
            HoodieException: A file of the metadata table is missing or damaged, the lock was lost, or storage failed.
                The compaction may be pending: then nothing may be written before a later call has finished it.
        """
        if withdraw_left_log_compactions(self.files):
            return attrs.evolve(self, metadata=self._reloaded()).compact_if_due() or True
        pending = self.files.snapshot.active_timeline.filter_actions(Action.COMPACTION).filter_pending().instants
        if pending:
            self._finish(pending[0])
            reloaded = attrs.evolve(self, metadata=self._reloaded())
            return reloaded.compact_if_due() or True
        if not is_compaction_due(self.files, self.config, factor=_LATE if self.precedes_delta_commit else 1):
            if self.is_refusing:
                refuse_if_held_back(self.files, self.config, self.completing)
            if self.precedes_delta_commit:
                return False
            return MetadataLogCompactor(self.metadata, self.config, self.check).compact_if_due()
        return self._compact()

    def compact(self) -> bool:
        """Compact without asking whether a compaction is due; none may be pending.

        Returns:
            Whether log files were merged. False if an instant holds compactions back.

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
        compaction = PlannedCompaction(self.files.snapshot, instant_time, plan, REBUILD, has_lasting_log_files=False)
        self._carry_out(compaction, self._slices(compaction))
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
        """Carry out the compaction of a dead writer. Its markers may be closed: it may have died at the very end."""
        compaction = PlannedCompaction.read(
            self.files.snapshot, instant.requested_time, REBUILD, has_lasting_log_files=False
        )
        slices = self._slices(compaction)
        self._refuse_hidden_blocks(compaction, slices)
        logger.warning("finishing %s, which was left behind", compaction)
        self._delete_base_files(compaction, frozenset())
        self._carry_out(compaction, slices, is_inflight=instant.state is State.INFLIGHT)

    def _slices(self, compaction: PlannedCompaction) -> list[FileSlice]:
        # Partitions may be dropped after they were planned.
        listed = self.files.table.table_config.metadata_partitions
        return compaction.slices(self.files.view, frozenset(compaction.partition_paths).difference(listed))

    def _refuse_hidden_blocks(self, compaction: PlannedCompaction, slices: Iterable[FileSlice]) -> None:
        """Raise if log files that the compaction replaces have records of instants that are pending in the table."""
        names = {log_file.file_name for file_slice in slices for log_file in file_slice.log_files}
        timeline = self.files.snapshot.active_timeline
        for instant in held_back_by(self.files):
            known = timeline.find(instant.requested_time, Action.DELTA_COMMIT)
            if known is None or not known.is_completed:
                continue
            stats = timeline.read_commit_metadata(known).write_stats
            if any(file_name(stat.path or "") in names for stat in stats):
                raise HoodieMetadataException(
                    f"{compaction} was left behind, and cannot be finished while {instant.action} "
                    f"{instant.requested_time} is pending in the table, whose records it would lose: roll that back, "
                    "or let its writer end"
                )

    # --- carrying out ---------------------------------------------------------------------------------------------

    def _carry_out(
        self, compaction: PlannedCompaction, slices: Sequence[FileSlice], *, is_inflight: bool = False
    ) -> None:
        avro_schema, instant_time = newest_record_schema(compaction.snapshot), compaction.instant_time
        readers = {
            path: MetadataSliceReader.of(self.files, self.metadata.payload_of(path))
            for path in {part.partition_path for part in slices}
        }
        write_slice = CompactMetadataSlice(readers, instant_time, with_meta_columns(avro_schema))
        if is_inflight:
            compaction.markers.open()
        else:
            compaction.begin()
        small = [part for part in slices if part.size_bytes <= DRIVER_BYTES]
        large = [part for part in slices if part.size_bytes > DRIVER_BYTES]
        results = LocalEngineContext(_DRIVER_THREADS).run_tasks(small, write_slice)
        results += compaction.write(large, write_slice, self.engine)
        compaction.markers.close()
        stats = [stat for stat in results if stat is not None]
        if large or len(stats) < len(compaction.plan.operations):
            self._delete_base_files(compaction, frozenset(file_name(str(stat.path)) for stat in stats))
        metadata = compaction.commit_metadata(stats, avro_schema)
        timeline = compaction.snapshot.active_timeline
        complete(timeline, instant_time, Action.COMPACTION, metadata, self.check)
        logger.info("compacted %d file groups of %s at %s", len(stats), compaction.snapshot.base_path, instant_time)
        compaction.delete_markers()

    def _delete_base_files(self, compaction: PlannedCompaction, kept: frozenset[str]) -> None:
        snapshot = compaction.snapshot
        for path in compaction.partition_paths:
            folder = join(snapshot.base_path, path)
            delete_other_base_files(snapshot.storage, folder, compaction.instant_time, kept, self.check)
