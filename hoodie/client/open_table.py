"""Load a table for a write."""

from __future__ import annotations

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.transaction.lock.lock_manager import clock_skew_ms


def load_table(config: HoodieWriteConfig) -> TableSnapshot:
    """The table of a writer's configuration, as it is now.

    Raises:
        TableNotFoundException: There is no table.
        HoodieNotSupportedException: The table needs a feature that hoodie does not have.
        HoodieConfigException: The configuration contradicts the table, or names it by globs.
    """
    snapshot = TableSnapshot.load(
        config.base_path, config.storage_options, retry=config.retry.policy, clock_skew_ms=clock_skew_ms(config)
    )
    snapshot.check_named_by(config.base_path)
    snapshot.table_config.check_writable()
    config.check_against_table(snapshot.table_config)
    return snapshot
