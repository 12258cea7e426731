"""Bloom filters, and entries of record indexes and secondary indexes."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.io.parquet.parquet_footer import parse_footer
from hoodie.metadata.records.bloom_filter_records import (
    FileBloomFilter,
    bloom_filter_entries,
    deleted_bloom_filter_entries,
)
from hoodie.metadata.records.index_records import (
    deleted_record_index_entries,
    record_index_entries,
    secondary_index_entries,
)
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_keys import file_groups_of_keys, secondary_index_keys, split_secondary_index_keys
from hoodie.metadata.records.metadata_partition_type import file_group_number
from hoodie.metadata.records.metadata_record_schema import metadata_record_schema, with_meta_columns
from hoodie.metadata.records.metadata_records import MetadataPayload, decode_values
from tests.support.metadata_table_files import StoredRecords

FILE_ID = f"{uuid.UUID(int=5)}-0"


def test_bloom_filters_of_real_tables_are_those_of_the_footers(real_records: list[StoredRecords]) -> None:
    count = 0
    for records in real_records:
        if records.partition != "bloom_filters":
            continue
        rows = decode_values(records.values, records.schema, MetadataPayload.BLOOM_FILTER)
        files = [bloom_filter_of(records.table, path) for path in records.table.glob("*/*.parquet")]
        expected = dict(zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True))
        for timestamp in set(rows.column("timestamp").to_pylist()):
            keys, values = bloom_filter_entries(files, timestamp).encoded(records.schema)
            for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
                count += expected.get(key) == value
    assert count == 9


def bloom_filter_of(table: Path, path: Path) -> FileBloomFilter:
    footer = parse_footer(str(path), pq.read_metadata(path).metadata)
    return FileBloomFilter(path.parent.relative_to(table).as_posix(), path.name, footer)


def test_a_file_without_a_filter_has_no_record() -> None:
    plain = FileBloomFilter("p", "f.parquet", parse_footer("f", {}))
    simple = FileBloomFilter("p", "g.parquet", parse_footer("g", {b"org.apache.hudi.bloomfilter": b"AAAA"}))
    entries = bloom_filter_entries([plain, simple], "20260101000000000")
    row = {
        "type": 4,
        "bloom_type": "SIMPLE",
        "timestamp": "20260101000000000",
        "bloom_filter": b"AAAA",
        "is_deleted": False,
    }
    assert entries.rows.to_pylist() == [row]
    deleted = deleted_bloom_filter_entries([("p", "g.parquet")], "20260102000000000", 6)
    assert deleted.keys == entries.keys
    assert deleted.rows.to_pylist() == [
        {"type": 4, "bloom_type": "", "timestamp": "20260102000000000", "bloom_filter": b"", "is_deleted": True}
    ]
    assert deleted_bloom_filter_entries([("p", "g.parquet")], "20260102000000000", 8).deleted_keys == entries.keys


def test_entries_go_to_their_file_groups_in_order() -> None:
    keys = pa.array([f"k{number}" for number in range(100)])
    entries = record_index_entries(
        keys, pa.array(["p"] * 100).dictionary_encode(), pa.array([FILE_ID] * 100), pa.array(range(100))
    )
    both = MetadataEntries.joined([entries, deleted_record_index_entries(pa.array(["gone", "k100"]))])
    groups = both.by_file_group(10)
    assert sum(len(group.keys) for group in groups.values()) == 100
    schema = with_meta_columns(metadata_record_schema(9))
    for number, group in groups.items():
        found, values = group.encoded(schema)
        assert found.to_pylist() == sorted(group.keys.to_pylist())
        assert set(file_groups_of_keys(pa.concat_arrays([found, group.deleted_keys]), 10).tolist()) == {number}
        rows = decode_values(values, schema, MetadataPayload.RECORD_INDEX).to_pylist()
        assert [f"k{row['instant_millis']}" for row in rows] == found.to_pylist()
        assert {(row["partition_path"], row["file_id"], row["position"]) for row in rows} == {("p", FILE_ID, None)}
    assert sorted(key for group in groups.values() for key in group.deleted_keys.to_pylist()) == ["gone", "k100"]
    assert both.by_file_group(1) == {0: both}
    assert MetadataEntries.none("files", MetadataPayload.FILES).by_file_group(1) == {}


def test_keys_that_share_locations_have_the_bytes_of_keys_with_locations_of_their_own() -> None:
    keys, places = pa.array([f"k{number * 7 % 100:02}" for number in range(100)]), pa.array([0, 1, 2, 1] * 25)
    paths, files, millis = pa.array(["p", "q", "p"]), pa.array([FILE_ID, f"other-{FILE_ID}", ""]), pa.array([1, 2, 3])
    schema = with_meta_columns(metadata_record_schema(9))
    shared = record_index_entries(keys, paths, files, millis, places)
    own = record_index_entries(keys, paths.take(places), files.take(places), millis.take(places))
    assert shared.rows.num_rows == 3
    assert shared.encoded(schema) == own.encoded(schema)
    assert shared.encoded(schema, "base.hfile") == own.encoded(schema, "base.hfile")
    groups = own.by_file_group(10)
    for number, group in shared.by_file_group(10).items():
        assert group.encoded(schema) == groups[number].encoded(schema)
    few = record_index_entries(keys[:2], paths, files, millis, pa.array([2, 0]))
    assert few.rows.column("instant_millis").to_pylist() == [3, 1]
    more = record_index_entries(pa.array(["a"]), paths[:1], files[:1], millis[:1])
    gone = deleted_record_index_entries(pa.array(["gone"]))
    for parts in ([shared, more, gone], [gone, more, shared], [gone, shared]):
        joined = MetadataEntries.joined(parts)
        assert joined.deleted_keys.to_pylist() == ["gone"]
        rows = {key: row for part in parts for key, row in _rows_by_key(part, schema).items()}
        assert _rows_by_key(joined, schema) == rows


def _rows_by_key(entries: MetadataEntries, schema: str) -> dict[str, Any]:
    found, values = entries.encoded(schema)
    return dict(zip(found.to_pylist(), values.to_pylist(), strict=True))


def test_entries_of_a_secondary_index_are_made_of_values_and_keys(real_records: list[StoredRecords]) -> None:
    some = [records for records in real_records if records.partition == "secondary_index_idx_name"]
    for records in some:
        values, keys = split_secondary_index_keys(records.keys)
        entries = secondary_index_entries(records.partition, secondary_index_keys(values, keys))
        assert entries.keys.equals(records.keys)
        assert entries.encoded(records.schema)[1].equals(records.values)
        # Version 9 puts all entries of a value into one file group.
        groups = file_groups_of_keys(entries.keys, 10, by_secondary_key=True)
        assert set(groups.tolist()) == {file_group_number(records.file_id)}
    assert sum(len(records.keys) for records in some) == 30
