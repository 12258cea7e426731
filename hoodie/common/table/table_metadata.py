"""The partitions of a table and their files: the interface, and the implementation that lists the file system.

Hudi: org.apache.hudi.metadata.{HoodieTableMetadata, FileSystemBackedTableMetadata}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import attrs

from hoodie.common.fs.file_names import is_data_file_name, parse_base_file_name, parse_log_file_name
from hoodie.common.table.partition_metadata import (
    PARTITION_METAFILE_NAMES,
    PARTITION_METAFILE_PREFIX,
    check_partition_path,
)
from hoodie.storage import storage_path
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_path import METAFOLDER_NAME
from hoodie.threads import ThreadPool

_LISTING_THREAD_COUNT = 16
_LISTING_BATCH_SIZE = 1024

_InputT = TypeVar("_InputT")
_OutputT = TypeVar("_OutputT")


class HoodieTableMetadata(ABC):
    """Lists partitions and files of a table, committed or not; the file-system view decides which are committed."""

    @abstractmethod
    def list_partitions(self) -> list[str]:
        """The partition paths, sorted; for a table without partitions ``[""]``, or [] if it was never written to.

        Raises:
            HoodieIOException: Storage failed.
        """

    @abstractmethod
    def list_files(self, partition_path: str) -> list[FileStatus]:
        """The base and log files of a partition, sorted by name; [] for a partition that does not exist.

        Checksum files, success markers, partition metadata, folders and files of others are left out.

        Raises:
            HoodieIOException: The partition path would leave the table, or storage failed.
        """

    @abstractmethod
    def list_files_of(self, partition_paths: Sequence[str]) -> dict[str, list[FileStatus]]:
        """`list_files` of several partitions at once, keyed by partition path.

        Raises:
            HoodieIOException: A partition path would leave the table, or storage failed.
        """

    @abstractmethod
    def list_stored_files(self) -> dict[str, list[FileStatus]]:
        """Partition path to the base and log files in its folder, as storage has them, also in other folders.

        For repairs, which look for what other listings do not show.

        Raises:
            HoodieIOException: Storage failed.
        """

    def list_versions(self, partition_path: str, *, with_log_files: bool = False) -> dict[str, set[str]]:
        """File id to the instant times of its base files in a partition, committed or not.

        Args:
            partition_path: The partition.
            with_log_files: Whether the times in the names of log files count too: the base instants of their slices
                (version 6), or their own (versions 8 and 9).

        Raises:
            HoodieIOException: The partition path would leave the table, or storage failed.
        """
        found: dict[str, set[str]] = defaultdict(set)
        for status in self.list_files(partition_path):
            name = parse_base_file_name(status.name) or (parse_log_file_name(status.name) if with_log_files else None)
            if name is not None:
                found[name.file_id].add(name.instant_time)
        return found


def table_metadata_of(
    storage: HoodieStorage, base_path: str, *, has_partition_fields: bool = True
) -> HoodieTableMetadata:
    """A listing of the partitions and files of a table by its storage.

    Args:
        storage: The table's storage.
        base_path: The table's folder.
        has_partition_fields: Whether the table's properties name partition fields; True if they are not known.
    """
    return FileSystemBackedTableMetadata(storage, base_path, has_partition_fields)


@attrs.frozen
class FileSystemBackedTableMetadata(HoodieTableMetadata):
    """Lists the file system; nothing is cached.

    A partition is a folder with a partition metadata file. In a table without partition fields, the base path is one as
    soon as it has data files: hudi-rs 0.6 writes no partition metadata there, and Hudi's readers do not look for it.

    The search begins at the base path. It does not go below a partition (other than the base path) nor into
    ``.hoodie``. Folders are listed concurrently. Memory: the partition paths, and the entries of a bounded number of
    folders.

    Attributes:
        storage: The table's storage.
        base_path: The table's folder.
        has_partition_fields: See `table_metadata_of`.
    """

    storage: HoodieStorage
    base_path: str
    has_partition_fields: bool = True

    def list_partitions(self) -> list[str]:
        """See `HoodieTableMetadata.list_partitions`."""
        entries = self.storage.list_directory(self.base_path)
        partitions = []
        if any(not entry.is_directory and self._tells_of_rows(entry.name) for entry in entries):
            partitions.append("")
        level = [entry.path for entry in entries if entry.is_directory and entry.name != METAFOLDER_NAME]
        while level:
            next_level: list[str] = []
            for folder, sub_folders in zip(level, map_concurrently(self._sub_folders, level), strict=True):
                if sub_folders is None:
                    partitions.append(storage_path.relative_to(self.base_path, folder))
                else:
                    next_level.extend(sub_folders)
            level = next_level
        return sorted(partitions)

    def list_files(self, partition_path: str) -> list[FileStatus]:
        """See `HoodieTableMetadata.list_files`."""
        folder = storage_path.join(self.base_path, check_partition_path(partition_path))
        return [
            status
            for status in self.storage.list_directory(folder)
            if not status.is_directory and is_data_file_name(status.name)
        ]

    def list_files_of(self, partition_paths: Sequence[str]) -> dict[str, list[FileStatus]]:
        """See `HoodieTableMetadata.list_files_of`."""
        return dict(zip(partition_paths, map_concurrently(self.list_files, partition_paths), strict=True))

    def list_stored_files(self) -> dict[str, list[FileStatus]]:
        """See `HoodieTableMetadata.list_stored_files`."""
        found: dict[str, list[FileStatus]] = defaultdict(list)
        top = self.storage.list_directory(self.base_path)
        listings: list[Sequence[FileStatus]] = [[status for status in top if not status.is_directory]]
        listings += [
            self.storage.list_files(status.path)
            for status in top
            if status.is_directory and status.name != METAFOLDER_NAME
        ]
        for status in (status for listing in listings for status in listing):
            if is_data_file_name(status.name):
                folder = storage_path.parent(status.path)
                found[storage_path.relative_to(self.base_path, folder)].append(status)
        return dict(sorted(found.items()))

    def _tells_of_rows(self, name: str) -> bool:
        """Whether a file of this name in the base path makes it a partition."""
        is_data_file = not self.has_partition_fields and is_data_file_name(name)
        return is_data_file or name.startswith(PARTITION_METAFILE_PREFIX)

    def _sub_folders(self, folder: str) -> list[str] | None:
        """The folders in a folder; None if it is a partition.

        The metadata file is looked up by name first, because the cost of listing a partition grows with its files.
        """
        if self.storage.is_file(storage_path.join(folder, PARTITION_METAFILE_NAMES[0])):
            return None
        entries = self.storage.list_directory(folder)
        if any(not entry.is_directory and entry.name.startswith(PARTITION_METAFILE_PREFIX) for entry in entries):
            return None
        return [entry.path for entry in entries if entry.is_directory and entry.name != METAFOLDER_NAME]


def map_concurrently(function: Callable[[_InputT], _OutputT], items: Iterable[_InputT]) -> Iterator[_OutputT]:
    """Call a function that waits for storage on each item; yields the results in order, raises the first error."""
    remaining = iter(items)
    first = list(islice(remaining, 2))
    if len(first) < 2:
        yield from map(function, first)
        return
    with ThreadPool(_LISTING_THREAD_COUNT, "hoodie-listing") as executor:
        batch = first + list(islice(remaining, _LISTING_BATCH_SIZE))
        while batch:
            yield from executor.map(function, batch)
            batch = list(islice(remaining, _LISTING_BATCH_SIZE))
