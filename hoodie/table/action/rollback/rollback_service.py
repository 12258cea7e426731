"""Roll back instants: those that failed writers left, and those that a caller names.

Hudi: org.apache.hudi.client.BaseHoodieTableServiceClient (rollback, rollbackFailedWrites).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from hoodie.avro.timeline_metadata import HoodieRollbackMetadata
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.marker.write_markers import (
    OPEN_SUFFIX,
    TEMP_FOLDER_NAME,
    WriteMarkers,
)
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import in_order, is_instant_time
from hoodie.config.write_options import FailedWritesPolicy
from hoodie.exception import HoodieIOException, HoodieRollbackException
from hoodie.storage.storage_clock import age_ms
from hoodie.storage.storage_path import HEARTBEAT_FOLDER_NAME, join, parent
from hoodie.table.action.action import announce, carry_out
from hoodie.table.action.completion import complete_later
from hoodie.table.action.rollback.failed_writes import WRITE_ACTIONS, FailedWrites
from hoodie.table.action.rollback.rollback_action_executor import RollbackActionExecutor
from hoodie.table.table_preparation import TablePreparation, temporary_file_folders
from hoodie.table.table_session import TableSession
from hoodie.table.table_state import pending_rollback_plan, refuse_pending_restore
from hoodie.transaction.begun_instants import is_begun_here
from hoodie.transaction.heartbeat_client import is_heartbeat_expired
from hoodie.transaction.lock.single_writer_lock import SEVERAL_WRITERS
from hoodie.transaction.planned_beside import compactions_without

logger = logging.getLogger(__name__)

LEFTOVER_AGE_MS = 60 * 60 * 1000
"""Age from which on temporary files belong to no writer: a writer needs them for milliseconds."""
JUST_NOW_MS = 10_000
"""Age up to which an instant of another process may still be under way."""
_LOOK_MS = 500
_NO_WRITES = "the table takes no writes until it is finished"


class RollbackService:
    """Decides which instants may be rolled back, and rolls them back. Each client has one service.

    Args:
        session: Policy and heartbeat of the writer, and the table's lock, held while instants are rolled back where
            several writers are at work.
    """

    def __init__(self, session: TableSession) -> None:
        self.preparation = TablePreparation(session)
        """Prepares the table for each rollback, and for other services."""
        self._session = session
        self._failed = FailedWrites(session.config.write)

    # --- failed writes --------------------------------------------------------------------------------------------

    def clear_failed_writes(self, snapshot: TableSnapshot) -> tuple[list[str], TableSnapshot]:
        """Clear failed writes before a new write: EAGER rolls all of them back, LAZY and NEVER leave them alone.

        Returns:
            The instant times that were rolled back, and the table after that.

        Raises:
            HoodieHeartbeatException: EAGER, and the heartbeat of a pending instant is fresh: its writer is alive.
            HoodieCommitException: A restore is pending.
            HoodieRollbackException: A pending instant has completed ones after it (EAGER), or files and no markers: its
                completed file may be lost.
        """
        if self._session.config.write.failed_writes is FailedWritesPolicy.EAGER:
            return self._roll_back_all(snapshot)
        snapshot = snapshot.refreshed()
        refuse_pending_restore(snapshot, _NO_WRITES)
        return [], snapshot

    def rollback_failed_writes(self, snapshot: TableSnapshot) -> list[str]:
        """Finish pending rollbacks, then roll back failed ingestions, the newest first, as the policy says.

        EAGER takes every pending one for failed, LAZY those whose heartbeat has expired, NEVER none. Compactions,
        clusterings, cleans and indexings that are pending are left alone. A writer that died just after it had
        completed its instant left markers and a heartbeat: these are deleted, and what it had yet to look at is looked
        at.

        Returns:
            The instant times that were rolled back.

        Raises:
            HoodieHeartbeatException: EAGER, and the heartbeat of a pending instant is fresh: its writer is alive.
            HoodieCommitException: A restore is pending.
            HoodieRollbackException: A pending instant has completed ones after it (EAGER), or files and no markers: its
                completed file may be lost.
            HoodieLockException: The lock was not given.
        """
        match self._session.config.write.failed_writes:
            case FailedWritesPolicy.EAGER:
                return self._roll_back_all(snapshot)[0]
            case FailedWritesPolicy.LAZY:
                return self.rollback_expired_writes(snapshot)
        self._delete_leftovers(snapshot)
        return []

    def rollback_expired_writes(self, snapshot: TableSnapshot) -> list[str]:
        """Roll back pending ingestions whose heartbeat has expired or is missing; clean does so with LAZY.

        The search runs without the lock. What it finds is checked again and rolled back under the lock, since a writer
        that completed its instant meanwhile has no heartbeat either. Pending rollbacks of dead writers are finished.

        Returns:
            The instant times that were rolled back.

        Raises:
            HoodieCommitException: A restore is pending.
            HoodieRollbackException: One has files and no markers: its completed file may be lost.
            HoodieLockException: The lock was not given.
        """
        snapshot = self._delete_leftovers(snapshot)
        refuse_pending_restore(snapshot, _NO_WRITES)
        pending_rollbacks = snapshot.active_timeline.filter_actions(Action.ROLLBACK).filter_pending()
        if not self._failed.expired(snapshot) and not len(pending_rollbacks):
            return []
        with self._session.transactions.held(snapshot, "rollback of failed writes") as transaction:
            rolled_back, snapshot = self.finish_pending_rollbacks(snapshot.refreshed())
            return rolled_back + self._roll_back_failed(
                snapshot, self._failed.expired(snapshot), "the heartbeat of its writer has expired",
                transaction.check_held,
            )  # fmt: skip

    def _roll_back_all(self, snapshot: TableSnapshot) -> tuple[list[str], TableSnapshot]:
        snapshot = self._delete_leftovers(snapshot)
        refuse_pending_restore(snapshot, _NO_WRITES)
        snapshot = self._wait_for_others(snapshot)
        pending_rollbacks = snapshot.active_timeline.filter_actions(Action.ROLLBACK).filter_pending()
        if not self._failed.of(snapshot) and not len(pending_rollbacks):
            return [], snapshot
        with self._session.transactions.held(snapshot, "rollback of failed writes") as transaction:
            rolled_back, snapshot = self.finish_pending_rollbacks(snapshot.refreshed())
            failed = self._failed.of(snapshot)
            for instant in failed:
                self._failed.check_heartbeat(snapshot, instant)
                _check_nothing_follows(snapshot, instant)
            rolled_back += self._roll_back_failed(snapshot, failed, "its writer failed", transaction.check_held)
        return rolled_back, snapshot.refreshed() if failed else snapshot

    def _wait_for_others(self, snapshot: TableSnapshot) -> TableSnapshot:
        """Wait for writers in other processes that began just now, where no lock keeps processes apart.

        Nothing tells whether such a writer is alive: one that crashed in its first seconds is waited for as well, once.

        Returns:
            The table after that.
        """
        if not self._session.config.lock.single_writer_enable or self._session.transactions.keeps_processes_apart:
            return snapshot
        left_ms = max((_left_ms(snapshot, instant) for instant in self._failed.of(snapshot)), default=0.0)
        if left_ms <= 0:
            return snapshot
        clock = self._session.transactions.clock
        deadline_ms = clock.monotonic_ms() + left_ms
        logger.warning(
            "%s has a write that another process began just now; waiting for it, %.0f s at most, before it is rolled "
            "back. %s", snapshot.base_path, left_ms / 1000, SEVERAL_WRITERS,
        )  # fmt: skip
        while clock.monotonic_ms() < deadline_ms:
            clock.sleep_ms(min(_LOOK_MS, left_ms))
            snapshot = snapshot.refreshed()
            if not any(_is_of_others(snapshot, instant) for instant in self._failed.of(snapshot)):
                break
        return snapshot.refreshed()

    def _roll_back_failed(
        self, snapshot: TableSnapshot, failed: list[HoodieInstant], reason: str, check: Callable[[], None]
    ) -> list[str]:
        for instant in failed:
            # A write that failed left markers beside its files; without them it was completed.
            files = RollbackActionExecutor(snapshot).files_without_markers(instant)
            if files:
                raise _perhaps_lost(snapshot, instant, f"its files have no markers, such as {files[0]}")
        for instant in reversed(failed):
            logger.warning(
                "rolling back %s %s of %s: %s", instant.action, instant.requested_time, snapshot.base_path, reason
            )
            self._roll_back(snapshot, instant, check)
        return [instant.requested_time for instant in reversed(failed)]

    def refuse_living_writers(self, snapshot: TableSnapshot, before: str | None = None) -> None:
        """See `FailedWrites.refuse_living_writers`."""
        self._failed.refuse_living_writers(snapshot, before)

    # --- what is left of writes that have ended -------------------------------------------------------------------

    def _delete_leftovers(self, snapshot: TableSnapshot) -> TableSnapshot:
        """Delete temporary files, markers and heartbeats that no instant needs.

        Returns:
            The table as it was listed after they were found; as it was given where none was found.
        """
        marked = _marked_instants(snapshot) if snapshot.may_have(TEMP_FOLDER_NAME) else []
        beating = _instants_with_heartbeat(snapshot) if snapshot.may_have(HEARTBEAT_FOLDER_NAME) else []
        for folder in temporary_file_folders(snapshot):
            snapshot.storage.delete_leftovers(folder, LEFTOVER_AGE_MS)
        if not marked and not beating:
            return snapshot
        snapshot = snapshot.refreshed()
        pending = {instant.requested_time for instant in snapshot.active_timeline.filter_pending()}
        _delete_markers(snapshot, set(marked) - pending)
        for instant_time in in_order(set(beating) - pending):
            # A heartbeat begins before its instant can be seen.
            if is_heartbeat_expired(snapshot, instant_time, self._session.config.write):
                self._look_for_the_dead(snapshot, instant_time)
                snapshot.storage.delete_file(snapshot.heartbeat_path(instant_time))
        return snapshot

    def _look_for_the_dead(self, snapshot: TableSnapshot, instant_time: str) -> None:
        """Do what a writer does right after it completed its instant, and one that died there did not.

        In timeline layout 2 a compaction may have been planned, and completed, without its log files.
        """
        completed = snapshot.active_timeline.find(instant_time, Action.DELTA_COMMIT)
        if completed is None or completed.completion_time is None:
            return
        compactions = compactions_without(
            snapshot.active_timeline, completed, snapshot.active_timeline.read_commit_metadata(completed)
        )
        if not compactions:
            return
        with self._session.transactions.held(snapshot, f"completing {instant_time} later"):
            snapshot = snapshot.refreshed()
            if completed not in snapshot.active_timeline:
                return
            later = complete_later(snapshot, completed)
        logger.warning(
            "%s of %s counts as completed at %s: compaction %s was planned without its log files before others could "
            "see that it was completed at %s, and its writer died before it looked", completed, snapshot.base_path,
            later.completion_time, ", ".join(compactions), completed.completion_time,
        )  # fmt: skip

    # --- one instant ----------------------------------------------------------------------------------------------

    def rollback(self, snapshot: TableSnapshot, instant_time: str, *, keeps_plan: bool = False) -> bool:
        """Roll back one instant; a compaction keeps its plan, so that it can be carried out again.

        Args:
            snapshot: The table.
            instant_time: The instant.
            keeps_plan: Whether a pending clustering keeps its plan too.

        Returns:
            False when there is no such instant.
        """
        with self._session.transactions.held(snapshot, f"rollback of {instant_time}") as transaction:
            snapshot, instant = self._find(snapshot, instant_time)
            if instant is not None:
                self._roll_back(snapshot, instant, transaction.check_held, keeps_plan)
        return instant is not None

    def give_up(self, snapshot: TableSnapshot, instant_time: str, is_patient: bool = True) -> None:
        """Roll back an instant of this process, unless it is completed.

        An instant whose write never began is taken out of the timeline without a rollback.

        Args:
            snapshot: The table.
            instant_time: The instant.
            is_patient: Whether to wait for the lock.
        """
        what = f"rollback of {instant_time}"
        with self._session.transactions.held(snapshot, what, is_patient) as transaction:
            snapshot, instant = self._find(snapshot, instant_time)
            if instant is not None and instant.is_pending and not _withdraw(snapshot, instant):
                self._roll_back(snapshot, instant, transaction.check_held)

    def _find(self, snapshot: TableSnapshot, instant_time: str) -> tuple[TableSnapshot, HoodieInstant | None]:
        """The table as it is now, without pending rollbacks, and the write of an instant time there."""
        _, snapshot = self.finish_pending_rollbacks(snapshot.refreshed())
        return snapshot, snapshot.active_timeline.filter_actions(*WRITE_ACTIONS).find(instant_time)

    def _roll_back(
        self, snapshot: TableSnapshot, instant: HoodieInstant, check: Callable[[], None], keeps_plan: bool = False
    ) -> None:
        snapshot = self.preparation.for_action(snapshot, {instant.requested_time})
        using_markers = self._session.config.write.rollback_using_markers
        executor = RollbackActionExecutor(snapshot, instant, using_markers=using_markers, keeps_plan=keeps_plan)
        with self._session.metrics.step("roll back", instant.requested_time):
            with self._session.metrics.step("plan the rollback"):
                # Once this has announced itself and looked again, no writer commits the instant that it undoes.
                announced = announce(executor, check)
            assert announced is not None
            with self._session.metrics.step("delete the files") as step:
                metadata = carry_out(executor, announced.instant_time)
                step.count(files=metadata.total_files_deleted)
        for partition_path in metadata.partition_metadata:
            snapshot.storage.delete_leftovers(join(snapshot.base_path, partition_path), LEFTOVER_AGE_MS)

    def unless_undone(self, snapshot: TableSnapshot, instant: HoodieInstant) -> TableSnapshot | None:
        """Check whether another writer rolled an instant back that its own writer has completed; under the lock.

        A rollback that is half done is finished. The completed file, which names files that are gone, is deleted.

        Args:
            snapshot: The table.
            instant: The instant, in any state.

        Returns:
            The table as it is now; None where the instant was rolled back.
        """
        _, snapshot = self.finish_pending_rollbacks(snapshot.refreshed(), of_completed=instant.requested_time)
        found = snapshot.active_timeline.find(instant.requested_time, instant.action)
        archived = snapshot.archived_timeline.completed_writes()
        if (found is None or found.is_completed) and archived.contains(instant.requested_time):
            # It was archived since, at least in part.
            return snapshot
        if found is None or not found.is_completed:
            return None
        inflight = HoodieInstant(instant.requested_time, instant.action, State.INFLIGHT)
        if snapshot.storage.exists(snapshot.active_timeline.path_of(inflight)):
            return snapshot
        # The inflight file is the last but one that a rollback deletes.
        self.take_back(snapshot, found, is_empty=True)
        return None

    def take_back(self, snapshot: TableSnapshot, instant: HoodieInstant, is_empty: bool = False) -> None:
        """Roll back an instant that this writer completed just now and should not have; call it under the lock.

        Args:
            snapshot: The table.
            instant: A completed commit, which need not be the newest.
            is_empty: Whether its files are gone already.

        Raises:
            HoodieRollbackException: Another commit is built on it, or nothing is left of what it replaced.
        """
        snapshot = self.preparation.for_action(snapshot)
        markers = self._session.config.write.rollback_using_markers
        executor = RollbackActionExecutor(snapshot, instant, using_markers=markers, is_late=True, is_empty=is_empty)
        with self._session.metrics.step("roll back", instant.requested_time):
            announced = announce(executor)
            assert announced is not None
            carry_out(executor, announced.instant_time)

    # --- rollbacks of others --------------------------------------------------------------------------------------

    def finish_pending_rollbacks(
        self, snapshot: TableSnapshot, of_completed: str | None = None
    ) -> tuple[list[str], TableSnapshot]:
        """Finish the rollbacks that other writers planned and did not complete, each under its own instant.

        A rollback is withdrawn when its instant was completed before any process began to carry the rollback out.

        Args:
            snapshot: The table, just loaded.
            of_completed: An instant that is undone even when it is completed: its own writer asks for that.

        Returns:
            The instants that were rolled back, and the table after that.
        """
        finished = []
        pending = snapshot.active_timeline.filter_actions(Action.ROLLBACK).filter_pending()
        if len(pending):
            snapshot = self.preparation.for_action(snapshot)
        for rollback in pending:
            plan = pending_rollback_plan(snapshot.active_timeline, rollback)
            if plan is None:
                logger.warning(
                    "rollback %s of %s is given up: its writer died before it stored the plan, and rolled nothing back",
                    rollback.requested_time,
                    snapshot.base_path,
                )
                snapshot.active_timeline.delete_pending(rollback.requested_time, Action.ROLLBACK)
                continue
            info = plan.instant_to_rollback
            if info is not None and Action(info.action) not in WRITE_ACTIONS:
                continue
            logger.warning("finishing rollback %s of %s", rollback.requested_time, snapshot.base_path)
            with self._session.metrics.step("finish a rollback", rollback.requested_time) as step:
                executor = RollbackActionExecutor(
                    snapshot, using_markers=self._session.config.write.rollback_using_markers
                )
                is_own = info is not None and info.commit_time == of_completed
                try:
                    metadata = carry_out(executor, rollback.requested_time, is_left_behind=not is_own)
                except HoodieRollbackException as error:
                    if snapshot.refreshed().active_timeline.find(rollback.requested_time, Action.ROLLBACK):
                        raise
                    logger.warning("%s", error)
                    continue
                step.count(files=metadata.total_files_deleted)
            if info is not None:
                finished.append(info.commit_time)
        return finished, snapshot.refreshed() if len(pending) else snapshot


def rolled_back_by(snapshot: TableSnapshot, rollback: HoodieInstant) -> tuple[str, ...]:
    """The instant times that a completed rollback undid."""
    return snapshot.active_timeline.read_as(rollback, HoodieRollbackMetadata).commits_rollback


def _left_ms(snapshot: TableSnapshot, instant: HoodieInstant) -> float:
    """The time to wait for a pending instant, in milliseconds; 0 or less for none."""
    if not _is_of_others(snapshot, instant):
        return 0
    status = snapshot.storage.file_status(snapshot.active_timeline.path_of(instant))
    return 0 if status is None else JUST_NOW_MS - age_ms(snapshot.storage, status)


def _is_of_others(snapshot: TableSnapshot, instant: HoodieInstant) -> bool:
    return not is_begun_here(snapshot.base_path, instant.requested_time)


def _withdraw(snapshot: TableSnapshot, instant: HoodieInstant) -> bool:
    """Take away an instant of this process that has only its requested file; False where there may be more.

    Tasks write only for instants that are open, and an instant is opened before it is inflight. For an instant that is
    neither open nor inflight no task has written a file, and none can any more.
    """
    timeline = snapshot.active_timeline
    if instant.state is not State.REQUESTED or instant.requested_time in _marked_instants(snapshot):
        return False
    if len(timeline.filter_actions(Action.ROLLBACK, Action.RESTORE).filter_pending()):
        # Their plans may name it.
        return False
    return timeline.withdraw_requested(instant.requested_time, instant.action)


def _marked_instants(snapshot: TableSnapshot) -> list[str]:
    """Instants that have markers or are open.

    List them before the timeline: an instant that the timeline does not show has then ended.
    """
    entries = snapshot.storage.list_directory(join(snapshot.meta_path, TEMP_FOLDER_NAME))
    names = [entry.name if entry.is_directory else entry.name.removesuffix(OPEN_SUFFIX) for entry in entries]
    return [name for name in names if is_instant_time(name)]


def _instants_with_heartbeat(snapshot: TableSnapshot) -> list[str]:
    """Instants that have a heartbeat; list them before the timeline, see `_marked_instants`."""
    entries = snapshot.storage.list_directory(parent(snapshot.heartbeat_path("0")))
    return [entry.name for entry in entries if is_instant_time(entry.name)]


def _delete_markers(snapshot: TableSnapshot, instant_times: Iterable[str]) -> None:
    for instant_time in in_order(instant_times):
        try:
            WriteMarkers(snapshot.storage, snapshot.meta_path, instant_time).delete_all()
        except HoodieIOException as error:
            logger.warning("left-over markers of finished instant %s were not deleted: %s", instant_time, error)
        else:
            logger.info("deleted left-over markers of finished instant %s", instant_time)


def _check_nothing_follows(snapshot: TableSnapshot, instant: HoodieInstant) -> None:
    """Refuse to roll back a pending instant that has completed ones after it: its completed file may be lost.

    Writers clear failed writes before they go on, so a failed write has no completed ones after it. A pending instant
    with a heartbeat is an exception: several writers were at work at once, and did not clear each other's writes. In
    timeline layout 2 compactions are planned and completed beside pending writes, so they do not count. An instant that
    was only requested was never completed: its writer died between the look and the commit of another one without a
    lock.
    """
    if instant.state is State.REQUESTED:
        return
    completed = snapshot.active_timeline.completed_writes()
    is_merge_on_read = snapshot.table_config.table_type is HoodieTableType.MERGE_ON_READ
    if is_merge_on_read and snapshot.active_timeline.layout.has_completion_times:
        # The completed commits of a merge-on-read table are its compactions.
        completed = completed.filter(lambda later: later.action is not Action.COMMIT)
    later = completed.after(instant.requested_time).first_instant
    if later is not None and not snapshot.storage.exists(snapshot.heartbeat_path(instant.requested_time)):
        raise _perhaps_lost(snapshot, instant, f"{later.requested_time} and others after it are completed")


def _perhaps_lost(snapshot: TableSnapshot, instant: HoodieInstant, reason: str) -> HoodieRollbackException:
    timeline = snapshot.active_timeline
    completed = join(
        timeline.layout.active_path(timeline.meta_path),
        timeline.layout.file_name(instant.requested_time, instant.action, State.COMPLETED, "<completion time>"),
    )
    return HoodieRollbackException(
        f"{instant.action} {instant.requested_time} of {snapshot.base_path} is pending "
        f"({timeline.path_of(instant)}), but {reason}: its completed file may have been lost, and rolling it back "
        f"would delete its rows. Restore {completed}; or, if the write did fail, call "
        f"rollback({instant.requested_time!r})"
    )
