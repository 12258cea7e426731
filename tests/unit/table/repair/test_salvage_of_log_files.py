"""What is whole of a damaged log file is saved, and told before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieConfigException, HoodieCorruptedDataException, HoodieLocalWriteClient, HoodieWriteConfig
from hoodie.common.table.view import committed_log_files
from hoodie.exception import HoodieMissingFileException, HoodieNotSupportedException
from hoodie.table.repair.damaged_log_file import LogFilePartState, SalvagedLogFile
from tests.support.log_files import log_files_in

RIGHT = [("a", 2), ("b", 1), ("c", 2)]


@pytest.fixture(autouse=True)
def nothing_was_read_before() -> Iterator[None]:
    yield
    committed_log_files._READ_BEFORE.clear()


def written(path: Path, version: int) -> Path:
    """A table with an insert and an upsert of two rows, each in a block of its own; its rows are `RIGHT`."""
    properties = {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.write.table.version": version,
        "hoodie.metadata.enable": True,
        "hoodie.compact.inline": False,
        "hoodie.logfile.data.block.max.size": 1,
    }
    for rows in ({"id": ["a", "b", "c"], "v": [1, 1, 1]}, {"id": ["a", "c"], "v": [2, 2]}):
        hoodie.write_table(pa.table(rows), str(path), record_key_fields="id", properties=properties)
    return path


def found_in(path: Path, **options: Any) -> list[tuple[str, int]]:
    return sorted((row["id"], row["v"]) for row in hoodie.read_table(str(path), **options).to_pylist())


def salvaged(path: Path, file: Path | str, **options: Any) -> SalvagedLogFile:
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(path), {})) as client:
        return client.salvage_log_file(str(file), **options)


DAMAGES: dict[str, tuple[Callable[[bytes, int], bytes], list[tuple[str, int]], int]] = {
    "a byte is lost": (lambda data, end: data[:-1], [("a", 2), ("b", 1), ("c", 1)], 1),
    "the last block is lost": (lambda data, end: data[:end], [("a", 2), ("b", 1), ("c", 1)], 1),
    "all is lost": (lambda data, end: b"", [("a", 1), ("b", 1), ("c", 1)], 2),
    "a wrong length": (lambda data, end: data[:13] + b"\x01" + data[14:], [("a", 1), ("b", 1), ("c", 2)], 1),
    "a wrong magic": (lambda data, end: b"?" + data[1:], [("a", 1), ("b", 1), ("c", 2)], 1),
    "an unknown version": (lambda data, end: data[:17] + b"\x09" + data[18:], [("a", 1), ("b", 1), ("c", 2)], 1),
}


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("what", DAMAGES)
def test_whole_blocks_are_saved_and_told_before(tmp_path: Path, version: int, what: str) -> None:
    change, left, lost = DAMAGES[what]
    path = written(tmp_path / "t", version)
    (log,) = log_files_in(path)
    data = log.read_bytes()
    assert not salvaged(path, log, dry_run=False).is_damaged
    second = data.index(b"#HUDI#", 1)
    damaged = change(data, second)
    log.write_bytes(damaged)
    told = salvaged(path, log)
    assert (told.is_damaged, told.lost_records, told.committed_bytes) == (True, lost, len(data))
    assert log.read_bytes() == damaged
    assert "would be saved" in repr(told)
    done = salvaged(path, str(log.relative_to(path)), dry_run=False)
    assert done.parts == told.parts
    assert done.kept_as is not None
    assert Path(done.kept_as).read_bytes() == damaged
    assert log.stat().st_size == len(data)
    for options in ({}, {"hoodie.metadata.enable": "false"}):
        assert found_in(path, options=options) == left
    assert not salvaged(path, log).is_damaged
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(path), {})) as client:
        client.compact()
    assert found_in(path) == left


def test_what_no_commit_tells_of_stays(tmp_path: Path) -> None:
    path = written(tmp_path / "t", 9)
    (log,) = log_files_in(path)
    data = log.read_bytes()
    log.write_bytes(data + b"#HUDI#torn")
    told = salvaged(path, log, dry_run=False)
    assert [part.state for part in told.parts] == [*[LogFilePartState.SAVED] * 2, LogFilePartState.UNCOMMITTED]
    assert log.read_bytes() == data + b"#HUDI#torn"
    log.write_bytes(b"?" + data[1:] + b"#HUDI#torn")
    salvaged(path, log, dry_run=False)
    assert log.read_bytes().endswith(b"#HUDI#torn")
    assert found_in(path) == [("a", 1), ("b", 1), ("c", 2)]


def test_a_damaged_content_is_lost_as_a_block(tmp_path: Path) -> None:
    path = written(tmp_path / "t", 9)
    (log,) = log_files_in(path)
    data = log.read_bytes()
    place = data.index(b"#HUDI#", 1) - 40
    log.write_bytes(data[:place] + b"\xff" * 12 + data[place + 12 :])
    with pytest.raises(HoodieCorruptedDataException):
        found_in(path)
    assert salvaged(path, log, dry_run=False).lost_records == 1
    assert found_in(path) == [("a", 1), ("b", 1), ("c", 2)]


def test_other_paths_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "t", 9)
    own = log_files_in(path, with_metadata_tables=True)
    of_metadata = next(file for file in own if ".hoodie" in file.parts)
    with pytest.raises(HoodieNotSupportedException, match="metadata table is built anew"):
        salvaged(path, of_metadata)
    for file in (next(path.glob("*.parquet")), "../x", "/etc/passwd", 7):
        client = HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(path), {}))
        with client, pytest.raises(HoodieConfigException, match="path"):
            client.salvage_log_file(file)  # type: ignore[arg-type]
    (log,) = log_files_in(path)
    log.unlink()
    with pytest.raises(HoodieMissingFileException, match="nothing to save"):
        salvaged(path, log)
