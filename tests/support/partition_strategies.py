"""Strategies that choose partitions by their paths: a table of today has partitions that expire."""

from __future__ import annotations

from collections.abc import Mapping

from hoodie.table.action.ttl.partition_times import PartitionTimes
from hoodie.table.action.ttl.partition_ttl_strategy import PartitionTTLStrategy

__all__ = ["Oslo", "Rome", "X"]


class Oslo(PartitionTTLStrategy):
    """The partition ``oslo`` is always too old."""

    path = "oslo"

    def expired_partitions(self, times: PartitionTimes) -> Mapping[str, str | None]:
        return {path: times.last_write(path) for path in times.partition_paths if path == self.path}


class Rome(Oslo):
    """The partition ``rome`` is always too old."""

    path = "rome"


class X(Oslo):
    """The partition ``x`` is always too old."""

    path = "x"
