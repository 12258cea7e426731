"""The bytes that completed instants wrote to log files: they tell damaged files from leftovers of dead writers.

Commit metadata has the range of the bytes that a commit wrote to a log file::

    bytes         0        400              900      960
    written by    |  10    |  12            |  14, which died
    blocks        |  whole |  whole | whole |  torn

Bytes of a completed instant are whole blocks, or the file is damaged. Torn bytes that belong to no completed instant
are those of a dead writer. In table version 6 writers append to log files, and rollbacks write some. In versions 8 and
9 a log file belongs to the instant in its name.

Hudi has no such check: it skips all torn bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from hoodie.avro.timeline_metadata import HoodieRollbackMetadata
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroup, HoodieLogFile
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_before, oldest
from hoodie.common.util.bounded_cache import BoundedCache
from hoodie.exception import HoodieException
from hoodie.storage.storage_path import file_name, join

if TYPE_CHECKING:
    from hoodie.common.table.timeline.archived_timeline import HoodieArchivedTimeline

logger = logging.getLogger(__name__)

_CACHED_BYTES = 16 << 20
_BYTES_OF_FILE = 400
"""About the memory of the entry of a file."""


@attrs.frozen
class CommittedBytes:
    """The bytes of a log file that a completed instant wrote.

    Attributes:
        instant: The instant: a commit, or a rollback or restore that wrote a command.
        start: Their offset in the file; 0 if the instant does not store it.
        end: The offset after them; None if the instant does not store it.
        records: The number of their rows and deletes, if the instant stores it.
    """

    instant: HoodieInstant
    start: int
    end: int | None
    records: int = 0


_BytesByPath = Mapping[str, CommittedBytes]
"""Path of a log file, relative to the table, to the bytes that one instant wrote to it."""
_READ_BEFORE: BoundedCache[_BytesByPath] = BoundedCache(_CACHED_BYTES, _CACHED_BYTES // 4)
"""The metadata of completed commits that this process has read, by the paths of their files, which never change."""


@attrs.frozen(slots=False, eq=False)
class CommittedLogFiles:
    """The sizes that completed instants of a table give for its log files, read when asked for. Crosses to tasks.

    Attributes:
        base_path: The table's folder.
        timeline: Its active timeline.
        load_archive: Reads its archived timeline; called for files that look damaged.
        remedy: The advice for a damaged log file, for error messages.
    """

    base_path: str
    timeline: HoodieActiveTimeline = attrs.field(repr=False)
    load_archive: Callable[[], HoodieArchivedTimeline] = attrs.field(repr=False)
    remedy: str
    _found: dict[HoodieInstant, _BytesByPath] = attrs.field(init=False, factory=dict, repr=False)

    def bytes_of(self, log_file: HoodieLogFile) -> list[CommittedBytes]:
        """The bytes that completed instants wrote to a log file. The archive is read, too, if it may have some.

        Args:
            log_file: A log file that looks damaged.

        Raises:
            HoodieCorruptedDataException: Metadata of an instant, or the archive, is damaged.
            HoodieIOException: Storage failed.
        """
        path = self._relative(log_file)
        own, others = self._may_have_written(log_file)
        found = self._bytes_in(own, path)
        if found and self.timeline.layout.has_completion_times:
            return found
        # A slice of an upgraded table may have a file of version 6, and a slice of a downgraded one a file of 8.
        found += self._bytes_in(others, path)
        for instant in self.timeline.filter_actions(Action.ROLLBACK, Action.RESTORE).filter_completed_instants():
            if not is_before(instant.requested_time, log_file.instant_time):
                found += self._commands_of(instant, path)
        if self.timeline.newest_archived_time() is not None:
            found += self._archived_bytes(log_file, path)
        return found

    def with_sizes(self, groups: Sequence[HoodieFileGroup]) -> list[HoodieFileGroup]:
        """File groups with the committed sizes of their log files, so that files that end too early are noticed.

        A metadata table lists the committed sizes. If storage was listed, the active commits that may have written the
        files are read, each once.

        Args:
            groups: The groups.

        Raises:
            HoodieIOException: Storage failed.
        """
        logs = [
            log_file
            for group in groups
            for part in group.slices
            for log_file in part.log_files
            if log_file.modification_time_ms and not log_file.is_cdc
        ]
        sizes = self._largest_sizes(logs)
        return [self._sized_group(group, sizes) for group in groups] if sizes else list(groups)

    def read_before(self) -> dict[HoodieInstant, frozenset[str]]:
        """The paths of log files, relative to the table, that each active commit names that was read for sizes."""
        return {commit: frozenset(log_files) for commit, log_files in self._found.items()}

    def read_also(self, commits: Sequence[HoodieInstant]) -> None:
        """Read active commits, so that `read_before` has them. Damaged ones are logged and left out."""
        for _ in map_concurrently(self._log_files_if_readable, commits):
            pass

    def _sized_group(self, group: HoodieFileGroup, sizes: Mapping[str, int]) -> HoodieFileGroup:
        if not any(part.log_files for part in group.slices):
            return group
        return attrs.evolve(group, slices=tuple(_sized_slice(part, sizes, self._relative) for part in group.slices))

    def _largest_sizes(self, logs: Sequence[HoodieLogFile]) -> dict[str, int]:
        """The largest sizes of log files by active commits, by their relative paths."""
        commits: dict[HoodieInstant, None] = {}
        if self.timeline.layout.has_completion_times:
            times = {log_file.instant_time for log_file in logs}
            commits = dict.fromkeys(one for one in self.timeline.completed_writes() if one.requested_time in times)
        elif logs:
            first = oldest(log_file.instant_time for log_file in logs) or ""
            writes = self.timeline.completed_writes()
            commits = dict.fromkeys(one for one in writes if not is_before(one.requested_time, first))
        sizes: dict[str, int] = {}
        for log_files in map_concurrently(self._log_files_if_readable, list(commits)):
            for path, found in log_files.items():
                sizes[path] = max(found.end or 0, sizes.get(path, 0))
        return sizes

    def _may_have_written(self, log_file: HoodieLogFile) -> tuple[list[HoodieInstant], list[HoodieInstant]]:
        """The active commit that is named by a log file, and the later ones."""
        named = log_file.instant_time
        writes = [one for one in self.timeline.completed_writes() if not is_before(one.requested_time, named)]
        own = [one for one in writes if one.requested_time == named]
        return own, [one for one in writes if one.requested_time != named]

    def _bytes_in(self, commits: Sequence[HoodieInstant], path: str) -> list[CommittedBytes]:
        return [
            log_files[path] for log_files in map_concurrently(self._log_files_of_commit, commits) if path in log_files
        ]

    def _log_files_of_commit(self, commit: HoodieInstant) -> _BytesByPath:
        """The log files of an active commit."""
        key = self.timeline.path_of(commit)
        found = self._found.get(commit)
        if found is None:
            found = _READ_BEFORE.get(key)
        if found is None:
            found = _log_files_of(commit, self.timeline.read_commit_metadata(commit))
            _READ_BEFORE.put(key, found, _BYTES_OF_FILE * (1 + len(found)))
        self._found[commit] = found
        return found

    def _log_files_if_readable(self, commit: HoodieInstant) -> _BytesByPath:
        try:
            return self._log_files_of_commit(commit)
        except HoodieException as error:
            # Nothing looks damaged yet; if a file does, this commit is read again.
            logger.warning("how long the log files of %s of %s are is not known: %s", commit, self.base_path, error)
            return {}

    def _commands_of(self, instant: HoodieInstant, path: str) -> Iterator[CommittedBytes]:
        """The bytes of the commands that a rollback, or the rollbacks of a restore, wrote to a log file."""
        if instant.action is Action.RESTORE:
            # Imported here: few tables were restored, and reads of others start earlier without.
            from hoodie.avro.service_metadata import HoodieRestoreMetadata

            restored = self.timeline.read_as(instant, HoodieRestoreMetadata)
            rollbacks = [one for found in restored.rollbacks.values() for one in found]
        else:
            rollbacks = [self.timeline.read_as(instant, HoodieRollbackMetadata)]
        for rollback in rollbacks:
            for partition in rollback.partition_metadata.values():
                for name, size in (partition.rollback_log_files or {}).items():
                    if join(partition.partition_path, file_name(name)).lstrip("/") == path:
                        yield CommittedBytes(instant, 0, size or None)

    def _archived_bytes(self, log_file: HoodieLogFile, path: str) -> Iterator[CommittedBytes]:
        archive = self.load_archive()
        active = self.timeline.completed_writes().times
        for instant in archive.completed_writes():
            time = instant.requested_time
            if instant.is_completed and time not in active and not is_before(time, log_file.instant_time):
                log_files = _log_files_of(instant, archive.read_commit_metadata(instant))
                if path in log_files:
                    yield log_files[path]

    def _relative(self, log_file: HoodieLogFile) -> str:
        return log_file.path.removeprefix(f"{self.base_path.rstrip('/')}/")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_found": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _sized_slice(
    file_slice: FileSlice, sizes: Mapping[str, int], relative: Callable[[HoodieLogFile], str]
) -> FileSlice:
    logs = (
        attrs.evolve(log_file, committed_bytes=max(sizes.get(relative(log_file), 0), log_file.committed_bytes))
        for log_file in file_slice.log_files
    )
    return attrs.evolve(file_slice, log_files=tuple(logs))


def _log_files_of(instant: HoodieInstant, metadata: HoodieCommitMetadata) -> _BytesByPath:
    """The bytes that a commit wrote to log files of records."""
    return {
        stat.path.lstrip("/"): CommittedBytes(
            instant, stat.log_offset or 0, stat.file_size_bytes or None, stat.num_writes + stat.num_deletes
        )
        for stat in metadata.write_stats
        if stat.path and stat.is_log_file and not stat.is_empty_log_file
    }


def largest_end(commits: Iterable[CommittedBytes]) -> CommittedBytes | None:
    """The bytes with the largest end; None if no instant stores an end."""
    return max((one for one in commits if one.end is not None), key=lambda one: one.end or 0, default=None)
