"""The rows of a base file, for the next version of its file group.

Hudi has no such class: its merge handle reads records one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.config.storage_config import HoodieStorageConfig
from hoodie.common.model.record_columns import (
    COMMIT_SEQNO_META,
    COMMIT_TIME_META,
    META_COLUMN_SET,
    RECORD_KEY,
    RECORD_KEY_META,
)
from hoodie.io.parquet.parquet_footer import Footer
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.parquet.parquet_writer import copied_form, writer_options
from hoodie.io.parquet.splicing import (
    RowGroupEdit,
    StoredChunks,
    StoredColumns,
    StoredRowGroup,
    decoded_bytes,
    splicing_pays,
)
from hoodie.merge.merge_spec import MergeSpec
from hoodie.storage.storage import HoodieStorage

MERGE_BATCH_ROWS = 1 << 16
"""The number of rows that are merged at a time."""
SMALL_ROW_GROUP = 0.25
"""Row groups below this share of the wanted size are joined instead of copied, except for the last one."""
LARGE_ROW_GROUP = 1.25
"""Row groups above this share of the wanted size are not copied either, because copying holds them in memory."""
_LEAST_AHEAD_BYTES = 1 << 20
"""Files of fewer bytes before compression are read and written by one thread."""
MOST_EDITED = 0.5
"""Row groups are decoded if changed rows are in more than this share of what pages hold."""
_BYTES_OF_CODE = 4.0
"""The bytes of a value in a dictionary, when it is decoded."""
_LONG_VALUE = 1 << 14
"""Columns of longer values are not held in memory as they are stored."""
_MOST_DECODED_BYTES = 64 << 20
"""Row groups of which more bytes would be in memory are decoded, some rows at a time."""
_ROWS_OF_PAGE = 20_000
"""The most rows of a page, as Arrow writes them."""


class LateColumns:
    """The rows of a row group that are read only if they are asked for.

    Memory: a batch.

    Args:
        names: The columns.
        batches: Begins to read the rows.
        start: The number of the first row.
    """

    def __init__(self, names: Sequence[str], batches: Callable[[], Iterator[pa.RecordBatch]], start: int) -> None:
        self.names = frozenset(names)
        self._begin = batches
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._rest: pa.RecordBatch | None = None
        self._next = start

    def of_rows(self, start: int, count: int) -> pa.RecordBatch:
        """Some rows; those before them cannot be asked for any more.

        Args:
            start: The number of the first one.
            count: Their number.

        Raises:
            HoodieCorruptedDataException: The file is damaged.
        """
        if self._batches is None:
            self._batches = self._begin()
        parts = []
        while count:
            batch = self._rest if self._rest is not None else next(self._batches)
            skipped = min(start - self._next, batch.num_rows)
            part = batch.slice(skipped, count)
            self._rest = batch.slice(skipped + part.num_rows) if skipped + part.num_rows < batch.num_rows else None
            self._next += skipped + part.num_rows
            start, count = start + part.num_rows, count - part.num_rows
            if part.num_rows:
                parts.append(part)
        return parts[0] if len(parts) == 1 else pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


@attrs.frozen(eq=False, slots=False)
class StoredRows:
    """Consecutive rows.

    Attributes:
        start: The number of the first row.
        rows: The decoded columns.
        row_group: The copied columns of a row group, if one begins here and some of its columns are copied.
        late: Reads the other columns of the row group, if only some were decoded.
    """

    start: int
    rows: pa.RecordBatch
    row_group: StoredChunks | None = None
    late: LateColumns | None = None

    @cached_property
    def complete(self) -> pa.RecordBatch:
        """The rows with all decoded columns; read now, where they were left out.

        Raises:
            HoodieCorruptedDataException: The file is damaged.
        """
        return self.rows if self.late is None else self.late.of_rows(self.start, self.rows.num_rows)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.rows.nbytes) + (self.row_group.stored_bytes if self.row_group is not None else 0)


@attrs.frozen(eq=False)
class StoredEdit:
    """A row group of which most pages are copied.

    Attributes:
        start: The number of its first row.
        edit: The row group.
    """

    start: int
    edit: RowGroupEdit

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.edit.nbytes


class MergeSource:
    """The stored rows of a file group in their order, for the next version of it.

    Most columns are decoded. The record key, and the user's column from which it is made, do not change in a merge, and
    can be copied as they are stored: decoding and encoding them would be half of the work. File name and partition
    path are not read, because they are written anew for each row.

    Args:
        storage: The storage of the file.
        path: Full path of the base file.
        schema: The schema to read the rows in, including meta columns.
        merge_spec: The merge of stored and incoming records.
        config: The storage options of the next version.
        columns: The columns to read, for rows that keep their meta columns; None for the columns of rows that get new
            meta columns: then commit times are dictionaries.
        size_bytes: See `HoodieParquetReader`.
    """

    def __init__(
        self,
        storage: HoodieStorage,
        path: str,
        schema: pa.Schema,
        merge_spec: MergeSpec,
        config: HoodieStorageConfig,
        columns: Sequence[str] | None = None,
        size_bytes: int = 0,
    ) -> None:
        self.path = path
        self._schema = schema
        self._user_schema = pa.schema([field for field in schema if field.name not in META_COLUMN_SET])
        self._merge_spec = merge_spec
        self._config = config
        self._columns = columns or [RECORD_KEY_META, COMMIT_TIME_META, COMMIT_SEQNO_META, *self._user_schema.names]
        # A file has few commit times, so they are read, merged and written as dictionaries, by small numbers.
        dictionaries = [COMMIT_TIME_META] if columns is None else []
        self._new_reader = partial(HoodieParquetReader, storage, path, dictionaries, size_bytes=size_bytes)
        self._reader = self._new_reader()
        self._late_reader: HoodieParquetReader | None = None

    def open(self) -> None:
        """See `HoodieParquetReader.open`."""
        self._reader.open()

    def close(self) -> None:
        """See `HoodieParquetReader.close`."""
        self._reader.close()
        if self._late_reader is not None:
            self._late_reader.close()

    def footer(self) -> Footer:
        """See `HoodieParquetReader.footer`."""
        return self._reader.footer()

    def names_only_its_keys(self) -> bool:
        """See `HoodieParquetReader.names_only_its_keys`."""
        return self._reader.names_only_its_keys()

    def dictionary_columns(self) -> frozenset[str]:
        """See `HoodieParquetReader.dictionary_columns`."""
        return self._reader.dictionary_columns()

    def columns_to_copy(self, updates: pa.Table) -> list[str]:
        """The columns that a merge does not change and that the next version can copy as they are stored.

        The user's columns among them equal the record key in each stored and incoming row. If a record may be deleted,
        there are none.

        Args:
            updates: The incoming rows of stored records.
        """
        if updates.num_rows and self._merge_spec.may_delete(updates):
            return []
        found = self.copies_of_key(updates.column_names)
        return [name for name in found if name == RECORD_KEY_META or updates[name].equals(updates[RECORD_KEY])]

    def copies_of_key(self, names: Collection[str]) -> list[str]:
        """The record key, and the columns with its bytes in every row; none if the next version cannot copy them.

        Args:
            names: The columns that may be copied. Columns that decide about records are left out.
        """
        if not splicing_pays(len(self._schema), self._plain_bytes):
            return []
        merged = set(self._merge_spec.stored_columns(self._user_schema))
        fields = [
            field
            for field in self._user_schema
            if field.type == pa.string() and field.name in names and field.name not in merged
        ]
        key = pa.field(RECORD_KEY_META, pa.string())
        return self._stored.copies_of(key, fields, str(self._config.parquet_compression_codec))

    def deciding_columns(self, compared: Sequence[str]) -> list[str]:
        """The columns that tell whether an incoming row replaces a stored one, and differs from it.

        Args:
            compared: The user's columns in the order in which they are compared.
        """
        decide = self._merge_spec.stored_columns(self._user_schema)
        return [COMMIT_TIME_META, *dict.fromkeys([*decide, *compared[:1]])]

    @property
    def is_large(self) -> bool:
        """Whether it pays to read rows on a thread of their own."""
        return self._plain_bytes >= _LEAST_AHEAD_BYTES

    @property
    def row_count(self) -> int:
        """The number of all rows."""
        return self._reader.num_rows

    def edits(
        self, positions: npt.NDArray[np.int64], constants: Mapping[str, str], *, appends: bool
    ) -> dict[int, RowGroupEdit]:
        """The row groups that the next version takes with few changes, by their numbers.

        All others are to be decoded: those with changes in most of their pages, and those that the next version would
        store in another form, or in a row group of another size.

        Args:
            positions: The rows of the file that may change, ascending and distinct.
            constants: Columns of strings with one new value in each row.
            appends: Whether rows may follow the last row group.
        """
        if not splicing_pays(len(self._schema), self._plain_bytes):
            return {}
        row_groups = self._reader.row_groups
        ends = np.cumsum([count for count, _ in row_groups])
        likely: dict[int, npt.NDArray[np.int64]] = {}
        for number, (count, plain_bytes) in enumerate(row_groups):
            if not self._has_size(number):
                continue
            low, high = np.searchsorted(positions, [ends[number] - count, ends[number]]).tolist()
            touched = positions[low:high] - (ends[number] - count)
            pages = max(count // _ROWS_OF_PAGE, plain_bytes // (len(self._schema) * self._config.parquet_page_size), 1)
            if _share_of_pages(touched, count, pages, False) <= MOST_EDITED or len(touched) == 0:
                likely[number] = touched
        if not likely:
            return {}
        stored = self._reader.row_groups_to_copy(copied_form(self._schema, self._config, 1))
        found = {}
        for number, touched in likely.items():
            follows = appends and number == len(row_groups) - 1
            if number in stored and self._is_edited(stored[number], touched, follows):
                found[number] = RowGroupEdit(
                    stored[number],
                    self._schema,
                    self._reader.read_at,
                    partial(self._column, number),
                    touched=touched,
                    constants=constants,
                    key=RECORD_KEY_META,
                    options=writer_options(self._config, ()),
                )
        return found

    def _is_edited(self, stored: StoredRowGroup, touched: npt.NDArray[np.int64], follows: bool) -> bool:
        share = _share_of_values(touched, stored, follows)
        if share > MOST_EDITED:
            return False
        # Without changes nothing is decoded.
        return share == 0 or decoded_bytes(stored, self._schema, self._reader.read_at) <= _MOST_DECODED_BYTES

    def parts(
        self,
        edits: dict[int, RowGroupEdit],
        copied: Sequence[str],
        deciding: Sequence[str],
        bytes_instead: Callable[[int, int], int | None],
    ) -> Iterator[StoredRows | StoredEdit]:
        """All rows, one row group after the other; those of edits, and copied columns, are not decoded.

        Args:
            edits: The row groups of `edits`; they are taken out as they are read.
            copied: Some of `columns_to_copy`. They are decoded, too, in row groups whose size differs from the wanted
                one, or whose columns turn out to differ.
            deciding: The columns that are decoded at once where each row of a row group has an incoming one.
            bytes_instead: The bytes of the incoming rows for some rows, by their first number and their number; None
                if one of them has none.

        Raises:
            HoodieCorruptedDataException: The file is damaged.
        """
        start = 0
        for number, (count, _) in enumerate(self._reader.row_groups):
            if number in edits:
                # The rows that may change are read here, ahead of the writer.
                edit = edits.pop(number)
                edit.load(self._user_schema.names)
                yield StoredEdit(start, edit)
                del edit
            else:
                instead = bytes_instead(start, count) if deciding and count else None
                yield from self._rows_of(number, start, copied, deciding, instead)
            start += count

    def rows(self, copied: Sequence[str]) -> Iterator[StoredRows]:
        """All rows, one row group after the other; copied columns are not decoded.

        Args:
            copied: See `parts`.

        Raises:
            HoodieCorruptedDataException: The file is damaged.
        """
        start = 0
        for number, (count, _) in enumerate(self._reader.row_groups):
            yield from self._rows_of(number, start, copied)
            start += count

    def _rows_of(
        self,
        number: int,
        start: int,
        copied: Sequence[str],
        deciding: Sequence[str] = (),
        instead: int | None = None,
    ) -> Iterator[StoredRows]:
        """The rows of a row group; see `parts`.

        Args:
            number: The number of the row group.
            start: The number of its first row.
            copied: See `parts`.
            deciding: See `parts`.
            instead: The bytes of the incoming rows for all of its rows; None if one of them has none.
        """
        count, _ = self._reader.row_groups[number]
        wanted_bytes = self._config.parquet_block_size
        chunks = late = None
        if copied and self._has_size(number):
            chunks = self._stored.chunks(number, copied)
        copied_here = copied if chunks is not None else ()
        if instead is not None and (chunks is None or instead <= LARGE_ROW_GROUP * wanted_bytes):
            names = [name for name in self._columns if name not in copied_here]
            late = LateColumns(names, partial(self._late_row_group, number, copied_here), start)
            batches = self._reader.iter_batches(deciding, self._schema, [number], MERGE_BATCH_ROWS)
        elif chunks is not None:
            batches = self._row_group(number, copied)
            first = next(batches, None)
            if first is not None and first.nbytes * count <= LARGE_ROW_GROUP * wanted_bytes * first.num_rows:
                batches = chain([first], batches)
            else:
                batches, chunks = self._row_group(number, ()), None
        else:
            batches = self._row_group(number, ())
        for batch in batches:
            yield StoredRows(start, batch, chunks, late)
            start += batch.num_rows
            chunks = None

    def _has_size(self, number: int) -> bool:
        """Whether a row group stays one in the next version, by its size: it is not joined with others, nor so large
        that it is not held in memory.
        """
        count, plain_bytes = self._reader.row_groups[number]
        wanted_bytes = self._config.parquet_block_size
        is_last = number == self._reader.num_row_groups - 1
        is_joined = not is_last and plain_bytes < SMALL_ROW_GROUP * wanted_bytes
        return count > 0 and not is_joined and plain_bytes <= LARGE_ROW_GROUP * wanted_bytes

    def _column(self, number: int, name: str) -> pa.ChunkedArray:
        """A column of a row group in the type of the schema; on any thread."""
        batches = self._reader.iter_batches([name], self._schema, [number], MERGE_BATCH_ROWS, on_all_cores=False)
        return pa.chunked_array([batch.column(0) for batch in batches], self._schema.field(name).type)

    def _late_row_group(self, number: int, without: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See `_row_group`; by a reader of its own, because the other one reads ahead on another thread."""
        if self._late_reader is None:
            self._late_reader = self._new_reader()
            self._late_reader.open()
        return self._row_group(number, without, self._late_reader)

    @cached_property
    def _plain_bytes(self) -> int:
        return sum(plain_bytes for _, plain_bytes in self._reader.row_groups)

    @cached_property
    def _stored(self) -> StoredColumns:
        return self._reader.stored_columns()

    def _row_group(
        self, number: int, without: Sequence[str], reader: HoodieParquetReader | None = None
    ) -> Iterator[pa.RecordBatch]:
        wanted = [name for name in self._columns if name not in without]
        reader = reader or self._reader
        return reader.iter_batches(wanted, self._schema, row_groups=[number], batch_rows=MERGE_BATCH_ROWS)


def _share_of_pages(rows: npt.NDArray[np.int64], count: int, pages: int, appends: bool) -> float:
    """The share of the pages of a column that rows are in, if all pages have as many rows."""
    page_rows = max(1, -(-count // pages))
    touched = len(np.unique(rows // page_rows)) + (appends and not (len(rows) and rows[-1] // page_rows == pages - 1))
    return touched / pages


def _share_of_values(rows: npt.NDArray[np.int64], stored: StoredRowGroup, appends: bool) -> float:
    """The share of a row group that must be decoded for changes of some rows.

    Columns that are not plain must be decoded as a whole. Long values take too much memory; they are decoded, some rows
    at a time.
    """
    if not len(rows) and not appends:
        return 0.0
    decoded = everything = 0.0
    for column in stored.columns:
        if column.chunk.plain_bytes > _LONG_VALUE * stored.rows:
            return 1.0
        if column.is_flat and column.is_plain:
            size = float(column.chunk.plain_bytes)
            decoded += size * _share_of_pages(rows, stored.rows, column.page_count, appends)
        else:
            size = max(float(column.chunk.plain_bytes), _BYTES_OF_CODE * stored.rows)
            decoded += size
        everything += size
    return decoded / everything
