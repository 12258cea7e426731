"""Schedule compactions and carry them out.

Hudi: org.apache.hudi.client.BaseHoodieTableServiceClient (scheduleCompaction, compact, inlineCompaction).
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import ClassVar

from hoodie.client.planned_service import PlannedService
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.config.write_options import FailedWritesPolicy
from hoodie.exception import HoodieCompactionException
from hoodie.metrics.metrics import Step
from hoodie.table.action.action import has_no_plan
from hoodie.table.action.compact.run_compaction_action_executor import (
    CompactionTakeover,
    RunCompactionActionExecutor,
)
from hoodie.table.action.compact.run_log_compaction_action_executor import (
    LogCompactionTakeover,
    RunLogCompactionActionExecutor,
)
from hoodie.table.action.compact.schedule_compaction_action_executor import (
    OutdatedCompactionPlanException,
    ScheduleCompactionActionExecutor,
)
from hoodie.table.action.compact.schedule_log_compaction_action_executor import ScheduleLogCompactionActionExecutor
from hoodie.table.table_state import refuse_pending_restore

logger = logging.getLogger(__name__)


class CompactionService(PlannedService):
    """The compactions of one client.

    One process at a time carries a compaction out; see `CompactionTakeover`.
    """

    kind: ClassVar[Action] = Action.COMPACTION
    _executor: ClassVar[type[RunCompactionActionExecutor]] = RunCompactionActionExecutor
    _takeover_class: ClassVar[type[CompactionTakeover]] = CompactionTakeover

    # --- scheduling -----------------------------------------------------------------------------------------------

    def schedule(self, is_forced: bool) -> str | None:
        """Plan a compaction.

        Args:
            is_forced: Whether it is planned although it is not due.

        Returns:
            Its instant time; None if nothing was planned.

        Raises:
            HoodieException: See `ScheduleCompactionActionExecutor`.
        """
        snapshot = self._prepare_table()
        if snapshot is None:
            return None
        with self._planning() as step:
            is_lazy = self._session.config.write.failed_writes is FailedWritesPolicy.LAZY
            if is_lazy and self._waits_for_writes(snapshot):
                # While a write is pending nothing is planned.
                self._rollbacks.rollback_expired_writes(snapshot)
            announced = self._announced(
                snapshot,
                f"planning of a {self.kind}",
                lambda table: self._scheduling(table, is_forced),
                OutdatedCompactionPlanException,
            )
            step.count(files=0 if announced is None else len(announced.plan.operations))
        return None if announced is None else announced.instant_time

    def plan_whatever_came(self) -> str | None:
        """See `PlannedService.plan_whatever_came`."""
        return self.schedule(is_forced=True)

    def pending(self) -> list[str]:
        """The instant times of pending compactions, the oldest first; plans whose process died are removed."""
        snapshot = self._prepare_table()
        if snapshot is None:
            return []
        found = []
        for instant in snapshot.active_timeline.filter_actions(self.kind).filter_pending():
            if instant.is_requested and has_no_plan(snapshot, instant):
                # Hudi makes a file before it fills it.
                with self._session.transactions.transaction(snapshot, "removal of an empty plan"):
                    snapshot.active_timeline.withdraw_requested(instant.requested_time, self.kind)
                continue
            found.append(instant.requested_time)
        return found

    # --- carrying out ---------------------------------------------------------------------------------------------

    def run(self, instant_time: str, is_left_behind: bool = True) -> HoodieWriteResult | None:
        """Carry out a pending compaction.

        Args:
            instant_time: Its instant.
            is_left_behind: Whether another call planned it; then the plan is checked first.

        Returns:
            What it wrote; None if it is completed already.

        Raises:
            TakenCompactionException: Another process is carrying it out.
            HoodieException: See `RunCompactionActionExecutor`.
        """
        snapshot = self._prepare_table()
        if snapshot is None:
            raise HoodieCompactionException(
                f"{self._session.config.base_path} is a copy-on-write table, without compactions"
            )
        with self._running(instant_time) as step:
            table, transactions = self._table(snapshot), self._session.transactions
            return self._carried_out(
                snapshot,
                instant_time,
                self._takeover,
                lambda check_alive: self._executor(table, transactions, check_alive),
                is_left_behind,
                step,
            )

    @property
    def _takeover(self) -> CompactionTakeover:
        return self._takeover_class(self._session, self._rollbacks.rollback)

    # --- what differs for log compactions ---------------------------------------------------------------------------

    def _scheduling(self, snapshot: TableSnapshot, is_forced: bool) -> ScheduleCompactionActionExecutor:
        return ScheduleCompactionActionExecutor(self._session.config, snapshot, is_forced)

    def _planning(self) -> AbstractContextManager[Step]:
        return self._session.metrics.step("plan the compaction")

    def _running(self, instant_time: str) -> AbstractContextManager[Step]:
        return self._session.metrics.step("compact", instant_time)

    def _waits_for_writes(self, snapshot: TableSnapshot) -> bool:
        """Whether nothing is planned while a write is pending."""
        return not snapshot.active_timeline.layout.has_completion_times

    # --- the table --------------------------------------------------------------------------------------------------

    def _prepare_table(self) -> TableSnapshot | None:
        """Load and check the table; None for a copy-on-write table."""
        snapshot = self._session.now()
        if snapshot.table_config.table_type is not HoodieTableType.MERGE_ON_READ:
            return None
        refuse_pending_restore(snapshot, "nothing is compacted until it is finished")
        return self._rollbacks.preparation.for_action(snapshot)


class LogCompactionService(CompactionService):
    """The log compactions of one client."""

    kind = Action.LOG_COMPACTION
    _executor = RunLogCompactionActionExecutor
    _takeover_class = LogCompactionTakeover

    def _scheduling(self, snapshot: TableSnapshot, is_forced: bool) -> ScheduleCompactionActionExecutor:
        spec = self._table(snapshot).merge_spec
        return ScheduleLogCompactionActionExecutor(self._session.config, snapshot, spec, is_forced)

    def _planning(self) -> AbstractContextManager[Step]:
        return self._session.metrics.step("plan the log compaction")

    def _running(self, instant_time: str) -> AbstractContextManager[Step]:
        return self._session.metrics.step("compact log files", instant_time)

    def _waits_for_writes(self, snapshot: TableSnapshot) -> bool:
        return True
