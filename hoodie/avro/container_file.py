"""Avro object container files, a group of blocks at a time.

A block has a count of records and their bytes, one record after the other, with no lengths between them. That is how
Avro writes the items of an array, too. So a block is decoded as a record with one array, and many blocks are walked
through at the same time.

    Obj 01 | meta: avro.schema, avro.codec | sync | count, size, records, sync | count, size, records, sync | ...
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from hoodie.avro.columnar_decoder import decode_resolved
from hoodie.avro.schema_reader import parse_record
from hoodie.avro.schema_resolution import resolved_columns, resolving_reader
from hoodie.exception import HoodieCorruptedDataException, HoodieSchemaException

MAGIC: Final = b"Obj\x01"
_SYNC_BYTES = 16
_MAX_META_BYTES = 16 << 20
_MAX_BLOCK_BYTES = 256 << 20
_GROUP_BYTES = 16 << 20
"""Blocks of so many bytes are decoded together: the more of them, the less time each record takes."""
_MAX_NUMBER_BYTES = 10
_READ_BYTES = 1 << 20
_CRC_BYTES = 4


@attrs.frozen
class ContainerHeader:
    """The begin of a file.

    Attributes:
        schema: JSON of the record that the file has.
        codec: The compression of blocks: ``null``, ``deflate``, ``snappy``, ``bzip2``, ``xz`` or ``zstandard``.
        sync: The 16 bytes after each block.
    """

    schema: str
    codec: str
    sync: bytes


class ContainerFile:
    """An Avro object container file, read from its begin to its end.

    Args:
        content: The bytes.

    Attributes:
        header: The begin of the file.

    Raises:
        HoodieCorruptedDataException: It is not such a file, its codec is not known, or it has no schema of a record.
    """

    def __init__(self, content: IO[bytes] | pa.NativeFile) -> None:
        self._content = io.BufferedReader(_Raw(content), _READ_BYTES)
        self.header = self._read_header()

    def rows(self, wanted_schema: str | None = None) -> Iterator[pa.RecordBatch]:
        """The records, in batches of any number of rows.

        Args:
            wanted_schema: JSON of the record to read them as, by the rules of `hoodie.avro.schema_resolution`; None for
                that of the file.

        Raises:
            HoodieCorruptedDataException: A block is damaged; the message gives its number.
            HoodieSchemaException: The file's records cannot be read as the record wanted.
        """
        wanted = self.header.schema if wanted_schema is None else wanted_schema
        # The errors of these schemas name the fields as they are in the file.
        resolving_reader(self.header.schema, wanted)
        columns = resolved_columns(wanted)
        written_block, wanted_block = _block_schema(self.header.schema), _block_schema(wanted)
        first = 0
        for group in self._groups():
            ends = np.cumsum([len(block) for block in group], dtype=np.int64)
            starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
            # One chunk, so that all blocks are walked through at the same time.
            found = decode_resolved(
                written_block, wanted_block, b"".join(group), starts, ends, chunk_bytes=int(ends[-1])
            )
            bad = found.bad
            if len(bad):
                reason = str(found.reason(int(bad[0]))).replace("rows.element.", "").replace("'rows'", "'the block'")
                raise HoodieCorruptedDataException(f"its block {first + int(bad[0]) + 1} is damaged: {reason}")
            records = found.rows.column(0).flatten()
            yield pa.RecordBatch.from_arrays(records.flatten(), schema=columns)
            first += len(group)

    def _groups(self) -> Iterator[list[bytes]]:
        group: list[bytes] = []
        size = 0
        for block in self._blocks():
            if group and size + len(block) > _GROUP_BYTES:
                yield group
                group, size = [], 0
            group.append(block)
            size += len(block)
        if group:
            yield group

    def _blocks(self) -> Iterator[bytes]:
        """Each block that is not empty, as the bytes of an array."""
        decompress = _CODECS[self.header.codec]
        number = 0
        while self._content.peek(1):
            number += 1
            try:
                count, size = self._number(), self._number()
                if count < 0 or not 0 <= size <= _MAX_BLOCK_BYTES:
                    raise ValueError(f"it announces {count} records in {size} bytes")
                data = decompress(self._exactly(size))
                if self._exactly(_SYNC_BYTES) != self.header.sync:
                    raise ValueError("the bytes after it are not those that end a block")
            except (ValueError, OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException) as error:
                raise HoodieCorruptedDataException(f"its block {number} is damaged: {error}") from error
            if not count and data:
                raise HoodieCorruptedDataException(f"its block {number} is damaged: bytes belong to no record")
            yield (_encoded(count) if count else b"") + data + b"\0"

    def _read_header(self) -> ContainerHeader:
        try:
            if self._exactly(len(MAGIC)) != MAGIC:
                raise ValueError("it does not begin as one")
            meta = self._read_meta()
            sync = self._exactly(_SYNC_BYTES)
            schema, codec = meta["avro.schema"].decode(), meta.get("avro.codec", b"null").decode()
            parse_record(schema)
        except (ValueError, KeyError, EOFError, HoodieSchemaException) as error:
            reason = "it has no schema" if isinstance(error, KeyError) else error
            raise HoodieCorruptedDataException(f"it is no Avro object container file: {reason}") from error
        if codec not in _CODECS:
            raise HoodieCorruptedDataException(
                f"its blocks are compressed with {codec[:40]}, which is not read: {', '.join(_CODECS)} are"
            )
        return ContainerHeader(schema, codec, sync)

    def _read_meta(self) -> dict[str, bytes]:
        meta: dict[str, bytes] = {}
        left = _MAX_META_BYTES
        while count := self._number():
            if count < 0:
                count = -count
                self._number()
            for _ in range(count):
                pair = []
                for _ in range(2):
                    size = self._number()
                    left -= size + 1
                    if size < 0 or left < 0:
                        raise ValueError("its metadata have a wrong length")
                    pair.append(self._exactly(size))
                meta[pair[0].decode()] = pair[1]
        return meta

    def _number(self) -> int:
        raw = 0
        for place in range(_MAX_NUMBER_BYTES):
            [byte] = self._exactly(1)
            raw |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1)
        raise ValueError("a number takes more than 64 bits")

    def _exactly(self, size: int) -> bytes:
        found = self._content.read(size)
        if len(found) != size:
            raise EOFError("the file ends within it")
        return found


class _Raw(io.RawIOBase):
    """A file of Arrow as one of Python, which closes nothing."""

    def __init__(self, content: IO[bytes] | pa.NativeFile) -> None:
        self._inner = content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        found = self._inner.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)


def _block_schema(schema: str) -> str:
    rows = {"name": "rows", "type": {"type": "array", "items": json.loads(schema)}}
    return json.dumps({"type": "record", "name": "hoodie_container_block", "fields": [rows]})


def _encoded(count: int) -> bytes:
    raw, out = count << 1, bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def _plain(data: bytes) -> bytes:
    return data


def _inflated(data: bytes) -> bytes:
    return _whole(zlib.decompressobj(-zlib.MAX_WBITS), data)


def _snappy(data: bytes) -> bytes:
    raw, shift = 0, 0
    for byte in data[:5]:
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if raw > _MAX_BLOCK_BYTES or len(data) <= _CRC_BYTES:
        raise ValueError("it is no Snappy block, or too large a one")
    found = pa.decompress(data[:-_CRC_BYTES], raw, "snappy", asbytes=True)
    if zlib.crc32(found) != int.from_bytes(data[-_CRC_BYTES:], "big"):
        raise ValueError("its checksum is wrong")
    return bytes(found)


def _bunzipped(data: bytes) -> bytes:
    return _whole(bz2.BZ2Decompressor(), data)


def _unxzed(data: bytes) -> bytes:
    return _whole(lzma.LZMADecompressor(memlimit=_MAX_BLOCK_BYTES), data)


def _zstandard(data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return _bounded(stream.read(_MAX_BLOCK_BYTES + 1))


def _whole(decompressor: Any, data: bytes) -> bytes:
    found = _bounded(decompressor.decompress(data, _MAX_BLOCK_BYTES + 1))
    if not decompressor.eof:
        raise ValueError("its compressed bytes are cut short")
    return found


def _bounded(data: bytes) -> bytes:
    if len(data) > _MAX_BLOCK_BYTES:
        raise ValueError(f"it has more than {_MAX_BLOCK_BYTES} bytes")
    return data


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": _plain,
    "deflate": _inflated,
    "snappy": _snappy,
    "bzip2": _bunzipped,
    "xz": _unxzed,
    "zstandard": _zstandard,
}
