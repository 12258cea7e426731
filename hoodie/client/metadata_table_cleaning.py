"""Clean and archive the metadata table of a table.

It is a merge-on-read table, so the actions of all tables do both, on a snapshot of it. Compactions are not among them:
they come right after an instant is completed, see `hoodie.metadata.writer.metadata_table_services`.

Hudi: org.apache.hudi.metadata.{HoodieBackedTableMetadataWriter, HoodieMetadataWriteUtils}.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

import attrs

from hoodie.avro.service_metadata import HoodieCleanerPlan, HoodieCleanMetadata
from hoodie.common.table.compaction_plans import delta_commits_after, last_completed_compaction
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.instant_time import is_before, oldest
from hoodie.config.clean_config import CleaningPolicy, HoodieCleanConfig
from hoodie.config.compaction_config import CompactionTriggerStrategy
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.exception import TableNotFoundException
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles, without_log_compaction_suffix
from hoodie.table.action.action import announce, carry_out, has_no_plan
from hoodie.table.action.archive.timeline_archiver import HoodieTimelineArchiver
from hoodie.table.action.clean.clean_action_executor import CleanActionExecutor
from hoodie.table.action.clean.clean_planner import earliest_instant_to_retain, read_last_clean, retention_now
from hoodie.table.table_session import TableSession

logger = logging.getLogger(__name__)

CLEAN_SUFFIX = "002"
"""Table version 6: behind the newest delta commit it names a clean."""
_RETAINED_SHARE = 1.2
"""How much more the metadata table keeps than its table, so that readers of the oldest state find what they need."""
_KEPT_AFTER_COMPACTION = 3
"""So many delta commits follow a compaction before the slices that it replaced go, for readers that listed them."""


@attrs.define(eq=False)
class MetadataTableCleaning:
    """Cleans and archives the metadata table of one table, under the table's lock.

    Attributes:
        session: The writer's configuration, engine and lock.
    """

    session: TableSession
    _looked_at: tuple[TableSnapshot, MetadataTableFiles | None] | None = attrs.field(init=False, default=None)

    def clean(self, table: TableSnapshot) -> list[HoodieCleanMetadata]:
        """Finish pending cleans, then delete old slices if there are any.

        Args:
            table: The table; it is loaded again under the lock.

        Returns:
            What the cleans did.

        Raises:
            HoodieException: A plan is damaged, the lock was not given, or storage failed; call again.
        """
        if not self._may_be_cleaned(table):
            return []
        self._looked_at = None
        with self.session.transactions.held(table, "cleaning the metadata table"):
            files = _load(table.with_properties_reloaded().refreshed())
            if files is None:
                return []
            snapshot, clean = (
                files.snapshot,
                metadata_clean_config(self.session.config.clean, self.session.config.metadata),
            )
            done: list[HoodieCleanMetadata | None] = []
            for instant in snapshot.active_timeline.filter_actions(Action.CLEAN).filter_pending():
                if has_no_plan(snapshot, instant):
                    snapshot.active_timeline.delete_pending(instant.requested_time, Action.CLEAN)
                    continue
                logger.warning("finishing clean %s of %s", instant.requested_time, snapshot.base_path)
                executor = _MetadataCleanExecutor(self.session.context, clean, snapshot)
                done.append(carry_out(executor, instant.requested_time, is_left_behind=True))
            if is_clean_due(snapshot.refreshed(), clean):
                executor = _MetadataCleanExecutor(self.session.context, clean, snapshot.refreshed())
                announced = announce(executor)
                if announced is not None:
                    done.append(carry_out(executor, announced.instant_time))
        return [metadata for metadata in done if metadata is not None]

    def archive(self, table: TableSnapshot) -> int:
        """Move old instants of the metadata table to its archive, once there are too many.

        Args:
            table: The table; it is loaded again under the lock.

        Returns:
            How many instants were moved.

        Raises:
            HoodieException: An instant is damaged, the lock was not given, or storage failed; call again.
        """
        if not self._may_be_archived(table):
            return 0
        self._looked_at = None
        with self.session.transactions.held(table, "archiving the metadata table") as transaction:
            files = _load(table.with_properties_reloaded().refreshed())
            if files is None:
                return 0
            config = metadata_table_config(self.session.config)
            archiver = HoodieTimelineArchiver(config, files.snapshot, transaction.check_held, first_needed(files))
            return archiver.archive_if_required()

    def _look(self, table: TableSnapshot) -> MetadataTableFiles | None:
        """The metadata table of the table that was asked about last, or as it is now."""
        if self._looked_at is None or self._looked_at[0] is not table:
            self._looked_at = table, _load(table)
        return self._looked_at[1]

    def _may_be_cleaned(self, table: TableSnapshot) -> bool:
        """Whether a clean is pending or due, by a look without the lock."""
        files = self._look(table)
        if files is None:
            return False
        if len(files.snapshot.active_timeline.filter_actions(Action.CLEAN).filter_pending()):
            return True
        return is_clean_due(
            files.snapshot, metadata_clean_config(self.session.config.clean, self.session.config.metadata)
        )

    def _may_be_archived(self, table: TableSnapshot) -> bool:
        """Whether instants are due, by a look without the lock."""
        files = self._look(table)
        if files is None:
            return False
        config = metadata_table_config(self.session.config)
        archiver = HoodieTimelineArchiver(config, files.snapshot, first_needed=first_needed(files))
        return bool(archiver.instants_to_archive())


class _MetadataCleanExecutor(CleanActionExecutor):
    """A clean of a metadata table: its folders stay, and in table version 6 it has the time of a delta commit."""

    def __init__(self, context: HoodieEngineContext, clean: HoodieCleanConfig, snapshot: TableSnapshot) -> None:
        super().__init__(context, clean, snapshot, may_delete_partitions=False)

    def plan(self) -> HoodieCleanerPlan | None:
        """See `CleanActionExecutor.plan`; None too if the clean of that time exists."""
        time = self._time()
        return None if time is not None and self.snapshot.active_timeline.contains(time) else super().plan()

    def publish(self, plan: HoodieCleanerPlan, check: Callable[[], None]) -> str:
        """See `CleanActionExecutor.publish`."""
        time = self._time()
        if time is None:
            return super().publish(plan, check)
        # The table's lock is held.
        self.snapshot.active_timeline.create_requested(time, self.kind, plan)
        logger.info("planned clean %s of %s: %d files", time, self.snapshot.base_path, plan.file_count)
        return time

    def _time(self) -> str | None:
        """In table version 6 the time of the clean: all later delta commits are later than it."""
        timeline = self.snapshot.active_timeline
        if timeline.layout.has_completion_times:
            return None
        last = timeline.filter_actions(Action.DELTA_COMMIT).filter_completed_instants().last_instant
        return None if last is None else without_log_compaction_suffix(last.requested_time) + CLEAN_SUFFIX


def is_clean_due(metadata_table: TableSnapshot, clean: HoodieCleanConfig) -> bool:
    """Whether a compaction replaced slices that nobody needs any more, by the timeline alone.

    Args:
        metadata_table: The metadata table.
        clean: Its policy, see `metadata_clean_config`.

    Raises:
        HoodieIOException: Storage failed.
    """
    timeline = metadata_table.active_timeline
    last = last_completed_compaction(timeline)
    if last is None:
        return False
    if clean.policy is CleaningPolicy.KEEP_LATEST_FILE_VERSIONS:
        cleans = timeline.filter_actions(Action.CLEAN).filter_completed_instants()
        return cleans.last_instant is None or is_before(cleans.last_instant.requested_time, last.requested_time)
    earliest = earliest_instant_to_retain(timeline, clean, retention_now(metadata_table, clean), timeline.timezone)
    if earliest is None:
        return False
    before = read_last_clean(timeline)
    since = "" if before is None else before.earliest_commit_to_retain
    compactions = timeline.filter_actions(Action.COMMIT).filter_completed_instants()
    return any(not is_before(one.requested_time, since) for one in compactions.before(earliest.requested_time))


def first_needed_by_table(timeline: HoodieActiveTimeline) -> str | None:
    """The oldest instant whose delta commit must stay on the timeline of the metadata table; None for none.

    Args:
        timeline: The table's timeline: delta commits of its active and pending instants stay.

    Hudi: org.apache.hudi.common.table.timeline.TimelineUtils.getEarliestInstantForMetadataArchival.
    """
    pending = timeline.filter_pending().filter(lambda instant: instant.action is not Action.SAVEPOINT)
    return oldest(
        one.first_instant.requested_time for one in (timeline.commits_timeline(), pending) if one.first_instant
    )


def first_uncompacted(files: MetadataTableFiles) -> str | None:
    """The first delta commit of a metadata table whose log files no compaction has taken; it must stay.

    Compactions that are later than the table do not count, as readers still read the slices before them.

    Readers that do not read archives (hudi-rs) pass over log files whose delta commit is not on the active timeline.
    The delta commit of an action that began before a compaction may be completed after it.
    Those that built a partition are older than all others. By their completion readers also know that a base file of
    the partition which that compaction wrote is gone for good, and a rollback knows what the partition holds.

    Args:
        files: The files of the metadata table.
    """
    timeline = files.snapshot.active_timeline
    compactions = timeline.filter_actions(Action.COMMIT).filter_completed_instants()
    counting = compactions.filter(lambda instant: files.instants.is_committed(instant.requested_time))
    return oldest(one.requested_time for one in delta_commits_after(timeline, counting.last_instant))


def first_needed(files: MetadataTableFiles) -> str | None:
    """The first instant of a metadata table that must stay on its timeline; None for none.

    Args:
        files: The files of the metadata table.
    """
    return oldest([first_needed_by_table(files.table.active_timeline), first_uncompacted(files)])


def metadata_clean_config(clean: HoodieCleanConfig, metadata: HoodieMetadataConfig) -> HoodieCleanConfig:
    """The policy of the metadata table of a table.

    It keeps somewhat more than the table does, and at least as much as gives readers three delta commits from the
    compaction that replaced a slice to the clean that deletes it. Commits are counted with the compactions among them:
    where each delta commit (``d``) is compacted (``C``), ``C d C d C d`` are five commits after the first compaction.

    Args:
        clean: The table's policy.
        metadata: After how many delta commits it is compacted.
    """

    def more(number: int, least: int) -> int:
        return max(math.ceil(number * _RETAINED_SHARE), least)

    limit = metadata.compact_max_delta_commits
    compactions_between = (_KEPT_AFTER_COMPACTION - 1) // limit
    return attrs.evolve(
        clean,
        commits_retained=more(clean.commits_retained, _KEPT_AFTER_COMPACTION + compactions_between),
        # The slice that a compaction replaced is one more.
        file_versions_retained=more(clean.file_versions_retained, 1 + math.ceil(_KEPT_AFTER_COMPACTION / limit)),
        # A metadata table has few partitions.
        incremental=False,
    )


def metadata_table_config(config: HoodieWriteConfig) -> HoodieWriteConfig:
    """The configuration for the archiver of a metadata table.

    Args:
        config: The configuration of the table.
    """
    archival = config.archival
    return attrs.evolve(
        config,
        clean=metadata_clean_config(config.clean, config.metadata),
        archival=attrs.evolve(
            archival, min_commits=archival.min_commits + 1, max_commits=archival.max_commits + 1, beyond_savepoint=False
        ),
        compaction=attrs.evolve(
            config.compaction,
            trigger_strategy=CompactionTriggerStrategy.NUM_COMMITS,
            max_delta_commits=config.metadata.compact_max_delta_commits,
        ),
    )


def _load(table: TableSnapshot) -> MetadataTableFiles | None:
    """The metadata table as it is now; None if it is not there any more."""
    if not table.table_config.metadata_partitions:
        return None
    try:
        return MetadataTableFiles.load(table)
    except TableNotFoundException as error:
        logger.warning("%s", error)
        return None
