"""Arrow columns of the rows that databases give.

The type of a column is, in this order: that of the schema provider, if it has the column; that which the database
tells; that of the table that is filled; that of the values.

    PostgreSQL                       Arrow                     MySQL
    bool                             bool                      tinyint(1), bit(1) of a table
    int2, int4, int8                 int16, int32, int64       smallint, int, bigint; tinyint is int32
                                     the next larger           unsigned ones of a table
    float4, float8                   float32, float64          float, double
    numeric(p, s); numeric           decimal(p, s); (38, 18)   decimal
    date                             date32                    date
    timestamp, timestamptz           timestamp(us), with UTC   datetime, timestamp (without a zone)
    bytea                            binary                    binary, blob
    json, uuid, enums, all others    string                    others

Types of SQLite are those of its table, by its rules of affinity; those of a query are those of its values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from hoodie.exception import HoodieReadFromSourceException

_TIME: Final = pa.timestamp("us")
_TIME_UTC: Final = pa.timestamp("us", "UTC")
_WIDE_DECIMAL: Final = pa.decimal128(38, 18)
_POSTGRES: Final[Mapping[int, pa.DataType]] = {
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    26: pa.int64(),
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1114: _TIME,
    1184: _TIME_UTC,
    1000: pa.list_(pa.bool_()),
    1005: pa.list_(pa.int16()),
    1007: pa.list_(pa.int32()),
    1009: pa.list_(pa.string()),
    1015: pa.list_(pa.string()),
    1016: pa.list_(pa.int64()),
    1021: pa.list_(pa.float32()),
    1022: pa.list_(pa.float64()),
}
_DIGITS: Final = re.compile(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_NUMERIC: Final = 1700
_MYSQL: Final[Mapping[int, pa.DataType]] = {
    1: pa.int32(),
    2: pa.int16(),
    3: pa.int32(),
    4: pa.float32(),
    5: pa.float64(),
    7: _TIME,
    8: pa.int64(),
    9: pa.int32(),
    10: pa.date32(),
    12: _TIME,
    13: pa.int32(),
    16: pa.binary(),
}
_MYSQL_DECIMALS: Final = (0, 246)
_MYSQL_TEXTS: Final = (15, 245, 249, 250, 251, 252, 253, 254)
"""Texts and bytes have the same codes, and are told apart by their values."""


def told_types(kind: str, description: Sequence[Any]) -> dict[str, pa.DataType]:
    """The types that a database tells with the rows of a query.

    Args:
        kind: The database: ``postgresql``, ``mysql`` or ``mariadb``; others tell none.
        description: The description of a cursor.

    Returns:
        The types by columns, without those that are not told.
    """
    found: dict[str, pa.DataType] = {}
    for column in description:
        name, code = column[0], column[1]
        if kind == "postgresql":
            found[name] = _decimal(column[4], column[5]) if code == _NUMERIC else _POSTGRES.get(code, pa.string())
        elif kind in ("mysql", "mariadb"):
            if code in _MYSQL_DECIMALS:
                # The length has a sign and a point.
                scale = column[5] or 0
                found[name] = _decimal(column[4] and column[4] - 1 - (scale > 0), scale)
            elif code not in _MYSQL_TEXTS:
                found[name] = _MYSQL.get(code, pa.string())
    return found


def sqlite_types(columns: Sequence[tuple[str, str]]) -> dict[str, pa.DataType]:
    """The types of a table of SQLite, by its rules of affinity.

    Args:
        columns: Name and declared type of each column.

        >>> sqlite_types([("a", "BIGINT"), ("b", "VARCHAR(5)"), ("c", "DOUBLE"), ("d", "")])
        {'a': DataType(int64), 'b': DataType(string), 'c': DataType(double)}
    """
    found: dict[str, pa.DataType] = {}
    for name, declared in columns:
        text = declared.upper()
        if "BOOL" in text:
            found[name] = pa.bool_()
        elif "INT" in text:
            found[name] = pa.int64()
        elif any(word in text for word in ("CHAR", "CLOB", "TEXT", "DATE", "TIME")):
            found[name] = pa.string()
        elif "BLOB" in text:
            found[name] = pa.binary()
        elif any(word in text for word in ("REAL", "FLOA", "DOUB")):
            found[name] = pa.float64()
        elif any(word in text for word in ("DECIMAL", "NUMERIC")):
            digits = _DIGITS.search(text)
            found[name] = _decimal(int(digits[1]), int(digits[2] or 0)) if digits else pa.float64()
    return found


def mysql_types(columns: Sequence[tuple[str, str]]) -> dict[str, pa.DataType]:
    """The types of columns of a table of MySQL that the rows of a query do not tell: as Java's driver has them.

    Args:
        columns: Name and declared type of each column.

        >>> mysql_types([("a", "int(10) unsigned"), ("b", "tinyint(1)"), ("c", "decimal(12,3)"), ("d", "text")])
        {'a': DataType(int64), 'b': DataType(bool), 'c': Decimal128Type(decimal128(12, 3))}
    """
    found: dict[str, pa.DataType] = {}
    for name, declared in columns:
        text = declared.lower()
        if text.startswith(("tinyint(1)", "bit(1)")):
            found[name] = pa.bool_()
        elif text.startswith("decimal") and (digits := _DIGITS.search(text)):
            found[name] = _decimal(int(digits[1]), int(digits[2] or 0))
        elif text.startswith("bigint") and "unsigned" in text:
            found[name] = pa.decimal128(20, 0)
        elif text.startswith("int") and "unsigned" in text:
            found[name] = pa.int64()
        elif text.startswith("smallint") and "unsigned" in text:
            found[name] = pa.int32()
    return found


def inferred_type(values: Sequence[Any]) -> pa.DataType | None:
    """The type of the values of a column; None if there is none but nulls.

    Args:
        values: The values.
    """
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return None
    if kinds <= {bool}:
        return pa.bool_()
    if kinds <= {int}:
        return pa.int64()
    if kinds <= {int, float}:
        return pa.float64()
    if kinds <= {int, Decimal}:
        return _WIDE_DECIMAL
    if kinds <= {bytes, bytearray, memoryview}:
        return pa.binary()
    if kinds <= {date}:
        return pa.date32()
    if all(issubclass(kind, datetime) for kind in kinds):
        is_aware = any(value is not None and value.tzinfo is not None for value in values)
        return _TIME_UTC if is_aware else _TIME
    return pa.string()


def to_batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a cursor as a batch.

    Args:
        rows: The rows, not none.
        schema: The columns, in the order of the rows.

    Raises:
        HoodieReadFromSourceException: A value does not fit the type of its column.
    """
    columns = []
    for field, values in zip(schema, zip(*rows, strict=True), strict=True):
        try:
            columns.append(_column(values, field.type))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise HoodieReadFromSourceException(
                f"JdbcSource: a value of the column {field.name} is not of the type {field.type} ({error}): give the "
                "types by --schemaprovider-class FilebasedSchemaProvider, or cast the column in a query as table.name"
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    convert = _CONVERSIONS.get(kind.id)
    if convert is not None:
        values = [value if value is None else convert(value) for value in values]
    elif pa.types.is_timestamp(kind):
        values = [_moment(value, kind) for value in values]
    elif pa.types.is_decimal(kind):
        values = [_decimal_value(value, kind) for value in values]
    return pa.array(values, kind)


def _decimal(precision: Any, scale: Any) -> pa.DataType:
    if not precision or precision > 38:
        return _WIDE_DECIMAL
    return pa.decimal128(precision, max(0, scale or 0))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return json.dumps(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8")
    return str(value)


def _moment(value: Any, kind: pa.TimestampType) -> Any:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime) and kind.tz is None and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _decimal_value(value: Any, kind: pa.DataType) -> Decimal | None:
    if value is None:
        return None
    number = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise ValueError(f"{number} is no number")
    # A scale that is too large is an error of Arrow's; one that is too small is filled with zeros.
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and -exponent > kind.scale:
        rounded: Decimal = round(number, kind.scale)
        if kind != _WIDE_DECIMAL and rounded != number:
            raise ValueError(f"{number} has more than {kind.scale} digits after the point")
        return rounded
    return number


_CONVERSIONS: Final[Mapping[int, Callable[[Any], Any]]] = {
    pa.string().id: _text,
    pa.binary().id: lambda value: value.encode() if isinstance(value, str) else bytes(value),
    pa.bool_().id: lambda value: any(value) if isinstance(value, bytes) else bool(value),
    pa.date32().id: lambda value: date.fromisoformat(value[:10]) if isinstance(value, str) else value,
}
