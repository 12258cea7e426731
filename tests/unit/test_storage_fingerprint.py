"""The fingerprint of files on storage: the same for the same code, and one changed value shows."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.storage_fingerprint import collect, compare, fingerprint

TABLE = "few-mor-9"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One recording of a small table."""
    folder = tmp_path_factory.mktemp("fingerprint") / "first"
    collect(folder, [TABLE], zone="America/New_York")
    return folder


def with_change(recording: Path, folder: Path, chosen: Callable[[str], bool], change: Callable[[bytes], bytes]) -> Path:
    """A copy of a recording in which one file of the last step that wrote it holds something else."""
    shutil.copytree(recording, folder)
    steps = json.loads((folder / "recording.json").read_text())
    (path,) = {path for step in steps for path in step["files"] if chosen(path)}
    for step in steps:
        if path in step["files"]:
            blob = folder / "blobs" / step["files"][path]
            changed = blob.with_name(f"{blob.name}-changed")
            changed.write_bytes(change(blob.read_bytes()))
            step["files"][path] = changed.name
    (folder / "recording.json").write_text(json.dumps(steps))
    return folder


def test_two_recordings_in_other_folders_and_zones_are_the_same(recording: Path, tmp_path: Path) -> None:
    first = fingerprint(recording)
    second = collect(tmp_path / "another folder", [TABLE], zone="Asia/Tokyo")

    assert compare(first, second) == []
    operations = (recording / "operations.txt").read_text()
    assert operations == (tmp_path / "another folder" / "operations.txt").read_text()
    assert f"{TABLE} / 02 insert: finish <table>/x/" in operations
    files = [file for step in first[TABLE].values() for file in step]
    assert {step[""]["outcome"] for step in first[TABLE].values()} == {"done"}
    for part in (".commit", ".deltacommit", "compaction.requested", "x/.<id", "/metadata/record_index/", ".parquet"):
        assert any(part in file for file in files), part
    assert not any("20260203" in file for file in files)


def test_a_changed_property_is_reported_by_its_line(recording: Path, tmp_path: Path) -> None:
    changed = with_change(
        recording,
        tmp_path / "changed",
        lambda path: path == "x/.hoodie_partition_metadata",
        lambda data: data.replace(b"partitionDepth=1", b"partitionDepth=2"),
    )

    (difference,) = compare(fingerprint(recording), fingerprint(changed))

    assert difference.startswith(f"{TABLE} / 02 insert / x/.hoodie_partition_metadata / lines[")
    assert difference.endswith('"partitionDepth=1" -> "partitionDepth=2"')


def test_a_changed_row_is_reported_by_its_column(recording: Path, tmp_path: Path) -> None:
    def change(data: bytes) -> bytes:
        file = pq.ParquetFile(pa.BufferReader(data))
        table = file.read()
        place = table.schema.get_field_index("ts")
        table = table.set_column(place, table.schema.field("ts"), pa.array([7] * table.num_rows, pa.int64()))
        out = io.BytesIO()
        pq.write_table(table, out, compression="none")
        return out.getvalue()

    first = json.loads((recording / "recording.json").read_text())
    (path,) = [path for path in first[1]["files"] if path.startswith("y/") and path.endswith(".parquet")]
    changed = with_change(recording, tmp_path / "changed", lambda found: found == path, change)

    differences = compare(fingerprint(recording), fingerprint(changed))

    (row,) = [difference for difference in differences if ".rows[" in difference]
    assert row.startswith(f"{TABLE} / 02 insert / y/<id ")
    assert row.endswith(" / parquet.rows[0].ts: 1 -> 7")
    # The file has another size than the commit says.
    assert any(".deltacommit / avro." in difference and "fileSizeInBytes" in difference for difference in differences)
