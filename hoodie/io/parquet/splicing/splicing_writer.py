"""A Parquet file with some columns written by pyarrow and others copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.exception import HoodieException
from hoodie.io.parquet.column_adaptation import with_encoding
from hoodie.io.parquet.splicing.column_chunks import ColumnChunk, StoredChunks, encoded_column, write_footer
from hoodie.io.parquet.splicing.compact_protocol import Struct

MOST_SPLICED_COLUMNS = 256
"""Above it, taking a footer apart, which is work for each column, takes longer than encoding the keys again."""
LEAST_SPLICED_BYTES = 1 << 20
"""Below it, the same holds: taking footers apart costs milliseconds, whatever the number of rows."""


def splicing_pays(column_count: int, plain_bytes: int) -> bool:
    """Whether copies of keys save more time than footers that are taken apart cost.

    Args:
        column_count: Columns of the file.
        plain_bytes: Bytes of its rows before compression; those of the first row group are enough.
    """
    return column_count <= MOST_SPLICED_COLUMNS and plain_bytes >= LEAST_SPLICED_BYTES


class SplicingWriter:
    """A file being written, a row group at a time.

    In each row group, copied columns and columns that equal another one, which are encoded once, follow the columns
    that pyarrow writes. The footer of the whole file then follows the footer that pyarrow writes.

    Args:
        stream: The target; the caller closes it.
        schema: Columns of the file.
        options: Options of `pyarrow.parquet.ParquetWriter`.
        first_rows: Rows of the first row group; they decide which columns are equal, and which are dictionaries.
        copied: Names of columns that `write_row_group` copies as they are stored.
        key: If nothing is copied, the column to which others may be equal.
        like_key: Names of the columns that may be equal to it.
        path: The file, for messages.
    """

    def __init__(
        self,
        stream: pa.NativeFile,
        schema: pa.Schema,
        options: Mapping[str, Any],
        first_rows: Sequence[pa.RecordBatch],
        *,
        copied: frozenset[str],
        key: str,
        like_key: Iterable[str],
        path: str,
    ) -> None:
        self._stream = stream
        self._schema = schema
        self._options = dict(options)
        self._path = path
        keys = [rows.column(key) for rows in first_rows]
        may_share = not copied and splicing_pays(len(schema), sum(rows.nbytes for rows in first_rows))
        same = [
            name
            for name in (like_key if may_share else ())
            if _may_share(schema.field(name), schema.field(key), (rows.column(name) for rows in first_rows), keys)
        ]
        self._own_columns = copied | frozenset([key, *same] if same else [])
        self._own_chunks: list[dict[str, Struct]] = []
        # Columns that are dictionaries in all batches need not be expanded.
        self._file_schema = pa.schema(
            field.with_type(pa.dictionary(pa.int32(), field.type))
            if first_rows and all(pa.types.is_dictionary(rows.schema.field(field.name).type) for rows in first_rows)
            else field
            for field in schema
            if field.name not in self._own_columns
        )
        self._metadata: list[pq.FileMetaData] = []
        self._file = self._start(stream, self._file_schema, self._metadata)

    def write_row_group(self, batches: Sequence[pa.RecordBatch], stored: StoredChunks) -> None:
        """Append rows as a row group.

        Args:
            batches: The rows, with all columns of the schema.
            stored: The copied columns of the first of these rows; their values in the batches are ignored.

        Raises:
            HoodieException: A batch starts within the rows of the copied columns and ends after them.
        """
        names = self._file_schema.names
        written = [with_encoding(batch.select(names), self._file_schema) for batch in batches]
        # Parquet has one dictionary for a column of a row group; for a second one Arrow would write values plainly.
        rows = pa.Table.from_batches(written, self._file_schema).unify_dictionaries()
        self._file.write_table(rows, row_group_size=sum(batch.num_rows for batch in batches))
        if self._own_columns:
            self._own_chunks.append(self._write_own_columns(self._rows_behind(batches, stored.rows), stored.chunks))

    def close(self, entries: Mapping[str, str]) -> None:
        """Write the footer.

        Args:
            entries: Key/value pairs.
        """
        if not self._own_columns:
            self._file.add_key_value_metadata(entries)
        self._file.close()
        if self._own_columns:
            without_rows: list[pq.FileMetaData] = []
            self._start(pa.BufferOutputStream(), self._schema, without_rows).close()
            write_footer(self._stream, without_rows[0], self._metadata[0], self._own_chunks, entries)

    def abandon(self) -> None:
        """Leave the file unfinished; pyarrow must not try to finish it when it is collected."""
        self._file.is_open = False

    def _start(self, sink: pa.NativeFile, schema: pa.Schema, collector: list[pq.FileMetaData]) -> pq.ParquetWriter:
        return pq.ParquetWriter(sink, schema, metadata_collector=collector, **self._options)

    def _rows_behind(self, batches: Sequence[pa.RecordBatch], count: int) -> Sequence[pa.RecordBatch]:
        place = passed = 0
        while passed < count and place < len(batches):
            passed += batches[place].num_rows
            place += 1
        if passed != count:
            raise HoodieException(f"writing {self._path}: {count} rows whose columns are kept are missing")
        return batches[place:]

    def _write_own_columns(
        self, batches: Sequence[pa.RecordBatch], stored: Mapping[str, ColumnChunk]
    ) -> dict[str, Struct]:
        """Append the columns that pyarrow does not write: copied values, followed by those of further rows."""
        written: dict[str, Struct] = {}
        encoded: list[tuple[list[pa.Array], pa.Field, ColumnChunk]] = []
        for field in self._schema:
            if field.name not in self._own_columns:
                continue
            columns = [batch.column(field.name) for batch in batches]
            chunk = next((made for others, like, made in encoded if _may_share(field, like, columns, others)), None)
            if chunk is None:
                column = pa.chunked_array(columns, field.type)
                chunk = encoded_column(column, field, **(self._options | {"use_dictionary": False}))
                encoded.append((columns, field, chunk))
            whole = stored[field.name].followed_by(chunk) if field.name in stored else chunk
            written[field.name] = whole.named(field.name).write(self._stream)
        return written


def _is_same(column: pa.Array, keys: pa.Array) -> bool:
    """Whether a column equals another one. Usually the first value already shows that it does not."""
    if column.type != keys.type or len(column) != len(keys) or column.null_count or keys.null_count:
        return False
    return not len(keys) or (column[0] == keys[0] and column[-1] == keys[-1] and bool(column.equals(keys)))


def _may_share(field: pa.Field, like: pa.Field, columns: Iterable[pa.Array], others: Iterable[pa.Array]) -> bool:
    """Whether two columns would be encoded to the same pages."""
    if field.type != like.type or field.nullable != like.nullable:
        return False
    return all(_is_same(mine, its) for mine, its in zip(columns, others, strict=True))
