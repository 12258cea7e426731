"""Incoming keys in the order in which key ranges are looked up among them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.key_blocks import utf8_bytes

_LAST_BASIC = range(0xEE, 0xF0)
"""First bytes of U+E000 to U+FFFF in UTF-8."""
_FIRST_SUPPLEMENTARY = 0xF0
_KEYS_PER_BOUND = 20
"""Searching for one bound costs about as much as making this many keys comparable to all bounds at once."""


@attrs.frozen(eq=False)
class SortedKeys:
    """Distinct keys, sorted by their UTF-8 bytes, so that the keys of a range are next to each other.

    Attributes:
        keys: string, without nulls.
    """

    keys: pa.Array

    @classmethod
    def of(cls, keys: pa.Array) -> SortedKeys:
        """Sort keys.

        Args:
            keys: string, without nulls; a key may occur several times.
        """
        distinct = keys.unique()
        return cls(distinct.take(pc.sort_indices(distinct)))

    def __len__(self) -> int:
        """The number of keys."""
        return len(self.keys)

    def before(self, bounds: Sequence[bytes], with_equal: bool) -> np.ndarray:
        """The number of smaller keys for each bound.

        Args:
            bounds: UTF-8, in any order.
            with_equal: Whether equal keys count, too.
        """
        if len(bounds) * _KEYS_PER_BOUND < len(self.keys):
            search = bisect_right if with_equal else bisect_left
            places, texts = range(len(self.keys)), self._binary

            def key_at(place: int) -> bytes:
                text: bytes = texts[place].as_py()
                return text

            return np.array([search(places, bound, key=key_at) for bound in bounds], dtype=np.int64)
        wanted = np.empty(len(bounds), dtype=object)
        wanted[:] = bounds
        return np.searchsorted(self._objects, wanted, side="right" if with_equal else "left")

    @cached_property
    def has_supplementary(self) -> bool:
        """Whether a key has a character above U+FFFF."""
        return self._largest_byte >= _FIRST_SUPPLEMENTARY

    @cached_property
    def has_last_basic(self) -> bool:
        """Whether a key has a character from U+E000 to U+FFFF."""
        if self._largest_byte < _LAST_BASIC.start:
            return False
        data = self._bytes
        return bool(((data >= _LAST_BASIC.start) & (data < _LAST_BASIC.stop)).any())

    def order_is_certain(self, *bounds: bytes) -> bool:
        """Whether every key compares with these bounds in the same way in Java's order of strings and by UTF-8 bytes.

        Java compares UTF-16 units, in which characters above U+FFFF come before those from U+E000 to U+FFFF. Some
        writers determine the range of a file's keys in this order, others in that of UTF-8 bytes.

        Args:
            bounds: UTF-8.
        """
        for bound in bounds:
            if self.has_supplementary and any(byte in _LAST_BASIC for byte in bound):
                return False
            if self.has_last_basic and any(byte >= _FIRST_SUPPLEMENTARY for byte in bound):
                return False
        return True

    @cached_property
    def _largest_byte(self) -> int:
        return int(self._bytes.max(initial=0))

    @cached_property
    def _binary(self) -> pa.Array:
        return self.keys.cast(pa.binary())

    @cached_property
    def _bytes(self) -> np.ndarray:
        """The UTF-8 bytes of all keys, one key after the other."""
        return utf8_bytes(self.keys)[0] if len(self.keys) else np.zeros(0, dtype=np.uint8)

    @cached_property
    def _objects(self) -> np.ndarray:
        objects = np.empty(len(self.keys), dtype=object)
        objects[:] = self._binary.to_pylist()
        return objects
