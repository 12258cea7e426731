"""The rule which blocks of a file slice's log files count for a reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import attrs

from hoodie.common.table.timeline.visible_instants import VisibleInstants

if TYPE_CHECKING:
    from hoodie.common.table.timeline.instant_range import InstantRange


@attrs.frozen
class LogBlockFilter:
    """Decides by the instant of a data or delete block whether it counts; command blocks always do.

    Timeline layout 1 names a log file by the base instant of its slice, so its blocks are judged one by one. Layout 2
    names it by the delta commit that wrote it: whole files are chosen when the slice is built. A table that was
    upgraded may have files of layout 1 in older slices, so readers as of a time judge blocks in both layouts.

    Attributes:
        instants: The instants that count; None if all blocks of the slice's files are committed.
        as_of: The instant of a time travel; None for the present.
        instant_range: The commits whose blocks count; None for all. A merge of all blocks needs None.

    Hudi: the check of instants in org.apache.hudi.common.table.log.BaseHoodieLogRecordReader. Differs: continues after
    a block that is too new, and does not check the instants of command blocks.
    """

    instants: VisibleInstants | None = None
    as_of: str | None = None
    instant_range: InstantRange | None = None

    @classmethod
    def of(cls, instants: VisibleInstants, as_of: str | None = None, instant_range: InstantRange | None = None) -> Self:
        """The filter of a query.

        Args:
            instants: The instants that count for readers of the table.
            as_of: The instant of a time travel; None for the present.
            instant_range: The commits whose blocks are wanted; None for all.
        """
        if instants.has_completion_times and as_of is None:
            return cls(instant_range=instant_range)
        return cls(instants, as_of, instant_range)

    def counts(self, instant_time: str) -> bool:
        """Whether data and delete blocks of an instant count.

        Args:
            instant_time: The instant that wrote them.
        """
        if self.instant_range is not None and not self.instant_range.includes(instant_time):
            return False
        if self.instants is None:
            return True
        return self.instants.is_committed(instant_time) and self.instants.is_seen_at(instant_time, self.as_of)
