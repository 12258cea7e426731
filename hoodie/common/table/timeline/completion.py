"""The one function that makes an instant complete, of tables and of metadata tables alike."""

from __future__ import annotations

from collections.abc import Callable

from hoodie.common.table.timeline.active_timeline import Content, HoodieActiveTimeline, no_check
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.exception import HoodieCommitException, HoodieException, HoodieLockException


def complete(
    timeline: HoodieActiveTimeline,
    instant_time: str,
    action: Action,
    metadata: Content,
    check: Callable[[], None] = no_check,
    *,
    forget: Callable[[], object] | None = None,
    is_current: bool = False,
    is_sole_writer: bool = False,
) -> HoodieInstant | None:
    """Make the completed file of an instant: from here on the action counts.

    `hoodie.table.action.completion.complete_instant` calls this for the actions of a table, once the metadata table
    knows of them; the writers of a metadata table call it for its own instants.

    Args:
        timeline: The timeline.
        instant_time: The instant, inflight.
        action: Its action.
        metadata: The metadata of the action.
        check: Called right before the file is made; when it raises, the instant stays as it is.
        forget: Takes back what was recorded of the action elsewhere, such as in the metadata table. It is called if the
            instant was rolled back meanwhile, because no rollback will do so; also where `check` finds the lock lost.
        is_current: See `HoodieActiveTimeline.save_as_complete`.
        is_sole_writer: See `HoodieActiveTimeline.save_as_complete`.

    Returns:
        The completed instant; None when it was complete already.

    Raises:
        HoodieCommitException: There is no inflight file: the instant was rolled back.
        HoodieLockException: `check` found the lock lost.
        HoodieIOException: Storage failed; nothing was completed.
    """
    try:
        return timeline.save_as_complete(
            instant_time, action, metadata, check, is_current=is_current, is_sole_writer=is_sole_writer
        )
    except HoodieCommitException:
        if forget is not None:
            forget()
        raise
    except HoodieLockException as error:
        try:
            if forget is not None and not timeline.is_inflight(instant_time, action):
                forget()
        except HoodieException as failure:
            error.add_note(f"what was recorded of {instant_time} elsewhere may be left: {failure}")
        raise
