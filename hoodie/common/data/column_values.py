"""Values of a column that rows are searched for, and those that a filter demands."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pyarrow as pa

from hoodie.common.data.expression_tree import Call, Field, Literal, Node, parse_expression
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.util.arrow_buffers import array_of

MAX_VALUES = 1000
"""The limit of keys for bloom filters, and of values for a search in a column."""


@attrs.frozen(eq=False)
class ColumnValues:
    """Values of a column of strings.

    Attributes:
        column: Its name.
        values: The values (string), each once.
    """

    column: str
    values: pa.Array


def values_of(
    row_filter: RowFilter, column: str, is_type: Callable[[pa.DataType], bool] = pa.types.is_string
) -> ColumnValues | None:
    """The values of a column, as texts, one of which every row of a filter's result has; None if the filter
    names none.

    Args:
        row_filter: The filter.
        column: A column of strings or of integers.
        is_type: Whether values of a type can be equal to those of the column.
    """
    tree = parse_expression(row_filter.expression)
    found = texts_of(tree, column, is_type) if tree is not None else None
    return (
        None if found is None or len(found) > MAX_VALUES else ColumnValues(column, array_of(sorted(found), pa.string()))
    )


def texts_of(node: Node, column: str, is_type: Callable[[pa.DataType], bool]) -> set[str] | None:
    """The values, as texts, that a column has in rows for which an expression is true; None if they are not limited.

    Args:
        node: The expression.
        column: The column, of strings or of integers.
        is_type: Whether values of a type can be equal to those of the column.
    """
    if not isinstance(node, Call):
        return None
    match node.function:
        case "and_kleene":
            parts = [found for part in node.arguments if (found := texts_of(part, column, is_type)) is not None]
            return min(parts, key=len) if parts else None
        case "or_kleene":
            alternatives = [texts_of(part, column, is_type) for part in node.arguments]
            return None if None in alternatives else set().union(*(part for part in alternatives if part is not None))
        case "equal":
            left, right = node.arguments
            if isinstance(left, Literal):
                left, right = right, left
            is_key = isinstance(left, Field) and left.path == (column,)
            is_value = isinstance(right, Literal) and right.value.is_valid and is_type(right.value.type)
            return {str(right.value.as_py())} if is_key and is_value and isinstance(right, Literal) else None
        case "is_in":
            field = node.arguments[0]
            if not isinstance(field, Field) or field.path != (column,):
                return None
            values = node.options["value_set"].values if node.options is not None else None
            if values is None or not is_type(values.type) or values.null_count:
                return None
            return {str(value) for value in values.to_pylist()}
    return None
