"""The record keys of a file being written, as its footer tells them: bloom filter and range."""

from __future__ import annotations

import pyarrow as pa

from hoodie.common.bloom.bloom_filter import BloomFilter, checked_keys
from hoodie.common.bloom.key_blocks import BLOCK_BYTES, BLOCK_KEYS, Keys
from hoodie.io.parquet.parquet_footer import KeyRange

__all__ = ["FooterKeys"]


class FooterKeys:
    """Gathers keys; hashes many at a time, since threads that hash few at a time get in each other's way.

    Args:
        bloom_filter: Gets the keys.
        stored_keys: The range of keys that the filter holds already: then only keys that are called new count.
    """

    def __init__(self, bloom_filter: BloomFilter, stored_keys: KeyRange | None) -> None:
        self._bloom_filter = bloom_filter
        self._starts_from_stored_keys = stored_keys is not None
        self._key_range = stored_keys
        self._waiting: list[pa.Array] = []

    @property
    def key_range(self) -> KeyRange | None:
        """The smallest and the largest key; None where there is none."""
        return self._key_range

    def filter_bytes_with(self, more_keys: int) -> int:
        """Length of the filter with all keys, and so many more.

        Args:
            more_keys: How many.
        """
        return self._bloom_filter.stored_bytes_with(sum(map(len, self._waiting)) + more_keys)

    def add(self, stored: Keys, new: Keys | None) -> None:
        """Take the keys of rows.

        Args:
            stored: Of all rows.
            new: Those that are new to the filter; None means all of them, or, where it started from stored keys, none.

        Raises:
            HoodieKeyException: A key is null or empty.
        """
        if new is None and not self._starts_from_stored_keys:
            new = stored
        if new is not None and len(new):
            self._hash_soon(checked_keys(new))
        ranged = new if self._starts_from_stored_keys else stored
        found = KeyRange.of(ranged) if ranged is not None else None
        if found is not None:
            self._key_range = found.union(self._key_range)

    def finish(self) -> BloomFilter:
        """The filter with all keys."""
        if self._waiting:
            keys, self._waiting = self._waiting, []
            self._bloom_filter.add(pa.chunked_array(keys))
        return self._bloom_filter

    def _hash_soon(self, keys: pa.Array) -> None:
        if self._waiting and self._waiting[0].type != keys.type:
            self.finish()
        self._waiting.append(keys)
        count = sum(len(part) for part in self._waiting)
        if count >= BLOCK_KEYS or sum(part.nbytes for part in self._waiting) >= BLOCK_BYTES:
            self.finish()
