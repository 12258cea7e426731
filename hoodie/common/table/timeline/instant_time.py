"""Instant times: ``yyyyMMddHHmmssSSS`` in the table's time zone, and their order.

They are compared as strings, in this package only: ``.ci/instant_times`` finds comparisons elsewhere. The functions
here decide which of two instants was *requested* first. What a reader of an instant sees is decided by the timeline: in
later table versions by completion times.

A time of 14 digits (tables of Hudi before 0.10) is read as the last millisecond of its second. Tables of time zone
LOCAL hold wall clock times, which daylight saving repeats for an hour every autumn. `next_instant_time` therefore
counts on from the newest time that exists instead of trusting the clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

from hoodie.exception import InvalidTableException

_SECONDS = re.compile(r"^\d{14}$", re.ASCII)
_MILLISECONDS = re.compile(r"^\d{17}$", re.ASCII)
_DATE_LENGTH = len("2026-01-02")
_EPOCH_SECONDS_LENGTH = 10
_EPOCH = re.compile(r"^(\d{10}|\d{13})$", re.ASCII)
_ENDS_WITH_SECOND = re.compile(r"^[\d-]+[ T]\d\d:\d\d:\d\d(?![\d.,])", re.ASCII)
_LEADING = re.compile(r"^(\d{17}|\d{14})", re.ASCII)


def is_before(instant_time: str, other: str) -> bool:
    """Whether an instant was requested before another one; "" is the time before all instants.

    Hudi: compareTimestamps(instant_time, LESSER_THAN, other).
    """
    return instant_time < other


def is_after(instant_time: str, other: str) -> bool:
    """Whether an instant was requested after another one; "" is the time before all instants."""
    return instant_time > other


def oldest(instant_times: Iterable[str | None]) -> str | None:
    """The first of the given instant times, skipping None; None if there is no time."""
    return min((time for time in instant_times if time is not None), default=None)


def newest(instant_times: Iterable[str | None]) -> str | None:
    """The last of the given instant times, skipping None; None if there is no time."""
    return max((time for time in instant_times if time is not None), default=None)


def in_order(instant_times: Iterable[str]) -> list[str]:
    """Instant times, the oldest first."""
    return sorted(instant_times)


def is_instant_time(text: str) -> bool:
    """Whether a text is an instant time of 17 or 14 digits that is a date."""
    try:
        _parse_wall_clock(text)
    except ValueError:
        return False
    return True


def parse_instant_time(instant_time: str, timezone: str = "UTC") -> datetime:
    """The moment that an instant time names.

    Args:
        instant_time: 17 or 14 digits.
        timezone: ``hoodie.table.timeline.timezone`` of the table: ``UTC``, or ``LOCAL`` for this machine's zone.

    Returns:
        An aware datetime in UTC. In the hour that daylight saving repeats, the first of the two.

    Raises:
        ValueError: The text is not an instant time.
    """
    wall_clock = _parse_wall_clock(instant_time)
    if timezone.upper() == "UTC":
        return wall_clock.replace(tzinfo=UTC)
    return wall_clock.astimezone(UTC)


def latest_moment(instant_time: str, timezone: str = "UTC") -> datetime:
    """The moment that an instant time names; in the hour that daylight saving repeats, the second of the two.

    Args:
        instant_time: See `parse_instant_time`.
        timezone: See `parse_instant_time`.

    Raises:
        ValueError: The text is not an instant time.
    """
    first = parse_instant_time(instant_time, timezone)
    if timezone.upper() == "UTC":
        return first
    return max(first, _parse_wall_clock(instant_time).replace(fold=1).astimezone(UTC))


def earlier_moment(moment: datetime, instant_time: str, timezone: str = "UTC") -> datetime:
    """The earlier of a moment and of the one that an instant time names; see `parse_instant_time`.

    Args:
        moment: An aware datetime.
        instant_time: See `parse_instant_time`.
        timezone: See `parse_instant_time`.

    Raises:
        ValueError: The text is not an instant time.
    """
    return min(moment, parse_instant_time(instant_time, timezone))


def format_instant_time(moment: datetime, timezone: str = "UTC") -> str:
    """The instant time of a moment.

    Args:
        moment: An aware datetime; it is truncated to milliseconds.
        timezone: ``UTC``, or ``LOCAL`` for this machine's zone.

    Returns:
        17 digits.

    Raises:
        ValueError: The datetime is not aware.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone")
    return _digits(moment.astimezone(UTC if timezone.upper() == "UTC" else None))


def query_time(value: str | date | datetime, timezone: str = "UTC", *, any_digits: bool = False) -> str:
    """The instant time for a time that a query names; it need not be the time of an instant.

    ======================================  =====================================
    given                                   instant time
    ======================================  =====================================
    ``20260102101530123``                   the same
    ``2026-01-02``                          ``20260102000000000``
    ``2026-01-02 10:15:30.123``             ``20260102101530123``
    ``2026-01-02 10:15:30``                 ``20260102101530999``
    ``1767348930``, ``1767348930123``       seconds, milliseconds since 1970
    a date or datetime of Python            to the millisecond
    ======================================  =====================================

    A text that names a second means all of it, so commits of that second belong to what was before that time. Times
    without a time zone are in the timeline's, as instant times are; others are converted to it. Ten digits that are
    also a date and an hour are refused.

    Args:
        value: The time.
        timezone: ``UTC``, or ``LOCAL`` for this machine's zone.
        any_digits: Whether any digits are an instant time, such as ``000``, which is before all instants.

    Raises:
        ValueError: The text has another form, or names no date.

    Hudi: HoodieSqlCommonUtils.formatQueryInstant. Differs: takes dates and datetimes, and times with zones.
    """
    if isinstance(value, str):
        text = value.strip()
        if _EPOCH.match(text):
            return format_instant_time(_since_epoch(text), timezone)
        if text.isascii() and text.isdigit():
            if not any_digits:
                _parse_wall_clock(text)
            return text
        if len(text) < _DATE_LENGTH or not text[:4].isdigit() or text[4] != "-":
            raise ValueError(f"{value!r} is not a time")
        value = datetime.fromisoformat(text)
        if _ENDS_WITH_SECOND.match(text):
            value = value.replace(microsecond=999_000)
    if not isinstance(value, datetime):
        return _digits(datetime(value.year, value.month, value.day))
    return _digits(value) if value.tzinfo is None else format_instant_time(value, timezone)


def next_instant_time(now: datetime, newest: str | None, timezone: str = "UTC") -> str:
    """An instant time that is greater than all that exist: now, or a millisecond after the newest one.

        now 08:00:00.005, newest ...080000001 -> ...080000005
        now 08:00:00.005, newest ...080000005 -> ...080000006

    Args:
        now: An aware datetime.
        newest: The greatest instant time of any action, active or archived; None of an empty table.
        timezone: ``UTC``, or ``LOCAL`` for this machine's zone.

    Returns:
        17 digits, greater than ``newest`` as a string.

    Raises:
        InvalidTableException: The newest instant time lies in the future and is not a date to which a millisecond can
            be added.
    """
    time = format_instant_time(now, timezone)
    if newest is None or time > newest:
        return time
    match = _LEADING.match(newest)
    try:
        if match is None:
            raise ValueError("not 14 or 17 digits")
        following = _digits(_parse_wall_clock(match.group(1)) + timedelta(milliseconds=1))
    except (ValueError, OverflowError) as error:
        raise InvalidTableException(
            f"Cannot make a new instant time: the newest instant of the table, {newest}, is later than now ({time}), "
            f"and no later time can be computed from it ({error}). If no writer made that instant, remove its files"
        ) from error
    return following


def _since_epoch(text: str) -> datetime:
    """The moment of a number of seconds or milliseconds.

    Raises:
        ValueError: The number is a date and an hour as well.
    """
    if is_instant_time(f"{text}0000"):
        raise ValueError(f"{text!r} is a date and an hour, and a number of seconds since 1970")
    number = timedelta(milliseconds=int(text)) if len(text) > _EPOCH_SECONDS_LENGTH else timedelta(seconds=int(text))
    return datetime(1970, 1, 1, tzinfo=UTC) + number


def _digits(moment: datetime) -> str:
    # strftime does not pad years before 1000 on Linux.
    return (
        f"{moment.year:04d}{moment.month:02d}{moment.day:02d}{moment.hour:02d}{moment.minute:02d}{moment.second:02d}"
        f"{moment.microsecond // 1000:03d}"
    )


def _parse_wall_clock(text: str) -> datetime:
    if _SECONDS.match(text):
        text += "999"
    elif not _MILLISECONDS.match(text):
        raise ValueError(f"{text!r} is not an instant time of 17 or 14 digits")
    numbers = [int(text[:4]), *(int(text[i : i + 2]) for i in range(4, 14, 2))]
    return datetime(*numbers[:6], int(text[14:]) * 1000)  # type: ignore[arg-type,call-arg]
