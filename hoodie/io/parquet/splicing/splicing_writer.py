"""A Parquet file with columns and row groups written by pyarrow, and others copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.exception import HoodieException
from hoodie.io.parquet.column_adaptation import with_encoding
from hoodie.io.parquet.compact_protocol import Struct
from hoodie.io.parquet.splicing.column_chunks import (
    MAGIC,
    ColumnChunk,
    StoredChunks,
    WrittenRowGroup,
    encoded_column,
    encoded_columns,
    row_groups_of,
    write_footer,
)
from hoodie.io.parquet.splicing.row_group_edits import RowGroupEdit
from hoodie.io.parquet.splicing.row_groups import ReadAt, StoredRowGroup, file_form

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
    that pyarrow writes. Whole row groups can be copied, too. The footer of the whole file then follows the footer that
    pyarrow writes.

    Args:
        stream: The target; the caller closes it.
        schema: Columns of the file.
        options: Options of `pyarrow.parquet.ParquetWriter`; `start` may choose others for rows.
        path: The file, for messages.
    """

    def __init__(self, stream: pa.NativeFile, schema: pa.Schema, options: Mapping[str, Any], *, path: str) -> None:
        self._stream = stream
        self._schema = schema
        self._options = dict(options)
        self._path = path
        self._own_columns: frozenset[str] = frozenset()
        self._own_chunks: list[dict[str, Struct]] = []
        self._constants: dict[str, tuple[str, ColumnChunk]] = {}
        self._groups: list[WrittenRowGroup | None] = []
        """The row groups; None stands for the next one of `_file`."""
        self._file_schema = schema
        self._metadata: list[pq.FileMetaData] = []
        self._file: pq.ParquetWriter | None = None
        self.is_started = False
        """Whether `start` was called."""

    def start(
        self,
        options: Mapping[str, Any],
        first_rows: Sequence[pa.RecordBatch],
        *,
        copied: frozenset[str] = frozenset(),
        key: str = "",
        like_key: Iterable[str] = (),
    ) -> None:
        """Choose the encoding of rows, before the first ones are written.

        Args:
            options: Options of `pyarrow.parquet.ParquetWriter`.
            first_rows: Rows of the first row group; they decide which columns are equal, and which are dictionaries.
            copied: Names of columns that `write_row_group` copies as they are stored.
            key: If nothing is copied, the column to which others may be equal.
            like_key: Names of the columns that may be equal to it.
        """
        self._options = dict(options)
        keys = [rows.column(key) for rows in first_rows]
        may_share = not copied and splicing_pays(len(self._schema), sum(rows.nbytes for rows in first_rows))
        same = [
            name
            for name in (like_key if may_share else ())
            if _may_share(
                self._schema.field(name), self._schema.field(key), (rows.column(name) for rows in first_rows), keys
            )
        ]
        self._own_columns = copied | frozenset([key, *same] if same else [])
        # Columns that are dictionaries in all batches need not be expanded.
        dictionaries = _dictionaries(frozenset(rows.schema for rows in first_rows))
        self._file_schema = pa.schema(
            field.with_type(pa.dictionary(pa.int32(), field.type)) if field.name in dictionaries else field
            for field in self._schema
            if field.name not in self._own_columns
        )
        self.is_started = True
        if not self._groups:
            self._file = pq.ParquetWriter(
                self._stream, self._file_schema, metadata_collector=self._metadata, **self._options
            )

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
        if self._file is not None:
            self._file.write_table(rows, row_group_size=sum(batch.num_rows for batch in batches))
            chunks = {}
        else:
            encoded = encoded_columns(rows, self._options)
            chunks = {path: chunk.write(self._stream) for path, chunk in encoded.items()}
        own = {}
        if self._own_columns:
            own = self._write_own_columns(self._rows_behind(batches, stored.rows), stored.chunks)
        if self._file is not None:
            self._own_chunks.append(own)
            self._groups.append(None)
        else:
            self._groups.append(WrittenRowGroup(rows.num_rows, _with_top_level(chunks, own)))

    def copy_row_group(self, group: StoredRowGroup, source: ReadAt, constants: Mapping[str, str]) -> None:
        """Append a row group as another file stores it.

        Args:
            group: The row group.
            source: The bytes of the other file.
            constants: Columns of strings that have one new value in each row.

        Raises:
            HoodieCorruptedDataException: The other file is cut short, or a page is damaged.
        """
        if not self._groups and not self.is_started:
            # pyarrow cannot begin a file that has bytes: rows that follow are encoded apart.
            self._stream.write(MAGIC)
        chunks = {}
        for column in group.columns:
            constant = constants.get(column.path[0])
            if constant is None:
                chunks[column.path] = column.copy(source, self._stream, group.path)
            else:
                field = self._schema.field(column.path[0])
                chunks[column.path] = self._constant(field, constant, group.rows).write(self._stream)
        self._groups.append(WrittenRowGroup(group.rows, chunks))

    def write_edit(self, edit: RowGroupEdit, batches: Sequence[pa.RecordBatch]) -> WrittenRowGroup | None:
        """Append a row group of an older file with changes, and new rows behind it.

        Args:
            edit: The row group.
            batches: The new rows, with all columns of the schema.

        Returns:
            Its description; None if it has no rows, and nothing was written.

        Raises:
            HoodieCorruptedDataException: The older file is cut short, or a page is damaged.
        """
        if not self._groups and not self.is_started and edit.rows + sum(batch.num_rows for batch in batches):
            self._stream.write(MAGIC)
        appended = [with_encoding(batch, self._schema) for batch in batches]
        rows = pa.Table.from_batches(appended, self._schema) if appended else None
        written = edit.write(self._stream, rows, self._constant)
        if written is not None:
            self._groups.append(written)
        return written

    def close(self, entries: Mapping[str, str]) -> None:
        """Write the footer.

        Args:
            entries: Key/value pairs.
        """
        if not self.is_started and not self._groups:
            self.start(self._options, ())
        is_of_pyarrow = not self._own_columns and not any(self._groups)
        if self._file is not None:
            if is_of_pyarrow:
                self._file.add_key_value_metadata(entries)
            self._file.close()
        if not is_of_pyarrow:
            write_footer(self._stream, file_form(self._schema, self._options), self._described(), entries)

    def abandon(self) -> None:
        """Leave the file unfinished; pyarrow must not try to finish it when it is collected."""
        if self._file is not None:
            self._file.is_open = False

    def _described(self) -> list[WrittenRowGroup]:
        """The row groups in their order."""
        own = iter(self._own_chunks)
        of_pyarrow = iter(row_groups_of(self._metadata[0]) if self._metadata else ())
        described = []
        for group in self._groups:
            if group is None:
                found = next(of_pyarrow)
                described.append(attrs.evolve(found, chunks=_with_top_level(found.chunks, next(own))))
            else:
                described.append(group)
        return described

    def _constant(self, field: pa.Field, value: str, rows: int) -> ColumnChunk:
        """A column with one value, as a dictionary."""
        made = self._constants.get(field.name)
        if made is not None and made[0] == value and made[1].rows == rows:
            return made[1]
        indices = pa.array(np.zeros(rows, dtype=np.int32))
        column = pa.DictionaryArray.from_arrays(indices, pa.array([value], field.type))
        options = self._options | {"use_dictionary": [field.name]}
        chunk = encoded_column(pa.chunked_array([column]), field.with_type(column.type), **options)
        self._constants[field.name] = value, chunk
        return chunk

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


@lru_cache(maxsize=16)
def _dictionaries(schemas: frozenset[pa.Schema]) -> frozenset[str]:
    """The columns that are dictionaries in all schemas."""
    found = [{field.name for field in schema if pa.types.is_dictionary(field.type)} for schema in schemas]
    return frozenset(set.intersection(*found) if found else ())


def _with_top_level(
    chunks: Mapping[tuple[str, ...], Struct], more: Mapping[str, Struct]
) -> dict[tuple[str, ...], Struct]:
    return {**chunks, **{(name,): chunk for name, chunk in more.items()}}


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
