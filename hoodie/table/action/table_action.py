"""One life for every action that takes something from a table: announce it, look again, then carry it out.

Others may count on what a clean, a rollback, a restore or a savepoint takes away or keeps, and no lock keeps all of
them apart: it may be lost, a single writer has none, and a clean deletes its files without one. Four rules do; they are
told, with their reasons, in ``docs/decisions/0052-announce-then-look.md``:

1. An action is announced by a file that others see, and then the timeline is listed again. What came meanwhile and
   counts on what goes stops the action. So of two actions in each other's way the later one sees the earlier one.
2. An announcement stays until nobody acts on it: it is withdrawn only as long as nobody has begun to carry it out.
3. A process that finishes what another one announced looks first, as that one should have.
4. What is in the archive is not in the active timeline, though its files are still there.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieCorruptedDataException, HoodieException

__all__ = [
    "AnnouncedAction",
    "Announcement",
    "TableAction",
    "announce",
    "carry_out",
    "check_planned_instant",
    "has_no_plan",
    "no_check",
]

logger = logging.getLogger(__name__)

_FEWEST_DIGITS = 14
"""Of the time of an instant that a plan names."""
PlanT = TypeVar("PlanT")
ResultT = TypeVar("ResultT")


def no_check() -> None:
    """Stands for the check of a lock where there is none."""


class AnnouncedAction(ABC, Generic[PlanT]):
    """What is planned for a table, made visible to others, and taken back where they are in its way.

    Args:
        snapshot: The table.

    Attributes:
        kind: The action as the timeline has it.
        snapshot: The table as this action saw it last.

    Hudi: org.apache.hudi.table.action.BaseActionExecutor. Differs: planning and executing are one class.
    """

    kind: ClassVar[Action]

    def __init__(self, snapshot: TableSnapshot) -> None:
        self.snapshot = snapshot

    def look(self) -> TableSnapshot:
        """Look at the table again.

        Raises:
            HoodieIOException: Storage failed.
        """
        self.snapshot = self.snapshot.refreshed()
        return self.snapshot

    @abstractmethod
    def plan(self) -> PlanT | None:
        """What would be done to the table; None when nothing is due.

        Raises:
            HoodieException: It cannot be done.
        """

    @abstractmethod
    def publish(self, plan: PlanT, check: Callable[[], None]) -> str:
        """Make a plan visible to others.

        Args:
            plan: The plan.
            check: Raises where the lock was lost; for an action whose plan counts as soon as it can be seen.

        Returns:
            The action's own instant time.
        """

    @abstractmethod
    def refuse_rivals(self, plan: PlanT, instant_time: str, before: TableSnapshot | None) -> None:
        """Stop where others did, or announced, what this action does not go with; see rule 1.

        Args:
            plan: The plan.
            instant_time: The action's own instant time.
            before: The table for which it was planned; None for a plan that another process left behind.

        Raises:
            HoodieException: The plan must not be carried out.
        """

    def withdraw(self, instant_time: str) -> None:
        """Take the announcement back; see rule 2."""
        self.snapshot.active_timeline.withdraw_requested(instant_time, self.kind)


class TableAction(AnnouncedAction[PlanT], Generic[PlanT, ResultT]):
    """An action that is announced by a plan and then carried out."""

    @abstractmethod
    def read_plan(self, instant_time: str) -> PlanT:
        """The plan of a pending instant; everything that it names is the table's.

        Raises:
            HoodieCorruptedDataException: It is damaged, or names what is not the table's.
        """

    def begin(self, plan: PlanT, instant_time: str) -> None:
        """Make a requested instant inflight."""
        self.snapshot.active_timeline.transition_requested_to_inflight(instant_time, self.kind)

    @abstractmethod
    def do(self, plan: PlanT, instant_time: str, is_left_behind: bool) -> ResultT:
        """Do what is planned, from wherever an earlier attempt stopped, and complete the instant.

        Args:
            plan: The plan.
            instant_time: The action's own instant time, which is inflight.
            is_left_behind: Whether another process made the plan.
        """

    @abstractmethod
    def already_ended(self, instant_time: str) -> ResultT:
        """The answer where there is no such pending instant any more, or an error."""


@attrs.frozen
class Announcement(Generic[PlanT]):
    """What `announce` made visible.

    Attributes:
        instant_time: The action's own instant time.
        plan: The plan.
    """

    instant_time: str
    plan: PlanT


def announce(action: AnnouncedAction[PlanT], check: Callable[[], None] = no_check) -> Announcement[PlanT] | None:
    """Plan an action, make the plan visible, and look again.

    Args:
        action: The action.
        check: Raises where the lock was lost, under which the action is planned.

    Returns:
        What others see now; None when nothing is due.

    Raises:
        HoodieException: It cannot be done, or others were in its way: the plan was withdrawn.
    """
    plan = action.plan()
    if plan is None:
        return None
    before = action.snapshot
    instant_time = action.publish(plan, check)
    action.look()
    _look_for_rivals(action, plan, instant_time, before, check)
    return Announcement(instant_time, plan)


def carry_out(
    action: TableAction[PlanT, ResultT],
    instant_time: str,
    *,
    is_left_behind: bool = False,
    check: Callable[[], None] = no_check,
) -> ResultT:
    """Carry out what is announced, from wherever an earlier attempt stopped: every step may be done twice.

    Args:
        action: The action; it looks at the table again.
        instant_time: Its own instant time.
        is_left_behind: Whether another process planned it; see rule 3.
        check: Raises where the lock was lost, under which a plan that was left behind is begun.

    Raises:
        HoodieException: What the action raises. Call again where storage failed.
    """
    instant = action.look().active_timeline.find(instant_time, action.kind)
    if instant is None or instant.is_completed:
        return action.already_ended(instant_time)
    plan = action.read_plan(instant_time)
    if instant.is_requested:
        if is_left_behind:
            _look_for_rivals(action, plan, instant_time, None, check)
        action.begin(plan, instant_time)
    return action.do(plan, instant_time, is_left_behind)


def has_no_plan(snapshot: TableSnapshot, instant: HoodieInstant) -> bool:
    """Whether a pending instant has an empty requested file: its process died over the plan, and nothing was done.

    Args:
        snapshot: The table.
        instant: A pending clean or rollback.
    """
    timeline = snapshot.active_timeline
    requested = instant.in_state(State.REQUESTED)
    return snapshot.storage.exists(timeline.path_of(requested)) and not timeline.read_details(requested)


def check_planned_instant(instant_time: str, action: str, source: str) -> None:
    """Refuse a plan that undoes something other than an instant: files are deleted by the instant's time.

    Args:
        instant_time: The time that the plan names, which becomes part of paths that are deleted: it must be digits.
        action: The action that the plan names.
        source: The plan's file, for the error message.

    Raises:
        HoodieCorruptedDataException: It is no instant.
    """
    is_time = instant_time.isascii() and instant_time.isdecimal() and len(instant_time) >= _FEWEST_DIGITS
    if not is_time or action not in tuple(Action):
        raise HoodieCorruptedDataException(
            f"the plan {source} undoes {action!r} {instant_time!r}, which is no instant; nothing was deleted"
        )


def _look_for_rivals(
    action: AnnouncedAction[PlanT],
    plan: PlanT,
    instant_time: str,
    before: TableSnapshot | None,
    check: Callable[[], None],
) -> None:
    try:
        check()
        action.refuse_rivals(plan, instant_time, before)
    except HoodieException:
        action.withdraw(instant_time)
        raise
