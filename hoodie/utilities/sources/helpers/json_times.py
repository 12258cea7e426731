"""ISO texts of dates and times in JSON, as numbers.

Hudi: org.apache.hudi.common.avro.processors.TimeLogicalTypeProcessor.
"""

from __future__ import annotations

import re

_DATE = r"(?P<year>\d{4}|[+-]\d{4,10})-(?P<month>\d{2})-(?P<day>\d{2})"
_TIME = r"(?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{0,9}))?)?"
_OFFSET = r"(?P<offset>[Zz]|[+-]\d{2}:\d{2}(?::\d{2})?)?"
_ISO_DATE = re.compile(_DATE, re.ASCII)
_ISO_TIME = re.compile(_TIME, re.ASCII)
_ISO_LOCAL = re.compile(f"{_DATE}[T ]{_TIME}", re.ASCII)
_ISO_INSTANT = re.compile(f"{_DATE}[Tt]? ?{_TIME}{_OFFSET}", re.ASCII)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SECONDS_OF_DAY = 86_400
_LARGEST_OFFSET = 18 * 3600
_NANOS = 1_000_000_000


def days_of(text: str) -> int:
    """The days since 1970-01-01 of a date such as ``2024-07-13``; years beyond 9999 have a sign.

    Args:
        text: The text.

    Raises:
        ValueError: It is no such date.
    """
    return _days(_match(_ISO_DATE, text))


def nanos_of_day(text: str) -> int:
    """The nanoseconds since midnight of a time such as ``11:36``, ``11:36:01`` or ``11:36:01.951``.

    Args:
        text: The text.

    Raises:
        ValueError: It is no such time.
    """
    return _nanos(_match(_ISO_TIME, text))


def local_nanos(text: str) -> int:
    """The nanoseconds since 1970-01-01 of a date and a time, with ``T`` or a blank between them, and without a zone.

    Args:
        text: The text.

    Raises:
        ValueError: It is no such time.
    """
    found = _match(_ISO_LOCAL, text)
    return _days(found) * _SECONDS_OF_DAY * _NANOS + _nanos(found)


def instant_nanos(text: str) -> int:
    """The nanoseconds since the epoch of a date and a time with ``Z`` or an offset; without one it is in UTC.

    Args:
        text: The text.

    Raises:
        ValueError: It is no such time.
    """
    found = _match(_ISO_INSTANT, text)
    nanos = _days(found) * _SECONDS_OF_DAY * _NANOS + _nanos(found)
    return nanos - _offset_seconds(found["offset"]) * _NANOS


def to_micros(nanos: int) -> int:
    """Whole microseconds, towards zero as Java does.

    Args:
        nanos: Nanoseconds.
    """
    return -(-nanos // 1000) if nanos < 0 else nanos // 1000


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError
    return found


def _days(found: re.Match[str]) -> int:
    year, month, day = int(found["year"]), int(found["month"]), int(found["day"])
    if not 1 <= month <= 12:
        raise ValueError
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _MONTH_DAYS[month - 1] + (is_leap and month == 2):
        raise ValueError
    # Years from March on, so that the leap day is the last one of its year.
    shifted = year - (month <= 2)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + of_year - 719_468


def _nanos(found: re.Match[str]) -> int:
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    return ((hour * 60 + minute) * 60 + second) * _NANOS + int((found["fraction"] or "").ljust(9, "0"))


def _offset_seconds(text: str | None) -> int:
    if text is None or text in "Zz":
        return 0
    hour, minute, second = (*(int(part) for part in text[1:].split(":")), 0)[:3]
    total = (hour * 60 + minute) * 60 + second
    if minute > 59 or second > 59 or total > _LARGEST_OFFSET:
        raise ValueError
    return -total if text[0] == "-" else total
