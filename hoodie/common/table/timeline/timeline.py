"""A timeline as a value: instants in order, and the questions that are asked of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import attrs

from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.common.util.shown_table import plural

__all__ = ["HoodieTimeline"]


class _Ordered(tuple[HoodieInstant, ...]):
    """Instants that are in order: part of a timeline needs no sorting, and a write asks for many parts."""

    __slots__ = ()


def _in_order(instants: Iterable[HoodieInstant]) -> tuple[HoodieInstant, ...]:
    if isinstance(instants, _Ordered):
        return instants
    return _Ordered(sorted(instants, key=lambda instant: instant.sort_key))


@attrs.frozen(slots=False, repr=False)
class HoodieTimeline:
    """Instants in the order of their times; filtering gives a new timeline.

    Iterating over a timeline, its length and ``instant in timeline`` are those of ``instants``.

    Attributes:
        instants: The instants, sorted by time.
        savepoint_times: The times of savepoints of the unfiltered timeline; a filtered one remembers them for
            `contains_or_before_start`.

    Hudi: org.apache.hudi.common.table.timeline.HoodieDefaultTimeline. Differs: holds no reader of instant contents;
    that is the active timeline's.
    """

    instants: tuple[HoodieInstant, ...] = attrs.field(default=(), converter=_in_order)
    savepoint_times: frozenset[str] = attrs.field(kw_only=True, eq=False)

    @savepoint_times.default
    def _own_savepoint_times(self) -> frozenset[str]:
        return frozenset(instant.requested_time for instant in self.instants if instant.action is Action.SAVEPOINT)

    def __iter__(self) -> Iterator[HoodieInstant]:
        return iter(self.instants)

    def __len__(self) -> int:
        return len(self.instants)

    def __contains__(self, instant: object) -> bool:
        return instant in self.instants

    def __repr__(self) -> str:
        span = f", {self.instants[0].requested_time} to {self.instants[-1].requested_time}" if self.instants else ""
        pending = sum(instant.is_pending for instant in self.instants)
        return f"<{type(self).__name__} of {plural(len(self.instants), 'instant')}, {pending} pending{span}>"

    def filter(self, predicate: Callable[[HoodieInstant], bool]) -> HoodieTimeline:
        """The instants for which a predicate holds.

        Args:
            predicate: Called once per instant.
        """
        kept = _Ordered(instant for instant in self.instants if predicate(instant))
        return HoodieTimeline(kept, savepoint_times=self.savepoint_times)

    def filter_completed_instants(self) -> HoodieTimeline:
        """The completed instants."""
        return self.filter(lambda instant: instant.state is State.COMPLETED)

    def filter_pending(self) -> HoodieTimeline:
        """The requested and inflight instants."""
        return self.filter(lambda instant: instant.state is not State.COMPLETED)

    def filter_actions(self, *actions: Action) -> HoodieTimeline:
        """The instants of some actions.

        Args:
            actions: As they stand in the instants: a pending compaction is COMPACTION, a completed one COMMIT.
        """
        wanted = frozenset(actions)
        return self.filter(lambda instant: instant.action in wanted)

    def commits_timeline(self) -> HoodieTimeline:
        """The instants that add or replace data, pending compactions and clusterings included.

        Hudi: getWriteTimeline (commit, deltacommit, replacecommit, compaction, logcompaction).
        """
        return self.filter(lambda instant: instant.action.completed_action in COMMIT_ACTIONS)

    @property
    def first_instant(self) -> HoodieInstant | None:
        """The oldest instant, None of an empty timeline."""
        return self.instants[0] if self.instants else None

    @property
    def last_instant(self) -> HoodieInstant | None:
        """The newest instant, None of an empty timeline."""
        return self.instants[-1] if self.instants else None

    @property
    def is_empty(self) -> bool:
        """Whether there is no instant."""
        return not self.instants

    def find(self, requested_time: str, action: Action | None = None) -> HoodieInstant | None:
        """The instant of a time.

        Args:
            requested_time: An instant time.
            action: Only an instant of this action; a compaction and the commit that completes it count as one. None:
                the first one of that time (a savepoint comes after the commit that it saves).

        Returns:
            The instant, None when there is none.
        """
        for instant in self._by_time.get(requested_time, ()):
            if action is None or instant.action.completed_action is action.completed_action:
                return instant
        return None

    def contains(self, requested_time: str) -> bool:
        """Whether there is an instant of that time."""
        return requested_time in self._by_time

    def contains_or_before_start(self, requested_time: str) -> bool:
        """Whether an instant is here, or so old that it was archived: of a completed timeline, whether it is committed.

        Commits that a savepoint holds back from the archive do not count as the start: younger ones may be archived.
        Where savepoints hold all, as after a restore to one, the last of them is the start.

        Args:
            requested_time: An instant time.
        """
        if requested_time in self._by_time:
            return True
        start = self._start
        return start is not None and requested_time < start

    def in_range_before_or_on(self, requested_time: str) -> HoodieTimeline:
        """The instants up to a time, that time included.

        Args:
            requested_time: An instant time.
        """
        return self.filter(lambda instant: instant.requested_time <= requested_time)

    def in_range(self, after: str, up_to: str) -> HoodieTimeline:
        """The instants of a half-open range of times.

        Args:
            after: Instants of this time and before are left out.
            up_to: Instants after this time are left out.
        """
        return self.filter(lambda instant: after < instant.requested_time <= up_to)

    def after(self, requested_time: str) -> HoodieTimeline:
        """The instants after a time."""
        return self.filter(lambda instant: instant.requested_time > requested_time)

    def before(self, requested_time: str) -> HoodieTimeline:
        """The instants before a time."""
        return self.filter(lambda instant: instant.requested_time < requested_time)

    def reversed(self) -> Iterator[HoodieInstant]:
        """The instants, newest first."""
        return reversed(self.instants)

    @cached_property
    def _by_time(self) -> dict[str, list[HoodieInstant]]:
        by_time: dict[str, list[HoodieInstant]] = {}
        for instant in self.instants:
            by_time.setdefault(instant.requested_time, []).append(instant)
        return by_time

    @cached_property
    def _start(self) -> str | None:
        times = [instant.requested_time for instant in self.instants]
        return next((time for time in times if time not in self.savepoint_times), times[-1] if times else None)
