r"""Record keys as columns of 32-bit words, so that hash functions can work on many keys at a time.

A block holds its keys sorted by length, longest first, so that the keys that have an i-th word are a prefix of the
block. So one hash pass takes a few numpy operations per word, for any mixture of lengths. A word is four bytes in
little-endian order; the last word of a key is padded with zero bytes::

    keys    "abcdef" "xyz"
    lengths [6, 3]
    words   ["abcd" "xyz\0"], ["ef\0\0"]

A numpy operation on one word costs as much as one on ten. Therefore a few long keys form a block of another kind, which
holds the words of each key; they are hashed one after the other. A block of long keys only holds keys of similar
length. So time and memory grow with the bytes of all keys, not with the longest key.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.util.arrow_buffers import without_views
from hoodie.exception import HoodieKeyException, HoodieSchemaException

UInt32Array: TypeAlias = npt.NDArray[np.uint32]
UInt64Array: TypeAlias = npt.NDArray[np.uint64]
IndexArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Keys: TypeAlias = "pa.Array | pa.ChunkedArray"

BLOCK_KEYS = 1 << 17
"""The number of keys in a block. Smaller blocks would stay in the processor's cache, but threads that hash at the same
time would pass Python's lock back and forth at each call: at a quarter of this size two threads gain nothing."""
BLOCK_BYTES = 16 << 20
"""The size of a block in bytes, which limits its number of long keys."""
LONG_KEY = 256
"""A key with more bytes goes into a block with keys that are at least half as long."""
FEW_KEYS = 12
"""If a block has fewer long keys than this, they are hashed one after the other."""

_MOST_BYTES_OF_STRINGS = (1 << 31) - 1
"""Arrays of strings with 32-bit offsets hold fewer bytes than this."""

_WORD_BYTES = 8
_HASHED_AT_ONCE = 1 << 14
"""The number of keys of one length that are hashed at a time, so that their hashes stay in the cache of a core."""
_ODD, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


@attrs.frozen(eq=False)
class KeyBlock:
    """Up to `BLOCK_KEYS` keys.

    Attributes:
        indices: The positions of the keys in their array; None for a block of consecutive keys.
        start: The position of the first key, if ``indices`` is None.
        lengths: The number of bytes of each key, in descending order.
        words: Array i holds word i of all keys that have one; empty if ``whole_keys`` holds the words.
        whole_keys: For a block of a few long keys, the words of each key; None for other blocks.
    """

    indices: IndexArray | None
    start: int
    lengths: UInt32Array
    words: tuple[UInt32Array, ...]
    whole_keys: tuple[UInt32Array, ...] | None = None

    def __len__(self) -> int:
        """The number of keys."""
        return len(self.lengths)

    @property
    def selector(self) -> slice | IndexArray:
        """The slice or indices that select the block's keys from their array."""
        return slice(self.start, self.start + len(self)) if self.indices is None else self.indices

    def select(self, chosen: IndexArray) -> KeyBlock:
        """The block of the chosen keys.

        Args:
            chosen: Positions within the block, in ascending order.
        """
        indices = self.start + chosen if self.indices is None else self.indices[chosen]
        if self.whole_keys is not None:
            return KeyBlock(indices, 0, self.lengths[chosen], (), tuple(self.whole_keys[key] for key in chosen))
        words = []
        for word in self.words:
            part = chosen[: np.searchsorted(chosen, len(word))]
            if not len(part):
                break
            words.append(word[part])
        return KeyBlock(indices, 0, self.lengths[chosen], tuple(words))


def plain_keys(keys: Keys) -> pa.Array:
    """Keys as one string array, copied only where needed.

    Args:
        keys: Array or chunked array of string, large_string, string_view, or a dictionary of one of these.

    Returns:
        A string or large_string array without nulls.

    Raises:
        HoodieKeyException: A key is null.
        HoodieSchemaException: Keys are not strings.
    """
    key_type = keys.type.value_type if pa.types.is_dictionary(keys.type) else keys.type
    is_view = pa.types.is_string_view(key_type)
    if not (is_view or pa.types.is_string(key_type) or pa.types.is_large_string(key_type)):
        raise HoodieSchemaException(
            f"record keys to be hashed must be strings, not {keys.type}; cast them to string first"
        )
    if is_view and key_type == keys.type:
        views = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
        keys = pa.chunked_array([without_views(view, is_large=True) for view in views], pa.large_string())
        key_type = keys.type
    if isinstance(keys, pa.ChunkedArray):
        fits = keys.num_chunks > 0 and key_type == keys.type and keys.nbytes <= _MOST_BYTES_OF_STRINGS
        keys = keys.combine_chunks() if fits else keys.cast(pa.large_string()).combine_chunks()
    if pa.types.is_dictionary(keys.type):
        keys = keys.cast(pa.large_string())
    if keys.null_count:
        row = int(np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))[0])
        raise HoodieKeyException(
            f"{keys.null_count} of {len(keys)} record keys to be hashed are null, the first at row {row}; "
            "rows without a key must be left out or refused before"
        )
    return keys


def quick_hashes(keys: Keys) -> UInt64Array:
    """A 64-bit hash of each key, for comparisons within this process; it is not stored anywhere.

    Args:
        keys: See `plain_keys`.

    Raises:
        HoodieKeyException: A key is null.
        HoodieSchemaException: Keys are not strings.
    """
    plain = plain_keys(keys)
    if not len(plain):
        return np.empty(0, dtype=np.uint64)
    data, offsets = utf8_bytes(plain)
    length = int(offsets[1] - offsets[0])
    if length >= _WORD_BYTES and (np.diff(offsets) == length).all():
        return _hashes_of_equal_length(data, len(plain), length)
    hashes = np.empty(len(plain), dtype=np.uint64)
    for block in iter_key_blocks(plain):
        if block.whole_keys is not None:
            lengths = block.lengths.tolist()
            hashes[block.selector] = [_quick_hash(*key) for key in zip(lengths, block.whole_keys, strict=True)]
            continue
        mixed = block.lengths.astype(np.uint64)
        for number in range(0, len(block.words), 2):
            wide = block.words[number].astype(np.uint64)
            for high in block.words[number + 1 : number + 2]:
                wide[: len(high)] |= high.astype(np.uint64) << _HALF
            part = mixed[: len(wide)]
            _mix_in(part, wide)
        hashes[block.selector] = mixed
    return hashes


def _hashes_of_equal_length(data: npt.NDArray[np.uint8], count: int, length: int) -> UInt64Array:
    """See `quick_hashes`; keys of one length need not be copied."""
    hashes = np.full(count, length, dtype=np.uint64)
    rest = length % _WORD_BYTES
    for first in range(0, count, _HASHED_AT_ONCE):
        part = hashes[first : first + _HASHED_AT_ONCE]
        for place in range(0, length, _WORD_BYTES):
            # The last word would reach beyond the key: it is read from the key's last eight bytes.
            begin = first * length + min(place, length - _WORD_BYTES)
            words = np.ndarray(len(part), "<u8", data.data, begin, (length,))
            _mix_in(part, words if place + _WORD_BYTES <= length else words >> np.uint64(8 * (_WORD_BYTES - rest)))
    return hashes


def _mix_in(hashes: UInt64Array, words: UInt64Array) -> None:
    hashes *= _ODD
    hashes ^= words
    hashes ^= hashes >> _HALF


def _quick_hash(length: int, words: UInt32Array) -> int:
    """The hash of one key, as in `quick_hashes`."""
    mixed, odd, mask = length, int(_ODD), (1 << 64) - 1
    halves = words.tolist()
    for low, high in zip_longest(halves[::2], halves[1::2], fillvalue=0):
        mixed = (mixed * odd & mask) ^ (low | high << 32)
        mixed ^= mixed >> 32
    return mixed


def distinct_keys(keys: pa.Array) -> pa.Array:
    """The distinct keys: the given array if all differ, which hashes tell sooner than a table of strings.

    Args:
        keys: See `plain_keys`; nulls are allowed.
    """
    return keys if not keys.null_count and are_surely_distinct(keys) else keys.unique()


def are_surely_distinct(keys: Keys) -> bool:
    """Whether all keys differ by their 64-bit hashes: quick, but rarely False although all keys differ.

    Args:
        keys: See `plain_keys`.

    Raises:
        HoodieKeyException: A key is null.
        HoodieSchemaException: Keys are not strings.
    """
    hashes = quick_hashes(keys)
    hashes.sort()
    return bool((hashes[1:] != hashes[:-1]).all())


def iter_key_blocks(keys: pa.Array) -> Iterator[KeyBlock]:
    """Divide keys into blocks.

    Args:
        keys: Keys as returned by `plain_keys`.

    Yields:
        Blocks that together hold every key exactly once.
    """
    count = len(keys)
    if not count:
        return
    data, offsets = utf8_bytes(keys)
    lengths = np.diff(offsets).astype(np.uint32)
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest == longest:
        yield from _blocks_of_equal_length(data, count, longest)
    else:
        yield from _blocks_of_mixed_lengths(data, offsets[:-1].astype(np.int64) - int(offsets[0]), lengths, longest)


def utf8_bytes(keys: pa.Array) -> tuple[npt.NDArray[np.uint8], np.ndarray]:
    """The UTF-8 bytes of all keys, one behind the other, and the offsets of the keys; without a copy.

    Args:
        keys: Keys as returned by `plain_keys`, at least one.

    Returns:
        The bytes; and one offset more than keys, the first of which is that of the first byte.
    """
    _, offsets_buffer, data = keys.buffers()
    offset_type = np.int64 if pa.types.is_large_string(keys.type) else np.int32
    offsets = np.frombuffer(offsets_buffer, dtype=offset_type)[keys.offset : keys.offset + len(keys) + 1]
    first, end = int(offsets[0]), int(offsets[-1])
    return np.frombuffer(data, dtype=np.uint8)[first:end] if end > first else np.zeros(0, dtype=np.uint8), offsets


def _block_keys(longest: int) -> int:
    """The number of keys in a block whose longest key has that many bytes."""
    return max(1, min(BLOCK_KEYS, BLOCK_BYTES // max(1, longest)))


def _blocks_of_equal_length(data: npt.NDArray[np.uint8], count: int, length: int) -> Iterator[KeyBlock]:
    matrix = data.reshape(count, length)
    word_count = (length + 3) // 4
    block_keys = _block_keys(length)
    for start in range(0, count, block_keys):
        rows = matrix[start : start + block_keys]
        lengths = np.full(len(rows), length, dtype=np.uint32)
        if length > LONG_KEY and len(rows) < FEW_KEYS:
            yield KeyBlock(None, start, lengths, (), tuple(_words_of(row) for row in rows))
            continue
        padded = np.zeros((len(rows), 4 * word_count), dtype=np.uint8)
        padded[:, :length] = rows
        words = np.ascontiguousarray(padded.view("<u4").T, dtype=np.uint32)
        yield KeyBlock(None, start, lengths, tuple(words))


def _words_of(key: npt.NDArray[np.uint8]) -> UInt32Array:
    padded = np.zeros(-(-len(key) // 4) * 4, dtype=np.uint8)
    padded[: len(key)] = key
    return padded.view("<u4").astype(np.uint32)


def _blocks_of_mixed_lengths(
    data: npt.NDArray[np.uint8], starts: IndexArray, lengths: UInt32Array, longest: int
) -> Iterator[KeyBlock]:
    # numpy sorts 16-bit numbers stably in linear time.
    order = np.argsort(lengths.astype(np.uint16) if longest < 1 << 16 else lengths, kind="stable")[::-1]
    padded = np.append(data, np.zeros(3, dtype=np.uint8))
    word_at = np.ndarray(shape=(len(data),), dtype="<u4", buffer=padded.data, strides=(1,))
    shrinking = -lengths[order].astype(np.int64)
    end = 0
    while end < len(order):
        start, block_longest = end, -int(shrinking[end])
        end = min(len(order), end + _block_keys(block_longest))
        if block_longest > LONG_KEY:
            end = start + int(np.searchsorted(shrinking[start:end], -(block_longest // 2), side="right"))
        indices = order[start:end]
        block_lengths, block_starts = lengths[indices], starts[indices]
        if block_longest > LONG_KEY and len(indices) < FEW_KEYS:
            ends = block_starts + block_lengths
            whole = tuple(_words_of(data[low:high]) for low, high in zip(block_starts, ends, strict=True))
            yield KeyBlock(indices, 0, block_lengths, (), whole)
            continue
        word_count = (block_longest + 3) // 4
        prefixes = np.searchsorted(shrinking[start:end], -4 * np.arange(word_count))
        words = []
        for number, prefix in enumerate(prefixes.tolist()):
            word = word_at[block_starts[:prefix] + 4 * number].astype(np.uint32)
            remaining = block_lengths[:prefix] - np.uint32(4 * number)
            short = remaining < 4
            if short.any():
                word[short] &= (np.uint32(1) << (np.uint32(8) * remaining[short])) - np.uint32(1)
            words.append(word)
        yield KeyBlock(indices, 0, block_lengths, tuple(words))
