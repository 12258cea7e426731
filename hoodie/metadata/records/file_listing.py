"""The files of a table in records of the partition ``files`` of its metadata table.

Hudi: HoodieMetadataPayload, the files of a partition.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.util.arrow_buffers import numbers_of, scalar_of
from hoodie.metadata.records.metadata_keys import ALL_PARTITIONS_KEY, NON_PARTITIONED
from hoodie.metadata.records.metadata_partition_type import MetadataRecordType
from hoodie.metadata.records.metadata_records import flat_files

FILE_LISTING = pa.schema(
    [
        pa.field("partition_path", pa.string()),
        pa.field("file_name", pa.string()),
        pa.field("size_bytes", pa.int64()),
        pa.field("is_deleted", pa.bool_()),
    ]
)
"""Files of partitions of a table, one row for each file; the partition is "" in a table without partitions."""


def listing_of(keys: pa.Array, rows: pa.RecordBatch) -> pa.Table:
    """The files in records of partitions, one row for each file.

    Args:
        keys: The keys of the records (string); the record that lists the partitions is passed over.
        rows: Rows of the schema of `MetadataPayload.FILES`.

    Returns:
        `FILE_LISTING`.
    """
    owners, names, infos = flat_files(rows.column("files"))
    owners = numbers_of(owners, pa.int64())
    all_partitions = numbers_of(np.array([MetadataRecordType.ALL_PARTITIONS], np.int32), pa.int32())[0]
    is_file = pc.not_equal(rows.column("type"), all_partitions).take(owners)
    paths = pc.if_else(pc.equal(keys, scalar_of(NON_PARTITIONED)), scalar_of(""), keys).take(owners)
    columns = [paths, names, infos.field("size_bytes"), infos.field("is_deleted")]
    return pa.Table.from_arrays(columns, schema=FILE_LISTING).filter(is_file)


def partitions_of(keys: pa.Array, rows: pa.RecordBatch) -> list[str]:
    """The partitions in the list of partitions, without deleted ones; see `listing_of`."""
    place = pc.index(keys, scalar_of(ALL_PARTITIONS_KEY)).as_py()
    if place < 0:
        return []
    _, names, infos = flat_files(rows.column("files").slice(place, 1))
    partitions = names.filter(pc.invert(infos.field("is_deleted"))).to_pylist()
    return ["" if name == NON_PARTITIONED else name for name in partitions]
