"""The rows of one file group: the path by which queries read them.

Hudi: org.apache.hudi.common.table.read.HoodieFileGroupReader.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hoodie.common.model.file_slice import FileSlice
from hoodie.exception import HoodieCorruptedDataException, HoodieNotSupportedException
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
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

    def iter_batches(self, columns: list[str], filters: pc.Expression | None = None) -> Iterator[pa.RecordBatch]:
        """The rows as batches; row groups whose statistics exclude the filter are not read. Memory: some batches.

        Args:
            columns: Names, in the order of the result.
            filters: Which rows; None for all.

        Raises:
            HoodieCorruptedDataException: A file cannot be read.
            HoodieNotSupportedException: The slice has log files.
        """
        base_file = self._slice.base_file
        if self._slice.log_files or base_file is None:
            raise HoodieNotSupportedException(
                f"file group {self._slice.file_id} of {self._slice.partition_path!r} has log files, which hoodie does "
                "not read yet"
            )
        with HoodieParquetReader(self._storage, base_file.path) as reader:
            file_schema = reader.file_schema
        if all(
            name not in file_schema.names or file_schema.field(name).type == self._schema.field(name).type
            for name in self._schema.names
        ):
            yield from self._scan(base_file.path, columns, filters)
            return
        # A filter may ask for any column.
        wanted = pa.schema(
            list(self._schema) if filters is not None else [self._schema.field(name) for name in columns]
        )
        with HoodieParquetReader(self._storage, base_file.path) as reader:
            for batch in reader.iter_batches(wanted.names, wanted, batch_rows=READ_BATCH_ROWS):
                rows = pa.Table.from_batches([batch])
                yield from (rows.filter(filters) if filters is not None else rows).select(columns).to_batches()

    def _scan(self, path: str, columns: list[str], filters: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        try:
            with self._storage.open_input_file(path) as source:
                fragment = ds.ParquetFileFormat().make_fragment(source)
                scanner = fragment.scanner(
                    schema=self._schema, columns=columns, filter=filters, batch_size=READ_BATCH_ROWS,
                    batch_readahead=2, fragment_readahead=1,
                )  # fmt: skip
                for batch in scanner.to_reader():
                    if batch.num_rows:
                        yield batch
        except (pa.ArrowInvalid, pa.ArrowIOError) as error:
            raise HoodieCorruptedDataException(
                f"{path} cannot be read ({error}); restore the file, or roll back the commit that wrote it"
            ) from error
