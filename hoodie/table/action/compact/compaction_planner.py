"""Plan a compaction, or a log compaction: which file slices it takes.

Hudi: org.apache.hudi.table.action.compact.plan.generators.HoodieCompactionPlanGenerator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId
from hoodie.common.table.compaction_plans import LOG_COMPACTION_STRATEGY, compaction_operations
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.log.log_block_scanner import LogBlockScanner
from hoodie.io.log_compaction_handle import is_partial
from hoodie.table.action.compact.compaction_strategy import compaction_strategy
from hoodie.table.missing_files import check_files
from hoodie.table.pending_services import file_groups_of_pending_services


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
    left: set[str] = set()
    free = _free_slices(snapshot, strategy.filter_partition_paths, left)
    operations = compaction_operations(free, config.storage.parquet_max_file_size)
    chosen = tuple(strategy.order_and_filter(operations))
    taken = {(one.partition_path, one.file_id) for one in chosen}
    left.update(one.partition_path for one in operations if (one.partition_path, one.file_id) not in taken)
    return HoodieCompactionPlan(chosen, missing_schedule_partitions=tuple(sorted(left))) if chosen else None


def plan_log_compaction(config: HoodieWriteConfig, snapshot: TableSnapshot) -> HoodieCompactionPlan | None:
    """The slices whose log files hold at least ``hoodie.log.compaction.blocks.threshold`` blocks, without file groups
    that a pending table service has.

    Blocks that a log compaction has replaced already do not count. Slices are left out that have blocks of partial
    updates, or more than ``hoodie.logfile.max.size`` bytes in log files: these are for a compaction.

    Args:
        config: The number of blocks.
        snapshot: The table.

    Returns:
        None if there is nothing to compact.

    Raises:
        HoodieException: See `plan_compaction`.

    Hudi: org.apache.hudi.table.action.compact.plan.generators.HoodieLogCompactionPlanGenerator. Differs: counts blocks
    where Hudi counts log files too, also those that were replaced.
    """
    block_filter = LogBlockFilter.of(snapshot.active_timeline.visible_instants)

    def is_due(file_slice: FileSlice) -> bool:
        log_files = file_slice.record_log_files
        if not log_files or sum(log_file.size_bytes for log_file in log_files) > config.storage.logfile_max_size:
            return False
        scanner = LogBlockScanner(snapshot.storage, log_files, block_filter, committed=snapshot.committed_log_files)
        blocks = scanner.blocks()
        is_many = len(blocks) >= config.compaction.log_compaction_blocks_threshold
        return is_many and len({block.instant_time for block in blocks}) > 1 and not any(map(is_partial, blocks))

    due = filter(is_due, _free_slices(snapshot, lambda paths: paths))
    operations = tuple(compaction_operations(due, config.storage.parquet_max_file_size))
    if not operations:
        return None
    return HoodieCompactionPlan(operations, strategy=LOG_COMPACTION_STRATEGY, preserve_hoodie_metadata=True)


def _free_slices(
    snapshot: TableSnapshot, choose: Callable[[Sequence[str]], Sequence[str]], left: set[str] | None = None
) -> Iterator[FileSlice]:
    """The latest slices of chosen partitions, without file groups that a pending table service has.

    Args:
        snapshot: The table.
        choose: Chooses among its partitions.
        left: Partitions that were not chosen, or have such file groups, are added to it.
    """
    view = snapshot.stored_view(tells_sizes=True)
    listed = view.list_partitions()
    partition_paths = list(choose(listed))
    left = set() if left is None else left
    left.update(set(listed).difference(partition_paths))
    view.load_partitions(partition_paths)
    # With the old slices, what is left of a lost file's traces would be gone too.
    snapshot.load_avro_schema()
    check_files(snapshot, view, partition_paths, doing="compacting")
    held = file_groups_of_pending_services(snapshot.active_timeline)
    for partition_path in partition_paths:
        for file_slice in view.latest_file_slices(partition_path):
            if HoodieFileGroupId(partition_path, file_slice.file_id) not in held:
                yield file_slice
            elif file_slice.record_log_files:
                left.add(partition_path)
