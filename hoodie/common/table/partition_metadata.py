"""The file that makes a folder a partition: ``.hoodie_partition_metadata``.

Without this file, a folder is not a partition to readers that list the table, and they do not see its data. So the file
is created before the first data file. A table without partitions has it in its base folder. It contains the Java
properties ``commitTime`` and ``partitionDepth``, or the same two in the footer of a Parquet file without rows.

Hudi: org.apache.hudi.common.model.HoodiePartitionMetadata.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence

import attrs

from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieIOException,
    HoodieKeyException,
    HoodieNotSupportedException,
)
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage import storage_path
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_path import METAFOLDER_NAME

logger = logging.getLogger(__name__)

PARTITION_METAFILE_PREFIX = ".hoodie_partition_metadata"
PARTITION_METAFILE_NAMES = (
    PARTITION_METAFILE_PREFIX,
    f"{PARTITION_METAFILE_PREFIX}.parquet",
    f"{PARTITION_METAFILE_PREFIX}.orc",
)
"""The names that readers look for, in this order; hoodie writes the first."""

_COMMIT_TIME_KEY = "commitTime"
_PARTITION_DEPTH_KEY = "partitionDepth"


@attrs.frozen
class HoodiePartitionMetadata:
    """The content of a partition's metadata file.

    Attributes:
        commit_time: The instant that created the partition.
        partition_depth: The number of folders from the base path to the partition; 0 for a table without partitions.
    """

    commit_time: str
    partition_depth: int

    def to_text(self) -> bytes:
        """The content of ``.hoodie_partition_metadata``."""
        lines = (
            "#partition metadata",
            f"#{time.asctime(time.gmtime())} UTC",
            f"{_COMMIT_TIME_KEY}={self.commit_time}",
            f"{_PARTITION_DEPTH_KEY}={self.partition_depth}",
            "",
        )
        return "\n".join(lines).encode("latin-1")

    def to_parquet(self) -> bytes:
        """The content of ``.hoodie_partition_metadata.parquet``: no rows, and both values in its footer."""
        # Imported here: readers write no files, and start earlier without.
        from hoodie.io.parquet.parquet_writer import file_without_rows

        values = {_COMMIT_TIME_KEY: self.commit_time, _PARTITION_DEPTH_KEY: str(self.partition_depth)}
        return file_without_rows("dummyint", values)


def check_partition_path(partition_path: str) -> str:
    """Check that a partition path stays below the base path and outside of ``.hoodie``; return it unchanged.

    Args:
        partition_path: The relative path, with levels joined by ``/``; "" for a table without partitions.

    Raises:
        HoodieIOException: It is absolute, or has an empty level, ``.``, ``..`` or ``.hoodie``, or a NUL character.
    """
    if not partition_path:
        return partition_path
    levels = partition_path.split("/")
    if "\0" in partition_path or any(level in ("", ".", "..") for level in levels) or levels[0] == METAFOLDER_NAME:
        raise HoodieIOException(
            f"Partition path {partition_path!r} would leave the data folders of the table: levels must not be empty, "
            f"'.', '..' or '{METAFOLDER_NAME}'"
        )
    return partition_path


def partition_depth(partition_path: str) -> int:
    """The number of folders from the base path to a partition: 0 for "", 1 for "asia", 2 for "asia/china"."""
    return partition_path.count("/") + 1 if partition_path else 0


def ensure_partition_metadata(storage: HoodieStorage, base_path: str, partition_path: str, instant_time: str) -> bool:
    """Make a folder a partition unless it is one already; call this before the first data file is written there.

    Several tasks may call this at once: one of them creates the file, the others find it.

    Args:
        storage: The table's storage.
        base_path: The table's folder.
        partition_path: The partition; its folder need not exist.
        instant_time: The writing instant.

    Returns:
        True if this call created the file.

    Raises:
        HoodieIOException: The partition path would leave the table, or storage failed.
        HoodieKeyException: The partition would be inside another one, or another one inside it: listings stop at a
            partition, so nobody would see the rows of the inner one.
    """
    folder = storage_path.join(base_path, check_partition_path(partition_path))
    # A request takes as long for many files as for one: one listing tells of the other names and of inner partitions.
    files = storage.list_files(folder) if storage.is_remote and partition_path else None
    if _is_partition(storage, folder) if files is None else _has_metafile(files, folder):
        return False
    _refuse_nesting(storage, base_path, partition_path, files)
    created = create_partition_metadata(storage, base_path, partition_path, instant_time)
    if created:
        try:
            # Check again, now that others can see this one: if two nested partitions are made at once, one is refused.
            _refuse_nesting(storage, base_path, partition_path)
        except HoodieKeyException:
            storage.delete_file(storage_path.join(folder, PARTITION_METAFILE_PREFIX))
            raise
        logger.debug("Created partition %r at instant %s", partition_path, instant_time)
    return created


def has_partition_metadata(storage: HoodieStorage, base_path: str, partition_path: str) -> bool:
    """Whether a folder has the file that hoodie makes, by one call.

    Args:
        storage: The table's storage.
        base_path: The table's folder.
        partition_path: The partition.

    Raises:
        HoodieIOException: The partition path would leave the table, or storage failed.
    """
    folder = storage_path.join(base_path, check_partition_path(partition_path))
    return storage.is_file(storage_path.join(folder, PARTITION_METAFILE_PREFIX))


def create_partition_metadata(storage: HoodieStorage, base_path: str, partition_path: str, instant_time: str) -> bool:
    """Make a folder a partition that is none and has no other partition around it or inside.

    Args:
        storage: The table's storage.
        base_path: The table's folder.
        partition_path: The partition; its folder need not exist.
        instant_time: The writing instant.

    Returns:
        True if this call created the file; False if it was there.

    Raises:
        HoodieIOException: Storage failed.
    """
    metadata = HoodiePartitionMetadata(instant_time, partition_depth(partition_path))
    path = storage_path.join(base_path, partition_path, PARTITION_METAFILE_PREFIX)
    return storage.create_if_absent(path, metadata.to_text())


def _is_partition(storage: HoodieStorage, folder: str) -> bool:
    return any(storage.is_file(storage_path.join(folder, name)) for name in PARTITION_METAFILE_NAMES)


def _has_metafile(files: Iterable[FileStatus], folder: str) -> bool:
    names = {status.name for status in files if storage_path.parent(status.path) == folder}
    return not names.isdisjoint(PARTITION_METAFILE_NAMES)


def _refuse_nesting(
    storage: HoodieStorage, base_path: str, partition_path: str, files: Sequence[FileStatus] | None = None
) -> None:
    """Refuse a partition inside another one, or around one.

    Args:
        storage: The table's storage.
        base_path: The table's folder.
        partition_path: The partition.
        files: All files in its folder, if they were just listed.
    """
    if not partition_path:
        return
    levels = partition_path.split("/")
    for depth in range(1, len(levels)):
        outer = "/".join(levels[:depth])
        if _is_partition(storage, storage_path.join(base_path, outer)):
            raise _nesting(base_path, outer, partition_path)
    folder = storage_path.join(base_path, partition_path)
    for status in storage.list_files(folder) if files is None else files:
        inner = storage_path.parent(status.path)
        if status.name in PARTITION_METAFILE_NAMES and inner != folder:
            raise _nesting(base_path, partition_path, storage_path.relative_to(base_path, inner))


def _nesting(base_path: str, outer: str, inner: str) -> HoodieKeyException:
    return HoodieKeyException(
        f"partition {inner!r} of {base_path} would be inside partition {outer!r}, where no reader looks for it. Give "
        "partition values without '/', or create the table with hoodie.datasource.write.partitionpath.urlencode=true"
    )


def read_partition_metadata(
    storage: HoodieStorage, base_path: str, partition_path: str
) -> HoodiePartitionMetadata | None:
    """Read a partition's metadata file, in text or Parquet form; None if the folder is not a partition.

    Args:
        storage: The table's storage.
        base_path: The table's folder.
        partition_path: The partition.

    Raises:
        HoodieCorruptedDataException: The file exists, but is cut short or damaged.
        HoodieIOException: The partition path would leave the table, or storage failed.
        HoodieNotSupportedException: The partition has only the ORC form.
    """
    folder = storage_path.join(base_path, check_partition_path(partition_path))
    text_path, parquet_path, orc_path = (storage_path.join(folder, name) for name in PARTITION_METAFILE_NAMES)
    try:
        return _from_properties(text_path, _parse_text(storage.read(text_path)))
    except FileNotFoundError:
        pass
    if storage.is_file(parquet_path):
        return _from_properties(parquet_path, _parse_parquet(storage, parquet_path))
    if storage.is_file(orc_path):
        raise HoodieNotSupportedException(
            f"Cannot read {orc_path}: hoodie does not read partition metadata in ORC files"
        )
    return None


def _parse_text(content: bytes) -> dict[str, str]:
    """Keys and values of the Java properties file. Both values are digits, so it has no escapes."""
    properties = {}
    for line in content.decode("latin-1").splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            key, _, value = stripped.replace(":", "=", 1).partition("=")
            properties[key.strip()] = value.strip()
    return properties


def _parse_parquet(storage: HoodieStorage, path: str) -> dict[str, str]:
    try:
        with HoodieParquetReader(storage, path) as reader:
            entries = reader.entries
    except HoodieCorruptedDataException as error:
        raise HoodieCorruptedDataException(
            f"Cannot read partition metadata {path}: it is not a complete Parquet file ({error.__cause__ or error})"
        ) from error
    return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in entries.items()}


def _from_properties(path: str, properties: dict[str, str]) -> HoodiePartitionMetadata:
    commit_time = properties.get(_COMMIT_TIME_KEY, "")
    depth = properties.get(_PARTITION_DEPTH_KEY, "")
    if not (commit_time.isascii() and commit_time.isdigit() and depth.isascii() and depth.isdigit()):
        raise HoodieCorruptedDataException(
            f"Cannot read partition metadata {path}: {_COMMIT_TIME_KEY} is {commit_time!r} and {_PARTITION_DEPTH_KEY} "
            f"is {depth!r}, not digits; writing into the partition works without a repair. To repair it, "
            "delete the file and write into the partition again"
        )
    return HoodiePartitionMetadata(commit_time, int(depth))
