"""Find the pending instants of failed writers, and tell whether the writer of an instant may be alive.

Hudi: org.apache.hudi.client.BaseHoodieTableServiceClient (getInstantsToRollback).
"""

from __future__ import annotations

import attrs

from hoodie.common.table.clustering_plans import is_clustering
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_before
from hoodie.config.write_options import FailedWritesPolicy, HoodieWriteOptions
from hoodie.exception import HoodieHeartbeatException
from hoodie.table.table_state import being_rolled_back
from hoodie.transaction.heartbeat_client import heartbeat_age_ms, is_heartbeat_expired
from hoodie.transaction.lock.single_writer_lock import SEVERAL_WRITERS

WRITE_ACTIONS = frozenset({*COMMIT_ACTIONS, Action.CLUSTERING, Action.COMPACTION, Action.LOG_COMPACTION})
"""Actions that are rolled back, pending or completed; in timeline layout 2 a pending clustering has its own."""


@attrs.frozen
class FailedWrites:
    """Tells failed writes from those of living writers.

    Attributes:
        options: The policy, and how old the heartbeat of a living writer can be.
    """

    options: HoodieWriteOptions

    def of(self, snapshot: TableSnapshot) -> list[HoodieInstant]:
        """Pending ingestion instants, the oldest first.

        Args:
            snapshot: The table.
        """
        timeline = snapshot.active_timeline
        pending = timeline.filter_actions(*COMMIT_ACTIONS).filter_pending()
        return [instant for instant in pending if not is_clustering(timeline, instant)]

    def expired(self, snapshot: TableSnapshot) -> list[HoodieInstant]:
        """The instants whose heartbeat has expired or is missing.

        Args:
            snapshot: The table.
        """
        return [
            instant
            for instant in self.of(snapshot)
            if is_heartbeat_expired(snapshot, instant.requested_time, self.options)
        ]

    def is_dead(self, snapshot: TableSnapshot, instant: HoodieInstant) -> bool:
        """Whether the writer of a pending instant is dead, or another one is rolling its instant back.

        Args:
            snapshot: The table.
            instant: The instant.

        Raises:
            HoodieHeartbeatException: EAGER takes pending writes for failed, and the heartbeat of this one is fresh.
        """
        if instant.requested_time in being_rolled_back(snapshot.active_timeline):
            return True
        if instant not in self.of(snapshot):
            return False
        if self.options.failed_writes is FailedWritesPolicy.EAGER:
            self.check_heartbeat(snapshot, instant)
            return True
        is_lazy = self.options.failed_writes is FailedWritesPolicy.LAZY
        return is_lazy and is_heartbeat_expired(snapshot, instant.requested_time, self.options)

    def refuse_living_writers(self, snapshot: TableSnapshot, before: str | None = None) -> None:
        """Fail when a pending write's heartbeat is fresh.

        Args:
            snapshot: The table.
            before: Only writes that are older than this instant time are looked at; None for all.

        Raises:
            HoodieHeartbeatException: The writer of a pending write is alive.
        """
        for instant in snapshot.active_timeline.filter_pending():
            if instant.action in WRITE_ACTIONS and (before is None or is_before(instant.requested_time, before)):
                self.check_heartbeat(snapshot, instant)

    def check_heartbeat(self, snapshot: TableSnapshot, instant: HoodieInstant) -> None:
        """Fail when the heartbeat of a pending write is fresh.

        Args:
            snapshot: The table.
            instant: The write.

        Raises:
            HoodieHeartbeatException: Its writer is alive.
        """
        old_ms = heartbeat_age_ms(snapshot, instant.requested_time)
        if old_ms <= self.options.heartbeat_tolerance_ms:
            path = snapshot.heartbeat_path(instant.requested_time)
            raise HoodieHeartbeatException(
                f"{instant.action} {instant.requested_time} of {snapshot.base_path} is being written: its "
                f"heartbeat {path} is {old_ms / 1000:.0f} s old. Let its writer finish, or wait until the heartbeat "
                f"expires. {SEVERAL_WRITERS}"
            )
