"""Which writes of others stand in the way of completing one's own.

Hudi: org.apache.hudi.client.transaction.{ConflictResolutionStrategy,
SimpleConcurrentFileWritesConflictResolutionStrategy, BucketIndexConcurrentFileWritesConflictResolutionStrategy,
PreferWriterConflictResolutionStrategy}.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator

from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.clustering_plans import is_clustering
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after, is_before
from hoodie.common.util.class_loading import create_object
from hoodie.exception import HoodieConfigException
from hoodie.transaction.concurrent_operation import ConcurrentOperation, FileGroupKey
from hoodie.transaction.write_start import WriteStart

__all__ = [
    "BucketIndexConcurrentFileWritesConflictResolutionStrategy",
    "ConflictResolutionStrategy",
    "PreferWriterConflictResolutionStrategy",
    "SimpleConcurrentFileWritesConflictResolutionStrategy",
    "conflict_resolution_strategy",
]

logger = logging.getLogger(__name__)

_KEY = "hoodie.write.lock.conflict.resolution.strategy"
_BUCKET_ID_LENGTH = 8
"""Digits of the bucket that a file id of a bucket index begins with."""


class ConflictResolutionStrategy(ABC):
    """Decides whether two writes that were at work at once may both stand. It has no state.

    One of your own is named by ``hoodie.write.lock.conflict.resolution.strategy``.

    Hudi: org.apache.hudi.client.transaction.ConflictResolutionStrategy.
    """

    @abstractmethod
    def candidates(
        self, timeline: HoodieActiveTimeline, instant_time: str, start: WriteStart
    ) -> Iterator[HoodieInstant]:
        """The instants of others to be looked at.

        Args:
            timeline: As it is now, under the lock.
            instant_time: The instant that is about to be completed.
            start: What the timeline was when its write began.
        """

    @abstractmethod
    def conflicting(self, this: ConcurrentOperation, other: ConcurrentOperation) -> frozenset[FileGroupKey]:
        """The file groups over which two operations conflict; nothing when both may stand."""


class SimpleConcurrentFileWritesConflictResolutionStrategy(ConflictResolutionStrategy):
    """Two writes conflict when they changed the same file group: the second to commit loses.

    Looked at are the writes that were completed since this one began, whatever their instant times; those with a later
    time, whenever they were completed (of two versions of a file group readers take the one with the later time); and
    what pending compactions and clusterings are going to rewrite.

    Hudi: org.apache.hudi.client.transaction.SimpleConcurrentFileWritesConflictResolutionStrategy. Differs: there a
    commit with a later time that was completed between the start of the instant and that of its write does not count,
    and what this write changed is hidden by it. A pending clustering with an older time counts as well.
    """

    def candidates(
        self, timeline: HoodieActiveTimeline, instant_time: str, start: WriteStart
    ) -> Iterator[HoodieInstant]:
        """See `ConflictResolutionStrategy.candidates`."""
        for instant in timeline.commits_timeline():
            if instant.requested_time == instant_time:
                continue
            if instant.is_completed:
                if instant.requested_time not in start.completed or is_after(instant.requested_time, instant_time):
                    yield instant
            elif instant.action is Action.COMPACTION or is_clustering(timeline, instant):
                yield instant

    def conflicting(self, this: ConcurrentOperation, other: ConcurrentOperation) -> frozenset[FileGroupKey]:
        """See `ConflictResolutionStrategy.conflicting`."""
        is_compaction = other.operation_type is WriteOperationType.COMPACT or other.instant.action is Action.COMPACTION
        if is_compaction and is_before(other.instant.requested_time, this.instant.requested_time):
            # What it compacts is older than what this write adds: it keeps it.
            return frozenset()
        return self._intersection(this, other)

    def _intersection(self, this: ConcurrentOperation, other: ConcurrentOperation) -> frozenset[FileGroupKey]:
        return this.file_groups & other.file_groups


class BucketIndexConcurrentFileWritesConflictResolutionStrategy(SimpleConcurrentFileWritesConflictResolutionStrategy):
    """Two writes conflict when they changed the same bucket of a partition, also when each made a file group for it.

    Hudi: org.apache.hudi.client.transaction.BucketIndexConcurrentFileWritesConflictResolutionStrategy.
    """

    def _intersection(self, this: ConcurrentOperation, other: ConcurrentOperation) -> frozenset[FileGroupKey]:
        buckets = {(path, file_id[:_BUCKET_ID_LENGTH]) for path, file_id in other.file_groups}
        return frozenset(
            (path, file_id) for path, file_id in this.file_groups if (path, file_id[:_BUCKET_ID_LENGTH]) in buckets
        )


class PreferWriterConflictResolutionStrategy(SimpleConcurrentFileWritesConflictResolutionStrategy):
    """A write does not lose against a compaction or clustering that is still pending: that one finds out at its end.

    Hudi: org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy.
    """

    def candidates(
        self, timeline: HoodieActiveTimeline, instant_time: str, start: WriteStart
    ) -> Iterator[HoodieInstant]:
        """See `ConflictResolutionStrategy.candidates`."""
        return (instant for instant in super().candidates(timeline, instant_time, start) if instant.is_completed)


_STRATEGIES: dict[str, type[ConflictResolutionStrategy]] = {
    strategy.__name__: strategy
    for strategy in (
        SimpleConcurrentFileWritesConflictResolutionStrategy,
        BucketIndexConcurrentFileWritesConflictResolutionStrategy,
        PreferWriterConflictResolutionStrategy,
    )
}


def conflict_resolution_strategy(name: str | None, has_bucket_index: bool) -> ConflictResolutionStrategy:
    """The strategy of a configuration.

    Args:
        name: One of ours or Hudi's full name of it, or ``package.module.Class`` of a user; None for the usual one.
        has_bucket_index: Whether the writer's index places keys in buckets.

    Raises:
        HoodieConfigException: There is no such class, or it is no strategy.
    """
    if name is None:
        if has_bucket_index:
            return BucketIndexConcurrentFileWritesConflictResolutionStrategy()
        return SimpleConcurrentFileWritesConflictResolutionStrategy()
    simple_name = name.rpartition(".")[2]
    if simple_name == name or name.startswith("org.apache.hudi."):
        if simple_name not in _STRATEGIES:
            raise HoodieConfigException(f"{_KEY} = {name} is not known: give one of {', '.join(_STRATEGIES)}")
        return _STRATEGIES[simple_name]()
    return create_object(name, _KEY, ConflictResolutionStrategy)
