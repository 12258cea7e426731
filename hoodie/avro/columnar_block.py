"""The content of Avro blocks in log files: many records of one schema, to and from Arrow.

    int32 version 3 | int32 number of records | for each record: int32 length, Avro binary

All integers are big endian.
"""

from __future__ import annotations

import struct
from array import array as compact_list
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.avro.columnar_cursors import Bytes, Longs
from hoodie.avro.columnar_decoder import decode_records
from hoodie.avro.columnar_encoder import encoded_chunks
from hoodie.avro.columnar_pieces import raw_bytes
from hoodie.exception import HoodieCorruptedDataException, HoodieNotSupportedException

BLOCK_VERSION = 3
"""The version of the content."""
_INT = struct.Struct(">i")
_INT_BYTES = 4
_FEW = 16
"""One record of so many at most is searched for: to decode all takes no longer than to find more."""
_HEADER = struct.Struct(">ii")


def encode_avro_block(rows: pa.RecordBatch, avro_schema: str) -> bytes:
    """The content of an Avro block with these rows.

    Args:
        rows: See `hoodie.avro.columnar_encoder.encode_records`.
        avro_schema: JSON of the record, which the block's header SCHEMA stores.

    Raises:
        HoodieSchemaException: A column or value does not fit the schema; the message names row and column.
    """
    return next(encode_avro_blocks(rows, avro_schema))


def encode_avro_blocks(rows: pa.RecordBatch, avro_schema: str, max_bytes: int | None = None) -> Iterator[bytes]:
    """The contents of as many Avro blocks as some rows need; one block without records for no rows.

    Args:
        rows: See `hoodie.avro.columnar_encoder.encode_records`.
        avro_schema: JSON of the record.
        max_bytes: The maximum size of a content; a block holds at least one record, whatever its size. None for one
            block.

    Raises:
        HoodieSchemaException: A column or value does not fit the schema; the message names row and column.
    """
    parts: list[bytes | memoryview] = []
    count, size = 0, _HEADER.size
    for chunk in encoded_chunks(rows, avro_schema, _length_bytes):
        first, last = 0, len(chunk.bounds) - 1
        while first < last:
            until = last
            if max_bytes is not None:
                room = chunk.bounds[first] + max(max_bytes - size, 0)
                until = int(np.searchsorted(chunk.bounds, room, side="right")) - 1
                if until == first and not count:
                    until = first + 1
            if until > first:
                parts.append(chunk.data[chunk.bounds[first] : chunk.bounds[until]])
                count, size = count + until - first, size + int(chunk.bounds[until] - chunk.bounds[first])
            first = until
            if first < last:
                yield b"".join([_HEADER.pack(BLOCK_VERSION, count), *parts])
                parts, count, size = [], 0, _HEADER.size
    if count or not rows.num_rows:
        yield b"".join([_HEADER.pack(BLOCK_VERSION, count), *parts])


def _length_bytes(lengths: Longs) -> Bytes:
    return raw_bytes(lengths.astype(">i4"))


def decode_avro_block(
    content: bytes | memoryview | pa.Buffer,
    avro_schema: str,
    wanted: pa.Schema | None = None,
    source: str = "an Avro block",
) -> pa.RecordBatch:
    """The rows of an Avro block.

    Args:
        content: The bytes between the block's headers and footers.
        avro_schema: JSON of the record that the block was written with, from its header SCHEMA.
        wanted: The columns to return, and their types, see `hoodie.avro.columnar_decoder.decode_records`.
        source: The block's place and file, for messages.

    Raises:
        HoodieCorruptedDataException: The lengths in the content contradict each other, or a record is damaged; the
            message gives its number.
        HoodieNotSupportedException: The content has another version.
        HoodieSchemaException: The schema cannot be read, or a wanted type does not fit the one written.
    """
    starts, ends = record_places(content, source)
    return decode_records(avro_schema, content, starts, ends, wanted).require_good(source)


def decode_records_with(
    content: bytes, texts: Sequence[bytes], avro_schema: str, wanted: pa.Schema, source: str
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64], int]:
    """The rows of an Avro block whose bytes contain one of some texts: no other row has a column with this text.

    Args:
        content: See `decode_avro_block`.
        texts: The texts (UTF-8), none of them empty.
        avro_schema: See `decode_avro_block`.
        wanted: See `decode_avro_block`.
        source: See `decode_avro_block`.

    Returns:
        The rows, their numbers in the block, ascending, and the number of all rows of the block.

    Raises:
        HoodieException: See `decode_avro_block`; other rows may be damaged.
    """
    starts, ends = record_places(content, source)
    numbers = _records_with(content, texts, ends)
    rows = decode_records(avro_schema, content, starts[numbers], ends[numbers], wanted).require_good(source)
    return rows, numbers, len(starts)


def _records_with(content: bytes, texts: Sequence[bytes], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The records whose bytes contain one of the texts, ascending; all records, if these are no few."""
    found: set[int] = set()
    for text in texts:
        place = content.find(text)
        while place >= 0:
            number = int(np.searchsorted(ends, place, side="right"))
            found.add(number)
            if len(found) > len(ends) // _FEW:
                return np.arange(len(ends))
            place = content.find(text, int(ends[number]))
    return np.array(sorted(found), dtype=np.int64)


def record_places(
    content: bytes | memoryview | pa.Buffer, source: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The byte ranges of the records of an Avro block in its content.

    Args:
        content: The bytes between the block's headers and footers.
        source: The block's place and file, for messages.

    Raises:
        HoodieCorruptedDataException: The lengths in the content contradict each other.
        HoodieNotSupportedException: The content has another version.
    """
    content = memoryview(content).cast("B")
    if len(content) < _HEADER.size:
        raise HoodieCorruptedDataException(
            f"Cannot read Avro records of {source}: its content has {len(content)} bytes, fewer than its header takes"
        )
    version, count = _HEADER.unpack_from(content)
    if version != BLOCK_VERSION:
        raise HoodieNotSupportedException(
            f"Cannot read Avro records of {source}: version {version} of such blocks is not supported"
        )
    size, length_at, position = len(content), _INT.unpack_from, _HEADER.size
    ends = compact_list("q")
    add = ends.append
    # Each record takes at least its length, so a wrong number of records does not make this long.
    for _ in range(min(count, size // _INT_BYTES)):
        if position + _INT_BYTES > size:
            break
        length = length_at(content, position)[0]
        position += _INT_BYTES + length
        if length < 0 or position > size:
            break
        add(position)
    if len(ends) != count or position != size:
        raise HoodieCorruptedDataException(
            f"Cannot read Avro records of {source}: it announces {count} records, and the lengths of {len(ends)} fit "
            f"into its content of {size} bytes" + (", with bytes behind them" if len(ends) == count else "")
        )
    ends_of = np.frombuffer(ends, np.int64)
    starts = np.concatenate([[_HEADER.size], ends_of[:-1]])[:count] + _INT.size
    return starts, ends_of
