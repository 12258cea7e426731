"""The rows of one file group: the path by which queries read them.

Hudi: org.apache.hudi.common.table.read.HoodieFileGroupReader.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import FileSlice
from hoodie.exception import HoodieNotSupportedException
from hoodie.io.parquet.parquet_reader import HoodieParquetReader, translated_errors
from hoodie.storage.storage import HoodieStorage

__all__ = ["HoodieFileGroupReader"]

READ_BATCH_ROWS = 1 << 16


class HoodieFileGroupReader:
    """Reads the rows of one file slice.

    Args:
        storage: Where the files are.
        file_slice: What to read.
        schema: The table's schema, meta columns included; older files are read in it.

    Hudi: org.apache.hudi.common.table.read.HoodieFileGroupReader.
    """

    def __init__(self, storage: HoodieStorage, file_slice: FileSlice, schema: pa.Schema) -> None:
        self._storage = storage
        self._slice = file_slice
        self._schema = schema

    def iter_batches(self, columns: list[str], row_filter: RowFilter | None = None) -> Iterator[pa.RecordBatch]:
        """The rows as batches; row groups whose statistics exclude the filter are not read. Memory: some batches.

        Args:
            columns: Names, in the order of the result.
            row_filter: Which rows; None for all.

        Raises:
            HoodieIOException: There is no such file, or storage failed.
            HoodieCorruptedDataException: A file is damaged.
            HoodieNotSupportedException: The slice has log files.
            HoodieSchemaException: The filter cannot be computed of the rows.
        """
        base_file = self._slice.base_file
        if self._slice.log_files or base_file is None:
            raise HoodieNotSupportedException(
                f"file group {self._slice.file_id} of {self._slice.partition_path!r} has log files, which hoodie does "
                "not read yet"
            )
        with HoodieParquetReader(self._storage, base_file.path) as reader:
            file_schema = reader.file_schema
        if row_filter is None:
            yield from self._scan(base_file.path, file_schema, columns, None)
        elif row_filter.is_exact and self._is_stored_as_wanted(file_schema):
            yield from self._scan(base_file.path, file_schema, columns, row_filter.pushed)
        else:
            wanted = row_filter.read_columns(columns, self._schema)
            for batch in self._scan(base_file.path, file_schema, wanted, row_filter.pushed):
                yield from row_filter.take(batch).select(columns).to_batches()

    def _is_stored_as_wanted(self, file_schema: pa.Schema) -> bool:
        """Whether the columns that the file has are of the table's types."""
        return all(
            name not in file_schema.names or file_schema.field(name).type == self._schema.field(name).type
            for name in self._schema.names
        )

    def _scan(
        self, path: str, file_schema: pa.Schema, columns: list[str], pushed: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        """Rows that may be wanted; all of them where the file has columns of other types."""
        if not self._is_stored_as_wanted(file_schema):
            wanted = pa.schema([self._schema.field(name) for name in columns])
            with HoodieParquetReader(self._storage, path) as reader:
                yield from reader.iter_batches(columns, wanted, batch_rows=READ_BATCH_ROWS)
            return
        # Loaded when something is read: it loads pandas, which takes longer than all of hoodie.
        import pyarrow.dataset as ds

        with translated_errors(path), self._storage.open_input_file(path) as source:
            fragment = ds.ParquetFileFormat().make_fragment(source)
            scanner = fragment.scanner(
                schema=self._schema, columns=columns, filter=pushed, batch_size=READ_BATCH_ROWS,
                batch_readahead=2, fragment_readahead=1,
            )  # fmt: skip
            for batch in scanner.to_reader():
                if batch.num_rows:
                    yield batch
