"""Days and dates of the Gregorian calendar, extended both ways without limit, as in Java and Joda.

Python's `datetime` ends at the years 1 and 9999. Days are counted from 1970-01-01; the year before 1 is 0.
"""

from __future__ import annotations

_DAYS_BEFORE_1970 = 719468
"""The days from 1 March of the year 0 to 1970-01-01."""
_DAYS_OF_400_YEARS = 146097


def civil_from_days(days: int) -> tuple[int, int, int]:
    """(year, month, day) of a day."""
    cycle, day_of_cycle = divmod(days + _DAYS_BEFORE_1970, _DAYS_OF_400_YEARS)
    year = (day_of_cycle - day_of_cycle // 1460 + day_of_cycle // 36524 - day_of_cycle // 146096) // 365
    day_of_year = day_of_cycle - (365 * year + year // 4 - year // 100)
    return _from_march(year + 400 * cycle, day_of_year)


def julian_civil_from_days(days: int) -> tuple[int, int, int]:
    """(year, month, day) of a day in the Julian calendar, where every fourth year is a leap year."""
    cycle, day_of_cycle = divmod(days + _DAYS_BEFORE_1970 + 2, 1461)
    year = (day_of_cycle - day_of_cycle // 1460) // 365
    return _from_march(year + 4 * cycle, day_of_cycle - 365 * year)


def days_from_civil(year: int, month: int, day: int) -> int:
    """The day of a date; a month or day beyond its range moves into later years or months."""
    year += (month - 1) // 12
    month = (month - 1) % 12 + 1
    if month <= 2:
        year -= 1
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + day_of_year - _DAYS_BEFORE_1970


def days_in_month(year: int, month: int) -> int:
    """The number of days in a month, 28 to 31."""
    return days_from_civil(year, month + 1, 1) - days_from_civil(year, month, 1)


def weekday(days: int) -> int:
    """The day of the week, 1 for Monday to 7 for Sunday."""
    return (days + 3) % 7 + 1


def iso_week(days: int) -> tuple[int, int]:
    """(year, week) of ISO 8601: week 1 contains the year's first Thursday."""
    thursday = days - weekday(days) + 4
    year = civil_from_days(thursday)[0]
    return year, (thursday - days_from_civil(year, 1, 1)) // 7 + 1


def _from_march(year: int, day_of_year: int) -> tuple[int, int, int]:
    """A date from its place in a year that begins on 1 March."""
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    return (year, month + 3, day) if month < 10 else (year + 1, month - 9, day)
