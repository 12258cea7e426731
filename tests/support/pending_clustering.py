"""A clustering that Hudi has planned and not carried out."""

from __future__ import annotations

from pathlib import Path

from hoodie import HoodieTableMetaClient
from hoodie.avro.timeline_metadata import HoodieRequestedReplaceMetadata
from hoodie.common.model.file_slice import HoodieBaseFile
from hoodie.common.table.timeline.instant import Action

__all__ = ["schedule_clustering"]


def schedule_clustering(base_path: str | Path, partition_path: str, base_file: HoodieBaseFile | None = None) -> str:
    """Plan to rewrite one file group; the time of the plan.

    Args:
        base_path: The table.
        partition_path: The file group's partition.
        base_file: The file that is to be read; by default the only one of the partition.
    """
    table = HoodieTableMetaClient.load(str(base_path))
    if base_file is None:
        (base_file,) = table.view().latest_base_files(partition_path)
    file_slice = {
        "dataFilePath": f"file://{base_file.path}", "deltaFilePaths": [], "fileId": base_file.file_id,
        "partitionPath": partition_path, "bootstrapFilePath": "", "version": 1,
    }  # fmt: skip
    group = {"slices": [file_slice], "metrics": {}, "numOutputFileGroups": 1, "extraMetadata": None, "version": 1}
    plan = {
        "inputGroups": [group], "strategy": None, "extraMetadata": {}, "version": 1, "preserveHoodieMetadata": True,
        "missingSchedulePartitions": None,
    }  # fmt: skip
    timeline = table.active_timeline
    # Layout 2 has an action of its own for it.
    action = Action.CLUSTERING if timeline.layout.has_completion_times else Action.REPLACE_COMMIT
    return timeline.create_new_instant_time(action, HoodieRequestedReplaceMetadata("CLUSTER", plan, {}, 1))
