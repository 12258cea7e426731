"""A table at one moment: its properties, its timeline, its files, its schema.

Hudi: org.apache.hudi.common.table.HoodieTableMetaClient. Differs: immutable; to see newer state, load a new snapshot.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from hoodie.avro.schema_converters import to_arrow
from hoodie.common.fs.pending_overwrite import PROPERTIES_FILE_NAME
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.table.table_config import PROPERTIES_BACKUP_FILE_NAME, HoodieTableConfig
from hoodie.common.table.table_metadata import HoodieTableMetadata, table_metadata_of
from hoodie.common.table.table_schema_resolver import TableSchemaResolver
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after
from hoodie.common.table.timeline.newest_archived_time import newest_archived_time
from hoodie.common.table.timeline.timeline_layout import TIMELINE_FOLDER, TimelineLayout, timeline_layout
from hoodie.common.table.timeline.timeline_listing import TimelineMovedException, TimelineStates
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.common.table.view.committed_log_files import CommittedLogFiles
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.exception import (
    HoodieConfigException,
    HoodieNotSupportedException,
    HoodieSchemaException,
    InvalidTableException,
    TableNotFoundException,
)
from hoodie.storage import storage_path
from hoodie.storage.side_by_side import side_by_side
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_options import StorageOptions
from hoodie.storage.storage_path import METAFOLDER_NAME

if TYPE_CHECKING:
    from hoodie.common.table.timeline.archived_timeline import HoodieArchivedTimeline
    from hoodie.storage.retry import RetryPolicy

logger = logging.getLogger(__name__)

_ALL_FILES = re.compile(r"(/\*+)*(/\*\.parquet)?")
"""Globs after a table's folder that choose all of its files."""
_GLOB_CHARACTER = re.compile(r"[*?\[{]")
_REMEDY = (
    "Restore the file from a copy, or undo the commits. Without a copy, HoodieLocalWriteClient.salvage_log_file tells "
    "what can be saved of it, before it does so"
)
_MAX_LOADS = 5
_SECONDS_BETWEEN_LOADS = 0.5
"""An upgrade takes longer for a long timeline; who reads then must read again."""


ListingChoice = Callable[["TableSnapshot"], HoodieTableMetadata]
"""Takes a snapshot of a table; returns the listing of its committed files. Picklable."""


@attrs.frozen(slots=False, repr=False, eq=False)
class TableSnapshot:
    """A table as it was when it was loaded; an immutable value. Lives on the driver.

    Data that is read on demand (the archive, the schema, listings of a view) is read once for each snapshot.

    Attributes:
        base_path: The table's folder, normalised.
        storage: The storage that holds it.
        storage_options: Options and credentials that the storage was opened with.
        table_config: The table's properties.
        active_timeline: The instants that are not archived, of all actions and states.
        clock_skew_ms: See `HoodieActiveTimeline`.
        listing_choice: Chooses the listing of the committed files; None: storage is listed.
        meta_names: The names in ``.hoodie`` when the timeline was listed, those of folders with ``/`` at the end; None
            if they were not listed.
    """

    base_path: str
    storage: HoodieStorage
    storage_options: StorageOptions | None
    table_config: HoodieTableConfig
    active_timeline: HoodieActiveTimeline
    clock_skew_ms: int = 1
    listing_choice: ListingChoice | None = None
    meta_names: frozenset[str] | None = None
    # Not cached_property: until Python 3.12 all instances share its lock, and these properties read storage.
    _archived: list[HoodieArchivedTimeline] = attrs.field(init=False, factory=list)
    _schema_read: list[tuple[str | None, Mapping[HoodieInstant, HoodieCommitMetadata]]] = attrs.field(
        init=False, factory=list
    )
    _listing: list[HoodieTableMetadata] = attrs.field(init=False, factory=list)
    metadata_table: list[Any] = attrs.field(init=False, factory=list)
    """The `MetadataTableFiles` of this snapshot, once they were opened."""
    earlier_metadata_table: list[Any] = attrs.field(init=False, factory=list)
    """Those of the snapshot that this one was made from, or of an earlier one."""

    @classmethod
    def load(
        cls,
        base_path: str,
        storage_options: StorageOptions | None = None,
        *,
        retry: RetryPolicy | None = None,
        clock_skew_ms: int = 1,
        listing_choice: ListingChoice | None = None,
        lists_names: bool = False,
    ) -> TableSnapshot:
        """Load a table; see `HoodieTableMetaClient.load`.

        Args:
            base_path: The table's folder.
            storage_options: Options and credentials.
            retry: The repetition of failed calls of the storage.
            clock_skew_ms: For writers; see `HoodieActiveTimeline`.
            listing_choice: See the attributes.
            lists_names: Whether the caller needs `meta_names`: a store that waits for a network lists them beside the
                timeline.
        """
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
                    "path, or create the table: hoodie.Table.create, hoodie create, or HoodieTableMetaClient.init_table"
                ) from None
            _refuse_choosing_globs(given_path, path)
            table_config = HoodieTableConfig.load(storage, path)
        for attempt in range(1, _MAX_LOADS + 1):
            # The timeline of another one cannot be listed. Readers and writers check other features themselves.
            table_config.check_version()
            try:
                timeline, names = side_by_side(
                    storage,
                    partial(_load_active_timeline, storage, path, table_config, clock_skew_ms),
                    partial(_names_in, storage, storage_path.join(path, METAFOLDER_NAME), lists_names),
                )
                break
            except TimelineMovedException:
                if attempt == _MAX_LOADS:
                    raise
                logger.info("%s is being upgraded; loading it again", path)
                moved, table_config = table_config, HoodieTableConfig.load(storage, path)
                if table_config == moved:
                    time.sleep(_SECONDS_BETWEEN_LOADS)
                    table_config = HoodieTableConfig.load(storage, path)
        return cls(path, storage, storage_options, table_config, timeline, clock_skew_ms, listing_choice, names)

    def check_named_by(self, given_path: str) -> None:
        """Refuse to write by a path with globs: locks and heartbeats of writers are found by the table's folder.

        Args:
            given_path: The writer's path of the table.

        Raises:
            HoodieConfigException: It is not the table's folder.
        """
        if storage_path.normalise_path(given_path) != self.base_path:
            raise HoodieConfigException(
                f"{given_path} names the table at {self.base_path} by globs, which only readers take: write to "
                f"{self.base_path}; nothing was written"
            )

    def refreshed(self) -> TableSnapshot:
        """The table in its present state, with the same properties.

        Raises:
            HoodieIOException: Storage failed.
        """
        timeline = _load_active_timeline(self.storage, self.base_path, self.table_config, self.clock_skew_ms)
        before = self.active_timeline
        timeline = attrs.evolve(timeline, commits_read=before.commits_read)
        if (timeline.layout, timeline.meta_path) == (before.layout, before.meta_path):
            # It remembers files of the archive that it has read.
            timeline = attrs.evolve(timeline, newest_archived_time=before.newest_archived_time)
        return self._changed(active_timeline=timeline, meta_names=None)

    def after(self, earlier: TableSnapshot) -> TableSnapshot:
        """The same table; commits, and files of the metadata table, that were read earlier are not read again.

        Args:
            earlier: The table at an earlier moment.
        """
        timeline = attrs.evolve(self.active_timeline, commits_read=earlier.active_timeline.commits_read)
        newer = self._changed(active_timeline=timeline)
        for files in earlier.metadata_table or earlier.earlier_metadata_table:
            # Without what that table was made from: a client may live long.
            newer.earlier_metadata_table.append(attrs.evolve(files, table=attrs.evolve(files.table)))
        return newer

    def with_timeline(self, timeline: HoodieActiveTimeline) -> TableSnapshot:
        """The table with a newer listing of its timeline; where nothing was completed since, what was read stays.

        Args:
            timeline: The timeline, listed after that of this snapshot.
        """
        newer = self._changed(active_timeline=timeline)
        if timeline.filter_completed_instants().instants == self.active_timeline.filter_completed_instants().instants:
            newer.metadata_table.extend(self.metadata_table)
            newer._schema_read.extend(self._schema_read)
        return newer

    def _changed(self, **changes: Any) -> TableSnapshot:
        newer = attrs.evolve(self, **changes)
        newer.earlier_metadata_table.extend(self.metadata_table or self.earlier_metadata_table)
        return newer

    def with_properties_reloaded(self) -> TableSnapshot:
        """The same timeline, with the table's current properties.

        Raises:
            InvalidTableException: They are damaged.
            HoodieIOException: Storage failed.
        """
        return self._changed(table_config=HoodieTableConfig.load(self.storage, self.base_path))

    def with_properties(self, table_config: HoodieTableConfig) -> TableSnapshot:
        """The same timeline, with properties that the caller has just written under the table's lock.

        Args:
            table_config: The properties as stored.
        """
        return self._changed(table_config=table_config)

    def just_created(self) -> TableSnapshot:
        """The table as it was when the caller created its properties in an empty folder: without instants."""
        nothing = TimelineStates(())
        config, skew = self.table_config, self.clock_skew_ms
        timeline = _load_active_timeline(self.storage, self.base_path, config, skew, nothing)
        return self._changed(active_timeline=timeline, meta_names=None)

    @property
    def meta_path(self) -> str:
        """The table's ``.hoodie`` folder."""
        return storage_path.join(self.base_path, METAFOLDER_NAME)

    def with_meta_names(self, names: Iterable[str]) -> TableSnapshot:
        """The same table, with the names in ``.hoodie`` as they were listed just now; see `meta_names`."""
        return self._changed(meta_names=frozenset(names))

    def may_have(self, folder: str) -> bool:
        """Whether ``.hoodie`` may have a folder with files in it; False only if a listing did not show it.

        Args:
            folder: Its name.
        """
        return self.meta_names is None or f"{folder}/" in self.meta_names

    def heartbeat_path(self, instant_time: str) -> str:
        """The file that an instant's writer touches while it is alive."""
        return storage_path.join(self.meta_path, storage_path.HEARTBEAT_FOLDER_NAME, instant_time)

    @property
    def archived_timeline(self) -> HoodieArchivedTimeline:
        """The archived instants; read on first use.

        Raises:
            HoodieCorruptedDataException: A file of the archive is damaged.
            HoodieIOException: Storage failed.
        """
        layout = self.active_timeline.layout
        if not self._archived:
            self._archived.append(_load_archive(layout, self.storage, self.meta_path, self.table_config.archive_folder))
        return self._archived[0]

    def instants(self, *, archived: bool = False) -> list[HoodieInstant]:
        """The instants, the oldest first; one that is being archived counts once.

        Args:
            archived: Whether those of the archive come first.

        Raises:
            HoodieCorruptedDataException: A file of the archive is damaged.
            HoodieIOException: Storage failed.
        """
        active = list(self.active_timeline)
        if not archived:
            return active
        known = {instant.key for instant in active}
        return [*(instant for instant in self.archived_timeline if instant.key not in known), *active]

    def is_archived(self, instant: HoodieInstant) -> bool:
        """Whether an instant of `instants` is one of the archive."""
        return self.active_timeline.find(instant.requested_time, instant.action) != instant

    def read_commit_metadata(self, instant: HoodieInstant) -> HoodieCommitMetadata:
        """The metadata of a write, active or archived.

        Args:
            instant: One of `instants`.

        Raises:
            HoodieException: See `HoodieActiveTimeline.read_commit_metadata`.
        """
        timeline = self.archived_timeline if self.is_archived(instant) else self.active_timeline
        return timeline.read_commit_metadata(instant)

    @property
    def table_metadata(self) -> HoodieTableMetadata:
        """The listing of the table's partitions and files by storage, regardless of instants; nothing is cached.

        For callers that must see files of instants that are not completed, and unknown files.
        """
        has_fields = bool(self.table_config.partition_fields)
        return table_metadata_of(self.storage, self.base_path, has_partition_fields=has_fields)

    @property
    def committed_files(self) -> HoodieTableMetadata:
        """The listing that `listing_choice` chooses, chosen once for each snapshot; at least all committed files."""
        if not self._listing:
            choose = self.listing_choice
            self._listing.append(self.table_metadata if choose is None else choose(self))
        return self._listing[0]

    def view(self, instants: VisibleInstants | None = None, *, tells_sizes: bool = True) -> HoodieTableFileSystemView:
        """A new view of the table's files by `active_timeline`; partitions are listed on first use.

        Args:
            instants: The instants that count; None for all that count for readers of today.
            tells_sizes: Whether commits are asked for the sizes of log files that storage has listed.
        """
        committed = self.committed_log_files if tells_sizes else None
        return HoodieTableFileSystemView(
            self.committed_files, self.active_timeline, lambda: self.archived_timeline, instants, committed
        )

    def stored_view(self, *, tells_sizes: bool = False) -> HoodieTableFileSystemView:
        """A view like `view`, of the files on storage when a partition is first used.

        A metadata table still lists files that a running clean has deleted, and no log file of a pending write.

        Args:
            tells_sizes: See `view`.
        """
        committed = self.committed_log_files if tells_sizes else None
        return HoodieTableFileSystemView(
            self.table_metadata, self.active_timeline, lambda: self.archived_timeline, committed=committed
        )

    @property
    def committed_log_files(self) -> CommittedLogFiles:
        """The sizes that completed instants give for the table's log files."""
        layout = self.active_timeline.layout
        folder = self.table_config.archive_folder
        load_archive = partial(_load_archive, layout, self.storage, self.meta_path, folder)
        return CommittedLogFiles(self.base_path, self.active_timeline, load_archive, _REMEDY)

    def load_schema(self) -> pa.Schema:
        """The user's columns; see `HoodieTableMetaClient.load_schema`."""
        avro_schema = self.load_avro_schema()
        if avro_schema is None:
            raise HoodieSchemaException(
                f"The table {self.base_path} has no schema yet: nothing was written to it, and init_table was given no "
                "schema"
            )
        return to_arrow(avro_schema)

    def load_schema_as_of(self, time: str) -> pa.Schema:
        """The user's columns at a time: of the newest commit up to it. If no commit has a schema, the present columns.

        Args:
            time: An instant time.

        Raises:
            HoodieCorruptedDataException: Commit metadata is damaged.
            HoodieSchemaException: The schema is not a valid one.
            HoodieIOException: Storage failed.
        """
        last = self.active_timeline.completed_writes().last_instant
        if last is None or not is_after(last.requested_time, time):
            return self.load_schema()
        avro_schema = self._schema_resolver().load_avro_schema_as_of(time, lambda: self.archived_timeline)
        return self.load_schema() if avro_schema is None else to_arrow(avro_schema)

    def load_avro_schema(self) -> str | None:
        """The schema of `load_schema` as stored Avro JSON; None if there is no schema.

        Raises:
            HoodieCorruptedDataException: Commit metadata, or the base file that was read, is damaged.
            HoodieSchemaException: The schema is not a valid one.
            HoodieIOException: Storage failed.
        """
        if not self._schema_read:
            resolver = self._schema_resolver()
            avro_schema = resolver.load_avro_schema()
            self._schema_read.append((avro_schema, resolver.commits))
        return self._schema_read[0][0]

    def _schema_resolver(self) -> TableSchemaResolver:
        return TableSchemaResolver(self.storage, self.base_path, self.active_timeline, self.view, self.table_config)

    @property
    def commits_at_hand(self) -> Mapping[HoodieInstant, HoodieCommitMetadata]:
        """Completed commits that `load_avro_schema` has read, usually only the newest; empty before its first call."""
        return self._schema_read[0][1] if self._schema_read else {}

    def __getstate__(self) -> dict[str, Any]:
        # The listing holds the files of the metadata table; it is chosen again after unpickling.
        return {**self.__dict__, "_listing": [], "metadata_table": [], "earlier_metadata_table": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return f"<TableSnapshot of {self.base_path}, {self.active_timeline!r}>"


def _names_in(storage: HoodieStorage, meta_path: str, is_needed: bool) -> frozenset[str] | None:
    return frozenset(storage.list_names(meta_path)) if is_needed and storage.is_remote else None


def is_table(storage: HoodieStorage, base_path: str) -> bool:
    """Whether the properties file exists; its backup alone is a table whose properties file is being replaced."""
    meta_path = storage_path.join(base_path, METAFOLDER_NAME)
    return any(
        storage.is_file(storage_path.join(meta_path, name))
        for name in (PROPERTIES_FILE_NAME, PROPERTIES_BACKUP_FILE_NAME)
    )


def refuse_lost_properties(storage: HoodieStorage, base_path: str) -> frozenset[str]:
    """Refuse a folder with commits but no properties: a new table there would show their rows, and double them.

    Rollbacks alone are allowed: a failed first write left them, while its table was being removed.

    Returns:
        The names of the files in ``.hoodie``.
    """
    meta_path = storage_path.join(base_path, METAFOLDER_NAME)
    children = storage.list_directory(meta_path)
    names = frozenset(child.name for child in children if not child.is_directory)
    layout, later = timeline_layout(1), timeline_layout(2)
    found = map(layout.parse_file_name, names)
    has_folder = any(child.is_directory and child.name == TIMELINE_FOLDER for child in children)
    listed = storage.list_directory(storage_path.join(meta_path, TIMELINE_FOLDER)) if has_folder else []
    of_version_8 = [later.parse_file_name(file.name) for file in listed if not file.is_directory]
    has_commits = any(
        instant is not None and instant.is_completed and instant.action is not Action.ROLLBACK for instant in found
    ) or any(instant is None or instant.action is not Action.ROLLBACK for instant in of_version_8)
    # Another writer may have created the table, and committed to it, since the properties were looked for.
    if has_commits and not is_table(storage, base_path):
        raise InvalidTableException(
            f"{meta_path} has a timeline with completed instants, but {PROPERTIES_FILE_NAME} is missing: it was "
            "lost. Put it back, or rebuild it with hoodie.table.repair.rebuild_table_properties; to create a new "
            "table choose another path, or delete the whole folder first"
        )
    return names


def _refuse_choosing_globs(given_path: str, path: str) -> None:
    """Refuse globs that name some partitions or files: the whole table is read, which is more rows.

    Args:
        given_path: The user's path.
        path: The table in it.

    Raises:
        HoodieNotSupportedException: There is one.
    """
    globs = given_path[len(path) :]
    if not _ALL_FILES.fullmatch(globs):
        raise HoodieNotSupportedException(
            f"{given_path} names some of the partitions or files of the table at {path}, and hoodie takes only globs "
            f"for all of them, such as {path}/*/*: give {path}, and a filter on the partition fields"
        )


def _without_globs(path: str) -> str:
    """The path up to its first name with a glob character; the path itself without one."""
    match = _GLOB_CHARACTER.search(path)
    return storage_path.parent(path[: match.start()] + "x") if match is not None else path


def _load_active_timeline(
    storage: HoodieStorage,
    base_path: str,
    table_config: HoodieTableConfig,
    clock_skew_ms: int,
    listed: TimelineStates | None = None,
) -> HoodieActiveTimeline:
    meta_path = storage_path.join(base_path, METAFOLDER_NAME)
    folder = table_config.archive_folder
    layout = timeline_layout(
        table_config.timeline_layout_version, table_config.timeline_folder, table_config.timeline_timezone
    )
    load_archive = partial(_load_archive, layout, storage, meta_path, folder)
    archive = storage_path.join(meta_path, folder)
    is_inside = storage_path.parent(archive) == layout.active_path(meta_path)
    return HoodieActiveTimeline.load(
        storage,
        meta_path,
        layout,
        timezone=table_config.timeline_timezone,
        newest_archived_time=newest_archived_time(storage, archive, layout, load_archive),
        archive_name=storage_path.file_name(archive) if is_inside else None,
        read_archived=partial(_read_archived, load_archive),
        clock_skew_ms=clock_skew_ms,
        listed=listed,
    )


def _load_archive(
    layout: TimelineLayout, storage: HoodieStorage, meta_path: str, folder: str, newest_files: int | None = None
) -> HoodieArchivedTimeline:
    """The archived timeline of a table; see `HoodieArchivedTimeline.load`."""
    # Imported here: most reads need no archive, and start earlier without.
    from hoodie.common.table.timeline.lsm_timeline import archive_of

    return archive_of(layout).load(storage, meta_path, folder, layout, newest_files)


def _read_archived(load: Callable[[], HoodieArchivedTimeline], instant: HoodieInstant) -> HoodieCommitMetadata | None:
    """The metadata of an archived commit; None if it is not in the archive, or was not completed."""
    archived = load()
    found = archived.find(instant.requested_time, instant.action)
    return None if found is None or not found.is_completed else archived.read_commit_metadata(found)
