"""The manifest of a table: the names of its latest base files, for BigQuery and other readers of lists."""

from __future__ import annotations

import logging

from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.exception import HoodieNotSupportedException
from hoodie.storage import storage_path
from hoodie.sync.sync_result import SyncedEntry, SyncResult

logger = logging.getLogger(__name__)

ABSOLUTE_PATH_MANIFEST_FOLDER_NAME = "absolute-path-manifest"
MANIFEST_FOLDER_NAME = "manifest"
MANIFEST_FILE_NAME = "latest-snapshot.csv"
_ATTEMPTS = 10


def write_manifest(snapshot: TableSnapshot, absolute_paths: bool = True, *, read_optimized: bool = False) -> str:
    """Write the manifest of a table in its present state, one base file a line.

    The whole manifest is replaced at once. It is written again if a commit completed meanwhile, so that of two
    processes the one that ends last leaves the newer state. A table without rows has an empty manifest::

        .hoodie/absolute-path-manifest/latest-snapshot.csv    s3://bucket/trips/city=Rome/0b1c..._0-1-2_2026....parquet
        .hoodie/manifest/latest-snapshot.csv                  0b1c..._0-1-2_2026....parquet

    Args:
        snapshot: The table.
        absolute_paths: Whether lines are full paths, as BigQuery reads them, or names of files.
        read_optimized: Whether a merge-on-read table is described by its base files alone, without its log files.

    Returns:
        The path of the manifest.

    Raises:
        HoodieNotSupportedException: The table is merge-on-read, and that was not said.
        HoodieIOException: Storage failed.

    Hudi: org.apache.hudi.sync.common.util.ManifestFileWriter. Differs: the file is replaced at once; one without lines
    is written, too, where Hudi leaves the old one; lines are sorted by partition.
    """
    if snapshot.table_config.table_type == HoodieTableType.MERGE_ON_READ and not read_optimized:
        raise HoodieNotSupportedException(
            f"a manifest of the merge-on-read table at {snapshot.base_path} would leave out what only its log files "
            "hold: compact the table and say read_optimized=True, which lists its base files"
        )
    folder = ABSOLUTE_PATH_MANIFEST_FOLDER_NAME if absolute_paths else MANIFEST_FOLDER_NAME
    path = storage_path.join(snapshot.meta_path, folder, MANIFEST_FILE_NAME)
    for _ in range(_ATTEMPTS):
        lines = _latest_base_files(snapshot, absolute_paths)
        snapshot.storage.replace(path, "".join(f"{line}\n" for line in lines).encode())
        newer = snapshot.refreshed()
        if _completed(newer) == _completed(snapshot):
            break
        snapshot = newer
    logger.info("wrote the manifest %s of %d files", path, len(lines))
    return path


def sync_manifest(snapshot: TableSnapshot, *, check: bool = False) -> SyncResult:
    """Write the manifest with full paths, as a sync.

    Args:
        snapshot: The table.
        check: Write nothing, and tell the lines that differ.

    Raises:
        HoodieNotSupportedException: The table is merge-on-read.
        HoodieIOException: Storage failed.
    """
    path = storage_path.join(snapshot.meta_path, ABSOLUTE_PATH_MANIFEST_FOLDER_NAME, MANIFEST_FILE_NAME)
    last = snapshot.active_timeline.completed_writes().last_instant
    commit = "" if last is None else last.requested_time
    before = _lines_of(snapshot, path)
    if check:
        now = set(_latest_base_files(snapshot, True))
        missing = () if before is None else tuple(f"the line {line} is missing" for line in sorted(now - before))
        stale = tuple(f"the line {line} is stale" for line in sorted((before or set()) - now))
        differences = ("there is no manifest",) if before is None else (*missing, *stale)
        entry = SyncedEntry(path, differences=differences)
    else:
        write_manifest(snapshot)
        after = _lines_of(snapshot, path)
        changes = () if before is None or before == after else ("the files",)
        entry = SyncedEntry(path, is_created=before is None, parameters=changes)
    return SyncResult("the manifest", snapshot.base_path, commit, (entry,), check)


def _lines_of(snapshot: TableSnapshot, path: str) -> set[str] | None:
    """The lines of a manifest; None if there is none."""
    try:
        return set(snapshot.storage.read(path).decode().splitlines())
    except FileNotFoundError:
        return None


def _completed(snapshot: TableSnapshot) -> tuple[HoodieInstant, ...]:
    return snapshot.active_timeline.filter_completed_instants().instants


def _latest_base_files(snapshot: TableSnapshot, absolute_paths: bool) -> list[str]:
    view = snapshot.view()
    files = [file for partition in view.load_all_partitions() for file in view.latest_base_files(partition)]
    return [file.path if absolute_paths else file.file_name for file in files]
