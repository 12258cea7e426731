"""Changes that others made to a table while a long action was being carried out."""

from __future__ import annotations

from collections.abc import Iterator

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.table.action.rollback.rollback_service import rolled_back_by


def undone_since(before: TableSnapshot, now: TableSnapshot) -> list[str]:
    """The completed writes that were rolled back since, in order; those that were archived do not count.

    Args:
        before: The table as it was.
        now: The table as it is.
    """
    timeline = now.active_timeline
    return timeline.undone_since(before.active_timeline.completed_writes().times, held=timeline.savepoint_times)


def completed_since(before: TableSnapshot, now: TableSnapshot) -> Iterator[HoodieInstant]:
    """The writes and services that were completed since, in order.

    Args:
        before: The table as it was.
        now: The table as it is.
    """
    known = before.active_timeline.completed_writes().times
    return (one for one in now.active_timeline.completed_writes() if one.requested_time not in known)


def rolled_back_since(before: TableSnapshot, now: TableSnapshot, instant_time: str) -> bool:
    """Whether an attempt of an instant was rolled back since: its files are gone.

    Args:
        before: The table as it was.
        now: The table as it is.
        instant_time: The instant.
    """
    known = before.active_timeline.filter_actions(Action.ROLLBACK).filter_completed_instants().times
    return any(
        instant_time in rolled_back_by(now, rollback)
        for rollback in now.active_timeline.filter_actions(Action.ROLLBACK).filter_completed_instants()
        if rollback.requested_time not in known
    )
