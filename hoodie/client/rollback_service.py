"""Roll back instants: those that failed writers left, and those that a caller names.

Hudi: org.apache.hudi.client.BaseHoodieTableServiceClient (rollback, rollbackFailedWrites).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from hoodie.avro.timeline_metadata import (
    HoodieRequestedReplaceMetadata,
    HoodieRollbackMetadata,
    HoodieRollbackPlan,
    decode,
)
from hoodie.common.table.marker.write_markers import OPEN_SUFFIX, TEMP_FOLDER_NAME, WriteMarkers
from hoodie.common.table.table_meta_client import HoodieTableMetaClient
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
from hoodie.storage.storage_path import join
from hoodie.table.action.rollback.rollback_action_executor import RollbackActionExecutor

__all__ = ["RollbackService"]

logger = logging.getLogger(__name__)

LEFTOVER_AGE_MS = 60 * 60 * 1000
"""Temporary files of that age are nobody's: they live for milliseconds."""
INGESTION_ACTIONS = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})


class RollbackService:
    """Decides what may be rolled back, and has it done.

    Args:
        meta_client: The table.
        config: Policy and heartbeat of the writer.
        metrics: Times the steps; None where nobody asks.
    """

    def __init__(
        self, meta_client: HoodieTableMetaClient, config: HoodieWriteConfig, metrics: HoodieMetrics | None = None
    ) -> None:
        self._meta_client = meta_client
        self._config = config
        self._metrics = metrics or HoodieMetrics()

    def rollback_failed_writes(self) -> list[str]:
        """Finish pending rollbacks, then roll back every failed ingestion, the newest first.

        Compactions, clusterings, cleans and indexings that are pending are left alone. Markers that a writer left which
        died just after it had completed its instant are deleted.

        Returns:
            The instant times that were rolled back.

        Raises:
            HoodieHeartbeatException: The heartbeat of a pending instant is fresh: its writer is alive.
            HoodieCommitException: The policy leaves failed writes to somebody else, or a restore is pending.
            HoodieRollbackException: A pending instant has completed ones after it: its completed file may be lost.
        """
        marked = self._marked_instants()
        self._meta_client.storage.delete_leftovers(self._meta_client.meta_path, LEFTOVER_AGE_MS)
        timeline = self._meta_client.reload_active_timeline()
        self._delete_markers(set(marked) - {i.requested_time for i in timeline.filter_pending()})
        restoring = timeline.filter_actions(Action.RESTORE).filter_pending()
        if len(restoring):
            raise HoodieCommitException(
                f"restore {restoring.instants[0].requested_time} of {self._meta_client.base_path} is pending: "
                "the table takes no writes until it is finished"
            )
        rolled_back = self.finish_pending_rollbacks()
        failed = self.failed_writes()
        if not failed:
            return rolled_back
        if self._config.write.failed_writes_policy is not FailedWritesPolicy.EAGER:
            raise HoodieCommitException(
                f"{failed[0].action} {failed[0].requested_time} of {self._meta_client.base_path} is pending, and "
                f"hoodie.cleaner.policy.failed.writes={self._config.write.failed_writes_policy} leaves it to the "
                "cleaner: "
                "use EAGER when no other writer is running"
            )
        for instant in failed:
            self._check_heartbeat(instant)
            self._check_nothing_follows(instant)
        for instant in reversed(failed):
            logger.warning(
                "rolling back failed %s %s of %s", instant.action, instant.requested_time, self._meta_client.base_path
            )
            self._roll_back(instant)
            rolled_back.append(instant.requested_time)
        return rolled_back

    def failed_writes(self) -> list[HoodieInstant]:
        """Pending ingestion instants, the oldest first."""
        pending = self._meta_client.active_timeline.filter_pending()
        return [i for i in pending if i.action in INGESTION_ACTIONS and not self._is_clustering(i)]

    def rollback(self, instant_time: str, only_pending: bool = False) -> bool:
        """Roll back one instant.

        Args:
            instant_time: The instant.
            only_pending: Leave it alone when it is completed.

        Returns:
            False when there is no such instant.
        """
        self._meta_client.reload_active_timeline()
        self.finish_pending_rollbacks()
        timeline = self._meta_client.active_timeline
        instant = next(
            (i for i in timeline if i.requested_time == instant_time and i.action in INGESTION_ACTIONS), None
        )
        if instant is None or (only_pending and instant.state is State.COMPLETED):
            return False
        self._roll_back(instant)
        return True

    def being_rolled_back(self) -> set[str]:
        """Instant times that pending rollbacks are about to undo."""
        timeline = self._meta_client.active_timeline
        found = set()
        for rollback in timeline.filter_actions(Action.ROLLBACK).filter_pending():
            requested = HoodieInstant(rollback.requested_time, Action.ROLLBACK, State.REQUESTED)
            plan: HoodieRollbackPlan = decode(
                timeline.read_details(requested), HoodieRollbackPlan, timeline.path_of(requested)
            )
            if plan.instant_to_rollback is not None:
                found.add(plan.instant_to_rollback.commit_time)
        return found

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

    def _delete_markers(self, instant_times: Iterable[str]) -> None:
        for instant_time in sorted(instant_times):
            try:
                WriteMarkers(self._meta_client.storage, self._meta_client.meta_path, instant_time).delete_all()
            except HoodieIOException as error:
                logger.warning("left-over markers of finished instant %s were not deleted: %s", instant_time, error)
            else:
                logger.info("deleted left-over markers of finished instant %s", instant_time)

    def finish_pending_rollbacks(self) -> list[str]:
        """Execute again what a writer planned and did not finish, under its own instant."""
        finished = []
        for rollback in self._meta_client.active_timeline.filter_actions(Action.ROLLBACK).filter_pending():
            requested = HoodieInstant(rollback.requested_time, Action.ROLLBACK, State.REQUESTED)
            timeline = self._meta_client.active_timeline
            plan: HoodieRollbackPlan = decode(
                timeline.read_details(requested), HoodieRollbackPlan, timeline.path_of(requested)
            )
            info = plan.instant_to_rollback
            if info is not None and Action(info.action) not in INGESTION_ACTIONS:
                continue
            logger.warning("finishing rollback %s of %s", rollback.requested_time, self._meta_client.base_path)
            with self._metrics.step("finish a rollback", rollback.requested_time) as step:
                metadata = RollbackActionExecutor(self._meta_client).execute(rollback.requested_time)
                step.count(files=metadata.total_files_deleted)
            if info is not None:
                finished.append(info.commit_time)
        return finished

    def _roll_back(self, instant: HoodieInstant) -> None:
        executor = RollbackActionExecutor(self._meta_client, self._config.write.rollback_using_markers)
        with self._metrics.step("roll back", instant.requested_time):
            with self._metrics.step("plan the rollback"):
                rollback_time = executor.schedule(instant)
            with self._metrics.step("delete the files") as step:
                metadata = executor.execute(rollback_time, was_pending=instant.state is not State.COMPLETED)
                step.count(files=metadata.total_files_deleted)
        for partition_path in metadata.partition_metadata:
            self._meta_client.storage.delete_leftovers(
                join(self._meta_client.base_path, partition_path), LEFTOVER_AGE_MS
            )

    def refuse_living_writers(self) -> None:
        """Fail when a pending write's heartbeat is fresh.

        Raises:
            HoodieHeartbeatException: Its writer is alive.
        """
        for instant in self._meta_client.active_timeline.filter_pending():
            if instant.action in INGESTION_ACTIONS:
                self._check_heartbeat(instant)

    def _is_clustering(self, instant: HoodieInstant) -> bool:
        if instant.action is not Action.REPLACE_COMMIT:
            return False
        requested = HoodieInstant(instant.requested_time, Action.REPLACE_COMMIT, State.REQUESTED)
        timeline = self._meta_client.active_timeline
        content = timeline.read_details(requested)
        if not content:
            return False
        metadata: HoodieRequestedReplaceMetadata = decode(
            content, HoodieRequestedReplaceMetadata, timeline.path_of(requested)
        )
        return metadata.clustering_plan is not None

    def _check_nothing_follows(self, instant: HoodieInstant) -> None:
        """Writers clear failed writes before they go on: a pending instant among completed ones has rows of theirs.

        One with a heartbeat is of several writers at once, who did not clear each other's.
        """
        completed = self._meta_client.active_timeline.commits_timeline().filter_completed_instants()
        later = [i.requested_time for i in completed if i.requested_time > instant.requested_time]
        heartbeat_path = self._meta_client.heartbeat_path(instant.requested_time)
        if later and not self._meta_client.storage.exists(heartbeat_path):
            raise HoodieRollbackException(
                f"{instant.action} {instant.requested_time} of {self._meta_client.base_path} is pending "
                f"({self._meta_client.active_timeline.path_of(instant)}), but {later[0]} and others after it are "
                "completed: its completed file may have been lost, and rolling it back would delete its rows. Restore "
                f"that file; or, if the write did fail, call rollback({instant.requested_time!r})"
            )

    def _check_heartbeat(self, instant: HoodieInstant) -> None:
        path = self._meta_client.heartbeat_path(instant.requested_time)
        status = self._meta_client.storage.file_status(path)
        if status is None:
            return
        write = self._config.write
        age_ms = time.time() * 1000 - status.modification_time_ms
        if age_ms <= write.heartbeat_interval_ms * max(1, write.heartbeat_tolerable_misses):
            raise HoodieHeartbeatException(
                f"{instant.action} {instant.requested_time} of {self._meta_client.base_path} is being written: its "
                "heartbeat "
                f"{path} is {age_ms / 1000:.0f} s old. Let its writer finish, or wait until the heartbeat expires"
            )
