"""The repairs of a table under one name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.table.timeline.instant_time import is_instant_time
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException
from hoodie.interface.queued_calls import one_after_another
from hoodie.storage.storage_path import join
from hoodie.table.repair.duplicate_keys import drop_duplicates
from hoodie.table.repair.orphan_files import remove_orphan_files
from hoodie.table.repair.partition_metafiles import repair_partition_metadata
from hoodie.table.repair.repaired_table import RepairResult
from hoodie.table.repair.table_properties import rebuild_table_properties

REPAIRS: Mapping[str, tuple[str, ...]] = {
    "duplicates": ("partitions", "across_partitions"),
    "orphans": ("backup_folder", "delete", "include_visible"),
    "partitions": (),
    "properties": ("properties", "check_rows"),
}
"""The repairs -> their own options."""


@attrs.frozen
class MarkedFile:
    """One file that a write announced before it wrote it.

    Attributes:
        partition_path: Its partition.
        file_name: Its name.
        io_type: CREATE for the first base file of a group, MERGE for a later one, APPEND for a log file.
        size_bytes: Its size; None if there is no such file.
    """

    partition_path: str
    file_name: str
    io_type: str
    size_bytes: int | None


def repair(config: HoodieWriteConfig, what: str, *, dry_run: bool, options: Mapping[str, Any]) -> RepairResult:
    """Carry out one of `REPAIRS`.

    Args:
        config: The configuration of the table's writers.
        what: Its name.
        dry_run: Change nothing, and tell what would be done.
        options: Options of the function behind it.

    Raises:
        HoodieConfigException: There is no such repair or option.
        HoodieException: See the function.
    """
    if what not in REPAIRS:
        raise HoodieConfigException(f"there is no repair {shown_value(what)}: give one of {', '.join(REPAIRS)}")
    if unknown := sorted(options.keys() - set(REPAIRS[what])):
        known = ", ".join(REPAIRS[what]) or "none"
        raise HoodieConfigException(f"the repair of {what} has no option {', '.join(unknown)}; its options: {known}")
    with one_after_another(config):
        if what == "duplicates":
            with HoodieLocalWriteClient(config) as client:
                return drop_duplicates(client, dry_run=dry_run, **options)
        if what == "orphans":
            # A look needs no place for the files.
            is_given = dry_run and not {"backup_folder", "delete"} & {key for key, value in options.items() if value}
            return remove_orphan_files(config, dry_run=dry_run, **{**options, **({"delete": True} if is_given else {})})
        if what == "partitions":
            return repair_partition_metadata(config, dry_run=dry_run)
        return rebuild_table_properties(
            config.base_path, dry_run=dry_run, storage_options=config.storage_options, **options
        )


def markers_of(table: TableSnapshot, instant_time: str) -> SummaryTable[MarkedFile]:
    """The files that a write that is not completed announced.

    Args:
        table: The table.
        instant_time: The write.

    Raises:
        HoodieConfigException: It is no instant time.
        HoodieCorruptedDataException: Markers are damaged.
    """
    if not is_instant_time(instant_time):
        raise HoodieConfigException(f"{shown_value(instant_time)} is no instant time: history(pending=True) lists them")
    found = []
    for marker in WriteMarkers(table.storage, table.meta_path, instant_time).list_markers():
        status = table.storage.file_status(join(table.base_path, marker.partition_path, marker.file_name))
        size = None if status is None else status.size_bytes
        found.append(MarkedFile(marker.partition_path, marker.file_name, IOType(marker.io_type).value, size))
    return SummaryTable(MarkedFile, found)
