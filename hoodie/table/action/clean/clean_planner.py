"""Plan a clean: how far back readers are served, which partitions to look at, and which files to delete.

Hudi: org.apache.hudi.table.action.clean.CleanPlanner, org.apache.hudi.common.util.CleanerUtils.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import attrs

from hoodie.avro.service_metadata import (
    HoodieActionInstant,
    HoodieCleanerPlan,
    HoodieCleanFileInfo,
    HoodieCleanMetadata,
    HoodieSavepointMetadata,
)
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import HoodieFileGroupId
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.model.write_stat import NULL_COMMIT
from hoodie.common.table.clustering_plans import CLUSTERING_ACTIONS, requested_replacement
from hoodie.common.table.compaction_plans import compacted_file_groups, pending_compactions
from hoodie.common.table.table_metadata import HoodieTableMetadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import format_instant_time, in_order, is_after, is_before, oldest
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.view.file_system_view import read_replaced_file_groups
from hoodie.common.table.view.log_placement import CompletionTimes
from hoodie.config.clean_config import CleaningPolicy, HoodieCleanConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieCorruptedDataException
from hoodie.storage.storage_path import file_name, resolve_inside
from hoodie.table.action.clean.file_retention import FileRetention, PartitionCleaning, PendingInstants
from hoodie.table.table_state import being_rolled_back, files_at

logger = logging.getLogger(__name__)

SAVEPOINTED_TIMESTAMPS = "savepointed_timestamps"
"""Key in a clean's extra metadata that names the savepoints that held files, separated by commas."""
DRIVER_PARTITIONS = 64
"""Up to this many partitions are listed by the driver; more are listed by tasks."""
_COMPACTIONS = (Action.COMPACTION, Action.LOG_COMPACTION)


def earliest_instant_to_retain(
    timeline: HoodieTimeline, clean: HoodieCleanConfig, now: datetime, timezone: str
) -> HoodieInstant | None:
    """The first completed write from which on the table stays readable as it was.

    It is never after the oldest pending write, which began with the newest files of that time.

    Args:
        timeline: The table's timeline; only writes count.
        clean: Policy and how much is retained.
        now: The present, by which hours are counted.
        timezone: The table's ``hoodie.table.timeline.timezone``.

    Returns:
        The instant; None when nothing may be cleaned yet, and with the policy that counts versions.
    """
    writes = timeline.commits_timeline()
    completed = writes.filter_completed_instants()
    pending = writes.filter_pending().first_instant
    if clean.policy is CleaningPolicy.KEEP_LATEST_COMMITS:
        if len(completed) <= clean.commits_retained:
            return None
        found = completed.instants[len(completed) - clean.commits_retained]
    elif clean.policy is CleaningPolicy.KEEP_LATEST_BY_HOURS:
        start = format_instant_time(now - timedelta(hours=clean.hours_retained), timezone)
        since = completed.after_or_on(start).first_instant
        if since is None:
            return None
        found = since
    else:
        return None
    if pending is None or not is_after(found.requested_time, pending.requested_time):
        return found
    return completed.before(pending.requested_time).last_instant


def retention_now(snapshot: TableSnapshot, clean: HoodieCleanConfig) -> datetime:
    """The present by which hours are counted; never later than the storage's: a clock that is ahead cleans too much.

    Args:
        snapshot: The table.
        clean: Its policy; only the policy that counts hours reads the storage's clock.

    Raises:
        HoodieIOException: Storage failed.
    """
    now = snapshot.active_timeline.clock()
    if clean.policy is not CleaningPolicy.KEEP_LATEST_BY_HOURS:
        return now
    return min(now, datetime.fromtimestamp(snapshot.storage.now_ms(snapshot.meta_path) / 1000, UTC))


def read_last_clean(timeline: HoodieActiveTimeline) -> HoodieCleanMetadata | None:
    """The report of the newest completed clean; None when there is none, or it cannot be read.

    Args:
        timeline: The table's timeline.

    Raises:
        HoodieIOException: Storage failed.
    """
    instant = timeline.filter_actions(Action.CLEAN).filter_completed_instants().last_instant
    if instant is None:
        return None
    try:
        metadata = timeline.read_as(instant, HoodieCleanMetadata)
        for partition_path in metadata.failed_partitions:
            # The next clean looks at these partitions again, so they must be below the table.
            resolve_inside(timeline.meta_path, partition_path, timeline.path_of(instant))
        return metadata
    except HoodieCorruptedDataException as error:
        logger.warning("%s: planning the clean as if there had been no clean before", error)
        return None


class CleanPlanner:
    """Finds the files that one clean deletes.

    Args:
        context: The engine.
        clean: The policy.
        snapshot: The table, its timeline freshly loaded.

    Raises:
        HoodieCorruptedDataException: A plan or a savepoint on the timeline is damaged: the files that it holds are not
            known.

    Hudi: org.apache.hudi.table.action.clean.CleanPlanner. Differs: decides on listings without making objects of their
    files; looks only at updated partitions and at those of replace commits whose files may still be there; looks again
    at partitions where files could not be deleted.
    """

    def __init__(self, context: HoodieEngineContext, clean: HoodieCleanConfig, snapshot: TableSnapshot) -> None:
        self._context = context
        self._clean = clean
        self._snapshot = snapshot
        self._timeline = snapshot.active_timeline
        self._files = snapshot.table_metadata
        self._ends = CompletionTimes(self._timeline.visible_instants, lambda: snapshot.archived_timeline)
        self._metadata: dict[str, HoodieCommitMetadata] = {}
        self._last_clean: tuple[HoodieCleanMetadata | None] | None = None

    @cached_property
    def earliest(self) -> HoodieInstant | None:
        """See `earliest_instant_to_retain`."""
        timeline = self._timeline
        now = retention_now(self._snapshot, self._clean)
        return earliest_instant_to_retain(timeline, self._clean, now, timeline.timezone)

    @property
    def last_clean(self) -> HoodieCleanMetadata | None:
        """The report of the newest completed clean; None when there is none, or it cannot be read."""
        # No cached_property: before Python 3.12 all instances share its lock, and this reads the storage.
        if self._last_clean is None:
            self._last_clean = (read_last_clean(self._timeline),)
        return self._last_clean[0]

    @cached_property
    def savepoints(self) -> tuple[str, ...]:
        """Times of the savepoints, pending ones included: these hold files until they are deleted."""
        return tuple(instant.requested_time for instant in self._timeline.filter_actions(Action.SAVEPOINT))

    @property
    def commits_since_last_clean(self) -> int:
        """The number of writes that were completed after those that the last clean knew."""
        completed = self._timeline.completed_writes()
        if self.last_clean is not None:
            completed = completed.after(self.last_clean.last_completed_commit_timestamp)
        return len(completed)

    @property
    def may_clean(self) -> bool:
        """Whether the policy may let any file go."""
        return self._clean.policy is CleaningPolicy.KEEP_LATEST_FILE_VERSIONS or self.earliest is not None

    def partitions_to_clean(self, last_planned: str | None = None) -> list[str]:
        """The partitions to look at, sorted.

        Args:
            last_planned: The earliest instant to retain of a plan that found nothing and so left no clean; only later
                changes are looked at.
        """
        if not self.may_clean:
            return []
        start = self._start_of_changes(last_planned)
        if start is None:
            return self._files.list_partitions()
        assert self.earliest is not None
        end = self.earliest.requested_time
        found: set[str] = set()
        for instant in self._timeline.completed_writes().before(end):
            if not is_before(instant.requested_time, start):
                found.update(
                    stat.partition_path for stat in self._read(instant).write_stats if stat.prev_commit != NULL_COMMIT
                )
            if instant.action is Action.REPLACE_COMMIT:
                found.update(partition_path for partition_path, _ in self._read(instant).replaced_file_groups)
        if self.last_clean is not None:
            found.update(self.last_clean.failed_partitions)
        return sorted(found)

    def plan(self, partition_paths: Iterable[str]) -> list[PartitionCleaning]:
        """The files to delete from partitions; a partition that keeps all its files is left out.

        Args:
            partition_paths: The partitions of `partitions_to_clean`.
        """
        retention = self.retention()
        paths = list(partition_paths)
        work = _PlanPartitions(self._files, retention)
        if len(paths) <= DRIVER_PARTITIONS:
            return work.plan(paths)
        if self._timeline.layout.has_completion_times and self._is_merge_on_read:
            work = attrs.evolve(work, retention=attrs.evolve(retention, completion_time=self._all_ends().get))
        task_count = min(self._clean.parallelism, len(paths), 4 * self._context.default_parallelism)
        found = self._context.run_tasks([paths[i::task_count] for i in range(task_count)], work)
        return sorted((cleaning for part in found for cleaning in part), key=lambda cleaning: cleaning.partition_path)

    def make_plan(self, last_planned: str | None, may_delete_partitions: bool) -> HoodieCleanerPlan:
        """The plan of a clean as it is stored; it may name no file.

        Args:
            last_planned: See `partitions_to_clean`.
            may_delete_partitions: Whether folders of partitions that are left empty may go.

        Raises:
            HoodieCorruptedDataException: A plan or savepoint that holds files cannot be read.
            HoodieIOException: Storage failed.
        """
        cleanings = self.plan(self.partitions_to_clean(last_planned))
        writes = self._timeline.commits_timeline()
        last = writes.filter_completed_instants().last_instant
        may_delete = may_delete_partitions and not len(writes.filter_pending())
        earliest = self.earliest
        return HoodieCleanerPlan(
            earliest_instant_to_retain=None
            if earliest is None
            else HoodieActionInstant(earliest.requested_time, str(earliest.action), State(earliest.state).name),
            last_completed_commit_timestamp="" if last is None else last.requested_time,
            policy=str(self._clean.policy),
            file_paths_to_be_deleted_per_partition={
                cleaning.partition_path: tuple(HoodieCleanFileInfo(path) for path in cleaning.paths)
                for cleaning in cleanings
                if cleaning.paths
            },
            partitions_to_be_deleted=tuple(
                cleaning.partition_path
                for cleaning in cleanings
                if cleaning.is_left_empty and cleaning.partition_path and may_delete
            ),
            extra_metadata={SAVEPOINTED_TIMESTAMPS: ",".join(self.savepoints)} if self.savepoints else {},
        )

    def retention(self) -> FileRetention:
        """The rules of the policy, with everything that holds files at present."""
        pending = self._timeline.commits_timeline().filter_pending()
        # A write that is about to be undone, or may never be completed, needs the version before it to stay.
        unsure = pending.times | being_rolled_back(self._timeline)
        return FileRetention(
            instants=self._timeline.visible_instants,
            earliest=None if self.earliest is None else self.earliest.requested_time,
            versions=self._clean.file_versions_retained,
            pending=PendingInstants(
                earliest=oldest(unsure),
                compacted=dict(_compacted_groups(self._timeline, pending)),
                compactions=pending_compactions(self._timeline) if self._timeline.layout.has_completion_times else {},
            ),
            replaced=read_replaced_file_groups(self._timeline, self._read),
            held=self.savepointed_files().union(_clustered_files(self._timeline, pending)),
            completion_time=self._ends,
        )

    @property
    def _is_merge_on_read(self) -> bool:
        return self._snapshot.table_config.table_type is HoodieTableType.MERGE_ON_READ

    def _all_ends(self) -> dict[str, str | None]:
        """Requested to completion time of all instants, for tasks, which do not read the archive."""
        return {**self._ends.archived_ends, **self._timeline.visible_instants.completion_times}

    def savepointed_files(self) -> frozenset[str]:
        """Names of the files that savepoints hold.

        A savepoint that is not completed, or whose completed file was lost, holds the files that its commit reads.
        """
        names: set[str] = set()
        commits = self._timeline.completed_writes()
        for pending in self._timeline.filter_actions(Action.SAVEPOINT).filter_pending():
            time = pending.requested_time
            logger.warning(
                "savepoint %s of %s has no completed file: its files are held; savepoint(%r) completes it, "
                "delete_savepoint(%r) takes it away",
                time, self._snapshot.base_path, time, time,
            )  # fmt: skip
            if commits.contains(time):
                names.update(*files_at(self._snapshot, time).values())
        for instant in self._timeline.filter_actions(Action.SAVEPOINT).filter_completed_instants():
            for partition in self._timeline.read_as(instant, HoodieSavepointMetadata).partition_metadata.values():
                names.update(partition.savepoint_data_file)
        return frozenset(names)

    def _start_of_changes(self, last_planned: str | None) -> str | None:
        """The instant from which on writes are looked at; None to look at the whole table."""
        if not self._clean.incremental or self.earliest is None:
            return None
        last = self.last_clean
        if last is None:
            if self._timeline.filter_actions(Action.CLEAN).filter_completed_instants():
                return None
            if last_planned is None and self._timeline.newest_archived_time() is not None:
                return None
            return last_planned or ""
        held = set(((last.extra_metadata or {}).get(SAVEPOINTED_TIMESTAMPS) or "").split(",")) - {""}
        writes = self._timeline.commits_timeline()
        start = last.earliest_commit_to_retain
        if not start or held - set(self.savepoints) or writes.first_instant is None:
            return None
        start = in_order([start, last_planned or ""])[-1]
        return None if is_before(start, writes.first_instant.requested_time) else start

    def _read(self, instant: HoodieInstant) -> HoodieCommitMetadata:
        if instant.requested_time not in self._metadata:
            self._metadata[instant.requested_time] = self._timeline.read_commit_metadata(instant)
        return self._metadata[instant.requested_time]


@attrs.frozen
class _PlanPartitions:
    """Lists partitions in a task."""

    metadata: HoodieTableMetadata
    retention: FileRetention

    def __call__(self, task: TaskIdentity, partition_paths: list[str]) -> list[PartitionCleaning]:
        return self.plan(partition_paths)

    def plan(self, partition_paths: list[str]) -> list[PartitionCleaning]:
        listed = self.metadata.list_files_of(partition_paths)
        cleanings = (self.retention.clean(partition_path, files) for partition_path, files in listed.items())
        return [cleaning for cleaning in cleanings if cleaning.paths or cleaning.is_left_empty]


def files_that_stay(retention: FileRetention, partition_path: str, files: Iterable[Any]) -> frozenset[str]:
    """Paths of the files that no plan may delete, however old it is: the newest state and savepoints need them.

    Args:
        retention: The retention of the table as it is now.
        partition_path: A partition.
        files: Its files.
    """
    listed = list(files)
    going = set(attrs.evolve(retention, earliest=None, versions=1).clean(partition_path, listed).paths)
    return frozenset(status.path for status in listed if status.path not in going)


def _clustered_files(timeline: HoodieActiveTimeline, pending: HoodieTimeline) -> Iterable[str]:
    """Names of the files that pending clusterings read."""
    for instant in pending.filter_actions(*CLUSTERING_ACTIONS):
        plan = requested_replacement(timeline, instant).clustering_plan
        for group in () if plan is None else plan.input_groups:
            for file_slice in group.slices:
                for path in (file_slice.data_file_path, *file_slice.delta_file_paths):
                    yield file_name(path or "")


def _compacted_groups(
    timeline: HoodieActiveTimeline, pending: HoodieTimeline
) -> Iterable[tuple[HoodieFileGroupId, str]]:
    for instant in pending.filter_actions(*_COMPACTIONS):
        yield from compacted_file_groups(timeline, instant).items()
