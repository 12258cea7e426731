"""Make and delete savepoints, and restore tables.

Hudi: org.apache.hudi.client.BaseHoodieWriteClient (savepoint, deleteSavepoint, restoreToSavepoint, restoreToInstant).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.instant_time import is_before
from hoodie.exception import (
    HoodieAmbiguousKeyException,
    HoodieKeyException,
    HoodieRestoreException,
    HoodieSavepointException,
)
from hoodie.metadata.metadata_table import MetadataTable
from hoodie.table.action.action import announce, carry_out, no_check
from hoodie.table.action.archive.timeline_archiver import HoodieTimelineArchiver
from hoodie.table.action.restore.restore_action_executor import (
    RestoreActionExecutor,
    pending_restore,
    read_restore_plan,
)
from hoodie.table.action.rollback.rollback_service import RollbackService
from hoodie.table.action.savepoint.savepoint_action_executor import (
    HoodieSavepoint,
    SavepointActionExecutor,
    delete_savepoint,
)
from hoodie.table.table_session import TableSession
from hoodie.table.table_state import refuse_pending_restore
from hoodie.transaction.transaction_manager import Transaction

logger = logging.getLogger(__name__)


@attrs.define(eq=False, repr=False, slots=False)
class SavepointService:
    """Makes and deletes savepoints, and restores.

    Args:
        session: The writer's configuration and lock; with several writers the lock is held all the time.
        rollbacks: Finishes rollbacks before a restore.
    """

    _session: TableSession
    _rollbacks: RollbackService

    def savepoint(self, instant_time: str | None, user: str, comment: str) -> HoodieSavepoint:
        """Make a savepoint of a commit; None means the newest completed one. See `SavepointActionExecutor`."""
        snapshot = self._session.now()
        with (
            self._session.transactions.transaction(snapshot, "savepoint") as transaction,
            self._session.metrics.step("savepoint"),
        ):
            # While this client waited for the lock, others may have cleaned or begun a restore.
            snapshot = snapshot.refreshed()
            refuse_pending_restore(snapshot, error=HoodieRestoreException)
            if instant_time is None:
                newest = snapshot.active_timeline.completed_writes().last_instant
                if newest is None:
                    raise HoodieSavepointException(
                        f"{snapshot.base_path} cannot be savepointed: it has no completed commit"
                    )
                instant_time = newest.requested_time
            made = announce(SavepointActionExecutor(snapshot, instant_time, user, comment), transaction.check_held)
        assert made is not None
        logger.info("savepointed %s of %s: %d files", instant_time, snapshot.base_path, made.plan.num_files)
        return made.plan

    def delete_savepoint(self, instant_time: str) -> bool:
        """Delete a savepoint; see `delete_savepoint`."""
        snapshot = self._session.now()
        with self._session.transactions.transaction(snapshot, "delete savepoint") as transaction:
            snapshot = self._archive_beginning(snapshot.refreshed(), transaction, instant_time)
            transaction.check_held()
            # A pending savepoint counts: an archiver that archives past it looks for it once the archive is visible.
            snapshot.active_timeline.revert_completed_to_inflight(instant_time, Action.SAVEPOINT)
            snapshot = self._archive_beginning(snapshot.refreshed(), transaction, instant_time)
            return delete_savepoint(snapshot, instant_time)

    def _archive_beginning(self, snapshot: TableSnapshot, transaction: Transaction, instant_time: str) -> TableSnapshot:
        """Archive a savepoint's commit if readers would take it for the beginning; returns the table after that."""
        if not _is_beginning(snapshot, instant_time):
            return snapshot
        snapshot = self._rollbacks.preparation.for_action(snapshot)
        HoodieTimelineArchiver(self._session.config, snapshot, transaction.check_held).archive_commit(instant_time)
        return snapshot.refreshed()

    def restore_to_savepoint(self, instant_time: str) -> tuple[str, ...]:
        """Like `restore_to_instant`, to an instant that must have a savepoint."""
        return self._restore(instant_time, _check_savepointed)

    def restore_to_instant(self, instant_time: str) -> tuple[str, ...]:
        """Restore the table to an instant, or finish a restore to it that was begun.

        Args:
            instant_time: The instant that will be the newest one.

        Returns:
            The instant times that were undone.
        """
        return self._restore(instant_time, lambda snapshot, instant_time: None)

    def _restore(self, instant_time: str, check: Callable[[TableSnapshot, str], None]) -> tuple[str, ...]:
        snapshot = self._session.now()
        with self._session.transactions.transaction(snapshot, "restore") as transaction:
            if self._session.transactions.takes_lock(snapshot):
                snapshot = snapshot.refreshed()
            pending = pending_restore(snapshot.active_timeline)
            if pending is not None:
                return self._finish(snapshot, transaction, pending.requested_time, instant_time)
            check(snapshot, instant_time)
            _, snapshot = self._rollbacks.finish_pending_rollbacks(snapshot)
            self._rollbacks.refuse_living_writers(snapshot)
            snapshot = self._rollbacks.preparation.for_action(snapshot)
            executor = RestoreActionExecutor(snapshot, instant_time, self._rollbacks.refuse_living_writers)
            with self._session.metrics.step("plan the restore"):
                announced = announce(executor, transaction.check_held)
            assert announced is not None
            return self._carry_out(executor, announced.instant_time)

    def _finish(
        self, snapshot: TableSnapshot, transaction: Transaction, restore_time: str, instant_time: str
    ) -> tuple[str, ...]:
        """Continue a restore that another process began."""
        plan = read_restore_plan(snapshot.active_timeline, restore_time)
        if plan.restored_to != instant_time:
            raise HoodieRestoreException(
                f"a restore of {snapshot.base_path} to {plan.restored_to} was begun ({restore_time}) "
                f"and is not finished: finish it with restore_to_instant({plan.restored_to!r}), then restore to "
                f"{instant_time}"
            )
        logger.warning("finishing restore %s of %s", restore_time, snapshot.base_path)
        snapshot = self._rollbacks.preparation.for_action(snapshot)
        executor = RestoreActionExecutor(snapshot, instant_time, self._rollbacks.refuse_living_writers)
        return self._carry_out(executor, restore_time, is_left_behind=True, check=transaction.check_held)

    def _carry_out(
        self,
        executor: RestoreActionExecutor,
        restore_time: str,
        *,
        is_left_behind: bool = False,
        check: Callable[[], None] = no_check,
    ) -> tuple[str, ...]:
        """Restore the table, and build its metadata table anew."""
        MetadataTable(executor.snapshot).set_aside(is_usual=True)
        with self._session.metrics.step("restore"):
            undone = carry_out(executor, restore_time, is_left_behind=is_left_behind, check=check)
        try:
            self._rollbacks.preparation.build_metadata_table(self._session.now())
        except (HoodieAmbiguousKeyException, HoodieKeyException) as error:
            # The restore is done. An index cannot hold keys that are there again, and the next write says so, too.
            index = "the record index" if isinstance(error, HoodieAmbiguousKeyException) else "an index"
            logger.warning("%s was not built again after the restore: %s", index, error)
        return undone


def _check_savepointed(snapshot: TableSnapshot, instant_time: str) -> None:
    savepoints = snapshot.active_timeline.filter_actions(Action.SAVEPOINT).filter_completed_instants()
    if not savepoints.contains(instant_time):
        known = ", ".join(savepoint.requested_time for savepoint in savepoints) or "none"
        raise HoodieRestoreException(
            f"{snapshot.base_path} has no savepoint {instant_time} (it has {known}); "
            "restore_to_instant restores to a commit without one"
        )


def _is_beginning(snapshot: TableSnapshot, instant_time: str) -> bool:
    """Whether readers would take a commit for the beginning of the timeline once its savepoint is deleted.

    They would then ignore the younger commits that were archived past it.
    """
    timeline = snapshot.active_timeline
    remaining = timeline.filter(lambda i: (i.action, i.requested_time) != (Action.SAVEPOINT, instant_time))
    before, after = timeline.visible_instants.start, remaining.visible_instants.start
    if before is None or after is None or not is_before(after, before):
        return False
    if not timeline.is_archived_past(after):
        return False
    return bool(snapshot.archived_timeline.completed_after(after).before(before))
