"""Values of rows on space-filling curves, equal to Hudi's bit by bit: rows that are alike in all columns lie near.

A column becomes a whole number of 64 bits for each row, its ordinate. The bits of all ordinates are mixed: one bit of
the first column, one of the second, and so on, the highest first (Z-order); the Hilbert curve turns the ordinates
first, so that neighbours on the curve are neighbours in every column.

==================  ===================================  =========================  =============================
type                ordinate of the Z-order              null                       of the Hilbert curve
==================  ===================================  =========================  =============================
int64               v xor 2**63                          2**63 - 1                  v
int8                its byte                             127                        its byte
int16, int32        v xor 2**31, in 32 bits              the largest of the type    v
float, double       IEEE bits of a double; positive:     the largest of the type    IEEE bits
                    xor 2**63; negative: inverted
string, binary      the first 8 bytes; of shorter ones   0                          the same
                    all, with zeros in front
date                as int64: milliseconds at midnight   2**63 - 1                  the milliseconds
timestamp           as int64: milliseconds               2**63 - 1                  the milliseconds
decimal             as int64: the integer part           2**63 - 1                  the integer part
bool                as int32: 0 or 1                     0                          0 or 2**63 - 1
==================  ===================================  =========================  =============================

A null on the Hilbert curve is 2**63 - 1, of a bool 0. The curve has 63 bits a column and takes the low bits of a
negative number, so that negative numbers come after positive ones.

Hudi: org.apache.hudi.sort.SpaceCurveSortingHelper, org.apache.hudi.common.util.BinaryUtil, and
org.apache.hudi.optimize.HilbertCurveUtils. Differs: dates and timestamps before 1900 are not moved to the calendar of
java.util; Hilbert values of eight and more columns, which Hudi cuts to 63 bytes, are whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]
HILBERT_BITS = 63
"""The bits of a column on the Hilbert curve."""

_BLOCK_ROWS = 1 << 14
"""Rows are worked on in blocks whose columns stay in the processor's caches."""
_NUMBERS: dict[pa.DataType, type[np.generic]] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.uint8(): np.uint8,
    pa.uint16(): np.uint16,
    pa.uint32(): np.uint32,
    pa.uint64(): np.uint64,
    pa.float16(): np.float16,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}
"""The numbers of numpy that types of Arrow hold."""
_TOP = np.uint64(1 << 63)
_TOP_OF_INT = np.uint64(1 << 31)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_LARGEST_LONG = (1 << 63) - 1
_ALL_BITS = (1 << 64) - 1
_TABLE_BITS = 11
_MILLIS_A_DAY = 86_400_000
_PER_MILLI = {"s": 1000, "ms": 1, "us": 1000, "ns": 1_000_000}


def has_ordinates(data_type: pa.DataType) -> bool:
    """Whether Hudi gives the values of a type a place on a curve.

    Args:
        data_type: The type. A timestamp without a time zone has none.
    """
    kinds = pa.types
    return (
        kinds.is_signed_integer(data_type)
        or kinds.is_float32(data_type)
        or kinds.is_float64(data_type)
        or kinds.is_decimal128(data_type)
        or kinds.is_boolean(data_type)
        or kinds.is_date32(data_type)
        or _is_bytes(data_type)
        or (kinds.is_timestamp(data_type) and data_type.tz is not None)
    )


def mixing_order(positions: Sequence[int]) -> list[int]:
    """The order in which Hudi mixes the bits of columns: that of a Java HashMap over their positions.

    Tasks get the map serialised, and make one that is filled by at most three quarters, and never just by these. So up
    to 11 columns come in the order of their positions modulo 16, up to 23 of them modulo 32. Columns of one place stay
    in the given order.

    Args:
        positions: The positions of the columns among all columns, Hudi's five meta columns first.

    Returns:
        The numbers of the columns, from 0, in the order in which they are mixed.
    """
    places = 16
    while len(positions) >= places * 3 // 4:
        places *= 2
    return sorted(range(len(positions)), key=lambda number: positions[number] % places)


def z_ordinates(column: pa.Array, time_zone: str = "UTC") -> Words:
    """The ordinates of a column for the Z-order.

    Args:
        column: Values of a type that `has_ordinates`.
        time_zone: The zone of the midnight with which a date begins; in Hudi, the zone of the JVM.
    """
    kind = column.type
    if pa.types.is_boolean(kind):
        return _bits_of_bools(column) ^ _TOP_OF_INT
    if pa.types.is_floating(kind):
        numbers = _doubles(column)
        found = numbers.view(np.uint64)
        found = np.where(numbers > 0, found ^ _TOP, np.where(numbers < 0, ~found, found))
        largest = np.finfo(np.float32 if pa.types.is_float32(kind) else np.float64).max
        return _with_nulls(found, column, int(np.float64(largest).view(np.uint64) ^ _TOP))
    if _is_bytes(kind):
        return _with_nulls(_first_bytes(column), column, 0)
    if pa.types.is_int8(kind):
        return _with_nulls(_longs(column, time_zone).view(np.uint64) & np.uint64(0xFF), column, 0x7F)
    if pa.types.is_int16(kind) or pa.types.is_int32(kind):
        found = (_longs(column, time_zone).view(np.uint64) & _LOW_HALF) ^ _TOP_OF_INT
        return _with_nulls(found, column, ((1 << (kind.bit_width - 1)) - 1) ^ (1 << 31))
    return _with_nulls(_longs(column, time_zone).view(np.uint64) ^ _TOP, column, _ALL_BITS)


def hilbert_ordinates(column: pa.Array, time_zone: str = "UTC") -> Words:
    """The ordinates of a column for the Hilbert curve, of which the low 63 bits count.

    Args:
        column: See `z_ordinates`.
        time_zone: See `z_ordinates`.
    """
    kind = column.type
    if pa.types.is_boolean(kind):
        return _bits_of_bools(column) * np.uint64(_LARGEST_LONG)
    if pa.types.is_floating(kind):
        numbers = _doubles(column)
        # All values that are no number have the same bits.
        found = np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
    elif _is_bytes(kind):
        found = _first_bytes(column)
    else:
        found = _longs(column, time_zone).view(np.uint64)
        found = found & np.uint64(0xFF) if pa.types.is_int8(kind) else found
    return _with_nulls(found, column, _LARGEST_LONG)


def mixed_bits(columns: Sequence[Words], bits: int = 64) -> list[Words]:
    """The low bits of several columns, one bit of each column after the other, the highest first.

    Args:
        columns: The ordinates of each column.
        bits: The number of bits of a column that count.

    Returns:
        The bits of each row in words of 64 bits, the highest first, with zeros behind the last one. Rows are in order
        by the first word, then by the second, and so on.
    """
    count, rows = len(columns), len(columns[0])
    words = [np.zeros(rows, np.uint64) for _ in range(-(-count * bits // 64))]
    table, width = _spread_table(count), _table_width(count)
    mask = np.uint64((1 << width) - 1)
    for low in range(0, rows, _BLOCK_ROWS):
        part = slice(low, low + _BLOCK_ROWS)
        for number, column in enumerate(columns):
            for place, word in enumerate(words):
                # The bits of this column, counted from its highest, that fall into this word.
                first = max(0, -(-(64 * place - number) // count))
                last = min(bits - 1, (64 * place + 63 - number) // count)
                shift = 63 - (last * count + number - 64 * place)
                left = (column[part] >> np.uint64(bits - 1 - last)) & np.uint64((1 << (last - first + 1)) - 1)
                for start in range(0, last - first + 1, width):
                    spread = table[(left >> np.uint64(start)) & mask]
                    word[part] |= spread << np.uint64(shift + start * count)
    return words


def hilbert_bits(points: Sequence[Words], bits: int = HILBERT_BITS) -> list[Words]:
    """The places of points on the Hilbert curve, to be mixed by `mixed_bits` with as many bits.

    Args:
        points: The ordinates of each column; their low bits count.
        bits: The number of bits.

    Source: J. Skilling, "Programming the Hilbert curve", 2004: AxestoTranspose.
    """
    found = [np.empty(len(point), np.uint64) for point in points]
    for low in range(0, len(points[0]), _BLOCK_ROWS):
        part = slice(low, low + _BLOCK_ROWS)
        for target, turned in zip(found, _turned([point[part] for point in points], bits), strict=True):
            target[part] = turned
    return found


def _turned(points: Sequence[Words], bits: int) -> list[Words]:
    axes = [point & np.uint64((1 << bits) - 1) for point in points]
    first = axes[0]
    is_set, swapped = np.empty_like(first), np.empty_like(first)
    for bit in range(bits - 1, 0, -1):
        below = np.uint64((1 << bit) - 1)
        for axis in axes:
            # All bits below where the bit is set, none where it is not: the sign of a signed number is shifted in.
            np.left_shift(axis, np.uint64(63 - bit), out=is_set)
            np.right_shift(is_set.view(np.int64), 63, out=is_set.view(np.int64))
            np.bitwise_and(is_set, below, out=is_set)
            if axis is not first:
                np.bitwise_xor(first, axis, out=swapped)
                np.bitwise_and(swapped, np.bitwise_xor(is_set, below), out=swapped)
                np.bitwise_xor(axis, swapped, out=axis)
                np.bitwise_xor(first, swapped, out=first)
            np.bitwise_xor(first, is_set, out=first)
    for axis, before in zip(axes[1:], axes, strict=False):
        axis ^= before
    # Each bit: whether an odd number of bits above it is set in the last axis.
    odd = axes[-1] >> np.uint64(1)
    for shift in (1, 2, 4, 8, 16, 32):
        odd ^= odd >> np.uint64(shift)
    return [axis ^ odd for axis in axes]


@cache
def _spread_table(distance: int) -> Words:
    """For each small number the same bits, each so far from the next."""
    numbers = np.arange(1 << _table_width(distance), dtype=np.uint64)
    table = np.zeros(len(numbers), np.uint64)
    for bit in range(_table_width(distance)):
        table |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * distance)
    return table


def _table_width(distance: int) -> int:
    return min(_TABLE_BITS, 63 // distance + 1)


# --- columns as numbers ------------------------------------------------------------------------------------------


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind)
    )


def _with_nulls(found: Words, column: pa.Array, value: int) -> Words:
    """The ordinates with a value in place of nulls, for which the column holds anything."""
    if column.null_count:
        return np.where(pc.is_null(column).to_numpy(zero_copy_only=False), np.uint64(value), found)
    return found


def _bits_of_bools(column: pa.Array) -> Words:
    filled = column.fill_null(False) if column.null_count else column
    return np.asarray(filled.cast(pa.uint8()).to_numpy(), np.uint64)


def _stored(column: pa.Array, kind: npt.DTypeLike, of_value: int = 1) -> np.ndarray:
    """The stored numbers of a column, several for each value or one; anything stands in place of nulls."""
    buffer, dtype = column.buffers()[1], np.dtype(kind)
    if buffer is None:
        return np.zeros(len(column) * of_value, dtype)
    start = column.offset * of_value * dtype.itemsize
    return np.frombuffer(buffer, dtype, len(column) * of_value, start)


def _doubles(column: pa.Array) -> npt.NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return _stored(column, _NUMBERS[column.type]).astype(np.float64)


def _longs(column: pa.Array, time_zone: str) -> npt.NDArray[np.int64]:
    """Whole numbers of 64 bits: of integers, of the integer part of decimals, milliseconds of dates and timestamps."""
    kind = column.type
    if pa.types.is_integer(kind):
        return _stored(column, _NUMBERS[kind]).astype(np.int64)
    if pa.types.is_decimal(kind):
        whole = pc.trunc(column).cast(pa.decimal128(38, 0)) if kind.scale else column
        # The low half of 128 bits, as Java's BigDecimal.longValue.
        return _stored(whole, np.int64, 2)[::2]
    if pa.types.is_date(kind):
        if time_zone == "UTC":
            return _stored(column, np.int32) * np.int64(_MILLIS_A_DAY)
        midnights = column.cast(pa.timestamp("ms"))
        column = pc.assume_timezone(midnights, time_zone, ambiguous="earliest", nonexistent="latest")
        return _stored(column, np.int64)
    found = _stored(column, np.int64)
    return found * _PER_MILLI["s"] if kind.unit == "s" else found // _PER_MILLI[kind.unit]


def _first_bytes(column: pa.Array) -> Words:
    """The first 8 bytes of texts as a number; of shorter ones all bytes, so that zeros stand in front."""
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets, data = column.buffers()
    if not len(column) or offsets is None:
        return np.zeros(len(column), np.uint64)
    dtype = np.dtype(np.int64 if is_large else np.int32)
    ends = np.frombuffer(offsets, dtype, len(column) + 1, column.offset * dtype.itemsize).astype(np.int64)
    used = int(ends[-1] - ends[0])
    padded = np.zeros(used + 8, np.uint8)
    if used:
        padded[:used] = np.frombuffer(data, np.uint8, used, int(ends[0]))
    at_each_byte: npt.NDArray[np.uint64] = np.ndarray((used + 1,), ">u8", padded, strides=(1,))
    words = at_each_byte[ends[:-1] - ends[0]].astype(np.uint64)
    missing = 8 - np.minimum(np.diff(ends), 8)
    # A number is not shifted by all of its bits.
    return np.where(missing == 8, np.uint64(0), words >> (8 * np.minimum(missing, 7)).astype(np.uint64))
