"""The files of the archive of timeline layout 2, for the archiver."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.avro.timeline_metadata import HoodieRollbackMetadata
from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.common.table.timeline.lsm_archive import LsmArchiveWriter, LsmEntry
from hoodie.common.table.timeline.timeline_layout import TimelineLayout
from hoodie.config.archival_config import HoodieArchivalConfig
from hoodie.exception import HoodieCorruptedDataException
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.table.action.archive.archive_files import ArchiveFiles, ReadContent

_WITH_PLAN = frozenset({Action.COMPACTION, Action.LOG_COMPACTION, Action.CLEAN})
_RECORDS = {
    Action.COMMIT: HoodieCommitMetadata,
    Action.DELTA_COMMIT: HoodieCommitMetadata,
    Action.REPLACE_COMMIT: HoodieReplaceCommitMetadata,
    Action.CLEAN: HoodieCleanMetadata,
    Action.ROLLBACK: HoodieRollbackMetadata,
}
"""What the completed files hold; a damaged one is not archived."""


class LsmArchiveFiles(ArchiveFiles[LsmEntry]):
    """The folder ``.hoodie/timeline/history`` of one table: one entry for each instant.

    Args:
        storage: The storage of the table.
        folder: Full path of the archive.
        layout: The layout of the table's timeline.
        archival: Sizes of compactions, and how many manifests stay.
        check: Called right before each step that only one archiver at a time may do; raises where its lock was lost.
        timezone: Not used: completed files hold their times.
    """

    def __init__(
        self,
        storage: HoodieStorage,
        folder: str,
        layout: TimelineLayout,
        archival: HoodieArchivalConfig,
        check: Callable[[], None],
        timezone: str = "UTC",
    ) -> None:
        self._writer = LsmArchiveWriter(storage, folder, check)
        self._layout = layout
        self._archival = archival
        self._has_new_file = False

    def prepare(self, states: Collection[HoodieInstant]) -> None:
        """Does nothing: `append` finishes what was begun, and leaves out what the archive holds."""

    def entries_of(self, files: Mapping[HoodieInstant, FileStatus], read: ReadContent) -> list[LsmEntry]:
        """See `ArchiveFiles.entries_of`. Of a clean that was completed twice, the later completion counts."""
        completed = [state for state in files if state.is_completed]
        if not completed:
            return []
        last = max(completed, key=lambda state: state.newest_time)
        metadata, path = read(last), files[last].path
        if not metadata and last.action in COMMIT_ACTIONS:
            raise HoodieCorruptedDataException(f"{_failure(last)}: {path} is empty")
        try:
            if metadata:
                self._layout.decode(metadata, _RECORDS[last.action], path)
        except HoodieCorruptedDataException as error:
            raise HoodieCorruptedDataException(f"{_failure(last)}: {error}") from error
        ended = last.completion_time or last.requested_time
        return [LsmEntry(last.requested_time, ended, last.action, metadata or None, _plan_of(files, read))]

    def size_bytes(self, entry: LsmEntry) -> int:
        """See `ArchiveFiles.size_bytes`."""
        return entry.size_bytes

    def append(self, entries: Sequence[LsmEntry]) -> str | None:
        """See `ArchiveFiles.append`."""
        path = self._writer.append(entries)
        self._has_new_file = self._has_new_file or path is not None
        return path

    def tidy_up(self) -> None:
        """Compact the levels that have enough files, and delete files that were compacted before, after an `append`."""
        if not self._has_new_file:
            return
        archival = self._archival
        compacted = self._writer.compact(archival.compaction_batch_size, archival.compaction_target_file_max_bytes)
        self._writer.clean(archival.manifest_retained_versions + compacted)


def _failure(instant: HoodieInstant) -> str:
    return f"Cannot archive {instant.requested_time} {instant.action}"


def _plan_of(files: Mapping[HoodieInstant, FileStatus], read: ReadContent) -> bytes | None:
    """The plan that the archive keeps: of a replacement, what was known of it last."""
    pending = {state.state: state for state in files if state.is_pending}
    contents = [pending[state] for state in (State.REQUESTED, State.INFLIGHT) if state in pending]
    if any(state.action is Action.REPLACE_COMMIT for state in files):
        return next(filter(None, map(read, reversed(contents))), None)
    return read(contents[0]) or None if contents and contents[0].action in _WITH_PLAN else None
