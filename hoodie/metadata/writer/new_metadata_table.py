"""Folder and properties of a new metadata table.

Hudi: org.apache.hudi.metadata.HoodieBackedTableMetadataWriter (initializeMetaClient).
"""

from __future__ import annotations

from hoodie.common.model.commit_metadata import SCHEMA_KEY
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.metadata.reader.metadata_table_files import metadata_folder, metadata_table_snapshot
from hoodie.metadata.records.metadata_record_schema import metadata_record_schema
from hoodie.storage.storage_path import METAFOLDER_NAME, join

_LATER_VERSION = 8
_PAYLOAD = "org.apache.hudi.metadata.HoodieMetadataPayload"
_PAYLOAD_STRATEGY = "00000000-0000-0000-0000-000000000000"
_STRATEGY_OF_6 = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"


def metadata_table_properties(table_config: HoodieTableConfig) -> dict[str, str]:
    """The properties of a new metadata table, without their checksum.

    Args:
        table_config: The properties of its table.
    """
    version = table_config.table_version
    properties = {
        "hoodie.table.name": f"{table_config.table_name}_metadata",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(version),
        "hoodie.timeline.layout.version": str(table_config.timeline_layout_version),
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": "key",
        "hoodie.populate.meta.fields": "false",
        "hoodie.compaction.payload.class": _PAYLOAD,
        "hoodie.datasource.write.drop.partition.columns": "false",
    }
    if version < _LATER_VERSION:
        return properties | {
            "hoodie.archivelog.folder": "archived",
            "hoodie.compaction.record.merger.strategy": _STRATEGY_OF_6,
            "hoodie.table.keygenerator.class": "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator",
        }
    return properties | {
        "hoodie.archivelog.folder": "history",
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.record.merge.strategy.id": _PAYLOAD_STRATEGY,
        "hoodie.table.initial.version": str(version),
        "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
        "hoodie.timeline.history.path": "history",
        "hoodie.timeline.path": "timeline",
    }


def create_metadata_table(table: TableSnapshot) -> TableSnapshot:
    """Make an empty metadata table, and delete the files of an earlier one.

    Args:
        table: The table; its properties list no metadata table.

    Returns:
        The metadata table.

    Raises:
        HoodieIOException: Storage failed; call again.
    """
    folder, storage = metadata_folder(table), table.storage
    storage.delete_directory(folder)
    properties = metadata_table_properties(table.table_config)
    is_later = table.table_config.table_version >= _LATER_VERSION
    folders = (".aux", ".temp", "timeline/history" if is_later else "archived")
    for name in folders:
        storage.create_directory(join(folder, METAFOLDER_NAME, name))
    stored = HoodieTableConfig.create(storage, folder, properties, is_empty=True)
    return metadata_table_snapshot(table, stored, is_new=True)


def newest_record_schema(metadata_table: TableSnapshot) -> str:
    """The schema of the newest commit of a metadata table, without meta columns.

    New commits keep this schema: hudi-rs cannot read a slice with schemas of several releases.

    Args:
        metadata_table: The metadata table.

    Returns:
        JSON; the schema of a new metadata table of its version, if no commit has one.

    Raises:
        HoodieCorruptedDataException: A commit is damaged.
        HoodieIOException: Storage failed.
    """
    timeline = metadata_table.active_timeline
    for instant in reversed(timeline.completed_writes().instants):
        found = timeline.read_commit_metadata(instant).extra_metadata.get(SCHEMA_KEY)
        if found:
            return found
    return metadata_record_schema(metadata_table.table_config.table_version)
