"""A scanner that selects the blocks of a file slice's log files that count, in the order in which they are merged.

Which blocks count is known only when the headers of all blocks are read:

- A ROLLBACK command cancels the blocks of its target before it. Blocks of that instant after it count.
- A block of a log compaction replaces the blocks of the instants that it lists, at the place of the newest of them. It
  may itself have been compacted. It does not count where one of these instants is not committed: Hudi log compacts
  metadata tables beside instants that are pending in the table, and keeps the result when they are rolled back.
- Blocks of one instant stay together, at the place of the first of them.

If two attempts of a task wrote blocks, all of them count, the later ones last, as in Hudi 0.15.0 and later. Hudi 0.14
chose one attempt by the header BLOCK_IDENTIFIER, and lost rows that way.

Hudi: org.apache.hudi.common.table.log.BaseHoodieLogRecordReader.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Protocol

import attrs

from hoodie.common.model.file_slice import HoodieLogFile
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.view.committed_log_files import CommittedLogFiles
from hoodie.common.table.view.log_placement import log_file_order
from hoodie.exception import HoodieCorruptedDataException, HoodieNotSupportedException
from hoodie.io.log.damaged_log_file import whole_blocks
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlock, HoodieLogBlockType, StoredLogBlock
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.log.log_file_reader import open_log_file
from hoodie.storage.storage import HoodieStorage

logger = logging.getLogger(__name__)

EVERY_BLOCK = LogBlockFilter()
"""The filter that lets all blocks count, for versions 8 and 9."""
_ROLLBACK = "0"
"""Value of the header COMMAND_BLOCK_TYPE."""
_KEPT_BYTES = 32 << 20
"""The most bytes of contents that stay in memory after the headers are read."""
_KEPT_BYTES_OF_FILE = 1 << 20
"""The same for one file."""
_POSITION_HEADERS = (
    HeaderMetadataType.RECORD_POSITIONS,
    HeaderMetadataType.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS,
)


class KnownLogBlocks(Protocol):
    """A cache of the blocks of log files that were read before. Used by many threads."""

    def find(self, log_file: HoodieLogFile) -> Sequence[StoredLogBlock] | None:
        """The blocks of a file; None if it is not in the cache, or has changed."""

    def keep(self, log_file: HoodieLogFile, blocks: Sequence[StoredLogBlock]) -> None:
        """Keep the blocks of a file that was read."""


@attrs.frozen
class LogScanCounts:
    """Counts of the files and blocks of a scan, whether the blocks count or not.

    Attributes:
        log_files: The number of log files, without CDC files.
        log_blocks: The number of blocks of all types.
        corrupt_blocks: The number of torn blocks.
        rollback_blocks: The number of ROLLBACK commands.
    """

    log_files: int = 0
    log_blocks: int = 0
    corrupt_blocks: int = 0
    rollback_blocks: int = 0


class LogBlockScanner:
    """A scanner of the data and delete blocks of one slice that count, the oldest first.

    Log files are read by ranges: first the headers of all blocks, then the contents of those that count. CDC files and
    blocks are left out. So are torn blocks of dead writers, with a warning that names file and byte.

    Memory: one block, the headers of all, and up to 32 MiB of small blocks that were read together with their headers.

    Args:
        storage: The storage of the files.
        log_files: The log files of the slice, in any order.
        block_filter: The rule which blocks count.
        base_instant_time: The instant of the slice's base file, if positions of records in it are wanted. Blocks with
            positions in another base file lose them. None: all blocks do.
        known_blocks: A cache of the blocks of files.
        committed: The sizes of completed log files; see `hoodie.io.log.damaged_log_file`.
    """

    def __init__(
        self,
        storage: HoodieStorage,
        log_files: Iterable[HoodieLogFile],
        block_filter: LogBlockFilter = EVERY_BLOCK,
        base_instant_time: str | None = None,
        known_blocks: KnownLogBlocks | None = None,
        committed: CommittedLogFiles | None = None,
    ) -> None:
        self._storage = storage
        self._committed = committed
        self._log_files = sorted((file for file in log_files if not file.is_cdc), key=log_file_order)
        self._block_filter = block_filter
        self._base_instant_time = base_instant_time
        self._counts = LogScanCounts()
        self._texts: dict[str, str] = {}
        self._known_blocks = known_blocks

    @property
    def counts(self) -> LogScanCounts:
        """The counts, once `blocks` was called."""
        return self._counts

    def blocks(self) -> list[StoredLogBlock]:
        """The data and delete blocks that count, in the order in which they are merged.

        Raises:
            HoodieMissingFileException: A log file is missing.
            HoodieIOException: Storage failed.
            HoodieCorruptedDataException: A block is damaged, the message names the file and the byte; or a file is torn
                where a completed instant wrote, see `whole_blocks`.
            HoodieNotSupportedException: A block has a type or version that hoodie does not read.
        """
        queued: dict[str, list[StoredLogBlock]] = {}
        block_counts: Counter[HoodieLogBlockType] = Counter()
        kept_bytes = 0
        for blocks in self._blocks_of_files():
            block_counts.update(block.block_type for block in blocks)
            for block in blocks:
                kept_bytes += len(block.content or b"")
                self._queue(attrs.evolve(block, content=None) if kept_bytes > _KEPT_BYTES else block, queued)
        self._counts = LogScanCounts(
            len(self._log_files),
            block_counts.total(),
            block_counts[HoodieLogBlockType.CORRUPT],
            block_counts[HoodieLogBlockType.COMMAND],
        )
        return [block for instant_time in _merge_order(queued) for block in queued[instant_time]]

    def loaded(self, blocks: Iterable[StoredLogBlock]) -> Iterator[HoodieLogBlock]:
        """Blocks with their contents. A file is opened only if one of its contents is not in memory.

        Args:
            blocks: Some of `blocks`, in their order.

        Raises:
            HoodieException: See `blocks`.
        """
        for path, group in groupby(blocks, key=lambda block: block.path):
            rest = deque(group)
            while rest and (content := rest[0].content) is not None:
                yield rest.popleft().loaded(content)
            if rest:
                with open_log_file(self._storage, path) as file:
                    while rest:
                        yield file.read(rest.popleft())

    def _blocks_of_files(self) -> Iterator[Sequence[StoredLogBlock]]:
        """The blocks of each file; files that are not in the cache are read at the same time."""
        known = self._known_blocks
        if known is None:
            yield from map_concurrently(self._blocks_of_file, self._log_files)
            return
        found = [known.find(log_file) for log_file in self._log_files]
        unknown = [log_file for log_file, blocks in zip(self._log_files, found, strict=True) if blocks is None]
        read = map_concurrently(self._blocks_of_file, unknown)
        for log_file, blocks in zip(self._log_files, found, strict=True):
            if blocks is None:
                blocks = next(read)
                known.keep(log_file, blocks)
            yield blocks

    def _blocks_of_file(self, log_file: HoodieLogFile) -> Sequence[StoredLogBlock]:
        """The blocks of one file; contents of small ones stay in memory up to a limit."""
        found, kept_bytes = [], 0
        with open_log_file(self._storage, log_file.path, log_file.size_bytes) as file:
            for block in whole_blocks(file, log_file, self._committed, self._block_filter.counts):
                kept_bytes += len(block.content or b"")
                content = block.content if kept_bytes <= _KEPT_BYTES_OF_FILE else None
                found.append(attrs.evolve(block, headers=self._needed_headers(block), content=content))
        return found

    def _needed_headers(self, block: StoredLogBlock) -> Mapping[int, str]:
        """The headers without positions in other base files, which may be long. Equal texts are shared between
        blocks.
        """
        positions_of = block.headers.get(HeaderMetadataType.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS)
        has_positions = positions_of is not None and positions_of == self._base_instant_time
        return {
            key: self._texts.setdefault(text, text) if key == HeaderMetadataType.SCHEMA else text
            for key, text in block.headers.items()
            if has_positions or key not in _POSITION_HEADERS
        }

    def _queue(self, block: StoredLogBlock, queued: dict[str, list[StoredLogBlock]]) -> None:
        """Add a block to those of its instant, or execute its command."""
        if block.block_type is HoodieLogBlockType.CORRUPT:
            logger.warning(
                "Log file %s is torn at byte %d: %d bytes are left out",
                block.path,
                block.offset_bytes,
                block.content_bytes,
            )
        elif block.block_type is HoodieLogBlockType.COMMAND:
            queued.pop(_target_of_rollback(block), None)
        elif block.block_type is not HoodieLogBlockType.CDC_DATA:
            if block.instant_time is None:
                raise HoodieCorruptedDataException(f"Cannot read {block.source}: it does not tell its instant")
            if self._block_filter.counts(block.instant_time) and not self._holds_uncommitted(block):
                queued.setdefault(block.instant_time, []).append(block)

    def _holds_uncommitted(self, block: StoredLogBlock) -> bool:
        """Whether a log compaction has merged records of an instant that is not committed."""
        instants = self._block_filter.instants
        return instants is not None and not all(map(instants.is_committed, compacted_instants([block])))


def _target_of_rollback(block: StoredLogBlock) -> str:
    command = block.headers.get(HeaderMetadataType.COMMAND_BLOCK_TYPE)
    if command != _ROLLBACK:
        raise HoodieNotSupportedException(f"Cannot read {block.source}: it holds the unknown command {command!r}")
    target = block.headers.get(HeaderMetadataType.TARGET_INSTANT_TIME)
    if target is None:
        raise HoodieCorruptedDataException(f"Cannot read {block.source}: it does not tell which instant it rolls back")
    return target


def _merge_order(queued: Mapping[str, Sequence[StoredLogBlock]]) -> list[str]:
    """The instants whose blocks are merged, in order. A log compaction replaces the instants that it compacted.

        i1  i2  i3  m1(i1,i2)  i4  m2(m1,i3)        m2  i4

    Args:
        queued: The blocks of each instant, in the order of the first blocks.
    """
    compacted = {instant_time: compacted_instants(blocks) for instant_time, blocks in queued.items()}
    place_of = {instant_time: place for place, instant_time in enumerate(queued)}
    replaced_by: dict[str, str] = {}
    for instant_time in reversed(place_of):
        for listed in compacted[instant_time]:
            if place_of.get(listed, -1) >= place_of[instant_time]:
                raise HoodieCorruptedDataException(
                    f"Cannot read {queued[instant_time][0].source}: it compacts the instant {listed}, which is not "
                    "before it"
                )
            replaced_by[listed] = replaced_by.get(instant_time, instant_time)
    places: dict[str, int] = {}
    for instant_time, place in place_of.items():
        if not compacted[instant_time]:
            places[replaced_by.get(instant_time, instant_time)] = place
    for instant_time, place in place_of.items():
        # The compacted blocks are not among the files, or do not count.
        if instant_time not in replaced_by:
            places.setdefault(instant_time, place)
    return sorted(places, key=places.__getitem__)


def compacted_instants(blocks: Sequence[StoredLogBlock]) -> list[str]:
    """The instants that a log compaction merged into its blocks; empty for other blocks.

    Args:
        blocks: Blocks of one instant.
    """
    headers = {block.headers.get(HeaderMetadataType.COMPACTED_BLOCK_TIMES, "") for block in blocks}
    return [text for header in sorted(headers) for part in header.split(",") if (text := part.strip())]
