"""Parquet files of folders, and what all sources of folders have in common."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.exception import HoodieIOException, HoodieReadFromSourceException, HoodieSourceTimeoutException
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources import parquet_dfs_source as module
from hoodie.utilities.sources.dfs_source import DFSSource, check_unchanged
from hoodie.utilities.sources.parquet_dfs_source import ParquetDFSSource
from hoodie.utilities.sources.source import InputBatch, SourceContext, read_all
from tests.support.object_store_servers import Bucket

ROOT_KEY = "hoodie.streamer.source.dfs.root"


def source(root: Path | str, properties: Mapping[str, str] = MappingProxyType({}), options: Any = None) -> DFSSource:
    """A source of a folder."""
    return ParquetDFSSource(SourceContext(StreamerProperties({ROOT_KEY: str(root), **properties}), None, options))


def write(path: Path, time_ms: int, **columns: Any) -> Path:
    """A Parquet file of a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))
    return path


def rows(batch: InputBatch) -> list[dict[str, Any]]:
    """The rows of a batch; there are no errors."""
    table, errors = read_all(batch)
    assert errors == []
    assert table.schema == batch.schema
    return table.to_pylist()


def test_each_round_has_the_new_files_in_the_order_of_their_times(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", 1000, k=["b"], n=[1])
    write(tmp_path / "a.parquet", 2000, k=["a"], n=[2])
    files = source(tmp_path)
    first = files.fetch(None, None)
    assert rows(first) == [{"k": "b", "n": 1}, {"k": "a", "n": 2}]
    assert first.checkpoint is not None
    assert (first.checkpoint.position, first.backlog) == ("2000", 0)
    assert first.size_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    nothing = files.fetch(first.checkpoint, None)
    assert (nothing.is_empty, nothing.checkpoint, nothing.rows) == (True, first.checkpoint, 0)
    write(tmp_path / "c.parquet", 3000, k=["c"], n=[3])
    assert rows(files.fetch(first.checkpoint, None)) == [{"k": "c", "n": 3}]


def test_the_limit_leaves_a_backlog(tmp_path: Path) -> None:
    sizes = [write(tmp_path / f"{number}.parquet", number, k=[number]).stat().st_size for number in range(1, 5)]
    batch = source(tmp_path).fetch(None, sizes[0] * 2 + 1)
    assert [row["k"] for row in rows(batch)] == [1, 2]
    assert batch.backlog == 2
    assert batch.details["totalSourceBytesAvailable"] == sum(sizes)
    assert batch.details["sourceBytesToBeIngestedInSyncRound"] == sizes[0] * 2
    assert batch.details["sourceParallelism"] == len(batch.reads)


def test_columns_of_all_files_are_there_and_numbers_widen(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", 1, k=["a"], n=pa.array([1], pa.int32()))
    write(tmp_path / "2.parquet", 2, n=pa.array([2**40]), k=pa.array(["b"], pa.large_string()), more=[True])
    batch = source(tmp_path).fetch(None, None)
    assert batch.schema is not None
    assert batch.schema.field("n").type == pa.int64()
    assert rows(batch) == [{"k": "a", "n": 1, "more": None}, {"k": "b", "n": 2**40, "more": True}]


@pytest.mark.parametrize(
    "key",
    [
        "hoodie.streamer.source.parquet.dfs.merge.schema.enable",
        "hoodie.streamer.source.parquet.dfs.merge_schema.enable",
        "hoodie.deltastreamer.source.parquet.dfs.merge_schema.enable",
    ],
)
def test_the_first_file_tells_the_columns_if_schemas_are_not_merged(key: str, tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", 1, k=["a"])
    write(tmp_path / "2.parquet", 2, k=["b"], more=[True])
    assert rows(source(tmp_path, {key: "false"}).fetch(None, None)) == [{"k": "a"}, {"k": "b"}]


def test_types_that_do_not_fit_are_refused_with_both_files(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", 1, n=["a"])
    write(tmp_path / "2.parquet", 2, n=[2])
    with pytest.raises(HoodieReadFromSourceException, match=r"2\.parquet.*1\.parquet.*merge\.schema\.enable"):
        source(tmp_path).fetch(None, None)


def test_reads_are_picklable_and_can_be_read_again(tmp_path: Path) -> None:
    for number in range(1, 4):
        write(tmp_path / f"{number}.parquet", number, k=[number])
    batch = source(tmp_path).fetch(None, None)
    (read,) = batch.reads
    again = pickle.loads(pickle.dumps(read))
    for _ in range(2):
        assert [row for one in again.batches() for row in one.rows.to_pylist()] == [{"k": 1}, {"k": 2}, {"k": 3}]


def test_small_files_are_batched_together_and_large_ones_are_parted(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", 1, k=list(range(50_000)))
    for number in range(2, 12):
        write(tmp_path / f"{number}.parquet", number, k=[number])
    batch = source(tmp_path).fetch(None, None)
    sizes = [len(one.rows) for read in batch.reads for one in read.batches()]
    assert sum(sizes) == 50_010
    assert max(sizes) <= 20_000
    assert len(sizes) <= 4
    assert [row["k"] for row in rows(batch)] == [*range(50_000), *range(2, 12)]


def test_a_file_that_was_deleted_after_the_listing_may_be_tried_again_with_a_new_one(tmp_path: Path) -> None:
    path = write(tmp_path / "1.parquet", 1, k=[1])
    write(tmp_path / "2.parquet", 2, k=[2])
    files = source(tmp_path)
    batch = files.fetch(None, None)
    path.unlink()
    with pytest.raises(HoodieSourceTimeoutException, match=r"1\.parquet was deleted after it was listed.*lists the"):
        read_all(batch)
    assert rows(files.fetch(None, None)) == [{"k": 2}]


@pytest.mark.parametrize("damage", [False, True])
def test_a_file_that_was_replaced_after_the_listing_may_be_tried_again(damage: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "1.parquet", 1, k=[1])
    files = source(tmp_path)
    batch = files.fetch(None, None)
    write(path, 2, k=[2])
    content = path.read_bytes()
    if damage:
        path.write_bytes(b"PAR1 and so on")
    with pytest.raises(HoodieSourceTimeoutException, match=r"1\.parquet was replaced or is still being written"):
        read_all(batch)
    path.write_bytes(content)
    assert rows(files.fetch(None, None)) == [{"k": 2}]


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1.parquet").write_bytes(b"PAR1 this is not one PAR1")
    with pytest.raises(HoodieReadFromSourceException, match=r"1\.parquet is not readable.*move it away"):
        source(tmp_path).fetch(None, None)


def test_a_storage_that_fails_may_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "1.parquet", 1, k=[1])
    files = source(tmp_path)
    batch = files.fetch(None, None)

    def fail(*_: object) -> None:
        raise HoodieIOException("no answer")

    monkeypatch.setattr(type(files.selector.storage), "file_status", fail)
    with pytest.raises(HoodieSourceTimeoutException, match=r"1\.parquet failed: no answer"):
        read_all(batch)
    with pytest.raises(HoodieSourceTimeoutException, match=f"{tmp_path} failed: no answer"):
        files.fetch(None, None)


def test_files_of_a_bucket_are_read(s3_bucket: Bucket, tmp_path: Path) -> None:
    files = source(f"s3://{s3_bucket.name}/in", {}, s3_bucket.options())
    for number in range(3):
        content = write(tmp_path / "x", 1, k=[number]).read_bytes()
        files.selector.storage.replace(f"s3://{s3_bucket.name}/in/{number}.parquet", content)
    batch = files.fetch(None, None)
    assert rows(batch) == [{"k": 0}, {"k": 1}, {"k": 2}]
    files.selector.storage.delete_file(f"s3://{s3_bucket.name}/in/1.parquet")
    with pytest.raises(HoodieSourceTimeoutException, match=r"1\.parquet was deleted"):
        read_all(batch)


def test_a_store_may_list_finer_times_than_it_tells_of_an_object(s3_bucket: Bucket, tmp_path: Path) -> None:
    files = source(f"s3://{s3_bucket.name}/in", {}, s3_bucket.options())
    path = f"s3://{s3_bucket.name}/in/a.parquet"
    files.selector.storage.replace(path, write(tmp_path / "x", 1, k=[1]).read_bytes())
    (status,) = files.selector.list_files()
    second = status.modification_time_ms // 1000 * 1000
    check_unchanged(files.selector.storage, attrs.evolve(status, modification_time_ms=second + 999))
    for changed in (
        attrs.evolve(status, modification_time_ms=second - 1),
        attrs.evolve(status, size_bytes=status.size_bytes + 1),
    ):
        with pytest.raises(HoodieSourceTimeoutException, match=f"{path} was replaced"):
            check_unchanged(files.selector.storage, changed)


def test_tasks_of_spark_share_a_large_file_by_its_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "b.parquet"
    pq.write_table(pa.table({"k": list(range(100_000))}), path, row_group_size=10_000, compression="none")
    os.utime(path, (2, 2))
    write(tmp_path / "a.parquet", 1000, k=[-2])
    write(tmp_path / "c.parquet", 3000, k=[-1])
    properties = StreamerProperties({ROOT_KEY: str(tmp_path), "hoodie.streamer.source.dfs.split.bytes": "250000"})
    batch = ParquetDFSSource(SourceContext(properties, spark=object())).fetch(None, None)  # type: ignore[arg-type]
    parts = [read.row_groups for read in batch.reads if isinstance(read, module.ParquetFileRead)]
    assert len(parts) > 3
    assert (parts[0], parts[-1]) == (None, None)
    assert [number for part in parts[1:-1] for number in part or ()] == list(range(10))
    assert [row["k"] for row in rows(batch)] == [-2, *range(100_000), -1]
    in_process = source(tmp_path).fetch(None, None)
    assert len(in_process.reads) == 1
