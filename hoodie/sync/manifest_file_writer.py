"""The manifest of a table: the names of its latest base files, for BigQuery and other readers of lists."""

from __future__ import annotations

import logging

from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.exception import HoodieNotSupportedException
from hoodie.storage import storage_path

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


def _completed(snapshot: TableSnapshot) -> tuple[HoodieInstant, ...]:
    return snapshot.active_timeline.filter_completed_instants().instants


def _latest_base_files(snapshot: TableSnapshot, absolute_paths: bool) -> list[str]:
    view = snapshot.view()
    files = [file for partition in view.load_all_partitions() for file in view.latest_base_files(partition)]
    return [file.path if absolute_paths else file.file_name for file in files]
