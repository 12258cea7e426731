"""The commits of an incremental query.

Rules: a range excludes its begin and includes its end. The result has the rows that commits of the range wrote, as the
table held them at the end of the range: each row once with its latest value, no deleted rows, no rows of file groups
that a commit of the range replaced. Clustering rewrites rows with their old commit times: they are not repeated.

In tables of version 6 the times of a range are request times of commits; in versions 8 and 9 they are completion times.
Writers of 8 and 9 complete commits in the order of these times, so a pending commit is after every range.

Hudi: org.apache.hudi.{IncrementalRelation, IncrementalRelationV2}. Differs: where commits are archived or files
cleaned, Hudi reads the remaining ones, and hoodie raises an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import attrs
import pyarrow.compute as pc

from hoodie.avro.service_metadata import HoodieRestoreMetadata
from hoodie.avro.timeline_metadata import (
    HoodieRequestedReplaceMetadata,
    HoodieRollbackMetadata,
    HoodieRollbackPlan,
)
from hoodie.common.model.write_operation_type import HoodieTableType, WriteOperationType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.archived_timeline import archive_files
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_range import InstantRange
from hoodie.common.table.timeline.instant_time import format_instant_time, is_after, newest, oldest
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.timeline.timeline_listing import completion_times
from hoodie.config.read_config import HollowCommitHandling
from hoodie.exception import HoodieException, HoodieNotSupportedException
from hoodie.query.table_query import TableQuery
from hoodie.storage.storage_path import join

_HOLES = "hoodie.read.timeline.holes.resolution.policy"


@attrs.frozen
class CommitRange:
    """Completed commits that an incremental query reads.

    Attributes:
        begin: Rows were written after this instant time; None for no limit.
        end: Rows were written up to this instant time; None for a table without commits.
        instants: The commits of the range whose metadata still exists, the oldest first: those of the active timeline;
            in tables of versions 8 and 9, those of the archive too.
        is_named: Whether the commits are chosen by completion time, and not by the commit times of rows.
        is_complete: Whether `instants` has all commits of the range.
        table_at: The instant time as of which the table has the state of the end of the range; None if no instant time
            is known for that state.
        unseen: The requested times of instants, active and archived, that are completed now and were not at the end of
            the range.
    """

    begin: str | None
    end: str | None
    instants: tuple[HoodieInstant, ...]
    is_named: bool
    is_complete: bool
    table_at: str | None = None
    unseen: frozenset[str] = frozenset()

    @property
    def instant_range(self) -> InstantRange | None:
        """The instants whose rows are in the range; None for all."""
        if self.is_named and self.begin is None and self.table_at is not None:
            return None
        if self.is_named:
            return InstantRange(named=frozenset(instant.requested_time for instant in self.instants))
        return InstantRange(self.begin, self.end)

    @property
    def condition(self) -> pc.Expression | None:
        """The condition on the commit time of a row; None for no condition."""
        return None if self.instant_range is None else self.instant_range.condition

    def __str__(self) -> str:
        begin = self.begin or "the beginning"
        return f"after {begin} up to {self.end or 'now'}, {len(self.instants)} commits"


def commit_range(snapshot: TableSnapshot, query: TableQuery) -> CommitRange:
    """The commits of an incremental query.

    Args:
        snapshot: The table.
        query: The query.

    Raises:
        HoodieNotSupportedException: The table has no meta columns, which hold the commit times.
        HoodieException: Commits of the range are pending, and the query does not choose how to handle them; or a limit
            of the range is a commit that was rolled back.
    """
    if not snapshot.table_config.populate_meta_fields:
        raise HoodieNotSupportedException(
            f"an incremental query of {snapshot.base_path}: its rows have no commit times, because "
            "hoodie.populate.meta.fields is false; read a snapshot"
        )
    timeline = snapshot.active_timeline
    begin, end = query.times.begin_time(timeline.timezone), query.times.end_time(timeline.timezone)
    if timeline.layout.has_completion_times:
        return range_of_completions(snapshot, begin, end)
    for time in (begin, end):
        if time is not None:
            check_not_undone(timeline, time)
    completed = timeline.completed_writes()
    if query.config.hollow_commits is HollowCommitHandling.USE_TRANSITION_TIME:
        times = completion_times(timeline.storage, timeline.meta_path, timeline.layout, timeline.timezone)
        ends = {instant: times.get(instant.requested_time, instant.requested_time) for instant in completed}
        chosen = [
            instant
            for instant, time in ends.items()
            if (begin is None or is_after(time, begin)) and (end is None or not is_after(time, end))
        ]
        end = end or newest(ends.values())
        is_complete = last_archived(snapshot, begin or "", by_completion=True) is None
        unseen = frozenset(i.requested_time for i, time in ends.items() if end is not None and is_after(time, end))
        return CommitRange(begin, end, tuple(chosen), True, is_complete, unseen=unseen)
    if end is None:
        last = completed.last_instant
        end = last.requested_time if last is not None else timeline.newest_archived_time()
    if end is not None:
        end = end_before_holes(timeline, completed, begin, end, query.config.hollow_commits)
    chosen_timeline = completed if end is None else completed.before_or_on(end)
    if begin is not None:
        chosen_timeline = chosen_timeline.after(begin)
    is_complete = begin is not None and last_archived(snapshot, begin) is None
    later = frozenset() if end is None else completed.after(end).times
    if end is not None and timeline.is_archived_past(end):
        later |= snapshot.archived_timeline.completed_writes().after(end).times
    return CommitRange(begin, end, chosen_timeline.instants, False, is_complete, end, later)


def range_of_completions(
    snapshot: TableSnapshot, begin: str | None, end: str | None, *, reads_table: bool = True
) -> CommitRange:
    """The commits that were completed in a range of times.

    Args:
        snapshot: A table whose timeline has completion times.
        begin: They were completed after this time; None for no limit.
        end: They were completed up to this time; None for no limit.
        reads_table: Whether a range without a begin is read from the table as of its end, by an instant time.

    Raises:
        HoodieException: A limit is a time that a restore has undone. Or there is no begin, so that the table is read as
            of the end, and no instant time is known for that state.
    """
    timeline = snapshot.active_timeline
    for time in (begin, end):
        if time is not None:
            check_completion_not_undone(timeline, time)
    completed = timeline.completed_writes()
    archived = snapshot.archived_timeline.completed_writes().filter(lambda i: not completed.contains(i.requested_time))
    ends = {instant: completion_of(instant) for instant in (*archived, *completed)}
    chosen = HoodieTimeline(
        instant
        for instant, time in ends.items()
        if (begin is None or is_after(time, begin)) and (end is None or not is_after(time, end))
    )
    seen = frozenset(i for i, time in ends.items() if end is None or not is_after(time, end))
    last = newest(instant.requested_time for instant in seen) or "0"
    late = [i for i in ends if i not in seen and not is_after(i.requested_time, last)]
    if snapshot.table_config.table_type == HoodieTableType.MERGE_ON_READ:
        # Compactions do not count: commits that they merge were completed before their request.
        late = [instant for instant in late if instant.action is not Action.COMMIT]
    if late and begin is None and reads_table:
        raise HoodieException(
            f"reading {snapshot.base_path} up to {end}: {late[0]} was requested before {last}, which was completed by "
            f"then, and was completed later, at {ends[late[0]]}. So no instant names the table of that time: end at "
            f"{ends[late[0]]} or later, or begin at a time"
        )
    unseen = frozenset(instant.requested_time for instant in ends if instant not in seen)
    return CommitRange(begin, end or newest(ends.values()), chosen.instants, True, True, None if late else last, unseen)


def completion_of(instant: HoodieInstant) -> str:
    """The completion time of an instant; its request time if no completion time is stored.

    Args:
        instant: An instant of a timeline with completion times.
    """
    return instant.completion_time or instant.requested_time


def last_archived(snapshot: TableSnapshot, begin: str, *, by_completion: bool = False) -> str | None:
    """The time of the newest commit after a begin that is in the archive only; None if there is none.

    Args:
        snapshot: The table.
        begin: The time.
        by_completion: Whether times are completion times. Such a commit may have been requested long before.
    """
    active = snapshot.active_timeline
    if not (_was_archived_since(snapshot, begin) if by_completion else active.is_archived_past(begin)):
        return None
    archived = snapshot.archived_timeline
    archived_only = [i for i in archived.completed_writes() if not active.contains(i.requested_time)]
    times = [archived.completion_time(i) if by_completion else i.requested_time for i in archived_only]
    return newest(time for time in times if is_after(time, begin))


def _was_archived_since(snapshot: TableSnapshot, begin: str) -> bool:
    """Whether files of the archive were written after a time. A commit that was completed later is archived later."""
    timeline = snapshot.active_timeline
    folder = join(snapshot.meta_path, snapshot.table_config.archive_folder)
    written = [file.modification_time_ms for file in archive_files(snapshot.storage, folder, timeline.layout)]
    moments = [datetime.fromtimestamp(time / 1000, UTC) for time in written]
    # A store that does not know the time of a file gives 0.
    return 0 in written or any(is_after(format_instant_time(moment, timeline.timezone), begin) for moment in moments)


def check_not_undone(timeline: HoodieActiveTimeline, time: str) -> None:
    """Refuse a time of a query at which the table held rows that were undone later.

    Refused are the times of instants that were restored away or rolled back, and all times from the first instant that
    a restore has undone to that restore.

    Args:
        timeline: The timeline of the table.
        time: A time that a query names.

    Raises:
        HoodieException: The time is refused.
    """
    if timeline.completed_writes().contains(time):
        return
    for action in (Action.RESTORE, Action.ROLLBACK):
        for instant in timeline.filter_actions(action).filter_completed_instants().after(time):
            if time in undone_by(timeline, instant):
                last = timeline.completed_writes().before(time).last_instant
                raise HoodieException(
                    f"{time} is a commit that {action} {instant.requested_time} has undone, so its rows are not in the "
                    f"table any more: give the commit before it ({last.requested_time if last else 'there is none'}) "
                    "or a later one, and drop what you took over from it"
                )
    for restore in timeline.filter_actions(Action.RESTORE).filter_completed_instants().after(time):
        undone = oldest(undone_by(timeline, restore))
        if undone is not None and not is_after(undone, time):
            last = timeline.completed_writes().before(undone).last_instant
            raise HoodieException(
                f"{time}: restore {restore.requested_time} has undone the commits from {undone} on, so what the table "
                f"held at that time is gone: give {last.requested_time if last else undone}, or "
                f"{restore.requested_time} or later, and drop what you took over from them"
            )


def check_completion_not_undone(timeline: HoodieActiveTimeline, time: str) -> None:
    """Refuse a completion time at which the table may have held rows that were undone later.

    Refused are the times from the request of the first instant that a restore has undone, or of a completed commit that
    was rolled back, to the restore or the rollback: the completion time of the undone instant is not stored any more. A
    kept commit may have been completed at a refused time: commits overlap, and one that was completed later may stay.

    Args:
        timeline: The timeline of the table, with completion times.
        time: A time that a query names.

    Raises:
        HoodieException: The time is refused.
    """
    ends = [completion_of(instant) for instant in timeline.completed_writes()]
    for action in (Action.RESTORE, Action.ROLLBACK):
        for way_back in timeline.filter_actions(action).filter_completed_instants().after(time):
            undone = oldest(undone_by(timeline, way_back))
            if undone is None or is_after(undone, time):
                continue
            if action is Action.ROLLBACK and not _undid_completed(timeline, way_back):
                continue
            kept = newest(end for end in ends if not is_after(end, undone))
            raise HoodieException(
                f"{time}: {action} {way_back.requested_time} has undone the commits that were requested from {undone} "
                f"on, so what the table held at that time is gone: give {kept or undone}, or {completion_of(way_back)} "
                "or later, and drop what you took over from them"
            )


def _undid_completed(timeline: HoodieActiveTimeline, rollback: HoodieInstant) -> bool:
    """Whether a rollback undid a completed commit, which readers may have read.

    Its plan shows it: only the plan for a pending commit names file groups.
    """
    try:
        plan = timeline.read_as(rollback.in_state(State.REQUESTED), HoodieRollbackPlan)
    except HoodieException:
        # The archiver is at work: it deletes the plan first.
        return False
    requests = plan.rollback_requests
    return bool(requests) and not any(request.file_id for request in requests)


def undone_by(timeline: HoodieActiveTimeline, instant: HoodieInstant) -> Sequence[str]:
    """The request times of the instants that a completed restore or rollback has undone.

    Args:
        timeline: The timeline of the table.
        instant: The restore or rollback.
    """
    if instant.action is Action.RESTORE:
        return timeline.read_as(instant, HoodieRestoreMetadata).instants_to_rollback
    return timeline.read_as(instant, HoodieRollbackMetadata).commits_rollback


def first_pending(timeline: HoodieActiveTimeline, begin: str | None, end: str) -> HoodieInstant | None:
    """The first pending commit between two times that may change rows.

    Args:
        timeline: The timeline of the table.
        begin: It was requested after this time; None for no limit.
        end: It was requested up to this time.
    """
    pending = pending_writes(timeline).before_or_on(end)
    return (pending if begin is None else pending.after(begin)).first_instant


def end_before_holes(
    timeline: HoodieActiveTimeline,
    completed: HoodieTimeline,
    begin: str | None,
    end: str,
    handling: HollowCommitHandling,
) -> str:
    """The end of a range of requested times, moved before the first pending commit if the query asks for that.

    Args:
        timeline: The timeline of the table.
        completed: Its completed writes.
        begin: Pending commits up to this time do not count; None: all do.
        end: The end of the range.
        handling: The treatment of pending commits.

    Raises:
        HoodieException: A commit is pending, and the query does not choose how to handle it.
    """
    hole = first_pending(timeline, begin, end)
    if hole is None or handling is HollowCommitHandling.USE_TRANSITION_TIME:
        return end
    if handling is HollowCommitHandling.BLOCK:
        last = completed.before(hole.requested_time).last_instant
        return newest([begin, last.requested_time if last is not None else None]) or "0"
    raise HoodieException(
        f"{hole.action} {hole.requested_time} is pending, and the range ends at {end}: what it writes would be "
        f"missing, and a next query that begins at {end} would leave it out. Wait for it or roll it back; or set "
        f"{_HOLES}=BLOCK to end before it, or =USE_TRANSITION_TIME for a range of completion times"
    )


def pending_writes(timeline: HoodieActiveTimeline) -> HoodieTimeline:
    """The pending commits that will change rows; clusterings are left out.

    Args:
        timeline: The timeline of the table.
    """
    pending = timeline.filter_actions(Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT).filter_pending()
    return pending.filter(lambda instant: not _is_clustering(timeline, instant))


def _is_clustering(timeline: HoodieActiveTimeline, instant: HoodieInstant) -> bool:
    """Whether a pending replace commit is a clustering, which changes no rows."""
    if instant.action is not Action.REPLACE_COMMIT:
        return False
    requested = instant.in_state(State.REQUESTED)
    try:
        plan = timeline.read_as(requested, HoodieRequestedReplaceMetadata)
    except HoodieException:
        return False
    return plan.operation_type == WriteOperationType.CLUSTER
