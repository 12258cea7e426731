"""Columns of ISO texts as columns of dates and times, all values at once.

Only the common forms are taken: those of which Arrow makes what `hoodie.utilities.sources.helpers.json_times` makes of
them. A column with any other text is refused, and its messages are read one by one.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.avro_type import AvroType

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
_ZONE = r"(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])"
_DIGITS_OF_SECOND = {"micros": 6, "millis": 3}


class OtherTextError(Exception):
    """A column with a text that is not of a common form."""


def is_read_at_once(avro: AvroType) -> bool:
    """Whether there are common forms for a type: for dates and timestamps.

    Args:
        avro: The type.
    """
    return avro.logical is not None and (avro.logical == "date" or "timestamp" in avro.logical)


def times_of_texts(avro: AvroType, column: pa.StringArray) -> pa.Array:
    """The dates or times of a column of texts.

    Args:
        avro: The type, for which `is_read_at_once` is true.
        column: The texts.

    Raises:
        OtherTextError: A text is not of a common form.
        pyarrow.ArrowInvalid: There is no such day or time.
    """
    logical = str(avro.logical)
    if logical == "date":
        _check(column, f"^{_DATE}$")
        return column.cast(pa.date32())
    digits = _DIGITS_OF_SECOND[logical.rpartition("-")[2]]
    local = rf"^{_DATE}[T ]{_TIME}(?:\.[0-9]{{1,{digits}}})?"
    if avro.arrow_type.tz is None:
        _check(column, f"{local}$")
        return column.cast(avro.arrow_type)
    has_zone = pc.match_substring_regex(column, f"{_ZONE}$")
    if pc.all(has_zone, min_count=0).as_py():
        _check(column, f"{local}{_ZONE}$")
        return column.cast(avro.arrow_type)
    _check(column, f"{local}$")
    # Without a zone it is in UTC.
    return column.cast(pa.timestamp("us")).view(avro.arrow_type)


def _check(column: pa.StringArray, pattern: str) -> None:
    if not pc.all(pc.match_substring_regex(column, pattern), min_count=0).as_py():
        raise OtherTextError
