"""Numbers about a table as Arrow tables."""

from __future__ import annotations

import pyarrow as pa

from hoodie.common.table.table_meta_client import HoodieTableMetaClient
from hoodie.common.table.timeline.instant_time import parse_instant_time
from hoodie.storage.storage_options import StorageOptions

_COMMITS = pa.schema(
    [
        ("instant_time", pa.string()),
        ("time", pa.timestamp("ms", "UTC")),
        ("operation", pa.string()),
        ("rows_inserted", pa.int64()),
        ("rows_updated", pa.int64()),
        ("rows_deleted", pa.int64()),
        ("files_written", pa.int64()),
        ("bytes_written", pa.int64()),
        ("completion_time", pa.string()),
    ]
)
_FILE_SIZES = pa.schema(
    [
        ("partition_path", pa.string()),
        ("file_id", pa.string()),
        ("instant_time", pa.string()),
        ("size_bytes", pa.int64()),
    ]
)


def commits(base_path: str, *, storage_options: StorageOptions | None = None) -> pa.Table:
    """The completed writes of the active timeline, the oldest first.

    Args:
        base_path: The table's folder.
        storage_options: Options of the storage.

    Returns:
        ``instant_time`` (string), ``time`` (timestamp[ms, UTC], the moment that the instant names), ``operation``
        (string), ``rows_inserted``, ``rows_updated``, ``rows_deleted``, ``files_written``, ``bytes_written`` (int64),
        ``completion_time`` (string; null in tables of version 6).

    Raises:
        TableNotFoundException: There is no table at that path.
        HoodieCorruptedDataException: Commit metadata is damaged.
        HoodieIOException: Storage failed.
    """
    table = HoodieTableMetaClient.load(base_path, storage_options)
    timezone = table.active_timeline.timezone
    rows = []
    for instant in table.history():
        if instant.operation is not None:
            row = {name: getattr(instant, name) for name in _COMMITS.names if name != "time"}
            rows.append(row | {"time": parse_instant_time(instant.instant_time, timezone)})
    return pa.Table.from_pylist(rows, _COMMITS)


def file_sizes(base_path: str, *, storage_options: StorageOptions | None = None) -> pa.Table:
    """The newest slice of each file group, by partition.

    Args:
        base_path: The table's folder.
        storage_options: Options of the storage.

    Returns:
        ``partition_path``, ``file_id``, ``instant_time`` (string), ``size_bytes`` (int64).

    Raises:
        TableNotFoundException: There is no table at that path.
        HoodieIOException: Storage failed.
    """
    files = HoodieTableMetaClient.load(base_path, storage_options).files()
    return pa.Table.from_pylist(
        [{name: getattr(file, name) for name in _FILE_SIZES.names} for file in files], _FILE_SIZES
    )
