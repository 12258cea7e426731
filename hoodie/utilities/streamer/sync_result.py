"""The outcome of one round."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class SyncResult:
    """The outcome of one round of the streamer.

    Attributes:
        instant_time: The instant that holds the rows and the position; None if nothing was committed.
        rows: The number of rows that were written, deletes included.
        size_bytes: The size of the rows at the source; None if it is not known.
        position_before: The position that the round began at; None for none.
        position_after: The position after it.
        error_count: The number of messages and rows that became errors.
        backlog: The number of rows, files or instants that wait at the source; None if it is not known.
        seconds: The duration of each step: ``resume``, ``fetch``, ``write``, ``errors``, ``commit``, ``sync``, and
            ``total``.
        details: Further numbers of the source, by Hudi's names of gauges.
        service_errors: Errors of table services, callbacks and catalogs after the commit, which stands; of
            catalogs after a round without a commit.
    """

    instant_time: str | None = None
    rows: int = 0
    size_bytes: int | None = None
    position_before: str | None = None
    position_after: str | None = None
    error_count: int = 0
    backlog: int | None = None
    seconds: Mapping[str, float] = attrs.field(factory=dict)
    details: Mapping[str, int] = attrs.field(factory=dict)
    service_errors: tuple[str, ...] = ()

    @property
    def is_committed(self) -> bool:
        """Whether an instant was completed."""
        return self.instant_time is not None
