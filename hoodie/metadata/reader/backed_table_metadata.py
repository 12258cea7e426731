"""Listings, statistics and indexes of a table, read from its metadata table.

Hudi: org.apache.hudi.metadata.HoodieBackedTableMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.bloom_filter import BloomFilter, decode_bloom_filter
from hoodie.common.fs.file_names import is_data_file_name
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.partition_metadata import check_partition_path
from hoodie.common.table.table_metadata import HoodieTableMetadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.arrow_buffers import booleans_of, flags_in
from hoodie.exception import HoodieCorruptedDataException, HoodieIndexException
from hoodie.io.hfile.hfile_reader import TooManyEntriesError
from hoodie.metadata.reader.metadata_record_reader import MetadataRecords, SliceQuery, read_records
from hoodie.metadata.reader.metadata_table_files import REBUILD, MetadataTableFiles
from hoodie.metadata.records.file_listing import FILE_LISTING, listing_of, partitions_of
from hoodie.metadata.records.metadata_keys import (
    ALL_PARTITIONS_KEY,
    bloom_filter_keys,
    column_stats_keys,
    column_stats_prefix,
    file_groups_of_keys,
    partition_id,
    partition_identifier,
    partition_stats_keys,
    secondary_key_prefixes,
    split_secondary_index_keys,
)
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType, require_supported
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.metadata.records.record_index_location import instant_time_of_millis
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_path import join

if TYPE_CHECKING:
    from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition

COLUMN_STATS = pa.schema([pa.field("partition_path", pa.string()), *MetadataPayload.COLUMN_STATS.schema])
"""Statistics of columns with the partition of the table; the rest as `MetadataPayload.COLUMN_STATS` has it."""
RECORD_LOCATIONS = pa.schema(
    [
        pa.field("record_key", pa.string()),
        pa.field("partition_path", pa.string()),
        pa.field("file_id", pa.string()),
        pa.field("instant_time", pa.string()),
    ]
)
"""Locations of record keys; the instant is that of the file when the entry was made, in 17 digits."""
_SECONDARY_ENTRIES = pa.schema([pa.field("value", pa.string()), pa.field("record_key", pa.string())])
_PARTITION_ID = slice(12, 24)
"""The part of a statistics key that holds the hash of the partition path."""
_SPREAD = 2
"""How many times its even share of the matching keys a file group may have before a bounded query gives up."""
_PATH = {kind: kind.partition_path for kind in MetadataPartitionType}
_PAYLOADS = {
    MetadataPartitionType.FILES: MetadataPayload.FILES,
    MetadataPartitionType.COLUMN_STATS: MetadataPayload.COLUMN_STATS,
    MetadataPartitionType.BLOOM_FILTERS: MetadataPayload.BLOOM_FILTER,
    MetadataPartitionType.RECORD_INDEX: MetadataPayload.RECORD_INDEX,
    MetadataPartitionType.PARTITION_STATS: MetadataPayload.COLUMN_STATS,
    MetadataPartitionType.SECONDARY_INDEX: MetadataPayload.SECONDARY_INDEX,
}


@attrs.frozen(eq=False)
class HoodieBackedTableMetadata(HoodieTableMetadata):
    """The metadata table of one table, as of a snapshot of the table. Lives on the driver.

    Opening reads the properties and the timeline of the metadata table. Each partition is listed when it is first
    needed, and a look-up reads the HFile blocks that may hold its keys. Look-ups of keys read only the file groups that
    the hash of the keys names. Answers are not cached.

    Only the partitions that ``hoodie.table.metadata.partitions`` listed in the snapshot are read.

    Attributes:
        table: The table.
        files: The files of the metadata table.

    Hudi: org.apache.hudi.metadata.HoodieBackedTableMetadata. Differs: never falls back to listing the file system.
    """

    table: TableSnapshot
    files: MetadataTableFiles
    _definitions: list[Mapping[str, HoodieIndexDefinition]] = attrs.field(factory=list, repr=False)

    @classmethod
    def open(cls, table: TableSnapshot, *, for_readers: bool = False) -> HoodieBackedTableMetadata:
        """Open the metadata table of a table.

        Args:
            table: The table. Readers see its metadata table as it was when this snapshot was first asked for it.
            for_readers: See `MetadataTableFiles.load`.

        Raises:
            TableNotFoundException: The table has no metadata table, or lists one whose folder is missing.
            InvalidTableException: The properties of the metadata table are damaged.
            HoodieNotSupportedException: It has a version that hoodie does not know.
            HoodieIOException: Storage failed.
        """
        open_files = MetadataTableFiles.opened if for_readers else MetadataTableFiles.load
        return cls(table, open_files(table, for_readers=for_readers))

    @property
    def definitions(self) -> Mapping[str, HoodieIndexDefinition]:
        """The index definitions of the table by metadata partition; read on first use.

        Raises:
            HoodieCorruptedDataException: The definitions are damaged.
            HoodieIOException: Storage failed.
        """
        if not self._definitions:
            # Imported here: a listing of files needs nothing of it, and reads start earlier without.
            from hoodie.metadata.reader.index_definitions import load_index_definitions

            self._definitions.append(load_index_definitions(self.table.storage, self.table.meta_path))
        return self._definitions[0]

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions of the metadata table that are ready."""
        return self.table.table_config.metadata_partitions

    @property
    def is_record_index_by_partition(self) -> bool:
        """Whether the table has a record index in which each partition of the table has file groups of its own.

        In such an index a key may be in several partitions. The index is listed on first use.

        Raises:
            HoodieException: See `MetadataTableFiles.file_groups`.
        """
        path = _PATH[MetadataPartitionType.RECORD_INDEX]
        if path not in self.partitions:
            return False
        parts, definition = set(self.files.file_groups(path)), self.definitions.get(path)
        return bool(parts - {None}) or (not parts and definition is not None and definition.is_partitioned)

    # --- listing --------------------------------------------------------------------------------------------------

    def list_partitions(self) -> list[str]:
        """See `HoodieTableMetadata.list_partitions`; deleted partitions are left out.

        Raises:
            HoodieException: See `read_records`.
        """
        records = self.read_records(_PATH[MetadataPartitionType.FILES], keys=[ALL_PARTITIONS_KEY])
        return sorted(check_partition_path(path) for path in partitions_of(records.keys, records.rows))

    def list_files(self, partition_path: str) -> list[FileStatus]:
        """See `HoodieTableMetadata.list_files`; only files of completed instants, without times of modification.

        Raises:
            HoodieException: See `read_records`.
        """
        return self.list_files_of([partition_path])[partition_path]

    def list_files_of(self, partition_paths: Sequence[str]) -> dict[str, list[FileStatus]]:
        """See `HoodieTableMetadata.list_files_of` and `list_files`.

        Raises:
            HoodieException: See `read_records`.
        """
        files: dict[str, list[FileStatus]] = {check_partition_path(path): [] for path in partition_paths}
        keys = list(dict.fromkeys(partition_identifier(path) for path in partition_paths))
        if not keys:
            return files
        return self._statuses(self.read_listing(keys), files)

    def list_all_files(self) -> dict[str, list[FileStatus]]:
        """Each partition of `list_partitions` with its files, read from the metadata table in one go.

        Raises:
            HoodieException: See `read_records`.
        """
        records = self.read_records(_PATH[MetadataPartitionType.FILES])
        found: dict[str, list[FileStatus]] = {
            check_partition_path(path): [] for path in sorted(partitions_of(records.keys, records.rows))
        }
        return self._statuses(_without_deleted(listing_of(records.keys, records.rows)), found)

    def _statuses(self, listing: pa.Table, found: dict[str, list[FileStatus]]) -> dict[str, list[FileStatus]]:
        """The files of the given partitions in a listing."""
        listing = listing.sort_by([("partition_path", "ascending"), ("file_name", "ascending")])
        columns = [listing.column(name).to_pylist() for name in FILE_LISTING.names[:3]]
        folders = {path: f"{join(self.table.base_path, path)}/" for path in found}
        for path, name, size in zip(*columns, strict=True):
            if path in found and is_data_file_name(name):
                found[path].append(FileStatus(f"{folders[path]}{name}", size, 0))
        return found

    def list_stored_files(self) -> dict[str, list[FileStatus]]:
        """See `HoodieTableMetadata.list_stored_files`. Storage is listed: the metadata table has committed
        files only.
        """
        return self.table.table_metadata.list_stored_files()

    def read_listing(self, keys: Iterable[str] | None = None) -> pa.Table:
        """The files of partitions as columns.

        Args:
            keys: The partitions, ``.`` for that of a table without partitions; None for all.

        Returns:
            `FILE_LISTING`, without deleted files.

        Raises:
            HoodieException: See `read_records`.
        """
        found = self.read_records(_PATH[MetadataPartitionType.FILES], keys=keys)
        return _without_deleted(listing_of(found.keys, found.rows))

    # --- statistics -----------------------------------------------------------------------------------------------

    def read_column_stats(
        self, columns: Sequence[str] | None = None, partition_paths: Sequence[str] | None = None
    ) -> pa.Table:
        """The ranges of columns of files.

        Args:
            columns: The columns, nested ones as a path with dots; None for all.
            partition_paths: Partitions of the table; None for all. They need columns.

        Returns:
            `COLUMN_STATS`, one row for each file and column that has statistics.

        Raises:
            HoodieIndexException: The metadata table has no such partition.
            HoodieException: See `read_records`.
        """
        path = _PATH[MetadataPartitionType.COLUMN_STATS]
        if columns is None:
            return self.with_partitions(self.read_records(path), self.list_partitions())
        paths = self.list_partitions() if partition_paths is None else list(partition_paths)
        wanted: list[str] = [column_stats_prefix(column) for column in columns]
        if partition_paths is not None:
            wanted = [column_stats_prefix(column, one) for column in columns for one in paths]
        return self.with_partitions(self.read_records(path, prefixes=wanted), paths)

    def read_column_stats_of(self, files: Sequence[tuple[str, str]], columns: Sequence[str]) -> pa.Table:
        """The ranges of columns of the given files; see `read_column_stats`.

        Args:
            files: Partition path and name of each file.
            columns: The columns.
        """
        pairs = [(path, name, column) for path, name in files for column in columns]
        paths, names, wanted = (
            (pa.array(list(part), pa.string()) for part in zip(*pairs, strict=True))
            if pairs
            else (pa.array([], pa.string()),) * 3
        )
        keys = column_stats_keys(wanted, paths, names)
        found = self.read_records(_PATH[MetadataPartitionType.COLUMN_STATS], keys=keys.to_pylist())
        return self.with_partitions(found, list(dict.fromkeys(path for path, _ in files)))

    def read_partition_stats(
        self, columns: Sequence[str] | None = None, partition_paths: Sequence[str] | None = None
    ) -> pa.Table:
        """The ranges of columns of partitions; see `read_column_stats`.

        Args:
            columns: The columns; None for all.
            partition_paths: Partitions of the table; None for all. They need columns.
        """
        path = _PATH[MetadataPartitionType.PARTITION_STATS]
        if columns is None:
            found = self.read_records(path)
        elif partition_paths is None:
            found = self.read_records(path, prefixes=[column_stats_prefix(column) for column in columns])
        else:
            pairs = [(column, one) for column in columns for one in partition_paths]
            names, paths = ([pair[place] for pair in pairs] for place in range(2))
            keys = partition_stats_keys(pa.array(names, pa.string()), pa.array(paths, pa.string()))
            found = self.read_records(path, keys=keys.to_pylist())
        names = found.rows.column("file_name")
        return _with_column(pc.if_else(pc.equal(names, "."), "", names), found.rows)

    def read_bloom_filters(self, files: Sequence[tuple[str, str]]) -> dict[tuple[str, str], BloomFilter]:
        """The bloom filters of those of the given base files that have one.

        Args:
            files: Partition path and name of each file.

        Raises:
            HoodieIndexException: The metadata table has no bloom filters.
            HoodieCorruptedDataException: A filter is damaged.
            HoodieException: See `read_records`.
        """
        paths, names = (pa.array([file[place] for file in files], pa.string()) for place in range(2))
        keys = bloom_filter_keys(paths, names).to_pylist()
        found = self.read_records(_PATH[MetadataPartitionType.BLOOM_FILTERS], keys=keys)
        rows = dict(zip(found.keys.to_pylist(), found.rows.to_pylist(), strict=True))
        return {
            file: decode_bloom_filter(rows[key]["bloom_type"], rows[key]["bloom_filter"])
            for file, key in zip(files, keys, strict=True)
            if key in rows
        }

    # --- indexes --------------------------------------------------------------------------------------------------

    def read_record_index(
        self, record_keys: Iterable[str] | pa.Array | None = None, partition_path: str | None = None
    ) -> pa.Table:
        """The stored locations of record keys.

        Args:
            record_keys: Record keys, in any order; None for all.
            partition_path: The partition of the table to search, in a partitioned record index; None for all, where a
                key may have several locations. A record index of the whole table takes None only.

        Returns:
            `RECORD_LOCATIONS`, one row for each key that is found.

        Raises:
            HoodieIndexException: The metadata table has no record index, or the index is not partitioned.
            HoodieException: See `read_records`.
        """
        path = _PATH[MetadataPartitionType.RECORD_INDEX]
        found = self.read_records(path, keys=record_keys, data_partition=partition_path)
        distinct = found.rows.column("instant_millis").dictionary_encode()
        timezone = self.table.table_config.timeline_timezone
        times = [instant_time_of_millis(millis, timezone) for millis in distinct.dictionary.to_pylist()]
        return pa.Table.from_arrays(
            [
                found.keys,
                found.rows.column("partition_path"),
                found.rows.column("file_id"),
                pa.array(times, pa.string()).take(distinct.indices),
            ],
            schema=RECORD_LOCATIONS,
        )

    def read_secondary_index(self, index_name: str, values: Sequence[str | None] | None = None) -> pa.Table:
        """The record keys of values of an indexed column.

        Args:
            index_name: The index, with or without the ``secondary_index_`` of its partition.
            values: Values as Java prints them, None for null; None for all.

        Returns:
            Columns value and record_key (string), one row for each entry.

        Raises:
            HoodieIndexException: The metadata table has no such index.
            HoodieException: See `read_records`.
        """
        path, wanted = _secondary_index_query(index_name, values)
        return _secondary_entries(self.read_records(path, prefixes=wanted))

    def read_rare_values(self, index_name: str, values: Sequence[str | None], most: int) -> pa.Table | None:
        """The record keys of values that few rows have. Entries of frequent values are not read.

        Args:
            index_name: See `read_secondary_index`.
            values: See there.
            most: The number of entries above which there is no answer. Entries that later log files delete count, too.

        Returns:
            See `read_secondary_index`; None if there are more entries.

        Raises:
            HoodieException: See there.
        """
        path, wanted = _secondary_index_query(index_name, values)
        try:
            found = self.read_records(path, prefixes=wanted, most=most)
        except TooManyEntriesError:
            return None
        return _secondary_entries(found) if len(found.keys) <= most else None

    def list_together(self, partitions: Sequence[str]) -> None:
        """List several partitions of the metadata table at the same time, before they are read.

        Args:
            partitions: Their paths; partitions that are not ready are passed over.

        Raises:
            HoodieIOException: Storage failed.
        """
        self.files.view.load_partitions([path for path in partitions if path in self.partitions])

    def stored_bytes(self, partition: str) -> int:
        """The size of the files of a partition of the metadata table that readers open.

        Args:
            partition: Its path, such as ``column_stats``.

        Raises:
            HoodieException: See `read_records`.
        """
        groups = self.files.file_groups(partition).values()
        return sum(file_slice.size_bytes for slices in groups for file_slice in slices)

    # --- records --------------------------------------------------------------------------------------------------

    def read_records(
        self,
        partition: str,
        *,
        keys: Iterable[str] | pa.Array | None = None,
        prefixes: Iterable[str] | None = None,
        data_partition: str | None = None,
        most: int | None = None,
    ) -> MetadataRecords:
        """The live records of a partition of the metadata table.

        Args:
            partition: Its path, such as ``column_stats``.
            keys: The keys that are wanted; only their file groups are read.
            prefixes: Beginnings of the wanted keys. With neither keys nor prefixes, all records are read.
            data_partition: The partition of the table, in a partitioned record index; None for all.
            most: About how many records with such prefixes are wanted at most; None for any number.

        Raises:
            TooManyEntriesError: More records than `most` match.
            HoodieIndexException: The metadata table has no such partition.
            HoodieMissingFileException: A file group or a file is missing.
            HoodieCorruptedDataException: A file is damaged.
            HoodieNotSupportedException: hoodie does not know such partitions.
            HoodieIOException: Storage failed.
        """
        payload = self.payload_of(partition)
        wanted = None if keys is None else _as_keys(keys)
        beginnings = None if prefixes is None else _as_keys(prefixes)
        queries: list[SliceQuery] = []
        for slices in self.slices_of(partition, data_partition):
            if wanted is None and beginnings is None:
                queries += map(SliceQuery, slices)
            elif wanted is not None:
                groups = self.groups_of_keys(partition, wanted, len(slices))
                for number in np.unique(groups).tolist():
                    queries.append(SliceQuery(slices[number], keys=wanted.filter(pa.array(groups == number))))
            elif beginnings is not None and self._is_hashed_by_value(partition):
                groups = self.groups_of_keys(partition, beginnings, len(slices))
                for number in np.unique(groups).tolist():
                    group_prefixes = beginnings.filter(pa.array(groups == number))
                    queries.append(SliceQuery(slices[number], prefixes=group_prefixes, most=most))
            elif beginnings is not None and len(beginnings):
                # Keys with these prefixes are spread about evenly over the file groups.
                share = None if most is None else _SPREAD * most // len(slices)
                queries += [SliceQuery(file_slice, prefixes=beginnings, most=share) for file_slice in slices]
        return MetadataRecords.joined(read_records(self.files, payload, queries), payload)

    def payload_of(self, partition: str) -> MetadataPayload:
        """The payload of the records in a partition.

        Args:
            partition: Its path.

        Raises:
            HoodieIndexException: The metadata table has no such partition.
            HoodieNotSupportedException: hoodie does not know such partitions.
        """
        if partition not in self.partitions:
            raise HoodieIndexException(
                f"the metadata table of {self.table.base_path} has no partition {partition}: it has "
                f"{', '.join(self.partitions)}"
            )
        kind = require_supported(partition, self.table.table_config.table_version)
        if kind is not MetadataPartitionType.EXPRESSION_INDEX:
            return _PAYLOADS[kind]
        definition = self.definitions.get(partition)
        if definition is None:
            raise HoodieCorruptedDataException(
                f"{self.table.meta_path}/.index_defs/index.json does not define {partition}. {REBUILD}"
            )
        is_bloom = definition.index_type == _PATH[MetadataPartitionType.BLOOM_FILTERS]
        return MetadataPayload.BLOOM_FILTER if is_bloom else MetadataPayload.COLUMN_STATS

    def groups_of_keys(self, partition: str, keys: pa.Array, group_count: int) -> npt.NDArray[np.int64]:
        """The number of the file group of each key; see `hoodie.metadata.records.metadata_keys.file_groups_of_keys`.

        Args:
            partition: The partition of the metadata table.
            keys: Keys (string).
            group_count: Its file groups.
        """
        return file_groups_of_keys(keys, group_count, by_secondary_key=self._is_hashed_by_value(partition))

    def _is_hashed_by_value(self, partition: str) -> bool:
        if MetadataPartitionType.of_path(partition) is not MetadataPartitionType.SECONDARY_INDEX:
            return False
        definition = self.definitions.get(partition)
        return definition is not None and definition.is_hashed_by_value

    def slices_of(self, partition: str, data_partition: str | None = None) -> list[list[FileSlice]]:
        """The file groups over which keys are hashed, in the order of their numbers.

        One list; a partitioned record index has a list for each partition of the table.

        Args:
            partition: The partition of the metadata table.
            data_partition: The partition of the table, in a partitioned record index; None for all. A partition of the
                table without entries has no list.

        Raises:
            HoodieIndexException: The record index is not partitioned.
            HoodieException: See `hoodie.metadata.reader.metadata_table_files.MetadataTableFiles.file_groups`.
        """
        by_part = self.files.file_groups(partition)
        if data_partition is None:
            return list(by_part.values())
        if None in by_part:
            raise HoodieIndexException(
                f"the record index of {self.table.base_path} is one of the whole table, not one by partitions: look "
                "keys up without a partition"
            )
        kind = MetadataPartitionType.RECORD_INDEX
        file_id = kind.file_id(0, data_partition=data_partition)
        part = file_id.removeprefix(kind.file_id_prefix).removesuffix("-0000-0")
        return [by_part[part]] if part in by_part else []

    def with_partitions(self, found: MetadataRecords, partition_paths: Sequence[str]) -> pa.Table:
        """Statistics of columns of files, with the partitions that their keys name.

        Args:
            found: Records with statistics of columns.
            partition_paths: The partitions that they may belong to.

        Returns:
            `COLUMN_STATS`; the partition is null where it is not among those given.
        """
        ids = pc.utf8_slice_codeunits(found.keys, _PARTITION_ID.start, _PARTITION_ID.stop)
        known = pa.array([partition_id(path) for path in partition_paths], pa.string())
        paths = pa.array(list(partition_paths), pa.string()).take(pc.index_in(ids, value_set=known))
        return _with_column(paths, found.rows)


def _without_deleted(listing: pa.Table) -> pa.Table:
    return listing.filter(booleans_of(~flags_in(listing.column("is_deleted").combine_chunks())))


def _with_column(partition_paths: pa.Array, rows: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_arrays([partition_paths, *rows.columns], schema=COLUMN_STATS)


def _secondary_index_query(index_name: str, values: Sequence[str | None] | None) -> tuple[str, list[str] | None]:
    """The partition of an index, and the beginnings of the keys of the wanted entries."""
    prefix = _PATH[MetadataPartitionType.SECONDARY_INDEX]
    path = index_name if index_name.startswith(prefix) else f"{prefix}{index_name}"
    wanted = None if values is None else secondary_key_prefixes(pa.array(list(values), pa.string())).to_pylist()
    return path, wanted


def _secondary_entries(found: MetadataRecords) -> pa.Table:
    return pa.Table.from_arrays(list(split_secondary_index_keys(found.keys)), schema=_SECONDARY_ENTRIES)


def _as_keys(keys: Iterable[str] | pa.Array) -> pa.Array:
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    array = keys if isinstance(keys, pa.Array) else pa.array(list(keys), pa.string())
    return array.cast(pa.string()).unique()
