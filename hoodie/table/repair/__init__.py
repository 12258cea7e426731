"""Repairs of tables with orphan files, duplicate keys, or damaged properties or partition metadata."""

from hoodie.table.repair.duplicate_keys import (
    DuplicateKeys,
    DuplicateRow,
    DuplicatesWriter,
    drop_duplicates,
    find_duplicates,
)
from hoodie.table.repair.orphan_files import OrphanFile, OrphanFiles, find_orphan_files, remove_orphan_files
from hoodie.table.repair.partition_metafiles import (
    PartitionMetafileRepair,
    PartitionMetafileRepairs,
    repair_partition_metadata,
)
from hoodie.table.repair.table_properties import RebuiltProperties, RebuiltProperty, rebuild_table_properties

__all__ = [
    "DuplicateKeys",
    "DuplicateRow",
    "DuplicatesWriter",
    "OrphanFile",
    "OrphanFiles",
    "PartitionMetafileRepair",
    "PartitionMetafileRepairs",
    "RebuiltProperties",
    "RebuiltProperty",
    "drop_duplicates",
    "find_duplicates",
    "find_orphan_files",
    "rebuild_table_properties",
    "remove_orphan_files",
    "repair_partition_metadata",
]
