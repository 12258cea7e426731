"""What tests of clusterings ask about a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.avro.timeline_metadata import HoodieRequestedReplaceMetadata
from hoodie.common.model.commit_metadata import HoodieReplaceCommitMetadata
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import FILE_NAME_META
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.clustering_plans import CLUSTERING_ACTIONS, clustering_action, pending_clusterings
from hoodie.common.table.timeline.instant import HoodieInstant, State
from tests.support.timeline_files import read_commit

__all__ = [
    "INDEXED",
    "MANY_FILES",
    "clusterings",
    "commit_of",
    "latest_slices",
    "pending",
    "plan_of",
    "rows_with_meta",
    "sorted_inserts",
]

MANY_FILES = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.bloom.index.filter.type": "SIMPLE",
}
"""Every insert makes files of its own, and nothing is done beside writes."""
INDEXED = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.bloom.filter.file.group.count": "1",
    "hoodie.metadata.index.column.stats.file.group.count": "1",
}
"""A metadata table with all partitions that a client makes by itself."""


def rows_with_meta(base_path: str | Path, **options: Any) -> list[dict[str, Any]]:
    """The rows with all columns but the name of their file, by key."""
    found = hoodie.read_table(str(base_path), **options).drop_columns([FILE_NAME_META]).to_pylist()
    return sorted(found, key=lambda row: (row["_hoodie_partition_path"] or "", row["_hoodie_record_key"] or row["id"]))


def pending(base_path: str | Path) -> list[str]:
    """The pending clusterings."""
    return [one.instant.requested_time for one in pending_clusterings(_timeline(base_path))]


def clusterings(base_path: str | Path) -> list[str]:
    """The completed clusterings of the active timeline."""
    timeline = _timeline(base_path)
    completed = timeline.filter_actions(*CLUSTERING_ACTIONS).filter_completed_instants()
    return [
        one.requested_time
        for one in completed
        if timeline.read_commit_metadata(one).operation_type is WriteOperationType.CLUSTER
    ]


def plan_of(base_path: str | Path, instant_time: str) -> HoodieRequestedReplaceMetadata:
    """The plan of a pending clustering."""
    timeline = _timeline(base_path)
    requested = HoodieInstant(instant_time, clustering_action(timeline), State.REQUESTED)
    return timeline.read_as(requested, HoodieRequestedReplaceMetadata)


def commit_of(base_path: str | Path, instant_time: str) -> HoodieReplaceCommitMetadata:
    """The commit of a completed clustering."""
    metadata = read_commit(base_path, instant_time)
    assert isinstance(metadata, HoodieReplaceCommitMetadata)
    return metadata


def latest_slices(base_path: str | Path) -> list[FileSlice]:
    """The latest file slices of all partitions, by partition and file id."""
    view = HoodieTableMetaClient.load(str(base_path)).view()
    return [part for path in sorted(view.list_partitions()) for part in view.latest_file_slices(path)]


def sorted_inserts(client: HoodieLocalWriteClient, *tables: Any) -> list[str]:
    """Insert each table as a commit of its own; their times."""
    return [client.insert(table).instant_time for table in tables]


def _timeline(base_path: str | Path) -> Any:
    return HoodieTableMetaClient.load(str(base_path)).active_timeline
