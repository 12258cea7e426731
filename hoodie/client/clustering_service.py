"""Schedule clusterings and carry them out.

Hudi: org.apache.hudi.client.BaseHoodieTableServiceClient (scheduleClustering, cluster, inlineClustering).
"""

from __future__ import annotations

import logging
from functools import partial

from hoodie.client.planned_service import PlannedService
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.table.clustering_plans import clustering_action, pending_clusterings
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, State
from hoodie.common.table.timeline.instant_time import parse_instant_time
from hoodie.exception import HoodieNotSupportedException
from hoodie.index.bucket.consistent_hashing import refuse_consistent_hashing
from hoodie.index.bucket.table_layout import TableLayout
from hoodie.query.slice_ranges import ranges_of_slices
from hoodie.table.action.action import has_no_plan
from hoodie.table.action.cluster.clustering_explanation import ClusteringExplanation, explain_clustering
from hoodie.table.action.cluster.run_clustering_action_executor import (
    ClusteringTakeover,
    RunClusteringActionExecutor,
)
from hoodie.table.action.cluster.schedule_clustering_action_executor import (
    OutdatedClusteringPlanException,
    ScheduleClusteringActionExecutor,
)
from hoodie.table.table_state import refuse_pending_restore
from hoodie.transaction.heartbeat_client import is_heartbeat_expired

logger = logging.getLogger(__name__)


class ClusteringService(PlannedService):
    """The clusterings of one client.

    One process at a time carries a clustering out; see `ClusteringTakeover`.
    """

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
            announced = self._announced(
                snapshot,
                "planning of a clustering",
                lambda table: ScheduleClusteringActionExecutor(self._session.config, table, max_commits),
                OutdatedClusteringPlanException,
            )
            plan = None if announced is None else announced.plan.clustering_plan
            step.count(files=0 if plan is None else sum(len(group.slices) for group in plan.input_groups))
        return None if announced is None else announced.instant_time

    def plan_whatever_came(self) -> str | None:
        """See `PlannedService.plan_whatever_came`."""
        return self.schedule()

    def explain(self) -> ClusteringExplanation:
        """The work of a clustering that would be planned now; nothing is written."""
        snapshot = self._session.now()
        self._refuse_buckets(snapshot)
        return explain_clustering(self._session.config, snapshot, ranges_of_slices)

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
            table, transactions = self._table(snapshot), self._session.transactions
            try:
                return self._carried_out(
                    snapshot,
                    instant_time,
                    ClusteringTakeover(self._session, partial(self._rollbacks.rollback, keeps_plan=True)),
                    lambda check_alive: RunClusteringActionExecutor(table, transactions, check_alive),
                    is_left_behind,
                    step,
                )
            except OutdatedClusteringPlanException as error:
                logger.warning("%s", error)
                self._withdraw(snapshot, instant_time)
                return None

    def _withdraw(self, snapshot: TableSnapshot, instant_time: str) -> None:
        """Take a plan back of which nothing is left, or nothing was written; an attempt was rolled back."""
        with self._session.transactions.transaction(snapshot, f"withdrawal of clustering {instant_time}"):
            timeline = snapshot.refreshed().active_timeline
            action = clustering_action(timeline)
            found = timeline.find(instant_time, action)
            if found is not None and found.state is State.REQUESTED:
                timeline.withdraw_requested(instant_time, action)

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
