"""Compare two columns of one type row by row, including nested types, without creating a Python object per row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_INTEGER_OF_WIDTH = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def comparison_cost(data_type: pa.DataType) -> int:
    """Rank a type by the cost of comparing its values: fixed widths, then strings, then nested types."""
    if pa.types.is_nested(data_type):
        return 2
    return 0 if pa.types.is_primitive(data_type) else 1


def equal_rows(one: pa.Array, other: pa.Array) -> npt.NDArray[np.bool_]:
    """True at places where two arrays have the same value; two nulls are equal.

    Floats are equal if their bits are equal: NaN equals itself, and 0.0 does not equal -0.0. Maps are equal if their
    entries are equal in the same order. Rows of a type that cannot be compared are never equal.

    Args:
        one: Any rows.
        other: The same number of rows of the same type.
    """
    if not pa.types.is_nested(one.type) and _comparable(one).equals(_comparable(other)):
        return np.ones(len(one), dtype=np.bool_)
    valid, other_valid = _valid(one), _valid(other)
    both = valid & other_valid
    if pa.types.is_struct(one.type):
        for index in range(one.type.num_fields):
            both &= equal_rows(one.field(index), other.field(index))
    elif pa.types.is_list(one.type) or pa.types.is_large_list(one.type) or pa.types.is_map(one.type):
        both &= _equal_lists(one, other, both)
    elif both.any():
        try:
            equal = pc.equal(_comparable(one), _comparable(other))
        except pa.ArrowNotImplementedError:
            return np.zeros(len(one), dtype=np.bool_)
        both &= pc.fill_null(equal, False).to_numpy(zero_copy_only=False)
    same: npt.NDArray[np.bool_] = both | ~(valid | other_valid)
    return same


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    if not column.null_count:
        return np.ones(len(column), dtype=np.bool_)
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid.copy()


def _comparable(column: pa.Array) -> pa.Array:
    return column.view(_INTEGER_OF_WIDTH[column.type.bit_width]) if pa.types.is_floating(column.type) else column


def _equal_lists(one: pa.Array, other: pa.Array, wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """True at places where two list or map arrays have the same entries; only the wanted rows are compared."""
    lengths = np.diff(one.offsets.to_numpy())
    equal: npt.NDArray[np.bool_] = wanted & (lengths == np.diff(other.offsets.to_numpy()))
    rows = np.flatnonzero(equal & (lengths > 0))
    if len(rows):
        entries = [_entries(column.take(pa.array(rows))) for column in (one, other)]
        starts = np.append(0, np.cumsum(lengths[rows])[:-1])
        equal[rows] = np.logical_and.reduceat(equal_rows(*entries), starts)
    return equal


def _entries(lists: pa.Array) -> pa.Array:
    """The entries of lists, one after the other; no list may be null."""
    first, end = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    return lists.values.slice(first, end - first)
