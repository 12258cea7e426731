"""Damage of log files of completed commits is told; what dead writers left torn is passed over."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieCorruptedDataException, HoodieLocalWriteClient, HoodieReadClient, HoodieWriteConfig
from hoodie.common.table.view import committed_log_files
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.metadata.reader.decoded_files import DECODED_FILES
from tests.support.log_files import log_files_in
from tests.support.timeline_files import read_commit, state_files, write_commit

RIGHT = [("a", 2), ("c", 1), ("d", 2)]
WITHOUT_METADATA = {"hoodie.metadata.enable": "false"}
SMALL_BLOCKS = "hoodie.logfile.data.block.max.size"


@pytest.fixture(autouse=True)
def nothing_was_read_before() -> Iterator[None]:
    """Files of tests are changed under their names."""
    yield
    committed_log_files._READ_BEFORE.clear()
    DECODED_FILES.clear()


def written(path: Path, version: int, *, has_metadata: bool = True, **options: Any) -> Path:
    """A table of three commits: an insert, an upsert of two rows in a block each, a delete. Its rows are `RIGHT`."""
    properties = {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.write.table.version": version,
        "hoodie.metadata.enable": has_metadata,
        "hoodie.compact.inline": False,
        SMALL_BLOCKS: 1,
        **options,
    }

    def write(rows: dict[str, list[Any]], **call: Any) -> None:
        hoodie.write_table(pa.table(rows), str(path), properties=properties, **call)

    write({"id": ["a", "b", "c", "d"], "v": [1, 1, 1, 1]}, record_key_fields="id")
    write({"id": ["a", "d"], "v": [2, 2]})
    write({"id": ["b"]}, operation="delete")
    return path


def found_in(path: Path, **options: Any) -> list[tuple[str, int]]:
    return sorted((row["id"], row["v"]) for row in hoodie.read_table(str(path), **options).to_pylist())


def block_ends(log: Path) -> list[int]:
    starts = [block.offset_bytes for block in read_log_blocks(log.read_bytes(), str(log))]
    return [*starts[1:], log.stat().st_size]


def damages(data: bytes, first_end: int) -> Iterator[tuple[str, bytes]]:
    yield "a byte is lost", data[:-1]
    yield "cut in half", data[: len(data) // 2]
    yield "only the magic", data[:6]
    yield "a part of the magic", data[:3]
    yield "empty", b""
    yield "a wrong length", data[:13] + bytes([data[13] ^ 1]) + data[14:]
    if first_end < len(data):
        yield "its last block is lost", data[:first_end]
        yield "its first block is lost", data[first_end:]
        yield "a wrong magic", data[:first_end] + b"?" + data[first_end + 1 :]


@pytest.mark.parametrize("has_metadata", [True, False])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_damage_of_a_committed_log_file_is_told_by_every_reader(
    tmp_path: Path, version: int, has_metadata: bool
) -> None:
    path = written(tmp_path / "t", version, has_metadata=has_metadata)
    logs = log_files_in(path)
    ends = [block_ends(log) for log in logs]
    assert found_in(path) == RIGHT
    assert max(map(len, ends)) > 1
    for log, (first_end, *_) in zip(logs, ends, strict=True):
        data = log.read_bytes()
        for what, changed in damages(data, first_end):
            log.write_bytes(changed)
            for options in ({}, WITHOUT_METADATA):
                with pytest.raises(HoodieCorruptedDataException, match=r"damaged\. .*" + str(len(data))) as error:
                    found_in(path, options=options)
                assert log.name in str(error.value), what
                assert f"{len(changed)} bytes" in str(error.value), what
        log.write_bytes(data)
    assert found_in(path) == RIGHT


@pytest.mark.parametrize("version", [6, 9])
def test_damage_stops_look_ups_deletes_by_values_and_compactions(tmp_path: Path, version: int) -> None:
    path = written(tmp_path / "t", version)
    log = log_files_in(path)[0]
    data = log.read_bytes()
    log.write_bytes(data[: block_ends(log)[0]])
    config = HoodieWriteConfig.from_properties(str(path), {"hoodie.index.type": "SIMPLE"})

    def compact() -> None:
        with HoodieLocalWriteClient(config) as client:
            client.compact()

    def delete() -> None:
        with HoodieLocalWriteClient(config) as client:
            client.delete(where=[("v", ">", 1)])

    def look_up() -> None:
        with HoodieReadClient(str(path)) as client:
            client.read(["a"])

    for call in (look_up, delete, compact):
        with pytest.raises(HoodieCorruptedDataException, match="is damaged") as error:
            call()
        assert log.name in str(error.value), call
    log.write_bytes(data)
    assert found_in(path) == RIGHT


@pytest.mark.parametrize("version", [6, 9])
def test_no_metadata_table_is_built_of_damaged_files(tmp_path: Path, version: int) -> None:
    path = written(tmp_path / "t", version, has_metadata=False)
    log, base = log_files_in(path)[0], next(path.glob("*.parquet"))
    ends = block_ends(log)
    changes: list[tuple[Path, Callable[[bytes], bytes]]] = [
        (log, lambda data: data[: ends[0]]),
        (log, lambda data: b""),
        (base, lambda data: data + b"\0"),
        (base, lambda data: b""),
    ]
    for file, change in changes:
        data = file.read_bytes()
        file.write_bytes(change(data))
        with pytest.raises(HoodieCorruptedDataException, match="is damaged") as error:
            hoodie.write_table(
                pa.table({"id": ["z"], "v": [3]}), str(path), properties={"hoodie.metadata.enable": True}
            )
        assert file.name in str(error.value)
        file.write_bytes(data)
    assert found_in(path) == RIGHT


@pytest.mark.parametrize("version", [6, 8, 9])
def test_bytes_behind_what_a_commit_tells_are_passed_over(
    tmp_path: Path, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path / "t", version)
    for log in log_files_in(path):
        data = log.read_bytes()
        for behind in (b"\0", b"#HUDI#", b"#HUDI#\0\0", data[:-1], bytes(100)):
            log.write_bytes(data + behind)
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                assert found_in(path) == RIGHT, behind
                assert found_in(path, options=WITHOUT_METADATA) == RIGHT, behind
            assert "is torn at byte" in caplog.text or len(behind) < 6
        log.write_bytes(data)


def appended(path: Path) -> tuple[Path, list[int]]:
    """A table of version 6 whose commits appended to one log file, as on HDFS; the last one died.

    Returns:
        The log file, and where the bytes of each commit end.
    """
    written(path, 6, has_metadata=False)
    properties = {"hoodie.metadata.enable": False, "hoodie.compact.inline": False}
    hoodie.write_table(pa.table({"id": ["c"], "v": [9]}), str(path), properties=properties)
    logs = log_files_in(path)
    ends: list[int] = []
    content = b""
    times = sorted({file.name.partition(".")[0] for file in state_files(path) if file.suffix == ".deltacommit"})
    for time, log in zip(times[-3:], logs, strict=True):
        content += log.read_bytes()
        metadata = read_commit(path, time)
        stats = {
            partition: tuple(
                attrs.evolve(
                    stat,
                    path=logs[0].name,
                    log_offset=ends[-1] if ends else 0,
                    file_size_bytes=len(content),
                )
                for stat in found
            )
            for partition, found in metadata.partition_to_write_stats.items()
        }
        write_commit(path, time, attrs.evolve(metadata, partition_to_write_stats=stats))
        ends.append(len(content))
    for log in logs[1:]:
        log.unlink()
    logs[0].write_bytes(content)
    (path / f".hoodie/{times[-1]}.deltacommit").unlink()
    committed_log_files._READ_BEFORE.clear()
    return logs[0], ends


def test_a_file_that_hudi_appended_to_may_be_cut_anywhere_behind_its_commits(tmp_path: Path) -> None:
    path = tmp_path / "t"
    log, ends = appended(path)
    data = log.read_bytes()
    assert found_in(path) == RIGHT
    for length in range(ends[1], len(data)):
        log.write_bytes(data[:length])
        assert found_in(path) == RIGHT, length
    for length in (*range(ends[1] - 3, ends[1]), ends[0] + 9, ends[0], ends[0] - 1, 0):
        log.write_bytes(data[:length])
        with pytest.raises(HoodieCorruptedDataException, match=f"{ends[1]} bytes, and {length} bytes are there"):
            found_in(path)
    # The first commit is whole, and readers of its time see nothing else.
    log.write_bytes(data[: ends[0] + 9])
    first = sorted(file.name.partition(".")[0] for file in state_files(path) if file.suffix == ".deltacommit")[1]
    assert found_in(path, as_of=first) == [("a", 2), ("b", 1), ("c", 1), ("d", 2)]


def test_a_torn_block_between_two_commits_is_that_of_a_dead_writer(tmp_path: Path) -> None:
    path = tmp_path / "t"
    log, ends = appended(path)
    data = log.read_bytes()
    torn = data[ends[1] : ends[1] + 40]
    log.write_bytes(data[: ends[0]] + torn + data[ends[0] : ends[1]])
    time = sorted(file.name.partition(".")[0] for file in state_files(path) if file.suffix == ".deltacommit")[-1]
    metadata = read_commit(path, time)
    (stat,) = metadata.write_stats
    stat = attrs.evolve(stat, log_offset=ends[0] + len(torn), file_size_bytes=ends[1] + len(torn))
    write_commit(path, time, attrs.evolve(metadata, partition_to_write_stats={"": (stat,)}))
    assert found_in(path) == RIGHT


@pytest.mark.parametrize("version", [6, 9])
def test_a_torn_file_that_no_commit_names_is_passed_over_with_a_line(
    tmp_path: Path, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path / "t", version)
    log = log_files_in(path)[-1]
    data = log.read_bytes()
    other = log.with_name(log.name.rpartition("_")[0] + "_9-9-9")
    for content in (data[:-1], data[:20], b"#HUDI#", b""):
        other.write_bytes(content)
        with caplog.at_level(logging.WARNING):
            assert found_in(path, options=WITHOUT_METADATA) == RIGHT
        assert other.name in caplog.text
        caplog.clear()


@pytest.mark.parametrize("version", [6, 9])
def test_archived_commits_tell_of_their_log_files(tmp_path: Path, version: int) -> None:
    keeps = {
        "hoodie.keep.min.commits": 3,
        "hoodie.keep.max.commits": 4,
        "hoodie.cleaner.commits.retained": 1,
        "hoodie.compact.inline.max.delta.commits": 1,
    }
    path = written(tmp_path / "t", version, has_metadata=False, **keeps)
    properties = {"hoodie.metadata.enable": False, "hoodie.compact.inline": False, **keeps}
    for value in range(5):
        hoodie.write_table(pa.table({"id": ["c"], "v": [value]}), str(path), properties=properties)
    log = log_files_in(path)[0]
    archived = hoodie.HoodieTableMetaClient.load(str(path)).snapshot.archived_timeline
    assert any(log.name in str(stat.path) for i in archived for stat in archived.read_commit_metadata(i).write_stats)
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(HoodieCorruptedDataException, match="it is damaged"):
        found_in(path)


def test_a_copy_of_a_damaged_table_is_refused_with_its_own_path(tmp_path: Path) -> None:
    path = written(tmp_path / "t", 9)
    other = shutil.copytree(path, tmp_path / "other")
    log = log_files_in(other)[0]
    log.write_bytes(b"")
    assert found_in(path) == RIGHT
    with pytest.raises(HoodieCorruptedDataException, match=str(log)):
        found_in(other)
