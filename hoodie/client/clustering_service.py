"""Schedule clusterings and carry them out.

Hudi: org.apache.hudi.client.BaseHoodieTableServiceClient (scheduleClustering, cluster, inlineClustering).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import attrs

from hoodie.client.write_result import CommitState, HoodieWriteResult
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.clustering_plans import clustering_action, pending_clusterings
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, State
from hoodie.common.table.timeline.instant_time import parse_instant_time
from hoodie.exception import HoodieNotSupportedException
from hoodie.index.bucket.consistent_hashing import refuse_consistent_hashing
from hoodie.index.bucket.table_layout import TableLayout
from hoodie.table.action.action import announce, carry_out, has_no_plan
from hoodie.table.action.cluster.clustering_explanation import ClusteringExplanation, explain_clustering
from hoodie.table.action.cluster.run_clustering_action_executor import (
    Clustered,
    ClusteringTakeover,
    RunClusteringActionExecutor,
)
from hoodie.table.action.cluster.schedule_clustering_action_executor import (
    OutdatedClusteringPlanException,
    ScheduleClusteringActionExecutor,
)
from hoodie.table.action.rollback.rollback_service import RollbackService
from hoodie.table.table import HoodieTable
from hoodie.table.table_session import TableSession
from hoodie.table.table_state import refuse_pending_restore
from hoodie.transaction.heartbeat_client import is_heartbeat_expired

logger = logging.getLogger(__name__)

_PLANS = 3
"""How often a clustering is planned again where others planned services meanwhile."""


@attrs.define(eq=False, repr=False, slots=False)
class ClusteringService:
    """The clusterings of one client.

    One process at a time carries a clustering out; see `ClusteringTakeover`.

    Args:
        session: The writer's configuration, engine, index, lock and heartbeats. Plans are made, and clusterings
            completed, while the lock is held.
        rollbacks: Rolls back failed attempts.
    """

    _session: TableSession
    _rollbacks: RollbackService

    def schedule(self, max_commits: int | None = None) -> str | None:
        """Plan a clustering.

        Args:
            max_commits: So many commits must have come after the last clustering; None plans whatever came.

        Returns:
            Its instant time; None if nothing was planned.

        Raises:
            HoodieException: See `ScheduleClusteringActionExecutor`.
        """
        snapshot = self._prepare_table()
        with self._session.metrics.step("plan the clustering") as step:
            for attempt in range(1, _PLANS + 1):
                with self._session.transactions.transaction(snapshot, "planning of a clustering") as transaction:
                    executor = ScheduleClusteringActionExecutor(self._session.config, snapshot.refreshed(), max_commits)
                    try:
                        announced = announce(executor, transaction.check_held)
                    except OutdatedClusteringPlanException as error:
                        if attempt == _PLANS:
                            raise
                        logger.info("%s", error)
                        continue
                plan = None if announced is None else announced.plan.clustering_plan
                step.count(files=0 if plan is None else sum(len(group.slices) for group in plan.input_groups))
                return None if announced is None else announced.instant_time
        raise AssertionError("unreachable")

    def explain(self) -> ClusteringExplanation:
        """The work of a clustering that would be planned now; nothing is written."""
        snapshot = self._session.now()
        self._refuse_buckets(snapshot)
        return explain_clustering(self._session.config, snapshot)

    def pending(self) -> list[str]:
        """The instant times of pending clusterings, the oldest first; plans whose process died are removed."""
        snapshot = self._prepare_table()
        timeline = snapshot.active_timeline
        # In layout 1 the rollback of failed writes removes them.
        for instant in timeline.filter_actions(Action.CLUSTERING).filter_pending():
            if instant.is_requested and has_no_plan(snapshot, instant):
                self._withdraw(snapshot, instant.requested_time)
        return [one.instant.requested_time for one in pending_clusterings(timeline)]

    def give_up_expired(self, snapshot: TableSnapshot) -> None:
        """Roll plans of dead processes back for good, with ``hoodie.clustering.enable.expirations``.

        Args:
            snapshot: The table.

        Raises:
            HoodieException: A rollback failed.
        """
        clustering = self._session.config.clustering
        if not clustering.enable_expirations:
            return
        timeline = snapshot.active_timeline
        for one in pending_clusterings(timeline):
            time = one.instant.requested_time
            age = timeline.clock() - parse_instant_time(time, timeline.timezone)
            is_old = age.total_seconds() >= clustering.expiration_threshold_mins * 60
            if is_old and is_heartbeat_expired(snapshot, time, self._session.config.write):
                logger.warning("giving clustering %s of %s up: its process is dead", time, snapshot.base_path)
                self._rollbacks.rollback(snapshot, time)

    def run_all(self) -> list[HoodieWriteResult]:
        """Carry out all pending clusterings; where none is pending, plan one, and carry it out.

        Returns:
            What they wrote, in their order, without those that another process has completed.

        Raises:
            HoodieException: See `run` and `schedule`.
        """
        pending = self.pending()
        done = [self.run(instant_time) for instant_time in pending]
        if not pending:
            planned = self.schedule()
            if planned is not None:
                done.append(self.run(planned, is_left_behind=False))
        return [result for result in done if result is not None]

    def run(self, instant_time: str, is_left_behind: bool = True) -> HoodieWriteResult | None:
        """Carry out a pending clustering.

        Args:
            instant_time: Its instant.
            is_left_behind: Whether another call planned it; then the table is checked first.

        Returns:
            What it wrote; None if it is completed already, or if nothing is left of what it was to rewrite: its plan is
            withdrawn then.

        Raises:
            TakenClusteringException: Another process is carrying it out.
            HoodieException: See `RunClusteringActionExecutor`.
        """
        snapshot = self._prepare_table()
        with self._session.metrics.step("cluster", instant_time) as step:
            table = HoodieTable(
                self._session.context, self._session.config, snapshot, self._session.index, self._session.metrics
            )

            def work(check_alive: Callable[[], None]) -> Clustered | None:
                executor = RunClusteringActionExecutor(table, self._session.transactions, check_alive)
                try:
                    return carry_out(executor, instant_time, is_left_behind=is_left_behind)
                except Exception:
                    self._session.index.rollback_commit(instant_time)
                    raise

            try:
                done = self._takeover.carry_out(snapshot, instant_time, work)
            except OutdatedClusteringPlanException as error:
                logger.warning("%s", error)
                self._withdraw(snapshot, instant_time)
                return None
            if done is not None:
                step.count(records=done.metadata.total_records_written, files=len(done.statuses))
        return None if done is None else self._result_of(done)

    def _withdraw(self, snapshot: TableSnapshot, instant_time: str) -> None:
        """Take a plan back of which nothing is left, or nothing was written; an attempt was rolled back."""
        with self._session.transactions.transaction(snapshot, f"withdrawal of clustering {instant_time}"):
            timeline = snapshot.refreshed().active_timeline
            action = clustering_action(timeline)
            found = timeline.find(instant_time, action)
            if found is not None and found.state is State.REQUESTED:
                timeline.withdraw_requested(instant_time, action)

    def _result_of(self, done: Clustered) -> HoodieWriteResult:
        return HoodieWriteResult(
            instant_time=done.instant.requested_time,
            operation=WriteOperationType.CLUSTER,
            statuses=done.statuses,
            commit_metadata=done.metadata,
            steps=self._session.metrics.steps,
            commit_state=CommitState(True, done.instant.completion_time, done.failures),
        )

    @property
    def _takeover(self) -> ClusteringTakeover:
        return ClusteringTakeover(self._session, partial(self._rollbacks.rollback, keeps_plan=True))

    def _prepare_table(self) -> TableSnapshot:
        """Load and check the table.

        Raises:
            HoodieNotSupportedException: See `_refuse_buckets`.
        """
        snapshot = self._session.now()
        refuse_pending_restore(snapshot, "nothing is clustered until it is finished")
        self._refuse_buckets(snapshot)
        return self._rollbacks.preparation.for_action(snapshot)

    def _refuse_buckets(self, snapshot: TableSnapshot) -> None:
        """Refuse to cluster a table with buckets, which not all clients are told of.

        Raises:
            HoodieNotSupportedException: The file groups of a bucket index are what the keys say.
        """
        refuse_consistent_hashing(snapshot)
        if self._session.index.names_file_groups or TableLayout(snapshot).has_buckets:
            raise HoodieNotSupportedException(
                f"{snapshot.base_path} has a bucket index: a key says which file group it is in, so file groups are "
                "not put together by a clustering. Choose another number of buckets, or another index"
            )
