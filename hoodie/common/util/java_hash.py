"""Java's ``String.hashCode`` of many strings at once.

Hudi computes bucket numbers from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import attrs
import numpy as np
import pyarrow as pa

_MULTIPLIER = 31
_INVERSE = pow(_MULTIPLIER, -1, 1 << 32)
_CHUNK_BYTES = 1 << 18
"""The number of bytes that are hashed at a time, so that intermediate arrays stay in the cache of a core."""


def hash_strings(strings: pa.Array) -> np.ndarray:
    """The hash of each string over its UTF-16 units, modulo 2**32; 0 of null.

    Args:
        strings: An array of type string.

    Returns:
        uint32: the bits of Java's signed number.
    """
    hashes = np.empty(len(strings), dtype=np.uint32)
    for chunk in utf8_chunks(strings):
        hashes[chunk.first : chunk.first + len(chunk.bounds) - 1] = chunk.hash_all()
    return hashes


@attrs.define
class Utf8Chunk:
    """Some strings of an array, one after the other.

    Attributes:
        first: The position of the first string in the array.
        data: The UTF-8 bytes of the strings.
        bounds: The start of each string in the bytes, and the end of the last one.
    """

    first: int
    data: np.ndarray
    bounds: np.ndarray
    _sums: np.ndarray | None = None
    _units_before: np.ndarray | None = None

    def hash_all(self) -> np.ndarray:
        """The hash of each string."""
        length = int(self.bounds[1])
        if length and (np.diff(self.bounds) == length).all() and self.data.max() < 0x80:
            # Many keys have one length: each is a row of a matrix.
            factors = _powers_up_to(length)[0][length - 1 :: -1]
            units = self.data.reshape(-1, length)
            hashes: np.ndarray = np.einsum("ij,j->i", units, factors, dtype=np.uint32)
            return hashes
        return self.hash_slices(self.bounds[:-1], self.bounds[1:])

    def hash_slices(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Hashes of pieces of the bytes; each piece must consist of whole characters.

        A string from s to e has the hash ``sum(u[i] * 31**(e-1-i))``, which is ``31**(e-1) * sum(u[i] * 31**-i)``, a
        difference of two partial sums: 31 has an inverse modulo 2**32.

        Args:
            starts: The start of each piece.
            ends: The end of each piece.
        """
        if self._sums is None:
            self._sums = self._partial_sums()
        if self._units_before is not None:
            starts, ends = self._units_before[starts], self._units_before[ends]
        powers = _powers_up_to(len(self._sums))[0]
        hashes: np.ndarray = (self._sums[ends] - self._sums[starts]) * powers[np.maximum(ends - 1, 0)]
        return hashes

    def _partial_sums(self) -> np.ndarray:
        units = self.data
        if len(units) and units.max() >= 0x80:
            # A byte that begins a character makes one UTF-16 unit, or two from U+10000 on; others make none.
            made = ((units & 0xC0) != 0x80).astype(np.int64) + (units >= 0xF0)
            self._units_before = np.append(0, np.cumsum(made))
            units = np.frombuffer(units.tobytes().decode("utf-8").encode("utf-16-le"), dtype="<u2")
        inverses = _powers_up_to(len(units) + 1)[1]
        sums = np.zeros(len(units) + 1, dtype=np.uint32)
        np.cumsum(units.astype(np.uint32) * inverses[: len(units)], dtype=np.uint32, out=sums[1:])
        return sums


def utf8_chunks(strings: pa.Array) -> Iterator[Utf8Chunk]:
    """The strings of an array in chunks of bytes that fit into a cache; nulls are empty.

    Args:
        strings: An array of strings.
    """
    if len(strings) == 0:
        return
    data, bounds = _bytes_of(strings.fill_null("") if strings.null_count else strings)
    low = 0
    while low < len(strings):
        high = max(low + 1, int(np.searchsorted(bounds, bounds[low] + _CHUNK_BYTES, side="right")) - 1)
        yield Utf8Chunk(low, data[bounds[low] : bounds[high]], bounds[low : high + 1] - bounds[low])
        low = high


def contain_ascii(strings: pa.Array, character: str) -> bool:
    """Whether a character occurs in any of the strings.

    Args:
        strings: An array of strings without nulls.
        character: An ASCII character.
    """
    # No other character of UTF-8 has its byte.
    return bool(len(strings)) and bool((_bytes_of(strings)[0] == ord(character)).any())


def _bytes_of(strings: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The UTF-8 bytes of strings without nulls, and the bounds of each in them."""
    offsets = np.frombuffer(strings.buffers()[1], dtype=np.int32)[strings.offset : strings.offset + len(strings) + 1]
    begin, end = int(offsets[0]), int(offsets[-1])
    content = strings.buffers()[2]
    data = np.frombuffer(content, dtype=np.uint8)[begin:end] if content is not None else np.zeros(0, dtype=np.uint8)
    return data, offsets.astype(np.int64) - begin


def _powers_up_to(count: int) -> tuple[np.ndarray, np.ndarray]:
    """31**i and 31**-i modulo 2**32 for all i below the count, and perhaps for more."""
    usual = _CHUNK_BYTES + 1
    return _usual_powers(usual) if count <= usual else _powers(count)


@lru_cache(maxsize=1)
def _usual_powers(count: int) -> tuple[np.ndarray, np.ndarray]:
    return _powers(count)


def _powers(count: int) -> tuple[np.ndarray, np.ndarray]:
    made = []
    for base in (_MULTIPLIER, _INVERSE):
        factors = np.full(max(1, count), base, dtype=np.uint32)
        factors[0] = 1
        made.append(np.cumprod(factors, dtype=np.uint32))
    return made[0], made[1]
