"""A check for records of a delta commit that newer instants hide, which began later and were completed before
it.

In tables of versions 8 and 9 readers merge the log files of a slice by the start times of their instants. So an entry
of an index is lost if a later instant has one of the same key. Example: writer A begins. Writer B begins, deletes key k
and is completed. A looks k up, finds nothing, and inserts it. B's delete would hide A's entry.

A compaction before A writes prevents that: A's log file is then merged onto a base file. In version 6 log files are
merged in the order in which they were written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.file_slice import HoodieLogFile
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.instant_time import is_after
from hoodie.io.log.log_records import LogDeletes
from hoodie.io.log.metadata_log_scanner import MetadataLogScanner
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_path import file_name, join

_INDEXES_OF_KEYS = (MetadataPartitionType.RECORD_INDEX, MetadataPartitionType.SECONDARY_INDEX)
"""In all other partitions, records of several instants are united, or their keys hold the name of a file."""


def hidden_by(files: MetadataTableFiles, stats: Sequence[HoodieWriteStat], instant_time: str) -> frozenset[str]:
    """The instants that began later than a delta commit and have entries of its keys in log files.

    Memory: the keys that the delta commit wrote to one file group, and the keys of one block of a log file.

    Args:
        files: The metadata table without the delta commit.
        stats: The files of the delta commit, which is still inflight.
        instant_time: The delta commit.

    Returns:
        Their times; almost always empty, and then no file was read.

    Raises:
        HoodieException: A file is missing or damaged, or storage failed.
    """
    timeline = files.snapshot.active_timeline
    if not timeline.layout.has_completion_times:
        return frozenset()
    completed = timeline.filter_actions(Action.DELTA_COMMIT).filter_completed_instants()
    later = {instant.requested_time for instant in completed if is_after(instant.requested_time, instant_time)}
    hiding: set[str] = set()
    for stat in stats if later else ():
        if MetadataPartitionType.of_path(stat.partition_path) in _INDEXES_OF_KEYS:
            hiding |= _later_ones_in(files, stat, later - hiding)
    return frozenset(hiding)


def _later_ones_in(files: MetadataTableFiles, stat: HoodieWriteStat, later: set[str]) -> set[str]:
    """The instants among those given that have entries of the same keys in a log file of the same file group."""
    groups = files.file_groups(stat.partition_path).values()
    slices = [part for group in groups for part in group if part.file_id == stat.file_id]
    others = [log for part in slices for log in part.log_files if log.instant_time in later]
    own = parse_log_file_name(file_name(stat.path or ""))
    if not others or own is None:
        return set()
    path = join(files.snapshot.base_path, str(stat.path))
    keys = pa.concat_arrays([*_keys_of(files, HoodieLogFile.of(own, FileStatus(path, stat.file_size_bytes, 0)))])
    return {
        log.instant_time for log in others if any(pc.any(pc.is_in(part, keys)).as_py() for part in _keys_of(files, log))
    }


def _keys_of(files: MetadataTableFiles, log_file: HoodieLogFile) -> Iterator[pa.Array]:
    """The keys of the records and deletes of a log file (string)."""
    yield pa.array([], pa.string())
    for part in MetadataLogScanner(files.snapshot.storage, [log_file], committed=files.committed_log_files).blocks():
        if isinstance(part, LogDeletes):
            yield part.record_keys.cast(pa.string())
        else:
            yield from (batch.column("key").cast(pa.string()) for batch in part.reader.batches())
