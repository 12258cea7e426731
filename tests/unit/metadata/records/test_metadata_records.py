"""Values of metadata tables, from Avro to columns and back."""

from __future__ import annotations

import json
import uuid

import numpy as np
import pyarrow as pa
import pytest

from hoodie.exception import HoodieCorruptedDataException, HoodieSchemaException
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.records.metadata_record_schema import metadata_record_schema, with_meta_columns
from hoodie.metadata.records.metadata_records import MetadataPayload, decode_values, encode_values
from hoodie.metadata.records.record_index_location import instant_millis, instant_time_of_millis
from tests.support.metadata_table_files import StoredRecords

SCHEMA_6, SCHEMA_9 = (with_meta_columns(metadata_record_schema(version)) for version in (6, 9))


def payload_of(records: StoredRecords) -> MetadataPayload:
    kind = MetadataPartitionType.of_path(records.partition)
    assert kind is not None
    return MetadataPayload.of(kind.record_types[-1])


def location(file_id: str, partition_path: str = "p", millis: int = 5) -> dict[str, object]:
    return {"type": 5, "partition_path": partition_path, "file_id": file_id, "instant_millis": millis, "position": None}


def rows_of(payload: MetadataPayload, *rows: dict[str, object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=payload.schema)


@pytest.mark.one_in(4)
def test_all_records_of_real_tables_are_read_and_written_again(real_records: list[StoredRecords]) -> None:
    payloads = set()
    compacted = 0
    for records in real_records:
        payload = payload_of(records)
        rows = decode_values(records.values, records.schema, payload, str(records.path))
        rows.validate(full=True)
        assert rows.schema == payload.schema
        # Compactions write the name of the file into each record.
        value = encode_values(rows, records.schema, payload)
        if not value.equals(records.values):
            value = encode_values(rows, records.schema, payload, records.path.name)
            compacted += 1
        assert value.equals(records.values), records.path
        payloads.add(payload)
    assert payloads == set(MetadataPayload)
    assert 20 < compacted < len(real_records) // 2


def test_values_of_a_slice_are_read(real_records: list[StoredRecords]) -> None:
    records = max(real_records, key=lambda found: len(found.keys))
    rows = decode_values(records.values, records.schema, payload_of(records))
    assert decode_values(records.values[3:7], records.schema, payload_of(records)).equals(rows.slice(3, 4))
    assert decode_values(records.values[:0], records.schema, payload_of(records)).num_rows == 0


def test_file_ids_are_stored_as_numbers_or_as_text() -> None:
    one = "7d4c0e1a-0b5c-4f6e-8d2a-ffee01234567"
    ids = [
        one,
        f"{one}-0",
        f"{one}-17",
        "bucket-5",
        one.upper(),
        f"{one}-007",
        "é-1",
        "00000012-0b5c-4f6e-8d2a-000000000000-0",
    ]
    rows = rows_of(MetadataPayload.RECORD_INDEX, *(location(file_id) for file_id in ids))
    values = encode_values(rows, SCHEMA_9, MetadataPayload.RECORD_INDEX)
    assert decode_values(values, SCHEMA_9, MetadataPayload.RECORD_INDEX).equals(rows)
    high = uuid.UUID(one).int >> 64
    stored = bytes(values[0].as_py())
    assert stored.startswith(b"\0" * 6 + b"\x0a" + b"\0\0\0\x02" + b"\x02\x02p" + b"\x02")
    number, shift = 0, 0
    for byte in stored[15:]:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    assert (number >> 1) ^ -(number & 1) == high


def test_many_equal_entries_take_the_same_bytes_as_single_ones() -> None:
    ids = [f"{uuid.UUID(int=number)}-{number % 3}" for number in range(40)]
    generator = np.random.default_rng(5)
    chosen = generator.integers(0, 40, 5000)
    rows = rows_of(
        MetadataPayload.RECORD_INDEX,
        *(location(ids[number], f"p{number % 7}", int(number) % 2) for number in chosen.tolist()),
    )
    values = encode_values(rows, SCHEMA_9, MetadataPayload.RECORD_INDEX)
    single = [
        encode_values(rows.slice(first, 500), SCHEMA_9, MetadataPayload.RECORD_INDEX) for first in range(0, 5000, 500)
    ]
    assert values.equals(pa.concat_arrays(single))
    assert decode_values(values, SCHEMA_9, MetadataPayload.RECORD_INDEX).equals(rows)


def test_instants_are_stored_as_milliseconds_in_the_zone_of_the_table() -> None:
    assert instant_millis("19700101000001002", "UTC") == 1002
    assert instant_time_of_millis(1002, "UTC") == "19700101000001002"
    assert instant_time_of_millis(instant_millis("20260704123456789", "LOCAL"), "LOCAL") == "20260704123456789"


def test_columns_that_a_writer_did_not_have_are_null() -> None:
    rows = rows_of(
        MetadataPayload.COLUMN_STATS,
        {"type": 3, "file_name": "f", "column_name": "c", "min_value": {"branch": 2, "integer": 4}, "value_count": 3,
         "is_deleted": False},
    )  # fmt: skip
    values = encode_values(rows, SCHEMA_6, MetadataPayload.COLUMN_STATS)
    assert decode_values(values, SCHEMA_6, MetadataPayload.COLUMN_STATS).equals(rows)
    again = decode_values(
        encode_values(rows, SCHEMA_9, MetadataPayload.COLUMN_STATS), SCHEMA_9, MetadataPayload.COLUMN_STATS
    )
    assert again.column("is_tight_bound").to_pylist() == [False]
    secondary = decode_values(values, SCHEMA_6, MetadataPayload.SECONDARY_INDEX)
    assert secondary.to_pylist() == [{"type": 3, "is_deleted": None}]


def test_branches_keep_their_meaning_with_another_order() -> None:
    schema = json.loads(SCHEMA_9)
    stats = next(field for field in schema["fields"] if field["name"] == "ColumnStatsMetadata")["type"][1]
    branches = next(field for field in stats["fields"] if field["name"] == "maxValue")["type"]
    branches[2], branches[7] = branches[7], branches[2]
    other = json.dumps(schema)
    rows = rows_of(
        MetadataPayload.COLUMN_STATS,
        {"type": 3, "file_name": "f", "column_name": "c", "min_value": {"branch": 2, "integer": 4},
         "max_value": {"branch": 7, "binary": b"x"}, "is_deleted": False, "is_tight_bound": False},
        {"type": 3, "file_name": "f", "column_name": "c", "min_value": None, "max_value": None, "is_deleted": True,
         "is_tight_bound": True},
    )  # fmt: skip
    values = encode_values(rows, other, MetadataPayload.COLUMN_STATS)
    assert values != encode_values(rows, SCHEMA_9, MetadataPayload.COLUMN_STATS)
    assert decode_values(values, other, MetadataPayload.COLUMN_STATS).equals(rows)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"value_type": 12}, "their schema has no field valueType"),
        ({"is_tight_bound": True}, "their schema has no field isTightBound"),
        ({"max_value": {"branch": 12, "integer": 3}}, "the schema has no LocalDateWrapper"),
    ],
)
def test_what_the_schema_of_version_6_has_no_field_for_is_refused(row: dict[str, object], message: str) -> None:
    rows = rows_of(MetadataPayload.COLUMN_STATS, {"type": 3, "is_deleted": False, **row})
    with pytest.raises(HoodieSchemaException, match=message):
        encode_values(rows, SCHEMA_6, MetadataPayload.COLUMN_STATS)


def test_rows_without_a_column_and_payloads_without_a_field_are_refused() -> None:
    rows = rows_of(MetadataPayload.SECONDARY_INDEX, {"type": 7, "is_deleted": False})
    with pytest.raises(HoodieSchemaException, match="with SecondaryIndexMetadata: the schema has no such field"):
        encode_values(rows, SCHEMA_6, MetadataPayload.SECONDARY_INDEX)
    with pytest.raises(HoodieSchemaException, match="their column 'is_deleted' is missing"):
        encode_values(rows.select(["type"]), SCHEMA_9, MetadataPayload.SECONDARY_INDEX)


def test_damaged_values_are_named() -> None:
    rows = rows_of(MetadataPayload.RECORD_INDEX, location("a"), location("b"))
    good = encode_values(rows, SCHEMA_9, MetadataPayload.RECORD_INDEX).to_pylist()
    with pytest.raises(HoodieCorruptedDataException, match=r"record 1 .* of f\.hfile"):
        decode_values(pa.array([good[0], good[1][:-3]]), SCHEMA_9, MetadataPayload.RECORD_INDEX, "f.hfile")
    with pytest.raises(HoodieCorruptedDataException, match=r"of f\.hfile: 1 values are null"):
        decode_values(pa.array([good[0], None]), SCHEMA_9, MetadataPayload.FILES, "f.hfile")
