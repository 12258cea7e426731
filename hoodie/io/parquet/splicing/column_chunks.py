"""Columns of row groups as Parquet stores them: moved from file to file, or written twice, without decoding them.

The pages of a column contain neither their file nor their place in it; only the footer does. This module takes footers
apart and puts them together::

    PAR1 | chunks of a row group | ... | footer: schema, for each chunk its place, size, encodings, statistics | PAR1

A merge that changes no record key keeps the chunk of the record keys, and appends the pages of new rows to it.
Otherwise, keys of random characters would be half of the data that a merge decodes and encodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.exception import HoodieCorruptedDataException, HoodieException
from hoodie.io.parquet.compact_protocol import (
    BINARY,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Field,
    ListValue,
    Struct,
    read_struct,
    write_struct,
)

MAGIC = b"PAR1"
CODECS = {"none": 0, "snappy": 1, "gzip": 2, "zstd": 6}
_PLAIN, _PLAIN_DICTIONARY, _RLE, _BIT_PACKED, _RLE_DICTIONARY = 0, 2, 3, 4, 8
_BYTE_ARRAY, _REQUIRED, _OPTIONAL, _REPEATED, _UTF8 = 6, 0, 1, 2, 0
_KNOWN_ENCODINGS = frozenset({_PLAIN, _PLAIN_DICTIONARY, _RLE, _BIT_PACKED, _RLE_DICTIONARY})
_PAGES_ALWAYS = 64
"""Up to this number of pages, a kept chunk may have small pages."""
_ROWS_OF_PAGE = 1000
"""A chunk with more pages is kept only if they have this many rows on average: each upsert adds a page of any size."""
_BYTES_OF_PAGE = 1 << 16
"""Or this many bytes before compression, as pages of long values have."""
_LONG_VALUE = 16 << 10
_PAGE_OF_LONG_VALUES = 16 << 20
"""Pages of values that are longer than that, on average, take about as much as this at most. Arrow alone looks at the
size of a page after each 1,024 values."""

# Numbers of the fields in Parquet's footer.
_FILE_SCHEMA, _FILE_ROWS, _FILE_ROW_GROUPS, _FILE_ENTRIES = 2, 3, 4, 5
_GROUP_COLUMNS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_OFFSET, _GROUP_STORED_BYTES, _GROUP_ORDINAL = 1, 2, 3, 5, 6, 7
_MOST_ORDINALS = 1 << 15
_CHUNK_FILE, _CHUNK_METADATA = 1, 3
_CHUNK_ENCRYPTION = (8, 9)
_ELEMENT_TYPE, _ELEMENT_LENGTH, _ELEMENT_REPETITION, _ELEMENT_NAME, _ELEMENT_CHILDREN, _ELEMENT_CONVERTED = range(1, 7)
ENCODINGS, _PATH, _CODEC, VALUES, PLAIN_BYTES, STORED_BYTES = range(2, 8)
_DATA_OFFSET, _INDEX_OFFSET, _DICTIONARY_OFFSET, STATISTICS, PAGES = 9, 10, 11, 12, 13
_BLOOM_OFFSET, _BLOOM_LENGTH, SIZES = 14, 15, 16
_OLD_RANGE = (1, 2)
_NULLS, _MAX, _MIN, _MAX_EXACT, _MIN_EXACT = 3, 5, 6, 7, 8


@attrs.frozen(eq=False)
class ColumnChunk:
    """One leaf column of one row group: its pages, and their description in the footer.

    Attributes:
        metadata: Parquet's ``ColumnMetaData``; offsets count from the first page.
        pages: The pages, in pieces.
    """

    metadata: Struct
    pages: tuple[pa.Buffer, ...]

    @property
    def rows(self) -> int:
        """The number of values, nulls included; for a column without lists, the number of rows."""
        return int(self.metadata[VALUES].value)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the pages."""
        return int(self.metadata[STORED_BYTES].value)

    @property
    def plain_bytes(self) -> int:
        """Bytes of the pages before compression."""
        return int(self.metadata[PLAIN_BYTES].value)

    @property
    def values_offset(self) -> int:
        """The offset of the first page that is no dictionary."""
        return int(self.metadata[_DATA_OFFSET].value)

    @property
    def has_statistics(self) -> bool:
        """Whether the footer has statistics of the column."""
        return STATISTICS in self.metadata

    def may_equal(self, other: ColumnChunk) -> bool:
        """Whether the footer describes both in the same way, except for the name."""
        described = (VALUES, STORED_BYTES, PLAIN_BYTES, _CODEC, _DATA_OFFSET, _DICTIONARY_OFFSET, STATISTICS)
        return all(self.metadata.get(number) == other.metadata.get(number) for number in described)

    def has_pages_of(self, other: ColumnChunk) -> bool:
        """Whether every byte is equal, and so every value."""
        return self.may_equal(other) and _joined(self.pages).equals(_joined(other.pages))

    def named(self, name: str) -> ColumnChunk:
        """The same pages as those of another top-level column."""
        path = Field(LIST, ListValue(BINARY, [name.encode()]))
        return attrs.evolve(self, metadata={**self.metadata, _PATH: path})

    def followed_by(self, other: ColumnChunk) -> ColumnChunk:
        """The rows of both, this one's first.

        Args:
            other: A chunk without a dictionary, of the same type and codec.

        Raises:
            HoodieException: The other chunk has a dictionary; a column chunk can have only one, at its start.
        """
        if not other.rows:
            return self
        if _DICTIONARY_OFFSET in other.metadata:
            raise HoodieException("a column chunk with a dictionary cannot follow another one")
        metadata = {number: field for number, field in self.metadata.items() if number not in (STATISTICS, SIZES)}
        for number in (VALUES, PLAIN_BYTES, STORED_BYTES):
            metadata[number] = Field(I64, self.metadata[number].value + other.metadata[number].value)
        encodings = [*self.metadata[ENCODINGS].value.items, *other.metadata[ENCODINGS].value.items]
        metadata[ENCODINGS] = Field(LIST, ListValue(I32, list(dict.fromkeys(encodings))))
        metadata[PAGES] = _added_page_counts(self.metadata, other.metadata)
        if STATISTICS in self.metadata and STATISTICS in other.metadata:
            united = _united_statistics(self.metadata[STATISTICS].value, other.metadata[STATISTICS].value)
            if united:
                metadata[STATISTICS] = Field(STRUCT, united)
        return ColumnChunk(metadata, (*self.pages, *other.pages))

    def with_pages(self, data: pa.Buffer, pages: Sequence[StoredPage]) -> ColumnChunk:
        """Some of the data pages of a chunk without dictionary, without statistics.

        Args:
            data: Their bytes.
            pages: Their descriptions; they follow each other.
        """
        (kind,) = self.metadata[PAGES].value.items
        found = {VALUES: Field(I64, sum(page.values for page in pages))}
        found[PLAIN_BYTES] = Field(I64, sum(page.plain_bytes for page in pages))
        found[STORED_BYTES] = Field(I64, int(data.size))
        found[PAGES] = Field(LIST, ListValue(STRUCT, [{**kind, 3: Field(I32, len(pages))}]))
        kept = {number: field for number, field in self.metadata.items() if number not in (STATISTICS, SIZES)}
        return ColumnChunk(kept | found, (data,))

    def write(self, stream: pa.NativeFile) -> Struct:
        """Append the pages to a file and return Parquet's ``ColumnChunk`` for its footer."""
        start = int(stream.tell())
        for part in self.pages:
            stream.write(part)
        return self.placed(start)

    def placed(self, start: int) -> Struct:
        """Parquet's ``ColumnChunk`` for the footer of a file that has the pages.

        Args:
            start: The offset of the first page.
        """
        metadata = dict(self.metadata)
        for number in (_DATA_OFFSET, _DICTIONARY_OFFSET):
            if number in metadata:
                metadata[number] = Field(I64, metadata[number].value + start)
        return {2: Field(I64, 0), _CHUNK_METADATA: Field(STRUCT, metadata)}

    def suits(self, compression: str) -> bool:
        """Whether the chunk may be kept in a file of this codec, and further pages may follow."""
        pages = self.metadata.get(PAGES)
        if pages is None or self.metadata[_CODEC].value != CODECS.get(compression):
            return False
        count = sum(entry[3].value for entry in pages.value.items)
        return set(self.metadata[ENCODINGS].value.items) <= _KNOWN_ENCODINGS and (
            count <= _PAGES_ALWAYS or self.rows >= _ROWS_OF_PAGE * count or self.plain_bytes >= _BYTES_OF_PAGE * count
        )


@attrs.frozen
class StoredPage:
    """A page of a column chunk that was read.

    Attributes:
        offset: The place of its header in the chunk.
        stored_bytes: Bytes of header and values.
        plain_bytes: The same before compression.
        values: The number of its values, nulls included; none of a dictionary.
    """

    offset: int
    stored_bytes: int
    plain_bytes: int
    values: int


@attrs.frozen(eq=False)
class StoredChunks:
    """Some columns of a row group as they are stored.

    Attributes:
        rows: Rows of the row group.
        chunks: Name -> the column's pages and their description in the footer.
    """

    rows: int = 0
    chunks: Mapping[str, ColumnChunk] = attrs.field(factory=dict)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the columns."""
        return sum(chunk.stored_bytes for chunk in self.chunks.values())

    @property
    def plain_bytes(self) -> int:
        """Bytes of the columns before compression."""
        return sum(chunk.plain_bytes for chunk in self.chunks.values())


class StoredColumns:
    """The columns of a Parquet file as they are stored.

    Args:
        stream: The file; read at offsets, so others may read it at the same time.
        path: For messages.

    Raises:
        HoodieCorruptedDataException: The file does not end in a footer.
    """

    def __init__(self, stream: pa.NativeFile, path: str) -> None:
        self._stream = stream
        self._path = path
        self._footer = read_footer(stream, path)
        self._strings: dict[bool, frozenset[str]] = {}
        self._columns: dict[int, dict[tuple[str, ...], Struct]] = {}

    def copies_of(self, key: pa.Field, others: Iterable[pa.Field], compression: str) -> list[str]:
        """The columns that a new file can copy: the key and its possible equals; none if the key cannot be copied.

        The footer decides; `chunks` compares the bytes.

        Args:
            key: A column of strings, with its type in the new file.
            others: Further columns, likewise.
            compression: Codec of the new file, in pyarrow's spelling.
        """
        keys = self._copyable(key, compression)
        if keys is None:
            return []
        found = [key.name]
        for field in others:
            chunks = self._copyable(field, compression)
            if chunks is not None and all(chunk.may_equal(like) for chunk, like in zip(chunks, keys, strict=True)):
                found.append(field.name)
        return found

    def chunks(self, row_group: int, names: Sequence[str]) -> StoredChunks | None:
        """Columns of a row group that all have the same bytes; None when they differ, or are not in this file.

        Args:
            row_group: Its number.
            names: Names of top-level columns.

        Raises:
            HoodieCorruptedDataException: The file ends within a column.
        """
        found: dict[str, ColumnChunk] = {}
        for name in names:
            chunk = self._chunk(row_group, name)
            first = next(iter(found.values()), chunk)
            if chunk is None or first is None or not (chunk is first or chunk.has_pages_of(first)):
                return None
            found[name] = first
        rows = self._footer[_FILE_ROW_GROUPS].value.items[row_group][_GROUP_ROWS].value
        return StoredChunks(int(rows), found)

    def _copyable(self, field: pa.Field, compression: str) -> list[ColumnChunk] | None:
        """The chunks of a column of strings in each row group, without pages; None if the column cannot be copied."""
        if field.type != pa.string():
            return None
        if field.nullable not in self._strings:
            self._strings[field.nullable] = _string_columns(self._footer, field.nullable)
        if field.name not in self._strings[field.nullable]:
            return None
        chunks = []
        for number in range(len(self._footer[_FILE_ROW_GROUPS].value.items)):
            located = self._located(number, field.name)
            if located is None or not located[1].suits(compression):
                return None
            chunks.append(located[1])
        return chunks

    def _chunk(self, row_group: int, name: str) -> ColumnChunk | None:
        located = self._located(row_group, name)
        if located is None:
            return None
        start, chunk = located
        pages = pa.py_buffer(self._stream.read_at(chunk.stored_bytes, start))
        if pages.size != chunk.stored_bytes:
            raise HoodieCorruptedDataException(f"{self._path} ends within column {name}; restore it from a copy")
        return attrs.evolve(chunk, pages=(pages,))

    def _located(self, row_group: int, name: str) -> tuple[int, ColumnChunk] | None:
        """The offset of a top-level column's first page, and its chunk without pages.

        None if this file does not hold the pages, or holds them encrypted.
        """
        group = self._footer[_FILE_ROW_GROUPS].value.items[row_group]
        if row_group not in self._columns:
            chunks = [chunk for chunk in group[_GROUP_COLUMNS].value.items if _CHUNK_METADATA in chunk]
            self._columns[row_group] = {path_of(chunk): chunk for chunk in reversed(chunks)}
        chunk = self._columns[row_group].get((name,))
        if chunk is None or _CHUNK_FILE in chunk or any(number in chunk for number in _CHUNK_ENCRYPTION):
            return None
        if chunk[_CHUNK_METADATA].value[VALUES].value != group[_GROUP_ROWS].value:
            return None
        return relative_chunk(chunk[_CHUNK_METADATA].value)


def encoded_column(column: pa.ChunkedArray, field: pa.Field, **options: Any) -> ColumnChunk:
    """Encode a column that is neither a list nor a struct; no values give a chunk without pages.

    Args:
        column: Its values.
        field: Its field in the file's schema.
        **options: Options of `pyarrow.parquet.ParquetWriter`.
    """
    if not len(column):
        return ColumnChunk({VALUES: Field(I64, 0)}, ())
    schema = pa.schema([field])
    return encoded_columns(pa.Table.from_arrays([column], schema=schema), options)[(field.name,)]


def encoded_columns(rows: pa.Table, options: Mapping[str, Any]) -> dict[tuple[str, ...], ColumnChunk]:
    """Encode rows as a row group in memory; the path of each leaf column -> its chunk.

    Args:
        rows: The rows, at least one.
        options: Options of `pyarrow.parquet.ParquetWriter`.
    """
    stream = pa.BufferOutputStream()
    with pq.ParquetWriter(stream, rows.schema, **options) as file:
        file.write_table(rows, row_group_size=rows.num_rows)
    data = stream.getvalue()
    (group,) = _footer_of(data)[_FILE_ROW_GROUPS].value.items
    found = {}
    for described in group[_GROUP_COLUMNS].value.items:
        start, chunk = relative_chunk(described[_CHUNK_METADATA].value)
        found[path_of(described)] = attrs.evolve(chunk, pages=(data.slice(start, chunk.stored_bytes),))
    return found


def long_value_options(plain_bytes: int, count: int) -> dict[str, Any]:
    """Options of `pyarrow.parquet.ParquetWriter` that bound the pages of long values.

    Args:
        plain_bytes: Bytes of the values.
        count: Their number.
    """
    is_long = plain_bytes > _LONG_VALUE * count
    return {"write_batch_size": max(1, _PAGE_OF_LONG_VALUES * count // plain_bytes)} if is_long else {}


@attrs.frozen(eq=False)
class WrittenRowGroup:
    """The description of a row group whose chunks are in the file.

    Attributes:
        rows: Its rows.
        chunks: The path of each leaf column -> Parquet's ``ColumnChunk``.
        more: Fields of Parquet's ``RowGroup`` that stay as they are.
    """

    rows: int
    chunks: Mapping[tuple[str, ...], Struct]
    more: Struct = attrs.field(factory=dict)

    def described(self, paths: Iterable[tuple[str, ...]], number: int) -> Struct:
        """Parquet's ``RowGroup``.

        Args:
            paths: The paths of all leaf columns, in the order of the schema.
            number: The number of the row group in its file.
        """
        ordered = [self.chunks[path] for path in paths]
        metadata = [chunk[_CHUNK_METADATA].value for chunk in ordered]
        found = self.more | {
            _GROUP_COLUMNS: Field(LIST, ListValue(STRUCT, ordered)),
            _GROUP_BYTES: Field(I64, sum(entry[PLAIN_BYTES].value for entry in metadata)),
            _GROUP_ROWS: Field(I64, self.rows),
            _GROUP_OFFSET: Field(I64, min(_start(entry) for entry in metadata)),
            _GROUP_STORED_BYTES: Field(I64, sum(entry[STORED_BYTES].value for entry in metadata)),
        }
        if number < _MOST_ORDINALS:
            found[_GROUP_ORDINAL] = Field(I16, number)
        return found


def row_groups_of(metadata: pq.FileMetaData) -> list[WrittenRowGroup]:
    """The row groups that pyarrow wrote.

    Args:
        metadata: Metadata of its file.
    """
    return [
        WrittenRowGroup(
            int(group[_GROUP_ROWS].value), {path_of(chunk): chunk for chunk in group[_GROUP_COLUMNS].value.items}
        )
        for group in struct_of(metadata)[_FILE_ROW_GROUPS].value.items
    ]


def write_footer(
    stream: pa.NativeFile, whole: pq.FileMetaData, groups: Iterable[WrittenRowGroup], entries: Mapping[str, str]
) -> None:
    """Finish a file whose chunks are already in its stream.

    Args:
        stream: The stream with the chunks.
        whole: Metadata of a file without rows that has the schema of this one.
        groups: Its row groups.
        entries: Key/value pairs.
    """
    footer = struct_of(whole)
    paths = [leaf.path for leaf in leaves_of(footer[_FILE_SCHEMA].value.items)]
    described = [group.described(paths, number) for number, group in enumerate(groups)]
    footer[_FILE_ROWS] = Field(I64, sum(group[_GROUP_ROWS].value for group in described))
    footer[_FILE_ROW_GROUPS] = Field(LIST, ListValue(STRUCT, described))
    pairs = [{1: Field(BINARY, key.encode()), 2: Field(BINARY, value.encode())} for key, value in entries.items()]
    footer[_FILE_ENTRIES] = Field(LIST, ListValue(STRUCT, pairs))
    data = write_struct(footer)
    stream.write(data)
    stream.write(len(data).to_bytes(4, "little") + MAGIC)


def struct_of(metadata: pq.FileMetaData) -> Struct:
    """Metadata of pyarrow as a struct."""
    stream = pa.BufferOutputStream()
    metadata.write_metadata_file(stream)
    return _footer_of(stream.getvalue())


def _footer_of(data: pa.Buffer) -> Struct:
    return read_footer(pa.BufferReader(data), "an encoded column")


def read_footer(stream: pa.NativeFile, path: str) -> Struct:
    """The footer of a file; read at its offset, so others may read the file at the same time.

    Args:
        stream: The file.
        path: For messages.

    Raises:
        HoodieCorruptedDataException: The file does not end in a footer.
    """
    size = int(stream.size())
    tail = stream.read_at(8, size - 8) if size > 8 else b""
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or length + 8 > size:
        raise HoodieCorruptedDataException(f"{path} does not end in a Parquet footer; restore the file from a copy")
    return read_struct(stream.read_at(length, size - 8 - length))


def _string_columns(footer: Struct, nullable: bool) -> frozenset[str]:
    """The top-level columns of strings, in the usual form in which hoodie and other writers store them.

    Args:
        footer: The footer of a file.
        nullable: Whether the column may hold nulls.
    """
    elements = footer[_FILE_SCHEMA].value.items
    wanted = {_ELEMENT_TYPE: _BYTE_ARRAY, _ELEMENT_REPETITION: _OPTIONAL if nullable else _REQUIRED}
    wanted |= {_ELEMENT_CONVERTED: _UTF8}
    found = set()
    place = 1
    while place < len(elements):
        element = elements[place]
        is_string = all(number in element and element[number].value == value for number, value in wanted.items())
        if (
            is_string
            and _ELEMENT_LENGTH not in element
            and not (_ELEMENT_CHILDREN in element and element[_ELEMENT_CHILDREN].value)
        ):
            found.add(element[_ELEMENT_NAME].value.decode())
        place = _after(elements, place)
    return frozenset(found)


def relative_chunk(metadata: Struct) -> tuple[int, ColumnChunk]:
    """The offset of the first page, and the chunk without pages and indexes, with offsets relative to that page.

    Args:
        metadata: Parquet's ``ColumnMetaData``.
    """
    start = _start(metadata)
    dropped = (_INDEX_OFFSET, _BLOOM_OFFSET, _BLOOM_LENGTH, _DICTIONARY_OFFSET)
    moved = {number: field for number, field in metadata.items() if number not in dropped}
    if STATISTICS in metadata:
        # Whether readers trust old smallest and largest values depends on the writer in the footer, which changes here.
        kept = {number: field for number, field in metadata[STATISTICS].value.items() if number not in _OLD_RANGE}
        moved[STATISTICS] = Field(STRUCT, kept)
    moved[_DATA_OFFSET] = Field(I64, metadata[_DATA_OFFSET].value - start)
    if moved[_DATA_OFFSET].value:
        moved[_DICTIONARY_OFFSET] = Field(I64, 0)
    return start, ColumnChunk(moved, ())


def _start(metadata: Struct) -> int:
    """The offset of a chunk's first page; writers without a dictionary may give 0 as its offset."""
    data = int(metadata[_DATA_OFFSET].value)
    dictionary = int(metadata[_DICTIONARY_OFFSET].value) if _DICTIONARY_OFFSET in metadata else 0
    return dictionary if 0 < dictionary < data else data


def path_of(chunk: Struct) -> tuple[str, ...]:
    """The path of a leaf column.

    Args:
        chunk: Parquet's ``ColumnChunk``.
    """
    return tuple(part.decode() for part in chunk[_CHUNK_METADATA].value[_PATH].value.items)


def _after(elements: Sequence[Struct], place: int) -> int:
    """The place after the subtree of an element of the schema."""
    children = elements[place][_ELEMENT_CHILDREN].value if _ELEMENT_CHILDREN in elements[place] else 0
    place += 1
    for _ in range(children):
        place = _after(elements, place)
    return place


@attrs.frozen
class Leaf:
    """A leaf column of a schema.

    Attributes:
        path: Its path.
        element: Parquet's ``SchemaElement``.
        is_repeated: Whether it has any number of values in a row.
    """

    path: tuple[str, ...]
    element: Struct
    is_repeated: bool


def leaves_of(elements: Sequence[Struct]) -> Iterator[Leaf]:
    """All leaves, in the order of the schema."""
    path: list[tuple[str, int, bool]] = []
    for element in elements[1:]:
        name = element[_ELEMENT_NAME].value.decode()
        children = element[_ELEMENT_CHILDREN].value if _ELEMENT_CHILDREN in element else 0
        repeats = _ELEMENT_REPETITION in element and element[_ELEMENT_REPETITION].value == _REPEATED
        if children:
            path.append((name, children, repeats))
            continue
        names = (*(parent for parent, _, _ in path), name)
        yield Leaf(names, element, repeats or any(repeated for _, _, repeated in path))
        while path:
            parent, remaining, repeated = path.pop()
            if remaining > 1:
                path.append((parent, remaining - 1, repeated))
                break


def _added_page_counts(first: Struct, second: Struct) -> Field:
    counts: dict[tuple[int, int], int] = {}
    for metadata in (first, second):
        for entry in metadata[PAGES].value.items:
            kind = (entry[1].value, entry[2].value)
            counts[kind] = counts.get(kind, 0) + entry[3].value
    entries = [
        {1: Field(I32, page), 2: Field(I32, encoding), 3: Field(I32, count)}
        for (page, encoding), count in counts.items()
    ]
    return Field(LIST, ListValue(STRUCT, entries))


def _united_statistics(first: Struct, second: Struct) -> Struct:
    """Statistics of both columns of strings, which Parquet orders by bytes; without values that one side lacks."""
    united: Struct = {}
    if _NULLS in first and _NULLS in second:
        united[_NULLS] = Field(I64, first[_NULLS].value + second[_NULLS].value)
    for number, exact, choose in ((_MIN, _MIN_EXACT, min), (_MAX, _MAX_EXACT, max)):
        if number not in first or number not in second:
            return {key: field for key, field in united.items() if key == _NULLS}
        chosen = choose((first, second), key=lambda side: side[number].value)
        united[number] = chosen[number]
        if exact in chosen:
            united[exact] = chosen[exact]
    return united


def _joined(pages: Sequence[pa.Buffer]) -> pa.Buffer:
    return pages[0] if len(pages) == 1 else pa.py_buffer(b"".join(memoryview(part) for part in pages))
