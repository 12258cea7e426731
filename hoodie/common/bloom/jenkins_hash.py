"""Bob Jenkins' lookup3 (``hashlittle``) for many keys at a time: the hash of bloom filters in old tables.

Hudi: org.apache.hudi.common.util.hash.JenkinsHash.
"""

from __future__ import annotations

import numpy as np

from hoodie.common.bloom.key_blocks import KeyBlock, UInt32Array

_START = np.uint32(0xDEADBEEF)
_MASK = 0xFFFFFFFF
_FINAL_ROTATIONS = (14, 11, 25, 16, 4, 14, 24)
_MIX_ROTATIONS = (4, 6, 8, 16, 19, 4)


class JenkinsBlock:
    """A block of keys, prepared for hashing with any number of seeds.

    Args:
        block: The keys; none may be empty.
    """

    def __init__(self, block: KeyBlock) -> None:
        self._words = block.words
        self._whole_keys = [key.tolist() for key in block.whole_keys or ()]
        self._starts = block.lengths + _START
        self._lengths = block.lengths.tolist()
        group_count = (len(block.words) + 2) // 3
        self._unfinished = [int(np.count_nonzero(block.lengths > 12 * (group + 1))) for group in range(group_count)]

    def hash_in_place(self, hashes: UInt32Array) -> None:
        """Replace seeds by the hashes of the keys with these seeds.

        Args:
            hashes: The seed of each key on entry, its hash on return.
        """
        if self._whole_keys:
            starts = (self._starts + hashes).tolist()
            hashes[:] = [_hash_whole(*key) for key in zip(starts, self._whole_keys, self._lengths, strict=True)]
            return
        state = [self._starts + hashes for _ in range(3)]
        for group, unfinished in enumerate(self._unfinished):
            for position, word in enumerate(self._words[3 * group : 3 * group + 3]):
                state[position][: len(word)] += word
            if unfinished:
                _mix([part[:unfinished] for part in state])
        hashes[:] = _finish(state)


def _rotate(value: UInt32Array, bits: int) -> UInt32Array:
    rotated: UInt32Array = (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))
    return rotated


def _mix(state: list[UInt32Array]) -> None:
    for step, bits in enumerate(_MIX_ROTATIONS):
        target, other, third = (state[(step + distance) % 3] for distance in (0, 2, 1))
        target -= other
        target ^= _rotate(other, bits)
        other += third


def _finish(state: list[UInt32Array]) -> UInt32Array:
    for step, bits in enumerate(_FINAL_ROTATIONS):
        target, other = state[(step + 2) % 3], state[(step + 1) % 3]
        target ^= other
        target -= _rotate(other, bits)
    return state[2]


def _hash_whole(start: int, words: list[int], length: int) -> int:
    """The hash of one key, in Python integers.

    Args:
        start: The initial state.
        words: The words of the key.
        length: The number of its bytes.
    """
    state = [start] * 3
    for first in range(0, len(words), 3):
        for position, word in enumerate(words[first : first + 3]):
            state[position] = (state[position] + word) & _MASK
        if length > 4 * first + 12:
            for step, bits in enumerate(_MIX_ROTATIONS):
                target, other, third = step % 3, (step + 2) % 3, (step + 1) % 3
                value = state[other]
                state[target] = ((state[target] - value) & _MASK) ^ _rotated(value, bits)
                state[other] = (value + state[third]) & _MASK
    for step, bits in enumerate(_FINAL_ROTATIONS):
        target, other = (step + 2) % 3, (step + 1) % 3
        value = state[other]
        state[target] = ((state[target] ^ value) - _rotated(value, bits)) & _MASK
    return state[2]


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK
