"""Java's ``String.hashCode`` of many strings at once.

Hudi relies on it where a key decides about a place: bucket numbers are made of it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

__all__ = ["hash_strings"]

_MULTIPLIER = 31
_INVERSE = pow(_MULTIPLIER, -1, 1 << 32)
_CHUNK_BYTES = 1 << 18
"""Bytes of strings that are hashed at a time: what is computed of them stays in the cache of a core."""


def hash_strings(strings: pa.Array) -> np.ndarray:
    """The hash of each string over its UTF-16 units, modulo 2**32; 0 of null.

    Args:
        strings: Of type string.

    Returns:
        uint32: the bits of Java's signed number.
    """
    if len(strings) == 0:
        return np.zeros(0, dtype=np.uint32)
    filled = strings.fill_null("") if strings.null_count else strings
    offsets = np.frombuffer(filled.buffers()[1], dtype=np.int32)[filled.offset : filled.offset + len(filled) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    content = filled.buffers()[2]
    data = np.frombuffer(content, dtype=np.uint8)[first:last] if content is not None else np.zeros(0, dtype=np.uint8)
    bounds = offsets.astype(np.int64) - first
    hashes = np.empty(len(filled), dtype=np.uint32)
    low = 0
    while low < len(filled):
        high = max(low + 1, int(np.searchsorted(bounds, bounds[low] + _CHUNK_BYTES, side="right")) - 1)
        units, ends = data[bounds[low] : bounds[high]], bounds[low : high + 1] - bounds[low]
        if len(units) and units.max() >= 0x80:
            units, ends = _utf_16(units, ends)
        _hash_chunk(units, ends, hashes[low:high])
        low = high
    return hashes


def _hash_chunk(units: np.ndarray, bounds: np.ndarray, hashes: np.ndarray) -> None:
    """Hash strings that lie one after the other.

    A string from s to e has the hash ``sum(u[i] * 31**(e-1-i))``, which is ``31**(e-1) * sum(u[i] * 31**-i)``, a
    difference of two partial sums: 31 has an inverse modulo 2**32.
    """
    powers, inverses = _powers(_CHUNK_BYTES) if len(units) <= _CHUNK_BYTES else _powers.__wrapped__(len(units))
    sums = np.zeros(len(units) + 1, dtype=np.uint32)
    np.cumsum(units.astype(np.uint32) * inverses[: len(units)], dtype=np.uint32, out=sums[1:])
    ends = bounds[1:]
    np.multiply(sums[ends] - sums[bounds[:-1]], powers[np.maximum(ends - 1, 0)], out=hashes)


@lru_cache(maxsize=1)
def _powers(count: int) -> tuple[np.ndarray, np.ndarray]:
    """31**i and 31**-i modulo 2**32 for i from 0 on."""
    made = []
    for base in (_MULTIPLIER, _INVERSE):
        factors = np.full(max(1, count), base, dtype=np.uint32)
        factors[0] = 1
        made.append(np.cumprod(factors, dtype=np.uint32))
    return made[0], made[1]


def _utf_16(data: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """UTF-16 units of UTF-8 bytes, and where the strings begin among them."""
    units = np.frombuffer(data.tobytes().decode("utf-8").encode("utf-16-le"), dtype="<u2")
    # A byte that begins a character makes one unit, or two from U+10000 on; others make none.
    made = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
    return units, np.append(0, np.cumsum(made))[bounds]
