"""Complete the instants of writes and of all other actions, in one order of steps.

| | step | who |
|---|---|---|
| 1 | what the action did is checked: files and markers, validators | the action |
| 2 | the lock, a new snapshot, conflicts with others | the action, as far as it needs them |
| 3 | the metadata table gets a delta commit of the instant; `check`: the lock is still held | `complete_instant` |
| 4 | the completed file is made: from here on the action counts | `complete_instant` |
| 5 | the lock is released | the action |
| 6 | markers, heartbeats and other leftovers of the action are deleted | the action |
| 7 | metrics, callbacks, services that are due | the client |

A metadata table must know of an action before it counts. The completion time, which
names the completed file in tables of versions 8 and 9, is taken between 3 and 4. Times are given out under the table's
lock there, so actions that need no lock for anything else take it for these two steps: see `AnnouncedAction.locked`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after, newest, next_instant_time
from hoodie.exception import HoodieCommitException, HoodieIOException
from hoodie.metadata.writer.table_metadata_writer import one_at_a_time
from hoodie.table.action.table_action import no_check
from hoodie.table.metadata_table import MetadataTableUpkeep, forget_action, record_action

logger = logging.getLogger(__name__)


def complete_instant(
    snapshot: TableSnapshot,
    instant_time: str,
    action: Action,
    metadata: attrs.AttrsInstance,
    check: Callable[[], None] = no_check,
    upkeep: MetadataTableUpkeep | None = None,
) -> HoodieInstant | None:
    """Complete an instant of any action: the only place where one becomes complete.

    Args:
        snapshot: The table.
        instant_time: The instant, inflight.
        action: Its action.
        metadata: What was done.
        check: Called right before the file is made; when it raises, the instant stays as it is.
        upkeep: How the metadata table is kept up to date, if there is one.

    Returns:
        The completed instant; None when it was complete already.

    Raises:
        HoodieCommitException: There is no inflight file: it was rolled back.
        HoodieException: The metadata table could not be brought up to date.
        HoodieIOException: Storage failed; nothing was completed.
    """
    timeline = snapshot.active_timeline
    now = snapshot.with_properties_reloaded()
    if not now.table_config.metadata_partitions:
        return timeline.save_as_complete(instant_time, action, metadata, check)
    with one_at_a_time(now):
        now = now.refreshed()
        found = now.active_timeline.find(instant_time, action)
        if found is not None and found.is_completed:
            return None
        is_recorded = record_action(now, instant_time, action, metadata, check, upkeep or MetadataTableUpkeep())
        try:
            return timeline.save_as_complete(instant_time, action, metadata, check)
        except HoodieCommitException:
            # It was rolled back: no rollback will take back what was just recorded.
            if is_recorded:
                forget_action(now, instant_time)
            raise


def complete_after_others(snapshot: TableSnapshot, completed: HoodieInstant) -> HoodieInstant:
    """Give a commit a later completion time, where others took a later one before its completed file could be seen.

    Call this under the lock, for a commit whose writer lost the lock between the two steps. Readers may have gone on
    from the completion of another commit, and would never read this one. Its file of the later time is made before the
    other one is deleted: of two files, the later time counts. Readers that saw it at the first time read it twice.

    Args:
        snapshot: The table, just loaded; nobody has built on the commit.
        completed: The commit.

    Returns:
        The commit with the completion time that counts now.
    """
    timeline = snapshot.active_timeline
    ends = newest(instant.completion_time for instant in timeline.completed_writes())
    if completed not in timeline or ends is None or not is_after(ends, completed.completion_time or ""):
        return completed
    try:
        later = complete_later(snapshot, completed)
    except HoodieIOException as error:
        logger.warning(
            "%s of %s was completed at %s, and others could see it only after a commit that was completed at %s: an "
            "incremental query that began in between does not read it (a later completion time was not written: %s)",
            completed, snapshot.base_path, completed.completion_time, ends, error,
        )  # fmt: skip
        return completed
    logger.warning(
        "%s of %s counts as completed at %s, after what others completed meanwhile; incremental queries that read it "
        "at %s already read it again", completed, snapshot.base_path, later.completion_time, completed.completion_time,
    )  # fmt: skip
    return later


def complete_later(snapshot: TableSnapshot, completed: HoodieInstant) -> HoodieInstant:
    """Make another completed file of a commit, with a completion time that is later than all, and delete the first.

    Of two files, the later time counts. Call this under the lock.

    Args:
        snapshot: The table, just loaded.
        completed: The commit, in timeline layout 2.

    Returns:
        The commit with its new completion time.

    Raises:
        HoodieIOException: Storage failed; the commit has its first completion time.
    """
    timeline = snapshot.active_timeline
    given_out = newest([*(instant.newest_time for instant in timeline), timeline.newest_archived_time()])
    later = attrs.evolve(completed, completion_time=next_instant_time(timeline.clock(), given_out, timeline.timezone))
    # No other process takes that time under the lock.
    timeline.storage.create_if_absent(timeline.path_of(later), timeline.read_details(completed))
    try:
        timeline.storage.delete_file(timeline.path_of(completed))
    except HoodieIOException as error:
        logger.warning(
            "%s of %s has two completed files; the later one counts: %s", completed, snapshot.base_path, error
        )
    time.sleep(timeline.clock_skew_ms / 1000)
    return later
