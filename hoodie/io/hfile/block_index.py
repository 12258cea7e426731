"""The index of an HFile: the block that may hold a key.

The root is a sequence of entries: int64 offset, int32 length of the block, length of the key, key. An index of several
levels has inner blocks. An inner block holds the number of its entries, the int32 offset of each entry and of the end,
then the entries without the lengths of their keys.

The key of an entry is at most the first key of its block, and greater than all keys of the previous block: HBase writes
the shortest such key. It is stored as in data blocks: int16 length of the row, row, and HBase's other parts of a key.

HBase and Hudi 1.2 write lengths as Hadoop's ``VLong``. The first releases of Hudi's own writer write varints of
protocol buffers, which differ from 128 on and which its reader does not know.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import attrs

from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.hfile.block_codec import HEADER_BYTES, MAX_STORED_BYTES

_ENTRY = struct.Struct(">qi")
_MIDDLE_BYTES = 16
"""The length of HBase's note of the middle block, after the root of an index of several levels."""
_INT = struct.Struct(">i")
_ROW_LENGTH = struct.Struct(">h")
_FIRST_ON_ROW = b"\0\x7f" + b"\xff" * 7 + b"\xff"
"""The end of a key that HBase made up for an entry: no column, the latest time, the largest type."""


@attrs.frozen
class IndexEntries:
    """The blocks in an index, in the order of the file. The lists grow while an index is read or written.

    Attributes:
        offsets: The offset of each block.
        sizes: The length of each block, with header and checksums.
        keys: The least key that each block may hold; for meta blocks their names.
    """

    offsets: list[int] = attrs.field(factory=list)
    sizes: list[int] = attrs.field(factory=list)
    keys: list[bytes] = attrs.field(factory=list)

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, offset: int, size: int, key: bytes) -> None:
        """Add a block after the others."""
        self.offsets.append(offset)
        self.sizes.append(size)
        self.keys.append(key)

    def extend(self, others: IndexEntries) -> None:
        """Add blocks after the others."""
        self.offsets.extend(others.offsets)
        self.sizes.extend(others.sizes)
        self.keys.extend(others.keys)


@attrs.frozen
class WantedBlock:
    """A block of an index, with the range of searched keys or prefixes that it may hold.

    Attributes:
        number: Its place among the entries of the index.
        first: The place of the first searched key or prefix.
        until: The place after the last one.
    """

    number: int
    first: int
    until: int


def parse_root_index(
    content: bytes, count: int, end: int, source: str, *, levels: int = 1, has_rows: bool = True
) -> IndexEntries:
    """The entries of a root.

    Args:
        content: The content of its block.
        count: The number of entries by the trailer.
        end: The offset before which its blocks must end.
        source: The block's place and file, for messages.
        levels: The number of levels of the index; above 1, HBase's note of the middle block follows the entries.
        has_rows: Whether keys are stored as in data blocks; False for the names of meta blocks.

    Raises:
        HoodieCorruptedDataException: The root is damaged.
    """
    problem: ValueError | None = None
    for parse_length in (_parse_vlong, _parse_varint):
        try:
            entries, trailing_bytes = _parse_root(content, count, parse_length, has_rows)
            if trailing_bytes != (_MIDDLE_BYTES if levels > 1 else 0):
                raise ValueError(f"{trailing_bytes} bytes stand behind its {count} entries")
            return _checked(entries, end, is_sorted=has_rows)
        except ValueError as error:
            problem = problem or error
    raise HoodieCorruptedDataException(f"Cannot read {source}: the index is damaged: {problem}") from problem


def parse_inner_index(content: bytes, end: int, source: str) -> IndexEntries:
    """The entries of a block of the index between the root and the data blocks.

    Args:
        content: The content of the block.
        end: The offset before which its blocks must end.
        source: The block's place and file, for messages.

    Raises:
        HoodieCorruptedDataException: The block is damaged.
    """
    try:
        if len(content) < _INT.size:
            raise ValueError(f"it has {len(content)} bytes")
        count = _INT.unpack_from(content)[0]
        start = _INT.size * (count + 2)
        if count < 0 or start > len(content):
            raise ValueError(f"it announces {count} entries in {len(content)} bytes")
        bounds = struct.unpack_from(f">{count + 1}i", content, _INT.size)
        if bounds[0] != 0 or start + bounds[-1] != len(content):
            raise ValueError(f"its entries take {bounds[-1]} of {len(content) - start} bytes")
        entries = IndexEntries()
        for first, until in pairwise(bounds):
            if until - first < _ENTRY.size:
                raise ValueError(f"an entry of {until - first} bytes")
            _add(entries, content, start + first, content[start + first + _ENTRY.size : start + until], has_row=True)
        return _checked(entries, end, is_sorted=True)
    except ValueError as error:
        raise HoodieCorruptedDataException(f"Cannot read {source}: the index is damaged: {error}") from error


def check_places(entries: IndexEntries, end: int, source: str) -> None:
    """Raise unless blocks follow each other in the file: an index that names blocks repeatedly would cost too much.

    Args:
        entries: The blocks in several blocks of an index.
        end: The offset before which they must end.
        source: The place of the index and file, for messages.

    Raises:
        HoodieCorruptedDataException: They do not follow each other.
    """
    try:
        _checked(entries, end, is_sorted=True)
    except ValueError as error:
        raise HoodieCorruptedDataException(f"Cannot read {source}: the index is damaged: {error}") from error


def encode_root_index(entries: IndexEntries) -> bytes:
    """The content of a root, as HBase writes it.

    Args:
        entries: The entries, with keys as they are stored.
    """
    parts = []
    for offset, size, key in zip(entries.offsets, entries.sizes, entries.keys, strict=True):
        parts += [_ENTRY.pack(offset, size), _vlong(len(key)), key]
    return b"".join(parts)


def middle_key(left: bytes, right: bytes) -> bytes:
    """The stored key of the entry of a block: the shortest row after one row and not after another.

    Args:
        left: The last row of the previous block.
        right: The first row of the block, which is greater.

    Returns:
        The key with the end that HBase stores after such a row.
    """
    shared = next((place for place, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), len(left))
    row = right[: shared + 1] if shared == len(left) else left[:shared] + bytes([left[shared] + 1])
    return _ROW_LENGTH.pack(len(row)) + row + _FIRST_ON_ROW


def wanted_blocks(
    entries: IndexEntries, wanted: Sequence[bytes], first: int, until: int, *, as_prefixes: bool
) -> Iterator[WantedBlock]:
    """The blocks that may hold some of the searched keys, or keys with the searched prefixes.

    In a file with repeated keys, a key that equals the key of an entry may also be at the end of the previous block.

    Args:
        entries: The blocks.
        wanted: Keys, ascending; or prefixes, ascending, none of which begins with another.
        first: The place of the first one to search.
        until: The place after the last one.
        as_prefixes: Whether they are prefixes.
    """
    number = 0
    while first < until and number < len(entries):
        number = max(number, bisect_left(entries.keys, wanted[first], lo=number) - 1)
        last = until
        if number + 1 < len(entries):
            last = bisect_right(wanted, entries.keys[number + 1], lo=first, hi=until)
        if last > first:
            yield WantedBlock(number, first, last)
        number += 1
        if number < len(entries):
            least = entries.keys[number]
            ended = range(first, last)
            first += bisect_left(ended, True, key=lambda place: _may_follow(wanted[place], least, as_prefixes))


def _may_follow(wanted: bytes, least: bytes, as_prefixes: bool) -> bool:
    """Whether a block with keys from a least one on may hold a key, or a key with a prefix."""
    return wanted >= (least[: len(wanted)] if as_prefixes else least)


def _parse_root(
    content: bytes, count: int, parse_length: Callable[[bytes, int], tuple[int, int]], has_rows: bool
) -> tuple[IndexEntries, int]:
    """The entries, and the number of bytes after them."""
    entries = IndexEntries()
    position = 0
    while len(entries) < count:
        if position + _ENTRY.size >= len(content):
            raise ValueError(f"it has {len(entries)} of {count} entries")
        length, start = parse_length(content, position + _ENTRY.size)
        if not 0 <= length <= len(content) - start:
            raise ValueError(f"a key of {length} bytes where {len(content) - start} are left")
        _add(entries, content, position, content[start : start + length], has_row=has_rows)
        position = start + length
    return entries, len(content) - position


def _add(entries: IndexEntries, content: bytes, position: int, key: bytes, *, has_row: bool) -> None:
    offset, size = _ENTRY.unpack_from(content, position)
    if has_row:
        length = _ROW_LENGTH.unpack_from(key)[0] if len(key) >= _ROW_LENGTH.size else -1
        # Hudi's own writer stores the row alone; HBase stores 12 bytes with it, 2 of them for its length.
        if length < 0 or len(key) - _ROW_LENGTH.size - length not in (0, len(_FIRST_ON_ROW)):
            raise ValueError(f"a key of {len(key)} bytes with a row of {length}")
        key = key[_ROW_LENGTH.size : _ROW_LENGTH.size + length]
    entries.append(offset, size, key)


def _checked(entries: IndexEntries, end: int, *, is_sorted: bool) -> IndexEntries:
    """Entries whose blocks follow each other, end before an offset, and have keys in order."""
    position = 0
    for offset, size in zip(entries.offsets, entries.sizes, strict=True):
        if offset < position or not HEADER_BYTES <= size <= MAX_STORED_BYTES or offset + size > end:
            raise ValueError(f"it names a block of {size} bytes at byte {offset}, which cannot be")
        position = offset + size
    if is_sorted and any(entries.keys[n] > entries.keys[n + 1] for n in range(len(entries) - 1)):
        raise ValueError("its keys are not in order")
    return entries


def _parse_vlong(content: bytes, position: int) -> tuple[int, int]:
    """A number in Hadoop's variable length, and the offset after it."""
    first = content[position]
    if first < 0x80:
        return first, position + 1
    # -113 means that one byte follows, -120 that eight do; from -112 on the byte is the number itself.
    count = 0x90 - first
    if not 1 <= count <= 8 or position + 1 + count > len(content):
        raise ValueError("the length of a key is negative")
    return int.from_bytes(content[position + 1 : position + 1 + count], "big"), position + 1 + count


def _vlong(number: int) -> bytes:
    if number < 0x80:
        return bytes([number])
    count = (number.bit_length() + 7) // 8
    return bytes([0x90 - count]) + number.to_bytes(count, "big")


def _parse_varint(content: bytes, position: int) -> tuple[int, int]:
    """A varint of protocol buffers, and the offset after it."""
    number = 0
    for place, byte in enumerate(content[position : position + 5]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, position + place + 1
    raise ValueError("the length of a key does not end")
