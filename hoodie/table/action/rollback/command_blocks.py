"""Take back blocks of log files by command blocks behind them (timeline layout 1).

A log file of version 6 may hold blocks that stay, and readers may be reading it. So an instant is taken back by a new
log file of the slice, whose command block tells readers to leave out the blocks of the instant before it. Without it
the blocks would count as soon as the timeline is archived past the instant.

Hudi: org.apache.hudi.table.action.rollback.BaseRollbackHelper (generateHeader, appendBlock).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

import attrs

from hoodie.common.fs.file_names import make_log_file_name, parse_log_file_name
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant_time import in_order
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlockType
from hoodie.io.log.log_block_writer import encode_rollback_block
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_path import join
from hoodie.table.action.rollback.instant_files import stored_blocks

logger = logging.getLogger(__name__)

SliceKey = tuple[str, str, str]
"""Partition path, file id and base instant."""
WRITE_TOKEN = "1-0-1"
"""Of log files that no task wrote, as in Hudi 0.15."""


@attrs.frozen
class CommandFile:
    """A log file with command blocks.

    Attributes:
        partition_path: Its partition.
        path: Its full path.
        size_bytes: Its size.
        targets: The instants whose blocks it takes back.
    """

    partition_path: str
    path: str
    size_bytes: int
    targets: tuple[str, ...]


def take_back(
    snapshot: TableSnapshot, slices: Collection[SliceKey], is_undone: Callable[[str], bool], instant_time: str
) -> list[CommandFile]:
    """Write a log file with command blocks into each slice that needs one; a second call writes nothing.

    Args:
        snapshot: The table.
        slices: The slices.
        is_undone: Takes the instant of a block and tells whether to take it back.
        instant_time: The rollback or restore.

    Returns:
        The log files with such command blocks, also those that an earlier run or another writer wrote.

    Raises:
        HoodieIOException: Storage failed; call again.
    """
    keys = sorted(slices)
    listed = snapshot.table_metadata.list_files_of(sorted({key[0] for key in keys}))

    def in_slice(key: SliceKey) -> list[CommandFile]:
        return _take_back_in(snapshot, key, listed[key[0]], is_undone, instant_time)

    return [file for files in map_concurrently(in_slice, keys) for file in files]


def _take_back_in(
    snapshot: TableSnapshot,
    key: SliceKey,
    listed: Collection[FileStatus],
    is_undone: Callable[[str], bool],
    instant_time: str,
) -> list[CommandFile]:
    """`take_back` in one slice."""
    partition_path, file_id, base_instant = key
    while True:
        files = _log_files(key, listed)
        pending, commands = _look(snapshot, partition_path, files, is_undone)
        if not pending:
            return commands
        version = max((number for number, _, _ in files), default=0) + 1
        path = join(snapshot.base_path, partition_path, make_log_file_name(file_id, base_instant, version, WRITE_TOKEN))
        content = b"".join(encode_rollback_block(instant_time, target) for target in pending)
        if snapshot.storage.create_if_absent(path, content):
            logger.info("took back %s of file group %s by %s", ", ".join(pending), file_id, path)
            return [*commands, CommandFile(partition_path, path, len(content), tuple(pending))]
        # Another process wrote it: the same rollback, or a rollback of another instant.
        listed = snapshot.table_metadata.list_files(partition_path)


def _log_files(key: SliceKey, statuses: Collection[FileStatus]) -> list[tuple[int, str, FileStatus]]:
    """The log files of a slice with version and write token, in the order in which they are read."""
    found = []
    for status in statuses:
        name = parse_log_file_name(status.name)
        if name is not None and not name.is_cdc and (name.file_id, name.instant_time) == key[1:]:
            found.append((name.version, name.write_token or "", status))
    return sorted(found, key=lambda entry: entry[:2])


def _look(
    snapshot: TableSnapshot,
    partition_path: str,
    files: Collection[tuple[int, str, FileStatus]],
    is_undone: Callable[[str], bool],
) -> tuple[list[str], list[CommandFile]]:
    """The instants that are to be taken back and are not yet; and the files that take back others."""
    pending: set[str] = set()
    commands = []
    for _, _, status in files:
        targets: list[str] = []
        for block in stored_blocks(snapshot.storage, status.path):
            is_command = block.block_type is HoodieLogBlockType.COMMAND
            key = HeaderMetadataType.TARGET_INSTANT_TIME if is_command else HeaderMetadataType.INSTANT_TIME
            time = block.headers.get(key)
            if time is None or not is_undone(time):
                continue
            if is_command:
                pending.discard(time)
                targets.append(time)
            else:
                pending.add(time)
        if targets:
            commands.append(CommandFile(partition_path, status.path, status.size_bytes, tuple(targets)))
    return in_order(pending), commands
