"""Functions of known hashes to small numbers; one of them stores no hash.

Hudi has no counterpart: it joins keys with locations.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from hoodie.exception import HoodieException

UInt64Array = npt.NDArray[np.uint64]

_FACTOR = 1.3
"""Places for each hash. Below 1.23 no function is found; nearer to it, more rounds are needed to find one."""
_SPARE = 32
"""Further places of each third, for a few hashes."""
_TRIES = 20
_STEP = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@attrs.frozen(eq=False)
class StaticFunction:
    """The number of each hash of a set; for any other hash, an arbitrary number.

    Each hash leads to three places, one in each third of an array; the XOR of what stands there is its number. So a
    hash takes 1.3 numbers, whatever is hashed.

    Attributes:
        numbers: Unsigned integers.
        seed: Decides the places.

    Source: Botelho, Pagh, Ziviani, "Simple and Space-Efficient Minimal Perfect Hash Functions", 2007.
    """

    numbers: np.ndarray
    seed: int

    @classmethod
    def of(cls, hashes: UInt64Array, values: np.ndarray) -> StaticFunction:
        """The function with these values.

        Args:
            hashes: uint64, all different.
            values: Unsigned integers, one for each hash.

        Raises:
            HoodieException: No function was found, because hashes are equal.
        """
        third = int(len(hashes) * _FACTOR / 3) + _SPARE
        for seed in range(_TRIES):
            places = _places(hashes, seed, third)
            order = _order_of_freedom(places, 3 * third)
            if order is None:
                continue
            numbers = np.zeros(3 * third, dtype=values.dtype)
            for entries, free in reversed(order):
                # The free place of an entry is 0, and no later entry uses it.
                numbers[free] = values[entries] ^ _xor(numbers, places[:, entries])
            return cls(numbers, seed)
        raise HoodieException(f"no function of {len(hashes)} hashes was found: some of them are equal")

    def __call__(self, hashes: UInt64Array) -> np.ndarray:
        """The number of each hash.

        Args:
            hashes: uint64.
        """
        return _xor(self.numbers, _places(hashes, self.seed, len(self.numbers) // 3))


@attrs.frozen(eq=False)
class SortedFunction:
    """The place of each hash of a sorted set in it; for any other hash, an arbitrary place.

    It is made and asked in less time than a `StaticFunction`, but holds the hashes.

    Attributes:
        hashes: uint64, sorted, all different, at least one.
    """

    hashes: UInt64Array

    def __call__(self, hashes: UInt64Array) -> npt.NDArray[np.int64]:
        """The place of each hash.

        Args:
            hashes: uint64.
        """
        return np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)


def _xor(numbers: np.ndarray, places: npt.NDArray[np.int64]) -> np.ndarray:
    found: np.ndarray = numbers[places[0]] ^ numbers[places[1]] ^ numbers[places[2]]
    return found


def _places(hashes: UInt64Array, seed: int, third: int) -> npt.NDArray[np.int64]:
    """The three places of each hash: an array of three rows."""
    size = np.uint64(third)
    mixed = (hashes ^ np.uint64((seed + 1) * _STEP & _MASK)) * _FIRST
    mixed ^= mixed >> _HALF
    more = mixed * _SECOND
    more ^= more >> _HALF
    places = np.empty((3, len(hashes)), dtype=np.int64)
    places[0] = ((mixed & _LOW) * size) >> _HALF
    places[1] = (((mixed >> _HALF) * size) >> _HALF) + size
    places[2] = ((more >> _HALF) * size >> _HALF) + np.uint64(2) * size
    return places


def _order_of_freedom(
    places: npt.NDArray[np.int64], size: int
) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] | None:
    """Rounds of entries, each with a place that no entry of this and later rounds uses; None if some have none."""
    count = places.shape[1]
    users = np.bincount(places.ravel(), minlength=size)
    # Where one entry is left, the sum of the entries is its number.
    sums = np.zeros(size, dtype=np.int64)
    for third in places:
        sums += np.bincount(third, weights=np.arange(count), minlength=size).astype(np.int64)
    rounds = []
    free = np.flatnonzero(users == 1)
    left = count
    while len(free):
        entries, first = np.unique(sums[free], return_index=True)
        rounds.append((entries, free[first]))
        left -= len(entries)
        touched = places[:, entries].ravel()
        np.subtract.at(users, touched, 1)
        np.subtract.at(sums, touched, np.tile(entries, 3))
        free = np.unique(touched[users[touched] == 1])
    return None if left else rounds
