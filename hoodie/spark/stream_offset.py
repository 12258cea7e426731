"""The position of a stream read of a table: an offset, as Spark stores it in the checkpoint of a query.

::

    {"kind": "start", "at": "earliest"}                          before all commits
    {"kind": "start", "at": "latest"}                            after the commits that exist at the first batch
    {"kind": "start", "at": "20260102101530123"}                 after a time that the user gave
    {"kind": "requested", "instant": "20260102101530123"}        after the commit of that instant
    {"kind": "completed", "instant": "20260102101530123"}        after the commit that was completed at that time

The first three are used only before the first batch. They do not depend on the table, because Spark asks for them again
if a query stops in its first batch. The kinds of the last two name the order in which commits are read: that of their
instants in tables of version 6, that of their completions in tables of 8 and 9. An offset of another kind is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

import attrs

from hoodie.common.table.timeline.instant_time import is_after, is_instant_time, query_time
from hoodie.exception import HoodieConfigException, HoodieException

_OPTION = "hoodie.datasource.streaming.startOffset"
BEFORE_ALL = "000"
"""The instant of the offset of a table without commits."""


class Start(StrEnum):
    """The beginning of a stream that does not begin at a time."""

    EARLIEST = "earliest"
    LATEST = "latest"


class OffsetKind(StrEnum):
    """The kind of an offset."""

    START = "start"
    REQUESTED = "requested"
    COMPLETED = "completed"


@attrs.frozen
class StreamOffset:
    """The position of a stream.

    Attributes:
        kind: Its kind.
        at: The beginning of the stream, or the instant of a commit, or the completion time of a commit.
    """

    kind: OffsetKind
    at: str

    @classmethod
    def start(cls, text: str, timezone: str) -> Self:
        """The offset of a query that begins.

        Args:
            text: The option of the user.
            timezone: The timeline's.

        Raises:
            HoodieConfigException: It is no time.
        """
        if text.strip().lower() in set(Start):
            return cls(OffsetKind.START, text.strip().lower())
        try:
            time = query_time(text, timezone, any_digits=True)
        except ValueError:
            raise HoodieConfigException(
                f"{_OPTION} is {text!r}: give earliest, latest, an instant such as 20260102101530123, or a time "
                "such as 2026-01-02 10:15:30"
            ) from None
        return cls(OffsetKind.START, time if time.strip("0") else Start.EARLIEST)

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """The offset in a checkpoint.

        Args:
            value: The value that Spark read.

        Raises:
            HoodieException: It is not an offset of a kind that this version knows.
        """
        kind, at = value.get("kind"), value.get("at", value.get("instant"))
        if kind in set(OffsetKind) and isinstance(at, str):
            known = at in set(Start) if kind == OffsetKind.START else at == BEFORE_ALL
            if known or (at.isascii() and at.isdigit() and (kind == OffsetKind.START or is_instant_time(at))):
                return cls(OffsetKind(kind), at)
        raise HoodieException(
            f"the checkpoint of the query has the offset {dict(value)}, which this version of hoodie does not know: "
            "another source or a newer version wrote it; start the query with a new checkpoint folder"
        )

    @classmethod
    def after(cls, time: str | None, kind: OffsetKind = OffsetKind.REQUESTED) -> Self:
        """The offset after a commit.

        Args:
            time: The request or completion time of the commit; None for a table without commits.
            kind: The kind of that time.
        """
        return cls(kind, time or BEFORE_ALL)

    def to_json(self) -> dict[str, str]:
        """The value that Spark stores in the checkpoint."""
        return {"kind": str(self.kind), "at" if self.kind is OffsetKind.START else "instant": str(self.at)}

    @property
    def begins_at_latest(self) -> bool:
        """Whether the stream begins after the commits that its first batch finds."""
        return self.kind is OffsetKind.START and self.at == Start.LATEST

    @property
    def time(self) -> str | None:
        """The time after which rows are read; None for all."""
        return None if self.at in (Start.EARLIEST, Start.LATEST, BEFORE_ALL) else self.at

    @property
    def commit(self) -> str | None:
        """The time of the commit that was read last; None if the offset is no commit's."""
        return None if self.kind is OffsetKind.START else self.time

    def is_after(self, other: StreamOffset) -> bool:
        """Whether this offset comes after another one in the order of commits.

        Args:
            other: The other offset.
        """
        return self.time is not None and (other.time is None or is_after(self.time, other.time))
