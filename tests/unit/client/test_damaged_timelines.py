"""Timeline files that are cut short, empty or gone; tables created twice at once; values that make odd folders."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.table.timeline.instant import State
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieKeyException,
    HoodieNotSupportedException,
    HoodieRollbackException,
    InvalidTableException,
    TableExistsException,
)
from tests.support.pairs import each_pair
from tests.support.table_builder import TRIPS, content, local_client, read_trips, rows
from tests.support.timeline_files import make_state, name_of_lost, state_file, timeline_folder

INIT: dict[str, Any] = {
    "table_name": "trips",
    "record_key_fields": ["id"],
    "partition_fields": ["region"],
    "ordering_fields": ["ts"],
}
Row = tuple[str, str, int, float]
FIRST: list[Row] = [("a", "x", 1, 1.0), ("b", "x", 1, 2.0), ("c", "y", 1, 3.0)]
SECOND: list[Row] = [("a", "x", 2, 10.0), ("d", "y", 1, 4.0)]
THIRD: list[Row] = [("e", "z", 1, 5.0)]
LATER: list[Row] = [("b", "x", 9, 90.0), ("f", "z", 1, 6.0)]


def merged(*steps: list[Row]) -> list[Row]:
    return sorted({row[0]: row for step in steps for row in step}.values())


def read_by_hudi_rs(base_path: Path) -> list[Row]:
    table = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(base_path)).build().read())
    return sorted(tuple(row.values()) for row in table.select(TRIPS.names).to_pylist())


def upsert(base_path: Path, entries: list[Row]) -> str:
    with local_client(base_path) as c:
        return c.upsert(rows(*entries)).instant_time


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three commits, instant times ``times.json`` beside the table."""
    folder = tmp_path_factory.mktemp("damaged")
    base_path = folder / "trips"
    HoodieTableMetaClient.init_table(str(base_path), **INIT)
    times = [upsert(base_path, entries) for entries in (FIRST, SECOND, THIRD)]
    (folder / "times.json").write_text(json.dumps(times))
    return folder


@pytest.fixture
def base_path(template: Path, tmp_path: Path) -> Path:
    shutil.copytree(template / "trips", tmp_path / "trips")
    return tmp_path / "trips"


@pytest.fixture
def times(template: Path) -> list[str]:
    return list(json.loads((template / "times.json").read_text()))


def damage(file: Path, how: str) -> None:
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(b"" if how == "empty" else file.read_bytes()[: file.stat().st_size // 2])


@each_pair(number=[0, 1, 2], state=[State.REQUESTED, State.INFLIGHT], how=["missing", "empty", "half"])
def test_requested_and_inflight_files_of_completed_commits_are_not_needed(
    base_path: Path, times: list[str], number: int, state: State, how: str
) -> None:
    damage(state_file(base_path, times[number], state=state), how)
    assert read_trips(base_path) == merged(FIRST, SECOND, THIRD)
    upsert(base_path, LATER)
    assert read_trips(base_path) == read_by_hudi_rs(base_path) == merged(FIRST, SECOND, THIRD, LATER)


@pytest.mark.parametrize("how", ["empty", "half"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_commit_file_that_was_cut_is_refused_by_name_where_it_is_needed_and_loses_nothing(
    base_path: Path, times: list[str], number: int, how: str
) -> None:
    file = state_file(base_path, times[number])
    whole = file.read_bytes()
    damage(file, how)
    expected = merged(FIRST, SECOND, THIRD)
    try:
        assert read_trips(base_path) == expected
    except HoodieCorruptedDataException as error:
        assert file.name in str(error)
    try:
        upsert(base_path, LATER)
    except HoodieCorruptedDataException as error:
        assert file.name in str(error)
        # The newest commit tells the schema: nothing goes on without it.
    else:
        assert number < 2
        expected = merged(expected, LATER)
        assert read_trips(base_path) == expected
    file.write_bytes(whole)
    assert read_trips(base_path) == read_by_hudi_rs(base_path) == expected
    upsert(base_path, [("g", "x", 1, 7.0)])
    assert read_trips(base_path) == merged(expected, [("g", "x", 1, 7.0)])


@pytest.mark.parametrize("number", [0, 1])
def test_a_commit_file_that_is_gone_among_later_ones_stops_writers_until_it_is_restored(
    base_path: Path, times: list[str], number: int
) -> None:
    file = state_file(base_path, times[number])
    whole = file.read_bytes()
    file.unlink()
    before = content(base_path)
    with pytest.raises(HoodieRollbackException, match=times[number]):
        upsert(base_path, LATER)
    assert content(base_path) == before
    file.write_bytes(whole)
    upsert(base_path, LATER)
    assert read_trips(base_path) == merged(FIRST, SECOND, THIRD, LATER)


def test_the_newest_commit_without_its_file_waits_for_it_or_for_a_word(base_path: Path, times: list[str]) -> None:
    file = state_file(base_path, times[2])
    whole = file.read_bytes()
    file.unlink()
    assert read_trips(base_path) == read_by_hudi_rs(base_path) == merged(FIRST, SECOND)
    before = content(base_path)
    with pytest.raises(HoodieRollbackException, match=rf"Restore .*{name_of_lost(file)}; .*rollback\('{times[2]}'\)"):
        upsert(base_path, LATER)
    assert content(base_path) == before
    file.write_bytes(whole)
    assert read_trips(base_path) == merged(FIRST, SECOND, THIRD)
    file.unlink()
    with local_client(base_path) as c:
        assert c.rollback(times[2])
    upsert(base_path, LATER)
    assert read_trips(base_path) == read_by_hudi_rs(base_path) == merged(FIRST, SECOND, LATER)


@pytest.fixture
def with_failed_write(base_path: Path) -> tuple[Path, str]:
    c = local_client(base_path, **{"hoodie.auto.commit": "false"})
    instant_time = c.start_commit()
    c.upsert(rows(*[("a", "x", 5, 50.0), ("q", "new", 1, 1.0)]), instant_time)
    return base_path, instant_time


@pytest.mark.parametrize("how", ["missing", "empty", "half"])
@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
def test_a_failed_write_is_rolled_back_whatever_happened_to_its_files(
    with_failed_write: tuple[Path, str], state: State, how: str
) -> None:
    base_path, instant_time = with_failed_write
    damage(state_file(base_path, instant_time, state=state), how)
    assert read_trips(base_path) == merged(FIRST, SECOND, THIRD)
    upsert(base_path, LATER)
    assert read_trips(base_path) == read_by_hudi_rs(base_path) == merged(FIRST, SECOND, THIRD, LATER)
    assert not [file.name for file in base_path.rglob("*.parquet") if instant_time in file.name]


@pytest.mark.parametrize("how", ["empty", "half", "missing"])
def test_a_damaged_plan_of_a_rollback_stops_writers_by_name(with_failed_write: tuple[Path, str], how: str) -> None:
    base_path, instant_time = with_failed_write
    with local_client(base_path) as c:
        c.rollback(instant_time)
    (completed,) = timeline_folder(base_path).glob("*.rollback")
    plan = state_file(base_path, completed.name[:17], "rollback", State.REQUESTED)
    completed.unlink()
    damage(plan, how)
    assert read_trips(base_path) == merged(FIRST, SECOND, THIRD)
    with pytest.raises(HoodieException, match=plan.name):
        upsert(base_path, LATER)
    assert read_trips(base_path) == read_by_hudi_rs(base_path) == merged(FIRST, SECOND, THIRD)


@pytest.mark.parametrize("several", [False, True], ids=["one_writer", "several_writers"])
def test_a_rollback_whose_planner_died_over_its_file_is_given_up(
    with_failed_write: tuple[Path, str], caplog: pytest.LogCaptureFixture, several: bool
) -> None:
    """Hudi makes files before it fills them."""
    base_path, instant_time = with_failed_write
    plan = make_state(base_path, str(int(instant_time) + 1), "rollback", State.REQUESTED)
    properties = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "InProcessLockProvider",
    }
    with local_client(base_path, **(properties if several else {})) as c:
        c.upsert(rows(*LATER))
        c.clean()
    assert not plan.exists()
    assert f"rollback {int(instant_time) + 1} of {base_path} is given up" in caplog.text
    assert read_trips(base_path) == read_by_hudi_rs(base_path) == merged(FIRST, SECOND, THIRD, LATER)
    assert not [file.name for file in base_path.rglob("*.parquet") if instant_time in file.name]


@pytest.mark.parametrize("how", ["empty", "half", "missing"])
@pytest.mark.one_in(4)
def test_damaged_table_properties_are_refused_by_name(base_path: Path, how: str) -> None:
    file = base_path / ".hoodie" / "hoodie.properties"
    whole = file.read_bytes()
    damage(file, how)
    before = content(base_path)
    with pytest.raises(InvalidTableException, match=r"hoodie\.properties"):
        read_trips(base_path)
    with pytest.raises(InvalidTableException, match=r"hoodie\.properties"):
        upsert(base_path, LATER)
    assert content(base_path) == before
    file.write_bytes(whole)
    upsert(base_path, LATER)
    assert read_trips(base_path) == merged(FIRST, SECOND, THIRD, LATER)


def test_properties_cut_at_any_line_are_never_taken_for_whole(base_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.common.table.table_config._SECONDS_BETWEEN_ATTEMPTS", 0)
    file = base_path / ".hoodie" / "hoodie.properties"
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    for count in range(len(lines)):
        for extra in (b"", lines[count][: len(lines[count]) // 2], lines[count][:-2]):
            file.write_bytes(b"".join(lines[:count]) + extra)
            with pytest.raises((InvalidTableException, HoodieNotSupportedException)):
                HoodieTableMetaClient.load(str(base_path))


@pytest.mark.parametrize("how", ["empty", "half", "missing"])
def test_the_backup_of_the_properties_stands_in_for_them(base_path: Path, how: str) -> None:
    file = base_path / ".hoodie" / "hoodie.properties"
    shutil.copy(file, file.with_name("hoodie.properties.backup"))
    damage(file, how)
    assert read_trips(base_path) == merged(FIRST, SECOND, THIRD)
    upsert(base_path, LATER)
    assert read_trips(base_path) == merged(FIRST, SECOND, THIRD, LATER)


# --- two creators -----------------------------------------------------------------------------------------------------


def _create(path: str, number: int, start: Any, answers: Any) -> None:
    start.wait()
    try:
        HoodieTableMetaClient.init_table(path, **{**INIT, "table_name": f"trips{number}"})
    except HoodieException as error:
        answers.put((number, type(error).__name__))
    else:
        answers.put((number, "created"))


def test_of_two_processes_that_create_a_table_at_once_one_wins(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for attempt in range(5):
        path = tmp_path / f"t{attempt}"
        start, answers = context.Barrier(2), context.SimpleQueue()
        processes = [context.Process(target=_create, args=(str(path), number, start, answers)) for number in (1, 2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(30)
        found = dict(answers.get() for _ in processes)
        assert sorted(found.values()) == [TableExistsException.__name__, "created"]
        winner = next(number for number, answer in found.items() if answer == "created")
        assert HoodieTableMetaClient.load(str(path)).table_config.table_name == f"trips{winner}"


# --- odd partition values ---------------------------------------------------------------------------------------------

STORED = {
    "a[b]": "a%5Bb%5D",
    "a{b": "a%7Bb",
    "p*q": "p%2Aq",
    "a/b": "a%2Fb",
    "": "__HIVE_DEFAULT_PARTITION__",
    "süd ost ☃": "süd ost ☃",
}
"""Partition values, and the level of the path that URL encoding makes of them."""


@pytest.fixture(params=[False, True], ids=["plain", "hive_encoded"])
def encoded(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def odd_table(tmp_path: Path, encoded: bool) -> Iterator[Path]:
    base_path = tmp_path / "inner" / "trips"
    properties = {"hoodie.datasource.write.partitionpath.urlencode": "true"} if encoded else {}
    HoodieTableMetaClient.init_table(str(base_path), **INIT, hive_style_partitioning=encoded, properties=properties)
    yield base_path
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]
    assert [path.name for path in (tmp_path / "inner").iterdir()] == ["trips"]


@pytest.mark.parametrize("value", STORED)
def test_odd_partition_values_are_stored_in_their_folder_and_read(odd_table: Path, encoded: bool, value: str) -> None:
    upsert(odd_table, [("a", value, 1, 1.0), ("b", "x", 1, 1.0)])
    upsert(odd_table, [("a", value, 2, 2.0), ("c", value, 1, 3.0)])
    expected = [("a", value, 2, 2.0), ("b", "x", 1, 1.0), ("c", value, 1, 3.0)]
    assert read_trips(odd_table) == expected
    folder = f"region={STORED[value]}" if encoded else value or STORED[value]
    assert len(list((odd_table / folder).glob("*.parquet"))) == 2
    found = hoodie.read_table(str(odd_table), columns=["id"], filters=[("region", "=", value)])
    assert sorted(found["id"].to_pylist()) == ["a", "c"]
    assert read_by_hudi_rs(odd_table) == expected


@pytest.mark.parametrize("value", ["..", ".", "../x", "/x", "x/", "a//b", ".hoodie", "n" * 300, "a\nb"])
def test_values_that_no_folder_below_the_table_can_hold_are_refused(odd_table: Path, encoded: bool, value: str) -> None:
    upsert(odd_table, [("b", "x", 1, 1.0)])
    before = {name for name in content(odd_table) if name.endswith(".parquet")}
    row = ("a", value, 1, 1.0)
    # Encoded, these have no slash or control character; behind "region=", none is a name of Hudi's own.
    if encoded and value in ("../x", "/x", "x/", "a//b", ".hoodie", "a\nb"):
        upsert(odd_table, [row])
        assert read_trips(odd_table) == [row, ("b", "x", 1, 1.0)]
        return
    with pytest.raises(HoodieKeyException, match="region"):
        upsert(odd_table, [row])
    assert {name for name in content(odd_table) if name.endswith(".parquet")} == before
    assert read_trips(odd_table) == [("b", "x", 1, 1.0)]
