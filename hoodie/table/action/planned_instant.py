"""Instants that plans name: files are deleted by their times, so nothing else may stand there."""

from __future__ import annotations

from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieCorruptedDataException

__all__ = ["check_planned_instant"]

_FEWEST_DIGITS = 14


def check_planned_instant(instant_time: str, action: str, source: str) -> Action:
    """The action of an instant that a plan undoes.

    Args:
        instant_time: Digits; it becomes part of paths that are deleted.
        action: Its action.
        source: The plan's file, for the error message.

    Raises:
        HoodieCorruptedDataException: It is no instant.
    """
    is_time = instant_time.isascii() and instant_time.isdecimal() and len(instant_time) >= _FEWEST_DIGITS
    try:
        found = Action(action)
    except ValueError:
        is_time = False
    if not is_time:
        raise HoodieCorruptedDataException(
            f"the plan {source} undoes {action!r} {instant_time!r}, which is no instant; nothing was deleted"
        )
    return found
