"""Which partitions a table has and which files they hold: the interface, and the answer from the file system.

Hudi: org.apache.hudi.metadata.{HoodieTableMetadata, FileSystemBackedTableMetadata}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import attrs

from hoodie.common.fs.file_names import is_data_file_name
from hoodie.common.table.partition_metadata import (
    PARTITION_METAFILE_NAMES,
    PARTITION_METAFILE_PREFIX,
    check_partition_path,
)
from hoodie.storage import storage_path
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_path import METAFOLDER_NAME

__all__ = ["FileSystemBackedTableMetadata", "HoodieTableMetadata", "map_concurrently"]

_LISTING_THREAD_COUNT = 16
_LISTING_BATCH_SIZE = 1024

_InputT = TypeVar("_InputT")
_OutputT = TypeVar("_OutputT")


class HoodieTableMetadata(ABC):
    """Partitions and files of a table, whatever their instants: the file-system view tells what is committed."""

    @abstractmethod
    def list_partitions(self) -> list[str]:
        """The partition paths, sorted; ``[""]`` for a table without partitions that was written to, [] before.

        Raises:
            HoodieIOException: Storage failed.
        """

    @abstractmethod
    def list_files(self, partition_path: str) -> list[FileStatus]:
        """Base and log files of a partition, sorted by name; [] for a partition that does not exist.

        Checksums, markers of success, partition metadata, folders and other people's files are left out.

        Raises:
            HoodieIOException: The partition path would leave the table, or storage failed.
        """

    @abstractmethod
    def list_files_of(self, partition_paths: Sequence[str]) -> dict[str, list[FileStatus]]:
        """`list_files` of several partitions at once, keyed by partition path.

        Raises:
            HoodieIOException: A partition path would leave the table, or storage failed.
        """


@attrs.frozen
class FileSystemBackedTableMetadata(HoodieTableMetadata):
    """The answers as the file system gives them; nothing is cached.

    A partition is a folder with a file of partition metadata. The search begins at the base path, and does not go
    below a partition (other than the base path) nor into ``.hoodie``. Folders are asked side by side. Memory: the
    partition paths, and the entries of a bounded number of folders.

    Attributes:
        storage: The table's storage.
        base_path: The table's folder.
    """

    storage: HoodieStorage
    base_path: str

    def list_partitions(self) -> list[str]:
        """See `HoodieTableMetadata.list_partitions`."""
        entries = self.storage.list_directory(self.base_path)
        partitions = []
        if any(not entry.is_directory and entry.name.startswith(PARTITION_METAFILE_PREFIX) for entry in entries):
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

    def _sub_folders(self, folder: str) -> list[str] | None:
        """The folders within a folder, None when it is a partition.

        The metadata file is asked for by name first: listing a partition costs as much as it has files.
        """
        if self.storage.exists(storage_path.join(folder, PARTITION_METAFILE_NAMES[0])):
            return None
        entries = self.storage.list_directory(folder)
        if any(not entry.is_directory and entry.name.startswith(PARTITION_METAFILE_PREFIX) for entry in entries):
            return None
        return [entry.path for entry in entries if entry.is_directory and entry.name != METAFOLDER_NAME]


def map_concurrently(function: Callable[[_InputT], _OutputT], items: Iterable[_InputT]) -> Iterator[_OutputT]:
    """The results of a function that waits for storage, in the order of the items; the first error is raised."""
    remaining = iter(items)
    first = list(islice(remaining, 2))
    if len(first) < 2:
        yield from map(function, first)
        return
    with ThreadPoolExecutor(_LISTING_THREAD_COUNT, thread_name_prefix="hoodie-listing") as executor:
        batch = first + list(islice(remaining, _LISTING_BATCH_SIZE))
        while batch:
            yield from executor.map(function, batch)
            batch = list(islice(remaining, _LISTING_BATCH_SIZE))
