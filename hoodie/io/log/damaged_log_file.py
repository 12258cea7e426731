"""A check that tells a damaged log file of a commit from a torn one of a dead writer.

Hudi has no such check.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from hoodie.common.model.file_slice import HoodieLogFile
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS
from hoodie.common.table.view.committed_log_files import CommittedBytes, CommittedLogFiles, largest_end
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.log.log_block import HoodieLogBlockType, StoredLogBlock
from hoodie.io.log.log_file_reader import HoodieLogFileReader

logger = logging.getLogger(__name__)


def _every(instant_time: str) -> bool:
    return True


def whole_blocks(
    reader: HoodieLogFileReader,
    log_file: HoodieLogFile,
    committed: CommittedLogFiles | None,
    counts: Callable[[str], bool] = _every,
) -> list[StoredLogBlock]:
    """The blocks of a log file, torn ones of dead writers included.

    Only a file that looks damaged is compared with the metadata of commits: a file with a torn block, without blocks,
    or shorter than in the listing.

    Args:
        reader: The file, opened.
        log_file: The file, as it was listed.
        committed: The sizes that completed instants give for log files; None: torn blocks are skipped.
        counts: Whether blocks of an instant count for the caller; damage of other blocks does not matter.

    Raises:
        HoodieCorruptedDataException: The file is damaged; the message names it and both sizes.
        HoodieNotSupportedException: A block has a version or type that hoodie does not know.
        HoodieIOException: Storage failed.
    """
    blocks = list(reader.stored_blocks())
    if committed is None or not _looks_damaged(reader, log_file, blocks):
        return blocks
    commits = [
        one
        for one in committed.bytes_of(log_file)
        if one.instant.action.completed_action not in COMMIT_ACTIONS or counts(one.instant.requested_time)
    ]
    if commits:
        blocks = list(reader.stored_blocks({one.end for one in commits if one.end is not None}))
        _refuse_damage(reader, log_file, blocks, commits, committed.remedy)
    elif not blocks:
        logger.warning("Log file %s holds no block, and no completed instant names it: it is left out", log_file.path)
    return blocks


def torn_parts(reader: HoodieLogFileReader, blocks: Sequence[StoredLogBlock]) -> Iterator[tuple[int, int]]:
    """The byte ranges of a log file that are not whole blocks.

    Args:
        reader: The file.
        blocks: All blocks of the file.
    """
    for number, block in enumerate(blocks):
        if block.block_type is HoodieLogBlockType.CORRUPT:
            is_last = number + 1 == len(blocks)
            yield block.offset_bytes, reader.size_bytes if is_last else blocks[number + 1].offset_bytes


def _looks_damaged(reader: HoodieLogFileReader, log_file: HoodieLogFile, blocks: Sequence[StoredLogBlock]) -> bool:
    is_short = reader.size_bytes < max(log_file.size_bytes, log_file.committed_bytes)
    return is_short or not blocks or any(block.block_type is HoodieLogBlockType.CORRUPT for block in blocks)


def _refuse_damage(
    reader: HoodieLogFileReader,
    log_file: HoodieLogFile,
    blocks: Sequence[StoredLogBlock],
    commits: Sequence[CommittedBytes],
    remedy: str,
) -> None:
    size, last = reader.size_bytes, largest_end(commits)
    if last is not None and last.end is not None and size < last.end:
        raise HoodieCorruptedDataException(
            f"Cannot read the log file {log_file.path}: it is damaged. {last.instant.action} "
            f"{last.instant.requested_time} completed it with {last.end} bytes, and {size} bytes are there. {remedy}"
        )
    for start, end in torn_parts(reader, blocks):
        for one in commits:
            if start < (size if one.end is None else one.end) and end > one.start:
                committed = "an unknown number of" if one.end is None else one.end
                raise HoodieCorruptedDataException(
                    f"Cannot read the log file {log_file.path}: it is damaged. {one.instant.action} "
                    f"{one.instant.requested_time} completed it with {committed} bytes of whole blocks; {size} bytes "
                    f"are there, of which bytes {start} to {end} are not whole blocks. {remedy}"
                )
