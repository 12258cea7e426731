"""Which log files a clean deletes in timeline layout 2: never one that a reader from the retained instant on reads."""

from __future__ import annotations

import pickle
from collections.abc import Iterable

import attrs
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.fs.file_names import make_base_file_name, make_log_file_name
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId, HoodieLogFile
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.common.table.view.file_system_view import build_file_groups
from hoodie.storage.storage import FileStatus
from hoodie.table.action.clean.file_retention import FileRetention, PendingInstants

GROUP = HoodieFileGroupId("p", "f")


def at(number: int) -> str:
    return f"202601010000{number:05}"


def base(number: int) -> FileStatus:
    return FileStatus(f"/t/p/{make_base_file_name('f', '0-0-0', at(number))}", 1, 0)


def log(number: int, version: int = 1) -> FileStatus:
    return FileStatus(f"/t/p/{make_log_file_name('f', at(number), version, '0-0-0')}", 1, 0)


@attrs.frozen
class History:
    """Base files and log files of one file group, with the completion times of all completed instants.

    Attributes:
        bases: Instants of base files.
        logs: Instants of log files.
        ends: Requested to completion time.
        compaction: A pending compaction, if there is one.
        archived: Those of the completed instants that only the archive knows.
    """

    bases: frozenset[int]
    logs: frozenset[int]
    ends: dict[int, int]
    compaction: int | None = None
    archived: frozenset[int] = frozenset()

    @property
    def files(self) -> list[FileStatus]:
        return [*map(base, sorted(self.bases)), *map(log, sorted(self.logs))]

    @property
    def instants(self) -> VisibleInstants:
        active = self.ends.keys() - self.archived
        return VisibleInstants(
            frozenset(map(at, active)),
            frozenset(),
            frozenset() if self.compaction is None else frozenset([at(self.compaction)]),
            at(min(active)),
            True,
            {at(time): at(self.ends[time]) for time in active},
        )

    def completion_time(self, instant_time: str) -> str | None:
        return {at(time): at(end) for time, end in self.ends.items()}.get(instant_time)

    def slices(self, files: Iterable[FileStatus]) -> list[FileSlice]:
        """As readers find them, the newest first."""
        coming = {} if self.compaction is None else {GROUP: (at(self.compaction),)}
        groups = build_file_groups("p", files, self.instants, compactions=coming, completion_time=self.completion_time)
        return [part for group in groups for part in group.slices]

    def read_at(self, files: Iterable[FileStatus], time: int) -> tuple[str | None, list[str]] | None:
        """Base file and log files that a reader of an instant merges; None if it sees nothing."""
        slices = self.slices(files)
        seen = [part for part in slices if part.base_instant_time <= at(time)]
        if not seen:
            return None
        merged: list[HoodieLogFile] = [f for part in slices[: len(slices) - len(seen)] for f in part.log_files]
        latest = seen[0]
        merged += latest.log_files
        if self.compaction is not None and latest.base_instant_time == at(self.compaction) and len(seen) > 1:
            latest = seen[1]
            merged += latest.log_files
        name = None if latest.base_file is None else latest.base_file.file_name
        return name, sorted(file.file_name for file in merged if file.instant_time <= at(time))


@st.composite
def histories(draw: st.DrawFn) -> History:
    times = draw(st.lists(st.integers(1, 60), min_size=1, max_size=12, unique=True))
    kinds = [draw(st.sampled_from(["base", "log", "log", "both"])) for _ in times]
    ends = {time: time + draw(st.integers(1, 20)) for time in times}
    bases = frozenset(time for time, kind in zip(times, kinds, strict=True) if kind in ("base", "both"))
    logs = frozenset(time for time, kind in zip(times, kinds, strict=True) if kind in ("log", "both"))
    compaction = draw(st.none() | st.integers(1, 80))
    if compaction in ends or (compaction is not None and bases and compaction < max(bases)):
        compaction = None
    last = max(times)
    archived = frozenset(time for time in times if time < draw(st.integers(0, last)) and time != last)
    # Archiving goes from the oldest on.
    archived = frozenset(time for time in archived if all(t in archived for t in times if t < time))
    return History(bases, logs, ends, compaction, archived)


@given(histories(), st.data())
def test_readers_from_the_retained_instant_on_read_the_same_files(history: History, data: st.DataObject) -> None:
    times = sorted(history.ends)
    earliest = data.draw(st.sampled_from([time for time in times if time not in history.archived]))
    files = history.files
    slices = history.slices(files)
    compactions, coming = {}, {}
    if history.compaction is not None:
        planned = [part for part in slices if part.base_instant_time < at(history.compaction)]
        if planned:
            compactions, coming = {GROUP: planned[0].base_instant_time}, {GROUP: (at(history.compaction),)}
        else:
            history = attrs.evolve(history, compaction=None)
    retention = FileRetention(
        history.instants, at(earliest), pending=PendingInstants(compacted=compactions, compactions=coming),
        completion_time=history.completion_time,
    )  # fmt: skip
    going = set(retention.clean("p", files).paths)
    left = [status for status in files if status.path not in going]
    for time in [*(time for time in times if time >= earliest), 99]:
        assert history.read_at(left, time) == history.read_at(files, time), time
    if compactions:
        planned_slice = next(part for part in slices if part.base_instant_time == compactions[GROUP])
        names = {file.path for file in planned_slice.log_files}
        assert not names & going
    # Slices go as a whole, and all that are older than the one that a reader at the retained instant sees.
    kept = {part.base_instant_time for part in history.slices(left)}
    older = [part for part in history.slices(files) if part.base_instant_time < at(earliest)]
    for part in older[1:]:
        if not compactions or part.base_instant_time < compactions[GROUP]:
            assert part.base_instant_time not in kept


@given(histories())
def test_all_versions_but_the_newest_go_with_their_log_files(history: History) -> None:
    history = attrs.evolve(history, compaction=None)
    files = history.files
    retention = FileRetention(history.instants, None, versions=1, completion_time=history.completion_time)
    going = set(retention.clean("p", files).paths)
    newest, *_ = history.slices(files)
    kept = {file.path for file in newest.log_files} | ({newest.base_file.path} if newest.base_file else set())
    assert {status.path for status in files} - going == kept


def test_a_log_file_of_an_instant_that_nothing_tells_of_stays_in_the_newest_slice() -> None:
    instants = VisibleInstants(frozenset([at(20), at(30)]), frozenset(), frozenset(), at(20), True, {at(20): at(21)})
    files = [base(10), log(12), base(20), base(30)]
    retention = FileRetention(instants, at(30))
    assert retention.clean("p", files).paths == (base(10).path,)


def test_log_files_of_writes_that_were_not_completed_stay() -> None:
    instants = VisibleInstants(frozenset([at(20)]), frozenset([at(25)]), frozenset(), at(20), True, {at(20): at(21)})
    files = [base(20), log(25)]
    found = FileRetention(instants, at(20)).clean("p", files)
    assert found.paths == () and not found.is_left_empty


def test_files_of_a_slice_that_a_savepoint_names_in_part_stay_together() -> None:
    ends = {10: 11, 12: 13, 14: 15, 20: 21, 30: 31}
    history = History(frozenset([10, 20, 30]), frozenset([12, 14]), ends)
    name = log(12).path.rsplit("/", 1)[-1]
    held = FileRetention(history.instants, at(30), held=frozenset([name]), completion_time=history.completion_time)
    assert held.clean("p", history.files).paths == ()
    free = attrs.evolve(held, held=frozenset())
    assert free.clean("p", history.files).paths == tuple(sorted([base(10).path, log(12).path, log(14).path]))


def test_it_crosses_to_tasks() -> None:
    ends = {at(10): at(11)}
    instants = VisibleInstants(frozenset(ends), frozenset(), frozenset(), at(10), True, ends)
    retention = FileRetention(instants, at(10), completion_time=ends.get)
    assert pickle.loads(pickle.dumps(retention)).completion_time(at(10)) == at(11)
