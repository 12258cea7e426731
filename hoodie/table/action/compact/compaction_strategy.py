"""Choose the file groups of a compaction.

Hudi: org.apache.hudi.table.action.compact.strategy.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import ClassVar

from hoodie.avro.service_metadata import HoodieCompactionOperation
from hoodie.common.table.compaction_plans import (
    TOTAL_IO_MB,
    TOTAL_LOG_FILES,
    TOTAL_LOG_FILES_SIZE,
)
from hoodie.common.util.class_loading import create_object
from hoodie.config.compaction_config import HoodieCompactionConfig
from hoodie.exception import HoodieConfigException, HoodieException

_KEY = "hoodie.compaction.strategy"
_HUDI_PACKAGE = "org.apache.hudi.table.action.compact.strategy."
_DATE_LENGTH = len("2026/11/23")


class CompactionStrategy(ABC):
    """Chooses the file groups of a compaction, and their order. It has no state.

    ``hoodie.compaction.strategy`` names a strategy of your own, which is created with the compaction's configuration.

    Args:
        config: Its limits.

    Hudi: org.apache.hudi.table.action.compact.strategy.CompactionStrategy.
    """

    def __init__(self, config: HoodieCompactionConfig) -> None:
        self.config = config

    def filter_partition_paths(self, partition_paths: Sequence[str]) -> Sequence[str]:
        """The partitions that are listed for a plan; all of them, unless a strategy chooses.

        Args:
            partition_paths: The table's partitions, sorted.
        """
        return partition_paths

    @abstractmethod
    def order_and_filter(self, operations: Sequence[HoodieCompactionOperation]) -> Sequence[HoodieCompactionOperation]:
        """The operations that are carried out, the most urgent first.

        Args:
            operations: One for each file group with log files that no pending table service has, by partition and file
                id.
        """


class UnBoundedCompactionStrategy(CompactionStrategy):
    """Takes all file groups."""

    def order_and_filter(self, operations: Sequence[HoodieCompactionOperation]) -> Sequence[HoodieCompactionOperation]:
        """See `CompactionStrategy.order_and_filter`."""
        return operations


class BoundedIOCompactionStrategy(CompactionStrategy):
    """Takes file groups until ``hoodie.compaction.target.io`` is reached, at least one."""

    def order_and_filter(self, operations: Sequence[HoodieCompactionOperation]) -> Sequence[HoodieCompactionOperation]:
        """See `CompactionStrategy.order_and_filter`."""
        taken = []
        remaining_mb = float(self.config.target_io_mb)
        for operation in operations:
            taken.append(operation)
            remaining_mb -= _metric(operation, TOTAL_IO_MB)
            if remaining_mb <= 0:
                break
        return taken


class LogFileSizeBasedCompactionStrategy(BoundedIOCompactionStrategy):
    """Takes the file groups with the most bytes in log files first."""

    def order_and_filter(self, operations: Sequence[HoodieCompactionOperation]) -> Sequence[HoodieCompactionOperation]:
        """See `CompactionStrategy.order_and_filter`."""
        return super().order_and_filter(
            _largest_first(operations, TOTAL_LOG_FILES_SIZE, self.config.log_file_size_threshold)
        )


class LogFileNumBasedCompactionStrategy(BoundedIOCompactionStrategy):
    """Takes the file groups with the most log files first."""

    def order_and_filter(self, operations: Sequence[HoodieCompactionOperation]) -> Sequence[HoodieCompactionOperation]:
        """See `CompactionStrategy.order_and_filter`."""
        return super().order_and_filter(_largest_first(operations, TOTAL_LOG_FILES, self.config.log_file_num_threshold))


class DayBasedCompactionStrategy(UnBoundedCompactionStrategy):
    """Takes the newest days, ``hoodie.compaction.daybased.target.partitions`` of them.

    Partitions are days: ``2026/11/23``, ``2026-11-23``, ``day=2026-11-23`` or ``year=2026/month=11/day=23``.
    """

    def filter_partition_paths(self, partition_paths: Sequence[str]) -> Sequence[str]:
        """See `CompactionStrategy.filter_partition_paths`."""
        return sorted(partition_paths, key=_day_of, reverse=True)[: self.config.day_based_target_partitions]


class BoundedPartitionAwareCompactionStrategy(UnBoundedCompactionStrategy):
    """Takes the days from ``hoodie.compaction.daybased.target.partitions`` days ago on, in UTC; the newest first."""

    def filter_partition_paths(self, partition_paths: Sequence[str]) -> Sequence[str]:
        """See `CompactionStrategy.filter_partition_paths`."""
        first = _days_ago(self.config.day_based_target_partitions)
        return [path for path in sorted(partition_paths, key=_day_of, reverse=True) if _day_of(path) >= first]


class UnBoundedPartitionAwareCompactionStrategy(UnBoundedCompactionStrategy):
    """Takes the days that `BoundedPartitionAwareCompactionStrategy` leaves."""

    def filter_partition_paths(self, partition_paths: Sequence[str]) -> Sequence[str]:
        """See `CompactionStrategy.filter_partition_paths`."""
        first = _days_ago(self.config.day_based_target_partitions)
        return [path for path in sorted(partition_paths, key=_day_of, reverse=True) if _day_of(path) < first]


class PartitionRegexBasedCompactionStrategy(UnBoundedCompactionStrategy):
    """Takes the partitions whose whole path matches ``hoodie.compaction.partition.path.regex``.

    Raises:
        HoodieConfigException: There is no such expression, or it is not one.
    """

    key: ClassVar[str] = "hoodie.compaction.partition.path.regex"

    def __init__(self, config: HoodieCompactionConfig) -> None:
        super().__init__(config)
        if config.partition_path_regex is None:
            raise HoodieConfigException(f"{_KEY} = {type(self).__name__} needs {self.key}: give it")
        try:
            self._pattern = re.compile(config.partition_path_regex)
        except re.error as error:
            raise HoodieConfigException(
                f"{self.key} = {config.partition_path_regex} is not a regular expression of Python: {error}"
            ) from error

    def filter_partition_paths(self, partition_paths: Sequence[str]) -> Sequence[str]:
        """See `CompactionStrategy.filter_partition_paths`."""
        return [path for path in partition_paths if self._pattern.fullmatch(path)]


_STRATEGIES = {
    strategy.__name__: strategy
    for strategy in (
        LogFileSizeBasedCompactionStrategy,
        LogFileNumBasedCompactionStrategy,
        BoundedIOCompactionStrategy,
        DayBasedCompactionStrategy,
        BoundedPartitionAwareCompactionStrategy,
        UnBoundedPartitionAwareCompactionStrategy,
        PartitionRegexBasedCompactionStrategy,
        UnBoundedCompactionStrategy,
    )
}


def compaction_strategy(config: HoodieCompactionConfig) -> CompactionStrategy:
    """The strategy of ``hoodie.compaction.strategy``.

    Raises:
        HoodieConfigException: Hudi has it and hoodie does not, it is not a strategy, or it lacks a property.
    """
    name = config.strategy
    found: type[CompactionStrategy] | None = _STRATEGIES.get(name.removeprefix(_HUDI_PACKAGE))
    if found is not None:
        return found(config)
    if name.startswith(_HUDI_PACKAGE) or "." not in name:
        raise HoodieConfigException(f"{_KEY} = {name} is not supported; supported are {', '.join(sorted(_STRATEGIES))}")
    return create_object(name, _KEY, CompactionStrategy, config)


def _metric(operation: HoodieCompactionOperation, name: str) -> float:
    return (operation.metrics or {}).get(name, 0.0)


def _largest_first(
    operations: Iterable[HoodieCompactionOperation], metric: str, threshold: float
) -> list[HoodieCompactionOperation]:
    found = [operation for operation in operations if _metric(operation, metric) >= threshold]
    return sorted(found, key=lambda operation: _metric(operation, metric), reverse=True)


def _days_ago(count: int) -> date:
    return datetime.now(UTC).date() - timedelta(days=count)


def _day_of(partition_path: str) -> date:
    """The day of a partition, without the names of its fields."""
    text = "/".join(part.rpartition("=")[2] for part in partition_path.split("/")).replace("-", "/")
    try:
        if len(text) != _DATE_LENGTH:
            raise ValueError
        return datetime.strptime(text, "%Y/%m/%d").date()
    except ValueError as error:
        raise HoodieException(
            f"partition '{partition_path}' is not a day such as 2026/11/23, and {_KEY} chooses days: take another "
            "strategy, such as LogFileSizeBasedCompactionStrategy"
        ) from error
