"""A handle that writes the base file of a compacted file slice.

Hudi: org.apache.hudi.io.FileGroupReaderBasedMergeHandle.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pyarrow as pa

from hoodie.common.bloom.bloom_filter import BloomFilter
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import FILE_NAME_META, RECORD_KEY_META
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.util.queue.bounded_in_memory_executor import BoundedInMemoryExecutor
from hoodie.engine.task_identity import TaskIdentity
from hoodie.io.base_file_handle import HoodieBaseFileHandle
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.merge_source import MERGE_BATCH_ROWS, StoredRows
from hoodie.io.merging_reader import LogMerging
from hoodie.io.parquet.parquet_footer import KeyRange
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.io.write_context import WriteContext
from hoodie.io.write_handle import constant_column


class HoodieCompactionHandle(HoodieBaseFileHandle):
    """Write the merged rows of a slice as one base file.

    The rows keep their meta columns, so that queries by commit time still find them; only the file name changes. The
    new file has all rows, whatever its size.

    If the log files delete no record, the new file continues the bloom filter and the key range of the old one. The
    column of record keys, and the user's column that the keys are made of, are then copied as they are stored, as in
    `HoodieMergeHandle`.

    Memory: the log records of the slice, up to ``hoodie.memory.merge.max.size``, some batches of the base file, and the
    row group that is being written.

    Args:
        context: The compaction.
        file_slice: The slice.
        merging: The merge of its log files.
        task: The task that writes.

    Hudi: org.apache.hudi.io.FileGroupReaderBasedMergeHandle.
    """

    def __init__(self, context: WriteContext, file_slice: FileSlice, merging: LogMerging, task: TaskIdentity) -> None:
        super().__init__(context, file_slice.partition_path, file_slice.file_id, task)
        self.io_type = IOType.CREATE if file_slice.base_file is None else IOType.MERGE
        self._file_slice = file_slice
        columns = [name for name in context.schema_with_meta.names if name != FILE_NAME_META]
        stored = HoodieReaderContext(context.storage, context.schema_with_meta, columns, merging)
        reader = HoodieFileGroupReader(stored, file_slice)
        self._merged = reader.merged_rows()
        self._source = reader.base_source(context.config.storage)
        self._goes_on = False
        self._base_rows = 0

    def open(self) -> None:
        """Read the log files, then start the file; see `HoodieWriteHandle.open`."""
        try:
            self._merged.collect()
            if self._source is not None:
                self._source.open()
            super().open()
        except BaseException:
            self._close_sources()
            raise

    def __exit__(self, kind, error, traceback) -> None:  # type: ignore[no-untyped-def]
        try:
            super().__exit__(kind, error, traceback)
        finally:
            self._close_sources()

    def _close_sources(self) -> None:
        self._merged.close()
        if self._source is not None:
            self._source.close()

    def compact(self) -> None:
        """Write all rows; called once."""
        # Without the old file's bloom filter, the keys must be decoded.
        copied = self._merged.columns_to_copy(self._source) if self._goes_on and self._source is not None else []
        self.writer.keep_apart(copied)
        BoundedInMemoryExecutor(
            [self._rows(copied)],
            self._write_all,
            limit_bytes=self.context.config.write.write_buffer_limit_bytes,
            size_of=lambda item: item.nbytes,
        ).execute()

    def _rows(self, copied: list[str]) -> Iterator[StoredRows]:
        """All rows, those of the base file first."""
        if copied and self._source is not None:
            yield from self._merged.rows_around(self._source, copied)
            return
        start = 0
        for rows in self._merged.batches(MERGE_BATCH_ROWS):
            yield StoredRows(start, rows)
            start += rows.num_rows

    def _write_all(self, merged: Iterator[StoredRows]) -> None:
        for part in merged:
            if part.row_group is not None:
                self.writer.start_row_group(part.row_group)
                if self._kept_keys is not None:
                    self._kept_keys.append(range(part.start, part.start + part.row_group.rows))
            rows, names = part.rows, set(part.rows.schema.names)
            # Columns whose chunks are copied were not read; constants take their place.
            columns = [
                rows.column(name)
                if name in names
                else constant_column(self.file_name if name == FILE_NAME_META else "", rows.num_rows)
                for name in self.context.schema_with_meta.names
            ]
            is_new = self._goes_on and part.start >= self._base_rows
            self.writer.write(
                pa.RecordBatch.from_arrays(columns, names=self.context.schema_with_meta.names),
                keys=rows.column(RECORD_KEY_META) if is_new else None,
            )
            self._records += rows.num_rows

    def _start_keys(self) -> tuple[BloomFilter | None, KeyRange | None]:
        """Continue the base file's filter if all of its keys stay; otherwise hash all keys."""
        found = self._keys_of(self._source) if self._source is not None and self._merged.only_replaces else None
        self._goes_on = found is not None
        if found is not None and self._source is not None:
            self._base_rows = self._source.row_count
        return super()._start_keys() if found is None else found

    def _older_path(self) -> str | None:
        return self._source.path if self._source is not None else None

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
            total_log_size_compacted=sum(log_file.size_bytes for log_file in self._file_slice.record_log_files),
            total_updated_records_compacted=counts.log_keys,
            total_log_blocks=scanned.log_blocks,
            total_corrupt_log_block=scanned.corrupt_blocks,
            total_rollback_blocks=scanned.rollback_blocks,
        )

    def _previous_version(self) -> tuple[str, str | None]:
        base_file = self._file_slice.base_file
        return self._file_slice.base_instant_time, base_file.file_name if base_file is not None else None
