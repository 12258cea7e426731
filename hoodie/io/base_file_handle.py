"""The base class of all handles that write a base file: the Parquet file, its bloom filter and its size."""

from __future__ import annotations

import logging
import sys

import attrs
import pyarrow as pa

from hoodie.common.bloom.bloom_filter import BloomFilter, create_bloom_filter
from hoodie.common.fs.file_names import make_base_file_name
from hoodie.common.model.record_columns import RECORD_KEY
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.model.write_status import WriteStatus
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieCorruptedDataException, HoodieException, HoodieNotSupportedException
from hoodie.io.cdc_logger import HoodieCDCLogger
from hoodie.io.merge_source import MergeSource
from hoodie.io.parquet.parquet_footer import KeyRange
from hoodie.io.parquet.parquet_writer import HoodieParquetWriter
from hoodie.io.write_context import WriteContext
from hoodie.io.write_handle import HoodieWriteHandle, RowCounter

logger = logging.getLogger(__name__)

FULL_SHARE = 1.03
"""New records are added until a file has this share of ``hoodie.parquet.max.file.size``. So a bucket that was planned
for one full file does not need a second file for a few more rows."""


class HoodieBaseFileHandle(HoodieWriteHandle):
    """One base file being written by one task.

    Args:
        context: The write.
        partition_path: The partition of the file.
        file_id: The file group.
        task: The task that writes.
        row_counter: See `HoodieWriteHandle`.
    """

    def __init__(
        self,
        context: WriteContext,
        partition_path: str,
        file_id: str,
        task: TaskIdentity,
        row_counter: RowCounter | None = None,
    ) -> None:
        file_name = make_base_file_name(file_id, task.write_token, context.instant_time)
        super().__init__(context, partition_path, file_id, file_name, task, row_counter)
        self._writer: HoodieParquetWriter | None = None
        self._changes: HoodieCDCLogger | None = None
        self._kept_keys: list[pa.Array | range] | None = None if context.placement.written_keys is None else []

    @property
    def writer(self) -> HoodieParquetWriter:
        """The open file."""
        if self._writer is None:
            raise HoodieException(f"{type(self).__name__} for {self.path} is not open")
        return self._writer

    def close(self) -> WriteStatus:
        """Finish the file; see `HoodieWriteHandle.close`."""
        status = super().close()
        kept, self._kept_keys = self._kept_keys, None
        written_keys = self.context.placement.written_keys
        if written_keys is not None and kept is not None and sum(map(len, kept)) == status.stat.num_writes:
            written_keys.put(self.path, kept, self._older_path())
        return status

    def _open_file(self) -> None:
        bloom_filter, stored_keys = self._start_keys()
        self._writer = HoodieParquetWriter(
            self.context.storage.open_output_stream(self.path),
            self.context.schema_with_meta,
            self.context.config.storage,
            bloom_filter=bloom_filter,
            avro_schema=self.context.records.avro_schema,
            stored_keys=stored_keys,
            renews_range=self._renews_range,
            dictionary_columns=self._dictionary_columns(),
            path=self.path,
            kept_keys=self._kept_keys,
        )
        if self._changes is not None:
            try:
                self._changes.open(self._markers())
            except BaseException:
                self._abort_file()
                raise

    def _close_file(self) -> tuple[int, int]:
        if self._changes is not None:
            self._changes.finish()
        size_bytes = self.writer.close()
        rows, self._writer = self.writer.rows_written, None
        return rows, size_bytes

    def _abort_file(self) -> bool:
        if self._changes is not None:
            self._changes.abort()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abort()
        return writer is not None

    def _delete_file(self) -> None:
        super()._delete_file()
        if self._changes is not None:
            self._changes.delete_file()

    def _delete_file_and_marker(self) -> None:
        super()._delete_file_and_marker()
        if self._changes is not None:
            self._changes.delete_marker(self._markers())

    def _stat(self, rows: int, size_bytes: int, elapsed_ms: int) -> HoodieWriteStat:
        stat = super()._stat(rows, size_bytes, elapsed_ms)
        return stat if self._changes is None else attrs.evolve(stat, cdc_stats=self._changes.cdc_stats)

    def _log_changes(self) -> None:
        """Store the changes of the file group beside the file, if the table stores change data; before `open`."""
        mode = self.context.logging_mode
        if mode is not None:
            self._changes = HoodieCDCLogger(self.context, mode, self.partition_path, self.file_id, self.task)

    @property
    def _renews_range(self) -> bool:
        """Whether the range of keys is that of the rows that are written, although the filter is continued."""
        return False

    def _start_keys(self) -> tuple[BloomFilter | None, KeyRange | None]:
        """The bloom filter to start from, and the range of its keys; no filter if keys are virtual."""
        if self.context.has_virtual_keys:
            return None, None
        index = self.context.config.index
        new = create_bloom_filter(
            index.bloom_filter_type, index.bloom_num_entries, index.bloom_fpp, index.bloom_dynamic_max_entries
        )
        return new, None

    def _keys_of(self, source: MergeSource) -> tuple[BloomFilter, KeyRange] | None:
        """The bloom filter and the key range of a base file, to be continued; None if it has no valid ones.

        They are not continued either if the range names a key that was deleted.

        Some writers determine the range in the order of UTF-8 bytes. Such a range cannot be joined with keys in Java's
        order.

        Args:
            source: The base file, opened.
        """
        if self.context.has_virtual_keys:
            return None
        try:
            footer = source.footer()
            bloom_filter, key_range = footer.bloom_filter, footer.key_range
        except (HoodieCorruptedDataException, HoodieNotSupportedException) as error:
            logger.warning("rewriting %s with a new bloom filter of all its keys: %s", source.path, error)
            return None
        if bloom_filter is None or key_range is None or not key_range.is_of_any_order:
            return None
        if not source.names_only_its_keys():
            return None
        return bloom_filter, key_range

    def _dictionary_columns(self) -> frozenset[str]:
        """The leaf columns that an older version of the file stores as dictionaries."""
        return frozenset()

    def _older_path(self) -> str | None:
        """The full path of the version from which this file is made."""
        return None

    def _write_new(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Append new records until the file is full, and return the remaining ones."""
        good = self._errors.without_bad_records(rows)
        count = good.num_rows
        if not count:
            return good
        stored = pa.RecordBatch.from_arrays(self._new_rows(good), names=self.context.schema_with_meta.names)
        done = self._write_until_full(stored, good.column(RECORD_KEY))
        self._inserts += done
        self._row_counter.give_back(count - done)
        return good.slice(done)

    def _write_until_full(self, stored: pa.RecordBatch, keys: pa.Array) -> int:
        """Append rows with new keys until the file is full, and return their number."""
        full_bytes = self._full_bytes
        done = 0
        while done < stored.num_rows:
            rest = stored.slice(done)
            fitting = self.writer.rows_that_fit(rest, full_bytes)
            if not fitting:
                break
            # The writer knows the size of the rows that it was asked about.
            fitted = rest if fitting == rest.num_rows else rest.slice(0, fitting)
            self._append_new(fitted, keys.slice(done, fitting))
            done += fitting
        return done

    @property
    def _full_bytes(self) -> int:
        """The size at which the file takes no more rows."""
        if self.context.placement.names_file_groups:
            return sys.maxsize
        return int(FULL_SHARE * self.context.config.storage.parquet_max_file_size)

    def _append_new(self, stored: pa.RecordBatch, keys: pa.Array) -> None:
        """Write rows whose keys are new to the file group."""
        self.writer.write(stored)
