"""The data files that readers see once an action is completed, and all committed files.

Hudi: HoodieMetadataWriteUtils.getFilesToFetchColumnStats. Differs: leaves out files that the action replaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from hoodie.common.model.file_slice import HoodieBaseFile, HoodieFileGroupId, HoodieLogFile
from hoodie.common.table.table_metadata import HoodieTableMetadata, map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.common.table.timeline.instant_time import oldest
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.exception import HoodieCorruptedDataException
from hoodie.metadata.writer.file_statistics import DataFile, has_statistics
from hoodie.metadata.writer.partition_indexer import CommittedChange, IndexingContext
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_path import join

_LATEST = "9" * 17
"""A completion time that is not known yet; later than all others."""


def latest_files(context: IndexingContext, files: Mapping[str, Sequence[FileStatus]]) -> dict[str, list[DataFile]]:
    """The files with statistics of the latest slices of a table.

    Args:
        context: The table.
        files: All its committed files by partition.

    Raises:
        HoodieException: The timeline is damaged, or storage failed.
    """
    return _latest(context, files, context.table.active_timeline.visible_instants, frozenset())


@attrs.frozen
class FileChanges:
    """The files of the latest slices of a partition that an action changes.

    Attributes:
        added: The data files that come to latest slices.
        removed: The data files that leave latest slices.
        other_groups: The number of file groups that the action does not touch.
    """

    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    other_groups: int


@attrs.frozen(eq=False)
class ChangedPartitions:
    """The partitions that an action writes to, listed once.

    Attributes:
        context: The table without the action.
        change: The action.
        files: All their committed files before the action, by partition.
    """

    context: IndexingContext
    change: CommittedChange
    files: Mapping[str, Sequence[FileStatus]]

    @classmethod
    def listed(cls, context: IndexingContext, change: CommittedChange) -> ChangedPartitions:
        """List the partitions that an action writes to, and those of file groups that it replaces.

        Args:
            context: The table without the action.
            change: The action.

        Raises:
            HoodieException: The metadata table is damaged, or storage failed.
        """
        replaced = (path for path, _ in change.metadata.replaced_file_groups)
        paths = list(dict.fromkeys([*change.metadata.partition_to_write_stats, *replaced]))
        lister: HoodieTableMetadata = context.table.table_metadata if context.metadata is None else context.metadata
        return cls(context, change, lister.list_files_of(paths))

    def latest_after(self, partition_paths: Sequence[str]) -> dict[str, list[DataFile]]:
        """The files with statistics of the latest slices of some of the partitions, once the action is completed.

        Args:
            partition_paths: The partitions.

        Raises:
            HoodieException: The timeline is damaged, or storage failed.
        """
        return self._latest_after({path: self.files[path] for path in partition_paths})

    def changes(self) -> dict[str, FileChanges]:
        """The changes to each partition. Only the file groups that the action touches are looked at.

        Raises:
            HoodieException: The timeline is damaged, or storage failed.
        """
        touched: dict[str, set[str]] = {path: set() for path in self.files}
        for path, file_id in self.change.metadata.replaced_file_groups:
            touched[path].add(_start_of(file_id))
        for stat in self.change.metadata.write_stats:
            if stat.partition_path in touched:
                touched[stat.partition_path].add(_start_of(stat.file_id))
        own: dict[str, list[FileStatus]] = {}
        others: dict[str, int] = {}
        for path, listed in self.files.items():
            starts = [_start_of(status.name.removeprefix(".")) for status in listed]
            own[path] = [status for status, start in zip(listed, starts, strict=True) if start in touched[path]]
            others[path] = len(set(starts) - touched[path])
        before = _latest(self.context, own, self.context.table.active_timeline.visible_instants, frozenset())
        after = self._latest_after(own)
        return {
            path: FileChanges(
                tuple(sorted({*after[path]} - {*before[path]})),
                tuple(sorted({*before[path]} - {*after[path]})),
                others[path],
            )
            for path in own
        }

    def _latest_after(self, listed: Mapping[str, Sequence[FileStatus]]) -> dict[str, list[DataFile]]:
        """The latest files, once the action is completed, of a listing of the time before."""
        files = {path: {status.name: status for status in statuses} for path, statuses in listed.items()}
        for stat in self.change.metadata.write_stats:
            if stat.path and stat.partition_path in files:
                status = FileStatus(join(self.context.table.base_path, stat.path), stat.file_size_bytes, 0)
                files[stat.partition_path][status.name] = status
        listing = {path: list(found.values()) for path, found in files.items()}
        replaced = {HoodieFileGroupId(*group) for group in self.change.metadata.replaced_file_groups}
        return _latest(self.context, listing, _completed(self.context, self.change.instant_time), replaced)


def _start_of(name: str) -> str:
    """The part of a file id, or of a file name without its dot, that all names of the file group begin with."""
    return name.partition("_")[0]


def _completed(context: IndexingContext, instant_time: str) -> VisibleInstants:
    """The instants that readers see once an instant is completed."""
    before = context.table.active_timeline.visible_instants
    return attrs.evolve(
        before,
        start=before.start or oldest([instant_time, *before.pending]),
        completed=before.completed | {instant_time},
        pending=before.pending - {instant_time},
        pending_compactions=before.pending_compactions - {instant_time},
        completion_times={**before.completion_times, instant_time: _LATEST} if before.has_completion_times else {},
    )


def _latest(
    context: IndexingContext,
    files: Mapping[str, Sequence[FileStatus]],
    instants: VisibleInstants,
    replaced: frozenset[HoodieFileGroupId] | set[HoodieFileGroupId],
) -> dict[str, list[DataFile]]:
    table = context.table
    view = HoodieTableFileSystemView(
        KnownFiles(files), table.active_timeline, lambda: table.archived_timeline, instants
    )
    view.load_partitions(files)
    latest: dict[str, list[DataFile]] = {}
    for path in files:
        slices = [one for one in view.latest_file_slices(path) if HoodieFileGroupId(path, one.file_id) not in replaced]
        names = [(path, file.file_name) for file_slice in slices for file in file_slice.record_files]
        latest[path] = list(filter(has_statistics, names))
    return latest


@attrs.frozen(eq=False)
class KnownFiles(HoodieTableMetadata):
    """A listing in memory.

    Attributes:
        files: Files by partition.
    """

    files: Mapping[str, Sequence[FileStatus]]

    def list_partitions(self) -> list[str]:
        """See `HoodieTableMetadata.list_partitions`."""
        return sorted(self.files)

    def list_files(self, partition_path: str) -> list[FileStatus]:
        """See `HoodieTableMetadata.list_files`."""
        return list(self.files[partition_path])

    def list_files_of(self, partition_paths: Sequence[str]) -> dict[str, list[FileStatus]]:
        """See `HoodieTableMetadata.list_files_of`."""
        return {path: self.list_files(path) for path in partition_paths}

    def list_stored_files(self) -> dict[str, list[FileStatus]]:
        """See `HoodieTableMetadata.list_stored_files`."""
        return self.list_files_of(list(self.files))


def committed_files(table: TableSnapshot) -> Mapping[str, Sequence[FileStatus]]:
    """The files of completed instants on storage, by partition, those of replaced file groups included.

    Their sizes are compared with those in active commits. A metadata table must not take over the size of a damaged
    file: nobody would notice the damage then.

    Args:
        table: The table. None of its pending instants may have written a file.

    Raises:
        HoodieCorruptedDataException: A file has another size; or the metadata of a commit is damaged.
        HoodieIOException: Storage failed.
    """
    stated_sizes = _stated_sizes(table)
    view = table.stored_view()
    paths = view.load_all_partitions()
    committed: dict[str, Sequence[FileStatus]] = {}
    for path in paths:
        slices = [file_slice for group in view.all_file_groups(path) for file_slice in group.slices]
        for file in (file for file_slice in slices for file in file_slice.record_files):
            _refuse_other_size(file, stated_sizes)
        files = [
            FileStatus(file.path, file.size_bytes, 0)
            for file_slice in slices
            for file in (file_slice.base_file, *file_slice.log_files)
            if file is not None and file.size_bytes > 0
        ]
        committed[path] = sorted(files, key=lambda file: file.path)
    return committed


def _stated_sizes(table: TableSnapshot) -> dict[str, tuple[int, HoodieInstant]]:
    """The largest size of each file that an active commit wrote, and the commit; by full path."""
    commits = list(table.active_timeline.completed_writes())
    found: dict[str, tuple[int, HoodieInstant]] = {}
    for commit, metadata in zip(
        commits, map_concurrently(table.active_timeline.read_commit_metadata, commits), strict=True
    ):
        for stat in metadata.write_stats:
            if stat.path:
                path = join(table.base_path, stat.path)
                found[path] = max(found.get(path, (0, commit)), (stat.file_size_bytes, commit), key=lambda one: one[0])
    return found


def _refuse_other_size(file: HoodieBaseFile | HoodieLogFile, expected: Mapping[str, tuple[int, HoodieInstant]]) -> None:
    """Raise for a base file of another size than its commit states, and for a log file that is shorter."""
    size, commit = expected.get(file.path, (0, None))
    is_other = file.size_bytes < size if isinstance(file, HoodieLogFile) else file.size_bytes != size
    if size and is_other:
        raise HoodieCorruptedDataException(
            f"Cannot build a metadata table: {file.path} is damaged. {commit} completed it with {size} bytes, and "
            f"{file.size_bytes} bytes are there. Restore the file from a copy; hoodie.metadata.enable=false writes "
            "without a metadata table"
        )
