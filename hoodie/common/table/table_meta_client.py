"""One table as seen from outside: its properties, its timeline, its files; and how a table is created.

Hudi: org.apache.hudi.common.table.HoodieTableMetaClient.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping

import attrs
import pyarrow as pa

from hoodie.avro.schema_converters import to_arrow
from hoodie.common.config.property import check_properties, display_value
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.record_merger import HoodieRecordMerger
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.marker.write_markers import TEMP_FOLDER_NAME
from hoodie.common.table.table_config import (
    PROPERTIES_BACKUP_FILE_NAME,
    PROPERTIES_FILE_NAME,
    HoodieTableConfig,
)
from hoodie.common.table.table_definition import TableDefinition
from hoodie.common.table.table_folder import refuse_other_files
from hoodie.common.table.table_metadata import FileSystemBackedTableMetadata
from hoodie.common.table.table_schema_resolver import TableSchemaResolver
from hoodie.common.table.table_summary import FileSummary, InstantSummary, PartitionSummary, SummaryTable
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.archived_timeline import HoodieArchivedTimeline
from hoodie.common.table.timeline.instant import HoodieInstant, State
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.exception import (
    HoodieConfigException,
    HoodieSchemaException,
    InvalidTableException,
    TableExistsException,
    TableNotFoundException,
)
from hoodie.storage import storage_path
from hoodie.storage.fsspec_storage import open_storage
from hoodie.storage.retry import RetryPolicy
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_options import StorageOptions

__all__ = ["METAFOLDER_NAME", "HoodieTableMetaClient"]

logger = logging.getLogger(__name__)

METAFOLDER_NAME = ".hoodie"
_HEARTBEAT_FOLDER_NAME = ".heartbeat"
_GLOB_CHARACTER = re.compile(r"[*?\[{]")


class HoodieTableMetaClient:
    """Everything about a table but its rows. Made by `init_table` or `load`; lives on the driver.

    Attributes:
        base_path: The table's folder, normalised.
        storage: The storage that holds it.
        storage_options: Options and credentials that the storage was opened with.
        table_config: The table's properties as of the load or the last reload.
        active_timeline: Instants that were not archived, of all actions and states, as of the same.
    """

    def __init__(
        self,
        base_path: str,
        storage: HoodieStorage,
        storage_options: StorageOptions | None,
        table_config: HoodieTableConfig,
        active_timeline: HoodieActiveTimeline,
    ) -> None:
        """Use `init_table` or `load`."""
        self.base_path = base_path
        self.storage = storage
        self.storage_options = storage_options
        self.table_config = table_config
        self.active_timeline = active_timeline
        self._archived_timeline: HoodieArchivedTimeline | None = None
        self._loaded_schema: tuple[HoodieActiveTimeline, HoodieTableConfig, str | None] | None = None
        self._commits_at_hand: Mapping[HoodieInstant, HoodieCommitMetadata] = {}

    @classmethod
    def init_table(
        cls,
        base_path: str,
        *,
        table_name: str,
        table_type: HoodieTableType | str = HoodieTableType.COPY_ON_WRITE,
        record_key_fields: str | Iterable[str] = (),
        partition_fields: str | Iterable[str] = (),
        ordering_fields: str | Iterable[str] = (),
        key_generator: str | type | None = None,
        payload_class: str | type[HoodieRecordMerger] | None = None,
        hive_style_partitioning: bool = False,
        schema: pa.Schema | str | None = None,
        table_version: int = 6,
        properties: Mapping[str, str] | None = None,
        allow_other_files: bool = False,
        storage_options: StorageOptions | None = None,
    ) -> HoodieTableMetaClient:
        """Create a table: the folder ``.hoodie`` with its properties and everything that Hudi puts there.

        The folder becomes a table when ``hoodie.properties`` is there, which is created last and by one writer only;
        what an earlier, failed try left behind is no hindrance.

        Args:
            base_path: The table's folder; it need not exist.
            table_name: Letters, digits, ``_``, ``-``, ``.`` and inner spaces.
            table_type: COPY_ON_WRITE; MERGE_ON_READ is not supported yet.
            record_key_fields: The column or columns that identify a record; one name, a list, or names with commas
                between them. Nested fields by dotted path.
            partition_fields: The columns whose values are the folders of the data, none for a single folder. Types
                behind them, ``region:SIMPLE,ts:TIMESTAMP``, make a table of CustomKeyGenerator.
            ordering_fields: At most one column; of two records of one key the one with the larger value stays. It
                decides the payload class that is stored: DefaultHoodieRecordPayload with one, else
                OverwriteWithLatestAvroPayload (the later write stays).
            key_generator: A class name, with or without package and "Avro", or a class of yours
                (`hoodie.keygen.user_key_generator`). None infers it as Hudi does: no partition field
                NonpartitionedKeyGenerator, one record key and one partition field SimpleKeyGenerator, else
                ComplexKeyGenerator; but one record key field with several partition fields is CustomKeyGenerator,
                because releases of Hudi disagree about the keys of ComplexKeyGenerator with one field (``id:7`` or
                ``7``), and some refuse to write such a table.
            payload_class: How records of one key merge: a payload class of Hudi, with or without its package, or a
                class of yours (a `HoodieRecordMerger`). None as ``ordering_fields`` says.
            hive_style_partitioning: Folders ``region=asia`` instead of ``asia``.
            schema: The columns, as an Arrow schema or as Avro JSON; None leaves them to the first write.
            table_version: 6.
            properties: More table properties, such as ``hoodie.database.name``,
                ``hoodie.datasource.write.partitionpath.urlencode``, ``hoodie.compaction.payload.class``, or
                ``hoodie.keygen.timebased.*`` for folders made of times.
            allow_other_files: Make the table though the folder is that of a Delta or Iceberg table, or holds other
                files. They are not touched; those in folders of its partitions may be taken for the table's.
            storage_options: Options and credentials for the storage of ``base_path``, or a function that returns
                them.

        Returns:
            The new table, loaded.

        Raises:
            HoodieConfigException: Arguments are wrong or contradict each other; all of them are named. Or the folder
                holds files of another format or of somebody else (names that begin with ``.`` or ``_`` aside).
            HoodieNotSupportedException: hoodie cannot write such a table, or not on such a storage.
            TableExistsException: The folder is a table already.
            InvalidTableException: It is one whose properties are lost.
            HoodieIOException: Storage failed.
        """
        check_properties(properties)
        definition = TableDefinition(
            table_name=table_name,
            table_type=table_type,
            record_key_fields=record_key_fields,
            partition_fields=partition_fields,
            ordering_fields=ordering_fields,
            key_generator=key_generator,
            payload_class=payload_class,
            hive_style_partitioning=hive_style_partitioning,
            schema=schema,
            table_version=table_version,
            properties=dict(properties or {}),
        )
        table_properties = definition.to_properties()
        HoodieTableConfig(table_properties).check_writable()
        path = storage_path.normalise_path(base_path)
        storage = open_storage(path, storage_options)
        _refuse_existing(storage, path)
        _refuse_lost_properties(storage, path)
        if not allow_other_files:
            try:
                refuse_other_files(storage, path)
            except HoodieConfigException:
                # They may be those of a writer that has made the table just now.
                _refuse_existing(storage, path)
                raise
        meta_path = storage_path.join(path, METAFOLDER_NAME)
        for folder in (
            ".schema",
            table_properties["hoodie.archivelog.folder"],
            TEMP_FOLDER_NAME,
            ".aux/.bootstrap/.partitions",
            ".aux/.bootstrap/.fileids",
        ):
            storage.create_directory(storage_path.join(meta_path, folder))
        HoodieTableConfig.create(storage, path, table_properties)
        logger.info("Created table %s at %s", table_name, path)
        return cls.load(path, storage_options)

    @classmethod
    def load(
        cls,
        base_path: str,
        storage_options: StorageOptions | None = None,
        *,
        retry: RetryPolicy | None = None,
    ) -> HoodieTableMetaClient:
        """Open a table.

        Args:
            base_path: The table's folder; or, as old guides write it, with globs behind it (``/data/trips/*/*``).
            storage_options: Options and credentials for its storage, or a function that returns them.
            retry: How often calls of an object store are made again.

        Raises:
            TableNotFoundException: There is no table.
            InvalidTableException: Its properties are damaged or lost.
            HoodieNotSupportedException: Its version is not supported. (Other features are judged by who reads or
                writes: `HoodieTableConfig.check_readable` and `check_writable`.)
            HoodieIOException: Storage failed.
        """
        path = storage_path.normalise_path(base_path)
        storage = open_storage(path, storage_options, retry)
        try:
            table_config = HoodieTableConfig.load(storage, path)
        except TableNotFoundException:
            given_path, path = path, _without_globs(path)
            storage = open_storage(path, storage_options, retry)
            if path == given_path or not _is_table(storage, path):
                _refuse_lost_properties(storage, path)
                raise TableNotFoundException(
                    f"There is no Hudi table at {given_path} (no {METAFOLDER_NAME}/{PROPERTIES_FILE_NAME}): check the "
                    "path, or create the table with HoodieTableMetaClient.init_table"
                ) from None
            table_config = HoodieTableConfig.load(storage, path)
        _check_version(table_config)
        timeline = _load_active_timeline(storage, path, table_config)
        return cls(path, storage, storage_options, table_config, timeline)

    @property
    def meta_path(self) -> str:
        """The table's ``.hoodie`` folder."""
        return storage_path.join(self.base_path, METAFOLDER_NAME)

    @property
    def archived_timeline(self) -> HoodieArchivedTimeline:
        """The instants that left the active timeline; read when first asked for, and again after a reload.

        Raises:
            HoodieCorruptedDataException: A file of the archive is damaged.
            HoodieIOException: Storage failed.
        """
        if self._archived_timeline is None:
            self._archived_timeline = HoodieArchivedTimeline.load(
                self.storage, self.meta_path, self.table_config.archive_folder
            )
        return self._archived_timeline

    def marker_path(self, instant_time: str) -> str:
        """The folder of an instant's markers."""
        return storage_path.join(self.meta_path, TEMP_FOLDER_NAME, instant_time)

    def heartbeat_path(self, instant_time: str) -> str:
        """The file that an instant's writer touches while it is alive."""
        return storage_path.join(self.meta_path, _HEARTBEAT_FOLDER_NAME, instant_time)

    def reload_active_timeline(self) -> HoodieActiveTimeline:
        """List the active timeline again, and return it; the archived one is read anew when it is asked for.

        Raises:
            HoodieIOException: Storage failed.
        """
        self.active_timeline = _load_active_timeline(self.storage, self.base_path, self.table_config)
        self._archived_timeline = None
        return self.active_timeline

    def reload_table_config(self) -> HoodieTableConfig:
        """Read the table's properties again, and return them, whatever they have become.

        Raises:
            InvalidTableException: They are damaged.
            HoodieIOException: Storage failed.
        """
        self.table_config = HoodieTableConfig.load(self.storage, self.base_path)
        return self.table_config

    def view(self) -> HoodieTableFileSystemView:
        """A new view of the table's files as of `active_timeline`; partitions are listed when first asked for."""
        return HoodieTableFileSystemView(
            FileSystemBackedTableMetadata(self.storage, self.base_path), self.active_timeline
        )

    def load_schema(self) -> pa.Schema:
        """The user's columns, without Hudi's meta columns.

        Read from the newest completed commit that tells them, else from a base file, else from what `init_table` was
        given.

        Raises:
            HoodieCorruptedDataException: Commit metadata, or the base file that was asked, is damaged.
            HoodieSchemaException: Nothing tells the schema, or what was found is not one.
            HoodieIOException: Storage failed.
        """
        avro_schema = self.load_avro_schema()
        if avro_schema is None:
            raise HoodieSchemaException(
                f"The table {self.base_path} has no schema yet: nothing was written to it, and init_table was given no "
                "schema"
            )
        return to_arrow(avro_schema)

    def load_avro_schema(self) -> str | None:
        """The same as `load_schema` in Avro JSON, as it is stored; None when nothing tells it.

        Storage is asked once for each timeline that was loaded.

        Raises:
            HoodieCorruptedDataException: Commit metadata, or the base file that was asked, is damaged.
            HoodieSchemaException: What was found is not a schema.
            HoodieIOException: Storage failed.
        """
        loaded = self._loaded_schema
        if loaded is None or loaded[0] is not self.active_timeline or loaded[1] is not self.table_config:
            resolver = TableSchemaResolver(
                self.storage, self.base_path, self.active_timeline, self.view(), self.table_config
            )
            loaded = (self.active_timeline, self.table_config, resolver.load_avro_schema())
            self._loaded_schema, self._commits_at_hand = loaded, resolver.commits
        return loaded[2]

    @property
    def commits_at_hand(self) -> Mapping[HoodieInstant, HoodieCommitMetadata]:
        """Completed commits that `load_avro_schema` has read; mostly the newest one, none before it was called."""
        is_of_timeline = self._loaded_schema is not None and self._loaded_schema[0] is self.active_timeline
        return self._commits_at_hand if is_of_timeline else {}

    def history(self) -> SummaryTable[InstantSummary]:
        """The instants of the active timeline, oldest first, with what completed writes came to.

        Raises:
            HoodieCorruptedDataException: Commit metadata is damaged.
            HoodieIOException: Storage failed.
        """
        commits = frozenset(self.active_timeline.commits_timeline().filter_completed_instants())
        return SummaryTable(
            InstantSummary, [self._summarise(instant, instant in commits) for instant in self.active_timeline]
        )

    def files(self) -> SummaryTable[FileSummary]:
        """The newest slice of each file group, by partition.

        Raises:
            HoodieIOException: Storage failed.
        """
        return SummaryTable(FileSummary, _summarise_files(self._loaded_view()))

    def partitions(self) -> SummaryTable[PartitionSummary]:
        """The partitions, sorted, with what their newest slices come to.

        Raises:
            HoodieIOException: Storage failed.
        """
        view = self._loaded_view()
        files: dict[str, list[FileSummary]] = {partition_path: [] for partition_path in view.list_partitions()}
        for file in _summarise_files(view):
            files[file.partition_path].append(file)
        return SummaryTable(
            PartitionSummary,
            [
                PartitionSummary(
                    partition_path=partition_path,
                    file_group_count=len(rows),
                    size_bytes=sum(row.size_bytes for row in rows),
                    newest_instant_time=max((row.instant_time for row in rows), default=None),
                )
                for partition_path, rows in files.items()
            ],
        )

    def __repr__(self) -> str:
        path = display_value("hoodie.base.path", self.base_path)
        return f"HoodieTableMetaClient({path}, table_name={self.table_config.table_name!r})"

    def _loaded_view(self) -> HoodieTableFileSystemView:
        view = self.view()
        view.load_partitions(view.list_partitions())
        return view

    def _summarise(self, instant: HoodieInstant, is_completed_commit: bool) -> InstantSummary:
        summary = InstantSummary(instant.requested_time, instant.action.value, State(instant.state).name)
        if not is_completed_commit:
            return summary
        metadata = self.active_timeline.read_commit_metadata(instant)
        return InstantSummary(
            summary.instant_time,
            summary.action,
            summary.state,
            operation=metadata.operation_type.value,
            files_written=sum(1 for _ in metadata.write_stats),
            rows_inserted=metadata.total_inserts,
            rows_updated=metadata.total_updates,
            rows_deleted=metadata.total_deletes,
            bytes_written=metadata.total_bytes_written,
        )


def _summarise_files(view: HoodieTableFileSystemView) -> list[FileSummary]:
    return [
        FileSummary(
            partition_path=partition_path,
            file_id=file_slice.file_id,
            instant_time=file_slice.base_instant_time,
            file_name=file_slice.base_file.file_name if file_slice.base_file is not None else None,
            size_bytes=(file_slice.base_file.size_bytes if file_slice.base_file is not None else 0)
            + sum(log_file.size_bytes for log_file in file_slice.log_files),
            log_file_count=len(file_slice.log_files),
        )
        for partition_path in view.list_partitions()
        for file_slice in view.latest_file_slices(partition_path)
    ]


def _is_table(storage: HoodieStorage, base_path: str) -> bool:
    """Whether the properties are there; their backup alone is a table whose properties are just being replaced."""
    meta_path = storage_path.join(base_path, METAFOLDER_NAME)
    return any(
        storage.exists(storage_path.join(meta_path, name))
        for name in (PROPERTIES_FILE_NAME, PROPERTIES_BACKUP_FILE_NAME)
    )


def _refuse_existing(storage: HoodieStorage, base_path: str) -> None:
    if _is_table(storage, base_path):
        raise TableExistsException(
            f"There is a Hudi table at {base_path} already: open it with HoodieTableMetaClient.load, or choose another "
            "path"
        )


def _refuse_lost_properties(storage: HoodieStorage, base_path: str) -> None:
    """Not take a folder with commits for one without a table: a new one there would show, and double, their rows."""
    meta_path = storage_path.join(base_path, METAFOLDER_NAME)
    layout = timeline_layout(1)
    found = (layout.parse_file_name(file.name) for file in storage.list_directory(meta_path) if not file.is_directory)
    of_version_8 = storage_path.join(meta_path, "timeline")
    has_commits = any(instant is not None and instant.is_completed for instant in found) or any(
        not file.is_directory for file in storage.list_directory(of_version_8)
    )
    # Another writer may have made the table, and committed to it, since the properties were looked for.
    if has_commits and not _is_table(storage, base_path):
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


_NEWEST_FILES = 2


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
