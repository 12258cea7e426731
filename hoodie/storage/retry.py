"""The policy for repeating calls of a remote store after a transient failure."""

from __future__ import annotations

import random

import attrs


@attrs.frozen
class RetryPolicy:
    """The number of repetitions of a call that failed for a transient reason, and the pauses between them.

    The pause doubles from ``initial_interval_ms`` to ``max_interval_ms``. Each pause is shortened by a random part of
    up to one half, so that many tasks do not repeat their calls at the same moment.

    Attributes:
        max_retries: The number of calls after the first; 0 for none.
        initial_interval_ms: The longest pause before the first repetition.
        max_interval_ms: The longest pause before any repetition.
    """

    max_retries: int = 10
    initial_interval_ms: int = 100
    max_interval_ms: int = 2000

    def pause_seconds(self, attempt: int) -> float:
        """The pause after the given attempt (1 is the first) has failed."""
        longest_ms = min(self.initial_interval_ms * 2 ** min(attempt - 1, 30), self.max_interval_ms)
        return float(random.uniform(longest_ms / 2, longest_ms)) / 1000
