"""Filters written as tuples of a column, an operator and a value, in the form of `pyarrow.parquet.read_table`.

::

    [("city", "in", {"rome", "oslo"}), ("fare", ">", 5)]         both
    [[("city", "==", "rome")], [("fare", ">", Decimal("5.5"))]]  one of them

Values are of the types that programs use: Python, numpy, pandas, polars and Arrow. This module turns them into Arrow
values of the same kind; `hoodie.common.data.filter_values` casts those to the types of the columns.
"""

from __future__ import annotations

import enum
import math
import operator
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.util.arrow_buffers import scalar_of, without_views
from hoodie.common.util.shown_value import short_repr, shown_value, typed_repr
from hoodie.exception import HoodieConfigException

_COMPARISONS: Mapping[str, Callable[[pc.Expression, Any], pc.Expression]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPERATORS = (*_COMPARISONS, "in", "not in")
_FORM = "give an expression, or tuples such as ('fare', '>', 50)"
_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_DIGITS = 76
"""The most digits that decimals of Arrow have."""
_UNITS = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s", "ps": "ns", "fs": "ns", "as": "ns"}
"""Units of numpy's times that Arrow lacks, with the unit that holds their values."""
_NULL_TYPES = frozenset({"NAType", "NaTType"})
"""The types of pandas' nulls."""


def filters_of_tuples(filters: Sequence[Any]) -> pc.Expression:
    """The expression of filters in tuple form.

    Args:
        filters: A list of tuples, all of which must hold; or a list of such lists, one of which must hold.

    Raises:
        HoodieConfigException: The filters are of another form; the message names the tuple.
    """
    if not isinstance(filters, list | tuple):
        raise HoodieConfigException(f"filters are {shown_value(filters)}: {_FORM}")
    groups = [filters] if all(_is_condition(part) for part in filters) else filters
    alternatives = []
    for group in groups:
        if not isinstance(group, list | tuple) or not group or not all(_is_condition(part) for part in group):
            raise HoodieConfigException(f"filters have a part that is {shown_value(group)}: {_FORM}")
        alternatives.append(reduce(operator.and_, (_condition(*part) for part in group)))
    return reduce(operator.or_, alternatives)


def _is_condition(part: Any) -> bool:
    return isinstance(part, list | tuple) and len(part) == 3 and isinstance(part[1], str)


def _condition(column: Any, sign: str, value: Any) -> pc.Expression:
    where = f"the filter ({column!r}, {sign!r}, ...)"
    try:
        field = pc.field(column)
    except (TypeError, ValueError) as error:
        raise HoodieConfigException(f"{where} names the column {shown_value(column)}: give its name") from error
    if sign not in _OPERATORS:
        raise HoodieConfigException(f"{where}: the operator is one of {', '.join(_OPERATORS)}")
    if sign in _COMPARISONS:
        if _is_several(value):
            raise HoodieConfigException(f"{where} compares with {typed_repr(value)}: give one value, or write 'in'")
        plain = _plain(value, where)
        if _is_beyond_floats(plain):
            return _compared_with_huge(field, sign, is_negative=plain < 0)
        return _COMPARISONS[sign](field, pc.scalar(_scalar(plain, value, where)))
    if isinstance(value, str | bytes | bytearray) or not _is_several(value):
        raise HoodieConfigException(
            f"{where} searches in {typed_repr(value)}: give a list of values, such as {_list_of(value)}"
        )
    found = reduce(operator.or_, (field.isin(values) for values in _sets(value, where)))
    return ~found if sign == "not in" else found


def _is_beyond_floats(plain: Any) -> bool:
    """Whether a value is a decimal beyond all floats except infinity."""
    return isinstance(plain, Decimal) and math.isinf(float(plain))


def _compared_with_huge(field: pc.Expression, sign: str, *, is_negative: bool) -> pc.Expression:
    """A comparison with a number between the largest float and infinity, or between their negatives."""
    below = pc.scalar(-math.inf if is_negative else sys.float_info.max)
    if sign in ("<", "<="):
        return field <= below
    if sign in (">", ">="):
        return field > below
    never = (field < below) & (field > below)
    return ~never if sign == "!=" else never


def _list_of(value: Any) -> str:
    return f"[{short_repr(value)}]"


def _is_several(value: Any) -> bool:
    if isinstance(value, str | bytes | bytearray | enum.Enum | uuid.UUID | pa.Scalar):
        return False
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0


def _sets(given: Iterable[Any], where: str) -> list[pa.Array]:
    """The values of a search, as one array for each kind of value."""
    if not isinstance(given, list | tuple | set | frozenset):
        array = _array(given)
        if array is not None:
            return [array]
    kinds: dict[Any, list[Any]] = {}
    for value in given:
        scalar = _plain(value, where)
        if _is_beyond_floats(scalar):
            continue
        kind = scalar.type if isinstance(scalar, pa.Scalar) else _kind(scalar)
        kinds.setdefault(kind, []).append(scalar)
    nulls = kinds.pop(type(None), [])
    arrays = [_array_of(values, where) for values in kinds.values()]
    # A null among the values finds nulls.
    return [*arrays, pa.nulls(len(nulls))] if nulls or not arrays else arrays


def _kind(value: Any) -> Any:
    if isinstance(value, datetime):
        return datetime, value.tzinfo is None
    return type(value)


def _array_of(values: Sequence[Any], where: str) -> pa.Array:
    """Values of one kind as an array."""
    try:
        if isinstance(values[0], pa.Scalar):
            return pa.concat_arrays([pa.repeat(value, 1) for value in values])
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise HoodieConfigException(f"{where} searches for {typed_repr(values[0])}: {error}") from error


def _array(given: Any) -> pa.Array | None:
    """Values of numpy, pandas, polars or Arrow as an array; None if they must be converted one by one."""
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    if isinstance(given, pa.Array):
        return given.dictionary_decode() if isinstance(given, pa.DictionaryArray) else without_views(given)
    dtype = getattr(given, "dtype", None)
    if dtype is None or str(dtype) == "object":
        return None
    if isinstance(given, np.ndarray) and given.dtype.kind == "M":
        given = _with_known_unit(given)
    try:
        found = pa.array(given)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return _array(found)


def _with_known_unit(times: Any) -> Any:
    """Times of numpy in a unit that Arrow has. Times that the unit cannot hold keep theirs."""
    unit, _ = np.datetime_data(times.dtype)
    if unit not in _UNITS:
        return times
    converted = times.astype(f"datetime64[{_UNITS[unit]}]")
    return converted if bool(np.all((converted.astype(times.dtype) == times) | np.isnat(times))) else times


def _scalar(plain: Any, value: Any, where: str) -> pa.Scalar:
    """The result of `_plain` for a value, as an Arrow scalar."""
    try:
        return plain if isinstance(plain, pa.Scalar) else scalar_of(plain)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise HoodieConfigException(f"{where} compares with {typed_repr(value)}: {error}") from error


def _plain(value: Any, where: str) -> Any:
    """A value as one of Python's that Arrow converts without loss, as one of Arrow's, or as a number beyond all
    floats.
    """
    if value is None or type(value) in (str, bool, float, bytes) or isinstance(value, pa.Scalar):
        return value.value if isinstance(value, pa.DictionaryScalar) else value
    if type(value).__name__ in _NULL_TYPES:
        return None
    if isinstance(value, enum.Enum):
        return _plain(value.value, where)
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else _array_of(_with_known_unit(value.reshape(1)), where)[0]
    if isinstance(value, np.longdouble):
        # Python has no such type: `item` returns the value itself.
        return _plain(Decimal(str(value)), where)
    if isinstance(value, np.generic):
        return _plain(value.item(), where)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value) if _SMALLEST <= value <= _LARGEST else _plain(Decimal(value), where)
    if isinstance(value, Decimal):
        if not value.is_finite():
            return float(value)
        # Arrow has no decimals of so many digits, and no column has.
        near = float(value) if value.adjusted() >= _DIGITS else math.inf
        return value if math.isinf(near) else near
    if isinstance(value, uuid.UUID):
        return pa.scalar(value.bytes, pa.uuid()) if hasattr(pa, "uuid") else str(value)
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float) and not math.isnan(value):
        return float(value)
    return value


def _moment(value: datetime) -> Any:
    """A time with a zone, in UTC, with the nanoseconds that pandas has."""
    if getattr(value, "nanosecond", 0):
        zone = None if value.tzinfo is None else "UTC"
        return pa.scalar(int(getattr(value, "value", 0)), pa.timestamp("ns", zone))
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    return value if value.tzinfo is None else value.astimezone(UTC)
