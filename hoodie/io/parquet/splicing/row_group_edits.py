"""Row groups of Parquet files of which few rows change: most pages go to the next file as they are stored.

Pages of a column follow each other, each with some rows of its own::

    plain column    | page: rows 0 to 26,000 | page: rows 26,001 to 52,000 | ...     only pages with changed rows are
                                                                                   decoded and encoded again
    any other       | dictionary | page | page | ...                                 the whole column is

Values that stay the same change no page, so most columns of an updated row are copied. New rows are joined to the last
page, or follow it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.parquet.column_adaptation import adapt_column
from hoodie.io.parquet.compact_protocol import I64, STRUCT, Field, Struct
from hoodie.io.parquet.splicing.changed_statistics import NULLS, UnknownStatisticsError, changed_statistics, ends_of
from hoodie.io.parquet.splicing.column_chunks import (
    MAGIC,
    STATISTICS,
    ColumnChunk,
    WrittenRowGroup,
    encoded_columns,
    long_value_options,
    write_footer,
)
from hoodie.io.parquet.splicing.row_groups import ReadAt, StoredColumn, StoredRowGroup, file_form

Rows: TypeAlias = npt.NDArray[np.int64]
"""Rows of a row group from 0, ascending and distinct."""
ReadColumn: TypeAlias = Callable[[str], pa.ChunkedArray]
"""Decodes a top-level column of the row group as a whole."""

ConstantColumn: TypeAlias = Callable[[pa.Field, str, int], ColumnChunk]
"""Encodes a column of so many rows with one value."""
_Chunks: TypeAlias = dict[tuple[str, ...], ColumnChunk]
"""The path of each leaf -> its chunk."""

_BYTES_OF_NUMBER = 4
_NO_ROWS = np.zeros(0, dtype=np.int64)


@attrs.frozen(eq=False)
class RowChanges:
    """Rows of a row group that are replaced or deleted.

    Attributes:
        replaced: The rows that get new values.
        new: These values: all columns of the file; None for no rows.
        deleted: The rows that go.
    """

    replaced: Rows = _NO_ROWS
    new: pa.RecordBatch | None = None
    deleted: Rows = _NO_ROWS

    @property
    def touched(self) -> Rows:
        """All of these rows."""
        return np.sort(np.append(self.replaced, self.deleted))


class RowGroupEdit:
    """A row group of an old file with some changes, to be written to the next one.

    Memory: if a row changes, the stored bytes of the row group and `decoded_bytes`; otherwise some MB.

    Args:
        stored: The row group.
        schema: The columns of both files.
        source: The bytes of the old file.
        read_column: Decodes columns of the row group that are not flat.
        touched: The rows that may change.
        constants: Columns of strings with one new value in each row.
        key: The column of record keys, whose values stay in rows that are replaced.
        options: Options of `pyarrow.parquet.ParquetWriter` for columns without dictionary.
    """

    def __init__(
        self,
        stored: StoredRowGroup,
        schema: pa.Schema,
        source: ReadAt,
        read_column: ReadColumn,
        *,
        touched: Rows,
        constants: Mapping[str, str],
        key: str,
        options: Mapping[str, Any],
    ) -> None:
        self.stored = stored
        self.constants = constants
        self._schema = schema
        self._source = source
        self._read_column = read_column
        self._touched = touched
        self._key = key
        self._options = dict(options) | {"use_dictionary": False}
        self._changes = RowChanges()
        self._columns: dict[str, _EditedColumn] = {}
        self._written_keys: ColumnChunk | None = None

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(column.nbytes for column in self._columns.values())

    @property
    def touched(self) -> Rows:
        """The rows that may change."""
        return self._touched

    @property
    def rows(self) -> int:
        """The rows that stay."""
        return self.stored.rows - len(self._changes.deleted)

    def load(self, names: Sequence[str]) -> None:
        """Decode what `old_rows` will need.

        Args:
            names: See `old_rows`.
        """
        if len(self._touched):
            for name in names:
                self._column(name).values_at(self._touched)

    def old_rows(self, names: Sequence[str]) -> pa.RecordBatch:
        """The rows that may change, as they are stored.

        Args:
            names: The columns.

        Raises:
            HoodieCorruptedDataException: The file is cut short or damaged.
        """
        columns = [self._column(name).values_at(self._touched) for name in names]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema([self._schema.field(name) for name in names]))

    def change(self, changes: RowChanges) -> None:
        """Set the changes of the rows, before these are written.

        Args:
            changes: Changes of rows that may change.
        """
        self._changes = changes

    def write(
        self, stream: pa.NativeFile, appended: pa.Table | None, constant: ConstantColumn
    ) -> WrittenRowGroup | None:
        """Append the row group to the next file.

        Args:
            stream: The file.
            appended: New rows, which come last; None for no rows.
            constant: Makes a column of one value.

        Returns:
            Its description; None if no row is left, and nothing was written.

        Raises:
            HoodieCorruptedDataException: The file is cut short or damaged.
        """
        more = appended.num_rows if appended is not None else 0
        rows = self.rows + more
        if not rows:
            return None
        changes = self._changes
        moves = len(changes.deleted) > 0 or more > 0
        chunks: dict[tuple[str, ...], Struct] = {}
        for field in self._schema:
            name = field.name
            leaves = [column for column in self.stored.columns if column.path[0] == name]
            if name in self.constants:
                chunks[leaves[0].path] = constant(field, self.constants[name], rows).write(stream)
                continue
            is_kept = not moves and (name == self._key or not len(changes.replaced))
            if is_kept and name not in self._columns:
                for leaf in leaves:
                    chunks[leaf.path] = leaf.copy(self._source, stream, self.stored.path)
                continue
            column = self._column(name)
            new = changes.new.column(name) if changes.new is not None else None
            behind = appended.column(name) if appended is not None else None
            edited = column.unchanged() if is_kept else column.edited(changes, new, behind)
            for path, chunk in edited.items():
                chunks[path] = chunk.write(stream)
            if name == self._key:
                (self._written_keys,) = edited.values()
            del self._columns[name]
        return WrittenRowGroup(rows, chunks)

    def ends_of_keys(self) -> tuple[bytes, bytes] | None:
        """The smallest and the largest record key that were written, in the order of bytes; None if not known."""
        written = self._written_keys
        return ends_of(self._key_leaf().chunk if written is None else written)

    def keys(self) -> pa.Array:
        """The record keys that were written.

        Raises:
            HoodieCorruptedDataException: The file is damaged.
        """
        leaf = self._key_leaf()
        chunk = self._written_keys
        if chunk is None:
            data, _ = leaf.read(self._source, self.stored.path)
            chunk = attrs.evolve(leaf.chunk, pages=(data,))
        return _decoded(chunk, leaf.path, self._schema.field(self._key), self._options, self.stored.path)

    def _key_leaf(self) -> StoredColumn:
        return next(column for column in self.stored.columns if column.path == (self._key,))

    def _column(self, name: str) -> _EditedColumn:
        if name not in self._columns:
            self._columns[name] = self._read(name)
        return self._columns[name]

    def _read(self, name: str) -> _EditedColumn:
        field = self._schema.field(name)
        leaves = [column for column in self.stored.columns if column.path[0] == name]
        path = self.stored.path
        if len(leaves) == 1 and leaves[0].is_flat and not pa.types.is_nested(field.type):
            if leaves[0].is_plain:
                return _PlainColumn(leaves[0], field, self._source, path, self._options)
            return _FlatColumn(leaves[0], field, self._source, path, self._options)
        return _NestedColumn(leaves, field, self._source, path, self._options, self._read_column)


def decoded_bytes(stored: StoredRowGroup, schema: pa.Schema, source: ReadAt) -> int:
    """The most bytes of the columns that an edit decodes as a whole.

    Args:
        stored: The row group.
        schema: Its columns.
        source: The bytes of its file; dictionaries are read.

    Raises:
        HoodieCorruptedDataException: A dictionary is damaged.
    """
    found = 0
    for column in stored.columns:
        if column.is_flat and column.is_plain:
            continue
        if column.is_flat and _FlatColumn.stays_numbers(column, schema.field(column.path[0]).type):
            found += column.chunk.rows * _BYTES_OF_NUMBER
        else:
            found += column.decoded_bytes(source, stored.path)
    return found


class _EditedColumn(ABC):
    """A top-level column of a row group that is read because some of its rows may change.

    Args:
        leaves: Its leaf columns.
        field: Its field in the schema.
        source: The bytes of the file.
        path: The file, for messages.
        options: Options of `pyarrow.parquet.ParquetWriter` for plain columns.
    """

    def __init__(
        self, leaves: Sequence[StoredColumn], field: pa.Field, source: ReadAt, path: str, options: Mapping[str, Any]
    ) -> None:
        self._leaves = leaves
        self._field = field
        self._path = path
        self._options = options
        self._data, self._pages = {}, {}
        for leaf in leaves:
            self._data[leaf.path], self._pages[leaf.path] = leaf.read(source, path)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without decoded values."""
        return sum(int(data.size) for data in self._data.values())

    @abstractmethod
    def values_at(self, rows: Rows) -> pa.Array:
        """The stored values of some rows."""

    @abstractmethod
    def _changed(self, changes: RowChanges, new: pa.Array | None, appended: pa.Array | None) -> _Chunks:
        """The column after the changes."""

    def unchanged(self) -> _Chunks:
        """The column as it is stored."""
        return {leaf.path: attrs.evolve(leaf.chunk, pages=(self._data[leaf.path],)) for leaf in self._leaves}

    def edited(
        self,
        changes: RowChanges,
        new: pa.Array | None,
        appended: pa.ChunkedArray | None,
    ) -> _Chunks:
        """The column after some changes.

        Args:
            changes: The changes.
            new: The new values of replaced rows; None for no rows.
            appended: Values of new rows; None for no rows.
        """
        coming = _plain(new) if new is not None else None
        behind = _plain(_combined(appended)) if appended is not None else None
        if coming is not None and behind is None and not len(changes.deleted):
            old = _encoded(self.values_at(changes.replaced), self._field, self._options)
            others = _encoded(coming, self._field, self._options)
            if all(chunk.has_pages_of(others[path]) for path, chunk in old.items()):
                return self.unchanged()
        return self._changed(changes, coming, behind)

    def _decoded(self, chunk: ColumnChunk, as_dictionary: bool = False) -> pa.Array:
        """The values of a chunk of a flat column; see `_decoded`."""
        return _decoded(chunk, self._leaves[0].path, self._field, self._options, self._path, as_dictionary)


class _PlainColumn(_EditedColumn):
    """A flat column without dictionary: its pages are decoded one by one."""

    def __init__(
        self, leaf: StoredColumn, field: pa.Field, source: ReadAt, path: str, options: Mapping[str, Any]
    ) -> None:
        super().__init__([leaf], field, source, path, options)
        self._leaf = leaf
        self._parts = self._pages[leaf.path]
        self._ends = np.cumsum([page.values for page in self._parts], dtype=np.int64)
        self._values: dict[int, pa.Array] = {}

    def values_at(self, rows: Rows) -> pa.Array:
        owners = np.searchsorted(self._ends, rows, side="right")
        numbers = np.unique(owners).tolist()
        self._decode(numbers)
        found = [
            self._values[number].take(pa.array(rows[owners == number] - self._first(number))) for number in numbers
        ]
        return pa.concat_arrays(found) if found else pa.array([], self._field.type)

    def _changed(self, changes: RowChanges, new: pa.Array | None, appended: pa.Array | None) -> _Chunks:
        try:
            statistics = changed_statistics(
                self._leaf.leaf,
                self._leaf.chunk,
                self._only(_encoded_or_none(self.values_at(changes.touched), self._field, self._options)),
                self._only(_encoded_or_none(_joined(new, appended), self._field, self._options)),
            )
        except UnknownStatisticsError:
            statistics = self._statistics(changes, new, appended)
        chunk = reduce(ColumnChunk.followed_by, self._changed_pages(changes, new, appended))
        metadata = {**chunk.metadata, STATISTICS: statistics}
        return {self._leaf.path: attrs.evolve(chunk, metadata=metadata)}

    def _statistics(self, changes: RowChanges, new: pa.Array | None, appended: pa.Array | None) -> Field:
        """Parquet's ``Statistics`` after the changes, by all values; one page is in memory at a time."""
        ends: list[pa.Array] = []
        nulls = 0
        known = set(self._values)
        for number in range(len(self._parts)):
            is_last = number == len(self._parts) - 1
            self._decode([number])
            values = self._changed_page(number, changes, new, appended if is_last else None)
            if number not in known:
                del self._values[number]
            nulls += values.null_count
            found = pc.min_max(values)
            ends += [pa.repeat(found[name], 1) for name in ("min", "max")]
        (chunk,) = _encoded(pa.concat_arrays(ends), self._field.with_nullable(True), self._options).values()
        return Field(STRUCT, {**chunk.metadata[STATISTICS].value, NULLS: Field(I64, nulls)})

    def _changed_pages(self, changes: RowChanges, new: pa.Array | None, appended: pa.Array | None) -> list[ColumnChunk]:
        """The pages in their order: runs of stored ones, and encoded ones."""
        last = len(self._parts) - 1
        touched = set(np.searchsorted(self._ends, changes.touched, side="right").tolist())
        joins = appended is not None and self._may_grow(appended)
        if joins:
            touched.add(last)
        self._decode(sorted(touched))
        found: list[ColumnChunk] = []
        kept = 0
        for number in sorted(touched):
            found += self._stored_pages(kept, number)
            kept = number + 1
            page = self._changed_page(number, changes, new, appended if joins and number == last else None)
            if len(page):
                found += _encoded(page, self._field, {**self._options, "write_batch_size": len(page)}).values()
        found += self._stored_pages(kept, last + 1)
        if appended is not None and not joins:
            found += _encoded(appended, self._field, self._options).values()
        return found

    def _changed_page(
        self, number: int, changes: RowChanges, new: pa.Array | None, appended: pa.Array | None
    ) -> pa.Array:
        """The values of a page after the changes."""
        first, end = self._first(number), int(self._ends[number])
        low, high = np.searchsorted(changes.replaced, [first, end]).tolist()
        start, stop = np.searchsorted(changes.deleted, [first, end]).tolist()
        mine = RowChanges(changes.replaced[low:high] - first, None, changes.deleted[start:stop] - first)
        return _with_changes(
            self._values[number], mine, new.slice(low, high - low) if new is not None else None, appended
        )

    def _may_grow(self, appended: pa.Array) -> bool:
        """Whether values are joined to the last page, which then takes no more than two pages."""
        limit, size = self._options["data_page_size"], self._parts[-1].plain_bytes
        return bool(size < limit and size + appended.nbytes <= 2 * limit)

    def _stored_pages(self, start: int, end: int) -> list[ColumnChunk]:
        """The pages from one number to before another one, as they are stored."""
        if start == end:
            return []
        parts = self._parts[start:end]
        size = sum(page.stored_bytes for page in parts)
        data = self._data[self._leaf.path].slice(parts[0].offset, size)
        return [self._leaf.chunk.with_pages(data, parts)]

    def _decode(self, numbers: Sequence[int]) -> None:
        missing = [number for number in numbers if number not in self._values]
        if not missing:
            return
        runs = [chunk for number in missing for chunk in self._stored_pages(number, number + 1)]
        values = self._decoded(reduce(ColumnChunk.followed_by, runs))
        for number in missing:
            count = self._parts[number].values
            self._values[number], values = values.slice(0, count), values.slice(count)

    def _first(self, number: int) -> int:
        return int(self._ends[number - 1]) if number else 0

    def _only(self, chunks: _Chunks | None) -> ColumnChunk | None:
        return None if chunks is None else chunks[self._leaf.path]


class _FlatColumn(_EditedColumn):
    """A flat column with a dictionary: it is decoded as a whole, and texts stay numbers of the dictionary's entries."""

    @staticmethod
    def stays_numbers(leaf: StoredColumn, data_type: pa.DataType) -> bool:
        """Whether values in memory are numbers of entries.

        Args:
            leaf: The column.
            data_type: Its type.
        """
        return leaf.is_dictionary and (pa.types.is_string(data_type) or pa.types.is_binary(data_type))

    def __init__(
        self, leaf: StoredColumn, field: pa.Field, source: ReadAt, path: str, options: Mapping[str, Any]
    ) -> None:
        super().__init__([leaf], field, source, path, options)
        self._values = self._decoded(self.unchanged()[leaf.path], self.stays_numbers(leaf, field.type))

    def values_at(self, rows: Rows) -> pa.Array:
        return _plain(self._values.take(pa.array(rows)))

    def _changed(self, changes: RowChanges, new: pa.Array | None, appended: pa.Array | None) -> _Chunks:
        if pa.types.is_dictionary(self._values.type):
            values = _changed_dictionary(self._values, changes, new, appended)
        else:
            values = _with_changes(self._values, changes, new, appended)
        # A dictionary that is full is followed by plain pages, again.
        options = {**self._options, "use_dictionary": [self._field.name]}
        return _encoded(values, self._field.with_type(values.type), options)


class _NestedColumn(_EditedColumn):
    """A column with others inside: it is decoded as a whole."""

    def __init__(
        self,
        leaves: Sequence[StoredColumn],
        field: pa.Field,
        source: ReadAt,
        path: str,
        options: Mapping[str, Any],
        read_column: ReadColumn,
    ) -> None:
        super().__init__(leaves, field, source, path, options)
        self._values = _combined(read_column(field.name))

    def values_at(self, rows: Rows) -> pa.Array:
        return self._values.take(pa.array(rows))

    def _changed(self, changes: RowChanges, new: pa.Array | None, appended: pa.Array | None) -> _Chunks:
        values = _with_changes(self._values, changes, new, appended)
        dictionaries = [".".join(leaf.path) for leaf in self._leaves if not leaf.is_plain]
        return _encoded(values, self._field, {**self._options, "use_dictionary": dictionaries or False})


def _decoded(
    chunk: ColumnChunk,
    column: tuple[str, ...],
    field: pa.Field,
    options: Mapping[str, Any],
    path: str,
    as_dictionary: bool = False,
) -> pa.Array:
    """The values of a chunk of a flat column, or of some of its pages.

    Args:
        chunk: The chunk.
        column: The path of the column.
        field: Its field.
        options: Options of `pyarrow.parquet.ParquetWriter` for columns without dictionary.
        path: The file, for messages.
        as_dictionary: Whether texts are given as a dictionary.

    Raises:
        HoodieCorruptedDataException: The chunk is damaged.
    """
    stream = pa.BufferOutputStream()
    stream.write(MAGIC)
    group = WrittenRowGroup(chunk.rows, {column: chunk.write(stream)})
    write_footer(stream, file_form(pa.schema([field]), options), [group], {})
    dictionaries = [field.name] if as_dictionary else []
    try:
        file = pq.ParquetFile(pa.BufferReader(stream.getvalue()), read_dictionary=dictionaries, pre_buffer=False)
        values = _combined(file.read(use_threads=False).column(0))
        if as_dictionary:
            values.validate(full=True)
        problem = "" if len(values) == chunk.rows else f"it has {len(values)} values where its pages tell {chunk.rows}"
    except (pa.ArrowException, OSError) as error:
        raise HoodieCorruptedDataException(_damage(path, field.name, error)) from error
    if problem:
        raise HoodieCorruptedDataException(_damage(path, field.name, problem))
    return values if as_dictionary else adapt_column(values, field.type)


def _damage(path: str, name: str, problem: object) -> str:
    return f"{path} is damaged in column {name}: {problem}; restore it from a copy"


def _encoded(values: pa.Array, field: pa.Field, options: Mapping[str, Any]) -> _Chunks:
    """Values as chunks; at least one value."""
    given = long_value_options(int(values.nbytes), len(values)) | dict(options)
    return encoded_columns(pa.Table.from_arrays([values], schema=pa.schema([field])), given)


def _encoded_or_none(values: pa.Array | None, field: pa.Field, options: Mapping[str, Any]) -> _Chunks | None:
    return _encoded(values, field, options) if values is not None and len(values) else None


def _with_changes(values: pa.Array, changes: RowChanges, new: pa.Array | None, appended: pa.Array | None) -> pa.Array:
    """Values after the changes.

    Args:
        values: The stored values of all rows.
        changes: The changes.
        new: The values of replaced rows.
        appended: Values that come last.
    """
    places = np.arange(len(values))
    if new is not None and len(new):
        places[changes.replaced] = len(values) + np.arange(len(new))
    if len(changes.deleted):
        places = np.delete(places, changes.deleted)
    parts = [values, *(part for part in (new, appended) if part is not None)]
    if appended is not None:
        start = sum(map(len, parts)) - len(appended)
        places = np.append(places, start + np.arange(len(appended)))
    return pa.concat_arrays(parts).take(pa.array(places))


def _changed_dictionary(
    values: pa.DictionaryArray, changes: RowChanges, new: pa.Array | None, appended: pa.Array | None
) -> pa.DictionaryArray:
    """The same for texts in a dictionary, which has no entry too many afterwards."""
    entries = values.dictionary
    coming = _joined(new, appended)
    if coming is not None:
        missing = coming.filter(pc.invert(pc.is_in(coming, value_set=entries))).drop_null().unique()
        entries = pa.concat_arrays([entries, missing])

    def numbers(texts: pa.Array | None) -> pa.Array | None:
        return None if texts is None else pc.index_in(texts, value_set=entries)

    codes = _with_changes(values.indices.cast(pa.int32()), changes, numbers(new), numbers(appended))
    used = np.zeros(len(entries), dtype=np.bool_)
    used[codes.drop_null().to_numpy()] = True
    if not used.all():
        codes = pa.array(np.cumsum(used, dtype=np.int32) - np.int32(1)).take(codes)
        entries = entries.filter(pa.array(used))
    return pa.DictionaryArray.from_arrays(codes, entries)


def _plain(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _joined(first: pa.Array | None, second: pa.Array | None) -> pa.Array | None:
    parts = [part for part in (first, second) if part is not None]
    return pa.concat_arrays(parts) if parts else None


def _combined(values: pa.ChunkedArray) -> pa.Array:
    """One array; dictionaries are united."""
    if values.num_chunks == 1:
        return values.chunk(0)
    found = values.unify_dictionaries() if pa.types.is_dictionary(values.type) else values
    combined = found.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
