"""Plan to build partitions of a metadata table beside writers."""

from __future__ import annotations

from collections.abc import Mapping

from hoodie.avro.service_metadata import HoodieIndexPartitionInfo, HoodieIndexPlan
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.metadata.writer.secondary_index_definitions import COLUMN_KEY

_NO_INSTANT = "00000000000000"


def plan_indexing(table: TableSnapshot, partitions: Mapping[str, str | None]) -> str:
    """Make the requested instant of an indexing, whatever the table has.

    Args:
        table: The table, loaded under its lock.
        partitions: The partitions, and the columns of secondary indexes.

    Returns:
        Its time.

    Raises:
        HoodieIOException: Storage failed.
    """
    timeline = table.active_timeline
    pending = timeline.commits_timeline().filter_pending().first_instant
    completed = timeline.completed_writes()
    last = (completed if pending is None else completed.before(pending.requested_time)).last_instant
    base = _NO_INSTANT if last is None else last.requested_time
    more = {path: {} if column is None else {COLUMN_KEY: column} for path, column in partitions.items()}
    infos = (HoodieIndexPartitionInfo(path, base, extra_metadata=more[path]) for path in partitions)
    plan = HoodieIndexPlan(tuple(infos))
    return timeline.create_new_instant_time(Action.INDEXING, plan)
