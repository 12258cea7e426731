"""The table's side of a sync: its newest commit, and the partitions that commits since a stored time touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

import attrs

from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after, newest
from hoodie.common.table.timeline.timeline_listing import completion_times
from hoodie.exception import HoodieNotSupportedException
from hoodie.keygen.key_generator import USER_KIND, key_generator_kind, time_partition_fields
from hoodie.query.commit_range import last_archived

LAST_COMMIT = "last_commit_time_sync"
LAST_COMPLETION = "last_commit_completion_time_sync"


@attrs.frozen
class SyncedCommits:
    """The completed commits of a table, as an entry is told of them.

    Attributes:
        instants: The completed commits of the active timeline, the oldest first.
        completions: The completion time of each; in tables of version 6 that is when its file was last modified, in the
            table's time zone, as in Hudi.
        newest: The requested time of the newest commit; None if there is no commit.
        newest_completion: The newest completion time.
    """

    instants: tuple[HoodieInstant, ...]
    completions: Mapping[HoodieInstant, str]
    newest: str | None
    newest_completion: str | None

    @classmethod
    def of(cls, snapshot: TableSnapshot) -> Self:
        """The commits of a table.

        Args:
            snapshot: The table.

        Raises:
            HoodieIOException: Storage failed.
        """
        timeline = snapshot.active_timeline
        instants = timeline.completed_writes().instants
        if timeline.layout.has_completion_times:
            completions = {instant: instant.completion_time or instant.requested_time for instant in instants}
        else:
            times = completion_times(timeline.storage, timeline.meta_path, timeline.layout, timeline.timezone)
            completions = {instant: times.get(instant.requested_time, instant.requested_time) for instant in instants}
        last = instants[-1].requested_time if instants else None
        return cls(instants, completions, last, newest(completions.values()))

    @property
    def parameters(self) -> dict[str, str]:
        """The two parameters of an entry that names the newest commit."""
        found = {LAST_COMMIT: self.newest, LAST_COMPLETION: self.newest_completion}
        return {key: value for key, value in found.items() if value is not None}

    def are_told(self, parameters: Mapping[str, str]) -> bool:
        """Whether an entry names the newest commit.

        Args:
            parameters: The entry's parameters. Entries of old releases of Hudi have no completion time.
        """
        return parameters.get(LAST_COMMIT) == self.newest and parameters.get(LAST_COMPLETION) in (
            None, self.newest_completion,
        )  # fmt: skip

    def is_newer(self, parameters: Mapping[str, str]) -> bool:
        """Whether an entry names a commit that is newer than all of these: its sync saw a newer state of the table.

        Args:
            parameters: The entry's parameters.
        """
        for key, mine in ((LAST_COMPLETION, self.newest_completion), (LAST_COMMIT, self.newest)):
            if key in parameters and mine is not None and parameters[key] != mine:
                return is_after(parameters[key], mine)
        return False

    def are_far_ahead_of(self, parameters: Mapping[str, str]) -> bool:
        """Whether the commit that an entry names lies behind the middle of the active timeline.

        Args:
            parameters: The entry's parameters.

        Hudi: org.apache.hudi.hive.HiveSyncTool.isLastCommitTimeSyncedBehindTimelineMidpoint.
        """
        stored = parameters.get(LAST_COMMIT)
        if stored is None or not self.instants:
            return stored is None
        return is_after(self.instants[len(self.instants) // 2].requested_time, stored)


def changed_partitions(
    snapshot: TableSnapshot, commits: SyncedCommits, parameters: Mapping[str, str]
) -> tuple[str, ...] | None:
    """The partitions that commits touched after those that an entry was told of; also ones that completed late.

    Args:
        snapshot: The table.
        commits: Its commits.
        parameters: The entry's parameters.

    Returns:
        Partition paths, sorted. None if the timeline does not tell: the entry names no commit, or one that is archived
        or was undone, or others that came after it are archived.

    Raises:
        HoodieException: The metadata of a commit is damaged, or storage failed.
    """
    stored, completion = parameters.get(LAST_COMMIT), parameters.get(LAST_COMPLETION)
    if stored is None or completion is None:
        return None
    if all(instant.requested_time != stored for instant in commits.instants):
        return None
    if _was_archived_after(snapshot, completion):
        return None
    found: set[str] = set()
    for instant, time in commits.completions.items():
        if is_after(time, completion) or is_after(instant.requested_time, stored):
            metadata = snapshot.read_commit_metadata(instant)
            found.update(stat.partition_path for stat in metadata.write_stats)
            found.update(path for path, _ in metadata.replaced_file_groups)
    return tuple(sorted(found))


def _was_archived_after(snapshot: TableSnapshot, completion: str) -> bool:
    """Whether a commit that came after those that an entry was told of is in the archive only.

    The commit that the entry names is active, so only commits that began earlier and completed late can be.
    """
    timeline = snapshot.active_timeline
    if not timeline.layout.has_completion_times:
        return last_archived(snapshot, completion, by_completion=True) is not None
    if not timeline.has_archive:
        return False
    return any(
        is_after(instant.completion_time or instant.requested_time, completion)
        and not timeline.contains(instant.requested_time)
        for instant in snapshot.archived_timeline.completed_writes()
    )


def stored_partitions(snapshot: TableSnapshot, paths: Iterable[str] | None = None) -> list[str]:
    """The partitions that have committed files now.

    Args:
        snapshot: The table.
        paths: The partitions that are asked for; None for all.

    Raises:
        HoodieException: The listing or the timeline is damaged, or storage failed.
    """
    view = snapshot.view(tells_sizes=False)
    if paths is None:
        asked = view.load_all_partitions()
    else:
        asked = list(paths)
        view.load_partitions(asked)
    return [path for path in asked if view.latest_file_slices(path)]


def derived_partition_fields(table_config: HoodieTableConfig) -> tuple[str, ...]:
    """The partition fields whose values in paths are texts that a key generator makes of the field's value.

    Args:
        table_config: The table's properties.
    """
    try:
        if key_generator_kind(table_config) == USER_KIND:
            return table_config.partition_fields
        return time_partition_fields(table_config)
    except HoodieNotSupportedException:
        # A class in Java: what it makes is text.
        return table_config.partition_fields
