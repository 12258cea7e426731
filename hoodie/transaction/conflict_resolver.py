"""Check, before an instant is completed, whether it conflicts with writes of other writers.

Hudi: org.apache.hudi.client.utils.TransactionUtils (resolveWriteConflictIfAny).
"""

from __future__ import annotations

from collections.abc import Iterable

from hoodie.avro.schema_converters import to_arrow
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import ADDS_WITHOUT_BLOCKING, REWRITES
from hoodie.common.table.clustering_plans import pending_clusterings
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import HoodieInstant, State
from hoodie.common.table.timeline.instant_time import in_order, is_before
from hoodie.common.util.shown_value import short_repr
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieWriteConflictException
from hoodie.transaction.clusterings_beside import clusterings_that_give_way
from hoodie.transaction.concurrent_operation import ConcurrentOperation, FileGroupKey, WriteStart
from hoodie.transaction.conflict_resolution_strategy import (
    ConflictResolutionStrategy,
    NonBlockingConflictResolutionStrategy,
    conflict_resolution_strategy,
)
from hoodie.transaction.overtaken_rows import is_ordered_by_value, overtaken_groups
from hoodie.transaction.unique_keys import find_shared_key

_SHOWN = 3


class ConflictResolver:
    """Compares one writer's instants with those of other writers.

    It keeps the metadata of completed instants: a second check, under the lock, reads only newer instants.

    Args:
        config: The writer's configuration.
        is_global: Whether the writer's index allows a key only once in the whole table.
    """

    def __init__(self, config: HoodieWriteConfig, is_global: bool) -> None:
        self._config = config
        self._is_global = is_global
        self._strategy = conflict_resolution_strategy(
            config.write.conflict_resolution_strategy, str(config.index.index_type) == "BUCKET"
        )
        self._non_blocking = NonBlockingConflictResolutionStrategy()
        self._known: dict[HoodieInstant, tuple[ConcurrentOperation, HoodieCommitMetadata]] = {}
        self._compared: set[tuple[str, str]] = set()
        """Pairs of an own instant and one of another writer whose keys were compared."""

    def check(
        self,
        snapshot: TableSnapshot,
        operation: ConcurrentOperation,
        metadata: HoodieCommitMetadata,
        start: WriteStart,
        is_completed: bool = False,
    ) -> None:
        """Compare an operation with everything that other writers have done since it began.

        Args:
            snapshot: The table with its current timeline.
            operation: The operation that is about to be completed.
            metadata: Its commit metadata.
            start: The state of the table when the write began.
            is_completed: Whether it is completed already. Later commits that build on it are then no conflict.

        Raises:
            HoodieWriteConflictException: Another write was first. Nothing was committed, and writing again is safe.
        """
        timeline = snapshot.active_timeline
        self._check_nothing_undone(snapshot, operation, start)
        conflicts: dict[HoodieInstant, frozenset[FileGroupKey]] = {}
        beside: list[ConcurrentOperation] = []
        committed: dict[str, HoodieCommitMetadata] = {}
        strategy = self._strategy_of(operation)
        giving_way = clusterings_that_give_way(self._config.clustering, pending_clusterings(timeline))
        following = self.built_on(timeline, operation, start) if is_completed else frozenset()
        for instant in strategy.candidates(timeline, operation.instant.requested_time, start):
            if instant.requested_time in following or (instant.is_pending and instant.requested_time in giving_way):
                continue
            other, its_metadata = self._load(timeline, instant)
            groups = strategy.conflicting(operation, other)
            if start.expires and instant.is_completed:
                groups |= _renewed(operation, other)
            if groups:
                conflicts[instant] = groups
            elif its_metadata is not None and its_metadata.operation_type not in REWRITES:
                self._check_schema(operation, metadata, start, other, its_metadata.schema)
                committed[instant.requested_time] = its_metadata
                beside.append(other)
        if conflicts:
            raise self._conflict(operation, conflicts)
        if strategy is self._non_blocking:
            self._check_order(snapshot, operation, beside, start)
        if self._config.write.unique_keys:
            self._check_keys(snapshot, operation, metadata, committed)

    def forget(self) -> None:
        """Drop the metadata that was read, after the write has ended."""
        self._known.clear()
        self._compared.clear()

    def built_on(
        self, timeline: HoodieActiveTimeline, operation: ConcurrentOperation, start: WriteStart
    ) -> frozenset[str]:
        """Times of the commits that read an operation's version of every file group that they share with it.

        Args:
            timeline: The current timeline.
            operation: The operation, which is completed.
            start: The state of the table when its write began.

        Returns:
            The times, with that of the operation itself.
        """
        known = {operation.instant.requested_time}
        for instant in self._strategy.candidates(timeline, operation.instant.requested_time, start):
            other, metadata = self._load(timeline, instant)
            shared = operation.file_groups & other.file_groups
            if shared and metadata is not None:
                read = {(stat.partition_path, stat.file_id): stat.version_before for stat in metadata.write_stats}
                # Log files of layout 2 do not say what they are built on.
                if shared & operation.created or all(read.get(group) in known for group in shared):
                    known.add(instant.requested_time)
        return frozenset(known)

    def _strategy_of(self, operation: ConcurrentOperation) -> ConflictResolutionStrategy:
        """The strategy for an operation: the non-blocking one if it reads no rows, and the writers allow that."""
        is_blind = operation.operation_type in ADDS_WITHOUT_BLOCKING and not operation.reads_rows
        return self._non_blocking if self._config.write.is_non_blocking and is_blind else self._strategy

    def _check_order(
        self,
        snapshot: TableSnapshot,
        operation: ConcurrentOperation,
        others: Iterable[ConcurrentOperation],
        start: WriteStart,
    ) -> None:
        """Refuse rows that would replace those of a write with a later time; see `overtaken_rows`."""
        by_value = self._config.payload.merger_class is None and is_ordered_by_value(snapshot.table_config)
        overtaken = overtaken_groups(snapshot.active_timeline, operation, others, start, by_value=by_value)
        if not overtaken:
            return
        groups = sorted({group for found in overtaken.values() for group in found})
        instant_time = operation.instant.requested_time
        raise HoodieWriteConflictException(
            f"{_listed(instant.requested_time for instant in overtaken)} of {snapshot.base_path} began later than "
            f"{instant_time}, changed {len(groups)} of the same file groups, and was completed before {instant_time} "
            "wrote, or before a compaction that is planned: which rows are read would depend on that compaction. "
            f"Nothing of {instant_time} was committed. Write again: that is safe; hoodie.write.lock.wait.retry=true "
            "does so by itself",
            instant_time=instant_time,
            other_instants=[instant.requested_time for instant in overtaken],
            file_groups=groups,
            is_retry_safe=True,
        )

    def _load(
        self, timeline: HoodieActiveTimeline, instant: HoodieInstant
    ) -> tuple[ConcurrentOperation, HoodieCommitMetadata | None]:
        if instant.state is not State.COMPLETED:
            return ConcurrentOperation.load(timeline, instant), None
        known = self._known.get(instant)
        if known is None:
            metadata = timeline.read_commit_metadata(instant)
            known = ConcurrentOperation.of_commit(instant, metadata), metadata
            self._known[instant] = known
        return known

    def _check_keys(
        self,
        snapshot: TableSnapshot,
        operation: ConcurrentOperation,
        metadata: HoodieCommitMetadata,
        committed: dict[str, HoodieCommitMetadata],
    ) -> None:
        """Refuse keys that other writers added meanwhile; the keys of two instants are compared only once."""
        instant_time = operation.instant.requested_time
        new = {time: found for time, found in committed.items() if (instant_time, time) not in self._compared}
        if not new:
            return
        shared = find_shared_key(snapshot.storage, snapshot.base_path, instant_time, metadata, new, self._is_global)
        if shared is not None:
            raise HoodieWriteConflictException(
                f"{instant_time} added the key {short_repr(shared.record_key)} (one of {shared.count}) to partition "
                f"'{shared.partition_path}' of {snapshot.base_path}, and another writer added it to "
                f"{shared.other_path} meanwhile: it would be stored twice. Nothing of {instant_time} was committed. "
                "Upsert again: that is safe, and updates it",
                instant_time=instant_time,
                other_instants=in_order(new),
                is_retry_safe=True,
            )
        self._compared.update((instant_time, time) for time in new)

    def _check_nothing_undone(self, snapshot: TableSnapshot, operation: ConcurrentOperation, start: WriteStart) -> None:
        """Refuse a write whose input was rolled back, or whose concurrent writes were archived before a comparison."""
        timeline = snapshot.active_timeline
        undone = timeline.undone_since(start.completed)
        if undone:
            raise HoodieWriteConflictException(
                f"{_listed(undone)} of {snapshot.base_path} was rolled back, or the table restored, while "
                f"{operation.instant.requested_time} was being written; nothing of it was committed. Write again: that "
                "is safe",
                instant_time=operation.instant.requested_time,
                other_instants=undone,
                is_retry_safe=True,
            )
        vanished = start.pending - timeline.commits_timeline().times - {operation.instant.requested_time}
        first = timeline.completed_writes().first_instant
        doubtful = {time for time in vanished if first is not None and is_before(time, first.requested_time)}
        # It was completed and then archived, or it was rolled back: the archive tells which.
        archived = in_order(doubtful & snapshot.archived_timeline.completed_writes().times) if doubtful else []
        if archived:
            raise HoodieWriteConflictException(
                f"{_listed(archived)} of {snapshot.base_path} was completed and archived while "
                f"{operation.instant.requested_time} was being written, so what it changed is not compared; nothing of "
                f"{operation.instant.requested_time} was committed. Write again: that is safe",
                instant_time=operation.instant.requested_time,
                other_instants=archived,
                is_retry_safe=True,
            )

    def _check_schema(
        self,
        operation: ConcurrentOperation,
        metadata: HoodieCommitMetadata,
        start: WriteStart,
        other: ConcurrentOperation,
        schema: str | None,
    ) -> None:
        """Refuse other columns: the newest instant defines the table's schema, so one set of columns would be lost."""
        own = metadata.schema
        if not own or not schema or schema == own or to_arrow(schema).equals(to_arrow(own)):
            return
        is_older = is_before(other.instant.requested_time, operation.instant.requested_time)
        if is_older and start.avro_schema is not None and to_arrow(schema).equals(to_arrow(start.avro_schema)):
            return
        raise HoodieWriteConflictException(
            f"{other.instant.requested_time} of {self._config.base_path} was committed with other columns than "
            f"{operation.instant.requested_time} has, which was being written at that time; nothing of "
            f"{operation.instant.requested_time} was committed. Write again: that is safe, and adds to the columns "
            "that the table has now",
            instant_time=operation.instant.requested_time,
            other_instants=[other.instant.requested_time],
            is_retry_safe=True,
        )

    def _conflict(
        self, operation: ConcurrentOperation, conflicts: dict[HoodieInstant, frozenset[FileGroupKey]]
    ) -> HoodieWriteConflictException:
        groups = sorted({group for found in conflicts.values() for group in found})
        others = [f"{instant.requested_time} ({_what(instant)})" for instant in conflicts]
        shown = [f"{file_id} of partition '{path}'" if path else file_id for path, file_id in groups]
        return HoodieWriteConflictException(
            f"{operation.instant.requested_time} changed {len(groups)} file groups of {self._config.base_path} that "
            f"{_listed(others)} changed as well: {_listed(shown)}. Nothing of {operation.instant.requested_time} was "
            "committed. Write again: that is safe; hoodie.write.lock.wait.retry=true does so by itself",
            instant_time=operation.instant.requested_time,
            other_instants=[instant.requested_time for instant in conflicts],
            file_groups=groups,
            is_retry_safe=True,
        )


def _renewed(operation: ConcurrentOperation, other: ConcurrentOperation) -> frozenset[FileGroupKey]:
    """The file groups of a write to partitions that expire: the rows there are not old any more."""
    if other.operation_type in REWRITES:
        return frozenset()
    paths = {path for path, _ in operation.file_groups}
    return frozenset((path, file_id) for path, file_id in other.file_groups if path in paths)


def _what(instant: HoodieInstant) -> str:
    return f"{instant.action}, committed" if instant.is_completed else f"{instant.action}, pending"


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more
