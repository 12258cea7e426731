"""A filter of rows, and the part of it that statistics of files can decide.

pyarrow skips row groups by their statistics as if these covered every row. They do not: NaN is in no minimum or
maximum, and a minimum of -0.0 may also mean 0.0. So a scan gets only a condition that every row of the result meets and
that minimum and maximum can decide. The filter itself is applied to the rows that the scan returns::

    filter                       pushed into the scan      why
    k == "a" and v != 1.0        k == "a"                  of a row group of 1.0 and NaN statistics say 1.0
    v in (0.0, 7.0)              0.0 <= v <= 7.0           floats are searched by their range
    ~(i < 5), i an integer       i >= 5                    integers have no NaN
    ~(v < 5), v a float          nothing                   NaN is such a row
    i < 5 or length(s) > 3       nothing                   any row may have a long string

Values are converted before to the types of the columns that they are compared with; see `filter_values`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Self

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.acero_plans import rows_passing
from hoodie.common.data.expression_tree import (
    Call,
    Field,
    Literal,
    Node,
    build_expression,
    columns_of,
    parse_expression,
    shown_expression,
)
from hoodie.common.data.filter_values import MIRRORED, MisfitValue, with_typed_values
from hoodie.common.data.stored_types import spelled_otherwise
from hoodie.common.util.arrow_buffers import flags_in, numbers_in, numbers_of
from hoodie.common.util.shown_value import short_repr, type_name
from hoodie.exception import HoodieSchemaException

COMPARISONS: dict[str, Callable[[pc.Expression, pa.Scalar], pc.Expression]] = {
    "equal": operator.eq,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
_NEGATED = {
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
    "not_equal": "equal",
}
_ADVICE = "Give values of the column's type, or cast the column"
_NUMBER = "__hoodie_number"


@attrs.frozen(eq=False)
class _Pushed:
    """A condition that every row of a filter's result fulfils.

    Attributes:
        expression: The condition; None for no condition.
        is_exact: Whether no other row fulfils it.
    """

    expression: pc.Expression | None
    is_exact: bool = False


_NOTHING = _Pushed(None)


@attrs.frozen(eq=False)
class RowFilter:
    """A filter that fits a table's columns; picklable.

    Attributes:
        expression: The filter.
        pushed: The condition by which scans and partitions may be pruned: every row of the result fulfils it, and
            minimum and maximum can decide it. None if there is no such condition.
        columns: The top-level columns that the filter reads; None if that is not known.
        is_exact: Whether ``pushed`` is equivalent to the filter, so that the rows of a scan need no second check.
        types: The columns' types, for messages.
    """

    expression: pc.Expression
    pushed: pc.Expression | None
    columns: frozenset[str] | None
    is_exact: bool
    types: str

    @property
    def described(self) -> str:
        """The filter and its columns in a few words, for messages."""
        return f"the filter {shown_expression(self.expression)}{self.types}"

    @classmethod
    def of(cls, expression: pc.Expression, schema: pa.Schema, base_path: str) -> Self:
        """Build the filter for a table's rows.

        Args:
            expression: The user's expression.
            schema: The table's columns, including meta columns.
            base_path: The table's path, for messages.

        Raises:
            HoodieSchemaException: The filter names an unknown column, compares a column with a value of another type,
                or is not boolean.
        """
        tree = parse_expression(expression)
        columns = None if tree is None else frozenset(columns_of(tree))
        unknown = sorted(columns - set(schema.names)) if columns is not None else []
        if unknown:
            raise HoodieSchemaException(
                f"the filter {shown_expression(expression)}: {base_path} has no column "
                f"{', '.join(unknown)}{spelled_otherwise(schema.names, unknown)}; it has {', '.join(schema.names)}"
            )
        try:
            typed = None if tree is None else with_typed_values(tree, schema)
        except MisfitValue as error:
            raise _misfit(expression, base_path, error) from error.__cause__
        if typed is not None and typed is not tree:
            built = build_expression(typed)
            tree, expression = (typed, built) if built is not None else (tree, expression)
        # One row, because some functions check their values only if there is a row.
        row = pa.Table.from_arrays([pa.nulls(1, field.type) for field in schema], names=schema.names)
        try:
            rows_passing(row, expression)
        except (pa.ArrowException, TypeError) as error:
            raise HoodieSchemaException(
                f"the filter {shown_expression(expression)} does not fit the table {base_path}: "
                f"{_culprit(tree, schema, row)}{_first_line(error)}. {_ADVICE}"
            ) from error
        types = [f"{name} is {schema.field(name).type}" for name in schema.names if name in (columns or ())]
        pushed = _implied(tree, schema) if tree is not None else _NOTHING
        shown = f" ({', '.join(types)})" if types else ""
        return cls(expression, pushed.expression, columns, pushed.is_exact, shown)

    def read_columns(self, columns: list[str], schema: pa.Schema) -> list[str]:
        """The columns to read for a result with the given columns.

        Args:
            columns: The result's columns.
            schema: All columns.
        """
        needed = {*columns, *(schema.names if self.columns is None else self.columns)}
        return [name for name in schema.names if name in needed]

    def take(self, batch: pa.RecordBatch) -> pa.Table:
        """The rows of a batch that the filter selects.

        Args:
            batch: A batch with the columns of `read_columns`.

        Raises:
            HoodieSchemaException: The filter cannot be computed on the batch's values.
        """
        try:
            return rows_passing(pa.Table.from_batches([batch]), self.expression)
        except pa.ArrowException as error:
            raise HoodieSchemaException(
                f"{self.described} cannot be computed on the rows: {_first_line(error)}. {_ADVICE}"
            ) from error

    def places(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """The numbers of the rows of a batch that the filter selects.

        Args:
            batch: A batch with the columns of the filter; strings may be in dictionaries.

        Raises:
            HoodieSchemaException: See `take`.
        """
        if batch.num_columns == 1 and pa.types.is_dictionary(batch.schema.field(0).type):
            return self._places_by_dictionary(batch)
        numbers = numbers_of(np.arange(batch.num_rows), pa.int64())
        numbered = pa.RecordBatch.from_arrays([*batch.columns, numbers], names=[*batch.schema.names, _NUMBER])
        return numbers_in(self.take(numbered).column(_NUMBER).combine_chunks(), np.int64)

    def _places_by_dictionary(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """The same where the only column is a dictionary: its values are compared once, and null."""
        column = batch.column(0)
        values = pa.concat_arrays([column.dictionary, pa.nulls(1, column.type.value_type)])
        passes = np.zeros(len(values), dtype=np.bool_)
        try:
            passes[self.places(pa.RecordBatch.from_arrays([values], names=batch.schema.names))] = True
        except HoodieSchemaException:
            # The value that cannot be compared may be that of no row.
            return self.places(pa.RecordBatch.from_arrays([column.dictionary_decode()], names=batch.schema.names))
        entries = numbers_in(column.indices, np.int32)
        if column.null_count:
            entries = np.where(flags_in(column.is_valid()), entries, len(column.dictionary))
        return np.flatnonzero(passes[entries])


def _implied(node: Node, schema: pa.Schema, truth: bool = True) -> _Pushed:
    """A condition that holds for every row for which an expression is true, or for every row for which it is false."""
    if isinstance(node, Field):
        return _of_boolean(node, schema, truth)
    if isinstance(node, Literal):
        return _NOTHING
    arguments = node.arguments
    match node.function:
        case "and_kleene" | "or_kleene":
            parts = [_implied(argument, schema, truth) for argument in arguments]
            return _both(*parts) if truth == (node.function == "and_kleene") else _either(*parts)
        case "invert":
            return _implied(arguments[0], schema, not truth)
        case "is_in" if truth:
            return _is_in(node, schema)
        case "is_valid" if truth:
            return _is_valid(arguments[0], schema)
        case "is_null" if not truth:
            # NaN may count as null here; then there are only fewer such rows.
            return attrs.evolve(_is_valid(arguments[0], schema), is_exact=False)
        case "not_equal" if not truth:
            return _comparison("equal", arguments, schema)
        case function if truth and function in COMPARISONS:
            return _comparison(function, arguments, schema)
        case function if (
            not truth and function in _NEGATED and not any(_may_be_nan(argument, schema) for argument in arguments)
        ):
            return _comparison(_NEGATED[function], arguments, schema)
    return _NOTHING


def _both(*parts: _Pushed) -> _Pushed:
    """The condition of an and: the conditions of its parts hold together."""
    known = [part.expression for part in parts if part.expression is not None]
    if not known:
        return _NOTHING
    return _Pushed(reduce(operator.and_, known), all(part.is_exact for part in parts))


def _either(*parts: _Pushed) -> _Pushed:
    """The condition of an or: none if one part has none."""
    known = [part.expression for part in parts if part.expression is not None]
    if len(known) < len(parts):
        return _NOTHING
    return _Pushed(reduce(operator.or_, known), all(part.is_exact for part in parts))


def _of_boolean(field: Field, schema: pa.Schema, wanted: bool) -> _Pushed:
    """The condition of a boolean column by itself."""
    if len(field.path) == 1 and pa.types.is_boolean(schema.field(field.path[0]).type):
        return _Pushed(pc.field(field.path[0]) == pa.scalar(wanted), is_exact=True)
    return _NOTHING


def _is_valid(node: Node, schema: pa.Schema) -> _Pushed:
    if isinstance(node, Field) and len(node.path) == 1 and not pa.types.is_nested(schema.field(node.path[0]).type):
        return _Pushed(pc.field(node.path[0]).is_valid(), is_exact=True)
    return _NOTHING


def _may_be_nan(node: Node, schema: pa.Schema) -> bool:
    """Whether one side of a comparison may be NaN; checked for comparisons of a column with a value."""
    if isinstance(node, Field):
        return len(node.path) > 1 or pa.types.is_floating(schema.field(node.path[0]).type)
    return not isinstance(node, Literal) or pa.types.is_floating(node.value.type)


def _comparison(function: str, arguments: tuple[Node, ...], schema: pa.Schema) -> _Pushed:
    """The condition of a comparison of a column with a value, on either side."""
    left, right = arguments
    if isinstance(left, Literal):
        left, right, function = right, left, MIRRORED.get(function, function)
    if not isinstance(left, Field) or len(left.path) > 1 or not isinstance(right, Literal) or not right.value.is_valid:
        return _NOTHING
    name = left.path[0]
    data_type = schema.field(name).type
    value = right.value
    if value.type != data_type or not _is_ordered(data_type):
        return _NOTHING
    if pa.types.is_floating(data_type):
        return _float_range(name, function, value)
    return _Pushed(COMPARISONS[function](pc.field(name), value), is_exact=True)


def _is_ordered(data_type: pa.DataType) -> bool:
    """Whether statistics order the values of a type like comparisons; floats need some care."""
    return bool(
        pa.types.is_integer(data_type)
        or pa.types.is_string(data_type)
        or pa.types.is_binary(data_type)
        or pa.types.is_boolean(data_type)
        or pa.types.is_date(data_type)
        or pa.types.is_timestamp(data_type)
        or pa.types.is_decimal(data_type)
        or data_type in (pa.float32(), pa.float64())
    )


def _float_range(name: str, function: str, value: pa.Scalar) -> _Pushed:
    """Bounds of a float column: equal to a zero are both of them."""
    if math.isnan(value.as_py()):
        return _NOTHING
    field = pc.field(name)
    if function == "equal":
        return _Pushed((field >= value) & (field <= value), is_exact=True)
    return _Pushed(COMPARISONS[function](field, value), is_exact=True)


def _is_in(node: Call, schema: pa.Schema) -> _Pushed:
    (field,) = node.arguments
    if not isinstance(field, Field) or len(field.path) > 1 or node.options is None:
        return _NOTHING
    name = field.path[0]
    data_type = schema.field(name).type
    values = node.options["value_set"].values
    if not len(values) or values.null_count or values.type != data_type or not _is_ordered(data_type):
        return _NOTHING
    if not pa.types.is_floating(data_type):
        return _Pushed(pc.field(name).isin(values), is_exact=True)
    ends = pc.min_max(values)
    bounds = (_float_range(name, "greater_equal", ends["min"]), _float_range(name, "less_equal", ends["max"]))
    return attrs.evolve(_both(*bounds), is_exact=False)


def _misfit(expression: pc.Expression, base_path: str, error: MisfitValue) -> HoodieSchemaException:
    """The error about values of another kind than the column's."""
    compared = _compared(".".join(error.path), error.data_type, error.values.type, error.values)
    is_time = pa.types.is_timestamp(error.data_type) or pa.types.is_date(error.data_type)
    form = "; write dates and times in ISO form, such as '2026-01-02' or '2026-01-02 10:15:30'" if is_time else ""
    return HoodieSchemaException(
        f"the filter {shown_expression(expression)} does not fit the table {base_path}: {compared}, which the column's "
        f"type cannot hold{form}. {_ADVICE}"
    )


def _culprit(tree: Node | None, schema: pa.Schema, row: pa.Table) -> str:
    """The column and the value of the comparison that does not fit, as text; empty if the problem is another one."""
    if not isinstance(tree, Call):
        return ""
    for argument in tree.arguments:
        if found := _culprit(argument, schema, row):
            return found
    field = next((argument for argument in tree.arguments if isinstance(argument, Field)), None)
    if field is None or len(field.path) > 1:
        return ""
    column = pc.field(field.path[0])
    value = next((argument.value for argument in tree.arguments if isinstance(argument, Literal)), None)
    if tree.function == "is_in" and tree.options is not None:
        values = tree.options["value_set"].values
        expression = column.isin(values)
    elif value is not None and (tree.function in COMPARISONS or tree.function == "not_equal"):
        values = pa.repeat(value, 1)
        expression = column == value
    else:
        return ""
    try:
        row.filter(expression)
    except (pa.ArrowException, TypeError):
        return f"{_compared(field.path[0], schema.field(field.path[0]).type, values.type, values)}: "
    return ""


def _compared(name: str, data_type: pa.DataType, value_type: pa.DataType, values: pa.Array) -> str:
    shown = ", ".join(map(_shown_scalar, values[:3])) or "nothing"
    given = f"{shown}{_python_type(values)} ({value_type})"
    return f"column {name} is {data_type}, and it is compared with {given}"


def _shown_scalar(value: pa.Scalar) -> str:
    # Arrow needs pandas for Python's form of nanoseconds.
    return str(value) if pa.types.is_timestamp(value.type) else short_repr(value.as_py())


def _python_type(values: pa.Array) -> str:
    if not len(values):
        return ""
    return (
        " of type datetime.datetime"
        if pa.types.is_timestamp(values.type)
        else f" of type {type_name(values[0].as_py())}"
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")
