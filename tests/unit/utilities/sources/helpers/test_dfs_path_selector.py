"""The choice of the files of a round; the vectors are those of Hudi's TestDFSPathSelectorCommonMethods."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import pytest

from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException
from hoodie.storage.memory_storage import MemoryStorage
from hoodie.storage.storage import FileStatus
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.helpers import dfs_path_selector
from hoodie.utilities.sources.helpers.date_partition_path_selector import DatePartitionPathSelector
from hoodie.utilities.sources.helpers.dfs_path_selector import (
    MOST_NAMES,
    NEWEST_FILES_KEY,
    DFSPathSelector,
    Selection,
    TakenFiles,
    create_selector,
    groups_of,
    position_of,
)
from tests.support.object_store_servers import Bucket

ROOT_KEY = "hoodie.streamer.source.dfs.root"
BOTH = pytest.mark.parametrize("kind", [DFSPathSelector, DatePartitionPathSelector])


def put(path: Path, size: int, time_ms: int | None = None) -> Path:
    """A file of a size and a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    if time_ms is not None:
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))
    return path


def selector(root: Path | str, kind: type[DFSPathSelector] = DFSPathSelector, **options: object) -> DFSPathSelector:
    """A selector with options of ``hoodie.streamer.source.``; underscores stand for dots."""
    more = {f"hoodie.streamer.source.{name.replace('_', '.')}": value for name, value in options.items()}
    return kind(StreamerProperties.of({ROOT_KEY: str(root), **more}))


def names(selection: Selection | Iterable[FileStatus]) -> list[str]:
    """The names of files."""
    files = selection.files if isinstance(selection, Selection) else selection
    return [file.name for file in files]


@BOTH
def test_names_that_begin_with_a_dot_or_an_underscore_are_passed_over(
    kind: type[DFSPathSelector], tmp_path: Path
) -> None:
    for name in ("foo1", ".foo2", "_foo3"):
        put(tmp_path / "p1" / name, 1)
    put(tmp_path / "_temporary" / "0" / "foo4", 1)
    put(tmp_path / ".hoodie" / "foo5", 1)
    assert names(selector(tmp_path, kind).list_eligible_files(Checkpoint("0"))) == ["foo1"]


@BOTH
def test_empty_files_are_passed_over(kind: type[DFSPathSelector], tmp_path: Path) -> None:
    for name, size in (("foo1", 1), ("foo2", 0), ("foo3", 0)):
        put(tmp_path / "p1" / name, size)
    assert names(selector(tmp_path, kind).list_eligible_files(Checkpoint("0"))) == ["foo1"]


@BOTH
def test_files_older_than_the_position_are_passed_over(kind: type[DFSPathSelector], tmp_path: Path) -> None:
    for name in ("foo1", "foo2", "foo3"):
        put(tmp_path / "p1" / name, 1)
    assert selector(tmp_path, kind).list_eligible_files(Checkpoint(str(2**63 - 1))) == []


@BOTH
def test_the_limit_of_bytes_ends_a_round(kind: type[DFSPathSelector], tmp_path: Path) -> None:
    for number in range(1, 6):
        put(tmp_path / "p1" / f"foo{number}", 10, number * 1000)
    chosen = selector(tmp_path, kind).select(None, 30)
    assert (names(chosen), chosen.checkpoint.position) == (["foo1", "foo2"], "2000")
    assert (chosen.size_bytes, chosen.left_files, chosen.left_bytes) == (20, 3, 30)


@BOTH
def test_files_of_one_time_are_never_parted(kind: type[DFSPathSelector], tmp_path: Path) -> None:
    for number in range(1, 6):
        put(tmp_path / "p1" / f"foo{number}", 10, 1000 if number < 4 else 2000)
    chooser = selector(tmp_path, kind)
    first = chooser.select(None, 20)
    assert (names(first), first.checkpoint.position) == (["foo1", "foo2", "foo3"], "1000")
    second = chooser.select(first.checkpoint, 20)
    assert (names(second), second.checkpoint.position) == (["foo4", "foo5"], "2000")


@BOTH
def test_the_position_stays_when_there_is_nothing_new(kind: type[DFSPathSelector], tmp_path: Path) -> None:
    put(tmp_path / "p1" / "foo1", 10, 1000)
    at = Checkpoint("999999999", own={"k": "v"})
    assert selector(tmp_path, kind).select(at, 30) == Selection((), at)


@BOTH
def test_the_position_before_the_first_file_is_hudis(kind: type[DFSPathSelector], tmp_path: Path) -> None:
    assert selector(tmp_path, kind).select(None, None).checkpoint == Checkpoint("-9223372036854775808")


def test_the_position_of_an_empty_folder_is_resumed_from(tmp_path: Path) -> None:
    chooser = selector(tmp_path)
    empty = chooser.select(None, None)
    put(tmp_path / "a", 1, 0)
    assert names(chooser.select(empty.checkpoint, None)) == ["a"]


def test_a_first_file_larger_than_the_limit_is_taken_alone(tmp_path: Path) -> None:
    for number, size in enumerate((100, 5, 100)):
        put(tmp_path / f"f{number}", size, (number + 1) * 1000)
    chooser = selector(tmp_path)
    first = chooser.select(None, 50)
    assert names(first) == ["f0"]
    second = chooser.select(first.checkpoint, 50)
    assert names(second) == ["f1"]
    assert names(chooser.select(second.checkpoint, 50)) == ["f2"]


def test_a_late_file_of_the_time_of_the_position_is_taken_once(tmp_path: Path) -> None:
    put(tmp_path / "a", 10, 3000)
    chooser = selector(tmp_path, dfs_late_window_ms=0)
    first = chooser.select(None, None)
    assert json.loads(first.checkpoint.own[NEWEST_FILES_KEY]) == {
        "time": 3000, "since": 3000, "root": str(tmp_path), "names": {"a": 3000},
    }  # fmt: skip
    put(tmp_path / "in" / "b", 10, 3000)
    late = chooser.select(first.checkpoint, None)
    assert (names(late), late.checkpoint.position) == (["b"], "3000")
    assert late.checkpoint != first.checkpoint
    assert names(chooser.select(late.checkpoint, None)) == []
    put(tmp_path / "c", 10, 3000)
    put(tmp_path / "d", 10, 4000)
    last = chooser.select(late.checkpoint, 1)
    assert (names(last), last.checkpoint.position) == (["c"], "3000")
    newest = chooser.select(last.checkpoint, None)
    assert names(newest) == ["d"]
    assert json.loads(newest.checkpoint.own[NEWEST_FILES_KEY])["names"] == {"d": 4000}


def test_without_names_beside_the_position_its_time_counts_alone(tmp_path: Path) -> None:
    """A position of Hudi, one that a user gave, one of another root, one that somebody damaged."""
    put(tmp_path / "a", 10, 3000)
    put(tmp_path / "b", 10, 3001)
    nothing = TakenFiles(3000, str(tmp_path), 1000).to_text()
    of_another = TakenFiles(3000, "/elsewhere", 1000).to_text()
    of_another_time = TakenFiles(2000, str(tmp_path), 1000).to_text()
    assert names(selector(tmp_path).select(Checkpoint("3000", own={NEWEST_FILES_KEY: nothing}), None)) == ["a", "b"]
    own = json.loads(nothing)
    damaged = [
        "[1", "[]", json.dumps(own | {"names": ["a"]}), json.dumps(own | {"since": None}),
        json.dumps(own | {"since": 9999}), json.dumps(own | {"hashes": "QUJD"}), json.dumps(own | {"hashes": "?"}),
        '{"time": 3000, "root": "' + str(tmp_path) + '", "names": ["b"]}',
    ]  # fmt: skip
    for text in ("", of_another, of_another_time, *damaged):
        assert names(selector(tmp_path).select(Checkpoint("3000", own={NEWEST_FILES_KEY: text}), None)) == ["b"], text
    assert names(selector(tmp_path).select(Checkpoint("3000"), None)) == ["b"]
    given = Checkpoint("3000", own={NEWEST_FILES_KEY: nothing}, is_given=True)
    assert names(selector(tmp_path).select(given, None)) == ["b"]


def test_damaged_times_beside_the_position_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "b", 10, 3001)
    own = {"time": 3000, "since": 1000, "root": str(tmp_path), "names": {"a": 10**30, "z": -(10**30)}}
    monkeypatch.setattr(dfs_path_selector, "_NAMES_BYTES", 1)
    chosen = selector(tmp_path).select(Checkpoint("3000", own={NEWEST_FILES_KEY: json.dumps(own)}), None)
    assert (names(chosen), chosen.checkpoint.position) == (["b"], "3001")
    put(tmp_path / "a", 10, 2000)
    put(tmp_path / "late", 10, 1000)
    assert names(selector(tmp_path).select(chosen.checkpoint, None)) == ["late"]


def test_the_window_begins_after_a_position_without_names(tmp_path: Path) -> None:
    put(tmp_path / "a", 10, 3000)
    put(tmp_path / "b", 10, 3500)
    chooser = selector(tmp_path, dfs_late_window_ms=2000)
    for before in (Checkpoint("3000"), Checkpoint("3000", is_given=True)):
        first = chooser.select(before, None)
        assert names(first) == ["b"]
        put(tmp_path / "late", 10, 3001)
        second = chooser.select(first.checkpoint, None)
        assert (names(second), second.checkpoint.position) == (["late"], "3500")
        assert names(chooser.select(second.checkpoint, None)) == []
        (tmp_path / "late").unlink()


@BOTH
def test_a_late_file_in_the_window_is_taken_once_and_the_position_stays(
    kind: type[DFSPathSelector], tmp_path: Path
) -> None:
    put(tmp_path / "a", 10, 3000)
    put(tmp_path / "p" / "b", 10, 9000)
    chooser = selector(tmp_path, kind, dfs_late_window_ms=5000)
    first = chooser.select(None, None)
    put(tmp_path / "in_time", 10, 4000)
    put(tmp_path / "too_late", 10, 3999)
    late = chooser.select(first.checkpoint, None)
    assert (names(late), late.checkpoint.position) == (["in_time"], "9000")
    assert json.loads(late.checkpoint.own[NEWEST_FILES_KEY]) == {
        "time": 9000, "since": 4000, "root": str(tmp_path), "names": {"p/b": 9000, "in_time": 4000},
    }  # fmt: skip
    for options in ({"dfs_late_window_ms": 5000}, {"dfs_late_window_ms": 86_400_000}, {"dfs_late_window_ms": 0}, {}):
        assert names(selector(tmp_path, kind, **options).select(late.checkpoint, None)) == []


def test_late_files_come_before_new_ones_and_are_not_parted_either(tmp_path: Path) -> None:
    put(tmp_path / "b", 10, 9000)
    chooser = selector(tmp_path)
    at = chooser.select(None, None).checkpoint
    for name, time_ms in (("l1", 4000), ("l2", 4000), ("l3", 5000), ("n1", 9001), ("n2", 9001)):
        put(tmp_path / name, 10, time_ms)
    rounds = []
    while (chosen := chooser.select(at, 1)).files:
        at = chosen.checkpoint
        rounds.append((names(chosen), at.position, chosen.left_files))
    assert rounds == [(["l1", "l2"], "9000", 3), (["l3"], "9000", 2), (["n1", "n2"], "9001", 0)]


def test_a_file_that_was_taken_and_changes_within_the_window_is_not_taken_again(tmp_path: Path) -> None:
    """Its name stays known as long as its newer time lies in the window."""
    put(tmp_path / "a", 10, 1000)
    put(tmp_path / "b", 10, 2000)
    chooser = selector(tmp_path, dfs_late_window_ms=1000)
    at = chooser.select(None, None).checkpoint
    put(tmp_path / "a", 20, 1900)
    assert names(chooser.select(at, None)) == []
    put(tmp_path / "c", 10, 2800)
    second = chooser.select(at, None)
    assert names(second) == ["c"]
    assert names(chooser.select(second.checkpoint, None)) == []


def round_trip(taken: TakenFiles) -> TakenFiles:
    """The files as the next round finds them."""
    at = Checkpoint(str(taken.time_ms), own={NEWEST_FILES_KEY: taken.to_text()})
    return TakenFiles.of(at, taken.root, 60_000)


def test_many_names_are_kept_as_hashes() -> None:
    many = {f"2026-07-05/part-{number:060d}.json": 3000 - number // 2 for number in range(5000)}
    taken = TakenFiles(0, "s3://b/in", -1).with_files(many, 60_000)
    assert len(taken.to_text()) < 5000 * 17 + 200
    found = round_trip(taken)
    assert (found.time_ms, found.since_ms, len(found.hashes), found.names) == (3000, -1, 5000, {})
    assert all(map(found.has, many))
    assert not any(found.has(f"other-{number}") for number in range(5000))
    more = round_trip(found.with_files({"x": 61_000}, 60_000))
    assert more.since_ms == 1000
    assert more.has("x")
    assert all(more.has(name) == (ms >= 1000) for name, ms in many.items())


def test_too_many_files_make_the_window_shorter(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    many = {f"n{number}": 1000 + number for number in range(MOST_NAMES + 5)}
    newest = 1000 + MOST_NAMES + 4
    taken = round_trip(TakenFiles(0, "/in", -1).with_files(many, 60_000))
    assert (taken.time_ms, taken.since_ms) == (newest, newest - MOST_NAMES + 1)
    assert len(taken.hashes) == MOST_NAMES
    assert all(taken.has(name) == (ms >= taken.since_ms) for name, ms in many.items())
    assert len(taken.to_text()) < MOST_NAMES * 17
    assert f"changed in the last {MOST_NAMES - 1} ms" in caplog.text
    late = round_trip(taken.with_files({"late": taken.since_ms}, 60_000))
    assert late.since_ms == taken.since_ms + 1
    assert not late.has("late")
    at_once = dict.fromkeys(many, 7000)
    all_of_them = round_trip(TakenFiles(0, "/in", -1).with_files(at_once, 60_000))
    assert (all_of_them.since_ms, len(all_of_them.hashes)) == (7000, MOST_NAMES + 5)


class Listed(DFSPathSelector):
    """A selector of a user, of files that are listed elsewhere."""

    there: ClassVar[list[FileStatus]] = []

    def list_files(self) -> Iterable[FileStatus]:
        """See `DFSPathSelector.list_files`."""
        return self.there


def names_after_renames(
    seed: int, window_ms: int, delay_ms: int, monkeypatch: pytest.MonkeyPatch, *, forgets: bool = False
) -> tuple[Counter[str], set[str], set[str]]:
    """Rounds while files get their names a random time after their change.

    The rounds have random limits; some fail before their commit, some begin anew in another process, and now and then
    the table is restored to an earlier commit.

    Args:
        seed: Chooses what happens.
        window_ms: The window.
        delay_ms: The longest time between the change of a file and its name.
        monkeypatch: Makes hashes of few names.
        forgets: Whether some positions lose their names, as Hudi's, and the number of names is small.

    Returns:
        The names that were taken, all names, and those that came too late, by the position and the window.
    """
    dice = random.Random(seed)
    monkeypatch.setattr(dfs_path_selector, "MOST_NAMES", 5 if forgets else 10_000)
    monkeypatch.setattr(dfs_path_selector, "_NAMES_BYTES", dice.choice([150, 64 * 1024]))
    there: list[FileStatus] = []
    monkeypatch.setattr(Listed, "there", there)
    pending: list[tuple[int, FileStatus]] = []
    taken: Counter[str] = Counter()
    at: Checkpoint | None = None
    history: list[tuple[Checkpoint | None, Counter[str]]] = []
    too_late: set[str] = set()
    everything: set[str] = set()
    chooser = selector("/", Listed, dfs_late_window_ms=window_ms)
    clock = 1_000_000

    def appear(file: FileStatus) -> None:
        there.insert(dice.randrange(len(there) + 1), file)
        if file.modification_time_ms < position_of(at) - window_ms:
            too_late.add(file.path[1:])

    def commit(chosen: Selection) -> None:
        nonlocal at
        if chosen.files:
            assert chosen.checkpoint.own != (at.own if at else {})
        assert position_of(chosen.checkpoint) == max([position_of(at), *(f.modification_time_ms for f in chosen.files)])
        left = {file.modification_time_ms for file in chooser.list_eligible_files(chosen.checkpoint)}
        assert left.isdisjoint(file.modification_time_ms for file in chosen.files), "files of one time were parted"
        taken.update(file.path[1:] for file in chosen.files)
        at = chosen.checkpoint
        history.append((at, taken.copy()))

    for number in range(400):
        clock += dice.randrange(4)
        file = FileStatus(f"/d{number % 3}/{number}", dice.randrange(1, 9), clock)
        everything.add(file.path[1:])
        pending.append((clock + dice.choice([0, dice.randrange(delay_ms + 1)]), file))
        for shown in [one for one in pending if one[0] <= clock]:
            pending.remove(shown)
            appear(shown[1])
        if dice.random() < 0.5:
            continue
        if dice.random() < 0.2:
            chooser = selector("/", Listed, dfs_late_window_ms=window_ms)
        chosen = chooser.select(at, dice.choice([1, 10, 50, None]))
        if dice.random() < 0.1:
            continue
        commit(chosen)
        if dice.random() < 0.05:
            del history[max(1, len(history) - dice.randrange(5)) :]
            at, taken = history[-1][0], history[-1][1].copy()
        if forgets and at is not None and dice.random() < 0.02:
            at = Checkpoint(at.position)
    for _, file in pending:
        appear(file)
    while (chosen := chooser.select(at, 20)).files:
        commit(chosen)
    return taken, everything, too_late


@pytest.mark.parametrize("seed", range(20))
def test_files_that_are_renamed_within_the_window_are_taken_once_each(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, everything, too_late = names_after_renames(seed, 50, 50, monkeypatch)
    assert not too_late
    assert taken == Counter(everything)


@pytest.mark.parametrize("window_ms", [0, 5, 20])
def test_only_files_that_are_later_than_the_window_are_missed(window_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    missed: set[str] = set()
    for seed in range(5):
        taken, everything, too_late = names_after_renames(seed, window_ms, 50, monkeypatch)
        assert max(taken.values()) == 1
        assert everything - set(taken) <= too_late
        missed |= everything - set(taken)
    assert missed


@pytest.mark.parametrize("seed", range(5))
def test_positions_without_names_and_full_windows_let_no_file_be_taken_twice(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, everything, _ = names_after_renames(seed, 50, 50, monkeypatch, forgets=True)
    assert max(taken.values()) == 1
    assert len(everything - set(taken)) < 200


def test_files_younger_than_the_least_age_wait(tmp_path: Path) -> None:
    now = time.time_ns() // 1_000_000
    put(tmp_path / "old", 1, now - 60_000)
    put(tmp_path / "young", 1, now)
    assert names(selector(tmp_path, dfs_min_age_ms=30_000).select(None, None)) == ["old"]
    assert names(selector(tmp_path).select(None, None)) == ["old", "young"]


def test_files_of_the_future_wait_since_they_would_hide_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = time.time_ns() // 1_000_000
    put(tmp_path / "a", 1, now)
    put(tmp_path / "soon", 1, now + 60_000)
    put(tmp_path / "wrong", 1, now + 86_400_000)
    chosen = selector(tmp_path).select(None, None)
    assert names(chosen) == ["a", "soon"]
    assert f"1 files wait until their time: the last change of {tmp_path}/wrong is 86" in caplog.text
    caplog.clear()
    assert names(selector(tmp_path).select(Checkpoint(str(now + 90_000_000)), None)) == []
    assert "is 89999 s in the future" in caplog.text or "is 90000 s in the future" in caplog.text


def test_globs_choose_files_and_folders(tmp_path: Path) -> None:
    for name in ("in/a.json", "in/b.csv", "in/x/c.json", "in/y/d.json", "in/y/z/e.json", "in/_x/f.json", "in/.g.json"):
        put(tmp_path / name, 1, 1000)

    def chosen(pattern: str) -> list[str]:
        return sorted(names(selector(f"{tmp_path}/{pattern}").select(None, None)))

    assert chosen("in/*.json") == ["a.json"]
    assert chosen("in/?.*") == ["a.json", "b.csv"]
    assert chosen("in/[a].json") == ["a.json"]
    assert chosen("in/{a.json,x}") == ["a.json", "c.json"]
    assert chosen("in/*/*.json") == ["c.json", "d.json"]
    assert chosen("in/**/*.json") == ["a.json", "c.json", "d.json", "e.json"]
    assert chosen("in/**") == ["a.json", "b.csv", "c.json", "d.json", "e.json"]
    assert chosen("*/y") == ["d.json", "e.json"]
    assert chosen("in/_*/*") == ["f.json"]
    assert chosen("n*/*") == []


def test_names_of_a_glob_are_those_from_its_folder_on(tmp_path: Path) -> None:
    put(tmp_path / "in" / "x" / "a.json", 1, 1000)
    found = selector(f"{tmp_path}/in/*/*.json").select(None, None)
    assert json.loads(found.checkpoint.own[NEWEST_FILES_KEY])["names"] == {"x/a.json": 1000}


def test_a_path_is_taken_literally_if_there_is_such_a_file(tmp_path: Path) -> None:
    put(tmp_path / "[a]" / "1,2.json", 1)
    put(tmp_path / "a" / "3.json", 1)
    assert names(selector(tmp_path / "[a]").select(None, None)) == ["1,2.json"]
    assert names(selector(tmp_path / "[a]" / "1,2.json").select(None, None)) == ["1,2.json"]


def test_linked_folders_are_passed_over_and_linked_files_are_not(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere" / "a", 1)
    put(tmp_path / "in" / "b", 1)
    (tmp_path / "in" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "circle").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "c").symlink_to(tmp_path / "elsewhere" / "a")
    (tmp_path / "in" / "nowhere").symlink_to(tmp_path / "nothing")
    assert sorted(names(selector(tmp_path / "in").select(None, None))) == ["b", "c"]


def test_a_missing_folder_is_refused_with_its_property(tmp_path: Path) -> None:
    with pytest.raises(HoodieReadFromSourceException, match=f"{tmp_path}/in .*{ROOT_KEY}.* no such folder"):
        selector(tmp_path / "in").select(None, None)


@BOTH
def test_a_glob_in_a_missing_folder_is_refused_also_a_relative_one(
    kind: type[DFSPathSelector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for root in (f"{tmp_path}/in/*.json", "in/*.json", "./in/{a,b}/**"):
        with pytest.raises(HoodieReadFromSourceException, match=f"{ROOT_KEY}.* there is no folder {tmp_path}/in\\."):
            selector(root, kind).select(None, None)
    put(tmp_path / "in" / "a.txt", 1)
    assert selector("in/*.json", kind).select(None, None).files == ()
    put(tmp_path / "in" / "a.json", 1)
    chooser = selector("in/*.json")
    monkeypatch.chdir("/")
    (file,) = chooser.select(None, None).files
    assert file.path == f"{tmp_path}/in/a.json"


def test_a_position_of_another_source_is_refused(tmp_path: Path) -> None:
    for text in ("impressions,0:12", "12.5", "9223372036854775808", "٣"):
        with pytest.raises(HoodieConfigException, match="is none of a folder.*--checkpoint"):
            selector(tmp_path).select(Checkpoint(text), None)
    assert position_of(Checkpoint(" 12 ")) == 12


def test_a_root_is_needed_and_must_be_of_a_storage() -> None:
    with pytest.raises(HoodieConfigException, match=f"{ROOT_KEY} is missing"):
        DFSPathSelector(StreamerProperties())
    with pytest.raises(HoodieConfigException, match=f"{ROOT_KEY} = hdfs://n/x: .*s3://"):
        selector("hdfs://n/x")
    for bad in ("s3://buck*/x", "s3://*/x"):
        with pytest.raises(HoodieConfigException, match=ROOT_KEY):
            selector(bad)
    with pytest.raises(HoodieConfigException, match="without its"):
        selector("/tmp/{a").select(None, None)


def test_the_older_spelling_of_properties_is_read(tmp_path: Path) -> None:
    put(tmp_path / "a", 1)
    old = DFSPathSelector(StreamerProperties({"hoodie.deltastreamer.source.dfs.root": str(tmp_path)}))
    assert names(old.select(None, None)) == ["a"]


class NewestFirst(DFSPathSelector):
    """A selector of a user."""


def test_properties_name_the_selector(tmp_path: Path) -> None:
    def made(name: str | None) -> type[DFSPathSelector]:
        more = {} if name is None else {"hoodie.streamer.source.input.selector": name}
        return type(create_selector(StreamerProperties({ROOT_KEY: str(tmp_path), **more}), None))

    package = "org.apache.hudi.utilities.sources.helpers"
    assert made(None) is DFSPathSelector
    assert made(f"{package}.DFSPathSelector") is DFSPathSelector
    assert made(f"{package}.DatePartitionPathSelector") is DatePartitionPathSelector
    own = made("tests.unit.utilities.sources.helpers.test_dfs_path_selector:NewestFirst")
    assert own.__name__ == "NewestFirst"
    with pytest.raises(HoodieConfigException, match="there is no such class"):
        made(f"{package}.GCSPathSelector")


def test_files_in_memory_are_chosen() -> None:
    storage = MemoryStorage("memory://in-of-a-selector")
    for name in ("a.json", "x/b.json", "_c.json", "_x/d.json"):
        storage.replace(f"memory://in-of-a-selector/{name}", b"{}")
    assert sorted(names(selector("memory://in-of-a-selector").select(None, None))) == ["a.json", "b.json"]
    assert names(selector("memory://in-of-a-selector/*.json").select(None, None)) == ["a.json"]


def test_files_of_a_bucket_are_chosen(s3_bucket: Bucket) -> None:
    properties = StreamerProperties({ROOT_KEY: f"s3a://{s3_bucket.name}/in"})
    chooser = DFSPathSelector(properties, s3_bucket.options())
    assert chooser.select(None, None).files == ()
    for name in ("in/a.json", "in/x/b.json", "in/_temporary/c.json", "other/d.json"):
        chooser.storage.replace(f"s3://{s3_bucket.name}/{name}", b"{}")
    first = chooser.select(None, None)
    assert sorted(names(first)) == ["a.json", "b.json"]
    assert chooser.select(first.checkpoint, None).files == ()
    globs = DFSPathSelector(StreamerProperties({ROOT_KEY: f"s3://{s3_bucket.name}/*/?.json"}), s3_bucket.options())
    assert sorted(names(globs.select(None, None))) == ["a.json", "d.json"]


def test_small_neighbours_are_put_together() -> None:
    files = [FileStatus(f"/{number}", size, 0) for number, size in enumerate((5, 5, 50, 1, 1, 1))]
    grouped = [[file.size_bytes for file in group] for group in groups_of(files, 10, 2)]
    assert grouped == [[5, 5], [50], [1, 1], [1]]
