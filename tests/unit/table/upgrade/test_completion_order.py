"""Completion times of instants whose timeline does not name them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.table.upgrade.completion_order import CompletedInstant, completion_times_of, time_of_change

DAY = "20260102"


def completed(time: str, changed: str = "", action: Action = Action.COMMIT) -> CompletedInstant:
    """An instant by its time of day."""
    return CompletedInstant(
        HoodieInstant(DAY + time, action, State.COMPLETED), DAY + changed if changed.isdecimal() else changed
    )


def times(*found: CompletedInstant) -> list[str]:
    """The times of day, in the order of the instants."""
    made = completion_times_of(found)
    return [made[one.instant.key].removeprefix(DAY) for one in found]


def test_the_time_of_the_file_counts() -> None:
    assert times(completed("100000000", "100002000"), completed("100005000", "100006000")) == ["100002000", "100006000"]


def test_completion_follows_the_order_of_requests() -> None:
    slow = completed("100000000", "100900000")
    assert times(slow, completed("100001000", "100002000"), completed("110000000", "110000001")) == [
        "100900000", "100900001", "110000001",
    ]  # fmt: skip


def test_files_older_than_the_request_and_unknown_times() -> None:
    assert times(completed("100000000", "090000000"), completed("100000005", ""), completed("100000009", "99")) == [
        "100000001", "100000006", "100000010",
    ]  # fmt: skip


def test_a_copied_table() -> None:
    copied = "120000000"
    assert times(*(completed(f"10000{number}000", copied) for number in range(3))) == [
        "120000000", "120000001", "120000002",
    ]  # fmt: skip


def test_a_long_clean_does_not_delay_commits() -> None:
    found = times(
        completed("100000000", "103000000", Action.CLEAN),
        completed("100001000", "100002000"),
        completed("100003000", "103000000"),
        completed("100001000", "104000000", Action.SAVEPOINT),
    )
    assert found == ["103000001", "100002000", "103000000", "104000000"]


def test_times_of_seconds() -> None:
    old = CompletedInstant(HoodieInstant("20200102100000", Action.COMMIT, State.COMPLETED), "")
    (time,) = completion_times_of([old]).values()
    assert time == "20200102100001000" and time > "20200102100000"


def test_the_time_of_a_store_that_knows_none() -> None:
    assert time_of_change(0, "UTC") == ""
    assert time_of_change(1_767_349_800_123, "UTC") == "20260102103000123"


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 60), st.sampled_from([Action.COMMIT, Action.CLEAN])), max_size=20
    )
)
def test_times_are_later_than_requests_and_never_equal(entries: list[tuple[int, int, Action]]) -> None:
    found = [completed(f"100000{at:03}", f"100000{changed:03}", action) for at, changed, action in entries]
    made = completion_times_of(found)
    assert len(set(made.values())) == len(made)
    assert all(time > key[0] for key, time in made.items())
    ends = [time for key, time in sorted(made.items()) if key[1] is Action.COMMIT]
    assert ends == sorted(ends)


def test_times_of_the_future_are_not_believed() -> None:
    found = [completed("100000000", "100002000"), completed("100005000", "230000000"), completed("100008000", "")]
    assert list(completion_times_of(found, DAY + "120000000").values()) == [
        f"{DAY}100002000",
        f"{DAY}100005001",
        f"{DAY}100008001",
    ]
