"""Reader of the rows of one file group, for queries, merges, repairs and samples.

Hudi: org.apache.hudi.common.table.read.HoodieFileGroupReader.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.data.column_values import values_of
from hoodie.common.data.expression_tree import parse_expression
from hoodie.common.data.grouped_rows import take_rows
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import COMMIT_TIME_META, PARTITION_PATH_META, RECORD_KEY_META
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.util.arrow_buffers import numbers_of
from hoodie.exception import HoodieException
from hoodie.io.parquet.batches_ahead import batches_ahead
from hoodie.io.parquet.parquet_fragments import ParquetFragment, scan_fragments
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.parquet.row_taking import MOST_FEW_ROWS
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.threads import ThreadPool

if TYPE_CHECKING:
    from hoodie.common.config.storage_config import HoodieStorageConfig
    from hoodie.io.merge_source import MergeSource
    from hoodie.io.merging_reader import MergingReader
    from hoodie.io.parquet.splicing import CopiedForm, StoredRowGroup
    from hoodie.merge.merge_spec import MergeSpec

READ_BATCH_ROWS = 1 << 16
_KEPT_BATCH_ROWS = 20_000
"""The most rows of a batch that the caller keeps: those of a page, as most writers limit them. Buffers of Arrow double
until they hold a batch, and their unused part stays allocated with the batch; for one page they do not double.
"""
_SMALL_FILE_BYTES = 1 << 20
"""The columns of smaller files are decoded one by one: threads cost more than they save."""
_FILES_AT_ONCE = 64
"""The number of files whose footers are in memory at a time during a scan."""
_LOGS_AT_ONCE = 8
"""The number of file groups whose log files are read ahead at the same time, because object stores answer late."""
_LOGS_DECODED_AT_ONCE = 2
"""The number of these that are decoded at the same time: less, because Python code decodes them."""
_LOG_BYTES_AHEAD = 32 << 20
"""The most bytes of log files that are read ahead, if they are of more than one file group."""
_TAKEN_AT_ONCE = 16
"""The number of files whose few rows are in memory at a time during a scan."""
ALWAYS_FEW_ROWS = 1000
"""Up to this number of rows count as few even in a small file."""
FEW_ROWS_IN = 16
"""Rows are few if at most one row in this number is wanted: they are taken one by one, the rest is not decoded."""


@attrs.frozen(eq=False)
class RowGroupCopy:
    """A row group of a base file, to be copied as it is stored.

    Attributes:
        group: The row group.
        file_bytes: The size of the file.
        keys: The record keys (string); None if nobody needs them.
    """

    group: StoredRowGroup
    file_bytes: int
    keys: pa.ChunkedArray | None

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return 0 if self.keys is None else int(self.keys.nbytes)


class HoodieFileGroupReader:
    """Reads the rows of one file slice.

    Args:
        context: The context of the reader.
        file_slice: The slice to read.
        row_groups: The row groups of the base file that are read, as its statistics were found to tell; None for all.
        rows: The rows of the base file that can pass the filter, from 0, ascending and distinct; None for all.

    The rows of a slice with log files are those that merging leaves (`hoodie.io.merging_reader`). Filter and range are
    applied to them, never to the base file alone: a base row that does not pass may be newer than a log row that does.
    So `row_groups`, `rows` and `HoodieReaderContext.seeks_few` have no effect then; `HoodieReaderContext.searched` has.

    Raises:
        HoodieNotSupportedException: Log files of the slice hold records, and the context does not say how they are
            merged.

    Hudi: org.apache.hudi.common.table.read.HoodieFileGroupReader.
    """

    def __init__(
        self,
        context: HoodieReaderContext,
        file_slice: FileSlice,
        row_groups: Sequence[int] | None = None,
        rows: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self._context = context
        self._storage = context.storage
        self._schema = context.schema
        self._file_slice = file_slice
        self._row_groups = row_groups
        self._rows = rows
        self._log_merging = None if file_slice.is_base_file_alone else context.log_merging
        if self._log_merging is None:
            self._path, self._size_bytes = file_slice.sole_base_file.path, file_slice.sole_base_file.size_bytes

    def scan(self) -> Iterator[pa.RecordBatch]:
        """The rows for a query, scanned on all cores and some batches ahead; see `scan_file_groups`."""
        return scan_file_groups([self])

    def iter_batches(self, batch_rows: int = READ_BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows for one of several tasks: on this thread, batch after batch.

        Memory: one batch.

        Args:
            batch_rows: The most rows of a batch.

        Raises:
            HoodieException: See `scan`; or a column cannot be converted to the type of the schema.
        """
        if self.has_log_files:
            yield from self._context.wanted(self._merging_reader(self._context.read_columns).batches(batch_rows))
            return
        few = self.few_rows()
        yield from self._decoded(batch_rows) if few is None else few

    def iter_copies(
        self, form: CopiedForm, with_keys: bool, batch_rows: int = READ_BATCH_ROWS
    ) -> Iterator[pa.RecordBatch | RowGroupCopy]:
        """All rows: row groups that a new file can take as they are stored, and batches of the others; on this thread.

        Commit times and partition paths may be dictionaries.

        Memory: one batch, and the record keys of one row group.

        Args:
            form: The form of the new file, which has the columns of the schema.
            with_keys: Whether the new file needs the record keys.
            batch_rows: The most rows of a batch.

        Raises:
            HoodieException: See `iter_batches`.
        """
        if self.has_log_files or not self._context.has_all_rows:
            yield from self.iter_batches(batch_rows)
            return
        dictionaries = [COMMIT_TIME_META, PARTITION_PATH_META]
        with HoodieParquetReader(self._storage, self._path, dictionaries, size_bytes=self._size_bytes) as reader:
            copied = reader.row_groups_to_copy(form)
            for number in range(reader.num_row_groups):
                if number in copied:
                    keys = reader.read_record_keys([number]) if with_keys else None
                    yield RowGroupCopy(copied[number], self._size_bytes, keys)
                else:
                    yield from reader.iter_batches(
                        self._context.read_columns,
                        self._schema,
                        row_groups=[number],
                        batch_rows=batch_rows,
                        on_all_cores=not self._is_small,
                    )

    def _decoded(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows, scanned on this thread; see `iter_batches`."""
        with HoodieParquetReader(self._storage, self._path, size_bytes=self._size_bytes) as reader:
            batches = reader.iter_batches(
                self._context.read_columns,
                self._schema,
                row_groups=self._row_groups,
                batch_rows=batch_rows,
                on_all_cores=not self._is_small,
            )
            yield from self._context.wanted(batches)

    def take(self, positions: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """The rows at the given positions of the base file, in its order, on this thread; only their row groups
        are read.

        Memory: one batch; for row groups with few of the rows, only these rows (see `HoodieParquetReader.take_rows`).

        Args:
            positions: Rows of the file from 0, ascending and distinct.

        Raises:
            HoodieException: See `iter_batches`; or the slice has log files, so that positions in its base file do not
                name its rows.
        """
        if self.has_log_files:
            raise HoodieException(
                f"file group {self._file_slice.file_id} has log files: its rows are not taken by positions in its base "
                "file"
            )
        with HoodieParquetReader(self._storage, self._path, size_bytes=self._size_bytes) as reader:
            yield from self._context.wanted(self._at(reader, positions))

    def merged_rows(self) -> MergingReader:
        """The merge of a slice with log files: all of its rows, unfiltered, and counts, as a compaction needs them."""
        return self._merging_reader(self._context.result_columns)

    def _merging_reader(self, columns: Sequence[str]) -> MergingReader:
        assert self._log_merging is not None
        skips_base_rows = self._context.skips_base_rows(self._file_slice)
        return self._log_merging.reader(
            self._storage,
            self._file_slice,
            self._schema,
            columns,
            searched=self._context.searched,
            skips_base_rows=skips_base_rows,
        )

    def changed_positions(self) -> npt.NDArray[np.int64]:
        """The positions of the base file's rows that log files replace or delete, ascending; on this thread.

        These are the rows that are not as they are stored in the result without filter. The other rows of the result
        are those of `HoodieReaderContext.log_rows_only`. Memory: the log records without their columns, and one batch
        of few columns of the base file.

        Raises:
            HoodieException: See `iter_batches`.
        """
        context = attrs.evolve(self._context, log_rows_only=True, searched=None)
        reader = HoodieFileGroupReader(context, self._file_slice)
        return reader._merging_reader([RECORD_KEY_META]).changed_positions(READ_BATCH_ROWS)

    def merge_source(self, config: HoodieStorageConfig, merge_spec: MergeSpec) -> MergeSource:
        """All rows, to be merged with incoming rows into the next version of the file group; not opened yet.

        Args:
            config: The options of the next version's storage.
            merge_spec: The rule by which incoming rows are merged.
        """
        # Imported here: reads rewrite no file, and start earlier without.
        from hoodie.io.merge_source import MergeSource

        base_file = self._file_slice.sole_base_file
        return MergeSource(
            self._storage, base_file.path, self._schema, merge_spec, config, size_bytes=base_file.size_bytes
        )

    def base_source(self, config: HoodieStorageConfig) -> MergeSource | None:
        """The rows of the base file below log files, for `MergingReader.batches`; None if there is no base file.

        Args:
            config: The storage options of the next version.
        """
        # Imported here: reads rewrite no file, and start earlier without.
        from hoodie.io.merge_source import MergeSource

        base_file = self._file_slice.base_file
        if base_file is None or self._log_merging is None:
            return None
        spec = self._log_merging.merge_spec
        return MergeSource(
            self._storage,
            base_file.path,
            self._schema,
            spec,
            config,
            self._context.result_columns,
            base_file.size_bytes,
        )

    def with_columns(self, columns: Sequence[str]) -> HoodieFileGroupReader:
        """The same rows with other columns in the result.

        Args:
            columns: Their names.
        """
        context = attrs.evolve(self._context, columns=columns)
        return HoodieFileGroupReader(context, self._file_slice, self._row_groups, self._rows)

    @property
    def _is_small(self) -> bool:
        """Whether the base file is known to be small."""
        return 0 < self._size_bytes <= _SMALL_FILE_BYTES

    @property
    def has_log_files(self) -> bool:
        """Whether log files hold records, so that rows are merged."""
        return self._log_merging is not None

    @property
    def _may_take(self) -> bool:
        """Whether the rows may be taken one by one instead of being scanned."""
        if self.has_log_files:
            return False
        return self._rows is not None or self._context.may_seek

    def few_rows(self) -> list[pa.RecordBatch] | None:
        """The rows, taken by their positions; None if there are too many, or few rows are not expected.

        Memory: the rows, at most `MOST_FEW_ROWS`; see `HoodieParquetReader.take_rows`.

        Raises:
            HoodieException: See `iter_batches`.
        """
        if not self._may_take or (self._rows is not None and len(self._rows) > MOST_FEW_ROWS):
            return None
        with HoodieParquetReader(self._storage, self._path, size_bytes=self._size_bytes) as reader:
            rows = self._rows if self._rows is not None else self._find_few(reader)
            return None if rows is None else list(self._context.wanted(self._at(reader, rows)))

    def find_few(self) -> npt.NDArray[np.int64] | None:
        """The positions of the rows that can pass the filter; None if there are too many.

        Only the columns of the filter are read.

        Memory: a batch of these columns.

        Raises:
            HoodieException: See `iter_batches`.
        """
        if self._rows is not None:
            return self._rows
        with HoodieParquetReader(self._storage, self._path, size_bytes=self._size_bytes) as reader:
            return self._find_few(reader)

    def _find_few(
        self, reader: HoodieParquetReader, row_groups: Sequence[int] | None = None, *, on_all_cores: bool = True
    ) -> npt.NDArray[np.int64] | None:
        """See `find_few`; of the given row groups, or those of the plan."""
        row_filter = self._context.row_filter
        assert row_filter is not None
        columns = row_filter.read_columns([], self._schema)
        counts = reader.row_group_rows
        groups = row_groups if row_groups is not None else self._row_groups
        groups = range(len(counts)) if groups is None else groups
        most = min(MOST_FEW_ROWS, max(int(counts[list(groups)].sum()) // FEW_ROWS_IN, ALWAYS_FEW_ROWS))
        positions = []
        for group in groups:
            for places in self._places(reader, group, columns, on_all_cores):
                most -= len(places)
                if most < 0:
                    return None
                positions.append(places + int(counts[:group].sum()))
        return np.concatenate(positions) if positions else np.zeros(0, dtype=np.int64)

    def _places(
        self, reader: HoodieParquetReader, group: int, columns: Sequence[str], on_all_cores: bool
    ) -> Iterator[npt.NDArray[np.int64]]:
        """The rows of a row group that can pass the filter, from 0.

        Args:
            reader: The base file, opened.
            group: The number of the row group.
            columns: The columns of the filter.
            on_all_cores: See `HoodieParquetReader.iter_batches`.
        """
        row_filter = self._context.row_filter
        assert row_filter is not None
        for column in columns:
            searched = values_of(row_filter, column) if reader.searches_pages(column, group) else None
            if searched is not None and reader.stores(self._schema, [column]):
                found = reader.find_record_keys(searched.values, [group], column)[1]
                yield found - int(reader.row_group_rows[:group].sum())
                return
        first = 0
        batches = reader.iter_batches(
            columns, self._schema, [group], READ_BATCH_ROWS,
            on_all_cores=on_all_cores, keeps_dictionaries=len(columns) == 1,
        )  # fmt: skip
        for batch in batches:
            yield row_filter.places(batch) + first
            first += batch.num_rows

    def stored_bytes(self) -> int:
        """The stored bytes of the needed columns, in the row groups that may hold rows; log files count as a whole.

        Raises:
            HoodieException: See `iter_batches`.
        """
        if self.has_log_files:
            base_file = self._file_slice.base_file
            found = self._log_bytes
            if base_file is not None:
                fragment = ParquetFragment.open(self._storage, base_file.path, base_file.size_bytes)
                found += fragment.reader.stored_bytes(self._context.read_columns)
            return found
        fragment = self._open_fragment()
        return fragment.reader.stored_bytes(self._context.read_columns, fragment.row_groups)

    @property
    def _log_bytes(self) -> int:
        """The size of the log files that hold records."""
        return sum(log_file.size_bytes for log_file in self._file_slice.log_files if not log_file.is_cdc)

    def _open_fragment(self) -> ParquetFragment:
        """The file for a scan together with others, without the row groups whose statistics exclude the filter."""
        fragment = ParquetFragment.open(self._storage, self._path, self._size_bytes)
        if self._row_groups is not None:
            return fragment.subset(self._row_groups)
        condition = self._context.pushed
        tree = None if condition is None else parse_expression(condition)
        return fragment if tree is None else fragment.subset(fragment.row_groups_of(tree, self._schema))

    def _rows_of_group(
        self, reader: HoodieParquetReader, number: int, on_all_cores: bool, *, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a row group that pass the filter.

        The columns of the filter are read first. If few rows pass, only these are taken of the others.
        """
        context, row_filter = self._context, self._context.row_filter
        columns = context.read_columns
        if row_filter is not None and row_filter.columns is not None and not row_filter.columns.issuperset(columns):
            rows = self._find_few(reader, [number], on_all_cores=on_all_cores)
            if rows is not None:
                if len(rows):
                    yield from context.wanted(reader.take_rows(columns, self._schema, rows))
                return
        yield from context.wanted(
            reader.iter_batches(columns, self._schema, [number], batch_rows, on_all_cores=on_all_cores)
        )

    def _merged_alone(self, side_by_side: bool, turn: AbstractContextManager[object]) -> Iterator[pa.RecordBatch]:
        """The merged rows of a slice with log files that pass the filter, for a caller that keeps them.

        Args:
            side_by_side: See `MergingReader.batches`.
            turn: Held while log files are decoded.
        """
        merged = self._merging_reader(self._context.read_columns)
        merged.collect(turn)
        yield from self._context.wanted(merged.batches(_KEPT_BATCH_ROWS, side_by_side=side_by_side))

    def _at(self, reader: HoodieParquetReader, positions: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """The rows at some positions; see `take`."""
        counts = reader.row_group_rows
        ends = np.cumsum(counts)
        starts = ends - counts
        owners = np.searchsorted(ends, positions, side="right")
        for number in np.unique(owners).tolist():
            rows = positions[owners == number]
            if len(rows) * FEW_ROWS_IN <= counts[number]:
                yield from reader.take_rows(self._context.read_columns, self._schema, rows)
                continue
            places = rows - starts[number]
            first = 0
            for batch in reader.iter_batches(
                self._context.read_columns, self._schema, row_groups=[number], batch_rows=READ_BATCH_ROWS
            ):
                low, high = np.searchsorted(places, [first, first + batch.num_rows]).tolist()
                if low < high:
                    yield take_rows(batch, numbers_of(places[low:high] - first, pa.int64()))
                if high == len(places):
                    break
                first += batch.num_rows


def scan_file_groups(readers: Sequence[HoodieFileGroupReader], *, keeps_all: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows of file groups one after the other, on all cores, with some files and batches read ahead.

    Row groups whose statistics exclude the filter are not read, unless the slice has log files. Memory: some batches,
    and the footers of some files; the log records of two slices, or of a few more small ones. For a caller that keeps
    all batches, the log records of a slice for each core, of at most eight.

    Args:
        readers: A reader for each file group, all with the same schema, columns, filter and range.
        keeps_all: Whether the caller keeps all batches, so that no thread has to wait for it.

    Raises:
        HoodieIOException: A file is missing, or storage failed.
        HoodieCorruptedDataException: A file is damaged.
        HoodieSchemaException: The filter cannot be computed for the rows.
    """
    for has_logs, group in groupby(readers, key=lambda reader: reader.has_log_files):
        if has_logs:
            yield from _scan_merged(list(group), keeps_all)
        else:
            yield from _scan_base_files(list(group), keeps_all)


def _scan_merged(readers: Sequence[HoodieFileGroupReader], keeps_all: bool) -> Iterator[pa.RecordBatch]:
    """The rows of file groups with log files; see `scan_file_groups`."""
    if readers[0]._context.searched is not None:
        # Each gives few rows.
        yield from batches_ahead([reader.iter_batches for reader in readers], _LOG_BYTES_AHEAD)
    elif keeps_all and len(readers) >= pa.cpu_count() and not readers[0]._storage.is_remote:
        yield from _scan_side_by_side(readers)
    else:
        yield from _scan_prepared(readers)


def _scan_side_by_side(readers: Sequence[HoodieFileGroupReader]) -> Iterator[pa.RecordBatch]:
    """The rows of file groups with log files, each read by one thread from its log files on.

    A slice's memory is free before the thread begins the next one, and few threads hold free memory for themselves.
    """
    turn = threading.Semaphore(_LOGS_DECODED_AT_ONCE)
    largest_first = sorted((reader._log_bytes for reader in readers), reverse=True)
    workers = min(pa.cpu_count(), _LOGS_AT_ONCE)
    while workers > 2 and sum(largest_first[:workers]) > _LOG_BYTES_AHEAD:
        workers -= 1
    # The last ones do not keep all threads busy.
    last = len(readers) - len(readers) % workers
    sources = [partial(reader._merged_alone, number >= last, turn) for number, reader in enumerate(readers)]
    yield from batches_ahead(sources, None, workers)


def _scan_prepared(readers: Sequence[HoodieFileGroupReader]) -> Iterator[pa.RecordBatch]:
    """The rows of file groups with log files; meanwhile the log files of the next ones are read, and a base file."""
    merging = [reader._merging_reader(reader._context.read_columns) for reader in readers]
    sizes = [reader._log_bytes for reader in readers]
    turn, prepared_count = threading.Semaphore(_LOGS_DECODED_AT_ONCE), 1
    with ThreadPool(_LOGS_AT_ONCE, "hoodie-log-reader") as executor:
        try:
            for number, (reader, merged) in enumerate(zip(readers, merging, strict=True)):
                while prepared_count < len(merging) and (
                    prepared_count == number + 1
                    or (
                        prepared_count - number <= _LOGS_AT_ONCE
                        and sum(sizes[number + 1 : prepared_count + 1]) <= _LOG_BYTES_AHEAD
                    )
                ):
                    merging[prepared_count].prepare_on(executor, turn)
                    prepared_count += 1
                # The base file of the next slice too, or the scan would wait for its first rows.
                for begun in merging[number : number + 2]:
                    begun.begin_on(executor, READ_BATCH_ROWS)
                yield from reader._context.wanted(merged.batches(READ_BATCH_ROWS, on_all_cores=True))
        finally:
            for merged in merging:
                merged.close()


def _scan_base_files(readers: Sequence[HoodieFileGroupReader], keeps_all: bool) -> Iterator[pa.RecordBatch]:
    """The rows of file groups without log files; see `scan_file_groups`."""
    if not readers[0]._may_take:
        yield from _scan_together(readers, keeps_all)
        return
    for start in range(0, len(readers), _TAKEN_AT_ONCE):
        some = readers[start : start + _TAKEN_AT_ONCE]
        taken = list(map_concurrently(HoodieFileGroupReader.few_rows, some))
        for are_few, group in groupby(zip(some, taken, strict=True), key=lambda pair: pair[1] is not None):
            if are_few:
                for _, batches in group:
                    yield from batches or ()
            else:
                yield from _scan_together([reader for reader, _ in group], keeps_all)


def _scan_together(readers: Sequence[HoodieFileGroupReader], keeps_all: bool) -> Iterator[pa.RecordBatch]:
    """All rows that pass the filter, however many; see `scan_file_groups`."""
    for start in range(0, len(readers), _FILES_AT_ONCE):
        some = readers[start : start + _FILES_AT_ONCE]
        opened = list(map_concurrently(HoodieFileGroupReader._open_fragment, some))
        # Readers of one scan differ in their files only.
        rows_of = partial(some[0]._rows_of_group, batch_rows=_KEPT_BATCH_ROWS if keeps_all else READ_BATCH_ROWS)
        yield from scan_fragments(opened, rows_of, keeps_all=keeps_all)


def count_rows(readers: Sequence[HoodieFileGroupReader]) -> int:
    """The number of rows of file groups. No column is read where footers and statistics suffice.

    Args:
        readers: See `scan_file_groups`.

    Raises:
        HoodieException: See `scan_file_groups`.
    """
    merged = [reader for reader in readers if reader.has_log_files]
    total = sum(batch.num_rows for reader in merged for batch in reader.with_columns([RECORD_KEY_META]).scan())
    without_logs = [reader for reader in readers if not reader.has_log_files]
    if without_logs and without_logs[0]._context.has_all_rows:
        for start in range(0, len(without_logs), _FILES_AT_ONCE):
            some = without_logs[start : start + _FILES_AT_ONCE]
            total += sum(opened.num_rows for opened in map_concurrently(HoodieFileGroupReader._open_fragment, some))
    elif without_logs:
        # A column that is read anyway.
        columns = without_logs[0].with_columns([])._context.read_columns[:1] or [RECORD_KEY_META]
        total += sum(batch.num_rows for batch in scan_file_groups([r.with_columns(columns) for r in without_logs]))
    return int(total)
