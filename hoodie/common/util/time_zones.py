"""Time zones by the names that Java knows, and their offsets, for times of any year.

Hudi looks names up with java.util.TimeZone and passes them to Joda. Java silently takes an unknown name for GMT; hoodie
refuses it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

_DAY_MS = 86_400_000
_CYCLE_MS = 146_097 * _DAY_MS
"""400 years, after which the Gregorian calendar repeats."""
_FIRST_MS = -62_135_510_400_000
"""A day after the first moment that Python's datetime has."""
_LAST_MS = 253_402_128_000_000
"""Two days before the last one."""
_CUSTOM_ID = re.compile(r"GMT([+-])(\d{1,2})(?::?(\d{2}))?")
_SHORT_IDS = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "EST": "America/New_York", "HST": "Pacific/Honolulu",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "MST": "America/Denver", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Java's three-letter names, with Joda's meaning."""


def time_zone(name: str) -> tzinfo:
    """The zone of a name: ``UTC``, ``Europe/Berlin``, ``GMT+8:00``, or one of Java's three-letter names.

    Raises:
        ValueError: There is no such zone; the message says which names exist.
    """
    if name in ("UTC", "GMT", "Z", "UT", "UCT", "Zulu", "Etc/UTC", "Etc/GMT"):
        return UTC
    custom = _CUSTOM_ID.fullmatch(name)
    if custom:
        hours, minutes = int(custom[2]), int(custom[3] or 0)
        if hours < 24 and minutes < 60:
            sign = -1 if custom[1] == "-" else 1
            return timezone(sign * timedelta(hours=hours, minutes=minutes))
    try:
        return ZoneInfo(_SHORT_IDS.get(name, name))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = f", such as GMT{name}" if re.fullmatch(r"[+-]\d.*", name) else ""
        raise ValueError(
            f"{name!r} is not a known time zone: give a name of the tz database, such as Europe/Berlin, or an offset "
            f"from GMT{hint or ', such as GMT+08:00'}"
        ) from error


def offsets_at(zone: tzinfo, utc_ms: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The offsets of a zone from UTC at moments, all in milliseconds; its rules also apply after the year 9999."""
    if isinstance(zone, timezone):
        return np.full(len(utc_ms), _offset(zone, 0), np.int64)
    moments = _in_range(utc_ms)
    days, places = np.unique(moments // _DAY_MS, return_inverse=True)
    starts = np.array([_offset(zone, int(day) * _DAY_MS) for day in days], np.int64)
    ends = np.array([_offset(zone, (int(day) + 1) * _DAY_MS) for day in days], np.int64)
    offsets = starts[places]
    changing = np.flatnonzero((starts != ends)[places])
    if len(changing):
        seconds, inner = np.unique(moments[changing] // 1000, return_inverse=True)
        offsets[changing] = np.array([_offset(zone, int(second) * 1000) for second in seconds], np.int64)[inner]
    return offsets


def offset_from_local(zone: tzinfo, local_ms: int) -> int | None:
    """The offset of a zone from UTC when its clocks show a time; of two moments the earlier; None for a skipped time.

    Args:
        zone: The zone.
        local_ms: The time that the clocks show, as if it were UTC, in milliseconds.
    """
    local = int(_in_range(np.array([local_ms], np.int64))[0])
    shown = datetime(1970, 1, 1) + timedelta(milliseconds=local)
    offset = shown.replace(tzinfo=zone).utcoffset() or timedelta(0)
    offset_ms = _milliseconds(offset)
    return offset_ms if _offset(zone, local - offset_ms) == offset_ms else None


def _offset(zone: tzinfo, utc_ms: int) -> int:
    moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=utc_ms)).astimezone(zone)
    return _milliseconds(moment.utcoffset() or timedelta(0))


def _milliseconds(offset: timedelta) -> int:
    return offset // timedelta(milliseconds=1)


def _in_range(moments: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The moments, with those beyond Python's years moved by whole cycles, or to the first year."""
    late = moments > _LAST_MS
    if late.any():
        moments = np.where(late, _LAST_MS - _CYCLE_MS + (moments - _LAST_MS) % _CYCLE_MS, moments)
    return np.maximum(moments, _FIRST_MS)
