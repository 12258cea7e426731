"""Pictures of what commits did: the timeline, growth, write amplification."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.timeline.instant import Action, State
from hoodie.common.util.shown_table import format_bytes, plural
from hoodie.picture.charts import (
    Bar,
    Chart,
    Span,
    bytes_unit,
    columns,
    count_unit,
    curves,
    lanes,
    nothing,
    seconds_unit,
    time_names,
)
from hoodie.picture.picture import Picture
from hoodie.stats.commit_numbers import Growth, TimelineSpan, moment_of
from hoodie.stats.table_numbers import TableNumbers

MAX_SPANS = 400
"""The newest instants that a timeline shows."""
MAX_BARS = 120
"""The bars of commits that stand beside each other."""
_CHANGES = (("a", "inserted"), ("b", "updated"), ("c", "deleted"))
_STATES = {"COMPLETED": ("a", "completed"), "INFLIGHT": ("b", "inflight"), "REQUESTED": ("d", "requested")}


def timeline(numbers: TableNumbers, now: datetime) -> Picture:
    """The instants of the active timeline and their durations.

    Args:
        numbers: The table.
        now: The moment at which bars of pending instants end.
    """
    table = numbers.timeline()
    timezone = numbers.snapshot.active_timeline.timezone
    shown, told = _newest(table, MAX_SPANS, "instant")
    spans = []
    for row in shown:
        start = moment_of(row.instant_time, timezone)
        if start is not None:
            spans.append(_span(row, start, moment_of(row.completion_time, timezone)))
    pending = sum(row.state != State.COMPLETED.name for row in table)
    unknown = sum(
        row.state == State.COMPLETED.name and row.duration_ms is None and row.action != Action.SAVEPOINT
        for row in table
    )
    summary = f"{told}, {pending:,} pending; times in UTC"
    if unknown:
        summary += (
            f"; {plural(unknown, 'completion')} not known: version 6 has them as times of files, which a copy changes"
        )
    charts: list[Chart] = []
    if spans:
        charts.append(lanes("instants by action, from request to completion", spans, now))
        charts.append(
            _durations(
                [row for row in shown if row.duration_ms is not None and row.action != Action.SAVEPOINT], timezone
            )
        )
    else:
        charts.append(nothing("The timeline is empty."))
    legend = [_STATES[state] for state in _STATES if any(row.state == state for row in shown)]
    return Picture("timeline", "Timeline", summary, table, charts, tuple(legend))


def _span(row: TimelineSpan, start: datetime, end: datetime | None) -> Span:
    is_flag = row.action == Action.SAVEPOINT
    is_open = row.state != State.COMPLETED.name
    ended = None if is_open else (end or start)
    class_ = "f" if is_flag else _STATES[row.state][0]
    return Span(row.action, start, start if is_flag else ended, class_, _hover_of_span(row), is_flag)


def _hover_of_span(row: TimelineSpan) -> str:
    text = f"{row.action} {row.instant_time}\n{row.operation or ''} {row.state.lower()}".replace("\n ", "\n")
    if row.duration_ms is not None:
        text += f" after {seconds_unit(row.duration_ms / 1000)}"
    if row.operation is not None:
        text += (
            f"\n{_changed(row.rows_inserted or 0, row.rows_updated or 0, row.rows_deleted or 0)}"
            f"\n{plural(row.files_written or 0, 'file')}, {format_bytes(row.bytes_written or 0)}"
        )
    return text


def _changed(inserted: float, updated: float, deleted: float) -> str:
    return f"{inserted:,} inserted, {updated:,} updated, {deleted:,} deleted"


def _durations(shown: Sequence[TimelineSpan], timezone: str) -> Chart:
    timed = list(shown[-MAX_BARS:])
    if not timed:
        return nothing("No duration is known.")
    names = time_names([moment_of(row.instant_time, timezone) for row in timed])
    bars = [
        Bar(name, [("a", (row.duration_ms or 0) / 1000)], _hover_of_span(row))
        for name, row in zip(names, timed, strict=True)
    ]
    return columns(f"duration of the newest {plural(len(bars), 'instant')}", seconds_unit, bars, height=110)


def growth(numbers: TableNumbers) -> Picture:
    """The rows that commits changed, and the table after each.

    Args:
        numbers: The table.
    """
    table = numbers.growth()
    if not table:
        return Picture("growth", "Growth", "no commits", table, [nothing("No commit was completed.")])
    timezone = numbers.snapshot.active_timeline.timezone
    size = -(-len(table) // MAX_BARS)
    runs = [table[start : start + size] for start in range(0, len(table), size)]
    names = time_names([moment_of(run[-1].instant_time, timezone) for run in runs])
    last = table[-1]
    # Commits tell what log files hold, not what is left of it once it is merged.
    about = "about " if numbers.snapshot.table_config.table_type is HoodieTableType.MERGE_ON_READ else ""
    summary = (
        f"{plural(len(table), 'commit')}, archived ones too: {about}{plural(last.row_count, 'row')} in "
        f"{format_bytes(last.live_bytes)}"
    )
    if size > 1:
        summary += f"; each bar is {size:,} commits"
    bars = [Bar(name, _changes(run), _hover_of_growth(run)) for name, run in zip(names, runs, strict=True)]
    row_counts = [("la", "rows", [float(run[-1].row_count) for run in runs])]
    sizes = [("le", "bytes", [float(run[-1].live_bytes) for run in runs])]
    charts = [
        columns("rows changed by each commit" if size == 1 else "rows changed", count_unit, bars),
        curves("rows of the table after it", count_unit, names, row_counts, height=110),
        curves("bytes of the newest slices after it", bytes_unit, names, sizes, is_bytes=True, height=110),
    ]
    return Picture("growth", "Growth", summary, table, charts, _CHANGES)


def _changes(run: Sequence[Growth]) -> list[tuple[str, float]]:
    return [
        ("a", sum(row.rows_inserted for row in run)),
        ("b", sum(row.rows_updated for row in run)),
        ("c", -sum(row.rows_deleted for row in run)),
    ]


def _hover_of_growth(run: Sequence[Growth]) -> str:
    first, last = run[0], run[-1]
    named = f"{last.instant_time} {last.operation}" if len(run) == 1 else f"{first.instant_time} to {last.instant_time}"
    inserted, updated, deleted = (abs(value) for _, value in _changes(run))
    return (
        f"{named}\n{_changed(inserted, updated, deleted)}"
        f"\nafter it {plural(last.row_count, 'row')}, {format_bytes(last.live_bytes)}"
    )


def amplification(numbers: TableNumbers) -> Picture:
    """The rows and bytes that commits wrote for each row that they changed.

    Args:
        numbers: The table.
    """
    title = "Write amplification"
    table = numbers.amplification()
    if not table:
        return Picture("amplification", title, "no commits", table, [nothing("No commit was completed.")])
    timezone = numbers.snapshot.active_timeline.timezone
    shown, told = _newest(table, MAX_BARS, "commit")
    updated, written = sum(row.rows_updated for row in table), sum(row.rows_written for row in table)
    summary = told
    if updated:
        summary += f"; {written / updated:,.1f} rows written for each row that was updated, over all commits"
    names = time_names([moment_of(row.instant_time, timezone) for row in shown])
    by_rows, by_bytes = [], []
    for name, row in zip(names, shown, strict=True):
        text = (
            f"{row.instant_time} {row.operation}\n{row.rows_updated:,} updated of {row.rows_written:,} rows written, "
            f"{format_bytes(row.bytes_written)}"
        )
        by_rows.append(Bar(name, [("a", row.row_amplification or 0)], text))
        by_bytes.append(Bar(name, [("e", row.bytes_per_row or 0)], text))
    charts = [
        columns("rows written for each updated row", count_unit, by_rows, height=130),
        columns("bytes written for each changed row", bytes_unit, by_bytes, is_bytes=True, height=130),
    ]
    return Picture("amplification", title, summary, table, charts)


def _newest(found: Sequence[Any], most: int, noun: str) -> tuple[list[Any], str]:
    """The last ones, and the words that tell how many there are."""
    shown = list(found[-most:])
    told = plural(len(found), noun)
    return shown, told if len(shown) == len(found) else f"the newest {len(shown):,} of {told}"
