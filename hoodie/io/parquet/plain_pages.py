"""Reader of pages with values of one length, as matrices of bytes, without making strings or columns of them.

In Parquet's plain encoding each string follows its length, so strings of one length form a matrix::

    page header | levels | 24 00 00 00 "c0ffee..." 24 00 00 00 "decade..." ...

Numbers follow each other without lengths. The levels show which values are null; in a page without nulls they are one
run of ones. Pages of any other form are left to pyarrow: nulls, dictionaries, values of several lengths, the second
version of data pages, other codecs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.common.util.crc32 import crc32
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.parquet.compact_protocol import Struct, read_struct_at

StoredValues: TypeAlias = npt.NDArray[np.uint8]
"""A matrix with a row for each value: of a string its length in `LENGTH_BYTES` bytes, the lowest first, then its bytes.
"""
Rows: TypeAlias = npt.NDArray[np.int64]
LENGTH_BYTES = 4

# Without gzip: pa.Codec does not notice that the data has fewer bytes than a page announces.
_CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd"}
_DATA_PAGE, _PLAIN, _RLE = 0, 0, 3
_PAGE_TYPE, _PLAIN_BYTES, _STORED_BYTES, _CHECKSUM, _DATA_PAGE_HEADER = 1, 2, 3, 4, 5
_VALUES, _ENCODING, _LEVEL_ENCODING = 1, 2, 3
_FIRST_BYTES = 2 << 20
"""The bytes of a column chunk that are read first: usually its first page, which shows the form of the others."""
_HEADER_BYTES = 1 << 16
"""A longer page header is damaged."""
_MOST_BYTES_OF_PAGE = (1 << 31) - 1
"""Parquet has 32 bits for the numbers of a page header; Thrift has no limit."""
_SMALL_PAGES = 16
"""If there are more pages, they must have `_ROWS_OF_PAGE` values on average: pyarrow is faster at small pages."""
_ROWS_OF_PAGE = 1000


class OtherPageForm(Exception):
    """A column chunk has a page of another form, or is damaged. pyarrow reads it then, or reports the damage."""


def iter_plain_pages(
    stream: pa.NativeFile, chunk: pq.ColumnChunkMetaData, length: int, is_nullable: bool
) -> Iterator[StoredValues]:
    """The values of a top-level column of strings in one row group, page by page.

    Memory: the compressed pages of the chunk, and one page.

    Args:
        stream: The file.
        chunk: The column chunk, of byte arrays.
        length: The number of bytes of each value.
        is_nullable: Whether the column may hold nulls.

    Yields:
        The values of each page, in the order of the rows.

    Raises:
        OtherPageForm: The values are not stored in this form; discard the values of earlier pages.
        OSError: Storage failed.
    """
    for _, values in _iter_pages(stream, chunk, LENGTH_BYTES + length, is_nullable, None):
        _check_lengths(values, length)
        yield values


def take_strings(
    stream: pa.NativeFile,
    chunk: pq.ColumnChunkMetaData,
    length: int,
    is_nullable: bool,
    places: Rows,
    stored: pa.Buffer | None = None,
) -> StoredValues:
    """The values at some places of a top-level column of strings in one row group; other pages are not decompressed.

    Args:
        stream: See `iter_plain_pages`.
        chunk: See `iter_plain_pages`.
        length: See `iter_plain_pages`.
        is_nullable: See `iter_plain_pages`.
        places: Rows of the row group from 0, ascending.
        stored: The bytes of the chunk, if they were read; see `stored_bytes`.

    Raises:
        OtherPageForm: See `iter_plain_pages`.
        OSError: Storage failed.
    """
    found = []
    for first, values in _iter_pages(stream, chunk, LENGTH_BYTES + length, is_nullable, places, stored):
        _check_lengths(values, length)
        found.append(_rows_of(values, first, places))
    return np.concatenate(found)


def stored_bytes(stream: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> pa.Buffer | None:
    """The bytes of a column chunk without dictionary; None if the file has other bounds than the chunk says.

    Args:
        stream: See `iter_plain_pages`.
        chunk: See `iter_plain_pages`.

    Raises:
        OSError: Storage failed.
    """
    start, size = chunk.data_page_offset, chunk.total_compressed_size
    if chunk.has_dictionary_page or chunk.file_path or start < 0 or size < 0 or start + size > stream.size():
        return None
    found = pa.py_buffer(stream.read_at(size, start))
    return found if found.size == size else None


def take_numbers(
    stream: pa.NativeFile, chunk: pq.ColumnChunkMetaData, width: int, is_nullable: bool, places: Rows
) -> StoredValues:
    """The values at some places of a top-level column of numbers in one row group; see `take_strings`.

    Args:
        stream: See `iter_plain_pages`.
        chunk: The column chunk, of a type whose values have one width.
        width: The number of bytes of each value.
        is_nullable: See `iter_plain_pages`.
        places: See `take_strings`.

    Raises:
        OtherPageForm: See `iter_plain_pages`.
        OSError: Storage failed.
    """
    pages = _iter_pages(stream, chunk, width, is_nullable, places)
    return np.concatenate([_rows_of(values, first, places) for first, values in pages])


def _rows_of(values: StoredValues, first: int, places: Rows) -> StoredValues:
    """The values of a page that are at the given places of the row group."""
    low, high = np.searchsorted(places, [first, first + len(values)])
    return values[places[low:high] - first]


def _check_lengths(values: StoredValues, length: int) -> None:
    if (values[:, :LENGTH_BYTES].view("<u4") != length).any():
        raise OtherPageForm


def _iter_pages(
    stream: pa.NativeFile,
    chunk: pq.ColumnChunkMetaData,
    width: int,
    is_nullable: bool,
    places: Rows | None,
    stored: pa.Buffer | None = None,
) -> Iterator[tuple[int, StoredValues]]:
    """The first row and the values of each page; with places, of the pages that hold one of them.

    Raises:
        OtherPageForm: The values have another number of bytes; or see `iter_plain_pages`.
        OSError: Storage failed.
    """
    if chunk.has_dictionary_page or chunk.compression not in _CODECS or chunk.file_path:
        raise OtherPageForm
    start, size = chunk.data_page_offset, chunk.total_compressed_size
    if start < 0 or size < 0 or start + size > stream.size():
        raise OtherPageForm
    codec_name = _CODECS[chunk.compression]
    codec = None if codec_name is None else pa.Codec(codec_name)
    data = _ChunkBytes(stream, start, size, stored, reads_all=places is None)
    last = chunk.num_values - 1 if places is None else int(places[-1])
    at = rows = pages = 0
    while rows <= last:
        header, header_bytes = _read_header(data.slice(at, _HEADER_BYTES))
        at += header_bytes
        count, plain_bytes, page_bytes = _checked_sizes(header)
        if not 0 <= page_bytes <= size - at or rows + count > chunk.num_values:
            raise OtherPageForm
        pages += 1
        if pages > _SMALL_PAGES and rows + count < pages * _ROWS_OF_PAGE:
            raise OtherPageForm
        if places is None or np.searchsorted(places, rows) < np.searchsorted(places, rows + count):
            levels = _levels_without_nulls(count) if is_nullable else b""
            if plain_bytes != len(levels) + count * width:
                raise OtherPageForm
            page = data.slice(at, page_bytes)
            if _CHECKSUM in header and crc32(page) != header[_CHECKSUM].value & 0xFFFFFFFF:
                raise OtherPageForm
            body = _decompressed(codec, page, plain_bytes)
            if memoryview(body).cast("B")[: len(levels)] != levels:
                raise OtherPageForm
            yield rows, np.frombuffer(body, dtype=np.uint8, offset=len(levels)).reshape(count, width)
        at += page_bytes
        rows += count
    if places is None and at != size:
        raise OtherPageForm


class _ChunkBytes:
    """The bytes of a column chunk, in two reads: the second one is needed only if the first page has a known form.

    A local file is read in steps of some pages, which need less memory. If only some pages are wanted, it is read
    where they are.

    Args:
        stream: The file. Other threads may read it too, so its position is not used.
        start: The offset of the chunk in the file.
        size: The number of bytes of the chunk.
        stored: These bytes, if they were read.
        reads_all: Whether all pages are wanted.
    """

    def __init__(
        self, stream: pa.NativeFile, start: int, size: int, stored: pa.Buffer | None = None, *, reads_all: bool = True
    ) -> None:
        self._stream = stream
        self._start = start
        self._size = size
        self._first = 0
        # Each read of an object store waits for an answer.
        self._step = size if not isinstance(stream, pa.OSFile) else _FIRST_BYTES if reads_all else 0
        self._data = self._read(0, self._step and _FIRST_BYTES) if stored is None else stored

    def slice(self, at: int, count: int) -> pa.Buffer:
        """Bytes from an offset on, up to the end of the chunk. Earlier bytes must not be asked for again."""
        count = min(count, self._size - at)
        if at + count > self._first + self._data.size:
            self._first, self._data = at, self._read(at, max(count, self._step))
        if at + count > self._first + self._data.size:
            raise OtherPageForm  # the file has become shorter
        return self._data.slice(at - self._first, count)

    def _read(self, at: int, count: int) -> pa.Buffer:
        return pa.py_buffer(self._stream.read_at(min(count, self._size - at), self._start + at))


def _read_header(data: pa.Buffer) -> tuple[Struct, int]:
    try:
        return read_struct_at(memoryview(data), 0)
    except HoodieCorruptedDataException as error:
        raise OtherPageForm from error


def _checked_sizes(header: Struct) -> tuple[int, int, int]:
    """The values of a page, its bytes, and its bytes as compressed."""
    try:
        data_page: Struct = header[_DATA_PAGE_HEADER].value
        form = (header[_PAGE_TYPE].value, data_page[_ENCODING].value, data_page[_LEVEL_ENCODING].value)
        sizes = (data_page[_VALUES].value, header[_PLAIN_BYTES].value, header[_STORED_BYTES].value)
    except (KeyError, AttributeError, TypeError) as error:
        raise OtherPageForm from error
    if form != (_DATA_PAGE, _PLAIN, _RLE) or not all(isinstance(size, int) for size in sizes):
        raise OtherPageForm
    if sizes[0] <= 0 or sizes[1] > _MOST_BYTES_OF_PAGE:
        raise OtherPageForm
    return sizes


def _levels_without_nulls(count: int) -> bytes:
    """The levels of a page without nulls: their length, then one run of ones."""
    run = bytearray()
    number = count << 1
    while number > 127:
        run.append(number & 127 | 128)
        number >>= 7
    run += bytes([number, 1])
    return len(run).to_bytes(4, "little") + run


def _decompressed(codec: pa.Codec | None, stored: pa.Buffer, size: int) -> pa.Buffer:
    """The decompressed bytes of a page, which must have the given size."""
    if codec is None:
        if stored.size != size:
            raise OtherPageForm
        return stored
    if codec.name == "snappy" and _announced_bytes(stored) != size:
        raise OtherPageForm
    try:
        return codec.decompress(stored, size)
    except (pa.ArrowException, OSError) as error:
        raise OtherPageForm from error


def _announced_bytes(stored: pa.Buffer) -> int:
    """The length that Snappy's data announces at its start: pa.Codec does not compare it with the wanted one."""
    length = 0
    for number, byte in enumerate(memoryview(stored).cast("B")[:5]):
        length |= (byte & 127) << (7 * number)
        if byte < 128:
            return length
    raise OtherPageForm
