"""Conversion of Python objects to Arrow columns: each value is stored exactly, or refused with its name.

Arrow's own conversion changes some values silently: it cuts a datetime beside dates to its day, drops nanoseconds,
takes an integer for microseconds or days, ``True`` for 1.0, NaT for a day of the year 1, and drops fields that the
table's struct lacks. So the kinds of the values are found first, and Arrow converts only what it converts exactly.
Kinds are found by column, not by value: a column of texts costs one pass over its types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Any
from uuid import UUID

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.data.exact_numbers import UNAMBIGUOUS_BELOW
from hoodie.common.data.stored_types import find_field, is_list
from hoodie.common.util.parquet_levels import MAX_LEVELS, check_value_levels
from hoodie.common.util.shown_value import short_repr, short_text
from hoodie.exception import HoodieSchemaException

_NULL = "null"
_OTHER = "other"
_ARROW_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)
_MAX_ELEMENTS = np.iinfo(np.int32).max

_KINDS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("bool", (bool, np.bool_)),
    ("duration", (timedelta, np.timedelta64)),  # numpy's is a subclass of its integers
    ("int", (int, np.integer)),
    ("float", (float, np.floating)),
    ("decimal", (Decimal,)),
    ("text", (str,)),
    ("bytes", (bytes, bytearray, memoryview)),
    ("datetime", (datetime, np.datetime64)),
    ("date", (date,)),
    ("time", (time,)),
    ("uuid", (UUID,)),
    ("dict", (Mapping,)),
    ("list", (list, tuple, set, np.ndarray)),
)
_MIXTURES = (frozenset({"int", "float"}), frozenset({"int", "decimal"}))
"""Kinds that may be mixed in a column whose type is inferred: each value is exactly one of the wider kind."""

_PLAIN = tuple(map(frozenset, ((str, float), (bytes,), (int, float), (bool,), (Decimal,), (date,))))
"""Types that Arrow infers and converts exactly, or refuses, when no others but None are among them."""

_NUMPY_NUMBERS = "biuf"
"""Kinds of numpy's types that Arrow takes as they are."""


@attrs.frozen
class _Rules:
    """The rules for values.

    Attributes:
        has_own_types: The values decide the type, and NaN is null, as in a DataFrame of pandas; otherwise the table's
            is taken if the column is known, as for dicts.
    """

    has_own_types: bool


def python_values(
    values: Sequence[Any], path: str, known: pa.DataType | None = None, *, has_own_types: bool = False
) -> pa.Array:
    """Convert Python objects to a column.

    A struct has the fields that any of its dicts has; a field that a dict lacks is null there. Names match those of the
    table in upper and lower case. Text beyond 2 GiB is a ``large_string``.

    Args:
        values: Any objects; None, ``pandas.NaT`` and ``pandas.NA`` are null.
        path: The column, for messages.
        known: The table's type, if it has the column.
        has_own_types: Whether values decide their type, and NaN is null, as in DataFrames of pandas; otherwise
            ``known`` does. UUIDs are bytes, not text, wherever ``known`` has bytes.

    Raises:
        HoodieSchemaException: A value cannot be stored exactly, or values have no common type; the message names the
            column, as a path if it is nested, the first such value, and what to do.
    """
    check_value_levels(path, values)
    return _column(list(values), path, known, _Rules(has_own_types))


def is_plain(values: list[Any], levels: int = MAX_LEVELS) -> bool:
    """Whether Arrow infers and converts these values exactly, or refuses them: they need no `python_values`.

    It looks at types only, which costs less than a conversion.

    Args:
        values: A column of a DataFrame of pandas.
        levels: The depth to which dicts and lists may be nested.
    """
    if not levels:
        return False
    kinds = frozenset(map(type, values)) - {type(None)}
    if kinds == {datetime}:
        return len({value.tzinfo is None for value in values if value is not None}) < 2
    if kinds and kinds <= {list, tuple}:
        return is_plain(list(chain.from_iterable(value for value in values if value is not None)), levels - 1)
    if kinds == {dict}:
        dicts = [value for value in values if value is not None]
        names = set(chain.from_iterable(dicts))
        return all(type(name) is str for name in names) and all(
            is_plain([value.get(name) for value in dicts], levels - 1) for name in names
        )
    if kinds == {np.ndarray}:
        forms = {(value.dtype, value.ndim) for value in values if value is not None}
        return len(forms) == 1 and all(form.kind in _NUMPY_NUMBERS and dimensions == 1 for form, dimensions in forms)
    return any(kinds <= plain for plain in _PLAIN)


def check_name(name: str, path: str | None = None) -> None:
    """Refuse the name of a column or of a field that no file can hold.

    Args:
        name: The name.
        path: The column, if the name is that of a field of its structs.

    Raises:
        HoodieSchemaException: UTF-8 cannot hold the name.
    """
    if not is_storable(name):
        where = (
            f"column {short_repr(name)}"
            if path is None
            else f"column '{path}' holds a dict with the key {short_repr(name)}"
        )
        raise HoodieSchemaException(
            f"{where}: the name is no text that UTF-8 can hold (it has half of a surrogate pair); rename it"
        )


def is_storable(text: str) -> bool:
    """Whether UTF-8 can hold a text: it has no half of a surrogate pair.

    Args:
        text: The text.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: Any) -> str:
    found: type = type(value)
    return _kind_of(found)


@lru_cache(maxsize=1024)
def _kind_of(value_type: type) -> str:
    if value_type is type(None):
        return _NULL
    if value_type.__name__ in ("NaTType", "NAType") and value_type.__module__.partition(".")[0] == "pandas":
        return _NULL
    return next((kind for kind, types in _KINDS if issubclass(value_type, types)), _OTHER)


def _column(values: list[Any], path: str, known: pa.DataType | None, rules: _Rules) -> pa.Array:
    values, kinds = _without_odd_nulls(values, rules)
    if not kinds:
        return pa.nulls(len(values), known if known is not None and not rules.has_own_types else pa.null())
    hint = known
    if known is not None and isinstance(known, pa.BaseExtensionType):
        known = hint = known.storage_type
    if kinds <= {"dict", "list"} and not rules.has_own_types and known is not None and pa.types.is_map(known):
        return _map(values, path, known, rules)
    if rules.has_own_types or known is None:
        _check_one_kind(values, kinds, path)
    else:
        _check_known_kind(values, kinds, path, known)
    if "dict" in kinds:
        return _struct(values, path, hint if hint is not None and pa.types.is_struct(hint) else None, rules)
    if "list" in kinds:
        return _list(values, path, hint if hint is not None and is_list(hint) else None, rules)
    if "uuid" in kinds and (rules.has_own_types or known is None):
        known = hint if hint is not None and _is_bytes(hint) else pa.string()
    elif rules.has_own_types:
        known = None
    return _scalars(values, kinds, path, known)


def _without_odd_nulls(values: list[Any], rules: _Rules) -> tuple[list[Any], set[str]]:
    """The values with None for every null, and without Arrow's scalars; and the kinds of the values that are
    not null.
    """
    types = set(map(type, values))
    if any(issubclass(found, pa.Scalar) for found in types):
        values = [value.as_py() if isinstance(value, pa.Scalar) else value for value in values]
        types = set(map(type, values))
    odd = {found for found in types if _kind_of(found) == _NULL} - {type(None)}
    if odd:
        values = [None if type(value) in odd else value for value in values]
    if np.datetime64 in types:
        values = [None if isinstance(value, np.datetime64) and np.isnat(value) else value for value in values]
        types = set(map(type, values))
    kinds = {_kind_of(found) for found in types} - {_NULL}
    if rules.has_own_types and kinds & {"float", "decimal"}:
        values = [None if _is_nan(value) else value for value in values]
        kinds = {_kind_of(found) for found in set(map(type, values))} - {_NULL}
    return values, kinds


def _is_nan(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating) and bool(value != value)


def _check_one_kind(values: list[Any], kinds: set[str], path: str) -> None:
    if _OTHER in kinds:
        first = _first(values, lambda value: _kind(value) == _OTHER)
        raise HoodieSchemaException(
            f"column '{path}' holds {short_repr(first)} of type {_type_name(first)}, which no column can store; "
            "convert such values to text, numbers, dicts or lists"
        )
    if len(kinds) > 1 and frozenset(kinds) not in _MIXTURES:
        shown = " and ".join(_example(values, kind) for kind in sorted(kinds))
        raise HoodieSchemaException(
            f"column '{path}' holds values of several types: {shown}. Make them one type: a column stores "
            "one, and none of these is changed to another"
        )


def _example(values: list[Any], kind: str) -> str:
    value = _first(values, lambda value: _kind(value) == kind)
    return f"{_type_name(value)} ({short_repr(value)})"


def _first(values: Iterable[Any], is_wanted: Callable[[Any], bool]) -> Any:
    return next(value for value in values if value is not None and is_wanted(value))


def _type_name(value: Any) -> str:
    return type(value).__qualname__


def _check_known_kind(values: list[Any], kinds: set[str], path: str, known: pa.DataType) -> None:
    """Refuse values that no rule turns into the table's type."""
    taken = _kinds_for(known)
    if kinds <= taken:
        return
    first = _first(values, lambda value: _kind(value) not in taken)
    way_out = "correct or cast such values"
    if pa.types.is_struct(known):
        way_out = "give a dict of field to value, such as by _asdict() of a named tuple"
    elif "datetime" in taken and isinstance(first, int | np.integer):
        way_out = "an integer does not say its unit: give a datetime, or a date"
    raise HoodieSchemaException(
        f"column '{path}' is {known} in the table, and holds {short_repr(first)} of type {_type_name(first)}, which is "
        f"not changed to it; {way_out}"
    )


def _kinds_for(known: pa.DataType) -> frozenset[str]:
    """The kinds of values that can be exactly values of a type; single values may still not fit."""
    return next((kinds for is_type, kinds in _KINDS_OF_TYPES if is_type(known)), frozenset())


_KINDS_OF_TYPES: tuple[tuple[Callable[[pa.DataType], bool], frozenset[str]], ...] = (
    (pa.types.is_boolean, frozenset({"bool"})),
    (pa.types.is_integer, frozenset({"int", "float", "decimal"})),
    (pa.types.is_floating, frozenset({"int", "float"})),
    (pa.types.is_decimal, frozenset({"int", "decimal"})),
    (lambda known: _is_text(known) or _is_bytes(known), frozenset({"text", "bytes", "uuid"})),
    (pa.types.is_date, frozenset({"date", "datetime"})),
    (pa.types.is_timestamp, frozenset({"date", "datetime"})),
    (pa.types.is_time, frozenset({"time"})),
    (pa.types.is_struct, frozenset({"dict"})),
    (is_list, frozenset({"list"})),
    (pa.types.is_map, frozenset({"dict", "list"})),
)


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type) or pa.types.is_fixed_size_binary(data_type)
    )


# ------------------------------------------------------------------------------------------------------ nested values


def _null_mask(values: list[Any]) -> pa.Array | None:
    mask = np.fromiter((value is None for value in values), np.bool_, len(values))
    return pa.array(mask) if mask.any() else None


def _struct(values: list[Any], path: str, known: pa.StructType | None, rules: _Rules) -> pa.Array:
    names = dict.fromkeys(chain.from_iterable(value for value in values if value is not None))
    for name in names:
        if not isinstance(name, str):
            raise HoodieSchemaException(
                f"column '{path}' holds a dict with the key {short_repr(name)} of type {_type_name(name)}: the fields "
                "of a struct have texts as names; give texts"
            )
        check_name(name, path)
    if not names:
        return pa.array(values, pa.struct([]))
    fields, children = [], []
    for name in names:
        twin = None if known is None else find_field(known, name)
        items = [None if value is None else value.get(name) for value in values]
        child = _column(items, f"{path}.{name}", None if twin is None else twin.type, rules)
        nullable = twin is None or rules.has_own_types or twin.nullable
        fields.append(pa.field(name, child.type, nullable))
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=fields, mask=_null_mask(values))


def _list(values: list[Any], path: str, known: pa.DataType | None, rules: _Rules) -> pa.Array:
    values = [value.tolist() if isinstance(value, np.ma.MaskedArray) else value for value in values]
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    for value in arrays:
        if value.ndim != 1:
            raise HoodieSchemaException(
                f"column '{path}' holds an array of {value.ndim} dimensions, the first {short_repr(value)}; give "
                "lists, such as by tolist()"
            )
    present = [value for value in values if value is not None]
    lengths = [0, *(0 if value is None else len(value) for value in values)]
    offsets = np.cumsum(lengths, dtype=np.int64)
    where = f"{path}.element"
    known_item = None if known is None else known.value_field
    types = {value.dtype for value in arrays}
    elements: pa.Array | None = None
    if len(arrays) == len(present) and len(types) == 1 and (rules.has_own_types or known is None):
        (found,) = types
        if found.kind in _NUMPY_NUMBERS or (
            found.kind == "M" and np.datetime_data(found)[0] in ("s", "ms", "us", "ns")
        ):
            elements = pa.array(np.concatenate(arrays), from_pandas=rules.has_own_types)
    if elements is None:
        items = list(chain.from_iterable(present))
        elements = _column(items, where, None if known_item is None else known_item.type, rules)
    nullable = known_item is None or rules.has_own_types or known_item.nullable
    kind = pa.list_ if len(elements) <= _MAX_ELEMENTS else pa.large_list
    data_type = kind(pa.field("element", elements.type, nullable))
    is_small = len(elements) <= _MAX_ELEMENTS
    return (pa.ListArray if is_small else pa.LargeListArray).from_arrays(
        pa.array(offsets, pa.int32() if is_small else pa.int64()), elements, type=data_type, mask=_null_mask(values)
    )


def _map(values: list[Any], path: str, known: pa.MapType, rules: _Rules) -> pa.Array:
    entries = [None if value is None else _entries(value, path) for value in values]
    offsets = np.cumsum([0, *(0 if pairs is None else len(pairs) for pairs in entries)], dtype=np.int64)
    pairs = list(chain.from_iterable(found for found in entries if found is not None))
    keys = _column([key for key, _ in pairs], f"{path}.key", known.key_type, rules)
    if keys.null_count:
        raise HoodieSchemaException(f"column '{path}' holds a map with a null key; leave such entries out")
    items = _column([item for _, item in pairs], f"{path}.value", known.item_type, rules)
    data_type = pa.map_(keys.type, pa.field("value", items.type, known.item_field.nullable))
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=data_type, mask=_null_mask(values))


def _entries(value: Any, path: str) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    pairs = list(value)
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise HoodieSchemaException(
                f"column '{path}' is a map, and holds a list with {short_repr(pair)}; give a dict, or a list of pairs"
            )
    return [(key, item) for key, item in pairs]


# ------------------------------------------------------------------------------------------------------ single values


def _scalars(values: list[Any], kinds: set[str], path: str, known: pa.DataType | None) -> pa.Array:
    """Values of kinds that fit each other and the type."""
    if "decimal" in kinds:
        _check(values, _is_finite, path, "a decimal has no infinity and no NaN; make it null")
    if "datetime" in kinds:
        values = _moments(values, path)
        kinds = {_kind_of(found) for found in set(map(type, values))} - {_NULL}
        if known is None and len(kinds) > 1:
            _check_one_kind(values, kinds, path)
    if "int" in kinds and ("decimal" in kinds or (known is not None and pa.types.is_decimal(known))):
        # Arrow takes no integers of numpy for decimals.
        values = [int(value) if isinstance(value, np.integer) else value for value in values]
    if known is None:
        return _inferred(values, kinds, path)
    if _is_text(known) or _is_bytes(known):
        values = _as_bytes(values, kinds) if _is_bytes(known) else _as_texts(values, kinds, path)
    elif pa.types.is_date(known):
        values = _as_dates(values, kinds, path, known)
    elif pa.types.is_timestamp(known):
        values = _as_moments(values, kinds, path, known)
    elif pa.types.is_integer(known) and kinds != {"int"}:
        _check(values, _is_integer, path, "round or cast it", known)
        values = [None if value is None else int(value) for value in values]
    result = _arrow(values, known, path)
    if pa.types.is_floating(known) and "float" in kinds and not pa.types.is_float64(known):
        _check_floats(values, result, path)
    return result


def _inferred(values: list[Any], kinds: set[str], path: str) -> pa.Array:
    if "datetime" in kinds:
        is_aware = any(value is not None and value.tzinfo is not None for value in values)
        return _arrow(values, pa.timestamp("us", "UTC" if is_aware else None), path)
    if "int" in kinds and kinds != {"int"} and "float" in kinds:
        return _arrow(values, pa.float64(), path)
    return _arrow(values, pa.string() if kinds == {"text"} else None, path)


def _arrow(values: list[Any], data_type: pa.DataType | None, path: str) -> pa.Array:
    """Arrow's conversion, for values that it converts exactly or refuses."""
    try:
        result = pa.array(values, data_type)
        if isinstance(result, pa.ChunkedArray):
            # More than 2 GiB of text or bytes.
            large = pa.large_string() if pa.types.is_string(result.type) else pa.large_binary()
            result = pa.array(values, large)
        return result
    except _ARROW_ERRORS as error:
        value = _first_refused(values, data_type)
        wanted = "" if data_type is None else f" as {data_type}"
        raise HoodieSchemaException(
            f"column '{path}' cannot be stored{wanted} without losing something, first value: {short_repr(value)}"
            f"{_reason(value, error)}; round or cast it"
        ) from error


def _reason(value: Any, error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return " (it is no text that UTF-8 can hold)"
    if isinstance(value, int | np.integer) and not -(2**63) <= int(value) < 2**63:
        return " (beyond 64 bits)"
    return f" ({short_text(error, 120)})"


def _first_refused(values: list[Any], data_type: pa.DataType | None) -> Any:
    """The first value that Arrow refuses; bisects the values."""
    low, count = 0, len(values)
    while count > 1:
        half = count // 2
        try:
            pa.array(values[low : low + half], data_type)
            low, count = low + half, count - half
        except _ARROW_ERRORS:
            count = half
    return values[low]


def _check(
    values: list[Any],
    is_right: Callable[[Any], bool],
    path: str,
    way_out: str,
    target: pa.DataType | None = None,
) -> None:
    for value in values:
        if value is not None and not is_right(value):
            wanted = "" if target is None else f" as {target}"
            raise HoodieSchemaException(
                f"column '{path}' cannot be stored{wanted} without losing something, first value: {short_repr(value)}; "
                f"{way_out}"
            )


def _is_finite(value: Any) -> bool:
    return not isinstance(value, Decimal) or value.is_finite()


def _is_integer(value: Any) -> bool:
    if isinstance(value, int | np.integer):
        return True
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    # A whole float of this size may be the nearest float of several integers.
    is_single = isinstance(value, np.float32 | np.float16)
    limit = UNAMBIGUOUS_BELOW[pa.float32() if is_single else pa.float64()]
    return bool(np.isfinite(value) and value == int(value)) and abs(value) < limit


def _check_floats(values: list[Any], stored: pa.Array, path: str) -> None:
    """Refuse floats that a narrower type makes infinite or 0; it rounds others."""
    given = np.array([0.0 if value is None else float(value) for value in values])
    found = stored.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    is_lost = np.isfinite(given) & (~np.isfinite(found) | ((found == 0) & (given != 0)))
    if is_lost.any():
        first = values[int(np.flatnonzero(is_lost)[0])]
        raise HoodieSchemaException(
            f"column '{path}' cannot be stored as {stored.type} without losing something, first value: "
            f"{short_repr(first)}; round or cast it"
        )


def _as_texts(values: list[Any], kinds: set[str], path: str) -> list[Any]:
    if kinds == {"text"}:
        return values
    _check(values, _is_utf8, path, "bytes that are no UTF-8 are no text; decode them", pa.string())
    return [
        bytes(value).decode() if isinstance(value, bytes | bytearray | memoryview)
        else str(value) if isinstance(value, UUID)
        else value
        for value in values
    ]  # fmt: skip


def _is_utf8(value: Any) -> bool:
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            bytes(value).decode()
        except UnicodeDecodeError:
            return False
    return True


def _as_bytes(values: list[Any], kinds: set[str]) -> list[Any]:
    if kinds == {"bytes"}:
        return values
    return [value.bytes if isinstance(value, UUID) else value for value in values]


def _moments(values: list[Any], path: str) -> list[Any]:
    """Python's datetimes in place of numpy's, and dates in place of numpy's days. No value may be finer than a
    microsecond.
    """
    types = set(map(type, values))
    way_out = "Hudi stores microseconds; round it, such as by floor('us')"
    if any(hasattr(found, "nanosecond") for found in types):
        _check(values, lambda value: not getattr(value, "nanosecond", 0), path, way_out)
    if np.datetime64 not in types:
        return values
    _check(values, _has_day, path, "it is a year, a month or a week; give a date, such as by astype('datetime64[D]')")
    _check(values, _has_known_year, path, "Python's dates have the years 1 to 9999; correct it, or make it null")
    _check(values, _is_whole_moment, path, way_out)
    return [_python_moment(value) if isinstance(value, np.datetime64) else value for value in values]


def _has_day(value: Any) -> bool:
    return not isinstance(value, np.datetime64) or np.datetime_data(value.dtype)[0] not in ("Y", "M", "W")


def _has_known_year(value: Any) -> bool:
    if not isinstance(value, np.datetime64):
        return True
    return MINYEAR <= int(value.astype("datetime64[Y]").astype(np.int64)) + 1970 <= MAXYEAR


def _is_whole_moment(value: Any) -> bool:
    return not isinstance(value, np.datetime64) or isinstance(_python_moment(value), date)


def _python_moment(value: np.datetime64) -> Any:
    """A date or a datetime; None for a value finer than a microsecond."""
    unit = np.datetime_data(value.dtype)[0]
    if unit == "D":
        return value.item()
    micros = value.astype("datetime64[us]")
    return micros.item() if micros.astype(value.dtype) == value and micros == value else None


def _as_dates(values: list[Any], kinds: set[str], path: str, known: pa.DataType) -> list[Any]:
    if "datetime" not in kinds:
        return values
    _check(values, _is_midnight, path, "it has a time of day; give a date", known)
    return [value.date() if isinstance(value, datetime) else value for value in values]


def _is_midnight(value: Any) -> bool:
    if not isinstance(value, datetime):
        return True
    is_utc = value.tzinfo is None or value.utcoffset() == timedelta(0)
    return is_utc and value.time() == time.min


def _as_moments(values: list[Any], kinds: set[str], path: str, known: pa.TimestampType) -> list[Any]:
    if known.tz is None:
        _check(
            values,
            lambda value: not isinstance(value, datetime) or value.tzinfo is None,
            path,
            "the table has local timestamps; give it without a time zone",
            known,
        )
    if "date" not in kinds:
        return values
    zone = None if known.tz is None else UTC
    return [
        datetime(value.year, value.month, value.day, tzinfo=zone)
        if isinstance(value, date) and not isinstance(value, datetime)
        else value
        for value in values
    ]
