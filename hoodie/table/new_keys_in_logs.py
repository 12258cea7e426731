"""Find file groups that may have keys in log files which their base file lacks.

hoodie and Hudi's Spark writers put new records into base files, unless the index finds them in log files: then the
statistics of the log file tell how many there are. Other engines do so always.

A log file that was written while a compaction was pending may have such keys too: its writer found them in the older
base file, and the compaction left them out, because a log file of its plan deletes them.

Hudi has no such check: its indexes of base files miss such keys, and store them a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice, HoodieLogFile
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import in_order, is_before, oldest
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlockType
from hoodie.io.log.log_file_reader import open_log_file
from hoodie.storage.storage_path import join

_DATA_BLOCKS = (HoodieLogBlockType.AVRO_DATA, HoodieLogBlockType.PARQUET_DATA, HoodieLogBlockType.HFILE_DATA)


def groups_with_new_keys(snapshot: TableSnapshot, slices: Iterable[FileSlice]) -> frozenset[tuple[str, str]]:
    """Partition path and file id of these groups; among them those of which it is not known.

    The metadata of the delta commits is read that wrote the log files.

    Args:
        snapshot: The table.
        slices: The latest file slices.

    Raises:
        HoodieCorruptedDataException: The metadata of a commit is damaged.
        HoodieIOException: Storage failed.
    """
    with_logs = [part for part in slices if not part.is_base_file_alone]
    if not with_logs:
        return frozenset()
    timeline = snapshot.active_timeline
    commits = timeline.filter_actions(Action.DELTA_COMMIT).filter_completed_instants().instants
    if timeline.layout.has_completion_times:
        times = {log_file.instant_time for part in with_logs for log_file in part.record_log_files}
        commits = tuple(instant for instant in commits if instant.requested_time in times)
    else:
        first = oldest(part.base_instant_time for part in with_logs)
        commits = tuple(i for i in commits if first is None or not is_before(i.requested_time, first))
    stats = _Stats(snapshot, commits)
    bases = _Bases(snapshot)

    def may_have_new_keys(part: FileSlice, log_file: HoodieLogFile) -> bool:
        stat = stats.of(log_file)
        if stat is None:
            # A log file that no commit names may hold anything.
            return stats.has_records(log_file)
        return stat.num_inserts > 0 or bases.may_be_unseen(part, log_file, stat)

    return frozenset(
        (part.partition_path, part.file_id)
        for part in with_logs
        if any(may_have_new_keys(part, log_file) for log_file in part.record_log_files)
    )


class _Stats:
    """The statistics of log files in commits.

    Args:
        snapshot: The table.
        commits: Active commits, which are read at once. The archive is read only for log files that they do not name.
    """

    def __init__(self, snapshot: TableSnapshot, commits: Sequence[HoodieInstant]) -> None:
        self._snapshot = snapshot
        self._has_completion_times = snapshot.active_timeline.layout.has_completion_times
        self._stats: dict[str, HoodieWriteStat] = {}
        self._archived: set[str] = set()
        for metadata in map_concurrently(snapshot.active_timeline.read_commit_metadata, commits):
            self._add(metadata)

    def of(self, log_file: HoodieLogFile) -> HoodieWriteStat | None:
        """The statistics of a log file; None if no commit names it.

        Args:
            log_file: A log file of a latest slice.
        """
        if log_file.path not in self._stats:
            for time in in_order(self._record_instants(log_file)):
                self._read_archived(time)
        return self._stats.get(log_file.path)

    def has_records(self, log_file: HoodieLogFile) -> bool:
        """Whether readers see records in it, and not only what was taken back, and the block that took it back.

        Args:
            log_file: A log file that no commit names.
        """
        return bool(self._record_instants(log_file))

    def _record_instants(self, log_file: HoodieLogFile) -> set[str]:
        """The instants of blocks of records that count."""
        if self._has_completion_times:
            return {log_file.instant_time}
        instants = self._snapshot.active_timeline.visible_instants
        with open_log_file(self._snapshot.storage, log_file.path) as reader:
            blocks = [block for block in reader.stored_blocks() if block.block_type in _DATA_BLOCKS]
        times = {block.headers.get(HeaderMetadataType.INSTANT_TIME) or "" for block in blocks}
        return {time for time in times if instants.is_committed(time)}

    def _read_archived(self, time: str) -> None:
        if time in self._archived or self._snapshot.active_timeline.find(time) is not None:
            return
        self._archived.add(time)
        archive = self._snapshot.archived_timeline
        instant = archive.completed_writes().find(time)
        if instant is not None:
            self._add(archive.read_commit_metadata(instant))

    def _add(self, metadata: HoodieCommitMetadata) -> None:
        for stat in metadata.write_stats:
            if stat.is_log_file and stat.path:
                self._stats[join(self._snapshot.base_path, stat.path)] = stat


class _Bases:
    """Tells whether the writer of a log file saw the base file of its slice.

    Args:
        snapshot: The table.
    """

    def __init__(self, snapshot: TableSnapshot) -> None:
        self._snapshot = snapshot
        self._has_completion_times = snapshot.active_timeline.layout.has_completion_times
        self._completed: dict[str, str | None] = {}

    def may_be_unseen(self, part: FileSlice, log_file: HoodieLogFile, stat: HoodieWriteStat) -> bool:
        """Whether the base file was perhaps not completed when the writer of a log file looked its keys up.

        Args:
            part: The slice.
            log_file: One of its log files.
            stat: Its statistics in the commit.
        """
        if part.base_file is None:
            return True
        if not self._has_completion_times:
            # The statistics name the base file of the slice, if there was one.
            return not stat.base_file
        completed = self._completion_of(part.base_file.instant_time)
        return completed is None or is_before(log_file.instant_time, completed)

    def _completion_of(self, instant_time: str) -> str | None:
        if instant_time not in self._completed:
            found = self._snapshot.active_timeline.completed_writes().find(instant_time)
            if found is None:
                found = self._snapshot.archived_timeline.completed_writes().find(instant_time)
            self._completed[instant_time] = None if found is None else found.completion_time
        return self._completed[instant_time]
