"""Dates and times that come as text in the form of ISO 8601, for columns whose type is known."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.stored_types import field_finder
from hoodie.common.util.shown_value import short_repr
from hoodie.exception import HoodieSchemaException

_ZONE = r"[0-9:. ](Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
"""The end of a time with a zone; that of a date, ``-02``, has no colon before it."""
_TIME = r"[0-9]{2}:[0-9]{2}"


def is_time_of_text(data_type: pa.DataType, known: pa.DataType) -> bool:
    """Whether text stands for values of a date or timestamp type.

    Args:
        data_type: The type of the input.
        known: The type of the table.
    """
    is_text = pa.types.is_string(data_type) or pa.types.is_large_string(data_type)
    is_time = pa.types.is_date32(known) or pa.types.is_timestamp(known)
    return bool(is_text and is_time)


def with_times(schema: pa.Schema, known: pa.Schema | None) -> pa.Schema:
    """The columns of an input, with the table's type where text stands for dates and times.

    Args:
        schema: The columns of the input.
        known: The table's.
    """
    if known is None:
        return schema
    find = field_finder(known)
    fields = []
    for field in schema:
        twin = find(field.name)
        is_text = twin is not None and is_time_of_text(field.type, twin.type)
        fields.append(field.with_type(twin.type) if twin is not None and is_text else field)
    return pa.schema(fields)


def parsed_columns(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table | pa.RecordBatch:
    """Rows whose text is parsed where a schema has times.

    Args:
        rows: The rows.
        schema: The result of `with_times` for their schema.

    Raises:
        HoodieSchemaException: A text is not a date or time.
    """
    for number, (field, wanted) in enumerate(zip(rows.schema, schema, strict=True)):
        if field.type != wanted.type:
            rows = rows.set_column(number, wanted, parsed_times(rows.column(number), wanted.type, field.name))
    return rows


def parsed_times(values: pa.Array | pa.ChunkedArray, target: pa.DataType, path: str) -> pa.Array | pa.ChunkedArray:
    """Text as dates or timestamps: ``2026-01-02``, ``2026-01-02 10:15:30.123+01:00``.

    A time without a zone is in UTC where the column has moments (Arrow: ``tz="UTC"``). A column of local times takes no
    zone.

    Args:
        values: Text.
        target: The stored type.
        path: The column, for messages.

    Raises:
        HoodieSchemaException: A text is not of that form; the message names the first one.
    """
    try:
        if not pa.types.is_timestamp(target) or target.tz is None:
            return values.cast(target)
        has_zone = pc.and_(pc.match_substring_regex(values, _TIME), pc.match_substring_regex(values, _ZONE))
        if not pc.any(has_zone).as_py():
            return _in_utc(values, target)
        moments = pc.if_else(has_zone, values, None).cast(target)
        return pc.if_else(has_zone, moments, _in_utc(pc.if_else(has_zone, None, values), target))
    except pa.ArrowInvalid as error:
        raise HoodieSchemaException(
            f"column '{path}' is {target} in the table, and the input has {_first_bad(values, target)} as text: give "
            "a date as 2026-01-02, a time as 2026-01-02 10:15:30.123456, with a zone (Z, +01:00) only where the column "
            "has moments"
        ) from error


def _in_utc(values: pa.Array | pa.ChunkedArray, target: pa.TimestampType) -> pa.Array | pa.ChunkedArray:
    local = values.cast(pa.timestamp(target.unit))
    return pc.assume_timezone(local, "UTC").cast(target) if target.tz else local


def _first_bad(values: pa.Array | pa.ChunkedArray, target: pa.DataType) -> str:
    for value in values:
        if not value.is_valid:
            continue
        try:
            one = pa.array([value.as_py()], pa.string())
            one.cast(target if not (pa.types.is_timestamp(target) and target.tz) else pa.timestamp(target.unit))
        except pa.ArrowInvalid:
            try:
                one.cast(target)
            except pa.ArrowInvalid:
                return short_repr(value.as_py())
    return "a value"
