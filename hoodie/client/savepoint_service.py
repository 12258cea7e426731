"""Savepoints, and the ways back: what a client does with them.

Hudi: org.apache.hudi.client.BaseHoodieWriteClient (savepoint, deleteSavepoint, restoreToSavepoint, restoreToInstant).
"""

from __future__ import annotations

import logging

from hoodie.client.open_table import load_table, switch_off_metadata_table
from hoodie.client.rollback_service import RollbackService
from hoodie.client.timeline_archiver import HoodieTimelineArchiver
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.view.file_system_view import VisibleInstants
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieException, HoodieRestoreException, HoodieSavepointException
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.table.action.restore.restore_action_executor import (
    HoodieRestorePlan,
    RestoreActionExecutor,
    pending_restore,
)
from hoodie.table.action.savepoint.savepoint_action_executor import (
    HoodieSavepoint,
    SavepointActionExecutor,
    delete_savepoint,
)
from hoodie.transaction.transaction_manager import Transaction, TransactionManager

__all__ = ["SavepointService"]

logger = logging.getLogger(__name__)


class SavepointService:
    """Makes and deletes savepoints, and restores.

    Args:
        config: The writer's configuration.
        metrics: Times the steps.
        transactions: The table's lock, held all the time where several writers are at work.
    """

    def __init__(self, config: HoodieWriteConfig, metrics: HoodieMetrics, transactions: TransactionManager) -> None:
        self._config = config
        self._metrics = metrics
        self._transactions = transactions

    def savepoint(self, instant_time: str | None, user: str, comment: str) -> HoodieSavepoint:
        """Make a savepoint; see `SavepointActionExecutor.execute`. None is the newest completed commit."""
        snapshot = load_table(self._config)
        with (
            self._transactions.transaction(snapshot, "savepoint") as transaction,
            self._metrics.step("savepoint"),
        ):
            # Others may have cleaned, or begun a restore, while the lock was waited for.
            timeline = snapshot.reload_active_timeline()
            self._refuse_pending_restore(snapshot)
            if instant_time is None:
                newest = timeline.commits_timeline().filter_completed_instants().last_instant
                if newest is None:
                    raise HoodieSavepointException(
                        f"{snapshot.base_path} cannot be savepointed: it has no completed commit"
                    )
                instant_time = newest.requested_time
            return SavepointActionExecutor(snapshot, transaction.check_held).execute(instant_time, user, comment)

    def delete_savepoint(self, instant_time: str) -> bool:
        """Take a savepoint away; see `delete_savepoint`."""
        snapshot = load_table(self._config)
        with self._transactions.transaction(snapshot, "delete savepoint") as transaction:
            snapshot.reload_active_timeline()
            if self._is_beginning(snapshot, instant_time):
                HoodieTimelineArchiver(self._config, snapshot, transaction.check_held).archive_commit(instant_time)
            transaction.check_held()
            # A pending one counts. Whoever archives past it looks for it once what is archived can be seen.
            snapshot.active_timeline.revert_completed_to_inflight(instant_time, Action.SAVEPOINT)
            snapshot.reload_active_timeline()
            if self._is_beginning(snapshot, instant_time):
                HoodieTimelineArchiver(self._config, snapshot, transaction.check_held).archive_commit(instant_time)
            return delete_savepoint(snapshot, instant_time)

    @staticmethod
    def _is_beginning(snapshot: TableSnapshot, instant_time: str) -> bool:
        """Whether readers would take a commit without its savepoint for the beginning of the timeline, so that younger
        ones that were archived past it would not count for them.
        """
        timeline = snapshot.active_timeline
        left = timeline.filter(lambda i: (i.action, i.requested_time) != (Action.SAVEPOINT, instant_time))
        before, after = VisibleInstants.of(timeline).start, VisibleInstants.of(left).start
        if before is None or after is None or after >= before:
            return False
        if (timeline.newest_archived_time() or "") <= after:
            return False
        archived = snapshot.archived_timeline.commits_timeline().filter_completed_instants()
        return any(instant.requested_time < before for instant in archived.after(after))

    def restore(self, instant_time: str, needs_savepoint: bool) -> tuple[str, ...]:
        """Take the table back to an instant, or finish a restore to it that was begun.

        Args:
            instant_time: The instant that will be the newest.
            needs_savepoint: Whether it must be savepointed.

        Returns:
            The instant times that were undone.
        """
        snapshot = load_table(self._config)
        with self._transactions.transaction(snapshot, "restore") as transaction:
            if self._transactions.is_lock_required:
                snapshot.reload_active_timeline()
            return self._restore(snapshot, transaction, instant_time, needs_savepoint)

    def _restore(
        self, snapshot: TableSnapshot, transaction: Transaction, instant_time: str, needs_savepoint: bool
    ) -> tuple[str, ...]:
        timeline = snapshot.active_timeline
        pending = pending_restore(timeline)
        if pending is not None:
            plan = HoodieRestorePlan.read(timeline, pending.requested_time)
            if plan.restored_to != instant_time:
                raise HoodieRestoreException(
                    f"a restore of {snapshot.base_path} to {plan.restored_to} was begun ({pending.requested_time}) "
                    f"and is not finished: restore_to_instant({plan.restored_to!r}) finishes it, then restore to "
                    f"{instant_time}"
                )
            logger.warning("finishing restore %s of %s", pending.requested_time, snapshot.base_path)
            if pending.is_requested:
                # Whoever planned it has not looked again, perhaps; nothing was undone yet.
                self._check_plan(snapshot, transaction, pending.requested_time)
            return self._execute(snapshot, pending.requested_time)
        savepoints = timeline.filter_actions(Action.SAVEPOINT).filter_completed_instants()
        if needs_savepoint and not savepoints.contains(instant_time):
            known = ", ".join(savepoint.requested_time for savepoint in savepoints) or "none"
            raise HoodieRestoreException(
                f"{snapshot.base_path} has no savepoint {instant_time} (it has {known}); "
                "restore_to_instant restores to a commit without one"
            )
        service = RollbackService(snapshot, self._config, self._metrics, self._transactions)
        service.finish_pending_rollbacks()
        service.refuse_living_writers()
        switch_off_metadata_table(self._config, snapshot)
        cleans = {i.requested_time for i in snapshot.reload_active_timeline().filter_actions(Action.CLEAN)}
        with self._metrics.step("plan the restore"):
            restore_time = RestoreActionExecutor(snapshot).schedule(instant_time)
            self._check_plan(snapshot, transaction, restore_time, cleans)
        return self._execute(snapshot, restore_time)

    def _check_plan(
        self,
        snapshot: TableSnapshot,
        transaction: Transaction,
        restore_time: str,
        cleans: set[str] | None = None,
    ) -> None:
        """Look again once others can see the plan, and withdraw it where it is none any more.

        Args:
            snapshot: The table.
            transaction: The lock.
            restore_time: The restore, requested.
            cleans: Those that were there before it was planned; None where that is not known.
        """
        try:
            # From here on nobody begins or completes a write; until here somebody might have, without the lock.
            transaction.check_held()
            timeline = snapshot.reload_active_timeline()
            if cleans is not None:
                self._refuse_new_cleans(timeline, cleans, snapshot.base_path)
            self._refuse_unplanned(timeline, restore_time, snapshot.base_path)
            service = RollbackService(snapshot, self._config, self._metrics, self._transactions)
            service.refuse_living_writers(before=restore_time)
            RestoreActionExecutor(snapshot).check_possible(HoodieRestorePlan.read(timeline, restore_time).restored_to)
        except HoodieException:
            snapshot.active_timeline.withdraw_requested(restore_time, Action.RESTORE)
            raise

    @staticmethod
    def _refuse_new_cleans(timeline: HoodieActiveTimeline, known: set[str], base_path: str) -> None:
        """A clean looks for a pending restore once it is planned; one that did so too early is seen here."""
        for clean in timeline.filter_actions(Action.CLEAN):
            if clean.requested_time not in known:
                raise HoodieRestoreException(
                    f"clean {clean.requested_time} of {base_path} began at the same moment, and may delete what the "
                    "restore goes back to; nothing was restored. Call it again"
                )

    @staticmethod
    def _refuse_unplanned(timeline: HoodieActiveTimeline, restore_time: str, base_path: str) -> None:
        """Refuse to delete the files of a write that began when the plan was made, and is not in it.

        Whoever begins after this finds the plan, or has a later time and keeps its files.
        """
        plan = HoodieRestorePlan.read(timeline, restore_time)
        known = {instant_time for instant_time, _ in plan.instants_to_rollback}
        begun = [
            instant.requested_time
            for instant in timeline.commits_timeline().after(plan.restored_to)
            if instant.requested_time < restore_time and instant.requested_time not in known
        ]
        if begun:
            raise HoodieRestoreException(
                f"{base_path} was not restored to {plan.restored_to}: {begun[0]} began while that was "
                "being planned. Nothing was undone; let its writer finish, and restore again"
            )

    def _execute(self, snapshot: TableSnapshot, restore_time: str) -> tuple[str, ...]:
        with self._metrics.step("restore"):
            return RestoreActionExecutor(snapshot).execute(restore_time)

    @staticmethod
    def _refuse_pending_restore(snapshot: TableSnapshot) -> None:
        pending = pending_restore(snapshot.active_timeline)
        if pending is not None:
            raise HoodieRestoreException(
                f"restore {pending.requested_time} of {snapshot.base_path} is pending: finish it first"
            )
