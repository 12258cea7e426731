"""Row groups of Parquet files that are copied to another file as they are stored.

Only what a file of ours would hold, too, is copied: the same schema, codec and kind of pages, described by fields that
mean the same in every file. Whatever else a footer says, its rows are to be decoded. Page indexes and Parquet's own
bloom filters stay behind: they are not in the row group, and nobody needs them.

Hudi: org.apache.hudi.parquet.io.HoodieParquetFileBinaryCopier. Differs: pages are checked while they are copied; a file
of another schema is not copied.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.common.model.record_columns import RECORD_KEY_META
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.parquet.compact_protocol import (
    FALSE,
    I32,
    STRUCT,
    TRUE,
    Field,
    Struct,
    read_struct_at,
)
from hoodie.io.parquet.splicing.column_chunks import (
    CODECS,
    ColumnChunk,
    Leaf,
    StoredPage,
    leaves_of,
    path_of,
    read_footer,
    relative_chunk,
    struct_of,
)

_PIECE_BYTES = 4 << 20
"""The bytes of a file that are read at a time."""
_LONGEST_HEADER = 1 << 28
_HEADER_PIECE_BYTES = 1 << 10

# Numbers of the fields in Parquet's footer, and the fields that may be there.
_FILE_SCHEMA, _FILE_ROW_GROUPS, _FILE_WRITER, _FILE_ORDERS = 2, 4, 6, 7
_OF_FILES = frozenset(range(1, 8))
_GROUP_COLUMNS, _GROUP_ROWS = 1, 3
_OF_GROUPS = frozenset({1, 2, 3, 5, 6, 7})
_CHUNK_METADATA = 3
_OF_CHUNKS = frozenset({2, 3, 4, 5, 6, 7})
_TYPE, _PATH, _CODEC, _VALUES, _STORED_BYTES, _DATA_OFFSET, _DICTIONARY_OFFSET, _STATISTICS, _PAGES = (
    1, 3, 4, 5, 7, 9, 11, 12, 13,
)  # fmt: skip
_OF_COLUMNS = frozenset({*range(1, 8), 9, 10, 11, 12, 13, 14, 15, 16})
_NEEDED_OF_COLUMNS = frozenset({*range(1, 8), _DATA_OFFSET, _PAGES})
_OF_STATISTICS = frozenset(range(1, 9))
_ENDS = (5, 6)
_OLD_ENDS = frozenset({1, 2})
_ELEMENT_TYPE, _ELEMENT_LENGTH, _ELEMENT_CHILDREN, _ELEMENT_CONVERTED, _ELEMENT_ID, _ELEMENT_LOGICAL = 1, 2, 5, 6, 9, 10
_FIXED_LENGTH = 7
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PLAIN, _OF_DICTIONARIES = 0, frozenset({2, 8})
_PAGE_TYPE, _PAGE_PLAIN_BYTES, _PAGE_BYTES, _PAGE_CHECKSUM, _PAGE_DATA, _PAGE_DICTIONARY = 1, 2, 3, 4, 5, 7
_PAGE_VALUES, _PAGE_ENCODING, _PAGE_LEVELS, _PAGE_STATISTICS = 1, 2, (3, 4), 5
_MAY_BE = {_PAGE_CHECKSUM: {I32}}
_MAY_BE_OF_DATA = {_PAGE_STATISTICS: {STRUCT}}
_MAY_BE_OF_DICTIONARIES = {3: {TRUE, FALSE}}
"""Whether its entries are ordered."""
_ENCODINGS_OF_LEVELS = frozenset({3, 4})
_WIDTHS = {1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""Parquet's types of numbers -> bytes of a value."""
_BYTES_OF_OFFSET = 4
"""The bytes of the length of a text in a page, and of its offset in memory."""
_CODEC_NAMES = {number: name for name, number in CODECS.items()}
_BY_TYPE = {1: Field(STRUCT, {})}
"""The order of each column's values in statistics that can be relied on."""
_WRITERS = re.compile(rb"parquet-cpp-arrow version [1-9]|parquet-mr version 1\.[1-9]\d")
"""Writers whose statistics are right: readers trust those that our own footers hold."""


ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Reads so many bytes of a file, from an offset on; fewer at its end."""


@attrs.frozen(eq=False)
class CopiedForm:
    """The form in which row groups must be stored to be copied.

    Attributes:
        elements: The schema, as Parquet's ``SchemaElement``s.
        compression: The codec, in pyarrow's spelling.
        min_bytes: The least stored bytes of a row group.
    """

    elements: Sequence[Struct]
    compression: str
    min_bytes: int

    @classmethod
    def of(cls, schema: pa.Schema, options: Mapping[str, Any], compression: str, min_bytes: int) -> CopiedForm:
        """The form of the files that are written with a schema.

        Args:
            schema: Columns of the files.
            options: Options of `pyarrow.parquet.ParquetWriter`.
            compression: See the attribute.
            min_bytes: See the attribute.
        """
        elements = struct_of(file_form(schema, options))[_FILE_SCHEMA].value.items
        return cls(elements, compression, min_bytes)


@attrs.frozen(eq=False)
class StoredColumn:
    """A column of a row group in its file.

    Attributes:
        leaf: The column in the schema.
        start: The offset of the first page.
        chunk: Its description, without pages.
    """

    leaf: Leaf
    start: int
    chunk: ColumnChunk

    @property
    def path(self) -> tuple[str, ...]:
        """The path of the leaf."""
        return self.leaf.path

    @property
    def is_flat(self) -> bool:
        """Whether the column has one value in each row, and is no part of another column."""
        return len(self.leaf.path) == 1 and not self.leaf.is_repeated

    @property
    def is_plain(self) -> bool:
        """Whether no value is in a dictionary."""
        return {entry[2].value for entry in self.chunk.metadata[_PAGES].value.items} == {_PLAIN}

    @property
    def is_dictionary(self) -> bool:
        """Whether all values are in a dictionary."""
        entries = self.chunk.metadata[_PAGES].value.items
        return all(entry[1].value == _DICTIONARY_PAGE or entry[2].value in _OF_DICTIONARIES for entry in entries)

    @property
    def page_count(self) -> int:
        """The number of pages."""
        return sum(int(entry[3].value) for entry in self.chunk.metadata[_PAGES].value.items)

    def decoded_bytes(self, source: ReadAt, path: str) -> int:
        """The most bytes that all values take in memory, each by itself.

        Args:
            source: The bytes of the file, of which a dictionary is read.
            path: The file, for messages.

        Raises:
            HoodieCorruptedDataException: The dictionary is damaged.
        """
        values = int(self.chunk.metadata[_VALUES].value)
        plain_bytes = max(int(self.chunk.plain_bytes), values * (_width_of(self.leaf) or 1))
        if _DICTIONARY_OFFSET not in self.chunk.metadata or _width_of(self.leaf) is not None:
            return plain_bytes
        with self._named_damage(path):
            pages = _Pages(source, self.start, self.chunk, self.chunk.values_offset)
            page = _PageHeader.of(pages.header()[0], True)
            stored = b"".join(pages.body(page.stored_bytes))
            _, _, longest = _texts_of(_decompressed(stored, page, self.chunk.metadata[_CODEC].value))
        return max(plain_bytes, values * (longest + _BYTES_OF_OFFSET))

    def copy(self, source: ReadAt, target: pa.NativeFile, path: str) -> Struct:
        """Append the pages to another file; returns Parquet's ``ColumnChunk`` for its footer.

        Memory: some MB.

        Args:
            source: The bytes of the file.
            target: The other file.
            path: The file, for messages.

        Raises:
            HoodieCorruptedDataException: The file is cut short, or a page has another checksum, or other pages are
                there than the footer says.
        """
        start = int(target.tell())
        with self._named_damage(path):
            for piece in _checked(_Pages(source, self.start, self.chunk), _width_of(self.leaf)):
                target.write(piece)
        return self.chunk.placed(start)

    def read(self, source: ReadAt, path: str) -> tuple[pa.Buffer, list[StoredPage]]:
        """The bytes of all pages, and the place of each page in them; checked as those of a copy.

        Args:
            source: The bytes of the file.
            path: The file, for messages.

        Raises:
            HoodieCorruptedDataException: See `copy`.
        """
        pages: list[StoredPage] = []
        with self._named_damage(path):
            stored = source(self.chunk.stored_bytes, self.start)
            whole = _Pages(lambda *_: stored, self.start, self.chunk, self.chunk.stored_bytes)
            for _ in _checked(whole, _width_of(self.leaf), pages):
                pass
        return pa.py_buffer(stored), pages

    @contextmanager
    def _named_damage(self, path: str) -> Iterator[None]:
        try:
            yield
        except _DamagedError as problem:
            raise HoodieCorruptedDataException(
                f"{path} is damaged in column {'.'.join(self.path)}: {problem}; restore it from a copy"
            ) from problem


@attrs.frozen(eq=False)
class StoredRowGroup:
    """A row group in its file, to be copied.

    Attributes:
        path: The file.
        number: Its number in the file.
        rows: Its rows.
        columns: Its columns, in the order of the schema.
    """

    path: str
    number: int
    rows: int
    columns: tuple[StoredColumn, ...]

    @property
    def stored_bytes(self) -> int:
        """Bytes of the pages."""
        return sum(column.chunk.stored_bytes for column in self.columns)

    @property
    def plain_bytes(self) -> int:
        """Bytes of the pages before compression."""
        return sum(column.chunk.plain_bytes for column in self.columns)

    @property
    def statistics_bytes(self) -> int:
        """Bytes of the smallest and largest values in the footer."""
        found = [column.chunk.metadata[_STATISTICS].value for column in self.columns if column.chunk.has_statistics]
        return sum(len(one[number].value) for one in found for number in _ENDS if number in one)


def file_form(schema: pa.Schema, options: Mapping[str, Any]) -> pq.FileMetaData:
    """The metadata of a file without rows.

    Args:
        schema: Columns of the file.
        options: Options of `pyarrow.parquet.ParquetWriter`.
    """
    found: list[pq.FileMetaData] = []
    pq.ParquetWriter(pa.BufferOutputStream(), schema, metadata_collector=found, **options).close()
    return found[0]


def row_groups_to_copy(stream: pa.NativeFile, path: str, form: CopiedForm) -> dict[int, StoredRowGroup]:
    """The row groups of a file that can be copied to a file of a form, by their numbers.

    Args:
        stream: The file; read at offsets.
        path: Its path.
        form: The form of the other file.

    Raises:
        HoodieCorruptedDataException: The file does not end in a footer.
    """
    footer = read_footer(stream, path)
    try:
        if not _has_form(footer, form):
            return {}
        leaves = list(leaves_of(form.elements))
        found = {}
        for number, group in enumerate(footer[_FILE_ROW_GROUPS].value.items):
            columns = _columns_to_copy(group, leaves, form.compression, int(stream.size()))
            if columns is not None:
                copied = StoredRowGroup(path, number, int(group[_GROUP_ROWS].value), columns)
                if copied.stored_bytes >= form.min_bytes and _has_known_pages(copied, stream):
                    found[number] = copied
        return found
    except (KeyError, AttributeError, TypeError, UnicodeDecodeError):
        # A footer without what every footer has: whoever decodes the file says what is wrong.
        return {}


def _has_form(footer: Struct, form: CopiedForm) -> bool:
    """Whether a file has the schema, and its footer can be relied on."""
    if not footer.keys() <= _OF_FILES or not _WRITERS.match(footer[_FILE_WRITER].value):
        return False
    if any(order != _BY_TYPE for order in footer[_FILE_ORDERS].value.items):
        return False
    elements = footer[_FILE_SCHEMA].value.items
    if len(elements) != len(form.elements) or elements[0][_ELEMENT_CHILDREN] != form.elements[0][_ELEMENT_CHILDREN]:
        return False
    return all(map(_is_same_element, elements[1:], form.elements[1:]))


def _is_same_element(stored: Struct, wanted: Struct) -> bool:
    """Whether two elements of schemas mean the same."""
    mine, its = _plain_element(stored), _plain_element(wanted)
    if _ELEMENT_LOGICAL not in mine and _ELEMENT_CONVERTED in mine:
        # Older writers have only the converted type, whose meaning is that of the logical type that goes with it.
        its.pop(_ELEMENT_LOGICAL, None)
    return mine == its


def _plain_element(element: Struct) -> Struct:
    """An element without what says nothing: its id, and no children or length."""
    found = {number: field for number, field in element.items() if number != _ELEMENT_ID}
    if _ELEMENT_CHILDREN in found and not found[_ELEMENT_CHILDREN].value:
        del found[_ELEMENT_CHILDREN]
    if _ELEMENT_LENGTH in found and found[_ELEMENT_TYPE].value != _FIXED_LENGTH:
        del found[_ELEMENT_LENGTH]
    return found


def _columns_to_copy(
    group: Struct, leaves: Sequence[Leaf], compression: str, file_bytes: int
) -> tuple[StoredColumn, ...] | None:
    """The columns of a row group; None if one of them has another form."""
    chunks = group[_GROUP_COLUMNS].value.items
    rows = group[_GROUP_ROWS].value
    if not group.keys() <= _OF_GROUPS or len(chunks) != len(leaves) or rows <= 0:
        return None
    found = []
    for chunk, leaf in zip(chunks, leaves, strict=True):
        if not chunk.keys() <= _OF_CHUNKS or path_of(chunk) != leaf.path:
            return None
        metadata = chunk[_CHUNK_METADATA].value
        if not _is_known_column(metadata, leaf, compression, rows):
            return None
        start, column = relative_chunk(metadata)
        if start < 4 or column.stored_bytes <= 0 or start + column.stored_bytes > file_bytes:
            return None
        found.append(StoredColumn(leaf, start, column))
    return tuple(found)


def _is_known_column(metadata: Struct, leaf: Leaf, compression: str, rows: int) -> bool:
    """Whether a chunk has the wanted form, and nothing that is not understood."""
    if not _NEEDED_OF_COLUMNS <= metadata.keys() <= _OF_COLUMNS:
        return False
    if metadata[_TYPE] != leaf.element[_ELEMENT_TYPE] or metadata[_CODEC].value != CODECS.get(compression):
        return False
    if not leaf.is_repeated and metadata[_VALUES].value != rows:
        return False
    if _STATISTICS in metadata:
        statistics = metadata[_STATISTICS].value
        # The first two fields are ranges of an order that readers do not know; they are left out.
        if not statistics.keys() <= _OF_STATISTICS or (
            statistics.keys() & _OLD_ENDS and not statistics.keys() >= set(_ENDS)
        ):
            return False
    kinds = {entry[1].value for entry in metadata[_PAGES].value.items}
    first = metadata[_DICTIONARY_OFFSET].value if _DICTIONARY_OFFSET in metadata else 0
    has_dictionary = 0 < first < metadata[_DATA_OFFSET].value
    if not kinds <= {_DATA_PAGE, _DICTIONARY_PAGE} or (_DICTIONARY_PAGE in kinds) != has_dictionary:
        return False
    return ColumnChunk(metadata, ()).suits(compression)


def _width_of(leaf: Leaf) -> int | None:
    kind = leaf.element[_ELEMENT_TYPE].value
    return int(leaf.element[_ELEMENT_LENGTH].value) if kind == _FIXED_LENGTH else _WIDTHS.get(kind)


def _has_known_pages(group: StoredRowGroup, stream: pa.NativeFile) -> bool:
    """Whether data pages are of the first version and have checksums: footers of Arrow do not tell.

    A page without a checksum would be copied although its bytes were damaged. A writer makes pages of one kind. Only
    record keys may come from another writer, see `StoredColumns`.
    """
    return all(
        _first_page_is_known(column, stream)
        for number, column in enumerate(group.columns)
        if number == 0 or column.path == (RECORD_KEY_META,)
    )


def _first_page_is_known(column: StoredColumn, stream: pa.NativeFile) -> bool:
    def read(count: int, offset: int) -> bytes:
        return bytes(stream.read_at(count, offset))

    start = column.start + column.chunk.values_offset
    try:
        header, _ = _Pages(read, start, column.chunk, _HEADER_PIECE_BYTES).header()
    except _DamagedError:
        return False
    return header[_PAGE_TYPE].value == _DATA_PAGE and _PAGE_CHECKSUM in header


class _DamagedError(Exception):
    """The pages of a column are not what the footer says."""


class _Pages:
    """The pages of a column chunk, one after the other; read in pieces.

    Args:
        source: The bytes of the file.
        start: The offset of the first page.
        chunk: The column.
        piece_bytes: The bytes that are read at a time.
    """

    def __init__(self, source: ReadAt, start: int, chunk: ColumnChunk, piece_bytes: int = _PIECE_BYTES) -> None:
        self.chunk = chunk
        self._piece_bytes = piece_bytes
        self._source = source
        self._at = start
        self._left = chunk.stored_bytes
        self._read = memoryview(b"")

    @property
    def has_more(self) -> bool:
        """Whether the end of the chunk is not reached."""
        return self._left + len(self._read) > 0

    def header(self) -> tuple[Struct, memoryview]:
        """The header of the next page, and its bytes.

        Raises:
            _DamagedError: There is none.
        """
        while True:
            try:
                header, length = read_struct_at(self._read, 0)
            except HoodieCorruptedDataException as error:
                if not self._left or len(self._read) >= _LONGEST_HEADER:
                    raise _DamagedError(f"a page has no header: {error}") from error
                self._read = memoryview(bytes(self._read) + self._next())
            else:
                stored, self._read = self._read[:length], self._read[length:]
                return header, stored

    def body(self, count: int) -> Iterator[memoryview]:
        """The bytes of a page behind its header, in pieces.

        Args:
            count: Their number.

        Raises:
            _DamagedError: There are fewer.
        """
        if not 0 <= count <= self._left + len(self._read):
            raise _DamagedError(f"a page has {count} bytes, more than the column")
        while count:
            if not self._read:
                self._read = memoryview(self._next())
            piece, self._read = self._read[:count], self._read[count:]
            count -= len(piece)
            yield piece

    def _next(self) -> bytes:
        count = min(self._piece_bytes, self._left)
        found = self._source(count, self._at)
        if len(found) != count:
            raise _DamagedError("the file ends within it")
        self._at += count
        self._left -= count
        return found


@attrs.frozen
class _PageHeader:
    """The header of a page.

    Attributes:
        kind: The kind of the page.
        plain_bytes: Bytes of the page before compression.
        stored_bytes: Bytes of the page behind its header.
        checksum: The checksum of the stored bytes; None if there is none.
        values: The number of its values.
        encoding: The encoding of its values.
    """

    kind: int
    plain_bytes: int
    stored_bytes: int
    checksum: int | None
    values: int
    encoding: int

    @classmethod
    def of(cls, header: Struct, is_dictionary: bool) -> _PageHeader:
        """The header as it was read; a page's checksum does not cover it, so every field is looked at.

        Raises:
            _DamagedError: A field is missing, not known, or of another type.
        """
        kind, place = (_DICTIONARY_PAGE, _PAGE_DICTIONARY) if is_dictionary else (_DATA_PAGE, _PAGE_DATA)
        _check_fields(header, {_PAGE_TYPE: I32, _PAGE_PLAIN_BYTES: I32, _PAGE_BYTES: I32, place: STRUCT}, _MAY_BE)
        if header[_PAGE_TYPE].value != kind:
            raise _DamagedError(f"it has a page of kind {header[_PAGE_TYPE].value}")
        described: Struct = header[place].value
        if is_dictionary:
            _check_fields(described, {_PAGE_VALUES: I32, _PAGE_ENCODING: I32}, _MAY_BE_OF_DICTIONARIES)
        else:
            levels = dict.fromkeys(_PAGE_LEVELS, I32)
            _check_fields(described, {_PAGE_VALUES: I32, _PAGE_ENCODING: I32, **levels}, _MAY_BE_OF_DATA)
            if any(described[number].value not in _ENCODINGS_OF_LEVELS for number in _PAGE_LEVELS):
                raise _DamagedError("a page has levels of an unknown encoding")
        checksum = header.get(_PAGE_CHECKSUM)
        return cls(
            kind,
            header[_PAGE_PLAIN_BYTES].value,
            header[_PAGE_BYTES].value,
            None if checksum is None else checksum.value & 0xFFFFFFFF,
            described[_PAGE_VALUES].value,
            described[_PAGE_ENCODING].value,
        )


def _check_fields(found: Struct, needed: Mapping[int, int], may_be: Mapping[int, Collection[int]]) -> None:
    """Refuse a struct without all needed fields, or with fields that are not known.

    Args:
        found: The struct.
        needed: The number of each needed field -> its type.
        may_be: The number of each other field that may be there -> its types.
    """
    if not needed.keys() <= found.keys():
        raise _DamagedError("a page has an incomplete header")
    for number, field in found.items():
        if field.type != needed.get(number) and field.type not in may_be.get(number, ()):
            raise _DamagedError(f"the header of a page has an unknown field: {number}")


def _checked(pages: _Pages, width: int | None, passed: list[StoredPage] | None = None) -> Iterator[memoryview]:
    """The bytes of all pages; each is checked behind its last piece.

    Args:
        pages: The pages.
        width: Bytes of each value; None for texts.
        passed: A list to which the places of the pages are added.

    Raises:
        _DamagedError: A page has another checksum, or the pages are others than the footer says.
    """
    metadata = pages.chunk.metadata
    expects_dictionary = _DICTIONARY_OFFSET in metadata
    values = offset = plain_bytes = 0
    counts: Counter[tuple[int, int]] = Counter()
    while pages.has_more:
        header, stored = pages.header()
        page = _PageHeader.of(header, expects_dictionary)
        yield stored
        count = 0 if expects_dictionary else page.values
        if passed is not None:
            sizes = (len(stored) + page.stored_bytes, len(stored) + page.plain_bytes)
            passed.append(StoredPage(offset, *sizes, count))
        offset += len(stored) + page.stored_bytes
        plain_bytes += len(stored) + page.plain_bytes
        counts[page.kind, page.encoding] += 1
        values += count
        found, kept = 0, []
        for piece in pages.body(page.stored_bytes):
            found = zlib.crc32(piece, found)
            if expects_dictionary or page.checksum is None:
                kept.append(piece)
            yield piece
        if page.checksum is None:
            _decompressed(b"".join(kept), page, metadata[_CODEC].value)
        elif found != page.checksum:
            raise _DamagedError("a page has another checksum than its header says")
        if expects_dictionary:
            if offset != pages.chunk.values_offset:
                raise _DamagedError("its first values are at another place than the footer says")
            _check_dictionary(b"".join(kept), page, metadata[_CODEC].value, width)
        expects_dictionary = False
    if values != metadata[_VALUES].value:
        raise _DamagedError(f"it has {values} values, and {metadata[_VALUES].value} by the footer")
    if plain_bytes != pages.chunk.plain_bytes:
        raise _DamagedError(f"it has {plain_bytes} bytes, and {pages.chunk.plain_bytes} by the footer")
    told = {(entry[1].value, entry[2].value): entry[3].value for entry in metadata[_PAGES].value.items}
    if counts != told:
        raise _DamagedError(f"it has other pages than its footer says: {dict(counts)}, not {told}")


def _check_dictionary(stored: bytes, page: _PageHeader, codec: int, width: int | None) -> None:
    """Refuse a dictionary with another number of entries than its header says: nothing else tells it.

    Args:
        stored: Its bytes.
        page: Its header.
        codec: Parquet's number of the codec.
        width: See `_checked`.
    """
    plain = _decompressed(stored, page, codec)
    if width is not None:
        entries, rest = divmod(len(plain), width)
        at = len(plain) - rest
    else:
        entries, at, _ = _texts_of(plain)
    if at != len(plain) or entries != page.values:
        raise _DamagedError(f"its dictionary has {entries} entries, and {page.values} by its header")


def _texts_of(plain: bytes) -> tuple[int, int, int]:
    """The number of texts in a dictionary, the place behind the last one, and the bytes of the longest one."""
    count = at = longest = 0
    while at < len(plain):
        length = int.from_bytes(plain[at : at + _BYTES_OF_OFFSET], "little")
        at += _BYTES_OF_OFFSET + length
        longest = max(longest, length)
        count += 1
    return count, at, longest


def _decompressed(stored: bytes, page: _PageHeader, codec: int) -> bytes:
    """The bytes of a page before compression.

    Args:
        stored: Its bytes.
        page: Its header.
        codec: Parquet's number of the codec.

    Raises:
        _DamagedError: They cannot be decompressed to as many bytes as the header says.
    """
    plain: bytes = stored
    if codec:
        try:
            plain = pa.Codec(_CODEC_NAMES[codec]).decompress(stored, page.plain_bytes, asbytes=True)
        except (pa.ArrowException, OSError) as error:
            raise _DamagedError(f"a page cannot be decompressed: {error}") from error
    if len(plain) != page.plain_bytes:
        raise _DamagedError(f"a page has {len(plain)} bytes, and {page.plain_bytes} by its header")
    return plain
