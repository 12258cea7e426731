"""Find the files that an instant wrote: those that it announced by markers, and those that a listing shows.

Base files tell their instant by their names, and so do log files of versions 8 and 9. A log file of version 6 tells the
base instant of its slice::

    slice 10   f_0-1-1_10.parquet   .f_10.log.1 of 12   .f_10.log.2 of 15      the blocks tell 12 and 15

so its blocks are looked at, unless another completed commit names the file.

Hudi: org.apache.hudi.table.action.rollback.{MarkerBasedRollbackStrategy, ListingBasedRollbackStrategy}. Differs: of a
merge-on-read table, finds by listing what has no marker, too. In versions 8 and 9 a base file that is left hides log
files from Hudi for ever; in version 6 blocks that are left count as soon as the timeline is archived past them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator

import attrs

from hoodie.common.fs.file_names import LogFileName, parse_base_file_name, parse_log_file_name
from hoodie.common.model.write_operation_type import HoodieTableType, IOType
from hoodie.common.table.marker.write_markers import Marker
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.exception import HoodieCorruptedDataException, HoodieMissingFileException, HoodieNotSupportedException
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlockType, StoredLogBlock
from hoodie.io.log.log_file_reader import open_log_file
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_path import join

logger = logging.getLogger(__name__)

COMPACTIONS = frozenset({Action.COMPACTION, Action.LOG_COMPACTION})


@attrs.frozen
class InstantFile:
    """A file with something of an instant in it.

    Attributes:
        path: Its full path.
        partition_path: Its partition.
        file_id: Its file group.
        base_instant: The instant of a base file, or the instant in the name of a log file.
        log_bytes: The size of a log file of version 6 whose blocks are taken back, since its slice is older than the
            instant. None for a file that goes as a whole.
    """

    path: str
    partition_path: str
    file_id: str
    base_instant: str
    log_bytes: int | None = None


@attrs.frozen
class StoredLogFile:
    """A log file of version 6 in a listing."""

    partition_path: str
    name: LogFileName
    status: FileStatus

    @property
    def slice_key(self) -> tuple[str, str, str]:
        """Partition path, file id and base instant of its slice."""
        return self.partition_path, self.name.file_id, self.name.instant_time


class InstantFiles:
    """Finds the files of one instant.

    Args:
        snapshot: The table.
        instant_time: The instant.
        is_compaction: Whether it is a compaction: log files with its time in their names are of delta commits.
    """

    def __init__(self, snapshot: TableSnapshot, instant_time: str, *, is_compaction: bool = False) -> None:
        self._snapshot = snapshot
        self._time = instant_time
        self._is_compaction = is_compaction

    @property
    def must_be_listed(self) -> bool:
        """Whether markers alone do not tell all that matters."""
        return self._snapshot.table_config.table_type is HoodieTableType.MERGE_ON_READ

    def announced(self, markers: Iterable[Marker]) -> list[InstantFile]:
        """The files that go as a whole, as markers tell; they may not be there.

        Args:
            markers: The markers of the instant.
        """
        found = []
        for marker in markers:
            path = join(self._snapshot.base_path, marker.partition_path, marker.file_name)
            name = parse_base_file_name(marker.file_name) or parse_log_file_name(marker.file_name)
            if name is not None and name.instant_time == self._time and not self._is_slice_of_others(name):
                found.append(InstantFile(path, marker.partition_path, name.file_id, self._time))
        return found

    def listed(self, markers: Iterable[Marker] = ()) -> list[InstantFile]:
        """The files that a listing shows, sorted by path.

        Args:
            markers: The markers of the instant. Log files that they announce are looked at even if other commits name
                them, too.

        Raises:
            HoodieIOException: Storage failed.
        """
        announced = list(markers)
        metadata = self._snapshot.table_metadata
        partitions = sorted({*metadata.list_partitions(), *(marker.partition_path for marker in announced)})
        found: list[InstantFile] = []
        others: list[StoredLogFile] = []
        for partition_path, statuses in metadata.list_files_of(partitions).items():
            for status in statuses:
                base, log = parse_base_file_name(status.name), parse_log_file_name(status.name)
                name = base or log
                if name is None:
                    continue
                if name.instant_time == self._time:
                    if not self._is_slice_of_others(name):
                        found.append(InstantFile(status.path, partition_path, name.file_id, self._time))
                elif log is not None and not log.is_cdc:
                    others.append(StoredLogFile(partition_path, log, status))
        if not self._is_compaction and not self._snapshot.active_timeline.layout.has_completion_times:
            found += self._with_blocks(others, announced)
        return sorted(found, key=lambda file: file.path)

    def _is_slice_of_others(self, name: object) -> bool:
        """Whether a log file is in the slice that a compaction is making: delta commits wrote it."""
        return self._is_compaction and isinstance(name, LogFileName)

    def _with_blocks(self, files: list[StoredLogFile], announced: Collection[Marker]) -> Iterator[InstantFile]:
        """Select the log files that hold blocks of the instant."""
        appended = [marker for marker in announced if marker.io_type is IOType.APPEND]
        paths = {(marker.partition_path, marker.file_name) for marker in appended}
        slices = set()
        for marker in appended:
            # Hudi 0.14 announces a log file by the name of its slice's base file.
            base = parse_base_file_name(marker.file_name)
            if base is not None:
                slices.add((marker.partition_path, base.file_id, base.instant_time))
        known = self._named_by_others() if files else frozenset()
        looked_at = [
            file
            for file in files
            if (file.partition_path, file.status.name) in paths
            or file.slice_key in slices
            or join(file.partition_path, file.status.name).lstrip("/") not in known
        ]
        storage = self._snapshot.storage
        instants = map_concurrently(lambda file: instants_in(storage, file.status.path), looked_at)
        for file, inside in zip(looked_at, instants, strict=True):
            if self._time in inside:
                partition_path, file_id, base_instant = file.slice_key
                yield InstantFile(file.status.path, partition_path, file_id, base_instant, file.status.size_bytes)

    def _named_by_others(self) -> frozenset[str]:
        """Relative paths of the files that other completed commits wrote."""
        timeline = self._snapshot.active_timeline
        others = [commit for commit in timeline.completed_writes() if commit.requested_time != self._time]
        named: set[str] = set()
        for paths in map_concurrently(lambda commit: _paths_of(self._snapshot, commit), others):
            named |= paths
        return frozenset(named)


def instants_in(storage: HoodieStorage, path: str) -> frozenset[str]:
    """The instants whose rows or deletes are in a log file; none of a file that is gone or cannot be read.

    Args:
        storage: The storage of the file.
        path: Its full path.

    Raises:
        HoodieIOException: Storage failed.
    """
    blocks = [block for block in stored_blocks(storage, path) if block.block_type is not HoodieLogBlockType.COMMAND]
    times = (block.headers.get(HeaderMetadataType.INSTANT_TIME) for block in blocks)
    return frozenset(time for time in times if time is not None)


def stored_blocks(storage: HoodieStorage, path: str) -> list[StoredLogBlock]:
    """The blocks of a log file without their contents; none of a file that is gone or cannot be read.

    Raises:
        HoodieIOException: Storage failed.
    """
    found: list[StoredLogBlock] = []
    try:
        with open_log_file(storage, path) as reader:
            found.extend(reader.stored_blocks())
    except HoodieMissingFileException:
        return []
    except (HoodieCorruptedDataException, HoodieNotSupportedException) as error:
        # Readers fail at the same place, and so do not see what follows.
        logger.warning("%s is not read to its end, which matters only if its slice is read: %s", path, error)
    return found


def _paths_of(snapshot: TableSnapshot, commit: HoodieInstant) -> frozenset[str]:
    """Relative paths of the files that a commit wrote; none of a commit whose metadata is damaged."""
    try:
        stats = snapshot.active_timeline.read_commit_metadata(commit).write_stats
    except HoodieCorruptedDataException as error:
        logger.warning("what %s of %s wrote is not known: %s", commit, snapshot.base_path, error)
        return frozenset()
    return frozenset(str(stat.path).lstrip("/") for stat in stats if stat.path)
