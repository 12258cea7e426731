"""Records of the partition ``files``: the files that each action wrote and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.metadata.records.file_listing import FILE_LISTING
from hoodie.metadata.records.file_records import (
    bootstrap_files_entries,
    clean_files_entries,
    commit_files_entries,
)
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.writer.partition_indexer import (
    CommittedChange,
    EntriesOnDriver,
    IndexingContext,
    InitialRecords,
    MetadataPartitionIndexer,
    PartitionRecords,
)
from hoodie.storage.storage import FileStatus

_KIND = MetadataPartitionType.FILES


class FilesIndexer(MetadataPartitionIndexer):
    """Computes the records of ``files``; see `hoodie.metadata.records.file_records`.

    Hudi: org.apache.hudi.metadata.index.files.FilesIndexer.
    """

    def initial(
        self, context: IndexingContext, files: Mapping[str, Sequence[FileStatus]], instant_time: str
    ) -> InitialRecords:
        """See `MetadataPartitionIndexer.initial`."""
        flat = [(path, status.name, status.size_bytes) for path, listed in files.items() for status in listed]
        listing = pa.table(
            [
                pa.array([row[0] for row in flat], pa.string()),
                pa.array([row[1] for row in flat], pa.string()),
                pa.array([row[2] for row in flat], pa.int64()),
                pa.repeat(False, len(flat)),
            ],
            schema=FILE_LISTING,
        )
        return InitialRecords(_KIND.default_group_count or 1, EntriesOnDriver(bootstrap_files_entries(listing, files)))

    def of_commit(self, context: IndexingContext, change: CommittedChange) -> PartitionRecords:
        """See `MetadataPartitionIndexer.of_commit`."""
        return EntriesOnDriver(commit_files_entries(change.metadata))

    def of_clean(self, context: IndexingContext, clean: HoodieCleanMetadata, instant_time: str) -> PartitionRecords:
        """See `MetadataPartitionIndexer.of_clean`."""
        return EntriesOnDriver(clean_files_entries(clean))
