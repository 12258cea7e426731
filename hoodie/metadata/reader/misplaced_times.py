"""Check of the times of a metadata table against the timeline of its table.

An action is completed in the metadata table right before it is completed in the table, under one lock, so both times
are nearly the same. Before 0.1.0 hoodie gave the first instant of a new metadata table the wall clock of its process,
and later instants counted on from there. East of Greenwich all its times lay hours in the future. A writer that uses
its clock, as Hudi does, then writes records with times before such a compaction. Readers miss those records once that
compaction is the newest one. West of Greenwich a build seems to be older than commits that it holds.

========================================================  =============================================================
sign                                                      why a healthy table never has it
========================================================  =============================================================
an action was completed there long after it was           one process completes both, one after the other
completed in the table
a build is long older than a commit that only it holds    it listed files of completed commits
a time is long after its file's last change, and no       a file is changed when it is written, or later when it is
instant of the table is so far ahead of its file          copied; a clock that is ahead is so in both timelines
========================================================  =============================================================

"Long" is half an hour: zones are an hour or more away from UTC, and clocks of hosts should not be. Tables of the time
zone LOCAL are not checked: there the zone of the process is the right one. Tables of version 6 are not checked either:
their metadata tables use the times of the table's instants and take none of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import WRITE_ACTIONS, Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import format_instant_time, is_after, oldest, parse_instant_time
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles, is_initial_time
from hoodie.storage.storage import FileStatus

_LONG = timedelta(minutes=30)
_AT_ONCE = timedelta(milliseconds=5)
"""No real compaction is completed so soon after its plan. One whose times count on from others may seem to be."""


@attrs.frozen
class MisplacedTime:
    """A time of a metadata table at which nothing happened.

    Attributes:
        instant: The instant of the metadata table.
        expected: The time that the table or the instant's file gives, as words of a message.
    """

    instant: HoodieInstant
    expected: str

    def __str__(self) -> str:
        return f"{self.instant.action} {self.instant.requested_time} has the time {self.time}, and {self.expected}"

    @property
    def time(self) -> str:
        """The latest time of the instant."""
        return self.instant.newest_time


def first_misplaced_time(files: MetadataTableFiles) -> MisplacedTime | None:
    """The first sign that the times of a metadata table are not moments of its table; None for a healthy one.

    Both timelines were listed when the metadata table was loaded. Storage is asked only where they leave a doubt, which
    never happens with a healthy table.

    Args:
        files: The metadata table.

    Raises:
        HoodieIOException: Storage failed.
    """
    table, metadata_table = files.table, files.snapshot
    if not _is_comparable(table):
        return None
    found = next(_out_of_order(table, metadata_table), None)
    if found is None:
        now = format_instant_time(metadata_table.active_timeline.clock())
        if any(_is_doubtful(instant, now) for instant in _dated(metadata_table)):
            found = next(_after_their_files(table, metadata_table), None)
    return found


def all_misplaced_times(files: MetadataTableFiles) -> list[MisplacedTime]:
    """All such signs, at most one for each instant. Both timelines are listed again for the times of their
    files.

    Args:
        files: The metadata table.

    Raises:
        HoodieIOException: Storage failed.
    """
    table, metadata_table = files.table, files.snapshot
    if not _is_comparable(table):
        return []
    found = [*_out_of_order(table, metadata_table), *_after_their_files(table, metadata_table)]
    return list({one.instant: one for one in reversed(found)}.values())[::-1]


def _is_comparable(table: TableSnapshot) -> bool:
    timeline = table.active_timeline
    return timeline.layout.has_completion_times and timeline.timezone.upper() == "UTC"


def _dated(snapshot: TableSnapshot) -> Iterator[HoodieInstant]:
    """The completed instants whose file names hold their completion time."""
    for instant in snapshot.active_timeline:
        if instant.completion_time is not None and not instant.has_legacy_name:
            yield instant


def _out_of_order(table: TableSnapshot, metadata_table: TableSnapshot) -> Iterator[MisplacedTime]:
    """Instants whose times contradict each other by the names of both timelines."""
    completed = {one.requested_time: one for one in _dated(table) if one.action is not Action.SAVEPOINT}
    own = {one.requested_time: one for one in _dated(metadata_table)}
    for time, instant in own.items():
        in_table = completed.get(time)
        if in_table is not None and _is_long_after(instant.completion_time, in_table.completion_time):
            yield MisplacedTime(
                instant, f"{in_table.action} {time} of the table was completed at {in_table.completion_time}"
            )
    builds = {str(one.completion_time): one for time, one in own.items() if is_initial_time(time)}
    built_at = oldest(builds)
    first = oldest(time for time in own if not is_initial_time(time))
    if built_at is None or first is None:
        return
    # Savepoints keep commits on the table's timeline that the metadata table has archived.
    known = own.keys() | table.active_timeline.savepoint_times
    for time, instant in completed.items():
        is_held = instant.action in WRITE_ACTIONS and time not in known and is_after(first, time)
        if is_held and _is_long_after(instant.completion_time, built_at):
            yield MisplacedTime(
                builds[built_at],
                f"{instant.action} {time} of the table, which it holds, was completed at {instant.completion_time}",
            )
            return


def _is_doubtful(instant: HoodieInstant, now: str) -> bool:
    """Whether the time of an instant may be later than its file: it is in the future, or counts on from another
    one.
    """
    if _is_long_after(instant.completion_time, now):
        return True
    if instant.action is not Action.COMMIT:
        return False
    duration = _between(instant.requested_time, instant.completion_time)
    return duration is not None and duration <= _AT_ONCE


def _after_their_files(table: TableSnapshot, metadata_table: TableSnapshot) -> Iterator[MisplacedTime]:
    """Instants whose times are long after the last change of their files."""
    found = [(instant, lead, status) for instant, lead, status in _leads(metadata_table) if lead > _LONG]
    if not found:
        return
    # A writer whose clock is ahead of the storage's clock writes such times to the timeline of the table, too.
    usual = max((lead for _, lead, _ in _leads(table)), default=timedelta())
    for instant, lead, status in found:
        if lead > max(usual, timedelta()) + _LONG:
            changed = format_instant_time(datetime.fromtimestamp(status.modification_time_ms / 1000, UTC))
            yield MisplacedTime(instant, f"its file {status.path} was last changed at {changed}")


def _leads(snapshot: TableSnapshot) -> list[tuple[HoodieInstant, timedelta, FileStatus]]:
    """The completed instants, each with the lead of its time over the last change of its file, and the file."""
    timeline = snapshot.active_timeline
    found = []
    for status in timeline.storage.list_directory(timeline.layout.active_path(timeline.meta_path)):
        instant = timeline.layout.parse_file_name(status.name)
        if instant is None or instant.completion_time is None:
            continue
        if (time := _moment(instant.newest_time)) is not None:
            changed = datetime.fromtimestamp(status.modification_time_ms / 1000, UTC)
            found.append((instant, time - changed, status))
    return found


def _is_long_after(time: str | None, other: str | None) -> bool:
    if time is None or other is None or not is_after(time, other):
        return False
    between = _between(other, time)
    return between is not None and between > _LONG


def _between(time: str | None, later: str | None) -> timedelta | None:
    """The duration between two times; None if one is no date, such as that of a build."""
    moments = [_moment(one) for one in (time, later) if one is not None]
    begin, end = moments if len(moments) == 2 else (None, None)
    return None if begin is None or end is None else end - begin


def _moment(time: str) -> datetime | None:
    try:
        return parse_instant_time(time)
    except ValueError:
        return None
