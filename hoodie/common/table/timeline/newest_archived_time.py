"""The greatest time in the archive of a table. Every new time must exceed it, so it is asked for often."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.timeline.instant_time import newest
from hoodie.common.table.timeline.lsm_manifest import LsmFile, LsmManifest, version_of
from hoodie.common.table.timeline.timeline_layout import TimelineLayout
from hoodie.storage.storage import FileStatus, HoodieStorage

if TYPE_CHECKING:
    from hoodie.common.table.timeline.archived_timeline import HoodieArchivedTimeline

_NEWEST_FILES = 2


def newest_archived_time(
    storage: HoodieStorage, folder: str, layout: TimelineLayout, load: Callable[..., HoodieArchivedTimeline]
) -> Callable[[], str | None]:
    """A function that returns the greatest of all times in an archive; None if that is empty.

    Args:
        storage: The storage of the table.
        folder: Full path of the archive.
        layout: The table's timeline layout.
        load: Loads the archived timeline.
    """
    return _NewestOfLsm(storage, folder) if layout.has_completion_times else _NewestOfLog(storage, folder, load)


class _NewestOfLog:
    """Layout 1: the newest files are read again only if the listing has changed.

    These suffice: whatever is archived later either is later itself, or left later instants active.
    """

    def __init__(self, storage: HoodieStorage, folder: str, load: Callable[..., HoodieArchivedTimeline]) -> None:
        self._storage = storage
        self._folder = folder
        self._load = load
        self._listing: list[FileStatus] = []
        self._newest: str | None = None

    def __call__(self) -> str | None:
        listing = self._storage.list_directory(self._folder)
        if listing != self._listing:
            last = self._load(newest_files=_NEWEST_FILES).last_instant
            self._newest = last.requested_time if last is not None else None
            self._listing = listing
        return self._newest


class _NewestOfLsm:
    """Layout 2: the greatest requested or completion time, by the statistics in the footers of all files.

    An archived instant may have been completed after all active ones, so the names of files, which hold requested
    times, do not suffice. The footer of a file is read once. While ``_version_`` is unchanged, nothing else is read. If
    the archive did not exist, it is listed: one request finds a manifest as well as ``_version_``.
    """

    def __init__(self, storage: HoodieStorage, folder: str) -> None:
        self._storage = storage
        self._folder = folder
        self._version: int | None = None
        self._is_empty = True
        self._newest: str | None = None
        self._of_files: dict[LsmFile, str] = {}

    def __call__(self) -> str | None:
        if self._is_empty and not self._storage.list_directory(self._folder):
            return None
        version = version_of(self._storage, self._folder)
        if version is None or version != self._version:
            # Imported here: most tables that are read have no archive, and reads of them start earlier without.
            from hoodie.common.table.timeline.lsm_timeline import read_while_compacted

            read_while_compacted(self._storage, self._folder, self._read)
        return self._newest

    def _read(self, manifest: LsmManifest) -> None:
        # Imported here for the same reason.
        from hoodie.common.table.timeline.lsm_timeline import newest_lsm_time

        unknown = [file for file in manifest.files if file not in self._of_files]
        times = map_concurrently(lambda file: newest_lsm_time(self._storage, self._folder, file), unknown)
        known = self._of_files | dict(zip(unknown, times, strict=True))
        self._of_files = {file: known[file] for file in manifest.files}
        self._newest = newest(self._of_files.values())
        self._version = manifest.number if manifest.has_version else None
        self._is_empty = not manifest.files
