"""Decide when a metadata table is compacted or log compacted, and find the instants that hold that back.

A base file cannot give up a record again, and readers leave out records of instants that are pending in the table. So
a compaction merges only records of instants that are completed in the table:

- A delta commit that is completed in the metadata table, while its instant is pending in the table, holds compactions
  back: its writer died between the two steps, and the records may never become valid. So does one that is later than
  everything on the table's timeline, which a restore leaves for a moment.
- In table version 6 a log file belongs to the slice in its name, and a compaction at ``<t>001`` contains everything up
  to the delta commit t. So any instant up to t that is pending in the table holds it back, and any pending delta
  commit. In versions 8 and 9 a delta commit that is completed after the compaction was requested belongs to the next
  slice, whenever it began, so other pending instants do not matter.

A log compaction is held back by the same instants. In versions 8 and 9, where log files are merged in the order of the
times at which their instants began, it is also held back by every instant that is pending in the table: the records of
that instant would be merged below those of the log compaction, though they are newer.

Hudi: org.apache.hudi.metadata.HoodieBackedTableMetadataWriter (validateTimelineBeforeSchedulingCompaction,
compactIfNecessary). Differs: in versions 8 and 9 Hudi compacts as of the millisecond before the first such instant, and
log compacts beside all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.compaction_plans import (
    LOG_COMPACTION_STRATEGY,
    compaction_operations,
    delta_commits_to_compact,
    is_log_compaction_due,
)
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after, newest, next_instant_time
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.exception import HoodieMetadataException
from hoodie.metadata.reader.metadata_table_files import (
    LOG_COMPACTION_SUFFIX,
    MetadataTableFiles,
    without_log_compaction_suffix,
)

COMPACTION_SUFFIX = "001"
"""Table version 6: a compaction is named by the newest delta commit that it merges, and this suffix."""
_MAX_FILE_BYTES = 120 << 20
"""The size that Hudi's plans expect of a new base file."""
_SHOWN = 3


def held_back_by(files: MetadataTableFiles) -> list[HoodieInstant]:
    """The instants that hold a compaction back (see the module), the oldest first.

    Args:
        files: The metadata table, loaded under the table's lock.

    Returns:
        Instants of the table, or of the metadata table where the table has none of that time.
    """
    in_metadata = files.snapshot.active_timeline
    pending = {instant.requested_time: instant for instant in _pending(files)}
    waiting = delta_commits_to_compact(in_metadata)
    found = [
        pending.get(instant.requested_time, instant)
        for instant in waiting
        if not files.instants.is_committed(instant.requested_time)
    ]
    # A log compaction holds records of other delta commits; readers take it once a later instant begins.
    found = [instant for instant in found if instant.requested_time not in in_metadata.log_compactions]
    found += in_metadata.filter_actions(Action.LOG_COMPACTION).filter_pending()
    if not in_metadata.layout.has_completion_times and waiting:
        last = waiting[-1].requested_time
        found += [instant for time, instant in pending.items() if not is_after(time, last)]
        found += in_metadata.filter_actions(Action.DELTA_COMMIT).filter_pending()
    return sorted(dict.fromkeys(found), key=lambda instant: instant.sort_key)


def log_compaction_held_back_by(files: MetadataTableFiles) -> list[HoodieInstant]:
    """The instants that hold a log compaction back (see the module), the oldest first; see `held_back_by`."""
    found = held_back_by(files)
    if files.snapshot.active_timeline.layout.has_completion_times:
        found += _pending(files)
    return sorted(dict.fromkeys(found), key=lambda instant: instant.sort_key)


def _pending(files: MetadataTableFiles) -> list[HoodieInstant]:
    """The pending instants of the table that write records to its metadata table."""
    pending = files.table.active_timeline.filter_pending()
    return [instant for instant in pending if instant.action not in (Action.SAVEPOINT, Action.INDEXING)]


def is_compaction_due(files: MetadataTableFiles, config: HoodieMetadataConfig, factor: int = 1) -> bool:
    """Whether the metadata table is compacted now: there are enough delta commits, and nothing holds it back.

    Args:
        files: The metadata table, loaded under the table's lock.
        config: The number of delta commits that make a compaction due.
        factor: Multiplies that number.
    """
    count = len(delta_commits_to_compact(files.snapshot.active_timeline))
    return count >= factor * config.compact_max_delta_commits and not held_back_by(files)


def makes_compaction_due(files: MetadataTableFiles, config: HoodieMetadataConfig, instant_time: str) -> bool:
    """Whether the completion of an instant in the table makes a compaction or a log compaction due; reads no storage.

    Args:
        files: The metadata table, loaded under the table's lock before the delta commit of the instant.
        config: The numbers of delta commits that make them due.
        instant_time: The instant. It is pending in the table of `files`.
    """
    timeline = files.snapshot.active_timeline
    if len(delta_commits_to_compact(timeline)) + 1 >= config.compact_max_delta_commits:
        held_by = held_back_by(files)
    elif is_metadata_log_compaction_due(files, config, completing=1):
        held_by = log_compaction_held_back_by(files)
    else:
        return False
    return all(instant.requested_time == instant_time for instant in held_by)


def is_metadata_log_compaction_due(
    files: MetadataTableFiles, config: HoodieMetadataConfig, *, completing: int = 0
) -> bool:
    """Whether there are enough delta commits for a log compaction of a metadata table, and the writer wants them.

    Args:
        files: The metadata table, loaded under the table's lock.
        config: The number of delta commits that make a log compaction due.
        completing: The number of delta commits that are about to be completed, too.
    """
    threshold = config.log_compaction_blocks_threshold
    timeline = files.snapshot.active_timeline
    return config.log_compaction_enable and is_log_compaction_due(timeline, threshold, completing=completing)


def refuse_if_held_back(files: MetadataTableFiles, config: HoodieMetadataConfig, completing: str | None = None) -> None:
    """Raise if pending instants have held compactions back for too many delta commits.

    Args:
        files: The metadata table, loaded under the table's lock.
        config: The number of delta commits that are too many.
        completing: The instant that is completed next; nothing is refused if it is one of the pending ones.

    Raises:
        HoodieMetadataException: Compactions were held back for too long; the message names the instants.
    """
    count = len(delta_commits_to_compact(files.snapshot.active_timeline))
    if count < max(config.max_delta_commits_when_pending, config.compact_max_delta_commits):
        return
    held_by = held_back_by(files)
    if held_by and completing not in {instant.requested_time for instant in held_by}:
        raise HoodieMetadataException(
            f"the metadata table of {files.table.base_path} was not compacted for {count} delta commits, since "
            f"{_names(held_by)} is pending in the table, and "
            f"hoodie.metadata.max.deltacommits.when_pending={config.max_delta_commits_when_pending}. Nothing was "
            f"committed. If its writer is dead, roll it back (client.rollback('{held_by[0].requested_time}')); a "
            "pending compaction is to be carried out (client.compact); or raise that option"
        )


def plan_metadata_compaction(files: MetadataTableFiles) -> HoodieCompactionPlan | None:
    """Plan the compaction of all slices with log files in the partitions that the table lists; None if there are none.

    Args:
        files: The metadata table, without pending compactions.

    Raises:
        HoodieMissingFileException: A file group or base file is missing.
        HoodieCorruptedDataException: A file has a name that no file group has; or the timeline is damaged.
        HoodieIOException: Storage failed.
    """
    operations = compaction_operations(_slices(files), _MAX_FILE_BYTES)
    return HoodieCompactionPlan(tuple(operations)) if operations else None


def plan_metadata_log_compaction(
    files: MetadataTableFiles, takes: Callable[[FileSlice], bool]
) -> HoodieCompactionPlan | None:
    """Plan the log compaction of some slices in the partitions that the table lists; None if there are none.

    Args:
        files: The metadata table, without pending compactions and log compactions.
        takes: Whether the log files of a slice are merged.

    Raises:
        HoodieException: See `plan_metadata_compaction`.

    Hudi: org.apache.hudi.table.action.compact.plan.generators.HoodieLogCompactionPlanGenerator.
    """
    operations = tuple(compaction_operations(filter(takes, _slices(files)), _MAX_FILE_BYTES))
    if not operations:
        return None
    return HoodieCompactionPlan(operations, strategy=LOG_COMPACTION_STRATEGY, preserve_hoodie_metadata=True)


def compaction_time(files: MetadataTableFiles) -> str:
    """The instant time of a new compaction.

    Version 6: the newest delta commit with a suffix, so that every later delta commit is later than the compaction.
    Versions 8 and 9: a new time, which is later than everything on both timelines. By that, readers of older states of
    the table recognise a compaction that they must not see, see `MetadataTableFiles`.

    Args:
        files: The metadata table, with delta commits to compact.
    """
    return _service_time(files, COMPACTION_SUFFIX)


def log_compaction_time(files: MetadataTableFiles) -> str:
    """The instant time of a new log compaction; see `compaction_time`.

    Args:
        files: The metadata table, with delta commits to compact.
    """
    return _service_time(files, LOG_COMPACTION_SUFFIX)


def _service_time(files: MetadataTableFiles, suffix: str) -> str:
    timeline, table = files.snapshot.active_timeline, files.table.active_timeline
    if not timeline.layout.has_completion_times:
        return without_log_compaction_suffix(delta_commits_to_compact(timeline)[-1].requested_time) + suffix
    known = [instant.newest_time for one in (timeline, table) for instant in one]
    last = newest([*known, timeline.newest_archived_time(), table.newest_archived_time()])
    return next_instant_time(timeline.clock(), last, table.timezone)


def _slices(files: MetadataTableFiles) -> Iterator[FileSlice]:
    for partition_path in files.table.table_config.metadata_partitions:
        for slices in files.file_groups(partition_path).values():
            yield from slices


def _names(instants: Iterable[HoodieInstant]) -> str:
    names = [f"{instant.action} {instant.requested_time}" for instant in instants]
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
