"""Records with the bloom filters of base files.

Hudi: HoodieTableMetadataUtil.convertMetadataToBloomFilterRecords.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa

from hoodie.common.bloom.bloom_filter import SimpleBloomFilter
from hoodie.io.parquet.parquet_footer import Footer
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_keys import bloom_filter_keys
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType, MetadataRecordType
from hoodie.metadata.records.metadata_records import MetadataPayload

_LATER_VERSION = 8
_PAYLOAD = MetadataPayload.BLOOM_FILTER
_PATH = MetadataPartitionType.BLOOM_FILTERS.partition_path


@attrs.frozen(eq=False)
class FileBloomFilter:
    """The footer of one base file.

    Attributes:
        partition_path: Its partition; "" in a table without partitions.
        file_name: Its name.
        footer: Its footer.
    """

    partition_path: str
    file_name: str
    footer: Footer


def bloom_filter_entries(files: Sequence[FileBloomFilter], instant_time: str) -> MetadataEntries:
    """The records of base files. A file without a filter gets no record, and readers do not skip it.

    Args:
        files: The files, each once.
        instant_time: The action that wrote them; for a new metadata table, the last completed instant of the table.
    """
    stored = [file for file in files if file.footer.bloom_filter_text is not None]
    texts = [file.footer.bloom_filter_text or "" for file in stored]
    types = [file.footer.bloom_filter_type or SimpleBloomFilter.type_code for file in stored]
    places = [(file.partition_path, file.file_name) for file in stored]
    return filter_entries(places, types, instant_time, [text.encode() for text in texts])


def deleted_bloom_filter_entries(
    files: Sequence[tuple[str, str]], instant_time: str, table_version: int
) -> MetadataEntries:
    """The records that remove the filters of deleted base files.

    Args:
        files: Partition path and name of each file, each once.
        instant_time: The action that deleted them.
        table_version: 6, 8 or 9: version 6 marks deletes in records, later versions have delete blocks.
    """
    entries = filter_entries(files, [""] * len(files), instant_time, [b""] * len(files), is_deleted=True)
    if table_version >= _LATER_VERSION:
        return MetadataEntries.deletes(_PATH, _PAYLOAD, entries.keys)
    return entries


def filter_entries(
    places: Sequence[tuple[str, str]],
    types: Sequence[str],
    instant_time: str,
    filters: Sequence[bytes],
    *,
    is_deleted: bool = False,
) -> MetadataEntries:
    """The records of filters.

    Args:
        places: Partition path and name of the file of each filter, each once.
        types: The type of each filter, such as ``SIMPLE``.
        instant_time: The action that wrote the files.
        filters: The text of each filter, as UTF-8.
        is_deleted: Whether the records mark deletes.
    """
    count = len(places)
    paths = pa.array([path for path, _ in places], pa.string())
    names = pa.array([name for _, name in places], pa.string())
    columns = [
        pa.repeat(pa.scalar(int(MetadataRecordType.BLOOM_FILTERS), pa.int32()), count),
        pa.array(types, pa.string()),
        pa.repeat(instant_time, count),
        pa.array(filters, pa.binary()),
        pa.repeat(is_deleted, count),
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=_PAYLOAD.schema)
    return MetadataEntries(_PATH, _PAYLOAD, bloom_filter_keys(paths, names), rows)
