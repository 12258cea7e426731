"""The repairs of `hoodie.Table`: one method for all, `recover`, and `markers`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableType, HoodieWriteConfig, Table
from hoodie.exception import HoodieConfigException

ROWS = pa.table({"id": ["a", "b"], "city": ["oslo", "rome"], "ts": [1, 1]})
MakeTable = Callable[..., Table]


@pytest.fixture(params=list(HoodieTableType))
def table(request: pytest.FixtureRequest, tmp_path: Path, table_version: int) -> Table:
    """A table of two rows, of both types."""
    return Table.create(
        tmp_path / "trips", ROWS, record_key_fields="id", partition_fields="city", ordering_fields="ts",
        table_type=request.param, table_version=table_version,
        properties={"hoodie.compact.inline": "false", "hoodie.clean.automatic": "false"},
    )  # fmt: skip


def contents(table: Table) -> dict[str, bytes]:
    """The files of the table."""
    return {str(path): path.read_bytes() for path in Path(table.path).rglob("*") if path.is_file()}


def test_of_a_key_that_is_there_twice_one_row_stays(table: Table) -> None:
    table.insert(pa.table({"id": ["a"], "city": ["oslo"], "ts": [2]}))
    before = contents(table)
    planned = table.repair("duplicates", dry_run=True)
    assert "1 keys" in planned.headline and len(planned.table) == 2
    assert contents(table) == before
    table.repair("duplicates", partitions=["oslo"])
    assert sorted(table.read(["id", "ts"]).to_pylist(), key=str) == [{"id": "a", "ts": 2}, {"id": "b", "ts": 1}]
    assert not len(table.repair("duplicates", dry_run=True, across_partitions=True).table)


def test_files_that_no_commit_explains_are_moved(table: Table, tmp_path: Path) -> None:
    (file,) = Path(table.path, "oslo").glob("*.parquet")
    orphan = file.with_name(f"{'0' * 8}-0000-0000-0000-{'0' * 12}-0_0-0-0_20200101000000000.parquet")
    orphan.write_bytes(file.read_bytes())
    before = contents(table)
    assert len(table.repair("orphans", dry_run=True).table) == 1
    assert contents(table) == before
    with pytest.raises(HoodieConfigException, match="backup_folder"):
        table.repair("orphans")
    table.repair("orphans", backup_folder=str(tmp_path / "backup"), include_visible=True)
    assert not orphan.exists() and (tmp_path / "backup" / "oslo" / orphan.name).exists()


def test_lost_metadata_of_partitions_and_lost_properties_are_written_again(table: Table) -> None:
    metafile = Path(table.path, "oslo", ".hoodie_partition_metadata")
    metafile.unlink()
    assert len(table.repair("partitions", dry_run=True).table) == 1
    assert not metafile.exists()
    table.repair("partitions")
    assert metafile.exists()
    properties = Path(table.path, ".hoodie", "hoodie.properties")
    assert "nothing to do" in table.repair("properties", dry_run=True).headline
    kept = properties.read_bytes()
    properties.rename(properties.with_name("hoodie.properties.backup"))
    table.repair("properties", dry_run=True)
    assert not properties.exists()
    table.repair("properties")
    assert properties.read_bytes().splitlines()[2:] == kept.splitlines()[2:]
    assert table.count() == 2


def test_an_unknown_repair_or_option_is_refused(table: Table) -> None:
    with pytest.raises(HoodieConfigException, match="give one of duplicates, orphans, partitions, properties"):
        table.repair("everything")
    with pytest.raises(HoodieConfigException, match="has no option delete; its options: none"):
        table.repair("partitions", delete=True)


def test_a_write_that_failed_has_markers_until_it_is_undone(table: Table) -> None:
    config = HoodieWriteConfig.from_properties(table.path, {"hoodie.auto.commit": "false"})
    with HoodieLocalWriteClient(config) as client:
        left = client.start_commit()
        client.upsert(pa.table({"id": ["a", "c"], "city": ["oslo", "bern"], "ts": [2, 2]}), left)
    marked = table.markers(left)
    assert {file.partition_path for file in marked} == {"oslo", "bern"}
    assert all(file.size_bytes for file in marked if file.io_type != "APPEND")
    for file in marked:
        if file.io_type != "APPEND":
            assert Path(table.path, file.partition_path, file.file_name).stat().st_size == file.size_bytes
    assert table.recover().instant_times == (left,)
    assert table.markers(left)[:] == ()
    assert table.recover().instant_times == ()
    with pytest.raises(HoodieConfigException, match="no instant time"):
        table.markers("monday")
