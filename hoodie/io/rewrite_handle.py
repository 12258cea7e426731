"""A handle that writes rows of other files: of small files of the commit that is being made, and of clusterings.

Hudi: org.apache.hudi.io.HoodieBinaryCopyHandle. Differs: copies only the row groups that pay, and joins the other rows.
"""

from __future__ import annotations

import attrs
import pyarrow as pa

from hoodie.common.model.record_columns import FILE_NAME_META, RECORD_KEY_META
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.model.write_status import WriteStatus
from hoodie.engine.task_identity import TaskIdentity
from hoodie.io.base_file_handle import HoodieBaseFileHandle
from hoodie.io.file_group_reader import RowGroupCopy
from hoodie.io.parquet.parquet_reader import bytes_of_base_file
from hoodie.io.write_context import WriteContext
from hoodie.io.write_handle import constant_column
from hoodie.storage.storage_path import join


class HoodieRewriteHandle(HoodieBaseFileHandle):
    """Write rows of other files to one file; only the file name changes in the rows.

    Memory: one row group.

    Args:
        context: The write.
        partition_path: The partition of the file.
        file_id: The file group; a new one, or the one of ``before``.
        task: The task that writes.
        before: The status of the file that this commit wrote to an existing file group, and that this file replaces.
    """

    def __init__(
        self,
        context: WriteContext,
        partition_path: str,
        file_id: str,
        task: TaskIdentity,
        before: WriteStatus | None = None,
    ) -> None:
        super().__init__(context, partition_path, file_id, task)
        self._before = before
        self.io_type = IOType.CREATE if before is None else IOType.MERGE
        if before is not None:
            self._log_changes()

    def open(self) -> None:
        """Start the file, with the changes of the file that it replaces; see `HoodieWriteHandle.open`."""
        super().open()
        if self._changes is None or self._before is None:
            return
        try:
            for path in self._before.stat.cdc_stats or ():
                self._changes.copy(join(self.context.base_path, path))
        except BaseException:
            self._abort_file()
            raise

    def write(self, rows: pa.RecordBatch, are_new: bool = True) -> pa.RecordBatch:
        """Append rows of another file until this one has reached ``hoodie.parquet.max.file.size``.

        Args:
            rows: All columns of base files, including the meta columns; the file name may be missing.
            are_new: Whether the rows are new to the file group.

        Returns:
            The rows that did not fit.
        """
        columns = [
            constant_column(self.file_name, rows.num_rows) if name == FILE_NAME_META else rows.column(name)
            for name in self.context.schema_with_meta.names
        ]
        stored = pa.RecordBatch.from_arrays(columns, names=self.context.schema_with_meta.names)
        written = self._write_until_full(stored, rows.column(RECORD_KEY_META))
        if are_new:
            self._inserts += written
            if self._changes is not None:
                self._changes.insert(rows.column(RECORD_KEY_META).slice(0, written), stored.slice(0, written))
        return rows.slice(written)

    def copy(self, stored: RowGroupCopy) -> bool:
        """Append a row group of another file as it is stored, with the name of this file.

        Args:
            stored: The row group.

        Returns:
            False if it does not fit; an empty file takes any.

        Raises:
            HoodieMissingFileException: The other file does not exist any more.
            HoodieCorruptedDataException: The other file is cut short or damaged.
        """
        if not self.writer.row_group_fits(stored.group, self._full_bytes):
            return False
        with bytes_of_base_file(self.context.storage, stored.group.path, stored.file_bytes) as source:
            self.writer.copy_row_group(stored.group, source, stored.keys, {FILE_NAME_META: self.file_name})
        self._inserts += stored.group.rows
        return True

    def close(self) -> WriteStatus:
        """Finish the file; see `HoodieWriteHandle.close`."""
        status = super().close()
        if self._before is None:
            return status
        old = self._before.stat
        stat = attrs.evolve(
            status.stat,
            num_inserts=old.num_inserts + status.stat.num_inserts,
            num_update_writes=old.num_update_writes,
            num_deletes=old.num_deletes,
        )
        return attrs.evolve(status, stat=stat)

    def _previous_version(self) -> tuple[str, str | None]:
        if self._before is None:
            return super()._previous_version()
        return self._before.stat.prev_commit, self._before.stat.prev_base_file
