"""Replace a table by a new one with other properties or columns: the second way of mode overwrite.

The new table is written beside the old one, by an ordinary write of the engine to a folder of its own. All of the frame
is read by then, so it may read the old table in whatever form. Then the new table takes the place of the old one; see
`hoodie.table.table_overwrite`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from hoodie.callback.commit_callbacks import CommitCallbacks
from hoodie.callback.write_commit_callback import HoodieWriteCommitCallbackMessage
from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.client.chosen_operation import run_operation
from hoodie.client.new_table import name_of_table, table_to_create
from hoodie.client.unknown_writes import refuse_unknown_writes
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.table_version import TABLE_VERSIONS
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import commit_action
from hoodie.config.callback_config import HoodieWriteCommitCallbackConfig
from hoodie.config.index_config import IndexType
from hoodie.config.sync_config import HoodieSyncConfig
from hoodie.config.timestamp_key_generator_config import HoodieTimestampKeyGeneratorConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.config.write_options import WriteConcurrencyMode
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.sync.sync_after_calls import CatalogSync
from hoodie.table.open_table import look_at_table
from hoodie.table.table_overwrite import TableOverwrite
from hoodie.transaction.transaction_manager import TransactionManager

_PARTITION_KEY = "hoodie.datasource.write.partitionpath.field"


@attrs.frozen
class TableReplacement:
    """One replacement.

    Attributes:
        config: The configuration of the write; the old table describes what its options leave out (`described_by`).
        table: The old table, as it was when the way was chosen.
        operation: The operation that writes the rows.
        open_client: Makes a client of the engine.
        completed: The completed writes that the frame may know of; None for all.
    """

    config: HoodieWriteConfig
    table: TableSnapshot
    operation: str
    open_client: Callable[[HoodieWriteConfig], BaseHoodieWriteClient]
    completed: frozenset[str] | None = None

    def run(self, data: Any) -> HoodieWriteResult:
        """Write the new table, and let it take its place.

        Args:
            data: The rows.

        Returns:
            The outcome of the write.

        Raises:
            HoodieLockException: Another process is at work; nothing was changed.
            HoodieException: See `TableOverwrite.take_place`, and the errors of the operation, after which the old table
                is as it was.
        """
        transactions = TransactionManager(self.config)
        try:
            with transactions.alone():
                result, catalogs = self._replace(data, transactions)
        finally:
            transactions.close()
        if result.is_committed:
            catalogs.note()
            state = result.commit_state
            state.service_errors = (*state.service_errors, *catalogs.run())
        return result

    def _replace(self, data: Any, transactions: TransactionManager) -> tuple[HoodieWriteResult, CatalogSync]:
        given = self.config
        old = look_at_table(given)
        refuse_unknown_writes(old, self.completed)
        # Others may have changed the table since the way was chosen.
        config = described_by(given, old.table_config)
        transactions.check(old)
        callbacks = CommitCallbacks(config)
        overwrite = TableOverwrite.begin(old.storage, old.base_path)
        staged = _config_of_new_table(config, overwrite.folder)
        try:
            table_to_create(staged).create()
            with self.open_client(staged) as client:
                result = run_operation(client, self.operation, data, staged)
                context = client.engine_context
        except BaseException as error:
            overwrite.drop()
            error.add_note(
                f"mode 'overwrite' was writing the table that should replace {old.base_path}, which is as it was"
            )
            raise
        with transactions.transaction(old, f"overwrite {overwrite.time}") as transaction:
            attrs.evolve(overwrite, check_held=transaction.check_held).take_place(old, config)
        self._tell(callbacks, old.base_path, result)
        return result, CatalogSync(config, HoodieMetrics(), context)

    def _tell(self, callbacks: CommitCallbacks, base_path: str, result: HoodieWriteResult) -> None:
        if not (callbacks.is_on and result.is_committed):
            return
        config = HoodieTableConfig.load(self.table.storage, base_path)
        action = commit_action(config.table_type)
        callbacks.completed(
            HoodieWriteCommitCallbackMessage(
                result.instant_time, config.table_name, base_path, str(action), result.commit_metadata
            )
        )
        state = result.commit_state
        state.service_errors = (*state.service_errors, *callbacks.take_failures())


def _config_of_new_table(config: HoodieWriteConfig, folder: str) -> HoodieWriteConfig:
    """The configuration of the write to the new table's folder, which nobody else knows."""
    changed: dict[str, Any] = {
        "table": attrs.evolve(config.table, table_name=name_of_table(config)),
        "write": attrs.evolve(config.write, concurrency_mode=WriteConcurrencyMode.SINGLE_WRITER),
        "lock": attrs.evolve(config.lock, single_writer_enable=False),
        # Told when the table is in its place.
        "callback": HoodieWriteCommitCallbackConfig(),
        "sync": HoodieSyncConfig(),
    }
    if config.index.index_class is not None and config.index.index_type is not IndexType.BUCKET:
        # Indexes that keep keys by the table's folder learn of the files there, from the next write on.
        changed["index"] = attrs.evolve(config.index, index_class=None, index_type=IndexType.SIMPLE)
    return attrs.evolve(config, base_path=folder, **changed)


def described_by(config: HoodieWriteConfig, table: HoodieTableConfig) -> HoodieWriteConfig:
    """The configuration with what its options leave out of the new table's description, from the old table.

    Name, type, version, database and the naming of partition folders, the ordering fields, and the fields of record key
    and partitions. If the options name one of these fields or a key generator, the key generator follows from the
    fields.

    Args:
        config: The writer's configuration.
        table: The old table's properties.
    """
    given, stored = config.table, table.properties
    found: dict[str, Any] = {
        "table_name": table.table_name,
        "table_type": table.table_type,
        "table_version": table.table_version if table.table_version in TABLE_VERSIONS else None,
        "database_name": table.database_name or None,
        "record_key_fields": None if given.keyless else table.record_key_fields or None,
        "keyless": table.is_keyless and not given.record_key_fields,
        "partition_fields": table.partition_fields,
        "ordering_fields": table.ordering_fields,
        "hive_style_partitioning": table.hive_style_partitioning,
        "url_encode_partitioning": table.url_encode_partitioning,
        "populate_meta_fields": table.populate_meta_fields,
        "cdc_enabled": table.logging_mode is not None,
        "cdc_logging_mode": table.logging_mode,
    }
    properties: dict[str, str] = dict(config.properties)
    if given.record_key_fields is None and given.partition_fields is None and given.key_generator_class is None:
        typed = stored.get(_PARTITION_KEY) or stored.get("hoodie.table.partition.fields", "")
        found["partition_fields"] = tuple(name.strip() for name in typed.split(",") if name.strip())
        found["key_generator_class"] = table.key_generator_class
        properties = HoodieTimestampKeyGeneratorConfig.stored_properties(stored) | properties
    left_out = {name: value for name, value in found.items() if getattr(given, name) is None}
    return attrs.evolve(config, properties=properties, table=attrs.evolve(given, **left_out))
