"""The commits that a stream of a table may read next, for readers that continue where they stopped.

A stream reads ranges of commits that follow each other. In tables of version 6, commits are in the order of their
instants, so a range must never go past a pending commit: its rows would belong before the next range. A writer of
hoodie takes no instant before one that it can see. If another writer does, the stream stops with an error when it finds
the late commit.

In tables of versions 8 and 9, commits are in the order of their completions, so pending commits come later. If a commit
appears that was completed before one that was read, the stream stops likewise.

Hudi: org.apache.spark.sql.hudi.streaming.HoodieStreamSourceV1, with HollowCommitHandling.BLOCK, and
HoodieStreamSourceV2.
"""

from __future__ import annotations

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import in_order, is_after, is_before, newest
from hoodie.exception import HoodieException
from hoodie.query.commit_range import (
    check_completion_not_undone,
    check_not_undone,
    completion_of,
    pending_writes,
)
from hoodie.table.table_state import missing_at

_START_ANEW = (
    "Start the query with a new checkpoint folder; hoodie.datasource.streaming.startOffset says where it begins"
)


def newest_readable(snapshot: TableSnapshot) -> str | None:
    """The time of the newest commit up to which a stream may read; None if there is none.

    Args:
        snapshot: The table.
    """
    timeline = snapshot.active_timeline
    if not timeline.layout.has_completion_times:
        return _newest_before_pending(timeline)
    ends = newest(map(completion_of, timeline.completed_writes()))
    return ends or newest(map(completion_of, snapshot.archived_timeline.completed_writes()))


def _newest_before_pending(timeline: HoodieActiveTimeline) -> str | None:
    """The newest completed commit without a pending one before it; None if there is none."""
    completed = timeline.completed_writes()
    pending = pending_writes(timeline).first_instant
    last = (completed if pending is None else completed.before(pending.requested_time)).last_instant
    if last is not None:
        return last.requested_time
    archived = timeline.newest_archived_time()
    before_pending = pending is None or (archived is not None and is_after(pending.requested_time, archived))
    return archived if before_pending else None


def end_of_batch(snapshot: TableSnapshot, begin: str | None, end: str, max_files: int) -> str:
    """The end of a batch that reads about a given number of files at most.

    A batch has whole commits, at least one. It ends at a time whose files all exist: where they were cleaned, it goes
    on to the first such time. If the oldest commits of a table are archived, the first batch has all archived ones. In
    a table of version 8 or 9 the first batch has all commits: the states in between may have no instant time.

    Args:
        snapshot: The table.
        begin: Commits after this time; None for all.
        end: Commits up to this time.
        max_files: The most files that a batch should read; more only if its first commit has more.

    Raises:
        HoodieIOException: Storage failed.
        HoodieCorruptedDataException: The metadata of a commit is damaged.
    """
    timeline = snapshot.active_timeline
    by_completion = timeline.layout.has_completion_times
    if by_completion and begin is None:
        return end
    own_times = {
        instant: completion_of(instant) if by_completion else instant.requested_time
        for instant in timeline.completed_writes()
    }
    ordered = {time: place for place, time in enumerate(in_order(set(own_times.values())))}
    instants = sorted(
        (
            instant
            for instant, time in own_times.items()
            if not is_after(time, end) and (begin is None or is_after(time, begin))
        ),
        key=lambda instant: ordered[own_times[instant]],
    )
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
    return own_times[instants[low]]


def check_commit_is_there(snapshot: TableSnapshot, time: str) -> None:
    """Refuse to continue after a commit that the table does not have any more.

    Args:
        snapshot: The table.
        time: The instant of the commit that was read last; in versions 8 and 9 its completion time.

    Raises:
        HoodieException: The commit was undone, or the table was made anew.
        HoodieIOException: Storage failed.
    """
    timeline = snapshot.active_timeline
    if timeline.layout.has_completion_times:
        check_completion_not_undone(timeline, time)
        if any(completion_of(instant) == time for instant in timeline.completed_writes()):
            return
        if any(completion_of(instant) == time for instant in snapshot.archived_timeline.completed_writes()):
            return
    else:
        if timeline.completed_writes().contains(time):
            return
        check_not_undone(timeline, time)
        archived = timeline.newest_archived_time()
        may_be_archived = archived is not None and not is_after(time, archived)
        if may_be_archived and snapshot.archived_timeline.contains(time):
            return
    raise HoodieException(
        f"{snapshot.base_path} has no commit {time}, which the stream has read last: the table was made anew, or the "
        f"commit was undone. What was read up to it may not be in the table any more. {_START_ANEW}"
    )


def check_no_late_commits(timeline: HoodieActiveTimeline, time: str, known: frozenset[str]) -> None:
    """Refuse new commits with a time that the stream has passed.

    Clusterings and compactions may come late: they write no new rows.

    Args:
        timeline: The timeline of the table.
        time: The instant of the commit that was read last; in versions 8 and 9 its completion time.
        known: The instants of the commits that were completed when that offset was taken.

    Raises:
        HoodieException: Such a commit exists.
    """
    by_completion = timeline.layout.has_completion_times
    for instant in timeline.completed_writes():
        own_time = completion_of(instant) if by_completion else instant.requested_time
        if instant.requested_time in known or not is_before(own_time, time):
            continue
        if not _only_rewrites(timeline, instant):
            raise HoodieException(
                f"{instant} of {timeline.meta_path} was not there when the stream passed its instant, up to {time}: "
                "its rows are missing in the stream, because its writer took an instant before one that was "
                f"completed. Read them with an incremental query. {_START_ANEW}"
            )


def _only_rewrites(timeline: HoodieActiveTimeline, instant: HoodieInstant) -> bool:
    """Whether a completed commit is a clustering or a compaction. A delta commit never is."""
    return instant.action is not Action.DELTA_COMMIT and timeline.read_commit_metadata(instant).only_rewrites
