"""A new table takes the place of an old one in the same folder, such that one of both is whole at every moment.

The new table is written to ``.hoodie/.overwrite/<time>``, completely, before anything of the old one changes. Then,
under the table's lock:

1. ``hoodie.properties`` says that an overwrite is pending (`PendingOverwrite`). From here on, readers and writers
   refuse the table, and no write that is under way can be completed. If others have committed meanwhile, this is
   undone.
2. The file says that the old table is being deleted; then it is.
3. The file says that the new table is moving; then its files get their places.
4. The file becomes the properties of the new table, in one step.

A process that dies leaves the old table, the new one, or a table that names the call which finishes or undoes this.
Whoever finishes does what is left of these steps.

No file of the old table must stay among the data: readers would take it for one that was committed before the timeline
of the new table begins. What no reader takes for data may be somebody else's, and stays: files in the table's folder,
or in folders that are no partitions, whose names are not those of data files. Another table below the folder is never
deleted; the overwrite is refused.

The timeline goes before the data: a reader that listed it earlier and lists folders now finds it gone when it looks
again, and so does not take the files that are left for all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import groupby

import attrs

from hoodie.common.fs.pending_overwrite import (
    OVERWRITE_FOLDER_NAME,
    PROPERTIES_FILE_NAME,
    OverwritePhase,
    PendingOverwrite,
    overwrite_folder,
)
from hoodie.common.table.marker.write_markers import TEMP_FOLDER_NAME
from hoodie.common.table.partition_metadata import PARTITION_METAFILE_PREFIX
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_folder import is_of_a_table, make_folders
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant_time import format_instant_time, in_order
from hoodie.common.table.timeline.timeline_layout import TIMELINE_FOLDER, timeline_layout
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieHeartbeatException,
    HoodieIOException,
    HoodieWriteConflictException,
    InvalidTableException,
)
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_clock import is_older
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_options import StorageOptions
from hoodie.storage.storage_path import METAFOLDER_NAME, join, normalise_path, parent, relative_to
from hoodie.table.missing_files import check_files, known_partitions
from hoodie.table.open_table import look_at_table
from hoodie.transaction.heartbeat_client import is_heartbeat_expired
from hoodie.transaction.transaction_manager import TransactionManager

logger = logging.getLogger(__name__)

_LOCKS_FOLDER_NAME = ".locks"
LOCK_FILE_PREFIX = "lock"
"""How the lock of `FileSystemBasedLockProvider` and claims to break it begin, which this process may hold itself."""
_ABANDONED_MS = 24 * 3600 * 1000
"""The age of the newest file of an overwrite above which its writer counts as dead."""
_FILES_AT_ONCE = 256
"""So many files are deleted or moved between two looks at the lock."""
_METADATA_FOLDER_NAME = "metadata"
_INSTANTS = timeline_layout(1)
"""The layout whose instants are files in ``.hoodie`` itself."""


def _no_check() -> None:
    pass


@attrs.frozen
class _OldFolder:
    """The parts of a folder to delete: files first, then the folders that only the table uses."""

    files: Sequence[FileStatus]
    folders: Sequence[str]


@attrs.frozen
class TableOverwrite:
    """One overwrite of one table.

    Attributes:
        storage: The table's storage.
        base_path: The table's folder.
        time: The name of the new table's folder.
        check_held: Checks the table's lock, before each step.
    """

    storage: HoodieStorage
    base_path: str
    time: str
    check_held: Callable[[], None] = _no_check

    @classmethod
    def begin(cls, storage: HoodieStorage, base_path: str) -> TableOverwrite:
        """Choose a folder for a new table that no other overwrite has; delete those that were left long ago.

        Args:
            storage: The table's storage.
            base_path: The table's folder.

        Raises:
            HoodieIOException: Storage failed.
        """
        taken = set()
        for entry in storage.list_directory(overwrite_folder(base_path)):
            taken.add(entry.name)
            newest = max(storage.list_files(entry.path) or [entry], key=lambda file: file.modification_time_ms)
            if is_older(storage, newest, _ABANDONED_MS):
                logger.warning("deleting %s, which an overwrite left that ended more than a day ago", entry.path)
                storage.delete_directory(entry.path)
        now = datetime.now(UTC)
        while (time := format_instant_time(now)) in taken:
            now += timedelta(milliseconds=1)
        return cls(storage, base_path, time)

    @property
    def folder(self) -> str:
        """The folder in which the new table is written."""
        return overwrite_folder(self.base_path, self.time)

    def is_pending(self) -> bool:
        """Whether the table names this overwrite; True also if that cannot be determined."""
        try:
            found = read_pending(self.storage, self.base_path)
        except (HoodieException, OSError):
            return True
        return found is not None and found[0].time == self.time

    def drop(self) -> None:
        """Delete the new table, before it takes a place. A failure is logged: no reader sees what is left."""
        try:
            self.storage.delete_directory(self.folder)
            self.storage.delete_empty_directory(overwrite_folder(self.base_path))
        except (HoodieException, OSError) as error:
            logger.warning("%s was not deleted; a later overwrite does it: %s", self.folder, error)

    def take_place(self, old: TableSnapshot, config: HoodieWriteConfig) -> None:
        """Let the new table, which is complete, take the place of the old one.

        Args:
            old: The old table when its overwrite began.
            config: The writer's configuration.

        Raises:
            HoodieWriteConflictException: Others have committed meanwhile; the old table stays.
            HoodieHeartbeatException: A writer is at work; the old table stays.
            HoodieConfigException: Another table, or the lock, is in the table's folder; the old table stays.
            HoodieIOException: The new table lacks files; the old table stays. Or storage failed.
            HoodieException: Storage failed, or the lock was lost. The table names the call that goes on.
        """
        try:
            self._refuse_lock_among_data(config)
            self._refuse_others(old, config)
            self._check_new_table(config)
            # What cannot be listed cannot be deleted.
            for child in self._old_files():
                if child.is_directory and not self._is_inside(child):
                    self._list_old(child)
            # A backup would be read in place of the file.
            table_config = HoodieTableConfig.update(self.storage, self.base_path, {})
            pending = PendingOverwrite(self.time, OverwritePhase.WRITTEN, table_config.properties)
            content = self.storage.read(self._properties_path)
            self.check_held()
        except BaseException:
            self.drop()
            raise
        is_whole = True
        try:
            announced = self._put(pending, content)
            # From here on nobody completes a write. What was completed before is in the timeline now.
            self._refuse_others(old, config)
            is_whole = False
            self.finish(pending, announced)
        except BaseException as error:
            self._take_back(error)
            if is_whole and not self.is_pending():
                self.drop()
            elif not self.is_pending():
                # Files of the old table may be gone, and others have written the properties: the new rows must stay.
                error.add_note(f"unless it was finished or undone, the new table is kept in {self.folder}")
            raise

    def finish(self, pending: PendingOverwrite, content: bytes) -> None:
        """Do what is left to do.

        Args:
            pending: The progress of the overwrite.
            content: The content of the properties file.

        Raises:
            InvalidTableException: The new table is not where it was written.
            HoodieConfigException: Another table is in the table's folder; move it and call again.
            HoodieException: Storage failed, or the lock was lost; call again.
        """
        properties = join(self.folder, METAFOLDER_NAME, PROPERTIES_FILE_NAME)
        if not isinstance(HoodieTableConfig.inspect(self.storage, self.folder), HoodieTableConfig):
            way_out = "Put the folder back as it was, from a copy"
            if pending.phase is OverwritePhase.WRITTEN:
                way_out = f"{pending.way_back(self.base_path)}. Or put the folder back as it was, from a copy"
            raise InvalidTableException(
                f"the overwrite of {self.base_path} cannot be finished: {properties} is missing or damaged. {way_out}; "
                "nothing was done"
            )
        if pending.phase is OverwritePhase.WRITTEN:
            pending = attrs.evolve(pending, phase=OverwritePhase.DELETING)
        # Each content is another one: a process that is still at work with the earlier one stops.
        content = self._put(pending, content)
        if pending.phase is OverwritePhase.DELETING:
            logger.warning("deleting the old table at %s: the new one is complete in %s", self.base_path, self.folder)
            self.delete_old(content)
            pending = attrs.evolve(pending, phase=OverwritePhase.MOVING)
            content = self._put(pending, content)
        self._move(content)
        self._exchange(self.storage.read(properties), content)
        self.drop()
        self._forget_guard()

    def undo(self, pending: PendingOverwrite, content: bytes) -> None:
        """Keep the old table.

        Args:
            pending: The progress of the overwrite.
            content: The content of the properties file.

        Raises:
            HoodiePendingOverwriteException: Files of the old table are deleted.
            HoodieException: Storage failed, or the lock was lost; call again.
        """
        if pending.phase is not OverwritePhase.WRITTEN:
            raise pending.refusal(self.base_path)
        self._exchange(HoodieTableConfig(pending.old).to_bytes(), content)
        self.drop()
        self._forget_guard()

    # --- looking ----------------------------------------------------------------------------------------------------

    def _refuse_others(self, old: TableSnapshot, config: HoodieWriteConfig) -> None:
        """Refuse to replace rows that the writer cannot know of, and those of a writer that is at work."""
        timeline = old.refreshed().active_timeline
        completed = timeline.completed_writes().times
        others = in_order(completed - old.active_timeline.completed_writes().times)
        if others:
            raise HoodieWriteConflictException(
                f"another writer changed {self.base_path} by {', '.join(others[:3])} while the table that replaces it "
                "was written; nothing was changed. Make sure that only one writer is active at a time, and write "
                "again: that is safe",
                other_instants=others,
                is_retry_safe=True,
            )
        if alive := living_writers(old, config, completed):
            raise HoodieHeartbeatException(
                f"{self.base_path} cannot be replaced by a new table while writers are at work: {', '.join(alive)} "
                f"have living heartbeats in {parent(old.heartbeat_path('0'))}; nothing was changed. Wait for these "
                "writers, and write again"
            )

    def _check_new_table(self, config: HoodieWriteConfig) -> None:
        """Refuse a new table that lacks a file that its commits name, as a read of it would.

        Raises:
            HoodieIOException: A file is not there; or storage failed.
        """
        new = look_at_table(config, folder=self.folder)
        if new.load_avro_schema() is None:
            return
        view = new.view()
        partitions = known_partitions(new, view)
        view.load_partitions(sorted(set(view.list_partitions()).intersection(partitions)))
        try:
            check_files(new, view, partitions)
        except HoodieIOException as error:
            raise HoodieIOException(
                f"{self.base_path} is not replaced, because the new table is not whole; nothing was changed, and the "
                f"new table is deleted. Write again: {error}"
            ) from error

    def _refuse_lock_among_data(self, config: HoodieWriteConfig) -> None:
        """Refuse where a lock is a file among those that are deleted."""
        folder = config.lock.filesystem_path
        if folder is not None and f"{normalise_path(folder)}/".startswith(f"{self.base_path}/"):
            raise HoodieConfigException(
                f"hoodie.write.lock.filesystem.path = {folder} is in the folder of {self.base_path}, whose files a new "
                "table replaces: leave the option out, or name a folder elsewhere for all writers; nothing was changed"
            )

    def _check_still(self, content: bytes) -> None:
        """Refuse to go on after another process went on."""
        self.check_held()
        if self.storage.read(self._properties_path) != content:
            raise HoodieWriteConflictException(
                f"another process finishes or undoes the overwrite of {self.base_path}: nothing more is done here"
            )

    # --- steps ------------------------------------------------------------------------------------------------------

    def _take_back(self, error: BaseException) -> None:
        """Keep the old table after an error, if nothing of it was deleted; else the error names the way out."""
        try:
            found = read_pending(self.storage, self.base_path)
            if found is None or found[0].time != self.time:
                return
            if found[0].phase is OverwritePhase.WRITTEN:
                self.undo(*found)
            else:
                error.add_note(str(found[0].refusal(self.base_path)))
        except (HoodieException, OSError) as second:
            error.add_note(f"the overwrite of {self.base_path} may be pending, and could not be undone: {second}")

    def _old_files(self) -> list[FileStatus]:
        """The files and whole folders to delete; the data comes last."""
        meta_path = join(self.base_path, METAFOLDER_NAME)
        inside = [
            child
            for child in self.storage.list_directory(meta_path)
            if child.name not in (OVERWRITE_FOLDER_NAME, _LOCKS_FOLDER_NAME)
            and not child.name.startswith((PROPERTIES_FILE_NAME, LOCK_FILE_PREFIX))
        ]
        data = [
            child
            for child in self.storage.list_directory(self.base_path)
            if child.name != METAFOLDER_NAME and (child.is_directory or is_of_a_table(child.name))
        ]
        return [*sorted(inside, key=_turn), *data]

    def _list_old(self, child: FileStatus) -> _OldFolder:
        """The parts to delete of a folder that `_old_files` lists.

        Raises:
            HoodieConfigException: Another table is in it.
            HoodieIOException: Storage failed.
        """
        files = self.storage.list_files(child.path)
        if self._is_inside(child):
            return _OldFolder(files, [child.path])
        for file in files:
            table, is_nested, _ = relative_to(self.base_path, file.path).partition(f"/{METAFOLDER_NAME}/")
            if is_nested:
                raise HoodieConfigException(
                    f"{self.base_path} cannot be replaced by a new table, because another table is in its folder: "
                    f"{join(self.base_path, table)}, which is not deleted. Move it out of the folder, or delete "
                    "it yourself if nobody needs it, and try again"
                )
        partitions = {parent(file.path) for file in files if file.name.startswith(PARTITION_METAFILE_PREFIX)}
        outermost = sorted(folder for folder in partitions if not self._is_below(parent(folder), partitions))
        old = [f for f in files if is_of_a_table(f.name) or self._is_below(parent(f.path), partitions)]
        is_all = len(old) == len(files) and (bool(old) or not child.name.startswith((".", "_")))
        return _OldFolder(old, [child.path] if is_all else outermost)

    def _is_inside(self, child: FileStatus) -> bool:
        """Whether a child of the table's folder, or of ``.hoodie``, is one of ``.hoodie``."""
        return parent(child.path) != self.base_path

    def _is_below(self, folder: str, folders: Collection[str]) -> bool:
        """Whether a folder is one of some folders below the table's, or is in one of them."""
        while folder not in folders and folder != self.base_path:
            folder = parent(folder)
        return folder != self.base_path

    def delete_old(self, content: bytes) -> None:
        """Delete the files of the old table, but for the properties and the locks.

        Args:
            content: The content of the properties file, which others change when they go on.

        Raises:
            HoodieWriteConflictException: Another process goes on.
            HoodieException: Storage failed, or the lock was lost; call again.
        """
        for is_directory, children in groupby(self._old_files(), key=lambda child: child.is_directory):
            if not is_directory:
                self._delete_files(list(children), content)
                continue
            for child in children:
                old = self._list_old(child)
                self._delete_files(old.files, content)
                for folder in old.folders:
                    self._check_still(content)
                    # Empty folders are left, names that listings hide, and what a late task has made since.
                    self.storage.delete_directory(folder)

    def _delete_files(self, files: Sequence[FileStatus], content: bytes) -> None:
        for first in range(0, len(files), _FILES_AT_ONCE):
            self._check_still(content)
            self.storage.delete_files(file.path for file in files[first : first + _FILES_AT_ONCE])

    def _move(self, content: bytes) -> None:
        config = HoodieTableConfig.load(self.storage, self.folder)
        make_folders(self.storage, self.base_path, config)
        meta_path = join(self.folder, METAFOLDER_NAME)
        staying = (join(meta_path, PROPERTIES_FILE_NAME), join(meta_path, _LOCKS_FOLDER_NAME))
        files = [file for file in self.storage.list_files(self.folder) if not file.path.startswith(staying)]
        for first in range(0, len(files), _FILES_AT_ONCE):
            self._check_still(content)
            for _ in map_concurrently(self._move_file, files[first : first + _FILES_AT_ONCE]):
                pass

    def _move_file(self, file: FileStatus) -> None:
        self.storage.move_file(file.path, join(self.base_path, relative_to(self.folder, file.path)))

    def _put(self, pending: PendingOverwrite, expected: bytes) -> bytes:
        content = pending.to_bytes()
        self._exchange(content, expected)
        return content

    def _exchange(self, content: bytes, expected: bytes) -> None:
        self.check_held()
        HoodieTableConfig.exchange(self.storage, self.base_path, content, expected)

    def _forget_guard(self) -> None:
        try:
            HoodieTableConfig.forget_fence(self.storage, self.base_path)
        except HoodieException as error:
            logger.warning("an empty file stays: %s", error)

    @property
    def _properties_path(self) -> str:
        return join(self.base_path, METAFOLDER_NAME, PROPERTIES_FILE_NAME)


def living_writers(table: TableSnapshot, config: HoodieWriteConfig, completed: Collection[str]) -> list[str]:
    """The instants of writers whose heartbeat is fresh.

    Args:
        table: The table.
        config: The configuration, with the age up to which a heartbeat is fresh.
        completed: Instants that are completed.
    """
    return [
        status.name
        for status in table.storage.list_directory(parent(table.heartbeat_path("0")))
        if not status.is_directory
        and status.name not in completed
        and not is_heartbeat_expired(table, status.name, config.write)
    ]


def _turn(child: FileStatus) -> int:
    """The turn at which a child of ``.hoodie`` is deleted; the data is deleted after all of them."""
    if child.name == TEMP_FOLDER_NAME:
        # Tasks that come too late look for a file there, and delete theirs if it is gone.
        return 0
    if child.name == TIMELINE_FOLDER or _INSTANTS.parse_file_name(child.name) is not None:
        return 1
    # The metadata table lists the data, so readers take it with the timeline that they have.
    return 3 if child.name == _METADATA_FOLDER_NAME else 2


def read_pending(storage: HoodieStorage, base_path: str) -> tuple[PendingOverwrite, bytes] | None:
    """The overwrite of a table that is pending, and the content of the properties file; None if there is none.

    Args:
        storage: The table's storage.
        base_path: The table's folder.

    Raises:
        HoodieIOException: Storage failed.
    """
    try:
        content = storage.read(join(base_path, METAFOLDER_NAME, PROPERTIES_FILE_NAME))
    except FileNotFoundError:
        return None
    pending = PendingOverwrite.in_file(content)
    return None if pending is None else (pending, content)


def finish_overwrite(table: str | HoodieWriteConfig, storage_options: StorageOptions | None = None) -> None:
    """Let a new table take the place of the old one; see `HoodieTableMetaClient.finish_overwrite`."""
    with _pending_overwrite(table, storage_options) as (overwrite, pending, content):
        overwrite.finish(pending, content)


def undo_overwrite(table: str | HoodieWriteConfig, storage_options: StorageOptions | None = None) -> None:
    """Keep the old table; see `HoodieTableMetaClient.undo_overwrite`."""
    with _pending_overwrite(table, storage_options) as (overwrite, pending, content):
        overwrite.undo(pending, content)


@contextmanager
def _pending_overwrite(
    table: str | HoodieWriteConfig, storage_options: StorageOptions | None
) -> Iterator[tuple[TableOverwrite, PendingOverwrite, bytes]]:
    """The pending overwrite of a table, under the table's lock."""
    if isinstance(table, HoodieWriteConfig):
        config = table
    else:
        config = HoodieWriteConfig.from_properties(table, {}, storage_options)
    base_path = normalise_path(config.base_path)
    storage = open_storage(base_path, config.storage_options, config.retry.policy)
    found = read_pending(storage, base_path)
    if found is None:
        raise HoodieConfigException(f"no overwrite of {base_path} is pending; nothing was done")
    if found[0].phase is OverwritePhase.DROPPING:
        raise found[0].refusal(base_path)
    transactions = TransactionManager(config)
    try:
        old = old_table(config, storage, base_path, found[0])
        with transactions.alone(), transactions.transaction(old, "end an overwrite") as transaction:
            found = read_pending(storage, base_path)
            if found is None:
                raise HoodieConfigException(
                    f"the overwrite of {base_path} was finished or undone meanwhile; nothing was done"
                )
            yield TableOverwrite(storage, base_path, found[0].time, transaction.check_held), *found
    finally:
        transactions.close()


def old_table(
    config: HoodieWriteConfig, storage: HoodieStorage, base_path: str, pending: PendingOverwrite
) -> TableSnapshot:
    """The old table, as far as its lock needs it; its timeline is not listed, because files of it may be gone."""
    table_config = HoodieTableConfig(pending.old)
    layout = timeline_layout(
        table_config.timeline_layout_version, table_config.timeline_folder, table_config.timeline_timezone
    )
    meta_path = join(base_path, METAFOLDER_NAME)
    timeline = HoodieActiveTimeline([], storage=storage, meta_path=meta_path, layout=layout)
    return TableSnapshot(base_path, storage, config.storage_options, table_config, timeline)
