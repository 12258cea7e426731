"""MurmurHash2 as Hudi computes it, for many keys at a time.

It is MurmurHash2 (32 bits, m = 0x5bd1e995, r = 24, length xored into the seed), except for the one to three bytes after
the last whole word: they are taken from the end of the key, in reverse order, and as signed numbers, which changes the
hash of keys that are not ASCII.

Hudi: org.apache.hudi.common.util.hash.MurmurHash.
"""

from __future__ import annotations

import numpy as np

from hoodie.common.bloom.key_blocks import KeyBlock, Keys, UInt32Array, iter_key_blocks, plain_keys

_M = np.uint32(0x5BD1E995)
_ONE, _8, _13, _15, _24 = (np.uint32(number) for number in (1, 8, 13, 15, 24))


class MurmurBlock:
    """A block of keys, prepared for hashing with any number of seeds.

    The mixing of a key's words does not depend on the seed. It is done once here, and `hash_in_place` needs only one
    multiplication and one xor per word. A few long keys are hashed one by one, in Python integers.

    Args:
        block: The keys.
    """

    def __init__(self, block: KeyBlock) -> None:
        lengths = block.lengths
        self._lengths = lengths
        self._whole_keys: list[list[int]] = []
        self._scratch = np.empty(len(block), dtype=np.uint32)
        self._words: list[UInt32Array] = []
        for number, word in enumerate(block.words):
            whole = len(word)
            if lengths[whole - 1] < 4 * (number + 1):
                whole = int(np.count_nonzero(lengths[:whole] >= 4 * (number + 1)))
            if whole:
                self._words.append(_mix(word[:whole]))
        if block.whole_keys is not None:
            whole_words = zip(block.whole_keys, (lengths >> np.uint32(2)).tolist(), strict=True)
            self._whole_keys = [_mix(key[:count]).tolist() for key, count in whole_words]
        tail_lengths = lengths & np.uint32(3)
        self._tails: UInt32Array | None = None
        if tail_lengths.any():
            self._tails = _tails(block, tail_lengths)
            self._tail_factors = np.where(tail_lengths > 0, _M, _ONE)

    def hash_in_place(self, hashes: UInt32Array) -> None:
        """Replace seeds by the hashes of the keys with these seeds.

        Args:
            hashes: The seed of each key on entry, its hash on return.
        """
        np.bitwise_xor(hashes, self._lengths, out=hashes)
        for word in self._words:
            part = hashes if len(word) == len(hashes) else hashes[: len(word)]
            np.multiply(part, _M, out=part)
            np.bitwise_xor(part, word, out=part)
        for row, mixed in enumerate(self._whole_keys):
            hashes[row] = _hash_on(int(hashes[row]), mixed)
        if self._tails is not None:
            np.bitwise_xor(hashes, self._tails, out=hashes)
            np.multiply(hashes, self._tail_factors, out=hashes)
        scratch = self._scratch
        np.right_shift(hashes, _13, out=scratch)
        np.bitwise_xor(hashes, scratch, out=hashes)
        np.multiply(hashes, _M, out=hashes)
        np.right_shift(hashes, _15, out=scratch)
        np.bitwise_xor(hashes, scratch, out=hashes)


def hash_keys(keys: Keys, seed: int = 0) -> UInt32Array:
    """Compute one hash per key.

    Args:
        keys: Strings, plain or dictionary-encoded, array or chunked array, without nulls.
        seed: The seed of all keys; taken modulo 2**32.

    Returns:
        The hashes, in the order of the keys.

    Raises:
        HoodieKeyException: A key is null.
        HoodieSchemaException: Keys are not strings.
    """
    plain = plain_keys(keys)
    hashes = np.full(len(plain), seed & 0xFFFFFFFF, dtype=np.uint32)
    for block in iter_key_blocks(plain):
        selector = block.selector
        part = hashes[selector]
        MurmurBlock(block).hash_in_place(part)
        hashes[selector] = part
    return hashes


def _mix(word: UInt32Array) -> UInt32Array:
    mixed = word * _M
    mixed ^= mixed >> _24
    mixed *= _M
    return mixed


def _hash_on(state: int, mixed: list[int]) -> int:
    """The state of one key's hash after its mixed words."""
    factor, mask = int(_M), 0xFFFFFFFF
    for word in mixed:
        state = (state * factor & mask) ^ word
    return state


def _tails(block: KeyBlock, tail_lengths: UInt32Array) -> UInt32Array:
    """The values that the bytes after the last whole word are xored with; 0 for keys without such bytes."""
    if block.whole_keys is not None:
        return _tails_of(np.array([key[-1] for key in block.whole_keys], dtype=np.uint32), tail_lengths)
    tails = np.zeros(len(block), dtype=np.uint32)
    last_words = (block.lengths >> np.uint32(2)).astype(np.int64)
    for number in np.unique(last_words[tail_lengths > 0]):
        rows = np.flatnonzero((last_words == number) & (tail_lengths > 0))
        tails[rows] = _tails_of(block.words[number][rows], tail_lengths[rows])
    return tails


def _tails_of(words: UInt32Array, counts: UInt32Array) -> UInt32Array:
    """The same for given last words, of which only that many bytes count."""
    value = np.zeros(len(words), dtype=np.uint32)
    for position in range(3):
        byte = (words >> np.uint32(8 * position)).astype(np.uint8).view(np.int8).astype(np.int32).view(np.uint32)
        has_byte = counts > position
        distance = np.where(has_byte, counts - np.uint32(1) - np.uint32(position), np.uint32(0))
        value ^= np.where(has_byte, byte << (_8 * distance), np.uint32(0))
    return value
