"""Write the file of one file group of a metadata table: a base file, or a log file of HFile and delete blocks.

Hudi: org.apache.hudi.metadata.HoodieBackedTableMetadataWriter (commit), which uses the handles of all tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.storage.storage import HoodieStorage

_TOKEN = "0-0-0"


@attrs.frozen
class MetadataFileGroup:
    """The newest slice of a file group, as far as its writer needs it.

    Attributes:
        file_id: The file group.
        base_instant_time: The instant of the slice, in the names of its log files in table version 6.
        base_file_name: The name of its base file; None without one.
        log_file_names: The names of its log files, in their order.
        next_version: The version of the next log file.
    """

    file_id: str
    base_instant_time: str
    base_file_name: str | None = None
    log_file_names: tuple[str, ...] = ()
    next_version: int = 1


@attrs.frozen
class MetadataFileGroupWriter:
    """Writes one delta commit's files of a partition; picklable.

    Attributes:
        storage: Where the metadata table is.
        base_path: The folder of the metadata table.
        partition_path: The partition.
        instant_time: The delta commit.
        avro_schema: The schema of the records, meta fields included.
        groups: The file groups by number.
        is_initial: Whether base files are written, as when a partition is initialised; otherwise log files.
        by_commit: Whether log files are named by their delta commit (timeline layout 2), not by their slice.
    """

    storage: HoodieStorage
    base_path: str
    partition_path: str
    instant_time: str
    avro_schema: str
    groups: Sequence[MetadataFileGroup]
    is_initial: bool = False
    by_commit: bool = True

    @property
    def group_count(self) -> int:
        """The number of file groups, by which keys are hashed."""
        return len(self.groups)

    def write(self, number: int, entries: MetadataEntries, write_token: str = _TOKEN) -> HoodieWriteStat:
        """Write the file of a file group.

        Args:
            number: Of the file group.
            entries: Its records, not empty. A partition that is initialised has no deletes.
            write_token: In the name of the file; one that no other attempt has. What is left of an attempt that failed
                is deleted before the delta commit is completed.

        Returns:
            Its statistics.

        Raises:
            HoodieKeyException: A key cannot be stored.
            HoodieSchemaException: The schema of the metadata table has no place for a record.
            HoodieIOException: Storage failed.
        """
        raise NotImplementedError
