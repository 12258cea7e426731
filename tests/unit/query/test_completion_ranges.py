"""Incremental queries and time travel of tables of versions 8 and 9, whose instants have two times."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.exception import HoodieException, HoodieIOException
from tests.support.later_version import archive, avro_commit, change_properties, to_version
from tests.support.table_builder import init_table, local_client, rows

pytestmark = pytest.mark.table_version(6)

SCAN = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"}
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
Keys = list[str]


def at(number: int) -> str:
    """A time; the larger the number, the later."""
    return f"2027010200{number:07d}"


def keys(base_path: Path, **query: Any) -> Keys:
    found: Keys = sorted(hoodie.read_table(str(base_path), **query)["id"].to_pylist())
    return found


def since(base_path: Path, begin: str, end: str | None = None, **options: Any) -> Keys:
    return keys(base_path, query_type="incremental", begin=begin, end=end, options=options)


@pytest.fixture(params=[8, 9])
def version(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


Make = Callable[..., tuple[Path, list[str]]]


@pytest.fixture
def make(tmp_path: Path, version: int) -> Make:
    """Make a table of commits, each of one row of its own file group, and give the instants."""

    def make_table(ends: Mapping[int, int], count: int = 4) -> tuple[Path, list[str]]:
        base_path = Path(init_table(tmp_path / "t"))
        times = []
        with local_client(base_path, NO_SERVICES, parquet_small_file_limit="0") as client:
            for number in range(count):
                times.append(client.start_commit())
                client.insert(rows((f"k{number}", f"p{number % 2}", 1)), times[-1])
        to_version(base_path, version, {times[number]: at(end) for number, end in ends.items()})
        return base_path, times

    return make_table


IN_ORDER = {0: 10, 1: 20, 2: 30, 3: 40}
OVERLAPPING = {0: 10, 1: 40, 2: 20, 3: 30}
"""The second commit is completed last."""


@pytest.mark.parametrize("ends", [IN_ORDER, OVERLAPPING])
def test_a_range_holds_what_was_completed_in_it(make: Make, ends: dict[int, int]) -> None:
    base_path, _ = make(ends)
    of_end = {end: f"k{number}" for number, end in ends.items()}
    for begin in (5, 10, 20, 25, 30, 40, 45):
        for end in (10, 20, 25, 30, 40, 45):
            if begin <= end:
                expected = sorted(key for time, key in of_end.items() if begin < time <= end)
                assert since(base_path, at(begin), at(end)) == expected, (begin, end)
        assert since(base_path, at(begin)) == sorted(key for time, key in of_end.items() if begin < time)


def test_ranges_that_follow_each_other_miss_nothing_whatever_was_requested_first(make: Make) -> None:
    base_path, _ = make(OVERLAPPING)
    ends = sorted(at(end) for end in OVERLAPPING.values())
    found = [since(base_path, begin, end) for begin, end in zip([at(0), *ends], ends, strict=False)]
    assert found == [["k0"], ["k2"], ["k3"], ["k1"]]


@pytest.mark.parametrize("policy", ["FAIL", "BLOCK", "USE_TRANSITION_TIME"])
def test_a_pending_commit_is_in_no_range_and_no_hole(make: Make, policy: str) -> None:
    base_path, times = make(IN_ORDER)
    for file in (base_path / ".hoodie/timeline").glob(f"{times[1]}_*.commit"):
        file.unlink()
    options = {"hoodie.read.timeline.holes.resolution.policy": policy}
    assert since(base_path, at(5), **options) == ["k0", "k2", "k3"]
    assert since(base_path, "earliest", **options) == ["k0", "k2", "k3"]
    # Now it is completed, after all others.
    touched = base_path / ".hoodie/timeline" / f"{times[1]}_{at(50)}.commit"
    touched.write_bytes(avro_commit(commit_of(base_path, "k1")))
    assert since(base_path, at(40), **options) == ["k1"]


def commit_of(base_path: Path, key: str) -> dict[str, Any]:
    """Metadata that names the base file of a row, which no commit names."""
    named = {
        stat.path for instant in HoodieTableMetaClient.load(str(base_path)).active_timeline.completed_writes()
        for stat in HoodieTableMetaClient.load(str(base_path)).active_timeline.read_commit_metadata(instant).write_stats
    }  # fmt: skip
    (file,) = [path for path in base_path.glob("p*/*.parquet") if str(path.relative_to(base_path)) not in named]
    partition, size = file.parent.name, file.stat().st_size
    stat = {
        "fileId": file.name.split("_")[0], "path": f"{partition}/{file.name}", "prevCommit": "null", "numWrites": 1,
        "numDeletes": 0, "numUpdateWrites": 0, "numInserts": 1, "totalWriteBytes": size, "fileSizeInBytes": size,
        "partitionPath": partition,
    }  # fmt: skip
    stats = {partition: [stat]}
    return {"partitionToWriteStats": stats, "compacted": False, "extraMetadata": {}, "operationType": "INSERT"}


def test_time_travel_is_by_requests(make: Make) -> None:
    base_path, times = make(OVERLAPPING)
    for number, time in enumerate(times):
        assert keys(base_path, as_of=time) == [f"k{n}" for n in range(number + 1)]
    assert keys(base_path, as_of=at(10)) == ["k0", "k1", "k2", "k3"]


def test_all_up_to_an_end_is_the_table_of_that_time(make: Make) -> None:
    base_path, _ = make(IN_ORDER)
    assert since(base_path, "earliest") == ["k0", "k1", "k2", "k3"]
    assert since(base_path, "000", at(25)) == ["k0", "k1"]
    assert since(base_path, "earliest", at(5)) == []


def test_all_up_to_an_end_that_no_instant_names_is_refused(make: Make) -> None:
    base_path, times = make(OVERLAPPING)
    assert since(base_path, "earliest", at(15)) == ["k0"]
    with pytest.raises(HoodieException, match=f"{times[1]}.*was requested before {times[2]}.*{at(40)}"):
        since(base_path, "earliest", at(25))
    assert since(base_path, at(1), at(25)) == ["k0", "k2"]
    assert since(base_path, "earliest", at(40)) == ["k0", "k1", "k2", "k3"]


def test_an_update_is_given_once_with_its_newest_value_in_the_range(tmp_path: Path, version: int) -> None:
    base_path = Path(init_table(tmp_path / "t"))
    with local_client(base_path, NO_SERVICES) as client:
        times = [client.upsert(rows(("a", "p", number), ("b", "p", 0))).instant_time for number in (1, 2, 3)]
        client.upsert(rows(("a", "p", 4)))
    ends = sorted(to_version(base_path, version).values())
    found = hoodie.read_table(str(base_path), query_type="incremental", begin=ends[0], end=ends[2])
    # The row of b is the latest one of the range too: each upsert wrote it.
    assert sorted(zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True)) == [("a", 3), ("b", 0)]
    assert set(found["_hoodie_commit_time"].to_pylist()) == {times[2]}


def test_rows_of_replaced_groups_are_not_given(tmp_path: Path, version: int) -> None:
    base_path = Path(init_table(tmp_path / "t"))
    with local_client(base_path, NO_SERVICES) as client:
        client.insert(rows(("a", "p", 1), ("b", "q", 1)))
        client.insert_overwrite(rows(("c", "p", 1)))
        client.insert(rows(("d", "p", 1)))
    ends = sorted(to_version(base_path, version).values())
    assert keys(base_path) == ["b", "c", "d"]
    assert since(base_path, at(0).replace("2027", "2000")) == ["b", "c", "d"]
    assert since(base_path, ends[0]) == ["c", "d"]
    assert since(base_path, ends[0], ends[1]) == ["c"]


# --- archived commits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps_files", [False, True])
def test_archived_commits_are_in_ranges_too(make: Make, keeps_files: bool) -> None:
    base_path, times = make(IN_ORDER)
    archive(base_path, times[:1], keeps_files=keeps_files)
    archive(base_path, times[1:2], keeps_files=keeps_files)
    assert keys(base_path) == ["k0", "k1", "k2", "k3"]
    assert since(base_path, at(5)) == ["k0", "k1", "k2", "k3"]
    assert since(base_path, at(10), at(30)) == ["k1", "k2"]
    assert since(base_path, "earliest", at(20)) == ["k0", "k1"]
    assert since(base_path, "earliest") == ["k0", "k1", "k2", "k3"]
    assert keys(base_path, as_of=times[1]) == ["k0", "k1"]


def test_an_archived_commit_that_was_completed_late_is_in_its_range(make: Make) -> None:
    base_path, times = make({0: 10, 1: 45, 2: 20, 3: 40})
    archive(base_path, times[:3])
    assert since(base_path, at(40)) == ["k1"]
    with pytest.raises(HoodieException, match=f"{times[1]}.*was requested before"):
        since(base_path, "earliest", at(20))


def test_a_range_whose_files_were_cleaned_says_where_to_begin(tmp_path: Path, version: int) -> None:
    base_path = Path(init_table(tmp_path / "t"))
    with local_client(base_path, NO_SERVICES) as client:
        for number in (1, 2, 3):
            client.upsert(rows(("a", "p", number), (f"b{number}", "p", 1)))
    ends = sorted(to_version(base_path, version).values())
    for file in base_path.glob("p/*.parquet"):
        if file.name.endswith(tuple(f"_{time}.parquet" for time in instants_of(base_path)[:2])):
            file.unlink()
    assert since(base_path, ends[1]) == ["a", "b3"]
    with pytest.raises(HoodieIOException, match=rf"cleaned.*Begin at {ends[1]} or later, or set hoodie\.datasource"):
        since(base_path, ends[0], ends[1])
    # Rows of the range that are in the table of its end are taken from there, if that can still be read.
    assert since(base_path, ends[0]) == ["a", "b2", "b3"]


def instants_of(base_path: Path) -> list[str]:
    return [i.requested_time for i in HoodieTableMetaClient.load(str(base_path)).active_timeline.completed_writes()]


def test_a_full_scan_gives_the_rows_that_are_left_of_a_range(tmp_path: Path, version: int) -> None:
    base_path = Path(init_table(tmp_path / "t"))
    with local_client(base_path, NO_SERVICES) as client:
        client.insert(rows(("a", "p", 1)))
        client.upsert(rows(("b", "p", 1)))
        client.insert_overwrite(rows(("c", "p", 1), ("d", "q", 1)))
    ends = sorted(to_version(base_path, version).values())
    for file in base_path.glob(f"p/*{instants_of(base_path)[1]}.parquet"):
        file.unlink()
    for file in base_path.glob(f"p/*{instants_of(base_path)[0]}.parquet"):
        file.unlink()
    with pytest.raises(HoodieIOException, match="cleaned"):
        since(base_path, ends[0], ends[1])
    assert since(base_path, ends[0], **SCAN) == ["c", "d"]
    with pytest.raises(HoodieIOException, match="cleaned"):
        since(base_path, ends[0], ends[1], **SCAN)


# --- commits that were undone -----------------------------------------------------------------------------------------


def test_a_time_that_a_restore_has_undone_is_refused(tmp_path: Path, version: int) -> None:
    base_path = Path(init_table(tmp_path / "t"))
    with local_client(base_path, NO_SERVICES) as client:
        first = client.insert(rows(("a", "p", 1))).instant_time
        assert first is not None
        client.savepoint(first)
        second = client.insert(rows(("b", "p", 1))).instant_time
        assert second is not None
        client.restore_to_savepoint(first)
        client.insert(rows(("c", "p", 1)))
    ends = to_version(base_path, version)
    undone_end = f"{int(second) + 1:017d}"
    for query in ({"begin": undone_end}, {"begin": "earliest", "end": undone_end}):
        with pytest.raises(
            HoodieException, match=f"undone the commits that were requested from {second}.*{ends[first]}"
        ):
            keys(base_path, query_type="incremental", **query)
    assert since(base_path, ends[first]) == ["c"]
    assert since(base_path, "earliest") == ["a", "c"]
    with pytest.raises(HoodieException, match="undone"):
        keys(base_path, as_of=second)


# --- what is shown, and what is refused -------------------------------------------------------------------------------


def test_the_history_shows_both_times(make: Make) -> None:
    base_path, times = make(OVERLAPPING)
    shown = HoodieTableMetaClient.load(str(base_path)).history()
    assert [(row.instant_time, row.completion_time) for row in shown] == [
        (time, at(OVERLAPPING[number])) for number, time in enumerate(times)
    ]
    assert "completion_time" in repr(shown)


def test_a_pending_commit_is_told_of_in_time_travel_only(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    base_path, times = make(IN_ORDER)
    for file in (base_path / ".hoodie/timeline").glob(f"{times[1]}_*.commit"):
        file.unlink()
    with caplog.at_level(logging.WARNING, logger="hoodie"):
        since(base_path, "earliest", at(30))
        assert "is pending" not in caplog.text
        keys(base_path, as_of=times[2])
    assert f"commit {times[1]} is pending" in caplog.text and "incremental" not in caplog.text


def test_files_of_change_data_and_log_files_without_blocks_change_no_rows(make: Make) -> None:
    base_path, times = make(IN_ORDER)
    file = next(base_path.glob("p0/*.parquet"))
    file_id, time = file.name.split("_")[0], file.stem.split("_")[-1]
    (base_path / "p0" / f".{file_id}_{time}.log.1_0-0-0.cdc").write_bytes(b"")
    assert keys(base_path) == ["k0", "k1", "k2", "k3"]
    assert hoodie.plan_read(str(base_path)).log_files == ()
    (base_path / "p0" / f".{file_id}_{times[3]}.log.1_0-0-0").write_bytes(b"")
    assert keys(base_path) == ["k0", "k1", "k2", "k3"]
    assert len(hoodie.plan_read(str(base_path)).log_files) == 1
    assert sum(file.log_file_count for file in HoodieTableMetaClient.load(str(base_path)).files()) == 1


def test_a_timeline_in_other_folders_is_read(make: Make) -> None:
    base_path, times = make(IN_ORDER)
    archive(base_path, times[:1])
    (base_path / ".hoodie/timeline/history").rename(base_path / ".hoodie/timeline/past")
    (base_path / ".hoodie/timeline").rename(base_path / ".hoodie/now")
    change_properties(base_path, {"hoodie.timeline.path": "now", "hoodie.timeline.history.path": "past"})
    assert since(base_path, at(5)) == ["k0", "k1", "k2", "k3"]


def test_a_dataset_and_a_count_read_what_a_query_reads(make: Make) -> None:
    base_path, _ = make(OVERLAPPING)
    found = hoodie.dataset(str(base_path), query_type="incremental", begin=at(10), end=at(30))
    assert found.count_rows() == 2 and sorted(found.to_table()["id"].to_pylist()) == ["k2", "k3"]
    assert isinstance(found.schema, pa.Schema)
    assert "2 commits" in hoodie.plan_read(str(base_path), query_type="incremental", begin=at(10), end=at(30)).explain()
