"""The state of a table when a write began, to be compared with its state when the write ends."""

from __future__ import annotations

import attrs

from hoodie.common.table.timeline.timeline import HoodieTimeline

__all__ = ["WriteStart"]


@attrs.frozen
class WriteStart:
    """The writes of a table at one moment.

    Attributes:
        completed: Times of the completed instants that made or replaced files.
        pending: Times of the pending ones.
        avro_schema: The table's schema as Avro JSON; None for an empty table, or if it is not needed.
    """

    completed: frozenset[str]
    pending: frozenset[str]
    avro_schema: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(cls, timeline: HoodieTimeline, avro_schema: str | None = None) -> WriteStart:
        """The writes of a timeline as it was loaded."""
        return cls(timeline.completed_writes().times, timeline.commits_timeline().filter_pending().times, avro_schema)
