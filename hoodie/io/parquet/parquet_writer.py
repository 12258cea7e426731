"""Writer of Parquet base files, in Hudi's form.

Types are plain Parquet 1.0: lists of three levels, decimals as fixed-length bytes, timestamps in microseconds. The Avro
reader of every Hudi release reads them. The footer carries the entries of `hoodie.io.parquet.parquet_footer`.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.common.bloom.bloom_filter import BloomFilter, checked_keys
from hoodie.common.bloom.key_blocks import BLOCK_BYTES, BLOCK_KEYS, Keys
from hoodie.common.config.storage_config import HoodieStorageConfig, ParquetCompression
from hoodie.common.model.record_columns import COMMIT_SEQNO_META, META_COLUMNS, RECORD_KEY_META
from hoodie.exception import HoodieException, HoodieSchemaException
from hoodie.io.parquet.column_adaptation import column_with_encoding, with_encoding
from hoodie.io.parquet.footer_tail import write_with_value
from hoodie.io.parquet.parquet_footer import KeyRange, footer_entries
from hoodie.io.parquet.size_estimate import REPEATED_COLUMNS, SizeEstimate, Trial, is_text, leaves
from hoodie.io.parquet.splicing import (
    CopiedForm,
    ReadAt,
    RowGroupEdit,
    SplicingWriter,
    StoredChunks,
    StoredRowGroup,
)
from hoodie.io.parquet.splicing.column_chunks import long_value_options
from hoodie.storage.storage import abort_stream
from hoodie.storage.written_file import named_write_errors

_ROW_GROUP_ROWS = 1 << 20
_SAMPLE_ROWS = 1 << 13
_REPEATING = 0.25
"""A column whose sample has at most this share of distinct values is stored as a dictionary."""
_STILL_REPEATING = 0.9
"""The same for a column with a dictionary in an older version of the file, which might grow a lot without one."""
_DOUBT = 0.25
"""Possible error of a trial, as a share of its estimate, until the first row group is written."""
_DOUBT_AFTER_ROW_GROUP = 0.08
_CERTAIN = 0.04
"""An error below this share of the wanted size is ignored."""
_FULL = 0.02
"""A file is full when less than this share of the wanted size is left."""
_LARGE_SAMPLE = 16 << 20
"""Larger samples of a column are not copied to count what they repeat."""
_SMALL_FILE_BYTES = 1 << 20
"""Files whose rows take less are made in memory, so that pyarrow need not copy the bloom filter."""
_UNIQUE_COLUMNS = frozenset({RECORD_KEY_META, COMMIT_SEQNO_META})


class HoodieParquetWriter:
    """One base file being written; a context manager that aborts the file unless `close` was called.

    The writer holds batches until they fill a row group. The first rows decide which columns are stored as
    dictionaries: a dictionary of a column that hardly repeats costs time, and the encoder drops it late.

    A new version of a file can start from the old version's filter: pass that filter, and the old file's range as
    ``stored_keys``. Only the keys that are given to `write` are then added to both. The range may become wider than the
    keys, if the row of the smallest or largest key is deleted, but never narrower; unless ``renews_range``.

    Columns with the same bytes (the record key, and the user's column from which it is made) are encoded once. Columns
    of a row group of an older file can be kept as they are stored, see `start_row_group`.

    Memory: one row group of Arrow data, and the same encoded.

    Args:
        stream: The target; closed by `close` and `abort`.
        schema: Columns of the file, Hudi's five meta columns first.
        settings: The encoding: codec, sizes of row groups and pages, and whether there are dictionaries.
        bloom_filter: Filter to which the record keys are added; None for tables without meta fields, whose footers
            have neither filter nor range.
        avro_schema: Avro schema for the footer, meta columns included.
        stored_keys: The range of keys that ``bloom_filter`` holds already; None for a new filter.
        renews_range: Whether the range in the footer is that of all rows that are written, not joined with
            ``stored_keys``. Then the keys of all rows must be in the batches.
        dictionary_columns: Paths of the leaf columns that an older version of the file stored as dictionaries. They
            stay dictionaries unless hardly a value repeats, so that rows take no more space than before.
        path: The file, for messages.

    Raises:
        HoodieSchemaException: The meta columns are missing. The stream is closed.

    Hudi: org.apache.hudi.io.hadoop.HoodieAvroParquetWriter. Differs: takes batches.
    """

    def __init__(
        self,
        stream: pa.NativeFile,
        schema: pa.Schema,
        settings: HoodieStorageConfig,
        *,
        bloom_filter: BloomFilter | None,
        avro_schema: str | None,
        stored_keys: KeyRange | None = None,
        renews_range: bool = False,
        dictionary_columns: Collection[str] = (),
        path: str = "a base file",
        kept_keys: list[pa.Array | range] | None = None,
    ) -> None:
        self._stream = self._sink = stream
        self._path = path
        self._dictionary_columns = frozenset(dictionary_columns)
        self._settings = settings
        self._schema = _plain_schema(schema)
        self._bloom_filter = bloom_filter
        self._avro_schema = avro_schema
        self._footer_keys = _FooterKeys(bloom_filter, stored_keys, renews_range) if bloom_filter is not None else None
        self._file: SplicingWriter | None = None
        self._apart: frozenset[str] = frozenset()
        self._kept = StoredChunks()
        self._edit: RowGroupEdit | None = None
        self._kept_keys = kept_keys
        self._buffer: list[pa.RecordBatch] = []
        self._buffered_rows = 0
        self._buffered_bytes = 0
        self._buffered_keys = 0
        self._sizes = SizeEstimate(self._schema, settings, self._encode_sample)
        self._repeating: list[str] | None = None
        self._rows_written = 0
        self._size_bytes: int | None = None
        self._is_open = True
        if tuple(self._schema.names[: len(META_COLUMNS)]) != META_COLUMNS:
            self.abort()
            raise HoodieSchemaException(
                f"writing {path}: the first columns must be {', '.join(META_COLUMNS)}, not "
                f"{', '.join(self._schema.names[: len(META_COLUMNS)])}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.abort()

    @property
    def rows_written(self) -> int:
        """Number of rows given to `write`."""
        return self._rows_written

    @property
    def estimated_size_bytes(self) -> int:
        """Length of the file if it were finished now: exact for row groups, an estimate for buffered rows."""
        if self._size_bytes is not None:
            return self._size_bytes
        held = self._kept.stored_bytes + self._sizes.held_bytes()
        return int(self._stored_bytes + held + self._footer_bytes())

    def rows_that_fit(self, batch: pa.RecordBatch, limit_bytes: int) -> int:
        """The number of rows of a batch that can be appended next without the finished file exceeding a size.

        The call costs nothing while all rows fit even without compression. Nearer to the limit, it encodes some rows of
        each batch to memory as a trial. If too much depends on trials, it writes the held rows as a row group, so that
        their size is known.

        Args:
            batch: Rows as `write` takes them.
            limit_bytes: The wanted size, footer and bloom filter included.

        Returns:
            The rows to write before asking again; 0 when the file is full. A file without rows takes one at least.
        """
        most = self._stored_bytes + self._kept.stored_bytes + self._sizes.most_bytes(batch)
        if most + self._footer_bytes(more_keys=batch.num_rows) <= limit_bytes:
            return int(batch.num_rows)
        trial = self._sizes.trial(batch)
        while True:
            held = self._sizes.held_bytes(trial) + self._kept.stored_bytes
            doubt = _DOUBT if self._sizes.correction is None else _DOUBT_AFTER_ROW_GROUP
            rows, row_bytes = 0, trial.row_bytes / batch.num_rows * (self._sizes.correction or 1.0)
            # First the rows that fit with the present bloom filter, then with the filter that holds their keys.
            for _ in range(2):
                limit = max(limit_bytes - self._footer_bytes(trial, min(rows, batch.num_rows)), limit_bytes // 2)
                space = limit - self._stored_bytes
                # The held rows may grow until their possible error no longer fits, unless it is small enough to ignore.
                reach = max(space / (1 + doubt), min(space, _CERTAIN * limit / doubt))
                rows = max(0, int((reach - held) / row_bytes))
            if rows >= batch.num_rows:
                return int(batch.num_rows)
            if rows > 0 and reach - held >= _FULL * limit:
                return rows
            if not (self._buffer or self._edit) or (
                doubt * held <= _CERTAIN * limit and space - held <= 2 * _FULL * limit
            ):
                return 0 if self._rows_written else max(1, rows)
            self.flush()

    @property
    def buffered_bytes(self) -> int:
        """Bytes of Arrow data held for the next row group."""
        return self._buffered_bytes

    def flush(self) -> None:
        """Write the held rows as a row group, even if it is not full.

        Raises:
            HoodieIOException: The stream failed; the file can only be aborted.
        """
        self._check_open()
        self._write_row_group()

    def keep_apart(self, names: Collection[str]) -> None:
        """Announce, before the first row, the columns that `start_row_group` will keep.

        Args:
            names: Names of columns that are neither lists nor structs.
        """
        self._apart = frozenset(names)

    def start_row_group(self, kept: StoredChunks) -> None:
        """Begin a row group whose first rows take some columns as an older file stores them.

        Rows that are held already are written first. `write` ignores the values of these columns in the next rows; they
        must be dictionaries, with any values. The row group does not end before it has as many rows as that of the
        older file.

        Args:
            kept: The columns that were given to `keep_apart`.

        Raises:
            HoodieIOException: The stream failed; the file can only be aborted.
            HoodieException: These are other columns, or the row group before lacks rows.
        """
        self._check_open()
        self._write_row_group()
        if self._apart != kept.chunks.keys():
            raise HoodieException(
                f"writing {self._path}: columns {', '.join(kept.chunks)} cannot be kept: they were not kept apart"
            )
        self._kept = kept
        self._buffered_bytes = kept.plain_bytes

    def start_edit(self, edit: RowGroupEdit) -> None:
        """Begin a row group that is one of an older file with changes. Rows that are held already are written first.

        Rows that are written next come behind it, in the same row group unless it is full.

        Args:
            edit: The row group, of the `copied_form` of this file.

        Raises:
            HoodieCorruptedDataException: The older file is cut short or damaged; this file can only be aborted.
            HoodieIOException: The stream failed; the file can only be aborted.
        """
        self._check_open()
        self._write_row_group()
        self._edit = edit
        self._buffered_rows = edit.rows
        self._buffered_bytes = edit.stored.plain_bytes
        self._rows_written += edit.rows
        if self._is_full:
            self._write_row_group()

    def write(self, batch: pa.RecordBatch, keys: Keys | None = None) -> None:
        """Append rows.

        Args:
            batch: Columns of the schema, in its order; strings may be dictionary-encoded and are stored as strings.
            keys: The record keys of the batch that are new to the bloom filter. None means all of them, or none of
                them if the file starts from ``stored_keys``.

        Raises:
            HoodieSchemaException: Columns do not fit the schema, or a column that is not nullable holds a null.
            HoodieKeyException: A key is null or empty.
            HoodieIOException: The stream failed; the file can only be aborted.
        """
        self._check_open()
        self._check_batch(batch)
        if not batch.num_rows:
            return
        if self._footer_keys is not None:
            self._footer_keys.add(batch.column(RECORD_KEY_META), keys)
        if self._kept_keys is not None and self._buffered_rows >= self._kept.rows:
            self._kept_keys.append(batch.column(RECORD_KEY_META))
            self._buffered_keys += 1
        self._buffer.append(batch)
        self._sizes.hold(batch)
        self._buffered_rows += batch.num_rows
        self._buffered_bytes += batch.nbytes
        self._rows_written += batch.num_rows
        if self._is_full and self._buffered_rows >= self._kept.rows:
            self._write_row_group()

    def row_group_fits(self, group: StoredRowGroup, limit_bytes: int) -> bool:
        """Whether `copy_row_group` does not make the finished file exceed a size; a file without rows takes any.

        Args:
            group: The row group.
            limit_bytes: See `rows_that_fit`.
        """
        if not self._rows_written:
            return True
        size = self._stored_bytes + group.stored_bytes + self._footer_bytes(more_keys=group.rows)
        return size + self._sizes.most_bytes() <= limit_bytes or size + self._sizes.held_bytes() <= limit_bytes

    def copy_row_group(
        self, group: StoredRowGroup, source: ReadAt, keys: pa.ChunkedArray | None, constants: Mapping[str, str]
    ) -> None:
        """Append a row group as another file stores it. Rows that are held come behind it.

        Args:
            group: The row group, of the `copied_form` of this file.
            source: The bytes of the other file.
            keys: The record keys of its rows; None if the file has no bloom filter and nobody keeps keys.
            constants: Columns of strings that have one new value in each row.

        Raises:
            HoodieCorruptedDataException: The other file is cut short or damaged; this file can only be aborted.
            HoodieKeyException: A key is null or empty.
            HoodieIOException: A file failed; this one can only be aborted.
            HoodieException: Columns are kept apart, see `keep_apart`; or keys are missing.
        """
        self._check_open()
        needs_keys = self._footer_keys is not None or self._kept_keys is not None
        if self._apart or (needs_keys and (keys is None or len(keys) != group.rows)):
            raise HoodieException(f"writing {self._path}: row groups of {group.path} cannot be copied")
        for part in keys.chunks if keys is not None else ():
            if self._footer_keys is not None:
                self._footer_keys.add(part, None)
            if self._kept_keys is not None:
                self._kept_keys.insert(len(self._kept_keys) - self._buffered_keys, part)
        with named_write_errors(self._path):
            self._opened_file().copy_row_group(group, source, constants)
        self._sizes.row_group_is_copied(group.statistics_bytes)
        self._rows_written += group.rows

    def close(self) -> int:
        """Finish the file and close the stream. A second call returns the same length.

        Returns:
            The length of the file.

        Raises:
            HoodieIOException: The stream failed; the file is aborted.
            HoodieException: The file was aborted before.
        """
        if self._size_bytes is not None:
            return self._size_bytes
        self._check_open()
        try:
            is_small = self._file is None and self._edit is None and self._buffered_bytes < _SMALL_FILE_BYTES
            if is_small and self._bloom_filter is not None:
                self._sink = pa.BufferOutputStream()
            self._write_row_group(is_last=True)
            if self._footer_keys is not None:
                self._footer_keys.finish()
            key_range = self._footer_keys.key_range if self._footer_keys is not None and self._rows_written else None
            with named_write_errors(self._path):
                file = self._opened_file()
                if is_small and self._bloom_filter is not None:
                    placeholder = uuid.uuid4().hex
                    file.close(footer_entries(self._bloom_filter, key_range, self._avro_schema, placeholder))
                    pieces, length = self._bloom_filter.base64_pieces(), self._bloom_filter.base64_length
                    write_with_value(self._stream, self._sink.getvalue(), placeholder, pieces, length)
                else:
                    file.close(footer_entries(self._bloom_filter, key_range, self._avro_schema))
                size_bytes = int(self._stream.tell())
                self._stream.close()
        except BaseException:
            self.abort()
            raise
        self._is_open = False
        self._file = None
        self._size_bytes = size_bytes
        return size_bytes

    def abort(self) -> None:
        """Close the stream without finishing the file, so object stores keep no file. Does nothing after `close`."""
        if not self._is_open:
            return
        self._is_open = False
        file, self._file = self._file, None
        self._buffer, self._edit = [], None
        # The stream is closed first, so that nothing can write a footer. Then pyarrow must not try it when collected.
        with suppress(Exception):
            abort_stream(self._stream)
        if file is not None:
            file.abandon()

    def _check_open(self) -> None:
        if not self._is_open:
            raise HoodieException(f"{self._path} was closed or aborted; nothing can be written to it")

    def _check_batch(self, batch: pa.RecordBatch) -> None:
        mismatch = _mismatch(self._schema, batch.schema)
        if mismatch is not None:
            raise HoodieSchemaException(f"writing {self._path}: {mismatch}")
        for place in _required(self._schema):
            if nulls := batch.column(place).null_count:
                raise HoodieSchemaException(
                    f"writing {self._path}: column {self._schema.names[place]} has {nulls} nulls, but the file allows "
                    "none"
                )

    def _write_row_group(self, is_last: bool = False) -> None:
        if self._edit is not None:
            self._write_edit(self._edit)
        elif self._buffer:
            with named_write_errors(self._path):
                file = self._started_file()
                before = self._stream.tell() + self._kept.stored_bytes
                file.write_row_group(self._buffer, self._kept)
                written = self._stream.tell() - before
            if not is_last:
                self._sizes.row_group_is_written(written)
        self._buffer, self._edit = [], None
        self._buffered_rows = 0
        self._buffered_bytes = 0
        self._buffered_keys = 0
        self._kept = StoredChunks()

    def _write_edit(self, edit: RowGroupEdit) -> None:
        with named_write_errors(self._path):
            written = self._opened_file().write_edit(edit, self._buffer)
        self._sizes.row_group_is_edited(edit.stored.statistics_bytes)
        if self._footer_keys is not None and self._footer_keys.renews_range and written is not None:
            self._footer_keys.add_range(_range_of(edit))

    def _opened_file(self) -> SplicingWriter:
        """The file."""
        if self._file is None:
            self._file = SplicingWriter(self._sink, self._schema, self._options, path=self._path)
        return self._file

    def _started_file(self) -> SplicingWriter:
        """The file; the first call starts its rows with the encoding that suits the buffered ones."""
        file = self._opened_file()
        if not file.is_started:
            self._choose_dictionary_columns(self._buffer)
            like_key = [
                field.name
                for field in (self._schema if self._bloom_filter is not None else ())
                if field.type == pa.string() and field.name not in {*META_COLUMNS, *(self._repeating or ())}
            ]
            file.start(self._options, self._buffer, copied=self._apart, key=RECORD_KEY_META, like_key=like_key)
        return file

    @property
    def _options(self) -> dict[str, Any]:
        options = writer_options(self._settings, self._repeating or [])
        if self._buffer and long_value_options(self._buffered_bytes, self._buffered_rows):
            columns = [batch.columns for batch in self._buffer]
            longest = max(sum(part.nbytes for part in column) for column in zip(*columns, strict=True))
            options |= long_value_options(longest, self._buffered_rows)
        return options

    def _choose_dictionary_columns(self, batches: list[pa.RecordBatch]) -> None:
        """Choose once, by the first rows, the leaf columns whose values repeat."""
        if self._repeating is not None or not batches:
            return
        sample = list(_first_rows(batches))
        chosen = []
        for place, field in enumerate(self._schema):
            if field.name in REPEATED_COLUMNS:
                chosen.append(field.name)
            elif field.name not in _UNIQUE_COLUMNS and field.name not in self._apart:
                parts = [column_with_encoding(batch.column(place), field.type) for batch in sample]
                # Leaf after leaf; each part has the same ones.
                for found in zip(*(leaves(field.name, part) for part in parts), strict=True):
                    path = found[0][0]
                    if self._repeats(path, pa.chunked_array([leaf for _, leaf in found])):
                        chosen.append(path)
        self._repeating = chosen

    def _repeats(self, path: str, values: pa.ChunkedArray) -> bool:
        if not len(values) or pa.types.is_boolean(values.type):
            return False
        share = _STILL_REPEATING if path in self._dictionary_columns else _REPEATING
        if values.nbytes > _LARGE_SAMPLE and is_text(values.type):
            found = {hashlib.sha256(value.as_buffer()).digest() if value.is_valid else None for value in values}
            return len(found) <= share * len(values)
        # If values hardly repeat, the first ones are enough to see that there are too many.
        most = int(share * len(values))
        first = values.slice(0, most + most // 4 + 1)
        return len(first.unique()) <= most and (len(first) == len(values) or len(values.unique()) <= most)

    @property
    def _is_full(self) -> bool:
        """Whether the held rows fill a row group."""
        return self._buffered_bytes >= self._settings.parquet_block_size or self._buffered_rows >= _ROW_GROUP_ROWS

    @property
    def _stored_bytes(self) -> int:
        """Bytes of the row groups written so far, and of one that an edit will write."""
        coming = self._edit.stored.stored_bytes if self._edit is not None else 0
        return coming + (int(self._stream.tell()) if self._file is not None else 0)

    def _footer_bytes(self, coming: Trial | None = None, more_keys: int = 0) -> int:
        """The estimated size of the footer with further rows and the given number of further keys."""
        bloom = self._footer_keys.filter_bytes_with(more_keys) * 4 // 3 if self._footer_keys is not None else 0
        return self._sizes.footer_bytes(coming) + bloom + len(self._avro_schema or "")

    def _encode_sample(self, sample: pa.RecordBatch, rows: Sequence[pa.RecordBatch]) -> pq.FileMetaData:
        """Write rows to memory as the file would hold them."""
        self._choose_dictionary_columns(self._buffer or [sample])
        table = pa.Table.from_batches([with_encoding(piece, self._schema) for piece in rows], self._schema)
        sink = pa.BufferOutputStream()
        with named_write_errors(self._path), pq.ParquetWriter(sink, self._schema, **self._options) as file:
            file.write_table(table, row_group_size=max(table.num_rows, 1))
        return pq.read_metadata(pa.BufferReader(sink.getvalue()))


class _FooterKeys:
    """The record keys of a file for its footer: for the bloom filter and the range.

    Many keys are hashed at a time, since threads that hash few keys at a time block each other.

    Args:
        bloom_filter: The filter to which the keys are added.
        stored_keys: The range of keys that the filter holds already; then only keys that are passed as new count.
        renews_range: Whether all keys count for the range even so.

    Attributes:
        renews_range: See above.
        key_range: The smallest and the largest key; None without keys.
    """

    def __init__(self, bloom_filter: BloomFilter, stored_keys: KeyRange | None, renews_range: bool) -> None:
        self._bloom_filter = bloom_filter
        self._starts_from_stored_keys = stored_keys is not None
        self.renews_range = renews_range
        self.key_range = None if renews_range else stored_keys
        self._waiting: list[pa.Array] = []

    def filter_bytes_with(self, more_keys: int) -> int:
        """The length of the filter with all keys, and the given number of further ones.

        Args:
            more_keys: The number of further keys.
        """
        return self._bloom_filter.stored_bytes_with(sum(map(len, self._waiting)) + more_keys)

    def add(self, stored: Keys, new: Keys | None) -> None:
        """Take the keys of rows.

        Args:
            stored: The keys of all rows.
            new: The keys that are new to the filter; None means all, or none if the filter holds stored keys.

        Raises:
            HoodieKeyException: A key is null or empty.
        """
        if new is None and not self._starts_from_stored_keys:
            new = stored
        if new is not None and len(new):
            self._hash_soon(checked_keys(new))
        ranged = new if self._starts_from_stored_keys and not self.renews_range else stored
        self.add_range(KeyRange.of(ranged) if ranged is not None else None)

    def add_range(self, found: KeyRange | None) -> None:
        """Widen the range by that of rows whose keys the filter has.

        Args:
            found: The range; None without rows.
        """
        if found is not None:
            self.key_range = found.union(self.key_range)

    def finish(self) -> None:
        """Add all waiting keys to the filter."""
        if self._waiting:
            keys, self._waiting = self._waiting, []
            self._bloom_filter.add(pa.chunked_array(keys))

    def _hash_soon(self, keys: pa.Array) -> None:
        if self._waiting and self._waiting[0].type != keys.type:
            self.finish()
        self._waiting.append(keys)
        count = sum(len(part) for part in self._waiting)
        if count >= BLOCK_KEYS or sum(part.nbytes for part in self._waiting) >= BLOCK_BYTES:
            self.finish()


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    """A schema without field ids and other metadata, which would be stored with it."""
    if schema.metadata is None and all(field.metadata is None for field in schema):
        return schema
    return pa.schema([pa.field(field.name, field.type, field.nullable) for field in schema])


@lru_cache(maxsize=16)
def _required(schema: pa.Schema) -> tuple[int, ...]:
    """The places of the columns that hold no nulls."""
    return tuple(place for place, field in enumerate(schema) if not field.nullable)


@lru_cache(maxsize=16)
def _mismatch(schema: pa.Schema, given: pa.Schema) -> str | None:
    """The reason why rows cannot be written to a file: other columns or types; None if they can.

    Args:
        schema: Columns of the file.
        given: Columns of the rows.
    """
    if given.names != schema.names:
        return f"a batch has the columns {', '.join(given.names)}, the file has {', '.join(schema.names)}"
    for field, mine in zip(schema, given, strict=True):
        stored_type = mine.type.value_type if pa.types.is_dictionary(mine.type) else mine.type
        if stored_type != field.type:
            return f"column {field.name} is {mine.type} in a batch, but {field.type} in the file"
    return None


def _range_of(edit: RowGroupEdit) -> KeyRange | None:
    """The range of the record keys of a row group that was written."""
    ends = edit.ends_of_keys()
    if ends is not None:
        found = KeyRange(ends[0].decode(), ends[1].decode())
        # Statistics have the order of UTF-8 bytes.
        if found.is_of_any_order:
            return found
    return KeyRange.of(edit.keys())


def writer_options(config: HoodieStorageConfig, dictionary_columns: Sequence[str]) -> dict[str, Any]:
    """The options of pyarrow's writer for base files.

    Args:
        config: The encoding.
        dictionary_columns: Paths of the leaf columns that are stored as dictionaries, if dictionaries are enabled.
    """
    return {
        "version": "1.0",
        "data_page_version": "1.0",
        "compression": str(config.parquet_compression_codec),
        "use_dictionary": list(dictionary_columns) if config.parquet_dictionary_enabled else False,
        "data_page_size": config.parquet_page_size,
        "dictionary_pagesize_limit": config.parquet_page_size,
        "coerce_timestamps": "us",
        "store_schema": False,
        "store_decimal_as_integer": False,
        "write_statistics": True,
        "write_page_checksum": True,
    }


def copied_form(schema: pa.Schema, config: HoodieStorageConfig, min_bytes: int) -> CopiedForm:
    """The form of row groups that `HoodieParquetWriter.copy_row_group` takes.

    Args:
        schema: Columns of the file.
        config: The encoding.
        min_bytes: The least stored bytes of a row group.
    """
    return CopiedForm.of(
        _plain_schema(schema), writer_options(config, ()), str(config.parquet_compression_codec), min_bytes
    )


def file_without_rows(column: str, entries: Mapping[str, str]) -> bytes:
    """The content of a file without rows.

    Args:
        column: Name of its only column, of integers.
        entries: Key/value pairs.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(pa.schema([(column, pa.int64())], metadata=entries).empty_table(), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def write_rows(
    stream: pa.NativeFile, batches: Iterable[pa.RecordBatch], schema: pa.Schema, avro_schema: str, path: str
) -> int:
    """Write a file of gzipped rows that are not records of a table: one row group for each batch.

    Args:
        stream: The target; closed by the call, and aborted if it fails.
        batches: The rows.
        schema: Their columns. Columns of bytes get no statistics.
        avro_schema: Avro schema for the footer.
        path: The file, for messages.

    Returns:
        The length of the file.

    Raises:
        HoodieIOException: The stream failed.
    """
    settings = HoodieStorageConfig(parquet_compression_codec=ParquetCompression.GZIP)
    options = writer_options(settings, ())
    options["write_statistics"] = [field.name for field in schema if not pa.types.is_binary(field.type)]
    try:
        with named_write_errors(path):
            with pq.ParquetWriter(stream, schema, **options) as file:
                for batch in batches:
                    file.write_table(pa.Table.from_batches([batch], schema), row_group_size=max(batch.num_rows, 1))
                file.add_key_value_metadata(footer_entries(None, None, avro_schema))
            size_bytes = int(stream.tell())
            stream.close()
    except BaseException:
        with suppress(Exception):
            abort_stream(stream)
        raise
    return size_bytes


def _first_rows(batches: list[pa.RecordBatch], count: int = _SAMPLE_ROWS) -> Iterator[pa.RecordBatch]:
    """Slices with the first rows of batches."""
    for batch in batches:
        if count <= 0:
            return
        yield batch.slice(0, count)
        count -= batch.num_rows
