"""Complete the instants of writes and of all other actions, in one order of steps.

| | step | who |
|---|---|---|
| 1 | the files of the action are checked: markers, validators | the action |
| 2 | the lock, a new snapshot, conflicts with others | the action, as far as it needs them |
| 3 | the metadata table gets a delta commit of the instant; `check`: the lock is still held | `complete_instant` |
| 4 | the completed file is made: from here on the action counts | `complete_instant` |
| 5 | the metadata table is compacted, if that is due now | the action calls `compact_metadata_table` |
| 6 | the lock is released | the action |
| 7 | markers, heartbeats and other leftovers of the action are deleted | the action |
| 8 | metrics, callbacks, services that are due | `hoodie.table.action.listeners` |

A metadata table must know of an action before it counts. The completion time, which
names the completed file in tables of versions 8 and 9, is taken between 3 and 4. Times are given out under the table's
lock there, so a clean, which needs no lock to delete its files, takes it for these two steps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.completion import complete
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after, newest, next_instant_time
from hoodie.exception import HoodieIOException, HoodieLockException
from hoodie.metadata.metadata_table import MetadataTable, MetadataTableUpkeep, one_at_a_time
from hoodie.table.action.action import no_check

logger = logging.getLogger(__name__)


@attrs.frozen
class CompletedAction:
    """An action that was just completed.

    Attributes:
        instant: Its instant.
        to_compact: The table whose metadata table is to be compacted now, see `compact_metadata_table`; None for none.
    """

    instant: HoodieInstant
    to_compact: TableSnapshot | None = None


def complete_instant(
    snapshot: TableSnapshot,
    instant_time: str,
    action: Action,
    metadata: attrs.AttrsInstance,
    check: Callable[[], None] = no_check,
    upkeep: MetadataTableUpkeep | None = None,
    *,
    is_current: bool = False,
) -> CompletedAction | None:
    """Complete an instant of any action of a table, once its metadata table knows of the action.

    Args:
        snapshot: The table.
        instant_time: The instant, inflight.
        action: Its action.
        metadata: The metadata of the action.
        check: Called right before the file is made; when it raises, the instant stays as it is.
        upkeep: The upkeep of the metadata table, if there is one.
        is_current: Whether the table was loaded under the lock of all writers, which is still held. If not, it is
            loaded again: a metadata table may have been made, and others may have completed actions.

    Returns:
        The completed instant; None when it was complete already. Call `compact_metadata_table` before the lock is
        released.

    Raises:
        HoodieCommitException: There is no inflight file: it was rolled back.
        HoodieException: The metadata table could not be brought up to date.
        HoodieIOException: Storage failed; nothing was completed.
    """
    timeline = snapshot.active_timeline
    now = snapshot if is_current else snapshot.with_properties_reloaded()
    if not now.table_config.metadata_partitions:
        completed = complete(timeline, instant_time, action, metadata, check, is_current=is_current)
        return None if completed is None else CompletedAction(completed)
    with one_at_a_time(now):
        now = now if is_current else now.refreshed()
        found = now.active_timeline.find(instant_time, action)
        if found is not None and found.is_completed:
            return None
        metadata_table = MetadataTable(now, upkeep or MetadataTableUpkeep())
        recorded = metadata_table.record(instant_time, action, metadata, check)
        forget = None if recorded is None else partial(metadata_table.forget, instant_time)
        completed = complete(timeline, instant_time, action, metadata, check, forget=forget, is_current=is_current)
    if completed is None:
        return None
    return CompletedAction(completed, recorded.table if recorded is not None and recorded.is_compaction_due else None)


def compact_metadata_table(
    completed: CompletedAction,
    check: Callable[[], None] = no_check,
    upkeep: MetadataTableUpkeep | None = None,
) -> tuple[str, ...]:
    """Compact the metadata table if the instant that was just completed has made that due; never fails.

    The instant counts, whatever happens here. A failure is logged, and the next action tries again.

    Args:
        completed: The result of `complete_instant`, under the lock that is still held.
        check: Raises where the lock was lost.
        upkeep: The upkeep of the metadata table.

    Returns:
        The failures, for `HoodieWriteResult.service_errors`.
    """
    table, instant_time = completed.to_compact, completed.instant.requested_time
    if table is None:
        return ()

    def check_lock() -> None:
        try:
            check()
        except HoodieLockException as error:
            # Its text says that nothing was committed.
            raise HoodieLockException("the lock was lost meanwhile", was_lost=True) from error

    try:
        MetadataTable(table, upkeep or MetadataTableUpkeep()).compact_if_due(instant_time, check_lock)
    except Exception as error:
        logger.warning(
            "the compaction of the metadata table of %s failed after %s was completed, which stands; the next write "
            "goes on with it", table.base_path, instant_time, exc_info=True,
        )  # fmt: skip
        return (f"compaction of the metadata table after {instant_time}: {type(error).__name__}: {error}",)
    return ()


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
