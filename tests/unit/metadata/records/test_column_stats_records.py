"""Statistics of columns, as real Hudi recorded them of the same files."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.avro.columnar_block import decode_avro_block
from hoodie.common.model.column_range import HoodieColumnRange, ValueType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.io.log.log_block import HoodieLogBlockType
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.io.parquet.column_ranges import read_column_ranges
from hoodie.metadata.records.column_stats_records import (
    FileColumnRanges,
    column_ranges_of_rows,
    column_stats_entries,
    deleted_column_stats_entries,
    empty_column_ranges,
    indexed_columns,
    partition_stats_entries,
)
from hoodie.metadata.records.metadata_entries import MetadataEntries, encoded_together
from hoodie.metadata.records.metadata_keys import column_stats_keys
from hoodie.metadata.records.metadata_record_schema import WRAPPERS, metadata_record_schema, with_meta_columns
from hoodie.metadata.records.metadata_records import MetadataPayload, decode_values
from hoodie.metadata.records.record_merging import MergedRecords, merge_records
from tests.support.metadata_table_files import StoredRecords

IN_TABLES_OF_0_X = {"integer": 0, "floating": 0.0}
COMPACTED_AS = {
    WRAPPERS.index("DateWrapper"): WRAPPERS.index("IntWrapper"),
    WRAPPERS.index("DecimalWrapper"): WRAPPERS.index("BytesWrapper"),
}


def files_of(table: Path) -> dict[str, Path]:
    return {
        path.name: path
        for path in table.rglob("*")
        if path.is_file() and ".hoodie" not in path.relative_to(table).parts
    }


def ranges_in(path: Path, version: int) -> list[HoodieColumnRange]:
    """The ranges of a file, base file or log file."""
    if path.suffix == ".parquet":
        return read_column_ranges(pq.read_metadata(path))
    blocks = list(read_log_blocks(path.read_bytes(), str(path)))
    parts = [
        decode_avro_block(b.content, str(b.schema)) for b in blocks if b.block_type is HoodieLogBlockType.AVRO_DATA
    ]
    if not parts:
        return []
    rows = pa.Table.from_batches(parts)
    return column_ranges_of_rows(rows, rows.column_names, version)


def stats_version(records: StoredRecords, row: dict[str, Any]) -> int:
    """The version whose rules a record follows: tables that were upgraded keep records of the older one."""
    if row["value_type"] is not None:
        return 9
    return 8 if row["is_tight_bound"] is not None else 6


def as_stored(made: dict[str, Any], row: dict[str, Any], records: StoredRecords) -> dict[str, Any]:
    """A record with what Hudi 0.x does in another way."""
    made = dict(made)
    for name in ("min_value", "max_value"):
        mine, theirs = made[name], row[name]
        if mine is None and theirs is not None and made["null_count"] == made["value_count"]:
            # A column of nulls has the type's zero.
            stored = {key: value for key, value in theirs.items() if key in IN_TABLES_OF_0_X and value is not None}
            assert all(IN_TABLES_OF_0_X[key] == value for key, value in stored.items()), row
            assert len(stored) == 1
            assert records.table_version == 6
            made[name] = theirs
        elif mine is not None and theirs is not None and COMPACTED_AS.get(mine["branch"]) == theirs["branch"]:
            # Its compactions lose these two wrappers.
            assert records.instant_time is None
            made[name] = {**mine, "branch": theirs["branch"]}
    return made


@pytest.mark.one_in(4)
def test_statistics_of_real_tables_are_found_again_in_their_files(real_records: list[StoredRecords]) -> None:
    counts: dict[tuple[int, bool], int] = {}
    kinds = set()
    files: dict[Path, dict[str, Path]] = {}
    found: dict[tuple[Path, int], list[HoodieColumnRange]] = {}
    for records in real_records:
        if records.partition != "column_stats":
            continue
        paths = files.setdefault(records.table, files.get(records.table) or files_of(records.table))
        rows = decode_values(records.values, records.schema, MetadataPayload.COLUMN_STATS).to_pylist()
        for key, row in zip(records.keys.to_pylist(), rows, strict=True):
            path = paths.get(row["file_name"])
            if path is None or row["is_deleted"]:
                continue
            version = stats_version(records, row)
            if (path, version) not in found:
                found[path, version] = ranges_in(path, version)
            ranges = [one for one in found[path, version] if one.column_name == row["column_name"]]
            is_log = ".log." in path.name
            if is_log and not found[path, version]:
                ranges = empty_column_ranges([row["column_name"]])
            if not ranges:
                # 0.x records columns of lists, maps and structs of log files, without values.
                assert is_log
                assert row["min_value"] is None
                continue
            partition = path.parent.relative_to(records.table).as_posix()
            entries = column_stats_entries(
                [FileColumnRanges("" if partition == "." else partition, path.name, tuple(ranges))], version
            )
            assert entries.keys.to_pylist() == [key]
            made = as_stored(entries.rows.to_pylist()[0], row, records)
            assert made == row, (records.path, path)
            counts[version, is_log] = counts.get((version, is_log), 0) + 1
            kinds.add(row["min_value"] and row["min_value"]["branch"])
    assert min(counts.values()) > 20
    assert set(counts) == {(version, is_log) for version in (6, 8, 9) for is_log in (False, True)}
    assert kinds >= {None, 1, 2, 3, 4, 5, 6, 7, 8, 9}


def latest(records: list[StoredRecords], table: Path, partition: str) -> MergedRecords:
    """The newest statistics in a partition of a metadata table: base files, then log blocks by their instants."""
    some = [one for one in records if one.table == table and one.partition == partition]
    some.sort(key=lambda one: (one.instant_time is not None, one.instant_time or one.path.name))
    batches = [decode_values(one.values, one.schema, MetadataPayload.COLUMN_STATS) for one in some]
    rows = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    keys = pa.concat_arrays([one.keys for one in some])
    return merge_records(MetadataPayload.COLUMN_STATS, keys, rows, drop_tombstones=False)


@pytest.mark.parametrize("name", ["v8_cow_mdt", "v9_cow_mdt", "v9_mor_mdt", "v9_sql"])
def test_statistics_of_partitions_are_those_of_their_files(
    later_tables: Path, real_records: list[StoredRecords], name: str
) -> None:
    table = later_tables / name / name
    snapshot = TableSnapshot.load(str(table))
    view, places = snapshot.view(), {}
    for partition in view.list_partitions():
        for file_slice in view.latest_file_slices(partition):
            for file in filter(None, (file_slice.base_file, *file_slice.log_files)):
                places[file.path.rpartition("/")[2]] = partition
    columns = latest(real_records, table, "column_stats")
    names = columns.rows.column("file_name").to_pylist()
    chosen = [place for place, name in enumerate(names) if name in places]
    stats = columns.rows.take(pa.array(chosen))
    entries = partition_stats_entries(pa.array([places[names[place]] for place in chosen]), stats, is_tight=True)
    stored = latest(real_records, table, "partition_stats")
    expected = dict(zip(stored.keys.to_pylist(), stored.rows.to_pylist(), strict=True))
    assert dict(zip(entries.keys.to_pylist(), entries.rows.to_pylist(), strict=True)) == expected
    assert len(expected) >= 10


# --- without real tables ----------------------------------------------------------------------------------------------


def test_rows_of_a_log_file_have_ranges_as_java_orders_them() -> None:
    rows = pa.table(
        {
            "d": pa.array([0.0, -0.0, None]),
            "n": pa.array([1.5, math.nan, -2.0]),
            "f": pa.array([0.0, 0.0, 5.0], pa.float32()),
            "e": pa.array([-0.0, -0.0, -1.0]),
            "t": pa.array([datetime(1970, 1, 1, 0, 0, 1)] * 3, pa.timestamp("us", "UTC")),
            "s": pa.array(["é", "z", None]),
            "x": pa.array([b"ab", b"aa", None], pa.binary(2)),
            "c": pa.array([Decimal("-12345678901234567890123456789012345.678"), Decimal("0.001"), None]),
            "l": pa.array([[1], None, []]),
            "m": pa.nulls(3, pa.int64()),
            "b": pa.array([True, True, None]),
        }
    )
    found = {one.column_name: one for one in column_ranges_of_rows(rows, [*rows.column_names, "q"], 9, {"t"})}
    ends = {name: (str(one.min_value), str(one.max_value)) for name, one in found.items()}
    assert ends == {
        "d": ("-0.0", "0.0"), "n": ("-2.0", "nan"), "f": ("0.0", "5.0"), "t": ("1000", "1000"), "e": ("-1.0", "-0.0"),
        "s": ("b'z'", str("é".encode())), "x": ("b'aa'", "b'ab'"), "m": ("None", "None"), "b": ("1", "1"),
        "c": ("-12345678901234567890123456789012345678", "1"),
    }  # fmt: skip
    assert (found["t"].value_type, found["x"].value_type) == (ValueType.TIMESTAMP_MILLIS, ValueType.FIXED)
    assert (found["s"].value_count, found["s"].null_count, found["s"].total_size) == (3, 1, 0)
    assert "c" not in {one.column_name for one in column_ranges_of_rows(rows, rows.column_names, 8)}


def decimal_range(low: int, precision: int, scale: int) -> HoodieColumnRange:
    return HoodieColumnRange("c", ValueType.DECIMAL, low, low, 1, 0, precision=precision, scale=scale)


def test_decimals_have_15_digits_behind_the_point_before_version_9() -> None:
    for version, branch, unscaled, info in ((6, 9, -15 * 10**14, None), (8, 9, -15 * 10**14, None), (9, 6, -15, "3,1")):
        entries = column_stats_entries([FileColumnRanges("p", "f", (decimal_range(-15, 3, 1),))], version)
        row = entries.rows.to_pylist()[0]
        assert row["min_value"]["branch"] == branch
        assert int.from_bytes(row["min_value"]["binary"], "big", signed=True) == unscaled
        assert row["value_type_info"] == info


@pytest.mark.parametrize(("low", "precision", "scale"), [(10**15, 18, 0), (-(10**16), 18, 1), (1, 20, 16)])
def test_a_file_with_decimals_that_do_not_fit_has_no_statistics(
    low: int, precision: int, scale: int, caplog: pytest.LogCaptureFixture
) -> None:
    other = HoodieColumnRange("d", ValueType.INT, 1, 2, 1, 0)
    file = FileColumnRanges("p", "f.parquet", (other, decimal_range(low, precision, scale)))
    for version in (6, 8):
        assert column_stats_entries([file], version).is_empty
        assert "no statistics of p/f.parquet: column c" in caplog.text
    assert len(column_stats_entries([file], 9).keys) == 2
    fits = attrs_of(low, precision, scale)
    assert len(column_stats_entries([FileColumnRanges("p", "f", (fits,))], 6).keys) == 1


def attrs_of(low: int, precision: int, scale: int) -> HoodieColumnRange:
    """The largest decimal that fits, of a scale that does."""
    return decimal_range(10 ** (15 + min(scale, 15)) - 1, precision, min(scale, 15))


def test_statistics_of_deleted_files_are_removed_as_the_version_does_it() -> None:
    files = [("p", "f"), ("", "g")]
    keys = column_stats_keys(pa.array(["a", "b"] * 2), pa.array(["p", "p", "", ""]), pa.array(["f", "f", "g", "g"]))
    for version in (8, 9):
        entries = deleted_column_stats_entries(files, ["a", "b"], version)
        assert (entries.deleted_keys.equals(keys), len(entries.keys)) == (True, 0)
    entries = deleted_column_stats_entries(files, ["a", "b"], 6)
    assert (entries.keys.equals(keys), len(entries.deleted_keys)) == (True, 0)
    schema = with_meta_columns(metadata_record_schema(6))
    row = decode_values(entries.encoded(schema)[1], schema, MetadataPayload.COLUMN_STATS).to_pylist()[0]
    assert (row["is_deleted"], row["value_count"], row["total_size"], row["min_value"]) == (True, -1, -1, None)


def test_columns_to_index_are_those_of_the_version() -> None:
    meta = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path"]
    fields = [*((name, pa.string()) for name in meta), ("l", pa.list_(pa.int32())), ("z", pa.decimal128(38, 2))]
    schema = pa.schema([*fields, *((f"c{number}", pa.int32()) for number in range(40))])
    always = ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key"]
    own = [f"c{number}" for number in range(40)]
    assert indexed_columns(schema, 9) == [*always, "z", *own[:31]]
    assert indexed_columns(schema, 8) == [*always, *own[:32]]
    assert indexed_columns(schema, 6) == [*meta, *own]
    assert indexed_columns(schema, 9, ["c39", "l", "q", "c0"]) == [*always, "c39", "c0"]
    assert indexed_columns(pa.schema([("a", pa.int32())]), 9) == ["a"]


def test_entries_of_file_groups_that_are_encoded_together_have_the_values_of_single_ones() -> None:
    texts = HoodieColumnRange("name", ValueType.STRING, b"a", b"z", 3, 1)
    numbers = HoodieColumnRange("ts", ValueType.LONG, -5, 7_000_000_000, 2, 0)
    files = [FileColumnRanges("day=1", f"f{number}.parquet", (texts, numbers)) for number in range(5)]
    schema = with_meta_columns(metadata_record_schema(9))
    groups = list(column_stats_entries(files, 9).by_file_group(2).values())
    partitions = column_stats_entries(files[:1], 9)
    deletes = MetadataEntries.deletes("column_stats", MetadataPayload.COLUMN_STATS, pa.array(["k"]))
    single = [*groups, partitions, deletes]
    together = encoded_together(single, schema)
    assert [part.values is not None for part in together] == [True, True, True, False]
    for one, other in zip(single, together, strict=True):
        assert one.encoded(schema) == other.encoded(schema)
        assert one.deleted_keys.equals(other.deleted_keys)
    # Base files name themselves in each value.
    assert groups[0].encoded(schema, "x.hfile") == together[0].encoded(schema, "x.hfile") != groups[0].encoded(schema)
    assert MetadataEntries.joined(together).values is None
