"""Clusterings that copy row groups: the same rows, indexes and statistics as where all rows are decoded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieReadClient
from hoodie.common.model.record_columns import FILE_NAME_META, RECORD_KEY_META
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.file_group_reader import RowGroupCopy
from hoodie.io.parquet.column_ranges import load_metadata, read_column_ranges
from hoodie.io.parquet.parquet_footer import KeyRange
from hoodie.io.parquet.parquet_reader import read_footer
from hoodie.io.rewrite_handle import HoodieRewriteHandle
from hoodie.storage.storage_factory import open_storage
from tests.support.clustered_table import (
    INDEXED,
    MANY_FILES,
    clusterings,
    commit_of,
    latest_slices,
    pending,
    rows_with_meta,
)
from tests.support.table_builder import init_table, local_client, read_rows, rows
from tests.support.table_invariants import check_table
from tests.support.timeline_files import begin_after

LEAST = "hoodie.clustering.binary.copy.row.group.min.bytes"
COPIES = {LEAST: "1"}
NO_COPIES = {LEAST: str(1 << 40)}
PLAN = "hoodie.clustering.plan.strategy."
TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]
every_table = pytest.mark.parametrize(
    ("table_type", "table_version"),
    [(table_type, version) for version in (9, 8, 6) for table_type in TYPES],
    indirect=["table_version"],
)


@pytest.fixture
def table_type() -> str:
    return "COPY_ON_WRITE"


@pytest.fixture
def base_path(tmp_path: Path, table_version: int, table_type: str) -> Path:
    return Path(init_table(tmp_path / "t", table_type=table_type))


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[RowGroupCopy]:
    """The row groups that are copied."""
    found: list[RowGroupCopy] = []
    copy = HoodieRewriteHandle.copy

    def noted(handle: HoodieRewriteHandle, stored: RowGroupCopy) -> bool:
        did = copy(handle, stored)
        found.extend([stored] * did)
        return did

    monkeypatch.setattr(HoodieRewriteHandle, "copy", noted)
    return found


def new_client(base_path: Path, **properties: Any) -> HoodieLocalWriteClient:
    return local_client(base_path, {**MANY_FILES, **COPIES, **properties})


def trips(first: int, count: int, ts: int = 1, region: str = "x") -> pa.Table:
    return rows(*((f"k{number:05}", region, ts, float(number)) for number in range(first, first + count)))


def cluster(base_path: Path, **properties: Any) -> str:
    with new_client(base_path, **properties) as client:
        result = client.cluster()
    assert result is not None
    return result.instant_time


def new_files(base_path: Path, instant_time: str) -> list[Path]:
    found = base_path.rglob(f"*_{instant_time}.parquet")
    return sorted(found, key=lambda file: int(file.name.split("_")[0].rsplit("-", 1)[1]))


def stored(files: list[Path]) -> pa.Table:
    return pa.concat_tables(pq.read_table(file, partitioning=None) for file in files)


@every_table
def test_rows_are_as_they_were(
    base_path: Path, table_type: str, table_version: int, copied: list[RowGroupCopy]
) -> None:
    with new_client(base_path, **INDEXED) as client:
        for number in range(3):
            client.insert(trips(40 * number, 40))
        last = client.insert(trips(500, 5, region="y")).instant_time
        begin = begin_after(base_path, last)
        before, old = rows_with_meta(base_path), latest_slices(base_path)
        result = client.cluster()
    assert result is not None
    assert len(copied) == 4
    assert rows_with_meta(base_path) == before
    assert hoodie.read_table(str(base_path), query_type="incremental", begin=begin).num_rows == 0
    files = new_files(base_path, result.instant_time)
    assert [pq.read_metadata(file).num_row_groups for file in files] in ([3, 1], [1, 3])
    for file in files:
        table = pq.read_table(file, partitioning=None)
        keys = table[RECORD_KEY_META].to_pylist()
        assert set(table[FILE_NAME_META].to_pylist()) == {file.name}
        footer = read_footer(open_storage(str(base_path)), str(file))
        assert footer.key_range == KeyRange(min(keys), max(keys))
        assert footer.bloom_filter.might_contain(pa.array(keys)).all()
        assert not footer.bloom_filter.might_contain(pa.array([f"not {key}" for key in keys])).all()
    metadata = commit_of(base_path, result.instant_time)
    by_path = {stat.path: stat for stat in metadata.write_stats}
    for file in files:
        stat = by_path[f"{file.parent.name}/{file.name}"]
        count = pq.read_metadata(file).num_rows
        assert (stat.prev_commit, stat.num_writes, stat.num_inserts) == ("null", count, count)
        assert (stat.num_update_writes, stat.num_deletes, stat.total_write_errors) == (0, 0, 0)
        assert stat.total_write_bytes == stat.file_size_bytes == file.stat().st_size
    replaced = {(path, file_id) for path, ids in metadata.partition_to_replace_file_ids.items() for file_id in ids}
    assert replaced == {(part.partition_path, part.file_id) for part in old}
    check_table(base_path)
    read = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(base_path)).build().read())
    assert sorted(read["id"].to_pylist()) == sorted(row["id"] for row in before)


@every_table
@pytest.mark.one_in(4)
def test_statistics_and_indexes_are_those_of_decoded_rows(
    tmp_path: Path, table_type: str, table_version: int, copied: list[RowGroupCopy]
) -> None:
    found = []
    for name, options in (("copied", COPIES), ("decoded", NO_COPIES)):
        base_path = Path(init_table(tmp_path / name, table_type=table_type))
        with new_client(base_path, **INDEXED, **options) as client:
            for number in range(3):
                client.insert(
                    trips(40 * number, 40).set_column(3, "fare", pa.array([number or None] * 40, pa.float64()))
                )
            client.cluster()
        check_table(base_path)
        with HoodieReadClient(str(base_path), options={**MANY_FILES, "hoodie.index.type": "RECORD_INDEX"}) as client:
            assert client.read([HoodieKey("k00077", "x")])["id"].to_pylist() == ["k00077"]
        (file,) = latest_slices(base_path)
        metadata = load_metadata(open_storage(str(base_path)), file.sole_base_file.path)
        ranges = read_column_ranges(metadata, ["id", "region", "ts", "fare", RECORD_KEY_META, "_hoodie_partition_path"])
        found.append([attrs.evolve(one, total_size=0, total_uncompressed_size=0) for one in ranges])
    assert found[0] == found[1]
    assert len(copied) == 3


@every_table
@pytest.mark.one_in(4)
def test_every_index_finds_the_copied_rows(
    base_path: Path, table_type: str, table_version: int, copied: list[RowGroupCopy]
) -> None:
    with new_client(base_path, **INDEXED) as client:
        client.insert(trips(0, 30))
        client.insert(trips(30, 30))
    cluster(base_path, **INDEXED)
    assert len(copied) == 2
    (x,) = latest_slices(base_path)
    for ts, index in enumerate(("SIMPLE", "BLOOM", "RECORD_INDEX", "GLOBAL_BLOOM", "GLOBAL_SIMPLE", "INMEMORY"), 2):
        with HoodieReadClient(str(base_path), options={**MANY_FILES, "hoodie.index.type": index}) as reader:
            assert reader.read([HoodieKey("k00042", "x")])["fare"].to_pylist() == [42.0], index
        with new_client(base_path, **INDEXED, **{"hoodie.index.type": index}) as writer:
            result = writer.upsert(rows(("k00042", "x", ts, 42.0), ("k00002", "x", ts, 2.0)))
        assert [status.stat.file_id for status in result if status.stat.num_writes] == [x.file_id], index
        check_table(base_path)
    assert [row["ts"] for row in rows_with_meta(base_path, filters="id = 'k00042'")] == [7]


def test_the_index_in_memory_keeps_the_keys_in_the_order_of_the_rows(
    base_path: Path, copied: list[RowGroupCopy]
) -> None:
    """Rows that are held come behind row groups that are copied later; the client goes on with what it noted."""
    in_memory = {"hoodie.index.type": "INMEMORY", **INDEXED}
    with new_client(base_path, **in_memory) as client:
        for number, count in enumerate((10, 300, 20, 300)):
            client.insert(trips(1000 * number, count))
    least = {LEAST: str(size_of_row_group(latest_slices(base_path), 300))}
    options = {**in_memory, **least, f"{PLAN}file.slices.sort.by": "INSTANT_TIME"}
    with new_client(base_path, **options) as client:
        result = client.cluster()
        assert result is not None
        assert [copy.group.rows for copy in copied] == [300, 300]
        (file,) = new_files(base_path, result.instant_time)
        assert pq.read_metadata(file).num_row_groups == 3
        order = [*range(1000, 1300), *range(3000, 3300), *range(10), *range(2000, 2020)]
        assert stored([file])["id"].to_pylist() == [f"k{number:05}" for number in order]
        client.upsert(
            rows(("k00003", "x", 2, 0.5), ("k01001", "x", 2, 0.5), ("k02019", "x", 2, 0.5), ("k03299", "x", 2, 0.5))
        )
    changed = rows_with_meta(base_path, filters="ts = 2")
    assert [row["id"] for row in changed] == ["k00003", "k01001", "k02019", "k03299"]
    assert len(rows_with_meta(base_path)) == 630
    check_table(base_path)


def size_of_row_group(slices: list[Any], row_count: int) -> int:
    """The stored bytes of the row groups of so many rows."""
    found = set()
    for part in slices:
        metadata = pq.read_metadata(part.sole_base_file.path)
        for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
            if group.num_rows == row_count:
                found.add(sum(group.column(number).total_compressed_size for number in range(group.num_columns)))
    return min(found)


@pytest.mark.parametrize("table_version", [9, 6], indirect=True)
def test_slices_with_log_files_are_decoded_and_others_copied(
    tmp_path: Path, table_version: int, copied: list[RowGroupCopy]
) -> None:
    base_path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))
    with new_client(base_path, **INDEXED) as client:
        for number in range(3):
            client.insert(trips(100 * number, 20))
        client.upsert(rows(("k00101", "x", 2, -1.0)))
        client.delete([HoodieKey("k00102", "x")])
        before = rows_with_meta(base_path)
        assert client.cluster() is not None
    assert [copy.group.rows for copy in copied] == [20, 20]
    assert rows_with_meta(base_path) == before
    assert len(before) == 59
    check_table(base_path)


def test_files_end_at_the_target_size(base_path: Path, copied: list[RowGroupCopy]) -> None:
    with new_client(base_path) as client:
        for number in range(8):
            client.insert(trips(1000 * number, 500))
    before = rows_with_meta(base_path)
    sizes = [part.size_bytes for part in latest_slices(base_path)]
    instant_time = cluster(base_path, **{f"{PLAN}target.file.max.bytes": str(3 * max(sizes))})
    files = new_files(base_path, instant_time)
    assert len(copied) == 8
    assert [pq.read_metadata(file).num_row_groups for file in files] == [3, 3, 2]
    assert all(file.stat().st_size <= 3.1 * max(sizes) for file in files)
    assert rows_with_meta(base_path) == before
    check_table(base_path)
    # Larger than the target: a file for each.
    one = {f"{PLAN}target.file.max.bytes": "1", f"{PLAN}max.bytes.per.group": "1"}
    instant_time = cluster(base_path, **one)
    assert [pq.read_metadata(file).num_row_groups for file in new_files(base_path, instant_time)] == [1] * 8
    assert rows_with_meta(base_path) == before


def test_rows_that_are_held_count_for_the_target_size(base_path: Path, copied: list[RowGroupCopy]) -> None:
    with new_client(base_path) as client:
        for number in range(6):
            client.insert(trips(1000 * number, 500 if number % 2 else 400))
    before, slices = rows_with_meta(base_path), latest_slices(base_path)
    most = max(part.size_bytes for part in slices)
    options = {LEAST: str(size_of_row_group(slices, 500)), f"{PLAN}target.file.max.bytes": str(3 * most)}
    options[f"{PLAN}file.slices.sort.by"] = "INSTANT_TIME"
    files = new_files(base_path, cluster(base_path, **options))
    assert len(copied) == 3
    assert len(files) == 2
    assert all(file.stat().st_size <= 3.1 * most for file in files)
    assert rows_with_meta(base_path) == before
    check_table(base_path)


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("table_version", [9, 6], indirect=True)
@pytest.mark.parametrize("index", ["SIMPLE", "INMEMORY"])
def test_virtual_keys(
    tmp_path: Path, table_type: str, table_version: int, index: str, copied: list[RowGroupCopy]
) -> None:
    virtual = {"hoodie.populate.meta.fields": "false", "hoodie.index.type": index}
    base_path = Path(
        init_table(tmp_path / "v", table_type=table_type, properties={"hoodie.populate.meta.fields": "false"})
    )
    with new_client(base_path, **virtual) as client:
        client.insert(rows(("b", "x", 2), ("c", "x", 1)))
        client.insert(rows(("a", "x", 1)))
        before = read_rows(base_path)
        assert client.cluster() is not None
        assert len(copied) == 2
        assert read_rows(base_path) == before
        client.insert(rows(("d", "x", 7)))
    assert read_rows(base_path) == [("a", "x", 1), ("b", "x", 2), ("c", "x", 1), ("d", "x", 7)]
    assert hoodie.metadata.validate(str(base_path)).is_right


def test_a_table_without_partitions(tmp_path: Path, copied: list[RowGroupCopy]) -> None:
    base_path = Path(init_table(tmp_path / "n", partition_fields=[]))
    with new_client(base_path, **INDEXED) as client:
        client.insert(trips(0, 3))
        client.insert(trips(3, 3))
        assert client.cluster() is not None
        client.upsert(trips(1, 1, ts=2))
    assert len(copied) == 2
    assert [row[2] for row in read_rows(base_path)] == [1, 2, 1, 1, 1, 1]
    check_table(base_path)


DECODED: dict[str, Callable[[Path], dict[str, str]]] = {
    "sorted": lambda base_path: {f"{PLAN}sort.columns": "fare"},
    "another codec": lambda base_path: {"hoodie.parquet.compression.codec": "zstd"},
    "turned off": lambda base_path: NO_COPIES,
    "by default, since they are small": lambda base_path: {LEAST: str(8 << 20)},
}


@pytest.mark.parametrize("why", DECODED)
def test_row_groups_are_decoded_otherwise(base_path: Path, why: str, copied: list[RowGroupCopy]) -> None:
    with new_client(base_path) as client:
        client.insert(trips(0, 30))
        client.insert(trips(30, 30))
    before = rows_with_meta(base_path)
    (file,) = new_files(base_path, cluster(base_path, **DECODED[why](base_path)))
    assert copied == []
    assert pq.read_metadata(file).num_row_groups == 1
    assert rows_with_meta(base_path) == before
    check_table(base_path)


@every_table
def test_files_of_an_older_schema_are_decoded(
    base_path: Path, table_type: str, table_version: int, copied: list[RowGroupCopy]
) -> None:
    with new_client(base_path, **INDEXED) as client:
        client.insert(rows(("a", "x", 1)))
        client.insert(rows(("b", "x", 1, 2.5)))
        before = rows_with_meta(base_path)
        assert client.cluster() is not None
        assert [copy.keys.to_pylist() for copy in copied if copy.keys is not None] == [["b"]]
        assert rows_with_meta(base_path) == before
        client.upsert(rows(("a", "x", 2, 1.5)))
    assert [(row["id"], row["fare"]) for row in rows_with_meta(base_path)] == [("a", 1.5), ("b", 2.5)]
    check_table(base_path)


def test_a_clustered_file_is_clustered_and_merged_again(base_path: Path, copied: list[RowGroupCopy]) -> None:
    """The footers of copies are those of any file: copied again, merged with copied keys, read by statistics."""
    with new_client(base_path, **INDEXED) as client:
        for turn in range(3):
            client.insert(trips(1000 * turn, 300))
            client.cluster()
            client.upsert(trips(1000 * turn + 100, 2, ts=2))
            check_table(base_path)
        assert len(copied) == 1 + 2 + 2
        before = rows_with_meta(base_path)
        client.insert(trips(5000, 10))
        for expected in (2, 2):
            copied.clear()
            client.cluster()
            assert len(copied) == expected
    assert rows_with_meta(base_path)[: len(before)] == before
    assert len(rows_with_meta(base_path, filters="ts = 2")) == 6
    check_table(base_path)
    (file,) = latest_slices(base_path)
    path = file.sole_base_file.path
    by_filter = pq.read_table(path, partitioning=None, filters=pc.field("fare") == 2200.0)
    assert by_filter["id"].to_pylist() == ["k02200"]


@pytest.mark.parametrize(
    ("damage", "moment"),
    [
        ("cut short", "before it is read"),
        ("a byte", "before it is read"),
        ("cut short", "before it is copied"),
        ("a byte", "before it is copied"),
        ("gone", "before it is copied"),
    ],
)
def test_a_damaged_source_fails_the_clustering(
    base_path: Path, damage: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_client(base_path) as client:
        client.insert(trips(0, 300))
        client.insert(trips(300, 300))
        planned = client.schedule_clustering()
    assert planned is not None
    before = rows_with_meta(base_path)
    path = Path(latest_slices(base_path)[0].sole_base_file.path)
    content = path.read_bytes()

    def harm() -> None:
        if damage == "gone":
            path.unlink()
        elif damage == "a byte":
            column = pq.read_metadata(path).row_group(0).column(8)
            place = column.data_page_offset + column.total_compressed_size - 1
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        else:
            path.write_bytes(content[: len(content) // 2])

    if moment == "before it is read":
        harm()
    else:
        copy = HoodieRewriteHandle.copy

        def harmed(handle: HoodieRewriteHandle, stored: RowGroupCopy) -> bool:
            if stored.group.path == str(path):
                harm()
            return copy(handle, stored)

        monkeypatch.setattr(HoodieRewriteHandle, "copy", harmed)
    with new_client(base_path) as client, pytest.raises((HoodieCorruptedDataException, OSError)) as failure:
        client.cluster(planned)
    assert path.name in str(failure.value)
    assert (clusterings(base_path), pending(base_path)) == ([], [planned])
    path.write_bytes(content)
    monkeypatch.undo()
    assert rows_with_meta(base_path) == before
    with new_client(base_path) as client:
        assert client.cluster(planned) is not None
    assert rows_with_meta(base_path) == before
    check_table(base_path)
