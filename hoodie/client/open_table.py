"""Load a table for a write, and switch off what hoodie cannot keep up to date."""

from __future__ import annotations

import logging

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieCommitException, HoodieNotSupportedException
from hoodie.storage.storage_path import join
from hoodie.transaction.lock.lock_manager import clock_skew_ms

logger = logging.getLogger(__name__)


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


def switch_off_metadata_table(config: HoodieWriteConfig, snapshot: TableSnapshot) -> TableSnapshot:
    """Switch off a metadata table that this write would make stale: first its properties, then its folder.

    Returns:
        The table with its new properties.

    Raises:
        HoodieNotSupportedException: The metadata table holds indexes, and ``hoodie.metadata.enable`` does not say to
            drop them.
        HoodieCommitException: Instants are pending.
    """
    table_config = snapshot.table_config
    partitions = sorted({*table_config.metadata_partitions, *table_config.metadata_partitions_inflight})
    if not partitions:
        return snapshot
    if partitions != ["files"] and config.write.metadata_enable is not False:
        raise HoodieNotSupportedException(
            f"{snapshot.base_path} has a metadata table with "
            f"hoodie.table.metadata.partitions={','.join(partitions)}, "
            "which hoodie does not keep up to date yet. Writing would switch it off and drop those indexes: set "
            "hoodie.metadata.enable=false to do so"
        )
    # A pending clean does not matter: it only deletes, and its instant needs no entry in the metadata table.
    pending = snapshot.active_timeline.filter_pending().filter(lambda instant: instant.action is not Action.CLEAN)
    if len(pending):
        raise HoodieCommitException(
            f"the metadata table of {snapshot.base_path} must be switched off before writing, but "
            f"{pending.instants[0].action} {pending.instants[0].requested_time} is pending: finish it first"
        )
    logger.warning(
        "switching off the metadata table of %s (partitions %s): hoodie does not keep it up to date; Hudi builds "
        "it again at its next write", snapshot.base_path, ",".join(partitions),
    )  # fmt: skip
    table_config.update(snapshot.storage, snapshot.base_path, table_config.without_metadata_table())
    snapshot.storage.delete_directory(join(snapshot.meta_path, "metadata"))
    return snapshot.with_properties_reloaded()
