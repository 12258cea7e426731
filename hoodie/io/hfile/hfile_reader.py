"""Reader of HFiles: all entries, or those with given keys or prefixes of keys.

    data blocks (with blocks of the index between them) | meta blocks | root of the index | index of the meta blocks
    | file info | trailer

It reads the files of HBase (Hudi up to 1.0, trailer version 3.3; Hudi 0.9 and 0.10: 3.0) and those of Hudi's own writer
(1.1 and later, 3.0, without checksums). Files of hudi-rs 0.6 announce checksums and hold zeros in their place: they
count as absent if all blocks that are read first have them.

Hudi: org.apache.hudi.io.hfile.{HFileReader, HFileReaderImpl}.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.bloom_filter import BloomFilter, decode_bloom_filter
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieKeyException,
    HoodieMissingFileException,
    HoodieNotSupportedException,
)
from hoodie.io.hfile.block_codec import (
    HEADER_BYTES,
    MAX_STORED_BYTES,
    BlockType,
    decode_block,
    decode_blocks,
    has_zero_checksums,
    parse_header,
)
from hoodie.io.hfile.block_index import (
    IndexEntries,
    WantedBlock,
    check_places,
    parse_inner_index,
    parse_root_index,
    wanted_blocks,
)
from hoodie.io.hfile.data_block import ENTRY_SCHEMA, DataBlock, KeysOf, decode_data_block
from hoodie.io.hfile.trailer import TRAILER_BYTES, HFileTrailer, parse_file_info
from hoodie.storage.byte_ranges import named_read_errors, read_range
from hoodie.storage.listed_files import open_listed_file
from hoodie.storage.storage import HoodieStorage

logger = logging.getLogger(__name__)

SCHEMA_KEY = "schema"
"""The key of the values' Avro schema in the file info."""
MIN_RECORD_KEY, MAX_RECORD_KEY = "minRecordKey", "maxRecordKey"
BLOOM_FILTER_TYPE = "bloomFilterTypeCode"
BLOOM_FILTER = "bloomFilter"
"""The meta block with the bloom filter of the keys."""
BATCH_BYTES = 16 << 20
"""Default size of batches of entries."""
_TAIL_BYTES = 128 << 10
"""The length of the first read: the trailer, and often all that is needed to open the file."""
_REQUEST_BYTES = 8 << 20
"""The most bytes of one request for several blocks."""
_GAP_BYTES = 64 << 10
"""Blocks are read together if the gap between them is not larger: a request costs more than these bytes."""
_CELL_FORMAT, _CELL_VERSIONS, _TAGS = "KEY_VALUE_VERSION", "MAX_MEMSTORE_TS_KEY", "hfile.MAX_TAGS_LEN"


class TooManyEntriesError(Exception):
    """More entries match than the caller wants. The file is not damaged."""


@contextmanager
def open_hfile(storage: HoodieStorage, path: str, size_bytes: int | None = None) -> Iterator[HFileReader]:
    """Open an HFile on storage; a context manager that closes it.

    Args:
        storage: The storage of the file.
        path: Its full path.
        size_bytes: Its size, if it is known from a listing: a small file is then read by one request.

    Raises:
        HoodieMissingFileException: There is no such file.
        HoodieIOException: Storage failed.
        HoodieException: See `HFileReader`.
    """
    try:
        stream = open_listed_file(storage, path, size_bytes)
    except FileNotFoundError as error:
        raise HoodieMissingFileException(
            f"base file {path} is missing; if a clean, rollback or restore removed it meanwhile, load the table again, "
            "otherwise restore the file from a copy"
        ) from error
    with stream:
        yield HFileReader(stream, path)


class HFileReader:
    """An open HFile.

    The end of the file is read at once, all other parts by ranges when they are asked for; neighbouring blocks are read
    together. All lengths are checked before they are used to read or allocate.

    Memory: 128 KiB, the index, and the memory that each method states.

    Args:
        stream: The file.
        source: Its full path, or the place of a log block and its file; for messages.

    Raises:
        HoodieIOException: Storage failed.
        HoodieCorruptedDataException: It is not an HFile, or damaged; the message names the file and the byte.
        HoodieNotSupportedException: It has another version, a codec that hoodie lacks, or features that only HBase
            uses.

    Hudi: org.apache.hudi.io.hfile.HFileReaderImpl. Differs: verifies checksums; gives Arrow arrays; has no cursor.
    """

    def __init__(self, stream: pa.NativeFile, source: str) -> None:
        self._stream = stream
        self._source = source
        with named_read_errors(source):
            self._size = int(stream.size())
        if self._size < TRAILER_BYTES:
            raise HoodieCorruptedDataException(
                f"Cannot read {source}: its {self._size} bytes are no HFile, whose end alone takes {TRAILER_BYTES}"
            )
        self._kept_from = max(self._size - _TAIL_BYTES, 0)
        self._kept = read_range(stream, source, self._kept_from, self._size - self._kept_from)
        trailer_offset = self._size - TRAILER_BYTES
        self.trailer = HFileTrailer.parse(
            self._kept[-TRAILER_BYTES:], self._size, self._at("the trailer", trailer_offset)
        )
        self._load_on_open()

    @classmethod
    def of_bytes(cls, content: bytes | pa.Buffer, source: str) -> HFileReader:
        """Open an HFile that is in memory, such as the content of a log block.

        Args:
            content: The whole file.
            source: The file or block, for messages.

        Raises:
            HoodieException: See `HFileReader`.
        """
        return cls(pa.BufferReader(content), source)

    @property
    def entry_count(self) -> int:
        """The number of entries by the trailer."""
        return self.trailer.entry_count

    @property
    def file_info(self) -> Mapping[str, bytes]:
        """The pairs that the writer stored: of HBase, and of Hudi."""
        return self._file_info

    @property
    def avro_schema(self) -> str | None:
        """The Avro schema of the values, as JSON; None if the file has none."""
        return self._text_of(SCHEMA_KEY)

    @property
    def min_record_key(self) -> str | None:
        """The first key, if the writer stored it (base files)."""
        return self._text_of(MIN_RECORD_KEY)

    @property
    def max_record_key(self) -> str | None:
        """The last key, if the writer stored it (base files)."""
        return self._text_of(MAX_RECORD_KEY)

    @property
    def meta_block_names(self) -> list[str]:
        """The names of the meta blocks."""
        return [name.decode("utf-8", "replace") for name in self._meta_index.keys]

    def read_meta_block(self, name: str) -> bytes | None:
        """The content of a meta block.

        Args:
            name: Its name.

        Returns:
            The content; None if there is no block of that name.

        Raises:
            HoodieException: See `batches`.
        """
        encoded = name.encode("utf-8")
        if encoded not in self._meta_index.keys:
            return None
        number = self._meta_index.keys.index(encoded)
        return next(self._read_blocks(self._meta_index, [number], (BlockType.META,)))

    def read_bloom_filter(self) -> BloomFilter | None:
        """The bloom filter of the keys; None if the file has none.

        Raises:
            HoodieException: See `batches`.
        """
        text = self.read_meta_block(BLOOM_FILTER)
        return None if text is None else decode_bloom_filter(self._text_of(BLOOM_FILTER_TYPE), text)

    def batches(self, batch_bytes: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
        """All entries in the order of the file, in batches of the columns of `ENTRY_SCHEMA`.

        Memory: one batch and one block above ``batch_bytes``, and up to 8 MiB as stored.

        Args:
            batch_bytes: A batch ends with the block that reaches this many bytes of content.

        Raises:
            HoodieIOException: Storage failed.
            HoodieCorruptedDataException: A block is damaged, or the number of entries differs from the trailer's; the
                message names the file and the byte.
            HoodieNotSupportedException: A block is of a kind that Hudi does not write.
        """
        pending: list[pa.RecordBatch] = []
        pending_bytes, count = 0, 0
        for content, source in self._scanned_blocks():
            block = decode_data_block(content, source)
            count += len(block)
            pending.append(block.entries())
            pending_bytes += len(content)
            if pending_bytes >= batch_bytes:
                yield _joined(pending)
                pending, pending_bytes = [], 0
        if pending:
            yield _joined(pending)
        if count != self.entry_count:
            raise HoodieCorruptedDataException(
                f"Cannot read {self._source}: its blocks hold {count} entries, and its trailer announces "
                f"{self.entry_count}"
            )

    def read_all(self) -> pa.Table:
        """All entries in the order of the file, in the columns of `ENTRY_SCHEMA`.

        Raises:
            HoodieException: See `batches`.
        """
        return pa.Table.from_batches(self.batches(), ENTRY_SCHEMA)

    def look_up(self, keys: pa.StringArray | pa.ChunkedArray) -> pa.Table:
        """The entries of the given keys, in the columns of `ENTRY_SCHEMA`, in the order of the file.

        Reads only blocks that may hold one of the keys. Memory: the answer, and up to 8 MiB of blocks as stored.

        Args:
            keys: Strings without nulls, in any order. A key that appears twice is looked up once.

        Raises:
            HoodieKeyException: A key is null.
            HoodieException: See `batches`.
        """
        wanted = _sorted_keys(keys)
        found = []
        for block, first, until in self._wanted_data_blocks(KeysOf(wanted), as_prefixes=False):
            numbers = block.find(wanted[first:until])
            if len(numbers):
                found.append(block.entries(numbers))
        return pa.Table.from_batches(found, ENTRY_SCHEMA)

    def look_up_prefixes(self, prefixes: pa.StringArray | pa.ChunkedArray, most: int | None = None) -> pa.Table:
        """The entries whose keys begin with one of the prefixes, in the columns of `ENTRY_SCHEMA`.

        They come in the order of the file. Reads only blocks that may hold such a key. Memory: see `look_up`.

        Args:
            prefixes: Strings without nulls, in any order. The empty one finds all entries.
            most: The most entries that are wanted; None for any number.

        Raises:
            TooManyEntriesError: There are more; or the index shows before a block is read that there are about more.
            HoodieKeyException: A prefix is null.
            HoodieException: See `batches`.
        """
        wanted = _without_longer_ones(_sorted_keys(prefixes))
        if most is not None and self._count_within(wanted) > most:
            raise TooManyEntriesError
        found, count = [], 0
        for block, first, until in self._wanted_data_blocks(wanted, as_prefixes=True):
            numbers = _with_prefixes(block, wanted[first:until])
            count += len(numbers)
            if most is not None and count > most:
                raise TooManyEntriesError
            if len(numbers):
                found.append(block.entries(numbers))
        return pa.Table.from_batches(found, ENTRY_SCHEMA)

    def _count_within(self, prefixes: Sequence[bytes]) -> int:
        """About the number of entries with the prefixes that fill whole blocks below the root of the index."""
        blocks = len(self._index)
        found = sum(1 for _ in wanted_blocks(self._index, prefixes, 0, len(prefixes), as_prefixes=True))
        # The first and the last block of a prefix may hold few of its entries.
        return max(found - 2 * len(prefixes), 0) * self.entry_count // blocks if blocks else 0

    def _load_on_open(self) -> None:
        """Read the parts after the data: the root of the index, the index of the meta blocks, the file info."""
        trailer, end = self.trailer, self._size - TRAILER_BYTES
        start = trailer.load_on_open_offset
        if end - start > MAX_STORED_BYTES:
            raise HoodieCorruptedDataException(
                f"Cannot read {self._at('the index', start)}: it and what follows take {end - start} bytes, and "
                f"{MAX_STORED_BYTES} are read"
            )
        if start < self._kept_from:
            self._kept = read_range(self._stream, self._source, start, self._kept_from - start) + self._kept
            self._kept_from = start
        self._zeros_are_absent = self._writes_zero_checksums(start, end)
        root, position = self._kept_block(start, end, BlockType.ROOT_INDEX)
        source = self._at("the index", start)
        if trailer.entry_count or trailer.data_index_count:
            levels = trailer.data_index_levels
            self._index = parse_root_index(root, trailer.data_index_count, start, source, levels=levels)
        else:
            # For a file without entries, hudi-rs 0.6 names an empty block here, which the trailer does not count.
            self._index = IndexEntries()
        meta, _ = self._kept_block(position, end, BlockType.ROOT_INDEX)
        source = self._at("the index of the meta blocks", position)
        self._meta_index = parse_root_index(meta, trailer.meta_index_count, start, source, has_rows=False)
        info, _ = self._kept_block(trailer.file_info_offset, end, BlockType.FILE_INFO)
        source = self._at("the file info", trailer.file_info_offset)
        self._file_info = parse_file_info(info, source)
        _check_cells(self._file_info, source)

    def _writes_zero_checksums(self, start: int, end: int) -> bool:
        """Whether the blocks after the data have zeros as checksums. All blocks of the file's writer have them then.

        Args:
            start: The offset of the root of the index, the first of three blocks.
            end: The offset after the last one.
        """
        position = start
        while position < end:
            source = self._at("the block", position)
            block = memoryview(self._kept)[position - self._kept_from : end - self._kept_from]
            if not has_zero_checksums(block, source):
                return False
            position += parse_header(block, source).stored_bytes
        logger.debug("%s has zeros in place of checksums: its blocks are not verified", self._source)
        return True

    def _kept_block(self, offset: int, end: int, block_type: BlockType) -> tuple[bytes, int]:
        """The content of a block after the data, and the offset after the block."""
        source = self._at("the block", offset)
        data = memoryview(self._kept)[offset - self._kept_from : end - self._kept_from]
        header, content = decode_block(data, self.trailer.compression, source, zeros_are_absent=self._zeros_are_absent)
        _check_type(header.block_type, (block_type,), source)
        return content, offset + header.stored_bytes

    def _text_of(self, name: str) -> str | None:
        value = self._file_info.get(name)
        if value is None:
            return None
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise HoodieCorruptedDataException(
                f"Cannot read {self._at('the file info', self.trailer.file_info_offset)}: {name} is no text: {error}"
            ) from error

    def _scanned_blocks(self) -> Iterator[tuple[bytes, str]]:
        """The contents of all data blocks with their sources, one request for many of them."""
        position, last = self.trailer.first_data_block_offset, self.trailer.last_data_block_offset
        end = self.trailer.load_on_open_offset
        if position is None or last is None:
            return
        window, start = memoryview(b""), position
        while position <= last:
            source = self._at("the block", position)
            bytes_left = start + len(window) - position
            needed = HEADER_BYTES
            if bytes_left >= HEADER_BYTES:
                needed = parse_header(window[position - start :], source).stored_bytes
            if position + needed > end:
                raise HoodieCorruptedDataException(
                    f"Cannot read {source}: it announces {needed} bytes where {end - position} are left"
                )
            if bytes_left < needed:
                window, start = self._fetch(position, min(max(needed, _REQUEST_BYTES), end - position)), position
                continue
            header, content = decode_block(
                window[position - start :],
                self.trailer.compression,
                source,
                zeros_are_absent=self._zeros_are_absent,
            )
            if header.block_type is BlockType.DATA:
                yield content, source
            else:
                _check_type(header.block_type, (BlockType.LEAF_INDEX, BlockType.INTERMEDIATE_INDEX), source)
            position += header.stored_bytes

    def _wanted_data_blocks(
        self, wanted: Sequence[bytes], *, as_prefixes: bool
    ) -> Iterator[tuple[DataBlock, int, int]]:
        """The data blocks that may hold searched keys, each with the range of these keys."""
        found = wanted_blocks(self._index, wanted, 0, len(wanted), as_prefixes=as_prefixes)
        yield from self._below(self._index, list(found), self.trailer.data_index_levels, wanted, as_prefixes)

    def _below(
        self, entries: IndexEntries, found: list[WantedBlock], level: int, wanted: Sequence[bytes], as_prefixes: bool
    ) -> Iterator[tuple[DataBlock, int, int]]:
        """The data blocks below blocks of the index that may hold searched keys."""
        numbers = [block.number for block in found]
        if level == 1:
            contents = self._read_blocks(entries, numbers, (BlockType.DATA,))
            for block, content in zip(found, contents, strict=True):
                source = self._at("the block", entries.offsets[block.number])
                yield decode_data_block(content, source), block.first, block.until
            return
        # The inner blocks are joined to one list, so that their data blocks are read by few requests.
        wanted_below, joined = [], IndexEntries()
        types = (BlockType.LEAF_INDEX,) if level == 2 else (BlockType.LEAF_INDEX, BlockType.INTERMEDIATE_INDEX)
        for block, content in zip(found, self._read_blocks(entries, numbers, types), strict=True):
            source = self._at("the block", entries.offsets[block.number])
            inner = parse_inner_index(content, self.trailer.load_on_open_offset, source)
            inner_blocks = wanted_blocks(inner, wanted, block.first, block.until, as_prefixes=as_prefixes)
            wanted_below += [attrs.evolve(part, number=part.number + len(joined)) for part in inner_blocks]
            joined.extend(inner)
        check_places(joined, self.trailer.load_on_open_offset, self._at("the index", self.trailer.load_on_open_offset))
        yield from self._below(joined, wanted_below, level - 1, wanted, as_prefixes)

    def _read_blocks(
        self, entries: IndexEntries, numbers: Sequence[int], types: Sequence[BlockType]
    ) -> Iterator[bytes]:
        """The contents of the given blocks of an index, ascending. Neighbouring blocks are read by one request."""
        first = 0
        while first < len(numbers):
            start = entries.offsets[numbers[first]]
            end = start + entries.sizes[numbers[first]]
            until = first + 1
            while until < len(numbers):
                offset, size = entries.offsets[numbers[until]], entries.sizes[numbers[until]]
                if not (0 <= offset - end <= _GAP_BYTES and offset + size - start <= _REQUEST_BYTES):
                    break
                end, until = offset + size, until + 1
            data = self._fetch(start, end - start)
            parts = []
            for number in numbers[first:until]:
                offset, size = entries.offsets[number], entries.sizes[number]
                parts.append((data[offset - start : offset - start + size], self._at("the block", offset)))
            decoded = decode_blocks(parts, self.trailer.compression, zeros_are_absent=self._zeros_are_absent)
            for (part, source), (header, content) in zip(parts, decoded, strict=True):
                if header.stored_bytes != len(part):
                    raise HoodieCorruptedDataException(
                        f"Cannot read {source}: it announces {header.stored_bytes} bytes, and the index {len(part)}"
                    )
                _check_type(header.block_type, types, source)
                yield content
            first = until

    def _fetch(self, offset: int, count: int) -> memoryview:
        """Bytes of the file, which must exist."""
        if offset >= self._kept_from:
            return memoryview(self._kept)[offset - self._kept_from : offset - self._kept_from + count]
        return memoryview(read_range(self._stream, self._source, offset, count))

    def _at(self, what: str, offset: int) -> str:
        return f"{what} at byte {offset} of the HFile {self._source}"


def _check_type(found: BlockType, expected: Sequence[BlockType], source: str) -> None:
    if found not in expected:
        raise HoodieCorruptedDataException(
            f"Cannot read {source}: it is a block of type {found.name} where {expected[0].name} is expected"
        )


def _check_cells(file_info: Mapping[str, bytes], source: str) -> None:
    """Raise if entries have features that Hudi never writes: tags, or versions that take more than a byte."""
    for name, expected in ((_CELL_FORMAT, 1), (_CELL_VERSIONS, 0)):
        value = int.from_bytes(file_info.get(name, b""))
        # The first releases of Hudi's own writer do not store the form.
        if name in file_info and value != expected:
            raise HoodieNotSupportedException(
                f"Cannot read {source}: {name} is {value}, so the file is not of the form that Hudi writes"
            )
    if _TAGS in file_info:
        raise HoodieNotSupportedException(f"Cannot read {source}: the entries have tags, which Hudi never writes")


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_arrays(
        [pa.concat_arrays([batch.column(number) for batch in batches]) for number in range(len(ENTRY_SCHEMA))],
        schema=ENTRY_SCHEMA,
    )


def _sorted_keys(keys: pa.StringArray | pa.ChunkedArray) -> pa.StringArray:
    """Keys in ascending order of their bytes."""
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    if keys.null_count:
        raise HoodieKeyException(f"Cannot look up keys in an HFile: {keys.null_count} of {len(keys)} are null")
    keys = keys.cast(pa.string())
    if len(keys) > 1 and not pc.all(pc.less_equal(keys[:-1], keys[1:])).as_py():
        keys = keys.take(pc.sort_indices(keys))
    return keys


def _without_longer_ones(prefixes: pa.StringArray) -> list[bytes]:
    """Prefixes, ascending, without those that begin with another one."""
    kept: list[bytes] = []
    for prefix in KeysOf(prefixes):
        if not kept or not prefix.startswith(kept[-1]):
            kept.append(prefix)
    return kept


def _with_prefixes(block: DataBlock, prefixes: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """The places of keys that begin with one of the ascending prefixes."""
    texts = block.keys()
    if len(texts) > 1 and not pc.all(pc.less_equal(texts[:-1], texts[1:])).as_py():
        raise HoodieCorruptedDataException(f"Cannot read {block.source}: its keys are not in order")
    keys, found = KeysOf(texts), [np.empty(0, dtype=np.int64)]
    until = 0
    for prefix in prefixes:
        first = bisect_left(keys, prefix, lo=until)
        # No UTF-8 text has the byte 0xff.
        until = bisect_left(keys, prefix + b"\xff", lo=first)
        found.append(np.arange(first, until))
    return np.concatenate(found)
