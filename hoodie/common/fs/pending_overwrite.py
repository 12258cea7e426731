"""The state of a table while a new one takes its place, kept in ``hoodie.properties``.

A table cannot be exchanged in one step of the storage. So the file that makes a folder a table holds the state of the
exchange, from before the first old file is deleted until the last new one is in its place. The file then lacks the
table name, which all readers and writers need, also those of Hudi and hudi-rs: none of them reads half a table::

    phase      the old table       the new table, in .hoodie/.overwrite/<time>    way out
    WRITTEN    whole               whole                                          finish, or undo
    DELETING   being deleted       whole                                          finish
    MOVING     gone                part of it is in its place                     finish
    DROPPING   being deleted       there is none                                  drop again

The file keeps the properties of the old table, for an undo.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from enum import StrEnum

import attrs

from hoodie.common.config.java_properties import format_properties, parse_properties
from hoodie.exception import HoodieIOException, HoodiePendingOverwriteException
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import METAFOLDER_NAME, join, parent

logger = logging.getLogger(__name__)

OVERWRITE_FOLDER_NAME = ".overwrite"
"""The folder in ``.hoodie`` that new tables are written to. No reader lists it."""
PROPERTIES_FILE_NAME = "hoodie.properties"
_METADATA_TABLE = f"/{METAFOLDER_NAME}/metadata"
_TIME = "hoodie.overwrite.time"
_PHASE = "hoodie.overwrite.phase"
_OLD = "hoodie.overwrite.of."


class OverwritePhase(StrEnum):
    """The phase of an overwrite; see the module."""

    WRITTEN = "WRITTEN"
    DELETING = "DELETING"
    MOVING = "MOVING"
    DROPPING = "DROPPING"


@attrs.frozen
class PendingOverwrite:
    """The content of the properties file of a table while a new table takes its place.

    Attributes:
        time: The start of the overwrite, as an instant time: the name of its folder.
        phase: The phase of the overwrite.
        old: The properties of the old table.
    """

    time: str
    phase: OverwritePhase
    old: Mapping[str, str] = attrs.field(repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> PendingOverwrite | None:
        """The pending overwrite in a properties file; None if the file is that of a table.

        Args:
            properties: The file's content.
        """
        time, phase = properties.get(_TIME), properties.get(_PHASE)
        if time is None or phase not in set(OverwritePhase):
            return None
        old = {key.removeprefix(_OLD): value for key, value in properties.items() if key.startswith(_OLD)}
        return cls(time, OverwritePhase(phase), old)

    @classmethod
    def in_file(cls, content: bytes) -> PendingOverwrite | None:
        """The pending overwrite in a properties file; None if the file is that of a table, or damaged.

        Args:
            content: The file's content.
        """
        try:
            return cls.of(parse_properties(content))
        except ValueError:
            return None

    def to_bytes(self) -> bytes:
        """The content of the file; no two calls give the same one."""
        told = (
            "A new table is taking the place of this one. HoodieTableMetaClient.finish_overwrite of hoodie ends that."
        )
        if self.phase is OverwritePhase.DROPPING:
            told = "This table is being deleted. hoodie.Table(path).drop() ends that."
        comments = (told, str(uuid.uuid4()))
        old = {f"{_OLD}{key}": value for key, value in self.old.items()}
        return format_properties({_TIME: self.time, _PHASE: self.phase.value, **old}, comments)

    def folder(self, base_path: str) -> str:
        """The folder of the new table.

        Args:
            base_path: The table's folder.
        """
        return overwrite_folder(base_path, self.time)

    def way_back(self, base_path: str) -> str:
        """The advice for keeping the old table, while that is whole.

        Args:
            base_path: The table's folder.
        """
        return f"HoodieTableMetaClient.undo_overwrite({base_path!r}) keeps the old one"

    def refusal(self, base_path: str) -> HoodiePendingOverwriteException:
        """The error of everything that is not the overwrite itself.

        Args:
            base_path: The table's folder.
        """
        if self.phase is OverwritePhase.DROPPING:
            return HoodiePendingOverwriteException(
                f"the table at {base_path} is being dropped since {self.time}, and files of it are deleted. Wait if "
                f"that is going on. If its process died, hoodie.Table({base_path!r}).drop() ends it (where writers "
                "have a lock provider, give it by properties)"
            )
        way_out = f"HoodieTableMetaClient.finish_overwrite({base_path!r}) makes the new table take its place"
        state = "files of the old table are deleted"
        if self.phase is OverwritePhase.WRITTEN:
            state = "the old table is still whole"
            way_out += f", and {self.way_back(base_path)}"
        way_out += " (where writers have a lock provider, give their HoodieWriteConfig instead of the path)"
        return HoodiePendingOverwriteException(
            f"the table at {base_path} is being overwritten since {self.time}: the new table is complete in "
            f"{self.folder(base_path)}, and {state}. Wait if its writer is at work. If that died, {way_out}"
        )


def overwrite_folder(base_path: str, time: str = "") -> str:
    """The folder of one overwrite, or of all.

    Args:
        base_path: The table's folder.
        time: The time of the overwrite; "" for all.
    """
    return join(base_path, METAFOLDER_NAME, OVERWRITE_FOLDER_NAME, time)


def refuse_overwritten(storage: HoodieStorage, path: str) -> None:
    """Raise the error of a pending overwrite, before a missing file is reported.

    Args:
        storage: The storage of the file.
        path: A file of a table or of its metadata table; the folders above it are searched, up to the table's.

    Raises:
        HoodiePendingOverwriteException: A new table is taking the place of the file's table.
    """
    folder = path
    while (above := parent(folder)) not in (folder, ""):
        folder = above
        try:
            content = storage.read(join(folder, METAFOLDER_NAME, PROPERTIES_FILE_NAME))
        except FileNotFoundError:
            continue
        except HoodieIOException as error:
            logger.info("whether %s is part of a table that is overwritten is not known: %s", path, error)
            return
        pending = PendingOverwrite.in_file(content)
        if pending is not None:
            raise pending.refusal(folder)
        if not folder.endswith(_METADATA_TABLE):
            return
