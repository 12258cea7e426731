"""Queries: real Hudi and hoodie find the same rows of the same tables, and where they do not, which ones and why."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow as pa
import pytest

import hoodie
import hoodie.spark
from hoodie import HoodieKey, HoodieTableMetaClient
from hoodie.common.table.timeline.instant_time import format_instant_time
from hoodie.exception import HoodieConfigException, HoodieException, HoodieIOException, HoodieNotSupportedException
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.interop.table_model import META_COLUMNS, SIMPLE, plain
from tests.interop.test_replace_and_restore import call
from tests.support.later_version import to_version
from tests.support.table_builder import SCHEMA, TRIPS, init_table, local_client, rows
from tests.unit.test_tables_of_real_hudi import COPY_ON_WRITE, VIRTUAL_KEYS, copy_of_table

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8]

Options = dict[str, str]
TripRow = tuple[str, str, int, float | None]
State = dict[str, tuple[TripRow, str]]
"""Key to the row and the instant that wrote it."""

TYPE = "hoodie.datasource.query.type"
AS_OF = "as.of.instant"
BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"
GLOB = "hoodie.datasource.read.incr.path.glob"
FULL_SCAN = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
HOLES = "hoodie.read.timeline.holes.resolution.policy"
LAST = "29990101000000000"
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def as_of(time: str) -> Options:
    return {AS_OF: time}


def since(begin: str, end: str | None = None, **more: str) -> Options:
    return {TYPE: "incremental", BEGIN: begin, **({END: end} if end else {}), **more}


def every_range(times: Sequence[str]) -> list[Options]:
    """From each instant to each later one, and from the beginning and each instant to the newest."""
    to_each = [since(begin, end) for end in times for begin in times if begin < end]
    return [*to_each, since("000", times[0]), *(since(begin) for begin in ["000", *times])] if times else []


def result_of(found: pa.Table) -> tuple[dict[str, str], list[str]]:
    """The user's columns with their types, and the rows with what Hudi says of them."""
    # The entries of a map have a name that means nothing.
    types = {field.name: re.sub(r" \('\w+'\)", "", str(field.type)) for field in found.schema}
    columns = {name: types[name] for name in types.keys() - META_COLUMNS}
    names = ["_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path", *sorted(columns)]
    # Hudi leaves out meta columns that a table does not fill.
    return columns, sorted(repr([plain(row.get(name)) for name in names]) for row in found.to_pylist())


def assert_agree(hudi: HudiProcess, path: Path, queries: Sequence[Options]) -> None:
    """Each query gives the same columns, types and rows by real Hudi and by hoodie."""
    for query, found in zip(queries, hudi.read_each(path, queries), strict=True):
        assert not isinstance(found, HudiError), (query, str(found))
        assert result_of(hoodie.read_table(str(path), options=query)) == result_of(found), query


def trips_of(found: pa.Table | HudiError) -> list[TripRow]:
    """The rows of a result; a column that it lacks is null."""
    assert not isinstance(found, HudiError), found
    return sorted(tuple(row.get(name) for name in TRIPS.names) for row in found.to_pylist())


def ids_of(found: pa.Table | HudiError) -> list[str]:
    """The keys of a result; [] where there are none."""
    assert not isinstance(found, HudiError), found
    return sorted(found["id"].to_pylist())


def ours(path: Path, query: Mapping[str, str]) -> pa.Table:
    return hoodie.read_table(str(path), options=query)


def ends_of(path: Path, times: Iterable[str]) -> list[str]:
    """What ranges of a table are made of: the completion times of commits, or in version 6 their own times."""
    timeline = HoodieTableMetaClient.load(str(path)).active_timeline
    ends = {instant.requested_time: instant.completion_time for instant in timeline.completed_writes()}
    return [ends[time] or time for time in times]


def commits_of(path: Path) -> list[str]:
    timeline = HoodieTableMetaClient.load(str(path)).active_timeline
    return [instant.requested_time for instant in timeline.completed_writes()]


# --- a history of every kind of write ---------------------------------------------------------------------------------

HISTORY: Sequence[tuple[str, Sequence[tuple[Any, ...]]]] = [
    ("bulk_insert", [("a", "x", 1), ("b", "x", 1), ("c", "y", 1), ("d", "z", 1)]),
    ("upsert", [("a", "x", 2), ("e", "y", 2)]),
    ("delete", [("c", "y", 3)]),
    ("upsert", [("b", "x", 4, 4.5), ("f", "z", 4, 4.5)]),
    ("insert_overwrite", [("g", "x", 5, 5.5), ("b", "x", 5, 5.5)]),
    ("delete_partition", [("", "z", 6)]),
    ("upsert", [("g", "x", 7, 7.5), ("d", "z", 7, 7.5)]),
]
"""Operations and their rows; the fourth adds a column."""


def next_state(state: State, operation: str, changes: Iterable[tuple[Any, ...]], time: str) -> State:
    """What a table holds after a write."""
    given = [(*change, None)[: len(TRIPS)] for change in changes]
    regions = {row[1] for row in given}
    match operation:
        case "delete":
            return {key: value for key, value in state.items() if key not in {row[0] for row in given}}
        case "delete_partition":
            return {key: value for key, value in state.items() if value[0][1] not in regions}
        case "insert_overwrite":
            state = {key: value for key, value in state.items() if value[0][1] not in regions}
    return state | {row[0]: (row, time) for row in given}


def write_by_hoodie(path: Path, operation: str, changes: Sequence[tuple[Any, ...]]) -> None:
    with local_client(path, NO_SERVICES) as client:
        if operation == "delete":
            client.delete([HoodieKey(key, region) for key, region, *_ in changes])
        elif operation == "delete_partition":
            client.delete_partitions([region for _, region, *_ in changes])
        else:
            getattr(client, operation)(rows(*changes))


def write_by_hudi(hudi: HudiProcess, path: Path, operation: str, changes: Sequence[tuple[Any, ...]]) -> None:
    options = SIMPLE.hudi_options("t") | NO_SERVICES
    if operation == "delete_partition":
        options["hoodie.datasource.write.partitions.to.delete"] = ",".join(region for _, region, *_ in changes)
    hudi.write(path, rows(*changes), options, operation=operation)


def made_history(path: Path, write: Callable[[str, Sequence[tuple[Any, ...]]], None]) -> list[tuple[str, State]]:
    """Write all of the history; the instants, and what the table holds after each."""
    state: State = {}
    history = []
    for operation, changes in HISTORY:
        write(operation, changes)
        time = commits_of(path)[-1]
        state = next_state(state, operation, changes, time)
        history.append((time, state))
    return history


def expected_of(history: Sequence[tuple[str, State]], ends: Sequence[str], query: Options) -> list[TripRow]:
    """What a query must find; ``ends`` are those of the commits."""
    end_of = {time: time if AS_OF in query else end for (time, _), end in zip(history, ends, strict=True)}
    last = query.get(AS_OF) or query.get(END) or LAST
    state = [state for time, state in history if end_of[time] <= last][-1]
    return sorted(row for row, time in state.values() if end_of[time] > query.get(BEGIN, "0"))


@pytest.mark.parametrize("writer", ["hoodie", "hudi"])
def test_every_time_and_every_range(hudi: HudiProcess, tmp_path: Path, writer: str, spark: Any) -> None:
    path = tmp_path / "t"
    if writer == "hoodie":
        init_table(path)
        history = made_history(path, lambda *write: write_by_hoodie(path, *write))
    else:
        history = made_history(path, lambda *write: write_by_hudi(hudi, path, *write))
    times = [time for time, _ in history]
    assert len(set(times)) == len(HISTORY)
    ends = ends_of(path, times)
    optimized = {TYPE: "read_optimized"}
    queries = [as_of(time) for time in times] + every_range(ends) + [{}, optimized, optimized | as_of(times[3])]
    # Limits that are no instants.
    queries += [since(str(int(ends[1]) - 1), str(int(ends[4]) + 1)), since(ends[-1]), since(LAST)]
    for query, found in zip(queries, hudi.read_each(path, queries), strict=True):
        expected = expected_of(history, ends, query)
        assert trips_of(found) == expected, query
        assert not isinstance(found, HudiError)
        assert result_of(ours(path, query)) == result_of(found), query
    for query in [as_of(times[2]), since("000", ends[3]), since(ends[2], ends[5])] if writer == "hudi" else []:
        frame = hoodie.spark.read(spark, str(path), query)
        columns, _ = result_of(ours(path, query))
        assert set(frame.columns) == {*META_COLUMNS, *columns}
        found_by_spark = sorted(tuple(row.asDict().get(name) for name in TRIPS.names) for row in frame.collect())
        assert found_by_spark == expected_of(history, ends, query), query


def test_rows_that_clustering_wrote_again(hudi: HudiProcess, tmp_path: Path) -> None:
    path = tmp_path / "t"
    init_table(path)
    write_by_hoodie(path, "insert", [("a", "x", 1), ("b", "x", 1), ("c", "y", 1)])
    write_by_hoodie(path, "bulk_insert", [("d", "x", 2)])
    clustering = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    options = SIMPLE.hudi_options("t") | NO_SERVICES | clustering
    hudi.write(path, rows(("b", "x", 3), ("e", "y", 3)), options)
    write_by_hoodie(path, "upsert", [("c", "y", 4)])
    first, second, third, clustered, last = commits_of(path)
    timeline = HoodieTableMetaClient.load(str(path)).active_timeline
    assert [str(instant.action) for instant in timeline.completed_writes()][3] == "replacecommit"
    ends = ends_of(path, [first, second, third, clustered, last])
    ranges = [since("000"), since("000", ends[3]), since(ends[1], ends[3]), *(since(end) for end in ends)]
    assert_agree(hudi, path, [{}, as_of(third), as_of(clustered), *ranges])
    assert ids_of(ours(path, since(ends[2], ends[3]))) == []
    assert ids_of(ours(path, since(ends[0]))) == ["b", "c", "d", "e"]


# --- times and paths in all their forms -------------------------------------------------------------------------------

FIRST, SECOND, THIRD = "20240101101530123", "20240103101530123", "20240103101530900"
"""Instants of a table; the last two are of the same second."""


@pytest.fixture
def table_of_2024(tmp_path: Path, table_version: int) -> Path:
    path = tmp_path / "t"
    init_table(path, table_version=6)
    with local_client(path, NO_SERVICES) as client:
        for instant, row in ((FIRST, ("a", "x", 1)), (SECOND, ("b", "y", 2)), (THIRD, ("c", "z", 3))):
            client.start_commit_with_time(instant)
            client.upsert(rows(row), instant)
    if table_version != 6:
        # Nobody can complete a commit in 2024, so each is completed at its own time.
        to_version(path, table_version, completed={instant: instant for instant in (FIRST, SECOND, THIRD)})
    return path


FORMS = {
    "20240101101530122": 0,
    FIRST: 1,
    "2024-01-01": 0,
    "2024-01-02": 1,
    "2024-01-03": 1,
    "2024-01-03 10:15:29": 1,
    "2024-01-03 10:15:30": 3,
    "2024-01-03 10:15:30.122": 1,
    "2024-01-03 10:15:30.123": 2,
    "20240103101530": 1,
    "20240103101531": 3,
    "2999-12-31": 3,
}
"""Forms of times that both releases take, and how many commits there are up to each."""
LATER_FORMS = {
    "2024-01-03T10:15:30": 3,
    "2024-01-03T10:15:30.123": 2,
    "1704276930": 1,
    "1704276931": 3,
    "1704276930122": 1,
    "1704276930123": 2,
}
"""Forms that 1.2.0 takes as well."""
LIMITS = {"2024-01-02", "2024-01-03 10:15:30", "20240103101530", "2024-01-03T10:15:30.123", "1704276930123"}
"""Some of them, to be limits of ranges."""
KEYS = ["a", "b", "c"]


@pytest.mark.interop_smoke
def test_times_in_all_their_forms(hudi: HudiProcess, table_of_2024: Path) -> None:
    is_old = hudi.version == "0.15.0"
    forms = FORMS if is_old else FORMS | LATER_FORMS
    found = hudi.read_each(table_of_2024, [as_of(form) for form in forms])
    for (form, count), table in zip(forms.items(), found, strict=True):
        assert ids_of(table) == ids_of(ours(table_of_2024, as_of(form))) == KEYS[:count], form
    forms = {form: count for form, count in forms.items() if form in LIMITS}
    found = hudi.read_each(table_of_2024, [since(form) for form in forms] + [since("000", form) for form in forms])
    for (form, count), begun, ended in zip(forms.items(), found[: len(forms)], found[len(forms) :], strict=True):
        assert ids_of(ours(table_of_2024, since(form))) == KEYS[count:], form
        assert ids_of(ours(table_of_2024, since("000", form))) == KEYS[:count], form
        if is_old and "-" in form:
            # 0.15.0 compares the text: a dash is before all digits.
            assert (ids_of(begun), ids_of(ended)) == ((KEYS, []) if form < "2025" else ([], KEYS)), form
        else:
            assert (ids_of(begun), ids_of(ended)) == (KEYS[count:], KEYS[:count]), form


def test_times_that_are_none(hudi: HudiProcess, table_of_2024: Path) -> None:
    wrong = ["yesterday", "000", "20240101", "2024-13-01"]
    for form, found in zip(wrong, hudi.read_each(table_of_2024, [as_of(form) for form in wrong]), strict=True):
        # To Hudi the thirteenth month is the next January.
        assert isinstance(found, HudiError) == (form != "2024-13-01"), form
        with pytest.raises(HoodieConfigException, match="no time"):
            ours(table_of_2024, as_of(form))
    # The beginning has two names; Hudi knows one of them on these tables, and finds nothing by the other.
    zeros, earliest = hudi.read_each(table_of_2024, [since("000"), since("earliest")])
    assert ids_of(zeros) == ids_of(ours(table_of_2024, since("000"))) == KEYS
    assert (ids_of(earliest), ids_of(ours(table_of_2024, since("earliest")))) == ([], KEYS)


def test_options_that_do_not_fit_each_other(hudi: HudiProcess, table_of_2024: Path) -> None:
    """Hudi passes over what hoodie refuses; without a begin both refuse."""
    ignored: list[tuple[Options, list[str]]] = [
        (since(SECOND, FIRST), []),
        ({BEGIN: SECOND}, KEYS),
        ({END: FIRST}, KEYS),
        (since(FIRST) | as_of(FIRST), KEYS[1:]),
    ]
    for (query, keys), found in zip(
        ignored, hudi.read_each(table_of_2024, [query for query, _ in ignored]), strict=True
    ):
        assert ids_of(found) == keys, query
        with pytest.raises(HoodieConfigException):
            ours(table_of_2024, query)
    refused = [{TYPE: "incremental"}, {TYPE: "all"}]
    for query, found in zip(refused, hudi.read_each(table_of_2024, refused), strict=True):
        assert isinstance(found, HudiError)
        with pytest.raises(HoodieConfigException):
            ours(table_of_2024, query)


def test_globs_of_paths(hudi: HudiProcess, table_of_2024: Path) -> None:
    globs = ["/x/*", "/{x,z}/*", "/[xy]/*", "/[!x]/*", "/q/*", "x/*", "**/x/*", "/*/x*", "/?/*.parquet", "/x"]
    queries = [since("000", None, **{GLOB: glob}) for glob in globs] + [since(FIRST, SECOND, **{GLOB: "/y/*"})]
    assert_agree(hudi, table_of_2024, queries)
    assert ids_of(ours(table_of_2024, queries[1])) == ["a", "c"]
    assert ids_of(ours(table_of_2024, queries[-1])) == ["b"]


# --- what is gone -----------------------------------------------------------------------------------------------------


def many_versions(path: Path, count: int, **properties: Any) -> list[str]:
    """Commits that each change a row of two partitions and add one."""
    init_table(path)
    with local_client(path, properties) as client:
        return [client.upsert(versions(ts)).instant_time for ts in range(1, count + 1)]


def keys_up_to(ts: int, begin: int = 0) -> list[str]:
    """The keys that the commits of a range wrote."""
    return sorted(["a", "b", *(f"k{number}" for number in range(begin + 1, ts + 1))])


def cleaned_by_hoodie(path: Path) -> list[str]:
    """Six versions of two rows, of which the first is saved and the last three or so are left."""
    init_table(path)
    with local_client(path, NO_SERVICES | {"hoodie.cleaner.commits.retained": "2"}) as client:
        times = []
        for ts in range(1, 7):
            times.append(client.upsert(versions(ts)).instant_time)
            if ts == 1:
                client.savepoint(times[0], user="ann", comment="kept")
        client.clean()
    return times


def cleaned_by_hudi(hudi: HudiProcess, path: Path) -> list[str]:
    """The same table, made and cleaned by real Hudi."""
    options = SIMPLE.hudi_options("t") | {"hoodie.cleaner.commits.retained": "2"}
    for ts in range(1, 7):
        services = NO_SERVICES | {"hoodie.clean.automatic": str(ts == 6).lower()}
        hudi.write(path, versions(ts), options | services)
        if ts == 1:
            call(hudi, f"create_savepoint(path => '{path}', commit_time => '{commits_of(path)[0]}')")
    return commits_of(path)


def versions(ts: int) -> pa.Table:
    """Rows of two partitions that every commit changes, and one that it adds."""
    return rows(("a", "x", ts), ("b", "y", ts), (f"k{ts}", "x", ts), schema=SCHEMA)


@pytest.mark.table_versions(6)
@pytest.mark.parametrize("writer", ["hoodie", "hudi"])
def test_times_that_were_cleaned(hudi: HudiProcess, tmp_path: Path, writer: str) -> None:
    path = tmp_path / "t"
    times = cleaned_by_hoodie(path) if writer == "hoodie" else cleaned_by_hudi(hudi, path)
    assert_agree(hudi, path, [as_of(times[4]), as_of(times[5]), *(since(times[begin]) for begin in (0, 2, 5))])

    # Hudi reads no time before the newest clean; hoodie reads those whose files are there, by a savepoint or by chance.
    for found in hudi.read_each(path, [as_of(times[number]) for number in (0, 1, 3)]):
        assert isinstance(found, HudiError)
        assert "Cleaner cleaned up the timestamp" in str(found)
    assert ids_of(ours(path, as_of(times[0]))) == keys_up_to(1)
    assert ids_of(ours(path, as_of(times[3]))) == keys_up_to(4)
    with pytest.raises(HoodieIOException, match=rf"as of {times[3]} or later or at a savepoint \({times[0]}\)"):
        ours(path, as_of(times[1]))

    # The rows of these commits were cleaned: both say so.
    cleaned = [since("000", times[1]), since(times[0], times[2])]
    for query, found in zip(cleaned, hudi.read_each(path, cleaned), strict=True):
        assert isinstance(found, HudiError)
        with pytest.raises(HoodieIOException, match="cleaned"):
            ours(path, query)
    # A full scan of Hudi takes the newest rows, so it loses those that were updated after the range.
    whole = [since("000", times[3], **{FULL_SCAN: "true"}), since("000", times[1], **{FULL_SCAN: "true"})]
    readable, unreadable = hudi.read_each(path, whole)
    assert (ids_of(readable), ids_of(unreadable)) == (["k1", "k2", "k3", "k4"], ["k1", "k2"])
    assert ids_of(ours(path, whole[0])) == keys_up_to(4)
    with pytest.raises(HoodieIOException, match="cleaned"):
        ours(path, whole[1])


@pytest.mark.table_versions(6)
def test_commits_that_were_archived(hudi: HudiProcess, tmp_path: Path) -> None:
    path = tmp_path / "t"
    services = {"hoodie.cleaner.commits.retained": "2", "hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}
    times = many_versions(path, 8, **services)
    archived = len(times) - len(commits_of(path))
    assert archived >= 2
    # From the first commit of the active timeline on there is nothing to choose.
    assert_agree(hudi, path, [since(time) for time in times[archived:]])
    scans = [since(begin, None, **{FULL_SCAN: "true"}) for begin in ["000", *times]]
    assert_agree(hudi, path, scans)
    assert ids_of(ours(path, since("000"))) == keys_up_to(8)

    # Without a full scan, Hudi leaves out rows that it finds no commit for; hoodie reads them or says so.
    lost, since_archived = hudi.read_each(
        path, [since("000", None, **{FULL_SCAN: "false"}), since(times[0], None, **{FULL_SCAN: "false"})]
    )
    assert "k1" not in ids_of(lost) if hudi.version == "0.15.0" else ids_of(lost) == keys_up_to(8)
    assert ids_of(ours(path, since("000", None, **{FULL_SCAN: "false"}))) == keys_up_to(8)
    assert "a" in ids_of(since_archived)
    with pytest.raises(HoodieIOException, match=f"archived. Begin at {times[archived - 1]} or later"):
        ours(path, since(times[0], None, **{FULL_SCAN: "false"}))
    # As of the end of a range, rows that were updated since count: Hudi has lost them, whatever is chosen.
    for choice in ("true", "false"):
        query = since("000", times[6], **{FULL_SCAN: choice})
        (found,) = hudi.read_each(path, [query])
        assert ids_of(ours(path, query)) == keys_up_to(7)
        assert ids_of(found) != keys_up_to(7) or hudi.version != "0.15.0"


@pytest.mark.table_versions(6)
def test_commits_that_a_restore_has_undone(hudi: HudiProcess, tmp_path: Path) -> None:
    path = tmp_path / "t"
    times = many_versions(path, 3, **NO_SERVICES)
    with local_client(path, NO_SERVICES) as client:
        client.restore_to_instant(times[0])
        last = client.upsert(rows(("b", "y", 4), schema=SCHEMA)).instant_time
    assert_agree(hudi, path, [{}, as_of(times[0]), as_of(last), since(times[0]), since("000", last), since(last)])

    # Hudi goes on from an instant that is gone: whoever took over its rows never hears that they are.
    gone = [as_of(times[2]), since(times[2]), since(times[0], times[1])]
    found = [ids_of(table) for table in hudi.read_each(path, gone)]
    assert found == [["a", "b", "k1"], ["b"], []]
    for query in gone:
        with pytest.raises(HoodieException, match=f"undone.*{times[0]}"):
            ours(path, query)


# --- pending commits --------------------------------------------------------------------------------------------------


def with_a_hole(path: Path) -> tuple[list[str], Callable[[], None]]:
    """Commits 1 and 3 of a table whose commit 2 is pending, and what completes that one."""
    init_table(path)
    several = NO_SERVICES | {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    }
    slow = local_client(path, several | {"hoodie.auto.commit": "false"})
    with local_client(path, several) as client:
        first = client.upsert(rows(("a", "x", 1))).instant_time
        sleep(0.02)
        pending = slow.start_commit()
        result = slow.upsert(rows(("b", "y", 2)), pending)
        third = client.upsert(rows(("c", "z", 3))).instant_time

    def complete() -> None:
        with slow:
            slow.commit(pending, result)

    return [first, pending, third], complete


def now() -> str:
    """The present as an instant time, apart from what happens before and after."""
    sleep(0.02)
    time = format_instant_time(datetime.datetime.now(datetime.UTC))
    sleep(0.02)
    return time


@pytest.mark.table_versions(6)
@pytest.mark.interop_smoke
def test_pending_commits_between_others(hudi: HudiProcess, tmp_path: Path) -> None:
    path = tmp_path / "t"
    (first, pending, third), complete = with_a_hole(path)
    seen_until = now()
    holes = [since("000"), since("000", third), since(first)]
    fail = hudi.read_each(path, holes)
    for query, found in zip(holes, fail, strict=True):
        assert isinstance(found, HudiError)
        assert f"hollow commit: '{pending}'" in str(found)
        with pytest.raises(HoodieException, match=f"commit {pending} is pending"):
            ours(path, query)
    assert_agree(hudi, path, [query | {HOLES: "BLOCK"} for query in holes])
    assert ids_of(ours(path, holes[0] | {HOLES: "BLOCK"})) == ["a"]

    # Hudi looks at all of the timeline, hoodie at the range.
    outside = [since("000", first), since(pending)]
    for query, found, keys in zip(outside, hudi.read_each(path, outside), (["a"], ["c"]), strict=True):
        assert isinstance(found, HudiError)
        assert ids_of(ours(path, query)) == keys

    # The table as of a time at which a commit was pending is another one once it is completed: Hudi waits for that.
    (found,) = hudi.read_each(path, [as_of(third)])
    assert isinstance(found, HudiError)
    assert "must be earlier than the first incomplete commit" in str(found)
    assert ids_of(ours(path, as_of(third))) == ["a", "c"]
    by_completion = {HOLES: "USE_TRANSITION_TIME"}
    assert_agree(hudi, path, [since("000", seen_until) | by_completion])
    complete()
    assert_agree(hudi, path, [as_of(third), *every_range([first, pending, third])])
    ranges = [since("000", LAST), since("000", seen_until), since(seen_until, LAST), since(LAST)]
    expected = [KEYS, ["a", "c"], ["b"], []]
    assert [ids_of(ours(path, query | by_completion)) for query in ranges] == expected
    assert ids_of(ours(path, since(seen_until) | by_completion)) == ["b"]
    found_by_hudi = hudi.read_each(path, [query | by_completion for query in [*ranges, since(seen_until)]])
    if hudi.version == "1.2.0":
        # It begins by the times of requests, so the slow commit is in no later range.
        expected = [KEYS, ["a", "c"], [], []]
    # Without an end, Hudi ends when the commit that was requested last was completed: that is before the slow one.
    assert [ids_of(table) for table in found_by_hudi] == [*expected, []]


# --- tables of real Hudi ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COPY_ON_WRITE)
def test_tables_that_real_hudi_made(
    name: str, tmp_path: Path, request: pytest.FixtureRequest, hudi_0_15: HudiProcess, hudi_1_2: HudiProcess
) -> None:
    path = copy_of_table(name, tmp_path, request)
    times = commits_of(path)
    optimized = {TYPE: "read_optimized"}
    for hudi in (hudi_0_15, hudi_1_2):
        assert_agree(hudi, path, [{}, optimized, *(as_of(time) for time in times)])
        if name not in VIRTUAL_KEYS:
            assert_agree(hudi, path, every_range(times))
    if name in VIRTUAL_KEYS:
        with pytest.raises(HoodieNotSupportedException, match="populate.meta.fields"):
            ours(path, since("000"))
