"""Values of a column that became wider, as Hudi makes them."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["widened_floats"]


def widened_floats(values: pa.Array) -> pa.Array:
    """Floats as the doubles that have the same shortest digits: 0.1 stays 0.1, and is not 0.10000000149011612.

    A table has one value then, whether its row was stored as a float and is read as a double, or comes in as a float
    today, or was rewritten by Hudi, which goes by the digits too. Rows that were integers before are an
    exception: a float has fewer digits, so 2147483647 becomes 2147483600.0 where its file was rewritten in between.

    Args:
        values: float32.

    Returns:
        float64.
    """
    return values.cast(pa.string()).cast(pa.float64())
