"""Spark's hash of an int and its inverse: which ints are placed in which partition."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

SEED = 42
"""The seed that Spark's hash partitioning uses."""


def hash_ints(values: npt.NDArray[np.int32], seed: int = SEED) -> npt.NDArray[np.int32]:
    """Murmur3 (x86, 32 bits) of each int, as Spark's `hash` function computes it.

    Args:
        values: int32.
        seed: Spark's is 42.
    """
    word = values.astype(np.int32).view(np.uint32) * np.uint32(0xCC9E2D51)
    word = _rotate_left(word, 15) * np.uint32(0x1B873593)
    state = np.uint32(seed) ^ word
    state = _rotate_left(state, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(4)  # the length of an int in bytes
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return state.view(np.int32)


@lru_cache(maxsize=64)
def numbers_to_hash_inputs(num_partitions: int) -> npt.NDArray[np.int32]:
    """The smallest int >= 0 that Spark's hash partitioning sends to each partition number.

    Args:
        num_partitions: The number of partitions.

    Returns:
        int32 array of length ``num_partitions``; treat it as read-only.
    """
    found = np.full(num_partitions, -1, dtype=np.int32)
    start, step = 0, max(1024, 4 * num_partitions)
    while (found < 0).any():
        inputs = np.arange(start, start + step, dtype=np.int32)
        # numpy's remainder has the sign of the divisor, as Spark's pmod.
        numbers, first = np.unique(hash_ints(inputs) % np.int32(num_partitions), return_index=True)
        missing = found[numbers] < 0
        found[numbers[missing]] = inputs[first[missing]]
        start += step
    found.flags.writeable = False
    return found


def _rotate_left(values: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
