"""The rows of one file group: the one way to them for queries, merges, repairs and samples.

Hudi: org.apache.hudi.common.table.read.HoodieFileGroupReader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.config.storage_config import HoodieStorageConfig
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import COMMIT_TIME_META
from hoodie.common.table.timeline.instant_range import InstantRange
from hoodie.exception import HoodieNotSupportedException
from hoodie.io.merge_source import MergeSource
from hoodie.io.parquet.parquet_reader import HoodieParquetReader, scan_file
from hoodie.merge.merge_spec import MergeSpec
from hoodie.storage.storage import HoodieStorage

__all__ = ["HoodieFileGroupReader"]

READ_BATCH_ROWS = 1 << 16


class HoodieFileGroupReader:
    """Reads the rows of one file slice.

    Args:
        storage: Where the files are.
        file_slice: What to read.
        schema: The table's schema, meta columns included; older files are read in it.
        merge_spec: How records of one key become one; `open_for_merge` needs it.
        instant_range: The commits whose rows are wanted; None for all. Then ``schema`` has the commit time.
        columns: Names, in the order of the result; None for all of the schema.
        row_filter: Which rows; None for all.

    Raises:
        HoodieNotSupportedException: The slice has log files.

    Hudi: org.apache.hudi.common.table.read.HoodieFileGroupReader. Differs: takes copy-on-write slices only.
    """

    def __init__(
        self,
        storage: HoodieStorage,
        file_slice: FileSlice,
        schema: pa.Schema,
        *,
        merge_spec: MergeSpec | None = None,
        instant_range: InstantRange | None = None,
        columns: Sequence[str] | None = None,
        row_filter: RowFilter | None = None,
    ) -> None:
        if file_slice.log_files or file_slice.base_file is None:
            raise HoodieNotSupportedException(
                f"file group {file_slice.file_id} of {file_slice.partition_path!r} has log files, which hoodie does "
                "not read yet"
            )
        self._storage = storage
        self._path = file_slice.base_file.path
        self._schema = schema
        self._merge_spec = merge_spec
        self._instant_range = instant_range
        self._columns = list(columns) if columns is not None else schema.names
        self._row_filter = row_filter

    def scan(self) -> Iterator[pa.RecordBatch]:
        """The rows as a query reads them: on all cores, some batches ahead.

        Row groups whose statistics exclude the filter are not read. Memory: some batches.

        Raises:
            HoodieIOException: There is no such file, or storage failed.
            HoodieCorruptedDataException: The file is damaged.
            HoodieSchemaException: The filter cannot be computed of the rows.
        """
        with HoodieParquetReader(self._storage, self._path) as reader:
            file_schema = reader.file_schema
        if not self._is_stored_as_wanted(file_schema):
            yield from self.iter_batches()
        elif self._instant_range is None and (self._row_filter is None or self._row_filter.is_exact):
            yield from self._scan(self._columns)
        else:
            yield from self._wanted(self._scan(self._read_columns))

    def iter_batches(self, batch_rows: int = READ_BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows as a task reads them beside others: on this thread, batch after batch.

        Memory: one batch.

        Args:
            batch_rows: Most rows of a batch.

        Raises:
            HoodieException: As of `scan`; or a column cannot be turned into the type of the schema.
        """
        with HoodieParquetReader(self._storage, self._path) as reader:
            yield from self._wanted(reader.iter_batches(self._read_columns, self._schema, batch_rows=batch_rows))

    def open_for_merge(self, config: HoodieStorageConfig) -> MergeSource:
        """All rows, to be merged with incoming ones into the next version of the file group; the caller closes it.

        Args:
            config: How the next version is stored.

        Raises:
            HoodieIOException: There is no such file, or storage failed.
            HoodieCorruptedDataException: It is not a whole Parquet file.
        """
        assert self._merge_spec is not None
        return MergeSource(self._storage, self._path, self._schema, self._merge_spec, config)

    @property
    def _read_columns(self) -> list[str]:
        """The columns of the result, and those that say which rows are in it."""
        if self._row_filter is None:
            names = dict.fromkeys(self._columns)
        else:
            names = dict.fromkeys(self._row_filter.read_columns(self._columns, self._schema))
        return list(names if self._instant_range is None else names | {COMMIT_TIME_META: None})

    def _wanted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the filter and of the instants, in the columns of the result."""
        for batch in batches:
            rows = batch
            if self._instant_range is not None:
                rows = rows.filter(self._instant_range.holds(rows.column(COMMIT_TIME_META)))
            if self._row_filter is not None:
                yield from self._row_filter.take(rows).select(self._columns).to_batches()
            elif rows.num_rows:
                yield rows.select(self._columns)

    def _is_stored_as_wanted(self, file_schema: pa.Schema) -> bool:
        """Whether the columns that the file has are of the table's types."""
        return all(
            name not in file_schema.names or file_schema.field(name).type == self._schema.field(name).type
            for name in self._schema.names
        )

    def _scan(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        pushed: pc.Expression | None = self._row_filter.pushed if self._row_filter is not None else None
        return scan_file(self._storage, self._path, self._schema, columns, pushed, READ_BATCH_ROWS)
