"""Keep the metadata table of a table up to date: write delta commits, build partitions, and take back.

Each action of the table that writes or deletes files has a delta commit of the same instant time in the metadata table,
which is completed right before the action is. All of this happens under the table's lock. A dead
writer leaves one of these states:

=====================================  =============================================================================
metadata table                         consequence
=====================================  =============================================================================
the instant is pending                 readers ignore it; the next attempt, or the rollback, deletes it
the instant is completed, and the      likewise, because the action is pending in the table
action is not
a partition is not listed yet          readers do not know it; the next writer that builds it deletes its files
=====================================  =============================================================================

Hudi: org.apache.hudi.metadata.{HoodieBackedTableMetadataWriter, HoodieTableMetadataUtil}. Differs: deletes what it
takes back, and makes no rollback instants in the metadata table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.avro.timeline_metadata import HoodieRollbackMetadata
from hoodie.common.model.commit_metadata import SCHEMA_KEY, HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.partition_metadata import create_partition_metadata
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.completion import complete
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.config.index_config import HoodieIndexConfig
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import (
    HoodieException,
    HoodieIndexException,
    HoodieMetadataException,
    HoodieNotSupportedException,
    HoodieWriteConflictException,
)
from hoodie.merge.record_merger import HoodieRecordMerger
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.index_definition_file import DEFINITIONS_FOLDER
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition, load_index_definitions
from hoodie.metadata.reader.log_file_ranges import LogFileRanges
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles, metadata_folder
from hoodie.metadata.records.file_records import rollback_files_entries
from hoodie.metadata.records.metadata_partition_type import (
    MetadataPartitionType,
    is_expression_index,
    require_supported,
)
from hoodie.metadata.records.metadata_record_schema import with_meta_columns
from hoodie.metadata.writer.compaction_planning import makes_compaction_due
from hoodie.metadata.writer.file_group_writer import (
    MetadataDeltaCommit,
    MetadataFileGroup,
    MetadataFileGroupWriter,
    delete_other_base_files,
)
from hoodie.metadata.writer.index_definition_writer import delete_index_definition, save_index_definition
from hoodie.metadata.writer.index_expressions import UnknownValuesError
from hoodie.metadata.writer.indexed_columns import indexed_columns_of_schema
from hoodie.metadata.writer.indexers import indexer_of
from hoodie.metadata.writer.initial_times import initial_time
from hoodie.metadata.writer.latest_files import committed_files
from hoodie.metadata.writer.lost_indexes import lost_indexes, may_lose_indexes
from hoodie.metadata.writer.metadata_table_services import MetadataTableCompactor
from hoodie.metadata.writer.new_metadata_table import create_metadata_table, newest_record_schema
from hoodie.metadata.writer.overtaken_records import hidden_by
from hoodie.metadata.writer.partition_indexer import (
    CommittedChange,
    EntriesOnDriver,
    IndexingContext,
    InitialRecords,
    MetadataPartitionIndexer,
    PartitionRecords,
    write_together,
)
from hoodie.metadata.writer.secondary_index_definitions import require_record_index
from hoodie.metadata.writer.table_difference import CatchingUpIndexer, ListedTable, TableDifference
from hoodie.metadata.writer.taken_back import PENDING_KEY, withdraw_delta_commit
from hoodie.storage.storage_path import file_name, join

logger = logging.getLogger(__name__)

_FILES = MetadataPartitionType.FILES.partition_path
_NO_INSTANT = "00000000000000"


@attrs.frozen(eq=False)
class BuildingSite:
    """Partitions that are built beside writers, and the state of the table that they are built of.

    Attributes:
        partitions: The partitions.
        instant_time: Their first delta commit in the metadata table; it is completed at the end.
        avro_schema: The schema of its records, as Avro JSON.
        listed: The table when the building began.
        definitions: The definitions of the secondary indexes among the partitions at that time.
    """

    partitions: tuple[str, ...]
    instant_time: str
    avro_schema: str
    listed: ListedTable
    definitions: Mapping[str, HoodieIndexDefinition] = {}


@attrs.frozen(eq=False)
class HoodieBackedTableMetadataWriter:
    """Writes the metadata table of a table. Lives on the driver, for one action; call it under the table's lock.

    Attributes:
        table: The table as it is, under the lock.
        config: The partitions of the metadata table, and its services.
        engine: Runs tasks.
        merger: The record merger that the writer names, in a table that merges by one.
        index_config: The writer's options of bloom filters.

    Hudi: org.apache.hudi.metadata.HoodieBackedTableMetadataWriter.
    """

    table: TableSnapshot
    config: HoodieMetadataConfig = attrs.field(factory=HoodieMetadataConfig)
    engine: HoodieEngineContext = attrs.field(factory=LocalEngineContext)
    merger: HoodieRecordMerger | None = None
    index_config: HoodieIndexConfig = attrs.field(factory=HoodieIndexConfig)

    # --- actions --------------------------------------------------------------------------------------------------

    def update_commit(self, change: CommittedChange, check: Callable[[], None]) -> bool:
        """Record an action that wrote files, right before it is completed.

        Args:
            change: The action.
            check: Raises where the lock was lost.

        Returns:
            Whether the metadata table is to be compacted once the action is completed; see `compact_if_due`.

        Raises:
            HoodieException: The metadata table cannot be brought up to date: the action must not be completed.
        """

        def records(indexer: MetadataPartitionIndexer, context: IndexingContext, _: str) -> PartitionRecords:
            definition = indexer.definition_after(context, change)
            if definition is not None:
                save_index_definition(self.table, definition)
            return indexer.of_commit(context, change)

        return self._delta_commit(change.instant_time, check, records)

    def update_clean(self, instant_time: str, clean: HoodieCleanMetadata, check: Callable[[], None]) -> bool:
        """Record a clean; see `update_commit`."""
        return self._delta_commit(
            instant_time, check, lambda indexer, context, _: indexer.of_clean(context, clean, instant_time)
        )

    def update_rollback(self, instant_time: str, rollback: HoodieRollbackMetadata, check: Callable[[], None]) -> bool:
        """Record a rollback; see `update_commit`.

        In table version 6 the rollback may have appended to log files. In versions 8 and 9 it only deletes files of the
        instant, and `withdraw` has already removed these from the metadata table.
        """
        if self._is_later:
            return False

        def records(
            indexer: MetadataPartitionIndexer, context: IndexingContext, partition: str
        ) -> PartitionRecords | None:
            return EntriesOnDriver(rollback_files_entries(rollback)) if partition == _FILES else None

        return self._delta_commit(instant_time, check, records, is_refusing=False)

    def compact_if_due(self, instant_time: str, check: Callable[[], None]) -> None:
        """Compact the metadata table after an action was completed, if a compaction is due.

        Args:
            instant_time: The action, which is completed in the table.
            check: Raises where the lock was lost.

        Raises:
            HoodieException: The compaction failed, or the lock was lost; the next writer finishes the compaction.
        """
        metadata = HoodieBackedTableMetadata.open(self.table)
        compactor = MetadataTableCompactor(metadata, self.config, self.engine, check, instant_time, is_refusing=False)
        compactor.compact_if_due()

    def withdraw(self, instant_time: str) -> bool:
        """Take back the records of a pending action, before the action is rolled back or tried again.

        Args:
            instant_time: The action.

        Returns:
            False if a base file of the metadata table holds them already: then it must be built anew.

        Raises:
            HoodieCorruptedDataException: A file of the metadata table holds records of other instants too.
            HoodieIOException: Storage failed; call again.
        """
        return withdraw_delta_commit(MetadataTableFiles.load(self.table), instant_time)

    # --- partitions -----------------------------------------------------------------------------------------------

    def initialise(
        self, partitions: Sequence[str], definitions: Mapping[str, HoodieIndexDefinition] | None = None
    ) -> TableSnapshot:
        """Build partitions that the table does not list yet from its files, and list them.

        With a record index, secondary indexes are built anew: without it, a key may have been in several places, and a
        secondary index has one entry for it. An expression index whose values hoodie does not know is dropped.

        No other instant may be pending, and failed ones must have been rolled back.

        Args:
            partitions: The partitions, ``files`` among them if there is no metadata table.
            definitions: Definitions of new secondary indexes; each is stored once its index is built.

        Returns:
            The table with its new properties.

        Raises:
            HoodieNotSupportedException: hoodie does not know such partitions.
            HoodieAmbiguousKeyException: The table has a key twice, so it can have no record index.
            HoodieKeyException: A key is too long for an index.
            HoodieException: A file of the table cannot be read, or storage failed; call again.
        """
        table = self.table
        version = table.table_config.table_version
        order = {kind: place for place, kind in enumerate(MetadataPartitionType)}
        due = {*partitions, *self._doubtful(partitions)}
        for partition in sorted(due, key=lambda path: (order[require_supported(path, version)], path)):
            writer = attrs.evolve(self, table=table)
            try:
                table = writer._initialise(partition, (definitions or {}).get(partition))
            except UnknownValuesError as error:
                table = writer.drop_lost({partition: str(error)})
        return table

    def without_lost_indexes(self, change: CommittedChange | None, check: Callable[[], None]) -> TableSnapshot:
        """Drop the indexes that an action cannot keep up, with a warning for each.

        Args:
            change: The action if it wrote files.
            check: Raises where the lock was lost.

        Returns:
            The table as it is then.

        Raises:
            HoodieException: A file is missing or damaged, or storage failed.
        """
        listed = self.table.table_config.metadata_partitions
        if not may_lose_indexes(listed):
            return self.table
        needs_records = change is not None and any(map(is_expression_index, listed))
        lost = lost_indexes(self._context(MetadataTableFiles.load(self.table) if needs_records else None), change)
        if not lost:
            return self.table
        check()
        return self.drop_lost(lost)

    def drop_lost(self, lost: Mapping[str, str]) -> TableSnapshot:
        """Drop indexes, with a warning for each.

        Args:
            lost: The indexes, and the reason of each.

        Returns:
            The table as it is then.
        """
        for path, reason in lost.items():
            logger.warning(
                "dropping the index %s of %s, which cannot be kept up: %s", path, self.table.base_path, reason
            )
        return self.drop(lost)

    def drop(self, partitions: Iterable[str]) -> TableSnapshot:
        """Delete partitions, ready or not: definitions of indexes that users make, then the properties, then folders.

        Readers of Hudi use what is defined, whether it is listed or not. So no reader uses an index from the first of
        these steps on. A run that died after it leaves an index that is listed and not defined, which the next action
        drops; or a folder that nobody knows.

        Args:
            partitions: The partitions; without ``files`` there is no metadata table.

        Returns:
            The table with its new properties.
        """
        dropped = set(partitions)
        for partition in sorted(dropped):
            kind = MetadataPartitionType.of_path(partition)
            if kind is None or kind.is_named:
                delete_index_definition(self.table, partition)
        listed = self.table.table_config.metadata_partitions
        table = self._list([path for path in listed if path not in dropped], dropped)
        for partition in sorted(dropped):
            table.storage.delete_directory(join(metadata_folder(table), partition))
        return table

    # --- partitions beside writers ------------------------------------------------------------------------------------

    def begin_building(
        self, partitions: Sequence[str], definitions: Mapping[str, HoodieIndexDefinition] | None = None
    ) -> BuildingSite:
        """Clear the folders of partitions that the table does not list yet; call it under the lock.

        Args:
            partitions: The partitions. The table lists ``files``, and none of them.
            definitions: The definitions of the secondary indexes among them.

        Raises:
            HoodieIndexException: The table has no record index, which a secondary index needs.
            HoodieNotSupportedException: A secondary index cannot be built; see `require_record_index`.
            HoodieException: The metadata table cannot be read, or storage failed; call again.
        """
        table, order = self.table, {kind: place for place, kind in enumerate(MetadataPartitionType)}
        version = table.table_config.table_version
        require_record_index(table, self.config, partitions)
        metadata_table = MetadataTableFiles.load(table).snapshot
        for partition in partitions:
            table.storage.delete_directory(join(metadata_table.base_path, partition))
        listed = ListedTable.of(table)
        return BuildingSite(
            tuple(sorted(partitions, key=lambda path: (order[require_supported(path, version)], path))),
            initial_time(metadata_table, listed.last_instant, is_beside_writers=True),
            newest_record_schema(metadata_table),
            listed,
            definitions or {},
        )

    def build(self, site: BuildingSite, check: Callable[[], None]) -> list[HoodieWriteStat]:
        """Write the base files of partitions, without a lock; no reader sees them.

        Args:
            site: See `begin_building`.
            check: Raises where another process has taken over.

        Returns:
            The statistics of the files.

        Raises:
            HoodieException: A file of the table cannot be read, perhaps because it was cleaned since; storage failed;
                or such a partition cannot be built beside writers.
        """
        builder, stats = attrs.evolve(self, table=site.listed.table), list[HoodieWriteStat]()
        files = MetadataTableFiles.load(builder.table)
        context = _with_definitions(builder._context(files), site.definitions)
        for partition in site.partitions:
            check()
            indexer = self._catching_up(partition)
            initial = indexer.initial(context, site.listed.files, site.listed.last_instant)
            stats += builder._write_initial(files.snapshot, partition, site.instant_time, site.avro_schema, initial)
            context = _with_definition(context, indexer)
        return stats

    def finish_building(
        self,
        site: BuildingSite,
        stats: Sequence[HoodieWriteStat],
        definitions: Mapping[str, HoodieIndexDefinition],
        check: Callable[[], None],
    ) -> TableSnapshot:
        """Bring the partitions that were built beside writers up to date, and list them; call it under the lock.

        From then on every action is recorded in them, also each action that is pending now.

        Args:
            site: See `begin_building`.
            stats: See `build`.
            definitions: As for `begin_building`, read again under the lock.
            check: Raises where the lock was lost, or another process has taken over.

        Returns:
            The table with its new properties.

        Raises:
            HoodieMetadataException: Somebody has deleted files that were built.
            HoodieIndexException: Somebody has changed the definition of a secondary index.
            HoodieException: A file of the table cannot be read; or storage failed. Nothing was listed.
        """
        now = ListedTable.of(self.table)
        listed = now.table.table_config.metadata_partitions
        missing = tuple(path for path in site.partitions if path not in listed)
        for partition in site.partitions:
            self._keep_only(site, partition, stats if partition in missing else ())
        stats = [stat for stat in stats if stat.partition_path in missing]
        if not missing:
            return now.table
        if any(site.definitions[path] != one for path, one in definitions.items() if path in missing):
            raise HoodieIndexException(
                f"the definitions of {', '.join(missing)} of {now.table.base_path} changed while these were being "
                "built: build them again"
            )
        noted = {PENDING_KEY: ",".join(one.requested_time for one in now.table.active_timeline.filter_pending())}
        metadata = _metadata(stats, site.avro_schema, WriteOperationType.BULK_INSERT)
        check()
        timeline = MetadataTableFiles.load(self.table).snapshot.active_timeline
        self._complete_build(timeline, site.instant_time, metadata, noted, check)
        built = now.table.table_config.with_metadata_partitions([*listed, *missing])
        as_listed = HoodieTableConfig({**now.table.table_config.properties, **built})
        ready = attrs.evolve(self, table=attrs.evolve(now.table, table_config=as_listed))
        files = MetadataTableFiles.load(ready.table)
        context = _with_definitions(ready._context(files), site.definitions)
        indexers = [self._catching_up(partition) for partition in missing]
        for indexer in indexers:
            context = _with_definition(context, indexer)
        difference = TableDifference.between(site.listed, now)
        if not difference.is_empty:
            time = initial_time(files.snapshot, now.last_instant, is_beside_writers=True)
            commit = ready._written_commit(files, time, site.avro_schema)
            more: list[HoodieWriteStat] = []
            for indexer in indexers:
                records = indexer.of_difference(context, difference)
                more += records.write(_writer(files, commit, indexer.partition_path), self.engine)
            metadata = _metadata(more, site.avro_schema, WriteOperationType.UPSERT_PREPPED)
            self._complete_build(files.snapshot.active_timeline, time, metadata, noted, check)
        stored = load_index_definitions(self.table.storage, self.table.meta_path)
        for path in (indexer.partition_path for indexer in indexers):
            # One of Hudi stays as it is stored.
            if path in context.definitions and context.definitions[path] != stored.get(path):
                save_index_definition(self.table, context.definitions[path])
        check()
        logger.info("built the partitions %s of the metadata table of %s", ", ".join(missing), self.table.base_path)
        # The next write builds secondary indexes anew.
        return self._list([*listed, *missing], set_aside=self._doubtful(missing))

    def _doubtful(self, built: Iterable[str]) -> set[str]:
        """The listed secondary indexes if the record index is being built; else none."""
        if MetadataPartitionType.RECORD_INDEX.partition_path not in built:
            return set()
        listed = self.table.table_config.metadata_partitions
        kind = MetadataPartitionType.SECONDARY_INDEX
        return {path for path in listed if MetadataPartitionType.of_path(path) is kind}

    def _complete_build(
        self,
        timeline: HoodieActiveTimeline,
        instant_time: str,
        metadata: HoodieCommitMetadata,
        noted: Mapping[str, str],
        check: Callable[[], None],
    ) -> None:
        metadata = attrs.evolve(metadata, extra_metadata={**metadata.extra_metadata, **noted})
        _begin(timeline, instant_time)
        complete(timeline, instant_time, Action.DELTA_COMMIT, metadata, check)

    def _keep_only(self, site: BuildingSite, partition: str, stats: Sequence[HoodieWriteStat]) -> None:
        """Delete base files of attempts that lost, and check that no other file is missing."""
        kept = {file_name(str(stat.path)): stat.file_size_bytes for stat in stats if stat.partition_path == partition}
        folder = join(metadata_folder(self.table), partition)
        found = delete_other_base_files(self.table.storage, folder, site.instant_time, kept)
        if not kept.items() <= found.items():
            raise HoodieMetadataException(
                f"somebody has deleted files of the partition {partition} of the metadata table of "
                f"{self.table.base_path}, which was being built beside writers: build it again"
            )

    def _catching_up(self, partition: str) -> CatchingUpIndexer:
        indexer = indexer_of(partition, self.table.table_config.table_version)
        if not isinstance(indexer, CatchingUpIndexer):
            raise HoodieNotSupportedException(f"the partition {partition} cannot be built beside writers")
        return indexer

    # --- parts of building --------------------------------------------------------------------------------------------

    def _initialise(self, partition: str, definition: HoodieIndexDefinition | None) -> TableSnapshot:
        table = self.table
        listed = table.table_config.metadata_partitions
        if partition != _FILES and _FILES in listed:
            files = MetadataTableFiles.load(table)
            metadata_table, context = files.snapshot, self._context(files)
            metadata_table.storage.delete_directory(join(metadata_table.base_path, partition))
        else:
            metadata_table, context = create_metadata_table(table), self._context(None)
        if definition is not None:
            context = attrs.evolve(context, definitions={**context.definitions, partition: definition})
        indexer = indexer_of(partition, table.table_config.table_version)
        last = table.active_timeline.filter_completed_instants().last_instant
        after = last.requested_time if last is not None else _NO_INSTANT
        initial = indexer.initial(context, committed_files(table), after)
        instant_time = initial_time(metadata_table, after)
        timeline, avro_schema = metadata_table.active_timeline, newest_record_schema(metadata_table)
        _begin(timeline, instant_time)
        try:
            stats = self._write_initial(metadata_table, partition, instant_time, avro_schema, initial)
        except BaseException:
            self._clear(metadata_table, partition, instant_time)
            raise
        metadata = _metadata(stats, avro_schema, WriteOperationType.BULK_INSERT)
        complete(timeline, instant_time, Action.DELTA_COMMIT, metadata)
        definition = definition or indexer.definition(context)
        if definition is not None:
            save_index_definition(table, definition)
        logger.info("built the partition %s of the metadata table of %s", partition, table.base_path)
        return self._list([*listed, partition], set_aside=self._doubtful([partition]))

    def _clear(self, metadata_table: TableSnapshot, partition: str, instant_time: str) -> None:
        """Delete the files of a partition that could not be built; if that fails, the next write deletes them."""
        storage = metadata_table.storage
        try:
            if _FILES in self.table.table_config.metadata_partitions:
                withdraw_delta_commit(MetadataTableFiles.load(self.table), instant_time)
                storage.delete_directory(join(metadata_table.base_path, partition))
            else:
                storage.delete_directory(metadata_table.base_path)
        except HoodieException as error:
            logger.warning("the partition %s of the metadata table of %s was not built, and its files are left: %s",
                           partition, self.table.base_path, error)  # fmt: skip

    def _write_initial(
        self,
        metadata_table: TableSnapshot,
        partition: str,
        instant_time: str,
        avro_schema: str,
        initial: InitialRecords,
    ) -> list[HoodieWriteStat]:
        storage, base_path = metadata_table.storage, metadata_table.base_path
        kind = require_supported(partition, self.table.table_config.table_version)
        # The folder was deleted right before.
        create_partition_metadata(storage, base_path, partition, instant_time)
        commit = MetadataDeltaCommit(storage, base_path, instant_time, with_meta_columns(avro_schema))
        writer = MetadataFileGroupWriter(commit, partition, (), is_initial=True)
        file_ids = [kind.file_id(number, partition) for number in range(initial.group_count)]
        return initial.records.write(writer.with_new_groups(file_ids), self.engine)

    def _list(
        self, partitions: Iterable[str], dropped: Iterable[str] = (), set_aside: Iterable[str] = ()
    ) -> TableSnapshot:
        """Change the list of ready partitions in the properties; the list of partitions to build keeps the others."""
        table, ready = self.table, set(partitions) - set(set_aside)
        inflight = (set(table.table_config.metadata_partitions_inflight) - ready - set(dropped)) | set(set_aside)
        updates = table.table_config.with_metadata_partitions(ready, inflight)
        return table.with_properties(HoodieTableConfig.update(table.storage, table.base_path, updates))

    # --- delta commits --------------------------------------------------------------------------------------------

    def _delta_commit(
        self,
        instant_time: str,
        check: Callable[[], None],
        records_of: Callable[[MetadataPartitionIndexer, IndexingContext, str], PartitionRecords | None],
        *,
        is_refusing: bool = True,
    ) -> bool:
        """Write the records of an instant.

        Returns:
            Whether the metadata table is to be compacted once the instant is completed.
        """
        may_have_definitions = self.table.may_have(DEFINITIONS_FOLDER)
        context = self._context(self._without_leftovers(instant_time), None if may_have_definitions else {})
        files, context = self._compacted(context, instant_time, check, is_refusing)
        stats, avro_schema = self._write_records(files, context, instant_time, records_of)
        later = hidden_by(files, stats, instant_time)
        if later:
            files = self._compacted_below(files, instant_time, check, later)
            stats, avro_schema = self._write_records(files, self._context(files), instant_time, records_of)
        metadata = _metadata(stats, avro_schema, WriteOperationType.UPSERT_PREPPED)
        timeline = files.snapshot.active_timeline
        complete(timeline, instant_time, Action.DELTA_COMMIT, metadata, check, is_sole_writer=True)
        return makes_compaction_due(files, self.config, instant_time)

    def _write_records(
        self,
        files: MetadataTableFiles,
        context: IndexingContext,
        instant_time: str,
        records_of: Callable[[MetadataPartitionIndexer, IndexingContext, str], PartitionRecords | None],
    ) -> tuple[list[HoodieWriteStat], str]:
        """Begin a delta commit and write its files; return their statistics, and the schema of the records."""
        timeline = files.snapshot.active_timeline
        version = self.table.table_config.table_version
        indexers = {path: indexer_of(path, version) for path in self.table.table_config.metadata_partitions}
        avro_schema = newest_record_schema(files.snapshot)
        commit = self._written_commit(files, instant_time, avro_schema)
        _begin(timeline, instant_time)
        stats: list[HoodieWriteStat] = []
        waiting: list[tuple[MetadataFileGroupWriter, EntriesOnDriver]] = []
        for partition, indexer in indexers.items():
            records = records_of(indexer, context, partition)
            if records is None:
                continue
            writer = _writer(files, commit, partition)
            if isinstance(records, EntriesOnDriver):
                waiting.append((writer, records))
            else:
                stats += records.write(writer, self.engine)
        # Each file is waited for until it is on the disk.
        return [*write_together(waiting), *stats], avro_schema

    def _compacted_below(
        self, files: MetadataTableFiles, instant_time: str, check: Callable[[], None], later: frozenset[str]
    ) -> MetadataTableFiles:
        """Take back a delta commit, compact what later instants wrote, and load the metadata table again."""
        withdraw_delta_commit(MetadataTableFiles.load(self.table), instant_time)
        metadata = self._context(MetadataTableFiles.load(self.table)).metadata
        assert metadata is not None
        names = ", ".join(sorted(later))
        logger.info("compacting the metadata table of %s, since %s wrote keys of %s, and began later than it",
                    self.table.base_path, names, instant_time)  # fmt: skip
        if not MetadataTableCompactor(metadata, self.config, self.engine, check, instant_time).compact():
            raise HoodieWriteConflictException(
                f"{instant_time} of {self.table.base_path} was not completed: {names} began later, was completed "
                "before, and wrote the same record keys. Write it again",
                instant_time=instant_time, other_instants=sorted(later), is_retry_safe=True,
            )  # fmt: skip
        return MetadataTableFiles.load(self.table)

    def _without_leftovers(self, instant_time: str) -> MetadataTableFiles:
        """Take back delta commits of dead writers and of earlier attempts of this instant; load the metadata table."""
        files = MetadataTableFiles.load(self.table)
        known = {instant.requested_time for instant in self.table.active_timeline if instant.is_pending}
        stale = [
            instant.requested_time
            for instant in files.snapshot.active_timeline.filter_actions(Action.DELTA_COMMIT)
            if instant.requested_time == instant_time or (instant.is_pending and instant.requested_time not in known)
        ]
        for time in stale:
            logger.warning("taking back %s of the metadata table of %s", time, self.table.base_path)
            withdraw_delta_commit(files, time)
        return MetadataTableFiles.load(self.table) if stale else files

    def _compacted(
        self, context: IndexingContext, instant_time: str, check: Callable[[], None], is_refusing: bool
    ) -> tuple[MetadataTableFiles, IndexingContext]:
        """Compact the metadata table if that is due; return its files and the context afterwards."""
        metadata = context.metadata
        assert metadata is not None
        compactor = MetadataTableCompactor(
            metadata, self.config, self.engine, check, instant_time, is_refusing, precedes_delta_commit=True
        )
        if not compactor.compact_if_due():
            return metadata.files, context
        files = MetadataTableFiles.load(self.table)
        return files, self._context(files)

    def _written_commit(self, files: MetadataTableFiles, instant_time: str, avro_schema: str) -> MetadataDeltaCommit:
        storage, base_path = files.snapshot.storage, files.snapshot.base_path
        return MetadataDeltaCommit(storage, base_path, instant_time, with_meta_columns(avro_schema), self._is_later)

    def log_file_ranges(self, avro_schema: str) -> LogFileRanges:
        """See `hoodie.metadata.metadata_table.MetadataTable.log_file_ranges`."""
        columns = indexed_columns_of_schema(self._context(None), avro_schema)
        return LogFileRanges(columns.schema, columns.written, columns.stats_version, columns.in_millis)

    def _context(
        self, files: MetadataTableFiles | None, definitions: Mapping[str, HoodieIndexDefinition] | None = None
    ) -> IndexingContext:
        table = self.table
        if definitions is None:
            definitions = load_index_definitions(table.storage, table.meta_path)
        metadata = None if files is None else HoodieBackedTableMetadata(table, files, [definitions])
        return IndexingContext(
            table, self.engine, self.config, definitions, metadata, merger=self.merger, index_config=self.index_config
        )

    @property
    def _is_later(self) -> bool:
        return self.table.active_timeline.layout.has_completion_times


def _writer(files: MetadataTableFiles, commit: MetadataDeltaCommit, partition: str) -> MetadataFileGroupWriter:
    slices = (file_slice for group in files.file_groups(partition).values() for file_slice in group)
    return MetadataFileGroupWriter(commit, partition, [MetadataFileGroup.of(file_slice) for file_slice in slices])


def _begin(timeline: HoodieActiveTimeline, instant_time: str) -> None:
    """Make the requested and the inflight file of a delta commit, before any other file of it; both are empty.

    Nobody else writes to the timeline under the table's lock, so nothing happens in between, and they are flushed to
    the disk together. What a power cut leaves of them is a pending instant, or nothing.
    """
    pending = (HoodieInstant(instant_time, Action.DELTA_COMMIT, state) for state in (State.REQUESTED, State.INFLIGHT))
    timeline.storage.create_all_if_absent([(timeline.path_of(instant), b"") for instant in pending])


def _with_definition(context: IndexingContext, indexer: MetadataPartitionIndexer) -> IndexingContext:
    """The context of a table with the definition of a partition that is being built, if it has one."""
    definition = indexer.definition(context)
    return context if definition is None else _with_definitions(context, {indexer.partition_path: definition})


def _with_definitions(context: IndexingContext, definitions: Mapping[str, HoodieIndexDefinition]) -> IndexingContext:
    return attrs.evolve(context, definitions={**context.definitions, **definitions})


def _metadata(
    stats: Sequence[HoodieWriteStat], avro_schema: str, operation: WriteOperationType
) -> HoodieCommitMetadata:
    by_partition: dict[str, list[HoodieWriteStat]] = {}
    for stat in stats:
        by_partition.setdefault(stat.partition_path, []).append(stat)
    return HoodieCommitMetadata(
        {path: tuple(found) for path, found in by_partition.items()}, {SCHEMA_KEY: avro_schema}, operation
    )
