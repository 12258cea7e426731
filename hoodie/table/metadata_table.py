"""What actions do about the metadata table of their table.

Readers that trust a metadata table miss what was committed without it. In tables of versions 8 and 9 all readers do. So
each action takes these steps, under the table's lock:

1. Before it begins, `prepare_metadata_table` deletes a metadata table that the writer does not want, and refuses one
   that hoodie cannot keep up to date.
2. Right before it is completed, `record_action` adds it to the metadata table that is listed at that moment.
3. A rollback takes back what was recorded of its instant (`forget_action`) before that instant leaves the timeline.
4. A write sets a metadata table aside, before it begins, whose times are no moments of the table
   (`hoodie.table.misplaced_metadata_table`).
5. A restore sets the metadata table aside (`set_aside_metadata_table`), and builds it anew
   (`initialise_metadata_table`).

A savepoint takes none of them: it changes no file, and a metadata table records nothing of it.

Hudi: org.apache.hudi.metadata.HoodieTableMetadataUtil (deleteMetadataTable).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

import attrs

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.avro.timeline_metadata import HoodieRollbackMetadata
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.table.index_plans import pending_index_plans
from hoodie.common.table.marker.write_markers import TEMP_FOLDER_NAME
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot, is_table
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieMetadataException,
    HoodieNotSupportedException,
    TableNotFoundException,
)
from hoodie.merge.record_merger import HoodieRecordMerger, named_merger
from hoodie.metadata.reader.index_definition_file import DEFINITIONS, read_index_definitions
from hoodie.metadata.reader.metadata_table_files import metadata_folder, metadata_table_snapshot
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.writer.due_partitions import due_partitions
from hoodie.metadata.writer.index_definition_writer import delete_index_definition
from hoodie.metadata.writer.indexers import is_maintained
from hoodie.metadata.writer.new_metadata_table import metadata_table_properties
from hoodie.metadata.writer.partition_indexer import CommittedChange, KeyLookUp
from hoodie.metadata.writer.table_metadata_writer import HoodieBackedTableMetadataWriter, one_at_a_time
from hoodie.storage.storage_path import METAFOLDER_NAME, join

logger = logging.getLogger(__name__)

CONTINUED = frozenset({Action.CLEAN, Action.ROLLBACK, Action.RESTORE, Action.SAVEPOINT})
"""hoodie finishes these actions itself, with the metadata table switched off."""
_FILES = frozenset({"files"})
_BUILT_FROM_FILES = frozenset({"files", "column_stats", "partition_stats"})
"""Hudi's writers build these by default, from the table's files alone."""
_KEPT = {
    "files": "hoodie.metadata.enable",
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "partition_stats": "hoodie.metadata.index.partition.stats.enable",
    "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    "record_index": "hoodie.metadata.global.record.level.index.enable",
}
"""Partitions that ``hoodie.metadata.index.drop`` does not drop, and the options that do."""
_NOT_RECORDED = frozenset({Action.SAVEPOINT, Action.INDEXING})
_DIGITS = 17
"""Of an instant time."""


def listed_partitions(table_config: HoodieTableConfig) -> tuple[str, ...]:
    """The partitions of the metadata table that the properties list, ready ones and those that are being built."""
    return tuple(sorted({*table_config.metadata_partitions, *table_config.metadata_partitions_inflight}))


def metadata_table_folders(snapshot: TableSnapshot) -> tuple[str, ...]:
    """The folders of a listed metadata table in which writers that died may have left temporary files."""
    partitions = listed_partitions(snapshot.table_config)
    if not partitions:
        return ()
    meta = join(metadata_folder(snapshot), METAFOLDER_NAME)
    active = snapshot.active_timeline.layout.active_path(meta)
    archive = join(meta, HoodieTableConfig(metadata_table_properties(snapshot.table_config)).archive_folder)
    folders = (join(metadata_folder(snapshot), partition) for partition in partitions)
    return (meta, active, archive, join(meta, TEMP_FOLDER_NAME), *folders)


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
    table_config, partitions = snapshot.table_config, listed_partitions(snapshot.table_config)
    if not partitions:
        if _has_files(snapshot):
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
            f"hoodie.table.metadata.partitions={','.join(partitions)}, which is deleted when the version of the table "
            f"changes. That would drop {', '.join(indexes)}: set hoodie.metadata.enable=false to do so, and build them "
            "again by a write with hoodie.metadata.enable=true and their options"
        )


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


@attrs.frozen
class MetadataTableUpkeep:
    """How a writer keeps the metadata table up to date.

    Attributes:
        config: What it holds.
        engine: Runs tasks, for work that grows with the number of files or rows.
        key_look_up: What it knows of the keys that the action adds.
        merger: The record merger that it names, in a table that merges by one.
    """

    config: HoodieMetadataConfig = attrs.field(factory=HoodieMetadataConfig)
    engine: HoodieEngineContext = attrs.field(factory=LocalEngineContext)
    key_look_up: KeyLookUp = attrs.field(factory=KeyLookUp)
    merger: HoodieRecordMerger | None = None

    @classmethod
    def of(
        cls, config: HoodieWriteConfig, engine: HoodieEngineContext, key_look_up: KeyLookUp | None = None
    ) -> MetadataTableUpkeep:
        """That of a writer.

        Args:
            config: Its properties.
            engine: See the attributes.
            key_look_up: See the attributes; None of an action that adds no keys.

        Raises:
            HoodieConfigException: The record merger that it names cannot be loaded.
        """
        return cls(config.metadata, engine, key_look_up or KeyLookUp(), named_merger(config.payload.merger_class))

    def writer(self, snapshot: TableSnapshot) -> HoodieBackedTableMetadataWriter:
        """What writes the metadata table of a table."""
        return HoodieBackedTableMetadataWriter(snapshot, self.config, self.engine, self.merger)


def refuse_unknown_partitions(snapshot: TableSnapshot) -> None:
    """Refuse to write a table whose metadata table hoodie cannot keep up to date.

    Args:
        snapshot: The table.

    Raises:
        HoodieNotSupportedException: It lists such partitions.
    """
    version = snapshot.table_config.table_version
    unknown = [path for path in listed_partitions(snapshot.table_config) if not is_maintained(path, version)]
    if unknown:
        raise HoodieNotSupportedException(
            f"{snapshot.base_path} has a metadata table with the partitions {', '.join(unknown)}, which hoodie does "
            f"not keep up to date. Set hoodie.metadata.index.drop={','.join(unknown)} to delete them, or "
            "hoodie.metadata.enable=false to delete the whole metadata table, or drop them with Hudi"
        )


def is_to_be_adapted(snapshot: TableSnapshot, config: HoodieMetadataConfig) -> bool:
    """Whether the metadata table has to be changed before anything is written; see `adapt_metadata_table`.

    Args:
        snapshot: The table.
        config: What its writer wants.
    """
    return bool(_indexes_to_drop(snapshot, config)) or is_metadata_table_gone(snapshot)


def adapt_metadata_table(snapshot: TableSnapshot, config: HoodieMetadataConfig) -> TableSnapshot:
    """Delete the indexes that ``hoodie.metadata.index.drop`` names, and set a metadata table aside that is gone.

    An index goes from the properties, then its folder, then its definition. A run that died is finished by the next one
    with the same option, as long as the definition is there; a folder that is left without one harms nobody.

    Args:
        snapshot: The table, under its lock; its properties and timeline are read again.
        config: What its writer wants.

    Returns:
        The table as it is then.

    Raises:
        HoodieConfigException: The option names a partition that other options drop.
        HoodieCommitException: An indexing is pending, which may build what is to be dropped.
        HoodieNotSupportedException: There are other partitions that hoodie does not know; nothing was set aside.
        HoodieIOException: Storage failed; call again.
    """
    snapshot = snapshot.with_properties_reloaded().refreshed()
    gone = _indexes_to_drop(snapshot, config)
    if gone:
        for instant in snapshot.active_timeline.filter_pending().filter_actions(Action.INDEXING):
            raise HoodieCommitException(
                f"{', '.join(gone)} cannot be dropped from the metadata table of {snapshot.base_path} while indexing "
                f"{instant.requested_time} is pending: let it end, or take it back, with the writer that began it"
            )
        logger.warning("dropping %s from the metadata table of %s", ", ".join(gone), snapshot.base_path)
        with one_at_a_time(snapshot):
            snapshot = HoodieBackedTableMetadataWriter(snapshot, config).drop(gone)
            for path in gone:
                delete_index_definition(snapshot, path)
    refuse_unwritable_metadata_table(snapshot)
    return set_aside_metadata_table(snapshot) if is_metadata_table_gone(snapshot) else snapshot


def _indexes_to_drop(snapshot: TableSnapshot, config: HoodieMetadataConfig) -> tuple[str, ...]:
    """What ``hoodie.metadata.index.drop`` names and is there: a listed partition, or the definition of an index."""
    if not config.index_drop:
        return ()
    kept = [path for path in config.index_drop if path in _KEPT]
    if kept:
        raise HoodieConfigException(
            f"hoodie.metadata.index.drop={','.join(config.index_drop)}: {kept[0]} is no index of this kind; "
            f"{_KEPT[kept[0]]}=false deletes it"
        )
    defined = read_index_definitions(snapshot.storage, snapshot.meta_path) or {DEFINITIONS: {}}
    there = {*listed_partitions(snapshot.table_config), *defined[DEFINITIONS]}
    found: dict[str, None] = {}
    for name in config.index_drop:
        # By the partition, or by the name that `create_index` was given.
        named = there & {name, f"{MetadataPartitionType.SECONDARY_INDEX.partition_path}{name}"}
        if not named:
            logger.info("%s has no index %s to drop: it has %s", snapshot.base_path, name, ", ".join(sorted(there)))
        found |= dict.fromkeys(sorted(named))
    return tuple(found)


def refuse_unwritable_metadata_table(snapshot: TableSnapshot) -> None:
    """Refuse to write a table whose metadata table hoodie cannot keep up to date, or not now.

    While Hudi builds partitions beside writers, it expects that these record their actions there as well. What hoodie
    builds beside writers is not listed as being built.

    Args:
        snapshot: The table.

    Raises:
        HoodieNotSupportedException: See `refuse_unknown_partitions`.
        HoodieMetadataException: Hudi builds partitions.
    """
    refuse_unknown_partitions(snapshot)
    inflight = set(snapshot.table_config.metadata_partitions_inflight)
    if not inflight:
        return
    for instant, plan in pending_index_plans(snapshot.active_timeline):
        building = sorted(inflight & set(plan.partition_paths))
        if building and not instant.is_requested:
            raise HoodieMetadataException(
                f"Hudi builds the partitions {', '.join(building)} of the metadata table of {snapshot.base_path} "
                f"(indexing {instant.requested_time}), which would lack what is written meanwhile. Let it end; if its "
                f"process is dead, call client.index('{instant.requested_time}'), or take it back with "
                f"client.rollback('{instant.requested_time}')"
            )


@attrs.frozen
class RecordedAction:
    """What was done about an action in the metadata table.

    Attributes:
        is_compaction_due: Whether the metadata table is to be compacted once the action is completed.
    """

    is_compaction_due: bool


def record_action(
    snapshot: TableSnapshot,
    instant_time: str,
    action: Action,
    metadata: attrs.AttrsInstance,
    check: Callable[[], None],
    upkeep: MetadataTableUpkeep,
) -> RecordedAction | None:
    """Add an action to the metadata table that is listed now, right before the action is completed.

    Args:
        snapshot: The table as it is, under its lock.
        instant_time: The action's instant, inflight.
        action: The action.
        metadata: What was done.
        check: Raises where the lock was lost.
        upkeep: How the metadata table is kept up to date.

    Returns:
        What was recorded; None where no metadata table records such actions.

    Raises:
        HoodieNotSupportedException: See `refuse_unwritable_metadata_table`; nothing was recorded.
        HoodieMetadataException: Likewise.
        HoodieException: It could not be recorded: the action must not be completed.
    """
    if action in _NOT_RECORDED or not snapshot.table_config.metadata_partitions:
        return None
    refuse_unwritable_metadata_table(snapshot)
    writer = upkeep.writer(snapshot)
    if isinstance(metadata, HoodieCommitMetadata):
        is_due = writer.update_commit(CommittedChange(instant_time, action, metadata, upkeep.key_look_up), check)
    elif isinstance(metadata, HoodieCleanMetadata):
        is_due = writer.update_clean(instant_time, metadata, check)
    elif isinstance(metadata, HoodieRollbackMetadata):
        is_due = writer.update_rollback(instant_time, metadata, check)
    else:
        raise HoodieCommitException(
            f"{action} {instant_time} of {snapshot.base_path} was not completed: a metadata table came meanwhile "
            f"({','.join(snapshot.table_config.metadata_partitions)}), and would be wrong. Call it again"
        )
    return RecordedAction(is_due)


def forget_action(snapshot: TableSnapshot, instant_time: str) -> None:
    """Take back what was recorded of an instant that is being rolled back.

    Where a compaction of the metadata table has merged it, the metadata table is set aside, and the next write builds
    it anew.

    Args:
        snapshot: The table; the instant is pending, or a rollback of it is.
        instant_time: The instant.

    Raises:
        HoodieException: The metadata table is damaged, or storage failed.
    """
    snapshot = snapshot.with_properties_reloaded()
    if not snapshot.table_config.metadata_partitions:
        return
    with one_at_a_time(snapshot):
        if not HoodieBackedTableMetadataWriter(snapshot).withdraw(instant_time):
            set_aside_metadata_table(snapshot)


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
        is_usual: Whether this is part of what the user asked for. If not, a warning tells of it.
        beside: Partitions that are not listed, and that the next write does not build, since an indexing does.
        why: What the warning adds.

    Returns:
        The table without it; see `initialise_metadata_table`.
    """
    table_config = HoodieTableConfig.load(snapshot.storage, snapshot.base_path)
    partitions = listed_partitions(table_config)
    if partitions:
        level = logging.INFO if is_usual else logging.WARNING
        logger.log(
            level, "the metadata table of %s (%s) is built anew%s", snapshot.base_path, ",".join(partitions), why
        )
        left = [path for path in partitions if path not in beside]
        updates = table_config.with_metadata_partitions((), left)
        table_config.update(snapshot.storage, snapshot.base_path, updates)
        snapshot.storage.delete_directory(metadata_folder(snapshot))
    return snapshot.with_properties_reloaded()


def initialise_metadata_table(snapshot: TableSnapshot, upkeep: MetadataTableUpkeep) -> TableSnapshot:
    """Build the partitions that the configuration asks for, and those that were set aside; drop what it refuses.

    Nothing is built while an instant is pending, since its files are neither committed nor gone.

    Args:
        snapshot: The table, under its lock; its properties and timeline are read again.
        upkeep: What is wanted.

    Returns:
        The table with its new properties.

    Raises:
        HoodieException: A file of the table cannot be read, or storage failed; call again.
    """
    snapshot = snapshot.with_properties_reloaded().refreshed()
    due = due_partitions(snapshot, upkeep.config, upkeep.engine)
    if not due.missing and not due.unwanted:
        return snapshot
    pending = [
        instant for instant in snapshot.active_timeline.filter_pending() if instant.action is not Action.INDEXING
    ]
    if pending:
        logger.info(
            "the metadata table of %s is not changed while %s %s is pending",
            snapshot.base_path, pending[0].action, pending[0].requested_time,
        )  # fmt: skip
        return snapshot
    with one_at_a_time(snapshot):
        if due.unwanted:
            snapshot = upkeep.writer(snapshot).drop(due.unwanted)
        if due.missing:
            snapshot = upkeep.writer(snapshot).initialise(due.missing)
    return snapshot
