"""Read the Parquet part of a base file's footer without the bloom filter, which is nearly all of its bytes.

A footer is one value in Thrift's compact form: schema, row groups, then key/value pairs, among them the filter as text.
The text is cut out of the bytes, unread where it is long, and its length set to 0; what remains is a footer of a few
kilobytes that says all but the filter::

    ... 18 1b "org.apache.hudi.bloomfilter" 18 <length> <431,000 characters> 00 ...
    ... 18 1b "org.apache.hudi.bloomfilter" 18 00 00 ...
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.storage.storage import HoodieStorage

__all__ = ["read_short_metadata"]

_MAGIC = b"PAR1"
_NAME = b"org.apache.hudi.bloomfilter"
_TEXT_FIELD = 0x18
"""Header of a text that is the next field."""
_ENTRY = bytes([_TEXT_FIELD, len(_NAME)]) + _NAME + bytes([_TEXT_FIELD])
_PART_BYTES = 1 << 15
"""Read from the end of the file, and from the start of the footer."""
_LONGEST_LENGTH = 5
"""Bytes of a length, seven bits in each."""


def read_short_metadata(storage: HoodieStorage, path: str) -> pq.FileMetaData | None:
    """A base file's metadata, its bloom filter an empty text.

    Args:
        storage: Where the file is.
        path: Full path of the file.

    Returns:
        None when the filter cannot be cut out: there is none, or the footer is not as expected, or damaged. The whole
        footer tells which.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: Storage failed.
    """
    with storage.open_input_file(path) as file:
        size = file.size()
        tail_start = max(0, size - _PART_BYTES)
        file.seek(tail_start)
        tail = file.read(size - tail_start)
        if len(tail) < 12 or tail[-4:] != _MAGIC:
            return None
        length = struct.unpack("<i", tail[-8:-4])[0]
        start = size - 8 - length
        if length <= 0 or start < 4:
            return None
        if start >= tail_start:
            head = tail[start - tail_start : -8]
        else:
            file.seek(start)
            head = file.read(min(_PART_BYTES, length))
    short = _without_filter(head, tail, start, tail_start)
    if short is None:
        return None
    try:
        metadata = pq.read_metadata(pa.BufferReader(_MAGIC + short + struct.pack("<i", len(short)) + _MAGIC))
    except (pa.ArrowException, OSError):
        return None
    return metadata if (metadata.metadata or {}).get(_NAME) == b"" else None


def _without_filter(head: bytes, tail: bytes, start: int, tail_start: int) -> bytes | None:
    """The footer without the text of the filter.

    Args:
        head: The footer's first bytes, or all of them.
        tail: The file's last bytes.
        start: Where the footer begins in the file.
        tail_start: Where ``tail`` begins in the file.
    """
    entry = head.find(_ENTRY)
    if entry < 0:
        return None
    position = entry + len(_ENTRY)
    text_length = 0
    for number, byte in enumerate(head[position : position + _LONGEST_LENGTH]):
        text_length |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            break
    else:
        return None
    rest = start + position + number + 1 + text_length
    if not tail_start <= rest <= tail_start + len(tail) - 8:
        return None
    return head[:position] + b"\0" + tail[rest - tail_start : -8]
