"""Refuse to write to tables whose buckets are found by consistent hashing.

Hudi keeps a ring of hash ranges for each partition below ``.hoodie/.bucket_index/consistent_hashing_metadata``, and
each range has a file group. Properties and commits of the table do not tell.

Hudi: org.apache.hudi.index.bucket.HoodieConsistentBucketIndex.
"""

from __future__ import annotations

from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieNotSupportedException
from hoodie.storage.storage_path import join

_FOLDER = ".bucket_index"
_RINGS = f"{_FOLDER}/consistent_hashing_metadata"


def refuse_consistent_hashing(snapshot: TableSnapshot) -> None:
    """Refuse to write where new keys would be in file groups in which Hudi does not look for them.

    Deletes are refused, too: while a resize is pending, Hudi stores each row a second time, in the file groups to come.
    Only merge-on-read tables have rings; storage is listed once for these.

    Args:
        snapshot: The table.

    Raises:
        HoodieNotSupportedException: The table has rings.
        HoodieIOException: Storage failed.
    """
    if snapshot.table_config.table_type is not HoodieTableType.MERGE_ON_READ:
        return
    folder = join(snapshot.meta_path, _RINGS)
    if snapshot.may_have(_FOLDER) and snapshot.storage.list_directory(folder):
        raise HoodieNotSupportedException(
            f"the table at {snapshot.base_path} has buckets with consistent hashing "
            f"(hoodie.index.bucket.engine=CONSISTENT_HASHING): {folder} has their rings, which hoodie does not keep. "
            "Write to it with Hudi, or copy its rows to a new table with hoodie.index.type=BUCKET (engine SIMPLE); "
            "reads and table services work; nothing was written"
        )
