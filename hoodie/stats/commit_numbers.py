"""Numbers that a timeline tells: when instants ran, how the table grew, and how much was written for a change."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import attrs

from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import is_before, is_instant_time, parse_instant_time
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.timeline.timeline_listing import completion_times

_FileGroup = tuple[str, str]
_TIMED = frozenset(Action) - {Action.SAVEPOINT}
"""A savepoint has the time of its commit, so its own file tells nothing."""


@attrs.frozen
class TimelineSpan:
    """One instant of the active timeline, from its request to its completion.

    Attributes:
        instant_time: The time of its request.
        action: commit, clean, rollback, ...
        state: REQUESTED, INFLIGHT or COMPLETED.
        operation: UPSERT, INSERT, ...; None if the instant is not completed or not a write, as are the counts below.
        completion_time: The time of its completion; None while it is pending. In version 6 it is the time of the
            completed file, and None where that file may have been copied.
        duration_ms: The milliseconds between the two.
        rows_inserted: New rows.
        rows_updated: Replaced rows.
        rows_deleted: Deleted rows.
        files_written: Data files.
        bytes_written: The size of the data files.
    """

    instant_time: str
    action: str
    state: str
    operation: str | None = None
    completion_time: str | None = None
    duration_ms: int | None = None
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    files_written: int | None = None
    bytes_written: int | None = None


@attrs.frozen
class Growth:
    """A completed write, and the table after it.

    Attributes:
        instant_time: The write.
        operation: UPSERT, INSERT, ...
        rows_inserted: New rows.
        rows_updated: Replaced rows.
        rows_deleted: Deleted rows.
        bytes_written: The size of its files.
        row_count: The rows of the table after it. Of log files, it is an estimate until they are compacted: rows that
            were inserted less rows that were deleted, as the writer counted them.
        live_bytes: The size of the newest slices after it, without change data.
    """

    instant_time: str
    operation: str
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    bytes_written: int
    row_count: int
    live_bytes: int


@attrs.frozen
class Amplification:
    """A completed write: how many rows and bytes it wrote for the rows that it changed.

    Attributes:
        instant_time: The write.
        action: commit, deltacommit or replacecommit.
        operation: UPSERT, INSERT, ...
        rows_updated: Rows that it replaced.
        rows_written: All rows of the files that it wrote.
        row_amplification: Rows written for each replaced row; None where none was replaced.
        bytes_written: The size of its files.
        bytes_per_row: Bytes written for each row that was inserted, replaced or deleted; None where there is none.

    Hudi: the columns of ``CALL stats_wa``; it leaves out delta commits.
    """

    instant_time: str
    action: str
    operation: str
    rows_updated: int
    rows_written: int
    row_amplification: float | None
    bytes_written: int
    bytes_per_row: float | None


@attrs.frozen
class PartitionWrite:
    """The files that one write wrote into one partition.

    Attributes:
        instant_time: The write.
        partition_path: The partition.
        rows_changed: Rows inserted, replaced or deleted.
        bytes_written: The size of the files.
    """

    instant_time: str
    partition_path: str
    rows_changed: int
    bytes_written: int


@attrs.frozen
class CommitNumbers:
    """The numbers of a completed write by its metadata, which is read once for all pictures.

    Attributes:
        instant: The write.
        is_archived: Whether it is in the archive.
        operation: UPSERT, INSERT, ...
        rows_inserted: New rows.
        rows_updated: Replaced rows.
        rows_deleted: Deleted rows.
        rows_written: All rows of its files.
        files_written: Its files.
        bytes_written: Their size.
        partitions: Its partitions, with what it wrote into each.
        row_count: See `Growth`.
        live_bytes: See `Growth`.
    """

    instant: HoodieInstant
    is_archived: bool
    operation: str
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    rows_written: int
    files_written: int
    bytes_written: int
    partitions: tuple[PartitionWrite, ...]
    row_count: int
    live_bytes: int


def spans(snapshot: TableSnapshot, commits: Iterable[CommitNumbers]) -> list[TimelineSpan]:
    """The instants of the active timeline, the oldest first.

    Args:
        snapshot: The table.
        commits: Its completed writes.
    """
    timeline = snapshot.active_timeline
    ends: dict[str, str] = {}
    if timeline.layout.version == 1:
        ends = completion_times(
            timeline.storage, timeline.meta_path, timeline.layout, timeline.timezone, only_sure=True, actions=_TIMED
        )
    writes = {commit.instant: commit for commit in commits}
    return [
        _span(
            instant,
            instant.completion_time or (ends.get(instant.requested_time) if instant.action in _TIMED else None),
            writes.get(instant),
            timeline.timezone,
        )
        for instant in timeline
    ]


def _span(
    instant: HoodieInstant, completion_time: str | None, commit: CommitNumbers | None, timezone: str
) -> TimelineSpan:
    times = moment_of(instant.requested_time, timezone), moment_of(completion_time, timezone)
    span = TimelineSpan(
        instant.requested_time,
        instant.action.value,
        State(instant.state).name,
        completion_time=completion_time if instant.is_completed else None,
        duration_ms=milliseconds(*times) if instant.is_completed else None,
    )
    if commit is None:
        return span
    return attrs.evolve(
        span,
        operation=commit.operation,
        rows_inserted=commit.rows_inserted,
        rows_updated=commit.rows_updated,
        rows_deleted=commit.rows_deleted,
        files_written=commit.files_written,
        bytes_written=commit.bytes_written,
    )


def moment_of(instant_time: str | None, timezone: str) -> datetime | None:
    """The moment of an instant time; None for None, and for a time of another form, as the first commits of
    migrated tables have.

    Args:
        instant_time: The time.
        timezone: The zone of the table's timeline.
    """
    if instant_time is None or not is_instant_time(instant_time):
        return None
    return parse_instant_time(instant_time, timezone)


def milliseconds(start: datetime | None, end: datetime | None) -> int | None:
    """The milliseconds between two moments, at least 0; None if one of them is not known.

    Args:
        start: The earlier one.
        end: The later one.
    """
    return None if start is None or end is None else max(0, round((end - start).total_seconds() * 1000))


class _LiveFiles:
    """The newest slice of each file group, as commits tell it."""

    def __init__(self) -> None:
        self._bases: dict[_FileGroup, tuple[int, int]] = {}
        self._logs: dict[_FileGroup, dict[str, tuple[int, int]]] = {}
        self.row_count = 0
        self.live_bytes = 0

    def add(self, metadata: HoodieCommitMetadata, instant_time: str) -> None:
        """Take over what a commit wrote and replaced."""
        for group in metadata.replaced_file_groups:
            self._drop(group)
        for stat in metadata.write_stats:
            if stat.path:
                self._add_file(stat, stat.path.rsplit("/", 1)[-1], instant_time)

    def _add_file(self, stat: HoodieWriteStat, name: str, instant_time: str) -> None:
        group = stat.partition_path, stat.file_id
        size = stat.file_size_bytes or stat.total_write_bytes
        if stat.is_log_file:
            logs = self._logs.setdefault(group, {})
            rows, old_size = logs.get(name, (0, 0))
            added = stat.num_inserts - stat.num_deletes
            # Hudi may append to a log file; the size is that of all of it.
            logs[name] = rows + added, max(size, old_size)
            self._count(added, max(size, old_size) - old_size)
            return
        later = {
            log: found
            for log, found in self._logs.get(group, {}).items()
            if (parsed := parse_log_file_name(log)) is not None and not is_before(parsed.instant_time, instant_time)
        }
        self._drop(group)
        self._bases[group] = stat.num_writes, size
        self._count(stat.num_writes, size)
        if later:
            self._logs[group] = later
            self._count(sum(rows for rows, _ in later.values()), sum(taken for _, taken in later.values()))

    def _drop(self, group: _FileGroup) -> None:
        rows, size = self._bases.pop(group, (0, 0))
        logs = self._logs.pop(group, {}).values()
        self._count(-rows - sum(found for found, _ in logs), -size - sum(taken for _, taken in logs))

    def _count(self, rows: int, size: int) -> None:
        self.row_count += rows
        self.live_bytes += size


def read_commits(snapshot: TableSnapshot, *, archived: bool) -> list[CommitNumbers]:
    """The completed writes, in the order of their requests.

    Args:
        snapshot: The table.
        archived: Whether the archived ones are among them.
    """
    active, live = snapshot.active_timeline, _LiveFiles()
    writes = active.completed_writes()
    of_archive: list[HoodieInstant] = []
    if archived and active.has_archive:
        # An archiver that died between its two steps leaves instants in both places.
        of_archive = [
            instant
            for instant in snapshot.archived_timeline.completed_writes()
            if not writes.contains(instant.requested_time)
        ]
    # Commits with savepoints stay active for longer than later ones.
    return [
        _numbers_of(
            instant,
            (snapshot.archived_timeline if is_archived else active).read_commit_metadata(instant),
            live,
            is_archived=is_archived,
        )
        for instant in HoodieTimeline((*of_archive, *writes))
        for is_archived in [not writes.contains(instant.requested_time)]
    ]


def _numbers_of(
    instant: HoodieInstant, metadata: HoodieCommitMetadata, live: _LiveFiles, *, is_archived: bool
) -> CommitNumbers:
    time = instant.requested_time
    live.add(metadata, time)
    return CommitNumbers(
        instant,
        is_archived,
        metadata.operation_type.value,
        metadata.total_inserts,
        metadata.total_updates,
        metadata.total_deletes,
        sum(stat.num_writes for stat in metadata.write_stats),
        sum(1 for _ in metadata.write_stats),
        metadata.total_bytes_written,
        tuple(
            PartitionWrite(
                time,
                partition_path,
                sum(stat.num_inserts + stat.num_update_writes + stat.num_deletes for stat in stats),
                sum(stat.total_write_bytes for stat in stats),
            )
            for partition_path, stats in metadata.partition_to_write_stats.items()
        ),
        live.row_count,
        live.live_bytes,
    )


def growth(commits: Iterable[CommitNumbers]) -> list[Growth]:
    """The completed writes, and the table after each.

    Args:
        commits: All of them, archived ones too.
    """
    return [
        Growth(
            commit.instant.requested_time,
            commit.operation,
            commit.rows_inserted,
            commit.rows_updated,
            commit.rows_deleted,
            commit.bytes_written,
            commit.row_count,
            commit.live_bytes,
        )
        for commit in commits
    ]


def amplification(commits: Iterable[CommitNumbers]) -> list[Amplification]:
    """The rows and bytes that each completed write wrote for the rows that it changed.

    Args:
        commits: The writes.
    """
    found = []
    for commit in commits:
        updated, written = commit.rows_updated, commit.rows_written
        changed = commit.rows_inserted + updated + commit.rows_deleted
        found.append(
            Amplification(
                commit.instant.requested_time,
                commit.instant.action.value,
                commit.operation,
                updated,
                written,
                written / updated if updated > 0 else None,
                commit.bytes_written,
                commit.bytes_written / changed if changed > 0 else None,
            )
        )
    return found
