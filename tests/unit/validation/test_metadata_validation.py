"""Validation of metadata tables: silent about right ones, and every lie is named."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie import HoodieKey
from hoodie.exception import HoodieConfigException, HoodieIndexException, TableNotFoundException
from hoodie.metadata import (
    MetadataDifferenceKind,
    MetadataTableValidation,
    describe,
    validate,
)
from hoodie.metadata.records.metadata_keys import column_stats_prefix
from hoodie.metadata.records.metadata_records import MetadataPayload
from tests.support.hookable_storage import Faults, run_with_faults
from tests.support.metadata_tampering import Change, Entry, copied, tables_with_metadata, tamper
from tests.support.table_builder import SCHEMA, SMALL_FILTERS, init_table, local_client, rows

STALE = "trap_stale"
Row = dict[str, Any]


def files_below(table: Path) -> dict[str, bytes]:
    return {str(path.relative_to(table)): path.read_bytes() for path in table.rglob("*") if path.is_file()}


# --- right tables -----------------------------------------------------------------------------------------------------


@pytest.mark.one_in(4)
def test_nothing_is_said_about_tables_of_real_hudi(shared_tables: Path, later_tables: Path) -> None:
    validated: Counter[str] = Counter()
    for table in tables_with_metadata(shared_tables, later_tables):
        if table.name == STALE:
            continue
        result = validate(str(table))
        assert result.is_right, result
        assert result.differences == ()
        assert set(result.not_validated) <= {"expr_index_idx_ts"}
        validated.update(name for name, count in result.entry_counts.items() if count)
    assert validated["files"] >= 20
    assert validated["column_stats"] >= 15
    assert validated["partition_stats"] >= 10
    assert validated["record_index"] == 3
    assert validated["bloom_filters"] == validated["secondary_index_idx_name"] == 1


def test_commits_that_the_metadata_table_misses_are_named(later_tables: Path) -> None:
    table = later_tables / STALE / STALE
    before = files_below(table)
    result = validate(str(table))
    assert files_below(table) == before
    assert not result.is_right
    missing = [one for one in result.differences if one.partition == "files"]
    assert {one.kind for one in missing} == {MetadataDifferenceKind.MISSING}
    assert sorted(one.name.rpartition("_")[2] for one in missing) == (
        ["20261122072307214.parquet"] * 2 + ["20261122072307875.parquet"] * 2
    )
    assert result.difference_counts["files"] == 4
    text = repr(result)
    assert f"differences in the metadata table of {table}" in text
    assert missing[0].name in text
    assert missing[0].expected.endswith(" bytes")
    assert "<table" in result._repr_html_()


def test_some_partitions_are_validated(later_tables: Path) -> None:
    table = later_tables / STALE / STALE
    for given in (["partition_stats"], "partition_stats", ("partition_stats", "partition_stats")):
        result = validate(str(table), given)
        assert set(result.entry_counts) == {"partition_stats"}
        assert result.not_validated == {}
    with pytest.raises(HoodieIndexException, match="no record_index, nope to validate: it has the partitions column_"):
        validate(str(table), ["partition_stats", "record_index", "nope"])
    with pytest.raises(HoodieIndexException, match="no record_index to validate: it has the partitions .*files"):
        validate(str(table), "record_index")
    with pytest.raises(HoodieIndexException, match="no files to validate: it is not there"):
        validate(str(later_tables / "v9_cow/v9_cow"), "files")


def test_a_table_without_a_metadata_table_has_no_differences(later_tables: Path) -> None:
    result = validate(str(later_tables / "v9_cow/v9_cow"))
    assert result.is_right
    assert "0 differences" in repr(result)
    assert "which has no partitions" in repr(result)


# --- lies -------------------------------------------------------------------------------------------------------------


def changed_files(change: Any) -> Change:
    """Changes the file names and infos of each partition's record."""

    def apply(key: str, row: Row) -> list[Entry]:
        files = dict(row["files"] or [])
        change(key, files)
        return [(key, {**row, "files": list(files.items())})]

    return apply


def other_size(key: str, files: dict[str, Row]) -> None:
    for name in files:
        if key == "p0" and name.endswith(".parquet"):
            files[name] = {**files[name], "size_bytes": files[name]["size_bytes"] + 1}


def no_base_files(key: str, files: dict[str, Row]) -> None:
    for name in list(files):
        if key == "p1" and name.endswith(".parquet"):
            del files[name]


def one_more_file(key: str, files: dict[str, Row]) -> None:
    if key == "p0":
        files["ghost-0_0-0-0_20200101000000000.parquet"] = {"size_bytes": 7, "is_deleted": False}


def one_more_partition(key: str, files: dict[str, Row]) -> None:
    if key == "__all_partitions__":
        files["ghost"] = {"size_bytes": 0, "is_deleted": False}


def no_partition(key: str, files: dict[str, Row]) -> None:
    if key == "__all_partitions__":
        files.pop("p1", None)


def with_value(end: str, **value: object) -> Change:
    """Changes an end of the ranges of the column ts."""

    def apply(key: str, row: Row) -> list[Entry]:
        if row["column_name"] == "ts" and row[end] is not None:
            row[end] = {**row[end], **value}
        return [(key, row)]

    return apply


def with_field(**fields: object) -> Change:
    return lambda key, row: [(key, {**row, **fields})]


def without(column: str) -> Change:
    """Leaves out the records of a column in the partition p0."""
    prefix = column_stats_prefix(column, "p0")
    return lambda key, row: [] if key.startswith(prefix) else [(key, row)]


def gone(key: str, row: Row) -> list[Entry]:
    return []


def with_other_key(key: str, row: Row) -> list[Entry]:
    return [(key, row), (f"{key}x", row)]


FILES, STATS, BLOOM = MetadataPayload.FILES, MetadataPayload.COLUMN_STATS, MetadataPayload.BLOOM_FILTER
PARTITIONS, FILTERS = "partition_stats", "bloom_filters"
KEYS, SECONDARY = MetadataPayload.RECORD_INDEX, MetadataPayload.SECONDARY_INDEX
# fmt: off
LIES = {
    "the size of files": ("files", FILES, changed_files(other_size), "different", "p0/", ".parquet"),
    "files left out": ("files", FILES, changed_files(no_base_files), "missing", "p1/", ".parquet"),
    "a file too many": ("files", FILES, changed_files(one_more_file), "unexpected", "p0/ghost-0", ".parquet"),
    "a partition too many": ("files", FILES, changed_files(one_more_partition), "unexpected", "partition 'g", "'"),
    "a partition left out": ("files", FILES, changed_files(no_partition), "missing", "partition 'p1", "'"),
    "a lower end": ("column_stats", STATS, with_value("min_value", integer=-5), "different", "p", " ts"),
    "an upper end": ("column_stats", STATS, with_value("max_value", integer=1 << 40), "different", "p", " ts"),
    "no range": ("column_stats", STATS, with_field(min_value=None, max_value=None), "different", "p", ""),
    "the rows": ("column_stats", STATS, with_field(value_count=1), "different", "p", ""),
    "the nulls": ("column_stats", STATS, with_field(null_count=1), "different", "p", ""),
    "statistics left out": ("column_stats", STATS, without("ts"), "missing", "p", " ts"),
}
LATER_LIES = {
    "a partition's lower end": (
        "partition_stats",
        STATS,
        with_value("min_value", integer=1 << 40),
        "different",
        "p",
        " ts",
    ),
    "a partition's upper end": ("partition_stats", STATS, with_value("max_value", integer=0), "different", "p", " ts"),
    "a partition's rows": ("partition_stats", STATS, with_field(value_count=1), "different", "p", ""),
    "a partition's nulls": (
        "partition_stats",
        STATS,
        with_field(value_count=10**6, null_count=10**6),
        "different",
        "p",
        "",
    ),
    "no statistics of a partition": ("partition_stats", STATS, without("ts"), "missing", "p", " ts"),
}
OTHER_LIES = {
    ("metadata_6", "a filter"): (
        "bloom_filters",
        BLOOM,
        with_field(bloom_filter=b"AAAA"),
        "different",
        "p",
        ".parquet",
    ),
    ("metadata_6", "the type of a filter"): (
        "bloom_filters",
        BLOOM,
        with_field(bloom_type="SIMPLE"),
        "different",
        "p",
        "",
    ),
    ("metadata_6", "no filters"): (FILTERS, BLOOM, gone, "missing", "p", ".parquet"),
    ("v9_mor_mdt", "a file group"): ("record_index", KEYS, with_field(file_id="f-0"), "different", "k", ""),
    ("v9_mor_mdt", "a partition"): ("record_index", KEYS, with_field(partition_path="p9"), "different", "k", ""),
    ("v9_mor_mdt", "no keys"): ("record_index", KEYS, gone, "missing", "k", ""),
    ("v9_mor_mdt", "more keys"): ("record_index", KEYS, with_other_key, "unexpected", "k", "x"),
    ("v9_cow_rli_part", "a file group"): ("record_index", KEYS, with_field(file_id="f-0"), "different", "k", ""),
    ("v9_cow_rli_part", "a partition"): ("record_index", KEYS, with_field(partition_path="p9"), "misplaced", "k", ""),
    ("v9_cow_rli_part", "no keys"): ("record_index", KEYS, gone, "missing", "k", ""),
    ("v9_sql", "no entries"): ("secondary_index_idx_name", SECONDARY, gone, "missing", "", ""),
    ("v9_sql", "more entries"): ("secondary_index_idx_name", SECONDARY, with_other_key, "unexpected", "", "x"),
}
# fmt: on


def named(result: MetadataTableValidation, partition: str, kind: str) -> list[str]:
    return [one.name for one in result.differences if one.partition == partition and one.kind == kind]


def check_lie(table: Path, lie: tuple[str, MetadataPayload, Change, str, str, str]) -> None:
    partition, payload, change, kind, start, end = lie
    assert tamper(table, partition, payload, change) > 0
    result = validate(str(table))
    found = named(result, partition, kind)
    assert [name for name in found if name.startswith(start) and name.endswith(end)], result
    assert result.difference_counts[partition] >= len(found) > 0
    # Statistics of partitions are held against those of files.
    assert set(result.difference_counts) <= {partition, "partition_stats"}


@pytest.mark.parametrize("name", ["metadata_6", "v8_cow_mdt", "v9_cow_mdt"])
@pytest.mark.parametrize("lie", LIES)
def test_lies_are_named(later_tables: Path, tmp_path: Path, name: str, lie: str) -> None:
    check_lie(copied(later_tables / name / name, tmp_path), LIES[lie])


@pytest.mark.parametrize("name", ["v8_cow_mdt", "v9_mor_mdt"])
@pytest.mark.parametrize("lie", LATER_LIES)
def test_lies_about_partitions_are_named(later_tables: Path, tmp_path: Path, name: str, lie: str) -> None:
    check_lie(copied(later_tables / name / name, tmp_path), LATER_LIES[lie])


@pytest.mark.parametrize(("name", "lie"), OTHER_LIES)
def test_lies_of_filters_and_indexes_are_named(later_tables: Path, tmp_path: Path, name: str, lie: str) -> None:
    check_lie(copied(later_tables / name / name, tmp_path), OTHER_LIES[name, lie])


def narrowed(column: str, value: int) -> Change:
    """One value instead of the range of a column."""

    def apply(key: str, row: Row) -> list[Entry]:
        if row["column_name"] != column:
            return [(key, row)]
        ends = {name: {**row[name], "integer": value} for name in ("min_value", "max_value")}
        return [(key, {**row, **ends})]

    return apply


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("first", ["a base file", "log files alone"])
def test_a_range_of_a_partition_whose_values_nobody_knows_must_be_the_widest(
    tmp_path: Path, version: int, first: str
) -> None:
    path = init_table(
        tmp_path / "t",
        table_type="MERGE_ON_READ",
        table_version=version,
        payload_class="org.apache.hudi.common.model.PartialUpdateAvroPayload",
    )
    properties = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    if first == "log files alone":
        properties |= {
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "1",
            "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
            "hoodie.write.lock.provider": "InProcessLockProvider",
        }
    with local_client(path, properties) as client:
        client.upsert(rows(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
        client.upsert(rows(("a", "x", 50, 1.0)))
        client.delete([HoodieKey("b", "y")])
    assert validate(path).is_right
    assert tamper(Path(path), "partition_stats", STATS, narrowed("ts", 1)) > 0
    result = validate(path)
    # A base file and a delete are known.
    names = ["x ts"] if first == "a base file" else ["x ts", "y ts"]
    assert named(result, "partition_stats", "different") == names
    assert result.difference_counts == {"partition_stats": len(names)}
    (one, *_) = result.differences
    assert one.expected.startswith(f"long {-(1 << 63)} to long {(1 << 63) - 1}, ")
    assert one.found.startswith("long 1 to long 1, ")
    # Readers would miss a row.
    assert not hoodie.read_table(path, filters=[("ts", "=", 50)]).num_rows


@pytest.mark.parametrize("version", [8, 9])
def test_files_without_statistics_are_read(tmp_path: Path, version: int) -> None:
    path = init_table(tmp_path / "t", table_type="MERGE_ON_READ", table_version=version)
    properties = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    with local_client(path, properties) as client:
        client.upsert(rows(("a", "x", 1)))
        client.upsert(rows(("a", "x", 50)))
    tamper(Path(path), "column_stats", STATS, lambda key, row: [] if ".log." in row["file_name"] else [(key, row)])
    assert validate(path).is_right
    tamper(Path(path), "partition_stats", STATS, narrowed("ts", 1))
    (one,) = validate(path).differences
    assert (one.partition, one.kind, one.name) == ("partition_stats", "different", "x ts")
    assert one.expected.startswith("long 1 to long 50, ")


def test_tables_that_are_written_again_as_they_are_stay_right(later_tables: Path, tmp_path: Path) -> None:
    for name in ("metadata_6", "v9_mor_mdt"):
        table = copied(later_tables / name / name, tmp_path)
        for partition, payload in (("files", FILES), ("column_stats", STATS)):
            assert tamper(table, partition, payload, lambda key, row: [(key, row)]) == 0
        assert validate(str(table)).is_right


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_what_a_clean_that_died_has_deleted_is_no_difference(
    tmp_path: Path, table_version: int, faulty_storage: None
) -> None:
    given = {"hoodie.metadata.enable": True, "hoodie.cleaner.commits.retained": 1, **SMALL_FILTERS}
    before, path = tmp_path / "before", tmp_path / "t"
    init_table(before)
    with local_client(before, {"hoodie.clean.automatic": "false", **given}) as client:
        for ts in range(3):
            client.upsert(rows(("a", "x", ts), *([("b", "y", ts)] if ts == 0 else [])))
        client.delete_partitions(["y"])
        client.upsert(rows(("a", "x", 9)))
    deaths = 0
    # Before that, nothing is deleted.
    for number in itertools.count(18, 2):
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(before, path)
        faults = Faults(number, "after")
        run_with_faults(faults, local_client(path, given).clean)
        if not faults.fired:
            break
        left, stored = (len(list(folder.glob("[xy]/*.parquet"))) for folder in (path, before))
        deaths += left < stored
        result = validate(str(path))
        assert result.is_right, (number, result)
    assert deaths > 5


def test_keys_in_other_file_groups_are_named(later_tables: Path, tmp_path: Path) -> None:
    table = copied(later_tables / "v9_mor_mdt/v9_mor_mdt", tmp_path)
    folder = table / ".hoodie/metadata/record_index"
    for path in list(folder.glob(".record-index-0001-0_*")):
        path.rename(folder / path.name.replace("0001", "xxxx"))
    for path in list(folder.glob(".record-index-0002-0_*")):
        path.rename(folder / path.name.replace("0002", "0001"))
    for path in list(folder.glob(".record-index-xxxx-0_*")):
        path.rename(folder / path.name.replace("xxxx", "0002"))
    result = validate(str(table))
    (one, *_) = [one for one in result.differences if one.kind is MetadataDifferenceKind.MISPLACED]
    assert {one.expected, one.found} == {"record-index-0001-0", "record-index-0002-0"}
    assert result.difference_counts == {"record_index": len(result.differences)}


def test_what_cannot_be_read_is_named(later_tables: Path, tmp_path: Path) -> None:
    table = copied(later_tables / "v9_cow_mdt/v9_cow_mdt", tmp_path)
    for path in (table / ".hoodie/metadata/partition_stats").glob(".partition*"):
        path.unlink()
    result = validate(str(table))
    (one,) = result.differences
    assert (one.partition, one.kind) == ("partition_stats", MetadataDifferenceKind.UNREADABLE)
    assert "has no file groups" in one.found
    (table / ".hoodie/metadata").rename(tmp_path / "away")
    result = validate(str(table))
    assert {one.partition for one in result.differences} == {"files", "column_stats", "partition_stats"}
    assert all("List the file system instead" in one.found for one in result.differences)


def test_a_data_file_that_is_gone_or_damaged_is_named(later_tables: Path, tmp_path: Path) -> None:
    table = copied(later_tables / "metadata_6/metadata_6", tmp_path)
    first, second = sorted((table / "p0").glob("*.parquet"))[:2]
    first.write_bytes(first.read_bytes()[:-10] + b"0123456789")
    second.unlink()
    result = validate(str(table))
    assert named(result, "column_stats", "unreadable") == [f"p0/{first.name}"]
    assert named(result, "bloom_filters", "unreadable") == [f"p0/{first.name}"]
    assert named(result, "files", "unexpected") == [f"p0/{second.name}"]


@pytest.mark.parametrize(
    ("version", "level"),
    [(6, "global.record.level"), (8, "global.record.level"), (9, "global.record.level"), (9, "record.level")],
)
def test_a_table_that_was_never_written_is_right(tmp_path: Path, version: int, level: str) -> None:
    path = init_table(tmp_path / "t", table_version=version)
    properties = {"hoodie.metadata.enable": "true", f"hoodie.metadata.{level}.index.enable": "true"}
    properties["hoodie.metadata.index.column.stats.enable"] = "true"
    with local_client(path, properties) as client:
        client.rollback(client.start_commit())
    result = validate(path)
    assert result.is_right, result
    assert result.not_validated == {}
    assert {"files", "record_index", "column_stats"} <= set(result.entry_counts)


def test_a_secondary_index_of_an_empty_table_is_judged(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", table_version=9, schema=SCHEMA)
    with local_client(path, {"hoodie.metadata.enable": "true"}) as client:
        client.create_index("idx_region", "region")
    result = validate(path)
    assert result.is_right, result
    assert {"record_index", "secondary_index_idx_region"} <= set(result.entry_counts)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_an_index_whose_keys_cannot_be_read_is_named(tmp_path: Path, version: int) -> None:
    path = init_table(tmp_path / "t", table_version=version)
    properties = {"hoodie.metadata.enable": "true", "hoodie.metadata.global.record.level.index.enable": "true"}
    with local_client(path, properties) as client:
        client.upsert(rows(("a", "x", 1)))
    (file,) = Path(path).glob("x/*.parquet")
    file.write_bytes(file.read_bytes()[:-10] + b"0123456789")
    result = validate(path)
    (one,) = [one for one in result.differences if one.partition == "record_index"]
    assert one.kind is MetadataDifferenceKind.UNREADABLE
    assert file.name in one.found


# --- descriptions -----------------------------------------------------------------------------------------------------


def test_a_metadata_table_is_described(later_tables: Path) -> None:
    table = str(later_tables / "v9_sql/v9_sql")
    found = describe(table)
    assert [one.partition for one in found.statements] == [
        "column_stats", "expr_index_idx_ts", "files", "partition_stats", "secondary_index_idx_name",
    ]  # fmt: skip
    assert "version 9, newest instant 2026" in repr(found)
    assert "pending: 20261122072334024, 20261122072351319" in found.headline
    assert "10 file groups with 10 base files, 10 log files" in found.statements[-1].statement
    assert found.statements[-1].statement.endswith("of name")
    with pytest.raises(HoodieIndexException, match="has no record index"):
        describe(table, key="k00010")
    with pytest.raises(HoodieConfigException, match="one of file, partition and key"):
        describe(table, key="k00010", partition="p=p0")
    with pytest.raises(TableNotFoundException, match="has no metadata table"):
        describe(str(later_tables / "v9_cow/v9_cow"))


def test_files_partitions_and_keys_are_described(later_tables: Path) -> None:
    table = later_tables / "v9_mor_mdt/v9_mor_mdt"
    of_partition = describe(str(table), partition="p0")
    assert of_partition.statements[0].statement.startswith("3 files, ")
    file = of_partition.statements[-9].name
    size = (table / "p0" / file).stat().st_size
    for name in (file, f"p0/{file}"):
        of_file = describe(str(table), file=name)
        assert (of_file.statements[0].name, of_file.statements[0].statement) == (f"p0/{file}", f"{size} bytes")
        (ts,) = [one for one in of_file.statements if one.name == "ts"]
        assert ts.partition == "column_stats"
        assert ts.statement.startswith("long 100 to long 200, ")
    assert describe(str(table), file="p0/none.parquet").statements[0].statement == "not listed"
    assert describe(str(table), partition="none").statements[0].statement == "not listed"
    (of_key,) = describe(str(table), key="k00010").statements
    assert of_key.statement.startswith("p0/")
    (of_key,) = describe(str(table), key="none").statements
    assert of_key.statement == "not in the table"
    of_file = describe(str(later_tables / "metadata_6/metadata_6"), file=next(
        path.name for path in (later_tables / "metadata_6/metadata_6/p1").glob("*.parquet")
    ))  # fmt: skip
    assert of_file.statements[-1].statement == "a dynamic filter"
