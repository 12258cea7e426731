"""Values of filters, converted to the types of the columns that they are compared with.

A value is converted to the column's type like values of rows: text in ISO form becomes a date or a time, a time without
a zone is in UTC, a decimal becomes the nearest float, a UUID becomes its text. A number that the type cannot hold is
between two of its values, and the comparison becomes one with such a value::

    column     filter              becomes
    int32      i < 2.5             i <= 2
    int32      i in (1, 2.5)       i in (1)
    int32      i == 2.5            false, null where i is null
    timestamp  t >= "2026-01-02"   t >= 2026-01-02 00:00:00 UTC

Floats have one equality, for comparisons and for sets, as in DuckDB, polars and Spark: 0.0 equals -0.0, and NaN equals
NaN. Arrow has two: its sets find NaN, which its comparisons do not, and they tell the two zeros apart.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from functools import cache
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.exact_numbers import integer_limits
from hoodie.common.data.expression_tree import Call, Field, Literal, Node
from hoodie.common.data.stored_types import UUID_EXTENSION, is_nested

MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
_COMPARISONS = frozenset({"equal", "not_equal", *MIRRORED})
_EQUALITIES = frozenset({"equal", "not_equal"})
_BETWEEN = {"less": "less_equal", "less_equal": "less_equal", "greater": "greater", "greater_equal": "greater"}
"""The comparison with the largest value of the type below a value that the type cannot hold."""
_BELOW_ALL = {"less": "less", "less_equal": "less", "greater": "greater_equal", "greater_equal": "greater_equal"}
"""The comparison with the smallest value of the type, if the filter's value is below that."""
_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NANOS_PER_DAY = 86_400 * 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FRACTION = re.compile(r"(?<=[.,]\d{6})\d+")
_WIDE = Context(prec=400, rounding=ROUND_FLOOR)
_NEVER = math.nan
"""A whole number that is equal to none, and neither less nor greater than any."""


class MisfitValue(Exception):
    """A filter compares a column with values of a kind that its type never holds.

    Attributes:
        path: The column; several names for a field of a struct.
        data_type: Its type.
        values: The values.
    """

    def __init__(self, path: tuple[str, ...], data_type: pa.DataType, values: pa.Array) -> None:
        super().__init__(path)
        self.path = path
        self.data_type = data_type
        self.values = values


@attrs.frozen
class _Place:
    """The place of a value among the values of a type.

    Attributes:
        floor: The largest value of the type that is not above it; None if all are above it.
        is_exact: Whether the value equals the floor.
    """

    floor: Any
    is_exact: bool


def with_typed_values(node: Node, schema: pa.Schema) -> Node:
    """A filter whose values have the types of the columns that they are compared with.

    Args:
        node: The filter.
        schema: The columns.

    Returns:
        The node itself if nothing changes.

    Raises:
        MisfitValue: A value is of a kind that the column's type never holds, such as a text for a number.
    """
    if not isinstance(node, Call):
        return node
    if node.function == "is_in" and node.options is not None:
        return _searched(node, schema)
    arguments = tuple(with_typed_values(argument, schema) for argument in node.arguments)
    changed = any(one is not other for one, other in zip(arguments, node.arguments, strict=True))
    node = attrs.evolve(node, arguments=arguments) if changed else node
    return _compared(node, schema) if node.function in _COMPARISONS else node


def _compared(node: Call, schema: pa.Schema) -> Node:
    """A comparison of a column with a value."""
    left, right = node.arguments
    function = node.function
    if isinstance(left, Literal):
        left, right, function = right, left, MIRRORED.get(function, function)
    if not isinstance(right, Literal) or isinstance(left, Literal) or not right.value.is_valid:
        return node
    data_type = _type_of(left, schema)
    if data_type is None or not isinstance(left, Field):
        return node if not _is_nan(right.value) else _compared_with_nan(node, left, function)
    value = right.value
    if value.type != data_type:
        places = _places(left.path, _array_of(value), data_type)
        if places is None:
            return node
        (place,) = places
        if not place.is_exact:
            return _between(left, function, place, data_type)
        value = pa.scalar(place.floor, data_type)
    if _is_nan(value):
        return _compared_with_nan(Call(function, (left, Literal(value))), left, function)
    return node if value is right.value else Call(function, (left, Literal(value)))


def _compared_with_nan(node: Node, column: Node, function: str) -> Node:
    """NaN equals NaN; it is neither less nor greater than anything."""
    if function not in _EQUALITIES:
        return node
    is_nan = Call("is_nan", (column,))
    return is_nan if function == "equal" else Call("invert", (is_nan,))


def _between(column: Field, function: str, place: _Place, data_type: pa.DataType) -> Node:
    """A comparison with a value that the column's type does not hold; null where the column is null."""
    null = Literal(pa.scalar(None, pa.bool_()))
    if function == "not_equal":
        return Call("or_kleene", (Call("is_valid", (column,)), null))
    if function == "equal" or place.floor is _NEVER:
        return Call("and_kleene", (Call("invert", (Call("is_valid", (column,)),)), null))
    if place.floor is None:
        return Call(_BELOW_ALL[function], (column, Literal(pa.scalar(_smallest(data_type), data_type))))
    return Call(_BETWEEN[function], (column, Literal(pa.scalar(place.floor, data_type))))


def _searched(node: Call, schema: pa.Schema) -> Node:
    """A column that is searched in a set."""
    assert node.options is not None
    (column,) = node.arguments
    given = node.options["value_set"].values
    values = given
    data_type = _type_of(column, schema)
    if data_type is not None and isinstance(column, Field) and values.type != data_type:
        values = _set_of_type(column.path, values, data_type)
        if values is None:
            return node
        if is_nested(data_type) and values.null_count == len(values):
            # Arrow searches no sets of lists and structs.
            return Call("is_null", (column,), _no_nan()) if len(values) else Literal(pa.scalar(False))
    if not pa.types.is_floating(values.type):
        return node if values is given else attrs.evolve(node, options=_with_set(node.options, values))
    has_nan = bool(pc.any(pc.is_nan(values)).as_py())
    values = _with_both_zeros(values.filter(pc.invert(pc.fill_null(pc.is_nan(values), False))) if has_nan else values)
    found = node if values is given else attrs.evolve(node, options=_with_set(node.options, values))
    if not has_nan:
        return found
    # A set is never null, so neither is this.
    return Call("or_kleene", (found, Call("and_kleene", (Call("is_valid", (column,)), Call("is_nan", (column,))))))


def _set_of_type(path: tuple[str, ...], values: pa.Array, data_type: pa.DataType) -> pa.Array | None:
    """The values of a set that a type holds, in that type, and its nulls; None if Arrow is to decide."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values
    if values.null_count == len(values):
        return pa.nulls(len(values), data_type)
    places = _places(path, values, data_type)
    if places is None:
        return None
    held = [place.floor for place in places if place.is_exact]
    return pa.array(held, data_type)


def _with_both_zeros(values: pa.Array) -> pa.Array:
    """A set of floats that finds 0.0 and -0.0 if it has one of them."""
    if not pc.any(pc.equal(values, pa.scalar(0, values.type))).as_py():
        return values
    return pa.concat_arrays([values, pa.array([0.0, -0.0], values.type)])


@cache
def _no_nan() -> pa.StructScalar:
    """Options of ``is_null`` for which NaN is no null. Made late: the first scalar of Arrow imports pandas."""
    return pa.scalar(
        {"nan_is_null": False, "_type_name": b"NullOptions"},
        pa.struct([("nan_is_null", pa.bool_()), ("_type_name", pa.binary())]),
    )


def _with_set(options: pa.StructScalar, values: pa.Array) -> pa.StructScalar:
    """Options of a search with another set."""
    columns, names = [], []
    for field in options.type:
        own = options[field.name]
        column = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
        columns.append(column if field.name == "value_set" else pa.array([own.as_py()], field.type))
        names.append(field.name)
    return pa.StructArray.from_arrays(columns, names=names)[0]


def _type_of(node: Node, schema: pa.Schema) -> pa.DataType | None:
    """The type of a column or of a field of a struct; None for other expressions."""
    if not isinstance(node, Field):
        return None
    fields: Iterable[pa.Field] = schema
    data_type = None
    for name in node.path:
        data_type = next((field.type for field in fields if field.name == name), None)
        fields = data_type if data_type is not None and pa.types.is_struct(data_type) else ()
    return data_type


def _is_nan(value: pa.Scalar) -> bool:
    return bool(pa.types.is_floating(value.type) and value.is_valid and math.isnan(value.as_py()))


def _array_of(value: pa.Scalar) -> pa.Array:
    if isinstance(value, pa.DictionaryScalar):
        value = value.value
    return pa.repeat(value, 1)


def _places(path: tuple[str, ...], values: pa.Array, data_type: pa.DataType) -> list[_Place] | None:
    """The places of values among those of another type; nulls stay nulls. None if Arrow is to decide.

    Raises:
        MisfitValue: The type never holds values of their kind.
    """
    if isinstance(values.type, pa.BaseExtensionType) and values.type.extension_name == UUID_EXTENSION:
        given: list[Any] = [None if one is None else uuid.UUID(bytes=one) for one in values.storage.to_pylist()]
        kind = "uuid"
    elif pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        given, kind = _nanos(values), "time"
    elif _is_text(values.type):
        given, kind = values.to_pylist(), "text"
    elif pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        given, kind = values.to_pylist(), "number"
    elif pa.types.is_boolean(values.type):
        given, kind = values.to_pylist(), "boolean"
    elif isinstance(values.type, pa.BaseExtensionType) or (_is_duration(values.type) and _is_known(data_type)):
        # Arrow would compare their storage values, and find wrong rows.
        raise MisfitValue(path, data_type, values)
    else:
        return None
    find = _finder(kind, data_type)
    if find is None:
        if not _is_known(data_type) or (kind == "text" and _is_binary(data_type)):
            return None
        raise MisfitValue(path, data_type, values)
    try:
        return [_Place(None, True) if one is None else find(one) for one in given]
    except ValueError as error:
        raise MisfitValue(path, data_type, values) from error


def _finder(kind: str, data_type: pa.DataType) -> Callable[[Any], _Place] | None:
    """The function that finds the place of a value in a type; None for kinds of values that the type never holds."""
    if pa.types.is_integer(data_type) and kind == "number":
        bounds = integer_limits(data_type)
        return lambda value: _among_integers(value, int(bounds.min), int(bounds.max))
    if pa.types.is_decimal(data_type) and kind == "number":
        return lambda value: _among_decimals(value, data_type)
    if pa.types.is_floating(data_type) and kind == "number":
        dtype = np.dtype(f"f{data_type.bit_width // 8}")
        return lambda value: _among_floats(value, dtype)
    if pa.types.is_timestamp(data_type) or pa.types.is_date32(data_type):
        unit = _NANOS_PER_DAY if pa.types.is_date32(data_type) else _NANOS[data_type.unit]
        if kind == "time":
            return lambda value: _among_times(value, unit, data_type)
        if kind == "text":
            return lambda value: _among_times(_nanos_of_text(value), unit, data_type)
    if _is_text(data_type) and kind in ("text", "uuid"):
        return lambda value: _Place(str(value), True)
    if pa.types.is_binary(data_type) and kind == "uuid":
        return lambda value: _Place(value.bytes, True)
    return None


def _is_text(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type)
    )


def _is_duration(data_type: pa.DataType) -> bool:
    """Whether values are times of a day or lengths of time."""
    return bool(pa.types.is_time(data_type) or pa.types.is_duration(data_type) or pa.types.is_interval(data_type))


def _is_binary(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(data_type) or pa.types.is_fixed_size_binary(data_type))


def _is_known(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_boolean(data_type) or _is_binary(data_type) or _is_text(data_type)) or any(
        _finder(kind, data_type) is not None for kind in ("number", "time")
    )


def _smallest(data_type: pa.DataType) -> Any:
    """The smallest value of a type that has no place for smaller ones."""
    if pa.types.is_decimal(data_type):
        return _largest_decimal(data_type).copy_negate()
    return int(integer_limits(data_type).min)


def _largest_decimal(data_type: pa.DataType) -> Decimal:
    return Decimal((0, (9,) * data_type.precision, -data_type.scale))


def _among_integers(value: int | float | Decimal, low: int, high: int) -> _Place:
    if value != value:
        return _Place(_NEVER, False)
    if value < low:
        return _Place(None, False)
    if value > high:
        return _Place(high, False)
    floor = math.floor(value)
    return _Place(floor, floor == value)


def _among_decimals(value: int | float | Decimal, data_type: pa.DataType) -> _Place:
    if value != value:
        return _Place(_NEVER, False)
    # A float is taken for the decimal that is printed for it.
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    largest = _largest_decimal(data_type)
    # A minus would round to Python's 28 digits.
    if exact < largest.copy_negate():
        return _Place(None, False)
    if exact > largest:
        return _Place(largest, False)
    floor = exact.quantize(Decimal((0, (1,), -data_type.scale)), context=_WIDE)
    return _Place(floor, floor == exact)


def _among_floats(value: int | float | Decimal, dtype: np.dtype[Any]) -> _Place:
    """Fractions become the nearest float, as in rows; whole numbers must be held."""
    largest = float(np.finfo(dtype).max)
    if not (isinstance(value, float) and not math.isfinite(value)) and abs(float(value)) > largest:
        return _Place(largest if value > 0 else -math.inf, False)
    near = float(dtype.type(float(value)))
    if math.isinf(near) and not math.isinf(value):
        return _Place(largest if value > 0 else -math.inf, False)
    if not isinstance(value, int) or int(near) == value:
        return _Place(near, True)
    below = float(np.nextafter(dtype.type(near), dtype.type(-math.inf)))
    floor = near if int(near) < value else below
    return _Place(floor, False)


def _among_times(nanos: int, unit: int, data_type: pa.DataType) -> _Place:
    floor, rest = divmod(nanos, unit)
    if pa.types.is_date32(data_type):
        return _Place(floor, not rest)
    bounds = np.iinfo(np.int64)
    clipped = min(max(floor, int(bounds.min)), int(bounds.max))
    return _Place(clipped, not rest and clipped == floor)


def _nanos(values: pa.Array) -> list[int | None]:
    """Times as nanoseconds since 1970, in UTC if they have no zone."""
    if pa.types.is_date32(values.type):
        numbers, unit = values.view(pa.int32()), _NANOS_PER_DAY
    else:
        numbers, unit = values.view(pa.int64()), _NANOS["ms" if pa.types.is_date64(values.type) else values.type.unit]
    return [None if number is None else number * unit for number in numbers.to_pylist()]


def _nanos_of_text(text: str) -> int:
    """A date or a time in ISO form as nanoseconds since 1970, in UTC if it has no zone.

    Raises:
        ValueError: The text is neither.
    """
    fraction = _FRACTION.search(text)
    digits = fraction.group() if fraction is not None else ""
    if len(digits.rstrip("0")) > 3:
        raise ValueError(text)
    moment = datetime.fromisoformat(_FRACTION.sub("", text))
    since = (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment) - _EPOCH
    return ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) * 1000 + int((digits + "000")[:3])
