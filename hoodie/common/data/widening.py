"""Values of a column that became wider, computed as Hudi does."""

from __future__ import annotations

import pyarrow as pa


def widened_floats(values: pa.Array) -> pa.Array:
    """Convert floats to the doubles with the same shortest digits: 0.1 stays 0.1, not 0.10000000149011612.

    So a table has the same value whether its row was stored as a float and is read as a double, or comes in as a float
    now, or was rewritten by Hudi, which uses the digits too. Rows that were integers before are an exception: a float
    has fewer digits, so 2147483647 becomes 2147483600.0 if its file was rewritten in between.

    Args:
        values: float32.

    Returns:
        float64.
    """
    return values.cast(pa.string()).cast(pa.float64())
