"""Write the first base file of a new file group.

Hudi: org.apache.hudi.io.HoodieCreateHandle.
"""

from __future__ import annotations

import pyarrow as pa

from hoodie.common.model.write_operation_type import IOType
from hoodie.io.write_handle import HoodieWriteHandle

__all__ = ["HoodieCreateHandle"]


class HoodieCreateHandle(HoodieWriteHandle):
    """Write new records to the first base file of a file group.

    Memory: one row group.

    Hudi: org.apache.hudi.io.HoodieCreateHandle. Differs: works on batches.
    """

    io_type = IOType.CREATE

    @property
    def can_write(self) -> bool:
        """Whether the file is still below ``hoodie.parquet.max.file.size``."""
        return self.writer.estimated_size_bytes < self.context.config.storage.parquet_max_file_size

    def write(self, rows: pa.RecordBatch) -> None:
        """Append incoming rows.

        Args:
            rows: User columns of the write's schema (any order) and the reserved record key; rows that ask for a
                delete are not among them.
        """
        self._records += rows.num_rows
        good = self._without_bad_records(rows)
        if good.num_rows:
            self._inserts += good.num_rows
            self.writer.write(
                pa.RecordBatch.from_arrays(self._new_rows(good), names=self.context.schema_with_meta.names)
            )
