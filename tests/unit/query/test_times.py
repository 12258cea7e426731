"""Time travel and incremental queries, held against a model of every commit."""

from __future__ import annotations

import datetime
import logging
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from time import sleep, tzset
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.table.timeline.instant_time import format_instant_time
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieIOException,
    HoodieNotSupportedException,
    HoodieSchemaException,
)
from tests.support.table_builder import init_table, local_client, read_rows, rows, sorted_rows

Row = tuple[str, str, int]
State = dict[tuple[str, str], tuple[Row, str]]
"""Key and partition to the row and the instant that wrote it."""
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
OCC = NO_SERVICES | {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
}
REGIONS = ["x", "y", "z"]
KINDS = ["upsert", "upsert", "upsert", "delete", "overwrite", "delete_partitions", "insert"]


def commits_of(path: str) -> list[str]:
    timeline = HoodieTableMetaClient.load(path).active_timeline
    return [instant.requested_time for instant in timeline.completed_writes()]


def end_of(result: hoodie.HoodieWriteResult) -> str:
    """The time by which ranges of commits know a commit."""
    return result.completion_time or result.instant_time


def written_between(state: State, begin: str | None, end: str) -> list[Row]:
    return sorted(row for row, time in state.values() if (begin is None or time > begin) and time <= end)


def random_history(
    path: str,
    seed: int,
    steps: int,
    *,
    kinds: Sequence[str] = KINDS,
    between: Callable[[HoodieLocalWriteClient, random.Random], object] = lambda client, chance: None,
    **properties: Any,
) -> list[tuple[str, str, State]]:
    """Some commits of all kinds: the requested time of each, the time that ranges know it by, and the rows then.

    Args:
        path: The table.
        seed: Of chance.
        steps: The number of commits.
        kinds: The kinds of commits.
        between: Called before each commit, for services that change no rows.
        properties: Of the writer.
    """
    chance = random.Random(seed)
    state: State = {}
    history: list[tuple[str, str, State]] = []
    with local_client(path, {**NO_SERVICES, **properties}) as client:
        for step in range(1, steps + 1):
            between(client, chance)
            keys = chance.sample([f"k{number}" for number in range(12)], 4)
            incoming = [(key, chance.choice(REGIONS), step) for key in keys]
            kind = chance.choice(kinds)
            if kind == "delete" and state:
                gone = chance.sample(sorted(state), min(3, len(state)))
                result = client.delete([HoodieKey(*key) for key in gone])
                state = {key: value for key, value in state.items() if key not in gone}
            elif kind == "delete_partitions" and state:
                partition = chance.choice(sorted({region for _, region in state}))
                result = client.delete_partitions([partition])
                state = {key: value for key, value in state.items() if key[1] != partition}
            else:
                if kind == "overwrite":
                    regions = {region for _, region, _ in incoming}
                    result = client.insert_overwrite(rows(*incoming))
                    state = {key: value for key, value in state.items() if key[1] not in regions}
                elif kind == "insert":
                    incoming = [row for row in incoming if row[:2] not in state]
                    if not incoming:
                        continue
                    result = client.insert(rows(*incoming))
                else:
                    result = client.upsert(rows(*incoming))
                state = state | {row[:2]: (row, end_of(result)) for row in incoming}
            history.append((result.instant_time, end_of(result), state))
    return history


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.one_in(4)
def test_every_time_and_every_range_give_what_the_model_holds(tmp_path: Path, seed: int) -> None:
    path = init_table(tmp_path / "t")
    history = random_history(path, seed, 9)
    ends = [end for _, end, _ in history]
    for number, (time, end, state) in enumerate(history):
        assert read_rows(path, as_of=time) == sorted(row for row, _ in state.values())
        assert read_rows(path, query_type="read_optimized", as_of=time) == read_rows(path, as_of=time)
        for begin in [None, *ends[: number + 1]]:
            found = read_rows(path, query_type="incremental", begin=begin or "earliest", end=end)
            assert found == written_between(state, begin, end), (begin, end)
    newest = history[-1][2]
    assert read_rows(path, query_type="incremental", begin="000") == sorted(row for row, _ in newest.values())


@pytest.mark.table_version(6)
def test_times_need_not_be_those_of_commits(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, NO_SERVICES) as client:
        for ts, instant in ((1, "20240101101530123"), (2, "20240103101530123")):
            client.start_commit_with_time(instant)
            client.upsert(rows(("a", "x", ts)), instant)
    old, new = [("a", "x", 1)], [("a", "x", 2)]
    zone = datetime.timezone(datetime.timedelta(hours=2))
    for time, expected in (
        ("2024-01-01", []),
        ("2024-01-01 10:15:30.122", []),
        ("2024-01-01 10:15:30.123", old),
        ("2024-01-02", old),
        ("2024-01-03 10:15:31", new),
        ("2024-01-03T10:15:31", new),
        ("20240102000000000", old),
        ("20240102000000", old),
        (datetime.date(2024, 1, 2), old),
        (datetime.datetime(2024, 1, 3, 10, 15, 31), new),
        (datetime.datetime(2024, 1, 3, 12, 15, 30, tzinfo=zone), old),
        (datetime.datetime(2024, 1, 3, 12, 15, 31, tzinfo=zone), new),
        ("2999-01-01", new),
    ):
        assert read_rows(path, as_of=time) == expected, time
    # A second is all of it, whatever asks for it; 10 and 13 digits are since 1970.
    for second, expected in (("2024-01-01 10:15:30", old), ("2024-01-01T10:15:30", old), ("2024-01-01 10:15:29", [])):
        assert read_rows(path, as_of=second) == expected, second
        assert read_rows(path, query_type="incremental", begin="earliest", end=second) == expected, second
    assert read_rows(path, as_of="2024-01-03 12:15:30+02:00") == new
    assert read_rows(path, as_of=datetime.datetime(2024, 1, 1, 10, 15, 30)) == []
    assert read_rows(path, query_type="incremental", begin="2024-01-03 10:15:30") == []
    assert read_rows(path, query_type="incremental", begin="2024-01-03 10:15:29") == new
    for number, expected in (("1704104130", []), ("1704104130122", []), ("1704104130123", old), ("1704104131", old)):
        assert read_rows(path, as_of=number) == expected, number
    assert read_rows(path, query_type="incremental", begin="1704104131") == new
    assert read_rows(path, query_type="incremental", begin="2024-01-02") == new
    assert read_rows(path, query_type="incremental", begin="2024") == new
    assert read_rows(path, query_type="incremental", begin="2024-01-01", end="2024-01-02") == old
    assert read_rows(path, query_type="incremental", begin="2024-02-01") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"as_of": "yesterday"}, r"as_of.*'yesterday'.*no time"),
        ({"as_of": "2024-13-01"}, "as_of.*no time"),
        ({"as_of": "20241301000000"}, "as_of.*no time"),
        ({"as_of": 5}, "as_of.*no time"),
        ({"as_of": "2024010110"}, "as_of.*no time"),
        ({"begin": "2024010110", "query_type": "incremental"}, "begin.*no time"),
        ({"begin": "soon", "query_type": "incremental"}, "begin.*no time.*earliest"),
        ({"begin": "2024", "end": "2023", "query_type": "incremental"}, "'2024' is after end '2023'"),
        ({"query_type": "incremental"}, "needs begin"),
        ({"begin": "000"}, "query_type='incremental'"),
        ({"end": "2024-01-01"}, "query_type='incremental'"),
        ({"as_of": "2024-01-01", "begin": "000", "query_type": "incremental"}, "give end instead"),
        ({"options": {"as.of.instant": "2024-01-01"}, "as_of": "2024-01-02"}, "give one of them"),
        ({"options": {"hoodie.datasource.query.typ": "snapshot"}}, "did you mean hoodie.datasource.query.type"),
        ({"options": {"hoodie.datasource.query.type": "all"}}, "hoodie.datasource.query.type = 'all'"),
    ],
)
def test_queries_that_make_no_sense_are_refused(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    path = init_table(tmp_path / "t")
    with pytest.raises(HoodieConfigException, match=message):
        hoodie.read_table(path, **arguments)


@pytest.mark.table_version(6)
def test_begin_and_end_are_compared_in_the_zone_of_the_timeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = init_table(tmp_path / "t", properties={"hoodie.table.timeline.timezone": "LOCAL"})
    monkeypatch.setenv("TZ", "America/New_York")
    tzset()
    try:
        with local_client(path, NO_SERVICES) as client:
            first = client.upsert(rows(("a", "x", 1))).instant_time
        hour_ago = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        assert read_rows(path, query_type="incremental", begin=hour_ago, end=first) == [("a", "x", 1)]
        with pytest.raises(HoodieConfigException, match=r"begin .* is after end .* exchange them"):
            read_rows(path, query_type="incremental", begin=first, end=hour_ago)
    finally:
        monkeypatch.undo()
        tzset()


def test_options_of_hudi_mean_the_same_as_arguments(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    (first, _, _), (second, _, _) = random_history(path, 1, 2)
    options = {
        "hoodie.datasource.view.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": first,
        "hoodie.datasource.read.end.instanttime": second,
        "hoodie.metadata.enable": "true",
    }
    by_options = hoodie.read_table(path, options=options)
    assert by_options.equals(hoodie.read_table(path, query_type="incremental", begin=first, end=second))
    assert by_options.num_rows
    changes = hoodie.read_table(path, options={**options, "hoodie.datasource.query.incremental.format": "cdc"})
    assert changes.column_names == ["op", "_hoodie_commit_time", "before", "after"]
    assert changes["after"].combine_chunks().field("id").to_pylist() == by_options["id"].to_pylist()


def test_a_glob_chooses_the_files_of_a_range(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, NO_SERVICES) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1), ("c", "z", 1)))
    for glob, expected in (
        ("/x/*", ["a"]),
        ("/{x,z}/*", ["a", "c"]),
        ("/[xy]/*", ["a", "b"]),
        ("/t/[^x]/*", ["b", "c"]),
        ("/q/*", []),
    ):
        options = {"hoodie.datasource.read.incr.path.glob": glob}
        found = read_rows(path, query_type="incremental", begin="earliest", options=options)
        assert [row[0] for row in found] == expected


def test_conditions_of_sql_are_refused_without_spark(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 2)))
    options = {"hoodie.datasource.read.incr.filters": "ts > 1"}
    with pytest.raises(HoodieNotSupportedException, match=r"incr\.filters.*filters instead.*hoodie\.spark\.read"):
        read_rows(path, query_type="incremental", begin="000", options=options)
    # Hudi's snapshot queries do not read the option either.
    assert read_rows(path, options=options) == [("a", "x", 1), ("b", "x", 2)]


def test_a_table_without_commit_times_has_no_incremental_query(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", properties={"hoodie.populate.meta.fields": "false"})
    with local_client(path) as client:
        client.bulk_insert(rows(("a", "x", 1)))
    with pytest.raises(HoodieNotSupportedException, match=r"hoodie\.populate\.meta\.fields"):
        hoodie.read_table(path, query_type="incremental", begin="000")
    assert read_rows(path, as_of="2999-01-01") == [("a", "x", 1)]


# --- columns --------------------------------------------------------------------------------------------------------


@pytest.mark.table_version(6)
def test_a_table_has_the_columns_and_types_of_the_time_that_it_is_read_at(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    narrow = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("n", pa.int32())])
    wide = narrow.set(3, pa.field("n", pa.int64())).append(pa.field("fare", pa.float64()))
    with local_client(path, NO_SERVICES) as client:
        first = client.upsert(rows(("a", "x", 1, 1), schema=narrow)).instant_time
        second = client.upsert(rows(("b", "x", 2, 2, 2.5), schema=wide)).instant_time
        third = client.delete_partitions(["x"]).instant_time
        client.upsert(rows(("c", "y", 3, 3, 3.5), schema=wide))
    for query_type in ("snapshot", "read_optimized"):
        before = hoodie.read_table(path, as_of=first, query_type=query_type)
        assert before.schema.names[-4:] == narrow.names
        assert before.schema.field("n").type == pa.int32()
        assert before.select(narrow.names).to_pylist() == [{"id": "a", "region": "x", "ts": 1, "n": 1}]
    with_fares = hoodie.read_table(path, as_of=second, columns=["id", "n", "fare"])
    assert with_fares.schema.field("n").type == pa.int64()
    assert sorted(with_fares["fare"].to_pylist(), key=str) == [2.5, None]
    # The third commit has no schema of its own.
    assert hoodie.read_table(path, as_of=third).schema.names[-5:] == wide.names
    assert hoodie.read_table(path, as_of="2024-01-01").schema.names[-5:] == wide.names
    for arguments in ({"columns": ["id", "fare"]}, {"filters": [("fare", ">", 1.0)]}):
        with pytest.raises(HoodieSchemaException, match=f"as of {first} has no column fare"):
            hoodie.read_table(path, as_of=first, **arguments)
    # What a range of commits wrote comes in the columns of today.
    found = hoodie.read_table(path, query_type="incremental", begin="earliest", end=first)
    assert found.select(wide.names).to_pylist() == [{"id": "a", "region": "x", "ts": 1, "n": 1, "fare": None}]


@pytest.mark.table_version(6)
def test_an_archived_commit_tells_the_columns_of_its_time(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    services = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    with local_client(path, services) as client:
        first = client.upsert(rows(("a", "x", 1))).instant_time
        for ts in range(2, 9):
            client.upsert(rows(("b", "y", ts, 1.0)))
    assert not HoodieTableMetaClient.load(path).active_timeline.contains(first)
    # Nothing has replaced the file of that commit.
    found = hoodie.read_table(path, as_of=first)
    assert found.schema.names[-3:] == ["id", "region", "ts"]
    assert sorted_rows(found.select(["id", "region", "ts"])) == [("a", "x", 1)]


# --- what is gone ---------------------------------------------------------------------------------------------------


def cleaned_table(path: str, savepoint_first: bool = False) -> list[str]:
    """Six versions of one row, of which cleans have left the last three or so."""
    with local_client(path, NO_SERVICES | {"hoodie.cleaner.commits.retained": 2}) as client:
        for ts in range(1, 7):
            client.upsert(rows(("a", "x", ts), ("b", "y", ts)))
            if ts == 1 and savepoint_first:
                client.savepoint(commits_of(path)[0], user="me", comment="keep")
        client.clean()
    return commits_of(path)


def test_a_time_whose_files_were_cleaned_names_the_earliest_that_can_be_read(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    times = cleaned_table(path)
    readable = []
    for number, time in enumerate(times, start=1):
        try:
            assert read_rows(path, as_of=time) == [("a", "x", number), ("b", "y", number)]
            readable.append(time)
        except HoodieIOException as error:
            message = str(error)
    assert 0 < len(readable) < len(times)
    assert f"as of {readable[0]} or later" in message
    assert "hoodie.cleaner.commits.retained" in message


@pytest.mark.parametrize("filters", [None, [("region", "=", "x")]], ids=["all", "filtered"])
def test_a_time_that_had_a_partition_whose_folder_was_cleaned_is_refused(tmp_path: Path, filters: Any) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, NO_SERVICES | {"hoodie.cleaner.commits.retained": 1}) as client:
        first = client.upsert(rows(("a", "x", 1), ("b", "y", 1))).instant_time
        client.delete_partitions(["x"])
        for ts in (2, 3):
            client.upsert(rows(("c", "z", ts)))
        client.clean()
    assert not (tmp_path / "t" / "x").exists()
    with pytest.raises(HoodieIOException, match=r"1 file versions of that time were cleaned, of file group x/"):
        read_rows(path, as_of=first, filters=filters)
    assert read_rows(path, as_of=first, filters=[("region", "=", "y")]) == [("b", "y", 1)]
    # Neither had files at that time that could be pruned: one is gone, one was not there yet.
    assert "partitions not read: 2" in hoodie.plan_read(path, as_of=first, filters=[("region", "=", "y")]).explain()


def test_a_savepoint_can_be_read_between_times_that_cannot(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    times = cleaned_table(path, savepoint_first=True)
    assert read_rows(path, as_of=times[0]) == [("a", "x", 1), ("b", "y", 1)]
    with pytest.raises(HoodieIOException, match=f"or at a savepoint .{times[0]}"):
        read_rows(path, as_of=times[1])


def test_a_range_whose_files_were_cleaned_is_an_error_or_a_scan_of_the_table(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    times = cleaned_table(path)
    # The files of the newest commit are there, and hold all rows of the range.
    assert read_rows(path, query_type="incremental", begin=times[0]) == [("a", "x", 6), ("b", "y", 6)]
    arguments: dict[str, Any] = {"query_type": "incremental", "begin": times[0], "end": times[1]}
    with pytest.raises(HoodieIOException, match=r"2 files of the range were cleaned.*fulltablescan"):
        read_rows(path, **arguments)
    scan = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"}
    with pytest.raises(HoodieIOException, match="were cleaned"):
        # The table cannot be read as of the end of the range either.
        read_rows(path, **arguments, options=scan)


@pytest.mark.table_version(6)
def test_the_way_out_of_a_cleaned_range_of_completion_times_is_a_completion_time(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    times = cleaned_table(path)
    by_completion = {"hoodie.read.timeline.holes.resolution.policy": "USE_TRANSITION_TIME"}
    arguments: dict[str, Any] = {"query_type": "incremental", "end": times[1], "options": by_completion}
    with pytest.raises(HoodieIOException, match="2 files of the range were cleaned") as caught:
        read_rows(path, begin=times[0], **arguments)
    assert "fulltablescan" not in str(caught.value)
    begin = str(caught.value).partition("Begin at ")[2].split()[0]
    assert read_rows(path, begin=begin, **arguments) == []


@pytest.mark.table_version(6)
def test_a_range_that_begins_among_archived_commits_needs_a_choice(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    properties = {
        "hoodie.cleaner.commits.retained": 2,
        "hoodie.keep.min.commits": 3,
        "hoodie.keep.max.commits": 4,
        "hoodie.clean.automatic": "true",
    }
    written = []
    with local_client(path, properties) as client:
        for ts in range(1, 10):
            written.append(client.upsert(rows((f"k{ts}", "x", ts), ("a", "y", ts))).instant_time)
        client.clean()
        client.archive()
    assert len(commits_of(path)) < len(written)
    with pytest.raises(HoodieIOException, match=r"archived.*Begin at \d+ or later.*fulltablescan"):
        read_rows(path, query_type="incremental", begin=written[1])
    scan = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"}
    found = read_rows(path, query_type="incremental", begin=written[1], options=scan)
    assert found == sorted([("a", "y", 9), *((f"k{ts}", "x", ts) for ts in range(3, 10))])
    everything = sorted([("a", "y", 9), *((f"k{ts}", "x", ts) for ts in range(1, 10))])
    assert read_rows(path, query_type="incremental", begin="earliest") == everything
    assert read_rows(path, query_type="incremental", begin=commits_of(path)[0]) != everything


@pytest.mark.table_version(6)
def test_a_range_may_begin_before_a_clean_that_is_archived(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    services = {"hoodie.cleaner.commits.retained": 2, "hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 4}
    with local_client(path, services) as client:
        for ts in range(1, 9):
            client.upsert(rows(("a", "x", ts), (f"k{ts}", "y", ts)))
    first, *later = commits_of(path)
    archived = HoodieTableMetaClient.load(path).archived_timeline
    assert [str(instant.action) for instant in archived.after(first)] == ["clean"]
    expected = [("a", "x", 8), *((f"k{ts}", "y", ts) for ts in range(9 - len(later), 9))]
    assert read_rows(path, query_type="incremental", begin=first) == expected


@pytest.mark.table_version(6)
def test_a_time_that_a_restore_has_undone_is_refused(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, NO_SERVICES) as client:
        times = [client.upsert(rows(("a", "x", ts))).instant_time for ts in (1, 2, 3)]
        client.restore_to_instant(times[0])
        client.upsert(rows(("b", "y", 4)))
    for arguments in (
        {"as_of": times[1]},
        {"as_of": times[2]},
        {"query_type": "incremental", "begin": times[1]},
        {"query_type": "incremental", "begin": times[0], "end": times[2]},
    ):
        with pytest.raises(HoodieException, match=f"undone.*{times[0]}"):
            hoodie.read_table(path, **arguments)  # type: ignore[arg-type]
    between = str(int(times[1]) + 1)
    for arguments in (
        {"as_of": between},
        {"query_type": "incremental", "begin": between},
        {"query_type": "incremental", "begin": times[0], "end": between},
        {"query_type": "incremental", "begin": "earliest", "end": between},
    ):
        with pytest.raises(HoodieException, match=f"undone.*{times[0]}"):
            hoodie.read_table(path, **arguments)  # type: ignore[arg-type]
    assert read_rows(path, as_of=times[0]) == [("a", "x", 1)]
    assert read_rows(path, query_type="incremental", begin=times[0]) == [("b", "y", 4)]


# --- pending commits ------------------------------------------------------------------------------------------------


def with_a_hole(path: str) -> tuple[list[str], Callable[[], object]]:
    """Commits 1 and 3 of a table whose commit 2 is pending, and what completes that one."""
    slow = local_client(path, OCC | {"hoodie.auto.commit": "false"})
    with local_client(path, OCC) as client:
        first = client.upsert(rows(("a", "x", 1))).instant_time
        pending = slow.start_commit()
        result = slow.upsert(rows(("b", "y", 2)), pending)
        third = client.upsert(rows(("c", "z", 3))).instant_time

    def complete() -> None:
        slow.commit(pending, result)
        slow.close()

    return [first, pending, third], complete


@pytest.mark.table_version(6)
def test_a_pending_commit_between_others_is_refused_or_ends_the_range(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    (first, pending, third), complete = with_a_hole(path)
    with pytest.raises(HoodieException, match=f"commit {pending} is pending.*{third}.*BLOCK"):
        read_rows(path, query_type="incremental", begin="earliest")
    block = {"hoodie.read.timeline.holes.resolution.policy": "BLOCK"}
    assert read_rows(path, query_type="incremental", begin="earliest", options=block) == [("a", "x", 1)]
    assert read_rows(path, query_type="incremental", begin=first, options=block) == []
    assert read_rows(path, query_type="incremental", begin="earliest", end=first) == [("a", "x", 1)]
    before_third = str(int(third) - 1)
    for end in (pending, before_third, third, "2999-01-01"):
        with pytest.raises(HoodieException, match=f"commit {pending} is pending, and the range ends at .*BLOCK"):
            read_rows(path, query_type="incremental", begin="earliest", end=end)
        assert read_rows(path, query_type="incremental", begin="earliest", end=end, options=block) == [("a", "x", 1)]
    blocked = hoodie.plan_read(path, query_type="incremental", begin="earliest", end=before_third, options=block)
    assert f"up to {first}" in repr(blocked)
    # Nothing of the range can be missed after the pending commit.
    assert read_rows(path, query_type="incremental", begin=pending) == [("c", "z", 3)]
    complete()
    rest = [("b", "y", 2), ("c", "z", 3)]
    assert read_rows(path, query_type="incremental", begin=first) == rest


@pytest.mark.table_version(6)
def test_an_end_behind_the_newest_commit_and_a_pending_one_is_refused_or_moved(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    slow = local_client(path, OCC | {"hoodie.auto.commit": "false"})
    with local_client(path, OCC) as client, slow:
        first = client.upsert(rows(("a", "x", 1))).instant_time
        pending = slow.start_commit()
        slow.upsert(rows(("b", "y", 2)), pending)
        asked: dict[str, Any] = {"query_type": "incremental", "begin": "earliest"}
        with pytest.raises(HoodieException, match=f"commit {pending} is pending, and the range ends at 2999"):
            read_rows(path, **asked, end="2999-01-01")
        block = {"hoodie.read.timeline.holes.resolution.policy": "BLOCK"}
        plan = hoodie.plan_read(path, **asked, end="2999-01-01", options=block)
        assert f"up to {first}" in repr(plan)
        # Without an end the range is up to the newest completed commit, which nothing comes before.
        assert read_rows(path, **asked) == [("a", "x", 1)]


def test_a_time_after_a_pending_commit_is_read_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = init_table(tmp_path / "t")
    (first, pending, third), complete = with_a_hole(path)
    with caplog.at_level(logging.WARNING, logger="hoodie.query"):
        assert read_rows(path, as_of=first) == [("a", "x", 1)]
        assert caplog.text == ""
        assert read_rows(path, as_of=third) == [("a", "x", 1), ("c", "z", 3)]
    assert f"as of {third}: commit {pending} is pending" in caplog.text
    caplog.clear()
    complete()
    assert read_rows(path, as_of=third) == [("a", "x", 1), ("b", "y", 2), ("c", "z", 3)]
    assert caplog.text == ""


def overtaken(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "completed after" in record.getMessage()]


@pytest.mark.table_version(6)
def test_a_time_at_which_the_table_never_was_is_read_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = init_table(tmp_path / "t")
    (first, slow, fast), complete = with_a_hole(path)
    sleep(0.01)
    complete()
    with local_client(path, OCC) as client:
        last = client.upsert(rows(("d", "x", 4))).instant_time
    whole = [("a", "x", 1), ("b", "y", 2), ("c", "z", 3), ("d", "x", 4)]
    asked: list[dict[str, Any]] = [{"as_of": slow}, {"query_type": "incremental", "begin": first, "end": slow}]
    for arguments in asked:
        caplog.clear()
        read_rows(path, **arguments)
        (message,) = overtaken(caplog)
        assert f"as of {slow}: commit {slow} was completed after commit {fast}" in message
    caplog.clear()
    between = str(int(fast) - 1)
    assert read_rows(path, as_of=between) == whole[:2]
    assert len(overtaken(caplog)) == 1
    caplog.clear()
    # These were there, or nobody can tell.
    assert read_rows(path, as_of=first) == whole[:1]
    assert read_rows(path, as_of=fast) == whole[:3]
    assert read_rows(path, as_of=last) == whole
    assert read_rows(path) == whole
    assert read_rows(path, query_type="incremental", begin=first) == whole[1:]
    by_completion = {"hoodie.datasource.read.handle.hollow.commit": "USE_TRANSITION_TIME"}
    read_rows(path, query_type="incremental", begin="earliest", end=slow, options=by_completion)
    for place, file in enumerate(sorted(Path(path, ".hoodie").glob("*.commit*"), reverse=True)):
        os.utime(file, (2_000_000_000 + place, 2_000_000_000 + place))
    assert read_rows(path, as_of=slow) == whole[:2]
    assert overtaken(caplog) == []


@pytest.mark.table_version(6)
def test_a_clustering_that_is_overtaken_changes_no_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = init_table(tmp_path / "t")
    (_, slow, fast), complete = with_a_hole(path)
    sleep(0.01)
    complete()
    for instant in (slow, fast):
        file = Path(path, ".hoodie", f"{instant}.commit")
        times, content = file.stat().st_mtime_ns, file.read_text()
        file.write_text(content.replace('"UPSERT"', '"CLUSTER"'))
        os.utime(file, ns=(times, times))
        read_rows(path, as_of=slow)
        assert overtaken(caplog) == []
        file.write_text(content)
        os.utime(file, ns=(times, times))
    read_rows(path, as_of=slow)
    assert len(overtaken(caplog)) == 1


def test_ranges_of_completion_times_leave_nothing_out(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    _, complete = with_a_hole(path)
    by_completion = {"hoodie.datasource.read.handle.hollow.commit": "USE_TRANSITION_TIME"}
    seen = read_rows(path, query_type="incremental", begin="earliest", options=by_completion)
    assert seen == [("a", "x", 1), ("c", "z", 3)]
    sleep(0.01)
    seen_until = datetime.datetime.now(datetime.UTC)
    sleep(0.01)
    complete()
    assert read_rows(path, query_type="incremental", begin=seen_until, options=by_completion) == [("b", "y", 2)]
    assert read_rows(path, query_type="incremental", begin="2999-01-01", options=by_completion) == []


@pytest.mark.table_version(6)
def test_a_slow_commit_that_is_archived_is_not_left_out_of_a_range_of_completion_times(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    _, complete = with_a_hole(path)
    for ts in range(4, 7):
        with local_client(path, OCC) as client:
            client.upsert(rows(("c", "z", ts)))
    sleep(0.01)
    seen_until = datetime.datetime.now(datetime.UTC)
    sleep(0.01)
    complete()
    services = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    with local_client(path, OCC | services | {"hoodie.clean.automatic": "true"}) as client:
        client.upsert(rows(("d", "z", 7)))
        client.clean()
        client.archive()
    timeline = HoodieTableMetaClient.load(path).active_timeline
    begin = format_instant_time(seen_until)
    assert not timeline.is_archived_past(begin)
    by_completion = {"hoodie.read.timeline.holes.resolution.policy": "USE_TRANSITION_TIME"}
    with pytest.raises(HoodieIOException, match=r"archived. Begin at \d+ or later; cleans"):
        read_rows(path, query_type="incremental", begin=begin, options=by_completion)
    sleep(0.01)
    seen_until = datetime.datetime.now(datetime.UTC)
    assert read_rows(path, query_type="incremental", begin=seen_until, options=by_completion) == []


@pytest.mark.table_version(6)
def test_a_range_of_completion_times_misses_no_commit_that_was_archived_since(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    _, complete = with_a_hole(path)
    sleep(0.01)
    seen_until = datetime.datetime.now(datetime.UTC)
    sleep(0.01)
    complete()
    properties = {"hoodie.cleaner.commits.retained": 2, "hoodie.keep.min.commits": 4, "hoodie.keep.max.commits": 5}
    with local_client(path, NO_SERVICES | properties) as client:
        written = [client.upsert(rows(("d", "z", ts))).instant_time for ts in range(4, 8)]
        client.clean()
        client.archive()
    # All commits that are left, and none of the archived ones, were requested after the begin of the range.
    assert commits_of(path) == written
    by_completion = {"hoodie.read.timeline.holes.resolution.policy": "USE_TRANSITION_TIME"}
    with pytest.raises(HoodieIOException, match=r"commits of the range are archived. Begin at \d+ or later") as caught:
        read_rows(path, query_type="incremental", begin=seen_until, options=by_completion)
    begin = str(caught.value).partition("Begin at ")[2].partition(" ")[0]
    assert read_rows(path, query_type="incremental", begin=begin, options=by_completion) == [("d", "z", 7)]


def test_a_range_of_completion_times_may_hold_no_commit(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, NO_SERVICES) as client:
        client.upsert(rows(("a", "x", 1)))
    by_completion = {"hoodie.read.timeline.holes.resolution.policy": "USE_TRANSITION_TIME"}
    assert read_rows(path, query_type="incremental", begin="2999-01-01", options=by_completion) == []


def test_a_table_that_was_never_written_has_no_rows_at_any_time(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    assert hoodie.read_table(path, as_of="2024-01-01").num_rows == 0
    assert hoodie.read_table(path, query_type="incremental", begin="earliest").num_rows == 0
    assert pa.types.is_string(hoodie.read_table(path).schema.field("_hoodie_commit_time").type)
