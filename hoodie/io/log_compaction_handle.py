"""A handle that writes one log file in the place of the log files before it.

Hudi: org.apache.hudi.table.action.compact.LogCompactionExecutionHelper.
"""

from __future__ import annotations

import logging

import attrs
import pyarrow as pa

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.timeline.instant_time import in_order
from hoodie.engine.task_identity import TaskIdentity
from hoodie.io.append_handle import HoodieAppendHandle, LogPlace
from hoodie.io.log.data_block import LogBlockFormat, encode_data_blocks
from hoodie.io.log.delete_block import encode_delete_blocks
from hoodie.io.log.log_block import HeaderMetadataType, StoredLogBlock
from hoodie.io.log.log_block_scanner import LogScanCounts
from hoodie.io.log.log_record_scanner import HoodieLogRecordScanner
from hoodie.io.merged_log_records import LogMergeRules, MergedLogRecords
from hoodie.io.merging_reader import LogMerging
from hoodie.io.write_context import WriteContext
from hoodie.merge.log_merge import rules_of_logs
from hoodie.merge.merge_spec import MergeSpec

logger = logging.getLogger(__name__)


def can_compact_logs(spec: MergeSpec) -> bool:
    """Whether a table's log records can be merged without base files, and merged again with what they were made of.

    Readers of Hudi, by default, merge all blocks, those that a log compaction replaces and its own. So the merge must
    give the same rows if an entry is merged with itself: the winning row must be taken as a whole.

    Args:
        spec: The table's rules.
    """
    rules = rules_of_logs(spec)
    return rules is not None and rules.field_rule is None


def is_partial(block: StoredLogBlock) -> bool:
    """Whether a block holds a partial update, whose rows cannot be merged without the base file."""
    return block.headers.get(HeaderMetadataType.IS_PARTIAL, "").lower() == "true"


class HoodieLogCompactionHandle(HoodieAppendHandle):
    """Write the merged records of a slice's log files as one log file, which names the instants that it replaces.

    Rows keep all meta columns, also commit time and sequence number. Deletes stay, with their ordering values: they
    delete rows of the base file. The file has all records, whatever its size.

    Call `collect` before the handle is opened: it may find that there is nothing to write.

    Memory: the log records of the slice, up to ``hoodie.memory.merge.max.size``, and the file.

    Args:
        context: The log compaction.
        file_slice: The slice.
        place: The place of the file, after all log files of the slice.
        merging: The merge of its log files; its filter leaves out blocks that are newer than the log compaction.
        task: The task that writes.

    Hudi: org.apache.hudi.table.action.compact.LogCompactionExecutionHelper. Differs: Hudi 1.2.0 gives rows a new commit
    time, by which incremental queries take them for changes.
    """

    def __init__(
        self, context: WriteContext, file_slice: FileSlice, place: LogPlace, merging: LogMerging, task: TaskIdentity
    ) -> None:
        super().__init__(context, place, task)
        self._file_slice = file_slice
        self._merging = merging
        self._scanned = LogScanCounts()
        self._instants: list[str] = []
        self._merged: MergedLogRecords | None = None

    def collect(self) -> bool:
        """Read the log files, and merge their records.

        Returns:
            Whether there is something to write: blocks of several instants, which can be merged without the base file.

        Raises:
            HoodieException: A file is missing or damaged, or records do not compare.
        """
        file_slice, schema = self._file_slice, self.context.schema_with_meta
        rules = LogMergeRules(self._merging.merge_spec, schema, self._merging.key_generator)
        place = f"file group {file_slice.file_id} of partition '{file_slice.partition_path}'"
        scanner = HoodieLogRecordScanner(
            self.context.storage,
            file_slice.record_log_files,
            schema,
            block_filter=self._merging.block_filter,
            committed=self._merging.committed,
        )
        blocks = scanner.blocks()
        self._scanned = scanner.counts
        self._instants = in_order({str(block.instant_time) for block in blocks})
        if len(self._instants) < 2 or any(map(is_partial, blocks)) or not can_compact_logs(self._merging.merge_spec):
            return False
        self._merged = MergedLogRecords(rules, schema.names, self._merging.config, None, place)
        self._merged.collect(scanner.scan(blocks))
        if not self._merged.are_whole or self._merged.has_unordered:
            logger.info("the log files of %s stay as they are: its rows are merged with the base file only", place)
            return False
        return bool(len(self._merged))

    def close_sources(self) -> None:
        """Drop the records that were read."""
        if self._merged is not None:
            self._merged.close()

    def compact(self) -> None:
        """Write the merged records; called once, after `collect` gave True."""
        assert self._merged is not None
        records, storage = self.context.records, self.context.config.storage
        rows = self._merged.row_entries()
        self._add(
            encode_data_blocks(
                rows,
                records.avro_schema,
                self.context.instant_time,
                LogBlockFormat(storage.logfile_data_block_format),
                storage.logfile_data_block_max_size,
                config=storage,
                compacted_instants=self._instants,
            )
        )
        keys, ordering = self._merged.delete_entries()
        self._add(
            encode_delete_blocks(
                keys,
                pa.repeat(self.partition_path, len(keys)),
                ordering,
                records.avro_schema,
                self.context.instant_time,
                storage.logfile_data_block_max_size,
                compacted_instants=self._instants,
            )
        )
        self._rows = self._updates = rows.num_rows
        self._deletes = len(keys)
        self._records = self._rows + self._deletes

    def _stat(self, rows: int, size_bytes: int, elapsed_ms: int) -> HoodieWriteStat:
        assert self._merged is not None
        stat = super()._stat(rows, size_bytes, elapsed_ms)
        *sources, own = stat.log_files or ()
        return attrs.evolve(
            stat,
            prev_commit=self._file_slice.base_instant_time,
            log_files=(*reversed(sources), own),
            total_log_records=self._merged.record_count,
            total_log_files_compacted=self._scanned.log_files,
            total_log_size_compacted=sum(log_file.size_bytes for log_file in self._file_slice.record_log_files),
            total_updated_records_compacted=len(self._merged),
            total_log_blocks=self._scanned.log_blocks,
            total_corrupt_log_block=self._scanned.corrupt_blocks,
            total_rollback_blocks=self._scanned.rollback_blocks,
        )
