"""Change the version of a table, and compact it first where log files stand against that.

Log files have other names in version 6 than in the later ones. So a merge-on-read table with log files is compacted, in
its old version and under instants of the compaction's own. Then its version changes, under the table's lock. A process
that dies leaves a compaction that the next call carries out, or a compacted table.

Hudi: org.apache.hudi.table.upgrade.UpgradeDowngradeUtils (rollbackFailedWritesAndCompact). Differs: carries pending
compactions out as well, looks again after the compaction, and leaves failed writes to the caller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import attrs

from hoodie.client.compaction_service import CompactionService
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.storage.storage_options import StorageOptions
from hoodie.table.action.rollback.rollback_service import RollbackService
from hoodie.table.open_table import load_table
from hoodie.table.table_session import TableSession
from hoodie.table.upgrade import LogFilesLeftException, TableVersionChange, change_table_version

logger = logging.getLogger(__name__)

_ROUNDS = 5
"""The most compactions of a table: of pending plans, of remaining log files, and of log files that others write."""

CompactionsOf = Callable[[HoodieWriteConfig], AbstractContextManager[CompactionService]]
"""Takes a configuration; gives the service that compacts by it."""


def upgrade_table(
    table: str | HoodieWriteConfig,
    to_version: int = 9,
    *,
    dry_run: bool = False,
    storage_options: StorageOptions | None = None,
) -> TableVersionChange:
    """Upgrade a table to version 8 or 9; see `HoodieTableMetaClient.upgrade`."""
    return _change(_config_of(table, storage_options), to_version, is_upgrade=True, dry_run=dry_run)


def downgrade_table(
    table: str | HoodieWriteConfig,
    to_version: int = 6,
    *,
    dry_run: bool = False,
    storage_options: StorageOptions | None = None,
) -> TableVersionChange:
    """Downgrade a table to version 8 or 6; see `HoodieTableMetaClient.downgrade`."""
    return _change(_config_of(table, storage_options), to_version, is_upgrade=False, dry_run=dry_run)


def upgrade_if_due(config: HoodieWriteConfig, snapshot: TableSnapshot, compactions_of: CompactionsOf) -> TableSnapshot:
    """Upgrade a table that is of an earlier version than its writer asks for, with ``hoodie.write.auto.upgrade=true``.

    Args:
        config: The writer's configuration.
        snapshot: The table, its failed writes rolled back.
        compactions_of: Compacts the table with the writer's engine.

    Returns:
        The table as it is then.

    Raises:
        HoodieException: The table cannot be upgraded; see `HoodieTableMetaClient.upgrade`.
    """
    wanted = config.table.table_version
    if not config.table.auto_upgrade or wanted is None or wanted <= snapshot.table_config.table_version:
        return snapshot
    _change(config, wanted, is_upgrade=True, dry_run=False, compactions_of=compactions_of)
    return load_table(config)


def _config_of(table: str | HoodieWriteConfig, storage_options: StorageOptions | None) -> HoodieWriteConfig:
    if isinstance(table, HoodieWriteConfig):
        return table
    return HoodieWriteConfig.from_properties(table, {}, storage_options)


def _change(
    config: HoodieWriteConfig,
    to_version: int,
    *,
    is_upgrade: bool,
    dry_run: bool,
    compactions_of: CompactionsOf | None = None,
) -> TableVersionChange:
    """Change the version; compact as long as log files stand against it, and nothing else does."""
    done: list[HoodieWriteResult] = []
    finished_earlier_run = False
    for rounds_left in reversed(range(_ROUNDS + 1)):
        try:
            result = change_table_version(config, to_version, is_upgrade=is_upgrade, dry_run=dry_run)
        except LogFilesLeftException as error:
            finished_earlier_run |= error.finished_earlier_run
            if not rounds_left:
                raise
            done += _compact(config, compactions_of or _service_of)
            continue
        if not done:
            return attrs.evolve(result, finished_earlier_run=finished_earlier_run or result.finished_earlier_run)
        groups = {(stat.partition_path, stat.file_id) for one in done for stat in one.commit_metadata.write_stats}
        return attrs.evolve(
            result,
            finished_earlier_run=finished_earlier_run or result.finished_earlier_run,
            compacted_file_groups=len(groups),
            compactions=tuple(one.instant_time for one in done),
        )
    raise AssertionError("unreachable")


def _compact(config: HoodieWriteConfig, compactions_of: CompactionsOf) -> list[HoodieWriteResult]:
    """Carry out pending compactions; where none is pending, compact all file groups with log files."""
    unbounded = attrs.evolve(config.compaction, strategy="UnBoundedCompactionStrategy")
    # The table is still of the old version, whatever version its writer asks for.
    table = attrs.evolve(config.table, table_version=None)
    with compactions_of(attrs.evolve(config, compaction=unbounded, table=table)) as compactions:
        done = compactions.run_all()
    logger.info(
        "compacted %s before its version changes: %s", config.base_path, ", ".join(one.instant_time for one in done)
    )
    return done


@contextmanager
def _service_of(config: HoodieWriteConfig) -> Iterator[CompactionService]:
    """A service that compacts in this process."""
    context = LocalEngineContext()
    session = TableSession.open(config, context, HoodieMetrics(context.job, check=context.check_running))
    try:
        with session.transactions.alone():
            yield CompactionService(session, RollbackService(session))
    finally:
        session.heartbeats.close()
        session.transactions.close()
