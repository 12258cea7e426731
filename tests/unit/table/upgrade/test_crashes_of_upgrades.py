"""Upgrades and downgrades that die at every single call to the storage: readers find the table as it was, and the next
run, in either direction, puts everything in order.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie import HoodieTableMetaClient, HoodieWriteResult
from hoodie.client.table_version import downgrade_table, upgrade_table
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.timeline_listing import UPGRADE_FILE_NAME
from hoodie.exception import HoodieCommitException, HoodieIOException
from tests.support.hookable_storage import Faults, faults_of, hooked, run_with_faults
from tests.support.later_version import change_properties
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, rows
from tests.support.table_history import TableHistory, files_of_timelines, history_of

ARCHIVING = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.cleaner.commits.retained": "1"}
SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}
DIRECTIONS = [(6, 9), (9, 6), (8, 9), (9, 8)]


def make(base_path: Path) -> Path:
    """A small table of version 6 with an archive, a clean, an overwrite and a savepoint."""
    path = init_table(base_path, table_version=6)
    with local_client(path, {**ARCHIVING, **SMALL_FILTERS}) as client:
        for number in range(4):
            client.upsert(rows(("a", "x", number), (f"b{number}", "x", number)))
        client.insert_overwrite(rows(("c", "x", 9)))
        client.savepoint()
    assert len(HoodieTableMetaClient.load(path).archived_timeline.completed_writes()) >= 2
    return base_path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("made")
    tables = {6: make(folder / "6")}
    for version in (8, 9):
        tables[version] = Path(shutil.copytree(tables[6], folder / str(version)))
        upgrade_table(str(tables[version]), version)
    return tables


def bring(base_path: Path, version: int) -> Any:
    """Upgrade or downgrade."""
    current = HoodieTableMetaClient.load(str(base_path)).table_config.table_version
    return (upgrade_table if version >= current else downgrade_table)(str(base_path), version)


def version_of(base_path: Path) -> int:
    return HoodieTableMetaClient.load(str(base_path)).table_config.table_version


def assert_one_timeline(base_path: Path) -> None:
    assert not (base_path / ".hoodie/hoodie.properties.guard").exists()
    names = [name for name in files_of_timelines(base_path) if not name.startswith("archived/")]
    assert not any(UPGRADE_FILE_NAME in name for name in names)
    assert len({"/" in name for name in names}) == 1, names


def assert_reads(base_path: Path, expected: TableHistory, where: Any) -> None:
    found = history_of(base_path)
    assert found == expected, where


@pytest.mark.slow
@pytest.mark.parametrize(("first", "version"), DIRECTIONS)
def test_a_run_that_dies_leaves_a_whole_table_and_the_next_one_finishes(
    tmp_path: Path, made: dict[int, Path], faulty_storage: None, first: int, version: int
) -> None:
    expected = history_of(made[first])
    counting = Faults()
    shutil.copytree(made[first], tmp_path / "count")
    assert run_with_faults(counting, lambda: bring(tmp_path / "count", version)) is None
    assert history_of(tmp_path / "count") == expected
    seen = set()
    for number, how in faults_of(counting.calls, dies=True):
        where = (number, how, counting.calls[number - 1][0])
        table = Path(shutil.copytree(made[first], tmp_path / f"{number}{how}"))
        error = run_with_faults(Faults(number, how), lambda: bring(table, version))  # noqa: B023
        seen.add((version_of(table), error is not None))
        assert_reads(table, expected, where)
        # Every second time the other direction, to the same end.
        if number % 2:
            bring(table, first)
            assert version_of(table) == first
            assert_reads(table, expected, where)
            assert_one_timeline(table)
        bring(table, version)
        assert version_of(table) == version
        assert_reads(table, expected, where)
        assert_one_timeline(table)
        shutil.rmtree(table)
    assert (first, True) in seen and ((version, True) in seen or {first, version} == {8, 9})


def dying_at(table: Path, version: int, name: str, path_part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that dies before its first call of a name to a path."""

    class Dead(Exception):
        pass

    switches = []

    def hook(call: str, path: str) -> None:
        if call == "swap":
            # The first one writes the properties as they are.
            switches.append(path)
            call = "switch" if len(switches) > 1 else "fence"
        if call == name and path_part in path:
            raise Dead

    with hooked(monkeypatch, hook), pytest.raises(Dead):
        bring(table, version)


@pytest.mark.parametrize("is_same", [True, False], ids=["again", "given up"])
def test_a_table_that_is_written_to_between_two_runs_of_an_upgrade(
    tmp_path: Path, made: dict[int, Path], monkeypatch: pytest.MonkeyPatch, is_same: bool
) -> None:
    """The run died right before the switch: all files of the new timeline are there."""
    table = Path(shutil.copytree(made[6], tmp_path / "t"))
    dying_at(table, 9, "switch", "hoodie.properties", monkeypatch)
    left = set(files_of_timelines(table))
    assert version_of(table) == 6 and any(name.startswith("timeline/2") for name in left)
    with local_client(table, {**ARCHIVING, **SMALL_FILTERS}) as client:
        for number in range(4):
            client.upsert(rows(("a", "x", 20 + number)))
        assert client.service_errors == ()
    before = history_of(table)
    assert len(before.rows) == 2
    change = bring(table, 9 if is_same else 6)
    assert change.finished_earlier_run and version_of(table) == (9 if is_same else 6)
    assert history_of(table) == before
    assert_one_timeline(table)


def test_a_table_that_is_written_to_between_two_runs_of_a_downgrade(
    tmp_path: Path, made: dict[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Path(shutil.copytree(made[9], tmp_path / "t"))
    dying_at(table, 6, "switch", "hoodie.properties", monkeypatch)
    with local_client(table, {"hoodie.archive.automatic": "false", **SMALL_FILTERS}) as client:
        for number in range(4):
            client.upsert(rows(("a", "x", 20 + number)))
    before = history_of(table)
    bring(table, 6)
    assert history_of(table) == before
    assert_one_timeline(table)


@pytest.mark.parametrize(("first", "version"), [(6, 9), (9, 6)])
def test_a_table_that_is_written_to_after_the_switch_of_a_run_that_died(
    tmp_path: Path, made: dict[int, Path], monkeypatch: pytest.MonkeyPatch, first: int, version: int
) -> None:
    table = Path(shutil.copytree(made[first], tmp_path / "t"))
    dying_at(table, version, "delete", ".commit", monkeypatch)
    assert version_of(table) == version
    with local_client(table, {"hoodie.archive.automatic": "false", **SMALL_FILTERS}) as client:
        client.upsert(rows(("later", "x", 50)))
    before = history_of(table)
    assert len(before.rows) == 2
    bring(table, version)
    assert history_of(table) == before
    assert_one_timeline(table)
    bring(table, first)
    assert history_of(table) == before


@pytest.mark.parametrize(("first", "version"), [(6, 9), (9, 6)])
def test_what_was_archived_twice_is_there_once(
    tmp_path: Path, made: dict[int, Path], monkeypatch: pytest.MonkeyPatch, first: int, version: int
) -> None:
    table = Path(shutil.copytree(made[first], tmp_path / "t"))
    archived = [i.key for i in HoodieTableMetaClient.load(str(table)).archived_timeline.completed_writes()]
    for _ in range(2):
        dying_at(table, version, "switch", "hoodie.properties", monkeypatch)
    bring(table, version)
    bring(table, first)
    bring(table, version)
    found = [i.key for i in HoodieTableMetaClient.load(str(table)).archived_timeline.completed_writes()]
    assert found == archived


@pytest.mark.parametrize(("first", "version"), [(6, 9), (9, 6)])
def test_readers_that_come_at_any_moment_find_the_same_table(
    tmp_path: Path, made: dict[int, Path], monkeypatch: pytest.MonkeyPatch, first: int, version: int
) -> None:
    table = Path(shutil.copytree(made[first], tmp_path / "t"))
    expected = history_of(table)
    moments = []

    def hook(call: str, path: str) -> None:
        # Reads of the change itself leave the table as it was.
        if call not in ("create", "replace", "swap", "delete", "rmdir", "mkdir"):
            return
        found = sorted(map(repr, hoodie.read_table(str(table)).to_pylist()))
        client = HoodieTableMetaClient.load(str(table))
        assert found == expected.rows, (call, path)
        assert [i.requested_time for i in client.active_timeline] == [i[0] for i in expected.instants], (call, path)
        assert len(client.archived_timeline.completed_writes()) >= 2
        moments.append(client.table_config.table_version)

    with hooked(monkeypatch, hook):
        bring(table, version)
    assert {first, version} == set(moments) and len(moments) > 20


@pytest.mark.parametrize(("first", "version"), [(6, 9), (9, 6)])
def test_readers_that_loaded_the_table_before_a_change_are_not_told_half_of_it(
    tmp_path: Path, made: dict[int, Path], monkeypatch: pytest.MonkeyPatch, first: int, version: int
) -> None:
    table = Path(shutil.copytree(made[first], tmp_path / "t"))
    client = HoodieTableMetaClient.load(str(table))
    times = [instant.requested_time for instant in client.active_timeline]
    told: list[bool] = []

    def look() -> None:
        try:
            found = [instant.requested_time for instant in client.reload_active_timeline()]
        except HoodieIOException as error:
            assert "load" in str(error).lower()
            told.append(False)
        else:
            assert found == times
            told.append(True)

    def hook(call: str, path: str) -> None:
        if call in ("create", "replace", "swap", "delete", "rmdir"):
            look()

    with hooked(monkeypatch, hook):
        bring(table, version)
    look()
    assert told == sorted(told, reverse=True) and {True, False} == set(told)


@pytest.mark.slow
def test_readers_beside_many_changes(tmp_path: Path, made: dict[int, Path]) -> None:
    table = Path(shutil.copytree(made[6], tmp_path / "t"))
    expected = history_of(table).rows
    problems: list[BaseException] = []
    count = 0

    def change() -> None:
        try:
            for number, version in enumerate(itertools.cycle((9, 6, 8, 6, 9, 8, 6))):
                # A slow reader is waited for.
                if number >= 9 and count > 2:
                    return
                bring(table, version)
        except BaseException as error:
            problems.append(error)

    changing = threading.Thread(target=change)
    changing.start()
    while changing.is_alive():
        assert sorted(map(repr, hoodie.read_table(str(table)).to_pylist())) == expected
        count += 1
    changing.join()
    assert not problems


@pytest.mark.parametrize(("first", "version"), [(6, 9), (9, 6)])
def test_a_run_that_another_one_takes_for_dead_cannot_switch_any_more(
    tmp_path: Path, made: dict[int, Path], monkeypatch: pytest.MonkeyPatch, first: int, version: int
) -> None:
    """Where nothing locks, as on an object store: the second run begins right before the first one switches."""
    table = Path(shutil.copytree(made[first], tmp_path / "t"))
    expected = history_of(table)
    done: list[Any] = []

    def hook(call: str, path: str) -> None:
        swaps.append(call) if call == "swap" else None
        if len(swaps) == 2 and not done:
            # Gives up the other one's work.
            done.append(None)
            done.append(bring(table, first))

    swaps: list[str] = []
    with hooked(monkeypatch, hook), pytest.raises(HoodieCommitException, match="changed by another process meanwhile"):
        bring(table, version)
    assert done[1].finished_earlier_run and version_of(table) == first
    assert history_of(table) == expected
    bring(table, version)
    assert history_of(table) == expected
    assert_one_timeline(table)


def test_readers_of_a_table_whose_upgrade_was_given_up_do_not_stumble_over_an_archived_commit(
    tmp_path: Path, made: dict[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Path(shutil.copytree(made[6], tmp_path / "t"))
    dying_at(table, 9, "switch", "hoodie.properties", monkeypatch)
    first = HoodieTableMetaClient.load(str(table)).active_timeline.completed_writes().instants[0].requested_time
    with local_client(table, {**ARCHIVING, **SMALL_FILTERS}) as client:
        for number in range(4):
            client.upsert(rows(("a", "x", 20 + number)))
    assert list((table / ".hoodie/timeline").glob(f"{first}_*"))
    client = HoodieTableMetaClient.load(str(table))
    assert first not in client.active_timeline.times and first in client.archived_timeline.times


def test_a_commit_that_was_undone_since_an_upgrade_was_given_up_is_not_missing(
    tmp_path: Path, made: dict[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Path(shutil.copytree(made[6], tmp_path / "t"))
    kept = HoodieTableMetaClient.load(str(table)).active_timeline.completed_writes().instants[-1].requested_time
    with local_client(table, SMALL_FILTERS) as client:
        undone = client.upsert(rows(("undone", "x", 30))).instant_time
        dying_at(table, 9, "switch", "hoodie.properties", monkeypatch)
        client.restore_to_savepoint(kept)
    assert list((table / ".hoodie/timeline").glob(f"{undone}_*"))
    expected = history_of(table)
    assert undone not in [one[0] for one in expected.instants]
    bring(table, 9)
    assert history_of(table) == expected
    assert_one_timeline(table)


@pytest.mark.parametrize("state", ["", ".requested"], ids=["all files", "but a pending state"])
def test_commits_that_hudi_moved_after_an_upgrade_was_given_up_are_not_lost(
    tmp_path: Path, made: dict[int, Path], monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Hudi's own upgrade moved a commit over the copy, and died at the copy of another file."""
    table = Path(shutil.copytree(made[6], tmp_path / "t"))
    expected = history_of(table)
    dying_at(table, 9, "switch", "hoodie.properties", monkeypatch)
    moved = HoodieTableMetaClient.load(str(table)).active_timeline.completed_writes().instants[-1].requested_time
    kept = tmp_path / "kept"
    kept.mkdir()
    for path in (table / ".hoodie").glob(f"{moved}.*"):
        if not state or not path.name.endswith(state):
            path.rename(kept / path.name)
    monkeypatch.setattr("hoodie.common.table.table_snapshot._SECONDS_BETWEEN_LOADS", 0)
    before = set(files_of_timelines(table))
    for act in (lambda: hoodie.read_table(str(table)), lambda: bring(table, 9), lambda: write_to(table)):
        with pytest.raises(HoodieIOException, match=rf"{moved} the first, are in .*timeline only.*let it finish"):
            act()
    assert set(files_of_timelines(table)) == before
    for path in kept.iterdir():
        path.rename(table / ".hoodie" / path.name)
    bring(table, 9)
    assert history_of(table) == expected


def write_to(table: Path) -> None:
    with local_client(table, SMALL_FILTERS) as client:
        client.upsert(rows(("a", "x", 60)))


@pytest.mark.parametrize("place", ["first", "second"])
def test_a_commit_of_a_writer_that_does_not_look_again_is_not_deleted(
    tmp_path: Path, made: dict[int, Path], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """It goes on with the timeline of version 6 while an upgrade deletes that, or after the upgrade died there."""
    table = Path(shutil.copytree(made[6], tmp_path / "t"))
    expected = history_of(table).rows
    stray = table / ".hoodie/20991123000000000.commit"

    def hook(call: str, path: str) -> None:
        if call == "list" and path.endswith(".hoodie") and version_of_file(table) == 9:
            stray.write_bytes(b"{}")

    if place == "first":
        with hooked(monkeypatch, hook), pytest.raises(HoodieCommitException, match="stop that writer"):
            bring(table, 9)
    else:
        dying_at(table, 9, "delete", ".commit", monkeypatch)
        stray.write_bytes(b"{}")
    for dry_run in (True, False):
        with pytest.raises(HoodieCommitException, match=rf"{stray.stem} the first, are in .*\.hoodie only"):
            upgrade_table(str(table), 9, dry_run=dry_run)
    with pytest.raises(HoodieCommitException, match="nothing was written"):
        write_to(table)
    assert stray.exists() and history_of(table).rows == expected
    stray.unlink()
    bring(table, 9)
    assert_one_timeline(table)
    write_to(table)


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "dies"])
def test_a_write_that_is_begun_right_before_the_switch(
    tmp_path: Path, made: dict[int, Path], monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    """Several writers of version 6 take their times without the lock."""
    table = Path(shutil.copytree(made[6], tmp_path / "t"))
    before = len(history_of(table).rows)
    writer = local_client(table, {**SMALL_FILTERS, **SEVERAL, "hoodie.auto.commit": "false"})
    begun: list[HoodieWriteResult] = []
    swaps: list[str] = []

    def hook(call: str, path: str) -> None:
        if call == "swap":
            swaps.append(path)
            if len(swaps) == 2:
                begun.append(writer.upsert(rows(("begun", "x", 70))))

    with hooked(monkeypatch, hook):
        bring(table, 9)
    time = begun[0].instant_time
    assert HoodieTableMetaClient.load(str(table)).active_timeline.filter_pending().times == {time}
    if commits:
        writer.commit(time, begun[0])
    writer.close()
    (table / ".hoodie/.heartbeat" / time).unlink(missing_ok=True)
    with local_client(table, {**ARCHIVING, **SMALL_FILTERS}) as client:
        assert client.rollback_failed_writes() == ([] if commits else [time])
        (saved,) = HoodieTableMetaClient.load(str(table)).active_timeline.filter_actions(Action.SAVEPOINT).times
        client.delete_savepoint(saved)
        for number in range(5):
            client.upsert(rows(("later", "y", number)))
    assert time < min(HoodieTableMetaClient.load(str(table)).active_timeline.completed_writes().times)
    assert len(history_of(table).rows) == before + 1 + commits
    assert len(list(table.rglob(f"*{time}.parquet"))) == commits


def test_a_write_that_was_begun_in_the_old_timeline_is_rolled_back_after_a_downgrade(
    tmp_path: Path, made: dict[int, Path]
) -> None:
    """A writer of version 6 that did not look again, and has died."""
    table, old = (Path(shutil.copytree(made[version], tmp_path / str(version))) for version in (9, 6))
    with local_client(old, {**SMALL_FILTERS, "hoodie.auto.commit": "false"}) as writer:
        time = writer.upsert(rows(("begun", "x", 70))).instant_time
    begun = [path for path in old.rglob(f"*{time}*") if path.is_file()]
    assert len(begun) >= 3
    for path in begun:
        target = table / path.relative_to(old)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    (table / ".hoodie/20990101000000000.clean.requested").write_bytes(b"")
    expected = history_of(table).rows
    bring(table, 6)
    assert HoodieTableMetaClient.load(str(table)).active_timeline.filter_pending().times == {time}
    assert history_of(table).rows == expected
    with local_client(table, SMALL_FILTERS) as client:
        assert client.rollback_failed_writes() == [time]
    assert not list(table.rglob(f"*{time}*.parquet"))
    assert history_of(table).rows == expected


def version_of_file(table: Path) -> int:
    text = (table / ".hoodie/hoodie.properties").read_text()
    return 9 if "hoodie.table.version=9" in text else 6


def test_a_table_that_hudi_has_half_downgraded_is_not_written_to(tmp_path: Path, made: dict[int, Path]) -> None:
    """A write would build on the files before the commit that Hudi has moved."""
    table = Path(shutil.copytree(made[9], tmp_path / "t"))
    expected = history_of(table)
    last = HoodieTableMetaClient.load(str(table)).active_timeline.completed_writes().instants[-1]
    name = f"timeline/{last.requested_time}_{last.completion_time}.{last.action}"
    moved = table / f".hoodie/{last.requested_time}.{last.action}"
    (table / ".hoodie" / name).rename(moved)
    with pytest.raises(HoodieCommitException, match=rf"{last.requested_time} the first.*nothing was written"):
        write_to(table)
    moved.rename(table / ".hoodie" / name)
    write_to(table)
    assert len(history_of(table).rows) == len(expected.rows) + 1


def test_a_run_that_dies_while_it_changes_the_metadata_table(
    tmp_path: Path, made: dict[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Path(shutil.copytree(made[6], tmp_path / "t"))
    expected = history_of(table)
    (table / ".hoodie/metadata/files").mkdir(parents=True)
    (table / ".hoodie/metadata/files/x").write_bytes(b"x")
    change_properties(table, {"hoodie.table.metadata.partitions": "files"})
    dying_at(table, 9, "rmdir", "metadata", monkeypatch)
    assert HoodieTableMetaClient.load(str(table)).table_config.metadata_partitions == ()
    bring(table, 9)
    assert not (table / ".hoodie/metadata").exists()
    assert history_of(table) == expected
