"""The commits whose rows are wanted.

Hudi: org.apache.hudi.common.table.log.InstantRange.
"""

from __future__ import annotations

import operator
from functools import reduce

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.record_columns import COMMIT_TIME_META
from hoodie.common.table.timeline.instant_time import in_order, is_after


@attrs.frozen
class InstantRange:
    """A set of instants: those after one and up to another, or named ones. A range without limits has all instants.

    Tables without meta columns have rows without a commit time. No range holds such a row.

    Attributes:
        after: The last instant before the range; None for no limit.
        until: The last instant of the range; None for no limit.
        named: The only instants that count; None for no limit.

    Hudi: org.apache.hudi.common.table.log.InstantRange. Differs: one class for its kinds of ranges.
    """

    after: str | None = None
    until: str | None = None
    named: frozenset[str] | None = None

    def includes(self, instant_time: str) -> bool:
        """Whether an instant is one of them."""
        return (
            (self.after is None or is_after(instant_time, self.after))
            and (self.until is None or not is_after(instant_time, self.until))
            and (self.named is None or instant_time in self.named)
        )

    def is_behind(self, instant_time: str) -> bool:
        """Whether all of them are surely later than an instant."""
        if self.named is not None:
            return all(is_after(time, instant_time) for time in self.named)
        return self.after is not None and not is_after(instant_time, self.after)

    def holds(self, commit_times: pa.Array) -> pa.Array:
        """True for rows that these instants wrote.

        Args:
            commit_times: ``_hoodie_commit_time`` of the rows (string).

        Returns:
            A boolean for each row, never null.
        """
        found = pc.is_valid(commit_times)
        if self.after is not None:
            found = pc.and_(found, pc.fill_null(pc.greater(commit_times, self.after), False))
        if self.until is not None:
            found = pc.and_(found, pc.fill_null(pc.less_equal(commit_times, self.until), False))
        if self.named is not None:
            found = pc.and_(found, pc.is_in(commit_times, value_set=pa.array(sorted(self.named), pa.string())))
        return found

    @property
    def condition(self) -> pc.Expression | None:
        """The condition on ``_hoodie_commit_time`` of rows that these instants wrote; None for all rows."""
        commit_time = pc.field(COMMIT_TIME_META)
        found = []
        if self.after is not None:
            found.append(commit_time > self.after)
        if self.until is not None:
            found.append(commit_time <= self.until)
        if self.named is not None:
            found.append(commit_time.isin(pa.array(in_order(self.named), pa.string())))
        return reduce(operator.and_, found) if found else None
