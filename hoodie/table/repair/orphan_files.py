"""Find data files that nothing on the timeline explains, and put them aside or delete them.

Such files come from writers that died in ways which no rollback saw, from deleted timeline files, or from copies of
tables.

Hudi: org.apache.hudi.table.repair.RepairUtils, org.apache.hudi.utilities.HoodieRepairTool.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum

import attrs

from hoodie.common.fs.file_names import LogFileName, make_base_file_name, parse_base_file_name, parse_log_file_name
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.marker.write_markers import OPEN_SUFFIX, TEMP_FOLDER_NAME
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.archived_timeline import HoodieArchivedTimeline
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.common.table.timeline.instant_time import in_order
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieIOException
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlockType
from hoodie.metadata.metadata_table import MetadataTable
from hoodie.storage import storage_path
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_options import StorageOptions
from hoodie.storage.written_file import written_file
from hoodie.table.action.rollback.instant_files import stored_blocks
from hoodie.table.action.savepoint.savepoint_action_executor import savepoints
from hoodie.table.repair.repaired_table import RepairedTable, RepairResult, check_flags
from hoodie.table.table_state import being_rolled_back

logger = logging.getLogger(__name__)

_COPIED_AT_ONCE = 8 << 20
_MOST_LOOKS = 3


class OrphanReason(StrEnum):
    """Why a file is an orphan."""

    UNKNOWN_INSTANT = "no instant of its time"
    NOT_IN_COMMIT = "not in the commit of its time"


@attrs.frozen
class OrphanFile:
    """A base file or log file that no instant explains.

    Attributes:
        partition_path: The folder that it is in, "" for the table's.
        file_name: Its name.
        instant_time: The instant that wrote it: the one in its name, or of a log file of version 6 in its blocks.
        reason: Why it is an orphan.
        is_visible: Whether readers show its rows: they take an unknown instant that is older than the timeline for an
            archived commit, and read every log file of a commit.
        size_bytes: Its length.
        modification_time_ms: The time of its last write, in milliseconds since 1970; 0 if the store does not tell.
    """

    partition_path: str
    file_name: str
    instant_time: str
    reason: OrphanReason
    is_visible: bool
    size_bytes: int
    modification_time_ms: int

    @property
    def path(self) -> str:
        """Relative to the table's folder."""
        return f"{self.partition_path}/{self.file_name}".lstrip("/")


@attrs.frozen(repr=False)
class OrphanFiles(RepairResult):
    """The orphan files that were found, and those that were removed.

    Attributes:
        base_path: The table.
        files: The orphans.
        removed: The orphans that are gone from the table; after a dry run, those that would be.
        backup_folder: The folder that has the moved files; None if files were deleted, or nothing was removed.
        is_dry_run: Whether nothing was changed.
    """

    base_path: str
    files: tuple[OrphanFile, ...]
    removed: tuple[OrphanFile, ...] = ()
    backup_folder: str | None = None
    is_dry_run: bool = True

    @property
    def headline(self) -> str:
        """See `RepairResult`."""
        size = sum(file.size_bytes for file in self.files)
        text = f"{len(self.files)} orphan files, {size} bytes, in {self.base_path}"
        if self.removed:
            done = "deleted" if self.backup_folder is None else f"moved to {self.backup_folder}"
            text += f"; {len(self.removed)} {'would be ' if self.is_dry_run else ''}{done}"
        kept = sum(file.is_visible for file in self.files) - sum(file.is_visible for file in self.removed)
        if kept:
            text += f"; {kept} are visible to readers and stay: look at them first, then give include_visible=True"
        return text

    @property
    def table(self) -> SummaryTable[OrphanFile]:
        """See `RepairResult`."""
        return SummaryTable(OrphanFile, self.files)


def find_orphan_files(table: str | HoodieWriteConfig, *, storage_options: StorageOptions | None = None) -> OrphanFiles:
    """Find base files and log files that no instant explains; nothing is changed.

    Four things explain a file: the commit of its instant, active or archived, that names it; a later commit that was
    built on it; a savepoint; a replace commit that replaced its file group. In version 6 a rollback explains a log file
    as well: it leaves the file, and adds one with a command block. A file whose instant is pending or being rolled
    back, or has markers or a heartbeat, belongs to its writer: it is never an orphan.

    Args:
        table: The table's folder, or the configuration of its writers.
        storage_options: Options of the storage, where the folder is given.

    Raises:
        TableNotFoundException: There is no table.
        HoodieNotSupportedException: It has a feature that hoodie cannot judge.
        HoodieCorruptedDataException: A file of the timeline is damaged, so files cannot be judged.
        HoodieCommitException: A restore is pending.
    """
    repaired = RepairedTable.open(table, storage_options)
    snapshot = repaired.look("a search for orphan files")
    return OrphanFiles(snapshot.base_path, _look(snapshot))


def remove_orphan_files(
    table: str | HoodieWriteConfig,
    *,
    backup_folder: str | None = None,
    delete: bool = False,
    include_visible: bool = False,
    dry_run: bool = False,
    storage_options: StorageOptions | None = None,
) -> OrphanFiles:
    """Take orphan files out of the table, under its lock where its writers have one; see `find_orphan_files`.

    The next call finishes a call that died half-way: a file is deleted only once its copy is complete.

    Args:
        table: See `find_orphan_files`. Where several writers are at work, give their configuration.
        backup_folder: A folder outside of the table, to which files are moved, below the same partition paths.
        delete: Delete the files instead of moving them.
        include_visible: Also remove files whose rows readers show: these rows are gone then.
        dry_run: Change nothing, and report what would be done.
        storage_options: See `find_orphan_files`; they apply to the backup folder too.

    Returns:
        All orphans, and those that were removed.

    Raises:
        HoodieConfigException: Neither a backup folder nor ``delete`` is given, or both, or the folder is in the table.
        HoodieCommitException: A restore is pending.
        HoodieLockException: The lock was not given.
        HoodieIOException: Storage failed; call again.
    """
    check_flags(delete=delete, include_visible=include_visible, dry_run=dry_run)
    if (backup_folder is None) == (not delete):
        raise HoodieConfigException("remove_orphan_files takes either backup_folder=... or delete=True")
    repaired = RepairedTable.open(table, storage_options)
    snapshot, backup = repaired.snapshot, None
    if backup_folder is not None:
        backup_folder = storage_path.normalise_path(backup_folder)
        if f"{backup_folder}/".startswith(f"{snapshot.base_path}/"):
            raise HoodieConfigException(f"the backup folder {backup_folder} is in the table: name one outside of it")
        backup = open_storage(backup_folder, repaired.config.storage_options)
    with repaired.lock("removal of orphan files", dry_run=dry_run) as (snapshot, _):
        files = _look(snapshot)
        wanted = tuple(file for file in files if include_visible or not file.is_visible)
        if not dry_run and any(file.is_visible for file in wanted):
            # It may list them.
            MetadataTable(snapshot).set_aside()
        for file in wanted if not dry_run else ():
            path = storage_path.join(snapshot.base_path, file.path)
            try:
                if backup is not None and backup_folder is not None:
                    target = storage_path.join(backup_folder, file.path)
                    _copy(snapshot.storage, path, backup, target, file.size_bytes)
            except FileNotFoundError:
                logger.info("orphan file %s is gone: its writer deleted it just now", path)
                continue
            snapshot.storage.delete_file(path)
            logger.info("removed orphan file %s (%s)", path, file.reason)
    return OrphanFiles(snapshot.base_path, files, wanted, backup_folder, dry_run)


def _copy(storage: HoodieStorage, path: str, backup: HoodieStorage, target: str, size_bytes: int) -> None:
    with storage.open_input_stream(path) as source, written_file(backup, target) as out:
        while chunk := source.read(_COPIED_AT_ONCE):
            out.write(chunk)
    copied = backup.file_status(target)
    if copied is None or copied.size_bytes != size_bytes:
        raise HoodieIOException(f"{path} was not copied to {target} as a whole, and stays; try again")


def _look(snapshot: TableSnapshot) -> tuple[OrphanFile, ...]:
    """The orphans; looks again when instants were archived or rolled back while it read them."""
    for attempt in range(1, _MOST_LOOKS + 1):
        # Files first: the instants of all files that are seen are then on the timeline that is listed later.
        listed = snapshot.table_metadata.list_stored_files()
        try:
            explanation = _Explanation(snapshot)
            return tuple(
                orphan
                for partition_path, files in listed.items()
                for status in files
                if (orphan := explanation.judge(partition_path, status, files)) is not None
            )
        except HoodieIOException as error:
            if attempt == _MOST_LOOKS or not isinstance(error.__cause__, FileNotFoundError):
                raise
            logger.info("the timeline of %s changed while it was read, reading it again", snapshot.base_path)
    raise AssertionError("unreachable")


class _Explanation:
    """The timeline's explanation of files.

    A commit is read when a file of its instant is judged. All commits are read when a file's instant is unknown.
    """

    def __init__(self, snapshot: TableSnapshot) -> None:
        self._snapshot = snapshot
        self._owned = self._instants_being_written()
        # Markers first, then the active timeline, then the archive: an instant moves in this order.
        snapshot = snapshot.refreshed()
        self._timeline = snapshot.active_timeline
        self._archive = snapshot.archived_timeline
        self._visible = self._timeline.visible_instants
        self._owned |= self._timeline.filter_pending().times
        self._owned |= being_rolled_back(self._timeline)
        self._active_writes, self._archived_writes = _by_time(self._timeline), _by_time(self._archive)
        self._named: dict[str, frozenset[str] | None] = {}
        self._is_merge_on_read = snapshot.table_config.table_type is HoodieTableType.MERGE_ON_READ
        self._commands: dict[tuple[str, str, str], dict[str, tuple[int, str]]] = {}
        self._others: _Mentions | None = None

    def judge(self, partition_path: str, status: FileStatus, files: Sequence[FileStatus]) -> OrphanFile | None:
        """The file as an orphan; None for a file that is explained or belongs to a writer.

        Args:
            partition_path: The folder.
            status: The file.
            files: All files of the folder.
        """
        log_name = parse_log_file_name(status.name)
        cdc_name = log_name if log_name is not None and log_name.is_cdc else None
        log = log_name if self._is_merge_on_read and cdc_name is None else None
        if log is not None and not self._timeline.layout.has_completion_times:
            return self._judge_blocks(partition_path, log, status, files)
        name = log or cdc_name or parse_base_file_name(status.name)
        if name is None or name.instant_time in self._owned:
            return None
        named = self._files_of(name.instant_time)
        path = f"{partition_path}/{status.name}".lstrip("/")
        if named is not None and path in named:
            return None
        if named is not None and cdc_name is not None and cdc_name.write_token is not None:
            # The archive of version 6 does not name change data: it lies beside the base file of the same task.
            base = make_base_file_name(cdc_name.file_id, cdc_name.write_token, cdc_name.instant_time)
            if f"{partition_path}/{base}".lstrip("/") in named:
                return None
        reason = OrphanReason.NOT_IN_COMMIT if named is not None else OrphanReason.UNKNOWN_INSTANT
        if log is not None and path in self._mentions_by_others().log_files:
            # A delta commit of version 6 wrote it, before the table was upgraded.
            return None
        if named is None:
            others = self._mentions_by_others()
            if (partition_path, name.file_id, name.instant_time) in others.earlier or status.name in others.saved:
                return None
            if (partition_path, name.file_id) in others.replaced:
                return None
        return OrphanFile(
            partition_path,
            status.name,
            name.instant_time,
            reason,
            # Of base files of one instant readers take the one that its commit names.
            ((named is None and cdc_name is None) or log is not None) and self._visible.is_committed(name.instant_time),
            status.size_bytes,
            status.modification_time_ms,
        )

    def _judge_blocks(
        self, partition_path: str, name: LogFileName, status: FileStatus, files: Sequence[FileStatus]
    ) -> OrphanFile | None:
        """`judge` of a log file of timeline layout 1, whose blocks tell the instants that wrote it."""
        blocks = stored_blocks(self._snapshot.storage, status.path)
        commands = [block for block in blocks if block.block_type is HoodieLogBlockType.COMMAND]
        times = {block.headers.get(HeaderMetadataType.INSTANT_TIME) for block in blocks} - {None}
        # A file that hides others is needed, and a torn one may be that of a commit.
        if commands or not times or times & self._owned:
            return None
        path = f"{partition_path}/{status.name}".lstrip("/")
        named = {time: self._files_of(str(time)) for time in times}
        if any(paths is not None and path in paths for paths in named.values()):
            return None
        unknown = {str(time) for time, paths in named.items() if paths is None}
        completed = {str(time) for time in times} - unknown
        key = partition_path, name.file_id, name.instant_time
        if not completed:
            behind = self._commands_in(key, files)
            unknown = {time for time in unknown if behind.get(time, (0, "")) <= (name.version, name.write_token or "")}
            others = self._mentions_by_others()
            if not unknown or key[:2] in others.replaced or status.name in others.saved or path in others.log_files:
                return None
        return OrphanFile(
            partition_path,
            status.name,
            in_order(completed or unknown)[-1],
            OrphanReason.NOT_IN_COMMIT if completed else OrphanReason.UNKNOWN_INSTANT,
            any(map(self._visible.is_committed, completed or unknown)),
            status.size_bytes,
            status.modification_time_ms,
        )

    def _commands_in(self, key: tuple[str, str, str], files: Sequence[FileStatus]) -> dict[str, tuple[int, str]]:
        """The instants that command blocks of a slice take back, each with version and token of the last such file."""
        if key not in self._commands:
            found: dict[str, tuple[int, str]] = {}
            for status in files:
                name = parse_log_file_name(status.name)
                if name is None or (name.file_id, name.instant_time) != key[1:]:
                    continue
                place = name.version, name.write_token or ""
                for block in stored_blocks(self._snapshot.storage, status.path):
                    target = block.headers.get(HeaderMetadataType.TARGET_INSTANT_TIME)
                    if block.block_type is HoodieLogBlockType.COMMAND and target is not None:
                        found[target] = max(place, found.get(target, place))
            self._commands[key] = found
        return self._commands[key]

    def _instants_being_written(self) -> set[str]:
        """Instants with markers or a heartbeat."""
        storage, meta_path = self._snapshot.storage, self._snapshot.meta_path
        marked = storage.list_directory(storage_path.join(meta_path, TEMP_FOLDER_NAME))
        beating = storage.list_directory(storage_path.parent(self._snapshot.heartbeat_path("0")))
        return {status.name.removesuffix(OPEN_SUFFIX) for status in [*marked, *beating]}

    def _files_of(self, instant_time: str) -> frozenset[str] | None:
        """Relative paths that the completed commit of a time names; None where there is none."""
        if instant_time not in self._named:
            known = self._active_writes if instant_time in self._active_writes else self._archived_writes
            timeline = self._timeline if known is self._active_writes else self._archive
            found = [timeline.read_commit_metadata(instant) for instant in known.get(instant_time, ())]
            self._named[instant_time] = (
                frozenset(
                    path.lstrip("/")
                    for metadata in found
                    for stat in metadata.write_stats
                    for path in (str(stat.path), *(stat.cdc_stats or ()))
                )
                if found
                else None
            )
        return self._named[instant_time]

    def _mentions_by_others(self) -> _Mentions:
        """The mentions by all commits and savepoints; read once."""
        if self._others is None:
            earlier: set[tuple[str, str, str]] = set()
            replaced: set[tuple[str, str]] = set()
            log_files: set[str] = set()
            for metadata in (*_writes(self._archive), *_writes(self._timeline)):
                for stat in metadata.write_stats:
                    earlier.add((stat.partition_path, stat.file_id, stat.prev_commit))
                    if stat.is_log_file:
                        log_files.add(str(stat.path).lstrip("/"))
                replaced.update(metadata.replaced_file_groups)
            saved = {
                name for savepoint in savepoints(self._timeline) for names in savepoint.files.values() for name in names
            }
            self._others = _Mentions(frozenset(earlier), frozenset(replaced), frozenset(saved), frozenset(log_files))
        return self._others


@attrs.frozen
class _Mentions:
    """Mentions, by commits and savepoints, of files of instants that are not known.

    Attributes:
        earlier: Partition paths, file ids and instants of versions that later commits were built on.
        replaced: Partition paths and file ids of file groups that were replaced.
        saved: Names of files that savepoints keep.
        log_files: Relative paths of the log files that commits wrote.
    """

    earlier: frozenset[tuple[str, str, str]]
    replaced: frozenset[tuple[str, str]]
    saved: frozenset[str]
    log_files: frozenset[str]


def _by_time(timeline: HoodieTimeline) -> dict[str, list[HoodieInstant]]:
    """Completed commits by their instant times."""
    found: dict[str, list[HoodieInstant]] = defaultdict(list)
    for instant in timeline.completed_writes():
        found[instant.requested_time].append(instant)
    return dict(found)


def _writes(timeline: HoodieActiveTimeline | HoodieArchivedTimeline) -> Iterable[HoodieCommitMetadata]:
    """The metadata of all completed commits."""
    for instant in timeline.completed_writes():
        yield timeline.read_commit_metadata(instant)
