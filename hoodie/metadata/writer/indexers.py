"""The indexer class of each partition of a metadata table. No other module chooses one."""

from __future__ import annotations

from hoodie.exception import HoodieNotSupportedException
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.writer.bloom_filters_indexer import BloomFiltersIndexer
from hoodie.metadata.writer.column_stats_indexer import ColumnStatsIndexer
from hoodie.metadata.writer.expression_index_indexer import ExpressionIndexIndexer
from hoodie.metadata.writer.files_indexer import FilesIndexer
from hoodie.metadata.writer.partition_indexer import MetadataPartitionIndexer
from hoodie.metadata.writer.partition_stats_indexer import PartitionStatsIndexer
from hoodie.metadata.writer.record_index_indexer import RecordIndexIndexer
from hoodie.metadata.writer.secondary_index_indexer import SecondaryIndexIndexer

_INDEXERS: dict[MetadataPartitionType, type[MetadataPartitionIndexer]] = {
    MetadataPartitionType.FILES: FilesIndexer,
    MetadataPartitionType.COLUMN_STATS: ColumnStatsIndexer,
    MetadataPartitionType.PARTITION_STATS: PartitionStatsIndexer,
    MetadataPartitionType.BLOOM_FILTERS: BloomFiltersIndexer,
    MetadataPartitionType.SECONDARY_INDEX: SecondaryIndexIndexer,
    MetadataPartitionType.RECORD_INDEX: RecordIndexIndexer,
    MetadataPartitionType.EXPRESSION_INDEX: ExpressionIndexIndexer,
}


def is_maintained(partition_path: str, table_version: int) -> bool:
    """Whether hoodie keeps a partition of a metadata table up to date.

    Args:
        partition_path: As ``hoodie.table.metadata.partitions`` lists it.
        table_version: The version of the table.
    """
    kind = MetadataPartitionType.of_path(partition_path)
    return kind in _INDEXERS and kind.is_in_version(table_version)


def indexer_of(partition_path: str, table_version: int) -> MetadataPartitionIndexer:
    """The indexer of a partition.

    Args:
        partition_path: See `is_maintained`.
        table_version: See `is_maintained`.

    Raises:
        HoodieNotSupportedException: hoodie does not keep such partitions up to date.
    """
    kind = MetadataPartitionType.of_path(partition_path)
    if kind is None or not is_maintained(partition_path, table_version):
        raise HoodieNotSupportedException(
            f"hoodie does not keep the partition {partition_path} of a metadata table of version {table_version} up "
            "to date"
        )
    return _INDEXERS[kind](partition_path)
