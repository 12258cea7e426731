"""Read the rows of one file group, for queries, merges, repairs and samples.

Hudi: org.apache.hudi.common.table.read.HoodieFileGroupReader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.config.storage_config import HoodieStorageConfig
from hoodie.common.data.grouped_rows import take_rows
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import (
    COMMIT_SEQNO_META,
    COMMIT_TIME_META,
    META_COLUMN_SET,
    RECORD_KEY,
    RECORD_KEY_META,
)
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.timeline.instant_range import InstantRange
from hoodie.io.parquet.parquet_footer import Footer
from hoodie.io.parquet.parquet_fragments import ParquetFragment, scan_fragments
from hoodie.io.parquet.parquet_fragments import count_rows as count_rows_of_fragments
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.parquet.splicing import StoredChunks, StoredColumns
from hoodie.merge.merge_spec import MergeSpec
from hoodie.storage.storage import HoodieStorage

READ_BATCH_ROWS = 1 << 16
MERGE_BATCH_ROWS = 1 << 16
"""Rows that are merged at a time."""
_FILES_AT_ONCE = 64
"""Files whose footers are in memory at a time during a scan."""
SMALL_ROW_GROUP = 0.25
"""Row groups below this share of the wanted size are joined instead of copied, except for the last one."""
LARGE_ROW_GROUP = 1.25
"""Row groups above this share of the wanted size are not copied either, because copying holds them in memory."""


class HoodieFileGroupReader:
    """Reads the rows of one file slice.

    Args:
        storage: Where the files are.
        file_slice: The slice to read.
        schema: The table's schema, including meta columns; older files are read in it.
        merge_spec: How records of one key are merged; `merge_source` needs it.
        instant_range: The commits whose rows are wanted; None for all. With a range, ``schema`` has the commit time.
        columns: Names, in the order of the result; None for all of the schema.
        row_filter: Which rows; None for all.
        row_groups: The row groups of the base file that are read, as its statistics were found to tell; None for all.

    Raises:
        HoodieNotSupportedException: Log files of the slice hold records.

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
        row_groups: Sequence[int] | None = None,
    ) -> None:
        self._storage = storage
        self._file_slice = file_slice
        self._row_groups = row_groups
        self._path = file_slice.sole_base_file.path
        self._schema = schema
        self._merge_spec = merge_spec
        self._instant_range = instant_range
        self._columns = list(columns) if columns is not None else schema.names
        self._row_filter = row_filter

    def scan(self) -> Iterator[pa.RecordBatch]:
        """The rows as a query reads them: on all cores, some batches ahead; see `scan_file_groups`."""
        return scan_file_groups([self])

    def iter_batches(self, batch_rows: int = READ_BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows as one of several tasks reads them: on this thread, batch after batch.

        Memory: one batch.

        Args:
            batch_rows: Most rows of a batch.

        Raises:
            HoodieException: See `scan`; or a column cannot be converted to the type of the schema.
        """
        with HoodieParquetReader(self._storage, self._path) as reader:
            batches = reader.iter_batches(
                self._read_columns, self._schema, row_groups=self._row_groups, batch_rows=batch_rows
            )
            yield from self._wanted(batches)

    def take(self, positions: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """The rows at some positions of the base file, in its order, on this thread; only their row groups are read.

        Memory: one batch.

        Args:
            positions: Rows of the file from 0, ascending and distinct.

        Raises:
            HoodieException: See `iter_batches`.
        """
        with HoodieParquetReader(self._storage, self._path) as reader:
            yield from self._wanted(self._at(reader, positions))

    def merge_source(self, config: HoodieStorageConfig) -> MergeSource:
        """All rows, to be merged with incoming rows into the next version of the file group; not opened yet.

        Args:
            config: How the next version is stored.
        """
        assert self._merge_spec is not None
        return MergeSource(self._storage, self._path, self._schema, self._merge_spec, config)

    def with_columns(self, columns: Sequence[str]) -> HoodieFileGroupReader:
        """The same rows with other columns in the result.

        Args:
            columns: Their names.
        """
        return HoodieFileGroupReader(
            self._storage, self._file_slice, self._schema, merge_spec=self._merge_spec,
            instant_range=self._instant_range, columns=columns, row_filter=self._row_filter,
            row_groups=self._row_groups,
        )  # fmt: skip

    @property
    def _is_exact(self) -> bool:
        """Whether a scan with what is pushed down gives the rows of the result and no others."""
        return self._instant_range is None and (self._row_filter is None or self._row_filter.is_exact)

    @property
    def _pushed(self) -> pc.Expression | None:
        return self._row_filter.pushed if self._row_filter is not None else None

    def _scan(self, fragments: Sequence[ParquetFragment]) -> Iterator[pa.RecordBatch]:
        if self._is_exact:
            yield from scan_fragments(fragments, self._schema, self._columns, self._pushed, READ_BATCH_ROWS)
        else:
            columns = self._read_columns
            yield from self._wanted(scan_fragments(fragments, self._schema, columns, self._pushed, READ_BATCH_ROWS))

    @property
    def _read_columns(self) -> list[str]:
        """The columns of the result, and those that decide which rows are in it."""
        if self._row_filter is None:
            names = dict.fromkeys(self._columns)
        else:
            names = dict.fromkeys(self._row_filter.read_columns(self._columns, self._schema))
        return list(names if self._instant_range is None else names | {COMMIT_TIME_META: None})

    def _wanted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filter and the range of instants, in the columns of the result."""
        for batch in batches:
            rows = batch
            if self._instant_range is not None:
                rows = rows.filter(self._instant_range.holds(rows.column(COMMIT_TIME_META)))
            if self._row_filter is not None:
                yield from self._row_filter.take(rows).select(self._columns).to_batches()
            elif rows.num_rows:
                yield rows.select(self._columns)

    def _open_fragment(self) -> ParquetFragment | None:
        """The file for a scan together with others; None if its columns have to be converted."""
        fragment = ParquetFragment.open(self._storage, self._path)
        if not fragment.stores(self._schema, self._read_columns):
            return None
        return fragment if self._row_groups is None else fragment.subset(self._row_groups)

    def _at(self, reader: HoodieParquetReader, positions: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """The rows at some positions; see `take`."""
        ends = np.cumsum(reader.row_group_rows)
        starts = ends - reader.row_group_rows
        owners = np.searchsorted(ends, positions, side="right")
        for number in np.unique(owners).tolist():
            places = positions[owners == number] - starts[number]
            first = 0
            for batch in reader.iter_batches(
                self._read_columns, self._schema, row_groups=[number], batch_rows=READ_BATCH_ROWS
            ):
                low, high = np.searchsorted(places, [first, first + batch.num_rows]).tolist()
                if low < high:
                    yield take_rows(batch, pa.array(places[low:high] - first))
                if high == len(places):
                    break
                first += batch.num_rows


def scan_file_groups(readers: Sequence[HoodieFileGroupReader]) -> Iterator[pa.RecordBatch]:
    """The rows of file groups one after the other, on all cores, some files and batches ahead.

    Row groups whose statistics exclude the filter are not read. Memory: some batches, and the footers of some files.

    Args:
        readers: One for each file group. They have schema, columns, filter and range in common.

    Raises:
        HoodieIOException: A file is missing, or storage failed.
        HoodieCorruptedDataException: A file is damaged.
        HoodieSchemaException: The filter cannot be computed of the rows.
    """
    for start in range(0, len(readers), _FILES_AT_ONCE):
        some = readers[start : start + _FILES_AT_ONCE]
        opened = list(zip(some, map_concurrently(HoodieFileGroupReader._open_fragment, some), strict=True))
        # Files that store all columns as wanted are scanned together; the order of the files stays.
        for as_wanted, group in groupby(opened, key=lambda pair: pair[1] is not None):
            if as_wanted:
                yield from some[0]._scan([fragment for _, fragment in group if fragment is not None])
            else:
                for reader, _ in group:
                    yield from reader.iter_batches()


def count_rows(readers: Sequence[HoodieFileGroupReader]) -> int:
    """The number of rows of file groups; no column is read where footers and statistics tell it.

    Args:
        readers: See `scan_file_groups`.

    Raises:
        HoodieException: See `scan_file_groups`.
    """
    total = 0
    for start in range(0, len(readers), _FILES_AT_ONCE):
        some = readers[start : start + _FILES_AT_ONCE]
        fragments: list[ParquetFragment] = []
        for reader, fragment in zip(some, map_concurrently(HoodieFileGroupReader._open_fragment, some), strict=True):
            if fragment is not None and reader._is_exact:
                fragments.append(fragment)
            else:
                total += sum(batch.num_rows for batch in reader.with_columns(reader._schema.names[:1]).scan())
        if fragments:
            total += count_rows_of_fragments(fragments, some[0]._schema, some[0]._pushed)
    return total


@attrs.frozen(eq=False)
class StoredRows:
    """Consecutive rows.

    Attributes:
        start: The number of the first row.
        rows: The decoded columns.
        row_group: The copied columns of a row group, if one begins here and some of its columns are copied.
    """

    start: int
    rows: pa.RecordBatch
    row_group: StoredChunks | None = None

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.rows.nbytes) + (self.row_group.stored_bytes if self.row_group is not None else 0)


class MergeSource:
    """The stored rows of a file group in their order, for the next version of it.

    Most columns are decoded. The record key and the user's column that it is made of, which the merge does not change,
    can be copied as they are stored; decoding and encoding them would be half of the work. The file name and partition
    path, which are written anew for each row, are not read.

    Args:
        storage: Where the file is.
        path: Full path of the base file.
        schema: The schema to read the rows in, including meta columns.
        merge_spec: How stored and incoming records are merged.
        config: How the next version is stored.
    """

    def __init__(
        self,
        storage: HoodieStorage,
        path: str,
        schema: pa.Schema,
        merge_spec: MergeSpec,
        config: HoodieStorageConfig,
    ) -> None:
        self._schema = schema
        self._user_schema = pa.schema([field for field in schema if field.name not in META_COLUMN_SET])
        self._merge_spec = merge_spec
        self._config = config
        # A file holds few commit times, so they are read, merged and written as dictionaries, by small numbers.
        self._reader = HoodieParquetReader(storage, path, [COMMIT_TIME_META])

    def open(self) -> None:
        """See `HoodieParquetReader.open`."""
        self._reader.open()

    def close(self) -> None:
        """See `HoodieParquetReader.close`."""
        self._reader.close()

    def footer(self) -> Footer:
        """See `HoodieParquetReader.footer`."""
        return self._reader.footer()

    def dictionary_columns(self) -> frozenset[str]:
        """See `HoodieParquetReader.dictionary_columns`."""
        return self._reader.dictionary_columns()

    def columns_to_copy(self, updates: pa.Table) -> list[str]:
        """The columns that a merge does not change, and whose bytes fit into the next version.

        The user's columns among them are those that equal the record key in each stored and incoming row. If a record
        may be deleted, there are none.

        Args:
            updates: The incoming rows of stored records.
        """
        if updates.num_rows and self._merge_spec.may_delete(updates):
            return []
        merged = set(self._merge_spec.stored_columns(self._user_schema))
        fields = [
            field
            for field in self._user_schema
            if field.type == pa.string() and field.name not in merged and field.name in updates.column_names
        ]
        key = pa.field(RECORD_KEY_META, pa.string())
        found = self._stored.copies_of(key, fields, str(self._config.parquet_compression_codec))
        return [name for name in found if name == key.name or updates[name].equals(updates[RECORD_KEY])]

    def rows(self, copied: Sequence[str]) -> Iterator[StoredRows]:
        """All rows, one row group after the other; copied columns are not decoded.

        Args:
            copied: Some of `columns_to_copy`. They are decoded too in row groups whose size differs from the wanted
                one, or whose columns differ after all.

        Raises:
            HoodieCorruptedDataException: The file is damaged.
        """
        start = 0
        stored = self._stored
        wanted_bytes = self._config.parquet_block_size
        for number, (count, plain_bytes) in enumerate(stored.row_groups):
            is_last = number == len(stored.row_groups) - 1
            has_size = is_last or plain_bytes >= SMALL_ROW_GROUP * wanted_bytes
            chunks = first = None
            if copied and count and has_size and plain_bytes <= LARGE_ROW_GROUP * wanted_bytes:
                chunks = stored.chunks(number, copied)
            if chunks is not None:
                batches = self._row_group(number, copied)
                first = next(batches, None)
            if first is not None and first.nbytes * count <= LARGE_ROW_GROUP * wanted_bytes * first.num_rows:
                yield StoredRows(start, first, chunks)
                start += first.num_rows
            else:
                batches = self._row_group(number, ())
            for batch in batches:
                yield StoredRows(start, batch)
                start += batch.num_rows

    @cached_property
    def _stored(self) -> StoredColumns:
        return self._reader.stored_columns()

    def _row_group(self, number: int, without: Sequence[str]) -> Iterator[pa.RecordBatch]:
        columns = [RECORD_KEY_META, COMMIT_TIME_META, COMMIT_SEQNO_META, *self._user_schema.names]
        wanted = [name for name in columns if name not in without]
        return self._reader.iter_batches(wanted, self._schema, row_groups=[number], batch_rows=MERGE_BATCH_ROWS)
