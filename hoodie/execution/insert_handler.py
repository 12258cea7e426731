"""Write new records to new file groups by create handles.

Hudi: org.apache.hudi.execution.CopyOnWriteInsertHandler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import attrs
import numpy as np
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

MAX_BUFFERED_BYTES = 256 << 20
"""Arrow bytes that all open files of a task may hold together; above, the largest writes its row group early."""

MAX_OPEN_FILES = 256
"""Open files of a task; at the limit the largest is finished early, and its partition continues in another file."""

_BYTES_OF_PART = 256
"""The memory of rows that wait, beside their values and numbers: much of it, if most partitions get few rows."""


class CopyOnWriteInsertHandler:
    """Writes new records to new file groups: one open file for each partition, and the next one when it is full.

    Batches with rows of several partitions wait, as long as there is memory. At the end the rows of one partition after
    the other are copied out of them and written, so the memory of these copies is used again for each file. Taking them
    out batch after batch needs fresh memory for all rows, which costs as much time as the copying.

    Memory: the row groups that are not written yet and the batches that wait, together at most `MAX_BUFFERED_BYTES`,
    and one batch.

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
        self._waiting: deque[_WaitingRows] = deque()
        self._waiting_bytes = 0

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
            self._add(batch)
            self._bound_memory()
        waiting: dict[str, list[_WaitingRows]] = {path: [] for path in self._handles}
        for rows in self._waiting:
            waiting.setdefault(rows.partition_path, []).append(rows)
        self._waiting.clear()
        for partition_path in list(waiting):
            self._write_waiting(waiting.pop(partition_path))
            if partition_path in self._handles:  # else it was finished to make room
                self._statuses.append(self._handles[partition_path].close())
                del self._handles[partition_path]
        return self._statuses

    def _add(self, batch: pa.RecordBatch) -> None:
        """Write a batch, or let it wait; rows get their numbers in the order in which they come."""
        if not batch.num_rows:
            return
        parts = list(rows_by_value(batch.column(PARTITION_PATH)))
        batch = batch.select(columns_of_handles(batch.schema))
        if len(parts) == 1 and not self._waiting:
            self._write(parts[0][0], batch)
        elif self._is_sorted:
            for partition_path, numbers in parts:
                self._write(partition_path, take_rows(batch, pa.array(numbers)))
        else:
            for partition_path, numbers in parts:
                first = self._row_counter.take(len(numbers))
                self._waiting.append(_WaitingRows(partition_path, batch, numbers, first))
            self._waiting_bytes += batch.nbytes + sum(_BYTES_OF_PART + numbers.nbytes for _, numbers in parts)
            if 2 * self._waiting_bytes + self._buffered_bytes > MAX_BUFFERED_BYTES:
                self._write_all_waiting()

    def _write_all_waiting(self) -> None:
        """Write all rows that wait, in the order in which they came: a batch is freed with its last rows."""
        while self._waiting:
            self._write_waiting([self._waiting.popleft()])
        self._waiting_bytes = 0

    def _write_waiting(self, waiting: list[_WaitingRows]) -> None:
        """Write rows that wait, with the numbers that they got when they came."""
        counter = self._row_counter
        end = counter.take(0)
        for rows in waiting:
            counter.move_to(rows.first_number)
            self._write(rows.partition_path, rows.taken())
        counter.move_to(end)

    @property
    def _buffered_bytes(self) -> int:
        return sum(handle.writer.buffered_bytes for handle in self._handles.values())

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
        held = self._buffered_bytes
        while held > MAX_BUFFERED_BYTES:
            largest = max(writers, key=lambda writer: writer.buffered_bytes)
            held -= largest.buffered_bytes
            largest.flush()


@attrs.frozen(eq=False)
class _WaitingRows:
    """Some rows of a batch.

    Attributes:
        partition_path: The partition that they go to.
        batch: The batch.
        rows: The numbers of the rows in it.
        first_number: The number of the first row among all rows of the task.
    """

    partition_path: str
    batch: pa.RecordBatch
    rows: np.ndarray
    first_number: int

    def taken(self) -> pa.RecordBatch:
        """The rows."""
        if len(self.rows) == self.batch.num_rows:
            return self.batch
        return take_rows(self.batch, pa.array(self.rows))


def upserts_only(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without rows that ask for a delete: new records have nothing to delete."""
    operations = batch.column(OPERATION).to_numpy()
    if (operations == RecordOperation.UPSERT).all():
        return batch
    return batch.filter(pa.array(operations == RecordOperation.UPSERT))


def columns_of_handles(schema: pa.Schema) -> list[str]:
    """The columns of rows in flight that write handles need."""
    return [name for name in schema.names if name not in RESERVED_COLUMNS or name in (RECORD_KEY, MERGE_ERROR)]
