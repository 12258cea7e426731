"""Write Parquet base files as Hudi does.

Types are plain Parquet 1.0: lists of three levels, decimals as fixed-length bytes, timestamps in microseconds; the Avro
reader of every Hudi release takes them. The footer carries what `hoodie.io.storage.parquet_footer` lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodie.common.bloom.bloom_filter import BloomFilter, checked_keys
from hoodie.common.bloom.key_blocks import BLOCK_BYTES, BLOCK_KEYS, Keys
from hoodie.common.config.storage_config import HoodieStorageConfig
from hoodie.common.model.record_columns import (
    COMMIT_SEQNO_META,
    COMMIT_TIME_META,
    FILE_NAME_META,
    META_COLUMNS,
    PARTITION_PATH_META,
    RECORD_KEY_META,
)
from hoodie.exception import HoodieException, HoodieIOException, HoodieSchemaException
from hoodie.io.storage.column_chunks import ColumnChunk, encoded_column, write_footer
from hoodie.io.storage.compact_protocol import Struct
from hoodie.io.storage.parquet_footer import KeyRange, footer_entries
from hoodie.storage.output_stream import abort_stream

__all__ = ["HoodieParquetWriter", "ParquetSettings", "ParquetSummary"]

_ROW_GROUP_ROWS = 1 << 20
_SAMPLE_ROWS = 1 << 13
_REPEATING = 0.25
"""A column whose sample has at most this share of distinct values is stored as a dictionary."""
_STILL_REPEATING = 0.9
"""The same for a column that an older version of the file stored as a dictionary: without one it might grow by much."""
_TRIAL_ROWS = 1 << 13
"""Rows of a batch that are written to memory to find out what the batch takes on storage."""
_TRIAL_SLICES = 16
"""Places of the batch that these rows come from."""
_DOUBT = 0.25
"""How far off such a trial may be: the share of an estimate that is added before the first row group tells."""
_DOUBT_AFTER_ROW_GROUP = 0.08
_CERTAIN = 0.04
"""Doubt below this share of the wanted size does not count."""
_FULL = 0.02
"""A file is full when less than this share of the wanted size is left."""
_FOOTER_BYTES = 2048
_FOOTER_BYTES_PER_CHUNK = 200
_LONGEST_STATISTIC = 4096
"""Bytes of the longest smallest or largest value that Arrow notes for a chunk and for each of its pages."""
_PAGE_BYTES = 64
"""Header of a page, without statistics."""
_LEVELS_BYTES = 0.25
"""Most that the levels of a value take: whether it is null, and where lists start."""
_UNIQUE_COLUMNS = frozenset({RECORD_KEY_META, COMMIT_SEQNO_META})
_REPEATED_COLUMNS = frozenset({COMMIT_TIME_META, PARTITION_PATH_META, FILE_NAME_META})


@attrs.frozen(kw_only=True)
class ParquetSettings:
    """How base files are encoded.

    Attributes:
        compression: Codec, in pyarrow's spelling: none, snappy, gzip or zstd.
        compression_level: Level of the codec; None for its default.
        row_group_bytes: Arrow bytes of a row group, before it is encoded.
        page_bytes: Size of a page, and of a dictionary.
        dictionary_enabled: Whether columns that repeat are stored as dictionaries.
    """

    compression: str = "snappy"
    compression_level: int | None = None
    row_group_bytes: int = 120 * 1024 * 1024
    page_bytes: int = 1024 * 1024
    dictionary_enabled: bool = True

    @classmethod
    def from_config(cls, config: HoodieStorageConfig) -> ParquetSettings:
        """The settings that a write's configuration asks for."""
        return cls(
            compression=str(config.parquet_compression_codec),
            row_group_bytes=config.parquet_block_size,
            page_bytes=config.parquet_page_size,
            dictionary_enabled=config.parquet_dictionary_enabled,
        )


@attrs.frozen
class _Trial:
    """What rows take on storage.

    Attributes:
        row_bytes: Bytes that more rows multiply.
        fixed_bytes: Bytes that every row group takes once: page headers, with the smallest and largest value.
        statistics_bytes: Smallest and largest values of the row group, which the footer holds once more.
    """

    row_bytes: float
    fixed_bytes: float
    statistics_bytes: int


@attrs.frozen
class ParquetSummary:
    """A finished file.

    Attributes:
        rows: Rows in it.
        size_bytes: Its length.
        min_record_key: As in its footer; None without rows or without a bloom filter.
        max_record_key: Likewise.
    """

    rows: int
    size_bytes: int
    min_record_key: str | None
    max_record_key: str | None


class HoodieParquetWriter:
    """One base file being written; a context manager, which aborts the file when it is left without `close`.

    Batches are kept until they make a row group. Which columns are stored as dictionaries is decided from the first
    rows: a dictionary of a column that hardly repeats costs time and is thrown away late.

    A new version of a file can start from the old one's filter: pass that filter and the old file's range as
    ``stored_keys``. Then only keys that are handed to `write` go into both. The range may come out wider than the keys
    (when the row of the smallest was deleted), never narrower.

    Columns that are the same bytes (the record key, and the user's column that it is made of) are encoded once. Columns
    of a row group of an older file can be kept as they are stored, see `start_row_group`. Both kinds are written by
    this class behind what pyarrow writes, and the footer that pyarrow ends with is followed by that of the whole file.

    Memory: one row group of Arrow data, and the same encoded.

    Args:
        stream: Where to write; closed by `close` and `abort`.
        schema: Columns of the file, Hudi's five meta columns first.
        settings: The encoding.
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
        settings: ParquetSettings,
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
        self._starts_from_stored_keys = stored_keys is not None
        self._key_range = stored_keys
        self._file: pq.ParquetWriter | None = None
        self._file_schema = self._schema
        self._apart: frozenset[str] = frozenset()
        self._new_keys: list[pa.Array] = []
        self._own_columns: frozenset[str] = frozenset()
        self._own_chunks: list[dict[str, Struct]] = []
        self._written_metadata: list[pq.FileMetaData] = []
        self._kept: Mapping[str, ColumnChunk] = {}
        self._kept_rows = 0
        self._kept_bytes = 0
        self._kept_keys = kept_keys
        self._buffer: list[pa.RecordBatch] = []
        self._trials: list[_Trial | None] = []
        self._buffered_rows = 0
        self._buffered_bytes = 0
        self._buffered_plain_bytes = 0.0
        self._row_groups = 0
        self._leaf_count = sum(1 for field in self._schema for _ in _leaf_types(field.type))
        self._text_leaf_count = sum(_is_text(leaf) for field in self._schema for leaf in _leaf_types(field.type))
        self._statistics_bytes = 0
        self._correction: float | None = None
        self._repeating: list[str] | None = None
        self._rows_written = 0
        self._summary: ParquetSummary | None = None
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
        if self._summary is not None:
            return self._summary.size_bytes
        return int(self._stored_bytes + self._estimate_buffered() + self._footer_bytes)

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
        if self._most_bytes(batch) <= limit_bytes:
            return int(batch.num_rows)
        trial = self._trial(batch)
        while True:
            held = self._estimate_buffered(trial)
            limit = max(limit_bytes - self._footer_bytes_with(trial), limit_bytes // 2)
            doubt = _DOUBT if self._correction is None else _DOUBT_AFTER_ROW_GROUP
            space = limit - self._stored_bytes
            # Held rows may take so much that the doubt about them still fits, or does not matter.
            reach = max(space / (1 + doubt), min(space, _CERTAIN * limit / doubt))
            rows = int((reach - held) * batch.num_rows / (trial.row_bytes * (self._correction or 1.0)))
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

    def start_row_group(self, rows: int, kept: Mapping[str, ColumnChunk]) -> None:
        """Begin a row group whose first rows have some columns as an older file stores them.

        What was held before is written. The values of these columns in the next ``rows`` rows that `write` gets are not
        looked at; they must be dictionaries, of anything. The row group does not end before it has all of them.

        Args:
            rows: How many.
            kept: Names of the columns that `keep_apart` was told, and their chunks of so many rows.

        Raises:
            HoodieIOException: The stream failed; the file can only be aborted.
            HoodieException: A chunk has another number of rows, or the row group before lacks rows.
        """
        self._check_open()
        self._write_row_group()
        if any(chunk.rows != rows for chunk in kept.values()) or self._apart != kept.keys():
            raise HoodieException(
                f"writing {self._path}: columns {', '.join(kept)} of {rows} rows cannot be kept: they were not kept "
                "apart, or have other rows"
            )
        self._kept, self._kept_rows = kept, rows
        self._kept_bytes = sum(chunk.stored_bytes for chunk in kept.values())
        self._buffered_bytes = sum(chunk.plain_bytes for chunk in kept.values())

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
        if self._bloom_filter is not None:
            self._add_keys(self._bloom_filter, batch, keys)
        if self._kept_keys is not None and self._buffered_rows >= self._kept_rows:
            self._kept_keys.append(batch.column(RECORD_KEY_META))
        self._buffer.append(batch)
        self._trials.append(None)
        self._buffered_rows += batch.num_rows
        self._buffered_bytes += batch.nbytes
        self._buffered_plain_bytes += self._plain_bytes(batch)
        self._rows_written += batch.num_rows
        is_full = self._buffered_bytes >= self._settings.row_group_bytes or self._buffered_rows >= _ROW_GROUP_ROWS
        if is_full and self._buffered_rows >= self._kept_rows:
            self._write_row_group()

    def close(self) -> ParquetSummary:
        """Finish the file and close the stream. A second call gives the same answer.

        Raises:
            HoodieIOException: The stream failed; the file is aborted.
            HoodieException: The file was aborted before.
        """
        if self._summary is not None:
            return self._summary
        self._check_open()
        try:
            self._write_row_group()
            if self._bloom_filter is not None:
                self._hash_keys(self._bloom_filter)
            key_range = self._key_range if self._rows_written else None
            with _translated(self._path):
                file = self._opened_file()
                entries = footer_entries(self._bloom_filter, key_range, self._avro_schema)
                if not self._own_columns:
                    file.add_key_value_metadata(entries)
                file.close()
                if self._own_columns:
                    whole = self._metadata_without_rows()
                    write_footer(self._stream, whole, self._written_metadata[0], self._own_chunks, entries)
                size_bytes = int(self._stream.tell())
                self._stream.close()
        except BaseException:
            self.abort()
            raise
        self._is_open = False
        self._file = None
        self._summary = ParquetSummary(
            rows=self._rows_written,
            size_bytes=size_bytes,
            min_record_key=key_range.min_key if key_range else None,
            max_record_key=key_range.max_key if key_range else None,
        )
        return self._summary

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
            file.is_open = False

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

    def _add_keys(self, bloom_filter: BloomFilter, batch: pa.RecordBatch, keys: Keys | None) -> None:
        if keys is None and not self._starts_from_stored_keys:
            keys = batch.column(RECORD_KEY_META)
        if keys is not None and len(keys):
            self._hash_soon(bloom_filter, checked_keys(keys))
        ranged = keys if self._starts_from_stored_keys else batch.column(RECORD_KEY_META)
        found = KeyRange.of(ranged) if ranged is not None else None
        if found is not None:
            self._key_range = found.union(self._key_range)

    def _hash_soon(self, bloom_filter: BloomFilter, keys: pa.Array) -> None:
        """Add keys to the filter many at a time: threads that hash few at a time get in each other's way."""
        if self._new_keys and self._new_keys[0].type != keys.type:
            self._hash_keys(bloom_filter)
        self._new_keys.append(keys)
        count = sum(len(part) for part in self._new_keys)
        if count >= BLOCK_KEYS or sum(part.nbytes for part in self._new_keys) >= BLOCK_BYTES:
            self._hash_keys(bloom_filter)

    def _hash_keys(self, bloom_filter: BloomFilter) -> None:
        """Add the keys that wait to the filter."""
        if self._new_keys:
            keys, self._new_keys = self._new_keys, []
            bloom_filter.add(pa.chunked_array(keys))

    def _write_row_group(self) -> None:
        if not self._buffer:
            return
        with _translated(self._path):
            file = self._opened_file()
            before = self._stream.tell() + self._kept_bytes
            names = self._file_schema.names
            batches = [_with_schema(batch.select(names), self._file_schema) for batch in self._buffer]
            # Parquet has one dictionary for a column of a row group; for a second one Arrow would write values plainly.
            rows = pa.Table.from_batches(batches, self._file_schema).unify_dictionaries()
            file.write_table(rows, row_group_size=self._buffered_rows)
            if self._own_columns:
                self._own_chunks.append(self._write_own_columns())
            written = self._stream.tell() - before
        tried = [trial for trial in self._trials if trial is not None]
        if tried and len(tried) == len(self._trials):
            fixed = max(trial.fixed_bytes for trial in tried)
            self._correction = max(written - fixed, 1.0) / sum(trial.row_bytes for trial in tried)
        self._row_groups += 1
        self._statistics_bytes += _longest_statistics(self._buffer)
        self._buffer = []
        self._trials = []
        self._buffered_rows = 0
        self._buffered_bytes = 0
        self._buffered_plain_bytes = 0.0
        self._kept, self._kept_rows, self._kept_bytes = {}, 0, 0

    def _opened_file(self) -> pq.ParquetWriter:
        """The file, started with the encoding that suits the buffered rows."""
        if self._file is None:
            self._choose_dictionary_columns(self._buffer)
            self._own_columns = self._apart | frozenset(self._key_columns())
            self._file_schema = self._suitable_schema()
            self._file = self._start_file(self._stream, self._file_schema, self._written_metadata)
        return self._file

    def _key_columns(self) -> list[str]:
        """The record key and columns of the user that may be the same, if there are any."""
        if self._bloom_filter is None or not self._buffer or self._apart:
            return []
        same = [
            field.name
            for field in self._schema
            if field.name not in META_COLUMNS
            and field.name not in (self._repeating or ())
            and field.type == pa.string()
            and field.nullable == self._schema.field(RECORD_KEY_META).nullable
            and all(_is_same(batch.column(field.name), batch.column(RECORD_KEY_META)) for batch in self._buffer)
        ]
        return [RECORD_KEY_META, *same] if same else []

    def _write_own_columns(self) -> dict[str, Struct]:
        """Append the columns of the row group that pyarrow does not write."""
        batches = self._buffer
        if self._kept_rows:
            places = [0]
            for batch in batches:
                places.append(places[-1] + batch.num_rows)
            if self._kept_rows not in places:
                raise HoodieException(f"writing {self._path}: {self._kept_rows} rows with kept columns did not come")
            batches = batches[places.index(self._kept_rows) :]
        written: dict[str, Struct] = {}
        encoded: list[tuple[pa.ChunkedArray, pa.Field, ColumnChunk]] = []
        for field in self._schema:
            if field.name not in self._own_columns:
                continue
            column = pa.chunked_array([batch.column(field.name) for batch in batches], field.type)
            chunk = next((made for other, like, made in encoded if _may_share(field, like, column, other)), None)
            if chunk is None:
                chunk = encoded_column(column, field, **(self._options | {"use_dictionary": False}))
                encoded.append((column, field, chunk))
            kept = self._kept.get(field.name)
            whole = chunk if kept is None else kept.followed_by(chunk)
            written[field.name] = whole.named(field.name).write(self._stream)
        return written

    def _metadata_without_rows(self) -> pq.FileMetaData:
        """Metadata of a file of the whole schema without row groups."""
        collected: list[pq.FileMetaData] = []
        self._start_file(pa.BufferOutputStream(), self._schema, collected).close()
        return collected[0]

    def _suitable_schema(self) -> pa.Schema:
        """The schema with columns as dictionaries that come as such in all batches: they need not be expanded."""
        fields = []
        for index, field in enumerate(self._schema):
            if field.name in self._own_columns:
                continue
            is_dictionary = bool(self._buffer) and all(
                pa.types.is_dictionary(batch.column(index).type) for batch in self._buffer
            )
            dictionary_type = pa.dictionary(pa.int32(), field.type)
            fields.append(field.with_type(dictionary_type) if is_dictionary else field)
        return pa.schema(fields)

    def _start_file(
        self, sink: pa.NativeFile, schema: pa.Schema, collector: list[pq.FileMetaData] | None = None
    ) -> pq.ParquetWriter:
        return pq.ParquetWriter(sink, schema, metadata_collector=collector, **self._options)

    @property
    def _options(self) -> dict[str, Any]:
        settings = self._settings
        return {
            "version": "1.0",
            "data_page_version": "1.0",
            "compression": settings.compression,
            "compression_level": settings.compression_level,
            "use_dictionary": (self._repeating or []) if settings.dictionary_enabled else False,
            "data_page_size": settings.page_bytes,
            "dictionary_pagesize_limit": settings.page_bytes,
            "coerce_timestamps": "us",
            "store_schema": False,
            "store_decimal_as_integer": False,
            "write_statistics": True,
        }

    def _choose_dictionary_columns(self, batches: list[pa.RecordBatch]) -> None:
        """Paths of the leaf columns that repeat, judged once by the first rows."""
        if self._repeating is not None or not batches:
            return
        sample = pa.concat_batches(
            [_with_schema(batch.slice(0, _SAMPLE_ROWS), self._schema) for batch in _first_rows(batches)]
        )
        chosen = []
        for field, column in zip(self._schema, sample.columns, strict=True):
            if field.name in _REPEATED_COLUMNS:
                chosen.append(field.name)
            elif field.name not in _UNIQUE_COLUMNS and field.name not in self._apart:
                chosen += [path for path, leaf in _leaves(field.name, column) if self._repeats(path, leaf)]
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

    @property
    def _footer_bytes(self) -> int:
        """About what the footer will take."""
        return self._footer_bytes_with(None)

    def _footer_bytes_with(self, coming: _Trial | None) -> int:
        """About what the footer will take when such rows are appended: column chunks, schema, bloom filter."""
        bloom = self._bloom_filter.stored_bytes * 4 // 3 if self._bloom_filter is not None else 0
        chunks = self._leaf_count * (self._row_groups + 1)
        held = [trial.statistics_bytes for trial in (*self._trials, coming) if trial is not None]
        statistics = self._statistics_bytes + max(held, default=0)
        return _FOOTER_BYTES + chunks * _FOOTER_BYTES_PER_CHUNK + statistics + bloom + len(self._avro_schema or "")

    def _most_bytes(self, batch: pa.RecordBatch) -> float:
        """Length that the finished file does not exceed, were the rows appended."""
        plain = self._buffered_plain_bytes + self._plain_bytes(batch)
        # A row group has a smallest and a largest value for each page, and once more in the footer.
        pages = plain / self._settings.page_bytes + self._leaf_count
        texts = self._text_leaf_count and self._text_leaf_count + 1 + plain / self._settings.page_bytes
        statistics = 2 * _LONGEST_STATISTIC * texts
        return self._stored_bytes + self._kept_bytes + plain + pages * _PAGE_BYTES + statistics + self._footer_bytes

    def _plain_bytes(self, batch: pa.RecordBatch) -> float:
        """Bytes of rows that are neither compressed nor, but for Hudi's constant columns, stored as dictionaries."""
        plain = batch.num_rows * self._leaf_count * _LEVELS_BYTES
        for field, column in zip(self._schema, batch.columns, strict=True):
            plain += column.nbytes
            repeated = self._settings.dictionary_enabled and field.name in _REPEATED_COLUMNS
            if pa.types.is_dictionary(column.type) and not repeated:
                plain += _expanded_bytes(column)
        return float(plain)

    def _estimate_buffered(self, coming: _Trial | None = None) -> float:
        """Bytes that the buffered rows will take; the fixed ones of coming rows, which share the row group, count."""
        for number, trial in enumerate(self._trials):
            if trial is None:
                self._trials[number] = self._trial(self._buffer[number])
        trials = [trial for trial in (*self._trials, coming) if trial is not None]
        fixed = max((trial.fixed_bytes for trial in trials), default=0.0)
        held = sum(trial.row_bytes for trial in self._trials if trial is not None)
        return held * (self._correction or 1.0) + fixed + self._kept_bytes

    def _trial(self, batch: pa.RecordBatch) -> _Trial:
        """Bytes of a batch on storage, found out by writing some of its rows, from all over it, to memory."""
        self._choose_dictionary_columns(self._buffer or [batch])
        count = batch.num_rows
        slices = [batch]
        if count > 2 * _TRIAL_ROWS:
            length = _TRIAL_ROWS // _TRIAL_SLICES
            slices = [batch.slice(count * number // _TRIAL_SLICES, length) for number in range(_TRIAL_SLICES)]
        sample = pa.Table.from_batches([_with_schema(piece, self._schema) for piece in slices], self._schema)
        sink = pa.BufferOutputStream()
        with _translated(self._path), self._start_file(sink, self._schema) as file:
            file.write_table(sample, row_group_size=max(sample.num_rows, 1))
        metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
        chunks = metadata.row_group(0)
        columns = [chunks.column(number) for number in range(chunks.num_columns)]
        stored = sum(column.total_compressed_size for column in columns)
        statistics = sum(_statistics_length(column.statistics) for column in columns)
        fixed = min(statistics + len(columns) * _PAGE_BYTES, stored)
        row_bytes = max(1.0, (stored - fixed) * count / max(sample.num_rows, 1))
        return _Trial(row_bytes=row_bytes, fixed_bytes=float(fixed), statistics_bytes=statistics)


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


def _with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with exactly the types of a schema; only dictionary encoding may differ."""
    columns = []
    for field, column in zip(schema, batch.columns, strict=True):
        if column.type != field.type:
            column = column.cast(field.type) if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_same(column: pa.Array, keys: pa.Array) -> bool:
    """Whether a column has the values of another one; asked of many columns, of which most differ at once."""
    if column.type != keys.type or len(column) != len(keys) or column.null_count or keys.null_count:
        return False
    return not len(keys) or (column[0] == keys[0] and column[-1] == keys[-1] and bool(column.equals(keys)))


def _may_share(field: pa.Field, like: pa.Field, column: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether two columns come out as the same pages."""
    if field.type != like.type or field.nullable != like.nullable:
        return False
    return all(_is_same(mine, its) for mine, its in zip(column.chunks, other.chunks, strict=True))


def _first_rows(batches: list[pa.RecordBatch], count: int = _SAMPLE_ROWS) -> Iterator[pa.RecordBatch]:
    """Slices with the first rows of some batches."""
    for batch in batches:
        if count <= 0:
            return
        yield batch.slice(0, count)
        count -= batch.num_rows


def _leaves(path: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Parquet's path and the values of every leaf of a column."""
    column_type = column.type
    if pa.types.is_struct(column_type):
        for field, child in zip(column_type, column.flatten(), strict=True):
            yield from _leaves(f"{path}.{field.name}", child)
    elif pa.types.is_map(column_type):
        yield from _leaves(f"{path}.key_value.key", column.keys)
        yield from _leaves(f"{path}.key_value.value", column.items)
    elif isinstance(column, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        yield from _leaves(f"{path}.list.element", column.flatten())
    else:
        yield path, column


def _leaf_types(data_type: pa.DataType) -> Iterator[pa.DataType]:
    """Types of the leaves of a column, each of which is a column of Parquet."""
    if not pa.types.is_nested(data_type):
        yield data_type
        return
    for number in range(data_type.num_fields):
        yield from _leaf_types(data_type.field(number).type)


def _is_text(data_type: pa.DataType) -> bool:
    """Whether values, and with them statistics, may be of any length."""
    return bool(
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_binary(data_type)
        or pa.types.is_large_binary(data_type)
    )


def _expanded_bytes(column: pa.DictionaryArray) -> int:
    """Bytes of the values of a dictionary column, each written out, with its length or nothing more."""
    values = column.dictionary
    if not len(values):
        return 0
    if len(values) == 1:
        return int(len(column) * values.nbytes)
    if not _is_text(values.type):
        return int(len(column) * (values.nbytes // len(values) + 1))
    lengths = pc.binary_length(values).cast(pa.int64())
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0) + 4 * len(column)


def _longest_statistics(batches: list[pa.RecordBatch]) -> int:
    """Most bytes that the smallest and largest values of a row group take."""
    longest: dict[str, int] = {}
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for path, leaf in _leaves(name, column):
                values = leaf.dictionary if pa.types.is_dictionary(leaf.type) else leaf
                if _is_text(values.type):
                    length = pc.max(pc.binary_length(values)).as_py() or 0
                    longest[path] = max(longest.get(path, 0), min(length, _LONGEST_STATISTIC))
    return 2 * sum(longest.values())


def _statistics_length(statistics: pq.Statistics | None) -> int:
    """Bytes of the smallest and the largest value of a text column, as far as they are noted."""
    if statistics is None or not statistics.has_min_max or statistics.physical_type != "BYTE_ARRAY":
        return 0
    values = (statistics.min_raw, statistics.max_raw)
    return sum(len(value.encode()) if isinstance(value, str) else len(value) for value in values)
