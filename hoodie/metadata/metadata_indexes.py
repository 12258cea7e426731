"""Indexes of a metadata table that users make and drop, and partitions that are built beside writers.

The steps of an indexing, and what a death between two of them leaves, are those of
`hoodie.table.action.index.run_index_action_executor`.

Hudi: org.apache.hudi.metadata.HoodieBackedTableMetadataWriter (buildMetadataPartitions, dropMetadataPartitions).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from hoodie.avro.service_metadata import HoodieIndexPlan
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.index_plans import planned_partitions
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieIndexException
from hoodie.metadata.metadata_table import MetadataTable, MetadataTableUpkeep
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition, load_index_definitions
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles, metadata_folder
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType, is_secondary_index
from hoodie.metadata.writer.index_definition_writer import delete_index_definition
from hoodie.metadata.writer.planned_indexes import plan_indexing
from hoodie.metadata.writer.secondary_index_definitions import (
    new_secondary_index,
    planned_secondary_indexes,
    require_record_index,
    stored_secondary_indexes,
)
from hoodie.metadata.writer.table_difference import ListedTable
from hoodie.metadata.writer.table_metadata_writer import BuildingSite as BuildingSite  # for those who carry it out
from hoodie.metadata.writer.table_metadata_writer import HoodieBackedTableMetadataWriter
from hoodie.metadata.writer.taken_back import withdraw_delta_commit
from hoodie.storage.storage_path import join

_FILES = MetadataPartitionType.FILES.partition_path
_NEEDED = (_FILES, MetadataPartitionType.RECORD_INDEX.partition_path)


@attrs.frozen(eq=False)
class MetadataIndexes:
    """The indexes of one metadata table, for one writer. Except for `build`, call the methods under the table's lock.

    Attributes:
        table: The table as it is, under its lock.
        upkeep: The upkeep of its metadata table; runs the tasks.
    """

    table: TableSnapshot
    upkeep: MetadataTableUpkeep

    # --- indexes that users make ------------------------------------------------------------------------------------

    def definition(self, partition: str, column: str) -> HoodieIndexDefinition:
        """The definition of a secondary index that the table can have; needs no lock.

        Args:
            partition: The partition of the index.
            column: The column.

        Raises:
            HoodieIndexException: The table has no such column on its top level.
            HoodieNotSupportedException: The version of the table, or the type of the column.
        """
        return new_secondary_index(self.table, partition, column)

    def create(self, definition: HoodieIndexDefinition) -> bool:
        """Build a secondary index, and the record index if there is none.

        Args:
            definition: Its definition; no instant is pending that writes files.

        Returns:
            False if the table has this index.

        Raises:
            HoodieIndexException: There is another index of that name, or an instant is pending.
            HoodieException: The index cannot be built, or storage failed; call again.
        """
        table, partition = self.table, definition.name
        name = partition.removeprefix(MetadataPartitionType.SECONDARY_INDEX.partition_path)
        listed = table.table_config.metadata_partitions
        known = load_index_definitions(table.storage, table.meta_path).get(partition)
        if partition in listed:
            if known is not None and known.source_fields == definition.source_fields:
                return False
            of = "" if known is None else f" of {', '.join(known.source_fields)}"
            raise HoodieIndexException(
                f"{table.base_path} has an index {name}{of} already: drop it first (client.drop_index), or "
                "choose another name"
            )
        self._refuse_pending(name)
        require_record_index(table, self.upkeep.config, (*_NEEDED, partition))
        table = self._writer(table).initialise([path for path in _NEEDED if path not in listed])
        self._writer(table).initialise([partition], {partition: definition})
        return True

    def drop(self, partition: str) -> bool:
        """Delete a secondary index and its definition.

        Args:
            partition: The partition of the index.

        Returns:
            False if there was neither.

        Raises:
            HoodieIndexException: A pending indexing is to build it.
            HoodieIOException: Storage failed; call again.
        """
        table = self.table
        planned = planned_partitions(table.active_timeline).get(partition)
        if planned is not None:
            name = partition.removeprefix(MetadataPartitionType.SECONDARY_INDEX.partition_path)
            raise HoodieIndexException(
                f"the index {name} of {table.base_path} cannot be dropped while indexing {planned} is pending, "
                f"which is to build it: take that back with client.rollback('{planned}')"
            )
        # One that was set aside would be built by the next write, which then finds no definition.
        is_listed = partition in table.table_config.listed_metadata_partitions
        if is_listed or partition in load_index_definitions(table.storage, table.meta_path):
            self._writer(table).drop([partition])
            return True
        return False

    def _refuse_pending(self, name: str) -> None:
        """Refuse while instants are pending, whose files are neither committed nor gone."""
        pending = [one for one in self.table.active_timeline.filter_pending() if one.action is not Action.SAVEPOINT]
        if pending:
            raise HoodieIndexException(
                f"creating the index {name} of {self.table.base_path} is not possible while {pending[0].action} "
                f"{pending[0].requested_time} is pending: let its writer end, or roll it back; a pending compaction is "
                "to be carried out. Then call again"
            )

    # --- partitions that are built beside writers -------------------------------------------------------------------

    def plan(self, partitions: Mapping[str, str | None]) -> str:
        """Plan to build partitions beside writers.

        Args:
            partitions: The partitions, and the columns of secondary indexes; None for one whose definition is stored.

        Returns:
            The time of the indexing.

        Raises:
            HoodieException: A secondary index cannot be built: by a column that is given, or by its definition.
            HoodieIOException: Storage failed.
        """
        table = self.table
        stored = stored_secondary_indexes(table, [path for path, column in partitions.items() if column is None])
        columns = {path: column for path, column in partitions.items() if column is not None}
        for path, column in (columns | {path: one.source_fields[0] for path, one in stored.items()}).items():
            new_secondary_index(table, path, column)
        require_record_index(table, self.upkeep.config, partitions)
        return plan_indexing(table, partitions)

    def begin_building(self, instant_time: str, plan: HoodieIndexPlan) -> BuildingSite | None:
        """Clear the folders of the partitions that an indexing builds, and list the table.

        Args:
            instant_time: The indexing, inflight.
            plan: Its plan.

        Returns:
            The argument of `build`; None if all partitions of the plan are listed already.

        Raises:
            HoodieIndexException: The table has no record index, which a secondary index needs.
            HoodieException: The metadata table cannot be read, or storage failed; call again.
        """
        table = self._without_attempt(instant_time, plan)
        unlisted, definitions = _unlisted(table, plan), planned_secondary_indexes(table, plan)
        return self._writer(table).begin_building(unlisted, definitions) if unlisted else None

    def build(self, site: BuildingSite, check: Callable[[], None]) -> list[HoodieWriteStat]:
        """Write the base files of partitions; see `HoodieBackedTableMetadataWriter.build`."""
        return self._writer(site.listed.table).build(site, check)

    def finish_building(
        self, site: BuildingSite, stats: Sequence[HoodieWriteStat], plan: HoodieIndexPlan, check: Callable[[], None]
    ) -> TableSnapshot:
        """Add the changes of other writers since the build to the built partitions, and list these.

        Args:
            site: See `begin_building`.
            stats: See `build`.
            plan: The plan of the indexing, read again.
            check: Raises where the lock was lost, or another process has taken over.

        Returns:
            The table with its new properties.

        Raises:
            HoodieException: See `HoodieBackedTableMetadataWriter.finish_building`; nothing was listed.
        """
        definitions = planned_secondary_indexes(self.table, plan)
        return self._writer(self.table).finish_building(site, stats, definitions, check)

    def delete_unlisted(self, instant_time: str, plan: HoodieIndexPlan) -> TableSnapshot:
        """Delete what an indexing that is taken back has built; partitions that it has listed already are right.

        Args:
            instant_time: The indexing.
            plan: Its plan.

        Returns:
            The table as it is then.

        Raises:
            HoodieIOException: Storage failed; call again.
        """
        table = self._without_attempt(instant_time, plan)
        for partition in _unlisted(table, plan):
            table.storage.delete_directory(join(metadata_folder(table), partition))
            # It is stored right before the index is listed, or was so by Hudi, whose writers build what is defined.
            if is_secondary_index(partition):
                delete_index_definition(table, partition)
        return table

    def has_lost_files(self, site: BuildingSite) -> bool:
        """Whether files of the table that was listed are not committed any more.

        Args:
            site: See `begin_building`.
        """
        if _FILES not in self.table.table_config.metadata_partitions:
            return False
        return ListedTable.of(self.table).lacks_files_of(site.listed)

    def _without_attempt(self, instant_time: str, plan: HoodieIndexPlan) -> TableSnapshot:
        """The table without what an attempt of Hudi has left: it lists what it builds."""
        table = self.table
        config = table.table_config
        inflight = set(config.metadata_partitions_inflight)
        if _FILES in config.metadata_partitions:
            files = MetadataTableFiles.load(table)
            begun = files.snapshot.active_timeline.find(instant_time, Action.DELTA_COMMIT)
            if begun is not None and begun.is_pending:
                withdraw_delta_commit(files, instant_time)
        if not inflight & set(plan.partition_paths):
            return table
        updates = config.with_metadata_partitions(config.metadata_partitions, inflight - set(plan.partition_paths))
        HoodieTableConfig.update(table.storage, table.base_path, updates)
        return table.with_properties_reloaded()

    def _writer(self, table: TableSnapshot) -> HoodieBackedTableMetadataWriter:
        return MetadataTable(table, self.upkeep).writer


def _unlisted(table: TableSnapshot, plan: HoodieIndexPlan) -> list[str]:
    """The partitions of a plan that are not ready."""
    return [path for path in plan.partition_paths if path not in table.table_config.metadata_partitions]
