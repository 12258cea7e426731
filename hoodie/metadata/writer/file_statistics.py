"""The statistics of columns of data files, read on the driver or by tasks.

Hudi: HoodieTableMetadataUtil.{convertFilesToColumnStatsRecords, translateWriteStatToFileStats}.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import attrs
import pyarrow as pa

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.column_range import StoredColumnRanges, WrittenColumnRanges
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.view.committed_log_files import CommittedLogFiles
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieNotSupportedException
from hoodie.merge.merge_spec import MergeSpec
from hoodie.metadata.reader.stored_column_ranges import load_stored_column_ranges
from hoodie.metadata.records.column_stats_records import (
    FileColumnRanges,
    column_stats_entries,
    empty_column_ranges,
    has_storable_ranges,
)
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.writer.indexed_columns import IndexedColumns
from hoodie.metadata.writer.partition_indexer import CommittedChange, IndexingContext
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_path import file_name, join

DataFile = tuple[str, str]
"""Partition path and name of a file."""
FILES_ON_DRIVER = 32
"""Up to this number of files is read on the driver: a job of tasks takes longer."""
_MAX_ITEMS_PER_CORE = 8
_PARQUET = ".parquet"
_ResultT = TypeVar("_ResultT")


@attrs.frozen(eq=False)
class FileStatistics:
    """The statistics of several files.

    Attributes:
        entries: Their records of ``column_stats``.
        partition_paths: The partition of each record (string).
        row_counts: The number of rows of each file whose values are known.
    """

    entries: MetadataEntries
    partition_paths: pa.Array
    row_counts: Mapping[DataFile, int]

    @classmethod
    def joined(cls, parts: Sequence[FileStatistics]) -> FileStatistics:
        """The statistics of one or more parts, which have no file in common."""
        entries = MetadataEntries.joined([part.entries for part in parts])
        paths = pa.concat_arrays([part.partition_paths for part in parts])
        return cls(entries, paths, {file: count for part in parts for file, count in part.row_counts.items()})


@attrs.frozen
class FileStatisticsReader:
    """Reads statistics of files; picklable.

    Attributes:
        storage: The storage of the table.
        base_path: The table's folder.
        columns: The columns.
        stats_version: 6, 8 or 9: the form of the records.
        has_whole_rows: Whether a row of a log file replaces the older row as a whole. Otherwise the values of a row may
            come from several files, and log files get no statistics: readers skip a slice when none of its files alone
            can hold all values of a filter.
        committed: The sizes of completed log files, which tell damaged files from torn ones.
    """

    storage: HoodieStorage
    base_path: str
    columns: tuple[str, ...]
    stats_version: int
    has_whole_rows: bool
    committed: CommittedLogFiles | None = None

    @classmethod
    def of(cls, table: TableSnapshot, columns: Sequence[str], stats_version: int) -> FileStatisticsReader:
        """The reader for a table.

        Args:
            table: The table.
            columns: The columns.
            stats_version: The form of the records.
        """
        whole, committed = merges_whole_rows(table), table.committed_log_files
        return cls(table.storage, table.base_path, tuple(columns), stats_version, whole, committed)

    def read(
        self,
        files: Sequence[DataFile],
        engine: HoodieEngineContext,
        told: Mapping[DataFile, WrittenColumnRanges] | None = None,
    ) -> FileStatistics:
        """The statistics of the given files, each once.

        Memory: the records of the files.

        Args:
            files: The files.
            engine: Reads many files by tasks.
            told: The ranges of log files, where the tasks told them that wrote the files: these need not be read.

        Raises:
            HoodieException: A file is missing or damaged, or storage failed.
        """
        known = {
            file: ranges
            for file in files
            if told and file in told and (ranges := told[file].of_columns(self.columns, self.stats_version)) is not None
        }
        parts = read_by_batches([file for file in files if file not in known], self.read_batch, engine)
        if known:
            parts.append(self._statistics([self._of_file(file, ranges) for file, ranges in known.items()]))
        return FileStatistics.joined(parts) if parts else self.read_batch([])

    def read_batch(self, files: Sequence[DataFile]) -> FileStatistics:
        """The statistics of the given files, read in this process; see `read`."""
        return self._statistics(map_concurrently(self._read_file, files))

    def _statistics(self, found: Iterable[tuple[FileColumnRanges, int] | None]) -> FileStatistics:
        """The statistics of files by their ranges and numbers of rows."""
        ranges_and_counts = [one for one in found if one is not None]
        entries = column_stats_entries([file for file, _ in ranges_and_counts], self.stats_version)
        paths = pa.array([file.partition_path for file, _ in ranges_and_counts for _ in file.ranges], pa.string())
        counts = {(file.partition_path, file.file_name): count for file, count in ranges_and_counts}
        return FileStatistics(entries, paths, counts)

    def _read_file(self, file: DataFile) -> tuple[FileColumnRanges, int] | None:
        """The ranges of a file, and its number of rows; None if its values are not known."""
        if self._is_unknown(file):
            return None
        path = join(self.base_path, *file)
        stored = load_stored_column_ranges(self.storage, path, self.stats_version, self.columns, self.committed)
        return None if stored is None else self._of_file(file, stored)

    def _is_unknown(self, file: DataFile) -> bool:
        """Whether values of rows may come from several files, one of which is this."""
        return not self.has_whole_rows and not is_base_file(file)

    def _of_file(self, file: DataFile, stored: StoredColumnRanges) -> tuple[FileColumnRanges, int] | None:
        if self._is_unknown(file):
            return None
        ranges = stored.ranges
        if not stored.row_count and not is_base_file(file):
            ranges = tuple(empty_column_ranges(self.columns))
        file_ranges = FileColumnRanges(*file, ranges)
        return (file_ranges, stored.row_count) if has_storable_ranges(file_ranges, self.stats_version) else None


def statistics_of_change(context: IndexingContext, change: CommittedChange, columns: IndexedColumns) -> FileStatistics:
    """The statistics of the files that an action wrote. They are read once for all indexers.

    Args:
        context: The table.
        change: The action.
        columns: The columns of its files.

    Raises:
        HoodieException: A file is missing or damaged, or storage failed.
    """
    key = (FileStatistics, change.instant_time)
    found = context.found.get(key)
    if not isinstance(found, FileStatistics):
        reader = FileStatisticsReader.of(context.table, columns.written, columns.stats_version)
        context.found[key] = found = reader.read(written_files(change.metadata), context.engine, change.column_ranges)
    return found


def read_by_batches(
    files: Sequence[DataFile], read: Callable[[Sequence[DataFile]], _ResultT], engine: HoodieEngineContext
) -> list[_ResultT]:
    """Read files in batches: a few files on the driver, many by tasks, whose number is bounded.

    Args:
        files: The files.
        read: Reads a batch; picklable.
        engine: Runs the tasks.
    """
    if len(files) <= FILES_ON_DRIVER:
        return [read(files)] if files else []
    size = max(FILES_ON_DRIVER, math.ceil(len(files) / (_MAX_ITEMS_PER_CORE * engine.default_parallelism)))
    batches = [list(files[start : start + size]) for start in range(0, len(files), size)]
    return engine.run_tasks(batches, _BatchTask(read))


@attrs.frozen
class _BatchTask(Generic[_ResultT]):
    read: Callable[[Sequence[DataFile]], _ResultT]

    def __call__(self, task: TaskIdentity, files: Sequence[DataFile]) -> _ResultT:
        return self.read(files)


def is_base_file(file: DataFile) -> bool:
    """Whether a file is a base file with a footer."""
    return file[1].endswith(_PARQUET)


def has_statistics(file: DataFile) -> bool:
    """Whether a file is a data file that can have statistics: a base file, or a log file of records."""
    log_file = parse_log_file_name(file[1])
    return is_base_file(file) if log_file is None else not log_file.is_archive and not log_file.is_cdc


def data_files_of(listing: Mapping[str, Iterable[FileStatus]]) -> list[DataFile]:
    """The data files of a listing that can have statistics.

    Args:
        listing: Files by partition.
    """
    found = [(path, status.name) for path, statuses in listing.items() for status in statuses]
    return list(filter(has_statistics, found))


def written_files(metadata: HoodieCommitMetadata) -> list[DataFile]:
    """The data files that an action wrote, each once.

    Args:
        metadata: Its metadata.
    """
    found = [(stat.partition_path, file_name(stat.path)) for stat in metadata.write_stats if stat.path]
    return list(filter(has_statistics, dict.fromkeys(found)))


def cleaned_files(clean: HoodieCleanMetadata) -> list[DataFile]:
    """The data files that a clean deleted, or was to delete.

    Args:
        clean: Its metadata.
    """
    found = [
        (path, file_name(name))
        for path, part in clean.partition_metadata.items()
        for name in (*part.delete_path_patterns, *part.success_delete_files)
    ]
    return list(filter(has_statistics, dict.fromkeys(found)))


def merges_whole_rows(table: TableSnapshot) -> bool:
    """Whether a row of a log file replaces the older row of its key as a whole; see `FileStatisticsReader`.

    Args:
        table: The table.
    """
    table_config = table.table_config
    if table_config.table_type is HoodieTableType.COPY_ON_WRITE:
        return True
    try:
        spec = MergeSpec.from_table_config(table_config)
    except HoodieNotSupportedException:
        # hoodie does not have the payload class of the table.
        return False
    return spec.merger is None and spec.rules.field_rule is None and not spec.rules.combines_fields
