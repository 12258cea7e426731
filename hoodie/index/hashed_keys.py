"""Stored keys that several batches of incoming ones are looked up in, each at the cost of the batch alone.

Hudi has nothing like it: its engines join.
"""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.key_blocks import UInt64Array, quick_hashes

__all__ = ["HashedKeys"]


@attrs.frozen(eq=False)
class HashedKeys:
    """Keys with their hashes in ascending order; see `of`.

    Attributes:
        keys: string; a key may occur several times.
        hashes: Of the keys, sorted.
        entries: int64, for each hash the index of its key.
        are_distinct: Whether no hash occurs twice.
    """

    keys: pa.Array
    hashes: UInt64Array
    entries: np.ndarray
    are_distinct: bool

    @classmethod
    def of(cls, keys: pa.Array) -> HashedKeys:
        """Hash keys, once.

        Args:
            keys: Strings, at least one.
        """
        hashes = _hashes_of(keys)
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        return cls(keys, hashes, order, bool((hashes[1:] != hashes[:-1]).all()))

    def match(self, wanted: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Pairs (row of ``wanted``, index of an equal key or -1), each row at least once, in the order of the rows.

        Args:
            wanted: Strings.
        """
        hashes = _hashes_of(wanted)
        first = np.searchsorted(self.hashes, hashes, side="left")
        rows = np.flatnonzero(self.hashes[np.minimum(first, len(self.hashes) - 1)] == hashes)
        places = first[rows]
        if not self.are_distinct:
            counts = np.searchsorted(self.hashes, hashes[rows], side="right") - places
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            rows, places = np.repeat(rows, counts), np.repeat(places, counts) + within
        entries = self.entries[places]
        equal = pc.equal(wanted.take(pa.array(rows)), self.keys.take(pa.array(entries)))
        is_same = pc.fill_null(equal, False).to_numpy(zero_copy_only=False)
        rows, entries = rows[is_same], entries[is_same]
        is_new = np.ones(len(wanted), dtype=bool)
        is_new[rows] = False
        new = np.flatnonzero(is_new)
        rows, entries = np.concatenate([rows, new]), np.concatenate([entries, np.full(len(new), -1, dtype=np.int64)])
        order = np.argsort(rows, kind="stable")
        return rows[order], entries[order]


def _hashes_of(keys: pa.Array) -> UInt64Array:
    return quick_hashes(pc.fill_null(keys, "") if keys.null_count else keys)
