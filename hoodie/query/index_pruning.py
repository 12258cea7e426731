"""Which file slices hold some record keys, as the record index of the metadata table tells.

The record index knows where each record is now. So it is asked for the newest slices with their log files only: at an
earlier time a record was elsewhere, or had not been deleted, and base files alone may hold what log files delete.

Hudi: org.apache.hudi.RecordLevelIndexSupport. Differs: asks for record keys only, not for the values of a key field:
writers can give records keys of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.metadata.reader.metadata_listing import metadata_of
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType

_RECORD_INDEX = MetadataPartitionType.RECORD_INDEX.partition_path


def slices_by_record_index(
    snapshot: TableSnapshot, slices: Sequence[FileSlice], record_keys: pa.Array
) -> npt.NDArray[np.bool_] | None:
    """Which of the newest slices hold record keys.

    Args:
        snapshot: The table.
        slices: Its newest slices.
        record_keys: The keys (string).

    Returns:
        A flag for each slice; None if there is no record index, or it names a file group that is not in its partition.
    """
    listing = metadata_of(snapshot)
    if listing is None or _RECORD_INDEX not in snapshot.table_config.metadata_partitions or not slices:
        return None
    found = listing.ask(lambda metadata: metadata.read_record_index(record_keys))
    if found is None:
        return None
    places = set(zip(found.column("partition_path").to_pylist(), found.column("file_id").to_pylist(), strict=True))
    flags = np.array([(part.partition_path, part.file_id) in places for part in slices], np.bool_)
    partitions = {part.partition_path for part in slices}
    named = sum(path in partitions for path, _ in places)
    return flags if named == int(flags.sum()) else None
