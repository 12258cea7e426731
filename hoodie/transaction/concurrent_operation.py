"""The changes of one write, of this writer or of another one, and the state of the table when a write began.

Hudi: org.apache.hudi.client.transaction.ConcurrentOperation.
"""

from __future__ import annotations

import attrs

from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.supplemental_logging_mode import HoodieCDCSupplementalLoggingMode
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.clustering_plans import CLUSTERING_ACTIONS, clustered_file_groups, is_clustering
from hoodie.common.table.compaction_plans import compacted_file_groups
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.index.bucket.bucket_identifier import is_shared_bucket_file_id

FileGroupKey = tuple[str, str]
"""Partition path and file id."""


@attrs.frozen
class ConcurrentOperation:
    """One instant and the file groups that it makes, rewrites or replaces.

    Attributes:
        instant: The instant.
        operation_type: The type of the operation.
        file_groups: Partition paths and file ids.
        appended: File groups among them that got log files only.
        created: File groups among them that it began with a base file, under an id that no other writer can name before
            it sees the commit.
        deleted: File groups among them that got deletes.
        reads_rows: Whether it was computed from stored rows.

    Hudi: org.apache.hudi.client.transaction.ConcurrentOperation.
    """

    instant: HoodieInstant
    operation_type: WriteOperationType
    file_groups: frozenset[FileGroupKey]
    appended: frozenset[FileGroupKey] = frozenset()
    created: frozenset[FileGroupKey] = frozenset()
    deleted: frozenset[FileGroupKey] = frozenset()
    reads_rows: bool = False

    @classmethod
    def of_commit(cls, instant: HoodieInstant, metadata: HoodieCommitMetadata) -> ConcurrentOperation:
        """The operation that commit metadata describes, whether it is written already or about to be.

        Args:
            instant: The instant.
            metadata: Its commit metadata; for an inflight instant, its workload profile.
        """
        appended: set[FileGroupKey] = set()
        rewritten: set[FileGroupKey] = set(metadata.replaced_file_groups)
        deleted: set[FileGroupKey] = set()
        for path, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                if stat.file_id:
                    (appended if stat.is_log_file else rewritten).add((path, str(stat.file_id)))
                    if stat.num_deletes:
                        deleted.add((path, str(stat.file_id)))
        appended -= rewritten
        return cls(
            instant,
            metadata.operation_type,
            frozenset(appended | rewritten),
            frozenset(appended),
            created_file_groups(metadata),
            frozenset(deleted),
            metadata.reads_rows,
        )

    @classmethod
    def load(cls, timeline: HoodieActiveTimeline, instant: HoodieInstant) -> ConcurrentOperation:
        """The operation that an instant's files describe: completed metadata, a plan, or a workload profile.

        Raises:
            HoodieCorruptedDataException: A file is damaged.
            HoodieIOException: A file is gone, or storage failed.
        """
        if instant.state is State.COMPLETED:
            return cls.of_commit(instant, timeline.read_commit_metadata(instant))
        if instant.action in (Action.COMPACTION, Action.LOG_COMPACTION):
            is_log = instant.action is Action.LOG_COMPACTION
            operation = WriteOperationType.LOG_COMPACT if is_log else WriteOperationType.COMPACT
            groups = frozenset(
                (group.partition_path, group.file_id) for group in compacted_file_groups(timeline, instant)
            )
            return cls(instant, operation, groups)
        if is_clustering(timeline, instant):
            return cls(instant, WriteOperationType.CLUSTER, clustered_file_groups(timeline, instant))
        if instant.state is State.REQUESTED:
            return cls(instant, WriteOperationType.UNKNOWN, frozenset())
        return cls.of_commit(instant, timeline.read_commit_metadata(instant))


def created_file_groups(metadata: HoodieCommitMetadata) -> frozenset[FileGroupKey]:
    """The file groups that a commit began with a base file, without groups whose id other writers know beforehand."""
    return frozenset(
        (stat.partition_path, stat.file_id)
        for stat in metadata.write_stats
        if stat.file_id
        and not stat.is_log_file
        and stat.is_first_of_group
        and not is_shared_bucket_file_id(stat.file_id)
    )


@attrs.frozen
class WriteStart:
    """The writes of a table when a write began, to be compared with those when it ends.

    Attributes:
        completed: Times of the completed instants that made or replaced files.
        pending: Times of the pending instants.
        compactions: Times of the pending compactions, whose slices the write knows.
        clusterings: Times of the pending clusterings, and in timeline layout 1 of pending overwrites.
        avro_schema: The table's schema as Avro JSON; None for an empty table, or if it is not needed.
        reads_table: Whether the write computes its rows from the table's rows.
        expires: Whether the write deletes partitions because nobody wrote to them for long.
        logging_mode: The part of each change that the write stores; None if it stores no change data.
    """

    completed: frozenset[str]
    pending: frozenset[str]
    avro_schema: str | None = attrs.field(default=None, repr=False)
    reads_table: bool = False
    compactions: frozenset[str] = frozenset()
    expires: bool = False
    clusterings: frozenset[str] = frozenset()
    logging_mode: HoodieCDCSupplementalLoggingMode | None = None

    @classmethod
    def of(
        cls,
        timeline: HoodieTimeline,
        avro_schema: str | None = None,
        reads_table: bool = False,
        expires: bool = False,
        logging_mode: HoodieCDCSupplementalLoggingMode | None = None,
    ) -> WriteStart:
        """The writes of a timeline as it was loaded."""
        pending = timeline.commits_timeline().filter_pending().times
        compactions = timeline.filter_actions(Action.COMPACTION).filter_pending().times
        clusterings = timeline.filter_actions(*CLUSTERING_ACTIONS).filter_pending().times
        completed = timeline.completed_writes().times
        return cls(completed, pending, avro_schema, reads_table, compactions, expires, clusterings, logging_mode)
