from __future__ import annotations

import pickle
from collections.abc import Mapping

import attrs
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.fs.file_names import make_base_file_name, make_log_file_name
from hoodie.common.model.file_slice import HoodieFileGroupId
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.storage.storage import FileStatus
from hoodie.table.action.clean.file_retention import FileRetention, PendingInstants

TIMES = [f"202601010000000{n:02}" for n in range(1, 13)]
Groups = dict[str, set[str]]


def base(file_id: str, instant_time: str) -> str:
    return make_base_file_name(file_id, "0-0-0", instant_time)


def statuses(*names: str) -> list[FileStatus]:
    return [FileStatus(f"/t/p/{name}", 1, 0) for name in names]


def visible(completed: list[str], pending: list[str] | None = None) -> VisibleInstants:
    return VisibleInstants(frozenset(completed), frozenset(pending or ()), frozenset(), min(completed, default=None))


def names(paths: tuple[str, ...]) -> set[str]:
    return {path.rsplit("/", 1)[-1] for path in paths}


def group(file_id: str) -> HoodieFileGroupId:
    return HoodieFileGroupId("p", file_id)


# --- an oracle that asks readers --------------------------------------------------------------------------------------


@attrs.frozen
class Case:
    """A partition as a plain dict of groups to the times of their slices, and what holds them."""

    groups: Groups
    earliest: str | None
    versions: int
    pending: str | None
    replaced: dict[str, str]
    held: set[tuple[str, str]]
    compacted: dict[str, str]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    groups = draw(
        st.dictionaries(
            st.sampled_from(["a-0", "b-0", "c-1"]), st.sets(st.sampled_from(TIMES[:10]), min_size=1), min_size=1
        )
    )
    slices = sorted((file_id, time) for file_id, times in groups.items() for time in times)
    replaced = {
        file_id: draw(st.sampled_from([time for time in TIMES if time > max(groups[file_id])]))
        for file_id in draw(st.sets(st.sampled_from(sorted(groups)), max_size=2))
    }
    return Case(
        groups=groups,
        earliest=draw(st.none() | st.sampled_from(TIMES)),
        versions=draw(st.integers(1, 4)),
        pending=draw(st.none() | st.sampled_from(TIMES[4:])),
        replaced=replaced,
        held=set(draw(st.lists(st.sampled_from(slices), max_size=3))),
        compacted={
            file_id: draw(st.sampled_from(sorted(groups[file_id])))
            for file_id in draw(st.sets(st.sampled_from(sorted(set(groups) - set(replaced))), max_size=1))
        }
        if set(groups) - set(replaced)
        else {},
    )


def seen_at(case: Case, file_id: str, moment: float) -> str | None:
    """The slice that a reader sees who reads when the instants up to a moment are completed."""
    if file_id in case.replaced and TIMES.index(case.replaced[file_id]) <= moment:
        return None
    before = [time for time in case.groups[file_id] if TIMES.index(time) <= moment]
    return max(before, default=None)


def expected(case: Case) -> set[str]:
    """What goes, by asking every reader that must be served what it reads."""
    start = min((TIMES.index(time) for time in (case.earliest, case.pending) if time is not None), default=None)
    # From just before the start, which is what a writer saw that began there, to now.
    moments = [len(TIMES)] if start is None else [start - 0.5, *range(start, len(TIMES) + 1)]
    gone = set()
    for file_id, times in case.groups.items():
        replaced_at = case.replaced.get(file_id)
        if replaced_at is not None and start is not None and TIMES.index(replaced_at) >= start:
            continue
        needed = {seen_at(case, file_id, moment) for moment in moments}
        if replaced_at is None and file_id in case.compacted:
            needed |= {time for time in times if time >= case.compacted[file_id]}
        if replaced_at is None and case.earliest is None:
            versions = sorted(times - needed_by_compaction(case, file_id), reverse=True)
            needed |= set(versions[: case.versions - (file_id in case.compacted)])
        gone |= {base(file_id, time) for time in times - needed if (file_id, time) not in case.held}
    return gone


def needed_by_compaction(case: Case, file_id: str) -> set[str]:
    if file_id not in case.compacted:
        return set()
    return {time for time in case.groups[file_id] if time >= case.compacted[file_id]}


@given(cases())
def test_exactly_what_no_reader_of_the_window_sees_goes(case: Case) -> None:
    retention = FileRetention(
        instants=visible(TIMES),
        earliest=case.earliest,
        versions=case.versions,
        pending=PendingInstants(
            case.pending, compacted={group(file_id): time for file_id, time in case.compacted.items()}
        ),
        replaced={group(file_id): time for file_id, time in case.replaced.items()},
        held=frozenset(base(file_id, time) for file_id, time in case.held),
    )
    files = statuses(*(base(file_id, time) for file_id, times in case.groups.items() for time in times))
    cleaning = retention.clean("p", files)
    assert names(cleaning.paths) == expected(case)
    assert cleaning.is_left_empty == (len(cleaning.paths) == len(files))
    if case.replaced.keys() < case.groups.keys():
        assert not cleaning.is_left_empty


# --- by hand ----------------------------------------------------------------------------------------------------------


def goes(times: list[int], replaced: Mapping[HoodieFileGroupId, str] | None = None, **retained: object) -> list[int]:
    """Numbers of the slices of one group that go."""
    retention = FileRetention(instants=visible(TIMES), replaced=replaced or {}, **retained)  # type: ignore[arg-type]
    cleaning = retention.clean("p", statuses(*(base("a-0", TIMES[time]) for time in times)))
    return [time for time in times if base("a-0", TIMES[time]) in names(cleaning.paths)]


def test_the_version_that_was_the_newest_at_the_earliest_instant_stays() -> None:
    assert goes([1, 2, 3, 5, 7], earliest=TIMES[6]) == [1, 2, 3]
    assert goes([1, 2, 3, 5, 7], earliest=TIMES[5]) == [1, 2]


def test_the_newest_version_stays_however_old() -> None:
    assert goes([1], earliest=TIMES[9]) == []
    assert goes([1, 2], earliest=TIMES[9]) == [1]


def test_versions_are_counted() -> None:
    assert goes([1, 2, 3, 5], earliest=None, versions=3) == [1]
    assert goes([1, 2, 3, 5], earliest=None, versions=1) == [1, 2, 3]


def test_a_pending_write_keeps_what_it_began_with() -> None:
    assert goes([1, 2, 3, 5], earliest=None, versions=1, pending=PendingInstants(TIMES[4])) == [1, 2]


def test_a_replaced_group_goes_once_the_replacement_is_before_the_earliest_instant() -> None:
    replaced = {group("a-0"): TIMES[6]}
    assert goes([1, 2, 3], replaced, earliest=TIMES[6]) == []
    assert goes([1, 2, 3], replaced, earliest=TIMES[7]) == [1, 2, 3]
    assert goes([1, 2, 3], replaced, earliest=None, versions=3) == [1, 2, 3]


def test_files_that_are_not_committed_stay_and_their_partition_is_not_empty() -> None:
    retention = FileRetention(
        instants=visible(TIMES[:4], pending=[TIMES[4]]), earliest=TIMES[3], replaced={group("a-0"): TIMES[2]}
    )
    cleaning = retention.clean("p", statuses(base("a-0", TIMES[1]), base("new-0", TIMES[4])))
    assert names(cleaning.paths) == {base("a-0", TIMES[1])}
    assert not cleaning.is_left_empty


def test_a_partition_of_which_everything_goes_is_left_empty() -> None:
    retention = FileRetention(instants=visible(TIMES), earliest=TIMES[5], replaced={group("a-0"): TIMES[2]})
    assert retention.clean("p", statuses(base("a-0", TIMES[1]))).is_left_empty
    assert retention.clean("p", []).is_left_empty


def test_a_slice_goes_with_its_log_files_and_with_every_attempt_at_its_base_file() -> None:
    old = [base("a-0", TIMES[1]), make_base_file_name("a-0", "0-1-7", TIMES[1])]
    logs = [make_log_file_name("a-0", TIMES[1], n, "0-0-0") for n in (1, 2)]
    logs.append(make_log_file_name("a-0", TIMES[1], 1, "0-0-0", is_cdc=True))
    kept = [base("a-0", TIMES[2]), make_log_file_name("a-0", TIMES[2], 1, "0-0-0")]
    cleaning = FileRetention(instants=visible(TIMES), earliest=TIMES[3]).clean("p", statuses(*old, *logs, *kept))
    assert names(cleaning.paths) == {*old, *logs}


def test_files_of_strangers_are_left_alone() -> None:
    cleaning = FileRetention(instants=visible(TIMES), earliest=TIMES[3], replaced={group("a-0"): TIMES[1]}).clean(
        "p", statuses("notes.txt", base("a-0", TIMES[0]))
    )
    assert names(cleaning.paths) == {base("a-0", TIMES[0])}
    assert not cleaning.is_left_empty


def test_rules_cross_to_tasks() -> None:
    retention = FileRetention(instants=visible(TIMES), earliest=TIMES[3])
    assert pickle.loads(pickle.dumps(retention)) == retention
