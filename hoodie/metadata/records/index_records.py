"""Entries of the record index, and of secondary indexes.

Hudi: HoodieMetadataPayload.{createRecordIndexUpdate, createRecordIndexDelete, createSecondaryIndexRecord}.
"""

from __future__ import annotations

import pyarrow as pa

from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType, MetadataRecordType
from hoodie.metadata.records.metadata_records import MetadataPayload

_RECORD_INDEX_PATH = MetadataPartitionType.RECORD_INDEX.partition_path


def record_index_entries(
    record_keys: pa.Array,
    partition_paths: pa.Array,
    file_ids: pa.Array,
    instant_millis: pa.Array,
    places: pa.Array | None = None,
) -> MetadataEntries:
    """The entries of keys with their locations.

    Args:
        record_keys: Record keys (string), each once.
        partition_paths: The partition of each location (string or dictionary of it); "" in a table without partitions.
        file_ids: The file group of each location (string or dictionary of it).
        instant_millis: The instants of the files that hold the keys, see
            `hoodie.metadata.records.record_index_location.instant_millis` (int64).
        places: The number of each key's location (an integer); None if each key has one of its own, in their order.
    """
    columns = [_plain(partition_paths), _plain(file_ids), instant_millis]
    if places is not None and len(file_ids) > len(record_keys):
        columns, places = [column.take(places) for column in columns], None
    count = len(columns[0])
    types = pa.repeat(pa.scalar(int(MetadataRecordType.RECORD_INDEX), pa.int32()), count)
    rows = pa.RecordBatch.from_arrays(
        [types, *columns, pa.nulls(count, pa.int64())], schema=MetadataPayload.RECORD_INDEX.schema
    )
    return MetadataEntries(_RECORD_INDEX_PATH, MetadataPayload.RECORD_INDEX, record_keys, rows, row_numbers=places)


def deleted_record_index_entries(record_keys: pa.Array) -> MetadataEntries:
    """The deletes of keys (string, each once) that the table does not hold any more."""
    return MetadataEntries.deletes(_RECORD_INDEX_PATH, MetadataPayload.RECORD_INDEX, record_keys)


def secondary_index_entries(partition_path: str, keys: pa.Array) -> MetadataEntries:
    """The entries of a secondary index with the given keys.

    Args:
        partition_path: The partition of the metadata table, such as ``secondary_index_idx_name``.
        keys: Keys of `hoodie.metadata.records.metadata_keys.secondary_index_keys`, each once.
    """
    count = len(keys)
    types = pa.repeat(pa.scalar(int(MetadataRecordType.SECONDARY_INDEX), pa.int32()), count)
    rows = pa.RecordBatch.from_arrays([types, pa.repeat(False, count)], schema=MetadataPayload.SECONDARY_INDEX.schema)
    return MetadataEntries(partition_path, MetadataPayload.SECONDARY_INDEX, keys, rows)


def _plain(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
