"""The times of partitions: of their creation, and of the last write to them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property

import attrs

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.partition_metadata import read_partition_metadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.common.table.timeline.instant_time import earlier_moment, in_order, is_before, latest_moment, newest
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.exception import HoodieException

logger = logging.getLogger(__name__)

KnownLastWrites = dict[str, tuple[frozenset[str], str]]
"""Partition path -> the names of its files, and its last write, which the archive told. Files change with each write,
so it holds as long as they are the same."""


@attrs.frozen(slots=False, eq=False)
class PartitionTimes:
    """The partitions among which a strategy chooses, and their times.

    The time of a write is when it was completed, where the timeline knows that (table versions 8 and 9), otherwise when
    it was requested. A write counts whether it wrote base files or log files. Compactions and clusterings do not count:
    rows keep their commit times. Where the true time of the last write cannot be told, because the archive of the
    timeline was cut or is damaged, a later time is told.

    Attributes:
        snapshot: The table.
        partition_paths: The paths of the partitions that may expire, sorted. All of them have files.
        slices: The newest file slices of all partitions of the table that have some.
    """

    snapshot: TableSnapshot
    partition_paths: tuple[str, ...]
    slices: Mapping[str, Sequence[FileSlice]] = attrs.field(repr=False)
    _known: KnownLastWrites = attrs.field(factory=dict, repr=False)

    @cached_property
    def reference_time(self) -> str | None:
        """The instant time to which ages are counted, unless the clock is behind: that of the newest completed instant.

        None for a table without completed instants.
        """
        completed = self.snapshot.active_timeline.filter_completed_instants()
        return newest(instant.newest_time for instant in completed)

    @cached_property
    def reference(self) -> datetime | None:
        """The moment to which ages are counted: the earlier of the clock and `reference_time`.

        None where there is no such instant, or its time is no date: then nothing has an age.
        """
        if self.reference_time is None:
            return None
        timeline = self.snapshot.active_timeline
        try:
            return earlier_moment(timeline.clock(), self.reference_time, timeline.timezone)
        except ValueError:
            return None

    def age(self, instant_time: str | None) -> timedelta | None:
        """The time from an instant time to the reference.

        Args:
            instant_time: The time; None for one that could not be told.

        Returns:
            The age. In the hour that daylight saving repeats, the smaller one. None if the time is no date.
        """
        if instant_time is None or self.reference is None:
            return None
        try:
            return self.reference - latest_moment(instant_time, self.snapshot.active_timeline.timezone)
        except ValueError:
            return None

    def creation(self, partition_path: str) -> str | None:
        """The instant time of the commit that made a partition, as its ``.hoodie_partition_metadata`` tells.

        Args:
            partition_path: The partition.

        Returns:
            The time; None, with a warning, if that file is missing or cannot be read.
        """
        try:
            found = read_partition_metadata(self.snapshot.storage, self.snapshot.base_path, partition_path)
        except HoodieException as error:
            logger.warning("when partition %r was made is not known, so it does not expire: %s", partition_path, error)
            return None
        if found is None:
            logger.warning(
                "when partition %r of %s was made is not known, so it does not expire: it has no partition metadata",
                partition_path, self.snapshot.base_path,
            )  # fmt: skip
            return None
        return found.commit_time

    def last_write(self, partition_path: str) -> str:
        """The time of the last write to a partition; a later one where it cannot be told.

        Args:
            partition_path: A partition with files.

        Raises:
            HoodieException: The metadata of a commit of the active timeline is damaged, or storage failed.
        """
        return self.last_writes([partition_path])[partition_path]

    def last_writes(self, partition_paths: Iterable[str]) -> dict[str, str]:
        """The times of the last writes to partitions; see `last_write`.

        The archive of the timeline is read where the active timeline has no write to one of them.

        Args:
            partition_paths: Partitions with files.
        """
        found: dict[str, str] = {}
        unknown: list[str] = []
        for path in partition_paths:
            recent = self._recent_writes.get(path)
            known = self._known.get(path)
            if recent is not None:
                found[path] = recent
            elif known is not None and known[0] == self._file_names(path):
                found[path] = known[1]
            else:
                unknown.append(path)
        if unknown:
            for path, time in self._archived_writes.last_writes({path: self.slices[path] for path in unknown}).items():
                found[path] = time
                self._known[path] = self._file_names(path), time
        return found

    @cached_property
    def written_last(self) -> frozenset[str]:
        """The partitions of the table, of those with files, to which the newest write wrote.

        Raises:
            HoodieException: See `last_write`.
        """
        recent = {path: time for path, time in self._recent_writes.items() if path in self.slices}
        times = recent or self.last_writes(self.slices)
        last = newest(times.values())
        return frozenset(path for path, time in times.items() if time == last)

    @cached_property
    def _recent_writes(self) -> Mapping[str, str]:
        """The time of the last write to each partition with a write that is newer than all archived ones.

        A savepoint keeps its commit in the active timeline while newer commits are archived.
        """
        start = self.snapshot.active_timeline.visible_instants.start
        return {
            path: instant.newest_time
            for path, instant in self._active_writes.items()
            if start is not None and not is_before(instant.requested_time, start)
        }

    @cached_property
    def _active_writes(self) -> Mapping[str, HoodieInstant]:
        """The newest write of the active timeline to each partition."""
        timeline = self.snapshot.active_timeline
        found: dict[str, HoodieInstant] = {}
        for instant in timeline.completed_writes():
            metadata = timeline.read_commit_metadata(instant)
            if metadata.only_rewrites:
                continue
            for path, stats in metadata.partition_to_write_stats.items():
                known = found.get(path)
                if stats and (known is None or not is_before(instant.newest_time, known.newest_time)):
                    found[path] = instant
        return found

    @cached_property
    def _archived_writes(self) -> ArchivedWrites:
        return ArchivedWrites(self.snapshot, self._active_writes)

    def _file_names(self, partition_path: str) -> frozenset[str]:
        return frozenset(
            file.file_name for file_slice in self.slices[partition_path] for file in file_slice.record_files
        )


@attrs.frozen(slots=False, eq=False)
class ArchivedWrites:
    """The last writes of partitions by the files that they have now, and by the archive of the timeline.

    Files name the instants that wrote them, but for log files of table version 6. If an instant only rewrote rows, the
    newest archived write to the partition counts. If the archive has none, all its writes are older than the oldest
    known instant.

    Attributes:
        snapshot: The table.
        active_writes: The newest write of the active timeline to each partition that has one.
    """

    snapshot: TableSnapshot
    active_writes: Mapping[str, HoodieInstant]
    _written: dict[HoodieInstant, frozenset[str] | None] = attrs.field(init=False, factory=dict, repr=False)

    def last_writes(self, slices: Mapping[str, Sequence[FileSlice]]) -> dict[str, str]:
        """The last write of each partition; a later time where it cannot be told.

        Args:
            slices: The newest file slices of each partition.
        """
        times: dict[str, set[str]] = {}
        searched: set[str] = set()
        for path, its_slices in slices.items():
            named, has_unnamed = _writers_of(its_slices, self.snapshot)
            rewrites = {time for time in named if self._only_rewrites(time)}
            times[path] = {self._completion_of(time) for time in named - rewrites}
            if path in self.active_writes:
                times[path].add(self.active_writes[path].newest_time)
            if rewrites or has_unnamed:
                searched.add(path)
        self._search(searched, times)
        return {path: newest(known) or "" for path, known in times.items()}

    def _search(self, searched: set[str], times: dict[str, set[str]]) -> None:
        """Add the newest archived writes to partitions."""
        by_time: dict[str, list[HoodieInstant]] = {}
        for instant in self._instants if searched else ():
            if self.snapshot.is_archived(instant):
                by_time.setdefault(instant.newest_time, []).append(instant)
        missing = set(searched)
        for time in reversed(in_order(by_time)):
            if not missing:
                break
            for instant in by_time[time]:
                try:
                    written = missing & (self._partitions_written_by(instant) or frozenset())
                except HoodieException as error:
                    logger.warning("archived instant %s may be a write to any partition: %s", instant, error)
                    written = set(missing)
                for path in written:
                    times[path].add(time)
                missing -= written
        first = self._instants[0].newest_time if self._instants else None
        for path in missing:
            if first is not None:
                times[path].add(first)

    @cached_property
    def _instants(self) -> tuple[HoodieInstant, ...]:
        """The completed writes, archived ones included, the oldest first."""
        return HoodieTimeline(self.snapshot.instants(archived=True)).completed_writes().instants

    @cached_property
    def _by_time(self) -> Mapping[str, HoodieInstant]:
        return {instant.requested_time: instant for instant in self._instants}

    def _completion_of(self, requested_time: str) -> str:
        instant = self._by_time.get(requested_time)
        return requested_time if instant is None else instant.newest_time

    def _only_rewrites(self, requested_time: str) -> bool:
        """Whether an instant is known to have only rewritten rows."""
        instant = self._by_time.get(requested_time)
        if instant is None:
            return False
        try:
            return self._partitions_written_by(instant) is None
        except HoodieException as error:
            logger.warning("instant %s counts as a write: %s", instant, error)
            return False

    def _partitions_written_by(self, instant: HoodieInstant) -> frozenset[str] | None:
        """The partitions to which an instant wrote; None if it only rewrote rows. Its metadata is read once."""
        if instant not in self._written:
            metadata = self.snapshot.read_commit_metadata(instant)
            paths = frozenset(path for path, stats in metadata.partition_to_write_stats.items() if stats)
            self._written[instant] = None if metadata.only_rewrites else paths
        return self._written[instant]


def _writers_of(slices: Iterable[FileSlice], snapshot: TableSnapshot) -> tuple[set[str], bool]:
    """The instants that the files of slices name as their writers, and whether there are files that name none."""
    names_writer = snapshot.active_timeline.layout.has_completion_times
    named: set[str] = set()
    has_unnamed = False
    for file_slice in slices:
        base_time = None if file_slice.base_file is None else file_slice.base_file.instant_time
        if base_time is not None:
            named.add(base_time)
        for log_file in file_slice.record_log_files:
            named.add(log_file.instant_time)
            # In table version 6, and in a file that an upgraded table has from there, it is the slice's base instant.
            has_unnamed |= not names_writer or log_file.instant_time == base_time
    return named, has_unnamed
