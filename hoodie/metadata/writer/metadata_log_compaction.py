"""Merge the log files of slices of a metadata table into one each, until the next compaction: its log compactions.

The log file of a log compaction names the instants whose blocks it holds, and readers take it in the place of those.
Base files and the merged log files stay as they are. So a log compaction can always be taken back: by the next writer,
if its own one died, and before a delta commit is withdrawn whose records it holds.

By default, readers of Hudi merge all blocks, the merged ones and then that of the log compaction. So a slice is taken
only where records that are merged with themselves stay the same, and where one record of a key says all:

====================  ==================================================================================================
partition             log files
====================  ==================================================================================================
of files              are merged; those with deletes of whole keys are left to compactions, because a record after such
                      a delete would be united with the one in the base file
of statistics         are left to compactions: Hudi adds up the counts of values and bytes
others                are merged, deletes are kept; the newest record of a key counts
====================  ==================================================================================================

Hudi: org.apache.hudi.metadata.HoodieBackedTableMetadataWriter (compactIfNecessary), and
org.apache.hudi.table.action.compact.HoodieCompactor (logCompact). Differs: merges nothing beside pending instants,
leaves out statistics, and takes back what a dead writer left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.planned_compaction import PlannedCompaction
from hoodie.common.table.timeline.completion import complete
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.instant_time import in_order
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieMetadataException
from hoodie.io.log.log_block import HoodieLogBlockType, StoredLogBlock
from hoodie.io.log.metadata_log_scanner import MetadataLogScanner
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.metadata_record_reader import MetadataSliceReader, SliceQuery, one_batch
from hoodie.metadata.reader.metadata_table_files import REBUILD, MetadataTableFiles
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_record_schema import with_meta_columns
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.metadata.records.record_merging import merge_records
from hoodie.metadata.writer.compaction_planning import (
    is_metadata_log_compaction_due,
    log_compaction_held_back_by,
    log_compaction_time,
    plan_metadata_log_compaction,
)
from hoodie.metadata.writer.file_group_writer import MetadataDeltaCommit, MetadataFileGroup, MetadataFileGroupWriter
from hoodie.metadata.writer.new_metadata_table import newest_record_schema
from hoodie.metadata.writer.taken_back import withdraw_log_compaction

logger = logging.getLogger(__name__)

_DRIVER_THREADS = 8
_MOST_BYTES = 16 << 20
"""Slices with larger log blocks are left to compactions, which merge them piece by piece."""


def no_check() -> None:
    """No check of a lock."""


def withdraw_left_log_compactions(files: MetadataTableFiles) -> bool:
    """Take back the log compactions that are pending; under the table's lock they are those of dead writers.

    Args:
        files: The metadata table, loaded under the table's lock.

    Returns:
        Whether there were any: then the timeline has changed.

    Raises:
        HoodieException: See `withdraw_log_compaction`.
    """
    pending = files.snapshot.active_timeline.filter_actions(Action.LOG_COMPACTION).filter_pending().instants
    for instant in pending:
        withdraw_log_compaction(files, instant.requested_time)
    return bool(pending)


@attrs.frozen(eq=False)
class MetadataLogCompactor:
    """Log compacts a metadata table. Lives on the driver, for one action; call it under the table's lock.

    Attributes:
        metadata: The metadata table, loaded under the lock, without pending compactions and log compactions.
        config: The rule by which it is log compacted.
        check: Raises where the lock was lost.
    """

    metadata: HoodieBackedTableMetadata
    config: HoodieMetadataConfig
    check: Callable[[], None] = no_check

    def compact_if_due(self) -> bool:
        """Log compact if that is due, and nothing holds it back.

        Returns:
            Whether log files were merged.

        Raises:
            HoodieException: A file of the metadata table is missing or damaged, the lock was lost, or storage failed.
                The log compaction may be pending; the next writer takes it back.
        """
        files = self.metadata.files
        if not is_metadata_log_compaction_due(files, self.config) or log_compaction_held_back_by(files):
            return False
        plan = plan_metadata_log_compaction(files, self._takes)
        if plan is None:
            return False
        timeline, instant_time = files.snapshot.active_timeline, log_compaction_time(files)
        if timeline.find(instant_time) is not None:
            return False
        self.check()
        if not timeline.create_requested(instant_time, Action.LOG_COMPACTION, plan):
            raise HoodieMetadataException(
                f"another process plans log compaction {instant_time} of {files.snapshot.base_path}, though this one "
                "has the table's lock: look at hoodie.write.lock.provider, which must be the same for all writers"
            )
        logger.info("planned log compaction %s of %s", instant_time, files.snapshot.base_path)
        kind = Action.LOG_COMPACTION
        compaction = PlannedCompaction(files.snapshot, instant_time, plan, REBUILD, False, kind)
        self._carry_out(compaction, compaction.slices(files.view))
        return True

    def _carry_out(self, compaction: PlannedCompaction, slices: Sequence[FileSlice]) -> None:
        snapshot, instant_time = compaction.snapshot, compaction.instant_time
        avro_schema, timeline = newest_record_schema(snapshot), snapshot.active_timeline
        commit = MetadataDeltaCommit(
            snapshot.storage,
            snapshot.base_path,
            instant_time,
            with_meta_columns(avro_schema),
            timeline.layout.has_completion_times,
        )
        readers = {path: self._reader(path) for path in compaction.partition_paths}
        compaction.begin()
        # One attempt of each task, so no file of another one is left.
        stats = LocalEngineContext(_DRIVER_THREADS).run_tasks(slices, LogCompactMetadataSlice(readers, commit))
        compaction.markers.close()
        metadata = compaction.commit_metadata(stats, avro_schema)
        complete(timeline, instant_time, compaction.kind, metadata, self.check)
        logger.info("log compacted %d file groups of %s at %s", len(stats), snapshot.base_path, instant_time)
        compaction.delete_markers()

    def _takes(self, file_slice: FileSlice) -> bool:
        """Whether the log files of a slice are merged: there are enough, and readers of Hudi see the same records."""
        threshold = max(self.config.log_compaction_blocks_threshold, 2)
        payload = self.metadata.payload_of(file_slice.partition_path)
        if len(file_slice.record_log_files) < threshold or payload is MetadataPayload.COLUMN_STATS:
            return False
        reader = self._reader(file_slice.partition_path)
        scanner = reader.log_scanner(reader.without_unneeded_log_files(file_slice))
        blocks = scanner.counted_blocks()
        has_deletes = any(block.block_type is HoodieLogBlockType.DELETE for block in blocks)
        # What a torn block holds is not known.
        return (
            len(_instants_of(blocks)) >= threshold
            and sum(block.content_bytes for block in blocks) <= _MOST_BYTES
            and not (payload is MetadataPayload.FILES and has_deletes)
            and not scanner.counts.corrupt_blocks
        )

    def _reader(self, partition_path: str) -> MetadataSliceReader:
        return MetadataSliceReader.of(self.metadata.files, self.metadata.payload_of(partition_path))


@attrs.frozen
class LogCompactMetadataSlice:
    """Task: writes one log file in the place of those of a slice.

    Memory: the records of the log files.

    Attributes:
        readers: A reader of slices for each partition.
        commit: The log compaction.
    """

    readers: Mapping[str, MetadataSliceReader]
    commit: MetadataDeltaCommit

    def __call__(self, task: TaskIdentity, file_slice: FileSlice) -> HoodieWriteStat:
        """Write the log file; returns its statistics.

        Raises:
            HoodieException: A file is missing or damaged, or storage failed.
        """
        reader, path = self.readers[file_slice.partition_path], file_slice.partition_path
        merged = reader.without_unneeded_log_files(file_slice)
        scanner = reader.log_scanner(merged)
        entries = _merged_entries(reader, file_slice, scanner)
        groups = [MetadataFileGroup.of(file_slice)]
        writer = MetadataFileGroupWriter(self.commit, path, groups)
        stat = writer.write(0, entries, task.write_token, compacted_instants=_instants_of(scanner.counted_blocks()))
        *sources, own = stat.log_files or ()
        counts = scanner.counts
        return attrs.evolve(
            stat,
            prev_commit=file_slice.base_instant_time,
            log_files=(*reversed(sources), own),
            total_log_records=len(entries.keys) + len(entries.deleted_keys),
            total_log_files_compacted=counts.log_files,
            total_log_size_compacted=sum(log_file.size_bytes for log_file in merged.log_files),
            total_updated_records_compacted=len(entries.keys) + len(entries.deleted_keys),
            total_log_blocks=counts.log_blocks,
            total_corrupt_log_block=counts.corrupt_blocks,
            total_rollback_blocks=counts.rollback_blocks,
        )


def _merged_entries(reader: MetadataSliceReader, file_slice: FileSlice, scanner: MetadataLogScanner) -> MetadataEntries:
    """The records of the log files of a slice merged with each other, deletes kept."""
    payload, parts = reader.payload, list(reader.log_parts(SliceQuery(file_slice), scanner))
    merged = merge_records(
        payload,
        pa.concat_arrays([part.keys for part in parts]),
        one_batch([part.rows for part in parts], payload.schema),
        np.concatenate([np.full(len(part.keys), part.is_deleted) for part in parts]),
        drop_tombstones=False,
    )
    return MetadataEntries(file_slice.partition_path, payload, merged.keys, merged.rows, merged.deleted_keys)


def _instants_of(blocks: Sequence[StoredLogBlock]) -> list[str]:
    """The instants that wrote blocks, ascending."""
    return in_order({str(block.instant_time) for block in blocks})
