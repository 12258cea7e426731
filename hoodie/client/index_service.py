"""Build partitions of the metadata table beside writers; create and drop secondary indexes.

Hudi: org.apache.hudi.HoodieSparkIndexClient. Differs: `create_index` builds under the table's lock, in one step, and
`schedule_indexing` plans what is to be built beside writers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

import attrs

from hoodie.avro.service_metadata import HoodieIndexCommitMetadata
from hoodie.client.open_table import load_table
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.exception import HoodieConfigException
from hoodie.metadata.metadata_indexes import MetadataIndexes
from hoodie.metadata.metadata_table import MetadataTable, MetadataTableUpkeep, one_at_a_time
from hoodie.metadata.records.metadata_partition_type import secondary_index_partition
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.table.action.index.run_index_action_executor import IndexTakeover, RunIndexActionExecutor
from hoodie.table.action.index.schedule_index_action_executor import ScheduleIndexActionExecutor
from hoodie.table.table_state import refuse_pending_restore
from hoodie.transaction.heartbeat_client import HoodieHeartbeatClient
from hoodie.transaction.transaction_manager import TransactionManager

logger = logging.getLogger(__name__)

_NO_INDEXING = "nothing is indexed until it is finished"


@attrs.frozen(eq=False)
class IndexService:
    """The indexings and the secondary indexes of one table.

    Attributes:
        context: The engine.
        config: The writer's configuration.
        metrics: Times the steps.
        transactions: The table's lock.
        heartbeats: Signs of life of the indexings that this client carries out.
    """

    context: HoodieEngineContext
    config: HoodieWriteConfig
    metrics: HoodieMetrics
    transactions: TransactionManager
    heartbeats: HoodieHeartbeatClient

    # --- indexing -------------------------------------------------------------------------------------------------

    def schedule(self, partitions: Mapping[str, str | None]) -> str:
        """Plan an indexing; see `BaseHoodieTableServiceClient.schedule_indexing`."""
        snapshot = self._load()
        with (
            self.metrics.step("plan the indexing"),
            self.transactions.transaction(snapshot, "planning of an indexing"),
            one_at_a_time(snapshot),
        ):
            snapshot = snapshot.with_properties_reloaded().refreshed()
            refuse_pending_restore(snapshot, _NO_INDEXING)
            MetadataTable(snapshot).refuse_misplaced_times(", ".join(partitions))
            return ScheduleIndexActionExecutor(snapshot, self.config.metadata).execute(partitions)

    def index(self, instant_time: str) -> HoodieIndexCommitMetadata | None:
        """Carry an indexing out; see `BaseHoodieTableServiceClient.index`."""
        with self.metrics.step("index", instant_time):
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
        upkeep = MetadataTableUpkeep.of(self.config, self.context)
        takeover = IndexTakeover(
            options=self.config.write,
            transactions=self.transactions,
            heartbeats=self.heartbeats,
            load=partial(load_table, self.config),
        )
        return RunIndexActionExecutor(snapshot, upkeep, self.transactions, takeover)

    def _load(self) -> TableSnapshot:
        snapshot = load_table(self.config)
        refuse_pending_restore(snapshot, _NO_INDEXING)
        MetadataTable(snapshot).refuse_unknown_partitions()
        return snapshot

    # --- secondary indexes ----------------------------------------------------------------------------------------

    def create(self, name: str, column: str) -> bool:
        """Build an index; see `BaseHoodieTableServiceClient.create_index`."""
        partition = secondary_index_partition(name)
        snapshot = load_table(self.config)
        if self.config.metadata.enable is False:
            raise HoodieConfigException(
                f"hoodie.metadata.enable=false: an index of {snapshot.base_path} is part of its metadata table; leave "
                "the option out"
            )
        upkeep = MetadataTableUpkeep.of(self.config, self.context)
        definition = MetadataIndexes(snapshot, upkeep).definition(partition, column)
        with (
            self.metrics.step("create the index"),
            self.transactions.transaction(snapshot, f"creating the index {name}"),
            one_at_a_time(snapshot),
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
        snapshot = load_table(self.config)
        with self.transactions.transaction(snapshot, f"dropping the index {name}"), one_at_a_time(snapshot):
            snapshot = snapshot.with_properties_reloaded().refreshed()
            return MetadataIndexes(snapshot, MetadataTableUpkeep.of(self.config, self.context)).drop(partition)
