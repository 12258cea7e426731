"""The slices of a table at an earlier time, and those of a range of commits."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant_time import in_order, is_after
from hoodie.exception import HoodieIOException
from hoodie.query.commit_range import CommitRange, check_not_undone, first_pending
from hoodie.query.commit_slices import slices_of_commits
from hoodie.query.latest_slices import ListedPartitions, Prune, latest_slices, only_base_files
from hoodie.query.table_query import TableQuery
from hoodie.table.table_state import missing_at

logger = logging.getLogger(__name__)


def slices_as_of(
    snapshot: TableSnapshot, as_of: str, prune: Prune, *, tells_of_pending: bool, optimized: bool = False
) -> list[FileSlice]:
    """The slices as of a time of the partitions that may hold rows.

    Args:
        snapshot: The table.
        as_of: The time, an instant.
        prune: Selects the partitions.
        tells_of_pending: Whether a warning names a commit up to that time that is pending.
        optimized: Whether log files are left out.

    Raises:
        HoodieIOException: Base files are missing, or were cleaned since that time.
        HoodieException: A restore has undone commits up to that time.
    """
    timeline = snapshot.active_timeline
    last = timeline.completed_writes().last_instant
    check_not_undone(timeline, as_of)
    pending = first_pending(timeline, None, as_of) if tells_of_pending else None
    if pending is not None:
        logger.warning(
            "reading %s as of %s: %s %s is pending, so the rows that it writes are not in the result, and will be "
            "when it is completed%s", snapshot.base_path, as_of, pending.action, pending.requested_time,
            "" if timeline.layout.has_completion_times
            else "; an incremental query that begins at that time leaves them out",
        )  # fmt: skip
    listed = ListedPartitions.of(snapshot, prune)
    if last is None or not is_after(last.requested_time, as_of):
        return listed.latest_slices(snapshot, optimized=optimized)
    view, partitions = listed.view, listed.partitions
    if optimized:
        older = {path: view.latest_base_files_before_or_on(path, as_of) for path in partitions}
        slices = [s for path, files in older.items() for s in only_base_files(path, files)]
    else:
        slices = [s for partition in partitions for s in view.latest_file_slices_before_or_on(partition, as_of)]
    # Checked after the listing, which a clean may have raced.
    _check_not_cleaned(snapshot, as_of, listed.known, listed.wanted, prune)
    return slices


def slices_of_range(
    snapshot: TableSnapshot,
    commits: CommitRange,
    query: TableQuery,
    prune: Prune,
) -> list[FileSlice]:
    """The slices that hold rows of a range of commits.

    Args:
        snapshot: The table.
        commits: The range.
        query: The query.
        prune: Selects the partitions that may hold rows.

    Raises:
        HoodieIOException: Files or commits of the range were cleaned or archived.
    """
    can_read_table = commits.table_at is not None or not commits.is_named
    if commits.begin is None and can_read_table:
        # Without a begin, the range is the table as of its end, even if commits are archived.
        return _slices_at_end(snapshot, commits, prune)
    try:
        slices = slices_of_commits(snapshot, commits)
    except HoodieIOException:
        if not query.config.full_table_scan or not can_read_table:
            raise
        return _slices_at_end(snapshot, commits, prune)
    possible_partitions = set(prune(sorted({file_slice.partition_path for file_slice in slices})))
    return [file_slice for file_slice in slices if file_slice.partition_path in possible_partitions]


def _slices_at_end(snapshot: TableSnapshot, commits: CommitRange, prune: Prune) -> list[FileSlice]:
    """The slices of the table at the end of a range."""
    if commits.table_at is None:
        return latest_slices(snapshot, prune)
    # A commit that is chosen by completion time is in no range as long as it is pending.
    return slices_as_of(snapshot, commits.table_at, prune, tells_of_pending=not commits.is_named)


def _check_not_cleaned(
    snapshot: TableSnapshot,
    as_of: str,
    known: Sequence[str],
    wanted: Sequence[str],
    prune: Prune,
) -> None:
    """Refuse to read the table as of a time whose files were cleaned.

    Raises:
        HoodieIOException: Files were cleaned; the message names the earliest commit that can be read.
    """
    partition_of = {group: group.rpartition("/")[0] for group in missing_at(snapshot, as_of)}
    # A clean deletes the folder of a partition without files, so no listing has it.
    dropped = prune(sorted(set(partition_of.values()).difference(known)))
    missing = [group for group, partition in partition_of.items() if partition in {*wanted, *dropped}]
    if not missing:
        return
    times = [instant.requested_time for instant in snapshot.active_timeline.completed_writes().after(as_of)]
    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if missing_at(snapshot, times[middle]) else (low, middle)
    savepoints = in_order(snapshot.active_timeline.savepoint_times)
    saved = f" or at a savepoint ({', '.join(savepoints)})" if savepoints else ""
    raise HoodieIOException(
        f"reading {snapshot.base_path} as of {as_of}: {len(missing)} file versions of that time were cleaned, of file "
        f"group {missing[0]} the first, so rows would be missing. Read it as of {times[low]} or later{saved}; "
        "hoodie.cleaner.commits.retained keeps more, and a savepoint keeps a commit as long as you like"
    )
