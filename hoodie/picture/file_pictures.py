"""Pictures of what lies on storage: sizes, partitions, slices, overlap, versions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from hoodie.common.util.shown_table import format_bytes, plural
from hoodie.picture.charts import (
    Bar,
    Chart,
    bytes_unit,
    columns,
    count_unit,
    curves,
    map_of,
    nothing,
    ranges,
    rows,
    time_names,
)
from hoodie.picture.picture import Picture
from hoodie.stats.commit_numbers import moment_of
from hoodie.stats.file_numbers import SizeBin, SliceSize
from hoodie.stats.overlap_numbers import ColumnOverlap
from hoodie.stats.table_numbers import TableNumbers

MAX_PARTITIONS = 50
MAX_MAP_COMMITS = 40
MAX_SLICES = 40
MAX_RANGES = 80
MAX_HELD = 40
_LOG_COUNTS = ((0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, None))
_DEPTHS = ((2, "a"), (8, "b"), (math.inf, "c"))
"""The number of files that overlap, up to which a range has a colour."""
_CURVES = ("la", "lb", "le", "lf")


def sizes(numbers: TableNumbers) -> Picture:
    """The files of the newest slices by size.

    Args:
        numbers: The table.
    """
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


def partitions(numbers: TableNumbers) -> Picture:
    """The bytes of partitions, and what commits wrote into each.

    Args:
        numbers: The table.
    """
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


def slices(numbers: TableNumbers) -> Picture:
    """The log files on base files.

    Args:
        numbers: The table.
    """
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


def overlap(numbers: TableNumbers) -> Picture:
    """The files that cover a value of a column.

    Args:
        numbers: The table.
    """
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


def versions(numbers: TableNumbers) -> Picture:
    """The bytes of old file versions, by what holds them.

    Args:
        numbers: The table.
    """
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
