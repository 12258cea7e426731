"""The folder of a new table: a check that it is free, and the removal of a new table that is not in use."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import attrs

from hoodie.common.config.java_properties import parse_properties
from hoodie.common.fs.file_names import is_data_file_name
from hoodie.common.fs.pending_overwrite import PROPERTIES_FILE_NAME
from hoodie.common.table.marker.write_markers import TEMP_FOLDER_NAME
from hoodie.common.table.partition_metadata import PARTITION_METAFILE_PREFIX
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.common.table.timeline.timeline_listing import list_instants
from hoodie.exception import HoodieConfigException
from hoodie.merge.reader_agreement import differences_between_readers
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_path import HEARTBEAT_FOLDER_NAME, METAFOLDER_NAME, join, parent, relative_to

logger = logging.getLogger(__name__)

ALLOW_OTHER_FILES_KEY = "hoodie.table.create.allow.other.files"
_LOCK_FILES = (".locks", "single_writer.lock")
"""The folder and name prefix of files that the operating system locks for processes; the files are empty."""
_HELD_LOCK = "lock"
"""The beginning of the names of files that exist while a writer holds the lock of `FileSystemBasedLockProvider`."""
_SAMPLED_FILES = 1000
"""The number of files that object stores list in one request."""
_SHOWN_FILES = 3
_METADATA_TABLE = "hoodie.table.metadata.partitions"


def other_files_in(storage: HoodieStorage, base_path: str) -> str | None:
    """Other files in a folder than those of a Hudi table: of another format, or any files.

    Short listings decide, each of a limited number of files. Names directly below the folder that begin with ``.`` or
    ``_`` are skipped, as Hudi and Spark do, except Delta's log. If these fill the whole listing, as in the checkpoint
    of a stream, the names directly below the folder are listed instead.

    Args:
        storage: The storage of the folder.
        base_path: The folder; it need not exist.

    Returns:
        A phrase for a message, such as "a Delta table (_delta_log)"; None if there are no such files.

    Raises:
        HoodieIOException: Storage failed.
    """
    found = [relative_to(base_path, path) for path in storage.sample_files(base_path, _SAMPLED_FILES)]
    if any(path.startswith("_delta_log/") for path in found):
        return "a Delta table (_delta_log)"
    others = sorted(path for path in found if not path.startswith((".", "_")))
    if found and not others:
        others = _first_others(storage, base_path)
    if not others:
        return None
    if storage.sample_files(join(base_path, "_delta_log"), 1):
        return "a Delta table (_delta_log)"
    metadata = storage.sample_files(join(base_path, "metadata"), _SAMPLED_FILES)
    if iceberg := sorted(path for path in metadata if path.endswith(".json")):
        return f"an Iceberg table ({relative_to(base_path, iceberg[0])})"
    return f"files of somebody else ({', '.join(others[:_SHOWN_FILES])}{', ...' if others[_SHOWN_FILES:] else ''})"


def _first_others(storage: HoodieStorage, base_path: str) -> list[str]:
    """The first files directly below a folder that are not skipped: one more than a message shows."""
    shown: list[str] = []
    for child in storage.list_directory(base_path):
        if child.name == "_delta_log" or not child.name.startswith((".", "_")):
            shown += storage.sample_files(child.path, 1) if child.is_directory else [child.path]
        if len(shown) > _SHOWN_FILES:
            break
    return [relative_to(base_path, path) for path in shown]


def is_of_a_table(name: str) -> bool:
    """Whether a file's name is that of a data file, or of the file that makes a folder a partition.

    Args:
        name: The name.
    """
    return name.startswith(PARTITION_METAFILE_PREFIX) or is_data_file_name(name)


def files_of_others(storage: HoodieStorage, base_path: str) -> list[str]:
    """The files in a table's folder that are no files of a table, and those of other tables below it, sorted.

    Args:
        storage: The table's storage.
        base_path: The table's folder.

    Returns:
        Their paths, relative to the folder.

    Raises:
        HoodieIOException: Storage failed, or a link is in the folder: links are not followed.
    """
    found = []
    for child in storage.list_directory(base_path):
        if child.name == METAFOLDER_NAME and child.is_directory:
            continue
        for file in storage.list_files(child.path) if child.is_directory else [child]:
            path = relative_to(base_path, file.path)
            if not is_of_a_table(file.name) or f"/{METAFOLDER_NAME}/" in path:
                found.append(path)
    return found


def refuse_other_files(storage: HoodieStorage, base_path: str) -> None:
    """Refuse to create a table in a folder with other files.

    Raises:
        HoodieConfigException: There are other files; the message names some.
        HoodieIOException: Storage failed.
    """
    found = other_files_in(storage, base_path)
    if found is not None:
        raise HoodieConfigException(
            f"no table was created at {base_path}, because the folder holds {found}: check the path, or choose an "
            f"empty folder. To create a table beside those files give {ALLOW_OTHER_FILES_KEY}=true (init_table: "
            "allow_other_files=True)"
        )


def make_folders(storage: HoodieStorage, base_path: str, table_config: HoodieTableConfig) -> None:
    """Make the folders that Hudi makes with a table.

    Args:
        storage: The storage of the table.
        base_path: The table's folder.
        table_config: The table's properties.

    Raises:
        HoodieIOException: Storage failed.
    """
    for folder in (
        ".schema",
        table_config.archive_folder,
        TEMP_FOLDER_NAME,
        ".aux/.bootstrap/.partitions",
        ".aux/.bootstrap/.fileids",
    ):
        storage.create_directory(join(base_path, METAFOLDER_NAME, folder))


@attrs.define(eq=False)
class NewTable:
    """A table that a write creates, to be removed again if the write fails.

    Attributes:
        storage: The table's storage.
        base_path: The table's folder.
        properties: The table's properties.
        folder_is_new: Whether the folder itself is created with the table.
        is_created: Whether it is known that this process created the table.
    """

    storage: HoodieStorage
    base_path: str
    properties: Mapping[str, str]
    folder_is_new: bool
    is_created: bool = False
    _stored: bytes | None = attrs.field(init=False, default=None)
    """The content of the properties file that this process has tried to make."""

    def create(self) -> None:
        """Create the table, in a folder that was found free. If several processes try, one succeeds.

        Raises:
            TableExistsException: There is a table.
            HoodieIOException: Storage failed. Folders may be left, or even the table: `take_back` removes both.
        """
        make_folders(self.storage, self.base_path, HoodieTableConfig(self.properties))
        name = HoodieTableConfig.create(
            self.storage, self.base_path, self.properties, about_to_store=self._note
        ).table_name
        self.is_created = True
        logger.info("Created table %s at %s", name, self.base_path)
        for difference in differences_between_readers(self.properties):
            logger.warning("readers of table %s at %s will disagree: %s", name, self.base_path, difference)

    def _note(self, content: bytes) -> None:
        self._stored = content

    def take_back(self) -> bool:
        """Delete the table, with all of its files, unless someone has begun to use it; or what there is of it.

        Leftovers of rolled back writes are deleted, too: rollbacks, a metadata table, the files that make folders
        partitions.

        The table is in use if a writer has a heartbeat, holds a lock by a file, or has an instant that is not a
        rollback. The properties are deleted first. Every writer reads them right before it completes a write. So any
        write that could still be completed has its instant in the listing that follows; in that case the properties are
        put back. Only files that were listed before that and empty folders are deleted, instants last. The deletion
        stops as soon as another table exists.

        Returns:
            False if others have files in the folder; then the table stays.

        Raises:
            HoodieIOException: Storage failed; the table stays, or files of it are left that the next first write takes
                for nothing.
        """
        meta_path = join(self.base_path, METAFOLDER_NAME)
        properties_path = _properties_path(self.base_path)
        try:
            content = self.storage.read(properties_path)
        except FileNotFoundError:
            self._delete_empty(meta_path)
            return True
        if not self.is_created and content != self._stored:
            # Another process was faster: its table may have the same properties.
            return False
        config = self._made_here(content)
        if config is None or self._is_used_by_others(meta_path, config):
            return False
        files = [file for file in self.storage.list_files(meta_path) if file.path != properties_path]
        partitions = self._partition_files()
        try:
            self.storage.delete_file(properties_path)
            is_used = self._is_used_by_others(meta_path, config)
        except BaseException:
            # It is unknown whether somebody uses the table, and its rows must not be left in a table without
            # properties.
            self.storage.create_if_absent(properties_path, content)
            raise
        if is_used:
            self.storage.create_if_absent(properties_path, content)
            logger.info("another writer uses the new table %s: it stays", self.base_path)
            return False
        self._delete_rest(meta_path, config, files, partitions)
        logger.info("removed the new table %s: nothing was committed to it", self.base_path)
        return True

    def _made_here(self, content: bytes) -> HoodieTableConfig | None:
        """The table's properties; None if they belong to another table. A first write may have added a metadata
        table to them.
        """
        found, made = parse_properties(content), self.properties.items()
        is_same = all(found.get(key) == value for key, value in made if not key.startswith(_METADATA_TABLE))
        return HoodieTableConfig(found) if is_same else None

    def _is_used_by_others(self, meta_path: str, config: HoodieTableConfig) -> bool:
        """Whether a writer has a heartbeat or the lock of a file, or the timeline has more than rollbacks."""
        names = self.storage.list_names(meta_path)
        if any(name.startswith(_HELD_LOCK) for name in names):
            return True
        if f"{HEARTBEAT_FOLDER_NAME}/" in names and self.storage.list_names(join(meta_path, HEARTBEAT_FOLDER_NAME)):
            return True
        layout = timeline_layout(config.timeline_layout_version, config.timeline_folder, config.timeline_timezone)
        found = list_instants(self.storage, meta_path, layout)
        return any(not (instant.is_completed and instant.action is Action.ROLLBACK) for instant in found)

    def _delete_rest(
        self,
        meta_path: str,
        config: HoodieTableConfig,
        listed: Sequence[FileStatus],
        partitions: Mapping[str, Sequence[FileStatus]],
    ) -> None:
        layout = timeline_layout(config.timeline_layout_version, config.timeline_folder, config.timeline_timezone)
        files = [file for file in listed if not self._is_lock(meta_path, file.path)]
        instants = [file.path for file in files if layout.parse_file_name(file.name) is not None]
        if self._is_there_again():
            return
        self.storage.delete_files(file.path for file in files if file.path not in instants)
        if self._is_there_again():
            return
        self._delete_partitions(partitions)
        self.storage.delete_files(instants)
        self._delete_empty(meta_path)

    def _delete_empty(self, meta_path: str) -> None:
        """Delete the files of locks and the empty folders, unless there is a table."""
        if self._is_there_again():
            return
        for file in self.storage.list_files(meta_path):
            if self._is_lock(meta_path, file.path):
                self.storage.delete_file(file.path)
        self._delete_folders(meta_path)
        self.storage.delete_empty_directory(meta_path)
        if self.folder_is_new:
            self.storage.delete_empty_directory(self.base_path)

    def _is_there_again(self) -> bool:
        """Whether another process has created a table in the folder since this one's properties were deleted."""
        return self.storage.is_file(_properties_path(self.base_path))

    def _partition_files(self) -> dict[str, list[FileStatus]]:
        """The files outside of ``.hoodie`` by their folders."""
        folders: dict[str, list[FileStatus]] = {}
        for child in self.storage.list_directory(self.base_path):
            if child.name != METAFOLDER_NAME:
                for file in self.storage.list_files(child.path) if child.is_directory else [child]:
                    folders.setdefault(parent(file.path), []).append(file)
        return folders

    def _delete_partitions(self, folders: Mapping[str, Sequence[FileStatus]]) -> None:
        """Delete the partition metadata of folders without other files, and then these folders."""
        for folder, files in sorted(folders.items(), reverse=True):
            if all(file.name.startswith(PARTITION_METAFILE_PREFIX) for file in files):
                self.storage.delete_files(file.path for file in files)
                while folder != self.base_path and self.storage.delete_empty_directory(folder):
                    folder = parent(folder)

    @staticmethod
    def _is_lock(meta_path: str, path: str) -> bool:
        return path.startswith(join(meta_path, *_LOCK_FILES))

    def _delete_folders(self, path: str) -> None:
        """Delete the empty folders below a folder, the deepest first."""
        for child in self.storage.list_directory(path):
            if child.is_directory:
                self._delete_folders(child.path)
                self.storage.delete_empty_directory(child.path)


def _properties_path(base_path: str) -> str:
    return join(base_path, METAFOLDER_NAME, PROPERTIES_FILE_NAME)
