"""The kinds of partitions of a metadata table, and their file groups."""

from __future__ import annotations

import math
import re
from enum import Enum, IntEnum

import numpy as np

from hoodie.exception import HoodieConfigException, HoodieNotSupportedException
from hoodie.keygen.partition_path_encoding import escape_path_name

_LATER_VERSION = 8
_FILE_ID = re.compile(r"(?P<prefix>.*-)(?P<number>[0-9]{4,})(?:-0)?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9_]{1,100}")
_MIN_RECORD_INDEX_GROUPS = 10
_MAX_RECORD_INDEX_GROUPS = 10_000
_RECORD_INDEX_GROWTH = 2.0
_RECORD_INDEX_GROUP_BYTES = 1 << 30
_RECORD_INDEX_ENTRY_BYTES = 48


class MetadataRecordType(IntEnum):
    """The type of a record of a metadata table; the value is that of its field ``type``."""

    ALL_PARTITIONS = 1
    FILES = 2
    COLUMN_STATS = 3
    BLOOM_FILTERS = 4
    RECORD_INDEX = 5
    PARTITION_STATS = 6
    SECONDARY_INDEX = 7


class MetadataPartitionType(Enum):
    """The kind of a partition of a metadata table.

    ======================  =====================  ===================  ===========  ========
    kind                    partition path         file ids             records      versions
    ======================  =====================  ===================  ===========  ========
    ``FILES``               files                  files-0000-0         1, 2         all
    ``COLUMN_STATS``        column_stats           col-stats-0000-0     3            all
    ``BLOOM_FILTERS``       bloom_filters          bloom-filters-0000-0 4            all
    ``RECORD_INDEX``        record_index           record-index-0000-0  5            all
    ``PARTITION_STATS``     partition_stats        partition-stats-...  6            8, 9
    ``SECONDARY_INDEX``     secondary_index_NAME   secondary-index-...  7            8, 9
    ``EXPRESSION_INDEX``    expr_index_NAME        expr-index-...       3, 4, 6      8, 9
    ======================  =====================  ===================  ===========  ========

    Attributes:
        partition_path: The path of the partition; for kinds with names, the beginning of the path before the name.
        file_id_prefix: The beginning of its file ids.
        record_types: The types of its records.
        default_group_count: The number of file groups that Hudi makes by default; None where it depends on the records,
            see `record_index_group_count`.

    Hudi: org.apache.hudi.metadata.MetadataPartitionType. Differs: its ALL_PARTITIONS is a type of records here, see
    `MetadataRecordType`.
    """

    FILES = "files", "files-", (MetadataRecordType.ALL_PARTITIONS, MetadataRecordType.FILES), 1
    COLUMN_STATS = "column_stats", "col-stats-", (MetadataRecordType.COLUMN_STATS,), 2
    BLOOM_FILTERS = "bloom_filters", "bloom-filters-", (MetadataRecordType.BLOOM_FILTERS,), 4
    RECORD_INDEX = "record_index", "record-index-", (MetadataRecordType.RECORD_INDEX,), None
    PARTITION_STATS = "partition_stats", "partition-stats-", (MetadataRecordType.PARTITION_STATS,), 1
    SECONDARY_INDEX = "secondary_index_", "secondary-index-", (MetadataRecordType.SECONDARY_INDEX,), None
    EXPRESSION_INDEX = (
        "expr_index_",
        "expr-index-",
        (MetadataRecordType.COLUMN_STATS, MetadataRecordType.BLOOM_FILTERS, MetadataRecordType.PARTITION_STATS),
        2,
    )

    def __init__(
        self,
        partition_path: str,
        file_id_prefix: str,
        record_types: tuple[MetadataRecordType, ...],
        default_group_count: int | None,
    ) -> None:
        self.partition_path = partition_path
        self.file_id_prefix = file_id_prefix
        self.record_types = record_types
        self.default_group_count = default_group_count

    @classmethod
    def of_path(cls, partition_path: str) -> MetadataPartitionType | None:
        """The kind of a partition of a metadata table; None for one that hoodie does not know.

        Args:
            partition_path: As ``hoodie.table.metadata.partitions`` lists it.
        """
        for kind in cls:
            is_path_of_kind = partition_path == kind.partition_path
            if (kind.is_named and partition_path.startswith(kind.partition_path) and not is_path_of_kind) or (
                is_path_of_kind and not kind.is_named
            ):
                return kind
        return None

    @property
    def is_named(self) -> bool:
        """Whether a metadata table may have several partitions of the kind, each with an index name at the end
        of its path.
        """
        return self in (MetadataPartitionType.SECONDARY_INDEX, MetadataPartitionType.EXPRESSION_INDEX)

    def is_in_version(self, table_version: int) -> bool:
        """Whether tables of a version may have partitions of the kind."""
        later = (
            MetadataPartitionType.PARTITION_STATS,
            MetadataPartitionType.SECONDARY_INDEX,
            MetadataPartitionType.EXPRESSION_INDEX,
        )
        return table_version >= _LATER_VERSION or self not in later

    def file_id(self, number: int, partition_path: str | None = None, data_partition: str | None = None) -> str:
        """The file id of a file group.

            COLUMN_STATS.file_id(1)                                      col-stats-0001-0
            SECONDARY_INDEX.file_id(0, "secondary_index_idx_name")       secondary-index-idx-name-0000-0
            RECORD_INDEX.file_id(0, data_partition="day=2026-01-02")     record-index-day%3D2026%2D01%2D02-0000-0

        Args:
            number: The number of the file group, from 0.
            partition_path: The path of the partition; needed for kinds whose partitions have names.
            data_partition: The partition of the table that this part of a partitioned record index covers.

        Raises:
            ValueError: The path is missing, or that of another kind.
        """
        prefix = self.file_id_prefix
        if self.is_named:
            if partition_path is None or MetadataPartitionType.of_path(partition_path) is not self:
                raise ValueError(f"{partition_path!r} is no partition of the kind {self.partition_path}<name>")
            prefix = f"{partition_path.replace('_', '-')}-"
        elif data_partition is not None:
            # Hudi escapes these two as well: its file ids are split at hyphens.
            escaped = escape_path_name(data_partition).replace("_", "%5F").replace("-", "%2D")
            prefix = f"{prefix}{escaped}-"
        return f"{prefix}{number:04d}-0"


def file_group_number(file_id: str) -> int:
    """The number of a file group within its partition, or within its part of a partitioned record index.

    Hudi 0.10 wrote file ids without the last ``-0``.

    Raises:
        ValueError: It is not a file id of a metadata table.
    """
    match = _FILE_ID.fullmatch(file_id)
    if match is None:
        raise ValueError(f"{file_id!r} is no file id of a metadata table")
    return int(match["number"])


def require_supported(partition_path: str, table_version: int) -> MetadataPartitionType:
    """The kind of a partition, if tables of the version may have it.

    Raises:
        HoodieNotSupportedException: hoodie does not know the kind, or tables of that version do not have it.
    """
    kind = MetadataPartitionType.of_path(partition_path)
    if kind is None or not kind.is_in_version(table_version):
        raise HoodieNotSupportedException(
            f"hoodie does not know the partition {partition_path!r} of a metadata table of version {table_version}"
        )
    return kind


def record_index_group_count(
    record_count: int, minimum: int = _MIN_RECORD_INDEX_GROUPS, maximum: int = _MAX_RECORD_INDEX_GROUPS
) -> int:
    """The number of file groups of a new record index or secondary index.

    A group of a gigabyte has room for twice its entries, at 48 bytes each.

    Args:
        record_count: The rows of the table.
        minimum: ``hoodie.metadata.record.index.min.filegroup.count``.
        maximum: ``hoodie.metadata.record.index.max.filegroup.count``.

    Hudi: HoodieTableMetadataUtil.estimateFileGroupCount, which computes with floats of 32 bits.
    """
    if minimum == maximum and minimum:
        return minimum
    expected = math.ceil(np.float32(record_count) * np.float32(_RECORD_INDEX_GROWTH))
    estimated = expected // (_RECORD_INDEX_GROUP_BYTES // _RECORD_INDEX_ENTRY_BYTES)
    return max(1, min(max(estimated, minimum), maximum))


def is_secondary_index(partition_path: str) -> bool:
    """Whether a partition of a metadata table is a secondary index.

    Args:
        partition_path: The partition.
    """
    return MetadataPartitionType.of_path(partition_path) is MetadataPartitionType.SECONDARY_INDEX


def is_expression_index(partition_path: str) -> bool:
    """Whether a partition of a metadata table is an expression index.

    Args:
        partition_path: The partition.
    """
    return MetadataPartitionType.of_path(partition_path) is MetadataPartitionType.EXPRESSION_INDEX


def secondary_index_partition(name: object) -> str:
    """The partition of an index.

        secondary_index_partition("idx_rider")    "secondary_index_idx_rider"

    Args:
        name: Its name, with or without the prefix.

    Raises:
        HoodieConfigException: It is no name.
    """
    prefix = MetadataPartitionType.SECONDARY_INDEX.partition_path
    if not isinstance(name, str) or not _NAME.fullmatch(name.removeprefix(prefix)):
        raise HoodieConfigException(
            f"the name of an index is {name!r}: give one of letters, digits and underscores, such as idx_rider"
        )
    return name if name.startswith(prefix) else f"{prefix}{name}"
