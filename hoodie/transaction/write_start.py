"""What a table was when a write began to look at it, to be compared with what it is at the end."""

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
        avro_schema: The table's schema as Avro JSON; None of an empty table, or where nobody asks.
    """

    completed: frozenset[str]
    pending: frozenset[str]
    avro_schema: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(cls, timeline: HoodieTimeline, avro_schema: str | None = None) -> WriteStart:
        """As a timeline was loaded."""
        return cls(timeline.completed_writes().times, timeline.commits_timeline().filter_pending().times, avro_schema)
