"""What keeps a table small: cleaning, archiving, and when they run.

Hudi: org.apache.hudi.client.BaseHoodieTableServiceClient, org.apache.hudi.async.AsyncCleanerService.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from hoodie.avro.clean_metadata import HoodieCleanMetadata
from hoodie.client.open_table import load_table, switch_off_metadata_table
from hoodie.client.rollback_service import RollbackService
from hoodie.client.timeline_archiver import HoodieTimelineArchiver
from hoodie.client.transaction.transaction_manager import TransactionManager
from hoodie.common.engine.engine_context import HoodieEngineContext
from hoodie.common.table.table_meta_client import HoodieTableMetaClient
from hoodie.common.table.timeline.instant import Action
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.config.write_options import FailedWritesPolicy, WriteConcurrencyMode
from hoodie.exception import HoodieCommitException, HoodieException
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.table.action.clean.clean_action_executor import CleanActionExecutor
from hoodie.table.action.clean.clean_plan_action_executor import CleanPlanActionExecutor, EmptyPlan

__all__ = ["TableServices"]

logger = logging.getLogger(__name__)


class TableServices:
    """The table services of one client.

    Each may die at any point: what it left is finished by the next run, of any writer. `clean` and `archive` raise;
    `run_after_commit` does not, because the commit that it follows is there whatever becomes of the services.

    Args:
        context: The engine.
        config: The writer's configuration.
        metrics: Times the steps of what runs in the client's thread.
        transactions: The table's lock: what is planned is planned under it, where several writers are at work.
    """

    def __init__(
        self,
        context: HoodieEngineContext,
        config: HoodieWriteConfig,
        metrics: HoodieMetrics,
        transactions: TransactionManager,
    ) -> None:
        self._context = context
        self._config = config
        self._metrics = metrics
        self._transactions = transactions
        self._empty_plan: EmptyPlan | None = None
        self._thread: threading.Thread | None = None
        self._failures: list[str] = []

    # --- cleaning -----------------------------------------------------------------------------------------------

    def clean(self, is_forced: bool = True) -> HoodieCleanMetadata | None:
        """Finish cleans that are pending, then plan one and carry it out.

        Args:
            is_forced: Whether it is due though there are fewer commits after the last one than
                ``hoodie.clean.max.commits``.

        Returns:
            What the newest clean did; None when there was nothing to do.

        Raises:
            HoodieCorruptedDataException: A plan, or what holds files, is damaged; it is named.
            HoodieCommitException: A restore is pending.
            HoodieIOException: Storage failed; call again.
        """
        self.wait()
        return self._clean(self._metrics, is_forced, may_delete_partitions=self._is_alone)

    def _clean(
        self, metrics: HoodieMetrics, is_forced: bool, may_delete_partitions: bool
    ) -> HoodieCleanMetadata | None:
        with metrics.step("clean") as step:
            meta_client = self._prepare_table()
            if self._config.write.failed_writes is FailedWritesPolicy.LAZY:
                with metrics.step("roll back failed writes"):
                    RollbackService(meta_client, self._config, metrics, self._transactions).rollback_expired_writes()
            finished = self._finish_pending_cleans(meta_client, metrics, may_delete_partitions)
            with metrics.step("plan the clean") as planning:
                with self._transactions.transaction(meta_client, "planning of a clean"):
                    self._look_again(meta_client)
                    planner = CleanPlanActionExecutor(
                        self._context, self._config.clean, meta_client, may_delete_partitions
                    )
                    instant_time = planner.execute(self._empty_plan, is_forced)
                    if instant_time is not None:
                        self._withdraw_beside_a_restore(meta_client, instant_time)
                self._empty_plan = planner.empty_plan or self._empty_plan
                planning.count(files=0 if instant_time is None else None)
            if instant_time is not None:
                with metrics.step("delete old files", instant_time) as deleting:
                    executor = CleanActionExecutor(
                        self._context, self._config.clean, meta_client, may_delete_partitions
                    )
                    metadata = executor.execute(instant_time)
                    if metadata is not None:
                        finished.append(metadata)
                        deleting.count(files=metadata.total_files_deleted)
            step.count(files=sum(metadata.total_files_deleted for metadata in finished))
        return finished[-1] if finished else None

    def _finish_pending_cleans(
        self, meta_client: HoodieTableMetaClient, metrics: HoodieMetrics, may_delete_partitions: bool
    ) -> list[HoodieCleanMetadata]:
        if not len(meta_client.active_timeline.filter_actions(Action.CLEAN).filter_pending()):
            return []
        executor = CleanActionExecutor(self._context, self._config.clean, meta_client, may_delete_partitions)
        with metrics.step("finish cleans") as step:
            try:
                finished = executor.finish_pending()
            except HoodieException as error:
                if not self._config.clean.allow_multiple:
                    raise
                logger.warning("a pending clean could not be finished, going on with the next: %s", error)
                meta_client.reload_active_timeline()
                return []
            step.count(files=sum(metadata.total_files_deleted for metadata in finished))
        return finished

    def _prepare_table(self) -> HoodieTableMetaClient:
        """The table, checked, without a metadata table."""
        meta_client = load_table(self._config)
        _refuse_pending_restore(meta_client)
        switch_off_metadata_table(self._config, meta_client)
        return meta_client

    def _withdraw_beside_a_restore(self, meta_client: HoodieTableMetaClient, instant_time: str) -> None:
        """Whoever has no lock, or lost it, may have begun a restore since; of both at least one sees the other.

        The timeline was listed after the plan was written.
        """
        try:
            _refuse_pending_restore(meta_client)
        except HoodieCommitException:
            meta_client.active_timeline.withdraw_requested(instant_time, Action.CLEAN)
            raise

    def _look_again(self, meta_client: HoodieTableMetaClient) -> None:
        """Others may have changed the table, or have died over a restore of it, while the lock was waited for."""
        if self._transactions.is_lock_required:
            meta_client.reload_active_timeline()
            _refuse_pending_restore(meta_client)

    # --- archiving ----------------------------------------------------------------------------------------------

    def archive(self) -> int:
        """Move old instants from the active timeline to the archive, once there are too many.

        Returns:
            How many were moved.

        Raises:
            HoodieCorruptedDataException: The oldest instant that is due, or what decides about it, is damaged.
            HoodieCommitException: A restore is pending.
            HoodieIOException: Storage failed; call again.
        """
        self.wait()
        return self._archive(self._metrics)

    def _archive(self, metrics: HoodieMetrics) -> int:
        with metrics.step("archive") as step:
            meta_client = self._prepare_table()
            with self._transactions.transaction(meta_client, "archiving") as transaction:
                self._look_again(meta_client)
                count = HoodieTimelineArchiver(self._config, meta_client, transaction.check_held).archive_if_required()
            step.count(records=count)
        return count

    # --- after a commit -----------------------------------------------------------------------------------------

    def run_after_commit(self) -> list[str]:
        """Clean, then archive, as far as they are automatic; in a thread where they are asynchronous.

        Returns:
            What went wrong, of a service of an earlier commit that ran in a thread too; it was logged.
        """
        if not self._config.write.table_services_enabled:
            return []
        clean = self._config.clean
        inline: list[Callable[[HoodieMetrics], object]] = []
        beside: list[Callable[[HoodieMetrics], object]] = []
        if clean.automatic and clean.run_async:
            beside.append(lambda metrics: self._clean(metrics, is_forced=False, may_delete_partitions=False))
        elif clean.automatic:
            inline.append(lambda metrics: self._clean(metrics, False, may_delete_partitions=self._is_alone))
        if self._config.archival.automatic:
            (beside if self._config.archival.run_async else inline).append(self._archive)
        self._run(inline, self._metrics)
        # What the thread below meets is told with the next commit, however fast it is.
        failures, self._failures = self._failures, []
        if beside and (self._thread is None or not self._thread.is_alive()):
            # What is due while one is running is taken by the next.
            self._thread = threading.Thread(
                target=self._run, args=(beside, HoodieMetrics()), name="hoodie-table-services"
            )
            self._thread.start()
        return failures

    def _run(self, services: list[Callable[[HoodieMetrics], object]], metrics: HoodieMetrics) -> None:
        for service in services:
            try:
                with self._transactions.alone():
                    service(metrics)
            except Exception as error:
                logger.warning(
                    "a table service of %s failed after a commit, which stands; the next one goes on where it stopped",
                    self._config.base_path,
                    exc_info=True,
                )
                self._failures.append(f"{type(error).__name__}: {error}")

    def wait(self) -> None:
        """Wait for what runs in a thread."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def _is_alone(self) -> bool:
        """Whether nobody else can be about to write, so that folders of empty partitions may go."""
        alone = self._config.write.concurrency_mode is WriteConcurrencyMode.SINGLE_WRITER
        return alone and not self._config.clean.run_async


def _refuse_pending_restore(meta_client: HoodieTableMetaClient) -> None:
    restoring = meta_client.active_timeline.filter_actions(Action.RESTORE).filter_pending()
    if len(restoring):
        raise HoodieCommitException(
            f"restore {restoring.instants[0].requested_time} of {meta_client.base_path} is pending: nothing is "
            "cleaned or archived until it is finished"
        )
