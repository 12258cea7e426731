"""The files of the archive, for the archiver; and those of timeline layout 1: append one, merge small ones.

Hudi: org.apache.hudi.client.HoodieTimelineArchiver (mergeArchiveFilesIfNecessary,
verifyLastMergeArchiveFilesIfNecessary).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Generic, TypeVar

from hoodie.avro.service_metadata import HoodieMergeArchiveFilePlan
from hoodie.common.table.timeline.archived_entry import entry_schema
from hoodie.common.table.timeline.archived_timeline import archive_files, read_archive_file
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.common.table.timeline.instant_time import format_instant_time
from hoodie.common.table.timeline.timeline_layout import TimelineLayout
from hoodie.config.archival_config import HoodieArchivalConfig
from hoodie.exception import HoodieCorruptedDataException, HoodieIOException
from hoodie.io.log.avro_block import avro_datums
from hoodie.io.log.log_block import HoodieLogBlockType
from hoodie.io.log.log_block_writer import encode_avro_data_block
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_path import file_name, join

logger = logging.getLogger(__name__)

MERGE_PLAN_FILE_NAME = "mergeArchivePlan"
"""Name that Hudi gives to the plan of a merge that is under way."""


EntryT = TypeVar("EntryT")
ReadContent = Callable[[HoodieInstant], bytes]
"""Reads the content of the file of an instant in its state."""


class ArchiveFiles(ABC, Generic[EntryT]):
    """The files of one table's archive; each timeline layout has its own.

    Methods are called in this order by one archiver at a time, which holds the table's lock. An archiver may die
    anywhere; the next one calls the methods again, for the instants that are still active.
    """

    @abstractmethod
    def prepare(self, states: Collection[HoodieInstant]) -> None:
        """Finish what an archiver that died had begun, and find out what the archive holds already.

        Args:
            states: All states of the instants that are to be archived.

        Raises:
            HoodieCorruptedDataException: A file of the archive is damaged.
            HoodieIOException: Storage failed; call again.
        """

    @abstractmethod
    def entries_of(self, files: Mapping[HoodieInstant, FileStatus], read: ReadContent) -> list[EntryT]:
        """The entries of the archive for one instant; [] if the archive holds them already.

        Args:
            files: The instant's states, the first one first, each with its file.
            read: Reads a state's content.

        Raises:
            HoodieCorruptedDataException: The content of the completed file is damaged.
            HoodieIOException: Storage failed.
        """

    @abstractmethod
    def size_bytes(self, entry: EntryT) -> int:
        """Bytes of an entry in memory."""

    @abstractmethod
    def append(self, entries: Sequence[EntryT]) -> str | None:
        """Write entries to a new file, which becomes the newest one.

        Returns:
            Its path; None if the archive holds all entries already.

        Raises:
            HoodieIOException: Storage failed; readers see all of the entries or none.
        """

    @abstractmethod
    def tidy_up(self) -> None:
        """Merge files, as far as that is due.

        Raises:
            HoodieCorruptedDataException: A file to be merged is damaged.
            HoodieIOException: Storage failed; the next run finishes what was begun.
        """


class LogArchiveFiles(ArchiveFiles[bytes]):
    """The folder ``.hoodie/archived`` of one table of timeline layout 1.

    Args:
        storage: The storage of the table.
        folder: Full path of the archive.
        layout: The layout of the table's timeline.
        archival: Sizes of blocks and merges.
        check: Called right before each step that only one archiver at a time may do; raises where its lock was lost.
        timezone: ``hoodie.table.timeline.timezone`` of the table.
    """

    def __init__(
        self,
        storage: HoodieStorage,
        folder: str,
        layout: TimelineLayout,
        archival: HoodieArchivalConfig,
        check: Callable[[], None],
        timezone: str = "UTC",
    ) -> None:
        self._storage = storage
        self._layout = layout
        self._timezone = timezone
        self._check = check
        self._folder = folder
        self._archival = archival
        self._known: set[HoodieInstant] = set()

    def prepare(self, states: Collection[HoodieInstant]) -> None:
        """See `ArchiveFiles.prepare`. A merge that is under way has taken the next file's name."""
        self.finish_merge()
        self._known = self._known_states(states)

    def entries_of(self, files: Mapping[HoodieInstant, FileStatus], read: ReadContent) -> list[bytes]:
        """See `ArchiveFiles.entries_of`: one entry for each state."""
        return [self._encode(state, status, read) for state, status in files.items() if state not in self._known]

    def size_bytes(self, entry: bytes) -> int:
        """See `ArchiveFiles.size_bytes`."""
        return len(entry)

    def tidy_up(self) -> None:
        """Merge small files, where that is switched on; see `merge_if_required`."""
        if self._archival.merge_enable:
            self.finish_merge()
            self.merge_if_required()

    def append(self, entries: Sequence[bytes]) -> str:
        """See `ArchiveFiles.append`."""
        content = b"".join(_blocks(entry_schema(), entries, self._archival.batch_size))
        while True:
            path = join(self._folder, self._next_name())
            self._check()
            if self._storage.create_if_absent(path, content):
                return path
            logger.info("another writer wrote the archive file %s meanwhile", path)

    def _known_states(self, states: Collection[HoodieInstant]) -> set[HoodieInstant]:
        """The states of instants that are in the archive already: an archiver died before it deleted them.

        Files are read from the newest one backwards, up to the first that holds none of the states.
        """
        known: set[HoodieInstant] = set()
        for status in self._newest_first():
            found = {state for state, _ in read_archive_file(self._storage, status.path)}.intersection(states)
            if not found:
                break
            known |= found
        return known

    def _encode(self, state: HoodieInstant, status: FileStatus, read: ReadContent) -> bytes:
        moment = datetime.fromtimestamp(status.modification_time_ms / 1000, UTC)
        transition_time = format_instant_time(moment, self._timezone)
        return self._layout.encode_archived(state, read(state), transition_time, status.path)

    # --- merging ------------------------------------------------------------------------------------------------

    def merge_if_required(self) -> bool:
        """Merge the newest files, as far as they are small, if there are enough of them.

        The plan is written; the merged file, which gets the next number, is written; the small files are deleted; the
        plan is deleted. A process may die after any of these steps. Readers see entries twice in between, and take each
        one once.

        Returns:
            Whether files were merged.

        Raises:
            HoodieCorruptedDataException: A file to be merged is damaged.
            HoodieIOException: Storage failed; the next run finishes what was begun.
        """
        small: list[FileStatus] = []
        for status in self._newest_first():
            if status.size_bytes > self._archival.merge_small_file_limit_bytes:
                break
            small.append(status)
        if len(small) < self._archival.merge_files_batch_size:
            return False
        merged = join(self._folder, self._next_name())
        plan = HoodieMergeArchiveFilePlan(tuple(status.path for status in small), file_name(merged))
        self._check()
        self._storage.replace(self._plan_path, self._layout.encode(plan))
        content = b"".join(
            _merged([status.path for status in reversed(small)], self._storage, self._archival.batch_size)
        )
        self._check()
        if not self._storage.create_if_absent(merged, content):
            raise HoodieIOException(
                f"another writer wrote {merged} while archive files were merged into it; nothing was deleted"
            )
        for status in small:
            self._check()
            self._storage.delete_file(status.path)
        self._storage.delete_file(self._plan_path)
        logger.info("merged %d files of the archive into %s", len(small), merged)
        return True

    def finish_merge(self) -> None:
        """Finish or take back the merge of a process that died, by the merge's plan.

        While all small files are there, the merged file may be incomplete, since Hudi writes it bit by bit: it is
        deleted. Once one small file is gone, the merged file is complete: the other small files are deleted.

        Raises:
            HoodieIOException: Storage failed; call again.
        """
        try:
            content = self._storage.read(self._plan_path)
        except FileNotFoundError:
            return
        try:
            plan = self._layout.decode(content, HoodieMergeArchiveFilePlan, self._plan_path)
            candidates = [self._inside(path) for path in plan.candidate]
            merged = self._inside(plan.merged_archive_file_name or "")
        except HoodieCorruptedDataException as error:
            logger.warning("a merge of archive files had not begun: %s", error)
        else:
            small_files = [path for path in candidates if self._storage.exists(path)]
            if len(small_files) == len(candidates):
                if self._holds_nothing_else(merged, candidates):
                    self._storage.delete_file(merged)
            elif self._storage.exists(merged):
                for path in small_files:
                    self._storage.delete_file(path)
            logger.warning("finished a merge of archive files in %s that had stopped half-way", self._folder)
        self._storage.delete_file(self._plan_path)

    # --- inside -------------------------------------------------------------------------------------------------

    def _holds_nothing_else(self, merged: str, candidates: Sequence[str]) -> bool:
        """Whether a merged file holds only entries of the files that it was made of.

        If the merged file was not written yet, another archiver may have used its name for a new file.
        """
        if not self._storage.exists(merged):
            return False
        try:
            states = {state for state, _ in read_archive_file(self._storage, merged)}
        except HoodieCorruptedDataException:
            return True
        known = {state for path in candidates for state, _ in read_archive_file(self._storage, path)}
        return states <= known

    @property
    def _plan_path(self) -> str:
        return join(self._folder, MERGE_PLAN_FILE_NAME)

    def _inside(self, path: str) -> str:
        """Full path in this folder of a file that a plan names: tables are moved, and plans are not trusted."""
        name = file_name(path)
        if self._layout.archive_file_number(name) is None:
            raise HoodieCorruptedDataException(f"the plan {self._plan_path} names {path!r}, which is no archive file")
        return join(self._folder, name)

    def _newest_first(self) -> list[FileStatus]:
        return archive_files(self._storage, self._folder, self._layout)[::-1]

    def _next_name(self) -> str:
        newest = self._newest_first()
        number = (self._layout.archive_file_number(newest[0].name) or 0) if newest else 0
        return self._layout.archive_file_name(number + 1)


def _blocks(schema: str, datums: Sequence[bytes], batch_size: int) -> Iterator[bytes]:
    remaining = iter(datums)
    while batch := list(islice(remaining, batch_size)):
        yield encode_avro_data_block(schema, batch)


def _merged(paths: Sequence[str], storage: HoodieStorage, batch_size: int) -> Iterator[bytes]:
    """The blocks of several files, in their order; entries of one schema share blocks. Torn blocks are left out."""
    schema: str | None = None
    datums: list[bytes] = []
    for path in paths:
        for block in read_log_blocks(storage.read(path), path):
            if block.block_type is not HoodieLogBlockType.AVRO_DATA or block.schema is None:
                continue
            if schema is not None and block.schema != schema:
                yield from _blocks(schema, datums, batch_size)
                datums = []
            schema = block.schema
            datums += avro_datums(block)
    if schema is not None:
        yield from _blocks(schema, datums, batch_size)
