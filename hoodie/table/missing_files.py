"""Find base files, and log files, that commits name and that are not there.

Readers list folders, and a listing does not show a file that was deleted by hand: its rows would silently be missing,
or an older version of the file would be read. The check costs a read nothing: it looks at the newest commit, whose
metadata the read has loaded for the schema. Only where a partition's folder has no base file left, and no known replace
explains that, the check reads all commits of the active timeline.

Log files of older commits are looked for where storage was listed: the view has read the commits that the listed log
files belong to. Where the whole table is read, a delta commit is read too if no file that was listed is its own and no
clean came after it. That is one without rows, or one whose files are gone::

    timeline   10.deltacommit  20.deltacommit  30.deltacommit
    listing    f_10.parquet                    .f_30.log.1       20 is read: it names .f_20.log.1

Hudi has no such check.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs

from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.fs.pending_overwrite import refuse_overwritten
from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.model.file_slice import HoodieFileGroupId
from hoodie.common.model.write_operation_type import HoodieTableType, WriteOperationType
from hoodie.common.table import table_metadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after, is_before, newest
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.exception import HoodieException, HoodieIOException
from hoodie.metadata.reader.metadata_listing import MetadataListing
from hoodie.storage.storage_path import join

logger = logging.getLogger(__name__)

_REPLACE_PARTITIONS = frozenset(
    {
        WriteOperationType.DELETE_PARTITION,
        WriteOperationType.INSERT_OVERWRITE,
        WriteOperationType.INSERT_OVERWRITE_TABLE,
    }
)
_DELETING_ACTIONS = (Action.CLEAN, Action.ROLLBACK, Action.RESTORE)


@attrs.frozen
class MissingFile:
    """A base file or log file that a completed commit names and no listing shows.

    Attributes:
        path: Relative to the table.
        partition_path: Its partition.
        name: Its name.
        instant_time: The instant of a base file; the commit of a log file.
        commit: The commit that names it.
    """

    path: str
    partition_path: str
    name: str
    instant_time: str
    commit: HoodieInstant


def known_partitions(snapshot: TableSnapshot, view: HoodieTableFileSystemView) -> list[str]:
    """The partitions of a table, sorted; includes those without a folder, as far as the newest commit names them.

    Raises:
        HoodieIOException: Storage failed.
    """
    commits = snapshot.commits_at_hand.values()
    return sorted({*view.list_partitions(), *(path for commit in commits for path in commit.partition_to_write_stats)})


def check_files(
    snapshot: TableSnapshot,
    view: HoodieTableFileSystemView,
    partitions: Sequence[str],
    *,
    needs_logs: bool = True,
    doing: str = "reading",
) -> None:
    """Refuse to read partitions that lack a newest base file of a file group, or a log file on top of it.

    Args:
        snapshot: The table, whose schema was loaded.
        view: The view of the same timeline; it has listed the existing partitions.
        partitions: The partitions that are read, out of `known_partitions`.
        needs_logs: Whether the log files of a merge-on-read table matter.
        doing: A name of the work, for error messages.

    Raises:
        HoodieIOException: See `find_missing_files`. A read that is planned while a clean, rollback or restore runs is
            planned again.
        HoodiePendingOverwriteException: A new table is taking the place of this one.
        HoodieCorruptedDataException: The metadata of a commit is damaged.
    """
    lost = find_missing_files(snapshot, view, partitions, needs_logs=needs_logs)
    if lost:
        _refuse(snapshot, view, lost, doing)


def find_missing_files(
    snapshot: TableSnapshot, view: HoodieTableFileSystemView, partitions: Sequence[str], *, needs_logs: bool = True
) -> list[MissingFile]:
    """The files of partitions that a commit names and that are not there.

    Files that a later write, replace, clean, rollback or restore replaced or deleted are none.

    Args:
        snapshot: The table, whose schema was loaded.
        view: See `check_files`.
        partitions: See `check_files`.
        needs_logs: See `check_files`.

    Raises:
        HoodieCorruptedDataException: The metadata of a commit is damaged.
        HoodieIOException: Storage failed.
    """
    versions: dict[HoodieFileGroupId, str] = {}
    logs: set[str] | None = None
    if needs_logs and snapshot.table_config.table_type is HoodieTableType.MERGE_ON_READ:
        groups = (group for path in set(view.list_partitions()) & {*partitions} for group in view.file_groups(path))
        logs = {log_file.path for group in groups for part in group.slices for log_file in part.log_files}
    empty = set()
    for partition in set(view.list_partitions()).intersection(partitions):
        files = view.latest_base_files(partition)
        versions |= {HoodieFileGroupId(partition, file.file_id): file.instant_time for file in files}
        if not files:
            empty.add(partition)
    replaced = view.replaced_file_groups()
    empty -= {group.partition_path for group in replaced}
    known = dict(snapshot.commits_at_hand)
    timeline = snapshot.active_timeline
    if empty:
        unknown = [instant for instant in timeline.completed_writes() if instant not in known]
        known.update(zip(unknown, table_metadata.map_concurrently(timeline.read_commit_metadata, unknown), strict=True))
    wanted = set(partitions)
    given_up = _given_up_partitions(known)
    missing = [
        file
        for instant, metadata in known.items()
        for file in (
            *_missing_files(instant, metadata, wanted, versions, replaced.keys()),
            *_missing_logs(snapshot, instant, metadata, wanted, versions, replaced.keys(), logs),
        )
    ]
    named = {file.path for file in missing}
    older = [
        file
        for file in _missing_older_logs(snapshot, view, wanted, versions, replaced.keys(), logs)
        if file.path not in named
    ]
    if older:
        missing += older
        replaces = timeline.filter_actions(Action.REPLACE_COMMIT, Action.CLUSTERING).filter_completed_instants()
        unknown = [instant for instant in replaces if instant not in known]
        metadata_of_replaces = table_metadata.map_concurrently(timeline.read_commit_metadata, unknown)
        given_up = _given_up_partitions({**known, **dict(zip(unknown, metadata_of_replaces, strict=True))})
    return [
        file
        for file in missing
        if is_after(file.commit.requested_time, given_up.get(file.partition_path, ""))
        and not _is_explained(file, timeline)
    ]


def _refuse(snapshot: TableSnapshot, view: HoodieTableFileSystemView, lost: Sequence[MissingFile], doing: str) -> None:
    """Raise for files that no listing showed, the newest one by name."""
    last = newest(file.instant_time for file in lost)
    file = next(file for file in lost if file.instant_time == last)
    path = join(snapshot.base_path, file.path)
    refuse_overwritten(snapshot.storage, path)
    where = f"{doing} {snapshot.base_path}: {path} of {file.commit.action} {file.commit.requested_time}"
    if not snapshot.storage.exists(path):
        raise HoodieIOException(
            f"{where} is not there, one of {len(lost)} files that commits name and that no instant of the "
            "timeline deleted, so rows would be missing. Restore the files from a copy, or the table to a savepoint "
            "before that commit. If the rows are lost for good, call insert_overwrite or delete_partitions for the "
            "partition. Reads with a filter that excludes the partition still work"
        )
    if file.partition_path not in view.list_partitions():
        raise HoodieIOException(
            f"{where} is there, but its partition '{file.partition_path}' is not seen, so rows would be missing: "
            ".hoodie_partition_metadata is missing from its folder, or is in a folder above it. Call "
            "repair_partition_metadata"
        )
    if _is_listed_by_metadata_table(view):
        raise HoodieIOException(
            f"{where} is there, but the metadata table of the table does not list it, so rows would be missing: read "
            "with hoodie.metadata.enable=false, and check the metadata table with hoodie.metadata.validate"
        )
    raise HoodieIOException(f"{where} is there now, but was not when its folder was listed. Read the table again")


def _is_listed_by_metadata_table(view: HoodieTableFileSystemView) -> bool:
    return isinstance(view.listing, MetadataListing) and not view.listing.has_failed


def _missing_files(
    instant: HoodieInstant,
    metadata: HoodieCommitMetadata,
    partitions: set[str],
    versions: Mapping[HoodieFileGroupId, str],
    replaced: Collection[HoodieFileGroupId],
) -> Iterator[MissingFile]:
    for stat in metadata.write_stats:
        group = HoodieFileGroupId(stat.partition_path, stat.file_id)
        name = (stat.path or "").rpartition("/")[2]
        parsed = parse_base_file_name(name)
        if parsed is None or stat.path is None or stat.partition_path not in partitions or group in replaced:
            continue
        found = versions.get(group)
        # A file without rows and without an older version holds nothing that could be missing.
        if (found is None and stat.num_writes > 0) or (found is not None and is_before(found, parsed.instant_time)):
            yield MissingFile(stat.path, stat.partition_path, name, parsed.instant_time, instant)


def _missing_logs(
    snapshot: TableSnapshot,
    instant: HoodieInstant,
    metadata: HoodieCommitMetadata,
    partitions: set[str],
    versions: Mapping[HoodieFileGroupId, str],
    replaced: Collection[HoodieFileGroupId],
    logs: Collection[str] | None,
) -> Iterator[MissingFile]:
    """The log files of an instant that were not listed; a later base file may have taken their rows.

    Beside a pending resize of buckets, Hudi writes each row twice: into its file group, and into that of the resize,
    whose log files nobody sees before it is completed.
    """
    replacing = snapshot.active_timeline.filter_actions(Action.REPLACE_COMMIT, Action.CLUSTERING).filter_pending().times
    for stat in metadata.write_stats if logs is not None else ():
        group = HoodieFileGroupId(stat.partition_path, stat.file_id)
        name = (stat.path or "").rpartition("/")[2]
        parsed = parse_log_file_name(name)
        if parsed is None or stat.path is None or stat.partition_path not in partitions or group in replaced:
            continue
        if stat.is_empty_log_file or parsed.instant_time in replacing:
            continue
        base = versions.get(group)
        # In layout 2 it is on top of a base file that was begun before it was completed.
        is_newest = base is None or is_before(base, instant.newest_time)
        if is_newest and logs is not None and join(snapshot.base_path, stat.path) not in logs:
            yield MissingFile(stat.path, stat.partition_path, name, instant.requested_time, instant)


def _missing_older_logs(
    snapshot: TableSnapshot,
    view: HoodieTableFileSystemView,
    partitions: set[str],
    versions: Mapping[HoodieFileGroupId, str],
    replaced: Collection[HoodieFileGroupId],
    logs: Collection[str] | None,
) -> Iterator[MissingFile]:
    """The log files of the slices that are read which commits name and storage has not listed.

    A log file counts where its name tells for certain that the slice is its own.
    """
    committed, timeline = view.committed_log_files, snapshot.active_timeline
    if logs is None or committed is None or _is_listed_by_metadata_table(view):
        return
    if partitions.issuperset(view.list_partitions()):
        committed.read_also(_commits_without_files(timeline, view, committed.read_before()))
    instants, names_own = timeline.visible_instants, timeline.layout.has_completion_times
    for commit, paths in committed.read_before().items():
        for path in sorted(paths):
            partition, _, name = path.rpartition("/")
            parsed = parse_log_file_name(name)
            if parsed is None or parsed.is_cdc or partition not in partitions:
                continue
            group = HoodieFileGroupId(partition, parsed.file_id)
            base = versions.get(group)
            if group in replaced or join(snapshot.base_path, path) in logs:
                continue
            if names_own:
                is_read = parsed.instant_time == commit.requested_time
            else:
                is_read = instants.has_visible_log_files(parsed.instant_time) and (
                    base is None or not is_before(parsed.instant_time, base)
                )
            if is_read and (base is None or is_before(base, commit.newest_time)):
                yield MissingFile(path, partition, name, commit.requested_time, commit)


def _commits_without_files(
    timeline: HoodieActiveTimeline, view: HoodieTableFileSystemView, known: Collection[HoodieInstant]
) -> list[HoodieInstant]:
    """Delta commits that no listed file belongs to, and whose files no clean can have deleted."""
    groups = (group for path in view.list_partitions() for group in view.all_file_groups(path))
    seen = {part.base_instant_time for group in groups for part in group.slices}
    cleans = timeline.filter_actions(Action.CLEAN).times
    last_clean = newest(cleans) or ""
    return [
        instant
        for instant in timeline.completed_writes()
        if instant.action is Action.DELTA_COMMIT
        and instant not in known
        and instant.requested_time not in seen
        and is_after(instant.requested_time, last_clean)
    ]


def _given_up_partitions(commits: Mapping[HoodieInstant, HoodieCommitMetadata]) -> dict[str, str]:
    """Partitions whose rows commits replaced as a whole, each with the newest such commit.

    These commits name the file groups that they saw, and so do not name groups whose files were gone already.
    """
    given_up: dict[str, str] = {}
    for instant, metadata in commits.items():
        if isinstance(metadata, HoodieReplaceCommitMetadata) and metadata.operation_type in _REPLACE_PARTITIONS:
            for partition in {*metadata.partition_to_replace_file_ids, *metadata.partition_to_write_stats}:
                given_up[partition] = newest([instant.requested_time, given_up.get(partition)]) or ""
    return given_up


def _is_explained(file: MissingFile, timeline: HoodieActiveTimeline) -> bool:
    """Whether the instant that took a file away may be on the timeline, or was on it.

    Only missing files need this check, so it may read much.
    """
    if timeline.is_archived_past(file.commit.requested_time):
        # A commit that was archived since may have replaced the file.
        return True
    deletions = timeline.filter_actions(*_DELETING_ACTIONS)
    if any(instant.action is not Action.CLEAN for instant in deletions.filter_pending()):
        return True
    for instant in deletions.filter_completed_instants().after_or_on(file.commit.requested_time):
        try:
            # The metadata contains file names as plain text.
            if file.name.encode() in timeline.read_details(instant):
                return True
        except HoodieException as error:
            logger.info("what %s deleted is not known: %s", instant, error)
            return True
    return False
