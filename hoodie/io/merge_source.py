"""The rows of a base file, for the next version of its file group.

Hudi has no such class: its merge handle reads records one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain

import attrs
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
from hoodie.io.parquet.splicing import StoredChunks, StoredColumns, splicing_pays
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

    def rows(
        self,
        copied: Sequence[str],
        deciding: Sequence[str] = (),
        bytes_instead: Callable[[int, int], int | None] = lambda start, count: None,
    ) -> Iterator[StoredRows]:
        """All rows, one row group after the other; copied columns are not decoded.

        Args:
            copied: Some of `columns_to_copy`. They are decoded, too, in row groups whose size differs from the wanted
                one, or whose columns turn out to differ.
            deciding: The columns that are decoded at once where each row of a row group has an incoming one.
            bytes_instead: The bytes of the incoming rows for some rows, by their first number and their number; None
                if one of them has none.

        Raises:
            HoodieCorruptedDataException: The file is damaged.
        """
        start = 0
        wanted_bytes = self._config.parquet_block_size
        row_groups = self._reader.row_groups
        for number, (count, plain_bytes) in enumerate(row_groups):
            is_last = number == len(row_groups) - 1
            has_size = is_last or plain_bytes >= SMALL_ROW_GROUP * wanted_bytes
            chunks = late = None
            if copied and count and has_size and plain_bytes <= LARGE_ROW_GROUP * wanted_bytes:
                chunks = self._stored.chunks(number, copied)
            copied_here = copied if chunks is not None else ()
            instead = bytes_instead(start, count) if deciding and count else None
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
