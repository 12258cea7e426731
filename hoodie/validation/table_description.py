"""A description of the content of a metadata table for its table, a file, a partition or a record key.

Hudi: org.apache.hudi.cli.commands.MetadataCommand (stats, listPartitions, listFiles).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from hoodie.common.bloom.bloom_filter import SimpleBloomFilter
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.table.timeline.instant import Action
from hoodie.common.util.shown_table import format_bytes, plural
from hoodie.common.util.shown_value import short_repr
from hoodie.exception import HoodieConfigException, HoodieIndexException
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.records.metadata_keys import partition_identifier
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.storage.storage_options import StorageOptions
from hoodie.table.repair.repaired_table import RepairResult
from hoodie.validation.statistics_validation import shown_stats

_FILES = MetadataPartitionType.FILES.partition_path
_COLUMN_STATS = MetadataPartitionType.COLUMN_STATS.partition_path
_PARTITION_STATS = MetadataPartitionType.PARTITION_STATS.partition_path
_BLOOM_FILTERS = MetadataPartitionType.BLOOM_FILTERS.partition_path
_RECORD_INDEX = MetadataPartitionType.RECORD_INDEX.partition_path


@attrs.frozen
class MetadataStatement:
    """One fact in a metadata table.

    Attributes:
        partition: The partition of the metadata table that holds it.
        name: The subject: a partition of the table, a file, a column, or a record key.
        statement: The fact.
    """

    partition: str
    name: str
    statement: str


@attrs.frozen(repr=False)
class MetadataTableDescription(RepairResult):
    """The description of a metadata table; prints as one line with a table below it.

    Attributes:
        base_path: The table.
        subject: The subject of the description.
        statements: The facts.
    """

    base_path: str
    subject: str
    statements: tuple[MetadataStatement, ...]

    @property
    def headline(self) -> str:
        """See `RepairResult`."""
        return f"metadata table of {self.base_path}: {self.subject}"

    @property
    def table(self) -> SummaryTable[MetadataStatement]:
        """See `RepairResult`."""
        return SummaryTable(MetadataStatement, self.statements)


def describe(
    base_path: str,
    file: str | None = None,
    partition: str | None = None,
    key: str | None = None,
    *,
    storage_options: StorageOptions | None = None,
) -> MetadataTableDescription:
    """Describe a file, a partition or a record key by the metadata table of a table; or the metadata table
    itself.

    Args:
        base_path: The table's folder.
        file: A base file or log file: its path below the table's folder, or only its name, which takes longer in a
            table with partitions.
        partition: A partition of the table; ``""`` for the partition of a table without partitions.
        key: A record key.
        storage_options: Options of the storage.

    Returns:
        The facts; with neither a file, a partition nor a key, a line for each partition of the metadata table.

    Raises:
        HoodieConfigException: More than one of file, partition and key is given.
        TableNotFoundException: There is no table, or it has no metadata table.
        HoodieIndexException: A key is given, and the metadata table has no record index.
        HoodieException: See `HoodieBackedTableMetadata.read_records`.
    """
    if sum(one is not None for one in (file, partition, key)) > 1:
        raise HoodieConfigException("describe takes one of file, partition and key: call it once for each")
    table = TableSnapshot.load(base_path, storage_options)
    metadata = HoodieBackedTableMetadata.open(table)
    if file is not None:
        subject, statements = f"file {file}", _of_file(metadata, file)
    elif partition is not None:
        subject, statements = f"partition {short_repr(partition)}", _of_partition(metadata, partition)
    elif key is not None:
        subject, statements = f"key {short_repr(key)}", _of_key(metadata, key)
    else:
        subject, statements = _summary(metadata), _parts(metadata)
    return MetadataTableDescription(table.base_path, subject, tuple(statements))


def _summary(metadata: HoodieBackedTableMetadata) -> str:
    timeline = metadata.files.snapshot.active_timeline
    done = timeline.filter_completed_instants()
    last, compacted = done.last_instant, done.filter_actions(Action.COMMIT).last_instant
    text = f"version {metadata.table.table_config.table_version}"
    text += f", newest instant {last.requested_time if last is not None else 'none'}"
    text += f", compacted at {compacted.requested_time}" if compacted is not None else ", not compacted yet"
    pending = [instant.requested_time for instant in timeline.filter_pending()]
    return text + (f", pending: {', '.join(pending)}" if pending else "")


def _parts(metadata: HoodieBackedTableMetadata) -> Iterator[MetadataStatement]:
    for name in metadata.partitions:
        groups: list[FileSlice] = [one for slices in metadata.files.file_groups(name).values() for one in slices]
        logs = sum(len(one.log_files) for one in groups)
        bases = sum(one.base_file is not None for one in groups)
        size = format_bytes(sum(one.size_bytes for one in groups))
        text = (
            f"{plural(len(groups), 'file group')} with {plural(bases, 'base file')}, {plural(logs, 'log file')}, {size}"
        )
        definition = metadata.definitions.get(name)
        if definition is not None and definition.source_fields:
            text += f", of {', '.join(definition.source_fields)}"
        yield MetadataStatement(name, "", text)
    for name in metadata.table.table_config.metadata_partitions_inflight:
        yield MetadataStatement(name, "", "is being built")


def _of_file(metadata: HoodieBackedTableMetadata, file: str) -> Iterator[MetadataStatement]:
    path, _, name = file.strip("/").rpartition("/")
    keys = None if not path and metadata.table.table_config.partition_fields else [partition_identifier(path)]
    rows = [row for row in metadata.read_listing(keys).to_pylist() if row["file_name"] == name]
    for row in rows:
        path = row["partition_path"]
        yield MetadataStatement(_FILES, f"{path}/{name}".lstrip("/"), f"{row['size_bytes']} bytes")
    if not rows:
        yield MetadataStatement(_FILES, file, "not listed")
    if _COLUMN_STATS in metadata.partitions:
        columns = metadata.definitions[_COLUMN_STATS].source_fields if _COLUMN_STATS in metadata.definitions else ()
        stats = metadata.read_column_stats_of([(path, name)], columns) if columns else metadata.read_column_stats()
        for row in stats.to_pylist():
            if row["file_name"] == name and row["partition_path"] == path:
                yield MetadataStatement(_COLUMN_STATS, row["column_name"], shown_stats(row))
    if _BLOOM_FILTERS in metadata.partitions:
        found = metadata.read_bloom_filters([(path, name)])
        for bloom_filter in found.values():
            kind = "simple" if isinstance(bloom_filter, SimpleBloomFilter) else "dynamic"
            yield MetadataStatement(_BLOOM_FILTERS, name, f"a {kind} filter")


def _of_partition(metadata: HoodieBackedTableMetadata, partition: str) -> Iterator[MetadataStatement]:
    if partition in metadata.list_partitions():
        files = metadata.list_files(partition)
        size = format_bytes(sum(file.size_bytes for file in files))
        yield MetadataStatement(_FILES, partition, f"{plural(len(files), 'file')}, {size}")
        for file in files:
            yield MetadataStatement(_FILES, file.name, f"{file.size_bytes} bytes")
    else:
        yield MetadataStatement(_FILES, partition, "not listed")
    if _PARTITION_STATS in metadata.partitions:
        for row in metadata.read_partition_stats().to_pylist():
            if row["partition_path"] == partition:
                yield MetadataStatement(_PARTITION_STATS, row["column_name"], shown_stats(row))


def _of_key(metadata: HoodieBackedTableMetadata, key: str) -> Iterator[MetadataStatement]:
    if _RECORD_INDEX not in metadata.partitions:
        raise HoodieIndexException(
            f"the metadata table of {metadata.table.base_path} has no record index: it does not know record keys"
        )
    rows = metadata.read_record_index([key]).to_pylist()
    for row in rows:
        place = f"{row['partition_path']}/{row['file_id']}".lstrip("/")
        yield MetadataStatement(_RECORD_INDEX, key, f"{place}, since {row['instant_time']}")
    if not rows:
        yield MetadataStatement(_RECORD_INDEX, key, "not in the table")
