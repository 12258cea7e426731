"""Properties of the partition TTL, which deletes partitions that are too old."""

from __future__ import annotations

from enum import StrEnum

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, choice, column_names, integer, property_field, text


class PartitionTTLStrategyType(StrEnum):
    """The time from which the age of a partition is counted.

    Hudi: org.apache.hudi.table.action.ttl.strategy.PartitionTTLStrategyType.
    """

    KEEP_BY_TIME = "KEEP_BY_TIME"
    KEEP_BY_CREATION_TIME = "KEEP_BY_CREATION_TIME"


@attrs.frozen(kw_only=True, repr=False)
class HoodieTTLConfig(PropertyGroup):
    """Partitions that expire: which ones, and when.

    Hudi: org.apache.hudi.config.HoodieTTLConfig.
    """

    inline: bool = property_field("hoodie.partition.ttl.inline", boolean(), False)
    """After each commit delete the partitions that are too old, as the last of the table services. A warning of the log
    names them first. Otherwise only `client.expire_partitions()` deletes them."""
    strategy_type: PartitionTTLStrategyType = property_field(
        "hoodie.partition.ttl.management.strategy.type",
        choice(PartitionTTLStrategyType),
        PartitionTTLStrategyType.KEEP_BY_TIME,
    )
    """The time from which the age of a partition is counted. KEEP_BY_TIME: the last commit that wrote to it, to base
    files or to log files; compactions and clusterings do not count. KEEP_BY_CREATION_TIME: the commit that made it."""
    strategy_class: str | None = property_field("hoodie.partition.ttl.strategy.class", text("a class"), None)
    """Instead of the type: `KeepByTimeStrategy` or `KeepByCreationTimeStrategy`, by these names or Hudi's full class
    names, or your own `PartitionTTLStrategy`."""
    days_retain: int = property_field("hoodie.partition.ttl.strategy.days.retain", integer(), -1)
    """A partition is too old after so many times 24 hours. With 0 or less nothing expires."""
    partition_selected: tuple[str, ...] = property_field(
        "hoodie.partition.ttl.strategy.partition.selected", column_names("partition paths"), ()
    )
    """Only these partitions may expire; without it all may."""
    max_delete_partitions: int = property_field(
        "hoodie.partition.ttl.strategy.max.delete.partitions", integer(minimum=1), 1000
    )
    """The most partitions that one run deletes, the oldest first."""
