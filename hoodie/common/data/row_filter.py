"""A filter of rows, and the part of it that statistics of files can decide.

pyarrow skips row groups by their statistics as if these covered every row. They do not: NaN is in no minimum or
maximum, and a minimum of -0.0 stands for 0.0 too. So a scan gets only a condition that every row of the result fulfils
and that minimum and maximum can decide. The filter itself is applied to the rows that the scan returns::

    filter                       pushed into the scan      why
    k == "a" and v != 1.0        k == "a"                  of a row group of 1.0 and NaN statistics say 1.0
    v in (0.0, 7.0)              0.0 <= v <= 7.0           -0.0 is not 0.0 where a set is searched
    ~(i < 5), i an integer       i >= 5                    integers have no NaN
    ~(v < 5), v a float          nothing                   NaN is such a row
    i < 5 or length(s) > 3       nothing                   any row may have a long string
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from typing import Self

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.expression_tree import (
    Call,
    Field,
    Literal,
    Node,
    build_expression,
    columns_of,
    parse_expression,
)
from hoodie.common.data.stored_types import spelled_otherwise
from hoodie.exception import HoodieSchemaException

COMPARISONS: dict[str, Callable[[pc.Expression, pa.Scalar], pc.Expression]] = {
    "equal": operator.eq,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
_NEGATED = {
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
    "not_equal": "equal",
}
_EXACT_INTEGERS = {pa.float32(): 1 << 24, pa.float64(): 1 << 53}
_ADVICE = "Give values of the column's type, or cast the column"
_SHOWN = 200
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
        described: The filter and its columns in a few words, for messages.
    """

    expression: pc.Expression
    pushed: pc.Expression | None
    columns: frozenset[str] | None
    is_exact: bool
    described: str

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
        described = f"the filter {_shown(expression)}"
        unknown = sorted(columns - set(schema.names)) if columns is not None else []
        if unknown:
            raise HoodieSchemaException(
                f"{described}: {base_path} has no column {', '.join(unknown)}{spelled_otherwise(schema.names, unknown)}"
                f"; it has {', '.join(schema.names)}"
            )
        if tree is not None:
            with_decimals = _with_decimals(tree, schema)
            if with_decimals is not None:
                return cls.of(with_decimals, schema, base_path)
            _check_sets(tree, schema, f"{described} does not fit the table {base_path}")
        # One row, because some functions check their values only if there is a row.
        row = pa.table([pa.nulls(1, field.type) for field in schema], names=schema.names)
        try:
            row.filter(expression)
        except (pa.ArrowException, TypeError) as error:
            raise HoodieSchemaException(
                f"{described} does not fit the table {base_path}: {_culprit(tree, schema, row)}{_first_line(error)}. "
                f"{_ADVICE}"
            ) from error
        types = [f"{name} is {schema.field(name).type}" for name in schema.names if name in (columns or ())]
        if types:
            described += f" ({', '.join(types)})"
        pushed = _implied(tree, schema) if tree is not None else _NOTHING
        return cls(expression, pushed.expression, columns, pushed.is_exact, described)

    def read_columns(self, columns: list[str], schema: pa.Schema) -> list[str]:
        """The columns to read for a result with some columns.

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
            return pa.Table.from_batches([batch]).filter(self.expression)
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
        numbers = pa.array(np.arange(batch.num_rows))
        numbered = pa.RecordBatch.from_arrays([*batch.columns, numbers], names=[*batch.schema.names, _NUMBER])
        places: npt.NDArray[np.int64] = self.take(numbered).column(_NUMBER).to_numpy()
        return places


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
        left, right, function = right, left, _MIRRORED.get(function, function)
    if not isinstance(left, Field) or len(left.path) > 1 or not isinstance(right, Literal) or not right.value.is_valid:
        return _NOTHING
    name = left.path[0]
    data_type = schema.field(name).type
    value = right.value
    if pa.types.is_floating(data_type):
        return _float_range(name, data_type, function, value)
    if pa.types.is_integer(data_type) and pa.types.is_floating(value.type):
        return _integer_range(name, data_type, function, value.as_py())
    bound = _as_type(value, data_type)
    if bound is None:
        return _NOTHING
    is_exact = value.type == data_type or bool(pa.types.is_integer(value.type) and pa.types.is_integer(data_type))
    return _Pushed(COMPARISONS[function](pc.field(name), bound), is_exact)


def _as_type(value: pa.Scalar, data_type: pa.DataType) -> pa.Scalar | None:
    """The value in a column's type, if statistics order that type as comparisons do; else None."""
    source = value.type
    if source == data_type:
        is_ordered = (
            pa.types.is_integer(source)
            or pa.types.is_string(source)
            or pa.types.is_binary(source)
            or pa.types.is_boolean(source)
            or pa.types.is_date(source)
            or pa.types.is_timestamp(source)
            or pa.types.is_decimal(source)
        )
        return value if is_ordered else None
    is_of_kind = (
        (pa.types.is_integer(source) and pa.types.is_integer(data_type))
        or (pa.types.is_decimal(source) and pa.types.is_decimal(data_type))
        or (pa.types.is_timestamp(source) and pa.types.is_timestamp(data_type) and source.tz == data_type.tz)
    )
    try:
        return value.cast(data_type) if is_of_kind else None
    except pa.ArrowException:
        # The type cannot hold the value; how that compares is left to Arrow.
        return None


def _float_range(name: str, data_type: pa.DataType, function: str, value: pa.Scalar) -> _Pushed:
    """Bounds of a float column. They are one step wider if its type cannot hold the value: Arrow compares float32 with
    doubles as doubles, and searches sets as float32.
    """
    number = _number(value, data_type)
    if number is None or data_type not in _EXACT_INTEGERS:
        return _NOTHING
    low = high = number
    is_exact = True
    if pa.types.is_float32(data_type):
        with np.errstate(over="ignore"):
            near = np.float32(number)
            is_exact = float(near) == number
            if not is_exact:
                # One step beyond the largest number is infinity.
                low, high = (float(np.nextafter(near, np.float32(end))) for end in (-math.inf, math.inf))
    field = pc.field(name)
    bounds = [pa.scalar(bound, data_type) for bound in (low, high)]
    match function:
        case "equal":
            expression = (field >= bounds[0]) & (field <= bounds[1])
        case "less" | "less_equal":
            expression = COMPARISONS[function if is_exact else "less_equal"](field, bounds[1])
        case _:
            expression = COMPARISONS[function if is_exact else "greater_equal"](field, bounds[0])
    return _Pushed(expression, is_exact)


def _number(value: pa.Scalar, data_type: pa.DataType) -> float | None:
    """The value as a float; None for NaN, for integers that floats cannot hold, and for values that are not numbers."""
    if pa.types.is_floating(value.type):
        number = float(value.as_py())
        return None if math.isnan(number) else number
    most = _EXACT_INTEGERS.get(data_type, 0)
    return float(value.as_py()) if pa.types.is_integer(value.type) and abs(value.as_py()) <= most else None


def _integer_range(name: str, data_type: pa.DataType, function: str, number: float) -> _Pushed:
    """Bounds of an integer column that is compared with a float; Arrow compares as float32 where it can."""
    if math.isnan(number) or abs(number) >= _EXACT_INTEGERS[pa.float32()]:
        return _NOTHING
    low, high = (_as_type(pa.scalar(bound), data_type) for bound in (math.floor(number), math.ceil(number)))
    if low is None or high is None:
        return _NOTHING
    field = pc.field(name)
    match function:
        case "equal":
            return _Pushed((field >= low) & (field <= high))
        case "less" | "less_equal":
            return _Pushed(field <= high)
        case _:
            return _Pushed(field >= low)


def _is_in(node: Call, schema: pa.Schema) -> _Pushed:
    (field,) = node.arguments
    if not isinstance(field, Field) or len(field.path) > 1 or node.options is None:
        return _NOTHING
    name = field.path[0]
    data_type = schema.field(name).type
    values = node.options["value_set"].values
    if not len(values) or values.null_count:
        return _NOTHING
    if pa.types.is_floating(data_type):
        low, high = _ends(values)
        bounds = (
            _float_range(name, data_type, "greater_equal", low),
            _float_range(name, data_type, "less_equal", high),
        )
        return _NOTHING if _NOTHING in bounds else attrs.evolve(_both(*bounds), is_exact=False)
    if _as_type(values[0], data_type) is None:
        return _NOTHING
    try:
        return _Pushed(pc.field(name).isin(values.cast(data_type)), is_exact=values.type == data_type)
    except pa.ArrowException:
        return _NOTHING


def _ends(values: pa.Array) -> list[pa.Scalar]:
    """The smallest and the largest value; NaN if there is one."""
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return [pa.scalar(math.nan)] * 2
    ends = pc.min_max(values)
    return [ends["min"], ends["max"]]


def _check_sets(node: Node, schema: pa.Schema, problem: str) -> None:
    """Refuse sets with values that a column's type cannot hold, because Arrow's result would depend on the rows.

    Raises:
        HoodieSchemaException: Numbers are compared with strings or the reverse, or an integer column with floats that
            it cannot hold.
    """
    if not isinstance(node, Call):
        return
    for argument in node.arguments:
        _check_sets(argument, schema, problem)
    if node.function != "is_in" or node.options is None or not isinstance(node.arguments[0], Field):
        return
    path = node.arguments[0].path
    data_type = schema.field(path[0]).type
    values = node.options["value_set"].values
    if len(path) > 1 or not len(values) or data_type == values.type:
        return
    misfits = pa.array([], values.type)
    if (_is_number(data_type) and pa.types.is_string(values.type)) or (
        pa.types.is_string(data_type) and _is_number(values.type)
    ):
        misfits = values
    elif pa.types.is_floating(data_type) and pa.types.is_integer(values.type):
        most = _EXACT_INTEGERS.get(data_type, 0)
        misfits = values.filter(pa.array([value is not None and abs(value) > most for value in values.to_pylist()]))
    if len(misfits):
        raise HoodieSchemaException(
            f"{problem}: {_compared(path[0], data_type, values.type, misfits)}, which the column's type cannot hold. "
            f"{_ADVICE}"
        )


def _with_decimals(tree: Node, schema: pa.Schema) -> pc.Expression | None:
    """A filter with decimals for the integers that it compares with decimal columns, which Arrow mostly refuses to do.

    Returns:
        The filter; None if there is no such integer, or it has other functions.
    """
    found = False

    def changed(node: Node) -> Node:
        nonlocal found
        if not isinstance(node, Call):
            return node
        fields = [argument for argument in node.arguments if isinstance(argument, Field) and len(argument.path) == 1]
        of_decimal = any(pa.types.is_decimal(schema.field(field.path[0]).type) for field in fields)
        arguments = []
        for argument in node.arguments:
            if of_decimal and isinstance(argument, Literal) and pa.types.is_integer(argument.value.type):
                found = True
                number = argument.value.as_py()
                argument = Literal(pa.scalar(None if number is None else Decimal(number)))
            arguments.append(changed(argument))
        options = node.options
        if of_decimal and node.function == "is_in" and options is not None:
            values = options["value_set"].values
            if pa.types.is_integer(values.type):
                found = True
                numbers = [None if number is None else Decimal(number) for number in values.to_pylist()]
                options = pa.scalar({**options.as_py(), "value_set": numbers})
        return attrs.evolve(node, arguments=tuple(arguments), options=options)

    expression = build_expression(changed(tree))
    return expression if found else None


def _is_number(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type))


def _culprit(tree: Node | None, schema: pa.Schema, row: pa.Table) -> str:
    """The column and the value whose comparison does not fit, as text; empty if the problem is something else."""
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
        values = pa.array([value.as_py()], value.type)
        expression = column == value
    else:
        return ""
    try:
        row.filter(expression)
    except (pa.ArrowException, TypeError):
        return f"{_compared(field.path[0], schema.field(field.path[0]).type, values.type, values)}: "
    return ""


def _compared(name: str, data_type: pa.DataType, value_type: pa.DataType, values: pa.Array) -> str:
    shown = ", ".join(map(repr, values[:3].to_pylist())) or "nothing"
    return f"column {name} is {data_type}, and it is compared with {shown} ({value_type})"


def _shown(expression: pc.Expression) -> str:
    text = " ".join(str(expression).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")
