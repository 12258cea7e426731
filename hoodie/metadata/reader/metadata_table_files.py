"""The file slices of a metadata table, as a reader of its table sees them.

A metadata table is a merge-on-read table of HFiles in ``.hoodie/metadata``, with a timeline of its own. A writer
completes an instant there first, and then in the table. So a reader loads the table's timeline first, and these
instants of the metadata table do not count for it:

- Those that are not completed in the metadata table.
- Those that are pending in the table: their writer died, or has not finished. Indexing is an exception: it builds base
  files, and lists their partition in the table's properties when they are whole.
- Those that are later than all of the table's timeline: they began after it was loaded.

All other completed instants count: those of the table, active or archived, and those that only the metadata table has
(a build, a compaction, or an update after a restore). Instants that were rolled back are cancelled by command blocks
(table version 6) or deleted (8 and 9).

Hudi: org.apache.hudi.metadata.HoodieTableMetadataUtil (getValidInstantTimestamps). Differs: instants that began after
the table's timeline was loaded do not count, so that statistics and index fit the files of that moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import attrs

from hoodie.common.fs.file_names import is_data_file_name, parse_log_file_name
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_metadata import FileSystemBackedTableMetadata, HoodieTableMetadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after, is_before, newest, oldest
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.common.table.view.committed_log_files import CommittedLogFiles
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.exception import HoodieCorruptedDataException, HoodieMissingFileException, TableNotFoundException
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType, file_group_number
from hoodie.storage import storage_path
from hoodie.storage.side_by_side import side_by_side
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_path import file_name, join

_DIGITS = 17
"""The length of an instant time. Version 6 has three digits more for instants of the metadata table alone."""
LOG_COMPACTION_SUFFIX = "005"
"""Table version 6: behind the time of the newest delta commit it names a log compaction of a metadata table."""
LAST_INITIAL_TIME = "00000000000001"
"""Later than the times of instants that built partitions, in table versions 8 and 9."""
INITIAL_TIME = "00000000000000"
"""The beginning of those times; in version 6 also of the instants of a table that had no commit yet."""
REBUILD = (
    "List the file system instead; to get a right metadata table again, switch this one off "
    "(hoodie.metadata.enable=false), and Hudi's next write with it builds it anew"
)
"""The advice for a metadata table that is broken."""
_FOLDER = "metadata"
_TIMEZONE = "hoodie.table.timeline.timezone"


def is_initial_time(instant_time: str) -> bool:
    """Whether a delta commit of a metadata table belongs to the build of a partition, by its instant time."""
    return instant_time.startswith(INITIAL_TIME) or instant_time[_DIGITS:].startswith("01")


def without_log_compaction_suffix(instant_time: str) -> str:
    """The time of the delta commit by which a log compaction of a metadata table is named in version 6; other times as
    they are.

    Compactions and cleans are named by delta commits, too, and have only their own suffix.
    """
    is_log_compaction = len(instant_time) == _DIGITS + len(LOG_COMPACTION_SUFFIX)
    return instant_time.removesuffix(LOG_COMPACTION_SUFFIX) if is_log_compaction else instant_time


def metadata_folder(snapshot: TableSnapshot) -> str:
    """The path of a table's metadata table."""
    return join(snapshot.meta_path, _FOLDER)


def metadata_table_snapshot(table: TableSnapshot, stored: HoodieTableConfig, *, is_new: bool = False) -> TableSnapshot:
    """The metadata table of a table, with its present timeline. Every opener of a metadata table calls this.

    Its times are in the zone of the table and are compared with the table's times. Its own properties name no zone, or
    one that does not count. Times are given out under the table's lock, so no clock skew is waited for.

    Args:
        table: The table.
        stored: The stored properties of the metadata table.
        is_new: Whether the caller has just created it in an empty folder, under the table's lock.

    Raises:
        HoodieIOException: Storage failed.
    """
    config = HoodieTableConfig({**stored.properties, _TIMEZONE: table.table_config.timeline_timezone})
    folder = metadata_folder(table)
    own = attrs.evolve(table, base_path=folder, table_config=config, clock_skew_ms=0, listing_choice=None)
    return own.just_created() if is_new else own.refreshed()


@attrs.frozen(eq=False)
class MetadataTableFiles:
    """The files of a metadata table, as of a moment. Partitions are listed when asked for. Lives on the driver.

    Attributes:
        table: The table.
        snapshot: The metadata table.
        instants: The instants of the metadata table that count.
        view: Its files.
    """

    table: TableSnapshot
    snapshot: TableSnapshot
    instants: VisibleInstants
    view: HoodieTableFileSystemView
    _compacted: list[Mapping[str, tuple[str, str, int]]] = attrs.field(factory=list)
    _groups: dict[str, dict[str | None, list[FileSlice]]] = attrs.field(factory=dict)

    @classmethod
    def opened(cls, table: TableSnapshot, *, for_readers: bool = False) -> MetadataTableFiles:
        """The metadata table as it was when it was first asked for of this snapshot; see `load`."""
        if not table.metadata_table:
            table.metadata_table.append(cls.load(table))
        found: MetadataTableFiles = table.metadata_table[0]
        files = cls._of(table, found.snapshot, for_readers)
        # What is listed is kept, for whoever opens it later.
        return attrs.evolve(files, groups=found._groups, compacted=found._compacted)

    @classmethod
    def load(cls, table: TableSnapshot, *, for_readers: bool = False) -> MetadataTableFiles:
        """Load the timeline of the metadata table.

        Args:
            table: The table, as it was when its timeline was loaded: before this call.
            for_readers: Whether all partitions may be listed by one request, and not again. Writers add partitions.

        Raises:
            TableNotFoundException: The table has no metadata table, or lists one whose folder is missing.
            InvalidTableException: The properties of the metadata table are damaged.
            HoodieNotSupportedException: It has a version that hoodie does not know.
            HoodieIOException: Storage failed.
        """
        if not table.table_config.metadata_partitions:
            raise TableNotFoundException(
                f"{table.base_path} has no metadata table: hoodie.table.metadata.partitions lists no partition. List "
                "the file system; Hudi builds a metadata table at its next write with hoodie.metadata.enable=true"
            )
        earlier: MetadataTableFiles | None = next(iter(table.earlier_metadata_table), None)
        if earlier is not None and earlier.table.table_config == table.table_config:
            snapshot = metadata_table_snapshot(table, earlier.snapshot.table_config)
            if len(snapshot.active_timeline):
                files = cls._of(table, snapshot, for_readers)
                return attrs.evolve(files, groups={**earlier._groups}) if files._lists_as(earlier) else files
        folder = metadata_folder(table)
        try:
            config = HoodieTableConfig.load(table.storage, folder)
        except TableNotFoundException as error:
            listed = ",".join(table.table_config.metadata_partitions)
            raise TableNotFoundException(
                f"{table.base_path} lists the partitions {listed} of a metadata table, but {folder} holds none. "
                f"{REBUILD}"
            ) from error
        config.check_version()
        return cls._of(table, metadata_table_snapshot(table, config), for_readers)

    @classmethod
    def _of(cls, table: TableSnapshot, snapshot: TableSnapshot, for_readers: bool) -> MetadataTableFiles:
        choice = listed_together if for_readers and has_few_files(table.table_config) else None
        snapshot = attrs.evolve(snapshot, listing_choice=choice)
        instants = _valid_instants(table, snapshot)
        return cls(table, snapshot, instants, snapshot.view(instants, tells_sizes=False))

    def _lists_as(self, earlier: MetadataTableFiles) -> bool:
        """Whether nothing has happened in the metadata table since it was opened earlier, so that its files are those.

        Files of timeline layout 2 appear and go with instants.
        """
        timeline, before = self.snapshot.active_timeline, earlier.snapshot.active_timeline
        has_times = timeline.layout.has_completion_times and before.layout.has_completion_times
        return has_times and timeline.instants == before.instants and self._shows() == earlier._shows()

    def _shows(self) -> frozenset[str]:
        return frozenset(time for time in self.snapshot.active_timeline.times if self.instants.is_committed(time))

    @property
    def block_filter(self) -> LogBlockFilter:
        """The rule which log blocks count. It applies in all versions: upgraded tables have files of both layouts."""
        return LogBlockFilter(self.instants)

    @property
    def log_compactions(self) -> frozenset[str]:
        """The log compactions that count and whose log files are known by their names, in versions 8 and 9."""
        timeline = self.snapshot.active_timeline
        if not timeline.layout.has_completion_times:
            return frozenset()
        return frozenset(filter(self.instants.is_committed, timeline.log_compactions))

    @property
    def committed_log_files(self) -> CommittedLogFiles:
        """The sizes that completed instants of the metadata table give for its log files."""
        return attrs.evolve(self.snapshot.committed_log_files, remedy=REBUILD)

    def file_groups(self, partition_path: str) -> dict[str | None, list[FileSlice]]:
        """The newest slices of the file groups of a partition, by their numbers; listed once.

        Args:
            partition_path: A partition of the metadata table, such as ``column_stats``.

        Returns:
            The slices by the part of their file ids that names a partition of the table. Only a partitioned record
            index has such parts; all other file groups are under None.

        Raises:
            HoodieMissingFileException: A file group, base file, or log file of the listing of files is missing.
            HoodieCorruptedDataException: A name is not that of a file group; or the timeline is damaged.
            HoodieIOException: Storage failed.
        """
        if partition_path not in self._groups:
            self._groups[partition_path] = self._list_file_groups(partition_path)
        return self._groups[partition_path]

    def _list_file_groups(self, partition_path: str) -> dict[str | None, list[FileSlice]]:
        slices, _ = side_by_side(
            self.snapshot.storage,
            lambda: self.view.latest_file_slices(partition_path),
            # The check below needs it.
            self._newest_compaction,
        )
        self._check_base_files(partition_path, slices)
        if partition_path == MetadataPartitionType.FILES.partition_path and slices:
            self._check_log_files(partition_path, slices)
        numbered: dict[str | None, dict[int, FileSlice]] = {}
        for file_slice in slices:
            prefix, number = self._place_of(partition_path, file_slice.file_id)
            numbered.setdefault(prefix, {})[number] = file_slice
        for prefix, groups in numbered.items():
            if sorted(groups) != list(range(len(groups))):
                missing = min(set(range(max(groups))) - set(groups))
                raise HoodieMissingFileException(
                    f"file group {missing} of the partition {partition_path}{f' ({prefix})' if prefix else ''} of "
                    f"{self.snapshot.base_path} is missing, and {len(groups)} are there, up to {max(groups)}. {REBUILD}"
                )
        is_by_partition = partition_path == MetadataPartitionType.RECORD_INDEX.partition_path
        if not numbered and not is_by_partition:
            raise HoodieMissingFileException(
                f"{self.table.base_path} lists the partition {partition_path} of its metadata table, but it has no "
                f"file groups in {self.snapshot.base_path}/{partition_path}. {REBUILD}"
            )
        return {
            prefix: [groups[number] for number in range(len(groups))]
            for prefix, groups in sorted(numbered.items(), key=lambda item: item[0] or "")
        }

    def _place_of(self, partition_path: str, file_id: str) -> tuple[str | None, int]:
        """The part of a partitioned record index that a file group belongs to, and its number there."""
        kind = MetadataPartitionType.of_path(partition_path)
        try:
            number = file_group_number(file_id)
        except ValueError as error:
            raise HoodieCorruptedDataException(
                f"Cannot read the partition {partition_path} of {self.snapshot.base_path}: {error}. {REBUILD}"
            ) from error
        if kind is not MetadataPartitionType.RECORD_INDEX:
            return None, number
        rest = file_id.removeprefix(kind.file_id_prefix).removesuffix("-0").rpartition("-")
        return (rest[0], number) if rest[1] else (None, number)

    def _check_base_files(self, partition_path: str, slices: list[FileSlice]) -> None:
        """Raise if the base file is missing that the newest compaction, or the first build, wrote for a group."""
        bases = {file_slice.file_id: file_slice.base_instant_time for file_slice in slices if file_slice.base_file}
        completed_at = self.instants.completion_times
        sizes = {one.base_file.file_name: one.base_file.size_bytes for one in slices if one.base_file}
        for file_id, (instant_time, path, size) in self._newest_compaction().items():
            part, _, name = path.rpartition("/")
            if part != partition_path:
                continue
            if bases.get(file_id) == instant_time:
                self._check_size(path, instant_time, size, sizes.get(name, size))
                continue
            compacted = completed_at.get(instant_time, instant_time)
            if any(
                is_after(completed_at.get(one.base_instant_time, one.base_instant_time), compacted) for one in slices
            ):
                # The partition was dropped, and built again after the compaction.
                break
            self._raise_missing("base", partition_path, name, instant_time)
        instants_without_base = {
            file_slice.file_id: file_slice.base_instant_time for file_slice in slices if not file_slice.base_file
        }
        for instant_time in dict.fromkeys(instants_without_base.values()):
            instant = self.snapshot.active_timeline.completed_writes().find(instant_time)
            stats = self.snapshot.active_timeline.read_commit_metadata(instant).write_stats if instant else ()
            for stat in stats:
                name = file_name(stat.path or "")
                if name.endswith(".hfile") and instants_without_base.get(stat.file_id) == instant_time:
                    self._raise_missing("base", partition_path, name, instant_time)

    def _check_log_files(self, partition_path: str, slices: Sequence[FileSlice]) -> None:
        """Raise if a log file is missing that a delta commit of a table's write added to the listing of files.

        Each write has one. Delta commits are read only where names leave a doubt: no log file has the time of the
        write, or in version 6 a number is left out.
        """
        writes = self.table.active_timeline.completed_writes().times
        groups = self.view.file_groups(partition_path)
        logs = [log_file for group in groups for part in group.slices for log_file in part.log_files]
        base = oldest(one.base_instant_time for one in slices) or ""
        commits = [
            one
            for one in self.snapshot.active_timeline.completed_writes().filter_actions(Action.DELTA_COMMIT)
            if one.requested_time in writes
            and self.instants.is_committed(one.requested_time)
            and is_after(one.newest_time, base)
        ]
        if self.snapshot.active_timeline.layout.has_completion_times:
            named = {log_file.instant_time for log_file in logs}
            commits = [one for one in commits if one.requested_time not in named]
        else:
            versions = {log_file.version for one in slices for log_file in one.log_files}
            commits = commits if versions != {*range(1, len(versions) + 1)} else []
        if not commits:
            return
        committed, listed = self.snapshot.committed_log_files, {file_name(log_file.path) for log_file in logs}
        committed.read_also(commits)
        for commit, paths in committed.read_before().items():
            for path in sorted(paths):
                folder, _, name = path.rpartition("/")
                if folder == partition_path and name not in listed and self._is_on_top(name, commit, base):
                    self._raise_missing("log", partition_path, name, commit.requested_time)

    def _is_on_top(self, name: str, commit: HoodieInstant, base: str) -> bool:
        """Whether a log file of a delta commit after a base file is merged onto that base file."""
        log_file = parse_log_file_name(name)
        assert log_file is not None
        is_own = log_file.instant_time == commit.requested_time
        return is_own or not is_before(log_file.instant_time, base)

    def _newest_compaction(self) -> Mapping[str, tuple[str, str, int]]:
        """File id to instant, path and size of each base file of the newest compaction that counts."""
        if not self._compacted:
            timeline = self.snapshot.active_timeline
            compactions = timeline.filter_actions(Action.COMMIT).filter_completed_instants()
            compactions = compactions.filter(lambda instant: self.instants.is_committed(instant.requested_time))
            last, found = compactions.last_instant, {}
            if last is not None:
                stats = timeline.read_commit_metadata(last).write_stats
                found = {
                    stat.file_id: (last.requested_time, stat.path, stat.file_size_bytes) for stat in stats if stat.path
                }
            self._compacted.append(found)
        return self._compacted[0]

    def _check_size(self, path: str, instant_time: str, expected: int, size: int) -> None:
        """Raise if a base file has another size than the one it was completed with."""
        if expected and size != expected:
            raise HoodieCorruptedDataException(
                f"base file {join(self.snapshot.base_path, path)} of a metadata table is damaged: it has {size} bytes, "
                f"and the compaction {instant_time} completed it with {expected}. {REBUILD}"
            )

    def _raise_missing(self, kind: str, partition_path: str, name: str, instant_time: str) -> None:
        raise HoodieMissingFileException(
            f"{kind} file {name} of the partition {partition_path} of {self.snapshot.base_path} is missing, which "
            f"instant {instant_time} wrote; if a clean removed it meanwhile, load the table again. Otherwise: {REBUILD}"
        )


def _valid_instants(table: TableSnapshot, metadata_table: TableSnapshot) -> VisibleInstants:
    """The instants of the metadata table that count; see the module."""
    instants = metadata_table.active_timeline.visible_instants
    if instants.has_completion_times:
        # A build has the earliest time of all, though instants before it may have been archived.
        writes = instants.completed | instants.pending | instants.pending_compactions
        start = oldest(time for time in writes if is_after(time, LAST_INITIAL_TIME))
        instants = attrs.evolve(instants, start=start or instants.start)
    known = list(table.active_timeline)
    pending = {i.requested_time for i in known if i.is_pending and i.action is not Action.INDEXING}
    # A savepoint has the time of its commit.
    pending -= {i.requested_time for i in known if i.is_completed and i.action is not Action.SAVEPOINT}
    last = newest([LAST_INITIAL_TIME, *(time for i in known for time in (i.requested_time, i.completion_time))])
    assert last is not None
    commits = list(metadata_table.active_timeline.commits_timeline())
    late = {i.requested_time for i in commits if is_after(i.requested_time[:_DIGITS], last)}
    compactions = {i.requested_time for i in commits if i.action in (Action.COMMIT, Action.COMPACTION)}
    return instants.without(pending | late, compactions & late)


_OF_FEW_FILES = frozenset(
    kind.partition_path
    for kind in (
        MetadataPartitionType.FILES,
        MetadataPartitionType.COLUMN_STATS,
        MetadataPartitionType.PARTITION_STATS,
    )
)
"""Record and secondary indexes may have thousands of file groups: a listing of all would take many pages."""


def has_few_files(table_config: HoodieTableConfig) -> bool:
    """Whether the metadata table of a table surely has few files.

    Args:
        table_config: The properties of the table.
    """
    listed = {*table_config.metadata_partitions, *table_config.metadata_partitions_inflight}
    return listed <= _OF_FEW_FILES


def listed_together(metadata_table: TableSnapshot) -> HoodieTableMetadata:
    """A listing of all partitions of a metadata table by one request, made when the first partition is needed.

    It is for a metadata table with few files. Hudi lists each partition by itself.

    Args:
        metadata_table: The metadata table.
    """
    return _PartitionsTogether(metadata_table.storage, metadata_table.base_path)


@attrs.frozen
class _PartitionsTogether(FileSystemBackedTableMetadata):
    """Lists all folders at the first call, and keeps the listing."""

    _listed: list[Mapping[str, list[FileStatus]]] = attrs.field(factory=list, init=False, repr=False, eq=False)

    def list_files(self, partition_path: str) -> list[FileStatus]:
        """See `HoodieTableMetadata.list_files`."""
        return self.list_files_of([partition_path])[partition_path]

    def list_files_of(self, partition_paths: Sequence[str]) -> dict[str, list[FileStatus]]:
        """See `HoodieTableMetadata.list_files_of`."""
        if not self._listed:
            found: dict[str, list[FileStatus]] = defaultdict(list)
            for status in self.storage.list_files(self.base_path):
                if is_data_file_name(status.name):
                    found[storage_path.relative_to(self.base_path, storage_path.parent(status.path))].append(status)
            self._listed.append(found)
        return {path: list(self._listed[0].get(path, ())) for path in partition_paths}
