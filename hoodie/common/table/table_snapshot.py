"""One table at one moment: its properties, its timeline, its files, its schema.

Hudi: org.apache.hudi.common.table.HoodieTableMetaClient. Differs: a value; whoever must see newer state asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs
import pyarrow as pa

from hoodie.avro.schema_converters import to_arrow
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.table.marker.write_markers import TEMP_FOLDER_NAME
from hoodie.common.table.table_config import (
    PROPERTIES_BACKUP_FILE_NAME,
    PROPERTIES_FILE_NAME,
    HoodieTableConfig,
)
from hoodie.common.table.table_metadata import FileSystemBackedTableMetadata, HoodieTableMetadata
from hoodie.common.table.table_schema_resolver import TableSchemaResolver
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.archived_timeline import HoodieArchivedTimeline
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.exception import HoodieSchemaException, InvalidTableException, TableNotFoundException
from hoodie.storage import storage_path
from hoodie.storage.retry import RetryPolicy
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_options import StorageOptions
from hoodie.storage.storage_path import METAFOLDER_NAME

__all__ = ["TableSnapshot", "is_table", "refuse_lost_properties"]

_HEARTBEAT_FOLDER_NAME = ".heartbeat"
_GLOB_CHARACTER = re.compile(r"[*?\[{]")
_NEWEST_FILES = 2


@attrs.frozen(slots=False, repr=False, eq=False)
class TableSnapshot:
    """A table as it was when it was loaded; a value that nobody changes. Lives on the driver.

    What is asked of storage on demand (the archive, the schema, listings of a view) is read once for each snapshot.

    Attributes:
        base_path: The table's folder, normalised.
        storage: The storage that holds it.
        storage_options: Options and credentials that the storage was opened with.
        table_config: The table's properties.
        active_timeline: Instants that were not archived, of all actions and states.
    """

    base_path: str
    storage: HoodieStorage
    storage_options: StorageOptions | None
    table_config: HoodieTableConfig
    active_timeline: HoodieActiveTimeline
    # No cached_property: until Python 3.12 its lock is that of all instances, and these read the storage.
    _archived: list[HoodieArchivedTimeline] = attrs.field(init=False, factory=list)
    _schema_read: list[tuple[str | None, Mapping[HoodieInstant, HoodieCommitMetadata]]] = attrs.field(
        init=False, factory=list
    )

    @classmethod
    def load(
        cls, base_path: str, storage_options: StorageOptions | None = None, *, retry: RetryPolicy | None = None
    ) -> TableSnapshot:
        """Look at a table; see `HoodieTableMetaClient.load`."""
        path = storage_path.normalise_path(base_path)
        storage = open_storage(path, storage_options, retry)
        try:
            table_config = HoodieTableConfig.load(storage, path)
        except TableNotFoundException:
            given_path, path = path, _without_globs(path)
            storage = open_storage(path, storage_options, retry)
            if path == given_path or not is_table(storage, path):
                refuse_lost_properties(storage, path)
                raise TableNotFoundException(
                    f"There is no Hudi table at {given_path} (no {METAFOLDER_NAME}/{PROPERTIES_FILE_NAME}): check the "
                    "path, or create the table with HoodieTableMetaClient.init_table"
                ) from None
            table_config = HoodieTableConfig.load(storage, path)
        _check_version(table_config)
        timeline = _load_active_timeline(storage, path, table_config)
        return cls(path, storage, storage_options, table_config, timeline)

    def refreshed(self) -> TableSnapshot:
        """The table as it is now, with the same properties.

        Raises:
            HoodieIOException: Storage failed.
        """
        timeline = _load_active_timeline(self.storage, self.base_path, self.table_config)
        return attrs.evolve(self, active_timeline=timeline)

    def with_properties_reloaded(self) -> TableSnapshot:
        """The same timeline with the table's properties as they are now.

        Raises:
            InvalidTableException: They are damaged.
            HoodieIOException: Storage failed.
        """
        return attrs.evolve(self, table_config=HoodieTableConfig.load(self.storage, self.base_path))

    @property
    def meta_path(self) -> str:
        """The table's ``.hoodie`` folder."""
        return storage_path.join(self.base_path, METAFOLDER_NAME)

    def marker_path(self, instant_time: str) -> str:
        """The folder of an instant's markers."""
        return storage_path.join(self.meta_path, TEMP_FOLDER_NAME, instant_time)

    def heartbeat_path(self, instant_time: str) -> str:
        """The file that an instant's writer touches while it is alive."""
        return storage_path.join(self.meta_path, _HEARTBEAT_FOLDER_NAME, instant_time)

    @property
    def archived_timeline(self) -> HoodieArchivedTimeline:
        """The instants that left the active timeline; read when first asked for.

        Raises:
            HoodieCorruptedDataException: A file of the archive is damaged.
            HoodieIOException: Storage failed.
        """
        if not self._archived:
            folder = self.table_config.archive_folder
            self._archived.append(HoodieArchivedTimeline.load(self.storage, self.meta_path, folder))
        return self._archived[0]

    @property
    def table_metadata(self) -> HoodieTableMetadata:
        """What lists the table's partitions and files, whatever their instants; nothing is kept of a listing."""
        return FileSystemBackedTableMetadata(self.storage, self.base_path)

    def view(self) -> HoodieTableFileSystemView:
        """A new view of the table's files by `active_timeline`; partitions are listed when first asked for."""
        return HoodieTableFileSystemView(self.table_metadata, self.active_timeline)

    def load_schema(self) -> pa.Schema:
        """The user's columns; see `HoodieTableMetaClient.load_schema`."""
        avro_schema = self.load_avro_schema()
        if avro_schema is None:
            raise HoodieSchemaException(
                f"The table {self.base_path} has no schema yet: nothing was written to it, and init_table was given no "
                "schema"
            )
        return to_arrow(avro_schema)

    def load_avro_schema(self) -> str | None:
        """The same as `load_schema` in Avro JSON, as it is stored; None when nothing tells it.

        Raises:
            HoodieCorruptedDataException: Commit metadata, or the base file that was asked, is damaged.
            HoodieSchemaException: What was found is not a schema.
            HoodieIOException: Storage failed.
        """
        if not self._schema_read:
            resolver = TableSchemaResolver(
                self.storage, self.base_path, self.active_timeline, self.view(), self.table_config
            )
            avro_schema = resolver.load_avro_schema()
            self._schema_read.append((avro_schema, resolver.commits))
        return self._schema_read[0][0]

    @property
    def commits_at_hand(self) -> Mapping[HoodieInstant, HoodieCommitMetadata]:
        """Completed commits that `load_avro_schema` has read; mostly the newest one, none before it was called."""
        return self._schema_read[0][1] if self._schema_read else {}

    def __repr__(self) -> str:
        return f"<TableSnapshot of {self.base_path}, {self.active_timeline!r}>"


def is_table(storage: HoodieStorage, base_path: str) -> bool:
    """Whether the properties are there; their backup alone is a table whose properties are just being replaced."""
    meta_path = storage_path.join(base_path, METAFOLDER_NAME)
    return any(
        storage.exists(storage_path.join(meta_path, name))
        for name in (PROPERTIES_FILE_NAME, PROPERTIES_BACKUP_FILE_NAME)
    )


def refuse_lost_properties(storage: HoodieStorage, base_path: str) -> None:
    """Not take a folder with commits for one without a table: a new one there would show, and double, their rows."""
    meta_path = storage_path.join(base_path, METAFOLDER_NAME)
    layout = timeline_layout(1)
    found = (layout.parse_file_name(file.name) for file in storage.list_directory(meta_path) if not file.is_directory)
    of_version_8 = storage_path.join(meta_path, "timeline")
    has_commits = any(instant is not None and instant.is_completed for instant in found) or any(
        not file.is_directory for file in storage.list_directory(of_version_8)
    )
    # Another writer may have made the table, and committed to it, since the properties were looked for.
    if has_commits and not is_table(storage, base_path):
        raise InvalidTableException(
            f"{meta_path} has a timeline with completed instants, and {PROPERTIES_FILE_NAME} is not there: it was "
            "lost. Put it back, or make it again with hoodie.table.repair.rebuild_table_properties; to make a new "
            "table choose another path, or delete the whole folder first"
        )


def _without_globs(path: str) -> str:
    """The path up to its first name with a glob character; the path itself without one."""
    match = _GLOB_CHARACTER.search(path)
    return storage_path.parent(path[: match.start()] + "x") if match is not None else path


def _check_version(table_config: HoodieTableConfig) -> None:
    """Refuse a table whose timeline cannot be listed; what else it may need is judged by who reads or writes it."""
    keys = ("hoodie.table.name", "hoodie.table.version", "hoodie.timeline.layout.version")
    known = {key: table_config.properties[key] for key in keys if key in table_config.properties}
    HoodieTableConfig(known).check_readable()


def _load_active_timeline(
    storage: HoodieStorage, base_path: str, table_config: HoodieTableConfig
) -> HoodieActiveTimeline:
    meta_path = storage_path.join(base_path, METAFOLDER_NAME)
    return HoodieActiveTimeline.load(
        storage,
        meta_path,
        timeline_layout(table_config.timeline_layout_version),
        timezone=table_config.timeline_timezone,
        newest_archived_time=_NewestArchivedTime(storage, meta_path, table_config.archive_folder),
        read_archived=_ArchivedCommits(storage, meta_path, table_config.archive_folder),
    )


class _NewestArchivedTime:
    """The greatest instant time of the archive; its files are read again only when their listing has changed.

    The newest files tell it: what is archived later has later instants active then, or is later itself.
    """

    def __init__(self, storage: HoodieStorage, meta_path: str, archive_folder: str) -> None:
        self._storage = storage
        self._meta_path = meta_path
        self._archive_folder = archive_folder
        self._listing: list[FileStatus] = []
        self._newest: str | None = None

    def __call__(self) -> str | None:
        listing = self._storage.list_directory(storage_path.join(self._meta_path, self._archive_folder))
        if listing != self._listing:
            archived = HoodieArchivedTimeline.load(
                self._storage, self._meta_path, self._archive_folder, newest_files=_NEWEST_FILES
            )
            self._newest = archived.last_instant.requested_time if archived.last_instant is not None else None
            self._listing = listing
        return self._newest


@attrs.frozen
class _ArchivedCommits:
    """What archived commits wrote."""

    storage: HoodieStorage
    meta_path: str
    archive_folder: str

    def __call__(self, instant: HoodieInstant) -> HoodieCommitMetadata | None:
        archived = HoodieArchivedTimeline.load(self.storage, self.meta_path, self.archive_folder)
        found = archived.find(instant.requested_time, instant.action)
        return None if found is None or not found.is_completed else archived.read_commit_metadata(found)
