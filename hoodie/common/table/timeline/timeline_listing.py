"""From the files of a timeline to its instants, also while an archiver takes some away."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant
from hoodie.common.table.timeline.timeline_layout import TimelineLayout
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join

__all__ = ["list_instants", "list_states"]

logger = logging.getLogger(__name__)

_MAX_LISTINGS = 10
_LISTED_AT_ONCE = 300


def list_states(storage: HoodieStorage, meta_path: str, layout: TimelineLayout) -> Iterator[HoodieInstant]:
    """One entry per file of a timeline, in no order.

    Args:
        storage: Where the table is.
        meta_path: The table's ``.hoodie`` folder.
        layout: The table's timeline layout.

    Raises:
        HoodieIOException: Storage failed.
    """
    for status in storage.list_directory(layout.active_path(meta_path)):
        instant = None if status.is_directory else layout.parse_file_name(status.name)
        if instant is not None:
            yield instant


def list_instants(storage: HoodieStorage, meta_path: str, layout: TimelineLayout) -> list[HoodieInstant]:
    """Each instant of a timeline once, in its highest state.

    Lists until the listing is one of a moment: archivers delete instants while it is made.

    Args:
        storage: Where the table is.
        meta_path: The table's ``.hoodie`` folder.
        layout: The table's timeline layout.

    Raises:
        HoodieIOException: Storage failed.
    """
    instants: list[HoodieInstant] = []
    for _ in range(_MAX_LISTINGS):
        states = list(list_states(storage, meta_path, layout))
        instants = _effective(states)
        folder = layout.active_path(meta_path)
        doubtful = (
            join(folder, layout.file_name(i.requested_time, i.action, i.state, i.completion_time))
            for i in _doubtful(states, instants)
        )
        if all(map(storage.exists, doubtful)):
            break
        logger.info("The timeline of %s is being archived; listing it again", meta_path)
    return instants


def _doubtful(states: list[HoodieInstant], instants: list[HoodieInstant]) -> list[HoodieInstant]:
    """Instants that make a listing a wrong one if they are gone already.

    Archivers delete pending states first, then completed ones, oldest first. So when the oldest completed commit is
    there still, no later one was gone before the listing ended. It is asked for when its pending states are gone, which
    is how an archiving begins, or when the listing is so long that it was not made at once. And an instant that looks
    pending and is older than it may have been completed, and archived between the two looks at its files.
    """
    saved = {i.requested_time for i in instants if i.action is Action.SAVEPOINT}
    oldest = min(
        (i for i in instants if i.is_completed and i.action in COMMIT_ACTIONS and i.requested_time not in saved),
        key=lambda i: i.requested_time,
        default=None,
    )
    if oldest is None:
        return []
    doubtful = [i for i in instants if i.is_pending and i.requested_time < oldest.requested_time]
    is_whole = any(s.is_requested and s.requested_time == oldest.requested_time for s in states)
    return doubtful if is_whole and len(states) <= _LISTED_AT_ONCE else [oldest, *doubtful]


def _effective(states: Iterable[HoodieInstant]) -> list[HoodieInstant]:
    """Each instant once, in its highest state; a compaction and the commit that completes it are one instant."""
    highest: dict[tuple[str, Action], HoodieInstant] = {}
    for found in states:
        known = highest.get(found.key)
        if known is None or found.state > known.state:
            highest[found.key] = found
    return list(highest.values())
