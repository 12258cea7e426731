"""Choose the partitions that expire.

Hudi: org.apache.hudi.table.action.ttl.strategy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import timedelta

from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.util.class_loading import create_object
from hoodie.config.ttl_config import HoodieTTLConfig, PartitionTTLStrategyType
from hoodie.exception import HoodieConfigException
from hoodie.table.action.ttl.partition_times import PartitionTimes

_KEY = "hoodie.partition.ttl.strategy.class"
_HUDI_PACKAGE = "org.apache.hudi.table.action.ttl.strategy."
_MILLISECONDS_OF_DAY = 24 * 3600 * 1000


class PartitionTTLStrategy(ABC):
    """Chooses the partitions that expire. It has no state.

    ``hoodie.partition.ttl.strategy.class`` names a strategy of your own, which is created with the configuration of the
    TTL. It only chooses: partitions that a table service is about to rewrite stay for another run, and a choice of all
    partitions of the table, or of one that was written last, is refused.

    Args:
        config: Its options.

    Hudi: org.apache.hudi.table.action.ttl.strategy.PartitionTTLStrategy. Differs: gets the partitions and their times.
    """

    def __init__(self, config: HoodieTTLConfig) -> None:
        self.config = config

    @abstractmethod
    def expired_partitions(self, times: PartitionTimes) -> Mapping[str, str | None]:
        """The paths of the partitions that are too old, each with the instant time that makes it so; None for none.

        Args:
            times: The partitions that may expire, and their times.
        """

    def is_too_old(self, times: PartitionTimes, instant_time: str | None) -> bool:
        """Whether a time is more than ``hoodie.partition.ttl.strategy.days.retain`` days old; a day has 24 hours.

        Args:
            times: The times of the table.
            instant_time: An instant time; one that is not known is not too old.
        """
        age = times.age(instant_time)
        # Whole numbers, which do not overflow.
        return age is not None and age // timedelta(milliseconds=1) > self.config.days_retain * _MILLISECONDS_OF_DAY


class KeepByTimeStrategy(PartitionTTLStrategy):
    """Chooses the partitions whose last write is too old.

    Hudi: org.apache.hudi.table.action.ttl.strategy.KeepByTimeStrategy. Differs: log files renew a partition, and
    compactions and clusterings do not; the number of days does not overflow.
    """

    def expired_partitions(self, times: PartitionTimes) -> Mapping[str, str | None]:
        """See `PartitionTTLStrategy.expired_partitions`."""
        if self.config.days_retain <= 0:
            return {}
        last = times.last_writes(times.partition_paths)
        return {path: time for path, time in last.items() if self.is_too_old(times, time)}


class KeepByCreationTimeStrategy(PartitionTTLStrategy):
    """Chooses the partitions that were made too long ago, whatever was written since.

    Hudi: org.apache.hudi.table.action.ttl.strategy.KeepByCreationTimeStrategy.
    """

    def expired_partitions(self, times: PartitionTimes) -> Mapping[str, str | None]:
        """See `PartitionTTLStrategy.expired_partitions`."""
        if self.config.days_retain <= 0:
            return {}
        made = zip(times.partition_paths, map_concurrently(times.creation, times.partition_paths), strict=True)
        return {path: time for path, time in made if self.is_too_old(times, time)}


_STRATEGIES: dict[str, type[PartitionTTLStrategy]] = {
    strategy.__name__: strategy for strategy in (KeepByTimeStrategy, KeepByCreationTimeStrategy)
}
_OF_TYPE: dict[PartitionTTLStrategyType, type[PartitionTTLStrategy]] = {
    PartitionTTLStrategyType.KEEP_BY_TIME: KeepByTimeStrategy,
    PartitionTTLStrategyType.KEEP_BY_CREATION_TIME: KeepByCreationTimeStrategy,
}


def partition_ttl_strategy(config: HoodieTTLConfig) -> PartitionTTLStrategy:
    """The strategy of ``hoodie.partition.ttl.strategy.class``, or else of the strategy type.

    Args:
        config: The options of the TTL.

    Raises:
        HoodieConfigException: There is no such class, or it is not a strategy.
    """
    name = config.strategy_class
    if name is None:
        return _OF_TYPE[config.strategy_type](config)
    found = _STRATEGIES.get(name.removeprefix(_HUDI_PACKAGE))
    if found is not None:
        return found(config)
    if name.startswith(_HUDI_PACKAGE) or "." not in name:
        raise HoodieConfigException(
            f"{_KEY} = {name} is not supported; supported are {', '.join(sorted(_STRATEGIES))}, or the class of a "
            "strategy of your own as package.module.Class"
        )
    return create_object(name, _KEY, PartitionTTLStrategy, config)
