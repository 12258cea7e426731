"""Incoming keys in the order in which ranges of keys are looked up among them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import overload

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["SortedKeys"]

_LAST_BASIC = range(0xEE, 0xF0)
"""First bytes of U+E000 to U+FFFF in UTF-8."""
_FIRST_SUPPLEMENTARY = 0xF0
_KEYS_PER_BOUND = 20
"""Searching a bound key by key costs about what it costs to make this many keys comparable to all bounds at once."""


@attrs.frozen(eq=False)
class SortedKeys:
    """Distinct keys, sorted by their UTF-8 bytes: the keys of a range stand side by side.

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
        """How many keys are smaller than each bound.

        Args:
            bounds: UTF-8, in any order.
            with_equal: Count a key that is equal as well.
        """
        if len(bounds) * _KEYS_PER_BOUND < len(self.keys):
            search = bisect_right if with_equal else bisect_left
            return np.array([search(self._view, bound) for bound in bounds], dtype=np.int64)
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
        data = self._view.data
        return bool(((data >= _LAST_BASIC.start) & (data < _LAST_BASIC.stop)).any())

    def order_is_certain(self, *bounds: bytes) -> bool:
        """Whether every key compares with these bounds in Java's order of strings as it does by UTF-8 bytes.

        Java compares UTF-16 units, in which characters above U+FFFF come before those from U+E000 to U+FFFF. Of two
        writers one may have found the ends of a file's keys in this order and the other in that.

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
        data = self._view.data
        return int(data.max()) if len(data) else 0

    @cached_property
    def _view(self) -> _Texts:
        return _Texts.of(self.keys)

    @cached_property
    def _objects(self) -> np.ndarray:
        objects: np.ndarray = self.keys.cast(pa.binary()).to_numpy(zero_copy_only=False)
        return objects


@attrs.frozen(eq=False)
class _Texts(Sequence[bytes]):
    """The bytes of strings, made when they are asked for."""

    data: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, texts: pa.Array) -> _Texts:
        _, offsets_buffer, data_buffer = texts.buffers()
        if not len(texts):
            return cls(np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64))
        kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
        offsets = np.frombuffer(offsets_buffer, dtype=kind)[texts.offset : texts.offset + len(texts) + 1]
        first, end = int(offsets[0]), int(offsets[-1])
        data = np.frombuffer(data_buffer, dtype=np.uint8)[first:end] if end > first else np.zeros(0, dtype=np.uint8)
        return cls(data, offsets - first)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()
