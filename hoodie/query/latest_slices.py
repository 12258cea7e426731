"""The newest slices of a table, as queries read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.table.missing_files import check_files, known_partitions

Prune = Callable[[Sequence[str]], list[str]]
"""Takes partition paths; returns those that may hold rows of the query."""


@attrs.frozen(eq=False)
class ListedPartitions:
    """The partitions of a table, and the files of those that may hold rows.

    Attributes:
        view: The files; those of ``partitions`` are loaded.
        known: All partitions, those without a folder included.
        wanted: The partitions that may hold rows.
        partitions: The wanted partitions that have a folder, sorted.
    """

    view: HoodieTableFileSystemView
    known: Sequence[str]
    wanted: Sequence[str]
    partitions: Sequence[str]

    @classmethod
    def of(cls, snapshot: TableSnapshot, prune: Prune) -> ListedPartitions:
        """List a table.

        Args:
            snapshot: The table.
            prune: Selects the partitions that may hold rows.

        Raises:
            HoodieIOException: Storage failed.
        """
        view = snapshot.view()
        known = known_partitions(snapshot, view)
        wanted = prune(known)
        partitions = sorted(set(view.list_partitions()).intersection(wanted))
        view.load_partitions(partitions)
        return cls(view, known, wanted, partitions)

    def latest_slices(self, snapshot: TableSnapshot, *, optimized: bool = False) -> list[FileSlice]:
        """The newest slices.

        Args:
            snapshot: The table.
            optimized: Whether log files are left out.

        Raises:
            HoodieIOException: Base files are missing.
        """
        check_files(snapshot, self.view, self.wanted, needs_logs=not optimized)
        if optimized:
            files = {path: self.view.latest_base_files(path) for path in self.partitions}
            return [file_slice for path, found in files.items() for file_slice in only_base_files(path, found)]
        return [file_slice for path in self.partitions for file_slice in self.view.latest_file_slices(path)]


def latest_slices(snapshot: TableSnapshot, prune: Prune, *, optimized: bool = False) -> list[FileSlice]:
    """The newest slices of the partitions that may hold rows.

    Args:
        snapshot: The table.
        prune: Selects the partitions.
        optimized: Whether log files are left out.

    Raises:
        HoodieIOException: Base files are missing, or storage failed.
    """
    return ListedPartitions.of(snapshot, prune).latest_slices(snapshot, optimized=optimized)


def only_base_files(partition_path: str, files: Sequence[HoodieBaseFile]) -> list[FileSlice]:
    """Slices of base files alone.

    Args:
        partition_path: Their partition.
        files: The files.
    """
    return [FileSlice(partition_path, file.file_id, file.instant_time, file) for file in files]
