"""Partitions and their files, listed from the file system."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from hoodie.common.fs.file_names import make_base_file_name, make_log_file_name
from hoodie.common.table import table_metadata
from hoodie.common.table.partition_metadata import ensure_partition_metadata
from hoodie.common.table.table_metadata import FileSystemBackedTableMetadata
from hoodie.exception import HoodieIOException
from hoodie.storage.storage_factory import open_storage

INSTANT = "20261121101500123"
BASE = make_base_file_name("f-0", "0-1-2", INSTANT)
LOG = make_log_file_name("f-0", INSTANT, 1, "0-1-2")


@pytest.fixture
def metadata(tmp_path: Path) -> FileSystemBackedTableMetadata:
    return FileSystemBackedTableMetadata(open_storage(str(tmp_path)), str(tmp_path))


def make_partition(metadata: FileSystemBackedTableMetadata, partition_path: str) -> Path:
    ensure_partition_metadata(metadata.storage, metadata.base_path, partition_path, INSTANT)
    return Path(metadata.base_path, partition_path)


def test_a_table_that_was_never_written_to_has_no_partition(metadata: FileSystemBackedTableMetadata) -> None:
    assert metadata.list_partitions() == []
    assert metadata.list_files("") == []
    assert metadata.list_files_of([]) == {}


def test_the_base_path_is_the_partition_of_a_table_without_partitions(metadata: FileSystemBackedTableMetadata) -> None:
    make_partition(metadata, "")
    assert metadata.list_partitions() == [""]


def test_the_base_path_is_a_partition_without_a_file_that_says_so_if_it_has_data_and_the_table_no_fields(
    metadata: FileSystemBackedTableMetadata, tmp_path: Path
) -> None:
    (tmp_path / BASE).write_bytes(b"1")
    assert metadata.list_partitions() == []
    without_fields = attrs.evolve(metadata, has_partition_fields=False)
    assert without_fields.list_partitions() == [""]
    (tmp_path / BASE).rename(tmp_path / "notes.txt")
    assert without_fields.list_partitions() == []
    (tmp_path / LOG).write_bytes(b"1")
    assert without_fields.list_partitions() == [""]


def test_partitions_of_any_depth_and_spelling_are_found(metadata: FileSystemBackedTableMetadata) -> None:
    paths = sorted(["asia", "2026/11/21", "2026/11/22", "region=eu/p*q", "a[b]/c{d", "größe 日", "%2F", "..."])
    for path in paths:
        make_partition(metadata, path)
    assert metadata.list_partitions() == paths


def test_folders_without_partition_metadata_are_no_partitions(
    metadata: FileSystemBackedTableMetadata, tmp_path: Path
) -> None:
    make_partition(metadata, "asia")
    (tmp_path / "foreign" / "deep").mkdir(parents=True)
    (tmp_path / "foreign" / BASE).write_bytes(b"")
    (tmp_path / ".hoodie" / "metadata" / "files").mkdir(parents=True)
    (tmp_path / ".hoodie" / "metadata" / "files" / ".hoodie_partition_metadata").write_bytes(b"")
    (tmp_path / "asia" / "nested").mkdir()
    (tmp_path / "asia" / "nested" / ".hoodie_partition_metadata").write_bytes(b"")
    assert metadata.list_partitions() == ["asia"]


@pytest.mark.parametrize("suffix", [".parquet", ".orc"])
def test_metadata_in_another_format_makes_a_partition(
    metadata: FileSystemBackedTableMetadata, tmp_path: Path, suffix: str
) -> None:
    (tmp_path / "asia").mkdir()
    (tmp_path / "asia" / f".hoodie_partition_metadata{suffix}").write_bytes(b"")
    assert metadata.list_partitions() == ["asia"]


def test_only_data_files_are_listed(metadata: FileSystemBackedTableMetadata) -> None:
    folder = make_partition(metadata, "asia")
    foreign = [f".{BASE}.crc", f".{LOG}.crc", "_SUCCESS", "notes.txt", "part-0000.snappy.parquet", f"{BASE}.tmp", ".x"]
    for name in (BASE, LOG, *foreign):
        (folder / name).write_bytes(b"12345")
    (folder / "g-0_0-1-2_20261121101500123.parquet").mkdir()
    files = metadata.list_files("asia")
    assert [(file.name, file.size_bytes, file.is_directory) for file in files] == [(LOG, 5, False), (BASE, 5, False)]
    assert files[1].path == str(folder / BASE)


def test_files_of_several_partitions_are_keyed_by_partition(metadata: FileSystemBackedTableMetadata) -> None:
    for path in ("a", "b/c"):
        (make_partition(metadata, path) / BASE).write_bytes(b"1")
    found = metadata.list_files_of(["b/c", "missing", "a"])
    assert {path: [file.name for file in files] for path, files in found.items()} == {
        "b/c": [BASE],
        "missing": [],
        "a": [BASE],
    }


@pytest.mark.parametrize("partition_path", ["..", "a/../..", "/etc", ".hoodie"])
def test_files_outside_of_the_table_are_not_listed(
    metadata: FileSystemBackedTableMetadata, partition_path: str
) -> None:
    with pytest.raises(HoodieIOException, match="would leave"):
        metadata.list_files(partition_path)
    with pytest.raises(HoodieIOException, match="would leave"):
        metadata.list_files_of(["a", "b", partition_path])


def test_many_partitions_are_all_found_in_order(metadata: FileSystemBackedTableMetadata) -> None:
    paths = [f"day={day:02}/hour={hour:02}" for day in range(60) for hour in range(24)]
    for path in paths:
        make_partition(metadata, path)
    assert metadata.list_partitions() == paths
    assert list(metadata.list_files_of(paths)) == paths


def test_versions_are_those_of_base_files(metadata: FileSystemBackedTableMetadata) -> None:
    later = make_base_file_name("f-0", "0-1-2", "20261121101500124")
    other = make_base_file_name("g-0", "0-1-2", INSTANT)
    for name in (BASE, LOG, later, other, "notes.txt"):
        (make_partition(metadata, "asia") / name).write_bytes(b"1")
    assert metadata.list_versions("asia") == {"f-0": {INSTANT, "20261121101500124"}, "g-0": {INSTANT}}
    assert metadata.list_versions("missing") == {}


def test_stored_files_are_found_in_folders_that_are_no_partitions(
    metadata: FileSystemBackedTableMetadata, tmp_path: Path
) -> None:
    for folder in ("", "no/partition", ".hoodie/metadata"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / BASE).write_bytes(b"1")
        (tmp_path / folder / LOG).write_bytes(b"1")
    (make_partition(metadata, "asia") / BASE).write_bytes(b"1")
    found = metadata.list_stored_files()
    assert {path: [file.name for file in files] for path, files in found.items()} == {
        "": [LOG, BASE],
        "asia": [BASE],
        "no/partition": [LOG, BASE],
    }


def test_one_place_chooses_what_lists_a_table() -> None:
    sources = Path(table_metadata.__file__).parents[2]
    named = [path.name for path in sources.rglob("*.py") if "FileSystemBackedTableMetadata(" in path.read_text()]
    assert named == ["table_metadata.py"]
