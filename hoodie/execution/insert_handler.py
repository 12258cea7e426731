"""Write new records to new file groups by create handles.

Hudi: org.apache.hudi.execution.CopyOnWriteInsertHandler.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import pyarrow as pa

from hoodie.common.data.grouped_rows import rows_by_value, take_rows
from hoodie.common.fs.file_names import make_file_id, new_file_id_prefix
from hoodie.common.model.record_columns import MERGE_ERROR, OPERATION, PARTITION_PATH, RECORD_KEY, RESERVED_COLUMNS
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.model.write_status import WriteStatus
from hoodie.engine.task_identity import TaskIdentity
from hoodie.io.create_handle import HoodieCreateHandle
from hoodie.io.write_context import WriteContext
from hoodie.io.write_handle import RowCounter

__all__ = ["CopyOnWriteInsertHandler", "columns_of_handles", "upserts_only"]

MAX_BUFFERED_BYTES = 256 << 20
"""Arrow bytes that all open files of a task may hold together; above, the largest writes its row group early."""

MAX_OPEN_FILES = 256
"""Open files of a task; at the limit the largest is finished early, and its partition continues in another file."""


class CopyOnWriteInsertHandler:
    """Writes new records to new file groups: one open file for each partition, and the next one when it is full.

    Memory: the row groups that are not written yet, together at most `MAX_BUFFERED_BYTES`, and one batch.

    Args:
        context: The write.
        task: The task that writes.
        file_id_prefix: The prefix of the new file groups of a bucket; None makes one for each partition.
        is_sorted: Whether all rows of a partition path are adjacent, so that a file is finished when the next begins.
        row_counter: The counter of the task, if other handles of it have written rows.

    Hudi: org.apache.hudi.execution.CopyOnWriteInsertHandler.
    """

    def __init__(
        self,
        context: WriteContext,
        task: TaskIdentity,
        file_id_prefix: str | None = None,
        is_sorted: bool = False,
        row_counter: RowCounter | None = None,
    ) -> None:
        self._context = context
        self._task = task
        self._file_id_prefix = file_id_prefix
        self._is_sorted = is_sorted
        self._row_counter = row_counter or RowCounter()
        self._handles: dict[str, HoodieCreateHandle] = {}
        self._files_made: dict[str, tuple[str, int]] = {}
        self._statuses: list[WriteStatus] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for handle in self._handles.values():
            handle.__exit__(kind, error, traceback)

    def consume(self, batches: Iterator[pa.RecordBatch]) -> list[WriteStatus]:
        """Write all rows of all batches.

        Args:
            batches: User columns, record key and partition path; only upserts.

        Returns:
            One status for each file.
        """
        for batch in batches:
            for partition_path, rows in split_by_partition(batch):
                self._write(partition_path, rows)
            self._bound_memory()
        for handle in self._handles.values():
            self._statuses.append(handle.close())
        self._handles.clear()
        return self._statuses

    def _write(self, partition_path: str, rows: pa.RecordBatch) -> None:
        while rows.num_rows:
            handle = self._handles.get(partition_path) or self._open_handle(partition_path)
            rows = handle.write(rows)
            if rows.num_rows:
                self._statuses.append(handle.close())
                del self._handles[partition_path]

    def _open_handle(self, partition_path: str) -> HoodieCreateHandle:
        self._make_room()
        handle = HoodieCreateHandle(
            self._context, partition_path, self._next_file_id(partition_path), self._task, self._row_counter
        )
        handle.open()
        self._handles[partition_path] = handle
        return handle

    def _make_room(self) -> None:
        """Finish files before a further one is opened."""
        if self._is_sorted:
            done = list(self._handles)
        elif len(self._handles) >= MAX_OPEN_FILES:
            done = [max(self._handles, key=lambda path: self._handles[path].writer.rows_written)]
        else:
            done = []
        for partition_path in done:
            # It stays among the open files until it is closed, so that an error on the way finds it.
            self._statuses.append(self._handles[partition_path].close())
            del self._handles[partition_path]

    def _next_file_id(self, partition_path: str) -> str:
        prefix, count = self._files_made.get(partition_path) or (self._file_id_prefix or new_file_id_prefix(), 0)
        self._files_made[partition_path] = (prefix, count + 1)
        return make_file_id(prefix, count)

    def _bound_memory(self) -> None:
        writers = [handle.writer for handle in self._handles.values()]
        held = sum(writer.buffered_bytes for writer in writers)
        while held > MAX_BUFFERED_BYTES:
            largest = max(writers, key=lambda writer: writer.buffered_bytes)
            held -= largest.buffered_bytes
            largest.flush()


def upserts_only(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without rows that ask for a delete: new records have nothing to delete."""
    operations = batch.column(OPERATION).to_numpy()
    if (operations == RecordOperation.UPSERT).all():
        return batch
    return batch.filter(pa.array(operations == RecordOperation.UPSERT))


def columns_of_handles(schema: pa.Schema) -> list[str]:
    """The columns of rows in flight that write handles need."""
    return [name for name in schema.names if name not in RESERVED_COLUMNS or name in (RECORD_KEY, MERGE_ERROR)]


def split_by_partition(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each partition path, in their order; of the reserved columns only those that handles need."""
    if batch.num_rows == 0:
        return
    needed = columns_of_handles(batch.schema)
    partition_paths = batch.column(PARTITION_PATH)
    batch = batch.select(needed)
    for partition_path, numbers in rows_by_value(partition_paths):
        if len(numbers) == batch.num_rows:
            yield partition_path, batch
            return
        yield partition_path, take_rows(batch, pa.array(numbers))
