"""File slices of a time before the table's version changed, whose log files readers of the present would take wrongly.

Time travel of hoodie reads such slices right. But if the table went back to one, readers of the present would read it:

- After an upgrade, a log file of version 6 may hold blocks of several commits, and readers of layout 2 take it as a
  whole.
- After a downgrade, Hudi takes a log file that layout 2 named by its delta commit for a slice of its own, without the
  base file.
"""

from __future__ import annotations

from collections.abc import Iterator

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.log.log_block_scanner import EVERY_BLOCK
from hoodie.io.log.log_record_scanner import HoodieLogRecordScanner

_FIRST_OF_LAYOUT_2 = 8


def slice_of_other_version(snapshot: TableSnapshot, instant_time: str) -> str | None:
    """Why a table cannot go back to an instant, or keep it to go back to: log files of another table version.

    Args:
        snapshot: The table, its timeline freshly loaded.
        instant_time: A completed instant.

    Returns:
        What is in the way, and the way out; None if nothing is.

    Raises:
        HoodieIOException: Storage failed.
        HoodieCorruptedDataException: A log file is damaged.
    """
    if snapshot.table_config.table_type is not HoodieTableType.MERGE_ON_READ:
        return None
    has_completion_times = snapshot.active_timeline.layout.has_completion_times
    initial_version = snapshot.table_config.initial_version or _FIRST_OF_LAYOUT_2
    if has_completion_times and initial_version >= _FIRST_OF_LAYOUT_2:
        return None
    slices = list(_slices_with_logs(snapshot, instant_time))

    def is_wrong(part: FileSlice) -> bool:
        if has_completion_times:
            return _has_other_blocks(snapshot, part, instant_time)
        return _has_other_names(snapshot, part)

    found = next((part for part, wrong in zip(slices, map_concurrently(is_wrong, slices), strict=True) if wrong), None)
    if found is None:
        return None
    return (
        f"file group {found.file_id} of partition '{found.partition_path}' has log files of the time before the "
        f"table's version was changed, such as {found.log_files[-1].file_name}, which readers would take wrongly. Read "
        f"the rows as of {instant_time}, and write them into the table by insert_overwrite_table()"
    )


def _slices_with_logs(snapshot: TableSnapshot, instant_time: str) -> Iterator[FileSlice]:
    view = snapshot.view()
    for partition_path in view.load_all_partitions():
        for part in view.latest_file_slices_before_or_on(partition_path, instant_time):
            if part.record_log_files:
                yield part


def _has_other_names(snapshot: TableSnapshot, part: FileSlice) -> bool:
    """Layout 1: whether a log file names neither its slice nor that of a pending compaction."""
    own = {part.base_instant_time, *snapshot.active_timeline.visible_instants.pending_compactions}
    return any(log_file.instant_time not in own for log_file in part.record_log_files)


def _has_other_blocks(snapshot: TableSnapshot, part: FileSlice, instant_time: str) -> bool:
    """Layout 2: whether readers of the present merge other blocks of a slice than those of an instant."""

    def blocks(block_filter: LogBlockFilter) -> list[tuple[str, int]]:
        scanner = HoodieLogRecordScanner(
            snapshot.storage,
            part.log_files,
            snapshot.load_schema(),
            block_filter=block_filter,
            committed=snapshot.committed_log_files,
        )
        return [(block.path, block.offset_bytes) for block in scanner.blocks()]

    return blocks(EVERY_BLOCK) != blocks(LogBlockFilter(snapshot.active_timeline.visible_instants, instant_time))
