"""The file that makes a folder a partition."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.common.table.partition_metadata import (
    HoodiePartitionMetadata,
    check_partition_path,
    ensure_partition_metadata,
    partition_depth,
    read_partition_metadata,
)
from hoodie.exception import HoodieCorruptedDataException, HoodieIOException, HoodieNotSupportedException
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_factory import open_storage

INSTANT = "20261121101500123"
FILE_NAME = ".hoodie_partition_metadata"


@pytest.fixture
def storage(tmp_path: Path) -> HoodieStorage:
    return open_storage(str(tmp_path))


@pytest.mark.parametrize(
    ("partition_path", "depth"),
    [
        ("", 0),
        ("asia", 1),
        ("region=asia/date=2026-11-21", 2),
        ("2026/11/21", 3),
        ("p*q", 1),
        ("a[b]{c", 1),
        ("größe 日", 1),
    ],
)
def test_what_was_written_is_read_back_with_its_depth(
    storage: HoodieStorage, tmp_path: Path, partition_path: str, depth: int
) -> None:
    assert read_partition_metadata(storage, str(tmp_path), partition_path) is None
    assert ensure_partition_metadata(storage, str(tmp_path), partition_path, INSTANT)
    assert read_partition_metadata(storage, str(tmp_path), partition_path) == HoodiePartitionMetadata(INSTANT, depth)
    assert partition_depth(partition_path) == depth


def test_the_file_is_a_java_properties_file(storage: HoodieStorage, tmp_path: Path) -> None:
    ensure_partition_metadata(storage, str(tmp_path), "asia", INSTANT)
    lines = (tmp_path / "asia" / FILE_NAME).read_text("latin-1").splitlines()
    assert lines[0] == "#partition metadata"
    assert lines[1].startswith("#")
    assert lines[2:] == [f"commitTime={INSTANT}", "partitionDepth=1"]


def test_a_partition_keeps_the_instant_that_created_it(storage: HoodieStorage, tmp_path: Path) -> None:
    assert ensure_partition_metadata(storage, str(tmp_path), "asia", INSTANT)
    assert not ensure_partition_metadata(storage, str(tmp_path), "asia", "20271121101500123")
    assert read_partition_metadata(storage, str(tmp_path), "asia") == HoodiePartitionMetadata(INSTANT, 1)


def write_parquet_form(folder: Path, properties: dict[str, str]) -> None:
    folder.mkdir()
    schema = pa.schema([pa.field("unused", pa.string())], metadata=properties)
    with pq.ParquetWriter(folder / f"{FILE_NAME}.parquet", schema, store_schema=False) as writer:
        writer.add_key_value_metadata(properties)


def test_the_parquet_form_is_read_and_not_doubled(storage: HoodieStorage, tmp_path: Path) -> None:
    write_parquet_form(tmp_path / "asia", {"commitTime": INSTANT, "partitionDepth": "1"})
    assert read_partition_metadata(storage, str(tmp_path), "asia") == HoodiePartitionMetadata(INSTANT, 1)
    assert not ensure_partition_metadata(storage, str(tmp_path), "asia", INSTANT)
    assert not (tmp_path / "asia" / FILE_NAME).exists()


def test_the_orc_form_makes_a_partition_but_is_not_read(storage: HoodieStorage, tmp_path: Path) -> None:
    (tmp_path / "asia").mkdir()
    (tmp_path / "asia" / f"{FILE_NAME}.orc").write_bytes(b"ORC")
    assert not ensure_partition_metadata(storage, str(tmp_path), "asia", INSTANT)
    with pytest.raises(HoodieNotSupportedException, match=r"asia/\.hoodie_partition_metadata\.orc"):
        read_partition_metadata(storage, str(tmp_path), "asia")


@pytest.mark.parametrize(
    "content", [b"", b"#partition metadata\n", b"commitTime=2026\n", b"\xff\xfe\x00", b"commitTime=x\npartitionDepth=1"]
)
def test_a_damaged_text_form_is_named(storage: HoodieStorage, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "asia").mkdir()
    (tmp_path / "asia" / FILE_NAME).write_bytes(content)
    with pytest.raises(HoodieCorruptedDataException, match=r"asia/\.hoodie_partition_metadata"):
        read_partition_metadata(storage, str(tmp_path), "asia")


def test_a_damaged_parquet_form_is_named(storage: HoodieStorage, tmp_path: Path) -> None:
    write_parquet_form(tmp_path / "asia", {"commitTime": INSTANT, "partitionDepth": "1"})
    path = tmp_path / "asia" / f"{FILE_NAME}.parquet"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(HoodieCorruptedDataException, match="not a complete Parquet file"):
        read_partition_metadata(storage, str(tmp_path), "asia")


@pytest.mark.parametrize(
    "partition_path", ["..", "a/../b", "/etc", "a/", "a//b", ".", "a/./b", ".hoodie", ".hoodie/archived", "a\0b"]
)
def test_a_partition_path_outside_of_the_data_folders_is_refused(
    storage: HoodieStorage, tmp_path: Path, partition_path: str
) -> None:
    with pytest.raises(HoodieIOException, match="would leave"):
        check_partition_path(partition_path)
    with pytest.raises(HoodieIOException, match="would leave"):
        ensure_partition_metadata(storage, str(tmp_path / "table"), partition_path, INSTANT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("partition_path", ["..a", "a..", "...", "hoodie", "a/.hoodie", "a b", "%2F"])
def test_odd_but_harmless_partition_paths_are_taken(partition_path: str) -> None:
    assert check_partition_path(partition_path) == partition_path
