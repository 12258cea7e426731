"""Withdrawal of a delta commit or a log compaction of a metadata table, as if it had never been written."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.table.compaction_plans import completed_log_compactions
from hoodie.common.table.planned_instant import delete_markers_after
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import is_after, is_before
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.log.log_block import HeaderMetadataType
from hoodie.io.log.log_file_reader import open_log_file
from hoodie.metadata.reader.metadata_table_files import LAST_INITIAL_TIME, REBUILD, MetadataTableFiles
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_path import join

logger = logging.getLogger(__name__)

_FIRST_SUFFIX = 10
"""The first suffix in the times of instants that built partitions, in table version 6."""
PENDING_KEY = "hoodie.metadata.pending.instants"
"""A key in the metadata of a build beside writers: the table's pending instants at that time, separated by commas."""
_DIGITS = 17
"""The length of an instant time of the table."""


def withdraw_delta_commit(files: MetadataTableFiles, instant_time: str) -> bool:
    """Delete a delta commit: its completed file, then the files that it wrote, then the instant.

    Its action in the table must be pending or unknown, so that readers ignore it throughout. Call this under the
    table's lock. Log compactions that may have merged it are withdrawn before: the log files that they replaced are
    still there.

    Args:
        files: The metadata table.
        instant_time: The delta commit; nothing happens if there is none.

    Returns:
        False if base files of the metadata table already hold its records, since a compaction or the build of a
        partition. Then nothing is deleted, and the metadata table must be built anew.

    Raises:
        HoodieCorruptedDataException: A log file holds records of other instants, too.
        HoodieIOException: Storage failed; call again.
    """
    timeline = files.snapshot.active_timeline
    instant = timeline.find(instant_time, Action.DELTA_COMMIT)
    # No base file of the metadata table holds records of an instant that is pending there.
    if (instant is None or instant.is_completed) and is_initial(files, instant_time):
        return False
    if instant is None:
        # An instant that was never recorded is in neither timeline.
        return not files.snapshot.archived_timeline.completed_writes().contains(instant_time)
    if instant.is_completed and is_compacted(files, instant_time):
        return False
    if instant.is_completed:
        for log_compaction in reversed(_log_compactions_after(files, instant)):
            withdraw_log_compaction(files, log_compaction.requested_time)
    paths = list(_files_of(files, instant_time))
    if instant.state is State.COMPLETED:
        timeline.revert_completed_to_inflight(instant_time, Action.DELTA_COMMIT)
    files.snapshot.storage.delete_files(paths)
    timeline.delete_pending(instant_time, Action.DELTA_COMMIT)
    return True


def withdraw_log_compaction(files: MetadataTableFiles, instant_time: str) -> None:
    """Delete a log compaction in any state: its completed file, then the log files that it wrote, then the instant.

    The log files that it replaced count again. Call this under the table's lock.

    Args:
        files: The metadata table.
        instant_time: The log compaction; if it is completed, no compaction has taken its log files.

    Raises:
        HoodieCorruptedDataException: A log file holds records of other instants, too.
        HoodieIOException: Storage failed; call again.
    """
    timeline, paths = files.snapshot.active_timeline, list(_files_of(files, instant_time))
    logger.warning("taking back log compaction %s of %s", instant_time, files.snapshot.base_path)
    timeline.revert_completed_to_inflight(instant_time, Action.LOG_COMPACTION)
    files.snapshot.storage.delete_files(paths)
    timeline.delete_pending(instant_time, Action.LOG_COMPACTION)
    delete_markers_after(files.snapshot, instant_time, f"log compaction {instant_time}")


def _log_compactions_after(files: MetadataTableFiles, instant: HoodieInstant) -> Sequence[HoodieInstant]:
    """The completed log compactions that may have merged a completed delta commit, the oldest first."""
    timeline = files.snapshot.active_timeline
    found = completed_log_compactions(timeline).after(instant.newest_time)
    return [one for one in found if one.requested_time != instant.requested_time]


def is_compacted(files: MetadataTableFiles, instant_time: str) -> bool:
    """Whether base files of the metadata table may hold the records of an instant.

    Args:
        files: The metadata table.
        instant_time: The instant.
    """
    timeline = files.snapshot.active_timeline
    found = timeline.find(instant_time, Action.DELTA_COMMIT)
    completed_at = instant_time if found is None or found.completion_time is None else found.completion_time
    return any(
        is_after(compaction.requested_time, completed_at)
        for compaction in timeline.filter_actions(Action.COMMIT).filter_completed_instants()
    )


def is_initial(files: MetadataTableFiles, instant_time: str) -> bool:
    """Whether a partition of the metadata table was built after an instant was completed.

    A build beside writers notes the instants that were pending then; all other instants requested before it were
    completed. Hudi may name the delta commit of a build by an indexing of the table.

    Args:
        files: The metadata table.
        instant_time: The instant.
    """
    timeline = files.snapshot.active_timeline
    found = timeline.find(instant_time, Action.DELTA_COMMIT)
    indexings = files.table.active_timeline.filter_actions(Action.INDEXING).times
    for built in timeline.filter_actions(Action.DELTA_COMMIT).filter_completed_instants():
        time = built.requested_time
        if timeline.layout.has_completion_times:
            is_of_build = is_before(time, LAST_INITIAL_TIME) or time in indexings
            recorded = instant_time if found is None else found.newest_time
            was_before = built.completion_time is not None and is_before(recorded, built.completion_time)
        else:
            # A build has the time of the last instant of the table, with more digits.
            has_suffix = len(time) > _DIGITS and int(time[_DIGITS:]) >= _FIRST_SUFFIX
            is_of_build = has_suffix or time in indexings
            was_before = not is_after(instant_time, time[:_DIGITS])
        if is_of_build and was_before and instant_time not in _pending_at(files, built):
            return True
    return False


def _pending_at(files: MetadataTableFiles, built: HoodieInstant) -> frozenset[str]:
    """The instants of the table that were pending when a partition was built beside writers."""
    noted = files.snapshot.active_timeline.read_commit_metadata(built).extra_metadata.get(PENDING_KEY, "")
    return frozenset(filter(None, noted.split(",")))


def _files_of(files: MetadataTableFiles, instant_time: str) -> Iterator[str]:
    """The paths of the files that only the given instant wrote."""
    snapshot = files.snapshot
    by_commit = snapshot.active_timeline.layout.has_completion_times
    for folder in snapshot.storage.list_directory(snapshot.base_path):
        if not folder.is_directory or folder.name.startswith("."):
            continue
        for file in snapshot.storage.list_directory(join(snapshot.base_path, folder.name)):
            base, log = parse_base_file_name(file.name), parse_log_file_name(file.name)
            if base is not None:
                is_wanted = base.instant_time == instant_time
            elif log is None:
                continue
            elif by_commit:
                is_wanted = log.instant_time == instant_time
            else:
                # A partition that was built beside writers may be newer than the request of such a writer.
                is_older = is_before(log.instant_time, instant_time) or len(log.instant_time) > _DIGITS
                is_wanted = is_older and _is_of_instant(files, file, instant_time)
            if is_wanted:
                yield file.path


def _is_of_instant(files: MetadataTableFiles, file: FileStatus, instant_time: str) -> bool:
    """Whether all blocks of a log file are of an instant; see `withdraw_delta_commit`."""
    with open_log_file(files.snapshot.storage, file.path) as reader:
        times = {block.headers.get(HeaderMetadataType.INSTANT_TIME) for block in reader.stored_blocks()}
    if instant_time in times and times != {instant_time}:
        raise HoodieCorruptedDataException(
            f"Cannot take back {instant_time} of {files.snapshot.base_path}: the log file {file.path} holds records of "
            f"{', '.join(sorted(str(time) for time in times - {instant_time}))}, too. {REBUILD}"
        )
    return times == {instant_time}
