"""A number that shows whether rows that were computed again are the same rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.key_blocks import quick_hashes

UInt64Array = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_NULL = np.uint64(0x6E756C6C)


def fingerprint(batch: pa.RecordBatch, columns: Sequence[str]) -> int:
    """A number in [0, 2^64) for the rows, in any order; for several batches, the sum of their numbers (modulo 2^64).

    Different rows, or one row more or less, give another number but for a chance of about 1 in 2^64.

    Args:
        batch: The rows.
        columns: The columns to include.
    """
    hashes = np.zeros(batch.num_rows, dtype=np.uint64)
    for name in columns:
        hashes = _mixed(hashes + _STEP + _hashes(batch.column(name)))
    return int(hashes.sum(dtype=np.uint64)) if len(hashes) else 0


def of_hashes(hashes: UInt64Array) -> UInt64Array:
    """A number for each hash; the sum of some (modulo 2^64) is their fingerprint, in any order.

    Args:
        hashes: uint64.
    """
    return _mixed(hashes + _STEP)


def _hashes(column: pa.Array) -> UInt64Array:
    """A hash of each value; all nulls have the same hash."""
    kind = column.type
    values: UInt64Array
    if pa.types.is_floating(kind):
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False).view(np.uint64)
    elif pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        narrow = kind.bit_width < 64
        whole = column.cast(pa.int8() if pa.types.is_boolean(kind) else pa.int32(), safe=False) if narrow else column
        values = pc.fill_null(whole.cast(pa.int64(), safe=False), 0).to_numpy(zero_copy_only=False).view(np.uint64)
    else:
        values = _text_hashes(column)
    if column.null_count:
        values = np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, values)
    return values


def _text_hashes(column: pa.Array) -> UInt64Array:
    if not pa.types.is_string(column.type):
        try:
            column = column.cast(pa.string())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            column = pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    return quick_hashes(pc.fill_null(column, ""))


def _mixed(values: UInt64Array) -> UInt64Array:
    """Spread each number over all bits."""
    values = (values ^ (values >> _SHIFTS[0])) * _FIRST
    values = (values ^ (values >> _SHIFTS[1])) * _SECOND
    return values ^ (values >> _SHIFTS[2])
