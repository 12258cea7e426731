"""The part of a filter that Spark decides as Arrow does, so that its scan can skip row groups by it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf

from hoodie.common.data.expression_tree import Call, Field, Literal, Node, parse_expression
from hoodie.common.data.row_filter import RowFilter
from hoodie.spark.spark_types import quoted

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "equal": operator.eq,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


def spark_condition(row_filter: RowFilter, schema: pa.Schema) -> tuple[Column | None, bool]:
    """A condition of Spark that every row of a filter's result fulfils.

    Args:
        row_filter: The filter.
        schema: The table's columns.

    Returns:
        The condition, None if there is none; and whether no other row fulfils it.
    """
    if row_filter.pushed is None:
        return None, False
    tree = parse_expression(row_filter.pushed)
    condition, is_whole = _translated(tree, schema) if tree is not None else (None, False)
    return condition, is_whole and row_filter.is_exact


def _translated(node: Node, schema: pa.Schema) -> tuple[Column | None, bool]:
    """The condition, and whether it is equivalent to the whole expression."""
    if not isinstance(node, Call):
        return None, False
    match node.function:
        case "and_kleene":
            parts = [_translated(argument, schema) for argument in node.arguments]
            known = [condition for condition, _ in parts if condition is not None]
            return (reduce(Column.__and__, known) if known else None), all(whole for _, whole in parts)
        case "or_kleene":
            parts = [_translated(argument, schema) for argument in node.arguments]
            known = [condition for condition, _ in parts if condition is not None]
            if len(known) < len(parts):
                return None, False
            return reduce(Column.__or__, known), all(whole for _, whole in parts)
        case "is_valid":
            column = _column(node.arguments[0], schema)
            return (None, False) if column is None else (column.isNotNull(), True)
        case "is_in":
            column = _column(node.arguments[0], schema)
            values = node.options["value_set"].values if node.options is not None else None
            if column is None or values is None or not _is_same_type(node.arguments[0], values.type, schema):
                return None, False
            return column.isin(values.to_pylist()), True
        case function if function in _COMPARISONS:
            left, right = node.arguments
            column = _column(left, schema)
            if column is None or not isinstance(right, Literal) or not right.value.is_valid:
                return None, False
            if not _is_same_type(left, right.value.type, schema):
                return None, False
            return _COMPARISONS[function](column, sf.lit(right.value.as_py())), True
    return None, False


def _column(node: Node, schema: pa.Schema) -> Column | None:
    """A column whose values Spark and Arrow compare in the same way: no floats (NaN), nested types or times."""
    if not isinstance(node, Field) or len(node.path) > 1:
        return None
    data_type = schema.field(node.path[0]).type
    is_alike = (
        pa.types.is_integer(data_type)
        or pa.types.is_string(data_type)
        or pa.types.is_boolean(data_type)
        or pa.types.is_date32(data_type)
    )
    return sf.col(quoted(node.path[0])) if is_alike else None


def _is_same_type(node: Node, data_type: pa.DataType, schema: pa.Schema) -> bool:
    return isinstance(node, Field) and schema.field(node.path[0]).type == data_type
