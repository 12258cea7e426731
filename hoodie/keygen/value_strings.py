"""Column values as the strings in record keys and partition paths.

They are the strings that Hudi's Avro writers make (format rules 4.3):

=================================  =======================================================
Arrow type                         string
=================================  =======================================================
string                             unchanged
int8 ... int64                     decimal digits
bool                               true, false
date32                             2026-11-21; years beyond 9999 with a sign: +10000-01-01
timestamp (us)                     the microseconds since 1970 as a number
decimal128(p, s)                   BigDecimal.toString with the declared scale: 12.30, 1E-7
float, double                      Double.toString: 1.0, 0.001, 1.0E7, NaN, -Infinity
binary                             lower-case hexadecimal digits
=================================  =======================================================

Floating-point digits are those of Java 8 to 17, on which Hudi runs (`hoodie.keygen.java_floats`). Golden values from
real Hudi 0.15.0 verify all of it (``tests/data/hudi_keys.json``).
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.util.gregorian_calendar import civil_from_days, julian_civil_from_days
from hoodie.exception import HoodieKeyException
from hoodie.keygen.java_floats import double_string, float_string

_FIRST_PLAIN_DAY = -719162
"""0001-01-01 in days since 1970; from there to 9999-12-31 Arrow and Java write a year in the same way."""
_LAST_PLAIN_DAY = 2932896
_FIRST_GREGORIAN_DAY = -141427
"""15 October 1582, where java.util switches the calendar."""


def can_be_key(data_type: pa.DataType) -> bool:
    """Whether values of a type can be strings in keys and partition paths."""
    return _formatter(data_type) is not None


def value_strings(values: pa.Array, consistent_timestamps: bool = False) -> pa.StringArray:
    """The values as strings; a null stays a null.

    Args:
        values: An array of a type in the table of the module docstring, or a dictionary array of one.
        consistent_timestamps: Whether timestamps are written as java.sql.Timestamp does in a JVM at UTC (``2026-11-21
            10:30:00.0``, at most milliseconds) and not as numbers: with
            ``hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled``.

    Raises:
        HoodieKeyException: Values of the type have no string in keys: structs, lists, maps.
    """
    if pa.types.is_dictionary(values.type):
        return value_strings(values.dictionary, consistent_timestamps).take(values.indices)
    if consistent_timestamps and pa.types.is_timestamp(values.type):
        return _each_distinct(values.view(pa.int64()), _sql_timestamp)
    formatter = _formatter(values.type)
    if formatter is None:
        raise HoodieKeyException(f"values of type {values.type} cannot be part of a record key or partition path")
    return formatter(values)


def nan_rows(values: pa.Array) -> pa.BooleanArray | None:
    """True for values that are NaN, without nulls; None if there is none, or the type has no NaN.

    Args:
        values: An array of any type, or a dictionary array.
    """
    is_dictionary = pa.types.is_dictionary(values.type)
    if not pa.types.is_floating(values.type.value_type if is_dictionary else values.type):
        return None
    is_nan = pc.is_nan(values.dictionary_decode() if is_dictionary else values).fill_null(False)
    return is_nan if pc.any(is_nan).as_py() else None


def over_distinct(values: pa.Array, function: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """``function(values)`` for an element-wise function, called with the distinct values only if they are few."""
    if pa.types.is_dictionary(values.type):
        encoded = values.dictionary_decode().dictionary_encode(null_encoding="encode")
    else:
        encoded = values.dictionary_encode(null_encoding="encode")
    if 2 * len(encoded.dictionary) > len(values):
        return function(values.dictionary_decode() if pa.types.is_dictionary(values.type) else values)
    made = function(encoded.dictionary)
    # If nothing changes, the result shares its bytes with the values, and is copied only together with them.
    return values if made.type == values.type and made.equals(encoded.dictionary) else made.take(encoded.indices)


def _formatter(data_type: pa.DataType) -> Callable[[pa.Array], pa.StringArray] | None:
    if pa.types.is_dictionary(data_type):
        return _formatter(data_type.value_type)
    return next((formatter for is_type, formatter in _FORMATTERS if is_type(data_type)), None)


def _cast(values: pa.Array) -> pa.StringArray:
    return values.cast(pa.string())


def _decimals(values: pa.Array) -> pa.StringArray:
    # pyarrow 17 writes 1.E-10 for 1E-10.
    return pc.replace_substring(_cast(values), ".E", "E")


def _dates(values: pa.Array) -> pa.StringArray:
    days = values.view(pa.int32())
    bounds = pc.min_max(days).as_py()
    if bounds["min"] is None or (bounds["min"] >= _FIRST_PLAIN_DAY and bounds["max"] <= _LAST_PLAIN_DAY):
        return values.cast(pa.string())
    return _each_distinct(days, _date_string)


def _date_string(days: int) -> str:
    """LocalDate.ofEpochDay(days).toString()."""
    year, month, day = civil_from_days(days)
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _sql_timestamp(micros: int) -> str:
    """New Timestamp(micros / 1000).toString() at UTC: the Julian calendar up to 4 October 1582."""
    millis = micros // 1000 if micros >= 0 else -(-micros // 1000)
    days, ms = divmod(millis, 86_400_000)
    year, month, day = julian_civil_from_days(days) if days < _FIRST_GREGORIAN_DAY else civil_from_days(days)
    if year <= 0:
        year = 1 - year
    seconds, fraction = divmod(ms, 1000)
    shown = f"{fraction:03d}".rstrip("0") or "0"
    return f"{year:04d}-{month:02d}-{day:02d} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{shown}"


def _each_distinct(values: pa.Array, function: Callable[..., str]) -> pa.StringArray:
    """The function of each value, called once for each distinct value."""
    if pa.types.is_floating(values.type):
        # Compared by their bits: a dictionary array keeps -0.0 and 0.0 apart, but not every NaN.
        size = pa.int32() if pa.types.is_float32(values.type) else pa.int64()
        encoded = values.view(size).dictionary_encode()
        distinct = encoded.dictionary.view(values.type)
    else:
        encoded = values.dictionary_encode()
        distinct = encoded.dictionary
    strings = pa.array([function(value) for value in distinct.to_pylist()], pa.string())
    return strings.take(encoded.indices)


_FORMATTERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.StringArray]], ...] = (
    (pa.types.is_string, lambda values: values),
    (pa.types.is_signed_integer, _cast),
    (pa.types.is_boolean, _cast),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_timestamp, lambda values: _cast(values.view(pa.int64()))),
    (pa.types.is_date32, _dates),
    (pa.types.is_float32, lambda values: _each_distinct(values, float_string)),
    (pa.types.is_float64, lambda values: _each_distinct(values, double_string)),
    (pa.types.is_binary, lambda values: _each_distinct(values, bytes.hex)),
)
