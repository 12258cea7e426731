"""Pictures of a table, drawn with matplotlib; `hoodie.stats` gives the numbers below them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.util.shown_table import format_bytes, plural
from hoodie.exception import HoodieException
from hoodie.stats.commit_numbers import Growth, moment_of
from hoodie.stats.of_path import numbers_of
from hoodie.storage.storage_options import StorageOptions

_KINDS = (("rows_inserted", "inserted", "#1f6f8b"), ("rows_updated", "updated", "#e0a458"))
_DELETED = ("rows_deleted", "deleted", "#b23a48")
_TOTAL = "#4d8a50"
_MAX_PARTITIONS = 40
_MIB = 1 << 20


def commits(base_path: str, *, storage_options: StorageOptions | None = None, ax: Any = None) -> Any:
    """Draw the rows that each commit of the active timeline inserted, updated and deleted, and those of the table.

    Commits stand side by side, in their order; deleted rows are drawn downwards. The line, with its axis on the right,
    has the rows of the table after each commit, as `hoodie.stats.growth` counts them.

    Args:
        base_path: The table's folder.
        storage_options: Options of the storage.
        ax: The matplotlib axes to draw on; None makes a figure.

    Returns:
        The axes (`matplotlib.axes.Axes`).

    Raises:
        HoodieException: matplotlib is not installed; or see `hoodie.stats.growth`.
    """
    numbers = numbers_of(base_path, storage_options)
    active = {row.instant_time for row in numbers.amplification()}
    found = SummaryTable(Growth, [row for row in numbers.growth() if row.instant_time in active]).to_arrow()
    axes = _axes(ax)
    places = np.arange(found.num_rows)
    below = np.zeros(found.num_rows)
    for name, label, color in _KINDS:
        heights = _numbers(found, name)
        axes.bar(places, heights, bottom=below, label=label, color=color)
        below = below + heights
    name, label, color = _DELETED
    axes.bar(places, -_numbers(found, name), label=label, color=color)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.margins(y=0.1)
    step = max(1, -(-found.num_rows // 12))
    timezone = numbers.snapshot.active_timeline.timezone
    moments = [moment_of(time, timezone) for time in found["instant_time"].to_pylist()]
    times = ["?" if moment is None else moment.strftime("%Y-%m-%d\n%H:%M:%S") for moment in moments]
    axes.set_xticks(places[::step], times[::step], fontsize="small")
    axes.set_ylabel("rows of a commit")
    axes.set_title(f"{plural(found.num_rows, 'commit')} (times in UTC)")
    after = axes.twinx()
    (line,) = after.plot(places, _numbers(found, "row_count"), color=_TOTAL, marker=".", label="rows of the table")
    after.set_ylabel("rows of the table")
    after.set_ylim(bottom=0)
    handles, labels = axes.get_legend_handles_labels()
    _legend_below(axes, [*handles, line], [*labels, line.get_label()])
    return axes


def file_sizes(base_path: str, *, storage_options: StorageOptions | None = None, ax: Any = None) -> Any:
    """Draw the size of each file group's newest slice, by partition, with the limits of file sizes.

    Each dot is a file group; the number on the right is that of the partition's file groups. The scale is logarithmic.
    Lines stand at the default limit of small files and at the default target size. Of more than 40 partitions the
    largest are drawn; the title says how many there are.

    Args:
        base_path: The table's folder.
        storage_options: Options of the storage.
        ax: The matplotlib axes to draw on; None makes a figure.

    Returns:
        The axes (`matplotlib.axes.Axes`).

    Raises:
        HoodieException: matplotlib is not installed; or see `hoodie.stats.slices`.
    """
    numbers = numbers_of(base_path, storage_options)
    found = numbers.partitions()
    axes = _axes(ax)
    shown = sorted(row.partition_path for row in [row for row in found if row.file_group_count][:_MAX_PARTITIONS])
    row_of = {partition: len(shown) - 1 - number for number, partition in enumerate(shown)}
    kept = [part for part in numbers.slices if part.partition_path in row_of]
    axes.margins(0.08)
    # The scale has no place for 0.
    sizes = [max(1, part.size_bytes) / _MIB for part in kept]
    axes.scatter(sizes, [row_of[part.partition_path] for part in kept], color=_KINDS[0][2], alpha=0.7)
    axes.set_xscale("log", base=2)
    limits = (
        ("small below", numbers.config.compaction.parquet_small_file_limit, ":"),
        ("target", numbers.config.storage.parquet_max_file_size, "--"),
    )
    for text, size, style in limits:
        axes.axvline(size / _MIB, color=_DELETED[2], linestyle=style, label=f"{text} {format_bytes(size)}")
    counts = Counter(part.partition_path for part in kept)
    for partition, row in row_of.items():
        axes.text(1.01, row, f"{counts[partition]:,}", transform=axes.get_yaxis_transform(), va="center")
    labels = [partition or "(no partitions)" for partition in shown]
    # A $ in a partition path begins no formula.
    axes.set_yticks([row_of[partition] for partition in shown], labels, parse_math=False)
    axes.xaxis.set_major_formatter(lambda size, _: format_bytes(round(size * _MIB)))
    axes.set_xlabel("size of the newest slice")
    _legend_below(axes, *axes.get_legend_handles_labels())
    total = sum(row.file_group_count > 0 for row in found)
    of = f" of {total}" if total > len(shown) else ""
    axes.set_title(
        f"{plural(len(kept), 'file group')} in {len(shown)}{of} {'partition' if len(shown) == 1 else 'partitions'}"
    )
    return axes


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        # Not installed everywhere.
        from matplotlib import pyplot
    except ImportError as error:
        raise HoodieException(
            f"hoodie.plot needs matplotlib ({error}): pip install 'hoodie[plot]'; hoodie.stats gives the numbers "
            "without it"
        ) from error
    return pyplot.subplots(figsize=(9, 4), layout="constrained")[1]


def _legend_below(axes: Any, handles: Sequence[Any], labels: Sequence[str]) -> None:
    axes.legend(handles, labels, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=len(labels))


def _numbers(table: pa.Table, name: str) -> Any:
    return table[name].fill_null(0).to_numpy()
