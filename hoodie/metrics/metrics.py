"""The steps of a write, named and timed.

Hudi: org.apache.hudi.metrics.HoodieMetrics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import attrs

__all__ = ["HoodieMetrics", "StepDuration"]


@attrs.frozen
class StepDuration:
    """One step that has ended.

    Attributes:
        name: What it did, such as ``tag location (SIMPLE)``.
        seconds: How long it took.
    """

    name: str
    seconds: float


class HoodieMetrics:
    """Times steps; each step of the write is one of them.

    Args:
        job: Names what the engine runs inside a step, such as `HoodieEngineContext.job`.
        on_step: Called with every step that has ended.

    Hudi: org.apache.hudi.metrics.HoodieMetrics.
    """

    def __init__(
        self,
        job: Callable[[str], AbstractContextManager[None]] | None = None,
        on_step: Callable[[StepDuration], None] | None = None,
    ) -> None:
        self._job = job or (lambda description: nullcontext())
        self._on_step = on_step
        self.steps: list[StepDuration] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what is done inside; a step that fails is timed as well."""
        started = time.monotonic()
        try:
            with self._job(f"hoodie: {name}"):
                yield
        finally:
            duration = StepDuration(name, time.monotonic() - started)
            self.steps.append(duration)
            if self._on_step is not None:
                self._on_step(duration)
