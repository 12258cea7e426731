"""The committed files of a table at two moments, and the difference between them.

A partition of a metadata table that is built beside writers holds the state of the table when its build began. The
difference then brings it up to date: of files, and of the latest slices of file groups. So it does not matter which
actions were completed meanwhile, nor in which order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

import attrs

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.table_metadata import HoodieTableMetadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.writer.latest_files import KnownFiles
from hoodie.metadata.writer.partition_indexer import (
    IndexingContext,
    MetadataPartitionIndexer,
    PartitionRecords,
)
from hoodie.storage.storage import FileStatus

_NO_INSTANT = "00000000000000"
FileGroup = tuple[str, str]
"""Partition path and file id."""


@attrs.frozen
class _Lister:
    """Lists the given files; see `ListingChoice`."""

    files: Mapping[str, Sequence[FileStatus]]

    def __call__(self, snapshot: TableSnapshot) -> HoodieTableMetadata:
        return KnownFiles(self.files)


@attrs.frozen(eq=False)
class ListedTable:
    """A table at a moment, with its committed files. Memory: the names of these files.

    Attributes:
        table: The table; its views list these files.
        files: The files of all completed instants by partition, those of replaced file groups included.
    """

    table: TableSnapshot
    files: Mapping[str, Sequence[FileStatus]]

    @classmethod
    def of(cls, table: TableSnapshot) -> Self:
        """List a table by ``files`` of its metadata table, which also knows the committed log files.

        Args:
            table: The table.

        Raises:
            HoodieException: The metadata table cannot be read.
        """
        files = HoodieBackedTableMetadata.open(table).list_all_files()
        return cls(attrs.evolve(table, listing_choice=_Lister(files)), files)

    @property
    def last_instant(self) -> str:
        """The last completed instant; ``00000000000000`` if there is none."""
        last = self.table.active_timeline.filter_completed_instants().last_instant
        return _NO_INSTANT if last is None else last.requested_time

    def latest_slices(self) -> dict[FileGroup, FileSlice]:
        """The latest slice of each file group that is not replaced."""
        view = self.table.view()
        paths = [path for path, listed in self.files.items() if listed]
        view.load_partitions(paths)
        return {(path, part.file_id): part for path in paths for part in view.latest_file_slices(path)}

    def lacks_files_of(self, earlier: ListedTable) -> bool:
        """Whether files were committed at an earlier moment and are not any more, perhaps because of a clean."""
        return bool(_names(earlier.files) - _names(self.files))


@attrs.frozen(eq=False)
class TableDifference:
    """The difference between a table at two moments.

    Attributes:
        after: The table now.
        new_files: Files that were not committed before, by partition.
        gone_files: Partition path and name of files that are not committed any more.
        slices: The latest slices before and now, for each file group where they differ; None if there was or is none.
    """

    after: ListedTable
    new_files: Mapping[str, Sequence[FileStatus]]
    gone_files: tuple[tuple[str, str], ...]
    slices: Mapping[FileGroup, tuple[FileSlice | None, FileSlice | None]]

    @classmethod
    def between(cls, before: ListedTable, after: ListedTable) -> Self:
        """The difference between a table at two moments.

        Args:
            before: The table at the earlier moment.
            after: The table at the later moment.

        Raises:
            HoodieException: The timeline is damaged, or storage failed.
        """
        known = _names(before.files)
        new = {
            path: [status for status in listed if (path, status.name) not in known]
            for path, listed in after.files.items()
        }
        slices_before, slices_after = before.latest_slices(), after.latest_slices()
        changed = [
            group
            for group in dict.fromkeys([*slices_before, *slices_after])
            if slices_before.get(group) != slices_after.get(group)
        ]
        return cls(
            after,
            {path: listed for path, listed in new.items() if listed},
            tuple(sorted(known - _names(after.files))),
            {group: (slices_before.get(group), slices_after.get(group)) for group in changed},
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is no difference."""
        return not self.new_files and not self.gone_files and not self.slices


class CatchingUpIndexer(MetadataPartitionIndexer):
    """Computes the records of a partition that can be built beside writers."""

    @abstractmethod
    def of_difference(self, context: IndexingContext, difference: TableDifference) -> PartitionRecords:
        """The records that bring the partition up to date.

        Args:
            context: The table now; its metadata table shows the partition as it was built.
            difference: The difference since then.

        Raises:
            HoodieException: A file cannot be read.
        """


def _names(files: Mapping[str, Sequence[FileStatus]]) -> set[tuple[str, str]]:
    return {(path, status.name) for path, listed in files.items() for status in listed}
