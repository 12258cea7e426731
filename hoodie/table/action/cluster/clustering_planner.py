"""Plan a clustering: which file slices are rewritten together.

Hudi: org.apache.hudi.table.action.cluster.strategy.PartitionAwareClusteringPlanStrategy (generateClusteringPlan).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from hoodie.avro.timeline_metadata import (
    HoodieClusteringGroup,
    HoodieClusteringPlan,
    HoodieClusteringStrategy,
    HoodieRequestedReplaceMetadata,
    HoodieSliceInfo,
)
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.clustering_plans import GIVES_WAY_KEY
from hoodie.common.table.compaction_plans import group_metrics
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.layout_optimize_config import HoodieLayoutOptimizeConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.execution.bulkinsert.row_order import SORT_COLUMNS_KEY, RowOrder
from hoodie.storage.storage_path import as_uri
from hoodie.table.action.cluster.clustering_plan_strategy import ClusteringInput, clustering_plan_strategy
from hoodie.table.action.cluster.execution_strategy import execution_class
from hoodie.table.missing_files import check_files
from hoodie.table.pending_services import file_groups_of_pending_services

LAYOUT_KEY = "hoodie.layout.optimize.strategy"
TARGET_KEY = "hoodie.clustering.plan.strategy.target.file.max.bytes"


@attrs.frozen
class ClusteringInputs:
    """The slices that a clustering would rewrite.

    Attributes:
        groups: The groups of file slices.
        left_partitions: The partitions that were not looked at to their end, sorted.
    """

    groups: tuple[ClusteringInput, ...]
    left_partitions: tuple[str, ...] = ()


def clustering_inputs(config: HoodieWriteConfig, snapshot: TableSnapshot) -> ClusteringInputs:
    """The slices that the strategy of the configuration takes, without those that a pending table service has.

    Args:
        config: The strategy and its limits.
        snapshot: The table.

    Raises:
        HoodieConfigException: The strategy is not known, or an option is wrong.
        HoodieCorruptedDataException: The plan of a pending service, or the metadata of a commit, is damaged.
        HoodieIOException: A file of the partitions is gone that a commit names, or storage failed.
    """
    clustering = config.clustering
    strategy = clustering_plan_strategy(clustering, config.storage.parquet_max_file_size)
    view = snapshot.stored_view(tells_sizes=True)
    stored = view.list_partitions()
    partition_paths = list(strategy.filter_partition_paths(stored))
    view.load_partitions(partition_paths)
    snapshot.load_avro_schema()
    check_files(snapshot, view, partition_paths, doing="clustering")
    held = file_groups_of_pending_services(snapshot.active_timeline)
    inputs: list[ClusteringInput] = []
    left = set(stored)
    for path in partition_paths:
        if len(inputs) >= clustering.max_num_groups:
            break
        free = [
            attrs.evolve(part, log_files=part.record_log_files)
            for part in view.latest_file_slices(path)
            if HoodieFileGroupId(path, part.file_id) not in held
        ]
        eligible = [part for part in free if part.record_files and strategy.is_eligible(part)]
        if eligible:
            inputs += strategy.groups(path, eligible)
        taken = sum(len(one.slices) for one in inputs[: clustering.max_num_groups] if one.partition_path == path)
        if len(inputs) < clustering.max_num_groups or taken == len(eligible):
            left.discard(path)
    return ClusteringInputs(tuple(inputs[: clustering.max_num_groups]), tuple(sorted(left)))


def plan_clustering(config: HoodieWriteConfig, snapshot: TableSnapshot) -> HoodieRequestedReplaceMetadata | None:
    """The plan of a clustering; None if there is nothing to rewrite.

    Args:
        config: The strategy and its limits.
        snapshot: The table.

    Raises:
        HoodieException: See `clustering_inputs`; or rows cannot be ordered by the columns of the configuration.
    """
    inputs = clustering_inputs(config, snapshot)
    if not inputs.groups:
        return None
    order = row_order(config.layout, config.clustering.sort_columns)
    if order is not None:
        order.checked(snapshot.load_schema())
    strategy = HoodieClusteringStrategy(
        execution_class(config.clustering.execution_strategy_class), _parameters(config)
    )
    groups = tuple(_group(found, config.storage.parquet_max_file_size) for found in inputs.groups)
    return HoodieRequestedReplaceMetadata(
        operation_type=WriteOperationType.CLUSTER.value,
        clustering_plan=HoodieClusteringPlan(groups, strategy, missing_schedule_partitions=inputs.left_partitions),
        extra_metadata={},
        version=1,
    )


def row_order(layout: HoodieLayoutOptimizeConfig, columns: Sequence[str]) -> RowOrder | None:
    """The order of rows by columns; None for no columns.

    Args:
        layout: The kind of the order.
        columns: The columns.

    Raises:
        HoodieConfigException: A column is named twice.
    """
    if not columns:
        return None
    return RowOrder(columns, layout.strategy, layout.curve_build_method, layout.curve_sample_size)


def _parameters(config: HoodieWriteConfig) -> Mapping[str, str]:
    """The parameters of the strategy: Hudi's, then those that Hudi takes from the options of whoever executes a plan.

    Hudi ignores the latter.
    """
    clustering = config.clustering
    parameters = {SORT_COLUMNS_KEY: ",".join(clustering.sort_columns)} if clustering.sort_columns else {}
    parameters[LAYOUT_KEY] = str(config.layout.strategy)
    parameters[TARGET_KEY] = str(clustering.target_file_max_bytes)
    parameters[GIVES_WAY_KEY] = str(clustering.updates_strategy is None).lower()
    return parameters


def _group(found: ClusteringInput, max_file_size: int) -> HoodieClusteringGroup:
    return HoodieClusteringGroup(
        tuple(map(_slice_info, found.slices)), group_metrics(found.slices, max_file_size), found.output_files
    )


def _slice_info(file_slice: FileSlice) -> HoodieSliceInfo:
    base_file = file_slice.base_file
    return HoodieSliceInfo(
        "" if base_file is None else as_uri(base_file.path),
        tuple(as_uri(log_file.path) for log_file in reversed(file_slice.log_files)),
        file_slice.file_id,
        file_slice.partition_path,
    )
