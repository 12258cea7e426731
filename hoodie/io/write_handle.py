"""The base class of all handles that write a file of a table: marker, life cycle, status, and meta columns of
new rows.

Hudi: org.apache.hudi.io.HoodieWriteHandle.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from hoodie.common.model.record_columns import MERGE_ERROR, RECORD_KEY
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.model.write_stat import NULL_COMMIT, HoodieWriteStat, RuntimeStats
from hoodie.common.model.write_status import MAX_REPORTED_ERRORS, RecordError, WithoutEffect, WriteStatus
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.partition_metadata import ensure_partition_metadata, has_partition_metadata
from hoodie.common.util.numbered_strings import numbered_strings
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieCommitException, HoodieIOException
from hoodie.io.write_context import WriteContext
from hoodie.storage.side_by_side import side_by_side
from hoodie.storage.storage_path import METAFOLDER_NAME, join

logger = logging.getLogger(__name__)


class RecordErrors:
    """Counts the records that could not be stored, and keeps the first ones with their errors.

    Args:
        schema: The user's columns.
        partition_path: The partition of the records.
    """

    def __init__(self, schema: pa.Schema, partition_path: str) -> None:
        self._schema = schema
        self._partition_path = partition_path
        self.count = 0
        """The number of records."""
        self.named: list[RecordError] = []
        """The first records."""

    def add(self, record_key: str, reason: str) -> None:
        """Count a record.

        Args:
            record_key: Its key.
            reason: The reason why it could not be stored.
        """
        self.count += 1
        if len(self.named) < MAX_REPORTED_ERRORS:
            self.named.append(RecordError(record_key, self._partition_path, reason))

    def without_bad_records(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that fit the schema and could be merged; counts the others.

        Args:
            rows: Columns of the schema, the reserved record key, and the errors of the merger if there are any.
        """
        bad = np.zeros(rows.num_rows, dtype=np.bool_)
        reasons: list[tuple[str | None, np.ndarray]] = []
        for field in self._schema:
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
        shown = positions[: MAX_REPORTED_ERRORS - len(self.named)]
        for position in shown:
            reason = next(text for text, has_it in reasons if has_it[position])
            self.add(keys[position].as_py(), reason or rows.column(MERGE_ERROR)[position].as_py())
        self.count += len(positions) - len(shown)
        return rows.filter(pa.array(~bad))


class RowCounter:
    """Counts the rows that one task writes, over all its files: the last part of ``_hoodie_commit_seqno``."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> int:
        """The first of ``count`` consecutive numbers, which no other file of the task gets."""
        first = self._next
        self._next += count
        return first

    def move_to(self, number: int) -> None:
        """Continue with a number that `take` returned: for rows that are written in another order than they came.

        Args:
            number: The next number.
        """
        self._next = number

    def give_back(self, count: int) -> None:
        """Give back the last ``count`` numbers, because their rows were not written."""
        self._next -= count


class HoodieWriteHandle(ABC):
    """One file being written by one task; a context manager.

    `open` (or entering) makes the partition's metadata file, then the marker, then the file. `close` finishes the file
    and returns its `WriteStatus`. An error inside of the context drops the unfinished file and leaves its marker for
    the rollback. If the instant takes no more files, it deletes both.

    Args:
        context: The write.
        partition_path: The partition of the file.
        file_id: The file group.
        file_name: The file.
        task: The task that writes.
        row_counter: The counter of the task; all handles of a task share it.

    Hudi: org.apache.hudi.io.HoodieWriteHandle. Differs: takes a `WriteContext` instead of the table; no I/O in the
    constructor; batches instead of records.
    """

    io_type = IOType.CREATE

    def __init__(
        self,
        context: WriteContext,
        partition_path: str,
        file_id: str,
        file_name: str,
        task: TaskIdentity,
        row_counter: RowCounter | None = None,
    ) -> None:
        self.context = context
        self.partition_path = partition_path
        self.file_id = file_id
        self.task = task
        self._set_file_name(file_name)
        self._row_counter = row_counter or RowCounter()
        self._inserts = self._updates = self._deletes = self._records = self._appended = 0
        self._errors = RecordErrors(context.records.schema, partition_path)
        self._without_effect = WithoutEffect()
        self._started = 0.0

    def _set_file_name(self, file_name: str) -> None:
        self.file_name = file_name
        self.path = join(self.context.base_path, self.partition_path, file_name)

    @property
    def _stored_file_name(self) -> str:
        """The value of ``_hoodie_file_name`` in new rows."""
        return self.file_name

    @abstractmethod
    def _open_file(self) -> None:
        """Start the file, after its marker was made."""

    @abstractmethod
    def _close_file(self) -> tuple[int, int]:
        """Finish the file and return the numbers of rows and bytes. If it fails, `_abort_file` is called."""

    @abstractmethod
    def _abort_file(self) -> bool:
        """Leave the file unfinished; False if no file is open."""

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._abort_file():
            return
        try:
            # If the instant was completed without this attempt, no rollback will delete the file.
            if not self._markers().is_open:
                self._delete_file_and_marker()
        except HoodieIOException as problem:
            logger.warning("could not find out whether to delete %s: %s", self.path, problem)

    def open(self) -> None:
        """Announce the file by its marker and start it.

        Raises:
            HoodieIOException: Storage failed.
            HoodieCommitException: The instant takes no more files, because it is being completed or rolled back.
        """
        self._started = time.monotonic()
        context, markers = self.context, self._markers()
        _, has_metafile = side_by_side(
            context.storage,
            lambda: markers.refuse_if_closed(self.path),
            lambda: has_partition_metadata(context.storage, context.base_path, self.partition_path),
        )
        # Also where the file group has files: hudi-rs writes unpartitioned tables without that file.
        if not has_metafile:
            ensure_partition_metadata(context.storage, context.base_path, self.partition_path, context.instant_time)
        markers.create(self.partition_path, self.file_name, self.io_type)
        self._open_file()

    def close(self) -> WriteStatus:
        """Finish the file.

        Returns:
            Its status, with statistics for the commit.

        Raises:
            HoodieCommitException: The instant takes no more files, or the marker was deleted, because the driver rolled
                the instant back or completed it without this attempt. The file is deleted again.
        """
        rows, size_bytes = self._close_file()
        if not self._is_wanted():
            self._delete_file_and_marker()
            raise self._too_late()
        elapsed_ms = int((time.monotonic() - self._started) * 1000)
        logger.debug("wrote %s: %d rows, %d bytes in %d ms", self.path, rows, size_bytes, elapsed_ms)
        return WriteStatus(
            file_id=self.file_id,
            partition_path=self.partition_path,
            stat=self._stat(rows, size_bytes, elapsed_ms),
            total_record_count=self._records,
            error_count=self._errors.count,
            errors=tuple(self._errors.named),
            without_effect=self._without_effect,
            appended_count=self._appended,
        )

    def _stat(self, rows: int, size_bytes: int, elapsed_ms: int) -> HoodieWriteStat:
        """The statistics of the finished file.

        Args:
            rows: Its rows.
            size_bytes: Its size.
            elapsed_ms: The time since it was opened.
        """
        created = self.io_type is IOType.CREATE
        previous_commit, previous_file = self._previous_version()
        return HoodieWriteStat(
            file_id=self.file_id,
            partition_path=self.partition_path,
            path=join(self.partition_path, self.file_name) if self.partition_path else self.file_name,
            prev_commit=previous_commit,
            prev_base_file=previous_file,
            num_writes=rows,
            num_deletes=self._deletes,
            num_update_writes=self._updates,
            num_inserts=self._inserts,
            total_write_bytes=size_bytes,
            total_write_errors=self._errors.count,
            file_size_bytes=size_bytes,
            runtime_stats=RuntimeStats(
                total_create_time=elapsed_ms if created else 0, total_upsert_time=0 if created else elapsed_ms
            ),
        )

    def _previous_version(self) -> tuple[str, str | None]:
        """The instant and the name of the file group's previous base file."""
        return NULL_COMMIT, None

    def _is_wanted(self) -> bool:
        """Whether the instant still takes the file: the instant is open, and the marker exists."""
        markers = self._markers()
        has_marker, is_open = side_by_side(
            self.context.storage,
            lambda: markers.exists(self.partition_path, self.file_name, self.io_type),
            lambda: markers.is_open,
        )
        return has_marker and is_open

    def _too_late(self) -> HoodieCommitException:
        return HoodieCommitException(
            f"{self.path} came too late: instant {self.context.instant_time} was rolled back or completed while "
            "this task was writing; its file was deleted and nothing of it counts"
        )

    def _markers(self) -> WriteMarkers:
        return WriteMarkers(
            self.context.storage, join(self.context.base_path, METAFOLDER_NAME), self.context.instant_time
        )

    def _delete_file(self) -> None:
        self.context.storage.delete_file(self.path)

    def _delete_file_and_marker(self) -> None:
        self._delete_file()
        # The file goes first: as long as its marker exists, a rollback would still find it.
        self._markers().delete(self.partition_path, self.file_name, self.io_type)

    def _new_rows(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The columns of incoming rows for storage, meta columns first."""
        count = rows.num_rows
        if self.context.has_virtual_keys:
            meta = [pa.nulls(count, pa.string())] * 4
        else:
            # ``<instant>_<task partition>_<row>``, unique within the commit.
            first = self._row_counter.take(count)
            meta = [
                constant_column(self.context.instant_time, count),
                numbered_strings(f"{self.context.instant_time}_{self.task.partition_index}_", first, count),
                rows.column(RECORD_KEY),
                constant_column(self.partition_path, count),
            ]
        return [
            *meta,
            constant_column(self._stored_file_name, count),
            *(rows.column(name) for name in self.context.records.schema.names),
        ]


def constant_column(value: str, count: int) -> pa.DictionaryArray:
    """A column of ``count`` equal strings, as a dictionary of one value."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), pa.array([value], pa.string()))
