"""A look at a table for what is wrong with it, or will be: findings, each with the call that repairs it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

import attrs

from hoodie.common.fs.pending_overwrite import PROPERTIES_FILE_NAME
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.table_config import PROPERTIES_BACKUP_FILE_NAME, HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_instant_time, parse_instant_time
from hoodie.common.util.shown_table import format_bytes, plural
from hoodie.common.util.shown_value import short_repr
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieIOException,
    InvalidTableException,
    TableNotFoundException,
)
from hoodie.interface.locks import find_locks
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_path import normalise_path, parent
from hoodie.table.action.clean.clean_planner import CleanPlanner
from hoodie.table.open_table import look_as_writer
from hoodie.table.repair.orphan_files import find_orphan_files
from hoodie.table.repair.partition_metafiles import bad_metafiles
from hoodie.table.repair.repaired_table import RepairResult
from hoodie.table.upgrade.version_change import changed_properties
from hoodie.transaction.heartbeat_client import is_heartbeat_expired
from hoodie.validation.table_validator import validate

MANY_LOG_FILES = 10
"""A file group with more log files is named: each read merges them."""
MANY_SMALL_FILES = 5
"""A partition with so many small base files is named: fewer ones are filled by the next inserts."""
STUCK_LOCK_SECONDS = 3600
"""A lock that is held for longer is named; a write that takes so long renews it, unless locks do not expire."""
_NAMED_INSTANTS = 3
_LARGE_INSTANT = 1 << 20
_TABLE = "{table}"
"""Stands in commands for the table's folder."""
_BLOCKS = {
    Action.COMPACTION: "; until it is completed, nothing newer is archived",
    Action.LOG_COMPACTION: "; until it is completed, its file groups are not compacted and nothing newer is archived",
    Action.CLUSTERING: "; until it is completed, updates of its file groups are refused and nothing newer is archived",
    Action.CLEAN: "; the next clean finishes it first",
    Action.RESTORE: "; until it is completed, nothing can be written",
}
"""What pending services hold up."""
_UNDONE_BY_ROLLBACK = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT, Action.CLUSTERING})


class FindingKind(StrEnum):
    """The subject of a finding."""

    PROPERTIES = "properties"
    PENDING = "pending"
    HEARTBEAT = "heartbeat"
    LOG_FILES = "log files"
    SMALL_FILES = "small files"
    CLEANING = "cleaning"
    ARCHIVING = "archiving"
    ORPHANS = "orphans"
    PARTITION_METADATA = "partition metadata"
    METADATA_TABLE = "metadata table"
    TIMELINE = "timeline"
    LOCK = "lock"


@attrs.frozen
class Finding:
    """One thing that is wrong, or will be.

    Attributes:
        kind: Its subject.
        problem: The problem, in one sentence.
        remedy: The call that repairs it, on `hoodie.Table`.
        command: The same for a shell; "" where no command does it.
    """

    kind: str
    problem: str
    remedy: str
    command: str = ""


@attrs.frozen(repr=False)
class Diagnosis(RepairResult):
    """The findings about a table; prints as one line with a table below it.

    Attributes:
        base_path: The table.
        findings: The findings, those that hide or lose rows first.
        is_deep: Whether files were compared with the timeline and with the metadata table, too.
    """

    base_path: str
    findings: tuple[Finding, ...]
    is_deep: bool

    @property
    def is_healthy(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        looked = "" if self.is_deep else "; deep=True also compares files with the timeline and the metadata table"
        return f"{plural(len(self.findings), 'finding')} about {self.base_path}{looked}"

    @property
    def table(self) -> SummaryTable[Finding]:
        """The findings."""
        return SummaryTable(Finding, self.findings)


def diagnose(config: HoodieWriteConfig, *, deep: bool = False) -> Diagnosis:
    """Look at a table for what is wrong; nothing is changed.

    Args:
        config: The configuration of its writers: limits of services and of heartbeats.
        deep: Whether to list all files too: orphans, metadata files of partitions, and the metadata table beside what
            it describes. Takes time with the number of files.

    Raises:
        TableNotFoundException: There is no table.
        HoodieIOException: Storage failed.
    """
    path = normalise_path(config.base_path)
    try:
        table = look_as_writer(config)
    except TableNotFoundException:
        raise
    except InvalidTableException as error:
        return _with_commands(config, [_of_properties(str(error))], deep)
    unreadable = list(_timeline(table, deep))
    findings = [*_properties(config, path), *unreadable, *_locks(table, config)]
    findings += [*_pending(table, config), *_heartbeats(table, config)]
    try:
        findings += _of_files(table, config, deep)
    except HoodieCorruptedDataException:
        # What a damaged instant says of the files is not known.
        if not unreadable:
            raise
    return _with_commands(config, findings, deep)


def _of_files(table: TableSnapshot, config: HoodieWriteConfig, deep: bool) -> list[Finding]:
    view = table.view()
    partitions = view.list_partitions()
    view.load_partitions(partitions)
    slices = [file_slice for partition in partitions for file_slice in view.latest_file_slices(partition)]
    found = [*_deep(table, config)] if deep else []
    found += [*_log_files(slices), *_cleaning(table, config), *_archiving(table, config)]
    return [*found, *_small_files(slices, config)]


def _with_commands(config: HoodieWriteConfig, findings: list[Finding], deep: bool) -> Diagnosis:
    """The diagnosis, with the table's folder in the commands."""
    path = normalise_path(config.base_path)
    table = shlex.quote(config.base_path)
    commanded = [attrs.evolve(finding, command=finding.command.replace(_TABLE, table)) for finding in findings]
    return Diagnosis(path, tuple(commanded), deep)


def _of_properties(problem: str) -> Finding:
    return Finding(FindingKind.PROPERTIES, problem, "repair('properties')", f"hoodie repair {_TABLE} properties")


def _properties(config: HoodieWriteConfig, path: str) -> Iterator[Finding]:
    storage = open_storage(path, config.storage_options, config.retry.policy)
    found = HoodieTableConfig.inspect(storage, path)
    if not isinstance(found, HoodieTableConfig):
        yield _of_properties(f"{PROPERTIES_FILE_NAME} is unusable ({found or 'missing'}), its backup stands in for it")
        return
    backup = HoodieTableConfig.inspect(storage, path, PROPERTIES_BACKUP_FILE_NAME)
    if isinstance(backup, HoodieTableConfig) and (changes := changed_properties(backup.properties, found.properties)):
        keys = ", ".join(change.key for change in changes)
        yield Finding(
            FindingKind.PROPERTIES,
            f"{PROPERTIES_BACKUP_FILE_NAME} was left by a writer that died while it changed {keys}; the file counts",
            "set_properties(...), which deletes the backup when it changes something",
            f"hoodie properties {_TABLE}",
        )


def _timeline(table: TableSnapshot, deep: bool) -> Iterator[Finding]:
    """The files of the timeline that cannot be read; larger ones only if all files are looked at."""
    timeline = table.active_timeline
    for status in table.storage.list_directory(timeline.layout.active_path(table.meta_path)):
        instant = timeline.layout.instant_of(status)
        if instant is None or (status.size_bytes > _LARGE_INSTANT and not deep):
            continue
        stands = timeline.find(instant.requested_time, instant.action)
        if stands is None or (stands.is_completed and not instant.is_completed):
            # It went meanwhile, or is a state that nobody reads any more.
            continue
        try:
            fields = timeline.read_fields(instant)
        except HoodieCorruptedDataException as error:
            yield _unreadable(table, instant, str(error))
        except HoodieIOException:
            continue
        else:
            if not fields and not timeline.layout.may_be_empty(instant):
                yield _unreadable(table, instant, f"{timeline.path_of(instant)} is empty")


def _unreadable(table: TableSnapshot, instant: HoodieInstant, problem: str) -> Finding:
    time = instant.requested_time
    if instant.is_pending:
        return Finding(FindingKind.TIMELINE, problem, f"rollback('{time}')", f"hoodie rollback {_TABLE} {time}")
    before = table.active_timeline.completed_writes().before(time).last_instant
    copy = "put the file back from a copy of the table"
    if before is None:
        return Finding(FindingKind.TIMELINE, problem, copy)
    remedy = f"{copy}; or restore('{before.requested_time}'), which loses what is newer"
    return Finding(FindingKind.TIMELINE, problem, remedy, f"hoodie restore {_TABLE} {before.requested_time}")


def _locks(table: TableSnapshot, config: HoodieWriteConfig) -> Iterator[Finding]:
    """Locks whose holder is dead, or that are old and whose provider lets none expire."""
    for lock in find_locks(config, table):
        is_old = lock.state == "held" and (lock.age_seconds or 0) > STUCK_LOCK_SECONDS
        if lock.state == "abandoned":
            problem = f"the holder of {lock.name} is dead: {lock.holder}"
        elif is_old:
            problem = f"{lock.name} is {lock.age_seconds:,} s old, held by {lock.holder}; writers wait for it"
        elif lock.state == "unknown":
            problem = f"{lock.name} could not be looked at: {lock.holder}"
        else:
            continue
        breaking = "break_lock(lock) of locks(), if its holder is dead"
        yield Finding(FindingKind.LOCK, problem, breaking, f"hoodie locks {_TABLE} --break")


def _pending(table: TableSnapshot, config: HoodieWriteConfig) -> Iterator[Finding]:
    """The instants that are not completed, and have no living heartbeat."""
    timeline = table.active_timeline
    for instant in timeline.filter_pending():
        time = instant.requested_time
        if not is_heartbeat_expired(table, time, config.write):
            continue
        minutes = max(0, (timeline.clock() - parse_instant_time(time, timeline.timezone)).total_seconds() / 60)
        age = f"{minutes:,.0f} minutes" if minutes < 180 else f"{minutes / 60:,.0f} hours"
        yield Finding(
            FindingKind.PENDING,
            f"{instant.action} {time} was begun {age} ago and is not completed; no heartbeat tells that its writer is "
            f"alive{_BLOCKS.get(instant.action, '')}",
            *_remedy_of(instant),
        )


def _remedy_of(instant: HoodieInstant) -> tuple[str, str]:
    """The call and the command that finish or undo a pending instant."""
    time = instant.requested_time
    undoing = (f"rollback('{time}')", f"hoodie rollback {_TABLE} {time}")
    if instant.action in _UNDONE_BY_ROLLBACK:
        return f"{undoing[0]}, if no writer is at work on it", undoing[1]
    return {
        Action.COMPACTION: ("compact()", f"hoodie compact {_TABLE}"),
        Action.LOG_COMPACTION: ("log_compact()", f"hoodie log-compact {_TABLE}"),
        Action.CLEAN: ("clean()", f"hoodie clean {_TABLE}"),
        Action.ROLLBACK: ("recover()", f"hoodie recover {_TABLE}"),
        Action.RESTORE: ("restore(...) to the same commit again", f"hoodie history {_TABLE} {time}"),
        Action.SAVEPOINT: (f"delete_savepoint('{time}')", f"hoodie delete-savepoint {_TABLE} {time}"),
    }.get(instant.action, undoing)


def _heartbeats(table: TableSnapshot, config: HoodieWriteConfig) -> Iterator[Finding]:
    """The heartbeats of writers that died after their instant had ended."""
    entries = table.storage.list_directory(parent(table.heartbeat_path("0")))
    pending = {instant.requested_time for instant in table.active_timeline.filter_pending()}
    dead = [
        entry.name
        for entry in entries
        if is_instant_time(entry.name)
        and entry.name not in pending
        and is_heartbeat_expired(table, entry.name, config.write)
    ]
    if dead:
        names = ", ".join(dead[:_NAMED_INSTANTS])
        yield Finding(
            FindingKind.HEARTBEAT,
            f"{plural(len(dead), 'heartbeat')} of writers that died are left: {names}",
            "recover(), or the next write",
            f"hoodie recover {_TABLE}",
        )


def _log_files(slices: list[FileSlice]) -> Iterator[Finding]:
    many = [file_slice for file_slice in slices if len(file_slice.record_log_files) > MANY_LOG_FILES]
    if many:
        most = max(many, key=lambda file_slice: len(file_slice.record_log_files))
        most_count, partition_path = len(most.record_log_files), short_repr(most.partition_path)
        size = sum(log_file.size_bytes for file_slice in many for log_file in file_slice.record_log_files)
        yield Finding(
            FindingKind.LOG_FILES,
            f"{plural(len(many), 'file group')} of more than {MANY_LOG_FILES} log files each ({format_bytes(size)}), "
            f"the most {most_count} in partition {partition_path}: each read merges them",
            "compact()",
            f"hoodie compact {_TABLE}",
        )


def _cleaning(table: TableSnapshot, config: HoodieWriteConfig) -> Iterator[Finding]:
    planner = CleanPlanner(LocalEngineContext(), config.clean, table)
    since, kept = planner.commits_since_last_clean, config.clean.commits_retained
    if planner.may_clean and since > 2 * kept:
        held = f"; {plural(len(planner.savepoints), 'savepoint')} keep their files" if planner.savepoints else ""
        yield Finding(
            FindingKind.CLEANING,
            f"{since:,} commits since the last clean, and {kept} are to be kept: old files take space{held}",
            "clean()",
            f"hoodie clean {_TABLE}",
        )


def _archiving(table: TableSnapshot, config: HoodieWriteConfig) -> Iterator[Finding]:
    count, limit = len(table.active_timeline.completed_writes()), config.archival.max_commits
    if count > 2 * limit:
        first = table.active_timeline.filter_pending().first_instant
        held = "" if first is None else f"; {first.action} {first.requested_time} is pending, and keeps later ones"
        yield Finding(
            FindingKind.ARCHIVING,
            f"{count:,} commits are not archived, and {limit} may be (hoodie.keep.max.commits): each call lists "
            f"them{held}",
            "archive()",
            f"hoodie archive {_TABLE}",
        )


def _small_files(slices: list[FileSlice], config: HoodieWriteConfig) -> Iterator[Finding]:
    limit = config.compaction.parquet_small_file_limit
    counts = Counter(
        file_slice.partition_path
        for file_slice in slices
        if file_slice.base_file is not None and file_slice.base_file.size_bytes < limit
    )
    many = {path: count for path, count in counts.items() if count >= MANY_SMALL_FILES}
    if many:
        path, most = max(many.items(), key=lambda item: item[1])
        yield Finding(
            FindingKind.SMALL_FILES,
            f"{plural(len(many), 'partition')} of {MANY_SMALL_FILES} or more base files below {format_bytes(limit)}, "
            f"the most {most:,} in {short_repr(path)}: a query opens each of them",
            "insert() and upsert(), which fill small files; bulk_insert() makes new ones",
            f"hoodie write {_TABLE} FILES",
        )


def _deep(table: TableSnapshot, config: HoodieWriteConfig) -> Iterator[Finding]:
    try:
        orphans = find_orphan_files(config)
    except HoodieException as error:
        yield Finding(FindingKind.ORPHANS, f"files could not be judged: {error}", "see the message")
    else:
        if orphans.files:
            yield Finding(
                FindingKind.ORPHANS,
                f"{plural(len(orphans.files), 'file')} that no commit explains, "
                f"{sum(file.is_visible for file in orphans.files)} of them visible to readers",
                "repair('orphans', backup_folder=...)",
                f"hoodie repair {_TABLE} orphans --backup FOLDER",
            )
    folders = bad_metafiles(table)
    if folders:
        problem = folders[0]
        yield Finding(
            FindingKind.PARTITION_METADATA,
            f"{plural(len(folders), 'folder')} of a bad metadata file, the first "
            f"{short_repr(problem.partition_path)} ({problem.problem}): listings leave such partitions out",
            "repair('partitions')",
            f"hoodie repair {_TABLE} partitions",
        )
    if table.table_config.metadata_partitions:
        validation = validate(config.base_path, storage_options=config.storage_options)
        for name, count in validation.difference_counts.items():
            anew = "a write with hoodie.metadata.enable=false deletes it, the next one with true builds it anew"
            yield Finding(
                FindingKind.METADATA_TABLE,
                f"{plural(count, 'difference')} between its partition {name} and the files; validate() lists them",
                validation.advice.get(name, anew),
                f"hoodie validate {_TABLE}",
            )
