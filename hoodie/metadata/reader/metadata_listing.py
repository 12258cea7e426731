"""The choice between the two listings of a table's committed files: by its metadata table, or by storage.

=====================================================================================  ================================
the table, and the user                                                                what lists the files
=====================================================================================  ================================
``hoodie.table.metadata.partitions`` does not list ``files``                           storage
``hoodie.metadata.enable=false``                                                       storage
``.hoodie/metadata`` is missing, cannot be read, or lacks a commit that is completed   storage, with a warning
it has times that are no moments of the table, see `misplaced_times`                   storage, with a warning
otherwise                                                                              the metadata table
=====================================================================================  ================================

Hudi: org.apache.hudi.metadata.HoodieTableMetadata.create. Differs: falls back to storage whatever is wrong with the
metadata table. It also does so if the metadata table lacks commits or has wrong times; Hudi's readers miss rows then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from hoodie.common.table.table_metadata import HoodieTableMetadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after, oldest
from hoodie.exception import HoodieException
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles, is_initial_time
from hoodie.metadata.reader.misplaced_times import first_misplaced_time
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.storage.storage import FileStatus

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

_FILES = MetadataPartitionType.FILES.partition_path
_RECORD_INDEX = MetadataPartitionType.RECORD_INDEX.partition_path
_SMALL_BYTES = 4 << 20
"""Up to this size on storage the whole listing is read in one go, which saves requests."""
_DIGITS = 17
"""The length of an instant time. In version 6 the instants that build a metadata table have three digits more."""


@attrs.frozen
class MetadataListingChoice:
    """Chooses the listing of a table's committed files; see the module. Picklable.

    Attributes:
        is_enabled: ``hoodie.metadata.enable``.
    """

    is_enabled: bool = True

    def __call__(self, snapshot: TableSnapshot) -> HoodieTableMetadata:
        """The listing of the files of a table at a moment.

        Args:
            snapshot: The table.
        """
        stored = snapshot.table_metadata
        if not self.is_enabled or _FILES not in snapshot.table_config.metadata_partitions:
            return stored
        try:
            metadata = HoodieBackedTableMetadata.open(snapshot, for_readers=True)
            lacking = first_lacking_commit(snapshot, metadata.files)
            misplaced = first_misplaced_time(metadata.files) if lacking is None else None
        except HoodieException as error:
            _warn(snapshot, f"cannot be read: {error}")
            return stored
        if lacking is not None:
            _warn(snapshot, f"knows nothing of {lacking.action} {lacking.requested_time}, which is completed")
            return stored
        if misplaced is not None:
            _warn(snapshot, f"may hide rows: {misplaced}. The next write of hoodie builds it anew")
            return stored
        return MetadataListing(snapshot, metadata)


def metadata_of(snapshot: TableSnapshot) -> MetadataListing | None:
    """The metadata table of a table, if it lists the table's files; None if storage lists them.

    Args:
        snapshot: The table.
    """
    listing = snapshot.committed_files
    return listing if isinstance(listing, MetadataListing) and not listing.has_failed else None


def is_record_index_used(snapshot: TableSnapshot) -> bool:
    """Whether keys of a table are looked up in its record index: it is ready, and its times are right.

    Args:
        snapshot: The table.

    Raises:
        HoodieException: The metadata table cannot be read.
    """
    if _RECORD_INDEX not in snapshot.table_config.metadata_partitions:
        return False
    if isinstance(snapshot.committed_files, MetadataListing):
        return True
    return first_misplaced_time(MetadataTableFiles.load(snapshot)) is None


def folders_not_listed(snapshot: TableSnapshot) -> int:
    """The number of partitions of a snapshot whose files the metadata table has listed so far.

    Args:
        snapshot: The table.
    """
    listing = metadata_of(snapshot)
    return 0 if listing is None else listing.partition_count


class MetadataListing(HoodieTableMetadata):
    """Lists files by the metadata table, and by storage once that has failed. Keeps its listings.

    Memory: the files of the listed partitions.

    Args:
        snapshot: The table.
        metadata: Its metadata table.
    """

    def __init__(self, snapshot: TableSnapshot, metadata: HoodieBackedTableMetadata) -> None:
        self.metadata = metadata
        self.has_failed = False
        """Whether a read of the metadata table has failed. It is not read again then."""
        self._snapshot = snapshot
        self._partitions: list[str] | None = None
        self._files: dict[str, list[FileStatus]] = {}

    def list_partitions(self) -> list[str]:
        """See `HoodieTableMetadata.list_partitions`."""
        if self._partitions is None and self.ask(lambda metadata: metadata.stored_bytes(_FILES) <= _SMALL_BYTES):
            files = self.ask(lambda metadata: metadata.list_all_files())
            if files is not None:
                self._partitions = list(files)
                self._files.update(files)
        if self._partitions is None:
            self._partitions = self._listed(lambda listing: listing.list_partitions())
        return list(self._partitions)

    @property
    def partition_count(self) -> int:
        """The number of partitions that were listed so far."""
        return len(self._files)

    def list_files(self, partition_path: str) -> list[FileStatus]:
        """See `HoodieTableMetadata.list_files`. Has at least the files of completed instants."""
        return self.list_files_of([partition_path])[partition_path]

    def list_files_of(self, partition_paths: Sequence[str]) -> dict[str, list[FileStatus]]:
        """See `HoodieTableMetadata.list_files_of` and `list_files`."""
        unknown = [path for path in dict.fromkeys(partition_paths) if path not in self._files]
        if unknown:
            self._files.update(self._listed(lambda listing: listing.list_files_of(unknown)))
        return {path: self._files[path] for path in partition_paths}

    def list_stored_files(self) -> dict[str, list[FileStatus]]:
        """See `HoodieTableMetadata.list_stored_files`: storage is listed."""
        return self._snapshot.table_metadata.list_stored_files()

    def ask(self, question: Callable[[HoodieBackedTableMetadata], ResultT]) -> ResultT | None:
        """The answer of the metadata table to a question; None, with a warning, if the table cannot be read.

        Args:
            question: Reads the answer from the metadata table.
        """
        if self.has_failed:
            return None
        try:
            return question(self.metadata)
        except HoodieException as error:
            self.has_failed = True
            _warn(self._snapshot, f"cannot be read: {error}")
            return None

    def _listed(self, list_by: Callable[[HoodieTableMetadata], ResultT]) -> ResultT:
        answer = self.ask(list_by)
        return list_by(self._snapshot.table_metadata) if answer is None else answer


def first_lacking_commit(snapshot: TableSnapshot, files: MetadataTableFiles) -> HoodieInstant | None:
    """The first completed write of a table that its metadata table lacks; None if it has all.

    The metadata table has a write if it has an instant of the same time. Writes before the first instant of the
    metadata table need none: their instants are archived there, or the first build listed their files on storage.

    Args:
        snapshot: The table.
        files: Its metadata table.
    """
    own = files.snapshot.active_timeline.filter_completed_instants()
    known = own.times
    initial = [instant for instant in own if is_initial_time(instant.requested_time)]
    first = oldest(known - {instant.requested_time for instant in initial})
    made_at = oldest(instant.completion_time for instant in initial)
    made_after = oldest(instant.requested_time[:_DIGITS] for instant in initial)
    for instant in snapshot.active_timeline.completed_writes():
        time = instant.requested_time
        if time in known:
            continue
        if first is not None:
            is_covered = not is_after(time, first[:_DIGITS])
        elif made_at is not None:
            is_covered = not is_after(instant.newest_time, made_at)
        else:
            is_covered = made_after is not None and not is_after(time, made_after)
        if not is_covered:
            return instant
    return None


def _warn(snapshot: TableSnapshot, problem: str) -> None:
    logger.warning(
        "the metadata table of %s %s; storage is listed instead. Check it with hoodie.metadata.validate; with "
        "hoodie.metadata.enable=false readers do not look at it", snapshot.base_path, problem,
    )  # fmt: skip
