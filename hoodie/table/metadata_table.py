"""Switch off a table's metadata table, which hoodie does not keep up to date yet, and change nothing behind it.

Readers that trust a metadata table miss what was committed without it. In tables of versions 8 and 9 all readers do. So
each action takes these steps:

1. Before it begins, the metadata table is switched off (`switch_off_metadata_table`), if the properties list one.
2. Once it has announced itself, and again before it is completed, the properties are read again
   (`refuse_metadata_table`). Hudi builds no metadata table while an instant is pending, so none comes in between.

A savepoint takes neither step: it changes no file, and a metadata table records nothing of it.

Hudi: org.apache.hudi.metadata.HoodieTableMetadataUtil (deleteMetadataTable).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.common.table.timeline.timeline_listing import list_instants
from hoodie.exception import HoodieCommitException, HoodieNotSupportedException, TableNotFoundException
from hoodie.metadata.reader.metadata_table_files import metadata_folder
from hoodie.storage.storage_path import METAFOLDER_NAME, join

logger = logging.getLogger(__name__)

_FILES = frozenset({"files"})
_BUILT_FROM_FILES = frozenset({"files", "column_stats", "partition_stats"})
"""Hudi's writers build these by default, from the table's files alone."""
_CONTINUED = frozenset({Action.CLEAN, Action.ROLLBACK, Action.RESTORE, Action.SAVEPOINT})
"""hoodie finishes these actions itself, with the metadata table switched off."""
_DIGITS = 17
"""Of an instant time."""


def listed_partitions(table_config: HoodieTableConfig) -> tuple[str, ...]:
    """The partitions of the metadata table that the properties list, ready ones and those that are being built."""
    return tuple(sorted({*table_config.metadata_partitions, *table_config.metadata_partitions_inflight}))


def has_metadata_table(snapshot: TableSnapshot) -> bool:
    """Whether there is something to switch off: a listed metadata table, or files of one that is listed no more."""
    return bool(listed_partitions(snapshot.table_config)) or _has_files(snapshot)


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
        is_asked_for: Whether the user says ``hoodie.metadata.enable=false``. Then indexes are dropped as well, and what
            is pending in the metadata table alone does not matter.
        is_dead: Whether the writer of a pending write is known to be dead. A living one would write to the metadata
            table that it has found.

    Returns:
        The table as it is now.

    Raises:
        HoodieNotSupportedException: The metadata table holds indexes that nobody asked to drop.
        HoodieCommitException: An instant is pending, in the table's timeline or in that of the metadata table.
        HoodieIOException: Storage failed; call again.
    """
    snapshot = snapshot.with_properties_reloaded().refreshed()
    table_config, partitions = snapshot.table_config, listed_partitions(snapshot.table_config)
    if not partitions:
        if _has_files(snapshot):
            logger.warning(
                "deleting what is left of a metadata table of %s, which its properties list no more", snapshot.base_path
            )
            snapshot.storage.delete_directory(metadata_folder(snapshot))
        return snapshot
    if not is_asked_for:
        refuse_indexes(snapshot, partitions)
    _refuse_pending(snapshot, is_dead)
    if not is_asked_for:
        _refuse_pending_inside(snapshot)
    logger.warning(
        "switching off the metadata table of %s (partitions %s): hoodie does not keep it up to date; Hudi builds "
        "it again at its next write", snapshot.base_path, ",".join(partitions),
    )  # fmt: skip
    table_config.update(snapshot.storage, snapshot.base_path, table_config.without_metadata_table())
    snapshot.storage.delete_directory(metadata_folder(snapshot))
    return snapshot.with_properties_reloaded()


def refuse_metadata_table(snapshot: TableSnapshot, what: str) -> None:
    """Fail if the properties list a metadata table now.

    Args:
        snapshot: The table; its properties are read again.
        what: What would make the metadata table wrong, for the message.

    Raises:
        HoodieCommitException: They do.
        HoodieIOException: Storage failed.
    """
    partitions = listed_partitions(HoodieTableConfig.load(snapshot.storage, snapshot.base_path))
    if partitions:
        raise HoodieCommitException(
            f"{snapshot.base_path} has a metadata table now (hoodie.table.metadata.partitions={','.join(partitions)}), "
            f"and {what} would make it wrong: that was not done. Write again, or call clean() of a client: both "
            "switch the metadata table off first"
        )


def _has_files(snapshot: TableSnapshot) -> bool:
    return bool(snapshot.storage.list_directory(metadata_folder(snapshot)))


def refuse_indexes(snapshot: TableSnapshot, partitions: tuple[str, ...]) -> None:
    """Refuse to drop what users rely on. A definition of an index that is not listed is that of a dropped one.

    Args:
        snapshot: The table.
        partitions: The partitions of its metadata table that are listed.

    Raises:
        HoodieNotSupportedException: There are indexes among them.
    """
    dropped = _BUILT_FROM_FILES if snapshot.active_timeline.layout.has_completion_times else _FILES
    indexes = [partition for partition in partitions if partition not in dropped]
    if indexes:
        raise HoodieNotSupportedException(
            f"{snapshot.base_path} has a metadata table with "
            f"hoodie.table.metadata.partitions={','.join(partitions)}, "
            f"which hoodie does not keep up to date yet. Writing would switch it off and drop {', '.join(indexes)}: "
            "set hoodie.metadata.enable=false to do so"
        )


def _refuse_pending(snapshot: TableSnapshot, is_dead: Callable[[TableSnapshot, HoodieInstant], bool]) -> None:
    for instant in snapshot.active_timeline.filter_pending():
        if instant.action in _CONTINUED or is_dead(snapshot, instant):
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
    layout = timeline_layout(config.timeline_layout_version, config.timeline_folder, config.timeline_timezone)
    # An instant of the table has its own time there, in version 6 with digits behind it.
    known = {instant.requested_time[:_DIGITS] for instant in snapshot.active_timeline.filter_pending()}
    for instant in list_instants(storage, join(path, METAFOLDER_NAME), layout):
        if instant.is_pending and instant.requested_time[:_DIGITS] not in known:
            raise HoodieCommitException(
                f"the metadata table of {snapshot.base_path} must be switched off first, but {instant.action} "
                f"{instant.requested_time} is pending in it: a writer of Hudi is at work, or has died. Let the next "
                "write of Hudi finish it; or set hoodie.metadata.enable=false, if no writer is at work"
            )
