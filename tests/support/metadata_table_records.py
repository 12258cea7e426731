"""What metadata tables say, as plain values, and states of tables that a dead writer leaves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.metadata_record_reader import SliceQuery, read_records

Records = dict[str, dict[str, dict[str, Any]]]
"""Partition to key to row."""


def opened(table: Path) -> HoodieBackedTableMetadata:
    """The metadata table of a table as it is now."""
    return HoodieBackedTableMetadata.open(TableSnapshot.load(str(table)))


def records_of(metadata: HoodieBackedTableMetadata) -> Records:
    """All live records of the partitions that the table lists."""
    found: Records = {}
    for partition in metadata.partitions:
        payload = metadata.payload_of(partition)
        slices = [part for parts in metadata.files.file_groups(partition).values() for part in parts]
        found[partition] = {}
        for records in read_records(metadata.files, payload, list(map(SliceQuery, slices))):
            found[partition].update(zip(records.keys.to_pylist(), records.rows.to_pylist(), strict=True))
    return found


def uncomplete_last_commit(table: Path) -> tuple[str, Path, bytes]:
    """Make the last commit of a table pending, as if its writer had died right before it completed it.

    Returns:
        Its instant time; its completed file, and what was in it.
    """
    snapshot = TableSnapshot.load(str(table))
    timeline = snapshot.active_timeline
    last = timeline.completed_writes().last_instant
    assert last is not None
    path = Path(re.sub("^file:", "", timeline.path_of(last)))
    content = path.read_bytes()
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return last.requested_time, path, content
