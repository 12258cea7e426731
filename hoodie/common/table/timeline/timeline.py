"""A timeline as a value: instants in order, and queries on them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property

import attrs

from hoodie.common.table.timeline.instant import WRITE_ACTIONS, Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import in_order, is_after, is_before, oldest
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.common.util.shown_table import plural


class _Ordered(tuple[HoodieInstant, ...]):
    """Instants in order. A filtered timeline needs no new sorting, and a write filters often."""

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

    Hudi: org.apache.hudi.common.table.timeline.HoodieDefaultTimeline. Differs: it does not read the contents of
    instants; the active timeline does.
    """

    instants: tuple[HoodieInstant, ...] = attrs.field(default=(), converter=_in_order)

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
        return HoodieTimeline(_Ordered(instant for instant in self.instants if predicate(instant)))

    def filter_completed_instants(self) -> HoodieTimeline:
        """The completed instants."""
        return self.filter(lambda instant: instant.state is State.COMPLETED)

    def filter_pending(self) -> HoodieTimeline:
        """The requested and inflight instants."""
        return self.filter(lambda instant: instant.state is not State.COMPLETED)

    def filter_actions(self, *actions: Action) -> HoodieTimeline:
        """The instants of the given actions.

        Args:
            actions: The actions as the instants hold them: a pending compaction is COMPACTION, a completed one COMMIT.
        """
        wanted = frozenset(actions)
        return self.filter(lambda instant: instant.action in wanted)

    def commits_timeline(self) -> HoodieTimeline:
        """The instants that add or replace data, pending compactions and clusterings included.

        Hudi: getWriteTimeline (commit, deltacommit, replacecommit, compaction, logcompaction).
        """
        return self.filter(lambda instant: instant.action in WRITE_ACTIONS)

    def completed_writes(self) -> HoodieTimeline:
        """The completed instants that added or replaced data.

        Hudi: getCommitsTimeline().filterCompletedInstants().
        """
        return self.filter(lambda instant: instant.state is State.COMPLETED and instant.action in WRITE_ACTIONS)

    @property
    def first_instant(self) -> HoodieInstant | None:
        """The oldest instant, None of an empty timeline."""
        return self.instants[0] if self.instants else None

    @property
    def last_instant(self) -> HoodieInstant | None:
        """The newest instant, None of an empty timeline."""
        return self.instants[-1] if self.instants else None

    def find(self, requested_time: str, action: Action | None = None) -> HoodieInstant | None:
        """The instant of a time.

        Args:
            requested_time: An instant time.
            action: The action of the instant; a compaction and the commit that completes it count as one. None takes
                the first instant of that time (a savepoint comes after the commit that it saves).

        Returns:
            The instant, or None.
        """
        for instant in self._by_time.get(requested_time, ()):
            if action is None or instant.action.completed_action is action.completed_action:
                return instant
        return None

    def contains(self, requested_time: str) -> bool:
        """Whether there is an instant of that time."""
        return requested_time in self._by_time

    # --- by time of request ---------------------------------------------------------------------------------------

    def before_or_on(self, requested_time: str) -> HoodieTimeline:
        """The instants up to a time, that time included."""
        return self.filter(lambda instant: not is_after(instant.requested_time, requested_time))

    def after_or_on(self, requested_time: str) -> HoodieTimeline:
        """The instants from a time on, that time included."""
        return self.filter(lambda instant: not is_before(instant.requested_time, requested_time))

    def after(self, requested_time: str) -> HoodieTimeline:
        """The instants after a time, that time excluded."""
        return self.filter(lambda instant: is_after(instant.requested_time, requested_time))

    def before(self, requested_time: str) -> HoodieTimeline:
        """The instants before a time, that time excluded."""
        return self.filter(lambda instant: is_before(instant.requested_time, requested_time))

    # --- by what a reader sees ------------------------------------------------------------------------------------

    def completed_after(self, instant_time: str) -> HoodieTimeline:
        """The completed writes that a reader of an instant does not see.

        Timelines of layout 1 hold no completion times, so the order of the requests decides.
        """
        return self.completed_writes().after(instant_time)

    def completed_before_or_on(self, instant_time: str) -> HoodieTimeline:
        """The completed writes that a reader of an instant sees; see `completed_after`."""
        return self.completed_writes().before_or_on(instant_time)

    def undone_since(self, known: Collection[str], held: Collection[str] = ()) -> list[str]:
        """Earlier completed writes that a rollback or restore has removed since, in order.

        A missing write may have been archived instead, but only if it is older than all remaining ones::

            known 10 20 30 40    completed now 20 40    undone 30

        Args:
            known: Times of completed writes of an earlier timeline.
            held: Times of savepoints. Archiving goes past them, so a savepointed write that remains proves nothing.
        """
        remaining_times = self.completed_writes().times
        start = oldest(remaining_times.difference(held))
        missing_times = (time for time in known if time not in remaining_times)
        return in_order(time for time in missing_times if start is None or not is_before(time, start))

    @cached_property
    def visible_instants(self) -> VisibleInstants:
        """The instants of this timeline whose files readers see; only for a timeline that is not filtered.

        A timeline that is not read from storage counts as one of layout 1.
        """
        return VisibleInstants.of(self.instants)

    @cached_property
    def times(self) -> frozenset[str]:
        """The times of the instants."""
        return frozenset(self._by_time)

    @cached_property
    def savepoint_times(self) -> frozenset[str]:
        """The times of the savepoints, pending ones included."""
        return frozenset(instant.requested_time for instant in self.instants if instant.action is Action.SAVEPOINT)

    @cached_property
    def _by_time(self) -> dict[str, list[HoodieInstant]]:
        by_time: dict[str, list[HoodieInstant]] = {}
        for instant in self.instants:
            by_time.setdefault(instant.requested_time, []).append(instant)
        return by_time
