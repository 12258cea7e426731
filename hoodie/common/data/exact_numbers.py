"""Convert numbers to another type exactly, or refuse with an error that names one value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.exception import SchemaCompatibilityException

LOSSY_OPTION = "hoodie.write.schema.widen.lossy"

UNAMBIGUOUS_BELOW = {pa.float16(): 1 << 11, pa.float32(): 1 << 24, pa.float64(): 1 << 53}
"""Below this magnitude a whole float is exactly one integer. As a double, 2^53 + 1 becomes 2^53 too."""

_POWERS = {pa.float16(): "2^11", pa.float32(): "2^24", pa.float64(): "2^53"}


def rounded_from(data_type: pa.DataType) -> str:
    """The magnitude beyond which a floating-point type rounds integers, as text: ``2^24`` or ``2^53``."""
    return _POWERS[data_type]


def integer_limits(data_type: pa.DataType) -> np.iinfo[np.signedinteger[Any]] | np.iinfo[np.unsignedinteger[Any]]:
    """The least and the largest value of a type of integers; Arrow's own `to_pandas_dtype` may need pandas for that."""
    kind = "i" if pa.types.is_signed_integer(data_type) else "u"
    return np.iinfo(np.dtype(f"{kind}{data_type.bit_width // 8}"))


def integer_values(values: pa.Array, target: pa.DataType, path: str, offers_option: bool = False) -> pa.Array:
    """Convert whole floats to integers; nulls stay null.

        integer_values([1.0, None], int64)    [1, None]
        integer_values([1.5], int64)          refused, like NaN, infinity, and 2.0 ** 53

    Args:
        values: Floating-point numbers.
        target: int32 or int64.
        path: The column, as a path if it is nested.
        offers_option: Whether the message names the option that widens the column.

    Raises:
        SchemaCompatibilityException: A value is not whole, infinite, NaN, out of the range of the integers, or so large
            that it may stand for several integers.
    """
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    largest = UNAMBIGUOUS_BELOW[values.type] - 1
    bounds = integer_limits(target)
    is_exact = (numbers >= max(-largest, bounds.min)) & (numbers <= min(largest, bounds.max))
    is_exact &= np.trunc(numbers) == numbers
    if is_exact.all():
        return values.cast(target)
    first = float(numbers[int(np.flatnonzero(~is_exact)[0])])
    raise SchemaCompatibilityException(
        f"column '{path}' is {target}, and the input has the {values.type} {first!r} there, "
        f"{_objection(first, values.type, target)}. Correct such values{_way_out(path, values.type, offers_option)}"
    )


def _objection(value: float, given: pa.DataType, target: pa.DataType) -> str:
    if math.isnan(value):
        return "which is not a number: if it stands for a missing value, make it null"
    if math.isinf(value):
        return "which is infinite"
    if value != math.trunc(value):
        return "which is not whole"
    if abs(value) >= UNAMBIGUOUS_BELOW[given]:
        return f"and from {_POWERS[given]} on a {given} may stand for several integers: give the column as {target}"
    return "which is out of range"


def _way_out(path: str, wider: pa.DataType, offers_option: bool) -> str:
    if not offers_option:
        return ""
    return (
        f". Or set {LOSSY_OPTION}=true: '{path}', unless it is part of keys, becomes {wider} for good, and integers "
        f"beyond {_POWERS[wider]} are rounded for good, stored ones too"
    )


def float_values(
    values: pa.Array, target: pa.DataType, path: str, is_rounded: bool = False, offers_option: bool = False
) -> pa.Array:
    """Convert integers to floats with exactly the same value; nulls stay null.

        float_values([2 ** 24, 2 ** 25], float32)    [16777216.0, 33554432.0]
        float_values([2 ** 24 + 1], float32)         refused, or 16777216.0 with ``is_rounded``

    Args:
        values: Integers.
        target: float32 or float64.
        path: The column, as a path if it is nested.
        is_rounded: Whether an integer that the type cannot hold becomes the nearest float instead.
        offers_option: Whether the message names the option that rounds.

    Raises:
        SchemaCompatibilityException: The type cannot hold an integer, and ``is_rounded`` is false.
    """
    if is_rounded:
        return values.cast(target, safe=False)
    try:
        # Arrow refuses everything beyond 2^24 or 2^53, even integers that a float holds exactly.
        return values.cast(target)
    except pa.ArrowInvalid:
        floats = values.cast(target, safe=False)
    back = floats.fill_null(0).to_numpy(zero_copy_only=False)
    is_small = back < 2.0**63
    numbers = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    is_exact = is_small & (np.where(is_small, back, 0).astype(np.int64) == numbers)
    if is_exact.all():
        return floats
    first = int(numbers[int(np.flatnonzero(~is_exact)[0])])
    way_out = f". Or set {LOSSY_OPTION}=true: unless it is part of keys, it is rounded" if offers_option else ""
    raise SchemaCompatibilityException(
        f"column '{path}' is {target}, which cannot hold {first} of the input: the nearest is "
        f"{pc.cast(pa.scalar(first), target, safe=False).as_py():.0f}. Correct or round such values{way_out}"
    )
