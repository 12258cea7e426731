"""One life of every action on a table other than a write: announce it, look again, then carry it out.

| step | what happens | where |
|---|---|---|
| plan | what would be done; nothing, if nothing is due | `AnnouncedAction.plan` |
| announce | others can see the plan | `AnnouncedAction.publish` |
| look | the timeline again: stop where others came first | `AnnouncedAction.refuse_rivals` |
| take | of long actions: one living process at a time | `hoodie.table.action.takeover.Takeover` |
| do | begin, then do the work, from where an earlier attempt stopped | `PlannedAction.begin`, `PlannedAction.do` |
| complete | the metadata table, then the completed file | `hoodie.table.action.completion` |
| tell | metrics, callbacks, services that are due | `hoodie.table.action.listeners` |

A savepoint is complete once it is announced: an `AnnouncedAction`. A compaction is planned by one class and carried out
by another one, maybe in another process: an `AnnouncedAction` and a `PlannedAction`. Cleans, rollbacks and restores are
both: `TableAction`. An indexing plans and begins under the lock, and uses the steps from `take` on.

Other actions may rely on what a clean, a rollback, a restore or a savepoint takes away or keeps. No lock keeps all of
them apart: a lock may be lost, a single writer has none, and a clean deletes its files without one. Four rules keep
them apart instead; ``docs/decisions/0052-announce-then-look.md`` gives their reasons:

1. An action announces itself by a file that others see, and then lists the timeline again. It stops when another action
   came meanwhile that relies on what it takes away. So of two conflicting actions the later one sees the earlier one.
2. An announcement is withdrawn only as long as no process has begun to carry it out.
3. A process that finishes another process's action checks it first, as its author should have.
4. An archived instant does not count as part of the active timeline, even while its files are still there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Generic, TypeVar

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieCorruptedDataException, HoodieException

_FEWEST_DIGITS = 14
"""Of the time of an instant that a plan names."""
PlanT = TypeVar("PlanT", bound=attrs.AttrsInstance)
ResultT = TypeVar("ResultT")


def no_check() -> None:
    """Does nothing; takes the place of the check of a lock where there is no lock."""


class BaseAction(ABC):
    """An action on a table.

    Args:
        snapshot: The table.

    Attributes:
        kind: The action's name on the timeline.
        snapshot: The table as this action saw it last.

    Hudi: org.apache.hudi.table.action.BaseActionExecutor. Differs: planning and executing may be one class.
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


class AnnouncedAction(BaseAction, Generic[PlanT]):
    """A plan for a table that is made visible to others, and withdrawn where they are in its way."""

    @abstractmethod
    def plan(self) -> PlanT | None:
        """Plan the action; None when nothing is due.

        Raises:
            HoodieException: It cannot be done.
        """

    @abstractmethod
    def publish(self, plan: PlanT, check: Callable[[], None]) -> str:
        """Make a plan visible to others.

        Args:
            plan: The plan.
            check: Raises where the lock was lost. An action whose plan counts as soon as others see it calls this.

        Returns:
            The action's own instant time.
        """

    @abstractmethod
    def refuse_rivals(self, plan: PlanT, instant_time: str, before: TableSnapshot) -> None:
        """Stop where others did, or announced, what conflicts with this action; see rule 1.

        Args:
            plan: The plan.
            instant_time: The action's own instant time.
            before: The table for which it was planned.

        Raises:
            HoodieException: The plan must not be carried out.
        """

    def withdraw(self, instant_time: str) -> None:
        """Take the announcement back; see rule 2."""
        self.snapshot.active_timeline.withdraw_requested(instant_time, self.kind)


class PlannedAction(BaseAction, Generic[PlanT, ResultT]):
    """An action that is carried out by the plan of a pending instant."""

    @abstractmethod
    def read_plan(self, instant_time: str) -> PlanT:
        """The plan of a pending instant, checked: everything that it names belongs to the table.

        Raises:
            HoodieCorruptedDataException: It is damaged, or names something that does not belong to the table.
        """

    @abstractmethod
    def refuse_left_behind(self, plan: PlanT, instant_time: str, check: Callable[[], None]) -> None:
        """Stop where a plan of another process must not be carried out, or not any more; see rule 3.

        Args:
            plan: The plan.
            instant_time: The action's own instant time.
            check: Raises where the lock was lost.

        Raises:
            HoodieException: The plan must not be carried out.
        """

    def begin(self, plan: PlanT, instant_time: str) -> None:
        """Make a requested instant inflight."""
        self.snapshot.active_timeline.transition_requested_to_inflight(instant_time, self.kind)

    @abstractmethod
    def do(self, plan: PlanT, instant_time: str, is_left_behind: bool) -> ResultT:
        """Carry out the plan from where an earlier attempt stopped, and complete the instant.

        Args:
            plan: The plan.
            instant_time: The action's own instant time, which is inflight.
            is_left_behind: Whether another process made the plan.
        """

    @abstractmethod
    def already_ended(self, instant_time: str) -> ResultT:
        """The result, or an error, where there is no such pending instant any more."""


class TableAction(AnnouncedAction[PlanT], PlannedAction[PlanT, ResultT], Generic[PlanT, ResultT]):
    """An action that is announced by a plan and then carried out."""

    def publish(self, plan: PlanT, check: Callable[[], None]) -> str:
        """Make the plan visible as the content of a requested instant; see `AnnouncedAction.publish`."""
        return self.snapshot.active_timeline.create_new_instant_time(self.kind, plan)

    @abstractmethod
    def refuse_rivals(self, plan: PlanT, instant_time: str, before: TableSnapshot | None) -> None:
        """See `AnnouncedAction.refuse_rivals`; before is None for a plan that another process left behind."""

    def refuse_left_behind(self, plan: PlanT, instant_time: str, check: Callable[[], None]) -> None:
        """See `PlannedAction.refuse_left_behind`; such a plan is withdrawn."""
        with _withdrawn_by_errors(self, instant_time):
            check()
            self.refuse_rivals(plan, instant_time, None)


@attrs.frozen
class Announcement(Generic[PlanT]):
    """An action that `announce` has made visible to other writers.

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
        The announcement that others see now; None when nothing is due.

    Raises:
        HoodieException: The action cannot be done, or conflicts with another one: the plan was withdrawn.
    """
    plan = action.plan()
    if plan is None:
        return None
    before = action.snapshot
    instant_time = action.publish(plan, check)
    action.look()
    with _withdrawn_by_errors(action, instant_time):
        check()
        action.refuse_rivals(plan, instant_time, before)
    return Announcement(instant_time, plan)


def carry_out(
    action: PlannedAction[PlanT, ResultT],
    instant_time: str,
    *,
    is_left_behind: bool = False,
    check: Callable[[], None] = no_check,
) -> ResultT:
    """Carry out an announced action from where an earlier attempt stopped: every step may be done twice.

    Args:
        action: The action; it looks at the table again.
        instant_time: Its own instant time.
        is_left_behind: Whether another process planned it; see rule 3.
        check: Raises where the lock was lost, under which a plan that was left behind is begun.

    Raises:
        HoodieException: The action failed. Call again if storage failed.
    """
    instant = action.look().active_timeline.find(instant_time, action.kind)
    if instant is None or instant.is_completed:
        return action.already_ended(instant_time)
    plan = action.read_plan(instant_time)
    if instant.is_requested:
        if is_left_behind:
            action.refuse_left_behind(plan, instant_time, check)
        action.begin(plan, instant_time)
    return action.do(plan, instant_time, is_left_behind)


def has_no_plan(snapshot: TableSnapshot, instant: HoodieInstant) -> bool:
    """Whether a pending instant has an empty requested file: its process died while it planned, and did nothing.

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


@contextmanager
def _withdrawn_by_errors(action: AnnouncedAction[PlanT], instant_time: str) -> Iterator[None]:
    """Withdraw an announcement where a block fails."""
    try:
        yield
    except HoodieException:
        action.withdraw(instant_time)
        raise
