"""Column values as the strings that stand in record keys and partition paths.

They are what Hudi's Avro writers make (format rules 4.3):

=================================  =======================================================
Arrow type                         string
=================================  =======================================================
string                             as it is
int8 ... int64                     decimal digits
bool                               true, false
date32                             2026-11-21; years beyond 9999 with a sign: +10000-01-01
timestamp (us)                     the microseconds since 1970 as a number
decimal128(p, s)                   BigDecimal.toString with the declared scale: 12.30, 1E-7
float, double                      Double.toString: 1.0, 0.001, 1.0E7, NaN, -Infinity
binary                             decoded as UTF-8, what is malformed becomes U+FFFD
=================================  =======================================================

Floating-point digits are the shortest that give the value back, as in Java 19 and later. Java 17 writes another last
digit for some whole numbers that are too large to be exact: doubles from about 1.0E16 on (1.0E23 is
9.999999999999999E22 there), floats from about 3.0E7 on. Below, all are the same. Such columns are no good keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.exception import HoodieKeyException

__all__ = ["can_be_key", "over_distinct", "value_strings"]

_PLAIN_MINIMUM = 1e-3
_PLAIN_LIMIT = 1e7
_FIRST_PLAIN_DAY = -719162
"""0001-01-01 in days since 1970; from there on Arrow and Java write a year alike, up to 9999-12-31."""
_LAST_PLAIN_DAY = 2932896


def can_be_key(data_type: pa.DataType) -> bool:
    """Whether values of a type have a string in keys and partition paths."""
    return _formatter(data_type) is not None


def value_strings(values: pa.Array) -> pa.StringArray:
    """The values as strings; a null stays a null.

    Args:
        values: An array of a type of the table in this module's text; dictionaries of these are taken too.

    Raises:
        HoodieKeyException: Values of that type have no string in keys: structs, lists, maps.
    """
    if pa.types.is_dictionary(values.type):
        return value_strings(values.dictionary).take(values.indices)
    formatter = _formatter(values.type)
    if formatter is None:
        raise HoodieKeyException(f"values of type {values.type} cannot stand in a record key or partition path")
    return formatter(values)


def over_distinct(values: pa.Array, function: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """``function(values)`` for an element-wise function, called with the distinct values when they are few."""
    if pa.types.is_dictionary(values.type):
        encoded = values.dictionary_decode().dictionary_encode(null_encoding="encode")
    else:
        encoded = values.dictionary_encode(null_encoding="encode")
    if 2 * len(encoded.dictionary) > len(values):
        return function(values.dictionary_decode() if pa.types.is_dictionary(values.type) else values)
    return function(encoded.dictionary).take(encoded.indices)


def _formatter(data_type: pa.DataType) -> Callable[[pa.Array], pa.StringArray] | None:
    if pa.types.is_dictionary(data_type):
        return _formatter(data_type.value_type)
    if pa.types.is_string(data_type):
        return _same
    if pa.types.is_signed_integer(data_type) or pa.types.is_boolean(data_type) or pa.types.is_decimal(data_type):
        return _cast
    if pa.types.is_timestamp(data_type):
        return _timestamps
    if pa.types.is_date32(data_type):
        return _dates
    if pa.types.is_float32(data_type) or pa.types.is_float64(data_type):
        return _floats
    if pa.types.is_binary(data_type):
        return _binaries
    return None


def _same(values: pa.Array) -> pa.StringArray:
    return values


def _cast(values: pa.Array) -> pa.StringArray:
    return values.cast(pa.string())


def _timestamps(values: pa.Array) -> pa.StringArray:
    return values.view(pa.int64()).cast(pa.string())


def _dates(values: pa.Array) -> pa.StringArray:
    days = values.view(pa.int32())
    bounds = pc.min_max(days).as_py()
    if bounds["min"] is None or (bounds["min"] >= _FIRST_PLAIN_DAY and bounds["max"] <= _LAST_PLAIN_DAY):
        return values.cast(pa.string())
    return _each_distinct(days, _date_string)


def _date_string(days: int) -> str:
    """LocalDate.ofEpochDay(days).toString(): the Gregorian calendar extended both ways, years without a year 0 gap."""
    cycle, day_of_cycle = divmod(days + 719468, 146097)  # 400 years that begin on a 1st of March
    year = (day_of_cycle - day_of_cycle // 1460 + day_of_cycle // 36524 - day_of_cycle // 146096) // 365
    day_of_year = day_of_cycle - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month, year = (month + 3, year) if month < 10 else (month - 9, year + 1)
    year += 400 * cycle
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _floats(values: pa.Array) -> pa.StringArray:
    single = pa.types.is_float32(values.type)
    return _each_distinct(values, _float32_string if single else _float64_string)


def _float64_string(value: float) -> str:
    return _java_float(value, repr(value), float)


def _float32_string(value: float) -> str:
    digits = np.format_float_scientific(np.float32(value), unique=True)
    return _java_float(value, digits, lambda text: float(np.float32(text)))


def _java_float(value: float, shortest: str, parse: Callable[[str], float]) -> str:
    """Double.toString of a value whose shortest digits are known: plain from 1e-3 up to 1e7, else scientific."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return sign + "Infinity"
    if value == 0:
        return sign + "0.0"
    digits, exponent = _digits_and_exponent(shortest.lstrip("-"))
    if len(digits) == 1:
        # Java writes two digits at least, and takes the pair nearest to the value: 4.9E-324.
        two = f"{abs(value):.1e}"
        if parse(two) == abs(value):
            digits, exponent = _digits_and_exponent(two)
    if _PLAIN_MINIMUM <= abs(value) < _PLAIN_LIMIT:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _digits_and_exponent(text: str) -> tuple[str, int]:
    """Significant digits without zeros at the ends, and the power of ten of the first of them."""
    mantissa, _, power = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    all_digits = whole + fraction
    leading = len(all_digits) - len(all_digits.lstrip("0"))
    return all_digits.strip("0"), int(power or 0) + len(whole) - 1 - leading


def _binaries(values: pa.Array) -> pa.StringArray:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return _each_distinct(values, lambda value: value.decode("utf-8", errors="replace"))


def _each_distinct(values: pa.Array, function: Callable[..., str]) -> pa.StringArray:
    """The function of each distinct value, called once for it."""
    if pa.types.is_floating(values.type):
        # As bits: a dictionary holds -0.0 and 0.0 apart, but not every NaN.
        size = pa.int32() if pa.types.is_float32(values.type) else pa.int64()
        encoded = values.view(size).dictionary_encode()
        distinct = encoded.dictionary.view(values.type)
    else:
        encoded = values.dictionary_encode()
        distinct = encoded.dictionary
    strings = pa.array([function(value) for value in distinct.to_pylist()], pa.string())
    return strings.take(encoded.indices)
