"""Detect by markers, before a file is written, that another live writer rewrites the same file group.

Hudi: org.apache.hudi.table.marker.SimpleDirectMarkerBasedDetectionStrategy.
"""

from __future__ import annotations

from hoodie.common.table.marker.write_markers import TEMP_FOLDER_NAME
from hoodie.common.table.timeline.instant_time import is_instant_time
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_clock import is_older
from hoodie.storage.storage_path import join

__all__ = ["find_rival"]


def find_rival(
    storage: HoodieStorage,
    meta_path: str,
    instant_time: str,
    partition_path: str,
    file_id: str,
    heartbeat_tolerance_ms: int,
) -> str | None:
    """The instant of another live writer that announced a file of the same file group; None if there is none.

    This is not certain: two writers that look at the same time miss each other. The commit checks again, under the
    lock. Batched markers of Hudi's timeline server are ignored.

    Args:
        storage: The table's storage.
        meta_path: The table's ``.hoodie`` folder.
        instant_time: The caller's own instant.
        partition_path: The file group's partition.
        file_id: The file group's id.
        heartbeat_tolerance_ms: The age of a heartbeat above which its writer counts as dead.

    Raises:
        HoodieIOException: Storage failed.
    """
    folder = join(meta_path, TEMP_FOLDER_NAME)
    for entry in storage.list_directory(folder):
        if not entry.is_directory or entry.name == instant_time or not is_instant_time(entry.name):
            continue
        heartbeat = storage.file_status(join(meta_path, ".heartbeat", entry.name))
        if heartbeat is None or is_older(storage, heartbeat, heartbeat_tolerance_ms):
            continue
        markers = join(entry.path, partition_path) if partition_path else entry.path
        if any(marker.name.startswith(f"{file_id}_") for marker in storage.list_directory(markers)):
            return entry.name
    return None
