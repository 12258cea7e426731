"""Partitions whose metadata file is lost or damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

import hoodie
from hoodie.common.table.partition_metadata import HoodiePartitionMetadata, read_partition_metadata
from hoodie.exception import HoodieIOException
from hoodie.table.repair import repair_partition_metadata
from tests.support.services_table import ServicesTable
from tests.support.table_invariants import check_table

NAME = ".hoodie_partition_metadata"


@pytest.fixture
def table(tmp_path: Path) -> ServicesTable:
    made = ServicesTable(tmp_path / "t")
    made.upsert("a")
    made.upsert("b", region="y")
    return made


def metadata(table: ServicesTable, partition_path: str) -> HoodiePartitionMetadata | None:
    meta_client = table.load()
    return read_partition_metadata(meta_client.storage, meta_client.base_path, partition_path)


def test_nothing_is_done_where_all_are_well(table: ServicesTable) -> None:
    before = (table.base_path / "x" / NAME).read_bytes()
    repairs = repair_partition_metadata(str(table.base_path))
    assert repairs.partitions == ()
    assert (table.base_path / "x" / NAME).read_bytes() == before


@pytest.mark.without_metadata_table("it names partitions that a listing misses")
def test_a_lost_file_is_made_again_with_the_oldest_instant_of_its_folder(table: ServicesTable) -> None:
    first = metadata(table, "x")
    table.upsert("a")
    (table.base_path / "x" / NAME).unlink()
    with pytest.raises(HoodieIOException, match=r"partition 'x' is not seen.*repair_partition_metadata"):
        table.read()
    would = repair_partition_metadata(str(table.base_path), dry_run=True)
    assert "1 folders" in repr(would)
    assert "would be repaired" in repr(would)
    assert metadata(table, "x") is None
    done = repair_partition_metadata(str(table.base_path))
    assert [(row.partition_path, row.problem.name) for row in done.partitions] == [("x", "MISSING")]
    assert metadata(table, "x") == first
    check_table(table.base_path, {"a": {"ts": 3}, "b": {"ts": 2}})


@pytest.mark.parametrize(
    "content", [b"", b"commitTime=", b"\xff\x00", b"commitTime=20250101000000000\npartitionDepth=x"]
)
def test_a_damaged_file_is_made_again(table: ServicesTable, content: bytes) -> None:
    expected = metadata(table, "x")
    (table.base_path / "x" / NAME).write_bytes(content)
    done = repair_partition_metadata(str(table.base_path))
    assert [(row.partition_path, row.problem.name) for row in done.partitions] == [("x", "DAMAGED")]
    assert metadata(table, "x") == expected


def test_a_wrong_depth_is_corrected(table: ServicesTable) -> None:
    expected = metadata(table, "x")
    assert expected is not None
    (table.base_path / "x" / NAME).write_bytes(HoodiePartitionMetadata(expected.commit_time, 3).to_text())
    done = repair_partition_metadata(str(table.base_path))
    assert [row.problem.name for row in done.partitions] == ["WRONG_DEPTH"]
    assert metadata(table, "x") == expected


def test_a_table_that_has_them_as_parquet_gets_them_so(table: ServicesTable) -> None:
    expected = metadata(table, "x")
    assert expected is not None
    for region in "xy":
        (table.base_path / region / NAME).unlink()
    with (table.base_path / ".hoodie" / "hoodie.properties").open("a") as file:
        file.write("hoodie.partition.metafile.use.base.format=true\n")
    repair_partition_metadata(str(table.base_path))
    assert not (table.base_path / "x" / NAME).exists()
    assert (table.base_path / "x" / f"{NAME}.parquet").read_bytes()[:4] == b"PAR1"
    assert metadata(table, "x") == expected
    assert len(hoodie.read_table(str(table.base_path))) == 2
    (table.base_path / "x" / f"{NAME}.parquet").write_bytes(b"PAR1")
    done = repair_partition_metadata(str(table.base_path))
    assert [(row.file_name, row.problem.name) for row in done.partitions] == [(f"{NAME}.parquet", "DAMAGED")]
    assert metadata(table, "x") == expected


def test_folders_without_committed_files_stay_what_they_are(table: ServicesTable) -> None:
    (table.base_path / "notes").mkdir()
    (table.base_path / "notes" / "readme.txt").write_text("x")
    table.leave_pending("c", region="z")
    (table.base_path / "z" / NAME).unlink()
    assert repair_partition_metadata(str(table.base_path)).partitions == ()


@pytest.mark.without_metadata_table("it names partitions that a listing misses")
def test_a_file_that_hides_partitions_goes(tmp_path: Path) -> None:
    table = ServicesTable(tmp_path / "t")
    table.upsert("a", region="2025/01")
    table.upsert("b", region="2025/02")
    (table.base_path / "2025" / NAME).write_bytes(HoodiePartitionMetadata("20250101000000000", 1).to_text())
    with pytest.raises(HoodieIOException, match=r"partition '2025/02' is not seen.*repair_partition_metadata"):
        table.read()
    done = repair_partition_metadata(str(table.base_path))
    assert [(row.partition_path, row.problem.name) for row in done.partitions] == [("2025", "HIDES_OTHERS")]
    check_table(table.base_path, {"a": {"ts": 1}, "b": {"ts": 2}})


def test_a_file_that_hides_partitions_stays_while_a_write_is_pending(tmp_path: Path) -> None:
    table = ServicesTable(tmp_path / "t")
    table.upsert("a", region="2025/01")
    table.leave_pending("b", region="2025/02")
    (table.base_path / "2025" / NAME).write_bytes(HoodiePartitionMetadata("20250101000000000", 1).to_text())
    done = repair_partition_metadata(str(table.base_path))
    assert [row.is_repairable for row in done.partitions] == [False]
    assert (table.base_path / "2025" / NAME).exists()


def test_the_file_of_a_table_without_partitions_is_made_again(tmp_path: Path) -> None:
    rows = [{"id": "a", "ts": 1}]
    hoodie.write_table(rows, str(tmp_path / "t"), table_name="t", record_key_fields="id", ordering_fields="ts")
    (tmp_path / "t" / NAME).unlink()
    assert len(hoodie.read_table(str(tmp_path / "t"))) == 1
    repair_partition_metadata(str(tmp_path / "t"))
    assert (tmp_path / "t" / NAME).exists()
    assert len(hoodie.read_table(str(tmp_path / "t"))) == 1
