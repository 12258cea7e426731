"""Plans and metadata of table services: classes for the Avro records of cleans, savepoints, restores, compactions and
indexing.

Classes of rollbacks and replace commits are in `hoodie.avro.timeline_metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from hoodie.avro.timeline_metadata import HoodieInstantInfo, HoodieRollbackMetadata, avro_field


def _text(value: str | None) -> str:
    return value or ""


@attrs.frozen
class HoodieActionInstant:
    """An instant in a plan; its state is a name such as COMPLETED."""

    timestamp: str
    action: str
    state: str


@attrs.frozen
class HoodieCleanFileInfo:
    """One file to delete: its full path."""

    file_path: str = attrs.field(converter=_text)
    is_bootstrap_base_file: bool | None = False


@attrs.frozen
class HoodieCleanerPlan:
    """The content of a requested clean, and in table version 6 of an inflight one.

    Attributes:
        earliest_instant_to_retain: The first instant that stays readable; None with the policy that counts versions.
        last_completed_commit_timestamp: The newest completed write at the time of the plan; "" if there was none.
        policy: The name of the `CleaningPolicy`.
        files_to_be_deleted_per_partition: In plans of version 1: partition path -> names of files.
        file_paths_to_be_deleted_per_partition: Partition path -> the files, by full path.
        partitions_to_be_deleted: Partition paths that lose all their files.
        version: 2.
        extra_metadata: ``savepointed_timestamps``: the savepoints that kept files, separated by commas.
    """

    earliest_instant_to_retain: HoodieActionInstant | None
    last_completed_commit_timestamp: str
    policy: str
    files_to_be_deleted_per_partition: Mapping[str, list[str]] | None = attrs.field(factory=dict)
    version: int | None = 2
    file_paths_to_be_deleted_per_partition: Mapping[str, tuple[HoodieCleanFileInfo, ...]] = attrs.field(factory=dict)
    partitions_to_be_deleted: tuple[str, ...] = ()
    extra_metadata: Mapping[str, str] | None = attrs.field(factory=dict)

    @property
    def file_count(self) -> int:
        """The number of files that the plan deletes."""
        return sum(len(files) for files in self.file_paths_to_be_deleted_per_partition.values())


@attrs.frozen
class HoodieCleanPartitionMetadata:
    """The files that a clean deleted in one partition: names, not paths."""

    partition_path: str
    policy: str
    delete_path_patterns: tuple[str, ...] = ()
    success_delete_files: tuple[str, ...] = ()
    failed_delete_files: tuple[str, ...] = ()
    is_partition_deleted: bool | None = False


@attrs.frozen
class HoodieCleanMetadata:
    """The content of a completed clean.

    Attributes:
        start_clean_time: The clean's own instant time.
        time_taken_ms: The duration.
        total_files_deleted: The number of deleted files.
        earliest_commit_to_retain: As in the plan; "" for none. The next clean continues from there.
        last_completed_commit_timestamp: As in the plan.
        partition_metadata: Partition path -> the files deleted there.
        version: 2.
        bootstrap_partition_metadata: Empty, because bootstrapped tables are not supported.
        extra_metadata: As in the plan.
    """

    start_clean_time: str
    time_taken_ms: int = attrs.field(metadata=avro_field("timeTakenInMillis"))
    total_files_deleted: int
    earliest_commit_to_retain: str
    last_completed_commit_timestamp: str
    partition_metadata: Mapping[str, HoodieCleanPartitionMetadata] = attrs.field(factory=dict)
    version: int | None = 2
    bootstrap_partition_metadata: Mapping[str, HoodieCleanPartitionMetadata] = attrs.field(factory=dict)
    extra_metadata: Mapping[str, str] | None = attrs.field(factory=dict)

    @property
    def failed_partitions(self) -> list[str]:
        """Partition paths with files that could not be deleted."""
        return [path for path, stat in self.partition_metadata.items() if stat.failed_delete_files]


@attrs.frozen
class HoodieMergeArchiveFilePlan:
    """The archive files of a merge, and the file that they become: the content of ``mergeArchivePlan``."""

    candidate: tuple[str, ...]
    merged_archive_file_name: str | None
    version: int | None = 1


@attrs.frozen
class HoodieRestorePlan:
    """The content of a requested restore: the instants to undo, the newest first.

    Attributes:
        instants_to_rollback: The instants.
        restored_to: The instant that will be the newest; None in plans of old writers.
        version: 2.
    """

    instants_to_rollback: tuple[HoodieInstantInfo, ...]
    restored_to: str | None = attrs.field(metadata=avro_field("savepointToRestoreTimestamp"))
    version: int | None = 2


@attrs.frozen
class HoodieRestoreMetadata:
    """The content of a completed restore.

    Attributes:
        start_restore_time: The restore's own instant time.
        time_taken_ms: The duration.
        instants_to_rollback: The instant times that were undone.
        rollbacks: Instant time -> the rollbacks of that instant.
        restore_instant_info: The instants with their actions.
        version: 1.
    """

    start_restore_time: str
    time_taken_ms: int = attrs.field(metadata=avro_field("timeTakenInMillis"))
    instants_to_rollback: tuple[str, ...]
    rollbacks: Mapping[str, tuple[HoodieRollbackMetadata, ...]] = attrs.field(
        metadata=avro_field("hoodieRestoreMetadata")
    )
    restore_instant_info: tuple[HoodieInstantInfo, ...]
    version: int | None = 1


@attrs.frozen
class HoodieSavepointPartitionMetadata:
    """The names of the files that a savepoint keeps in one partition."""

    partition_path: str
    savepoint_data_file: tuple[str, ...]


@attrs.frozen
class HoodieSavepointMetadata:
    """The content of a completed savepoint.

    Attributes:
        savepointed_by: The user who made it; "" if unknown.
        savepointed_at: The time, in milliseconds since 1970.
        comments: The user's comment; "" if there is none.
        partition_metadata: Partition path -> the files that the savepoint keeps.
        version: 1.
    """

    savepointed_by: str
    savepointed_at: int
    comments: str
    partition_metadata: Mapping[str, HoodieSavepointPartitionMetadata]
    version: int | None = 1


@attrs.frozen
class HoodieCompactionOperation:
    """The slice of one file group in a compaction.

    Attributes:
        partition_path: The partition.
        file_id: The file group.
        base_instant_time: The base instant of the slice.
        delta_file_paths: The names of its log files, in the order of merging; some writers give paths.
        data_file_path: The name of its base file; None if it has none.
        metrics: The strategy's numbers about its size, by Hudi's names.
        bootstrap_file_path: None, because bootstrapped tables are not supported.
    """

    partition_path: str = attrs.field(converter=_text)
    file_id: str
    base_instant_time: str
    delta_file_paths: tuple[str, ...] = ()
    data_file_path: str | None = None
    metrics: Mapping[str, float] | None = attrs.field(factory=dict)
    bootstrap_file_path: str | None = None


@attrs.frozen
class HoodieCompactionPlan:
    """The content of a requested compaction or log compaction.

    Attributes:
        operations: The slices.
        extra_metadata: Additional strings.
        version: 2.
        strategy: Hudi's way of carrying it out, as a record; None for the usual way.
        preserve_hoodie_metadata: False, as Hudi writes it: a compaction keeps the meta columns of rows anyway.
        missing_schedule_partitions: The partitions in which log files were left out. The next plan of Hudi 1.2.0
            looks at these, and at those that were written since this one. Hudi 0.15 has no such field.
    """

    operations: tuple[HoodieCompactionOperation, ...]
    extra_metadata: Mapping[str, str] | None = attrs.field(factory=dict)
    version: int | None = 2
    strategy: Mapping[str, Any] | None = None
    preserve_hoodie_metadata: bool | None = False
    missing_schedule_partitions: tuple[str, ...] | None = ()


@attrs.frozen
class HoodieIndexPartitionInfo:
    """A partition of the metadata table that is to be built, or was.

    Attributes:
        metadata_partition_path: The partition.
        index_upto_instant: The instant up to which it is built from files, in a plan; up to which it holds all, at the
            end.
        version: 1.
        extra_metadata: Additional strings.
    """

    metadata_partition_path: str = attrs.field(converter=_text)
    index_upto_instant: str = attrs.field(converter=_text)
    version: int | None = 1
    extra_metadata: Mapping[str, str] | None = attrs.field(factory=dict)


@attrs.frozen
class HoodieIndexPlan:
    """The content of a requested indexing.

    Attributes:
        index_partition_infos: The partitions of the metadata table that it builds.
        version: 1.
    """

    index_partition_infos: tuple[HoodieIndexPartitionInfo, ...]
    version: int | None = 1

    @property
    def partition_paths(self) -> tuple[str, ...]:
        """The partitions that it builds."""
        return tuple(info.metadata_partition_path for info in self.index_partition_infos)


@attrs.frozen
class HoodieIndexCommitMetadata:
    """The content of a completed indexing.

    Attributes:
        index_partition_infos: The partitions that were built.
        operation_type: None, as Hudi leaves it.
        version: 1.
    """

    index_partition_infos: tuple[HoodieIndexPartitionInfo, ...]
    operation_type: str | None = None
    version: int | None = 1
