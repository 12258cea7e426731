"""A table as users see it: its properties, its timeline and its files; also creates tables.

Hudi: org.apache.hudi.common.table.HoodieTableMetaClient.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

from hoodie.common.config.property import check_properties, display_value
from hoodie.common.fs.pending_overwrite import PROPERTIES_FILE_NAME
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.marker.write_markers import TEMP_FOLDER_NAME
from hoodie.common.table.table_config import PROPERTIES_BACKUP_FILE_NAME, HoodieTableConfig
from hoodie.common.table.table_definition import TableDefinition
from hoodie.common.table.table_folder import NewTable, refuse_other_files
from hoodie.common.table.table_snapshot import TableSnapshot, is_table, refuse_lost_properties
from hoodie.common.table.table_summary import FileSummary, InstantSummary, PartitionSummary, SummaryTable
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.archived_timeline import HoodieArchivedTimeline
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import newest
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, TableExistsException
from hoodie.merge.record_merger import HoodieRecordMerger
from hoodie.storage import storage_path
from hoodie.storage.retry import RetryPolicy
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_options import StorageOptions

if TYPE_CHECKING:
    from hoodie.table.upgrade.version_change import TableVersionChange

logger = logging.getLogger(__name__)

_VERSIONS = "hoodie.client.table_version"
"""The module that changes versions. It takes locks, which are above this class, so it is imported when it is used."""
_OVERWRITES = "hoodie.table.table_overwrite"
"""The module that ends overwrites, which takes locks too."""


class HoodieTableMetaClient:
    """Gives access to everything about a table except its rows. Made by `init_table` or `load`; lives on the driver.

    Attributes:
        snapshot: The table at the moment of the load or the last reload.
    """

    def __init__(self, snapshot: TableSnapshot) -> None:
        """Use `init_table` or `load`."""
        self.snapshot = snapshot

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
        table_version: int | None = None,
        properties: Mapping[str, str] | None = None,
        allow_other_files: bool = False,
        storage_options: StorageOptions | None = None,
    ) -> HoodieTableMetaClient:
        """Create a table: the folder ``.hoodie`` with its properties and everything that Hudi puts there.

        The folder becomes a table when ``hoodie.properties`` is there; this file is created last, and by one writer
        only. Leftovers of an earlier, failed attempt do no harm.

        Args:
            base_path: The table's folder; it need not exist.
            table_name: Letters, digits, ``_``, ``-``, ``.`` and inner spaces.
            table_type: COPY_ON_WRITE or MERGE_ON_READ. Readers disagree about some merge-on-read
                tables, such as those of version 6 of OverwriteWithLatestAvroPayload with an ordering field: a warning
                says when. What they do by default is the same for all readers.
            record_key_fields: The column or columns that identify a record: one name, a list, or names separated by
                commas. Nested fields are dotted paths. The text ``generated`` makes a table without such columns, whose
                keys are generated (``docs/keyless-tables.md``); a list, ``["generated"]``, names a column.
            partition_fields: The columns whose values name the folders of the data; empty for a single folder. Types
                after the names, ``region:SIMPLE,ts:TIMESTAMP``, create a table with CustomKeyGenerator.
            ordering_fields: At most one column, or several in versions 8 and 9, which are compared from left to right.
                Of two records with the same key, the one with the larger value stays. They decide what is stored: with
                an ordering field the merge mode EVENT_TIME_ORDERING (in version 6 DefaultHoodieRecordPayload), else
                COMMIT_TIME_ORDERING (OverwriteWithLatestAvroPayload): the later write stays.
            key_generator: A class name, with or without package and "Avro", or your own class
                (`hoodie.keygen.user_key_generator`). None infers it as Hudi does: no partition field
                NonpartitionedKeyGenerator, one record key and one partition field SimpleKeyGenerator, else
                ComplexKeyGenerator; but one record key field with several partition fields is CustomKeyGenerator,
                because releases of Hudi disagree about the keys of ComplexKeyGenerator with one field (``id:7`` or
                ``7``), and some refuse to write such a table. From version 9 on they agree (``id:7``): name it there
                if hudi-rs reads along, which does not read tables of CustomKeyGenerator of versions 8 and 9.
            payload_class: The rule by which records with the same key merge: a payload class of Hudi, with or without
                its package, or your own class (a `HoodieRecordMerger`). Version 9 stores a merge mode and merge
                properties instead of most of them. None: ``ordering_fields`` decides.
            hive_style_partitioning: Folders ``region=asia`` instead of ``asia``.
            schema: The columns, as an Arrow schema or as Avro JSON; None leaves them to the first write.
            table_version: 6, 8 or 9; None is 9. Give 6 for readers and writers of Hudi 0.15, and 8 for those of Hudi
                1.0; see ``docs/upgrading.md``.
            properties: More table properties, such as ``hoodie.database.name``,
                ``hoodie.datasource.write.partitionpath.urlencode``, ``hoodie.compaction.payload.class``, or
                ``hoodie.keygen.timebased.*`` for folders named by times.
            allow_other_files: Create the table even if the folder is that of a Delta or Iceberg table, or holds other
                files. These files are not touched; readers may take those in partition folders for the table's.
            storage_options: Options and credentials for the storage of ``base_path``, or a function that returns
                them.

        Returns:
            The new table, loaded.

        Raises:
            HoodieConfigException: Arguments are wrong or contradict each other; the message names all of them. Or the
                folder holds files of another format or files that no table wrote (except names that begin with ``.`` or
                ``_``).
            HoodieNotSupportedException: hoodie cannot write such a table, or cannot write on such a storage.
            TableExistsException: The folder is a table already.
            InvalidTableException: The folder is a table whose properties are lost.
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
        table_properties = properties_of_new_table(definition)
        path = storage_path.normalise_path(base_path)
        storage = open_storage(path, storage_options)
        refuse_taken_folder(storage, path, allow_other_files)
        NewTable(storage, path, table_properties, folder_is_new=False).create()
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
            base_path: The table's folder, also with globs for all files behind it, as in old guides
                (``/data/trips/*/*``). Globs that name some partitions are refused.
            storage_options: Options and credentials for its storage, or a function that returns them.
            retry: The repetition of failed calls of an object store.

        Raises:
            TableNotFoundException: There is no table.
            InvalidTableException: Its properties are damaged or lost.
            HoodieNotSupportedException: Its version is not supported. (Readers and writers check other features:
                `HoodieTableConfig.check_readable` and `check_writable`.)
            HoodieIOException: Storage failed.
        """
        return cls(TableSnapshot.load(base_path, storage_options, retry=retry))

    @classmethod
    def upgrade(
        cls,
        table: str | HoodieWriteConfig,
        to_version: int = 9,
        *,
        dry_run: bool = False,
        storage_options: StorageOptions | None = None,
    ) -> TableVersionChange:
        """Upgrade a table of version 6 to 8 or 9, or one of version 8 to 9; see ``docs/upgrading.md``.

        Rows and history stay as they are. The timeline is written anew, and the metadata table is switched off. Of a
        merge-on-read table of version 6, all file groups with log files are compacted first. The table is whole at
        every moment, also after a process died: the next call finishes.

        First stop all writers that do not look at the table's version again, such as Hudi 0.15: such a writer would
        write to the old timeline, which nobody reads any more.

        Args:
            table: The table's folder; or the configuration of its writers, which names their lock, where several
                writers are at work.
            to_version: 8 or 9. A table of this version is not changed.
            dry_run: Change nothing, and report what would be done.
            storage_options: Options of the storage, where the folder is given.

        Returns:
            What was done; prints as one line with the changed properties below it.

        Raises:
            TableNotFoundException: There is no table.
            HoodieConfigException: The table is of a later version, or the version is unknown.
            HoodieNotSupportedException: The table has a feature that hoodie does not have, or keys that releases of
                Hudi write in two ways; its metadata table holds indexes that nobody asked to drop
                (``hoodie.metadata.enable=false``); a savepoint keeps log files, or one would belong to another file
                slice afterwards.
            HoodieCommitException: Instants are pending; the message names them, and what finishes each.
            HoodieCompactionException: Another process is compacting the table.
            HoodieHeartbeatException: Writers are at work.
            HoodieLockException: The lock was not given, or was lost.
            HoodieCorruptedDataException: A file of the timeline or of the archive is damaged.
            HoodieIOException: Storage failed; call again.

        Hudi: org.apache.hudi.table.upgrade.UpgradeDowngrade. Differs: see `hoodie.table.upgrade.table_upgrade`.
        """
        change: TableVersionChange = import_module(_VERSIONS).upgrade_table(
            table, to_version, dry_run=dry_run, storage_options=storage_options
        )
        return change

    @classmethod
    def downgrade(
        cls,
        table: str | HoodieWriteConfig,
        to_version: int = 6,
        *,
        dry_run: bool = False,
        storage_options: StorageOptions | None = None,
    ) -> TableVersionChange:
        """Downgrade a table of version 9 to 8 or 6, or one of version 8 to 6; see `upgrade`.

        Of a merge-on-read table that becomes one of version 6, all file groups with log files are compacted first.

        Args:
            table: See `upgrade`.
            to_version: 8 or 6. A table of this version is not changed.
            dry_run: See `upgrade`.
            storage_options: See `upgrade`.

        Returns:
            See `upgrade`.

        Raises:
            HoodieConfigException: The table is of an earlier version, or the version is unknown.
            HoodieNotSupportedException: See `upgrade`; or the version cannot hold what the table has: several ordering
                fields, partial updates, delete markers, a custom merge strategy. The message names each property.
            HoodieException: Other ones are those of `upgrade`.
        """
        change: TableVersionChange = import_module(_VERSIONS).downgrade_table(
            table, to_version, dry_run=dry_run, storage_options=storage_options
        )
        return change

    @classmethod
    def finish_overwrite(
        cls, table: str | HoodieWriteConfig, storage_options: StorageOptions | None = None
    ) -> HoodieTableMetaClient:
        """Finish an overwrite whose process died: the new table, which is complete, takes the place of the old one.

        Mode ``overwrite`` writes a new table beside the old one if anything of the table changes; see
        ``docs/operations.md``. Call this when a `HoodiePendingOverwriteException` names it, and the process that began
        the overwrite is gone.

        Args:
            table: The table's folder; or the configuration of its writers, which names their lock, where several
                writers are at work.
            storage_options: Options of the storage, where the folder is given.

        Returns:
            The new table, loaded.

        Raises:
            HoodieConfigException: No overwrite of the table is pending.
            HoodieLockException: Another process is at work.
            InvalidTableException: The new table is not where it was written.
            HoodieIOException: Storage failed; call again.
        """
        import_module(_OVERWRITES).finish_overwrite(table, storage_options)
        return cls._of_overwritten(table, storage_options)

    @classmethod
    def undo_overwrite(
        cls, table: str | HoodieWriteConfig, storage_options: StorageOptions | None = None
    ) -> HoodieTableMetaClient:
        """Undo an overwrite whose process died before it deleted anything: the old table stays, the new one goes.

        Args:
            table: See `finish_overwrite`.
            storage_options: See `finish_overwrite`.

        Returns:
            The old table, loaded.

        Raises:
            HoodieConfigException: No overwrite of the table is pending.
            HoodiePendingOverwriteException: Files of the old table are deleted: `finish_overwrite` is the way out.
            HoodieLockException: Another process is at work.
            HoodieIOException: Storage failed; call again.
        """
        import_module(_OVERWRITES).undo_overwrite(table, storage_options)
        return cls._of_overwritten(table, storage_options)

    @classmethod
    def _of_overwritten(
        cls, table: str | HoodieWriteConfig, storage_options: StorageOptions | None
    ) -> HoodieTableMetaClient:
        if isinstance(table, HoodieWriteConfig):
            return cls.load(table.base_path, table.storage_options, retry=table.retry.policy)
        return cls.load(table, storage_options)

    @property
    def base_path(self) -> str:
        """The table's folder, normalised."""
        return self.snapshot.base_path

    @property
    def storage(self) -> HoodieStorage:
        """The storage that holds the table."""
        return self.snapshot.storage

    @property
    def storage_options(self) -> StorageOptions | None:
        """The options and credentials that the storage was opened with."""
        return self.snapshot.storage_options

    @property
    def table_config(self) -> HoodieTableConfig:
        """The table's properties, as of the load or the last reload."""
        return self.snapshot.table_config

    @property
    def active_timeline(self) -> HoodieActiveTimeline:
        """The instants that are not archived, of all actions and states, as of the load or the last reload."""
        return self.snapshot.active_timeline

    @property
    def archived_timeline(self) -> HoodieArchivedTimeline:
        """The archived instants; read on first use, and again after a reload.

        Raises:
            HoodieCorruptedDataException: A file of the archive is damaged.
            HoodieIOException: Storage failed.
        """
        return self.snapshot.archived_timeline

    @property
    def meta_path(self) -> str:
        """The table's ``.hoodie`` folder."""
        return self.snapshot.meta_path

    def marker_path(self, instant_time: str) -> str:
        """The folder of an instant's markers."""
        return storage_path.join(self.meta_path, TEMP_FOLDER_NAME, instant_time)

    def heartbeat_path(self, instant_time: str) -> str:
        """The file that an instant's writer touches while it is alive."""
        return self.snapshot.heartbeat_path(instant_time)

    def reload_active_timeline(self) -> HoodieActiveTimeline:
        """List the active timeline again and return it; the archived timeline is read again on its next use.

        Raises:
            HoodieIOException: Storage failed.
        """
        self.snapshot = self.snapshot.refreshed()
        return self.active_timeline

    def reload_table_config(self) -> HoodieTableConfig:
        """Read the table's properties again and return them, whether or not they are supported.

        Raises:
            InvalidTableException: They are damaged.
            HoodieIOException: Storage failed.
        """
        self.snapshot = self.snapshot.with_properties_reloaded()
        return self.table_config

    def view(self) -> HoodieTableFileSystemView:
        """A new view of the table's files by `active_timeline`; partitions are listed on first use."""
        return self.snapshot.view()

    def load_schema(self) -> pa.Schema:
        """The user's columns, without Hudi's meta columns.

        The schema is read from the newest completed commit that has one, else from a base file, else from the argument
        of `init_table`.

        Raises:
            HoodieCorruptedDataException: Commit metadata, or the base file that was read, is damaged.
            HoodieSchemaException: There is no schema, or it is not a valid one.
            HoodieIOException: Storage failed.
        """
        return self.snapshot.load_schema()

    def load_avro_schema(self) -> str | None:
        """The schema of `load_schema` as stored Avro JSON; None if there is no schema.

        It is read from storage once for each loaded timeline.

        Raises:
            HoodieCorruptedDataException: Commit metadata, or the base file that was read, is damaged.
            HoodieSchemaException: The schema is not a valid one.
            HoodieIOException: Storage failed.
        """
        return self.snapshot.load_avro_schema()

    def history(
        self, *, archived: bool = False, pending: bool = False, newest: int | None = None
    ) -> SummaryTable[InstantSummary]:
        """The instants, oldest first, with the results of completed writes.

        Args:
            archived: Whether those of the archive come first.
            pending: Whether to give only those that are not completed.
            newest: The most instants, the newest ones; None for all.

        Raises:
            HoodieCorruptedDataException: Commit metadata is damaged.
            HoodieIOException: Storage failed.
        """
        instants = self.snapshot.instants(archived=archived)
        found = [instant for instant in instants if instant.is_pending or not pending]
        if newest is not None:
            found = found[max(len(found) - newest, 0) :]
        return SummaryTable(InstantSummary, map(self._summarise, found))

    def files(self) -> SummaryTable[FileSummary]:
        """The newest slice of each file group, by partition.

        Raises:
            HoodieIOException: Storage failed.
        """
        return SummaryTable(FileSummary, _summarise_files(self.view()))

    def partitions(self) -> SummaryTable[PartitionSummary]:
        """The partitions, sorted, with totals of their newest slices.

        Raises:
            HoodieIOException: Storage failed.
        """
        view = self.view()
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
                    newest_instant_time=newest(row.instant_time for row in rows),
                )
                for partition_path, rows in files.items()
            ],
        )

    def __repr__(self) -> str:
        path = display_value("hoodie.base.path", self.base_path)
        return f"HoodieTableMetaClient({path}, table_name={self.table_config.table_name!r})"

    def _summarise(self, instant: HoodieInstant) -> InstantSummary:
        summary = InstantSummary(
            instant.requested_time,
            instant.action.value,
            State(instant.state).name,
            completion_time=instant.completion_time,
        )
        if not instant.is_completed or instant.action.completed_action not in COMMIT_ACTIONS:
            return summary
        metadata = self.snapshot.read_commit_metadata(instant)
        return attrs.evolve(
            summary,
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
            + sum(log_file.size_bytes for log_file in file_slice.record_log_files),
            log_file_count=len(file_slice.record_log_files),
        )
        for partition_path in view.load_all_partitions()
        for file_slice in view.latest_file_slices(partition_path)
    ]


def properties_of_new_table(definition: TableDefinition) -> dict[str, str]:
    """The properties of a table that hoodie can write.

    Args:
        definition: The table.

    Raises:
        HoodieConfigException: See `HoodieTableMetaClient.init_table`.
        HoodieNotSupportedException: See `HoodieTableMetaClient.init_table`.
    """
    properties = definition.to_properties()
    HoodieTableConfig(properties).check_writable()
    return properties


def refuse_taken_folder(storage: HoodieStorage, path: str, allow_other_files: bool) -> None:
    """Refuse a folder in which no table can be created.

    Args:
        storage: The table's storage.
        path: The table's folder, normalised.
        allow_other_files: See `HoodieTableMetaClient.init_table`.

    Raises:
        HoodieException: See `HoodieTableMetaClient.init_table`.
    """
    _refuse_found(refuse_lost_properties(storage, path), path)
    if not allow_other_files:
        try:
            refuse_other_files(storage, path)
        except HoodieConfigException:
            # They may belong to a writer that created the table just now.
            if is_table(storage, path):
                raise _there_is_one(path) from None
            raise


def _refuse_found(names: Iterable[str], base_path: str) -> None:
    """Refuse a folder whose ``.hoodie`` has a file of properties, or its backup, by the names that were listed."""
    if not {PROPERTIES_FILE_NAME, PROPERTIES_BACKUP_FILE_NAME}.isdisjoint(names):
        raise _there_is_one(base_path)


def _there_is_one(base_path: str) -> TableExistsException:
    return TableExistsException(
        f"There already is a Hudi table at {base_path}: open it with HoodieTableMetaClient.load, or choose another path"
    )
