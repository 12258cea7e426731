"""Goals of timings: how many times the seconds of another timing of the same run something may take.

A table of goals has, for each timing that has a goal: its seconds, the ratio to the other timing, the goal, and whether
it is met. Goals whose timings a run does not have are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from benchmarks.measure import Timing

__all__ = ["Goal", "goal_lines", "ratio_and_goal"]


@attrs.frozen
class Goal:
    """The goal of one timing.

    Attributes:
        name: The timing's name.
        limit: How many times the seconds of the other timing it may take at most; or how many times faster it must be.
        beside: The name of the other timing; None if the limit is seconds.
        is_speedup: Whether the limit is how many times faster.
    """

    name: str
    limit: float
    beside: str | None = None
    is_speedup: bool = False

    def line(self, timings: Mapping[str, Timing]) -> str | None:
        """The line of the table; None if one of the timings is missing.

        Args:
            timings: All timings of the run, by name.
        """
        timing, other = timings.get(self.name), timings.get(self.beside or "")
        if timing is None or (other is None and self.beside is not None):
            return None
        start = f"{self.name:<68} {timing.median:8.3f} s  "
        if other is None:
            return f"{start}{'':<16}{'seconds':<42}{ratio_and_goal(timing.median, self.limit)}"
        if self.is_speedup:
            faster = other.median / timing.median
            return f"{start}{faster:5.2f} x faster  {self._of(other)}{ratio_and_goal(faster, self.limit, True)}"
        ratio = timing.median / other.median
        return f"{start}{ratio:5.2f} x         {self._of(other)}{ratio_and_goal(ratio, self.limit)}"

    def _of(self, other: Timing) -> str:
        return f"{other.name:<42}"


def ratio_and_goal(value: float, limit: float, at_least: bool = False) -> str:
    """A goal and whether a value meets it, as text.

    Args:
        value: The figure.
        limit: The goal.
        at_least: Whether the goal is the least value, not the most.
    """
    met = value >= limit if at_least else value <= limit
    return f"goal {limit:g}: {'met' if met else 'missed'}"


def goal_lines(goals: Iterable[Goal], timings: Iterable[Timing]) -> Iterator[str]:
    """The table of goals.

    Args:
        goals: In the order of the table.
        timings: All timings of a run.
    """
    by_name = {timing.name: timing for timing in timings}
    for goal in goals:
        if (line := goal.line(by_name)) is not None:
            yield line
