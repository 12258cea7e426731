"""The table's own properties: ``.hoodie/hoodie.properties``.

Hudi replaces the file in steps (backup, delete, write, delete the backup). A reader that finds the file missing or
half-written uses the backup. hoodie replaces the file in one atomic step and needs no backup, but repairs what a writer
left that died between the steps.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache

import attrs

from hoodie.common.config.java_properties import format_properties, parse_properties
from hoodie.common.config.property import display_value
from hoodie.common.fs.pending_overwrite import PROPERTIES_FILE_NAME, PendingOverwrite
from hoodie.common.model.key_generator_type import class_of_type
from hoodie.common.model.supplemental_logging_mode import HoodieCDCSupplementalLoggingMode, logging_mode_of
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table import table_features
from hoodie.common.table.timeline.timeline_layout import TIMELINE_FOLDER
from hoodie.exception import (
    HoodieCommitException,
    HoodieIOException,
    HoodieNotSupportedException,
    InvalidTableException,
    TableExistsException,
    TableNotFoundException,
)
from hoodie.merge.merge_modes import (
    LEGACY_PAYLOAD_KEY,
    PartialUpdateMode,
    TableMerging,
    is_by_mode,
    says_how_it_merges,
)
from hoodie.merge.payload_rules import PAYLOAD_TYPES, MergeMode
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import METAFOLDER_NAME, check_inside, join, parent

logger = logging.getLogger(__name__)

PROPERTIES_BACKUP_FILE_NAME = "hoodie.properties.backup"

_CHECKSUM = "hoodie.table.checksum"
_FIRST_VERSION_WITH_CHECKSUM = 4
_METADATA_PARTITIONS = "hoodie.table.metadata.partitions"
_METADATA_PARTITIONS_INFLIGHT = "hoodie.table.metadata.partitions.inflight"
_SHOWN_KEYS = (
    "hoodie.table.name",
    "hoodie.table.type",
    "hoodie.table.version",
    "hoodie.table.recordkey.fields",
    "hoodie.table.partition.fields",
    "hoodie.table.precombine.field",
    "hoodie.table.ordering.fields",
    "hoodie.compaction.payload.class",
    "hoodie.record.merge.mode",
)
_WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_READ_ATTEMPTS = 5
_SECONDS_BETWEEN_ATTEMPTS = 0.2


def _copy(properties: Mapping[str, str]) -> dict[str, str]:
    return dict(properties)


@attrs.frozen(repr=False)
class HoodieTableConfig:
    """The typed properties of a table; an immutable value that does not follow later changes of the file.

    Prints the properties that identify the table, not all of them.

    Attributes:
        properties: All properties as stored, including unknown ones, in the order of the file.
        digest: The digest of the file that they were loaded from; empty for others. Each change of a table's
            properties gives another one, also a change back, because the file says when it was written.

    Hudi: org.apache.hudi.common.table.HoodieTableConfig. Differs: immutable.
    """

    properties: Mapping[str, str] = attrs.field(converter=_copy)
    digest: bytes = attrs.field(default=b"", eq=False)

    def __repr__(self) -> str:
        shown = {key: display_value(key, self.properties[key]) for key in _SHOWN_KEYS if key in self.properties}
        more = len(self.properties) - len(shown)
        parts = ", ".join(f"{key!r}: {value}" for key, value in shown.items())
        return f"<{type(self).__name__} {{{parts}}}{f' and {more} more' if more else ''}>"

    # --- on storage -----------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, storage: HoodieStorage, base_path: str) -> HoodieTableConfig:
        """Load the properties of a table; nothing is changed on storage.

        Args:
            storage: The storage of the table.
            base_path: The table's folder.

        Raises:
            TableNotFoundException: Neither the file nor its backup exists.
            HoodiePendingOverwriteException: A new table is taking the place of this one.
            InvalidTableException: The file is damaged, and there is no good backup.
            HoodieIOException: Storage failed.
        """
        return cls._load(storage, base_path)[0]

    @classmethod
    def _load(cls, storage: HoodieStorage, base_path: str) -> tuple[HoodieTableConfig, bool]:
        """See `load`; also whether the file itself is good."""
        path = _path(base_path, PROPERTIES_FILE_NAME)
        backup_path = _path(base_path, PROPERTIES_BACKUP_FILE_NAME)
        problem, missing_count = "", 0
        for attempt in range(_READ_ATTEMPTS):
            main = _read(storage, path)
            # While a backup exists, the file may be half-written; its checksum, the last line, shows whether it is
            # whole.
            if isinstance(main, HoodieTableConfig) and _CHECKSUM in main.properties:
                return main, True
            backup = _read(storage, backup_path)
            for found in (main, backup):
                if isinstance(found, HoodieTableConfig) and (_CHECKSUM in found.properties or backup is None):
                    return found, found is main
            if main is None and backup is None:
                # While a writer replaces the file, both can be missing in turn, but not many times.
                missing_count += 1
                if missing_count == 3 or not storage.list_directory(parent(path)):
                    break
                continue
            problem = next(text for text in (main, backup, "it has no checksum") if isinstance(text, str))
            if attempt + 1 < _READ_ATTEMPTS:
                time.sleep(_SECONDS_BETWEEN_ATTEMPTS)
        if not problem:
            raise TableNotFoundException(
                f"There is no Hudi table at {base_path}: {path} does not exist. Check the path, or create the table "
                "with HoodieTableMetaClient.init_table"
            )
        raise InvalidTableException(
            f"The table properties {path} cannot be used: {problem}. Restore the file, for instance from a copy of "
            f"{PROPERTIES_BACKUP_FILE_NAME}"
        )

    @classmethod
    def inspect(
        cls, storage: HoodieStorage, base_path: str, name: str = PROPERTIES_FILE_NAME
    ) -> HoodieTableConfig | str | None:
        """Read one of the two properties files by itself.

        Args:
            storage: The storage of the table.
            base_path: The table's folder.
            name: `PROPERTIES_FILE_NAME` or `PROPERTIES_BACKUP_FILE_NAME`.

        Returns:
            The properties; a text with the problem of the file; or None if there is no file.

        Raises:
            HoodieIOException: Storage failed.
        """
        return _read(storage, _path(base_path, name))

    @classmethod
    def create(
        cls,
        storage: HoodieStorage,
        base_path: str,
        properties: Mapping[str, str],
        *,
        is_empty: bool = False,
        about_to_store: Callable[[bytes], None] | None = None,
    ) -> HoodieTableConfig:
        """Create the properties file of a new table; if several processes try, one succeeds.

        Args:
            storage: The storage of the new table.
            base_path: The table's folder.
            properties: At least the table's name; the checksum is added.
            is_empty: Whether the caller has just deleted all files in the folder, under a lock.
            about_to_store: Is told the content of the file, right before the call that makes it. It holds the time, in
                milliseconds.

        Returns:
            The properties as stored.

        Raises:
            TableExistsException: There is a table already.
            InvalidTableException: The properties hold no table name.
            HoodieIOException: Storage failed.
        """
        content = cls(_with_checksum(properties)).to_bytes()
        path = _path(base_path, PROPERTIES_FILE_NAME)
        # A backup alone is a table whose properties file is being replaced.
        has_backup = not is_empty and storage.is_file(_path(base_path, PROPERTIES_BACKUP_FILE_NAME))
        if about_to_store is not None and not has_backup:
            about_to_store(content)
        if has_backup or not storage.create_if_absent(path, content):
            raise TableExistsException(
                f"There already is a Hudi table at {base_path} ({path} exists): open it with "
                "HoodieTableMetaClient.load, or choose another path"
            )
        return _as_stored(content)

    @classmethod
    def update(
        cls, storage: HoodieStorage, base_path: str, updates: Mapping[str, str], removals: Iterable[str] = ()
    ) -> HoodieTableConfig:
        """Change properties of a table atomically; first repair what an earlier writer left half-done.

        Concurrent updates are not guarded against: the caller must hold the table's lock or be the only writer.

        Args:
            storage: The storage of the table.
            base_path: The table's folder.
            updates: Properties to set.
            removals: Properties to remove; missing ones are ignored.

        Returns:
            The properties as stored.

        Raises:
            TableNotFoundException: There is no table.
            InvalidTableException: The properties are damaged, or would hold no table name.
            HoodieIOException: Storage failed; either the old or the new properties are stored.
        """
        current, is_good = cls._load(storage, base_path)
        if is_good:
            storage.delete_files([_path(base_path, PROPERTIES_BACKUP_FILE_NAME)])
        else:
            _recover(storage, base_path, current)
        removed = frozenset(removals)
        kept = {key: value for key, value in current.properties.items() if key not in removed}
        changed = cls(_with_checksum({**kept, **updates}))
        if changed != current:
            path = _path(base_path, PROPERTIES_FILE_NAME)
            content = changed.to_bytes()
            try:
                storage.replace(path, content)
            except HoodieIOException:
                # The response can be lost although the file was replaced.
                if _read(storage, path) != changed:
                    raise
            logger.info("Changed properties of %s: %s", base_path, ", ".join(sorted({*updates, *removed})))
            return _as_stored(content)
        return current

    def fence(self, storage: HoodieStorage, base_path: str) -> str | None:
        """Write the properties again as they are, so that a `switch` by a version from before fails.

        Args:
            storage: The storage of the table.
            base_path: The table's folder.

        Returns:
            The version of the file, for `switch`; None on a file system without locks, which cannot compare versions.

        Raises:
            HoodieCommitException: The properties were changed since these ones were loaded.
            HoodieIOException: Storage failed.
        """
        _recover(storage, base_path, HoodieTableConfig.load(storage, base_path))
        path = _path(base_path, PROPERTIES_FILE_NAME)
        _, version = storage.read_versioned(path)
        # Read once more: the version may be that of a newer content than the one before.
        if HoodieTableConfig.load(storage, base_path) != self:
            raise _changed_meanwhile(base_path)
        try:
            # Two fences of one millisecond differ too.
            fenced = storage.replace_version(path, self.to_bytes() + f"#{uuid.uuid4()}\n".encode(), version)
        except HoodieIOException as error:
            if getattr(error.__cause__, "errno", None) not in _WITHOUT_LOCKS:
                raise
            return None
        if fenced is None:
            raise _changed_meanwhile(base_path)
        return fenced

    def switch(self, storage: HoodieStorage, base_path: str, version: str | None) -> None:
        """Make these the properties of a table, unless the stored ones were changed or fenced meanwhile. Atomic.

        Args:
            storage: The storage of the table.
            base_path: The table's folder.
            version: The result of `fence`.

        Raises:
            HoodieCommitException: The stored properties were changed or fenced meanwhile, and stay as they are.
            InvalidTableException: The properties hold no table name.
            HoodieIOException: Storage failed; either the old or the new properties are stored.
        """
        path = _path(base_path, PROPERTIES_FILE_NAME)
        content = HoodieTableConfig(_with_checksum(self.properties)).to_bytes()
        if version is None:
            storage.replace(path, content)
        elif storage.replace_version(path, content, version) is None:
            raise _changed_meanwhile(base_path)
        logger.info("Replaced the properties of %s", base_path)

    @staticmethod
    def exchange(storage: HoodieStorage, base_path: str, content: bytes, expected: bytes) -> None:
        """Put another content into the properties file, if nobody has changed it. Atomic.

        On a file system without locks, which cannot compare versions, the last one to change the file wins.

        Args:
            storage: The storage of the table.
            base_path: The table's folder.
            content: The new content, which the file never had before.
            expected: The content that the file must have.

        Raises:
            HoodieCommitException: The file has another content, and keeps it.
            HoodieIOException: Storage failed; either the old or the new content is stored.
        """
        path = _path(base_path, PROPERTIES_FILE_NAME)
        found, version = storage.read_versioned(path)
        if found != expected:
            raise _changed_meanwhile(base_path)
        try:
            replaced = storage.replace_version(path, content, version)
        except HoodieIOException as error:
            if getattr(error.__cause__, "errno", None) not in _WITHOUT_LOCKS:
                raise
            storage.replace(path, content)
            return
        if replaced is None:
            raise _changed_meanwhile(base_path)

    @staticmethod
    def forget_fence(storage: HoodieStorage, base_path: str) -> None:
        """Delete the file that local storage leaves beside a file whose versions it has compared.

        Args:
            storage: The storage of the table.
            base_path: The table's folder.

        Raises:
            HoodieIOException: Storage failed.
        """
        storage.delete_file(f"{_path(base_path, PROPERTIES_FILE_NAME)}.guard")

    def to_bytes(self) -> bytes:
        """The content of the properties file, as Java writes it."""
        now = datetime.now(UTC)
        comments = (
            f"Updated at {now.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}",
            now.strftime("%a %b %d %H:%M:%S UTC %Y"),
        )
        return format_properties(self.properties, comments)

    # --- allowed operations -----------------------------------------------------------------------------------------

    def check_readable(self) -> None:
        """Refuse a table that hoodie cannot read.

        Raises:
            HoodieNotSupportedException: The message names every property that prevents it, its value and what to do.
        """
        self._check(to_write=False)

    def check_writable(self) -> None:
        """Refuse a table that a write or a service of hoodie would break; any unknown property counts as such.

        The metadata table (`metadata_partitions`) is not checked here: the write client switches it off or refuses.

        Raises:
            HoodieNotSupportedException: The message names every property that prevents it, its value and what to do.
        """
        self._check(to_write=True)

    def check_version(self, to_write: bool = False) -> None:
        """Refuse a table whose version hoodie does not have, whatever its other properties are.

        Args:
            to_write: Whether anything of the table will be changed, and not only read.

        Raises:
            HoodieNotSupportedException: See `check_readable`.
        """
        keys = ("hoodie.table.name", "hoodie.table.version", "hoodie.timeline.layout.version")
        HoodieTableConfig({key: self.properties[key] for key in keys if key in self.properties})._check(to_write)

    def without_metadata_table(self) -> dict[str, str]:
        """The updates that switch the metadata table off, as Hudi stores them: both lists empty."""
        return {_METADATA_PARTITIONS: "", _METADATA_PARTITIONS_INFLIGHT: ""}

    @property
    def listed_metadata_partitions(self) -> tuple[str, ...]:
        """All partitions of the metadata table that the properties list, ready ones and those that are being built."""
        return tuple(sorted({*self.metadata_partitions, *self.metadata_partitions_inflight}))

    def with_metadata_partitions(self, ready: Iterable[str], inflight: Iterable[str] = ()) -> dict[str, str]:
        """The updates that list the partitions of the metadata table.

        Args:
            ready: The partitions that readers may use.
            inflight: The partitions that are being built.
        """
        return {
            _METADATA_PARTITIONS: ",".join(sorted(set(ready))),
            _METADATA_PARTITIONS_INFLIGHT: ",".join(sorted(set(inflight))),
        }

    # --- typed properties -------------------------------------------------------------------------------------------

    @property
    def table_name(self) -> str:
        """``hoodie.table.name``."""
        return self.properties.get("hoodie.table.name", "")

    @property
    def database_name(self) -> str:
        """``hoodie.database.name``; ``""`` when absent."""
        return self.properties.get("hoodie.database.name", "")

    @property
    def table_type(self) -> HoodieTableType:
        """``hoodie.table.type``; COPY_ON_WRITE when absent."""
        value = self.properties.get("hoodie.table.type", "COPY_ON_WRITE")
        try:
            return HoodieTableType(value.strip().upper())
        except ValueError as error:
            raise self._bad("hoodie.table.type", value, "COPY_ON_WRITE or MERGE_ON_READ") from error

    @property
    def table_version(self) -> int:
        """``hoodie.table.version``; 0 when absent."""
        return self._integer("hoodie.table.version")

    @property
    def timeline_layout_version(self) -> int:
        """``hoodie.timeline.layout.version``; 0 when absent."""
        return self._integer("hoodie.timeline.layout.version")

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        """``hoodie.table.recordkey.fields``; () when absent."""
        return self._names("hoodie.table.recordkey.fields")

    @property
    def is_keyless(self) -> bool:
        """Whether the table has no record key fields, so that its keys are generated and nothing but stored."""
        return not self.record_key_fields and self.populate_meta_fields

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """``hoodie.table.partition.fields``, without types (``region:SIMPLE``); () for a non-partitioned table."""
        return tuple(name.partition(":")[0].strip() for name in self._names("hoodie.table.partition.fields"))

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        """``hoodie.table.precombine.field``, or ``hoodie.table.ordering.fields``; () when absent."""
        return self._names("hoodie.table.precombine.field") or self._names("hoodie.table.ordering.fields")

    @property
    def key_generator_class(self) -> str | None:
        """``hoodie.table.keygenerator.class`` as stored, or the class of ``.type``; None if both are absent."""
        kind = self._text("hoodie.table.keygenerator.type")
        return self._text("hoodie.table.keygenerator.class") or (kind and class_of_type(kind))

    @property
    def hive_style_partitioning(self) -> bool:
        """``hoodie.datasource.write.hive_style_partitioning``; False when absent."""
        return self._boolean("hoodie.datasource.write.hive_style_partitioning", False)

    @property
    def url_encode_partitioning(self) -> bool:
        """``hoodie.datasource.write.partitionpath.urlencode``; False when absent."""
        return self._boolean("hoodie.datasource.write.partitionpath.urlencode", False)

    @property
    def populate_meta_fields(self) -> bool:
        """``hoodie.populate.meta.fields``; True when absent."""
        return self._boolean("hoodie.populate.meta.fields", True)

    @property
    def logging_mode(self) -> HoodieCDCSupplementalLoggingMode | None:
        """The part of each change that the table stores (``hoodie.table.cdc.supplemental.logging.mode``); None without
        ``hoodie.table.cdc.enabled``.

        Raises:
            HoodieConfigException: The mode is none of Hudi's.
        """
        return logging_mode_of(self.properties)

    @property
    def payload_class(self) -> str | None:
        """``hoodie.compaction.payload.class``, or the class of ``hoodie.compaction.payload.type``; None if both
        are absent.
        """
        named = PAYLOAD_TYPES.get((self._text("hoodie.compaction.payload.type") or "").upper())
        return self._text("hoodie.compaction.payload.class") or named

    @property
    def initial_version(self) -> int | None:
        """``hoodie.table.initial.version``: the version when the table was created; None when absent."""
        return self._integer("hoodie.table.initial.version") or None

    @property
    def merge_mode(self) -> MergeMode | None:
        """The merge mode of a table of version 8 or 9: ``hoodie.record.merge.mode``, or Hudi's default; None in
        version 6.

        Raises:
            HoodieNotSupportedException: The table's merge properties are not supported, or contradict each other.
        """
        return self._merging.mode if self._merging is not None else None

    @property
    def merge_strategy_id(self) -> str | None:
        """``hoodie.record.merge.strategy.id``; None when absent."""
        return self._text("hoodie.record.merge.strategy.id")

    @property
    def legacy_payload_class(self) -> str | None:
        """``hoodie.table.legacy.payload.class``: the payload class that the merge mode replaces; None if it is
        absent.
        """
        return self._text(LEGACY_PAYLOAD_KEY)

    @property
    def partial_update_mode(self) -> PartialUpdateMode | None:
        """``hoodie.table.partial.update.mode``; None when absent, and up to version 8.

        Raises:
            HoodieNotSupportedException: See `merge_mode`.
        """
        return self._merging.partial_update_mode if self._merging is not None else None

    @property
    def create_schema(self) -> str | None:
        """``hoodie.table.create.schema``: Avro JSON without meta columns; None when absent."""
        return self._text("hoodie.table.create.schema")

    @property
    def timeline_timezone(self) -> str:
        """``hoodie.table.timeline.timezone``: ``UTC``, or ``LOCAL`` (also when absent)."""
        return (self._text("hoodie.table.timeline.timezone") or "LOCAL").upper()

    @property
    def timeline_folder(self) -> str:
        """``hoodie.timeline.path``, relative to ``.hoodie``; ``timeline`` when absent. Up to version 6 it is unused."""
        return self._folder("hoodie.timeline.path", TIMELINE_FOLDER)

    @property
    def archive_folder(self) -> str:
        """The folder of the archived timeline, relative to ``.hoodie``.

        Version 6: ``hoodie.archivelog.folder``; ``archived`` when absent. Versions 8 and 9:
        ``hoodie.timeline.history.path``, relative to the timeline's folder; ``history`` when absent.
        """
        if self.timeline_layout_version < 2:
            return self._folder("hoodie.archivelog.folder", "archived")
        return join(self.timeline_folder, self._folder("hoodie.timeline.history.path", "history"))

    @property
    def metadata_partitions(self) -> tuple[str, ...]:
        """``hoodie.table.metadata.partitions``: partitions of the metadata table that are ready; () without one."""
        return self._names(_METADATA_PARTITIONS)

    @property
    def metadata_partitions_inflight(self) -> tuple[str, ...]:
        """``hoodie.table.metadata.partitions.inflight``: partitions of the metadata table that are being built."""
        return self._names(_METADATA_PARTITIONS_INFLIGHT)

    @property
    def partition_metafile_use_base_format(self) -> bool:
        """``hoodie.partition.metafile.use.base.format``; False when absent."""
        return self._boolean("hoodie.partition.metafile.use.base.format", False)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _check(self, to_write: bool) -> None:
        found = table_features.problems(self.properties, to_write)
        if found:
            raise HoodieNotSupportedException(
                f"{'Writing' if to_write else 'Reading'} the table {self.table_name!r} is not supported because of its "
                f"properties, and nothing was done: {'; '.join(found)}"
            )

    @property
    def _merging(self) -> TableMerging | None:
        if not is_by_mode(self.table_version):
            return None
        if not says_how_it_merges(self.properties, self.table_version):
            self.check_writable()
        return TableMerging.of(self.properties)

    def _text(self, key: str) -> str | None:
        return self.properties.get(key, "").strip() or None

    def _folder(self, key: str, default: str) -> str:
        folder = self._text(key) or default
        try:
            return check_inside(folder)
        except ValueError as error:
            raise self._bad(key, folder, f"a folder of '.hoodie': it {error}") from error

    def _names(self, key: str) -> tuple[str, ...]:
        return tuple(name for part in self.properties.get(key, "").split(",") if (name := part.strip()))

    def _integer(self, key: str) -> int:
        value = self._text(key) or "0"
        try:
            return int(value)
        except ValueError as error:
            raise self._bad(key, value, "a whole number") from error

    def _boolean(self, key: str, default: bool) -> bool:
        value = (self._text(key) or str(default)).lower()
        if value not in ("true", "false"):
            raise self._bad(key, value, "true or false")
        return value == "true"

    def _bad(self, key: str, value: str, allowed: str) -> InvalidTableException:
        return InvalidTableException(
            f"The table {self.table_name!r} has the property {key}={value}, which is not {allowed}; correct it in "
            f"{METAFOLDER_NAME}/{PROPERTIES_FILE_NAME}"
        )


def _changed_meanwhile(base_path: str) -> HoodieCommitException:
    return HoodieCommitException(
        f"the properties of {base_path} were changed by another process meanwhile, and stay as they are; see that only "
        "one process changes them, and call again"
    )


def _path(base_path: str, name: str) -> str:
    return join(base_path, METAFOLDER_NAME, name)


def _checksum(properties: Mapping[str, str]) -> str:
    name = f"{properties.get('hoodie.database.name', '')}.{properties['hoodie.table.name']}"
    return str(zlib.crc32(name.encode()))


def _with_checksum(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with their checksum at the end: a file that has it was written completely."""
    if not properties.get("hoodie.table.name"):
        raise InvalidTableException("The table's properties lack hoodie.table.name; every table has a name")
    kept = {key: value for key, value in properties.items() if key != _CHECKSUM}
    return {**kept, _CHECKSUM: _checksum(properties)}


def _read(storage: HoodieStorage, path: str) -> HoodieTableConfig | str | None:
    """The properties in a file; a text with the problem of the file; or None if it does not exist.

    Raises:
        HoodiePendingOverwriteException: The file says that a new table is taking the place of this one.
    """
    try:
        content = storage.read(path)
    except FileNotFoundError:
        return None
    found = _parsed(content)
    if isinstance(found, PendingOverwrite):
        raise found.refusal(parent(parent(path)))
    return found


def _as_stored(content: bytes) -> HoodieTableConfig:
    """The properties in a file that was just written."""
    found = _parsed(content)
    assert isinstance(found, HoodieTableConfig)
    return found


@lru_cache(maxsize=16)
def _parsed(content: bytes) -> HoodieTableConfig | PendingOverwrite | str:
    """See `_read`. A write reads the file several times, and it rarely changes."""
    try:
        properties = parse_properties(content)
    except ValueError as error:
        return str(error)
    pending = PendingOverwrite.of(properties)
    if pending is not None:
        return pending
    if not properties.get("hoodie.table.name"):
        return "hoodie.table.name is missing, as in a file that was cut short" if properties else "it is empty"
    expected = _checksum(properties)
    if properties.get(_CHECKSUM, expected) != expected:
        return f"{_CHECKSUM} is {properties[_CHECKSUM]}, but database and table name give {expected}"
    config = HoodieTableConfig(properties, hashlib.sha256(content).digest())
    version = properties.get("hoodie.table.version", "").strip()
    if _CHECKSUM not in properties and version.isdecimal() and int(version) >= _FIRST_VERSION_WITH_CHECKSUM:
        # Without its last lines a file may still look whole and yet lack, for example, the partition fields.
        return f"{_CHECKSUM} is missing, which every table of version {version} has: the file was cut short"
    return config


def _recover(storage: HoodieStorage, base_path: str, current: HoodieTableConfig) -> None:
    """Restore the properties file if only its backup is good, and delete the backup."""
    path = _path(base_path, PROPERTIES_FILE_NAME)
    main = _read(storage, path)
    if main is None:
        logger.warning("Restoring %s from its backup: a writer died while replacing it", path)
        storage.create_if_absent(path, current.to_bytes())
    elif main != current:
        logger.warning("Restoring %s from its backup: it is damaged", path)
        storage.replace(path, current.to_bytes())
    storage.delete_file(_path(base_path, PROPERTIES_BACKUP_FILE_NAME))
