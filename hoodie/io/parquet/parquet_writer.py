"""Write Parquet base files as Hudi does.

Types are plain Parquet 1.0: lists of three levels, decimals as fixed-length bytes, timestamps in microseconds; the Avro
reader of every Hudi release takes them. The footer carries what `hoodie.io.parquet.parquet_footer` lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.common.bloom.bloom_filter import BloomFilter, checked_keys
from hoodie.common.bloom.key_blocks import BLOCK_BYTES, BLOCK_KEYS, Keys
from hoodie.common.config.storage_config import HoodieStorageConfig
from hoodie.common.model.record_columns import COMMIT_SEQNO_META, META_COLUMNS, RECORD_KEY_META
from hoodie.exception import HoodieException, HoodieIOException, HoodieSchemaException
from hoodie.io.parquet.column_adaptation import with_encoding
from hoodie.io.parquet.parquet_footer import KeyRange, footer_entries
from hoodie.io.parquet.size_estimate import REPEATED_COLUMNS, SizeEstimate, Trial, leaves
from hoodie.io.parquet.splicing import SplicingWriter, StoredChunks
from hoodie.storage.storage import abort_stream

__all__ = ["HoodieParquetWriter", "file_without_rows", "writer_options"]

_ROW_GROUP_ROWS = 1 << 20
_SAMPLE_ROWS = 1 << 13
_REPEATING = 0.25
"""A column whose sample has at most this share of distinct values is stored as a dictionary."""
_STILL_REPEATING = 0.9
"""The same for a column that an older version of the file stored as a dictionary: without one it might grow by much."""
_DOUBT = 0.25
"""How far off such a trial may be: the share of an estimate that is added before the first row group tells."""
_DOUBT_AFTER_ROW_GROUP = 0.08
_CERTAIN = 0.04
"""Doubt below this share of the wanted size does not count."""
_FULL = 0.02
"""A file is full when less than this share of the wanted size is left."""
_UNIQUE_COLUMNS = frozenset({RECORD_KEY_META, COMMIT_SEQNO_META})


class HoodieParquetWriter:
    """One base file being written; a context manager, which aborts the file when it is left without `close`.

    Batches are kept until they make a row group. Which columns are stored as dictionaries is decided from the first
    rows: a dictionary of a column that hardly repeats costs time and is thrown away late.

    A new version of a file can start from the old one's filter: pass that filter and the old file's range as
    ``stored_keys``. Then only keys that are handed to `write` go into both. The range may come out wider than the keys
    (when the row of the smallest was deleted), never narrower.

    Columns that are the same bytes (the record key, and the user's column that it is made of) are encoded once. Columns
    of a row group of an older file can be kept as they are stored, see `start_row_group`.

    Memory: one row group of Arrow data, and the same encoded.

    Args:
        stream: Where to write; closed by `close` and `abort`.
        schema: Columns of the file, Hudi's five meta columns first.
        settings: The encoding: codec, sizes of row groups and pages, and whether there are dictionaries.
        bloom_filter: Filter that gets the record keys; None for tables without meta fields, whose footers have
            neither filter nor range.
        avro_schema: Avro schema for the footer, meta columns included.
        stored_keys: The range of keys that ``bloom_filter`` holds already; None when it holds none that count.
        dictionary_columns: Paths of the leaf columns that an older version of the file stored as dictionaries: they
            stay so unless hardly a value repeats, so that rows do not take more room than before.
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
        dictionary_columns: Collection[str] = (),
        path: str = "a base file",
        kept_keys: list[pa.Array | range] | None = None,
    ) -> None:
        self._stream = stream
        self._path = path
        self._dictionary_columns = frozenset(dictionary_columns)
        self._settings = settings
        # Field ids and other notes of the schema would be stored.
        self._schema = pa.schema([pa.field(field.name, field.type, field.nullable) for field in schema])
        self._bloom_filter = bloom_filter
        self._avro_schema = avro_schema
        self._footer_keys = _FooterKeys(bloom_filter, stored_keys) if bloom_filter is not None else None
        self._file: SplicingWriter | None = None
        self._apart: frozenset[str] = frozenset()
        self._kept = StoredChunks()
        self._kept_keys = kept_keys
        self._buffer: list[pa.RecordBatch] = []
        self._buffered_rows = 0
        self._buffered_bytes = 0
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
        """Rows that `write` has taken."""
        return self._rows_written

    @property
    def estimated_size_bytes(self) -> int:
        """Length of the finished file if it got no more rows: known for row groups, an estimate for buffered rows."""
        if self._size_bytes is not None:
            return self._size_bytes
        return int(self._stored_bytes + self._kept.stored_bytes + self._sizes.held_bytes() + self._footer_bytes())

    def rows_that_fit(self, batch: pa.RecordBatch, limit_bytes: int) -> int:
        """How many rows of a batch may be appended next without the finished file growing beyond a size.

        Free while all rows fit even if nothing is compressed. Nearer to the limit some rows of each batch are encoded
        to memory; where too much rests on such trials the held rows are written as a row group, so that their size is
        known.

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
            # As many rows as fit with the bloom filter as it is; then as it would be with their keys.
            for _ in range(2):
                limit = max(limit_bytes - self._footer_bytes(trial, min(rows, batch.num_rows)), limit_bytes // 2)
                space = limit - self._stored_bytes
                # Held rows may take so much that the doubt about them still fits, or does not matter.
                reach = max(space / (1 + doubt), min(space, _CERTAIN * limit / doubt))
                rows = max(0, int((reach - held) / row_bytes))
            if rows >= batch.num_rows:
                return int(batch.num_rows)
            if rows > 0 and reach - held >= _FULL * limit:
                return rows
            if not self._buffer or (doubt * held <= _CERTAIN * limit and space - held <= 2 * _FULL * limit):
                return 0 if self._rows_written else max(1, rows)
            self.flush()

    @property
    def buffered_bytes(self) -> int:
        """Arrow bytes that are held for the next row group."""
        return self._buffered_bytes

    def flush(self) -> None:
        """Write what is held as a row group, though it is not full.

        Raises:
            HoodieIOException: The stream failed; the file can only be aborted.
        """
        self._check_open()
        self._write_row_group()

    def keep_apart(self, names: Collection[str]) -> None:
        """Say before the first row which columns `start_row_group` will name.

        Args:
            names: Of columns that are no lists and no structs.
        """
        self._apart = frozenset(names)

    def start_row_group(self, kept: StoredChunks) -> None:
        """Begin a row group whose first rows have some columns as an older file stores them.

        What was held before is written. The values of these columns in the next rows that `write` gets are not looked
        at; they must be dictionaries, of anything. The row group does not end before it has as many rows as that of
        the older file.

        Args:
            kept: The columns that `keep_apart` was told.

        Raises:
            HoodieIOException: The stream failed; the file can only be aborted.
            HoodieException: They are other columns, or the row group before lacks rows.
        """
        self._check_open()
        self._write_row_group()
        if self._apart != kept.chunks.keys():
            raise HoodieException(
                f"writing {self._path}: columns {', '.join(kept.chunks)} cannot be kept: they were not kept apart"
            )
        self._kept = kept
        self._buffered_bytes = kept.plain_bytes

    def write(self, batch: pa.RecordBatch, keys: Keys | None = None) -> None:
        """Append rows.

        Args:
            batch: Columns of the schema, in its order; strings may be dictionary-encoded and are stored as strings.
            keys: The record keys among the batch's that are new to the bloom filter. None means all of them, or, when
                the file starts from ``stored_keys``, none of them.

        Raises:
            HoodieSchemaException: Columns do not fit the schema, or a null is where the schema has none.
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
        self._buffer.append(batch)
        self._sizes.hold(batch)
        self._buffered_rows += batch.num_rows
        self._buffered_bytes += batch.nbytes
        self._rows_written += batch.num_rows
        is_full = self._buffered_bytes >= self._settings.parquet_block_size or self._buffered_rows >= _ROW_GROUP_ROWS
        if is_full and self._buffered_rows >= self._kept.rows:
            self._write_row_group()

    def close(self) -> int:
        """Finish the file and close the stream. A second call gives the same answer.

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
            self._write_row_group()
            if self._footer_keys is not None:
                self._footer_keys.finish()
            key_range = self._footer_keys.key_range if self._footer_keys is not None and self._rows_written else None
            with _translated(self._path):
                file = self._opened_file()
                entries = footer_entries(self._bloom_filter, key_range, self._avro_schema)
                file.close(entries)
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
        """Close the stream without finishing the file: on object stores there is none then. Nothing after `close`."""
        if not self._is_open:
            return
        self._is_open = False
        file, self._file = self._file, None
        self._buffer = []
        # The stream goes first, so that nothing can write a footer; then pyarrow must not try when it is collected.
        with suppress(Exception):
            abort_stream(self._stream)
        if file is not None:
            file.abandon()

    def _check_open(self) -> None:
        if not self._is_open:
            raise HoodieException(f"{self._path} was closed or aborted; nothing can be written to it")

    def _check_batch(self, batch: pa.RecordBatch) -> None:
        if batch.schema.names != self._schema.names:
            raise HoodieSchemaException(
                f"writing {self._path}: a batch has the columns {', '.join(batch.schema.names)}, "
                f"the file has {', '.join(self._schema.names)}"
            )
        for field, column in zip(self._schema, batch.columns, strict=True):
            stored_type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            if stored_type != field.type:
                raise HoodieSchemaException(
                    f"writing {self._path}: column {field.name} is {column.type} in a batch, but {field.type} in "
                    "the file"
                )
            if not field.nullable and column.null_count:
                raise HoodieSchemaException(
                    f"writing {self._path}: column {field.name} has {column.null_count} nulls, but the file allows none"
                )

    def _write_row_group(self) -> None:
        if not self._buffer:
            return
        with _translated(self._path):
            file = self._opened_file()
            before = self._stream.tell() + self._kept.stored_bytes
            file.write_row_group(self._buffer, self._kept)
            written = self._stream.tell() - before
        self._sizes.row_group_is_written(written)
        self._buffer = []
        self._buffered_rows = 0
        self._buffered_bytes = 0
        self._kept = StoredChunks()

    def _opened_file(self) -> SplicingWriter:
        """The file, started with the encoding that suits the buffered rows."""
        if self._file is None:
            self._choose_dictionary_columns(self._buffer)
            like_key = [
                field.name
                for field in (self._schema if self._bloom_filter is not None else ())
                if field.type == pa.string() and field.name not in {*META_COLUMNS, *(self._repeating or ())}
            ]
            self._file = SplicingWriter(
                self._stream, self._schema, self._options, self._buffer,
                copied=self._apart, key=RECORD_KEY_META, like_key=like_key, path=self._path,
            )  # fmt: skip
        return self._file

    @property
    def _options(self) -> dict[str, Any]:
        return writer_options(self._settings, self._repeating or [])

    def _choose_dictionary_columns(self, batches: list[pa.RecordBatch]) -> None:
        """Paths of the leaf columns that repeat, judged once by the first rows."""
        if self._repeating is not None or not batches:
            return
        sample = [with_encoding(batch.slice(0, _SAMPLE_ROWS), self._schema).columns for batch in _first_rows(batches)]
        chosen = []
        for field, parts in zip(self._schema, zip(*sample, strict=True), strict=True):
            column = pa.concat_arrays(parts)
            if field.name in REPEATED_COLUMNS:
                chosen.append(field.name)
            elif field.name not in _UNIQUE_COLUMNS and field.name not in self._apart:
                chosen += [path for path, leaf in leaves(field.name, column) if self._repeats(path, leaf)]
        self._repeating = chosen

    def _repeats(self, path: str, values: pa.Array) -> bool:
        if not len(values) or pa.types.is_boolean(values.type):
            return False
        share = _STILL_REPEATING if path in self._dictionary_columns else _REPEATING
        return len(values.unique()) <= share * len(values)

    @property
    def _stored_bytes(self) -> int:
        """Bytes of the row groups that were written."""
        return int(self._stream.tell()) if self._file is not None else 0

    def _footer_bytes(self, coming: Trial | None = None, more_keys: int = 0) -> int:
        """About what the footer will take when such rows are appended, with so many keys."""
        bloom = self._footer_keys.filter_bytes_with(more_keys) * 4 // 3 if self._footer_keys is not None else 0
        return self._sizes.footer_bytes(coming) + bloom + len(self._avro_schema or "")

    def _encode_sample(self, sample: pa.RecordBatch, rows: Sequence[pa.RecordBatch]) -> pq.FileMetaData:
        """Write rows to memory as the file would have them."""
        self._choose_dictionary_columns(self._buffer or [sample])
        table = pa.Table.from_batches([with_encoding(piece, self._schema) for piece in rows], self._schema)
        sink = pa.BufferOutputStream()
        with _translated(self._path), pq.ParquetWriter(sink, self._schema, **self._options) as file:
            file.write_table(table, row_group_size=max(table.num_rows, 1))
        return pq.read_metadata(pa.BufferReader(sink.getvalue()))


class _FooterKeys:
    """Gathers the record keys of a file for its footer: for the bloom filter and the range.

    It hashes many keys at a time, since threads that hash few at a time get in each other's way.

    Args:
        bloom_filter: Gets the keys.
        stored_keys: The range of keys that the filter holds already: then only keys that are called new count.
    """

    def __init__(self, bloom_filter: BloomFilter, stored_keys: KeyRange | None) -> None:
        self._bloom_filter = bloom_filter
        self._starts_from_stored_keys = stored_keys is not None
        self._key_range = stored_keys
        self._waiting: list[pa.Array] = []

    @property
    def key_range(self) -> KeyRange | None:
        """The smallest and the largest key; None where there is none."""
        return self._key_range

    def filter_bytes_with(self, more_keys: int) -> int:
        """Length of the filter with all keys, and so many more.

        Args:
            more_keys: How many.
        """
        return self._bloom_filter.stored_bytes_with(sum(map(len, self._waiting)) + more_keys)

    def add(self, stored: Keys, new: Keys | None) -> None:
        """Take the keys of rows.

        Args:
            stored: Of all rows.
            new: Those that are new to the filter; None means all of them, or, where it started from stored keys, none.

        Raises:
            HoodieKeyException: A key is null or empty.
        """
        if new is None and not self._starts_from_stored_keys:
            new = stored
        if new is not None and len(new):
            self._hash_soon(checked_keys(new))
        ranged = new if self._starts_from_stored_keys else stored
        found = KeyRange.of(ranged) if ranged is not None else None
        if found is not None:
            self._key_range = found.union(self._key_range)

    def finish(self) -> BloomFilter:
        """The filter with all keys."""
        if self._waiting:
            keys, self._waiting = self._waiting, []
            self._bloom_filter.add(pa.chunked_array(keys))
        return self._bloom_filter

    def _hash_soon(self, keys: pa.Array) -> None:
        if self._waiting and self._waiting[0].type != keys.type:
            self.finish()
        self._waiting.append(keys)
        count = sum(len(part) for part in self._waiting)
        if count >= BLOCK_KEYS or sum(part.nbytes for part in self._waiting) >= BLOCK_BYTES:
            self.finish()


def writer_options(config: HoodieStorageConfig, dictionary_columns: Sequence[str]) -> dict[str, Any]:
    """The options of pyarrow's writer for base files.

    Args:
        config: The encoding.
        dictionary_columns: Paths of the leaf columns that are stored as dictionaries, where these are enabled.
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
    }


def file_without_rows(column: str, entries: Mapping[str, str]) -> bytes:
    """The content of a file that has only a footer.

    Args:
        column: Name of its one column, of integers.
        entries: Key/value pairs.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(pa.schema([(column, pa.int64())], metadata=entries).empty_table(), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Turn what pyarrow and the stream raise into a HoodieIOException that names the file."""
    try:
        yield
    except HoodieException:
        raise
    except (OSError, pa.ArrowException, ValueError) as error:
        raise HoodieIOException(
            f"writing {path} failed: {error}; the file is not finished, and the write has to be repeated"
        ) from error


def _first_rows(batches: list[pa.RecordBatch], count: int = _SAMPLE_ROWS) -> Iterator[pa.RecordBatch]:
    """Slices with the first rows of some batches."""
    for batch in batches:
        if count <= 0:
            return
        yield batch.slice(0, count)
        count -= batch.num_rows
