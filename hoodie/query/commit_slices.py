"""The file slices of an incremental query, with the rows that its commits wrote.

Without log files, they are the newest files that the commits of the range wrote. With log files, they are the slices
that the file groups had at the end of the range::

    commits        base 10     log 12     log 14     compaction 20
    range (10, 12] slice 10 with log 12: rows of commit 12, merged with older rows as of then

Files of commits after the end are left out, and so are blocks of such commits in log files of version 6.

Hudi: org.apache.hudi.{MergeOnReadIncrementalRelation, MergeOnReadIncrementalRelationV2}.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence

from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import newest
from hoodie.common.table.timeline.timeline_listing import completion_times
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.exception import HoodieIOException
from hoodie.query.commit_range import CommitRange, completion_of, last_archived
from hoodie.storage.storage_path import file_name, join
from hoodie.table.table_state import missing_at

_FULL_SCAN = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"

Files = Mapping[HoodieFileGroupId, Mapping[str, HoodieInstant]]
"""File groups to the paths of files that were written to them, each with the commit that wrote it."""


def instants_at_end(snapshot: TableSnapshot, commits: CommitRange) -> VisibleInstants:
    """The instants that readers saw at the end of a range.

    Args:
        snapshot: The table.
        commits: The range.
    """
    timeline = snapshot.active_timeline
    if not commits.unseen:
        return timeline.visible_instants
    # Log files may belong to the slice of a compaction that was requested and not completed.
    completed = timeline.filter_actions(Action.COMMIT).before_or_on(commits.end or "").times
    return timeline.visible_instants.without(commits.unseen, commits.unseen & completed)


def slices_of_commits(snapshot: TableSnapshot, commits: CommitRange) -> list[FileSlice]:
    """The slice of each file group at the end of a range, if commits of the range wrote to it and none replaced it.

    Args:
        snapshot: The table.
        commits: The range.

    Raises:
        HoodieIOException: Commits of the range are archived, or their files were cleaned.
        HoodieCorruptedDataException: The metadata of a commit is damaged.
    """
    if not commits.is_complete:
        earliest = last_archived(snapshot, commits.begin or "", by_completion=commits.is_named)
        raise HoodieIOException(
            f"reading {snapshot.base_path} {commits}: commits of the range are archived. "
            + _advice(earliest, not commits.is_named)
        )
    written = read_metadata(snapshot, commits.instants)
    files = _files_of(snapshot, written)
    if snapshot.table_config.table_type == HoodieTableType.MERGE_ON_READ:
        return _slices_at_end(snapshot, commits, files)
    newest_files = {group: list(paths.items())[-1] for group, paths in files.items()}
    exist = map_concurrently(snapshot.storage.exists, [path for path, _ in newest_files.values()])
    missing_files = [found for found, exists in zip(newest_files.values(), exist, strict=True) if not exists]
    if missing_files:
        raise _cleaned_files_error(snapshot, commits, missing_files)
    sizes = {
        join(snapshot.base_path, stat.path): stat.file_size_bytes
        for metadata in written.values()
        for stat in metadata.write_stats
        if stat.path
    }
    return [
        FileSlice.of_base_file(group.partition_path, path, sizes[path])
        for group, (path, _) in sorted(newest_files.items())
    ]


def read_metadata(
    snapshot: TableSnapshot, instants: Sequence[HoodieInstant]
) -> dict[HoodieInstant, HoodieCommitMetadata]:
    """The metadata of commits, in their order; some may be archived.

    Args:
        snapshot: The table.
        instants: Completed commits.

    Raises:
        HoodieCorruptedDataException: The metadata of a commit is damaged.
        HoodieIOException: Storage failed.
    """
    timeline = snapshot.active_timeline
    completed = frozenset(timeline.completed_writes())
    active = [instant for instant in instants if instant in completed]
    read = dict(zip(active, map_concurrently(timeline.read_commit_metadata, active), strict=True))
    return {
        instant: read[instant] if instant in read else snapshot.archived_timeline.read_commit_metadata(instant)
        for instant in instants
    }


def _files_of(snapshot: TableSnapshot, written: Mapping[HoodieInstant, HoodieCommitMetadata]) -> Files:
    """The files that commits wrote to file groups: the newest base file, and log files after it; not of
    replaced groups.

    A log file of version 6 names its base file, which may be older than the commits. It is in the result, too. Later
    versions may name one that a compaction has replaced since.
    """
    has_times = snapshot.active_timeline.layout.has_completion_times
    replaced = {HoodieFileGroupId(*group) for metadata in written.values() for group in metadata.replaced_file_groups}
    found: dict[HoodieFileGroupId, dict[str, HoodieInstant]] = {}
    for instant, metadata in written.items():
        for stat in metadata.write_stats:
            group = HoodieFileGroupId(stat.partition_path, stat.file_id)
            if not stat.path or group in replaced:
                continue
            files = found.setdefault(group, {})
            if parse_log_file_name(file_name(stat.path)) is None:
                files.clear()
            elif stat.base_file and not has_times:
                files.setdefault(join(snapshot.base_path, stat.partition_path, stat.base_file), instant)
            files[join(snapshot.base_path, stat.path)] = instant
    return found


def _slices_at_end(snapshot: TableSnapshot, commits: CommitRange, files: Files) -> list[FileSlice]:
    """The slices of file groups at the end of a range.

    Args:
        snapshot: The table.
        commits: The range.
        files: The file groups with the files that they must have.

    Raises:
        HoodieIOException: Files were cleaned.
    """
    view = snapshot.view(instants_at_end(snapshot, commits))
    partitions = sorted({group.partition_path for group in files}.intersection(view.list_partitions()))
    view.load_partitions(partitions)
    slices = {
        HoodieFileGroupId(partition, file_slice.file_id): file_slice
        for partition in partitions
        for file_slice in view.latest_file_slices(partition)
    }
    existing_files = {
        file.path
        for partition in partitions
        for group in view.file_groups(partition)
        for part in group.slices
        for file in part.record_files
    }
    missing = [
        (path, instant) for paths in files.values() for path, instant in paths.items() if path not in existing_files
    ]
    # If no instant time is known for the end, the table as of the last commit of the range has at least its files.
    at = commits.table_at or newest(instant.requested_time for instant in commits.instants)
    if not missing and commits.unseen and at is not None:
        # A base file that is older than the range is in no metadata of the commits.
        cleaned = frozenset(missing_at(snapshot, at))
        names = {group: f"{group.partition_path}/{group.file_id}".lstrip("/") for group in files}
        missing = [list(files[group].items())[-1] for group, name in names.items() if name in cleaned]
    if missing:
        raise _cleaned_files_error(snapshot, commits, missing)
    return [slices[group] for group in sorted(files)]


def _cleaned_files_error(
    snapshot: TableSnapshot, commits: CommitRange, cleaned: Sequence[tuple[str, HoodieInstant]]
) -> HoodieIOException:
    """The error for files of a range that were cleaned, with the commits that wrote them."""
    timeline = snapshot.active_timeline
    times = [instant.requested_time for _, instant in cleaned]
    if timeline.layout.has_completion_times:
        times = [completion_of(instant) for _, instant in cleaned]
    elif commits.is_named:
        ends = completion_times(timeline.storage, timeline.meta_path, timeline.layout, timeline.timezone)
        times = [ends.get(time, time) for time in times]
    return HoodieIOException(
        f"reading {snapshot.base_path} {commits}: {len(cleaned)} files of the range were cleaned, {cleaned[0][0]} the "
        "first, so rows would be missing. "
        + _advice(newest(times), timeline.layout.has_completion_times or not commits.is_named)
    )


def _advice(earliest: str | None, can_read_table: bool) -> str:
    """The advice for a range whose rows are not all stored any more.

    Args:
        earliest: The earliest time at which the range can begin.
        can_read_table: Whether the rows of the range can be read from the whole table.
    """
    scan = ""
    if can_read_table:
        scan = f", or set {_FULL_SCAN}=true to read the whole table and take the rows of the range"
    return (
        f"Begin at {earliest} or later{scan}; cleans and archiving keep more with hoodie.cleaner.commits.retained and "
        "hoodie.keep.min.commits"
    )


def only_matching(slices: Iterable[FileSlice], glob: str | None) -> list[FileSlice]:
    """The slices with a file whose path ends as a glob demands; ``*`` matches slashes too, and ``{a,b}`` either part.

    Args:
        slices: The slices.
        glob: The glob; None for all.

    Hudi: hoodie.datasource.read.incr.path.glob, org.apache.hadoop.fs.GlobPattern.
    """
    if glob is None:
        return list(slices)
    # Hadoop's globs negate a set of characters by ^ and by !.
    globs = [part.replace("[^", "[!") for part in _alternatives(glob)]
    patterns = [re.compile(fnmatch.translate(f"*{part}")) for part in globs]
    return [s for s in slices if any(pattern.fullmatch(path) for pattern in patterns for path in _paths(s))]


def _paths(file_slice: FileSlice) -> list[str]:
    return [file.path for file in file_slice.record_files]


def _alternatives(glob: str) -> list[str]:
    """A glob without braces for each choice of its braces."""
    match = re.search(r"\{([^{}]*)\}", glob)
    if match is None:
        return [glob]
    choices = match.group(1).split(",")
    return [one for choice in choices for one in _alternatives(glob[: match.start()] + choice + glob[match.end() :])]
