"""Split a log file into its blocks.

A block is

    magic "#HUDI#" | int64 size | int32 format version | int32 type | headers | int64 content length | content | footers
    | int64 reverse pointer

where the size counts the bytes after it, and the reverse pointer is the size plus the magic's length. Headers and
footers are an int32 count, then for each an int32 key, an int32 length and UTF-8 text. All numbers are big endian.

A writer that dies leaves a torn block. A block is complete when it ends within the file, its two lengths agree, and the
magic or the end of the file follows. Otherwise everything up to the next magic is one CORRUPT block, and reading goes
on after it.

Hudi: org.apache.hudi.common.table.log.HoodieLogFileReader.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from hoodie.exception import HoodieCorruptedDataException, HoodieNotSupportedException
from hoodie.io.log.log_block import HoodieLogBlock, HoodieLogBlockType

MAGIC = b"#HUDI#"
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_FORMAT_VERSIONS = frozenset({1, 2})
_BLOCK_TYPES = frozenset(block_type.value for block_type in HoodieLogBlockType)


def read_log_blocks(data: bytes, path: str) -> Iterator[HoodieLogBlock]:
    """All blocks of a log file, in order.

    A file that ends within a magic ends before it. A torn block has the type `HoodieLogBlockType.CORRUPT`.

    Args:
        data: The file's content.
        path: The file, for error messages.

    Raises:
        HoodieCorruptedDataException: It is not a log file, or a complete block contradicts itself.
        HoodieNotSupportedException: A block has a version or type that hoodie does not know.
    """
    if not data.startswith(MAGIC[: len(data)]):
        raise HoodieCorruptedDataException(f"Cannot read {path}: it is not a log file (it begins with {data[:6]!r})")
    position = 0
    while position + len(MAGIC) <= len(data):
        end = _end_of_whole_block(data, position)
        if end is None:
            end = data.find(MAGIC, position + len(MAGIC))
            end = len(data) if end < 0 else end
            yield HoodieLogBlock(HoodieLogBlockType.CORRUPT, {}, data[position:end], path, position)
        else:
            yield _parse_block(data, position, end, path)
        position = end


def _end_of_whole_block(data: bytes, position: int) -> int | None:
    start = position + len(MAGIC) + _LONG.size
    if start > len(data):
        return None
    size = _LONG.unpack_from(data, position + len(MAGIC))[0]
    end = int(start + size)
    if size < _LONG.size or end > len(data):
        return None
    reverse_pointer = _LONG.unpack_from(data, end - _LONG.size)[0]
    follower = data[end : end + len(MAGIC)]
    if reverse_pointer != size + len(MAGIC) or not MAGIC.startswith(follower):
        return None
    return end


def _parse_block(data: bytes, position: int, end: int, path: str) -> HoodieLogBlock:
    fields = _Fields(data, position + len(MAGIC) + _LONG.size, end - _LONG.size)
    try:
        version, ordinal = fields.read_int(), fields.read_int()
        if version not in _FORMAT_VERSIONS:
            raise HoodieNotSupportedException(
                f"Cannot read {path}: the block at byte {position} has log format version {version}"
            )
        if ordinal not in _BLOCK_TYPES:
            raise HoodieNotSupportedException(f"Cannot read {path}: the block at byte {position} has type {ordinal}")
        headers = fields.read_texts()
        content = fields.read_bytes(fields.read_long())
        fields.read_texts()
    except ValueError as error:
        raise HoodieCorruptedDataException(
            f"Cannot read {path}: the block at byte {position} is damaged: {error}"
        ) from error
    return HoodieLogBlock(HoodieLogBlockType(ordinal), headers, content, path, position)


class _Fields:
    """Reads the fields of one block, never beyond its end."""

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self._data = data
        self._position = position
        self._end = end

    def read_bytes(self, length: int) -> bytes:
        if not 0 <= length <= self._end - self._position:
            raise ValueError(f"a length of {length} where {self._end - self._position} bytes are left")
        start = self._position
        self._position += length
        return self._data[start : self._position]

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
