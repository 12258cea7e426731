"""Records of the partition ``files``: the files of each partition of the table.

The records that an action adds are made from its metadata:

===============  =======================================================================================
action           records
===============  =======================================================================================
commit, delta    the partitions written; their new files with sizes. Files that a replace commit replaces
commit, replace  stay listed until a clean deletes them.
clean            the deleted files; partitions that were deleted
rollback         log files that it appended to, or wrote
restore          none: the metadata table is set aside, and built anew
===============  =======================================================================================

Hudi: HoodieTableMetadataUtil.convertMetadataToFilesPartitionRecords, convertMetadataToRollbackRecords.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.avro.timeline_metadata import HoodieRollbackMetadata
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.exception import HoodieCommitException
from hoodie.metadata.records.file_listing import FILE_LISTING
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_keys import ALL_PARTITIONS_KEY, NON_PARTITIONED, partition_identifier
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType, MetadataRecordType
from hoodie.metadata.records.metadata_records import FILE_INFO, MetadataPayload
from hoodie.storage.storage_path import file_name

_PATH = MetadataPartitionType.FILES.partition_path
_Files = Mapping[str, Mapping[str, int | None]]
"""Partition path -> file name -> size in bytes, None for a deleted file."""


def commit_files_entries(metadata: HoodieCommitMetadata) -> MetadataEntries:
    """The records of a commit, delta commit, replace commit or compaction.

    A log file without blocks, all of whose rows were refused, has no entry: there is nothing to read in it.

    Args:
        metadata: Its metadata.

    Raises:
        HoodieCommitException: A file has the size 0, which readers refuse.
    """
    files: dict[str, dict[str, int | None]] = {path: {} for path in metadata.partition_to_write_stats}
    for partition_path, stats in metadata.partition_to_write_stats.items():
        sizes = files[partition_path]
        for stat in stats:
            if stat.path is None or stat.is_empty_log_file:
                continue
            for path, size in [(stat.path, stat.file_size_bytes), *(stat.cdc_stats or {}).items()]:
                name = file_name(path)
                sizes[name] = max(_checked(partition_path, name, size), sizes.get(name) or 0)
    return _entries(files, metadata.partition_to_write_stats)


def clean_files_entries(metadata: HoodieCleanMetadata) -> MetadataEntries:
    """The records of a clean. Files that it could not delete stay listed.

    Args:
        metadata: The metadata of the completed clean.
    """
    partitions = metadata.partition_metadata.values()
    files: _Files = {
        stat.partition_path: dict.fromkeys(map(file_name, stat.success_delete_files)) for stat in partitions
    }
    deleted_partitions = [stat.partition_path for stat in partitions if stat.is_partition_deleted]
    return _entries(files, None, deleted_partitions)


def rollback_files_entries(metadata: HoodieRollbackMetadata) -> MetadataEntries:
    """The records of a rollback in table version 6: its log files with command blocks, and the log files that
    these cancel.

    Deleted files have no records: the records of the rolled back instant are rolled back with it.

    Args:
        metadata: The metadata of the completed rollback.

    Raises:
        HoodieCommitException: A file has the size 0.
    """
    files: dict[str, dict[str, int | None]] = {}
    for stat in metadata.partition_metadata.values():
        if not stat.rollback_log_files:
            continue
        sizes = files.setdefault(stat.partition_path, {})
        for found in (stat.rollback_log_files, stat.log_files_from_failed_commit or {}):
            for path, size in found.items():
                name = file_name(path)
                sizes[name] = max(_checked(stat.partition_path, name, size), sizes.get(name) or 0)
    return _entries(files, None)


def bootstrap_files_entries(listing: pa.Table, partitions: Collection[str]) -> MetadataEntries:
    """The records of a new metadata table.

    Args:
        listing: `FILE_LISTING`, without deleted files; each file once.
        partitions: All partitions of the table, those without files included.

    Raises:
        HoodieCommitException: A file has the size 0.
    """
    empty = pc.less_equal(listing.column("size_bytes"), 0)
    if pc.any(empty).as_py():
        row = listing.filter(empty).slice(0, 1).to_pylist()[0]
        _checked(row["partition_path"], row["file_name"], row["size_bytes"])
    return _joined(_partition_records(partitions, []), _file_records(listing))


def _checked(partition_path: str, name: str, size: int) -> int:
    if size <= 0:
        where = f"{partition_path}/{name}" if partition_path else name
        raise HoodieCommitException(
            f"Cannot record {where} in the metadata table: its size is said to be {size} bytes, and readers refuse that"
        )
    return size


def _entries(
    files: _Files, partitions: Collection[str] | None, deleted_partitions: Collection[str] = ()
) -> MetadataEntries:
    """A record for each partition with files, and one that lists partitions.

    The latter is left out if `partitions` is None and no partition is deleted.
    """
    flat = [(path, name, size) for path, sizes in files.items() for name, size in sizes.items()]
    paths, names, stored = (list(column) for column in zip(*flat, strict=True)) if flat else ([], [], [])
    listing = pa.table(
        [
            pa.array(paths, pa.string()),
            pa.array(names, pa.string()),
            pa.array([size or 0 for size in stored], pa.int64()),
            pa.array([size is None for size in stored], pa.bool_()),
        ],
        schema=FILE_LISTING,
    )
    parts = [_file_records(listing)]
    if deleted_partitions or partitions is not None:
        parts.insert(0, _partition_records(partitions or [], deleted_partitions))
    return _joined(*parts)


def _joined(*parts: MetadataEntries) -> MetadataEntries:
    return MetadataEntries.joined(parts)


def _partition_records(partitions: Collection[str], deleted_partitions: Collection[str]) -> MetadataEntries:
    names = [partition_identifier(path) for path in (*partitions, *deleted_partitions)]
    is_deleted = [False] * len(partitions) + [True] * len(deleted_partitions)
    infos = pa.StructArray.from_arrays(
        [pa.array([0] * len(names), pa.int64()), pa.array(is_deleted, pa.bool_())], fields=list(FILE_INFO)
    )
    files = pa.MapArray.from_arrays(pa.array([0, len(names)], pa.int32()), pa.array(names, pa.string()), infos)
    types = pa.array([int(MetadataRecordType.ALL_PARTITIONS)], pa.int32())
    rows = pa.RecordBatch.from_arrays([types, files], schema=MetadataPayload.FILES.schema)
    return MetadataEntries(_PATH, MetadataPayload.FILES, pa.array([ALL_PARTITIONS_KEY]), rows)


def _file_records(listing: pa.Table) -> MetadataEntries:
    if not listing.num_rows:
        return MetadataEntries.none(_PATH, MetadataPayload.FILES)
    listing = listing.sort_by("partition_path").combine_chunks()
    paths, names, sizes, deleted = (column.chunk(0) for column in listing.columns)
    changes = pc.not_equal(paths[1:], paths[:-1]).to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(np.append(True, changes))
    infos = pa.StructArray.from_arrays([sizes, deleted.fill_null(False)], fields=list(FILE_INFO))
    files = pa.MapArray.from_arrays(pa.array(np.append(starts, len(paths)).astype(np.int32)), names, infos)
    found = paths.take(pa.array(starts))
    keys = pc.if_else(pc.equal(found, ""), NON_PARTITIONED, found)
    types = pa.array(np.full(len(starts), int(MetadataRecordType.FILES), np.int32))
    rows = pa.RecordBatch.from_arrays([types, files], schema=MetadataPayload.FILES.schema)
    return MetadataEntries(_PATH, MetadataPayload.FILES, keys, rows)
