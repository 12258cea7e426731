"""Reader of a file slice with log files: the rows of its base file merged with the records of the log files.

::

    base file    merged log entries           result
    a1 b1 c1     b2, delete of c, d2          a1 b2 d2

Base rows keep their order, and a row of a log file replaces the base row of its key in place. Rows of keys that the
base file lacks come last. The log files are read first. Then their keys are looked up in the base file; its other rows
pass through unchanged.

Hudi: org.apache.hudi.common.table.read.HoodieFileGroupReader.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.field_defaults import default_values
from hoodie.common.data.column_values import ColumnValues
from hoodie.common.data.expression_tree import parse_expression
from hoodie.common.data.grouped_rows import take_rows
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import META_COLUMN_SET, RECORD_KEY_META
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.view.committed_log_files import CommittedLogFiles
from hoodie.common.util.arrow_buffers import indices_of
from hoodie.config.log_merge_config import HoodieLogMergeConfig
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.key_lookup_handle import HoodieKeyLookupHandle
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.log.log_block_scanner import EVERY_BLOCK, LogScanCounts
from hoodie.io.log.log_record_scanner import HoodieLogRecordScanner
from hoodie.io.log_row_store import concat_rows, with_replaced_rows
from hoodie.io.merged_log_records import LogMergeRules, MergedLogRecords
from hoodie.io.parquet.key_search import KeyMatcher
from hoodie.io.parquet.parquet_fragments import ParquetFragment, scan_fragments
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.parquet.row_taking import MOST_FEW_ROWS
from hoodie.merge.log_merge import spec_of_logs
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.record_merger import DELETE_STORED, KEEP_STORED, TAKE_INCOMING, HoodieRecordMerger
from hoodie.storage.storage import HoodieStorage

if TYPE_CHECKING:
    from hoodie.io.merge_source import MergeSource, StoredRows
    from hoodie.keygen.base_key_generator import KeyGenerator


@attrs.frozen(eq=False)
class LogMerging:
    """The merge of a slice's log files with its base file. Picklable.

    Attributes:
        merge_spec: The rules, made by `hoodie.merge.log_merge.spec_of_logs`.
        block_filter: The rule which blocks count; needed in version 6.
        key_generator: Makes record keys, in a table that stores none (``hoodie.populate.meta.fields=false``).
        config: The limit of memory for log records, and whether positions are used.
        committed: The sizes of completed log files, which tell damaged files from torn ones; None: torn blocks are
            skipped.
    """

    merge_spec: MergeSpec
    block_filter: LogBlockFilter = EVERY_BLOCK
    key_generator: KeyGenerator | None = None
    config: HoodieLogMergeConfig = attrs.field(factory=HoodieLogMergeConfig)
    committed: CommittedLogFiles | None = None

    @classmethod
    def of_table(
        cls,
        snapshot: TableSnapshot,
        schema: pa.Schema,
        config: HoodieLogMergeConfig | None = None,
        *,
        merger: HoodieRecordMerger | None = None,
        key_generator: KeyGenerator | None = None,
    ) -> LogMerging:
        """The merge of a table's log files.

        Args:
            snapshot: The table.
            schema: The columns in which its rows are read, with or without Hudi's.
            config: See the attributes; None for the defaults.
            merger: The record merger that the caller names, in a table that merges by one.
            key_generator: The table's key generator, if the caller has it.

        Raises:
            HoodieNotSupportedException: hoodie does not know how the table merges records or makes their keys.
            MissingSchemaFieldException: A column of the rules is missing.
        """
        table_config = snapshot.table_config
        user_schema = pa.schema([field for field in schema if field.name not in META_COLUMN_SET])
        spec = MergeSpec.from_table_config(table_config, merger=merger)
        avro_schema = snapshot.load_avro_schema()
        defaults = default_values(avro_schema) if avro_schema is not None else {}
        if table_config.populate_meta_fields:
            key_generator = None
        elif key_generator is None:
            # Imported here: only tables without meta columns need it, and reads of others start earlier without.
            from hoodie.keygen.key_generator import create_key_generator

            key_generator = create_key_generator(table_config)
        block_filter = LogBlockFilter.of(snapshot.active_timeline.visible_instants)
        return cls(
            spec_of_logs(spec, user_schema, defaults),
            block_filter,
            key_generator,
            config or HoodieLogMergeConfig(),
            snapshot.committed_log_files,
        )

    def reader(
        self,
        storage: HoodieStorage,
        file_slice: FileSlice,
        schema: pa.Schema,
        columns: Sequence[str],
        *,
        searched: ColumnValues | None = None,
        skips_base_rows: bool = False,
    ) -> MergingReader:
        """A reader of the merged rows of a slice.

        Args:
            storage: The storage of the files.
            file_slice: The slice.
            schema: The table's schema, including meta columns.
            columns: The columns of the result.
            searched: See `SearchingMergingReader`; None for all rows.
            skips_base_rows: See `MergingReader`.
        """
        if searched is None:
            return MergingReader(storage, file_slice, schema, columns, self, skips_base_rows=skips_base_rows)
        return SearchingMergingReader(
            storage, file_slice, schema, columns, self, searched=searched, skips_base_rows=skips_base_rows
        )


@attrs.define
class MergeCounts:
    """Counts of a merge of a slice; complete after its last batch.

    Attributes:
        log_records: Rows and deletes of the log files; all entries of a key are counted.
        log_deletes: The deletes among them.
        log_keys: Keys with entries in the log files.
        updates: Rows of the base file that a row of a log file replaced.
        inserts: Rows of log files whose keys the base file lacks.
        deletes: Rows of the base file that were deleted.
        ignored: Keys of log files whose base row won.
        rows: Rows of the result.
        scanned: Counts of the scanned log files and blocks.
    """

    log_records: int = 0
    log_deletes: int = 0
    log_keys: int = 0
    updates: int = 0
    inserts: int = 0
    deletes: int = 0
    ignored: int = 0
    rows: int = 0
    scanned: LogScanCounts = attrs.field(factory=LogScanCounts)


class MergingReader:
    """Merges the log files of one slice with its base file, if it has one.

    Memory: the log records of the slice, up to ``hoodie.memory.merge.max.size``, and some batches of the base file.

    Args:
        storage: The storage of the files.
        file_slice: The slice.
        schema: The table's schema, including meta columns.
        columns: The columns of the result.
        merging: The rules of the merge.
        skips_base_rows: Whether rows of the base file are left out of the result, so that it has only rows of log
            files. The base file is still read as far as the merge needs it.
    """

    def __init__(
        self,
        storage: HoodieStorage,
        file_slice: FileSlice,
        schema: pa.Schema,
        columns: Sequence[str],
        merging: LogMerging,
        *,
        skips_base_rows: bool = False,
    ) -> None:
        self._storage = storage
        self._file_slice = file_slice
        self._base_bytes = 0 if file_slice.base_file is None else file_slice.base_file.size_bytes
        self._skips_base_rows = skips_base_rows
        self._schema = schema
        # Rows without a column would not be counted.
        self._columns = list(columns) or schema.names[:1]
        self._merging = merging
        self._rules = LogMergeRules(merging.merge_spec, schema, merging.key_generator)
        self._prepared: MergedLogRecords | None = None
        self._fragment: ParquetFragment | None = None
        self._opening = threading.Lock()
        self._preparing: Future[MergedLogRecords] | None = None
        self._begun: Future[tuple[_Finder | None, Iterator[pa.RecordBatch]] | None] | None = None
        self._scanned = LogScanCounts()
        self.counts = MergeCounts()

    def batches(
        self, batch_rows: int, *, on_all_cores: bool = False, side_by_side: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """The merged rows, in batches of about the given size.

        Args:
            batch_rows: The most rows of a batch of the base file, and of a batch of new rows.
            on_all_cores: Whether the base file is decoded on all cores, some batches ahead.
            side_by_side: Whether its columns are decoded side by side, if it is not decoded ahead.

        Raises:
            HoodieException: A file is missing or damaged, or records cannot be merged.
        """
        base_file = self._file_slice.base_file
        with self._counted() as (records, is_met):
            if base_file is not None and not (self._skips_base_rows and self._needs_no_rows(records, base_file.path)):
                begun, self._begun = self._begun, None
                found, read = (begun.result() if begun is not None else None) or (None, None)
                finder = found or self._finder(records, base_file.path)
                if read is None:
                    columns = self._read_columns(records, finder)
                    read = self._base_batches(base_file.path, columns, batch_rows, on_all_cores, side_by_side)
                yield from self._merged(read, records, finder, is_met, base_file.path)
            yield from self._new_rows(records, is_met, batch_rows)

    def changed_positions(self, batch_rows: int) -> npt.NDArray[np.int64]:
        """The positions of the base file's rows that log records replace or delete, ascending.

        Args:
            batch_rows: The most rows of a batch of the base file.

        Raises:
            HoodieException: See `batches`.
        """
        base_file = self._file_slice.base_file
        changed, start = [np.zeros(0, dtype=np.int64)], 0
        with self._counted() as (records, _):
            if base_file is None:
                return changed[0]
            finder = self._finder(records, base_file.path)
            if isinstance(finder, _ByPosition) and self._always_wins(records, base_file.path):
                return finder.positions
            columns = self._read_columns(records, finder)
            for batch in self._base_batches(base_file.path, columns, batch_rows, False):
                numbers, places = finder.find(batch, start)
                if len(numbers):
                    stored = take_rows(batch.select(records.stored_columns), indices_of(places))
                    changed.append(start + places[records.merge(stored, numbers).codes != KEEP_STORED])
                start += batch.num_rows
        return np.concatenate(changed)

    def begin_on(self, executor: Executor, batch_rows: int) -> None:
        """Begin to decode the base file on all cores, before `batches` is called.

        If the needed columns are known only from the log files, this waits for the task that `prepare_on` started.

        Args:
            executor: Its thread waits for the first batch.
            batch_rows: The value for the later call of `batches`.
        """
        base_file = self._file_slice.base_file
        if base_file is not None and self._begun is None:
            self._begun = executor.submit(self._begin, base_file.path, batch_rows, self._preparing)

    def _begin(
        self, path: str, batch_rows: int, preparing: Future[MergedLogRecords] | None
    ) -> tuple[_Finder | None, Iterator[pa.RecordBatch]] | None:
        """The finder of rows, if it was made, and the rows of the base file; None if its columns are not known yet."""
        rules, finder = self._rules, None
        # A payload class or a user's merger gets all columns.
        needed = {*rules.key_columns, *rules.ordering_columns} if rules.by_mode is not None else set(rules.schema.names)
        if not self._skips_base_rows and needed <= set(self._columns):
            columns = self._columns
        elif preparing is not None:
            records = preparing.result()
            if self._skips_base_rows and self._always_wins(records, path):
                return None
            finder = self._finder(records, path)
            columns = self._read_columns(records, finder)
        else:
            return None
        read = self._base_batches(path, columns, batch_rows, True)
        # Reading begins when the first batch is asked for; then some batches are read ahead.
        return finder, chain(list(islice(read, 1)), read)

    def columns_to_copy(self, source: MergeSource) -> list[str]:
        """The columns of the base file that the merge leaves unchanged, so that they can be copied; call
        `collect` before.

        These are the record key, and the user's column from which it is made. There are none unless `only_replaces`.

        Args:
            source: The base file, opened.
        """
        records = self._prepared
        if records is None or not self.only_replaces:
            return []
        return source.copies_of_key(records.columns_like_key.difference(records.stored_columns))

    @property
    def only_replaces(self) -> bool:
        """Whether each row of the base file keeps its place and key: rows are only replaced and added. Call
        `collect` before.

        Blocks with positions count as no: positions are not trusted for this.
        """
        records, generator = self._prepared, self._rules.key_generator
        return records is not None and records.replaces_only and records.positions is None and generator is None

    def rows_around(self, source: MergeSource, copied: Sequence[str]) -> Iterator[StoredRows]:
        """The merged rows for a new base file, without the copied columns; new rows have all columns.

        Args:
            source: The base file, opened.
            copied: The result of `columns_to_copy`.

        Raises:
            HoodieException: See `batches`.
        """
        # Imported here: a read rewrites no file, and starts earlier without.
        from hoodie.io.merge_source import MERGE_BATCH_ROWS, StoredRows

        base_file = self._file_slice.base_file
        assert base_file is not None
        with self._counted() as (records, is_met):
            finder = self._by_position(records, base_file.path)
            for stored in source.rows(copied):
                merged = self._merged_batch(stored.rows, stored.start, records, finder, is_met)
                assert merged is not None
                yield attrs.evolve(stored, rows=merged)
            for rows in self._new_rows(records, is_met, MERGE_BATCH_ROWS):
                yield StoredRows(self.counts.rows - rows.num_rows, rows)

    @contextmanager
    def _counted(self) -> Iterator[tuple[MergedLogRecords, npt.NDArray[np.bool_]]]:
        """The merged log records, and a flag for each that tells whether the base file has its key, set later.
        Restarts counts.
        """
        with self._collected() as records:
            self.counts = MergeCounts(records.record_count, records.delete_count, len(records), scanned=self._scanned)
            yield records, np.zeros(len(records), dtype=np.bool_)
            # The readers of a scan live until its end, and footers are large.
            self._fragment = None

    def _needs_no_rows(self, records: MergedLogRecords, path: str) -> bool:
        """Whether the rows of log records come out of them alone: they win, and each replaces one row at most.

        An insert may have stored a key several times in one file; then its log record is a row for each of them.
        """
        if self._rules.key_generator is not None or not self._always_wins(records, path):
            return False
        numbers = self._by_position(records, path).numbers
        return len(np.unique(numbers)) == len(numbers)

    def _always_wins(self, records: MergedLogRecords, path: str) -> bool:
        """Whether each log record surely wins against the row of its key in the base file, as its statistics tell.

        Positions that blocks name are not trusted for this: the base file tells whether they are wrong.
        """
        if not records.are_whole or records.positions is not None:
            return False
        fields = self._rules.ordering_fields
        if not fields:
            return True
        least = records.least_ordering
        if least is None or self._rules.ordering_columns != [*fields]:
            return False
        (field,) = map(pc.field, fields)
        may_lose = parse_expression(field > least)
        return may_lose is not None and not self._opened(path).row_groups_of(may_lose, self._schema)

    def _new_rows(
        self, records: MergedLogRecords, is_met: npt.NDArray[np.bool_], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of keys that the base file lacks."""
        for rows in records.new_rows(is_met, batch_rows):
            self.counts.inserts += rows.num_rows
            self.counts.rows += rows.num_rows
            yield rows.select(self._columns)

    def _collected(self, turn: AbstractContextManager[object] | None = None) -> MergedLogRecords:
        """The merged log records: prepared before, or read now; see `collect`."""
        preparing, self._preparing = self._preparing, None
        if preparing is not None:
            return preparing.result()
        records, self._prepared = self._prepared, None
        return records if records is not None else self._read_log_files(turn)

    def _read_log_files(self, turn: AbstractContextManager[object] | None = None) -> MergedLogRecords:
        """Read the log files, and merge their records.

        Args:
            turn: Held while their bytes, which are in memory, are decoded.
        """
        return self._scanned_log_files(turn)[0]

    def _scanned_log_files(
        self, turn: AbstractContextManager[object] | None = None, searched: ColumnValues | None = None
    ) -> tuple[MergedLogRecords, HoodieLogRecordScanner]:
        """The merged records of the log files, and the scanner that read them.

        Args:
            turn: See `_read_log_files`.
            searched: See `HoodieLogRecordScanner`.
        """
        base_file = self._file_slice.base_file
        # The slice of a pending compaction has another base instant than its base file.
        positions_of = None
        if base_file is not None and self._merging.config.use_record_positions:
            positions_of = base_file.instant_time
        records = MergedLogRecords(
            self._rules,
            self._columns,
            self._merging.config,
            positions_of,
            f"file group {self._file_slice.file_id} of partition '{self._file_slice.partition_path}'",
        )
        scanner = HoodieLogRecordScanner(
            self._storage,
            self._file_slice.log_files,
            self._schema,
            self._rules.columns_of_log(records.columns),
            self._merging.block_filter,
            positions_of,
            self._merging.committed,
            searched,
        )
        try:
            blocks = scanner.blocks()
            with turn or nullcontext():
                records.collect(scanner.scan(blocks))
            self._scanned = scanner.counts
            return records, scanner
        except BaseException:
            records.close()
            raise

    def collect(self, turn: AbstractContextManager[object] | None = None) -> None:
        """Read the log files now, and not at the start of `batches`.

        Args:
            turn: Held while log files are decoded; see `prepare_on`.

        Raises:
            HoodieException: See `batches`.
        """
        self._prepared = self._collected(turn)

    def prepare_on(self, executor: Executor, turn: AbstractContextManager[object]) -> None:
        """Read the log files before `batches` is called, and the footer of the base file.

        Args:
            executor: Its threads do the work.
            turn: Held while log files are decoded, because Python code decodes only few of them at the same time.
        """
        self._preparing = executor.submit(self._prepare, turn)

    def _prepare(self, turn: AbstractContextManager[object]) -> MergedLogRecords:
        base_file = self._file_slice.base_file
        if base_file is not None:
            self._opened(base_file.path)
        return self._read_log_files(turn)

    def _opened(self, path: str) -> ParquetFragment:
        """The base file, opened once: either to read the log files, or to begin decoding it."""
        with self._opening:
            if self._fragment is None:
                self._fragment = ParquetFragment.open(self._storage, path, self._base_bytes)
            return self._fragment

    def close(self) -> None:
        """Drop unused preparations; waits for threads that work on them. Without preparations it does nothing."""
        begun, self._begun = self._begun, None
        if begun is not None and not begun.cancel():
            wait([begun])
        preparing, self._preparing = self._preparing, None
        if preparing is not None and not preparing.cancel() and preparing.exception() is None:
            preparing.result().close()
        self._fragment = None
        if self._prepared is not None:
            self._prepared.close()

    def _finder(self, records: MergedLogRecords, path: str) -> _Finder:
        """The finder of those rows of the base file that have an entry."""
        if records.positions is not None:
            order = np.argsort(records.positions, kind="stable")
            return _ByPosition(order, records.positions[order])
        rules = self._rules
        if not self._skips_base_rows and set(rules.key_columns) <= set(self._columns):
            return _ByKey(KeyMatcher(records.keys), rules)
        if rules.key_generator is None:
            return self._by_position(records, path)
        return _ByKey(KeyMatcher(records.keys), rules)

    def _by_position(self, records: MergedLogRecords, path: str) -> _ByPosition:
        """The rows with the keys, by position: the key column is searched, and most of its values are not even
        decoded.
        """
        matches = HoodieKeyLookupHandle(self._storage, path, self._base_bytes).lookup(records.keys)
        return _ByPosition(matches.key_indices.astype(np.int64), matches.row_positions)

    def _read_columns(self, records: MergedLogRecords, finder: _Finder) -> list[str]:
        """The columns of the base file that are read."""
        wanted = {*finder.columns} if self._skips_base_rows else {*self._columns, *finder.columns}
        if not isinstance(finder, _ByPosition) or len(finder.numbers):
            wanted.update(records.stored_columns)
        if not wanted:
            # Rows without a column would not be counted.
            wanted.add(self._schema.names[0])
        return [name for name in self._schema.names if name in wanted]

    def _base_batches(
        self, path: str, columns: list[str], batch_rows: int, on_all_cores: bool, side_by_side: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """All rows of the base file, in their order; see `batches`."""
        if on_all_cores:

            def rows_of(reader: HoodieParquetReader, number: int, on_all_cores: bool) -> Iterator[pa.RecordBatch]:
                return reader.iter_batches(columns, self._schema, [number], batch_rows, on_all_cores=on_all_cores)

            yield from scan_fragments([self._opened(path)], rows_of)
            return
        with HoodieParquetReader(self._storage, path, size_bytes=self._base_bytes) as reader:
            yield from reader.iter_batches(columns, self._schema, batch_rows=batch_rows, on_all_cores=side_by_side)

    def _merged(
        self,
        batches: Iterator[pa.RecordBatch],
        records: MergedLogRecords,
        finder: _Finder,
        is_met: npt.NDArray[np.bool_],
        path: str,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the base file, some replaced and some deleted; flags the entries whose keys they have."""
        start = 0
        for batch in batches:
            rows = self._merged_batch(batch, start, records, finder, is_met)
            start += batch.num_rows
            if rows is not None and rows.num_rows:
                yield rows
        _check_positions(path, start, finder.last_position)

    def _merged_batch(
        self,
        batch: pa.RecordBatch,
        start: int,
        records: MergedLogRecords,
        finder: _Finder,
        is_met: npt.NDArray[np.bool_],
    ) -> pa.RecordBatch | None:
        """The merged rows of a batch of the base file that starts at a position; None if no row of it is wanted."""
        numbers, places = finder.find(batch, start)
        if len(numbers):
            is_met[numbers] = True
        elif self._skips_base_rows:
            return None
        read = set(batch.schema.names)
        rows = batch.select([] if self._skips_base_rows else [name for name in self._columns if name in read])
        if len(numbers):
            rows = self._with_entries(batch, rows, records, numbers, places)
        self.counts.rows += rows.num_rows
        return rows

    def _with_entries(
        self,
        batch: pa.RecordBatch,
        rows: pa.RecordBatch,
        records: MergedLogRecords,
        numbers: npt.NDArray[np.int64],
        places: npt.NDArray[np.int64],
    ) -> pa.RecordBatch:
        """A batch of the base file merged with the entries of some of its rows."""
        stored = take_rows(batch.select(records.stored_columns), indices_of(places))
        merged = records.merge(stored, numbers)
        taken = places[merged.codes == TAKE_INCOMING]
        deleted = places[merged.codes == DELETE_STORED]
        self.counts.updates += len(taken)
        self.counts.deletes += len(deleted)
        self.counts.ignored += len(places) - len(taken) - len(deleted)
        if self._skips_base_rows:
            return merged.rows.select(self._columns)
        if not len(deleted):
            return with_replaced_rows(rows, merged.rows.select(rows.schema.names), taken) if len(taken) else rows
        indices = np.arange(batch.num_rows)
        indices[taken] = batch.num_rows + np.arange(len(taken))
        if len(taken):
            rows = concat_rows([rows, merged.rows.select(self._columns)])
        return take_rows(rows, indices_of(np.delete(indices, deleted)))


def _check_positions(path: str, rows: int, last: int) -> None:
    """Refuse positions behind the end of a base file.

    Args:
        path: The base file.
        rows: The number of its rows.
        last: The last position; -1 for none.
    """
    if rows <= last:
        raise HoodieCorruptedDataException(
            f"{path} has {rows} rows, but log files name its row {last}: the positions in their blocks are wrong. "
            "Read the table by its keys: hoodie.merge.use.record.positions=false"
        )


class _Finder(Protocol):
    """Finds the rows of the base file that have an entry."""

    @property
    def columns(self) -> list[str]:
        """The columns of the base file that `find` needs."""

    @property
    def last_position(self) -> int:
        """The last row that is known to have an entry; -1 if no row is known."""

    def find(self, batch: pa.RecordBatch, start: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The entries of rows of a batch, and the places of these rows in it, ascending.

        Args:
            batch: Rows of the base file.
            start: The position of the first row.
        """


@attrs.frozen(eq=False)
class _ByPosition:
    """Finds rows with entries by known positions.

    Attributes:
        numbers: The number of the entry at each position (int64).
        positions: The position of each row, ascending (int64).
    """

    numbers: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]

    @property
    def columns(self) -> list[str]:
        """No columns."""
        return []

    @property
    def last_position(self) -> int:
        """The last position."""
        return int(self.positions[-1]) if len(self.positions) else -1

    def find(self, batch: pa.RecordBatch, start: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """See `_Finder.find`."""
        low, high = np.searchsorted(self.positions, [start, start + batch.num_rows]).tolist()
        return self.numbers[low:high], self.positions[low:high] - start


@attrs.frozen(eq=False)
class _ByKey:
    """Finds rows with entries by their keys.

    Attributes:
        matcher: Looks up the keys of the entries.
        rules: The rules that make keys.
    """

    matcher: KeyMatcher
    rules: LogMergeRules
    last_position: int = -1

    @property
    def columns(self) -> list[str]:
        """The columns of the key."""
        return self.rules.key_columns

    def find(self, batch: pa.RecordBatch, start: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """See `_Finder.find`."""
        numbers, places = self.matcher.find(self.rules.keys_of(batch))
        return numbers.astype(np.int64), places


class SearchingMergingReader(MergingReader):
    """Merges only the rows of a slice that can have searched values, if these are record keys or values of the key
    field.

    Rows of a key field's values are found by their record keys in log files. If a row with such a value has a record
    key that is no such value, all rows of the slice are merged; so are they if a payload class or a merger of the user
    decides what rows become.

    Memory: these rows, and one block of the log files.

    Args:
        searched: The values.

    Other arguments are those of `MergingReader`.
    """

    def __init__(self, *arguments: Any, searched: ColumnValues, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._searched = searched

    def batches(
        self, batch_rows: int, *, on_all_cores: bool = False, side_by_side: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """See `MergingReader.batches`; rows that have none of the values may be missing."""
        few = self._few_rows(batch_rows)
        if few is None:
            yield from super().batches(batch_rows, on_all_cores=on_all_cores, side_by_side=side_by_side)
        else:
            yield from few

    def _few_rows(self, batch_rows: int) -> list[pa.RecordBatch] | None:
        """The merged rows that can have the values; None if all rows must be merged."""
        if (
            self._rules.by_mode is None
            or self._rules.key_generator is not None
            or len(self._searched.values) > MOST_FEW_ROWS
        ):
            return None
        base_file = self._file_slice.base_file
        if base_file is None:
            return self._few_merged(None, np.zeros(0, dtype=np.int64), batch_rows)
        with HoodieParquetReader(self._storage, base_file.path, size_bytes=self._base_bytes) as reader:
            rows = self._rows_with_values(reader)
            return None if rows is None else self._few_merged(reader, rows, batch_rows)

    def _rows_with_values(self, reader: HoodieParquetReader) -> npt.NDArray[np.int64] | None:
        """The rows of the base file with one of the values, ascending; None if they do not have these as their keys,
        or are many.
        """
        column, values = self._searched.column, self._searched.values
        if RECORD_KEY_META not in reader.file_schema.names or not reader.stores(self._schema, [column]):
            return None
        nothing = np.zeros(0, dtype=np.int64)
        of_keys = reader.find_record_keys(values)[1] if reader.may_hold_keys(values) else nothing
        if column == RECORD_KEY_META or column not in reader.file_schema.names:
            return of_keys if len(of_keys) <= MOST_FEW_ROWS else None
        rows = np.union1d(of_keys, reader.find_record_keys(values, column=column)[1])
        if len(rows) > MOST_FEW_ROWS or len(rows) > len(of_keys):
            return None
        return rows

    def _few_merged(
        self, reader: HoodieParquetReader | None, rows: npt.NDArray[np.int64], batch_rows: int
    ) -> list[pa.RecordBatch] | None:
        """Some rows of the base file merged with the log records of the values, and new rows; None if a row of the log
        files has a value, and another record key.
        """
        records, scanner = self._scanned_log_files(searched=self._searched)
        with records:
            if scanner.has_other_keys:
                return None
            self.counts = MergeCounts(records.record_count, records.delete_count, len(records), scanned=self._scanned)
            is_met = np.zeros(len(records), dtype=np.bool_)
            found: list[pa.RecordBatch | None] = []
            finder: _Finder = _ByKey(KeyMatcher(records.keys), self._rules)
            if reader is not None and records.positions is not None:
                _check_positions(reader.path, reader.num_rows, int(records.positions.max(initial=-1)))
                rows, order = np.union1d(rows, records.positions), np.argsort(records.positions, kind="stable")
                finder = _ByPosition(order, np.searchsorted(rows, records.positions[order]))
            if reader is not None and len(rows):
                columns = self._read_columns(records, finder)
                batch = concat_rows(list(reader.take_rows(columns, self._schema, rows)))
                found.append(self._merged_batch(batch, 0, records, finder, is_met))
            found += self._new_rows(records, is_met, batch_rows)
            return [batch for batch in found if batch is not None and batch.num_rows]
