"""What the metadata tables of real Hudi say, beside the files of their tables."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.table.table_metadata import FileSystemBackedTableMetadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieIndexException,
    HoodieMissingFileException,
    TableNotFoundException,
)
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.decoded_files import DECODED_FILES
from hoodie.metadata.reader.empty_log_files import without_empty_log_files
from tests.support.hookable_storage import Call, HookableStorage
from tests.support.metadata_tampering import copied, tables_with_metadata

STALE = "trap_stale"
"""Its last two commits are not in its metadata table."""


def opened(table: Path) -> HoodieBackedTableMetadata:
    return HoodieBackedTableMetadata.open(TableSnapshot.load(str(table)))


def sizes(metadata: HoodieBackedTableMetadata | FileSystemBackedTableMetadata) -> dict[str, dict[str, int]]:
    listed = metadata.list_files_of(metadata.list_partitions())
    return {path: {file.name: file.size_bytes for file in files} for path, files in listed.items()}


# --- listing ----------------------------------------------------------------------------------------------------------


def test_listings_are_those_of_the_file_system_without_files_of_pending_instants(
    shared_tables: Path, later_tables: Path
) -> None:
    versions: Counter[int] = Counter()
    for table in tables_with_metadata(shared_tables, later_tables):
        metadata = opened(table)
        listed, stored = (
            sizes(metadata),
            sizes(FileSystemBackedTableMetadata(metadata.table.storage, metadata.table.base_path)),
        )
        pending = {i.requested_time for i in metadata.table.active_timeline.filter_pending()}
        is_expected = pending if table.name != STALE else {"20261122072307214", "20261122072307875"}
        missing = {name for path, files in stored.items() for name in files if name not in listed[path]}
        assert {path: {n: s for n, s in files.items() if n not in missing} for path, files in stored.items()} == listed
        assert all(any(f"_{time}." in name for time in is_expected) for name in missing), table
        assert bool(missing) == (table.name in {STALE, "hmdt_crash", "v9_mor_rollback_pending", "v9_sql"}), table
        versions[metadata.table.table_config.table_version] += 1
    assert versions[6] >= 7
    assert versions[8] >= 3
    assert versions[9] >= 10


def test_files_of_some_partitions_are_listed(later_tables: Path) -> None:
    metadata = opened(later_tables / "metadata_6/metadata_6")
    assert metadata.list_partitions() == ["p0", "p1", "p2"]
    files = metadata.list_files("p1")
    assert [Path(file.path).stat().st_size for file in files] == [file.size_bytes for file in files]
    assert [file.name for file in files] == sorted(file.name for file in files)
    assert metadata.list_files_of(["p1", "none"]) == {"p1": files, "none": []}
    assert metadata.list_files_of([]) == {}
    stored = metadata.list_stored_files()
    assert {path: len(found) for path, found in stored.items()} == {path: len(files) for path in ("p0", "p1", "p2")}


def without_instant(table: Path, time: str) -> None:
    for path in (table / ".hoodie").rglob(f"{time}*"):
        if "metadata" not in path.parts and path.is_file():
            path.unlink()


@pytest.mark.parametrize("name", ["metadata_6", "v8_cow_mdt", "v9_mor_mdt"])
def test_instants_that_are_later_than_the_tables_timeline_do_not_count(
    later_tables: Path, tmp_path: Path, name: str
) -> None:
    table = copied(later_tables / name / name, tmp_path)
    metadata = opened(table)
    writes = metadata.table.active_timeline.completed_writes()
    last = writes.last_instant
    assert last is not None
    before = metadata.read_column_stats().num_rows
    without_instant(table, last.requested_time)
    earlier = opened(table)
    now, then = sizes(metadata), sizes(earlier)
    own = {file for files in now.values() for file in files if f"_{last.requested_time}." in file}
    assert {file for files in then.values() for file in files} == {file for fs in now.values() for file in fs} - own
    assert own
    assert earlier.read_column_stats().num_rows < before


@pytest.mark.parametrize("name", ["metadata_6", "v8_cow_mdt", "v9_cow_mdt"])
def test_instants_that_are_pending_in_the_table_do_not_count(later_tables: Path, tmp_path: Path, name: str) -> None:
    table = copied(later_tables / name / name, tmp_path)
    metadata = opened(table)
    last = metadata.table.active_timeline.completed_writes().last_instant
    assert last is not None
    pattern = rf"{last.requested_time}(_\d+)?\.(commit|deltacommit)"
    folder = Path(metadata.table.meta_path) / ("timeline" if name != "metadata_6" else "")
    (completed,) = [path for path in folder.iterdir() if re.fullmatch(pattern, path.name)]
    completed.unlink()
    then = sizes(opened(table))
    assert not [file for files in then.values() for file in files if f"_{last.requested_time}." in file]
    assert sum(map(len, then.values())) < sum(map(len, sizes(metadata).values()))


# --- statistics and bloom filters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["metadata_6", "v6_mor_mdt", "v8_cow_mdt", "v9_cow_mdt", "v9_mor_mdt", "v9_sql"])
def test_ranges_of_columns_are_those_of_footers(later_tables: Path, name: str) -> None:
    metadata = opened(later_tables / name / name)
    files = [
        (path, Path(file.path))
        for path, found in metadata.list_files_of(metadata.list_partitions()).items()
        for file in found
        if file.name.endswith(".parquet")
    ]
    columns = ["ts", "_hoodie_record_key"]
    stats = metadata.read_column_stats_of([(path, file.name) for path, file in files], columns)
    found = {(row["partition_path"], row["file_name"], row["column_name"]): row for row in stats.to_pylist()}
    # Hudi has written no statistics of the files that it cleaned, or that a later group count does not name.
    assert found
    for path, file in files:
        footer = pq.read_metadata(file)
        for number in range(footer.num_columns):
            column = footer.row_group(0).column(number)
            if column.path_in_schema not in columns:
                continue
            row = found[path, file.name, column.path_in_schema]
            ends = [row[end]["integer"] if row[end]["integer"] is not None else row[end]["binary"].decode()
                    for end in ("min_value", "max_value")]  # fmt: skip
            assert ends == [column.statistics.min, column.statistics.max]
            assert row["value_count"] == footer.num_rows
    of_column = metadata.read_column_stats(["ts"])
    everything = metadata.read_column_stats()
    wanted = [row for row in everything.to_pylist() if row["column_name"] == "ts"]
    assert sorted(of_column.to_pylist(), key=str) == sorted(wanted, key=str)
    first = files[0][0]
    in_partition = metadata.read_column_stats(["ts"], [first])
    assert sorted(in_partition.to_pylist(), key=str) == sorted(
        (row for row in wanted if row["partition_path"] == first), key=str
    )
    assert set(everything.column("partition_path").to_pylist()) == set(metadata.list_partitions())


def test_ranges_of_partitions_hold_their_rows(later_tables: Path) -> None:
    for name in ("v8_cow_mdt", "v9_cow_mdt", "v9_mor_mdt"):
        metadata = opened(later_tables / name / name)
        rows = pq.read_table(later_tables / "rows" / f"{name}.parquet").to_pylist()
        stats = metadata.read_partition_stats(["ts"])
        assert stats.num_rows == 2
        for row in stats.to_pylist():
            own = [one["ts"] for one in rows if one["_hoodie_partition_path"] == row["partition_path"]]
            assert row["min_value"]["integer"] <= min(own) <= max(own) <= row["max_value"]["integer"]
            (alone,) = metadata.read_partition_stats(["ts"], [row["partition_path"]]).to_pylist()
            assert alone == row
        assert metadata.read_partition_stats().num_rows > stats.num_rows


def test_bloom_filters_know_the_keys_of_their_files(later_tables: Path) -> None:
    metadata = opened(later_tables / "metadata_6/metadata_6")
    files = [(path, file) for path, files in metadata.list_files_of(["p0", "p1"]).items() for file in files]
    filters = metadata.read_bloom_filters([(path, file.name) for path, file in files] + [("p0", "none.parquet")])
    assert set(filters) == {(path, file.name) for path, file in files}
    for path, file in files:
        keys = pq.read_table(file.path, columns=["_hoodie_record_key"])[0]
        found = filters[path, file.name].might_contain(pa.chunked_array([*keys.chunks, pa.array(["no such key"])]))
        assert list(found) == [True] * len(keys) + [False]
    assert metadata.read_bloom_filters([]) == {}


# --- indexes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v9_mor_mdt", "v9_cow_rli_part"])
def test_the_record_index_finds_each_key_at_its_file(later_tables: Path, name: str) -> None:
    metadata = opened(later_tables / name / name)
    rows = pq.read_table(later_tables / "rows" / f"{name}.parquet").to_pylist()
    expected = {}
    for row in rows:
        file = row["_hoodie_file_name"]
        file_id = file if (parsed := parse_base_file_name(file)) is None else parsed.file_id
        expected[row["_hoodie_record_key"]] = (row["_hoodie_partition_path"], file_id)
    found = metadata.read_record_index([*expected, "none"]).to_pylist()
    assert {row["record_key"]: (row["partition_path"], row["file_id"]) for row in found} == expected
    assert len(found) == len(expected) >= 60
    assert metadata.read_record_index().num_rows == len(expected)
    instants = {i.requested_time for i in metadata.table.active_timeline.completed_writes()}
    assert {row["instant_time"] for row in found} <= instants
    assert metadata.read_record_index(["none"]).num_rows == 0
    assert metadata.read_record_index(pa.chunked_array([["k00010"], ["k00011"]])).num_rows == 2
    assert metadata.read_record_index([]).num_rows == 0


def test_a_record_index_by_partitions_is_searched_in_one(later_tables: Path) -> None:
    metadata = opened(later_tables / "v9_cow_rli_part/v9_cow_rli_part")
    found = metadata.read_record_index().to_pylist()
    for path in ("p0", "p1"):
        own = [row["record_key"] for row in found if row["partition_path"] == path]
        others = [row["record_key"] for row in found if row["partition_path"] != path]
        assert metadata.read_record_index(own, path).num_rows == len(own) > 20
        assert metadata.read_record_index(others, path).num_rows == 0
    assert metadata.read_record_index(None, "none").num_rows == 0
    whole = opened(later_tables / "v9_mor_mdt/v9_mor_mdt")
    with pytest.raises(HoodieIndexException, match="look keys up without a partition"):
        whole.read_record_index(["k00010"], "p0")


def test_a_secondary_index_finds_the_keys_of_values(later_tables: Path) -> None:
    metadata = opened(later_tables / "v9_sql/v9_sql")
    rows = pq.read_table(later_tables / "rows/v9_sql.parquet").to_pylist()
    expected = {(row["name"], row["_hoodie_record_key"]) for row in rows}
    for index in ("idx_name", "secondary_index_idx_name"):
        found = metadata.read_secondary_index(index).to_pylist()
        assert {(row["value"], row["record_key"]) for row in found} == expected
    value = rows[3]["name"]
    found = metadata.read_secondary_index("idx_name", [value, "no such value"]).to_pylist()
    assert {(row["value"], row["record_key"]) for row in found} == {one for one in expected if one[0] == value}
    assert len(metadata.read_records("expr_index_idx_ts").keys) == 6
    with pytest.raises(HoodieIndexException, match="no partition secondary_index_other: it has column_stats, expr"):
        metadata.read_secondary_index("other")


# --- requests ---------------------------------------------------------------------------------------------------------


class CountingStorage(HookableStorage):
    """Counts its calls; those that read a data file by ``file``, small ones as a whole or not."""

    calls: ClassVar[Counter[str]] = Counter()

    def around(self, call: Call) -> object:
        is_file = call.name in ("open", "read") and (".hfile" in call.path or ".log." in call.path)
        self.calls["file" if is_file else call.name] += 1
        return call.apply()


def test_a_look_up_opens_the_files_of_its_file_group_only(later_tables: Path) -> None:
    DECODED_FILES.clear()
    table = later_tables / "v9_mor_mdt/v9_mor_mdt"
    snapshot = TableSnapshot.load(str(table))
    object.__setattr__(snapshot, "storage", storage := CountingStorage(str(table)))
    metadata = HoodieBackedTableMetadata.open(snapshot)
    assert storage.calls["file"] == 0
    assert storage.calls.total() <= 4
    storage.calls.clear()
    metadata.list_partitions()
    files = next(iter(metadata.files.file_groups("files").values()))[0]
    assert storage.calls["file"] == len(without_empty_log_files(files).record_files)
    assert storage.calls["list"] == 1
    storage.calls.clear()
    metadata.read_record_index(["k00010"])
    # The folder is listed; groups without base files are held against the instant that made them.
    assert storage.calls["list"] == storage.calls["read"] == 1
    storage.calls.clear()
    metadata.read_record_index(["k00010"])
    most = max(len(one.record_files) for one in metadata.files.file_groups("record_index")[None])
    assert storage.calls["file"] <= most
    assert set(storage.calls) <= {"file"}


# --- damaged tables ---------------------------------------------------------------------------------------------------


def test_a_table_without_a_metadata_table_is_told(later_tables: Path, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundException, match=r"hoodie\.table\.metadata\.partitions lists no partition\. List"):
        opened(later_tables / "v9_cow/v9_cow")
    table = copied(later_tables / "v9_cow_mdt/v9_cow_mdt", tmp_path)
    (table / ".hoodie/metadata").rename(tmp_path / "away")
    with pytest.raises(TableNotFoundException, match=r"lists the partitions column_stats,files.*List the file system"):
        opened(table)


def damaged(table: Path, pattern: str) -> list[Path]:
    return sorted((table / ".hoodie/metadata").glob(pattern))


def read_everything(metadata: HoodieBackedTableMetadata) -> None:
    for partition in metadata.partitions:
        metadata.read_records(partition)


@pytest.mark.parametrize(
    ("name", "pattern", "message"),
    [
        ("v9_cow_mdt", "files/*.hfile", r"base file files-0000-0_.*hfile of the partition files .* is missing, which"),
        ("metadata_6", "files/*.hfile", r"base file files-0000-0_.*hfile of the partition files .* is missing, which"),
        (
            "v9_mor_mdt",
            "record_index/.record-index-0003-0_*",
            "group 3 of the partition record_index .* is missing, and 9",
        ),
        (
            "v9_cow_mdt",
            "partition_stats/*",
            r"lists the partition partition_stats .*no file groups in .* List the file",
        ),
        ("v9_cow_mdt", "partition_stats/.part*", r"lists the partition partition_stats .*no file groups in"),
    ],
)
def test_a_missing_file_is_told(later_tables: Path, tmp_path: Path, name: str, pattern: str, message: str) -> None:
    table = copied(later_tables / name / name, tmp_path)
    files = damaged(table, pattern) + damaged(table, pattern.replace("/*", "/.*", 1))
    assert files
    for path in {*files}:
        path.unlink()
    with pytest.raises(HoodieMissingFileException, match=message):
        read_everything(opened(table))


def test_a_missing_base_file_of_a_compaction_is_told(shared_tables: Path, tmp_path: Path) -> None:
    for name in ("hudi-v6-table-mor", "hudi-v9-table-mor"):
        table = copied(shared_tables / name / name, tmp_path)
        read_everything(opened(table))
        compacted = max(damaged(table, "files/*.hfile"), key=lambda path: path.name.rpartition("_")[2])
        compacted.unlink()
        with pytest.raises(HoodieMissingFileException, match=f"base file {compacted.name} .*List the file system"):
            read_everything(opened(table))


@pytest.mark.parametrize("name", ["metadata_6", "v9_mor_mdt"])
@pytest.mark.parametrize("part", ["files", "column_stats"])
def test_a_torn_log_file_is_told_and_nothing_is_left_out_silently(
    later_tables: Path, tmp_path: Path, name: str, part: str
) -> None:
    table = copied(later_tables / name / name, tmp_path)
    for path in damaged(table, f"{part}/.*.log.*"):
        data = path.read_bytes()
        if path.suffix == ".crc" or len(data) < 200:
            continue
        for length in (len(data) - 1, len(data) // 2, 20):
            path.write_bytes(data[:length])
            with pytest.raises(HoodieCorruptedDataException, match=r"it is damaged\. .* List the file system instead"):
                read_everything(opened(table))
        path.write_bytes(data)
    read_everything(opened(table))


def test_a_torn_block_of_a_dead_writer_is_left_out(later_tables: Path, tmp_path: Path) -> None:
    table = copied(later_tables / "metadata_6/metadata_6", tmp_path)
    expected = sizes(opened(table))
    newest = max(damaged(table, "files/.*.log.*_*"), key=lambda path: path.name)
    torn = newest.with_name(re.sub(r"log\.\d+_", "log.99_", newest.name))
    torn.write_bytes(newest.read_bytes()[:-5])
    assert sizes(opened(table)) == expected


def test_other_damage_is_told(later_tables: Path, tmp_path: Path) -> None:
    table = copied(later_tables / "v9_sql/v9_sql", tmp_path)
    definitions = table / ".hoodie/.index_defs/index.json"
    good = definitions.read_text()
    for text in ("", "{}", '{"indexDefinitions": {"a": 5}}', '{"indexDefinitions": {"a": {"indexType": "x", '
                 '"sourceFields": 7}}}', "[" * 100_000):  # fmt: skip
        definitions.write_text(text)
        with pytest.raises(HoodieCorruptedDataException, match=r"definitions of indexes in .*index\.json"):
            opened(table).read_records("expr_index_idx_ts")
        assert opened(table).list_partitions()
    definitions.unlink()
    with pytest.raises(HoodieCorruptedDataException, match="does not define expr_index_idx_ts"):
        opened(table).read_records("expr_index_idx_ts")
    definitions.write_text(good)
    (base,) = damaged(table, "files/*.hfile")
    base.write_bytes(base.read_bytes()[:-1])
    with pytest.raises(HoodieException, match=str(base)):
        opened(table).list_partitions()
