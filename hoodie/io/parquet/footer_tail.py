"""Read and write a base file's footer without its bloom filter, which is nearly all of its bytes: 430 kB by default.

A footer is one value in Thrift's compact form: schema, row groups, then key/value pairs, among them the filter as text.
Hudi and hoodie write the smallest and the largest key behind the filter, so the end of the file is enough for these.
For 10,000 files that is 40 MB instead of 4 GB. For everything else, this module cuts the filter's text out of the bytes
and sets its length to 0; it does not read a long text. What remains is a footer of a few kilobytes without the filter::

    ... 18 1b "org.apache.hudi.bloomfilter" 18 <length> <431,000 characters> 00 ...
    ... 18 1b "org.apache.hudi.bloomfilter" 18 00 00 ...
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.common.fs.pending_overwrite import refuse_overwritten
from hoodie.exception import HoodieIOException, HoodieMissingFileException
from hoodie.storage.storage import HoodieStorage

TAIL_BYTES = 4096
"""Bytes read from the end of a file for the range of keys."""
_PART_BYTES = 1 << 15
"""Bytes read from the end of a file, and from the start of its footer, for all but the filter."""
_MAGIC = b"PAR1"
_RANGE_NAMES = (b"hoodie_min_record_key", b"hoodie_max_record_key")
_BEGIN_OF_RANGE_NAMES = b"hoodie_m"
_FILTER_NAME = b"org.apache.hudi.bloomfilter"
_TEXT_FIELD = b"\x18"
"""Header of a text in the next field."""
_LONGEST_LENGTH = 5
"""Most bytes of a length, with seven bits in each."""


def read_key_range(storage: HoodieStorage, path: str) -> tuple[bytes, bytes] | None:
    """The smallest and the largest record key as UTF-8; None if the end of the file does not surely hold them.

    After None, read the whole footer: it may have no range, a long one, or its entries in another order.

    Args:
        storage: The storage of the file.
        path: Full path of the file.

    Raises:
        HoodieMissingFileException: There is no such file.
        HoodieIOException: Storage failed.
    """
    try:
        with storage.open_input_file(path) as file:
            _, tail = _read_tail(file, TAIL_BYTES)
    except FileNotFoundError as error:
        raise missing_base_file(storage, path) from error
    except OSError as error:
        raise HoodieIOException(f"reading the end of {path} failed: {error}") from error
    length = _footer_length(tail)
    # Bytes before the footer belong to rows, which may hold any text.
    footer = tail[-8 - length : -8] if length is not None else b""
    low, high = (_value(footer, name) for name in _RANGE_NAMES)
    if low is None or high is None or _BEGIN_OF_RANGE_NAMES in low or _BEGIN_OF_RANGE_NAMES in high:
        return None
    return low, high


def missing_base_file(storage: HoodieStorage, path: str) -> HoodieMissingFileException:
    """The error for a base file that does not exist.

    Args:
        storage: The storage of the table.
        path: Its full path.

    Raises:
        HoodiePendingOverwriteException: A new table is taking the place of its table.
    """
    refuse_overwritten(storage, path)
    return HoodieMissingFileException(
        f"base file {path} is missing; if a clean, rollback or restore removed it meanwhile, load the table again "
        "(hoodie.cleaner.commits.retained keeps files for longer reads), otherwise restore the file from a copy"
    )


def read_short_metadata(storage: HoodieStorage, path: str) -> pq.FileMetaData | None:
    """A base file's metadata with an empty text as its bloom filter.

    Args:
        storage: The storage of the file.
        path: Full path of the file.

    Returns:
        The metadata; None if the filter cannot be cut out: there is none, or the footer is damaged or has another form.
        Read the whole footer then.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: Storage failed.
    """
    with storage.open_input_file(path) as file:
        tail_start, tail = _read_tail(file, _PART_BYTES)
        length = _footer_length(tail)
        if length is None:
            return None
        start = tail_start + len(tail) - 8 - length
        if start < len(_MAGIC):
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
        metadata = pq.read_metadata(pa.BufferReader(_MAGIC + short + len(short).to_bytes(4, "little") + _MAGIC))
    except (pa.ArrowException, OSError):
        return None
    return metadata if (metadata.metadata or {}).get(_FILTER_NAME) == b"" else None


def write_with_value(
    stream: pa.NativeFile, file: pa.Buffer, placeholder: str, pieces: Iterable[bytes], length: int
) -> None:
    """Write a file, with another value of an entry of its footer.

    pyarrow copies each value several times. For the filter of a small file, that takes longer than all of its rows.

    Args:
        stream: The target.
        file: A whole file.
        placeholder: The value of the entry, which nothing else in the file equals; shorter than 128 bytes.
        pieces: The other value, in pieces.
        length: The length of the other value.
    """
    content = memoryview(file)
    place = bytes(file).rindex(placeholder.encode())
    tail = content[place + len(placeholder) : -8]
    varint = bytearray()
    rest = length
    while rest >= 0x80:
        varint.append(rest & 0x7F | 0x80)
        rest >>= 7
    varint.append(rest)
    # The length of the placeholder is the byte before it.
    grown = len(varint) + length - 1 - len(placeholder)
    footer_length = int.from_bytes(content[-8:-4], "little") + grown
    for part in chain((content[: place - 1], varint), pieces, (tail, footer_length.to_bytes(4, "little") + _MAGIC)):
        stream.write(part)


def _read_tail(file: pa.NativeFile, count: int) -> tuple[int, bytes]:
    """The offset of a file's last bytes, and these bytes."""
    start = max(0, file.size() - count)
    file.seek(start)
    return start, file.read(count)


def _footer_length(tail: bytes) -> int | None:
    """Length of the footer; None if the file does not end with a footer."""
    length = int.from_bytes(tail[-8:-4], "little")
    return length if len(tail) >= 8 and tail[-4:] == _MAGIC and length else None


def _entry(name: bytes) -> bytes:
    """The first bytes of an entry: name and value are texts, each after its length."""
    return _TEXT_FIELD + bytes([len(name)]) + name + _TEXT_FIELD


def _text_at(data: bytes, place: int) -> tuple[int, int] | None:
    """The start and end of the text whose length is at a place; None if there is no valid length."""
    length = 0
    for number, byte in enumerate(data[place : place + _LONGEST_LENGTH]):
        length |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            start = place + number + 1
            return start, start + length
    return None


def _value(footer: bytes, name: bytes) -> bytes | None:
    """The value of an entry; None unless the footer holds it exactly once."""
    entry = _entry(name)
    start = footer.find(entry)
    if start < 0 or footer.find(name, start + len(entry)) >= 0 or footer.find(name) != start + 2:
        return None
    found = _text_at(footer, start + len(entry))
    # A zero byte ends the entry after its value.
    return footer[slice(*found)] if found is not None and footer[found[1] : found[1] + 1] == b"\0" else None


def _without_filter(head: bytes, tail: bytes, start: int, tail_start: int) -> bytes | None:
    """The footer without the text of the filter.

    Args:
        head: The footer's first bytes, or all of them.
        tail: The file's last bytes.
        start: The offset of the footer in the file.
        tail_start: The offset of ``tail`` in the file.
    """
    entry = head.find(_entry(_FILTER_NAME))
    if entry < 0:
        return None
    position = entry + len(_entry(_FILTER_NAME))
    found = _text_at(head, position)
    if found is None:
        return None
    rest = start + found[1]
    if not tail_start <= rest <= tail_start + len(tail) - 8:
        return None
    return head[:position] + b"\0" + tail[rest - tail_start : -8]
