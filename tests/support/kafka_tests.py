"""The line of a run that tells how its tests with Kafka ended; continuous integration looks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MARK = "kafka"


def kafka_line(stats: Mapping[str, Sequence[Any]]) -> str | None:
    """The numbers of tests with a Kafka broker that passed and that did not, and the reasons of skips.

    Args:
        stats: The reports of a run by their outcome, as pytest's reporter has them.

    Returns:
        The line; None if the run has no such tests.
    """
    counts = {outcome: len(_reports(stats, outcome)) for outcome in ("passed", "failed", "error", "skipped")}
    if not any(counts.values()):
        return None
    told = [f"{count} {outcome}" for outcome, count in counts.items() if count or outcome == "passed"]
    reasons = sorted({_reason(report) for report in _reports(stats, "skipped")})
    return f"Kafka: {', '.join(told)}{''.join(f'; {reason}' for reason in reasons)}"


def _reports(stats: Mapping[str, Sequence[Any]], outcome: str) -> list[Any]:
    return [report for report in stats.get(outcome, ()) if MARK in getattr(report, "keywords", ())]


def _reason(report: Any) -> str:
    """The text of a skip."""
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(told).removeprefix("Skipped: ")
