"""Rules that find the writes of other writers which prevent a write from completing.

Hudi: org.apache.hudi.client.transaction.{ConflictResolutionStrategy,
SimpleConcurrentFileWritesConflictResolutionStrategy, BucketIndexConcurrentFileWritesConflictResolutionStrategy,
PreferWriterConflictResolutionStrategy}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from hoodie.common.model.write_operation_type import REWRITES, WriteOperationType
from hoodie.common.table.clustering_plans import is_clustering
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after, is_before
from hoodie.common.util.class_loading import create_object
from hoodie.exception import HoodieConfigException
from hoodie.transaction.concurrent_operation import ConcurrentOperation, FileGroupKey, WriteStart

_KEY = "hoodie.write.lock.conflict.resolution.strategy"
_BUCKET_ID_LENGTH = 8
"""A file id of a bucket index begins with its bucket, in so many digits."""


class ConflictResolutionStrategy(ABC):
    """Decides whether two writes that ran at the same time may both commit. It has no state.

    ``hoodie.write.lock.conflict.resolution.strategy`` names a strategy of your own.

    Hudi: org.apache.hudi.client.transaction.ConflictResolutionStrategy.
    """

    @abstractmethod
    def candidates(
        self, timeline: HoodieActiveTimeline, instant_time: str, start: WriteStart
    ) -> Iterator[HoodieInstant]:
        """The instants of other writers that the write is compared with.

        Args:
            timeline: The current timeline, loaded under the lock.
            instant_time: The instant that is about to be completed.
            start: The state of the table when its write began.
        """

    @abstractmethod
    def conflicting(self, this: ConcurrentOperation, other: ConcurrentOperation) -> frozenset[FileGroupKey]:
        """The file groups over which two operations conflict; empty when both may commit."""


class SimpleConcurrentFileWritesConflictResolutionStrategy(ConflictResolutionStrategy):
    """Two writes conflict when they changed the same file group: the second to commit loses.

    A write is compared with the writes that were completed since it began, whatever their instant times; with writes
    of a later time, whenever they were completed (readers take the version of a file group with the later time); and
    with the file groups that pending clusterings are going to rewrite, in timeline layout 1 pending compactions too. In
    layout 2 a log file that is completed while a compaction is pending belongs to the slice that the compaction makes.

    Hudi: org.apache.hudi.client.transaction.SimpleConcurrentFileWritesConflictResolutionStrategy. Differs: Hudi
    ignores a commit with a later time that was completed between the start of the instant and the start of its write,
    and that commit then hides the changes of this write. In layout 2 it ignores commits that were requested before the
    last one that the write knew, and completed since. Here a pending clustering with an older time counts as well.
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
            elif instant.action is Action.COMPACTION:
                if not timeline.layout.has_completion_times:
                    yield instant
            elif is_clustering(timeline, instant):
                yield instant

    def conflicting(self, this: ConcurrentOperation, other: ConcurrentOperation) -> frozenset[FileGroupKey]:
        """See `ConflictResolutionStrategy.conflicting`."""
        is_compaction = other.operation_type is WriteOperationType.COMPACT or other.instant.action is Action.COMPACTION
        if is_compaction and is_before(other.instant.requested_time, this.instant.requested_time):
            # The compaction takes only older log files, so it keeps the changes of this write.
            return frozenset()
        shared = self._intersection(this, other)
        if other.operation_type is WriteOperationType.LOG_COMPACT:
            # It waits for older writes, and later log files come after its own. A base file would come below them.
            return shared - this.appended
        if is_compaction and other.instant.completion_time is not None:
            # In layout 2, log files that are completed after it was requested belong to its slices.
            return shared - this.appended
        return shared

    def _intersection(self, this: ConcurrentOperation, other: ConcurrentOperation) -> frozenset[FileGroupKey]:
        return this.file_groups & other.file_groups


class BucketIndexConcurrentFileWritesConflictResolutionStrategy(SimpleConcurrentFileWritesConflictResolutionStrategy):
    """Two writes conflict when they changed the same bucket of a partition, even if each made its own file group.

    Hudi: org.apache.hudi.client.transaction.BucketIndexConcurrentFileWritesConflictResolutionStrategy.
    """

    def _intersection(self, this: ConcurrentOperation, other: ConcurrentOperation) -> frozenset[FileGroupKey]:
        buckets = {(path, file_id[:_BUCKET_ID_LENGTH]) for path, file_id in other.file_groups}
        return frozenset(
            (path, file_id) for path, file_id in this.file_groups if (path, file_id[:_BUCKET_ID_LENGTH]) in buckets
        )


class NonBlockingConflictResolutionStrategy(BucketIndexConcurrentFileWritesConflictResolutionStrategy):
    """Two writes that only append to a file group do not conflict over it, since readers merge their rows.

    This is for a write whose rows do not depend on stored ones, with ``NON_BLOCKING_CONCURRENCY_CONTROL``. It conflicts
    with one that gave the same bucket another file group or a base file, wrote its rows anew or replaced it. It also
    conflicts with one that has a later time and was computed from stored rows: readers would put the rows of that write
    above its own, which that write did not see.

    Source: HoodieWriteConfig.needResolveWriteConflict. Differs: Hudi compares such a write with nothing.
    """

    def conflicting(self, this: ConcurrentOperation, other: ConcurrentOperation) -> frozenset[FileGroupKey]:
        """See `ConflictResolutionStrategy.conflicting`."""
        conflicts = super().conflicting(this, other)
        is_later = is_after(other.instant.requested_time, this.instant.requested_time)
        if not conflicts or other.operation_type in REWRITES or (other.reads_rows and is_later):
            return conflicts
        blocking = other.file_groups - (this.appended & other.appended)
        rival = {(path, file_id[:_BUCKET_ID_LENGTH]) for path, file_id in blocking}
        return frozenset((path, file_id) for path, file_id in conflicts if (path, file_id[:_BUCKET_ID_LENGTH]) in rival)


class PreferWriterConflictResolutionStrategy(SimpleConcurrentFileWritesConflictResolutionStrategy):
    """A write does not lose against a pending compaction or clustering, which detects the conflict when it completes.

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
        name: The name of a strategy in this module, Hudi's full name of it, or a user's ``package.module.Class``; None
            for the default.
        has_bucket_index: Whether the writer's index places keys in buckets.

    Raises:
        HoodieConfigException: There is no such class, or it is not a strategy.
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
