"""A listing of all partitions of a metadata table by one request, for readers of one with few files.

Hudi lists each partition by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import attrs

from hoodie.common.fs.file_names import is_data_file_name
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_metadata import FileSystemBackedTableMetadata, HoodieTableMetadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.storage import storage_path
from hoodie.storage.storage import FileStatus

_OF_FEW_FILES = frozenset(
    kind.partition_path
    for kind in (
        MetadataPartitionType.FILES,
        MetadataPartitionType.COLUMN_STATS,
        MetadataPartitionType.PARTITION_STATS,
    )
)
"""Record and secondary indexes may have thousands of file groups: a listing of all would take many pages."""


def has_few_files(table_config: HoodieTableConfig) -> bool:
    """Whether the metadata table of a table surely has few files.

    Args:
        table_config: The properties of the table.
    """
    listed = {*table_config.metadata_partitions, *table_config.metadata_partitions_inflight}
    return listed <= _OF_FEW_FILES


def listed_together(metadata_table: TableSnapshot) -> HoodieTableMetadata:
    """A listing of all partitions of a metadata table by one request, made when the first partition is needed.

    Args:
        metadata_table: The metadata table.
    """
    return _PartitionsTogether(metadata_table.storage, metadata_table.base_path)


@attrs.frozen
class _PartitionsTogether(FileSystemBackedTableMetadata):
    """Lists all folders at the first call, and keeps the listing."""

    _listed: list[Mapping[str, list[FileStatus]]] = attrs.field(factory=list, init=False, repr=False, eq=False)

    def list_files(self, partition_path: str) -> list[FileStatus]:
        """See `HoodieTableMetadata.list_files`."""
        return self.list_files_of([partition_path])[partition_path]

    def list_files_of(self, partition_paths: Sequence[str]) -> dict[str, list[FileStatus]]:
        """See `HoodieTableMetadata.list_files_of`."""
        if not self._listed:
            found: dict[str, list[FileStatus]] = defaultdict(list)
            for status in self.storage.list_files(self.base_path):
                if is_data_file_name(status.name):
                    found[storage_path.relative_to(self.base_path, storage_path.parent(status.path))].append(status)
            self._listed.append(found)
        return {path: list(self._listed[0].get(path, ())) for path in partition_paths}
