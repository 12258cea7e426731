"""The records of ``column_stats``: ranges of columns of base files and log files.

Hudi: org.apache.hudi.metadata.index.columnstats.ColumnStatsIndexer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition
from hoodie.metadata.records.column_stats_records import deleted_column_stats_entries
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.writer.file_statistics import (
    FileStatisticsReader,
    cleaned_files,
    data_files_of,
    has_statistics,
    statistics_of_change,
)
from hoodie.metadata.writer.indexed_columns import indexed_columns_of_change, indexed_columns_of_table
from hoodie.metadata.writer.partition_indexer import (
    CommittedChange,
    EntriesOnDriver,
    IndexingContext,
    InitialRecords,
    PartitionRecords,
)
from hoodie.metadata.writer.table_difference import CatchingUpIndexer, TableDifference
from hoodie.storage.storage import FileStatus


class ColumnStatsIndexer(CatchingUpIndexer):
    """Computes the records of ``column_stats``.

    Memory: the records of the files of an action, 200 bytes for each column of each file.
    """

    def __init__(self, partition_path: str = MetadataPartitionType.COLUMN_STATS.partition_path) -> None:
        super().__init__(partition_path)

    def definition(self, context: IndexingContext) -> HoodieIndexDefinition:
        """See `MetadataPartitionIndexer.definition`."""
        return indexed_columns_of_table(context, is_new=True).definition

    def definition_after(self, context: IndexingContext, change: CommittedChange) -> HoodieIndexDefinition | None:
        """See `MetadataPartitionIndexer.definition_after`."""
        before = context.definitions.get(self.partition_path)
        after = indexed_columns_of_change(context, change).definition
        return after if before is not None and before.source_fields != after.source_fields else None

    def initial(
        self, context: IndexingContext, files: Mapping[str, Sequence[FileStatus]], instant_time: str
    ) -> InitialRecords:
        """See `MetadataPartitionIndexer.initial`."""
        columns = indexed_columns_of_table(context, is_new=True)
        reader = FileStatisticsReader.of(context.table, columns.written, columns.stats_version)
        found = reader.read(data_files_of(files), context.engine)
        return InitialRecords(context.config.column_stats_file_groups, EntriesOnDriver(found.entries))

    def of_commit(self, context: IndexingContext, change: CommittedChange) -> PartitionRecords:
        """See `MetadataPartitionIndexer.of_commit`."""
        columns = indexed_columns_of_change(context, change)
        return EntriesOnDriver(statistics_of_change(context, change, columns).entries)

    def of_clean(self, context: IndexingContext, clean: HoodieCleanMetadata, instant_time: str) -> PartitionRecords:
        """See `MetadataPartitionIndexer.of_clean`."""
        columns = indexed_columns_of_table(context).written
        version = context.table.table_config.table_version
        return EntriesOnDriver(deleted_column_stats_entries(cleaned_files(clean), columns, version))

    def of_difference(self, context: IndexingContext, difference: TableDifference) -> PartitionRecords:
        """See `CatchingUpIndexer.of_difference`."""
        columns = indexed_columns_of_table(context, is_new=True)
        reader = FileStatisticsReader.of(context.table, columns.written, columns.stats_version)
        found = reader.read(data_files_of(difference.new_files), context.engine).entries
        version = context.table.table_config.table_version
        gone_files = list(filter(has_statistics, difference.gone_files))
        return EntriesOnDriver(
            MetadataEntries.joined([found, deleted_column_stats_entries(gone_files, columns.written, version)])
        )
