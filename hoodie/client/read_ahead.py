"""Read side by side, on object stores, what the steps of a write are going to read one after the other.

What is read here is kept by the snapshot: commits by their paths, and the metadata table as it is then. A failed call
is left to the step that needs the file, which makes it again and tells of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieException
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.storage.side_by_side import side_by_side


def read_before_instant(snapshot: TableSnapshot) -> None:
    """Read the newest commit, and open the metadata table.

    Args:
        snapshot: The table, just loaded.
    """
    if _has_metadata_table(snapshot):
        side_by_side(
            snapshot.storage,
            lambda: _read_newest_commit(snapshot),
            _quietly(lambda: MetadataTableFiles.opened(snapshot)),
        )


def read_properties_and_metadata_table(snapshot: TableSnapshot) -> TableSnapshot:
    """Read the properties again; beside them the listing of the metadata table, and its newest commit.

    Args:
        snapshot: The table, as it was listed when the write began.

    Returns:
        The table with the properties as they are now.

    Raises:
        InvalidTableException: The properties are damaged.
        HoodieIOException: The properties could not be read.
    """
    if not _has_metadata_table(snapshot) or not snapshot.metadata_table:
        return snapshot.with_properties_reloaded()
    files = MetadataTableFiles.opened(snapshot)
    now, _, _ = side_by_side(
        snapshot.storage,
        snapshot.with_properties_reloaded,
        _quietly(lambda: files.file_groups(MetadataPartitionType.FILES.partition_path)),
        lambda: _read_newest_commit(files.snapshot),
    )
    return now


def _has_metadata_table(snapshot: TableSnapshot) -> bool:
    return snapshot.storage.is_remote and bool(snapshot.table_config.metadata_partitions)


def _read_newest_commit(snapshot: TableSnapshot) -> None:
    timeline = snapshot.active_timeline
    last = timeline.completed_writes().last_instant
    if last is not None and timeline.layout.has_completion_times:
        _quietly(lambda: timeline.read_commit_metadata(last))()


def _quietly(call: Callable[[], object]) -> Callable[[], None]:
    def made() -> None:
        with suppress(HoodieException):
            call()

    return made
