"""Statistics of a column chunk of which some values are removed and others added, without looking at the other values.

The smallest value stays the smallest unless it is removed, and a removed one is replaced only by an added one that is
not larger; likewise the largest::

    stored 3..9, removed 5, added 1   1..9
    stored 3..9, removed 3, added 2   2..9
    stored 3..9, removed 3, added 5   not known: the next smallest value is not in the statistics

What is not known is for the caller to find out from all values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from hoodie.io.parquet.compact_protocol import I64, STRUCT, TRUE, Field, Struct
from hoodie.io.parquet.splicing.column_chunks import STATISTICS, ColumnChunk, Leaf

_Rank: TypeAlias = Callable[[bytes], Any]
"""Gives the stored bytes of a value something that sorts as Parquet orders the values of its type."""

NULLS, _MAX, _MIN, _MAX_EXACT, _MIN_EXACT = 3, 5, 6, 7, 8
_KNOWN = frozenset({NULLS, _MAX, _MIN, _MAX_EXACT, _MIN_EXACT})
_ELEMENT_TYPE, _ELEMENT_CONVERTED, _ELEMENT_LOGICAL = 1, 6, 10
_BOOLEAN, _INT32, _INT64, _FLOAT, _DOUBLE, _BYTE_ARRAY, _FIXED = 0, 1, 2, 4, 5, 6, 7
_FLOATS = {_FLOAT: struct.Struct("<f"), _DOUBLE: struct.Struct("<d")}
_DECIMAL = 5
_SIGNED = frozenset({None, _DECIMAL, 6, 7, 8, 9, 10, 15, 16, 17, 18})
"""Converted types of numbers that Parquet orders as signed integers: decimals, dates, times, integers with a sign."""
_TEXTS = frozenset({None, 0, 4, 19, 20})
"""Converted types of bytes that Parquet orders as bytes without a sign: texts of all kinds."""


class UnknownStatisticsError(Exception):
    """The statistics cannot be told without the other values."""


@attrs.frozen
class _Order:
    rank: _Rank
    ignores_some: bool
    """Whether values may be missing in statistics that are not long: those that are not a number."""


def changed_statistics(
    leaf: Leaf, stored: ColumnChunk, removed: ColumnChunk | None, added: ColumnChunk | None
) -> Field:
    """Parquet's ``Statistics`` of a column chunk after a change.

    Args:
        leaf: The column.
        stored: The chunk before it.
        removed: A chunk of the values that go; None without any.
        added: A chunk of the values that come; None without any.

    Raises:
        UnknownStatisticsError: They cannot be told.
    """
    order = _order_of(leaf)
    before = _statistics_of(stored)
    nulls = before[NULLS].value
    found: Struct = {}
    if nulls < stored.rows:
        for end, exact, sign in ((_MIN, _MIN_EXACT, 1), (_MAX, _MAX_EXACT, -1)):
            found |= _end(before, removed, added, order, end, exact, sign)
    elif added is not None:
        found |= {number: field for number, field in _statistics_of(added).items() if number != NULLS}
    gone = _statistics_of(removed)[NULLS].value if removed is not None else 0
    more = _statistics_of(added)[NULLS].value if added is not None else 0
    return Field(STRUCT, {NULLS: Field(I64, nulls - gone + more), **found})


def ends_of(chunk: ColumnChunk) -> tuple[bytes, bytes] | None:
    """The smallest and the largest value of a chunk by its statistics; None if they do not tell them exactly.

    Args:
        chunk: The chunk.
    """
    try:
        found = _statistics_of(chunk)
    except UnknownStatisticsError:
        return None
    if _MIN not in found or _MAX not in found or not (_is_exact(found, _MIN_EXACT) and _is_exact(found, _MAX_EXACT)):
        return None
    return found[_MIN].value, found[_MAX].value


def _end(
    before: Struct,
    removed: ColumnChunk | None,
    added: ColumnChunk | None,
    order: _Order,
    end: int,
    exact: int,
    sign: int,
) -> Struct:
    """One end of the range, with whether it is exact.

    Args:
        before: The statistics before the change.
        removed: See `changed_statistics`.
        added: See `changed_statistics`.
        order: The order of values.
        end: The number of the field of the end.
        exact: The number of the field that says whether it is exact.
        sign: 1 for the smallest value, -1 for the largest.
    """

    def is_further(one: Struct, other: Struct) -> bool:
        mine, its = order.rank(one[end].value), order.rank(other[end].value)
        return bool(mine < its if sign > 0 else mine > its)

    if end not in before or not _is_exact(before, exact):
        raise UnknownStatisticsError
    chosen = before
    coming = _statistics_of(added) if added is not None else {}
    # A value that is too long for statistics is not an end that they have.
    if added is not None and end not in coming and not order.ignores_some and coming[NULLS].value < added.rows:
        raise UnknownStatisticsError
    if end in coming and is_further(coming, before):
        chosen = coming
    if removed is not None and chosen is before:
        gone = _statistics_of(removed)
        if end in gone and not is_further(before, gone):
            if end not in coming or is_further(before, coming):
                raise UnknownStatisticsError
            chosen = coming
    return {number: chosen[number] for number in (end, exact) if number in chosen}


def _statistics_of(chunk: ColumnChunk) -> Struct:
    """The statistics of a chunk.

    Raises:
        UnknownStatisticsError: There are none, they have a field that is not understood, or no count of nulls.
    """
    field = chunk.metadata.get(STATISTICS)
    if field is None or NULLS not in field.value or not field.value.keys() <= _KNOWN:
        raise UnknownStatisticsError
    found: Struct = field.value
    return found


def _is_exact(statistics: Struct, number: int) -> bool:
    return number not in statistics or statistics[number].type == TRUE


def _order_of(leaf: Leaf) -> _Order:
    """The order in which Parquet compares the values of a column.

    Raises:
        UnknownStatisticsError: It is not known here.
    """
    element = leaf.element
    kind = element[_ELEMENT_TYPE].value
    converted = element[_ELEMENT_CONVERTED].value if _ELEMENT_CONVERTED in element else None
    if kind == _BOOLEAN:
        return _Order(bytes, False)
    if kind in (_INT32, _INT64) and converted in _SIGNED:
        return _Order(lambda value: int.from_bytes(value, "little", signed=True), False)
    if kind in _FLOATS and converted is None:
        return _Order(_FLOATS[kind].unpack, True)
    if kind == _BYTE_ARRAY and converted in _TEXTS:
        return _Order(bytes, False)
    if kind == _FIXED and converted == _DECIMAL:
        return _Order(lambda value: int.from_bytes(value, "big", signed=True), False)
    if kind == _FIXED and converted is None and _ELEMENT_LOGICAL not in element:
        return _Order(bytes, False)
    raise UnknownStatisticsError
