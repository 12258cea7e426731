"""Choose the file groups of a clustering, and those that are rewritten together.

Hudi: org.apache.hudi.table.action.cluster.strategy.{ClusteringPlanStrategy, PartitionAwareClusteringPlanStrategy},
org.apache.hudi.table.action.cluster.ClusteringPlanPartitionFilter, and the ``plan.strategy`` packages of the engines.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import attrs

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.util.class_loading import create_object
from hoodie.config.clustering_config import ClusteringPartitionFilterMode, HoodieClusteringConfig
from hoodie.exception import HoodieConfigException

_KEY = "hoodie.clustering.plan.strategy.class"
_HUDI_PREFIX = "org.apache.hudi."
_ENGINES = ("Spark", "Flink", "Java")
_HOURS_A_DAY = 24


@attrs.frozen
class ClusteringInput:
    """File slices of one partition that one task rewrites together.

    Attributes:
        partition_path: The partition.
        slices: The slices, in the order in which they are read.
        output_files: The expected number of new files.
    """

    partition_path: str
    slices: tuple[FileSlice, ...]
    output_files: int = 1


class ClusteringPlanStrategy(ABC):
    """Chooses what a clustering rewrites. It has no state.

    ``hoodie.clustering.plan.strategy.class`` names a strategy of your own, which is created with the configuration.

    Args:
        config: The options of the plan.
        max_file_size: The size of a slice without a base file, in bytes: ``hoodie.parquet.max.file.size``.

    Hudi: org.apache.hudi.table.action.cluster.strategy.ClusteringPlanStrategy.
    """

    def __init__(self, config: HoodieClusteringConfig, max_file_size: int) -> None:
        self.config = config
        self.max_file_size = max_file_size

    def filter_partition_paths(self, partition_paths: Sequence[str]) -> Sequence[str]:
        """The partitions that a plan looks at, by the options of the configuration.

        Args:
            partition_paths: The table's partitions, sorted.

        Raises:
            HoodieConfigException: An option is wrong.
        """
        return partitions_to_cluster(self.config, partition_paths)

    def is_eligible(self, file_slice: FileSlice) -> bool:
        """Whether a slice may be rewritten: its base file is small, or it has none."""
        base_file = file_slice.base_file
        return (0 if base_file is None else base_file.size_bytes) < self.config.small_file_limit

    @abstractmethod
    def groups(self, partition_path: str, slices: Sequence[FileSlice]) -> list[ClusteringInput]:
        """Put the slices of a partition together.

        Args:
            partition_path: The partition.
            slices: Its eligible slices that no pending table service has, by file id.
        """

    def size_of(self, file_slice: FileSlice) -> int:
        """The bytes that a slice counts in a group: those of its base file."""
        return self.max_file_size if file_slice.base_file is None else file_slice.base_file.size_bytes


class SizeBasedClusteringPlanStrategy(ClusteringPlanStrategy):
    """Puts small files together until a group has ``hoodie.clustering.plan.strategy.max.bytes.per.group``.

    Hudi: org.apache.hudi.client.clustering.plan.strategy.SparkSizeBasedClusteringPlanStrategy.
    """

    def groups(self, partition_path: str, slices: Sequence[FileSlice]) -> list[ClusteringInput]:
        """See `ClusteringPlanStrategy.groups`."""
        config = self.config
        groups: list[list[FileSlice]] = [[]]
        size, full = 0, 0
        for file_slice in sorted(slices, key=self._sort_key()):
            more = self.size_of(file_slice)
            if groups[-1] and size + more > config.max_bytes_per_group:
                full += 1
                if full >= config.max_num_groups:
                    break
                groups.append([])
                size = 0
            groups[-1].append(file_slice)
            size += more
        inputs = [self._input(partition_path, group) for group in groups if group]
        if config.single_group_clustering_enabled or config.sort_columns:
            return inputs
        return [found for found in inputs if len(found.slices) > 1 or found.output_files > 1]

    def _input(self, partition_path: str, slices: Sequence[FileSlice]) -> ClusteringInput:
        size = sum(map(self.size_of, slices))
        return ClusteringInput(partition_path, tuple(slices), math.ceil(size / self.config.target_file_max_bytes) or 1)

    def _sort_key(self) -> Callable[[FileSlice], tuple[str | int, ...]]:
        """The order of ``hoodie.clustering.plan.strategy.file.slices.sort.by``."""
        names = [name.strip().upper() for name in self.config.file_slices_sort_by.split(",")]
        keys: dict[str, Callable[[FileSlice], str | int]] = {
            "SIZE": lambda file_slice: -self.size_of(file_slice),
            "INSTANT_TIME": lambda file_slice: file_slice.base_instant_time,
        }
        unknown = [name for name in names if name not in keys]
        if unknown:
            raise HoodieConfigException(
                f"hoodie.clustering.plan.strategy.file.slices.sort.by = {self.config.file_slices_sort_by}: "
                f"{unknown[0]} is not known; give SIZE, INSTANT_TIME or both, separated by a comma"
            )
        return lambda file_slice: tuple(keys[name](file_slice) for name in names)


class SingleFileSortPlanStrategy(SizeBasedClusteringPlanStrategy):
    """Rewrites each file alone.

    Hudi: org.apache.hudi.client.clustering.plan.strategy.SparkSingleFileSortPlanStrategy.
    """

    def groups(self, partition_path: str, slices: Sequence[FileSlice]) -> list[ClusteringInput]:
        """See `ClusteringPlanStrategy.groups`."""
        ordered = sorted(slices, key=self._sort_key())[: self.config.max_num_groups]
        return [ClusteringInput(partition_path, (file_slice,)) for file_slice in ordered]


_STRATEGIES: dict[str, tuple[type[ClusteringPlanStrategy], ClusteringPartitionFilterMode | None]] = {
    "SizeBasedClusteringPlanStrategy": (SizeBasedClusteringPlanStrategy, None),
    "RecentDaysClusteringPlanStrategy": (
        SizeBasedClusteringPlanStrategy,
        ClusteringPartitionFilterMode.RECENT_DAYS,
    ),
    "SelectedPartitionsClusteringPlanStrategy": (
        SizeBasedClusteringPlanStrategy,
        ClusteringPartitionFilterMode.SELECTED_PARTITIONS,
    ),
    "StreamCopyClusteringPlanStrategy": (SizeBasedClusteringPlanStrategy, None),
    "SingleFileSortPlanStrategy": (SingleFileSortPlanStrategy, None),
}
"""Strategies by their names without engine; old classes of Hudi stand for a mode of the partition filter."""
_NOT_SUPPORTED = {
    "ConsistentBucket": ": buckets of a consistent hashing index are split and merged by Hudi alone",
    "CommitBased": ": its plans take the files of each commit, also where later commits wrote newer ones",
}
"""Parts of the names of Hudi's other strategies -> why they are not supported."""


def clustering_plan_strategy(config: HoodieClusteringConfig, max_file_size: int) -> ClusteringPlanStrategy:
    """The strategy of ``hoodie.clustering.plan.strategy.class``.

    Args:
        config: The options of the plan.
        max_file_size: See `ClusteringPlanStrategy`.

    Raises:
        HoodieConfigException: Hudi has it and hoodie does not, or it is not a strategy.
    """
    name = config.plan_strategy_class
    simple = name.rpartition(".")[2] if name.startswith(_HUDI_PREFIX) or "." not in name else ""
    engine = next((prefix for prefix in _ENGINES if simple.startswith(prefix)), "")
    found = _STRATEGIES.get(simple.removeprefix(engine))
    if found is not None:
        strategy, mode = found
        chosen = config if mode is None else attrs.evolve(config, partition_filter_mode=mode)
        return strategy(chosen, max_file_size)
    if simple:
        known = ", ".join(f"Spark{strategy}" for strategy in _STRATEGIES)
        advice = next((text for part, text in _NOT_SUPPORTED.items() if part in simple), "")
        raise HoodieConfigException(f"{_KEY} = {name} is not supported{advice}; supported are {known}")
    return create_object(name, _KEY, ClusteringPlanStrategy, config, max_file_size)


def partitions_to_cluster(config: HoodieClusteringConfig, partition_paths: Sequence[str]) -> list[str]:
    """The partitions that a plan looks at, in ascending order.

    Args:
        config: The options.
        partition_paths: The table's partitions.

    Raises:
        HoodieConfigException: The regular expression is not one.

    Hudi: org.apache.hudi.table.action.cluster.ClusteringPlanPartitionFilter. Differs: RECENT_DAYS that skips more
    partitions than there are takes none, where Hudi 1.2.0 fails.
    """
    stored = sorted(partition_paths)
    if config.partition_selected:
        chosen = sorted(set(stored) & set(config.partition_selected))
    elif config.partition_regex is not None:
        try:
            pattern = re.compile(config.partition_regex)
        except re.error as error:
            raise HoodieConfigException(
                f"hoodie.clustering.plan.strategy.partition.regex.pattern = {config.partition_regex} is not a regular "
                f"expression of Python: {error}"
            ) from error
        chosen = [path for path in stored if pattern.fullmatch(path)]
    else:
        chosen = stored
    match config.partition_filter_mode:
        case ClusteringPartitionFilterMode.RECENT_DAYS:
            first = config.skip_from_latest_partitions
            last = first + config.lookback_partitions if config.lookback_partitions > 0 else None
            return sorted(sorted(chosen, reverse=True)[first:last])
        case ClusteringPartitionFilterMode.SELECTED_PARTITIONS:
            begin, end = config.begin_partition, config.end_partition
            return [path for path in chosen if (begin is None or begin <= path) and (end is None or path <= end)]
        case ClusteringPartitionFilterMode.DAY_ROLLING:
            hour = datetime.now(UTC).astimezone().hour
            return [path for index, path in enumerate(chosen) if index % _HOURS_A_DAY == hour]
    return chosen
