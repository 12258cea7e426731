"""The commits of an incremental query, and the slices that hold what they wrote.

Rules: a range excludes its begin and includes its end. The result is what the table held at the end of the range of
the rows that commits of the range wrote: each row once with its latest value, no deleted rows, no rows of file groups
that a commit of the range replaced. Clustering writes rows again with their old commit times: they are not repeated.

Hudi: org.apache.hudi.IncrementalRelation. Differs: it reads what is left where commits are archived or files cleaned,
and hoodie raises an error.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import attrs
import pyarrow.compute as pc

from hoodie.avro.service_metadata import HoodieRestoreMetadata
from hoodie.avro.timeline_metadata import HoodieRequestedReplaceMetadata, HoodieRollbackMetadata
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.archived_timeline import archive_files
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_range import InstantRange
from hoodie.common.table.timeline.instant_time import format_instant_time, is_after, newest, oldest
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.timeline.timeline_listing import completion_times
from hoodie.config.read_config import HollowCommitHandling
from hoodie.exception import HoodieException, HoodieIOException, HoodieNotSupportedException
from hoodie.query.table_query import TableQuery
from hoodie.storage.storage_path import join

_FULL_SCAN = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
_HOLES = "hoodie.read.timeline.holes.resolution.policy"


@attrs.frozen
class CommitRange:
    """Completed commits that an incremental query reads.

    Attributes:
        begin: Rows were written after this instant time; None for no limit.
        end: Rows were written up to this instant time; None for a table without commits.
        instants: The commits of the active timeline in the range, the oldest first.
        is_named: Whether the commits themselves decide, because they are chosen by the times of their completion.
        is_complete: Whether the archive holds no commit of the range.
    """

    begin: str | None
    end: str | None
    instants: tuple[HoodieInstant, ...]
    is_named: bool
    is_complete: bool

    @property
    def condition(self) -> pc.Expression | None:
        """What the commit time of a row fulfils; None for any."""
        if self.is_named:
            return InstantRange(named=frozenset(instant.requested_time for instant in self.instants)).condition
        return InstantRange(self.begin, self.end).condition

    def __str__(self) -> str:
        begin = self.begin or "the beginning"
        return f"after {begin} up to {self.end or 'now'}, {len(self.instants)} commits"


def commit_range(snapshot: TableSnapshot, query: TableQuery) -> CommitRange:
    """The commits that an incremental query asks for.

    Args:
        snapshot: The table.
        query: The query.

    Raises:
        HoodieNotSupportedException: The table has no meta columns, which hold the commit times.
        HoodieException: Commits of the range are pending, and the query does not say what to do; or a limit of the
            range is a commit that was undone.
    """
    if not snapshot.table_config.populate_meta_fields:
        raise HoodieNotSupportedException(
            f"an incremental query of {snapshot.base_path}: its rows have no commit times, because "
            "hoodie.populate.meta.fields is false; read a snapshot"
        )
    timeline = snapshot.active_timeline
    begin, end = query.begin_time(timeline.timezone), query.end_time(timeline.timezone)
    for time in (begin, end):
        if time is not None:
            check_not_undone(timeline, time)
    completed = timeline.completed_writes()
    if query.hollow_commits is HollowCommitHandling.USE_TRANSITION_TIME:
        times = completion_times(timeline.storage, timeline.meta_path, timeline.layout, timeline.timezone)
        ends = {instant: times.get(instant.requested_time, instant.requested_time) for instant in completed}
        chosen = [
            instant
            for instant, time in ends.items()
            if (begin is None or is_after(time, begin)) and (end is None or not is_after(time, end))
        ]
        end = end or newest(ends.values())
        is_complete = _last_archived(snapshot, begin or "", by_completion=True) is None
        return CommitRange(begin, end, tuple(chosen), True, is_complete)
    if end is None:
        last = completed.last_instant
        end = last.requested_time if last is not None else timeline.newest_archived_time()
    if end is not None:
        end = _end_before_holes(timeline, completed, begin, end, query.hollow_commits)
    chosen_timeline = completed if end is None else completed.before_or_on(end)
    if begin is not None:
        chosen_timeline = chosen_timeline.after(begin)
    is_complete = begin is not None and _last_archived(snapshot, begin) is None
    return CommitRange(begin, end, chosen_timeline.instants, False, is_complete)


def slices_of_commits(snapshot: TableSnapshot, commits: CommitRange) -> list[FileSlice]:
    """The newest slice of each file group that commits of a range wrote and did not replace.

    Args:
        snapshot: The table.
        commits: The range.

    Raises:
        HoodieIOException: The archive holds commits of the range, or files of it were cleaned.
        HoodieCorruptedDataException: The metadata of a commit is damaged.
    """
    timeline = snapshot.active_timeline
    if not commits.is_complete:
        earliest = _last_archived(snapshot, commits.begin or "", by_completion=commits.is_named)
        raise HoodieIOException(
            f"reading {snapshot.base_path} {commits}: commits of the range are archived. " + _way_out(commits, earliest)
        )
    metadata: dict[HoodieInstant, HoodieCommitMetadata] = dict(
        zip(commits.instants, map_concurrently(timeline.read_commit_metadata, commits.instants), strict=True)
    )
    replaced = {HoodieFileGroupId(*group) for written in metadata.values() for group in written.replaced_file_groups}
    found: dict[HoodieFileGroupId, FileSlice] = {}
    writers: dict[HoodieFileGroupId, HoodieInstant] = {}
    for instant, written in metadata.items():
        for stat in written.write_stats:
            group = HoodieFileGroupId(stat.partition_path, stat.file_id)
            if stat.path and group not in replaced:
                path = join(snapshot.base_path, stat.path)
                found[group] = FileSlice.of_base_file(stat.partition_path, path, stat.file_size_bytes)
                writers[group] = instant
    groups = sorted(found)
    paths = [found[group].sole_base_file.path for group in groups]
    exist = map_concurrently(snapshot.storage.exists, paths)
    gone = [(group, path) for group, path, exists in zip(groups, paths, exist, strict=True) if not exists]
    if gone:
        times = [writers[group].requested_time for group, _ in gone]
        if commits.is_named:
            ends = completion_times(timeline.storage, timeline.meta_path, timeline.layout, timeline.timezone)
            times = [ends.get(time, time) for time in times]
        raise HoodieIOException(
            f"reading {snapshot.base_path} {commits}: {len(gone)} files of the range were cleaned, {gone[0][1]} the "
            "first, so rows would be missing. " + _way_out(commits, newest(times))
        )
    return [found[group] for group in groups]


def _way_out(commits: CommitRange, earliest: str | None) -> str:
    """What to do about a range whose rows are not all there.

    Args:
        commits: The range.
        earliest: The first time that it can begin at.
    """
    scan = (
        "" if commits.is_named else f", or set {_FULL_SCAN}=true to read the whole table and take the rows of the range"
    )
    return (
        f"Begin at {earliest} or later{scan}; cleans and archiving keep more with hoodie.cleaner.commits.retained and "
        "hoodie.keep.min.commits"
    )


def _last_archived(snapshot: TableSnapshot, begin: str, *, by_completion: bool = False) -> str | None:
    """The newest time after a begin of a commit that only the archive holds; None if there is none.

    Args:
        snapshot: The table.
        begin: The time.
        by_completion: Whether times are those of completions, which a commit that was requested long before may have.
    """
    active = snapshot.active_timeline
    if not (_was_archived_since(snapshot, begin) if by_completion else active.is_archived_past(begin)):
        return None
    archived = snapshot.archived_timeline
    only_there = [i for i in archived.completed_writes() if not active.contains(i.requested_time)]
    times = [archived.completion_time(i) if by_completion else i.requested_time for i in only_there]
    return newest(time for time in times if is_after(time, begin))


def _was_archived_since(snapshot: TableSnapshot, begin: str) -> bool:
    """Whether files of the archive were written after a time; what was completed after it was archived later."""
    timeline = snapshot.active_timeline
    folder = join(snapshot.meta_path, snapshot.table_config.archive_folder)
    written = [file.modification_time_ms for file in archive_files(snapshot.storage, folder, timeline.layout)]
    moments = [datetime.fromtimestamp(time / 1000, UTC) for time in written]
    # A store that does not know the time says 0.
    return 0 in written or any(is_after(format_instant_time(moment, timeline.timezone), begin) for moment in moments)


def only_matching(slices: Iterable[FileSlice], glob: str | None) -> list[FileSlice]:
    """The slices whose path ends as a glob says; ``*`` stands for slashes too, and ``{a,b}`` for either.

    Args:
        slices: Some slices.
        glob: The glob; None for all.

    Hudi: hoodie.datasource.read.incr.path.glob, org.apache.hadoop.fs.GlobPattern.
    """
    if glob is None:
        return list(slices)
    # Hadoop's globs negate a set of characters by ^ as well as by !.
    globs = [part.replace("[^", "[!") for part in _alternatives(glob)]
    patterns = [re.compile(fnmatch.translate(f"*{part}")) for part in globs]
    return [s for s in slices if any(pattern.fullmatch(s.sole_base_file.path) for pattern in patterns)]


def _alternatives(glob: str) -> list[str]:
    """A glob without braces for each choice of its braces."""
    match = re.search(r"\{([^{}]*)\}", glob)
    if match is None:
        return [glob]
    choices = match.group(1).split(",")
    return [one for choice in choices for one in _alternatives(glob[: match.start()] + choice + glob[match.end() :])]


def check_not_undone(timeline: HoodieActiveTimeline, time: str) -> None:
    """Refuse a time of a query at which the table held rows that are not in it any more.

    These are the times of instants that were restored away or rolled back, and all times from the first instant that a
    restore has undone to that restore.

    Args:
        timeline: The table's.
        time: A time that a query names.

    Raises:
        HoodieException: It is such a time.
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


def undone_by(timeline: HoodieActiveTimeline, instant: HoodieInstant) -> Sequence[str]:
    """The instants that a completed restore or rollback has undone.

    Args:
        timeline: The table's.
        instant: The restore or rollback.
    """
    if instant.action is Action.RESTORE:
        return timeline.read_as(instant, HoodieRestoreMetadata).instants_to_rollback
    return timeline.read_as(instant, HoodieRollbackMetadata).commits_rollback


def first_pending(timeline: HoodieActiveTimeline, begin: str | None, end: str) -> HoodieInstant | None:
    """The first pending commit between two times that may change rows.

    Args:
        timeline: The table's.
        begin: It was requested after this time; None for no limit.
        end: It was requested up to this time.
    """
    pending = pending_writes(timeline).before_or_on(end)
    return (pending if begin is None else pending.after(begin)).first_instant


def _end_before_holes(
    timeline: HoodieActiveTimeline,
    completed: HoodieTimeline,
    begin: str | None,
    end: str,
    handling: HollowCommitHandling,
) -> str:
    """The end of a range, which may be before its first pending commit.

    Raises:
        HoodieException: There is one, and the query does not say what to do.
    """
    hole = first_pending(timeline, begin, end)
    if hole is None:
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
    """The commits that are not completed and will change rows, so no clusterings.

    Args:
        timeline: The table's.
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
