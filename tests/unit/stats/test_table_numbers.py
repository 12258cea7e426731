"""The numbers of tables: what the functions of `hoodie.stats` count, beside rows that are read."""

from __future__ import annotations

import json
import math
import os
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import pairwise
from pathlib import Path

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieKey, HoodieTableMetaClient, stats
from hoodie.common.model.range_overlap import Overlap, RangeDepths, overlap_of
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieConfigException, HoodieSchemaException, TableNotFoundException
from hoodie.query import slice_ranges
from hoodie.stats.commit_numbers import moment_of
from hoodie.stats.file_numbers import SizeSpread
from hoodie.stats.of_path import numbers_of
from hoodie.storage.storage import HoodieStorage
from tests.support.table_builder import init_table, local_client, read_rows, rows
from tests.support.timeline_files import state_file, timeline_folder

FUNCTIONS = [stats.timeline, stats.growth, stats.amplification, stats.sizes, stats.partitions, stats.slices,
             stats.overlap, stats.versions]  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1), ("c", "y", 1)))
        client.upsert(rows(("a", "x", 2), ("d", "z", 2)))
        client.savepoint(user="me", comment="good")
        client.delete([HoodieKey("b", "x")])
    return path


def test_the_timeline_tells_when_each_instant_began_and_ended(path: str) -> None:
    found = stats.timeline(path)
    assert [row.operation for row in found if row.operation] == ["UPSERT", "UPSERT", "DELETE"]
    commits = [row for row in found if row.operation]
    assert [(row.rows_inserted, row.rows_updated, row.rows_deleted) for row in commits] == [
        (3, 0, 0),
        (1, 1, 0),
        (0, 0, 1),
    ]
    timezone = HoodieTableMetaClient.load(path).active_timeline.timezone
    for row in commits:
        start, end = (moment_of(time, timezone) for time in (row.instant_time, row.completion_time))
        assert start is not None
        assert end is not None
        assert row.duration_ms == round((end - start).total_seconds() * 1000) >= 0


@pytest.mark.table_version(6)
def test_completion_times_of_a_copied_table_of_version_6_are_not_known(path: str) -> None:
    assert all(row.duration_ms is not None for row in stats.timeline(path) if row.action != Action.SAVEPOINT)
    for file in timeline_folder(path).iterdir():
        os.utime(file, (1e9, 1e9))
    found = stats.timeline(path)
    assert [(row.state, row.completion_time, row.duration_ms) for row in found] == [("COMPLETED", None, None)] * 4


def test_a_pending_instant_has_no_end(path: str) -> None:
    timeline = HoodieTableMetaClient.load(path).active_timeline
    timeline.create_new_instant_time(Action.CLEAN)
    last = stats.timeline(path)[-1]
    assert (last.action, last.state, last.completion_time, last.duration_ms) == ("clean", "REQUESTED", None, None)


def test_growth_ends_with_the_rows_and_bytes_that_the_table_has(path: str) -> None:
    found = stats.growth(path)
    assert [row.row_count for row in found] == [3, 4, 3]
    assert len(read_rows(path)) == 3
    assert found[-1].live_bytes == sum(file.size_bytes for file in HoodieTableMetaClient.load(path).files())
    with local_client(path) as client:
        client.delete_partitions(["x"])
        client.upsert(rows(("e", "y", 3)))
    assert [row.row_count for row in stats.growth(path)][-2:] == [2, 3]


def test_growth_counts_archived_commits(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    services = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.clean.commits.retained": 1}
    with local_client(path, **services) as client:
        for number in range(8):
            client.insert(rows((f"k{number}", "x", 1)))
    active = HoodieTableMetaClient.load(path).active_timeline.completed_writes()
    assert len(active) < 8
    found = stats.growth(path)
    assert [row.row_count for row in found] == list(range(1, 9))
    assert found[-1].live_bytes == sum(file.size_bytes for file in HoodieTableMetaClient.load(path).files())
    assert [row.instant_time for row in stats.amplification(path)] == [found.requested_time for found in active]


@pytest.mark.parametrize("index", ["BUCKET", "SIMPLE"])
def test_growth_of_a_merge_on_read_table_ends_with_its_bytes(tmp_path: Path, index: str) -> None:
    path = init_table(tmp_path / "t", table_type="MERGE_ON_READ")
    options = {"index_type": index, "hoodie.bucket.index.num.buckets": 2}
    with local_client(path, **options) as client:
        for number in range(4):
            client.upsert(rows(*((f"k{key}", "x", number) for key in range(number, number + 5))))
        client.delete([HoodieKey("k0", "x")])
        assert stats.slices(path)[0].log_file_count > 0
        assert stats.growth(path)[-1].live_bytes == sum(f.size_bytes for f in HoodieTableMetaClient.load(path).files())
        client.compact()
        client.upsert(rows(("k1", "x", 9)))
    found = stats.growth(path)[-1]
    assert found.live_bytes == sum(file.size_bytes for file in HoodieTableMetaClient.load(path).files())
    assert found.row_count == len(read_rows(path)) == 7


def test_amplification_is_written_by_updated_rows(path: str) -> None:
    found = stats.amplification(path)
    if hoodie.Table(path).describe().table_type == "COPY_ON_WRITE":
        assert [(row.rows_updated, row.rows_written) for row in found] == [(0, 3), (1, 3), (0, 1)]
        assert [row.row_amplification for row in found] == [None, 3.0, None]
    assert [row.bytes_per_row for row in found] == [
        row.bytes_written / changed for row, changed in zip(found, (3, 2, 1), strict=True)
    ]


def test_sizes_stand_in_ranges_of_powers_of_two(path: str) -> None:
    files = HoodieTableMetaClient.load(path).files()
    bins = stats.sizes(path)
    assert sum(found.size_bytes for found in bins) == sum(file.size_bytes for file in files)
    assert sum(found.base_file_count for found in bins) == sum(file.file_name is not None for file in files)
    assert sum(found.log_file_count for found in bins) == sum(file.log_file_count for file in files)
    for one, other in pairwise(bins):
        assert one.to_bytes == other.from_bytes
    assert all(found.to_bytes in (1024, 2 * found.from_bytes) for found in bins)


def test_the_spread_of_sizes_is_that_of_hudi() -> None:
    spread = SizeSpread.of("g", [10, 40, 20, 30])
    # By codahale's snapshot: 0.1 * 5 is below the first one, 0.5 * 5 between two, 0.95 * 5 behind the last one.
    assert (spread.p10_bytes, spread.p50_bytes, spread.p95_bytes) == (10.0, 25.0, 40.0)
    assert (spread.min_bytes, spread.mean_bytes, spread.max_bytes, spread.file_count) == (10, 25.0, 40, 4)
    assert spread.deviation_bytes == pytest.approx(12.909944)
    assert SizeSpread.of("g", [7]).deviation_bytes == 0.0


def test_sizes_are_grouped_by_commit_and_by_partition(path: str) -> None:
    by_commit = stats.sizes_by(path, "commit")
    on_storage = {
        p.name: p.stat().st_size for p in Path(path).glob("*/*") if p.suffix == ".parquet" or ".log." in p.name
    }
    assert by_commit[-1].group == "ALL"
    assert by_commit[-1].file_count == len(on_storage)
    assert by_commit[-1].max_bytes == max(on_storage.values())
    assert sum(row.file_count for row in by_commit[:-1]) == len(on_storage)
    assert [row.group for row in stats.sizes_by(path, "partition")] == ["x", "y", "z", "ALL"]
    with pytest.raises(HoodieConfigException, match="'commit' or 'partition'"):
        stats.sizes_by(path, "color")


def test_partitions_are_sorted_by_size_and_tell_what_was_written(path: str) -> None:
    found = stats.partitions(path)
    assert sorted(row.partition_path for row in found) == ["x", "y", "z"]
    assert [row.size_bytes for row in found] == sorted((row.size_bytes for row in found), reverse=True)
    assert {row.partition_path: row.write_count for row in found} == {"x": 3, "y": 1, "z": 1}
    assert sum(row.share or 0 for row in found) == pytest.approx(1)


def test_versions_tell_what_holds_each_file(path: str) -> None:
    found = {row.held_by: row for row in stats.versions(path)}
    savepoint = hoodie.Table(path).savepoints()[0]
    held = found.pop(f"savepoint {savepoint.instant_time}")
    everything = {
        p.name: p.stat().st_size for p in Path(path).glob("*/*") if p.suffix == ".parquet" or ".log." in p.name
    }
    assert held.size_bytes + sum(row.size_bytes for row in found.values()) == sum(everything.values())
    assert found["newest slices"].size_bytes == sum(
        file.size_bytes for file in HoodieTableMetaClient.load(path).files()
    )
    assert found["a clean would delete them"].file_count == 0


@pytest.mark.copy_on_write
def test_versions_follow_the_properties_of_the_clean(path: str) -> None:
    strict = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": 1}
    found = {row.held_by: row.file_count for row in stats.versions(path, properties=strict)}
    assert (found["a clean would delete them"], found["kept by hoodie.clean.*"]) == (1, 0)
    assert hoodie.Table(path, properties=strict).clean(dry_run=True).files == 1


def test_overlap_counts_the_files_that_cover_a_value(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", partition_fields=[])
    separate = {"hoodie.parquet.small.file.limit": 0}
    with local_client(path, **separate) as client:
        # The ranges of ts are 0 to 10, 5 to 15 and 20 to 30; those of id lie within each other.
        for number, (low, high) in enumerate([(0, 10), (5, 15), (20, 30)]):
            client.insert(rows((f"a{number}", "x", low), (f"z{9 - number}", "x", high)))
    if len(list(Path(path).glob("*.parquet"))) < 3:
        pytest.skip("inserts went to log files, which have no footers")
    found = {row.column: row for row in stats.overlap(path, ["ts", "id"])}
    # At 0, 5, 10, 15, 20, 30: 1 2 2 1 1 1.
    assert (found["ts"].mean_depth, found["ts"].max_depth) == (pytest.approx(8 / 6), 2)
    # At a0 a1 a2 z7 z8 z9: 1 2 3 3 2 1.
    assert (found["id"].mean_depth, found["id"].max_depth) == (2.0, 3)


def test_columns_that_the_table_does_not_have_are_refused(path: str) -> None:
    table = hoodie.Table(path)
    for call in (partial(stats.overlap, path), lambda columns: table.stats("overlap", columns=columns)):
        with pytest.raises(HoodieSchemaException, match=r"has no column regio \(did you mean 'region'\?\); it has"):
            call(["ts", "regio"])


@pytest.mark.parametrize("listed", [None, "ts,place.zone,place.at.x"])
def test_columns_in_structs_are_named_by_their_path(tmp_path: Path, listed: str | None) -> None:
    path = init_table(tmp_path / "t", partition_fields=[])
    options = {} if listed is None else {"hoodie.metadata.index.column.stats.column.list": listed}
    with local_client(path, **{"hoodie.parquet.small.file.limit": 0}, **WITH_STATISTICS, **options) as client:
        for low, high in [(0, 10), (5, 15), (20, 30)]:
            places = [{"zone": f"z{end:02}", "at": {"x": end}} for end in (low, high)]
            columns = {"id": [f"a{low}", f"b{low}"], "region": ["x", "x"], "ts": [low, high], "place": places}
            client.insert(pa.table(columns))
    names = ["ts", "place.zone", "place.at.x"]
    found = stats.overlap(path, names)
    if listed is not None or len(list(Path(path).glob("*.parquet"))) == 3:
        assert [(row.column, row.file_count, row.max_depth) for row in found] == [(name, 3, 2) for name in names]
        assert {row.mean_depth for row in found} == {8 / 6}
    assert [row.source for row in found][1:] == ["footers" if listed is None else "column statistics"] * 2
    with pytest.raises(HoodieSchemaException, match=r"no column place.zome \(did you mean 'place.zone'\?\)"):
        stats.overlap(path, ["place.zome"])
    for whole in ("place", "place.at"):
        with pytest.raises(HoodieSchemaException, match=f"no column {whole}"):
            stats.overlap(path, [whole])


WITH_STATISTICS = {"hoodie.metadata.enable": True, "hoodie.metadata.index.column.stats.enable": True}


def table_of_ranges(folder: Path, **properties: object) -> str:
    """Four files of one partition, with ranges of columns of many types."""
    path = init_table(folder / "t", partition_fields=[])
    with local_client(path, **{"hoodie.parquet.small.file.limit": 0}, **properties) as client:
        for low, high in [(0, 10), (5, 15), (20, 30), (10, 10)]:
            values = {
                "id": [f"a{low:02}", f"z{high:02}"],
                "region": ["x", None],
                "ts": [low, high],
                "day": [date(2026, 1, 1 + low), date(2026, 1, 1 + high)],
                "at": [datetime(2026, 1, 1 + low, tzinfo=UTC), datetime(2026, 1, 1 + high, tzinfo=UTC)],
                "price": pa.array([Decimal(low - 10), Decimal(high - 10)], pa.decimal128(38, 2)),
                "fare": [low - 10.0, high - 10.0],
                "share": [low + 0.5, high + 0.5],
                "flag": [low > 5, high > 5],
                "nothing": pa.nulls(2, pa.int64()),
            }
            client.insert(pa.table(values))
    return path


def test_ranges_are_those_of_column_statistics_if_these_know_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table_of_ranges(tmp_path, **WITH_STATISTICS)
    columns = ["ts", "id", "region", "day", "at", "price", "fare", "share", "flag", "nothing"]
    known = {row.column: row for row in stats.overlap(path, columns)}
    # At 0, 5, 10, 10, 10, 15, 20, 30: 1 2 3 3 3 1 1 1.
    assert known["ts"].mean_depth == 15 / 8 and known["ts"].max_depth == 3
    assert {name for name, row in known.items() if row.source == "footers"} == {"fare"}  # 0.0 hides NaN
    read: list[str] = []
    original = slice_ranges.load_metadata

    def remembered(storage: HoodieStorage, file: str) -> object:
        read.append(file)
        return original(storage, file)

    monkeypatch.setattr(slice_ranges, "load_metadata", remembered)
    assert stats.overlap(path, ["ts", "price"])[0] == known["ts"] and read == []
    without = numbers_of(path, properties={"hoodie.metadata.enable": False})
    if len(list(Path(path).glob("*.parquet"))) < 4:
        pytest.skip("inserts went to log files, which have no footers")
    for row in without.overlap(columns):
        assert row == attrs.evolve(known[row.column], source="footers")
    assert len(read) == 4
    shown, stored = numbers_of(path).column_overlaps(columns), without.column_overlaps(columns)
    assert [[one.label for one in column.ranges] for column in shown] == [
        [one.label for one in column.ranges] for column in stored
    ]


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ"])
def test_statistics_count_log_files_to_their_slice(tmp_path: Path, table_type: str) -> None:
    path = init_table(tmp_path / "t", partition_fields=[], table_type=table_type)
    with local_client(path, **{"hoodie.parquet.small.file.limit": 0}, **WITH_STATISTICS) as client:
        for low in (0, 20):
            client.insert(rows((f"a{low}", "x", low), (f"b{low}", "x", low + 10)))
        assert stats.overlap(path, ["ts"])[0].max_depth == 1
        client.upsert(rows(("a0", "x", 25)))
    (row,) = stats.overlap(path, ["ts"])
    assert (row.source, row.file_count, row.max_depth) == ("column statistics", 2, 2)


def test_the_overlap_before_and_after_is_computed_of_ranges_alone() -> None:
    before = RangeDepths.of([(b"a", b"m"), (b"c", b"z"), (b"c", b"c")])
    # At a, c, c, c, m, z: 1 3 3 3 2 1.
    assert before.at_ends.tolist() == [1, 3, 3, 3, 2, 1] and before.of_ranges().tolist() == [3, 3, 3]
    after = RangeDepths.of([(1.0, 2.0), (2.5, math.nan)])
    assert RangeDepths.of([(math.nan, math.nan), (1.0, float("nan"))]).at_ends.tolist() == [1, 2, 2, 2]
    found = overlap_of("c", [before, after])
    assert (found.file_count, found.max_depth, found.mean_depth) == (5, 3, 1.7)
    assert overlap_of("c", [after]).mean_depth == 1.0
    assert overlap_of("c", []) == Overlap("c", 0, 0, None, None, None, "")


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_numbers_of_a_table_without_commits_print(tmp_path: Path, function: object) -> None:
    path = init_table(tmp_path / "t")
    found = function(path)  # type: ignore[operator]
    assert all(line for line in repr(found).splitlines())
    assert found.to_arrow().num_rows == len(found)
    assert "<table>" in found._repr_html_()
    with pytest.raises(TableNotFoundException):
        function(str(tmp_path / "nowhere"))  # type: ignore[operator]


def test_fractions_are_columns_of_floats(path: str) -> None:
    found = stats.amplification(path).to_arrow()
    assert found.schema.field("row_amplification").type == pa.float64()
    assert found.schema.field("rows_updated").type == pa.int64()
    json.dumps(found.to_pylist())


def test_an_instant_in_archive_and_timeline_counts_once(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    services = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.clean.commits.retained": 1}
    with local_client(path, archive_automatic=False, **services) as client:
        for number in range(8):
            client.insert(rows((f"k{number}", "x", 1)))
        oldest = HoodieTableMetaClient.load(path).active_timeline.completed_writes().instants[0]
        kept = state_file(path, oldest.requested_time, oldest.action)
        shutil.copy(kept, tmp_path / kept.name)
        assert client.archive()
    assert not kept.exists()
    shutil.copy(tmp_path / kept.name, kept)
    assert [row.row_count for row in stats.growth(path)] == list(range(1, 9))
