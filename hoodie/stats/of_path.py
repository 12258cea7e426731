"""Numbers of a table by its path: one function for each picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hoodie.common.model.range_overlap import Overlap
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.stats.commit_numbers import Amplification, Growth, TimelineSpan
from hoodie.stats.file_numbers import HeldBytes, PartitionSize, SizeBin, SizeSpread, SliceSize
from hoodie.stats.table_numbers import TableNumbers
from hoodie.storage.storage_options import StorageOptions


def timeline(base_path: str, *, storage_options: StorageOptions | None = None) -> SummaryTable[TimelineSpan]:
    """The instants of the active timeline, from request to completion, the oldest first.

    Args:
        base_path: The table's folder.
        storage_options: Options of the storage.

    Raises:
        TableNotFoundException: There is no table at that path.
        HoodieCorruptedDataException: Commit metadata is damaged.
        HoodieIOException: Storage failed.
    """
    return numbers_of(base_path, storage_options).timeline()


def growth(base_path: str, *, storage_options: StorageOptions | None = None) -> SummaryTable[Growth]:
    """The completed writes, archived ones too, and the rows and bytes of the table after each; the oldest first.

    They are computed from commit metadata. File groups that no commit of the timeline or the archive wrote are missing.

    Args:
        base_path: The table's folder.
        storage_options: Options of the storage.

    Raises:
        HoodieException: See `timeline`.
    """
    return numbers_of(base_path, storage_options).growth()


def amplification(base_path: str, *, storage_options: StorageOptions | None = None) -> SummaryTable[Amplification]:
    """The completed writes of the active timeline, and the rows and bytes that each wrote for a changed row.

    Args:
        base_path: The table's folder.
        storage_options: Options of the storage.

    Raises:
        HoodieException: See `timeline`.

    Hudi: org.apache.spark.sql.hudi.command.procedures.StatsWriteAmplificationProcedure. Differs: has delta commits too.
    """
    return numbers_of(base_path, storage_options).amplification()


def sizes(base_path: str, *, storage_options: StorageOptions | None = None) -> SummaryTable[SizeBin]:
    """The files of the newest slices by size, in ranges from a power of two to the next.

    Args:
        base_path: The table's folder.
        storage_options: Options of the storage.

    Raises:
        HoodieException: See `timeline`.
    """
    return numbers_of(base_path, storage_options).sizes()


def sizes_by(base_path: str, group: str, *, storage_options: StorageOptions | None = None) -> SummaryTable[SizeSpread]:
    """The spread of file sizes by group, then of all files.

    Args:
        base_path: The table's folder.
        group: ``commit``: all committed files by the instant in their names; ``partition``: the files of the newest
            slices.
        storage_options: Options of the storage.

    Raises:
        HoodieConfigException: The group has another name.
        HoodieException: Other ones are those of `timeline`.

    Hudi: org.apache.spark.sql.hudi.command.procedures.StatsFileSizeProcedure. Differs: leaves out files that no
    completed commit wrote, and is sorted.
    """
    return numbers_of(base_path, storage_options).sizes_by(group)


def partitions(base_path: str, *, storage_options: StorageOptions | None = None) -> SummaryTable[PartitionSize]:
    """The partitions, the largest first, with what the active timeline wrote into them.

    Args:
        base_path: The table's folder.
        storage_options: Options of the storage.

    Raises:
        HoodieException: See `timeline`.
    """
    return numbers_of(base_path, storage_options).partitions()


def slices(base_path: str, *, storage_options: StorageOptions | None = None) -> SummaryTable[SliceSize]:
    """The newest slices, those with the most bytes of log files first: what compaction would merge.

    Args:
        base_path: The table's folder.
        storage_options: Options of the storage.

    Raises:
        HoodieException: See `timeline`.
    """
    return numbers_of(base_path, storage_options).slices_by_size()


def overlap(
    base_path: str, columns: Sequence[str] = (), *, storage_options: StorageOptions | None = None
) -> SummaryTable[Overlap]:
    """The number of files of a partition whose ranges cover a value of a column: what a clustering improves.

    Ranges come from the column statistics of the metadata table, if it has the column for all file slices. Else the
    footers of at most 1,000 base files are read.

    Args:
        base_path: The table's folder.
        columns: The columns, those in structs as a path with dots; by default those of key and ordering.
        storage_options: Options of the storage.

    Raises:
        HoodieSchemaException: The table lacks one of them.
        HoodieException: Other ones are those of `timeline`.
    """
    return numbers_of(base_path, storage_options).overlap(columns)


def versions(
    base_path: str, *, properties: Mapping[str, Any] | None = None, storage_options: StorageOptions | None = None
) -> SummaryTable[HeldBytes]:
    """The bytes of the newest slices, of those that savepoints hold, and of those that a clean would delete or keep.

    Args:
        base_path: The table's folder.
        properties: The writers' properties ``hoodie.clean.*``.
        storage_options: Options of the storage.

    Raises:
        HoodieConfigException: A property is unknown or has a bad value.
        HoodieException: Other ones are those of `timeline`.
    """
    return numbers_of(base_path, storage_options, properties).versions()


def numbers_of(
    base_path: str, storage_options: StorageOptions | None = None, properties: Mapping[str, Any] | None = None
) -> TableNumbers:
    """All numbers of a table.

    Args:
        base_path: The table's folder.
        storage_options: Options of the storage.
        properties: The writers' properties.

    Raises:
        TableNotFoundException: There is no table at that path.
        HoodieConfigException: A property is unknown or has a bad value.
        HoodieIOException: Storage failed.
    """
    config = HoodieWriteConfig.from_properties(base_path, dict(properties or {}), storage_options)
    return TableNumbers(TableSnapshot.load(base_path, storage_options), config)
