"""What savepoints and restores plan and report: the classes behind their Avro records."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from hoodie.avro.timeline_metadata import (
    HoodieInstantInfo,
    HoodieRollbackMetadata,
    avro_field,
    map_of,
    tuple_of,
)

__all__ = [
    "HoodieRestoreMetadata",
    "HoodieRestorePlan",
    "HoodieSavepointMetadata",
    "HoodieSavepointPartitionMetadata",
]


@attrs.frozen
class HoodieRestorePlan:
    """The content of a requested restore: the instants that are undone, the newest first.

    Attributes:
        instants_to_rollback: The instants.
        restored_to: The instant that will be the newest one; None in plans of old writers.
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
        time_taken_ms: How long it took.
        instants_to_rollback: Instant times that were undone.
        rollbacks: Each of them to what was deleted.
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
        savepointed_by: Who made it, "" when not said.
        savepointed_at: When, in milliseconds since 1970.
        comments: Why, "" when not said.
        partition_metadata: Partition path to the files that it keeps.
        version: 1.
    """

    savepointed_by: str = attrs.field(metadata=avro_field("savepointedBy"))
    savepointed_at: int = attrs.field(metadata=avro_field("savepointedAt"))
    comments: str = attrs.field(metadata=avro_field("comments"))
    partition_metadata: Mapping[str, HoodieSavepointPartitionMetadata] = attrs.field(
        metadata=avro_field("partitionMetadata", map_of(HoodieSavepointPartitionMetadata))
    )
    version: int | None = attrs.field(default=1, metadata=avro_field("version"))
