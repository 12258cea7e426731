"""A map with a limit of bytes, which drops the entries that were unused for the longest time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_ValueT = TypeVar("_ValueT")


class BoundedCache(Generic[_ValueT]):
    """Keeps values that never change, for all threads of a process.

    Args:
        max_bytes: The most bytes that all values may take.
        max_bytes_of_value: Larger values are not kept.
    """

    def __init__(self, max_bytes: int, max_bytes_of_value: int) -> None:
        self._max_bytes = max_bytes
        self._max_bytes_of_value = max_bytes_of_value
        self._values: OrderedDict[Hashable, tuple[_ValueT, int]] = OrderedDict()
        self._size_bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> _ValueT | None:
        """The value of a key; None if it is not kept."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: _ValueT, size_bytes: int) -> None:
        """Keep a value.

        Args:
            key: The key.
            value: The value.
            size_bytes: The bytes that it takes.
        """
        if size_bytes > self._max_bytes_of_value:
            return
        with self._lock:
            _, before = self._values.pop(key, (None, 0))
            self._values[key] = (value, size_bytes)
            self._size_bytes += size_bytes - before
            while self._size_bytes > self._max_bytes:
                _, (_, dropped_bytes) = self._values.popitem(last=False)
                self._size_bytes -= dropped_bytes

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """The bytes of all values that are kept."""
        return self._size_bytes
