"""Refuse to replace rows that came while the new rows were computed."""

from __future__ import annotations

from hoodie.common.model.write_operation_type import REWRITES
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant_time import in_order
from hoodie.exception import HoodieWriteConflictException

_SHOWN = 3


def refuse_unknown_writes(table: TableSnapshot, known: frozenset[str] | None) -> None:
    """Refuse to replace rows that came while the new rows were computed: the frame may not know of them.

    A write that only rewrites rows, such as the compaction before an upgrade, does not count.

    Args:
        table: The table.
        known: The completed writes that the frame may know of; None for all.

    Raises:
        HoodieWriteConflictException: There are other writes.
        HoodieException: Storage failed, or the metadata of another write is damaged.
    """
    if known is None:
        return
    timeline = table.active_timeline
    others = in_order(
        instant.requested_time
        for instant in timeline.completed_writes()
        if instant.requested_time not in known and timeline.read_commit_metadata(instant).operation_type not in REWRITES
    )
    if others:
        raise HoodieWriteConflictException(
            f"another writer changed {table.base_path} by {', '.join(others[:_SHOWN])} while the rows that replace "
            "others were computed; nothing was committed. Make sure that only one writer is active at a time, and "
            "write again: that is safe",
            other_instants=others,
            is_retry_safe=True,
        )
