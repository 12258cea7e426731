"""A quantile of a few numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies, between the two next ones where it is none of them.

    Args:
        values: In order, at least one.
        share: From 0 to 1.

    Source: com.codahale.metrics.UniformSnapshot.getValue, by which Hudi prints sizes.
    """
    place = share * (len(values) + 1)
    below = math.floor(place)
    if below < 1:
        return float(values[0])
    if below >= len(values):
        return float(values[-1])
    return values[below - 1] + (place - below) * (values[below] - values[below - 1])
