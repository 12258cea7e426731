"""The commits whose changes a query wants, in the order of their changes, and the states between them.

The changes of a commit lead from the state before it to the state after it. In tables of version 6 a state has the
commits up to a requested time; in versions 8 and 9 those up to a completion time::

    requested        10   11   12
    completed        15   13   14        (versions 8 and 9)
    order of changes 11   12   10
    before 12             11             after 12: 11, 12

A range pages by these times too, so that it misses no change: a range of version 6 without an end stops before the
oldest pending commit. Hudi's form counts by requested times in every version, as Hudi does.

Hudi: org.apache.hudi.common.table.cdc.HoodieCDCExtractor (its commits).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import in_order, is_after, newest
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.config.read_config import HollowCommitHandling
from hoodie.query.commit_range import (
    CommitRange,
    check_not_undone,
    commit_range,
    completion_of,
    end_before_holes,
    last_archived,
    range_of_completions,
)
from hoodie.query.table_query import TableQuery


@attrs.frozen(eq=False)
class ChangeRange:
    """The commits of a range in the order of their changes.

    Attributes:
        commits: The range.
        instants: Its commits, in the order of their changes.
        times: Requested time of each completed write to the time by which the range counts it.
        states: The states of the table before and after its commits.
        until: The begin of the next range, which misses nothing; None for a table without commits.
    """

    commits: CommitRange
    instants: tuple[HoodieInstant, ...]
    times: Mapping[str, str]
    states: TableStates
    until: str | None

    def time_of(self, instant: HoodieInstant) -> str:
        """The time by which the range counts a commit."""
        return self.times.get(instant.requested_time, instant.requested_time)

    def state_at(self, time: str | None) -> VisibleInstants | None:
        """The instants that readers saw at a time of the range; None for the time before all commits.

        Args:
            time: The time; None for the time before all commits.
        """
        if time is None:
            return None
        return self.states.without(requested for requested, own in self.times.items() if is_after(own, time))


class TableStates:
    """The instants that readers saw before and after each commit.

    Args:
        snapshot: The table.
    """

    def __init__(self, snapshot: TableSnapshot) -> None:
        timeline = snapshot.active_timeline
        self._visible = timeline.visible_instants
        is_on_read = snapshot.table_config.table_type == HoodieTableType.MERGE_ON_READ
        compactions = timeline.filter_actions(Action.COMMIT).times if is_on_read else frozenset()
        self._compactions = frozenset(compactions)
        self.ends = _ends_of(snapshot)
        places = {end: place for place, end in enumerate(in_order(set(self.ends.values())))}
        self._order = sorted(self.ends, key=lambda time: places[self.ends[time]])
        self._places = {time: place for place, time in enumerate(self._order)}

    def in_order(self, instants: Iterable[HoodieInstant]) -> tuple[HoodieInstant, ...]:
        """Commits in the order of their changes."""
        return tuple(sorted(instants, key=lambda instant: self._places[instant.requested_time]))

    def before(self, instant: HoodieInstant) -> VisibleInstants:
        """The state to which the changes of a commit apply."""
        return self.without(self._order[self._places[instant.requested_time] :])

    def after(self, instant: HoodieInstant) -> VisibleInstants:
        """The state with the changes of a commit, and without those of later ones."""
        return self.without(self._order[self._places[instant.requested_time] + 1 :])

    def without(self, hidden: Iterable[str]) -> VisibleInstants:
        """The newest state without some completed instants.

        Args:
            hidden: Their requested times.
        """
        times = frozenset(hidden)
        # Log files may belong to the slice of a compaction that was requested and not completed.
        return self._visible.without(times, times & self._compactions) if times else self._visible


def _ends_of(snapshot: TableSnapshot) -> dict[str, str]:
    """Requested time of each completed write, active and archived, to the time that orders changes."""
    timeline = snapshot.active_timeline
    if not timeline.layout.has_completion_times:
        return {instant.requested_time: instant.requested_time for instant in timeline.completed_writes()}
    archived = snapshot.archived_timeline.completed_writes()
    return {instant.requested_time: completion_of(instant) for instant in (*archived, *timeline.completed_writes())}


def change_range(snapshot: TableSnapshot, query: TableQuery) -> ChangeRange:
    """The commits of a query of changes.

    Args:
        snapshot: The table.
        query: The query.

    Raises:
        HoodieNotSupportedException: The table has no meta columns.
        HoodieException: See `commit_range`.
    """
    timeline = snapshot.active_timeline
    handling = query.config.hollow_commits
    waits = query.changes is None or not query.changes.by_request
    states = TableStates(snapshot)
    times: Mapping[str, str] = states.ends
    if not timeline.layout.has_completion_times:
        if waits and query.times.end is None and handling is HollowCommitHandling.FAIL:
            config = attrs.evolve(query.config, hollow_commits=HollowCommitHandling.BLOCK)
            query = attrs.evolve(query, config=config)
        elif not waits and handling is not HollowCommitHandling.USE_TRANSITION_TIME:
            return _range_of_requests(snapshot, query, states)
        commits = commit_range(snapshot, query)
    elif waits or handling is HollowCommitHandling.USE_TRANSITION_TIME:
        begin, end = query.times.begin_time(timeline.timezone), query.times.end_time(timeline.timezone)
        commits = range_of_completions(snapshot, begin, end, reads_table=False)
    else:
        return _range_of_requests(snapshot, query, states)
    return _of(commits, times, states)


def _range_of_requests(snapshot: TableSnapshot, query: TableQuery, states: TableStates) -> ChangeRange:
    """The commits that were requested in a range of times, as Hudi counts them in every version.

    Raises:
        HoodieException: A commit up to the end is pending, which Hudi would leave out for ever.
    """
    timeline = snapshot.active_timeline
    begin, end = query.times.begin_time(timeline.timezone), query.times.end_time(timeline.timezone)
    for time in (begin, end):
        if time is not None:
            check_not_undone(timeline, time)
    completed = timeline.completed_writes()
    is_complete = True
    if timeline.layout.has_completion_times:
        archived = snapshot.archived_timeline.completed_writes()
        known = completed.times
        every = [*(i for i in archived if i.requested_time not in known), *completed]
    else:
        every = list(completed)
        is_complete = last_archived(snapshot, begin or "0") is None
    if end is None:
        end = newest(instant.requested_time for instant in every) or timeline.newest_archived_time()
    if end is not None:
        end = end_before_holes(timeline, completed, None, end, query.config.hollow_commits)
        end = newest([end, begin]) if begin is not None and is_after(begin, end) else end
    chosen = [
        i
        for i in every
        if (begin is None or is_after(i.requested_time, begin)) and (end is None or not is_after(i.requested_time, end))
    ]
    commits = CommitRange(begin, end, tuple(chosen), False, is_complete)
    return _of(commits, {i.requested_time: i.requested_time for i in every}, states)


def _of(commits: CommitRange, times: Mapping[str, str], states: TableStates) -> ChangeRange:
    reached = [time for time in times.values() if commits.end is None or not is_after(time, commits.end)]
    until = newest([*reached, commits.begin]) if reached or commits.begin is not None else None
    return ChangeRange(commits, states.in_order(commits.instants), times, states, until)
