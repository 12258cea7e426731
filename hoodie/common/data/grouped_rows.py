"""Rows of a batch by the value of a column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

__all__ = ["rows_by_value"]


def rows_by_value(column: pa.Array) -> Iterator[tuple[str, np.ndarray]]:
    """Each value, in the order of first appearance, and the numbers of its rows (integers, ascending).

    Args:
        column: Strings without nulls, few of them distinct.
    """
    encoded = column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    if len(values) == 1:
        yield values[0], np.arange(len(column))
        return
    codes = encoded.indices.to_numpy()
    if len(values) <= np.iinfo(np.int16).max:
        codes = codes.astype(np.int16)  # numpy sorts 16 bits by counting
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(values) + 1))
    for code, value in enumerate(values):
        yield value, order[bounds[code] : bounds[code + 1]]
