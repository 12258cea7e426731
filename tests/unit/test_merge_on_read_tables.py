"""Merge-on-read tables as real Hudi wrote them: each query gives the rows that Hudi 1.2.0 and hudi-rs give."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieReadClient, HoodieTableMetaClient
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.exception import HoodieIOException, HoodieNotSupportedException
from tests.support.table_builder import content
from tests.unit.query.test_queries_of_hudi_rs import at, between, found_by_hudi_rs
from tests.unit.test_tables_of_real_hudi import Row, folders_of_tables, in_order, read_by_hudi_rs, user_rows

# What hudi-rs 0.5.0 does not read, or in another way.
NOT_READ = {
    "v9_two_ordering": "several ordering fields",
    "hudi-v9-table-mor": "it fails on the metadata table",
    "hudi_comprehensive_types_v6_mor": "a map of structs in a base file and in a log file",
}
SHOWS_ROWS_THAT_LOSE = {
    "dn_mor_6", "dn_mor_8", "dn_v6_mor_mdt_6", "hand_mor", "hcase_EVENT", "up_mor_8", "up_mor_9", "up_v6_mor_mdt_9",
    "v6_mor_mdt", "v9_mor",
}  # fmt: skip
"""Ranges: log rows of the range that lose against an older row come too, as in Hudi 1.2.0."""
LEAVES_ROWS_OUT = {
    "hudi-v6-table-mor": "rows of archived commits",
    "hudi-v8-table-mor": "rows of archived commits",
    "hudi-v8-table-maintenance": "rows of archived commits",
    "v9_mor_logcompact": "rows in blocks of a log compaction",
}
"""Ranges."""
PARTIAL_BLOCKS = {"v9_sql"}
"""Ranges: columns that a partial update leaves alone are null."""
WITHOUT_COMMIT_TIMES = {"v6_simplekeygen_hivestyle_no_metafields"}
"""Ranges: the rows of the table have no commit times."""
HIDDEN_FROM_HUDI = {"trap_base", "trap_base_after"}
"""A base file of a failed write hides later log files from Hudi 1.2.0, but not from hudi-rs."""


@pytest.fixture(scope="module")
def tables(later_tables: Path, shared_tables: Path) -> list[Path]:
    """All merge-on-read tables of versions 6, 8 and 9."""
    folders = [*folders_of_tables(later_tables), *folders_of_tables(shared_tables)]
    return [folder for folder in folders if is_merge_on_read(folder)]


def is_merge_on_read(folder: Path) -> bool:
    return HoodieTableMetaClient.load(str(folder)).table_config.table_type == "MERGE_ON_READ"


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A copy of one table, which a test must not change."""
    shutil.copytree(request.getfixturevalue("later_tables") / request.param, tmp_path / request.param)
    (folder,) = folders_of_tables(tmp_path / request.param)
    before = content(folder)
    yield folder
    assert content(folder) == before


def read_optimized_by_hudi_rs(folder: Path) -> list[Row]:
    options = {"hoodie.read.use.read_optimized.mode": "true"}
    batches = HudiTableBuilder.from_base_uri(str(folder)).with_options(options).build().read()
    return user_rows(pa.Table.from_batches(batches)) if batches else []


def test_a_snapshot_gives_what_real_hudi_and_hudi_rs_give(tables: list[Path], later_tables: Path) -> None:
    with_logs = by_hudi = by_rs = 0
    for folder in tables:
        everything = hoodie.read_table(str(folder))
        found = in_order(user_rows(everything))
        with_logs += bool(hoodie.plan_read(str(folder)).log_files)
        dataset = hoodie.dataset(str(folder))
        assert dataset.count_rows() == len(found), folder.name
        assert in_order(user_rows(dataset.to_table())) == found, folder.name
        if folder.name not in NOT_READ:
            assert found == in_order(read_by_hudi_rs(folder)), folder.name
            by_rs += 1
        expected = later_tables / "rows" / f"{folder.name}.parquet"
        if expected.exists() and folder.name not in HIDDEN_FROM_HUDI:
            # With Hudi's columns, those of rows of log files too.
            assert in_order(everything.to_pylist()) == in_order(pq.read_table(expected).to_pylist()), folder.name
            by_hudi += 1
    assert with_logs >= 24 and by_hudi >= 25 and by_rs >= 45, (with_logs, by_hudi, by_rs)


def test_time_travel_gives_what_hudi_rs_gives(tables: list[Path]) -> None:
    count = 0
    for folder in tables:
        for instant in commits_of(folder) if folder.name not in NOT_READ else ():
            found = in_order(user_rows(hoodie.read_table(str(folder), as_of=instant.requested_time)))
            assert found == in_order(found_by_hudi_rs(str(folder), at(instant.requested_time))), (folder.name, instant)
            count += 1
    assert count >= 170


def test_ranges_have_the_rows_that_their_commits_left(tables: list[Path]) -> None:
    """The rows of the table at the end of the range whose commit is in the range; and what hudi-rs gives."""
    count = 0
    for folder in tables:
        if folder.name in WITHOUT_COMMIT_TIMES:
            with pytest.raises(HoodieNotSupportedException, match="no commit times"):
                hoodie.read_table(str(folder), query_type="incremental", begin="earliest")
            continue
        commits = commits_of(folder)
        last = len(commits) - 1
        for first, final in {(n, m) for n in range(last) for m in (n + 1, last)}:
            begin, end = (commits[n].completion_time or commits[n].requested_time for n in (first, final))
            found = hoodie.read_table(str(folder), query_type="incremental", begin=begin, end=end)
            at_end = hoodie.read_table(str(folder), as_of=commits[final].requested_time)
            times = pa.array([instant.requested_time for instant in commits[first + 1 : final + 1]], pa.string())
            expected = at_end.filter(pc.is_in(at_end["_hoodie_commit_time"], times))
            where = (folder.name, begin, end)
            assert in_order(found.to_pylist()) == in_order(expected.to_pylist()), where
            ours = in_order(user_rows(found))
            if folder.name in {*NOT_READ, *PARTIAL_BLOCKS}:
                continue
            of_rs = in_order(found_by_hudi_rs(str(folder), between(begin, end)))
            if folder.name in SHOWS_ROWS_THAT_LOSE:
                assert set(ours) <= set(of_rs), where
            elif folder.name in LEAVES_ROWS_OUT:
                assert set(ours) >= set(of_rs), where
            else:
                assert ours == of_rs, where
            count += 1
    assert count >= 180


def commits_of(folder: Path) -> list[HoodieInstant]:
    return list(HoodieTableMetaClient.load(str(folder)).active_timeline.completed_writes())


def test_a_read_optimized_query_gives_what_hudi_rs_gives(tables: list[Path]) -> None:
    with_rows = 0
    for folder in tables:
        found = in_order(user_rows(hoodie.read_table(str(folder), query_type="read_optimized")))
        with_rows += bool(found)
        if folder.name not in {"v9_two_ordering", "hudi-v9-table-mor"}:
            assert found == in_order(read_optimized_by_hudi_rs(folder)), folder.name
    assert with_rows >= 35


@pytest.mark.parametrize("index_type", ["BLOOM", "GLOBAL_SIMPLE"])
def test_keys_are_looked_up_in_log_files_too(tables: list[Path], index_type: str) -> None:
    """Those that a log file has updated, inserted or deleted, and all others."""
    deleted = looked_up = 0
    for folder in tables:
        everything = hoodie.read_table(str(folder))
        if not everything.num_rows:
            continue
        base_rows = hoodie.read_table(str(folder), query_type="read_optimized")
        gone = set(in_order(keys_of(base_rows))) - set(in_order(keys_of(everything)))
        with HoodieReadClient(str(folder), options={"hoodie.index.type": index_type}) as client:
            assert in_order(client.read(everything).to_pylist()) == in_order(everything.to_pylist()), folder.name
            assert client.check_exists(everything)["exists"].to_pylist() == [True] * everything.num_rows, folder.name
            found = client.check_exists(base_rows)["exists"].to_pylist()
            assert found.count(False) == len(gone), folder.name
            assert client.filter_exists(everything).num_rows == 0, folder.name
        deleted += len(gone)
        looked_up += everything.num_rows
    assert deleted > 30 and looked_up > 2000


def keys_of(rows: pa.Table) -> list[Row]:
    """The record keys and partitions; the user's columns in tables that store no keys."""
    columns = ["_hoodie_record_key", "_hoodie_partition_path"]
    return user_rows(rows) if rows["_hoodie_record_key"].null_count else rows.select(columns).to_pylist()


@pytest.mark.parametrize("table", ["v9_bucket_mor"], indirect=True)
def test_a_bucket_names_the_log_files_that_may_hold_a_key(table: Path) -> None:
    everything = hoodie.read_table(str(table))
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    with HoodieReadClient(str(table), options=options) as client:
        assert in_order(client.read(everything).to_pylist()) == in_order(everything.to_pylist())
        one = everything.slice(0, 1)
        found = client.tag_location(one)
        assert found["__hoodie_current_file_id"][0].as_py() in one["_hoodie_file_name"][0].as_py()
        assert found["__hoodie_current_row_position"].to_pylist() == [None]


@pytest.mark.parametrize("name", ["v9_mor", "v6_mor_mdt"])
def test_a_log_file_that_is_gone_is_an_error(name: str, later_tables: Path, tmp_path: Path) -> None:
    shutil.copytree(later_tables / name, tmp_path / name)
    (folder,) = folders_of_tables(tmp_path / name)
    for log_file in folder.glob("*/.*.log.*"):
        log_file.unlink()
    with pytest.raises(HoodieIOException, match=r"\.log\.\d_\S+ (of deltacommit \d+ is not there|is missing)"):
        hoodie.read_table(str(folder))
