"""Merge-on-read tables as real Hudi wrote them: slices without log files are read, and nothing is written.

A snapshot refuses slices with log files by name. A read-optimized query reads base files alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieReadClient, HoodieTableMetaClient
from hoodie.exception import HoodieIOException, HoodieNotSupportedException
from hoodie.table.repair import find_orphan_files
from tests.support.table_builder import content, local_client
from tests.unit.test_tables_of_real_hudi import Row, folders_of_tables, in_order, read_by_hudi_rs, user_rows

NOT_READ_BY_HUDI_RS = {"v9_two_ordering", "hudi-v9-table-mor"}
"""Several ordering fields; a metadata table that it fails on."""
HAS_LOG_FILES = r"reading \S+: file group \S+ of partition '.*' has the log file \.\S+, .* A read_optimized query"


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


def test_a_snapshot_is_read_right_or_refused_by_the_name_of_a_log_file(tables: list[Path], later_tables: Path) -> None:
    read = refused = of_real_hudi = 0
    for folder in tables:
        slices = [s for file in HoodieTableMetaClient.load(str(folder)).files() for s in [file.log_file_count]]
        if any(slices):
            with pytest.raises(HoodieNotSupportedException, match=HAS_LOG_FILES):
                hoodie.read_table(str(folder))
            with pytest.raises(HoodieNotSupportedException, match="log file"):
                hoodie.read_table(str(folder), query_type="incremental", begin="earliest")
            with pytest.raises(HoodieNotSupportedException, match=HAS_LOG_FILES):
                hoodie.dataset(str(folder)).count_rows()
            refused += 1
            continue
        found = in_order(user_rows(hoodie.read_table(str(folder))))
        assert found == in_order(read_by_hudi_rs(folder)), folder.name
        expected = later_tables / "rows" / f"{folder.name}.parquet"
        if expected.exists():
            assert found == in_order(user_rows(pq.read_table(expected))), folder.name
            of_real_hudi += 1
        read += 1
    assert read >= 15 and refused >= 20 and of_real_hudi >= 8, (read, refused, of_real_hudi)


def test_a_read_optimized_query_gives_what_hudi_rs_gives(tables: list[Path]) -> None:
    with_rows = 0
    for folder in tables:
        found = in_order(user_rows(hoodie.read_table(str(folder), query_type="read_optimized")))
        with_rows += bool(found)
        if folder.name not in NOT_READ_BY_HUDI_RS:
            assert found == in_order(read_optimized_by_hudi_rs(folder)), folder.name
    assert with_rows >= 35


@pytest.mark.parametrize("table", ["v9_mor", "v8_mor", "v6_mor_mdt"], indirect=True)
def test_partitions_without_log_files_and_times_before_them_are_read(table: Path) -> None:
    client = HoodieTableMetaClient.load(str(table))
    logs = {file.partition_path: 0 for file in client.files()}
    for file in client.files():
        logs[file.partition_path] += file.log_file_count
    first = client.active_timeline.completed_writes().instants[0].requested_time
    before = hoodie.read_table(str(table), as_of=first)
    assert before.num_rows > 0 and set(before["_hoodie_commit_time"].to_pylist()) == {first}
    everything = hoodie.read_table(str(table), query_type="read_optimized")
    field = client.table_config.partition_fields[0]
    for partition, count in logs.items():
        filters = [(field, "=", partition.rpartition("=")[2])]
        if count:
            with pytest.raises(HoodieNotSupportedException, match=HAS_LOG_FILES):
                hoodie.read_table(str(table), filters=filters)
        else:
            found = hoodie.read_table(str(table), filters=filters)
            assert 0 < found.num_rows < everything.num_rows


@pytest.mark.parametrize("table", ["v9_mor_compact", "hand_mor"], indirect=True)
def test_log_files_behind_a_compaction_are_refused_too(table: Path) -> None:
    with pytest.raises(HoodieNotSupportedException, match=HAS_LOG_FILES):
        hoodie.read_table(str(table))


@pytest.mark.parametrize("table", ["v9_pay_DefaultHoodieRecordPayload", "up_mor_9", "mor_6"], indirect=True)
def test_keys_are_looked_up_where_no_log_file_may_hold_them(table: Path) -> None:
    rows = hoodie.read_table(str(table), query_type="read_optimized")
    with HoodieReadClient(str(table)) as client:
        if table.name == "mor_6":
            with pytest.raises(HoodieNotSupportedException, match="log files"):
                client.read(rows)
        else:
            assert in_order(client.read(rows).to_pylist()) == in_order(rows.to_pylist())


@pytest.mark.parametrize("table", ["v9_pay_DefaultHoodieRecordPayload", "v9_mor", "mor_6"], indirect=True)
def test_nothing_is_written(table: Path) -> None:
    changes = [
        lambda: local_client(table).upsert([{"id": 1}]),
        lambda: local_client(table).delete([HoodieKey("1", "")]),
        lambda: local_client(table).start_commit(),
        lambda: local_client(table).clean(),
        lambda: local_client(table).rollback_failed_writes(),
        lambda: local_client(table).savepoint(),
        lambda: find_orphan_files(str(table)),
    ]
    for change in changes:
        with pytest.raises(HoodieNotSupportedException, match=r"hoodie\.table\.type=MERGE_ON_READ \(hoodie reads the"):
            change()


@pytest.mark.parametrize("name", ["v9_mor", "v6_mor_mdt"])
def test_a_log_file_that_is_gone_is_an_error(name: str, later_tables: Path, tmp_path: Path) -> None:
    shutil.copytree(later_tables / name, tmp_path / name)
    (folder,) = folders_of_tables(tmp_path / name)
    for log_file in folder.glob("*/.*.log.*"):
        log_file.unlink()
    with pytest.raises(HoodieIOException, match=r"\.log\.\d_\S+ of deltacommit \d+ is not there"):
        hoodie.read_table(str(folder))
