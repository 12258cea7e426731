"""Kinds of partitions of a metadata table."""

from __future__ import annotations

import re

import pytest

from hoodie.exception import HoodieNotSupportedException
from hoodie.metadata.records.metadata_partition_type import (
    MetadataPartitionType,
    file_group_number,
    record_index_group_count,
    require_supported,
)
from hoodie.metadata.records.metadata_records import MetadataPayload, decode_values
from tests.support.metadata_table_files import StoredRecords


def test_file_ids_of_real_tables_are_made_again(real_records: list[StoredRecords]) -> None:
    partitions = set()
    for records in real_records:
        kind = require_supported(records.partition, records.table_version)
        of_partition = re.fullmatch(r"record-index-(p\d)-\d{4}-0", records.file_id)
        number = file_group_number(records.file_id)
        data_partition = of_partition[1] if of_partition else None
        assert kind.file_id(number, records.partition, data_partition) == records.file_id
        partitions.add((records.partition, data_partition is not None))
    assert partitions >= {("record_index", True), ("record_index", False), ("secondary_index_idx_name", False)}
    assert len(partitions) == 8


@pytest.mark.one_in(4)
def test_types_of_real_records_are_those_of_their_partition(real_records: list[StoredRecords]) -> None:
    for records in real_records:
        kind = require_supported(records.partition, records.table_version)
        rows = decode_values(records.values, records.schema, MetadataPayload.of(kind.record_types[0]))
        assert set(rows.column("type").to_pylist()) <= set(kind.record_types)


def test_a_file_id_escapes_what_separates_its_parts() -> None:
    file_id = MetadataPartitionType.RECORD_INDEX.file_id(3, data_partition="day=2026-01-02/h_1")
    assert file_id == "record-index-day%3D2026%2D01%2D02%2Fh%5F1-0003-0"
    assert file_group_number(file_id) == 3
    assert file_group_number("files-0000") == 0
    with pytest.raises(ValueError, match="no file id of a metadata table"):
        file_group_number("7d4c-0")


def test_a_named_partition_needs_its_path() -> None:
    kind = MetadataPartitionType.SECONDARY_INDEX
    assert kind.file_id(12, "secondary_index_a_b") == "secondary-index-a-b-0012-0"
    with pytest.raises(ValueError, match="no partition of the kind secondary_index_<name>"):
        kind.file_id(0)


@pytest.mark.parametrize(
    ("path", "version"),
    [("partition_stats", 6), ("secondary_index_x", 6), ("secondary_index_", 9), ("vectors", 9), ("files2", 9)],
)
def test_partitions_that_hoodie_does_not_know_are_refused(path: str, version: int) -> None:
    with pytest.raises(HoodieNotSupportedException, match=f"{path!r} of a metadata table of version {version}"):
        require_supported(path, version)


def test_a_record_index_has_room_to_grow() -> None:
    assert record_index_group_count(0) == 10
    # 2 entries for each row, 22,369,621 of 48 bytes in a gigabyte.
    assert record_index_group_count(1_000_000_000) == 89
    assert record_index_group_count(10**12) == 10_000
    assert record_index_group_count(10**12, 5, 5) == 5
    assert record_index_group_count(0, minimum=0, maximum=10) == 1
