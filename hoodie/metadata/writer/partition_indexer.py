"""The interface of indexers: each computes the records that an action adds to a partition of a metadata table.

Hudi: org.apache.hudi.metadata.index.Indexer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import attrs

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.common.model.column_range import WrittenColumnRanges
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.config.index_config import HoodieIndexConfig
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.merge.record_merger import HoodieRecordMerger
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition
from hoodie.metadata.records.key_look_up import KeyLookUp
from hoodie.metadata.records.metadata_entries import MetadataEntries, encoded_together
from hoodie.metadata.writer.file_group_writer import MetadataFileGroupWriter
from hoodie.storage.storage import FileStatus


class PartitionRecords(Protocol):
    """Records for one partition of a metadata table, in the memory of the driver or spread over tasks."""

    def write(self, writer: MetadataFileGroupWriter, engine: HoodieEngineContext) -> list[HoodieWriteStat]:
        """Write each file group that gets records.

        Args:
            writer: Writes one file group; picklable, so tasks may call it.
            engine: Runs tasks.

        Returns:
            The statistics of the files.

        Raises:
            HoodieException: The records cannot be computed, or storage failed.
        """
        ...


@attrs.frozen(eq=False)
class EntriesOnDriver:
    """Records in the memory of the driver.

    Attributes:
        entries: The records.
    """

    entries: MetadataEntries

    def write(self, writer: MetadataFileGroupWriter, engine: HoodieEngineContext) -> list[HoodieWriteStat]:
        """See `PartitionRecords.write`."""
        return write_together([(writer, self)])


def write_together(given: Iterable[tuple[MetadataFileGroupWriter, EntriesOnDriver]]) -> list[HoodieWriteStat]:
    """Write the files of several partitions at the same time.

    Args:
        given: The writer of the file groups of each partition, and the records.

    Returns:
        The statistics of the files, partition by partition.

    Raises:
        HoodieException: See `PartitionRecords.write`.
    """
    items = [
        (writer, number, entries)
        for writer, records in given
        for number, entries in records.entries.by_file_group(writer.group_count).items()
    ]
    if len({writer.commit.avro_schema for writer, _, _ in items}) == 1 and not items[0][0].is_initial:
        encoded = encoded_together([entries for _, _, entries in items], items[0][0].commit.avro_schema)
        items = [(writer, number, part) for (writer, number, _), part in zip(items, encoded, strict=True)]
    return list(map_concurrently(lambda item: item[0].write(item[1], item[2]), items))


@attrs.frozen
class InitialRecords:
    """The first records of a partition, and its number of file groups.

    Attributes:
        group_count: The number of its file groups, which never changes. 0 for a partitioned record index, whose records
            add file groups by `MetadataFileGroupWriter.with_new_groups`.
        records: Its records.
    """

    group_count: int
    records: PartitionRecords


@attrs.frozen(eq=False)
class IndexingContext:
    """The table and the settings that indexers work with. Lives on the driver.

    Attributes:
        table: The table without the action that is being completed; under its lock.
        engine: Runs tasks, for work that grows with the number of files or rows.
        config: The writer's options of the metadata table.
        definitions: The table's definitions of indexes, by their partitions.
        metadata: The metadata table as it was before the action; None while ``files`` is being built.
        found: Results of one indexer that other indexers of the same action need, too.
        merger: The record merger that the writer names, in a table that merges by one.
        index_config: The writer's options of bloom filters.
    """

    table: TableSnapshot
    engine: HoodieEngineContext
    config: HoodieMetadataConfig
    definitions: Mapping[str, HoodieIndexDefinition]
    metadata: HoodieBackedTableMetadata | None = None
    found: dict[object, object] = attrs.field(factory=dict, repr=False)
    merger: HoodieRecordMerger | None = None
    index_config: HoodieIndexConfig = attrs.field(factory=HoodieIndexConfig)


@attrs.frozen
class CommittedChange:
    """An action that wrote files.

    Attributes:
        instant_time: Its instant.
        action: COMMIT, DELTA_COMMIT, REPLACE_COMMIT, COMPACTION or CLUSTERING.
        metadata: Its metadata: the files written, and the file groups replaced.
        key_look_up: The look-up that its writer made for new keys.
        column_ranges: The ranges of columns of files, by partition path and name, as far as the tasks told that wrote
            them.
        found: Results that are needed more than once, whatever the state of the metadata table is.
    """

    instant_time: str
    action: Action
    metadata: HoodieCommitMetadata
    key_look_up: KeyLookUp = attrs.field(factory=KeyLookUp)
    column_ranges: Mapping[tuple[str, str], WrittenColumnRanges] = attrs.field(factory=dict, repr=False)
    found: dict[object, object] = attrs.field(factory=dict, repr=False, eq=False)


class MetadataPartitionIndexer(ABC):
    """Computes the records of one partition of a metadata table.

    Args:
        partition_path: The partition, such as ``column_stats``.

    The methods only read. They may be called again for an action whose writer died, and then give the same records.
    """

    def __init__(self, partition_path: str) -> None:
        self.partition_path = partition_path

    def definition(self, context: IndexingContext) -> HoodieIndexDefinition | None:
        """The index definition that the table stores for a partition that is being built; None for none.

        Args:
            context: The table.
        """
        return None

    def definition_after(self, context: IndexingContext, change: CommittedChange) -> HoodieIndexDefinition | None:
        """The index definition that the table stores after an action that wrote files; None if it does not
        change.

        A new column of the table is indexed from then on. The definition is stored before the action is completed in
        the table: it does no harm if the action is rolled back, and cannot be determined later.

        Args:
            context: The table, with its present definition.
            change: The action.

        Raises:
            HoodieException: A schema cannot be read.
        """
        return None

    @abstractmethod
    def initial(
        self, context: IndexingContext, files: Mapping[str, Sequence[FileStatus]], instant_time: str
    ) -> InitialRecords:
        """The first records of the partition, which the table gets now.

        Args:
            context: The table.
            files: All committed files by partition of the table, those of replaced file groups included; partitions
                without files have an empty list.
            instant_time: The last completed instant of the table; ``00000000000000`` for a table without instants.

        Raises:
            HoodieException: A file cannot be read.
        """

    @abstractmethod
    def of_commit(self, context: IndexingContext, change: CommittedChange) -> PartitionRecords:
        """The records of an action that wrote files.

        Args:
            context: The table.
            change: The action; its files are on storage, and its instant is inflight.

        Raises:
            HoodieException: A file cannot be read.
        """

    @abstractmethod
    def of_clean(self, context: IndexingContext, clean: HoodieCleanMetadata, instant_time: str) -> PartitionRecords:
        """The records of a clean.

        Args:
            context: The table.
            clean: The metadata of the clean, with the deleted files.
            instant_time: The clean.

        Raises:
            HoodieException: Storage failed.
        """
