"""What a table was when a write began to look at it, to be compared with what it is at the end."""

from __future__ import annotations

import attrs

from hoodie.common.table.timeline.timeline import HoodieTimeline

__all__ = ["WriteStart", "completed_write_times"]


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
        pending = timeline.commits_timeline().filter_pending()
        return cls(
            completed_write_times(timeline), frozenset(instant.requested_time for instant in pending), avro_schema
        )


def completed_write_times(timeline: HoodieTimeline) -> frozenset[str]:
    """Times of the completed instants that made or replaced files."""
    completed = timeline.commits_timeline().filter_completed_instants()
    return frozenset(instant.requested_time for instant in completed)
