"""Load and store the rings of consistent hashing, and choose the one that is valid.

::

    .hoodie/.bucket_index/consistent_hashing_metadata/<partition path>/<instant>.hashing_meta   a ring
    .hoodie/.bucket_index/consistent_hashing_metadata/<partition path>/<instant>.commit         marks it as valid

Clustering makes a new ring, which is valid once the instant of the clustering is completed. hoodie's own writes store
no ring: they write COPY_ON_WRITE tables, for which Hudi refuses consistent hashing.

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

_COMMIT_SUFFIX = ".commit"
_FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"


def hashing_metadata_folder(base_path: str, partition_path: str) -> str:
    """The folder of the rings of a partition."""
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
    """The newest valid ring; None if the partition has none.

    Args:
        storage: The table's storage.
        base_path: The table's folder.
        partition_path: The partition.
        completed_instants: Times of the completed commits and replace commits of the active timeline.
        pending_instants: Times of the pending ones.
        file_ids: The latest file groups of the partition. A ring whose instant was archived is valid if one of them
            belongs to it.

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
    """Store a ring; False if there is already a ring of its instant.

    Args:
        storage: The table's storage.
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
    """The newest valid ring; if the partition has none, a new one. Writers that race create the same ring.

    Args:
        storage: See `load_metadata`.
        base_path: See `load_metadata`.
        partition_path: See `load_metadata`.
        num_buckets: The number of nodes of a new ring.
        completed_instants: See `load_metadata`.
        pending_instants: See `load_metadata`.
        file_ids: See `load_metadata`.

    Raises:
        HoodieIndexException: The ring can be neither read nor created.
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
