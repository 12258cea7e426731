"""Check what a replace commit replaces: the partitions that callers name, and file groups in pending clusterings.

Hudi: org.apache.hudi.table.action.DeletePartitionUtils.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from hoodie.common.model.file_slice import HoodieFileGroupId
from hoodie.common.table.clustering_plans import file_groups_in_pending_clustering
from hoodie.common.table.compaction_plans import pending_compactions
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.shown_value import shown_value
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException
from hoodie.keygen.partition_path_encoding import reason_against_level


def check_partition_paths(partition_paths: Iterable[str]) -> list[str]:
    """Partition paths that a caller names, each once, sorted.

    Args:
        partition_paths: Paths below the table's folder; "" is a table without partitions.

    Raises:
        HoodieConfigException: They are no list; or one of them is no text, or would lead out of the table.
    """
    if isinstance(partition_paths, str):
        raise HoodieConfigException(
            f"partitions is a list of partition paths, not one text: give [{partition_paths!r}]"
        )
    # The names of columns are what iteration over a frame gives.
    is_frame = hasattr(partition_paths, "columns")
    if is_frame or isinstance(partition_paths, bytes | Mapping) or not isinstance(partition_paths, Iterable):
        raise HoodieConfigException(
            f"partitions is {shown_value(partition_paths)}: give a list of partition paths, such as ['2026/11/21']; "
            "nothing was written"
        )
    paths = set()
    for path in partition_paths:
        if not isinstance(path, str):
            raise HoodieConfigException(
                f"{path!r} is no partition path: give its text as snapshot.partitions() does, such as "
                "'2026/11/21' or 'region=eu'"
            )
        reason = reason_against_level(path) if path else None
        if reason is not None:
            raise HoodieConfigException(f"the partition path {path!r} {reason}; nothing was written")
        paths.add(path)
    return sorted(paths)


def refuse_pending_file_groups(
    snapshot: TableSnapshot, replaced: Mapping[str, Sequence[str]], operation: str, *, wins: Collection[str] = ()
) -> None:
    """Fail when a pending clustering or compaction is going to rewrite file groups that would be replaced.

    Args:
        snapshot: The table, its timeline as the write found it.
        replaced: Partition path to file ids.
        operation: The operation, for the message.
        wins: The clusterings that the operation wins against.

    Raises:
        HoodieNotSupportedException: The clustering would bring the replaced rows back when it completes; the compaction
            would rewrite rows that are none any more.
    """
    pending = file_groups_in_pending_clustering(snapshot.active_timeline)
    compacted = pending_compactions(snapshot.active_timeline)
    for partition_path, file_ids in replaced.items():
        for file_id in file_ids:
            compactions = compacted.get(HoodieFileGroupId(partition_path, file_id))
            if compactions is not None:
                raise HoodieNotSupportedException(
                    f"{operation} of partition '{partition_path}' of {snapshot.base_path}: compaction "
                    f"{', '.join(compactions)} is going to rewrite its file group {file_id}; nothing was written. Run "
                    "the compaction first"
                )
            instant_time = pending.get((partition_path, file_id))
            if instant_time is not None and instant_time not in wins:
                raise HoodieNotSupportedException(
                    f"{operation} of partition '{partition_path}' of {snapshot.base_path}: clustering "
                    f"{instant_time} is going to rewrite its file group {file_id}, and would bring the rows back; "
                    "nothing was written. Run the clustering with the writer that planned it, or roll it back"
                )
