"""Which partitions of a metadata table are built or dropped, by the configuration and the properties of the table.

Hudi: org.apache.hudi.metadata.MetadataPartitionType (getEnabledPartitions).
"""

from __future__ import annotations

import attrs

from hoodie.common.table.index_plans import planned_partitions
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.writer.indexers import is_maintained

_FILES = MetadataPartitionType.FILES.partition_path
_COLUMN_STATS = MetadataPartitionType.COLUMN_STATS.partition_path
_PARTITION_STATS = MetadataPartitionType.PARTITION_STATS.partition_path
_BLOOM_FILTERS = MetadataPartitionType.BLOOM_FILTERS.partition_path
_RECORD_INDEX = MetadataPartitionType.RECORD_INDEX.partition_path


@attrs.frozen
class DuePartitions:
    """What has to change.

    Attributes:
        missing: Partitions to build.
        unwanted: Partitions to drop.
    """

    missing: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


def due_partitions(table: TableSnapshot, config: HoodieMetadataConfig) -> DuePartitions:
    """What has to change for the metadata table to hold what a writer wants.

    Partitions that were set aside are built again. Those that a pending indexing is to build are left to it.

    Args:
        table: The table, with its current properties.
        config: What the writer wants.
    """
    table_config = table.table_config
    listed = set(table_config.metadata_partitions)
    if config.enable is False:
        return DuePartitions()
    planned = planned_partitions(table.active_timeline).keys()
    wanted = set(table_config.metadata_partitions_inflight)
    choices = {
        _COLUMN_STATS: config.column_stats_enable,
        _BLOOM_FILTERS: config.bloom_filter_enable,
        _RECORD_INDEX: _either(config.record_index_enable, config.partitioned_record_index_enable),
    }
    has_ranges = config.column_stats_enable or (config.column_stats_enable is None and _COLUMN_STATS in listed)
    is_partitioned = bool(table_config.partition_fields)
    if has_ranges and is_partitioned and config.column_stats_enable:
        choices[_PARTITION_STATS] = config.partition_stats_enable is not False
    if config.column_stats_enable is False or config.partition_stats_enable is False:
        choices[_PARTITION_STATS] = False
    unwanted = {path for path, choice in choices.items() if choice is False and path in listed}
    wanted |= {path for path, choice in choices.items() if choice}
    wanted -= planned
    if config.enable or wanted:
        wanted.add(_FILES)
    version = table_config.table_version
    missing = {path for path in wanted - listed - unwanted if is_maintained(path, version)}
    return DuePartitions(tuple(sorted(missing)), tuple(sorted(unwanted)))


def _either(*choices: bool | None) -> bool | None:
    """True if one of them is, else False if one of them is."""
    return True if True in choices else False if False in choices else None
