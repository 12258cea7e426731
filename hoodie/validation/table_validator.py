"""Comparison of a metadata table with its table: the files, their footers, and the keys of the rows.

Hudi: org.apache.hudi.utilities.HoodieMetadataTableValidator. Differs: compares every entry with storage, not the
answers of two readers with each other, and needs no engine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieException, HoodieIndexException, HoodieNotSupportedException
from hoodie.merge.record_merger import HoodieRecordMerger
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.metadata_record_reader import MetadataRecords, SliceQuery, read_records
from hoodie.metadata.reader.misplaced_times import all_misplaced_times
from hoodie.metadata.records.file_listing import listing_of, partitions_of
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_options import StorageOptions
from hoodie.table.action.clean.pending_cleans import files_being_cleaned
from hoodie.table.action.rollback.instant_files import stored_blocks
from hoodie.validation.index_validation import validate_record_index, validate_secondary_index
from hoodie.validation.instants_of_nothing import TIMELINE, instants_of_nothing
from hoodie.validation.metadata_validation import Findings, MetadataDifferenceKind, MetadataTableValidation
from hoodie.validation.statistics_validation import (
    StoredFile,
    validate_bloom_filters,
    validate_column_stats,
    validate_partition_stats,
)

_FILES = MetadataPartitionType.FILES.partition_path
_COLUMN_STATS = MetadataPartitionType.COLUMN_STATS.partition_path


def validate(
    base_path: str,
    partitions: str | Collection[str] | None = None,
    *,
    merger: HoodieRecordMerger | None = None,
    storage_options: StorageOptions | None = None,
) -> MetadataTableValidation:
    """Compare the metadata table of a table with its files, their footers, and the keys of its rows.

    ====================  ==========================================================================================
    partition             is compared with
    ====================  ==========================================================================================
    ``files``             the folders, and the names and sizes of all files of completed instants
    ``column_stats``      the footers of base files, and the rows of log files
    ``partition_stats``   the statistics of the latest files of each partition, with those that ``column_stats`` lacks
    ``bloom_filters``     the footers of base files
    ``record_index``      the keys of all rows, and the file groups that hold them
    ``secondary_index``   the keys and values of all rows
    ``timeline``          the instants of the table, and the times of its own files; always compared
    ====================  ==========================================================================================

    All keys must also be in the file group where look-ups search for them. Nothing is changed. Files that a pending
    clean has deleted are no differences. Others that a writer deletes during the validation may show up: call again.

    Memory: one partition of the metadata table at a time; for an index also all keys of the table.

    Args:
        base_path: The table's folder.
        partitions: The partition of the metadata table to validate, or several; None for all that are listed.
        merger: The record merger of a table that merges by one. Its log files cannot be read without it.
        storage_options: Options of the storage.

    Returns:
        The differences; none if the metadata table is right, or the table has none.

    Raises:
        TableNotFoundException: There is no table.
        HoodieIndexException: The metadata table does not have such a partition.
        HoodieNotSupportedException: It has a feature that hoodie cannot read.
        HoodieCorruptedDataException: A file of the table's timeline is damaged.
        HoodieIOException: Storage failed.
    """
    table = TableSnapshot.load(base_path, storage_options)
    table.table_config.check_readable()
    return _Validation(table, _chosen(table, partitions), merger).run()


def _chosen(table: TableSnapshot, partitions: str | Collection[str] | None) -> list[str]:
    """The partitions of the metadata table to validate.

    Raises:
        HoodieIndexException: The table does not list one of them.
    """
    listed = table.table_config.metadata_partitions
    if partitions is None:
        return list(listed)
    names = [partitions] if isinstance(partitions, str) else list(dict.fromkeys(partitions))
    unknown = [name for name in names if name not in listed]
    if unknown:
        has = f"has the partitions {', '.join(listed)}" if listed else "is not there"
        raise HoodieIndexException(
            f"the metadata table of {table.base_path} has no {', '.join(map(str, unknown))} to validate: it {has}"
        )
    return names


class _Validation:
    def __init__(self, table: TableSnapshot, partitions: Sequence[str], merger: HoodieRecordMerger | None) -> None:
        self._table = table
        self._partitions, self._merger = partitions, merger
        self._findings = Findings()
        self._names: dict[str, set[str]] = {}
        self._stored = table.table_metadata
        self._all_files: dict[str, list[FileStatus]] = {}
        self._committed: dict[str, dict[str, int]] = {}
        self._being_cleaned: Mapping[tuple[str, str], str] = {}
        self._latest: Mapping[str, Sequence[FileSlice]] | None = None

    def run(self) -> MetadataTableValidation:
        try:
            metadata = HoodieBackedTableMetadata.open(self._table) if self._partitions else None
        except HoodieException as error:
            for name in self._partitions:
                self._findings.add(name, MetadataDifferenceKind.UNREADABLE, "the metadata table", "", error)
            metadata = None
        if metadata is not None:
            self._validate_timeline(metadata)
            self._being_cleaned = files_being_cleaned(self._table.active_timeline)
            self._committed = self._committed_files()
            for name in sorted(self._partitions, key=lambda name: (name != _FILES, name)):
                self._validate(metadata, name)
        return self._findings.result(self._table.base_path)

    def _validate_timeline(self, metadata: HoodieBackedTableMetadata) -> None:
        try:
            for misplaced in all_misplaced_times(metadata.files):
                instant = misplaced.instant
                name = f"{instant.action} {instant.requested_time}"
                expected = misplaced.expected
                self._findings.add(TIMELINE, MetadataDifferenceKind.DIFFERENT, name, expected, misplaced.time)
            for instant in instants_of_nothing(metadata.files):
                name = f"{instant.action} {instant.requested_time}"
                self._findings.add(
                    TIMELINE, MetadataDifferenceKind.UNEXPECTED, name, "no such instant of the table", "completed"
                )
        except HoodieException as error:
            self._findings.add(TIMELINE, MetadataDifferenceKind.UNREADABLE, "the timeline", "", error)

    def _validate(self, metadata: HoodieBackedTableMetadata, name: str) -> None:
        kind = MetadataPartitionType.of_path(name)
        if kind is None or kind is MetadataPartitionType.EXPRESSION_INDEX:
            self._findings.not_validated[name] = "hoodie does not compute what such an index holds"
            if kind is None:
                return
        try:
            records, is_by_partition = self._read(metadata, name)
        except HoodieException as error:
            self._findings.add(name, MetadataDifferenceKind.UNREADABLE, f"the partition {name}", "", error)
            return
        try:
            self._compare(metadata, kind, name, records, is_by_partition=is_by_partition)
        except HoodieNotSupportedException as error:
            self._findings.not_validated[name] = str(error)
        except HoodieException as error:
            self._findings.add(name, MetadataDifferenceKind.UNREADABLE, "what it is compared with", "", error)

    def _read(self, metadata: HoodieBackedTableMetadata, name: str) -> tuple[MetadataRecords, bool]:
        """All records of a partition. Records in the wrong file group are noted."""
        payload = metadata.payload_of(name)
        parts: list[MetadataRecords] = []
        groups = metadata.files.file_groups(name)
        for part, slices in groups.items():
            found = read_records(metadata.files, payload, list(map(SliceQuery, slices)))
            for number, records in enumerate(found):
                parts.append(records)
                places = metadata.groups_of_keys(name, records.keys, len(slices))
                for key, place in zip(records.keys.to_pylist(), places.tolist(), strict=True):
                    if place != number:
                        where = f"{slices[number].file_id}"
                        expected = slices[place].file_id
                        self._findings.add(name, MetadataDifferenceKind.MISPLACED, key, expected, where)
                if part is not None:
                    self._check_part(name, part, records)
        joined = MetadataRecords.joined(parts, payload)
        self._findings.entry_counts[name] = len(joined.keys)
        return joined, None not in groups

    def _check_part(self, name: str, part: str, records: MetadataRecords) -> None:
        kind = MetadataPartitionType.RECORD_INDEX
        paths = records.rows.column("partition_path").to_pylist()
        known = {path: kind.file_id(0, data_partition=path) for path in set(paths)}
        for key, path in zip(records.keys.to_pylist(), paths, strict=True):
            if known[path] != f"{kind.file_id_prefix}{part}-0000-0":
                self._findings.add(name, MetadataDifferenceKind.MISPLACED, key, known[path], part)

    def _compare(
        self,
        metadata: HoodieBackedTableMetadata,
        kind: MetadataPartitionType,
        name: str,
        records: MetadataRecords,
        *,
        is_by_partition: bool,
    ) -> None:
        files = [StoredFile(path, file) for path, sizes in self._committed.items() for file in sizes]
        match kind:
            case MetadataPartitionType.FILES:
                self._compare_listing(records)
            case MetadataPartitionType.COLUMN_STATS:
                latest = {
                    StoredFile(path, file_slice.base_file.file_name)
                    for path, slices in self._latest_slices().items()
                    for file_slice in slices
                    if file_slice.base_file is not None
                }
                validate_column_stats(metadata, records, files, latest, self._findings)
            case MetadataPartitionType.PARTITION_STATS:
                if _COLUMN_STATS not in metadata.partitions:
                    raise HoodieNotSupportedException("there is no column_stats, which it sums up")
                stats = metadata.read_records(_COLUMN_STATS)
                validate_partition_stats(metadata, records, stats, self._latest_slices(), self._findings)
            case MetadataPartitionType.BLOOM_FILTERS:
                validate_bloom_filters(metadata, records, files, self._findings)
            case MetadataPartitionType.RECORD_INDEX:
                latest_slices = self._latest_slices()
                validate_record_index(
                    metadata, records, latest_slices, self._findings,
                    is_by_partition=is_by_partition, merger=self._merger,
                )  # fmt: skip
            case MetadataPartitionType.SECONDARY_INDEX:
                latest_slices = self._latest_slices()
                validate_secondary_index(metadata, name, records, latest_slices, self._findings, merger=self._merger)
            case _:
                pass

    def _latest_slices(self) -> Mapping[str, Sequence[FileSlice]]:
        if self._latest is None:
            view = self._table.view()
            self._latest = {path: view.latest_file_slices(path) for path in view.load_all_partitions()}
        return self._latest

    # --- listing --------------------------------------------------------------------------------------------------

    def _compare_listing(self, records: MetadataRecords) -> None:
        add = self._findings.add
        listing = listing_of(records.keys, records.rows)
        listed: dict[str, dict[str, int]] = {}
        for row in listing.to_pylist():
            listed.setdefault(row["partition_path"], {})[row["file_name"]] = row["size_bytes"]
        known = set(partitions_of(records.keys, records.rows))
        folders = set(self._stored.list_partitions())
        for path in sorted(known - folders - {path for path, _ in self._being_cleaned}):
            add(_FILES, MetadataDifferenceKind.UNEXPECTED, f"partition {path!r}", "no such folder", "a partition")
        for path in sorted(folders - known):
            if self._committed.get(path):
                add(_FILES, MetadataDifferenceKind.MISSING, f"partition {path!r}", "a partition")
        for path in sorted({*listed, *self._committed}):
            own, stored = listed.get(path, {}), self._committed.get(path, {})
            for file in sorted({*own, *stored}):
                size, expected = own.get(file), stored.get(file)
                shown = StoredFile(path, file).shown
                if expected is None:
                    status = self._status_of(path, file)
                    if status is None and (path, file) in self._being_cleaned:
                        # The clean that deleted it takes it out of the metadata table at its end.
                        continue
                    if status is None:
                        add(_FILES, MetadataDifferenceKind.UNEXPECTED, shown, "no such file", f"{size} bytes")
                        continue
                    expected = status.size_bytes
                if size is None:
                    add(_FILES, MetadataDifferenceKind.MISSING, shown, f"{expected} bytes")
                elif size != expected:
                    add(_FILES, MetadataDifferenceKind.DIFFERENT, shown, f"{expected} bytes", f"{size} bytes")

    def _status_of(self, partition_path: str, file: str) -> FileStatus | None:
        """A file on storage that no completed instant names, such as a log file that a rollback noted; None if
        it is missing.
        """
        return next((one for one in self._all_files.get(partition_path, ()) if one.name == file), None)

    def _committed_files(self) -> dict[str, dict[str, int]]:
        """The files of completed instants on storage: partition path to names and sizes."""
        self._all_files = self._stored.list_files_of(self._stored.list_partitions())
        return {
            path: {status.name: status.size_bytes for status in statuses if self._is_committed(status)}
            for path, statuses in self._all_files.items()
        }

    def _is_committed(self, status: FileStatus) -> bool:
        instants = self._table.active_timeline.visible_instants
        base = parse_base_file_name(status.name)
        if base is not None:
            return instants.is_committed(base.instant_time) and self._is_named(status, base.instant_time)
        log = parse_log_file_name(status.name)
        if log is None or log.is_archive or not status.size_bytes:
            return False
        if not instants.has_visible_log_files(log.instant_time):
            return False
        if instants.has_completion_times:
            return self._is_named(status, log.instant_time)
        return self._holds_committed_block(status)

    def _is_named(self, status: FileStatus, instant_time: str) -> bool:
        """Whether the commit of a file names it. Failed attempts leave files that no commit names."""
        timeline = self._table.active_timeline
        instant = timeline.completed_writes().find(instant_time)
        if instant is None:
            return True
        if instant_time not in self._names:
            stats = timeline.read_commit_metadata(instant).write_stats
            self._names[instant_time] = {
                path.rsplit("/", 1)[-1] for stat in stats for path in (stat.path, *(stat.cdc_stats or {})) if path
            }
        return status.name in self._names[instant_time]

    def _holds_committed_block(self, status: FileStatus) -> bool:
        """Whether a log file of version 6, which is named by its slice, has a block of a completed instant."""
        instants = self._table.active_timeline.visible_instants
        times = {block.instant_time for block in stored_blocks(self._table.storage, status.path)}
        actions = self._table.active_timeline.filter_completed_instants().times
        return any(time is not None and (time in actions or instants.is_committed(time)) for time in times)
