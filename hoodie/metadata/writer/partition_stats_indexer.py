"""The records of ``partition_stats``: ranges of columns over all latest files of a partition.

If some columns of a partition have records and a column has none, readers skip the partition for filters on that
column. So each partition with rows has a record for each indexed column. Its range holds any value if the values of a
file are not known. A commit continues the records of a partition where it can, and else looks at all its latest files;
see `hoodie.metadata.writer.continued_ranges`.

Hudi: org.apache.hudi.metadata.index.partitionstats.PartitionStatsIndexer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.common.model.column_range import HoodieColumnRange, ValueType
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action
from hoodie.common.table.timeline.instant_time import is_before
from hoodie.metadata.records.column_stats_records import (
    FileColumnRanges,
    column_stats_entries,
    partition_stats_entries,
    range_of_any_values,
)
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_keys import partition_stats_keys
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.metadata.writer.continued_ranges import continued_entries
from hoodie.metadata.writer.file_statistics import (
    DataFile,
    FileStatisticsReader,
    statistics_of_change,
    written_files,
)
from hoodie.metadata.writer.indexed_columns import (
    IndexedColumns,
    indexed_columns_of_change,
    indexed_columns_of_table,
)
from hoodie.metadata.writer.latest_files import ChangedPartitions, latest_files
from hoodie.metadata.writer.partition_indexer import (
    CommittedChange,
    EntriesOnDriver,
    IndexingContext,
    InitialRecords,
    PartitionRecords,
)
from hoodie.metadata.writer.table_difference import CatchingUpIndexer, TableDifference
from hoodie.storage.storage import FileStatus

_COLUMN_STATS = MetadataPartitionType.COLUMN_STATS.partition_path
_PATH = MetadataPartitionType.PARTITION_STATS.partition_path
_PAYLOAD = MetadataPayload.COLUMN_STATS
_ADD_FILES = (*COMMIT_ACTIONS, Action.LOG_COMPACTION)
_MAX_PREFIXES = 100
"""Up to this number of partitions, statistics are looked up partition by partition."""


class PartitionStatsIndexer(CatchingUpIndexer):
    """Computes the records of ``partition_stats``.

    Memory: the statistics of all latest files of the partitions whose ranges do not follow from the stored ones.
    """

    def __init__(self, partition_path: str = _PATH) -> None:
        super().__init__(partition_path)

    def initial(
        self, context: IndexingContext, files: Mapping[str, Sequence[FileStatus]], instant_time: str
    ) -> InitialRecords:
        """See `MetadataPartitionIndexer.initial`."""
        columns = indexed_columns_of_table(context)
        latest = {path: found for path, found in latest_files(context, files).items() if found}
        entries = _Partitions(context, columns, latest).entries(is_tight=True)
        group_count = MetadataPartitionType.PARTITION_STATS.default_group_count or 1
        return InitialRecords(group_count, EntriesOnDriver(entries))

    def of_commit(self, context: IndexingContext, change: CommittedChange) -> PartitionRecords:
        """See `MetadataPartitionIndexer.of_commit`."""
        columns = indexed_columns_of_change(context, change)
        changed = ChangedPartitions.listed(context, change)
        paths = list(changed.files)
        hides_older = not may_complete_later(context, change)
        parts: list[MetadataEntries] = []
        if hides_older:
            parts.append(continued_entries(context, columns, change, changed.changes()))
        known = {path for part in parts for path in part.rows.column("file_name").to_pylist()}
        latest = changed.latest_after([path for path in paths if path not in known])
        parts.append(_Partitions(context, columns, latest, change).entries(is_tight=hides_older))
        found = MetadataEntries.joined(parts)
        if not hides_older:
            # A delete would hide the records of the older write as well. Ranges that are too wide do no harm.
            return EntriesOnDriver(found)
        return _with_deletes(found, columns, paths)

    def of_clean(self, context: IndexingContext, clean: HoodieCleanMetadata, instant_time: str) -> PartitionRecords:
        """See `MetadataPartitionIndexer.of_clean`. There are no records: a clean deletes no latest files."""
        return EntriesOnDriver(MetadataEntries.none(_PATH, _PAYLOAD))

    def of_difference(self, context: IndexingContext, difference: TableDifference) -> PartitionRecords:
        """See `CatchingUpIndexer.of_difference`."""
        changed = [path for path, _ in (*difference.slices, *difference.gone_files)]
        paths = sorted({*difference.new_files, *changed})
        columns, listed = indexed_columns_of_table(context), difference.after.files
        latest = latest_files(context, {path: listed.get(path, ()) for path in paths})
        # Writes that are pending have earlier times, and may be completed later: see may_complete_later.
        is_tight = not any(one.action in _ADD_FILES for one in context.table.active_timeline.filter_pending())
        return _with_deletes(_Partitions(context, columns, latest).entries(is_tight=is_tight), columns, paths)


def _with_deletes(found: MetadataEntries, columns: IndexedColumns, paths: list[str]) -> PartitionRecords:
    """The records of partitions, with deletes for those columns and partitions that have no rows any more."""
    keys = partition_stats_keys(
        pa.array([name for name in columns.written for _ in paths], pa.string()),
        pa.array(paths * len(columns.written), pa.string()),
    )
    keys_without_rows = keys.filter(pc.invert(pc.is_in(keys, value_set=found.keys)))
    return EntriesOnDriver(attrs.evolve(found, deleted_keys=keys_without_rows))


def may_complete_later(context: IndexingContext, change: CommittedChange) -> bool:
    """Whether an older write or log compaction is pending, whose log files are not in the records of this action.

    The metadata table merges by the times of requests. A record that replaces older ones would hide the records of that
    write once it is completed. A log compaction brings no new values, but counts them once more: its log file stands
    beside those that it merges.

    Args:
        context: The table without the action.
        change: The action.
    """
    return any(
        instant.action in _ADD_FILES and is_before(instant.requested_time, change.instant_time)
        for instant in context.table.active_timeline.filter_pending()
    )


@attrs.frozen(eq=False)
class _Rows:
    """Statistics of columns of files.

    Attributes:
        paths: The partition of each row (string).
        stats: Rows of `MetadataPayload.COLUMN_STATS`.
    """

    paths: pa.Array
    stats: pa.RecordBatch

    @classmethod
    def of(cls, files: Sequence[FileColumnRanges], stats_version: int) -> _Rows:
        """The rows for ranges of files."""
        stats = column_stats_entries(files, stats_version).rows
        return cls(pa.array([file.partition_path for file in files for _ in file.ranges], pa.string()), stats)

    @classmethod
    def joined(cls, parts: Sequence[_Rows]) -> _Rows:
        """The rows of several parts."""
        table = pa.Table.from_batches([part.stats for part in parts], _PAYLOAD.schema).combine_chunks()
        batches = table.to_batches()
        return cls(pa.concat_arrays([part.paths for part in parts]), batches[0] if batches else parts[0].stats)

    def of_files(self, files: Sequence[DataFile]) -> _Rows:
        """The rows of the given files."""
        wanted = pa.array([f"{path}/{name}" for path, name in files], pa.string())
        mask = pc.is_in(self._places(), value_set=wanted)
        return _Rows(self.paths.filter(mask), self.stats.filter(mask))

    def counts(self) -> dict[DataFile, tuple[int, int]]:
        """For each file, the number of its rows and of its columns with statistics."""
        table = pa.table(
            {"path": self.paths, "name": self.stats.column("file_name"), "count": self.stats.column("value_count")}
        )
        found = table.group_by(["path", "name"]).aggregate([("count", "max"), ("count", "count")])
        paths, names, rows, columns = (
            found.column(name).to_pylist() for name in ("path", "name", "count_max", "count_count")
        )
        return dict(zip(zip(paths, names, strict=True), zip(rows, columns, strict=True), strict=True))

    def columns_of(self, files: Sequence[DataFile]) -> dict[DataFile, set[str]]:
        """The columns of each of the given files that have statistics, in one pass over all rows."""
        found: dict[DataFile, set[str]] = {file: set() for file in files}
        own = self.of_files(files)
        names = (own.paths, own.stats.column("file_name"), own.stats.column("column_name"))
        for path, name, column in zip(*(part.to_pylist() for part in names), strict=True):
            found[path, name].add(column)
        return found

    def _places(self) -> pa.Array:
        return pc.binary_join_element_wise(self.paths, self.stats.column("file_name"), "/")


@attrs.frozen(eq=False)
class _Partitions:
    """The statistics of files, united by partition.

    Attributes:
        context: The table.
        columns: The indexed columns.
        latest: The latest files by partition.
        change: The action that wrote some of them; None if there is none.
    """

    context: IndexingContext
    columns: IndexedColumns
    latest: Mapping[str, Sequence[DataFile]]
    change: CommittedChange | None = None

    def entries(self, *, is_tight: bool) -> MetadataEntries:
        """The records of the partitions that have rows, or may have some.

        Args:
            is_tight: See `partition_stats_entries`.
        """
        files = [file for found in self.latest.values() for file in found]
        own = set(written_files(self.change.metadata)) if self.change is not None else set()
        parts = [self._stored([file for file in files if file not in own])]
        known = {file: count for file, (count, _) in parts[0].counts().items()}
        if self.change is not None and own.intersection(files):
            written = statistics_of_change(self.context, self.change, self.columns)
            parts.append(_Rows(written.partition_paths, written.entries.rows).of_files(files))
            known |= written.row_counts
        unread = set(files) - known.keys() - own
        if unread:
            reader = FileStatisticsReader.of(self.context.table, self.columns.written, self.columns.stats_version)
            read = reader.read(sorted(unread), self.context.engine)
            parts.append(_Rows(read.partition_paths, read.entries.rows))
            known |= read.row_counts
        rows = _Rows.joined([self._any_values(set(files) - known.keys()), *parts])
        rows = _Rows.joined([rows, self._nulls(files, known, rows)])
        return partition_stats_entries(rows.paths, rows.stats, is_tight=is_tight)

    def _stored(self, files: Sequence[DataFile]) -> _Rows:
        """The statistics that the metadata table has for files of earlier actions."""
        metadata, columns = self.context.metadata, self.columns.written
        if metadata is None or _COLUMN_STATS not in metadata.partitions or not columns or not files:
            return _Rows.of([], self.columns.stats_version)
        places = dict.fromkeys(path for path, _ in files)
        paths = list(places) if len(places) <= _MAX_PREFIXES else None
        found = metadata.read_column_stats(columns, paths).combine_chunks()
        batches = found.to_batches()
        if not batches:
            return _Rows.of([], self.columns.stats_version)
        stats = pa.RecordBatch.from_arrays(batches[0].columns[1:], schema=_PAYLOAD.schema)
        return _Rows(batches[0].column(0), stats).of_files(files)

    def _any_values(self, files: Collection[DataFile]) -> _Rows:
        """The widest ranges, for files whose values are not known."""
        version = self.columns.stats_version
        ranges = tuple(
            range_of_any_values(self.columns.schema, name, version, self.columns.in_millis)
            for name in self.columns.written
        )
        return _Rows.of([FileColumnRanges(*file, ranges) for file in sorted(files)], version)

    def _nulls(self, files: Sequence[DataFile], known: Mapping[DataFile, int], rows: _Rows) -> _Rows:
        """All-null ranges for columns that files lack because they are older than the columns."""
        counts, wanted = rows.counts(), self.columns.written
        lacking = [file for file in files if known.get(file, 0) and counts.get(file, (0, 0))[1] < len(wanted)]
        absent = []
        for file, names in rows.columns_of(lacking).items():
            count = known[file]
            missing = [name for name in wanted if name not in names]
            ranges = [HoodieColumnRange(name, ValueType.NULL, None, None, count, count) for name in missing]
            absent.append(FileColumnRanges(*file, tuple(ranges)))
        return _Rows.of(absent, self.columns.stats_version)
