"""Build partitions of the metadata table beside writers; create and drop secondary indexes.

Hudi: org.apache.hudi.HoodieSparkIndexClient. Differs: `create_index` builds under the table's lock, in one step, and
`schedule_indexing` plans what is to be built beside writers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import attrs

from hoodie.avro.service_metadata import HoodieIndexCommitMetadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieConfigException
from hoodie.metadata.metadata_indexes import MetadataIndexes
from hoodie.metadata.metadata_table import MetadataTable, MetadataTableUpkeep
from hoodie.metadata.records.metadata_partition_type import secondary_index_partition
from hoodie.table.action.index.run_index_action_executor import IndexTakeover, RunIndexActionExecutor
from hoodie.table.action.index.schedule_index_action_executor import ScheduleIndexActionExecutor
from hoodie.table.table_session import TableSession
from hoodie.table.table_state import refuse_pending_restore

logger = logging.getLogger(__name__)

_NO_INDEXING = "nothing is indexed until it is finished"


@attrs.frozen(eq=False)
class IndexService:
    """The indexings and the secondary indexes of one table.

    Attributes:
        session: The writer's configuration, engine, lock and heartbeats.
    """

    session: TableSession

    # --- indexing -------------------------------------------------------------------------------------------------

    def schedule(self, partitions: Mapping[str, str | None]) -> str:
        """Plan an indexing; see `BaseHoodieTableServiceClient.schedule_indexing`."""
        snapshot = self._load()
        with (
            self.session.metrics.step("plan the indexing"),
            self.session.transactions.held(snapshot, "planning of an indexing"),
        ):
            snapshot = snapshot.with_properties_reloaded().refreshed()
            refuse_pending_restore(snapshot, _NO_INDEXING)
            MetadataTable(snapshot).refuse_misplaced_times(", ".join(partitions))
            return ScheduleIndexActionExecutor(snapshot, self.session.config.metadata).execute(partitions)

    def index(self, instant_time: str) -> HoodieIndexCommitMetadata | None:
        """Carry an indexing out; see `BaseHoodieTableServiceClient.index`."""
        with self.session.metrics.step("index", instant_time):
            return self._executor(self._load()).execute(instant_time)

    def take_back(self, snapshot: TableSnapshot, instant_time: str) -> bool:
        """Take a pending indexing back.

        Args:
            snapshot: The table.
            instant_time: The instant.

        Returns:
            False if it is no indexing.

        Raises:
            HoodieException: See `RunIndexActionExecutor.take_back`.
        """
        if snapshot.active_timeline.find(instant_time, Action.INDEXING) is None:
            return False
        return self._executor(snapshot).take_back(instant_time)

    def _executor(self, snapshot: TableSnapshot) -> RunIndexActionExecutor:
        upkeep = MetadataTableUpkeep.of(self.session.config, self.session.context)
        return RunIndexActionExecutor(snapshot, upkeep, IndexTakeover(self.session))

    def _load(self) -> TableSnapshot:
        snapshot = self.session.now()
        refuse_pending_restore(snapshot, _NO_INDEXING)
        MetadataTable(snapshot).refuse_unknown_partitions()
        return snapshot

    # --- secondary indexes ----------------------------------------------------------------------------------------

    def create(self, name: str, column: str) -> bool:
        """Build an index; see `BaseHoodieTableServiceClient.create_index`."""
        partition = secondary_index_partition(name)
        snapshot = self.session.now()
        if self.session.config.metadata.enable is False:
            raise HoodieConfigException(
                f"hoodie.metadata.enable=false: an index of {snapshot.base_path} is part of its metadata table; leave "
                "the option out"
            )
        upkeep = MetadataTableUpkeep.of(self.session.config, self.session.context)
        definition = MetadataIndexes(snapshot, upkeep).definition(partition, column)
        with (
            self.session.metrics.step("create the index"),
            self.session.transactions.held(snapshot, f"creating the index {name}"),
        ):
            metadata_table = MetadataTable(snapshot).now()
            metadata_table.refuse_unknown_partitions()
            metadata_table.refuse_misplaced_times(f"the index {name}")
            is_created = MetadataIndexes(metadata_table.table, upkeep).create(definition)
        if is_created:
            logger.info("created the index %s on %s of %s", name, column, snapshot.base_path)
        return is_created

    def drop(self, name: str) -> bool:
        """Delete an index; see `BaseHoodieTableServiceClient.drop_index`."""
        partition = secondary_index_partition(name)
        snapshot = self.session.now()
        with self.session.transactions.held(snapshot, f"dropping the index {name}"):
            snapshot = snapshot.with_properties_reloaded().refreshed()
            return MetadataIndexes(snapshot, MetadataTableUpkeep.of(self.session.config, self.session.context)).drop(
                partition
            )
