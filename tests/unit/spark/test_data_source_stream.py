"""The offsets of a stream over a table, as PySpark asks for them; without a session."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieException, HoodieIOException
from tests.support.table_builder import SCHEMA, init_table, local_client, read_rows, rows

pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no data sources in Python")

from hoodie.spark.data_source_options import DataSourceOptions
from hoodie.spark.data_source_reader import columns_of
from hoodie.spark.data_source_stream import stream_reader_of

pytestmark = pytest.mark.table_version(6)

if TYPE_CHECKING:
    from hoodie.spark.data_source_stream import HoodieDataSourceStreamReader

EARLIEST = {"kind": "start", "at": "earliest"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return init_table(tmp_path / "t", schema=SCHEMA)


def commit(path: str, *entries: tuple[Any, ...]) -> str:
    with local_client(path) as client:
        return client.upsert(rows(*entries)).instant_time


def reader(path: str, **options: str) -> HoodieDataSourceStreamReader:
    return stream_reader_of({"path": path, **options}, columns_of(DataSourceOptions.of({"path": path})))


def after(instant_time: str) -> dict[str, str]:
    return {"kind": "requested", "instant": instant_time}


def read(stream: HoodieDataSourceStreamReader, start: dict[str, str], end: dict[str, str]) -> list[tuple[Any, ...]]:
    batches = [batch for partition in stream.partitions(start, end) for batch in stream.read(partition)]
    return sorted((row["id"], row["ts"]) for batch in batches for row in batch.to_pylist())


def make_pending(path: str, instant_time: str) -> list[Path]:
    files = [Path(path, ".hoodie", f"{instant_time}.{state}") for state in ("commit.requested", "inflight")]
    for file in files:
        file.touch()
    return files


def between(first: str, second: str) -> str:
    assert int(second) - int(first) > 1
    return str(int(second) - 1)


def test_ranges_follow_each_other(path: str) -> None:
    stream = reader(path)
    start = stream.initialOffset()
    assert start == EARLIEST
    empty = stream.latestOffset(start, None)
    assert read(stream, start, empty) == []
    first = commit(path, ("a", "x", 1), ("b", "y", 1))
    end = stream.latestOffset(empty, None)
    assert end == after(first)
    assert read(stream, empty, end) == [("a", 1), ("b", 1)]
    assert stream.latestOffset(end, None) == end
    assert read(stream, end, end) == []
    commit(path, ("a", "x", 2))
    second = commit(path, ("a", "x", 3))
    # Another process, after a restart.
    stream = reader(path)
    assert stream.latestOffset(end, None) == after(second)
    assert read(stream, end, after(second)) == [("a", 3)]
    # The first batch again.
    assert read(stream, start, end) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("says_start", [True, False])
def test_a_pending_commit_ends_a_range(path: str, says_start: bool) -> None:
    first = commit(path, ("a", "x", 1))
    later = commit(path, ("b", "y", 2))
    pending = make_pending(path, between(first, later))
    stream = reader(path)
    given = (EARLIEST, None) if says_start else ()
    assert stream.latestOffset(*given) == after(first)
    for file in pending:
        file.unlink()
    given = (after(first), None) if says_start else ()
    assert stream.latestOffset(*given) == after(later)


@pytest.mark.parametrize("says_start", [True, False])
def test_an_offset_never_goes_back(path: str, says_start: bool) -> None:
    first = commit(path, ("a", "x", 1))
    later = commit(path, ("b", "y", 2))
    stream = reader(path)
    given = (EARLIEST, None) if says_start else ()
    assert stream.latestOffset(*given) == after(later)
    make_pending(path, between(first, later))
    given = (after(later), None) if says_start else ()
    assert stream.latestOffset(*given) == after(later)
    # After a restart PySpark 4.0 does not say where the stream stands before it asks for a batch.
    with pytest.raises(HoodieException, match=f"stands after {later}, and the newest commit .* is {first}"):
        stream.partitions(after(later), after(first))


def test_a_commit_that_comes_too_late_is_named(path: str) -> None:
    first = commit(path, ("a", "x", 1))
    later = commit(path, ("b", "y", 2))
    stream = reader(path)
    assert stream.latestOffset(EARLIEST, None) == after(later)
    late = between(first, later)
    meta_path = Path(path, ".hoodie")
    make_pending(path, late)
    shutil.copy(meta_path / f"{first}.commit", meta_path / f"{late}.commit")
    with pytest.raises(HoodieException, match=f"{late}.* was not there when the stream passed"):
        stream.latestOffset(after(later), None)


def test_a_clustering_that_is_completed_late_is_no_late_commit(path: str) -> None:
    first = commit(path, ("a", "x", 1))
    later = commit(path, ("b", "y", 2))
    stream = reader(path)
    clustering = between(first, later)
    meta_path = Path(path, ".hoodie")
    assert stream.latestOffset(EARLIEST, None) == after(later)
    for state in (".requested", ".inflight"):
        (meta_path / f"{clustering}.replacecommit{state}").touch()
    metadata = json.loads((meta_path / f"{first}.commit").read_text())
    metadata |= {"operationType": "CLUSTER", "partitionToReplaceFileIds": {}}
    (meta_path / f"{clustering}.replacecommit").write_text(json.dumps(metadata))
    assert stream.latestOffset(after(later), None) == after(later)


@pytest.mark.parametrize("start", ["first", "earliest"])
def test_a_batch_never_ends_before_its_offset(path: str, start: str) -> None:
    first = commit(path, ("a", "x", 1))
    later = commit(path, ("b", "y", 2))
    stream = reader(path, **{"hoodie.read.timeline.holes.resolution.policy": "BLOCK"})
    assert stream.latestOffset(EARLIEST, None) == after(later)
    late = between(first, later)
    make_pending(path, late)
    with pytest.raises(HoodieException, match=f"{late}.* is pending, and the batch of the stream ends at {later}"):
        read(stream, EARLIEST if start == "earliest" else after(first), after(later))


def test_a_table_that_was_made_anew_is_named_where_the_start_is_not_said(path: str) -> None:
    last = commit(path, ("a", "x", 1))
    shutil.rmtree(path)
    init_table(path, schema=SCHEMA)
    stream = reader(path)
    with pytest.raises(HoodieException, match=f"{path} has no commit {last}, which the stream has read last"):
        stream.partitions(after(last), stream.latestOffset())


@pytest.mark.parametrize("is_written_again", [False, True])
def test_a_table_that_was_made_anew_is_named(path: str, is_written_again: bool) -> None:
    last = commit(path, ("a", "x", 1))
    shutil.rmtree(path)
    init_table(path, schema=SCHEMA)
    if is_written_again:
        commit(path, ("b", "x", 1))
    stream = reader(path)
    with pytest.raises(HoodieException, match=f"{path} has no commit {last}, which the stream has read last"):
        stream.latestOffset(after(last), None)
    with pytest.raises(HoodieException, match=f"{path} has no commit {last}, which the stream has read last"):
        stream.partitions(after(last), after(commit(path, ("c", "x", 1))))


def test_a_restored_commit_is_named_in_any_place(path: str) -> None:
    first, second = commit(path, ("a", "x", 1)), commit(path, ("b", "x", 1))
    stream = reader(path)
    with local_client(path) as client:
        client.savepoint(first)
        client.restore_to_savepoint(first)
    for call in (
        lambda: stream.latestOffset(after(second), None),
        lambda: stream.partitions(EARLIEST, after(second)),
        lambda: stream.partitions(after(second), after(first)),
        lambda: stream.partitions(after(second), after(commit(path, ("c", "x", 1)))),
    ):
        with pytest.raises(HoodieException, match=f"{second} is a commit that restore"):
            call()


def test_an_archived_commit_is_still_there(path: str) -> None:
    properties = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    with local_client(path, properties) as client:
        times = [client.upsert(rows((f"k{number}", "x", number))).instant_time for number in range(8)]
    snapshot = TableSnapshot.load(path)
    newest = snapshot.active_timeline.newest_archived_time()
    archived = [time for time in times if newest is not None and time <= newest]
    assert archived and not snapshot.active_timeline.contains(archived[-1])
    stream = reader(path)
    assert stream.latestOffset(after(archived[-1]), None) == after(times[-1])
    with pytest.raises(HoodieException, match=r"commits of the range are archived|files of the range were cleaned"):
        stream.partitions(after(archived[0]), after(times[-1]))


@pytest.mark.parametrize("says_start", [True, False])
def test_a_beginning_in_the_future_waits(path: str, says_start: bool) -> None:
    newest = commit(path, ("a", "x", 1))
    stream = reader(path, **{"hoodie.datasource.streaming.startOffset": "2999-01-01"})
    start = stream.initialOffset()
    assert start == {"kind": "start", "at": "29990101000000000"}
    assert stream.latestOffset(*((start, None) if says_start else ())) == start
    assert read(stream, start, start) == []
    with pytest.raises(HoodieException, match="must not lie in the future"):
        stream.partitions(start, after(newest))


def test_what_is_available_ends_where_the_trigger_says(path: str) -> None:
    first = commit(path, ("a", "x", 1))
    stream = reader(path)
    stream.prepareForTriggerAvailableNow()
    commit(path, ("b", "x", 2))
    assert stream.latestOffset(EARLIEST, None) == after(first)
    assert stream.latestOffset(after(first), None) == after(first)


def test_a_batch_has_whole_commits_of_some_files_at_most(path: str) -> None:
    limits = pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2 and newer have limits")
    with local_client(path, {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}) as client:
        times = [
            client.upsert(rows(*entries)).instant_time
            for entries in (
                [("a", "x", 1)],
                [("b", "y", 2)],
                [("a", "x", 3), ("b", "y", 3), ("c", "z", 3)],
                [("a", "x", 4)],
                [("a", "x", 5)],
            )
        ]
    stream = reader(path, **{"hoodie.datasource.streaming.maxFilesPerTrigger": "2"})
    limit = stream.getDefaultReadLimit()
    assert limit == limits.ReadMaxFiles(2)
    offsets = [stream.initialOffset()]
    while (end := stream.latestOffset(offsets[-1], limit)) != offsets[-1]:
        offsets.append(end)
    # The third commit alone wrote three files; the fourth and the fifth wrote the same one.
    assert offsets[1:] == [after(times[1]), after(times[2]), after(times[4])]
    batches = [read(stream, start, end) for start, end in itertools.pairwise(offsets)]
    assert batches == [[("a", 1), ("b", 2)], [("a", 3), ("b", 3), ("c", 3)], [("a", 5)]]
    # A trigger that wants all gets all.
    assert stream.latestOffset(EARLIEST, limits.ReadAllAvailable()) == after(times[4])
    assert reader(path).getDefaultReadLimit() == limits.ReadAllAvailable()


def test_a_batch_ends_at_a_time_whose_files_are_there(path: str) -> None:
    limits = pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2 and newer have limits")
    options = {"hoodie.cleaner.commits.retained": 2, "hoodie.clean.automatic": "false"}
    entries = [("a", "x", ts) if ts % 2 else ("b", "y", ts) for ts in range(1, 9)]
    with local_client(path, options) as client:
        times = [client.upsert(rows(entry)).instant_time for entry in entries]
        client.clean()
    for earliest in times:
        with contextlib.suppress(HoodieIOException):
            read_rows(path, as_of=earliest)
            break
    assert times[1] < earliest < times[-1]
    held = sorted({entry[0]: entry[2] for entry in entries[: times.index(earliest) + 1]}.items())
    stream = reader(path)
    first = stream.latestOffset(EARLIEST, limits.ReadMaxFiles(1))
    assert first == after(earliest)
    assert read(stream, EARLIEST, first) == held
    # A stream that lags behind what is retained catches up with the first time that can be read.
    lagging = reader(path).latestOffset(after(times[0]), limits.ReadMaxFiles(1))
    assert lagging == after(earliest)
    assert read(stream, after(times[0]), lagging) == held
    with pytest.raises(HoodieException, match="cleaned"):
        read(stream, EARLIEST, after(times[1]))
