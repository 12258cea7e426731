"""Filters that PySpark hands to a data source, as expressions of Arrow that choose the same rows.

Spark drops a filter that a source takes, so a source takes it only if it chooses exactly the rows that Spark would::

    taken                                            left to Spark
    comparisons, in, is null, starts with, ...       floats: for Spark NaN equals NaN and exceeds all numbers
    of integers, strings, booleans, dates,           binary and nested columns, fields of structs
    timestamps, decimals                             values that the column's type cannot hold
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_EXACT_DIGITS = 28
"""PySpark rounds decimals of more digits when it hands them over."""
_COMPARISONS: Mapping[str, Callable[[pc.Expression, pa.Scalar], pc.Expression]] = {
    "EqualTo": lambda column, value: column == value,
    "GreaterThan": lambda column, value: column > value,
    "GreaterThanOrEqual": lambda column, value: column >= value,
    "LessThan": lambda column, value: column < value,
    "LessThanOrEqual": lambda column, value: column <= value,
}
_PATTERNS: Mapping[str, Callable[..., pc.Expression]] = {
    "StringStartsWith": pc.starts_with,
    "StringEndsWith": pc.ends_with,
    "StringContains": pc.match_substring,
}


def split_filters(filters: Iterable[Any], schema: pa.Schema) -> tuple[pc.Expression | None, list[Any]]:
    """The filters that a scan can apply as Spark would, as one expression; and the others.

    Args:
        filters: Filters of `pyspark.sql.datasource`, all of which a row fulfils.
        schema: The table's columns.
    """
    condition: pc.Expression | None = None
    remaining_filters = []
    for one in filters:
        expression = to_expression(one, schema)
        if expression is None:
            remaining_filters.append(one)
        else:
            condition = expression if condition is None else condition & expression
    return condition, remaining_filters


def to_expression(one: Any, schema: pa.Schema) -> pc.Expression | None:
    """A filter as an expression that is true for the same rows; None if there is none.

    Args:
        one: A filter of `pyspark.sql.datasource`.
        schema: The table's columns.
    """
    kind = type(one).__name__
    if kind == "Not":
        return _negated(one.child, schema)
    found = _column(one, schema)
    if found is None:
        return None
    column, data_type = found
    if kind == "IsNull":
        return column.is_null()
    if kind == "IsNotNull":
        return column.is_valid()
    if kind == "EqualNullSafe" and one.value is None:
        return column.is_null()
    if kind == "In":
        # A null among the values makes no row true.
        given = [value for value in one.value if value is not None]
        values = [value.as_py() for value in (_scalar(value, data_type) for value in given) if value is not None]
        return column.isin(pa.array(values, data_type)) if len(values) == len(given) else None
    value = _scalar(one.value, data_type)
    if value is None:
        return None
    if kind == "EqualNullSafe":
        return column == value
    if kind in _COMPARISONS:
        return _COMPARISONS[kind](column, value)
    if kind in _PATTERNS and pa.types.is_string(data_type):
        return _PATTERNS[kind](column, one.value)
    return None


def _negated(one: Any, schema: pa.Schema) -> pc.Expression | None:
    """An expression that is true for the rows for which a filter is false (and not null)."""
    kind = type(one).__name__
    expression = to_expression(one, schema)
    found = None if kind == "Not" else _column(one, schema)
    if expression is None or found is None:
        return None
    column, _ = found
    if kind in ("IsNull", "IsNotNull"):
        return ~expression
    if kind == "EqualNullSafe":
        return column.is_valid() if one.value is None else column.is_null() | ~expression
    if kind == "In":
        # Where no value is equal and one is null, the filter is null.
        return None if any(value is None for value in one.value) else column.is_valid() & ~expression
    return ~expression


def _column(one: Any, schema: pa.Schema) -> tuple[pc.Expression, pa.DataType] | None:
    """The column of a filter and its type, if Spark and Arrow compare its values alike."""
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    data_type = schema.field(path[0]).type
    is_alike = (
        pa.types.is_integer(data_type)
        or pa.types.is_string(data_type)
        or pa.types.is_boolean(data_type)
        or pa.types.is_date32(data_type)
        or pa.types.is_timestamp(data_type)
        or pa.types.is_decimal(data_type)
    )
    return (pc.field(path[0]), data_type) if is_alike else None


def _scalar(value: Any, data_type: pa.DataType) -> pa.Scalar | None:
    """A value in a column's type; None if it is of another kind, or the type cannot hold it."""
    kind: type | tuple[type, ...]
    if pa.types.is_boolean(data_type):
        kind = bool
    elif pa.types.is_integer(data_type):
        kind = int
    elif pa.types.is_string(data_type):
        kind = str
    elif pa.types.is_date32(data_type):
        kind = date
    elif pa.types.is_timestamp(data_type):
        kind = datetime
    else:
        kind = (Decimal, int)
    if not isinstance(value, kind):
        return None
    if isinstance(value, Decimal) and len(value.as_tuple().digits) >= _EXACT_DIGITS:
        return None
    if isinstance(value, bool) != pa.types.is_boolean(data_type):
        return None
    has_zone = isinstance(value, datetime) and value.tzinfo is not None
    if isinstance(value, datetime) and not pa.types.is_timestamp(data_type):
        return None
    if pa.types.is_timestamp(data_type) and has_zone != (data_type.tz is not None):
        return None
    try:
        return pa.scalar(value, data_type)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None
