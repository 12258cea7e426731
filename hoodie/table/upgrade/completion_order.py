"""Completion times for the instants of a table of version 6, whose timeline does not name them.

They are in the order of the requested times, and no two are equal: a reader of version 6 takes commits in that order,
so what was before a commit for such a reader is before it for a reader of completion times too. Times at which files
were changed decide only how far apart they are, because a copied table has those of the copy.

    requested   file changed   completion time
    10:00:00    10:00:02       10:00:02
    10:00:01    10:00:09       10:00:09
    10:00:05    10:00:06       10:00:09.001
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import attrs

from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import (
    format_instant_time,
    in_order,
    is_after,
    is_instant_time,
    newest,
    next_instant_time,
)

_IN_ORDER = frozenset({*COMMIT_ACTIONS, Action.RESTORE})
"""What changes rows; a clean or a savepoint may take long, and does not delay the commits beside it."""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = 17


@attrs.frozen
class CompletedInstant:
    """A completed instant of version 6.

    Attributes:
        instant: The instant.
        changed_at: The time of the last change of its completed file, as an instant time; "" if it is not known.
    """

    instant: HoodieInstant
    changed_at: str


def time_of_change(modification_time_ms: int, timezone: str) -> str:
    """The instant time at which a file was last changed; "" on a store that does not know.

    Args:
        modification_time_ms: See `FileStatus`.
        timezone: ``hoodie.table.timeline.timezone`` of the table.
    """
    if modification_time_ms <= 0:
        return ""
    return format_instant_time(datetime.fromtimestamp(modification_time_ms / 1000, UTC), timezone)


def completion_times_of(found: Iterable[CompletedInstant], now: str | None = None) -> dict[tuple[str, Action], str]:
    """A completion time for each instant, active and archived ones together.

    Args:
        found: All completed instants of the table, in any order; of one that is named twice, the last entry counts.
        now: The present, as an instant time. Files that were changed later are from a clock that was wrong: all commits
            to come would get later times than that.

    Returns:
        The instant's key -> its completion time.

    Raises:
        InvalidTableException: No later time can be computed from the requested time of an instant.
    """
    changed = {
        entry.instant.key: "" if now is not None and is_after(entry.changed_at, now) else entry.changed_at
        for entry in found
    }
    times: dict[tuple[str, Action], str] = {}
    last: str | None = None
    for key in _sorted(key for key in changed if key[1] in _IN_ORDER):
        last = times[key] = _time_after(newest([key[0], last]) or key[0], changed[key])
    taken = set(times.values())
    for key in _sorted(changed.keys() - times.keys()):
        time = _time_after(key[0], changed[key])
        while time in taken:
            time = _time_after(time, "")
        taken.add(time)
        times[key] = time
    return times


def _sorted(keys: Iterable[tuple[str, Action]]) -> list[tuple[str, Action]]:
    by_time: dict[str, list[tuple[str, Action]]] = {}
    for key in keys:
        by_time.setdefault(key[0], []).append(key)
    return [key for time in in_order(by_time) for key in sorted(by_time[time], key=lambda key: str(key[1]))]


def _time_after(time: str, changed_at: str) -> str:
    """The time at which a file was changed, or the millisecond after a time if that is later."""
    if len(changed_at) == _DIGITS and is_instant_time(changed_at) and is_after(changed_at, time):
        return changed_at
    return next_instant_time(_LONG_AGO, time)
