"""The match of conditions with ranges of values: whether a range allows a row that meets the condition."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.expression_tree import Call, Field, Literal, Node
from hoodie.common.util.arrow_buffers import flags_in

Flags: TypeAlias = npt.NDArray[np.bool_]
_MAX_SEARCHED = 100
"""The limit of values that are compared one by one; for larger sets only the smallest and the largest are."""


class ValueRanges(Protocol):
    """Ranges of one column, one for each file or part of a file."""

    @property
    def low(self) -> pa.Array:
        """No value is smaller (of the column's type); null where nothing is known."""

    @property
    def high(self) -> pa.Array:
        """No value is larger; null at the same places."""

    @property
    def is_void(self) -> Flags:
        """True where all values are null; low and high are null there, too."""


def may_match(node: Node, bounds: Mapping[str, ValueRanges], count: int) -> Flags:
    """True for each place whose ranges allow a row that meets a condition.

    Args:
        node: A condition of the form of `RowFilter.pushed`: comparisons of columns with values of their types, sets,
            "is not null", and, or. Any other part is taken as true for some row.
        bounds: Ranges of columns.
        count: The number of ranges of each column.
    """
    if isinstance(node, Call):
        match node.function:
            case "and_kleene":
                return reduce(np.logical_and, (may_match(part, bounds, count) for part in node.arguments))
            case "or_kleene":
                return reduce(np.logical_or, (may_match(part, bounds, count) for part in node.arguments))
        column = node.arguments[0] if node.arguments else None
        known = bounds.get(column.path[0]) if isinstance(column, Field) and len(column.path) == 1 else None
        if known is not None:
            try:
                within = _within(node, known)
            except pa.ArrowException:
                within = None
            if within is not None:
                flags = flags_in(within) | ~flags_in(within.is_valid())
                return flags & ~known.is_void
    return np.ones(count, np.bool_)


def _within(call: Call, known: ValueRanges) -> pa.Array | None:
    """Whether ranges hold a value that meets a comparison; null where ranges are unknown, None for other functions."""
    low, high = known.low, known.high
    if call.function == "is_valid":
        return pa.nulls(len(low), pa.bool_())
    if call.function == "is_in" and call.options is not None:
        values = call.options["value_set"].values
        if values.type != low.type or values.null_count or not len(values):
            return None
        if len(values) > _MAX_SEARCHED:
            ends = pc.min_max(values)
            return pc.and_(pc.less_equal(low, ends["max"]), pc.greater_equal(high, ends["min"]))
        each = (pc.and_(pc.less_equal(low, value), pc.greater_equal(high, value)) for value in values)
        return reduce(pc.or_, each)
    value = call.arguments[1].value if len(call.arguments) == 2 and isinstance(call.arguments[1], Literal) else None
    if value is None or not value.is_valid or value.type != low.type:
        return None
    match call.function:
        case "equal":
            return pc.and_(pc.less_equal(low, value), pc.greater_equal(high, value))
        case "less":
            return pc.less(low, value)
        case "less_equal":
            return pc.less_equal(low, value)
        case "greater":
            return pc.greater(high, value)
        case "greater_equal":
            return pc.greater_equal(high, value)
    return None
