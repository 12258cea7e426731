"""The present holder of a lock, as a look at the lock tells."""

from __future__ import annotations

import attrs


@attrs.frozen
class LockHolding:
    """The present holder of a lock.

    Attributes:
        holder: The holder, in words.
        age_ms: The time since the lock was taken or renewed; None where nothing tells it.
        is_abandoned: Whether the holder is known to be dead: its process has ended, or its lease is over.
        version: The identity of this holding, for `LockProvider.break_lock`; "" where the lock cannot be broken.
    """

    holder: str
    age_ms: float | None = None
    is_abandoned: bool = False
    version: str = ""
