"""Where the rings of consistent hashing are stored, and which of them counts.

::

    .hoodie/.bucket_index/consistent_hashing_metadata/<partition path>/<instant>.hashing_meta
    .hoodie/.bucket_index/consistent_hashing_metadata/<partition path>/<instant>.commit         it counts, surely

A ring that clustering made counts once its instant is completed. Nothing here is written by hoodie's own writes: they
are to COPY_ON_WRITE tables, for which Hudi refuses consistent hashing.

Hudi: org.apache.hudi.index.bucket.ConsistentBucketIndexUtils.
"""

from __future__ import annotations

from collections.abc import Collection

from hoodie.common.model.consistent_hashing_metadata import (
    FIRST_INSTANT,
    HASHING_METADATA_SUFFIX,
    HoodieConsistentHashingMetadata,
)
from hoodie.exception import HoodieIndexException
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join

__all__ = ["hashing_metadata_folder", "load_metadata", "load_or_create_metadata", "save_metadata"]

_COMMIT_SUFFIX = ".commit"
_FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"


def hashing_metadata_folder(base_path: str, partition_path: str) -> str:
    """The folder of a partition's rings."""
    folder = join(base_path, _FOLDER)
    return join(folder, partition_path) if partition_path else folder


def load_metadata(
    storage: HoodieStorage,
    base_path: str,
    partition_path: str,
    completed_instants: Collection[str],
    pending_instants: Collection[str] = (),
    file_ids: Collection[str] = (),
) -> HoodieConsistentHashingMetadata | None:
    """The ring that counts; None when the partition has none.

    Args:
        storage: The table's.
        base_path: The table's folder.
        partition_path: The partition.
        completed_instants: Times of the completed commits and replace commits of the active timeline.
        pending_instants: Times of those that are not.
        file_ids: Latest file groups of the partition: a ring whose instant was archived counts when one is of it.

    Raises:
        HoodieCorruptedDataException: A file is damaged.
    """
    folder = hashing_metadata_folder(base_path, partition_path)
    names = {status.path.rsplit("/", 1)[-1] for status in storage.list_directory(folder)}
    rings = sorted(
        name.removesuffix(HASHING_METADATA_SUFFIX) for name in names if name.endswith(HASHING_METADATA_SUFFIX)
    )
    marked = {name.removesuffix(_COMMIT_SUFFIX) for name in names if name.endswith(_COMMIT_SUFFIX)}
    prefixes = {file_id[:36] for file_id in file_ids}
    for instant_time in reversed(rings):
        path = join(folder, f"{instant_time}{HASHING_METADATA_SUFFIX}")
        metadata = HoodieConsistentHashingMetadata.from_json(storage.read(path), path)
        known = instant_time == FIRST_INSTANT or instant_time in marked or instant_time in completed_instants
        in_use = not prefixes.isdisjoint(node.file_id_prefix for node in metadata.nodes)
        if known or (in_use and instant_time not in pending_instants):
            return metadata
    return None


def save_metadata(storage: HoodieStorage, base_path: str, metadata: HoodieConsistentHashingMetadata) -> bool:
    """Store a ring; False when there is one of that instant already.

    Args:
        storage: The table's.
        base_path: The table's folder.
        metadata: The ring.
    """
    folder = hashing_metadata_folder(base_path, metadata.partition_path)
    storage.create_directory(folder)
    return storage.create_if_absent(join(folder, metadata.file_name), metadata.to_json())


def load_or_create_metadata(
    storage: HoodieStorage,
    base_path: str,
    partition_path: str,
    num_buckets: int,
    completed_instants: Collection[str],
    pending_instants: Collection[str] = (),
    file_ids: Collection[str] = (),
) -> HoodieConsistentHashingMetadata:
    """The ring that counts, made where the partition has none; writers that race make the same one.

    Args:
        storage: See `load_metadata`.
        base_path: See `load_metadata`.
        partition_path: See `load_metadata`.
        num_buckets: Nodes of a new ring.
        completed_instants: See `load_metadata`.
        pending_instants: See `load_metadata`.
        file_ids: See `load_metadata`.

    Raises:
        HoodieIndexException: It can be neither read nor made.
    """
    asked = (storage, base_path, partition_path, completed_instants, pending_instants, file_ids)
    found = load_metadata(*asked)
    if found is not None:
        return found
    made = HoodieConsistentHashingMetadata.initial(partition_path, num_buckets)
    if save_metadata(storage, base_path, made):
        return made
    found = load_metadata(*asked)
    if found is None:
        raise HoodieIndexException(
            f"the hashing metadata of partition '{partition_path}' in {base_path} vanished while it was being read; "
            "try again"
        )
    return found
