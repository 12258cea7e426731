"""The parts of a writer that live as long as its client, and that all of its actions share."""

from __future__ import annotations

from typing import Self

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.index.index import HoodieIndex
from hoodie.index.index_factory import create_index
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.table.open_table import load_table
from hoodie.transaction.heartbeat_client import HoodieHeartbeatClient
from hoodie.transaction.transaction_manager import TransactionManager


@attrs.define(eq=False)
class TableSession:
    """One writer's hold on one table. A client makes it, and closes its parts in its own order.

    Attributes:
        config: The writer's configuration. It changes once, where the table is found to have another index layout.
        context: The engine.
        metrics: Times the steps.
        transactions: The table's lock.
        heartbeats: Signs of life of the instants that this writer is at work on.
        index: The index; it changes with the configuration.
    """

    config: HoodieWriteConfig
    context: HoodieEngineContext
    metrics: HoodieMetrics
    transactions: TransactionManager
    heartbeats: HoodieHeartbeatClient
    index: HoodieIndex

    @classmethod
    def open(cls, config: HoodieWriteConfig, context: HoodieEngineContext, metrics: HoodieMetrics) -> Self:
        """The session of a writer; the table is not looked at.

        Args:
            config: The writer's configuration.
            context: The engine.
            metrics: Times the steps.

        Raises:
            HoodieConfigException: The lock provider or the index is not known.
        """
        index = create_index(config)
        transactions = TransactionManager(config, metrics=metrics)
        return cls(config, context, metrics, transactions, HoodieHeartbeatClient(config.write), index)

    def now(self, found: TableSnapshot | None = None) -> TableSnapshot:
        """The table as it is now; see `load_table`.

        Args:
            found: The table, if it was loaded a moment ago; None loads it.
        """
        return load_table(self.config, found)

    def use_index(self, config: HoodieWriteConfig) -> None:
        """Go on with the index that the table was found to have.

        Args:
            config: The configuration that names it.
        """
        self.config, self.index = config, create_index(config)
