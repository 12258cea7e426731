"""Ranges of a column by the statistics of the row groups of a Parquet file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.common.util.arrow_buffers import array_of


@attrs.frozen(eq=False)
class StoredRanges:
    """Ranges of one column, one for each row group; see `hoodie.common.data.range_matching.ValueRanges`.

    Statistics of texts may be truncated: then the smallest value is too low and the largest too high, as Parquet
    demands.

    Attributes:
        low: No value is smaller; null where nothing is known.
        high: No value is larger; null at the same places.
        is_void: True where all values are null.
    """

    low: pa.Array
    high: pa.Array
    is_void: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls, chunks: Sequence[pq.ColumnChunkMetaData], column: pq.ColumnSchema, data_type: pa.DataType
    ) -> StoredRanges:
        """The ranges of a column.

        Args:
            chunks: The column in each row group.
            column: The column.
            data_type: Its type in the file.
        """
        # If a damaged footer gives a chunk another type, pyarrow ends the process when it is asked for the statistics.
        is_whole = [chunk.physical_type == column.physical_type for chunk in chunks]
        found = [
            _range_of(chunk, data_type) if whole else (None, None, False)
            for chunk, whole in zip(chunks, is_whole, strict=True)
        ]
        low, high = (array_of([one[place] for one in found], data_type) for place in (0, 1))
        return cls(low, high, np.array([one[2] for one in found], np.bool_))


def _range_of(chunk: pq.ColumnChunkMetaData, data_type: pa.DataType) -> tuple[Any, Any, bool]:
    statistics = chunk.statistics
    if statistics is None:
        return None, None, False
    if statistics.has_min_max:
        try:
            low, high = statistics.min, statistics.max
            array_of([low, high], data_type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, ImportError, UnicodeDecodeError):
            return None, None, False
        # NaN has no place in an order.
        return (low, high, False) if low == low and high == high else (None, None, False)
    is_void = statistics.has_null_count and statistics.null_count == chunk.num_values
    return None, None, bool(is_void)
