"""The instants that count for readers.

Hudi: org.apache.hudi.common.table.timeline.HoodieTimeline (containsOrBeforeTimelineStarts), and its use in
AbstractTableFileSystemView.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs

from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after, is_before, newest, oldest

_COMPACTIONS = frozenset({Action.COMPACTION, Action.LOG_COMPACTION})


@attrs.frozen
class VisibleInstants:
    """The instants of a timeline whose files readers see.

    Attributes:
        completed: Requested times of completed commits, delta commits and replace commits.
        pending: Requested times of such commits that are requested or inflight.
        pending_compactions: Requested times of requested and inflight compactions. The log files of their slices count
            already, their base files do not.
        start: The first of `completed` and `pending_compactions` without a savepoint. Instants before it have been
            archived, so they are completed. (Archiving may go past a savepointed commit, so the start need not be the
            first instant.) If all have savepoints, as after a restore to one, it is the last of them. None if there is
            no instant. In timeline layout 2 no instant newer than a pending one is archived, so the start is not later
            than the first pending one.
        completion_times: Timeline layout 2: the completion time of each completed instant, by its requested time.
        has_completion_times: Whether the instants are of timeline layout 2.
    """

    completed: frozenset[str]
    pending: frozenset[str]
    pending_compactions: frozenset[str]
    start: str | None
    has_completion_times: bool = False
    completion_times: Mapping[str, str] = attrs.field(factory=dict, repr=False)

    @classmethod
    def of(cls, instants: Iterable[HoodieInstant], *, has_completion_times: bool = False) -> VisibleInstants:
        """The visible instants of an active timeline.

        Args:
            instants: All its instants, of any action and state.
            has_completion_times: Whether it is of timeline layout 2.
        """
        completed: set[str] = set()
        pending: set[str] = set()
        pending_compactions: set[str] = set()
        savepoints: set[str] = set()
        completion_times: dict[str, str] = {}
        for instant in instants:
            if instant.action is Action.SAVEPOINT:
                savepoints.add(instant.requested_time)
            elif instant.action in _COMPACTIONS and instant.is_pending:
                pending_compactions.add(instant.requested_time)
            elif instant.action.completed_action in COMMIT_ACTIONS:
                (completed if instant.is_completed else pending).add(instant.requested_time)
                if instant.completion_time is not None:
                    completion_times[instant.requested_time] = instant.completion_time
        writes = completed | pending_compactions
        start = oldest(writes - savepoints) or newest(writes)
        if has_completion_times and start is not None:
            start = oldest([start, *(pending - completed)])
        return cls(
            frozenset(completed),
            frozenset(pending - completed),
            frozenset(pending_compactions - completed),
            start,
            has_completion_times,
            completion_times,
        )

    def without(self, hidden: Collection[str], compactions: Collection[str] = ()) -> VisibleInstants:
        """The visible instants for readers of a state in which the given completed instants were still pending.

        Args:
            hidden: The requested times of the instants, active and archived.
            compactions: The compactions among them. Log files of their slices may count already.
        """
        return attrs.evolve(
            self,
            completed=self.completed.difference(hidden),
            pending=self.pending.union(hidden).difference(compactions),
            pending_compactions=self.pending_compactions.union(compactions),
        )

    def is_committed(self, instant_time: str) -> bool:
        """Whether base files of an instant are visible: it is completed, or not pending and older than the timeline."""
        if instant_time in self.completed:
            return True
        if instant_time in self.pending or instant_time in self.pending_compactions:
            return False
        return self.start is not None and is_before(instant_time, self.start)

    def has_visible_log_files(self, instant_time: str) -> bool:
        """Whether log files with an instant in their names are visible.

        Layout 1: it is the base instant of their slice, and must be committed, or a pending compaction. Layout 2: it
        wrote them, and must be committed.
        """
        is_slice = not self.has_completion_times and instant_time in self.pending_compactions
        return is_slice or self.is_committed(instant_time)

    def is_seen_at(self, instant_time: str, as_of: str | None) -> bool:
        """Whether a committed instant is visible to readers of the table as of another instant.

        Args:
            instant_time: The instant.
            as_of: The other instant; None for the present.
        """
        return as_of is None or not is_after(instant_time, as_of)
