from __future__ import annotations

import pickle

from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.timeline import HoodieTimeline


def instant(time: int, action: Action = Action.COMMIT, state: State = State.COMPLETED) -> HoodieInstant:
    return HoodieInstant(f"{time:017d}", action, state)


def times(timeline: HoodieTimeline) -> list[int]:
    return [int(found.requested_time) for found in timeline]


MIXED = HoodieTimeline(
    [
        instant(5, Action.COMPACTION, State.REQUESTED),
        instant(3, Action.CLEAN),
        instant(1),
        instant(1, Action.SAVEPOINT),
        instant(2, Action.DELTA_COMMIT, State.INFLIGHT),
        instant(4, Action.REPLACE_COMMIT),
        instant(6, Action.ROLLBACK, State.REQUESTED),
    ]
)


def test_instants_are_in_the_order_of_their_times() -> None:
    assert times(MIXED) == [1, 1, 2, 3, 4, 5, 6]
    assert MIXED.first_instant == instant(1) and len(MIXED) == 7
    assert MIXED.last_instant == instant(6, Action.ROLLBACK, State.REQUESTED)
    assert instant(3, Action.CLEAN) in MIXED and instant(3) not in MIXED
    assert [int(found.requested_time) for found in reversed(MIXED.instants)] == [6, 5, 4, 3, 2, 1, 1]


def test_an_empty_timeline_has_no_first_and_last() -> None:
    empty = HoodieTimeline()
    assert (empty.first_instant, empty.last_instant, len(empty), bool(empty)) == (None, None, 0, False)
    assert not empty.visible_instants.is_committed("0")
    assert empty.undone_since(["1"]) == ["1"]


def test_filters() -> None:
    assert times(MIXED.filter_completed_instants()) == [1, 1, 3, 4]
    assert times(MIXED.filter_pending()) == [2, 5, 6]
    assert times(MIXED.commits_timeline()) == [1, 2, 4, 5]
    assert times(MIXED.filter_actions(Action.CLEAN, Action.ROLLBACK)) == [3, 6]
    assert times(MIXED.completed_writes()) == [1, 4]


def test_instants_are_told_by_the_order_of_their_requests() -> None:
    assert times(MIXED.before_or_on(f"{3:017d}")) == [1, 1, 2, 3]
    assert times(MIXED.after_or_on(f"{5:017d}")) == [5, 6]
    assert times(MIXED.after(f"{4:017d}")) == [5, 6]
    assert times(MIXED.before(f"{2:017d}")) == [1, 1]
    assert MIXED.times == {f"{time:017d}" for time in range(1, 7)}
    assert MIXED.savepoint_times == {f"{1:017d}"}


def test_what_a_reader_of_an_instant_does_not_see_was_completed_after_it() -> None:
    assert times(MIXED.completed_after(f"{1:017d}")) == [4]
    assert times(MIXED.completed_after("")) == [1, 4]
    assert times(MIXED.completed_before_or_on(f"{3:017d}")) == [1]
    seen = MIXED.visible_instants
    assert seen.is_seen_at(f"{4:017d}", f"{4:017d}") and not seen.is_seen_at(f"{4:017d}", f"{3:017d}")
    assert seen.is_seen_at(f"{4:017d}", None)


def test_what_is_gone_was_undone_unless_it_is_older_than_all_that_is_left() -> None:
    now = HoodieTimeline([instant(20), instant(30, Action.CLEAN), instant(40), instant(50, state=State.INFLIGHT)])
    known = [f"{time:017d}" for time in (50, 40, 30, 20, 10)]
    assert now.undone_since(known) == [f"{30:017d}", f"{50:017d}"]


def test_a_savepointed_commit_that_archiving_goes_past_does_not_tell_what_was_undone() -> None:
    now = HoodieTimeline([instant(10), instant(10, Action.SAVEPOINT), instant(30)])
    assert now.undone_since([f"{20:017d}"]) == [f"{20:017d}"]
    assert now.undone_since([f"{20:017d}"], held=now.savepoint_times) == []
    assert now.undone_since([f"{20:017d}"], held=now.times) == [f"{20:017d}"]


def test_an_instant_is_found_by_time_and_by_comparable_action() -> None:
    assert MIXED.find(f"{1:017d}") == instant(1)
    assert MIXED.find(f"{1:017d}", Action.SAVEPOINT) == instant(1, Action.SAVEPOINT)
    assert MIXED.find(f"{5:017d}", Action.COMMIT) == instant(5, Action.COMPACTION, State.REQUESTED)
    assert MIXED.find(f"{3:017d}", Action.COMMIT) is None
    assert MIXED.find(f"{9:017d}") is None


def test_what_is_older_than_the_timeline_was_archived() -> None:
    timeline = HoodieTimeline([instant(10), instant(12)])
    assert [timeline.visible_instants.is_committed(f"{time:017d}") for time in (9, 10, 11, 12, 13)] == [
        True,
        True,
        False,
        True,
        False,
    ]


def test_a_savepointed_commit_that_stayed_behind_is_not_the_start() -> None:
    timeline = HoodieTimeline([instant(3), instant(3, Action.SAVEPOINT), instant(10), instant(12)])
    assert [timeline.visible_instants.is_committed(f"{time:017d}") for time in (2, 3, 5, 9, 10, 11)] == [
        True,
        True,
        True,
        True,
        True,
        False,
    ]


def test_timelines_are_values() -> None:
    assert HoodieTimeline([instant(2), instant(1)]) == HoodieTimeline([instant(1), instant(2)])
    assert pickle.loads(pickle.dumps(MIXED)) == MIXED
    assert pickle.loads(pickle.dumps(MIXED)).find(f"{1:017d}") == instant(1)
    assert repr(MIXED) == "<HoodieTimeline of 7 instants, 3 pending, 00000000000000001 to 00000000000000006>"
    assert str(instant(1)) == "00000000000000001 commit (COMPLETED)"
