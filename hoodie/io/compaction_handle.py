"""Write the base file that a file slice with log files becomes.

Hudi: org.apache.hudi.io.FileGroupReaderBasedMergeHandle.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pyarrow as pa

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import FILE_NAME_META
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.util.queue.bounded_in_memory_executor import BoundedInMemoryExecutor
from hoodie.engine.task_identity import TaskIdentity
from hoodie.io.base_file_handle import HoodieBaseFileHandle
from hoodie.io.file_group_reader import MERGE_BATCH_ROWS, HoodieFileGroupReader
from hoodie.io.merging_reader import LogMerging
from hoodie.io.write_context import WriteContext
from hoodie.io.write_handle import constant_column


class HoodieCompactionHandle(HoodieBaseFileHandle):
    """Write the rows that a slice's log files leave of its base file as one base file.

    The rows keep their meta columns, so queries by commit time find them where they were; only the file name changes.
    The new file has all of them, however large it becomes.

    Memory: the log records of the slice, up to ``hoodie.memory.merge.max.size``, some batches of the base file, and the
    row group that is being written.

    Args:
        context: The compaction.
        file_slice: The slice.
        merging: How its log files are merged.
        task: The task that writes.

    Hudi: org.apache.hudi.io.FileGroupReaderBasedMergeHandle.
    """

    def __init__(self, context: WriteContext, file_slice: FileSlice, merging: LogMerging, task: TaskIdentity) -> None:
        super().__init__(context, file_slice.partition_path, file_slice.file_id, task)
        self.io_type = IOType.CREATE if file_slice.base_file is None else IOType.MERGE
        self._file_slice = file_slice
        self._merged = HoodieFileGroupReader(
            context.storage, file_slice, context.schema_with_meta, log_merging=merging
        ).merged_rows()

    def compact(self) -> None:
        """Write all rows; called once."""
        BoundedInMemoryExecutor(
            [self._merged.batches(MERGE_BATCH_ROWS)],
            self._write_all,
            limit_bytes=self.context.config.write.write_buffer_limit_bytes,
            size_of=lambda batch: batch.nbytes,
        ).execute()

    def _write_all(self, batches: Iterator[pa.RecordBatch]) -> None:
        names = self.context.schema_with_meta.names
        for rows in batches:
            columns = [
                constant_column(self.file_name, rows.num_rows) if name == FILE_NAME_META else rows.column(name)
                for name in names
            ]
            self.writer.write(pa.RecordBatch.from_arrays(columns, names=names))
            self._records += rows.num_rows

    def _stat(self, rows: int, size_bytes: int, elapsed_ms: int) -> HoodieWriteStat:
        counts = self._merged.counts
        scanned = counts.scanned
        return attrs.evolve(
            super()._stat(rows, size_bytes, elapsed_ms),
            num_update_writes=counts.updates,
            num_inserts=counts.inserts,
            num_deletes=counts.deletes,
            total_log_records=counts.log_records,
            total_log_files_compacted=scanned.log_files,
            total_log_size_compacted=sum(log_file.size_bytes for log_file in self._file_slice.log_files),
            total_updated_records_compacted=counts.log_keys,
            total_log_blocks=scanned.log_blocks,
            total_corrupt_log_block=scanned.corrupt_blocks,
            total_rollback_blocks=scanned.rollback_blocks,
        )

    def _previous_version(self) -> tuple[str, str | None]:
        base_file = self._file_slice.base_file
        return self._file_slice.base_instant_time, base_file.file_name if base_file is not None else None
