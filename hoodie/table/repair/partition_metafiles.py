"""Repair partitions whose ``.hoodie_partition_metadata`` is lost or damaged.

Without this file readers do not take a folder for a partition, and do not see its rows.

Hudi: org.apache.hudi.cli.commands.RepairsCommand.
"""

from __future__ import annotations

import logging
from enum import StrEnum

import attrs

from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.table.partition_metadata import (
    PARTITION_METAFILE_NAMES,
    HoodiePartitionMetadata,
    partition_depth,
    read_partition_metadata,
)
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.table.timeline.instant_time import in_order
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieCorruptedDataException, HoodieNotSupportedException
from hoodie.storage import storage_path
from hoodie.storage.storage_options import StorageOptions
from hoodie.table.repair.repaired_table import RepairedTable, RepairResult, check_flags

logger = logging.getLogger(__name__)

_TEXT, _PARQUET, _ORC = PARTITION_METAFILE_NAMES


class MetafileProblem(StrEnum):
    """The problem of a folder's metadata file."""

    MISSING = "missing"
    DAMAGED = "damaged"
    WRONG_DEPTH = "wrong depth"
    HIDES_OTHERS = "hides partitions in it"


@attrs.frozen
class PartitionMetafileRepair:
    """One folder.

    Attributes:
        partition_path: The folder.
        problem: The problem.
        file_name: The metadata file that is written again; with `MetafileProblem.HIDES_OTHERS`, that is deleted.
        commit_time: The instant that it names, the oldest one of the folder's files; "" for a file that is deleted.
        is_repairable: False where deleting it would hide files of its own folder, or of a write that is under way.
    """

    partition_path: str
    problem: MetafileProblem
    file_name: str
    commit_time: str = ""
    is_repairable: bool = True


@attrs.frozen(repr=False)
class PartitionMetafileRepairs(RepairResult):
    """The folders with a problem that were found, and whether they were repaired.

    Attributes:
        base_path: The table.
        partitions: Folders with a problem.
        is_dry_run: Whether nothing was changed.
    """

    base_path: str
    partitions: tuple[PartitionMetafileRepair, ...]
    is_dry_run: bool

    @property
    def headline(self) -> str:
        """See `RepairResult`."""
        count = sum(partition.is_repairable for partition in self.partitions)
        done = "would be repaired" if self.is_dry_run else "repaired"
        unrepaired = len(self.partitions) - count
        return f"partition metadata of {count} folders of {self.base_path} {done}" + (
            f"; {unrepaired} are left: move their files by hand" if unrepaired else ""
        )

    @property
    def table(self) -> SummaryTable[PartitionMetafileRepair]:
        """See `RepairResult`."""
        return SummaryTable(PartitionMetafileRepair, self.partitions)


def repair_partition_metadata(
    table: str | HoodieWriteConfig, *, dry_run: bool = False, storage_options: StorageOptions | None = None
) -> PartitionMetafileRepairs:
    """Write the metadata files of partitions that have none, or damaged ones; takes the table's lock.

    A partition is a folder with committed base files or log files. The metadata file is text, or an empty Parquet file
    where the table says so (``hoodie.partition.metafile.use.base.format``); a damaged one keeps its form. A metadata
    file in a folder without data files hides the partitions within that folder: it is deleted.

    Args:
        table: The table's folder; or, where several writers are at work, their configuration.
        dry_run: Change nothing, and report what would be done.
        storage_options: Options of the storage, where the folder is given.

    Raises:
        TableNotFoundException: There is no table.
        HoodieLockException: The lock was not given.
        HoodieIOException: Storage failed; call again.
    """
    check_flags(dry_run=dry_run)
    repaired = RepairedTable.open(table, storage_options, changes_rows=False)
    with repaired.lock("repair of partition metadata", dry_run=dry_run) as (snapshot, _):
        found = bad_metafiles(snapshot)
        for partition in found if not dry_run else ():
            if partition.is_repairable:
                _repair(snapshot, partition)
    return PartitionMetafileRepairs(snapshot.base_path, tuple(found), dry_run)


def bad_metafiles(snapshot: TableSnapshot) -> list[PartitionMetafileRepair]:
    """The folders of a table whose metadata files are missing, damaged or in the way; nothing is changed.

    Args:
        snapshot: The table.

    Raises:
        HoodieIOException: Storage failed.
    """
    listed = snapshot.table_metadata.list_stored_files()
    timeline = snapshot.refreshed().active_timeline
    visible = timeline.visible_instants
    is_quiet = not len(timeline.commits_timeline().filter_pending())
    found: list[PartitionMetafileRepair] = []
    hiding: dict[str, PartitionMetafileRepair] = {}
    for partition_path, files in listed.items():
        bases = (parse_base_file_name(status.name) for status in files)
        committed = [name.instant_time for name in bases if name and visible.is_committed(name.instant_time)]
        logs = (parse_log_file_name(status.name) for status in files)
        committed += [name.instant_time for name in logs if name and visible.has_visible_log_files(name.instant_time)]
        if not committed:
            continue
        problem = _problem(snapshot, partition_path)
        if problem is not None:
            found.append(PartitionMetafileRepair(partition_path, problem[0], problem[1], in_order(committed)[0]))
        for outer in _outer_folders(partition_path):
            name = _metafile_of(snapshot, outer)
            if name is not None:
                may_go = is_quiet and outer not in listed
                hiding[outer] = PartitionMetafileRepair(outer, MetafileProblem.HIDES_OTHERS, name, is_repairable=may_go)
    return [*found, *(hiding[outer] for outer in sorted(hiding))]


def _problem(snapshot: TableSnapshot, partition_path: str) -> tuple[MetafileProblem, str] | None:
    """The problem of a partition's metadata, and the file that repairs it; None if there is none."""
    try:
        metadata = read_partition_metadata(snapshot.storage, snapshot.base_path, partition_path)
    except HoodieCorruptedDataException:
        return MetafileProblem.DAMAGED, _metafile_of(snapshot, partition_path) or _TEXT
    except HoodieNotSupportedException:
        return None
    if metadata is None:
        by_base_format = snapshot.table_config.partition_metafile_use_base_format
        return MetafileProblem.MISSING, _PARQUET if by_base_format else _TEXT
    if metadata.partition_depth != partition_depth(partition_path):
        return MetafileProblem.WRONG_DEPTH, _metafile_of(snapshot, partition_path) or _TEXT
    return None


def _metafile_of(snapshot: TableSnapshot, partition_path: str) -> str | None:
    """The metadata file that readers of a folder use; None where there is none."""
    folder = storage_path.join(snapshot.base_path, partition_path)
    existing = (name for name in (_TEXT, _PARQUET, _ORC) if snapshot.storage.exists(storage_path.join(folder, name)))
    return next(existing, None)


def _outer_folders(partition_path: str) -> list[str]:
    """Folders between the table's and a partition; the table's own is searched whatever is in it."""
    levels = partition_path.split("/") if partition_path else []
    return ["/".join(levels[:depth]) for depth in range(1, len(levels))]


def _repair(snapshot: TableSnapshot, partition: PartitionMetafileRepair) -> None:
    path = storage_path.join(snapshot.base_path, partition.partition_path, partition.file_name)
    if partition.problem is MetafileProblem.HIDES_OTHERS:
        snapshot.storage.delete_file(path)
        logger.info("deleted %s, which hid partitions", path)
        return
    metadata = HoodiePartitionMetadata(partition.commit_time, partition_depth(partition.partition_path))
    content = metadata.to_parquet() if partition.file_name == _PARQUET else metadata.to_text()
    if partition.problem is MetafileProblem.MISSING:
        snapshot.storage.create_if_absent(path, content)
    else:
        snapshot.storage.replace(path, content)
    logger.info("wrote %s, which was %s", path, partition.problem)
