"""The eight pictures of a table, each with the numbers that it draws."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.table.timeline.instant import Action, State
from hoodie.common.util.shown_table import format_bytes, plural
from hoodie.common.util.shown_value import shown_value
from hoodie.exception import HoodieConfigException
from hoodie.picture.charts import (
    Bar,
    Chart,
    Span,
    bytes_unit,
    columns,
    count_unit,
    curves,
    figure,
    lanes,
    map_of,
    nothing,
    ranges,
    rows,
    seconds_unit,
    time_names,
)
from hoodie.picture.svg import Markup
from hoodie.stats.commit_numbers import Growth, TimelineSpan, moment_of
from hoodie.stats.file_numbers import SizeBin, SliceSize
from hoodie.stats.overlap_numbers import ColumnOverlap
from hoodie.stats.table_numbers import TableNumbers

MAX_SPANS = 400
"""The newest instants that a timeline shows."""
MAX_BARS = 120
"""The bars of commits that stand beside each other."""
MAX_PARTITIONS = 50
MAX_MAP_COMMITS = 40
MAX_SLICES = 40
MAX_RANGES = 80
MAX_HELD = 40
_CHANGES = (("a", "inserted"), ("b", "updated"), ("c", "deleted"))
_STATES = {"COMPLETED": ("a", "completed"), "INFLIGHT": ("b", "inflight"), "REQUESTED": ("d", "requested")}
_LOG_COUNTS = ((0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, None))
_DEPTHS = ((2, "a"), (8, "b"), (math.inf, "c"))
"""The number of files that overlap, up to which a range has a colour."""
_CURVES = ("la", "lb", "le", "lf")


@attrs.frozen(repr=False)
class Picture:
    """A drawn picture; a notebook shows it.

    Attributes:
        name: One of the names of `PICTURES`.
        title: Its title.
        summary: One sentence that says what it shows, and what was cut.
        numbers: The numbers that it draws.
        charts: Its panels.
        legend: Class and meaning of its colours.
    """

    name: str
    title: str
    summary: str
    numbers: SummaryTable[Any]
    charts: Sequence[Chart]
    legend: tuple[tuple[str, str], ...] = ()

    @property
    def svg(self) -> Markup:
        """The picture as an SVG document that needs nothing else."""
        return self.drawn(is_part=False)

    def drawn(self, *, is_part: bool) -> Markup:
        """The picture as SVG.

        Args:
            is_part: Whether it is part of a page, which has the style of all pictures, title and summary.
        """
        return figure(self.name, self.title, self.summary, self.charts, self.legend, is_part=is_part)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the SVG into a file, which is replaced as a whole.

        Args:
            path: The file.

        Raises:
            OSError: It cannot be written.
        """
        save_text(path, self.svg)

    def __repr__(self) -> str:
        return f"<Picture {self.name!r}: {self.summary}>"

    def _repr_html_(self) -> str:
        return self.svg


def save_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file of text; another program sees it whole or not at all.

    Args:
        path: The file.
        text: Its content.

    Raises:
        OSError: It cannot be written.
    """
    file = Path(path)
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def draw(numbers: TableNumbers, name: str, now: datetime | None = None) -> Picture:
    """Draw a picture.

    Args:
        numbers: The table.
        name: One of `PICTURES`.
        now: The moment at which bars of pending instants end; by default the present.

    Raises:
        HoodieConfigException: There is no such picture.
        HoodieException: Numbers cannot be read.
    """
    if name not in PICTURES:
        raise HoodieConfigException(f"there is no picture {shown_value(name)}: give one of {', '.join(PICTURES)}")
    return _timeline(numbers, now) if name == "timeline" else PICTURES[name](numbers)


def _newest(found: Sequence[Any], most: int, noun: str) -> tuple[list[Any], str]:
    """The last ones, and the words that tell how many there are."""
    shown = list(found[-most:])
    told = plural(len(found), noun)
    return shown, told if len(shown) == len(found) else f"the newest {len(shown):,} of {told}"


# --- timeline -----------------------------------------------------------------------------------------------------


def _timeline(numbers: TableNumbers, now: datetime | None = None) -> Picture:
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
        charts.append(lanes("instants by action, from request to completion", spans, now or datetime.now(UTC)))
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


# --- commits ------------------------------------------------------------------------------------------------------


def _growth(numbers: TableNumbers) -> Picture:
    table = numbers.growth()
    if not table:
        return Picture("growth", "Growth", "no commits", table, [nothing("No commit was completed.")])
    timezone = numbers.snapshot.active_timeline.timezone
    size = -(-len(table) // MAX_BARS)
    runs = [table[start : start + size] for start in range(0, len(table), size)]
    names = time_names([moment_of(run[-1].instant_time, timezone) for run in runs])
    last = table[-1]
    summary = (
        f"{plural(len(table), 'commit')}, archived ones too: {plural(last.row_count, 'row')} in "
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


def _amplification(numbers: TableNumbers) -> Picture:
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


# --- files --------------------------------------------------------------------------------------------------------


def _sizes(numbers: TableNumbers) -> Picture:
    table = numbers.sizes()
    if not table:
        return Picture("sizes", "File sizes", "no files", table, [nothing("The table has no files.")])
    limit = numbers.config.compaction.parquet_small_file_limit
    target = numbers.config.storage.parquet_max_file_size
    bins = list(table)
    while bins[-1].to_bytes <= target:
        bins.append(SizeBin(bins[-1].to_bytes, 2 * bins[-1].to_bytes, 0, 0, 0))
    small = [part.base_file.size_bytes < limit for part in numbers.slices if part.base_file is not None]
    log_files = sum(row.log_file_count for row in table)
    summary = f"{plural(len(small), 'base file')}, {sum(small):,} of them below the limit of small files"
    summary += f"; {plural(log_files, 'log file')}" if log_files else ""
    bars = []
    for found in bins:
        text = (
            f"{bytes_unit(found.from_bytes)} to {bytes_unit(found.to_bytes)}\n{format_bytes(found.size_bytes)} in "
            f"{plural(found.base_file_count, 'base file')} and {plural(found.log_file_count, 'log file')}"
        )
        parts = [("a", float(found.base_file_count)), ("b", float(found.log_file_count))]
        bars.append(Bar(f"{bytes_unit(found.from_bytes)}+", parts, text))
    marks = [
        (_place_of(bins, size), f"{text}: {bytes_unit(size)}")
        for size, text in ((limit, "small below"), (target, "target"))
        if size >= bins[0].from_bytes
    ]
    charts = [columns("files of the newest slices, by size", count_unit, bars, marks)]
    return Picture("sizes", "File sizes", summary, table, charts, (("a", "base files"), ("b", "log files")))


def _place_of(bins: Sequence[SizeBin], size: int) -> float:
    """The place of a size on an axis of bins: within a bin by its share of it."""
    for number, found in enumerate(bins):
        if found.from_bytes <= size < found.to_bytes:
            return number + (size - found.from_bytes) / (found.to_bytes - found.from_bytes)
    return float(len(bins))


def _partitions(numbers: TableNumbers) -> Picture:
    table = numbers.partitions()
    if not table:
        return Picture("partitions", "Partitions", "no partitions", table, [nothing("The table has no partitions.")])
    timezone = numbers.snapshot.active_timeline.timezone
    shown = table[:MAX_PARTITIONS]
    told = plural(len(table), "partition")
    summary = told if len(shown) == len(table) else f"the {len(shown)} largest of {told}"
    summary += f"; the largest has {table[0].share or 0:.0%} of the bytes"
    bars = [
        Bar(
            row.partition_path or "(no partitions)",
            [("a", row.size_bytes)],
            f"{row.partition_path}\n{plural(row.file_group_count, 'file group')}, {format_bytes(row.size_bytes)}"
            f"\nnewest slice {row.newest_instant_time}",
            format_bytes(row.size_bytes),
        )
        for row in shown
    ]
    charts = [rows("bytes of the newest slices", bytes_unit, bars, is_bytes=True)]
    times = list(dict.fromkeys(write.instant_time for write in numbers.writes))[-MAX_MAP_COMMITS:]
    place_of = {row.partition_path: number for number, row in enumerate(shown)}
    column_of = {time: number for number, time in enumerate(times)}
    cells = [
        (
            place_of[write.partition_path],
            column_of[write.instant_time],
            float(write.bytes_written),
            f"{write.instant_time}: {format_bytes(write.bytes_written)}, {plural(write.rows_changed, 'row')} changed",
        )
        for write in numbers.writes
        if write.partition_path in place_of and write.instant_time in column_of and write.bytes_written > 0
    ]
    if cells:
        names = time_names([moment_of(time, timezone) for time in times])
        title = f"bytes written by the newest {plural(len(times), 'commit')}: the stronger the colour, the more"
        charts.append(map_of(title, [row.partition_path or "(no partitions)" for row in shown], names, cells))
    return Picture("partitions", "Partitions", summary, table, charts)


def _slices(numbers: TableNumbers) -> Picture:
    title = "File slices"
    table = numbers.slices_by_size()
    if not table:
        return Picture("slices", title, "no file groups", table, [nothing("The table has no file groups.")])
    base, logs = sum(row.base_bytes for row in table), sum(row.log_bytes for row in table)
    with_logs = sum(row.log_file_count > 0 for row in table)
    summary = (
        f"{plural(len(table), 'file group')}, {with_logs:,} with log files: {format_bytes(logs)} of log files beside "
        f"{format_bytes(base)} of base files"
    )
    legend = (("a", "base file"), ("b", "log files"))
    charts = [_log_counts(table)]
    if with_logs:
        shown = [row for row in table[:MAX_SLICES] if row.log_file_count]
        bars = [
            Bar(_name_of(row), [("a", row.base_bytes), ("b", row.log_bytes)], _hover_of_slice(row), _note_of(row))
            for row in shown
        ]
        of = f" of {with_logs:,}" if with_logs > len(shown) else ""
        charts.append(
            rows(
                f"bytes of the {len(shown)}{of} slices with the most in log files",
                bytes_unit,
                bars,
                is_bytes=True,
                right=250,
            )
        )
    return Picture("slices", title, summary, table, charts, legend if with_logs else ())


def _log_counts(table: Sequence[SliceSize]) -> Chart:
    counts = Counter(row.log_file_count for row in table)
    most = max(counts)
    bars = []
    for low, high in _LOG_COUNTS:
        if low > most and low:
            break
        count = sum(number for size, number in counts.items() if low <= size and (high is None or size <= high))
        name = f"{low}" if low == high else f"{low} or more" if high is None else f"{low} to {high}"
        bars.append(Bar(name, [("a" if low == 0 else "b", count)], f"{name} log files: {plural(count, 'file group')}"))
    return columns("file groups by their number of log files", count_unit, bars, height=110)


def _name_of(row: SliceSize) -> str:
    return f"{row.partition_path}/{row.file_id[:8]}" if row.partition_path else row.file_id[:8]


def _note_of(row: SliceSize) -> str:
    note = plural(row.log_file_count, "log file")
    note += (
        f", reads {row.read_amplification:.1f} times the base"
        if row.read_amplification is not None
        else ", no base file"
    )
    return note


def _hover_of_slice(row: SliceSize) -> str:
    return (
        f"{row.partition_path}\n{row.file_id}\nbase file {format_bytes(row.base_bytes)}, "
        f"{plural(row.log_file_count, 'log file')} {format_bytes(row.log_bytes)}"
        f"\nslice of {row.base_instant_time}, {plural(row.writes_since, 'write')} since"
    )


def _overlap(numbers: TableNumbers) -> Picture:
    title = "Overlap of files"
    found = numbers.column_overlaps()
    table = numbers.summary_of(found)
    known = [column for column in found if column.summary.file_count]
    if not known:
        return Picture(
            "overlap", title, "no ranges of columns", table, [nothing("No base file tells ranges of these columns.")]
        )
    first = known[0]
    summary = "; ".join(
        f"{column.summary.column}: {column.summary.mean_depth:,.1f} files cover a value" for column in known
    )
    if first.summary.left_out:
        summary += f"; without {plural(first.summary.left_out, 'file')}"
    lines = [
        (class_, column.summary.column, _sampled(column.curve)) for class_, column in zip(_CURVES, known, strict=False)
    ]
    where = f" of partition {first.partition_path}" if first.partition_path else ""
    title_of_curves = f"files{where} that cover a value, from the smallest value to the largest"
    charts = [curves(title_of_curves, count_unit, ["", ""], lines), _ranges(first, where)]
    legend = tuple((class_.replace("l", ""), name) for class_, name, _ in lines)
    return Picture("overlap", title, summary, table, charts, legend)


def _sampled(depths: Sequence[int], most: int = 300) -> list[float]:
    size = -(-len(depths) // most)
    return [float(max(depths[start : start + size])) for start in range(0, len(depths), size)]


def _ranges(column: ColumnOverlap, where: str) -> Chart:
    step = -(-len(column.ranges) // MAX_RANGES)
    shown = column.ranges[::step]
    every = "" if step == 1 else f", one file of {step}"
    spans = []
    for found in shown:
        class_ = next(class_ for most, class_ in _DEPTHS if found.depth <= most)
        text = f"{found.file_id}\n{found.label}\noverlaps {plural(found.depth - 1, 'other file')}"
        spans.append((found.start, found.end, class_, text))
    return ranges(f"range of {column.summary.column} in the files{where}{every}", spans)


def _versions(numbers: TableNumbers) -> Picture:
    title = "Versions"
    table = numbers.versions()
    total = sum(row.size_bytes for row in table)
    if not total:
        return Picture("versions", title, "no files", table, [nothing("The table has no files.")])
    free = next(row.size_bytes for row in table if row.held_by == "a clean would delete them")
    summary = (
        f"{format_bytes(total)} on storage, {format_bytes(table[0].size_bytes)} of them in the newest slices; a clean "
        f"would free {format_bytes(free)}"
    )
    classes = {"newest slices": "a", "a clean would delete them": "c", "kept by hoodie.clean.*": "b"}
    shown = [*table[: MAX_HELD - 2], *table[max(MAX_HELD - 2, len(table) - 2) :]]
    bars = [
        Bar(
            row.held_by,
            [(classes.get(row.held_by, "f"), row.size_bytes)],
            f"{row.held_by}: {plural(row.file_count, 'file')}, {format_bytes(row.size_bytes)}",
            f"{format_bytes(row.size_bytes)}, {plural(row.file_count, 'file')}",
        )
        for row in shown
    ]
    return Picture(
        "versions", title, summary, table, [rows("bytes by what holds them", bytes_unit, bars, is_bytes=True)]
    )


PICTURES: dict[str, Callable[[TableNumbers], Picture]] = {
    "timeline": _timeline,
    "growth": _growth,
    "amplification": _amplification,
    "sizes": _sizes,
    "partitions": _partitions,
    "slices": _slices,
    "overlap": _overlap,
    "versions": _versions,
}
"""Name of a picture -> what draws it."""
