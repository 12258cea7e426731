"""Set a metadata table aside: delete it, and list its partitions as those that the next write builds."""

from __future__ import annotations

import logging
from collections.abc import Collection

from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot, is_table
from hoodie.metadata.reader.metadata_table_files import metadata_folder

logger = logging.getLogger(__name__)


def is_metadata_table_gone(snapshot: TableSnapshot) -> bool:
    """Whether the properties list a metadata table that is not there: somebody deleted its folder.

    Args:
        snapshot: The table.
    """
    if not snapshot.table_config.metadata_partitions:
        return False
    return not snapshot.metadata_table and not is_table(snapshot.storage, metadata_folder(snapshot))


def set_aside_metadata_table(
    snapshot: TableSnapshot, *, is_usual: bool = False, beside: Collection[str] = (), why: str = ""
) -> TableSnapshot:
    """Delete the metadata table, and list its partitions as those that are being built.

    Args:
        snapshot: The table, under its lock.
        is_usual: Whether the user's request includes the deletion. If not, it is logged as a warning.
        beside: Partitions that are not listed, and that the next write does not build, since an indexing does.
        why: The end of the warning.

    Returns:
        The table without it; see `due_partitions`.
    """
    table_config = HoodieTableConfig.load(snapshot.storage, snapshot.base_path)
    partitions = table_config.listed_metadata_partitions
    if partitions:
        level = logging.INFO if is_usual else logging.WARNING
        logger.log(
            level, "the metadata table of %s (%s) is built anew%s", snapshot.base_path, ",".join(partitions), why
        )
        unlisted = [path for path in partitions if path not in beside]
        updates = table_config.with_metadata_partitions((), unlisted)
        table_config.update(snapshot.storage, snapshot.base_path, updates)
        snapshot.storage.delete_directory(metadata_folder(snapshot))
    return snapshot.with_properties_reloaded()
