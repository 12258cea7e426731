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
from hoodie.common.table.index_plans import planned_partitions
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.exception import HoodieConfigException, HoodieIndexException
from hoodie.metadata.reader.index_definitions import load_index_definitions
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.writer.index_definition_writer import delete_index_definition
from hoodie.metadata.writer.secondary_index_definitions import (
    new_secondary_index,
    require_record_index,
    secondary_index_partition,
)
from hoodie.metadata.writer.table_metadata_writer import one_at_a_time
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.table.action.index.run_index_action_executor import IndexTakeover, RunIndexActionExecutor
from hoodie.table.action.index.schedule_index_action_executor import ScheduleIndexActionExecutor
from hoodie.table.metadata_table import MetadataTableUpkeep, listed_partitions, refuse_unknown_partitions
from hoodie.table.misplaced_metadata_table import refuse_misplaced_times
from hoodie.table.table_state import refuse_pending_restore
from hoodie.transaction.heartbeat_client import HoodieHeartbeatClient
from hoodie.transaction.transaction_manager import TransactionManager

logger = logging.getLogger(__name__)

_NEEDED = (MetadataPartitionType.FILES.partition_path, MetadataPartitionType.RECORD_INDEX.partition_path)
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
            refuse_misplaced_times(snapshot, ", ".join(partitions))
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
        refuse_unknown_partitions(snapshot)
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
        definition = new_secondary_index(snapshot, partition, column)
        what = f"creating the index {name}"
        with (
            self.metrics.step("create the index"),
            self.transactions.transaction(snapshot, what),
            one_at_a_time(snapshot),
        ):
            snapshot = snapshot.with_properties_reloaded().refreshed()
            refuse_unknown_partitions(snapshot)
            refuse_misplaced_times(snapshot, f"the index {name}")
            listed = snapshot.table_config.metadata_partitions
            known = load_index_definitions(snapshot.storage, snapshot.meta_path).get(partition)
            if partition in listed:
                if known is not None and known.source_fields == (column,):
                    return False
                of = "" if known is None else f" of {', '.join(known.source_fields)}"
                raise HoodieIndexException(
                    f"{snapshot.base_path} has an index {name}{of} already: drop it first (client.drop_index), or "
                    "choose another name"
                )
            _refuse_pending(snapshot, what)
            require_record_index(snapshot, self.config.metadata, (*_NEEDED, partition))
            upkeep = MetadataTableUpkeep.of(self.config, self.context)
            snapshot = upkeep.writer(snapshot).initialise([path for path in _NEEDED if path not in listed])
            upkeep.writer(snapshot).initialise([partition], {partition: definition})
        logger.info("created the index %s on %s of %s", name, column, snapshot.base_path)
        return True

    def drop(self, name: str) -> bool:
        """Delete an index; see `BaseHoodieTableServiceClient.drop_index`."""
        partition = secondary_index_partition(name)
        snapshot = load_table(self.config)
        with self.transactions.transaction(snapshot, f"dropping the index {name}"), one_at_a_time(snapshot):
            snapshot = snapshot.with_properties_reloaded().refreshed()
            planned = planned_partitions(snapshot.active_timeline).get(partition)
            if planned is not None:
                raise HoodieIndexException(
                    f"the index {name} of {snapshot.base_path} cannot be dropped while indexing {planned} is pending, "
                    f"which is to build it: take that back with client.rollback('{planned}')"
                )
            # One that was set aside would be built by the next write, which then finds no definition.
            is_listed = partition in listed_partitions(snapshot.table_config)
            if is_listed:
                MetadataTableUpkeep.of(self.config, self.context).writer(snapshot).drop([partition])
            is_defined = delete_index_definition(snapshot, partition)
        return is_listed or is_defined


def _refuse_pending(snapshot: TableSnapshot, what: str) -> None:
    """Refuse while instants are pending, whose files are neither committed nor gone."""
    pending = [one for one in snapshot.active_timeline.filter_pending() if one.action is not Action.SAVEPOINT]
    if pending:
        raise HoodieIndexException(
            f"{what} of {snapshot.base_path} is not possible while {pending[0].action} {pending[0].requested_time} is "
            "pending: let its writer end, or roll it back; a pending compaction is to be carried out. Then call again"
        )
