"""Switch a metadata table off: take it out of the properties of its table, and delete it.

Hudi: org.apache.hudi.metadata.HoodieTableMetadataUtil (deleteMetadataTable).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.exception import HoodieCommitException, TableNotFoundException
from hoodie.metadata.reader.metadata_table_files import metadata_folder, metadata_table_snapshot

logger = logging.getLogger(__name__)

CONTINUED = frozenset({Action.CLEAN, Action.ROLLBACK, Action.RESTORE, Action.SAVEPOINT})
"""hoodie finishes these actions itself, with the metadata table switched off."""
_DIGITS = 17
"""Of an instant time."""


def has_files(table: TableSnapshot) -> bool:
    """Whether there are files of a metadata table, listed or not.

    Args:
        table: The table.
    """
    return bool(table.storage.list_directory(metadata_folder(table)))


def switch_off_metadata_table(
    snapshot: TableSnapshot,
    *,
    is_asked_for: bool,
    is_dead: Callable[[TableSnapshot, HoodieInstant], bool] = lambda snapshot, instant: False,
) -> TableSnapshot:
    """Switch off the metadata table: first in the properties, then its folder is deleted; call it under the lock.

    The definitions of indexes (``.hoodie/.index_defs``) stay, as Hudi leaves them. A run that died in between is
    finished by the next one: readers use no metadata table that is not listed.

    Args:
        snapshot: The table; its properties and timeline are read again.
        is_asked_for: Whether the user says ``hoodie.metadata.enable=false``. Then what is pending in the metadata table
            alone does not matter.
        is_dead: Whether the writer of a pending write is known to be dead. A living one would write to the metadata
            table that it has found.

    Returns:
        The table as it is now.

    Raises:
        HoodieCommitException: An instant is pending, in the table's timeline or in that of the metadata table.
        HoodieIOException: Storage failed; call again.
    """
    snapshot = snapshot.with_properties_reloaded().refreshed()
    table_config, partitions = snapshot.table_config, snapshot.table_config.listed_metadata_partitions
    if not partitions:
        if has_files(snapshot):
            logger.warning(
                "deleting what is left of a metadata table of %s, which its properties list no more", snapshot.base_path
            )
            snapshot.storage.delete_directory(metadata_folder(snapshot))
        return snapshot
    _refuse_pending(snapshot, is_dead)
    if not is_asked_for:
        _refuse_pending_inside(snapshot)
    logger.warning(
        "deleting the metadata table of %s (partitions %s)", snapshot.base_path, ",".join(partitions),
    )  # fmt: skip
    table_config.update(snapshot.storage, snapshot.base_path, table_config.without_metadata_table())
    snapshot.storage.delete_directory(metadata_folder(snapshot))
    return snapshot.with_properties_reloaded()


def _refuse_pending(snapshot: TableSnapshot, is_dead: Callable[[TableSnapshot, HoodieInstant], bool]) -> None:
    for instant in snapshot.active_timeline.filter_pending():
        if instant.action in CONTINUED or is_dead(snapshot, instant):
            continue
        raise HoodieCommitException(
            f"the metadata table of {snapshot.base_path} must be switched off first, but {instant.action} "
            f"{instant.requested_time} is pending, and its writer may write to the metadata table: finish it first, or "
            "roll it back, with the writer that began it; then call again"
        )


def _refuse_pending_inside(snapshot: TableSnapshot) -> None:
    """Refuse while something is pending in the timeline of the metadata table that has no instant in the table's."""
    path, storage = metadata_folder(snapshot), snapshot.storage
    try:
        config = HoodieTableConfig.load(storage, path)
    except TableNotFoundException:
        return
    # An instant of the table has its own time there, in version 6 with digits behind it.
    known = {instant.requested_time[:_DIGITS] for instant in snapshot.active_timeline.filter_pending()}
    for instant in metadata_table_snapshot(snapshot, config).active_timeline:
        if instant.is_pending and instant.requested_time[:_DIGITS] not in known:
            raise HoodieCommitException(
                f"the metadata table of {snapshot.base_path} must be switched off first, but {instant.action} "
                f"{instant.requested_time} is pending in it: a writer of Hudi is at work, or has died. Let the next "
                "write of Hudi finish it; or set hoodie.metadata.enable=false, if no writer is at work"
            )
