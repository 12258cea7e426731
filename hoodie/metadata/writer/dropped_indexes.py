"""The indexes that ``hoodie.metadata.index.drop`` deletes."""

from __future__ import annotations

import logging

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.exception import HoodieConfigException
from hoodie.metadata.reader.index_definition_file import DEFINITIONS, read_index_definitions
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType

logger = logging.getLogger(__name__)

_KEPT = {
    "files": "hoodie.metadata.enable",
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "partition_stats": "hoodie.metadata.index.partition.stats.enable",
    "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    "record_index": "hoodie.metadata.global.record.level.index.enable",
}
"""Partitions that ``hoodie.metadata.index.drop`` does not drop, and the options that do."""


def indexes_to_drop(snapshot: TableSnapshot, config: HoodieMetadataConfig) -> tuple[str, ...]:
    """The indexes that ``hoodie.metadata.index.drop`` names: listed partitions, or those of which a definition is left.

    Args:
        snapshot: The table.
        config: The writer's options for the metadata table.

    Raises:
        HoodieConfigException: The option names a partition that other options drop.
        HoodieCorruptedDataException: The definitions of its indexes are damaged.
        HoodieIOException: Storage failed.
    """
    if not config.index_drop:
        return ()
    kept = [path for path in config.index_drop if path in _KEPT]
    if kept:
        raise HoodieConfigException(
            f"hoodie.metadata.index.drop={','.join(config.index_drop)}: {kept[0]} is no index of this kind; "
            f"{_KEPT[kept[0]]}=false deletes it"
        )
    defined = read_index_definitions(snapshot.storage, snapshot.meta_path) or {DEFINITIONS: {}}
    existing = {*snapshot.table_config.listed_metadata_partitions, *defined[DEFINITIONS]}
    found: dict[str, None] = {}
    for name in config.index_drop:
        # By the partition, or by the name that `create_index` was given.
        named = existing & {name, f"{MetadataPartitionType.SECONDARY_INDEX.partition_path}{name}"}
        if not named:
            logger.info("%s has no index %s to drop: it has %s", snapshot.base_path, name, ", ".join(sorted(existing)))
        found |= dict.fromkeys(sorted(named))
    return tuple(found)
