"""Plan a compaction: which file slices become base files.

Hudi: org.apache.hudi.table.action.compact.plan.generators.HoodieCompactionPlanGenerator.
"""

from __future__ import annotations

from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.common.model.file_slice import HoodieFileGroupId
from hoodie.common.table.clustering_plans import file_groups_in_pending_clustering
from hoodie.common.table.compaction_plans import compacted_file_groups, compaction_operations, pending_compactions
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.table.action.compact.compaction_strategy import compaction_strategy
from hoodie.table.missing_files import check_files


def plan_compaction(config: HoodieWriteConfig, snapshot: TableSnapshot) -> HoodieCompactionPlan | None:
    """The slices with log files that the strategy takes, without file groups that a pending table service has.

    Args:
        config: The strategy and its limits.
        snapshot: The table.

    Returns:
        None if there is nothing to compact.

    Raises:
        HoodieConfigException: The strategy is not known, or lacks a property.
        HoodieCorruptedDataException: The plan of a pending service, or the metadata of a commit, is damaged.
        HoodieIOException: A file of the partitions is gone that a commit names, or storage failed.
    """
    strategy = compaction_strategy(config.compaction)
    view = snapshot.stored_view(tells_sizes=True)
    partition_paths = list(strategy.filter_partition_paths(view.list_partitions()))
    view.load_partitions(partition_paths)
    # With the old slices, what is left of a lost file's traces would be gone too.
    snapshot.load_avro_schema()
    check_files(snapshot, view, partition_paths, doing="compacting")
    held = _held_file_groups(snapshot)
    free = (
        file_slice
        for partition_path in partition_paths
        for file_slice in view.latest_file_slices(partition_path)
        if HoodieFileGroupId(partition_path, file_slice.file_id) not in held
    )
    operations = compaction_operations(free, config.storage.parquet_max_file_size)
    chosen = tuple(strategy.order_and_filter(operations))
    return HoodieCompactionPlan(chosen) if chosen else None


def _held_file_groups(snapshot: TableSnapshot) -> set[HoodieFileGroupId]:
    """The file groups of pending compactions, log compactions and clusterings."""
    timeline = snapshot.active_timeline
    held = set(pending_compactions(timeline))
    for instant in timeline.filter_actions(Action.LOG_COMPACTION).filter_pending():
        held.update(compacted_file_groups(timeline, instant))
    held.update(HoodieFileGroupId(*group) for group in file_groups_in_pending_clustering(timeline))
    return held
