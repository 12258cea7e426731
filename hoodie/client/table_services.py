"""Cleaning, archiving and compacting, and when they run.

Hudi: org.apache.hudi.client.BaseHoodieTableServiceClient, org.apache.hudi.async.AsyncCleanerService.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import attrs

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.client.clustering_service import ClusteringService
from hoodie.client.compaction_service import CompactionService, LogCompactionService
from hoodie.client.metadata_table_cleaning import MetadataTableCleaning
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.clustering_plans import commits_since_clustering, pending_clusterings
from hoodie.common.table.compaction_plans import is_log_compaction_due
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.config.clean_config import CleaningPolicy
from hoodie.config.write_options import FailedWritesPolicy, WriteConcurrencyMode
from hoodie.exception import HoodieException
from hoodie.metrics.metrics import Step
from hoodie.table.action.action import announce, carry_out, has_no_plan
from hoodie.table.action.archive.timeline_archiver import HoodieTimelineArchiver
from hoodie.table.action.clean.clean_action_executor import CleanActionExecutor, EmptyPlan, OutdatedPlanException
from hoodie.table.action.clean.clean_planner import CleanPlanner
from hoodie.table.action.cluster.run_clustering_action_executor import TakenClusteringException
from hoodie.table.action.compact.run_compaction_action_executor import TakenCompactionException
from hoodie.table.action.compact.schedule_compaction_action_executor import is_compaction_due
from hoodie.table.action.rollback.rollback_service import RollbackService
from hoodie.table.table_session import TableSession
from hoodie.table.table_state import refuse_pending_restore
from hoodie.threads import start_thread

logger = logging.getLogger(__name__)

_INLINE_KEY = "hoodie.compact.inline"
_NO_SERVICES = "nothing is cleaned or archived until it is finished"


@attrs.define(eq=False, repr=False)
class _FoundTable:
    """The table as the services that follow one commit found it: each loads it only if the one before changed it.

    Attributes:
        snapshot: The table; None where it has to be loaded.
        metadata_table: Looks after its metadata table.
    """

    metadata_table: MetadataTableCleaning
    snapshot: TableSnapshot | None = None


_Service = Callable[[_FoundTable], object]


@attrs.define(eq=False, repr=False, slots=False)
class TableServices:
    """The table services of one client.

    Each may die at any point: the next run, of any writer, finishes what it left. `clean` and `archive` raise errors.
    `run_after_commit` does not, because the commit before it stands whatever happens to the services.

    Args:
        session: The writer's configuration, engine and lock, and the steps of services that run in the caller's thread.
            With several writers, plans are made while the lock is held.
        rollbacks: Rolls back failed writes before a clean, if that is the policy.
        compactions: Schedules compactions and carries them out.
        clusterings: Schedules clusterings and carries them out.

    Attributes:
        table_type: The table's type, once a write has loaded it.
        compacts_by_default: Whether compactions that are due run after commits where no option says how they do.
        expire: Deletes partitions that are too old, and returns the errors after its commit; None if the client does
            not write.
    """

    _session: TableSession
    _rollbacks: RollbackService
    _compactions: CompactionService
    _clusterings: ClusteringService
    table_type: HoodieTableType | None = attrs.field(init=False, default=None)
    compacts_by_default: bool = attrs.field(init=False, default=False)
    expire: Callable[[], Sequence[str]] | None = attrs.field(init=False, default=None)
    _runs_inline: bool = attrs.field(init=False, default=False)
    _empty_plan: EmptyPlan | None = attrs.field(init=False, default=None)
    _thread: threading.Thread | None = attrs.field(init=False, default=None)
    _failures: list[str] = attrs.field(init=False, factory=list)

    # --- cleaning -----------------------------------------------------------------------------------------------

    def clean(self) -> HoodieCleanMetadata | None:
        """Finish pending cleans, then plan a clean and carry it out, however few commits came after the last one.

        Returns:
            What the newest clean did; None if there was nothing to do.

        Raises:
            HoodieCorruptedDataException: A plan, or an instant that refers to files, is damaged; the message names it.
            HoodieCommitException: A restore is pending.
            HoodieIOException: Storage failed; call again.
        """
        self.wait()
        with self._session.metrics.step("clean") as step:
            return self._clean_table(self._prepare_table(), 0, step)

    def _clean_if_due(self, found: _FoundTable) -> None:
        """Clean as it follows a commit: the lock is not taken where the timeline tells that no file may go."""
        with self._session.metrics.step("clean") as step:
            snapshot, found.snapshot = found.snapshot or self._prepare_table(), None
            if self._may_clean(snapshot):
                self._clean_table(snapshot, self._session.config.clean.max_commits, step)
                return
            with self._session.metrics.step("plan the clean") as planning:
                planning.count(files=0)
            step.count(files=0)
            found.metadata_table.clean(snapshot)
            found.snapshot = snapshot

    def _may_clean(self, snapshot: TableSnapshot) -> bool:
        """Whether a clean may find something to do."""
        clean, timeline = self._session.config.clean, snapshot.active_timeline
        if clean.policy is not CleaningPolicy.KEEP_LATEST_COMMITS:
            return True
        if self._session.config.write.failed_writes is FailedWritesPolicy.LAZY:
            # It rolls back writes that have expired.
            return True
        pending = timeline.filter_actions(Action.CLEAN).filter_pending()
        return bool(len(pending)) or CleanPlanner(self._session.context, clean, snapshot).may_clean

    def _clean_table(self, snapshot: TableSnapshot, min_commits: int, step: Step) -> HoodieCleanMetadata | None:
        if self._session.config.write.failed_writes is FailedWritesPolicy.LAZY:
            with self._session.metrics.step("roll back failed writes"):
                self._rollbacks.rollback_expired_writes(snapshot)
                self._clusterings.give_up_expired(snapshot)
                snapshot = snapshot.refreshed()
        finished, snapshot = self._finish_pending_cleans(snapshot)
        with self._session.metrics.step("plan the clean") as planning:
            with self._session.transactions.transaction(snapshot, "planning of a clean"):
                executor = self._executor(self._look_again(snapshot), min_commits)
                try:
                    announced = announce(executor)
                except OutdatedPlanException as error:
                    logger.warning("%s", error)
                    announced = None
            self._empty_plan = executor.empty_plan or self._empty_plan
            planning.count(files=0 if announced is None else None)
        if announced is not None:
            with self._session.metrics.step("delete old files", announced.instant_time) as deleting:
                metadata = carry_out(executor, announced.instant_time)
                self._failures += executor.failures
                if metadata is not None:
                    finished.append(metadata)
                    deleting.count(files=metadata.total_files_deleted)
        step.count(files=sum(metadata.total_files_deleted for metadata in finished))
        self._metadata_table.clean(snapshot)
        return finished[-1] if finished else None

    @property
    def _metadata_table(self) -> MetadataTableCleaning:
        return MetadataTableCleaning(self._session)

    def _executor(self, snapshot: TableSnapshot, min_commits: int = 0) -> CleanActionExecutor:
        return CleanActionExecutor(
            self._session.context,
            self._session.config.clean,
            snapshot,
            self._is_alone,
            self._empty_plan,
            min_commits,
            self._session.config.metadata,
            # A metadata table may have been built meanwhile.
            lambda: self._session.transactions.giving_a_time(snapshot.with_properties_reloaded()),
        )

    def _finish_pending_cleans(self, snapshot: TableSnapshot) -> tuple[list[HoodieCleanMetadata], TableSnapshot]:
        """Carry out the cleans that other runs left behind, the oldest first; returns the table after that."""
        finished: list[HoodieCleanMetadata] = []
        pending = snapshot.active_timeline.filter_actions(Action.CLEAN).filter_pending()
        if not len(pending):
            return finished, snapshot
        with self._session.metrics.step("finish cleans") as step:
            try:
                for instant in pending:
                    if has_no_plan(snapshot, instant):
                        snapshot.active_timeline.delete_pending(instant.requested_time, Action.CLEAN)
                        continue
                    logger.warning("finishing clean %s of %s", instant.requested_time, snapshot.base_path)
                    executor = self._executor(snapshot)
                    metadata = carry_out(executor, instant.requested_time, is_left_behind=True)
                    self._failures += executor.failures
                    if metadata is not None:
                        finished.append(metadata)
            except HoodieException as error:
                if not self._session.config.clean.allow_multiple:
                    raise
                logger.warning("a pending clean could not be finished, going on with the next: %s", error)
            step.count(files=sum(metadata.total_files_deleted for metadata in finished))
        return finished, snapshot.refreshed()

    def _prepare_table(self) -> TableSnapshot:
        """Load and check the table."""
        snapshot = self._session.now()
        refuse_pending_restore(snapshot, _NO_SERVICES)
        return self._rollbacks.preparation.for_action(snapshot)

    def _look_again(self, snapshot: TableSnapshot) -> TableSnapshot:
        """Load the timeline again: while this client waited for the lock, others may have changed the table."""
        if self._session.transactions.takes_lock(snapshot):
            snapshot = snapshot.refreshed()
            refuse_pending_restore(snapshot, _NO_SERVICES)
        return snapshot

    # --- archiving ----------------------------------------------------------------------------------------------

    def archive(self) -> int:
        """Move old instants from the active timeline to the archive, once there are too many.

        Returns:
            The number of instants that were moved.

        Raises:
            HoodieCorruptedDataException: The oldest instant that is due is damaged, or a file that decides about it.
            HoodieCommitException: A restore is pending.
            HoodieIOException: Storage failed; call again.
        """
        self.wait()
        with self._session.metrics.step("archive") as step:
            return self._archive_table(self._prepare_table(), step)

    def _archive_if_due(self, found: _FoundTable) -> None:
        """Archive as it follows a commit: the lock is not taken where the timeline tells that nothing is due."""
        with self._session.metrics.step("archive") as step:
            snapshot, found.snapshot = found.snapshot or self._prepare_table(), None
            if self._may_archive(snapshot):
                self._archive_table(snapshot, step)
                return
            step.count(records=0)
            found.metadata_table.archive(snapshot)
            found.snapshot = snapshot

    def _may_archive(self, snapshot: TableSnapshot) -> bool:
        """Whether instants may be due, by a look without the lock: others may change what it reads."""
        try:
            return bool(HoodieTimelineArchiver(self._session.config, snapshot).instants_to_archive())
        except HoodieException as error:
            logger.debug("whether instants of %s are due is looked for under the lock: %s", snapshot.base_path, error)
            return True

    def _archive_table(self, snapshot: TableSnapshot, step: Step) -> int:
        with self._session.transactions.transaction(snapshot, "archiving") as transaction:
            archiver = HoodieTimelineArchiver(self._session.config, self._look_again(snapshot), transaction.check_held)
            count = archiver.archive_if_required()
        step.count(records=count)
        self._metadata_table.archive(snapshot.refreshed() if count else snapshot)
        return count

    # --- compacting ---------------------------------------------------------------------------------------------

    def schedule_compaction(self) -> str | None:
        """Plan a compaction, however few commits came after the last one.

        Returns:
            Its instant time; None if there is nothing to compact.

        Raises:
            HoodieException: See `ScheduleCompactionActionExecutor`.
        """
        self.wait()
        return self._compactions.schedule(is_forced=True)

    def compact(self, instant_time: str | None) -> HoodieWriteResult | None:
        """Carry out a pending compaction; for None all of them, or a new one where none is pending.

        Returns:
            What the newest one wrote; None if there was nothing to do.

        Raises:
            HoodieException: See `RunCompactionActionExecutor`.
        """
        self.wait()
        if instant_time is not None:
            return self._compactions.run(instant_time)
        done = self._compactions.run_all()
        return done[-1] if done else None

    def _compact_if_due(self, found: _FoundTable) -> None:
        """Carry out pending compactions, then plan one if it is due, and carry it out."""
        if not self._may_compact(found):
            return
        self._run_pending_compactions()
        planned = self._compactions.schedule(is_forced=False)
        if planned is not None:
            self._run_compaction(planned, is_left_behind=False)

    def _may_compact(self, found: _FoundTable) -> bool:
        """Whether a compaction is pending or due, by a look without the lock."""
        snapshot, found.snapshot = found.snapshot or self._prepare_table(), None
        timeline = snapshot.active_timeline
        is_lazy = self._session.config.write.failed_writes is FailedWritesPolicy.LAZY
        if is_lazy and not timeline.layout.has_completion_times:
            # It rolls back writes that have expired.
            return True
        pending = timeline.filter_actions(Action.COMPACTION).filter_pending()
        if len(pending) or is_compaction_due(self._session.config.compaction, timeline):
            return True
        if snapshot.table_config.table_type is HoodieTableType.MERGE_ON_READ:
            with self._session.metrics.step("plan the compaction") as step:
                step.count(files=0)
        found.snapshot = snapshot
        return False

    def _schedule_if_due(self, found: _FoundTable) -> None:
        if not self._may_compact(found):
            return
        if not self._compactions.pending():
            self._compactions.schedule(is_forced=False)

    def _run_pending_compactions(self, _: _FoundTable | None = None) -> None:
        for instant_time in self._compactions.pending():
            try:
                self._run_compaction(instant_time)
            except TakenCompactionException as error:
                logger.info("%s", error)

    def _run_compaction(self, instant_time: str, is_left_behind: bool = True) -> None:
        self._note(self._compactions.run(instant_time, is_left_behind))

    # --- compacting log files -----------------------------------------------------------------------------------

    @property
    def _log_compactions(self) -> LogCompactionService:
        return LogCompactionService(self._session, self._rollbacks)

    def schedule_log_compaction(self) -> str | None:
        """Plan a log compaction, however few commits came after the last one.

        Returns:
            Its instant time; None if there is nothing to compact.

        Raises:
            HoodieException: See `ScheduleLogCompactionActionExecutor`.
        """
        self.wait()
        return self._log_compactions.schedule(is_forced=True)

    def log_compact(self, instant_time: str | None) -> HoodieWriteResult | None:
        """Carry out a pending log compaction; for None all of them, or a new one where none is pending.

        Returns:
            What the newest one wrote; None if there was nothing to do.

        Raises:
            HoodieException: See `RunLogCompactionActionExecutor`.
        """
        self.wait()
        if instant_time is not None:
            return self._log_compactions.run(instant_time)
        done = self._log_compactions.run_all()
        return done[-1] if done else None

    def _compact_logs_if_due(self, found: _FoundTable) -> None:
        """Carry out pending log compactions, then plan one if it is due, and carry it out."""
        snapshot, found.snapshot = found.snapshot or self._prepare_table(), None
        timeline = snapshot.active_timeline
        pending = timeline.filter_actions(Action.LOG_COMPACTION).filter_pending()
        threshold = self._session.config.compaction.log_compaction_blocks_threshold
        if not len(pending) and not is_log_compaction_due(timeline, threshold):
            found.snapshot = snapshot
            return
        services = self._log_compactions
        for instant_time in services.pending():
            try:
                self._note(services.run(instant_time))
            except TakenCompactionException as error:
                logger.info("%s", error)
        planned = services.schedule(is_forced=False)
        if planned is not None:
            self._note(services.run(planned, is_left_behind=False))

    def _note(self, done: HoodieWriteResult | None) -> None:
        self._failures += done.service_errors if done is not None else ()

    def _add_compaction(self, inline: list[_Service], beside: list[_Service]) -> None:
        """Add what is done about compactions after a commit."""
        compaction = self._session.config.compaction
        if self.table_type is HoodieTableType.COPY_ON_WRITE:
            return
        is_told = _INLINE_KEY in self._session.config.properties or compaction.run_async or compaction.schedule_inline
        if compaction.inline or (self.compacts_by_default and not is_told):
            inline.append(self._compact_if_due)
        elif compaction.run_async or compaction.schedule_inline:
            # A plan is made while no write of this client is pending.
            inline.append(self._schedule_if_due)
            if compaction.run_async:
                beside.append(self._run_pending_compactions)

    def _expire(self, found: _FoundTable) -> None:
        found.snapshot = None
        if self.expire is not None:
            self._failures += self.expire()

    # --- clustering ---------------------------------------------------------------------------------------------

    def schedule_clustering(self) -> str | None:
        """Plan a clustering, however few commits came after the last one.

        Returns:
            Its instant time; None if there is nothing to rewrite.

        Raises:
            HoodieException: See `ScheduleClusteringActionExecutor`.
        """
        self.wait()
        return self._clusterings.schedule()

    def cluster(self, instant_time: str | None) -> HoodieWriteResult | None:
        """Carry out a pending clustering; for None all of them, or a new one where none is pending.

        Returns:
            What the newest one wrote; None if there was nothing to do.

        Raises:
            HoodieException: See `RunClusteringActionExecutor`.
        """
        self.wait()
        if instant_time is not None:
            return self._clusterings.run(instant_time)
        done = self._clusterings.run_all()
        return done[-1] if done else None

    def _cluster_if_due(self, found: _FoundTable) -> None:
        """Carry out pending clusterings, then plan one if it is due, and carry it out."""
        if not self._may_cluster(found, self._session.config.clustering.inline_max_commits):
            return
        self._run_pending_clusterings()
        planned = self._clusterings.schedule(self._session.config.clustering.inline_max_commits)
        if planned is not None:
            self._run_clustering(planned, is_left_behind=False)

    def _may_cluster(self, found: _FoundTable, max_commits: int) -> bool:
        """Whether a clustering is pending or due, by a look without the lock."""
        snapshot, found.snapshot = found.snapshot or self._prepare_table(), None
        timeline = snapshot.active_timeline
        if commits_since_clustering(timeline) >= max_commits or pending_clusterings(timeline):
            return True
        found.snapshot = snapshot
        return False

    def _schedule_clustering_if_due(self, found: _FoundTable) -> None:
        max_commits = self._session.config.clustering.async_max_commits
        if self._may_cluster(found, max_commits) and not self._clusterings.pending():
            self._clusterings.schedule(max_commits)

    def _run_pending_clusterings(self, _: _FoundTable | None = None) -> None:
        for instant_time in self._clusterings.pending():
            try:
                self._run_clustering(instant_time)
            except TakenClusteringException as error:
                logger.info("%s", error)

    def _run_clustering(self, instant_time: str, is_left_behind: bool = True) -> None:
        done = self._clusterings.run(instant_time, is_left_behind)
        self._failures += done.service_errors if done is not None else ()

    def _add_clustering(self, inline: list[_Service], beside: list[_Service]) -> None:
        """Add what is done about clusterings after a commit."""
        clustering = self._session.config.clustering
        if clustering.inline:
            inline.append(self._cluster_if_due)
        elif clustering.run_async or clustering.schedule_inline:
            inline.append(self._schedule_clustering_if_due)
            if clustering.run_async:
                beside.append(self._run_pending_clusterings)

    # --- after a commit -----------------------------------------------------------------------------------------

    def run_after_commit(self) -> list[str]:
        """Run the automatic services: clean, archive, compact, compact logs, cluster, expire; some in a thread.

        Returns:
            Their errors, which were logged, including those of services in the thread after an earlier commit.
        """
        # A service that commits rows, or deletes some, is followed by the services of the write before it.
        if self._runs_inline or not self._session.config.write.table_services_enabled:
            return []
        clean = self._session.config.clean
        inline: list[_Service] = []
        beside: list[_Service] = []
        if clean.automatic:
            (beside if clean.run_async else inline).append(self._clean_if_due)
        if self._session.config.archival.automatic:
            (beside if self._session.config.archival.run_async else inline).append(self._archive_if_due)
        self._add_compaction(inline, beside)
        is_merge_on_read = self.table_type is not HoodieTableType.COPY_ON_WRITE
        if self._session.config.compaction.log_compaction_inline and is_merge_on_read:
            inline.append(self._compact_logs_if_due)
        self._add_clustering(inline, beside)
        if self._session.config.ttl.inline:
            inline.append(self._expire)
        self._runs_inline = True
        try:
            self._run(inline)
        finally:
            self._runs_inline = False
        # Errors of the thread below are reported with the next commit, however fast the thread is.
        failures, self._failures = self._failures, []
        if beside and (self._thread is None or not self._thread.is_alive()):
            # Work that becomes due while a thread is running is left to the next one.
            self._thread = threading.Thread(target=self._run_beside, args=(beside,), name="hoodie-table-services")
            try:
                start_thread(self._thread)
            except HoodieException as error:
                logger.warning(
                    "table services of %s run in the thread of the write: %s", self._session.config.base_path, error
                )
                self._thread = None
                self._run(beside)
        return failures

    def _run_beside(self, services: list[_Service]) -> None:
        with self._session.metrics.beside():
            self._run(services)

    def _run(self, services: list[_Service]) -> None:
        found = _FoundTable(self._metadata_table)
        for service in services:
            try:
                with self._session.transactions.alone():
                    service(found)
            except Exception as error:
                found.snapshot = None
                logger.warning(
                    "a table service of %s failed after a commit, which stands; its next run continues its work",
                    self._session.config.base_path,
                    exc_info=True,
                )
                self._failures.append(f"{type(error).__name__}: {error}")

    def wait(self) -> None:
        """Wait for the services in the thread."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def _is_alone(self) -> bool:
        """Whether no other writer can be about to write, so that folders of empty partitions may be deleted."""
        is_sole_writer = self._session.config.write.concurrency_mode is WriteConcurrencyMode.SINGLE_WRITER
        return is_sole_writer and not self._session.config.clean.run_async
