"""A warning for reads as of a time that give a state the table never had, because commits overtook each other.

A read as of a time takes the commits whose instants are not after it. With several writers, one of these commits may
have been completed after a commit of a later instant. The table never held the rows of the first without those of the
second, so the result is a state that no reader ever saw. A key that the second commit moved to another partition may be
in it twice. The newest state has all commits, and is right.

Hudi: reads by instants too, and does not warn.
"""

from __future__ import annotations

import logging

from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.common.table.timeline.instant_time import in_order, is_after
from hoodie.common.table.timeline.timeline_listing import completion_times
from hoodie.exception import HoodieException

logger = logging.getLogger(__name__)


def warn_of_overtaken_commits(timeline: HoodieActiveTimeline, base_path: str, time: str) -> None:
    """Log a warning if the table never had the state that a read as of a time gives.

    Args:
        timeline: The timeline of the table.
        base_path: The table's folder.
        time: The time of the read: it takes the commits whose instants are not after it.

    Raises:
        HoodieIOException: Storage failed.
    """
    overtaking = overtaken_commit(timeline, time)
    if overtaking is not None:
        slow, fast = overtaking
        logger.warning(
            "reading %s as of %s: %s %s was completed after %s %s, whose instant is later, so the table never was as "
            "it is read: a key that a commit moved between partitions may be there twice, or be missing. The newest "
            "state is right, and as of %s both are there",
            base_path, time, slow.action, slow.requested_time, fast.action, fast.requested_time, fast.requested_time,
        )  # fmt: skip


def overtaken_commit(timeline: HoodieActiveTimeline, time: str) -> tuple[HoodieInstant, HoodieInstant] | None:
    """A commit up to a time, and one of a later instant that was completed before it; None if no such pair is known.

    Clusterings and compactions change no rows, and do not count. Commits whose completion time is not stored do not
    count either.

    Args:
        timeline: The timeline of the table.
        time: The time of the read.

    Raises:
        HoodieIOException: Storage failed.
    """
    completed = timeline.completed_writes()
    later = completed.after(time)
    if not len(later) or not len(completed.before_or_on(time)):
        return None
    ends = completion_times(timeline.storage, timeline.meta_path, timeline.layout, timeline.timezone, only_sure=True)
    places = {end: place for place, end in enumerate(in_order(set(ends.values())))}

    def by_completion(instants: tuple[HoodieInstant, ...]) -> list[HoodieInstant]:
        known = [instant for instant in instants if instant.requested_time in ends]
        return sorted(known, key=lambda instant: places[ends[instant.requested_time]])

    slowest_first = by_completion(completed.before_or_on(time).instants)[::-1]
    fastest_first = by_completion(later.instants)

    def overtakes(fast: HoodieInstant, slow: HoodieInstant) -> bool:
        return is_after(ends[slow.requested_time], ends[fast.requested_time])

    for fast in fastest_first:
        if not slowest_first or not overtakes(fast, slowest_first[0]):
            return None
        if _changes_rows(timeline, fast):
            slow = next(
                (slow for slow in slowest_first if overtakes(fast, slow) and _changes_rows(timeline, slow)), None
            )
            return None if slow is None else (slow, fast)
    return None


def _changes_rows(timeline: HoodieActiveTimeline, instant: HoodieInstant) -> bool:
    try:
        return not timeline.read_commit_metadata(instant).only_rewrites
    except HoodieException:
        # The reader that needs this metadata for its rows reports the error.
        return True
