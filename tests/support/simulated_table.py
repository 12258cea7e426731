"""A table with many file groups, made fast: its files are of the stated sizes, but hold no rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hoodie.common.fs.file_names import make_base_file_name, make_file_id, make_log_file_name
from hoodie.common.model.commit_metadata import SCHEMA_KEY, HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.completion import complete
from hoodie.common.table.timeline.instant import Action
from tests.support.table_builder import init_table, write_action

__all__ = ["simulated_table"]

MIB = 1024 * 1024
AVRO_SCHEMA = (
    '{"type":"record","name":"t","fields":[{"name":"id","type":"string"},{"name":"region","type":"string"},'
    '{"name":"ts","type":"long"}]}'
)


def simulated_table(
    path: Path, partitions: Sequence[str], groups_per_partition: int, *, commits: int = 1, log_files: int = 0
) -> str:
    """Make a table whose files a listing of storage shows, without a metadata table.

    Args:
        path: Its folder.
        partitions: Partition paths.
        groups_per_partition: File groups of each partition; their first commit writes all of them.
        commits: Commits after it; each writes a tenth of the file groups in an eighth of the partitions again.
        log_files: Log files on each third file group; for merge-on-read tables.
    """
    base = init_table(path)
    _commit(
        base, [_base_stat(p, n, 0) for p in range(len(partitions)) for n in range(groups_per_partition)], partitions
    )
    for number in range(1, commits + 1):
        some = range(number % 8, len(partitions), 8)
        _commit(base, [_base_stat(p, n, number) for p in some for n in range(0, groups_per_partition, 10)], partitions)
    for number in range(1, log_files + 1):
        touched = [_base_stat(p, n, number) for p in range(len(partitions)) for n in range(0, groups_per_partition, 3)]
        _commit(base, touched, partitions, log_version=number)
    return base


def _base_stat(partition: int, number: int, commit: int) -> HoodieWriteStat:
    size = (1 + (partition * 7 + number * 13) % 150) * MIB
    rows = size // 100
    return HoodieWriteStat(
        make_file_id(f"{partition:08x}-0000-4000-8000-{number:012x}", 0),
        str(partition),
        num_writes=rows,
        num_inserts=rows if commit == 0 else 0,
        num_update_writes=rows // 50 if commit else 0,
        total_write_bytes=size,
        file_size_bytes=size,
    )


def _commit(base: str, stats: list[HoodieWriteStat], partitions: Sequence[str], *, log_version: int = 0) -> None:
    timeline = TableSnapshot.load(base).active_timeline
    action = write_action() if log_version else Action.COMMIT
    instant_time = timeline.create_new_instant_time(action)
    timeline.transition_requested_to_inflight(instant_time, action)
    by_partition: dict[str, tuple[HoodieWriteStat, ...]] = {}
    for stat in stats:
        partition = partitions[int(stat.partition_path)]
        name = make_base_file_name(stat.file_id, "0-1-2", instant_time)
        size = stat.file_size_bytes
        if log_version:
            name, size = make_log_file_name(stat.file_id, instant_time, 1, "0-1-2"), size // 20
        folder = Path(base, partition)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".hoodie_partition_metadata").touch()
        (folder / name).touch()
        os.truncate(folder / name, size)
        written = HoodieWriteStat(
            stat.file_id,
            partition,
            f"{partition}/{name}",
            num_writes=stat.num_writes,
            num_inserts=stat.num_inserts,
            num_update_writes=stat.num_update_writes,
            total_write_bytes=size,
            file_size_bytes=size,
        )
        by_partition[partition] = (*by_partition.get(partition, ()), written)
    metadata = HoodieCommitMetadata(by_partition, {SCHEMA_KEY: AVRO_SCHEMA}, WriteOperationType.UPSERT)
    complete(timeline, instant_time, action, metadata)
