"""The end of an HFile, and its file info: short messages of protocol buffers.

The trailer has 4096 bytes: magic, varint length, message, zeros, and the version in the last four bytes: the minor one
in the first byte, the major one in the others. The file info is a block with ``PBUF``, varint length, message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Self

import attrs

from hoodie.exception import HoodieCorruptedDataException, HoodieNotSupportedException
from hoodie.io.hfile.block_codec import HFileCompression, unsupported_codec

TRAILER_BYTES = 4096
"""The length of the trailer."""
HBASE_MINOR_VERSION = 3
"""The minor version of HBase 2.4; Hudi's own writer writes 0, as HBase 1 did."""
_MAGIC = b'TRABLK"$'
_MAJOR_VERSION = 3
_VERSION = struct.Struct(">I")
_COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_NO_OFFSET = (1 << 64) - 1
"""-1, if there is no data block."""
_PROTOBUF_MAGIC = b"PBUF"
_VARINT, _BYTES = 0, 2
"""Wire types of protocol buffers."""
_ENCRYPTION_KEY = 13
_FIXED_BYTES = {1: 8, 5: 4}
_MAX_VARINT_BYTES = 10


@attrs.frozen
class HFileTrailer:
    """The trailer of an HFile.

    Attributes:
        file_info_offset: The offset of the block of the file info.
        load_on_open_offset: The offset of the root of the index; all data blocks are before it.
        data_index_bytes: The length of all blocks of the data index before compression, without headers.
        uncompressed_bytes: The length of the whole file before compression; 0 if its writer does not store it.
        data_index_count: The number of entries in the root of the index.
        meta_index_count: The number of meta blocks.
        entry_count: The number of entries of the file.
        data_index_levels: 1 if the root of the index names data blocks, 2 if it names blocks of the index that do, ...
        first_data_block_offset: The offset of the first data block; None if there is none.
        last_data_block_offset: The offset of the last data block; None if there is none.
        compression: The codec of all blocks.
        minor_version: `HBASE_MINOR_VERSION`, or 0.
    """

    file_info_offset: int
    load_on_open_offset: int
    data_index_bytes: int
    uncompressed_bytes: int
    data_index_count: int
    meta_index_count: int
    entry_count: int
    data_index_levels: int
    first_data_block_offset: int | None
    last_data_block_offset: int | None
    compression: HFileCompression
    minor_version: int = HBASE_MINOR_VERSION

    @classmethod
    def parse(cls, data: bytes, file_bytes: int, source: str) -> Self:
        """The trailer of a file.

        Args:
            data: The last `TRAILER_BYTES` bytes of the file.
            file_bytes: The length of the file.
            source: The trailer's place and file, for messages.

        Raises:
            HoodieCorruptedDataException: It is not a trailer, or it contradicts itself or the length of the file.
            HoodieNotSupportedException: The file has another version of the format, a codec that hoodie does not have,
                or is encrypted.
        """
        if len(data) != TRAILER_BYTES or not data.startswith(_MAGIC):
            raise HoodieCorruptedDataException(
                f"Cannot read {source}: it begins with {data[: len(_MAGIC)]!r}, so it is not the end of an HFile, or "
                "the file is cut short"
            )
        version = _VERSION.unpack_from(data, TRAILER_BYTES - _VERSION.size)[0]
        if version & 0xFFFFFF != _MAJOR_VERSION:
            raise HoodieNotSupportedException(
                f"Cannot read {source}: version {version & 0xFFFFFF} of HFiles is not supported; Hudi writes version 3"
            )
        try:
            length, start = _parse_varint(data, len(_MAGIC))
            if length > TRAILER_BYTES - _VERSION.size - start:
                raise ValueError(f"a length of {length}")
            fields = dict(_parse_fields(data[start : start + length]))
            numbers = {key: value for key, value in fields.items() if isinstance(value, int)}
        except ValueError as error:
            raise HoodieCorruptedDataException(f"Cannot read {source}: it is damaged: {error}") from error
        if fields.get(_ENCRYPTION_KEY):
            raise HoodieNotSupportedException(f"Cannot read {source}: the file is encrypted")
        codec = numbers.get(12, HFileCompression.NONE.value)
        if codec not in list(HFileCompression):
            raise HoodieNotSupportedException(f"Cannot read {source}: the codec {codec} is unknown")
        if HFileCompression(codec) not in (HFileCompression.GZ, HFileCompression.NONE):
            raise unsupported_codec(HFileCompression(codec), f"the blocks that {source} tells of")
        first, last = (numbers.get(key, _NO_OFFSET) for key in (9, 10))
        trailer = cls(
            file_info_offset=numbers.get(1, 0),
            load_on_open_offset=numbers.get(2, 0),
            data_index_bytes=numbers.get(3, 0),
            uncompressed_bytes=numbers.get(4, 0),
            data_index_count=numbers.get(5, 0),
            meta_index_count=numbers.get(6, 0),
            entry_count=numbers.get(7, 0),
            data_index_levels=numbers.get(8, 1),
            first_data_block_offset=None if first == _NO_OFFSET else first,
            last_data_block_offset=None if last == _NO_OFFSET else last,
            compression=HFileCompression(codec),
            minor_version=version >> 24,
        )
        trailer._check(file_bytes - TRAILER_BYTES, source)
        return trailer

    def _check(self, end: int, source: str) -> None:
        """Raise if an offset is impossible. All blocks end before the trailer."""
        first, last = self.first_data_block_offset, self.last_data_block_offset
        is_empty = self.entry_count == 0
        if not (
            self.load_on_open_offset <= self.file_info_offset < end
            and 1 <= self.data_index_levels <= 32
            and (is_empty or (first is not None and last is not None and first <= last < self.load_on_open_offset))
        ):
            raise HoodieCorruptedDataException(
                f"Cannot read {source}: it contradicts itself, or the file's length of {end + TRAILER_BYTES} bytes: "
                f"{self}"
            )

    def encode(self) -> bytes:
        """The trailer's bytes, as HBase 2.4 writes them."""
        numbers = (
            self.file_info_offset,
            self.load_on_open_offset,
            self.data_index_bytes,
            self.uncompressed_bytes,
            self.data_index_count,
            self.meta_index_count,
            self.entry_count,
            self.data_index_levels,
            _NO_OFFSET if self.first_data_block_offset is None else self.first_data_block_offset,
            _NO_OFFSET if self.last_data_block_offset is None else self.last_data_block_offset,
        )
        message = b"".join(_number_field(key, number) for key, number in enumerate(numbers, start=1))
        message += _bytes_field(11, _COMPARATOR) + _number_field(12, self.compression)
        data = _MAGIC + _varint(len(message)) + message
        version = _VERSION.pack(self.minor_version << 24 | _MAJOR_VERSION)
        return data.ljust(TRAILER_BYTES - _VERSION.size, b"\0") + version


def parse_file_info(content: bytes, source: str) -> dict[str, bytes]:
    """The pairs of the file info.

    Args:
        content: The content of its block.
        source: The block's place and file, for messages.

    Raises:
        HoodieCorruptedDataException: The content is damaged.
    """
    try:
        if not content.startswith(_PROTOBUF_MAGIC):
            raise ValueError(f"it begins with {content[: len(_PROTOBUF_MAGIC)]!r}")
        length, start = _parse_varint(content, len(_PROTOBUF_MAGIC))
        if length > len(content) - start:
            raise ValueError(f"a length of {length}")
        found = {}
        for key, pair in _parse_fields(content[start : start + length]):
            if key == 1 and isinstance(pair, bytes):
                parts = dict(_parse_fields(pair))
                name, value = parts.get(1, b""), parts.get(2, b"")
                if not isinstance(name, bytes) or not isinstance(value, bytes):
                    raise ValueError("a pair of numbers")
                found[name.decode("utf-8")] = value
        return found
    except ValueError as error:
        raise HoodieCorruptedDataException(f"Cannot read {source}: the file info is damaged: {error}") from error


def encode_file_info(pairs: Mapping[str, bytes]) -> bytes:
    """The content of the block of the file info, the pairs in the order of their names' bytes.

    Args:
        pairs: Names and values.
    """
    encoded = sorted((name.encode("utf-8"), value) for name, value in pairs.items())
    body = b"".join(_bytes_field(1, _bytes_field(1, name) + _bytes_field(2, value)) for name, value in encoded)
    return _PROTOBUF_MAGIC + _varint(len(body)) + body


def _parse_varint(data: bytes, position: int) -> tuple[int, int]:
    """A number, and the offset after it."""
    number = 0
    for place, byte in enumerate(data[position : position + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, position + place + 1
    raise ValueError("a number does not end")


def _parse_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of the fields of a message; fields of fixed length are skipped."""
    position = 0
    while position < len(data):
        tag, position = _parse_varint(data, position)
        wire_type = tag & 7
        if wire_type == _VARINT:
            number, position = _parse_varint(data, position)
            yield tag >> 3, number
            continue
        if wire_type == _BYTES:
            length, position = _parse_varint(data, position)
        elif wire_type in _FIXED_BYTES:
            length = _FIXED_BYTES[wire_type]
        else:
            raise ValueError(f"the wire type {wire_type}")
        if length > len(data) - position:
            raise ValueError(f"a field of {length} bytes where {len(data) - position} are left")
        if wire_type == _BYTES:
            yield tag >> 3, data[position : position + length]
        position += length


def _varint(number: int) -> bytes:
    encoded: list[int] = []
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _number_field(key: int, number: int) -> bytes:
    return _varint(key << 3 | _VARINT) + _varint(number)


def _bytes_field(key: int, value: bytes) -> bytes:
    return _varint(key << 3 | _BYTES) + _varint(len(value)) + value
