"""The content of data blocks: entries of a key and a value, converted to and from Arrow.

    int32 length of the key | int32 length of the value | key | value | one byte 0 (HBase's version of the cell)

The key has the record key as its row, and the other parts that HBase needs:

    int16 length of the row | row | int8 0 (no column family) | int64 time, the latest | int8 4 (put)

The first releases of Hudi's own writer store keys without these other parts.

All numbers are big endian. Arrow copies the bytes; numpy finds and makes the numbers between them.
"""

from __future__ import annotations

import struct
from array import array as compact_list
from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.util.arrow_buffers import numbers_of, pieces_of, rows_of
from hoodie.common.util.text_order import shared_bytes, words_at, words_behind
from hoodie.exception import HoodieCorruptedDataException

ENTRY_SCHEMA = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
"""The columns of entries: the record key, and the bytes of the record."""
MAX_ROW_BYTES = (1 << 15) - 1
"""The most bytes of a record key."""
_HEAD = np.dtype([("key", ">i4"), ("value", ">i4"), ("row", ">i2")])
_LENGTHS = struct.Struct(">II")
_ROW_LENGTH = struct.Struct(">h")
_KEY_END = b"\0\x7f" + b"\xff" * 7 + b"\x04"
_ALL_ONES = np.uint32(0xFFFFFFFF)
_TIME_BEGINS = 0x7F, 0xFF7F, 0xFFFF7F, 0xFFFFFF7F
"""The first bytes of the time at the end of a key as little endian numbers of one to four bytes."""
_VERSION = b"\0"
_BETWEEN = _ROW_LENGTH.size + len(_KEY_END)
"""The length of the parts of a key beside its row."""
_LEAST_BYTES_TO_SEARCH = 1 << 12
_MOST_AT_ONCE = 16 << 20
"""Entries are encoded in portions of about this many bytes, so that no offset exceeds 32 bits."""

Longs = npt.NDArray[np.int64]


@attrs.frozen(eq=False)
class DataBlock:
    """The entries of one data block, which are not decoded until they are asked for.

    Attributes:
        content: The content of the block.
        key_starts: The offset of each key (int64).
        key_ends: The offset after each key.
        value_starts: The offset of each value.
        value_ends: The offset after each value.
        source: The block's place and file, for messages.
    """

    content: bytes
    key_starts: Longs
    key_ends: Longs
    value_starts: Longs
    value_ends: Longs
    source: str

    def __len__(self) -> int:
        return len(self.key_starts)

    def keys(self, numbers: Longs | None = None) -> pa.StringArray:
        """Keys of the block.

        Args:
            numbers: The places of their entries, ascending; None for all.

        Raises:
            HoodieCorruptedDataException: A key is not UTF-8.
        """
        return self._texts(self._taken(numbers, 0)[0])

    def entries(self, numbers: Longs | None = None) -> pa.RecordBatch:
        """Entries of the block, in the columns of `ENTRY_SCHEMA`.

        Args:
            numbers: The places of the entries, ascending; None for all.

        Raises:
            HoodieCorruptedDataException: A key is not UTF-8.
        """
        keys, values = self._taken(numbers, 0, 2)
        return pa.RecordBatch.from_arrays([self._texts(keys), values], schema=ENTRY_SCHEMA)

    def find(self, wanted: pa.StringArray) -> Longs:
        """The places, ascending, of the entries that have one of the given keys.

        Keys are compared by the eight bytes after the common beginning of all keys of the block. Only keys that agree
        in these bytes are compared as a whole.

        Args:
            wanted: Keys, ascending, without nulls.

        Raises:
            HoodieCorruptedDataException: A key is not UTF-8.
        """
        found = self._places_by_words(wanted) if len(self) and len(wanted) else np.empty(0, np.int64)
        if found is None:
            places = pc.index_in(self.keys(), value_set=wanted)
            found = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
        return found

    def _taken(self, numbers: Longs | None, *which: int) -> list[pa.BinaryArray]:
        """The keys (0) or values (2) of the given entries.

        The bytes of each entry are divided into four spans: the key, the bytes after it, the value, the bytes after it.
        Arrow takes the wanted spans.
        """
        bounds = self.key_starts, self.key_ends, self.value_starts, self.value_ends
        ends = np.empty((len(self) if numbers is None else len(numbers), len(bounds)), np.int32)
        if not len(ends):
            return [pa.array([], pa.binary()) for _ in which]
        for column, places in enumerate(bounds):
            ends[:, column] = places if numbers is None else places[numbers]
        offsets = ends.reshape(-1)
        spans = pieces_of(self.content, offsets)
        first = np.arange(0, len(offsets), len(bounds))
        return [spans.take(numbers_of(first + place, pa.int64())) for place in which]

    def _texts(self, keys: pa.BinaryArray) -> pa.StringArray:
        try:
            return keys.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise HoodieCorruptedDataException(f"Cannot read {self.source}: a key is not UTF-8: {error}") from error

    def _places_by_words(self, wanted: pa.StringArray) -> Longs | None:
        """See `find`; None if keys are out of order, or too many agree in these eight bytes."""
        begins, ends, content = self.key_starts, self.key_ends, self.content
        first, last = content[begins[0] : ends[0]], content[begins[-1] : ends[-1]]
        shared = shared_bytes(first, last)
        words = words_behind(content, begins, ends, shared)
        if (words[1:] < words[:-1]).any():
            return None
        _, offsets, texts = wanted.buffers()
        limits = np.frombuffer(offsets, np.int32)[wanted.offset : wanted.offset + len(wanted) + 1].astype(np.int64)
        start = int(limits[0])
        part = b"" if texts is None else bytes(memoryview(texts)[start : int(limits[-1])])
        wanted_words = words_behind(part, limits[:-1] - start, limits[1:] - start, shared)
        places = np.searchsorted(words, wanted_words)
        rows = np.flatnonzero(words[np.minimum(places, len(words) - 1)] == wanted_words)
        places = places[rows]
        if (words[1:] == words[:-1]).any():
            counts = np.searchsorted(words, wanted_words[rows], side="right") - places
            total = int(counts.sum())
            if total > len(words):
                return None
            within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
            rows, places = np.repeat(rows, counts), np.repeat(places, counts) + within
        # Words ascend, so the searched keys and their places ascend together.
        keys = self._taken(places, 0)[0]
        is_same = pc.equal(keys, wanted.cast(pa.binary()).take(pa.array(rows))).to_numpy(zero_copy_only=False)
        return np.unique(places[is_same])


def decode_data_block(content: bytes, source: str) -> DataBlock:
    """The entries of a data block.

    Args:
        content: The content of the block, shorter than 2 GiB.
        source: The block's place and file, for messages.

    Raises:
        HoodieCorruptedDataException: The lengths in the content contradict each other.
    """
    found = _found_by_key_ends(content) or _found_one_by_one(content, source)
    starts, lengths = found
    data = np.frombuffer(content, dtype=np.uint8)
    if len(starts) and (len(content) < _HEAD.itemsize or int(starts[-1]) > len(content) - _HEAD.itemsize):
        raise _bad_entry(source, len(starts) - 1)
    keys = lengths >> 32
    key_starts = starts + _HEAD.itemsize
    value_starts = starts + _LENGTHS.size + keys
    value_ends = value_starts + (lengths & 0xFFFFFFFF)
    if len(starts):
        rows = np.ndarray((len(content) - 1,), _ROW_LENGTH.format, content, strides=(1,))[starts + _LENGTHS.size]
        rows = rows.astype(np.int64)
        is_bad = (rows < 0) | (keys < rows + _ROW_LENGTH.size) | (data[value_ends] != 0)
        if is_bad.any():
            raise _bad_entry(source, int(np.argmax(is_bad)))
    else:
        rows = starts
    return DataBlock(content, key_starts, key_starts + rows, value_starts, value_ends, source)


def _found_one_by_one(content: bytes, source: str) -> tuple[Longs, Longs]:
    """The offset of each entry, and the lengths of its key and value in one number; found by a loop."""
    size, lengths_at, position = len(content), _LENGTHS.unpack_from, 0
    bounds = compact_list("q", [0])
    add_bound = bounds.append
    while position + _LENGTHS.size <= size:
        key, value = lengths_at(content, position)
        position += key + value + 9
        add_bound(position)
    if position != size:
        raise HoodieCorruptedDataException(
            f"Cannot read {source}: entry {max(len(bounds) - 2, 0)} does not end where the content of {size} bytes does"
        )
    starts = np.frombuffer(bounds, dtype=np.int64)[:-1]
    return starts, words_at(content)[starts].astype(np.int64) if len(starts) else starts


def _found_by_key_ends(content: bytes) -> tuple[Longs, Longs] | None:
    """See `_found_one_by_one`; None if keys have several lengths or do not end as HBase's do, or if there are few.

    The end of a key is searched for. The lengths at the resulting offsets must lead from each entry to the next one,
    and from the last one to the end.
    """
    size = len(content)
    if size < _LEAST_BYTES_TO_SEARCH:
        return None
    key_bytes, _ = _LENGTHS.unpack_from(content, 0)
    if _LENGTHS.size + key_bytes > size:
        return None
    # The time at the end of a key is the largest number: 0x7f and seven times 0xff. Four of any seven bytes are an
    # aligned number of 32 bits; the number before it shows how many of the seven come first.
    quads = np.frombuffer(content, "<u4", size // 4)
    places = np.flatnonzero(quads == _ALL_ONES)
    if not len(places) or not places[0]:
        return None
    before = quads[places - 1]
    in_front = np.full(len(places), -1, np.int64)
    for count, ending in enumerate(_TIME_BEGINS):
        in_front[before >> np.uint32(24 - 8 * count) == ending] = count
    starts = 4 * places - in_front + (len(_KEY_END) - 2 - _LENGTHS.size - key_bytes)
    starts = starts[in_front >= 0]
    if not len(starts) or starts[0] != 0 or starts.min() < 0 or starts.max() > size - _LENGTHS.size:
        return None
    lengths = words_at(content)[starts].astype(np.int64)
    keys = lengths >> 32
    ends = starts + keys + (lengths & 0xFFFFFFFF) + (_LENGTHS.size + len(_VERSION))
    leads_on = (keys == key_bytes).all() and (ends[:-1] == starts[1:]).all() and ends[-1] == size
    return (starts, lengths) if leads_on else None


def _bad_entry(source: str, number: int) -> HoodieCorruptedDataException:
    return HoodieCorruptedDataException(
        f"Cannot read {source}: the lengths of entry {number} contradict each other, or it is not of Hudi's form"
    )


@attrs.frozen(eq=False)
class EncodedEntries:
    """Entries in the form of data blocks.

    Attributes:
        first: The place of the first entry among those that were given.
        data: Their bytes, one entry after the other.
        bounds: The offset of each entry in the bytes, and the end of the last one.
    """

    first: int
    data: memoryview
    bounds: Longs


def encoded_entries(keys: pa.StringArray, values: pa.BinaryArray) -> Iterator[EncodedEntries]:
    """Encode entries in the form of data blocks, in portions.

    Args:
        keys: Record keys, each of at most `MAX_ROW_BYTES` bytes, no nulls.
        values: Their values, no nulls.
    """
    rows = pc.binary_length(keys).to_numpy().astype(np.int64)
    heads = np.empty(len(rows), dtype=_HEAD)
    heads["key"], heads["row"] = rows + _BETWEEN, rows
    heads["value"] = pc.binary_length(values).to_numpy()
    sizes = rows + heads["value"] + (_HEAD.itemsize + len(_KEY_END) + len(_VERSION))
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    first = 0
    while first < len(rows):
        until = max(int(np.searchsorted(bounds, bounds[first] + _MOST_AT_ONCE, side="right")) - 1, first + 1)
        yield EncodedEntries(
            first,
            _joined(heads[first:until], keys[first:until], values[first:until]),
            bounds[first : until + 1] - bounds[first],
        )
        first = until


def _joined(heads: np.ndarray, keys: pa.StringArray, values: pa.BinaryArray) -> memoryview:
    """The bytes of entries with the given heads."""
    pieces = [
        rows_of(heads),
        keys.cast(pa.binary()),
        pa.scalar(_KEY_END, pa.binary()),
        values,
        pa.scalar(_VERSION, pa.binary()),
    ]
    joined = pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.binary()))
    return memoryview(joined.buffers()[2])[: int(np.frombuffer(joined.buffers()[1], dtype=np.int32)[len(heads)])]


def stored_key(row: bytes) -> bytes:
    """A record key in the form of data blocks and of the index.

    Args:
        row: The bytes of the record key.
    """
    return _ROW_LENGTH.pack(len(row)) + row + _KEY_END


class KeysOf(Sequence[bytes]):
    """The bytes of strings, read one at a time, for a binary search.

    Args:
        strings: An array of strings without nulls.
    """

    def __init__(self, strings: pa.StringArray) -> None:
        _, offsets, data = strings.buffers()
        bounds = np.frombuffer(offsets, dtype=np.int32) if len(strings) else np.zeros(1, dtype=np.int32)
        self._bounds = bounds[strings.offset : strings.offset + len(strings) + 1]
        self._data = memoryview(data) if data is not None else memoryview(b"")

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, place: int) -> bytes:  # type: ignore[override]
        return bytes(self._data[self._bounds[place] : self._bounds[place + 1]])
