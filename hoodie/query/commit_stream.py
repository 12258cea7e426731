"""What a stream of a table's commits may read next, for readers that go on where they stopped.

A stream reads ranges of commits that follow each other. Commits are in the order of their instants, so a range must
never go past a commit that is pending: its rows would come to lie before the range that follows. A writer of hoodie
takes no instant before one that it can see; where another writer does, the stream stops with an error as long as it
runs.

Hudi: org.apache.spark.sql.hudi.streaming.HoodieStreamSourceV1, with HollowCommitHandling.BLOCK.
"""

from __future__ import annotations

from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after
from hoodie.exception import HoodieException
from hoodie.query.commit_range import check_not_undone, pending_writes
from hoodie.table.table_state import missing_at

_START_ANEW = (
    "Start the query with a new checkpoint folder; hoodie.datasource.streaming.startOffset says where it begins"
)


def newest_before_pending(timeline: HoodieActiveTimeline) -> str | None:
    """The newest completed commit that no pending one comes before; None if there is none.

    Args:
        timeline: The table's.
    """
    completed = timeline.completed_writes()
    pending = pending_writes(timeline).first_instant
    last = (completed if pending is None else completed.before(pending.requested_time)).last_instant
    if last is not None:
        return last.requested_time
    archived = timeline.newest_archived_time()
    before_pending = pending is None or (archived is not None and is_after(pending.requested_time, archived))
    return archived if before_pending else None


def end_of_batch(snapshot: TableSnapshot, begin: str | None, end: str, max_files: int) -> str:
    """Up to which commit a batch goes that reads some files at most.

    It holds whole commits, at least one. It ends at a time whose files are all there: where they were cleaned, it goes
    on to the first such time. The first batch of a table whose oldest commits are archived holds all of these.

    Args:
        snapshot: The table.
        begin: Commits after this time; None for all.
        end: Commits up to this time.
        max_files: The number of files.

    Raises:
        HoodieIOException: Storage failed.
        HoodieCorruptedDataException: The metadata of a commit is damaged.
    """
    timeline = snapshot.active_timeline
    commits = timeline.completed_writes().before_or_on(end)
    instants = (commits if begin is None else commits.after(begin)).instants
    has_older = begin is None and timeline.newest_archived_time() is not None
    files: set[tuple[str, str]] = set()
    chosen = 0
    for place, instant in enumerate(instants):
        stats = timeline.read_commit_metadata(instant).write_stats
        files.update((stat.partition_path, stat.file_id) for stat in stats if stat.path)
        if place and (has_older or len(files) > max_files):
            break
        chosen = place
    low, high = chosen, len(instants) - 1
    if high < 0:
        return end
    while low < high:
        middle = low if low == chosen else (low + high) // 2
        low, high = (middle + 1, high) if missing_at(snapshot, instants[middle].requested_time) else (low, middle)
    return instants[low].requested_time


def check_commit_is_there(snapshot: TableSnapshot, instant_time: str) -> None:
    """Refuse to go on after a commit that the table does not have any more.

    Args:
        snapshot: The table.
        instant_time: The commit that was read last.

    Raises:
        HoodieException: It was undone, or the table was made anew.
        HoodieIOException: Storage failed.
    """
    timeline = snapshot.active_timeline
    if timeline.completed_writes().contains(instant_time):
        return
    check_not_undone(timeline, instant_time)
    archived = timeline.newest_archived_time()
    may_be_archived = archived is not None and not is_after(instant_time, archived)
    if may_be_archived and snapshot.archived_timeline.contains(instant_time):
        return
    raise HoodieException(
        f"{snapshot.base_path} has no commit {instant_time}, which the stream has read last: the table was made anew, "
        f"or the commit was undone. What was read up to it may not be in the table any more. {_START_ANEW}"
    )


def check_no_late_commits(timeline: HoodieActiveTimeline, instant_time: str, known: frozenset[str]) -> None:
    """Refuse commits that were completed with an instant that the stream has passed.

    Clusterings may come late: they write no new rows, so nobody waits for them.

    Args:
        timeline: The table's.
        instant_time: The commit that was read last.
        known: The completed commits when that offset was taken.

    Raises:
        HoodieException: There is one.
    """
    for instant in timeline.completed_writes().before(instant_time):
        if instant.requested_time not in known and not _is_clustering(timeline, instant):
            raise HoodieException(
                f"{instant} of {timeline.meta_path} was not there when the stream passed its instant, up to "
                f"{instant_time}: its rows are missing in the stream, because its writer took an instant before one "
                f"that was completed. Read them with an incremental query. {_START_ANEW}"
            )


def _is_clustering(timeline: HoodieActiveTimeline, instant: HoodieInstant) -> bool:
    """Whether a completed replace commit is a clustering."""
    if instant.action is not Action.REPLACE_COMMIT:
        return False
    return timeline.read_commit_metadata(instant).operation_type is WriteOperationType.CLUSTER
