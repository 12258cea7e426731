"""Refuse to widen a column of a merge-on-read table where a reader would fail at rows of the older type.

Hudi 0.15 reads Avro blocks of log files in a wider type than they were written in, and fails at Parquet blocks, in
queries and compactions, until they are compacted. It reads tables of version 6 only.

Hudi has nothing like it.
"""

from __future__ import annotations

from collections.abc import Iterable

from hoodie.common.data.schema_compatibility import ColumnChange
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieNotSupportedException
from hoodie.io.log.log_block import HoodieLogBlockType
from hoodie.io.log.log_file_reader import open_log_file


def refuse_widening_of_parquet_blocks(snapshot: TableSnapshot, changes: Iterable[ColumnChange]) -> None:
    """Refuse a write that widens a column while log files hold Parquet blocks, in version 6.

    The heads of all log files are read, if a column is widened.

    Args:
        snapshot: The table.
        changes: The changes of the input's columns.

    Raises:
        HoodieNotSupportedException: A log file has such a block.
        HoodieException: A log file cannot be read.
    """
    config = snapshot.table_config
    if config.table_type is not HoodieTableType.MERGE_ON_READ or snapshot.active_timeline.layout.has_completion_times:
        return
    widened = [change for change in changes if change.stored is not None and change.stored != change.becomes]
    if not widened:
        return
    view = snapshot.view()
    partitions = view.list_partitions()
    view.load_partitions(partitions)
    paths = [
        log_file.path
        for partition_path in partitions
        for file_slice in view.latest_file_slices(partition_path)
        for log_file in file_slice.log_files
    ]

    def has_parquet(path: str) -> bool:
        with open_log_file(snapshot.storage, path) as reader:
            return any(block.block_type is HoodieLogBlockType.PARQUET_DATA for block in reader.stored_blocks())

    found = [path for path, has_some in zip(paths, map_concurrently(has_parquet, paths), strict=True) if has_some]
    if found:
        raise HoodieNotSupportedException(
            f"column {widened[0]}, and {len(found)} log files of {snapshot.base_path} hold Parquet blocks of the older "
            f"type, such as {found[0]}: Hudi 0.15 would fail to read them. Compact the table first, or cast the column "
            f"to {widened[0].stored}; nothing was written"
        )
