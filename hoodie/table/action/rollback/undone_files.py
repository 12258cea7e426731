"""The changes to files by a rollback, or by a restore for each instant that it undoes.

Hudi: org.apache.hudi.table.action.rollback.RollbackUtils.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from hoodie.avro.timeline_metadata import (
    HoodieInstantInfo,
    HoodieRollbackMetadata,
    HoodieRollbackPartitionMetadata,
)
from hoodie.storage.storage_path import as_uri
from hoodie.table.action.rollback.command_blocks import CommandFile


@attrs.define
class UndoneFiles:
    """The files of one instant in one partition.

    Attributes:
        deleted: Full paths of the files that were deleted.
        command_files: Path of each log file that takes blocks back, as `as_uri` gives it, to its size in bytes.
        taken_back: Path or name of each log file whose blocks are taken back to its size in bytes.
    """

    deleted: list[str] = attrs.field(factory=list)
    command_files: dict[str, int] = attrs.field(factory=dict)
    taken_back: dict[str, int] = attrs.field(factory=dict)

    def note(self, file: CommandFile) -> None:
        """Note a log file that takes blocks of the instant back."""
        self.command_files[as_uri(file.path)] = file.size_bytes


def rollback_metadata(
    rollback_time: str, undone: HoodieInstantInfo, files: Mapping[str, UndoneFiles], time_taken_ms: int
) -> HoodieRollbackMetadata:
    """The report of a rollback, or of a restore for each instant that it undoes.

    Args:
        rollback_time: The instant time of the rollback or restore.
        undone: The instant that was undone.
        files: Partition path to the changes of its files.
        time_taken_ms: The duration, in milliseconds.
    """
    return HoodieRollbackMetadata(
        start_rollback_time=rollback_time,
        time_taken_ms=time_taken_ms,
        total_files_deleted=sum(len(done.deleted) for done in files.values()),
        commits_rollback=(undone.commit_time,),
        partition_metadata={
            path: HoodieRollbackPartitionMetadata(
                path, tuple(done.deleted), (), dict(done.command_files), dict(done.taken_back)
            )
            for path, done in sorted(files.items())
        },
        instants_rollback=(undone,),
    )
