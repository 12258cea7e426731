"""Roll back instants: those that failed writers left, and those that a caller names.

Hudi: org.apache.hudi.client.BaseHoodieTableServiceClient (rollback, rollbackFailedWrites).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from hoodie.avro.timeline_metadata import HoodieRollbackMetadata, decode
from hoodie.client.heartbeat.heartbeat_client import heartbeat_age_ms, is_heartbeat_expired
from hoodie.client.transaction.begun_instants import is_begun_here
from hoodie.client.transaction.lock.single_writer_lock import SEVERAL_WRITERS
from hoodie.client.transaction.transaction_manager import Transaction, TransactionManager
from hoodie.common.table.clustering_plans import is_clustering
from hoodie.common.table.marker.write_markers import OPEN_SUFFIX, TEMP_FOLDER_NAME, WriteMarkers
from hoodie.common.table.table_meta_client import HoodieTableMetaClient
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import is_instant_time
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.config.write_options import FailedWritesPolicy
from hoodie.exception import (
    HoodieCommitException,
    HoodieHeartbeatException,
    HoodieIOException,
    HoodieRollbackException,
)
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.storage.storage_clock import age_ms
from hoodie.storage.storage_path import join, parent
from hoodie.table.action.rollback.rollback_action_executor import RollbackActionExecutor
from hoodie.table.table_state import pending_rollback_plan

__all__ = ["RollbackService"]

logger = logging.getLogger(__name__)

LEFTOVER_AGE_MS = 60 * 60 * 1000
"""Temporary files of that age are nobody's: they live for milliseconds."""
JUST_NOW_MS = 10_000
"""What another process began at most so long ago may be under way."""
_LOOK_MS = 500
INGESTION_ACTIONS = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})


class RollbackService:
    """Decides what may be rolled back, and has it done.

    Args:
        meta_client: The table.
        config: Policy and heartbeat of the writer.
        metrics: Times the steps; None where nobody asks.
        transactions: The table's lock, held while instants are rolled back where several writers are at work; None for
            one that is not needed, or for questions only.
    """

    def __init__(
        self,
        meta_client: HoodieTableMetaClient,
        config: HoodieWriteConfig,
        metrics: HoodieMetrics | None = None,
        transactions: TransactionManager | None = None,
    ) -> None:
        self._meta_client = meta_client
        self._config = config
        self._metrics = metrics or HoodieMetrics()
        self._transactions = transactions or TransactionManager(config)

    def prepare_write(self) -> list[str]:
        """What a new write does about failed ones: all of them are rolled back (EAGER), or left alone (LAZY, NEVER).

        Returns:
            The instant times that were rolled back.

        Raises:
            HoodieHeartbeatException: EAGER, and the heartbeat of a pending instant is fresh: its writer is alive.
            HoodieCommitException: A restore is pending.
            HoodieRollbackException: A pending instant has completed ones after it (EAGER), or files and no markers: its
                completed file may be lost.
        """
        if self._config.write.failed_writes is FailedWritesPolicy.EAGER:
            return self._roll_back_all()
        self.check_no_restore(self._meta_client.reload_active_timeline())
        return []

    def rollback_failed_writes(self) -> list[str]:
        """Finish pending rollbacks, then roll back failed ingestions, the newest first, as the policy says.

        EAGER takes every pending one for failed, LAZY those whose heartbeat has expired, NEVER none. Compactions,
        clusterings, cleans and indexings that are pending are left alone. Markers and heartbeats that a writer left
        which died just after it had completed its instant are deleted.

        Returns:
            The instant times that were rolled back.

        Raises:
            HoodieHeartbeatException: EAGER, and the heartbeat of a pending instant is fresh: its writer is alive.
            HoodieCommitException: A restore is pending.
            HoodieRollbackException: A pending instant has completed ones after it (EAGER), or files and no markers: its
                completed file may be lost.
            HoodieLockException: The lock was not given.
        """
        match self._config.write.failed_writes:
            case FailedWritesPolicy.EAGER:
                return self._roll_back_all()
            case FailedWritesPolicy.LAZY:
                return self.rollback_expired_writes()
        self._delete_leftovers()
        return []

    def rollback_expired_writes(self) -> list[str]:
        """Roll back pending ingestions whose heartbeat has expired, or that have none; what clean does with LAZY.

        Looked for without the lock; then, if there are any, looked at again and rolled back under it: a writer that
        completed its instant meanwhile has no heartbeat either. Pending rollbacks of dead writers are finished.

        Returns:
            The instant times that were rolled back.

        Raises:
            HoodieCommitException: A restore is pending.
            HoodieRollbackException: One has files and no markers: its completed file may be lost.
            HoodieLockException: The lock was not given.
        """
        timeline = self._delete_leftovers()
        self.check_no_restore(timeline)
        pending_rollbacks = timeline.filter_actions(Action.ROLLBACK).filter_pending()
        if not self._expired_writes() and not len(pending_rollbacks):
            return []
        with self._transactions.transaction(self._meta_client, "rollback of failed writes") as transaction:
            self._meta_client.reload_active_timeline()
            rolled_back = self.finish_pending_rollbacks()
            expired = self._expired_writes()
            for instant in expired:
                self._check_not_lost(instant)
            for instant in reversed(expired):
                logger.warning(
                    "rolling back %s %s of %s: the heartbeat of its writer has expired",
                    instant.action,
                    instant.requested_time,
                    self._meta_client.base_path,
                )
                self._roll_back(instant, transaction)
                rolled_back.append(instant.requested_time)
        return rolled_back

    def _expired_writes(self) -> list[HoodieInstant]:
        return [
            instant
            for instant in self.failed_writes()
            if is_heartbeat_expired(self._meta_client, instant.requested_time, self._config.write)
        ]

    def _roll_back_all(self) -> list[str]:
        timeline = self._delete_leftovers()
        self.check_no_restore(timeline)
        if self._wait_for_others():
            self._meta_client.reload_active_timeline()
        rolled_back = self.finish_pending_rollbacks()
        failed = self.failed_writes()
        for instant in failed:
            self._check_heartbeat(instant)
            self._check_nothing_follows(instant)
            self._check_not_lost(instant)
        for instant in reversed(failed):
            logger.warning(
                "rolling back failed %s %s of %s", instant.action, instant.requested_time, self._meta_client.base_path
            )
            self._roll_back(instant)
            rolled_back.append(instant.requested_time)
        return rolled_back

    def _wait_for_others(self) -> bool:
        """Let writers in other processes end that began just now, where no lock keeps processes apart.

        Whether they live cannot be known: one that crashed in its first seconds is waited for as well, once.

        Returns:
            Whether anybody was waited for.
        """
        if not self._config.lock.single_writer_enable or self._transactions.keeps_processes_apart:
            return False
        left_ms = max(map(self._wait_for, self.failed_writes()), default=0.0)
        if left_ms <= 0:
            return False
        clock = self._transactions.clock
        deadline_ms = clock.monotonic_ms() + left_ms
        logger.warning(
            "%s has a write that another process began just now; waiting for it, %.0f s at most, before it is rolled "
            "back. %s", self._meta_client.base_path, left_ms / 1000, SEVERAL_WRITERS,
        )  # fmt: skip
        while clock.monotonic_ms() < deadline_ms:
            clock.sleep_ms(min(_LOOK_MS, left_ms))
            self._meta_client.reload_active_timeline()
            if not any(self._is_of_others(instant) for instant in self.failed_writes()):
                break
        return True

    def _wait_for(self, instant: HoodieInstant) -> float:
        """How long a pending instant is waited for, in milliseconds; 0 or less for not at all."""
        if not self._is_of_others(instant):
            return 0
        status = self._meta_client.storage.file_status(self._meta_client.active_timeline.path_of(instant))
        return 0 if status is None else JUST_NOW_MS - age_ms(self._meta_client.storage, status)

    def _is_of_others(self, instant: HoodieInstant) -> bool:
        return not is_begun_here(self._meta_client.base_path, instant.requested_time)

    def _delete_leftovers(self) -> HoodieActiveTimeline:
        """Delete what no instant needs; the timeline as it was listed after that was found."""
        marked = self._marked_instants()
        beating = self._instants_with_heartbeat()
        for folder in (
            self._meta_client.meta_path,
            parent(self._meta_client.heartbeat_path("0")),
            join(self._meta_client.meta_path, TEMP_FOLDER_NAME),
            join(self._meta_client.meta_path, self._meta_client.table_config.archive_folder),
        ):
            self._meta_client.storage.delete_leftovers(folder, LEFTOVER_AGE_MS)
        timeline = self._meta_client.reload_active_timeline()
        pending = {instant.requested_time for instant in timeline.filter_pending()}
        self._delete_markers(set(marked) - pending)
        for instant_time in sorted(set(beating) - pending):
            # A heartbeat begins before its instant can be seen.
            if is_heartbeat_expired(self._meta_client, instant_time, self._config.write):
                self._meta_client.storage.delete_file(self._meta_client.heartbeat_path(instant_time))
        return timeline

    def check_no_restore(self, timeline: HoodieActiveTimeline) -> None:
        """Refuse to go on where a restore is not finished.

        Raises:
            HoodieCommitException: One is pending.
        """
        restoring = timeline.filter_actions(Action.RESTORE).filter_pending()
        if len(restoring):
            raise HoodieCommitException(
                f"restore {restoring.instants[0].requested_time} of {self._meta_client.base_path} is pending: "
                "the table takes no writes until it is finished"
            )

    def failed_writes(self) -> list[HoodieInstant]:
        """Pending ingestion instants, the oldest first."""
        timeline = self._meta_client.active_timeline
        pending = timeline.filter_actions(*INGESTION_ACTIONS).filter_pending()
        return [instant for instant in pending if not is_clustering(timeline, instant)]

    def rollback(self, instant_time: str, only_pending: bool = False, is_patient: bool = True) -> bool:
        """Roll back one instant.

        Args:
            instant_time: The instant.
            only_pending: Leave it alone when it is completed.
            is_patient: Whether to wait for the lock.

        Returns:
            False when there is no such instant.
        """
        what = f"rollback of {instant_time}"
        with self._transactions.transaction(self._meta_client, what, is_patient) as transaction:
            self._meta_client.reload_active_timeline()
            self.finish_pending_rollbacks()
            timeline = self._meta_client.active_timeline
            instant = next(
                (i for i in timeline if i.requested_time == instant_time and i.action in INGESTION_ACTIONS), None
            )
            if instant is None or (only_pending and instant.state is State.COMPLETED):
                return False
            self._roll_back(instant, transaction)
        return True

    def was_undone(self, instant: HoodieInstant) -> bool:
        """Whether somebody rolled an instant back that its writer has completed all the same; to ask under the lock.

        What a rollback left half done is finished, and the completed file, which names files that are gone, is deleted.

        Args:
            instant: The instant, in any state.
        """
        self._meta_client.reload_active_timeline()
        self.finish_pending_rollbacks(of_completed=instant.requested_time)
        timeline = self._meta_client.reload_active_timeline()
        found = timeline.find(instant.requested_time, instant.action)
        archived = self._meta_client.archived_timeline.commits_timeline().filter_completed_instants()
        if (found is None or found.is_completed) and archived.contains(instant.requested_time):
            # Archived since, or by half.
            return False
        if found is None or not found.is_completed:
            return True
        inflight = HoodieInstant(instant.requested_time, instant.action, State.INFLIGHT)
        if self._meta_client.storage.exists(timeline.path_of(inflight)):
            return False
        # The inflight file is the last but one that a rollback deletes.
        self.take_back(found, is_empty=True)
        return True

    def take_back(self, instant: HoodieInstant, is_empty: bool = False) -> None:
        """Roll back what this writer has completed just now and should not have; to be done under the lock.

        Args:
            instant: A completed commit, which need not be the newest.
            is_empty: Whether its files are gone already.

        Raises:
            HoodieRollbackException: Another commit is built on it, or nothing is left of what it replaced.
        """
        executor = RollbackActionExecutor(self._meta_client, self._config.write.rollback_using_markers)
        with self._metrics.step("roll back", instant.requested_time):
            executor.execute(executor.schedule_late(instant, is_empty))

    def rolled_back_by(self, rollback: HoodieInstant) -> tuple[str, ...]:
        """The instant times that a completed rollback undid."""
        timeline = self._meta_client.active_timeline
        content = timeline.read_details(rollback)
        metadata: HoodieRollbackMetadata = decode(content, HoodieRollbackMetadata, timeline.path_of(rollback))
        return metadata.commits_rollback

    def _marked_instants(self) -> list[str]:
        """Instants that have markers or are open; to be listed before the timeline: what is not in it has ended."""
        entries = self._meta_client.storage.list_directory(join(self._meta_client.meta_path, TEMP_FOLDER_NAME))
        names = [entry.name if entry.is_directory else entry.name.removesuffix(OPEN_SUFFIX) for entry in entries]
        return [name for name in names if is_instant_time(name)]

    def _instants_with_heartbeat(self) -> list[str]:
        """As `_marked_instants`."""
        folder = parent(self._meta_client.heartbeat_path("0"))
        names = [entry.name for entry in self._meta_client.storage.list_directory(folder)]
        return [name for name in names if is_instant_time(name)]

    def _delete_markers(self, instant_times: Iterable[str]) -> None:
        for instant_time in sorted(instant_times):
            try:
                WriteMarkers(self._meta_client.storage, self._meta_client.meta_path, instant_time).delete_all()
            except HoodieIOException as error:
                logger.warning("left-over markers of finished instant %s were not deleted: %s", instant_time, error)
            else:
                logger.info("deleted left-over markers of finished instant %s", instant_time)

    def finish_pending_rollbacks(self, of_completed: str | None = None) -> list[str]:
        """Execute again what a writer planned and did not finish, under its own instant.

        One of a pending instant that was completed before anybody began with the rollback is withdrawn.

        Args:
            of_completed: An instant that is undone all the same, by its own writer, who tells so.
        """
        finished = []
        for rollback in self._meta_client.active_timeline.filter_actions(Action.ROLLBACK).filter_pending():
            plan = pending_rollback_plan(self._meta_client.active_timeline, rollback)
            if plan is None:
                logger.warning(
                    "rollback %s of %s is given up: whoever planned it died over its plan, and nothing of it was done",
                    rollback.requested_time,
                    self._meta_client.base_path,
                )
                self._meta_client.active_timeline.delete_pending(rollback.requested_time, Action.ROLLBACK)
                continue
            info = plan.instant_to_rollback
            if info is not None and Action(info.action) not in INGESTION_ACTIONS:
                continue
            logger.warning("finishing rollback %s of %s", rollback.requested_time, self._meta_client.base_path)
            with self._metrics.step("finish a rollback", rollback.requested_time) as step:
                executor = RollbackActionExecutor(self._meta_client, self._config.write.rollback_using_markers)
                is_own = info is not None and info.commit_time == of_completed
                try:
                    metadata = executor.execute(rollback.requested_time, is_left_behind=not is_own)
                except HoodieRollbackException as error:
                    if self._meta_client.reload_active_timeline().find(rollback.requested_time, Action.ROLLBACK):
                        raise
                    logger.warning("%s", error)
                    continue
                step.count(files=metadata.total_files_deleted)
            if info is not None:
                finished.append(info.commit_time)
        return finished

    def _roll_back(self, instant: HoodieInstant, transaction: Transaction | None = None) -> None:
        executor = RollbackActionExecutor(self._meta_client, self._config.write.rollback_using_markers)
        with self._metrics.step("roll back", instant.requested_time):
            with self._metrics.step("plan the rollback"):
                # A plan that was made while others could commit is none; from now on nobody commits what it undoes.
                check = () if transaction is None else (transaction.check_held,)
                rollback_time = executor.schedule(instant, *check)
            with self._metrics.step("delete the files") as step:
                metadata = executor.execute(rollback_time, was_pending=instant.state is not State.COMPLETED)
                step.count(files=metadata.total_files_deleted)
        for partition_path in metadata.partition_metadata:
            self._meta_client.storage.delete_leftovers(
                join(self._meta_client.base_path, partition_path), LEFTOVER_AGE_MS
            )

    def refuse_living_writers(self, before: str | None = None) -> None:
        """Fail when a pending write's heartbeat is fresh.

        Args:
            before: Instants that are not older than this time are nobody's business; None for none of them.

        Raises:
            HoodieHeartbeatException: Its writer is alive.
        """
        for instant in self._meta_client.active_timeline.filter_pending():
            if instant.action in INGESTION_ACTIONS and (before is None or instant.requested_time < before):
                self._check_heartbeat(instant)

    def _check_nothing_follows(self, instant: HoodieInstant) -> None:
        """Writers clear failed writes before they go on: a pending instant among completed ones has rows of theirs.

        One with a heartbeat is of several writers at once, who did not clear each other's.
        """
        completed = self._meta_client.active_timeline.commits_timeline().filter_completed_instants()
        later = [i.requested_time for i in completed if i.requested_time > instant.requested_time]
        heartbeat_path = self._meta_client.heartbeat_path(instant.requested_time)
        if later and not self._meta_client.storage.exists(heartbeat_path):
            raise self._perhaps_lost(instant, f"{later[0]} and others after it are completed")

    def _check_not_lost(self, instant: HoodieInstant) -> None:
        """A write that failed left markers beside its files; without them it was completed."""
        files = RollbackActionExecutor(self._meta_client).files_without_markers(instant)
        if files:
            raise self._perhaps_lost(instant, f"its files have no markers, such as {files[0]}")

    def _perhaps_lost(self, instant: HoodieInstant, reason: str) -> HoodieRollbackException:
        timeline = self._meta_client.active_timeline
        completed = HoodieInstant(instant.requested_time, instant.action, State.COMPLETED)
        return HoodieRollbackException(
            f"{instant.action} {instant.requested_time} of {self._meta_client.base_path} is pending "
            f"({timeline.path_of(instant)}), but {reason}: its completed file may have been lost, and rolling it back "
            f"would delete its rows. Restore {timeline.path_of(completed)}; or, if the write did fail, call "
            f"rollback({instant.requested_time!r})"
        )

    def _check_heartbeat(self, instant: HoodieInstant) -> None:
        age_ms = heartbeat_age_ms(self._meta_client, instant.requested_time)
        if age_ms <= self._config.write.heartbeat_tolerance_ms:
            path = self._meta_client.heartbeat_path(instant.requested_time)
            raise HoodieHeartbeatException(
                f"{instant.action} {instant.requested_time} of {self._meta_client.base_path} is being written: its "
                f"heartbeat {path} is {age_ms / 1000:.0f} s old. Let its writer finish, or wait until the heartbeat "
                f"expires. {SEVERAL_WRITERS}"
            )
