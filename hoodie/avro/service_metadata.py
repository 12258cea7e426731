"""What table services plan and report: classes for the Avro records of cleans, savepoints, restores and compactions.

Classes of rollbacks and replace commits are in `hoodie.avro.timeline_metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from hoodie.avro.timeline_metadata import (
    HoodieInstantInfo,
    HoodieRollbackMetadata,
    avro_field,
    map_of,
    record_of,
    tuple_of,
)

__all__ = [
    "HoodieActionInstant",
    "HoodieCleanFileInfo",
    "HoodieCleanMetadata",
    "HoodieCleanPartitionMetadata",
    "HoodieCleanerPlan",
    "HoodieCompactionOperation",
    "HoodieCompactionPlan",
    "HoodieMergeArchiveFilePlan",
    "HoodieRestoreMetadata",
    "HoodieRestorePlan",
    "HoodieSavepointMetadata",
    "HoodieSavepointPartitionMetadata",
]


def _optional_tuple(value: list[str] | None) -> tuple[str, ...]:
    return tuple(value or ())


@attrs.frozen
class HoodieActionInstant:
    """An instant in a plan; its state is a name such as COMPLETED."""

    timestamp: str = attrs.field(metadata=avro_field("timestamp"))
    action: str = attrs.field(metadata=avro_field("action"))
    state: str = attrs.field(metadata=avro_field("state"))


@attrs.frozen
class HoodieCleanFileInfo:
    """One file to delete: its full path."""

    file_path: str = attrs.field(metadata=avro_field("filePath"))
    is_bootstrap_base_file: bool | None = attrs.field(default=False, metadata=avro_field("isBootstrapBaseFile"))


def _file_lists(value: Mapping[str, list[Mapping[str, object]]] | None) -> dict[str, tuple[HoodieCleanFileInfo, ...]]:
    return {
        partition_path: tuple(
            HoodieCleanFileInfo(str(file["filePath"] or ""), bool(file["isBootstrapBaseFile"])) for file in files
        )
        for partition_path, files in (value or {}).items()
    }


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

    earliest_instant_to_retain: HoodieActionInstant | None = attrs.field(
        metadata=avro_field("earliestInstantToRetain", record_of(HoodieActionInstant))
    )
    last_completed_commit_timestamp: str = attrs.field(metadata=avro_field("lastCompletedCommitTimestamp"))
    policy: str = attrs.field(metadata=avro_field("policy"))
    files_to_be_deleted_per_partition: Mapping[str, list[str]] | None = attrs.field(
        factory=dict, metadata=avro_field("filesToBeDeletedPerPartition")
    )
    version: int | None = attrs.field(default=2, metadata=avro_field("version"))
    file_paths_to_be_deleted_per_partition: Mapping[str, tuple[HoodieCleanFileInfo, ...]] = attrs.field(
        factory=dict, metadata=avro_field("filePathsToBeDeletedPerPartition", _file_lists)
    )
    partitions_to_be_deleted: tuple[str, ...] = attrs.field(
        default=(), metadata=avro_field("partitionsToBeDeleted", _optional_tuple)
    )
    extra_metadata: Mapping[str, str] | None = attrs.field(factory=dict, metadata=avro_field("extraMetadata"))

    @property
    def file_count(self) -> int:
        """The number of files that the plan deletes."""
        return sum(len(files) for files in self.file_paths_to_be_deleted_per_partition.values())


@attrs.frozen
class HoodieCleanPartitionMetadata:
    """The files that a clean deleted in one partition: names, not paths."""

    partition_path: str = attrs.field(metadata=avro_field("partitionPath"))
    policy: str = attrs.field(metadata=avro_field("policy"))
    delete_path_patterns: tuple[str, ...] = attrs.field(default=(), metadata=avro_field("deletePathPatterns", tuple))
    success_delete_files: tuple[str, ...] = attrs.field(default=(), metadata=avro_field("successDeleteFiles", tuple))
    failed_delete_files: tuple[str, ...] = attrs.field(default=(), metadata=avro_field("failedDeleteFiles", tuple))
    is_partition_deleted: bool | None = attrs.field(default=False, metadata=avro_field("isPartitionDeleted"))


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

    start_clean_time: str = attrs.field(metadata=avro_field("startCleanTime"))
    time_taken_ms: int = attrs.field(metadata=avro_field("timeTakenInMillis"))
    total_files_deleted: int = attrs.field(metadata=avro_field("totalFilesDeleted"))
    earliest_commit_to_retain: str = attrs.field(metadata=avro_field("earliestCommitToRetain"))
    last_completed_commit_timestamp: str = attrs.field(metadata=avro_field("lastCompletedCommitTimestamp"))
    partition_metadata: Mapping[str, HoodieCleanPartitionMetadata] = attrs.field(
        factory=dict, metadata=avro_field("partitionMetadata", map_of(HoodieCleanPartitionMetadata))
    )
    version: int | None = attrs.field(default=2, metadata=avro_field("version"))
    bootstrap_partition_metadata: Mapping[str, HoodieCleanPartitionMetadata] = attrs.field(
        factory=dict, metadata=avro_field("bootstrapPartitionMetadata", map_of(HoodieCleanPartitionMetadata))
    )
    extra_metadata: Mapping[str, str] | None = attrs.field(factory=dict, metadata=avro_field("extraMetadata"))

    @property
    def failed_partitions(self) -> list[str]:
        """Partition paths with files that could not be deleted."""
        return [path for path, stat in self.partition_metadata.items() if stat.failed_delete_files]


@attrs.frozen
class HoodieMergeArchiveFilePlan:
    """The archive files of a merge, and the file that they become: the content of ``mergeArchivePlan``."""

    candidate: tuple[str, ...] = attrs.field(metadata=avro_field("candidate", _optional_tuple))
    merged_archive_file_name: str | None = attrs.field(metadata=avro_field("mergedArchiveFileName"))
    version: int | None = attrs.field(default=1, metadata=avro_field("version"))


@attrs.frozen
class HoodieRestorePlan:
    """The content of a requested restore: the instants to undo, the newest first.

    Attributes:
        instants_to_rollback: The instants.
        restored_to: The instant that will be the newest; None in plans of old writers.
        version: 2.
    """

    instants_to_rollback: tuple[HoodieInstantInfo, ...] = attrs.field(
        metadata=avro_field("instantsToRollback", tuple_of(HoodieInstantInfo))
    )
    restored_to: str | None = attrs.field(metadata=avro_field("savepointToRestoreTimestamp"))
    version: int | None = attrs.field(default=2, metadata=avro_field("version"))


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

    start_restore_time: str = attrs.field(metadata=avro_field("startRestoreTime"))
    time_taken_ms: int = attrs.field(metadata=avro_field("timeTakenInMillis"))
    instants_to_rollback: tuple[str, ...] = attrs.field(metadata=avro_field("instantsToRollback", tuple))
    rollbacks: Mapping[str, tuple[HoodieRollbackMetadata, ...]] = attrs.field(
        metadata=avro_field(
            "hoodieRestoreMetadata",
            lambda value: {time: tuple_of(HoodieRollbackMetadata)(found) for time, found in value.items()},
        )
    )
    restore_instant_info: tuple[HoodieInstantInfo, ...] = attrs.field(
        metadata=avro_field("restoreInstantInfo", tuple_of(HoodieInstantInfo))
    )
    version: int | None = attrs.field(default=1, metadata=avro_field("version"))


@attrs.frozen
class HoodieSavepointPartitionMetadata:
    """The names of the files that a savepoint keeps in one partition."""

    partition_path: str = attrs.field(metadata=avro_field("partitionPath"))
    savepoint_data_file: tuple[str, ...] = attrs.field(metadata=avro_field("savepointDataFile", tuple))


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

    savepointed_by: str = attrs.field(metadata=avro_field("savepointedBy"))
    savepointed_at: int = attrs.field(metadata=avro_field("savepointedAt"))
    comments: str = attrs.field(metadata=avro_field("comments"))
    partition_metadata: Mapping[str, HoodieSavepointPartitionMetadata] = attrs.field(
        metadata=avro_field("partitionMetadata", map_of(HoodieSavepointPartitionMetadata))
    )
    version: int | None = attrs.field(default=1, metadata=avro_field("version"))


@attrs.frozen
class HoodieCompactionOperation:
    """The slice of one file group in a compaction."""

    partition_path: str = attrs.field(metadata=avro_field("partitionPath", lambda value: value or ""))
    file_id: str = attrs.field(metadata=avro_field("fileId"))
    base_instant_time: str = attrs.field(metadata=avro_field("baseInstantTime"))


@attrs.frozen
class HoodieCompactionPlan:
    """The content of a requested compaction or log compaction."""

    operations: tuple[HoodieCompactionOperation, ...] = attrs.field(
        metadata=avro_field("operations", tuple_of(HoodieCompactionOperation))
    )
