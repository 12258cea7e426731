"""The committed files of a table at two moments, and what has changed between them.

A partition of a metadata table that is built beside writers holds what the table was when the building began. Then it
is brought up to date by the difference: of files, and of the latest slices of file groups. So it does not matter which
actions came meanwhile, nor in which order.
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
    """Lists the files that are known; see `ListingChoice`."""

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
        """List a table by ``files`` of its metadata table, which knows what is committed in log files, too.

        Args:
            table: The table.

        Raises:
            HoodieException: The metadata table cannot be read.
        """
        files = HoodieBackedTableMetadata.open(table).list_all_files()
        return cls(attrs.evolve(table, listing_choice=_Lister(files)), files)

    @property
    def last_instant(self) -> str:
        """The last completed instant; ``00000000000000`` without any."""
        last = self.table.active_timeline.filter_completed_instants().last_instant
        return _NO_INSTANT if last is None else last.requested_time

    def latest_slices(self) -> dict[FileGroup, FileSlice]:
        """The latest slice of each file group that is not replaced."""
        view = self.table.view()
        paths = [path for path, listed in self.files.items() if listed]
        view.load_partitions(paths)
        return {(path, part.file_id): part for path in paths for part in view.latest_file_slices(path)}

    def lacks_files_of(self, earlier: ListedTable) -> bool:
        """Whether files are not committed any more that were so at an earlier moment: a clean deleted them, perhaps."""
        return bool(_names(earlier.files) - _names(self.files))


@attrs.frozen(eq=False)
class TableDifference:
    """What has changed in a table.

    Attributes:
        after: The table now.
        new_files: Files that were not committed before, by partition.
        gone_files: Partition path and name of files that are not committed any more.
        slices: The latest slices before and now, of each file group where they differ; None of one that was not there.
    """

    after: ListedTable
    new_files: Mapping[str, Sequence[FileStatus]]
    gone_files: tuple[tuple[str, str], ...]
    slices: Mapping[FileGroup, tuple[FileSlice | None, FileSlice | None]]

    @classmethod
    def between(cls, before: ListedTable, after: ListedTable) -> Self:
        """That of a table at two moments.

        Args:
            before: The earlier one.
            after: The later one.

        Raises:
            HoodieException: The timeline is damaged, or storage failed.
        """
        known = _names(before.files)
        new = {
            path: [status for status in listed if (path, status.name) not in known]
            for path, listed in after.files.items()
        }
        had, has = before.latest_slices(), after.latest_slices()
        changed = [group for group in dict.fromkeys([*had, *has]) if had.get(group) != has.get(group)]
        return cls(
            after,
            {path: listed for path, listed in new.items() if listed},
            tuple(sorted(known - _names(after.files))),
            {group: (had.get(group), has.get(group)) for group in changed},
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing has changed."""
        return not self.new_files and not self.gone_files and not self.slices


class CatchingUpIndexer(MetadataPartitionIndexer):
    """Computes the records of a partition that can be built beside writers."""

    @abstractmethod
    def of_difference(self, context: IndexingContext, difference: TableDifference) -> PartitionRecords:
        """The records that bring the partition up to date.

        Args:
            context: The table now; its metadata table shows the partition as it was built.
            difference: What has changed since.

        Raises:
            HoodieException: A file cannot be read.
        """


def _names(files: Mapping[str, Sequence[FileStatus]]) -> set[tuple[str, str]]:
    return {(path, status.name) for path, listed in files.items() for status in listed}
