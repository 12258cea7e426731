"""The start and the end of an instant whose plan is on the timeline, and whose tasks write files."""

from __future__ import annotations

import logging

from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieCommitException, HoodieIOException

logger = logging.getLogger(__name__)


def begin_planned(snapshot: TableSnapshot, instant_time: str, action: Action) -> None:
    """Allow tasks to write, then make the instant inflight.

    Args:
        snapshot: The table.
        instant_time: The instant, requested.
        action: Its action as long as it is pending.

    Raises:
        HoodieCommitException: Another process began to carry it out.
    """
    markers = WriteMarkers(snapshot.storage, snapshot.meta_path, instant_time)
    # Before the instant is inflight: a rollback meanwhile closes the markers after the instant's files are gone.
    is_opened = markers.open()
    is_inflight = False
    try:
        is_inflight = snapshot.active_timeline.transition_requested_to_inflight(instant_time, action)
    finally:
        if is_opened and not is_inflight:
            markers.close()
    if not is_inflight:
        raise HoodieCommitException(
            f"{action} {instant_time} of {snapshot.base_path} is being carried out by another process"
        )


def delete_markers_after(snapshot: TableSnapshot, instant_time: str, what: str) -> None:
    """Delete what the tasks of a completed instant left beside the table; never fails.

    Args:
        snapshot: The table.
        instant_time: The instant.
        what: A name of it, for the log.
    """
    try:
        WriteMarkers(snapshot.storage, snapshot.meta_path, instant_time).delete_all()
    except HoodieIOException as error:
        logger.warning("after %s was completed: %s", what, error)
