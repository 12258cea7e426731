"""Markers, one a file and batched."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from hoodie.common.fs.file_names import make_base_file_name, make_log_file_name
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.table.marker.write_markers import Marker, WriteMarkers
from hoodie.exception import HoodieCorruptedDataException, HoodieIOException
from hoodie.storage.storage_factory import open_storage

INSTANT = "20261121101500123"
BASE = make_base_file_name("f-0", "0-1-2", INSTANT)
OTHER = make_base_file_name("g-0", "1-1-3", INSTANT)
OLD_BASE = make_base_file_name("f-0", "0-1-2", "20251121101500123")
LOG = make_log_file_name("f-0", "20251121101500123", 2, "0-1-2")


@pytest.fixture
def meta_path(tmp_path: Path) -> Path:
    return tmp_path / "table" / ".hoodie"


@pytest.fixture
def markers(meta_path: Path) -> WriteMarkers:
    return WriteMarkers(open_storage(str(meta_path.parent)), str(meta_path), INSTANT)


def test_an_instant_without_markers_lists_none(markers: WriteMarkers) -> None:
    assert markers.list_markers() == []
    assert not markers.delete_all()


@pytest.mark.parametrize(
    "partition_path", ["", "asia", "region=asia/date=2026-11-21", "p*q", "a[b]", "a{b", "größe 日", "a%2Fb"]
)
def test_a_marker_is_an_empty_file_that_is_listed_until_it_is_deleted(
    markers: WriteMarkers, meta_path: Path, partition_path: str
) -> None:
    assert not markers.exists(partition_path, BASE, IOType.CREATE)
    assert markers.create(partition_path, BASE, IOType.CREATE)
    assert (meta_path / ".temp" / INSTANT / partition_path / f"{BASE}.marker.CREATE").read_bytes() == b""
    assert markers.exists(partition_path, BASE, IOType.CREATE)
    assert not markers.exists(partition_path, BASE, IOType.MERGE)
    assert markers.list_markers() == [Marker(partition_path, BASE, IOType.CREATE)]
    assert markers.delete(partition_path, BASE, IOType.CREATE)
    assert not markers.delete(partition_path, BASE, IOType.CREATE)
    assert markers.list_markers() == []


def test_a_marker_that_is_there_already_is_no_error(markers: WriteMarkers) -> None:
    assert markers.create("asia", BASE, IOType.MERGE)
    assert not markers.create("asia", BASE, IOType.MERGE)
    assert markers.list_markers() == [Marker("asia", BASE, IOType.MERGE)]


def test_markers_of_all_partitions_and_kinds_are_listed_sorted(markers: WriteMarkers) -> None:
    markers.create("asia/china", LOG, IOType.APPEND)
    markers.create("asia/china", BASE, IOType.MERGE)
    markers.create("", OTHER, IOType.CREATE)
    assert markers.list_markers() == [
        Marker("", OTHER, IOType.CREATE),
        Marker("asia/china", LOG, IOType.APPEND),
        Marker("asia/china", BASE, IOType.MERGE),
    ]


def test_delete_all_leaves_the_markers_of_other_instants(markers: WriteMarkers, meta_path: Path) -> None:
    other = WriteMarkers(markers.storage, str(meta_path), "20261121101500124")
    markers.create("asia", BASE, IOType.CREATE)
    other.create("asia", LOG, IOType.APPEND)
    assert markers.delete_all()
    assert markers.list_markers() == []
    assert other.list_markers() == [Marker("asia", LOG, IOType.APPEND)]


def test_an_append_marker_of_hudi_0_14_names_the_base_file_of_its_slice(markers: WriteMarkers) -> None:
    markers.create("asia", OLD_BASE, IOType.APPEND)
    assert markers.list_markers() == [Marker("asia", OLD_BASE, IOType.APPEND)]


def write_batches(meta_path: Path, batches: dict[str, str], type_content: str = "TIMELINE_SERVER_BASED") -> None:
    folder = meta_path / ".temp" / INSTANT
    folder.mkdir(parents=True)
    (folder / "MARKERS.type").write_text(type_content)
    (folder / ".MARKERS.type.crc").write_bytes(b"crc")
    for name, content in batches.items():
        (folder / name).write_text(content, "utf-8")


def test_batched_markers_of_the_timeline_server_are_listed(markers: WriteMarkers, meta_path: Path) -> None:
    write_batches(
        meta_path,
        {
            "MARKERS0": f"asia/größe/{BASE}.marker.CREATE\n{OTHER}.marker.MERGE\n",
            "MARKERS7": f"asia/{LOG}.marker.APPEND\n",
            "MARKERS12": "",
        },
    )
    assert markers.list_markers() == [
        Marker("", OTHER, IOType.MERGE),
        Marker("asia", LOG, IOType.APPEND),
        Marker("asia/größe", BASE, IOType.CREATE),
    ]
    assert markers.delete_all()
    assert not (meta_path / ".temp" / INSTANT).exists()


def test_an_unfinished_last_line_of_a_batch_is_ignored(markers: WriteMarkers, meta_path: Path) -> None:
    write_batches(meta_path, {"MARKERS0": f"asia/{BASE}.marker.CREATE\nasia/{OTHER}.marker.CRE"})
    assert markers.list_markers() == [Marker("asia", BASE, IOType.CREATE)]


def test_rubbish_within_a_batch_is_named(markers: WriteMarkers, meta_path: Path) -> None:
    write_batches(meta_path, {"MARKERS3": f"rubbish\nasia/{BASE}.marker.CREATE\n"})
    with pytest.raises(HoodieCorruptedDataException, match=r"MARKERS3.*'rubbish'"):
        markers.list_markers()
    (meta_path / ".temp" / INSTANT / "MARKERS3").write_bytes(b"\xff\xff\n")
    with pytest.raises(HoodieCorruptedDataException, match="MARKERS3 is not UTF-8"):
        markers.list_markers()


def test_an_unknown_type_of_markers_is_named(markers: WriteMarkers, meta_path: Path) -> None:
    write_batches(meta_path, {}, type_content="SOMETHING_NEW")
    with pytest.raises(HoodieCorruptedDataException, match=r"MARKERS\.type holds 'SOMETHING_NEW'"):
        markers.list_markers()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"../../{BASE}.marker.CREATE", "would leave"),
        (f"asia/../../{BASE}.marker.CREATE", "would leave"),
        (f"/{BASE}.marker.CREATE", "absolute"),
        (f"/etc/{BASE}.marker.CREATE", "absolute"),
        (f".hoodie/{BASE}.marker.CREATE", "would leave"),
        ("asia/hoodie.properties.marker.CREATE", "does not name a data file"),
        ("asia/...marker.CREATE", "does not name a data file"),
        (f"asia/{OLD_BASE}.marker.MERGE", "names a file of instant 20251121101500123"),
    ],
)
def test_a_batched_marker_that_must_not_be_deleted_by_is_refused(
    markers: WriteMarkers, meta_path: Path, line: str, message: str
) -> None:
    write_batches(meta_path, {"MARKERS0": f"{line}\n"})
    with pytest.raises(HoodieIOException, match=message):
        markers.list_markers()


def test_a_single_marker_of_a_committed_file_is_refused(markers: WriteMarkers) -> None:
    markers.create("asia", OLD_BASE, IOType.MERGE)
    with pytest.raises(HoodieIOException, match="names a file of instant 20251121101500123"):
        markers.list_markers()


def test_files_that_are_no_markers_are_ignored(markers: WriteMarkers, meta_path: Path) -> None:
    markers.create("asia", BASE, IOType.CREATE)
    for name in ("_SUCCESS", f".{BASE}.marker.CREATE.crc", "notes.txt"):
        (meta_path / ".temp" / INSTANT / "asia" / name).write_bytes(b"x")
    assert markers.list_markers() == [Marker("asia", BASE, IOType.CREATE)]


@pytest.mark.parametrize("partition_path", ["..", "../x", "/etc", "a//b", ".hoodie"])
def test_a_marker_outside_of_the_instants_folder_is_not_made(
    markers: WriteMarkers, tmp_path: Path, partition_path: str
) -> None:
    for call in (markers.create, markers.exists, markers.delete):
        with pytest.raises(HoodieIOException, match="would leave"):
            call(partition_path, BASE, IOType.CREATE)
    with pytest.raises(HoodieIOException, match="Cannot place a marker"):
        markers.create("asia", f"../{BASE}", IOType.CREATE)
    assert list(tmp_path.rglob("*.marker.*")) == []


def test_markers_cross_to_a_task(markers: WriteMarkers) -> None:
    pickle.loads(pickle.dumps(markers)).create("asia", BASE, IOType.CREATE)
    assert markers.list_markers() == [Marker("asia", BASE, IOType.CREATE)]
