"""The partitions of a metadata table to build or drop, by the configuration and the properties of the table.

A new table of version 8 or 9 gets a metadata table unless its writer refuses one. Other tables get one only if their
writer asks for it (docs/decisions/0113-new-tables-have-a-metadata-table.md).

Hudi: org.apache.hudi.metadata.MetadataPartitionType (getEnabledPartitions), HoodieMetadataConfig.Builder (the defaults
of engines).
"""

from __future__ import annotations

import logging

import attrs

from hoodie.common.table.index_plans import planned_partitions
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.exception import HoodieNotSupportedException
from hoodie.metadata.reader.index_definitions import load_index_definitions
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.writer.ambiguous_keys import FIRST_VERSION_BY_PARTITION
from hoodie.metadata.writer.indexers import is_maintained

logger = logging.getLogger(__name__)

_FILES = MetadataPartitionType.FILES.partition_path
_COLUMN_STATS = MetadataPartitionType.COLUMN_STATS.partition_path
_PARTITION_STATS = MetadataPartitionType.PARTITION_STATS.partition_path
_BLOOM_FILTERS = MetadataPartitionType.BLOOM_FILTERS.partition_path
_RECORD_INDEX = MetadataPartitionType.RECORD_INDEX.partition_path

_KINDS = {
    False: ("one of the whole table", "hoodie.metadata.global.record.level.index.enable"),
    True: ("one by partitions", "hoodie.metadata.record.level.index.enable"),
}
MADE_FROM_VERSION = 8
"""New tables of this version and later get a metadata table, unless their writer refuses one."""


@attrs.frozen
class DuePartitions:
    """The partitions of a metadata table to build and to drop.

    Attributes:
        missing: The partitions to build.
        unwanted: The partitions to drop first. One that is also missing is replaced by another of its kind.
    """

    missing: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


def due_partitions(
    table: TableSnapshot, config: HoodieMetadataConfig, engine: HoodieEngineContext | None = None
) -> DuePartitions:
    """The changes that give the metadata table the partitions that a writer wants.

    Partitions that were set aside are built again. Partitions that a pending indexing will build are left to it.

    Args:
        table: The table, with its current properties.
        config: The writer's options for the metadata table.
        engine: The writer's engine, which decides the defaults of new tables; None builds ``files`` only by default.

    Raises:
        HoodieNotSupportedException: The table cannot have a record index, or not one of that kind.
        HoodieCorruptedDataException: The definitions of its indexes are damaged.
        HoodieIOException: Storage failed.
    """
    table_config = table.table_config
    listed = set(table_config.metadata_partitions)
    if config.enable is False:
        return DuePartitions()
    is_new = is_new_with_metadata_table(table)
    if is_new and engine is not None and engine.ranges_by_default and config.column_stats_enable is None:
        config = attrs.evolve(config, column_stats_enable=True)
    set_aside = set(table_config.metadata_partitions_inflight)
    wanted = set(set_aside)
    choices = {
        _COLUMN_STATS: config.column_stats_enable,
        _BLOOM_FILTERS: config.bloom_filter_enable,
    }
    choice, is_replaced = _record_index_choice(table, config)
    choices[_RECORD_INDEX] = choice
    has_ranges = config.column_stats_enable or (config.column_stats_enable is None and _COLUMN_STATS in listed)
    is_partitioned = bool(table_config.partition_fields)
    if has_ranges and is_partitioned and (config.column_stats_enable or config.partition_stats_enable):
        choices[_PARTITION_STATS] = config.partition_stats_enable is not False
    if config.column_stats_enable is False or config.partition_stats_enable is False:
        choices[_PARTITION_STATS] = False
    unwanted = {path for path, choice in choices.items() if choice is False and path in listed | set_aside}
    if is_replaced:
        unwanted.add(_RECORD_INDEX)
        listed.discard(_RECORD_INDEX)
    wanted |= {path for path, choice in choices.items() if choice}
    if wanted - listed:
        wanted -= planned_partitions(table.active_timeline).keys()
    if config.enable or is_new or wanted:
        wanted.add(_FILES)
    version = table_config.table_version
    if not is_replaced:
        wanted -= unwanted
    missing = {path for path in wanted - listed if is_maintained(path, version)}
    if _RECORD_INDEX in missing and not table_config.populate_meta_fields:
        raise HoodieNotSupportedException(
            f"{table.base_path} stores no record keys (hoodie.populate.meta.fields=false), and so has no record index: "
            "leave out hoodie.metadata.global.record.level.index.enable and hoodie.metadata.record.level.index.enable, "
            "and set another hoodie.index.type than RECORD_INDEX or RECORD_LEVEL_INDEX; nothing was written"
        )
    return DuePartitions(tuple(sorted(missing)), tuple(sorted(unwanted)))


def is_new_with_metadata_table(table: TableSnapshot) -> bool:
    """Whether a table is new, and of a version whose new tables get a metadata table unless their writer
    refuses one.

    A table is new until its first instant is complete. It may list partitions already: built by its first writer, or by
    a writer that died.

    Args:
        table: The table, with its timeline.
    """
    if table.table_config.table_version < MADE_FROM_VERSION:
        return False
    timeline = table.active_timeline
    if len(timeline.filter_completed_instants()):
        return False
    return not timeline.has_archive or timeline.newest_archived_time() is None


def _record_index_choice(table: TableSnapshot, config: HoodieMetadataConfig) -> tuple[bool | None, bool]:
    """Whether a record index is wanted (None: no change), and whether the present one is replaced.

    A table has at most one, of the whole table or partitioned. Each of the two options decides only about its own kind:
    Hudi's default of both is false.

    Raises:
        HoodieNotSupportedException: Tables of that version cannot have a partitioned record index.
    """
    whole, by_partition = config.record_index_enable, config.partitioned_record_index_enable
    if whole is None and by_partition is None:
        return None, False
    table_config = table.table_config
    version = table_config.table_version
    if by_partition and version < FIRST_VERSION_BY_PARTITION:
        raise HoodieNotSupportedException(
            f"hoodie.metadata.record.level.index.enable is for tables of version {FIRST_VERSION_BY_PARTITION}, and "
            f"{table.base_path} has version {version}: use hoodie.metadata.global.record.level.index.enable, or "
            "upgrade the table"
        )
    if _RECORD_INDEX not in {*table_config.metadata_partitions, *table_config.metadata_partitions_inflight}:
        return True if whole or by_partition else None, False
    is_by_partition = False
    if version >= FIRST_VERSION_BY_PARTITION:
        definition = load_index_definitions(table.storage, table.meta_path).get(_RECORD_INDEX)
        is_by_partition = definition is not None and definition.is_partitioned
    own, other = (by_partition, whole) if is_by_partition else (whole, by_partition)
    if own is False:
        return bool(other), bool(other)
    if other:
        logger.warning(
            "%s keeps its record index, which is %s: a table has one. To replace it, give %s=false, too",
            table.base_path, *_KINDS[is_by_partition],
        )  # fmt: skip
    return own, False
