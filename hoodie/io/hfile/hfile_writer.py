"""Writer of HFiles, byte for byte like HBase 2.4 in Hudi up to 1.0.

All readers accept these files in all table versions: HBase's in Hudi up to 1.0, Hudi's own since 1.1, and hudi-rs.

Hudi: org.apache.hudi.io.hadoop.HoodieHBaseAvroHFileWriter, and HBase's writer below it.
"""

from __future__ import annotations

import io
import struct
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from itertools import chain, islice
from typing import Protocol

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.bloom_filter import BloomFilter
from hoodie.exception import HoodieKeyException, HoodieSchemaException
from hoodie.io.hfile.block_codec import HEADER_BYTES, BlockType, HFileCompression, compress, encode_block
from hoodie.io.hfile.block_index import IndexEntries, encode_root_index, middle_key
from hoodie.io.hfile.data_block import MAX_ROW_BYTES, encoded_entries, stored_key
from hoodie.io.hfile.hfile_reader import (
    BLOOM_FILTER,
    BLOOM_FILTER_TYPE,
    MAX_RECORD_KEY,
    MIN_RECORD_KEY,
    SCHEMA_KEY,
)
from hoodie.io.hfile.trailer import TRAILER_BYTES, HFileTrailer, encode_file_info
from hoodie.threads import ThreadPool

BLOCK_BYTES = 1 << 20
"""The default of ``hoodie.hfile.block.size`` for metadata tables."""
_COMPRESSING_THREADS = 2
_BLOCKS_AHEAD = 4
"""The most blocks that wait for being written."""
_KEY_EXTRA_BYTES = len(stored_key(b""))


class ByteSink(Protocol):
    """The target of an HFile: a stream of storage, or an `io.BytesIO`."""

    def write(self, data: bytes, /) -> object:
        """Append bytes."""


@attrs.frozen
class _FullBlock:
    """A data block to write: its key in the index, and its content."""

    index_key: bytes
    content: bytes


class HFileWriter:
    """Writes one HFile: entries in the order of their keys, in any number of batches, then `finish`.

    The same input gives the same bytes, however it is cut into batches. The index has one level, like HBase's below
    128 KiB; readers accept larger ones.

    Memory: 32 MiB, a few blocks, and the index. A call with several blocks compresses two at a time.

    Args:
        sink: The target. The caller closes it.
        source: The file's path, for messages.
        avro_schema: The Avro schema of the values, as JSON; None to leave it out.
        compression: GZ or NONE.
        block_bytes: A block ends with the entry that reaches this many bytes before compression.
        level: See `hoodie.io.hfile.block_codec.compress`; -1 is the default, like Java's.
        file_info: Further pairs of the file info.

    Raises:
        HoodieNotSupportedException: Another codec; raised when the first block is written.

    Hudi: org.apache.hudi.io.hadoop.HoodieHBaseAvroHFileWriter. Differs: takes encoded values.
    """

    def __init__(
        self,
        sink: ByteSink,
        source: str,
        avro_schema: str | None,
        *,
        compression: HFileCompression = HFileCompression.GZ,
        block_bytes: int = BLOCK_BYTES,
        level: int = -1,
        file_info: Mapping[str, bytes] | None = None,
    ) -> None:
        self._sink = sink
        self._source = source
        self._compression = compression
        self._block_bytes = block_bytes
        self._level = level
        self._info = dict(file_info or {})
        self._info["hfile.CREATE_TIME_TS"] = struct.pack(">q", 0)
        if avro_schema is not None:
            self._info[SCHEMA_KEY] = avro_schema.encode("utf-8")
        self._size = 0
        self._uncompressed = TRAILER_BYTES
        self._index = IndexEntries()
        self._pending: list[memoryview | bytes] = []
        self._pending_bytes = 0
        self._index_key = b""
        self._first_key: bytes | None = None
        self._last_key: bytes | None = None
        self._entry_count = 0
        self._key_bytes = 0
        self._value_bytes = 0

    @property
    def entry_count(self) -> int:
        """The number of entries so far."""
        return self._entry_count

    @property
    def size_bytes(self) -> int:
        """The bytes written so far; the length of the file after `finish`."""
        return self._size

    def write(self, keys: pa.StringArray, values: pa.BinaryArray) -> None:
        """Append entries.

        Args:
            keys: Record keys: strings, each greater than the previous one by its bytes, also across calls. No key is
                null, empty or longer than 32,767 bytes.
            values: The bytes of the record of each key; none is null.

        Raises:
            HoodieKeyException: A key breaks these rules; the message names the first one. Nothing of the call was
                written.
            HoodieSchemaException: The types or lengths of the arrays do not fit, or a value is null.
        """
        if not (pa.types.is_string(keys.type) and pa.types.is_binary(values.type) and len(keys) == len(values)):
            raise HoodieSchemaException(
                f"Cannot write {self._source}: {len(keys)} keys of type {keys.type} and {len(values)} values of type "
                f"{values.type}, where as many of type string and binary are needed"
            )
        if values.null_count:
            raise HoodieSchemaException(f"Cannot write {self._source}: {values.null_count} values are null")
        if not len(keys):
            return
        self._check_keys(keys)
        self._write_data_blocks(self._full_blocks(keys, values))
        self._entry_count += len(keys)
        key_bytes, value_bytes = (pc.sum(pc.binary_length(array)).as_py() for array in (keys, values))
        self._key_bytes += key_bytes + _KEY_EXTRA_BYTES * len(keys)
        self._value_bytes += value_bytes
        self._last_key = _key_at(keys, len(keys) - 1)

    def finish(self, bloom_filter: BloomFilter | None = None) -> None:
        """Write the parts after the entries. Nothing can be written afterwards.

        Args:
            bloom_filter: The filter of all keys. With it, the file info names the first and the last key, as in Hudi's
                base files; log blocks have neither.
        """
        if self._pending:
            self._write_data_blocks(iter([self._end_block()]))
        meta = IndexEntries()
        if bloom_filter is not None:
            self._info[BLOOM_FILTER_TYPE] = bloom_filter.type_code.encode("ascii")
            self._info[MIN_RECORD_KEY] = self._first_key or b""
            self._info[MAX_RECORD_KEY] = self._last_key or b""
            offset = self._size
            size = self._write_block(BlockType.META, bloom_filter.to_base64().encode("ascii"))
            meta.append(offset, size, BLOOM_FILTER.encode("ascii"))
        load_on_open_offset = self._size
        root = encode_root_index(self._index)
        self._write_block(BlockType.ROOT_INDEX, root)
        # HBase does not count this block.
        self._uncompressed -= HEADER_BYTES + len(root)
        self._write_block(BlockType.ROOT_INDEX, encode_root_index(meta), load_on_open_offset)
        file_info_offset = self._size
        self._write_block(BlockType.FILE_INFO, encode_file_info(self._whole_info()))
        trailer = HFileTrailer(
            file_info_offset=file_info_offset,
            load_on_open_offset=load_on_open_offset,
            data_index_bytes=len(root),
            uncompressed_bytes=self._uncompressed,
            data_index_count=len(self._index),
            meta_index_count=len(meta),
            entry_count=self._entry_count,
            data_index_levels=1,
            first_data_block_offset=self._index.offsets[0] if len(self._index) else None,
            last_data_block_offset=self._index.offsets[-1] if len(self._index) else None,
            compression=self._compression,
        )
        self._put(trailer.encode())

    def _check_keys(self, keys: pa.StringArray) -> None:
        if keys.null_count:
            raise self._bad_key("is null", int(np.argmax(keys.is_null().to_numpy(zero_copy_only=False))))
        lengths = pc.binary_length(keys).to_numpy()
        if not lengths.all():
            raise self._bad_key("is empty", int(np.argmin(lengths)))
        if lengths.max() > MAX_ROW_BYTES:
            place = int(np.argmax(lengths > MAX_ROW_BYTES))
            raise self._bad_key(f"has {lengths[place]} bytes, and HFiles take {MAX_ROW_BYTES}", place)
        before = self._last_key
        if before is not None and _key_at(keys, 0) <= before:
            raise self._disorder(keys, 0, before)
        is_greater = pc.less(keys[:-1], keys[1:])
        if not pc.all(is_greater).as_py() and len(keys) > 1:
            place = int(np.argmin(is_greater.to_numpy(zero_copy_only=False))) + 1
            raise self._disorder(keys, place, _key_at(keys, place - 1))

    def _disorder(self, keys: pa.StringArray, place: int, before: bytes) -> HoodieKeyException:
        key = keys[place].as_py()
        problem = "appears twice" if key.encode("utf-8") == before else f"comes after '{before.decode('utf-8')}'"
        return self._bad_key(f"'{key}' {problem}, and keys must be distinct and in the order of their bytes", place)

    def _bad_key(self, problem: str, place: int) -> HoodieKeyException:
        return HoodieKeyException(
            f"Cannot write {self._source}: the key of entry {self._entry_count + place} {problem}"
        )

    def _full_blocks(self, keys: pa.StringArray, values: pa.BinaryArray) -> Iterator[_FullBlock]:
        """Add entries to the current block; yields each full block."""
        for portion in encoded_entries(keys, values):
            bounds, place, last = portion.bounds, 0, len(portion.bounds) - 1
            while place < last:
                if not self._pending_bytes:
                    self._begin_block(keys, portion.first + place)
                room = self._block_bytes - self._pending_bytes
                until = min(int(np.searchsorted(bounds, bounds[place] + room, side="left")), last)
                until = max(until, place + 1)
                piece = portion.data[bounds[place] : bounds[until]]
                self._pending_bytes += len(piece)
                if self._pending_bytes >= self._block_bytes:
                    self._pending.append(piece)
                    yield self._end_block()
                else:
                    # A copy, so that the whole portion is not kept in memory.
                    self._pending.append(bytes(piece))
                place = until

    def _begin_block(self, keys: pa.StringArray, place: int) -> None:
        key = _key_at(keys, place)
        if self._first_key is None:
            self._first_key, self._index_key = key, stored_key(key)
            return
        before = _key_at(keys, place - 1) if place else self._last_key
        self._index_key = middle_key(before or b"", key)

    def _end_block(self) -> _FullBlock:
        block = _FullBlock(self._index_key, b"".join(self._pending))
        self._pending, self._pending_bytes = [], 0
        return block

    def _write_data_blocks(self, blocks: Iterator[_FullBlock]) -> None:
        """Write blocks in order. Many of them are compressed in parallel, which takes most of the time."""
        few = list(islice(blocks, 2))
        if len(few) < 2:
            for block in few:
                self._write_data_block(block, self._compressed(block.content))
            return
        with ThreadPool(_COMPRESSING_THREADS, "hoodie-hfile") as pool:
            ahead: deque[tuple[_FullBlock, Future[bytes]]] = deque()
            for block in chain(few, blocks):
                ahead.append((block, pool.submit(self._compressed, block.content)))
                if len(ahead) > _BLOCKS_AHEAD:
                    first, data = ahead.popleft()
                    self._write_data_block(first, data.result())
            for block, data in ahead:
                self._write_data_block(block, data.result())

    def _write_data_block(self, block: _FullBlock, data: bytes) -> None:
        offset = self._size
        previous = self._index.offsets[-1] if len(self._index) else -1
        size = self._put_block(BlockType.DATA, data, len(block.content), previous)
        self._index.append(offset, size, block.index_key)

    def _write_block(self, block_type: BlockType, content: bytes, previous_offset: int = -1) -> int:
        """Compress and write a block; returns its length."""
        return self._put_block(block_type, self._compressed(content), len(content), previous_offset)

    def _compressed(self, content: bytes) -> bytes:
        return compress(content, self._compression, self._level)

    def _put_block(self, block_type: BlockType, data: bytes, content_bytes: int, previous_offset: int) -> int:
        block = encode_block(block_type, data, content_bytes, previous_offset)
        self._put(block)
        self._uncompressed += HEADER_BYTES + content_bytes
        return len(block)

    def _put(self, data: bytes) -> None:
        self._sink.write(data)
        self._size += len(data)

    def _whole_info(self) -> dict[str, bytes]:
        """The file info with the pairs of HBase."""
        count = max(self._entry_count, 1)
        info = self._info | {
            "hfile.AVG_KEY_LEN": struct.pack(">i", self._key_bytes // count),
            "hfile.AVG_VALUE_LEN": struct.pack(">i", self._value_bytes // count),
            "KEY_VALUE_VERSION": struct.pack(">i", 1),
            "MAX_MEMSTORE_TS_KEY": struct.pack(">q", 0),
        }
        if self._last_key is not None:
            info["hfile.LASTKEY"] = stored_key(self._last_key)
        return info


def encode_hfile(
    keys: pa.StringArray,
    values: pa.BinaryArray,
    avro_schema: str | None,
    source: str = "an HFile",
    *,
    compression: HFileCompression = HFileCompression.GZ,
    block_bytes: int = BLOCK_BYTES,
    level: int = -1,
    bloom_filter: BloomFilter | None = None,
) -> bytes:
    """A whole HFile in memory, such as the content of a log block.

    Args:
        keys: See `HFileWriter.write`.
        values: See `HFileWriter.write`.
        avro_schema: See `HFileWriter`.
        source: The file or block, for messages.
        compression: See `HFileWriter`.
        block_bytes: See `HFileWriter`.
        level: See `HFileWriter`.
        bloom_filter: See `HFileWriter.finish`.

    Raises:
        HoodieException: See `HFileWriter.write`.
    """
    sink = io.BytesIO()
    writer = HFileWriter(sink, source, avro_schema, compression=compression, block_bytes=block_bytes, level=level)
    writer.write(keys, values)
    writer.finish(bloom_filter)
    return sink.getvalue()


def _key_at(keys: pa.StringArray, place: int) -> bytes:
    key: bytes = keys[place].as_buffer().to_pybytes()
    return key
