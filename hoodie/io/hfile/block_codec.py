"""The blocks of an HFile: header, compression, checksums.

    8 bytes magic | int32 bytes behind the header | int32 bytes of the content before compression
    | int64 offset of the previous block of its kind, or -1 | int8 checksum type | int32 bytes per checksum
    | int32 bytes of header and data without checksums | data | one uint32 checksum per chunk of header and data

All numbers are big endian. HBase writes CRC-32C checksums, Hudi's own writer none (type 0, zeros).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from enum import Enum, IntEnum

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.util.crc32c import crc32c_of_chunks
from hoodie.exception import HoodieCorruptedDataException, HoodieNotSupportedException

try:
    from isal import isal_zlib
except ImportError:
    # The library has no wheels for some processors.
    isal_zlib = None
_STREAM_ERRORS = (pa.ArrowException, OSError, zlib.error if isal_zlib is None else isal_zlib.error)
"""The errors that the libraries raise for a damaged stream."""

_HEADER = struct.Struct(">8siiqbii")
HEADER_BYTES = _HEADER.size
"""The length of a block's header."""
MAX_CONTENT_BYTES = 512 << 20
"""The largest content that is read. Blocks have about a MiB, but at least one entry, however large: the entry of a
partition with a million files takes about 100 MiB."""
MAX_STORED_BYTES = MAX_CONTENT_BYTES + (MAX_CONTENT_BYTES >> 10)
"""The largest block that is read, with checksums and the overhead of compression."""
BYTES_PER_CHECKSUM = 16 << 10
"""The length of the checksum chunks in blocks that are written."""
_CHECKSUM_BYTES = 4
_GZIP = 31
"""The zlib code for a gzip stream with the largest window."""
_LENGTH_BYTES = 4
"""A gzip stream ends with the length of its content."""
_PREAMBLE_BYTES = HEADER_BYTES + 256
"""The header of a block and that of a gzip stream, which has neither name nor comment."""
_GZIP_SYSTEM = 9
"""The position of the operating system in the header of a gzip stream; Java writes 0 there."""
_GZIP_RATIO = 1100
"""The limit of the ratio: deflate cannot shrink a content more than that."""
_GZIP_LEAST_BYTES = 1 << 10
"""Up to this many bytes, a content is not refused for its ratio."""
FAST_LEVEL = 1
"""The level of log files, which live until the next compaction. ISA-L takes a tenth of the time of zlib's default, and
6% more space; without ISA-L, this is zlib's level 1: 40% of the time, and 18% more space."""
SMALL_LEVEL = -1 if isal_zlib is None else FAST_LEVEL
"""The level of long-lived files whose bytes need not be Java's."""


class BlockType(Enum):
    """The kind of a block; the value is the magic at its beginning."""

    DATA = b"DATABLK*"
    META = b"METABLKc"
    ROOT_INDEX = b"IDXROOT2"
    LEAF_INDEX = b"IDXLEAF2"
    INTERMEDIATE_INDEX = b"IDXINTE2"
    FILE_INFO = b"FILEINF2"


_UNSUPPORTED = {
    b"DATABLKE": "a data block with an encoding of HBase",
    b"BLMFBLK2": "a block of a bloom filter of HBase",
    b"BLMFMET2": "a bloom filter of HBase",
    b"DFBLMET2": "a bloom filter of HBase for deletes",
}
_TYPES = {block_type.value: block_type for block_type in BlockType}


class HFileCompression(IntEnum):
    """The codec of blocks; the value is the one in trailers. Hudi writes GZ (its default) and NONE."""

    LZO = 0
    GZ = 1
    NONE = 2
    SNAPPY = 3
    LZ4 = 4
    BZIP2 = 5
    ZSTD = 6


class ChecksumType(IntEnum):
    """The checksum of blocks; the value is the one in headers."""

    NULL = 0
    CRC32 = 1
    CRC32C = 2


@attrs.frozen
class BlockHeader:
    """The header of a block, whose lengths do not contradict each other.

    Attributes:
        block_type: The kind of the block.
        stored_bytes: The length of the whole block with header and checksums.
        content_bytes: The length of its content before compression.
        checksum_type: The kind of its checksums.
        bytes_per_checksum: The length of the chunks; each has one checksum.
        data_end: The length of header and data, without checksums.
    """

    block_type: BlockType
    stored_bytes: int
    content_bytes: int
    checksum_type: ChecksumType
    bytes_per_checksum: int
    data_end: int


def parse_header(data: bytes | memoryview, source: str) -> BlockHeader:
    """The header of a block.

    Args:
        data: The block's first bytes, at least `HEADER_BYTES`.
        source: The block's place and file, for messages.

    Raises:
        HoodieCorruptedDataException: It is not a header, or its lengths contradict each other.
        HoodieNotSupportedException: The block is of a kind that Hudi does not write.
    """
    if len(data) < HEADER_BYTES:
        raise HoodieCorruptedDataException(f"Cannot read {source}: {len(data)} bytes are no header of a block")
    magic, bytes_after_header, content, _, checksum, per_checksum, data_end = _HEADER.unpack_from(data)
    if magic not in _TYPES:
        if magic in _UNSUPPORTED:
            raise HoodieNotSupportedException(f"Cannot read {source}: it is {_UNSUPPORTED[magic]}")
        raise HoodieCorruptedDataException(f"Cannot read {source}: it begins with {magic!r}, which no block does")
    stored_bytes = HEADER_BYTES + bytes_after_header
    if not (0 <= content <= MAX_CONTENT_BYTES and HEADER_BYTES <= data_end <= stored_bytes <= MAX_STORED_BYTES):
        raise HoodieCorruptedDataException(
            f"Cannot read {source}: its lengths of {bytes_after_header}, {content} and {data_end} bytes contradict "
            f"each other, or exceed {MAX_CONTENT_BYTES} bytes"
        )
    if checksum not in list(ChecksumType):
        raise HoodieNotSupportedException(f"Cannot read {source}: its checksums have the unknown type {checksum}")
    checksum_bytes = stored_bytes - data_end
    if checksum != ChecksumType.NULL and (
        per_checksum <= 0 or checksum_bytes != -(-data_end // per_checksum) * _CHECKSUM_BYTES
    ):
        raise HoodieCorruptedDataException(
            f"Cannot read {source}: {checksum_bytes} bytes of checksums, one per {per_checksum} bytes, do not fit "
            f"{data_end} bytes"
        )
    return BlockHeader(_TYPES[magic], stored_bytes, content, ChecksumType(checksum), per_checksum, data_end)


def has_zero_checksums(data: bytes | memoryview, source: str) -> bool:
    """Whether a block should have checksums and has zeros in their place.

    hudi-rs 0.6 writes all blocks of its HFiles this way. One block alone proves nothing: damage may have left zeros.

    Args:
        data: The block; more bytes may follow.
        source: The block's place and file, for messages.

    Raises:
        HoodieException: See `parse_header`.
    """
    header = parse_header(data, source)
    stored = memoryview(data)[header.data_end : header.stored_bytes]
    return header.checksum_type is not ChecksumType.NULL and not any(stored)


def decode_block(
    data: bytes | memoryview, compression: HFileCompression, source: str, *, zeros_are_absent: bool = False
) -> tuple[BlockHeader, bytes]:
    """The header and the content of a whole block.

    Args:
        data: The block; more bytes may follow.
        compression: The codec of the file.
        source: The block's place and file, for messages.
        zeros_are_absent: Whether checksums that are all zero mean none, because the file's writer computes none.

    Raises:
        HoodieCorruptedDataException: The block is cut short, a checksum differs, or it cannot be decompressed.
        HoodieNotSupportedException: hoodie does not read the kind of block, checksum or codec.
    """
    return next(decode_blocks([(data, source)], compression, zeros_are_absent=zeros_are_absent))


def decode_blocks(
    blocks: Sequence[tuple[bytes | memoryview, str]],
    compression: HFileCompression,
    *,
    zeros_are_absent: bool = False,
) -> Iterator[tuple[BlockHeader, bytes]]:
    """The headers and contents of whole blocks of a file; see `decode_block`.

    The headers and checksums of all blocks are verified first, together, which takes less time than one by one. Each
    content is decompressed when it is asked for.

    Args:
        blocks: Each block, after which more bytes may follow, with its place and file, for messages.
        compression: See `decode_block`.
        zeros_are_absent: See `decode_block`.

    Raises:
        HoodieException: See `decode_block`.
    """
    views, headers = [], []
    for data, source in blocks:
        header = parse_header(data, source)
        if header.stored_bytes > len(data):
            raise HoodieCorruptedDataException(
                f"Cannot read {source}: it announces {header.stored_bytes} bytes, and {len(data)} are there"
            )
        view = memoryview(data)[: header.stored_bytes]
        if zeros_are_absent and not any(view[header.data_end :]):
            header = attrs.evolve(header, checksum_type=ChecksumType.NULL)
        views.append(view)
        headers.append(header)
    sources = [source for _, source in blocks]
    _verify_checksums(views, headers, compression, sources)
    for view, header, source in zip(views, headers, sources, strict=True):
        stored = view[HEADER_BYTES : header.data_end]
        if compression is HFileCompression.NONE:
            content = bytes(stored)
        elif compression is HFileCompression.GZ:
            content = _decompress(stored, header.content_bytes, source)
        else:
            raise unsupported_codec(compression, source)
        if len(content) != header.content_bytes:
            raise HoodieCorruptedDataException(
                f"Cannot read {source}: it announces a content of {header.content_bytes} bytes, and has {len(content)}"
            )
        yield header, content


def compress(content: bytes, compression: HFileCompression, level: int = -1) -> bytes:
    """Compress the content of a block.

    Args:
        content: The content.
        compression: GZ or NONE.
        level: -1 for zlib's default, which Java uses; `FAST_LEVEL`; or another level of zlib.

    Raises:
        HoodieNotSupportedException: Another codec.
    """
    if compression is HFileCompression.NONE:
        return content
    if compression is not HFileCompression.GZ:
        raise unsupported_codec(compression, "blocks to write")
    library = isal_zlib if isal_zlib is not None and level == FAST_LEVEL else zlib
    compressor = library.compressobj(level, zlib.DEFLATED, _GZIP)
    stream: bytes = compressor.compress(content) + compressor.flush()
    return stream[:_GZIP_SYSTEM] + b"\0" + stream[_GZIP_SYSTEM + 1 :]


def encode_block(block_type: BlockType, data: bytes, content_bytes: int, previous_offset: int = -1) -> bytes:
    """Encode a whole block as HBase 2.4 writes it, with CRC-32C checksums.

    Args:
        block_type: The kind of the block.
        data: The compressed content.
        content_bytes: The length of the content before compression.
        previous_offset: The offset of the previous block of its kind; -1 for none.
    """
    end = HEADER_BYTES + len(data)
    checksum_bytes = -(-end // BYTES_PER_CHECKSUM) * _CHECKSUM_BYTES
    header = _HEADER.pack(
        block_type.value,
        len(data) + checksum_bytes,
        content_bytes,
        previous_offset,
        ChecksumType.CRC32C,
        BYTES_PER_CHECKSUM,
        end,
    )
    block = header + data
    return block + crc32c_of_chunks(block, BYTES_PER_CHECKSUM).astype(">u4").tobytes()


def unsupported_codec(compression: HFileCompression, source: str) -> HoodieNotSupportedException:
    """The error for a codec that hoodie does not have.

    Args:
        compression: The codec.
        source: The blocks that need it, for the message.
    """
    return HoodieNotSupportedException(
        f"Cannot code {source}: their compression is {compression.name}; hoodie has GZ and NONE, which Hudi writes "
        "(hoodie.hfile.compression.algorithm)"
    )


def _verify_checksums(
    blocks: Sequence[memoryview], headers: Sequence[BlockHeader], compression: HFileCompression, sources: Sequence[str]
) -> None:
    """Raise if a checksum differs.

    A gzip stream has a CRC-32 of its content, which is verified anyway. So only the first chunk of such a block is
    verified here: it holds the headers before the deflated data.
    """
    # Chunks of one length are verified together.
    first_chunks: dict[int, list[int]] = {}
    for number, header in enumerate(headers):
        step, kind = header.bytes_per_checksum, header.checksum_type
        is_first_enough = compression is HFileCompression.GZ and step >= _PREAMBLE_BYTES
        if kind is ChecksumType.CRC32C and is_first_enough:
            first_chunks.setdefault(min(step, header.data_end), []).append(number)
        elif kind is not ChecksumType.NULL:
            data = blocks[number][: header.data_end]
            if is_first_enough:
                data = data[:step]
            if kind is ChecksumType.CRC32C:
                found = crc32c_of_chunks(data, step)
            else:
                chunks = (data[start : start + step] for start in range(0, len(data), step))
                found = np.fromiter(map(zlib.crc32, chunks), dtype=np.uint32, count=-(-len(data) // step))
            _compare_checksums(blocks[number], header, found, sources[number])
    for length, numbers in first_chunks.items():
        if len(numbers) == 1:
            data = blocks[numbers[0]][:length]
        else:
            data = memoryview(b"".join([blocks[number][:length] for number in numbers]))
        found = crc32c_of_chunks(data, length)
        for place, number in enumerate(numbers):
            _compare_checksums(blocks[number], headers[number], found[place : place + 1], sources[number])


def _compare_checksums(block: memoryview, header: BlockHeader, found: npt.NDArray[np.uint32], source: str) -> None:
    """Raise if the first checksums of a block are not those of its bytes."""
    stored = np.frombuffer(block[header.data_end :], dtype=">u4")[: len(found)]
    differing = np.flatnonzero(found != stored)
    if len(differing):
        raise HoodieCorruptedDataException(
            f"Cannot read {source}: a {header.checksum_type.name} checksum does not fit its bytes from "
            f"{int(differing[0]) * header.bytes_per_checksum} on, so the file is damaged"
        )


def _decompress(data: memoryview, content_bytes: int, source: str) -> bytes:
    """The content of one gzip stream. Never uses much more memory than the header announces and the stream can
    hold.
    """
    if content_bytes > max(_GZIP_RATIO * len(data), _GZIP_LEAST_BYTES):
        raise HoodieCorruptedDataException(
            f"Cannot read {source}: {len(data)} compressed bytes cannot hold the {content_bytes} that it announces"
        )
    found = _inflated(data, content_bytes)
    if found is not None:
        return found
    decompressor = zlib.decompressobj(_GZIP)
    try:
        # One byte more than announced, to notice a longer stream.
        content = decompressor.decompress(data, content_bytes + 1)
        if not decompressor.eof and len(content) <= content_bytes:
            content += decompressor.decompress(decompressor.unconsumed_tail, 1)
    except zlib.error as error:
        raise HoodieCorruptedDataException(f"Cannot read {source}: its gzip stream is damaged: {error}") from error
    if not decompressor.eof or decompressor.unused_data:
        raise HoodieCorruptedDataException(
            f"Cannot read {source}: its gzip stream does not end where {content_bytes} bytes of content end"
        )
    return content


def _inflated(data: memoryview, content_bytes: int) -> bytes | None:
    """The content of one gzip stream, by the fastest library available; None if it is torn or of another length.

    ISA-L takes half the time of Arrow's zlib, which takes two thirds of the time of Python's. Both check the content.
    """
    try:
        if isal_zlib is not None:
            stream = isal_zlib.decompressobj(_GZIP)
            # One byte more than announced, to notice a longer stream.
            content = stream.decompress(data, content_bytes + 1)
            is_whole = stream.eof and not stream.unused_data
        else:
            # A codec has a state, so threads do not share one.
            content = bytes(pa.Codec("gzip").decompress(data, content_bytes, asbytes=True))
            is_whole = int.from_bytes(data[-_LENGTH_BYTES:], "little") == content_bytes
    except _STREAM_ERRORS:
        return None
    return content if is_whole and len(content) == content_bytes else None
