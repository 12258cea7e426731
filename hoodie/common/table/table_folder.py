"""The folder in which a table is to be made: whether it is free, and taking back a table that nobody used yet."""

from __future__ import annotations

import logging

import attrs

from hoodie.common.table.table_config import PROPERTIES_FILE_NAME
from hoodie.exception import HoodieConfigException
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import METAFOLDER_NAME, join, relative_to

__all__ = ["ALLOW_OTHER_FILES_KEY", "NewTable", "other_files_in", "refuse_other_files"]

logger = logging.getLogger(__name__)

ALLOW_OTHER_FILES_KEY = "hoodie.table.create.allow.other.files"
_LOCK_FILES = (".locks", "single_writer.lock")
"""Folder and beginning of the names of files that the operating system locks for processes; nothing is in them."""
_SAMPLED_FILES = 1000
"""What object stores list by one request."""
_SHOWN_FILES = 3


def other_files_in(storage: HoodieStorage, base_path: str) -> str | None:
    """What stands in a folder besides a table of Hudi: files of another format, or of anybody.

    Short listings decide, of at most so many files each. Names directly below the folder that begin with ``.`` or ``_``
    are passed over, as Hudi and Spark do, but for Delta's log. They may be so many, as in the checkpoint of a stream,
    that a listing has no others: then the names directly below the folder are looked at.

    Args:
        storage: Where the folder is.
        base_path: The folder; it need not exist.

    Returns:
        Words for a message, as "a Delta table (_delta_log)"; None where nothing is.

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
    """As many files as are shown, and one more, of those directly below a folder that are not passed over."""
    shown: list[str] = []
    for child in storage.list_directory(base_path):
        if child.name == "_delta_log" or not child.name.startswith((".", "_")):
            shown += storage.sample_files(child.path, 1) if child.is_directory else [child.path]
        if len(shown) > _SHOWN_FILES:
            break
    return [relative_to(base_path, path) for path in shown]


def refuse_other_files(storage: HoodieStorage, base_path: str) -> None:
    """Refuse to make a table where other files are.

    Raises:
        HoodieConfigException: There are some; it says which.
        HoodieIOException: Storage failed.
    """
    found = other_files_in(storage, base_path)
    if found is not None:
        raise HoodieConfigException(
            f"no table was made at {base_path}, because the folder holds {found}: check the path, or choose an empty "
            f"folder. To make a table beside those files give {ALLOW_OTHER_FILES_KEY}=true (init_table: "
            "allow_other_files=True)"
        )


@attrs.frozen
class NewTable:
    """A table that was made just now, to be taken back if nothing comes of it.

    Attributes:
        storage: The table's.
        base_path: The table's folder.
        content: Of its properties file.
        folder_is_new: Whether the folder itself was made with it.
    """

    storage: HoodieStorage
    base_path: str
    content: bytes
    folder_is_new: bool

    @classmethod
    def of(cls, storage: HoodieStorage, base_path: str, *, folder_is_new: bool) -> NewTable:
        """The table that this process has made just now.

        Raises:
            FileNotFoundError: Somebody has deleted it already.
            HoodieIOException: Storage failed.
        """
        return cls(storage, base_path, storage.read(_properties_path(base_path)), folder_is_new)

    def take_back(self) -> bool:
        """Delete the table, if nobody has begun to use it: then it is as if it had not been made.

        The properties go first. Whoever completes a write reads them right before, so a write of another writer that
        could still be completed has its instant in the listing that follows; the properties are put back then. Only
        the properties, files that serve as locks and empty folders are deleted, so that a table which another writer
        makes at that moment keeps its files.

        Returns:
            False where something of others is there: the table stays.

        Raises:
            FileNotFoundError: Somebody else has deleted it meanwhile.
            HoodieIOException: Storage failed; the table stays, or only empty folders of it are left.
        """
        meta_path = join(self.base_path, METAFOLDER_NAME)
        properties_path = _properties_path(self.base_path)
        if self._files(meta_path) != [properties_path] or self.storage.read(properties_path) != self.content:
            return False
        try:
            self.storage.delete_file(properties_path)
            is_used = bool(self._files(meta_path))
        except BaseException:
            # Who knows whether somebody uses it: its rows must not stand in a table without properties.
            self.storage.create_if_absent(properties_path, self.content)
            raise
        if is_used:
            self.storage.create_if_absent(properties_path, self.content)
            logger.info("another writer uses the new table %s: it stays", self.base_path)
            return False
        for file in self.storage.list_files(meta_path):
            if self._is_lock(meta_path, file.path):
                self.storage.delete_file(file.path)
        self._delete_folders(meta_path)
        self.storage.delete_empty_directory(meta_path)
        if self.folder_is_new:
            self.storage.delete_empty_directory(self.base_path)
        logger.info("took the new table %s back: its first write never began", self.base_path)
        return True

    def _files(self, meta_path: str) -> list[str]:
        files = self.storage.list_files(meta_path)
        return [file.path for file in files if not self._is_lock(meta_path, file.path)]

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
