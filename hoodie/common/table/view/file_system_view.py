"""The view of a table's files: from a listing to the file groups and slices that a reader may see.

::

    timeline   t1.commit  t2.commit  t3.inflight
    listing    f_t1.parquet  f_t2.parquet  f_t3.parquet  g_t3.parquet
    groups     f: [t2, t1]         (t3 is not completed; g has no committed slice at all)

Hudi: org.apache.hudi.common.table.view.{AbstractTableFileSystemView, HoodieTableFileSystemView}.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import attrs

from hoodie.common.config.property import display_value
from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import (
    FileSlice,
    HoodieBaseFile,
    HoodieFileGroup,
    HoodieFileGroupId,
    HoodieLogFile,
)
from hoodie.common.table.table_metadata import HoodieTableMetadata
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import in_order, newest
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.common.table.view.committed_log_files import CommittedLogFiles
from hoodie.common.table.view.log_placement import (
    CompletionTime,
    CompletionTimes,
    log_file_order,
    place_log_files,
    place_log_files_by_name,
)
from hoodie.common.util.shown_table import plural
from hoodie.storage.storage import FileStatus

logger = logging.getLogger(__name__)

CommittedFileName = Callable[[HoodieFileGroupId, str], str | None]
"""Takes a file group and an instant; returns the base file's name in the commit metadata, None if it is unknown."""


def build_file_groups(
    partition_path: str,
    files: Iterable[FileStatus],
    timeline: Iterable[HoodieInstant] | VisibleInstants,
    replaced: Collection[HoodieFileGroupId] = (),
    committed_file_name: CommittedFileName | None = None,
    *,
    compactions: Mapping[HoodieFileGroupId, Collection[str]] | None = None,
    completion_time: CompletionTime | None = None,
) -> list[HoodieFileGroup]:
    """The file groups of a partition that have a committed slice, with their committed slices.

    Args:
        partition_path: The partition.
        files: Its files; other files than base and log files are ignored.
        timeline: All instants of the active timeline, of any action and state.
        replaced: File groups that a completed replace commit replaced; they are left out.
        committed_file_name: Called when a group has several base files of one instant, from lost task attempts. The
            file in the commit metadata counts, or the newest attempt if the metadata does not tell.
        compactions: Timeline layout 2: file groups of pending compactions, each with the instants of these.
        completion_time: Timeline layout 2: when an instant was completed; None: archived ones are not looked for.

    Returns:
        The groups, sorted by file id; slices are newest first. The slice of a pending compaction holds log files only,
        in layout 2 perhaps none.
    """
    instants = timeline if isinstance(timeline, VisibleInstants) else VisibleInstants.of(timeline)
    base_files: dict[str, dict[str, list[HoodieBaseFile]]] = defaultdict(lambda: defaultdict(list))
    log_files: dict[str, list[HoodieLogFile]] = defaultdict(list)
    for status in files:
        base_name = parse_base_file_name(status.name)
        if base_name is not None:
            if instants.is_committed(base_name.instant_time):
                base_files[base_name.file_id][base_name.instant_time].append(
                    HoodieBaseFile(
                        path=status.path,
                        file_id=base_name.file_id,
                        write_token=base_name.write_token,
                        instant_time=base_name.instant_time,
                        size_bytes=status.size_bytes,
                        modification_time_ms=status.modification_time_ms,
                    )
                )
            continue
        log_name = parse_log_file_name(status.name)
        if log_name is None or log_name.is_archive or not instants.has_visible_log_files(log_name.instant_time):
            continue
        log_files[log_name.file_id].append(HoodieLogFile.of(log_name, status))
    groups = []
    for file_id in sorted(base_files.keys() | log_files.keys()):
        group_id = HoodieFileGroupId(partition_path, file_id)
        if group_id in replaced:
            continue
        bases, logs = base_files.get(file_id, {}), log_files.get(file_id, ())
        if len(bases) == 1 and not logs and not (compactions or {}).get(group_id):
            # No log file has to be placed: most file groups of copy-on-write tables.
            ((instant_time, candidates),) = bases.items()
            base_file = _the_base_file(group_id, candidates, committed_file_name)
            groups.append(HoodieFileGroup(group_id, (FileSlice(partition_path, file_id, instant_time, base_file),)))
            continue
        if instants.has_completion_times:
            base_instants = {*bases, *(compactions or {}).get(group_id, ())}
            placed = place_log_files(base_instants, logs, completion_time or instants.completion_times.get)
        else:
            placed = place_log_files_by_name(bases, logs, instants.pending_compactions)
        slices = tuple(
            FileSlice(
                partition_path=partition_path,
                file_id=file_id,
                base_instant_time=instant_time,
                base_file=_the_base_file(group_id, bases.get(instant_time, ()), committed_file_name),
                log_files=placed[instant_time],
            )
            for instant_time in reversed(in_order(placed))
        )
        groups.append(HoodieFileGroup(group_id, slices))
    return groups


def read_replaced_file_groups(
    timeline: HoodieTimeline, read_metadata: Callable[[HoodieInstant], HoodieCommitMetadata]
) -> dict[HoodieFileGroupId, str]:
    """File groups that completed replace commits replaced, each with the first instant that did.

    Args:
        timeline: The active timeline.
        read_metadata: Reads the metadata of one of its completed commits.
    """
    replaced: dict[HoodieFileGroupId, str] = {}
    for instant in timeline.filter_actions(Action.REPLACE_COMMIT).filter_completed_instants():
        for partition_path, file_id in read_metadata(instant).replaced_file_groups:
            replaced.setdefault(HoodieFileGroupId(partition_path, file_id), instant.requested_time)
    return replaced


def _the_base_file(
    group_id: HoodieFileGroupId, candidates: Sequence[HoodieBaseFile], committed_file_name: CommittedFileName | None
) -> HoodieBaseFile | None:
    if len(candidates) <= 1:
        return candidates[0] if candidates else None
    instant_time = candidates[0].instant_time
    name = committed_file_name(group_id, instant_time) if committed_file_name is not None else None
    for candidate in candidates:
        if candidate.file_name == name:
            return candidate
    newest = max(candidates, key=lambda candidate: _write_token_order(candidate.write_token))
    logger.warning(
        "File group %s of partition %r has %d base files of instant %s, and its commit metadata names none; took %s",
        group_id.file_id,
        group_id.partition_path,
        len(candidates),
        instant_time,
        newest.file_name,
    )
    return newest


def merged_latest_slice(slices: Sequence[FileSlice], pending: Collection[str]) -> FileSlice:
    """The newest slice of a file group; while its compaction is pending, merged with the slice before.

    Args:
        slices: The committed slices of the group, newest first, at least one.
        pending: The instants of pending compactions.
    """
    # Several are pending only for readers of a time at which none of them was completed.
    latest = next((part for part in slices if part.base_instant_time not in pending), slices[-1])
    merged = slices[: slices.index(latest) + 1]
    if len(merged) == 1:
        return latest
    logs = sorted((log_file for part in merged for log_file in part.log_files), key=log_file_order)
    return attrs.evolve(latest, log_files=tuple(logs))


def _write_token_order(write_token: str) -> tuple[tuple[int, ...], str]:
    """A sort key that puts later attempts last: partition, stage and attempt ids grow within an application."""
    parts = write_token.split("-")
    return (tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()), write_token


class HoodieTableFileSystemView:
    """File groups and slices of a table as of a timeline; a partition is listed when it is first needed.

    A view keeps what it has listed for its whole life. Make a new one (`HoodieTableMetaClient.view`) to see later
    commits. Memory: the file groups of the listed partitions.
    """

    def __init__(
        self,
        metadata: HoodieTableMetadata,
        timeline: HoodieActiveTimeline,
        archived: Callable[[], HoodieTimeline] = HoodieTimeline,
        instants: VisibleInstants | None = None,
        committed: CommittedLogFiles | None = None,
    ) -> None:
        """A view; nothing is read yet.

        Args:
            metadata: Lists partitions and files.
            timeline: The active timeline with instants of all actions and states.
            archived: Reads the archived instants; called if only they decide which slice a log file belongs to.
            instants: The instants of the timeline that count; None for those that count for readers of today.
            committed: The sizes of log files that storage has listed, for callers that read them; None for others.
        """
        self._metadata = metadata
        self._committed = committed
        self._timeline = timeline
        self._instants = timeline.visible_instants if instants is None else instants
        self._completion_time = CompletionTimes(self._instants, archived)
        self._partitions: list[str] | None = None
        self._groups: dict[str, list[HoodieFileGroup]] = {}
        self._replaced: dict[HoodieFileGroupId, str] | None = None
        self._compactions: Mapping[HoodieFileGroupId, tuple[str, ...]] | None = None
        self._committed_names: dict[str, Mapping[HoodieFileGroupId, str]] = {}

    def __repr__(self) -> str:
        path = display_value("hoodie.base.path", self._timeline.meta_path.removesuffix("/.hoodie"))
        last = newest(self._instants.completed)
        found = f"{plural(len(self._partitions), 'partition')}, " if self._partitions is not None else ""
        files = plural(sum(map(len, self._groups.values())), "file group")
        return (
            f"<{type(self).__name__} of {path} as of {last or 'no commit'}: {found}"
            f"{files} of {plural(len(self._groups), 'listed partition')}>"
        )

    def list_partitions(self) -> list[str]:
        """The partition paths, sorted, including partitions without a committed file.

        Raises:
            HoodieIOException: Storage failed.
        """
        if self._partitions is None:
            self._partitions = self._metadata.list_partitions()
        return list(self._partitions)

    def load_partitions(self, partition_paths: Iterable[str]) -> None:
        """List several partitions at once, which is faster than one by one on first use.

        Raises:
            HoodieCorruptedDataException: The plan of a pending compaction, or the archive, is damaged.
            HoodieIOException: A partition path would leave the table, or storage failed.
        """
        if self._compactions is None:
            has_plans = self._instants.has_completion_times and bool(self._instants.pending_compactions)
            self._compactions = _pending_compactions(self._timeline) if has_plans else {}
        missing = [path for path in dict.fromkeys(partition_paths) if path not in self._groups]
        for partition_path, files in self._metadata.list_files_of(missing).items():
            groups = build_file_groups(
                partition_path,
                files,
                self._instants,
                committed_file_name=self.committed_file_name,
                compactions=self._compactions,
                completion_time=self._completion_time,
            )
            self._groups[partition_path] = groups if self._committed is None else self._committed.with_sizes(groups)

    def load_all_partitions(self) -> list[str]:
        """List all partitions at once.

        Returns:
            Their paths; see `list_partitions`.

        Raises:
            HoodieException: See `load_partitions`.
        """
        partitions = self.list_partitions()
        self.load_partitions(partitions)
        return partitions

    def file_groups(self, partition_path: str) -> list[HoodieFileGroup]:
        """The file groups of a partition with their committed slices, sorted by file id, without replaced groups.

        Raises:
            HoodieIOException: The partition path would leave the table, or storage failed.
        """
        return self._file_groups_as_of(partition_path, None)

    def all_file_groups(self, partition_path: str) -> list[HoodieFileGroup]:
        """The file groups of a partition with their committed slices, sorted by file id, replaced ones included.

        Raises:
            HoodieIOException: The partition path would leave the table, or storage failed.
        """
        self.load_partitions([partition_path])
        return list(self._groups[partition_path])

    def latest_base_files(self, partition_path: str) -> list[HoodieBaseFile]:
        """The newest committed base file of each file group: the files of a snapshot of a copy-on-write table.

        Raises:
            HoodieIOException: The partition path would leave the table, or storage failed.
        """
        return self._latest_base_files_as_of(partition_path, None)

    def latest_base_files_before_or_on(self, partition_path: str, instant_time: str | None) -> list[HoodieBaseFile]:
        """The newest committed base file of each file group as of an instant; None for the present.

        The result includes file groups that were replaced after that instant, unless they have been cleaned.

        Raises:
            HoodieIOException: The partition path would leave the table, or storage failed.
        """
        return self._latest_base_files_as_of(partition_path, instant_time)

    def latest_file_slices(self, partition_path: str) -> list[FileSlice]:
        """The newest slice of each file group; while its compaction is pending, merged with the slice before.

        Raises:
            HoodieIOException: The partition path would leave the table, or storage failed.
        """
        pending = self._instants.pending_compactions
        return [merged_latest_slice(group.slices, pending) for group in self.file_groups(partition_path)]

    def latest_file_slices_before_or_on(self, partition_path: str, instant_time: str | None) -> list[FileSlice]:
        """The newest slice of each file group as of an instant; see `latest_base_files_before_or_on`.

        Raises:
            HoodieIOException: The partition path would leave the table, or storage failed.
        """
        found = []
        for group in self._file_groups_as_of(partition_path, instant_time):
            slices = self._slices_as_of(group, instant_time)
            found += [merged_latest_slice(slices, self._instants.pending_compactions)] if slices else []
        return found

    @property
    def listing(self) -> HoodieTableMetadata:
        """The listing of the partitions and their files."""
        return self._metadata

    @property
    def visible_instants(self) -> VisibleInstants:
        """The instants whose files are in the view."""
        return self._instants

    @property
    def committed_log_files(self) -> CommittedLogFiles | None:
        """The sizes of log files that storage has listed; None if the caller does not need them."""
        return self._committed

    def replaced_file_groups(self) -> Mapping[HoodieFileGroupId, str]:
        """File groups that completed replace commits replaced, each with the instant that did; read once.

        Raises:
            HoodieCorruptedDataException: The metadata of a replace commit is damaged.
            HoodieIOException: Storage failed.
        """
        if self._replaced is None:
            self._replaced = read_replaced_file_groups(self._timeline, self._timeline.read_commit_metadata)
        return self._replaced

    def _file_groups_as_of(self, partition_path: str, instant_time: str | None) -> list[HoodieFileGroup]:
        if partition_path not in self._groups:
            self.load_partitions([partition_path])
        replaced = self.replaced_file_groups()
        if not replaced:
            return list(self._groups[partition_path])
        return [
            group
            for group in self._groups[partition_path]
            if group.file_group_id not in replaced
            or not self._instants.is_committed(replaced[group.file_group_id])
            or not self._instants.is_seen_at(replaced[group.file_group_id], instant_time)
        ]

    def _latest_base_files_as_of(self, partition_path: str, instant_time: str | None) -> list[HoodieBaseFile]:
        files = []
        for group in self._file_groups_as_of(partition_path, instant_time):
            for file_slice in group.slices:
                is_seen = self._instants.is_seen_at(file_slice.base_instant_time, instant_time)
                if file_slice.base_file is not None and is_seen:
                    files.append(file_slice.base_file)
                    break
        return files

    def _slices_as_of(self, group: HoodieFileGroup, instant_time: str | None) -> list[FileSlice]:
        """The slices that a reader of an instant sees, newest first.

        If log files name their own instant, the reader sees those up to its instant. Some may be in a later slice,
        which it does not see: their instants were completed after a compaction was requested.
        """
        slices = [part for part in group.slices if self._instants.is_seen_at(part.base_instant_time, instant_time)]
        if not self._instants.has_completion_times or instant_time is None:
            return slices
        later = group.slices[: len(group.slices) - len(slices)]
        moved = [log_file for part in reversed(later) for log_file in part.log_files]
        seen = []
        for number, part in enumerate(slices):
            logs = [*part.log_files, *(moved if number == 0 else ())]
            logs = [log_file for log_file in logs if self._instants.is_seen_at(log_file.instant_time, instant_time)]
            seen.append(attrs.evolve(part, log_files=tuple(sorted(logs, key=log_file_order))))
        return seen

    def committed_file_name(self, group_id: HoodieFileGroupId, instant_time: str) -> str | None:
        """The name of a base file in the metadata of the commit that wrote it; None if it is not known.

        Args:
            group_id: Its file group.
            instant_time: The commit.

        Raises:
            HoodieCorruptedDataException: The metadata of the commit is damaged.
            HoodieIOException: Storage failed.
        """
        if instant_time not in self._committed_names:
            names: dict[HoodieFileGroupId, str] = {}
            instant = self._timeline.completed_writes().find(instant_time)
            for stat in self._timeline.read_commit_metadata(instant).write_stats if instant is not None else ():
                if stat.path:
                    names[HoodieFileGroupId(stat.partition_path, stat.file_id)] = stat.path.rsplit("/", 1)[-1]
            self._committed_names[instant_time] = names
        return self._committed_names[instant_time].get(group_id)


def _pending_compactions(timeline: HoodieActiveTimeline) -> Mapping[HoodieFileGroupId, tuple[str, ...]]:
    # Imported here: most tables have no pending compaction, and reads of them start earlier without.
    from hoodie.common.table.compaction_plans import pending_compactions

    return pending_compactions(timeline)
