"""Find rows of a write that readers would place above rows of a later write, or below rows that the write knew.

In versions 8 and 9 readers merge the log files of a slice in the order in which their instants were requested. A
compaction merges the log files that were completed before it was requested. So the order of the rows of two writes that
do not block each other may depend on whether a compaction came in between::

    10 requested ------------------------- completed 25
         12 requested -- completed 20
                                22 compaction                  before it: 10, 12     after it: (12), 10

Then the write that was requested first must not be completed, unless the order of rows does not matter.

Hudi has no such check: there a compaction changes which row is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after
from hoodie.merge.merge_modes import checked_merging
from hoodie.merge.payload_rules import MergeMode
from hoodie.transaction.concurrent_operation import ConcurrentOperation, FileGroupKey, WriteStart


def is_ordered_by_value(table_config: HoodieTableConfig) -> bool:
    """Whether the ordering values decide between rows of one key, in whatever order these were written.

    Deletes do not follow this rule: a row that a compaction has deleted leaves no ordering value behind.

    Args:
        table_config: The properties of a table of version 8 or 9.

    Raises:
        HoodieNotSupportedException: The table merges records in a way that hoodie does not know.
    """
    merging = checked_merging(table_config.table_name, table_config.properties, table_config.table_version)
    return merging.mode is MergeMode.EVENT_TIME_ORDERING and bool(table_config.ordering_fields)


def overtaken_groups(
    timeline: HoodieActiveTimeline,
    this: ConcurrentOperation,
    others: Iterable[ConcurrentOperation],
    start: WriteStart,
    *,
    by_value: bool,
) -> Mapping[HoodieInstant, frozenset[FileGroupKey]]:
    """Writes with a later time whose rows are read in another order than their times say, with the file groups.

    Args:
        timeline: The current timeline, of layout 2.
        this: The write that is about to be completed, or was just completed.
        others: Completed writes that may stand beside it.
        start: The state of the table when this write began.
        by_value: Whether the ordering values decide; see `is_ordered_by_value`.

    Raises:
        HoodieCorruptedDataException: A compaction's plan or commit is damaged.
        HoodieIOException: Storage failed.
    """
    time, end = this.instant.requested_time, this.instant.completion_time
    found: dict[HoodieInstant, frozenset[FileGroupKey]] = {}
    compactions: list[tuple[str, frozenset[FileGroupKey]]] | None = None
    for other in others:
        groups = this.appended & other.appended
        if by_value:
            groups &= this.deleted | other.deleted
        completed = other.instant.completion_time
        if not groups or completed is None or not is_after(other.instant.requested_time, time):
            continue
        if other.instant.requested_time in start.completed:
            # The other write was completed when this write began.
            found[other.instant] = groups
            continue
        if compactions is None:
            compactions = _compactions_between(timeline, time, end)
        taken = frozenset[FileGroupKey]().union(
            *(compacted for requested, compacted in compactions if is_after(requested, completed))
        )
        if groups & taken:
            found[other.instant] = groups & taken
    return found


def _compactions_between(
    timeline: HoodieActiveTimeline, after: str, end: str | None
) -> list[tuple[str, frozenset[FileGroupKey]]]:
    """The compactions that were requested between two times, each with its file groups.

    The completed commits of a merge-on-read table are its compactions.
    """
    return [
        (instant.requested_time, ConcurrentOperation.load(timeline, instant).file_groups)
        for instant in timeline.filter_actions(Action.COMPACTION, Action.COMMIT)
        if is_after(instant.requested_time, after) and (end is None or not is_after(instant.requested_time, end))
    ]
