"""The files of a table at one of its instants, and whether all of them are still there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from hoodie.avro.timeline_metadata import HoodieRollbackPlan
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_stat import NULL_COMMIT
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.archived_timeline import HoodieArchivedTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import in_order, is_after
from hoodie.exception import HoodieCommitException, HoodieException
from hoodie.storage.storage_path import file_name

FileGroups = set[tuple[str, str]]
"""Of (partition path, file id)."""
LOG_FILES = "log files"
"""Instead of an instant: the version of a file group has no base file."""


def pending_rollback_plan(timeline: HoodieActiveTimeline, rollback: HoodieInstant) -> HoodieRollbackPlan | None:
    """The plan of a pending rollback.

    Args:
        timeline: The table's timeline, freshly loaded.
        rollback: One of its pending rollbacks.

    Returns:
        The plan; None for a rollback whose requested file is empty: Hudi makes its files before it fills them, and the
        writer died in between. No file is deleted before a rollback is inflight, so this rollback has done nothing.

    Raises:
        HoodieCorruptedDataException: The plan is damaged; it is named.
        HoodieIOException: Storage failed, or the rollback has ended since.
    """
    requested = rollback.in_state(State.REQUESTED)
    content = timeline.read_details(requested)
    if not content and rollback.is_requested:
        return None
    return timeline.layout.decode(content, HoodieRollbackPlan, timeline.path_of(requested))


def being_rolled_back(timeline: HoodieActiveTimeline) -> set[str]:
    """Instant times that pending rollbacks are about to undo; some of the instants may still be completed.

    Args:
        timeline: The table's timeline, freshly loaded.

    Raises:
        HoodieCorruptedDataException: A plan is damaged; it is named.
        HoodieIOException: Storage failed, or a rollback has ended since.
    """
    found = set()
    for rollback in timeline.filter_actions(Action.ROLLBACK).filter_pending():
        plan = pending_rollback_plan(timeline, rollback)
        if plan is not None and plan.instant_to_rollback is not None:
            found.add(plan.instant_to_rollback.commit_time)
    return found


def refuse_pending_restore(
    snapshot: TableSnapshot,
    consequence: str = "finish it first",
    error: type[HoodieException] = HoodieCommitException,
) -> None:
    """Refuse to go on where a restore is not finished.

    Args:
        snapshot: The table, just loaded.
        consequence: The consequence for the caller, as the end of the message.
        error: The class of the error.

    Raises:
        HoodieCommitException: A restore is pending.
    """
    restore = snapshot.active_timeline.filter_actions(Action.RESTORE).filter_pending().first_instant
    if restore is not None:
        raise error(f"restore {restore.requested_time} of {snapshot.base_path} is pending: {consequence}")


def files_at(snapshot: TableSnapshot, instant_time: str) -> dict[str, tuple[str, ...]]:
    """Partition path to the names of the files that readers of an instant read.

    Of each file slice, in the order of their base files, first the base file, then the log files, the newest first. In
    version 6 these are all log files of the slice: only their blocks tell what is newer than the instant.

    Args:
        snapshot: The table, its timeline freshly loaded.
        instant_time: A completed instant.
    """
    view = snapshot.stored_view()
    found = {}
    for path in view.load_all_partitions():
        slices = [names_of(part) for part in view.latest_file_slices_before_or_on(path, instant_time)]
        found[path] = tuple(name for names in sorted(slices) for name in names)
    return {path: names for path, names in found.items() if names}


def names_of(file_slice: FileSlice) -> list[str]:
    """The names of the files of a slice: the base file, then the log files, the newest first.

    Args:
        file_slice: The slice; its log files are in order.
    """
    base = [] if file_slice.base_file is None else [file_slice.base_file.file_name]
    return base + [log_file.file_name for log_file in reversed(file_slice.log_files)]


def missing_at(snapshot: TableSnapshot, instant_time: str) -> list[str]:
    """File groups whose version of an instant was cleaned, as ``<partition path>/<file id>``.

    Every later version of a file group names the version before it, and every replace commit names the groups that it
    replaced. Versions that are named so must be there, if they are of the instant or older. A version is a base file
    with the log files on top of it, which are cleaned together, or log files alone. Of the latter, commits tell less.

    Args:
        snapshot: The table, its timeline freshly loaded.
        instant_time: A completed instant.
    """
    versions: dict[str, dict[str, set[str]]] = {}
    wanted: dict[str, dict[str, str | None]] = defaultdict(dict)
    created: FileGroups = set()
    untold: FileGroups = set()
    in_logs: FileGroups = set()
    # Log files of version 6 name the slice of such a compaction, which has no base file yet.
    pending = snapshot.active_timeline.visible_instants.pending_compactions
    for metadata in _writes_after(snapshot, instant_time):
        for stat in metadata.write_stats:
            group = (stat.partition_path, stat.file_id)
            is_log = stat.path is not None and parse_log_file_name(file_name(stat.path)) is not None
            before = stat.version_before
            if before in (NULL_COMMIT, "") and metadata.compacted:
                wanted[stat.partition_path].setdefault(stat.file_id, None)
                untold.add(group)
            elif before in (NULL_COMMIT, ""):
                created.add(group)
            elif before not in pending and not is_after(before, instant_time):
                wanted[stat.partition_path].setdefault(stat.file_id, before)
                if metadata.compacted or (is_log and not stat.base_file):
                    in_logs.add(group)
            elif is_log:
                # Versions 8 and 9: a log file names its own commit.
                untold.add(group)
        for partition_path, file_id in metadata.replaced_file_groups:
            wanted[partition_path].setdefault(file_id, None)
    unchanged = {
        (path, file_id)
        for path, groups in wanted.items()
        for file_id, version in groups.items()
        if version is None and (path, file_id) not in created
    }
    last = last_versions(snapshot, unchanged, instant_time)
    missing = []
    for partition_path, groups in sorted(wanted.items()):
        versions[partition_path] = snapshot.table_metadata.list_versions(partition_path)
        for file_id, given in sorted(groups.items()):
            stored = versions[partition_path].get(file_id, set())
            version = given or last.get((partition_path, file_id))
            if version is None:
                # Nothing tells when it was last written: any version of the instant or older counts as the last one.
                is_there = (partition_path, file_id) in created | untold
                is_there = is_there or not all(is_after(time, instant_time) for time in stored)
            elif version == LOG_FILES:
                is_there = _has_log_files(snapshot, partition_path, file_id, instant_time)
            else:
                is_there = version in stored
                if not is_there and (partition_path, file_id) in in_logs:
                    is_there = _began_in_logs(snapshot, partition_path, file_id, version)
            if not is_there:
                missing.append(f"{partition_path}/{file_id}".lstrip("/"))
    return missing


def last_versions(snapshot: TableSnapshot, groups: FileGroups, instant_time: str) -> dict[Any, str]:
    """The instants that wrote the last versions of file groups, up to an instant.

    Older versions may be there though the last one was cleaned, since savepoints hold them.

    Args:
        snapshot: The table, its timeline freshly loaded.
        groups: The file groups.
        instant_time: Later instants do not count.

    Returns:
        File group to the instant of its base file, or `LOG_FILES` if it has log files only; without groups that no
        instant names, active or archived.
    """
    found: dict[Any, str] = {}
    logged: FileGroups = set()
    if not groups:
        return found

    def note(time: str, metadata: HoodieCommitMetadata) -> None:
        for stat in metadata.write_stats:
            group = (stat.partition_path, str(stat.file_id))
            if group not in groups:
                continue
            if stat.path and parse_log_file_name(file_name(stat.path)) is not None:
                logged.add(group)
            else:
                found.setdefault(group, time)

    active = snapshot.active_timeline
    completed = active.completed_before_or_on(instant_time)
    newest_archived = active.newest_archived_time() or ""
    for instant in reversed(completed.after(newest_archived).instants):
        note(instant.requested_time, active.read_commit_metadata(instant))
    if found.keys() == groups:
        return found
    # Commits in the archive may be younger than those that savepoints hold, or held until just now.
    archived = snapshot.archived_timeline
    older: dict[str, tuple[HoodieActiveTimeline | HoodieArchivedTimeline, HoodieInstant]] = {
        instant.requested_time: (archived, instant) for instant in archived.completed_before_or_on(instant_time)
    }
    older |= {instant.requested_time: (active, instant) for instant in completed.before_or_on(newest_archived)}
    for time in reversed(in_order(older)):
        if found.keys() == groups:
            break
        timeline, instant = older[time]
        note(time, timeline.read_commit_metadata(instant))
    return dict.fromkeys(logged, LOG_FILES) | found


def _has_log_files(snapshot: TableSnapshot, partition_path: str, file_id: str, instant_time: str) -> bool:
    """Whether a file group has log files whose names hold an instant or an older one."""
    for status in snapshot.table_metadata.list_files(partition_path):
        name = parse_log_file_name(status.name)
        if name is not None and name.file_id == file_id and not is_after(name.instant_time, instant_time):
            return True
    return False


def _began_in_logs(snapshot: TableSnapshot, partition_path: str, file_id: str, version: str) -> bool:
    """Whether a version of a file group has no base file, and its first log file is there.

    A clean that is at work, or died, leaves log files on top of a base file that it deleted.
    """
    for status in snapshot.table_metadata.list_files(partition_path):
        name = parse_log_file_name(status.name)
        if name is not None and name.file_id == file_id and name.instant_time == version:
            break
    else:
        return False
    # In version 6 all log files of a slice have the instant of its base file in their names.
    timeline: HoodieActiveTimeline | HoodieArchivedTimeline = snapshot.active_timeline
    found = _completed(timeline, version)
    if found is None:
        timeline = snapshot.archived_timeline
        found = _completed(timeline, version)
    if found is None:
        return True
    stats = timeline.read_commit_metadata(found).write_stats
    return not any(
        (stat.partition_path, stat.file_id) == (partition_path, file_id)
        and stat.path is not None
        and parse_log_file_name(file_name(stat.path)) is None
        for stat in stats
    )


def _completed(timeline: HoodieActiveTimeline | HoodieArchivedTimeline, instant_time: str) -> HoodieInstant | None:
    """A completed write."""
    return next((i for i in timeline.completed_writes() if i.requested_time == instant_time), None)


def _writes_after(snapshot: TableSnapshot, instant_time: str) -> Iterator[HoodieCommitMetadata]:
    """Metadata of the completed writes after an instant, oldest first, archived ones included."""
    active = snapshot.active_timeline
    later = active.completed_after(instant_time)
    if active.is_archived_past(instant_time):
        archived = snapshot.archived_timeline
        for instant in archived.completed_after(instant_time):
            if not later.contains(instant.requested_time):
                yield archived.read_commit_metadata(instant)
    for instant in later:
        yield active.read_commit_metadata(instant)
