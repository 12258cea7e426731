"""Consecutive numbers as strings with a prefix: ``c_7, c_8, c_9, c_10``."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.util.arrow_buffers import rows_of

_DIGITS = 4
_BLOCK = 10**_DIGITS


def numbered_strings(prefix: str, first: int, count: int) -> pa.StringArray:
    """``prefix + str(number)`` for each of ``count`` numbers.

    The bytes of all strings are written at once, in blocks of numbers that differ only in the last four digits.

    Args:
        prefix: The text before each number.
        first: The first number, at least 0.
        count: The number of strings.
    """
    parts = []
    low, end = first, first + count
    while low < end:
        digits = len(str(low))
        high = min(end, 10**digits)
        parts.append(_of_equal_length(prefix, low, high, digits))
        low = high
    if len(parts) == 1:
        return parts[0]
    return pa.concat_arrays([pa.array([], pa.string()), *parts])


def _of_equal_length(prefix: str, first: int, end: int, digits: int) -> pa.StringArray:
    count, length = end - first, len(prefix.encode()) + digits
    last = min(_DIGITS, digits)
    text = np.empty((count, length), dtype=np.uint8)
    for block in range(first // _BLOCK, (end - 1) // _BLOCK + 1):
        low, high = max(first, block * _BLOCK), min(end, (block + 1) * _BLOCK)
        rows = text[low - first : high - first]
        before = prefix + (str(block) if digits > _DIGITS else "")
        rows[:, : length - last] = np.frombuffer(before.encode(), dtype=np.uint8)
        rows[:, length - last :] = _digit_table()[low - block * _BLOCK : high - block * _BLOCK, _DIGITS - last :]
    return rows_of(text, pa.string())


@lru_cache(maxsize=1)
def _digit_table() -> npt.NDArray[np.uint8]:
    """A table whose row n contains the decimal digits of n, with leading zeros."""
    powers = 10 ** np.arange(_DIGITS - 1, -1, -1)
    return (ord("0") + np.arange(_BLOCK)[:, None] // powers % 10).astype(np.uint8)
