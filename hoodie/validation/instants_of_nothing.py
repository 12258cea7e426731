"""Delta commits of a metadata table that belong to no action of its table.

An action that writes or deletes files has a delta commit of its time in the metadata table, which is withdrawn when the
action is rolled back. These delta commits have no such action, and are right all the same:

- Builds of partitions and compactions: services of the metadata table.
- In table version 6, instants with more digits than the time of another one.
- Those that Hudi wrote during a restore, to bring the metadata table up to date.
- Those of actions that are archived in the table, or began after the table was loaded.
"""

from __future__ import annotations

from collections.abc import Iterator

from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after, is_before
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles, is_initial_time

TIMELINE = "timeline"
"""The partition that differences name when they are about the instants of a metadata table."""
_DIGITS = 17
_SERVICES = (WriteOperationType.COMPACT, WriteOperationType.LOG_COMPACT)


def instants_of_nothing(files: MetadataTableFiles) -> Iterator[HoodieInstant]:
    """The completed delta commits without an instant of the table.

    Args:
        files: The metadata table.

    Raises:
        HoodieException: A file of one of the timelines is damaged, or storage failed.
    """
    table, own = files.table, files.snapshot.active_timeline
    known, restores = table.active_timeline.times, list(table.active_timeline.filter_actions(Action.RESTORE))
    start = table.active_timeline.visible_instants.start
    for instant in own.filter_actions(Action.DELTA_COMMIT).filter_completed_instants():
        time = instant.requested_time
        if time in known or is_initial_time(time) or len(time) > _DIGITS or not files.instants.is_committed(time):
            continue
        # Older actions may be archived, and archives may have been deleted.
        if start is None or not is_after(time, start) or time in table.archived_timeline.times:
            continue
        if any(_is_during(time, restore) for restore in restores):
            continue
        if own.read_commit_metadata(instant).operation_type not in _SERVICES:
            yield instant


def _is_during(time: str, restore: HoodieInstant) -> bool:
    if is_before(time, restore.requested_time):
        return False
    return restore.completion_time is None or not is_after(time, restore.completion_time)
