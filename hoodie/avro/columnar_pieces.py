"""Bytes of many values, put together a column at a time and joined row by row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.columnar_cursors import Bytes, Longs
from hoodie.common.util.arrow_buffers import rows_of, spans_of

_MAX_BYTES = (1 << 31) - 1
"""Arrow's binary arrays have offsets of 32 bits."""
_BITS = 7
_WORD_BYTES = 8
_MAX_NUMBER_BYTES = 10
_LIMITS = tuple(np.uint64(1 << _BITS * count) for count in range(1, _MAX_NUMBER_BYTES))
"""The smallest numbers that take 2, 3, ... bytes."""
_MORE_BITS = np.array(
    [sum(0x80 << 8 * place for place in range(min(max(count - 1, 0), _WORD_BYTES))) for count in range(11)], np.uint64
)
"""The bits that mark that another byte follows, by the number of bytes."""
_SPREADS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x000000000FFFFFFF, 0x00FFFFFFF0000000, 4),
        (0x00003FFF00003FFF, 0x0FFFC0000FFFC000, 2),
        (0x007F007F007F007F, 0x3F803F803F803F80, 1),
    )
)
"""Each step parts groups of 56, 28 and 14 bits."""
_ONE, _56, _63 = np.uint64(1), np.uint64(56), np.uint64(63)


class TooLargeError(Exception):
    """The values take more bytes than one array of Arrow has room for."""


class Pieces:
    """The bytes of rows, collected piece by piece.

    Args:
        count: The number of rows.

    Attributes:
        lengths: int64, the number of bytes of each row so far.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._parts: list[pa.Array] = []
        self._equal: list[Bytes] = []
        self.lengths: Longs = np.zeros(count, np.int64)

    def add(self, matrix: Bytes, lengths: Longs | None = None) -> None:
        """Append bytes to each row.

        Args:
            matrix: Rows x bytes.
            lengths: The number of bytes of each row that count, from the first one; None for all.
        """
        if lengths is not None and len(lengths):
            least, most = int(lengths.min()), int(lengths.max())
            matrix = matrix[:, :most]
            if least != most:
                self._end_equal()
                starts = np.arange(0, matrix.size, most)
                self._parts.append(bounded_spans(np.ascontiguousarray(matrix), starts, starts + lengths))
                self.lengths += lengths
                return
        if matrix.shape[1]:
            self._equal.append(matrix)
            self.lengths += matrix.shape[1]

    def add_binary(self, values: pa.BinaryArray, lengths: Longs) -> None:
        """Append values to the rows; nulls add no bytes.

        Args:
            values: One for each row.
            lengths: The number of bytes of each value, 0 for null.
        """
        self._end_equal()
        self._parts.append(values)
        self.lengths += lengths

    def joined(self, in_front: Bytes | None = None) -> pa.BinaryArray:
        """All bytes of each row.

        Args:
            in_front: Rows x bytes, to begin each row with.

        Raises:
            TooLargeError: The rows take 2 GB or more.
        """
        self._end_equal()
        parts = self._parts if in_front is None else [_with_equal_lengths(in_front), *self._parts]
        if int(self.lengths.sum()) + (0 if in_front is None else in_front.size) > _MAX_BYTES:
            raise TooLargeError
        if not parts:
            return pa.repeat(pa.scalar(b"", pa.binary()), self._count)
        return pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")

    def _end_equal(self) -> None:
        if self._equal:
            self._parts.append(_with_equal_lengths(np.hstack(self._equal) if len(self._equal) > 1 else self._equal[0]))
            self._equal = []


def bounded_spans(data: Bytes, starts: Longs, ends: Longs) -> pa.BinaryArray:
    """Parts of the data; see `spans_of`.

    Raises:
        TooLargeError: The bytes take 2 GB or more.
    """
    if data.size > _MAX_BYTES:
        raise TooLargeError
    return spans_of(data, starts, ends)


def numbers(values: Longs) -> tuple[Bytes, Longs | None]:
    """Integers as Avro encodes them.

    Returns:
        Rows x bytes, and how many bytes each takes; None if all take as many as there are.
    """
    raw = ((values << 1) ^ (values >> 63)).view(np.uint64)
    largest = raw.max(initial=0)
    if largest < _LIMITS[0]:
        return raw.astype(np.uint8)[:, None], None
    lengths = np.ones(len(raw), np.int64)
    most = 1
    for limit in _LIMITS:
        if largest < limit:
            break
        lengths += raw >= limit
        most += 1
    words = raw
    for low, high, shift in _SPREADS:
        words = (words & low) | ((words & high) << shift)
    words |= _MORE_BITS.take(lengths)
    matrix = words.view(np.uint8).reshape(len(raw), _WORD_BYTES)
    if most > _WORD_BYTES:
        ninth = (raw >> _56) & np.uint64(0x7F) | np.where(lengths == _MAX_NUMBER_BYTES, np.uint64(0x80), np.uint64(0))
        matrix = np.column_stack([matrix, ninth.astype(np.uint8), (raw >> _63).astype(np.uint8)])
    return matrix[:, :most], lengths


def raw_bytes(values: npt.NDArray[np.generic]) -> Bytes:
    """The bytes of numbers of a fixed size, rows x bytes."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)


def _with_equal_lengths(matrix: Bytes) -> pa.BinaryArray:
    count, width = matrix.shape
    if count * width > _MAX_BYTES:
        raise TooLargeError
    return rows_of(matrix)
