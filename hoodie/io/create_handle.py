"""A handle that writes the first base file of a new file group.

Hudi: org.apache.hudi.io.HoodieCreateHandle.
"""

from __future__ import annotations

import pyarrow as pa

from hoodie.io.base_file_handle import HoodieBaseFileHandle
from hoodie.io.parquet.parquet_writer import HoodieParquetWriter


class HoodieCreateHandle(HoodieBaseFileHandle):
    """Write new records to the first base file of a file group.

    Memory: one row group.

    Hudi: org.apache.hudi.io.HoodieCreateHandle. Differs: works on batches.
    """

    def write(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Append incoming rows until the file has reached ``hoodie.parquet.max.file.size``.

        Args:
            rows: User columns of the write's schema (any order) and the reserved record key; no rows that ask for a
                delete.

        Returns:
            The rows that did not fit, for another file; usually none.
        """
        remaining_rows = self._write_new(rows)
        self._records += rows.num_rows - remaining_rows.num_rows
        return remaining_rows

    def measure(self, rows: pa.RecordBatch) -> int:
        """The bytes that rows take in a file, without footer. It encodes them; the handle may be closed.

        Args:
            rows: See `write`.
        """
        stream = pa.BufferOutputStream()
        schema, settings = self.context.schema_with_meta, self.context.config.storage
        with HoodieParquetWriter(stream, schema, settings, bloom_filter=None, avro_schema=None) as writer:
            writer.write(pa.RecordBatch.from_arrays(self._new_rows(rows), names=schema.names))
            writer.flush()
            return int(stream.tell())
