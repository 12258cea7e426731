"""A reader that splits a log file into its blocks.

A block is

    magic "#HUDI#" | int64 size | int32 format version | int32 type | headers | int64 content length | content | footers
    | int64 reverse pointer

where the size counts the bytes after it, and the reverse pointer is the size plus the magic's length. Headers and
footers are an int32 count, then for each an int32 key, an int32 length and UTF-8 text. All numbers are big endian.

A writer that dies leaves a torn block. A block is complete if it ends within the file, its two lengths agree, and it is
followed by a magic, by the end of the file, or by the end of the bytes of a commit. Otherwise everything up to the next
magic is one CORRUPT block, and reading continues after it.

Hudi: org.apache.hudi.common.table.log.HoodieLogFileReader.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import attrs
import pyarrow as pa

from hoodie.common.fs.pending_overwrite import refuse_overwritten
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieMissingFileException,
    HoodieNotSupportedException,
)
from hoodie.io.log.log_block import HoodieLogBlock, HoodieLogBlockType, StoredLogBlock
from hoodie.storage.byte_ranges import named_read_errors, read_range
from hoodie.storage.listed_files import open_listed_file
from hoodie.storage.storage import HoodieStorage

MAGIC = b"#HUDI#"
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_FORMAT_VERSIONS = frozenset({1, 2})
_BLOCK_TYPES = frozenset(block_type.value for block_type in HoodieLogBlockType)
_WINDOW_BYTES = 1 << 17
"""The least that is read at a time during the search for blocks."""
_SMALL_CONTENT_BYTES = 1 << 16
"""A content of at most this many bytes stays in memory if it was read together with the headers."""


def read_log_blocks(data: bytes, path: str) -> Iterator[HoodieLogBlock]:
    """All blocks of a log file, in order.

    A file that ends within a magic is taken to end before it. A torn block has the type `HoodieLogBlockType.CORRUPT`.

    Args:
        data: The file's content.
        path: The file, for error messages.

    Raises:
        HoodieCorruptedDataException: It is not a log file, or a complete block contradicts itself.
        HoodieNotSupportedException: A block has a version or type that hoodie does not know.
    """
    reader = HoodieLogFileReader(pa.BufferReader(data), path)
    for block in reader.stored_blocks():
        yield reader.read(block)


@contextmanager
def open_log_file(storage: HoodieStorage, path: str, size_bytes: int | None = None) -> Iterator[HoodieLogFileReader]:
    """Open a log file; a context manager that closes it.

    Args:
        storage: The storage of the file.
        path: Its full path.
        size_bytes: Its size, if it is known from a listing: a small file is then read by one request.

    Raises:
        HoodieMissingFileException: There is no such file.
        HoodieIOException: Storage failed.
    """
    try:
        stream = open_listed_file(storage, path, size_bytes)
    except FileNotFoundError as error:
        refuse_overwritten(storage, path)
        raise HoodieMissingFileException(
            f"log file {path} is missing; if a clean, rollback or restore removed it meanwhile, load the table again "
            "(hoodie.cleaner.commits.retained keeps files for longer reads), otherwise restore the file from a copy"
        ) from error
    with stream:
        yield HoodieLogFileReader(stream, path)


class HoodieLogFileReader:
    """Reader of the blocks of one open log file.

    The file is read by ranges: the contents of large blocks are skipped until they are asked for.

    Memory: the headers of one block, and 256 KiB.

    Args:
        stream: The file.
        path: Its full path, for messages.

    Hudi: org.apache.hudi.common.table.log.HoodieLogFileReader.
    """

    def __init__(self, stream: pa.NativeFile, path: str) -> None:
        self._path = path
        self._bytes = _FileBytes(stream, path)

    @property
    def size_bytes(self) -> int:
        """The length of the file."""
        return self._bytes.size

    def stored_blocks(self, ends: Collection[int] = ()) -> Iterator[StoredLogBlock]:
        """All blocks in order, torn ones included; see `read_log_blocks`.

        Args:
            ends: The ends of the bytes of commits: a block that ends there is complete, whatever follows.

        Raises:
            HoodieIOException: Storage failed.
            HoodieException: See `read_log_blocks`.
        """
        size = self._bytes.size
        begin = self._bytes.read(0, min(size, len(MAGIC)))
        if begin != MAGIC[: len(begin)]:
            raise HoodieCorruptedDataException(
                f"Cannot read {self._path}: it is not a log file (it begins with {begin!r})"
            )
        position, has_torn_blocks = 0, False
        while position + len(MAGIC) <= size:
            end = self._end_of_whole_block(position, ends, reads_ahead=not has_torn_blocks)
            if end is None:
                has_torn_blocks = True
                end = self._bytes.find_magic(position + len(MAGIC))
                yield StoredLogBlock(HoodieLogBlockType.CORRUPT, {}, self._path, position, position, end - position)
            else:
                yield self._parse_block(position, end)
            position = end

    def read(self, block: StoredLogBlock) -> HoodieLogBlock:
        """A block with its content.

        Args:
            block: One of the blocks of this file.

        Raises:
            HoodieIOException: Storage failed.
        """
        if block.content is not None:
            return block.loaded(block.content)
        if block.content_bytes <= _SMALL_CONTENT_BYTES:
            return block.loaded(self._bytes.read(block.content_offset, block.content_bytes))
        return block.loaded(self._bytes.fetch(block.content_offset, block.content_bytes))

    def _end_of_whole_block(self, position: int, ends: Collection[int], *, reads_ahead: bool) -> int | None:
        start = position + len(MAGIC) + _LONG.size
        if start > self._bytes.size:
            return None
        size = _LONG.unpack(self._bytes.read(position + len(MAGIC), _LONG.size))[0]
        end = int(start + size)
        if size < _LONG.size or end > self._bytes.size:
            return None
        # Includes the number of footers, 0 in all known blocks, so that it is in memory, too.
        start = end - _LONG.size - _INT.size
        tail = self._bytes.read(start, min(end + len(MAGIC), self._bytes.size) - start, ahead=reads_ahead)
        reverse_pointer = _LONG.unpack_from(tail, _INT.size)[0]
        if reverse_pointer != size + len(MAGIC):
            return None
        return end if end in ends or MAGIC.startswith(tail[_INT.size + _LONG.size :]) else None

    def _parse_block(self, position: int, end: int) -> StoredLogBlock:
        fields = _Fields(self._bytes, position + len(MAGIC) + _LONG.size, end - _LONG.size)
        try:
            version, ordinal = fields.read_int(), fields.read_int()
            if version not in _FORMAT_VERSIONS:
                raise HoodieNotSupportedException(
                    f"Cannot read {self._path}: the block at byte {position} has log format version {version}"
                )
            if ordinal not in _BLOCK_TYPES:
                raise HoodieNotSupportedException(
                    f"Cannot read {self._path}: the block at byte {position} has type {ordinal}"
                )
            headers = fields.read_texts()
            content_bytes = fields.read_long()
            content_offset = fields.pass_over(content_bytes)
            fields.read_texts()
        except ValueError as error:
            raise HoodieCorruptedDataException(
                f"Cannot read {self._path}: the block at byte {position} is damaged: {error}"
            ) from error
        block = StoredLogBlock(
            HoodieLogBlockType(ordinal), headers, self._path, position, content_offset, content_bytes
        )
        if content_bytes > _SMALL_CONTENT_BYTES:
            return block
        return attrs.evolve(block, content=self._bytes.held(content_offset, content_bytes))


class _FileBytes:
    """Reads a file by ranges, and keeps the last two ranges: one at the head of a block, one at its end."""

    def __init__(self, stream: pa.NativeFile, path: str) -> None:
        self._stream = stream
        self._path = path
        self._windows: deque[tuple[int, bytes]] = deque(maxlen=2)
        with named_read_errors(path):
            self.size = int(stream.size())

    def held(self, offset: int, count: int) -> bytes | None:
        """Bytes of the file, if they are in memory."""
        for start, window in self._windows:
            if start <= offset and offset + count <= start + len(window):
                return window[offset - start : offset - start + count]
        return None

    def read(self, offset: int, count: int, *, ahead: bool = True) -> bytes:
        """Bytes of the file, which must exist; more bytes are read ahead and kept."""
        found = self.held(offset, count)
        if found is not None:
            return found
        if not ahead:
            return self.fetch(offset, count)
        self._windows.append((offset, self.fetch(offset, min(max(count, _WINDOW_BYTES), self.size - offset))))
        return self._windows[-1][1][:count]

    def fetch(self, offset: int, count: int) -> bytes:
        """Bytes of the file, which must exist, from storage."""
        return read_range(self._stream, self._path, offset, count)

    def find_magic(self, offset: int) -> int:
        """The offset of the next magic; the end of the file if there is none."""
        while offset + len(MAGIC) <= self.size:
            self.read(offset, len(MAGIC))
            for start, window in self._windows:
                if start <= offset and offset + len(MAGIC) <= start + len(window):
                    found = window.find(MAGIC, offset - start)
                    if found >= 0:
                        return start + found
                    offset = start + len(window) - len(MAGIC) + 1
                    break
        return self.size


class _Fields:
    """Reader of the fields of one block, never beyond its end."""

    def __init__(self, data: _FileBytes, position: int, end: int) -> None:
        self._data = data
        self._position = position
        self._end = end

    def pass_over(self, length: int) -> int:
        """Skip bytes; returns their offset."""
        if not 0 <= length <= self._end - self._position:
            raise ValueError(f"a length of {length} where {self._end - self._position} bytes are left")
        start = self._position
        self._position += length
        return start

    def read_bytes(self, length: int) -> bytes:
        return self._data.read(self.pass_over(length), length)

    def read_int(self) -> int:
        return int(_INT.unpack(self.read_bytes(_INT.size))[0])

    def read_long(self) -> int:
        return int(_LONG.unpack(self.read_bytes(_LONG.size))[0])

    def read_texts(self) -> dict[int, str]:
        count = self.read_int()
        if not 0 <= count <= self._end - self._position:
            raise ValueError(f"{count} headers")
        texts = {}
        for _ in range(count):
            key = self.read_int()
            texts[key] = self.read_bytes(self.read_int()).decode("utf-8")
        return texts
