"""The task of a clustering: rewrite the file slices of one group.

Hudi: org.apache.hudi.client.clustering.run.strategy.{MultipleSparkJobExecutionStrategy,
SparkSortAndSizeExecutionStrategy, SparkSingleFileSortExecutionStrategy}.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
import pyarrow as pa

from hoodie.common.fs.file_names import make_file_id, new_file_id_prefix
from hoodie.common.model.record_columns import FILE_NAME_META
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.util.queue.bounded_in_memory_executor import BoundedInMemoryExecutor
from hoodie.engine.task_identity import TaskIdentity
from hoodie.execution.bulkinsert.row_order import RowOrder
from hoodie.execution.bulkinsert.row_sorter import RowSorter
from hoodie.io.file_group_reader import READ_BATCH_ROWS, HoodieFileGroupReader, RowGroupCopy
from hoodie.io.log_row_store import concat_rows
from hoodie.io.parquet.parquet_writer import copied_form
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.io.rewrite_handle import HoodieRewriteHandle
from hoodie.io.write_context import WriteContext
from hoodie.table.action.cluster.clustering_plan_strategy import ClusteringInput

_FULL_BYTES = 16 << 20
"""Batches of so many bytes are written as they are."""


@attrs.frozen
class ClusterGroup:
    """Task: writes the rows of a group to new file groups, in their order.

    Rows keep their meta columns but for the file name, so that queries by commit time still find them.

    Without sort columns, row groups of ``hoodie.clustering.binary.copy.row.group.min.bytes`` are copied as they are
    stored. The rows of smaller ones are joined, and come behind the row groups that were copied meanwhile::

        row groups   file 1: 9 MB, 1 MB   file 2: 9 MB, 1 MB   file 3: 9 MB, 1 MB
        new file     9 MB, 9 MB, 9 MB, 3 MB

    Memory: with sort columns up to ``hoodie.memory.clustering.max.size``, else some batches; and the row group that is
    being written.

    Attributes:
        context: The clustering; files are closed at the largest size of its configuration.
        order: The order of the rows; None leaves them as they are stored.
    """

    context: WriteContext
    order: RowOrder | None

    def __call__(self, task: TaskIdentity, found: ClusteringInput) -> list[WriteStatus]:
        """Write the files; returns their statuses, none if all rows were deleted."""
        files = _NewFiles(self.context, found.partition_path, task)
        try:
            BoundedInMemoryExecutor(
                [self._ordered(found)],
                files.write_all,
                limit_bytes=self.context.config.write.write_buffer_limit_bytes,
                size_of=lambda batch: batch.nbytes,
            ).execute()
            return files.close()
        except BaseException as error:
            files.abort(error)
            raise

    def _ordered(self, found: ClusteringInput) -> Iterator[pa.RecordBatch | RowGroupCopy]:
        if self.order is None:
            return _of_full_size(self._as_stored(found))
        rows = _of_full_size(self._stored(found))
        limits = self.context.config.log_merge
        return RowSorter(self.order, limits.clustering_max_size, limits.spillable_map_path).sorted(rows)

    def _stored(self, found: ClusteringInput) -> Iterator[pa.RecordBatch]:
        """The rows of the slices, log files merged, one slice after the other."""
        for reader in self._readers(found):
            yield from reader.iter_batches()

    def _as_stored(self, found: ClusteringInput) -> Iterator[pa.RecordBatch | RowGroupCopy]:
        """The same rows, some of them to be copied."""
        config = self.context.config
        least = config.clustering.binary_copy_row_group_min_bytes
        form = copied_form(self.context.schema_with_meta, config.storage, least)
        with_keys = not self.context.has_virtual_keys or self.context.placement.written_keys is not None
        for reader in self._readers(found):
            yield from reader.iter_copies(form, with_keys)

    def _readers(self, found: ClusteringInput) -> Iterator[HoodieFileGroupReader]:
        context, schema = self.context, self.context.schema_with_meta
        columns = [name for name in schema.names if name != FILE_NAME_META]
        stored = HoodieReaderContext(context.storage, schema, columns, context.records.log_merging)
        for file_slice in found.slices:
            yield HoodieFileGroupReader(stored, file_slice)


def _of_full_size(parts: Iterable[pa.RecordBatch | RowGroupCopy]) -> Iterator[pa.RecordBatch | RowGroupCopy]:
    """The same rows in larger batches, where files are small: each batch that is written costs as much as some rows."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in parts:
        if isinstance(batch, RowGroupCopy):
            yield batch
            continue
        if held and batch.schema != held[0].schema:
            # Rows of log files are not dictionaries.
            yield concat_rows(held)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= READ_BATCH_ROWS or size >= _FULL_BYTES:
            yield concat_rows(held)
            held, rows, size = [], 0, 0
    if held:
        yield concat_rows(held)


class _NewFiles:
    """The new file groups of one task, written one after the other.

    Args:
        context: The clustering; files are closed at the largest size of its configuration.
        partition_path: The partition.
        task: The task.
    """

    def __init__(self, context: WriteContext, partition_path: str, task: TaskIdentity) -> None:
        self._context = context
        self._partition_path = partition_path
        self._task = task
        self._prefix = new_file_id_prefix()
        self._handle: HoodieRewriteHandle | None = None
        self._statuses: list[WriteStatus] = []

    def write_all(self, parts: Iterator[pa.RecordBatch | RowGroupCopy]) -> None:
        """Write all rows."""
        for part in parts:
            if isinstance(part, RowGroupCopy):
                if not self._opened().copy(part):
                    self._close_file()
                    self._opened().copy(part)
                continue
            rows = part
            while rows.num_rows:
                rows = self._opened().write(rows)
                if rows.num_rows:
                    self._close_file()

    def close(self) -> list[WriteStatus]:
        """Finish the last file; the statuses of all."""
        self._close_file()
        return self._statuses

    def abort(self, error: BaseException) -> None:
        """Leave the file that is being written."""
        if self._handle is not None:
            self._handle.__exit__(type(error), error, error.__traceback__)

    def _opened(self) -> HoodieRewriteHandle:
        if self._handle is None:
            file_id = make_file_id(self._prefix, len(self._statuses))
            self._handle = HoodieRewriteHandle(self._context, self._partition_path, file_id, self._task)
            self._handle.open()
        return self._handle

    def _close_file(self) -> None:
        if self._handle is not None:
            self._statuses.append(self._handle.close())
            self._handle = None
