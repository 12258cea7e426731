"""The instant times of delta commits that build partitions of a metadata table.

Table version 6: the last instant of the table, followed by a number from 010 on. Versions 8 and 9: 17 digits with a
value below 1000, earlier than all other times. No number is used twice, and numbers grow past archived ones. Readers
take instants before the active timeline for archived, and the only log file of a file group without records has that
time.

Hudi: org.apache.hudi.metadata.HoodieTableMetadataUtil.createIndexInitTimestamp. Differs: it ignores archived times.
"""

from __future__ import annotations

from itertools import chain

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieMetadataException
from hoodie.metadata.reader.metadata_table_files import is_initial_time

__all__ = ["initial_time"]

_FIRST_SUFFIX = 10
_FIRST_BESIDE_WRITERS = 500
_BESIDE_WRITERS_AFTER = 50
"""The distance of the number of a build beside writers from archived ones."""
_END = 1000


def initial_time(metadata_table: TableSnapshot, after: str, *, is_beside_writers: bool = False) -> str:
    """The next free instant time for a build.

    Args:
        metadata_table: The metadata table.
        after: The last instant of the table, for version 6.
        is_beside_writers: Whether the partition is built without holding the lock. Its number is then one that no other
            build takes meanwhile.

    Raises:
        HoodieMetadataException: No number is left; the metadata table must be built anew.
        HoodieCorruptedDataException: A file of the archive is damaged.
        HoodieIOException: Storage failed.
    """
    timeline = metadata_table.active_timeline
    taken = {instant.requested_time for instant in timeline}
    first = _FIRST_BESIDE_WRITERS if is_beside_writers else 0
    if not timeline.layout.has_completion_times:
        times = (f"{after}{_FIRST_SUFFIX + number:03d}" for number in range(first, _END - _FIRST_SUFFIX))
    else:
        times_of_archive = metadata_table.archived_timeline.times if timeline.has_archive else ()
        archived = {time for time in times_of_archive if is_initial_time(time)}
        taken |= archived
        last = max(map(int, archived), default=None)
        later = 0 if last is None else last + (_BESIDE_WRITERS_AFTER if is_beside_writers else 1)
        times = (f"{number:017d}" for number in chain(range(max(first, later), _END), range(first, _END)))
    for time in times:
        if time not in taken:
            return time
    raise HoodieMetadataException(
        f"the metadata table of {metadata_table.base_path} was given {_END} partitions, and cannot be given more: "
        "delete it by a write with hoodie.metadata.enable=false, and make a new one"
    )
