"""Common parts of compactions, log compactions and clusterings of one client: plans under the lock, and takeovers.

Hudi: org.apache.hudi.client.BaseHoodieTableServiceClient.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import attrs

from hoodie.client.write_result import CommitState, HoodieWriteResult
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.exception import HoodieException
from hoodie.metrics.metrics import Step
from hoodie.table.action.action import AnnouncedAction, Announcement, PlannedAction, announce, carry_out
from hoodie.table.action.rollback.rollback_service import RollbackService
from hoodie.table.action.takeover import Takeover
from hoodie.table.table import HoodieTable
from hoodie.table.table_session import TableSession

logger = logging.getLogger(__name__)

PLANS = 3
"""How often a service is planned again where others planned or wrote meanwhile."""
PlanT = TypeVar("PlanT", bound=attrs.AttrsInstance)


class Completed(Protocol):
    """A service that was carried out and completed."""

    @property
    def instant(self) -> HoodieInstant:
        """Its instant, completed."""

    @property
    def metadata(self) -> HoodieCommitMetadata:
        """Its commit."""

    @property
    def statuses(self) -> tuple[WriteStatus, ...]:
        """The statuses of the new files."""

    @property
    def failures(self) -> tuple[str, ...]:
        """Failures after it was completed, one line each."""


DoneT = TypeVar("DoneT", bound=Completed)


@attrs.define(eq=False, repr=False, slots=False)
class PlannedService(ABC):
    """One kind of planned services of one client.

    Args:
        session: The writer's configuration, engine, index, lock and heartbeats. Plans are made, and services completed,
            while the lock is held.
        rollbacks: Rolls back failed attempts.
    """

    _session: TableSession
    _rollbacks: RollbackService

    @abstractmethod
    def pending(self) -> list[str]:
        """The instant times of pending ones, the oldest first; plans whose process died are removed."""

    @abstractmethod
    def plan_whatever_came(self) -> str | None:
        """Plan one although it is not due.

        Returns:
            Its instant time; None if nothing was planned.
        """

    @abstractmethod
    def run(self, instant_time: str, is_left_behind: bool = True) -> HoodieWriteResult | None:
        """Carry a pending one out.

        Args:
            instant_time: Its instant.
            is_left_behind: Whether another call planned it; then the plan is checked first.

        Returns:
            What it wrote; None if it is completed already.
        """

    def run_all(self) -> list[HoodieWriteResult]:
        """Carry out all pending ones; where none is pending, plan one, though it is not due, and carry it out.

        Returns:
            What they wrote, in their order, without those that another process has completed.

        Raises:
            HoodieException: See `run` and `plan_whatever_came`.
        """
        pending = self.pending()
        done = [self.run(instant_time) for instant_time in pending]
        if not pending:
            planned = self.plan_whatever_came()
            if planned is not None:
                done.append(self.run(planned, is_left_behind=False))
        return [result for result in done if result is not None]

    def _announced(
        self,
        snapshot: TableSnapshot,
        what: str,
        planner_of: Callable[[TableSnapshot], AnnouncedAction[PlanT]],
        outdated: type[HoodieException],
    ) -> Announcement[PlanT] | None:
        """Plan under the lock, and again where others came in between.

        Args:
            snapshot: The table.
            what: A name of the work, for the log.
            planner_of: Makes the action of the table as it is under the lock.
            outdated: Says that others came in between.
        """
        for attempt in range(1, PLANS + 1):
            with self._session.transactions.transaction(snapshot, what) as transaction:
                try:
                    return announce(planner_of(snapshot.refreshed()), transaction.check_held)
                except outdated as error:
                    if attempt == PLANS:
                        raise
                    logger.info("%s", error)
        raise AssertionError("unreachable")

    def _carried_out(
        self,
        snapshot: TableSnapshot,
        instant_time: str,
        takeover: Takeover,
        executor_of: Callable[[Callable[[], None]], PlannedAction[Any, DoneT | None]],
        is_left_behind: bool,
        step: Step,
    ) -> HoodieWriteResult | None:
        """Take an instant over and carry it out; the index forgets a failed attempt.

        Args:
            snapshot: The table.
            instant_time: The instant.
            takeover: Takes it over.
            executor_of: Makes the action of the check that this process counts as alive.
            is_left_behind: See `run`.
            step: Counts what was written.
        """

        def work(check_alive: Callable[[], None]) -> DoneT | None:
            try:
                return carry_out(executor_of(check_alive), instant_time, is_left_behind=is_left_behind)
            except Exception:
                self._session.index.rollback_commit(instant_time)
                raise

        done = takeover.carry_out(snapshot, instant_time, work)
        if done is None:
            return None
        step.count(records=done.metadata.total_records_written, files=len(done.statuses))
        return HoodieWriteResult(
            instant_time=done.instant.requested_time,
            operation=done.metadata.operation_type,
            statuses=done.statuses,
            commit_metadata=done.metadata,
            steps=self._session.metrics.steps,
            commit_state=CommitState(True, done.instant.completion_time, done.failures),
        )

    def _table(self, snapshot: TableSnapshot) -> HoodieTable:
        session = self._session
        return HoodieTable(session.context, session.config, snapshot, session.index, session.metrics)
