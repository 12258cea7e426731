"""The records of ``bloom_filters``: the bloom filters in the footers of base files.

Hudi: org.apache.hudi.metadata.index.bloomfilters.BloomFiltersIndexer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.io.parquet.parquet_reader import read_footer
from hoodie.metadata.records.bloom_filter_records import (
    FileBloomFilter,
    bloom_filter_entries,
    deleted_bloom_filter_entries,
)
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.writer.file_statistics import (
    DataFile,
    cleaned_files,
    data_files_of,
    is_base_file,
    read_by_batches,
    written_files,
)
from hoodie.metadata.writer.partition_indexer import (
    CommittedChange,
    EntriesOnDriver,
    IndexingContext,
    InitialRecords,
    PartitionRecords,
)
from hoodie.metadata.writer.table_difference import CatchingUpIndexer, TableDifference
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_path import join


class BloomFiltersIndexer(CatchingUpIndexer):
    """Computes the records of ``bloom_filters``.

    Memory: the filters of the files of an action, by default 430 kB each.
    """

    def __init__(self, partition_path: str = MetadataPartitionType.BLOOM_FILTERS.partition_path) -> None:
        super().__init__(partition_path)

    def initial(
        self, context: IndexingContext, files: Mapping[str, Sequence[FileStatus]], instant_time: str
    ) -> InitialRecords:
        """See `MetadataPartitionIndexer.initial`."""
        entries = self._entries(context, data_files_of(files), instant_time)
        return InitialRecords(context.config.bloom_filter_file_groups, EntriesOnDriver(entries))

    def of_commit(self, context: IndexingContext, change: CommittedChange) -> PartitionRecords:
        """See `MetadataPartitionIndexer.of_commit`."""
        return EntriesOnDriver(self._entries(context, written_files(change.metadata), change.instant_time))

    def of_clean(self, context: IndexingContext, clean: HoodieCleanMetadata, instant_time: str) -> PartitionRecords:
        """See `MetadataPartitionIndexer.of_clean`."""
        files = list(filter(is_base_file, cleaned_files(clean)))
        version = context.table.table_config.table_version
        return EntriesOnDriver(deleted_bloom_filter_entries(files, instant_time, version))

    def of_difference(self, context: IndexingContext, difference: TableDifference) -> PartitionRecords:
        """See `CatchingUpIndexer.of_difference`."""
        last, version = difference.after.last_instant, context.table.table_config.table_version
        found = self._entries(context, data_files_of(difference.new_files), last)
        gone_base_files = list(filter(is_base_file, difference.gone_files))
        return EntriesOnDriver(
            MetadataEntries.joined([found, deleted_bloom_filter_entries(gone_base_files, last, version)])
        )

    @staticmethod
    def _entries(context: IndexingContext, files: Sequence[DataFile], instant_time: str) -> MetadataEntries:
        read = _FilterReader(context.table.storage, context.table.base_path, instant_time)
        parts = read_by_batches(list(filter(is_base_file, files)), read, context.engine)
        return MetadataEntries.joined(parts or [read([])])


@attrs.frozen
class _FilterReader:
    """Reads the filters of a batch of base files; picklable."""

    storage: HoodieStorage
    base_path: str
    instant_time: str

    def __call__(self, files: Sequence[DataFile]) -> MetadataEntries:
        return bloom_filter_entries(list(map_concurrently(self._read_file, files)), self.instant_time)

    def _read_file(self, file: DataFile) -> FileBloomFilter:
        return FileBloomFilter(*file, read_footer(self.storage, join(self.base_path, *file)))
