"""What every handle that writes a base file does: marker, file, meta columns, status.

Hudi: org.apache.hudi.io.HoodieWriteHandle.
"""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from hoodie.common.bloom.bloom_filter import BloomFilter, create_bloom_filter
from hoodie.common.fs.file_names import make_base_file_name
from hoodie.common.model.record_columns import MERGE_ERROR, RECORD_KEY
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.model.write_stat import NULL_COMMIT, HoodieWriteStat, RuntimeStats
from hoodie.common.model.write_status import MAX_REPORTED_ERRORS, RecordError, WithoutEffect, WriteStatus
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.partition_metadata import ensure_partition_metadata
from hoodie.common.util.numbered_strings import numbered_strings
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieCommitException, HoodieException, HoodieIOException
from hoodie.io.parquet.parquet_footer import KeyRange
from hoodie.io.parquet.parquet_settings import ParquetSettings
from hoodie.io.parquet.parquet_writer import HoodieParquetWriter
from hoodie.io.write_context import WriteContext
from hoodie.storage.storage_path import METAFOLDER_NAME, join

__all__ = ["HoodieWriteHandle", "RowCounter", "constant_column"]

logger = logging.getLogger(__name__)

FULL_SHARE = 1.03
"""New records are added until a file has this share of ``hoodie.parquet.max.file.size``: a bucket that was
planned for a file of the maximum shall not leave a second one for some rows more."""


class RowCounter:
    """Counts the rows that one task writes, over all its files: the last part of ``_hoodie_commit_seqno``."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> int:
        """The first of ``count`` numbers that nobody else of the task gets."""
        first = self._next
        self._next += count
        return first

    def give_back(self, count: int) -> None:
        """Take the last ``count`` numbers back: their rows were not written."""
        self._next -= count


class HoodieWriteHandle:
    """One base file being written by one task; a context manager.

    `open` (or entering) makes the partition's metadata file, then the marker, then the file. `close` finishes the file
    and gives its `WriteStatus`. Leaving by an error drops the file unfinished and leaves its marker for the rollback,
    or deletes both when the instant takes no files any more.

    Args:
        context: The write.
        partition_path: Where the file goes.
        file_id: The file group.
        task: Who writes.
        row_counter: The task's counter; a task that writes several files hands the same one to all their handles.

    Hudi: org.apache.hudi.io.HoodieWriteHandle. Differs: takes a `WriteContext` instead of the table; no I/O in the
    constructor; batches instead of records.
    """

    io_type = IOType.CREATE

    def __init__(
        self,
        context: WriteContext,
        partition_path: str,
        file_id: str,
        task: TaskIdentity,
        row_counter: RowCounter | None = None,
    ) -> None:
        self.context = context
        self.partition_path = partition_path
        self.file_id = file_id
        self.task = task
        self.file_name = make_base_file_name(file_id, task.write_token, context.instant_time)
        self.path = join(context.base_path, partition_path, self.file_name)
        self._writer: HoodieParquetWriter | None = None
        self._row_counter = row_counter or RowCounter()
        self._inserts = 0
        self._updates = 0
        self._deletes = 0
        self._records = 0
        self._error_count = 0
        self._errors: list[RecordError] = []
        self._without_effect = WithoutEffect()
        self._started = 0.0
        self._kept_keys: list[pa.Array | range] | None = None if context.written_keys is None else []

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.abort()
            self._drop_if_late()

    def _drop_if_late(self) -> None:
        """Delete an unfinished file that no rollback will look for: its instant was completed without this attempt."""
        try:
            if not self._markers().is_open:
                self._delete_file_and_marker()
        except HoodieIOException as error:
            logger.warning("whether %s is to be deleted could not be found out: %s", self.path, error)

    def _delete_file_and_marker(self) -> None:
        self.context.storage.delete_file(self.path)
        # The file goes first: while there is a marker, a rollback would still find it.
        self._markers().delete(self.partition_path, self.file_name, self.io_type)

    def open(self) -> None:
        """Announce the file by its marker and start it.

        Raises:
            HoodieIOException: Storage refused.
            HoodieCommitException: The instant takes no files any more: it is being completed or rolled back.
        """
        self._started = time.monotonic()
        storage = self.context.storage
        if not self._markers().is_open:
            raise HoodieCommitException(
                f"{self.path} was not written: instant {self.context.instant_time} is being completed or rolled back, "
                "or was. This attempt of the task came too late, and nothing of it counts"
            )
        ensure_partition_metadata(storage, self.context.base_path, self.partition_path, self.context.instant_time)
        self._markers().create(self.partition_path, self.file_name, self.io_type)
        bloom_filter, stored_keys = self._start_keys()
        self._writer = HoodieParquetWriter(
            storage.open_output_stream(self.path),
            self.context.schema_with_meta,
            ParquetSettings.from_config(self.context.config.storage),
            bloom_filter=bloom_filter,
            avro_schema=self.context.avro_schema,
            stored_keys=stored_keys,
            dictionary_columns=self._dictionary_columns(),
            path=self.path,
            kept_keys=self._kept_keys,
        )

    def _dictionary_columns(self) -> frozenset[str]:
        """Leaf columns that an older version of the file stores as dictionaries."""
        return frozenset()

    @property
    def writer(self) -> HoodieParquetWriter:
        """The open file."""
        if self._writer is None:
            raise HoodieException(f"{type(self).__name__} for {self.path} is not open")
        return self._writer

    def close(self) -> WriteStatus:
        """Finish the file.

        Returns:
            Its status, with statistics for the commit.

        Raises:
            HoodieCommitException: The instant takes no files any more, or the marker is gone: the driver has rolled
                this instant back or completed it without this attempt. The file is deleted again.
        """
        writer = self.writer
        summary = writer.close()
        self._writer = None
        markers = self._markers()
        if not (markers.exists(self.partition_path, self.file_name, self.io_type) and markers.is_open):
            self._delete_file_and_marker()
            raise HoodieCommitException(
                f"{self.path} came too late: instant {self.context.instant_time} was rolled back or completed while "
                "this task was writing; its file was deleted and nothing of it counts"
            )
        elapsed_ms = int((time.monotonic() - self._started) * 1000)
        created = self.io_type is IOType.CREATE
        stat = HoodieWriteStat(
            file_id=self.file_id,
            partition_path=self.partition_path,
            path=join(self.partition_path, self.file_name) if self.partition_path else self.file_name,
            prev_commit=self._previous_commit(),
            num_writes=summary.rows,
            num_deletes=self._deletes,
            num_update_writes=self._updates,
            num_inserts=self._inserts,
            total_write_bytes=summary.size_bytes,
            total_write_errors=self._error_count,
            file_size_bytes=summary.size_bytes,
            runtime_stats=RuntimeStats(
                total_create_time=elapsed_ms if created else 0, total_upsert_time=0 if created else elapsed_ms
            ),
        )
        self._keep_keys(summary.rows)
        logger.debug("wrote %s: %d rows, %d bytes in %d ms", self.path, summary.rows, summary.size_bytes, elapsed_ms)
        return WriteStatus(
            file_id=self.file_id,
            partition_path=self.partition_path,
            stat=stat,
            total_record_count=self._records,
            error_count=self._error_count,
            errors=tuple(self._errors),
            without_effect=self._without_effect,
        )

    def _keep_keys(self, rows: int) -> None:
        kept, self._kept_keys = self._kept_keys, None
        if self.context.written_keys is not None and kept is not None and sum(map(len, kept)) == rows:
            self.context.written_keys.put(self.path, kept, self._older_path())

    def _older_path(self) -> str | None:
        """The version of the file that this one is made of."""
        return None

    def _start_keys(self) -> tuple[BloomFilter | None, KeyRange | None]:
        """The filter that the file starts from, and the range of the keys that it holds; no filter of virtual keys."""
        if self.context.has_virtual_keys:
            return None, None
        index = self.context.config.index
        new = create_bloom_filter(
            index.bloom_filter_type, index.bloom_num_entries, index.bloom_fpp, index.bloom_dynamic_max_entries
        )
        return new, None

    def _previous_commit(self) -> str:
        return NULL_COMMIT

    def _markers(self) -> WriteMarkers:
        return WriteMarkers(
            self.context.storage, join(self.context.base_path, METAFOLDER_NAME), self.context.instant_time
        )

    def _without_bad_records(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that fit the schema and could be merged; the others are counted and reported as record errors."""
        bad = np.zeros(rows.num_rows, dtype=np.bool_)
        reasons: list[tuple[str | None, np.ndarray]] = []
        for field in self.context.schema:
            column = rows.column(field.name)
            if not field.nullable and column.null_count:
                nulls = column.is_null().to_numpy(zero_copy_only=False)
                reasons.append((f"column {field.name} is null, but the table says it never is", nulls))
                bad |= nulls
        if MERGE_ERROR in rows.schema.names and rows.column(MERGE_ERROR).null_count < rows.num_rows:
            failed = rows.column(MERGE_ERROR).is_valid().to_numpy(zero_copy_only=False)
            reasons.append((None, failed))
            bad |= failed
        if not reasons:
            return rows
        keys = rows.column(RECORD_KEY)
        positions = np.flatnonzero(bad)
        for position in positions[: MAX_REPORTED_ERRORS - len(self._errors)]:
            reason = next(text for text, has_it in reasons if has_it[position])
            self._name_error(keys[position].as_py(), reason or rows.column(MERGE_ERROR)[position].as_py())
        self._error_count += len(positions)
        return rows.filter(pa.array(~bad))

    def _name_error(self, record_key: str, reason: str) -> None:
        if len(self._errors) < MAX_REPORTED_ERRORS:
            self._errors.append(RecordError(record_key, self.partition_path, reason))

    def _new_rows(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The columns of incoming rows as they are stored, meta columns first."""
        count = rows.num_rows
        if self.context.has_virtual_keys:
            nothing = pa.nulls(count, pa.string())
            meta = [nothing, nothing, nothing, nothing]
        else:
            meta = [
                constant_column(self.context.instant_time, count),
                self._sequence_numbers(count),
                rows.column(RECORD_KEY),
                constant_column(self.partition_path, count),
            ]
        return [
            *meta,
            constant_column(self.file_name, count),
            *(rows.column(name) for name in self.context.schema.names),
        ]

    def _write_new(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Append new records until the file is full; those that find no place come back."""
        good = self._without_bad_records(rows)
        count = good.num_rows
        if not count:
            return good
        stored = pa.RecordBatch.from_arrays(self._new_rows(good), names=self.context.schema_with_meta.names)
        done = self._write_until_full(stored, good.column(RECORD_KEY))
        self._inserts += done
        self._row_counter.give_back(count - done)
        return good.slice(done)

    def _write_until_full(self, stored: pa.RecordBatch, keys: pa.Array) -> int:
        """Append rows whose keys are new to the file until it is full; how many there was place for."""
        done = 0
        while done < stored.num_rows:
            fitting = self.writer.rows_that_fit(stored.slice(done), self._full_bytes)
            if not fitting:
                break
            self._append_new(stored.slice(done, fitting), keys.slice(done, fitting))
            done += fitting
        return done

    @property
    def _full_bytes(self) -> int:
        if self.context.places_records:
            return sys.maxsize
        return int(FULL_SHARE * self.context.config.storage.parquet_max_file_size)

    def _append_new(self, stored: pa.RecordBatch, keys: pa.Array) -> None:
        """Write rows whose keys are new to the file group."""
        self.writer.write(stored)

    def _sequence_numbers(self, count: int) -> pa.Array:
        """``<instant>_<task partition>_<row>``, unique within the commit."""
        first = self._row_counter.take(count)
        return numbered_strings(f"{self.context.instant_time}_{self.task.partition_index}_", first, count)


def constant_column(value: str, count: int) -> pa.DictionaryArray:
    """One string ``count`` times, without writing it out."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), pa.array([value], pa.string()))
